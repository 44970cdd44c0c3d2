"""Amplification of metric privacy by shuffling: published closed forms, exact clones, and numeric bounds.

``Amplification`` is one theorem, ``AmplifiedMetric`` the distances that shuffling leaves by such a theorem,
``MechanismMetric`` those of one mechanism, and ``PairProofs`` proves that distances meet targets.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Floats
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.metric_noise_laws import AnyNoise, MetricNoise
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.bounds.worst_dataset_bound import MIN_OTHERS, WorstDatasetCurve
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.numerics.contour_integral import log_positive_part_means
from shuffledp.numerics.roots import Indices, find_crossings
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.metric_space import (
    DistanceMatrix,
    PairDistances,
    Space,
    worst_pair_distances,
)
from shuffledp.privacy.randomizer_interface import HasNeighbours, Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio

# --- Pairs of inputs as arrays ---


@dataclass(frozen=True, eq=False)
class PairDistanceArrays:
    """The fields of ``PairDistances`` as arrays, with one element for each pair."""

    distance: Floats
    farthest_from_first: Floats
    farthest_from_second: Floats
    clone_sum: Floats
    diameter: Floats

    @classmethod
    def from_space(cls, space: DistanceMatrix) -> PairDistanceArrays:
        """Returns every two inputs, in the order of ``space.pairs()``."""
        matrix, far = space.matrix, space.eccentricity
        first, second = np.triu_indices(space.size, 1)
        distance = matrix[first, second]
        clones = clone_sums(matrix)[first, second]
        return cls(distance, far[first], far[second], clones, np.full_like(distance, space.diameter))

    def select(self, places: Any) -> PairDistanceArrays:
        """Returns some of the pairs."""
        return PairDistanceArrays(*(getattr(self, field.name)[places] for field in fields(self)))


def clone_sums(matrix: Floats) -> Floats:
    """Returns R of every two inputs: the largest e^D(a,c) + e^D(b,c) over all c."""
    grown = np.exp(matrix)
    return np.stack([(row + grown).max(axis=1) for row in grown])


# --- Variation-ratio reduction for many parameters in floats (for searching, never a guarantee) ---


COMMON_PART_TOLERANCE = 1e-14
"""A common part below this is a rounding error of 0."""


def log_divergences(log_p: Floats, beta: Floats, log_q0: Floats, log_q1: Floats, epsilon: Floats, count: int) -> Floats:
    """Returns about log δ(ε) of ``count`` messages, the larger of both directions, with ``VariationRatio`` parameters.

    ``q_common`` is the larger of q0 and q1. NaN where floats are not precise enough.
    """
    forward = _law_arrays(log_p, beta, log_q0, log_q1, epsilon)
    even = log_q0 == log_q1
    backward = _law_arrays(*(each[~even] for each in (log_p, beta, log_q1, log_q0, epsilon)))
    values, weights = (np.concatenate(both) for both in zip(forward, backward, strict=True))
    if not weights[:, 2].any():
        values, weights = values[:, :2], weights[:, :2]
    logs = log_positive_part_means(values, weights, count) - math.log(count)
    result = logs[: len(even)]
    result[~even] = np.maximum(result[~even], logs[len(even) :])
    return result


def _law_arrays(log_p: Floats, beta: Floats, log_q0: Floats, log_q1: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
    """Returns the nonzero values of G and their weights: a row for each law."""
    ratio, inverse_p = np.exp(epsilon), np.exp(-log_p)
    extreme = beta / -np.expm1(-log_p)
    common = 1 - beta / np.tanh(log_p / 2)
    common = np.where(common > COMMON_PART_TOLERANCE, common, 0.0)
    q0, q1 = np.exp(log_q0), np.exp(log_q1)
    q_common = np.maximum(q0, q1)
    q1 = np.maximum(q1, q_common * np.expm1(epsilon) / (ratio - inverse_p))
    values = (-q0 * np.expm1(epsilon - log_p), -q1 * (ratio - inverse_p), -q_common * np.expm1(epsilon))
    weights = (extreme / q0, extreme / q1, common / q_common)
    return np.stack(values, axis=1), np.stack(weights, axis=1)


AMPLIFICATION_BITS = 192
ESTIMATE_MARGIN = 5e-5
"""Added to an estimate of log δ, so that few distances found with it have to be lowered again: a little more than the
width of the quick proof. Not more, because some distances change log δ by only a hundredth of their own change.
"""
CONSTANT_DATASET_ESTIMATE_MARGIN = 1e-3
"""The same where constant datasets stand for all."""
GUESS_TOLERANCE = 1e-6
"""Relative width to which an ε is searched in floats before it is proved."""
ROUNDING_MARGIN = 1e-9
"""Relative amount by which a closed form in floats is raised."""


@dataclass(frozen=True)
class Amplification(ABC):
    """A theorem that bounds the distance of two inputs after shuffling."""

    name: ClassVar[str]
    theorem: ClassVar[str]
    used_distances: ClassVar[tuple[str, ...]]
    """The numbers of a pair that the theorem uses: field names of ``PairDistances``."""

    @property
    def is_uniform(self) -> bool:
        """True if it uses the diameter of the space for every pair, as the solvers of the paper do."""
        return "diameter" in self.used_distances

    def check_space(self, who: str, space: Space) -> None:
        """Raises ValueError if the theorem does not cover the space; by default it covers all.

        Args:
            who: Caller's name, at the beginning of the error message.
            space: The space of inputs.

        Raises:
            ValueError: If the theorem does not cover the space.
        """
        del who, space

    def epsilon(self, pair: PairDistances, users: int, delta: float) -> BoundValue:
        """Returns an ε for which two inputs are (ε, δ)-indistinguishable.

        Args:
            pair: The distances around the two inputs.
            users: Number of shuffled messages.
            delta: The δ of the statement.

        Returns:
            A certified upper bound, never above the local distance.
        """
        if pair.distance == 0.0:
            return self._value(0.0, 0.0, delta)
        upper, slack = self._epsilon(pair, users, delta)
        if upper >= pair.distance:
            return self._value(pair.distance, max(0.0, slack - (upper - pair.distance)), delta)
        return self._value(upper, slack, delta)

    def excess(self, pair: PairDistances, users: int, delta: float, target: float) -> float:
        """Returns a number that is at most 0 exactly if the pair is proved to meet its target.

        Args:
            pair: The distances around the two inputs.
            users: Number of shuffled messages.
            delta: The δ of the statement.
            target: The ε to prove.

        Returns:
            At most 0 exactly where the two inputs are proved (target, δ)-indistinguishable; it grows with the
            distances.
        """
        if pair.distance <= target:
            return -math.inf
        return self._excess(pair, users, delta, target)

    def _excess(self, pair: PairDistances, users: int, delta: float, target: float) -> float:
        return self._epsilon(pair, users, delta)[0] - target

    def prove_epsilon(self, pair: PairDistances, users: int, delta: float, target: float, guess: float) -> float:
        """Returns a proved ε that is at most the target.

        Args:
            pair: The distances around the two inputs.
            users: Number of shuffled messages.
            delta: The δ of the statement.
            target: The largest ε to accept.
            guess: An ε, found in floats, that is likely to be provable.

        Returns:
            An ε with which the two inputs are proved (ε, δ)-indistinguishable; infinity if no ε up to the target is
            proved.
        """
        del guess
        upper = self.epsilon(pair, users, delta).upper
        return upper if upper <= target else math.inf

    # --- Estimates in floats, for searching ---

    def estimate_excesses(self, pairs: PairDistanceArrays, users: int, delta: float, targets: Floats) -> Floats:
        """Estimates the excess of many pairs in floats, rather too large than too small.

        Args:
            pairs: The distances around the inputs of each pair.
            users: Number of shuffled messages.
            delta: The δ of the statement.
            targets: The ε to prove, for each pair.

        Returns:
            About the excess of each pair; infinity where floats are not precise enough.
        """
        result = np.full(len(targets), -np.inf)
        (far,) = np.nonzero(pairs.distance > targets)
        with np.errstate(all="ignore"):
            result[far] = self._estimate_excesses(pairs.select(far), users, delta, targets[far])
        return np.where(np.isnan(result), np.inf, result)

    @abstractmethod
    def _estimate_excesses(self, pairs: PairDistanceArrays, users: int, delta: float, targets: Floats) -> Floats:
        """Estimates the excess for distances above their targets; NaN where floats are not precise enough."""

    def guess_epsilons(self, pairs: PairDistanceArrays, users: int, delta: float) -> Floats:
        """Estimates the provable ε of many pairs in floats.

        Args:
            pairs: The distances around the inputs of each pair.
            users: Number of shuffled messages.
            delta: The δ of the statement.

        Returns:
            The ``guess`` of each pair for ``prove_epsilon``.
        """
        del users, delta
        return pairs.distance

    # --- The theorem ---

    @abstractmethod
    def _epsilon(self, pair: PairDistances, users: int, delta: float) -> tuple[float, float]:
        """Returns the theorem's value and its slack, for a positive distance; infinity where it does not apply."""

    def _value(self, upper: float, slack: float, delta: float) -> BoundValue:
        return BoundValue(upper, slack, self.name, self.theorem, certified=True, guarantee=True, delta=delta)


