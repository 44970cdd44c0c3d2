"""Privacy of noise added to an aggregate: losses known from the law of the noise, exactly or up to a distance."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core.formatting import format_rounded_up
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.numerics.distributions import Bracket
from shuffledp.numerics.roots import InverseValue, invert
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, CurveSource, PrivacyCurve
from shuffledp.privacy.lower_bounds import Attack

METHOD = "law of the noise"
NoiseFacts = dict[str, Any]
"""Noise in exact numbers: its ``kind``, a ``Fraction`` under each name, and ``noise``, the facts of noise within it."""


class AggregateNoiseLoss(ValueObject, ABC):
    """δ(ε) of all messages together, for every pair of inputs and both directions, from the law of the noise.

    Subclasses are frozen dataclasses that hold the data of the law, so that equal ones give equal curves.
    """

    @property
    @abstractmethod
    def theorem(self) -> str:
        """The theorem that proves its values."""

    @property
    def note(self) -> str:
        """Further conditions that the reader must know; empty if there are none."""
        return ""

    @property
    def is_attained(self) -> bool:
        """True if two inputs have exactly this loss to an attacker who knows all other values: then it is an attack."""
        return False

    @property
    def largest_epsilon(self) -> float:
        """An ε from which on δ is 0; infinity if there is none."""
        return math.inf

    @abstractmethod
    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Returns certified upper and lower values of δ at each ε ≥ 0, equal up to rounding if the law is exact.

        Args:
            epsilons: Values of ε.
        """

    def deviation(self) -> float:
        """Returns about the standard deviation of the loss, at which a search begins."""
        return 1.0

    def noise_facts(self) -> NoiseFacts | None:
        """Returns the data that determine its values, for a second proof; None if there is none."""
        return None


@dataclass(frozen=True)
class LossDivergence:
    """The loss as a decreasing function, for inversion."""

    loss: AggregateNoiseLoss

    def bracket(self, epsilon: float) -> Bracket:
        upper, lower = self.loss.profile(np.array([epsilon]))
        return Bracket(arb(float(lower[0])), arb(float(upper[0])), METHOD)

    def log_estimate(self, epsilon: float) -> float:
        upper, _ = self.loss.profile(np.array([epsilon]))
        return math.log(upper[0]) if upper[0] > 0 else -math.inf

    def natural_scale(self) -> float:
        return self.loss.deviation()


@lru_cache(maxsize=256)
def _inverse(loss: AggregateNoiseLoss, delta: float) -> InverseValue:
    high = min(loss.largest_epsilon, MAX_EPSILON)
    return invert(LossDivergence(loss), delta, high, zero_at_high=loss.largest_epsilon <= MAX_EPSILON)


@dataclass(frozen=True)
class AggregateNoiseCurve(PrivacyCurve):
    """The curve of noise whose loss is known from its law."""

    loss: AggregateNoiseLoss

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        return self.loss.deviation()

    def _epsilon(self, delta: float) -> BoundValue:
        found = _inverse(self.loss, delta)
        if math.isinf(found.upper) and math.isfinite(self.loss.largest_epsilon):
            return self._value(self.loss.largest_epsilon, self.loss.largest_epsilon - found.lower)
        if math.isinf(found.upper):
            # Values between the largest ε that is evaluated and infinity cannot be distinguished.
            return self._value(math.inf, 0.0 if found.lower >= MAX_EPSILON else math.inf)
        return self._value(found.upper, found.upper - found.lower)

    def _delta(self, epsilon: float) -> BoundValue:
        upper, lower = self._profile(np.array([epsilon]))
        high, low = float(upper[0]), float(lower[0])
        return self._value(high, math.nextafter(high - low, math.inf) if high > low else 0.0)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = self.loss.profile(np.minimum(epsilons, MAX_EPSILON))
        beyond = epsilons >= self.loss.largest_epsilon
        lower = np.where(beyond | (epsilons > MAX_EPSILON), 0.0, np.maximum(lower, 0.0))
        return np.where(beyond, 0.0, np.minimum(upper, 1.0)), np.minimum(lower, 1.0)


@dataclass(frozen=True)
class AggregateNoiseAttack(Attack):
    """An attacker who knows all other values attains the loss itself: its certified lower side."""

    loss: AggregateNoiseLoss

    def delta(self, epsilon: float) -> float:
        _, lower = self.loss.profile(np.array([min(epsilon, MAX_EPSILON)]))
        return max(0.0, float(lower[0]))

    def epsilon(self, delta: float) -> float:
        return _inverse(self.loss, delta).lower

    def exact_curves(self) -> list[PrivacyCurve]:
        source = CurveSource("attack", self.loss.theorem, 1, guarantee=False)
        return [AggregateNoiseCurve(source, self.loss)]


BITS = 160
SEARCH_TOLERANCE = 1e-6
MAX_SEARCH_EPSILON = 64.0


def distance_delta(distance: float, epsilon: float) -> float:
    """Returns (1 + e^ε)·η, rounded up: the amount that a distance η in total variation adds to δ.

    Theorem: if P is within η of P' in total variation, Q of Q', and P' ≤ e^ε·Q' + δ for every set, then
    P ≤ P' + η ≤ e^ε·Q' + δ + η ≤ e^ε·(Q + η) + δ + η.
    """
    with precision(BITS):
        return round_up((1 + arb(epsilon).exp()) * arb(distance))


def turning_point(total: Callable[[float], float], high: float) -> float:
    """Returns about where on [0, high] a function is least that is convex in e^ε and perhaps capped at 1."""
    low = 0.0
    if total(high) < total(high * (1 - SEARCH_TOLERANCE)):
        return high
    while high - low > SEARCH_TOLERANCE:
        third = (high - low) / 3
        if total(low + third) <= total(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


@dataclass(frozen=True)
class ApproximateLoss(AggregateNoiseLoss):
    """The loss of messages within total variation ``distance`` η, for all values, of messages with this ``loss``.

    Theorem: δ(ε) ≤ δ_loss(ε) + (1 + e^ε)·η (``distance_delta``). As δ falls with ε, the value at a smaller ε also
        holds.
    Returns: an upper bound; an attack on the loss itself may be off by as much.
    """

    loss: AggregateNoiseLoss
    distance: float
    distance_event: str
    """The event whose probability is η, for the note."""
    distance_facts: Callable[[], NoiseFacts] | None = None
    """Returns the kind and the numbers that η follows from, if they are known."""

    @property
    def theorem(self) -> str:
        return f"{self.loss.theorem} + (1 + e^ε)·η"

    @property
    def note(self) -> str:
        note = f"Of δ, (1 + e^ε)·η is that {self.distance_event}: η = {format_rounded_up(self.distance, 3)}."
        return f"{self.loss.note} {note}".strip()

    def _upper(self, epsilon: float) -> float:
        (upper,), _ = self.loss.profile(np.array([epsilon]))
        return min(1.0, math.nextafter(float(upper) + distance_delta(self.distance, epsilon), math.inf))

    @cached_property
    def _turning_epsilon(self) -> float:
        return turning_point(self._upper, min(self.loss.largest_epsilon, MAX_SEARCH_EPSILON))

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper = np.array([self._upper(min(float(epsilon), self._turning_epsilon)) for epsilon in epsilons])
        # Relative to the bound itself, not to the truth: the amount by which rounding may have raised it.
        return upper, upper * (1 - 1e-9)

    def deviation(self) -> float:
        return self.loss.deviation()

    def noise_facts(self) -> NoiseFacts | None:
        inside = self.loss.noise_facts()
        return None if self.distance_facts is None or inside is None else {**self.distance_facts(), "noise": inside}
