"""Randomizers whose message is a set of options of a fixed size, likelier if it meets what the user holds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import comb

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Bytes
from shuffledp.mechanisms.mechanism import OutputTable
from shuffledp.mechanisms.parts import reference
from shuffledp.mechanisms.parts.old_reference import UniformReference
from shuffledp.mechanisms.parts.old_support import SupportOracle
from shuffledp.mechanisms.parts.own_region import OwnRegion, Regions
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import combination
from shuffledp.sampling.combination import missing_share


class SubsetResponse(UniformReference, SupportOracle):
    """The message is a uniform k-subset of the options with probability γ, else uniform among those that meet mine."""

    covers_mixtures = True
    size: int | None

    @property
    @abstractmethod
    def held(self) -> int:
        """How many options a user holds."""

    def _settle(self) -> None:
        """Check and store the fields; for the constructors."""
        who = type(self).__name__
        object.__setattr__(self, "epsilon", argument.positive_finite(who, "epsilon", self.epsilon))
        if self.size is not None:
            object.__setattr__(self, "size", argument.count(who, "size", self.size))
            most = self.options - self.held
            if self.size > most:
                raise ValueError(f"{who}: size must be at most {most}, got {self.size}.")
        _ = self.region

    @cached_property
    def subset_size(self) -> int:
        """k: the given size, or else the one with the smallest total variance."""
        return best_size(self.epsilon, self.options, self.held) if self.size is None else self.size

    @cached_property
    def region(self) -> OwnRegion:
        """The law: the region of a user is all subsets that meet what the user holds."""
        share = 1 - missing_share(self.options, self.subset_size, self.held)
        return OwnRegion(type(self).__name__, self.epsilon, share)

    @property
    def own_support(self) -> Fraction:
        return Fraction(self.subset_size, self.options) * self.region.inside

    @property
    def other_support(self) -> Fraction:
        d, k, s = self.options, self.subset_size, self.held
        without_mine = missing_share(d, k, s) * Fraction(k, d - s)
        with_mine = Fraction(k, d) - without_mine
        return with_mine * self.region.inside + without_mine * self.region.outside

    @property
    def message_bits(self) -> int:
        return combination.wire_bits(self.options, self.subset_size)

    def pack(self, messages: Array) -> Bytes:
        return combination.pack(messages, self.options)

    def unpack(self, wire: Bytes) -> Array:
        return combination.unpack(type(self).__name__, wire, self.options, self.subset_size)

    def accumulate(self, messages: Array) -> Array:
        flat = messages.reshape(-1)
        total = np.zeros(self.options, dtype=np.int64)
        batch = max(self.options, combination.WORKING_CELLS)
        for start in range(0, len(flat), batch):
            total += np.bincount(flat[start : start + batch], minlength=self.options)
        return total

    @property
    def reference_words(self) -> int:
        return reference.WORDS_OF_AN_INTEGER * self.subset_size

    def reference_messages(self, words: NDArray[np.uint64]) -> Array:
        """One option after another: the number of one of those left, raised past each smaller one that is chosen."""
        chosen = np.empty((len(words), 0), dtype=np.int64)
        for place in range(self.subset_size):
            first = reference.WORDS_OF_AN_INTEGER * place
            left = words[:, first : first + reference.WORDS_OF_AN_INTEGER]
            option = reference.integers_below(self.options - place, left)
            for column in chosen.T:
                option += option >= column
            chosen = np.sort(np.column_stack([chosen, option]), axis=1)
        return chosen.astype(combination.number_type(self.options))

    def owns(self, values: Array, messages: Array) -> NDArray[np.bool_]:
        held = values.reshape(len(values), -1)
        return np.asarray((messages[:, :, None] == held[:, None, :]).any(axis=(1, 2)))

    def only_one(self, overlap: int) -> Fraction:
        """The share of subsets that meet one user's options and not another's, who share ``overlap`` of them."""
        d, k, s = self.options, self.subset_size, self.held
        return missing_share(d, k, s) - missing_share(d, k, 2 * s - overlap)

    @property
    def least_overlap(self) -> int:
        """The worst pair of inputs shares as few options as possible; see ``OwnRegion.pair``."""
        return max(0, 2 * self.held - self.options)

    def variation_ratio(self) -> VariationRatio:
        # A message that meets both is p times likelier than for a user whom it does not meet.
        meets_one_user_only = self.held == self.subset_size == 1
        return self.region.variation_ratio(self.only_one(self.least_overlap), 1.0 if meets_one_user_only else None)

    def blankets(self) -> Sequence[HidingPair]:
        return [self.region.pair(self.only_one(self.least_overlap))]

    def attacks(self) -> Sequence[HidingPair]:
        """The worst pair, where all others hold options outside both, and where these are too few, the first's."""
        both = 2 * self.held - self.least_overlap
        outside = min(self.held, self.options - both)
        unions: dict[Regions, int] = {
            (False, False, False): 0,
            (True, True, False): both,
            (False, True, True): both,
            (True, False, True): self.held + outside,
            (True, True, True): both + outside,
        }
        unions.update({key: self.held for key in product((False, True), repeat=3) if sum(key) == 1})
        missing = {key: missing_share(self.options, self.subset_size, union) for key, union in unions.items()}
        return [self.region.attack(_shares(missing), symmetric=outside == self.held)]

    def _table(self, inputs: Array, held: Sequence[Sequence[int]]) -> OutputTable:
        messages = list(combinations(range(self.options), self.subset_size))
        uniform = Fraction(1, comb(self.options, self.subset_size))
        inside, outside = self.region.inside * uniform, self.region.outside * uniform
        rows = tuple(tuple(outside if set(own).isdisjoint(y) else inside for y in messages) for own in held)
        return OutputTable(inputs, np.array(messages, dtype=combination.number_type(self.options)), rows)


def _shares(missing: Mapping[Regions, Fraction]) -> dict[Regions, Fraction]:
    """Shares of the subsets that meet exactly these of three sets, from the shares that miss (at least) those."""
    every = list(product((False, True), repeat=3))
    result = {}
    for meets in every:
        missed = tuple(not m for m in meets)
        beyond = [key for key in every if all(k or not m for k, m in zip(key, missed, strict=True))]
        result[meets] = sum((missing[key] * (-1) ** (sum(key) - sum(missed)) for key in beyond), Fraction(0))
    return result


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
