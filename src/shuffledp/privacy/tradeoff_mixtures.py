"""Trade-off curves of mixtures, as exact curves or lower bounds from the curves of their parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import NumericalError
from shuffledp._core.validation import Floats
from shuffledp.privacy.tradeoff import PiecewiseTradeOff, TradeOff

MIN_JOINT_PROBABILITY = 1e-15
"""Joint probabilities of the linear program below this are rounded to 0."""
CHOICE_EPSILONS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Values of ε at which γ and η are chosen; the result is the largest of the curves."""
GRID_POINTS, GRID_SHRINKAGE, GRID_REFINEMENTS = 7, 0.35, 6
"""Grid points of γ and η on each side of w, the factor by which the grid narrows, and the number of its refinements."""

Matrix = Sequence[Sequence[TradeOff]]
"""Rows are the first argument P_0, P_1, …, columns the second Q_0, Q_1, …"""
Quadruple = tuple[tuple[TradeOff, TradeOff], tuple[TradeOff, TradeOff]]
"""Rows are the first argument P_0, P_1, columns the second Q_0, Q_1."""


def mixed(curves: Sequence[TradeOff], weights: Sequence[float]) -> PiecewiseTradeOff:
    """Returns a lower curve of T(Σw_i·P_i, Σw_i·Q_i): all parts tested at one common threshold of the likelihood ratio.

    Theorem: [FDP] Lemma 3.1 (joint concavity).
    Requires: as many weights as curves, each at least 0, summing to 1.
    Deviates: the segments of all parts are sorted by slope together; averaging at one level x is false (FD-1).

    Args:
        curves: The T(P_i, Q_i), or lower curves of them.
        weights: The w_i.

    Returns:
        The exact curve of the pair that also reveals which part was drawn; hence a lower curve of the mixtures.

    Raises:
        ValueError: If the weights do not match the curves, are negative or do not sum to 1.

    >>> import shuffledp as sdp
    >>> weak, strong = sdp.tradeoff.GaussianTradeOff(0.5), sdp.tradeoff.GaussianTradeOff(2.0)
    >>> both = sdp.tradeoff.mixed([weak, strong], weights=[0.9, 0.1])
    >>> print(f"{both.advantage():.4f} {both.delta(1.0):.4f}")
    0.2459 0.0571
    """
    if len(curves) != len(weights) or not curves:
        raise ValueError(f"mixed: expected one weight for each curve, got {len(curves)} and {len(weights)}.")
    weights = _check_weights("mixed", weights).tolist()
    known = [curve.to_piecewise() for curve in curves]
    return PiecewiseTradeOff(
        np.concatenate([weight * curve.null for weight, curve in zip(weights, known, strict=True)]),
        np.concatenate([weight * curve.alternative for weight, curve in zip(weights, known, strict=True)]),
        "[FDP] Lemma 3.1",
        *_joint_certainty(known),
    )


def mixed_unequally(
    curves: Matrix, first: Sequence[float], second: Sequence[float], *, epsilon: float = 0.0
) -> PiecewiseTradeOff:
    """Returns a lower curve of T(Σa_i·P_i, Σb_j·Q_j) for different weights of any number on each side.

    Theorem: [FDP] Proposition B.1: for every joint law π of (i, j) with marginals a and b, Lemma 3.1 holds with weights
    π; δ(ε) of the labelled mixture is Σ π_ij·δ_ij(ε), linear in π, so that the best π is an optimal transport.
    Requires: weights of at least 0 that sum to 1 on each side, and as many as there are rows and columns.
    Deviates: parts share a threshold; print adds the curves at one level, which is false already for equal weights
    (docs/errata.md, FD-12), and has two parts.

    Args:
        curves: ``curves[i][j]`` is T(P_i, Q_j) or a lower curve of it.
        first: The weights a.
        second: The weights b.
        epsilon: The ε at which π minimises δ; 0 for the advantage.

    Returns:
        The labelled mixture over pairs (i, j) drawn by the best π, a lower curve whatever ``epsilon`` is.

    Raises:
        ValueError: If the weights are negative, do not sum to 1 or do not match the table of curves.
        NumericalError: If the linear program fails.

    >>> import shuffledp as sdp
    >>> near, far = sdp.tradeoff.GaussianTradeOff(1.0), sdp.tradeoff.GaussianTradeOff(2.0)
    >>> both = sdp.tradeoff.mixed_unequally([[near, far], [far, near]], first=[0.75, 0.25], second=[0.5, 0.5])
    >>> print(f"{both.advantage():.4f}")
    0.4579
    """
    who = "mixed_unequally"
    a, b = _check_weights(who, first), _check_weights(who, second)
    if len(curves) != len(a) or any(len(row) != len(b) for row in curves):
        raise ValueError(f"{who}: expected a table of {len(a)} times {len(b)} curves.")
    costs = np.array([[curve.delta(validation.real(who, "epsilon", epsilon)) for curve in row] for row in curves])
    together = _optimal_coupling(a, b, costs)
    pairs = [(curves[i][j], float(together[i, j])) for i, j in np.argwhere(together > 0).tolist()]
    found = mixed([curve for curve, _ in pairs], [weight for _, weight in pairs])
    return replace(found, theorem="[FDP] Proposition B.1")


