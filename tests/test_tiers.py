"""The plugin of the tiers, and the table that tells which programs they need."""

import re
import tomllib
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).parents[1]
MARKS = "".join(f"    {name}: of this tier\n" for name in tiers.TIERS)
BURN = """
import time
def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with these tiers, and with a limit that costs nothing to exceed."""
    pytester.makeini(f"[pytest]\nmarkers =\n{MARKS}")
    pytester.makeconftest('pytest_plugins = ["tests.tiers"]')
    monkeypatch.setattr(tiers, "MAX_SECONDS", 0.08)
    monkeypatch.setattr(tiers, "MAX_SECONDS_WITH_CACHED", 0.3)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def test_marks_are_the_tiers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert [line.split(":")[0] for line in settings["markers"]] == list(tiers.TIERS)


CASES = """
import pytest

@pytest.mark.exhaustive("gaussian-vector", "[vector", "8")
@pytest.mark.parametrize("size", [8, 80])
@pytest.mark.parametrize("name", ["gaussian", "gaussian-vector", "vector", "split-vector"])
def test_cases(name, size):
    pass

@pytest.mark.docs
def test_page():
    pass

def test_plain():
    pass
"""


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        (["--fast"], {"cases[gaussian-80]", "cases[split-vector-80]", "plain"}),
        (
            ["-m", "exhaustive"],
            {
                *("cases[gaussian-8]", "cases[gaussian-vector-8]", "cases[gaussian-vector-80]"),
                *("cases[vector-8]", "cases[vector-80]", "cases[split-vector-8]"),
            },
        ),
        (["-m", "docs"], {"page"}),
        (["--fast", "-k", "plain or page"], {"plain"}),
        (["test_cases.py::test_cases[vector-80]"], {"cases[vector-80]"}),
    ],
)
def test_a_mark_names_cases(suite: pytest.Pytester, arguments: list[str], chosen: set[str]) -> None:
    suite.makepyfile(test_cases=CASES)
    found = suite.runpytest_inprocess("--collect-only", "-q", *arguments)
    assert set(re.findall(r"::test_(\S+)", "\n".join(found.outlines))) == chosen


def test_a_name_without_a_case_is_an_error(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_cases=CASES.replace('"8"', '"9"'))
    assert suite.runpytest_inprocess("test_cases.py::test_cases[vector-80]").ret == 0
    found = suite.runpytest_inprocess()
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    assert "test_cases.py::test_cases: no case is named '9', as its mark exhaustive says." in found.stderr.str()


def test_names_of_cases_are_for_functions(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_cases="import pytest\npytestmark = pytest.mark.docs('8')\n" + CASES)
    assert "docs with names of cases is for functions only" in suite.runpytest_inprocess().stderr.str()


@pytest.mark.exhaustive("distributed")
@pytest.mark.parametrize("processes", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "distributed"])
def test_an_unmarked_test_has_a_limit(suite: pytest.Pytester, processes: tuple[str, ...]) -> None:
    """What is shared is nobody's, whoever asks for it; a test's own fixtures and children are its own."""
    suite.makepyfile(
        BURN
        + """
import pytest, subprocess, sys
from tests.shared_results import compute_once

@pytest.fixture(scope="module")
def shared():
    burn(0.1)
    yield
    burn(0.1)

@pytest.fixture
def own():
    burn(0.05)
    yield
    burn(0.05)

@pytest.mark.exhaustive
def test_marked(own):
    burn(0.1)

def test_quick(shared):
    pass

def test_asks(request):
    request.getfixturevalue("shared")

def test_once(tmp_path):
    compute_once(tmp_path / "result", lambda: burn(0.1))

def test_dear(tmp_path):
    compute_once(tmp_path / "result", lambda: burn(0.35))

def test_own(own):
    pass

def test_child():
    subprocess.run([sys.executable, "-S", "-c", "while __import__('time').process_time() < 0.12: pass"], check=True)
"""
    )
    if processes:
        # Another process has the limit of the module.
        suite.makeconftest(
            "import tests.tiers\ntests.tiers.MAX_SECONDS, tests.tiers.MAX_SECONDS_WITH_CACHED = 0.08, 0.3\n"
            'pytest_plugins = ["tests.tiers"]'
        )
    found = suite.runpytest_inprocess("--processor-time", "times.csv", *processes)
    found.assert_outcomes(passed=7, errors=3)
    assert re.findall(r"ERROR at teardown of test_(\w+)", found.stdout.str()) == ["dear", "own", "child"]
    assert (
        "; a test without a mark may take 0.08 s, or 0.3 s with such results: make it cheaper, or mark it exhaustive."
        in found.stdout.str()
    )
    header, *rows = (line.split(",") for line in (suite.path / "times.csv").read_text().splitlines())
    assert header == ["test", "seconds", "tiers"]
    times = {name.partition("::test_")[2]: (float(seconds), marks) for name, seconds, marks in rows}
    assert {name for name, (seconds, _) in times.items() if seconds > 0.08} == {
        "marked",
        "once",
        "dear",
        "own",
        "child",
    }
    assert [name for name, (_, marks) in times.items() if marks == "exhaustive"] == ["marked"]


def test_a_program_needs_its_mark(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
import pytest, subprocess

def start():
    with pytest.raises(FileNotFoundError):
        subprocess.run(["/nowhere/initdb", "-D", "data"])

@pytest.mark.database
def test_marked():
    start()

@pytest.mark.browser
def test_otherwise():
    start()
"""
    )
    found = suite.runpytest_subprocess()
    found.assert_outcomes(passed=1, failed=1)
    assert "::test_otherwise starts initdb: mark it database." in found.stdout.str()


def test_programs_of_the_chosen_tests_are_installed(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.makepyfile(
        """
import pytest

@pytest.mark.parametrize("store", ["file", pytest.param("database", marks=pytest.mark.database)])
def test_store(store):
    pass

@pytest.mark.browser
def test_page():
    pass
"""
    )
    installed: list[str] = []
    monkeypatch.setattr(tiers.Program, "install", lambda self: installed.append(self.name))
    for arguments, names in {
        ("--fast", "--install-programs"): [],
        ("-k", "store"): [],
        ("-k", "store", "--install-programs", "--collect-only"): [],
        ("-k", "store", "--install-programs"): ["initdb"],
        ("-m", "browser", "--install-programs"): [made.name for made in tiers.TIERS["browser"]],
    }.items():
        installed.clear()
        suite.runpytest_inprocess(*arguments)
        assert installed == names, arguments