class _ClosedFormAmplification(Amplification):
    """A theorem of the form log(1 + tanh(D/2)·K) with a factor K of R, n and δ."""

    used_distances = ("distance", "clone_sum")

    def _epsilon(self, pair: PairDistances, users: int, delta: float) -> tuple[float, float]:
        with precision(AMPLIFICATION_BITS):
            factor = self.factor(self.clone_ratio(pair), users, delta)
            if factor is None:
                return math.inf, 0.0
            value = round_up((1 + (arb(pair.distance) / 2).tanh() * factor).log())
        return value, math.ulp(value)

    def _estimate_excesses(self, pairs: PairDistanceArrays, users: int, delta: float, targets: Floats) -> Floats:
        numbers, places = np.unique(getattr(pairs, self.used_distances[-1]), return_inverse=True)
        with precision(AMPLIFICATION_BITS):
            factors = [self.factor(self._clone_ratio_from(arb(number)), users, delta) for number in numbers.tolist()]
        factor = np.array([math.inf if each is None else float(each.mid()) for each in factors])[places]
        return np.asarray(np.log1p(np.tanh(pairs.distance / 2) * factor) * (1 + ROUNDING_MARGIN) - targets)

    def clone_ratio(self, pair: PairDistances) -> arb:
        """Returns R: the inverse of half the probability that another user's message is a clone of user 1's."""
        return self._clone_ratio_from(arb(getattr(pair, self.used_distances[-1])))

    def _clone_ratio_from(self, number: arb) -> arb:
        """Returns R from the second number that the theorem uses: R itself, or the diameter."""
        return 2 * number.exp() if self.is_uniform else number

    @abstractmethod
    def factor(self, clones: arb, users: int, delta: float) -> arb | None:
        """Returns K as a ball, or None where the theorem does not apply."""


