"""Cancelling noise for counts: users send their true option, and together add noise most of which cancels.

First comes the exact privacy loss of this noise, then a search for its parameters, the sampler of one user's share, the
estimator and the mechanism ``CancellingNoise``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimate_intervals import NegativeBinomialErrorLaw
from shuffledp.mechanisms.base.estimator import (
    Estimate,
    Estimator,
    Influence,
    SelectedOptions,
    SelectedOptionsEstimator,
    SimulableEstimator,
    TreeEstimator,
)
from shuffledp.mechanisms.base.law import AggregateNoiseLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.message_plan import SharedNoise
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.mechanisms.dummies.poisson_dummies import check_positive
from shuffledp.numerics.intervals import precision, round_up, to_rational
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.curve import CurveSource
from shuffledp.privacy.privacy_loss import AggregateNoiseCurve, AggregateNoiseLoss, ApproximateLoss, NoiseFacts
from shuffledp.privacy.randomizer import HasAggregateLoss
from shuffledp.sampling.noise import ChoiceLaw, LogarithmicLaw, PoissonLaw
from shuffledp.sampling.random_sources import RandomSource

# --- Excess of the sum of two independent losses: certified bounds of E(1 − e^(x − l − l'))₊ ---


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


# --- Exact loss of cancelling noise: geometric noise on the two counts of an option, and pairs that cancel ---


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


# --- Search for the parameters with the fewest messages, in floats; the result is certified elsewhere ---


MIN_SEARCH_SHAPE, MAX_SEARCH_SHAPE = 1.0, 1e5
SHAPE_ACCURACY, GAP_ACCURACY = 1e-6, 0.02
WIDEST_GAP, NARROWEST_GAP = 0.6, 2.0**-14
"""Range in which 1 − ratio is searched."""
TARGET_SHARE = 0.999
"""The search aims slightly below the target δ so that the certified value stays within it."""
MAX_EPSILON_RAISES = 6
TRUNCATED_SHARE_OF_DELTA = 1e-9
"""Share of δ that may be truncated from the law of F."""


@dataclass(frozen=True)
class CancellingPairs:
    """Parameters of the cancelling pairs F, and the mean number of noise messages per option, of both signs."""

    shape: float
    ratio: float
    messages: float


def approximate_delta(rate: float, shape: float, ratio: float, epsilon: float, delta: float, single: bool) -> float:
    """Approximates δ at ε by the losses of ``CancellingNoiseLaw`` in floats; ``delta`` gives its order of magnitude."""
    q = math.exp(-rate)
    steps, masses = _approximate_law(rate, shape, ratio, delta)
    later = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    # Finite losses of adding a message, and their probabilities.
    added, chances = np.append(steps, -rate), np.append(masses[1:], q / (1 + q))
    alone = float(np.sum(np.maximum(0.0, -np.expm1(epsilon - added)) * chances)) + float(masses[0])
    if single:
        return max(alone, _approximate_removal_delta(rate, steps, masses, epsilon))
    # The loss of removing a message exceeds a threshold from some u on: P is the sum of q·m(u−1), Q that of m(u).
    thresholds = epsilon - added
    first = np.searchsorted(-steps, thresholds, side="right")
    tail = q * (later[first] - masses[-1]) - np.exp(thresholds) * later[first + 1]
    even = np.maximum(0.0, -np.expm1(thresholds - rate)) / (1 + q)
    return float(np.sum(chances * (np.maximum(0.0, tail) + even))) + float(masses[0])


def _approximate_removal_delta(rate: float, steps: Floats, masses: Floats, epsilon: float) -> float:
    """Approximates δ at ε of removing a message from a single count."""
    q = math.exp(-rate)
    even = max(0.0, -math.expm1(epsilon - rate)) / (1 + q)
    return even + float(np.sum(np.maximum(0.0, -np.expm1(epsilon + steps)) * q * masses[:-1]))


def _approximate_law(rate: float, shape: float, ratio: float, delta: float) -> tuple[Floats, Floats]:
    """Returns b + log(T(u)/T(u−1)) for u ≥ 1, which decreases, and (1−q)·T(u) for u ≥ 0."""
    q = math.exp(-rate)
    mean, gap = shape * ratio / (1 - ratio), 1 - ratio
    deviation = math.sqrt(shape * ratio) / gap
    far = -math.log(TRUNCATED_SHARE_OF_DELTA * delta)
    most = math.ceil(mean + deviation * math.sqrt(2 * far) + far / gap + 20 / rate) + 2
    numbers = np.arange(most - 1, dtype=np.float64)
    logs = np.append(0.0, np.cumsum(np.log(ratio * (shape + numbers) / (numbers + 1)))) + shape * math.log(gap)
    total = np.maximum(_geometric_sums(np.exp(logs), q * q), 1e-300)
    return rate + np.log(total[1:] / total[:-1]), (1 - q) * total


def _geometric_sums(terms: Floats, ratio: float) -> Floats:
    """Returns Σ_j ratio^j·term(u−j) for each u, by factors 1 + ratio^m·shift^m, m = 1, 2, 4, … doubling."""
    total, shift, weight = terms.copy(), 1, ratio
    while shift < len(total) and weight > 0:
        total[shift:] += weight * total[:-shift]
        shift, weight = 2 * shift, weight * weight
    return total


def rate_from_deviation(deviation: float) -> float:
    """Returns the rate of discrete Laplace noise X − Y with this standard deviation: √(2q)/(1−q), q = e^−rate."""
    # (1−q)/√q = 2·sinh(rate/2) = √2/deviation.
    return 2 * math.asinh(1 / (math.sqrt(2.0) * deviation))


@lru_cache(maxsize=256)
def find_smallest_pairs(rate: float, epsilon: float, delta: float, single: bool = False) -> CancellingPairs | None:
    """Returns the pairs with the fewest messages for which noise of this rate meets (ε, δ), or None if none do."""
    if rate * (1 if single else 2) >= epsilon:
        return None
    best: CancellingPairs | None = None
    start = 1.0 + math.log(1 / delta)

    def at(log_gap: float) -> float:
        nonlocal best, start
        ratio = 1 - math.exp(log_gap)
        shape = _find_shape(rate, ratio, epsilon, delta, single, start)
        if shape is None:
            return math.inf
        start = shape
        q = math.exp(-rate)
        messages = 2 * q / (1 - q) + 2 * shape * ratio / (1 - ratio)
        if best is None or messages < best.messages:
            best = CancellingPairs(shape, ratio, messages)
        return messages

    _minimize(at, math.log(NARROWEST_GAP), math.log(WIDEST_GAP), math.log(min(0.5, 0.08 * epsilon)))
    return best


def _find_shape(rate: float, ratio: float, epsilon: float, delta: float, single: bool, start: float) -> float | None:
    """Returns the least sufficient shape for this ratio, or None if there is none."""
    goal = math.log(TARGET_SHARE * delta)

    def distance(log_shape: float) -> float:
        reached = approximate_delta(rate, math.exp(log_shape), ratio, epsilon, delta, single)
        return goal - (math.log(reached) if reached > 0 else -745.0)

    low, high = math.log(MIN_SEARCH_SHAPE), math.log(MAX_SEARCH_SHAPE)
    if distance(high if start * 64 > MAX_SEARCH_SHAPE else math.log(start * 64)) < 0:
        return None
    high = min(high, math.log(start * 64))
    guess = min(max(math.log(start), low), high)
    return math.exp(find_crossing(distance, low, high, guess=guess, absolute=SHAPE_ACCURACY).above)


def _minimize(function: Callable[[float], float], low: float, high: float, start: float) -> None:
    """Minimizes a unimodal function by a step search from ``start``; the function records its own minimum."""
    step, place = 0.5, min(max(start, low), high)
    value = function(place)
    while step > GAP_ACCURACY:
        for other in (place + step, place - step):
            if low <= other <= high and (smaller := function(other)) < value:
                place, value = other, smaller
                break
        else:
            step /= 2.5


def design_noise(
    times: float, epsilon: float, delta: float, rounds: int, losses: int = 2
) -> tuple[float, CancellingPairs] | None:
    """Returns a rate and cancelling pairs with ``times`` the error of a curator's Laplace noise; None if none suffice.

    A user's value changes ``losses`` counts in a round. If there are more than two changes in all rounds, each pair of
    counts gets a part of the target, by the composition of ideal Laplace noise.
    """
    changes = rounds * losses / 2
    if changes <= 1:
        rate = rate_from_deviation(times * math.sqrt(2.0) * losses / epsilon)
        pairs = find_smallest_pairs(rate, epsilon, delta, single=losses == 1)
        return None if pairs is None else (rate, pairs)
    return _design_for_many_changes(times, epsilon, delta, math.ceil(changes))


def _design_for_many_changes(
    times: float, epsilon: float, delta: float, changes: int
) -> tuple[float, CancellingPairs] | None:
    """Designs the noise of many changed pairs of counts, raising the ε of each while their composition allows it."""
    # Imported here so that a client can encode without loading the composition code.
    from shuffledp.privacy.composition import compose

    each, best = _initial_epsilon(changes, epsilon, delta), None
    for _ in range(MAX_EPSILON_RAISES):
        rate = rate_from_deviation(times * math.sqrt(2.0) * 2 / each)
        pairs = find_smallest_pairs(rate, each, delta / (4 * changes))
        if pairs is None:
            break
        loss = CancellingNoiseLoss(CancellingNoiseLaw(rate, pairs.shape, pairs.ratio))
        curve = AggregateNoiseCurve(CurveSource("own-noise", loss.theorem, 1, True), loss)
        composed = compose(curve, changes).epsilon(delta).upper
        if composed <= epsilon and (best is None or rate > best[0]):
            best = rate, pairs
        if 0 <= epsilon - composed < 0.002 * epsilon:
            break
        each *= (0.999 * epsilon / composed) ** 0.9
    return best


def _initial_epsilon(changes: int, epsilon: float, delta: float) -> float:
    """Returns a first ε for each of ``changes`` pairs of counts, by basic composition or that of bounded losses."""

    def compose_bounded(each: float) -> float:
        # The mean of a loss within ±each is at most each·tanh(each/2); sums concentrate by Hoeffding's inequality.
        mean = changes * each * math.tanh(each / 2)
        return min(changes * each, mean + each * math.sqrt(2 * changes * math.log(2 / delta)))

    low, high = math.log(epsilon / changes) - 1e-9, math.log(epsilon)
    crossing = find_crossing(lambda x: math.log(compose_bounded(math.exp(x)) / epsilon), low, high, absolute=1e-6)
    return math.exp(crossing.below)


# --- A user's share of the noise: a few clusters of messages, in time independent of the number of options ---


MAX_MEAN = 32
"""Largest mean of a Poisson number drawn at once; larger ones are sums of smaller ones."""
CLUSTER_FOR, CLUSTER_AGAINST, CLUSTER_BOTH = 0, 1, 2
"""Kinds of clusters: messages for the option, against it, or equally many of both."""


@dataclass(frozen=True)
class NoiseShare:
    """The share ``part`` of the noise of all ``options``, as messages 2·option (for) and 2·option + 1 (against).

    A negative binomial number of shape a and ratio s is the total size of a Poisson number of clusters, of mean
    −a·log(1−s), with logarithmic sizes. So the noise of all options is one Poisson number of clusters, each of one of
    three kinds, with a uniform option and a size.
    """

    noise: CancellingNoiseLaw
    options: int
    part: Fraction

    # --- laws ---

    def cluster_rate(self) -> arb:
        """Returns the mean number of clusters."""
        return 2 * self._single_rate() + self._pair_rate()

    def _single_rate(self) -> arb:
        """Returns the mean number of clusters of X over all options; Y has the same."""
        return -arb(to_rational(self.part * self.options)) * (1 - self.noise.geometric_ball()).log()

    def _pair_rate(self) -> arb:
        """Returns the mean number of clusters of F over all options."""
        shape = Fraction(self.noise.shape) * self.part * self.options
        return -arb(to_rational(shape)) * (1 - self.noise.ratio_ball()).log()

    @cached_property
    def messages(self) -> float:
        """Mean number of messages."""
        q, s = math.exp(-self.noise.rate), self.noise.ratio
        each = 2 * q / (1 - q) + 2 * self.noise.shape * s / (1 - s)
        return float(self.part * self.options) * each

    @cached_property
    def _kind_law(self) -> ChoiceLaw:
        return ChoiceLaw((self._single_rate, self._single_rate, self._pair_rate))

    @cached_property
    def _size_laws(self) -> tuple[LogarithmicLaw, LogarithmicLaw]:
        return LogarithmicLaw(self.noise.geometric_ball), LogarithmicLaw(self.noise.ratio_ball)

    # --- sampling ---

    def draw(self, source: RandomSource, users: int) -> Integers:
        """Draws the shares of ``users`` users, in no particular order of messages.

        Poisson numbers of clusters add up to a Poisson number, so one is drawn for all users.
        """
        number = ClusterCount(self, users)
        kinds, options, sizes = self._draw_clusters(source, int(number.draw(source, 1)[0]))
        both = kinds == CLUSTER_BOTH
        pairs = np.repeat(2 * options[both], sizes[both])
        single = np.repeat((2 * options + kinds)[~both], sizes[~both])
        return np.concatenate([pairs, pairs + 1, single])

    def draw_by_user(self, source: RandomSource, users: int) -> tuple[Integers, Integers]:
        """Draws the shares of ``users`` users; returns the owner of each message, and the messages."""
        owners = np.repeat(np.arange(users), ClusterCount(self, 1).draw(source, users))
        kinds, options, sizes = self._draw_clusters(source, len(owners))
        both = kinds == CLUSTER_BOTH
        pairs, pair_owners = np.repeat(2 * options[both], sizes[both]), np.repeat(owners[both], sizes[both])
        single = np.repeat((2 * options + kinds)[~both], sizes[~both])
        message_owners = np.concatenate([pair_owners, pair_owners, np.repeat(owners[~both], sizes[~both])])
        return message_owners, np.concatenate([pairs, pairs + 1, single])

    def _draw_clusters(self, source: RandomSource, count: int) -> tuple[Integers, Integers, Integers]:
        """Returns the kinds, options and sizes of ``count`` clusters."""
        kinds, options = self._kind_law.draw(source, count), source.integers_below(self.options, count)
        sizes, both = np.empty(count, dtype=np.int64), kinds == CLUSTER_BOTH
        pair_clusters = int(np.count_nonzero(both))
        sizes[both] = self._size_laws[1].draw(source, pair_clusters)
        sizes[~both] = self._size_laws[0].draw(source, count - pair_clusters)
        return kinds, options, sizes

    # --- tail of the number of messages ---

    def overflow_probability(self, messages: int) -> arb:
        """Returns the probability that one share has more than this many messages, as a ball."""
        single, pairs = self._single_rate(), self._pair_rate()
        q, s = self.noise.geometric_ball(), self.noise.ratio_ball()
        # n·P(n) = Σ_j j·λ_j·P(n − j) for a Poisson number of clusters with a mean of λ_j clusters of size j.
        sized: list[arb] = [arb(0)]
        for j in range(1, messages + 1):
            both = pairs * s ** (j // 2) / ((j // 2) * -(1 - s).log()) if j % 2 == 0 else arb(0)
            sized.append(j * (2 * single * q**j / (j * -(1 - q).log()) + both))
        chances = [(-(2 * single + pairs)).exp()]
        for n in range(1, messages + 1):
            chances.append(sum((sized[j] * chances[n - j] for j in range(1, n + 1)), arb(0)) / n)
        return 1 - sum(chances, arb(0))


@dataclass(frozen=True)
class ClusterCount:
    """The Poisson number of clusters of ``users`` users together, as a sum of Poisson numbers of small mean."""

    share: NoiseShare
    users: int

    def draw(self, source: RandomSource, count: int) -> Integers:
        """Draws ``count`` independent numbers."""
        law, pieces = _split_poisson(self)
        drawn = law.draw(source, count * pieces)
        return drawn if pieces == 1 else np.asarray(drawn.reshape(count, pieces).sum(axis=1))


@dataclass(frozen=True)
class _PieceRate:
    """The mean of one of ``pieces`` equal summands."""

    number: ClusterCount
    pieces: int

    def __call__(self) -> arb:
        return self.number.share.cluster_rate() * self.number.users / self.pieces


@lru_cache(maxsize=64)
def _split_poisson(number: ClusterCount) -> tuple[PoissonLaw, int]:
    """Returns the law of one summand, and the number of summands."""
    mean = float(number.share.cluster_rate()) * number.users
    pieces = max(1, math.ceil(mean / MAX_MEAN))
    return PoissonLaw(_PieceRate(number, pieces)), pieces


# --- Estimator ---


@dataclass(frozen=True)
class SignedCountsEstimator(SimulableEstimator, TreeEstimator):
    """Estimates the count of each option by the messages for it minus those against it.

    The error of an option is X − Y, of variance 2q/(1−q)² times the multiple of the planned noise that is present. If
    every user holds one option (``has_single_option``), the sum of all counts is known, which removes 1/options of the
    variance.
    """

    options: int
    noise: CancellingNoiseLaw
    honest: int
    has_single_option: bool = True

    def accumulate(self, messages: Array) -> Array:
        counts = np.bincount(messages, minlength=2 * self.options)[: 2 * self.options].reshape(self.options, 2)
        return np.asarray(counts[:, 0] - counts[:, 1])

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose messages are all for one option or all against it.

        The correction of the known total spreads the surplus evenly over all options.
        """
        if math.isinf(messages):
            return (Influence(-math.inf, math.inf),)
        share, known = self.remaining_variance_share, 1 - self.remaining_variance_share
        return (Influence(known - messages * share, known + messages * share),)

    def finish(self, total: Array, users: int) -> Estimate:
        value = np.asarray(total, dtype=np.float64)
        return self.from_counts(value, value.sum(), users)

    def from_counts(self, counts: Floats, total: float, users: int) -> Estimate:
        """Returns the estimate of some options, given the ``total`` of the counts of all options."""
        value = counts + (users - total) / self.options if self.has_single_option else counts
        variance = np.full(len(value), self.option_variance(users))
        tails = NegativeBinomialErrorLaw(
            self._noise_multiple(users), self.noise.rate, self.options if self.has_single_option else None
        )
        return Estimate(value, variance, users, tails)

    @property
    def option_count(self) -> int:
        return self.options

    def select(self, selection: SelectedOptions) -> Estimator:
        return SelectedSignedCountsEstimator(self, selection)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        return self.finish(held + self.draw_noise(users, self.options, rng), users)

    def draw_noise(self, users: int, numbers: int, rng: np.random.Generator, together: int = 1) -> Integers:
        """Draws ``numbers`` values, each the X − Y of ``together`` options."""
        stop = -math.expm1(-self.noise.rate)
        counts = [rng.negative_binomial(together * self._noise_multiple(users), stop, numbers) for _ in range(2)]
        return np.asarray(counts[0] - counts[1])

    def truth(self, values: Array) -> Floats:
        held = values.reshape(-1)
        return np.bincount(held[held >= 0], minlength=self.options).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return np.full(self.options, self.option_variance(len(values)))

    @cached_property
    def tree(self) -> ValueTree:  # type: ignore[override]
        return ValueTree(self.options, self.options)

    @property
    def has_known_covariances(self) -> bool:
        return self.has_single_option

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        """Returns the variance for independent noise; the known total removes the mean of the weights."""
        del held
        alone = self.option_variance(users) / self.remaining_variance_share
        return np.asarray(alone * ((weights**2).sum(axis=-1) - weights.sum(axis=-1) ** 2 / self.options))

    def _noise_multiple(self, users: float) -> float:
        """Returns the multiple of the planned noise that is present: 1 from the shuffler, else users/honest."""
        return 1.0 if self.honest == 0 else users / self.honest

    def option_variance(self, users: float) -> float:
        """Returns the variance of the estimate of one option."""
        ratio, stop = math.exp(-self.noise.rate), -math.expm1(-self.noise.rate)
        return self._noise_multiple(users) * 2 * ratio / stop**2 * self.remaining_variance_share

    @property
    def remaining_variance_share(self) -> float:
        """Share of an option's variance that remains once the sum of all counts is corrected."""
        return 1 - 1 / self.options if self.has_single_option else 1.0


