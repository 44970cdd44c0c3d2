"""What a bound is, and the register of all of them."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from flint import arb

import shuffledp.bounds
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import PrivacyCurve, Source
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio


class Bound(ABC):
    """One theorem that turns what an object offers into a privacy curve of its shuffled output."""

    name: ClassVar[str]
    theorem: ClassVar[str]
    summary: ClassVar[str]
    never_better_than: ClassVar[str | None] = None
    """A bound that is provably at least as tight wherever this one applies; ``best`` then skips this one."""

    @abstractmethod
    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        """The curve for ``users`` shuffled messages; raises NotApplicable with the reason where it does not apply."""

    def always_guarantees(self) -> bool:
        """Whether every curve of this bound is a guarantee, so that ``best`` may use it."""
        return True

    def parameters_of(self, randomizer: Randomizer) -> VariationRatio:
        return randomizer.variation_ratio()

    def source(self, users: int, *, guarantee: bool = True, note: str = "") -> Source:
        return Source(self.name, self.theorem, users, guarantee, note)


def need(bound: str, holds: object, inequality: str, left: arb, right: arb) -> None:
    """Refuse by name unless the inequality certainly holds."""
    if not holds:
        raise NotApplicable(bound, f"needs {inequality}, got {float(left):.6g} against {float(right):.6g}.")


def all_bounds() -> dict[str, Bound]:
    """Every bound of the package by name: a new file with a new class is found by itself."""
    for module in pkgutil.iter_modules(shuffledp.bounds.__path__):
        importlib.import_module(f"shuffledp.bounds.{module.name}")
    found = sorted((kind() for kind in _final_kinds(Bound)), key=lambda bound: bound.name)
    return {bound.name: bound for bound in found}


def _final_kinds(kind: Any) -> Iterator[Callable[[], Bound]]:
    for child in kind.__subclasses__():
        if not child.__abstractmethods__:
            yield child
        yield from _final_kinds(child)
