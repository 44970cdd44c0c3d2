"""The page about running a shuffler: its commands in order, with a real server."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from shuffledp.ledger.ledger import Ledger
from tests.cli import run
from tests.service.server import Server

PAGE = (Path(__file__).parents[2] / "docs" / "shuffler.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.docs
def test_every_command_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the plan to two estimates; n in the report and in the ledger are those who came, once over the network."""
    monkeypatch.chdir(tmp_path)
    Path("colours.txt").write_text("red\ngreen\nblue\n", "utf-8")
    Path("mine.csv").write_text("colour\n" + "red\ngreen\nblue\n" * 17, "utf-8")
    commands = [shlex.split(line) for kind, text in BLOCKS if not kind for line in text.splitlines()
                if line.startswith("shuffledp ")]  # fmt: skip
    (example,) = (text for kind, text in BLOCKS if kind == "python")
    server: Server | None = None
    try:
        for _, *arguments in commands:
            target = arguments.pop() if arguments[-2:-1] == [">"] else None
            if arguments[-1] == ">":
                arguments.pop()
            if arguments[0] == "serve":
                server = Server(Path("shuffler"))
                continue
            if arguments[0] == "send":
                assert server is not None
                url = server.url
                exec(example.replace("limit=5.0", f'limit=5.0, url="{url}"'), {})
                arguments += ["--url", url]
            if arguments[:2] == ["campaign", "close"]:
                arguments[2] = json.loads(run("campaign", "show", "campaign.json", "--json").out)["id"]
            if arguments[0] == "receive" and "--input" not in arguments:
                arguments += ["--url", url]
            outcome = run(*arguments)
            assert (outcome.status, outcome.stderr_complaints) == (0, ""), arguments
            if target is not None:
                Path(target).write_text(outcome.out, "utf-8")
    finally:
        if server is not None:
            server.stop()
    found = [json.loads(Path(name, "report.json").read_text("utf-8"))["guarantee"] for name in ("result", "result2")]
    assert [guarantee["users"] for guarantee in found] == [52, 51]
    (entry,) = Ledger("ledger.sqlite").budget_statuses()[0].entries
    assert (entry.users, entry.state, entry.recipe.colluding) == (52, "released", 2)
    assert entry.epsilon == found[0]["without_certificate"]["upper"] <= found[0]["epsilon"]["upper"]
