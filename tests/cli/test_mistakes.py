"""Plausible mistakes with every command: one helpful sentence each, no traceback, no value of a person, nothing left.

Together with those about data (test_data_mistakes.py) and bad input (test_bad_input.py) there are more than 150.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp.ledger.ledger import Ledger
from shuffledp.service.crypto import AnalystKey, ShufflerKey
from shuffledp.tasks import Mean
from tests.cli import run
from tests.cli.bad_commands import BAD_COMMANDS
from tests.collection import list_paths

SECRET = "47.11"
"""What somebody holds in the files: it is never told."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with good files, where commands are mistyped."""
    room = tmp_path_factory.mktemp("desk")
    plan = sdp.Plan(Mean(0, 120), sdp.Laplace(2.0), users=1000, epsilon=1.0, delta=1e-6, effort="quick")
    plan.save(room / "age.json")
    (room / "ages.csv").write_text("age\n" + f"{SECRET}\n" * 1000, "utf-8")
    (room / "few.csv").write_text(f"age\n{SECRET}\n{SECRET}\n", "utf-8")
    (room / "twice.txt").write_text("tea\nmilk\ntea\n", "utf-8")
    (room / "options.txt").write_text("1\n", "utf-8")
    (room / "full").mkdir()
    (room / "full" / "kept").write_text("here\n", "utf-8")
    Ledger.create(room / "book").register("test")
    AnalystKey.new().save(room / "analyst.key")
    (room / "good.json").write_text(json.dumps(ShufflerKey.new().public_document), "utf-8")
    (room / "shuffler.json").write_text('{"ed25519": "AAAA"}', "utf-8")
    return room


@pytest.mark.parametrize(("typed", "part"), BAD_COMMANDS, ids=[typed for typed, _ in BAD_COMMANDS])
def test_one_sentence(typed: str, part: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    before = list_paths(desk), sorted(desk.rglob("*"))
    outcome = run(*typed.split())
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("shuffledp: ")
    assert outcome.err.count("\n") == 1
    assert re.search(r"[.?]\n$", outcome.err)
    assert part in outcome.err
    assert "Traceback" not in outcome.err
    assert SECRET not in outcome.err
    assert (list_paths(desk), sorted(desk.rglob("*"))) == before


def test_there_are_enough_and_no_two_are_the_same() -> None:
    from tests.cli.test_data_mistakes import COLLECT, PLAN

    assert len(dict(BAD_COMMANDS)) == len(BAD_COMMANDS)
    assert len(BAD_COMMANDS) + len(COLLECT) + len(PLAN) >= 150
    assert all(part for _, part in BAD_COMMANDS)
