"""The interface of the page: the commands' own numbers and sentences, and nobody else is answered."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request

import pytest

import shuffledp
from shuffledp.explorer import snippets
from shuffledp.explorer.requests import OPENAPI_DOCUMENT, OPERATIONS
from shuffledp.explorer.server import PAGE_DIRECTORY
from tests.cli import run
from tests.explorer.browser import NO_PROXY_OPENER, TIMEOUT_SECONDS, PageServer
from tests.explorer.conftest import command_output

KRR = {"mechanism": "krr", "epsilon_local": 2, "settings": {"options": 16}}
KRR_TYPED = ("--mechanism", "krr", "--epsilon-local", "2", "--set", "options=16")
MAX_PAGE_BYTES = 120_000
TABLE = "0.5,0.25,0.25\n0.25,0.5,0.25\n0.25,0.25,0.5\n"
CASES: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("amplify", {**KRR, "users": 1e5, "delta": 1e-8, "effort": "quick"},
     ("amplify", *KRR_TYPED, "--users", "100000", "--delta", "1e-8", "--effort", "quick")),
    ("amplify", {"epsilon_local": "1.5", "users": "1,000", "epsilon": 0.2, "colluding": 10},
     ("amplify", "--epsilon-local", "1.5", "--users", "1000", "--epsilon", "0.2", "--colluding", "10")),
    ("amplify", {"p": "inf", "beta": 1, "q": 16, "users": 60_001, "delta": 1e-7, "effort": "quick"},
     ("amplify", "--p", "inf", "--beta", "1", "--q", "16", "--users", "60001", "--delta", "1e-7", "--effort", "quick")),
    ("amplify", {**KRR, "users": 5000, "of": 1e5, "rounds": 3, "delta": 1e-6, "effort": "quick"},
     ("amplify", *KRR_TYPED, "--users", "5000", "--of", "1e5", "--rounds", "3", "--delta", "1e-6",
      "--effort", "quick")),
    ("compare", {**KRR, "users": 1000, "delta": 1e-6}, ("compare", *KRR_TYPED, "--users", "1000", "--delta", "1e-6")),
    ("tradeoff", {**KRR, "users": 1000, "fpr": [0.01, "0.1"], "prior": 0.25, "points": 11},
     ("tradeoff", *KRR_TYPED, "--users", "1000", "--fpr", "0.01", "--fpr", "0.1", "--prior", "0.25", "--points", "11")),
    ("crowd", {"mechanism": "krr", "settings": {"options": 4}, "delta": 1e-6, "effort": "quick",
               "group": [{"epsilon_local": 1, "users": 500}, {"epsilon_local": "2", "users": 500}]},
     ("crowd", "--mechanism", "krr", "--set", "options=4", "--group", "1:500", "--group", "2:500", "--delta", "1e-6",
      "--effort", "quick")),
    ("plan", {"task": "frequency", "domain": 4, "users": 1000, "epsilon": 1, "delta": 1e-6, "mechanism": "krr"},
     ("plan", "--task", "frequency", "--domain", "4", "--users", "1000", "--epsilon", "1", "--delta", "1e-6",
      "--mechanism", "krr")),
    ("mechanisms", {"task": "mean"}, ("mechanisms", "--task", "mean")),
]  # fmt: skip
TIMED = ("client_seconds_per_user", "server_seconds")


def untimed(document: Any) -> Any:
    """Without what is measured anew each time."""
    if isinstance(document, dict):
        return {key: untimed(value) for key, value in document.items() if key not in TIMED}
    return [untimed(each) for each in document] if isinstance(document, list) else document


@pytest.mark.parametrize(("operation", "given", "typed"), CASES, ids=[" ".join(case[2][:4]) for case in CASES])
def test_numbers_are_the_commands(
    server: PageServer, operation: str, given: dict[str, Any], typed: tuple[str, ...]
) -> None:
    """To the last digit, and the command that is shown gives them again."""
    status, found = server.query(operation, given)
    assert status == 200, found
    assert untimed(found["answer"]) == untimed(command_output(*typed))
    words = found["command"].split()
    assert words[:2] == ["shuffledp", operation]


def test_the_number_is_told_before_the_attack(server: PageServer) -> None:
    """In a line of its own; what it says stands in the answer to the last digit."""
    given = {**KRR, "users": 12_345, "rounds": 2, "colluding": 5, "delta": 1e-8, "effort": "quick"}
    question = json.dumps(given).encode()
    head = {"content-type": "application/json", "accept": "application/x-ndjson"}
    with NO_PROXY_OPENER.open(Request(f"{server.url}api/amplify", question, head), timeout=TIMEOUT_SECONDS) as answer:
        told = [json.loads(line) for line in answer.read().splitlines()]
    (first,) = (line["first"] for line in told if "first" in line)
    found = told[-1]["answer"]
    assert first["epsilon"] == {name: found["epsilon"][name] for name in ("upper", "slack")}
    assert found["epsilon"]["lower"] > 0
    assert all(found[name] == value for name, value in first.items() if name != "epsilon")
    assert first.keys() >= {"delta", "users", "rounds", "bound", "theorem", "guarantee", "certified"}


def test_a_table_and_its_files(server: PageServer) -> None:
    """A table comes as text; the certificate that is made of it is proved again, and the curve is the command's."""
    given = {"table": TABLE, "users": 1000, "delta": 1e-6, "effort": "quick"}
    status, found = server.query("certificate", given)
    assert status == 200
    assert "--table=table.csv" in found["command"]
    claim = json.loads(found["files"]["certificate.json"])
    assert claim["epsilon"] >= found["answer"]["epsilon"]["upper"]
    assert server.query("verify", {"certificate": claim})[1]["answer"]["verdict"] == "yes"
    claim["epsilon"] /= 2
    status, refused = server.query("verify", {"certificate": claim})
    assert (status, "certificate" in refused["error"]) == (422, True)


