"""docs/errata.md and the tests beside this file name each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "errata.md"
ENTRY = re.compile(r"^### ([A-Z]{2}-\d+)\b", re.MULTILINE)
NAMED = re.compile(r"`(tests/errata/test_\w+\.py)::(test_\w+)`")


def written_tests() -> dict[tuple[str, str], str]:
    """Every test function of this folder, this file's excepted, with its docstring."""
    found = {}
    for path in sorted(HERE.glob("test_*.py")):
        if path == Path(__file__):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[f"tests/errata/{path.name}", node.name] = ast.get_docstring(node) or ""
    return found


def entries() -> dict[str, str]:
    """The text of every entry, by its id."""
    parts = ENTRY.split(PAGE.read_text())[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_ids_are_unique_and_in_order() -> None:
    """No id is used twice, and the ids of a paper count up from 1."""
    ids = ENTRY.findall(PAGE.read_text())
    assert len(ids) == len(set(ids))
    for paper in {name[:2] for name in ids}:
        numbers = [int(name[3:]) for name in ids if name[:2] == paper]
        assert numbers == list(range(1, len(numbers) + 1))


def test_every_entry_names_a_test_that_exists() -> None:
    """Each entry names at least one test; each named test exists and its docstring starts with the id."""
    written = written_tests()
    for name, text in entries().items():
        named = NAMED.findall(text)
        assert named, f"{name} names no test"
        for test in named:
            assert test in written, f"{name} names {test}, which does not exist"
            assert written[test].startswith(f"{name}:"), f"{test} does not start with {name}"


def test_every_test_is_named_by_an_entry() -> None:
    """No counter-example is missing from the page."""
    named = {test for text in entries().values() for test in NAMED.findall(text)}
    assert set(written_tests()) == named


def test_every_entry_has_its_parts() -> None:
    """Where, what is printed, what is right, the counter-example and the test: all five are there."""
    for name, text in entries().items():
        for part in ("Where", "Printed", "Right", "Counter-example", "Test"):
            assert f"**{part}:**" in text, f"{name} has no {part}"
