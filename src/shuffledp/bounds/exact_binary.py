"""Randomizers with two messages: the exact worst case over all datasets."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from shuffledp.array import Floats
from shuffledp.bounds.all_crowds import MANY_COINS, WORTH_IT
from shuffledp.bounds.bound import Bound, Pace
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import precision, rational, round_up
from shuffledp.numerics.inversion import invert
from shuffledp.numerics.two_coins import FEW_COINS, TwoCoins
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve
from shuffledp.privacy.knots import Knots
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue

ROOM, FEW_LOOKS = 2e-6, 60
"""Relative distance in ε between the answer and the worst dataset found that is tried first, and the number of blocks
of datasets to look at for it. Where many datasets are nearly as bad as the worst, the proof for all needs more room."""
MOST_CROWDS = 400
NEAR_CROWDS = 4
"""Crowds that differ from a constant one in fewer users than this are tried as attacks."""
STEP = 1e-3
RANGE = 25.0
"""How far, in standard deviations, ε are looked at where many are asked for."""
RATIO_BITS = 128


@dataclass(frozen=True)
class Looking:
    """Of many ε: the distance of those that are looked at, in standard deviations, the relative room in ε that a proof
    may take, and how many blocks of datasets each is worth."""

    step: float
    room: float
    looks: int


QUICKLY, SHARPLY = Looking(0.25, 5e-3, 60), Looking(0.125, 1e-3, 120)
"""Another ε costs next to nothing where the coins are multiplied out."""


@dataclass(frozen=True)
class Worst:
    """What is known of the largest divergence over a direction's datasets at one ε."""

    upper: arb
    lower: arb
    crowd: int
    """How many of the others hold the input of the likelier coin in the worst dataset seen."""


@dataclass(frozen=True)
class Crowds:
    """All datasets of ``users`` users whose message is 1 with probability ``low`` or ``high``.

    By joint convexity inputs between the two extremes are never worse. With k others at ``high`` and z at ``low`` the
    divergence D(k, z) falls in both k and z, because adding an independent message is post-processing. So all
    datasets with k from a to b are bounded by D(a, users−1−b), and blocks are halved where that is not enough.
    """

    high: Fraction
    low: Fraction
    users: int

    def other_direction(self) -> Crowds:
        """The same with the meaning of 0 and 1 exchanged."""
        return Crowds(1 - self.low, 1 - self.high, self.users)

    def crowd(self, many: int) -> TwoCoins:
        return TwoCoins(self.high, self.low, many, self.users - 1 - many)

    def worst(
        self, epsilon: float, target: arb | None = None, *, relative: float = 0.0, most: int = MOST_CROWDS
    ) -> Worst:
        """Bounds of the largest D at ε; stops when it is at most ``target``, or settled, or after ``most`` looks.

        ``relative`` is a target too: about that much more ε than the worst dataset seen has.

        Theorem: identity (★) does not apply to mixed crowds; this is direct: post-processing and bisection.
        """
        ends = [self._seen(many, many, epsilon) for many in {0, self.users - 1}]
        lower, crowd = max((block.lower, block.first) for block in ends)
        heap = [*ends, *(self._seen(a, b, epsilon) for a, b in self._blocks())]
        heapq.heapify(heap)
        looked = len(heap)
        if target is None and relative and lower > 0:
            target = lower * (1 + arb(relative) * (1 - 2 * lower.log()))
        while heap and looked < most and not (target is not None and heap[0].upper <= target):
            block = heapq.heappop(heap)
            if block.first == block.last:
                # Nothing that is left is larger.
                heap = [block]
                break
            middle = (block.first + block.last) // 2
            for a, b in ((block.first, middle), (middle + 1, block.last)):
                part = self._seen(a, b, epsilon)
                heapq.heappush(heap, part)
                looked += 1
                if a == b and part.lower > lower:
                    lower, crowd = part.lower, a
        return Worst(heap[0].upper, lower, crowd)

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Everything between the ends."""
        if self.users > 2:
            yield 1, self.users - 2

    def _seen(self, first: int, last: int, epsilon: float) -> _Block:
        value = TwoCoins(self.high, self.low, first, self.users - 1 - last).bracket(epsilon)
        return _Block(value.upper, value.lower, first, last)

    def attacks(self) -> list[TwoCoins]:
        """Datasets that are nearly constant: among them is the worst one, or one nearly as bad."""
        few = range(min(NEAR_CROWDS, self.users))
        return [self.crowd(self.users - 1 - other) for other in few]


@dataclass(frozen=True)
class _Block:
    """Datasets with ``first`` to ``last`` others at the likelier coin, and a bound for all of them."""

    upper: arb
    lower: arb
    first: int
    last: int

    def __lt__(self, other: _Block) -> bool:
        """The largest bound comes first."""
        return bool(self.upper > other.upper)


@dataclass(frozen=True)
class ExactBinaryCurve(PrivacyCurve):
    """The largest divergence over all datasets of a randomizer with two messages."""

    directions: tuple[Crowds, ...]
    largest: float

    @property
    def certified(self) -> bool:
        return True

    def _epsilon(self, delta: float) -> BoundValue:
        upper = lower = 0.0
        for way in self.directions:
            found, proved = self._one_way(way, delta)
            upper, lower = max(upper, found), max(lower, proved)
        return self._value(upper, upper - lower)

    @property
    def tells_many(self) -> bool:
        return self.messages < MANY_COINS

    def may_beat(self, epsilon: float, delta: float) -> bool:
        """Not if everybody else holding the same has no smaller δ at an ε that is hardly smaller."""
        hardly = min(epsilon, self.largest, LARGEST_EPSILON) * (1 - WORTH_IT)
        return not any(way.crowd(way.users - 1).bracket(hardly).lower > delta for way in self.directions)

    def _one_way(self, way: Crowds, delta: float) -> tuple[float, float]:
        """An ε that is proved for all datasets, and one below which some dataset is worse."""
        high = min(self.largest, LARGEST_EPSILON)
        target, crowd, lower, room = arb(delta), way.users - 1, 0.0, ROOM
        while True:
            inverse = invert(way.crowd(crowd), delta, high, zero_at_high=self.largest <= LARGEST_EPSILON)
            lower = max(lower, inverse.lower)
            if math.isinf(inverse.upper):
                return math.inf, lower
            while True:
                upper = min(high, max(lower * (1 + room), inverse.upper))
                seen = way.worst(upper, target, most=FEW_LOOKS if room == ROOM else MOST_CROWDS)
                if seen.upper <= target or upper >= self.largest:
                    return upper, lower
                if seen.lower > target and seen.crowd != crowd:
                    crowd = seen.crowd
                    break
                if upper >= high:
                    return math.inf, lower
                room = self._more(way.crowd(crowd), upper, room, seen, target)

    def _more(self, crowd: TwoCoins, epsilon: float, room: float, seen: Worst, target: arb) -> float:
        """The room that would have been enough, by how steeply log δ falls in log ε."""
        if room == ROOM:
            return 100 * ROOM
        slope = (crowd.log_estimate(epsilon) - crowd.log_estimate(epsilon * (1 + STEP))) / STEP
        missing = float((seen.upper / target).log())
        return max(2 * room, room + 1.1 * missing / slope) if slope > 0 else 10 * room

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest:
            return self._value(0.0, 0.0)
        upper = lower = 0.0
        for way in self.directions:
            seen = way.worst(min(epsilon, LARGEST_EPSILON))
            upper = max(upper, min(1.0, round_up(seen.upper)))
            lower = max(lower, -round_up(-seen.lower))
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self._knots.between(epsilons)

    @cached_property
    def _knots(self) -> Knots:
        """All datasets in a few blocks, at a few ε. Each one's divergence is convex in e^ε, and so is the maximum."""
        scale = max(way.crowd(way.users - 1).natural_scale() for way in self.directions)
        how = SHARPLY if self.messages - 1 <= FEW_COINS else QUICKLY

        def at(epsilon: float) -> tuple[float, float]:
            seen = [way.worst(epsilon, relative=how.room, most=how.looks) for way in self.directions]
            lower = max(max(0.0, -round_up(-worst.lower)) for worst in seen)
            return max(min(1.0, round_up(worst.upper)) for worst in seen), lower

        return Knots.of(at, how.step * scale, self.largest, round(RANGE / how.step))


