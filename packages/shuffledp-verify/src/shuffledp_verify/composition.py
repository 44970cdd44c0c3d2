"""Several rounds, and rounds of a sample: from points (ε, δ) of one round to the divergence of all rounds.

Every step is rounded up: masses to integer multiples of a unit, the smallest losses to larger ones, the largest to
infinity. Points above the chords over them are left out, and a jump below 0 would count as 0: both only raise the
result.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

from flint import arb, fmpz_poly

from shuffledp_verify.arithmetic import precision, rational

# --- Many rounds: chords between points, integer masses on a grid ---

GUARD_BITS = 96
TRIMMED_DELTA_SHARE = Fraction(1, 10**6)
"""Share of δ that rounding the outermost losses may cost in total."""
MAX_GRID_LENGTH = 3_000_000
"""Largest number of places of a grid."""


class GridTooLong(Exception):
    """The losses are too far apart for the grid."""


@dataclass(frozen=True)
class Chords:
    """An upper bound of D_x, x = e^ε ≥ 1, by points (ε, δ) of both directions of a pair, in increasing order of ε.

    D_x(P‖Q) is convex and falls in x, and is 1 at x = 0: between two points it is below their chord (connect the dots,
    Doroshenko et al. 2022).
    """

    points: Sequence[tuple[Fraction, Fraction]]

    @cached_property
    def _exponential_points(self) -> list[tuple[arb, arb]]:
        """The points as (e^ε, δ), at the working precision of the first use."""
        points = [(arb(rational(epsilon)).exp(), arb(rational(delta))) for epsilon, delta in self.points]
        return points if self.points and self.points[0][0] == 0 else [(arb(1), arb(1)), *points]

    def evaluate(self, x: arb) -> arb:
        """Returns an upper bound of D_x, for x ≥ 1."""
        ends = self._exponential_points
        low, high = 0, len(ends)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if ends[middle][0] <= x else (low, middle)
        before, value = ends[low]
        if low + 1 == len(ends):
            return value
        after, next_value = ends[low + 1]
        chord = value + (next_value - value) * (x - before) / (after - before)
        # If x may lie on either side of the next point, the value there counts as well.
        return arb(chord.upper()) if x <= after else arb(chord.upper()).max(next_value)


@dataclass(frozen=True)
class LossMeasure:
    """Privacy losses: integer masses in units of 2^−bits at the losses step·(low + place), and at infinity.

    D at x < 1 is 1 − x + x·D_{1/x}(Q‖P), so that points that hold for both directions can be used there. A curve that
    is below Σ q_k·(x_k − x)_+ + p, q_k ≥ 0, stays below it when it replaces one round of many, since D_x of several
    rounds is a positive mixture of D over the arguments of any one of them: all rounds are below the product of the
    measures with mass p_k = x_k·q_k at the loss log x_k and p at infinity. This also holds for values that are chosen
    after seeing the results of earlier rounds.
    """

    step: Fraction
    bits: int
    low: int
    masses: Sequence[int]
    infinite: int

    @classmethod
    def from_values(cls, values: Sequence[arb], step: Fraction, bits: int) -> LossMeasure:
        """Returns the measure of the chords between values of D at e^(step·k), k ≥ 0, and of their mirror images."""
        last = len(values) - 1
        with precision(bits + GUARD_BITS + step.denominator.bit_length()):
            ratio = arb(rational(step)).exp()
            above = list(accumulate([ratio] * last, lambda x, y: x * y, initial=arb(1)))
            right = list(enumerate(zip(above, values, strict=True)))
            left = [(-k, (1 / x, 1 - (1 - value) / x)) for k, (x, value) in reversed(right[1:])]
            # The first one has no mass: D is 1 at x = 0.
            dots = _hull([(-last, (arb(0), arb(1))), *left, *right])
            slopes = [(w - v) / (y - x) for (_, (x, v)), (_, (y, w)) in pairwise(dots)]
            masses = [0] * (2 * last + 1)
            for (place, (x, _)), before, after in zip(dots[1:], slopes, [*slopes[1:], arb(0)], strict=True):
                masses[place + last] = _units(x * (after - before), bits)
            return cls(step, bits, -last, masses, _units(values[last], bits))

    def compose(self, rounds: int, budget: int) -> LossMeasure:
        """Returns the losses of ``rounds`` rounds; the outermost masses, about ``budget`` units, may be moved."""
        result: LossMeasure | None = None
        base, done, count = self, 0, 1
        while True:
            if rounds & count:
                done += count
                result = base if result is None else result.join(base)._trim(budget * done // rounds)
            if 2 * count > rounds:
                break
            base = base.join(base)._trim(budget * 2 * count // rounds)
            count *= 2
        assert result is not None, "there is a round"
        return result

    def join(self, other: LossMeasure) -> LossMeasure:
        """Returns the losses of two independent rounds together, with each mass rounded up."""
        if len(self.masses) + len(other.masses) > MAX_GRID_LENGTH:
            raise GridTooLong("the losses of all rounds are too far apart for the grid.")
        product = fmpz_poly(list(self.masses)) * fmpz_poly(list(other.masses))
        round_up = (1 << self.bits) - 1
        masses = [int(mass) + round_up >> self.bits for mass in product.coeffs()] or [0]
        infinite = self.infinite * (sum(other.masses) + other.infinite) + other.infinite * sum(self.masses)
        return LossMeasure(self.step, self.bits, self.low + other.low, masses, infinite + round_up >> self.bits)

    def _trim(self, budget: int) -> LossMeasure:
        """Raises small losses to a common one, and large ones to infinity, as long as each is within the budget."""
        masses, low, infinite = list(self.masses), self.low, self.infinite
        sums = list(accumulate(masses))
        first = min(bisect_right(sums, budget), len(masses) - 1)
        if first:
            masses = [sums[first], *masses[first + 1 :]]
            low += first
        cut = 0
        while len(masses) > 1 and cut + masses[-1] <= budget:
            cut += masses.pop()
        return LossMeasure(self.step, self.bits, low, masses, infinite + cut)

    @cached_property
    def _tails(self) -> tuple[list[int], list[arb]]:
        """Sums of the masses from each place on, and the same sums weighted by e^(−loss)."""
        with precision(self.bits + GUARD_BITS):
            ratio = (-arb(rational(self.step))).exp()
            weight = (-arb(rational(self.step * (self.low + len(self.masses) - 1)))).exp()
            plain, weighed = [0], [arb(0)]
            for mass in reversed(self.masses):
                plain.append(plain[-1] + mass)
                weighed.append(weighed[-1] + mass * weight)
                weight = weight / ratio
            return plain[::-1], weighed[::-1]

    def delta(self, epsilon: Fraction) -> arb:
        """Returns Σ mass·(1 − e^(ε − loss))_+ plus the mass at infinity: at least the divergence at e^ε."""
        # A loss equal to ε contributes 0 on either side.
        place = min(max(0, epsilon // self.step - self.low + 1), len(self.masses))
        plain, weighed = self._tails
        with precision(self.bits + GUARD_BITS):
            finite = plain[place] - arb(rational(epsilon)).exp() * weighed[place]
            return (finite.max(arb(0)) + self.infinite) / (1 << self.bits)


def _hull(dots: Sequence[tuple[int, tuple[arb, arb]]]) -> list[tuple[int, tuple[arb, arb]]]:
    """Returns the points that are certainly below the chords over them; the chords replace the others."""
    kept: list[tuple[int, tuple[arb, arb]]] = []
    for dot in dots:
        while len(kept) > 1 and not _is_below(kept[-1][1], kept[-2][1], dot[1]):
            kept.pop()
        kept.append(dot)
    return kept


def _is_below(dot: tuple[arb, arb], before: tuple[arb, arb], after: tuple[arb, arb]) -> bool:
    rise, run = dot[1] - before[1], dot[0] - before[0]
    return bool(rise * (after[0] - before[0]) < (after[1] - before[1]) * run)


def compose_rounds(values: Sequence[arb], rounds: int, step: Fraction, delta: Fraction) -> LossMeasure:
    """Composes equal rounds.

    Args:
        values: Upper bounds of D of one round at e^(step·k), k = 0, 1, …
        rounds: Number of rounds.
        step: The distance of losses on the grid.
        delta: The δ that determines the unit of masses.

    Returns:
        The losses of all rounds.

    Raises:
        GridTooLong: If they are too far apart.
    """
    bits = unit_bits(delta, rounds)
    return LossMeasure.from_values(values, step, bits).compose(rounds, int(TRIMMED_DELTA_SHARE * delta * 2**bits))


def unit_bits(delta: Fraction, rounds: int) -> int:
    """Returns bits such that units of 2^−bits are negligible against δ, however often masses are rounded."""
    return GUARD_BITS + rounds.bit_length() + (delta.denominator // max(1, delta.numerator)).bit_length()


def _units(number: arb, bits: int) -> int:
    """Returns a number in units, rounded up to an integer of at least 0."""
    whole = (number * (1 << bits)).upper().ceil().unique_fmpz()
    assert whole is not None, "the precision holds a whole number of units"
    return max(0, int(whole))


# --- The number of people who take part ---

SIZE_BITS = 256
BLOCKS_PER_DEVIATION = 500
"""Blocks per standard deviation; a block has at least one size."""
MIN_CELLS_PER_DEVIATION, MAX_CELLS_PER_DEVIATION, CELLS_PER_MEAN = 4, 16, 1000
"""Cells per standard deviation, at least and at most, and cells in the mean."""


@dataclass(frozen=True)
class SizeCell:
    """Sizes from ``least`` to ``most``, and an upper bound of their probability."""

    least: int
    most: int
    chance: arb


class SampleSizes:
    """The number of participants out of ``people``, each of whom takes part with probability ``rate``.

    It is binomial. Its masses are log-concave, so that within a block of neighbours none is above the one that is
    nearest to the mode; beyond the cells they fall at least geometrically.
    """

    def __init__(self, people: int, rate: Fraction) -> None:
        self.people, self.rate = people, rate
        self.mean = float(people * rate)
        self.deviation = max(1.0, math.sqrt(self.mean * float(1 - rate)))
        self.mode = min(people, math.floor((people + 1) * rate))
        with precision(SIZE_BITS):
            self._yes, self._no = (arb(rational(p)).log() for p in (rate, 1 - rate))
            self._all = arb(people + 1).lgamma()

    def mass(self, size: int) -> arb:
        """Returns the probability of a size."""
        with precision(SIZE_BITS):
            ways = self._all - arb(size + 1).lgamma() - arb(self.people - size + 1).lgamma()
            return (ways + size * self._yes + (self.people - size) * self._no).exp()

    def tail_below(self, size: int) -> arb:
        """Returns an upper bound of the probability of fewer: each mass is at most a fixed share of the next."""
        if size <= 0:
            return arb(0)
        last = size - 1
        share = Fraction(last) * (1 - self.rate) / ((self.people - last + 1) * self.rate)
        return self._tail(last, share)

    def tail_above(self, size: int) -> arb:
        """Returns an upper bound of the probability of more."""
        if size >= self.people:
            return arb(0)
        first = size + 1
        share = Fraction(self.people - first) * self.rate / ((first + 1) * (1 - self.rate))
        return self._tail(first, share)

    def _tail(self, end: int, share: Fraction) -> arb:
        if share >= 1:
            return arb(1)
        with precision(SIZE_BITS):
            return (self.mass(end) / arb(rational(1 - share))).min(arb(1))

    def upper_quantile(self, left: float) -> int:
        """Returns a size above which the probability is at most ``left``, or the number of all people."""
        deviations = 1.0
        while True:
            size = min(self.people, math.ceil(self.mean + deviations * self.deviation))
            if size == self.people or self.tail_above(size) <= left:
                return size
            deviations *= 1.25

    def cells(self, starts: Sequence[int], most: int) -> list[SizeCell]:
        """Returns cells from the first start to ``upper_quantile``; a cell begins at every start."""
        finest = max(self.deviation / MAX_CELLS_PER_DEVIATION, self.mean / CELLS_PER_MEAN)
        width = max(1, math.floor(min(self.deviation / MIN_CELLS_PER_DEVIATION, finest)))
        found: list[SizeCell] = []
        for start, end in zip(starts, [*starts[1:], most + 1], strict=True):
            found += [self._cell(low, min(low + width, end) - 1) for low in range(start, end, width)]
        return found

    def _cell(self, least: int, most: int) -> SizeCell:
        width = max(1, math.floor(self.deviation / BLOCKS_PER_DEVIATION))
        chance = arb(0)
        with precision(SIZE_BITS):
            for low in range(least, most + 1, width):
                high = min(low + width - 1, most)
                chance += (high - low + 1) * self.mass(min(max(low, self.mode), high))
        return SizeCell(least, most, chance)


# --- Sampled rounds ---

MAX_STEPS = 100_000
"""Largest number of grid steps that one round's loss may span."""
OMITTED_DELTA_SHARE = 1e-6
"""Share of δ that the sizes outside all cells may cost."""


