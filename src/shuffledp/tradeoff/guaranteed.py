"""A trade-off curve that is a proof: the largest of the lines that certified values of δ(ε) put below it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.errors import NotApplicable
from shuffledp.numerics.hull import lower_hull
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve
from shuffledp.tradeoff.trade_off import PiecewiseTradeOff, TradeOff, checked_errors

ULPS = 4 * np.finfo(np.float64).eps
"""Covers the two or three roundings of one line's value, relative to 1."""
POINTS = 250
LEAST_DELTA = 1e-15
"""Lines down to this δ are drawn closely; a few more follow until δ vanishes."""
BEYOND = np.geomspace(1.05, 3.0, 12)
COARSER = 100.0


@dataclass(frozen=True, eq=False)
class GuaranteedTradeOff(TradeOff):
    """Below every test of two neighbouring datasets, in either direction.

    Theorem: [FDP] Lemma A.3: (ε, δ)-DP is f ≥ max(1 − δ − e^ε·x, e^−ε·(1 − δ − x)); the largest over all given ε.
    Requires: ``epsilons`` ≥ 0 in rising order, the first 0; ``deltas`` upper bounds of δ(ε), both directions.
    Returns: values rounded down (``fnr``) and up (``tpr``, ``delta``), certified if the δ's are.

    >>> import numpy as np
    >>> import shuffledp as sdp
    >>> proved = sdp.tradeoff.GuaranteedTradeOff(epsilons=np.array([0.0, 1.0]), deltas=np.array([0.1, 0.01]))
    >>> print(f"{float(proved.fnr(0.05)):.4f} {float(proved.tpr(0.05)):.4f} {proved.advantage():.4f}")
    0.8541 0.1459 0.1000
    """

    epsilons: Floats
    deltas: Floats
    theorem: str = "(ε, δ)-DP at many ε"
    guarantee: bool = True
    certified: bool = field(default=True)

    def __post_init__(self) -> None:
        epsilons, deltas = np.array(self.epsilons, dtype=np.float64), np.array(self.deltas, dtype=np.float64)
        fine = epsilons.ndim == 1 and epsilons.shape == deltas.shape and len(epsilons) > 0
        if not (fine and epsilons[0] == 0 and (np.diff(epsilons) > 0).all() and epsilons[-1] <= LARGEST_EPSILON):
            raise ValueError("GuaranteedTradeOff: epsilons must rise from 0 to at most 700, with one delta for each.")
        if not ((deltas >= 0) & (deltas <= 1)).all():
            raise ValueError("GuaranteedTradeOff: deltas must be between 0 and 1.")
        # The chord from a point of δ, as a function of e^ε, to its mirror image is this high at ε = 0.
        mirrored = (2 * deltas + np.expm1(epsilons)) / (np.expm1(epsilons) + 2) * (1 + 2 * ULPS)
        deltas[0] = min(deltas[0], float(mirrored[1:].min(initial=1.0)))
        epsilons, deltas = _hull(epsilons, np.minimum.accumulate(deltas))
        epsilons.flags.writeable = deltas.flags.writeable = False
        object.__setattr__(self, "epsilons", epsilons)
        object.__setattr__(self, "deltas", deltas)

    @cached_property
    def _ratios(self) -> Floats:
        """e^ε, rounded up."""
        return np.asarray(np.exp(self.epsilons) * (1 + ULPS))

    def fnr(self, fpr: ArrayLike) -> Floats:
        x = checked_errors(fpr)
        return np.asarray(np.maximum(0.0, np.maximum(1.0 - self._steep(x), self._flat(x)) - ULPS))

    def tpr(self, fpr: ArrayLike) -> Floats:
        x = checked_errors(fpr)
        steep = self._steep(x) * (1 + ULPS)
        steep = np.where(x > 0, np.nextafter(steep, np.inf), steep)
        return np.asarray(np.minimum(1.0, np.minimum(steep, 1.0 - self._flat(x) + ULPS)))

    @cached_property
    def _corners(self) -> Floats:
        """The x at which each line meets the next steeper one, falling."""
        rise = np.exp(self.epsilons[:-1]) * np.expm1(np.diff(self.epsilons))
        return np.asarray(-np.diff(self.deltas) / rise)

    def _steep(self, x: Floats) -> Floats:
        """The smallest δ + e^ε·x: lines change at the corners. Any line is an upper bound of the power."""
        line = np.searchsorted(-self._corners, -x, side="left")
        return np.asarray(self.deltas[line] + self._ratios[line] * x)

    def _flat(self, x: Floats) -> Floats:
        """The largest e^−ε·(1 − δ − x): the mirror images, which meet at the mirror images of the corners."""
        meets = 1.0 - self.deltas[:-1] - np.exp(self.epsilons[:-1]) * self._corners
        line = np.searchsorted(meets, x, side="left")
        return np.asarray((1.0 - self.deltas[line] - x) / self._ratios[line])

    def delta(self, epsilon: float) -> float:
        """An upper bound of both directions at ε: on the chords of δ as a convex function of e^ε."""
        epsilon = argument.real("GuaranteedTradeOff", "epsilon", epsilon)
        if epsilon < 0:
            return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon) + float(ULPS))
        place = int(np.searchsorted(self.epsilons, epsilon, side="right")) - 1
        low = float(self.epsilons[place])
        if low == epsilon or place == len(self.epsilons) - 1:
            return float(self.deltas[place])
        share = math.expm1(epsilon - low) / math.expm1(float(self.epsilons[place + 1]) - low)
        # A rounded difference of ε moves its exponential by up to ε times as much.
        share = max(0.0, share * (1 - float(ULPS) * (2 + epsilon)))
        left, right = float(self.deltas[place]), float(self.deltas[place + 1])
        return min(left, ((1.0 - share) * left + share * right) * (1 + float(ULPS)))

    def knots(self) -> PiecewiseTradeOff:
        """The polygon of the lines, in floats."""
        # Three lines through one point meet in three that differ by rounding.
        x = np.minimum.accumulate(np.append(self._corners, 0.0))
        power = np.minimum.accumulate(self.deltas + np.exp(self.epsilons) * x)
        null, alternative = -np.diff(x), -np.diff(power)
        null, alternative = np.append(null, 0.0), np.append(alternative, power[-1])
        rest = 1.0 - float(null.sum()), 1.0 - float(alternative.sum())
        steep = PiecewiseTradeOff(
            np.append(null, rest[0]), np.append(alternative, rest[1]), self.theorem, self.guarantee
        )
        return steep.symmetrised()

    def renyi(self, order: float) -> float:
        """That of the polygon, an upper bound: infinite unless δ vanishes at some ε."""
        return self.knots().renyi(order)

    def inverse(self) -> GuaranteedTradeOff:
        return self


