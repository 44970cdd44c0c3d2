"""Law, encoding, estimator and proposal of mechanisms whose message is a random subset of the options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import NamedTuple

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bools, Bytes, Integers, Words
from shuffledp.mechanisms.base.encoding import Encoding, ValidRows
from shuffledp.mechanisms.base.estimator import SelectedOptions
from shuffledp.mechanisms.base.mechanism import OutputTable
from shuffledp.mechanisms.base.seed_compression import WORDS_PER_INTEGER, UniformProposal, integers_below
from shuffledp.mechanisms.base.support_counts import PairSupport, SupportEstimator
from shuffledp.mechanisms.base.two_level_law import HidingPairs, SetMembership, TwoLevelLaw, TwoLevelResponse
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.sampling import bits_and_subsets
from shuffledp.sampling.bits_and_subsets import missing_share

MAX_THIRD_USER_OVERLAPS = 80
"""Most kinds of third users that are distinguished."""


@dataclass(frozen=True)
class IntersectingSubsets:
    """The k-subsets of d options; the region of a user is the subsets that meet the s options that they hold."""

    options: int
    size: int
    """k, the number of options in a message."""
    options_held: int
    """s, the number of options that a user holds."""

    @property
    def share(self) -> Fraction:
        """The share of all subsets that meet a user's options."""
        return 1 - missing_share(self.options, self.size, self.options_held)

    def exclusive_share(self, overlap: int) -> Fraction:
        """Returns the share of subsets that meet only the first of two users' sets with ``overlap`` common options."""
        d, k, s = self.options, self.size, self.options_held
        return missing_share(d, k, s) - missing_share(d, k, 2 * s - overlap)

    @property
    def least_overlap(self) -> int:
        """The overlap of the worst pair of inputs, as small as possible; see ``TwoLevelResponse.blanket_pair``."""
        return max(0, 2 * self.options_held - self.options)

    def build_law(self, region: TwoLevelResponse) -> TwoLevelLaw:
        """Returns the law of the subsets, with attacks on the worst pair."""
        # A message that meets both is p times likelier than for a user whose options it does not meet.
        q_common = 1.0 if self.options_held == self.size == 1 else None
        return IntersectingSubsetsLaw(
            region,
            self.exclusive_share(self.least_overlap),
            q_common=q_common,
            attack_pairs=tuple(self._build_attacks(region)),
            tight=True,
            covers_mixtures=True,
            space_key=(region.error_prefix, self.options, self.size, self.options_held),
            subsets=self,
        )

    def membership_shares(self, overlap: int, third: ThirdUserOverlap) -> dict[SetMembership, Fraction]:
        """Returns the shares of subsets by whether they meet the options of the first, the second and a third user.

        The first two share ``overlap`` options; ``third`` says how many of their options the third user holds.
        """
        s, (common, first, second) = self.options_held, third
        both = 2 * s - overlap
        unions: dict[SetMembership, int] = {
            (False, False, False): 0,
            (True, True, False): both,
            (True, False, True): 2 * s - common - first,
            (False, True, True): 2 * s - common - second,
            (True, True, True): both + s - common - first - second,
        }
        unions |= {key: s for key in product((False, True), repeat=3) if sum(key) == 1}
        return _exact_membership_shares(
            {key: missing_share(self.options, self.size, union) for key, union in unions.items()}
        )

    def third_user_overlaps(self, overlap: int) -> Iterator[ThirdUserOverlap]:
        """Yields what a third user may hold of the options of two users who share ``overlap`` options."""
        s, alone = self.options_held, self.options_held - overlap
        outside = self.options - 2 * s + overlap
        for common, first, second in product(range(overlap + 1), range(alone + 1), range(alone + 1)):
            if 0 <= s - common - first - second <= outside:
                yield ThirdUserOverlap(common, first, second)

    def _build_attacks(self, region: TwoLevelResponse) -> Iterator[HidingPair]:
        """Yields attacks on the worst pair: all others hold options outside both, or the same as the first.

        The second is yielded if it is stronger: large subsets meet nearly everything, and options outside both more
        often.
        """
        outside = self._build_outside_attack(region)
        yield outside
        first_user = ThirdUserOverlap(self.least_overlap, self.options_held - self.least_overlap, 0)
        same = region.attack(self.membership_shares(self.least_overlap, first_user), symmetric=False)
        if same.spread() > outside.spread():
            yield same

    def _build_outside_attack(self, region: TwoLevelResponse) -> HidingPair:
        """Returns the attack where all others hold options outside both and, if these are too few, the first's."""
        both = 2 * self.options_held - self.least_overlap
        outside = min(self.options_held, self.options - both)
        common = min(self.least_overlap, self.options_held - outside)
        shares = self.membership_shares(
            self.least_overlap, ThirdUserOverlap(common, self.options_held - outside - common, 0)
        )
        return region.attack(shares, symmetric=outside + common == self.options_held)

    def build_estimator(self, region: TwoLevelResponse) -> SubsetEstimator:
        """Returns the estimator from the subsets that contain each option.

        Every message names ``size`` options, so the true support of the options held and the false support of the
        others add up to ``size``.
        """
        drawn, disjoint = Fraction(self.size, self.options), _disjoint_share(self.options, self.options_held, self.size)
        other = (drawn - disjoint) * region.inside_density + disjoint * region.outside_density
        return SubsetEstimator(
            self.options, drawn * region.inside_density, other, size=self.size, options_held=self.options_held
        )

    def table(self, region: TwoLevelResponse, inputs: Array, held: Sequence[Sequence[int]]) -> OutputTable:
        """Returns the exact law of users who hold these options, for few of them."""
        messages = list(combinations(range(self.options), self.size))
        uniform = Fraction(1, comb(self.options, self.size))
        inside, outside = region.inside_density * uniform, region.outside_density * uniform
        rows = tuple(tuple(outside if set(own).isdisjoint(y) else inside for y in messages) for own in held)
        return OutputTable(inputs, np.array(messages, dtype=bits_and_subsets.number_type(self.options)), rows)


