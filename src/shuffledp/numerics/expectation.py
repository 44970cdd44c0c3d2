"""The one engine behind every bound: D(x) = (1/n)·E[(G_1 + … + G_n)_+], G with a finite law that depends on x.

Five routes, one contract (a certified ``Bracket``); the engine takes the exact one that is cheap enough:

- no value is positive: D = 0;
- ``enumeration``: few enough count vectors;
- ``walk``: at most three values and few enough counts to visit;
- ``double walk``: four values and few enough pairs of counts to visit;
- ``contour``: everything else, at a cost that does not grow with n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from flint import arb

from shuffledp.numerics import contour, double_walk, enumeration, walk
from shuffledp.numerics.ball import precision
from shuffledp.numerics.contour import ContourEstimate
from shuffledp.numerics.finite_law import FLOAT_VIEW_BITS, Bracket, FiniteLaw
from shuffledp.numerics.tilted import TiltedLaw

MOST_STEPS = 4_000
MOST_PAIRS = 40_000
MOST_VECTORS = 2_500
MOST_PAIRS_AT_NEED = 500_000
WIDE = 1e-3
"""A contour that is wider than this, relative to its value, gives way to a double walk of this length."""
LOG_NOTHING = -720.0
"""Values below exp of this, at the end of the floats, are only bounded where many are wanted."""
WHOLE_WALK = 400
"""Up to this n the walk visits every count and needs no estimate to choose its window."""
LEFT_OUT = 40.0
"""What a window leaves out is e^LEFT_OUT times smaller than the result."""
SEARCH_TOLERANCE = 1e-5
CERTIFIED_TOLERANCE = 5e-10
BATCH_TOLERANCE = 4e-6
OUTGROWN = 1.5
HARDLY_WIDER = 4e-9
OF_SMOOTHING = 0.01
"""Relative width in x that the contour aims at while searching, in a certified value, and in one of many;
how much wider than its first bracket a shared plan may become; and the relative rounding, or its share of what
smoothing costs, in a sum of floats that takes the place of one in balls."""


@dataclass(frozen=True)
class PositivePartMean:
    """D(x) for a family of laws ``law_at(x)`` and a number of summands ``count``; D decreases in x."""

    law_at: Callable[[float], FiniteLaw]
    count: int

    def bracket(self, x: float, tolerance: float = CERTIFIED_TOLERANCE) -> Bracket:
        """Certified enclosure of D(x)."""
        return positive_part_mean(self.law_at(x), self.count, tolerance).scaled(self.count)

    def quick_bracket(self, x: float) -> Bracket:
        """Nearly the same enclosure: the contour's nodes are summed in floats where these are sharp enough."""
        return positive_part_mean(self.law_at(x), self.count, in_floats=True).scaled(self.count)

    def brackets(self, xs: Iterable[float], tolerance: float = BATCH_TOLERANCE) -> list[Bracket]:
        """Certified enclosures of D at many x, coarser than ``bracket`` and many times faster.

        The contour's nodes are summed in floats. Where that is wide, or few counts can be visited one by one, the
        exact routes take over. Neighbouring x share a plan while it serves, so they had better be in order.
        """
        result: list[Bracket] = []
        shared: _SharedPlan | None = None
        for x in xs:
            law = self.law_at(x)
            found = None if shared is None else shared.bracket(law, self.count)
            if found is None:
                found, shared = self._coarse(law, tolerance)
            result.append(found.scaled(self.count))
        return result

    def _coarse(self, law: FiniteLaw, tolerance: float) -> tuple[Bracket, _SharedPlan | None]:
        if not contour.has_positive_value(law) or _is_small(law, self.count):
            return positive_part_mean(law, self.count), None
        if (nothing := contour.negligible(law, self.count, LOG_NOTHING)) is not None:
            return nothing, None
        plan = contour.make_plan(law, self.count, tolerance)
        found = contour.bracket(law, self.count, plan, in_floats=True)
        width = found.relative_width()
        if width > WIDE:
            return positive_part_mean(law, self.count), None
        return found, _SharedPlan(plan, width) if plan.reach > 0 else None

    def is_at_most(self, level: float, x: float) -> bool:
        """Whether D(x) ≤ level is proved: by Chernoff's bound where that is enough, which is many times cheaper."""
        law = self.law_at(x)
        if contour.has_positive_value(law) and _chernoff(law, self.count) <= level:
            return True
        return bool(self.bracket(x).upper <= level)

    def log_estimate(self, x: float) -> float:
        """log D(x) in floats, for searching: exact where that is cheap, by the contour in floats elsewhere."""
        law = self.law_at(x)
        if not contour.has_positive_value(law):
            return -math.inf
        if _is_small(law, self.count):
            return self.bracket(x).log_upper()
        return _estimate(law, self.count).log_value - math.log(self.count)

    def natural_scale(self) -> float:
        """Standard deviation of G at x = 0 over √n: the sum's mean there moves by about n per unit of x."""
        values, weights = self.law_at(0.0).floats()
        largest = float(np.abs(values).max())
        if largest == 0:
            return 0.0
        return largest * math.sqrt(float(np.dot(weights, (values / largest) ** 2)) / self.count)


