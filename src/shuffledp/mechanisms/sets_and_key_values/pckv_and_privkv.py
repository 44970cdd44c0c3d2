"""Key-value mechanisms: PCKV and PrivKV."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations, islice, product
from typing import Any, NamedTuple

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bools, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import InputDomain
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import CountErrorLaw, sampled_bit_error_law
from shuffledp.mechanisms.base.estimator import NORMAL, ErrorLaw, Estimate, Estimator, Influence, RowwiseErrorLaw
from shuffledp.mechanisms.base.law import Law, check_informative_epsilon, flip_probability
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.numerics.ball_arithmetic import float_above, float_below, to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, ListedOtherUsers, OtherUsers, exact_pair, worst_user_pairs
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.random_sources import RandomSource

# --- Key–value pairs: input domain and estimator ---


EMPTY_KEY = -1
"""Key of an empty slot."""
MAX_KEYS = 1 << 60
MAX_BLOCK_USERS = 1 << 16
"""Number of rows processed at a time, to bound the memory."""


@dataclass(frozen=True)
class KeyValuePairs(InputDomain):
    """At most ``max_pairs`` different keys with a number each per user.

    Values are one array of numbers of shape (users, slots, 2): a slot holds a key (0 … keys−1) and its value in [−1,
    1]. Key −1 marks an empty slot, whose value is ignored. A user's keys are different. An array of keys and one of
    values become such an array by ``numpy.stack([keys, values], axis=-1)``.
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
        invalid = keys[(keys < EMPTY_KEY) | (keys >= self.keys) | (keys != np.floor(keys))]
        if invalid.size:
            raise ValueError(
                f"{who}: keys must be whole numbers from 0 to {self.keys - 1}, or -1 for none, got {invalid[0]:g}."
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
    """Estimator, for each key, of the number of users who hold it and the sum of their values, in two rows."""

    keys: int

    def truth(self, values: Array) -> Floats:
        return self.sums(values, power=1)

    def means(self, estimate: Estimate) -> Floats:
        """Returns the mean value of each key: the ratio of both estimates, consistent but not unbiased.

        A count below 1 is taken as 1; means stay within [−1, 1].
        """
        counts, sums = estimate.value
        return np.asarray(np.clip(sums / np.maximum(counts, 1.0), -1.0, 1.0))

    @abstractmethod
    def count_error_law(self, users: int) -> CountErrorLaw:
        """Returns the error law of a key's count."""

    def error_law(self, users: int) -> ErrorLaw:
        """Returns the error laws of counts and of value sums."""
        return RowwiseErrorLaw((self.count_error_law(users), NORMAL))

    @abstractmethod
    def covariance(self, sums: Floats) -> Floats:
        """Returns the covariance, per key, of its estimated count and value sum, given the value sums."""

    def has_mean_interval(self, estimate: Estimate, confidence: float) -> Bools:
        """Returns True for each key whose count is significantly above 0, so that an interval of its mean exists."""
        z = _critical_value(confidence)
        counts, variance = estimate.value[0], np.maximum(estimate.variance[0], 0.0)
        return np.asarray((counts > 0) & (counts**2 > z**2 * variance), dtype=np.bool_)

    def mean_intervals(self, estimate: Estimate, confidence: float) -> tuple[Floats, Floats]:
        """Returns confidence intervals of the mean values; all of [−1, 1] where a count is not above its own error.

        Theorem: [Fieller 1954]: the θ for which S − θC, normal with variance Var S − 2θ·Cov + θ²·Var C, may have mean
        0, C and S the estimates of a key's count and value sum. They are an interval where C is so far from 0 that
        C² > z²·Var C; otherwise the interval is all of [−1, 1].
        """
        z = _critical_value(confidence)
        (counts, sums), (of_counts, of_sums) = estimate.value, np.maximum(estimate.variance, 0.0)
        # The interval is a·θ² − 2b·θ + c ≤ 0.
        a = counts**2 - z**2 * of_counts
        b = counts * sums - z**2 * self.covariance(sums)
        c = sums**2 - z**2 * of_sums
        exists = self.has_mean_interval(estimate, confidence)
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        divisor = np.where(exists, a, 1.0)
        low, high = np.where(exists, (b - root) / divisor, -1.0), np.where(exists, (b + root) / divisor, 1.0)
        return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)

    def sums(self, pairs: Array, power: int) -> Floats:
        """Returns, per key, the number of holders and the sum of their value^power."""
        held = pairs[..., 0] != EMPTY_KEY
        keys = pairs[..., 0][held].astype(np.int64)
        weights = np.ones(len(keys)), pairs[..., 1][held] ** power
        return np.stack([np.bincount(keys, weights=each, minlength=self.keys) for each in weights])


