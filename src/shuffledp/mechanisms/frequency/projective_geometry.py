"""Projective geometry response, a frequency oracle: a point that is likelier to be orthogonal to the option's point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bools, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import Estimator, SelectedOptions
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import UniformNumberProposal
from shuffledp.mechanisms.base.support_counts import DecodedSupportEstimator, SelectedSupportEstimator, SupportEstimator
from shuffledp.mechanisms.base.two_level_law import SetMembership, TwoLevelLaw, TwoLevelResponse
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.sampling import hash_supports
from shuffledp.sampling.hashing import check_prime_buckets, prime_at_least, prime_at_most
from shuffledp.sampling.random_sources import RandomSource

MAX_POINTS, MAX_COUNTED_POINTS = 1 << 62, 1 << 26
"""Most points of a space, and of one whose points are counted one by one (about 48 bytes each)."""
BYTES_PER_POINT = 48
MAX_HISTOGRAM_POINTS = 1 << 20
"""Most options for which the default prime allows a full histogram; most points that are always decoded together."""
MAX_BASE = 1 << 31
"""Products of two numbers below it stay below 2^62."""
MAX_EXPONENT = 30.0
"""Beyond it, e^ε exceeds every prime that is considered."""
PRIMES_PER_SIDE = 6
USERS_AT_ONCE = 1 << 14
"""Number of users encoded at a time, so that the working arrays stay in the processor's cache."""


