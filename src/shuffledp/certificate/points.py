"""Claims of rounds and samples: the points that they rest on, chosen by the engine's curve and proved one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from flint import arb

from shuffledp.bounds import BOUND_OF
from shuffledp.bounds.schedule import Schedule, rate_text
from shuffledp.certificate.chords import LossesTooFar, rational
from shuffledp.certificate.claim import LARGEST_EPSILON, Claim, kind_of_value, raised_pair, software
from shuffledp.certificate.coin_sizes import Coins
from shuffledp.certificate.drawn_round import Draw, DrawnRounds, Size
from shuffledp.certificate.evidence import Evidence, Rebuilt
from shuffledp.certificate.proof import Verdict
from shuffledp.certificate.rounds import Rounds
from shuffledp.certificate.wording import messages_of
from shuffledp.document import BEYOND
from shuffledp.privacy.curve import LARGEST_EPSILON as LAST, PrivacyCurve
from shuffledp.privacy.loss import round_step
from shuffledp.privacy.randomizer import Randomizer

MARGINS = 1e-4, 1e-3, 1e-2, 1e-1
"""What δ of a point is raised by: the first with which it is proved."""
MANY_USERS = 10_000
"""Of many points for fewer users the first of these is not tried, where it takes long."""
FIRST_STEP, HALVINGS, ACCURACY = 0.13, 4, 4e-4
"""The step of the grid in deviations of one round's loss, and the relative gain of ε at which it is fine enough."""
MOST_STEPS = 20_000
LEFT_AT_INFINITY = 1e-3
"""Share of δ that the loss beyond the last point may cost."""
WIDEST, WIDENING = 0.5, 1.15
"""How far apart points may be: in deviations, and beyond the middle by which factor."""
STARTS = ((-4.5, 4), (-2.0, 1))
"""Sizes where coins decide, in deviations from the mean, and how much wider apart their points are."""
MORE_STARTS = ((-4.5, 4), (-2.0, 2), (-0.5, 1))
"""The same where the deviation is more than this share of the mean."""
FEW = 0.005
PLACES, LEAST_PLACES, REACH = 12, 5, 4.0
"""Points for one round that coins decide, and up to how many deviations of the number that comes."""
APART = 3.0
"""Sizes below all of these are so many deviations apart."""
LEAST_SIZES = 1e-4
"""Share of δ that numbers below all sizes, or beyond all points, may cost."""
ROOM = Decimal("1e-7")
CLOSE = 1e-8
SURVEYED, SURVEY_RATIO, LEAST_TARGET = 1e-12, 1.6, 1e-280


@dataclass(frozen=True)
class PointQuestion:
    """What is to be claimed: rounds of a schedule, by one bound; ε at δ, or δ at ε."""

    randomizer: Randomizer
    bound: str
    users: int
    """How many who do not collude come; where coins decide, on average."""
    rounds: int
    draw: Draw | None
    epsilon: float | None
    delta: float | None

    @classmethod
    def of(
        cls, randomizer: Randomizer, bound: str, schedule: Schedule, users: int, colluding: int,
        epsilon: float | None, delta: float | None,
    ) -> PointQuestion:  # fmt: skip
        """``users``: how many who do not collude come, where their number is known."""
        if not schedule.is_sampled:
            return cls(randomizer, bound, users, schedule.rounds, None, epsilon, delta)
        assert schedule.of is not None, "a sample is drawn out of somebody"
        if schedule.rate is None:
            draw = Draw(schedule.of, colluding, drawn=schedule.expected)
        else:
            draw = Draw(schedule.of, colluding, rate=rate_text(schedule.rate))
            users = max(1, math.floor(draw.chance * draw.secret))
        return cls(randomizer, bound, users, schedule.rounds, draw, epsilon, delta)

    @property
    def share(self) -> float:
        """How probably a person is drawn."""
        return 1.0 if self.draw is None else float(self.draw.chance)

    def curve(self, users: int) -> PrivacyCurve:
        """The engine's curve of one round of so many users; ``NotApplicable`` where the bound is."""
        return BOUND_OF[self.bound].curve(self.randomizer, messages_of(self.randomizer, users))

    def asked(self) -> float:
        """What the bound gives for one round, to compare bounds by; a sentence where it has no second proof."""
        curve = self.curve(self.users)
        value = curve.delta(_inner(self.epsilon or 0.0, self.share))
        kind = kind_of_value(self.randomizer, value)
        assert kind.for_all_inputs, "chosen inputs are not asked about"
        if self.delta is None:
            return value.upper
        return curve.epsilon(min(0.5, self.delta / self.rounds / self.share)).upper

    def claim(self) -> Claim:
        """The claim with its points, proved; a sentence (``ValueError``) where there is none."""
        maker = _Maker(self)
        sizes, step = maker.points()
        plan = DrawnRounds(self.rounds, self.draw, step)
        reach = max(epsilon for size in sizes for epsilon, _ in size.points)
        once = maker.kind.of(self.randomizer, self.users, self.bound, reach)
        claimed = _claimed(plan, sizes, self.epsilon, self.delta)
        backing = Rounds(plan, tuple(sizes), once)
        return Claim(maker.words, self.users, *claimed, self.bound, maker.theorem, software(), backing)


