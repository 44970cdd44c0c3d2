"""Bounds from the privacy blanket: numerically exact, and by the published tail bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from flint import arb

from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Floats
from shuffledp.bounds.base import Bound
from shuffledp.bounds.clones import local_ratio
from shuffledp.numerics.intervals import float_above, float_below, precision
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.curve import (
    FORMULA_BITS,
    MAX_EPSILON,
    BoundValue,
    ClosedFormDeltaCurve,
    NumericCurve,
    PrivacyCurve,
)
from shuffledp.privacy.dominating_pairs import ConstantPair, HidingPair
from shuffledp.privacy.randomizer import HasTails, Randomizer, TruncatedRandomizer, ValueObject
from shuffledp.privacy.variation_ratio import VariationRatio

# --- Truncation of tails ---


TRUNCATED_DELTA_SHARES = (0.03, 1e-3)
"""Share of δ planned for the truncated part; the second one if the first leaves a law without heavy tails."""
MAX_TAIL_FREE_SLACK = 1e-3
"""Relative numerical slack below which the rest counts as free of heavy tails."""
MIN_TRUNCATED_PROBABILITY = 1e-300
MAX_ITERATIONS = 8
NEGLIGIBLE_DELTA_SHARE = 2e-3
"""Share of δ below which a smaller truncation would hardly improve the bound."""
MIN_SHRINK_FACTOR = 1e-3
"""The truncated part shrinks at most by this factor at a time."""
MAX_EXCESS_FACTOR = 16.0
"""A truncated part larger than the requested one by more than this factor ends the search."""
PROFILE_TRUNCATIONS = (1e-4, 1e-7, 1e-11)
"""Truncated probabilities that are used where δ is needed at many ε."""
EPSILON_MARGIN = 1e-6


@dataclass(frozen=True)
class TruncatedTailCurve(PrivacyCurve):
    """The smallest, over several truncations, of a bound's δ for the rest plus the truncated probability."""

    inner_bound: Bound
    randomizer: Randomizer
    """A randomizer with tails."""
    untruncated_curve: PrivacyCurve | None
    """The curve without truncation, if there is one."""

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        """Returns the standard deviation with the second of ``PROFILE_TRUNCATIONS``.

        Beyond it a few messages would dominate.
        """
        truncation = self._truncate(PROFILE_TRUNCATIONS[1])
        return None if truncation is None else truncation[1].loss_deviation()

    @property
    def has_fast_profile(self) -> bool:
        truncation = self._truncate(PROFILE_TRUNCATIONS[1])
        return truncation is not None and truncation[1].has_fast_profile

    def may_beat(self, epsilon: float, delta: float) -> bool:
        truncation = self._truncate(delta * TRUNCATED_DELTA_SHARES[0]) if delta > 0 else None
        if truncation is None:
            return True
        cut, curve = truncation
        # At a smaller ε the truncated part costs less.
        return curve.may_beat(epsilon, max(delta - cut.truncation_delta(epsilon), delta / 2))

    @cached_property
    def _cached_truncations(self) -> dict[float, tuple[TruncatedRandomizer, PrivacyCurve] | None]:
        return {}

    def _truncate(self, share: float) -> tuple[TruncatedRandomizer, PrivacyCurve] | None:
        """Returns the truncated randomizer and its curve; None if so small a truncation is impossible."""
        share = max(share, MIN_TRUNCATED_PROBABILITY)
        if share not in self._cached_truncations:
            assert isinstance(self.randomizer, HasTails)
            cut = self.randomizer.truncate_tails(share)
            same = next((one for one in self._cached_truncations.values() if one is not None and one[0] == cut), None)
            self._cached_truncations[share] = same or (
                None if cut is None else (cut, self.inner_bound.curve(cut, self.messages))
            )
        return self._cached_truncations[share]

    def _epsilon(self, delta: float) -> BoundValue:
        values = [] if self.untruncated_curve is None else [self.untruncated_curve.epsilon(delta)]
        for share in TRUNCATED_DELTA_SHARES:
            truncation = self._truncate(share * delta)
            if truncation is None:
                break
            value = self._epsilon_with_truncation(*truncation, delta)
            values.append(value)
            if (
                not value.slack <= MAX_TAIL_FREE_SLACK * value.upper
                or truncation[0].truncation_delta(value.upper) <= NEGLIGIBLE_DELTA_SHARE * delta
            ):
                break
        best = min(values, key=float, default=None)
        return self._value(math.inf, math.inf) if best is None else self._value(best.upper, best.slack)

    def _epsilon_with_truncation(self, cut: TruncatedRandomizer, curve: PrivacyCurve, delta: float) -> BoundValue:
        """Returns the least ε at which rest and truncated part are within δ.

        It iterates upwards because the truncated part grows with ε.
        """
        epsilon = 0.0
        for _ in range(MAX_ITERATIONS):
            room = float_below(Fraction(delta) - Fraction(cut.truncation_delta(epsilon)))
            if not room > 0:
                return self._value(math.inf, math.inf)
            value = curve.epsilon(room)
            if value.upper <= epsilon:
                return self._value(epsilon, max(0.0, epsilon - (value.upper - value.slack)))
            if cut.truncation_delta(value.upper) == cut.truncation_delta(epsilon):
                return value
            epsilon = value.upper * (1 + EPSILON_MARGIN)
        return self._value(math.inf, math.inf)

    def _delta(self, epsilon: float) -> BoundValue:
        """Truncates less and less until the truncated part is a little below δ, as estimated from the rest."""
        values = [] if self.untruncated_curve is None else [self.untruncated_curve.delta(epsilon)]
        share = PROFILE_TRUNCATIONS[0]
        for iteration in range(MAX_ITERATIONS):
            truncation = self._truncate(share)
            if truncation is None:
                break
            cut, curve = truncation
            value, truncated = curve.delta(epsilon), cut.truncation_delta(epsilon)
            upper = min(1.0, float_above(Fraction(value.upper) + Fraction(truncated)))
            values.append(self._value(upper, min(upper, float_above(Fraction(value.slack) + Fraction(truncated)))))
            if truncated <= NEGLIGIBLE_DELTA_SHARE * upper or truncated > MAX_EXCESS_FACTOR * share:
                break
            if iteration == 0:
                share = max(TRUNCATED_DELTA_SHARES[0] * min(share, value.upper), MIN_SHRINK_FACTOR * share)
            elif iteration == 1:
                # The same truncation that ``_epsilon`` uses for this δ.
                share = TRUNCATED_DELTA_SHARES[0] * upper
            elif value.slack <= MAX_TAIL_FREE_SLACK * value.upper:
                share *= TRUNCATED_DELTA_SHARES[0]
            else:
                break
        best = min(values, key=float, default=None)
        return self._value(1.0, 1.0) if best is None else self._value(best.upper, best.slack)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = np.ones_like(epsilons), np.zeros_like(epsilons)
        if self.untruncated_curve is not None:
            untruncated = self.untruncated_curve.profile(epsilons)
            upper, lower = untruncated.upper.copy(), untruncated.lower.copy()
        for truncation in map(self._truncate, PROFILE_TRUNCATIONS):
            if truncation is None:
                continue
            cut, curve = truncation
            profile = curve.profile(epsilons)
            truncated = np.array([cut.truncation_delta(float(epsilon)) for epsilon in epsilons])
            total = np.minimum(1.0, np.nextafter(profile.upper + truncated, np.inf))
            lower = np.where(total < upper, profile.lower, lower)
            upper = np.minimum(upper, total)
        return upper, lower


def has_tails(randomizer: Randomizer) -> bool:
    """Returns True if a bound should truncate the randomizer's law."""
    return isinstance(randomizer, HasTails) and randomizer.has_tails


def tail_curve(bound: Bound, randomizer: Randomizer, users: int, finite: PrivacyCurve | None) -> PrivacyCurve:
    """Returns a bound's curve in which parts of user 1's law may be truncated."""
    assert isinstance(randomizer, HasTails)
    curve = TruncatedTailCurve(bound.source(users), bound, randomizer, finite)
    if finite is None and curve._truncate(PROFILE_TRUNCATIONS[0]) is None:
        raise NotApplicable(
            bound.name,
            "nothing is left after truncation: no message is sent by all inputs often enough.",
        )
    return curve


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
