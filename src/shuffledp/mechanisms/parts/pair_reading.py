"""Users who hold key–value pairs: how the pairs are written, checked and counted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Bools, Floats
from shuffledp.mechanisms.estimate import NORMAL, Estimate, RowTails, Tails
from shuffledp.mechanisms.parts.count_tails import CountTails
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.user_values import UserValues
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

NONE = -1
"""The key of an empty slot."""
USERS_AT_ONCE = 1 << 16
"""Rows worked on at a time, to bound the memory."""


@dataclass(frozen=True)
class KeyValuePairs(UserValues):
    """At most ``most_pairs`` different keys with a number each per user.

    Values are one array of numbers of shape (users, slots, 2): a slot holds a key (0 … keys−1) and its value in
    [−1, 1]. Key −1 marks an empty slot, whose value is ignored. A user's keys are different. From an array of keys
    and one of values: ``numpy.stack([keys, values], axis=-1)``.
    """

    who: str
    keys: int
    most_pairs: int
    probe_pairs: int
    """How many pairs the two inputs of ``probe`` hold."""

    combines_items = True

    def probe(self) -> Array:
        """The same keys, once with the value 1 and once with −1."""
        keys = np.arange(self.probe_pairs, dtype=np.float64)
        return np.stack([np.stack([keys, np.full_like(keys, value)], axis=-1) for value in (1.0, -1.0)])

    def check(self, values: Any) -> Array:
        who, pairs = self.who, _pairs(self.who, values)
        keys, numbers = pairs[..., 0], pairs[..., 1]
        bad = keys[(keys < NONE) | (keys >= self.keys) | (keys != np.floor(keys))]
        if bad.size:
            raise ValueError(
                f"{who}: keys must be whole numbers from 0 to {self.keys - 1}, or -1 for none, got {bad[0]:g}."
            )
        outside = numbers[(np.abs(numbers) > 1) & (keys != NONE)]
        if outside.size:
            raise ValueError(f"{who}: values must be from -1 to 1, got {float(outside[0])!r}.")
        if pairs.shape[1] > 1:
            ordered = np.sort(keys, axis=1)
            twice = ordered[:, 1:][(ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NONE)]
            if twice.size:
                raise ValueError(f"{who}: the keys of a user must be different, got {twice[0]:g} twice in one row.")
        if pairs.shape[1] > self.most_pairs:
            most = int((keys != NONE).sum(axis=1).max())
            if most > self.most_pairs:
                raise ValueError(f"{who}: a user may hold at most {self.most_pairs} of the keys, got {most}.")
        return pairs


@dataclass(frozen=True)
class PairReading(Reading):
    """Estimates, for each key, how many users hold it and the sum of their values: two rows, counts and value sums."""

    keys: int

    def truth(self, values: Array) -> Floats:
        """Counts and value sums."""
        return self.sums(values, power=1)

    def means(self, estimate: Estimate) -> Floats:
        """The mean value of each key: the ratio of both estimates, consistent but not unbiased.

        A key that seems to be held by less than one user is counted as held by one; means stay within [−1, 1].
        """
        counts, sums = estimate.value
        return np.asarray(np.clip(sums / np.maximum(counts, 1.0), -1.0, 1.0))

    @abstractmethod
    def count_tails(self, users: int) -> CountTails:
        """The law of the error of a key's count."""

    def tails(self, users: int) -> Tails:
        """Those of counts and of value sums."""
        return RowTails((self.count_tails(users), NORMAL))

    @abstractmethod
    def covariance(self, sums: Floats) -> Floats:
        """The covariance, per key, of its estimated count and value sum, where value sums are these."""

    def is_told(self, estimate: Estimate, confidence: float) -> Bools:
        """Whether a key's count is so far above 0, and above its error, that something is known of its mean."""
        z = _reach(confidence)
        counts, variance = estimate.value[0], np.maximum(estimate.variance[0], 0.0)
        return np.asarray((counts > 0) & (counts**2 > z**2 * variance), dtype=np.bool_)

    def mean_intervals(self, estimate: Estimate, confidence: float) -> tuple[Floats, Floats]:
        """Confidence intervals of the mean values; all of [−1, 1] where a count is not above its own error.

        Theorem: [Fieller 1954]: the θ for which S − θC, normal with variance Var S − 2θ·Cov + θ²·Var C, may have mean
        0, C and S the estimates of a key's count and value sum. They are an interval where C is so far from 0 that
        C² > z²·Var C; otherwise they are not, and nothing is said of the mean.
        """
        z = _reach(confidence)
        (counts, sums), (of_counts, of_sums) = estimate.value, np.maximum(estimate.variance, 0.0)
        # a·θ² − 2b·θ + c ≤ 0.
        a = counts**2 - z**2 * of_counts
        b = counts * sums - z**2 * self.covariance(sums)
        c = sums**2 - z**2 * of_sums
        told = self.is_told(estimate, confidence)
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        below = np.where(told, a, 1.0)
        low, high = np.where(told, (b - root) / below, -1.0), np.where(told, (b + root) / below, 1.0)
        return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)

    def sums(self, pairs: Array, power: int) -> Floats:
        """Per key, how many hold it, and the sum of their value^power."""
        held = pairs[..., 0] != NONE
        keys = pairs[..., 0][held].astype(np.int64)
        valued = pairs[..., 1][held] ** power
        return np.stack([np.bincount(keys, weights=w, minlength=self.keys) for w in (np.ones(len(keys)), valued)])


def _reach(confidence: float) -> float:
    """How many standard errors an interval reaches to either side."""
    return NormalDist().inv_cdf(0.5 + argument.open_probability("interval", "confidence", confidence, up=True) / 2)


def _pairs(who: str, values: Any) -> Floats:
    array = np.asarray(values)
    if array.dtype == np.bool_:
        raise TypeError(f"{who}: values must be numbers, got booleans.")
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{who}: values must be numbers, got {array.dtype}.")
    if array.ndim != 3 or array.shape[2] != 2:
        raise ValueError(
            f"{who}: expected an array of shape (users, slots, 2) with keys and values, got shape {array.shape}."
        )
    if array.size == 0:
        raise ValueError(f"{who}: expected at least one user and one slot, got shape {array.shape}.")
    numbers = array.astype(np.float64)
    if np.isnan(numbers).any():
        raise ValueError(f"{who}: keys and values must be numbers, got NaN.")
    return numbers


def positive_signs(values: Floats, source: RandomSource) -> NDArray[np.bool_]:
    """For each value v: True (+1) with probability exactly (1 + v)/2, where v is a multiple of 2^-52."""
    return rounding.coins(rounding.units_of_signed(values), source)


def exact_value(value: float) -> Fraction:
    """The value that is executed."""
    units = rounding.units_of_signed(np.array([value]))
    return Fraction(2 * int(units[0]), rounding.WHOLE) - 1


def sets_of_pairs(keys: int, most: int, width: int, *values: float) -> Iterator[Array]:
    """Every set of at most ``most`` pairs with values −1 and 1, then single pairs with each further value."""
    held = [
        zip(own, signs, strict=True)
        for n in range(most + 1)
        for own in combinations(range(keys), n)
        for signs in product((-1.0, 1.0), repeat=n)
    ]
    for pairs in [*held, *([(keys - 1, value)] for value in values)]:
        row = np.tile([float(NONE), 0.0], (width, 1))
        for slot, pair in enumerate(pairs):
            row[slot] = pair
        yield row
