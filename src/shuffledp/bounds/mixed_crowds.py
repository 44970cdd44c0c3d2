"""Users of several groups in one shuffle: the worst of all crowds, for a user of each group.

The absent user with weights (docs/crowds.md): with ρ_i ≥ 0 for each other user i, every law of whom is at least γ
times one law, let the absent one be i with probability ρ_i/Σρ, and the lost ones be drawn in the same way:

    D ≤ Σ_h γ(1−γ)^h·U(h) + (1−γ)^M,   U(h) = max of E(Σ ρ_i·G_i)_+/Σρ over all crowds and all sets of h lost users.

U grows with h: Σρ_i·G_i/Σρ is a mean of the same without one of them each. The compositions (how many of each group
hold what, and how many of each group are lost) are between corners in which each group holds one kind of value and one
group loses all: ``worst_crowd`` bounds them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, fmpq

from shuffledp.array import Floats
from shuffledp.bounds.all_crowds import FEWEST, OF_THE_LOSS, ROUNDING, lost_steps
from shuffledp.numerics.ball import precision
from shuffledp.numerics.finite_law import Atoms, Bracket, FiniteLaw
from shuffledp.numerics.inversion import invert
from shuffledp.numerics.score_sum import Scores, ScoreSum
from shuffledp.numerics.worst_crowd import SHARPNESS, WorstCrowd
from shuffledp.privacy.attack import AttackCurve
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve, Source
from shuffledp.privacy.knots import Knots
from shuffledp.privacy.mixed_others import MixedOthers
from shuffledp.privacy.pair import ExactClass, HidingPair
from shuffledp.privacy.record import Record
from shuffledp.privacy.value import BoundValue

ROUTE = "mixed crowds"
GRID = 2**30
"""Shares of the groups are rounded down to multiples of 1/GRID."""
TOGETHER = 8
"""Steps of lost users that are bounded together: the corners are those of the last of them."""
MOST_CORNERS = 400
MANY_SHARPNESS = 5e-4
"""Of each of many values."""
FEW, KNOT_STEP, MOST_KNOTS = 16, 0.125, 200
LEVELS = 40
"""Steps of a score, where messages have more than one likelihood ratio."""
ATTACKED, MOST_ATTACKS = 2, 8
"""Crowds that are attacked for each pair of inputs, and in all."""
VIEW_BITS = 96


@dataclass(frozen=True)
class MixedDivergence(Record):
    """The divergence of one user's two inputs among others of several groups, from above.

    Theorem: absent user with weights (docs/crowds.md): D ≤ Σ_h γ(1−γ)^h·U(h) + (1−γ)^M, U(h) = max of E(Σ ρ_i·G_i)_+/Σρ
    over all crowds and all sets of h lost users.
    Requires: every law that a user of each group may have, and one law of which all of these hold at least a share γ.
    Returns: a certified upper bound; the lower side is what a sum of scores attains on one dataset.
    """

    others: MixedOthers
    counts: tuple[int, ...]
    """How many others there are of each group."""
    colluding: int = 0
    """How many of them, of any groups, hide nobody."""

    # --- what is known from above -------------------------------------------------------------------------------

    @property
    def gamma(self) -> float:
        return min(self.others.gamma)

    @property
    def _left(self) -> int:
        """How many others hide."""
        return sum(self.counts) - self.colluding

    @cached_property
    def spreads(self) -> Floats:
        """For each group the largest Σ (first − second)²/hiding of its kinds."""
        return np.array([max(_spread(kind) for kind in kinds) for kinds in self.others.groups])

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """ρ of each group, the largest 1: those hide best who spread least. Any weights make a bound."""
        shares = self.spreads.min() / self.spreads
        return tuple(float(np.float32(share)) for share in shares)

    def laws(self, epsilon: float) -> list[FiniteLaw]:
        """The laws of ρ·G, group after group."""
        return [
            FiniteLaw(_Scaled(kind.law(epsilon), weight))
            for kinds, weight in zip(self.others.groups, self.weights, strict=True)
            for kind in kinds
        ]

    def corners(self, lost: int) -> Floats:
        """Shares of each law at the corners of all compositions where so many are lost, or fewer.

        Of every group there are at least as many as if all lost ones were of it: the smaller that share, the more are
        lost. What is left to 1 may all be of one group; and each group may hold one kind of value.
        """
        left = sum(self.counts) - lost
        least = [max(0, count - lost) * GRID // left for count in self.counts]
        sizes = [len(kinds) for kinds in self.others.groups]
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        rows = []
        for full in range(len(sizes)):
            shares = [GRID - sum(least) + low if group == full else low for group, low in enumerate(least)]
            for held in itertools.product(*map(range, sizes)):
                row = np.zeros(sum(sizes))
                row[starts + np.array(held)] = np.array(shares) / GRID
                rows.append(row)
        return np.unique(np.array(rows), axis=0)

    def bracket(self, epsilon: float, sharpness: float = SHARPNESS) -> Bracket:
        if (epsilon, sharpness) not in self._brackets:
            self._brackets[epsilon, sharpness] = self._bracket(epsilon, sharpness)
        return self._brackets[epsilon, sharpness]

    @cached_property
    def _brackets(self) -> dict[tuple[float, float], Bracket]:
        return {}

    def _bracket(self, epsilon: float, sharpness: float) -> Bracket:
        laws = self.laws(epsilon)
        if not any(law.may_rise for law in laws):
            return Bracket(arb(0), arb(lost_steps(self.gamma, self._left, -math.inf)[2]), ROUTE)
        sharp = max(sharpness, OF_THE_LOSS / (self.gamma * self._left))
        estimate = self.log_estimate(epsilon)
        chances, counts, beyond = lost_steps(self.gamma, self._left, estimate)
        total = beyond
        for start in range(0, len(counts), TOGETHER):
            each = counts[start : start + TOGETHER]
            logs, _, _ = WorstCrowd(laws, sharp, self.corners(sum(self.counts) - int(each.min()))).worst(each)
            total += self._sum(chances[start : start + TOGETHER], each, logs)
        return Bracket(arb(self.attained(epsilon)).min(arb(total)), arb(min(1.0, total)), ROUTE)

    def is_soon_within(self, level: float, epsilon: float) -> bool:
        """Whether all crowds at once are seen to be within a level."""
        laws = self.laws(epsilon)
        if not (level > 0 and any(law.may_rise for law in laws)):
            return False
        chances, counts, beyond = lost_steps(self.gamma, self._left, math.log(level))
        corners = self.corners(sum(self.counts) - int(counts.min()))
        return (
            self._sum(chances, counts, WorstCrowd(laws, sharpness=1e-3).log_bounds(corners, counts)) + beyond <= level
        )

    def _sum(self, chances: Floats, counts: Floats, logs: Floats) -> float:
        """Σ chance·E(ΣρG)_+/Σρ from the logarithms of E(ΣρG)_+/count: at least so much weight is left."""
        whole = math.fsum(weight * count for weight, count in zip(self.weights, self.counts, strict=True))
        left = whole * (1 - ROUNDING) - (sum(self.counts) - counts)
        if not left.min() > 0:
            return 1.0
        return float(chances @ np.minimum(1.0, np.exp(np.minimum(logs, 700.0)) * counts / left)) * (1 + ROUNDING)

    def log_estimate(self, epsilon: float) -> float:
        if epsilon not in self._estimates:
            laws = self.laws(epsilon)
            corners = self.corners(self.colluding)
            counts = np.array([float(self._left)])
            logs, _ = WorstCrowd(laws, 1e-3, corners).constant(counts)
            found = self._sum(np.array([1.0]), counts, logs)
            chances, counts, beyond = lost_steps(self.gamma, self._left, math.log(max(found, 1e-300)))
            # Fewer others spread the sum less and are fewer to share it.
            grown = float(chances @ (self._left / counts) ** 0.5) * found + beyond
            self._estimates[epsilon] = math.log(min(1.0, max(1e-300, grown)))
        return self._estimates[epsilon]

    @cached_property
    def _estimates(self) -> dict[float, float]:
        return {}

    def natural_scale(self) -> float:
        noise = sum(count / spread for count, spread in zip(self.counts, self.spreads, strict=True))
        return 1 / math.sqrt(noise)

    # --- what is known from below -------------------------------------------------------------------------------

    @cached_property
    def attacks(self) -> tuple[ScoreSum, ...]:
        """Each group holds one kind of value, and messages are scored: the worst few crowds, or what is found of them.

        Where the kinds of all groups tell apart the same messages, in the same order, by how much likelier a message is
        than in the crowd; else by its likelihood ratio alone.
        """
        found = []
        for held in itertools.product(*(self.others.aligned or self.others.groups)):
            classes = [kind.exact for kind in held]
            if any(one is None or not _is_whole(one) for one in classes):
                return ()
            known = [one for one in classes if one is not None]
            own = [[(first, second) for first, second, _ in one] for one in known]
            if all(one == own[0] for one in own):
                weights = [sum(count * one[k][2] for one, count in zip(known, self.counts, strict=True))
                           for k in range(len(own[0]))]  # fmt: skip
                leans = [[(first - second) / weight for (first, second), weight in zip(own[0], weights, strict=True)]]
                leans *= len(known)
            else:
                leans = [[_lean(first, second) for first, second, _ in one] for one in known]
            likeliest = max(
                (one[k][2], each[k]) for one, each in zip(known, leans, strict=True) for k in range(len(one))
            )
            scores = _rounded(leans, likeliest[1])
            if scores is not None:
                found.append(self._scored(known, scores))
        found.sort(key=lambda one: -one.natural_scale())
        return tuple(found[:ATTACKED])

    def _scored(self, classes: Sequence[Sequence[ExactClass]], scores: Sequence[Sequence[int]]) -> ScoreSum:
        first, second = (_law_of(scores[0], [one[place] for one in classes[0]]) for place in (0, 1))
        laws = [_law_of(each, [one[2] for one in known]) for each, known in zip(scores, classes, strict=True)]
        crowd = tuple((law, count) for law, count in zip(laws, self.counts, strict=True) if count)
        return ScoreSum(first, second, crowd)

    def attained(self, epsilon: float) -> float:
        """The δ that a test on a constructed dataset attains at ε: colluders, and lost users, would only help it."""
        return max((one.bracket(epsilon).lower_float() for one in self.attacks), default=0.0)


@dataclass(frozen=True)
class _Scaled:
    """The atoms of a law times a positive constant."""

    law: FiniteLaw
    weight: float

    def __call__(self) -> Atoms:
        weight = arb(self.weight)
        return [(value * weight, chance) for value, chance in self.law.atoms()]


def _spread(kind: HidingPair) -> float:
    with precision(VIEW_BITS):
        gaps = [(c.first - c.second, c.hiding) for c in kind.classes() if not c.hiding.is_zero()]
        return float(sum((gap * gap / hiding for gap, hiding in gaps), arb(0)).mid())


def _is_whole(classes: Sequence[ExactClass]) -> bool:
    """Whether no message of user 1's is one that nobody of this kind sends."""
    return all(sum(each) == 1 for each in zip(*classes, strict=True))


