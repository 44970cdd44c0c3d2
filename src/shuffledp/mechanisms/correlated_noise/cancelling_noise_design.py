"""Search for the parameters of cancelling noise with the fewest messages, in floats.

``cancelling_noise_loss`` certifies them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp._core.validation import Floats
from shuffledp.mechanisms.correlated_noise.cancelling_noise_loss import (
    CancellingNoiseLaw,
    CancellingNoiseLoss,
)
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.aggregate_noise import AggregateNoiseCurve
from shuffledp.privacy.curve import CurveSource

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
