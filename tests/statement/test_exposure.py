"""A δ beside how many people there are: what it allows, against a plain computation, and where it is said."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from shuffledp.statement import MAX_DELTA_TIMES_USERS, delta_warnings
from tests.cli import run

# The same few questions in many formats.
pytestmark = pytest.mark.usefixtures("each_curve_once")


@pytest.mark.parametrize(("delta", "users"), [(1e-6, 10**6), (1e-3, 100), (0.5, 2), (1e-8, 10**9)])
def test_what_it_allows(delta: float, users: int) -> None:
    """The chance that somebody is published, rounded up; the δ that is named is far enough below."""
    (said,) = delta_warnings(delta, users)
    chance = float(said.split("probability ")[1].split("%")[0]) / 100
    exact = 1 - float((1 - Fraction(delta)) ** users) if users <= 100 else 1 - (1 - delta) ** users
    assert exact <= chance * (1 + 1e-9)
    assert chance <= exact * 1.011
    better = float(said.split("take ")[1].split(" or")[0])
    assert better * users * (1 + 1e-9) >= MAX_DELTA_TIMES_USERS / 10
    assert delta_warnings(better, users) == []


@pytest.mark.parametrize(("delta", "users"), [(None, 10), (1e-6, 10_000), (0.0, 10), (1e-12, 10**9)])
def test_nothing_is_said_of_others(delta: float | None, users: int) -> None:
    assert delta_warnings(delta, users) == []


@pytest.mark.exhaustive
def test_commands_say_it() -> None:
    """Below the table, and in JSON as a warning."""
    words = "is not far below 1/n with n = 100,000"
    fast = ["--users", "100000", "--delta", "1e-6", "--effort", "quick"]
    shown = run("amplify", *fast, "--epsilon-local", "1")
    assert words in " ".join(shown.out.split())
    assert shown.err == ""
    assert words in json.loads(run("amplify", *fast, "--epsilon-local", "1", "--json").out)["warnings"][0]
    assert words in " ".join(run("calibrate", *fast, "--epsilon", "1", "--find", "local-epsilon").out.split())
    planned = run("plan", "--task", "count", *fast, "--epsilon", "1", "--mechanism", "laplace")
    assert words in " ".join(planned.out.split())
    assert planned.err == ""
    assert "warnings" not in json.loads(run("amplify", *fast[:2], "--delta", "1e-8", *fast[4:], "--epsilon-local", "1",
                                            "--json").out)  # fmt: skip


def test_papers_stand_below_the_theorem() -> None:
    shown = " ".join(run("amplify", "--users", "1000", "--delta", "1e-8", "--mechanism", "krr", "--epsilon-local", "1",
                         "--set", "options=4", "--effort", "quick").out.split())  # fmt: skip
    assert "papers" in shown
    assert "B. Balle, J. Bell" in shown or "S. Wang et al." in shown
