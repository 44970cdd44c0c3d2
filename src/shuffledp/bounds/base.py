"""The abstract class of bounds: a bound is one theorem on privacy amplification by shuffling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import ClassVar

from flint import arb

from shuffledp._core.errors import NotApplicable
from shuffledp.privacy.curve import CurveSource, PrivacyCurve
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio


class EvaluationCost(IntEnum):
    """The order in which ``best`` tries bounds; earlier results may make later bounds unnecessary."""

    CHEAP = 0
    MODERATE = 1
    EXPENSIVE = 2
    """Takes seconds rather than milliseconds; ``effort="quick"`` leaves it out."""


class Bound(ABC):
    """A theorem that turns the properties of a randomizer into a privacy curve of its shuffled messages.

    A subclass sets ``name`` (used as ``bound=``), ``theorem`` (the citation), ``summary`` and, if every curve it
    returns is a guarantee, ``guarantees = True``; it implements ``curve``. The bounds of the package are listed in
    ``shuffledp.bounds.BOUNDS``, and ``best`` uses no others. A bound of your own is passed explicitly:
    ``amplify(randomizer, users, bound=[MyBound()])``.
    """

    name: ClassVar[str]
    theorem: ClassVar[str]
    summary: ClassVar[str]
    guarantees: ClassVar[bool] = False
    """True if every curve of this bound is a guarantee; ``best`` uses no other bounds."""
    slow: ClassVar[bool] = False
    """True if the bound usually takes seconds rather than milliseconds; ``evaluation_cost`` answers for one
    randomizer."""
    never_better_than: ClassVar[str | None] = None
    """Name of a bound that is provably at least as tight wherever this one applies; ``best`` then skips this one."""

    @abstractmethod
    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        """Returns the privacy curve of shuffled messages.

        Args:
            randomizer: The randomizer that every user runs.
            users: Number of messages that hide each other.

        Returns:
            An upper bound of δ(ε).

        Raises:
            NotApplicable: If the theorem does not cover this randomizer or this number of messages; the message says
                why.
        """

    def evaluation_cost(self, randomizer: Randomizer, users: int) -> EvaluationCost:
        """Returns when ``best`` should try the bound.

        Args:
            randomizer: The randomizer that every user runs.
            users: Number of messages that hide each other.

        Returns:
            The position in the order of evaluation; by default it follows from ``slow``.
        """
        return EvaluationCost.EXPENSIVE if self.slow else EvaluationCost.CHEAP

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def parameters_of(self, randomizer: Randomizer) -> VariationRatio:
        """Returns the variation-ratio parameters that the bound uses.

        Args:
            randomizer: The randomizer that every user runs.

        Returns:
            The randomizer's own parameters, unless a subclass replaces them by weaker ones.
        """
        return randomizer.variation_ratio()

    def source(self, users: int, *, guarantee: bool | None = None, note: str = "") -> CurveSource:
        """Returns the provenance of a curve of this bound.

        Args:
            users: Number of messages that hide each other.
            guarantee: True if this curve is a guarantee; None takes the class's ``guarantees``.
            note: A remark that is shown with every value.

        Returns:
            The record to build a ``PrivacyCurve`` with.
        """
        return CurveSource(self.name, self.theorem, users, self.guarantees if guarantee is None else guarantee, note)


def require_inequality(bound: str, holds: object, inequality: str, left: arb, right: arb) -> None:
    """Raises NotApplicable with both numbers unless the inequality certainly holds."""
    if not holds:
        raise NotApplicable(bound, f"needs {inequality}, got {float(left):.6g} against {float(right):.6g}.")
