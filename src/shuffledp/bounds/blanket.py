"""Bounds from the privacy blanket: numerically exact, and by the published tail bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from flint import arb

from shuffledp._core.errors import NotApplicable
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp.bounds.base import Bound
from shuffledp.bounds.clones import local_ratio
from shuffledp.bounds.tail_truncation import has_tails, tail_curve
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.curve import (
    FORMULA_BITS,
    MAX_EPSILON,
    ClosedFormDeltaCurve,
    NumericCurve,
    PrivacyCurve,
)
from shuffledp.privacy.dominating_pairs import ConstantPair, HidingPair
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio

# --- Blanket bounds ---


SLOPE_STEP = 1e-6
"""Relative step in ε that decides whether a formula falls or rises."""


def directed_blanket_pairs(bound: Bound, randomizer: Randomizer) -> list[HidingPair]:
    """Returns every blanket pair, in both directions unless it is symmetric."""
    pairs = randomizer.blankets()
    if not pairs:
        raise NotApplicable(bound.name, f"{type(randomizer).__name__} gives no blanket, only parameters.")
    result: list[HidingPair] = []
    for pair in pairs:
        result += [pair] if pair.symmetric else [pair, pair.swapped()]
    return result


class OptimalBound(Bound):
    """The privacy blanket evaluated numerically exactly: the best that any decomposition of this kind can give.

    Theorem: [PB] Lemma 5.3 with [SCW25]: among all decompositions the blanket one is optimal.
    Requires: the randomizer's blanket.
    Returns: a certified upper bound, the largest over all kinds of input pairs, with its numerical slack.
    """

    name = "optimal"
    theorem = "privacy blanket [PB], numerically exact [SCW25]"
    summary = "the randomizer's own blanket, numerically exact"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        if not has_tails(randomizer):
            return self.untruncated_curve(randomizer, users)
        try:
            finite = self.untruncated_curve(randomizer, users)
        except NotApplicable:
            finite = None
        return tail_curve(self, randomizer, users, finite)

    def untruncated_curve(self, randomizer: Randomizer, users: int) -> NumericCurve:
        """Returns the curve without truncation of tails."""
        pairs = directed_blanket_pairs(self, randomizer)
        largest = max(pair.largest_log_ratio() for pair in pairs)
        return NumericCurve(self.source(users), tuple(map(ConstantPair, pairs)), largest, has_fixed_pairs=True)


@dataclass(frozen=True)
class _Moments:
    """Moments of G under the normalised blanket that the tail bounds use: its mass γ, range b, maximum b₊, E[G²] ≤ c.

    ``drift`` is a = −E[G]. It is e^ε − 1 unless the classes are bounds of laws, which sum to more and to less than 1.
    """

    gamma: arb
    spread: arb
    top: arb
    square: arb
    drift: arb

    @classmethod
    def generic(cls, local: arb, ratio: arb) -> _Moments:
        """Returns the moments of any randomizer with e^ε0 = local: γ = e^-ε0.

        The constants are a little tighter than the published ones.
        """
        square = local * (ratio * ratio + 1) - 2 * ratio
        return cls(1 / local, (ratio + 1) * (local - 1), local - ratio, square, ratio - 1)

    @classmethod
    def published(cls, local: arb, ratio: arb) -> _Moments:
        """Returns the published moments of any randomizer with e^ε0 = local."""
        return cls(
            1 / local,
            (ratio + 1) * (local - 1 / local),
            local - ratio / local,
            local * (ratio * ratio + 1) - 2 * ratio / local**3,
            ratio - 1,
        )

    @classmethod
    def from_pair(cls, pair: HidingPair, ratio: arb) -> _Moments:
        """Returns the exact moments of one pair against its blanket."""
        classes = [c for c in pair.classes() if not (c.first.is_zero() and c.second.is_zero())]
        gamma = sum((c.hiding for c in classes), arb(0))
        values = [(gamma * (c.first - ratio * c.second) / c.hiding, c.hiding / gamma) for c in classes]
        top, bottom = values[0][0], values[0][0]
        for value, _ in values:
            top, bottom = top.max(value), bottom.min(value)
        square = sum((value * value * weight for value, weight in values), arb(0))
        drift = sum((ratio * c.second - c.first for c in classes), arb(0))
        return cls(gamma, top - bottom, top, square, drift)


@dataclass(frozen=True)
class _PairMoments:
    """The exact moments of a pair, at any e^ε; ``largest_epsilon`` is an ε at which its δ is 0."""

    pair: HidingPair
    largest_epsilon: float

    def __call__(self, ratio: arb) -> _Moments:
        return _Moments.from_pair(self.pair, ratio)


@dataclass(frozen=True)
class _GenericMoments:
    """Moments that hold for every randomizer with e^ε0 = ``local``, at any e^ε; ``largest_epsilon`` is ε0."""

    local: float
    published: bool
    largest_epsilon: float

    def __call__(self, ratio: arb) -> _Moments:
        make = _Moments.published if self.published else _Moments.generic
        return make(arb(self.local), ratio)


@dataclass(frozen=True)
class _TailFormula(ValueObject):
    """δ(ε) of a tail bound: the worst over all moments.

    The δ of each falls to a minimum and may rise from there, where the inequality is loose, until it is 0 at its
    largest ε. The divergence that it bounds never rises with ε: where the formula does, its minimum is a bound too.
    """

    bound: _TailBound
    moments: tuple[_PairMoments | _GenericMoments, ...]
    users: int

    def __call__(self, epsilon: arb) -> arb:
        worst = arb(0)
        for moments, minimum_epsilon in zip(self.moments, self._minimum_epsilons, strict=True):
            here = moments(epsilon.exp())
            if not here.drift > 0:
                return arb(1)
            if not here.top <= 0:
                least = here if epsilon <= minimum_epsilon else moments(arb(minimum_epsilon).exp())
                worst = worst.max(self.bound.delta(least if least.drift > 0 else here, self.users))
        return worst

    @cached_property
    def _minimum_epsilons(self) -> tuple[float, ...]:
        """Lower bounds of the ε where each δ is least; a wrong one is harmless because δ at a smaller ε is larger."""
        with precision(FORMULA_BITS):
            return tuple(self._find_minimum_epsilon(moments) for moments in self.moments)

    def _find_minimum_epsilon(self, moments: _PairMoments | _GenericMoments) -> float:
        """Returns the ε where δ is least; infinity if δ still falls just before the largest ε."""
        last = min(moments.largest_epsilon, MAX_EPSILON) / (1 + 2 * SLOPE_STEP)
        if self._log_delta_growth(moments, last) <= 0:
            return math.inf
        # If δ falls nowhere, no smaller ε has a smaller value.
        return find_crossing(partial(self._log_delta_growth, moments), 0.0, last, relative=SLOPE_STEP).below or math.inf

    def _log_delta_growth(self, moments: _PairMoments | _GenericMoments, epsilon: float) -> float:
        """Returns the growth of log δ over a short step."""
        here, there = (moments(arb(x).exp()) for x in (epsilon, epsilon * (1 + SLOPE_STEP)))
        if not (here.drift > 0 and here.top > 0 and there.top > 0):
            return 0.0
        before, after = (self.bound.delta(each, self.users) for each in (here, there))
        growth = (after / before).log()
        return float(growth) if growth.is_finite() else 0.0


class _TailBound(Bound):
    """δ(ε) from a concentration inequality for the sum of the G's."""

    never_better_than = "optimal"
    is_generic: ClassVar[bool] = False
    """True if it knows only the largest ratio and uses the published moments."""

    @abstractmethod
    def delta(self, moments: _Moments, users: int) -> arb:
        """Returns δ as a ball, for a positive drift."""

    def moments(self, randomizer: Randomizer) -> tuple[_PairMoments | _GenericMoments, ...]:
        """Returns the moments of G at e^ε, for each kind of input pair."""
        if self.is_generic or not randomizer.blankets():
            # The largest ratio alone determines moments that hold for every randomizer.
            local = local_ratio(self, randomizer)
            largest = VariationRatio(p=local, beta=0.0, q=local).largest_log_ratio()
            return (_GenericMoments(local, self.is_generic, largest),)
        return tuple(_PairMoments(pair, pair.largest_log_ratio()) for pair in directed_blanket_pairs(self, randomizer))

    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        moments = self.moments(randomizer)
        largest = max(each.largest_epsilon for each in moments)
        return ClosedFormDeltaCurve(self.source(users), _TailFormula(self, moments, users), largest)


