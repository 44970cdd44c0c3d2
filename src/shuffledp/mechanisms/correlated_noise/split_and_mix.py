"""Sums and means by additive shares modulo N: the shuffled shares reveal only the noisy sum.

First comes the privacy loss of the noisy sum, then a bound of how well the shuffler mixes the shares, modular shares,
the estimator and the mechanism ``SplitAndMix``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import RealNumber
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import NegativeBinomialErrorLaw
from shuffledp.mechanisms.base.estimator import ErrorLaw, Estimate, Influence, SimulableEstimator
from shuffledp.mechanisms.base.law import AggregateNoiseLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.message_plan import MessagePlan
from shuffledp.numerics.ball_arithmetic import compute_until_narrow, precision, round_down, round_up, to_rational
from shuffledp.numerics.distributions import PolyaDifferenceLaw
from shuffledp.privacy.aggregate_noise import (
    MAX_SEARCH_EPSILON,
    AggregateNoiseLoss,
    NoiseFacts,
    distance_delta,
    turning_point,
)
from shuffledp.privacy.randomizer_interface import HasAggregateLoss
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.noise import PolyaDifference
from shuffledp.sampling.random_sources import RandomSource

# --- Privacy loss of split-and-mix messages: the noisy sum, and the distance that mixing leaves ---


LOSS_BITS = 160
SUM_ERROR = 1e-9
"""Larger than the relative error of any sum of positive floats here."""
EXP_ERROR = 1e-14
"""Larger than the relative error of e^ε as a float."""


class SummedNoise(ValueObject, ABC):
    """Noise of a sum, or of a vector of sums: its privacy curve for the largest change by one user."""

    @property
    @abstractmethod
    def theorem(self) -> str:
        """The statement that proves its values."""

    @property
    def largest_epsilon(self) -> float:
        """An ε from which on δ is 0; infinity if there is none."""
        return math.inf

    @abstractmethod
    def delta(self, epsilon: float) -> tuple[float, float]:
        """Returns certified upper and lower bounds of δ in both directions; exact ones differ only by rounding."""

    @abstractmethod
    def deviation(self) -> float:
        """Returns approximately the standard deviation of the loss."""

    @abstractmethod
    def noise_facts(self) -> NoiseFacts:
        """Returns the kind and the parameters of the noise, for the second proof."""


@dataclass(frozen=True)
class LaplaceSum(SummedNoise):
    """Discrete Laplace noise, P(z) = (1−q)/(1+q)·q^|z|, q = e^−rate, on a sum that one user moves by up to ``shift``.

    Theorem: with t the last z whose loss rate·(|z−s| − |z|) is above ε, s = shift, δ(ε) = P(z ≤ t) − e^ε·P(z ≤ t−s) =
    (1 + q − q^(t+1) − e^(ε−rate·s)·q^−t)/(1+q) for 0 ≤ t < s, and 0 for ε ≥ rate·s. Any t gives a lower value.
    """

    rate: Fraction
    shift: int

    @property
    def theorem(self) -> str:
        return "discrete Laplace noise"

    @cached_property
    def largest_epsilon(self) -> float:
        with precision(LOSS_BITS):
            return round_up(arb(to_rational(self.rate * self.shift)))

    def delta(self, epsilon: float) -> tuple[float, float]:
        most = self.rate * self.shift
        if Fraction(epsilon) >= most:
            return 0.0, 0.0
        # z ≤ t where 2z < s − ε/rate; exact.
        last = math.ceil((self.shift - Fraction(epsilon) / self.rate) / 2) - 1
        with precision(LOSS_BITS):
            rate = arb(to_rational(self.rate))
            q, power = (-rate).exp(), (-rate * last).exp()
            value = (1 + q - q * power - (arb(to_rational(Fraction(epsilon) - most)) + rate * last).exp()) / (1 + q)
            return max(0.0, round_up(value)), max(0.0, round_down(value))

    def deviation(self) -> float:
        return float(self.rate * self.shift)

    def noise_facts(self) -> NoiseFacts:
        return {"kind": "laplace", "rate": self.rate, "shift": Fraction(self.shift)}


@dataclass(frozen=True)
class PartialLaplaceSum(SummedNoise):
    """Discrete Laplace noise of which only a share ``shape`` < 1 is present, because some planned users are missing.

    Theorem: differences of negative binomials of this shape; δ(ε) = Σ_z (P(z) − e^ε·P(z−s))₊ over a table of the law,
    plus all mass beyond the table. The law is symmetric, so both directions are equal; a smaller shift gives a smaller
    δ, as P falls on either side of 0.
    """

    rate: Fraction
    shift: int
    shape: Fraction

    @property
    def theorem(self) -> str:
        return "differences of negative binomials"

    @cached_property
    def _tables(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], float] | None:
        """Upper P(z) with lower P(z−s), and lower P(z) with upper P(z−s), over the table; and the mass beyond it."""
        law = PolyaDifferenceLaw(self.rate, self.shape)
        table = law.table()
        if table is None:
            return None
        upper, lower = table
        high = _symmetric_law(upper), _shift_law(lower, self.shift)
        low = _symmetric_law(lower), _shift_law(upper, self.shift)
        return high, low, law.tail_beyond(len(upper) - 1)

    @property
    def has_table(self) -> bool:
        """True if the table of the law is short enough to compute."""
        return self._tables is not None

    def delta(self, epsilon: float) -> tuple[float, float]:
        if self._tables is None:
            return 1.0, 0.0
        high, low, beyond = self._tables
        ratio = math.exp(min(epsilon, 700.0))
        # The table's margin is wider than the error of subtracting floats.
        most = _hockey_stick(*high, ratio * (1 - EXP_ERROR)) * (1 + SUM_ERROR) + beyond
        least = _hockey_stick(*low, ratio * (1 + EXP_ERROR)) * (1 - SUM_ERROR) - beyond * (1 + ratio)
        return min(1.0, most), max(0.0, least)

    def deviation(self) -> float:
        return float(self.rate * self.shift)

    def noise_facts(self) -> NoiseFacts:
        return {
            "kind": "polya", "rate": self.rate, "shift": Fraction(self.shift), "shape": self.shape,
            "sums": Fraction(1),
        }  # fmt: skip


def _symmetric_law(table: Floats) -> Floats:
    """Returns a symmetric law on z = −reach … reach, given its values for z = 0 … reach."""
    return np.concatenate([table[:0:-1], table])


def _shift_law(table: Floats, shift: int) -> Floats:
    """Returns the same law shifted by ``shift``, with 0 outside the table."""
    reach = len(table) - 1
    places = np.abs(np.arange(-reach, reach + 1) - shift)
    return np.where(places <= reach, table[np.minimum(places, reach)], 0.0)


def _hockey_stick(first: Floats, second: Floats, ratio: float) -> float:
    """Returns Σ_z (P(z) − ratio·Q(z))₊."""
    gap = second * -ratio
    gap += first
    return float(np.maximum(gap, 0.0, out=gap).sum())


@dataclass(frozen=True)
class SplitSums:
    """``sums`` sums whose summands ``owners`` users split into ``places`` + 1 shares each, modulo ``base``."""

    owners: int
    places: int
    base: int
    sums: int = 1

    def to_facts(self) -> NoiseFacts:
        numbers = {"owners": self.owners, "places": self.places, "base": self.base, "sums": self.sums}
        return {name: Fraction(number) for name, number in numbers.items()}


@dataclass(frozen=True)
class SplitAndMixLoss(AggregateNoiseLoss):
    """The loss of ``noise``, and the total variation η (``distance``) to messages simulated from the noisy sum alone.

    Theorem: δ(ε) = δ_noise(ε) + (1 + e^ε)·η (``distance_delta``), where messages simulated from the noisy sums have
    δ_noise. As δ falls with ε, a smaller ε's value holds too.
    """

    noise: SummedNoise
    distance: float
    shares: str
    """Description of the messages, for the note."""
    wrap_probability: float = 1.0
    """Probability that the sum wraps around if the noise is exactly ``noise``; below 1 there is an attack."""
    mixing: SplitSums | None = None
    """The sums from which the distance follows, if known."""

    @property
    def theorem(self) -> str:
        return f"split and mix: δ of {self.noise.theorem} + (1 + e^ε)·η of mixing"

    @property
    def note(self) -> str:
        return f"Mixing: {self.shares} are within η = {self.distance:.3g} of ones that reveal only the noisy sum."

    def delta_parts(self, epsilon: float) -> tuple[float, float]:
        """Returns certified upper bounds of the noise's δ, and of the part that mixing adds to it."""
        return self.noise.delta(epsilon)[0], distance_delta(self.distance, epsilon)

    @property
    def is_attained(self) -> bool:
        """True if a known attack attains the noise's δ, up to the probability of wrapping around.

        An attacker who knows all other users' values subtracts them from the sum and is left with the noise modulo N:
        nearly the noise itself if it hardly ever wraps around.
        """
        return self.wrap_probability < 1.0

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        values = [self._profile_at(float(epsilon)) for epsilon in epsilons]
        return np.array([high for high, _ in values]), np.array([low for _, low in values])

    def _profile_at(self, epsilon: float) -> tuple[float, float]:
        near = min(epsilon, self._turning_epsilon)
        high, mixing = self.delta_parts(near)
        upper = min(1.0, math.nextafter(high + mixing, math.inf))
        if not self.is_attained:
            return upper, min(1.0, self.noise.delta(near)[1] + mixing * (1 - SUM_ERROR))
        lost = (1 + math.exp(min(epsilon, 700.0))) * self.wrap_probability * (1 + SUM_ERROR)
        return upper, max(0.0, self.noise.delta(epsilon)[1] - lost) * (1 - SUM_ERROR)

    @cached_property
    def _turning_epsilon(self) -> float:
        """Approximately the ε of the least total δ, which is convex in e^ε; that δ is used beyond, soundly anywhere."""
        return turning_point(
            lambda epsilon: sum(self.delta_parts(epsilon)), min(self.noise.largest_epsilon, MAX_SEARCH_EPSILON)
        )

    def deviation(self) -> float:
        return self.noise.deviation()

    def noise_facts(self) -> NoiseFacts | None:
        if self.mixing is None:
            return None
        return {"kind": "mixed", **self.mixing.to_facts(), "noise": self.noise.noise_facts()}


