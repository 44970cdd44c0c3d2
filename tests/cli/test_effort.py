"""``--effort``: a quick answer first, then every crowd."""

from __future__ import annotations

import json

import pytest

from tests.cli import run

ASKED = ["amplify", "--mechanism", "oue", "--set", "options=128", "--epsilon-local", "1", "--users", "1e4"]


def test_both_answers_are_shown() -> None:
    shown = run(*ASKED, "--delta", "1e-6", "--effort", "full")
    assert shown.status == 0, shown.err
    assert "0.0297346 (optimal)" in shown.out
    assert "all-crowds" in shown.out
    told = json.loads(run(*ASKED, "--delta", "1e-6", "--effort", "full", "--json").out)
    assert told["quick"]["bound"] == "optimal"
    assert told["epsilon"]["upper"] < 0.0269 < told["quick"]["upper"]


def test_the_other_way_round() -> None:
    told = json.loads(run(*ASKED, "--epsilon", "0.0269", "--effort", "full", "--json").out)
    assert told["delta"]["upper"] <= 1e-6 < told["quick"]["upper"]


@pytest.mark.parametrize("command", [[*ASKED, "--delta", "1e-6"], ["calibrate", *ASKED[1:5], *ASKED[7:]]])
def test_other_words_are_refused(command: list[str]) -> None:
    given = [*command, "--effort", "most"]
    shown = run(*given, *(["--epsilon", "1", "--delta", "1e-6"] if command[0] == "calibrate" else []))
    assert shown.status != 0
    assert "effort must be 'full' or 'quick', got 'most'" in shown.err
