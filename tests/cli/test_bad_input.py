"""Whatever is typed wrong: one sentence on stderr, exit code 2, nothing on stdout, nothing written."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from shuffledp.bounds import participation
from shuffledp.ledger.ledger import Ledger
from tests.cli import run
from tests.collection import list_paths, random_column, small_plan, write_table

CROWD = ("--users", "100", "--delta", "1e-6")
ANY = (*CROWD, "--epsilon-local", "1")
LAPLACE = (*CROWD, "--mechanism", "laplace", "--epsilon-local", "1")
COLLECT = ("collect", "plan.json", "--input", "data.csv", "--column", "colour", "--out", "out")


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with good and bad files, where the command is typed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    (tmp_path / "table.csv").write_text("0.75,0.25\n0.25,0.75\n")
    (tmp_path / "distances.csv").write_text("0,1\n1,0\n")
    (tmp_path / "garbage").write_bytes(bytes(range(128, 256)))
    small_plan("krr", users=200).save(tmp_path / "plan.json")
    write_table(tmp_path / "data.csv", colour=random_column("krr", 200))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("amplify", "--users", "1e300", "--delta", "1e-6", "--epsilon-local", "1"), "users must be at most 1e+18"),
        (("calibrate", "--users", "1e300", "--delta", "1e-6", "--epsilon", "1"), "users must be at most "),
        (("amplify", *ANY, "--rounds", "1e300"), "rounds must be at most "),
        (("amplify", *CROWD, "--table", "table.csv", "--set", "options=3"), "--table does not go with --set"),
        (("amplify", *LAPLACE, "--set", "grid=8", "--set", "grid=16"), "--set grid must be given once"),
        (("amplify", *LAPLACE, "--pair", "0", "--pair", "true"), "--pair must be a number or a JSON list, got 'true'"),
        (("amplify", *LAPLACE, "--pair", "0", "--pair", '"x"'), "--pair must be a number or a JSON list"),
        (("amplify", *LAPLACE, "--pair", "0", "--pair", "["), "--pair must be a number or a JSON list"),
        (("compare", *ANY, "--plot", "directory"), "--plot must end in .png, .pdf or .svg"),
        (("compare", *ANY, "--plot", "figure.txt"), "--plot must end in .png, .pdf or .svg"),
        (("compare", *ANY, "--range", "1", "2"), "--against and --range are about the figure"),
        (("compare", *ANY, "--plot", "a.png", "--range", "2", "1"), "--range must be two numbers above 0"),
        (("compare", *ANY, "--plot", "a.png", "--against", "rounds"), "--against must be one of local-epsilon, users"),
        (("compare", *ANY, "--curve", "nowhere/a.csv"), "could not write the curve"),
        (("tradeoff", "--users", "9", "--epsilon-local", "1", "--plot", "figure"), "--plot must end in"),
        (("tradeoff", "--users", "9", "--epsilon-local", "1", "--plot", "no/a.png"), "there is no directory no"),
        (("tradeoff", "--users", "9", "--epsilon-local", "1", "--log"), "add --plot"),
        (("tradeoff", "--users", "9", "--epsilon-local", "1", "--against", "clone"), "add --plot"),
        (("tradeoff", "--step", "logistic", "--bound", "clone"), "--step goes with"),
        (("tradeoff", "--step", "logistic", "--colluding", "3"), "--step goes with"),
        (("metric", "amplify", *CROWD, "--matrix", "distances.csv", "--plot", "directory"), "--plot must end in"),
        (("metric", "amplify", "--users", "1e300", "--delta", "1e-6", "--range", "0", "1"), "users must be at most"),
        (("audit", "--command", "", "--value", "0", "--value", "1", "--claimed", "1"), "expected a command"),
        (("audit", "--command", "'a", "--value", "0", "--value", "1", "--claimed", "1"), "cannot read the command"),
        (("audit", "--command", "false", "--value", "0", "--value", "1", "--claimed", "1"), "ended with status 1."),
        (("audit", "--command", "cat", "--set", "a=1", "--value", "0", "--value", "1", "--claimed", "1"), "go with"),
        (("audit", "--mechanism", "krr", "--epsilon-local", "1", "--set", "options=4", "--samples", "1e15"), "memory"),
        ((*COLLECT, "--ledger", "directory"), "ledger: cannot open directory"),
        ((*COLLECT, "--ledger", "garbage"), "ledger: cannot use garbage"),
        (COLLECT, "there is no ledger at"),
        ((*COLLECT, "--ledger", "gone"), "ledger: there is no ledger at gone; create it by `shuffledp ledger create`"),
        ((*COLLECT, "--ledger", "gone", "--no-ledger"), "collect: give either --ledger or --no-ledger"),
        (("estimate", "plan.json", "--input", "directory", "--out", "out"), "keep none by --no-ledger."),
        (("shuffle", "garbage", "--out", "out", "--plan", "plan.json"), "there is no ledger at"),
        (("ledger", "show", "--ledger", "garbage"), "ledger: cannot use garbage"),
        (("ledger", "check"), "there is no ledger at"),
        (
            (
                "plan",
                "--task",
                "frequency",
                "--domain",
                "4",
                "--users",
                "1e4",
                "--epsilon",
                "1",
                "--delta",
                "1e-6",
                "--ledger",
                "gone",
            ),
            "there is no ledger at gone",
        ),
        (("encode", *COLLECT[1:-1], "/proc/a.parquet"), "encode: cannot write /proc/a.parquet"),
    ],
)
def test_one_sentence(room: Path, arguments: tuple[str, ...], part: str) -> None:
    """Nothing is written either, not even a directory."""
    before = list_paths(room), sorted(room.rglob("*"))
    outcome = run(*arguments, "--json")
    assert (outcome.status, outcome.out) == (2, "")
    assert part in outcome.err
    assert outcome.err.count("\n") == 1
    assert (list_paths(room), sorted(room.rglob("*"))) == before


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (KeyboardInterrupt(), 130, "Stopped."),
        (MemoryError(), 2, "this needs more memory than there is; ask for less."),
        (PermissionError(13, "Permission denied", "a.csv"), 2, "cannot use a.csv: Permission denied."),
        (OSError("no device"), 2, "no device."),
    ],
)
def test_what_stops_a_command(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, sentence: str
) -> None:
    """Ctrl-C and what the operating system refuses are one line too, not a traceback."""

    def stop(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(participation, "amplify", stop)
    outcome = run("amplify", *ANY)
    assert (outcome.status, outcome.out, outcome.err) == (status, "", f"shuffledp: {sentence}\n")


@pytest.mark.parametrize(("group", "known"), [((), ("compare", "calibrate", "ledger")), (("metric",), ("solve",))])
def test_what_a_command_does_is_not_cut_off_in_the_list(group: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Each has one whole line."""
    lines = run(*group, "--help").out.split("Commands:")[1].splitlines()
    for name in known:
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert line.endswith(".")
        assert not line.endswith("...")


def test_a_reserved_collection_can_be_named(ledger: Ledger) -> None:
    """The ledger's lines are not broken; what can be taken back is told with its whole id; a stranger is named."""
    from shuffledp.ledger.collection_guarantee import Guarantee

    name = ledger.new_id()
    ledger.reserve(name, Guarantee(small_plan("krr", users=200), 200))
    shown = run("ledger").out
    assert f"ledger forget {name}`," in shown
    assert len(shown.partition("It holds if")[0].splitlines()) == 7
    assert "knows no population 'tset'; did you mean 'test'?" in run("ledger", "show", "--population", "tset").err
    assert run("ledger", "forget", name).status == 0
    assert "ledger forget" not in run("ledger").out


def test_a_title_is_never_narrower_than_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands on one line above a table of short rows."""
    from shuffledp.cli import output

    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    output.print_rows("A title that is longer than all of its rows", [("a", "1")])
    assert stream.getvalue().splitlines()[0].rstrip() == "A title that is longer than all of its rows"
