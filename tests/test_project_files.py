"""The files around the package: they are there, can be read, and say the same as the code."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

import shuffledp
from tests.cli import run

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "shuffledp"
with (ROOT / "pyproject.toml").open("rb") as file:
    SETTINGS = tomllib.load(file)
PROJECT = SETTINGS["project"]
LAYERS = [
    layer
    for group in SETTINGS["tool"]["importlinter"]["contracts"][0]["layers"][::-1]
    for layer in re.split(r" [:|] ", group)
]
"""From the lowest to the highest; modules that only export names are not among them."""

FILES = (
    *("CHANGELOG.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"),
    *(".editorconfig", ".pre-commit-config.yaml", ".github/PULL_REQUEST_TEMPLATE.md", ".github/workflows/test.yml"),
    *(f".github/ISSUE_TEMPLATE/{name}.md" for name in ("bug", "feature", "unsound_bound")),
)
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
YAML = sorted([*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"])
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)\)")
PATH = re.compile(r"(?<![\w/.])((?:src|tests|docs|scripts)/[\w./-]*\w)")
TESTED_PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def words(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_there(name: str) -> None:
    """And is not empty."""
    assert words(name).strip()


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_can_be_read(path: Path) -> None:
    """Each one is a mapping."""
    assert isinstance(loaded(path), dict)


# --- one version ------------------------------------------------------------------------------------------------------


def test_one_version() -> None:
    """What is installed, what the package and its command say, and what is cited."""
    stated = shuffledp.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", stated)
    assert version("shuffledp") == stated
    assert run("--version").out == f"shuffledp {stated}\n"
    assert str(loaded(ROOT / "CITATION.cff")["version"]) == stated


def test_the_version_is_stated_once() -> None:
    """pyproject.toml points to the one place in the package."""
    assert "version" not in PROJECT
    assert SETTINGS["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "shuffledp._core.__version__"}
    stating = [path for path in PACKAGE.rglob("*.py") if re.search(r"^__version__ *=", path.read_text("utf-8"), re.M)]
    assert stating == [PACKAGE / "_core" / "__init__.py"]


# --- the one list of layers -------------------------------------------------------------------------------------------


def rooms() -> list[str]:
    """The layers that have a folder, in order."""
    return [layer for layer in LAYERS if (PACKAGE / layer).is_dir()]


def table() -> list[str]:
    """The rooms of the table in docs/architecture.md."""
    part = words("docs/architecture.md").partition("## The layers\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| \S", part, re.MULTILINE)


def test_every_layer_is_named_in_order() -> None:
    """All that exist, none that the one list does not have, each once."""
    found = table()
    assert [layer for layer in rooms() if layer not in found] == []
    assert found == [layer for layer in LAYERS if layer in found]


# --- what the pages say -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_what_is_named_exists(name: str) -> None:
    """Links, and paths of files and folders in the text."""
    text = words(name)
    for target in {*LINK.findall(text), *PATH.findall(text)}:
        assert "://" not in target
        assert (ROOT / target).exists(), f"{name} names {target}"


@pytest.mark.parametrize("thing", ["mechanism", "bound", "task", "engine"])
def test_how_to_add(thing: str) -> None:
    """In steps, with the test that says what is missing."""
    part = re.search(rf"^\*\*An? {thing}\.\*\*\n(.*?)(?=^\*\*|^## )", words("CONTRIBUTING.md"), re.M | re.S)
    assert part is not None
    assert len(re.findall(r"^\d\. ", part[1], re.MULTILINE)) >= 2
    assert "./test tests/" in part[1]


def test_security_names_what_counts() -> None:
    """The promises that can be broken, and what happens then."""
    text = words("SECURITY.md")
    for part in (
        "too small",
        "does not cover",
        "leaks",
        "executed law",
        "errata",
        "CHANGELOG",
        "advisory",
        "Out of scope",
    ):
        assert part in text


def test_the_citation() -> None:
    """What version 1.2 of the format demands, and nothing that disagrees with pyproject.toml."""
    cited = loaded(ROOT / "CITATION.cff")
    assert cited["cff-version"] == "1.2.0"
    assert cited["type"] == "software"
    assert isinstance(cited["message"], str)
    assert cited["title"].startswith(PROJECT["name"])
    assert cited["license"] == PROJECT["license"]
    assert cited["repository-code"] == PROJECT["urls"]["Source"]
    assert all({"name"} <= author.keys() or {"family-names"} <= author.keys() for author in cited["authors"])
    assert cited["keywords"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_issue_templates(path: Path) -> None:
    """A head with a name and a purpose, and something to fill in."""
    _, head, body = path.read_text("utf-8").split("---\n", 2)
    assert {"name", "about"} <= yaml.safe_load(head).keys()
    assert "**" in body
    assert "SECURITY.md" in body or path.stem == "feature"


# --- the machines -----------------------------------------------------------------------------------------------------


def test_the_workflow() -> None:
    """``./test --all`` on every Python that the package names; it reads the code and has no secrets."""
    text = words(".github/workflows/test.yml")
    flow = yaml.safe_load(text)
    assert flow["permissions"] == {"contents": "read"}
    assert "secrets" not in text
    (job,) = flow["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == TESTED_PYTHONS
    used = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
    assert used == ["actions/checkout", "actions/setup-python"]
    (ran,) = (step for step in job["steps"] if "run" in step)
    assert ran["run"] == "./test --all"
    assert "SHUFFLEDP_PYTHON" in ran["env"]


def test_the_pythons_are_those_of_the_classifiers() -> None:
    """What is promised is tested, from the oldest on."""
    promised = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert promised == TESTED_PYTHONS
    assert PROJECT["requires-python"] == f">={TESTED_PYTHONS[0]}"


def test_the_hooks_come_from_the_environment() -> None:
    """No program is fetched from elsewhere; each hook is one of the checks of ./test."""
    (local,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    checks = words("test")
    for hook in local["hooks"]:
        assert hook["language"] == "system"
        python, *command = hook["entry"].split()
        assert python == ".venv/bin/python"
        assert f'"$python" {" ".join(command)}' in checks


def test_pinned_files_name_no_place() -> None:
    """Where packages come from is the installer's business."""
    for name in ("requirements.txt", "requirements-test.txt"):
        assert not re.search(r"://|--(extra-)?index|--find-links|--trusted", words(name))


def test_the_pinned_tools_are_those_of_the_extras() -> None:
    """Everything that ./run and ./test need is pinned."""
    extras = PROJECT["optional-dependencies"]
    for name, needed in {
        "requirements.txt": ("tour", "service"),
        "requirements-test.txt": ("tour", "service", "spark", "interop", "test"),
    }.items():
        pinned = set(re.findall(r"^([\w-]+)==", words(name), re.MULTILINE))
        for line in [*PROJECT["dependencies"], *(line for extra in needed for line in extras[extra])]:
            if line.startswith("shuffledp-verify"):
                continue  # of this repository: installed from it, as shuffledp is
            assert re.match(r"[\w-]+", line)[0] in pinned  # type: ignore[index]


def test_a_source_tree_that_is_not_installed_knows_its_version(tmp_path: Path) -> None:
    """``__version__`` asks no installer: neither site-packages' metadata nor a build."""
    program = "import importlib.metadata as m; m.version = None; import shuffledp; print(shuffledp.__version__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == shuffledp.__version__