# --- Mixing: components of the random multigraph that the shuffler's permutation draws on the users ---
#
# There are k owners of m places each. A uniform permutation of the k·m places draws an edge from the owner of each
# place to the owner of its image; C is the number of components, and S_k = E[N^C].


GRAPH_BITS = 192
MIN_KNOWN_MEANS, MAX_KNOWN_MEANS = 32, 1024
"""Fewest and most known means S_k from which a proof for all numbers of owners is tried."""
MAX_EXACT_OWNERS = 512
"""Largest number of owners for which the mean itself is computed."""


@dataclass(frozen=True)
class MixingGraph:
    """The graph of ``places`` = m places per owner, with the base N of the power.

    Theorem: a set of j of k owners is closed, no edge leaving it, with probability 1/C(km, jm), and then the graphs
    inside and outside are independent graphs of j and of k − j owners. Write r(k, j) = C(k, j)/C(km, jm): the mean
    number of closed sets of j owners.

    Small k, exactly: permutations with given closed sets are counted by A(z)^N, A(z) = Σ_k (km)!·z^k/k!, so that
    S_k = k!·[z^k]A(z)^N/(km)!, and A·(A^N)' = N·A'·A^N gives S_k = (1/k)·Σ_{j=1}^k (N·j − (k−j))·r(k, j)·S_{k−j}.

    Large k: either some component has more than k/2 owners; those outside of it are a closed set of j < k/2 owners,
    and N^(C−1) is N to the number of their components. Or no component has; then components joined one by one
    form a closed set of s owners with k/3 ≤ s ≤ k/2 (the union, or its complement). Hence

        E[N^(C−1)] − 1 ≤ Σ_{1≤j<k/2} r(k, j)·(S_j − 1) + (1/N)·Σ_{k/3≤s≤k/2} r(k, s)·S_s·S_{k−s}.      (*)

    r(k, j) falls with k, as r(k+1, j)/r(k, j) = (k+1)/(k+1−j)·Π_{i=1}^m (1 − jm/(km+i)) ≤ (1 − j/(k+1))^(m−1); and
    r(k, j) ≤ C(k, j)^−(m−1), as C(km, jm) ≥ C(k, j)^m. Let S_j be known for j ≤ L, and at most B for K ≤ j ≤ L, where
    K = ⌈L/3⌉. For k ≥ L the right side of (*) is then at most

        T(k) = Σ_{1≤j<K} r(k, j)·(S_j − 1) + k·C(k, K)^−(m−1)·(B + B²/N),

    provided that all S_j with K ≤ j < k are at most B. T falls with k (C(k, K)/k grows, K ≥ 2, m ≥ 2). So
    N·(1 + T(L)) ≤ B proves S_k ≤ B for all k ≥ K by induction, and T(k) bounds the mean for every k ≥ L.
    """

    places: int
    base: int

    def excess(self, owners: int) -> arb:
        """Returns E[N^(C−1)] − 1: exactly for few owners, an upper bound for many; infinity if none can be proved."""
        if owners == 1 or self.base == 1:
            return arb(0)
        if owners <= MAX_EXACT_OWNERS:
            return _compute_exact_excess(self, owners)
        proof = _find_proof(self)
        if proof is None or owners < proof.known_means:
            return arb("inf")
        with precision(GRAPH_BITS):
            return proof.excess(owners)

    def means(self, most: int) -> list[arb]:
        """Returns S_0 … S_most, exactly, at the working precision."""
        # k!/(km)!, of which r(k, j) is a quotient.
        weight = [arb.fac_ui(k) / arb.fac_ui(k * self.places) for k in range(most + 1)]
        means = [arb(1)]
        parts = [1 / weight[0]]
        for k in range(1, most + 1):
            terms = (((self.base + 1) * j - k) * parts[k - j] / weight[j] for j in range(1, k + 1))
            means.append(sum(terms, arb(0)) * weight[k] / k)
            parts.append(means[k] / weight[k])
        return means

    def closed_sets(self, owners: int, size: int) -> arb:
        """Returns r(k, j), the mean number of closed sets of this size."""
        return arb.bin_uiui(owners, size) / arb.bin_uiui(owners * self.places, size * self.places)