@dataclass(frozen=True)
class ProjectiveGeometry(Mechanism):
    """Reports a uniform point of a projective space with probability γ, else a uniform one orthogonal to the option's.

    Options are the first points of the space of t coordinates over the numbers modulo a prime q, t the smallest that
    has K = (q^t−1)/(q−1) ≥ d points; every point is orthogonal to c₁ = (q^{t−1}−1)/(q−1) points, possibly itself, every
    two to c₂ = (q^{t−2}−1)/(q−1). γ = 1/(1 + (e^ε−1)c₁/K), rounded up to a multiple of 2^-64, keeps the ratio at most
    e^ε. A uniform point is that of a uniform vector other than 0; for an orthogonal one, one coordinate is solved for.
    By default q gives the least variance for an option that nobody holds. A message is the index of the point.

    Theorem: projective geometry response: p = q = e^ε, β = (e^ε−1)(c₁−c₂)w, w = 1/((e^ε−1)c₁+K); s = e^ε·c₁·w,
    r = w(e^ε·c₂+c₁−c₂).
    Requires: ε > 0 finite; d ≥ 2; q at most 2^31, K at most 2^62.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d; a user's value is an option from 0 to d − 1.
        prime: Prime q, best near e^ε + 1; None for the one with the least variance.

    Raises:
        ValueError: If a parameter is out of range, or ``prime`` is not prime or gives too many points.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.ProjectiveGeometry(epsilon=1.0, options=1000)
    >>> mechanism.prime, mechanism.outputs, mechanism.message_bits
    (3, 1093, 11)
    >>> krr = sdp.KRR(epsilon=1.0, options=1000)
    >>> f"{mechanism.variance([0] * 100).sum() / krr.variance([0] * 100).sum():.4f}"
    '0.0111'
    """

    epsilon: float = field(metadata=checked(validation.positive_finite))
    options: int = field(metadata=checked(validation.count, at_least=2))
    prime: int | None = None

    name = "projective-geometry"
    task = "frequency"
    summary = "projective geometry response: one point number, as accurate as subsets, decoded by Fourier transforms"
    use_case = "For many options, as accurate as subsets in short messages."
    aliases = ("pgr", "pg")

    def __post_init__(self) -> None:
        super().__post_init__()
        who = "ProjectiveGeometry"
        if self.options > MAX_POINTS // 2:
            raise ValueError(f"{who}: options must be at most 2^61, got {self.options}.")
        if self.prime is None:
            prime = best_base(self.epsilon, self.options)
        else:
            prime = check_prime_buckets(who, "prime", self.prime, at_least=2)
        object.__setattr__(self, "prime", prime)
        if prime > MAX_BASE:
            raise ValueError(f"{who}: prime must be at most {MAX_BASE}, got {prime}.")
        if self.outputs > MAX_POINTS:
            raise ValueError(f"{who}: prime must give at most 2^62 points, got {self.outputs}.")
        _ = self.response

    @cached_property
    def space(self) -> ProjectiveSpace:
        """The space whose points are the options and the messages."""
        assert self.prime is not None, "the constructor has chosen it"
        return ProjectiveSpace(self.prime, _coordinate_count(self.prime, self.options))

    @property
    def outputs(self) -> int:
        """K, the number of points."""
        return self.space.size

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The points orthogonal to an option's point."""
        return TwoLevelResponse("ProjectiveGeometry", self.epsilon, self._orthogonal_share(1))

    def _orthogonal_share(self, many: int) -> Fraction:
        """Returns the share of points that are orthogonal to ``many`` independent ones, c_many/K."""
        left = self.space.coordinates - many
        return Fraction(number_of_points(self.space.base, left) if left > 0 else 0, self.outputs)

    @cached_property
    def domain(self) -> Category:
        return Category("ProjectiveGeometry", self.options)

    @cached_property
    def law(self) -> TwoLevelLaw:
        """The law of any two options; no point is orthogonal to all options, as there are more options than c₁."""
        both = self._orthogonal_share(2)
        # A point orthogonal to two options is rarer for a third one.
        q_common = None if both else 1.0
        return TwoLevelLaw(
            self.response,
            self.response.share - both,
            q_common=q_common,
            attack_pairs=(self._build_attack(),),
            tight=True,
            space_key=(self.name, self.options, self.space.base),
        )

    def _build_attack(self) -> HidingPair:
        """Returns options 0 and 1 where all others hold 2, or 0 if there is none.

        With q > 2 the three are on one line: a point orthogonal to two of them is orthogonal to all. With q = 2 they
        are independent, or all the points of the space.
        """
        one, two = self.response.share, self._orthogonal_share(2)
        shares: dict[SetMembership, Fraction]
        if self.options == 2:
            shares = {(True, False, True): one - two, (False, True, False): one - two, (True, True, True): two}
        else:
            collinear = self.space.base > 2 or self.space.coordinates == 2
            three = two if collinear else self._orthogonal_share(3)
            alone = one - 2 * two + three
            shares = {(True, False, False): alone, (False, True, False): alone, (False, False, True): alone}
            for pair in ((True, True, False), (True, False, True), (False, True, True)):
                shares[pair] = two - three
            shares[True, True, True] = three
        shares[False, False, False] = 1 - sum(shares.values(), Fraction(0))
        return self.response.attack(shares, symmetric=self.options > 2)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("ProjectiveGeometry", self.outputs)

    @cached_property
    def estimator(self) -> OrthogonalityEstimator:
        both, high, low = self._orthogonal_share(2), self.response.inside_density, self.response.outside_density
        own, other = self.response.share * high, both * high + (self.response.share - both) * low
        return OrthogonalityEstimator(self.options, own, other, space=self.space)

    @cached_property
    def proposal(self) -> UniformNumberProposal:
        return UniformNumberProposal(self.response, OrthogonalMembership(self.space), self.outputs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        result = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            truthful = ~source.coins(self.response.uniform_share, len(part))
            result[start : start + len(part)] = self._draw_points(part, truthful, source)
        return result

    def _draw_points(self, values: Array, truthful: Bools, source: RandomSource) -> Array:
        """Draws uniform vectors, solving for one coordinate if the user is truthful; redraws zero vectors."""
        messages = np.full(len(values), -1, dtype=np.int64)
        while (pending := np.flatnonzero(messages < 0)).size:
            rows = source.integers_below(self.space.base, pending.size * self.space.coordinates)
            drawn = rows.reshape(pending.size, self.space.coordinates)
            self._make_orthogonal(drawn, self.space.vectors(values[pending]), truthful[pending])
            messages[pending] = self.space.numbers(drawn)[0]
        return messages

    def _make_orthogonal(self, drawn: Array, own: Array, truthful: Bools) -> None:
        """Makes the truthful users' vectors orthogonal to their own point, through its first nonzero coordinate."""
        product = (drawn * own).sum(axis=1)
        product *= truthful
        users, leading = np.arange(len(own)), (own != 0).argmax(axis=1)
        drawn[users, leading] = (drawn[users, leading] - product) % self.space.base

    def table(self) -> OutputTable:
        every, messages = np.arange(self.options), np.arange(self.outputs)
        high, low = self.response.inside_density / self.outputs, self.response.outside_density / self.outputs
        inside = [self.proposal.in_response_set(np.full_like(messages, x), messages) for x in every]
        return OutputTable(every, messages, tuple(tuple(high if hit else low for hit in row) for row in inside))

    @classmethod
    def examples(cls) -> Sequence[ProjectiveGeometry]:
        return [
            cls(epsilon=1.0, options=9),
            cls(epsilon=0.5, options=4, prime=2),
            cls(epsilon=2.0, options=4, prime=5),
            cls(epsilon=3.0, options=7, prime=5),
            cls(epsilon=1.0, options=2, prime=2),
        ]


@dataclass(frozen=True)
class OrthogonalityEstimator(SupportEstimator):
    """Estimator of counts from messages that support the options whose points are orthogonal to them."""

    space: ProjectiveSpace = field(kw_only=True)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.space.size)

    def support_counts(self, total: Array) -> Array:
        return self.space.orthogonal_counts(np.asarray(total), self.options)

    @property
    def full_estimate_bytes(self) -> int:
        return max(super().full_estimate_bytes, BYTES_PER_POINT * self.space.size)

    def select(self, selection: SelectedOptions) -> Estimator:
        kind = DecodedSupportEstimator if self.space.size <= MAX_HISTOGRAM_POINTS else SelectedSupportEstimator
        return kind(self, selection)

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return self.space.orthogonal_to(messages, selection.options)


