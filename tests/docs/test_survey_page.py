"""docs/survey.md: its code runs, and its lines are questions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import shuffledp as sdp
from shuffledp.tasks.survey_parser import parse_question, read_questions_file

PAGE = Path(__file__).resolve().parents[2] / "docs" / "survey.md"
TEXT = PAGE.read_text("utf-8")


def test_the_code_runs() -> None:
    """The blocks of Python, one after the other; a last line with a comment below is what the comment says."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL):
        *lines, last = block.rstrip().split("\n")
        if last.startswith("# "):
            exec(compile("\n".join(lines[:-1]), str(PAGE), "exec"), names)
            assert repr(eval(lines[-1], names)) == last.removeprefix("# ")
        else:
            exec(compile(block, str(PAGE), "exec"), names)
    report = names["report"]
    assert report.guarantee.is_target_met
    assert names["survey"].names == ("city", "age", "member")


def test_the_file_and_the_lines_are_questions(tmp_path: Path) -> None:
    (toml,) = re.findall(r"```toml\n(.*?)```", TEXT, flags=re.DOTALL)
    assert tomllib.loads(toml)
    (tmp_path / "survey.toml").write_text(toml)
    city, age = read_questions_file(tmp_path / "survey.toml")
    assert (city.task, age.task, age.mechanism) == (
        sdp.tasks.Frequency(["Rome", "Oslo", "Bern"]), sdp.tasks.Mean(0, 120), "piecewise",
    )  # fmt: skip
    lines = re.findall(r"--question (\S+)", TEXT)
    assert len(lines) == 8
    (tmp_path / "cities.txt").write_text("Rome\nOslo\nBern\n")
    for line in lines:
        assert parse_question(line.replace("cities.txt", str(tmp_path / "cities.txt"))).weight > 0