def _critical_value(confidence: float) -> float:
    """Returns the number of standard errors that an interval reaches to either side."""
    return NORMAL.critical_value(validation.open_probability("interval", "confidence", confidence, up=True))


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


def draw_positive_signs(values: Floats, source: RandomSource) -> Bools:
    """Draws, for each value v, True (+1) with probability exactly (1 + v)/2, where v is a multiple of 2^-52."""
    return rounding_and_digits.coins(rounding_and_digits.signed_to_units(values), source)


def exact_value(value: float) -> Fraction:
    """Returns the value as executed, a multiple of 2^-52."""
    units = rounding_and_digits.signed_to_units(np.array([value]))
    return Fraction(2 * int(units[0]), rounding_and_digits.RANGE_UNITS) - 1


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


def check_key_count(who: str, name: str, number: int, keys: int) -> None:
    """Raises ValueError if the setting ``name`` exceeds the number of keys, or this exceeds ``MAX_KEYS``."""
    if number > keys:
        raise ValueError(f"{who}: {name} must be at most keys = {keys}, got {number}.")
    if keys > MAX_KEYS:
        raise ValueError(f"{who}: keys must be at most 2^60, got {keys}.")


# --- PCKV ---


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
        padding: Largest number of pairs ℓ that a user may hold. Users with more are rejected, as their estimates would
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

    epsilon: float = field(metadata=checked(validation.positive_finite))
    keys: int = field(metadata=checked(validation.count))
    padding: int = field(metadata=checked(validation.count))

    name = "pckv"
    task = "key-value"
    summary = "one of a user's key–value pairs, padded to a fixed number: its key and sign, or uniform ones"
    use_case = "For key–value pairs of a fixed number of keys, with a local ε."
    aliases = ("pckv-grr",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_key_count("PCKV", "padding", self.padding, self.keys)
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
        (TwoLevelResponse).
        """
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
    """Estimator from counts of keys with a sign; each of a user's pairs is drawn with probability (1 − γ)/ℓ."""

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
        held, r = np.clip(counts, 0.0, users), self._false_key_probability
        own = r + 1 / self._scale
        spread = held * own * (1 - own) + (users - held) * r * (1 - r)
        variance = self._scale**2 * np.stack([spread, minus + plus])
        return Estimate(np.stack([counts, self._scale * (plus - minus)]), variance, users, self.error_law(users))

    def count_error_law(self, users: int) -> CountErrorLaw:
        """Returns the law of a count: a message has a given key, with either sign, or not."""
        scale, r = self._scale, self._false_key_probability
        spread = [scale**2 * p * (1 - p) for p in (r + 1 / scale, r)]
        third = [scale**3 * p * (1 - p) * (1 - 2 * p) for p in (r + 1 / scale, r)]
        return CountErrorLaw.from_users(users, spread, third, scale, -users * scale * r)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose messages all have one key with one sign, or all a dummy key."""
        most, chance = messages * self._scale, self._scale * self._false_key_probability
        return Influence(-chance, most - chance), Influence(-most, most, -1.0, 1.0)

    def variance(self, values: Array) -> Floats:
        held, squares = self.sums(values, 2)
        # In units of the estimate.
        chance = self._scale * self._false_key_probability
        mean_square = self._scale * (held + len(values) * chance)
        squared_mean = (2 * chance + 1) * held + len(values) * chance**2
        return np.stack([mean_square - squared_mean, mean_square - squares])

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


# --- PrivKV ---


MAX_BLANKETS = 16
"""Most kinds of pairs of users that are distinguished in blankets."""
MAX_PAIR_KINDS, MAX_CORNERS = 40, 80
"""Most kinds of pairs for the worst dataset, and kinds of other users for each."""

AnswerLaw = tuple[Fraction, Fraction, Fraction]
"""Probabilities of the answers "not held", −, + about one key."""

KeyOverlap = tuple[int, int, int, int, int]
"""Numbers of keys by how two users hold them: opposite signs, the same, the first alone, the second alone, neither."""


class KeyDifference(NamedTuple):
    """Two users: numbers of keys that they hold with opposite signs, that only the first holds, and only the second."""

    opposite: int
    only_first: int
    only_second: int


@dataclass(frozen=True)
class PrivKV(Mechanism):
    """Draws one of the d keys uniformly; reports whether it is held, and with which sign, each by randomized response.

    The draw is exactly uniform; the value, as a multiple of 2^-52, is rounded to a sign, exactly and without bias.
    "Held" or "not held" is truthful with probability P₁ = e^ε1/(e^ε1+1), ε1 = share·ε, and the sign of a held key with
    P₂ = e^ε2/(e^ε2+1), ε2 = ε−ε1; users who wrongly say "held" give a random sign. P₁ and P₂ are rounded down to
    multiples of 2^-64. The ratios P₁/(1−P₁), P₂/(1−P₂), 2P₁P₂/(1−P₁) and (1−P₁)/(2P₁(1−P₂)) are then at most e^ε1,
    e^ε2, 2e^ε/(1+e^ε2) and (1+e^ε2)/2, all below e^ε. The message is the number 3·key + answer (not held, −, +).

    Theorem: [VR] Table 5, PrivKV: p = q = max(2e^ε/(1+e^ε2), e^ε1, e^ε2).
    Deviates: the printed p = e^ε and β are over-estimates (erratum ME-3); both are computed from the executed law here.
    Counts divide by the expected number n/d of reports about a key, not by the actual one: exactly unbiased.
    q_common = q: a third user may be far from two who agree.

    Args:
        epsilon: Local ε of every message.
        keys: Number of keys d, numbered from 0; a value is a row of pairs (key, number from −1 to 1), where the key −1
            marks an empty slot.
        share: Part of ε, between 0 and 1, that goes to the key; the rest goes to the sign of its value.
        items: Largest number of pairs that a user may hold; privacy is that of the worst two users within it.

    Raises:
        ValueError: If a parameter is out of range, or a part of ε is too small for a coin of 64 bits.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PrivKV(epsilon=2.0, keys=20, items=3)
    >>> mechanism.message_bits
    6
    >>> ratio = mechanism.variation_ratio().largest_ratio
    >>> f"{float(ratio):.4f} at most, below e^2 = 7.3891"
    '3.9744 at most, below e^2 = 7.3891'
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    keys: int = field(metadata=checked(validation.count))
    share: float = field(default=0.5, metadata=checked(validation.open_probability))
    items: int = field(default=1, metadata=checked(validation.count))

    name = "privkv"
    task = "key-value"
    summary = "one sampled key: held or not, and the sign of its value, by randomized response"
    use_case = "To compare with the paper, or where one key is sampled for everybody."
    aliases = ("priv-kv",)

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield from ({"share": tenths / 10} for tenths in range(2, 9))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_key_count("PrivKV", "items", self.items, self.keys)
        if min(self.key_response.key_truth, self.key_response.sign_truth) == Fraction(1, 2):
            raise ValueError(
                f"PrivKV: both parts of epsilon must be large enough for a coin of 64 bits to show it, "
                f"got epsilon = {self.epsilon!r} with share = {self.share!r}."
            )

    @property
    def epsilons(self) -> tuple[float, float]:
        """ε1 and ε2, whose exact sum is at most ε."""
        key = self.share * self.epsilon
        sign = self.epsilon - key
        exceeds = Fraction(key) + Fraction(sign) > Fraction(self.epsilon)
        return key, math.nextafter(sign, 0.0) if exceeds else sign

    @cached_property
    def key_response(self) -> KeyResponse:
        """The law of the answer about a drawn key."""
        key, sign = self.epsilons
        return KeyResponse(1 - flip_probability(key), 1 - flip_probability(sign))

    @cached_property
    def domain(self) -> KeyValuePairs:
        return KeyValuePairs("PrivKV", self.keys, max_pairs=self.items, audit_pair_size=self.items)

    @cached_property
    def law(self) -> SampledKeyLaw:
        return SampledKeyLaw(self.keys, self.items, self.key_response)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("PrivKV", 3 * self.keys)

    @cached_property
    def estimator(self) -> SampledKeyEstimator:
        return SampledKeyEstimator(self.keys, self.key_response)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        parts = range(0, len(values), MAX_BLOCK_USERS)
        return np.concatenate([self._randomize(values[start : start + MAX_BLOCK_USERS], source) for start in parts])

    def _randomize(self, pairs: Array, source: RandomSource) -> Integers:
        users = len(pairs)
        drawn = source.integers_below(self.keys, users)
        held, value = np.zeros(users, dtype=np.bool_), np.zeros(users)
        # A user's keys are different, so at most one slot has the drawn key.
        for key, number in pairs.transpose(1, 2, 0):
            here = key == drawn
            held |= here
            value[here] = number[here]
        # A key that is not held has value 0: a random sign, which stays random when flipped.
        sign = draw_positive_signs(value, source) == source.coins(self.key_response.sign_truth, users)
        says_held = held == source.coins(self.key_response.key_truth, users)
        return 3 * drawn + np.where(says_held, 1 + sign, 0)

    def table(self) -> OutputTable:
        inputs = np.stack(list(iterate_pair_sets(self.keys, self.items, self.items, 0.375)))
        return OutputTable(inputs, np.arange(3 * self.keys), tuple(self.law_of(row) for row in inputs))

    def law_of(self, pairs: Array) -> tuple[Fraction, ...]:
        """Returns the exact law of one user's message.

        Args:
            pairs: Checked pairs of the user, an array of shape (slots, 2).

        Returns:
            The probability of each message.
        """
        held = {int(key): exact_value(value) for key, value in pairs if key != EMPTY_KEY}
        return tuple(
            chance / self.keys for key in range(self.keys) for chance in self.key_response.answer_law(held.get(key))
        )

    @classmethod
    def examples(cls) -> Sequence[PrivKV]:
        return [
            cls(epsilon=0.7, keys=4, share=0.4),
            cls(epsilon=1.0, keys=1),
            cls(epsilon=2.0, keys=3, share=0.2),
            cls(epsilon=1.5, keys=2, items=2),
        ]


@dataclass(frozen=True)
class KeyResponse:
    """Law of a user's answer about one key."""

    key_truth: Fraction
    """P₁, the probability that "held" or "not held" is true."""
    sign_truth: Fraction
    """P₂, the probability that the sign of a held key is true."""

    def answer_law(self, value: Fraction | None) -> AnswerLaw:
        """Returns the law of the answer about a key that is held with this value, or not held (None)."""
        if value is None:
            return self.key_truth, (1 - self.key_truth) / 2, (1 - self.key_truth) / 2
        signal = value * (2 * self.sign_truth - 1)
        return 1 - self.key_truth, self.key_truth * (1 - signal) / 2, self.key_truth * (1 + signal) / 2

    @cached_property
    def extreme_laws(self) -> tuple[AnswerLaw, AnswerLaw, AnswerLaw]:
        """The laws for a key held with −1, held with 1, and not held."""
        return self.answer_law(Fraction(-1)), self.answer_law(Fraction(1)), self.answer_law(None)

    @property
    def min_probabilities(self) -> AnswerLaw:
        """The least probability of each answer over all users."""
        none, minus, plus = (min(column) for column in zip(*self.extreme_laws, strict=True))
        return none, minus, plus


@dataclass(frozen=True)
class SampledKeyLaw(Law):
    """Law of a uniform key and the answer about it."""

    keys: int
    items: int
    """Largest number of pairs that a user may hold."""
    key_response: KeyResponse

    tight = True

    def variation_ratio(self) -> VariationRatio:
        """Returns p, β and q; users with o opposite signs differ in at most min(2(s−o), d−o) keys held by one only.

        Their total variation is concave and piecewise linear in o, so β is attained at a kink.
        """
        s, d = self.items, self.keys
        minus, plus, absent = self.key_response.extreme_laws
        opposite, one_sided = _total_variation(plus, minus), _total_variation(plus, absent)
        kinks = (0, max(0, 2 * s - d), s)
        beta = max(o * opposite + min(2 * (s - o), d - o) * one_sided for o in kinks) / d
        columns = zip(*self.key_response.extreme_laws, strict=True)
        ratio = float_above(max(max(column) / min(column) for column in columns))
        return VariationRatio(p=ratio, beta=float_above(beta), q=ratio)

    def blankets(self) -> Sequence[HidingPair]:
        """Returns the kinds of two users that may be the worst; if they are too many, one pair that covers them all."""
        kinds = list(islice(self.worst_kinds(), MAX_BLANKETS + 1))
        if len(kinds) > MAX_BLANKETS:
            return [self.variation_ratio().pair(0.0)]
        return [self.pair(kind, self.key_response.min_probabilities) for kind in kinds]

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns every two users, by how many keys they hold in which way, with all keys that another user may hold.

        The law of G is affine in the numbers of keys of each way that another user holds with either sign, so it is a
        mixture of those at the corners: the keys of each way are all not held, or all held with one sign, but for one
        way.
        """
        overlaps = list(islice(self._overlap_kinds(), MAX_PAIR_KINDS + 1))
        corners = [list(self._corners(rooms)) for rooms in overlaps]
        if len(overlaps) > MAX_PAIR_KINDS or max(map(len, corners)) > MAX_CORNERS:
            return []
        gamma = float_below(sum(self.key_response.min_probabilities, Fraction(0)))
        pairs = [
            tuple(self._pair_for_held_keys(rooms, held) for held in third)
            for rooms, third in zip(overlaps, corners, strict=True)
        ]
        return [ListedOtherUsers(gamma, symmetric=False, listed_pairs=each) for each in pairs]

    def _overlap_kinds(self) -> Iterator[KeyOverlap]:
        """Yields all kinds of two different users, up to exchanging the signs of a key and the two users."""
        s, d = self.items, self.keys
        for opposite, same, first, second in product(range(s + 1), repeat=4):
            neither = d - opposite - same - first - second
            if opposite + same + first <= s and second <= first and neither >= 0 and opposite + first > 0:
                yield opposite, same, first, second, neither

    def _corners(self, rooms: KeyOverlap) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yields the numbers of keys of each way that another user holds with − and +, at most ``items`` in all."""
        corners = set()
        for signs in product((0, -1, 1), repeat=len(rooms)):
            held = [(size * (sign < 0), size * (sign > 0)) for size, sign in zip(rooms, signs, strict=True)]
            total = sum(map(sum, held))
            if total <= self.items:
                corners.add(tuple(held))
            for place, sign in enumerate(signs):
                left = self.items - (total - rooms[place])
                if sign and 0 < left < rooms[place]:
                    part = (left, 0) if sign < 0 else (0, left)
                    corners.add((*held[:place], part, *held[place + 1 :]))
        yield from sorted(corners)

    def _pair_for_held_keys(self, rooms: KeyOverlap, held: Sequence[tuple[int, int]]) -> HidingPair:
        """Returns the pair of users for another user who holds these keys."""
        minus, plus, absent = self.key_response.extreme_laws
        ways = zip(rooms, (plus, plus, plus, absent, absent), (minus, plus, absent, plus, absent), held, strict=True)
        classes = [
            (to_rational(share * a), to_rational(share * b), to_rational(share * h))
            for size, first, second, (lower, upper) in ways
            for keys, third in ((lower, minus), (upper, plus), (size - lower - upper, absent))
            if (share := Fraction(keys, self.keys))
            for a, b, h in zip(first, second, third, strict=True)
        ]
        return exact_pair(classes, symmetric=False)

    def attacks(self) -> Sequence[HidingPair]:
        """Returns the attacks where all others hold nothing, or the pairs that hide worst."""
        without_keys = [self.pair(kind, self.key_response.answer_law(None)) for kind in islice(self.worst_kinds(), 1)]
        return [*without_keys, *worst_user_pairs(self.other_users())]

    def worst_kinds(self) -> Iterator[KeyDifference]:
        """Yields kinds of two users such that any other kind is below one of them in the convex order of the law of G.

        A key says (first's answer, second's answer) in one of the ways +−, +∅, ∅+, ∅∅ (++ is below +−: the same sum on
        the two signs, further apart). Values inside [−1, 1] are averages, and the divergence is convex. If a held key
        makes both signs likelier: ∅∅ is below +∅ and ∅+, and +− with ∅∅ is below +∅ with ∅+. Otherwise all ways are
        below +−; with both users' pairs used up, o opposite signs for any o remain.
        """
        s, d = self.items, self.keys
        _, plus, absent = self.key_response.extreme_laws
        if absent[1] > plus[1]:
            yield from (KeyDifference(o, s - o, s - o) for o in range(max(0, 2 * s - d), s + 1))
        elif 2 * s <= d:
            yield KeyDifference(0, s, s)
        else:
            # No key is left that neither holds, and each holds at most s of them: at least d−s are the other's alone.
            for second in range(d - s, d // 2 + 1):
                yield from (KeyDifference(d - first - second, first, second) for first in range(second, d - second + 1))

    def pair(self, kind: KeyDifference, hiding: AnswerLaw) -> HidingPair:
        """Returns two users against others whose answers have at least this law, for every key."""
        minus, plus, absent = self.key_response.extreme_laws
        neither = self.keys - sum(kind)
        shares = [Fraction(keys, self.keys) for keys in (*kind, neither)]
        ways = zip(shares, (plus, plus, absent, absent), (minus, absent, plus, absent), strict=True)
        classes = [
            (to_rational(share * a), to_rational(share * b), to_rational(share * h))
            for share, first, second in ways
            for a, b, h in zip(first, second, hiding, strict=True)
        ]
        return exact_pair(classes, symmetric=kind.only_first == kind.only_second)


@dataclass(frozen=True)
class SampledKeyEstimator(KeyValueEstimator):
    """Estimator by the expected number n/d of reports about a key, not the actual one: it is exactly unbiased."""

    key_response: KeyResponse

    def accumulate(self, messages: Array) -> Array:
        """Returns, for each key, how many messages say "not held", −, +."""
        return np.bincount(messages, minlength=3 * self.keys).reshape(-1, 3).T

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns d(P₁(n₊ + n₋) − (1−P₁)n₀)/(2P₁−1) and d(n₊ − n₋)/(P₁(2P₂−1)), n₀ "not held", n₋ and n₊ of a key.

        The variance of a value sum omits −Σv², which is at most the count: it errs on the safe side.
        """
        none, minus, plus = np.asarray(total, dtype=np.float64)
        p1, gap, scale = self._factors
        counts = self.keys * ((minus + plus) * p1 - none * (1 - p1)) / gap
        sums = scale * (plus - minus)
        variance = np.stack([self._variance_of_counts(np.clip(counts, 0.0, users), users), scale**2 * (minus + plus)])
        return Estimate(np.stack([counts, sums]), variance, users, self.error_law(users))

    def count_error_law(self, users: int) -> CountErrorLaw:
        """Returns the law of a count: a key is sampled with probability 1/d, and its answer is true with P₁."""
        p1, _, _ = self._factors
        return sampled_bit_error_law(users, 1 - p1, 1 / self.keys)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose messages are all about one key: held or not, with either sign."""
        p1, gap, scale = self._factors
        each = messages * self.keys / gap
        counts = Influence(-each * (1 - p1), each * p1)
        return counts, Influence(-messages * scale, messages * scale, -1.0, 1.0)

    def variance(self, values: Array) -> Floats:
        counts, squares = self.sums(values, power=2)
        p1, _, scale = self._factors
        reported = (counts * p1 + (len(values) - counts) * (1 - p1)) / self.keys
        return np.stack([self._variance_of_counts(counts, len(values)), scale**2 * reported - squares])

    def covariance(self, sums: Floats) -> Floats:
        """Returns Σv·(dP₁/(2P₁−1) − 1): an answer with a sign counts dP₁/(2P₁−1), others add nothing to the sum."""
        p1, gap, _ = self._factors
        return (self.keys * p1 / gap - 1) * sums

    def _variance_of_counts(self, counts: Floats, users: int) -> Floats:
        p = self.key_response.key_truth
        gap = (2 * p - 1) ** 2
        holder, other = self.keys * (p**3 + (1 - p) ** 3) / gap - 1, self.keys * p * (1 - p) / gap
        return np.asarray(counts * float(holder) + (users - counts) * float(other))

    @property
    def _factors(self) -> tuple[float, float, float]:
        """P₁, 2P₁−1, d/(P₁(2P₂−1))."""
        p1, p2 = self.key_response.key_truth, self.key_response.sign_truth
        return float(p1), float(2 * p1 - 1), float(self.keys / (p1 * (2 * p2 - 1)))


def _total_variation(first: AnswerLaw, second: AnswerLaw) -> Fraction:
    """Returns the total variation of two answers."""
    return sum((max(a - b, Fraction(0)) for a, b in zip(first, second, strict=True)), Fraction(0))
