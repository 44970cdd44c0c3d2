"""Reference laws: what every output law is near to, drawn from a fixed number of uniform words."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Floats, Words
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.own_region import OwnRegion
from shuffledp.mechanisms.parts.reference import WORDS_OF_AN_INTEGER, integers_below, log_above
from shuffledp.numerics.ball import above


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


class UniformReference(Mechanism):
    """The message is uniform, or else uniform on the input's region: the reference law ρ is uniform on all messages.

    Theorem: [LC] Section 3: R(x) is within e^{±ε} of ρ for ε = max(log inside, −log outside), probabilities in units of
    the uniform one; the acceptance probability R(x)(y)/(C·ρ(y)), C = inside, is 1 in the region.
    """

    @property
    @abstractmethod
    def region(self) -> OwnRegion:
        """The law."""

    @abstractmethod
    def owns(self, values: Array, messages: Array) -> NDArray[np.bool_]:
        """Whether each message is in the region of the value beside it."""

    @property
    @abstractmethod
    def reference_words(self) -> int:
        """How many uniform 64-bit words one uniform message consumes."""

    @abstractmethod
    def reference_messages(self, words: Words) -> Array:
        """A uniform message for each row of uniform words."""

    @property
    def reference_ratio(self) -> float:
        return above(self.region.inside)

    @property
    def deletion_epsilon(self) -> float:
        return log_above(max(self.region.inside, 1 / self.region.outside))

    @property
    def acceptance_error(self) -> float:
        return 0.0

    def acceptance(self, values: Array, messages: Array) -> Floats:
        ratio = Fraction(self.reference_ratio)
        inside, outside = float(self.region.inside / ratio), float(self.region.outside / ratio)
        return np.where(self.owns(values, messages), inside, outside)


class UniformNumber(UniformReference):
    """The same for messages that are numbers below ``outputs``."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many different messages there are."""

    @property
    def reference_words(self) -> int:
        return WORDS_OF_AN_INTEGER

    def reference_messages(self, words: Words) -> Array:
        return integers_below(self.outputs, words)