class Theorem1(_ClosedFormAmplification):
    """Amplification of metric privacy by shuffling.

    Theorem: [MDP] Theorem 1: log(1 + tanh(D/2)·(2√(ΩL/2) + 1)/(Ω/2 − √(ΩL/2))), L = log(4/δ), π = 2/R_ab,
    Ω = (n−1)π − √(3(n−1)πL).
    Requires: Ω > 2L; else the distance itself.
    Returns: a certified upper bound, never above the local distance.
    Deviates: the weight is tanh(D/2) (docs/errata.md, MD-1).
    """

    name = "theorem-1"
    theorem = "[MDP] Theorem 1"

    def factor(self, clones: arb, users: int, delta: float) -> arb | None:
        log, chance, others = (4 / arb(delta)).log(), 2 / clones, arb(users - 1)
        mean = others * chance
        omega = mean - (3 * mean * log).sqrt()
        if not omega > 2 * log:
            return None
        root = (omega * log / 2).sqrt()
        return (2 * root + 1) / (omega / 2 - root)


class Corollary1(Theorem1):
    """Theorem 1 with one number R for all pairs.

    Theorem: [MDP] Corollary 1: Theorem 1 with R = 2e^D_max.
    Requires: Ω > 2L; else the distance itself.
    Returns: a certified upper bound, never below Theorem 1's.
    """

    name = "corollary-1"
    theorem = "[MDP] Corollary 1"
    used_distances = ("distance", "diameter")


