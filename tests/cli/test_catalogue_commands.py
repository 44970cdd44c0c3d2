"""The commands around the catalogue: mechanisms, amplify --mechanism and --table, compare, audit."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp.mechanisms.catalogue import all_mechanisms, takes_epsilon
from tests.cli import run

# The same few comparisons as a table, a picture and a file.
pytestmark = pytest.mark.usefixtures("each_curve_once")

SETTINGS: dict[str, list[str]] = {
    "balcer-cheu": ["options=4", "coin=0.75"],
    "balcer-uniform": ["options=4"],
    "balls-into-bins": ["options=50", "bins=7"],
    "cancelling-noise": ["options=16", "rate=0.2", "shape=30", "ratio=0.95", "honest=2000"],
    "cancelling-sets": ["options=16", "items=2", "rate=0.1", "shape=20", "ratio=0.97", "honest=2000"],
    "cancelling-tree": ["options=16", "rate=0.1", "shape=20", "ratio=0.97", "honest=2000", "fan_out=4"],
    "cheu-zhilyaev": ["options=8", "flip=0.1"],
    "collision": ["options=20", "items=2"],
    "duchi": ["dimension=3"],
    "gaussian": ["multiplier=2", "grid=2"],
    "gaussian-vector": ["multiplier=30", "dimension=8"],
    "hadamard-response": ["options=10"],
    "harmony": ["dimension=4"],
    "krr": ["options=16"],
    "laplace": ["low=-1", "high=2", "grid=16"],
    "local-hash": ["options=20"],
    "mix-dump": ["options=16", "flip=0.2"],
    "oue": ["options=16"],
    "pckv": ["keys=5", "padding=2"],
    "piecewise": ["grid=16"],
    "planar-laplace": ["columns=3", "rows=2"],
    "privhs": ["dimension=8"],
    "privkv": ["keys=5"],
    "pure-dump": ["options=16"],
    "privset": ["options=10", "items=2"],
    "privunit": ["dimension=8"],
    "privunit-g": ["dimension=8"],
    "privunit-optimized": ["dimension=8"],
    "range-queries": ["height=4"],
    "poisson-dump": ["options=16", "mean=300", "honest=2000"],
    "poisson-tables": ["options=16", "tables=2", "mean=600", "honest=2000"],
    "range-tree": ["options=16", "mean=600", "honest=2000", "fan_out=4"],
    "rappor": ["options=16"],
    "pi-rappor": ["options=100", "variant=deletion"],
    "projective-geometry": ["options=100"],
    "sampling-rappor": ["options=10", "items=2"],
    "split-and-mix": ["rate=0.1", "levels=10", "modulus=1048576", "messages=8", "honest=1000"],
    "split-and-mix-vector": ["dimension=2", "scale=300", "levels=10", "modulus=1048576", "messages=8", "honest=1000"],
    "sqkr": ["dimension=8"],
    "subset": ["options=16"],
    "witch-hat": ["half_width=2", "grid=16"],
    "wheel": ["options=20", "items=2"],
}


def arguments(name: str) -> list[str]:
    local = ["--epsilon-local", "1"] if takes_epsilon(all_mechanisms()[name]) else []
    return ["--mechanism", name, *local, *(f"--set={text}" for text in SETTINGS[name])]


def answer(*words: str) -> dict[str, Any]:
    outcome = run(*words, "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert isinstance(document, dict)
    return document


def test_the_catalogue_is_listed() -> None:
    """Every mechanism with its task and settings, as a table and as JSON."""
    shown = run("mechanisms").out
    listed = {entry["name"]: entry for entry in answer("mechanisms")["mechanisms"]}
    assert set(listed) == set(all_mechanisms())
    for name, kind in all_mechanisms().items():
        assert name in shown
        assert listed[name]["class"] == kind.__name__


def test_a_page_for_each() -> None:
    """What it sends, when to take it, and what every setting means."""
    listed = json.loads(run("mechanisms", "--json").out)["mechanisms"]
    for entry in listed:
        assert entry["summary"], entry["name"]
        assert entry["take_it"], entry["name"]
        if entry["name"] in SETTINGS:
            assert all(setting["meaning"] for setting in entry["settings"]), entry["name"]
    page = run("mechanisms", "Cancelling_Noise").out
    assert "Differentially Private Aggregation" in page
    assert "setting honest" in page
    assert "(default: 0)" in page
    assert json.loads(run("mechanisms", "krr", "--json").out) == next(one for one in listed if one["name"] == "krr")


def test_other_names_and_slips() -> None:
    """Names of the literature lead to the same mechanism; a name that nobody knows is said to be near to one."""
    for name in ("grr", "k-rr", "warner", "KRR"):
        assert run("mechanisms", name).out == run("mechanisms", "krr").out
    assert run("mechanisms", "olh").out.startswith("local-hash")
    words = ("--epsilon-local", "1", "--set", "options=4", "--users", "1000", "--delta", "1e-6", "--effort", "quick")
    assert run("amplify", "--mechanism", "GRR", *words).out == run("amplify", "--mechanism", "krr", *words).out
    slip = run("amplify", "--mechanism", "subsett", *words)
    meant = "mechanism must be one of the catalogue, such as 'subset', which may be meant, got 'subsett'."
    assert (slip.status, slip.err) == (2, f"shuffledp: {meant}\n")
    assert run("mechanisms", "nothing-like-it").err.startswith("shuffledp: mechanism must be one of all-answered, ")


def test_other_names_are_one_mechanism_each() -> None:
    names = [name for kind in all_mechanisms().values() for name in vars(kind).get("aliases", ())]
    assert "grr" in names
    assert len(names) == len(set(names))
    assert not set(names) & set(all_mechanisms())


def test_those_for_a_task() -> None:
    names = {entry["name"] for entry in json.loads(run("mechanisms", "--task", "mean", "--json").out)["mechanisms"]}
    assert {"laplace", "split-and-mix"} <= names
    assert "krr" not in names
    assert "task must be one of frequency, " in run("mechanisms", "--task", "nothing").err
    assert "not both" in run("mechanisms", "krr", "--task", "mean").err


def test_every_buildable_mechanism_has_settings_here() -> None:
    """A new mechanism must be added to the cases of this file."""
    assert set(SETTINGS) == {name for name, kind in all_mechanisms().items() if kind.has_numeric_settings}


@pytest.mark.exhaustive("[laplace", "gaussian", "privunit]")
@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_amplify_works_for_each(name: str) -> None:
    """The command gives a certified guarantee below the local ε, not below its attack, and names the mechanism."""
    document = answer("amplify", *arguments(name), "--users", "5000", "--delta", "1e-6")
    assert document["certified"]
    assert document["guarantee"]
    assert 0 < document["epsilon"]["upper"] < 1
    assert document["mechanism"]["name"] == name
    lower = document["epsilon"]["lower"]
    assert lower is None or lower <= document["epsilon"]["upper"]


def test_a_table_is_read_from_csv(tmp_path: Path) -> None:
    """A CSV of probabilities gives the same answer as the table in Python."""
    rows = [[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in rows), "utf-8")
    document = answer("amplify", "--table", str(path), "--users", "1e4", "--delta", "1e-6")
    assert document["epsilon"]["upper"] == sdp.amplify(sdp.FromTable(rows), 10_000).epsilon(1e-6).upper


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--mechanism", "nothing", "--epsilon-local", "1"], "mechanism must be one of"),
        (["--mechanism", "krr"], "--mechanism needs --epsilon-local"),
        (["--mechanism", "krr", "--epsilon-local", "1"], "setting options is missing"),
        (["--mechanism", "krr", "--epsilon-local", "1", "--set", "option=3"], "expected settings among options"),
        (["--mechanism", "krr", "--epsilon-local", "1", "--set", "options"], "--set takes name=value"),
        (["--mechanism", "krr", "--epsilon-local", "1", "--set", "options=x"], "options must be a number"),
        (["--mechanism", "krr", "--epsilon-local", "1", "--set", "options=1"], "options must be at least 2, got 1"),
        (["--mechanism", "krr", "--epsilon-local", "1", "--set", "options=2.5"], "options must be a whole number"),
        (["--mechanism", "krr", "--epsilon-local", "-1", "--set", "options=4"], "epsilon must be above 0"),
        (["--mechanism", "krr", "--epsilon-local", "1", "--set", "options=4", "--p", "3"], "does not go with --p"),
        (["--mechanism", "table", "--epsilon-local", "1"], "mechanism must be one of"),
        (["--mechanism", "pure-dump", "--epsilon-local", "1", "--set", "options=4"], "it takes no local ε"),
        (["--mechanism", "pure-dump"], "setting options is missing"),
        (["--mechanism", "pure-dump", "--set", "options=4", "--set", "share=0"], "share must be above 0"),
        (["--mechanism", "cheu-zhilyaev", "--set", "options=4", "--set", "flip=0.5"], "flip must be below 1/2"),
        (["--table", "no-such-file.csv"], "no-such-file.csv"),
        (["--set", "options=4"], "--set needs --mechanism"),
        ([], "give --mechanism, --table, --epsilon-local"),
    ],
)
@pytest.mark.parametrize("command", ["amplify", "compare"])
def test_bad_choices_are_one_sentence(command: str, words: list[str], sentence: str) -> None:
    """Wrong names, settings and combinations exit with 2 and one line on stderr, nothing on stdout."""
    outcome = run(command, *words, "--users", "100", "--delta", "1e-3")
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert sentence in outcome.err


def test_compare_shows_every_bound_and_the_attack() -> None:
    """The table names each bound, flags what is no guarantee, and states the gap."""
    shown = run("compare", *arguments("krr"), "--users", "5000", "--delta", "1e-6").out
    for row in sdp.compare(sdp.KRR(1.0, 16), 5_000, 1e-6).rows:
        assert row.bound in shown
    assert "NOT a" in shown
    assert "Best guarantee" in shown
    assert "the gap is" in shown


def test_compare_as_json() -> None:
    """One object: all bounds with value or reason, the best one, the attack."""
    document = answer("compare", *arguments("krr"), "--users", "5000", "--delta", "1e-6", "--colluding", "1000")
    assert document["users"] == 4000
    assert document["lower"] > 0
    assert {entry["bound"] for entry in document["bounds"]} >= {"optimal", "variation-ratio", "clone", "efmrtt19"}
    assert all(entry["epsilon"] or entry["reason"] for entry in document["bounds"])


@pytest.mark.exhaustive
def test_compare_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plot is written as PNG; a place that cannot be written to is a sentence."""
    monkeypatch.setattr("shuffledp.cli.compare_bounds.PLOT_POINTS", 2)
    path = tmp_path / "bounds.png"
    words = ["compare", *arguments("krr"), "--users", "1000", "--delta", "1e-5", "--plot"]
    assert run(*words, str(path)).status == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    refused = run(*words, str(tmp_path / "nowhere" / "bounds.png"))
    assert refused.status == 2
    assert "could not write the plot" in refused.err


