"""Algorithm 1 of the variation-ratio paper, vectorised: the yardstick of the benchmark.

It halves [0, log p] twenty times. Each step sums the divergence of the published pair over every count
c = 0 … n−1, with one incomplete beta function for each binomial tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc
from scipy.stats import binom

from shuffledp._core.validation import Floats

HALVINGS = 20
CHUNK = 1 << 16
"""Counts in one vectorised block: few enough to stay in a processor's cache."""


@dataclass(frozen=True)
class Algorithm1:
    """The search for the ε at which the published pair has divergence δ.

    Theorem: [VR] Algorithm 1, with the thresholds low_c of Theorem 4.6.
    Requires: 1 < p < ∞; 0 < β ≤ (p−1)/(p+1); q ≥ 1 with 2r < 1.
    Returns: floats that nothing certifies; rounding aside, ε is above the crossing by at most ``resolution``.
    Deviates: three savings. Print sums both directions, which are equal because there is one q; here only one is.
    The tail whose factor is γ is left out where γ = 0. c ends at n−1, because the weight at n is 0.
    """

    p: float
    beta: float
    q: float
    users: int

    @property
    def alpha(self) -> float:
        return self.beta / (self.p - 1)

    @property
    def r(self) -> float:
        return self.alpha * self.p / self.q

    @property
    def gamma(self) -> float:
        """1 − α − pα; a remainder from rounding alone counts as 0."""
        gamma = 1 - self.alpha - self.p * self.alpha
        return gamma if gamma > 1e-14 else 0.0

    @property
    def resolution(self) -> float:
        """The width of the last interval."""
        return math.log(self.p) / 2.0**HALVINGS

    def epsilon(self, delta: float) -> float:
        """The ε that Algorithm 1 returns: the upper end of its last interval."""
        return self.search(lambda epsilon: self.delta(epsilon) > delta)[1]

    def search(self, too_small: Callable[[float], bool]) -> tuple[float, float]:
        """The last interval of the bisection, given whether an ε is too small."""
        low, high = 0.0, math.log(self.p)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if too_small(middle) else (low, middle)
        return low, high

    def delta(self, epsilon: float) -> float:
        """The divergence at ε: the procedure Delta of Algorithm 1, over all counts."""
        return self.delta_of(epsilon, self.chunks())

    def chunks(self) -> range:
        """Returns the first counts of the blocks."""
        return range(0, self.users, CHUNK)

    def chunks_near_mean(self, deviations: float) -> range:
        """Returns the blocks with counts within this many standard deviations of their mean."""
        mean = (self.users - 1) * 2 * self.r
        reach = deviations * math.sqrt(mean * (1 - 2 * self.r))
        first, last = max(0, int(mean - reach)), min(self.users - 1, int(mean + reach))
        return self.chunks()[first // CHUNK : last // CHUNK + 1]

    def delta_of(self, epsilon: float, chunks: range) -> float:
        """Returns the contribution of these blocks of counts to the divergence at ε."""
        return math.fsum(self.chunk_sum(epsilon, start) for start in chunks)

    def chunk_sum(self, epsilon: float, start: int) -> float:
        """Returns the contribution of the block of counts at ``start`` to the divergence at ε."""
        c = np.arange(start, min(start + CHUNK, self.users), dtype=np.float64)
        weight = binom.pmf(c, self.users - 1, 2 * self.r)
        e, p, alpha = math.exp(epsilon), self.p, self.alpha
        low = self._low(e, c + 1)
        gain = (p - e) * alpha * upper_tail(np.ceil(low - 1), c)
        gain += (1 - p * e) * alpha * upper_tail(np.ceil(low), c)
        if self.gamma > 0:
            gain += (1 - e) * self.gamma * upper_tail(np.ceil(self._low(e, c)), c)
        # Not a dot product: a threaded one keeps a second processor busy waiting, which would count as our time.
        return float(np.sum(weight * gain))

    def _low(self, e: float, c: Floats) -> Floats:
        """low_c: with more than this many a's among c the likelihood ratio exceeds e = e^ε."""
        common = (e - 1) * self.gamma * self.r / (1 - 2 * self.r)
        extreme = (e * self.p - 1) * self.alpha
        return np.asarray((extreme * c + common * (self.users - c)) / (self.alpha * (e + 1) * (self.p - 1)))


def upper_tail(k: Floats, trials: Floats) -> Floats:
    """P(Bin(trials, ½) ≥ k), elementwise."""
    inside = (k >= 1) & (k <= trials)
    tail = betainc(np.where(inside, k, 1.0), np.where(inside, trials - k + 1, 1.0), 0.5)
    return np.where(inside, tail, (k <= 0).astype(np.float64))
