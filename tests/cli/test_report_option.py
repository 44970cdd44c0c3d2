"""``--report``, ``--plot``, ``--curve`` and how numbers are typed: what a person defends, draws and writes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp._core.formatting import format_exact
from shuffledp.bounds import sweep
from shuffledp.ledger.collection_guarantee import Guarantee
from tests.cli import run
from tests.collection import new_ledger, random_column, small_plan, write_table

# The same few questions in many formats.
pytestmark = pytest.mark.usefixtures("each_curve_once")

AMPLIFY = ("amplify", "--mechanism", "krr", "--epsilon-local", "1", "--set", "options=4", "--effort", "quick")
ASKED = (*AMPLIFY, "--users", "1000", "--delta", "1e-6")
CONDITIONS = list(sdp.conditions(sdp.KRR(1.0, options=4), sdp.Participation(1000)))


def test_amplify_states_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "told.md"
    done = run(*ASKED, "--report", str(path))
    assert done.err == f"The statement was written to {path}.\n"
    text = path.read_text("utf-8")
    assert "(0.1178242, 1e-6)-differentially private" in text
    assert "shuffledp amplify --mechanism krr --epsilon-local 1 --set options=4 --effort quick --users 1000" in text
    assert "--report" not in text
    # The same number again, by what the statement says.
    command = text.split("```sh\nshuffledp ")[1].split("\n```")[0].split()
    assert "0.1178242" in run(*command).out


KRR_SETTING = ("--mechanism", "krr", "--epsilon-local", "1", "--set", "options=4")
ONE_NUMBER = {
    "one round": (*KRR_SETTING, "--users", "1000", "--delta", "1e-6"),
    "delta": (*KRR_SETTING, "--users", "1000", "--epsilon", "0.1"),
    "colluding": (*KRR_SETTING, "--users", "1000", "--delta", "1e-6", "--colluding", "100"),
    "rounds": (*KRR_SETTING, "--users", "500", "--delta", "1e-6", "--rounds", "5"),
    "delta of rounds": (*KRR_SETTING, "--users", "500", "--epsilon", "0.5", "--rounds", "5"),
    "sample": (*KRR_SETTING, "--users", "500", "--of", "5000", "--delta", "1e-6"),
    "sampled rounds": (*KRR_SETTING, "--users", "500", "--of", "5000", "--delta", "1e-6", "--rounds", "5"),
    "coins": ("--epsilon-local", "1", "--of", "2000", "--rate", "5%", "--delta", "1e-4"),
    "any randomizer": ("--epsilon-local", "1", "--users", "1000", "--delta", "1e-6"),
}


@pytest.mark.exhaustive("coins", "rounds", "sampled rounds")
@pytest.mark.parametrize("setting", ONE_NUMBER.values(), ids=ONE_NUMBER)
def test_one_command_states_one_number_in_every_form(
    setting: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen, JSON and the statement tell what the certificate claims, digit by digit."""
    monkeypatch.chdir(tmp_path)
    asked = ("amplify", *setting, "--effort", "quick", "--certificate", "claim.json", "--report", "told.md")
    document = json.loads(run(*asked, "--json").out)
    name, letter = ("epsilon", "ε") if "--delta" in setting else ("delta", "δ")
    claim = json.loads(Path("claim.json").read_text("utf-8"))
    assert document[name]["upper"] == claim[name]
    stated = re.search(rf"{letter} = ([0-9.e-]+[0-9])", Path("told.md").read_text("utf-8").split("private: ")[1])
    assert stated is not None
    assert float(stated[1]) == claim[name]
    shown = re.search(rf"{letter} \(guaranteed\) +(\S+)", run(*asked).out)
    assert shown is not None
    assert float(shown[1]) == claim[name]
    # What the engine alone proves is no second number of the same name.
    engine = document["without_certificate"]["upper"]
    least = document[name]["upper"] - document[name]["slack"]
    assert least <= engine <= claim[name] * 1.02


def test_conditions_stand_in_every_answer(tmp_path: Path) -> None:
    """As a list in JSON, and below the table."""
    assert json.loads(run(*ASKED, "--json").out)["conditions"] == CONDITIONS
    shown = " ".join(run(*ASKED).out.split())
    assert all(sentence in shown for sentence in CONDITIONS)
    for command in ("compare", "tradeoff"):
        words = (command, "--mechanism", "krr", "--epsilon-local", "1", "--set", "options=4", "--users", "1000")
        words += ("--delta", "1e-6") if command == "compare" else ()
        assert json.loads(run(*words, "--json").out)["conditions"] == CONDITIONS
    words = ("calibrate", "--mechanism", "krr", "--set", "options=4", "--users", "1000", "--epsilon", "0.2")
    path = tmp_path / "told.html"
    found = run(*words, "--delta", "1e-6", "--effort", "quick", "--json", "--report", str(path))
    assert json.loads(found.out)["conditions"] == CONDITIONS
    assert "ε = 0.2 at δ = 1e-6" in path.read_text("utf-8")


