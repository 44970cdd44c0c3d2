"""``BestCurve``: the pointwise smallest of several privacy curves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp._core.validation import Floats
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, CurveSource, PrivacyCurve

BEST_BOUND_NAME = "best"
MAX_DIRECT_EVALUATIONS = 4
"""With more points than this, only curves that are the smallest at some probe are evaluated."""
PROBE_COUNT, PROBE_RATIO = 10, 2.0
CONTENDER_TOLERANCE = 1e-4
"""Relative difference up to which a curve counts as the smallest at a probe."""
EQUALITY_TOLERANCE = 5e-13
"""Relative difference below which two bounds count as equal."""


@dataclass(frozen=True)
class BestCurve(PrivacyCurve):
    """The pointwise smallest of several curves; each value names the bound that it comes from."""

    curves: tuple[PrivacyCurve, ...]
    """Slow curves last."""
    rejected: tuple[tuple[str, str], ...]
    """Bounds that were not used, each with the reason."""

    @property
    def certified(self) -> bool:
        return all(curve.certified for curve in self.curves)

    def _epsilon(self, delta: float) -> BoundValue:
        values: list[BoundValue] = []
        for curve in self.curves:
            if not values or curve.may_beat(min(map(float, values)), delta):
                values.append(curve.epsilon(delta))
        return _choose_smallest(values)

    def _delta(self, epsilon: float) -> BoundValue:
        values: list[BoundValue] = []
        for curve in self.curves:
            if not values or curve.may_beat(epsilon, min(map(float, values))):
                values.append(curve.delta(epsilon))
        return _choose_smallest(values)

    def quick_delta(self, epsilon: float) -> tuple[float, float]:
        values: list[tuple[float, float]] = []
        for curve in self.curves:
            if not values or curve.may_beat(epsilon, min(values)[0]):
                values.append(curve.quick_delta(epsilon))
        return min(values)

    def loss_deviation(self) -> float | None:
        deviations = (curve.loss_deviation() for curve in self.curves)
        return min((each for each in deviations if each is not None), default=None)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Returns the smallest upper bound, and the lower bound of the same curve."""
        curves = self.curves if len(epsilons) <= MAX_DIRECT_EVALUATIONS else self._contenders
        profiles = [curve.profile(epsilons) for curve in curves]
        uppers, lowers = np.array([each.upper for each in profiles]), np.array([each.lower for each in profiles])
        smallest = np.argmin(uppers, axis=0)[None, :]
        return np.take_along_axis(uppers, smallest, 0)[0], np.take_along_axis(lowers, smallest, 0)[0]

    @cached_property
    def _contenders(self) -> tuple[PrivacyCurve, ...]:
        """The curves that are the smallest at one of a few probed ε of every size; leaving a curve out is sound."""
        curves = [curve for curve in self.curves if curve.has_fast_profile] or self.curves
        scale = max(float(curves[0].profile([0.0]).upper[0]), 1e-12)
        probes = np.append(0.0, np.minimum(scale * PROBE_RATIO ** np.arange(-2.0, PROBE_COUNT), MAX_EPSILON))
        values = np.array([curve.profile(probes).upper for curve in curves])
        close = values <= values.min(axis=0) * (1 + CONTENDER_TOLERANCE)
        return tuple(curves[k] for k in sorted(set(np.argmax(close, axis=0).tolist())))


def _choose_smallest(values: list[BoundValue]) -> BoundValue:
    """Returns the first of the values that are the smallest up to rounding, so that equal bounds do not alternate."""
    least = min(map(float, values))
    return next(value for value in values if value.upper <= least * (1 + EQUALITY_TOLERANCE))


def join_sources(curves: tuple[PrivacyCurve, ...], users: int) -> CurveSource:
    """Returns the provenance of the smallest of several curves."""
    return CurveSource(
        BEST_BOUND_NAME,
        theorem="the smallest of: " + ", ".join(curve.theorem for curve in curves),
        messages=users,
        guarantee=all(curve.guarantee for curve in curves),
        note=" ".join(_distinct_texts(curve.note for curve in curves)),
        origin=", ".join(_distinct_texts(curve.source.origin for curve in curves)),
    )


def _distinct_texts(words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word]
