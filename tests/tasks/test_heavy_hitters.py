"""Heavy hitters: the guarantee of the whole adaptive search by brute force, what is found by exact laws, and runs."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp.bounds.participation import Participation
from shuffledp.planning.simulation import SearchOutcome
from shuffledp.sampling.prefix_codes import ConcatenatedTexts, NumberCode, TextCode
from shuffledp.tasks import HeavyHitters, HittersAtOnce, Needs
from shuffledp.tasks.heavy_hitters_design import SearchLaw
from shuffledp.tasks.heavy_hitters_search import PrefixCandidates, SortedValues
from tests.cli import run

# --- candidates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [3, 4, 7, 50, 333])
def test_candidates_are_all_below_the_survivors(most: int) -> None:
    """Against comparing texts of bits: disjoint, all of the survivors' values, and no others."""
    code, survivors = NumberCode(10), ["01", "0011", "1110000000"]
    found = PrefixCandidates.from_survivors(code, survivors, most)
    assert len(found) <= most
    beginnings = [found.bit_text(place) for place in range(len(found))]
    named = found.find_prefix_indices(np.arange(1024))
    for number in range(1024):
        bits = f"{number:010b}"
        expected = [place for place, one in enumerate(beginnings) if bits.startswith(one)]
        assert expected == ([] if named[number] < 0 else [named[number]])
        assert bool(expected) == any(bits.startswith(one) for one in survivors)
    held = np.random.default_rng(0).integers(0, 9, 1024)
    counts = found.count_users(SortedValues.from_values(code, np.arange(1024), held, 10))
    np.testing.assert_array_equal(counts, np.bincount(named[named >= 0], held[named >= 0], len(found)))


def test_candidates_use_all_the_room_and_lengthen_all_alike() -> None:
    found = PrefixCandidates.from_survivors(
        NumberCode(48),
        [
            "",
        ][:1],
        1000,
    )
    assert len(found) == 1000
    assert set(found.depth.tolist()) == {9, 10}
    texts = PrefixCandidates.from_survivors(TextCode(), [""], 4095)
    assert len(texts) == 4095
    assert texts.is_complete.any()


def test_lengthened_to_a_depth() -> None:
    start = PrefixCandidates.from_root(NumberCode(6))
    found = start.lengthen(np.arange(1), 4)
    assert sorted(found.bit_text(place) for place in range(len(found))) == [f"{k:04b}" for k in range(16)]
    assert found.lengthen(np.array([3]), 6).is_complete.all()


# --- the guarantee of all rounds, by brute force ----------------------------------------------------------------------

MEAN, MOST = 0.8, 7
TINY = HeavyHitters(bits=2, room=3, keep=0.2, show=0.2, rounds=2)


def chances(real: tuple[int, ...]) -> np.ndarray:
    """Of every number of messages of each option, up to a most, where so many are real: Poisson noise, one by one."""
    single = []
    for count in real:
        row = [0.0] * (MOST + 1)
        for noise in range(MOST + 1 - count):
            row[count + noise] = math.exp(-MEAN) * MEAN**noise / math.factorial(noise)
        single.append(row)
    return np.array([math.prod(cell) for cell in itertools.product(*single)])


def answers(task: HeavyHitters, dataset: tuple[int, ...]) -> tuple[int, ...]:
    """How many users name each option, by comparing texts of bits."""
    beginnings = [task.candidates.bit_text(place) for place in range(len(task.candidates))]
    named = [next((k for k, b in enumerate(beginnings) if f"{x:02b}".startswith(b)), task.room - 1) for x in dataset]
    return tuple(named.count(option) for option in range(task.room))


def followings() -> Iterator[HeavyHitters | None]:
    """For every outcome of the first round, what the product asks then."""
    for outcome in itertools.product(range(MOST + 1), repeat=TINY.room):
        estimate = sdp.Estimate(np.array(outcome) - MEAN, np.full(TINY.room, MEAN), 2)
        following = TINY.build_next_task(estimate)
        assert following is None or isinstance(following, HeavyHitters)
        yield following


