"""Trade-off curves of mixtures: what is known of the parts, put together without losing soundness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shuffledp import argument
from shuffledp.tradeoff.trade_off import PiecewiseTradeOff, TradeOff

Quadruple = tuple[tuple[TradeOff, TradeOff], tuple[TradeOff, TradeOff]]
"""Rows are the first argument P_0, P_1, columns the second Q_0, Q_1."""


def mixed(curves: Sequence[TradeOff], weights: Sequence[float]) -> PiecewiseTradeOff:
    """A lower curve of T(Σw_i·P_i, Σw_i·Q_i): all parts tested at one common threshold of the likelihood ratio.

    ``curves`` are the T(P_i, Q_i), or lower curves of them; ``weights`` the w_i.

    Theorem: [FDP] Lemma 3.1 (joint concavity).
    Requires: as many weights as curves, each at least 0, summing to 1.
    Returns: the exact curve of the pair that also shows which part was drawn; hence a lower curve of the mixtures.
    Deviates: the segments of all parts are sorted by slope together; averaging at one level x is false (FD-1).

    >>> import shuffledp as sdp
    >>> weak, strong = sdp.tradeoff.GaussianTradeOff(0.5), sdp.tradeoff.GaussianTradeOff(2.0)
    >>> both = sdp.tradeoff.mixed([weak, strong], weights=[0.9, 0.1])
    >>> print(f"{both.advantage():.4f} {both.delta(1.0):.4f}")
    0.2459 0.0571
    """
    if len(curves) != len(weights) or not curves:
        raise ValueError(f"mixed: expected one weight for each curve, got {len(curves)} and {len(weights)}.")
    weights = [argument.real("mixed", "a weight", weight) for weight in weights]
    if not all(weight >= 0 for weight in weights) or not math.isclose(sum(weights), 1.0, rel_tol=1e-9):
        raise ValueError(f"mixed: weights must be at least 0 and sum to 1, got {weights!r}.")
    known = [curve.knots() for curve in curves]
    return PiecewiseTradeOff(
        np.concatenate([weight * curve.null for weight, curve in zip(weights, known, strict=True)]),
        np.concatenate([weight * curve.alternative for weight, curve in zip(weights, known, strict=True)]),
        "[FDP] Lemma 3.1",
        _all_guarantee(known),
    )


def mixed_unequally(curves: Quadruple, first: float, second: float) -> PiecewiseTradeOff:
    """A lower curve of T((1−a)·P_0 + a·P_1, (1−b)·Q_0 + b·Q_1) for weights a = ``first`` and b = ``second``.

    ``curves[i][j]`` is T(P_i, Q_j) or a lower curve of it.

    Theorem: [FDP] Proposition B.1.
    Requires: 0 ≤ a, b ≤ 1.
    Returns: the labelled mixture over pairs (i, j) drawn together as often as the weights allow.
    Deviates: parts share a threshold; print adds the curves at one level, which is false already for equal weights
    (docs/errata.md, FD-12).

    >>> import shuffledp as sdp
    >>> near, far = sdp.tradeoff.GaussianTradeOff(1.0), sdp.tradeoff.GaussianTradeOff(2.0)
    >>> both = sdp.tradeoff.mixed_unequally(((near, far), (far, near)), first=0.25, second=0.5)
    >>> print(f"{both.advantage():.4f}")
    0.4579
    """
    a, b = _share("mixed_unequally", "first", first), _share("mixed_unequally", "second", second)
    both = min(a, b)
    weights = [min(1 - a, 1 - b), b - both, a - both, both]
    return replace(mixed([curve for row in curves for curve in row], weights), theorem="[FDP] Proposition B.1")


def exchanged(inner: TradeOff, weight: float) -> PiecewiseTradeOff:
    """T((1−w)·P_0 + w·Q_0, (1−w)·Q_0 + w·P_0) exactly, from T(P_0, Q_0).

    ``inner`` is T(P_0, Q_0); ``weight`` is w, the chance that the two are exchanged.

    Theorem: exact curve of an exchange: fpr = (1−w)·fpr_0 + w·(1 − fnr_0), fnr = (1−w)·fnr_0 + w·(1 − fpr_0).
    Requires: 0 ≤ w ≤ ½, so that the likelihood ratio of the mixtures rises with that of the parts.
    Returns: the exact curve; at least ``exchanged_bound``.

    >>> import shuffledp as sdp
    >>> inner = sdp.tradeoff.GaussianTradeOff(2.0)
    >>> print(f"{inner.delta(0.2):.4f} {sdp.tradeoff.exchanged(inner, weight=0.25).delta(0.2):.4f}")
    0.6502 0.2738
    """
    w = _exchange("exchanged", weight)
    known = inner.knots()
    null = (1 - w) * known.null + w * known.alternative
    alternative = (1 - w) * known.alternative + w * known.null
    return PiecewiseTradeOff(null, alternative, "exact curve of an exchange", known.guarantee)


def exchanged_bound(inner: TradeOff, weight: float) -> PiecewiseTradeOff:
    """The published lower curve of the same pair: C(2w·(1−x) + (1−2w)·T(P_0, Q_0)).

    ``inner`` is T(P_0, Q_0); ``weight`` is w, the chance that the two are exchanged.

    Theorem: [FDP] Proposition 6.4, Theorem 4.2.
    Requires: 0 ≤ w ≤ ½.
    Returns: a lower curve, for reproduction; ``exchanged`` is exact.
    Deviates: print takes it for the curve itself (FD-3); the symmetrisation is required (FD-2).

    >>> import shuffledp as sdp
    >>> inner = sdp.tradeoff.GaussianTradeOff(2.0)
    >>> published, exact = sdp.tradeoff.exchanged_bound(inner, 0.25), sdp.tradeoff.exchanged(inner, 0.25)
    >>> print(f"{float(published.fnr(0.05)):.4f} {float(exact.fnr(0.05)):.4f}")
    0.6556 0.8542
    """
    w = _exchange("exchanged_bound", weight)
    known = inner.knots()
    raised = 2 * w * known.null + (1 - 2 * w) * known.alternative
    whole = PiecewiseTradeOff(known.null, raised, "[FDP] Proposition 6.4", known.guarantee)
    return whole.symmetrised()


def advanced(curves: Quadruple, weight: float, gamma: float, eta: float) -> PiecewiseTradeOff:
    """A lower curve of T((1−w)·P_0 + w·P_1, (1−w)·Q_0 + w·Q_1) that also uses the crossed pairs.

    ``weight`` is w; ``gamma`` and ``eta`` say how much each part leans on the crossed pairs: 0 and 1 is ``mixed``.

    Theorem: [FDP] Lemma 6.3 (advanced joint concavity): for γ < w < η or η < w < γ,
    Q_w − e^ε·P_w = (1−w)·[Q_0 − e^ε0·((1−γ)·P_0 + γ·P_1)] + w·[Q_1 − e^ε1·((1−η)·P_0 + η·P_1)], with
    e^ε0 = e^ε·(η−w)/((1−w)(η−γ)) and e^ε1 = e^ε·(w−γ)/(w(η−γ)).
    Requires: ``curves[i][j]`` = T(P_i, Q_j); 0 < w < 1; γ, η in [0, 1] on different sides of w.
    Returns: a lower curve; the conjugates are added, so that segments are scaled and sorted by slope.
    Deviates: with T(P, Q)'s conjugate giving D(Q‖P) it is the first argument that γ and η mix (FD-14).

    >>> import shuffledp as sdp
    >>> near, far = sdp.tradeoff.GaussianTradeOff(1.0), sdp.tradeoff.GaussianTradeOff(2.0)
    >>> crossed = sdp.tradeoff.advanced(((far, near), (near, far)), weight=0.5, gamma=0.75, eta=0.25)
    >>> print(f"{sdp.tradeoff.mixed([far, far], [0.5, 0.5]).advantage():.4f} {crossed.advantage():.4f}")
    0.6827 0.4579
    """
    w = argument.open_probability("advanced", "weight", weight)
    gamma, eta = _share("advanced", "gamma", gamma), _share("advanced", "eta", eta)
    if not (gamma < w < eta or eta < w < gamma):
        raise ValueError(
            f"advanced: gamma and eta must lie on different sides of weight = {w!r}, got {gamma!r}, {eta!r}."
        )
    (p0q0, p0q1), (p1q0, p1q1) = curves
    wide0, wide1 = (eta - w) / ((1 - w) * (eta - gamma)), (w - gamma) / (w * (eta - gamma))
    parts = [
        (p0q0, (1 - w) * (1 - gamma), wide0),
        (p1q0, (1 - w) * gamma, wide0),
        (p0q1, w * (1 - eta), wide1),
        (p1q1, w * eta, wide1),
    ]
    known = [(curve.knots(), share, wide) for curve, share, wide in parts]
    return PiecewiseTradeOff(
        np.concatenate([share * wide * curve.null for curve, share, wide in known]),
        np.concatenate([share * curve.alternative for curve, share, _ in known]),
        "[FDP] Lemma 6.3",
        _all_guarantee([curve for curve, _, _ in known]),
    )


def averaged(curves: Sequence[TradeOff], weights: Sequence[float]) -> PiecewiseTradeOff:
    """A lower curve of T(P, Σw_i·Q_i) with one and the same P: the average of T(P, Q_i) at each level.

    ``curves`` are the T(P, Q_i); ``weights`` the w_i, one for each, which sum to 1.

    Theorem: [FDP] Lemma 6.3 at γ = η = w: T(P_w, Q_w) ≥ (1−w)·T(P_w, Q_0) + w·T(P_w, Q_1).
    Requires: every curve has the same first law P.
    Returns: a lower curve.
    Deviates: print averages over the first argument, which is false (FD-7).

    >>> import shuffledp as sdp
    >>> near, far = sdp.tradeoff.GaussianTradeOff(1.0), sdp.tradeoff.GaussianTradeOff(2.0)
    >>> print(f"{float(sdp.tradeoff.averaged([near, far], [0.5, 0.5]).fnr(0.05)):.4f}")
    0.5509
    """
    if len(curves) != len(weights) or not curves:
        raise ValueError(f"averaged: expected one weight for each curve, got {len(curves)} and {len(weights)}.")
    weights = [argument.real("averaged", "a weight", weight) for weight in weights]
    known = [curve.knots() for curve in curves]
    levels = np.unique(np.concatenate([curve.fpr_knots for curve in known]))
    power = np.sum([weight * curve.tpr(levels) for weight, curve in zip(weights, known, strict=True)], axis=0)
    null, alternative = np.append([0.0], np.diff(levels)), np.append([power[0]], np.diff(power))
    return PiecewiseTradeOff(null, np.maximum(0.0, alternative), "[FDP] Lemma 6.3", _all_guarantee(known))


def subsampled(curve: TradeOff, rate: float) -> PiecewiseTradeOff:
    """C((1−w)·(1−x) + w·f): a lower curve of a mechanism that sees the changed record with probability w.

    ``curve`` is f; ``rate`` is w.

    Theorem: [FDP] Proposition E.1: P = (1−w)·P_0 + w·P_1 against Q = (1−w)·P_0 + w·Q_1.
    Requires: f below T(P_1, Q_1) and T(Q_1, P_1), and below the curves of P_0 against P_1 and against Q_1 in the
    order T(P_0, ·): pass ``lowest([...])`` of all four.
    Returns: a lower curve in both directions.
    Deviates: print asks for T(P_1, Q_1) only, which is false (FD-8).

    >>> import shuffledp as sdp
    >>> curve = sdp.tradeoff.GaussianTradeOff(1.0)
    >>> print(f"{curve.delta(0.1):.4f} {sdp.tradeoff.subsampled(curve, rate=0.1).delta(0.1):.4f}")
    0.3523 0.0185
    """
    w = _share("subsampled", "rate", rate, up=True)
    known = curve.knots()
    raised = (1 - w) * known.null + w * known.alternative
    return PiecewiseTradeOff(known.null, raised, "[FDP] Proposition E.1", known.guarantee).symmetrised()


def _share(who: str, name: str, value: float, *, up: bool = False) -> float:
    share = argument.real(who, name, value, up=up)
    if not 0 <= share <= 1:
        raise ValueError(f"{who}: {name} must be between 0 and 1, got {share!r}.")
    return share


def _exchange(who: str, weight: float) -> float:
    w = _share(who, "weight", weight)
    if w > 0.5:
        raise ValueError(f"{who}: weight must be at most 1/2, got {w!r}; exchange the two laws.")
    return w


def _all_guarantee(known: Sequence[PiecewiseTradeOff]) -> bool:
    return all(curve.guarantee for curve in known)
