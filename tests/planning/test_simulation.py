"""Simulated estimates have the law of real ones: against exact enumeration, real encoding, and at any scale."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from shuffledp import (
    KRR,
    OUE,
    PCKV,
    PIRAPPOR,
    BalcerCheu,
    BallsIntoBins,
    CheuZhilyaev,
    Duchi,
    HadamardResponse,
    Harmony,
    Laplace,
    LocalHash,
    MixDUMP,
    PlanarLaplace,
    PrivKV,
    PrivSet,
    PrivUnit,
    ProjectiveGeometry,
    PureDUMP,
    RangeQueries,
    SamplingRAPPOR,
    Subset,
    Wheel,
)
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.estimator import SimulableEstimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.planning.plan import Plan
from shuffledp.planning.simulation import Outcome, Simulation, simulate
from shuffledp.tasks import Frequency, ItemSets, KeyValue, Location, Mean, Ranges, Task, UnitVectorMean, VectorMean
from tests.planning.goals import LETTERS

FALSE_ALARM = 1e-6
"""The chance that a right program fails one of these tests, each; seeds are fixed."""
MAX_BITS = 6
"""Of all messages of a user, so that they can be enumerated."""
EVERY = [
    example
    for kind in catalogue.all_mechanisms().values()
    for example in kind.examples()
    if isinstance(example.estimator, SimulableEstimator) and example.task == "frequency" and example.has_table
    if example.message_bits * example.messages_per_user <= MAX_BITS
]


def exact_laws(
    mechanism: Mechanism, values: tuple[int, ...], components: tuple[int, ...]
) -> list[dict[float, Fraction]]:
    """The law of some numbers of the estimate from these few users, by enumeration of all their messages."""
    table = mechanism.table()
    laws: list[dict[float, Fraction]] = [{} for _ in components]
    rows = [table.probabilities[value] for value in values]
    for places in itertools.product(range(len(table.messages)), repeat=len(values)):
        chance = math.prod((row[place] for row, place in zip(rows, places, strict=True)), start=Fraction(1))
        if chance:
            reports = table.messages[list(places)]
            messages = reports.reshape(-1) if mechanism.messages_per_user > 1 and reports.ndim == 2 else reports
            if mechanism.messages_per_user > 1 and reports.ndim == 3:
                messages = reports.reshape(-1, reports.shape[2])
            estimate = mechanism.estimate(messages).value
            for law, component in zip(laws, components, strict=True):
                key = round(float(estimate[component]), 6)
                law[key] = law.get(key, Fraction(0)) + chance
    return laws


def assert_same_law(law: dict[float, float], seen: Counter[float]) -> None:
    """Pearson's test, rare outcomes put together."""
    draws = sum(seen.values())
    assert set(seen) <= set(law), "an outcome that cannot be"
    common = [key for key, chance in law.items() if chance * draws >= 20]
    cells = [(seen[key], law[key] * draws) for key in common]
    rest = draws - sum(count for count, _ in cells), draws - sum(expected for _, expected in cells)
    if rest[1] >= 20:
        cells.append(rest)
    statistic = sum((count - expected) ** 2 / expected for count, expected in cells)
    assert statistic <= chi2.isf(FALSE_ALARM, max(1, len(cells) - 1))


def test_every_short_cut_is_among_them() -> None:
    """No mechanism that simulates frequencies, and whose law is a table, escapes the exact test."""
    kinds = [kind for kind in catalogue.all_mechanisms().values() if kind.task == "frequency"]
    able = {
        kind.name for kind in kinds if isinstance(kind.examples()[0].estimator, SimulableEstimator) and kind.has_table
    }  # fmt: skip
    assert {mechanism.name for mechanism in EVERY} == able


