"""The exact law of a sum of whole scores, modulo a length: what a test that adds up scores tells two cases apart by.

Each of many independent users scores by a law of a group; one more scores by the law ``first`` or ``second``. The sum
modulo any length is a function of what all of them do, so that the divergence of its two laws is attained.

The laws come out of one Fourier transform in floats, whose errors are bounded:

- A probability off by a relative 2^-51 each: by the χ²-divergence of products the n-fold law is off by at most
  √n·2^-50 in total variation, and its mass, which need not be 1 in floats, by a factor within 1 ± n·2^-49.
- Each value Π_g φ_g^{n_g} from log φ = ½·log1p(2a + a² + b²) + i·atan2(b, 1 + a), φ − 1 = a + ib = Σ r·(e^(−iθs) − 1):
  the terms are off by a few units of θ|s|, hence log φ by at most 64 units of θ·E|s| where |φ| ≥ 1/2; elsewhere the
  power itself is off by at most 16n·2^(1−n) units.
- The transform itself: at most 8·log₂(length) units, relative, in the root of the mean square.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.array import Floats
from shuffledp.numerics.contour_floats import turned
from shuffledp.numerics.finite_law import Bracket

UNIT = 2.0**-53
DEVIATIONS = 40.0
"""How many standard deviations the length holds."""
MOST_LENGTH = 1 << 22
ROUTE = "sum of scores"
LOG_HALF = math.log(0.5)
Complexes = NDArray[np.complex128]


class Scores(NamedTuple):
    """A law of one user's score: whole numbers and their probabilities, each to a relative 2^-51."""

    values: tuple[int, ...]
    chances: tuple[float, ...]


@dataclass(frozen=True)
class ScoreSum:
    """The divergence between the two laws of the sum, as a function of ε."""

    first: Scores
    second: Scores
    crowd: tuple[tuple[Scores, int], ...]

    @cached_property
    def _deviation(self) -> float:
        return math.sqrt(sum(count * _variance(scores) for scores, count in self.crowd))

    @cached_property
    def _laws(self) -> tuple[Floats, Floats, float]:
        """The two laws of the sum, and how far off they may be in all."""
        reach = max(abs(value) for scores in self._all for value in scores.values)
        length = 1 << math.ceil(math.log2(DEVIATIONS * self._deviation + 4 * reach + 64))
        if length > MOST_LENGTH:
            raise ValueError(f"ScoreSum: expected a sum that spreads over at most {MOST_LENGTH} numbers.")
        angles = 2 * math.pi * np.arange(length // 2 + 1) / length
        logs, doubt, small = np.zeros_like(angles, dtype=np.complex128), np.full_like(angles, 64.0), 0.0
        for scores, count in self.crowd:
            log = _log_transform(scores, angles)
            logs += count * log
            doubt += 64 * count * angles * float(np.dot(np.abs(scores.values), scores.chances))
            small += 16 * count * 2.0 ** (1 - min(count, 1000)) * float((log.real < LOG_HALF).sum())
        # The sum is looked at from its mean on: a rotation by whole places.
        mean = round(sum(count * _mean(scores) for scores, count in self.crowd))
        turns = np.mod(mean * np.arange(length // 2 + 1), length) * (2 * math.pi / length)
        size = np.exp(logs.real)
        total = size * turned(logs.imag - turns)
        first, second = (np.fft.irfft(total * _transform(one, angles), length) for one in (self.first, self.second))
        rounding = 2 * (float((size * doubt).sum()) + small) * UNIT
        norm = math.sqrt(max(float((law**2).sum()) for law in (first, second)))
        rounding += 8 * math.log2(length) * UNIT * math.sqrt(length) * norm
        users = sum(count for _, count in self.crowd)
        return first, second, rounding + math.sqrt(users) * 2.0**-50 + 8 * UNIT

    @property
    def _all(self) -> Sequence[Scores]:
        return [self.first, self.second, *(scores for scores, _ in self.crowd)]

    def bracket(self, epsilon: float) -> Bracket:
        first, second, off = self._laws
        ratio = math.exp(epsilon)
        value = float(np.maximum(first - ratio * second, 0.0).sum())
        # Each sum of non-negative floats is off by less than its length in units.
        users = sum(count for _, count in self.crowd)
        doubt = off * (1 + ratio) * 1.01 + value * (users * 2.0**-48 + 64 * UNIT)
        return Bracket(arb(max(0.0, value - doubt)), arb(min(1.0, value + doubt)), ROUTE)

    def log_estimate(self, epsilon: float) -> float:
        return self.bracket(epsilon).log_lower()

    def natural_scale(self) -> float:
        return max(abs(_mean(self.first) - _mean(self.second)) / max(self._deviation, 1e-300), 1e-12)


def _mean(scores: Scores) -> float:
    return float(np.dot(scores.values, scores.chances))


def _variance(scores: Scores) -> float:
    values = np.array(scores.values, dtype=np.float64) - _mean(scores)
    return float(np.dot(values**2, scores.chances))


def _log_transform(scores: Scores, angles: Floats) -> Complexes:
    """log E e^(−i·angle·score)."""
    real, imaginary = np.zeros_like(angles), np.zeros_like(angles)
    for value, chance in zip(scores.values, scores.chances, strict=True):
        real -= 2 * chance * np.sin(angles * value / 2) ** 2
        imaginary -= chance * np.sin(angles * value)
    squared = np.maximum(real * (2 + real) + imaginary**2, -1.0)
    with np.errstate(divide="ignore"):
        size = np.maximum(0.5 * np.log1p(squared), -1e4)
    return np.asarray(size + 1j * np.arctan2(imaginary, 1 + real))


def _transform(scores: Scores, angles: Floats) -> Complexes:
    values, chances = np.array(scores.values, dtype=np.float64), np.array(scores.chances)
    return np.asarray(turned(-np.multiply.outer(angles, values)) @ chances)
