"""Which flood hides counts for a target with the fewest messages: a search in floats, which proves nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.array import Floats
from shuffledp.composition.sequential import compose
from shuffledp.mechanisms.parts.flooded_noise import FloodedLoss, FloodedNoise
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import Source
from shuffledp.privacy.own_loss import OwnLossCurve

LEAST_SHAPE, MOST_SHAPE = 1.0, 1e5
SHAPE_ACCURACY, GAP_ACCURACY = 1e-6, 0.02
WIDEST_GAP, NARROWEST_GAP = 0.6, 2.0**-14
"""Where 1 − ratio is searched."""
TARGET_SHARE = 0.999
"""The search aims a little below the target, so that the certified number is certainly within it."""
ROUNDS_OF_RAISING = 6
LEFT_OUT = 1e-9
"""Of δ, in what is cut off the flood's law."""


@dataclass(frozen=True)
class Flood:
    """A flood, and how many noise messages an option it takes on average, both signs."""

    shape: float
    ratio: float
    messages: float


def rough_delta(rate: float, shape: float, ratio: float, epsilon: float, delta: float, single: bool) -> float:
    """About δ at ε, by the losses of ``flooded_noise`` in plain floats; ``delta`` says how small δ may be."""
    q = math.exp(-rate)
    steps, masses = _rough_law(rate, shape, ratio, delta)
    later = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    # Losses where a message was added, and the chance of each; infinity apart.
    added, chances = np.append(steps, -rate), np.append(masses[1:], q / (1 + q))
    alone = float(np.sum(np.maximum(0.0, -np.expm1(epsilon - added)) * chances)) + float(masses[0])
    if single:
        return max(alone, _taken_alone(rate, steps, masses, epsilon))
    # Where one was taken away the loss is above a threshold from some u on: P is the sum of q·m(u−1), Q of m(u).
    thresholds = epsilon - added
    first = np.searchsorted(-steps, thresholds, side="right")
    tail = q * (later[first] - masses[-1]) - np.exp(thresholds) * later[first + 1]
    even = np.maximum(0.0, -np.expm1(thresholds - rate)) / (1 + q)
    return float(np.sum(chances * (np.maximum(0.0, tail) + even))) + float(masses[0])


def _taken_alone(rate: float, steps: Floats, masses: Floats, epsilon: float) -> float:
    q = math.exp(-rate)
    even = max(0.0, -math.expm1(epsilon - rate)) / (1 + q)
    return even + float(np.sum(np.maximum(0.0, -np.expm1(epsilon + steps)) * q * masses[:-1]))


def _rough_law(rate: float, shape: float, ratio: float, delta: float) -> tuple[Floats, Floats]:
    """b + log(T(u)/T(u−1)) for u ≥ 1, falling, and (1−q)·T(u) for u ≥ 0."""
    q = math.exp(-rate)
    mean, gap = shape * ratio / (1 - ratio), 1 - ratio
    deviation = math.sqrt(shape * ratio) / gap
    far = -math.log(LEFT_OUT * delta)
    most = math.ceil(mean + deviation * math.sqrt(2 * far) + far / gap + 20 / rate) + 2
    numbers = np.arange(most - 1, dtype=np.float64)
    logs = np.append(0.0, np.cumsum(np.log(ratio * (shape + numbers) / (numbers + 1)))) + shape * math.log(gap)
    total = np.maximum(_geometric_sums(np.exp(logs), q * q), 1e-300)
    return rate + np.log(total[1:] / total[:-1]), (1 - q) * total


def _geometric_sums(terms: Floats, ratio: float) -> Floats:
    """Σ_j ratio^j·term(u−j) for each u: the factors 1 + ratio^m·shift^m for m = 1, 2, 4, … one after another."""
    total, shift, weight = terms.copy(), 1, ratio
    while shift < len(total) and weight > 0:
        total[shift:] += weight * total[:-shift]
        shift, weight = 2 * shift, weight * weight
    return total


def rate_for(deviation: float) -> float:
    """The rate of discrete Laplace noise X − Y with this standard deviation: √(2q)/(1−q), q = e^−rate."""
    # (1−q)/√q = 2·sinh(rate/2) = √2/deviation.
    return 2 * math.asinh(1 / (math.sqrt(2.0) * deviation))


