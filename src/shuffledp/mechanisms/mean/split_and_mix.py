"""Sums and means by shares modulo N: the shuffler mixes them, and only the noisy sum can be read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.estimate import Estimate, Tails
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.mixed_loss import LaplaceSum, MixedLoss, PartialLaplaceSum, SplitSums, SummedNoise
from shuffledp.mechanisms.parts.modular_share import (
    ROOM_FOR,
    MixedShares,
    ModularShares,
    checked_shares,
    demand_room,
    designed_messages,
    least_modulus,
)
from shuffledp.mechanisms.parts.noise_tails import CountNoiseTails
from shuffledp.mechanisms.parts.own_noise_law import OwnNoiseLaw
from shuffledp.mechanisms.parts.reading import SimulatedReading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.user_values import RealNumber
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import round_up
from shuffledp.numerics.polya import PolyaDifferenceLaw
from shuffledp.privacy.randomizer import HasOwnLoss
from shuffledp.sampling import rounding
from shuffledp.sampling.divided_noise import PolyaDifference
from shuffledp.sampling.random import RandomSource

LEAST_RATE, MOST_RATE = 1e-12, 64.0
USERS_AT_ONCE = 1 << 15
FEW_ROUNDS, MANY_ROUNDS = (1.0, 0.98, 0.95, 0.9), (1.4, 1.3, 1.25, 1.2, 1.15, 1.1, 1.05, 1.0, 0.9)
"""Shares of what each of several rounds might have, tried from the largest on."""
HALVINGS = 20
"""Of the margin of a limit: to a millionth of it."""
ROUNDING_SHARE = 0.02
"""A design's grid is so fine that rounding adds about this to the variance of the noise."""


@dataclass(frozen=True)
class NoisySumReading(SimulatedReading):
    """The mean of numbers on a grid from the sum of all shares, with the noise of all users in it."""

    low: float
    high: float
    levels: int
    noise: PolyaDifferenceLaw
    """A user's share."""
    shares: ModularShares
    who: str = "SplitAndMix"

    def accumulate(self, messages: Array) -> Array:
        """The sum of each digit of the shares."""
        return self.shares.digit_sums(messages)

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean, and its variance; the rounding is counted at the most that users of this mean can have."""
        demand_room(self.who, users, self.shares.modulus, self.wrap_chance(users))
        return self._estimate(self.shares.centred(total, 0, users * self.levels), users)

    def _estimate(self, steps: int, users: int) -> Estimate:
        value = self.low + steps / users * self._step
        spread = self.noise_variance + most_rounding(steps / users, self.levels)
        tails = RoundedSumTails(self._noise_tails(users), self.noise_variance, self.levels, self.low, self._step)
        return Estimate(np.array([value]), np.array([spread * self._step**2 / users]), users, tails)

    def of_ends(self, estimate: Estimate) -> Estimate:
        """The ends are points of the grid: nothing is rounded, and all of the error is noise."""
        users, step = estimate.users, self._step
        variance = np.full_like(estimate.variance, self.noise_variance * step**2 / users)
        return Estimate(estimate.value, variance, users, self._noise_tails(users))

    def _noise_tails(self, users: int) -> CountNoiseTails:
        """Of the noise alone."""
        return CountNoiseTails(float(self.noise.shape) * users, float(self.noise.rate))

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        up = rounding.grid_position(self._units(values), self.levels)[1] / rounding.WHOLE
        return np.array([(self.noise_variance + (up * (1 - up)).mean()) * self._step**2 / len(values)])

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Where ``held`` users hold each of as many numbers, evenly spread over the interval."""
        demand_room(self.who, users, self.shares.modulus, self.wrap_chance(users))
        numbers = self.low + (self.high - self.low) * (np.arange(len(held)) + 0.5) / len(held)
        whole, left = rounding.grid_position(self._units(numbers), self.levels)
        steps = int(whole @ held) + int(rng.binomial(held, left / rounding.WHOLE).sum())
        shape, chance = float(self.noise.shape) * users, -math.expm1(-float(self.noise.rate))
        noise = int(rng.negative_binomial(shape, chance)) - int(rng.negative_binomial(shape, chance))
        return self._estimate(steps + noise, users)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """Anywhere: a share says nothing about what it is a share of."""
        del messages
        return (Sway(-math.inf, math.inf, self.low, self.high),)

    def wrap_chance(self, users: int) -> float:
        """An upper bound of the chance that the noise of so many users takes the sum around."""
        room = self.shares.room(0, users * self.levels)
        if room < 1:
            return 1.0
        return round_up(PolyaDifferenceLaw(self.noise.rate, self.noise.shape * users).tail(room + 1))

    @cached_property
    def noise_variance(self) -> float:
        """Of one user's share, in steps: 2q/(1−q)² times the shape."""
        return float(self.noise.shape) / (2 * math.sinh(float(self.noise.rate) / 2) ** 2)

    @property
    def _step(self) -> float:
        return (self.high - self.low) / self.levels

    def _units(self, values: Floats) -> Array:
        return rounding.units_of_interval(values, self.low, self.high)


