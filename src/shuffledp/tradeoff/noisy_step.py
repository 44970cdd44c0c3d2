"""One noisy gradient step from a random start: the start hides part of what the removed record did."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.numerics.special import expit, ndtr
from shuffledp.tradeoff.gaussian_trade_off import gaussian_delta
from shuffledp.tradeoff.guaranteed import GuaranteedTradeOff
from shuffledp.tradeoff.trade_off import PiecewiseTradeOff, TradeOff

CELLS = 1 << 14
FARTHEST = 9.0
"""Starts beyond this many standard deviations, of probability 2e-19, count as fully revealing."""
ROUND_OFF, LEAST_ROUND_OFF = 1e-12, 2e-15
"""Relative and absolute: sums of 16,384 floats, and the difference of two values of the normal distribution."""
CURVE_CELLS = 1 << 12
SCORES = np.linspace(-9.0, 9.0, 601)
"""Cells and thresholds of the polygon, which takes a value for each pair of them."""
POINTS = 200


class Gradient(ABC):
    """How far the removed record moves the step that starts at I, in the unit of the parameter: |μ(I)|."""

    @abstractmethod
    def size(self, start: Floats) -> Floats:
        """|μ(I)| at each start."""

    @abstractmethod
    def largest(self, low: Floats, high: Floats) -> Floats:
        """An upper bound of |μ| on each interval [low, high]."""

    def limit_size(self) -> float:
        """An upper bound of |μ| over all starts, infinity if there is none: what a plain Gaussian step must hide."""
        return math.inf

    def proved(self) -> bool:
        """Whether ``largest`` is a bound and not a guess."""
        return True


@dataclass(frozen=True)
class LeastSquares(Gradient):
    """Least squares in the noiseless linear model y = a·x, x² = 1, the gradient clipped at ``clip``.

    ``optimum`` is a, the parameter at which the removed record's gradient vanishes.

    Theorem: [FDP] Examples D.1 and D.2: μ_I = a − I, clipped to [−c, c].
    Requires: clip > 0 (infinity: no clipping).

    >>> import shuffledp as sdp
    >>> step = sdp.tradeoff.NoisyStep(sdp.tradeoff.LeastSquares(optimum=1.0, clip=1.0), noise=2.0)
    >>> print(f"{step.delta_upper(0.5):.4f}")
    0.0328
    """

    optimum: float = 1.0
    clip: float = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimum", argument.real("LeastSquares", "optimum", self.optimum))
        object.__setattr__(self, "clip", argument.real("LeastSquares", "clip", self.clip, up=True))
        if not math.isfinite(self.optimum):
            raise ValueError(f"LeastSquares: optimum must be finite, got {self.optimum!r}.")
        if not self.clip > 0:
            raise ValueError(f"LeastSquares: clip must be above 0, got {self.clip!r}.")

    def size(self, start: Floats) -> Floats:
        return np.minimum(self.clip, np.abs(self.optimum - start))

    def limit_size(self) -> float:
        return self.clip

    def largest(self, low: Floats, high: Floats) -> Floats:
        return np.maximum(self.size(low), self.size(high))


@dataclass(frozen=True)
class Logistic(Gradient):
    """Logistic regression with features |y·x| ≤ M: the largest gradient of one record.

    ``limit`` is M.

    Theorem: [FDP] Example D.3: μ_I = M·σ(|I|·M).
    Requires: M > 0 and finite.
    Deviates: print leaves out the factor |y·x| (FD-9).

    >>> import shuffledp as sdp
    >>> step = sdp.tradeoff.NoisyStep(sdp.tradeoff.Logistic(limit=1.0), noise=2.0)
    >>> print(f"{step.delta_upper(0.5):.4f}")
    0.0148
    """

    limit: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", argument.positive_finite("Logistic", "limit", self.limit, up=True))

    def size(self, start: Floats) -> Floats:
        return np.asarray(self.limit * expit(np.abs(start) * self.limit))

    def limit_size(self) -> float:
        return self.limit

    def largest(self, low: Floats, high: Floats) -> Floats:
        return np.maximum(self.size(low), self.size(high))


@dataclass(frozen=True)
class OwnGradient(Gradient):
    """A gradient map of your own: ``function`` takes an array of starts and gives μ(I).

    On an interval the larger end is taken, which is a bound only where |μ| has no peak inside: pass
    ``no_inner_peak=True`` to vouch for it (every inner peak would have to fall on an end).

    >>> import numpy as np
    >>> import shuffledp as sdp
    >>> gradient = sdp.tradeoff.OwnGradient(np.tanh, no_inner_peak=True)
    >>> print(f"{sdp.tradeoff.NoisyStep(gradient, noise=2.0).delta_upper(0.5):.4f}")
    0.0146
    """

    function: Callable[[Floats], Floats]
    no_inner_peak: bool = False

    def size(self, start: Floats) -> Floats:
        found = np.abs(np.asarray(self.function(start), dtype=np.float64))
        if found.shape != start.shape or np.isnan(found).any():
            raise ValueError("OwnGradient: function must give one number for each start.")
        return found

    def largest(self, low: Floats, high: Floats) -> Floats:
        return np.maximum(self.size(low), self.size(high))

    def proved(self) -> bool:
        return self.no_inner_peak


@dataclass(frozen=True)
class Cells:
    """Intervals of starts with their probabilities."""

    low: Floats
    high: Floats
    chance: Floats

    @classmethod
    def of(cls, number: int) -> Cells:
        ends = np.linspace(-FARTHEST, FARTHEST, number + 1)
        low, high = ends[:-1], ends[1:]
        return cls(low, high, np.where(high <= 0, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high)))


@dataclass(frozen=True, eq=False)
class NoisyStep(TradeOff):
    """θ = I − gradient + N(0, noise²) with I ~ N(0, 1): with the record against without it.

    Theorem: [FDP] Theorem 5.1: fpr(t) = E_I Φ(−t_I), fnr(t) = E_I Φ(t_I − |μ_I|), t_I = |μ_I|/2 − t/|μ_I|; and
    δ(ε) = E_I δ_Gauss(|μ_I|)(ε).
    Requires: noise > 0; the start is hidden and independent of the data.
    Returns: the curve in floats, by the middles of small cells of starts: close, but on either side of the truth.
    ``delta_upper`` and ``guaranteed`` are on the safe side: on each cell the largest gradient counts.
    Deviates: the weight of the start is normalised by 1/√(2π) (FD-10); μ = 0 is an atom that no test tells apart.

    >>> from shuffledp.tradeoff.noisy_step import LeastSquares, NoisyStep
    >>> step = NoisyStep(LeastSquares(optimum=1.0, clip=2.0), noise=2.0)
    >>> step.delta(1.0) < step.delta_upper(1.0) < 0.0388
    True
    """

    gradient: Gradient
    noise: float = 1.0
    theorem: str = field(default="[FDP] Theorem 5.1", init=False)
    guarantee: bool = field(default=False, init=False)
    certified: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", argument.positive_finite("NoisyStep", "noise", self.noise))

    @cached_property
    def _cells(self) -> Cells:
        return Cells.of(CELLS)

    def _shift(self, cells: Cells) -> Floats:
        return self.gradient.size((cells.low + cells.high) / 2) / self.noise

    @cached_property
    def _shifts(self) -> Floats:
        return self._shift(self._cells)

    def delta(self, epsilon: float) -> float:
        epsilon = argument.real("NoisyStep", "epsilon", epsilon)
        return float(self._cells.chance @ gaussian_delta(self._shifts, epsilon))

    def delta_upper(self, epsilon: float) -> float:
        """An upper bound of δ(ε): the largest gradient of each cell; the farthest starts count as 1."""
        epsilon = argument.real("NoisyStep", "epsilon", epsilon)
        largest = self.gradient.largest(self._cells.low, self._cells.high) / self.noise
        found = float(self._cells.chance @ gaussian_delta(largest, epsilon)) + 2 * float(ndtr(-FARTHEST))
        return min(1.0, found * (1 + ROUND_OFF) + LEAST_ROUND_OFF)

    def errors(self, log_thresholds: ArrayLike) -> tuple[Floats, Floats]:
        """(fpr, fnr) of the tests that reject where log(p/q) ≤ t, one for each t."""
        cells = Cells.of(CURVE_CELLS)
        mu, chance = self._shift(cells), cells.chance
        still = float(chance[mu == 0].sum())
        mu, chance = mu[mu > 0], chance[mu > 0]
        fpr, fnr = [], []
        for t in np.atleast_1d(np.asarray(log_thresholds, dtype=np.float64)).tolist():
            at = mu / 2 - t / mu
            fpr.append(float(chance @ ndtr(-at)) + (still if t >= 0 else 0.0))
            fnr.append(float(chance @ ndtr(at - mu)) + (still if t < 0 else 0.0))
        return np.minimum(1.0, fpr), np.minimum(1.0, fnr)

    @cached_property
    def _knots(self) -> PiecewiseTradeOff:
        typical = float(np.sqrt(self._cells.chance @ self._shifts**2))
        x, y = self.errors(np.sinh(SCORES / 3) * max(typical, 1e-3))
        return PiecewiseTradeOff.of_points(x, y)

    def knots(self) -> PiecewiseTradeOff:
        """The polygon through many points of the curve, in floats."""
        return self._knots

    def fnr(self, fpr: ArrayLike) -> Floats:
        return self._knots.fnr(fpr)

    def tpr(self, fpr: ArrayLike) -> Floats:
        return self._knots.tpr(fpr)

    def inverse(self) -> NoisyStep:
        return self

    def guaranteed(self, points: int = POINTS) -> GuaranteedTradeOff:
        """The lower curve of the upper bounds of δ at many ε; not certified, because they are floats."""
        count = argument.count("NoisyStep", "points", points, at_least=2)
        top = float(self.gradient.largest(self._cells.low, self._cells.high).max()) / self.noise
        largest = min(600.0, 8.0 * top + top**2 / 2)
        epsilons = np.append(0.0, np.geomspace(largest * 1e-4, largest, count - 1)) if largest > 0 else np.zeros(1)
        deltas = np.array([self.delta_upper(epsilon) for epsilon in epsilons.tolist()])
        return GuaranteedTradeOff(epsilons, deltas, self.theorem, self.gradient.proved(), certified=False)
