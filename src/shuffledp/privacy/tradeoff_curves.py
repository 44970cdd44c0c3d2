"""Trade-off curves of shuffled messages and of privacy curves, their divergences, and bounds on attacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from shuffledp._core import validation
from shuffledp._core.base_classes import ValueObject
from shuffledp._core.errors import NotApplicable, NumericalError
from shuffledp._core.validation import Floats
from shuffledp.numerics.convolution import lower_convex_hull
from shuffledp.numerics.intervals import betainc, precision, round_down, round_up
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, PrivacyCurve
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.privacy.privacy_loss import ROUNDING, LossMoments
from shuffledp.privacy.tradeoff import PiecewiseTradeOff, TradeOff, TradeOffCurve, check_error_rates

# --- Exact curve by message counts ---


MAX_VECTORS = 8_000_000
NEGLIGIBLE_MASS = 1e-18
"""Counts are visited until the rest on either side has at most about this probability."""
BITS = 96


@dataclass(frozen=True)
class BinomialWindow:
    """P(Bin(count, success) = k) for the k of non-negligible mass, normalised."""

    low: int
    masses: Floats

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.arange(self.low, self.low + len(self.masses))


def binomial_window(count: int, success: float) -> BinomialWindow:
    """Multiplies the ratios of masses outwards from the mode; each mass is accurate to about its distance in ulps."""
    if success >= 1.0 or success <= 0.0 or count == 0:
        return BinomialWindow(count if success >= 1.0 else 0, np.array([1.0]))
    mode = min(count, math.floor((count + 1) * success))
    reach = _reach(count, success)
    low, high = max(0, mode - reach), min(count, mode + reach)
    odds = success / (1.0 - success)
    up = np.arange(mode, high, dtype=np.float64)
    down = np.arange(mode, low, -1, dtype=np.float64)
    right = np.cumprod((count - up) / (up + 1.0) * odds)
    left = np.cumprod(down / ((count - down + 1.0) * odds))
    masses = np.concatenate([left[::-1], [1.0], right])
    return BinomialWindow(low, masses / math.fsum(masses.tolist()))


def _reach(count: int, success: float) -> int:
    """Returns a distance from the mean beyond which a negligible mass lies on each side, by Bernstein's inequality."""
    log = -math.log(NEGLIGIBLE_MASS)
    variance = count * success * (1.0 - success)
    return math.ceil(log / 3 + math.sqrt((log / 3) ** 2 + 2 * variance * log)) + 2


def shuffled_trade_off(pair: HidingPair, users: float) -> PiecewiseTradeOff:
    """Returns T(P, Q) of all messages together, one segment for each vector of counts.

    Theorem: identity (★) before the positive part: with counts N_k of n messages in class k, under the law of n hiding
    messages P/W = (1/n)·Σ N_k·first_k/hiding_k, and Q/W alike.
    Requires: at most three classes of messages (γ = 0), or so few users that the vectors can be visited.

    Args:
        pair: Dominating pair of a randomizer in count form.
        users: Number of all users, user 1 included.

    Returns:
        The exact curve in floats, to about 1e-15; counts of total probability 1e-18 or so are left out.

    Raises:
        ValueError: If ``users`` is not a whole number of at least 1.
        NotApplicable: If there are more than eight million vectors of counts.

    >>> import shuffledp as sdp
    >>> pair = sdp.VariationRatio.from_ldp(2.0).pair(0.0)
    >>> exact = sdp.tradeoff.shuffled_trade_off(pair, users=100)
    >>> print(f"{exact.advantage():.4f} {exact.delta(0.5):.4f}")
    0.1240 0.0104
    """
    count = validation.count("shuffled_trade_off", "users", users)
    with precision(BITS):
        classes = [tuple(float(part.mid()) for part in c) for c in pair.classes()]
    # The revealed rest, which carries no information, comes last; rounding then leaves the sum of the others unchanged.
    classes.sort(key=lambda c: c[0] + c[1] == 0.0)
    first, second, hiding = (np.array(column) for column in zip(*classes, strict=True))
    weights, null, alternative = _vectors(count, hiding, first / hiding, second / hiding)
    null, alternative = weights * (null / count), weights * (alternative / count)
    return PiecewiseTradeOff(null / null.sum(), alternative / alternative.sum(), "identity (★), every vector of counts")


