"""PrivUnit with the cap of the smallest error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.cap_report import LARGEST_EXPONENT, CapLaw, CapReport, checked_dimension
from shuffledp.mechanisms.parts.own_region import OwnRegion
from shuffledp.mechanisms.parts.unit_ball import LatticeReading, LatticeWire, UnitBall, checked_settings
from shuffledp.sampling.random import RandomSource

HALVINGS = 60


@dataclass(frozen=True)
class PrivUnitOptimized(Mechanism):
    """A point of the sphere, often from the cap around the user's vector; the cap that makes the error least.

    The error 1/m²−1 is least where m = f·(e^ε−1)/(1+q(e^ε−1)) is largest, f = C(1−h²)^((d−1)/2)/(d−1) for a cap from
    height h on: at (d−1)h/(1−h²) = C(1−h²)^((d−3)/2)·(e^ε−1)/(1+q(e^ε−1)), C = 1/B(½, (d−1)/2).

    ``epsilon``: the local ε that every message keeps, float error included. ``dimension``: d, how many numbers a vector
    has; its length is at most 1.

    Theorem: [LC] Appendix C, PrivUnitOptimized: p(1−q)/(q(1−p)) = e^ε with the exact q; error 1/m²−1.
    Deviates: a message is a vector of whole numbers with noise of a few steps; see ``CapReport``.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.PrivUnitOptimized(epsilon=4.0, dimension=16)
    >>> f"{mechanism.height:.3f}"
    '0.371'
    >>> vectors = np.eye(16)[np.zeros(5000, dtype=int)]
    >>> found = mechanism.estimate(mechanism.encode(vectors, rng=np.random.default_rng(1)))
    >>> int(found.value.argmax()), f"{found.value[0]:.1f}"
    (0, '1.0')
    """

    epsilon: float
    dimension: int

    name = "privunit-optimized"
    task = "vector mean"
    summary = (
        "mean of vectors in the unit ball: a point of the sphere near the vector, least error; ε covers float error"
    )
    take_it = "For vectors in the unit ball with a local ε: the first to try."
    also_called = ("privunit-opt",)
    has_table = False

    def __post_init__(self) -> None:
        epsilon, dimension = checked_settings("PrivUnitOptimized", self.epsilon, self.dimension)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "dimension", checked_dimension("PrivUnitOptimized", dimension))

    @cached_property
    def height(self) -> float:
        return best_height(self.dimension, self.epsilon)

    @cached_property
    def report(self) -> CapReport:
        """The cap and what is sent of its points."""
        return CapReport("PrivUnitOptimized", self.dimension, self.height)

    @cached_property
    def region(self) -> OwnRegion:
        """The own set: the cap, less what float arithmetic may cost."""
        return OwnRegion("PrivUnitOptimized", self.epsilon, self.report.share)

    @cached_property
    def values(self) -> UnitBall:
        return UnitBall("PrivUnitOptimized", self.dimension)

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
        raise ValueError("PrivUnitOptimized: points of a sphere cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PrivUnitOptimized]:
        return [cls(epsilon=1.0, dimension=2), cls(epsilon=4.0, dimension=5), cls(epsilon=0.5, dimension=64)]


def best_height(dimension: int, epsilon: float) -> float:
    """Where the cap of the smallest error begins, by halving; any height keeps the guarantee."""
    from scipy.special import betainc, gammaln

    d, excess = dimension, math.expm1(min(epsilon, LARGEST_EXPONENT))
    log_constant = float(gammaln(d / 2) - gammaln((d - 1) / 2)) - math.log(math.pi) / 2

    def falls(height: float) -> bool:
        rest = 1 - height * height
        share = float(betainc((d - 1) / 2, 0.5, rest)) / 2
        gain = math.exp(log_constant + (d - 1) / 2 * math.log(rest)) * excess / (1 + share * excess)
        return (d - 1) * height > gain

    low, high = 0.0, 1.0 - 2.0**-40
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if falls(middle) else (middle, high)
    return low
