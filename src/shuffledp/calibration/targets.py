"""Targets of a calibration: a central (ε, δ), or a limit on attacks (advantage, TPR at FPR, Bayes risk, precision)."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from shuffledp._core import validation
from shuffledp._core.formatting import format_epsilon_equation, format_exact, format_rounded_up
from shuffledp.mechanisms.base.mechanism import TunableParameter
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.attack_risk import AttackRisk, Risk, round_prior
from shuffledp.privacy.curve import BoundValue, PrivacyCurve

CALIBRATE = "calibrate"
SMALLEST_POSITIVE_FLOAT = 5e-324

TargetValue = BoundValue | Risk
"""The certified number of a curve that a target limits."""


@dataclass(frozen=True)
class Sharpness:
    """Relative accuracy with which a search brackets the last value that meets the target."""

    real: float
    composed: float
    """For composed curves, which are slow to compute and less sharp."""
    whole: float
    """For whole numbers, of which neighbours must be distinguished."""


@dataclass(frozen=True)
class Excess:
    """Distance of a curve from a target: at most 0 exactly if it is met, growing towards less privacy."""

    size: float
    target_value: TargetValue | None = None
    """The number that the target limits, if it is already known."""


class CurveTarget(ABC):
    """A limit on the privacy loss of a curve, such as ``Target`` and ``RiskTarget``.

    ``calibrate`` changes a setting until ``excess`` is at most 0, and accepts no value whose certified number is not
    ``is_met``. The other methods only guide the search.
    """

    sharpness: ClassVar[Sharpness]
    uses_log_scale: ClassVar[bool] = False
    """True if real settings are searched on a logarithmic scale."""

    @abstractmethod
    def excess(self, curve: PrivacyCurve, *, composed: bool = False) -> Excess:
        """Returns the distance of a curve from the target, by certified numbers.

        Args:
            curve: The privacy curve.
            composed: True for a composed curve, which may be measured in a faster way.

        Returns:
            The distance, at most 0 if the target is met.
        """

    @abstractmethod
    def evaluate(self, curve: PrivacyCurve) -> TargetValue:
        """Returns the certified number that the target limits.

        Args:
            curve: The privacy curve.

        Returns:
            The certified ε or attack risk.
        """

    @abstractmethod
    def is_met(self, reached: TargetValue) -> bool:
        """Returns True if a number is within the limit.

        Args:
            reached: Value of ``evaluate``.

        Returns:
            True if the target is met.
        """

    @abstractmethod
    def shortfall(self, reached: TargetValue) -> float:
        """Returns the amount by which a number misses the limit, as a share of it; the search steps back by it.

        Args:
            reached: Value of ``evaluate``.

        Returns:
            The share, negative if the target is met.
        """

    @abstractmethod
    def rough_excess(self, log_deviation: float) -> float:
        """Returns an unproved estimate of the distance for a normal loss.

        Args:
            log_deviation: Logarithm of the standard deviation of the loss.

        Returns:
            About the logarithm of its ratio to the deviation that just meets the target.
        """

    @abstractmethod
    def format_value(self, reached: TargetValue) -> str:
        """Returns a number in seven digits, rounded so that the text still holds.

        Args:
            reached: Value of ``evaluate``.

        Returns:
            The text.
        """

    def limit_range(self, tuning: TunableParameter) -> TunableParameter:
        """Returns a setting with the range in which it is searched.

        Args:
            tuning: The setting that is searched.

        Returns:
            The same setting, perhaps with a smaller range.
        """
        return tuning

    def initial_value(self, tuning: TunableParameter) -> float | None:
        """Returns the value to try first.

        Args:
            tuning: The setting that is searched.

        Returns:
            The value; None to start from the normal approximation.
        """
        del tuning
        return None


@dataclass(frozen=True)
class Target(CurveTarget):
    """The central (ε, δ) that the shuffled output must satisfy.

    Args:
        epsilon: ε, above 0 and finite.
        delta: δ, between 0 and 1, both excluded.

    Raises:
        ValueError: If a number is out of range.

    >>> from shuffledp.calibration.targets import Target
    >>> print(Target(1.0, 1e-8))
    ε = 1 at δ = 1e-8
    """

    epsilon: float = field(metadata=validation.checked(validation.positive_finite))
    delta: float = field(metadata=validation.checked(validation.open_probability))

    sharpness: ClassVar[Sharpness] = Sharpness(real=2e-5, composed=3e-4, whole=1e-7)

    def __post_init__(self) -> None:
        validation.check_fields(self)

    def __str__(self) -> str:
        return f"ε = {format_exact(self.epsilon)} at δ = {format_exact(self.delta)}"

    def excess(self, curve: PrivacyCurve, *, composed: bool = False) -> Excess:
        """Returns the distance of the certified δ at ε, nearly linear in the setting, or of ε for a composed curve."""
        if composed:
            value = self.evaluate(curve)
            return Excess(
                _apply_exact_sign(_log_or_minus_infinity(value.upper / self.epsilon), value.upper <= self.epsilon),
                value,
            )
        delta = self._delta(curve)
        if delta <= 0:
            return Excess(-math.inf)
        return Excess(_apply_exact_sign(_score(self.delta) - _score(delta), delta <= self.delta))

    def _delta(self, curve: PrivacyCurve) -> float:
        """Returns the certified δ at ε, as sharp as needed to decide on which side of the target it is."""
        upper, lower = curve.quick_delta(self.epsilon)
        return curve.delta(self.epsilon).upper if lower <= self.delta < upper else upper

    def evaluate(self, curve: PrivacyCurve) -> BoundValue:
        """Returns the certified ε at the target's δ."""
        return curve.epsilon(self.delta)

    def is_met(self, reached: TargetValue) -> bool:
        assert isinstance(reached, BoundValue)
        return reached.upper <= self.epsilon

    def shortfall(self, reached: TargetValue) -> float:
        assert isinstance(reached, BoundValue)
        return reached.upper / self.epsilon - 1

    def format_value(self, reached: TargetValue) -> str:
        return format_epsilon_equation(float(reached), 7)

    def rough_excess(self, log_deviation: float) -> float:
        """Estimates the distance for a normal loss, where ε is about the quantile of δ times the deviation."""
        reach = max(0.5, math.sqrt(-2.0 * math.log(self.delta)) - 1.5)
        return log_deviation + math.log(reach) - math.log(self.epsilon)


