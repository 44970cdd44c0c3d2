"""Metric spaces of inputs whose distances are privacy budgets: distance matrices, segments and boxes.

A local randomizer is private for a distance D if the laws of its message for a and b differ by a factor of at most
e^D(a,b), for every two inputs. Bounds grow with every distance, so all numbers here are rounded up.
"""

from __future__ import annotations

import csv
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

from shuffledp._core import validation
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import precision, round_up

# --- Distances in units of ε ---


BITS = 128
EARTH_RADIUS = 6_371_008.8
"""Mean radius in metres."""


def euclidean(first: Sequence[float] | Floats, second: Sequence[float] | Floats, rate: float = 1.0) -> float:
    """Returns rate·|first − second|, rounded up."""
    with precision(BITS):
        squares = [(arb(float(x)) - arb(float(y))) ** 2 for x, y in zip(first, second, strict=True)]
        total = sum(squares, arb(0))
        return 0.0 if total.is_zero() else round_up(arb(rate) * total.sqrt())


def great_circle(first: Floats, second: Floats, rate: float = 1.0) -> float:
    """Returns rate times the distance in metres of two points (latitude, longitude) on the sphere, rounded up."""
    with precision(BITS):
        degree = arb.pi() / 180
        (lat_a, lon_a), (lat_b, lon_b) = ([arb(x) for x in point] for point in (first.tolist(), second.tolist()))
        up, along = (((x - y) * degree / 2).sin() for x, y in ((lat_a, lat_b), (lon_a, lon_b)))
        half = up * up + (lat_a * degree).cos() * (lat_b * degree).cos() * along * along
        return round_up(arb(rate) * 2 * arb(EARTH_RADIUS) * half.sqrt().min(arb(1)).asin())


# --- CSV files ---


