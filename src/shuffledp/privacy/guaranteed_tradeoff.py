"""``trade_off``: a lower bound of the trade-off function, from a certified privacy curve δ(ε)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Floats
from shuffledp.numerics.convolution import lower_convex_hull
from shuffledp.privacy.curve import MAX_EPSILON, PrivacyCurve
from shuffledp.privacy.tradeoff import PiecewiseTradeOff, TradeOff, check_error_rates

LINE_ROUNDING = 4 * np.finfo(np.float64).eps
"""Covers the two or three roundings of one line's value, relative to 1."""
TRADE_OFF_POINTS = 250
MIN_DENSE_DELTA = 1e-15
"""Lines are dense down to this δ; a few more follow until δ vanishes."""
EXTRA_EPSILON_FACTORS = np.geomspace(1.05, 3.0, 12)
DELTA_COARSENING = 100.0


@dataclass(frozen=True, eq=False)
class GuaranteedTradeOff(TradeOff):
    """The largest of the lines that certified values of δ(ε) put below every test, in either direction.

    Theorem: [FDP] Lemma A.3: (ε, δ)-DP is f ≥ max(1 − δ − e^ε·x, e^−ε·(1 − δ − x)); the largest over all given ε.
    Requires: ``epsilons`` ≥ 0 in rising order, the first 0; ``deltas`` upper bounds of δ(ε), both directions.
    Returns: values rounded down (``fnr``) and up (``tpr``, ``delta``), certified if the δ's are.

    Args:
        epsilons: Values of ε, rising from 0 to at most 700.
        deltas: An upper bound of δ for each ε.
        theorem: Theorem behind the values.
        guarantee: True if the values of δ are upper bounds of the privacy loss.
        certified: True if the values of δ are certified.

    Raises:
        ValueError: If ``epsilons`` do not rise from 0 to at most 700, or ``deltas`` do not match or lie outside [0, 1].

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
        if not (fine and epsilons[0] == 0 and (np.diff(epsilons) > 0).all() and epsilons[-1] <= MAX_EPSILON):
            raise ValueError("GuaranteedTradeOff: epsilons must rise from 0 to at most 700, with one delta for each.")
        if not ((deltas >= 0) & (deltas <= 1)).all():
            raise ValueError("GuaranteedTradeOff: deltas must be between 0 and 1.")
        # The chord from a point of δ, as a function of e^ε, to its mirror image has this height at ε = 0.
        mirrored = (2 * deltas + np.expm1(epsilons)) / (np.expm1(epsilons) + 2) * (1 + 2 * LINE_ROUNDING)
        deltas[0] = min(deltas[0], float(mirrored[1:].min(initial=1.0)))
        epsilons, deltas = _convex_delta_corners(epsilons, np.minimum.accumulate(deltas))
        epsilons.flags.writeable = deltas.flags.writeable = False
        object.__setattr__(self, "epsilons", epsilons)
        object.__setattr__(self, "deltas", deltas)

    @cached_property
    def _ratios(self) -> Floats:
        """e^ε, rounded up."""
        return np.asarray(np.exp(self.epsilons) * (1 + LINE_ROUNDING))

    def fnr(self, fpr: ArrayLike) -> Floats:
        """Returns a lower bound of the type II error at each type I error, rounded down."""
        x = check_error_rates(fpr)
        return np.asarray(
            np.maximum(0.0, np.maximum(1.0 - self._lower_line_values(x), self._upper_line_values(x)) - LINE_ROUNDING)
        )

    def tpr(self, fpr: ArrayLike) -> Floats:
        """Returns an upper bound of the power at each type I error, rounded up."""
        x = check_error_rates(fpr)
        steep = self._lower_line_values(x) * (1 + LINE_ROUNDING)
        steep = np.where(x > 0, np.nextafter(steep, np.inf), steep)
        return np.asarray(np.minimum(1.0, np.minimum(steep, 1.0 - self._upper_line_values(x) + LINE_ROUNDING)))

    @cached_property
    def _corners(self) -> Floats:
        """The x at which each line meets the next steeper one, in falling order."""
        rise = np.exp(self.epsilons[:-1]) * np.expm1(np.diff(self.epsilons))
        return np.asarray(-np.diff(self.deltas) / rise)

    def _lower_line_values(self, x: Floats) -> Floats:
        """Returns the smallest δ + e^ε·x: lines change at the corners. Every line is an upper bound of the power."""
        line = np.searchsorted(-self._corners, -x, side="left")
        return np.asarray(self.deltas[line] + self._ratios[line] * x)

    def _upper_line_values(self, x: Floats) -> Floats:
        """Returns the largest e^−ε·(1 − δ − x): the mirror images, which meet at the mirror images of the corners."""
        meets = 1.0 - self.deltas[:-1] - np.exp(self.epsilons[:-1]) * self._corners
        line = np.searchsorted(meets, x, side="left")
        return np.asarray((1.0 - self.deltas[line] - x) / self._ratios[line])

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound of both directions, on the chords of δ as a convex function of e^ε."""
        epsilon = validation.real("GuaranteedTradeOff", "epsilon", epsilon)
        if epsilon < 0:
            return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon) + float(LINE_ROUNDING))
        place = int(np.searchsorted(self.epsilons, epsilon, side="right")) - 1
        low = float(self.epsilons[place])
        if low == epsilon or place == len(self.epsilons) - 1:
            return float(self.deltas[place])
        share = math.expm1(epsilon - low) / math.expm1(float(self.epsilons[place + 1]) - low)
        # Rounding a difference of ε changes its exponential by up to ε times as much.
        share = max(0.0, share * (1 - float(LINE_ROUNDING) * (2 + epsilon)))
        left, right = float(self.deltas[place]), float(self.deltas[place + 1])
        return min(left, ((1.0 - share) * left + share * right) * (1 + float(LINE_ROUNDING)))

    def to_piecewise(self) -> PiecewiseTradeOff:
        """Returns the polygon of the lines, in floats."""
        # Three lines through one point meet in three points that differ by rounding.
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
        """Returns the Rényi divergence of the polygon, an upper bound; infinite unless δ vanishes at some ε."""
        return self.to_piecewise().renyi(order)

    def inverse(self) -> GuaranteedTradeOff:
        return self


