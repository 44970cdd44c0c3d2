"""One noisy gradient step from a random start: the hidden start conceals part of the effect of the removed record."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shuffledp._core import validation
from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import expit, ndtr
from shuffledp.privacy.guaranteed_tradeoff import GuaranteedTradeOff
from shuffledp.privacy.tradeoff import PiecewiseTradeOff, TradeOff, gaussian_delta

CELLS = 1 << 14
MAX_START = 9.0
"""Starts beyond this many standard deviations, of probability 2e-19, count as fully revealing."""
ROUND_OFF, MIN_ROUND_OFF = 1e-12, 2e-15
"""Relative and absolute rounding of sums of 16,384 floats and of differences of normal distribution values."""
CURVE_CELLS = 1 << 12
SCORES = np.linspace(-9.0, 9.0, 601)
"""Cells and thresholds of the polygon, which needs a value for each pair of them."""
POINTS = 200


class Gradient(ABC):
    """|μ(I)|: the distance by which the removed record moves the step from I, in the unit of the parameter."""

    @abstractmethod
    def size(self, start: Floats) -> Floats:
        """Returns |μ(I)| at each start.

        Args:
            start: Starting points I.

        Returns:
            One number for each start.
        """

    @abstractmethod
    def largest(self, low: Floats, high: Floats) -> Floats:
        """Returns an upper bound of |μ| on each interval of starts.

        Args:
            low: Lower ends of the intervals.
            high: Upper ends of the intervals.

        Returns:
            One number for each interval.
        """

    def largest_size(self) -> float:
        """Returns an upper bound of |μ| over all starts, which plain Gaussian noise must hide.

        Infinity if there is none.
        """
        return math.inf

    def is_proved(self) -> bool:
        """Returns True if ``largest`` is a proved bound."""
        return True


@dataclass(frozen=True)
class LeastSquares(Gradient):
    """Least squares in the noiseless linear model y = a·x, x² = 1, with clipped gradient.

    Theorem: [FDP] Examples D.1 and D.2: μ_I = a − I, clipped to [−c, c].
    Requires: clip > 0 (infinity: no clipping).

    Args:
        optimum: a, the parameter at which the removed record's gradient vanishes.
        clip: c, the largest absolute gradient.

    Raises:
        ValueError: If ``optimum`` is not finite or ``clip`` is not above 0.

    >>> import shuffledp as sdp
    >>> step = sdp.tradeoff.NoisyStep(sdp.tradeoff.LeastSquares(optimum=1.0, clip=1.0), noise=2.0)
    >>> print(f"{step.delta_upper(0.5):.4f}")
    0.0328
    """

    optimum: float = field(default=1.0, metadata=validation.checked(validation.real))
    clip: float = field(default=math.inf, metadata=validation.checked(validation.real, up=True))

    def __post_init__(self) -> None:
        validation.check_fields(self)
        if not math.isfinite(self.optimum):
            raise ValueError(f"LeastSquares: optimum must be finite, got {self.optimum!r}.")
        if not self.clip > 0:
            raise ValueError(f"LeastSquares: clip must be above 0, got {self.clip!r}.")

    def size(self, start: Floats) -> Floats:
        return np.minimum(self.clip, np.abs(self.optimum - start))

    def largest_size(self) -> float:
        return self.clip

    def largest(self, low: Floats, high: Floats) -> Floats:
        """Returns the largest |μ| on each interval of starts, which is at an end."""
        return np.maximum(self.size(low), self.size(high))


@dataclass(frozen=True)
class Logistic(Gradient):
    """Logistic regression with features |y·x| ≤ M: the largest gradient of one record.

    Theorem: [FDP] Example D.3: μ_I = M·σ(|I|·M).
    Requires: M > 0 and finite.
    Deviates: print leaves out the factor |y·x| (FD-9).

    Args:
        limit: M, the largest |y·x|.

    Raises:
        ValueError: If ``limit`` is not above 0 and finite.

    >>> import shuffledp as sdp
    >>> step = sdp.tradeoff.NoisyStep(sdp.tradeoff.Logistic(limit=1.0), noise=2.0)
    >>> print(f"{step.delta_upper(0.5):.4f}")
    0.0148
    """

    limit: float = field(default=1.0, metadata=validation.checked(validation.positive_finite, up=True))

    def __post_init__(self) -> None:
        validation.check_fields(self)

    def size(self, start: Floats) -> Floats:
        return np.asarray(self.limit * expit(np.abs(start) * self.limit))

    def largest_size(self) -> float:
        return self.limit

    def largest(self, low: Floats, high: Floats) -> Floats:
        """Returns the largest |μ| on each interval of starts, which is at an end."""
        return np.maximum(self.size(low), self.size(high))


@dataclass(frozen=True)
class CustomGradient(Gradient):
    """A gradient map given as a function.

    On an interval the larger of the values at its ends is taken, which is a bound only if |μ| has no peak inside.

    Args:
        function: Maps an array of starts I to μ(I).
        no_inner_peak: True to vouch that every peak of |μ| falls on an end of an interval.

    >>> import numpy as np
    >>> import shuffledp as sdp
    >>> gradient = sdp.tradeoff.CustomGradient(np.tanh, no_inner_peak=True)
    >>> print(f"{sdp.tradeoff.NoisyStep(gradient, noise=2.0).delta_upper(0.5):.4f}")
    0.0146
    """

    function: Callable[[Floats], Floats]
    no_inner_peak: bool = False

    def size(self, start: Floats) -> Floats:
        found = np.abs(np.asarray(self.function(start), dtype=np.float64))
        if found.shape != start.shape or np.isnan(found).any():
            raise ValueError("CustomGradient: function must return one number for each start.")
        return found

    def largest(self, low: Floats, high: Floats) -> Floats:
        """Returns the larger |μ| at the ends of each interval of starts: a bound only if ``no_inner_peak`` is true."""
        return np.maximum(self.size(low), self.size(high))

    def is_proved(self) -> bool:
        return self.no_inner_peak


@dataclass(frozen=True)
class StartCells:
    """Intervals of starts with their probabilities."""

    low: Floats
    high: Floats
    probability: Floats

    @classmethod
    def from_count(cls, number: int) -> StartCells:
        ends = np.linspace(-MAX_START, MAX_START, number + 1)
        low, high = ends[:-1], ends[1:]
        return cls(low, high, np.where(high <= 0, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high)))


@dataclass(frozen=True, eq=False)
class NoisyStep(TradeOff):
    """Trade-off curve of θ = I − gradient + N(0, noise²) with I ~ N(0, 1), with the record against without it.

    Theorem: [FDP] Theorem 5.1: fpr(t) = E_I Φ(−t_I), fnr(t) = E_I Φ(t_I − |μ_I|), t_I = |μ_I|/2 − t/|μ_I|; and
    δ(ε) = E_I δ_Gauss(|μ_I|)(ε).
    Requires: noise > 0; the start is hidden and independent of the data.
    Returns: the curve in floats, by the middles of small cells of starts: close, but on either side of the truth.
    ``delta_upper`` and ``guaranteed_curve`` are on the safe side: on each cell the largest gradient counts.
    Deviates: the weight of the start is normalised by 1/√(2π) (FD-10); μ = 0 is an atom that no test distinguishes.

    Args:
        gradient: The effect of the removed record on the step.
        noise: Standard deviation of the noise, relative to that of the start.

    Raises:
        ValueError: If ``noise`` is not above 0 and finite.

    >>> from shuffledp.privacy.random_initialization import LeastSquares, NoisyStep
    >>> step = NoisyStep(LeastSquares(optimum=1.0, clip=2.0), noise=2.0)
    >>> step.delta(1.0) < step.delta_upper(1.0) < 0.0388
    True
    """

    gradient: Gradient
    noise: float = field(default=1.0, metadata=validation.checked(validation.positive_finite))
    theorem: str = field(default="[FDP] Theorem 5.1", init=False)
    guarantee: bool = field(default=False, init=False)
    certified: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        validation.check_fields(self)

    @cached_property
    def _cells(self) -> StartCells:
        return StartCells.from_count(CELLS)

    def _shift(self, cells: StartCells) -> Floats:
        return self.gradient.size((cells.low + cells.high) / 2) / self.noise

    @cached_property
    def _shifts(self) -> Floats:
        return self._shift(self._cells)

    def delta(self, epsilon: float) -> float:
        """Returns δ(ε) in floats, close to the truth on either side."""
        epsilon = validation.real("NoisyStep", "epsilon", epsilon)
        return float(self._cells.probability @ gaussian_delta(self._shifts, epsilon))

    def delta_upper(self, epsilon: float) -> float:
        """Returns an upper bound of δ(ε): the largest gradient of each cell counts, and the farthest starts count as 1.

        Args:
            epsilon: Any real ε.

        Returns:
            The upper bound of δ.
        """
        epsilon = validation.real("NoisyStep", "epsilon", epsilon)
        largest = self.gradient.largest(self._cells.low, self._cells.high) / self.noise
        found = float(self._cells.probability @ gaussian_delta(largest, epsilon)) + 2 * float(ndtr(-MAX_START))
        return min(1.0, found * (1 + ROUND_OFF) + MIN_ROUND_OFF)

    def errors(self, log_thresholds: ArrayLike) -> tuple[Floats, Floats]:
        """Returns the two errors of the tests that reject where log(p/q) ≤ t.

        Args:
            log_thresholds: The thresholds t.

        Returns:
            The arrays (fpr, fnr), one entry for each threshold.
        """
        cells = StartCells.from_count(CURVE_CELLS)
        mu, chance = self._shift(cells), cells.probability
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
        typical = float(np.sqrt(self._cells.probability @ self._shifts**2))
        x, y = self.errors(np.sinh(SCORES / 3) * max(typical, 1e-3))
        return PiecewiseTradeOff.from_error_points(x, y)

    def to_piecewise(self) -> PiecewiseTradeOff:
        """Returns the polygon through many points of the curve, in floats."""
        return self._knots

    def fnr(self, fpr: ArrayLike) -> Floats:
        """Returns the smallest type II error at each type I error, by the polygon of ``to_piecewise``."""
        return self._knots.fnr(fpr)

    def tpr(self, fpr: ArrayLike) -> Floats:
        """Returns the largest power at each type I error, by the polygon of ``to_piecewise``."""
        return self._knots.tpr(fpr)

    def inverse(self) -> NoisyStep:
        return self

    def guaranteed_curve(self, points: int = POINTS) -> GuaranteedTradeOff:
        """Returns the lower curve that upper bounds of δ at many ε prove; not certified, because they are floats.

        Args:
            points: Number of values of ε, at least 2.

        Returns:
            A trade-off curve that is a guarantee if the gradient's bound is proved.

        Raises:
            ValueError: If ``points`` is below 2.
        """
        count = validation.count("NoisyStep", "points", points, at_least=2)
        top = float(self.gradient.largest(self._cells.low, self._cells.high).max()) / self.noise
        largest = min(600.0, 8.0 * top + top**2 / 2)
        epsilons = np.append(0.0, np.geomspace(largest * 1e-4, largest, count - 1)) if largest > 0 else np.zeros(1)
        deltas = np.array([self.delta_upper(epsilon) for epsilon in epsilons.tolist()])
        return GuaranteedTradeOff(epsilons, deltas, self.theorem, self.gradient.is_proved(), certified=False)