def _optimal_coupling(a: Floats, b: Floats, costs: Floats) -> Floats:
    """Returns the joint law with marginals a and b of least mean cost: an optimal transport, its marginals repaired."""
    from scipy.optimize import linprog

    rows, columns = costs.shape
    sums = np.vstack([np.kron(np.eye(rows), np.ones(columns)), np.kron(np.ones(rows), np.eye(columns))])
    solved = linprog(costs.ravel(), A_eq=sums, b_eq=np.concatenate([a, b]), method="highs")
    if not solved.success:
        raise NumericalError(f"mixed_unequally: no joint law was found: {solved.message}")
    found = np.where(solved.x > MIN_JOINT_PROBABILITY, solved.x, 0.0).reshape(rows, columns)
    # The mass that rounding left over is drawn independently.
    found *= np.minimum(1.0, a / np.maximum(found.sum(axis=1), MIN_JOINT_PROBABILITY))[:, None]
    found *= np.minimum(1.0, b / np.maximum(found.sum(axis=0), MIN_JOINT_PROBABILITY))
    left, right = np.maximum(0.0, a - found.sum(axis=1)), np.maximum(0.0, b - found.sum(axis=0))
    total = max(float(left.sum()), float(right.sum()))
    return np.asarray(found + np.outer(left, right) / total if total > 0 else found)


def exchanged(inner: TradeOff, weight: float) -> PiecewiseTradeOff:
    """Returns T((1−w)·P_0 + w·Q_0, (1−w)·Q_0 + w·P_0) exactly, from T(P_0, Q_0).

    Theorem: exact curve of an exchange: fpr = (1−w)·fpr_0 + w·(1 − fnr_0), fnr = (1−w)·fnr_0 + w·(1 − fpr_0).
    Requires: 0 ≤ w ≤ ½, so that the likelihood ratio of the mixtures rises with that of the parts.

    Args:
        inner: T(P_0, Q_0).
        weight: w, the probability that the two are exchanged.

    Returns:
        The exact curve; at least ``exchanged_bound``.

    Raises:
        ValueError: If ``weight`` is not between 0 and ½.

    >>> import shuffledp as sdp
    >>> inner = sdp.tradeoff.GaussianTradeOff(2.0)
    >>> print(f"{inner.delta(0.2):.4f} {sdp.tradeoff.exchanged(inner, weight=0.25).delta(0.2):.4f}")
    0.6502 0.2738
    """
    w = _check_exchange_weight("exchanged", weight)
    known = inner.to_piecewise()
    null = (1 - w) * known.null + w * known.alternative
    alternative = (1 - w) * known.alternative + w * known.null
    return PiecewiseTradeOff(null, alternative, "exact curve of an exchange", *_joint_certainty([known]))


def exchanged_bound(inner: TradeOff, weight: float) -> PiecewiseTradeOff:
    """Returns the published lower curve of the same pair: C(2w·(1−x) + (1−2w)·T(P_0, Q_0)).

    Theorem: [FDP] Proposition 6.4, Theorem 4.2.
    Requires: 0 ≤ w ≤ ½.
    Deviates: print takes it for the curve itself (FD-3); the symmetrisation is required (FD-2).

    Args:
        inner: T(P_0, Q_0).
        weight: w, the probability that the two are exchanged.

    Returns:
        A lower curve, for reproduction; ``exchanged`` is exact.

    Raises:
        ValueError: If ``weight`` is not between 0 and ½.

    >>> import shuffledp as sdp
    >>> inner = sdp.tradeoff.GaussianTradeOff(2.0)
    >>> published, exact = sdp.tradeoff.exchanged_bound(inner, 0.25), sdp.tradeoff.exchanged(inner, 0.25)
    >>> print(f"{float(published.fnr(0.05)):.4f} {float(exact.fnr(0.05)):.4f}")
    0.6556 0.8542
    """
    w = _check_exchange_weight("exchanged_bound", weight)
    known = inner.to_piecewise()
    raised = 2 * w * known.null + (1 - 2 * w) * known.alternative
    whole = PiecewiseTradeOff(known.null, raised, "[FDP] Proposition 6.4", *_joint_certainty([known]))
    return whole.symmetrised()


