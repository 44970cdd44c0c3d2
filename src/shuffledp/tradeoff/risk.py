"""What a privacy curve means for an attacker who guesses which of two neighbouring datasets was used."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, round_down, round_up
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve
from shuffledp.privacy.value import BoundValue
from shuffledp.tradeoff.guaranteed import GuaranteedTradeOff, reach

WHO = "AttackRisk"
BITS = 96
NEGLIGIBLE = 1e-6
"""Beyond the ε at which δ is this share of the rarer error, the bound on the power rises."""
STAGES = (25, 15, 11)
"""How many ε are looked at, first over the whole range, then about the best so far."""


@dataclass(frozen=True)
class Risk:
    """One attack-risk number, the worst that the privacy curve allows; also ``float()``.

    ``epsilon`` is where the privacy curve proves it; ``bound``, ``theorem``, ``certified`` and ``guarantee`` are those
    of the curve's value there; ``attained`` is what a known attack on a constructed dataset reaches, None if unknown.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> risk = sdp.AttackRisk(curve).bayes_risk(prior=0.5)
    >>> print(f"{float(risk):.4f}", risk.certified, risk.bound)
    0.4962 True optimal
    """

    value: float
    epsilon: float
    bound: str
    theorem: str
    certified: bool
    guarantee: bool
    attained: float | None = field(default=None)

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class AttackRisk:
    """Bounds on every attack, from a privacy curve: each uses one certified value of δ.

    Theorem: [FDP] Lemma A.3: power ≤ δ + e^ε·fpr and 1 − power ≥ e^−ε·(1 − δ − fpr) for every ε ≥ 0.
    Requires: a privacy curve.
    Returns: certified bounds where the curve's values are, the round-off included.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> risk = sdp.AttackRisk(curve)
    >>> risk.advantage().value < 0.0077, risk.tpr(fpr=0.01).value < 0.0106
    (True, True)
    """

    curve: PrivacyCurve
    guide: GuaranteedTradeOff | None = None
    """The curve's trade-off, where it is known already: tells at once at which ε to look."""

    def __post_init__(self) -> None:
        if not isinstance(self.curve, PrivacyCurve):
            raise TypeError(f"{WHO}: expected a privacy curve, such as amplify(...), got {self.curve!r}.")

    def advantage(self) -> Risk:
        """The largest true-positive rate minus false-positive rate: δ at ε = 0 (the total variation)."""
        value = self.curve.delta(0.0)
        return self._risk(value.upper, 0.0, value, value.lower)

    def tpr(self, fpr: float) -> Risk:
        """The largest true-positive rate of an attack whose false-positive rate is at most ``fpr``."""
        x = _probability("fpr", fpr)
        epsilon = self._best_epsilon(x)
        value = self.curve.delta(epsilon)
        return self._risk(_power(x, epsilon, min(1.0, value.upper)), epsilon, value, None)

    def bayes_risk(self, prior: float) -> Risk:
        """The smallest probability of a wrong guess if the second dataset has this prior probability.

        Theorem: min over tests of (1−π)·fpr + π·fnr = π·(1 − δ(log((1−π)/π))) for π ≤ ½, and alike for 1 − π.
        """
        prior = prior_away_from_half(WHO, prior)
        with precision(BITS):
            chance = arb(prior)
            smaller = chance if prior <= 0.5 else 1 - chance
            # δ falls in ε: a smaller ε is on the safe side.
            epsilon = max(0.0, round_down(((1 - smaller) / smaller).log()))
            value = self.curve.delta(epsilon)
            risk = max(0.0, round_down(smaller * (1 - arb(min(1.0, value.upper)))))
        return self._risk(risk, epsilon, value, None)

    def ppv(self, fpr: float, prior: float) -> Risk:
        """The largest positive predictive value: how often "the second dataset" is right when an attack says so.

        For attacks with exactly this rate of false positives: one that raises fewer alarms may be right more often.
        """
        prior, risk = argument.open_probability(WHO, "prior", prior, up=True), self.tpr(fpr)
        with precision(BITS):
            hits, misses = arb(prior) * arb(risk.value), (1 - arb(prior)) * arb(_probability("fpr", fpr, up=False))
            value = 1.0 if not hits + misses > 0 else min(1.0, round_up(hits / (hits + misses)))
        return Risk(value, risk.epsilon, risk.bound, risk.theorem, risk.certified, risk.guarantee)

    def _best_epsilon(self, fpr: float) -> float:
        """Where the bound on the power is about the smallest; any other ε would give a valid one too."""
        rarer = min(fpr, 1.0 - fpr)
        if rarer == 0.0:
            return LARGEST_EPSILON if fpr == 0.0 else 0.0
        low, high, stages = self._where(fpr, rarer)
        if high == 0.0:
            return 0.0
        for points in stages:
            epsilons = np.linspace(low, high, points)
            best = _best_line(fpr, epsilons, np.minimum(1.0, self.curve.profile(epsilons).upper))
            low, high = _about(epsilons, best)
        return float(epsilons[best])

    def _where(self, fpr: float, rarer: float) -> tuple[float, float, tuple[int, ...]]:
        """Between which ε to look, and how closely in turn."""
        if self.guide is None:
            return 0.0, reach(self.curve, max(rarer * NEGLIGIBLE, 1e-300)), STAGES
        lines = self.guide.epsilons
        return *_about(lines, _best_line(fpr, lines, self.guide.deltas)), STAGES[-1:]

    def _risk(self, number: float, epsilon: float, value: BoundValue, attained: float | None) -> Risk:
        return Risk(number, epsilon, value.bound, value.theorem, value.certified, value.guarantee, attained)


def _about(epsilons: Floats, place: int) -> tuple[float, float]:
    """The neighbours of one ε."""
    return float(epsilons[max(0, place - 1)]), float(epsilons[min(len(epsilons) - 1, place + 1)])


def _best_line(fpr: float, epsilons: Floats, deltas: Floats) -> int:
    """Which (ε, δ) bounds the power best."""
    steep, flat = deltas + np.exp(epsilons) * fpr, 1.0 - (1.0 - deltas - fpr) * np.exp(-epsilons)
    return int(np.argmin(np.minimum(steep, flat)))


def _power(fpr: float, epsilon: float, delta: float) -> float:
    """The smaller of both lines' bounds at one ε, rounded up."""
    with precision(BITS):
        ratio, x, d = arb(epsilon).exp(), arb(fpr), arb(delta)
        steep, flat = round_up(d + ratio * x), round_up(1 - (1 - d - x) / ratio)
        return min(1.0, steep, flat if delta + fpr < 1 else 1.0)


def prior_away_from_half(who: str, prior: float) -> float:
    """A prior that is no float is taken where guesses are less often wrong."""
    number = argument.open_probability(who, "prior", prior)
    return number if number < 0.5 else argument.open_probability(who, "prior", prior, up=True)


def _probability(name: str, value: float, *, up: bool = True) -> float:
    number = argument.real(WHO, name, value, up=up)
    if not 0 <= number <= 1:
        raise ValueError(f"{WHO}: {name} must be between 0 and 1, got {number!r}.")
    return number
