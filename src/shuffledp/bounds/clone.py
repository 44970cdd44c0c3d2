"""Bounds that know only that the randomizer is ε0-LDP."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp.bounds.bound import Bound, need
from shuffledp.bounds.reduction import numeric_curve
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import above
from shuffledp.privacy.curve import ClosedFormCurve, NumericCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import SNAP, VariationRatio


def local_ratio(bound: Bound, randomizer: Randomizer) -> float:
    """e^ε0: the largest ratio between any two users' output laws."""
    ratio = bound.parameters_of(randomizer).largest_ratio
    if math.isinf(ratio):
        raise NotApplicable(bound.name, "needs a finite local ratio, got p = inf.")
    return ratio


class StrongerCloneBound(Bound):
    """Stronger clones: any ε0-LDP randomizer, evaluated numerically exactly.

    Theorem: [FMT23] stronger clones, in the engine p = q = e^ε0 at the largest β.
    Requires: e^ε0 = max(p, q0, q1, q_common) finite.
    Returns: a certified upper bound with its numerical slack.
    Deviates: nothing; never below the variation-ratio bound, because that grows with p, β and q.
    """

    name = "stronger-clone"
    theorem = "stronger clones [FMT23]"
    summary = "any ε0-LDP randomizer; knows nothing else of it"
    never_better_than = "variation-ratio"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> NumericCurve:
        ratio = local_ratio(self, randomizer)
        return numeric_curve(self, VariationRatio(p=ratio, beta=(ratio - 1.0) / (ratio + 1.0), q=ratio), users)


class CloneBound(Bound):
    """Clones: any ε0-LDP randomizer, the first version of the argument, evaluated numerically exactly.

    Theorem: [FMT21] Theorem 3.2: a clone appears with probability e^-ε0; in the engine q = 2p²/(p+1).
    Requires: e^ε0 = max(p, q0, q1, q_common) finite.
    Returns: a certified upper bound with its numerical slack; never below the stronger clones'.
    """

    name = "clone"
    theorem = "clones [FMT21]"
    summary = "any ε0-LDP randomizer, the older argument"
    never_better_than = "stronger-clone"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> NumericCurve:
        ratio = local_ratio(self, randomizer)
        hiding = above(2 * Fraction(ratio) ** 2 / (Fraction(ratio) + 1))
        if math.isinf(hiding):
            raise NotApplicable(self.name, f"needs 2p²/(p+1) in the range of floats, got p = {ratio:g}.")
        return numeric_curve(self, VariationRatio(p=ratio, beta=(ratio - 1.0) / (ratio + 1.0), q=hiding), users)


@dataclass(frozen=True)
class _LocalFormula:
    """ε(δ) of a closed form at e^ε0 = ``ratio``."""

    bound: _LocalClosedForm
    ratio: float
    users: int

    def __call__(self, delta: arb) -> arb:
        return self.bound.formula(arb(self.ratio), self.users, delta)


class _LocalClosedForm(Bound):
    """A closed form of e^ε0, n and δ alone."""

    @abstractmethod
    def formula(self, ratio: arb, users: int, delta: arb) -> arb:
        """ε(δ) as a ball, or NotApplicable."""

    def curve(self, randomizer: Randomizer, users: int) -> ClosedFormCurve:
        ratio = local_ratio(self, randomizer)
        largest = VariationRatio(p=ratio, beta=0.0, q=ratio).largest_log_ratio()
        return ClosedFormCurve(self.source(users), _LocalFormula(self, ratio, users), largest)


class StrongerCloneAnalyticBound(_LocalClosedForm):
    """The closed form of the stronger clones.

    Theorem: [FMT23] Theorem 3.1 closed form: log(1 + (e^ε0−1)(4√(2·log(4/δ)/((e^ε0+1)n)) + 4/n)).
    Requires: ε0 ≤ log(n/(8·log(2/δ)) − 1).
    Returns: a certified upper bound.
    """

    name = "stronger-clone-analytic"
    theorem = "stronger clones, closed form [FMT23]"
    summary = "any ε0-LDP randomizer; closed form"
    never_better_than = "stronger-clone"
    guarantees = True

    def formula(self, ratio: arb, users: int, delta: arb) -> arb:
        most = users / (8 * (2 / delta).log()) - 1
        need(self.name, ratio <= most, "e^ε0 ≤ n/(8·log(2/δ)) − 1", ratio, most)
        root = (2 * (4 / delta).log() / ((ratio + 1) * users)).sqrt()
        return (1 + (ratio - 1) * (4 * root + arb(4) / users)).log()


class CloneAnalyticBound(_LocalClosedForm):
    """The closed form of the clones.

    Theorem: [FMT21] Theorem 3.1: log(1 + ((e^ε0−1)/(e^ε0+1))(8√(e^ε0·log(4/δ)/n) + 8e^ε0/n)).
    Requires: ε0 ≤ log(n/(16·log(2/δ))).
    Returns: a certified upper bound.
    """

    name = "clone-analytic"
    theorem = "clones, closed form [FMT21]"
    summary = "any ε0-LDP randomizer, the older argument; closed form"
    never_better_than = "clone"
    guarantees = True

    def formula(self, ratio: arb, users: int, delta: arb) -> arb:
        most = users / (16 * (2 / delta).log())
        need(self.name, ratio <= most, "e^ε0 ≤ n/(16·log(2/δ))", ratio, most)
        root = (ratio * (4 / delta).log() / users).sqrt()
        return (1 + (ratio - 1) / (ratio + 1) * (8 * root + 8 * ratio / users)).log()


class Efmrtt19Bound(_LocalClosedForm):
    """Amplification by shuffling, the first analysis.

    Theorem: Erlingsson et al. 2019: ε = 12·ε0·√(log(1/δ)/n).
    Requires: ε0 ≤ ½, n ≥ 1000, δ ≤ 0.01.
    Returns: a certified upper bound; far from tight.
    """

    name = "efmrtt19"
    theorem = "Erlingsson et al. 2019"
    summary = "the first closed form; small ε0 only"
    never_better_than = "clone"
    guarantees = True

    def formula(self, ratio: arb, users: int, delta: arb) -> arb:
        local = ratio.log()
        # e^½ is rounded up on its way here; the value is far above the clones' there, so a hair is no harm.
        need(self.name, local <= arb(0.5) * (1 + arb(SNAP)), "ε0 ≤ 1/2", local, arb(1) / 2)
        need(self.name, users >= 1000, "n ≥ 1000", arb(users), arb(1000))
        need(self.name, delta <= arb(0.01), "δ ≤ 0.01", delta, arb(0.01))
        return 12 * local * (-delta.log() / users).sqrt()