def test_a_statement_says_how_to_get_the_number_again(server: PageServer) -> None:
    """Its command is the one that the page shows."""
    given = {**KRR, "users": 1000, "delta": 1e-6, "effort": "quick", "form": "md"}
    _, found = server.query("statement", given)
    text = found["files"]["statement.md"]
    assert "shuffledp amplify --mechanism=krr --epsilon-local=2 --set=options=16 --users=1000" in text
    assert "honest: no user reveals their message" in text


PYTHON = [CASES[0][1], CASES[1][1], CASES[2][1], {**CASES[3][1], "rounds": "2"}]


@pytest.mark.parametrize("given", PYTHON, ids=["mechanism", "any", "parameters", "rounds"])
def test_python_lines_give_the_same_number(
    server: PageServer, given: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """They are run as they are shown."""
    _, found = server.query("amplify", given)
    names: dict[str, Any] = {}
    exec(found["python"], names)
    capsys.readouterr()
    asked = (
        names["curve"].epsilon(float(given["delta"])) if "delta" in given else names["curve"].delta(given["epsilon"])
    )
    assert asked.upper == found["answer"]["epsilon" if "delta" in given else "delta"]["upper"]


def test_python_lines_of_the_other_questions() -> None:
    """Compared bounds and attack risk are lines that run, too."""
    for operation, more in (("compare", {}), ("tradeoff", {"fpr": [0.1]})):
        given = {**KRR, "users": 1000, **more} | ({} if operation == "tradeoff" else {"delta": 1e-6})
        text = snippets.format_python(operation, given)
        assert text.startswith(snippets.IMPORT_LINE)
        compile(text, operation, "exec")
    assert (
        snippets.format_python("verify", {})
        == snippets.format_python("amplify", {"mechanism": "padded-exponential", "delta": 0.1})
        == ""
    )


SMALL = {"mechanism": "krr", "epsilon_local": "1", "settings": {"options": 4}, "users": 50, "delta": 1e-3}
SWEPT = [
    {**SMALL, "against": "local-epsilon", "colluding": 5},
    {**SMALL, "against": "users"},
    {"epsilon_local": 1, "users": 50, "delta": 1e-3, "against": "local-epsilon"},
    {"p": 4, "beta": 0.5, "q0": 4, "q1": 5, "users": 50, "delta": 1e-3, "against": "epsilon"},
]


@pytest.mark.parametrize("given", SWEPT, ids=["local", "users", "any", "parameters"])
def test_python_lines_of_a_curve(server: PageServer, given: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """They compute the file, digit for digit."""
    _, found = server.query("sweep", given)
    names: dict[str, Any] = {}
    exec(found["python"], names)
    assert capsys.readouterr().out
    rows = [line.split(",") for line in found["files"]["curve.csv"].split()[1:]]
    assert [row[1] for row in rows] == [
        "" if value is None else repr(value.upper) for _, value in names["found"].points
    ]
    assert [float(row[0]) for row in rows] == [place for place, _ in names["found"].points]


CROWD, PLAN = CASES[6][1], CASES[7][1]
CROWDS = [
    CROWD,
    {**CROWD, "opt_outs": "100", "colluding": 5},
    {name: value for name, value in CROWD.items() if name != "delta"} | {"epsilon": 0.1},
    {**CROWD, "rounds": 2, "opt_outs": "100"},
]
PLANS = [
    PLAN,
    {**PLAN, "local_epsilon_at_most": 1, "max_messages": 1, "rests_on": "local"},
    {"task": "location", "west": 0, "east": 1, "south": 0, "north": 1, "columns": 2, "degrees": True,
     "users": 1000, "epsilon": 1, "delta": 1e-6, "mechanism": "krr"},
]  # fmt: skip


@pytest.mark.exhaustive("rounds")
@pytest.mark.parametrize("given", CROWDS, ids=["plain", "opt-outs", "epsilon", "rounds"])
def test_python_lines_of_crowds(server: PageServer, given: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """They print what the command gives, with every option of the request."""
    _, found = server.query("crowd", given)
    exec(found["python"], {})
    answer = "epsilon" if "delta" in given else "delta"
    assert json.loads(capsys.readouterr().out) == [group[answer]["upper"] for group in found["answer"]["groups"]]


@pytest.mark.parametrize("given", PLANS, ids=["plain", "limits", "degrees"])
def test_python_lines_of_plans(server: PageServer, given: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """They plan the same, with every option of the request."""
    _, found = server.query("plan", given)
    names: dict[str, Any] = {}
    exec(found["python"], names)
    capsys.readouterr()
    assert names["ranking"].best.plan.document() == found["answer"]["plan"]


def test_python_lines_of_rounds_of_a_crowd() -> None:
    """They compose as many rounds as are asked for."""
    assert "sdp.compose(curve.group_curve(one), 2).epsilon(" in snippets.format_python("crowd", CROWDS[-1])


def test_python_lines_of_an_infinite_number() -> None:
    """JSON has no infinity, but 1e999 is read as one."""
    given = {"p": float("inf"), "beta": 1, "q": 16, "users": 100, "delta": 1e-6}
    assert 'sdp.VariationRatio(p=float("inf"), beta=1, q=16)' in snippets.format_python("amplify", given)


REFUSED = [
    ({**KRR, "users": 1e300, "delta": 1e-6}, "amplify: users must be at most 1e+18"),
    ({**KRR, "users": "many", "delta": 1e-6}, "expected a number such as 5000000, 5,000,000 or 5e6, got 'many'."),
    ({**KRR, "users": 10}, "amplify: give either --delta (to get ε) or --epsilon (to get δ)."),
    ({"mechanism": "krr", "epsilon_local": -1, "settings": {"options": 4}, "users": 10, "delta": 0.1}, "KRR: "),
    ({"mechanism": "nobody", "users": 10, "delta": 0.1}, "'nobody'"),
    ({"table": "0.5,0.6\n1,0\n", "users": 10, "delta": 0.1}, "table.csv"),
    ({"users": 10, "delta": 0.1, "mechanism_file": "x.py"}, "amplify: expected mechanism, "),
    ({"users": True}, "amplify: users must be a number."),
    ({"users": [10]}, "amplify: users must be a number."),
    ({"mechanism": "padded-exponential", "settings": {"distances": "/etc/passwd"}}, "distances must be a number."),
    ({"mechanism": "../krr"}, "without slashes"),
    ({"settings": [1]}, "amplify: settings must be an object"),
    ({"table": [[1]]}, "amplify: table must be the text of a CSV file."),
    ([], "amplify: expected a JSON object of options."),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED, ids=[sentence[:40] for _, sentence in REFUSED])
def test_what_is_wrong_is_a_sentence(server: PageServer, given: Any, sentence: str) -> None:
    """Mostly the library's own one; never a traceback."""
    status, found = server.query("amplify", given)
    assert status == 422
    assert sentence in found["error"]
    assert found["error"].endswith((".", "…"))


def test_the_commands_own_sentence(server: PageServer) -> None:
    """The same words as in a terminal."""
    given = {**KRR, "users": 10, "colluding": 10, "delta": 1e-6}
    typed = ("amplify", *KRR_TYPED, "--users", "10", "--colluding", "10", "--delta", "1e-6")
    assert f"shuffledp: {server.query('amplify', given)[1]['error']}\n" == run(*typed).err


def test_no_question_of_a_survey_names_a_file(server: PageServer) -> None:
    """A path among the options of a question would be read."""
    given = {"question": ["frequency:city:1:categories=/etc/passwd"], "users": 10, "epsilon": 1, "delta": 0.1}
    status, found = server.query("plan", given)
    assert (status, "without slashes" in found["error"]) == (422, True)


# --- the description --------------------------------------------------------------------------------------------------


def test_the_description_has_every_address(server: PageServer) -> None:
    """What is described is served, and the other way round."""
    status, found = server.get("api/openapi.json")
    assert (status, found) == (200, json.loads(json.dumps(OPENAPI_DOCUMENT)))
    assert {f"/api/{name}" for name in OPERATIONS} <= set(found["paths"])
    for path in found["paths"]:
        method = next(iter(found["paths"][path]))
        told, _ = server.get(path[1:]) if method == "get" else server.query(path[5:], b"{")
        assert told == (200 if method == "get" else 400)


def test_tasks_are_those_of_the_planner(server: PageServer) -> None:
    """With the options that tell each."""
    told = {each["name"]: each["takes"] for each in server.get("api/tasks")[1]["tasks"]}
    assert told["frequency"] == ["domain", "categories"]
    assert told["count"] == []


# --- who is answered --------------------------------------------------------------------------------------------------


def test_only_this_host_and_this_secret(server: PageServer) -> None:
    """DNS rebinding, other sites, and guessed addresses get nothing."""
    question = {**KRR, "users": 100, "delta": 0.01, "effort": "quick"}
    assert server.query("amplify", question)[0] == 200
    assert server.query("amplify", question, origin=f"http://{server.host}", sec_fetch_site="same-origin")[0] == 200
    assert server.query("amplify", question, host="evil.example")[0] == 403
    assert server.query("amplify", question, host=f"evil.example:{server.host.split(':')[1]}")[0] == 403
    assert server.query("amplify", question, origin="https://evil.example")[0] == 403
    assert server.query("amplify", question, origin="null")[0] == 403
    assert server.query("amplify", question, sec_fetch_site="cross-site")[0] == 403
    assert server.query("amplify", question, sec_fetch_site="same-site")[0] == 403
    assert server.get("", host=server.host.replace("127.0.0.1", "localhost"))[0] == 200
    for other in ("../", "../wrong/", f"../{server.url.split('/')[3][:-1]}/"):
        assert server.get(other)[0] == 404
    assert server.query("amplify", question, content_type="text/plain")[0] == 415


def test_the_page_may_be_entered_from_elsewhere(server: PageServer) -> None:
    """By a link in a tab of its own, for who has the secret; nothing else of it, and in no frame."""
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert server.get("", **link)[0] == 200
    told = {name.replace("_", "-"): text for name, text in link.items()}
    with pytest.raises(HTTPError, match="404"):
        NO_PROXY_OPENER.open(Request(f"http://{server.host}/wrong/", headers=told), timeout=TIMEOUT_SECONDS)
    assert server.get("", **link | {"sec_fetch_dest": "iframe"})[0] == 403
    assert server.get("", **link | {"sec_fetch_mode": "no-cors"})[0] == 403
    assert server.get("api/tasks", **link)[0] == 403
    assert server.query("amplify", {**KRR, "users": 100, "delta": 0.01, "effort": "quick"}, **link)[0] == 403


@pytest.mark.exhaustive
def test_the_secret_is_no_argument_of_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody on the machine reads those (ps): the browser is told a file that only its owner can read."""
    browser, told = tmp_path / "browser", tmp_path / "told.json"
    browser.write_text(
        f"#!{sys.executable}\n"
        "import json, os, pathlib, stat, sys\n"
        "path = pathlib.Path(sys.argv[-1].removeprefix('file://'))\n"
        "modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]\n"
        f"unfinished = pathlib.Path({str(told)!r} + '.unfinished')\n"
        "unfinished.write_text(json.dumps([sys.argv, modes, str(path), path.read_text()]))\n"
        f"unfinished.rename({str(told)!r})\n"
    )
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s &")
    opened = PageServer(opens=True)
    try:
        for _ in range(600):
            if told.exists():
                break
            time.sleep(0.05)
        arguments, modes, path, content = json.loads(told.read_text())
        secret = opened.url.split("/")[3]
        assert secret not in " ".join(arguments)
        assert modes == [0o600, 0o700]
        assert f"0; url={opened.url}" in content
        assert opened.get("")[0] == 200
        assert not Path(path).parent.exists()
    finally:
        opened.stop()


def test_headers_allow_nothing_from_elsewhere(server: PageServer) -> None:
    """No inline scripts or styles, no frames, no referrer."""
    with NO_PROXY_OPENER.open(server.url, timeout=60) as answer:
        told = {name.lower(): text for name, text in answer.headers.items()}
        page = answer.read().decode()
    policy = told["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert (told["referrer-policy"], told["x-content-type-options"]) == ("no-referrer", "nosniff")
    assert not {"set-cookie", "access-control-allow-origin"} & told.keys()
    assert re.findall(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", page) == []


def test_nothing_beside_the_page_is_served(server: PageServer) -> None:
    """No path leads out of its folder."""
    for path in ("page/..%2fexplorer.py", "page/%2e%2e/explorer.py", "page/nothing.js", "page/", "explorer.py"):
        assert server.get(path)[0] == 404, path


def test_the_page_is_small_and_our_own() -> None:
    """All of it, unminified; and nothing of it names another host."""
    files = sorted(PAGE_DIRECTORY.iterdir())
    assert sum(path.stat().st_size for path in files) <= MAX_PAGE_BYTES
    for path in files:
        urls = set(re.findall(r"https?://[^\s\"'`)]+", path.read_text("utf-8")))
        assert urls <= {"http://www.w3.org/2000/svg"}, path.name


# --- the command ------------------------------------------------------------------------------------------------------


def test_bad_options_are_sentences(tmp_path: Path) -> None:
    """Before anything listens."""
    assert run("web", "--port", "70000").err == "shuffledp: web: --port must be between 0 and 65535, got 70000.\n"
    outcome = run("web", "--watch", str(tmp_path / "nothing"))
    assert (outcome.status, "--watch must be a directory" in outcome.err) == (2, True)
    assert "cannot listen at 203.0.113.1:0" in run("web", "--host", "203.0.113.1").err


def test_without_its_packages(tmp_path: Path) -> None:
    """One sentence that says what to install."""
    program = "import sys; sys.modules['uvicorn'] = None; from shuffledp.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "web", "--no-open"],
        capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False,
        env={"PYTHONPATH": str(Path(shuffledp.__file__).parents[1]), "PATH": ""},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "starlette and uvicorn" in done.stderr
