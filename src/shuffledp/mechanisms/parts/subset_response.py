"""Messages that are a set of options of a fixed size, likelier if it meets what the user holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Bytes, Integers, Words
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.own_region import Kinds, OwnRegion, RegionLaw, Regions
from shuffledp.mechanisms.parts.reference import WORDS_OF_AN_INTEGER, UniformReference, integers_below
from shuffledp.mechanisms.parts.support import Pairs, SupportReading
from shuffledp.mechanisms.parts.wire import Mask, Wire
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.pair import HidingPair
from shuffledp.sampling import combination
from shuffledp.sampling.combination import missing_share

MOST_THIRDS = 80
"""Kinds of third users that are told apart."""


@dataclass(frozen=True)
class MeetingSubsets:
    """The k-subsets of d options, and how many of them meet the s options that a user holds: the user's region."""

    options: int
    size: int
    """k."""
    held: int
    """s."""

    @property
    def share(self) -> Fraction:
        """Of all subsets, those that meet a user's options."""
        return 1 - missing_share(self.options, self.size, self.held)

    def only_one(self, overlap: int) -> Fraction:
        """The share of subsets that meet one user's options and not another's, who share ``overlap`` of them."""
        d, k, s = self.options, self.size, self.held
        return missing_share(d, k, s) - missing_share(d, k, 2 * s - overlap)

    @property
    def least_overlap(self) -> int:
        """The worst pair of inputs shares as few options as possible; see ``OwnRegion.pair``."""
        return max(0, 2 * self.held - self.options)

    def law(self, region: OwnRegion) -> RegionLaw:
        # A message that meets both is p times likelier than for a user whom it does not meet.
        q_common = 1.0 if self.held == self.size == 1 else None
        only_one, attacked = self.only_one(self.least_overlap), tuple(self._attacks(region))
        return MeetingLaw(
            region, only_one, q_common=q_common, attacked=attacked, tight=True, covers_mixtures=True,
            space=(region.who, self.options, self.size, self.held), subsets=self,
        )  # fmt: skip

    def shares(self, overlap: int, third: Held) -> dict[Regions, Fraction]:
        """Of all subsets, by whether they meet what the first, the second and a third user hold.

        The first two share ``overlap`` options; the third holds so many of those, of the first's and of the second's.
        """
        s, (common, first, second) = self.held, third
        both = 2 * s - overlap
        unions: dict[Regions, int] = {
            (False, False, False): 0,
            (True, True, False): both,
            (True, False, True): 2 * s - common - first,
            (False, True, True): 2 * s - common - second,
            (True, True, True): both + s - common - first - second,
        }
        unions |= {key: s for key in product((False, True), repeat=3) if sum(key) == 1}
        return _shares({key: missing_share(self.options, self.size, union) for key, union in unions.items()})

    def thirds(self, overlap: int) -> Iterator[Held]:
        """What a third user may hold of what two users do who share ``overlap`` options."""
        s, alone = self.held, self.held - overlap
        outside = self.options - 2 * s + overlap
        for common, first, second in product(range(overlap + 1), range(alone + 1), range(alone + 1)):
            if 0 <= s - common - first - second <= outside:
                yield Held(common, first, second)

    def _attacks(self, region: OwnRegion) -> Iterator[HidingPair]:
        """The worst pair, where all others hold options outside both; or where large subsets, which meet nearly
        everything, meet those better than what the first holds, the same as the first."""
        outside = self._outside_attack(region)
        yield outside
        alike = Held(self.least_overlap, self.held - self.least_overlap, 0)
        same = region.attack(self.shares(self.least_overlap, alike), symmetric=False)
        if same.spread() > outside.spread():
            yield same

    def _outside_attack(self, region: OwnRegion) -> HidingPair:
        """All others hold options outside both, and where these are too few, the first's."""
        both = 2 * self.held - self.least_overlap
        outside = min(self.held, self.options - both)
        common = min(self.least_overlap, self.held - outside)
        shares = self.shares(self.least_overlap, Held(common, self.held - outside - common, 0))
        return region.attack(shares, symmetric=outside + common == self.held)

    def reading(self, region: OwnRegion) -> SubsetReading:
        d, k, s = self.options, self.size, self.held
        without_mine = missing_share(d, k, s) * Fraction(k, d - s)
        with_mine = Fraction(k, d) - without_mine
        other = with_mine * region.inside + without_mine * region.outside
        return SubsetReading(d, Fraction(k, d) * region.inside, other, size=k, held=s)

    def table(self, region: OwnRegion, inputs: Array, held: Sequence[Sequence[int]]) -> OutputTable:
        """The exact law of users who hold these options, for few of them."""
        messages = list(combinations(range(self.options), self.size))
        uniform = Fraction(1, comb(self.options, self.size))
        inside, outside = region.inside * uniform, region.outside * uniform
        rows = tuple(tuple(outside if set(own).isdisjoint(y) else inside for y in messages) for own in held)
        return OutputTable(inputs, np.array(messages, dtype=combination.number_type(self.options)), rows)


class Held(NamedTuple):
    """How many options a third user holds of those that two users share, and of those of either alone."""

    common: int
    first: int
    second: int


