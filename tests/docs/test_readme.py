"""What README.md and the page of the commands show is what the package does; no link of any page is dead.

``python -m tests.docs.test_readme`` writes the real output below each command of both.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import re
import shlex
from pathlib import Path

import pytest

from shuffledp.bounds.registry import BOUNDS
from tests.cli import run
from tests.cli.tour_run import toured

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = ROOT / "docs" / "reference" / "commands.md"
SHOWING = README + COMMANDS.read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAX_LINES, MAX_BYTES = 110, 120_000
"""Two screens, and one picture."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)")
SHOWN = re.compile(r"^print\(.*\)\s+# (.*)$", re.MULTILINE)
CONSTANT = re.compile(r"^\| `(\w+)\.([A-Z_]+)` \| (\S+) \|", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)\)")


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCK.findall(SHOWING) if name == kind]


def examples() -> list[tuple[str, str]]:
    """The command of every console block with the output shown below it; each once."""
    parts = [block.partition("\n") for block in blocks("console")]
    found = {" ".join(arguments_of(command.removeprefix("$ "))): (command, output) for command, _, output in parts}
    return [(command.removeprefix("$ "), output) for command, output in found.values()]


def plain_commands() -> list[str]:
    """Every command of a sh block, whose output is not shown."""
    lines = [line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.split()[:1] in (["./run"], ["shuffledp"])]


def arguments_of(command: str) -> list[str]:
    program, *arguments = shlex.split(command)
    assert program in ("./run", "shuffledp")
    return arguments


def same_number(shown: str, real: str) -> bool:
    """Equal as written. A float with all its digits may differ in the last ones from machine to machine."""
    if len(re.sub(r"e.*|\D", "", shown).lstrip("0")) > 10:
        return math.isclose(float(shown), float(real), rel_tol=1e-9)
    return shown == real


def same_slack(shown: str, real: str) -> bool:
    """The slack depends on where the search happens to stop: its size is compared."""
    return float(real) <= 30 * float(shown) and float(shown) <= 30 * float(real)


def compare(shown: str, real: str) -> None:
    """The same words and numbers, however the lines are broken."""
    shown, real = " ".join(shown.split()), " ".join(real.split())
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", real)
    for one, other in zip(NUMBER.finditer(shown), NUMBER.finditer(real), strict=True):
        is_slack = re.search(r'slack"?:? $', shown[: one.start()])
        same = same_slack if is_slack else same_number
        assert same(one[0], other[0]), f"shown {one[0]}, real {other[0]}"


def test_the_first_thing_shown_is_how_to_run_and_test() -> None:
    """The first block has the commands and nothing else."""
    first = BLOCK.search(README)
    assert first is not None
    shown = [line.partition("#")[0].strip() for line in first[2].splitlines()]
    assert shown == ["./run", "./test", "./test --all"]


@pytest.mark.parametrize("block", blocks("python"))
def test_python_examples(block: str) -> None:
    """Each block runs by itself and prints what its comments say."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block, "README.md", "exec"), {})
    assert out.getvalue().splitlines() == SHOWN.findall(block)


@pytest.mark.docs("[shuffledp compare ")
@pytest.mark.parametrize(("command", "shown"), examples(), ids=[command for command, _ in examples()])
def test_command_line_examples(command: str, shown: str) -> None:
    """Each command prints what is shown."""
    outcome = run(*arguments_of(command))
    assert outcome.status == 0, outcome.err
    compare(shown, outcome.out)


@pytest.mark.docs
@pytest.mark.parametrize("command", plain_commands())
def test_commands_without_output_work(
    command: str, tmp_path: Path, shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They exit with 0; what they write goes to the current folder."""
    monkeypatch.chdir(tmp_path)
    arguments = arguments_of(command)
    # Without arguments it is the tour, which takes long: the one that its own tests look at.
    outcome = run(*arguments) if arguments else toured(shared_folder)[1]
    assert outcome.status == 0


def test_it_fits_two_screens_and_has_one_picture() -> None:
    """Which is there, and small."""
    assert len(README.splitlines()) <= MAX_LINES
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert 10_000 < (ROOT / picture).stat().st_size <= MAX_BYTES


def test_there_are_examples() -> None:
    """The patterns above find something."""
    assert blocks("python")
    assert examples()
    assert plain_commands()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link is to a file that exists."""
    # What is made with the site is linked to by its place there.
    made = {ROOT / "docs" / "api" / "index.rst", ROOT / "docs" / "gallery.md"}
    for target in LINK.findall(re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)):
        assert "://" in target or (page.parent / target).resolve() in made or (page.parent / target).exists(), (
            f"{page.name} links to {target}"
        )


def test_the_number_of_theorems_of_the_comparison() -> None:
    """The page counts the bounds of the list."""
    (count,) = re.findall(r"by the best of (\d+) theorems", (ROOT / "docs" / "comparison.md").read_text("utf-8"))
    assert int(count) == len(BOUNDS)


def test_the_limits_of_the_numerics_page() -> None:
    """The constants are those of the code."""
    found = CONSTANT.findall((ROOT / "docs" / "numerics.md").read_text("utf-8"))
    assert found
    for module, name, value in found:
        layer = "privacy" if module in ("curve", "composition") else "numerics"
        assert getattr(importlib.import_module(f"shuffledp.{layer}.{module}"), name) == float(value)


def renewed(text: str) -> str:
    """A page with the real output below each command that prints something else; JSON is broken at its keys."""

    def renew(block: re.Match[str]) -> str:
        kind, (command, _, shown) = block[1], block[2].partition("\n")
        if kind != "console":
            return block[0]
        out = run(*arguments_of(command.removeprefix("$ "))).out
        with contextlib.suppress(AssertionError):
            compare(shown, out)
            return block[0]
        lines = out.splitlines()
        if "--json" in command:
            lines = re.sub(r', ("(?:delta|users|certified|parameters)")', r",\n \1", lines[0]).splitlines()
        output = "\n".join(line.rstrip() for line in lines)
        return f"```console\n{command}\n{output}\n```"

    return BLOCK.sub(renew, text)


if __name__ == "__main__":
    for shown in (ROOT / "README.md", COMMANDS):
        shown.write_text(renewed(shown.read_text("utf-8")), "utf-8")