class ExactBinaryBound(Bound):
    """The exact worst case over all datasets, for randomizers with two messages.

    Theorem: the others' messages are independent coins; D(k, z) with k and z of them at the two extreme laws falls
    in k and in z (post-processing), so bisection over k bounds the maximum from both sides; the divergence of one
    crowd is max_t [A·P(F ≥ t−1) + B·P(F ≥ t)] for the sum F of two binomials.
    Requires: two messages, and the smallest and largest probability of one of them over all inputs.
    Returns: a certified upper bound within a relative 2e-4 in ε of a dataset that attains it (more where that would
    take too long; the slack says so).
    """

    name = "exact-binary"
    theorem = "worst dataset of two-message randomizers, by post-processing and bisection"
    summary = "two messages: the exact worst case over all datasets"
    guarantees = True

    def pace(self, randomizer: Randomizer, users: int) -> Pace:
        return Pace.LATER if users >= MANY_COINS else Pace.AT_ONCE

    def curve(self, randomizer: Randomizer, users: int) -> ExactBinaryCurve:
        coin = randomizer.coin_range()
        if coin is None:
            lacks = "has more than two messages" if randomizer.blankets() else "gives no law of two messages"
            raise NotApplicable(self.name, f"{type(randomizer).__name__} {lacks}.")
        return ExactBinaryCurve(self.source(users), directions_of(coin, users), largest_log_ratio(*coin))


def directions_of(coin: tuple[Fraction, Fraction], users: int) -> tuple[Crowds, ...]:
    """The directions of the divergence that differ."""
    low, high = coin
    one = Crowds(high, low, users)
    other = one.other_direction()
    return (one,) if other == one else (one, other)


def largest_log_ratio(low: Fraction, high: Fraction) -> float:
    """log max(high/low, (1−low)/(1−high)), rounded up; infinity where a probability is 0."""
    if low == 0 or high == 1:
        return math.inf
    with precision(RATIO_BITS):
        return round_up(arb(rational(max(high / low, (1 - low) / (1 - high)))).log())
