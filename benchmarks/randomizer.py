"""The randomizers that are measured, as variation-ratio parameters with p = q = e^ε0."""

from __future__ import annotations

import math
from collections.abc import Callable

from shuffledp import VariationRatio

TotalVariation = Callable[[float], float]


def _options(number: int) -> TotalVariation:
    return lambda epsilon_local: math.expm1(epsilon_local) / (math.exp(epsilon_local) + number - 1)


BETA: dict[str, TotalVariation] = {
    "any LDP": lambda epsilon_local: math.tanh(epsilon_local / 2),
    "KRR 4": _options(4),
    "KRR 16": _options(16),
    "KRR 128": _options(128),
    "Laplace": lambda epsilon_local: -math.expm1(-epsilon_local / 2),
    "RAPPOR": lambda epsilon_local: math.tanh(epsilon_local / 4),
}
"""β at ε0. KRR is randomized response on that many options."""


def parameters(name: str, epsilon_local: float) -> VariationRatio:
    """The parameters of a randomizer at ε0."""
    ratio = math.exp(epsilon_local)
    return VariationRatio(p=ratio, beta=BETA[name](epsilon_local), q=ratio)
