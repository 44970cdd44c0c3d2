"""One sampled key: held or not, and the sign of its value, both by randomized response."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.bit_response import flip_probability, informative_epsilon
from shuffledp.mechanisms.parts.count_tails import CountTails, sampled_tails
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.pair_reading import (
    NONE,
    USERS_AT_ONCE,
    KeyValuePairs,
    PairReading,
    exact_value,
    positive_signs,
    sets_of_pairs,
)
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.numerics.ball import above, below, rational
from shuffledp.privacy.others import KnownOthers, Others, worst_kinds
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource

MOST_BLANKETS = 16
"""More kinds of pairs than this are not told apart."""
MOST_PAIRS, MOST_CORNERS = 40, 80
"""The same where every crowd is looked at, and kinds of other users for each."""

Answer = tuple[Fraction, Fraction, Fraction]
"""Probabilities of "not held", −, + about one key."""

Rooms = tuple[int, int, int, int, int]
"""Keys by how two users hold them: opposite signs, the same, the first alone, the second alone, neither."""


class Kind(NamedTuple):
    """Two users: on how many keys do they hold opposite signs, only the first holds the key, only the second."""

    opposite: int
    only_first: int
    only_second: int


@dataclass(frozen=True)
class PrivKV(Mechanism):
    """Draw one of the d keys uniformly; say whether it is held, and with which sign, each truthfully or not.

    The draw is exactly uniform; the value, as a multiple of 2^-52, is rounded to a sign, exactly and without bias.
    "Held" or "not held" is told truthfully with probability P₁ = e^ε1/(e^ε1+1), ε1 = share·ε, and the sign of a held
    key with P₂ = e^ε2/(e^ε2+1), ε2 = ε−ε1; who wrongly says "held" gives a random sign. P₁ and P₂ are rounded down to
    multiples of 2^-64. The ratios P₁/(1−P₁), P₂/(1−P₂), 2P₁P₂/(1−P₁) and (1−P₁)/(2P₁(1−P₂)) are then at most e^ε1,
    e^ε2, 2e^ε/(1+e^ε2) and (1+e^ε2)/2, all below e^ε. The message is the number 3·key + answer (not held, −, +).

    ``items``: the most pairs that a user may hold; privacy is that of the worst two users within it.

    ``epsilon``: the local ε that every message keeps. ``keys``: d, how many keys there are, numbered from 0. ``share``:
    the part of ε, between 0 and 1, that goes to the key; the rest goes to the sign of its value. A value is a row of
    pairs (key, number from −1 to 1); the key −1 leaves a place empty.

    Theorem: [VR] Table 5, PrivKV: p = q = max(2e^ε/(1+e^ε2), e^ε1, e^ε2).
    Deviates: the printed p = e^ε and β are over-estimates (erratum ME-3); both are computed from the executed law here.
    Counts divide by the expected number n/d of reports about a key, not by the actual one: exactly unbiased.
    q_common = q: a third user may be far from two who agree.

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
    take_it = "To compare with the paper, or where one key is sampled for everybody."
    also_called = ("priv-kv",)

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """How ε is divided between the key and the sign."""
        yield from ({"share": tenths / 10} for tenths in range(2, 9))

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("PrivKV", self.epsilon))
        object.__setattr__(self, "keys", argument.count("PrivKV", "keys", self.keys))
        object.__setattr__(self, "share", argument.open_probability("PrivKV", "share", self.share))
        object.__setattr__(self, "items", argument.count("PrivKV", "items", self.items))
        if self.items > self.keys:
            raise ValueError(f"PrivKV: items must be at most keys = {self.keys}, got {self.items}.")
        if self.keys > 1 << 60:
            raise ValueError(f"PrivKV: keys must be at most 2^60, got {self.keys}.")
        if min(self.answers.key_truth, self.answers.sign_truth) == Fraction(1, 2):
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
    def answers(self) -> KeyAnswers:
        """What is said about a drawn key."""
        key, sign = self.epsilons
        return KeyAnswers(1 - flip_probability(key), 1 - flip_probability(sign))

    @cached_property
    def values(self) -> KeyValuePairs:
        return KeyValuePairs("PrivKV", self.keys, most_pairs=self.items, probe_pairs=self.items)

    @cached_property
    def law(self) -> SampledKeyLaw:
        return SampledKeyLaw(self.keys, self.items, self.answers)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("PrivKV", 3 * self.keys)

    @cached_property
    def reading(self) -> SampledKeyReading:
        return SampledKeyReading(self.keys, self.answers)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        parts = range(0, len(values), USERS_AT_ONCE)
        return np.concatenate([self._randomize(values[start : start + USERS_AT_ONCE], source) for start in parts])

    def _randomize(self, pairs: Array, source: RandomSource) -> Integers:
        users = len(pairs)
        drawn = source.below(self.keys, users)
        held, value = np.zeros(users, dtype=np.bool_), np.zeros(users)
        # A user's keys are different, so that at most one slot is the drawn one.
        for key, number in pairs.transpose(1, 2, 0):
            here = key == drawn
            held |= here
            value[here] = number[here]
        # A key that is not held has value 0: a random sign, and a flipped random sign is one.
        sign = positive_signs(value, source) == source.coins(self.answers.sign_truth, users)
        says_held = held == source.coins(self.answers.key_truth, users)
        return 3 * drawn + np.where(says_held, 1 + sign, 0)

    def table(self) -> OutputTable:
        inputs = np.stack(list(sets_of_pairs(self.keys, self.items, self.items, 0.375)))
        return OutputTable(inputs, np.arange(3 * self.keys), tuple(self.law_of(row) for row in inputs))

    def law_of(self, pairs: Array) -> tuple[Fraction, ...]:
        """The exact law of the message of one user."""
        held = {int(key): exact_value(value) for key, value in pairs if key != NONE}
        return tuple(chance / self.keys for key in range(self.keys) for chance in self.answers.about(held.get(key)))

    @classmethod
    def examples(cls) -> Sequence[PrivKV]:
        return [
            cls(epsilon=0.7, keys=4, share=0.4),
            cls(epsilon=1.0, keys=1),
            cls(epsilon=2.0, keys=3, share=0.2),
            cls(epsilon=1.5, keys=2, items=2),
        ]