@dataclass(frozen=True)
class OrthogonalMembership:
    """Function of options and messages that is True where their points are orthogonal."""

    space: ProjectiveSpace

    def __call__(self, values: Array, messages: Array) -> Bools:
        return self.space.orthogonal(values, messages)


def best_base(epsilon: float, options: int) -> int:
    """Returns the prime q with the least variance for an option that nobody holds, if its points are not too many.

    For up to 2^20 options the points are few enough to be counted, for a full histogram.

    That variance hardly depends on the number of points and is least near q = e^ε + 1; besides the primes there, those
    with the fewest points for some number of coordinates are tried.
    """
    excess = math.expm1(min(epsilon, MAX_EXPONENT))
    largest = min(prime_at_least(max(2, options - 1)), prime_at_most(MAX_BASE))
    bases = {largest}
    below = above = min(math.floor(excess + 1) + 1, largest)
    for _ in range(PRIMES_PER_SIDE):
        bases |= {below := prime_at_most(max(2, below)), above := prime_at_least(max(2, above))}
        below, above = below - 1, above + 1
    for coordinates in range(2, options.bit_length() + 1):
        bases.add(prime_at_least(max(2, math.floor(options ** (1 / (coordinates - 1))) - 1)))
    most = MAX_COUNTED_POINTS if options <= MAX_HISTOGRAM_POINTS else MAX_POINTS
    bases = {base for base in bases if base <= MAX_BASE}
    allowed = [base for base in bases if number_of_points(base, _coordinate_count(base, options)) <= most]
    return min(allowed, key=lambda base: (_absent_option_variance(excess, base, options), base))


def _coordinate_count(base: int, options: int) -> int:
    """Returns t, the smallest number of coordinates, at least two, with a point for every option."""
    coordinates = 2
    while number_of_points(base, coordinates) < options:
        coordinates += 1
    return coordinates


def _absent_option_variance(excess: float, base: int, options: int) -> float:
    """Returns r(1−r)/(s−r)², the variance per user of an option that nobody holds; ``excess`` is e^ε − 1."""
    t = _coordinate_count(base, options)
    points, c1, c2 = number_of_points(base, t), number_of_points(base, t - 1), number_of_points(base, t - 2)
    weight = 1 / (excess * c1 + points)
    other = weight * (excess * c2 + c1)
    return other * (1 - other) / (weight * excess * (c1 - c2)) ** 2


# --- Finite projective spaces ---


MESSAGES_AT_ONCE = 1 << 18
MAX_TABLE = 1 << 18
"""Largest table of inverses."""
MAX_MESSAGES_TO_ROUND = 1 << 40
"""Below this many messages, sums of counts come out of a Fourier transform within 1/4 of the exact whole number.

Every transformed value is at most n, with an error of at most n·c·log2(points)·2^-53 for a small constant c.
"""


