"""PCKV-GRR: one pair of a padded set of key–value pairs, by randomized response on keys and signs.

The file also holds the input domain of key–value pairs and the estimator that all key–value mechanisms share.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.types import Array, Bools, Floats, Integers
from shuffledp.mechanisms.base.count_intervals import CountErrorLaw
from shuffledp.mechanisms.base.domain import InputDomain
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import NORMAL, ErrorLaw, Estimate, Estimator, Influence, RowwiseErrorLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.numerics.intervals import to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, exact_pair
from shuffledp.sampling import rounding
from shuffledp.sampling.random_sources import RandomSource

# --- Key–value pairs: input domain and estimator ---


EMPTY_KEY = -1
"""Key of an empty slot."""
MAX_BLOCK_USERS = 1 << 16
"""Number of rows processed at a time, to bound the memory."""


@dataclass(frozen=True)
class KeyValuePairs(InputDomain):
    """At most ``max_pairs`` different keys with a number each per user.

    Values are one array of numbers of shape (users, slots, 2): a slot holds a key (0 … keys−1) and its value in [−1,
    1]. Key −1 marks an empty slot, whose value is ignored. A user's keys are different. From an array of keys and one
    of values: ``numpy.stack([keys, values], axis=-1)``.
    """

    error_prefix: str
    keys: int
    max_pairs: int
    audit_pair_size: int
    """Number of pairs of the two inputs of ``audit_pair``."""

    is_combinatorial = True

    def audit_pair(self) -> Array:
        """Returns the same keys, once with the value 1 and once with −1."""
        keys = np.arange(self.audit_pair_size, dtype=np.float64)
        return np.stack([np.stack([keys, np.full_like(keys, value)], axis=-1) for value in (1.0, -1.0)])

    def check(self, values: Any) -> Array:
        who, pairs = self.error_prefix, _check_pairs(self.error_prefix, values)
        keys, numbers = pairs[..., 0], pairs[..., 1]
        bad = keys[(keys < EMPTY_KEY) | (keys >= self.keys) | (keys != np.floor(keys))]
        if bad.size:
            raise ValueError(
                f"{who}: keys must be whole numbers from 0 to {self.keys - 1}, or -1 for none, got {bad[0]:g}."
            )
        outside = numbers[(np.abs(numbers) > 1) & (keys != EMPTY_KEY)]
        if outside.size:
            raise ValueError(f"{who}: values must be from -1 to 1, got {float(outside[0])!r}.")
        if pairs.shape[1] > 1:
            ordered = np.sort(keys, axis=1)
            twice = ordered[:, 1:][(ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != EMPTY_KEY)]
            if twice.size:
                raise ValueError(f"{who}: the keys of a user must be different, got {twice[0]:g} twice in one row.")
        if pairs.shape[1] > self.max_pairs:
            most = int((keys != EMPTY_KEY).sum(axis=1).max())
            if most > self.max_pairs:
                raise ValueError(f"{who}: a user may hold at most {self.max_pairs} of the keys, got {most}.")
        return pairs


@dataclass(frozen=True)
class KeyValueEstimator(Estimator):
    """Estimates, for each key, the number of users who hold it and the sum of their values, in two rows."""

    keys: int

    def truth(self, values: Array) -> Floats:
        """Returns counts and value sums."""
        return self.sums(values, power=1)

    def means(self, estimate: Estimate) -> Floats:
        """Returns the mean value of each key: the ratio of both estimates, consistent but not unbiased.

        A count below 1 is taken as 1; means stay within [−1, 1].
        """
        counts, sums = estimate.value
        return np.asarray(np.clip(sums / np.maximum(counts, 1.0), -1.0, 1.0))

    @abstractmethod
    def count_error_law(self, users: int) -> CountErrorLaw:
        """Returns the law of the error of a key's count."""

    def error_law(self, users: int) -> ErrorLaw:
        """Returns the tails of counts and of value sums."""
        return RowwiseErrorLaw((self.count_error_law(users), NORMAL))

    @abstractmethod
    def covariance(self, sums: Floats) -> Floats:
        """Returns the covariance, per key, of its estimated count and value sum, given the value sums."""

    def has_mean_interval(self, estimate: Estimate, confidence: float) -> Bools:
        """Returns, per key, whether its count is significantly above 0, so that an interval of its mean exists."""
        z = _critical_value(confidence)
        counts, variance = estimate.value[0], np.maximum(estimate.variance[0], 0.0)
        return np.asarray((counts > 0) & (counts**2 > z**2 * variance), dtype=np.bool_)

    def mean_intervals(self, estimate: Estimate, confidence: float) -> tuple[Floats, Floats]:
        """Returns confidence intervals of the mean values; all of [−1, 1] where a count is not above its own error.

        Theorem: [Fieller 1954]: the θ for which S − θC, normal with variance Var S − 2θ·Cov + θ²·Var C, may have mean
        0, C and S the estimates of a key's count and value sum. They are an interval where C is so far from 0 that
        C² > z²·Var C; otherwise they are not, and nothing is said of the mean.
        """
        z = _critical_value(confidence)
        (counts, sums), (of_counts, of_sums) = estimate.value, np.maximum(estimate.variance, 0.0)
        # The interval is a·θ² − 2b·θ + c ≤ 0.
        a = counts**2 - z**2 * of_counts
        b = counts * sums - z**2 * self.covariance(sums)
        c = sums**2 - z**2 * of_sums
        told = self.has_mean_interval(estimate, confidence)
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        below = np.where(told, a, 1.0)
        low, high = np.where(told, (b - root) / below, -1.0), np.where(told, (b + root) / below, 1.0)
        return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)

    def sums(self, pairs: Array, power: int) -> Floats:
        """Returns, per key, the number of holders and the sum of their value^power."""
        held = pairs[..., 0] != EMPTY_KEY
        keys = pairs[..., 0][held].astype(np.int64)
        valued = pairs[..., 1][held] ** power
        return np.stack([np.bincount(keys, weights=w, minlength=self.keys) for w in (np.ones(len(keys)), valued)])


