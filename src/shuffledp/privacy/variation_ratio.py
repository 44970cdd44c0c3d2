"""Variation-ratio parameters of a randomizer, and any randomizer known only by its local (ε, δ).

α, γ and the hiding probabilities r0, r1 are derived here and nowhere else, as exact rationals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from flint import arb, fmpq, fmpq_mat

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.formatting import format_exact
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp.numerics.ball_arithmetic import precision, round_down, round_up, to_rational
from shuffledp.privacy.dominating_pairs import (
    BITS,
    Classes,
    ExactClass,
    HidingPair,
    ListedOtherUsers,
    MessageClass,
    OtherUsers,
    exact_pair,
)
from shuffledp.privacy.randomizer_interface import HasTails, Randomizer, TruncatedRandomizer

# --- Laws within bounded ratios ---


Point = tuple[fmpq, fmpq]
"""The two inputs' probabilities of a message, in units of the other user's."""
EXACT_ONE = fmpq(1)


def other_users_from_ratios(between: fmpq, first: fmpq, second: fmpq, variation: fmpq | None = None) -> OtherUsers:
    """Returns the worst laws of others for every randomizer with bounded ratios, and every dataset.

    The two laws of user 1 differ by a factor of at most ``between``, and from any other user's by at most ``first`` and
    ``second``, both ways; their total variation is at most ``variation``.

    Theorem: with a message of the other user's law R, (X, Y) = (P/R, Q/R) is in the polygon X ≤ p·Y, Y ≤ p·X, 1/q0 ≤ X
    ≤ q0, 1/q1 ≤ Y ≤ q1, with means (1, 1). G = X − e^ε·Y is a function of it, so that moving (X, Y) to corners while
    keeping the mean spreads G: the laws on corners with these means are mixtures of those on at most three corners.
    Where E(X−Y)_+ is bounded, the polygon is cut along X = Y, on either side of which it is linear: one more equation,
    at most four corners.
    Requires: both ways. γ = 1/min(q0, q1): everybody's law is at least that times user 1's.
    """
    corners = _corners(between, first, second, cut=variation is not None)
    kinds = dict.fromkeys(_pair(law) for law in _extreme_laws(corners, variation))
    with precision(BITS):
        gamma = round_down(1 / arb(min(first, second)))
    return ListedOtherUsers(gamma, symmetric=first == second, listed_pairs=tuple(kinds))


def other_users_from_truncated_ratios(ratio: fmpq, missing_mass: fmpq) -> OtherUsers:
    """Returns the worst laws of others for three laws P, Q, R of masses 1, κ and κ within ``ratio`` of each other.

    κ = 1 − ``missing_mass``; P and Q are in units of κ.

    Theorem: as ``other_users_from_ratios``, with the means (1/κ, 1) of (P/R, Q/R); the mass that R lacks to 1 is
        revealed. γ = κ/p.
    """
    corners = _corners(ratio, ratio, ratio, cut=False)
    mass = 1 - missing_mass
    kinds = dict.fromkeys(_pair(law, mass) for law in _extreme_laws(corners, None, (1 / mass, EXACT_ONE)))
    with precision(BITS):
        gamma = round_down(arb(mass / ratio))
    return ListedOtherUsers(gamma, symmetric=True, listed_pairs=tuple(kinds))


def _corners(p: fmpq, q0: fmpq, q1: fmpq, *, cut: bool) -> list[Point]:
    """Returns the corners of the polygon and, if ``cut``, the points where X = Y leaves it."""
    # (a, b, c): a·X + b·Y ≤ c.
    sides = [
        (EXACT_ONE, -p, fmpq(0)), (-p, EXACT_ONE, fmpq(0)), (EXACT_ONE, fmpq(0), q0), (-EXACT_ONE, fmpq(0), -1 / q0),
        (fmpq(0), EXACT_ONE, q1), (fmpq(0), -EXACT_ONE, -1 / q1),
    ]  # fmt: skip
    lines = [*sides, (EXACT_ONE, -EXACT_ONE, fmpq(0))] if cut else sides
    found = []
    for (a, b, c), (d, e, f) in combinations(lines, 2):
        determinant = a * e - b * d
        if determinant != 0:
            point = (c * e - b * f) / determinant, (a * f - c * d) / determinant
            if all(u * point[0] + v * point[1] <= w for u, v, w in sides):
                found.append(point)
    return list(dict.fromkeys(found))


def _extreme_laws(
    corners: Sequence[Point], variation: fmpq | None, means: Point = (EXACT_ONE, EXACT_ONE)
) -> Iterator[list[tuple[fmpq, Point]]]:
    """Yields laws on as few corners as possible with these means; with a bound on the variation, at it or below it."""
    rows = [[EXACT_ONE for _ in corners], [x for x, _ in corners], [y for _, y in corners]]
    wanted = [EXACT_ONE, *means]
    for law in _solutions(corners, rows, wanted):
        if variation is None or sum((w * max(x - y, fmpq(0)) for w, (x, y) in law), fmpq(0)) <= variation:
            yield law
    if variation is not None:
        excess = [max(x - y, fmpq(0)) for x, y in corners]
        yield from _solutions(corners, [*rows, excess], [*wanted, variation])


def _solutions(
    corners: Sequence[Point], rows: Sequence[Sequence[fmpq]], wanted: Sequence[fmpq]
) -> Iterator[list[tuple[fmpq, Point]]]:
    """Yields non-negative weights on as many corners as there are equations."""
    size = len(rows)
    right = fmpq_mat(size, 1, list(wanted))
    for chosen in combinations(range(len(corners)), size):
        matrix = fmpq_mat(size, size, [row[k] for row in rows for k in chosen])
        if matrix.det() == 0:
            continue
        weights = [matrix.solve(right)[k, 0] for k in range(size)]
        if min(weights) >= 0:
            yield [(weight, corners[k]) for weight, k in zip(weights, chosen, strict=True) if weight > 0]


def _pair(law: Sequence[tuple[fmpq, Point]], kept: fmpq = EXACT_ONE) -> HidingPair:
    return exact_pair(sorted((w * x, w * y, w * kept) for w, (x, y) in law), symmetric=False)


MIN_BETA = 1e-250
SNAP_TOLERANCE = 1e-12
"""Relative distance within which β is its maximum, and the condition on the q's holds with equality."""

