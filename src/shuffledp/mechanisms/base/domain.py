"""Input domains: the values that users may hold, and their validation before anything is encoded."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.validation import Array, Floats, Integers


class InputDomain(ABC):
    """Domain of the values of a mechanism, one value per user along the first axis."""

    is_combinatorial: ClassVar[bool] = False
    """True if a value is a choice of several options or pairs, so that there are exponentially many values."""
    requires_padding: ClassVar[bool] = False
    """True if users must hold exactly the stated number of items, and pad with dummies (extra options) if need be."""

    @abstractmethod
    def check(self, values: Any) -> Array:
        """Returns the values in canonical form.

        Args:
            values: One value per user along the first axis.

        Returns:
            An array with one value or row per user.

        Raises:
            TypeError: If values have the wrong type.
            ValueError: If any value is outside the domain, or there is none.
        """

    @abstractmethod
    def audit_pair(self) -> Array:
        """Returns two inputs that are hard to hide from each other, in canonical form."""

    @property
    def value_range(self) -> tuple[float, float]:
        """The smallest and the largest number, both included, if values are numbers."""
        return -1.0, 1.0

    @property
    def innermost(self) -> InputDomain:
        """The innermost domain, without wrappers that only change the name in error messages."""
        return self


@dataclass(frozen=True)
class WrappedDomain(InputDomain):
    """Domain of an inner mechanism, whose error messages also name the outer one."""

    error_prefix: str
    inner: InputDomain

    def check(self, values: Any) -> Array:
        try:
            return self.inner.check(values)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.error_prefix} {error}") from None

    def audit_pair(self) -> Array:
        return self.inner.audit_pair()

    @property
    def value_range(self) -> tuple[float, float]:
        return self.inner.value_range

    @property
    def innermost(self) -> InputDomain:
        return self.inner.innermost

    @property
    def is_combinatorial(self) -> bool:  # type: ignore[override]
        return self.inner.is_combinatorial

    @property
    def requires_padding(self) -> bool:  # type: ignore[override]
        return self.inner.requires_padding


@dataclass(frozen=True)
class Category(InputDomain):
    """One whole number from 0 to options−1 per user.

    Args:
        error_prefix: Name that begins error messages.
        options: Number of options.
    """

    error_prefix: str
    options: int

    def check(self, values: Any) -> Array:
        return check_categories(self.error_prefix, values, self.options)

    def audit_pair(self) -> Array:
        return np.array([0, self.options - 1])


@dataclass(frozen=True)
class ItemSet(InputDomain):
    """A row of `items` different whole numbers from 0 to options−1 per user, in ascending order.

    Args:
        error_prefix: Name that begins error messages.
        options: Number of options.
        items: Number of items of every user.
    """

    is_combinatorial = True
    requires_padding = True

    error_prefix: str
    options: int
    items: int

    def check(self, values: Any) -> Array:
        return check_item_sets(self.error_prefix, values, self.options, self.items)

    def audit_pair(self) -> Array:
        return least_overlapping_sets(self.options, self.items)


@dataclass(frozen=True)
class BoundedItemSet(InputDomain):
    """At most `items` different whole numbers from 0 to options−1 per user, in rows of `items` padded with −1.

    Args:
        error_prefix: Name that begins error messages.
        options: Number of options.
        items: Largest number of items of a user.
    """

    is_combinatorial = True

    error_prefix: str
    options: int
    items: int

    def check(self, values: Any) -> Array:
        rows = self._pad_rows(values)
        numbers = np.sort(_check_integers(self.error_prefix, rows + 1, self.options + 1) - 1, axis=1)
        if ((numbers[:, 1:] == numbers[:, :-1]) & (numbers[:, 1:] >= 0)).any():
            raise ValueError(f"{self.error_prefix}: the items of a user must be different, got one twice.")
        return numbers

    def _pad_rows(self, values: Any) -> Integers:
        if isinstance(values, np.ndarray):
            rows = _check_axes(self.error_prefix, values, 2)
            if rows.shape[1] > self.items:
                raise self._item_count_error(rows.shape[1])
            if rows.dtype.kind not in "iu":
                raise TypeError(f"{self.error_prefix}: values must be whole numbers, got {rows.dtype}.")
            missing = np.full((len(rows), self.items - rows.shape[1]), -1, dtype=np.int64)
            return np.concatenate([rows.astype(np.int64), missing], axis=1)
        if not isinstance(values, list | tuple):
            raise TypeError(
                f"{self.error_prefix}: expected a list of items for each user, got {type(values).__name__}."
            )
        lists = [np.asarray(row).reshape(-1) for row in values]
        longest = max((len(row) for row in lists), default=0)
        if longest > self.items:
            raise self._item_count_error(longest)
        if not lists:
            raise ValueError(f"{self.error_prefix}: expected at least one value, got none.")
        result = np.full((len(lists), self.items), -1, dtype=np.int64)
        for number, row in enumerate(lists):
            if len(row) and row.dtype.kind not in "iu":
                raise TypeError(f"{self.error_prefix}: values must be whole numbers, got {row.dtype}.")
            result[number, : len(row)] = row
        return result

    def _item_count_error(self, count: int) -> ValueError:
        return ValueError(f"{self.error_prefix}: expected at most {self.items} items per user, got {count} of one.")

    def audit_pair(self) -> Array:
        return least_overlapping_sets(self.options, self.items)


@dataclass(frozen=True)
class IntegerVector(InputDomain):
    """A row of `columns` whole numbers from 0 to options−1 per user.

    Args:
        error_prefix: Name that begins error messages.
        options: Number of options in each column.
        columns: Numbers per user.
    """

    error_prefix: str
    options: int
    columns: int

    def check(self, values: Any) -> Array:
        rows = _check_axes(self.error_prefix, values, 2)
        if rows.shape[1] != self.columns:
            raise ValueError(
                f"{self.error_prefix}: expected {self.columns} numbers per user, got rows of {rows.shape[1]}."
            )
        return _check_integers(self.error_prefix, rows, self.options)

    def audit_pair(self) -> Array:
        return np.repeat([[0], [self.options - 1]], self.columns, axis=1)


@dataclass(frozen=True)
class RealNumber(InputDomain):
    """One real number from `low` to `high` per user.

    Args:
        error_prefix: Name that begins error messages.
        low: Smallest value, included.
        high: Largest value, included.
    """

    error_prefix: str
    low: float = -1.0
    high: float = 1.0

    def check(self, values: Any) -> Array:
        return check_reals(self.error_prefix, values, self.low, self.high)

    def audit_pair(self) -> Array:
        return np.array([self.low, self.high])

    @property
    def value_range(self) -> tuple[float, float]:
        return self.low, self.high


@dataclass(frozen=True)
class BoxVector(InputDomain):
    """A vector of `dimension` numbers from −1 to 1 per user.

    Args:
        error_prefix: Name that begins error messages.
        dimension: Length of a vector.
    """

    error_prefix: str
    dimension: int

    def check(self, values: Any) -> Array:
        vectors = check_reals(self.error_prefix, values, -1.0, 1.0, axes=2)
        if vectors.shape[1] != self.dimension:
            raise ValueError(
                f"{self.error_prefix}: expected vectors of {self.dimension} numbers, got {vectors.shape[1]}."
            )
        return vectors

    def audit_pair(self) -> Array:
        return np.stack([-np.ones(self.dimension), np.ones(self.dimension)])


def check_interval(who: str, low: float, high: float, names: tuple[str, str] = ("low", "high")) -> None:
    """Raises ValueError unless `low` is below `high` and their distance is finite."""
    if not 0.0 < high - low < math.inf:
        raise ValueError(f"{who}: {names[0]} must be below {names[1]} and both finite, got {low!r} and {high!r}.")


def check_categories(who: str, values: Any, options: int) -> Integers:
    """Returns the values as one whole number from 0 to options−1 per user.

    Args:
        who: Name that begins error messages.
        values: One value per user.
        options: Number of options.

    Returns:
        The values as integers.

    Raises:
        TypeError: If the values are not whole numbers.
        ValueError: If one is outside the range, or there is none.
    """
    return _check_integers(who, _check_axes(who, values, 1), options)


def check_item_sets(who: str, values: Any, options: int, items: int) -> Integers:
    """Returns the values as one row of different whole numbers from 0 to options−1 per user, in ascending order.

    Args:
        who: Name that begins error messages.
        values: One row per user.
        options: Number of options.
        items: Number of items of every user.

    Returns:
        The rows as integers.

    Raises:
        TypeError: If the items are not whole numbers.
        ValueError: If an item is outside the range or twice in a row, or rows have another length.
    """
    array = _check_axes(who, values, 2)
    if array.shape[1] != items:
        raise ValueError(f"{who}: expected {items} items per user, got rows of {array.shape[1]}.")
    rows = np.sort(_check_integers(who, array, options), axis=1)
    twice = rows[:, 1:][rows[:, 1:] == rows[:, :-1]]
    if twice.size:
        raise ValueError(f"{who}: the items of a user must be different, got {twice[0]} twice in one row.")
    return rows


def check_reals(who: str, values: Any, low: float, high: float, axes: int = 1) -> Floats:
    """Returns the values as real numbers in [low, high].

    Args:
        who: Name that begins error messages.
        values: One number per user, or one row per user with `axes=2`.
        low: Smallest value, included.
        high: Largest value, included.
        axes: Number of axes of the array.

    Returns:
        The values as floats.

    Raises:
        TypeError: If the values are not numbers.
        ValueError: If one is NaN or outside the range, or there is none.
    """
    array = _check_axes(who, values, axes)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{who}: values must be numbers from {low:g} to {high:g}, got {array.dtype}.")
    numbers = array.astype(np.float64)
    if np.isnan(numbers).any():
        raise ValueError(f"{who}: values must be numbers from {low:g} to {high:g}, got NaN.")
    outside = numbers[(numbers < low) | (numbers > high)]
    if outside.size:
        raise ValueError(f"{who}: values must be from {low:g} to {high:g}, got {float(outside.flat[0])!r}.")
    return numbers


def _check_integers(who: str, array: NDArray[Any], options: int) -> Integers:
    if array.dtype.kind not in "iu":
        raise TypeError(f"{who}: values must be whole numbers from 0 to {options - 1}, got {array.dtype}.")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= options:
        raise ValueError(f"{who}: values must be from 0 to {options - 1}, got {low if low < 0 else high}.")
    return array.astype(np.int64, copy=False)


def least_overlapping_sets(options: int, items: int) -> Integers:
    """Returns the set of the first and the set of the last `items` options, which overlap as little as two sets can."""
    return np.stack([np.arange(items), np.arange(options - items, options)])


def _check_axes(who: str, values: Any, axes: int) -> NDArray[Any]:
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