class BlanketHoeffdingBound(_TailBound):
    """The blanket with Hoeffding's inequality.

    Theorem: [PB] Lemma 5.3 with Hoeffding: δ = b²/(4aγn)·(1 − γ(1 − e^(−2a²/b²)))ⁿ, a = e^ε − 1.
    Requires: a blanket, or e^ε0 = max(p, q0, q1, q_common) finite (then γ = e^-ε0 and generic constants).
    Returns: a certified upper bound.
    Deviates: where the formula rises with ε, its least value before.
    """

    name = "blanket-hoeffding"
    theorem = "privacy blanket with Hoeffding's inequality [PB]"
    summary = "closed form for any blanket; loose"
    guarantees = True

    def delta(self, moments: _Moments, users: int) -> arb:
        square, drift = moments.spread * moments.spread, moments.drift
        decay = 1 - moments.gamma * (1 - (-2 * drift * drift / square).exp())
        return square / (4 * drift * moments.gamma * users) * decay**users


class BlanketBennettBound(_TailBound):
    """The blanket with Bennett's inequality.

    Theorem: [PB] Lemma 5.3 with Bennett: δ = b₊/(γn·log(1+u))·[(1 − γ(1 − e^−κ))ⁿ − (1−γ)ⁿ], u = a·b₊/c,
    κ = (c/b₊²)·((1+u)·log(1+u) − u).
    Requires: a blanket, or e^ε0 = max(p, q0, q1, q_common) finite (then γ = e^-ε0 and generic constants).
    Returns: a certified upper bound.
    Deviates: where the formula rises with ε, its least value before.
    """

    name = "blanket-bennett"
    theorem = "privacy blanket with Bennett's inequality [PB]"
    summary = "closed form for any blanket; sharper than Hoeffding for large ε0"
    guarantees = True

    def delta(self, moments: _Moments, users: int) -> arb:
        u = moments.drift * moments.top / moments.square
        log = u.log1p()
        kappa = moments.square / (moments.top * moments.top) * ((1 + u) * log - u)
        decay = 1 - moments.gamma * (1 - (-kappa).exp())
        left = decay**users - (1 - moments.gamma) ** users
        return moments.top / (moments.gamma * users * log) * left