def read_numbers(who: str, path: str | PathLike[str]) -> list[list[float]]:
    """Reads a CSV file of numbers without header; raises ValueError for an empty cell."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = [cells for cells in csv.reader(file) if any(map(str.strip, cells))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"{who}: cannot read {path}: {reason}.") from None
    if not lines:
        raise ValueError(f"{who}: expected numbers in {path}, got an empty file.")
    return [[_cell(who, text, row, column) for column, text in enumerate(cells)] for row, cells in enumerate(lines)]


def _cell(who: str, text: str, row: int, column: int) -> float:
    if not text.strip():
        raise ValueError(f"{who}: row {row}, column {column} is missing.")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{who}: row {row}, column {column} must be a number, got {text.strip()!r}.") from None


TRIANGLE_TOLERANCE = 1e-9
"""Relative amount by which rounded distances may violate the triangle inequality."""
MAX_DISTANCE = 700.0
"""e^D is still a finite float."""


# --- Metric spaces ---


@dataclass(frozen=True)
class PairDistances:
    """The distances of two inputs a, b of a space from each other and from all others, as bounds need them."""

    distance: float
    """D(a, b)."""
    farthest_from_first: float
    farthest_from_second: float
    """The largest distance of any input from a (``farthest_from_first``) and from b."""
    clone_sum: float
    """R_ab = max over c of e^D(a,c) + e^D(b,c)."""
    diameter: float
    """The largest distance in the space."""


class Space(ValueObject, ABC):
    """A space of inputs with a distance."""

    diameter: float
    """Largest distance of two inputs; like all distances of a space in units of ε."""
    dimension: int | None = None
    """Number of coordinates of the inputs if distances are Euclidean; None if that is not known."""

    @abstractmethod
    def pair_distances(self, first: Any, second: Any) -> PairDistances:
        """Returns the distances of one pair of inputs from each other and from all others.

        Args:
            first: One input.
            second: Another input.

        Returns:
            The numbers that amplification bounds need for this pair.

        Raises:
            ValueError: If an input does not belong to the space.
        """


@dataclass(frozen=True, eq=False)
class DistanceMatrix(Space):
    """A finite space, given by the distances of its inputs.

    The triangle inequality is required only where it is needed (``check_triangle_inequality``); ``closure`` makes it
    hold.

    Args:
        matrix: ``matrix[a][b]`` is the distance of a and b: symmetric, with zeros on the diagonal and positive, finite
            numbers elsewhere.

    Raises:
        TypeError: If the entries are not numbers.
        ValueError: If an entry is missing, negative, zero off the diagonal, above 700 or not symmetric.

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
    """Known only after ``from_points``: a table of distances does not say where its inputs lie."""

    def __post_init__(self) -> None:
        numbers = _check_matrix(self.matrix)
        numbers.setflags(write=False)
        object.__setattr__(self, "matrix", numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DistanceMatrix) and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash(tuple(map(tuple, self.matrix.tolist())))

    @classmethod
    def from_csv(cls, path: str | PathLike[str]) -> DistanceMatrix:
        """Reads a matrix from a file without header, one row per input.

        Args:
            path: Path of the CSV file.

        Returns:
            The space of these distances.

        Raises:
            ValueError: If the file cannot be read, a cell is missing or not a number, or the distances are not valid.
        """
        return cls(np.array(_check_same_length("DistanceMatrix", read_numbers("DistanceMatrix", path))))

    @classmethod
    def from_points(cls, points: Any, rate: float = 1.0) -> DistanceMatrix:
        """Returns the space of points with ``rate`` times their Euclidean distance, rounded up.

        Args:
            points: One row of coordinates per point, all different.
            rate: ε per unit of length.

        Returns:
            The space of these points.

        Raises:
            ValueError: If two points are equal, a coordinate is not finite, or ``rate`` is not above 0 and finite.
        """
        rate = validation.positive_finite("DistanceMatrix", "rate", rate, up=True)
        places = check_points("DistanceMatrix", points)
        space = cls._from_pairs(places, lambda a, b: euclidean(a, b, rate))
        object.__setattr__(space, "dimension", places.shape[1])
        return space

    @classmethod
    def _from_pairs(cls, places: Floats, distance: Callable[[Floats, Floats], float]) -> DistanceMatrix:
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
        """Returns the space of places on Earth with ``rate`` times their great-circle distance, rounded up.

        Args:
            points: One row (latitude, longitude) in degrees per place, all different.
            rate: ε per metre.

        Returns:
            The space of these places.

        Raises:
            ValueError: If a coordinate is out of range, two places are equal, or ``rate`` is not above 0 and finite.
        """
        rate = validation.positive_finite("DistanceMatrix", "rate", rate, up=True)
        places = check_points("DistanceMatrix", points, axes=2)
        for row, (latitude, longitude) in enumerate(places.tolist()):
            if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
                raise ValueError(
                    f"DistanceMatrix: row {row} must be a latitude from -90 to 90 and a longitude from -180 to 180, "
                    f"got {latitude!r} and {longitude!r}."
                )
        return cls._from_pairs(places, lambda a, b: great_circle(a, b, rate))

    def csv_text(self) -> str:
        """Returns the text that ``from_csv`` reads, with every digit of every number."""
        return "".join(",".join(map(repr, row)) + "\n" for row in self.matrix.tolist())

    @property
    def size(self) -> int:
        """The number of points."""
        return len(self.matrix)

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]
        """The largest distance between two points."""
        return float(self.matrix.max())

    @cached_property
    def smallest_distance(self) -> float:
        """The smallest distance of two different inputs."""
        return float(self.matrix[~np.eye(self.size, dtype=np.bool_)].min())

    @cached_property
    def eccentricity(self) -> Floats:
        """The largest distance from each input."""
        return np.asarray(self.matrix.max(axis=1))

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yields every two inputs once."""
        return ((a, b) for a in range(self.size) for b in range(a + 1, self.size))

    def pair_distances(self, first: Any, second: Any) -> PairDistances:
        """Returns the distances of two inputs, given by their indices."""
        a, b = self.check_index(first), self.check_index(second)
        far = self.eccentricity
        return PairDistances(
            float(self.matrix[a, b]), float(far[a]), float(far[b]), self._clone_sum(a, b), self.diameter
        )

    def check_index(self, value: Any) -> int:
        """Checks the index of an input.

        Args:
            value: The index, from 0.

        Returns:
            The index as an int.

        Raises:
            ValueError: If the index is out of range.
        """
        number = validation.count("DistanceMatrix", "an input", value, at_least=0)
        if number >= self.size:
            raise ValueError(f"DistanceMatrix: an input must be from 0 to {self.size - 1}, got {number}.")
        return number

    def _clone_sum(self, a: int, b: int) -> float:
        rough = np.exp(self.matrix[a]) + np.exp(self.matrix[b])
        near = np.flatnonzero(rough >= rough.max() * (1 - TRIANGLE_TOLERANCE))
        with precision(BITS):
            return max(round_up(arb(self.matrix[a, c]).exp() + arb(self.matrix[b, c]).exp()) for c in near.tolist())

    def closure(self) -> DistanceMatrix:
        """Returns the largest metric below: shortest paths. Privacy for the distances is privacy for it."""
        shortest = self.matrix.copy()
        for middle in range(self.size):
            np.minimum(shortest, np.add.outer(shortest[:, middle], shortest[middle]), out=shortest)
        # Sums of floats may be rounded down once a step; the factor exceeds that, and the minimum keeps the original
        # bound.
        shortest = np.minimum(shortest * (1 + 2.0**-51 * (self.size + 1)), self.matrix)
        np.fill_diagonal(shortest, 0.0)
        return DistanceMatrix(np.minimum(shortest, shortest.T))

    def broken_triangle(self) -> tuple[int, int, int] | None:
        """Returns the worst (a, b, c) with D(a,b) > D(a,c) + D(c,b) by more than rounding; None if there is none."""
        worst, found = TRIANGLE_TOLERANCE, None
        for c in range(self.size):
            around = np.add.outer(self.matrix[:, c], self.matrix[c])
            with np.errstate(divide="ignore", invalid="ignore"):
                excess = np.where(around > 0, self.matrix / around - 1, 0.0)
            place = int(np.argmax(excess))
            if excess.flat[place] > worst:
                worst, (a, b) = float(excess.flat[place]), divmod(place, self.size)
                found = (a, b, c)
        return found

    def check_triangle_inequality(self, who: str) -> None:
        """Checks that the distances obey the triangle inequality.

        Args:
            who: Name of the caller, for the error message.

        Raises:
            ValueError: If they do not; the message names the entry.
        """
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

    Args:
        low: Smallest input.
        high: Largest input.
        rate: ε per unit of length.
        cap: Largest ε of any two inputs; infinity for none.

    Raises:
        ValueError: If ``low`` is not below ``high``, if a number is out of range, or if the largest distance exceeds
            700.

    >>> import shuffledp as sdp
    >>> ages = sdp.metric.Segment(low=0.0, high=100.0, rate=0.1, cap=2.0)
    >>> print(f"{ages.distance(30.0, 35.0):.4f} {ages.distance(30.0, 80.0):.4f}")
    0.5000 2.0000
    """

    low: float = field(metadata=validation.checked(validation.real))
    high: float = field(metadata=validation.checked(validation.real, up=True))
    rate: float = field(default=1.0, metadata=validation.checked(validation.positive_finite, up=True))
    cap: float = field(default=math.inf, metadata=validation.checked(validation.real, up=True))

    dimension = 1

    def __post_init__(self) -> None:
        validation.check_fields(self)
        if not 0.0 < self.high - self.low < math.inf:
            raise ValueError(f"Segment: low must be below high and both finite, got {self.low!r} and {self.high!r}.")
        if self.cap <= 0:
            raise ValueError(f"Segment: cap must be above 0, got {self.cap!r}.")
        _check_representable("Segment", self.diameter)

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]
        """The largest distance between two points."""
        return self.distance(self.low, self.high)

    def distance(self, a: float, b: float) -> float:
        """Returns min(rate·|a − b|, cap), rounded up.

        Args:
            a: One number.
            b: Another number.

        Returns:
            The distance in units of ε.
        """
        a, b = validation.real("Segment", "an input", a), validation.real("Segment", "an input", b)
        with precision(BITS):
            return min(round_up(arb(self.rate) * abs(arb(a) - arb(b))), self.cap)

    def pair_distances(self, first: Any, second: Any) -> PairDistances:
        """Returns the distances of two numbers.

        Without a cap the c of R_ab is an end; a cap may move it, but never above both largest terms.
        """
        a, b = (_check_coordinate("Segment", value, self.low, self.high) for value in (first, second))
        from_a, from_b = ([self.distance(x, end) for end in (self.low, self.high)] for x in (a, b))
        far_a, far_b = max(from_a), max(from_b)
        both = [(far_a, far_b)] if self.cap <= max(far_a, far_b) else list(zip(from_a, from_b, strict=True))
        with precision(BITS):
            clones = max(round_up(arb(x).exp() + arb(y).exp()) for x, y in both)
        return PairDistances(self.distance(a, b), far_a, far_b, clones, self.diameter)


