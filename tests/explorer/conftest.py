"""What all tests of the page share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli import run
from tests.explorer.browser import ARGUMENTS, TIMEOUT_SECONDS, PageServer, chromium_path, run_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small collection that is released."""
    room = tmp_path_factory.mktemp("watched")
    (room / "data.csv").write_text("digit\n" + "0\n1\n1\n" * 100, "utf-8")
    told = ("--users", "300", "--domain", "2", "--epsilon", "2", "--delta", "1e-4", "--mechanism", "krr")
    assert run("plan", "--task", "frequency", *told, "--out", str(room / "plan.json")).status == 0
    given = ("--input", str(room / "data.csv"), "--column", "digit", "--out", str(room / "result"), "--no-ledger")
    assert run("collect", str(room / "plan.json"), *given).status == 0
    return room / "result"


@pytest.fixture(scope="session")
def server(collected: Path) -> Iterator[PageServer]:
    """One page for all tests."""
    with run_server("--watch", str(collected)) as made:
        yield made


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        made = started.chromium.launch(executable_path=chromium_path(), args=list(ARGUMENTS))
        yield made
        made.close()


class BrowserTab:
    """A tab on the page: what it asked for, what went wrong in it, and how to wait for it."""

    def __init__(self, page: Page, server: PageServer) -> None:
        self.page, self.server = page, server
        self.asked: list[str] = []
        self.wrong: list[str] = []
        page.set_default_timeout(TIMEOUT_SECONDS * 1000)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda said: self.wrong.append(said.text) if "Security Policy" in said.text else None)

    def open(self, view: str) -> Page:
        """A view, loaded afresh."""
        # The shortest of the curves that this view draws by itself.
        if view.startswith("guarantee") and "against" not in view:
            view += ("&" if "?" in view else "?") + "against=epsilon"
        self.page.goto("about:blank")
        self.page.goto(f"{self.server.url}#{view}")
        self.page.wait_for_selector("html[data-ready]", state="attached")
        return self.page

    def exact_number(self, selector: str) -> str:
        """The whole number behind one that is shown."""
        found = self.page.wait_for_selector(selector)
        assert found is not None
        return found.get_attribute("data-exact") or ""


@pytest.fixture
def visit(chromium: Browser, server: PageServer) -> Iterator[BrowserTab]:
    """A tab of its own; nothing went wrong in it, and it asked no other host."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    made = BrowserTab(context.new_page(), server)
    yield made
    context.close()
    assert made.wrong == []
    assert {url.split("/")[2] for url in made.asked if url.startswith("http")} <= {server.host}


def command_output(*arguments: str) -> dict[str, object]:
    """What the command prints with --json."""
    outcome = run(*arguments, "--json")
    assert outcome.status == 0, outcome.err
    found: dict[str, object] = json.loads(outcome.out)
    return found