@dataclass(frozen=True)
class KeyAnswers:
    """The law of what a user says about one key."""

    key_truth: Fraction
    """P₁: the probability that "held" or "not held" is true."""
    sign_truth: Fraction
    """P₂: the probability that the sign of a held key is true."""

    def about(self, value: Fraction | None) -> Answer:
        """The law of the answer about a key that is held with this value, or not held."""
        if value is None:
            return self.key_truth, (1 - self.key_truth) / 2, (1 - self.key_truth) / 2
        lean = value * (2 * self.sign_truth - 1)
        return 1 - self.key_truth, self.key_truth * (1 - lean) / 2, self.key_truth * (1 + lean) / 2

    @cached_property
    def extremes(self) -> tuple[Answer, Answer, Answer]:
        """Held with −1, held with 1, not held."""
        return self.about(Fraction(-1)), self.about(Fraction(1)), self.about(None)

    @property
    def rarest(self) -> Answer:
        """The least probability of each answer, whatever is held."""
        none, minus, plus = (min(column) for column in zip(*self.extremes, strict=True))
        return none, minus, plus


@dataclass(frozen=True)
class SampledKeyLaw(Law):
    """A uniform key, and the answer about it."""

    keys: int
    items: int
    """The most pairs that a user may hold."""
    answers: KeyAnswers

    tight = True

    def variation_ratio(self) -> VariationRatio:
        """β: two users with o opposite signs differ in at most min(2(s−o), d−o) keys that only one of them holds.

        What they add up to is concave and piecewise linear in o.
        """
        s, d = self.items, self.keys
        minus, plus, absent = self.answers.extremes
        opposite, one_sided = _total_variation(plus, minus), _total_variation(plus, absent)
        kinks = (0, max(0, 2 * s - d), s)
        beta = max(o * opposite + min(2 * (s - o), d - o) * one_sided for o in kinks) / d
        ratio = above(max(max(column) / min(column) for column in zip(*self.answers.extremes, strict=True)))
        return VariationRatio(p=ratio, beta=above(beta), q=ratio)

    def blankets(self) -> Sequence[HidingPair]:
        """The kinds of two users that may be the worst; if they are too many, one pair that covers them all."""
        kinds = list(islice(self.worst_kinds(), MOST_BLANKETS + 1))
        if len(kinds) > MOST_BLANKETS:
            return [self.variation_ratio().pair(0.0)]
        return [self.pair(kind, self.answers.rarest) for kind in kinds]

    def others(self) -> Sequence[Others]:
        """Every two users, by how many keys they hold in which way, and everything that another user may hold.

        The law of G is affine in how many keys of each way another user holds with either sign, so that it is a
        mixture of those at the corners: each way's keys not held, or all held with one sign, but for one way.
        """
        pairs = list(islice(self._ways(), MOST_PAIRS + 1))
        crowds = [list(self._corners(rooms)) for rooms in pairs]
        if len(pairs) > MOST_PAIRS or max(map(len, crowds)) > MOST_CORNERS:
            return []
        gamma = below(sum(self.answers.rarest, Fraction(0)))
        return [
            KnownOthers(gamma, symmetric=False, given=tuple(self._in_crowd(rooms, held) for held in corners))
            for rooms, corners in zip(pairs, crowds, strict=True)
        ]

    def _ways(self) -> Iterator[Rooms]:
        """All kinds of two different users.

        The sign of a key may be called the other one; and of two users either may be the first.
        """
        s, d = self.items, self.keys
        for opposite, same, first, second in product(range(s + 1), repeat=4):
            neither = d - opposite - same - first - second
            if opposite + same + first <= s and second <= first and neither >= 0 and opposite + first > 0:
                yield opposite, same, first, second, neither

    def _corners(self, rooms: Rooms) -> Iterator[tuple[tuple[int, int], ...]]:
        """How many keys of each way another user holds with − and with +: at most as many as one may hold in all."""
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

    def _in_crowd(self, rooms: Rooms, held: Sequence[tuple[int, int]]) -> HidingPair:
        minus, plus, absent = self.answers.extremes
        ways = zip(rooms, (plus, plus, plus, absent, absent), (minus, plus, absent, plus, absent), held, strict=True)
        classes = [
            (rational(share * a), rational(share * b), rational(share * h))
            for size, first, second, (lower, upper) in ways
            for keys, third in ((lower, minus), (upper, plus), (size - lower - upper, absent))
            if (share := Fraction(keys, self.keys))
            for a, b, h in zip(first, second, third, strict=True)
        ]
        return exact_pair(classes, symmetric=False)

    def attacks(self) -> Sequence[HidingPair]:
        """All others hold nothing, or what hides worst."""
        nothing = [self.pair(kind, self.answers.about(None)) for kind in islice(self.worst_kinds(), 1)]
        return [*nothing, *worst_kinds(self.others())]

    def worst_kinds(self) -> Iterator[Kind]:
        """Every other kind of two users is below one of these in the convex order of the law of G.

        A key says (first's answer, second's answer) in one of the ways +−, +∅, ∅+, ∅∅ (++ is below +−: the same sum
        on the two signs, further apart). Values inside [−1, 1] are averages, and the divergence is convex.
        Where a held key makes both signs likelier: ∅∅ is below +∅ and ∅+, and +− with ∅∅ is below +∅ with ∅+.
        Elsewhere: all ways are below +−; with both users' pairs used up, o opposite signs for any o remain.
        """
        s, d = self.items, self.keys
        _, plus, absent = self.answers.extremes
        if absent[1] > plus[1]:
            yield from (Kind(o, s - o, s - o) for o in range(max(0, 2 * s - d), s + 1))
        elif 2 * s <= d:
            yield Kind(0, s, s)
        else:
            # No key is left that neither holds, and each holds at most s of them: at least d−s are the other's alone.
            for second in range(d - s, d // 2 + 1):
                yield from (Kind(d - first - second, first, second) for first in range(second, d - second + 1))

    def pair(self, kind: Kind, hiding: Answer) -> HidingPair:
        """Two users against others whose answers have this law, or more than it, whatever the key."""
        minus, plus, absent = self.answers.extremes
        neither = self.keys - sum(kind)
        shares = [Fraction(keys, self.keys) for keys in (*kind, neither)]
        ways = zip(shares, (plus, plus, absent, absent), (minus, absent, plus, absent), strict=True)
        classes = [
            (rational(share * a), rational(share * b), rational(share * h))
            for share, first, second in ways
            for a, b, h in zip(first, second, hiding, strict=True)
        ]
        return exact_pair(classes, symmetric=kind.only_first == kind.only_second)


@dataclass(frozen=True)
class SampledKeyReading(PairReading):
    """Counts divide by the expected number n/d of reports about a key, not by the actual one: exactly unbiased."""

    answers: KeyAnswers

    def accumulate(self, messages: Array) -> Array:
        """For each key, how many messages say "not held", −, +."""
        return np.bincount(messages, minlength=3 * self.keys).reshape(-1, 3).T

    def finish(self, total: Array, users: int) -> Estimate:
        """d(P₁(n₊ + n₋) − (1−P₁)n₀)/(2P₁−1) and d(n₊ − n₋)/(P₁(2P₂−1)), for n₀ "not held", n₋ and n₊ of a key.

        The variance of a value sum leaves out −Σv², at most the count: it errs on the safe side.
        """
        none, minus, plus = np.asarray(total, dtype=np.float64)
        p1, gap, scale = self._factors
        counts = self.keys * ((minus + plus) * p1 - none * (1 - p1)) / gap
        sums = scale * (plus - minus)
        variance = np.stack([self._variance_of_counts(np.clip(counts, 0.0, users), users), scale**2 * (minus + plus)])
        return Estimate(np.stack([counts, sums]), variance, users, self.tails(users))

    def count_tails(self, users: int) -> CountTails:
        """One key in d is asked for; whether it is held is told truly with chance P₁."""
        p1, _, _ = self._factors
        return sampled_tails(users, 1 - p1, 1 / self.keys)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """All about one key: held or not, with either sign."""
        p1, gap, scale = self._factors
        each = messages * self.keys / gap
        counts = Sway(-each * (1 - p1), each * p1)
        return counts, Sway(-messages * scale, messages * scale, -1.0, 1.0)

    def variance(self, values: Array) -> Floats:
        counts, squares = self.sums(values, power=2)
        p1, _, scale = self._factors
        reported = (counts * p1 + (len(values) - counts) * (1 - p1)) / self.keys
        return np.stack([self._variance_of_counts(counts, len(values)), scale**2 * reported - squares])

    def covariance(self, sums: Floats) -> Floats:
        """Σv·(dP₁/(2P₁−1) − 1): an answer with a sign counts dP₁/(2P₁−1), and others add nothing to the sum."""
        p1, gap, _ = self._factors
        return (self.keys * p1 / gap - 1) * sums

    def _variance_of_counts(self, counts: Floats, users: int) -> Floats:
        p = self.answers.key_truth
        gap = (2 * p - 1) ** 2
        holder, other = self.keys * (p**3 + (1 - p) ** 3) / gap - 1, self.keys * p * (1 - p) / gap
        return np.asarray(counts * float(holder) + (users - counts) * float(other))

    @property
    def _factors(self) -> tuple[float, float, float]:
        """P₁, 2P₁−1, d/(P₁(2P₂−1))."""
        p1, p2 = self.answers.key_truth, self.answers.sign_truth
        return float(p1), float(2 * p1 - 1), float(self.keys / (p1 * (2 * p2 - 1)))


def _total_variation(first: Answer, second: Answer) -> Fraction:
    return sum((max(a - b, Fraction(0)) for a, b in zip(first, second, strict=True)), Fraction(0))
