"""Users drawn from a larger population: the privacy of the shuffled messages of a random sample.

Whoever is not drawn sends nothing, and nobody learns who was drawn. Neighbours replace one person of the population.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.bounds import best
from shuffledp.bounds.amplify import BoundChoice, amplify
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.numerics.binomial import Coin, point_mass, window
from shuffledp.numerics.finite_law import Bracket
from shuffledp.numerics.inversion import invert
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve, Source
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue

BITS = 128
SHIFT = 1e-13
"""More than the relative rounding of log(1 + (e^ε − 1)/share) in floats."""
UNDERFLOW = 1e-320
"""More than a sum over all cells can lose at the end of the floats."""
LOG_LEFT_OUT = -100.0
"""Sample sizes less probable than this are charged in full."""
WIDTHS = ((3.0, 0.5), (5.0, 1.0), (math.inf, 4.0))
"""Sample sizes are taken together in cells: up to how many standard deviations from the mean, cells of how many."""
LIKELY = 1e-3
"""Cells less probable than this are left out of the lower side."""


def inner_epsilon(epsilon: Floats, share: float) -> Floats:
    """log(1 + (e^ε − 1)/share): the ε at which the sample itself is looked at."""
    capped = np.minimum(epsilon, LARGEST_EPSILON)
    large = capped > 30.0
    plain = np.log1p(np.expm1(np.where(large, 0.0, capped)) / share)
    return np.asarray(np.where(large, capped - math.log(share), plain))


@dataclass(frozen=True)
class SubsampledCurve(PrivacyCurve):
    """``inside`` on a uniformly random ``share`` of the population, drawn without replacement.

    Theorem: [VR] Proposition 2 (Balle, Barthe, Gaboardi 2018): D_{e^ε} ≤ s·D_{e^ε'} of the sample's mechanism, with
    e^ε' = 1 + (e^ε − 1)/s, for ε ≥ 0 and a share s of the population.
    Requires: ``inside`` bounds both directions for every pair of samples that differ in one person.
    Returns: a certified upper bound of both directions. Replacing a person is a symmetric relation, so the larger
    direction, extended by symmetry to ε < 0, is what dominates in a composition: the slope at ε = 0 is the inside
    curve's, and −(1 − s·δ(0))/2 is smaller than −(1 − δ(0))/2, so the extension is convex (privacy/loss.py).
    """

    inside: PrivacyCurve
    share: fmpq

    @property
    def certified(self) -> bool:
        return self.inside.certified

    def _epsilon(self, delta: float) -> BoundValue:
        with precision(BITS):
            share = arb(self.share)
            inner = round_down(arb(delta) / share)
            if inner >= 1.0:
                return self._value(0.0, 0.0)
            found = self.inside.epsilon(inner)
            if math.isinf(found.upper):
                return self._value(math.inf, found.slack)
            upper = round_up(_outer(found.upper, share))
            lower = round_down(_outer(max(0.0, math.nextafter(found.upper - found.slack, 0.0)), share))
        return self._value(upper, max(0.0, upper - lower))

    def _delta(self, epsilon: float) -> BoundValue:
        seen = min(epsilon, LARGEST_EPSILON)
        with precision(BITS):
            share = arb(self.share)
            inner = (arb(seen).expm1() / share).log1p()
            early, late = max(0.0, round_down(inner)), round_up(inner)
            found, after = self.inside.delta(early), self.inside.delta(late)
            upper = min(1.0, round_up(share * arb(found.upper)))
            lower = round_down(share * arb(max(0.0, math.nextafter(after.upper - after.slack, 0.0))))
        # What lies beyond the largest ε that is looked at is only known from above.
        lower = 0.0 if epsilon > LARGEST_EPSILON else max(0.0, lower)
        return self._value(upper, max(0.0, math.nextafter(upper - lower, math.inf)) if upper > lower else 0.0)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self.upper_profile(epsilons), self.lower_profile(epsilons)

    def upper_profile(self, epsilons: Floats) -> Floats:
        share = float(arb(self.share))
        inner = inner_epsilon(epsilons, share) * (1 - SHIFT)
        upper = self.inside.profile(inner).upper
        return _raised(upper * share, upper > 0, 4 * SHIFT)

    def lower_profile(self, epsilons: Floats) -> Floats:
        share = float(arb(self.share))
        inner = inner_epsilon(epsilons, share) * (1 + SHIFT)
        lower = self.inside.profile(inner).lower * share * (1 - 4 * SHIFT)
        return np.asarray(np.where(epsilons <= LARGEST_EPSILON, lower, 0.0))


def _raised(values: Floats, positive: NDArray[np.bool_], rounding: float) -> Floats:
    """Values in floats as upper bounds; what is 0 stays 0 unless it only became so."""
    return np.asarray(np.minimum(1.0, values * (1 + rounding) + np.where(positive, UNDERFLOW, 0.0)))


def _outer(epsilon: float, share: arb) -> arb:
    """log(1 + share·(e^ε − 1))."""
    return (share * arb(epsilon).expm1()).log1p()


def subsample(curve: PrivacyCurve, population: float) -> PrivacyCurve:
    """The curve of the same round when its users are drawn at random, without replacement, from ``population``.

    The number drawn is that of all who send, colluding ones included. If K people of the population collude, at most K
    of the drawn do, and fewer hide more. They know whether they were drawn, and with that how many of the others were:
    at most all that are drawn, of those who do not collude. Of several rounds the one with the most people counts.
    Nothing is known from below: an attack on the curve counts on its victim being drawn.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> drawn = sdp.subsample(curve, population=1_000_000)
    >>> curve.epsilon(delta=1e-6).upper < 0.0675, drawn.epsilon(delta=1e-6).upper < 0.0005
    (True, True)
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"subsample: expected a privacy curve as amplify gives it, got {curve!r}.")
    total = argument.count("subsample", "population", population)
    _for_all_inputs("subsample", curve)
    drawn = curve.users
    if total < drawn:
        raise ValueError(f"subsample: population must be at least the curve's {drawn} users, got {total}.")
    if total == drawn:
        return curve
    colluding = curve.source.colluding
    if total - colluding <= drawn:
        # The colluders may learn that all others were drawn: the curve is still above. What is attained is less: it is
        # attained where the victim is surely drawn and as few as can be hide it, which no draw of so many people does.
        return curve.attacked_by(None).sent_by(total, colluding)
    known = f", {colluding} of whom tell whether they were," if colluding else ""
    theorem = f"{drawn} of {total} sampled without replacement{known} [VR Prop. 2], then: {curve.theorem}"
    source = dataclasses.replace(curve.source, theorem=theorem, attack=None, users=total)
    return SubsampledCurve(source, curve, fmpq(drawn, total - colluding))


