"""Bounds from the privacy blanket: numerically exact, and by the published tail bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial

from flint import arb

from shuffledp.bounds.bound import Bound
from shuffledp.bounds.clone import local_ratio
from shuffledp.bounds.tails import has_tails, tail_curve
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import precision
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import FORMULA_BITS, LARGEST_EPSILON, DeltaFormCurve, NumericCurve, PrivacyCurve
from shuffledp.privacy.pair import AtEvery, HidingPair
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.record import Record
from shuffledp.privacy.variation_ratio import VariationRatio

TURN_STEP = 1e-6
"""Relative step in ε by which a formula is seen to fall or to rise."""


def blankets_of(bound: Bound, randomizer: Randomizer) -> list[HidingPair]:
    """Every blanket pair in every direction that may differ."""
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
            return self.whole(randomizer, users)
        try:
            finite = self.whole(randomizer, users)
        except NotApplicable:
            finite = None
        return tail_curve(self, randomizer, users, finite)

    def whole(self, randomizer: Randomizer, users: int) -> NumericCurve:
        """Where nothing is cut."""
        pairs = blankets_of(self, randomizer)
        largest = max(pair.largest_log_ratio() for pair in pairs)
        return NumericCurve(self.source(users), tuple(map(AtEvery, pairs)), largest, fixed=True)


@dataclass(frozen=True)
class _Moments:
    """What the tail bounds know of G under the normalised blanket: its mass γ, range b, maximum b₊, E[G²] ≤ c.

    ``drift`` is a = −E[G]: e^ε − 1, but where the classes are bounds of laws, which sum to more and to less than 1.
    """

    gamma: arb
    spread: arb
    top: arb
    square: arb
    drift: arb

    @classmethod
    def generic(cls, local: arb, ratio: arb) -> _Moments:
        """Any randomizer with e^ε0 = local: γ = e^-ε0 and constants a little tighter than the published ones."""
        square = local * (ratio * ratio + 1) - 2 * ratio
        return cls(1 / local, (ratio + 1) * (local - 1), local - ratio, square, ratio - 1)

    @classmethod
    def published(cls, local: arb, ratio: arb) -> _Moments:
        """Any randomizer with e^ε0 = local, as published."""
        return cls(
            1 / local,
            (ratio + 1) * (local - 1 / local),
            local - ratio / local,
            local * (ratio * ratio + 1) - 2 * ratio / local**3,
            ratio - 1,
        )

    @classmethod
    def of_pair(cls, pair: HidingPair, ratio: arb) -> _Moments:
        """The exact moments of one pair against its blanket."""
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
class _MomentsOfPair:
    """The exact moments of a pair, at any e^ε; ``largest`` is an ε at which its δ is 0."""

    pair: HidingPair
    largest: float

    def __call__(self, ratio: arb) -> _Moments:
        return _Moments.of_pair(self.pair, ratio)


@dataclass(frozen=True)
class _GenericMoments:
    """Moments that hold for every randomizer with e^ε0 = ``local``, at any e^ε; ``largest`` is ε0."""

    local: float
    published: bool
    largest: float

    def __call__(self, ratio: arb) -> _Moments:
        make = _Moments.published if self.published else _Moments.generic
        return make(arb(self.local), ratio)


@dataclass(frozen=True)
class _TailFormula(Record):
    """δ(ε) of a tail bound: the worst of all moments.

    Each one's δ falls to its least value and may rise from there, where the inequality is loose, until it is 0 at its
    largest ε. The divergence that it bounds never rises with ε: where the formula does, its least value is a bound too.
    """

    bound: _TailBound
    moments: tuple[_MomentsOfPair | _GenericMoments, ...]
    users: int

    def __call__(self, epsilon: arb) -> arb:
        worst = arb(0)
        for moments, turn in zip(self.moments, self._turns, strict=True):
            here = moments(epsilon.exp())
            if not here.drift > 0:
                return arb(1)
            if not here.top <= 0:
                least = here if epsilon <= turn else moments(arb(turn).exp())
                worst = worst.max(self.bound.delta(least if least.drift > 0 else here, self.users))
        return worst

    @cached_property
    def _turns(self) -> tuple[float, ...]:
        """Where each one's δ turns, from below; a wrong place would not harm: a smaller ε asks for more."""
        with precision(FORMULA_BITS):
            return tuple(self._turn(moments) for moments in self.moments)

    def _turn(self, moments: _MomentsOfPair | _GenericMoments) -> float:
        """Infinity where δ still falls just before the largest ε."""
        last = min(moments.largest, LARGEST_EPSILON) / (1 + 2 * TURN_STEP)
        if self._rise(moments, last) <= 0:
            return math.inf
        # Where it falls nowhere, there is nothing before that would be less.
        return find_crossing(partial(self._rise, moments), 0.0, last, relative=TURN_STEP).below or math.inf

    def _rise(self, moments: _MomentsOfPair | _GenericMoments, epsilon: float) -> float:
        """The growth of log δ over a short step."""
        here, there = (moments(arb(x).exp()) for x in (epsilon, epsilon * (1 + TURN_STEP)))
        if not (here.drift > 0 and here.top > 0 and there.top > 0):
            return 0.0
        before, after = (self.bound.delta(each, self.users) for each in (here, there))
        growth = (after / before).log()
        return float(growth) if growth.is_finite() else 0.0


class _TailBound(Bound):
    """δ(ε) from a concentration inequality for the sum of the G's."""

    never_better_than = "optimal"

    @abstractmethod
    def delta(self, moments: _Moments, users: int) -> arb:
        """δ as a ball, for a positive drift."""

    def moments(self, randomizer: Randomizer) -> tuple[_MomentsOfPair | _GenericMoments, ...]:
        """What is known of G at e^ε, for each kind of input pair."""
        if not randomizer.blankets():
            return generic_moments(self, randomizer, published=False)
        return tuple(_MomentsOfPair(pair, pair.largest_log_ratio()) for pair in blankets_of(self, randomizer))

    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        moments = self.moments(randomizer)
        largest = max(each.largest for each in moments)
        return DeltaFormCurve(self.source(users), _TailFormula(self, moments, users), largest)


def generic_moments(bound: Bound, randomizer: Randomizer, *, published: bool) -> tuple[_GenericMoments]:
    """The moments that hold for every randomizer with this local ratio."""
    local = local_ratio(bound, randomizer)
    largest = VariationRatio(p=local, beta=0.0, q=local).largest_log_ratio()
    return (_GenericMoments(local, published, largest),)


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

    def moments(self, randomizer: Randomizer) -> tuple[_GenericMoments]:
        return generic_moments(self, randomizer, published=True)


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

    def moments(self, randomizer: Randomizer) -> tuple[_GenericMoments]:
        return generic_moments(self, randomizer, published=True)
