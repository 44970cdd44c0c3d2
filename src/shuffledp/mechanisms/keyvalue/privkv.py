"""PrivKV: one sampled key, held or not, and the sign of its value, both by randomized response."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np

from shuffledp._core import validation
from shuffledp._core.types import Array, Floats, Integers
from shuffledp.mechanisms.base.count_intervals import CountErrorLaw, sampled_bit_error_law
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import Estimate, Influence
from shuffledp.mechanisms.base.law import Law, check_informative_epsilon, flip_probability
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.keyvalue.pckv import (
    EMPTY_KEY,
    MAX_BLOCK_USERS,
    KeyValueEstimator,
    KeyValuePairs,
    draw_positive_signs,
    exact_value,
    iterate_pair_sets,
)
from shuffledp.numerics.intervals import float_above, float_below, to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, ListedOtherUsers, OtherUsers, exact_pair, worst_user_pairs
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import RandomSource

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

    epsilon: float
    keys: int
    share: float = 0.5
    items: int = 1

    name = "privkv"
    task = "key-value"
    summary = "one sampled key: held or not, and the sign of its value, by randomized response"
    use_case = "To compare with the paper, or where one key is sampled for everybody."
    aliases = ("priv-kv",)

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields divisions of ε between the key and the sign.

        Args:
            facts: Known facts of the task; none is used.

        Yields:
            ``share`` by name.
        """
        yield from ({"share": tenths / 10} for tenths in range(2, 9))

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_informative_epsilon("PrivKV", self.epsilon))
        object.__setattr__(self, "keys", validation.count("PrivKV", "keys", self.keys))
        object.__setattr__(self, "share", validation.open_probability("PrivKV", "share", self.share))
        object.__setattr__(self, "items", validation.count("PrivKV", "items", self.items))
        if self.items > self.keys:
            raise ValueError(f"PrivKV: items must be at most keys = {self.keys}, got {self.items}.")
        if self.keys > 1 << 60:
            raise ValueError(f"PrivKV: keys must be at most 2^60, got {self.keys}.")
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
        """Returns one key with an answer per user.

        Args:
            values: Checked pairs, an array of shape (users, slots, 2).
            source: Source of randomness.

        Returns:
            One message 3·key + answer per user.
        """
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
    """The law of a user's answer about one key."""

    key_truth: Fraction
    """P₁, the probability that "held" or "not held" is true."""
    sign_truth: Fraction
    """P₂, the probability that the sign of a held key is true."""

    def answer_law(self, value: Fraction | None) -> AnswerLaw:
        """Returns the law of the answer about a key that is held with this value, or not held (None)."""
        if value is None:
            return self.key_truth, (1 - self.key_truth) / 2, (1 - self.key_truth) / 2
        lean = value * (2 * self.sign_truth - 1)
        return 1 - self.key_truth, self.key_truth * (1 - lean) / 2, self.key_truth * (1 + lean) / 2

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
    """The law of a uniform key and the answer about it."""

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
        ratio = float_above(
            max(max(column) / min(column) for column in zip(*self.key_response.extreme_laws, strict=True))
        )
        return VariationRatio(p=ratio, beta=float_above(beta), q=ratio)

    def blankets(self) -> Sequence[HidingPair]:
        """Returns the kinds of two users that may be the worst; if they are too many, one pair that covers them all."""
        kinds = list(islice(self.worst_kinds(), MAX_BLANKETS + 1))
        if len(kinds) > MAX_BLANKETS:
            return [self.variation_ratio().pair(0.0)]
        return [self.pair(kind, self.key_response.min_probabilities) for kind in kinds]

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns every two users, by how many keys they hold in which way, with everything that another user may hold.

        The law of G is affine in the numbers of keys of each way that another user holds with either sign, so it is a
        mixture of those at the corners: the keys of each way are all not held, or all held with one sign, but for one
        way.
        """
        pairs = list(islice(self._overlap_kinds(), MAX_PAIR_KINDS + 1))
        crowds = [list(self._corners(rooms)) for rooms in pairs]
        if len(pairs) > MAX_PAIR_KINDS or max(map(len, crowds)) > MAX_CORNERS:
            return []
        gamma = float_below(sum(self.key_response.min_probabilities, Fraction(0)))
        return [
            ListedOtherUsers(
                gamma, symmetric=False, listed_pairs=tuple(self._pair_for_held_keys(rooms, held) for held in corners)
            )
            for rooms, corners in zip(pairs, crowds, strict=True)
        ]

    def _overlap_kinds(self) -> Iterator[KeyOverlap]:
        """Yields all kinds of two different users, up to exchanging the signs of a key and the two users."""
        s, d = self.items, self.keys
        for opposite, same, first, second in product(range(s + 1), repeat=4):
            neither = d - opposite - same - first - second
            if opposite + same + first <= s and second <= first and neither >= 0 and opposite + first > 0:
                yield opposite, same, first, second, neither

    def _corners(self, rooms: KeyOverlap) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yields the numbers of keys of each way that another user holds with − and +, at most ``items`` in all."""
        seen = set()
        for signs in product((0, -1, 1), repeat=len(rooms)):
            held = [(size * (sign < 0), size * (sign > 0)) for size, sign in zip(rooms, signs, strict=True)]
            total = sum(map(sum, held))
            if total <= self.items:
                seen.add(tuple(held))
            for place, sign in enumerate(signs):
                left = self.items - (total - rooms[place])
                if sign and 0 < left < rooms[place]:
                    part = (left, 0) if sign < 0 else (0, left)
                    seen.add((*held[:place], part, *held[place + 1 :]))
        yield from sorted(seen)

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
        nothing = [self.pair(kind, self.key_response.answer_law(None)) for kind in islice(self.worst_kinds(), 1)]
        return [*nothing, *worst_user_pairs(self.other_users())]

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
    """Estimates by the expected number n/d of reports about a key, not the actual one, which is exactly unbiased."""

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
        """Returns the tails of a count: a key is sampled with probability 1/d, and its answer is true with P₁."""
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
