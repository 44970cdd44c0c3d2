"""The exact worst case over all datasets for randomizers with two messages, whose reports are coins."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate

from flint import acb, arb, arb_poly, ctx

from shuffledp._core.errors import NotApplicable, NumericalError
from shuffledp._core.validation import Floats
from shuffledp.bounds.base import Bound, EvaluationCost
from shuffledp.bounds.worst_dataset_bound import EXACT_BINARY_USER_LIMIT, MIN_RELATIVE_GAIN
from shuffledp.numerics.ball_arithmetic import precision, round_up, to_rational
from shuffledp.numerics.distributions import Bracket
from shuffledp.numerics.roots import invert
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, InterpolationPoints, PrivacyCurve
from shuffledp.privacy.randomizer_interface import Randomizer

# --- The divergence of a sum of two binomials ---
# F = Bin(many, high) + Bin(few, low). One more coin falls with probability high (law P of the total) or low (law Q):
# D(x) = Σ_t (P − e^x·Q)(t)_+ = max_t H(t), H(t) = A·P(F ≥ t−1) + B·P(F ≥ t), A = high − e^x·low, B = (1−high) −
# e^x·(1−low),
# because f(t−1)/f(t) grows with t (the law f of a sum of independent coins is log-concave): the positive terms g(t) =
# A·f(t−1) + B·f(t) are those from some t on.
# H(t) is a coefficient of φ(z)·(A·z+B)·z/(z−1), φ(z) = E z^F, and f(t) one of φ(z): with N equally spaced nodes on the
# circle |z| = r > 1 the trapezoid rule gives Σ_m H(t+mN)·r^(mN). The terms m ≠ 0 are bounded by Chernoff's bound at the
# radius r², nodes far from the real axis by |φ(re^{iα})| ≤ φ(r)·exp(−V(1−cos α)), V the variance of the tilted coins.
# So the cost does not grow with the number of coins. Few coins are multiplied out, once for all x: f(t) are the
# coefficients of φ, the tail sums P(F ≥ t) are stored with them, and the first positive g is found by bisection.


BITS = 160
METHOD = "two binomials"
MAX_EXPANDED_COINS, LAW_CACHE_SIZE = 1000, 256
"""Largest number of coins to multiply out, and number of their laws to cache for other x."""
NEGLIGIBLE_LOG_PER_BIT = 0.2
"""Terms that are only bounded (aliases, far nodes) are about e^(this·bits) times smaller than the result."""
MAX_BITS = 1 << 12
MAX_STEPS, TRUSTED_STEPS = 60, 3
LOG_NEGLIGIBLE_VALUE = -2000.0
"""A value whose logarithm is below this is far below every float, and only bounded."""
MAX_RELATIVE_RADIUS = 1e-9
"""Largest relative radius of a certified value."""


@dataclass(frozen=True)
class TwoBinomials:
    """F = Bin(many, high) + Bin(few, low) with 0 ≤ low < high ≤ 1 exact, and D(x) as above."""

    high: Fraction
    low: Fraction
    many: int
    few: int

    def bracket(self, x: float) -> Bracket:
        """Returns a certified enclosure of D(x).

        Requires: x ≥ 0.
        Returns: both sides, including rounding, aliases and skipped nodes.
        """
        # Coins that always fall the same way only shift the sum.
        many, few = (0 if self.high == 1 else self.many), (0 if self.low == 0 else self.few)
        if (many, few) != (self.many, self.few):
            return TwoBinomials(self.high, self.low, many, few).bracket(x)
        if many + few <= MAX_EXPANDED_COINS:
            return self._evaluate_expanded(x)
        bits = BITS + (many + few).bit_length()
        while bits <= MAX_BITS:
            with precision(bits):
                bracket = self._evaluate_contour(x)
                if bracket is not None:
                    return bracket
            bits *= 2
        raise NumericalError(f"TwoBinomials: no digit is certain at {MAX_BITS} bits; please report the parameters.")

    def log_estimate(self, x: float) -> float:
        """Returns log D(x) from the certified value, which is cheap."""
        return self.bracket(x).log_upper()

    def natural_scale(self) -> float:
        """Returns (high − low) times the standard deviation of the log likelihood ratio, about 1/√Var F."""
        high, low = float(self.high), float(self.low)
        variance = self.many * high * (1 - high) + self.few * low * (1 - low) + 0.25
        return (high - low) / math.sqrt(variance)

    def _evaluate_expanded(self, x: float) -> Bracket:
        """Returns H at the first t whose g is certainly positive, plus all terms before it that may be positive."""
        with precision(BITS):
            laws = self._weights_at(x)
            if not laws.gain > 0:
                return Bracket(arb(0), laws.gain.upper().max(arb(0)), METHOD)
            law = _compute_count_law(self)
            first, last = 0, self.many + self.few + 1
            while first < last:
                middle = (first + last) // 2
                first, last = (first, middle) if law.term(laws, middle) > 0 else (middle + 1, last)
            total, unsure = law.total(laws, first), arb(0)
            for t in range(first - 1, -1, -1):
                term = law.term(laws, t)
                if term <= 0:
                    break
                unsure += term.upper().max(arb(0))
            return Bracket(total.lower().max(arb(0)), (total + unsure).upper(), METHOD)

    def _weights_at(self, x: float) -> _BinomialWeights:
        high, low = arb(to_rational(self.high)), arb(to_rational(self.low))
        growth = arb(x).exp()
        return _BinomialWeights(high, low, high - growth * low, (1 - high) - growth * (1 - low))

    def _evaluate_contour(self, x: float) -> Bracket | None:
        laws = self._weights_at(x)
        gain, loss = laws.gain, laws.loss
        if gain <= 0:
            return Bracket(arb(0), arb(0), METHOD)
        if not gain > 0:
            # D ≤ A, because P(F ≥ t−1) ≤ 1 and B ≤ 0.
            return Bracket(arb(0), gain.upper().max(arb(0)), METHOD)
        tilt = self._tilt(float((-loss / gain).log()))
        bound = self._chernoff_bound(laws, tilt)
        if bound.log() < LOG_NEGLIGIBLE_VALUE:
            return Bracket(arb(0), bound.upper(), METHOD)
        t = self._threshold(tilt)
        for attempt in range(MAX_STEPS):
            terms = _ContourTerms.from_contour(self, laws, t, tilt)
            step = terms.step_to_sign_change()
            if step == 0:
                return terms.divergence_bracket()
            # The suggested step assumes a smooth law; with few coins it may oscillate.
            step = step if attempt < TRUSTED_STEPS else (step > 0) - (step < 0)
            t = min(max(t + step, 1), self.many + self.few + 1)
        return None

    def _chernoff_bound(self, laws: _BinomialWeights, tilt: float) -> arb:
        """Returns an upper bound of D: A·P(F ≥ t) where no term up to t is positive, by Chernoff.

        Likelier coins make f(t)/f(t−1) larger, because adding log-concave laws preserves the likelihood ratio order. So
        it is at least that of coins that are all the least likely, p: (n−t+1)/t·p/(1−p).
        """
        if self.many + self.few == 0:
            return laws.gain
        least = laws.low if self.few else laws.high
        odds = -laws.loss / laws.gain * least / (1 - least)
        first = max(0, math.floor(float(((self.many + self.few + 1) * odds / (1 + odds)).lower()) * (1 - 1e-12)) - 1)
        radius = arb(tilt).exp()
        log_moment = self.many * (1 - laws.high + laws.high * radius).log()
        log_moment += self.few * (1 - laws.low + laws.low * radius).log()
        return laws.gain * (log_moment - first * arb(tilt)).exp()

    def _tilt(self, log_ratio: float) -> float:
        """Returns log r, where f(t−1)/f(t) is about −B/A; at least one standard deviation above 0."""
        return max(log_ratio, 1.0 / math.sqrt(self.variance_at(log_ratio) + 1.0))

    def _threshold(self, tilt: float) -> int:
        middle = self.mean_at(tilt) + 0.5
        return min(max(math.ceil(middle), 1), self.many + self.few + 1)

    def _tilted_probability(self, probability: Fraction, tilt: float) -> float:
        p = float(probability)
        return p / (p + (1 - p) * math.exp(-tilt)) if p > 0 else 0.0

    def mean_at(self, tilt: float) -> float:
        return self.many * self._tilted_probability(self.high, tilt) + self.few * self._tilted_probability(
            self.low, tilt
        )

    def variance_at(self, tilt: float) -> float:
        one, other = self._tilted_probability(self.high, tilt), self._tilted_probability(self.low, tilt)
        return self.many * one * (1 - one) + self.few * other * (1 - other)


@dataclass(frozen=True)
class _BinomialWeights:
    """The probabilities and the two weights A and B as balls."""

    high: arb
    low: arb
    gain: arb
    loss: arb


@dataclass(frozen=True)
class _ContourTerms:
    """H(t), and those of g(t−2) … g(t+1) whose signs are not known beforehand."""

    total: arb
    terms: dict[int, arb]
    suggested_step: int

    @classmethod
    def from_contour(cls, coins: TwoBinomials, laws: _BinomialWeights, t: int, tilt: float) -> _ContourTerms:
        """Computes them by the trapezoid rule on the circle of radius e^tilt; omitted terms are added as a radius."""
        radius = arb(tilt).exp()
        nodes, used, left_out = _plan_nodes(coins, laws, t, tilt)
        high, low, gain, loss = (acb(ball) for ball in (laws.high, laws.low, laws.gain, laws.loss))
        angle, scale = 2 * arb.pi() / nodes, (-t * arb(tilt)).exp()
        powers = [arb(0)] * 5
        total = arb(0)
        for j in range(used + 1):
            # Each node is computed anew: the balls of repeated rotations would grow.
            (sine, cosine), (sine_t, cosine_t) = (angle * j).sin_cos(), (angle * (j * t)).sin_cos()
            z = acb(radius * cosine, radius * sine)
            # φ(z)·z^(−t). All factors are complex: in flint a real ball times a complex one takes ten times as long.
            weight = (1 - high + high * z) ** coins.many * (1 - low + low * z) ** coins.few
            weight *= acb(scale * cosine_t, -scale * sine_t)
            # A node and its mirror image have conjugate values; nodes on the real axis have no mirror image.
            share = 1 if j == 0 or 2 * j == nodes else 2
            total += share * (weight * (gain * z + loss) * z / (z - 1)).real
            term = weight / z
            for power in range(5):
                powers[power] += share * term.real
                term *= z
        assert used <= nodes // 2
        f = [(value / nodes) + arb(0, left_out) for value in powers]
        terms = {offset: laws.gain * f[2 - offset] + laws.loss * f[1 - offset] for offset in (-2, -1, 0, 1)}
        most = coins.many + coins.few
        known = {offset: ball for offset, ball in terms.items() if 0 < t + offset <= most}
        spread = (abs(laws.gain) + abs(laws.loss)).upper()
        ratio = radius / (radius - 1)
        total = total / nodes + arb(0, (left_out * spread * (1 + ratio)).upper())
        return cls(total, known, _suggest_step(coins, f, laws, tilt))

    def step_to_sign_change(self) -> int:
        """Returns the step to the first positive g; 0 if it is here, as far as the balls can decide."""
        if any(self.terms[k] > 0 for k in (-2, -1) if k in self.terms):
            return min(-1, self.suggested_step)
        if any(self.terms[k] < 0 for k in (0, 1) if k in self.terms):
            return max(1, self.suggested_step)
        return 0

    def divergence_bracket(self) -> Bracket | None:
        """Returns D if g(t−2) ≤ 0 ≤ g(t+1) is certain: then only g(t−1) and g(t) may have the other sign."""
        if not self.total.is_finite() or not self.total.rad() < abs(self.total.mid()) * MAX_RELATIVE_RADIUS:
            return None
        before, after = self.terms.get(-2), self.terms.get(1)
        if (before is not None and not before <= 0) or (after is not None and not after >= 0):
            return None
        extra = self.terms.get(-1, arb(0)).upper().max(arb(0)) + (-self.terms.get(0, arb(0))).upper().max(arb(0))
        return Bracket(self.total.lower().max(arb(0)), (self.total + extra).upper(), METHOD)


@dataclass(frozen=True)
class _CountLaw:
    """f(t) and P(F ≥ t) for all t."""

    chances: arb_poly
    tails: arb_poly

    def term(self, laws: _BinomialWeights, t: int) -> arb:
        """Returns g(t)."""
        before = self.chances[t - 1] if t else arb(0)
        return laws.gain * before + laws.loss * self.chances[t]

    def total(self, laws: _BinomialWeights, t: int) -> arb:
        """Returns H(t), the sum of g from t on."""
        return laws.gain * self.tails[max(t - 1, 0)] + laws.loss * self.tails[t]


@lru_cache(maxsize=LAW_CACHE_SIZE)
def _compute_count_law(coins: TwoBinomials) -> _CountLaw:
    """Returns the coefficients of φ(z), which are the same at every x."""
    high, low = arb(to_rational(coins.high)), arb(to_rational(coins.low))
    chances = arb_poly([1 - high, high]) ** coins.many * arb_poly([1 - low, low]) ** coins.few
    sums = accumulate(reversed(chances.coeffs()))
    return _CountLaw(chances, arb_poly(list(sums)[::-1]))


def _transform_value(coins: TwoBinomials, laws: _BinomialWeights, t: int, z: acb) -> acb:
    """Returns φ(z)·z^(−t)."""
    factors = (
        (coins.many, 1 - laws.high + laws.high * z),
        (coins.few, 1 - laws.low + laws.low * z),
        (-t, z),
    )
    exponent, odd = acb(0), False
    for count, base in factors:
        # The branch cut of the logarithm is the negative axis, where the node opposite to r lies.
        if base.real < 0:
            base, odd = -base, odd ^ bool(count % 2)
        exponent += count * base.log()
    return -exponent.exp() if odd else exponent.exp()


def _plan_nodes(coins: TwoBinomials, laws: _BinomialWeights, t: int, tilt: float) -> tuple[int, int, arb]:
    """Returns the number of nodes, the number used in a half of the circle, and a bound of each f's omitted part.

    Aliases: f(t+mN)·r^(mN) ≤ φ(r²)·r^(−2(t−3))·r^(−mN) for m ≥ 1 (also for tails in place of f), and at most r^(−N|m|)
    for m ≤ −1. Nodes at an angle α or more: at most N of them, each below φ(r)·r^(−t+3)·exp(−V(1−cos α)).
    """
    radius = arb(tilt).exp()
    square = radius * radius
    size = _transform_value(coins, laws, t - 3, acb(radius)).real
    far_size = _transform_value(coins, laws, t - 3, acb(square)).real
    log_size = float(size.log())
    log_far = float(far_size.log())
    weight = float(((abs(laws.gain) + abs(laws.loss)) / laws.gain).log())
    variance = coins.variance_at(tilt)
    wanted = NEGLIGIBLE_LOG_PER_BIT * ctx.prec + weight + math.log1p(variance) + 5 * tilt + math.log1p(1 / tilt)
    nodes = math.ceil((wanted + max(0.0, -log_size, log_far - log_size)) / tilt) + 1
    angle = math.sqrt(2 * (wanted + math.log(nodes)) / variance) * 1.05 if variance > 0 else math.inf
    used = nodes // 2 if angle >= 3 else min(nodes // 2, math.ceil(angle * nodes / (2 * math.pi)))
    once = (-nodes * arb(tilt)).exp()
    left_out = (far_size + 1) * once / (1 - once)
    if used < nodes // 2:
        certain = _tilted_variance(coins, laws, radius)
        cosine = (2 * arb.pi() * (used + 1) / nodes).cos()
        left_out += size * (-certain * (1 - cosine)).exp()
    return nodes, used, left_out.upper()


def _tilted_variance(coins: TwoBinomials, laws: _BinomialWeights, radius: arb) -> arb:
    """Returns the variance of the coins tilted by ``radius``.

    For each coin, |1−p+pre^{iα}|² = (1−p+pr)²·(1 − 2v(1−cos α)).
    """
    result = arb(0)
    for count, p in ((coins.many, laws.high), (coins.few, laws.low)):
        share = p * radius / (1 - p + p * radius)
        result += count * share * (1 - share)
    return result


def _suggest_step(coins: TwoBinomials, f: list[arb], laws: _BinomialWeights, tilt: float) -> int:
    """Returns the distance to the sign change, by the slope 1/variance of log f(t−1)/f(t)."""
    here, before = f[1], f[2]
    if not (here > 0 and before > 0):
        return 0
    distance = float((-laws.loss / laws.gain).log() - (before / here).log())
    return round(distance * max(1.0, coins.variance_at(tilt)))


INITIAL_EPSILON_MARGIN, INITIAL_BLOCK_EVALUATIONS = 2e-6, 60
"""Relative distance in ε, tried first, between the answer and the worst dataset found, and the number of blocks of
datasets to evaluate for it. If many datasets are nearly as bad as the worst, the proof for all needs a larger margin.
"""
MAX_BLOCK_EVALUATIONS = 400
ATTACK_DATASET_COUNT = 4
"""Datasets that differ from a constant one in fewer users than this are tried as attacks."""
SLOPE_STEP = 1e-3
INTERPOLATION_RANGE = 25.0
"""Range of ε, in standard deviations, of the interpolation for many ε."""
RATIO_BITS = 128


@dataclass(frozen=True)
class ProfileEffort:
    """Effort for many ε.

    It has the distance of the interpolation points in standard deviations, the relative margin in ε of a proof, and the
    number of blocks of datasets to evaluate at each.
    """

    step: float
    epsilon_margin: float
    block_evaluations: int


QUICK_PROFILE_EFFORT, SHARP_PROFILE_EFFORT = ProfileEffort(0.25, 5e-3, 60), ProfileEffort(0.125, 1e-3, 120)
"""If the coins are multiplied out, another ε costs next to nothing."""


@dataclass(frozen=True)
class WorstDivergence:
    """Bounds of the largest divergence over the datasets of a direction at one ε."""

    upper: arb
    lower: arb
    high_count: int
    """Number of others who hold the input of the likelier coin in the worst dataset evaluated."""


@dataclass(frozen=True)
class BinaryDatasets:
    """All datasets of ``users`` users whose message is 1 with probability ``low`` or ``high``.

    By joint convexity inputs between the two extremes are never worse. With k others at ``high`` and z at ``low`` the
    divergence D(k, z) falls in both k and z, because adding an independent message is post-processing. So all datasets
    with k from a to b are bounded by D(a, users−1−b), and blocks are halved where that is not enough.
    """

    high: Fraction
    low: Fraction
    users: int

    def swapped_direction(self) -> BinaryDatasets:
        """Returns the datasets with the meanings of 0 and 1 exchanged."""
        return BinaryDatasets(1 - self.low, 1 - self.high, self.users)

    def dataset(self, many: int) -> TwoBinomials:
        return TwoBinomials(self.high, self.low, many, self.users - 1 - many)

    def bound_worst(
        self, epsilon: float, target: arb | None = None, *, relative: float = 0.0, most: int = MAX_BLOCK_EVALUATIONS
    ) -> WorstDivergence:
        """Bounds the largest D at ε; stops when it is at most ``target``, or exact, or after ``most`` evaluations.

        ``relative`` is another target: about that much more ε than that of the worst dataset evaluated.

        Theorem: identity (★) does not apply to mixed datasets; this is direct: post-processing and bisection.
        """
        ends = [self._evaluate_block(many, many, epsilon) for many in {0, self.users - 1}]
        lower, high_count = max((block.lower, block.first) for block in ends)
        heap = [*ends, *(self._evaluate_block(a, b, epsilon) for a, b in self._blocks())]
        heapq.heapify(heap)
        evaluations = len(heap)
        if target is None and relative and lower > 0:
            target = lower * (1 + arb(relative) * (1 - 2 * lower.log()))
        while heap and evaluations < most and not (target is not None and heap[0].upper <= target):
            block = heapq.heappop(heap)
            if block.first == block.last:
                # No remaining block is larger.
                heap = [block]
                break
            middle = (block.first + block.last) // 2
            for a, b in ((block.first, middle), (middle + 1, block.last)):
                part = self._evaluate_block(a, b, epsilon)
                heapq.heappush(heap, part)
                evaluations += 1
                if a == b and part.lower > lower:
                    lower, high_count = part.lower, a
        return WorstDivergence(heap[0].upper, lower, high_count)

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Yields the block of all datasets between the two constant ones."""
        if self.users > 2:
            yield 1, self.users - 2

    def _evaluate_block(self, first: int, last: int, epsilon: float) -> _DatasetBlock:
        value = TwoBinomials(self.high, self.low, first, self.users - 1 - last).bracket(epsilon)
        return _DatasetBlock(value.upper, value.lower, first, last)

    def attacks(self) -> list[TwoBinomials]:
        """Returns nearly constant datasets; one of them is the worst of all datasets, or nearly as bad."""
        differences = range(min(ATTACK_DATASET_COUNT, self.users))
        return [self.dataset(self.users - 1 - other) for other in differences]