def test_the_whole_search_is_as_private_as_its_rounds_composed() -> None:
    """Two users, all datasets, all outcomes of both rounds, whatever survives: never above the certified curve."""
    asked = list(followings())
    kinds: dict[Any, HeavyHitters | None] = {None if one is None else one.survivors: one for one in asked}
    assert len(kinds) == 3
    which = {key: np.array([(None if one is None else one.survivors) == key for one in asked]) for key in kinds}
    epsilons = (0.0, 0.5, 1.0, 2.0, 3.0)
    curve = Participation(2, rounds=2).curve(sdp.PoissonDUMP(TINY.room, MEAN, 2))
    worst = dict.fromkeys(epsilons, 0.0)
    for other, first, second in itertools.product(range(4), repeat=3):
        if first == second:
            continue
        worlds = [(first, other), (second, other)]
        before = [chances(answers(TINY, world)) for world in worlds]
        pairs = []
        for key, task in kinds.items():
            if task is None:
                pairs.append((before[0][which[key]], before[1][which[key]]))
                continue
            after = [chances(answers(task, world)) for world in worlds]
            pairs.append(tuple(np.outer(b[which[key]], a) for b, a in zip(before, after, strict=True)))  # type: ignore[arg-type]
        for epsilon in epsilons:
            found = sum(float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in pairs)
            worst[epsilon] = max(worst[epsilon], found)
    for epsilon, found in worst.items():
        assert found <= curve.delta(epsilon).upper
        assert found >= 0.6 * curve.delta(epsilon).upper


def test_all_tables_together_are_as_private_as_stated() -> None:
    """Two users, two tables of two options, all datasets, all counts: never above the certified curve, and at it."""
    curve = sdp.amplify(sdp.PoissonTables(2, 2, MEAN, 2), users=2)
    rows = list(itertools.product(range(2), repeat=2))
    for epsilon in (0.0, 1.0, 2.0):
        worst = 0.0
        for other, first, second in itertools.product(rows, repeat=3):
            worlds = []
            for own in (first, second):
                named = [2 * table + row[table] for row in (own, other) for table in range(2)]
                worlds.append(chances(tuple(named.count(place) for place in range(4))))
            worst = max(worst, float(np.maximum(worlds[0] - math.exp(epsilon) * worlds[1], 0.0).sum()))
        assert worst <= curve.delta(epsilon).upper
        assert worst >= 0.999 * curve.delta(epsilon).upper


# --- what is found, by the exact law ----------------------------------------------------------------------------------


def tail(mean: Fraction, more_than: int) -> float:
    """P(N > k) for a Poisson number, from the sum of its chances in fractions of e^mean."""
    if more_than < 0:
        return 1.0
    total = sum(mean**k / math.factorial(k) for k in range(more_than + 1))
    return 1.0 - float(total) * math.exp(-float(mean))


def test_thresholds_and_false_finds() -> None:
    law = SearchLaw(50.0, 4, 20.0, 31.5, 1000)
    mean = Fraction(50)
    for users in (0, 5, 20, 40, 60, 90):
        expected = tail(mean, 70 - users) ** 3 * tail(mean, 81 - users)
        assert float(law.detection_probability(users)) == pytest.approx(expected, rel=1e-9, abs=1e-14)
    assert float(law.detection_probability(law.threshold)) >= 0.99 > float(law.detection_probability(law.threshold - 1))
    assert tail(mean, 81 - law.floor) <= 0.01 < tail(mean, 81 - law.floor - 1)
    assert law.false_finds == pytest.approx(1000 * tail(mean, 81), rel=1e-6)


@pytest.mark.parametrize("users", [0, 15, 30, 45, 60, 200])
def test_intervals_of_what_is_shown_hold_the_truth(users: int) -> None:
    """Exactly, given that it is shown: summed over all noise, not drawn."""
    law, above = SearchLaw(50.0, 1, 31.5, 31.5, 1000), 31.5
    noise = np.arange(220)
    chance = np.exp(noise * math.log(50.0) - 50.0 - np.array([math.lgamma(k + 1) for k in noise]))
    value = users + noise - 50.0
    shown = value > above
    low, high = law.interval(value[shown], above, 0.95)
    inside = (low <= users) & (users <= high)
    covered = float(chance[shown][inside].sum() / chance[shown].sum())
    assert 0.95 <= covered <= 0.99
    assert (low <= value[shown]).all()
    assert (value[shown] <= high).all()