def _for_all_inputs(who: str, curve: PrivacyCurve) -> None:
    """Refuse a curve for chosen inputs: whoever is drawn in a person's place may hold any value."""
    if curve.source.some_inputs:
        raise ValueError(
            f"{who}: expected a curve for all inputs, because others drawn in a person's place may hold any value, "
            "got one for a pair or a diameter."
        )


Share = tuple[float, SubsampledCurve]
"""A probability and the curve of that case."""


@dataclass(frozen=True)
class PoissonCurve(PrivacyCurve):
    """Each person of the population takes part with probability ``rate``, on their own.

    Theorem: the sample size is binomial and independent of the data, and given the size the sample is uniform without
    replacement: δ(ε) ≤ E_n[(n/N)·δ_n(ε'_n)] with [VR] Proposition 2 at the share n/N.
    Requires: one curve per sample size; δ_n never grows with n, because whoever has n messages can add one more.
    Returns: a certified upper bound: sizes are taken in cells low … high, each with the share of high and the curve
    of low, and what is outside all cells is added in full. ``slack`` compares with the opposite choice, in wider
    cells where the size is likely to be.
    Deviates: a shuffler reveals the number of messages, so the formula for Poisson sampling that compares a sample
    with and without one person does not apply.
    """

    worst: tuple[Share, ...]
    likely: tuple[Share, ...]
    outside: float

    @property
    def certified(self) -> bool:
        return all(curve.certified for _, curve in self.worst)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = np.full_like(epsilons, self.outside), np.zeros_like(epsilons)
        positive = upper > 0
        for chance, curve in self.worst:
            each = curve.upper_profile(epsilons)
            positive |= each > 0
            upper += chance * each
        for chance, curve in self.likely:
            lower += chance * curve.lower_profile(epsilons)
        rounding = 4 * SHIFT * (len(self.worst) + 1)
        return _raised(upper, positive, rounding), lower * (1 - rounding)

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), max(0.0, math.nextafter(upper - lower, math.inf)))

    def bracket(self, epsilon: float) -> Bracket:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return Bracket(arb(float(lower)), arb(float(upper)), "cells of sample sizes")

    def log_estimate(self, epsilon: float) -> float:
        return self.bracket(epsilon).log_upper()

    def natural_scale(self) -> float:
        return self._scale

    @cached_property
    def _scale(self) -> float:
        return max(self.bracket(0.0).upper_float(), 1e-12) * math.sqrt(2 * math.pi)

    def _epsilon(self, delta: float) -> BoundValue:
        found = invert(self, delta, LARGEST_EPSILON, zero_at_high=False)
        if math.isinf(found.upper):
            return self._value(found.upper, found.upper)
        return self._value(found.upper, found.upper - found.lower)


