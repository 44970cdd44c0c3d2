"""Recipes: the law of every kind, over all outcomes, is that of the mechanism itself."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from shuffledp import OUE, CancellingNoise, Duchi, Gaussian, HadamardResponse, Plan, Subset, WitchHat, tasks
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.sampling import rounding_and_digits
from shuffledp.service.browser.recipes import RECIPE_BUILDERS, build_recipe
from tests.oracle import recipe as oracle
from tests.oracle.recipe import Message, WordDraws, outcome_law
from tests.service.browser import MECHANISMS, WITH_TABLES, WITHOUT_TABLES, plan_with, program_for

CUT = Fraction(1, 10**7)


def packed(mechanism: Mechanism, messages: list[Message]) -> bytes:
    """As the mechanism's own wire has them."""
    rows = np.array(messages)
    if program_for(mechanism)["kind"] == "bits":
        rows = np.packbits(rows.astype(np.uint8), axis=1, bitorder="little")
    elif rows.ndim == 1 and mechanism.name == "duchi":
        rows = rows.astype(np.uint8).reshape(-1, 1)
    return mechanism.pack(rows).tobytes()


def value_of(mechanism: Mechanism, given: float) -> int:
    """An input of the table as recipes take it."""
    told = program_for(mechanism)
    if "range" not in told:
        return int(given)
    number = np.array([given])
    if told.get("signed"):
        return int(rounding_and_digits.signed_to_units(number)[0])
    return int(rounding_and_digits.interval_to_units(number, *told["range"])[0])


@pytest.mark.parametrize("name", WITH_TABLES)
def test_the_law_is_the_mechanisms(name: str) -> None:
    """Equal fractions for every input and every message, in the bytes that are sent."""
    mechanism = WITH_TABLES[name]
    table, told = mechanism.table(), program_for(mechanism)
    for given, row in zip(np.asarray(table.inputs).reshape(-1).tolist(), table.probabilities, strict=True):
        value = value_of(mechanism, given)
        found, left = outcome_law(lambda draw, value=value: packed(mechanism, oracle.run_program(told, value, draw)))
        assert left == 0
        wanted: dict[bytes, Fraction] = {}
        for message, chance in zip(np.asarray(table.messages), row, strict=True):
            content = mechanism.pack(np.atleast_1d(message) if message.ndim == 0 else _rows(mechanism, message))
            wanted[content.tobytes()] = wanted.get(content.tobytes(), Fraction(0)) + chance
        assert found == {content: chance for content, chance in wanted.items() if chance}


def _rows(mechanism: Mechanism, message: np.ndarray) -> np.ndarray:
    """All messages of a user, or the one row of them."""
    several = mechanism.message_plan.user_messages(1) != 1
    return message if several else message[None]


