"""``ledger`` as it is typed: created, shown, checked, and refused where it is not what it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from shuffledp.ledger.ledger import Ledger
from shuffledp.planning.plan import Plan
from tests.cli import run
from tests.collection import random_column, small_plan, write_table

# Entries of a few plans.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

ROWS = 1000
CHEAP = {"epsilon_local": 0.5, "bound": "efmrtt19"}
COLLECT = ("collect", "plan.json", "--input", "data.csv", "--column", "colour", "--out")


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a plan and data, and no ledger."""
    monkeypatch.chdir(tmp_path)
    small_plan("krr", users=ROWS, **CHEAP).save(tmp_path / "plan.json")
    write_table(tmp_path / "data.csv", colour=random_column("krr", ROWS))
    return tmp_path


def test_a_ledger_from_its_creation_on(room: Path) -> None:
    """Created once, where the user's data are and not here; people are registered, and have a budget."""
    assert "create it by `shuffledp ledger create`" in run(*COLLECT, "out").err
    assert not (room / "out").exists()
    made = run("ledger", "create", "--population", "Test", "--population", "others")
    assert (made.status, made.err) == (0, "")
    assert "it knows everyone, others, test." in " ".join(made.out.split())
    assert Ledger.default_path().exists()
    assert list(room.glob("*.sqlite")) == []
    assert "is already there" in run("ledger", "create").err
    assert run("ledger").out == run("ledger", "show").out
    assert "test: nothing was collected (no budget)" in run("ledger").out
    assert "did you mean 'others'?" in run("ledger", "budget", "other", "--epsilon", "1", "--delta", "1e-6").err
    similar = run("ledger", "register", "other")
    assert (similar.status, similar.out) == (0, "")
    assert similar.err.startswith("ledger: 'other' and 'others' are two populations;")
    assert run("ledger", "budget", "TEST", "--epsilon", "4", "--delta", "1e-4").status == 0
    assert run(*COLLECT, "out").status == 0
    shown = run("ledger", "show", "--population", "test", "--delta", "1e-6").out
    assert "test: ε = 0.5000001 at δ = 1e-6 (budget 4, 0.5000001 spent at δ = 0.0001)" in shown
    assert "released" in shown
    assert "It holds if" in shown
    assert "This collection is all that was released about these people." in " ".join(shown.split())


def test_a_ledger_is_checked_against_what_quotes_it(room: Path, ledger: Ledger) -> None:
    """A report and a plan of this ledger, and of another one."""
    assert run(*COLLECT, "out").status == 0
    checked = json.loads(run("ledger", "check", "--report", "out/report.json", "--json").out)
    assert checked["head"] == ledger.head().to_document()
    assert "is whole: 5 entries" in run("ledger", "check").out
    assert "quotes no ledger" in run("ledger", "check", "--report", "plan.json").err
    assert "cannot read none.json" in run("ledger", "check", "--report", "none.json").err
    assert "expected a ledger's" in run("ledger", "check", "--plan", "plan.json").err
    assert run("ledger", "create", "--ledger", "other", "--population", "test").status == 0
    refused = run("ledger", "check", "--ledger", "other", "--report", "out/report.json")
    assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "report: expected the ledger" in refused.err


def test_a_plan_quotes_the_ledger_that_there_is(room: Path, ledger: Ledger) -> None:
    """The user's own, or one that is named; it is collected with no other, unless without any."""
    asked = ("plan", "--task", "frequency", "--domain", "4", "--users", "2000", "--epsilon", "1", "--delta", "1e-6",
             "--mechanism", "krr", "--population", "test", "--out", "new.json")  # fmt: skip
    assert run(*asked).status == 0
    assert Plan.load("new.json").ledger == ledger.head().to_document()
    assert run("ledger", "check", "--plan", "new.json").status == 0
    assert run("ledger", "create", "--ledger", "other", "--population", "test").status == 0
    Path("numbers.csv").write_text("n\n" + "0\n1\n2\n3\n" * 500, "utf-8")
    words = ("collect", "new.json", "--input", "numbers.csv", "--column", "n", "--out", "out")
    refused = run(*words, "--ledger", "other")
    assert (refused.status, refused.out) == (2, "")
    assert "plan: expected the ledger" in refused.err
    assert not Path("out").exists()
    assert run(*words).status == 0
    assert run(*words[:-1], "second", "--no-ledger").status == 0
    assert len(ledger.budget_statuses("test")[0].entries) == 1
    assert run(*asked, "--ledger", "other").status == 0
    assert Plan.load("new.json").ledger == Ledger("other").head().to_document()