class GenericHoeffdingBound(BlanketHoeffdingBound):
    """The generic blanket with Hoeffding's inequality, as published.

    Theorem: [PB] Theorem 3.1 with Hoeffding: γ = e^-ε0, b = (e^ε+1)(e^ε0 − e^-ε0).
    Requires: e^ε0 = max(p, q0, q1, q_common) finite.
    Returns: a certified upper bound.
    Deviates: where the formula rises with ε, its least value before.
    """

    name = "blanket-hoeffding-generic"
    theorem = "generic privacy blanket with Hoeffding's inequality, as published [PB]"
    summary = "any ε0-LDP randomizer; closed form"
    guarantees = True
    is_generic = True


class GenericBennettBound(BlanketBennettBound):
    """The generic blanket with Bennett's inequality, as published.

    Theorem: [PB] Theorem 3.1 with Bennett: γ = e^-ε0, b₊ = e^ε0(1 − e^(ε−2ε0)), c = e^ε0(e^2ε+1) − 2e^(ε−3ε0).
    Requires: e^ε0 = max(p, q0, q1, q_common) finite.
    Returns: a certified upper bound.
    Deviates: where the formula rises with ε, its least value before.
    """

    name = "blanket-bennett-generic"
    theorem = "generic privacy blanket with Bennett's inequality, as published [PB]"
    summary = "any ε0-LDP randomizer; closed form"
    guarantees = True
    is_generic = True
