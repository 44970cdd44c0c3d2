"""Distances as privacy budgets: finite spaces, intervals and boxes, each with what an amplification bound asks of it.

A local randomizer is private for a distance D if the laws of its message for a and b differ by a factor of at most
e^D(a,b), for every two inputs. Bounds grow with every distance, so that all numbers here are rounded up.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.distance import euclidean, great_circle
from shuffledp.privacy.number_file import read_numbers
from shuffledp.privacy.record import Record

BITS = 128
HAIR = 1e-9
"""Relative amount by which rounded distances may break the triangle inequality."""
LARGEST_DISTANCE = 700.0
"""e^D is still a float."""


@dataclass(frozen=True)
class Surroundings:
    """What a bound asks about two inputs a, b of a space: how far they are from each other and from everyone else."""

    distance: float
    """D(a, b)."""
    far_first: float
    far_second: float
    """The largest distance of any input from a, and from b."""
    clone_sum: float
    """R_ab = max over c of e^D(a,c) + e^D(b,c)."""
    diameter: float
    """The largest distance of all."""


class Space(Record, ABC):
    """Inputs with a distance."""

    diameter: float
    """The largest distance of two inputs, in units of ε as all distances of a space."""
    dimension: int | None = None
    """Number of coordinates of the inputs, where distances are Euclidean; None where that is not known."""

    @abstractmethod
    def surroundings(self, first: Any, second: Any) -> Surroundings:
        """The numbers of one pair of inputs."""


@dataclass(frozen=True, eq=False)
class DistanceMatrix(Space):
    """A finite space: ``matrix[a][b]`` is the distance of a and b.

    It must be symmetric, with zeros on the diagonal and positive, finite numbers elsewhere. The triangle inequality
    is asked for where it is needed (``must_be_metric``); ``closure`` makes it hold.

    >>> import numpy as np
    >>> import shuffledp as sdp
    >>> direct = sdp.metric.DistanceMatrix(np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]))
    >>> direct.diameter, direct.broken_triangle()
    (3.0, (0, 2, 1))
    >>> print(f"{direct.closure().diameter:.4f}")
    2.0000
    """

    matrix: Floats
    dimension: int | None = field(default=None, init=False, repr=False)
    """Known of ``from_points`` only: a table of distances does not say where its inputs lie."""

    def __post_init__(self) -> None:
        numbers = _checked_matrix(self.matrix)
        numbers.setflags(write=False)
        object.__setattr__(self, "matrix", numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DistanceMatrix) and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash(tuple(map(tuple, self.matrix.tolist())))

    @classmethod
    def from_csv(cls, path: str | PathLike[str]) -> DistanceMatrix:
        """A matrix from a file: no header, one row per input; an empty cell is a missing entry."""
        return cls(np.array(_same_length("DistanceMatrix", read_numbers("DistanceMatrix", path))))

    @classmethod
    def from_points(cls, points: Any, rate: float = 1.0) -> DistanceMatrix:
        """``rate`` times the Euclidean distance of points, one row of coordinates each, rounded up."""
        rate = argument.positive_finite("DistanceMatrix", "rate", rate, up=True)
        places = checked_points("DistanceMatrix", points)
        space = cls._of_pairs(places, lambda a, b: euclidean(a, b, rate))
        object.__setattr__(space, "dimension", places.shape[1])
        return space

    @classmethod
    def _of_pairs(cls, places: Floats, distance: Callable[[Floats, Floats], float]) -> DistanceMatrix:
        size = len(places)
        matrix = np.zeros((size, size))
        for a in range(size):
            for b in range(a):
                if (places[a] == places[b]).all():
                    raise ValueError(f"DistanceMatrix: points {b} and {a} must differ, got {places[a].tolist()} twice.")
                matrix[a, b] = matrix[b, a] = distance(places[a], places[b])
        return cls(matrix)

    @classmethod
    def from_degrees(cls, points: Any, rate: float) -> DistanceMatrix:
        """``rate`` times the great-circle distance in metres of points (latitude, longitude), rounded up."""
        rate = argument.positive_finite("DistanceMatrix", "rate", rate, up=True)
        places = checked_points("DistanceMatrix", points, axes=2)
        for row, (latitude, longitude) in enumerate(places.tolist()):
            if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
                raise ValueError(
                    f"DistanceMatrix: row {row} must be a latitude from -90 to 90 and a longitude from -180 to 180, "
                    f"got {latitude!r} and {longitude!r}."
                )
        return cls._of_pairs(places, lambda a, b: great_circle(a, b, rate))

    def csv_text(self) -> str:
        """What ``from_csv`` reads: every number as it is."""
        return "".join(",".join(map(repr, row)) + "\n" for row in self.matrix.tolist())

    @property
    def size(self) -> int:
        return len(self.matrix)

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]
        return float(self.matrix.max())

    @cached_property
    def smallest(self) -> float:
        """The smallest distance of two different inputs."""
        return float(self.matrix[~np.eye(self.size, dtype=np.bool_)].min())

    @cached_property
    def eccentricity(self) -> Floats:
        """The largest distance from each input."""
        return np.asarray(self.matrix.max(axis=1))

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Every two inputs once."""
        return ((a, b) for a in range(self.size) for b in range(a + 1, self.size))

    def surroundings(self, first: Any, second: Any) -> Surroundings:
        a, b = self.place(first), self.place(second)
        far = self.eccentricity
        return Surroundings(
            float(self.matrix[a, b]), float(far[a]), float(far[b]), self._clone_sum(a, b), self.diameter
        )

    def place(self, value: Any) -> int:
        """The number of an input."""
        number = argument.count("DistanceMatrix", "an input", value, at_least=0)
        if number >= self.size:
            raise ValueError(f"DistanceMatrix: an input must be from 0 to {self.size - 1}, got {number}.")
        return number

    def _clone_sum(self, a: int, b: int) -> float:
        rough = np.exp(self.matrix[a]) + np.exp(self.matrix[b])
        near = np.flatnonzero(rough >= rough.max() * (1 - HAIR))
        with precision(BITS):
            return max(round_up(arb(self.matrix[a, c]).exp() + arb(self.matrix[b, c]).exp()) for c in near.tolist())

    def closure(self) -> DistanceMatrix:
        """The largest metric below: shortest paths. What is private for the distances is private for it."""
        shortest = self.matrix.copy()
        for middle in range(self.size):
            np.minimum(shortest, np.add.outer(shortest[:, middle], shortest[middle]), out=shortest)
        # A path of floats may be rounded down, once a step: raised by more than that, but not above the start.
        shortest = np.minimum(shortest * (1 + 2.0**-51 * (self.size + 1)), self.matrix)
        np.fill_diagonal(shortest, 0.0)
        return DistanceMatrix(np.minimum(shortest, shortest.T))

    def broken_triangle(self) -> tuple[int, int, int] | None:
        """(a, b, c) with D(a,b) > D(a,c) + D(c,b) by more than rounding, the worst one; None if there is none."""
        worst, found = HAIR, None
        for c in range(self.size):
            around = np.add.outer(self.matrix[:, c], self.matrix[c])
            with np.errstate(divide="ignore", invalid="ignore"):
                excess = np.where(around > 0, self.matrix / around - 1, 0.0)
            place = int(np.argmax(excess))
            if excess.flat[place] > worst:
                worst, (a, b) = float(excess.flat[place]), divmod(place, self.size)
                found = (a, b, c)
        return found

    def must_be_metric(self, who: str) -> None:
        """Refuse distances that break the triangle inequality, naming the entry."""
        broken = self.broken_triangle()
        if broken is not None:
            a, b, c = broken
            way = float(self.matrix[a, c] + self.matrix[c, b])
            raise ValueError(
                f"{who}: the distances must obey the triangle inequality, but row {a}, column {b} is "
                f"{float(self.matrix[a, b])!r}, above {way!r} by way of {c}; use the shortest paths (closure)."
            )