# --- plans ------------------------------------------------------------------------------------------------------------


@lru_cache
def words_in(rounds: int) -> sdp.Plan:
    return plan_of(rounds)


def plan_of(rounds: int = 4, **changes: Any) -> sdp.Plan:
    asked = HeavyHitters(**({"strings": 24, "reach": 40} | changes.pop("task", {})))
    base: dict[str, Any] = {"users": 20_000, "epsilon": 3.0, "delta": 1e-6, "rests_on": "shuffler"}
    return sdp.plan(asked, rounds=rounds, **(base | changes)).best.plan


@pytest.mark.parametrize("rounds", [1, 4])
def test_a_plan_says_what_it_finds_and_simulations_confirm_it(rounds: int) -> None:
    plan = plan_of(rounds, task={"strings": None, "bits": 32, "reach": None})
    assert sdp.Plan.parse(plan.text()) == plan
    curve = plan.participation.curve(plan.mechanism)
    assert curve.epsilon(plan.delta).upper <= plan.epsilon
    outcome = sdp.simulate(plan, repeats=15)
    assert isinstance(outcome, SearchOutcome)
    assert outcome.searches[0].heavy >= 15
    assert outcome.recall >= 0.99
    assert outcome.precision >= 0.97
    # A Poisson number of at most 15·promised on average: false alarms below 1e-7.
    expected = 15 * max(outcome.promised["false_finds"], 0.05)
    assert 15 * outcome.false_finds <= expected + 6 * math.sqrt(expected) + 6
    assert 0.93 <= outcome.covered <= 0.985
    assert "found" in str(plan)
    assert outcome.document()["exact_law"]


def test_noise_of_the_shuffler() -> None:
    plan = plan_of(rests_on="shuffler-noise")
    assert plan.mechanism.message_plan.has_shuffler_noise
    assert plan.mechanism.messages_per_user == 1
    assert plan.promise["messages_all_rounds"] == 4
    again = words_in(4)
    assert plan.promise["threshold"] == again.promise["threshold"]


def test_limits_are_kept_or_refused() -> None:
    assert plan_of(max_bits=2000).promise["bits_all_rounds"] <= 2000
    for rounds in (1, 4):
        with pytest.raises(ValueError, match=r"reaches 40 bits within 60 bits .* lower reach\."):
            plan_of(rounds, max_bits=60)
    with pytest.raises(ValueError, match="has one round; leave out rounds"):
        HittersAtOnce(bits=8).choose_settings(Needs(1000, 1.0, 1e-6, rounds=2))


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="give either strings"):
        HeavyHitters()
    with pytest.raises(ValueError, match="give either strings"):
        HeavyHitters(strings=3, bits=3)
    with pytest.raises(ValueError, match="bits must be at most 64"):
        HeavyHitters(bits=65)
    with pytest.raises(ValueError, match="no survivor may be a prefix of another"):
        HeavyHitters(bits=8, room=9, survivors=("01", "0"))
    with pytest.raises(ValueError, match="expected from 1 to 2 survivors"):
        HeavyHitters(bits=8, room=3, survivors=("00", "01", "10"))
    with pytest.raises(ValueError, match="cannot be done by krr"):
        sdp.Plan(HeavyHitters(bits=8, room=9), sdp.KRR(1.0, 9), users=10, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="has options = 8, but the search has 9"):
        sdp.Plan(HeavyHitters(bits=8, room=9), sdp.PoissonDUMP(8, 9.0, 9), users=10, epsilon=1.0, delta=1e-6)
    document = words_in(4).document()
    document["task"]["code_name"] = "utf8-2"
    with pytest.raises(ValueError, match="expected the code 'utf8-1', got 'utf8-2'"):
        sdp.Plan.parse(json.dumps(document))


