"""The list of all bounds, and ``best``: the smallest certified guarantee over all bounds that apply.

Bounds of other authors are used only where they are passed explicitly, and their curves name the author.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Floats
from shuffledp.bounds.base import Bound, EvaluationCost
from shuffledp.bounds.blanket import (
    BlanketBennettBound,
    BlanketHoeffdingBound,
    GenericBennettBound,
    GenericHoeffdingBound,
    OptimalBound,
)
from shuffledp.bounds.clones import (
    AnalyticBound,
    AsymptoticBound,
    CloneAnalyticBound,
    CloneBound,
    Efmrtt19Bound,
    MixtureBound,
    ProtocolPublishedBound,
    PublishedAnalyticBound,
    PublishedVariationRatioBound,
    StrongerCloneAnalyticBound,
    StrongerCloneBound,
    VariationRatioBound,
)
from shuffledp.bounds.exact_binary import ExactBinaryBound
from shuffledp.bounds.noise_bounds import AggregateNoiseBound, RandomBlanketBound
from shuffledp.bounds.worst_dataset import WorstDatasetBound
from shuffledp.privacy.composition import compose
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, CurveSource, PrivacyCurve
from shuffledp.privacy.randomizer import HasAggregateLoss, HasParts, HasQuickForm, Randomizer

# --- Protocols that answer several questions at once ---


COMPOSITION_ACCURACY = 1e-5
"""Relative error that composition may add to ε: noise whose loss has large atoms needs a fine grid."""


def _has_atoms(randomizer: HasParts) -> bool:
    """Returns True if some part has aggregate noise, so that its loss may have large atoms."""
    return any(isinstance(part, HasAggregateLoss | HasParts) for part, _ in randomizer.parts())


class ComposedPartsBound(Bound):
    """The guarantees of the separate questions, composed.

    Theorem: composition of independent mechanisms (privacy/loss.py), each bounded by the smallest of our guarantees.
    Requires: parts whose messages say which question they answer and whose randomness is independent.
    Returns: a certified upper bound of δ(ε); one user's value may change the answer to every question.
    """

    name = "composed-parts"
    theorem = "composition of the parts' own guarantees"
    summary = "for protocols that ask several questions at once, each hidden by its own crowd"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        if not isinstance(randomizer, HasParts):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} asks one question only.")

        curves: list[PrivacyCurve] = []
        for part, times in randomizer.parts():
            found = best_curve(part, part.hiding_messages(users))
            # Equal curves become one curve repeated several times, which is composed faster.
            curves += [next((known for known in curves if known == found), found)] * times
        together = compose(curves, accuracy=COMPOSITION_ACCURACY if _has_atoms(randomizer) else None)
        own = "; ".join(dict.fromkeys(curve.theorem for curve in curves))
        theorem = f"{self.theorem}: {own}"
        source = dataclasses.replace(
            together.source, bound=self.name, theorem=theorem, messages=users, users=None, attack=None
        )
        return dataclasses.replace(together, source=source)


# --- The list of bounds ---


BOUNDS: tuple[Bound, ...] = (
    WorstDatasetBound(),
    AnalyticBound(),
    PublishedAnalyticBound(),
    AsymptoticBound(),
    BlanketBennettBound(),
    GenericBennettBound(),
    BlanketHoeffdingBound(),
    GenericHoeffdingBound(),
    CloneBound(),
    CloneAnalyticBound(),
    ComposedPartsBound(),
    Efmrtt19Bound(),
    ExactBinaryBound(),
    MixtureBound(),
    RandomBlanketBound(),
    OptimalBound(),
    AggregateNoiseBound(),
    ProtocolPublishedBound(),
    StrongerCloneBound(),
    StrongerCloneAnalyticBound(),
    VariationRatioBound(),
    PublishedVariationRatioBound(),
)
"""Every bound of the package, in alphabetical order of the names; among equal values ``best`` names the first."""

BOUNDS_BY_NAME: dict[str, Bound] = {bound.name: bound for bound in BOUNDS}
"""Every bound of the package, by name."""

__all__ = ["BOUNDS", "BOUNDS_BY_NAME", "Bound"]


# --- Bounds of other authors ---


@dataclass(frozen=True)
class CustomBoundCurve(PrivacyCurve):
    """The curve of a custom bound; every value names the bound's author, whatever the curve inside says.

    A curve of the package that a custom bound passes on does not vouch for it: only the bound's own ``guarantees``
    does.
    """

    inside: PrivacyCurve

    @property
    def certified(self) -> bool:
        return self.guarantee and self.inside.certified

    def loss_deviation(self) -> float | None:
        return self.inside.loss_deviation()

    def _epsilon(self, delta: float) -> BoundValue:
        value = self.inside.epsilon(delta)
        return self._value(value.upper, value.slack)

    def _delta(self, epsilon: float) -> BoundValue:
        value = self.inside.delta(epsilon)
        return self._value(value.upper, value.slack)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        found = self.inside.profile(epsilons)
        return found.upper, found.lower


def is_builtin(bound: Bound) -> bool:
    """Returns True if the bound's class is in the list; a subclass of a listed bound is not."""
    return type(bound) is type(BOUNDS_BY_NAME.get(bound.name))


