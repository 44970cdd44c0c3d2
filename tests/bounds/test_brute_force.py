"""No upper bound is below the truth: every bound against brute force over all datasets and all pairs of inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp.bounds import BOUND_OF
from shuffledp.mechanisms.catalogue import all_mechanisms
from tests.oracle import exact, reports

MOST_WORK = 400_000
"""Cells of counts × datasets that one brute force may visit."""


def _work(inputs: int, outputs: int, users: int) -> int:
    cells = math.comb(users + outputs - 1, outputs - 1)
    datasets = math.comb(users - 1 + inputs - 1, inputs - 1)
    return cells * datasets * inputs**2


def _compare(mechanism: Any, truth: Fraction, users: int, ratio: Fraction) -> None:
    epsilon = math.nextafter(math.log(float(ratio)), 0.0)
    for name, bound in BOUND_OF.items():
        if not bound.guarantees:
            continue
        try:
            value = bound.curve(mechanism, mechanism.hiding_messages(users)).delta(epsilon)
        except sdp.NotApplicable:
            continue
        assert value.upper >= float(truth) * (1 - 1e-12), name
    lower = sdp.amplify(mechanism, users).delta(epsilon).lower
    if lower is not None:
        # ε is a hair below log(ratio): the divergence there may be larger by that hair, e^ε times two steps of a float.
        assert lower <= float(truth) * (1 + 1e-9) + 1e-15


def _truth(mechanism: Any, rows: Any, users: int, ratio: Fraction) -> Fraction:
    """The worst dataset; where users send several messages, over all reports with their order forgotten."""
    if mechanism.messages_per_user > 1:
        return reports.worst_divergence(reports.laws_of(mechanism.table()), users, ratio)
    return exact.worst_divergence(rows, users, ratio)


def _examples() -> Iterator[Any]:
    for name, kind in all_mechanisms().items():
        for number, example in enumerate(kind.examples()):
            if example.has_table:
                yield pytest.param(example, id=f"{name}-{number}")


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", list(_examples()))
def test_the_catalogue_against_all_datasets(mechanism: Any) -> None:
    """For up to seven users, as far as brute force reaches, no bound is below the worst dataset, no attack above it."""
    rows = [list(row) for row in mechanism.table().probabilities]
    tried = 0
    for users in (1, 2, 3, 5, 7):
        if _work(len(rows), len(rows[0]), users) <= MOST_WORK:
            tried += 1
            for ratio in (Fraction(17, 16), Fraction(3, 2)):
                _compare(mechanism, _truth(mechanism, rows, users, ratio), users, ratio)
    assert tried >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_random_extremal_tables_against_all_datasets(seed: int) -> None:
    """On random tables with entries in ratio 1 or e^ε0, no bound is below the worst dataset."""
    rng = Random(seed)
    local = Fraction(rng.choice([3, 4, 8]), 2)
    rows = exact.random_extremal_table(rng, rng.choice([2, 3]), rng.choice([3, 4]), local)
    mechanism = sdp.FromTable([[float(chance) for chance in row] for row in rows])
    executed = [list(row) for row in mechanism.table().probabilities]
    users = rng.choice([2, 3, 4, 5]) if seed % 10 else 7
    ratio = 1 + (local - 1) * Fraction(rng.randint(1, 15), 16)
    _compare(mechanism, exact.worst_divergence(executed, users, ratio), users, ratio)
