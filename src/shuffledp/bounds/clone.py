"""Bounds that know only that the randomizer is ε0-LDP."""

from __future__ import annotations

import math

from shuffledp.bounds.bound import Bound
from shuffledp.bounds.variation_ratio import numeric_curve
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import NumericCurve
from shuffledp.privacy.variation_ratio import VariationRatio


class StrongerCloneBound(Bound):
    """Stronger clones: any ε0-LDP randomizer, evaluated numerically exactly.

    Theorem: [FMT23] stronger clones, in the engine p = q = e^ε0 at the largest β.
    Requires: e^ε0 = max(p, q0, q1) finite.
    Returns: a certified upper bound with its numerical slack.
    Deviates: nothing; never below the variation-ratio bound, because the sound pair is itself ε0-LDP.
    """

    name = "stronger-clone"
    theorem = "stronger clones [FMT23]"
    summary = "any ε0-LDP randomizer; knows nothing else of it"
    never_better_than = "variation-ratio"

    def curve(self, randomizer: object, users: int) -> NumericCurve:
        parameters = self.parameters_of(randomizer)
        if math.isinf(parameters.p):
            raise NotApplicable(self.name, "needs a finite local ratio, got p = inf.")
        ratio = max(parameters.p, *parameters.q_pair)
        worst = VariationRatio(p=ratio, beta=(ratio - 1.0) / (ratio + 1.0), q=ratio)
        return numeric_curve(self, worst, users)
