"""Messages that are nearly those of a known loss: what the difference adds to δ."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.document import rounded_up
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.own_loss import Facts, OwnLoss

BITS = 160
CLOSE = 1e-6
FARTHEST = 64.0


def distance_part(distance: float, epsilon: float) -> float:
    """(1 + e^ε)·η, rounded up.

    Theorem: if P is within η of P' in total variation, Q of Q', and P' ≤ e^ε·Q' + δ for every set, then
    P ≤ P' + η ≤ e^ε·Q' + δ + η ≤ e^ε·(Q + η) + δ + η.
    """
    with precision(BITS):
        return round_up((1 + arb(epsilon).exp()) * arb(distance))


def turning_point(total: Callable[[float], float], high: float) -> float:
    """About where a function that is convex in e^ε, and perhaps cut off at 1, is least, from 0 to high."""
    low = 0.0
    if total(high) < total(high * (1 - CLOSE)):
        return high
    while high - low > CLOSE:
        third = (high - low) / 3
        if total(low + third) <= total(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


@dataclass(frozen=True)
class NearLoss(OwnLoss):
    """The messages are within ``distance`` η, in total variation and whatever the values, of ones with this ``loss``.

    Theorem: δ(ε) ≤ δ_loss(ε) + (1 + e^ε)·η (``distance_part``). As δ falls with ε, a smaller ε's value holds, too.
    Returns: an upper bound; an attack on the loss itself may be off by as much.
    """

    loss: OwnLoss
    distance: float
    why: str
    """What η is the chance of, for the note."""
    told: Callable[[], Facts] | None = None
    """The kind and the numbers that η follows from, where they are told."""

    @property
    def theorem(self) -> str:
        return f"{self.loss.theorem} + (1 + e^ε)·η"

    @property
    def note(self) -> str:
        return f"{self.loss.note} Of δ, (1 + e^ε)·η is that {self.why}: η = {rounded_up(self.distance, 3)}.".strip()

    def _upper(self, epsilon: float) -> float:
        (upper,), _ = self.loss.profile(np.array([epsilon]))
        return min(1.0, math.nextafter(float(upper) + distance_part(self.distance, epsilon), math.inf))

    @cached_property
    def _turn(self) -> float:
        return turning_point(self._upper, min(self.loss.largest, FARTHEST))

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper = np.array([self._upper(min(float(epsilon), self._turn)) for epsilon in epsilons])
        # Of the bound itself, not of the truth: how far rounding may have raised it.
        return upper, upper * (1 - 1e-9)

    def deviation(self) -> float:
        return self.loss.deviation()

    def facts(self) -> Facts | None:
        inside = self.loss.facts()
        return None if self.told is None or inside is None else {**self.told(), "noise": inside}
