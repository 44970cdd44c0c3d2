"""Recipes executed for one answer at a time, a few lines a kind: what every client's messages are held against.

Draws come from ``below`` and ``coin`` alone, so that the same lines run on 64-bit words, for vectors, and over all
outcomes with their exact chances, for the law.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

WORD_BITS = 64
UNITS = 1 << 53
Message = int | tuple[int, ...]
"""A whole number; a row of bits, or the numbers of a subset."""


class ProgramDraws(ABC):
    """What recipes draw."""

    @abstractmethod
    def draw_below(self, bound: int) -> int:
        """Uniform on 0 … bound − 1."""

    def coin(self, part: int, whole: int = 1 << WORD_BITS) -> bool:
        """True with probability part/whole."""
        return self.draw_below(whole) < part

    def pick(self, weights: Sequence[int]) -> int:
        """A place, in proportion to these weights."""
        left, place = self.draw_below(sum(weights)), 0
        while left >= weights[place]:
            left, place = left - weights[place], place + 1
        return place

    def bernoulli_exp(self, part: int, whole: int) -> bool:
        """True with probability e^−(part/whole)."""
        while part > whole:
            if not self.bernoulli_exp(1, 1):
                return False
            part -= whole
        k = 1
        while self.coin(part, whole * k):
            k += 1
        return k % 2 == 1

    def round_randomly(self, units: int, grid: int) -> int:
        """A point of 0 … grid whose mean is units/2^53 of it."""
        whole, left = divmod(units * grid, UNITS)
        return whole + self.coin(left, UNITS)

    def negative_binomial(self, noise: dict[str, Any]) -> int:
        """A negative binomial number: geometric ones, and for what is left of the shape one that is taken or not."""
        part, whole = noise["shape"]
        total = 0
        while part >= whole:
            total, part = total + self._run(noise), part - whole
        while True:
            length = self._taken(noise, part, whole)
            if length is not None:
                return total + length

    def _more(self, noise: dict[str, Any]) -> bool:
        return self.bernoulli_exp(*noise["rate"]) if "rate" in noise else self.coin(*noise["ratio"])

    def _run(self, noise: dict[str, Any]) -> int:
        length = 0
        while self._more(noise):
            length += 1
        return length

    def _taken(self, noise: dict[str, Any], part: int, whole: int) -> int | None:
        length = 0
        while self._more(noise):
            length += 1
            if not self.coin((length - 1) * whole + part, length * whole):
                return None
        return length


class WordDraws(ProgramDraws):
    """Draws from words: as few of them as a bound needs, the first the most significant; what is above is refused."""

    def __init__(self, words: Iterator[int], bits: int = WORD_BITS) -> None:
        self._words, self._bits = words, bits

    def draw_below(self, bound: int) -> int:
        count = max(1, -(-(bound - 1).bit_length() // self._bits))
        span = 1 << self._bits * count
        while True:
            number = 0
            for _ in range(count):
                number = number << self._bits | next(self._words)
            if number < span // bound * bound:
                return number % bound


def word_stream(seed: str, first: Sequence[int] = ()) -> Iterator[int]:
    """Words that a text stands for, after some that are given."""
    yield from first
    number = 0
    while True:
        digest = hashlib.sha256(f"{seed}/{number}".encode()).digest()
        yield int.from_bytes(digest[:8], "big")
        number += 1


# --- the kinds --------------------------------------------------------------------------------------------------------


def option(draw: ProgramDraws, told: dict[str, Any], value: int) -> list[Message]:
    own = draw.round_randomly(value, told["grid"]) if "grid" in told else value
    result: list[Message] = [draw.draw_below(told["options"]) if draw.coin(told["uniform"]) else own]
    for _ in range(told["dummies"]):
        result.append(draw.draw_below(told["options"]) if draw.coin(told["filled"]) else told["options"])
    return result


def bits(draw: ProgramDraws, told: dict[str, Any], value: int) -> list[Message]:
    chances = [told["own"] if place == value else told["other"] for place in range(told["options"])]
    return [tuple(int(draw.coin(chance)) for chance in chances)]


def hashed(draw: ProgramDraws, told: dict[str, Any], value: int) -> list[Message]:
    length, drawn = told["length"], draw.draw_below(told["messages"])
    if draw.coin(told["uniform"]):
        return [drawn]
    seed = drawn // length
    bucket = sum(a * b for a, b in zip(_digits(seed, length), _digits(value, length), strict=False))
    return [seed * length + bucket % length]


def _digits(number: int, base: int) -> list[int]:
    result = []
    while number:
        number, digit = divmod(number, base)
        result.append(digit)
    return result


def subset(draw: ProgramDraws, told: dict[str, Any], value: int) -> list[Message]:
    options, last = told["options"], told["options"] - 1
    own, held = not draw.coin(told["uniform"]), set[int]()
    for j in range(options - told["size"], options):
        drawn = draw.draw_below(j + 1)
        held.add(j if drawn in held or (own and j == last) else drawn)
    names = {last: value, value: last} if value != last else {}
    return [tuple(sorted(names.get(j, j) for j in held))]


def window(draw: ProgramDraws, told: dict[str, Any], value: int) -> list[Message]:
    if draw.coin(told["uniform"]):
        return [draw.draw_below(told["grid"])]
    return [draw.round_randomly(value, told["grid"] - told["size"]) + draw.draw_below(told["size"])]


def hat(draw: ProgramDraws, told: dict[str, Any], value: int) -> list[Message]:
    point, grid, (tip, *sides, brim) = draw.round_randomly(value, told["grid"]), told["grid"], told["weights"]
    reach = 1 + len(sides)
    near = [point, *(point + sign * distance for distance in range(1, reach) for sign in (1, -1))]
    far = [z for z in range(-reach, grid + reach + 1) if abs(z - point) >= reach]
    weights = [tip, *(side for side in sides for _ in range(2)), *[brim] * len(far)]
    return [(near + far)[draw.pick(weights)] + reach]


def shares(draw: ProgramDraws, told: dict[str, Any], value: int) -> list[Message]:
    modulus = told["modulus"]
    number = (
        draw.round_randomly(value, told["levels"])
        + draw.negative_binomial(told["noise"])
        - draw.negative_binomial(told["noise"])
    )
    drawn = [draw.draw_below(modulus) for _ in range(told["messages"] - 1)]
    return [*drawn, (number - sum(drawn)) % modulus]


def signed(draw: ProgramDraws, told: dict[str, Any], value: int) -> list[Message]:
    result: list[int] = [2 * value]
    for noise in told["noise"]:
        found = draw_histogram_noise(draw, told["options"], noise)
        for sign in noise["signs"]:
            result += [2 * each + sign for each in found]
    result += [2 * told["options"]] * told["places"]
    return list(result[: told["places"]])


def draw_histogram_noise(draw: ProgramDraws, options: int, noise: dict[str, Any]) -> list[int]:
    """Noise of all options: as many messages as all have together, each of a new option or of one that is there."""
    part, whole = noise["shape"]
    found: list[int] = []
    for _ in range(draw.negative_binomial(noise)):
        new = draw.coin(part, part + len(found) * whole)
        found.append(draw.draw_below(options) if new else found[draw.draw_below(len(found))])
    return found


KINDS: dict[str, Callable[[ProgramDraws, dict[str, Any], int], list[Message]]] = {
    "option": option, "bits": bits, "hash": hashed, "subset": subset, "window": window, "hat": hat, "shares": shares,
    "signed": signed,
}  # fmt: skip


def parse_numbers(told: Any) -> Any:
    """A recipe with its texts as numbers."""
    if isinstance(told, dict):
        return {name: part if name == "kind" else parse_numbers(part) for name, part in told.items()}
    if isinstance(told, list):
        return [parse_numbers(part) for part in told]
    return int(told) if isinstance(told, str) else told


def run_program(recipe: dict[str, Any], value: int, draw: ProgramDraws) -> list[Message]:
    """The messages of one answer."""
    return KINDS[recipe["kind"]](draw, parse_numbers(recipe), value)


# --- every outcome ----------------------------------------------------------------------------------------------------


class _EnumeratedDraws(ProgramDraws):
    """Follows given choices, then the first of each, and notes what else there was."""

    def __init__(self, choices: Sequence[int], cut: Fraction) -> None:
        self.choices, self.chance, self.others = list(choices), Fraction(1), list[tuple[list[int], Fraction]]()
        self._at, self._cut = 0, cut

    def _choose(self, chances: Sequence[Fraction]) -> int:
        if self._at == len(self.choices):
            for other in range(1, len(chances)):
                self.others.append(([*self.choices, other], self.chance * chances[other]))
            self.choices.append(0)
        chosen = self.choices[self._at]
        self._at += 1
        self.chance *= chances[chosen]
        if self.chance < self._cut:
            raise _PathTooUnlikely
        return chosen

    def draw_below(self, bound: int) -> int:
        return self._choose([Fraction(1, bound)] * bound)

    def pick(self, weights: Sequence[int]) -> int:
        return self._choose([Fraction(weight, sum(weights)) for weight in weights])

    def coin(self, part: int, whole: int = 1 << WORD_BITS) -> bool:
        if part in (0, whole):
            return part == whole
        return self._choose([Fraction(part, whole), 1 - Fraction(part, whole)]) == 0


class _PathTooUnlikely(Exception):
    """A path that is too unlikely to follow."""


def outcome_law(
    work: Callable[[ProgramDraws], Any], cut: Fraction = Fraction(0)
) -> tuple[dict[Any, Fraction], Fraction]:
    """The chance of every outcome, and of the paths that were less likely than ``truncate`` and not followed."""
    found: dict[Any, Fraction] = {}
    left, waiting = Fraction(0), [(list[int](), Fraction(1))]
    while waiting:
        choices, chance = waiting.pop()
        if chance < cut:
            left += chance
            continue
        branch = _EnumeratedDraws(choices, cut)
        try:
            outcome = work(branch)
        except _PathTooUnlikely:
            left += branch.chance
        else:
            found[outcome] = found.get(outcome, Fraction(0)) + branch.chance
        waiting += branch.others
    return found, left
