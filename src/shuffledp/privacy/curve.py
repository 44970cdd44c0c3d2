"""The privacy of a shuffled output as a function: δ(ε), its inverse ε(δ), and how sure each number is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from flint import arb

from shuffledp import argument
from shuffledp.numerics.ball import precision, round_up
from shuffledp.numerics.expectation import PositivePartMean
from shuffledp.numerics.inversion import invert
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.pair import HidingPair

LARGEST_EPSILON = 700.0
"""Beyond this a guarantee says nothing, and e^ε leaves the floats."""


@dataclass(frozen=True)
class BoundValue:
    """One number of a privacy statement and what stands behind it.

    ``upper`` is the certified guarantee (also ``float()``); ``lower`` is attained by an attack on a real dataset,
    None if none is known; ``slack`` is how far ``upper`` may be above the exact value of the same bound, in the
    same unit.
    """

    upper: float
    lower: float | None
    slack: float
    bound: str
    theorem: str
    certified: bool
    guarantee: bool

    def __float__(self) -> float:
        return self.upper


@dataclass(frozen=True)
class Source:
    """Where a curve comes from: the bound's name, its theorem, and what the reader must know."""

    bound: str
    theorem: str
    users: int
    guarantee: bool = True
    note: str = ""


@dataclass(frozen=True)
class PrivacyCurve(ABC):
    """δ(ε) of the shuffled output of ``users`` messages, both directions of the divergence."""

    source: Source

    @property
    def bound(self) -> str:
        return self.source.bound

    @property
    def theorem(self) -> str:
        return self.source.theorem

    @property
    def users(self) -> int:
        return self.source.users

    @property
    def guarantee(self) -> bool:
        """Whether the values are upper bounds of the protocol's true privacy loss."""
        return self.source.guarantee

    @property
    def note(self) -> str:
        return self.source.note

    @property
    def certified(self) -> bool:
        """Every value is computed in ball arithmetic or rounded by a proved bound."""
        return True

    def epsilon(self, delta: float) -> BoundValue:
        """The smallest ε for which (ε, δ)-DP is proved; infinity if there is none."""
        delta = argument.open_probability("epsilon", "delta", delta)
        return self._value(*self._epsilon(delta))

    def delta(self, epsilon: float) -> BoundValue:
        """The smallest δ for which (ε, δ)-DP is proved."""
        epsilon = argument.non_negative("delta", "epsilon", epsilon)
        return self._value(*self._delta(epsilon))

    @abstractmethod
    def _epsilon(self, delta: float) -> tuple[float, float]:
        """(upper, slack)."""

    @abstractmethod
    def _delta(self, epsilon: float) -> tuple[float, float]:
        """(upper, slack)."""

    def _value(self, upper: float, slack: float) -> BoundValue:
        return BoundValue(upper, None, slack, self.bound, self.theorem, self.certified, self.guarantee)


@dataclass(frozen=True)
class NumericCurve(PrivacyCurve):
    """The curve of a dominating pair, evaluated numerically exactly.

    ``directions`` gives, for each direction that may differ, the pair whose D_{e^ε}(P‖Q) bounds it at ε.
    ``largest`` is an ε at which both directions vanish (infinity if there is none).
    """

    directions: tuple[Callable[[float], HidingPair], ...]
    largest: float

    @cached_property
    def _divergences(self) -> tuple[PositivePartMean, ...]:
        def family(pair: Callable[[float], HidingPair]) -> PositivePartMean:
            return PositivePartMean(lambda epsilon: pair(epsilon).law(epsilon), self.users)

        return tuple(family(pair) for pair in self.directions)

    def _epsilon(self, delta: float) -> tuple[float, float]:
        high = min(self.largest, LARGEST_EPSILON)
        vanishes = self.largest <= LARGEST_EPSILON
        found = [invert(d, delta, high, zero_at_high=vanishes) for d in self._divergences]
        upper = max(inverse.upper for inverse in found)
        lower = max(inverse.lower for inverse in found)
        return upper, 0.0 if upper == lower else upper - lower

    def _delta(self, epsilon: float) -> tuple[float, float]:
        if epsilon >= self.largest:
            return 0.0, 0.0
        found = [d.bracket(min(epsilon, LARGEST_EPSILON)) for d in self._divergences]
        upper = max(value.upper_float() for value in found)
        lower = max(value.lower_float() for value in found)
        if epsilon > LARGEST_EPSILON:
            return min(1.0, upper), min(1.0, upper)
        return min(1.0, upper), max(0.0, math.nextafter(upper - lower, math.inf)) if upper > lower else 0.0


@dataclass(frozen=True)
class ClosedFormCurve(PrivacyCurve):
    """The curve of an explicit formula ε(δ), given as a function of balls that raises NotApplicable.

    The formula decreases in δ; ``largest`` caps it.
    """

    formula: Callable[[arb], arb]
    largest: float

    def _epsilon(self, delta: float) -> tuple[float, float]:
        with precision(128):
            value = round_up(self.formula(arb(delta)))
        upper = min(max(0.0, value), self.largest)
        return upper, math.ulp(upper) if math.isfinite(upper) else 0.0

    def _delta(self, epsilon: float) -> tuple[float, float]:
        if epsilon >= self.largest:
            return 0.0, 0.0

        def excess(log_inverse_delta: float) -> float:
            return self._epsilon(math.exp(-log_inverse_delta))[0] - epsilon

        least = 1e-9
        if excess(least) > 0:
            return 1.0, 0.0
        crossing = find_crossing(excess, least, 700.0, relative=1e-12)
        upper = math.exp(-crossing.below)
        while upper < 1 and self._epsilon(upper)[0] > epsilon:
            upper = math.nextafter(upper, 1.0)
        return upper, max(0.0, upper - math.exp(-crossing.above))
