"""PI-RAPPOR, a frequency oracle: RAPPOR with pairwise independent bits, all of which two numbers encode."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bools, Bytes, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import Encoding, ValidRows, decode_integers, encode_integers
from shuffledp.mechanisms.base.estimator import Estimator, SelectedOptions
from shuffledp.mechanisms.base.law import check_informative_epsilon
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import UniformNumberProposal
from shuffledp.mechanisms.base.support_counts import DecodedSupportEstimator, SelectedSupportEstimator, SupportEstimator
from shuffledp.mechanisms.base.two_level_law import HidingPairs, SetMembership, TwoLevelLaw, TwoLevelResponse
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.sampling import hash_supports, hashing
from shuffledp.sampling.hashing import check_prime_buckets, prime_at_least, prime_at_most
from shuffledp.sampling.random_sources import RandomSource

REPLACEMENT, DELETION = "replacement", "deletion"
MAX_PRIME = 1 << 31
"""Products of two numbers below it stay below 2^62."""
MAX_EXPONENT = 64.0
"""From here on the arc is one number, for every prime that is allowed."""
MAX_VARIANCE_INCREASE = 0.01
"""Largest relative increase of the total variance, over a real arc, for a prime to be chosen by default."""
MAX_ENUMERATED_HEIGHTS = 1 << 27
"""Largest number of heights of lines at a third option that are counted one by one."""
USERS_AT_ONCE = 1 << 14
"""Number of users encoded at a time, so that the working arrays stay in the processor's cache."""


