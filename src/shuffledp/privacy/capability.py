"""What an object may offer to a bound. Bounds ask for these, never for a class or a name."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from flint import arb

from shuffledp.privacy.neighbours import Neighbours
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


@runtime_checkable
class GivesNeighbours(Protocol):
    """A metric mechanism: near inputs are better protected than far ones, and it says how well."""

    def between(self, first: Any, second: Any) -> Neighbours:
        """What is known of one pair of inputs."""
        ...

    def within(self, diameter: float) -> Neighbours:
        """What holds for every two inputs at most this far apart, in the unit of the inputs."""
        ...


@runtime_checkable
class GivesHidingMessages(Protocol):
    """Knows how many messages hide each other when its users send several each."""

    def hiding_messages(self, users: int) -> int:
        """Messages of ``users`` honest users that hide each other, the victim's own one included."""
        ...

    def attack_messages(self, users: int) -> int:
        """The same in the datasets of ``attacks``."""
        ...


@runtime_checkable
class GivesPublishedGuarantee(Protocol):
    """Knows what its own paper promises."""

    published_theorem: str

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        """The printed ε at δ for this many messages that hide each other, or NotApplicable."""
        ...


def hiding_messages(randomizer: object, users: int) -> int:
    """How many messages hide each other; one from each user unless the randomizer knows better."""
    return randomizer.hiding_messages(users) if isinstance(randomizer, GivesHidingMessages) else users


def attack_messages(randomizer: object, users: int) -> int:
    """The same number in the datasets of the randomizer's attacks."""
    return randomizer.attack_messages(users) if isinstance(randomizer, GivesHidingMessages) else users
