"""``Crowd``: users of several groups in one shuffle, and the privacy curve of a user of each group.

The bound is the absent user with weights (docs/crowds.md): with ρ_i ≥ 0 for each other user i, all of whose laws are at
least γ times one common law, let the absent user be i with probability ρ_i/Σρ, and draw the lost users in the same way:

    D ≤ Σ_h γ(1−γ)^h·U(h) + (1−γ)^M,   U(h) = max of E(Σ ρ_i·G_i)_+/Σρ over all datasets and all sets of h lost users.

U grows with h: Σρ_i·G_i/Σρ is the mean of the same expression with each one of them left out. The compositions (how
many users of each group hold which value, and how many of each group are lost) lie between corners in which each group
holds one kind of value and one group loses all: ``WorstDatasetMixture`` bounds them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Floats
from shuffledp.bounds.pointwise_minimum import BestCurve, join_sources
from shuffledp.bounds.registry import best_curve
from shuffledp.bounds.worst_dataset_bound import LOST_USERS_SHARPNESS, MIN_OTHERS, ROUNDING_MARGIN, lost_user_steps
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.numerics.contour_integral import phase_factors
from shuffledp.numerics.distributions import Atoms, Bracket, FiniteLaw
from shuffledp.numerics.roots import invert
from shuffledp.numerics.worst_case_positive_part import SHARPNESS, WorstDatasetMixture
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, CurveSource, InterpolationPoints, PrivacyCurve
from shuffledp.privacy.dominating_pairs import ExactClass, HidingPair, MixedOtherUsers
from shuffledp.privacy.lower_bounds import AttackCurve
from shuffledp.privacy.randomizer_interface import HasMixedUsers, Randomizer

# --- The exact law of a sum of integer scores ---
# Each of many independent users has a score with the law of their group; one more user's score has the law ``first`` or
# ``second``. The sum modulo any length is a function of all scores, so that the divergence between its two laws is
# attained by a test.
# The laws come from one Fourier transform in floats, whose errors are bounded:
# 1. Each probability is off by a relative 2^-51: by the χ²-divergence of products the n-fold law is off by at most
# √n·2^-50 in total variation, and its mass, which need not be 1 in floats, by a factor within 1 ± n·2^-49.
# 2. Each value Π_g φ_g^{n_g} is computed from log φ = ½·log1p(2a + a² + b²) + i·atan2(b, 1 + a), φ − 1 = a + ib = Σ
# r·(e^(−iθs) − 1): the terms are off by a few units of θ|s|, hence log φ by at most 64 units of θ·E|s| where |φ| ≥ 1/2;
# elsewhere the power itself is off by at most 16n·2^(1−n) units.
# 3. The transform itself is off by at most 8·log₂(length) units, relative, in the root mean square.


UNIT_ROUNDOFF = 2.0**-53
LENGTH_DEVIATIONS = 40.0
"""Standard deviations of the sum that the length covers."""
MAX_LENGTH = 1 << 22
SCORE_SUM_METHOD = "sum of scores"
MIN_LOG_MODULUS = math.log(0.5)
Complexes = NDArray[np.complex128]


class ScoreLaw(NamedTuple):
    """The law of one user's score: integers and their probabilities, each to a relative 2^-51."""

    values: tuple[int, ...]
    chances: tuple[float, ...]