@dataclass(frozen=True)
class Segment(Space):
    """Numbers from ``low`` to ``high`` with the distance rate·|a − b|, or ``cap`` where that is less.

    ``rate`` is ε per unit of length; ``cap`` is the largest ε of any two inputs, infinity if there is none.

    >>> import shuffledp as sdp
    >>> ages = sdp.metric.Segment(low=0.0, high=100.0, rate=0.1, cap=2.0)
    >>> print(f"{ages.distance(30.0, 35.0):.4f} {ages.distance(30.0, 80.0):.4f}")
    0.5000 2.0000
    """

    low: float
    high: float
    rate: float = 1.0
    cap: float = math.inf

    dimension = 1

    def __post_init__(self) -> None:
        low, high = argument.real("Segment", "low", self.low), argument.real("Segment", "high", self.high, up=True)
        if not 0.0 < high - low < math.inf:
            raise ValueError(f"Segment: low must be below high and both finite, got {low!r} and {high!r}.")
        rate, cap = (argument.real("Segment", name, getattr(self, name), up=True) for name in ("rate", "cap"))
        argument.positive_finite("Segment", "rate", rate)
        if cap <= 0:
            raise ValueError(f"Segment: cap must be above 0, got {cap!r}.")
        for name, number in (("low", low), ("high", high), ("rate", rate), ("cap", cap)):
            object.__setattr__(self, name, number)
        _representable("Segment", self.diameter)

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]
        return self.distance(self.low, self.high)

    def distance(self, a: float, b: float) -> float:
        """min(rate·|a − b|, cap), rounded up."""
        a, b = argument.real("Segment", "an input", a), argument.real("Segment", "an input", b)
        with precision(BITS):
            return min(round_up(arb(self.rate) * abs(arb(a) - arb(b))), self.cap)

    def surroundings(self, first: Any, second: Any) -> Surroundings:
        """Without a cap the c of R_ab is an end; a cap may put it elsewhere, but never above both largest terms."""
        a, b = (_between("Segment", value, self.low, self.high) for value in (first, second))
        from_a, from_b = ([self.distance(x, end) for end in (self.low, self.high)] for x in (a, b))
        far_a, far_b = max(from_a), max(from_b)
        both = [(far_a, far_b)] if self.cap <= max(far_a, far_b) else list(zip(from_a, from_b, strict=True))
        with precision(BITS):
            clones = max(round_up(arb(x).exp() + arb(y).exp()) for x, y in both)
        return Surroundings(self.distance(a, b), far_a, far_b, clones, self.diameter)


