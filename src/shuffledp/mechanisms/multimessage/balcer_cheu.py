"""Balcer and Cheu: bits in the clear among biased coins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from flint import arb

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.counter import COINS, CoinCounters, CounterReading, checked_coins
from shuffledp.mechanisms.parts.crowd import AmongCoins
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.published import at_most
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import rational
from shuffledp.privacy.randomizer import HasPublishedGuarantee
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class BalcerCheu(Mechanism, HasPublishedGuarantee):
    """Count each option with the own bit and ``coins`` bits that are 1 with probability ϖ = ``coin``.

    ϖ from ½ up: the closer to 1, the less noise and the less privacy. Floats there are multiples of 2^-53.

    ``options``: how many options there are; a user's value is the number of one of them, from 0. ``coin``: ϖ.
    ``coins``: how many noise bits every user adds for each option, 1 by default; few users need several. There is no
    local ε: a message hides only among the others' coins.

    Theorem: [VR] Table 3, Balcer–Cheu (two options): p = ∞, β = 1, q0 = 1/ϖ, q1 = 1/(1−ϖ), by (★) exactly; more
    options as in ``CoinCounters``.
    Requires: options ≥ 2; ½ ≤ ϖ < 1; coins ≥ 1.
    Deviates: [VR] takes the larger q for both, which is looser; a user's zeros are sent too, so that the number of
    messages is fixed.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.BalcerCheu(options=2, coin=0.99)
    >>> mechanism.messages_per_user
    2
    >>> [f"{sdp.amplify(mechanism, users=users).epsilon(delta=1e-6).upper:.3f}" for users in (10_000, 100_000)]
    ['0.469', '0.122']
    """

    options: int
    coin: float
    coins: int = 1

    name = "balcer-cheu"
    task = "frequency"
    summary = "the bits of each option in the clear, and biased coins"
    take_it = "To compare with the paper; others send far fewer messages."
    tuning = (Tuning("coin", False, False, 0.5, 1.0 - 2.0**-53, below_one=True), COINS)
    published_theorem = (
        "the protocol's own analysis [BC20]: ε = √(50·log(2/δ)/(coins·(1−ϖ))), ε ≤ 1; (2ε, 2δ) for more than 2 options"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Few users need several coins each."""
        yield from ({"coins": 1 << power} for power in range(0, 11, 2))

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count("BalcerCheu", "options", self.options, at_least=2))
        object.__setattr__(self, "coins", checked_coins("BalcerCheu", self.coins))
        coin = argument.real("BalcerCheu", "coin", self.coin)
        if not 0.5 <= coin < 1:
            raise ValueError(f"BalcerCheu: coin must be at least 1/2 and below 1, got {coin!r}.")
        object.__setattr__(self, "coin", coin)
        self.counted.demand_few("BalcerCheu")

    @cached_property
    def counted(self) -> CoinCounters:
        """What is sent."""
        return CoinCounters(self.options, self.coins, Fraction(self.coin))

    @cached_property
    def values(self) -> OneOption:
        return OneOption("BalcerCheu", self.options)

    @cached_property
    def law(self) -> PairLaw:
        return self.counted.law()

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("BalcerCheu", self.counted.outputs)

    @cached_property
    def reading(self) -> CounterReading:
        return self.counted.reading()

    @property
    def crowd(self) -> AmongCoins:
        return AmongCoins(self.counted.counters, self.coins)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.counted.send(values, source)

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        moved, part = self.counted.split(delta)
        tails = arb(rational(1 - self.counted.heads))
        return moved * at_most(1, (50 * (2 / part).log() / ((messages - 1) * tails)).sqrt())

    def hiding_table(self) -> HidingTable:
        return self.counted.hiding_table()

    def table(self) -> OutputTable:
        return self.counted.table("BalcerCheu")

    @classmethod
    def examples(cls) -> Sequence[BalcerCheu]:
        return [cls(options=2, coin=0.75), cls(options=3, coin=0.625), cls(options=2, coin=0.9, coins=3)]
