"""Counts from bits in the clear among random bits, by Balcer and Cheu [BC20] and by Balcer et al. [BCJM21]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Array, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import (
    ConcatenatedErrorLaw,
    Estimate,
    Estimator,
    Influence,
    SelectedComponentsEstimator,
    SelectedOptions,
)
from shuffledp.mechanisms.base.law import PairLaw, check_epsilon_range, inverse_coth
from shuffledp.mechanisms.base.mechanism import HidingTable, Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.message_plan import WithRandomBits
from shuffledp.mechanisms.base.support_counts import PairSupport, SupportEstimator, independent_pair_support
from shuffledp.numerics.ball_arithmetic import float_above, to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, exact_pair
from shuffledp.privacy.randomizer_interface import HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import bits_and_subsets
from shuffledp.sampling.random_sources import RandomSource

# --- Binary counters, one for each option ---


COINS_AT_ONCE = 1 << 18
MAX_TABLE_REPORTS = 1 << 14
MAX_COINS = 1_000_000
MAX_MESSAGES = 1 << 28
"""Largest number of messages of one user, who sends some for every counter."""
TUNABLE_COINS = TunableParameter("coins", True, True, 1, MAX_COINS)


@dataclass(frozen=True)
class CounterEstimator(SupportEstimator):
    """Estimator for counters: a message is the number 2j + bit of counter j.

    Each user sends their own bits and `coins` random bits for every counter.

    Args:
        options: Number of options.
        counters: Number of counters.
        coins: Random bits of each user for each counter.
        heads: Probability that a random bit is 1.
    """

    true_support: Fraction = field(init=False, default=Fraction(1))
    false_support: Fraction = field(init=False, default=Fraction(0))
    dummy_mean: Fraction = field(init=False)
    dummy_variance: Fraction = field(init=False)
    counters: int
    coins: int
    heads: Fraction

    def __post_init__(self) -> None:
        mean = self.coins * self.heads
        object.__setattr__(self, "dummy_mean", mean)
        object.__setattr__(self, "dummy_variance", mean * (1 - self.heads))

    @property
    def dummy_third_cumulant(self) -> Fraction:
        return self.dummy_variance * (1 - 2 * self.heads)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=2 * self.counters)[1::2]

    @property
    def pair_support(self) -> PairSupport | None:
        """The joint support probabilities of independent counters; None for two options, which share one counter."""
        return independent_pair_support(self) if self.counters > 1 else None

    @property
    def has_joint_simulation(self) -> bool:
        return True

    def select(self, selection: SelectedOptions) -> Estimator:
        """Returns the estimator of chosen options; with two options one counter estimates both."""
        return super().select(selection) if self.counters > 1 else SelectedComponentsEstimator(self, selection)

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return selection.counts(messages[messages % 2 == 1] // 2)

    def finish(self, total: Array, users: int) -> Estimate:
        estimate = self.estimate_from_supports(total, users)
        if self.counters > 1:
            return estimate
        ones = estimate.value[0]
        tails = ConcatenatedErrorLaw((estimate.error_law.transform(-1.0, users), estimate.error_law), (1, 1))
        return Estimate(np.array([users - ones, ones]), np.repeat(estimate.variance, 2), users, tails)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence; with a single counter, users who do not hold its option hold the other one."""
        influences = super().influence(messages)
        if self.counters > 1:
            return influences
        (ones,) = influences
        return ones, Influence(1.0 - ones.max_contribution, 1.0 - ones.min_contribution)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws the estimate from the bits sent in the clear and the random bits of every counter."""
        real = held[1:] if self.counters == 1 else held
        return self.finish(real + rng.binomial(users * self.coins, float(self.heads), self.counters), users)


@dataclass(frozen=True)
class CoinCounters:
    """Counters to which each user sends a bit in the clear and `coins` random bits.

    Two options need one counter, of the users who hold option 1; more options have a counter each, and the user's bit
    is 1 in one of them. A message is the number 2j + bit of counter j.

    Theorem: one counter: identity (★), exact, with w = the law of a coin and M − 1 = (honest users)·coins, as the
    others' bits are known and can be subtracted: p = ∞, β = 1, q0 = 1/ϖ, q1 = 1/(1−ϖ).
    Many counters: replacing x by x' moves one from counter x to counter x' and changes no other counter. The counters'
    coins are independent. Pair coin i of counter x with coin i of counter x', and the victim's two bits: the pairs
    reveal more than the counts, and are (★) with w = the law of two coins, of which only (1, 0) and (0, 1), each
    ϖ(1−ϖ), can be the victim's.
    Returns: exact for two options, an upper bound for more.

    Args:
        options: Number of options.
        coins: Random bits of each user for each counter.
        heads: ϖ, the probability that a random bit is 1, a multiple of 2^-64.
    """

    options: int
    coins: int
    heads: Fraction

    def check_message_count(self, who: str) -> None:
        """Raises ValueError if a user would send more than `MAX_MESSAGES` messages."""
        if self.messages > MAX_MESSAGES:
            raise ValueError(
                f"{who}: a user must send at most {MAX_MESSAGES:,} messages, got {self.messages:,}; with so many "
                f"options take a mechanism with few messages, such as balls-into-bins."
            )

    @property
    def counters(self) -> int:
        return 1 if self.options == 2 else self.options

    @property
    def messages(self) -> int:
        """The number of messages of each user."""
        return self.counters * (1 + self.coins)

    @property
    def outputs(self) -> int:
        """The number of different messages."""
        return 2 * self.counters

    def input_bits(self, values: Array) -> Array:
        """Returns the user's own bit of every counter, one row per user."""
        marked = [1] if self.counters == 1 else np.arange(self.options)
        return np.asarray(values[:, None] == marked)

    def build_law(self) -> PairLaw:
        """Returns the law; every dataset is an attack, as an attacker who knows the others' bits subtracts them."""
        one, none = self.heads, 1 - self.heads
        # The probabilities that the hiding messages look like the first input of a pair, and like the second.
        first, second = (one, none) if self.counters == 1 else (one * none, one * none)
        parameters = VariationRatio(p=inf, beta=1.0, q=(float_above(1 / first), float_above(1 / second)))
        return PairLaw(
            parameters,
            (_build_disjoint_pair(first, second),),
            attack_pairs=(_build_disjoint_pair(one, none),),
            tight=True,
        )

    def build_estimator(self) -> CounterEstimator:
        return CounterEstimator(self.options, self.counters, self.coins, self.heads)

    def draw_messages(self, values: Array, source: RandomSource) -> Array:
        """Returns all messages: for each user and counter the own bit, then the random bits."""
        kind = np.min_scalar_type(2 * self.counters - 1)
        messages = np.empty((len(values), self.counters, 1 + self.coins), dtype=kind)
        messages[:] = (2 * np.arange(self.counters, dtype=kind))[:, None]
        step = max(1, COINS_AT_ONCE // self.messages)
        for start in range(0, len(values), step):
            own, part = values[start : start + step], messages[start : start + step]
            part[:, :, 0] += self.input_bits(own)
            hiding = part[:, :, 1:]
            coins = bits_and_subsets.unpack_bits(
                bits_and_subsets.coin_rows(source, self.heads, 1, hiding.size), hiding.size
            )
            hiding += coins.reshape(hiding.shape)
        return messages.reshape(-1)

    def split_delta(self, delta: arb) -> tuple[int, arb]:
        """Returns how many counters a change affects, and each one's share of δ in the printed composition."""
        affected = 1 if self.counters == 1 else 2
        return affected, delta / affected

    def hiding_table(self) -> HidingTable:
        one, none, zero = Fraction(1), 1 - self.heads, Fraction(0)
        if self.counters == 1:
            return HidingTable(((zero, one), (one, zero)), (none, self.heads))
        patterns = list(product((0, 1), repeat=2))
        floor = tuple(prod((self.heads if bit else none for bit in pattern), start=one) for pattern in patterns)
        rows = tuple(tuple(Fraction(pattern == own) for pattern in patterns) for own in ((1, 0), (0, 1)))
        return HidingTable(rows, floor)

    def table(self, who: str) -> OutputTable:
        if 2**self.messages > MAX_TABLE_REPORTS:
            raise ValueError(f"{who}: a table needs fewer options or coins.")
        reports = np.array(list(product((0, 1), repeat=self.messages)))
        shaped = reports.reshape(-1, self.counters, 1 + self.coins)
        own = self.input_bits(np.arange(self.options))
        tails = 1 - self.heads
        chances = [
            prod((self.heads if bit else tails for bit in row.flat), start=Fraction(1)) for row in shaped[:, :, 1:]
        ]
        rows = tuple(
            tuple(
                chance if (report[:, 0] == mine).all() else Fraction(0)
                for report, chance in zip(shaped, chances, strict=True)
            )
            for mine in own
        )
        labels = np.repeat(2 * np.arange(self.counters), 1 + self.coins)
        return OutputTable(np.arange(self.options), reports + labels, rows)


def _build_disjoint_pair(first: Fraction, second: Fraction) -> HidingPair:
    """Returns the pair of two inputs that never send the same message, hidden with these probabilities."""
    one, none = to_rational(1), to_rational(0)
    return exact_pair([(one, none, to_rational(first)), (none, one, to_rational(second))], symmetric=first == second)


def _check_coin(who: str, name: str, value: Any) -> float:
    coin = validation.real(who, name, value)
    if not 0.5 <= coin < 1:
        raise ValueError(f"{who}: {name} must be at least 1/2 and below 1, got {coin!r}.")
    return coin


@dataclass(frozen=True)
class BalcerCheu(Mechanism, HasPublishedGuarantee):
    """Counts of options from each user's own bits and `coins` biased random bits per option.

    Random bits are 1 with probability ϖ ≥ ½: the closer ϖ is to 1, the less noise and the less privacy. Floats there
    are multiples of 2^-53. There is no local ε: a message hides only among the others' random bits.

    Theorem: [VR] Table 3, Balcer–Cheu (two options): p = ∞, β = 1, q0 = 1/ϖ, q1 = 1/(1−ϖ), by (★) exactly; more
    options as in ``CoinCounters``.
    Requires: options ≥ 2; ½ ≤ ϖ < 1; coins ≥ 1.
    Deviates: [VR] takes the larger q for both, which is looser; a user's zeros are sent too, so that the number of
    messages is fixed.

    Args:
        options: Number of options; a user's value is the number of one of them, from 0.
        coin: ϖ.
        coins: Random bits of each user for each option; few users need several.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range, or a user would send too many messages.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.BalcerCheu(options=2, coin=0.99)
        >>> mechanism.messages_per_user
        2
        >>> [f"{sdp.amplify(mechanism, users=users).epsilon(delta=1e-6).upper:.3f}" for users in (10_000, 100_000)]
        ['0.469', '0.122']
    """

    options: int = field(metadata=checked(validation.count, at_least=2))
    coin: float = field(metadata=checked(_check_coin))
    coins: int = field(default=1, metadata=checked(validation.count, at_most=MAX_COINS))

    name = "balcer-cheu"
    task = "frequency"
    summary = "the bits of each option in the clear, and biased coins"
    use_case = "To compare with the paper; others send far fewer messages."
    tunable = (TunableParameter("coin", False, False, 0.5, 1.0 - 2.0**-53, approaches_one=True), TUNABLE_COINS)
    published_theorem = (
        "the protocol's own analysis [BC20]: ε = √(50·log(2/δ)/(coins·(1−ϖ))), ε ≤ 1; (2ε, 2δ) for more than 2 options"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields several numbers of random bits, since few users need several each."""
        yield from ({"coins": 1 << power} for power in range(0, 11, 2))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.coin_counters.check_message_count("BalcerCheu")

    @cached_property
    def coin_counters(self) -> CoinCounters:
        """The counters and their messages."""
        return CoinCounters(self.options, self.coins, Fraction(self.coin))

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        """Returns the ε of the protocol's own paper, as printed, twice that of one counter for more than two options.

        Raises:
            NotApplicable: If ε of one counter exceeds 1.
        """
        affected, part = self.coin_counters.split_delta(delta)
        tails = arb(to_rational(1 - self.coin_counters.heads))
        return affected * check_epsilon_range(1, (50 * (2 / part).log() / ((messages - 1) * tails)).sqrt())

    @cached_property
    def domain(self) -> Category:
        return Category("BalcerCheu", self.options)

    @cached_property
    def law(self) -> PairLaw:
        return self.coin_counters.build_law()

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("BalcerCheu", self.coin_counters.outputs)

    @cached_property
    def estimator(self) -> CounterEstimator:
        return self.coin_counters.build_estimator()

    @property
    def message_plan(self) -> WithRandomBits:
        return WithRandomBits(self.coin_counters.counters, self.coins)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.coin_counters.draw_messages(values, source)

    def hiding_table(self) -> HidingTable:
        return self.coin_counters.hiding_table()

    def table(self) -> OutputTable:
        return self.coin_counters.table("BalcerCheu")

    @classmethod
    def examples(cls) -> Sequence[BalcerCheu]:
        return [cls(options=2, coin=0.75), cls(options=3, coin=0.625), cls(options=2, coin=0.9, coins=3)]


# --- Fair coins [BCJM21] ---


@dataclass(frozen=True)
class BalcerUniform(Mechanism, HasPublishedGuarantee):
    """Counts of options from each user's own bits and `coins` fair random bits per option.

    There is no local ε: a message hides only among the others' random bits.

    Theorem: [VR] Table 3, uniform coin (two options): p = ∞, β = 1, q = 2, by (★) exactly; more options as in
    ``CoinCounters``.
    Requires: options ≥ 2; coins ≥ 1.

    Args:
        options: Number of options; a user's value is the number of one of them, from 0.
        coins: Fair random bits of each user for each option.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range, or a user would send too many messages.

    Example:
        >>> import shuffledp as sdp
        >>> curve = sdp.amplify(sdp.BalcerUniform(options=2, coins=4), users=1000)
        >>> curve.messages
        4001
        >>> f"{curve.epsilon(delta=1e-6).upper:.4f}"
        '0.1160'
    """

    options: int = field(metadata=checked(validation.count, at_least=2))
    coins: int = field(default=1, metadata=checked(validation.count, at_most=MAX_COINS))

    name = "balcer-uniform"
    task = "frequency"
    summary = "the bits of each option in the clear, and fair coins"
    use_case = "To compare with the paper; others send far fewer messages."
    tunable = (TUNABLE_COINS,)
    published_theorem = (
        "the binomial mechanism's analysis, used by [BCJM21]: coins/2 = 10·coth²(ε/2)·log(2/δ); (2ε, 2δ) for more than "
        "two options"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.coin_counters.check_message_count("BalcerUniform")

    @cached_property
    def coin_counters(self) -> CoinCounters:
        """The counters and their messages."""
        return CoinCounters(self.options, self.coins, Fraction(1, 2))

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        """Returns the ε of the protocol's own paper, as printed, twice that of one counter for more than two options.

        Raises:
            NotApplicable: If there is too little noise for the formula.
        """
        affected, part = self.coin_counters.split_delta(delta)
        return affected * 2 * inverse_coth((messages - 1) / (20 * (2 / part).log()))

    @cached_property
    def domain(self) -> Category:
        return Category("BalcerUniform", self.options)

    @cached_property
    def law(self) -> PairLaw:
        return self.coin_counters.build_law()

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("BalcerUniform", self.coin_counters.outputs)

    @cached_property
    def estimator(self) -> CounterEstimator:
        return self.coin_counters.build_estimator()

    @property
    def message_plan(self) -> WithRandomBits:
        return WithRandomBits(self.coin_counters.counters, self.coins)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.coin_counters.draw_messages(values, source)

    def hiding_table(self) -> HidingTable:
        return self.coin_counters.hiding_table()

    def table(self) -> OutputTable:
        return self.coin_counters.table("BalcerUniform")

    @classmethod
    def examples(cls) -> Sequence[BalcerUniform]:
        return [cls(options=2), cls(options=3), cls(options=2, coins=4)]
