"""Noise whose law says by itself what all messages together tell: its privacy loss, and the curve that it gives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.numerics.finite_law import Bracket
from shuffledp.numerics.inversion import Inverse, invert
from shuffledp.privacy.attack import Attack
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve, Source
from shuffledp.privacy.record import Record
from shuffledp.privacy.value import BoundValue

ROUTE = "law of the noise"
Facts = dict[str, Any]
"""Noise in exact numbers: its ``kind``, a ``Fraction`` by each name, and ``noise``, the facts of noise within it."""


class OwnLoss(Record, ABC):
    """δ(ε) of all that is sent, for every pair of inputs and both directions, from the law of the noise.

    A frozen dataclass that holds what the law follows from, so that equal ones give equal curves.
    """

    @property
    @abstractmethod
    def theorem(self) -> str:
        """What its values are proved by."""

    @property
    def note(self) -> str:
        """What the reader must know besides; empty where there is nothing."""
        return ""

    @property
    def attained(self) -> bool:
        """Whether two inputs have exactly this loss, to whoever knows everybody else's value: then it is an attack."""
        return False

    @property
    def largest(self) -> float:
        """An ε from which δ is 0; infinity where there is none."""
        return math.inf

    @abstractmethod
    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Certified upper and lower values of δ at each ε ≥ 0; equal but for rounding where the law is exact."""

    def deviation(self) -> float:
        """About the standard deviation of the loss: where a search begins."""
        return 1.0

    def facts(self) -> Facts | None:
        """What its values follow from, for a second proof (``certificate.noise_proof``); None where there is none."""
        return None


@dataclass(frozen=True)
class LossDivergence:
    """The loss as a decreasing function, for inversion."""

    loss: OwnLoss

    def bracket(self, epsilon: float) -> Bracket:
        upper, lower = self.loss.profile(np.array([epsilon]))
        return Bracket(arb(float(lower[0])), arb(float(upper[0])), ROUTE)

    def log_estimate(self, epsilon: float) -> float:
        upper, _ = self.loss.profile(np.array([epsilon]))
        return math.log(upper[0]) if upper[0] > 0 else -math.inf

    def natural_scale(self) -> float:
        return self.loss.deviation()


@lru_cache(maxsize=256)
def _inverse(loss: OwnLoss, delta: float) -> Inverse:
    high = min(loss.largest, LARGEST_EPSILON)
    return invert(LossDivergence(loss), delta, high, zero_at_high=loss.largest <= LARGEST_EPSILON)


@dataclass(frozen=True)
class OwnLossCurve(PrivacyCurve):
    """The curve of noise that knows its own loss."""

    loss: OwnLoss

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        return self.loss.deviation()

    def _epsilon(self, delta: float) -> BoundValue:
        found = _inverse(self.loss, delta)
        if math.isinf(found.upper) and math.isfinite(self.loss.largest):
            return self._value(self.loss.largest, self.loss.largest - found.lower)
        if math.isinf(found.upper):
            # Nothing between the largest ε that is looked at and infinity is told apart.
            return self._value(math.inf, 0.0 if found.lower >= LARGEST_EPSILON else math.inf)
        return self._value(found.upper, found.upper - found.lower)

    def _delta(self, epsilon: float) -> BoundValue:
        upper, lower = self._profile(np.array([epsilon]))
        high, low = float(upper[0]), float(lower[0])
        return self._value(high, math.nextafter(high - low, math.inf) if high > low else 0.0)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = self.loss.profile(np.minimum(epsilons, LARGEST_EPSILON))
        beyond = epsilons >= self.loss.largest
        lower = np.where(beyond | (epsilons > LARGEST_EPSILON), 0.0, np.maximum(lower, 0.0))
        return np.where(beyond, 0.0, np.minimum(upper, 1.0)), np.minimum(lower, 1.0)


@dataclass(frozen=True)
class OwnLossAttack(Attack):
    """Whoever knows everybody else's value attains the loss itself: its certified lower side."""

    loss: OwnLoss

    def delta(self, epsilon: float) -> float:
        _, lower = self.loss.profile(np.array([min(epsilon, LARGEST_EPSILON)]))
        return max(0.0, float(lower[0]))

    def epsilon(self, delta: float) -> float:
        return _inverse(self.loss, delta).lower

    def exact_curves(self) -> list[PrivacyCurve]:
        source = Source("attack", self.loss.theorem, 1, guarantee=False)
        return [OwnLossCurve(source, self.loss)]
