"""Sampling RAPPOR: one sampled bit of a user's set of options, by randomized response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import ItemSet
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import sampled_bit_error_law
from shuffledp.mechanisms.base.estimator import Estimate, Influence, SimulableEstimator
from shuffledp.mechanisms.base.law import Law, check_informative_epsilon, flip_probability
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.two_level_law import corners
from shuffledp.numerics.ball_arithmetic import float_above, float_below, to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, ListedOtherUsers, OtherUsers, exact_pair, worst_user_pairs
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import RandomSource

MAX_BLOCK_USERS = 1 << 14
"""Number of rows compared at a time, so that they stay in the processor's cache."""
MAX_TABLE_CELLS = 1 << 16


@dataclass(frozen=True)
class SamplingRAPPOR(Mechanism):
    """Draws one of the d options uniformly and reports whether the user holds it, flipped with probability f.

    The draw is exactly uniform; f = 1/(e^ε + 1), rounded up to a multiple of 2^-64: the ratio (1−f)/f is at most e^ε.
    The message is the number 2·option + bit.

    Theorem: [VR] Table 1, sampling RAPPOR: p = q = e^ε, β = (2·min(s, d−s)/d)·(e^ε−1)/(e^ε+1).
    Deviates: the printed β is that of no such mechanism (erratum ME-4). Two sets differ in at most 2·min(s, d−s)
    options, each of which adds (1−2f)/d to the total variation. q_common = q: a third set may differ from two others
    where they agree.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d, numbered from 0.
        items: Number of options s that every user holds, no more and no fewer; a value is a row of their numbers.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.SamplingRAPPOR(epsilon=1.0, options=16, items=3)
    >>> mechanism.message_bits
    5
    >>> f"{mechanism.variation_ratio().beta:.4f}", f"{sdp.KRR(1.0, options=2).variation_ratio().beta:.4f}"
    ('0.1733', '0.4621')
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    options: int = field(metadata=checked(validation.count, at_least=2))
    items: int = field(metadata=checked(validation.count))

    name = "sampling-rappor"
    task = "set-valued"
    summary = "one sampled option: held or not, by randomized response"
    use_case = "For sets, where one bit and an index may be sent."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.items >= self.options:
            raise ValueError(
                f"SamplingRAPPOR: items must be fewer than options, got {self.items} items of {self.options} options."
            )

    @cached_property
    def flip(self) -> Fraction:
        """f, the probability that the bit is flipped."""
        return flip_probability(self.epsilon)

    @cached_property
    def domain(self) -> ItemSet:
        return ItemSet("SamplingRAPPOR", self.options, self.items)

    @cached_property
    def law(self) -> SampledBitLaw:
        return SampledBitLaw(self.options, self.items, self.flip)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("SamplingRAPPOR", 2 * self.options)

    @cached_property
    def estimator(self) -> SampledBitEstimator:
        return SampledBitEstimator(self.options, self.flip)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        drawn = source.integers_below(self.options, len(values))
        bits = source.coins(self.flip, len(values))
        for start in range(0, len(values), MAX_BLOCK_USERS):
            part = slice(start, start + MAX_BLOCK_USERS)
            # Items are distinct, so at most one of them is the drawn one.
            for item in values[part].T:
                bits[part] ^= item == drawn[part]
        return 2 * drawn + bits

    def table(self) -> OutputTable:
        cells = 2 * self.options * comb(self.options, self.items)
        if cells > MAX_TABLE_CELLS:
            raise ValueError(
                f"SamplingRAPPOR: a table needs at most {MAX_TABLE_CELLS} cells, got {cells} "
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
    """Law of a uniform option, and a bit about it that is flipped with probability f."""

    options: int
    items: int
    flip: Fraction

    tight = True

    @property
    def largest_difference(self) -> int:
        """The largest number of options in which two users' sets can differ."""
        return 2 * min(self.items, self.options - self.items)

    def variation_ratio(self) -> VariationRatio:
        ratio = float_above((1 - self.flip) / self.flip)
        beta = Fraction(self.largest_difference, self.options) * (1 - 2 * self.flip)
        return VariationRatio(p=ratio, beta=float_above(beta), q=ratio)

    def blankets(self) -> Sequence[HidingPair]:
        """Returns the pair of sets that differ the most.

        Any option may be held or not, so every message is hidden by f/d. A pair that differs in one option more has
        mass f/d more at either extreme of G and less at (1−e^ε) and (1−e^ε)(1−f)/f between them, with the same mean: G
        grows in convex order.
        """
        truth, lie = to_rational(1 - self.flip), to_rational(self.flip)
        differ = to_rational(Fraction(self.largest_difference, self.options))
        agree = 1 - differ
        classes = [
            (differ * truth, differ * lie, differ * lie),
            (differ * lie, differ * truth, differ * lie),
            (agree * truth, agree * truth, agree * lie),
            (agree * lie, agree * lie, agree * lie),
        ]
        return [exact_pair(classes, symmetric=True)]

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns sets that differ the most, with every set that another user may hold.

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
        pairs = tuple(
            self._pair_for_held_counts(dict(zip(rooms, held, strict=True)))
            for held in corners([Fraction(size) for size in sizes], Fraction(self.items))
        )
        return [ListedOtherUsers(float_below(2 * self.flip), symmetric=True, listed_pairs=pairs)]

    def _pair_for_held_counts(self, held: Mapping[tuple[int, bool, bool], Fraction]) -> HidingPair:
        """Returns the pair for a third user's set, given how many options of each kind the third user holds."""
        chance = {True: 1 - self.flip, False: self.flip}
        cells: dict[tuple[bool, bool, bool], Fraction] = {}
        for (size, first, second), part in held.items():
            for third, share in ((True, part), (False, size - part)):
                for yes in (True, False):
                    key = first is yes, second is yes, third is yes
                    cells[key] = cells.get(key, Fraction(0)) + share / self.options
        classes = [
            (to_rational(share * chance[a]), to_rational(share * chance[b]), to_rational(share * chance[c]))
            for (a, b, c), share in cells.items()
            if share
        ]
        return exact_pair(classes, symmetric=False)

    def attacks(self) -> Sequence[HidingPair]:
        """Returns attacks where all others hold random sets that overlap the pair's two sets as little as possible.

        In the further attacks all others hold one set, one of those in ``other_users``. Holding s of d is lacking d −
        s of d, so s is taken to be the smaller. Two disjoint sets leave d − 2s options, which the others hold first;
        the rest of their items is spread over the 2s.
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
        spread = exact_pair([(to_rational(a), to_rational(b), to_rational(w)) for a, b, w in cells], symmetric=True)
        return [spread, *worst_user_pairs(self.other_users())]


@dataclass(frozen=True)
class SampledBitEstimator(SimulableEstimator):
    """Estimator of counts from the yes and no answers about each option."""

    options: int
    flip: Fraction

    def accumulate(self, messages: Array) -> Array:
        """Returns, for each option, the numbers of no and of yes."""
        return np.bincount(messages, minlength=2 * self.options).reshape(self.options, 2)

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns d·(yes − f·answers)/(1 − 2f) for each option; f is the share of yes among non-holders."""
        f = self.flip
        no, yes = np.asarray(total, dtype=np.float64).T
        value = self.options * (yes * float(1 - f) - no * float(f)) / float(1 - 2 * f)
        variance = self._variance_of_counts(np.clip(value, 0.0, users), users)
        return Estimate(value, variance, users, sampled_bit_error_law(users, float(f), 1 / self.options))

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose messages are all about one option, all yes or all no."""
        yes, no = self.options * (1 - self.flip), self.options * self.flip
        gap = 1 - 2 * self.flip
        return (Influence(-messages * float(no / gap), messages * float(yes / gap)),)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws each option's estimate by its exact law: who samples it, and who then says yes."""
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