def small_numbers(rounds: int) -> sdp.Plan:
    """Without planning: any settings are read alike."""
    asked = HeavyHitters(bits=20, room=64, rounds=4) if rounds > 1 else HittersAtOnce(bits=20, room=64, step=4)
    kind: Any = sdp.PoissonDUMP if rounds > 1 else sdp.PoissonTables
    mechanism = kind(**asked.mechanism_settings, mean=20.0, honest=1000)
    return sdp.Plan(asked, mechanism, users=1000, epsilon=9.0, delta=1e-3, rounds=rounds)


@pytest.mark.parametrize("rounds", [1, 4])
def test_columns_are_read_or_refused(rounds: int) -> None:
    """By a count, never by what was said."""
    column = words_in(rounds).column("word")
    said = ["pear", "apple", "pear", "x" * 24, "7"]
    forms = (pa.array(said), pa.array(said, pa.large_string()), pa.array(said).dictionary_encode())
    first, *others = (column.read_values(form) for form in forms)
    assert len({str(row) for row in (first[0], first[2])}) == 1
    for other in others:
        np.testing.assert_array_equal(first, other)
    with pytest.raises(ValueError, match=r"expected texts of at most 24 bytes, got longer ones in 1 of 2 rows\.$"):
        column.read_values(pa.array(["é" * 13, "a"]))
    np.testing.assert_array_equal(column.read_values(pa.array([7])), first[4:])
    with pytest.raises(ValueError, match="expected texts, got list"):
        column.read_values(pa.array([["a"]]))
    with pytest.raises(ValueError, match="expected a value in every row, got 2 without one"):
        column.read_values(pa.array(["a", None, ""]))
    numbers = small_numbers(rounds).column("n")
    as_numbers = numbers.read_values(pa.array([0, 2**20 - 1], pa.uint64()))
    np.testing.assert_array_equal(as_numbers, numbers.read_values(pa.array(["0", " 1048575"])))
    for bad in (pa.array([-1, 2**20, 3]), pa.array(["-1", "99999999999999999999", "3"])):
        with pytest.raises(ValueError, match=r"expected whole numbers from 0 to 1048575, got others in 2 of 3 rows\.$"):
            numbers.read_values(bad)


def test_texts_of_a_slice_are_those_of_the_column() -> None:
    """Arrow hands over pieces of larger arrays."""
    column = words_in(4).column("word")
    said = pa.array(["pear", "apple", "plum", "quince"])
    np.testing.assert_array_equal(column.read_values(said)[1:3], column.read_values(said.slice(1, 2)))
    assert TextCode().rows(ConcatenatedTexts.from_strings(["plum"]), 8).shape == (1, 1)


def test_by_the_command_line(tmp_path: Path) -> None:
    """From the plan to the report, by one sentence where something is missing."""
    column = tmp_path / "data.csv"
    column.write_text("n\n" + "7\n40000\n" * 1000, encoding="utf-8")
    target = ("--users", "2000", "--epsilon", "3", "--delta", "1e-6")
    where = ("--out", str(tmp_path / "plan.json"))
    asked = ("plan", "--task", "heavy-hitters", "--bits", "16", *target, "--rounds", "3", "--rests-on", "shuffler")
    planned = run(*asked, *where)
    assert planned.err == ""
    assert "Found with 99% probability: values of at least" in " ".join(planned.out.split())
    assert "of these found" in run("simulate", str(tmp_path / "plan.json"), "--repeat", "2").out
    given = ("collect", str(tmp_path / "plan.json"), "--input", str(column), "--column", "n", "--no-ledger")
    told = json.loads(run(*given, "--out", str(tmp_path / "out"), "--json").out)
    assert {row["label"] for row in told["estimates"]} == {"7", "40000"}
    assert "give either strings" in run("plan", "--task", "heavy-hitters", *target).err
    assert "--domain does not go with" in run("plan", "--task", "heavy-hitters", "--domain", "3", *target).err
