"""What an attacker can do: the trade-off between the two errors of a test, as a function and as knots.

T(P, Q)(x) is the smallest type II error (``fnr``) of any test of P against Q whose type I error (``fpr``) is x. The
test rejects P where p/q is small, so that 1 + f*(−e^ε) is D_{e^ε}(Q‖P). A larger curve is more private; 1 − x is
perfect privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.errors import NotApplicable
from shuffledp.numerics.hull import lower_hull
from shuffledp.numerics.power_moment import renyi_divergence
from shuffledp.privacy.record import Record

WHO = "TradeOff"
TOTAL_TOLERANCE = 1e-9
"""Masses that sum to 1 within this are normalised."""
MOST_EXCESS = 600.0
"""Where a power of a ratio comes near the largest float, logarithms are summed."""


class TradeOff(Record, ABC):
    """A trade-off curve: convex, decreasing, at most 1 − x.

    ``guarantee``: no test does better than the curve says. ``certified``: its values are so rounded that this holds
    to the last bit; otherwise they carry the round-off of floats.
    """

    theorem: str
    guarantee: bool
    certified: bool

    @abstractmethod
    def fnr(self, fpr: ArrayLike) -> Floats:
        """The smallest type II error at a type I error."""

    @abstractmethod
    def tpr(self, fpr: ArrayLike) -> Floats:
        """1 − ``fnr``, the largest power at a type I error, with its own relative digits where it is tiny."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """D_{e^ε}(Q‖P) for any real ε: the largest 1 − fnr − e^ε·fpr.

        Theorem: [FDP] Lemma A.3: δ(ε) = 1 + f*(−e^ε).
        """

    @abstractmethod
    def knots(self) -> PiecewiseTradeOff:
        """The curve as a polygon: itself where it is one."""

    @abstractmethod
    def inverse(self) -> TradeOff:
        """T(Q, P): the two errors exchanged."""

    def conjugate(self, slope: float) -> float:
        """f*(y) = sup_x (x·y − f(x)) at y = ``slope`` ≤ 0."""
        slope = argument.real(WHO, "slope", slope)
        if not slope <= 0:
            raise ValueError(f"{WHO}: slope must be at most 0, got {slope!r}.")
        return self.delta(math.log(-slope)) - 1.0 if slope < 0 else 0.0

    def advantage(self) -> float:
        """The largest 1 − fpr − fnr: the total variation, which is δ at ε = 0."""
        return self.delta(0.0)

    def divergence(self, epsilon: float) -> float:
        """The larger of both directions at ε ≥ 0: what (ε, δ)-DP asks for."""
        return max(self.delta(epsilon), self.inverse().delta(epsilon))

    def renyi(self, order: float) -> float:
        """The Rényi divergence D(P‖Q) of an order of at least 1, at 1 the Kullback–Leibler divergence, in floats."""
        other, backward = self.inverse(), cache(self.delta)
        # Where both directions are the same curve, each δ is asked for once.
        return renyi_divergence(backward if other is self else other.delta, backward, order)


@dataclass(frozen=True, eq=False)
class PiecewiseTradeOff(TradeOff):
    """The curve of two finite laws: one segment for each likelihood ratio, steepest first.

    ``null`` and ``alternative`` are the masses of the segments' outcomes under P and Q: how far each segment goes to
    the right, and how far down. Knots, δ(ε), the inverse, mixtures and divergences all follow from these two lists,
    and tiny errors keep their digits.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{float(coins.fnr(0.25)):g} {coins.advantage():g}")
    0.25 0.5
    """

    null: Floats
    alternative: Floats
    theorem: str = "likelihood-ratio test (Neyman and Pearson)"
    guarantee: bool = False
    from_points: bool = False
    """Whether it goes through points of the curve that is meant, so that it is above that curve in between."""
    certified: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        null, alternative = _masses("null", self.null), _masses("alternative", self.alternative)
        if null.shape != alternative.shape:
            raise ValueError(
                f"{WHO}: null and alternative must be equally long, got {len(null)} and {len(alternative)}."
            )
        kept = (null > 0) | (alternative > 0)
        null, alternative = null[kept], alternative[kept]
        order = np.argsort(-_steepness(null, alternative), kind="stable")
        object.__setattr__(self, "null", _frozen(null[order]))
        object.__setattr__(self, "alternative", _frozen(alternative[order]))

    @classmethod
    def of_laws(cls, null: Mapping[object, float], alternative: Mapping[object, float]) -> PiecewiseTradeOff:
        """T(P, Q) of two laws given as outcome → probability.

        Theorem: [FDP] Lemma A.1 (Neyman–Pearson).
        """
        outcomes = list(dict.fromkeys([*null, *alternative]))
        first = np.array([float(null.get(y, 0)) for y in outcomes])
        return cls(first, np.array([float(alternative.get(y, 0)) for y in outcomes]))

    @classmethod
    def of_points(cls, fpr: ArrayLike, fnr: ArrayLike) -> PiecewiseTradeOff:
        """The convex hull, from below, of any points (fpr, fnr) together with (0, 1) and (1, 0)."""
        x, y = np.asarray(fpr, dtype=np.float64), np.asarray(fnr, dtype=np.float64)
        inside = (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)
        if x.shape != y.shape or x.ndim != 1 or not inside.all():
            raise ValueError(f"{WHO}: expected as many fpr as fnr, each between 0 and 1.")
        x, y = np.append(x, [0.0, 1.0]), np.append(y, [1.0, 0.0])
        order = np.lexsort((y, x))
        # Of points above each other only the lowest counts.
        lowest_first = order[np.append(True, np.diff(x[order]) > 0)]
        x, y = x[lowest_first], y[lowest_first]
        corners = lower_hull(x, y)
        x, y = x[corners], y[corners]
        return cls(np.append([0.0], np.diff(x)), np.append([1.0 - y[0]], -np.diff(y)), from_points=True)

    @classmethod
    def of_privacy_loss(cls, losses: ArrayLike, masses: ArrayLike) -> PiecewiseTradeOff:
        """From a privacy-loss distribution: ``masses`` of Q on losses log(q/p), +∞ where p = 0.

        What the finite losses leave of P lies where q = 0.
        """
        loss, mass = np.asarray(losses, dtype=np.float64), _masses("masses", masses)
        null = mass * np.exp(-loss)
        rest = 1.0 - float(null.sum())
        if rest < -TOTAL_TOLERANCE:
            raise ValueError(f"{WHO}: the losses give P a mass of {1.0 - rest!r}, which must be at most 1.")
        return cls(np.append(null, max(0.0, rest)), np.append(mass, 0.0))

    def privacy_loss(self) -> tuple[Floats, Floats]:
        """The privacy-loss distribution of D(Q‖P): losses log(q/p) in falling order, and their masses under Q."""
        seen = self.alternative > 0
        null, mass = self.null[seen], self.alternative[seen]
        with np.errstate(divide="ignore"):
            return np.log(mass) - np.log(null), mass

    @cached_property
    def fpr_knots(self) -> Floats:
        """Type I errors of the knots, from 0 to 1."""
        return self._from_left(self.null)

    @cached_property
    def tpr_knots(self) -> Floats:
        """1 − the type II errors of the knots."""
        return self._from_left(self.alternative)

    @cached_property
    def fnr_knots(self) -> Floats:
        """Type II errors of the knots, summed from the right so that tiny ones keep their digits."""
        return self._from_right(self.alternative)

    @property
    def _starts_with_drop(self) -> bool:
        return bool(self.null[0] == 0.0)

    def _from_left(self, masses: Floats) -> Floats:
        total = np.cumsum(masses)
        total[-1] = 1.0
        return _frozen(np.minimum(1.0, total if self._starts_with_drop else np.append(0.0, total)))

    def _from_right(self, masses: Floats) -> Floats:
        total = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        return _frozen(np.minimum(1.0, total[1:] if self._starts_with_drop else total))

    @property
    def _rounding(self) -> float:
        """More than sums over all segments lose in floats, so that values of a guarantee are bounds."""
        return 2 * len(self.null) * float(np.finfo(np.float64).eps) if self.guarantee else 0.0

    def fnr(self, fpr: ArrayLike) -> Floats:
        found = np.interp(_errors(fpr), self.fpr_knots, self.fnr_knots)
        return np.asarray(np.maximum(0.0, found - self._rounding))

    def tpr(self, fpr: ArrayLike) -> Floats:
        found = np.interp(_errors(fpr), self.fpr_knots, self.tpr_knots)
        return np.asarray(np.minimum(1.0, found * (1 + self._rounding)))

    def delta(self, epsilon: float) -> float:
        epsilon = argument.real(WHO, "epsilon", epsilon)
        if epsilon < 0:
            # D_{e^ε}(Q‖P) = 1 − e^ε + e^ε·D_{e^−ε}(P‖Q), which cancels nothing.
            return -math.expm1(epsilon) + math.exp(epsilon) * self.inverse().delta(-epsilon)
        with np.errstate(over="ignore", invalid="ignore"):
            product = np.where(self.null > 0, np.exp(epsilon) * self.null, 0.0)
        found = float(np.maximum(0.0, self.alternative - product).sum())
        return min(1.0, found * (1 + self._rounding))

    def knots(self) -> PiecewiseTradeOff:
        return self

    def demand_known(self) -> None:
        """Refuse a polygon through points of a curve: below it, where that curve is, a divergence may be infinite."""
        if self.from_points:
            raise NotApplicable(
                "divergence",
                "expected a curve that is known everywhere, got one through points, of which a divergence is only "
                "bounded from below; give its laws, its formula or a guaranteed curve.",
            )

    def renyi(self, order: float) -> float:
        """The sum over the segments: log Σ p^order·q^(1−order)/(order − 1), at order 1 Σ p·log(p/q)."""
        self.demand_known()
        if self.null[self.alternative == 0].any():
            return math.inf
        seen = self.null > 0
        p, q = self.null[seen], self.alternative[seen]
        losses, unseen = np.log(p) - np.log(q), float(self.alternative[~seen].sum())
        if order == 1:
            # s·log s − s + 1 is never negative, so that no digits cancel; the added terms sum to 0.
            return math.fsum((p * losses - p + q).tolist()) + unseen
        logs = np.log(q) + order * losses
        top = float(logs.max())
        if top > MOST_EXCESS:
            return (top + math.log(float(np.sum(np.exp(logs - top))))) / (order - 1)
        # s^a − 1 − a·(s − 1), alike.
        excess = q * (np.expm1(order * losses) - order * np.expm1(losses))
        return math.log1p(math.fsum(excess.tolist()) + (order - 1) * unseen) / (order - 1)

    def inverse(self) -> PiecewiseTradeOff:
        return replace(self, null=self.alternative, alternative=self.null)

    def symmetrised(self) -> PiecewiseTradeOff:
        """C(f): what (ε, δ(ε))-DP in both directions for all ε ≥ 0 gives.

        Theorem: [FDP] Equation 3: left of slope −1 the curve itself, then x̄ + f(x̄) − x, then the mirror image; where
        the steep part crosses the diagonal, the part before the crossing and its mirror image.
        Returns: δ(ε) for ε ≥ 0 as before, or smaller where the steep part crosses the diagonal.
        Deviates: print has x̄ − f(x̄) − x in the middle (docs/errata.md, FD-6).
        """
        steep = self.alternative >= self.null
        null, alternative = self.null[steep], self.alternative[steep]
        x, y = float(null.sum()), 1.0 - float(alternative.sum())
        if x > y:
            null, alternative, gap = _cut_at_diagonal(null, alternative)
        else:
            gap = y - x
        return replace(
            self,
            null=np.concatenate([null, [gap], alternative]),
            alternative=np.concatenate([alternative, [gap], null]),
        )

    def mu(self) -> float:
        """The smallest μ with which the curve lies on or above Gaussian privacy's, infinity if there is none.

        Theorem: at each knot G_μ(x) = Φ(Φ⁻¹(1−x) − μ) gives one μ; a convex G_μ below all knots is below all chords.
        """
        if self.tpr_knots[0] > 0 or (self.null[-1] > 0 and self.alternative[-1] == 0):
            return math.inf
        if len(self.null) == 1:
            return 0.0
        inner = slice(1, -1)
        left = _score(self._from_right(self.null)[inner], self.fpr_knots[inner])
        return max(0.0, float(np.max(left + _score(self.tpr_knots[inner], self.fnr_knots[inner]))))


def _score(probability: Floats, complement: Floats) -> Floats:
    """Φ⁻¹(probability), from the smaller of the two."""
    from scipy.special import ndtri

    return np.asarray(np.where(probability < complement, ndtri(probability), -ndtri(complement)))


def lowest(curves: Sequence[TradeOff]) -> PiecewiseTradeOff:
    """min(f, g, …)**: the convex hull of several curves, a guarantee for all of their pairs at once.

    ``curves`` are trade-off curves, at least one; those that are no polygons count by their knots.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> hull = sdp.tradeoff.lowest([coins, sdp.tradeoff.GaussianTradeOff(1.0)])
    >>> print(f"{float(hull.fnr(0.01)):.4f} {float(hull.fnr(0.25)):.4f}")
    0.9076 0.2500
    """
    if not curves:
        raise ValueError("lowest: expected at least one curve, got none.")
    known = [curve.knots() for curve in curves]
    x = np.concatenate([curve.fpr_knots for curve in known])
    y = np.concatenate([curve.fnr_knots for curve in known])
    result = PiecewiseTradeOff.of_points(x, y)
    theorem = "convex hull of: " + ", ".join(dict.fromkeys(curve.theorem for curve in curves))
    guarantee, from_points = all(curve.guarantee for curve in known), any(curve.from_points for curve in known)
    return replace(result, theorem=theorem, guarantee=guarantee, from_points=from_points)


def _cut_at_diagonal(null: Floats, alternative: Floats) -> tuple[Floats, Floats, float]:
    """The steep segments up to where fpr = fnr, the last one in part; nothing is left between the mirror images."""
    sums = np.cumsum(null + alternative)
    last = int(np.searchsorted(sums, 1.0))
    before = float(sums[last - 1]) if last else 0.0
    share = (1.0 - before) / float(null[last] + alternative[last])
    null, alternative = null[: last + 1].copy(), alternative[: last + 1].copy()
    null[-1] *= share
    alternative[-1] *= share
    return null, alternative, 0.0


def _steepness(null: Floats, alternative: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(alternative) - np.log(null))


def _masses(name: str, values: ArrayLike) -> Floats:
    masses = argument.reals(WHO, name, values)
    if masses.ndim != 1 or len(masses) == 0 or not (masses >= 0).all():
        raise ValueError(f"{WHO}: {name} must be a list of numbers of at least 0.")
    total = math.fsum(masses.tolist())
    if not abs(total - 1.0) <= TOTAL_TOLERANCE:
        raise ValueError(f"{WHO}: {name} must sum to 1, got {total!r}.")
    return masses / total


def _frozen(values: Floats) -> Floats:
    values.flags.writeable = False
    return values


def _errors(fpr: ArrayLike) -> Floats:
    errors = argument.reals(WHO, "fpr", fpr, up=True)
    if not ((errors >= 0) & (errors <= 1)).all():
        raise ValueError(f"{WHO}: fpr must be between 0 and 1, got {fpr!r}.")
    return errors


checked_errors = _errors