def test_a_collection_and_its_ledger_are_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_ledger(tmp_path / "ledger")
    small_plan("krr", users=1000).save("plan.json")
    write_table(tmp_path / "data.csv", colour=random_column("krr", 1000))
    done = run("collect", "plan.json", "--input", "data.csv", "--column", "colour", "--out", "result",
               "--ledger", "ledger", "--report", "told.md")  # fmt: skip
    assert done.status == 0
    assert "It holds if" in done.out
    assert "- Each row is a different person." in Path("told.md").read_text("utf-8")
    assert json.loads(Path("result/report.json").read_text("utf-8"))["guarantee"]["conditions"]
    told = run("ledger", "show", "--ledger", "ledger", "--population", "test", "--report", "ledger.html")
    assert told.status == 0
    assert "1 collection composed [VR Lemma 7.2]" in Path("ledger.html").read_text("utf-8")
    assert "add --population NAME" in run("ledger", "show", "--ledger", "ledger", "--report", "x.md").err
    assert "nothing was collected" in run(
        "ledger", "show", "--ledger", "ledger", "--population", "everyone", "--report", "x.md"
    ).err  # fmt: skip


@pytest.mark.exhaustive("sample")
@pytest.mark.parametrize("sample", [{}, {"users": 100, "out_of": 1000}], ids=["all", "sample"])
def test_a_collection_states_one_number_in_every_file(
    sample: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen, report.json, report.md and the statement tell what certificate.json claims."""
    monkeypatch.chdir(tmp_path)
    engine = Guarantee(
        small_plan("krr", **sample), sample.get("users", 1000), sampled_from=sample.get("out_of")
    ).epsilon
    # A target that the plan meets, and the certificate with its margin does not.
    small_plan("krr", epsilon=engine, **sample).save("plan.json")
    write_table(tmp_path / "data.csv", colour=random_column("krr", 1000))
    done = run("collect", "plan.json", "--input", "data.csv", "--column", "colour", "--out", "result",
               "--no-ledger", "--report", "told.md")  # fmt: skip
    assert done.status == 0, done.err
    certified = json.loads(Path("result/certificate.json").read_text("utf-8"))["epsilon"]
    text = format_exact(certified)
    told = json.loads(Path("result/report.json").read_text("utf-8"))["guarantee"]
    assert told["epsilon"]["upper"] == told["epsilon_all_rounds"] == certified > engine
    assert (told["target_met"], told["without_certificate"]["upper"]) == (True, engine)
    assert f"ε = {text}, δ = 1e-6." in Path("told.md").read_text("utf-8")
    page = Path("result/report.md").read_text("utf-8")
    assert f"({text}, 1e-6)-differential privacy" in page
    assert f"| central ε, guaranteed | {text} |" in page
    assert re.search(rf"ε \(guaranteed\) +{text} ", done.out)
    assert "met: ε = " in done.out


@pytest.mark.exhaustive("local-epsilon", "rounds")
@pytest.mark.parametrize("axis", ["users", "rounds", "local-epsilon", "epsilon"])
def test_a_curve_along_each_axis(axis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of what was asked holds the same number as the answer, and values go the right way."""
    monkeypatch.setattr(sweep, "DEFAULT_POINT_COUNT", 4)
    path = tmp_path / "curve.csv"
    done = run(*ASKED, "--curve", str(path), "--against", axis, "--json")
    answer = json.loads(done.out)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    asked = {"users": "1000", "rounds": "1", "local-epsilon": "1"}.get(axis)
    values = [float(row["delta" if axis == "epsilon" else "epsilon"]) for row in rows]
    if asked is not None:
        (row,) = [row for row in rows if row[axis.replace("-", "_")] == asked]
        assert float(row["epsilon"]) == pytest.approx(answer["epsilon"]["upper"], rel=1e-9)
        assert float(row["attack"]) <= float(row["epsilon"])
    assert values == sorted(values, reverse=axis in ("users", "epsilon"))
    assert len(rows) >= 4


@pytest.mark.exhaustive
def test_a_figure_is_drawn_for_parameters_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "DEFAULT_POINT_COUNT", 4)
    raw = ("amplify", "--p", "4", "--beta", "0.5", "--q", "4", "--users", "100", "--delta", "1e-3", "--effort", "quick")
    (tmp_path / "table.csv").write_text("0.6,0.4\n0.4,0.6\n", "utf-8")
    table = ("amplify", "--table", str(tmp_path / "table.csv"), "--users", "100", "--delta", "1e-3")
    for number, words in enumerate((raw, (*table, "--effort", "quick"))):
        path = tmp_path / f"{number}.svg"
        assert run(*words, "--plot", str(path), "--against", "epsilon").status == 0
        assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--report", "told.pdf"), "amplify: --report must end in .md or .html, got 'told.pdf'."),
        (("--report", "nowhere/told.md"), "there is no directory nowhere"),
        (("--against", "users"), "amplify: --against is about the figure; add --plot FILE or --curve FILE.csv."),
        (("--curve", "c.csv", "--against", "time"), "amplify: --against must be one of users, rounds, local-epsilon"),
        (("--curve", "nowhere/c.csv"), "could not write the curve"),
    ],
)
def test_mistakes_are_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    done = run(*ASKED, *words)
    assert (done.status, done.out) == (2, "")
    assert sentence in done.err


def test_numbers_as_people_write_them() -> None:
    """Thousands by commas, shares by percent; a comma elsewhere is a mistake, and is said to be one."""
    plain = run(*AMPLIFY, "--users", "1000000", "--delta", "1e-8").out
    for text in ("1,000,000", "1e6", "1_000_000"):
        assert run(*AMPLIFY, "--users", text, "--delta", "1e-8").out == plain
    for text in ("1,5", "1,00", "10,00,000", "many"):
        done = run(*AMPLIFY, "--users", text, "--delta", "1e-8")
        assert done.status == 2
        assert f"expected a number such as 5000000, 5,000,000 or 5e6, got {text!r}." in done.err
    assert run("amplify", "-h").out == run("amplify", "--help").out