def _hull(epsilons: Floats, deltas: Floats) -> tuple[Floats, Floats]:
    """The values that are corners of δ as a convex function of e^ε: the others' lines are nowhere the largest."""
    ratios = np.expm1(epsilons)
    # Two ε may share one e^ε in floats: the later one has the smaller δ and counts.
    last = np.append(np.diff(ratios) > 0, True)
    epsilons, deltas, ratios = epsilons[last], deltas[last], ratios[last]
    corners = lower_hull(ratios, deltas)
    return epsilons[corners], deltas[corners]


def trade_off(
    curve: PrivacyCurve, points: int = POINTS, *, least_delta: float = LEAST_DELTA, precise: bool = False
) -> GuaranteedTradeOff:
    """The trade-off curve that a privacy curve proves, from about ``points`` certified values of δ.

    Theorem: [FDP] Lemma A.3.
    Requires: points ≥ 2; 0 < least_delta < 1.
    Returns: a certified lower curve (where the curve is a guarantee). ``precise`` takes each δ as sharply as
    ``curve.delta`` does, several times slower; otherwise it is up to 1e-4 of itself above.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> tests = sdp.trade_off(curve, points=40)
    >>> float(tests.tpr(0.01)) < 0.0106  # of 1% false alarms
    True
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"trade_off: expected a privacy curve, such as amplify(...), got {curve!r}.")
    count = argument.count("trade_off", "points", points, at_least=2)
    least = argument.open_probability("trade_off", "least_delta", least_delta)
    epsilons = _grid(curve, count, least)
    if precise:
        deltas = np.array([curve.delta(epsilon).upper for epsilon in epsilons.tolist()])
    else:
        deltas = curve.profile(epsilons).upper.copy()
        deltas[0] = curve.delta(0.0).upper
    theorem = f"{curve.theorem}; [FDP] Lemma A.3"
    return GuaranteedTradeOff(epsilons, np.minimum(1.0, deltas), theorem, curve.guarantee, curve.certified)


def reach(curve: PrivacyCurve, delta: float) -> float:
    """An ε at which δ has fallen to about ``delta``, or to the least that the curve knows."""
    while delta < 0.5:
        try:
            found = curve.epsilon(delta).upper
        except NotApplicable:
            # A closed form stops somewhere on the way to 0.
            delta *= COARSER
            continue
        if found <= LARGEST_EPSILON:
            return found
        delta = max(delta * COARSER, curve.delta(LARGEST_EPSILON).upper * 1.001)
    return LARGEST_EPSILON


def _grid(curve: PrivacyCurve, points: int, least: float) -> Floats:
    """From 0 to where δ is the least, evenly; then a few until it vanishes."""
    end = reach(curve, least)
    if end == 0.0:
        return np.array([0.0])
    close = np.linspace(0.0, end, max(2, points - len(BEYOND)))
    beyond = end * BEYOND
    return np.asarray(np.append(close, beyond[beyond <= LARGEST_EPSILON]))
