"""Variation-ratio bounds: the sound reduction, and the published one for reproduction."""

from __future__ import annotations

from shuffledp.bounds.bound import Bound
from shuffledp.privacy.curve import NumericCurve
from shuffledp.privacy.pair import AtEvery
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import ReducedPairs, VariationRatio


def numeric_curve(bound: Bound, parameters: VariationRatio, users: int) -> NumericCurve:
    """The sound reduction's curve under a bound's name, both directions."""
    ways = (parameters,) if parameters.symmetric else (parameters, parameters.swapped())
    return NumericCurve(bound.source(users), tuple(map(ReducedPairs, ways)), parameters.largest_log_ratio())


class VariationRatioBound(Bound):
    """The sound variation-ratio bound, evaluated numerically exactly.

    Theorem: sound reduction [VR §4, corrected]: user 1 adds one to a, b or c₂ with probabilities (pα, α, γ) or
    (α, pα, γ), each other user adds one with (r0, r1, γ/q_common); the rest is revealed.
    Requires: what VariationRatio checks.
    Returns: a certified upper bound of δ(ε) and of ε(δ) with its numerical slack.
    Deviates: [VR] Theorem 4.2 is not an upper bound when γ > 0 (docs/errata.md, VR-1).
    """

    name = "variation-ratio"
    theorem = "sound variation-ratio reduction [VR §4, corrected]"
    summary = "sound for any randomizer with ratio p, total variation β and ratio q to the others"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> NumericCurve:
        return numeric_curve(self, self.parameters_of(randomizer), users)


class PublishedVariationRatioBound(Bound):
    """The published variation-ratio pair, for reproducing the paper's tables.

    Theorem: [VR] Theorem 4.2.
    Requires: what VariationRatio checks.
    Returns: the published value, numerically exact; an upper bound of the privacy loss only where γ = 0.
    Deviates: computed as printed, but flagged: ``guarantee`` is False where γ > 0 or may be (docs/errata.md, VR-1).
    """

    name = "variation-ratio-published"
    theorem = "[VR] Theorem 4.2 as published"
    summary = "as published, for reproduction: not an upper bound when γ > 0"

    def curve(self, randomizer: Randomizer, users: int) -> NumericCurve:
        parameters = self.parameters_of(randomizer)
        sound = parameters.nothing_in_common
        note = "" if sound else "Not a privacy guarantee: the published theorem is not an upper bound when γ > 0."
        pair = parameters.published_pair()
        pairs = (pair,) if pair.symmetric else (pair, pair.swapped())
        source = self.source(users, guarantee=sound, note=note)
        return NumericCurve(source, tuple(map(AtEvery, pairs)), parameters.largest_log_ratio())