@dataclass(frozen=True)
class Box(Space):
    """Points of a rectangle with ``rate`` times the Euclidean distance.

    An input is a pair (x, y) with 0 ≤ x ≤ width and 0 ≤ y ≤ height.

    Args:
        width: Length of the first side.
        height: Length of the second side.
        rate: ε per unit of length.

    Raises:
        ValueError: If a number is not above 0 and finite, or if the largest distance exceeds 700.

    >>> import shuffledp as sdp
    >>> box = sdp.metric.Box(width=3.0, height=4.0, rate=0.5)
    >>> box.diameter, box.pair_distances((0.0, 0.0), (1.0, 0.0)).distance
    (2.5, 0.5)
    >>> metric = sdp.metric.AmplifiedMetric(box, users=10_000, delta=1e-6)
    >>> print(f"{metric((0.0, 0.0), (1.0, 0.0)).upper:.4f}")
    0.0504
    """

    width: float = field(metadata=validation.checked(validation.positive_finite, up=True))
    height: float = field(metadata=validation.checked(validation.positive_finite, up=True))
    rate: float = field(default=1.0, metadata=validation.checked(validation.positive_finite, up=True))

    dimension = 2

    def __post_init__(self) -> None:
        validation.check_fields(self)
        _check_representable("Box", self.diameter)

    @cached_property
    def diameter(self) -> float:  # type: ignore[override]
        """The largest distance between two points."""
        return euclidean((0.0, 0.0), (self.width, self.height), self.rate)

    def pair_distances(self, first: Any, second: Any) -> PairDistances:
        """Returns the distances of two points (x, y).

        The farthest point, and the c of R_ab, is a corner, because e^D(a,c) is convex in c.
        """
        a, b = (self._point(value) for value in (first, second))
        corners = [(x, y) for x in (0.0, self.width) for y in (0.0, self.height)]
        from_a, from_b = ([euclidean(point, corner, self.rate) for corner in corners] for point in (a, b))
        with precision(BITS):
            clones = max(round_up(arb(x).exp() + arb(y).exp()) for x, y in zip(from_a, from_b, strict=True))
        return PairDistances(euclidean(a, b, self.rate), max(from_a), max(from_b), clones, self.diameter)

    def _point(self, value: Any) -> tuple[float, float]:
        (point,) = check_points("Box", [value], axes=2).tolist()
        return _check_coordinate("Box", point[0], 0.0, self.width), _check_coordinate("Box", point[1], 0.0, self.height)