def poisson(randomizer: Randomizer, population: float, rate: float, *, bound: BoundChoice = best.NAME) -> PrivacyCurve:
    """The curve of one round in which each of ``population`` people takes part with probability ``rate``.

    ``randomizer`` and ``bound`` are as in ``amplify``; who takes part is decided independently and nobody learns it.

    >>> import shuffledp as sdp
    >>> curve = sdp.poisson(sdp.VariationRatio.of_ldp(1.0), population=2000, rate=0.1, bound="variation-ratio")
    >>> curve.delta(0.1).upper < 1e-5
    True
    """
    total = argument.count("poisson", "population", population)
    chance = argument.exact("poisson", "rate", rate)
    if not 0 < chance <= 1:
        raise ValueError(f"poisson: rate must be above 0 and at most 1, got {argument.shown(rate)}.")
    if chance == 1:
        with argument.said_by("poisson", "amplify"):
            return amplify(randomizer, total, bound=bound, effort=best.QUICK)
    edges = _edges(total, chance)
    chances, outside = _chances(total, chance, edges)
    curves: dict[int, PrivacyCurve] = {}

    def sampled(users: int, drawn: int) -> SubsampledCurve:
        if users not in curves:
            with argument.said_by("poisson", "amplify"):
                curves[users] = amplify(randomizer, users, bound=bound, effort=best.QUICK)
            _for_all_inputs("poisson", curves[users])
        return SubsampledCurve(curves[users].source, curves[users], fmpq(drawn, total))

    worst = [(most, sampled(low, high)) for (low, high), (_, most) in zip(edges, chances, strict=True)]
    likely = []
    for k in range(0, len(edges) - 1, 2):
        least = chances[k][0] + chances[k + 1][0]
        if least > LIKELY:
            likely.append((math.nextafter(least, 0.0), sampled(edges[k + 1][1], edges[k][0])))
    one = worst[len(worst) // 2][1]
    takes_part = f"each of {total} takes part with probability {argument.shown(rate)}"
    theorem = f"{takes_part}, given the size [VR Prop. 2]: {one.theorem}"
    guarantee = all(curve.guarantee for _, curve in worst)
    source = Source(
        one.bound,
        theorem,
        max(1, round(total * chance)),
        guarantee,
        one.note,
        users=total,
        origin=one.source.origin,
    )
    return PoissonCurve(source, tuple(worst), tuple(likely), outside)


def _edges(total: int, chance: Fraction) -> list[tuple[int, int]]:
    """Cells of sample sizes of at least 1, narrow where the size is likely to be."""
    with precision(BITS):
        span = window(total, _coin(chance), LOG_LEFT_OUT)
    last = max(1, span.high)
    deviation = max(1.0, math.sqrt(total * float(chance) * (1 - float(chance))))
    mean = total * float(chance)
    result: list[tuple[int, int]] = []
    low = max(1, span.low)
    while low <= last:
        distance = abs(low - mean) / deviation
        width = deviation * next(cell for most, cell in WIDTHS if distance <= most)
        high = min(last, low + max(0, math.floor(width) - 1))
        result.append((low, high))
        low = high + 1
    return result


def _coin(chance: Fraction) -> Coin:
    exact = rational(chance)
    return Coin(arb(exact), arb(1 - exact))


def _chances(total: int, chance: Fraction, edges: list[tuple[int, int]]) -> tuple[list[tuple[float, float]], float]:
    """Bounds of the probability of each cell, and of a size of at least 1 that is in none."""
    with precision(BITS):
        coin = _coin(chance)
        odds = coin.success / coin.failure
        mass = point_mass(total, edges[0][0], coin)
        result: list[tuple[float, float]] = []
        for low, high in edges:
            cell = arb(0)
            for size in range(low, high + 1):
                cell += mass
                mass = mass * odds * (total - size) / (size + 1)
            result.append((max(0.0, round_down(cell)), round_up(cell)))
        return result, round_up(window(total, coin, LOG_LEFT_OUT).outside)
