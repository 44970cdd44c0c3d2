"""The default: the smallest certified guarantee over all bounds that apply, and why the others were not used."""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp.bounds.bound import Bound, all_bounds
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import BoundValue, PrivacyCurve, Source

NAME = "best"


@dataclass(frozen=True)
class BestCurve(PrivacyCurve):
    """Pointwise the smallest of several curves; each value names the bound that gave it."""

    curves: tuple[PrivacyCurve, ...]
    refused: tuple[tuple[str, str], ...]
    """Bounds that were not used, each with the reason."""

    def epsilon(self, delta: float) -> BoundValue:
        return min((curve.epsilon(delta) for curve in self.curves), key=float)

    def delta(self, epsilon: float) -> BoundValue:
        return min((curve.delta(epsilon) for curve in self.curves), key=float)

    def _epsilon(self, delta: float) -> tuple[float, float]:
        value = self.epsilon(delta)
        return value.upper, value.slack

    def _delta(self, epsilon: float) -> tuple[float, float]:
        value = self.delta(epsilon)
        return value.upper, value.slack


def best_curve(randomizer: object, users: int) -> PrivacyCurve:
    """The curve of the smallest certified guarantee for a randomizer."""
    bounds = all_bounds()
    applied: dict[str, PrivacyCurve] = {}
    refused: list[tuple[str, str]] = []
    for bound in sorted(bounds.values(), key=lambda b: b.never_better_than is not None):
        reason = _why_not(bound, applied)
        if reason is None:
            try:
                applied[bound.name] = bound.curve(randomizer, users)
                continue
            except NotApplicable as error:
                reason = error.reason
        refused.append((bound.name, reason))
    if not applied:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused)
        raise TypeError(f"amplify: expected a mechanism or VariationRatio, got {randomizer!r} ({reasons}).")
    curves = tuple(applied.values())
    if len(curves) == 1:
        return curves[0]
    theorem = "the smallest of: " + ", ".join(curve.theorem for curve in curves)
    return BestCurve(Source(NAME, theorem, users), curves, tuple(refused))


def _why_not(bound: Bound, applied: dict[str, PrivacyCurve]) -> str | None:
    if not bound.always_guarantees():
        return "is for reproduction only, not a guarantee."
    if bound.never_better_than in applied:
        return f"is never better than {bound.never_better_than}."
    return None
