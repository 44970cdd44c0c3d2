"""Bounds that are not shuffledp's: used only where they are passed by hand, and always under their author's name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from shuffledp.array import Floats
from shuffledp.bounds import BOUND_OF
from shuffledp.bounds.bound import Bound
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue


@dataclass(frozen=True)
class OwnCurve(PrivacyCurve):
    """The curve that somebody's own bound gave; every value says whose it is, whatever the curve inside says.

    A curve of ours that the bound hands on does not vouch for it: only the bound's own ``guarantees`` does.
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


def is_ours(bound: Bound) -> bool:
    """Whether a bound is one of the list, by its class: a subclass of one of ours is not ours."""
    return type(bound) is type(BOUND_OF.get(bound.name))


def demand_own_names(bounds: Sequence[Bound]) -> None:
    """Refuse two bounds with one name, and one's own with the name of one of ours."""
    for bound in bounds:
        for word in ("name", "theorem"):
            if not isinstance(getattr(bound, word, None), str):
                raise TypeError(f"amplify: {type(bound).__name__} must say its {word}, a text.")
    names = [bound.name for bound in bounds]
    for bound in bounds:
        kind = type(bound).__name__
        if not is_ours(bound) and (bound.name in BOUND_OF or bound.name == "best"):
            raise ValueError(
                f"amplify: a bound of one's own needs a name of its own, got {kind} with the name {bound.name!r}, "
                "which is one of shuffledp's."
            )
        if names.count(bound.name) > 1:
            raise ValueError(f"amplify: expected each bound once, got {bound.name!r} {names.count(bound.name)} times.")


def curve_of(bound: Bound, randomizer: Randomizer, users: int) -> PrivacyCurve:
    """A bound's curve with what the randomizer rests on; where the bound is not ours, it says whose it is."""
    curve = bound.curve(randomizer, users)
    if not is_ours(bound):
        if not isinstance(curve, PrivacyCurve):
            raise TypeError(f"amplify: {type(bound).__name__}.curve must give a PrivacyCurve, got {curve!r}.")
        curve = _own(bound, curve)
    return curve.assuming(randomizer.assumption)


def _own(bound: Bound, curve: PrivacyCurve) -> OwnCurve:
    kind, module = type(bound).__name__, type(bound).__module__
    vouched = bound.guarantees and curve.guarantee
    what = "guarantee is its author's" if vouched else "numbers are its author's, and no guarantee"
    sentence = f"{kind} is from the module `{module}`, not from shuffledp; its {what}."
    note = f"{curve.note} {sentence}".strip()
    source = dataclasses.replace(
        curve.source, bound=bound.name, guarantee=vouched, note=note, origin=f"{kind} of the module `{module}`",
        attack=None,
    )  # fmt: skip
    return OwnCurve(source, curve)
