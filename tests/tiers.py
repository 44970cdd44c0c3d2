"""A pytest plugin for tests in tiers: unmarked tests are cheap and start no program but Python.

A mark of ``TIERS`` puts a test into a tier. Without arguments it holds for every case of the test. With names, as in
``@pytest.mark.exhaustive("privunit", "gaussian-vector")``, it holds for the cases whose id contains one of the names as
consecutive hyphen-separated parts: ``test_law[gaussian-vector-2]`` is meant, ``test_law[gaussian-2]`` is not. A bracket
in a name is that of the id: ``"[gaussian]"`` is the whole id, ``"[gaussian"`` its beginning.

A test without such a mark fails if it takes more than ``MAX_SECONDS`` seconds of processor time or starts a program of
``TIERS``. The time is the user and system time of this process and of the children it waited for, in the test with the
set-up and tear-down of its own fixtures. Fixtures of a class, a module or the session do not count, whoever is first to
need them; with the results that ``tests.shared_results.compute_once`` and ``tests.cached_curves`` keep, it may take
``MAX_SECONDS_WITH_CACHED``."""

from __future__ import annotations

import csv
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import shared_results

ROOT = Path(__file__).parents[1]
MAX_SECONDS = 2.0
"""Seconds of processor time of an unmarked test. What takes more than one is marked; the rest is for noisy machines."""
MAX_SECONDS_WITH_CACHED = 6.0
"""The same, together with results that are kept for other tests: who needs them first depends on which tests run."""


@dataclass(frozen=True)
class Program:
    """A program that tests start.

    Attributes:
        name: The file to look for.
        purpose: The tests that fail without it, in words.
        packages: Debian's packages that have it, the preferred one first.
        unpacked: Whether only its files are taken from the package, as installing it would start a server.
        aliases: Other files by which it is started.
    """

    name: str
    purpose: str
    packages: tuple[str, ...]
    unpacked: bool = False
    aliases: tuple[str, ...] = ()

    def install(self) -> None:
        """Install the program unless it is there; ``scripts/program.sh`` says so where that is impossible."""
        if self.name == "java" and os.environ.get("JAVA_HOME"):
            return
        unpack = ("--unpack", str(ROOT / ".venv" / "programs")) if self.unpacked else ()
        script = ROOT / "scripts" / "program.sh"
        subprocess.run([str(script), *unpack, self.name, self.purpose, *self.packages], check=False)


TIERS: dict[str, tuple[Program, ...]] = {
    "spark": (
        Program(
            "java",
            "the tests of the Spark engine",
            ("openjdk-17-jre-headless", "default-jre-headless"),
            aliases=("spark-submit",),
        ),
    ),
    "browser": (
        Program("chromium", "the tests in a browser", ("chromium",)),
        Program("firefox-esr", "the test in Firefox", ("firefox-esr",), aliases=("firefox",)),
        Program("node", "the tests of the browser's module", ("nodejs",)),
        Program("npm", "the test of accessibility", ("npm",)),
    ),
    "database": (Program("initdb", "the tests of stores on PostgreSQL", ("postgresql",), aliases=("postgres",)),),
    "proxy": (
        Program("nginx", "the tests of proxies", ("nginx", "nginx-core", "nginx-light"), unpacked=True),
        Program("caddy", "the tests of proxies", ("caddy",), unpacked=True),
    ),
    "docs": (),
    "crash": (Program("strace", "the tests of power loss", ("strace",)),),
    "exhaustive": (),
}
"""Each tier and the programs it needs; pyproject.toml says what the marks mean."""

MARK_OF_PROGRAM = {
    file: tier for tier, needed in TIERS.items() for made in needed for file in (made.name, *made.aliases)
}
"""The mark of tests that start a program, by the name of its file."""


def tiers_of(item: pytest.Item) -> set[str]:
    """Return the tiers a test is in."""
    return {mark.name for mark in item.iter_markers() if mark.name in TIERS}


def _matches_case(name: str, case: str) -> bool:
    """Tell whether an id contains a name as whole parts, of which the brackets around the id are two."""

    def parts(text: str) -> str:
        return f"-{text.replace('[', '[-').replace(']', '-]')}-"

    return parts(name) in parts(f"[{case}]")


