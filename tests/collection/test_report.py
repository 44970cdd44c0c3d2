"""What people see of a collection from Python: a few lines, a table, a picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shuffledp._core import plotting
from shuffledp._core.errors import ShuffledpError
from shuffledp._core.formatting import format_rounded_up
from shuffledp.collection.collect import collect
from shuffledp.collection.report import Report
from tests.collection import new_ledger, random_column, small_plan

CHEAP = {"epsilon_local": 0.5, "bound": "efmrtt19"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A collection from people with an odd name."""
    out = tmp_path_factory.mktemp("report") / "out"
    ledger = new_ledger(out.parent / "ledger", "<i>")
    return collect(
        small_plan("krr", population="<i>", **CHEAP), random_column("krr", 1000), out=out, ledger=ledger.path
    )


def test_a_report_is_printed_in_a_few_lines(report: Report) -> None:
    """Users, ε, the target, and each estimate with its interval."""
    lines = [line.split(maxsplit=1) for line in str(report).splitlines()]
    assert str(report).splitlines()[0] == "Collection: frequency"
    told = {line[0]: line[1] for line in lines if len(line) == 2}
    assert told["users"] == "1,000 of 1,000 planned"
    assert told["target"] == "ε = 3, met"
    assert {"red", "green", "blue", "grey"} <= set(told)
    assert report.parties in str(report)


def test_a_notebook_takes_no_name_for_a_tag(report: Report) -> None:
    """The population is called <i>."""
    shown = report._repr_html_()
    assert "&lt;i&gt;" in shown
    assert "<i>" not in shown


def test_estimates_are_drawn(report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a file, or as a figure; a sentence where matplotlib is missing."""
    report.plot(tmp_path / "estimates.png")
    assert (tmp_path / "estimates.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert report.plot().axes
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    with pytest.raises(ShuffledpError, match=r"^plot: matplotlib is not installed; in .* install '\.\[plot\]'\.$"):
        report.plot()


def test_a_collection_does_not_fail_for_want_of_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib all but the picture is written."""
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    collect(small_plan("krr", **CHEAP), random_column("krr", 1000), out=tmp_path / "out")
    assert not (tmp_path / "out" / "estimates.png").exists()
    assert "estimates.png" not in (tmp_path / "out" / "report.md").read_text("utf-8")
    assert (tmp_path / "out" / "report.json").exists()


def test_both_deltas_are_told(tmp_path: Path) -> None:
    """What the people have given at the collection's own δ, and at the budget's; and the head of the ledger."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("test", 5.0, 1e-3)
    plan = small_plan("krr", **CHEAP)
    report = collect(plan, random_column("krr", 10_000), out=tmp_path / "out", ledger=ledger.path)
    curve = report.guarantee.curve
    own, spent = curve.epsilon(plan.delta).upper, curve.epsilon(1e-3).upper
    document = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["ledger"]
    assert (document["delta"], document["epsilon"], document["spent"]) == (plan.delta, own, spent)
    assert document["left"] == 5.0 - spent
    words = (tmp_path / "out" / "report.md").read_text("utf-8")
    for part in (
        format_rounded_up(own),
        format_rounded_up(spent),
        "at δ = 1e-6",
        "at δ = 0.001",
        document["head"]["head"],
    ):
        assert part in words
    assert f"ε = {spent:.3f}"[:8] in str(report)
    ledger.check_contains(document["head"], "report")
