"""Who is drawn out of many: a subset of a fixed size, or a coin for each. Exact, and as a bit for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from shuffledp.array import Bytes, Integers, Words
from shuffledp.sampling.random import RandomSource

AT_ONCE = 1 << 16
"""A multiple of 8: pieces begin at whole bytes."""
TOP_BITS = 16
"""Words are told apart by these first: few fall between those that are surely drawn and those that surely are not."""


def of_size(begin: Callable[[], RandomSource], people: int, size: int) -> Bytes:
    """Exactly ``size`` of ``people``, every such subset equally probable; a bit for each, the first one lowest.

    Everybody gets a word, and the smallest words are drawn; equal words get another one, until they differ. As no
    place is preferred, every subset is as probable as any other. ``begin`` starts the same stream each time: it is
    read twice, so that only the words about the last one drawn are kept.
    """
    if not 0 <= size <= people:
        raise ValueError(f"of_size: size must be between 0 and {people}, got {size}.")
    counts = np.zeros(1 << TOP_BITS, dtype=np.int64)
    for words in _pieces(begin(), people):
        counts += np.bincount(_top(words), minlength=len(counts))
    ends = np.cumsum(counts)
    last = int(np.searchsorted(ends, size))
    bits = np.zeros(-(-people // 8), dtype=np.uint8)
    near: list[Integers] = []
    near_words: list[Words] = []
    source, start = begin(), 0
    for words in _pieces(source, people):
        top = _top(words)
        bits[start // 8 : -(-(start + len(words)) // 8)] = np.packbits(top < last, bitorder="little")
        here = np.flatnonzero(top == last)
        near.append(here + start)
        near_words.append(words[here])
        start += len(words)
    wanted = size - int(ends[last] - counts[last]) if last < len(counts) else 0
    chosen = _smallest(source, np.concatenate(near), np.concatenate(near_words), wanted)
    np.bitwise_or.at(bits, chosen >> 3, np.left_shift(1, chosen & 7).astype(np.uint8))
    return bits


def by_coins(source: RandomSource, people: int, rate: Fraction) -> Bytes:
    """Each of ``people`` with exactly the probability ``rate``; a bit for each, the first one lowest."""
    bits = np.zeros(-(-people // 8), dtype=np.uint8)
    for start in range(0, people, AT_ONCE):
        heads = source.below(rate.denominator, min(AT_ONCE, people - start)) < rate.numerator
        bits[start // 8 : -(-(start + len(heads)) // 8)] = np.packbits(heads, bitorder="little")
    return bits


def _pieces(source: RandomSource, people: int) -> Iterator[Words]:
    """A word for each, some at a time."""
    for start in range(0, people, AT_ONCE):
        yield source.words(min(AT_ONCE, people - start))


def _top(words: Words) -> Integers:
    return (words >> np.uint64(64 - TOP_BITS)).astype(np.int64)


def _smallest(source: RandomSource, places: Integers, words: Words, wanted: int) -> Integers:
    """The places of the smallest words, as many as are wanted; of equal ones those with the smaller next words."""
    order = np.argsort(words, kind="stable")
    places, words = places[order], words[order]
    if wanted in (0, len(places)) or words[wanted - 1] != words[wanted]:
        return places[:wanted]
    first, end = np.searchsorted(words, words[wanted], side="left"), np.searchsorted(words, words[wanted], side="right")
    tied = places[first:end]
    return np.concatenate([places[:first], _smallest(source, tied, source.words(len(tied)), wanted - int(first))])