def check_bound_names(bounds: Sequence[Bound]) -> None:
    """Raises ValueError if two bounds share a name, or a custom bound has the name of one of the package."""
    for bound in bounds:
        for word in ("name", "theorem"):
            if not isinstance(getattr(bound, word, None), str):
                raise TypeError(f"amplify: {type(bound).__name__} must say its {word}, a text.")
    names = [bound.name for bound in bounds]
    for bound in bounds:
        kind = type(bound).__name__
        if not is_builtin(bound) and (bound.name in BOUNDS_BY_NAME or bound.name == "best"):
            raise ValueError(
                f"amplify: a bound of one's own needs a name of its own, got {kind} with the name {bound.name!r}, "
                "which is one of shuffledp's."
            )
        if names.count(bound.name) > 1:
            raise ValueError(f"amplify: expected each bound once, got {bound.name!r} {names.count(bound.name)} times.")


def evaluate_bound(bound: Bound, randomizer: Randomizer, users: int) -> PrivacyCurve:
    """Returns a bound's curve with the randomizer's assumption; the curve of a custom bound names its author."""
    curve = bound.curve(randomizer, users)
    if not is_builtin(bound):
        if not isinstance(curve, PrivacyCurve):
            raise TypeError(f"amplify: {type(bound).__name__}.curve must give a PrivacyCurve, got {curve!r}.")
        curve = _wrap_custom_curve(bound, curve)
    return curve.with_assumption(randomizer.assumption)


def _wrap_custom_curve(bound: Bound, curve: PrivacyCurve) -> CustomBoundCurve:
    kind, module = type(bound).__name__, type(bound).__module__
    vouched = bound.guarantees and curve.guarantee
    what = "guarantee is its author's" if vouched else "numbers are its author's, and no guarantee"
    sentence = f"{kind} is from the module `{module}`, not from shuffledp; its {what}."
    note = f"{curve.note} {sentence}".strip()
    source = dataclasses.replace(
        curve.source, bound=bound.name, guarantee=vouched, note=note, origin=f"{kind} of the module `{module}`",
        attack=None,
    )  # fmt: skip
    return CustomBoundCurve(source, curve)


BEST_BOUND_NAME = "best"
FULL_EFFORT, QUICK_EFFORT = "full", "quick"
"""Values of ``effort``: all bounds, or only those that take milliseconds."""
SLOW_BOUND_REASON = "takes longer: effort='full' looks at it."
MAX_DIRECT_EVALUATIONS, PROBE_COUNT, PROBE_RATIO, CONTENDER_TOLERANCE = 4, 10, 2.0, 1e-4
"""With more than FEW points, bounds are chosen by PROBES probes with ratio PROBE_RATIO, up to a relative difference
CLOSE.
"""
EQUALITY_TOLERANCE = 5e-13
"""Relative difference below which two bounds count as equal."""


