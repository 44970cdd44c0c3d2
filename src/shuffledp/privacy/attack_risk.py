"""What a privacy curve means for an attacker who guesses which of two neighbouring datasets was used."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from flint import arb

from shuffledp import argument
from shuffledp.numerics.ball import precision, round_down, round_up
from shuffledp.privacy.curve import LARGEST_EPSILON, BoundValue, PrivacyCurve

WHO = "AttackRisk"
BITS = 96
GOLDEN = (math.sqrt(5) - 1) / 2
STEPS = 40
FLAT = 1e-9
"""The search for the best ε ends when the bound changes by less than this share: any ε gives a valid bound."""


@dataclass(frozen=True)
class Risk:
    """One attack-risk number, the worst that the privacy curve allows; also ``float()``.

    ``epsilon`` is where the privacy curve proves it; ``attained`` is what a known attack on a real dataset reaches,
    None if unknown.
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
    """

    curve: PrivacyCurve

    def advantage(self) -> Risk:
        """The largest true-positive rate minus false-positive rate: δ at ε = 0 (the total variation)."""
        value = self.curve.delta(0.0)
        return self._risk(value.upper, 0.0, value, value.lower)

    def tpr(self, fpr: float) -> Risk:
        """The largest true-positive rate of an attack whose false-positive rate is at most ``fpr``."""
        x = _probability("fpr", fpr)
        found: dict[float, tuple[float, BoundValue]] = {}

        def power(epsilon: float) -> float:
            if epsilon not in found:
                value = self.curve.delta(epsilon)
                found[epsilon] = _power(x, epsilon, min(1.0, value.upper)), value
            return found[epsilon][0]

        self._search(power)
        best = min(found, key=lambda epsilon: found[epsilon][0])
        return self._risk(found[best][0], best, found[best][1], None)

    def bayes_risk(self, prior: float) -> Risk:
        """The smallest probability of a wrong guess if the second dataset has this prior probability.

        Theorem: min over tests of (1−π)·fpr + π·fnr = π·(1 − δ(log((1−π)/π))) for π ≤ ½, and alike for 1 − π.
        """
        prior = argument.open_probability(WHO, "prior", prior)
        with precision(BITS):
            chance = arb(prior)
            smaller = chance if prior <= 0.5 else 1 - chance
            # δ falls in ε: a smaller ε is on the safe side.
            epsilon = max(0.0, round_down(((1 - smaller) / smaller).log()))
            value = self.curve.delta(epsilon)
            risk = max(0.0, round_down(smaller * (1 - arb(min(1.0, value.upper)))))
        return self._risk(risk, epsilon, value, None)

    def ppv(self, fpr: float, prior: float) -> Risk:
        """The largest positive predictive value: how often "the second dataset" is right when an attack says so."""
        prior, risk = argument.open_probability(WHO, "prior", prior), self.tpr(fpr)
        with precision(BITS):
            hits, misses = arb(prior) * arb(risk.value), (1 - arb(prior)) * arb(_probability("fpr", fpr))
            value = 1.0 if not hits + misses > 0 else min(1.0, round_up(hits / (hits + misses)))
        return Risk(value, risk.epsilon, risk.bound, risk.theorem, risk.certified, risk.guarantee)

    def _search(self, power: Callable[[float], float]) -> None:
        """Golden section over ε: the power is convex in e^ε, and every ε looked at is a valid bound."""
        low, high = 0.0, self._largest(power)
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        power(0.0)
        for _ in range(STEPS):
            at_left, at_right = power(left), power(right)
            if abs(at_left - at_right) <= FLAT * min(at_left, at_right) and high - low <= 1e-3 * high:
                return
            if at_left <= at_right:
                high, right = right, left
                left = high - GOLDEN * (high - low)
            else:
                low, left = left, right
                right = low + GOLDEN * (high - low)

    def _largest(self, power: Callable[[float], float]) -> float:
        """An ε beyond which the power only rises: doubling from the curve's own scale."""
        epsilon = max(self.curve.epsilon(0.1 * max(1e-300, min(0.5, self.curve.delta(0.0).upper))).upper, 1e-12)
        epsilon = min(epsilon, LARGEST_EPSILON / 2)
        before = power(epsilon)
        while 2 * epsilon <= LARGEST_EPSILON:
            after = power(2 * epsilon)
            if after > before:
                return 2 * epsilon
            epsilon, before = 2 * epsilon, after
        return LARGEST_EPSILON

    def _risk(self, number: float, epsilon: float, value: BoundValue, attained: float | None) -> Risk:
        return Risk(number, epsilon, value.bound, value.theorem, value.certified, value.guarantee, attained)


def _power(fpr: float, epsilon: float, delta: float) -> float:
    """The smaller of both lines' bounds at one ε, rounded up."""
    with precision(BITS):
        ratio, x, d = arb(epsilon).exp(), arb(fpr), arb(delta)
        steep, flat = round_up(d + ratio * x), round_up(1 - (1 - d - x) / ratio)
        return min(1.0, steep, flat if delta + fpr < 1 else 1.0)


def _probability(name: str, value: float) -> float:
    number = argument.real(WHO, name, value)
    if not 0 <= number <= 1:
        raise ValueError(f"{WHO}: {name} must be between 0 and 1, got {number!r}.")
    return number