def most_rounding(steps: float, levels: int) -> float:
    """The largest mean variance of rounding that users with this mean can have; positions are from 0 to ``levels``.

    One of position x has u(1 − u), u the fraction of x. No concave function is both at least that everywhere and less
    than this one, which is attained where all users are at the same place or at two such places: a quarter, but for
    the half steps at both ends. A sum tells no more of the users than their mean.
    """
    near = min(max(min(steps, levels - steps), 0.0), 0.5)
    return near * (1 - near)


@dataclass(frozen=True)
class RoundedSumTails(Tails):
    """The error of a mean of rounded numbers, with noise: the interval holds every mean that is not surprised.

    The law that a mean gives the estimate is that of users who are rounded the most. ``noise``: the tails of the noise
    alone; ``variance``: a user's part of that of the noise, in steps. The grid begins at ``low`` in steps of ``step``.
    ``most``: what the variance of rounding is at the most, for other reasons.
    """

    noise: Tails
    variance: float
    levels: int
    low: float
    step: float
    most: float = 0.25

    def reach(self, confidence: float) -> float:
        return self._tails(self.most).reach(confidence)

    @property
    def excess_kurtosis(self) -> float:
        return self.noise.excess_kurtosis

    def of_sum(self, parts: float) -> Tails:
        return self.noise.of_sum(parts)

    def moved(self, scale: float | Floats, shift: float | Floats) -> Tails:
        by, to = float(np.ravel(scale)[0]), float(np.ravel(shift)[0])
        return replace(self, low=by * self.low + to, step=by * self.step)

    def _tails(self, rounding: float) -> Tails:
        """Rounding is nearly normal: the kurtosis is that of the noise, made smaller."""
        return self.noise.of_sum((1 + rounding / self.variance) ** 2)

    def limits(self, value: Floats, variance: Floats, users: int, confidence: float) -> tuple[Floats, Floats]:
        del variance
        place = float((np.ravel(value)[0] - self.low) / self.step)
        ends = sorted(self._limit(place, users, confidence, side) * self.step + self.low for side in (-1, 1))
        return np.full_like(value, ends[0]), np.full_like(value, ends[1])

    def _margin(self, place: float, users: int, confidence: float) -> float:
        """How far an estimate may be from this mean, in steps."""
        rounding = min(self.most, most_rounding(place, self.levels))
        return self._tails(rounding).reach(confidence) * math.sqrt((self.variance + rounding) / users)

    def _limit(self, place: float, users: int, confidence: float, side: int) -> float:
        """The mean farthest from ``place`` on one side that is not surprised by it, by halving."""
        most = side * self.reach(confidence) * math.sqrt((self.variance + self.most) / users)
        near, far = 0.0, most
        if self._margin(place + far, users, confidence) >= abs(far):
            return place + far
        for _ in range(HALVINGS):
            middle = (near + far) / 2
            if self._margin(place + middle, users, confidence) >= abs(middle):
                near = middle
            else:
                far = middle
        return place + near