def worst_pair_distances(who: str, space: Space, epsilon_local: float) -> PairDistances:
    """Returns the numbers of a pair of which only the distance is known: all others may be at the diameter."""
    number = validation.non_negative(who, "epsilon_local", epsilon_local, up=True)
    if number > space.diameter:
        raise ValueError(
            f"{who}: epsilon_local must be at most the largest distance of the space, ε = {space.diameter!r}, "
            f"got {number!r}."
        )
    far = space.diameter
    with precision(BITS):
        return PairDistances(number, far, far, round_up(2 * arb(far).exp()), far)


# --- Validation ---


def _check_same_length(who: str, rows: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    for row, cells in enumerate(rows):
        if len(cells) < len(rows):
            raise ValueError(f"{who}: row {row}, column {len(cells)} is missing.")
        if len(cells) > len(rows):
            raise ValueError(f"{who}: expected {len(rows)} columns as there are rows, got {len(cells)} in row {row}.")
    return rows


def _check_matrix(given: Any) -> Floats:
    who = "DistanceMatrix"
    try:
        raw = np.asarray(given)
    except ValueError:
        raise ValueError(f"{who}: expected rows of numbers, all of one length.") from None
    if raw.dtype.kind not in "iufO":
        raise TypeError(f"{who}: expected a table of numbers, got {raw.dtype}.")
    numbers = validation.reals(who, "distances", raw, up=True)
    if numbers.ndim != 2 or numbers.shape[0] != numbers.shape[1]:
        raise ValueError(f"{who}: expected as many rows as columns, got shape {numbers.shape}.")
    if len(numbers) < 2:
        raise ValueError(f"{who}: expected at least two inputs, got {len(numbers)}.")
    off = ~np.eye(len(numbers), dtype=np.bool_)
    refuse = _EntryCheck(numbers)
    refuse(np.isnan(numbers), "is missing")
    refuse(numbers < 0, "must not be negative, got {value!r}")
    refuse(~off & (numbers != 0), "must be 0, the distance of an input to itself, got {value!r}")
    refuse(off & (numbers == 0), "must be above 0, because the inputs differ, got {value!r}")
    refuse(numbers > MAX_DISTANCE, f"must be at most {MAX_DISTANCE:g}, got {{value!r}}")
    refuse(numbers != numbers.T, "must equal row {column}, column {row}, which is {other!r}, got {value!r}")
    return numbers


@dataclass(frozen=True)
class _EntryCheck:
    """Raises ValueError for the first entry of a matrix that violates a condition."""

    numbers: Floats

    def __call__(self, wrong: NDArray[np.bool_], sentence: str) -> None:
        places = np.argwhere(wrong)
        if len(places):
            row, column = places[0].tolist()
            value, other = float(self.numbers[row, column]), float(self.numbers[column, row])
            text = sentence.format(row=row, column=column, value=value, other=other)
            raise ValueError(f"DistanceMatrix: row {row}, column {column} {text}.")


def check_points(who: str, points: Any, axes: int | None = None) -> Floats:
    """Returns rows of finite coordinates, or raises ValueError."""
    try:
        raw = np.asarray(points)
    except ValueError:
        raise ValueError(f"{who}: expected rows of coordinates, all of one length.") from None
    if raw.dtype.kind not in "iufO" or raw.ndim != 2 or raw.size == 0:
        raise ValueError(f"{who}: expected one row of coordinates per point, got shape {raw.shape} of {raw.dtype}.")
    places = validation.reals(who, "coordinates", raw)
    if axes is not None and places.shape[1] != axes:
        raise ValueError(f"{who}: expected {axes} coordinates per point, got {places.shape[1]}.")
    bad = np.argwhere(~np.isfinite(places))
    if len(bad):
        row, column = bad[0].tolist()
        raise ValueError(
            f"{who}: row {row}, column {column} must be a finite number, got {float(places[row, column])!r}."
        )
    return places


def _check_coordinate(who: str, value: Any, low: float, high: float) -> float:
    number = validation.real(who, "an input", value)
    if not low <= number <= high:
        raise ValueError(f"{who}: an input must be from {low!r} to {high!r}, got {number!r}.")
    return number


def _check_representable(who: str, diameter: float) -> None:
    if diameter > MAX_DISTANCE:
        raise ValueError(f"{who}: the largest distance must be at most {MAX_DISTANCE:g}, got {diameter!r}.")
