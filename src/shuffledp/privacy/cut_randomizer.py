"""What is left of a randomizer where messages that hide too badly are cut off user 1's law."""

from __future__ import annotations

from abc import abstractmethod

from shuffledp.privacy.randomizer import Randomizer


class CutRandomizer(Randomizer):
    """A randomizer where user 1's law, as the first of a pair, was cut: what is left is bounded as any other.

    Theorem: with P ≤ P' + E and g = P − e^ε·Q ≤ g' + E, the total of (g ∗ others)_+ is at most that of (g' ∗ others)_+
    and the mass of E, whoever the others are. Every proof about g' that needs only sums and mixtures of signed measures
    holds as it does for g: the blanket and the absent user, but not reductions to parameters.
    """

    @abstractmethod
    def lost(self, epsilon: float) -> float:
        """What is added to δ at ε, rounded up: it does not fall with ε."""