@dataclass(frozen=True)
class ScoreSum:
    """The divergence between the two laws of the sum, as a function of ε."""

    first: ScoreLaw
    second: ScoreLaw
    group_laws: tuple[tuple[ScoreLaw, int], ...]

    @cached_property
    def _deviation(self) -> float:
        return math.sqrt(sum(count * _variance(scores) for scores, count in self.group_laws))

    @cached_property
    def _laws(self) -> tuple[Floats, Floats, float]:
        """The two laws of the sum, and a bound of their total error."""
        reach = max(abs(value) for scores in self._all_laws for value in scores.values)
        length = 1 << math.ceil(math.log2(LENGTH_DEVIATIONS * self._deviation + 4 * reach + 64))
        if length > MAX_LENGTH:
            raise ValueError(f"ScoreSum: expected a sum that spreads over at most {MAX_LENGTH} numbers.")
        angles = 2 * math.pi * np.arange(length // 2 + 1) / length
        logs, doubt, small = np.zeros_like(angles, dtype=np.complex128), np.full_like(angles, 64.0), 0.0
        for scores, count in self.group_laws:
            log = _log_transform(scores, angles)
            logs += count * log
            doubt += 64 * count * angles * float(np.dot(np.abs(scores.values), scores.chances))
            small += 16 * count * 2.0 ** (1 - min(count, 1000)) * float((log.real < MIN_LOG_MODULUS).sum())
        # The sum is counted from its mean: a rotation by an integer.
        mean = round(sum(count * _mean(scores) for scores, count in self.group_laws))
        turns = np.mod(mean * np.arange(length // 2 + 1), length) * (2 * math.pi / length)
        size = np.exp(logs.real)
        total = size * phase_factors(logs.imag - turns)
        first, second = (np.fft.irfft(total * _transform(one, angles), length) for one in (self.first, self.second))
        rounding = 2 * (float((size * doubt).sum()) + small) * UNIT_ROUNDOFF
        norm = math.sqrt(max(float((law**2).sum()) for law in (first, second)))
        rounding += 8 * math.log2(length) * UNIT_ROUNDOFF * math.sqrt(length) * norm
        users = sum(count for _, count in self.group_laws)
        return first, second, rounding + math.sqrt(users) * 2.0**-50 + 8 * UNIT_ROUNDOFF

    @property
    def _all_laws(self) -> Sequence[ScoreLaw]:
        return [self.first, self.second, *(scores for scores, _ in self.group_laws)]

    def bracket(self, epsilon: float) -> Bracket:
        first, second, off = self._laws
        ratio = math.exp(epsilon)
        value = float(np.maximum(first - ratio * second, 0.0).sum())
        # A sum of non-negative floats is off by less than its length in units.
        users = sum(count for _, count in self.group_laws)
        doubt = off * (1 + ratio) * 1.01 + value * (users * 2.0**-48 + 64 * UNIT_ROUNDOFF)
        return Bracket(arb(max(0.0, value - doubt)), arb(min(1.0, value + doubt)), SCORE_SUM_METHOD)

    def log_estimate(self, epsilon: float) -> float:
        return self.bracket(epsilon).log_lower()

    def natural_scale(self) -> float:
        return max(abs(_mean(self.first) - _mean(self.second)) / max(self._deviation, 1e-300), 1e-12)


def _mean(scores: ScoreLaw) -> float:
    return float(np.dot(scores.values, scores.chances))


def _variance(scores: ScoreLaw) -> float:
    values = np.array(scores.values, dtype=np.float64) - _mean(scores)
    return float(np.dot(values**2, scores.chances))


def _log_transform(scores: ScoreLaw, angles: Floats) -> Complexes:
    """Returns log E e^(−i·angle·score)."""
    real, imaginary = np.zeros_like(angles), np.zeros_like(angles)
    for value, chance in zip(scores.values, scores.chances, strict=True):
        real -= 2 * chance * np.sin(angles * value / 2) ** 2
        imaginary -= chance * np.sin(angles * value)
    squared = np.maximum(real * (2 + real) + imaginary**2, -1.0)
    with np.errstate(divide="ignore"):
        size = np.maximum(0.5 * np.log1p(squared), -1e4)
    return np.asarray(size + 1j * np.arctan2(imaginary, 1 + real))


def _transform(scores: ScoreLaw, angles: Floats) -> Complexes:
    values, chances = np.array(scores.values, dtype=np.float64), np.array(scores.chances)
    return np.asarray(phase_factors(-np.multiply.outer(angles, values)) @ chances)


MIXED_POPULATION_METHOD = "mixed populations"
SHARE_DENOMINATOR = 2**30
"""Shares of the groups are rounded down to multiples of one part in this."""
STEPS_PER_BLOCK = 8
"""Number of steps of lost users that are bounded together, with the corners of the last of them."""
MAX_CORNERS = 400
PROFILE_SHARPNESS = 5e-4
"""Sharpness of each of many values."""
MAX_DIRECT_EVALUATIONS, INTERPOLATION_STEP, MAX_INTERPOLATION_POINTS = 16, 0.125, 200
SCORE_LEVELS = 40
"""Number of levels of a score, if messages have more than one likelihood ratio."""
ATTACKS_PER_PAIR, MAX_ATTACKS = 2, 8
"""Number of datasets to attack for each pair of inputs, and in all."""
SPREAD_BITS = 96


@dataclass(frozen=True)
class MixedDivergence(ValueObject):
    """Upper bound of the divergence between one user's two inputs, among others of several groups.

    Theorem: absent user with weights (docs/crowds.md): D ≤ Σ_h γ(1−γ)^h·U(h) + (1−γ)^M, U(h) = max of E(Σ ρ_i·G_i)_+/Σρ
    over all datasets and all sets of h lost users.
    Requires: every law that a user of each group may have, and one law of which all of these contain at least a share
    γ.
    Returns: a certified upper bound; the lower side is attained by a sum of scores on one dataset.
    """

    others: MixedOtherUsers
    counts: tuple[int, ...]
    """Number of others of each group."""
    colluding: int = 0
    """Number of others, of any groups, who hide nobody."""

    # --- Upper bound ---

    @property
    def gamma(self) -> float:
        return min(self.others.gamma)

    @property
    def _hiding_count(self) -> int:
        """The number of others who hide."""
        return sum(self.counts) - self.colluding

    @cached_property
    def spreads(self) -> Floats:
        """For each group, the largest Σ (first − second)²/hiding of its kinds of values."""
        return np.array([max(_spread(kind) for kind in kinds) for kinds in self.others.groups])

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """ρ of each group, the largest 1: groups that spread least hide best. The bound holds for any weights."""
        shares = self.spreads.min() / self.spreads
        return tuple(float(np.float32(share)) for share in shares)

    def laws(self, epsilon: float) -> list[FiniteLaw]:
        """Returns the laws of ρ·G, group after group."""
        return [
            FiniteLaw(_ScaledAtoms(kind.law(epsilon), weight))
            for kinds, weight in zip(self.others.groups, self.weights, strict=True)
            for kind in kinds
        ]

    def corners(self, lost: int) -> Floats:
        """Returns the shares of each law at the corners of all compositions with at most ``lost`` lost users.

        The share of each group is at least what it is if all lost users are of that group, and this minimum falls with
        the number lost. The remainder may all be of one group, and each group may hold one kind of value.
        """
        left = sum(self.counts) - lost
        least = [max(0, count - lost) * SHARE_DENOMINATOR // left for count in self.counts]
        sizes = [len(kinds) for kinds in self.others.groups]
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        rows = []
        for largest in range(len(sizes)):
            shares = [low + (SHARE_DENOMINATOR - sum(least)) * (group == largest) for group, low in enumerate(least)]
            for held in itertools.product(*map(range, sizes)):
                row = np.zeros(sum(sizes))
                row[starts + np.array(held)] = np.array(shares) / SHARE_DENOMINATOR
                rows.append(row)
        return np.unique(np.array(rows), axis=0)

    def bracket(self, epsilon: float, sharpness: float = SHARPNESS) -> Bracket:
        if (epsilon, sharpness) not in self._brackets:
            self._brackets[epsilon, sharpness] = self._bracket(epsilon, sharpness)
        return self._brackets[epsilon, sharpness]

    @cached_property
    def _brackets(self) -> dict[tuple[float, float], Bracket]:
        return {}

    def _bracket(self, epsilon: float, sharpness: float) -> Bracket:
        laws = self.laws(epsilon)
        if not any(law.may_be_positive for law in laws):
            beyond = lost_user_steps(self.gamma, self._hiding_count, -math.inf)[2]
            return Bracket(arb(0), arb(beyond), MIXED_POPULATION_METHOD)
        sharp = max(sharpness, LOST_USERS_SHARPNESS / (self.gamma * self._hiding_count))
        chances, counts, total = lost_user_steps(self.gamma, self._hiding_count, self.log_estimate(epsilon))
        for start in range(0, len(counts), STEPS_PER_BLOCK):
            each = counts[start : start + STEPS_PER_BLOCK]
            corners = self.corners(sum(self.counts) - int(each.min()))
            logs, _, _ = WorstDatasetMixture(laws, sharp, corners).bound_worst_mixture(each)
            total += self._weighted_delta(chances[start : start + STEPS_PER_BLOCK], each, logs)
        return Bracket(arb(self.attack_delta(epsilon)).min(arb(total)), arb(min(1.0, total)), MIXED_POPULATION_METHOD)

    def is_quickly_within(self, level: float, epsilon: float) -> bool:
        """Returns True if one bound for all datasets together already shows that δ is at most ``level``."""
        laws = self.laws(epsilon)
        if not (level > 0 and any(law.may_be_positive for law in laws)):
            return False
        chances, counts, beyond = lost_user_steps(self.gamma, self._hiding_count, math.log(level))
        corners = self.corners(sum(self.counts) - int(counts.min()))
        logs = WorstDatasetMixture(laws, sharpness=1e-3).log_bounds(corners, counts)
        return self._weighted_delta(chances, counts, logs) + beyond <= level

    def _weighted_delta(self, chances: Floats, counts: Floats, logs: Floats) -> float:
        """Returns Σ chance·E(ΣρG)_+/Σρ from the logarithms of E(ΣρG)_+/count.

        The remaining weight Σρ enters by a lower bound.
        """
        whole = math.fsum(weight * count for weight, count in zip(self.weights, self.counts, strict=True))
        left = whole * (1 - ROUNDING_MARGIN) - (sum(self.counts) - counts)
        if not left.min() > 0:
            return 1.0
        return float(chances @ np.minimum(1.0, np.exp(np.minimum(logs, 700.0)) * counts / left)) * (1 + ROUNDING_MARGIN)

    def log_estimate(self, epsilon: float) -> float:
        if epsilon not in self._estimates:
            laws = self.laws(epsilon)
            corners = self.corners(self.colluding)
            counts = np.array([float(self._hiding_count)])
            logs, _ = WorstDatasetMixture(laws, 1e-3, corners).bound_constant_mixtures(counts)
            first = self._weighted_delta(np.array([1.0]), counts, logs)
            chances, counts, beyond = lost_user_steps(self.gamma, self._hiding_count, math.log(max(first, 1e-300)))
            # With fewer others the sum spreads less and is divided by fewer.
            estimate = float(chances @ (self._hiding_count / counts) ** 0.5) * first + beyond
            self._estimates[epsilon] = math.log(min(1.0, max(1e-300, estimate)))
        return self._estimates[epsilon]

    @cached_property
    def _estimates(self) -> dict[float, float]:
        return {}

    def natural_scale(self) -> float:
        noise = sum(count / spread for count, spread in zip(self.counts, self.spreads, strict=True))
        return 1 / math.sqrt(noise)

    # --- Lower bound ---

    @cached_property
    def attacks(self) -> tuple[ScoreSum, ...]:
        """Tests of message scores on the few worst datasets in which each group holds one kind of value.

        If the kinds of values of all groups distinguish the same messages, in the same order, a message is scored by
        its likelihood difference relative to the dataset; otherwise by its likelihood ratio alone.
        """
        attacks = []
        for dataset in itertools.product(*(self.others.aligned or self.others.groups)):
            groups = [kind.exact for kind in dataset if kind.exact is not None and _covers_all_messages(kind.exact)]
            if len(groups) < len(dataset):
                return ()
            inputs = [[(first, second) for first, second, _ in classes] for classes in groups]
            if all(each == inputs[0] for each in inputs):
                weights = [sum(count * classes[k][2] for classes, count in zip(groups, self.counts, strict=True))
                           for k in range(len(inputs[0]))]  # fmt: skip
                differences = zip(inputs[0], weights, strict=True)
                ratios = [[(first - second) / weight for (first, second), weight in differences]] * len(groups)
            else:
                ratios = [[_likelihood_score(first, second) for first, second, _ in classes] for classes in groups]
            likeliest = max(
                (classes[k][2], row[k]) for classes, row in zip(groups, ratios, strict=True) for k in range(len(row))
            )
            scores = _integer_scores(ratios, likeliest[1])
            if scores is not None:
                attacks.append(self._score_dataset(groups, scores))
        attacks.sort(key=lambda attack: -attack.natural_scale())
        return tuple(attacks[:ATTACKS_PER_PAIR])

    def _score_dataset(self, groups: Sequence[Sequence[ExactClass]], scores: Sequence[Sequence[int]]) -> ScoreSum:
        first, second = (_score_law(scores[0], [chances[place] for chances in groups[0]]) for place in (0, 1))
        laws = [
            _score_law(row, [hiding for _, _, hiding in classes]) for row, classes in zip(scores, groups, strict=True)
        ]
        return ScoreSum(
            first, second, tuple((law, count) for law, count in zip(laws, self.counts, strict=True) if count)
        )

    def attack_delta(self, epsilon: float) -> float:
        """Returns the δ that a test on a constructed dataset attains at ε; colluders and lost users only help it."""
        return max((attack.bracket(epsilon).lower_float() for attack in self.attacks), default=0.0)


@dataclass(frozen=True)
class _ScaledAtoms:
    """The atoms of a law times a positive constant."""

    law: FiniteLaw
    weight: float

    def __call__(self) -> Atoms:
        weight = arb(self.weight)
        return [(value * weight, chance) for value, chance in self.law.atoms()]


def _spread(kind: HidingPair) -> float:
    with precision(SPREAD_BITS):
        gaps = [(c.first - c.second, c.hiding) for c in kind.classes() if not c.hiding.is_zero()]
        return float(sum((gap * gap / hiding for gap, hiding in gaps), arb(0)).mid())


def _covers_all_messages(classes: Sequence[ExactClass]) -> bool:
    """Returns True if others of this kind send every message that user 1 may send."""
    return all(sum(each) == 1 for each in zip(*classes, strict=True))


def _likelihood_score(first: fmpq, second: fmpq) -> fmpq:
    """Returns the evidence of a message for the first input, which is the same for every kind of others."""
    return fmpq(0) if first == second else (first - second) / (first + second)


def _integer_scores(ratios: Sequence[Sequence[fmpq]], start: fmpq) -> list[list[int]] | None:
    """Returns proportional integer scores, relative to ``start`` and without a common divisor; None if all are equal.

    Everybody sends one message, so that the origin of the scores does not matter.
    """
    sizes = {abs(ratio) for row in ratios for ratio in row} - {fmpq(0)}
    if not sizes:
        return None
    unit = _fraction(max(sizes)) / (1 if len(sizes) == 1 else SCORE_LEVELS)
    origin = round(_fraction(start) / unit)
    scores = [[round(_fraction(ratio) / unit) - origin for ratio in row] for row in ratios]
    divisor = math.gcd(*(score for row in scores for score in row))
    return [[score // divisor for score in row] for row in scores] if divisor else None


def _score_law(scores: Sequence[int], chances: Sequence[fmpq]) -> ScoreLaw:
    total = dict.fromkeys(sorted(set(scores)), fmpq(0))
    for score, chance in zip(scores, chances, strict=True):
        total[score] += chance
    return ScoreLaw(tuple(total), tuple(float(_fraction(chance)) for chance in total.values()))


def _fraction(number: fmpq) -> Fraction:
    return Fraction(int(number.p), int(number.q))


@dataclass(frozen=True)
class MixedCurve(PrivacyCurve):
    """Upper bound of the largest divergence of a user of one group over all datasets of all groups."""

    directions: tuple[MixedDivergence, ...]
    """The widest first."""
    largest_epsilon: float

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        return self.directions[0].natural_scale()

    def _epsilon(self, delta: float) -> BoundValue:
        high, vanishes = min(self.largest_epsilon, MAX_EPSILON), self.largest_epsilon <= MAX_EPSILON
        upper = lower = 0.0
        for way in self.directions:
            if upper > 0 and (way.is_quickly_within(delta, upper) or way.bracket(upper).upper <= delta):
                continue
            inverse = invert(way, delta, high, zero_at_high=vanishes)
            upper, lower = max(upper, inverse.upper), max(lower, inverse.lower)
        if math.isinf(upper) and math.isfinite(self.largest_epsilon):
            return self._value(self.largest_epsilon, self.largest_epsilon - lower)
        return self._value(upper, upper - lower if math.isfinite(upper) else math.inf)

    def _delta(self, epsilon: float) -> BoundValue:
        upper, lower = self._worst(epsilon, SHARPNESS)
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def _worst(self, epsilon: float, sharpness: float) -> tuple[float, float]:
        """Returns the largest δ over all directions, as an upper and a lower bound."""
        if epsilon >= self.largest_epsilon:
            return 0.0, 0.0
        point = min(epsilon, MAX_EPSILON)
        upper = lower = 0.0
        for way in self.directions:
            if not way.is_quickly_within(upper, point):
                bracket = way.bracket(point, sharpness)
                upper, lower = max(upper, bracket.upper_float()), max(lower, bracket.lower_float())
        return min(1.0, upper), 0.0 if epsilon > MAX_EPSILON else lower

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        if len(epsilons) > MAX_DIRECT_EVALUATIONS:
            return self._interpolation_points.interpolate(epsilons)
        values = [self._worst(float(epsilon), PROFILE_SHARPNESS) for epsilon in epsilons]
        return np.array([upper for upper, _ in values]), np.array([lower for _, lower in values])

    @cached_property
    def _interpolation_points(self) -> InterpolationPoints:
        step = INTERPOLATION_STEP * self.directions[0].natural_scale()
        return InterpolationPoints.from_function(
            lambda epsilon: self._worst(epsilon, PROFILE_SHARPNESS),
            step,
            self.largest_epsilon,
            MAX_INTERPOLATION_POINTS,
        )


BOUND_NAME = "mixed-crowds"
THEOREM = "absent user with weights: the worst of all mixed crowds (ours)"


def mixed_curve(others: Sequence[MixedOtherUsers], counts: tuple[int, ...], colluding: int) -> MixedCurve | None:
    """Returns the curve of a user among ``counts`` others of each group.

    ``colluding`` of them, of any groups, hide nobody. Returns None if the others are too few, or too different to be
    bounded together.
    """
    hiding = sum(counts) - colluding
    if not others or hiding < MIN_OTHERS or not min(min(each.gamma) for each in others) * hiding > 1:
        return None
    ways = [way for each in others for way in ([each] if each.symmetric else [each, each.swapped()])]
    directions = [MixedDivergence(way, counts, colluding) for way in ways]
    if any(len(way.corners(colluding)) > MAX_CORNERS for way in directions):
        return None
    directions.sort(key=lambda way: -way.natural_scale())
    attacks = tuple(each for way in directions for each in way.attacks)[:MAX_ATTACKS]
    largest = max(way.others.largest_log_ratio() for way in directions)
    attack = AttackCurve((), hiding + 1, attacks) if attacks else None
    source = CurveSource(BOUND_NAME, THEOREM, hiding + 1, guarantee=True, attack=attack)
    return MixedCurve(source, tuple(directions), largest)


# --- Mixed populations ---


@dataclass(frozen=True, init=False)
class Crowd(ValueObject):
    """A population of several groups in one shuffle: the number of users who run each randomizer.

    Groups may have other parameters, other randomizers with the same messages, or opt out.

    Args:
        groups: Number of users of each mechanism.

    Raises:
        TypeError: If it is not a mapping from mechanisms to numbers.
        ValueError: If a number is out of range, groups cannot hide each other, or nobody answers.

    >>> import shuffledp as sdp
    >>> crowd = sdp.Crowd({sdp.KRR(1.0, options=16): 60_000, sdp.KRR(3.0, options=16): 40_000})
    >>> crowd.users
    100000
    """

    groups: tuple[tuple[HasMixedUsers, int], ...] = field()

    def __init__(self, groups: Mapping[HasMixedUsers, float]) -> None:
        if not isinstance(groups, Mapping) or not groups:
            raise TypeError(
                "Crowd: expected a mapping from mechanisms to numbers of users, such as {KRR(1.0, 16): 900}."
            )
        listed = []
        for group, users in groups.items():
            if not isinstance(group, HasMixedUsers):
                name = type(group).__name__
                raise TypeError(f"Crowd: expected mechanisms, whose messages are known, got {name}; amplify it alone.")
            listed.append((group, validation.count("Crowd", "users", users)))
        (first, _), *rest = listed
        for group, _ in rest:
            if reason := first.distinguishing_reason(group):
                raise ValueError(f"Crowd: expected groups that hide each other, but {reason}; amplify each alone.")
        if not any(isinstance(group, Randomizer) for group, _ in listed):
            raise ValueError("Crowd: expected at least one group that answers, got opt-outs only.")
        object.__setattr__(self, "groups", tuple(listed))

    @property
    def users(self) -> int:
        """The number of all users."""
        return sum(users for _, users in self.groups)


# --- Privacy curves of a mixed population ---


OMITTED_GROUPS = 1
"""Number of groups, out of three or more, left out in turn: the bound may be smaller without users who hide badly."""


@dataclass(frozen=True)
class CrowdCurve(PrivacyCurve):
    """The pointwise largest of the curves of all groups, which holds for everybody.

    ``groups`` has each group that answers, with the curve of its users.
    """

    groups: tuple[tuple[HasMixedUsers, PrivacyCurve], ...]

    @property
    def certified(self) -> bool:
        return all(curve.certified for _, curve in self.groups)

    def group_curve(self, group: HasMixedUsers) -> PrivacyCurve:
        """Returns the curve of a user of one group, or raises ValueError if the group does not answer."""
        for known, curve in self.groups:
            if known == group:
                return curve
        raise ValueError(f"CrowdCurve: expected one of its {len(self.groups)} groups that answer, got {group!r}.")

    def _epsilon(self, delta: float) -> BoundValue:
        return max((curve.epsilon(delta) for _, curve in self.groups), key=lambda value: value.upper)

    def _delta(self, epsilon: float) -> BoundValue:
        return max((curve.delta(epsilon) for _, curve in self.groups), key=lambda value: value.upper)

    def loss_deviation(self) -> float | None:
        return min((one for _, c in self.groups if (one := c.loss_deviation()) is not None), default=None)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        profiles = [curve.profile(epsilons) for _, curve in self.groups]
        return np.max([profile.upper for profile in profiles], axis=0), np.max(
            [profile.lower for profile in profiles], axis=0
        )


def crowd_curve(crowd: Crowd, colluding: int, effort: str) -> CrowdCurve:
    """Returns the curve of everybody in a mixed population, ``colluding`` of whom, of any groups, hide nobody."""
    curves = []
    for number, (group, users) in enumerate(crowd.groups):
        if isinstance(group, Randomizer):
            curves.append((group, _group_curve(crowd, number, group, users, colluding, effort)))
    source = join_sources(tuple(curve for _, curve in curves), crowd.users - colluding)
    joined = CurveSource(
        source.bound, source.theorem, source.messages, source.guarantee, source.note, origin=source.origin,
        attack=_join_attacks([curve for _, curve in curves]), users=crowd.users, colluding=colluding,
    )  # fmt: skip
    return CrowdCurve(joined, tuple(curves))


def _group_curve(
    crowd: Crowd, number: int, group: HasMixedUsers, users: int, colluding: int, effort: str
) -> PrivacyCurve:
    """Returns the smallest of the curves among the user's own group, among all groups, and among all but one."""
    assert isinstance(group, Randomizer)
    alone = best_curve(group, max(1, users - colluding), effort)
    counts = [each - (place == number) for place, (_, each) in enumerate(crowd.groups)]
    mixed_curves = []
    for subset in _group_subsets(len(counts), number):
        present = [place for place in subset if counts[place] > 0]
        others = group.mixed_other_users([crowd.groups[place][0] for place in present])
        curve = mixed_curve(others, tuple(counts[place] for place in present), colluding)
        if curve is not None:
            mixed_curves.append(curve)
    if not mixed_curves:
        return alone.with_users(crowd.users, colluding)
    curves = (*(mixed_curves), *(alone.curves if isinstance(alone, BestCurve) else (alone,)))
    rejected = alone.rejected if isinstance(alone, BestCurve) else ()
    best = BestCurve(join_sources(curves, crowd.users - colluding), curves, rejected)
    # Only an attack on a dataset of all groups is one on this population.
    attack = mixed_curves[0].source.attack if mixed_curves[0].messages == crowd.users - colluding else None
    return best.with_attack(attack).with_users(crowd.users, colluding)


def _group_subsets(groups: int, number: int) -> list[tuple[int, ...]]:
    """Returns all groups and, if there are three or more, all but one of the others."""
    everybody = tuple(range(groups))
    if groups < 3:
        return [everybody]
    subsets = combinations(everybody, groups - OMITTED_GROUPS)
    return [everybody, *(subset for subset in subsets if number in subset)]


def _join_attacks(curves: list[PrivacyCurve]) -> AttackCurve | None:
    """Returns the attacks on users of any group as one."""
    attacks = [curve.source.attack for curve in curves]
    known = [attack for attack in attacks if isinstance(attack, AttackCurve)]
    if not known:
        return None
    return AttackCurve((), known[0].messages, tuple(way for attack in known for way in attack.extra_divergences))
