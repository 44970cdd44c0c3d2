"""Signs of a few coefficients in a public frame."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpq

from shuffledp import argument
from shuffledp.array import Array, Bytes, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.mean_tails import MeanTails
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.unit_ball import NUMBERS_AT_ONCE, UnitBall, checked_settings
from shuffledp.mechanisms.parts.wire import Mask, Wire
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.sampling import rounding
from shuffledp.sampling.frame import HadamardFrame
from shuffledp.sampling.random import RandomSource

MOST_SIGNS = 24
MOST_MESSAGES_OF_A_TABLE = 1000


@dataclass(frozen=True)
class SmallCoefficients:
    """A vector's coefficients in the frame, all of size at most ``limit`` = level/√N."""

    frame: HadamardFrame
    level: float

    @property
    def limit(self) -> float:
        """c: the size of a rounded coefficient."""
        return self.level / math.sqrt(self.frame.size)

    def coefficients(self, vectors: Floats) -> Floats:
        """The vectors' coefficients as shares of the limit, from −1 to 1."""
        found, within = self.frame.small_coefficients(vectors, self.limit)
        if not within.all():
            row = int(np.argmin(within))
            raise ValueError(
                f"SQKR: vector {row} cannot be written with coefficients within level {self.level:g}; "
                "raise level or choose another frame."
            )
        return np.clip(found / self.limit, -1.0, 1.0)


@dataclass(frozen=True)
class SignedPlacesWire(Wire):
    """A message is ``signs`` pairs (coefficient, sign) in ascending order, each a number below 2·``size``."""

    signs: int
    size: int
    who: str = "SQKR"

    @property
    def expected(self) -> str:
        return f"{self.signs} coefficients in ascending order in {self.bits} bits, with zeros beyond them"

    @property
    def pair_bits(self) -> int:
        """Bits of one pair."""
        return self.size.bit_length()

    @property
    def bits(self) -> int:
        return self.signs * self.pair_bits

    def pack(self, messages: Array) -> Bytes:
        places = np.arange(self.pair_bits - 1, -1, -1)
        digits = (np.asarray(messages)[:, :, None] >> places & 1).astype(np.uint8)
        return np.packbits(digits.reshape(len(messages), self.bits), axis=1)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        digits = np.unpackbits(rows, axis=1)
        beyond = digits[:, self.bits :].any(axis=1)
        pairs = digits[:, : self.bits].reshape(len(rows), self.signs, self.pair_bits).astype(np.int64)
        messages = pairs @ (1 << np.arange(self.pair_bits - 1, -1, -1))
        ascending = (np.diff(messages >> 1, axis=1) > 0).all(axis=1)
        return np.asarray(messages), np.asarray(~beyond & ascending)


