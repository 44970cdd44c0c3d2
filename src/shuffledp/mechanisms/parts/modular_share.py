"""Whole numbers split into shares modulo N that are uniform but for their sum, and sums of shares read again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.parts.crowd import CrowdRule
from shuffledp.numerics.mixing_graph import mixing_distance
from shuffledp.sampling.random import RandomSource

LARGEST_MODULUS = 1 << 60
MOST_MESSAGES = 64
LIMB_BITS = 20
"""A statistic is the sums of digits to this base, which are exact as floats for up to 2^33 messages."""
WRAP_CHANCE = 2.0**-40
"""Largest chance that a sum is read wrongly because it wrapped around."""
ROOM_FOR = 2
"""A design has room for so many times the users that were planned, and still mixes those of one in so many."""
WORSE = 2.5
"""About how much ε grows where half of Laplace noise is missing."""


@dataclass(frozen=True)
class MixedShares(CrowdRule):
    """Every user sends so many shares; those of all users hide each other."""

    messages: int

    @property
    def per_user(self) -> int:
        return self.messages

    def hiding(self, users: int) -> int:
        return users


@dataclass(frozen=True)
class ModularShares:
    """A number modulo N as ``messages`` shares: all but one of them uniform, and the last one what is missing."""

    modulus: int
    messages: int

    def split(self, numbers: Integers, source: RandomSource) -> Integers:
        """The shares of each number, one row a number."""
        shares = np.empty((len(numbers), self.messages), dtype=np.int64)
        drawn = source.below(self.modulus, len(numbers) * (self.messages - 1)).reshape(len(numbers), -1)
        shares[:, :-1] = drawn
        if self.modulus & (self.modulus - 1) == 0:
            # 64-bit numbers wrap around modulo a multiple of it.
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
        """η: how far at most the shares of so many users are from ones made of their sum alone, in total variation."""
        return mixing_distance(honest, self.messages - 1, self.modulus)

    @property
    def limbs(self) -> int:
        """Digits of a share."""
        return -(-(self.modulus - 1).bit_length() // LIMB_BITS)

    def digit_sums(self, shares: Integers) -> Integers:
        """The sum of each digit of all shares."""
        mask = (1 << LIMB_BITS) - 1
        if self.limbs == 2 and len(shares) * self.modulus < 1 << 63:
            low, total = int((shares & mask).sum()), int(shares.sum())
            return np.array([low, (total - low) >> LIMB_BITS], dtype=np.int64)
        places = (shares >> (LIMB_BITS * place) & mask for place in range(self.limbs))
        return np.array([digits.sum() for digits in places], dtype=np.int64)

    def centred(self, sums: Array, low: int, high: int) -> int:
        """The sum that was meant, from the sums of digits: where it should be from low to high, noise aside."""
        total = sum(int(digit) << (LIMB_BITS * place) for place, digit in enumerate(np.asarray(sums).tolist()))
        first = low - self.room(low, high)
        return (total - first) % self.modulus + first

    def room(self, low: int, high: int) -> int:
        """How far the noise may go on either side before a sum from low to high wraps around; negative: not at all."""
        return (self.modulus - 1 - (high - low)) // 2


def checked_shares(who: str, modulus: object, messages: object) -> tuple[int, int]:
    """A modulus and a number of messages for which all of this is exact."""
    return (
        argument.count(who, "modulus", modulus, at_least=2, at_most=LARGEST_MODULUS),
        argument.count(who, "messages", messages, at_least=2, at_most=MOST_MESSAGES),
    )


def demand_room(who: str, users: int, modulus: int, chance: float) -> None:
    """Stop where a sum of so many users may wrap around."""
    if not chance <= WRAP_CHANCE:
        raise ValueError(
            f"{who}: a sum of {users:,} users may wrap around modulo {modulus} with probability up to {chance:.2g}, "
            f"expected at most {WRAP_CHANCE:.2g}; take a larger modulus."
        )


def least_modulus(chance: Callable[[int], float]) -> int:
    """The least power of two modulo which a sum hardly ever wraps around."""
    modulus = 2
    while not chance(modulus) <= WRAP_CHANCE:
        modulus *= 2
        if modulus > LARGEST_MODULUS:
            raise ValueError(f"no modulus of up to 2^{LARGEST_MODULUS.bit_length() - 1} has room for the sum")
    return modulus


def least_messages(honest: int, modulus: int, distance: float) -> int:
    """The fewest messages whose η is at most this."""
    for messages in range(2, MOST_MESSAGES + 1):
        # A part of the mean, to look at few: one user's shares all go back to that user.
        alone = _alone(honest, messages - 1, modulus)
        if alone <= 4 * distance**2 and ModularShares(modulus, messages).distance(honest) <= arb(distance):
            return messages
    raise ValueError(f"{MOST_MESSAGES} messages do not mix the shares of {honest:,} users well enough")


def designed_messages(users: int, modulus: int, epsilon: float, delta: float, rest: float) -> int:
    """The fewest messages for which mixing adds at most ``delta``; and ``rest`` at the ε of half of the users alone."""
    planned = least_messages(users, modulus, delta / (1 + math.exp(epsilon)))
    fewer = least_messages(max(2, users // ROOM_FOR), modulus, rest / (1 + math.exp(epsilon + WORSE)))
    return max(planned, fewer)


def _alone(honest: int, places: int, modulus: int) -> float:
    chance = float(modulus - 1) * honest
    for one in range(places):
        chance *= (places - one) / (honest * places - one)
    return chance * (1 - 1e-9)
