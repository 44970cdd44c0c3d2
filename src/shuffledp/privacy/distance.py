"""Distances between points, in units of ε and rounded up: bounds grow with every distance."""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, round_up

BITS = 128
EARTH_RADIUS = 6_371_008.8
"""Mean radius in metres."""


def euclidean(first: Sequence[float] | Floats, second: Sequence[float] | Floats, rate: float = 1.0) -> float:
    """rate·|first − second|, rounded up."""
    with precision(BITS):
        squares = [(arb(float(x)) - arb(float(y))) ** 2 for x, y in zip(first, second, strict=True)]
        total = sum(squares, arb(0))
        return 0.0 if total.is_zero() else round_up(arb(rate) * total.sqrt())


def great_circle(first: Floats, second: Floats, rate: float = 1.0) -> float:
    """rate times the metres between two points (latitude, longitude) on the sphere, rounded up."""
    with precision(BITS):
        degree = arb.pi() / 180
        (lat_a, lon_a), (lat_b, lon_b) = ([arb(x) for x in point] for point in (first.tolist(), second.tolist()))
        up, along = (((x - y) * degree / 2).sin() for x, y in ((lat_a, lat_b), (lon_a, lon_b)))
        half = up * up + (lat_a * degree).cos() * (lat_b * degree).cos() * along * along
        return round_up(arb(rate) * 2 * arb(EARTH_RADIUS) * half.sqrt().min(arb(1)).asin())
