"""docs/theorems.md is what the docstrings say."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from shuffledp.bounds import BOUND_OF
from shuffledp.bounds.bound import Bound

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "theorems.md"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("theorems", ROOT / "scripts" / "theorems.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


theorems = load_script()


def test_the_page_is_up_to_date() -> None:
    """Making the table anew changes nothing."""
    page = PAGE.read_text("utf-8")
    assert theorems.renewed(page) == page, "run python scripts/theorems.py"
    assert theorems.main(["--check"]) == 0


def test_check_only_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check refuses an old page and leaves it as it is; without it the page is made anew."""
    page = tmp_path / "theorems.md"
    old = f"head\n{theorems.BEGIN}\nold\n{theorems.END}\nfoot\n"
    page.write_text(old, "utf-8")
    assert theorems.main(["--check"], page) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert page.read_text("utf-8") == old
    assert theorems.main([], page) == 0
    new = page.read_text("utf-8")
    assert new.startswith(f"head\n{theorems.BEGIN}\n\n| statement |")
    assert new.endswith(f"|\n\n{theorems.END}\nfoot\n")
    assert theorems.main(["--check"], page) == 0


def test_the_parts_of_a_docstring() -> None:
    """A part runs over its lines up to the next label or an empty line."""
    text = """One sentence. Another.

    Theorem: [VR] Lemma 1, in
    two lines.
    Requires: p > 1.

    Not a part.
    """
    assert theorems.parts_of(text) == {"Theorem": "[VR] Lemma 1, in two lines.", "Requires": "p > 1."}
    assert theorems.first_sentence(text) == "One sentence."


@pytest.mark.parametrize("bound", BOUND_OF.values(), ids=lambda bound: bound.name)
def test_every_bound_says_what_it_proves(bound: Bound) -> None:
    """The docstring of a bound names its theorem, its hypotheses and what it returns, and is in the table."""
    parts = theorems.parts_of(type(bound).__doc__ or "")
    assert {"Theorem", "Requires", "Returns"} <= parts.keys()
    assert all(parts.values())
    assert f"`{type(bound).__name__}` in " in PAGE.read_text("utf-8")


def test_every_citation_key_is_explained() -> None:
    """A key used by a statement stands in the list of keys."""
    keys = set(re.findall(r"^\| \[(\w+)\] \|", PAGE.read_text("utf-8"), re.MULTILINE))
    used = {
        key
        for statement in theorems.statements()
        for text in statement.parts.values()
        for key in re.findall(r"\[([A-Z]{2,}\d*)\b", text)
    }
    assert used <= keys