@dataclass(frozen=True)
class SplitAndMix(Mechanism, HasOwnLoss):
    """Send the number, with a share of the noise, as shares that are uniform but for their sum modulo N.

    The number is rounded at random without bias to one of the points 0 … k, k = ``levels`` (``rounding``). The user
    adds a share of discrete Laplace noise, exactly (``PolyaDifference``): the shares of ``honest`` users add up to
    P(z) ∝ e^(−rate·|z|). The result is split into ``messages`` shares modulo N = ``modulus``: all but one are uniform,
    the last is what is missing. The server adds up all messages modulo N, and reads the sum of all numbers with the
    noise: a curator's accuracy. Without the shuffler the messages of one user tell all.

    ``rate``: of the noise, per step of the grid; rate·levels is the ε of the noise. ``levels``: k. ``modulus``: N,
    larger than what users·levels and the noise can reach; a sum that may wrap around is refused. ``messages``: shares
    a user. ``honest``: the fewest users who will not collude and take part; more only add noise. ``low``, ``high``: the
    ends of the interval in which the users' numbers lie.

    Theorem: δ(ε) = δ of the discrete Laplace noise + (1 + e^ε)·η, where η = ½·√(E[N^(C−1)] − 1) bounds how far all
    messages are from ones that tell the noisy sum alone (docs/means.md); C counts the components of a random graph.
    Deviates: [BBGN20] bounds η by a closed form, which asks for one or two messages more.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.SplitAndMix(rate=0.001, levels=1000, modulus=1 << 25, messages=9, honest=10_000)
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-8).upper:.4f}"
    '1.0000'
    >>> found = mechanism.estimate(mechanism.encode(np.full(10_000, 0.25), rng=np.random.default_rng(1)))
    >>> f"{found.value[0]:.3f}", f"{found.standard_error[0]:.5f}"
    ('0.250', '0.00014')
    """

    rate: float
    levels: int
    modulus: int
    messages: int
    honest: int
    low: float = 0.0
    high: float = 1.0

    name = "split-and-mix"
    task = "mean"
    summary = "mean of numbers in an interval: shares of number and noise; private only among many users"
    take_it = "For means and sums at a curator's error, where the shuffler is trusted."
    also_called = (
        "ikos",
        "secure-sum",
    )
    tuning = (Tuning("rate", whole=False, more_is_more_private=False, least=LEAST_RATE, most=MOST_RATE),)
    has_table = False

    def __post_init__(self) -> None:
        who = "SplitAndMix"
        rate = argument.positive_finite(who, "rate", self.rate)
        if not LEAST_RATE <= rate <= MOST_RATE:
            raise ValueError(f"{who}: rate must be from {LEAST_RATE:g} to {MOST_RATE:g}, got {rate!r}.")
        low, high = argument.real(who, "low", self.low), argument.real(who, "high", self.high, up=True)
        if not 0.0 < high - low < math.inf:
            raise ValueError(f"{who}: low must be below high and both finite, got {low!r} and {high!r}.")
        levels = argument.count(who, "levels", self.levels, at_most=rounding.MOST_STEPS)
        modulus, messages = checked_shares(who, self.modulus, self.messages)
        honest = argument.count(who, "honest", self.honest)
        checked = {"rate": rate, "levels": levels, "modulus": modulus, "messages": messages, "honest": honest}
        for name, value in (checked | {"low": low, "high": high}).items():
            object.__setattr__(self, name, value)
        if self.reading.shares.room(0, levels) < 1:
            raise ValueError(f"{who}: modulus must be above {levels + 2}, got {modulus}.")

    @cached_property
    def values(self) -> RealNumber:
        return RealNumber("SplitAndMix", self.low, self.high)

    @cached_property
    def law(self) -> OwnNoiseLaw:
        return OwnNoiseLaw("SplitAndMix")

    @property
    def crowd(self) -> MixedShares:
        return MixedShares(self.messages)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("SplitAndMix", self.modulus)

    @cached_property
    def reading(self) -> NoisySumReading:
        noise = PolyaDifferenceLaw(Fraction(self.rate), Fraction(1, self.honest))
        return NoisySumReading(self.low, self.high, self.levels, noise, ModularShares(self.modulus, self.messages))

    @cached_property
    def noise(self) -> PolyaDifference:
        """A user's share of the noise."""
        return PolyaDifference(Fraction(self.rate), Fraction(1, self.honest))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty((len(values), self.messages), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            steps = rounding.to_grid(rounding.units_of_interval(part, self.low, self.high), self.levels, source)
            steps += self.noise.draw(source, len(part))
            messages[start : start + USERS_AT_ONCE] = self.reading.shares.split(steps, source)
        return messages.reshape(-1)

    # --- privacy ----------------------------------------------------------------------------------------------

    def own_loss(self, honest: int) -> MixedLoss:
        """Where fewer users take part than the noise was made for, by the law of what they add together."""
        wraps = self.reading.wrap_chance(honest)
        try:
            demand_room("SplitAndMix", honest, self.modulus, wraps)
        except ValueError as error:
            raise NotApplicable("own-noise", str(error)) from None
        distance = round_up(self.reading.shares.distance(honest))
        shares = f"{self.messages} shares of each of {honest:,} users"
        # More users than were planned add more noise than is counted.
        mixing = SplitSums(honest, self.messages - 1, self.modulus)
        return MixedLoss(self._summed(honest), distance, shares, 1.0 if honest > self.honest else wraps, mixing)

    def _summed(self, honest: int) -> SummedNoise:
        rate = Fraction(self.rate)
        if honest >= self.honest:
            return LaplaceSum(rate, self.levels)
        partial = PartialLaplaceSum(rate, self.levels, Fraction(honest, self.honest))
        if not partial.known:
            raise NotApplicable(
                "own-noise",
                f"SplitAndMix: the noise needs {self.honest:,} honest users, got {honest:,}; plan for fewer.",
            )
        return partial

    def delta_parts(self, epsilon: float, honest: int) -> tuple[float, float]:
        """δ at ε in its two parts: that of the noise, and what mixing adds; both are upper bounds.

        >>> mechanism = SplitAndMix(rate=1 / 128, levels=128, modulus=1 << 20, messages=9, honest=1000)
        >>> ["%.1e" % part for part in mechanism.delta_parts(1.0, honest=1000)]
        ['0.0e+00', '3.0e-09']
        """
        return self.own_loss(honest).parts(epsilon)

    # --- settings ---------------------------------------------------------------------------------------------

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """The grid, noise, modulus and messages for a target: the noise alone keeps ε, and mixing has all of δ."""
        room_for = ROOM_FOR * max(users, facts.get("users", users))
        for share in noise_shares(epsilon, delta, rounds):
            grid = share * math.sqrt(users / (12 * ROUNDING_SHARE))
            levels = min(max(1, math.ceil(grid)), rounding.MOST_STEPS)
            rate = share / levels
            while Fraction(rate) * levels > Fraction(share):
                rate = math.nextafter(rate, 0.0)
            noise = PolyaDifferenceLaw(Fraction(rate), Fraction(1, users))

            def chance(modulus: int, levels: int = levels, noise: PolyaDifferenceLaw = noise) -> float:
                return NoisySumReading(0.0, 1.0, levels, noise, ModularShares(modulus, 2)).wrap_chance(room_for)

            modulus = least_modulus(chance)
            mixing = (1.0 if rounds == 1 else 0.25) * (1 - 1e-9) * delta / rounds
            messages = designed_messages(users, modulus, share, mixing, delta / (2 * rounds))
            yield {"rate": rate, "levels": levels, "modulus": modulus, "messages": messages, "honest": users}

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def table(self) -> OutputTable:
        raise ValueError("SplitAndMix: its output law is too large to write down as a table.")

    @classmethod
    def examples(cls) -> Sequence[SplitAndMix]:
        return [
            cls(rate=0.5, levels=1, modulus=1 << 12, messages=3, honest=5),
            cls(rate=0.05, levels=20, modulus=100_003, messages=4, honest=10, low=-1.0, high=0.5),
            cls(rate=0.001, levels=1000, modulus=1 << 30, messages=2, honest=8),
        ]


def noise_shares(epsilon: float, delta: float, rounds: int) -> list[float]:
    """The noise's ε in each round: all of it where there is one; of several, first as much as might do.

    Losses of many rounds add up like normal ones: a deviation μ/√rounds each, where μ is about the Gaussian curator's.
    Of few, their largest values add up, and composed curves are a little above that.
    """
    if rounds == 1:
        return [epsilon]
    normal = epsilon / (math.sqrt(2 * math.log(1.25 / delta)) + math.sqrt(epsilon)) / math.sqrt(rounds)
    each = [factor * epsilon / rounds for factor in FEW_ROUNDS] + [factor * normal for factor in MANY_ROUNDS]
    return sorted((one for one in each if one >= FEW_ROUNDS[-1] * epsilon / rounds), reverse=True)
