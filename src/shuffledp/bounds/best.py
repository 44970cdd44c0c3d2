"""The default: the smallest certified guarantee over all bounds that apply, and why the others were not used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Floats
from shuffledp.bounds import BOUND_OF, BOUNDS
from shuffledp.bounds.bound import Bound, Pace
from shuffledp.bounds.own import curve_of
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve, Source
from shuffledp.privacy.randomizer import HasQuickForm, Randomizer
from shuffledp.privacy.value import BoundValue

NAME = "best"
FULL, QUICK = "full", "quick"
"""How much is done for the default: all bounds, or those that take milliseconds."""
TAKES_LONGER = "takes longer: effort='full' looks at it."
FEW, PROBES, PROBE_RATIO, CLOSE = 4, 10, 2.0, 1e-4
"""From how many points on a few of them decide which bounds to compute, and the relative difference that counts."""
SAME = 5e-13
"""Relative difference below which two bounds are the same number."""


def demand_effort(who: str, effort: str) -> None:
    """Refuse any but the two words."""
    if effort not in (FULL, QUICK):
        raise ValueError(f"{who}: effort must be {FULL!r} or {QUICK!r}, got {effort!r}.")


@dataclass(frozen=True)
class BestCurve(PrivacyCurve):
    """Pointwise the smallest of several curves; each value names the bound that gave it."""

    curves: tuple[PrivacyCurve, ...]
    """Those that take long last."""
    refused: tuple[tuple[str, str], ...]
    """Bounds that were not used, each with the reason."""

    @property
    def certified(self) -> bool:
        return all(curve.certified for curve in self.curves)

    def _epsilon(self, delta: float) -> BoundValue:
        found: list[BoundValue] = []
        for curve in self.curves:
            if not found or curve.may_beat(min(map(float, found)), delta):
                found.append(curve.epsilon(delta))
        return _smallest(found)

    def _delta(self, epsilon: float) -> BoundValue:
        found: list[BoundValue] = []
        for curve in self.curves:
            if not found or curve.may_beat(epsilon, min(map(float, found))):
                found.append(curve.delta(epsilon))
        return _smallest(found)

    def quick_delta(self, epsilon: float) -> tuple[float, float]:
        found: list[tuple[float, float]] = []
        for curve in self.curves:
            if not found or curve.may_beat(epsilon, min(found)[0]):
                found.append(curve.quick_delta(epsilon))
        return min(found)

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
        curves = [curve for curve in self.curves if curve.tells_many] or self.curves
        scale = max(float(curves[0].profile([0.0]).upper[0]), 1e-12)
        probes = np.append(0.0, np.minimum(scale * PROBE_RATIO ** np.arange(-2.0, PROBES), LARGEST_EPSILON))
        values = np.array([curve.profile(probes).upper for curve in curves])
        close = values <= values.min(axis=0) * (1 + CLOSE)
        return tuple(curves[k] for k in sorted(set(np.argmax(close, axis=0).tolist())))


def _smallest(values: list[BoundValue]) -> BoundValue:
    """The first of those that are the smallest up to rounding, so that equal bounds do not take turns."""
    least = min(map(float, values))
    return next(value for value in values if value.upper <= least * (1 + SAME))


def best_curve(randomizer: Randomizer, users: int, effort: str = QUICK) -> PrivacyCurve:
    """The curve of the smallest certified guarantee for a randomizer, among all of our bounds, or the quick ones."""
    return smallest_curve(randomizer, users, BOUNDS, reproduce=False, quick=effort == QUICK)


def smallest_curve(
    randomizer: Randomizer, users: int, bounds: Sequence[Bound], *, reproduce: bool = True, quick: bool = False
) -> PrivacyCurve:
    """The curve of the smallest guarantee among some bounds.

    Where none of them gives a guarantee it is the smallest of what there is, and says that it is none.
    ``reproduce`` says whether a bound is looked at that is not always a guarantee, ``quick`` that none that is slow is.
    """
    known = {**BOUND_OF, **{bound.name: bound for bound in bounds}}
    applied: dict[str, PrivacyCurve] = {}
    refused: list[tuple[str, str]] = []
    for bound in sorted(bounds, key=lambda bound: len(_better(bound, known))):
        hurry = quick and bound.pace(randomizer, users) is Pace.SLOW
        form = _quick_form(randomizer) if hurry else randomizer
        if form is None:
            refused.append((bound.name, TAKES_LONGER))
            continue
        reason = _why_not(bound, known, applied, reproduce)
        if reason is None:
            try:
                applied[bound.name] = curve_of(bound, form, users)
                continue
            except NotApplicable as error:
                reason = error.reason
        refused.append((bound.name, reason))
    if not applied and quick:
        # What takes long is better than nothing.
        return smallest_curve(randomizer, users, bounds, reproduce=reproduce)
    if not applied:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused)
        raise NotApplicable(NAME, f"no bound applies to {type(randomizer).__name__} ({reasons}).")
    sure = {name: curve for name, curve in applied.items() if curve.guarantee} or applied
    refused += [(name, "is no guarantee here.") for name in applied if name not in sure]
    curves = tuple(sure[name] for name in sorted(sure, key=lambda name: known[name].pace(randomizer, users)))
    return curves[0] if len(curves) == 1 else BestCurve(joined_source(curves, users), curves, tuple(refused))


def _quick_form(randomizer: Randomizer) -> Randomizer | None:
    """What a slow bound looks at in a hurry, if anything."""
    return randomizer.quick_form() if isinstance(randomizer, HasQuickForm) else None


def joined_source(curves: tuple[PrivacyCurve, ...], users: int) -> Source:
    """Where the smallest of several curves comes from."""
    return Source(
        NAME,
        theorem="the smallest of: " + ", ".join(curve.theorem for curve in curves),
        messages=users,
        guarantee=all(curve.guarantee for curve in curves),
        note=" ".join(_once(curve.note for curve in curves)),
        origin=", ".join(_once(curve.source.origin for curve in curves)),
    )


def _once(words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word]


def _better(bound: Bound, known: dict[str, Bound]) -> list[str]:
    """The bounds that are provably at least as tight, nearest first."""
    result: list[str] = []
    # Somebody's own bound may name what there is not, or itself.
    while (name := bound.never_better_than) in known and name not in result:
        assert name is not None
        bound = known[name]
        result.append(name)
    return result


def _why_not(bound: Bound, known: dict[str, Bound], applied: dict[str, PrivacyCurve], reproduce: bool) -> str | None:
    if not (reproduce or bound.guarantees):
        return "is for reproduction only, not a guarantee."
    for name in _better(bound, known):
        if name in applied and applied[name].guarantee:
            return f"is never better than {name}."
    return None