def _vectors(count: int, hiding: Floats, null: Floats, alternative: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns probability, Σ N·first/hiding and Σ N·second/hiding of every vector of counts, from the last class on."""
    windows = _number_of_vectors(count, hiding)
    if windows > MAX_VECTORS:
        raise NotApplicable(
            "shuffled_trade_off",
            f"expected at most {MAX_VECTORS:,} vectors of counts, got about {windows:,.0f}; "
            f"use trade_off(amplify(...)), which has no such limit.",
        )
    if len(hiding) == 1:
        return np.ones(1), np.array([count * null[0]]), np.array([count * alternative[0]])
    last = binomial_window(count, float(hiding[-1] / hiding.sum()))
    parts = []
    for number, mass in zip(last.counts.tolist(), last.masses.tolist(), strict=True):
        weight, one, other = _vectors_within(count - number, hiding[:-1], null[:-1], alternative[:-1])
        parts.append((mass * weight, one + number * null[-1], other + number * alternative[-1]))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def _vectors_within(count: int, hiding: Floats, null: Floats, alternative: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns the same for the remaining classes; the last two are handled in one step."""
    if len(hiding) != 2:
        return _vectors(count, hiding, null, alternative)
    split = binomial_window(count, float(hiding[0] / hiding.sum()))
    k = split.counts
    return split.masses, k * null[0] + (count - k) * null[1], k * alternative[0] + (count - k) * alternative[1]


def _number_of_vectors(count: int, hiding: Floats) -> float:
    """Returns about the number of vectors to visit."""
    total, left = 1.0, float(count)
    for position in range(len(hiding) - 1, 0, -1):
        share = float(hiding[position] / hiding[: position + 1].sum())
        total *= min(left, 2 * _reach(math.ceil(left), share)) + 1 if 0 < share < 1 else 1
        left *= 1 - share
    return total


# --- Clone pair ---


CLONE_ROUNDING = 1e-12
"""A threshold within this of a knot is taken for the knot: the point is on the curve either way."""


@dataclass(frozen=True)
class CloneErrors(ValueObject):
    """Errors of the likelihood-ratio tests of the stronger clones' pair for ``users`` messages of an ε0-LDP randomizer.

    Theorem: [FDP] Proposition 4.1: w = 1/(e^ε0+1), C ~ Bin(n−1, 2w), F_i the distribution function of Bin(i, ½),
    s_i = ⌊i − (i+1)/(t+1)⌋: fpr_0(t) = Σ P(C=i)·F_i(s_i), fnr_0(t) = Σ P(C=i)·(1 − F_i(s_i+1)).
    Requires: ε0 > 0 and finite; users ≥ 1.
    Returns: floats, good to about 1e-12.
    Deviates: print has F_i(s_i+1) for the type II error in one place (FD-5).
    """

    epsilon_local: float = field(metadata=validation.checked(validation.positive_finite, up=True))
    users: int = field(metadata=validation.checked(validation.count))

    def __post_init__(self) -> None:
        validation.check_fields(self)

    @property
    def weight(self) -> float:
        """w: the probability that user 1's message looks like that of the other input."""
        return 1.0 / (math.exp(self.epsilon_local) + 1.0)

    @cached_property
    def _clones(self) -> BinomialWindow:
        return binomial_window(self.users - 1, 2 * self.weight)

    def inner_errors(self, thresholds: ArrayLike) -> tuple[Floats, Floats]:
        """Returns (fpr_0, fnr_0) of P_0 = (A+1, C−A) against Q_0 = (A, C−A+1) where p_0/q_0 ≤ t is rejected."""
        clones, chance = self._clones.counts.astype(np.float64), self._clones.masses
        found = []
        for t in np.atleast_1d(np.asarray(thresholds, dtype=np.float64)).tolist():
            last = np.floor((clones - (clones + 1) / (t + 1)) + CLONE_ROUNDING * (clones + 1))
            found.append(
                (
                    np.dot(chance, _half_binomial_cdf(last, clones)),
                    np.dot(chance, _half_binomial_tail(last + 1, clones)),
                )
            )
        fpr, fnr = (np.array(column) for column in zip(*found, strict=True))
        return fpr, fnr

    def exact_errors(self, thresholds: ArrayLike) -> tuple[Floats, Floats]:
        """Returns points (fpr, fnr) of the pair's exact curve, for thresholds of p_0/q_0.

        Theorem: exact curve of an exchange, from [FDP] Proposition 4.1.
        Deviates: [FDP] Theorem 4.2 gives a lower curve only (FD-3).
        """
        fpr, fnr = self.inner_errors(thresholds)
        w = self.weight
        return (1 - w) * fpr + w * (1 - fnr), (1 - w) * fnr + w * (1 - fpr)

    def published_delta(self, epsilon: float) -> float:
        """Returns δ(ε) of Theorem 4.2's curve, at the one threshold that attains it.

        Theorem: [FDP] Corollary 4.3: t_ε = (1−2w)/(e^ε−2w), δ = 1 − e^ε·fpr_0 − 2w·(1−fpr_0) − (1−2w)·fnr_0.
        Requires: ε ≥ 0.
        Returns: the published bound in floats, for reproduction; digits are lost below δ = 1e-14.
        Deviates: the slope at threshold t is −1/t; the printed l(t) with floors under-reports (FD-4).
        """
        epsilon = validation.non_negative("CloneErrors", "epsilon", epsilon)
        w = self.weight
        fpr, fnr = (float(error[0]) for error in self.inner_errors((1 - 2 * w) / (math.exp(epsilon) - 2 * w)))
        return 1 - math.exp(epsilon) * fpr - 2 * w * (1 - fpr) - (1 - 2 * w) * fnr


def _half_binomial_cdf(k: Floats, count: Floats) -> Floats:
    """P(Bin(count, ½) ≤ k)."""
    inside = (k >= 0) & (k < count)
    found = betainc(np.where(inside, count - k, 1.0), np.where(inside, k + 1, 1.0), 0.5)
    return np.where(inside, found, (k >= 0).astype(np.float64))


def _half_binomial_tail(k: Floats, count: Floats) -> Floats:
    """P(Bin(count, ½) > k)."""
    inside = (k >= 0) & (k < count)
    found = betainc(np.where(inside, k + 1, 1.0), np.where(inside, count - k, 1.0), 0.5)
    return np.where(inside, found, (k < 0).astype(np.float64))


# --- Divergences ---


RENYI, KL, CHI_SQUARE, POWER, TOTAL_VARIATION, HOCKEY_STICK = (
    "renyi", "kl", "chi-square", "power", "total-variation", "hockey-stick",
)  # fmt: skip
DIVERGENCE_KINDS = (RENYI, KL, CHI_SQUARE, POWER, TOTAL_VARIATION, HOCKEY_STICK)
ORDER_RANGES = {RENYI: "above 1", POWER: "above 1", HOCKEY_STICK: "at least 0"}
KL_ORDER = 1 + 1e-6
"""Rényi divergences grow with the order and equal KL at 1; at this order they exceed it by a millionth of the loss."""
MAX_LOG = 709.0


def divergence(curve: TradeOff | PrivacyCurve, kind: str, order: float | None = None) -> float:
    """Returns a divergence of P from Q for a trade-off curve T(P, Q), or for every pair that a privacy curve bounds.

    For a privacy curve both directions count. The divergence is infinite where P has mass that Q does not have, as
    under (ε, δ)-DP with δ > 0.

    Theorem: [FDP] Lemma B.4 and Corollary B.6, each curve by its own route: closed forms (Gaussian), sums over the
    segments (polygons), integrals of hockey-stick divergences (others), the dominating pair (privacy curves).
    Requires: laws, a formula, or lines below the curve: nothing follows from a curve known only at points, which
    is refused.

    Args:
        curve: Trade-off curve or privacy curve.
        kind: "renyi"; "power", E_Q (p/q)^order; "kl"; "chi-square"; "total-variation"; or "hockey-stick",
            ∫ (p − order·q)_+.
        order: Order of "renyi" and "power", above 1, or of "hockey-stick", at least 0; None for the others.

    Returns:
        The value in floats; an upper bound of it where the curve itself is a lower curve, or a privacy curve.

    Raises:
        TypeError: If ``curve`` is neither a trade-off curve nor a privacy curve.
        ValueError: If ``kind`` is unknown, or if ``order`` is missing, superfluous or out of range.
        NotApplicable: If the curve is known only at points.
        NumericalError: If the value is beyond the range of floats.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.from_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.divergence(coins, 'kl'):.4f} {sdp.divergence(coins, 'renyi', order=2):.4f}")
    0.5493 0.8473
    >>> sdp.divergence(sdp.tradeoff.GaussianTradeOff(3.0), "renyi", order=16)
    72.0
    """
    order = _order(kind, order)
    if isinstance(curve, TradeOff):
        if kind in (TOTAL_VARIATION, HOCKEY_STICK):
            return _hockey_stick(curve, order)
        return _from_renyi(kind, order, curve.renyi)
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"divergence: expected a trade-off curve or a privacy curve, got {curve!r}.")
    if kind in (TOTAL_VARIATION, HOCKEY_STICK):
        if order >= 1:
            return curve.delta(math.log(order)).upper
        return 1.0 - order + order * curve.delta(-math.log(order)).upper if order > 0 else 1.0
    return _from_renyi(kind, order, lambda order: _renyi_of_rounds(curve, order))


