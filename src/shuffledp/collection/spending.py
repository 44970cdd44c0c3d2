"""What collections amount to together, from their recipes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shuffledp.collection.guarantee import Guarantee, Recipe, composed_epsilon
from shuffledp.privacy.curve import PrivacyCurve


class Spending:
    """Composed ε, each answer computed once."""

    def __init__(self) -> None:
        self._curves: dict[Recipe, PrivacyCurve] = {}
        self._answers: dict[tuple[frozenset[tuple[Recipe, int]], float], float] = {}

    def learn(self, guarantee: Guarantee) -> None:
        """Use the curve that a guarantee already has."""
        self._curves.setdefault(guarantee.recipe, guarantee.curve)

    def epsilon(self, recipes: Iterable[Recipe], delta: float) -> float:
        """ε of all these collections together at δ, each of them on the same people: an upper bound."""
        counts = Counter(recipes)
        question = frozenset(counts.items()), delta
        if question not in self._answers:
            self._answers[question] = self._composed(counts, delta)
        return self._answers[question]

    def _composed(self, counts: Counter[Recipe], delta: float) -> float:
        for recipe in counts:
            if recipe not in self._curves:
                self._curves[recipe] = recipe.curve()
        ordered = sorted(counts, key=repr)
        return composed_epsilon([self._curves[recipe] for recipe in ordered for _ in range(counts[recipe])], delta)
