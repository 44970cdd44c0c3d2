"""Variation-ratio parameters: all that the reduction needs to know of a randomizer.

α, γ and the hiding probabilities r0, r1 are derived here and nowhere else, as exact rationals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from flint import arb, fmpq

from shuffledp import argument
from shuffledp.numerics.ball import precision, rational, round_up
from shuffledp.privacy.others import Others
from shuffledp.privacy.pair import Classes, ExactClass, HidingPair, MessageClass, exact_pair
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.ratio_others import of_ratios
from shuffledp.privacy.record import Record

LEAST_BETA = 1e-250
SNAP = 1e-12
"""Relative distance within which β is its maximum, and the condition on the q's holds with equality."""

ONE, LESS = fmpq(1), 1 - fmpq(1, 1 << 51)
MOST_ATTACKS = 2
"""Of the laws within given ratios, those that tell most."""
_WHO = "VariationRatio"


@dataclass(frozen=True)
class VariationRatio(Randomizer, Record):
    """(p, β)-variation and q-ratio of a local randomizer.

    ``p``: largest ratio between two inputs' output laws (may be infinite). ``beta``: largest total variation
    between them; a value that is too large is sound. ``q``: largest ratio of user 1's output law to any other
    user's, or the pair (q0, q1) of that ratio where input 0 is likelier and where input 1 is likelier.
    ``q_common``: the same ratio on the part that both inputs share, where a smaller one is known; by default
    the larger of q0 and q1. ``local``: whether all ratios hold both ways, p between the two inputs' laws, q0 and q1
    between either and any other user's, as for every ε0-LDP randomizer (``of_ldp``); then more is known than the
    reduction uses.

    Theorem: [VR] Lemma 4.3 (decomposition).
    Requires: p > 1; 0 ≤ β ≤ (p−1)/(p+1); q0, q1, q_common ≥ 1 and finite; r0 + r1 + γ/q_common ≤ 1.
    Deviates: floats are exact reals, and any other number is raised to one; β within 1e-12 (relative) of its maximum
    is the maximum, and a sum of r0 + r1 + γ/q_common above 1 by less than that is met by raising the q's: all sound.
    At p = ∞, β = 1 says that the two laws are disjoint.

    >>> import shuffledp as sdp
    >>> import math
    >>> curve = sdp.amplify(sdp.VariationRatio(p=math.inf, beta=1.0, q=16.0), users=60_001)
    >>> curve.epsilon(delta=1e-7).upper < 0.0954
    True
    """

    p: float
    beta: float
    q: float | tuple[float, float]
    q_common: float | None = None
    local: bool = False

    def __post_init__(self) -> None:
        p = argument.real(_WHO, "p", self.p, up=True)
        if p <= 1.0:
            raise ValueError(f"{_WHO}: p must be above 1 (infinity is allowed), got {p!r}.")
        beta = argument.real(_WHO, "beta", self.beta, up=True)
        if 0.0 < beta < LEAST_BETA:
            # A larger β claims less; what is smaller is lost among floats.
            beta = LEAST_BETA
        most = 1.0 if math.isinf(p) else (p - 1.0) / (p + 1.0)
        if not 0.0 <= beta <= most * (1 + SNAP):
            raise ValueError(f"{_WHO}: beta must be between 0 and (p-1)/(p+1) = {most!r} for p = {p!r}, got {beta!r}.")
        if not isinstance(self.local, bool):
            raise TypeError(f"{_WHO}: local must be True or False, got {argument.shown(self.local)}.")
        if self.local and math.isinf(p):
            raise ValueError(f"{_WHO}: local needs a finite p, got {p!r}.")
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "q", _ratios(self.q))
        if self.q_common is not None:
            object.__setattr__(self, "q_common", _ratio("q_common", self.q_common))
        if self._hiding_sum > 1 + rational(SNAP):
            q0, q1, q_common = (float(arb(q)) for q in self._raw_ratios)
            raise ValueError(
                f"{_WHO}: r0 + r1 + γ/q_common must be at most 1, got {float(arb(self._hiding_sum)):.6g} "
                f"(p={p!r}, beta={beta!r}, q0={q0!r}, q1={q1!r}, q_common={q_common!r}); "
                f"raise q or lower beta to the true total variation."
            )

    @classmethod
    def of_ldp(cls, epsilon_local: float) -> VariationRatio:
        """The parameters of any ε0-LDP randomizer: p = q = e^ε0 and the largest β."""
        epsilon = argument.positive_finite(_WHO, "epsilon_local", epsilon_local, up=True)
        with precision(96):
            p = round_up(arb(epsilon).exp())
        if math.isinf(p):
            raise ValueError(f"{_WHO}: epsilon_local must be at most 709, got {epsilon!r}.")
        return cls(p=p, beta=(p - 1.0) / (p + 1.0), q=p, local=True)

    def variation_ratio(self) -> VariationRatio:
        """Itself: raw parameters answer the same questions as a mechanism."""
        return self

    def blankets(self) -> Sequence[HidingPair]:
        """None: parameters fix no law."""
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        """Randomizers with these parameters, and others' laws, that tell most: no bound for all of them can be below.

        Where the ratios hold both ways: three laws within them, of which all others have the third; among these is
        3-ary randomized response. Else the reduction itself, which is a randomizer with these parameters.
        """
        if not self.local:
            return () if self._hiding_sum > 1 else (exact_pair(self._extremes, symmetric=self.symmetric),)
        # Ratios and β may have been rounded up by a unit of the last place.
        p, q0, q1 = (max(ONE, rational(ratio) * LESS) for ratio in (self.p, *self.q_pair))
        if p == 1:
            return ()
        kinds = of_ratios(p, q0, q1, None if self.at_maximum else rational(self.beta) * LESS).kinds
        triples = sorted((kind.exact for kind in kinds if kind.exact is not None), key=_spread, reverse=True)
        symmetric = next((three for three in triples if _is_symmetric(three)), None)
        chosen = dict.fromkeys(triples[:MOST_ATTACKS] + ([] if symmetric is None else [symmetric]))
        return tuple(exact_pair(three, symmetric=_is_symmetric(three)) for three in chosen)

    def others(self) -> Sequence[Others]:
        """All that these ratios among all users, and the total variation, allow, where they hold both ways."""
        if not self.local:
            return ()
        q0, q1 = (rational(max(q, self.p)) for q in self.q_pair)
        return (of_ratios(rational(self.p), q0, q1, None if self.at_maximum else rational(self.beta)),)

    @property
    def holds_for(self) -> str:
        if self.local:
            return "any randomizer with these ratios among all users, both ways"
        return "any randomizer with these parameters; q need hold one way only"

    def describe(self) -> dict[str, float]:
        """The parameters by name, defaults filled in."""
        q0, q1 = self.q_pair
        common = max(q0, q1) if self.q_common is None else self.q_common
        return {"p": self.p, "beta": self.beta, "q0": q0, "q1": q1, "q_common": common}

    @property
    def at_maximum(self) -> bool:
        """β is the largest possible for p, hence γ = 0."""
        most = 1.0 if math.isinf(self.p) else (self.p - 1.0) / (self.p + 1.0)
        return self.beta >= most * (1 - SNAP)

    @property
    def disjoint(self) -> bool:
        """p = ∞ and β = 1 as stated, not rounded to it: no output is possible for both inputs."""
        return math.isinf(self.p) and self.beta >= 1.0

    @property
    def nothing_in_common(self) -> bool:
        """γ = 0, and a total variation below β, which would leave a common part, is no worse.

        Only then is the published pair, which does not count the common part, an upper bound.
        """
        q0, q1, q_common = self.ratios
        return self.gamma == 0 and (self.disjoint or q_common <= min(q0, q1))

    @property
    def largest_ratio(self) -> float:
        """e^ε0: the largest ratio between any two users' output laws."""
        q0, q1 = self.q_pair
        return max(self.p, q0, q1, self.q_common or 1.0)

    @property
    def symmetric(self) -> bool:
        q0, q1 = self.q_pair
        return q0 == q1

    @cached_property
    def alpha(self) -> fmpq:
        """α: the mass of either extreme part under the input that makes it unlikely."""
        if math.isinf(self.p):
            return fmpq(0)
        p = rational(self.p)
        return 1 / (p + 1) if self.at_maximum else rational(self.beta) / (p - 1)

    @cached_property
    def p_alpha(self) -> fmpq:
        """pα: the mass of either extreme part under the input that makes it likely (β at p = ∞)."""
        if math.isinf(self.p):
            return fmpq(1) if self.at_maximum else rational(self.beta)
        return rational(self.p) * self.alpha

    @cached_property
    def gamma(self) -> fmpq:
        """γ: the mass of the part that both inputs share."""
        return 1 - self.alpha - self.p_alpha

    @property
    def q_pair(self) -> tuple[float, float]:
        assert isinstance(self.q, tuple)
        return self.q

    @property
    def _raw_ratios(self) -> tuple[fmpq, fmpq, fmpq]:
        q0, q1 = self.q_pair
        common = max(q0, q1) if self.q_common is None else self.q_common
        return rational(q0), rational(q1), rational(common)

    @cached_property
    def _hiding_sum(self) -> fmpq:
        q0, q1, q_common = self._raw_ratios
        return self.p_alpha / q0 + self.p_alpha / q1 + self.gamma / q_common

    @cached_property
    def ratios(self) -> tuple[fmpq, fmpq, fmpq]:
        """(q0, q1, q_common), raised together where rounding put their condition a hair beyond 1."""
        excess = max(fmpq(1), self._hiding_sum)
        q0, q1, q_common = self._raw_ratios
        return q0 * excess, q1 * excess, q_common * excess

    @cached_property
    def hiding(self) -> tuple[fmpq, fmpq, fmpq]:
        """(r0, r1, γ/q_common): how likely another user's message is of either extreme part, and of the common one."""
        q0, q1, q_common = self.ratios
        return self.p_alpha / q0, self.p_alpha / q1, self.gamma / q_common

    def swapped(self) -> VariationRatio:
        """The two inputs exchanged."""
        q0, q1 = self.q_pair
        return VariationRatio(self.p, self.beta, (q1, q0), self.q_common, self.local)

    def largest_log_ratio(self) -> float:
        """log p, rounded up: no shuffled divergence is positive beyond it."""
        if math.isinf(self.p):
            return math.inf
        with precision(96):
            return round_up(arb(self.p).log())

    def pair(self, epsilon: float) -> HidingPair:
        """The sound dominating pair for D_{e^ε}(P‖Q).

        Theorem: sound reduction: R_i ≥ r0·Q0 + r1·Q1 + (γ/q_common)·Q_c, the rest revealed.
        Requires: what the constructor checks.
        Returns: a pair whose divergence at ε is an upper bound.
        Deviates: [VR] Theorem 4.2 lets Q_c hide among all the rests, which is not an upper bound when γ > 0.
        The reduction grows with β (so that a β above the true one is sound) only while
        q_common·(e^ε − 1) ≤ q1·(e^ε − 1/p). Where q_common > q1 breaks this, q1 is raised until it holds; at p = ∞
        with β = 1 the laws are disjoint and there is nothing to raise for.
        """
        if not self._may_raise_q1:
            return exact_pair(self._extremes, symmetric=self.symmetric)
        return HidingPair(_ReducedClasses(self, epsilon), self.symmetric)

    @property
    def _extremes(self) -> list[ExactClass]:
        """The classes of the decomposition: either extreme part, and the common one."""
        r0, r1, shared = self.hiding
        return [(self.p_alpha, self.alpha, r0), (self.alpha, self.p_alpha, r1), (self.gamma, self.gamma, shared)]

    @property
    def _may_raise_q1(self) -> bool:
        _, q1, q_common = self.ratios
        return q_common > q1 and not self.disjoint

    def raised_q1(self, epsilon: float) -> arb | None:
        """The least q1 with which the reduction grows with β at this ε, where that is more than q1."""
        _, q1, q_common = self.ratios
        ratio = arb(epsilon).exp()
        inverse_p = arb(0) if math.isinf(self.p) else 1 / arb(self.p)
        needed = arb(q_common) * (ratio - 1) / (ratio - inverse_p)
        return None if needed <= arb(q1) else needed.max(arb(q1))

    def published_pair(self) -> HidingPair:
        """The published pair, in which the common part hides among all the rests; for reproduction.

        Theorem: [VR] Theorem 4.2.
        Requires: r0 + r1 ≤ 1, which the constructor's stronger condition implies.
        Returns: a pair whose divergence is an upper bound only where ``nothing_in_common``.
        """
        return HidingPair(_PublishedClasses(self), self.symmetric)


