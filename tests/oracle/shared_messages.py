"""Multisets of messages that are shares modulo N, in how many ways or how likely: all of them, for tiny sizes."""

import itertools

import numpy as np

Counts = tuple[np.ndarray, np.ndarray]
"""Multisets, written as sums of a base to the power of a message, and in how many ways each of them comes about."""


def combine_multisets(first: Counts, second: Counts) -> Counts:
    """The multisets of both together."""
    keys, ways = (first[0][:, None] + second[0]).ravel(), (first[1][:, None] * second[1]).ravel()
    kinds, places = np.unique(keys, return_inverse=True)
    total = np.zeros(len(kinds), dtype=ways.dtype)
    np.add.at(total, places, ways)
    return kinds, total


def user_multisets(base: int, messages: int, value: int) -> Counts:
    """The multisets of a user's messages, which sum to its value."""
    shares = np.array(list(itertools.product(range(base), repeat=messages)))
    good = shares[shares.sum(axis=1) % base == value]
    room = (np.int64(1) << np.int64(62 // base)) if base > 12 else np.int64(32)
    keys, ways = np.unique((room**good).sum(axis=1), return_counts=True)
    return keys, ways