def _chernoff(law: FiniteLaw, count: int) -> arb:
    """E(S)_+/count ≤ M(t)^count/(e·t·count) for any t > 0, because s ≤ e^(ts)/(e·t)."""
    tilted = TiltedLaw(law, count)
    with precision(2 * FLOAT_VIEW_BITS):
        t = arb(tilted.saddle(0.0) / tilted.scale)
        moment = sum((weight * (t * value).exp() for value, weight in law.atoms()), arb(0))
        return (count * moment.log() - 1).exp() / (t * count)


@dataclass(frozen=True)
class _SharedPlan:
    """A plan for a law and its neighbours, and how wide its bracket was."""

    plan: contour.ContourPlan
    width: float

    def bracket(self, law: FiniteLaw, count: int) -> Bracket | None:
        """The bracket of a neighbour's sum, None where the plan no longer suits it."""
        if not contour.has_positive_value(law) or (plan := contour.renewed(self.plan, law, count)) is None:
            return None
        found = contour.bracket(law, count, plan, in_floats=True)
        return found if found.relative_width() <= OUTGROWN * self.width else None


def positive_part_mean(
    law: FiniteLaw, count: int, tolerance: float = CERTIFIED_TOLERANCE, *, in_floats: bool = False
) -> Bracket:
    """Certified enclosure of E[(G_1 + … + G_count)_+] by the cheapest route that is exact enough.

    A contour's nodes are summed in floats where their proved rounding is within the tolerance, or nothing to what
    smoothing costs, or with ``in_floats`` where it hardly widens the enclosure; in balls elsewhere.
    """
    if not contour.has_positive_value(law):
        return _no_positive_value(law, count)
    values = _number_of_values(law)
    if values == 1:
        return _only_value(law, count)
    if values > 3 and enumeration.size(values, count) <= MOST_VECTORS:
        return enumeration.bracket(law, count)
    if values <= 4:
        log_mass = -math.inf if _is_small(law, count) else _walk_mass(law, count)
        if values <= 3 and walk.steps(law, count, log_mass) <= MOST_STEPS:
            return walk.bracket(law, count, log_mass)
        if values == 4 and double_walk.steps(law, count, log_mass) <= MOST_PAIRS:
            return double_walk.bracket(law, count, log_mass)
    plan = contour.make_plan(law, count, tolerance)
    rounding = max(HARDLY_WIDER if in_floats else tolerance, OF_SMOOTHING * plan.variance * plan.tilt**2)
    found = contour.bracket(law, count, plan, in_floats=True, rounding=rounding)
    # Far in the tail of few rare messages the sum is all atoms, which smoothing blurs: worth a long walk.
    blurred = values == 4 and found.relative_width() > WIDE
    if blurred and double_walk.steps(law, count, log_mass) <= MOST_PAIRS_AT_NEED:
        return double_walk.bracket(law, count, log_mass)
    return found


def _number_of_values(law: FiniteLaw) -> int:
    return len(law.floats()[0])


def _is_small(law: FiniteLaw, count: int) -> bool:
    """Every count can be visited, at a cost that suits a search."""
    values = _number_of_values(law)
    return count <= WHOLE_WALK if values <= 3 else enumeration.size(values, count) <= MOST_VECTORS


def _estimate(law: FiniteLaw, count: int) -> ContourEstimate:
    return contour.estimate(law, count, contour.make_plan(law, count, SEARCH_TOLERANCE))


def _walk_mass(law: FiniteLaw, count: int) -> float:
    """How improbable a count must be to be left out: its share of E(S)_+ is at most count·max(G)·probability."""
    values, _ = law.floats()
    return _estimate(law, count).log_value - math.log(count * float(values.max())) - LEFT_OUT


def _only_value(law: FiniteLaw, count: int) -> Bracket:
    """S is one number, and positive."""
    with precision(4 * FLOAT_VIEW_BITS):
        ((value, weight),) = law.atoms()
        total = count * value * weight
        return Bracket(total.lower(), total.upper(), "one value")


def _no_positive_value(law: FiniteLaw, count: int) -> Bracket:
    """(S)_+ = 0; where a value cannot be told from 0, at most its ball's upper end times count."""
    with precision(4 * FLOAT_VIEW_BITS):
        most = arb(0)
        for value, _ in law.atoms():
            if not value <= 0:
                most = most.max(value)
        return Bracket(arb(0), (most * count).upper(), "no positive value")
