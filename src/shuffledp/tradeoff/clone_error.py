"""The two errors of every likelihood-ratio test of the clone pair, at any number of users."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.numerics.special import betainc
from shuffledp.privacy.record import Record
from shuffledp.tradeoff.shuffled import BinomialWindow, binomial_window

ROUNDING = 1e-12
"""A threshold within this of a knot is taken for the knot: the point is on the curve either way."""


@dataclass(frozen=True)
class CloneErrors(Record):
    """Errors of the tests of the stronger clones' pair for ``users`` messages of an ε0-LDP randomizer.

    Theorem: [FDP] Proposition 4.1: w = 1/(e^ε0+1), C ~ Bin(n−1, 2w), F_i the distribution function of Bin(i, ½),
    s_i = ⌊i − (i+1)/(t+1)⌋: fpr_0(t) = Σ P(C=i)·F_i(s_i), fnr_0(t) = Σ P(C=i)·(1 − F_i(s_i+1)).
    Requires: ε0 > 0 and finite; users ≥ 1.
    Returns: floats, good to about 1e-12.
    Deviates: print has F_i(s_i+1) for the type II error in one place (FD-5).
    """

    epsilon_local: float
    users: int

    def __post_init__(self) -> None:
        local = argument.positive_finite("CloneErrors", "epsilon_local", self.epsilon_local, up=True)
        object.__setattr__(self, "epsilon_local", local)
        object.__setattr__(self, "users", argument.count("CloneErrors", "users", self.users))

    @property
    def weight(self) -> float:
        """w: how often user 1's message looks like the other input's."""
        return 1.0 / (math.exp(self.epsilon_local) + 1.0)

    @cached_property
    def _clones(self) -> BinomialWindow:
        return binomial_window(self.users - 1, 2 * self.weight)

    def inner(self, thresholds: ArrayLike) -> tuple[Floats, Floats]:
        """(fpr_0, fnr_0) of P_0 = (A+1, C−A) against Q_0 = (A, C−A+1) where p_0/q_0 ≤ t is rejected."""
        clones, chance = self._clones.counts.astype(np.float64), self._clones.masses
        found = []
        for t in np.atleast_1d(np.asarray(thresholds, dtype=np.float64)).tolist():
            last = np.floor((clones - (clones + 1) / (t + 1)) + ROUNDING * (clones + 1))
            found.append((np.dot(chance, _at_most(last, clones)), np.dot(chance, _above(last + 1, clones))))
        fpr, fnr = (np.array(column) for column in zip(*found, strict=True))
        return fpr, fnr

    def exact(self, thresholds: ArrayLike) -> tuple[Floats, Floats]:
        """Points (fpr, fnr) of the pair's exact curve, for thresholds of p_0/q_0.

        Theorem: exact curve of an exchange, from [FDP] Proposition 4.1.
        Deviates: [FDP] Theorem 4.2 gives a lower curve only (FD-3).
        """
        fpr, fnr = self.inner(thresholds)
        w = self.weight
        return (1 - w) * fpr + w * (1 - fnr), (1 - w) * fnr + w * (1 - fpr)

    def published_delta(self, epsilon: float) -> float:
        """δ(ε) of Theorem 4.2's curve, at the one threshold that attains it.

        Theorem: [FDP] Corollary 4.3: t_ε = (1−2w)/(e^ε−2w), δ = 1 − e^ε·fpr_0 − 2w·(1−fpr_0) − (1−2w)·fnr_0.
        Requires: ε ≥ 0.
        Returns: the published bound in floats, for reproduction; digits are lost below δ = 1e-14.
        Deviates: the slope at threshold t is −1/t; the printed l(t) with floors under-reports (FD-4).
        """
        epsilon = argument.non_negative("CloneErrors", "epsilon", epsilon)
        w = self.weight
        fpr, fnr = (float(error[0]) for error in self.inner((1 - 2 * w) / (math.exp(epsilon) - 2 * w)))
        return 1 - math.exp(epsilon) * fpr - 2 * w * (1 - fpr) - (1 - 2 * w) * fnr


def _at_most(k: Floats, count: Floats) -> Floats:
    """P(Bin(count, ½) ≤ k)."""
    inside = (k >= 0) & (k < count)
    found = betainc(np.where(inside, count - k, 1.0), np.where(inside, k + 1, 1.0), 0.5)
    return np.where(inside, found, (k >= 0).astype(np.float64))


def _above(k: Floats, count: Floats) -> Floats:
    """P(Bin(count, ½) > k)."""
    inside = (k >= 0) & (k < count)
    found = betainc(np.where(inside, k + 1, 1.0), np.where(inside, count - k, 1.0), 0.5)
    return np.where(inside, found, (k < 0).astype(np.float64))
