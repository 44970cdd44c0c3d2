"""The command tree: the version, unknown commands, and the real process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer

import shuffledp as sdp
from shuffledp.cli.app import COMMAND_ENTRIES, app
from tests.cli import plain_environment, run


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``python -m shuffledp ARGUMENTS`` as a process of its own."""
    command = [sys.executable, "-m", "shuffledp", *arguments]
    environment = plain_environment() | {"PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment, timeout=120)


def test_version() -> None:
    """One line, exit code 0."""
    outcome = run("--version")
    assert (outcome.status, outcome.out, outcome.err) == (0, f"shuffledp {sdp.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("--help",), ("amplify", "--help")])
def test_help(arguments: tuple[str, ...]) -> None:
    """Help goes to stdout and exits 0."""
    outcome = run(*arguments)
    assert (outcome.status, outcome.err) == (0, "")
    assert "Usage:" in outcome.out


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    """It is written apart from them, so that it is shown without importing them."""
    for name, entry in COMMAND_ENTRIES.items():
        said = " ".join((typer.main.get_command(app).commands[name].help or "").split())  # type: ignore[attr-defined]
        assert said.startswith(entry.summary), name
        assert said[len(entry.summary) :][:1] in ("", " "), name


def test_help_names_every_bound() -> None:
    """What --bound takes is listed."""
    text = " ".join(run("amplify", "--help").out.split())
    for name in ("best", "variation-ratio", "variation-ratio-published", "stronger-clone", "analytic", "asymptotic"):
        assert name in text


@pytest.mark.parametrize(
    ("arguments", "part"),
    [(("amplfy",), "amplfy"), (("--sigma",), "--sigma"), (("--version=3",), "--version"), (("amplify",), "--users")],
)
def test_a_bad_command_is_one_sentence(arguments: tuple[str, ...], part: str) -> None:
    """Exit code 2 and one line on stderr."""
    outcome = run(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert part in outcome.err


def test_as_a_process_json_is_all_there_is_on_stdout() -> None:
    """The same contract holds for the real process."""
    outcome = shell("amplify", "--epsilon-local", "1", "--users", "500", "--delta", "1e-6", "--json")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert json.loads(outcome.stdout)["users"] == 500


def test_as_a_process_bad_input_is_one_line() -> None:
    """The same contract holds for the real process."""
    outcome = shell("amplify", "--epsilon-local", "1", "--users", "0", "--delta", "1e-6")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert outcome.stderr == "shuffledp: amplify: users must be at least 1, got 0.\n"
