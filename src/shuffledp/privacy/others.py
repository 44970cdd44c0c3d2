"""What the others may send: all laws of a third user's message, for one pair of inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, round_down
from shuffledp.numerics.finite_law import FiniteLaw
from shuffledp.numerics.many_crowds import FloatView, squares
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.record import Record

BITS = 192


@dataclass(frozen=True)
class Others(Record, ABC):
    """Two inputs and everybody else: the two laws of user 1, and in ``kinds`` every law that another user may have.

    In each of ``kinds`` ``hiding`` is the law of one other user, whole, or a part of it, then the rest of it, revealed.
    Whatever another user holds, at any ε the law of G = (first − e^ε·second)/hiding is a mixture of these, or below it
    in convex order.
    ``gamma``: a γ > 0 with which every other user's law is at least γ times one law that is the same for all.
    """

    gamma: float
    symmetric: bool
    """Exchanging the two inputs leaves the set of ``kinds`` as it is."""

    def __post_init__(self) -> None:
        if not 0.0 < self.gamma <= 1.0:
            raise ValueError(f"Others: expected 0 < gamma <= 1, got {self.gamma!r}.")

    @property
    @abstractmethod
    def kinds(self) -> tuple[HidingPair, ...]:
        """Every law that another user may have, against the two of user 1."""

    @abstractmethod
    def kind(self, place: int) -> HidingPair:
        """The one in this row of ``view``."""

    @abstractmethod
    def swapped(self) -> Others:
        """The other direction of the divergence."""

    @property
    @abstractmethod
    def view(self) -> FloatView:
        """All of it in floats."""

    @property
    @abstractmethod
    def signature(self) -> frozenset[object]:
        """What all kinds are made from: the same for the same kinds, in any order."""

    def laws(self, epsilon: float) -> list[FiniteLaw]:
        """The laws of G at ε."""
        return [kind.law(epsilon) for kind in self.kinds]

    @abstractmethod
    def largest_log_ratio(self) -> float:
        """An upper bound of log(first/second)."""


@dataclass(frozen=True)
class KnownOthers(Others):
    """All kinds written down."""

    given: tuple[HidingPair, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.given:
            raise ValueError("Others: expected some kinds, got none.")

    @property
    def kinds(self) -> tuple[HidingPair, ...]:
        return self.given

    def kind(self, place: int) -> HidingPair:
        return self.given[place]

    def swapped(self) -> Others:
        return KnownOthers(self.gamma, self.symmetric, tuple(kind.swapped() for kind in self.given))

    @cached_property
    def view(self) -> FloatView:
        with precision(BITS):
            classes = [kind.classes() for kind in self.given]
        shape = len(classes), max(map(len, classes))
        view = FloatView(np.zeros(shape), np.zeros(shape), np.zeros(shape))
        for row, kind in enumerate(classes):
            for column, chances in enumerate(kind):
                for array, chance in zip(view, chances, strict=True):
                    array[row, column] = float(chance)
        return view

    @cached_property
    def signature(self) -> frozenset[object]:
        return frozenset(self.given)

    def largest_log_ratio(self) -> float:
        return max(kind.largest_log_ratio() for kind in self.given)


class LawTable(Record, ABC):
    """The laws of some inputs on the same messages, a row each."""

    @property
    @abstractmethod
    def floats(self) -> Floats:
        """All rows in floats, each probability to a relative 2^-44."""

    @property
    def hiding_floats(self) -> Floats:
        """The same of what hides where another user has a row: here the row itself."""
        return self.floats

    @abstractmethod
    def pair(self, first: int, second: int, third: int) -> HidingPair:
        """User 1 has one of two rows, and another user the third."""

    @abstractmethod
    def signature(self, first: int, second: int, third: int) -> object:
        """What that pair is made from."""


@dataclass(frozen=True)
class RowOthers(Others):
    """Two rows of a table, where another user may have any of the rows ``thirds``."""

    table: LawTable
    first: int
    second: int
    thirds: tuple[int, ...]

    @cached_property
    def kinds(self) -> tuple[HidingPair, ...]:
        table, places = self.table, (self.first, self.second)
        different = {table.signature(*places, third): third for third in self.thirds}
        return tuple(table.pair(*places, third) for third in different.values())

    def kind(self, place: int) -> HidingPair:
        return self.table.pair(self.first, self.second, self.thirds[place])

    def swapped(self) -> Others:
        return replace(self, first=self.second, second=self.first)

    @property
    def view(self) -> FloatView:
        rows = self.table.floats
        return FloatView(rows[self.first], rows[self.second], self.table.hiding_floats[list(self.thirds)])

    @cached_property
    def signature(self) -> frozenset[object]:
        return frozenset(self.table.signature(self.first, self.second, third) for third in self.thirds)

    def largest_log_ratio(self) -> float:
        return self.table.pair(self.first, self.second, self.first).largest_log_ratio()


def shared_part(blanket: HidingPair) -> float:
    """γ of a pair against the privacy blanket: the mass of what is not revealed, rounded down."""
    with precision(BITS):
        total = sum((c.hiding for c in blanket.classes() if not (c.first.is_zero() and c.second.is_zero())), arb(0))
        return min(1.0, round_down(total))


def worst_kinds(families: Sequence[Others], most: int = 2) -> list[HidingPair]:
    """The kinds with the largest spread of G, which, if all others are of it, hide worst in the limit."""
    spread = [(float(square), one, place) for one in families for place, square in enumerate(squares(one.view))]
    return [one.kind(place) for _, one, place in sorted(spread, key=lambda found: -found[0])[:most]]