@pytest.mark.exhaustive
def test_compare_writes_every_bound_along_an_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of local ε; and the users, where a protocol has no local ε: each row is what ``compare`` says there."""
    monkeypatch.setattr("shuffledp.cli.compare_bounds.PLOT_POINTS", 2)
    path = tmp_path / "bounds.csv"
    words = ["--delta", "1e-5", "--curve", str(path), "--range"]
    assert run("compare", *arguments("krr"), "--users", "1000", *words, "0.5", "1").status == 0
    rows = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    assert {row["local_epsilon"] for row in rows} == {"0.5", "1.0"}
    assert {"variation-ratio-published", "optimal", "attack"} <= {row["bound"] for row in rows}
    known = sdp.compare(sdp.KRR(0.5, 16), 1000, 1e-5)
    found = {row["bound"]: float(row["epsilon"]) for row in rows if row["local_epsilon"] == "0.5"}
    assert found["optimal"] == next(row.value.upper for row in known.rows if row.value and row.bound == "optimal")
    assert found["attack"] == known.lower
    assert run("compare", *arguments("balls-into-bins"), "--users", "2e5", *words, "2e5", "4e5").status == 0
    rows = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    assert {row["users"] for row in rows} == {"200000.0", "400000.0"}
    assert {row["guarantee"] for row in rows if row["bound"] == "protocol-published"} == {"False"}
    refused = run("compare", *arguments("balls-into-bins"), "--of", "1e5", "--rate", "1%", *words, "1", "2")
    assert refused.status == 2
    assert "how many users come follows" in refused.err


def test_audit_of_a_mechanism() -> None:
    """A sound mechanism passes with exit code 0."""
    document = answer("audit", *arguments("oue"), "--samples", "5000")
    assert not document["violated"]
    assert 0 < document["epsilon"]["lower"] <= 1


def test_users_and_messages_are_told_apart() -> None:
    """With several messages each, the answer counts users, and names how many messages hide each other."""
    words = [*arguments("pure-dump"), "--set=dummies=5", "--users", "5000", "--delta", "1e-6", "--colluding", "1000"]
    document = answer("amplify", *words)
    assert (document["users"], document["messages"]) == (4000, 20_001)
    assert document["mechanism"] == {"name": "pure-dump", "options": 16, "dummies": 5, "share": 1.0}
    compared = answer("compare", *words)
    assert (compared["users"], compared["messages"]) == (4000, 20_001)
    shown = " ".join(run("amplify", *words).out.split())
    assert "4,000, of whose messages 20,001 hide each other" in shown


def test_audit_of_a_protocol_that_promises_nothing_alone() -> None:
    """Without a local guarantee a claim must be given; a report is then one user's messages together."""
    refused = run("audit", *arguments("pure-dump"), "--samples", "1000")
    assert refused.status == 2
    assert "give --claimed" in refused.err
    assert run("audit", *arguments("pure-dump"), "--samples", "1000", "--claimed", "1").status == 1
    assert run("audit", *arguments("mix-dump"), "--samples", "1000", "--claimed", "9").status == 0


def test_audit_of_a_broken_program(tmp_path: Path) -> None:
    """A program that tells the truth is caught: exit code 1 and a plain verdict."""
    script = tmp_path / "truth.py"
    script.write_text("import sys\nfor line in sys.stdin: print(line.strip())\n", "utf-8")
    words = ["--command", f"{sys.executable} {script}", "--value", "0", "--value", "1", "--claimed", "1"]
    outcome = run("audit", *words, "--samples", "1000")
    assert outcome.status == 1
    assert "BROKEN" in outcome.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give either --mechanism or --command"),
        (["--command", "cat"], "--command needs --value twice and --claimed"),
        (["--command", "cat", "--value", "1", "--claimed", "1"], "exactly twice"),
        (
            ["--mechanism", "krr", "--epsilon-local", "1", "--set=options=3", "--value=0", "--value=7"],
            "from 0 to 2, got 7",
        ),
        (["--mechanism", "krr", "--epsilon-local", "1", "--set=options=3", "--value=0", "--value=x"], "a JSON list"),
    ],
)
def test_bad_audits_are_one_sentence(words: list[str], sentence: str) -> None:
    """What is missing or wrong is said in one line."""
    outcome = run("audit", *words, "--samples", "1000")
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert sentence in outcome.err