@dataclass(frozen=True)
class Draw:
    """The sampling of a round: some of ``population`` people, of whom ``colluding`` share all they know."""

    population: int
    colluding: int
    sample_size: int | None = None
    """Sample size, without replacement; None if coins decide."""
    rate: str | None = None
    """Probability of everyone's own coin, as a decimal."""

    @property
    def honest_population(self) -> int:
        """The number of people who do not collude; to the colluding ones, the sample is drawn among these."""
        return self.population - self.colluding

    @property
    def chance(self) -> Fraction:
        """The probability that a person is drawn, given everything that the colluding people know."""
        if self.sample_size is not None:
            return self.share(self.sample_size)
        assert self.rate is not None, "coins decide where no number is drawn"
        return Fraction(self.rate)

    def share(self, drawn: int) -> Fraction:
        """Returns the probability that a person is in a sample of this size."""
        return min(Fraction(1), Fraction(drawn, self.honest_population))


@dataclass(frozen=True)
class SizePoints:
    """A number of users, and points (ε, δ) of one round with them: replacing a value is (ε, δ)-private."""

    users: int
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RoundsComposition:
    """Equal rounds, each sampled in the same way, on a grid of losses.

    Theorem: of a share s of a population, drawn at random without replacement, D_x is at most s times D_y of those
    drawn, y = 1 + (x − 1)/s, x ≥ 1 ([VR] Proposition 2; it grows with s, since D is convex and falls). If a coin
    decides for each person, their number is independent of the data and seen by everybody, and given it they are such a
    sample: D_x is at most the mean over the numbers. More people hide better: for a number in between, the points of
    the smaller size are used.
    """

    rounds: int
    draw: Draw | None
    step: float

    def bound(self, sizes: Sequence[SizePoints], delta: Fraction) -> LossMeasure | SampledRound:
        """Bounds the divergence of all rounds by proved points of one round.

        Args:
            sizes: Proved points, for one or several numbers of users.
            delta: The claimed δ.

        Returns:
            An upper bound of the divergence at every ε.

        Raises:
            GridTooLong: If the losses are too far apart for the grid.
        """
        return self.measure(sizes, delta) if self.rounds > 1 else self._single_round(sizes, delta)

    def measure(self, sizes: Sequence[SizePoints], delta: Fraction) -> LossMeasure:
        """Returns the losses of all rounds, by proved points."""
        step = Fraction(self.step)
        once = self._single_round(sizes, delta)
        with precision(once.bits):
            last = math.ceil(once.largest_useful_epsilon / self.step) + 1
            if last > MAX_STEPS:
                raise GridTooLong("the losses of one round are too far apart for the grid.")
            values = [once.evaluate(arb(rational(k * step)).exp()) for k in range(last + 1)]
        return compose_rounds(values, self.rounds, step, delta)

    def _single_round(self, sizes: Sequence[SizePoints], delta: Fraction) -> SampledRound:
        bits = 2 * unit_bits(delta, self.rounds) + Fraction(self.step).denominator.bit_length()
        curves = [Chords([(Fraction(e), Fraction(d)) for e, d in size.points]) for size in sizes]
        if self.draw is None or self.draw.sample_size is not None:
            share = Fraction(1) if self.draw is None else self.draw.chance
            return SampledRound([(arb(1), share, curves[0])], arb(0), bits)
        coins = SampleSizes(self.draw.honest_population, self.draw.chance)
        starts = [size.users for size in sizes]
        most = max(starts[-1], coins.upper_quantile(OMITTED_DELTA_SHARE * float(delta) / self.rounds))
        number, cells = 0, []
        for cell in coins.cells(starts, most):
            while number + 1 < len(starts) and starts[number + 1] <= cell.least:
                number += 1
            cells.append((cell.chance, self.draw.share(cell.most), curves[number]))
        # A round without participants reveals nothing.
        outside = coins.tail_below(starts[0]) if starts[0] > 1 else arb(0)
        return SampledRound(cells, outside + coins.tail_above(most), bits)


