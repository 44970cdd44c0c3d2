"""Firefox: a person takes part, comes back, and is not counted twice."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from tests.service import create_campaign
from tests.service.browser.firefox import firefox
from tests.service.server import accept_campaign, run_server

STATUS = "return document.getElementById('status').className + ' ' + document.getElementById('status').textContent"
HIDDEN = "return document.getElementById('form').hidden"
ANSWER = "document.querySelector('input[type=radio]').click(); document.getElementById('button').click()"


@pytest.mark.browser
def test_a_person_takes_part_once(tmp_path: Path) -> None:
    """The wallet of the browser's profile knows her after a reload; one report is stored."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    assert program is not None, "Firefox is needed: apt-get install firefox-esr"
    campaign, profile = create_campaign(), tmp_path / "profile"
    profile.mkdir()
    paths = accept_campaign(tmp_path / "state", campaign)
    with run_server(paths.state) as server, firefox(program, profile) as browser:
        browser.send_command("WebDriver:Navigate", {"url": f"{server.url}/v1/take-part#{campaign.id}"})
        browser.wait(HIDDEN, "False")
        browser.run(ANSWER)
        assert "good" in browser.wait(STATUS, "counts once")
        browser.send_command("WebDriver:Refresh", {})
        assert "good" in browser.wait(STATUS, "already taken part")
    with closing(paths.open_store()) as store:
        assert store.stored_bytes(campaign.id, 1) == campaign.report_bytes