def restrict_range(tuning: TunableParameter, least: float, most: float) -> TunableParameter:
    """Returns the same setting with a range of at most these limits."""
    return dataclasses.replace(tuning, minimum=max(tuning.minimum, least), maximum=min(tuning.maximum, most))


def _apply_exact_sign(distance: float, met: bool) -> float:
    """Returns the distance with the sign of the exact comparison, whatever its rounding says."""
    return min(distance, 0.0) if met else max(distance, SMALLEST_POSITIVE_FLOAT)


def _log_or_minus_infinity(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


def _score(delta: float) -> float:
    """Returns √(2·log(1/δ)): for a Gaussian tail this is ε over the scale of the noise."""
    return math.sqrt(max(0.0, -2.0 * math.log(delta)))


RISK_TARGET = "RiskTarget"
MIN_LOCAL_EPSILON, MAX_LOCAL_EPSILON = 1e-4, 20.0
"""Range of a local ε: below it messages carry no information, above it no privacy."""
INITIAL_LOCAL_EPSILON = 1.0
MIN_DEVIATION, MAX_DEVIATION = 1e-12, 1e3
REQUIRED_RATES: dict[str, tuple[str, ...]] = {
    "advantage": (),
    "tpr": ("fpr",),
    "bayes_risk": ("prior",),
    "ppv": ("fpr", "prior"),
}
"""The further arguments of each limit."""
RISK_LABELS = {"advantage": "advantage", "tpr": "TPR", "bayes_risk": "error", "ppv": "precision"}
LIMIT_DESCRIPTIONS = {
    "advantage": "advantage at most {advantage:g}",
    "tpr": "TPR at most {tpr:g} at FPR {fpr:g}",
    "bayes_risk": "error at least {bayes_risk:g} at prior {prior:g}",
    "ppv": "precision at most {ppv:g} at FPR {fpr:g}, prior {prior:g}",
}


@dataclass(frozen=True)
class RiskTarget(CurveTarget):
    """One limit on every attack: exactly one of the first four arguments, with the rates that it needs.

    Args:
        advantage: Largest TPR − FPR.
        tpr: Largest true-positive rate at the false-positive rate ``fpr``.
        bayes_risk: Smallest probability of a wrong guess, given ``prior``.
        ppv: Largest positive predictive value, given ``fpr`` and ``prior``.
        fpr: False-positive rate, with ``tpr`` and ``ppv`` only.
        prior: Prior probability, with ``bayes_risk`` and ``ppv`` only.

    Raises:
        ValueError: If not exactly one limit is given, a rate is missing or superfluous, or a number is not between 0
            and 1.

    >>> from shuffledp.calibration.targets import RiskTarget
    >>> print(RiskTarget(tpr=0.002, fpr=0.001))
    TPR at most 0.002 at FPR 0.001
    """

    advantage: float | None = None
    tpr: float | None = None
    bayes_risk: float | None = None
    ppv: float | None = None
    fpr: float | None = None
    prior: float | None = None

    sharpness: ClassVar[Sharpness] = Sharpness(real=1e-6, composed=3e-4, whole=1e-15)
    uses_log_scale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given = [name for name in REQUIRED_RATES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"{RISK_TARGET}: give exactly one of advantage, tpr, bayes_risk, ppv, got {given or 'none'}."
            )
        wanted = REQUIRED_RATES[given[0]]
        for name in ("fpr", "prior"):
            if (getattr(self, name) is not None) != (name in wanted):
                raise ValueError(f"{RISK_TARGET}: {given[0]} {'needs' if name in wanted else 'does not take'} {name}.")
        for name in (given[0], *wanted):
            object.__setattr__(self, name, self._round_towards_privacy(name))

    def _round_towards_privacy(self, name: str) -> float:
        """Returns one argument, rounded, if it is not a float, to the neighbour that requires no less privacy."""
        if name == "prior" and self.bayes_risk is not None:
            return round_prior(RISK_TARGET, getattr(self, name))
        # Precision falls with the false-positive rate; the rates that an attack may reach are limited from above.
        up = name in ("bayes_risk", "prior") or (name == "fpr" and self.tpr is not None)
        return validation.open_probability(RISK_TARGET, name, getattr(self, name), up=up)

    def __str__(self) -> str:
        return LIMIT_DESCRIPTIONS[self.limited_risk].format(**vars(self))

    @property
    def limited_risk(self) -> str:
        """Name of the given limit."""
        return next(name for name in REQUIRED_RATES if getattr(self, name) is not None)

    @property
    def limit(self) -> float:
        """Value of the given limit."""
        return _require_float(getattr(self, self.limited_risk))

    # --- Comparison with a curve ---

    def excess(self, curve: PrivacyCurve, *, composed: bool = False) -> Excess:
        del composed
        risk = self.evaluate(curve)
        return Excess(self._distance(risk), risk)

    def evaluate(self, curve: PrivacyCurve) -> Risk:
        """Returns the certified attack risk."""
        risk = AttackRisk(curve)
        if self.advantage is not None:
            return risk.advantage()
        if self.bayes_risk is not None:
            return risk.bayes_risk(_require_float(self.prior))
        if self.ppv is not None:
            return risk.ppv(_require_float(self.fpr), _require_float(self.prior))
        return risk.tpr(_require_float(self.fpr))

    def is_met(self, reached: TargetValue) -> bool:
        return self._distance(reached) <= 0

    def shortfall(self, reached: TargetValue) -> float:
        return self._distance(reached) / self.limit

    def format_value(self, reached: TargetValue) -> str:
        value = float(reached)
        # A lower bound is rounded down.
        shown = (
            -float(format_rounded_up(-value, 7)) if self.bayes_risk is not None else float(format_rounded_up(value, 7))
        )
        return f"{RISK_LABELS[self.limited_risk]} = {shown:.7g}"

    def _distance(self, reached: TargetValue) -> float:
        """Returns a number above 0 exactly if the target is missed."""
        assert isinstance(reached, Risk)
        return self.limit - reached.value if self.bayes_risk is not None else reached.value - self.limit

    # --- Guidance of the search ---

    def limit_range(self, tuning: TunableParameter) -> TunableParameter:
        """Returns the setting, a local ε limited to [1e-4, 20]."""
        return restrict_range(tuning, MIN_LOCAL_EPSILON, MAX_LOCAL_EPSILON) if tuning.name == "epsilon" else tuning

    def initial_value(self, tuning: TunableParameter) -> float | None:
        return INITIAL_LOCAL_EPSILON if tuning.name == "epsilon" else None

    def rough_excess(self, log_deviation: float) -> float:
        return log_deviation - self._log_deviation

    @cached_property
    def _log_deviation(self) -> float:
        """Logarithm of the distance of two unit normals that just meets the target."""
        distance = find_crossing(
            lambda log: self._normal_risk(math.exp(log)) - self.limit,
            math.log(MIN_DEVIATION),
            math.log(MAX_DEVIATION),
            absolute=1e-6,
        )
        return distance.middle

    @property
    def _normal_risk(self) -> Callable[[float], float]:
        """The limited number for two unit normals, as a function of their distance; mirrored if more is better."""
        normal = NormalDist()
        if self.advantage is not None:
            return lambda distance: 2 * normal.cdf(distance / 2) - 1
        if self.bayes_risk is not None:
            # Mirrored at the limit, because it falls where the others grow.
            return lambda distance: 2 * self.limit - _normal_bayes_error(distance, _require_float(self.prior))
        fpr = _require_float(self.fpr)
        start = normal.inv_cdf(fpr)
        if self.ppv is None:
            return lambda distance: normal.cdf(start + distance)
        odds = _require_float(self.prior) / (1 - _require_float(self.prior)) / fpr
        return lambda distance: 1 - 1 / (1 + odds * normal.cdf(start + distance))


def _normal_bayes_error(distance: float, prior: float) -> float:
    # Needs scipy, which importing the package does not load.
    from shuffledp.privacy.tradeoff import gaussian_delta

    smaller = min(prior, 1 - prior)
    return smaller * (1 - float(gaussian_delta(np.array(distance), math.log((1 - smaller) / smaller))))


def _require_float(value: float | None) -> float:
    assert value is not None
    return value
