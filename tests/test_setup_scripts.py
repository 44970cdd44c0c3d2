"""The set-up behind ./run and ./test, on a copy of the scripts with a stand-in for pip: no network needed."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

REPOSITORY = Path(__file__).parents[1]
# How long a child may take before a test calls it hung; no test passes or fails by being slower than another.
PATIENCE = 120
VERSION = "src/shuffledp/_core/__init__.py"
VERIFIER = ("packages/shuffledp-verify/pyproject.toml", "packages/shuffledp-verify/src/shuffledp_verify/__init__.py")
NOTHING: Mapping[str, str] = MappingProxyType({})

# The stand-in notes each call, waits while a file "hold" exists, and installs by writing tiny modules.
FAKE_PIP = """\
import os, pathlib, subprocess, sys, time
here = pathlib.Path(__file__).parent
_, environment, *arguments = sys.argv[1:]
with open(here / "calls", "a") as calls:
    calls.write(" ".join(arguments) + "\\n")
while (here / "hold").exists():
    time.sleep(0.02)
if (here / "broken").exists():
    sys.exit("no such package on this planet")
where = subprocess.run(
    [environment, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True
)
site = pathlib.Path(where.stdout.strip())
if "-e" in arguments:
    (site / "shuffledp.pth").write_text(str(pathlib.Path("src").resolve()))
if "requirements-test.txt" in arguments:
    for tool in ("ruff", "mypy", "pytest"):
        (site / f"{tool}.py").write_text(
            "import os, sys\\n"
            "name = os.path.basename(sys.argv[0])[:-3]\\n"
            "print('TOOL', name, *sys.argv[1:])\\n"
            "sys.exit(name in os.environ.get('FAILING', '').split())\\n"
        )
    linter = pathlib.Path(environment).parent / "lint-imports"
    fails = 'case " $FAILING " in *" lint-imports "*) exit 1;; esac'
    linter.write_text(f'#!/bin/sh\\necho TOOL lint-imports "$@"; {fails}\\n')
    linter.chmod(0o755)
"""

PROGRAM = """\
import os, sys
print(os.getcwd(), *sys.argv[1:], sep="|")
sys.exit(int(os.environ.get("EXIT_CODE", "0")))
"""


class Checkout:
    """A copy of what the scripts need, with a stand-in package and a stand-in pip."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.tools = folder / "tools"
        (self.root / VERSION).parent.mkdir(parents=True)
        self.tools.mkdir()
        (self.root / VERIFIER[1]).parent.mkdir(parents=True)
        for name in ("run", "test", "pyproject.toml", "requirements.txt", "requirements-test.txt", VERSION, *VERIFIER):
            shutil.copy(REPOSITORY / name, self.root / name)
        shutil.copytree(REPOSITORY / "scripts", self.root / "scripts")
        (self.root / "src/shuffledp/__init__.py").touch()
        (self.root / "src/shuffledp/__main__.py").write_text(PROGRAM)
        (self.tools / "fake_pip.py").write_text(FAKE_PIP)
        pip = self.tools / "pip"
        pip.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "${{0%pip}}fake_pip.py" "$@"\n')
        pip.chmod(0o755)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))
        }
        self.environment |= {"SHUFFLEDP_PYTHON": sys.executable, "SHUFFLEDP_PIP": str(pip)}
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, script: str, *arguments: str, cwd: Path | None = None, variables: Mapping[str, str] = NOTHING
    ) -> subprocess.Popen[str]:
        with (self.tools / f"stderr{len(self.started)}").open("w") as stderr:
            process = subprocess.Popen(
                [str(self.root / script), *arguments],
                cwd=cwd or self.root,
                env={**self.environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        stdout, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, stdout, self.stderr(process)

    def stderr(self, process: subprocess.Popen[str]) -> str:
        return (self.tools / f"stderr{self.started.index(process)}").read_text()

    def run(self, *arguments: str, cwd: Path | None = None, **variables: str) -> tuple[int, str, str]:
        return self.finish(self.start("run", *arguments, cwd=cwd, variables=variables))

    def test(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        return self.finish(self.start("test", *arguments, variables=variables))

    def calls(self) -> list[str]:
        """What pip was asked for since the last look."""
        notes = self.tools / "calls"
        lines = notes.read_text().splitlines() if notes.exists() else []
        notes.unlink(missing_ok=True)
        return lines

    def switch(self, name: str, on: bool) -> None:
        """Turn "hold" or "broken" of the stand-in on or off."""
        if on:
            (self.tools / name).touch()
        else:
            (self.tools / name).unlink()

    def stop_all(self) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=PATIENCE)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail("waited in vain")
        time.sleep(0.02)


RUNTIME = [
    "install --require-hashes -r requirements.txt",
    "install --no-deps --no-build-isolation -e packages/shuffledp-verify -e .",
]
TEST = ["install --require-hashes -r requirements-test.txt"]


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path)
    yield made
    made.stop_all()


def test_first_run_sets_up_and_the_second_does_not(checkout: Checkout) -> None:
    code, stdout, stderr = checkout.run("one", "two words", "")
    assert (code, stdout) == (0, f"{checkout.root}|one|two words|\n")
    assert "Setting up (first run only)" in stderr
    assert checkout.calls() == RUNTIME

    assert checkout.run("again") == (0, f"{checkout.root}|again\n", "")
    assert checkout.calls() == []


def test_run_keeps_the_callers_folder_and_the_exit_code(checkout: Checkout, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    (elsewhere / "shuffledp.py").write_text("raise SystemExit('shadowed')")
    code, stdout, _ = checkout.run("data.csv", cwd=elsewhere, EXIT_CODE="7")
    assert (code, stdout) == (7, f"{elsewhere}|data.csv\n")


def test_run_works_through_a_link(checkout: Checkout, tmp_path: Path) -> None:
    link = tmp_path / "shuffledp"
    link.symlink_to(checkout.root / "run")
    done = subprocess.run(
        [link, "x"], cwd=tmp_path, env=checkout.environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}|x\n")


def test_run_works_without_home(checkout: Checkout) -> None:
    checkout.environment.pop("HOME", None)
    assert checkout.run()[0] == 0


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml", VERSION, *VERIFIER])
def test_a_changed_pin_file_installs_again(checkout: Checkout, name: str) -> None:
    checkout.run()
    checkout.calls()
    file = checkout.root / name
    before = file.read_text()

    for text in (before + "# changed\n", before):
        file.write_text(text)
        code, _, stderr = checkout.run()
        assert code == 0
        assert "Updating" in stderr
        assert checkout.calls() == RUNTIME


def test_a_stamp_does_not_come_true_again_when_a_file_is_changed_back(checkout: Checkout) -> None:
    checkout.test()
    file = checkout.root / "requirements.txt"
    before = file.read_text()
    file.write_text(before + "# changed\n")
    checkout.run()
    file.write_text(before)
    checkout.calls()
    checkout.test()
    assert checkout.calls() == TEST + RUNTIME[1:]


def test_a_changed_test_pin_leaves_run_alone(checkout: Checkout) -> None:
    checkout.test()
    checkout.calls()
    with (checkout.root / "requirements-test.txt").open("a") as file:
        file.write("# changed\n")
    checkout.run()
    assert checkout.calls() == []
    checkout.test()
    assert checkout.calls() == TEST


def test_a_moved_checkout_is_set_up_anew(checkout: Checkout) -> None:
    checkout.run()
    checkout.calls()
    checkout.root = checkout.root.rename(checkout.root.with_name("moved"))
    code, stdout, stderr = checkout.run()
    assert (code, stdout) == (0, f"{checkout.root}\n")
    assert "Setting up" in stderr
    assert checkout.calls() == RUNTIME


def test_an_environment_whose_python_is_gone_is_rebuilt(checkout: Checkout) -> None:
    checkout.run()
    checkout.calls()
    python = checkout.root / ".venv/bin/python"
    python.unlink()
    python.symlink_to("/nonexistent/python3")
    assert checkout.run()[0] == 0
    assert checkout.calls() == RUNTIME


def test_two_first_runs_at_once_set_up_once(checkout: Checkout) -> None:
    checkout.switch("hold", True)
    first = checkout.start("run", "first")
    wait_until((checkout.tools / "calls").exists)
    second = checkout.start("run", "second")
    wait_until(lambda: "Waiting for another set-up" in checkout.stderr(second))
    checkout.switch("hold", False)

    assert checkout.finish(first)[:2] == (0, f"{checkout.root}|first\n")
    assert checkout.finish(second)[:2] == (0, f"{checkout.root}|second\n")
    assert checkout.calls() == RUNTIME


def test_run_works_while_the_test_tools_are_being_added(checkout: Checkout) -> None:
    checkout.run()
    checkout.calls()
    checkout.switch("hold", True)
    adding = checkout.start("test", "x")
    wait_until((checkout.tools / "calls").exists)
    assert checkout.run("meanwhile") == (0, f"{checkout.root}|meanwhile\n", "")
    checkout.switch("hold", False)
    assert checkout.finish(adding)[0] == 0


def test_after_a_kill_the_half_made_environment_is_rebuilt(checkout: Checkout) -> None:
    checkout.switch("hold", True)
    victim = checkout.start("run")
    wait_until((checkout.tools / "calls").exists)
    half_made = checkout.root / ".venv/half-made"
    half_made.touch()
    os.killpg(victim.pid, signal.SIGKILL)
    checkout.finish(victim)
    checkout.switch("hold", False)
    checkout.calls()

    code, stdout, _ = checkout.run("after")
    assert (code, stdout) == (0, f"{checkout.root}|after\n")
    assert checkout.calls() == RUNTIME
    assert not half_made.exists()


def test_an_installer_that_outlives_its_script_keeps_others_out(checkout: Checkout) -> None:
    checkout.switch("hold", True)
    victim = checkout.start("run")
    wait_until((checkout.tools / "calls").exists)
    victim.kill()
    victim.wait(timeout=PATIENCE)
    second = checkout.start("run", "second")
    wait_until(lambda: "Waiting for another set-up" in checkout.stderr(second))
    checkout.switch("hold", False)
    assert checkout.finish(second)[:2] == (0, f"{checkout.root}|second\n")


def test_a_failed_installation_shows_why_and_is_tried_again(checkout: Checkout) -> None:
    checkout.switch("broken", True)
    code, stdout, stderr = checkout.run()
    assert (code, stdout) == (1, "")
    assert "no such package on this planet" in stderr
    assert "set-up failed" in stderr.splitlines()[-1]

    checkout.switch("broken", False)
    checkout.calls()
    assert checkout.run()[0] == 0
    assert checkout.calls() == RUNTIME


def test_an_unsuitable_python_is_one_sentence(checkout: Checkout) -> None:
    code, stdout, stderr = checkout.run(SHUFFLEDP_PYTHON="false")
    assert (code, stdout) == (1, "")
    assert stderr == "shuffledp: needs SHUFFLEDP_PYTHON to be Python 3.11 or newer with pip.\n"


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [([], "--fast"), (["--all"], "--install-programs"), (["--all", "-x"], "--install-programs -x")],
)
def test_all_checks_come_before_the_tests(checkout: Checkout, arguments: list[str], chosen: str) -> None:
    """Without arguments and with --all."""
    code, stdout, _ = checkout.test(*arguments)
    assert code == 0
    assert [line for line in stdout.splitlines() if line.startswith("TOOL")] == [
        "TOOL ruff check .",
        "TOOL ruff format --check .",
        "TOOL mypy",
        "TOOL lint-imports",
        f"TOOL pytest -n 2 --dist worksteal {chosen}",
    ]
    assert stdout.splitlines()[-1] == f"TOOL pytest -n 2 --dist worksteal {chosen}"
    assert checkout.calls() == TEST + RUNTIME[1:]
    assert checkout.run()[0] == 0
    assert checkout.calls() == []


@pytest.mark.parametrize("failing", ["ruff", "mypy", "lint-imports", "pytest", "ruff pytest"])
def test_test_fails_when_any_check_fails_but_still_ends_with_pytest(checkout: Checkout, failing: str) -> None:
    code, stdout, _ = checkout.test(FAILING=failing)
    assert code != 0
    assert stdout.splitlines()[-1] == "TOOL pytest -n 2 --dist worksteal --fast"


def test_test_with_arguments_is_pytest_alone(checkout: Checkout) -> None:
    assert checkout.test("-k", "two words")[:2] == (0, "TOOL pytest --install-programs -k two words\n")
    assert checkout.test("-x", FAILING="pytest")[0] == 1


def pins(name: str) -> dict[str, list[str]]:
    """Each pinned "name==version" with its hashes; anything else in the file is an error."""
    text = re.sub(r"^ *#.*\n", "", (REPOSITORY / name).read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    entries = [line.split() for line in text.splitlines() if line.strip()]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", entry[0]) for entry in entries)
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word) for entry in entries for word in entry[1:])
    assert all(len(entry) > 1 for entry in entries)
    return {entry[0]: entry[1:] for entry in entries}


def test_both_requirement_files_pin_the_same_releases() -> None:
    assert pins("requirements.txt").items() <= pins("requirements-test.txt").items()