@dataclass(frozen=True)
class SelectedSignedCountsEstimator(SelectedOptionsEstimator):
    """Estimates the selected options; the statistic ends with the sum of the counts of all options."""

    full_estimator: SignedCountsEstimator
    selection: SelectedOptions

    def accumulate(self, messages: Array) -> Array:
        options, against = np.divmod(messages, 2)
        pro, contra = options[against == 0], options[against == 1]
        # A blank is numbered after the two messages of the last option and counts for none.
        all_counts = np.count_nonzero(pro < self.full_estimator.options) - len(contra)
        return np.append(self.selection.counts(pro) - self.selection.counts(contra), all_counts)

    def finish(self, total: Array, users: int) -> Estimate:
        *counts, all_counts = np.asarray(total, dtype=np.float64)
        return self.full_estimator.from_counts(np.array(counts), float(all_counts), users)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        return self.full_estimator.influence(messages)

    def variance_at_counts(self, held: Floats, users: float) -> Floats:
        return np.full(len(held), self.full_estimator.option_variance(users))

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws the noise of these options, and that of all others together."""
        noise, others = self.full_estimator.draw_noise(users, len(held), rng), self.full_estimator.options - len(held)
        rest = int(self.full_estimator.draw_noise(users, 1, rng, others)[0]) if others > 0 else 0
        return self.finish(np.append(held + noise, users + noise.sum() + rest), users)


ERROR_PREFIX = "CancellingNoise"
MAX_OPTIONS = 1 << 61
MAX_PLACES = 1 << 12
MAX_RATE, MAX_SHAPE = 50.0, 1e5
PLANNED_ERRORS = (1.05, 1.1, 1.25, 1.5, 2.0, 3.0)
"""Standard errors that plans compare, as multiples of that of a curator's Laplace noise."""
USERS_AT_ONCE = 1 << 17
"""Number of users encoded at a time."""
MAX_RATIO = 1 - 2.0**-14
"""Largest ratio: the table of cluster sizes has about 50/(1 − ratio) entries."""