@dataclass(frozen=True)
class FrameReading(Reading):
    """The mean from signs of coefficients: each reported sign counts for (N/b)·κ·c, κ = 1/(1−γ)."""

    written: SmallCoefficients
    signs: int
    uniform_share: Fraction

    @property
    def scale(self) -> float:
        """What a reported sign counts for: (N/b)·κ·c."""
        return self.written.frame.size / self.signs / float(1 - self.uniform_share) * self.written.limit

    def accumulate(self, messages: Array) -> Array:
        """The sum of the signs reported for each coefficient."""
        counts = np.bincount(np.asarray(messages).reshape(-1), minlength=2 * self.written.frame.size)
        return np.asarray(counts[1::2] - counts[::2])

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean, and its variance from above.

        By ``variance`` it is scale²·b/N and w·(N·x² − |a|²) − x² of each user, where |a| ≥ |x| because UUᵀ = I: at
        most (w·(N−1) − 1)·x². Where that factor is negative all users count as if they held the mean, whose square is
        no more than theirs on average; where it is positive, as if they held 1.
        """
        signs = np.asarray(total, dtype=np.float64)[None, :]
        value = self.written.frame.combine(signs)[0] * (self.scale / users)
        size = self.written.frame.size
        alone, factor = self.scale**2 * self.signs / size, self._pair_weight * (size - 1) - 1
        squares = np.clip(value, -1.0, 1.0) ** 2 if factor < 0 else np.ones_like(value)
        return Estimate(value, (alone + factor * squares) / users, users, self._tails(alone, factor, users))

    def _tails(self, alone: float, factor: float, users: int) -> MeanTails:
        """A message adds b signs to a coordinate, of which one that is turned round moves the sum by 2.

        Of one sign the cube is known; of several it depends on all coefficients.
        """
        sign, known = self.scale / math.sqrt(self.written.frame.size), self.signs == 1
        moments = (alone, factor) if factor < 0 else (alone + factor, 0.0)
        third_slope = -2 * sign**2 if known else None
        return MeanTails.of_messages(users, *moments, third_slope, 2 * sign / users, -self.signs * sign)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """All b signs those of a coordinate's row of the frame, whose entries are all 1/√N in size."""
        most = messages * self.signs * self.scale / math.sqrt(self.written.frame.size)
        return (Sway(-most, most, -1.0, 1.0),)

    @property
    def _pair_weight(self) -> float:
        """The weight of (Σ_{k≠l} U_ik·U_il·a_k·a_l)/N in a message's mean square: scale²·P(k and l reported)·…"""
        size, count = self.written.frame.size, self.signs
        if count == 1:
            return 0.0
        both = count * (count - 1) / (size * (size - 1))
        return self.scale**2 * both * float(1 - self.uniform_share) / self.written.limit**2 / size

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        """From the mean square scale²·(b/N) + w·(N·x_i² − |a|²), w the weight of a pair of coefficients."""
        size = self.written.frame.size
        at_once = max(1, NUMBERS_AT_ONCE // size)
        total = np.zeros(self.written.frame.dimension)
        for start in range(0, len(values), at_once):
            part = values[start : start + at_once]
            lengths = ((self.written.coefficients(part) * self.written.limit) ** 2).sum(axis=1)
            total += (self._pair_weight * (size * part**2 - lengths[:, None]) - part**2).sum(axis=0)
        alone = self.scale**2 * self.signs / size
        return np.asarray((alone + total / len(values)) / len(values))


@dataclass(frozen=True)
class SQKR(Mechanism):
    """The signs of b random coefficients of the vector in a public frame, through randomized response on all 2^b.

    The vector is written with coefficients of size at most c = level/√N (``HadamardFrame``); each is rounded to ±c
    with its value as the mean, by an exact coin after it is rounded to a multiple of 2^-52·c. Which coefficients are
    reported is drawn without looking at them, and is part of the message: b pairs (coefficient, sign), in ascending
    order. With probability γ the signs are uniform. b is by default the one of the smallest error.

    ``epsilon``: the local ε that every message keeps. ``dimension``: d, how many numbers a vector has; its length is at
    most 1. ``signs``: b, how many signs a message tells. ``level``: at least 1; the smaller, the less noise, and the
    harder it is to write a vector with coefficients of that size. ``frame``: the seed of the public frame, the same for
    all users of a collection.

    Theorem: [LC] Appendix C, SQKR: κ = (e^ε+2^b−1)/(e^ε−1) and error about dκ²·level²/b; two-level with s = 2^-b.
    Deviates: the frame is random, as published; public implementations take the first rows, and are biased.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.SQKR(epsilon=4.0, dimension=1000)
    >>> mechanism.signs, mechanism.message_bits
    (4, 48)
    >>> sdp.PrivUnitOptimized(epsilon=4.0, dimension=1000).message_bits
    16000
    """

    epsilon: float
    dimension: int
    signs: int | None = None
    level: float = 2.0
    frame: int = 0

    name = "sqkr"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: the signs of a few random coefficients; the shortest messages"
    take_it = "For vectors in the unit ball in the shortest messages."
    also_called = ("kashin",)

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The least level with which vectors can be written; a larger one adds noise."""
        yield from ({"level": level} for level in (1.5, 2.0, 2.5, 3.0, 4.0))

    def __post_init__(self) -> None:
        epsilon, dimension = checked_settings("SQKR", self.epsilon, self.dimension)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "dimension", dimension)
        object.__setattr__(self, "frame", argument.count("SQKR", "frame", self.frame, at_least=0))
        level = argument.positive_finite("SQKR", "level", self.level)
        if level < 1.0:
            raise ValueError(f"SQKR: level must be at least 1, got {level!r}.")
        object.__setattr__(self, "level", level)
        most = min(MOST_SIGNS, self.public_frame.size)
        chosen = _best_signs(self.epsilon, most) if self.signs is None else argument.count("SQKR", "signs", self.signs)
        if chosen > most:
            raise ValueError(f"SQKR: signs must be at most {most}, got {chosen}.")
        object.__setattr__(self, "signs", chosen)

    @cached_property
    def public_frame(self) -> HadamardFrame:
        return HadamardFrame(self.dimension, self.frame)

    @property
    def sign_count(self) -> int:
        """b, chosen where it was left out."""
        assert self.signs is not None
        return self.signs

    @cached_property
    def region(self) -> OwnRegion:
        """The own set: the right signs, one of 2^b messages for each set of coefficients."""
        return OwnRegion("SQKR", self.epsilon, Fraction(1, 1 << self.sign_count))

    @cached_property
    def written(self) -> SmallCoefficients:
        """Vectors by their coefficients."""
        return SmallCoefficients(self.public_frame, self.level)

    @cached_property
    def values(self) -> UnitBall:
        return UnitBall("SQKR", self.dimension)

    @cached_property
    def law(self) -> RegionLaw:
        return RegionLaw.of_disjoint(self.region, attacked=tuple(self._attacks()))

    @cached_property
    def wire(self) -> SignedPlacesWire:
        return SignedPlacesWire(self.sign_count, self.public_frame.size)

    @cached_property
    def reading(self) -> FrameReading:
        return FrameReading(self.written, self.sign_count, self.region.uniform_share)

    def _attacks(self) -> Iterator[HidingPair]:
        """The first axis against the opposite one, where the others all hold 0, or all hold the first.

        All coefficients of an axis have one size, so that only the number of signs that agree with it counts.
        """
        shares, within = self.public_frame.small_coefficients(self._table_inputs()[:1], self.written.limit)
        size = float(np.abs(shares).max() / self.written.limit)
        if not within.all() or float(np.abs(shares).min() / self.written.limit) != size or size > 1:
            return
        agree = Fraction(int(rounding.units_of_signed(np.array([size]))[0]), rounding.WHOLE)
        first, second, none = (self._agreeing(chance) for chance in (agree, 1 - agree, Fraction(1, 2)))
        yield exact_pair(list(zip(first, second, none, strict=True)), symmetric=True)
        yield exact_pair(list(zip(first, second, first, strict=True)), symmetric=False)

    def _agreeing(self, chance: Fraction) -> list[fmpq]:
        """The law of how many signs agree, each with this chance where the message is not uniform."""
        count, gamma = self.sign_count, self.region.uniform_share
        laws = [
            [math.comb(count, number) * plus**number * (1 - plus) ** (count - number) for number in range(count + 1)]
            for plus in (Fraction(1, 2), chance)
        ]
        return [rational(gamma * fair + (1 - gamma) * own) for fair, own in zip(*laws, strict=True)]

    # --- running it -------------------------------------------------------------------------------------------

    def randomize(self, values: Array, source: RandomSource) -> Array:
        at_once = max(1, NUMBERS_AT_ONCE // self.public_frame.size)
        parts = range(0, len(values), at_once)
        return np.concatenate([self._randomize(values[start : start + at_once], source) for start in parts])

    def _randomize(self, values: Floats, source: RandomSource) -> Array:
        users, count = len(values), self.sign_count
        chosen = self._different_places(source, users)
        shares = np.take_along_axis(self.written.coefficients(values), chosen, axis=1)
        own = rounding.coins(rounding.units_of_signed(shares), source)
        fair = source.below(2, users * count).reshape(users, count).astype(np.bool_)
        uniform = source.coins(self.region.uniform_share, users)[:, None]
        return np.asarray(2 * chosen + np.where(uniform, fair, own))

    def _different_places(self, source: RandomSource, users: int) -> Array:
        """Sets of b coefficients, all equally likely: rows with a repeated number are drawn again."""
        size, count = self.public_frame.size, self.sign_count
        rows = np.empty((users, count), dtype=np.int64)
        left = np.arange(users)
        while left.size:
            rows[left] = np.sort(source.below(size, left.size * count).reshape(left.size, count), axis=1)
            left = left[(np.diff(rows[left], axis=1) == 0).any(axis=1)]
        return rows

    # --- its law ----------------------------------------------------------------------------------------------

    def table(self) -> OutputTable:
        size, count = self.public_frame.size, self.sign_count
        if math.comb(size, count) << count > MOST_MESSAGES_OF_A_TABLE:
            raise ValueError(f"SQKR: a table needs fewer messages, got sets of {count} of {size} coefficients.")
        inputs = self._table_inputs()
        messages = list(_all_messages(size, count))
        rows = []
        for shares in self.written.coefficients(inputs):
            plus = [Fraction(int(unit), rounding.WHOLE) for unit in rounding.units_of_signed(shares)]
            rows.append(tuple(self._chance(plus, message) for message in messages))
        return OutputTable(inputs, np.array(messages), tuple(rows))

    def _chance(self, plus: Sequence[Fraction], message: Sequence[int]) -> Fraction:
        own = math.prod((plus[pair >> 1] if pair & 1 else 1 - plus[pair >> 1] for pair in message), start=Fraction(1))
        share = self.region.uniform_share * self.region.share + (1 - self.region.uniform_share) * own
        return share / math.comb(self.public_frame.size, self.sign_count)

    def _table_inputs(self) -> Array:
        axis = np.zeros(self.dimension)
        axis[0] = 1.0
        mixed = np.resize([0.3, -0.55, 0.125], self.dimension) / math.sqrt(self.dimension)
        return self.check(np.stack([axis, -axis, 0 * axis, mixed]))

    @classmethod
    def examples(cls) -> Sequence[SQKR]:
        return [
            cls(epsilon=1.0, dimension=2),
            cls(epsilon=2.0, dimension=3, signs=1, level=1.5, frame=1),
            cls(epsilon=3.0, dimension=2, signs=2),
        ]


def _best_signs(epsilon: float, most: int) -> int:
    """The b that makes κ²/b least."""
    excess = math.expm1(min(epsilon, 100.0))
    return min(range(1, most + 1), key=lambda count: (1 + 2.0**count / excess) ** 2 / count)


def _all_messages(size: int, count: int) -> Iterator[tuple[int, ...]]:
    for places in itertools.combinations(range(size), count):
        for signs in itertools.product((0, 1), repeat=count):
            yield tuple(2 * place + sign for place, sign in zip(places, signs, strict=True))