def _order(kind: str, order: float | None) -> float:
    """Returns the order of a kind, after checking the argument."""
    if kind not in DIVERGENCE_KINDS:
        raise ValueError(f"divergence: kind must be one of {', '.join(DIVERGENCE_KINDS)}, got {kind!r}.")
    if kind not in ORDER_RANGES:
        if order is not None:
            raise ValueError(f"divergence: {kind} has no order, got {order!r}.")
        return {KL: 1.0, CHI_SQUARE: 2.0, TOTAL_VARIATION: 1.0}[kind]
    if order is None:
        raise ValueError(f"divergence: {kind} needs an order {ORDER_RANGES[kind]}.")
    found = validation.real("divergence", "order", order, up=kind != HOCKEY_STICK)
    if not (found >= 0 if kind == HOCKEY_STICK else found > 1) or math.isinf(found):
        raise ValueError(f"divergence: order of {kind} must be {ORDER_RANGES[kind]} and finite, got {found!r}.")
    return found


def _hockey_stick(curve: TradeOff, ratio: float) -> float:
    if isinstance(curve, PiecewiseTradeOff):
        curve.require_exact()
    return curve.inverse().delta(math.log(ratio)) if ratio > 0 else 1.0


def _from_renyi(kind: str, order: float, at: Callable[[float], float]) -> float:
    found = at(order)
    if kind in (RENYI, KL) or math.isinf(found):
        return found
    log_power = (order - 1) * found
    if log_power > MAX_LOG:
        raise NumericalError(
            f"divergence: {kind} is about e^{log_power:.6g}, more than a float holds; ask for kind='renyi'."
        )
    return math.expm1(log_power) if kind == CHI_SQUARE else math.exp(log_power)