def _convex_delta_corners(epsilons: Floats, deltas: Floats) -> tuple[Floats, Floats]:
    """Returns the corners of δ as a convex function of e^ε; the lines of the other values are nowhere the largest."""
    ratios = np.expm1(epsilons)
    # Two ε may have the same e^ε in floats: the later one has the smaller δ and counts.
    last = np.append(np.diff(ratios) > 0, True)
    epsilons, deltas, ratios = epsilons[last], deltas[last], ratios[last]
    corners = lower_convex_hull(ratios, deltas)
    return epsilons[corners], deltas[corners]


def trade_off(
    curve: PrivacyCurve, points: int = TRADE_OFF_POINTS, *, least_delta: float = MIN_DENSE_DELTA, precise: bool = False
) -> GuaranteedTradeOff:
    """Returns the trade-off curve that a privacy curve proves, from certified values of δ.

    Theorem: [FDP] Lemma A.3.
    Requires: points ≥ 2; 0 < least_delta < 1.

    Args:
        curve: The privacy curve.
        points: Approximate number of values of δ, at least 2.
        least_delta: Values are dense down to this δ.
        precise: If True, each δ is as sharp as ``curve.delta``, several times slower; otherwise it is up to 1e-4 of
            itself above.

    Returns:
        A certified lower curve (where the curve is a guarantee).

    Raises:
        TypeError: If ``curve`` is not a privacy curve.
        ValueError: If ``points`` or ``least_delta`` is out of range.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> tests = sdp.trade_off(curve, points=40)
    >>> float(tests.tpr(0.01)) < 0.0106  # of 1% false alarms
    True
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"trade_off: expected a privacy curve, such as amplify(...), got {curve!r}.")
    count = validation.count("trade_off", "points", points, at_least=2)
    least = validation.open_probability("trade_off", "least_delta", least_delta)
    epsilons = _grid(curve, count, least)
    if precise:
        deltas = np.array([curve.delta(epsilon).upper for epsilon in epsilons.tolist()])
    else:
        deltas = curve.profile(epsilons).upper.copy()
        deltas[0] = curve.delta(0.0).upper
    theorem = f"{curve.theorem}; [FDP] Lemma A.3"
    return GuaranteedTradeOff(epsilons, np.minimum(1.0, deltas), theorem, curve.guarantee, curve.certified)


def epsilon_reach(curve: PrivacyCurve, delta: float) -> float:
    """Returns an ε at which δ has fallen to about ``delta``, or to the least value that the curve knows."""
    while delta < 0.5:
        try:
            found = curve.epsilon(delta).upper
        except NotApplicable:
            # A closed form may not apply to small δ.
            delta *= DELTA_COARSENING
            continue
        if found <= MAX_EPSILON:
            return found
        delta = max(delta * DELTA_COARSENING, curve.delta(MAX_EPSILON).upper * 1.001)
    return MAX_EPSILON


def _grid(curve: PrivacyCurve, points: int, least: float) -> Floats:
    """Returns even points from 0 to where δ is ``least``, then a few until it vanishes."""
    end = epsilon_reach(curve, least)
    if end == 0.0:
        return np.array([0.0])
    close = np.linspace(0.0, end, max(2, points - len(EXTRA_EPSILON_FACTORS)))
    beyond = end * EXTRA_EPSILON_FACTORS
    return np.asarray(np.append(close, beyond[beyond <= MAX_EPSILON]))