class _Maker:
    """Points of one question."""

    def __init__(self, question: PointQuestion) -> None:
        self.question = question
        self.curve = question.curve(question.users)
        value = self.curve.delta(0.0)
        self.kind: type[Evidence] = kind_of_value(question.randomizer, value)
        self.theorem = value.theorem
        self.words = self.kind.described(question.randomizer)
        self.known: dict[tuple[int, float], float] = {}
        self.curves = {question.users: self.curve}

    @cached_property
    def laws(self) -> Rebuilt:
        """What the second proof will find again."""
        asked, any_epsilon = self.question, 0.0
        evidence = self.kind.of(asked.randomizer, asked.users, asked.bound, any_epsilon)
        claim = Claim(self.words, asked.users, any_epsilon, 1.0, asked.bound, self.theorem, software(), evidence)
        return evidence.rebuilt(claim)

    def is_proved(self, users: int, epsilon: float, delta: float) -> bool:
        finding = self.laws.judged(users, Fraction(epsilon), Fraction(delta), lambda text: None)
        return finding.verdict is Verdict.YES

    def points(self) -> tuple[list[Size], float]:
        """Proved ones for each size, and the step of the grid."""
        asked = self.question
        if asked.rounds > 1:
            return self._many_rounds()
        return self._one_point() if asked.draw is None or asked.draw.drawn is not None else self._one_flip()

    # --- one round ----------------------------------------------------------------------------------------------

    def _one_point(self) -> tuple[list[Size], float]:
        """The claimed point itself, as those who come have it."""
        asked = self.question
        for margin in MARGINS:
            if asked.delta is None:
                epsilon = _inner(asked.epsilon or 0.0, asked.share) * (1 - 1e-15)
                delta = min(1.0, self.curve.delta(epsilon).upper * (1 + margin))
            else:
                delta = min(1.0, math.nextafter(asked.delta / asked.share, 0.0))
                epsilon = self.curve.epsilon(delta / (1 + margin)).upper
            if math.isinf(epsilon):
                break
            if self.is_proved(asked.users, epsilon, delta):
                return [Size(asked.users, ((epsilon, delta),))], 1.0
        raise _no_proof(asked.bound)

    def _one_flip(self) -> tuple[list[Size], float]:
        """For each size a few points about the claimed one, as those see it who come in larger and smaller numbers."""
        asked = self.question
        assert asked.draw is not None, "asked for only where coins decide"
        low = high = asked.epsilon
        if asked.delta is not None:
            inner = self.curve.epsilon(min(0.5, asked.delta / asked.share)).upper
            if math.isinf(inner):
                raise ValueError(f"certificate: epsilon is {BEYOND} at this delta; claim a larger delta.")
            about = math.log1p(asked.share * math.expm1(inner))
            low, high = about * (1 - 1 / math.sqrt(asked.users) / 4), about * (1 + 2 / math.sqrt(asked.users))
        coins = Coins(asked.draw.secret, asked.draw.chance)
        usual = math.ceil(coins.mean + REACH * coins.deviation)
        most = max(usual, coins.most(LEAST_SIZES * self._target))

        def seen(fewer: int, more: int, count: int) -> list[float]:
            """ε as those see it who come in such numbers."""
            shares = (min(1.0, drawn / coins.people) for drawn in (more, fewer))
            first, last = (_inner(epsilon or 0.0, share) for epsilon, share in zip((low, high), shares, strict=True))
            found: list[float] = np.linspace(first, last, count).tolist()
            return found

        sizes = []
        for (users, stride), (after, _) in pairwise([*self._sizes, (usual, 1)]):
            places = seen(users, max(after, users), max(LEAST_PLACES, PLACES // stride))
            if after == usual:
                places += seen(usual, most, LEAST_PLACES)
            places = sorted(set(places))
            points = zip(places, self._values(users, places), strict=True)
            sizes.append(self._proved(Size(users, tuple((place, delta) for place, delta in points if delta < 1))))
        return sizes, 1.0

    # --- many rounds --------------------------------------------------------------------------------------------

    def _many_rounds(self) -> tuple[list[Size], float]:
        """Points so near that finer ones would hardly give less, each proved."""
        step = round_step(FIRST_STEP * self._deviation)
        found, step = self._estimate(step)
        for _ in range(HALVINGS):
            finer, half = self._estimate(step / 2)
            gained = 1 - finer / found if 0 < found < math.inf else 0.0
            if half == step or gained <= 0:
                break
            found, step = finer, half
            # Chords cost the square of the step: the next half would gain a quarter of what this one did.
            if gained <= 3 * self._accuracy:
                break
        if math.isinf(found):
            raise ValueError(f"certificate: epsilon is {BEYOND} at this delta; claim a larger delta.")
        return [self._proved(self._size(users, stride, step)) for users, stride in self._sizes], step

    @property
    def _accuracy(self) -> float:
        """Of ε; δ changes by as much more as its logarithm says."""
        return ACCURACY if self.question.epsilon is None else ACCURACY * max(1.0, -2 * math.log(self._target))

    def _estimate(self, step: float) -> tuple[float, float]:
        """What the engine's points of the usual size would give, as if it were drawn each time; and the step."""
        asked, (users, stride) = self.question, self._sizes[-1]
        last = max(self._places(users, step, stride))
        if last > MOST_STEPS:
            step *= 2.0 ** math.ceil(math.log2(last / MOST_STEPS))
        draw = None if asked.draw is None else Draw(asked.draw.of, asked.draw.colluding, drawn=asked.users)
        sizes = [self._size(users, stride, step)]
        try:
            epsilon, delta = _claimed(DrawnRounds(asked.rounds, draw, step), sizes, asked.epsilon, asked.delta)
        except ValueError:
            return math.inf, step
        return (epsilon if asked.epsilon is None else delta), step

    def _size(self, users: int, stride: int, step: float) -> Size:
        """The engine's points of so many users."""
        inner = [_inner(place * step, self.question.share) for place in self._places(users, step, stride)]
        points = zip(inner, self._values(users, inner), strict=True)
        return Size(users, tuple((epsilon, delta) for epsilon, delta in points if delta < 1))

    def _proved(self, size: Size) -> Size:
        """Each point with the least margin with which it is proved; what is not is left out."""
        found = []
        for epsilon, delta in size.points:
            for margin in MARGINS if size.users >= MANY_USERS else MARGINS[1:]:
                raised = min(1.0, max(delta * (1 + margin), LEAST_TARGET))
                if self.is_proved(size.users, epsilon, raised):
                    found.append((epsilon, raised))
                    break
        if not found:
            raise _no_proof(self.question.bound)
        return Size(size.users, tuple(found))

    @cached_property
    def _sizes(self) -> list[tuple[int, int]]:
        """Numbers of users, and how much wider apart the points of each are."""
        draw, asked = self.question.draw, self.question
        if draw is None or draw.drawn is not None:
            return [(asked.users, 1)]
        coins = Coins(draw.secret, draw.chance)
        starts = STARTS if coins.deviation <= FEW * coins.mean else MORE_STARTS
        least, deviations = 1, -starts[0][0]
        left = LEAST_SIZES * self._target / asked.rounds
        while (size := math.floor(coins.mean - deviations * coins.deviation)) > 1:
            if coins.below(size) <= left:
                least = size
                break
            deviations += 0.5
        apart, stride = max(1, math.floor(APART * coins.deviation)), starts[0][1]
        cuts = [(math.floor(coins.mean + place * coins.deviation), stride) for place, stride in starts]
        lower = [(cut, stride) for cut in range(least, max(least + 1, cuts[0][0]), apart)]
        return [*lower, *((cut, stride) for cut, stride in cuts if lower[-1][0] < cut <= draw.secret)]

    def _places(self, users: int, step: float, stride: int) -> Iterator[int]:
        """Near each other where the loss of all rounds comes from, wider elsewhere, until the curve is near 0."""
        asked, deviation = self.question, self._deviation
        middle = math.sqrt(-2 * math.log(self._target) / asked.rounds) * deviation
        enough = LEFT_AT_INFINITY * self._target / asked.rounds / asked.share
        (floor,) = self._values(users, [LAST])
        place, width = 0, 1
        while True:
            yield place
            (value,) = self._values(users, [_inner(place * step, asked.share)])
            if value <= max(enough, floor * 1.0001) or _inner(place * step, asked.share) >= LAST:
                return
            away = (place * step - middle) / deviation
            wider = int(math.exp(min(50.0, away * away / 6)))
            cap = max(1, int(WIDEST * deviation / step)) if away < 6 else math.ceil(width * WIDENING)
            width = max(1, min(wider, cap))
            place += width * stride

    def _values(self, users: int, epsilons: Sequence[float]) -> list[float]:
        """The engine's δ at the ε of those who come, each computed once."""
        missing = [epsilon for epsilon in epsilons if (users, epsilon) not in self.known]
        if missing:
            if users not in self.curves:
                self.curves[users] = self.question.curve(users)
            found = self.curves[users].profile(np.minimum(missing, LAST)).upper.tolist()
            self.known |= {(users, epsilon): value for epsilon, value in zip(missing, found, strict=True)}
        return [self.known[users, epsilon] for epsilon in epsilons]

    @cached_property
    def _deviation(self) -> float:
        """About the deviation of one round's loss: its variance is 4∫δ dε where losses are small."""
        asked = self.question
        (first,) = self._values(asked.users, [0.0])
        scale = max(first * asked.share, SURVEYED) * math.sqrt(2 * math.pi)
        epsilons, values = [0.0], [first * asked.share]
        while values[-1] > SURVEYED and epsilons[-1] < LAST:
            epsilons.append(0.05 * scale * SURVEY_RATIO ** len(epsilons))
            (value,) = self._values(asked.users, [_inner(epsilons[-1], asked.share)])
            values.append(value * asked.share)
        means = np.sqrt(np.array(values[1:]) * np.array(values[:-1]))
        return math.sqrt(max(4 * float(np.sum(np.diff(epsilons) * means)), 1e-30))

    @cached_property
    def _target(self) -> float:
        """δ, or about what it will be."""
        asked = self.question
        if asked.delta is not None:
            return max(asked.delta, LEAST_TARGET)
        deviation = self._deviation * math.sqrt(asked.rounds)
        away = (asked.epsilon or 0.0) / deviation
        return min(0.5, max(LEAST_TARGET, 0.4 * deviation * math.exp(-away * away / 2) / (1 + away * away)))


def _inner(epsilon: float, share: float) -> float:
    """log(1 + (e^ε − 1)/share), or the largest ε that is looked at."""
    if share == 1.0:
        return min(epsilon, LAST)
    return min(LAST, math.log1p(math.expm1(epsilon) / share)) if epsilon < LAST else LAST


def _claimed(
    plan: DrawnRounds, sizes: Sequence[Size], epsilon: float | None, delta: float | None
) -> tuple[float, float]:
    """(ε, δ): the one that is asked for, as the second proof gives it, rounded up."""
    try:
        if delta is None:
            assert epsilon is not None, "one of the two is given"
            return _claimed_delta(plan, sizes, epsilon)
        bound, exact = plan.bound(sizes, Fraction(delta)), arb(rational(Fraction(delta)))
        return _claimed_epsilon(lambda x: bound.delta(Fraction(x)) <= exact, delta)
    except LossesTooFar as error:
        raise ValueError(f"certificate: no second proof was found: {error}") from None


def _claimed_delta(plan: DrawnRounds, sizes: Sequence[Size], epsilon: float) -> tuple[float, float]:
    if epsilon > LARGEST_EPSILON:
        raise ValueError(f"certificate: expected an epsilon of at most {LARGEST_EPSILON}, got {epsilon}.")
    exact, found = Fraction(epsilon), 1.0
    # What is left of the outermost losses is cut by what δ is: look again with what was found.
    while True:
        again = float(plan.bound(sizes, Fraction(max(found, LEAST_TARGET))).delta(exact).upper())
        if again >= 0.9 * found or again <= LEAST_TARGET:
            break
        found = again
    return raised_pair(max(again, LEAST_TARGET), epsilon, None, ROOM)


def _claimed_epsilon(is_kept: Callable[[float], bool], delta: float) -> tuple[float, float]:
    low, high = 0.0, 1e-6
    while not is_kept(high):
        low, high = high, 4 * high
        if high > LAST:
            raise ValueError(f"certificate: epsilon is {BEYOND} at this delta; claim a larger delta.")
    while high - low > CLOSE * high and high > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if is_kept(middle) else (middle, high)
    return raised_pair(high, None, delta, ROOM)


def _no_proof(bound: str) -> ValueError:
    return ValueError(f"certificate: no second proof of {bound} was found for the rounds; take another bound.")
