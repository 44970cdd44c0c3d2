"""Limits on what an attacker can do, as targets of a calibration: advantage, TPR at FPR, Bayes risk, precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.calibration.target import CurveTarget, Excess, Reached, Sharpness, within
from shuffledp.document import rounded_up
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.tradeoff.risk import AttackRisk, Risk, prior_away_from_half

WHO = "RiskTarget"
LEAST_LOCAL, MOST_LOCAL = 1e-4, 20.0
"""Where a local ε is searched: below, nothing is told; above, nothing is kept."""
FIRST_LOCAL = 1.0
LEAST_DEVIATION, MOST_DEVIATION = 1e-12, 1e3
NEEDS: dict[str, tuple[str, ...]] = {
    "advantage": (),
    "tpr": ("fpr",),
    "bayes_risk": ("prior",),
    "ppv": ("fpr", "prior"),
}
"""What each limit needs to be told."""
NUMBERS = {"advantage": "advantage", "tpr": "TPR", "bayes_risk": "error", "ppv": "precision"}
WORDS = {
    "advantage": "advantage at most {advantage:g}",
    "tpr": "TPR at most {tpr:g} at FPR {fpr:g}",
    "bayes_risk": "error at least {bayes_risk:g} at prior {prior:g}",
    "ppv": "precision at most {ppv:g} at FPR {fpr:g}, prior {prior:g}",
}


@dataclass(frozen=True)
class RiskTarget(CurveTarget):
    """One limit on every attack: give exactly one of the four, with what it needs.

    ``advantage``: at most this TPR − FPR. ``tpr`` with ``fpr``: at most this true-positive rate at that false-positive
    rate. ``bayes_risk`` with ``prior``: at least this probability of a wrong guess. ``ppv`` with ``fpr`` and
    ``prior``: at most this positive predictive value.

    >>> from shuffledp.calibration.risk_target import RiskTarget
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
    by_factors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given = [name for name in NEEDS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{WHO}: give exactly one of advantage, tpr, bayes_risk, ppv, got {given or 'none'}.")
        wanted = NEEDS[given[0]]
        for name in ("fpr", "prior"):
            if (getattr(self, name) is not None) != (name in wanted):
                raise ValueError(f"{WHO}: {given[0]} {'needs' if name in wanted else 'does not take'} {name}.")
        for name in (given[0], *wanted):
            object.__setattr__(self, name, self._on_the_safe_side(name))

    def _on_the_safe_side(self, name: str) -> float:
        """One number; if it is no float, the one next to it that asks for no less privacy."""
        if name == "prior" and self.bayes_risk is not None:
            return prior_away_from_half(WHO, getattr(self, name))
        # Precision falls with the rate of false alarms, what an attack may reach is a limit from above.
        up = name in ("bayes_risk", "prior") or (name == "fpr" and self.tpr is not None)
        return argument.open_probability(WHO, name, getattr(self, name), up=up)

    def __str__(self) -> str:
        return WORDS[self.limited].format(**vars(self))

    @property
    def limited(self) -> str:
        """Which of the four is given."""
        return next(name for name in NEEDS if getattr(self, name) is not None)

    @property
    def limit(self) -> float:
        """Its value."""
        return _given(getattr(self, self.limited))

    # --- as a target --------------------------------------------------------------------------------------------

    def excess(self, curve: PrivacyCurve, *, composed: bool = False) -> Excess:
        """The distance of the certified risk itself."""
        del composed
        risk = self.reached(curve)
        return Excess(self._distance(risk), risk)

    def reached(self, curve: PrivacyCurve) -> Risk:
        """The certified number that the target limits."""
        risk = AttackRisk(curve)
        if self.advantage is not None:
            return risk.advantage()
        if self.bayes_risk is not None:
            return risk.bayes_risk(_given(self.prior))
        if self.ppv is not None:
            return risk.ppv(_given(self.fpr), _given(self.prior))
        return risk.tpr(_given(self.fpr))

    def met(self, reached: Reached) -> bool:
        return self._distance(reached) <= 0

    def shortfall(self, reached: Reached) -> float:
        return self._distance(reached) / self.limit

    def text(self, reached: Reached) -> str:
        value = float(reached)
        # What is at least so large is rounded down.
        shown = -float(rounded_up(-value, 7)) if self.bayes_risk is not None else float(rounded_up(value, 7))
        return f"{NUMBERS[self.limited]} = {shown:.7g}"

    def _distance(self, reached: Reached) -> float:
        """Above 0 exactly where the target is missed."""
        assert isinstance(reached, Risk)
        return self.limit - reached.value if self.bayes_risk is not None else reached.value - self.limit

    # --- where to look ------------------------------------------------------------------------------------------

    def range_of(self, tuning: Tuning) -> Tuning:
        return within(tuning, LEAST_LOCAL, MOST_LOCAL) if tuning.name == "epsilon" else tuning

    def start(self, tuning: Tuning) -> float | None:
        return FIRST_LOCAL if tuning.name == "epsilon" else None

    def rough_excess(self, log_deviation: float) -> float:
        return log_deviation - self._log_deviation

    @cached_property
    def _log_deviation(self) -> float:
        """log of the distance of two unit normals that just meets the target."""
        distance = find_crossing(
            lambda log: self._of_normals(math.exp(log)) - self.limit,
            math.log(LEAST_DEVIATION),
            math.log(MOST_DEVIATION),
            absolute=1e-6,
        )
        return distance.middle

    @property
    def _of_normals(self) -> Callable[[float], float]:
        """The limited number for two unit normals, as a function of their distance; negated where more is better."""
        normal = NormalDist()
        if self.advantage is not None:
            return lambda distance: 2 * normal.cdf(distance / 2) - 1
        if self.bayes_risk is not None:
            # Mirrored at the limit: it falls where the others grow.
            return lambda distance: 2 * self.limit - _wrong_guess(distance, _given(self.prior))
        fpr = _given(self.fpr)
        start = normal.inv_cdf(fpr)
        if self.ppv is None:
            return lambda distance: normal.cdf(start + distance)
        odds = _given(self.prior) / (1 - _given(self.prior)) / fpr
        return lambda distance: 1 - 1 / (1 + odds * normal.cdf(start + distance))


def _wrong_guess(distance: float, prior: float) -> float:
    # Needs scipy, which an import of the package does without.
    from shuffledp.tradeoff.gaussian_trade_off import gaussian_delta

    smaller = min(prior, 1 - prior)
    return smaller * (1 - float(gaussian_delta(np.array(distance), math.log((1 - smaller) / smaller))))


def _given(value: float | None) -> float:
    assert value is not None
    return value
