"""The list of all bounds, and ``best``: the smallest certified guarantee over all bounds that apply.

Bounds of other authors are used only where they are passed explicitly, and their curves name the author.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

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
    CloneAnalyticBound,
    CloneBound,
    Efmrtt19Bound,
    MixtureBound,
    StrongerCloneAnalyticBound,
    StrongerCloneBound,
)
from shuffledp.bounds.dummies_and_noise import AggregateNoiseBound, ProtocolPublishedBound, RandomBlanketBound
from shuffledp.bounds.exact_binary import ExactBinaryBound
from shuffledp.bounds.pointwise_minimum import BEST_BOUND_NAME, BestCurve, join_sources
from shuffledp.bounds.variation_ratio import (
    AnalyticBound,
    AsymptoticBound,
    PublishedAnalyticBound,
    PublishedVariationRatioBound,
    VariationRatioBound,
)
from shuffledp.bounds.worst_dataset_bound import WorstDatasetBound
from shuffledp.privacy.composition import compose
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.randomizer_interface import HasAggregateLoss, HasParts, HasQuickForm, Randomizer

# --- Protocols that answer several questions at once ---


COMPOSITION_ACCURACY = 1e-5
"""Relative error that composition may add to ε: noise whose loss has large atoms needs a fine grid."""


def _has_atoms(randomizer: HasParts) -> bool:
    """Returns True if some part has aggregate noise, so that its loss may have large atoms."""
    return any(isinstance(part, HasAggregateLoss | HasParts) for part, _ in randomizer.parts())


class ComposedPartsBound(Bound):
    """The guarantees of the separate questions, composed.

    Theorem: composition of independent mechanisms (privacy/privacy_loss.py), each bounded by the smallest of our
    guarantees.
    Requires: parts whose messages say which question they answer and whose randomness is independent.
    Returns: a certified upper bound of δ(ε); one user's value may change the answer to every question.
    """

    name = "composed-parts"
    theorem = "composition of the parts' own guarantees"
    summary = "for protocols that ask several questions at once, each with its own messages"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        if not isinstance(randomizer, HasParts):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} asks one question only.")
        curves: list[PrivacyCurve] = []
        for part, times in randomizer.parts():
            curve = best_curve(part, part.hiding_messages(users))
            # Equal curves become one curve repeated several times, which is composed faster.
            curves += [next((known for known in curves if known == curve), curve)] * times
        composed = compose(curves, accuracy=COMPOSITION_ACCURACY if _has_atoms(randomizer) else None)
        theorem = f"{self.theorem}: {'; '.join(dict.fromkeys(curve.theorem for curve in curves))}"
        source = dataclasses.replace(
            composed.source, bound=self.name, theorem=theorem, messages=users, users=None, attack=None
        )
        return dataclasses.replace(composed, source=source)


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

    The curve is a guarantee only if the bound's own ``guarantees`` says so, even if the curve inside is one of the
    package.
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
        profile = self.inside.profile(epsilons)
        return profile.upper, profile.lower


def is_builtin(bound: Bound) -> bool:
    """Returns True if the bound's class is in the list; a subclass of a listed bound is not."""
    return type(bound) is type(BOUNDS_BY_NAME.get(bound.name))


def check_bound_names(bounds: Sequence[Bound]) -> None:
    """Raises ValueError if two bounds share a name, or a custom bound has the name of one of the package."""
    for bound in bounds:
        for word in ("name", "theorem"):
            if not isinstance(getattr(bound, word, None), str):
                raise TypeError(f"amplify: {type(bound).__name__} must have a {word}, a text.")
    names = [bound.name for bound in bounds]
    for bound in bounds:
        kind = type(bound).__name__
        if not is_builtin(bound) and (bound.name in BOUNDS_BY_NAME or bound.name == "best"):
            raise ValueError(
                f"amplify: the name of a custom bound must not be one of shuffledp's, got {kind} with the name "
                f"{bound.name!r}."
            )
        if names.count(bound.name) > 1:
            raise ValueError(f"amplify: expected each bound once, got {bound.name!r} {names.count(bound.name)} times.")


def evaluate_bound(bound: Bound, randomizer: Randomizer, users: int) -> PrivacyCurve:
    """Returns a bound's curve with the randomizer's assumption; the curve of a custom bound names its author."""
    curve = bound.curve(randomizer, users)
    if not is_builtin(bound):
        if not isinstance(curve, PrivacyCurve):
            raise TypeError(f"amplify: {type(bound).__name__}.curve must return a PrivacyCurve, got {curve!r}.")
        curve = _wrap_custom_curve(bound, curve)
    return curve.with_assumption(randomizer.assumption)


def _wrap_custom_curve(bound: Bound, curve: PrivacyCurve) -> CustomBoundCurve:
    kind, module = type(bound).__name__, type(bound).__module__
    guarantee = bound.guarantees and curve.guarantee
    origin = "guarantee is its author's" if guarantee else "numbers are its author's, and no guarantee"
    sentence = f"{kind} is from the module `{module}`, not from shuffledp; its {origin}."
    note = f"{curve.note} {sentence}".strip()
    source = dataclasses.replace(
        curve.source, bound=bound.name, guarantee=guarantee, note=note, origin=f"{kind} of the module `{module}`",
        attack=None,
    )  # fmt: skip
    return CustomBoundCurve(source, curve)


FULL_EFFORT, QUICK_EFFORT = "full", "quick"
"""Values of ``effort``: all bounds, or only those that take milliseconds."""
SLOW_BOUND_REASON = "takes longer; effort='full' includes it."


def check_effort(who: str, effort: str) -> None:
    """Raises ValueError for any ``effort`` but "full" and "quick"."""
    if effort not in (FULL_EFFORT, QUICK_EFFORT):
        raise ValueError(f"{who}: effort must be {FULL_EFFORT!r} or {QUICK_EFFORT!r}, got {effort!r}.")


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
    rejected: list[tuple[str, str]] = []
    for bound in sorted(bounds, key=lambda bound: len(_tighter_bounds(bound, known))):
        form: Randomizer = randomizer
        if quick and bound.evaluation_cost(randomizer, users) is EvaluationCost.EXPENSIVE:
            if not isinstance(randomizer, HasQuickForm):
                rejected.append((bound.name, SLOW_BOUND_REASON))
                continue
            form = randomizer.quick_form()
        reason = _rejection_reason(bound, known, applied, reproduce)
        if reason is None:
            try:
                applied[bound.name] = evaluate_bound(bound, form, users)
                continue
            except NotApplicable as error:
                reason = error.reason
        rejected.append((bound.name, reason))
    if not applied and quick:
        # A slow bound is better than none.
        return smallest_curve(randomizer, users, bounds, reproduce=reproduce)
    if not applied:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in rejected)
        raise NotApplicable(BEST_BOUND_NAME, f"no bound applies to {type(randomizer).__name__} ({reasons}).")
    proved = {name: curve for name, curve in applied.items() if curve.guarantee} or applied
    rejected += [(name, "is no guarantee here.") for name in applied if name not in proved]
    ordered = sorted(proved, key=lambda name: known[name].evaluation_cost(randomizer, users))
    curves = tuple(proved[name] for name in ordered)
    return curves[0] if len(curves) == 1 else BestCurve(join_sources(curves, users), curves, tuple(rejected))


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