ONE, JUST_BELOW_ONE = fmpq(1), 1 - fmpq(1, 1 << 51)
MAX_ATTACKS = 2
"""Number of laws within given ratios that are used as attacks, those that reveal most."""
_VARIATION_RATIO = "VariationRatio"


@dataclass(frozen=True)
class VariationRatio(Randomizer, ValueObject):
    """(p, β)-variation and q-ratio of a local randomizer.

    Theorem: [VR] Lemma 4.3 (decomposition).
    Requires: p > 1; 0 ≤ β ≤ (p−1)/(p+1); q0, q1, q_common ≥ 1 and finite; r0 + r1 + γ/q_common ≤ 1.
    Deviates: floats are exact reals, and any other number is raised to one; β within 1e-12 (relative) of its maximum
    is the maximum, and a sum of r0 + r1 + γ/q_common above 1 by less than that is met by raising the q's: all sound.
    At p = ∞, β = 1 says that the two laws are disjoint.

    Args:
        p: Largest ratio between two inputs' output laws; may be infinite.
        beta: Largest total variation between them; a value that is too large is sound.
        q: Largest ratio of user 1's output law to any other user's, or the pair (q0, q1) of that ratio where input 0 is
            likelier and where input 1 is likelier.
        q_common: The same ratio on the part that both inputs share, if a smaller one is known; by default the larger of
            q0 and q1.
        local: True if all ratios hold both ways, p between the two inputs' laws, q0 and q1 between either and any other
            user's, as for every ε0-LDP randomizer (``from_ldp``); then more is known than the reduction uses.

    Raises:
        TypeError: If an argument is not a number, or ``local`` not a bool.
        ValueError: If a requirement above does not hold, or ``local`` is combined with an infinite ``p``.

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
        p = validation.real(_VARIATION_RATIO, "p", self.p, up=True)
        if p <= 1.0:
            raise ValueError(f"{_VARIATION_RATIO}: p must be above 1 (infinity is allowed), got {p!r}.")
        beta = validation.real(_VARIATION_RATIO, "beta", self.beta, up=True)
        if 0.0 < beta < MIN_BETA:
            # A larger β claims less; smaller ones underflow.
            beta = MIN_BETA
        most = 1.0 if math.isinf(p) else (p - 1.0) / (p + 1.0)
        if not 0.0 <= beta <= most * (1 + SNAP_TOLERANCE):
            raise ValueError(
                f"{_VARIATION_RATIO}: beta must be between 0 and (p-1)/(p+1) = {most!r} for p = {p!r}, got {beta!r}."
            )
        if not isinstance(self.local, bool):
            shown = validation.format_value(self.local)
            raise TypeError(f"{_VARIATION_RATIO}: local must be True or False, got {shown}.")
        if self.local and math.isinf(p):
            raise ValueError(f"{_VARIATION_RATIO}: local needs a finite p, got {p!r}.")
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "q", _check_ratios(self.q))
        if self.q_common is not None:
            object.__setattr__(self, "q_common", _check_ratio("q_common", self.q_common))
        if self._hiding_sum > 1 + to_rational(SNAP_TOLERANCE):
            q0, q1, q_common = (float(arb(q)) for q in self._raw_ratios)
            raise ValueError(
                f"{_VARIATION_RATIO}: r0 + r1 + γ/q_common must be at most 1, got {float(arb(self._hiding_sum)):.6g} "
                f"(p={p!r}, beta={beta!r}, q0={q0!r}, q1={q1!r}, q_common={q_common!r}); "
                f"raise q or lower beta to the true total variation."
            )

    @classmethod
    def from_ldp(cls, epsilon_local: float) -> VariationRatio:
        """Returns the parameters of any ε0-LDP randomizer: p = q = e^ε0 and the largest β.

        Args:
            epsilon_local: ε0, at most 709.

        Returns:
            The parameters, rounded up.

        Raises:
            ValueError: If ``epsilon_local`` is not above 0 or exceeds 709.
        """
        epsilon = validation.positive_finite(_VARIATION_RATIO, "epsilon_local", epsilon_local, up=True)
        with precision(96):
            p = round_up(arb(epsilon).exp())
        if math.isinf(p):
            raise ValueError(f"{_VARIATION_RATIO}: epsilon_local must be at most 709, got {epsilon!r}.")
        return cls(p=p, beta=(p - 1.0) / (p + 1.0), q=p, local=True)

    def variation_ratio(self) -> VariationRatio:
        """Returns itself."""
        return self

    def blankets(self) -> Sequence[HidingPair]:
        """Returns no pairs: parameters do not determine a law."""
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        """Returns worst-case randomizers with these parameters and laws of others: no bound for all can be below them.

        If the ratios hold both ways: three laws within them, of which all others have the third; 3-ary randomized
        response is among these. Otherwise the reduction itself, which is a randomizer with these parameters.
        """
        if not self.local:
            return () if self._hiding_sum > 1 else (exact_pair(self._extremes, symmetric=self.is_symmetric),)
        # Ratios and β may have been rounded up by a unit of the last place.
        p, q0, q1 = (max(ONE, to_rational(ratio) * JUST_BELOW_ONE) for ratio in (self.p, *self.q_pair))
        if p == 1:
            return ()
        variation = None if self.is_beta_maximal else to_rational(self.beta) * JUST_BELOW_ONE
        kinds = other_users_from_ratios(p, q0, q1, variation).user_pairs
        triples = sorted((kind.exact for kind in kinds if kind.exact is not None), key=_spread, reverse=True)
        chosen = dict.fromkeys([*triples[:MAX_ATTACKS], *list(filter(_is_symmetric, triples))[:1]])
        return tuple(exact_pair(classes, symmetric=_is_symmetric(classes)) for classes in chosen)

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns all laws that the ratios and the total variation allow, if the ratios hold both ways; else none."""
        if not self.local:
            return ()
        q0, q1 = (to_rational(max(q, self.p)) for q in self.q_pair)
        variation = None if self.is_beta_maximal else to_rational(self.beta)
        return (other_users_from_ratios(to_rational(self.p), q0, q1, variation),)

    @property
    def covered_randomizers(self) -> str:
        if self.local:
            return "any randomizer with these ratios among all users, both ways"
        return "any randomizer with these parameters; q need hold one way only"

    def describe(self) -> dict[str, float]:
        """Returns the parameters by name, defaults filled in."""
        q0, q1 = self.q_pair
        common = max(q0, q1) if self.q_common is None else self.q_common
        return {"p": self.p, "beta": self.beta, "q0": q0, "q1": q1, "q_common": common}

    @property
    def is_beta_maximal(self) -> bool:
        """True if β is the largest possible for p, hence γ = 0."""
        most = 1.0 if math.isinf(self.p) else (self.p - 1.0) / (self.p + 1.0)
        return self.beta >= most * (1 - SNAP_TOLERANCE)

    @property
    def is_disjoint(self) -> bool:
        """True if p = ∞ and β = 1 as stated, not rounded to it: no output is possible for both inputs."""
        return math.isinf(self.p) and self.beta >= 1.0

    @property
    def has_no_common_part(self) -> bool:
        """True if γ = 0 and a total variation below β, which would leave a common part, is no worse.

        Only then is the published pair, which does not count the common part, an upper bound.
        """
        q0, q1, q_common = self.ratios
        return self.gamma == 0 and (self.is_disjoint or q_common <= min(q0, q1))

    @property
    def largest_ratio(self) -> float:
        """e^ε0: the largest ratio between any two users' output laws."""
        q0, q1 = self.q_pair
        return max(self.p, q0, q1, self.q_common or 1.0)

    @property
    def is_symmetric(self) -> bool:
        """True if both inputs have the same ratio to the others."""
        q0, q1 = self.q_pair
        return q0 == q1

    @cached_property
    def alpha(self) -> fmpq:
        """α: the mass of either extreme part under the input that makes it unlikely."""
        if math.isinf(self.p):
            return fmpq(0)
        p = to_rational(self.p)
        return 1 / (p + 1) if self.is_beta_maximal else to_rational(self.beta) / (p - 1)

    @cached_property
    def p_alpha(self) -> fmpq:
        """pα: the mass of either extreme part under the input that makes it likely (β at p = ∞)."""
        if math.isinf(self.p):
            return fmpq(1) if self.is_beta_maximal else to_rational(self.beta)
        return to_rational(self.p) * self.alpha

    @cached_property
    def gamma(self) -> fmpq:
        """γ: the mass of the part that both inputs share."""
        return 1 - self.alpha - self.p_alpha

    @property
    def q_pair(self) -> tuple[float, float]:
        """The ratios of the first and of the second input to the others."""
        assert isinstance(self.q, tuple)
        return self.q

    @property
    def _raw_ratios(self) -> tuple[fmpq, fmpq, fmpq]:
        q0, q1 = self.q_pair
        common = max(q0, q1) if self.q_common is None else self.q_common
        return to_rational(q0), to_rational(q1), to_rational(common)

    @cached_property
    def _hiding_sum(self) -> fmpq:
        q0, q1, q_common = self._raw_ratios
        return self.p_alpha / q0 + self.p_alpha / q1 + self.gamma / q_common

    @cached_property
    def ratios(self) -> tuple[fmpq, fmpq, fmpq]:
        """(q0, q1, q_common), raised together if rounding put their condition slightly above 1."""
        excess = max(fmpq(1), self._hiding_sum)
        q0, q1, q_common = self._raw_ratios
        return q0 * excess, q1 * excess, q_common * excess

    @cached_property
    def hiding(self) -> tuple[fmpq, fmpq, fmpq]:
        """Another user's probabilities (r0, r1, γ/q_common) of either extreme part and of the common one."""
        q0, q1, q_common = self.ratios
        return self.p_alpha / q0, self.p_alpha / q1, self.gamma / q_common

    def swapped(self) -> VariationRatio:
        """Returns the parameters with the two inputs exchanged."""
        q0, q1 = self.q_pair
        return VariationRatio(self.p, self.beta, (q1, q0), self.q_common, self.local)

    def largest_log_ratio(self) -> float:
        """Returns log p, rounded up: no shuffled divergence is positive beyond it."""
        if math.isinf(self.p):
            return math.inf
        with precision(96):
            return round_up(arb(self.p).log())

    def pair(self, epsilon: float) -> HidingPair:
        """Returns the sound dominating pair for D_{e^ε}(P‖Q).

        Theorem: sound reduction: R_i ≥ r0·Q0 + r1·Q1 + (γ/q_common)·Q_c, the rest revealed.
        Requires: the conditions of the constructor.
        Deviates: [VR] Theorem 4.2 lets Q_c hide among all the rests, which is not an upper bound when γ > 0.
        The reduction grows with β (so that a β above the true one is sound) only while
        q_common·(e^ε − 1) ≤ q1·(e^ε − 1/p). Where q_common > q1 breaks this, q1 is raised until it holds; at p = ∞
        with β = 1 the laws are disjoint and nothing needs to be raised.

        Args:
            epsilon: The ε of the divergence.

        Returns:
            A pair whose divergence at ε is an upper bound.
        """
        if not self._may_raise_q1:
            return exact_pair(self._extremes, symmetric=self.is_symmetric)
        return HidingPair(_ReducedClasses(self, epsilon), self.is_symmetric)

    @property
    def _extremes(self) -> list[ExactClass]:
        """The classes of the decomposition: either extreme part, and the common one."""
        r0, r1, shared = self.hiding
        return [(self.p_alpha, self.alpha, r0), (self.alpha, self.p_alpha, r1), (self.gamma, self.gamma, shared)]

    @property
    def _may_raise_q1(self) -> bool:
        _, q1, q_common = self.ratios
        return q_common > q1 and not self.is_disjoint

    def raised_q1(self, epsilon: float) -> arb | None:
        """Returns the least q1 for which the reduction grows with β at this ε, or None if q1 suffices.

        Args:
            epsilon: The ε of the divergence.

        Returns:
            A ball at the working precision, or None.
        """
        _, q1, q_common = self.ratios
        ratio = arb(epsilon).exp()
        inverse_p = arb(0) if math.isinf(self.p) else 1 / arb(self.p)
        needed = arb(q_common) * (ratio - 1) / (ratio - inverse_p)
        return None if needed <= arb(q1) else needed.max(arb(q1))

    def published_pair(self) -> HidingPair:
        """Returns the published pair, in which the common part hides among all the rests; for reproduction.

        Theorem: [VR] Theorem 4.2.
        Requires: r0 + r1 ≤ 1, which the constructor's stronger condition implies.
        Returns: a pair whose divergence is an upper bound only where ``has_no_common_part``.
        """
        return HidingPair(_PublishedClasses(self), self.is_symmetric)


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
    """Returns Σ (first − second)²/hiding: the information in a message in the limit of many users."""
    return sum(((first - second) ** 2 / hiding for first, second, hiding in classes), fmpq(0))


