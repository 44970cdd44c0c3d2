"""Shares of noise against their laws, computed another way; chi-square with false alarms below 1e-7."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from shuffledp.sampling.noise import LogarithmicSize, PolyaDifference, SkellamDifference
from shuffledp.sampling.random_sources import resolve_source

ALARM = 1e-7


def demand(found: np.ndarray, chances: np.ndarray) -> None:
    """A chi-square test; the last chance is that of everything beyond."""
    seen = np.bincount(np.minimum(found, len(chances) - 1), minlength=len(chances))
    expected = chances * len(found)
    keep = expected >= 5
    observed = np.append(seen[keep], seen[~keep].sum())
    wanted = np.append(expected[keep], expected[~keep].sum())
    good = wanted > 0
    statistic = ((observed[good] - wanted[good]) ** 2 / wanted[good]).sum()
    assert statistic < stats.chi2.isf(ALARM, max(1, good.sum() - 1))


@pytest.mark.parametrize("rate", [Fraction(3), Fraction(1, 2), Fraction(1, 50)])
def test_sizes_are_logarithmic(rate: Fraction) -> None:
    found = LogarithmicSize(rate).draw(resolve_source(np.random.default_rng(1)), 200_000)
    k = np.arange(1, 1500)
    chances = np.exp(-float(rate) * k) / k / -math.log(-math.expm1(-float(rate)))
    demand(found, np.concatenate([[0.0], chances, [max(0.0, 1 - chances.sum())]]))


def test_large_sizes_are_logarithmic_too() -> None:
    """A mean cluster of 1e7 and more: the law of log k in bins."""
    rate = 1e-9
    found = LogarithmicSize(Fraction(rate)).draw(resolve_source(np.random.default_rng(2)), 100_000)
    # Σ_{k>x} λ^k/k is the exponential integral E1(rate·x), but for a thousandth of a percent at these x.
    edges = 10.0 ** np.arange(2, 12)
    norm = -math.log(-math.expm1(-rate))
    beyond = special.exp1(rate * (edges + 0.5)) / norm
    chances = np.concatenate([[1 - beyond[0]], -np.diff(beyond), [beyond[-1]]])
    demand(np.searchsorted(edges, found, side="left"), chances)


@pytest.mark.parametrize(("rate", "shape"), [(Fraction(1, 3), Fraction(1, 4)), (Fraction(1), Fraction(1))])
def test_shares_are_differences_of_negative_binomials(rate: Fraction, shape: Fraction) -> None:
    found = PolyaDifference(rate, shape).draw(resolve_source(np.random.default_rng(3)), 300_000)
    k = np.arange(400)
    one = stats.nbinom.pmf(k, float(shape), -math.expm1(-float(rate)))
    law = np.convolve(one, one[::-1])
    low = len(k) - 1 - 60
    chances = np.append(law[low : low + 121], 0.0)
    chances[0] += law[:low].sum()
    chances[-1] = max(0.0, 1 - chances.sum())
    demand(np.maximum(found + 60, 0), chances)


def test_shares_of_everybody_add_up_to_the_discrete_laplace() -> None:
    people, rate = 7, Fraction(1, 5)
    drawn = PolyaDifference(rate, Fraction(1, people)).draw(resolve_source(np.random.default_rng(4)), people * 60_000)
    found = drawn.reshape(-1, people).sum(axis=1)
    ratio = math.exp(-float(rate))
    z = np.arange(-80, 81)
    chances = np.append((1 - ratio) / (1 + ratio) * ratio ** np.abs(z), 0.0)
    chances[0] /= 1 - ratio
    chances[-1] = max(0.0, 1 - chances.sum())
    demand(np.maximum(found + 80, 0), chances)


@pytest.mark.parametrize("mean", [Fraction(1, 7), Fraction(40), Fraction(3000)])
def test_differences_of_poissons(mean: Fraction) -> None:
    found = SkellamDifference(mean).draw(resolve_source(np.random.default_rng(5)), 100_000)
    reach = int(8 * math.sqrt(2 * mean)) + 3
    z = np.arange(-reach, reach + 1)
    chances = np.append(stats.skellam.pmf(z, float(mean), float(mean)), 0.0)
    chances[0] += stats.skellam.cdf(-reach - 1, float(mean), float(mean))
    chances[-1] = max(0.0, 1 - chances.sum())
    demand(np.maximum(found + reach, 0), chances)


def test_shares_survive_pickling() -> None:
    for share in (PolyaDifference(Fraction(1, 9), Fraction(1, 2)), SkellamDifference(Fraction(9, 2))):
        share.draw(resolve_source(np.random.default_rng(0)), 100)
        again = pickle.loads(pickle.dumps(share))
        drawn = [one.draw(resolve_source(np.random.default_rng(6)), 1000) for one in (share, again)]
        assert again == share
        assert (drawn[0] == drawn[1]).all()
