"""Balcer and Cheu: bits in the clear among biased coins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flint import arb

from shuffledp import argument
from shuffledp.mechanisms.mechanism import Tuning
from shuffledp.mechanisms.multimessage.coin_protocol import CoinProtocol
from shuffledp.mechanisms.parts.counter import COINS
from shuffledp.mechanisms.parts.published import at_most
from shuffledp.numerics.ball import rational
from shuffledp.privacy.randomizer import HasPublishedGuarantee


@dataclass(frozen=True)
class BalcerCheu(CoinProtocol, HasPublishedGuarantee):
    """Count each option with the own bit and ``coins`` bits that are 1 with probability ϖ = ``coin``.

    ϖ from ½ up: the closer to 1, the less noise and the less privacy. Floats there are multiples of 2^-53.

    Theorem: [VR] Table 3, Balcer–Cheu (two options): p = ∞, β = 1, q0 = 1/ϖ, q1 = 1/(1−ϖ), by (★) exactly; more
    options as in ``CoinProtocol``.
    Requires: options ≥ 2; ½ ≤ ϖ < 1; coins ≥ 1.
    Deviates: [VR] takes the larger q for both, which is looser; a user's zeros are sent too, so that the number of
    messages is fixed.
    """

    options: int
    coin: float
    coins: int = 1

    name = "balcer-cheu"
    summary = "the bits of each option in the clear, and biased coins"
    tuning = (Tuning("coin", False, False, 0.5, 1.0 - 2.0**-53, below_one=True), COINS)
    published_theorem = (
        "the protocol's own analysis [BC20]: ε = √(50·log(2/δ)/(coins·(1−ϖ))), ε ≤ 1; (2ε, 2δ) for more than 2 options"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Few users need several coins each."""
        yield from ({"coins": 1 << power} for power in range(0, 11, 2))

    def __post_init__(self) -> None:
        super().__post_init__()
        coin = argument.real("BalcerCheu", "coin", self.coin)
        if not 0.5 <= coin < 1:
            raise ValueError(f"BalcerCheu: coin must be at least 1/2 and below 1, got {coin!r}.")
        object.__setattr__(self, "coin", coin)

    @property
    def heads(self) -> Fraction:
        return Fraction(self.coin)

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        moved, part = self.split(delta)
        tails = arb(rational(1 - self.heads))
        return moved * at_most(1, (50 * (2 / part).log() / ((messages - 1) * tails)).sqrt())

    @classmethod
    def examples(cls) -> Sequence[BalcerCheu]:
        return [cls(options=2, coin=0.75), cls(options=3, coin=0.625), cls(options=2, coin=0.9, coins=3)]
