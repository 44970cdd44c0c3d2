"""shuffledp reproduce: a CSV and a figure for each item, and a verdict for each claim."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from research.reproduction import ITEMS
from shuffledp.cli import app
from tests.cli import run


def test_items_are_written_and_judged(tmp_path: Path) -> None:
    """Two tables of parameters: every row has the columns, the figure is a PNG, claims are judged."""
    outcome = run("reproduce", "vr-tables-1-5-6", "vr-table-3", "--out", str(tmp_path / "new"), "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert [item["name"] for item in document["items"]] == ["vr-tables-1-5-6", "vr-table-3"]
    assert any(not verdict["reproduced"] for item in document["items"] for verdict in item["verdicts"])
    for name in ("vr-tables-1-5-6", "vr-table-3"):
        assert (tmp_path / "new" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        rows = list(csv.DictReader((tmp_path / "new" / f"{name}.csv").read_text("utf-8").splitlines()))
        assert {"printed", "published", "sound", "attack"} <= rows[0].keys()
    small = next(row for row in rows if row["protocol"].startswith("balls into 7 bins, 2") and row["parameter"] == "β")
    assert float(small["attack"]) == pytest.approx(5 / 7)
    assert float(small["published"]) == 1.0


def test_what_can_be_made_is_listed() -> None:
    """Without a folder, names and where they are in the papers."""
    outcome = run("reproduce")
    assert outcome.status == 0
    assert all(item.name in outcome.out for item in ITEMS)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--out", "here"), "give either items or --all"),
        (("--all", "vr-table-4", "--out", "here"), "give either items or --all"),
        (("table-9", "--out", "here"), "an item must be one of vr-tables-1-5-6"),
        (("vr-table-3", "--out", "file"), "--out must be a folder"),
    ],
)
def test_bad_choices_are_one_sentence(
    words: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    outcome = run("reproduce", *words)
    assert outcome.status == 2
    assert sentence in outcome.err
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("words", [(), ("vr-table-3", "--out", "here"), ("--help",)])
def test_an_installed_package_says_that_a_checkout_is_needed(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The papers' tables are no part of the wheel: one sentence; the other commands and the list stay."""
    monkeypatch.setattr(app, "__file__", str(tmp_path / "lib" / "site-packages" / "shuffledp" / "cli" / "x.py"))
    outcome = run("reproduce", *words)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == (
        "shuffledp: reproduce: this command needs a checkout of the source, where `./run reproduce` starts it; it is "
        "not part of the installed package.\n"
    )
    assert "reproduce" in run("--help").out
