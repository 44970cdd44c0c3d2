"""Generators and randomizers small enough for every seed to be tried, and the exact law of the seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from shuffledp._core.validation import Array, Floats, Words
from shuffledp.mechanisms.base import (
    ApproximateProposal,
    Category,
    Mechanism,
    OptionCountEstimator,
    OutputTable,
    PairLaw,
    TwoLevelLaw,
    TwoLevelResponse,
    UniformNumberProposal,
    WholeNumberEncoding,
)
from shuffledp.mechanisms.vector._unit_ball_parts import LatticeEstimator, UnitBall, draw_directions
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import PseudorandomGenerator, RandomSource, Seeds, SystemSource

SEEDS = 256


@dataclass(frozen=True)
class ToyGenerator(PseudorandomGenerator):
    """Eight bits of seed, each with fixed words: "even" spreads the first evenly, "bad" has the same for all."""

    kind: str
    advantage: float = 0.0  # type: ignore[misc]

    name = "toy"
    seed_bits = 8
    assumption = "the test's own generator is as good as the test says."

    def expand(self, seeds: Seeds, count: int) -> Words:
        return self.words(count)[seeds[:, 0]]

    def words(self, count: int) -> Words:
        rng = np.random.default_rng(99)
        words = rng.integers(0, 1 << 64, (SEEDS, count), dtype=np.uint64)
        if self.kind == "even":
            words[:, 0] = np.arange(SEEDS, dtype=np.uint64) << np.uint64(56) | np.uint64(1 << 55)
        if self.kind == "bad":
            words[:] = words[0]
        return words


Law = list[Fraction]


@dataclass(frozen=True)
class SpikedProposal(ApproximateProposal):
    """The uniform law on sixteen messages, from which each input's law is too far at one of them."""

    rows: tuple[tuple[Fraction, ...], ...]

    deletion_epsilon = 0.75
    replacement_epsilon = 1.0
    word_count = 1

    @property
    def ratio(self) -> float:
        return math.nextafter(math.exp(self.deletion_epsilon), math.inf)

    @property
    def deletion_delta(self) -> float:
        uniform = [Fraction(1, 16)] * 16
        return float(max(larger_divergence(list(row), uniform, self.deletion_epsilon) for row in self.rows)) * (
            1 + 1e-12
        )

    @property
    def replacement_delta(self) -> float:
        rows = [list(row) for row in self.rows]
        return float(max(larger_divergence(a, b, self.replacement_epsilon) for a in rows for b in rows)) * (1 + 1e-12)

    def draw_messages(self, words: Words) -> Array:
        return (words[:, 0] >> np.uint64(60)).astype(np.int64)

    def acceptance(self, values: Array, messages: Array) -> Floats:
        table = np.array([[float(16 * p / Fraction(self.ratio)) for p in row] for row in self.rows])
        return np.asarray(table[values, messages])


@dataclass(frozen=True)
class Spiked(Mechanism):
    """Sixteen messages, uniform reference, private only up to δ: each input has one message far too likely."""

    inputs: int = 3
    spike: Fraction = Fraction(3, 10)

    name = "spiked"
    task = "none"

    @property
    def rows(self) -> list[Law]:
        """Input x: the spike at message x, half the rest on the first eight messages, half on the others."""
        result = []
        for x in range(self.inputs):
            row = [(1 - self.spike) * Fraction(1 + (y + x) % 3, 3) for y in range(16)]
            scale = sum(row)
            row = [entry / scale * (1 - self.spike) for entry in row]
            row[x] += self.spike
            result.append(row)
        return result

    @property
    def domain(self) -> Category:
        return Category("Spiked", self.inputs)

    @property
    def law(self) -> PairLaw:
        """Nothing that helps: any ratio, any distance."""
        largest = max(largest_ratio(a, b) for a in self.rows for b in self.rows)
        return PairLaw(VariationRatio(p=math.inf, beta=1.0, q=2.0 * math.ceil(largest)), ())

    @property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("Spiked", 16)

    @property
    def estimator(self) -> OptionCountEstimator:
        return OptionCountEstimator(16, Fraction(1), Fraction(0))

    @property
    def proposal(self) -> SpikedProposal:
        return SpikedProposal(tuple(map(tuple, self.rows)))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        raise NotImplementedError

    def table(self) -> OutputTable:
        every = np.arange(self.inputs)
        return OutputTable(every, np.arange(16), tuple(map(tuple, self.rows)))

    @classmethod
    def examples(cls) -> Sequence[Spiked]:
        return [cls()]


