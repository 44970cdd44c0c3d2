"""What a calibration has to meet: how far a privacy curve is from it, roughly and certified."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from shuffledp import argument
from shuffledp.document import epsilon_is, typed
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.value import BoundValue
from shuffledp.tradeoff.risk import Risk

WHO = "calibrate"
SMALLEST = 5e-324

Reached = BoundValue | Risk
"""The certified number of a curve that a target limits."""


@dataclass(frozen=True)
class Sharpness:
    """How closely a search brackets the last value that meets the target, relative to it."""

    real: float
    composed: float
    """For composed curves, which are slow to come by and not that sharp."""
    whole: float
    """For whole numbers, whose neighbours are to be told apart."""


@dataclass(frozen=True)
class Excess:
    """How far a curve is from a target: at most 0 exactly where it is met, growing towards less privacy."""

    size: float
    reached: Reached | None = None
    """The number that the target limits, where it is known already."""


class CurveTarget(ABC):
    """A limit on what a privacy curve gives away, such as ``Target`` and ``RiskTarget``.

    ``calibrate`` turns a setting until ``excess`` is at most 0, and takes no value whose certified number is not
    ``met``. Whatever else a target says only tells the search where to look.
    """

    sharpness: ClassVar[Sharpness]
    by_factors: ClassVar[bool] = False
    """Whether real settings are searched on a logarithmic scale."""

    @abstractmethod
    def excess(self, curve: PrivacyCurve, *, composed: bool = False) -> Excess:
        """How far a curve is from meeting it, by certified numbers; ``composed`` curves may have a quicker way."""

    @abstractmethod
    def reached(self, curve: PrivacyCurve) -> Reached:
        """The certified number that it limits."""

    @abstractmethod
    def met(self, reached: Reached) -> bool:
        """Whether that number is within the limit."""

    @abstractmethod
    def shortfall(self, reached: Reached) -> float:
        """By what share of the limit a number misses it: how far to give way."""

    @abstractmethod
    def rough_excess(self, log_deviation: float) -> float:
        """About how far the loss of a normal variable of this log standard deviation is from it; proves nothing."""

    @abstractmethod
    def text(self, reached: Reached) -> str:
        """The number in few digits, rounded so that what is read still holds."""

    def range_of(self, tuning: Tuning) -> Tuning:
        """Where a setting is searched."""
        return tuning

    def start(self, tuning: Tuning) -> float | None:
        """A value to look at first; None where the normal approximation says it."""
        del tuning
        return None


@dataclass(frozen=True)
class Target(CurveTarget):
    """The central (ε, δ) that the shuffled output must satisfy.

    ``epsilon``: above 0 and finite. ``delta``: between 0 and 1, both excluded.

    >>> from shuffledp.calibration.target import Target
    >>> print(Target(1.0, 1e-8))
    ε = 1 at δ = 1e-8
    """

    epsilon: float
    delta: float

    sharpness: ClassVar[Sharpness] = Sharpness(real=2e-5, composed=3e-4, whole=1e-7)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", argument.positive_finite("Target", "epsilon", self.epsilon))
        object.__setattr__(self, "delta", argument.open_probability("Target", "delta", self.delta))

    def __str__(self) -> str:
        return f"ε = {typed(self.epsilon)} at δ = {typed(self.delta)}"

    def excess(self, curve: PrivacyCurve, *, composed: bool = False) -> Excess:
        """By the certified δ at ε, nearly linear in what the search turns; for a composed curve ε at δ is quicker."""
        if composed:
            value = self.reached(curve)
            return Excess(_signed(_log(value.upper / self.epsilon), value.upper <= self.epsilon), value)
        delta = self._delta(curve)
        if delta <= 0:
            return Excess(-math.inf)
        return Excess(_signed(_score(self.delta) - _score(delta), delta <= self.delta))

    def _delta(self, curve: PrivacyCurve) -> float:
        """The certified δ at ε, as sharp as it takes to tell on which side of the target it is."""
        upper, lower = curve.quick_delta(self.epsilon)
        return curve.delta(self.epsilon).upper if lower <= self.delta < upper else upper

    def reached(self, curve: PrivacyCurve) -> BoundValue:
        """The certified ε at δ."""
        return curve.epsilon(self.delta)

    def met(self, reached: Reached) -> bool:
        assert isinstance(reached, BoundValue)
        return reached.upper <= self.epsilon

    def shortfall(self, reached: Reached) -> float:
        assert isinstance(reached, BoundValue)
        return reached.upper / self.epsilon - 1

    def text(self, reached: Reached) -> str:
        return epsilon_is(float(reached), 7)

    def rough_excess(self, log_deviation: float) -> float:
        """ε is about the quantile of δ times the deviation."""
        reach = max(0.5, math.sqrt(-2.0 * math.log(self.delta)) - 1.5)
        return log_deviation + math.log(reach) - math.log(self.epsilon)


def within(tuning: Tuning, least: float, most: float) -> Tuning:
    """The same setting, searched at most between these two."""
    return dataclasses.replace(tuning, least=max(tuning.least, least), most=min(tuning.most, most))


def _signed(distance: float, met: bool) -> float:
    """A distance whose sign is what was compared exactly, whatever its rounding says."""
    return min(distance, 0.0) if met else max(distance, SMALLEST)


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


def _score(delta: float) -> float:
    """√(2·log(1/δ)): for a Gaussian tail this is ε over the scale of the noise."""
    return math.sqrt(max(0.0, -2.0 * math.log(delta)))
