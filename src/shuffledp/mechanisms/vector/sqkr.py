"""SQKR: means of vectors in the unit ball from signs of a few coefficients in a public frame."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpq

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bytes, Floats, checked
from shuffledp.mechanisms.base.encoding import Encoding, ValidRows
from shuffledp.mechanisms.base.error_laws import MeanErrorLaw
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import check_informative_epsilon
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.mechanisms.vector._unit_ball_parts import NUMBERS_AT_ONCE, UnitBall
from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, exact_pair
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.random_sources import RandomSource
from shuffledp.sampling.spherical_caps_and_frames import HadamardFrame

MAX_SIGNS = 24
MAX_TABLE_MESSAGES = 1000


@dataclass(frozen=True)
class FrameCoefficients:
    """Coefficients of vectors in the frame, all of absolute value at most ``limit`` = level/√N."""

    frame: HadamardFrame
    level: float

    @property
    def limit(self) -> float:
        """c, the absolute value of a rounded coefficient."""
        return self.level / math.sqrt(self.frame.size)

    def coefficients(self, vectors: Floats) -> Floats:
        """Returns the vectors' coefficients as shares of the limit, from −1 to 1."""
        coefficients, within = self.frame.small_coefficients(vectors, self.limit)
        if not within.all():
            row = int(np.argmin(within))
            raise ValueError(
                f"SQKR: vector {row} cannot be written with coefficients within level {self.level:g}; "
                "raise level or choose another frame."
            )
        return np.clip(coefficients / self.limit, -1.0, 1.0)


@dataclass(frozen=True)
class SignedCoefficientsEncoding(Encoding):
    """Encodes ``signs`` pairs (coefficient, sign) in ascending order, each a number below 2·``size``."""

    signs: int
    size: int
    error_prefix: str = "SQKR"

    @property
    def expected_format(self) -> str:
        return f"{self.signs} coefficients in ascending order in {self.bits} bits, with zeros beyond them"

    @property
    def pair_bits(self) -> int:
        """Number of bits of one pair."""
        return self.size.bit_length()

    @property
    def bits(self) -> int:
        return self.signs * self.pair_bits

    def pack(self, messages: Array) -> Bytes:
        places = np.arange(self.pair_bits - 1, -1, -1)
        digits = (np.asarray(messages)[:, :, None] >> places & 1).astype(np.uint8)
        return np.packbits(digits.reshape(len(messages), self.bits), axis=1)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        digits = np.unpackbits(rows, axis=1)
        beyond = digits[:, self.bits :].any(axis=1)
        pairs = digits[:, : self.bits].reshape(len(rows), self.signs, self.pair_bits).astype(np.int64)
        messages = pairs @ (1 << np.arange(self.pair_bits - 1, -1, -1))
        ascending = (np.diff(messages >> 1, axis=1) > 0).all(axis=1)
        return np.asarray(messages), np.asarray(~beyond & ascending)


