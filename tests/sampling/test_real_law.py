"""Exact draws of laws with irrational probabilities: frequencies, and the words on which a digit does not decide."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from flint import arb
from mpmath import mp, mpf
from scipy import stats

from shuffledp._core.validation import Words
from shuffledp.sampling.noise import ChoiceLaw, LogarithmicLaw, PoissonLaw, RealLaw
from shuffledp.sampling.random_sources import WORD_RANGE, RandomSource, SeededSource

DRAWS = 400_000


class Told(RandomSource):
    """Words as they are told."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> Words:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


def poisson(mean: float) -> Callable[[int], float]:
    return lambda k: math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1))


def logarithmic(ratio: float) -> Callable[[int], float]:
    return lambda k: ratio**k / (k * -math.log1p(-ratio))


LAWS: dict[str, tuple[RealLaw, Callable[[int], float]]] = {
    "poisson 0.05": (PoissonLaw(lambda: arb(0.05)), poisson(0.05)),
    "poisson 3": (PoissonLaw(lambda: arb(3)), poisson(3.0)),
    "poisson 60": (PoissonLaw(lambda: arb(60)), poisson(60.0)),
    "logarithmic 0.5": (LogarithmicLaw(lambda: arb(0.5)), logarithmic(0.5)),
    "logarithmic 0.97": (LogarithmicLaw(lambda: arb(0.97)), logarithmic(0.97)),
    "choice": (ChoiceLaw((lambda: arb(1), lambda: arb(2), lambda: arb(4))), lambda k: (1 << k) / 7 if k < 3 else 0.0),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_frequencies_are_those_of_the_law(name: str) -> None:
    law, chance = LAWS[name]
    drawn = law.draw(SeededSource(np.random.default_rng(5)), DRAWS)
    counts = np.bincount(drawn)
    expected = np.array([chance(k) if k >= law.first else 0.0 for k in range(len(counts))]) * DRAWS
    large = expected > 20
    found = np.append(counts[large], DRAWS - counts[large].sum())
    told = np.append(expected[large], DRAWS - expected[large].sum())
    told, found = (told[:-1], found[:-1]) if told[-1] < 5 else (told, found)
    statistic = float(np.sum((found - told) ** 2 / told))
    assert stats.chi2.sf(statistic, len(told)) > 1e-4


def test_a_digit_that_does_not_decide_is_followed_by_more() -> None:
    """The first digit of a cumulative probability: the next one decides, on either side of it."""
    mp.dps = 60
    cumulative = sum(mp.e ** mpf("-1.5") * mpf("1.5") ** k / mp.factorial(k) for k in range(4))
    first, rest = divmod(cumulative * WORD_RANGE, 1)
    second, third = divmod(rest * WORD_RANGE, 1)
    law, digit, after = PoissonLaw(lambda: arb(1.5)), int(first), int(second)
    assert law.draw(Told(digit, after - 1), 1).tolist() == [3]
    assert law.draw(Told(digit, after + 1), 1).tolist() == [4]
    assert law.draw(Told(digit, after, int(third * WORD_RANGE) - 1), 1).tolist() == [3]
    assert law.draw(Told(digit, after, int(third * WORD_RANGE) + 1), 1).tolist() == [4]
    assert law.draw(Told(digit - 1), 1).tolist() == [3]
    assert law.draw(Told(digit + 1), 1).tolist() == [4]


def test_the_last_digit_of_all_is_followed_by_more() -> None:
    law = PoissonLaw(lambda: arb(1.5))
    (near,) = law.draw(Told(WORD_RANGE - 1, 0), 1).tolist()
    (far,) = law.draw(Told(WORD_RANGE - 1, WORD_RANGE - 1, 0), 1).tolist()
    assert 15 < near < far < 60