POINTS = 8
"""On the circle, evenly spaced; none is orthogonal to an input of the table."""


@dataclass(frozen=True)
class UniformPoint(UniformNumberProposal):
    """The uniform law of the points, from which a direction that is drawn for each value is told by its half."""

    def draw_latent_inputs(self, values: Array, source: RandomSource) -> Array:
        return draw_directions(values, source)


def points(messages: Array) -> Floats:
    """The points of these numbers."""
    angles = 2 * np.pi * (messages + 0.25) / POINTS
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def is_ahead(directions: Array, messages: Array) -> Any:
    """Whether each point is on the side of the direction beside it."""
    return np.einsum("ij,ij->i", directions, points(messages)) > 0


@dataclass(frozen=True)
class PointEstimator(LatticeEstimator):
    """The sum of the points."""

    def accumulate(self, messages: Array) -> Array:
        return super().accumulate(points(messages))


@dataclass(frozen=True)
class ToyCircle(Mechanism):
    """One of eight points of the circle, often one on the side of the user's vector."""

    epsilon: float

    name = "toy-circle"
    task = "vector mean"

    @property
    def region(self) -> TwoLevelResponse:
        return TwoLevelResponse("ToyCircle", self.epsilon, Fraction(1, 2))

    @property
    def domain(self) -> UnitBall:
        return UnitBall("ToyCircle", 2)

    @property
    def law(self) -> TwoLevelLaw:
        return TwoLevelLaw.from_disjoint(self.region)

    @property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("ToyCircle", POINTS)

    @property
    def estimator(self) -> PointEstimator:
        """The mean of four points in a row is 1/(4·sin(π/8)) long, and at times a little beside the vector."""
        scale = 4 * math.sin(math.pi / 8) / float(1 - self.region.uniform_share)
        # cos³ x is (3·cos x + cos 3x)/4; over four points in a row the mean of the second is −tan(π/8) of the first.
        bend = math.tan(math.pi / 8)
        return PointEstimator(2, 1.0, scale, 0.5, 0.0, (0.75 * (1 + bend), -bend), POINTS)

    @property
    def proposal(self) -> UniformPoint:
        return UniformPoint(self.region, is_ahead, POINTS)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        directions = draw_directions(values, source)
        drawn = source.integers_below(POINTS, len(values))
        told = ~source.coins(self.region.uniform_share, len(values))
        return np.where(told & ~is_ahead(directions, drawn), (drawn + POINTS // 2) % POINTS, drawn)

    def table(self) -> OutputTable:
        inputs = np.array([[1.0, 0.0], [-1.0, 0.0], [0.6, 0.8], [0.0, 0.5]])
        sides = [is_ahead(np.repeat(direction[None, :], POINTS, axis=0), np.arange(POINTS)) for direction in inputs]
        high, low = (level / POINTS for level in (self.region.inside_density, self.region.outside_density))
        rows = [[high if side else low for side in own.tolist()] for own in sides]
        rows[3] = [(3 * a + high + low - a) / 4 for a in rows[3]]
        return OutputTable(inputs, np.arange(POINTS), tuple(map(tuple, rows)))

    @classmethod
    def examples(cls) -> Sequence[ToyCircle]:
        return [cls(1.0)]


def expectation(first: Law, second: Law, of: Callable[[Fraction, Fraction], Fraction]) -> Fraction:
    """The sum of a function of two laws' entries; equal pairs, of which there are many, are taken once."""
    pairs = Counter(zip(first, second, strict=True))
    return sum((count * of(a, b) for (a, b), count in pairs.items()), Fraction(0))


def total_variation(first: Law, second: Law) -> Fraction:
    return expectation(first, second, lambda a, b: max(a - b, Fraction(0)))


def largest_ratio(first: Law, second: Law) -> Fraction:
    return max(a / b for a, b in set(zip(first, second, strict=True)))


def larger_divergence(first: Law, second: Law, epsilon: float) -> Fraction:
    """The larger of the two hockey-stick divergences."""
    ratio = Fraction(math.exp(epsilon))
    ways = ((first, second), (second, first))
    return max(expectation(p, q, lambda a, b: max(a - ratio * b, Fraction(0))) for p, q in ways)


def acceptance(randomizer: Any, value: Any, messages: Any) -> Floats:
    """The probability that each message is accepted for a value."""
    drawn = randomizer.proposal.draw_latent_inputs(np.asarray(value)[None, ...], SystemSource())
    return np.asarray(randomizer.proposal.acceptance(np.repeat(drawn, len(messages), axis=0), messages))


def executed_acceptance(randomizer: Any, value: Any, messages: Any) -> Law:
    """The probabilities that the coins have: rounded down to multiples of 2^-64, at most 1."""
    chances = acceptance(randomizer, value, messages).tolist()
    exact = {c: min(Fraction(1), Fraction(math.floor(Fraction(c) * (1 << 64)), 1 << 64)) for c in set(chances)}
    return [exact[chance] for chance in chances]


def seed_law(compressed: Any, value: Any) -> Law:
    """Algorithm 1 (and 4), every seed and every number of tries: a geometric series, exactly."""
    randomizer = compressed.randomizer
    messages = randomizer.proposal.draw_messages(compressed.generator.words(randomizer.proposal.word_count))
    chances = executed_acceptance(randomizer, value, messages)
    refused = 1 - sum(chances) / SEEDS
    exhausted = refused**compressed.tries
    accepted = (1 - exhausted) / (1 - refused)
    law = {chance: chance * accepted / SEEDS + exhausted / SEEDS for chance in set(chances)}
    return [law[chance] for chance in chances]


def measured_advantage(randomizer: Any, generator: ToyGenerator, table: Any, inputs: Any) -> float:
    """The largest advantage of the tests of the lemmas and of the total variation: π_x ≥ θ, π_x − π_x' ≥ θ."""
    messages = randomizer.proposal.draw_messages(generator.words(randomizer.proposal.word_count))
    seeds = [executed_acceptance(randomizer, value, messages) for value in inputs]
    every = [executed_acceptance(randomizer, value, table.messages) for value in inputs]
    ratio = Fraction(randomizer.proposal.ratio)
    first = executed_acceptance(randomizer, table.inputs[0], table.messages)
    law = [p / (a * ratio) for p, a in zip(table.probabilities[0], first, strict=True)]
    worst = Fraction(0)
    zeros = [Fraction(0)]
    for (a, drawn_a), (b, drawn_b) in product(
        zip(every, seeds, strict=True), [(zeros * len(law), zeros * SEEDS), *zip(every, seeds, strict=True)]
    ):
        ideal = Counter[Fraction]()
        for one, other, p in zip(a, b, law, strict=True):
            ideal[one - other] += p  # type: ignore[assignment]
        drawn = Counter(one - other for one, other in zip(drawn_a, drawn_b, strict=True))
        for level in ideal:
            truth = sum((p for value, p in ideal.items() if value >= level), Fraction(0))
            seen = Fraction(sum(count for value, count in drawn.items() if value >= level), SEEDS)
            worst = max(worst, abs(truth - seen))
    return float(worst) * (1 + 1e-12)
