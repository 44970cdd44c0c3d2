"""One sampled bit of a set-valued user, by randomized response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.bit_response import flip_probability, informative_epsilon
from shuffledp.mechanisms.parts.count_tails import sampled_tails
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.own_region import corners
from shuffledp.mechanisms.parts.reading import SimulatedReading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.user_values import ItemSet
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.numerics.ball import above, below, rational
from shuffledp.privacy.others import KnownOthers, Others, worst_kinds
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource

USERS_AT_ONCE = 1 << 14
"""Rows compared at a time, to stay in the processor's cache."""
MOST_CELLS_OF_A_TABLE = 1 << 16


@dataclass(frozen=True)
class SamplingRAPPOR(Mechanism):
    """Draw one of the d options uniformly and say whether it is among one's s items, flipped with probability f.

    The draw is exactly uniform; f = 1/(e^ε + 1), rounded up to a multiple of 2^-64: the ratio (1−f)/f is at most
    e^ε. The message is the number 2·option + bit.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are, numbered from 0.
    ``items``: s, how many of them every user holds, no more and no fewer; a value is a row of their numbers.

    Theorem: [VR] Table 1, sampling RAPPOR: p = q = e^ε, β = (2·min(s, d−s)/d)·(e^ε−1)/(e^ε+1).
    Deviates: the printed β is that of no such mechanism (erratum ME-4). Two sets differ in at most 2·min(s, d−s)
    options, each of which adds (1−2f)/d to the total variation. q_common = q: a third set may differ from two others
    where they agree.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.SamplingRAPPOR(epsilon=1.0, options=16, items=3)
    >>> mechanism.message_bits
    5
    >>> f"{mechanism.variation_ratio().beta:.4f}", f"{sdp.KRR(1.0, options=2).variation_ratio().beta:.4f}"
    ('0.1733', '0.4621')
    """

    epsilon: float
    options: int
    items: int

    name = "sampling-rappor"
    task = "set-valued"
    summary = "one sampled option: held or not, by randomized response"
    take_it = "For sets, where one bit and an index may be sent."

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("SamplingRAPPOR", self.epsilon))
        object.__setattr__(self, "options", argument.count("SamplingRAPPOR", "options", self.options, at_least=2))
        object.__setattr__(self, "items", argument.count("SamplingRAPPOR", "items", self.items))
        if self.items >= self.options:
            raise ValueError(
                f"SamplingRAPPOR: items must be fewer than options, got {self.items} items of {self.options} options."
            )

    @cached_property
    def flip(self) -> Fraction:
        """f: the probability that the bit is flipped."""
        return flip_probability(self.epsilon)

    @cached_property
    def values(self) -> ItemSet:
        return ItemSet("SamplingRAPPOR", self.options, self.items)

    @cached_property
    def law(self) -> SampledBitLaw:
        return SampledBitLaw(self.options, self.items, self.flip)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("SamplingRAPPOR", 2 * self.options)

    @cached_property
    def reading(self) -> SampledBitReading:
        return SampledBitReading(self.options, self.flip)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        drawn = source.below(self.options, len(values))
        bits = source.coins(self.flip, len(values))
        for start in range(0, len(values), USERS_AT_ONCE):
            part = slice(start, start + USERS_AT_ONCE)
            # Items are distinct, so that at most one of them is the drawn one.
            for item in values[part].T:
                bits[part] ^= item == drawn[part]
        return 2 * drawn + bits

    def table(self) -> OutputTable:
        cells = 2 * self.options * comb(self.options, self.items)
        if cells > MOST_CELLS_OF_A_TABLE:
            raise ValueError(
                f"SamplingRAPPOR: a table needs at most {MOST_CELLS_OF_A_TABLE} cells, got {cells} "
                f"for {self.items} of {self.options} options."
            )
        sets = list(combinations(range(self.options), self.items))
        messages = np.arange(2 * self.options)
        right, wrong = (1 - self.flip) / self.options, self.flip / self.options
        rows = tuple(tuple(right if (y // 2 in held) == y % 2 else wrong for y in messages.tolist()) for held in sets)
        return OutputTable(np.array(sets), messages, rows)

    @classmethod
    def examples(cls) -> Sequence[SamplingRAPPOR]:
        return [
            cls(epsilon=1.0, options=2, items=1),
            cls(epsilon=0.5, options=5, items=2),
            cls(epsilon=3.0, options=4, items=2),
            cls(epsilon=1.0, options=5, items=4),
        ]


@dataclass(frozen=True)
class SampledBitLaw(Law):
    """A uniform option, and a bit about it that is flipped with probability f."""

    options: int
    items: int
    flip: Fraction

    tight = True

    @property
    def largest_difference(self) -> int:
        """In how many options two users' sets can differ."""
        return 2 * min(self.items, self.options - self.items)

    def variation_ratio(self) -> VariationRatio:
        ratio = above((1 - self.flip) / self.flip)
        beta = Fraction(self.largest_difference, self.options) * (1 - 2 * self.flip)
        return VariationRatio(p=ratio, beta=above(beta), q=ratio)

    def blankets(self) -> Sequence[HidingPair]:
        """Sets as different as can be.

        Any option may be held or not, so every message is hidden by f/d. A pair that differs in one option more has
        mass f/d more at either extreme of G and less at (1−e^ε) and (1−e^ε)(1−f)/f between them, with the same
        mean: G grows in convex order.
        """
        truth, lie = rational(1 - self.flip), rational(self.flip)
        differ = rational(Fraction(self.largest_difference, self.options))
        agree = 1 - differ
        return [
            exact_pair(
                [
                    (differ * truth, differ * lie, differ * lie),
                    (differ * lie, differ * truth, differ * lie),
                    (agree * truth, agree * truth, agree * lie),
                    (agree * lie, agree * lie, agree * lie),
                ],
                symmetric=True,
            )
        ]

    def others(self) -> Sequence[Others]:
        """Sets as different as can be, and every set that another user may hold.

        Theorem: the law of G depends on another user's set only by how many it holds of the options of the first
        alone, the second alone, both and neither, and is affine in these four numbers: a mixture of their corners. If
        the two share more, let j be in both and k in neither, and give j to the first alone and k to the second alone.
        Where another user holds k and not j, let it hold j and not k. With p = (1−f)/f the values p(1−e^ε) and
        (1−e^ε)/p, of weights 1 and p, become 1 − p·e^ε and 1 − e^ε/p; where it holds both or neither, p(1−e^ε) and
        1 − e^ε become p − e^ε and 1 − p·e^ε, and the same over p; where it holds j alone all are 1 − e^ε: the same
        mean, further apart.
        """
        own = self.largest_difference // 2
        sizes = own, own, self.items - own, self.options - self.items - own
        rooms = list(zip(sizes, (True, False, True, False), (False, True, True, False), strict=True))
        kinds = [
            self._others_who_hold(dict(zip(rooms, held, strict=True)))
            for held in corners([Fraction(size) for size in sizes], Fraction(self.items))
        ]
        return [KnownOthers(below(2 * self.flip), symmetric=True, given=tuple(kinds))]

    def _others_who_hold(self, held: Mapping[tuple[int, bool, bool], Fraction]) -> HidingPair:
        """Options by whether the first and the second of two users hold them, and how many of them a third does."""
        chance = {True: 1 - self.flip, False: self.flip}
        cells: dict[tuple[bool, bool, bool], Fraction] = {}
        for (size, first, second), part in held.items():
            for third, share in ((True, part), (False, size - part)):
                for yes in (True, False):
                    key = first is yes, second is yes, third is yes
                    cells[key] = cells.get(key, Fraction(0)) + share / self.options
        classes = [
            (rational(share * chance[a]), rational(share * chance[b]), rational(share * chance[c]))
            for (a, b, c), share in cells.items()
            if share
        ]
        return exact_pair(classes, symmetric=False)

    def attacks(self) -> Sequence[HidingPair]:
        """All others hold sets that share as little as can be with the two sets of the pair, otherwise drawn at random.

        Or all hold one set, one of those that ``others`` looks at. Holding s of d is lacking d − s of d, so s is taken
        to be the smaller. Two disjoint sets leave d − 2s options, which the others hold first; what they hold beyond is
        spread over the 2s.
        """
        s, d, f = min(self.items, self.options - self.items), self.options, self.flip
        outside = d - 2 * s
        held_outside = min(s, outside)
        differ_yes = f + (1 - 2 * f) * Fraction(s - held_outside, 2 * s)
        agree_yes = f + (1 - 2 * f) * Fraction(held_outside, max(1, outside))
        either, agree = Fraction(s, d), Fraction(outside, d)
        cells = [
            (either * (1 - f), either * f, either * differ_yes),
            (either * f, either * (1 - f), either * (1 - differ_yes)),
            (either * f, either * (1 - f), either * differ_yes),
            (either * (1 - f), either * f, either * (1 - differ_yes)),
            (agree * f, agree * f, agree * agree_yes),
            (agree * (1 - f), agree * (1 - f), agree * (1 - agree_yes)),
        ]
        spread = exact_pair([(rational(a), rational(b), rational(w)) for a, b, w in cells], symmetric=True)
        return [spread, *worst_kinds(self.others())]


@dataclass(frozen=True)
class SampledBitReading(SimulatedReading):
    """Yes and no are counted for each option."""

    options: int
    flip: Fraction

    def accumulate(self, messages: Array) -> Array:
        """For each option, how many said no and how many said yes."""
        return np.bincount(messages, minlength=2 * self.options).reshape(self.options, 2)

    def finish(self, total: Array, users: int) -> Estimate:
        """d·(yes − f·asked)/(1 − 2f), for each option: f is the share of yes among the asked who do not hold it."""
        f = self.flip
        no, yes = np.asarray(total, dtype=np.float64).T
        value = self.options * (yes * float(1 - f) - no * float(f)) / float(1 - 2 * f)
        variance = self._variance_of_counts(np.clip(value, 0.0, users), users)
        return Estimate(value, variance, users, sampled_tails(users, float(f), 1 / self.options))

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """All about one option, which all hold, or nobody."""
        yes, no = self.options * (1 - self.flip), self.options * self.flip
        gap = 1 - 2 * self.flip
        return (Sway(-messages * float(no / gap), messages * float(yes / gap)),)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Each option's estimate by its exact law: who is asked about it, and who then says yes."""
        f = float(self.flip)
        holders, others = rng.binomial(held, 1.0 / self.options), rng.binomial(users - held, 1.0 / self.options)
        yes = rng.binomial(holders, 1.0 - f) + rng.binomial(others, f)
        return self.finish(np.stack([holders + others - yes, yes], axis=1), users)

    def truth(self, values: Array) -> Floats:
        return np.bincount(values.reshape(-1), minlength=self.options).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return self._variance_of_counts(self.truth(values), len(values))

    def _variance_of_counts(self, counts: Floats, users: int) -> Floats:
        d, f = self.options, self.flip
        gap = (1 - 2 * f) ** 2
        holder, other = d * ((1 - f) ** 3 + f**3) / gap - 1, d * f * (1 - f) / gap
        return np.asarray(counts * float(holder) + (users - counts) * float(other))
