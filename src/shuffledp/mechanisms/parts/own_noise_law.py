"""A protocol whose noise has a law of its own: no single message hides a value, all of the noise together does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.parts.law import Law
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio


@dataclass(frozen=True)
class OwnNoiseLaw(Law):
    """Nothing to tell of one message: bounds that look at messages one by one do not apply."""

    who: str

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable("variation-ratio", f"{self.who} hides values by the noise of all users together.")

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()