def check_effort(who: str, effort: str) -> None:
    """Raises ValueError for any ``effort`` but "full" and "quick"."""
    if effort not in (FULL_EFFORT, QUICK_EFFORT):
        raise ValueError(f"{who}: effort must be {FULL_EFFORT!r} or {QUICK_EFFORT!r}, got {effort!r}.")


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
        found: list[BoundValue] = []
        for curve in self.curves:
            if not found or curve.may_beat(min(map(float, found)), delta):
                found.append(curve.epsilon(delta))
        return _choose_smallest(found)

    def _delta(self, epsilon: float) -> BoundValue:
        found: list[BoundValue] = []
        for curve in self.curves:
            if not found or curve.may_beat(epsilon, min(map(float, found))):
                found.append(curve.delta(epsilon))
        return _choose_smallest(found)

    def quick_delta(self, epsilon: float) -> tuple[float, float]:
        found: list[tuple[float, float]] = []
        for curve in self.curves:
            if not found or curve.may_beat(epsilon, min(found)[0]):
                found.append(curve.quick_delta(epsilon))
        return min(found)

    def loss_deviation(self) -> float | None:
        return min((one for one in (curve.loss_deviation() for curve in self.curves) if one is not None), default=None)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Returns the smallest upper bound and the lower bound of the same curve; for many points, of the contenders
        only.
        """
        curves = self.curves if len(epsilons) <= MAX_DIRECT_EVALUATIONS else self._contenders
        found = [curve.profile(epsilons) for curve in curves]
        uppers, lowers = np.array([one.upper for one in found]), np.array([one.lower for one in found])
        winner = np.argmin(uppers, axis=0)[None, :]
        return np.take_along_axis(uppers, winner, 0)[0], np.take_along_axis(lowers, winner, 0)[0]

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


def best_curve(randomizer: Randomizer, users: int, effort: str = QUICK_EFFORT) -> PrivacyCurve:
    """Returns the curve of the smallest certified guarantee among all bounds of the package, or the quick ones."""
    return smallest_curve(randomizer, users, BOUNDS, reproduce=False, quick=effort == QUICK_EFFORT)


def smallest_curve(
    randomizer: Randomizer, users: int, bounds: Sequence[Bound], *, reproduce: bool = True, quick: bool = False
) -> PrivacyCurve:
    """Returns the curve of the smallest guarantee among some bounds.

    If none of them gives a guarantee, returns the smallest of their curves, marked as no guarantee. ``reproduce``
    admits bounds that are not always a guarantee; ``quick`` leaves out slow ones.
    """
    known = {**BOUNDS_BY_NAME, **{bound.name: bound for bound in bounds}}
    applied: dict[str, PrivacyCurve] = {}
    refused: list[tuple[str, str]] = []
    for bound in sorted(bounds, key=lambda bound: len(_tighter_bounds(bound, known))):
        hurry = quick and bound.evaluation_cost(randomizer, users) is EvaluationCost.EXPENSIVE
        form = _quick_form(randomizer) if hurry else randomizer
        if form is None:
            refused.append((bound.name, SLOW_BOUND_REASON))
            continue
        reason = _rejection_reason(bound, known, applied, reproduce)
        if reason is None:
            try:
                applied[bound.name] = evaluate_bound(bound, form, users)
                continue
            except NotApplicable as error:
                reason = error.reason
        refused.append((bound.name, reason))
    if not applied and quick:
        # A slow bound is better than none.
        return smallest_curve(randomizer, users, bounds, reproduce=reproduce)
    if not applied:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused)
        raise NotApplicable(BEST_BOUND_NAME, f"no bound applies to {type(randomizer).__name__} ({reasons}).")
    sure = {name: curve for name, curve in applied.items() if curve.guarantee} or applied
    refused += [(name, "is no guarantee here.") for name in applied if name not in sure]
    curves = tuple(sure[name] for name in sorted(sure, key=lambda name: known[name].evaluation_cost(randomizer, users)))
    return curves[0] if len(curves) == 1 else BestCurve(join_sources(curves, users), curves, tuple(refused))


def _quick_form(randomizer: Randomizer) -> Randomizer | None:
    """Returns the form of the randomizer that a slow bound evaluates quickly, or None if there is none."""
    return randomizer.quick_form() if isinstance(randomizer, HasQuickForm) else None


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


def _tighter_bounds(bound: Bound, known: dict[str, Bound]) -> list[str]:
    """Returns the names of the bounds that are provably at least as tight, nearest first."""
    result: list[str] = []
    # The ``never_better_than`` of a custom bound may be unknown, or the bound itself.
    while (name := bound.never_better_than) in known and name not in result:
        assert name is not None
        bound = known[name]
        result.append(name)
    return result


def _rejection_reason(
    bound: Bound, known: dict[str, Bound], applied: dict[str, PrivacyCurve], reproduce: bool
) -> str | None:
    if not (reproduce or bound.guarantees):
        return "is for reproduction only, not a guarantee."
    for name in _tighter_bounds(bound, known):
        if name in applied and applied[name].guarantee:
            return f"is never better than {name}."
    return None
