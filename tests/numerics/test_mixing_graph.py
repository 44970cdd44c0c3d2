"""The graph of a permutation against all permutations, and what it bounds against all messages of all inputs."""

import itertools
from collections.abc import Iterator
from fractions import Fraction
from math import comb, factorial, prod

import numpy as np
import pytest
from flint import arb

from shuffledp.mechanisms.correlated_noise.split_and_mix import MAX_EXACT_OWNERS, MixingGraph, mixing_distance
from shuffledp.numerics.ball_arithmetic import round_up, to_rational
from tests.oracle.shared_messages import Counts, combine_multisets, user_multisets


def components(permutation: tuple[int, ...], owners: int, places: int) -> int:
    """Components of the graph, by flooding."""
    edges: dict[int, set[int]] = {k: set() for k in range(owners)}
    for source, target in enumerate(permutation):
        edges[source // places].add(target // places)
        edges[target // places].add(source // places)
    left, found = set(range(owners)), 0
    while left:
        waiting, found = [left.pop()], found + 1
        while waiting:
            near = edges[waiting.pop()] & left
            left -= near
            waiting += near
    return found


@pytest.mark.parametrize(
    ("owners", "places", "base"),
    [(2, 1, 3), (2, 2, 3), (2, 3, 5), (2, 4, 3), (3, 1, 2), (3, 2, 5), (4, 1, 5), (4, 2, 3), (5, 1, 7), (1, 3, 4)],
)
def test_the_mean_is_that_over_all_permutations(owners: int, places: int, base: int) -> None:
    powers = [base ** (components(one, owners, places) - 1) for one in itertools.permutations(range(owners * places))]
    truth = Fraction(sum(powers), len(powers)) - 1
    found = MixingGraph(places, base).excess(owners)

    assert found.overlaps(arb(to_rational(truth)))
    assert float(found) == pytest.approx(float(truth), rel=1e-15)


def closed_set_bound(owners: int, places: int, base: int) -> float:
    """(N − 1)·C(n, k)/C(nm, km) for the sets of one owner alone: a part of the mean, by floats."""
    return owners * (base - 1) / comb(owners * places, places)


@pytest.mark.parametrize(("places", "base"), [(2, 3), (3, 2**12), (4, 2**16), (6, 2**31), (9, 2**32)])
def test_beyond_what_is_computed_the_bound_goes_on_without_a_jump(places: int, base: int) -> None:
    graph = MixingGraph(places, base)
    last, next_ = round_up(graph.excess(MAX_EXACT_OWNERS)), round_up(graph.excess(MAX_EXACT_OWNERS + 1))
    assert last * 0.98 <= next_ <= last
    # No component is more likely to be missed than a single owner; the bound is above that part, and near it.
    for owners in (10_000, 10**6, 10**9):
        part = closed_set_bound(owners, places, base)
        assert part * 0.999999 <= round_up(graph.excess(owners)) <= part * 1.01


def test_many_owners_are_bounded_as_few_are_computed() -> None:
    """The proof for all numbers of owners against the exact mean, where both exist."""
    from shuffledp.mechanisms.correlated_noise.split_and_mix import _find_proof

    for places, base in ((2, 3), (2, 1024), (5, 2**21), (7, 2**21), (9, 2**60)):
        graph = MixingGraph(places, base)
        proof = _find_proof(graph)
        assert proof is not None
        for owners in (proof.known_means, proof.known_means + 1, 2 * proof.known_means):
            assert graph.excess(owners) <= proof.excess(owners)
        assert proof.excess(2 * proof.known_means) <= 1.05 * graph.excess(2 * proof.known_means)


@pytest.mark.parametrize(
    ("users", "bits", "sigma", "messages"),
    [(10**4, 21, 32, 8), (10**4, 32, 40, 10), (10**6, 31, 32, 7), (10**8, 40, 36, 6)],
)
def test_so_many_messages_are_enough(users: int, bits: int, sigma: int, messages: int) -> None:
    """Two to three fewer than the published closed form asks for."""
    assert mixing_distance(users, messages - 1, 1 << bits) <= arb(2) ** -sigma
    assert not mixing_distance(users, messages - 2, 1 << bits) <= arb(2) ** -sigma
    published = np.ceil((2 * sigma + bits) / (np.log2(users) - np.log2(np.e)) + 2)
    assert messages < published


def test_what_cannot_be_bounded_is_one() -> None:
    assert mixing_distance(10**6, 1, 1 << 20) == 1
    assert mixing_distance(2, 1, 1 << 20) == 1
    assert mixing_distance(1, 1, 1 << 20) == 0


# --- what it is for: the messages of all users tell hardly more than their sum -------------------------------------


def views(users: int, base: int, messages: int) -> Iterator[tuple[tuple[int, ...], Counts]]:
    """For each multiset of values, the multisets of all messages."""
    alone = [user_multisets(base, messages, value) for value in range(base)]
    for values in itertools.combinations_with_replacement(range(base), users):
        view = alone[values[0]]
        for value in values[1:]:
            view = combine_multisets(view, alone[value])
        yield values, view


def distance(users: int, base: int, messages: int) -> Fraction:
    """The largest total variation between the messages of one input and those of a uniform one with its sum."""
    found = list(views(users, base, messages))
    kinds = np.unique(np.concatenate([view[0] for _, view in found]))
    laws, orders = np.zeros((len(found), len(kinds)), dtype=np.int64), []
    for law, (values, (keys, ways)) in zip(laws, found, strict=True):
        law[np.searchsorted(kinds, keys)] = ways
        orders.append(factorial(users) // prod(factorial(values.count(one)) for one in set(values)))
    sums = np.array([sum(values) % base for values, _ in found])
    worst = 0
    for total in range(base):
        same = laws[sums == total]
        # Everything times N^(n−1), the number of inputs with one sum.
        average = (np.array(orders)[sums == total][:, None] * same).sum(axis=0)
        worst = max(worst, int(np.abs(same * base ** (users - 1) - average).sum(axis=1).max()))
    return Fraction(worst, 2 * base ** (users * (messages - 1) + users - 1))


SETTINGS = list(itertools.product((2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5)))


@pytest.mark.parametrize(("users", "base", "messages"), SETTINGS)
def test_the_messages_are_as_near_to_their_sum_as_is_said(users: int, base: int, messages: int) -> None:
    """All views of all inputs, up to four users, modulo five, five messages each."""
    truth, bound = distance(users, base, messages), round_up(mixing_distance(users, messages - 1, base))
    assert 0 < truth <= bound
    assert bound == 1 or bound <= 4 * truth
