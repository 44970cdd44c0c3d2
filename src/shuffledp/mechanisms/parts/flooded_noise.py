"""Two counts that tell only their difference: geometric noise on each, and pairs that flood both alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from flint import arb

from shuffledp.array import Floats, Integers
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import precision, rational, round_up
from shuffledp.numerics.two_losses import UNIT, LossAtoms, excess, lost
from shuffledp.privacy.own_loss import Facts, OwnLoss

BITS = 256
LEFT_OUT = 2.0**-140
"""What is left out of a law whose values are told one by one counts as infinite."""
LEFT_OUT_OF_A_TABLE = 2.0**-66
MOST_VALUES = 1 << 20
MOST_PRODUCTS = 4e9
"""A table of two counts that takes more work is not made."""
BIN_WIDTH, BINS, AT_ONCE = 2.0**-16, 1 << 21, 1 << 20
"""Losses of such a table are told to this width, up to ±32, so many at a time."""
ROUNDED = 2.0**-46
"""More than a ball of this many bits, rounded to a float, is off; relative for masses, absolute for logarithms."""
SMALLEST = 1e-300


@dataclass(frozen=True)
class FloodedNoise:
    """The noise of one option: X + F messages for it and Y + F against it.

    X and Y are negative binomial of shape ``share`` and ratio q = e^−rate, F of shape ``share``·``shape`` and ratio
    ``ratio``, all independent. ``share`` is 1 where all who were to add noise did; X and Y are then geometric.
    """

    rate: float
    shape: float
    ratio: float
    share: Fraction = Fraction(1)

    def losses(self) -> tuple[LossAtoms, LossAtoms]:
        """The privacy loss where one message for the option is taken away, and where it is added."""
        return _geometric_losses(self) if self.share == 1 else _table_losses(self)

    def shape_ball(self) -> arb:
        """The shape of F."""
        return arb(rational(Fraction(self.shape) * self.share))

    def ratio_ball(self) -> arb:
        return arb(rational(self.ratio))

    def geometric_ball(self) -> arb:
        """q."""
        return (-arb(rational(self.rate))).exp()


def _flood(noise: FloodedNoise) -> Iterator[arb]:
    """The probabilities of F = 0, 1, …"""
    shape, ratio = noise.shape_ball(), noise.ratio_ball()
    chance, count = (shape * (1 - ratio).log()).exp(), 0
    while True:
        yield chance
        chance = chance * ratio * (shape + count) / (count + 1)
        count += 1


@lru_cache(maxsize=64)
def _geometric_losses(noise: FloodedNoise) -> tuple[LossAtoms, LossAtoms]:
    """Where X and Y are geometric the loss depends on one number only.

    Theorem: P(U = u, V = v) = (1−q)²·q^|u−v|·T(min(u, v)), T(m) = Σ_f P(F=f)·q^(2(m−f)). A message taken away from U
    has the loss b where it was not the smaller count, with probability 1/(1+q), and −b − log(T(u)/T(u−1)) with
    probability (1−q)·q·T(u−1) for each u ≥ 1. A message added has −b with probability q/(1+q), b + log(T(u)/T(u−1))
    with probability (1−q)·T(u) for each u ≥ 1, and infinity with (1−q)·T(0).
    """
    with precision(BITS):
        q, b = noise.geometric_ball(), arb(rational(noise.rate))
        square, rest, before = q * q, 1 - q / (1 + q), arb(0)
        ratios, chances = [], []
        for chance in _flood(noise):
            now = chance + square * before
            ratios.append(now / before if before > 0 else None)
            chances.append((1 - q) * now)
            rest = rest - chances[-1]
            before = now
            if rest < LEFT_OUT:
                break
            if len(chances) > MOST_VALUES:
                raise NotApplicable("own-noise", f"the flood's ratio {noise.ratio!r} is too near to 1.")
        steps = np.array([float(b + ratio.log()) for ratio in ratios[1:] if ratio is not None])
        masses = np.array([float(chance) for chance in chances])
        left, nothing = round_up(rest) + SMALLEST * len(masses), -round_up(-chances[0])
        even, odd = float(1 / (1 + q)), float(q / (1 + q))
        taken = LossAtoms(
            np.append(noise.rate, -steps), np.append(even, float(q) * masses[:-1]),
            infinite=left + float(masses[-1]), surely=0.0, doubt=ROUNDED,
        )  # fmt: skip
        added = LossAtoms(
            np.append(-noise.rate, steps), np.append(odd, masses[1:]),
            infinite=left + round_up(chances[0]), surely=max(0.0, nothing), doubt=ROUNDED,
        )  # fmt: skip
    return taken, added


@lru_cache(maxsize=16)
def _table_losses(noise: FloodedNoise) -> tuple[LossAtoms, LossAtoms]:
    """The same for any share, from a table of the two counts in floats.

    All numbers are sums of products of positive floats, so that each is off by at most the number of operations times
    2^-53, relatively. What is cut off the three laws is counted as infinite: with P' ≤ P and Q' ≤ Q,
    (P − e^ε·Q)₊ ≤ (P' − e^ε·Q')₊ + (P − P').
    """
    with precision(BITS):
        single, cut_single = _floats(_negative_binomial(noise))
        flood, cut_flood = _floats(_flood(noise))
    if len(single) ** 2 * len(flood) > MOST_PRODUCTS:
        raise NotApplicable("own-noise", "so few of those who were to add noise are not accounted for at this size.")
    cut = 2 * cut_single + cut_flood
    doubt = 8 * (len(flood) + 2 * len(single) + 16) * UNIT
    taken, added = LossBins(), LossBins()
    for before, now in _shifted(single, flood):
        taken.add(before, now)
        added.add(now, before)
    return taken.atoms(cut, doubt), added.atoms(cut, doubt)


def _shifted(single: Floats, flood: Floats) -> Iterator[tuple[Floats, Floats]]:
    """P(U = u−1, V = v) and P(U = u, V = v) for all u ≥ 0 and v, by their distance.

    With d = |u − v| and m the smaller of them, P(u, v) = Σ_f P(F = f)·g(m−f)·g(m−f+d); the law is symmetric.
    """
    far, width = len(single), len(flood) + len(single)
    near = np.zeros(width)
    for distance in range(-1, far + 1):
        products = single[: max(0, far - distance - 1)] * single[distance + 1 :]
        further = np.zeros(width)
        if len(products):
            further[: len(flood) + len(products) - 1] = np.convolve(flood, products)
        if distance >= 0:
            # v = u + distance: the shifted count is one further away, its smaller count one less.
            yield np.concatenate([[0.0], further[:-1]]), near
            # u = v + distance + 1: the shifted count is one nearer.
            yield near, further
        near = further


class LossBins:
    """The loss of one law against another, gathered in bins of a small width: told by its middle, in doubt by half."""

    def __init__(self) -> None:
        self.masses: Floats = np.zeros(2 * BINS)
        self.infinite = self.surely = 0.0
        self.waiting: list[tuple[Integers, Floats]] = []

    def add(self, first: Floats, second: Floats) -> None:
        """Points with these chances under either law."""
        there = first > SMALLEST
        both = there & (second > SMALLEST)
        self.surely += float(first[there & (second == 0)].sum())
        chances = first[both]
        places = np.floor(np.log(chances / second[both]) / BIN_WIDTH).astype(np.int64) + BINS
        inside = (places >= 0) & (places < 2 * BINS)
        # What is in no bin, or too little to be told, counts as infinite.
        self.infinite += float(first[there & ~both].sum()) + float(chances[~inside].sum()) + SMALLEST * first.size
        self.waiting.append((places[inside], chances[inside]))
        if sum(len(chances) for _, chances in self.waiting) > AT_ONCE:
            self._gather()

    def _gather(self) -> None:
        places, chances = (np.concatenate(part) for part in zip(*self.waiting, strict=True))
        self.masses += np.bincount(places, weights=chances, minlength=2 * BINS)
        self.waiting = []

    def atoms(self, cut: float, doubt: float) -> LossAtoms:
        """All that was added; ``cut`` is missing of either law, and each chance is off by at most ``doubt`` of it."""
        if self.waiting:
            self._gather()
        held = np.flatnonzero(self.masses)
        values = np.asarray((held - BINS + 0.5) * BIN_WIDTH, dtype=np.float64)
        surely = max(0.0, self.surely * (1 - 2 * doubt) - cut)
        infinite = self.infinite * (1 + 2 * doubt) + cut
        return LossAtoms(values, self.masses[held], infinite, surely, 4 * doubt + ROUNDED + BIN_WIDTH / 2)


def _negative_binomial(noise: FloodedNoise) -> Iterator[arb]:
    """The probabilities of X = 0, 1, …"""
    shape, ratio = arb(rational(noise.share)), noise.geometric_ball()
    chance, count = (shape * (1 - ratio).log()).exp(), 0
    while True:
        yield chance
        chance = chance * ratio * (shape + count) / (count + 1)
        count += 1


def _floats(chances: Iterator[arb]) -> tuple[Floats, float]:
    """A law's probabilities as floats, as far as they count, and a bound of the rest."""
    rest, found = arb(1), []
    for chance in chances:
        found.append(float(chance))
        rest = rest - chance
        if rest < LEFT_OUT_OF_A_TABLE or len(found) > MOST_VALUES:
            break
    return np.array(found), max(0.0, round_up(rest))


@dataclass(frozen=True)
class FloodedLoss(OwnLoss):
    """What all messages tell of one user's option, or of her yes or no (``single``)."""

    noise: FloodedNoise
    single: bool = False

    @property
    def theorem(self) -> str:
        return "exact law of cancelling noise [GKMPS21, loss ours]"

    @property
    def attained(self) -> bool:
        return True

    @cached_property
    def _laws(self) -> tuple[LossAtoms, LossAtoms]:
        return self.noise.losses()

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        taken, added = self._laws
        if not self.single:
            # One option loses a message and another gains one; the other direction is the same.
            return excess(taken, added, epsilons)
        ways = [lost(law, epsilons) for law in (taken, added)]
        return np.maximum(ways[0][0], ways[1][0]), np.maximum(ways[0][1], ways[1][1])

    def deviation(self) -> float:
        return self.noise.rate * (1.0 if self.single else math.sqrt(2.0))

    def facts(self) -> Facts | None:
        if self.single:
            return None
        noise = self.noise
        numbers = {"rate": noise.rate, "shape": noise.shape, "ratio": noise.ratio}
        exact = {name: Fraction(number) for name, number in numbers.items()}
        return {"kind": "cancelling", **exact, "share": noise.share}