def test_a_restored_ledger_must_be_accepted(room: Path, ledger: Ledger) -> None:
    """And says so from then on."""
    shutil.copy(ledger.path, "copy")
    assert run(*COLLECT, "out").status == 0
    shutil.copy("copy", ledger.path)
    for words in (("ledger",), ("ledger", "check"), (*COLLECT, "second")):
        refused = run(*words)
        assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert "run `shuffledp ledger accept`" in refused.err
    assert "earlier collections may be missing" in run("ledger", "accept").out
    assert "nothing to accept" in run("ledger", "accept").err
    assert "This ledger was replaced or restored on" in run("ledger").out
    assert run(*COLLECT, "second").status == 0
    assert "was replaced or restored on" in Path("second/report.md").read_text("utf-8")


def test_no_ledger_is_kept_where_none_is_wanted(room: Path) -> None:
    """By every role."""
    assert run(*COLLECT, "out", "--no-ledger").status == 0
    assert json.loads(Path("out/report.json").read_text("utf-8"))["ledger"] is None
    assert run("encode", *COLLECT[1:-1], "--out", "a.parquet").status == 0
    assert run("shuffle", "a.parquet", "--out", "shuffled", "--plan", "plan.json", "--no-ledger").status == 0
    assert run("estimate", "plan.json", "--input", "shuffled", "--out", "result", "--no-ledger").status == 0
    assert not Ledger.default_path().exists()


def test_names_and_budgets_are_pointed_out_on_the_way(room: Path, ledger: Ledger) -> None:
    """One sentence on standard error, and the same in JSON; nothing is refused that was not."""
    assert run("ledger", "register", "members").err == ""
    assert run(*COLLECT, "out").err == ""
    small_plan("krr", users=ROWS, population="members", **CHEAP).save(room / "plan.json")
    done = run(*COLLECT, "second", "--json")
    (said,) = json.loads(done.out)["ledger"]["warnings"]
    assert (done.status, done.err) == (0, f"{said}\n")
    assert "nothing was collected from 'members' before" in said
    tight = run("ledger", "budget", "test", "--epsilon", "0.1", "--delta", "1e-6")
    assert tight.status == 0
    assert "the budget of 'test' is spent: ε = 0.5 of 0.1 at δ = 1e-6." in tight.err
    shown = run("ledger", "show", "--population", "test", "--json")
    assert json.loads(shown.out)["populations"][0]["warnings"] == [tight.err.strip()] == [shown.err.strip()]
    asked = ("plan", "--task", "frequency", "--domain", "4", "--users", "2000", "--epsilon", "1", "--delta", "1e-6",
             "--mechanism", "krr", "--json", "--population")  # fmt: skip
    assert json.loads(run(*asked, "test").out)["warnings"] == [tight.err.strip()]
    assert run("ledger", "budget", "members", "--epsilon", "0.6", "--delta", "1e-6").err == f"{said}\n"
    for name, words in (("members", "this plan would bring 'members' from ε = 0.5 to "), ("membres", "did you mean")):
        planned = run(*asked, name)
        warnings = json.loads(planned.out)["warnings"]
        assert planned.err == "".join(f"{one}\n" for one in warnings)
        assert words in warnings[-1]


