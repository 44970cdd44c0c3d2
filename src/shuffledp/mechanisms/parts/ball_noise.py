"""The privacy of Gaussian noise in the unit ball: of one message alone, and among others once it is cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.parts.ball_crowds import others_of_ball, room
from shuffledp.mechanisms.parts.law import Law
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.cut_randomizer import CutRandomizer
from shuffledp.privacy.others import Others
from shuffledp.privacy.own_loss import OwnLoss
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.randomizer import HasTails, Randomizer
from shuffledp.privacy.record import Record
from shuffledp.privacy.variation_ratio import VariationRatio

WHO = "GaussianVector"
FAR = 12
"""A normal vector is longer than √d + 12 with probability below e^-72."""
LEAST_REACH, MOST_REACH, LEAST_CHANCE = 2.0, 11.0, 1e-300
LARGEST = 40.0
"""Of ε: for more, e^-72 counts too much."""
STEP, LESS, LITTLE_LESS, MUCH_NOISE = 0.25, 150.0, 3.0, 3.0
NO_RATIO = "Gaussian noise bounds no ratio: no parameters tell of it."
COMPUTED_VECTORS = "its vectors are computed in floats and noised, so that their law is known nearly only."
BITS = 256


@dataclass(frozen=True)
class BallLaw(Law):
    """Points of the unit ball with Gaussian noise: nothing without a cut."""

    why_no_attack = COMPUTED_VECTORS

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(WHO, NO_RATIO)

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()


@dataclass(frozen=True)
class CutBall(CutRandomizer, Record):
    """What is left where messages beyond ``reach`` standard deviations are cut, for one other user after the other.

    Theorem: absent user with a common part up to τ (``ball_crowds``): besides the worst crowd δ has 3τe^κ + η + t(1 +
    e^κ + 2e^ε) + (τ + t)(1 + e^ε), over 1 − 2(τ + t), with τ = P(N > reach), η = 4τ + 2^-45 and t = e^-72.
    """

    sigma: float
    error: float
    reach: float
    quick: bool

    def lost(self, epsilon: float) -> float:
        """With e^ε at the next step of ε, so that it is one number for all small ε."""
        if epsilon > LARGEST:
            return 1.0
        with precision(BITS):
            tau, rare = self._tau(), arb(-FAR * FAR // 2).exp()
            more, ratio = arb(rational(self.error)).exp(), arb(STEP * (1 + math.floor(epsilon / STEP))).exp()
            total = (
                3 * tau * more
                + arb(rational(room(self.reach)))
                + rare * (1 + more + 2 * ratio)
                + (tau + rare) * (1 + ratio)
            )
            return round_up(total / (1 - 2 * (tau + rare)))

    def _tau(self) -> arb:
        return (arb(rational(self.reach)) / arb(2).sqrt()).erfc() / 2

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(WHO, NO_RATIO)

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()

    @cached_property
    def _others(self) -> Others:
        return others_of_ball(self.sigma, self.reach, self.error, quick=self.quick)

    def others(self) -> Sequence[Others]:
        return (self._others,)


@dataclass(frozen=True)
class WidestBall(Randomizer, HasTails, Record):
    """The same noise where one kind of other user stands for all: about a fifth more ε, in less than a second."""

    sigma: float
    error: float

    @property
    def has_tails(self) -> bool:
        return True

    def without_tails(self, share: float) -> CutBall:
        return CutBall(self.sigma, self.error, reach_of(self.sigma, share), quick=True)

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(WHO, NO_RATIO)

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()


@dataclass(frozen=True)
class BallLoss(OwnLoss):
    """What one message tells by itself, which holds among any others.

    Theorem: Gaussian noise of the ball's diameter, μ = 2/σ: δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ). As it is executed,
    e^κ times that at ε − 2κ, and t(1 + e^ε), t = e^-72 (``ball_crowds``).
    """

    sigma: float
    error: float
    honest: int

    @property
    def theorem(self) -> str:
        return "one message alone: the curve of Gaussian noise"

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        with precision(BITS):
            found = [self._delta(float(epsilon)) for epsilon in epsilons]
            upper = np.array([round_up(delta) for delta in found])
            lower = np.array([round_down(delta) for delta in found])
        return np.clip(upper, 0.0, 1.0), np.clip(lower, 0.0, 1.0)

    def _delta(self, epsilon: float) -> arb:
        mu, error, level = (
            2 / arb(rational(self.sigma)),
            arb(rational(self.error)),
            arb(rational(min(epsilon, LARGEST))),
        )
        moved = level - 2 * error
        found = _chance(mu / 2 - moved / mu) - moved.exp() * _chance(-mu / 2 - moved / mu)
        return error.exp() * found + arb(-FAR * FAR // 2).exp() * (1 + level.exp())

    def deviation(self) -> float:
        """Of the loss among many others, or of the message alone."""
        return min(2 / self.sigma, math.sqrt(math.expm1(4 / self.sigma**2) / self.honest))


def _chance(x: arb) -> arb:
    """P(N < x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


def reach_of(sigma: float, share: float) -> float:
    """About where P(N > reach) is as small as is wanted: the cut costs little, and one is enough; where single messages
    weigh much, it is worth a good part of δ."""
    chance = share / (LESS if sigma >= MUCH_NOISE else LITTLE_LESS)

    def room(reach: float) -> float:
        return math.log(max(chance, LEAST_CHANCE)) - math.log(_normal_tail(reach))

    if room(LEAST_REACH) >= 0:
        return LEAST_REACH
    if room(MOST_REACH) <= 0:
        return MOST_REACH
    return find_crossing(room, LEAST_REACH, MOST_REACH, relative=0.0, absolute=1e-3).middle


def _normal_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2
