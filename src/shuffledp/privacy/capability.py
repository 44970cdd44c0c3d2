"""What an object may offer to a bound. Bounds ask for these, never for a class or a name."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from shuffledp.privacy.variation_ratio import VariationRatio


@runtime_checkable
class GivesVariationRatio(Protocol):
    """Knows its (p, β)-variation and q-ratio, each for every pair of inputs and every other user."""

    def variation_ratio(self) -> VariationRatio: ...