@dataclass(frozen=True)
class Box(Space):
    """Points of a rectangle of the plane with ``rate`` times the Euclidean distance.

    ``width`` and ``height`` are its sides, from (0, 0) on; an input is a pair (x, y); ``rate`` is ε per unit of length.

    >>> import shuffledp as sdp
    >>> box = sdp.metric.Box(width=3.0, height=4.0, rate=0.5)
    >>> box.diameter, box.surroundings((0.0, 0.0), (1.0, 0.0)).distance
    (2.5, 0.5)
    >>> metric = sdp.metric.AmplifiedMetric(box, users=10_000, delta=1e-6)
    >>> print(f"{metric((0.0, 0.0), (1.0, 0.0)).upper:.4f}")
    0.0504
    """

    width: float
    height: float
    rate: float = 1.0

    dimension = 2

    def __post_init__(self) -> None:
        for name in ("width", "height", "rate"):
            object.__setattr__(self, name, argument.positive_finite("Box", name, getattr(self, name), up=True))
        _representable("Box", self.diameter)

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]
        return euclidean((0.0, 0.0), (self.width, self.height), self.rate)

    def surroundings(self, first: Any, second: Any) -> Surroundings:
        """The farthest point, and the c of R_ab, is a corner, because e^D(a,c) is convex in c."""
        a, b = (self._point(value) for value in (first, second))
        corners = [(x, y) for x in (0.0, self.width) for y in (0.0, self.height)]
        from_a, from_b = ([euclidean(point, corner, self.rate) for corner in corners] for point in (a, b))
        with precision(BITS):
            clones = max(round_up(arb(x).exp() + arb(y).exp()) for x, y in zip(from_a, from_b, strict=True))
        return Surroundings(euclidean(a, b, self.rate), max(from_a), max(from_b), clones, self.diameter)

    def _point(self, value: Any) -> tuple[float, float]:
        (point,) = checked_points("Box", [value], axes=2).tolist()
        return _between("Box", point[0], 0.0, self.width), _between("Box", point[1], 0.0, self.height)