def _is_symmetric(classes: Sequence[ExactClass]) -> bool:
    return sorted(classes) == sorted((second, first, hiding) for first, second, hiding in classes)


def _check_ratio(name: str, value: object) -> float:
    number = validation.real(_VARIATION_RATIO, name, value, up=True)
    if not 1.0 <= number < math.inf:
        raise ValueError(f"{_VARIATION_RATIO}: {name} must be at least 1 and finite, got {number!r}.")
    return number


def _check_ratios(value: object) -> tuple[float, float]:
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise ValueError(f"{_VARIATION_RATIO}: q must be one number or the pair (q0, q1), got {value!r}.")
        return _check_ratio("q0", value[0]), _check_ratio("q1", value[1])
    number = _check_ratio("q", value)
    return number, number


# --- Approximate LDP ---


@dataclass(frozen=True)
class ApproximateLDP(Randomizer, HasTails, ValueObject):
    """Any randomizer whose message alone is (ε0, δ0)-private, for every two inputs.

    Shuffled among n, δ0 counts about twice, whatever n is: δ = 1e-6 can be reached with δ0 = 1e-7.

    Args:
        epsilon: ε0, above 0 and finite.
        delta: δ0, above 0 and at most (1 − e^−ε0)/4.

    Raises:
        ValueError: If a number is out of range.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.ApproximateLDP(epsilon=1.0, delta=1e-9), users=10_000, bound="all-crowds")
    >>> f"{curve.epsilon(delta=1e-6).upper:.4f}"
    '0.0380'
    """

    epsilon: float = field(metadata=validation.checked(validation.positive_finite, up=True))
    delta: float = field(metadata=validation.checked(validation.open_probability))

    def __post_init__(self) -> None:
        validation.check_fields(self)
        most = self.largest_delta(self.epsilon)
        if self.delta > most:
            raise ValueError(
                f"ApproximateLDP: delta must be at most (1 - exp(-epsilon))/4 = {most:.6g} for epsilon = "
                f"{self.epsilon!r}, got {self.delta!r}; more of it needs a larger epsilon."
            )

    @staticmethod
    def largest_delta(epsilon: float) -> float:
        """Returns the largest δ0 for which the theorem holds, rounded down.

        Args:
            epsilon: ε0.

        Returns:
            (1 − e^−ε0)/4.
        """
        with precision(BITS):
            return round_down((1 - (-arb(epsilon)).exp()) / 4)

    @cached_property
    def ratio(self) -> fmpq:
        """e^ε0, rounded up."""
        return to_rational(VariationRatio.from_ldp(self.epsilon).p)

    @property
    def has_tails(self) -> bool:
        return True

    @property
    def covered_randomizers(self) -> str:
        return f"any ({format_exact(self.epsilon)}, {format_exact(self.delta)})-LDP randomizer"

    def truncate_tails(self, share: float) -> TruncatedRandomizer:
        """Returns the randomizer with all ratios above e^ε0 cut.

        Args:
            share: Ignored: δ0 prescribes the cut.

        Returns:
            The truncated randomizer.
        """
        del share
        return TruncatedLDP(self)

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable("ApproximateLDP", "delta is above 0: no ratios bound its laws.")

    def blankets(self) -> Sequence[HidingPair]:
        """Returns no pairs: parameters do not determine a law."""
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        """Returns the attacks on ε0-LDP randomizers, which are (ε0, δ0)-LDP as well."""
        return VariationRatio.from_ldp(self.epsilon).attacks()


@dataclass(frozen=True)
class TruncatedLDP(TruncatedRandomizer, ValueObject):
    """An (ε0, δ0)-LDP randomizer where all ratios above e^ε0 are cut, for one other user after another.

    Theorem: absent user with δ0 (docs/crowds.md): D ≤ Σ_h γ(1−γκ)^h·(U(M−h) + δ0·(1+e^ε)) + (1−γκ)^M, κ = 1 − 2δ0.
    Requires: δ0 ≤ (1 − e^−ε0)/4.
    """

    original: ApproximateLDP

    def truncation_delta(self, epsilon: float) -> float:
        """Returns δ0·(1+e^ε)/(1−2δ0), rounded up."""
        with precision(BITS):
            delta = arb(self.original.delta)
            return round_up(delta * (1 + arb(epsilon).exp()) / (1 - 2 * delta))

    def variation_ratio(self) -> VariationRatio:
        return self.original.variation_ratio()

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()

    def other_users(self) -> Sequence[OtherUsers]:
        return (other_users_from_truncated_ratios(self.original.ratio, 2 * to_rational(self.original.delta)),)