def advanced_joint_concavity(
    curves: Quadruple, weight: float, gamma: float | None = None, eta: float | None = None
) -> PiecewiseTradeOff:
    """Returns a lower curve of T((1−w)·P_0 + w·P_1, (1−w)·Q_0 + w·Q_1) that also uses the crossed pairs.

    If γ and η are left out they are chosen separately for each of several slopes, and the largest of the curves is
    returned.

    Theorem: [FDP] Lemma 6.3 (advanced joint concavity): for γ < w < η or η < w < γ,
    Q_w − e^ε·P_w = (1−w)·[Q_0 − e^ε0·((1−γ)·P_0 + γ·P_1)] + w·[Q_1 − e^ε1·((1−η)·P_0 + η·P_1)], with
    e^ε0 = e^ε·(η−w)/((1−w)(η−γ)) and e^ε1 = e^ε·(w−γ)/(w(η−γ)).
    Requires: ``curves[i][j]`` = T(P_i, Q_j); 0 < w < 1; γ, η in [0, 1] on different sides of w.
    Deviates: with T(P, Q)'s conjugate giving D(Q‖P) it is the first argument that γ and η mix (FD-14).

    Args:
        curves: ``curves[i][j]`` is T(P_i, Q_j).
        weight: w.
        gamma: γ, the weight of P_1 against Q_0; 0 together with η = 1 gives ``mixed``.
        eta: η, the weight of P_1 against Q_1.

    Returns:
        A lower curve; the conjugates are added, so that segments are scaled and sorted by slope.

    Raises:
        ValueError: If a number is out of range, if only one of ``gamma`` and ``eta`` is given, or if they do not lie on
            different sides of ``weight``.

    >>> import shuffledp as sdp
    >>> near, far = sdp.tradeoff.GaussianTradeOff(1.0), sdp.tradeoff.GaussianTradeOff(2.0)
    >>> crossed = sdp.tradeoff.advanced_joint_concavity(((far, near), (near, far)), weight=0.5)
    >>> print(f"{sdp.tradeoff.mixed([far, far], [0.5, 0.5]).advantage():.4f} {crossed.advantage():.4f}")
    0.6827 0.3829
    """
    w = validation.open_probability("advanced_joint_concavity", "weight", weight)
    if gamma is None and eta is None:
        chosen = {_WeightSearch(curves, w).best(way * epsilon) for epsilon in CHOICE_EPSILONS for way in (1, -1)}
        return highest([_lemma_curve(curves, w, *pair) for pair in sorted(chosen)])
    if gamma is None or eta is None:
        raise ValueError("advanced_joint_concavity: give both gamma and eta, or none of them.")
    gamma, eta = (
        _check_share("advanced_joint_concavity", name, share) for name, share in (("gamma", gamma), ("eta", eta))
    )
    if not (gamma < w < eta or eta < w < gamma):
        raise ValueError(
            f"advanced_joint_concavity: gamma and eta must lie on different sides of weight = {w!r}, "
            f"got {gamma!r}, {eta!r}."
        )
    return _lemma_curve(curves, w, gamma, eta)


def _lemma_ratios(w: float, gamma: float, eta: float) -> tuple[float, float]:
    """Returns e^(ε0 − ε) and e^(ε1 − ε) of the lemma."""
    return (eta - w) / ((1 - w) * (eta - gamma)), (w - gamma) / (w * (eta - gamma))


def _lemma_curve(curves: Quadruple, w: float, gamma: float, eta: float) -> PiecewiseTradeOff:
    (p0q0, p0q1), (p1q0, p1q1) = curves
    wide0, wide1 = _lemma_ratios(w, gamma, eta)
    parts = [
        (p0q0, (1 - w) * (1 - gamma), wide0),
        (p1q0, (1 - w) * gamma, wide0),
        (p0q1, w * (1 - eta), wide1),
        (p1q1, w * eta, wide1),
    ]
    known = [(curve.to_piecewise(), share, wide) for curve, share, wide in parts]
    return PiecewiseTradeOff(
        np.concatenate([share * wide * curve.null for curve, share, wide in known]),
        np.concatenate([share * curve.alternative for curve, share, _ in known]),
        "[FDP] Lemma 6.3",
        *_joint_certainty([curve for curve, _, _ in known]),
    )


