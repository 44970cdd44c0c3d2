"""What ``shuffledp`` alone does: real data, planned, collected and shown with the truth beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shuffledp.cli import tour
from tests.cli import CommandResult, run
from tests.cli.tour_run import toured as take_tour


@pytest.fixture(scope="module")
def toured(shared_folder: Path) -> tuple[Path, CommandResult]:
    """One tour into an empty folder."""
    return take_tour(shared_folder)


@pytest.mark.exhaustive
def test_the_tour_ends_well(toured: tuple[Path, CommandResult]) -> None:
    """The plan's table, three questions, and nothing on stderr where nobody watches."""
    _, outcome = toured
    assert (outcome.status, outcome.err) == (0, "")
    for question in tour.questions():
        assert question.text in outcome.out
    assert "krr" in outcome.out
    assert "trusted curator" in outcome.out


@pytest.mark.exhaustive
def test_what_is_spent_is_composed(toured: tuple[Path, CommandResult]) -> None:
    """The composed ε of the three: above each of them, well below their sum."""
    _, outcome = toured
    (spent,) = re.findall(r"All together, about the same flights: at most ε = ([\d.]+) at δ = 1e-8", outcome.out)
    asked = [question.epsilon for question in tour.questions()]
    assert max(asked) < float(spent) < 0.65 * sum(asked)


@pytest.mark.exhaustive
def test_what_is_shown_is_near_the_truth(toured: tuple[Path, CommandResult]) -> None:
    """Of all intervals shown as covering the truth, far more than two thirds do: chance fails it once in 1e9."""
    _, outcome = toured
    found = re.findall(r"The truth lies in (\d+) of all (\d+) intervals", outcome.out)
    assert len(found) == 2
    covered, every = (sum(int(pair[side]) for pair in found) for side in (0, 1))
    assert covered >= 0.8 * every


@pytest.mark.exhaustive
def test_reports_are_written(toured: tuple[Path, CommandResult]) -> None:
    """One folder for each question, with all that a collection leaves, and the plot of the plan."""
    folder, _ = toured
    out = folder / tour.DEFAULT_FOLDER
    for question in tour.questions():
        report = json.loads((out / question.name / "report.json").read_text("utf-8"))
        assert report["guarantee"]["target_met"]
        assert (out / question.name / "estimates.png").stat().st_size > 5000
        assert (out / question.name / "messages").is_dir()
    assert (out / "plan.png").stat().st_size > 10_000


@pytest.mark.exhaustive
def test_the_commands_of_the_tour_work(toured: tuple[Path, CommandResult], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command that the tour proposes runs where the tour was run."""
    folder, outcome = toured
    monkeypatch.chdir(folder)
    lines = [line.split() for line in outcome.out.splitlines() if line.startswith("  shuffledp ")]
    assert len(lines) >= 4
    for _, *arguments in lines:
        assert run(*arguments).status == 0


def test_a_second_tour_does_not_touch_the_first(tmp_path: Path) -> None:
    """The folder gets a number."""
    first, second = (tour._new_folder(tmp_path / "report") for _ in range(2))
    assert (first.name, second.name) == ("report", "report-2")


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    """Where its parent is missing."""
    with pytest.raises(ValueError, match="run from a folder that you may write to"):
        tour._new_folder(tmp_path / "nowhere" / "report")