@dataclass(frozen=True)
class FrameEstimator(Estimator):
    """Estimates the mean from signs of coefficients: each reported sign counts for (N/b)·κ·c, κ = 1/(1−γ)."""

    frame_coefficients: FrameCoefficients
    signs: int
    uniform_share: Fraction

    @property
    def scale(self) -> float:
        """The value of a reported sign, (N/b)·κ·c."""
        return (
            self.frame_coefficients.frame.size
            / self.signs
            / float(1 - self.uniform_share)
            * self.frame_coefficients.limit
        )

    def accumulate(self, messages: Array) -> Array:
        """Returns the sum of the signs reported for each coefficient."""
        counts = np.bincount(np.asarray(messages).reshape(-1), minlength=2 * self.frame_coefficients.frame.size)
        return np.asarray(counts[1::2] - counts[::2])

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean and an upper bound of its variance.

        By ``variance`` it is scale²·b/N and w·(N·x² − |a|²) − x² of each user, where |a| ≥ |x| because UUᵀ = I: at most
        (w·(N−1) − 1)·x². If that factor is negative, all users count as if they held the mean, whose square is no more
        than theirs on average; if it is positive, as if they held 1.
        """
        signs = np.asarray(total, dtype=np.float64)[None, :]
        value = self.frame_coefficients.frame.combine(signs)[0] * (self.scale / users)
        size = self.frame_coefficients.frame.size
        alone, factor = self.scale**2 * self.signs / size, self._pair_weight * (size - 1) - 1
        squares = np.clip(value, -1.0, 1.0) ** 2 if factor < 0 else np.ones_like(value)
        return Estimate(value, (alone + factor * squares) / users, users, self._error_law(alone, factor, users))

    def _error_law(self, alone: float, factor: float, users: int) -> MeanErrorLaw:
        """Returns the tails; a message adds b signs to a coordinate, and flipping one moves the sum by 2.

        For one sign the mean cube is known; for several it depends on all coefficients.
        """
        sign, known = self.scale / math.sqrt(self.frame_coefficients.frame.size), self.signs == 1
        moments = (alone, factor) if factor < 0 else (alone + factor, 0.0)
        third_slope = -2 * sign**2 if known else None
        return MeanErrorLaw.from_messages(users, *moments, third_slope, 2 * sign / users, -self.signs * sign)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose b signs are all those of a coordinate's row, of entries ±1/√N."""
        most = messages * self.signs * self.scale / math.sqrt(self.frame_coefficients.frame.size)
        return (Influence(-most, most, -1.0, 1.0),)

    @property
    def _pair_weight(self) -> float:
        """The weight of (Σ_{k≠l} U_ik·U_il·a_k·a_l)/N in a message's mean square."""
        size, count = self.frame_coefficients.frame.size, self.signs
        if count == 1:
            return 0.0
        both = count * (count - 1) / (size * (size - 1))
        return self.scale**2 * both * float(1 - self.uniform_share) / self.frame_coefficients.limit**2 / size

    def truth(self, values: Array) -> Floats:
        return np.asarray(values.mean(axis=0))

    def variance(self, values: Array) -> Floats:
        """Returns the variance by the mean square scale²·(b/N) + w·(N·x_i² − |a|²), w the weight of a pair."""
        size = self.frame_coefficients.frame.size
        at_once = max(1, NUMBERS_AT_ONCE // size)
        total = np.zeros(self.frame_coefficients.frame.dimension)
        for start in range(0, len(values), at_once):
            part = values[start : start + at_once]
            lengths = ((self.frame_coefficients.coefficients(part) * self.frame_coefficients.limit) ** 2).sum(axis=1)
            total += (self._pair_weight * (size * part**2 - lengths[:, None]) - part**2).sum(axis=0)
        alone = self.scale**2 * self.signs / size
        return np.asarray((alone + total / len(values)) / len(values))


@dataclass(frozen=True)
class SQKR(Mechanism):
    """Reports the signs of b random coefficients of the vector in a public frame, by randomized response on all 2^b.

    The vector is written with coefficients of absolute value at most c = level/√N (``HadamardFrame``); each is rounded
    to ±c with its value as the mean, by an exact coin after it is rounded to a multiple of 2^-52·c. The reported
    coefficients are drawn without looking at their values, and are part of the message: b pairs (coefficient, sign), in
    ascending order. With probability γ the signs are uniform.

    Theorem: [LC] Appendix C, SQKR: κ = (e^ε+2^b−1)/(e^ε−1) and error about dκ²·level²/b; two-level with s = 2^-b.
    Deviates: the frame is random, as published; public implementations take the first rows, and are biased.

    Args:
        epsilon: Local ε of every message.
        dimension: Number of coordinates d; a vector's length is at most 1.
        signs: Number of signs b in a message; None for the one with the smallest error.
        level: Bound of the coefficients, at least 1; a smaller one has less noise, but it is harder to write a vector
            with coefficients of that size.
        frame: Seed of the public frame, the same for all users of a collection.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.SQKR(epsilon=4.0, dimension=1000)
    >>> mechanism.signs, mechanism.message_bits
    (4, 48)
    >>> sdp.PrivUnitOptimized(epsilon=4.0, dimension=1000).message_bits
    16000
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    dimension: int = field(metadata=checked(validation.count, at_least=2))
    signs: int | None = None
    level: float = field(default=2.0, metadata=checked(validation.positive_finite))
    frame: int = field(default=0, metadata=checked(validation.count, at_least=0))

    name = "sqkr"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: the signs of a few random coefficients; the shortest messages"
    use_case = "For vectors in the unit ball in the shortest messages."
    aliases = ("kashin",)

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields levels in ascending order: the least with which vectors can be written adds the least noise."""
        yield from ({"level": level} for level in (1.5, 2.0, 2.5, 3.0, 4.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.level < 1.0:
            raise ValueError(f"SQKR: level must be at least 1, got {self.level!r}.")
        most = min(MAX_SIGNS, self.public_frame.size)
        best = _best_signs(self.epsilon, most)
        signs = best if self.signs is None else validation.count("SQKR", "signs", self.signs, at_most=most)
        object.__setattr__(self, "signs", signs)

    @cached_property
    def public_frame(self) -> HadamardFrame:
        """The frame in which vectors are represented."""
        return HadamardFrame(self.dimension, self.frame)

    @property
    def sign_count(self) -> int:
        """b, chosen by the constructor if ``signs`` is None."""
        assert self.signs is not None
        return self.signs

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The true signs, one of 2^b messages for each set of coefficients."""
        return TwoLevelResponse("SQKR", self.epsilon, Fraction(1, 1 << self.sign_count))

    @cached_property
    def frame_coefficients(self) -> FrameCoefficients:
        """Vectors by their coefficients."""
        return FrameCoefficients(self.public_frame, self.level)

    @cached_property
    def domain(self) -> UnitBall:
        return UnitBall("SQKR", self.dimension)

    @cached_property
    def law(self) -> TwoLevelLaw:
        return TwoLevelLaw.from_disjoint(self.response, attacked=tuple(self._build_attacks()))

    @cached_property
    def encoding(self) -> SignedCoefficientsEncoding:
        return SignedCoefficientsEncoding(self.sign_count, self.public_frame.size)

    @cached_property
    def estimator(self) -> FrameEstimator:
        return FrameEstimator(self.frame_coefficients, self.sign_count, self.response.uniform_share)

    def _build_attacks(self) -> Iterator[HidingPair]:
        """Yields the attacks of the first axis against the opposite one, where all others hold 0, or all the first.

        All coefficients of an axis have the same absolute value, so only the number of signs that agree with it
        matters.
        """
        shares, within = self.public_frame.small_coefficients(self._table_inputs()[:1], self.frame_coefficients.limit)
        size = float(np.abs(shares).max() / self.frame_coefficients.limit)
        if not within.all() or float(np.abs(shares).min() / self.frame_coefficients.limit) != size or size > 1:
            return
        agree = Fraction(int(rounding_and_digits.signed_to_units(np.array([size]))[0]), rounding_and_digits.RANGE_UNITS)
        first, second, none = (self._agreement_law(chance) for chance in (agree, 1 - agree, Fraction(1, 2)))
        yield exact_pair(list(zip(first, second, none, strict=True)), symmetric=True)
        yield exact_pair(list(zip(first, second, first, strict=True)), symmetric=False)

    def _agreement_law(self, chance: Fraction) -> list[fmpq]:
        """Returns the law of the number of signs that agree, each with this probability in a non-uniform message."""
        count, gamma = self.sign_count, self.response.uniform_share
        laws = [
            [math.comb(count, number) * plus**number * (1 - plus) ** (count - number) for number in range(count + 1)]
            for plus in (Fraction(1, 2), chance)
        ]
        return [to_rational(gamma * fair + (1 - gamma) * own) for fair, own in zip(*laws, strict=True)]

    # --- encoding ---

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one row of b numbers 2·coefficient + sign per user, in ascending order.

        Raises:
            ValueError: If a vector cannot be written with coefficients within ``level``.
        """
        at_once = max(1, NUMBERS_AT_ONCE // self.public_frame.size)
        parts = range(0, len(values), at_once)
        return np.concatenate([self._randomize(values[start : start + at_once], source) for start in parts])

    def _randomize(self, values: Floats, source: RandomSource) -> Array:
        users, count = len(values), self.sign_count
        chosen = self._draw_distinct_coefficients(source, users)
        shares = np.take_along_axis(self.frame_coefficients.coefficients(values), chosen, axis=1)
        own = rounding_and_digits.coins(rounding_and_digits.signed_to_units(shares), source)
        fair = source.integers_below(2, users * count).reshape(users, count).astype(np.bool_)
        uniform = source.coins(self.response.uniform_share, users)[:, None]
        return np.asarray(2 * chosen + np.where(uniform, fair, own))

    def _draw_distinct_coefficients(self, source: RandomSource, users: int) -> Array:
        """Draws sets of b coefficients, all equally likely: rows with a repeated number are redrawn."""
        size, count = self.public_frame.size, self.sign_count
        rows = np.empty((users, count), dtype=np.int64)
        waiting = np.arange(users)
        while waiting.size:
            drawn = source.integers_below(size, waiting.size * count).reshape(waiting.size, count)
            rows[waiting] = np.sort(drawn, axis=1)
            waiting = waiting[(np.diff(rows[waiting], axis=1) == 0).any(axis=1)]
        return rows

    # --- law ---

    def table(self) -> OutputTable:
        size, count = self.public_frame.size, self.sign_count
        if math.comb(size, count) << count > MAX_TABLE_MESSAGES:
            raise ValueError(f"SQKR: a table needs fewer messages, got sets of {count} of {size} coefficients.")
        inputs = self._table_inputs()
        messages = list(_all_messages(size, count))
        rows = []
        for shares in self.frame_coefficients.coefficients(inputs):
            plus = [
                Fraction(int(unit), rounding_and_digits.RANGE_UNITS)
                for unit in rounding_and_digits.signed_to_units(shares)
            ]
            rows.append(tuple(self._chance(plus, message) for message in messages))
        return OutputTable(inputs, np.array(messages), tuple(rows))

    def _chance(self, plus: Sequence[Fraction], message: Sequence[int]) -> Fraction:
        own = math.prod((plus[pair >> 1] if pair & 1 else 1 - plus[pair >> 1] for pair in message), start=Fraction(1))
        share = self.response.uniform_share * self.response.share + (1 - self.response.uniform_share) * own
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
    """Returns the b that minimizes κ²/b."""
    excess = math.expm1(min(epsilon, 100.0))
    return min(range(1, most + 1), key=lambda count: (1 + 2.0**count / excess) ** 2 / count)


def _all_messages(size: int, count: int) -> Iterator[tuple[int, ...]]:
    for places in itertools.combinations(range(size), count):
        for signs in itertools.product((0, 1), repeat=count):
            yield tuple(2 * place + sign for place, sign in zip(places, signs, strict=True))