def _resolve_names(items: Iterable[pytest.Item]) -> list[str]:
    """Take marks with names off the cases they do not name, and return a sentence for each name without a case."""
    named: dict[tuple[str, str, str], bool] = {}
    for item in items:
        test, _, case = item.nodeid.partition("[")
        for mark in [mark for mark in item.iter_markers() if mark.name in TIERS and mark.args]:
            if mark not in item.own_markers:
                raise pytest.UsageError(f"{test}: {mark.name} with names of cases is for functions only.")
            matching = [name for name in mark.args if _matches_case(name, case.removesuffix("]"))]
            if not matching:
                item.own_markers.remove(mark)
            for name in mark.args:
                key = (test, mark.name, name)
                named[key] = named.get(key, False) or name in matching
    return [
        f"{test}: no case is named {name!r}, as its mark {mark} says."
        for (test, mark, name), is_case in named.items()
        if not is_case
    ]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    """Measure fixtures that several tests share."""
    if fixturedef.scope == "function":
        return (yield)
    with shared_results.WORK.measure(fixture=True):
        return (yield)


@pytest.fixture(autouse=True)
def processor_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Measure a test with its own fixtures: set up before them and torn down after them."""
    begun, kept = shared_results.processor_seconds() - shared_results.WORK.fixtures, shared_results.WORK.cached_seconds
    yield
    taken, kept = (
        shared_results.processor_seconds() - shared_results.WORK.fixtures - begun,
        shared_results.WORK.cached_seconds - kept,
    )
    tiers = tiers_of(request.node)
    request.node.user_properties += [("processor_time", taken), ("tiers", " ".join(sorted(tiers)))]
    if not tiers and (taken - kept > MAX_SECONDS or taken > MAX_SECONDS_WITH_CACHED):
        spent = f"took {taken:.1f} s of processor time, {kept:.1f} s of it for what later tests find ready"
        allowed = (
            f"a test without a mark may take {MAX_SECONDS:g} s, or {MAX_SECONDS_WITH_CACHED:g} s with such results"
        )
        pytest.fail(f"{spent}; {allowed}: make it cheaper, or mark it exhaustive.", pytrace=False)


class ProcessorTimes:
    """A CSV file with the processor time of each test, written while they end."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._write("w", "test", "seconds", "tiers")

    def _write(self, mode: str, *row: object) -> None:
        with self._file.open(mode, newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(row)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a row."""
        measured = dict(report.user_properties)
        if report.when == "teardown" and "processor_time" in measured:
            self._write("a", report.nodeid, f"{measured['processor_time']:.3f}", measured["tiers"])


class ProgramWatch:
    """An error for each program that a test starts without its mark; children of other children are not seen."""

    def __init__(self) -> None:
        self._test: pytest.Item | None = None
        # Python keeps what it is given here to its end.
        sys.addaudithook(self._check_program)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Know which test runs."""
        self._test = item
        try:
            return (yield)
        finally:
            self._test = None

    def _check_program(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "subprocess.Popen" or self._test is None:
            return
        file = Path(os.fsdecode(arguments[0] or arguments[1][0])).name
        if file in MARK_OF_PROGRAM and MARK_OF_PROGRAM[file] not in tiers_of(self._test):
            raise AssertionError(f"{self._test.nodeid} starts {file}: mark it {MARK_OF_PROGRAM[file]}.")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the tiers."""
    group = parser.getgroup("tiers", "tests in tiers")
    group.addoption("--fast", action="store_true", help="leave out the tests of all tiers")
    group.addoption("--install-programs", action="store_true", help="install the programs that the chosen tests need")
    group.addoption(
        "--processor-time", metavar="FILE", help="write the processor time of each test to a CSV file; with ="
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch the tests; a process that only distributes them writes down what the others measured."""
    config.pluginmanager.register(ProgramWatch())
    file = config.getoption("processor_time")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ProcessorTimes(Path(file)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Decide which cases a mark with names holds for, before ``-m`` asks for it, and obey ``--fast``."""
    wrong = _resolve_names(items)
    # Who asks for single cases, or for those that failed, does not collect the others.
    if wrong and not any("::" in argument for argument in config.args) and not config.getoption("lf", default=False):
        raise pytest.UsageError("\n".join(wrong))
    if config.getoption("fast"):
        config.hook.pytest_deselected(items=[item for item in items if tiers_of(item)])
        items[:] = [item for item in items if not tiers_of(item)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install the programs of the chosen tests, in one process at a time."""
    config = session.config
    needed = [
        program for tier in TIERS if any(tier in tiers_of(item) for item in session.items) for program in TIERS[tier]
    ]
    if not needed or config.option.collectonly or not config.getoption("install_programs"):
        return
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled(), (ROOT / ".venv" / "programs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for program in needed:
            program.install()