@dataclass(frozen=True)
class ReducedPairs:
    """The sound pair of some parameters at each ε."""

    parameters: VariationRatio

    def __call__(self, epsilon: float) -> HidingPair:
        return self.parameters.pair(epsilon)


@dataclass(frozen=True)
class _ReducedClasses:
    """The classes of the sound reduction where q1 may have to be raised at ε."""

    parameters: VariationRatio
    epsilon: float

    def __call__(self) -> Classes:
        of = self.parameters
        r0, r1, shared = of.hiding
        raised = of.raised_q1(self.epsilon)
        rest, common = arb(1 - r0 - r1 - shared), arb(of.gamma)
        hiding1 = arb(r1)
        if raised is not None:
            hiding1 = arb(of.p_alpha) / raised
            rest += arb(r1) - hiding1
        result = [
            MessageClass(arb(of.p_alpha), arb(of.alpha), arb(r0)),
            MessageClass(arb(of.alpha), arb(of.p_alpha), hiding1),
            MessageClass(common, common, arb(shared)),
            MessageClass(arb(0), arb(0), rest),
        ]
        return [c for c in result if not c.hiding.is_zero()]


@dataclass(frozen=True)
class _PublishedClasses:
    """The classes of the published pair."""

    parameters: VariationRatio

    def __call__(self) -> Classes:
        of = self.parameters
        r0, r1, _ = of.hiding
        result = [
            MessageClass(arb(of.p_alpha), arb(of.alpha), arb(r0)),
            MessageClass(arb(of.alpha), arb(of.p_alpha), arb(r1)),
        ]
        if r0 + r1 != 1:
            common = arb(of.gamma)
            result.append(MessageClass(common, common, arb(1 - r0 - r1)))
        return result


def _spread(classes: Sequence[ExactClass]) -> fmpq:
    """Σ (first − second)²/hiding: how much a message tells where many take part."""
    return sum(((first - second) ** 2 / hiding for first, second, hiding in classes), fmpq(0))


def _is_symmetric(classes: Sequence[ExactClass]) -> bool:
    return sorted(classes) == sorted((second, first, hiding) for first, second, hiding in classes)


def _ratio(name: str, value: object) -> float:
    number = argument.real(_WHO, name, value, up=True)
    if not 1.0 <= number < math.inf:
        raise ValueError(f"{_WHO}: {name} must be at least 1 and finite, got {number!r}.")
    return number


def _ratios(value: object) -> tuple[float, float]:
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise ValueError(f"{_WHO}: q must be one number or the pair (q0, q1), got {value!r}.")
        return _ratio("q0", value[0]), _ratio("q1", value[1])
    number = _ratio("q", value)
    return number, number
