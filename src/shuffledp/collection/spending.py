"""What collections amount to together, from their recipes; curves that took long to compute are kept as dots."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from shuffledp.collection.chain import canonical
from shuffledp.collection.guarantee import Guarantee, Recipe, composed_epsilon, curve_of_entry, within_failure
from shuffledp.composition.dots import LEAST, Dots, DottedCurve, fingerprint
from shuffledp.composition.sequential import LEFT_AT_INFINITY
from shuffledp.privacy.curve import PrivacyCurve, Source
from shuffledp.version import __version__

LABEL = b"shuffledp ledger curve\0"


def key_of(recipe: Recipe) -> str:
    """The name of a recipe's dots as this version computes them."""
    told = canonical({"recipe": recipe.document(), "software": __version__})
    return hashlib.sha256(LABEL + told.encode()).hexdigest()


class Spending:
    """Composed ε, each answer computed once.

    ``stored`` looks up the bytes of dots by their keys. They are used only where their hash is the one that the chain
    vouches for; others are computed again.
    """

    def __init__(self, stored: Callable[[Collection[str]], Mapping[str, bytes]]) -> None:
        self._stored = stored
        self._curves: dict[Recipe, PrivacyCurve] = {}
        self._dotted: dict[Recipe, DottedCurve] = {}
        self._computed: dict[str, bytes] = {}
        self._answers: dict[tuple[frozenset[tuple[Recipe, int]], float], float] = {}

    def learn(self, guarantee: Guarantee) -> None:
        """Use the curve that a guarantee already has."""
        self._curves.setdefault(guarantee.recipe, guarantee.curve)

    def epsilon(self, recipes: Iterable[Recipe], delta: float, vouched: Mapping[str, str]) -> float:
        """ε of all these collections together at δ, each of them on the same people: an upper bound."""
        counts = Counter(within_failure(recipes, delta))
        question = frozenset(counts.items()), delta
        if question not in self._answers:
            self._answers[question] = self._composed(counts, delta, vouched)
        return self._answers[question]

    def prepare(self, recipes: Collection[Recipe], vouched: Mapping[str, str]) -> None:
        """Have the dots of all of these, so that whoever writes next stores them, and nobody computes them again.

        Rounds that are all alike need none.
        """
        if len(set(recipes)) > 1:
            self._dots_by_recipe(recipes, vouched)

    def computed(self, vouched: Mapping[str, str]) -> tuple[dict[str, str], dict[str, bytes]]:
        """Dots that had to be computed here: the hashes that are not vouched for yet, and the bytes of all."""
        hashes = {key: fingerprint(content) for key, content in self._computed.items()}
        return {key: found for key, found in hashes.items() if vouched.get(key) != found}, dict(self._computed)

    def kept(self) -> None:
        """What was computed is stored now."""
        self._computed.clear()

    def _composed(self, counts: Counter[Recipe], delta: float, vouched: Mapping[str, str]) -> float:
        # Rounds that are all alike are composed as their plan was, to the last digit; and very small δ need far tails.
        exact = len(counts) <= 1 or delta * LEFT_AT_INFINITY < LEAST * counts.total()
        curve_of = self._curve if exact else self._dots_by_recipe(counts, vouched).__getitem__
        curves = {recipe: curve_of(recipe) for recipe in sorted(counts, key=key_of)}
        return composed_epsilon([curve for recipe, curve in curves.items() for _ in range(counts[recipe])], delta)

    def _curve(self, recipe: Recipe) -> PrivacyCurve:
        if recipe not in self._curves:
            self._curves[recipe] = _guaranteed(recipe)
        return self._curves[recipe]

    def _dots_by_recipe(self, recipes: Collection[Recipe], vouched: Mapping[str, str]) -> Mapping[Recipe, DottedCurve]:
        missing = {key_of(recipe): recipe for recipe in recipes if recipe not in self._dotted}
        stored = self._stored([key for key in missing if key in vouched])
        for key, recipe in missing.items():
            content = stored.get(key)
            if content is None or fingerprint(content) != vouched[key]:
                # From a curve of its own: what was asked of another one before must not change a bit.
                content = self._computed[key] = Dots.of(_guaranteed(recipe)).content()
            source = Source(recipe.bound, "connected dots", recipe.users, guarantee=True)
            self._dotted[recipe] = DottedCurve(source, Dots.read(content))
        return self._dotted


def _guaranteed(recipe: Recipe) -> PrivacyCurve:
    curve = curve_of_entry(recipe)
    if not curve.guarantee:
        raise ValueError(f"ledger: the bound {recipe.bound} is no guarantee, so that nothing can be added to it.")
    return curve