def _critical_value(confidence: float) -> float:
    """Returns the number of standard errors that an interval reaches to either side."""
    return NormalDist().inv_cdf(0.5 + validation.open_probability("interval", "confidence", confidence, up=True) / 2)


def _check_pairs(who: str, values: Any) -> Floats:
    """Returns the values as floats; raises TypeError or ValueError if they are not an array of key–value pairs."""
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


def draw_positive_signs(values: Floats, source: RandomSource) -> NDArray[np.bool_]:
    """Draws, for each value v, True (+1) with probability exactly (1 + v)/2, where v is a multiple of 2^-52."""
    return rounding.coins(rounding.signed_to_units(values), source)


def exact_value(value: float) -> Fraction:
    """Returns the value as executed, a multiple of 2^-52."""
    units = rounding.signed_to_units(np.array([value]))
    return Fraction(2 * int(units[0]), rounding.RANGE_UNITS) - 1


def iterate_pair_sets(keys: int, most: int, width: int, *values: float) -> Iterator[Array]:
    """Yields every set of at most ``most`` pairs with values −1 and 1, then single pairs with each further value."""
    held = [
        zip(own, signs, strict=True)
        for n in range(most + 1)
        for own in combinations(range(keys), n)
        for signs in product((-1.0, 1.0), repeat=n)
    ]
    for pairs in [*held, *([(keys - 1, value)] for value in values)]:
        row = np.tile([float(EMPTY_KEY), 0.0], (width, 1))
        for slot, pair in enumerate(pairs):
            row[slot] = pair
        yield row