class Corollary2(_ClosedFormAmplification):
    """The simplified form of Theorem 1.

    Theorem: [MDP] Corollary 2: log(1 + 8·tanh(D/2)(√(RL/(2(n−1))) + R/(2(n−1)))).
    Requires: n ≥ 8LR; else the distance itself.
    Returns: a certified upper bound, never above the local distance.
    """

    name = "corollary-2"
    theorem = "[MDP] Corollary 2"

    def factor(self, clones: arb, users: int, delta: float) -> arb | None:
        log = (4 / arb(delta)).log()
        if not arb(users) >= 8 * log * clones:
            return None
        share = clones / (2 * arb(users - 1))
        return 8 * ((share * log).sqrt() + share)


class UniformCorollary2(Corollary2):
    """The simplified form with one number R for all pairs, as the solver of the paper uses it.

    Theorem: [MDP] Corollary 2 with R = 2e^D_max (Algorithm 3).
    Requires: n ≥ 16L·e^D_max; else the distance itself.
    Returns: a certified upper bound, never below Corollary 2's.
    """

    name = "corollary-2-uniform"
    theorem = "[MDP] Corollary 2, R = 2·exp(largest distance)"
    used_distances = ("distance", "diameter")


class _NumericAmplification(Amplification):
    """A theorem that gives variation-ratio parameters for a pair, evaluated numerically exactly."""

    @abstractmethod
    def parameters(self, pair: PairDistances) -> VariationRatio:
        """Returns the parameters of two inputs at a positive distance."""

    def curve(self, pair: PairDistances, users: int) -> PrivacyCurve:
        """Returns the privacy curve of the pair."""
        return amplify(self.parameters(pair), users, bound="variation-ratio")

    def _epsilon(self, pair: PairDistances, users: int, delta: float) -> tuple[float, float]:
        value = self.curve(pair, users).epsilon(delta)
        return value.upper, value.slack

    def _excess(self, pair: PairDistances, users: int, delta: float, target: float) -> float:
        """Evaluates δ once at the target, without a search."""
        upper = self.curve(pair, users).delta(target).upper
        if upper <= delta:
            return min(0.0, math.log(upper / delta)) if upper > 0 else -math.inf
        return max(math.log(upper / delta), math.ulp(1.0))

    def prove_epsilon(self, pair: PairDistances, users: int, delta: float, target: float, guess: float) -> float:
        """Tries δ at the guess, then at the target, and last the sharper value there."""
        most = min(target, pair.distance)
        if most == pair.distance <= guess:
            return most
        curve = self.curve(pair, users)
        for epsilon in sorted({min(guess, most), most}):
            if self._quick_delta(curve, epsilon) <= delta:
                return epsilon
        return most if self.excess(pair, users, delta, most) <= 0 else math.inf

    def _quick_delta(self, curve: PrivacyCurve, epsilon: float) -> float:
        """Returns a proved δ at ε, sharp enough for a guess."""
        return float(curve.profile([epsilon]).upper[0])

    @abstractmethod
    def log_ratios(self, pairs: PairDistanceArrays) -> tuple[Floats, Floats, Floats]:
        """Returns β, log q0 and log q1 of many pairs in floats; log p is their distance."""

    def _estimate_excesses(self, pairs: PairDistanceArrays, users: int, delta: float, targets: Floats) -> Floats:
        log_deltas = log_divergences(pairs.distance, *self.log_ratios(pairs), targets, users)
        return np.asarray(log_deltas - math.log(delta) + ESTIMATE_MARGIN)

    def guess_epsilons(self, pairs: PairDistanceArrays, users: int, delta: float) -> Floats:
        """Returns the ε at which the estimate of δ falls to the requested δ."""

        def room(epsilon: Floats, places: Indices) -> Floats:
            return -self.estimate_excesses(pairs.select(places), users, delta, epsilon)

        _, above = find_crossings(room, np.zeros_like(pairs.distance), pairs.distance, GUESS_TOLERANCE)
        return above