@dataclass(frozen=True)
class _InductionProof:
    """The known means S_0 … S_L, and a bound B of every S_k with k ≥ K."""

    graph: MixingGraph
    means: tuple[arb, ...]
    limit: arb

    @property
    def known_means(self) -> int:
        """L, the number of known means after S_0."""
        return len(self.means) - 1

    @property
    def induction_start(self) -> int:
        """K = ⌈L/3⌉."""
        return -(-self.known_means // 3)

    def excess(self, owners: int) -> arb:
        """Returns T(k), for k ≥ L."""
        near = sum(
            (self.graph.closed_sets(owners, j) * (self.means[j] - 1) for j in range(1, self.induction_start)), arb(0)
        )
        each = arb.bin_uiui(owners, self.induction_start) ** (1 - self.graph.places)
        return (near + owners * each * (self.limit + self.limit**2 / self.graph.base)).upper()

    def holds(self) -> bool:
        """Returns True if the induction starts: the known means from K on are at most B, and so is N·(1 + T(L))."""
        begins = self.graph.base * (1 + self.excess(self.known_means)) <= self.limit
        return bool(begins) and all(one <= self.limit for one in self.means[self.induction_start :])


@lru_cache(maxsize=64)
def _find_proof(graph: MixingGraph) -> _InductionProof | None:
    """Returns the first proof found by doubling the number of known means, or None if too many are needed."""
    known = MIN_KNOWN_MEANS
    while graph.places >= 2 and known <= MAX_KNOWN_MEANS:
        with precision(GRAPH_BITS):
            means = tuple(graph.means(known))
            trial = _InductionProof(graph, means, arb(graph.base))
            least = graph.base * (1 + trial.excess(known))
            # Compared by logarithms, as some values exceed the range of floats.
            largest = max([*means[trial.induction_start :], least], key=lambda mean: float(mean.log()))
            proof = _InductionProof(graph, means, 2 * largest.upper())
            if proof.holds():
                return proof
        known *= 2
    return None


@lru_cache(maxsize=256)
def _compute_exact_excess(graph: MixingGraph, owners: int) -> arb:
    def compute() -> tuple[arb, arb]:
        value = graph.means(owners)[owners] / graph.base - 1
        return value, value

    return compute_until_narrow(compute, GRAPH_BITS)[0]


def mixing_distance(owners: int, places: int, base: int) -> arb:
    """Returns an upper bound, at most 1, of ½·√(E[N^(C−1)] − 1)."""
    with precision(GRAPH_BITS):
        half: arb = MixingGraph(places, base).excess(owners).upper().sqrt() / 2
        return half.upper() if half <= 1 else arb(1)


# --- Additive shares modulo N ---


MAX_MODULUS = 1 << 60
MAX_MESSAGES = 64
LIMB_BITS = 20
"""The statistic holds sums of digits in base 2^20, which are exact as floats for up to 2^33 messages."""
WRAP_CHANCE = 2.0**-40
"""Largest accepted probability that a sum is decoded wrongly because it wrapped around."""
USER_MARGIN_FACTOR = 2
"""A design has room for this multiple of the planned users, and still mixes the shares of 1/this of them."""
EPSILON_GROWTH = 2.5
"""Approximate increase of ε if half of the Laplace noise is missing."""


@dataclass(frozen=True)
class AdditiveSharesPlan(MessagePlan):
    """Every user sends ``messages`` shares; the shares of all users hide each other."""

    messages: int

    @property
    def messages_per_user(self) -> int:
        return self.messages

    def hiding_messages(self, users: int) -> int:
        return users


@dataclass(frozen=True)
class ModularShares:
    """A number modulo N as ``messages`` shares: all but one are uniform, and the last makes the sum right."""

    modulus: int
    messages: int

    def split(self, numbers: Integers, source: RandomSource) -> Integers:
        """Returns the shares of each number, one row per number."""
        shares = np.empty((len(numbers), self.messages), dtype=np.int64)
        drawn = source.integers_below(self.modulus, len(numbers) * (self.messages - 1)).reshape(len(numbers), -1)
        shares[:, :-1] = drawn
        if self.modulus & (self.modulus - 1) == 0:
            # 64-bit integers wrap around modulo a multiple of the modulus.
            rest = numbers.copy()
            for column in drawn.T:
                rest -= column
            shares[:, -1] = rest & (self.modulus - 1)
            return shares
        rest = numbers % self.modulus
        for column in drawn.T:
            rest = (rest - column) % self.modulus
        shares[:, -1] = rest
        return shares

    def distance(self, honest: int) -> arb:
        """Returns η, a bound of the total variation between the users' shares and ones simulated from their sum."""
        return mixing_distance(honest, self.messages - 1, self.modulus)

    @property
    def digits(self) -> int:
        """Number of digits of a share."""
        return -(-(self.modulus - 1).bit_length() // LIMB_BITS)

    def digit_sums(self, shares: Integers) -> Integers:
        """Returns the sum of each digit over all shares."""
        mask = (1 << LIMB_BITS) - 1
        if self.digits == 2 and len(shares) * self.modulus < 1 << 63:
            low, total = int((shares & mask).sum()), int(shares.sum())
            return np.array([low, (total - low) >> LIMB_BITS], dtype=np.int64)
        places = (shares >> (LIMB_BITS * place) & mask for place in range(self.digits))
        return np.array([digits.sum() for digits in places], dtype=np.int64)

    def unwrap_sum(self, sums: Array, low: int, high: int) -> int:
        """Returns the sum, from [low, high] but for the noise, by the sums of its digits modulo N."""
        total = sum(int(digit) << (LIMB_BITS * place) for place, digit in enumerate(np.asarray(sums).tolist()))
        first = low - self.headroom(low, high)
        return (total - first) % self.modulus + first

    def headroom(self, low: int, high: int) -> int:
        """Returns the largest noise of either sign with which a sum in [low, high] does not wrap; may be negative."""
        return (self.modulus - 1 - (high - low)) // 2


def check_between(who: str, name: str, value: Any, *, at_least: float, at_most: float) -> float:
    """Returns a number between two positive limits; raises TypeError or ValueError otherwise."""
    number = validation.positive_finite(who, name, value)
    if not at_least <= number <= at_most:
        raise ValueError(f"{who}: {name} must be from {at_least:g} to {at_most:g}, got {number!r}.")
    return number


def check_headroom(who: str, users: int, modulus: int, chance: float) -> None:
    """Raises ValueError if the sum of this many users may wrap around."""
    if not chance <= WRAP_CHANCE:
        raise ValueError(
            f"{who}: a sum of {users:,} users may wrap around modulo {modulus} with probability up to {chance:.2g}, "
            f"expected at most {WRAP_CHANCE:.2g}; take a larger modulus."
        )


def least_modulus(chance: Callable[[int], float]) -> int:
    """Returns the least power of two modulo which a sum hardly ever wraps around, or raises ValueError."""
    modulus = 2
    while not chance(modulus) <= WRAP_CHANCE:
        modulus *= 2
        if modulus > MAX_MODULUS:
            raise ValueError(f"no modulus of up to 2^{MAX_MODULUS.bit_length() - 1} has room for the sum")
    return modulus


def least_messages(honest: int, modulus: int, distance: float) -> int:
    """Returns the fewest messages for which η is at most ``distance``; raises ValueError if none suffice."""
    for messages in range(2, MAX_MESSAGES + 1):
        # A cheap lower bound of the mean, to skip most candidates: all shares of one user return to that user.
        alone = _self_loop_bound(honest, messages - 1, modulus)
        if alone <= 4 * distance**2 and ModularShares(modulus, messages).distance(honest) <= arb(distance):
            return messages
    raise ValueError(f"{MAX_MESSAGES} messages do not mix the shares of {honest:,} users well enough")


def design_message_count(users: int, modulus: int, epsilon: float, delta: float, rest: float) -> int:
    """Returns the fewest messages for which mixing adds at most ``delta``, and ``rest`` at the ε of half the users."""
    planned = least_messages(users, modulus, delta / (1 + math.exp(epsilon)))
    fewer = least_messages(
        max(2, users // USER_MARGIN_FACTOR), modulus, rest / (1 + math.exp(epsilon + EPSILON_GROWTH))
    )
    return max(planned, fewer)


def _self_loop_bound(honest: int, places: int, modulus: int) -> float:
    """Returns a lower bound of E[N^(C−1)] − 1: the contribution of users whose shares all return to them."""
    chance = float(modulus - 1) * honest
    for place in range(places):
        chance *= (places - place) / (honest * places - place)
    return chance * (1 - 1e-9)


MIN_RATE, MAX_RATE = 1e-12, 64.0
USERS_AT_ONCE = 1 << 15
FEW_ROUND_FACTORS, MANY_ROUND_FACTORS = (1.0, 0.98, 0.95, 0.9), (1.4, 1.3, 1.25, 1.2, 1.15, 1.1, 1.05, 1.0, 0.9)
"""Factors of the ε of each of several rounds, tried in descending order."""
HALVINGS = 20
"""Bisection steps for an interval limit: to a millionth of the margin."""
ROUNDING_SHARE = 0.02
"""Approximate share of the noise's variance that rounding adds in a design."""


@dataclass(frozen=True)
class NoisySumEstimator(SimulableEstimator):
    """Estimates the mean of numbers on a grid from the sum of all shares, which includes all users' noise."""

    low: float
    high: float
    levels: int
    noise: PolyaDifferenceLaw
    """One user's share of the noise."""
    shares: ModularShares
    error_prefix: str = "SplitAndMix"

    def accumulate(self, messages: Array) -> Array:
        """Returns the sum of each digit of the shares."""
        return self.shares.digit_sums(messages)

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean and its variance, with the largest rounding variance of users with this mean."""
        check_headroom(self.error_prefix, users, self.shares.modulus, self.wrap_chance(users))
        return self._estimate(self.shares.unwrap_sum(total, 0, users * self.levels), users)

    def _estimate(self, steps: int, users: int) -> Estimate:
        value = self.low + steps / users * self._step
        spread = self.noise_variance + max_rounding_variance(steps / users, self.levels)
        tails = RoundedSumErrorLaw(self._noise_error_law(users), self.noise_variance, self.levels, self.low, self._step)
        return Estimate(np.array([value]), np.array([spread * self._step**2 / users]), users, tails)

    def for_endpoint_values(self, estimate: Estimate) -> Estimate:
        """Returns the estimate for users at the ends of the interval: nothing is rounded, the error is noise."""
        users, step = estimate.users, self._step
        variance = np.full_like(estimate.variance, self.noise_variance * step**2 / users)
        return Estimate(estimate.value, variance, users, self._noise_error_law(users))

    def _noise_error_law(self, users: int) -> NegativeBinomialErrorLaw:
        """Returns the tails of the noise alone."""
        return NegativeBinomialErrorLaw(float(self.noise.shape) * users, float(self.noise.rate))

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        up = rounding_and_digits.grid_position(self._units(values), self.levels)[1] / rounding_and_digits.RANGE_UNITS
        return np.array([(self.noise_variance + (up * (1 - up)).mean()) * self._step**2 / len(values)])

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Simulates an estimate where ``held[i]`` users hold the i-th of as many evenly spread numbers."""
        check_headroom(self.error_prefix, users, self.shares.modulus, self.wrap_chance(users))
        numbers = self.low + (self.high - self.low) * (np.arange(len(held)) + 0.5) / len(held)
        whole, part = rounding_and_digits.grid_position(self._units(numbers), self.levels)
        steps = int(whole @ held) + int(rng.binomial(held, part / rounding_and_digits.RANGE_UNITS).sum())
        shape, chance = float(self.noise.shape) * users, -math.expm1(-float(self.noise.rate))
        noise = int(rng.negative_binomial(shape, chance)) - int(rng.negative_binomial(shape, chance))
        return self._estimate(steps + noise, users)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns an unlimited influence: a user may choose any share."""
        del messages
        return (Influence(-math.inf, math.inf, self.low, self.high),)

    def wrap_chance(self, users: int) -> float:
        """Returns an upper bound of the probability that the noise of ``users`` users wraps the sum around."""
        room = self.shares.headroom(0, users * self.levels)
        if room < 1:
            return 1.0
        return round_up(PolyaDifferenceLaw(self.noise.rate, self.noise.shape * users).tail(room + 1))

    @cached_property
    def noise_variance(self) -> float:
        """Variance of one user's share of the noise, in steps squared: 2q/(1−q)² times the shape."""
        return float(self.noise.shape) / (2 * math.sinh(float(self.noise.rate) / 2) ** 2)

    @property
    def _step(self) -> float:
        return (self.high - self.low) / self.levels

    def _units(self, values: Floats) -> Array:
        return rounding_and_digits.interval_to_units(values, self.low, self.high)


def max_rounding_variance(steps: float, levels: int) -> float:
    """Returns the largest mean variance of rounding of users with this mean position, from 0 to ``levels``.

    A user at position x contributes u(1 − u), u the fractional part of x. This function is the least concave one above
    that: it is attained if all users are at one position or at two such positions. It is a quarter except within half a
    step of either end. A sum reveals no more about the users than their mean.
    """
    near = min(max(min(steps, levels - steps), 0.0), 0.5)
    return near * (1 - near)


@dataclass(frozen=True)
class RoundedSumErrorLaw(ErrorLaw):
    """Confidence intervals of a mean of rounded numbers with noise: all means compatible with the estimate.

    A mean determines the law of the estimate, with users who are rounded the most. ``noise`` are the tails of the noise
    alone, ``variance`` is one user's part of its variance, in steps squared. The grid starts at ``low`` in steps of
    ``step``. ``max_rounding`` is another upper bound of the variance of rounding.
    """

    noise: ErrorLaw
    variance: float
    levels: int
    low: float
    step: float
    max_rounding: float = 0.25

    def critical_value(self, confidence: float) -> float:
        return self._error_law_with_rounding(self.max_rounding).critical_value(confidence)

    @property
    def excess_kurtosis(self) -> float:
        return self.noise.excess_kurtosis

    def sum_law(self, parts: float) -> ErrorLaw:
        return self.noise.sum_law(parts)

    def transform(self, scale: float | Floats, shift: float | Floats) -> ErrorLaw:
        by, to = float(np.ravel(scale)[0]), float(np.ravel(shift)[0])
        return replace(self, low=by * self.low + to, step=by * self.step)

    def _error_law_with_rounding(self, rounding: float) -> ErrorLaw:
        """Returns tails whose kurtosis is that of the noise, reduced because rounding is nearly normal."""
        return self.noise.sum_law((1 + rounding / self.variance) ** 2)

    def confidence_limits(
        self, value: Floats, variance: Floats, users: int, confidence: float
    ) -> tuple[Floats, Floats]:
        del variance
        place = float((np.ravel(value)[0] - self.low) / self.step)
        ends = sorted(self._limit(place, users, confidence, side) * self.step + self.low for side in (-1, 1))
        return np.full_like(value, ends[0]), np.full_like(value, ends[1])

    def _margin(self, place: float, users: int, confidence: float) -> float:
        """Returns the largest error of an estimate at this mean, in steps."""
        rounding = min(self.max_rounding, max_rounding_variance(place, self.levels))
        return self._error_law_with_rounding(rounding).critical_value(confidence) * math.sqrt(
            (self.variance + rounding) / users
        )

    def _limit(self, place: float, users: int, confidence: float, side: int) -> float:
        """Returns the farthest mean on one side that is compatible with the estimate ``place``, by bisection."""
        most = side * self.critical_value(confidence) * math.sqrt((self.variance + self.max_rounding) / users)
        near, far = 0.0, most
        if self._margin(place + far, users, confidence) >= abs(far):
            return place + far
        for _ in range(HALVINGS):
            middle = (near + far) / 2
            compatible = self._margin(place + middle, users, confidence) >= abs(middle)
            near, far = (middle, far) if compatible else (near, middle)
        return place + near


@dataclass(frozen=True)
class SplitAndMix(Mechanism, HasAggregateLoss):
    """Sends the number, with a share of the noise, as additive shares that are uniform but for their sum modulo N.

    The number is rounded at random without bias to one of the points 0 … k, k = ``levels`` (``rounding``). The user
    adds a share of discrete Laplace noise, exactly (``PolyaDifference``): the shares of ``honest`` users add up to P(z)
    ∝ e^(−rate·|z|). The result is split into ``messages`` shares modulo N = ``modulus``: all but one are uniform, and
    the last makes the sum right. The server adds up all messages modulo N and gets the sum of all numbers with the
    noise: a curator's accuracy. Without the shuffler, the messages of one user reveal their number.

    Theorem: δ(ε) = δ of the discrete Laplace noise + (1 + e^ε)·η, where η = ½·√(E[N^(C−1)] − 1) bounds the total
    variation of all messages to ones that reveal only the noisy sum (docs/means.md); C counts the components of a
    random graph.
    Deviates: [BBGN20] bounds η by a closed form, which requires one or two messages more.

    Args:
        rate: Rate of the noise per step of the grid; rate·levels is the ε of the noise.
        levels: Number of steps k of the grid.
        modulus: Modulus N, larger than users·levels and the noise can reach; estimates and guarantees for a number of
            users whose sum may wrap around are refused.
        messages: Number of shares per user.
        honest: Fewest users who take part and do not collude; more only add noise.
        low: Lower end of the interval of the users' numbers.
        high: Upper end of the interval.

    Raises:
        ValueError: If a parameter is out of range, or the modulus is too small for the grid.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.SplitAndMix(rate=0.001, levels=1000, modulus=1 << 25, messages=9, honest=10_000)
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-8).upper:.4f}"
    '1.0000'
    >>> found = mechanism.estimate(mechanism.encode(np.full(10_000, 0.25), rng=np.random.default_rng(1)))
    >>> f"{found.value[0]:.3f}", f"{found.standard_error[0]:.5f}"
    ('0.250', '0.00014')
    """

    rate: float = field(metadata=checked(check_between, at_least=MIN_RATE, at_most=MAX_RATE))
    levels: int = field(metadata=checked(validation.count, at_most=rounding_and_digits.MAX_STEPS))
    modulus: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_MODULUS))
    messages: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_MESSAGES))
    honest: int = field(metadata=checked(validation.count))
    low: float = field(default=0.0, metadata=checked(validation.real))
    high: float = field(default=1.0, metadata=checked(validation.real, up=True))

    name = "split-and-mix"
    task = "mean"
    summary = "mean of numbers in an interval: shares of number and noise; private only among many users"
    use_case = "For means and sums at a curator's error, where the shuffler is trusted."
    aliases = ("ikos", "secure-sum")
    tunable = (
        TunableParameter("rate", is_integer=False, more_is_more_private=False, minimum=MIN_RATE, maximum=MAX_RATE),
    )
    has_table = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.high - self.low < math.inf:
            raise ValueError(
                f"SplitAndMix: low must be below high and both finite, got {self.low!r} and {self.high!r}."
            )
        if self.estimator.shares.headroom(0, self.levels) < 1:
            raise ValueError(f"SplitAndMix: modulus must be above {self.levels + 2}, got {self.modulus}.")

    @cached_property
    def domain(self) -> RealNumber:
        return RealNumber("SplitAndMix", self.low, self.high)

    @cached_property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw("SplitAndMix")

    @property
    def message_plan(self) -> AdditiveSharesPlan:
        return AdditiveSharesPlan(self.messages)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("SplitAndMix", self.modulus)

    @cached_property
    def estimator(self) -> NoisySumEstimator:
        noise = PolyaDifferenceLaw(Fraction(self.rate), Fraction(1, self.honest))
        return NoisySumEstimator(self.low, self.high, self.levels, noise, ModularShares(self.modulus, self.messages))

    @cached_property
    def noise(self) -> PolyaDifference:
        """One user's share of the noise."""
        return PolyaDifference(Fraction(self.rate), Fraction(1, self.honest))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns ``messages`` shares of each user, next to each other."""
        messages = np.empty((len(values), self.messages), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            steps = rounding_and_digits.round_to_grid(
                rounding_and_digits.interval_to_units(part, self.low, self.high), self.levels, source
            )
            steps += self.noise.draw(source, len(part))
            messages[start : start + USERS_AT_ONCE] = self.estimator.shares.split(steps, source)
        return messages.reshape(-1)

    # --- privacy ---

    def aggregate_loss(self, honest: int) -> SplitAndMixLoss:
        """Returns the loss of the noisy sum, and the distance that mixing leaves.

        If there are fewer honest users than planned, the law of the noise that they add together is used.

        Raises:
            NotApplicable: If the sum may wrap around, or too few users take part to tabulate their noise.
        """
        wraps = self.estimator.wrap_chance(honest)
        try:
            check_headroom("SplitAndMix", honest, self.modulus, wraps)
        except ValueError as error:
            raise NotApplicable("own-noise", str(error)) from None
        distance = round_up(self.estimator.shares.distance(honest))
        shares = f"{self.messages} shares of each of {honest:,} users"
        # More users than planned add more noise than is counted.
        mixing = SplitSums(honest, self.messages - 1, self.modulus)
        return SplitAndMixLoss(
            self._total_noise(honest), distance, shares, 1.0 if honest > self.honest else wraps, mixing
        )

    def _total_noise(self, honest: int) -> SummedNoise:
        """Returns the law of the noise that ``honest`` users add together."""
        rate = Fraction(self.rate)
        if honest >= self.honest:
            return LaplaceSum(rate, self.levels)
        partial = PartialLaplaceSum(rate, self.levels, Fraction(honest, self.honest))
        if not partial.has_table:
            raise NotApplicable(
                "own-noise",
                f"SplitAndMix: the noise needs {self.honest:,} honest users, got {honest:,}; plan for fewer.",
            )
        return partial

    def delta_parts(self, epsilon: float, honest: int) -> tuple[float, float]:
        """Returns the two parts of δ at ε.

        Args:
            epsilon: Central ε.
            honest: Number of honest users.

        Returns:
            Upper bounds of the δ of the noise, and of the part that mixing adds.

        Raises:
            NotApplicable: As for ``aggregate_loss``.

        >>> mechanism = SplitAndMix(rate=1 / 128, levels=128, modulus=1 << 20, messages=9, honest=1000)
        >>> ["%.1e" % part for part in mechanism.delta_parts(1.0, honest=1000)]
        ['0.0e+00', '3.0e-09']
        """
        return self.aggregate_loss(honest).delta_parts(epsilon)

    # --- settings ---

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields designs for a target: the noise alone meets ε, and mixing gets all of δ."""
        room_for = USER_MARGIN_FACTOR * max(users, facts.get("users", users))
        for share in noise_epsilon_candidates(epsilon, delta, rounds):
            grid = share * math.sqrt(users / (12 * ROUNDING_SHARE))
            levels = min(max(1, math.ceil(grid)), rounding_and_digits.MAX_STEPS)
            rate = share / levels
            while Fraction(rate) * levels > Fraction(share):
                rate = math.nextafter(rate, 0.0)
            noise = PolyaDifferenceLaw(Fraction(rate), Fraction(1, users))

            def chance(modulus: int, levels: int = levels, noise: PolyaDifferenceLaw = noise) -> float:
                return NoisySumEstimator(0.0, 1.0, levels, noise, ModularShares(modulus, 2)).wrap_chance(room_for)

            modulus = least_modulus(chance)
            mixing = (1.0 if rounds == 1 else 0.25) * (1 - 1e-9) * delta / rounds
            messages = design_message_count(users, modulus, share, mixing, delta / (2 * rounds))
            yield {"rate": rate, "levels": levels, "modulus": modulus, "messages": messages, "honest": users}

    # --- for tests and the catalogue ---

    def table(self) -> OutputTable:
        raise ValueError("SplitAndMix: its output law is too large to write down as a table.")

    @classmethod
    def examples(cls) -> Sequence[SplitAndMix]:
        return [
            cls(rate=0.5, levels=1, modulus=1 << 12, messages=3, honest=5),
            cls(rate=0.05, levels=20, modulus=100_003, messages=4, honest=10, low=-1.0, high=0.5),
            cls(rate=0.001, levels=1000, modulus=1 << 30, messages=2, honest=8),
        ]


def noise_epsilon_candidates(epsilon: float, delta: float, rounds: int) -> list[float]:
    """Returns candidates for the noise's ε in each round, in descending order.

    A single round gets all of ε. The losses of many rounds add up like normal ones: each has a deviation of μ/√rounds,
    where μ is about that of the Gaussian curator. In few rounds the largest losses add up, and the composed curves are
    slightly above that.
    """
    if rounds == 1:
        return [epsilon]
    normal = epsilon / (math.sqrt(2 * math.log(1.25 / delta)) + math.sqrt(epsilon)) / math.sqrt(rounds)
    each = [factor * epsilon / rounds for factor in FEW_ROUND_FACTORS] + [
        factor * normal for factor in MANY_ROUND_FACTORS
    ]
    return sorted((share for share in each if share >= FEW_ROUND_FACTORS[-1] * epsilon / rounds), reverse=True)
