"""What the others may send: all laws of a third user's message, for one pair of inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.errors import NumericalError
from shuffledp.numerics.ball import precision, round_down
from shuffledp.numerics.finite_law import FiniteLaw
from shuffledp.numerics.many_crowds import FloatView, squares
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.record import Record

BITS, VIEW_BITS = 192, 60
"""Of the balls that floats are made from: how they are computed, and how many must be certain."""


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

    def likely_laws(self, epsilon: float) -> list[FiniteLaw]:
        """About the same, for estimates, where ``laws`` takes long to prove that it is all."""
        return self.laws(epsilon)

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
            if not all(_is_told(chance) for kind in classes for each in kind for chance in each):
                raise NumericalError("Others: some probability is not known to 60 binary digits; please report.")
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


def _is_told(chance: arb) -> bool:
    """Whether a float has it to the digits that ``FloatView`` asks for."""
    return bool(chance.is_zero() or chance.rel_accuracy_bits() > VIEW_BITS)


def shared_part(blanket: HidingPair) -> float:
    """γ of a pair against the privacy blanket: the mass of what is not revealed, rounded down."""
    with precision(BITS):
        total = sum((c.hiding for c in blanket.classes() if not (c.first.is_zero() and c.second.is_zero())), arb(0))
        return min(1.0, round_down(total))


def worst_kinds(families: Sequence[Others], most: int = 2) -> list[HidingPair]:
    """The kinds with the largest spread of G, which, if all others are of it, hide worst in the limit."""
    spread = [(float(square), one, place) for one in families for place, square in enumerate(squares(one.view))]
    return [one.kind(place) for _, one, place in sorted(spread, key=lambda found: -found[0])[:most]]