@dataclass(frozen=True)
class MeetingLaw(RegionLaw):
    """The law of subsets that meet what a user holds: the regions of two users and a third are known exactly."""

    subsets: MeetingSubsets = field(kw_only=True)

    def families(self, hider: OwnRegion) -> Sequence[Kinds]:
        """Every two users, by how much they share, and every third one; where these are too many, any region."""
        subsets = self.subsets
        known = {overlap: list(subsets.thirds(overlap)) for overlap in range(subsets.least_overlap, subsets.held)}
        if max(map(len, known.values())) > MOST_THIRDS:
            return super().families(hider)
        return [
            tuple(self.region.attack(subsets.shares(overlap, third), symmetric=False, hider=hider) for third in thirds)
            for overlap, thirds in known.items()
        ]


@dataclass(frozen=True)
class SubsetWire(Wire):
    """A message is ``size`` option numbers in increasing order, or a bit for each option where that is shorter."""

    who: str
    options: int
    size: int

    @property
    def bits(self) -> int:
        return combination.wire_bits(self.options, self.size)

    @property
    def expected(self) -> str:
        return f"messages of {self.size} different options out of {self.options}"

    def pack(self, messages: Array) -> Bytes:
        return combination.pack(messages, self.options)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        return combination.unpack(rows, self.options, self.size)


@dataclass(frozen=True)
class SubsetReading(SupportReading):
    """A message supports the ``size`` options that it names; a user holds ``held``."""

    size: int = field(kw_only=True)
    held: int = field(kw_only=True)

    @property
    def pairs(self) -> Pairs | None:
        """The number of pairs in a message is fixed, and every two options besides the own one are alike."""
        d, k, s = self.options, self.size, self.own
        if self.held > 1:
            return None
        others = s * (k - 1) * (k - 2) + (1 - s) * k * (k - 1)
        return Pairs(s * Fraction(k - 1, d - 1), others / ((d - 1) * (d - 2)) if d > 2 else Fraction(0))

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return asked.counts(messages.reshape(-1))

    def accumulate(self, messages: Array) -> Array:
        flat = messages.reshape(-1)
        total = np.zeros(self.options, dtype=np.int64)
        batch = max(self.options, combination.WORKING_CELLS)
        for start in range(0, len(flat), batch):
            total += np.bincount(flat[start : start + batch], minlength=self.options)
        return total


@dataclass(frozen=True)
class UniformSubset(UniformReference):
    """The reference law: every subset of this size alike."""

    options: int
    size: int

    @property
    def words(self) -> int:
        return WORDS_OF_AN_INTEGER * self.size

    @property
    def steps(self) -> float:
        return float(self.size**2)

    def messages(self, words: Words) -> Array:
        """One option after another: the number of one of those left, raised past each smaller one that is chosen."""
        chosen = np.empty((len(words), 0), dtype=np.int64)
        for place in range(self.size):
            first = WORDS_OF_AN_INTEGER * place
            option = integers_below(self.options - place, words[:, first : first + WORDS_OF_AN_INTEGER])
            for column in chosen.T:
                option += option >= column
            chosen = np.sort(np.column_stack([chosen, option]), axis=1)
        return chosen.astype(combination.number_type(self.options))


def meets(values: Array, messages: Array) -> NDArray[np.bool_]:
    """Whether each message contains an option of the user beside it."""
    held = values.reshape(len(values), -1)
    return np.asarray((messages[:, :, None] == held[:, None, :]).any(axis=(1, 2)))


def _shares(missing: Mapping[Regions, Fraction]) -> dict[Regions, Fraction]:
    """Shares of the subsets that meet exactly these of three sets, from the shares that miss (at least) those."""
    every = list(product((False, True), repeat=3))
    result = {}
    for meets in every:
        missed = tuple(not m for m in meets)
        beyond = [key for key in every if all(k or not m for k, m in zip(key, missed, strict=True))]
        result[meets] = sum((missing[key] * (-1) ** (sum(key) - sum(missed)) for key in beyond), Fraction(0))
    return result


def chosen_size(who: str, epsilon: float, options: int, held: int, size: int | None) -> int:
    """k: the given size, or else the one with the smallest total variance."""
    if size is None:
        return best_size(epsilon, options, held)
    number, most = argument.count(who, "size", size), options - held
    if number > most:
        raise ValueError(f"{who}: size must be at most {most}, got {number}.")
    return number


def best_size(epsilon: float, options: int, held: int) -> int:
    """The size that minimises the variance summed over all options, exactly (but for e^ε, rounded to a float).

    That sum does not depend on the data, and has one valley as a function of the size (checked by enumeration).
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


def _total_variance(ratio: Fraction, options: int, held: int, size: int) -> Fraction:
    missing, drawn = missing_share(options, size, held), Fraction(size, options)
    without_mine = missing * Fraction(size, options - held)
    scale = ratio * (1 - missing) + missing
    own = ratio * drawn / scale
    other = (ratio * (drawn - without_mine) + without_mine) / scale
    return (held * own * (1 - own) + (options - held) * other * (1 - other)) / (own - other) ** 2
