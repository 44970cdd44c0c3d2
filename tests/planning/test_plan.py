"""Planning from Python: the ranking of the command, a plan that is ready, and what people see of them."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp._core import plotting
from shuffledp._core.errors import ShuffledpError
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.bounds.base import Bound
from shuffledp.calibration.targets import Target
from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import Candidate, Trial
from shuffledp.planning.plan import Plan
from shuffledp.planning.planner import plan
from shuffledp.planning.ranking import Ranking, run_jobs as run_trials
from shuffledp.planning.simulation import simulate
from shuffledp.privacy.curve import ClosedFormCurve, PrivacyCurve
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.tasks import Frequency, Mean
from tests.cli import run


@cache
def ranking() -> Ranking:
    """Few mechanisms: one bit is enough for two options."""
    return plan(Frequency(["<yes>", "no"]), users=2e4, epsilon=1, delta=1e-6, max_bits=1, population="voters")


@pytest.fixture(scope="module")
def ranked_once() -> None:
    """Rank for all tests that look at the ranking."""
    ranking()


@pytest.mark.usefixtures("ranked_once")
def test_the_best_is_a_plan_that_is_ready(tmp_path: Path) -> None:
    """It knows the task, the population and the promise, and can be saved."""
    best = ranking().best
    best.plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again == best.plan
    assert again.population == "voters"
    assert again.task == Frequency(["<yes>", "no"])
    assert again.promise["standard_error"] == best.standard_error
    assert sdp.amplify(again.mechanism, 20_000, effort="quick").epsilon(1e-6).upper <= 1.0


@pytest.mark.exhaustive
def test_the_command_prints_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, errors and what was left out; times are measured and differ."""
    asked = ("--domain", "2", "--users", "2e4", "--epsilon", "1", "--delta", "1e-6", "--max-bits", "1")
    typed = run("plan", "--task", "frequency", *asked).out.split()
    lines = str(ranking()).splitlines()
    assert lines[0] == "frequency: 20,000 users, ε = 1, δ = 1e-6; at most 1 bits"
    head = "mechanism error × curator local ε bits sealed msgs liar client server rests on"
    assert lines[1].split() == head.split()
    for offer in ranking().candidates:
        (line,) = [line.split() for line in lines if line.startswith(f"{offer.name} ")]
        place = typed.index(offer.name)
        assert typed[place : place + 5] == line[:5]
    assert "Left out:" in lines
    assert all(refusal.name in str(ranking()) for refusal in ranking().rejections)


@pytest.mark.usefixtures("ranked_once")
def test_a_notebook_shows_a_table() -> None:
    """With a row for each mechanism."""
    shown = ranking()._repr_html_()
    assert shown.startswith("<table>")
    assert shown.count("<tr>") == 1 + len(ranking().candidates)


@pytest.mark.usefixtures("ranked_once")
def test_a_ranking_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a file, or as a figure; a sentence where matplotlib is missing."""
    ranking().plot(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert ranking().plot().axes
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    with pytest.raises(ShuffledpError, match=r"^plot: matplotlib is not installed; in .* install '\.\[plot\]'\.$"):
        ranking().plot()


@pytest.mark.usefixtures("ranked_once")
def test_what_is_no_plan_is_a_sentence() -> None:
    """A ranking is not yet a plan."""
    with pytest.raises(TypeError, match=r"^plan: expected a plan or the path of one, got Candidate\.$"):
        simulate(ranking().best)  # type: ignore[arg-type]


class Counter(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int | None]] = []
        self.done = 0

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
        def advance(rows: int) -> None:
            self.done += rows

        self.steps.append((name, total))
        yield advance


def test_progress_is_told() -> None:
    """One step, as long as there are mechanisms."""
    counter = Counter()
    plan(Frequency(2), 1000, 1, 1e-6, mechanism="krr", progress=counter)
    assert (counter.steps, counter.done) == ([("calibrating", 1)], 1)


def test_a_mechanism_with_several_outcomes_is_one_step() -> None:
    """A front of designs is found in one go: never more is done than there is to do."""
    counter = Counter()
    found = plan(Frequency(64), 1e5, 1, 1e-6, mechanism="cancelling-noise", rests_on="shuffler", progress=counter)
    assert len(found.candidates) > 1
    assert (counter.steps, counter.done) == ([("calibrating", 1)], 1)


def test_surveys_tell_how_far_they_are() -> None:
    """Each mechanism of each question once, however many settings it is looked at with."""
    counter = Counter()
    survey = sdp.tasks.Survey([("colour", Frequency(4)), ("age", Mean(0, 1))])
    plan(survey, 1e4, 1, 1e-6, mechanism="parallel", progress=counter)
    assert [name for name, _ in counter.steps] == ["comparing mechanisms", "calibrating"]
    assert counter.done == sum(total or 0 for _, total in counter.steps)


@pytest.mark.parametrize(
    ("arguments", "named", "part"),
    [
        (("frequency", 1000, 1, 1e-6), {}, "task must be a task, such as tasks.Frequency"),
        ((Mean(0, 1), 0, 1, 1e-6), {}, "users must be at least 1"),
        ((Mean(0, 1), 1000, 0, 1e-6), {}, "epsilon must be above 0"),
        ((Mean(0, 1), 1000, 1, 1e-6), {"mechanism": "krr"}, "mechanism must be one of"),
        ((Mean(0, 1), 1000, 1, 1e-6), {"max_bits": 0}, "max-bits must be at least 1"),
    ],
)
def test_bad_requests_are_sentences(arguments: Any, named: Any, part: str) -> None:
    """Before anything is computed."""
    with pytest.raises((ValueError, TypeError), match=part):
        plan(*arguments, **named)


SCRIPT = """
from shuffledp.planning.planner import plan
from shuffledp.tasks import Frequency
print(plan(Frequency(2), 1000, 1, 1e-4, max_bits=1, max_messages=1).best.name)
"""


@pytest.mark.exhaustive
def test_a_script_without_a_guard_plans(tmp_path: Path) -> None:
    """No process is started that would run the script again."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, len(done.stdout.split())) == (0, 1), done.stderr


def test_a_bound_that_somebody_defined_changes_no_plan() -> None:
    """It promises far too much, lives in this process, and was passed to nobody."""

    def found() -> tuple[float, str]:
        proof = plan(Frequency(8), users=1e4, epsilon=0.5, delta=1e-6, mechanism="krr").best.proof
        return proof.upper, proof.bound

    before = found()

    class Dream(Bound):
        """ε = 0 for everybody."""

        name = "dream"
        theorem = "none"
        summary = "too good to be true"
        guarantees = True

        def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
            return ClosedFormCurve(self.source(users), lambda delta: delta * 0, math.inf)

    assert Dream in Bound.__subclasses__()
    assert found() == before


def test_a_mechanism_that_cannot_be_sent_is_tried_in_this_process() -> None:
    """A class that another process cannot find by its name; waiting for it would not end."""

    class Hidden(sdp.KRR):
        """Randomized response, defined where nobody finds it."""

        name = "hidden"

    goal = Goal(Frequency(3), 1000, Target(1.0, 1e-6))
    found = list(run_trials([Trial("krr", sdp.KRR, goal), Trial("hidden", Hidden, goal)], workers=2))
    assert sorted(outcome.name for outcome in found) == ["hidden", "krr"]
    assert all(isinstance(outcome, Candidate) for outcome in found)