@dataclass(frozen=True)
class PCKV(Mechanism):
    """Pads the pairs to ℓ, draws one, rounds its value to a sign; sends this key and sign, or uniform ones (PCKV-GRR).

    A user with fewer than ℓ = ``padding`` pairs adds dummy keys, each with a random sign. The draw is exactly uniform;
    the value, as a multiple of 2^-52, is rounded exactly and without bias. With probability γ the message is uniform on
    all pairs of a sign and one of the d' = keys + ℓ keys instead: γ = 2d'/(ℓ(e^ε−1) + 2d'), rounded up to a multiple of
    2^-64. A given pair is drawn with probability 1/ℓ, so the ratio 1 + 2d'(1−γ)/(ℓγ) is at most e^ε. The message is the
    number 2·key + sign.

    Theorem: [VR] Table 1, PCKV-GRR: p = q = e^ε, β = ℓ(e^ε−1)/(ℓe^ε + 2d' − ℓ).
    Deviates: "keep the key with probability a, then the sign, else another key and a random sign" is the same law,
    written as a uniform message or the true one. A user with m < ℓ pairs pads with the dummy keys numbered m … ℓ−1,
    not with random ones. q_common = q: a third user may be far from two who agree.

    Args:
        epsilon: Local ε of every message.
        keys: Number of keys, numbered from 0; a value is a row of pairs (key, number from −1 to 1), where the key −1
            marks an empty slot.
        padding: Largest number of pairs ℓ that a user may hold. Users with more are refused, as their estimates would
            be biased; a larger ℓ adds noise.

    Raises:
        ValueError: If a parameter is out of range, or ``padding`` exceeds ``keys``.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PCKV(epsilon=2.0, keys=20, padding=2)
    >>> mechanism.message_bits
    6
    >>> counts, sums = mechanism.truth([[(0, 0.5), (7, -1.0)], [(7, -0.5), (-1, 0.0)]])
    >>> counts[[0, 7]].tolist(), sums[[0, 7]].tolist()
    ([1.0, 2.0], [0.5, -1.5])
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0594'
    """

    epsilon: float
    keys: int
    padding: int

    name = "pckv"
    task = "key-value"
    summary = "one of a user's key–value pairs, padded to a fixed number: its key and sign, or uniform ones"
    use_case = "For key–value pairs of a fixed number of keys, with a local ε."
    aliases = ("pckv-grr",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.positive_finite("PCKV", "epsilon", self.epsilon))
        object.__setattr__(self, "keys", validation.count("PCKV", "keys", self.keys))
        object.__setattr__(self, "padding", validation.count("PCKV", "padding", self.padding))
        if self.padding > self.keys:
            raise ValueError(f"PCKV: padding must be at most keys = {self.keys}, got {self.padding}.")
        if self.keys > 1 << 60:
            raise ValueError(f"PCKV: keys must be at most 2^60, got {self.keys}.")
        _ = self.response

    @property
    def outputs(self) -> int:
        """2d', keys and dummy keys with two signs each."""
        return 2 * (self.keys + self.padding)

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The law of a user with ℓ pairs of values ±1: uniform on all messages, or on their own ℓ."""
        return TwoLevelResponse("PCKV", self.epsilon, Fraction(self.padding, self.outputs))

    @cached_property
    def domain(self) -> KeyValuePairs:
        return KeyValuePairs("PCKV", self.keys, max_pairs=self.padding, audit_pair_size=self.padding)

    @cached_property
    def law(self) -> TwoLevelLaw:
        """The law for two users with the same ℓ keys and opposite signs.

        Every message is avoided by some user, so the blanket is the uniform law with mass γ. Every user's own part is
        an average of uniform laws on ℓ messages (random signs and dummies included), and for a fixed blanket the
        divergence is convex in user 1's two laws; of two sets of ℓ messages, disjoint ones hide worst
        (TwoLevelResponse)."""
        return TwoLevelLaw(self.response, self.response.share, attack_pairs=(self._attack(),), tight=True)

    def _attack(self) -> HidingPair:
        """Returns the same two users where all others hold nothing and send dummy keys."""
        chance = self.response.uniform_share / self.outputs
        drawn, own, dummies = 1 - self.response.uniform_share, self.padding * chance, 2 * self.padding * chance
        rest = 2 * (self.keys - self.padding) * chance
        classes = [(own + drawn, own, own), (own, own + drawn, own), (dummies, dummies, dummies + drawn)]
        exact = [(to_rational(a), to_rational(b), to_rational(h)) for a, b, h in [*classes, (rest, rest, rest)]]
        return exact_pair(exact, symmetric=True)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("PCKV", self.outputs)

    @cached_property
    def estimator(self) -> PaddedCountEstimator:
        return PaddedCountEstimator(self.keys, self.padding, self.response.uniform_share)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one key with a sign per user.

        Args:
            values: Checked pairs, an array of shape (users, slots, 2).
            source: Source of randomness.

        Returns:
            One message 2·key + sign per user.
        """
        parts = range(0, len(values), MAX_BLOCK_USERS)
        return np.concatenate([self._randomize(values[start : start + MAX_BLOCK_USERS], source) for start in parts])

    def _randomize(self, pairs: Array, source: RandomSource) -> Integers:
        held = pairs[..., 0] != EMPTY_KEY
        holds = held.sum(axis=1)
        place = source.integers_below(self.padding, len(pairs))
        # The slot of the drawn pair is where the number of held pairs so far reaches its index.
        own = held & (np.cumsum(held, axis=1, dtype=np.int32) == (place + 1)[:, None])
        slot = np.argmax(own, axis=1)
        key, value = pairs[np.arange(len(pairs)), slot].T
        dummy = place >= holds
        key = np.where(dummy, self.keys + place, key.astype(np.int64))
        truth = 2 * key + draw_positive_signs(np.where(dummy, 0.0, value), source)
        lies = source.coins(self.response.uniform_share, len(pairs))
        return np.where(lies, source.integers_below(self.outputs, len(pairs)), truth)

    def table(self) -> OutputTable:
        inputs = np.stack(list(iterate_pair_sets(self.keys, self.padding, self.padding, 0.375)))
        return OutputTable(inputs, np.arange(self.outputs), tuple(self.law_of(row) for row in inputs))

    def law_of(self, pairs: Array) -> tuple[Fraction, ...]:
        """Returns the exact law of one user's message.

        Args:
            pairs: Checked pairs of the user, an array of shape (slots, 2).

        Returns:
            The probability of each message.
        """
        held = [(int(key), exact_value(value)) for key, value in pairs if key != EMPTY_KEY]
        held += [(self.keys + place, Fraction(0)) for place in range(len(held), self.padding)]
        gamma = self.response.uniform_share
        law = [gamma / self.outputs] * self.outputs
        for key, value in held:
            for sign in (0, 1):
                law[2 * key + sign] += (1 - gamma) / self.padding * (1 + (2 * sign - 1) * value) / 2
        return tuple(law)

    @classmethod
    def examples(cls) -> Sequence[PCKV]:
        return [
            cls(epsilon=1.0, keys=1, padding=1),
            cls(epsilon=0.5, keys=3, padding=1),
            cls(epsilon=2.0, keys=2, padding=2),
        ]


