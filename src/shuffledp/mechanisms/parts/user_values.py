"""What users may hold: values are validated, each with one sentence; nothing is encoded unless all of them are good."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array


class UserValues(ABC):
    """One value per user along the first axis."""

    combines_items: ClassVar[bool] = False
    """Whether a value is a choice of several options or pairs, so that there are exponentially many values."""
    fills: ClassVar[bool] = False
    """Whether every user must hold as many items as are stated: who has fewer adds dummies, options of their own."""

    @abstractmethod
    def check(self, values: Any) -> Array:
        """The values in canonical form; a sentence if any of them is bad."""

    @abstractmethod
    def probe(self) -> Array:
        """Two inputs that are hard to hide from each other, in canonical form."""

    @property
    def range(self) -> tuple[float, float]:
        """Where the numbers lie, both ends included, if values are numbers."""
        return -1.0, 1.0

    @property
    def plain(self) -> UserValues:
        """The values themselves, whoever asks for them."""
        return self


@dataclass(frozen=True)
class ValuesOf(UserValues):
    """The values of a mechanism around which another one is built; a refusal says who asked."""

    who: str
    single: UserValues

    def check(self, values: Any) -> Array:
        try:
            return self.single.check(values)
        except (TypeError, ValueError) as refusal:
            raise type(refusal)(f"{self.who} {refusal}") from None

    def probe(self) -> Array:
        return self.single.probe()

    @property
    def range(self) -> tuple[float, float]:
        return self.single.range

    @property
    def plain(self) -> UserValues:
        return self.single.plain

    @property
    def combines_items(self) -> bool:  # type: ignore[override]
        return self.single.combines_items

    @property
    def fills(self) -> bool:  # type: ignore[override]
        return self.single.fills


@dataclass(frozen=True)
class OneOption(UserValues):
    """One whole number from 0 to options−1 per user."""

    who: str
    options: int

    def check(self, values: Any) -> Array:
        return categories(self.who, values, self.options)

    def probe(self) -> Array:
        return np.array([0, self.options - 1])


@dataclass(frozen=True)
class ItemSet(UserValues):
    """A row of ``items`` different whole numbers from 0 to options−1 per user, in ascending order."""

    combines_items = True
    fills = True

    who: str
    options: int
    items: int

    def check(self, values: Any) -> Array:
        return item_sets(self.who, values, self.options, self.items)

    def probe(self) -> Array:
        return farthest_sets(self.options, self.items)


@dataclass(frozen=True)
class ItemsUpTo(UserValues):
    """At most ``items`` different whole numbers from 0 to options−1 per user, in rows of ``items`` with −1 for none."""

    combines_items = True

    who: str
    options: int
    items: int

    def check(self, values: Any) -> Array:
        rows = self._rows(values)
        numbers = np.sort(_whole_numbers(self.who, rows + 1, self.options + 1) - 1, axis=1)
        if ((numbers[:, 1:] == numbers[:, :-1]) & (numbers[:, 1:] >= 0)).any():
            raise ValueError(f"{self.who}: the items of a user must be different, got one twice.")
        return numbers

    def _rows(self, values: Any) -> NDArray[np.int64]:
        if isinstance(values, np.ndarray):
            rows = _one_per_user(self.who, values, 2)
            if rows.shape[1] > self.items:
                raise self._too_many(rows.shape[1])
            if rows.dtype.kind not in "iu":
                raise TypeError(f"{self.who}: values must be whole numbers, got {rows.dtype}.")
            missing = np.full((len(rows), self.items - rows.shape[1]), -1, dtype=np.int64)
            return np.concatenate([rows.astype(np.int64), missing], axis=1)
        if not isinstance(values, list | tuple):
            raise TypeError(f"{self.who}: expected a list of items for each user, got {type(values).__name__}.")
        lists = [np.asarray(row).reshape(-1) for row in values]
        longest = max((len(row) for row in lists), default=0)
        if longest > self.items:
            raise self._too_many(longest)
        if not lists:
            raise ValueError(f"{self.who}: expected at least one value, got none.")
        result = np.full((len(lists), self.items), -1, dtype=np.int64)
        for number, row in enumerate(lists):
            if len(row) and row.dtype.kind not in "iu":
                raise TypeError(f"{self.who}: values must be whole numbers, got {row.dtype}.")
            result[number, : len(row)] = row
        return result

    def _too_many(self, found: int) -> ValueError:
        return ValueError(f"{self.who}: expected at most {self.items} items per user, got {found} of one.")

    def probe(self) -> Array:
        return farthest_sets(self.options, self.items)


@dataclass(frozen=True)
class NumberRows(UserValues):
    """A row of ``columns`` whole numbers from 0 to options−1 per user."""

    who: str
    options: int
    columns: int

    def check(self, values: Any) -> Array:
        rows = _one_per_user(self.who, values, 2)
        if rows.shape[1] != self.columns:
            raise ValueError(f"{self.who}: expected {self.columns} numbers per user, got rows of {rows.shape[1]}.")
        return _whole_numbers(self.who, rows, self.options)

    def probe(self) -> Array:
        return np.repeat([[0], [self.options - 1]], self.columns, axis=1)


@dataclass(frozen=True)
class RealNumber(UserValues):
    """One number from low to high per user."""

    who: str
    low: float = -1.0
    high: float = 1.0

    def check(self, values: Any) -> Array:
        return reals(self.who, values, self.low, self.high)

    def probe(self) -> Array:
        return np.array([self.low, self.high])

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high


@dataclass(frozen=True)
class BoxVector(UserValues):
    """A vector of ``dimension`` numbers from −1 to 1 per user."""

    who: str
    dimension: int

    def check(self, values: Any) -> Array:
        vectors = reals(self.who, values, -1.0, 1.0, axes=2)
        if vectors.shape[1] != self.dimension:
            raise ValueError(f"{self.who}: expected vectors of {self.dimension} numbers, got {vectors.shape[1]}.")
        return vectors

    def probe(self) -> Array:
        return np.stack([-np.ones(self.dimension), np.ones(self.dimension)])


def categories(who: str, values: Any, options: int) -> NDArray[np.int64]:
    """One whole number from 0 to options−1 per user."""
    return _whole_numbers(who, _one_per_user(who, values, 1), options)


def item_sets(who: str, values: Any, options: int, items: int) -> NDArray[np.int64]:
    """One row of ``items`` different whole numbers from 0 to options−1 per user, each row in ascending order."""
    array = _one_per_user(who, values, 2)
    if array.shape[1] != items:
        raise ValueError(f"{who}: expected {items} items per user, got rows of {array.shape[1]}.")
    rows = np.sort(_whole_numbers(who, array, options), axis=1)
    twice = rows[:, 1:][rows[:, 1:] == rows[:, :-1]]
    if twice.size:
        raise ValueError(f"{who}: the items of a user must be different, got {twice[0]} twice in one row.")
    return rows


def reals(who: str, values: Any, low: float, high: float, axes: int = 1) -> NDArray[np.float64]:
    """Real numbers in [low, high], one per user (or one row per user with ``axes=2``)."""
    array = _one_per_user(who, values, axes)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{who}: values must be numbers from {low:g} to {high:g}, got {array.dtype}.")
    numbers = array.astype(np.float64)
    if np.isnan(numbers).any():
        raise ValueError(f"{who}: values must be numbers from {low:g} to {high:g}, got NaN.")
    outside = numbers[(numbers < low) | (numbers > high)]
    if outside.size:
        raise ValueError(f"{who}: values must be from {low:g} to {high:g}, got {float(outside.flat[0])!r}.")
    return numbers


def _whole_numbers(who: str, array: NDArray[Any], options: int) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu":
        raise TypeError(f"{who}: values must be whole numbers from 0 to {options - 1}, got {array.dtype}.")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= options:
        bad = low if low < 0 else high
        raise ValueError(f"{who}: values must be from 0 to {options - 1}, got {bad}.")
    return array.astype(np.int64, copy=False)


def farthest_sets(options: int, items: int) -> NDArray[np.int64]:
    """The two sets of the first and of the last ``items`` options, which share as little as two sets can."""
    return np.stack([np.arange(items), np.arange(options - items, options)])


def _one_per_user(who: str, values: Any, axes: int) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{who}: expected rows of one length, got rows of different lengths.") from None
    if array.dtype == np.bool_:
        raise TypeError(f"{who}: values must be numbers, got booleans.")
    if array.ndim != axes:
        shape = "one value" if axes == 1 else "one row"
        raise ValueError(f"{who}: expected {shape} per user, got an array of shape {array.shape}.")
    if array.size == 0:
        raise ValueError(f"{who}: expected at least one value, got none.")
    return array
