"""``AttackRisk``: how often attacks succeed under a guarantee, as power, advantage or Bayes risk."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import precision, round_down, round_up
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, PrivacyCurve
from shuffledp.privacy.guaranteed_tradeoff import GuaranteedTradeOff, epsilon_reach

ERROR_PREFIX = "AttackRisk"
BITS = 96
NEGLIGIBLE_ERROR_SHARE = 1e-6
"""Beyond the ε at which δ is this share of the rarer error, the bound on the power rises."""
SEARCH_STAGES = (25, 15, 11)
"""Numbers of ε that are evaluated, first over the whole range, then around the best so far."""


@dataclass(frozen=True)
class Risk:
    """One attack-risk number, the worst that the privacy curve allows; also ``float()``.

    Args:
        value: The bound on every attack.
        epsilon: The ε at which the privacy curve proves it.
        bound: Name of the bound of the curve's value at that ε.
        theorem: Theorem of that value.
        certified: True if that value is certified.
        guarantee: True if that value is an upper bound of the privacy loss.
        attained: The number that a known attack on a constructed dataset reaches; None if unknown.

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
    """Bounds on every attack from a privacy curve, each by one certified value of δ.

    An attack guesses which of two neighbouring datasets was used.

    Theorem: [FDP] Lemma A.3: power ≤ δ + e^ε·fpr and 1 − power ≥ e^−ε·(1 − δ − fpr) for every ε ≥ 0.
    Requires: a privacy curve.
    Returns: certified bounds where the curve's values are, the round-off included.

    Args:
        curve: The privacy curve.
        guide: Trade-off curve of ``curve``, if already known, which shows at which ε to evaluate.

    Raises:
        TypeError: If ``curve`` is not a privacy curve.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> risk = sdp.AttackRisk(curve)
    >>> risk.advantage().value < 0.0077, risk.tpr(fpr=0.01).value < 0.0106
    (True, True)
    """

    curve: PrivacyCurve
    guide: GuaranteedTradeOff | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.curve, PrivacyCurve):
            raise TypeError(f"{ERROR_PREFIX}: expected a privacy curve, such as amplify(...), got {self.curve!r}.")

    def advantage(self) -> Risk:
        """Returns the largest true-positive rate minus false-positive rate: δ at ε = 0 (the total variation)."""
        value = self.curve.delta(0.0)
        return self._risk(value.upper, 0.0, value, value.lower)

    def tpr(self, fpr: float) -> Risk:
        """Returns the largest true-positive rate of an attack with a limited false-positive rate.

        Args:
            fpr: Largest false-positive rate, between 0 and 1.

        Returns:
            An upper bound of the true-positive rate.

        Raises:
            ValueError: If ``fpr`` is not between 0 and 1.
        """
        x = _check_probability("fpr", fpr)
        epsilon = self._best_epsilon(x)
        value = self.curve.delta(epsilon)
        return self._risk(_power(x, epsilon, min(1.0, value.upper)), epsilon, value, None)

    def bayes_risk(self, prior: float) -> Risk:
        """Returns the smallest probability of a wrong guess.

        Theorem: min over tests of (1−π)·fpr + π·fnr = π·(1 − δ(log((1−π)/π))) for π ≤ ½, and alike for 1 − π.

        Args:
            prior: Prior probability of the second dataset.

        Returns:
            A lower bound of the error.

        Raises:
            ValueError: If ``prior`` is not between 0 and 1, both excluded.
        """
        prior = round_prior(ERROR_PREFIX, prior)
        with precision(BITS):
            chance = arb(prior)
            smaller = chance if prior <= 0.5 else 1 - chance
            # δ falls in ε, so a smaller ε is on the safe side.
            epsilon = max(0.0, round_down(((1 - smaller) / smaller).log()))
            value = self.curve.delta(epsilon)
            risk = max(0.0, round_down(smaller * (1 - arb(min(1.0, value.upper)))))
        return self._risk(risk, epsilon, value, None)

    def ppv(self, fpr: float, prior: float) -> Risk:
        """Returns the largest positive predictive value: the probability that the guess "the second dataset" is right.

        It bounds attacks with exactly this false-positive rate; one that raises fewer alarms may be right more often.

        Args:
            fpr: False-positive rate, between 0 and 1.
            prior: Prior probability of the second dataset.

        Returns:
            An upper bound of the positive predictive value.

        Raises:
            ValueError: If ``fpr`` or ``prior`` is out of range.
        """
        prior, risk = validation.open_probability(ERROR_PREFIX, "prior", prior, up=True), self.tpr(fpr)
        with precision(BITS):
            hits = arb(prior) * arb(risk.value)
            false_alarms = (1 - arb(prior)) * arb(_check_probability("fpr", fpr, up=False))
            value = 1.0 if not hits + false_alarms > 0 else min(1.0, round_up(hits / (hits + false_alarms)))
        return Risk(value, risk.epsilon, risk.bound, risk.theorem, risk.certified, risk.guarantee)

    def _best_epsilon(self, fpr: float) -> float:
        """Returns an ε at which the bound on the power is about the smallest.

        Every other ε gives a valid bound, too.
        """
        rarer = min(fpr, 1.0 - fpr)
        if rarer == 0.0:
            return MAX_EPSILON if fpr == 0.0 else 0.0
        low, high, stages = self._search_range(fpr, rarer)
        if high == 0.0:
            return 0.0
        for points in stages:
            epsilons = np.linspace(low, high, points)
            best = _best_line(fpr, epsilons, np.minimum(1.0, self.curve.profile(epsilons).upper))
            low, high = _neighbouring_epsilons(epsilons, best)
        return float(epsilons[best])

    def _search_range(self, fpr: float, rarer: float) -> tuple[float, float, tuple[int, ...]]:
        """Returns the range of ε to search and the numbers of points of its stages."""
        if self.guide is None:
            return 0.0, epsilon_reach(self.curve, max(rarer * NEGLIGIBLE_ERROR_SHARE, 1e-300)), SEARCH_STAGES
        lines = self.guide.epsilons
        return *_neighbouring_epsilons(lines, _best_line(fpr, lines, self.guide.deltas)), SEARCH_STAGES[-1:]

    def _risk(self, number: float, epsilon: float, value: BoundValue, attained: float | None) -> Risk:
        return Risk(number, epsilon, value.bound, value.theorem, value.certified, value.guarantee, attained)