TUNABLE_SHAPE = TunableParameter("shape", False, True, 0.1, 1e3)


def check_ratio(who: str, name: str, value: Any) -> float:
    """Returns a ratio of cancelling pairs; raises TypeError or ValueError otherwise."""
    ratio = validation.open_probability(who, name, value)
    if ratio > MAX_RATIO:
        raise ValueError(f"{who}: {name} must be at most {MAX_RATIO:g}, got {ratio!r}.")
    return ratio


def iterate_designs(
    sizes: dict[str, int], users: int, epsilon: float, delta: float, rounds: int, losses: int = 2
) -> Iterator[dict[str, Any]]:
    """Yields designs from least error to fewest messages, and the most accurate one also with the shuffler's noise."""
    for times in PLANNED_ERRORS:
        design = design_noise(times, epsilon, delta, rounds, losses)
        if design is not None:
            rate, pairs = design
            settings = {**sizes, "rate": rate, "shape": pairs.shape, "ratio": pairs.ratio}
            if times == PLANNED_ERRORS[0]:
                yield {**settings, "honest": 0}
            yield {**settings, "honest": users}


@dataclass(frozen=True)
class CancellingNoise(Mechanism, HasAggregateLoss):
    """Sends the true option unperturbed, and all users together, or the shuffler, add messages for and against options.

    A message is (option, +) or (option, −), and an option is estimated by the first count minus the second. The noise
    of each option is X + F messages for it and Y + F against it: X and Y are geometric with ratio e^−rate, F is
    negative binomial with ``shape`` and ``ratio``. F cancels in the estimate and hides everything but the difference of
    the two counts. So the error is that of a curator with discrete Laplace noise of this rate.

    Each user adds 1/honest of the noise (all three laws are infinitely divisible): a few clusters of messages, drawn
    exactly, in time that does not depend on the number of options. With more users than ``honest`` there is more noise;
    fewer honest ones are accounted for by the exact law of the remaining noise. The number of messages varies between
    users, independently of their values. There is no local ε.

    Theorem: [GKMPS21] for binary sums; histograms and the exact loss are ours (docs/multimessage.md): a changed value
    moves two independent pairs of counts, whose losses have one-dimensional laws; both directions are equal.
    Requires: d ≥ 2; rate > 0; shape > 0; 0 < ratio < 1.

    Args:
        options: Number of options d; a user's value is an option from 0 to d − 1.
        rate: Rate b of the noise X − Y that does not cancel.
        shape: Shape of F, the messages that cancel.
        ratio: Ratio of F.
        honest: Number of honest users who add the noise together. With 0 the shuffler draws it once for all: every user
            then sends one message, and the guarantee does not depend on who takes part.
        places: If above 0, every user sends exactly this many messages: their own, their noise, and blanks, so that an
            observer of the numbers of messages learns nothing. If η is the probability that some user's noise does not
            fit, δ includes (1 + e^ε)·η.

    Raises:
        ValueError: If a parameter is out of range, or ``places`` is given with ``honest`` = 0.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.CancellingNoise(options=16, rate=0.45, shape=30, ratio=0.93, honest=10_000)
    >>> curve = sdp.amplify(mechanism, users=10_000)
    >>> f"{curve.epsilon(delta=1e-6).upper:.4f}", curve.epsilon(delta=1e-6).bound
    ('0.9711', 'own-noise')
    >>> f"{mechanism.messages_per_user:.2f}"
    '2.28'
    """

    options: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_OPTIONS))
    rate: float = field(metadata=checked(check_positive, at_most=MAX_RATE))
    shape: float = field(metadata=checked(check_positive, at_most=MAX_SHAPE))
    ratio: float = field(metadata=checked(check_ratio))
    honest: int = field(metadata=checked(validation.count, at_least=0))
    places: int = field(default=0, metadata=checked(validation.count, at_least=0, at_most=MAX_PLACES))

    name = "cancelling-noise"
    task = "frequency"
    summary = "the true option, and noise that cancels: a curator's error, private only by the shuffler"
    use_case = "For counts near a curator's error, where the shuffler is trusted and options are few beside the users."
    tunable = (TUNABLE_SHAPE,)
    has_table = False
    has_design_frontier = True
    aliases = ("gkmps", "gkmps21")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.places and self.honest == 0:
            raise ValueError(
                f"{ERROR_PREFIX}: places are for noise that users draw, got {self.places} with honest = 0; leave them "
                f"out."
            )

    @property
    def noise(self) -> CancellingNoiseLaw:
        """The law of the noise of one option if all planned users take part."""
        return CancellingNoiseLaw(self.rate, self.shape, self.ratio)

    @cached_property
    def _share(self) -> NoiseShare:
        return NoiseShare(self.noise, self.options, Fraction(1, max(1, self.honest)))

    @cached_property
    def domain(self) -> Category:
        return Category(ERROR_PREFIX, self.options)

    @cached_property
    def message_plan(self) -> SharedNoise:
        return SharedNoise(1, self._share.messages, self.honest, self.places)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding(ERROR_PREFIX, 2 * self.options + (1 if self.places else 0))

    @cached_property
    def estimator(self) -> SignedCountsEstimator:
        return SignedCountsEstimator(self.options, self.noise, self.honest)

    def aggregate_loss(self, honest: int) -> AggregateNoiseLoss:
        """Returns the privacy loss of all messages together.

        Users beyond the planned number only add noise, so the loss is at most that of the planned number. It is exact,
        or off by the probability that some user's noise does not fit into their ``places``.
        """
        share = Fraction(1) if self.honest == 0 else min(Fraction(1), Fraction(honest, self.honest))
        loss = CancellingNoiseLoss(CancellingNoiseLaw(self.rate, self.shape, self.ratio, share))
        if not self.places:
            return loss
        users = min(honest, self.honest)
        event, facts = "the noise of some user exceeds their places", _OverflowFacts(self._share, users, self.places)
        return ApproximateLoss(loss, self._overflow_probability(users), event, facts)

    def _overflow_probability(self, users: int) -> float:
        """Returns the probability that the noise of one of ``users`` users does not fit into their places."""
        with precision(PRECISION_BITS):
            return min(1.0, round_up(users * self._share.overflow_probability(self.places - 1)))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns the messages of all users, 2·option for and 2·option + 1 against an option.

        A user's messages are adjacent if there are ``places``.
        """
        if self.honest == 0:
            return np.asarray(2 * values)
        if self.places:
            return self._pad_messages(values, source)
        parts: list[Integers] = []
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            parts += [2 * own, self._share.draw(source, len(own))]
        return np.concatenate(parts)

    def _pad_messages(self, values: Array, source: RandomSource) -> Array:
        """Returns a row of ``places`` messages for each user: their own, their noise, blanks."""
        rows = np.full((len(values), self.places), 2 * self.options, dtype=np.int64)
        rows[:, 0] = 2 * values
        owners, noise = self._share.draw_by_user(source, len(values))
        order = np.argsort(owners, kind="stable")
        owners, noise = owners[order], noise[order]
        place = 1 + np.arange(len(owners)) - np.searchsorted(owners, owners, side="left")
        fits = place < self.places
        rows[owners[fits], place[fits]] = noise[fits]
        return rows.reshape(-1)

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields designs from least error to fewest messages; ``facts`` must contain ``options``."""
        return iterate_designs({"options": facts["options"]}, users, epsilon, delta, rounds)

    @property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw("CancellingNoise")

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        return self._share.draw(source, 1) if self.honest == 0 else None

    def table(self) -> OutputTable:
        raise ValueError("CancellingNoise: its noise is unbounded, so its law cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[CancellingNoise]:
        return [
            cls(options=2, rate=1.0, shape=4.0, ratio=0.5, honest=10),
            cls(options=5, rate=0.5, shape=3.5, ratio=0.8, honest=25),
            cls(options=3, rate=0.8, shape=6.0, ratio=0.7, honest=0),
            cls(options=4, rate=0.7, shape=5.0, ratio=0.6, honest=20, places=64),
        ]


@dataclass(frozen=True)
class _OverflowFacts:
    """Data from which the probability that some user's noise does not fit follows, for the second proof."""

    share: NoiseShare
    users: int
    places: int

    def __call__(self) -> NoiseFacts:
        noise, each = self.share.noise, self.share.part * self.share.options
        numbers = {"users": self.users, "places": self.places, "rate": noise.rate, "ratio": noise.ratio}
        shapes = {"single": 2 * each, "pairs": Fraction(noise.shape) * each}
        return {"kind": "padded", **{name: Fraction(number) for name, number in (numbers | shapes).items()}}