@dataclass(frozen=True)
class _WeightSearch:
    """The choice of γ and η: every choice is sound, so floats and a grid search do no harm."""

    curves: Quadruple
    w: float

    def best(self, epsilon: float) -> tuple[float, float]:
        """Returns the γ and η with the smallest δ at ε on a grid that is refined."""
        sides = (0.0, self.w), (self.w, 1.0)
        found = [self._refine(epsilon, low, high) for low, high in (sides, sides[::-1])]
        return min(found)[1]

    def _refine(
        self, epsilon: float, below: tuple[float, float], above: tuple[float, float]
    ) -> tuple[float, tuple[float, float]]:
        """Returns the best choice with γ in one interval and η in the other."""
        ranges, found = [below, above], (math.inf, (0.0, 0.0))
        for _ in range(GRID_REFINEMENTS):
            pairs = [(gamma, eta) for gamma in self._grid(*ranges[0]) for eta in self._grid(*ranges[1])]
            found = min([found, *((self._delta(epsilon, *pair), pair) for pair in pairs)])
            ranges = [
                _clipped_interval(centre, GRID_SHRINKAGE * (high - low), limits)
                for centre, (low, high), limits in zip(found[1], ranges, (below, above), strict=True)
            ]
        return found

    def _grid(self, low: float, high: float) -> list[float]:
        """Returns grid points of an interval, w itself left out."""
        return [
            float(x) for x in np.linspace(low, high, GRID_POINTS) if abs(x - self.w) > GRID_POINTS * np.spacing(1.0)
        ]

    def _delta(self, epsilon: float, gamma: float, eta: float) -> float:
        (p0q0, p0q1), (p1q0, p1q1) = self.curves
        one, two = (epsilon + math.log(wide) for wide in _lemma_ratios(self.w, gamma, eta))
        left = (1 - gamma) * p0q0.delta(one) + gamma * p1q0.delta(one)
        right = (1 - eta) * p0q1.delta(two) + eta * p1q1.delta(two)
        return (1 - self.w) * left + self.w * right


def _clipped_interval(centre: float, width: float, limits: tuple[float, float]) -> tuple[float, float]:
    return max(limits[0], centre - width / 2), min(limits[1], centre + width / 2)


def highest(curves: Sequence[TradeOff]) -> PiecewiseTradeOff:
    """Returns max(f, g, …): the curve that several lower curves of one pair prove together.

    Args:
        curves: At least one lower curve of the same T(P, Q); those that are not polygons are represented by their
            knots.

    Returns:
        The largest at each level, a convex curve that includes the corners where two curves cross.

    Raises:
        ValueError: If there is no curve.

    >>> import shuffledp as sdp
    >>> lines = [sdp.tradeoff.GuaranteedTradeOff([0.0], [0.3]), sdp.tradeoff.GuaranteedTradeOff([0.0, 1.0], [0.5, 0.0])]
    >>> both = sdp.tradeoff.highest(lines)
    >>> print(f"{both.advantage():.4f} {float(both.fnr(0.01)):.4f}")
    0.3000 0.9728
    """
    if not curves:
        raise ValueError("highest: expected at least one curve, got none.")
    known = [curve.to_piecewise() for curve in curves]
    levels, power = known[0].fpr_knots, known[0].tpr_knots
    for curve in known[1:]:
        levels, power = _lower_power(levels, power, curve)
    null, alternative = np.append([0.0], np.diff(levels)), np.append([power[0]], np.diff(power))
    theorem = "the largest of: " + ", ".join(dict.fromkeys(curve.theorem for curve in curves))
    return PiecewiseTradeOff(null, np.maximum(0.0, alternative), theorem, *_joint_certainty(known))


def _lower_power(levels: Floats, power: Floats, other: PiecewiseTradeOff) -> tuple[Floats, Floats]:
    """Returns the knots of the smaller of two power functions, crossings included."""
    x = np.union1d(levels, other.fpr_knots)
    one, two = np.interp(x, levels, power), other.tpr(x)
    apart = one - two
    crosses = np.flatnonzero(apart[:-1] * apart[1:] < 0)
    share = apart[crosses] / (apart[crosses] - apart[crosses + 1])
    places = x[crosses] + share * np.diff(x)[crosses]
    values = one[crosses] + share * np.diff(one)[crosses]
    x, y = np.append(x, places), np.append(np.minimum(one, two), values)
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    # A crossing may round to a knot.
    distinct = np.append(True, np.diff(x) > 0)
    return x[distinct], np.maximum.accumulate(y[distinct])


