"""Balcer, Cheu, Joseph and Mao: bits in the clear among fair coins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp.mechanisms.multimessage.coin_protocol import CoinProtocol
from shuffledp.mechanisms.parts.counter import COINS
from shuffledp.mechanisms.parts.published import inverse_coth
from shuffledp.privacy.randomizer import HasPublishedGuarantee


@dataclass(frozen=True)
class BalcerUniform(CoinProtocol, HasPublishedGuarantee):
    """Count each option with the own bit and ``coins`` fair coins.

    Theorem: [VR] Table 3, uniform coin (two options): p = ∞, β = 1, q = 2, by (★) exactly; more options as in
    ``CoinProtocol``.
    Requires: options ≥ 2; coins ≥ 1.
    """

    options: int
    coins: int = 1

    name = "balcer-uniform"
    summary = "the bits of each option in the clear, and fair coins"
    tuning = (COINS,)
    published_theorem = (
        "the binomial mechanism's analysis, used by [BCJM21]: coins/2 = 10·coth²(ε/2)·log(2/δ); (2ε, 2δ) for more than "
        "two options"
    )

    @property
    def heads(self) -> Fraction:
        return Fraction(1, 2)

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        moved, part = self.split(delta)
        return moved * 2 * inverse_coth((messages - 1) / (20 * (2 / part).log()))

    @classmethod
    def examples(cls) -> Sequence[BalcerUniform]:
        return [cls(options=2), cls(options=3), cls(options=2, coins=4)]
