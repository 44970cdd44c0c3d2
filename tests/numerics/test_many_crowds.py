"""Chernoff bounds of many families at once: never below the truth, and near enough to be of use."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from shuffledp.numerics.worst_case_positive_part import MessageProbabilities, chi_squared_distances, log_chernoff

from .test_worst_crowd import compositions, exact_mean

Row = list[Fraction]


def random_row(rng: Random, length: int) -> Row:
    weights = [rng.randint(1, 9) for _ in range(length)]
    return [Fraction(weight, sum(weights)) for weight in weights]


def view_of(first: Row, second: Row, hiding: list[Row]) -> MessageProbabilities:
    return MessageProbabilities(*(np.array(rows, dtype=np.float64) for rows in (first, second, hiding)))


def law_of(first: Row, second: Row, hiding: Row, ratio: Fraction) -> list[tuple[Fraction, Fraction]]:
    return [((a - ratio * b) / h, h) for a, b, h in zip(first, second, hiding, strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_no_crowd_is_worse(seed: int) -> None:
    """Families of different shapes together, every crowd of each, in fractions."""
    rng = Random(seed)
    ratio = Fraction(rng.choice([21, 23, 30]), 20)
    epsilon = math.nextafter(math.log(ratio), 0.0)
    count = rng.choice([1, 2, 4])
    families = []
    for messages in (2, 3, 3):
        first, second = random_row(rng, messages), random_row(rng, messages)
        families.append((first, second, [random_row(rng, messages) for _ in range(rng.choice([1, 3]))]))
    found = np.exp(log_chernoff([view_of(*one) for one in families], epsilon, np.array([float(count)])))
    for (first, second, hiding), bound in zip(families, found[:, 0], strict=True):
        laws = [law_of(first, second, row, ratio) for row in hiding]
        truth = max(exact_mean(laws, parts) for parts in compositions(count, len(laws))) / count
        assert bound >= float(truth) * (1 - 1e-12)
        assert bound <= 30 * float(truth) + 1


def test_revealed_mass_tells_nothing() -> None:
    """Half of a law, the rest at 0, is the law with G doubled half of the time."""
    half = MessageProbabilities(np.array([0.6, 0.4]), np.array([0.4, 0.6]), np.array([[0.25, 0.25]]))
    whole = MessageProbabilities(np.array([0.6, 0.4, 0.0]), np.array([0.4, 0.6, 0.0]), np.array([[0.25, 0.25, 0.5]]))
    counts = np.array([50.0, 20.0])
    assert log_chernoff([half], 0.1, counts) == pytest.approx(log_chernoff([whole], 0.1, counts), rel=1e-9)
    assert chi_squared_distances(half) == pytest.approx([0.32])
    assert chi_squared_distances(whole) == pytest.approx([0.32])


def test_it_is_of_use() -> None:
    """A normal sum is 5 standard deviations below 0 on average: within a factor of 10 of e^(−25/2)."""
    view = MessageProbabilities(np.array([0.6, 0.4]), np.array([0.4, 0.6]), np.array([[0.5, 0.5]]))
    count, epsilon = 10_000, 0.02
    (found,) = log_chernoff([view], epsilon, np.array([float(count)]))[0]
    mean, deviation = count * math.expm1(epsilon), math.sqrt(count * 0.16)
    assert -0.5 * (mean / deviation) ** 2 - math.log(count) - 3 < found < -0.5 * (mean / deviation) ** 2 + 2
