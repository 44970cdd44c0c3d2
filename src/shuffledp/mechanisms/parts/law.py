"""The law of a mechanism's message: what a bound needs to know of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction

from shuffledp.privacy.mixed_others import MixedOthers
from shuffledp.privacy.others import Others
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio


class Law(ABC):
    """The output laws of all inputs, as far as privacy is concerned: likelihood ratios, blanket, attacks."""

    tight: bool = False
    """Whether some pair of inputs attains β and the blanket; otherwise they are proved upper bounds."""
    covers_mixtures: bool = False
    """Whether every pair of inputs, equal ones included, has a G below that of one of ``blankets()`` in convex order,
    so that the worst case of a mixture of randomizers can be put together from these.

    It is set where every law is the blanket times 1 or a constant c. Then an input x that stays is below its change
    from any other x': G grows by b − a with mean 0, where a = c it does not grow (b ≤ c), where a = 1 it does not fall
    (b ≥ 1), and the former is the smaller value of (1 − e^ε)·a.
    """

    why_no_attack: str = ""
    """Where no dataset is known whose law is exact: why, in half a sentence."""

    @abstractmethod
    def variation_ratio(self) -> VariationRatio:
        """Upper bounds of the ratio, the total variation and the ratios to the others, of the executed law."""

    @abstractmethod
    def blankets(self) -> Sequence[HidingPair]:
        """For each kind of input pair that may be the worst one: its pair against the privacy blanket."""

    @abstractmethod
    def attacks(self) -> Sequence[HidingPair]:
        """The exact pairs of some constructed datasets; empty where none is known."""

    def others(self) -> Sequence[Others]:
        """For each kind of input pair that may be the worst one: every law that another user's message may have.

        Empty where these are not known.
        """
        return ()

    def among(self, hiders: Sequence[Law]) -> Sequence[MixedOthers]:
        """For each kind of input pair that may be the worst one: every law that a message of each of these may have.

        Empty where they have messages of other kinds, or it is not known.
        """
        return ()

    def of_nothing(self) -> Law | None:
        """The law of whoever sends the same messages and holds nothing; None where nobody says what these are."""
        return None

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        """Where there are only two messages: the least and the largest probability of one of them, over all inputs."""
        return None