def averaged(curves: Sequence[TradeOff], weights: Sequence[float]) -> PiecewiseTradeOff:
    """Returns a lower curve of T(P, Σw_i·Q_i) with the same P: the average of T(P, Q_i) at each level.

    Theorem: [FDP] Lemma 6.3 at γ = η = w: T(P_w, Q_w) ≥ (1−w)·T(P_w, Q_0) + w·T(P_w, Q_1).
    Requires: every curve has the same first law P.
    Deviates: print averages over the first argument, which is false (FD-7).

    Args:
        curves: The T(P, Q_i).
        weights: The w_i.

    Returns:
        A lower curve.

    Raises:
        ValueError: If the weights do not match the curves, are negative or do not sum to 1.

    >>> import shuffledp as sdp
    >>> near, far = sdp.tradeoff.GaussianTradeOff(1.0), sdp.tradeoff.GaussianTradeOff(2.0)
    >>> print(f"{float(sdp.tradeoff.averaged([near, far], [0.5, 0.5]).fnr(0.05)):.4f}")
    0.5509
    """
    if len(curves) != len(weights) or not curves:
        raise ValueError(f"averaged: expected one weight for each curve, got {len(curves)} and {len(weights)}.")
    weights = _check_weights("averaged", weights).tolist()
    known = [curve.to_piecewise() for curve in curves]
    levels = np.unique(np.concatenate([curve.fpr_knots for curve in known]))
    power = np.sum([weight * curve.tpr(levels) for weight, curve in zip(weights, known, strict=True)], axis=0)
    null, alternative = np.append([0.0], np.diff(levels)), np.append([power[0]], np.diff(power))
    return PiecewiseTradeOff(null, np.maximum(0.0, alternative), "[FDP] Lemma 6.3", *_joint_certainty(known))


def subsampled(curve: TradeOff, rate: float) -> PiecewiseTradeOff:
    """Returns C((1−w)·(1−x) + w·f): a lower curve of a mechanism that sees the changed record with probability w.

    Theorem: [FDP] Proposition E.1: P = (1−w)·P_0 + w·P_1 against Q = (1−w)·P_0 + w·Q_1.
    Requires: f below T(P_1, Q_1) and T(Q_1, P_1), and below the curves of P_0 against P_1 and against Q_1 in the
    order T(P_0, ·): pass ``lowest([...])`` of all four.
    Deviates: print asks for T(P_1, Q_1) only, which is false (FD-8).

    Args:
        curve: f.
        rate: w, the probability that the changed record is sampled.

    Returns:
        A lower curve in both directions.

    Raises:
        ValueError: If ``rate`` is not between 0 and 1.

    >>> import shuffledp as sdp
    >>> curve = sdp.tradeoff.GaussianTradeOff(1.0)
    >>> print(f"{curve.delta(0.1):.4f} {sdp.tradeoff.subsampled(curve, rate=0.1).delta(0.1):.4f}")
    0.3523 0.0185
    """
    w = _check_share("subsampled", "rate", rate, up=True)
    known = curve.to_piecewise()
    raised = (1 - w) * known.null + w * known.alternative
    return PiecewiseTradeOff(known.null, raised, "[FDP] Proposition E.1", *_joint_certainty([known])).symmetrised()


def _check_weights(who: str, given: Sequence[float]) -> Floats:
    weights = [validation.real(who, "a weight", weight) for weight in given]
    if not all(weight >= 0 for weight in weights) or not math.isclose(sum(weights), 1.0, rel_tol=1e-9):
        raise ValueError(f"{who}: weights must be at least 0 and sum to 1, got {weights!r}.")
    return np.array(weights) / math.fsum(weights)


def _check_share(who: str, name: str, value: float, *, up: bool = False) -> float:
    share = validation.real(who, name, value, up=up)
    if not 0 <= share <= 1:
        raise ValueError(f"{who}: {name} must be between 0 and 1, got {share!r}.")
    return share


def _check_exchange_weight(who: str, weight: float) -> float:
    w = _check_share(who, "weight", weight)
    if w > 0.5:
        raise ValueError(f"{who}: weight must be at most 1/2, got {w!r}; exchange the two laws.")
    return w


def _joint_certainty(known: Sequence[PiecewiseTradeOff]) -> tuple[bool, bool]:
    """Returns (guarantee, from_points) of a curve made of these parts."""
    return all(curve.guarantee for curve in known), any(curve.from_points for curve in known)
