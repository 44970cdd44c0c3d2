"""PI-RAPPOR, a frequency oracle: RAPPOR with pairwise independent bits, so that two numbers tell all of them."""

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
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Bytes, Integers
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.own_region import Kinds, OwnRegion, RegionLaw, Regions
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.reference import UniformNumber
from shuffledp.mechanisms.parts.support import DecodedSupports, SomeSupports, SupportReading
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import Mask, Wire, integers_of_wire, wire_of_integers
from shuffledp.numerics.ball import precision
from shuffledp.privacy.pair import HidingPair
from shuffledp.sampling import line_decoding
from shuffledp.sampling.linear_hash import prime_at_least, prime_at_most, prime_length
from shuffledp.sampling.random import RandomSource

REPLACEMENT, DELETION = "replacement", "deletion"
LARGEST_PRIME = 1 << 31
"""Products of two numbers below it stay below 2^62."""
LARGEST_EXPONENT = 64.0
"""From here on one number is the whole arc, for every prime that is allowed."""
ALLOWED_LOSS = 0.01
"""How much larger than with real arcs the total variance may be for a prime to be chosen by default."""
MOST_SUMS = 1 << 27
"""Heights of lines at a third option that are counted one by one."""
USERS_AT_ONCE = 1 << 14
"""Users encoded at a time, so that the working arrays stay in the processor's cache."""