def _renyi_of_rounds(curve: PrivacyCurve, order: float) -> float:
    """Returns the sum of the Rényi divergences of all rounds of a privacy curve."""
    return math.fsum(times * _renyi_of_round(part, order) for part, times in curve.rounds()) * (1 + ROUNDING)


def _renyi_of_round(curve: PrivacyCurve, order: float) -> float:
    if isinstance(curve, TradeOffCurve):
        return max(curve.trade_off.renyi(order), curve.trade_off.inverse().renyi(order))
    return LossMoments(curve).divergence(max(order, KL_ORDER))[0]


def f_divergence(
    curve: PiecewiseTradeOff, function: Callable[[Floats], Floats], at_zero: float, growth: float
) -> float:
    """Returns D_F(P‖Q) = E_Q F(p/q) of a polygon T(P, Q) for a given F; for a lower curve, an upper bound.

    Theorem: [FDP] Lemma B.4: ∫ F(1/|f'|)·|f'| dx + F(0)·(1 − f(0)) + τ_F·(1 − z_f).
    Requires: F convex; ``at_zero`` = lim F(s) at 0, ``growth`` = τ_F = lim F(s)/s at infinity; the polygon is the
    curve, not points of it.
    Deviates: print defines F(0) as lim F(s)/s, which is infinite for the total variation (docs/errata.md, FD-13).

    Args:
        curve: The polygon.
        function: F, applied to arrays of ratios above 0.
        at_zero: Limit of F(s) at 0.
        growth: Limit of F(s)/s at infinity.

    Returns:
        The value in floats.

    Raises:
        TypeError: If ``curve`` is not a polygon.
        NotApplicable: If the polygon goes through points of the actual curve.

    >>> import numpy as np
    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.from_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.f_divergence(coins, lambda s: (np.sqrt(s) - 1) ** 2, at_zero=1.0, growth=1.0):.4f}")
    0.2679
    """
    if not isinstance(curve, PiecewiseTradeOff):
        raise TypeError(f"f_divergence: expected a polygon, such as PiecewiseTradeOff.from_laws(p, q), got {curve!r}.")
    curve.require_exact()
    null, alternative = curve.null, curve.alternative
    both = (null > 0) & (alternative > 0)
    total = float(np.dot(alternative[both], function(null[both] / alternative[both])))
    # An infinite limit does not matter where it has no mass.
    for limit, mass in ((at_zero, alternative[null == 0].sum()), (growth, null[alternative == 0].sum())):
        total += limit * float(mass) if mass > 0 else 0.0
    return total


def curve_length(curve: PiecewiseTradeOff) -> float:
    """Returns the length of the curve's graph, a vertical start included: an F-divergence, between √2 and 2.

    Theorem: [FDP] Proposition B.7: F(y) = √(1 + y²).
    Deviates: print leaves out the vertical piece from (0, 1) to (0, f(0)), which F(0)·(1 − f(0)) counts.
    """
    return f_divergence(curve, lambda s: np.sqrt(1 + s * s), 1.0, 1.0)


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


# --- Attack risk ---


ERROR_PREFIX = "AttackRisk"
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
