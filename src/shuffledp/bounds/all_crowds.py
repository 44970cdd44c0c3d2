"""The worst case over all crowds: what one user's absence costs, and the crowd that hides worst."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.bounds.bound import Bound, Pace
from shuffledp.bounds.tails import has_tails, tail_curve
from shuffledp.errors import NotApplicable
from shuffledp.numerics.expectation import PositivePartMean
from shuffledp.numerics.finite_law import Bracket
from shuffledp.numerics.inversion import invert
from shuffledp.numerics.many_crowds import log_chernoff, squares
from shuffledp.numerics.worst_crowd import SHARPNESS, WorstCrowd
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve
from shuffledp.privacy.knots import Knots
from shuffledp.privacy.others import Others
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.record import Record
from shuffledp.privacy.value import BoundValue

ROUTE = "worst crowd"
FEWEST = 16
"""Others below which the blanket or an exact bound is sharper."""
MANY_COINS = 5_000
"""From so many users on, two messages take less time here than dataset by dataset, and ε is about as small."""
EVEN, GROWING = 16, 12
"""How many steps the number of lost users is looked at in: evenly spaced ones, and longer and longer ones after."""
FAR = 4.0
"""Where the even steps end, in means of that number."""
LEFT = 12.0
"""What is beyond the last step is planned this many e-folds below δ."""
ROUNDING = 1e-12
SEARCH_SHARPNESS = 1e-3
PROFILE_SHARPNESS = 5e-5
OF_THE_LOSS = 0.02
"""How sharply the worst crowd is looked for, as a share of what the lost users cost."""
FEW_DIRECTIONS, FEW_CHANCES = 48, 6000
"""How many directions, and probabilities in all of them, may be looked at hundreds of times."""
HEAVY = 10.0
"""Standard deviations of the sum that one message may weigh."""
WORTH_IT = 5e-4
"""A smaller gain in ε, relatively, is not looked for."""
HALF, CLEARLY = 0.5, 4.0
FEW, KNOT_STEP, MOST_KNOTS = 16, 0.125, 200
"""Where more than a few ε are asked for: the distance of those that are looked at, in standard deviations, and how many
these may be."""


@dataclass(frozen=True)
class CrowdDivergence(Record):
    """The largest divergence over all crowds in one direction, from above.

    Theorem: absent user (docs/crowds.md): D ≤ Σ_{h<M} γ(1−γ)^h·U(M−h) + (1−γ)^M, U(m) = max of E(ΣG)_+/m over all
    crowds of m others; U falls with m, so that several h are bounded by the last of them.
    """

    others: Others
    count: int
    """M: how many others there are."""

    def bracket(self, epsilon: float, sharpness: float = SHARPNESS) -> Bracket:
        if (epsilon, sharpness) not in self._brackets:
            self._brackets[epsilon, sharpness] = self._bracket(epsilon, sharpness)
        return self._brackets[epsilon, sharpness]

    def log_estimate(self, epsilon: float) -> float:
        if epsilon not in self._estimates:
            self._estimates[epsilon] = self._estimate(epsilon)
        return self._estimates[epsilon]

    @cached_property
    def _brackets(self) -> dict[tuple[float, float], Bracket]:
        return {}

    @cached_property
    def _estimates(self) -> dict[float, float]:
        return {}

    def _estimate(self, epsilon: float) -> float:
        """log δ in floats: the worst constant crowd."""
        crowd = WorstCrowd(self.others.likely_laws(epsilon), SEARCH_SHARPNESS)
        if not crowd.may_rise.any():
            return -math.inf
        first, _ = crowd.constant(np.array([float(self.count)]))
        chances, counts, beyond = self.steps(min(float(first[0]), 0.0))
        found, _ = crowd.constant(counts)
        return math.log(min(1.0, max(1e-300, self.total(chances, found, beyond))))

    def _bracket(self, epsilon: float, sharpness: float) -> Bracket:
        # What the lost users cost is not to be had back.
        crowd = WorstCrowd(self.others.laws(epsilon), max(sharpness, OF_THE_LOSS / (self.others.gamma * self.count)))
        if not crowd.may_rise.any():
            return Bracket(arb(0), arb(self.steps(-math.inf)[2]), ROUTE)
        chances, counts, beyond = self.steps(self.log_estimate(epsilon))
        logs, _, kind = crowd.worst(counts)
        total = self.total(chances, logs, beyond)
        (least,) = self.constant(kind).brackets([epsilon])
        return Bracket(least.lower.min(arb(total)), arb(min(1.0, total)), ROUTE)

    def natural_scale(self) -> float:
        return math.sqrt(float(squares(self.others.view).max()) / self.count)

    @property
    def is_heavy(self) -> bool:
        """Whether one message may weigh much more than the standard deviation of all."""
        view = self.others.view
        gaps = np.divide(view.first - view.second, view.hiding, out=np.zeros_like(view.hiding), where=view.hiding > 0)
        return float(gaps.max()) > HEAVY * math.sqrt(self.count * float(squares(view).max()))

    def is_at_most(self, level: float, epsilon: float) -> bool:
        """Whether the bound at ε is certainly within a level: looked at by what is cheap first."""
        return self.is_soon_within(level, epsilon) or bool(self.bracket(epsilon).upper <= level)

    def is_soon_within(self, level: float, epsilon: float) -> bool:
        """Whether all crowds at once are seen to be within a level."""
        crowd = WorstCrowd(self.others.laws(epsilon), SEARCH_SHARPNESS)
        if not (level > 0 and crowd.may_rise.any()):
            return False
        chances, counts, beyond = self.steps(math.log(level))
        return self.total(chances, crowd.log_bounds(np.eye(crowd.kinds), counts), beyond) <= level

    def is_like(self, other: CrowdDivergence) -> bool:
        """Whether nobody there has a law that nobody has here."""
        return self.others.gamma >= other.others.gamma and self.others.signature <= other.others.signature

    @staticmethod
    def total(chances: Floats, logs: Floats, beyond: float) -> float:
        return float(chances @ np.exp(np.minimum(logs, 0.0))) * (1 + ROUNDING) + beyond

    def constant(self, kind: int) -> PositivePartMean:
        """The sum where all others are of one kind."""
        return PositivePartMean(self.others.kinds[kind].law, self.count)

    def steps(self, log_delta: float) -> tuple[Floats, Floats, float]:
        return lost_steps(self.others.gamma, self.count, log_delta)


def lost_steps(gamma: float, count: int, log_delta: float) -> tuple[Floats, Floats, float]:
    """Chances of some numbers of lost users, how many others are left at the least, and the chance of more."""
    if gamma >= 1.0:
        return np.array([1.0]), np.array([float(count)]), 0.0
    fall = -math.log1p(-gamma)
    last = math.ceil(min(count, (LEFT - log_delta) / fall))
    even = np.linspace(0.0, min(FAR / fall, last), EVEN + 1)
    growing = np.geomspace(max(1.0, even[-1]), last, GROWING + 1) if even[-1] < last else np.array([last])
    edges = np.unique(np.minimum(np.ceil(np.concatenate([even, growing])), last))
    starts, ends = edges[:-1], edges[1:]
    chances = np.exp(-fall * starts) * -np.expm1(-fall * (ends - starts)) * (1 + ROUNDING)
    return chances, count - (ends - 1), math.exp(-fall * last) * (1 + 1e-9)


@dataclass(frozen=True)
class AllCrowdsCurve(PrivacyCurve):
    """The largest divergence over all crowds, from above, for several pairs of inputs."""

    directions: tuple[CrowdDivergence, ...]
    """The widest first."""
    largest: float

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        return self.directions[0].natural_scale()

    @property
    def tells_many(self) -> bool:
        looked_at = sum(way.others.view.hiding.size for way in self.directions)
        return len(self.directions) <= FEW_DIRECTIONS and looked_at <= FEW_CHANCES

    def may_beat(self, epsilon: float, delta: float) -> bool:
        """Not if a constant crowd, in floats, has no smaller δ at an ε that is hardly smaller.

        Nor, where one message can outweigh the crowd, unless it has a smaller δ at half of ε: the sum is then far from
        a normal one, and not to be had sharply. It is not asked what happens far beyond the limit of many users.
        """
        if not 0 < delta < 1:
            return False
        first, log_delta = self.directions[0], math.log(delta)
        far = CLEARLY * first.natural_scale() * math.sqrt(-2 * log_delta)
        if first.is_heavy:
            return first.log_estimate(min(epsilon * HALF, far, self.largest)) < log_delta
        if epsilon > far > 0:
            return True
        return first.log_estimate(min(epsilon, self.largest) * (1 - WORTH_IT)) < log_delta

    def _may_exceed(self, level: float, epsilon: float) -> list[CrowdDivergence]:
        """The directions, but for the first, of which it is not clear at once that they are within a level at ε."""
        rest = self.directions[1:]
        if not rest or not level > 0:
            return list(rest)
        chances, counts, beyond = min(rest, key=lambda way: way.others.gamma).steps(math.log(level))
        logs = log_chernoff([way.others.view for way in rest], epsilon, counts)
        return [
            way for way, log in zip(rest, logs, strict=True) if not CrowdDivergence.total(chances, log, beyond) <= level
        ]

    def _epsilon(self, delta: float) -> BoundValue:
        high, vanishes = min(self.largest, LARGEST_EPSILON), self.largest <= LARGEST_EPSILON
        found = invert(self.directions[0], delta, high, zero_at_high=vanishes)
        upper, lower = found.upper, found.lower
        seen = [self.directions[0]]
        for way in self._may_exceed(delta, upper) if math.isfinite(upper) else ():
            if any(way.is_like(other) for other in seen):
                continue
            seen.append(way)
            if not way.is_at_most(delta, upper):
                found = invert(way, delta, high, zero_at_high=vanishes)
                upper, lower = max(upper, found.upper), max(lower, found.lower)
        if math.isinf(upper) and math.isfinite(self.largest):
            return self._value(self.largest, self.largest - lower)
        return self._value(upper, upper - lower if math.isfinite(upper) else math.inf)

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest and math.isfinite(self.largest):
            return self._value(0.0, 0.0)
        upper, lower = self._worst(min(epsilon, LARGEST_EPSILON), SHARPNESS)
        if epsilon > LARGEST_EPSILON:
            return self._value(upper, upper)
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def _worst(self, epsilon: float, sharpness: float) -> tuple[float, float]:
        """δ from above and from below, the largest over all directions."""
        found = self.directions[0].bracket(epsilon, sharpness)
        upper, lower = found.upper_float(), found.lower_float()
        seen = [self.directions[0]]
        for way in self._may_exceed(upper, epsilon):
            if not (any(way.is_like(other) for other in seen) or way.is_soon_within(upper, epsilon)):
                found = way.bracket(epsilon, sharpness)
                upper, lower = max(upper, found.upper_float()), max(lower, found.lower_float())
                seen.append(way)
        return min(1.0, upper), lower

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        if len(epsilons) > FEW:
            return self._knots.between(epsilons)
        found = [self._about(float(epsilon)) for epsilon in epsilons]
        return np.array([upper for upper, _ in found]), np.array([lower for _, lower in found])

    @cached_property
    def _knots(self) -> Knots:
        """A few ε: the largest divergence over all datasets is convex in e^ε."""
        scale = self.directions[0].natural_scale()
        return Knots.of(self._about, KNOT_STEP * scale, self.largest, MOST_KNOTS)

    def _about(self, epsilon: float) -> tuple[float, float]:
        """δ from above and from below, less sharply than one value alone."""
        if epsilon >= self.largest:
            return 0.0, 0.0
        upper, lower = self._worst(min(epsilon, LARGEST_EPSILON), PROFILE_SHARPNESS)
        return upper, 0.0 if epsilon > LARGEST_EPSILON else lower


class AllCrowdsBound(Bound):
    """The worst crowd, whatever the others hold.

    Theorem: absent user (docs/crowds.md), with the largest E(ΣG)_+ over all crowds by convexity on simplices.
    Requires: every law that another user's message may have, for each kind of input pair; a common part γ of them.
    Returns: a certified upper bound; the slack reaches to a real crowd's divergence.
    """

    name = "all-crowds"
    theorem = "absent user: the worst of all crowds (ours)"
    summary = "the worst of all crowds: meets the attack where many take part"
    guarantees = True
    slow = True

    def __init__(self, fewest: int = FEWEST) -> None:
        self.fewest = fewest
        """Others below which it is not tried."""

    def pace(self, randomizer: Randomizer, users: int) -> Pace:
        return Pace.AT_ONCE if users >= MANY_COINS and randomizer.coin_range() is not None else Pace.SLOW

    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        if users - 1 < self.fewest:
            raise NotApplicable(self.name, f"is for at least {self.fewest} others, got {users - 1}.")
        if not has_tails(randomizer):
            return self._whole(randomizer, users)
        return tail_curve(self, randomizer, users, self._whole(randomizer, users) if randomizer.others() else None)

    def _whole(self, randomizer: Randomizer, users: int) -> AllCrowdsCurve:
        families = randomizer.others()
        if not families:
            raise NotApplicable(self.name, f"{type(randomizer).__name__} does not give all laws of the others.")
        ways = [way for one in families for way in ([one] if one.symmetric else [one, one.swapped()])]
        ways.sort(key=lambda way: -float(squares(way.view).max()))
        largest = max(way.largest_log_ratio() for way in ways)
        directions = tuple(CrowdDivergence(way, users - 1) for way in ways)
        return AllCrowdsCurve(self.source(users), directions, largest)
