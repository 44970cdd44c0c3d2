"""The page about clients in browsers and Node: its commands, with a real server, and its program for Node."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from shuffledp.service.browser.assets import MODULE_NAME, load_static_file
from shuffledp.service.browser.recipes import RECIPE_BUILDERS
from shuffledp.service.client import HttpClient
from tests.cli import run
from tests.service.browser.test_conformance import MAX_BYTES, node
from tests.service.server import Server

PAGE = (Path(__file__).parents[2] / "docs" / "browser.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
HOST = "https://shuffler.example"


@pytest.mark.docs
@pytest.mark.browser
def test_every_command_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the plan to an answer of Node, which a second run does not give again."""
    monkeypatch.chdir(tmp_path)
    Path("colours.txt").write_text("red\ngreen\nblue\n", "utf-8")
    (text,) = (text for kind, text in BLOCKS if not kind)
    for line in text.splitlines():
        _, *arguments = shlex.split(line)
        if arguments[0] == "serve":
            continue
        target = arguments[-1] if ">" in arguments else None
        outcome = run(*(arguments[: arguments.index(">")] if target else arguments))
        assert (outcome.status, outcome.stderr_complaints) == (0, ""), arguments
        if target is not None:
            Path(target).write_text(outcome.out, "utf-8")
    shown = json.loads(run("campaign", "show", "campaign.json", "--json").out)
    assert shown["browser"] == {"file": MODULE_NAME, "integrity": load_static_file(MODULE_NAME).integrity, "runs": True}
    assert shown["campaign"]["question"] == "Which colour is your door?"
    server = Server(Path("shuffler"))
    try:
        with HttpClient(server.url) as link:
            Path("client.mjs").write_bytes(link.request("GET", f"/v1/{MODULE_NAME}", at_most=1 << 20).content)
        (program,) = (text for kind, text in BLOCKS if kind == "javascript")
        Path("mine.mjs").write_text(program.replace(HOST, server.url).replace("CAMPAIGN", shown["id"]), "utf-8")
        said = [node(Path("mine.mjs")).strip() for _ in range(2)]
    finally:
        server.stop()
    assert said == re.findall(r"`(\{ round: .*?\})`", PAGE) == ["{ round: 1, sent: true }", "{ round: 1, sent: false }"]
    (entry,) = json.loads(Path("wallet.json").read_text("utf-8"))
    assert (entry["campaign"], entry["report"]) == (shown["id"], None)


def test_what_the_page_says_of_the_module() -> None:
    """Its size, and every mechanism that runs."""
    assert "7 kB compressed" in PAGE
    assert MAX_BYTES == 8000
    for mechanism in RECIPE_BUILDERS:
        assert f"`{mechanism.name}`" in PAGE