class ThirdUserOverlap(NamedTuple):
    """The numbers of options that a third user holds of those that two users share, and of those of either alone."""

    common: int
    first: int
    second: int


@dataclass(frozen=True)
class IntersectingSubsetsLaw(TwoLevelLaw):
    """Law of subsets that meet a user's options: the regions of two users and a third are known exactly."""

    subsets: IntersectingSubsets = field(kw_only=True)

    def pair_families(self, hider: TwoLevelResponse) -> Sequence[HidingPairs]:
        """Returns a family of third users for each overlap of two users, or the general ones if they are too many."""
        subsets = self.subsets
        overlaps = {
            overlap: list(subsets.third_user_overlaps(overlap))
            for overlap in range(subsets.least_overlap, subsets.options_held)
        }
        if max(map(len, overlaps.values())) > MAX_THIRD_USER_OVERLAPS:
            return super().pair_families(hider)
        return [
            tuple(
                self.response.attack(subsets.membership_shares(overlap, third), symmetric=False, hider=hider)
                for third in thirds
            )
            for overlap, thirds in overlaps.items()
        ]


@dataclass(frozen=True)
class SubsetEncoding(Encoding):
    """Encoding of ``size`` option numbers in increasing order, or one bit per option if that is shorter."""

    error_prefix: str
    options: int
    size: int

    @property
    def bits(self) -> int:
        return bits_and_subsets.encoded_bits(self.options, self.size)

    @property
    def expected_format(self) -> str:
        return f"messages of {self.size} different options out of {self.options}"

    def pack(self, messages: Array) -> Bytes:
        return bits_and_subsets.pack(messages, self.options)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        return bits_and_subsets.unpack(rows, self.options, self.size)