def test_words_become_uniform_numbers() -> None:
    """Over all words of four bits, refused ones followed by others: exactly alike; long bounds take several words."""
    for bound in range(1, 16):
        # One more word than it takes: what is refused twice is refused in the same shares again.
        first = [number for number in (_one(bound, [word]) for word in range(16)) if number is not None]
        assert {first.count(number) for number in range(bound)} == {16 // bound}
    for bound in (17, 100, 256):
        pairs = [_one(bound, list(pair)) for pair in product(range(16), repeat=2)]
        assert {pairs.count(number) for number in range(bound)} == {256 // bound}
    assert WordDraws(iter([3, 5]), 4).draw_below(256) == 3 * 16 + 5


def _one(bound: int, words: list[int]) -> int | None:
    try:
        return WordDraws(iter(words), 4).draw_below(bound)
    except StopIteration:
        return None


@pytest.mark.parametrize(("part", "whole"), [(1, 3), (1, 1), (5, 2), (1, 1000)])
def test_fading_coins(part: int, whole: int) -> None:
    """e^−x."""
    found, left = outcome_law(lambda draw: draw.bernoulli_exp(part, whole), CUT)
    assert left < 1e-4
    assert abs(float(found[True]) - math.exp(-part / whole)) <= left + 1e-15


@pytest.mark.parametrize("shape", [(1, 3), (1, 1), (5, 2), (1, 1000), (0, 1)])
def test_piles_are_negative_binomial(shape: tuple[int, int]) -> None:
    """C(i + a − 1, i)·λ^i·(1 − λ)^a."""
    ratio, a = (1, 6), shape[0] / shape[1]
    found, left = outcome_law(lambda draw: draw.negative_binomial({"shape": shape, "ratio": ratio}), CUT)
    assert left < 1e-3
    weight = (1 - 1 / 6) ** a
    for i in range(8):
        assert abs(float(found.get(i, Fraction(0))) - weight) <= left + 1e-12
        weight *= (i + a) / (i + 1) / 6


def test_urns_are_independent_piles() -> None:
    """The noise of all options together, told apart, has the law of a number for each."""
    options, part, ratio = 3, Fraction(1, 4), Fraction(1, 10)
    noise = {"shape": (3, 4), "ratio": (1, 10)}
    found, left = outcome_law(lambda draw: tuple(sorted(oracle.draw_histogram_noise(draw, options, noise))), CUT)
    assert left < 1e-3

    def one(i: int) -> float:
        weight = float(1 - ratio) ** float(part)
        for j in range(i):
            weight *= (j + float(part)) / (j + 1) * float(ratio)
        return weight

    for counts in product(range(3), repeat=options):
        outcome = tuple(option for option, times in enumerate(counts) for _ in range(times))
        wanted = math.prod(one(times) for times in counts)
        assert abs(float(found.get(outcome, Fraction(0))) - wanted) <= left + 1e-12


@pytest.mark.parametrize("name", WITHOUT_TABLES)
def test_noise_is_the_mechanisms(name: str) -> None:
    """The numbers of a recipe are those of the laws that the mechanism draws from; and what is sent fits."""
    mechanism, told = WITHOUT_TABLES[name], oracle.parse_numbers(program_for(WITHOUT_TABLES[name]))
    for number in range(200):
        messages = oracle.run_program(program_for(mechanism), 1, WordDraws(oracle.word_stream(f"{name} {number}")))
        assert len(messages) == mechanism.message_plan.user_messages(1)
        assert mechanism.valid(mechanism.pack(np.array(messages))).all()
    if told["kind"] == "shares":
        law_of = mechanism.estimator.noise  # type: ignore[attr-defined]
        assert Fraction(*told["noise"]["shape"]) == law_of.shape
        assert Fraction(*told["noise"]["rate"]) == law_of.rate
    elif told["noise"]:
        share = mechanism._share  # type: ignore[attr-defined]
        against, both = told["noise"][1:]
        assert [noise["signs"] for noise in told["noise"]] == [[0], [1], [0, 1]]
        assert Fraction(*against["shape"]) == share.part * share.options
        assert Fraction(*against["rate"]) == Fraction(share.noise.rate)
        assert Fraction(*both["shape"]) == share.part * share.options * Fraction(share.noise.shape)
        assert Fraction(*both["ratio"]) == Fraction(share.noise.ratio)


def test_shares_tell_their_sum_alone() -> None:
    """All but the last are uniform, and all together are the number with its noise."""
    told = {"kind": "shares", "levels": "2", "modulus": "5", "messages": "3",
            "noise": {"shape": ["1", "2"], "ratio": ["0", "1"]}}  # fmt: skip
    found, _ = outcome_law(lambda draw: tuple(oracle.run_program(told, rounding_and_digits.RANGE_UNITS // 2, draw)))
    assert found == {(a, b, (1 - a - b) % 5): Fraction(1, 25) for a, b in product(range(5), repeat=2)}


def test_every_recipe_is_tested() -> None:
    """And every kind that the oracle knows is made."""
    assert {type(mechanism) for mechanism in MECHANISMS.values()} == set(RECIPE_BUILDERS)
    assert {program_for(mechanism)["kind"] for mechanism in MECHANISMS.values()} == set(oracle.KINDS)


def test_what_has_no_recipe() -> None:
    """Other mechanisms, other tasks, and settings that are too large for a page."""
    for mechanism in (HadamardResponse(1.0, 5), Gaussian(1.0)):
        assert build_recipe(plan_with(mechanism)) == {}
    assert build_recipe(plan_with(OUE(1.0, (1 << 20) + 1))) == {}
    assert build_recipe(plan_with(Subset(1.0, (1 << 20) + 1, size=2))) == {}
    assert build_recipe(plan_with(WitchHat(8.0, scale=50.0, grid=256))) == {}
    assert build_recipe(plan_with(CancellingNoise(4, 0.7, 5.0, 0.6, honest=20))) == {}
    vectors = Plan(tasks.VectorMean(3, -1.0, 1.0), Duchi(1.0, 3), users=10, epsilon=1.0, delta=1e-6)
    assert build_recipe(vectors) == {}
