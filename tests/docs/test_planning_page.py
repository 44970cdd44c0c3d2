"""The page about planning: its Python runs, and every task is told with the options that it takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shuffledp import tasks
from shuffledp.planning.plan import Plan
from shuffledp.tasks.registry import TASKS

PAGE = (Path(__file__).parents[2] / "docs" / "planning.md").read_text("utf-8")


@pytest.mark.docs
def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ranking, a plan in a file, a simulation that is printed; and what liars can move, as it is printed there."""
    monkeypatch.chdir(tmp_path)
    example, liars = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, {})
    assert Plan.load("plan.json").task.domain == tasks.Categories(("red", "green", "blue"))
    assert "Simulation: frequency" in capsys.readouterr().out
    exec(liars, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.*)", liars, re.MULTILINE)


def test_every_task_is_on_the_page() -> None:
    """Under its name on the command line, and as a class."""
    told = set(re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE))
    assert told == {kind.command_name() for kind in TASKS}, "add a row to the table of tasks in docs/planning.md"
    for kind in (*TASKS, tasks.UnitVectorMean):
        assert f"`{kind.__name__}(" in PAGE, f"add {kind.__name__} to the sentence below the table"