@dataclass(frozen=True)
class SampledRound:
    """One round: probability, drawn share and curve of each cell of sizes, and the probability outside all cells."""

    cells: Sequence[tuple[arb, Fraction, Chords]]
    outside: arb
    bits: int

    def delta(self, epsilon: Fraction) -> arb:
        """Returns an upper bound of the divergence at e^ε."""
        with precision(self.bits):
            return self.evaluate(arb(rational(epsilon)).exp())

    def evaluate(self, x: arb) -> arb:
        """Returns an upper bound of D_x for x ≥ 1, at a working precision of ``bits``."""
        total = self.outside
        for chance, curve in self._full_cells:
            total += chance * curve.evaluate(x)
        for chance, inverse, curve in self._sampled_cells:
            total += chance * curve.evaluate(1 + (x - 1) * inverse)
        return arb(total.upper()).min(arb(1))

    @cached_property
    def _full_cells(self) -> list[tuple[arb, Chords]]:
        return [(chance, curve) for chance, share, curve in self.cells if share == 1]

    @cached_property
    def _sampled_cells(self) -> list[tuple[arb, arb, Chords]]:
        """The probability times the share, the inverse of the share, and the curve of each cell."""
        found = [(chance, rational(share), curve) for chance, share, curve in self.cells if share < 1]
        return [(chance * share, arb(1 / share), curve) for chance, share, curve in found]

    @property
    def largest_useful_epsilon(self) -> float:
        """An ε beyond which the bound hardly falls."""
        ends = [(float(share), float(curve.points[-1][0])) for _, share, curve in self.cells if curve.points]
        return max((math.log1p(share * math.expm1(min(end, 700.0))) for share, end in ends), default=0.0)