@dataclass(frozen=True)
class SubsetEstimator(SupportEstimator):
    """Estimator of counts from messages that support the ``size`` options that they name.

    A user holds ``options_held`` options.
    """

    size: int = field(kw_only=True)
    options_held: int = field(kw_only=True)

    @property
    def pair_support(self) -> PairSupport | None:
        """Probabilities of pairs: a message has a fixed number, and all options besides the true one are alike."""
        d, k, s = self.options, self.size, self.true_support
        if self.options_held > 1:
            return None
        others = s * (k - 1) * (k - 2) + (1 - s) * k * (k - 1)
        return PairSupport(s * Fraction(k - 1, d - 1), others / ((d - 1) * (d - 2)) if d > 2 else Fraction(0))

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return selection.counts(messages.reshape(-1))

    def accumulate(self, messages: Array) -> Array:
        flat = messages.reshape(-1)
        total = np.zeros(self.options, dtype=np.int64)
        batch = max(self.options, bits_and_subsets.WORKING_CELLS)
        for start in range(0, len(flat), batch):
            total += np.bincount(flat[start : start + batch], minlength=self.options)
        return total


@dataclass(frozen=True)
class UniformSubsetProposal(UniformProposal):
    """Uniform law of subsets of this size."""

    options: int
    size: int

    @property
    def word_count(self) -> int:
        return WORDS_PER_INTEGER * self.size

    @property
    def step_count(self) -> float:
        return float(self.size**2)

    def draw_messages(self, words: Words) -> Array:
        """Returns subsets, one option after another: an index among those left, raised past each smaller chosen one."""
        chosen = np.empty((len(words), 0), dtype=np.int64)
        for place in range(self.size):
            first = WORDS_PER_INTEGER * place
            option = integers_below(self.options - place, words[:, first : first + WORDS_PER_INTEGER])
            for column in chosen.T:
                option += option >= column
            chosen = np.sort(np.column_stack([chosen, option]), axis=1)
        return chosen.astype(bits_and_subsets.number_type(self.options))


def contains_user_option(values: Array, messages: Array) -> Bools:
    """Returns, for each user and message, whether the message contains an option of the user."""
    held = values.reshape(len(values), -1)
    return np.asarray((messages[:, :, None] == held[:, None, :]).any(axis=(1, 2)))


def _exact_membership_shares(missing: Mapping[SetMembership, Fraction]) -> dict[SetMembership, Fraction]:
    """Returns the shares of subsets that meet exactly these of three sets, from the shares that miss at least those."""
    every = list(product((False, True), repeat=3))
    result = {}
    for meets in every:
        missed = tuple(not m for m in meets)
        beyond = [key for key in every if all(k or not m for k, m in zip(key, missed, strict=True))]
        result[meets] = sum((missing[key] * (-1) ** (sum(key) - sum(missed)) for key in beyond), Fraction(0))
    return result


def choose_size(who: str, epsilon: float, options: int, held: int, size: int | None) -> int:
    """Returns k: the given size, or else the one with the smallest total variance."""
    if size is None:
        return best_size(epsilon, options, held)
    return validation.count(who, "size", size, at_most=options - held)


def best_size(epsilon: float, options: int, held: int) -> int:
    """Returns the size that minimizes the variance summed over all options, exactly (but for e^ε, rounded to a float).

    That sum does not depend on the data, and is unimodal in the size (checked by enumeration).
    """
    with precision(96):
        ratio = Fraction(round_up(arb(epsilon).exp().min(arb(1e300))))
    low, high = 1, options - held
    while low < high:
        middle = (low + high) // 2
        if _total_variance(ratio, options, held, middle + 1) < _total_variance(ratio, options, held, middle):
            low = middle + 1
        else:
            high = middle
    return low


def _disjoint_share(options: int, held: int, size: int) -> Fraction:
    """Returns the share of subsets that contain none of the options held, but a given other one."""
    # Such a subset is uniform among the options that are not held.
    return missing_share(options, size, held) * Fraction(size, options - held)


def _total_variance(ratio: Fraction, options: int, held: int, size: int) -> Fraction:
    """Returns the variance summed over all options, per user."""
    missing, drawn = missing_share(options, size, held), Fraction(size, options)
    disjoint = _disjoint_share(options, held, size)
    scale = ratio * (1 - missing) + missing
    own = ratio * drawn / scale
    other = (ratio * (drawn - disjoint) + disjoint) / scale
    return (held * own * (1 - own) + (options - held) * other * (1 - other)) / (own - other) ** 2
