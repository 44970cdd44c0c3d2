"""The page about metric privacy: the walk from a target to a collection runs as it is printed there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli import run

PAGE = (Path(__file__).parents[2] / "docs" / "metric.md").read_text("utf-8")
WALK = PAGE.partition("## From a target to a collection")[2].partition("\n## ")[0]


NUMBER = re.compile(r"\d+\.\d+")


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def is_shown(line: str, lines: list[str]) -> bool:
    """Whether it is the beginning of one of these lines, its numbers up to a thousandth."""
    wanted = squeezed(line)
    pattern = re.compile(NUMBER.pattern.join(map(re.escape, NUMBER.split(wanted))))
    numbers = [float(number) for number in NUMBER.findall(wanted)]
    found = [match.group() for match in map(pattern.match, map(squeezed, lines)) if match]
    return any([float(number) for number in NUMBER.findall(one)] == pytest.approx(numbers, rel=1e-3) for one in found)


@pytest.mark.docs
def test_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command, with what the page shows of its output; and what too few users are told."""
    monkeypatch.chdir(tmp_path)
    Path("places.csv").write_text("".join(f"{x},{y}\n" for x in range(3) for y in range(3)), "utf-8")
    Path("people.csv").write_text("place\n" + "".join(f"{n % 9}\n" for n in range(10_000)), "utf-8")
    commands = re.findall(r"```sh\nshuffledp (.*?)\n```", WALK)
    shown = re.findall(r"```text\n(.*?)```", WALK, re.DOTALL)
    assert (len(commands), len(shown)) == (3, 4)
    for command, wanted in zip(commands, shown, strict=False):
        outcome = run(*shlex.split(command))
        assert outcome.status == 0, outcome.err
        for line in wanted.splitlines():
            assert is_shown(line, outcome.out.splitlines()), outcome.out
    Path("people.csv").write_text("place\n" + "".join(f"{n % 9}\n" for n in range(6_000)), "utf-8")
    outcome = run(*shlex.split(commands[-1].replace("result", "again")))
    assert squeezed(outcome.err) == squeezed(shown[-1])


@pytest.mark.docs
def test_the_python_of_the_page_runs() -> None:
    """All of it, in order."""
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), {})
