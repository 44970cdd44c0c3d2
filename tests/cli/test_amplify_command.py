"""``shuffledp amplify``: the JSON contract, the table, and one sentence for every bad input."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import example, given, strategies as st

import shuffledp as sdp
from shuffledp.cli import output
from tests.cli import run

ANY_LDP = ("amplify", "--epsilon-local", "2", "--users", "1000")
RAW = ("amplify", "--p", "4", "--beta", "0.2", "--q", "4", "--users", "1000")
DISJOINT = ("amplify", "--p", "inf", "--beta", "1", "--q", "16", "--users", "2000")
DELTA = ("--delta", "1e-6")

CONTRACT = {"epsilon", "delta", "users", "bound", "theorem", "certified", "guarantee"}


def answer(*arguments: str) -> dict[str, object]:
    """The JSON object of a command that must succeed and print nothing else."""
    outcome = run(*arguments, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.count("\n") == 1
    assert outcome.out.endswith("\n")
    document = json.loads(outcome.out, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    assert isinstance(document, dict)
    return document


def table(*arguments: str) -> dict[str, str]:
    """The rows of the table, wrapped lines joined; text below the table is under the key ''."""
    outcome = run(*arguments)
    assert (outcome.status, outcome.err) == (0, "")
    rows: dict[str, str] = {}
    name = ""
    for line in outcome.out.splitlines()[1:]:
        cells = re.fullmatch(r"(\S.*?)\s{2,}(\S.*?)\s*", line)
        if cells:
            name = cells[1]
            rows[name] = cells[2]
        elif line.startswith(" "):
            rows[name] += " " + line.strip()
        else:
            rows[""] = rows.get("", "") + line
    return rows


class TestJson:
    """The contract that programs rely on."""

    def test_epsilon_for_a_delta(self) -> None:
        """The answer is an object with exactly three keys; the given δ comes back as a number."""
        document = answer(*ANY_LDP, *DELTA)
        expected = sdp.amplify(sdp.VariationRatio.from_ldp(2.0), users=1000).epsilon(delta=1e-6)
        assert document.keys() >= CONTRACT
        assert document["epsilon"] == {"lower": expected.lower, "upper": expected.upper, "slack": expected.slack}
        assert document["delta"] == 1e-6
        assert document["users"] == 1000
        assert isinstance(document["users"], int)
        assert document["bound"] == expected.bound
        assert document["theorem"] == expected.theorem
        assert document["certified"] is True
        assert document["guarantee"] is True

    def test_delta_for_an_epsilon(self) -> None:
        """With --epsilon the roles change."""
        document = answer(*ANY_LDP, "--epsilon", "0.25")
        expected = sdp.amplify(sdp.VariationRatio.from_ldp(2.0), users=1000).delta(epsilon=0.25)
        assert document.keys() >= CONTRACT
        assert document["epsilon"] == 0.25
        assert document["delta"] == {"lower": expected.lower, "upper": expected.upper, "slack": expected.slack}

    def test_infinity_is_a_string(self) -> None:
        """An infinite p goes in as inf and comes out as "inf"; so does an ε that does not exist."""
        document = answer("amplify", "--p", "inf", "--beta", "0.5", "--q", "4", "--users", "10", *DELTA)
        parameters, epsilon = document["parameters"], document["epsilon"]
        assert isinstance(parameters, dict)
        assert isinstance(epsilon, dict)
        assert parameters["p"] == "inf"
        assert epsilon["upper"] == "inf"

    def test_the_published_bound_is_no_guarantee(self) -> None:
        """Where γ > 0 the flag is false and the note says why; where γ = 0 it is true."""
        document = answer(*RAW, *DELTA, "--bound", "variation-ratio-published")
        assert document["guarantee"] is False
        assert "not an upper bound" in str(document["note"])
        assert answer(*DISJOINT, *DELTA, "--bound", "variation-ratio-published")["guarantee"] is True

    def test_every_parameter_is_used(self) -> None:
        """--q0, --q1, --q-common and --colluding reach the computation."""
        given = ("--p", "4", "--beta", "0.2", "--q0", "4", "--q1", "3", "--q-common", "2")
        document = answer("amplify", *given, "--users", "1e3", "--colluding", "100", *DELTA)
        parameters = sdp.VariationRatio(p=4.0, beta=0.2, q=(4.0, 3.0), q_common=2.0)
        expected = sdp.amplify(parameters, users=1000, colluding=100).epsilon(delta=1e-6)
        epsilon = document["epsilon"]
        assert isinstance(epsilon, dict)
        assert epsilon["upper"] == expected.upper
        assert document["users"] == 900


class TestTable:
    """What a person reads."""

    @pytest.mark.parametrize("arguments", [(*ANY_LDP, *DELTA), (*RAW, *DELTA), (*DISJOINT, "--epsilon", "0.3")])
    def test_it_says_what_stands_behind_the_number(self, arguments: tuple[str, ...]) -> None:
        """Theorem, certificate and lower bound each have a line; a guarantee is called one."""
        rows = table(*arguments)
        assert rows["theorem"] == answer(*arguments)["theorem"]
        assert rows["certificate"] == "proved, rounding included"
        assert rows["lower bound"]
        assert any(name.endswith("(guaranteed)") for name in rows)
        assert "NOT" not in " ".join(rows)

    def test_the_published_bound_is_marked(self) -> None:
        """The label and a line below the table say that the number is not guaranteed."""
        rows = table(*RAW, *DELTA, "--bound", "variation-ratio-published")
        assert "ε (published, NOT guaranteed)" in rows
        assert rows[""].startswith("Not a privacy guarantee")

    @pytest.mark.parametrize("local", ["0.1", "0.7", "1", "2", "3.3"])
    def test_the_shown_number_is_rounded_up(self, local: str) -> None:
        """What is read is never below the certified value, and close to it."""
        arguments = ("amplify", "--epsilon-local", local, "--users", "3000", "--delta", "1e-7")
        epsilon = answer(*arguments)["epsilon"]
        assert isinstance(epsilon, dict)
        shown = float(table(*arguments)["ε (guaranteed)"])
        assert epsilon["upper"] <= shown <= epsilon["upper"] * (1 + 2e-6)

    @given(st.floats(min_value=0.0, allow_nan=False))
    @example(math.nextafter(1e-5, 1))
    @example(math.nextafter(1e5, math.inf))
    @example(math.inf)
    @example(5e-324)
    def test_seven_digits_are_never_below(self, value: float) -> None:
        """Rounding to seven digits goes up."""
        shown = float(output.format_upper(value))
        assert value <= shown
        assert shown <= value * (1 + 2e-6) or value > 1.797e308


def sound(*changes: str) -> list[str]:
    """A good command with some of its options replaced; an option without a value is taken out."""
    options = {"--p": "3", "--beta": "0.3", "--q": "3", "--users": "10", "--delta": "1e-6"}
    for change in changes:
        name, _, value = change.partition("=")
        options[name] = value
    return ["amplify", *(word for name, value in options.items() if value for word in (name, value))]


BAD = {
    "p of 1": (sound("--p=1"), "p must be above 1"),
    "p below 1": (sound("--p=0.5"), "p must be above 1"),
    "beta too large for p": (sound("--beta=0.6"), "beta must be between 0 and"),
    "negative beta": (sound("--beta=-0.1"), "beta must be between 0 and"),
    "q below 1": (sound("--q=0.9"), "q must be at least 1"),
    "infinite q": (sound("--q=inf"), "q must be at least 1 and finite"),
    "too much hiding": (sound("--beta=0.5", "--q=1"), "r0 + r1 + γ/q_common must be at most 1"),
    "too much common hiding": (sound("--beta=0.3", "--q=1.4", "--q-common=1"), "must be at most 1"),
    "no users": (sound("--users=0"), "users must be at least 1"),
    "negative users": (sound("--users=-5"), "users must be at least 1"),
    "half a user": (sound("--users=10.5"), "users must be a whole number"),
    "infinitely many users": (sound("--users=inf"), "users must be a whole number"),
    "users not a number": (sound("--users=nan"), "users must be a whole number"),
    "p not a number": (sound("--p=nan"), "p must be a number"),
    "beta not a number": (sound("--beta=nan"), "beta must be a number"),
    "q not a number": (sound("--q=nan"), "q must be a number"),
    "delta not a number": (sound("--delta=nan"), "delta must be a number"),
    "epsilon not a number": (sound("--delta", "--epsilon=nan"), "epsilon must be a number"),
    "delta of 0": (sound("--delta=0"), "delta must be between 0 and 1"),
    "delta of 1": (sound("--delta=1"), "delta must be between 0 and 1"),
    "negative delta": (sound("--delta=-1e-6"), "delta must be between 0 and 1"),
    "negative epsilon": (sound("--delta", "--epsilon=-0.1"), "epsilon must be at least 0"),
    "both targets": (sound("--epsilon=1"), "either --delta"),
    "no target": (sound("--delta"), "either --delta"),
    "no q": (sound("--q"), "--q"),
    "q0 without q1": (sound("--q", "--q0=3"), "--q1"),
    "q and q0": (sound("--q0=3"), "--q0"),
    "no beta": (sound("--beta"), "--beta"),
    "epsilon-local and p": (sound("--epsilon-local=1"), "--epsilon-local"),
    "epsilon-local of 0": (
        ["amplify", "--epsilon-local", "0", "--users", "9", *DELTA],
        "epsilon_local must be above 0",
    ),
    "no users option": (sound("--users"), "--users"),
    "unknown bound": (sound("--bound=tightest"), "bound must be one of best,"),
    "bound out of its regime": (sound("--bound=analytic"), "needs Ω"),
    "everybody colludes": (sound("--colluding=10"), "colluding must be below users = 10"),
    "word for a number": (sound("--p=three"), "--p"),
    "word for users": (sound("--users=many"), "--users"),
    "option without its value": ([*sound(), "--epsilon"], "--epsilon"),
    "unknown option": (sound("--sigma=1"), "--sigma"),
    "stray word": ([*sound(), "now"], "now"),
}


@pytest.mark.parametrize(("arguments", "part"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_bad_input_is_one_sentence(arguments: list[str], part: str, form: list[str]) -> None:
    """Exit code 2, nothing on stdout, exactly one line on stderr that names what is wrong."""
    outcome = run(*arguments[:1], *form, *arguments[1:])
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert outcome.err.endswith("\n")
    assert outcome.err.startswith("shuffledp: ")
    assert part in outcome.err
    assert "Traceback" not in outcome.err


def test_the_good_command_is_good() -> None:
    """The list of bad inputs starts from a command that works."""
    assert run(*sound()).status == 0


def test_an_answer_says_which_randomizers_it_holds_for() -> None:
    local = answer(*ANY_LDP, *DELTA)
    assert local["holds_for"] == "any randomizer with these ratios among all users, both ways"
    raw = answer("amplify", "--p", "4", "--beta", "0.5", "--q", "4", "--users", "1000", *DELTA)
    assert raw["holds_for"] == "any randomizer with these parameters; q need hold one way only"
    upto = answer("amplify", "--epsilon-local", "1", "--delta-local", "1e-9", "--users", "1000", *DELTA)
    assert upto["holds_for"] == "any (1, 1e-9)-LDP randomizer"
    assert upto["bound"] == "all-crowds"


def test_a_local_delta_needs_a_local_epsilon() -> None:
    outcome = run("amplify", "--delta-local", "1e-9", "--users", "1000", *DELTA)
    assert outcome.status == 2
    assert outcome.err == "shuffledp: amplify: --delta-local needs --epsilon-local.\n"