@dataclass(frozen=True)
class PIRAPPOR(Mechanism):
    """Reports a line φ(j) = φ0 + φ1·j modulo a prime P ≥ d that is below T at the true option with probability α1.

    Option j's bit is [φ(j) < T]: 1 with probability α0 = T/P unless j is the true option; any two bits are independent.
    The client draws the true option's bit, 1 with probability α1; φ1 uniform, φ(x) uniform among those with that bit,
    φ0 = φ(x) − x·φ1, all exactly on integers. ``variant`` "replacement": α1 = 1/2, T = ⌈P/(e^ε+1)⌉, ratio (P−T)/T ≤
    e^ε. "deletion": α1 = 1 − α0, T = ⌈P/(e^{ε/2}+1)⌉: every law is within (P−T)/T ≤ e^{ε/2} of the uniform one, two
    laws within its square; ``PIRAPPOR.deletion`` takes the deletion ε. By default P is the smallest prime found whose
    total variance is at most 1% above that of a real arc P/(e^ε+1). A message is the number φ1·P + φ0.

    Theorem: [LC] Lemmas 4.1, 4.2, B.5: p = q = α1(1−α0)/(α0(1−α1)), β = α1 − α0; variance of ĉ_j
    c_j(1−α0−α1)/(α1−α0) + nα0(1−α0)/(α1−α0)².
    Requires: ε > 0 finite; d ≥ 2; P prime, d ≤ P < 2^31, 2T < P.
    Deviates: P ≥ d suffices, print has P > d; Lemma 4.1 prints ratios for ε (erratum LC-1). ``epsilon`` is the
    replacement guarantee in both variants.

    Args:
        epsilon: Local ε of every message.
        options: Number of options d; a user's value is an option from 0 to d − 1.
        variant: "replacement" or "deletion"; the latter has more noise if neighbours replace a value.
        prime: Prime P, the number of values of a line; None to choose it.

    Raises:
        ValueError: If a parameter is out of range, ``prime`` is not prime or below ``options``, or ε is too small for
            it.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PIRAPPOR(epsilon=1.0, options=10_000)
    >>> mechanism.prime, mechanism.arc, mechanism.message_bits
    (10007, 2692, 28)
    >>> f"{sdp.PIRAPPOR.deletion(epsilon=1.0, options=10_000).epsilon:.4f}"
    '2.0000'
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    options: int = field(metadata=checked(validation.count, at_least=2))
    variant: str = REPLACEMENT
    prime: int | None = None

    name = "pi-rappor"
    task = "frequency"
    summary = "RAPPOR with pairwise independent bits: two numbers modulo a prime instead of one bit per option"
    use_case = "For many options, as accurate as RAPPOR in short messages."
    aliases = ("pirappor", "compressed-rappor")

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield from ({"variant": variant} for variant in (REPLACEMENT, DELETION))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant not in (REPLACEMENT, DELETION):
            raise ValueError(f"PIRAPPOR: variant must be {REPLACEMENT} or {DELETION}, got {self.variant!r}.")
        if self.options >= MAX_PRIME:
            raise ValueError(f"PIRAPPOR: options must be below 2^31, got {self.options}.")
        object.__setattr__(self, "prime", self._choose_prime())
        if 2 * self.arc >= self.field_size:
            raise ValueError(
                f"PIRAPPOR: epsilon is too small for the {self.field_size} numbers modulo the prime, got "
                f"{self.epsilon!r}."
            )

    def _choose_prime(self) -> int:
        """Returns P: the given prime, or else one that costs little variance."""
        if self.prime is None:
            return _best_prime(self._exponent, self.options, self.variant)
        prime = check_prime_buckets("PIRAPPOR", "prime", self.prime, at_least=self.options)
        if prime >= MAX_PRIME:
            raise ValueError(f"PIRAPPOR: prime must be below 2^31, got {prime}.")
        return prime

    @classmethod
    def deletion(cls, epsilon: float, options: int, prime: int | None = None) -> PIRAPPOR:
        """Returns the variant whose laws are all within e^{±epsilon} of the uniform law.

        Args:
            epsilon: Deletion ε; the local ε is twice that.
            options: Number of options.
            prime: Prime P; None to choose it.

        Returns:
            The mechanism with ``variant`` "deletion".

        Raises:
            ValueError: As for the constructor.
        """
        return cls(2 * validation.positive_finite("PIRAPPOR", "epsilon", epsilon), options, DELETION, prime)

    @property
    def _exponent(self) -> float:
        """The logarithm of the ratio between the probabilities of a bit and its opposite."""
        return min(self.epsilon if self.variant == REPLACEMENT else self.epsilon / 2, MAX_EXPONENT)

    @property
    def field_size(self) -> int:
        """P, as given or as chosen by the constructor."""
        assert self.prime is not None, "the constructor has chosen it"
        return self.prime

    @cached_property
    def arc(self) -> int:
        """T = ⌈P/(e^ε+1)⌉, the number of values that give a 1."""
        with precision(192):
            whole = (self.field_size / (arb(self._exponent).exp() + 1)).ceil().unique_fmpz()
        assert whole is not None, "e^ε is irrational"
        return int(whole)

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The lines that give an option a 1."""
        other = Fraction(self.arc, self.field_size)
        return TwoLevelResponse("PIRAPPOR", self.epsilon, other, (1 - self._true_bit_probability) / (1 - other))

    @property
    def _true_bit_probability(self) -> Fraction:
        """α1, the probability that the true option's bit is 1."""
        return Fraction(1, 2) if self.variant == REPLACEMENT else 1 - Fraction(self.arc, self.field_size)

    @cached_property
    def domain(self) -> Category:
        return Category("PIRAPPOR", self.options)

    @cached_property
    def law(self) -> TwoLevelLaw:
        other = self.response.share
        # A line that gives two options a 1 is rarer for an option to which it gives a 0, if there is any.
        both_is_all = self._common_line_count == self.arc**2
        return LineLaw(
            self.response,
            exclusive_share=other * (1 - other),
            common_share=Fraction(self._common_line_count, self.field_size**2),
            q_common=1.0 if both_is_all else None,
            attack_pairs=(self._build_attack(),),
            tight=True,
            space_key=(self.name, self.options, self.field_size, self.arc),
            options=self.options,
            prime=self.field_size,
            arc=self.arc,
        )

    @property
    def _common_line_count(self) -> int:
        """The number of lines that give every option a 1.

        As 2T < P, such a line is an arithmetic progression of whole numbers below T, with a step of either sign.
        """
        reach, last = self.options - 1, self.arc - 1
        steps = last // reach
        return self.arc * (1 + 2 * steps) - reach * steps * (steps + 1)

    def _build_attack(self) -> HidingPair:
        """Returns options 0 and 2 where all others hold 1; with two options only, 0 and 1 where all others hold 0.

        A line with heights a and b at 0 and 2, both below T < P/2, has height (a+b)/2 < T at 1 if a+b is even, else
        (a+b+P)/2, which is at least T: ⌈T²/2⌉ lines are below T at all three.
        """
        prime, arc = self.field_size, self.arc
        shares = dict.fromkeys(product((True, False), repeat=3), 0)
        if self.options == 2:
            shares |= {(True, True, True): arc**2, (True, False, True): arc * (prime - arc)}
            shares |= {(False, True, False): arc * (prime - arc), (False, False, False): (prime - arc) ** 2}
        else:
            three = -(-(arc**2) // 2)
            for inside in shares:
                # Inclusion and exclusion over the options that are not below T.
                shares[inside] = {
                    3: three,
                    2: arc**2 - three,
                    1: arc * prime - 2 * arc**2 + three,
                    0: prime**2 - 3 * arc * prime + 3 * arc**2 - three,
                }[sum(inside)]
        cells: dict[SetMembership, Fraction] = {inside: Fraction(count, prime**2) for inside, count in shares.items()}
        return self.response.attack(cells, symmetric=self.options > 2)

    @cached_property
    def encoding(self) -> LineEncoding:
        return LineEncoding("PIRAPPOR", self.field_size)

    @cached_property
    def estimator(self) -> LineEstimator:
        """Support counts with probability α1 at the true option and α0 = T/P at the others."""
        return LineEstimator(
            self.options, self._true_bit_probability, self.response.share, prime=self.field_size, arc=self.arc
        )

    @cached_property
    def proposal(self) -> UniformNumberProposal:
        return UniformNumberProposal(self.response, ArcMembership(self.field_size, self.arc), self.field_size**2)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        result = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            result[start : start + len(part)] = self._draw_lines(part, source)
        return result

    def _draw_lines(self, values: Array, source: RandomSource) -> Array:
        users, prime, arc = len(values), self.field_size, self.arc
        ones = self._draw_true_bits(users, source)
        heights = source.integers_below(prime - arc, users)
        heights += arc
        np.copyto(heights, source.integers_below(arc, users), where=ones)
        slopes = source.integers_below(prime, users)
        heights += slopes * (prime - values)
        # Division by one constant is fast, the remainder is not.
        heights -= heights // prime * prime
        slopes *= prime
        slopes += heights
        return slopes

    def _draw_true_bits(self, users: int, source: RandomSource) -> Bools:
        if self.variant == REPLACEMENT:
            return source.coins(Fraction(1, 2), users)
        return np.asarray(source.integers_below(self.field_size, users) >= self.arc)

    def table(self) -> OutputTable:
        every, lines = np.arange(self.options), np.arange(self.field_size**2)
        high, low = self.response.inside_density / len(lines), self.response.outside_density / len(lines)
        inside = [self.proposal.in_response_set(np.full_like(lines, x), lines) for x in every]
        return OutputTable(every, lines, tuple(tuple(high if hit else low for hit in row) for row in inside))

    @classmethod
    def examples(cls) -> Sequence[PIRAPPOR]:
        return [
            cls(epsilon=1.0, options=5, prime=5),
            cls(epsilon=0.5, options=2, prime=5),
            cls(epsilon=0.4, options=3, prime=11),
            cls(epsilon=3.0, options=4, variant=DELETION, prime=7),
        ]


@dataclass(frozen=True)
class LineLaw(TwoLevelLaw):
    """Law of lines that are below T at an option: any two options are independent, any three need not be."""

    options: int = field(kw_only=True)
    prime: int = field(kw_only=True)
    arc: int = field(kw_only=True)

    def pair_families(self, hider: TwoLevelResponse) -> Sequence[HidingPairs]:
        """Returns one family, for the fewest to the most lines that are below T at three options."""
        both = self.response.share**2
        if self.options == 2:
            return [self.response.extreme_pairs_by_overlap(both, (), hider)]
        if self.prime * self.arc**2 > MAX_ENUMERATED_HEIGHTS:
            return super().pair_families(hider)
        together = [Fraction(lines, self.prime**2) for lines in self._triple_line_range()]
        return [self.response.extreme_pairs_by_overlap(both, together, hider)]

    def _triple_line_range(self) -> tuple[int, int]:
        """Returns the fewest and the most lines below T at three options i, j, k, over all of them.

        With heights a and b at i and j, the height at k is (1−c)a + cb modulo P, c = (k−i)/(j−i): every c but 0 and 1.
        """
        heights = np.arange(self.arc)
        counts = []
        for c in range(2, self.prime):
            at_third = ((1 - c) * heights[:, None] + c * heights) % self.prime
            counts.append(int((at_third < self.arc).sum()))
        return min(counts), max(counts)


@dataclass(frozen=True)
class ArcMembership:
    """Function of options and lines that is True where the line gives the option a 1."""

    prime: int
    arc: int

    def __call__(self, values: Array, messages: Array) -> Bools:
        slopes, offsets = np.divmod(messages, self.prime)
        return np.asarray((offsets + values * slopes) % self.prime < self.arc)


@dataclass(frozen=True)
class LineEncoding(Encoding):
    """Encoding of slope and offset, two numbers below the prime, side by side."""

    error_prefix: str
    prime: int

    @property
    def _number_bits(self) -> int:
        return (self.prime - 1).bit_length()

    @property
    def bits(self) -> int:
        return 2 * self._number_bits

    @property
    def expected_format(self) -> str:
        return f"numbers below the prime {self.prime}"

    def pack(self, messages: Array) -> Bytes:
        slopes, offsets = np.divmod(messages, self.prime)
        return encode_integers(slopes << self._number_bits | offsets, self.bits)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        both = decode_integers(rows)
        slopes, offsets = both >> self._number_bits, both & (1 << self._number_bits) - 1
        good = (slopes >= 0) & (slopes < self.prime) & (offsets < self.prime)
        return np.asarray(slopes * self.prime + offsets), good


@dataclass(frozen=True)
class LineEstimator(SupportEstimator):
    """Estimator of counts from lines that support the options to which they give a 1."""

    _: KW_ONLY
    prime: int
    arc: int

    @property
    def counts_messages(self) -> bool:
        """True if ``accumulate`` counts messages and ``finish`` decodes them; else ``accumulate`` decodes."""
        return self.prime**2 <= hash_supports.MAX_CELLS

    def accumulate(self, messages: Array) -> Array:
        if self.counts_messages:
            return np.bincount(messages, minlength=self.prime**2)
        return hashing.supports_of_lines(messages, self.prime, self.arc, self.options)

    def support_counts(self, total: Array) -> Array:
        if self.counts_messages:
            return hashing.line_supports_of_counts(total, self.prime, self.arc, self.options)
        return total

    def select(self, selection: SelectedOptions) -> Estimator:
        kind = DecodedSupportEstimator if self.counts_messages else SelectedSupportEstimator
        return kind(self, selection)

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return hashing.supports_of_line_options(messages, self.prime, self.arc, selection.options)


def _best_prime(exponent: float, options: int, variant: str) -> int:
    """Returns the smallest candidate whose total variance is near that of a real arc, or else that with the least."""
    share = 1 / (math.exp(exponent) + 1)

    def variance_increase(prime: int) -> float:
        arc = math.ceil(prime * share)
        return _total_variance(arc / prime, options, variant) / _total_variance(share, options, variant) - 1

    best, least = prime_at_least(options), math.inf
    for prime in _candidates(share, options):
        increase = variance_increase(prime)
        if increase < least:
            best, least = prime, increase
        if increase <= MAX_VARIANCE_INCREASE:
            break
    return best


def _candidates(share: float, options: int) -> Iterator[int]:
    """Yields growing primes up to 1/share, the first one, and those just below a multiple of 1/share.

    For the latter, T is hardly rounded.
    """
    size = float(options)
    while size < min(1 / share, MAX_PRIME / 2):
        yield prime_at_least(math.ceil(size))
        size *= 1.25
    yield prime_at_least(options)
    arc = math.ceil(options * share)
    while arc / share < MAX_PRIME:
        prime = prime_at_most(max(2, math.floor(arc / share)))
        if prime >= options:
            yield prime
        arc += 1 + arc // 64


def _total_variance(other: float, options: int, variant: str) -> float:
    """Returns the variance summed over all options, per user, by [LC] Lemma 4.2; infinite if nothing is revealed."""
    own = 0.5 if variant == REPLACEMENT else 1 - other
    if own <= other:
        return math.inf
    return (1 - own - other) / (own - other) + options * other * (1 - other) / (own - other) ** 2