def _neighbouring_epsilons(epsilons: Floats, place: int) -> tuple[float, float]:
    """Returns the neighbours of one ε."""
    return float(epsilons[max(0, place - 1)]), float(epsilons[min(len(epsilons) - 1, place + 1)])


def _best_line(fpr: float, epsilons: Floats, deltas: Floats) -> int:
    """Returns the index of the (ε, δ) that bounds the power best."""
    steep, flat = deltas + np.exp(epsilons) * fpr, 1.0 - (1.0 - deltas - fpr) * np.exp(-epsilons)
    return int(np.argmin(np.minimum(steep, flat)))


def _power(fpr: float, epsilon: float, delta: float) -> float:
    """Returns the smaller of both lines' bounds at one ε, rounded up."""
    with precision(BITS):
        ratio, x, d = arb(epsilon).exp(), arb(fpr), arb(delta)
        steep, flat = round_up(d + ratio * x), round_up(1 - (1 - d - x) / ratio)
        return min(1.0, steep, flat if delta + fpr < 1 else 1.0)


def round_prior(who: str, prior: float) -> float:
    """Checks a prior and rounds it, if it is not a float, away from ½, where guesses are less often wrong."""
    number = validation.open_probability(who, "prior", prior)
    return number if number < 0.5 else validation.open_probability(who, "prior", prior, up=True)


def _check_probability(name: str, value: float, *, up: bool = True) -> float:
    number = validation.real(ERROR_PREFIX, name, value, up=up)
    if not 0 <= number <= 1:
        raise ValueError(f"{ERROR_PREFIX}: {name} must be between 0 and 1, got {number!r}.")
    return number
