"""Laws whose worst pairs of inputs are known and written down, with their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shuffledp.mechanisms.parts.law import Law
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio


@dataclass(frozen=True)
class PairLaw(Law):
    """``parameters`` hold for every pair of inputs.

    ``hidden``: the pairs against the blanket; ``attacked``: those of constructed datasets.
    """

    parameters: VariationRatio
    hidden: tuple[HidingPair, ...]
    attacked: tuple[HidingPair, ...] = ()
    tight: bool = False
    covers_mixtures: bool = False
    why_no_attack: str = ""

    def variation_ratio(self) -> VariationRatio:
        return self.parameters

    def blankets(self) -> Sequence[HidingPair]:
        return self.hidden

    def attacks(self) -> Sequence[HidingPair]:
        return self.attacked