@dataclass(frozen=True)
class _DatasetBlock:
    """Datasets with ``first`` to ``last`` others at the likelier coin, and bounds for all of them."""

    upper: arb
    lower: arb
    first: int
    last: int

    def __lt__(self, other: _DatasetBlock) -> bool:
        """Orders blocks by decreasing upper bound."""
        return bool(self.upper > other.upper)


@dataclass(frozen=True)
class ExactBinaryCurve(PrivacyCurve):
    """The largest divergence over all datasets of a randomizer with two messages."""

    directions: tuple[BinaryDatasets, ...]
    largest_epsilon: float

    @property
    def certified(self) -> bool:
        return True

    def _epsilon(self, delta: float) -> BoundValue:
        upper = lower = 0.0
        for way in self.directions:
            direction_upper, direction_lower = self._direction_epsilon(way, delta)
            upper, lower = max(upper, direction_upper), max(lower, direction_lower)
        return self._value(upper, upper - lower)

    @property
    def has_fast_profile(self) -> bool:
        return self.messages < EXACT_BINARY_USER_LIMIT

    def may_beat(self, epsilon: float, delta: float) -> bool:
        """Returns False if the dataset of equal others has no smaller δ at an ε that is hardly smaller."""
        slightly_smaller = min(epsilon, self.largest_epsilon, MAX_EPSILON) * (1 - MIN_RELATIVE_GAIN)
        return not any(way.dataset(way.users - 1).bracket(slightly_smaller).lower > delta for way in self.directions)

    def _direction_epsilon(self, way: BinaryDatasets, delta: float) -> tuple[float, float]:
        """Returns an ε that is proved for all datasets, and one that some dataset exceeds."""
        high = min(self.largest_epsilon, MAX_EPSILON)
        target, high_count, lower, margin = arb(delta), way.users - 1, 0.0, INITIAL_EPSILON_MARGIN
        while True:
            inverse = invert(way.dataset(high_count), delta, high, zero_at_high=self.largest_epsilon <= MAX_EPSILON)
            lower = max(lower, inverse.lower)
            if math.isinf(inverse.upper):
                return math.inf, lower
            while True:
                upper = min(high, max(lower * (1 + margin), inverse.upper))
                worst = way.bound_worst(
                    upper,
                    target,
                    most=INITIAL_BLOCK_EVALUATIONS if margin == INITIAL_EPSILON_MARGIN else MAX_BLOCK_EVALUATIONS,
                )
                if worst.upper <= target or upper >= self.largest_epsilon:
                    return upper, lower
                if worst.lower > target and worst.high_count != high_count:
                    high_count = worst.high_count
                    break
                if upper >= high:
                    return math.inf, lower
                margin = self._enlarged_margin(way.dataset(high_count), upper, margin, worst, target)

    def _enlarged_margin(
        self, dataset: TwoBinomials, epsilon: float, margin: float, worst: WorstDivergence, target: arb
    ) -> float:
        """Returns a sufficient margin, by the slope of log δ in log ε."""
        if margin == INITIAL_EPSILON_MARGIN:
            return 100 * INITIAL_EPSILON_MARGIN
        slope = (dataset.log_estimate(epsilon) - dataset.log_estimate(epsilon * (1 + SLOPE_STEP))) / SLOPE_STEP
        missing = float((worst.upper / target).log())
        return max(2 * margin, margin + 1.1 * missing / slope) if slope > 0 else 10 * margin

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest_epsilon:
            return self._value(0.0, 0.0)
        upper = lower = 0.0
        for way in self.directions:
            worst = way.bound_worst(min(epsilon, MAX_EPSILON))
            upper = max(upper, min(1.0, round_up(worst.upper)))
            lower = max(lower, -round_up(-worst.lower))
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self._interpolation_points.interpolate(epsilons)

    @cached_property
    def _interpolation_points(self) -> InterpolationPoints:
        """δ over all datasets in a few blocks, at a few ε, to interpolate.

        Each divergence is convex in e^ε, hence the maximum is.
        """
        scale = max(way.dataset(way.users - 1).natural_scale() for way in self.directions)
        effort = SHARP_PROFILE_EFFORT if self.messages - 1 <= MAX_EXPANDED_COINS else QUICK_PROFILE_EFFORT

        def at(epsilon: float) -> tuple[float, float]:
            worsts = [
                way.bound_worst(epsilon, relative=effort.epsilon_margin, most=effort.block_evaluations)
                for way in self.directions
            ]
            lower = max(max(0.0, -round_up(-worst.lower)) for worst in worsts)
            return max(min(1.0, round_up(worst.upper)) for worst in worsts), lower

        return InterpolationPoints.from_function(
            at, effort.step * scale, self.largest_epsilon, round(INTERPOLATION_RANGE / effort.step)
        )


