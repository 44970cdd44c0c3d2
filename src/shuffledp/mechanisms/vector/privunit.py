"""PrivUnit as published: the cap by a closed-form condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from flint import arb

from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.cap_report import LARGEST_EXPONENT, CapLaw, CapReport, checked_dimension
from shuffledp.mechanisms.parts.own_region import OwnRegion
from shuffledp.mechanisms.parts.unit_ball import LatticeReading, LatticeWire, UnitBall, checked_settings
from shuffledp.sampling import dyadic
from shuffledp.sampling.random import RandomSource

SPLITS = 64
"""How finely the best split of ε between the coin and the cap is sought."""


@dataclass(frozen=True)
class PrivUnit(Mechanism):
    """A point of the sphere, often from the cap around the user's vector; the cap by the published condition.

    ε = ε0 + ε1: the cap is chosen with probability p = e^ε0/(1+e^ε0), and begins at the largest height that a closed
    form grants to ε1: h ≤ tanh(ε1/2)·√(π/(2(d−1))), or h ≥ √(2/d) with
    ½·log d + log 6 − (d−1)/2·log(1−h²) + log h ≤ ε1. Of 64 splits, the one of the smallest error. The closed form is
    cautious, so that the executed law has room to ε: its own parameters are what is amplified.

    ``epsilon``: the local ε that every message keeps, float error included. ``dimension``: d, how many numbers a vector
    has; its length is at most 1.

    Theorem: [LC] Appendix C, PrivUnit(p, h), conditions of Bhowmick et al. 2018; error 1/m²−1.
    Deviates: the conditions only choose; the guarantee is that of the certified share of the cap. A message is a
    vector of whole numbers with noise of a few steps; see ``CapReport``.

    >>> import shuffledp as sdp
    >>> vectors = [[1.0] + [0.0] * 15] * 100
    >>> published = sdp.PrivUnit(epsilon=4.0, dimension=16).variance(vectors).sum()
    >>> best = sdp.PrivUnitOptimized(epsilon=4.0, dimension=16).variance(vectors).sum()
    >>> f"{published:.3f}", f"{best:.3f}"
    ('0.088', '0.063')
    """

    epsilon: float
    dimension: int

    name = "privunit"
    task = "vector mean"
    summary = (
        "mean of vectors in the unit ball: a point of the sphere near the vector, as published; ε covers float error"
    )
    take_it = "To compare with the paper; privunit-optimized chooses its settings for the least error."
    also_called = ("priv-unit",)
    has_table = False

    def __post_init__(self) -> None:
        epsilon, dimension = checked_settings("PrivUnit", self.epsilon, self.dimension)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "dimension", checked_dimension("PrivUnit", dimension))

    @cached_property
    def _best(self) -> tuple[float, float]:
        """The height, and the ε0 that the coin gets."""
        budget = min(self.epsilon, LARGEST_EXPONENT)
        splits = [budget * (k + 0.5) / SPLITS for k in range(SPLITS)]
        choices = [(_granted_height(self.dimension, budget - coin), coin) for coin in splits]
        return max(choices, key=self._strength)

    def _strength(self, choice: tuple[float, float]) -> float:
        """log m, up to a constant."""
        from scipy.special import betainc

        height, coin = choice
        rest = 1 - height * height
        share = float(betainc((self.dimension - 1) / 2, 0.5, rest)) / 2
        p = 1 / (1 + math.exp(-coin))
        return (self.dimension - 1) / 2 * math.log(rest) + math.log(p / share - (1 - p) / (1 - share))

    @property
    def height(self) -> float:
        return self._best[0]

    @cached_property
    def report(self) -> CapReport:
        """The cap and what is sent of its points."""
        return CapReport("PrivUnit", self.dimension, self.height)

    @cached_property
    def region(self) -> OwnRegion:
        """γ = (1−p)/(1−q) of the published p, but never below what ε asks for."""
        coin, asked = self._best[1], OwnRegion("PrivUnit", self.epsilon, self.report.share)
        published = dyadic.at_least(lambda: 1 / ((1 + arb(coin).exp()) * (1 - self.report.cap.share())))
        return replace(asked, own_uniform_share=max(published, asked.uniform_share))

    @cached_property
    def values(self) -> UnitBall:
        return UnitBall("PrivUnit", self.dimension)

    @cached_property
    def law(self) -> CapLaw:
        return self.report.law(self.region)

    @cached_property
    def wire(self) -> LatticeWire:
        return self.report.wire

    @cached_property
    def reading(self) -> LatticeReading:
        return self.report.reading(self.region)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.report.randomize(self.region.uniform_share, values, source)

    def table(self) -> OutputTable:
        raise ValueError("PrivUnit: points of a sphere cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PrivUnit]:
        return [cls(epsilon=1.0, dimension=3), cls(epsilon=3.0, dimension=2), cls(epsilon=8.0, dimension=100)]


def _granted_height(dimension: int, budget: float) -> float:
    """The largest height that either closed form grants."""
    d = dimension
    first = min(math.tanh(budget / 2) * math.sqrt(math.pi / (2 * (d - 1))), 1 - 2.0**-20)
    low, high = math.sqrt(2 / d), 1 - 2.0**-20

    def granted(height: float) -> bool:
        return (math.log(d) - (d - 1) * math.log1p(-height * height)) / 2 + math.log(6 * height) <= budget

    if low >= high or not granted(low):
        return first
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if granted(middle) else (low, middle)
    return max(first, low)