def remembering(finish: Callable[..., Any]) -> Callable[..., Any]:
    """Estimates of few users repeat: what was counted before is not read again."""
    known: dict[bytes, Any] = {}

    def finished(reading: Any, total: Any, users: int) -> Any:
        counted = np.asarray(total, dtype=np.float64).tobytes()
        if counted not in known:
            known[counted] = finish(reading, total, users)
        return known[counted]

    return finished


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_each_estimate_has_its_exact_law(mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two users, every message enumerated with its probability as a fraction."""
    kind = type(mechanism.estimator)
    monkeypatch.setattr(kind, "finish", remembering(kind.finish))
    table = mechanism.table()
    held = np.bincount([0, 1], minlength=len(table.inputs))
    rng = np.random.default_rng(7)
    components = (0, len(held) - 1)
    drawn = [mechanism.estimator.simulate(held, 2, rng).value for _ in range(3000)]
    for component, law in zip(components, exact_laws(mechanism, (0, 1), components), strict=True):
        seen = Counter(round(float(value[component]), 6) for value in drawn)
        assert_same_law({key: float(chance) for key, chance in law.items()}, seen)


@pytest.mark.exhaustive("cheu-zhilyaev", "planar-laplace", "range-queries")
@pytest.mark.parametrize(
    "mechanism",
    [
        KRR(1.5, 5),
        OUE(1.5, 5),
        PureDUMP(5, 2, 0.7),
        MixDUMP(5, 0.3, 2, 0.6),
        CheuZhilyaev(5, 0.2, 2),
        BalcerCheu(5, 0.75, 2),
        RangeQueries(1.5, 3),
        PlanarLaplace(3.0, columns=3, rows=2),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_estimates_hang_together_as_real_ones_do(mechanism: Any) -> None:
    """Where all options are drawn together: means and covariances as of real encoding of 40 users."""
    rng = np.random.default_rng(3)
    task = plan_for(mechanism).task
    held = task.true_counts(mechanism, 40)
    inputs = task.representative_values(mechanism) if mechanism.task == "location" else np.arange(len(held))
    if mechanism.task == "location":
        inputs = mechanism.centres
    values = np.repeat(inputs, held, axis=0)
    drawn = np.array([mechanism.estimator.simulate(held, 40, rng).value for _ in range(3000)])
    real = np.array([mechanism.estimate(mechanism.encode(values, rng)).value for _ in range(1500)])
    # Standard errors of means and covariances; 6 of them on a side fail by chance less than once in 1e7 cells.
    spread = np.sqrt(real.var(axis=0) / 1500 + drawn.var(axis=0) / 3000) + 1e-12
    assert (np.abs(real.mean(axis=0) - drawn.mean(axis=0)) <= 6 * spread).all()
    first, second = np.cov(real.T), np.cov(drawn.T)
    scale = np.sqrt(np.outer(np.diag(first), np.diag(first)))
    assert (np.abs(first - second) <= 6 * 2 * scale * math.sqrt(1 / 1500 + 1 / 3000)).all()


def plan_for(mechanism: Mechanism, users: int = 1000) -> Plan:
    """A plan with this mechanism."""
    settings = mechanism.settings()
    settings.pop("epsilon", None)
    if mechanism.task == "location":
        return Plan(Location(**settings), mechanism, users, 1.0, 1e-6)
    task = Frequency(settings["options"]) if "options" in settings else Ranges(1 << settings["height"])
    return Plan(task, mechanism, users, 1.0, 1e-6)


def near(outcome: Outcome, independent: int) -> bool:
    """The simulated error is the expected one up to chance: 6 standard errors of a mean of squares."""
    return abs(outcome.ratio**2 - 1) <= 6 * math.sqrt(2.2 / (independent * outcome.repeats))


@pytest.mark.parametrize(
    "mechanism",
    [
        KRR(9.0, 1000),
        OUE(9.0, 100),
        Subset(2.0, 30),
        LocalHash(9.0, 1000),
        HadamardResponse(9.0, 1000, 64),
        PIRAPPOR(3.0, 100),
        ProjectiveGeometry(3.0, 100),
        PureDUMP(1000, 1, 1e-5),
        MixDUMP(1000, 0.1, 3, 0.01),
        CheuZhilyaev(100, 1e-6, 4),
        BallsIntoBins(100, 257, 2, 0.01),
        BalcerCheu(100, 0.999),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_a_trillion_users(mechanism: Mechanism) -> None:
    """No message is drawn, the error is as computed, and intervals cover at their rate."""
    outcome = Simulation(plan_for(mechanism), 10**12, 40).run()
    assert (outcome.users, outcome.exact) == (10**12, True)
    assert near(outcome, outcome.estimates)
    # The variance estimate is nearly exact here, so that coverage is binomial.
    assert abs(outcome.covered - 0.95) <= 6 * math.sqrt(0.95 * 0.05 / (40 * outcome.estimates))


@pytest.mark.parametrize(
    ("task", "mechanism"),
    [
        (Mean(-20, 60), Laplace(2.0)),
        (Mean(0, 10), Duchi(2.0, 1)),
        (Mean(0, 10), Harmony(2.0, 1)),
        (VectorMean(3, 0, 10), Harmony(2.0, 3)),
        (UnitVectorMean(4), PrivUnit(2.0, 4)),
        (KeyValue(LETTERS, 0, 1, items=2), PrivKV(2.0, 5, items=2)),
        (KeyValue(LETTERS, 0, 1, items=2), PCKV(2.0, 5, 2)),
    ],
    ids=lambda part: part.name,
)
def test_what_has_no_short_cut_is_really_encoded(task: Task, mechanism: Mechanism) -> None:
    """The error of real messages is the expected one, in the unit of the plan."""
    outcome = Simulation(Plan(task, mechanism, 500, 1.0, 1e-6), 500, 200).run()
    assert (outcome.users, outcome.exact) == (500, False)
    assert near(outcome, 1)


def test_sets_are_simulated() -> None:
    """Holders of an option are more than users over options."""
    for mechanism in (PrivSet(2.0, 9, 2), Wheel(2.0, 9, 2), SamplingRAPPOR(2.0, 9, 2)):
        outcome = Simulation(Plan(ItemSets(9, 2), mechanism, 1000, 1.0, 1e-6), 10**9, 300).run()
        assert outcome.exact
        assert near(outcome, 1)


def test_a_box_is_simulated_on_the_data_of_its_promise() -> None:
    """A box on [−1, 1] is no ball: uniform vectors, for which the planner promised the error."""
    box, ball = VectorMean(3, -1, 1), UnitVectorMean(3)
    mechanism = Harmony(2.0, 3)
    promised = box.standard_error(mechanism, 10_000)
    assert abs(promised / ball.standard_error(mechanism, 10_000) - 1) > 0.004
    plan = Plan(box, mechanism, 10_000, 1.0, 1e-6, promise={"standard_error": promised})
    again = Plan.parse(plan.text())
    outcome = simulate(again, repeats=20)
    assert outcome.expected == promised
    assert outcome.document()["data"] == "vectors drawn uniformly"
    assert f"standard error, promised {promised:.6g}" in " ".join(str(outcome).split())


def test_the_same_seed_is_the_same_simulation() -> None:
    """And another one is not."""
    plan = plan_for(KRR(2.0, 5))
    first, again, other = (Simulation(plan, 10**6, 5, seed).run() for seed in (1, 1, 2))
    assert first == again
    assert first.simulated_error != other.simulated_error


def test_bad_requests_are_sentences() -> None:
    """Too many users, none, and no repeats."""
    plan = plan_for(KRR(2.0, 5))
    with pytest.raises(ValueError, match="at most 1e\\+15 messages"):
        Simulation(plan, 10**16, 1)
    with pytest.raises(ValueError, match="users must be at least 1"):
        Simulation(plan, 0, 1)
    with pytest.raises(ValueError, match="repeat must be at least 1"):
        Simulation(plan, 10, 0)
