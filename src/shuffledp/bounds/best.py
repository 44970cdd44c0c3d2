"""The default: the smallest certified guarantee over all bounds that apply, and why the others were not used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Floats
from shuffledp.bounds.bound import Bound, all_bounds
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import LARGEST_EPSILON, BoundValue, PrivacyCurve, Source
from shuffledp.privacy.randomizer import Randomizer

NAME = "best"
FEW, PROBES, PROBE_RATIO, CLOSE = 4, 10, 2.0, 1e-4
"""From how many points on a few of them decide which bounds to compute, and the relative difference that counts."""
SAME = 5e-13
"""Relative difference below which two bounds are the same number."""


@dataclass(frozen=True)
class BestCurve(PrivacyCurve):
    """Pointwise the smallest of several curves; each value names the bound that gave it."""

    curves: tuple[PrivacyCurve, ...]
    refused: tuple[tuple[str, str], ...]
    """Bounds that were not used, each with the reason."""

    def _epsilon(self, delta: float) -> BoundValue:
        return _smallest([curve.epsilon(delta) for curve in self.curves])

    def _delta(self, epsilon: float) -> BoundValue:
        return _smallest([curve.delta(epsilon) for curve in self.curves])

    def loss_deviation(self) -> float | None:
        return min((one for one in (curve.loss_deviation() for curve in self.curves) if one is not None), default=None)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """The smallest upper value and its own bound's lower value; of many points, by the contenders only."""
        curves = self.curves if len(epsilons) <= FEW else self._contenders
        found = [curve.profile(epsilons) for curve in curves]
        uppers, lowers = np.array([one.upper for one in found]), np.array([one.lower for one in found])
        winner = np.argmin(uppers, axis=0)[None, :]
        return np.take_along_axis(uppers, winner, 0)[0], np.take_along_axis(lowers, winner, 0)[0]

    @cached_property
    def _contenders(self) -> tuple[PrivacyCurve, ...]:
        """The curves that are the smallest somewhere, looking at a few ε of every size: leaving one out is sound."""
        scale = max(float(self.curves[0].profile([0.0]).upper[0]), 1e-12)
        probes = np.append(0.0, np.minimum(scale * PROBE_RATIO ** np.arange(-2.0, PROBES), LARGEST_EPSILON))
        values = np.array([curve.profile(probes).upper for curve in self.curves])
        close = values <= values.min(axis=0) * (1 + CLOSE)
        return tuple(self.curves[k] for k in sorted(set(np.argmax(close, axis=0).tolist())))


def _smallest(values: list[BoundValue]) -> BoundValue:
    """The first of those that are the smallest up to rounding, so that equal bounds do not take turns."""
    least = min(map(float, values))
    return next(value for value in values if value.upper <= least * (1 + SAME))


def best_curve(randomizer: Randomizer, users: int) -> PrivacyCurve:
    """The curve of the smallest certified guarantee for a randomizer."""
    bounds = all_bounds()
    applied: dict[str, PrivacyCurve] = {}
    refused: list[tuple[str, str]] = []
    for bound in sorted(bounds.values(), key=lambda bound: _depth(bound, bounds)):
        reason = _why_not(bound, bounds, applied)
        if reason is None:
            try:
                applied[bound.name] = bound.curve(randomizer, users)
                continue
            except NotApplicable as error:
                reason = error.reason
        refused.append((bound.name, reason))
    if not applied:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused)
        raise NotApplicable(NAME, f"no bound applies to {type(randomizer).__name__} ({reasons}).")
    curves = tuple(applied.values())
    if len(curves) == 1:
        return curves[0]
    theorem = "the smallest of: " + ", ".join(curve.theorem for curve in curves)
    return BestCurve(Source(NAME, theorem, users), curves, tuple(refused))


def _better(bound: Bound, bounds: dict[str, Bound]) -> list[str]:
    """The bounds that are provably at least as tight, nearest first."""
    result: list[str] = []
    while bound.never_better_than is not None:
        bound = bounds[bound.never_better_than]
        result.append(bound.name)
    return result


def _depth(bound: Bound, bounds: dict[str, Bound]) -> int:
    return len(_better(bound, bounds))


def _why_not(bound: Bound, bounds: dict[str, Bound], applied: dict[str, PrivacyCurve]) -> str | None:
    if not bound.always_guarantees():
        return "is for reproduction only, not a guarantee."
    for name in _better(bound, bounds):
        if name in applied:
            return f"is never better than {name}."
    return None