def worst_surroundings(who: str, space: Space, epsilon_local: float) -> Surroundings:
    """A pair at this distance, in ε, when nothing is known of its place: everybody may be at the diameter."""
    number = argument.non_negative(who, "epsilon_local", epsilon_local, up=True)
    if number > space.diameter:
        raise ValueError(
            f"{who}: epsilon_local must be at most the largest distance of the space, ε = {space.diameter!r}, "
            f"got {number!r}."
        )
    far = space.diameter
    with precision(BITS):
        return Surroundings(number, far, far, round_up(2 * arb(far).exp()), far)


# --- reading and checking -------------------------------------------------------------------------------------------


def _same_length(who: str, rows: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    for row, cells in enumerate(rows):
        if len(cells) < len(rows):
            raise ValueError(f"{who}: row {row}, column {len(cells)} is missing.")
        if len(cells) > len(rows):
            raise ValueError(f"{who}: expected {len(rows)} columns as there are rows, got {len(cells)} in row {row}.")
    return rows


def _checked_matrix(given: Any) -> Floats:
    who = "DistanceMatrix"
    try:
        raw = np.asarray(given)
    except ValueError:
        raise ValueError(f"{who}: expected rows of numbers, all of one length.") from None
    if raw.dtype.kind not in "iufO":
        raise TypeError(f"{who}: expected a table of numbers, got {raw.dtype}.")
    numbers = argument.reals(who, "distances", raw, up=True)
    if numbers.ndim != 2 or numbers.shape[0] != numbers.shape[1]:
        raise ValueError(f"{who}: expected as many rows as columns, got shape {numbers.shape}.")
    if len(numbers) < 2:
        raise ValueError(f"{who}: expected at least two inputs, got {len(numbers)}.")
    off = ~np.eye(len(numbers), dtype=np.bool_)
    refuse = _Refusal(numbers)
    refuse(np.isnan(numbers), "is missing")
    refuse(numbers < 0, "must not be negative, got {value!r}")
    refuse(~off & (numbers != 0), "must be 0, the distance of an input to itself, got {value!r}")
    refuse(off & (numbers == 0), "must be above 0, because the inputs differ, got {value!r}")
    refuse(numbers > LARGEST_DISTANCE, f"must be at most {LARGEST_DISTANCE:g}, got {{value!r}}")
    refuse(numbers != numbers.T, "must equal row {column}, column {row}, which is {other!r}, got {value!r}")
    return numbers


@dataclass(frozen=True)
class _Refusal:
    """Refuses a matrix by the first entry at which something is wrong."""

    numbers: Floats

    def __call__(self, wrong: NDArray[np.bool_], sentence: str) -> None:
        places = np.argwhere(wrong)
        if len(places):
            row, column = places[0].tolist()
            value, other = float(self.numbers[row, column]), float(self.numbers[column, row])
            text = sentence.format(row=row, column=column, value=value, other=other)
            raise ValueError(f"DistanceMatrix: row {row}, column {column} {text}.")


def checked_points(who: str, points: Any, axes: int | None = None) -> Floats:
    """Rows of finite coordinates."""
    try:
        raw = np.asarray(points)
    except ValueError:
        raise ValueError(f"{who}: expected rows of coordinates, all of one length.") from None
    if raw.dtype.kind not in "iufO" or raw.ndim != 2 or raw.size == 0:
        raise ValueError(f"{who}: expected one row of coordinates per point, got shape {raw.shape} of {raw.dtype}.")
    places = argument.reals(who, "coordinates", raw)
    if axes is not None and places.shape[1] != axes:
        raise ValueError(f"{who}: expected {axes} coordinates per point, got {places.shape[1]}.")
    bad = np.argwhere(~np.isfinite(places))
    if len(bad):
        row, column = bad[0].tolist()
        raise ValueError(
            f"{who}: row {row}, column {column} must be a finite number, got {float(places[row, column])!r}."
        )
    return places


def _between(who: str, value: Any, low: float, high: float) -> float:
    number = argument.real(who, "an input", value)
    if not low <= number <= high:
        raise ValueError(f"{who}: an input must be from {low!r} to {high!r}, got {number!r}.")
    return number


def _representable(who: str, diameter: float) -> None:
    if diameter > LARGEST_DISTANCE:
        raise ValueError(f"{who}: the largest distance must be at most {LARGEST_DISTANCE:g}, got {diameter!r}.")
