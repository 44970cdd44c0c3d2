"""What an object may offer to a bound. Bounds ask for these, never for a class or a name."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, runtime_checkable

from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio


@runtime_checkable
class GivesVariationRatio(Protocol):
    """Knows its (p, β)-variation and q-ratio, each for every pair of inputs and every other user."""

    def variation_ratio(self) -> VariationRatio: ...


@runtime_checkable
class GivesAttacks(Protocol):
    """Knows the exact pairs of some real datasets: ``hiding`` is the law of the others' messages.

    The others may all hold one value, or values drawn independently from any law: some dataset attains the average.
    """

    def attacks(self) -> Sequence[HidingPair]: ...


@runtime_checkable
class GivesCoin(Protocol):
    """Knows whether it has only two messages, and then the extreme probabilities of one of them over all inputs."""

    def coin_range(self) -> tuple[Fraction, Fraction] | None: ...


@runtime_checkable
class GivesBlankets(Protocol):
    """Knows, for each kind of input pair that may be the worst one, its pair against the privacy blanket.

    The blanket is the pointwise infimum of the output laws over all inputs, or a smaller law.
    """

    def blankets(self) -> Sequence[HidingPair]: ...