def test_a_round_is_set_aside_and_settled_by_a_role(room: Path, ledger: Ledger) -> None:
    """Half of those planned for came: the reservation becomes theirs, once, whoever of the roles says so."""
    small_plan("krr", users=ROWS, epsilon_local=0.5).save(room / "plan.json")
    reserved = json.loads(run("ledger", "reserve", "plan.json", "--json").out)
    (before,) = ledger.budget_statuses("test")
    assert [entry.id for entry in before.entries] == [reserved["reservation"]]
    assert (before.entries[0].state, before.epsilon) == ("reserved", reserved["epsilon"])
    write_table(room / "data.csv", colour=random_column("krr", ROWS // 2))
    assert run("encode", *COLLECT[1:-1], "--out", "a.messages").status == 0
    words = ("shuffle", "a.messages", "--out", "shuffled", "--reservation", reserved["reservation"])
    assert "--reservation needs --plan" in run(*words).err
    assert run(*words, "--plan", "plan.json").status == 0
    for out in ("result", "again"):
        done = run("estimate", "plan.json", "--input", "shuffled", "--out", out, *words[-2:])
        assert (done.status, done.err) == (0, "")
        (standing,) = ledger.budget_statuses("test")
        assert [(entry.id, entry.state, entry.users) for entry in standing.entries] == [
            (reserved["reservation"], "released", ROWS // 2)
        ]
    assert standing.epsilon > before.epsilon
    assert "there is no collection none" in run("estimate", "plan.json", "--input", "shuffled", "--out", "third",
                                                "--reservation", "none").err  # fmt: skip


def test_rounds_are_named_as_they_are_collected(room: Path, ledger: Ledger) -> None:
    """By commands that say nothing of them: the next one each time, and none after the last."""
    plan = small_plan("krr", users=ROWS, rounds=2, **CHEAP)
    plan.save(room / "plan.json")
    for number in (1, 2):
        done = run(*COLLECT, f"result{number}", "--json")
        assert json.loads(done.out)["guarantee"]["round"] == number
    refused = run(*COLLECT, "result3")
    assert refused.status == 2
    assert "ledger: all 2 rounds of the plan" in refused.err
    assert "a round is released once" in run(*COLLECT, "result3", "--round", "2").err
    assert "give it by --round" in run(*COLLECT, "result3", "--no-ledger").err
    assert run(*COLLECT, "result3", "--no-ledger", "--round", "3").status == 2
    assert not (room / "result3").exists()
    shown = run("ledger", "show").out
    assert [f"{plan.fingerprint[:8]} {number} of 2" in shown for number in (1, 2, 3)] == [True, True, False]
    told = json.loads(run("ledger", "show", "--json", "--population", "test").out)["populations"][0]["collections"]
    assert [(one["plan"], one["round"], one["rounds"]) for one in told] == [(plan.fingerprint, n, 2) for n in (1, 2)]
    assert run("ledger", "reserve", "plan.json").status == 2
    small_plan("krr", users=ROWS, rounds=4, **CHEAP).save(room / "plan.json")
    assert "Reserved round 3 of 4 for 1,000 users" in run("ledger", "reserve", "plan.json").out
    assert json.loads(run("ledger", "reserve", "plan.json", "--json").out)["round"] == 4


def test_late_files_are_refused_in_one_sentence(room: Path, ledger: Ledger) -> None:
    """With a ledger by the ledger; without one a condition is printed, and this machine remembers the files."""
    for name in ("a", "late"):
        assert run("encode", *COLLECT[1:-1], "--out", f"{name}.messages").status == 0
    done = run("shuffle", "a.messages", "--plan", "plan.json", "--out", "one")
    assert (done.status, "never shuffled again" in done.out) == (0, False)
    late = run("shuffle", "a.messages", "late.messages", "--plan", "plan.json", "--out", "two")
    assert (late.status, late.err.count("\n")) == (2, 1)
    assert "encode late ones for the next round, or plan more rounds." in late.err
    loose = run("shuffle", "late.messages", "--out", "three")
    assert "never shuffled again together with others" in loose.out
    for more in ((), ("--plan", "plan.json", "--no-ledger")):
        again = run("shuffle", "a.messages", "late.messages", *more, "--out", "four")
        assert again.status == 2
        assert "give all files of a round at once" in again.err
    assert len(ledger.budget_statuses("test")[0].entries) == 1
