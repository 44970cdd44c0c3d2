"""What an object may offer to a bound. Bounds ask for these, never for a class or a name."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from flint import arb
from numpy.typing import NDArray

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

    The blanket is the pointwise infimum of the output laws over all inputs, or a smaller law. Empty where unknown.
    """

    def blankets(self) -> Sequence[HidingPair]: ...


@runtime_checkable
class GivesAssumption(Protocol):
    """Is private only under an assumption beyond mathematics, such as that a cipher is unbroken."""

    @property
    def assumption(self) -> str:
        """What must hold, in one or two sentences."""


@runtime_checkable
class GivesReference(Protocol):
    """Every output law R(x) is within a bounded ratio of one reference law ρ that needs no input."""

    @property
    def reference_ratio(self) -> float:
        """C: at least the largest R(x)(y)/ρ(y) over all inputs and messages, rounded up."""

    @property
    def deletion_epsilon(self) -> float:
        """Every R(x) is within e^{±this} of ρ, rounded up."""

    @property
    def reference_words(self) -> int:
        """How many uniform 64-bit words one draw from ρ consumes."""

    def reference_messages(self, words: NDArray[np.uint64]) -> NDArray[Any]:
        """One message of law ρ per row of ``reference_words`` uniform words; the same words give the same message."""

    def acceptance(self, values: NDArray[Any], messages: NDArray[Any]) -> NDArray[np.float64]:
        """R(x)(y)/(C·ρ(y)), between 0 and 1, for each row's checked value x and message y.

        Right to a relative 2^-50 and up to e^acceptance_error too large, what the law of ``reference_messages`` lacks
        to ρ included.
        """

    @property
    def acceptance_error(self) -> float:
        """κ: the log of the largest factor by which ``acceptance`` may be too large; 0 where it is computed exactly."""


@runtime_checkable
class GivesApproximateReference(GivesReference, Protocol):
    """The same for a randomizer that is private only up to δ: ``acceptance`` may exceed 1 where a ratio exceeds C."""

    @property
    def deletion_delta(self) -> float:
        """Every R(x) and ρ are (deletion_epsilon, this)-close both ways; C is e^deletion_epsilon, rounded up."""

    @property
    def replacement_epsilon(self) -> float:
        """Every two output laws are (this, replacement_delta)-close."""

    @property
    def replacement_delta(self) -> float: ...


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
class GivesNoisyOthers(Protocol):
    """Sends real messages that are noisy themselves, besides the messages that hide them."""

    def noisy_others(self, messages: int) -> tuple[int, Fraction]:
        """Where ``messages`` hide each other: how many real messages others sent, and λ.

        λ is a chance with which each of them, whatever its value, is one more message with the law of what hides.
        """
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


@runtime_checkable
class GivesNeighbours(Protocol):
    """A metric mechanism: near inputs are better protected than far ones, and it says how well."""

    def between(self, first: Any, second: Any) -> Neighbours:
        """What is known of one pair of inputs."""
        ...

    def within(self, diameter: float) -> Neighbours:
        """What holds for every two inputs at most this far apart, in the unit of the inputs."""
        ...
