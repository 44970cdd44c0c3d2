"""Privacy loss of cancelling noise, and certified bounds of its divergence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from flint import arb

from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Floats, Integers
from shuffledp.numerics.ball_arithmetic import precision, round_up, to_rational
from shuffledp.privacy.aggregate_noise import AggregateNoiseLoss, NoiseFacts

UNIT_ROUNDOFF = 2.0**-53
FLOAT_MARGIN = 2.0**-42
"""Larger than the float error of exp, and of sums and differences of a few numbers below 2^10."""
MAX_EXPONENT = 350.0
"""Larger exponents are reduced to this, so that the product of two exponentials is still a finite float."""


@dataclass(frozen=True)
class LossAtoms:
    """A privacy loss with finitely many finite values and some mass at infinity.

    ``values`` have an absolute error and ``masses`` a relative error of at most ``error_bound``. The mass at infinity
    is between ``certain_infinite_mass`` and ``infinite_mass``.
    """

    values: Floats
    masses: Floats
    infinite_mass: float
    certain_infinite_mass: float
    error_bound: float

    def round_to_side(self, sign: int) -> _RoundedAtoms:
        """Returns the finite part with all errors taken upwards (``sign`` 1) or downwards (−1)."""
        values = self.values + sign * self.error_bound
        masses = self.masses * (1 + sign * (self.error_bound + 2 * UNIT_ROUNDOFF))
        order = np.argsort(values, kind="stable")
        return _RoundedAtoms(values[order], masses[order])


@dataclass(frozen=True)
class _RoundedAtoms:
    """Finite loss values in ascending order, and their masses."""

    values: Floats
    masses: Floats

    def prefix_sums(self) -> tuple[Floats, Floats, Floats]:
        """Returns the negated values from the largest down, and prefix sums of masses and of masses·e^(−value)."""
        values, masses = self.values[::-1], self.masses[::-1]
        return (
            -values,
            np.append(0.0, np.cumsum(masses)),
            np.append(0.0, np.cumsum(masses * np.exp(np.minimum(-values, MAX_EXPONENT)))),
        )

    def tilt(self, x: float) -> Floats:
        """Returns masses·e^(x − value), with exponents of at most ``MAX_EXPONENT``."""
        if self._has_moderate_values and x <= MAX_EXPONENT:
            return self._tilted * math.exp(x)
        return np.asarray(self.masses * np.exp(np.minimum(x - self.values, MAX_EXPONENT)))

    @cached_property
    def _has_moderate_values(self) -> bool:
        return len(self.values) == 0 or float(np.abs(self.values).max()) <= MAX_EXPONENT

    @cached_property
    def _tilted(self) -> Floats:
        return np.asarray(self.masses * np.exp(-self.values))


def bound_sum_profile(first: LossAtoms, second: LossAtoms, points: Floats) -> tuple[Floats, Floats]:
    """Returns certified upper and lower bounds of E(1 − e^(x − l − l'))₊ at each x; infinite losses count 1.

    For each value l of one law, the values of the other above a threshold contribute P − e^(x−l)·Q, where P is the sum
    of their masses and Q that of their tilted masses. A sum of n positive floats has a relative error of at most
    n·2^-53. An atom within the margin of its threshold counts with either sign, which adds at most the margin times its
    mass.
    """
    small, large = sorted((first, second), key=lambda law: len(law.values))
    error = (len(large.values) + len(small.values) + 64) * UNIT_ROUNDOFF * 2 + 4 * FLOAT_MARGIN
    both = first.infinite_mass + second.infinite_mass
    result = []
    for sign in (1, -1):
        each = small.round_to_side(sign)
        mirrored, below, tilted = large.round_to_side(sign).prefix_sums()
        profile = np.empty(len(points))
        for place, x in enumerate(points.tolist()):
            # searchsorted is faster on sorted thresholds.
            counts = np.searchsorted(mirrored, each.values - (x - FLOAT_MARGIN), side="right")
            plain = float(each.masses @ below[counts])
            subtracted = float(each.tilt(x) @ tilted[counts])
            profile[place] = plain - subtracted + sign * error * plain
        result.append(profile)
    upper = np.minimum(1.0, np.maximum(result[0], 0.0) + both * (1 + 4 * UNIT_ROUNDOFF))
    certain = max(first.certain_infinite_mass, second.certain_infinite_mass)
    if any(float(np.abs(law.values).max(initial=0.0)) > MAX_EXPONENT for law in (first, second)):
        # The subtracted part may be too small, so only the upper bound holds.
        return upper, np.full(len(points), certain)
    return upper, np.maximum(result[1], 0.0) + certain


ZERO_LOSS = LossAtoms(np.zeros(1), np.ones(1), 0.0, 0.0, 0.0)
"""The loss that is certainly 0."""


def bound_profile(law: LossAtoms, points: Floats) -> tuple[Floats, Floats]:
    """Returns the same bounds for one loss alone."""
    return bound_sum_profile(law, ZERO_LOSS, points)


PRECISION_BITS = 256
OMITTED_MASS = 2.0**-140
"""Mass omitted from a law that is listed value by value; it counts as infinite loss."""
MAX_OMITTED_TABLE_MASS = 2.0**-66
MAX_VALUES = 1 << 20
MAX_PRODUCTS = 4e9
"""Largest number of products for which a table of the two counts is computed."""
BIN_WIDTH, BINS_PER_SIDE, LOSSES_AT_ONCE = 2.0**-16, 1 << 21, 1 << 20
"""Width of a loss bin, number of bins on either side of 0 (losses up to ±32), and losses binned at a time."""
ROUNDING_ERROR = 2.0**-46
"""Larger than the error of a ball of ``PRECISION_BITS`` bits rounded to a float: relative for masses, absolute for
logarithms."""
MIN_PROBABILITY = 1e-300


@dataclass(frozen=True)
class CancellingNoiseLaw:
    """The noise of one option: X + F messages for it and Y + F against it.

    X and Y are negative binomial with shape ``share`` and ratio q = e^−rate; F, the cancelling pairs, is negative
    binomial with shape ``share``·``shape`` and ratio ``ratio``; all are independent. ``share`` is 1 if all planned
    users add their noise; X and Y are then geometric.
    """

    rate: float
    shape: float
    ratio: float
    share: Fraction = Fraction(1)

    def losses(self) -> tuple[LossAtoms, LossAtoms]:
        """Returns the privacy loss of removing one message for the option, and that of adding one."""
        return _geometric_losses(self) if self.share == 1 else _table_losses(self)

    def shape_ball(self) -> arb:
        """Returns the shape of F."""
        return arb(to_rational(Fraction(self.shape) * self.share))

    def ratio_ball(self) -> arb:
        return arb(to_rational(self.ratio))

    def geometric_ball(self) -> arb:
        """Returns q."""
        return (-arb(to_rational(self.rate))).exp()


def _cancelling_pair_probabilities(noise: CancellingNoiseLaw) -> Iterator[arb]:
    """Yields the probabilities of F = 0, 1, … in this order."""
    shape, ratio = noise.shape_ball(), noise.ratio_ball()
    chance, count = (shape * (1 - ratio).log()).exp(), 0
    while True:
        yield chance
        chance = chance * ratio * (shape + count) / (count + 1)
        count += 1


@lru_cache(maxsize=64)
def _geometric_losses(noise: CancellingNoiseLaw) -> tuple[LossAtoms, LossAtoms]:
    """Returns the losses for geometric X and Y, where the loss depends on one number only.

    Theorem: P(U = u, V = v) = (1−q)²·q^|u−v|·T(min(u, v)), T(m) = Σ_f P(F=f)·q^(2(m−f)). Removing a message from U has
    the loss b where U was not the smaller count, with probability 1/(1+q), and −b − log(T(u)/T(u−1)) with probability
    (1−q)·q·T(u−1) for each u ≥ 1. Adding a message has the loss −b with probability q/(1+q), b + log(T(u)/T(u−1)) with
    probability (1−q)·T(u) for each u ≥ 1, and infinity with probability (1−q)·T(0).
    """
    with precision(PRECISION_BITS):
        q, b = noise.geometric_ball(), arb(to_rational(noise.rate))
        square, rest, before = q * q, 1 - q / (1 + q), arb(0)
        ratios, chances = [], []
        for chance in _cancelling_pair_probabilities(noise):
            total = chance + square * before
            ratios.append(total / before if before > 0 else None)
            chances.append((1 - q) * total)
            rest = rest - chances[-1]
            before = total
            if rest < OMITTED_MASS:
                break
            if len(chances) > MAX_VALUES:
                raise NotApplicable(
                    "own-noise", f"the ratio of the cancelling pairs is too close to 1, got {noise.ratio!r}."
                )
        steps = np.array([float(b + ratio.log()) for ratio in ratios[1:] if ratio is not None])
        masses = np.array([float(chance) for chance in chances])
        omitted, first = round_up(rest) + MIN_PROBABILITY * len(masses), -round_up(-chances[0])
        even, odd = float(1 / (1 + q)), float(q / (1 + q))
        removal = LossAtoms(
            np.append(noise.rate, -steps), np.append(even, float(q) * masses[:-1]),
            infinite_mass=omitted + float(masses[-1]), certain_infinite_mass=0.0, error_bound=ROUNDING_ERROR,
        )  # fmt: skip
        addition = LossAtoms(
            np.append(-noise.rate, steps), np.append(odd, masses[1:]), infinite_mass=omitted + round_up(chances[0]),
            certain_infinite_mass=max(0.0, first), error_bound=ROUNDING_ERROR,
        )  # fmt: skip
    return removal, addition


@lru_cache(maxsize=16)
def _table_losses(noise: CancellingNoiseLaw) -> tuple[LossAtoms, LossAtoms]:
    """Returns the losses for any share, from a table of the two counts in floats.

    All numbers are sums of products of positive floats, so the relative error of each is at most the number of
    operations times 2^-53. The mass truncated from the three laws counts as infinite loss: with P' ≤ P and Q' ≤ Q, (P −
    e^ε·Q)₊ ≤ (P' − e^ε·Q')₊ + (P − P').
    """
    with precision(PRECISION_BITS):
        single, cut_single = _to_floats(_negative_binomial(noise))
        pairs, cut_pairs = _to_floats(_cancelling_pair_probabilities(noise))
    if len(single) ** 2 * len(pairs) > MAX_PRODUCTS:
        raise NotApplicable(
            "own-noise", "the noise of so few of the planned users is too large to compute; plan for fewer users."
        )
    omitted = 2 * cut_single + cut_pairs
    error = 8 * (len(pairs) + 2 * len(single) + 16) * UNIT_ROUNDOFF
    removal, addition = LossBins(), LossBins()
    for before, after in _iterate_shifted_laws(single, pairs):
        removal.add(before, after)
        addition.add(after, before)
    return removal.atoms(omitted, error), addition.atoms(omitted, error)


def _iterate_shifted_laws(single: Floats, pairs: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yields P(U = u−1, V = v) and P(U = u, V = v) for all u ≥ 0 and v, grouped by their distance.

    With d = |u − v| and m = min(u, v), P(u, v) = Σ_f P(F = f)·g(m−f)·g(m−f+d); the law is symmetric.
    """
    size, width = len(single), len(pairs) + len(single)
    near = np.zeros(width)
    for distance in range(-1, size + 1):
        products = single[: max(0, size - distance - 1)] * single[distance + 1 :]
        further = np.zeros(width)
        if len(products):
            further[: len(pairs) + len(products) - 1] = np.convolve(pairs, products)
        if distance >= 0:
            # v = u + distance: after the shift the distance is larger by 1 and the minimum smaller by 1.
            yield np.concatenate([[0.0], further[:-1]]), near
            # u = v + distance + 1: after the shift the distance is smaller by 1.
            yield near, further
        near = further


class LossBins:
    """The loss of one law against another, in narrow bins: their middles are off by at most half the width."""

    def __init__(self) -> None:
        self.masses: Floats = np.zeros(2 * BINS_PER_SIDE)
        self.infinite = self.certain_infinite = 0.0
        self.pending: list[tuple[Integers, Floats]] = []

    def add(self, first: Floats, second: Floats) -> None:
        """Adds points with these probabilities under the first and the second law."""
        possible = first > MIN_PROBABILITY
        both = possible & (second > MIN_PROBABILITY)
        self.certain_infinite += float(first[possible & (second == 0)].sum())
        chances = first[both]
        places = np.floor(np.log(chances / second[both]) / BIN_WIDTH).astype(np.int64) + BINS_PER_SIDE
        inside = (places >= 0) & (places < 2 * BINS_PER_SIDE)
        # Losses outside all bins, and probabilities too small to divide, count as infinite.
        self.infinite += (
            float(first[possible & ~both].sum()) + float(chances[~inside].sum()) + MIN_PROBABILITY * first.size
        )
        self.pending.append((places[inside], chances[inside]))
        if sum(len(chances) for _, chances in self.pending) > LOSSES_AT_ONCE:
            self._collect_pending()

    def _collect_pending(self) -> None:
        places, chances = (np.concatenate(part) for part in zip(*self.pending, strict=True))
        self.masses += np.bincount(places, weights=chances, minlength=2 * BINS_PER_SIDE)
        self.pending = []

    def atoms(self, omitted: float, error: float) -> LossAtoms:
        """Returns the losses; ``omitted`` is the mass that either law lacks, ``error`` that of each probability."""
        if self.pending:
            self._collect_pending()
        bins = np.flatnonzero(self.masses)
        values = np.asarray((bins - BINS_PER_SIDE + 0.5) * BIN_WIDTH, dtype=np.float64)
        certain = max(0.0, self.certain_infinite * (1 - 2 * error) - omitted)
        infinite = self.infinite * (1 + 2 * error) + omitted
        return LossAtoms(values, self.masses[bins], infinite, certain, 4 * error + ROUNDING_ERROR + BIN_WIDTH / 2)


def _negative_binomial(noise: CancellingNoiseLaw) -> Iterator[arb]:
    """Yields the probabilities of X = 0, 1, … in this order."""
    shape, ratio = arb(to_rational(noise.share)), noise.geometric_ball()
    chance, count = (shape * (1 - ratio).log()).exp(), 0
    while True:
        yield chance
        chance = chance * ratio * (shape + count) / (count + 1)
        count += 1


def _to_floats(chances: Iterator[arb]) -> tuple[Floats, float]:
    """Returns all but negligible probabilities as floats, and an upper bound of the omitted mass."""
    rest, table = arb(1), []
    for chance in chances:
        table.append(float(chance))
        rest = rest - chance
        if rest < MAX_OMITTED_TABLE_MASS or len(table) > MAX_VALUES:
            break
    return np.array(table), max(0.0, round_up(rest))


@dataclass(frozen=True)
class CancellingNoiseLoss(AggregateNoiseLoss):
    """The loss of all messages about one user's option, or about one yes or no (``single``)."""

    noise: CancellingNoiseLaw
    single: bool = False

    @property
    def theorem(self) -> str:
        return "exact law of cancelling noise [GKMPS21, loss ours]"

    @property
    def is_attained(self) -> bool:
        return True

    @cached_property
    def _laws(self) -> tuple[LossAtoms, LossAtoms]:
        return self.noise.losses()

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        removal, addition = self._laws
        if not self.single:
            # One option loses a message and another gains one; the opposite direction has the same law.
            return bound_sum_profile(removal, addition, epsilons)
        (upper, lower), (other_upper, other_lower) = (bound_profile(law, epsilons) for law in self._laws)
        return np.maximum(upper, other_upper), np.maximum(lower, other_lower)

    def deviation(self) -> float:
        return self.noise.rate * (1.0 if self.single else math.sqrt(2.0))

    def noise_facts(self) -> NoiseFacts | None:
        if self.single:
            return None
        noise = self.noise
        numbers = {"rate": noise.rate, "shape": noise.shape, "ratio": noise.ratio}
        exact = {name: Fraction(number) for name, number in numbers.items()}
        return {"kind": "cancelling", **exact, "share": noise.share}