@lru_cache(maxsize=256)
def smallest_flood(rate: float, epsilon: float, delta: float, single: bool = False) -> Flood | None:
    """The flood with the fewest messages that brings noise of this rate within (ε, δ); None where none does."""
    if rate * (1 if single else 2) >= epsilon:
        return None
    best: Flood | None = None
    start = 1.0 + math.log(1 / delta)

    def at(log_gap: float) -> float:
        nonlocal best, start
        ratio = 1 - math.exp(log_gap)
        shape = _shape(rate, ratio, epsilon, delta, single, start)
        if shape is None:
            return math.inf
        start = shape
        q = math.exp(-rate)
        messages = 2 * q / (1 - q) + 2 * shape * ratio / (1 - ratio)
        if best is None or messages < best.messages:
            best = Flood(shape, ratio, messages)
        return messages

    _least(at, math.log(NARROWEST_GAP), math.log(WIDEST_GAP), math.log(min(0.5, 0.08 * epsilon)))
    return best


def _shape(rate: float, ratio: float, epsilon: float, delta: float, single: bool, start: float) -> float | None:
    """The least shape that is enough with this ratio."""
    goal = math.log(TARGET_SHARE * delta)

    def distance(log_shape: float) -> float:
        found = rough_delta(rate, math.exp(log_shape), ratio, epsilon, delta, single)
        return goal - (math.log(found) if found > 0 else -745.0)

    low, high = math.log(LEAST_SHAPE), math.log(MOST_SHAPE)
    if distance(high if start * 64 > MOST_SHAPE else math.log(start * 64)) < 0:
        return None
    high = min(high, math.log(start * 64))
    found = find_crossing(distance, low, high, guess=min(max(math.log(start), low), high), absolute=SHAPE_ACCURACY)
    return math.exp(found.above)


def _least(function: Callable[[float], float], low: float, high: float, start: float) -> None:
    """Look for the least value of a function with one valley, from where it is thought to be."""
    step, place = 0.5, min(max(start, low), high)
    value = function(place)
    while step > GAP_ACCURACY:
        for other in (place + step, place - step):
            if low <= other <= high and (found := function(other)) < value:
                place, value = other, found
                break
        else:
            step /= 2.5


def flood_within(
    times: float, epsilon: float, delta: float, rounds: int, losses: int = 2
) -> tuple[float, Flood] | None:
    """Noise of ``times`` the error of a curator's Laplace noise, and its flood, for so many rounds together.

    A user's value changes ``losses`` counts in a round. Where they are more than two in all, each pair of counts is
    given its own part of the target, by what ideal Laplace noise would compose to.
    """
    pairs = rounds * losses / 2
    if pairs <= 1:
        rate = rate_for(times * math.sqrt(2.0) * losses / epsilon)
        flood = smallest_flood(rate, epsilon, delta, single=losses == 1)
        return None if flood is None else (rate, flood)
    return _for_many(times, epsilon, delta, math.ceil(pairs))


def _for_many(times: float, epsilon: float, delta: float, pairs: int) -> tuple[float, Flood] | None:
    """The same where many pairs of counts change: an ε for each of them is raised while all together allow it."""
    each, best = _each_of(pairs, epsilon, delta), None
    for _ in range(ROUNDS_OF_RAISING):
        rate = rate_for(times * math.sqrt(2.0) * 2 / each)
        flood = smallest_flood(rate, each, delta / (4 * pairs))
        if flood is None:
            break
        loss = FloodedLoss(FloodedNoise(rate, flood.shape, flood.ratio))
        found = compose(OwnLossCurve(Source("own-noise", loss.theorem, 1, True), loss), pairs).epsilon(delta).upper
        if found <= epsilon and (best is None or rate > best[0]):
            best = rate, flood
        if 0 <= epsilon - found < 0.002 * epsilon:
            break
        each *= (0.999 * epsilon / found) ** 0.9
    return best


def _each_of(pairs: int, epsilon: float, delta: float) -> float:
    """An ε for each of so many pairs of counts, to begin with: by basic composition, or that of bounded losses."""

    def together(each: float) -> float:
        # The mean of a loss within ±each is at most each·tanh(each/2); sums concentrate as Hoeffding says.
        mean = pairs * each * math.tanh(each / 2)
        return min(pairs * each, mean + each * math.sqrt(2 * pairs * math.log(2 / delta)))

    low, high = math.log(epsilon / pairs) - 1e-9, math.log(epsilon)
    found = find_crossing(lambda x: math.log(together(math.exp(x)) / epsilon), low, high, absolute=1e-6)
    return math.exp(found.below)