@dataclass(frozen=True)
class ProjectiveSpace:
    """The projective space over the field of q elements, q prime, with t ≥ 1 coordinates.

    A point is a vector of t numbers modulo q whose first non-zero one is 1. The points whose first non-zero coordinate
    is number j form chart j: (0, …, 0, 1, x) for every x of t−1−j numbers. Points are numbered chart by chart, and in a
    chart by x as a number in base q.
    """

    base: int
    """q."""
    coordinates: int
    """t."""

    @property
    def size(self) -> int:
        """The number of points, (q^t − 1)/(q − 1)."""
        return number_of_points(self.base, self.coordinates)

    @cached_property
    def _first(self) -> Integers:
        """The number of the first point of each chart."""
        sizes = [self.base ** (self.coordinates - 1 - chart) for chart in range(self.coordinates)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def _table(self) -> Integers:
        return self._powers(np.arange(self.base))

    def _inverse(self, numbers: Integers) -> Integers:
        """Returns 1/a modulo q, and 0 for 0: from a table if q is small."""
        return self._table[numbers] if self.base <= MAX_TABLE else self._powers(numbers)

    def _powers(self, numbers: Integers) -> Integers:
        """Returns 1/a = a^{q−2} modulo q for a = 1 … q−1, and 0 for 0."""
        power, result = np.array(numbers), np.minimum(numbers, 1)
        for bit in reversed(bin(self.base - 2)[2:]):
            if bit == "1":
                result = result * power % self.base
            power = power * power % self.base
        return result

    def vectors(self, numbers: Array) -> Integers:
        """Returns the points with these numbers, one row each."""
        chart = np.searchsorted(self._first, numbers, side="right") - 1
        rest = numbers - self._first[chart]
        rows = np.empty((len(numbers), self.coordinates), dtype=np.int64)
        for place in range(self.coordinates - 1, -1, -1):
            higher = rest // self.base
            rows[:, place] = rest - higher * self.base
            rest = higher
        rows[np.arange(len(numbers)), chart] = 1
        return rows

    def numbers(self, rows: Array) -> tuple[Integers, Integers]:
        """Returns the point on each row's line, and the row's first non-zero coordinate.

        A row of zeros gives −1 and 0.
        """
        scale = np.zeros(len(rows), dtype=np.int64)
        chart = np.full(len(rows), self.coordinates, dtype=np.int64)
        for place in range(self.coordinates - 1, -1, -1):
            here = rows[:, place] != 0
            np.copyto(scale, rows[:, place], where=here)
            chart[here] = place
        inverse, number = self._inverse(scale), np.zeros(len(rows), dtype=np.int64)
        for place in range(self.coordinates):
            digit = rows[:, place] * inverse
            digit -= digit // self.base * self.base
            # The leading 1 itself is not a digit of x.
            digit[chart == place] = 0
            number *= self.base
            number += digit
        number += self._first[chart]
        number[scale == 0] = -1
        return number, scale

    def orthogonal(self, first: Array, second: Array) -> NDArray[np.bool_]:
        """Returns True where the points of a pair have inner product 0."""
        return np.asarray((self.vectors(first) * self.vectors(second)).sum(axis=1) % self.base == 0)

    def orthogonal_to(self, messages: Array, options: Integers) -> Integers:
        """Returns the number of messages orthogonal to each of these points, computed pair by pair."""
        codes, total = self.vectors(options), np.zeros(len(options), dtype=np.int64)
        for start in range(0, len(messages), MESSAGES_AT_ONCE):
            rows = self.vectors(np.asarray(messages[start : start + MESSAGES_AT_ONCE], dtype=np.int64))
            total += hash_supports.supports(rows, np.zeros(len(rows), dtype=np.int64), codes, self.base)
        return total

    def orthogonal_counts(self, counts: Array, options: int) -> Integers:
        """Returns the number of messages orthogonal to each of the first ``options`` points, from the messages' counts.

        Chart by chart: a message (0, …, 0, 1, x) is orthogonal to v if ⟨x, w⟩ = −v_j, w the coordinates of v after the
        j-th. The counts over x are summed over the lines ⟨x, w'⟩ = a for every point w' of the smaller space and every
        a: a Fourier transform over x, read along the multiples of w' and transformed back. w = λw' needs a = −v_j/λ.
        """
        if int(counts.sum()) >= MAX_MESSAGES_TO_ROUND:
            raise ValueError("ProjectiveSpace: expected fewer than 2^40 messages to decode at once.")
        result = np.zeros(options, dtype=np.int64)
        targets = self.vectors(np.arange(options))
        for chart in range(self.coordinates):
            part = counts[self._first[chart] : self._first[chart + 1]]
            own, later = targets[:, chart], targets[:, chart + 1 :]
            nothing_later = ~later.any(axis=1)
            result[nothing_later & (own == 0)] += part.sum()
            if later.shape[1] and part.any():
                smaller = ProjectiveSpace(self.base, later.shape[1])
                point, scale = smaller.numbers(later)
                value = -own * self._inverse(scale) % self.base
                result += np.where(nothing_later, 0, smaller._line_sums(part)[point, value])
        return result

    def _line_sums(self, counts: Array) -> Integers:
        """Returns sums of counts over ⟨x, w⟩ = a, by the point w and the number a.

        Counts are by x as a number in base q.
        """
        from scipy import fft

        q, t = self.base, self.coordinates
        if t == 1:
            return np.asarray(counts, dtype=np.int64).reshape(1, q)
        spectrum = fft.fftn(counts.reshape((q,) * t).astype(np.float64)).reshape(-1)
        points, places = self.vectors(np.arange(self.size)), q ** np.arange(t - 1, -1, -1)
        along = np.zeros((self.size, q), dtype=np.int64)
        for coordinate in range(t):
            along += points[:, coordinate, None] * np.arange(q) % q * places[coordinate]
        return np.asarray(np.rint(fft.ifft(spectrum[along], axis=1).real), dtype=np.int64)


def number_of_points(base: int, coordinates: int) -> int:
    """Returns the number of points, (q^t − 1)/(q − 1)."""
    return int((base**coordinates - 1) // (base - 1))