class ExactBinaryBound(Bound):
    """The exact worst case over all datasets, for randomizers with two messages.

    Theorem: the others' messages are independent coins; D(k, z) with k and z of them at the two extreme laws falls in k
    and in z (post-processing), so bisection over k bounds the maximum from both sides; the divergence of one dataset is
    max_t [A·P(F ≥ t−1) + B·P(F ≥ t)] for the sum F of two binomials.
    Requires: two messages, and the smallest and largest probability of one of them over all inputs.
    Returns: a certified upper bound within a relative 2e-4 in ε of a dataset that attains it (more where that would
    take too long; the slack says so).
    """

    name = "exact-binary"
    theorem = "worst dataset of two-message randomizers, by post-processing and bisection"
    summary = "two messages: the exact worst case over all datasets"
    guarantees = True

    def evaluation_cost(self, randomizer: Randomizer, users: int) -> EvaluationCost:
        return EvaluationCost.MODERATE if users >= EXACT_BINARY_USER_LIMIT else EvaluationCost.CHEAP

    def curve(self, randomizer: Randomizer, users: int) -> ExactBinaryCurve:
        coin = randomizer.coin_range()
        if coin is None:
            reason = "has more than two messages" if randomizer.blankets() else "gives no law of two messages"
            raise NotApplicable(self.name, f"{type(randomizer).__name__} {reason}.")
        return ExactBinaryCurve(self.source(users), binary_directions(coin, users), largest_log_ratio(*coin))


def binary_directions(coin: tuple[Fraction, Fraction], users: int) -> tuple[BinaryDatasets, ...]:
    """Returns the directions of the divergence that differ."""
    low, high = coin
    forward = BinaryDatasets(high, low, users)
    backward = forward.swapped_direction()
    return (forward,) if backward == forward else (forward, backward)


def largest_log_ratio(low: Fraction, high: Fraction) -> float:
    """Returns log max(high/low, (1−low)/(1−high)), rounded up; infinity where a probability is 0."""
    if low == 0 or high == 1:
        return math.inf
    with precision(RATIO_BITS):
        return round_up(arb(to_rational(max(high / low, (1 - low) / (1 - high)))).log())