def _lean(first: fmpq, second: fmpq) -> fmpq:
    """By how much a message speaks for the first input: the same for each kind of one pair of inputs."""
    return fmpq(0) if first == second else (first - second) / (first + second)


def _rounded(leans: Sequence[Sequence[fmpq]], start: fmpq) -> list[list[int]] | None:
    """Whole scores in proportion, counted from one of them, without a common divisor; None where all are alike.

    Everybody sends one message, so that it does not matter where scores start.
    """
    sizes = {abs(lean) for each in leans for lean in each} - {fmpq(0)}
    if not sizes:
        return None
    unit = _fraction(max(sizes)) / (1 if len(sizes) == 1 else LEVELS)
    origin = round(_fraction(start) / unit)
    scores = [[round(_fraction(lean) / unit) - origin for lean in each] for each in leans]
    divisor = math.gcd(*(score for each in scores for score in each))
    return [[score // divisor for score in each] for each in scores] if divisor else None


def _law_of(scores: Sequence[int], chances: Sequence[fmpq]) -> Scores:
    total = dict.fromkeys(sorted(set(scores)), fmpq(0))
    for score, chance in zip(scores, chances, strict=True):
        total[score] += chance
    return Scores(tuple(total), tuple(float(_fraction(chance)) for chance in total.values()))


def _fraction(number: fmpq) -> Fraction:
    return Fraction(int(number.p), int(number.q))


@dataclass(frozen=True)
class MixedCurve(PrivacyCurve):
    """The largest divergence of a user of one group over all crowds of all groups, from above."""

    directions: tuple[MixedDivergence, ...]
    """The widest first."""
    largest: float

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        return self.directions[0].natural_scale()

    def _epsilon(self, delta: float) -> BoundValue:
        high, vanishes = min(self.largest, LARGEST_EPSILON), self.largest <= LARGEST_EPSILON
        upper = lower = 0.0
        for way in self.directions:
            if upper > 0 and (way.is_soon_within(delta, upper) or way.bracket(upper).upper <= delta):
                continue
            found = invert(way, delta, high, zero_at_high=vanishes)
            upper, lower = max(upper, found.upper), max(lower, found.lower)
        if math.isinf(upper) and math.isfinite(self.largest):
            return self._value(self.largest, self.largest - lower)
        return self._value(upper, upper - lower if math.isfinite(upper) else math.inf)

    def _delta(self, epsilon: float) -> BoundValue:
        upper, lower = self._worst(epsilon, SHARPNESS)
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def _worst(self, epsilon: float, sharpness: float) -> tuple[float, float]:
        """δ from above and from below, the largest over all directions."""
        if epsilon >= self.largest:
            return 0.0, 0.0
        seen = min(epsilon, LARGEST_EPSILON)
        upper = lower = 0.0
        for way in self.directions:
            if not way.is_soon_within(upper, seen):
                found = way.bracket(seen, sharpness)
                upper, lower = max(upper, found.upper_float()), max(lower, found.lower_float())
        return min(1.0, upper), 0.0 if epsilon > LARGEST_EPSILON else lower

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        if len(epsilons) > FEW:
            return self._knots.between(epsilons)
        found = [self._worst(float(epsilon), MANY_SHARPNESS) for epsilon in epsilons]
        return np.array([upper for upper, _ in found]), np.array([lower for _, lower in found])

    @cached_property
    def _knots(self) -> Knots:
        step = KNOT_STEP * self.directions[0].natural_scale()
        return Knots.of(lambda epsilon: self._worst(epsilon, MANY_SHARPNESS), step, self.largest, MOST_KNOTS)


NAME = "mixed-crowds"
THEOREM = "absent user with weights: the worst of all mixed crowds (ours)"


def mixed_curve(others: Sequence[MixedOthers], counts: tuple[int, ...], colluding: int) -> MixedCurve | None:
    """The curve of a user among ``counts`` others of each group, ``colluding`` of any of which hide nobody.

    None where the others are too few, or too different, to be told of together.
    """
    left = sum(counts) - colluding
    if not others or left < FEWEST or not min(min(one.gamma) for one in others) * left > 1:
        return None
    ways = [way for one in others for way in ([one] if one.symmetric else [one, one.swapped()])]
    directions = [MixedDivergence(way, counts, colluding) for way in ways]
    if any(len(way.corners(colluding)) > MOST_CORNERS for way in directions):
        return None
    directions.sort(key=lambda way: -way.natural_scale())
    attacks = tuple(attack for way in directions for attack in way.attacks)[:MOST_ATTACKS]
    largest = max(way.others.largest_log_ratio() for way in directions)
    source = Source(
        NAME, THEOREM, left + 1, guarantee=True, attack=AttackCurve((), left + 1, attacks) if attacks else None
    )
    return MixedCurve(source, tuple(directions), largest)