@dataclass(frozen=True)
class PIRAPPOR(Mechanism):
    """Report a line φ(j) = φ0 + φ1·j modulo a prime P ≥ d that runs through 0 … T−1 at the own option with chance α1.

    Option j's bit is [φ(j) < T]: 1 with probability α0 = T/P unless j is one's own; any two bits are independent.
    Client: the own bit is 1 with probability α1; φ1 uniform, φ(x) uniform among those with that bit, φ0 = φ(x) − x·φ1,
    all drawn exactly on integers. ``variant`` "replacement": α1 = 1/2, T = ⌈P/(e^ε+1)⌉, ratio (P−T)/T ≤ e^ε.
    "deletion": α1 = 1 − α0, T = ⌈P/(e^{ε/2}+1)⌉: every law is within (P−T)/T ≤ e^{ε/2} of the uniform one, two laws
    within its square; ``PIRAPPOR.deletion`` takes the deletion ε. By default P is the smallest prime found whose total
    variance is at most 1% above that of a real arc P/(e^ε+1). A message is the number φ1·P + φ0.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are; a user's value is the
    number of one of them, from 0. ``prime``: P, how many values a line may take. ``variant``: "replacement" or
    "deletion", which has more noise where neighbours replace a value.

    Theorem: [LC] Lemmas 4.1, 4.2, B.5: p = q = α1(1−α0)/(α0(1−α1)), β = α1 − α0; variance of ĉ_j
    c_j(1−α0−α1)/(α1−α0) + nα0(1−α0)/(α1−α0)².
    Requires: ε > 0 finite; d ≥ 2; P prime, d ≤ P < 2^31, 2T < P.
    Deviates: P ≥ d suffices, print has P > d; Lemma 4.1 prints ratios for ε (erratum LC-1). ``epsilon`` is the
    replacement guarantee in both variants.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PIRAPPOR(epsilon=1.0, options=10_000)
    >>> mechanism.prime, mechanism.arc, mechanism.message_bits
    (10007, 2692, 28)
    >>> f"{sdp.PIRAPPOR.deletion(epsilon=1.0, options=10_000).epsilon:.4f}"
    '2.0000'
    """

    epsilon: float
    options: int
    variant: str = REPLACEMENT
    prime: int | None = None

    name = "pi-rappor"
    task = "frequency"
    summary = "RAPPOR with pairwise independent bits: two numbers modulo a prime instead of one bit per option"
    take_it = "For many options, as accurate as RAPPOR in short messages."
    also_called = (
        "pirappor",
        "compressed-rappor",
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield from ({"variant": variant} for variant in (REPLACEMENT, DELETION))

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("PIRAPPOR", self.epsilon))
        options = argument.count("PIRAPPOR", "options", self.options, at_least=2)
        object.__setattr__(self, "options", options)
        if self.variant not in (REPLACEMENT, DELETION):
            raise ValueError(f"PIRAPPOR: variant must be {REPLACEMENT} or {DELETION}, got {self.variant!r}.")
        if options >= LARGEST_PRIME:
            raise ValueError(f"PIRAPPOR: options must be below 2^31, got {options}.")
        object.__setattr__(self, "prime", self._chosen_prime())
        if 2 * self.arc >= self.field:
            raise ValueError(
                f"PIRAPPOR: epsilon is too small for the {self.field} numbers modulo the prime, got {self.epsilon!r}."
            )

    def _chosen_prime(self) -> int:
        """P: the given prime, or else one that costs little variance."""
        if self.prime is None:
            return _best_prime(self._exponent, self.options, self.variant)
        prime = prime_length("PIRAPPOR", "prime", self.prime, at_least=self.options)
        if prime >= LARGEST_PRIME:
            raise ValueError(f"PIRAPPOR: prime must be below 2^31, got {prime}.")
        return prime

    @classmethod
    def deletion(cls, epsilon: float, options: int, prime: int | None = None) -> PIRAPPOR:
        """The variant whose laws are all within e^{±epsilon} of the uniform law; its local ε is twice that."""
        return cls(2 * argument.positive_finite("PIRAPPOR", "epsilon", epsilon), options, DELETION, prime)

    @property
    def _exponent(self) -> float:
        """The log of the ratio between a bit and its opposite."""
        return min(self.epsilon if self.variant == REPLACEMENT else self.epsilon / 2, LARGEST_EXPONENT)

    @property
    def field(self) -> int:
        """P: as given, or as chosen when the mechanism was made."""
        assert self.prime is not None, "the constructor has chosen it"
        return self.prime

    @cached_property
    def arc(self) -> int:
        """T = ⌈P/(e^ε+1)⌉, of the numbers that give a 1."""
        with precision(192):
            whole = (self.field / (arb(self._exponent).exp() + 1)).ceil().unique_fmpz()
        assert whole is not None, "e^ε is irrational"
        return int(whole)

    @cached_property
    def region(self) -> OwnRegion:
        """An option's region is the lines that give it a 1."""
        other = Fraction(self.arc, self.field)
        return OwnRegion("PIRAPPOR", self.epsilon, other, (1 - self._own_chance) / (1 - other))

    @property
    def _own_chance(self) -> Fraction:
        """α1."""
        return Fraction(1, 2) if self.variant == REPLACEMENT else 1 - Fraction(self.arc, self.field)

    @cached_property
    def values(self) -> OneOption:
        return OneOption("PIRAPPOR", self.options)

    @cached_property
    def law(self) -> RegionLaw:
        other = self.region.share
        # A line that gives two options a 1 is rarer for an option to which it gives 0, if there is any.
        both_is_all = self._through_all == self.arc**2
        return LineLaw(
            self.region,
            only_one=other * (1 - other),
            always=Fraction(self._through_all, self.field**2),
            q_common=1.0 if both_is_all else None,
            attacked=(self._attack(),),
            tight=True,
            space=(self.name, self.options, self.field, self.arc),
            options=self.options,
            prime=self.field,
            arc=self.arc,
        )

    @property
    def _through_all(self) -> int:
        """How many lines give every option a 1.

        As 2T < P, such a line is an arithmetic progression of whole numbers below T, for a step of either sign.
        """
        reach, last = self.options - 1, self.arc - 1
        steps = last // reach
        return self.arc * (1 + 2 * steps) - reach * steps * (steps + 1)

    def _attack(self) -> HidingPair:
        """Options 0 and 2 where all others hold 1; with two options only, 0 and 1 where they hold 0.

        A line with heights a and b at 0 and 2, both below T < P/2, has height (a+b)/2 < T at 1 if a+b is even, else
        (a+b+P)/2, which is at least T: ⌈T²/2⌉ lines are below T at all three.
        """
        prime, arc = self.field, self.arc
        shares = dict.fromkeys(product((True, False), repeat=3), 0)
        if self.options == 2:
            shares |= {(True, True, True): arc**2, (True, False, True): arc * (prime - arc)}
            shares |= {(False, True, False): arc * (prime - arc), (False, False, False): (prime - arc) ** 2}
        else:
            three = -(-(arc**2) // 2)
            for inside in shares:
                held = sum(inside)
                # Inclusion and exclusion over the options that are not below T.
                shares[inside] = {
                    3: three,
                    2: arc**2 - three,
                    1: arc * prime - 2 * arc**2 + three,
                    0: prime**2 - 3 * arc * prime + 3 * arc**2 - three,
                }[held]
        cells: dict[Regions, Fraction] = {inside: Fraction(count, prime**2) for inside, count in shares.items()}
        return self.region.attack(cells, symmetric=self.options > 2)

    @cached_property
    def wire(self) -> LineWire:
        return LineWire("PIRAPPOR", self.field)

    @cached_property
    def reading(self) -> LineReading:
        """α1 at one's own option, α0 = T/P at the others."""
        return LineReading(self.options, self._own_chance, self.region.share, prime=self.field, arc=self.arc)

    @cached_property
    def reference(self) -> UniformNumber:
        return UniformNumber(self.region, RunsThroughArc(self.field, self.arc), self.field**2)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        result = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            result[start : start + len(part)] = self._lines(part, source)
        return result

    def _lines(self, values: Array, source: RandomSource) -> Array:
        users, prime, arc = len(values), self.field, self.arc
        ones = self._own_bits(users, source)
        heights = source.below(prime - arc, users)
        heights += arc
        np.copyto(heights, source.below(arc, users), where=ones)
        slopes = source.below(prime, users)
        heights += slopes * (prime - values)
        # Division by one number is fast, the remainder is not.
        heights -= heights // prime * prime
        slopes *= prime
        slopes += heights
        return slopes

    def _own_bits(self, users: int, source: RandomSource) -> NDArray[np.bool_]:
        if self.variant == REPLACEMENT:
            return source.coins(Fraction(1, 2), users)
        return np.asarray(source.below(self.field, users) >= self.arc)

    def table(self) -> OutputTable:
        every, lines, owns = np.arange(self.options), np.arange(self.field**2), self.reference.owns
        high, low = self.region.inside / len(lines), self.region.outside / len(lines)
        rows = tuple(tuple(high if hit else low for hit in owns(np.full_like(lines, x), lines)) for x in every)
        return OutputTable(every, lines, rows)

    @classmethod
    def examples(cls) -> Sequence[PIRAPPOR]:
        return [
            cls(epsilon=1.0, options=5, prime=5),
            cls(epsilon=0.5, options=2, prime=5),
            cls(epsilon=0.4, options=3, prime=11),
            cls(epsilon=3.0, options=4, variant=DELETION, prime=7),
        ]


@dataclass(frozen=True)
class LineLaw(RegionLaw):
    """Lines that are below T at an option: any two options are independent, and three as their numbers have it."""

    options: int = field(kw_only=True)
    prime: int = field(kw_only=True)
    arc: int = field(kw_only=True)

    def families(self, hider: OwnRegion) -> Sequence[Kinds]:
        """By how many lines are below T at three options, from the fewest to the most."""
        both = self.region.share**2
        if self.options == 2:
            return [self.region.kinds_alike(both, (), hider)]
        if self.prime * self.arc**2 > MOST_SUMS:
            return super().families(hider)
        together = [Fraction(lines, self.prime**2) for lines in self._through_three()]
        return [self.region.kinds_alike(both, together, hider)]

    def _through_three(self) -> tuple[int, int]:
        """The fewest and the most lines below T at three options i, j, k, whichever they are.

        With heights a and b at i and j the height at k is (1−c)a + cb modulo P, c = (k−i)/(j−i): every c but 0 and 1.
        """
        heights = np.arange(self.arc)
        counts = []
        for c in range(2, self.prime):
            at_third = ((1 - c) * heights[:, None] + c * heights) % self.prime
            counts.append(int((at_third < self.arc).sum()))
        return min(counts), max(counts)


@dataclass(frozen=True)
class RunsThroughArc:
    """Whether each line gives the option beside it a 1."""

    prime: int
    arc: int

    def __call__(self, values: Array, messages: Array) -> NDArray[np.bool_]:
        slopes, offsets = np.divmod(messages, self.prime)
        return np.asarray((offsets + values * slopes) % self.prime < self.arc)


@dataclass(frozen=True)
class LineWire(Wire):
    """Slope and offset, two numbers below the prime, side by side."""

    who: str
    prime: int

    @property
    def _number_bits(self) -> int:
        return (self.prime - 1).bit_length()

    @property
    def bits(self) -> int:
        return 2 * self._number_bits

    @property
    def expected(self) -> str:
        return f"numbers below the prime {self.prime}"

    def pack(self, messages: Array) -> Bytes:
        slopes, offsets = np.divmod(messages, self.prime)
        return wire_of_integers(slopes << self._number_bits | offsets, self.bits)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        both = integers_of_wire(rows)
        slopes, offsets = both >> self._number_bits, both & (1 << self._number_bits) - 1
        good = (slopes >= 0) & (slopes < self.prime) & (offsets < self.prime)
        return np.asarray(slopes * self.prime + offsets), good


@dataclass(frozen=True)
class LineReading(SupportReading):
    """A line supports the options to which it gives a 1."""

    _: KW_ONLY
    prime: int
    arc: int

    @property
    def counts_messages(self) -> bool:
        """Whether ``accumulate`` counts messages, and ``finish`` decodes; else ``accumulate`` decodes."""
        return self.prime**2 <= line_decoding.MOST_CELLS

    def accumulate(self, messages: Array) -> Array:
        if self.counts_messages:
            return np.bincount(messages, minlength=self.prime**2)
        return line_decoding.supports_of_lines(messages, self.prime, self.arc, self.options)

    def supports(self, total: Array) -> Array:
        if self.counts_messages:
            return line_decoding.supports_of_counts(total, self.prime, self.arc, self.options)
        return total

    def some(self, asked: Asked) -> Reading:
        return DecodedSupports(self, asked) if self.counts_messages else SomeSupports(self, asked)

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return line_decoding.supports_of_some(messages, self.prime, self.arc, asked.options)


def _best_prime(exponent: float, options: int, variant: str) -> int:
    """The smallest candidate whose total variance is near that of a real arc, or else the one with the least."""
    share = 1 / (math.exp(exponent) + 1)

    def loss(prime: int) -> float:
        arc = math.ceil(prime * share)
        return _total_variance(arc / prime, options, variant) / _total_variance(share, options, variant) - 1

    best, least = prime_at_least(options), math.inf
    for prime in _candidates(share, options):
        lost = loss(prime)
        if lost < least:
            best, least = prime, lost
        if lost <= ALLOWED_LOSS:
            break
    return best


def _candidates(share: float, options: int) -> Iterator[int]:
    """Growing primes up to 1/share, the first one, and those just below a multiple of 1/share: T is hardly rounded."""
    size = float(options)
    while size < min(1 / share, LARGEST_PRIME / 2):
        yield prime_at_least(math.ceil(size))
        size *= 1.25
    yield prime_at_least(options)
    arc = math.ceil(options * share)
    while arc / share < LARGEST_PRIME:
        prime = prime_at_most(max(2, math.floor(arc / share)))
        if prime >= options:
            yield prime
        arc += 1 + arc // 64


def _total_variance(other: float, options: int, variant: str) -> float:
    """Summed over all options, per user, by [LC] Lemma 4.2; infinite where nothing is told."""
    own = 0.5 if variant == REPLACEMENT else 1 - other
    if own <= other:
        return math.inf
    return (1 - own - other) / (own - other) + options * other * (1 - other) / (own - other) ** 2