class ExactClone(_NumericAmplification):
    """The clones behind Theorem 1, numerically exact.

    Theorem: [MDP] Supplementary A, Step 2: every other message is a clone of K(a), and of K(b), with probability
    1/R_ab; user 1's is one of the other input's with probability 1/(e^D + 1).
    Requires: R_ab ≥ e^D + 1, which c = a gives.
    Returns: a certified upper bound with its numerical slack.
    """

    name = "clone"
    theorem = "clones of [MDP] Theorem 1, numerically exact"
    used_distances = ("distance", "clone_sum")

    def parameters(self, pair: PairDistances) -> VariationRatio:
        with precision(AMPLIFICATION_BITS):
            ratio = arb(pair.distance).exp()
            hiding = round_up(arb(pair.clone_sum) * ratio / (1 + ratio))
            return VariationRatio(round_up(ratio), round_up((arb(pair.distance) / 2).tanh()), hiding)

    def log_ratios(self, pairs: PairDistanceArrays) -> tuple[Floats, Floats, Floats]:
        log_q = np.log(pairs.clone_sum) - np.log1p(np.exp(-pairs.distance))
        return np.tanh(pairs.distance / 2), log_q, log_q


@dataclass(frozen=True)
class MetricVariationRatio(_NumericAmplification):
    """The sound variation-ratio bound with the distances from the two inputs to all others.

    Theorem: sound reduction [VR §4, corrected] with p = e^D(a,b), q0 = max e^D(a,c), q1 = max e^D(b,c) over all c, and
    the noise's own β (tanh(D/2) for any randomizer).
    Requires: a randomizer that is private for the distances, with total variation at most β.
    Returns: a certified upper bound with its numerical slack.
    """

    noise: MetricNoise = field(default_factory=AnyNoise)

    name = "variation-ratio"
    theorem = "sound variation-ratio reduction [VR §4, corrected] with metric parameters"
    used_distances = ("distance", "farthest_from_first", "farthest_from_second")

    def check_space(self, who: str, space: Space) -> None:
        self.noise.check_space(who, space)

    def parameters(self, pair: PairDistances) -> VariationRatio:
        with precision(AMPLIFICATION_BITS):
            ratio, q0, q1 = (
                round_up(arb(d).exp()) for d in (pair.distance, pair.farthest_from_first, pair.farthest_from_second)
            )
        return VariationRatio(ratio, self.noise.total_variation(pair.distance), (max(q0, ratio), max(q1, ratio)))

    def log_ratios(self, pairs: PairDistanceArrays) -> tuple[Floats, Floats, Floats]:
        return (
            self.noise.estimate_total_variations(pairs.distance),
            pairs.farthest_from_first,
            pairs.farthest_from_second,
        )