@dataclass(frozen=True)
class PaddedCountEstimator(KeyValueEstimator):
    """Estimates from counts of keys with a sign; each of a user's pairs is drawn with probability (1 − γ)/ℓ."""

    padding: int
    """ℓ, the number of pairs after padding."""
    uniform_share: Fraction
    """γ, the probability of a uniform message."""

    @property
    def outputs(self) -> int:
        """2d', the number of messages."""
        return 2 * (self.keys + self.padding)

    def accumulate(self, messages: Array) -> Array:
        """Returns, for each key, how many messages have it with sign − and with sign +."""
        return np.bincount(messages, minlength=self.outputs).reshape(-1, 2)[: self.keys].T

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns ℓ(n₊ + n₋ − 2nγ/2d')/(1−γ) and ℓ(n₊ − n₋)/(1−γ).

        The variance of a value sum omits −Σv², which is at most the count: it errs on the safe side.
        """
        minus, plus = np.asarray(total, dtype=np.float64)
        counts = self._scale * (minus + plus - users * self._false_key_probability)
        held = np.clip(counts, 0.0, users)
        own = self._false_key_probability + 1 / self._scale
        spread = held * own * (1 - own) + (users - held) * self._false_key_probability * (
            1 - self._false_key_probability
        )
        variance = self._scale**2 * np.stack([spread, minus + plus])
        return Estimate(np.stack([counts, self._scale * (plus - minus)]), variance, users, self.error_law(users))

    def count_error_law(self, users: int) -> CountErrorLaw:
        """Returns the tails of a count: a message has a given key, with either sign, or not."""
        chances = self._false_key_probability + 1 / self._scale, self._false_key_probability
        spread = [self._scale**2 * p * (1 - p) for p in chances]
        third = [self._scale**3 * p * (1 - p) * (1 - 2 * p) for p in chances]
        return CountErrorLaw.from_users(
            users, spread, third, self._scale, -users * self._scale * self._false_key_probability
        )

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose messages all have one key with one sign, or all a dummy key."""
        most, chance = messages * self._scale, self._scale * self._false_key_probability
        return Influence(-chance, most - chance), Influence(-most, most, -1.0, 1.0)

    def variance(self, values: Array) -> Floats:
        # In units of the estimate.
        held, squares = self.sums(values, 2)
        chance = self._scale * self._false_key_probability
        reported = self._scale * (held + len(values) * chance)
        wasted = (2 * chance + 1) * held + len(values) * chance**2
        return np.stack([reported - wasted, reported - squares])

    def covariance(self, sums: Floats) -> Floats:
        """Returns Σv·(ℓ/(1−γ)·(1 − r) − 1), r the probability of a key that was not drawn."""
        return (self._scale * (1 - self._false_key_probability) - 1) * sums

    @property
    def _scale(self) -> float:
        """ℓ/(1−γ), the value of one report."""
        return float(self.padding / (1 - self.uniform_share))

    @property
    def _false_key_probability(self) -> float:
        """The probability that a message has a given key that was not drawn."""
        return float(2 * self.uniform_share / self.outputs)
