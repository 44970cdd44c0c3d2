"""One query of several: its values among the others', and its estimate from the users who happened to answer it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import NORMAL, Estimate
from shuffledp.mechanisms.parts.count_tails import CountTails
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.user_values import UserValues

LARGEST_WHOLE = 1 << 53
"""Whole numbers up to here survive in a row of floats."""


@dataclass(frozen=True)
class QueryColumn:
    """The values of one query as some numbers of a row, the others of which are other queries' values."""

    who: str
    values: UserValues

    @cached_property
    def probe(self) -> Array:
        return self.values.probe()

    @property
    def width(self) -> int:
        """How many numbers of a row are this query's."""
        return math.prod(self.probe.shape[1:])

    def check(self, number: int, column: Any) -> Array:
        """The column as rows of numbers; a sentence if any value is bad."""
        who = f"{self.who}: query {number}"
        try:
            checked = self.values.check(column)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{who}: {error}") from None
        if checked.shape[1:] != self.probe.shape[1:]:
            expected, got = self.probe.shape[1:], checked.shape[1:]
            raise ValueError(f"{who}: expected values of shape {expected} a user, got {got}.")
        if checked.dtype.kind in "iu" and int(np.abs(checked).max()) > LARGEST_WHOLE:
            raise ValueError(f"{who}: expected values up to 2^53, got {int(np.abs(checked).max())}.")
        return checked.reshape(len(checked), -1)

    def restore(self, rows: Array) -> Array:
        """The inverse of ``check``."""
        shaped = rows.reshape(len(rows), *self.probe.shape[1:])
        if self.probe.dtype.kind in "iu" and rows.dtype.kind == "f" and (np.floor(shaped) != shaped).any():
            return shaped
        return shaped.astype(self.probe.dtype)


@dataclass(frozen=True)
class Query:
    """A randomizer that each user runs with probability ``share``, independently of everything else.

    What its users add up to is counted 1/share times: unbiased for the sum over all users (or for the mean, where
    that is what ``reading`` estimates).
    """

    column: QueryColumn
    reading: Reading
    share: Fraction
    statistic_shape: tuple[int, ...]
    statistic_type: str
    """Of the statistic that ``reading`` adds up: a query that nobody answered has it too."""

    @property
    def blank(self) -> Array:
        """The statistic of no messages."""
        return np.zeros(self.statistic_shape, dtype=self.statistic_type)

    # --- its estimate -----------------------------------------------------------------------------------------

    @cached_property
    def _singles(self) -> list[Floats]:
        return [self.reading.truth(self.column.probe[[k]]) for k in (0, 1)]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the estimate."""
        return self._singles[0].shape

    @cached_property
    def is_mean(self) -> bool:
        """Whether it estimates a mean: then the same users twice give the same."""
        twice = [self.reading.truth(self.column.probe[[k, k]]) for k in (0, 1)]
        return all(np.allclose(both, one) for both, one in zip(twice, self._singles, strict=True))

    @cached_property
    def is_count(self) -> bool:
        """Whether a user adds 0 or 1 to every component."""
        return not self.is_mean and all(np.isin(single, (0.0, 1.0)).all() for single in self._singles)

    def finish(self, statistic: Array, answers: int, users: int) -> Estimate:
        """The estimate from the ``answers`` messages of this query among those of ``users`` users.

        Its variance takes the answers' own and adds what drawing the query adds: (1/π − 1)·Σm², where m is what a user
        adds to the truth. For counts that is the count; otherwise m is taken at its largest, unless the messages tell
        the mean square of what they add: that is m² and the answers' own variance, which is known.
        """
        if answers == 0:
            return Estimate(np.zeros(self.shape), np.full(self.shape, np.inf), users)
        found = self.reading.finish(np.asarray(statistic).reshape(self.statistic_shape), answers)
        share = float(self.share)
        scale = answers / (share * users) if self.is_mean else 1 / share
        value = found.value * scale
        if self.is_mean:
            squares = self.reading.mean_square(np.asarray(statistic).reshape(self.statistic_shape), answers)
            spread = found.variance * answers
            return Estimate(value, (spread / share + (1 / share - 1) * self._own(found, squares)) / users, users)
        own = np.clip(value, 0.0, users) if self.is_count else np.full(self.shape, users * self._most**2)
        tails = found.tails.thinned(share, answers, users) if isinstance(found.tails, CountTails) else NORMAL
        return Estimate(value, found.variance * scale**2 + (1 / share - 1) * own, users, tails)

    def _own(self, found: Estimate, squares: Floats | None) -> Floats:
        """The mean of m² over users who answered, as far as the mean ``squares`` of what their messages add tell it.

        It is between the square of their mean and that of the largest number; what is not told is taken as the latter.
        """
        least, most = np.clip(found.value, -self._most, self._most) ** 2, np.full(self.shape, self._most**2)
        if squares is None:
            return most
        return np.asarray(np.clip(squares.reshape(self.shape) - found.variance * found.users, least, most))

    @cached_property
    def _most(self) -> float:
        """The largest number that a user may add, in size."""
        return max(float(np.abs(single).max()) for single in self._singles)

    def sways(self, messages: float) -> list[Sway] | None:
        """What messages that are all answers to this query can add: 1/share times what they add to its reading."""
        found = self.reading.sways(1)
        return None if found is None else [sway.times(messages / float(self.share)) for sway in found]

    def truth(self, column: Array) -> Floats:
        return self.reading.truth(column).reshape(-1)

    def variance(self, column: Array) -> Floats:
        """Exact: a user adds E/π with probability π, where E has mean m: variance (Var E)/π + (1/π − 1)·m²."""
        share, users = float(self.share), len(column)
        drawing = self._squares(column) / (users**2 if self.is_mean else 1)
        return (self.reading.variance(column).reshape(-1)) / share + (1 / share - 1) * drawing

    def _squares(self, column: Array) -> Floats:
        """Σm² over the users."""
        if self.is_count:
            return self.truth(column)
        kinds, times = np.unique(column.reshape(len(column), -1), axis=0, return_counts=True)
        singles = [self.truth(self.column.restore(kind[None, :])) for kind in kinds]
        return np.asarray(times @ np.square(singles))