class MetricWorstDataset(MetricVariationRatio):
    """The worst of all datasets with the distances from the two inputs to all others.

    Theorem: absent user (docs/crowds.md) for every randomizer with the ratios e^D(a,b), max e^D(a,c), max e^D(b,c), all
    ways, and the noise's own β.
    Requires: a randomizer that is private for the distances, with total variation at most β; more than 16 users, else
    the distance itself.
    Returns: a certified upper bound; takes seconds where the others take milliseconds.
    """

    name = "all-crowds"
    theorem = "absent user: the worst of all crowds, with metric parameters (ours)"

    def parameters(self, pair: PairDistances) -> VariationRatio:
        return replace(super().parameters(pair), local=True)

    def curve(self, pair: PairDistances, users: int) -> PrivacyCurve:
        return amplify(self.parameters(pair), users, bound="all-crowds")

    def _epsilon(self, pair: PairDistances, users: int, delta: float) -> tuple[float, float]:
        return super()._epsilon(pair, users, delta) if users > MIN_OTHERS else (math.inf, 0.0)

    def _excess(self, pair: PairDistances, users: int, delta: float, target: float) -> float:
        return super()._excess(pair, users, delta, target) if users > MIN_OTHERS else math.inf

    def prove_epsilon(self, pair: PairDistances, users: int, delta: float, target: float, guess: float) -> float:
        if users > MIN_OTHERS:
            return super().prove_epsilon(pair, users, delta, target, guess)
        return pair.distance if pair.distance <= target else math.inf

    def _quick_delta(self, curve: PrivacyCurve, epsilon: float) -> float:
        return curve.delta(epsilon).upper

    def _estimate_excesses(self, pairs: PairDistanceArrays, users: int, delta: float, targets: Floats) -> Floats:
        """Estimates one pair after the other, by constant datasets."""
        if users <= MIN_OTHERS:
            return np.full(len(targets), np.inf)
        log_deltas = []
        for distance, first, second, target in zip(
            pairs.distance.tolist(),
            pairs.farthest_from_first.tolist(),
            pairs.farthest_from_second.tolist(),
            targets.tolist(),
            strict=True,
        ):
            curve = self.curve(PairDistances(distance, first, second, math.inf, math.inf), users)
            assert isinstance(curve, WorstDatasetCurve)
            log_deltas.append(max(way.log_estimate(target) for way in curve.directions))
        return np.array(log_deltas) - math.log(delta) + CONSTANT_DATASET_ESTIMATE_MARGIN


def all_amplifications() -> dict[str, Amplification]:
    """Returns every theorem by name, the numeric ones for any noise."""
    kinds = (
        Theorem1(), Corollary1(), Corollary2(), UniformCorollary2(), ExactClone(), MetricVariationRatio(),
        MetricWorstDataset(),
    )  # fmt: skip
    return {kind.name: kind for kind in kinds}


def find_amplification(name: str) -> Amplification:
    """Returns a theorem by name.

    Args:
        name: "theorem-1", "corollary-1", "corollary-2", "corollary-2-uniform", "clone", "variation-ratio" or
            "all-crowds".

    Returns:
        The theorem; the numeric ones for any randomizer.

    Raises:
        ValueError: If the name is unknown.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0]])
    >>> theorem = sdp.metric.find_amplification("theorem-1")
    >>> print(f"{sdp.metric.AmplifiedMetric(places, 10_000, 1e-6, theorem)(0, 1).upper:.4f}")
    0.0764
    """
    known = all_amplifications()
    if name not in known:
        raise ValueError(f"metric: bound must be one of {', '.join(known)}, got {name!r}.")
    return known[name]


# --- Amplified distances D̂(a, b) ---


