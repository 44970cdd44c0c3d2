"""The page about collections: its plan is a plan, and its commands do what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from shuffledp.planning.plan import Plan
from tests.cli import run
from tests.collection import write_table

PAGE = (Path(__file__).parents[2] / "docs" / "collection.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.docs
def test_every_command_of_the_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of the page, on data for its plan, with a smaller crowd and a target for it."""
    monkeypatch.chdir(tmp_path)
    (plan,) = (json.loads(text) for kind, text in BLOCKS if kind == "json")
    assert Plan.parse(json.dumps(plan)).mechanism.name == "krr"
    plan |= {"users": 600, "epsilon": 4.0}
    Path("plan.json").write_text(json.dumps(plan), "utf-8")
    colours = pa.array(["red", "green", "blue"] * 200)
    write_table(Path("data.parquet"), colour=colours, who=pa.array(range(600)))
    write_table(Path("mine.csv"), colour=colours)
    write_table(Path("everybody.parquet"), choice=pa.array([number % 8 for number in range(100_000)]))
    Path("yours.messages").touch()
    commands = [line.partition("#")[0].split() for kind, text in BLOCKS if not kind for line in text.splitlines()]
    assert {command[1] for command in commands} == {"plan", "collect", "encode", "shuffle", "estimate", "ledger"}
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "own"))
    # The page shows several ways to collect the one round of its plan: whoever goes one of them has not gone another.
    for name in ("one.sqlite", "apart.sqlite"):
        assert run("ledger", "create", "--ledger", name, "--population", "visitors").status == 0
    for _, *arguments in commands:
        if arguments[0] in ("shuffle", "estimate") or "--user" in arguments:
            arguments = [*arguments, "--ledger", "one.sqlite" if "--user" in arguments else "apart.sqlite"]
        if arguments[0] == "estimate":
            arguments = ["result2" if word == "result" else word for word in arguments]
        if arguments[0] == "shuffle":
            other = run("encode", "plan.json", "--input", "mine.csv", "--column", "colour", "--out", "other.messages")
            assert other.status == 0
            Path("yours.messages").write_bytes(Path("other.messages").read_bytes())
        outcome = run(*arguments)
        assert outcome.status == 0, outcome.err
    examples = [text for kind, text in BLOCKS if kind == "python"]
    assert len(examples) == 3
    for example in examples:
        exec(example, {})
    assert "Collection: frequency" in capsys.readouterr().out
    for name in re.findall(
        r"^\| `([^|]*) \|", PAGE.partition("## What comes out")[2].partition("\n## ")[0], re.MULTILINE
    ):
        first = name.split("`")[0].rstrip("/")
        assert (tmp_path / "result" / first).exists(), first