@dataclass(frozen=True)
class AmplifiedMetric(ValueObject):
    """The distances of a space after shuffling, each with the same δ.

    ``metric(a, b)`` is the value of one pair; ``metric.matrix`` are all of them on a finite space;
    ``metric.at_epsilon_local(d)`` holds for every pair of the space whose local distance is d, wherever it lies.

    Args:
        space: Local distances of the inputs, in units of ε.
        users: Number of shuffled messages.
        delta: The δ of every pair.
        bound: The theorem: an ``Amplification``, or a name for ``find_amplification``.

    Raises:
        TypeError: If ``users`` or ``delta`` is not a number.
        ValueError: If a number is out of range, the name is unknown, or the theorem does not cover the space.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [2.0]])
    >>> metric = sdp.metric.AmplifiedMetric(places, users=10_000, delta=1e-6)
    >>> metric(0, 1).upper < 0.0617, metric(0, 2).upper < 0.1145
    (True, True)
    >>> f"{sdp.metric.AmplifiedMetric(places, users=10_000, delta=1e-6, bound='clone')(0, 1).upper:.4f}"
    '0.0740'
    """

    space: Space
    users: int = field(metadata=validation.checked(validation.count))
    delta: float = field(metadata=validation.checked(validation.open_probability))
    bound: Amplification | str = MetricVariationRatio.name

    def __post_init__(self) -> None:
        if isinstance(self.bound, str):
            with validation.relabel_errors("AmplifiedMetric", "metric"):
                object.__setattr__(self, "bound", find_amplification(self.bound))
        self.amplification.check_space("AmplifiedMetric", self.space)
        validation.check_fields(self)

    @property
    def amplification(self) -> Amplification:
        """The theorem as an object."""
        assert isinstance(self.bound, Amplification), "a name was replaced by its theorem"
        return self.bound

    def __call__(self, first: Any, second: Any) -> BoundValue:
        return self._value(self.space.pair_distances(first, second))

    def at_epsilon_local(self, epsilon_local: float) -> BoundValue:
        """Returns the largest D̂ of any two inputs at a local distance.

        Args:
            epsilon_local: The local distance, in units of ε and not of the inputs.

        Returns:
            A certified upper bound for every such pair of the space.

        Raises:
            ValueError: If no two inputs can be so far apart.
        """
        return self._value(worst_pair_distances("AmplifiedMetric", self.space, epsilon_local))

    def _value(self, pair: PairDistances) -> BoundValue:
        if pair not in self._cached_values:
            self._cached_values[pair] = self.amplification.epsilon(pair, self.users, self.delta)
        return self._cached_values[pair]

    @cached_property
    def _cached_values(self) -> dict[PairDistances, BoundValue]:
        """Values by the numbers of a pair, on which alone they depend."""
        return {}

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """All amplified distances of a finite space; raises TypeError for any other space."""
        if not isinstance(self.space, DistanceMatrix):
            raise TypeError("AmplifiedMetric: a matrix needs a finite space; ask for a pair or at_epsilon_local.")
        result = np.zeros_like(self.space.matrix)
        for a, b in self.space.pairs():
            result[a, b] = result[b, a] = self(a, b).upper
        return result


@dataclass(frozen=True)
class MechanismMetric:
    """The distances that one mechanism leaves after shuffling, by its own laws instead of those of any randomizer.

    ``metric(a, b)`` is the value of two inputs, with the lower bound of an attack.

    Args:
        mechanism: A metric mechanism.
        users: Number of users who run it.
        delta: The δ of every pair.

    Raises:
        TypeError: If the mechanism has no metric, or ``users`` or ``delta`` is not a number.
        ValueError: If ``users`` or ``delta`` is out of range.

    >>> import shuffledp as sdp
    >>> metric = sdp.metric.MechanismMetric(sdp.Laplace(2.0), users=1000, delta=1e-6)
    >>> metric(0.0, 0.25).upper < 0.113
    True
    """

    mechanism: Randomizer
    users: int = field(metadata=validation.checked(validation.count))
    delta: float = field(metadata=validation.checked(validation.open_probability))

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, HasNeighbours):
            raise TypeError(f"MechanismMetric: expected a metric mechanism, got {self.mechanism!r}.")
        validation.check_fields(self)

    def __call__(self, first: Any, second: Any) -> BoundValue:
        with validation.relabel_errors("MechanismMetric", "amplify"):
            return amplify(self.mechanism, self.users, pair=(first, second), effort=QUICK_EFFORT).epsilon(self.delta)

    def within(self, diameter: float) -> BoundValue:
        """Returns the largest value of any two inputs at most some distance apart.

        Args:
            diameter: The largest distance, in input units.

        Returns:
            A certified ε at ``delta``.

        Raises:
            ValueError: If ``diameter`` is not positive and finite.
        """
        with validation.relabel_errors("MechanismMetric", "amplify"):
            return amplify(self.mechanism, self.users, diameter=diameter, effort=QUICK_EFFORT).epsilon(self.delta)

    def matrix(self, inputs: Sequence[Any]) -> NDArray[np.float64]:
        """Returns the values of every two of some inputs.

        Args:
            inputs: Inputs of the mechanism.

        Returns:
            A symmetric matrix of certified ε at ``delta``.
        """
        result = np.zeros((len(inputs), len(inputs)))
        for a in range(len(inputs)):
            for b in range(a):
                result[a, b] = result[b, a] = self(inputs[a], inputs[b]).upper
        return result
