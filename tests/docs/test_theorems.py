"""docs/theorems.md is what the docstrings say."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from shuffledp.bounds.base import Bound
from shuffledp.bounds.registry import BOUNDS_BY_NAME

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "theorems.md"


with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "scripts")
    theorems = importlib.import_module("theorems")
    references = importlib.import_module("references")


@pytest.mark.docs
def test_the_page_is_up_to_date() -> None:
    """Making the table anew changes nothing."""
    page = PAGE.read_text("utf-8")
    assert theorems.renewed(page) == page, "run python scripts/theorems.py"
    assert theorems.main(["--check"]) == 0


@pytest.mark.docs
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
    assert new.startswith(f"head\n{theorems.BEGIN}\n\n### Of [VR]\n\n| statement |")
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


@pytest.mark.parametrize("bound", BOUNDS_BY_NAME.values(), ids=lambda bound: bound.name)
def test_every_bound_says_what_it_proves(bound: Bound) -> None:
    """The docstring of a bound names its theorem, its hypotheses and what it returns, and is in the table."""
    parts = theorems.parts_of(type(bound).__doc__ or "")
    assert {"Theorem", "Requires", "Returns"} <= parts.keys()
    assert all(parts.values())
    assert f"`{type(bound).__name__}` in " in PAGE.read_text("utf-8")


@pytest.mark.docs
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
    assert {theorems.source_of(statement) for statement in theorems.statements()} <= {*keys, ""}


# --- tests that are named: by what really stands in them, where the script reads their source -------------------------


def named() -> list[tuple[Any, str, Path, str]]:
    """Statement, by way of what, file and name of each test that the table names."""
    return [
        (statement, user, path, name)
        for statement in theorems.statements()
        for user, tests in [theorems.tests_for(statement)]
        for path, name in tests
    ]


def codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of what is defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def flat(thing: Any) -> Iterator[Any]:
    """What marks, lists and dictionaries hold."""
    if isinstance(thing, list | tuple | set | frozenset):
        for one in thing:
            yield from flat(one)
    elif isinstance(thing, dict):
        yield from flat([*thing, *thing.values()])
    elif isinstance(thing, pytest.Mark):
        yield from flat([thing.args, thing.kwargs])
    else:
        yield thing


@cache
def words_and_things(function: Any) -> tuple[set[str], list[Any]]:
    """All names and texts in the code that a test may run in its own file, and what the names stand for there."""
    words: set[str] = set()
    things: list[Any] = list(flat(getattr(function, "pytestmark", [])))
    waiting, seen = [function], set()
    while waiting:
        now = waiting.pop()
        # A fixture is an object around its function.
        now = getattr(now, "_fixture_function", now)
        if now in seen or not isinstance(now, FunctionType):
            continue
        seen.add(now)
        used = {name for code in codes(now.__code__) for name in (*code.co_names, *code.co_varnames)}
        words |= used | {text for code in codes(now.__code__) for text in flat(code.co_consts) if isinstance(text, str)}
        for name in used & now.__globals__.keys():
            thing = now.__globals__[name]
            things += flat(thing)
            if getattr(thing, "__module__", "") == function.__module__ or hasattr(thing, "_fixture_function"):
                waiting.append(thing)
    return words, things


def refers(function: Any, module: str, name: str) -> bool:
    """Whether a test knows the thing itself, or names it: as a part of a module, or in an import of its own."""
    thing = getattr(importlib.import_module(module), name)
    words, things = words_and_things(function)
    modules = [one for one in things if isinstance(one, ModuleType)]
    return (
        any(one is thing or type(one) is thing or getattr(one, "__func__", None) is thing for one in things)
        or any(vars(one).get(word) is thing for one in modules for word in words)
        or {module, name} <= words
    )


@pytest.mark.docs
def test_every_statement_names_tests_that_exist() -> None:
    """At least one; its file defines it, and has the statement's name, or that of what it is tested by way of."""
    without = {statement.name for statement in theorems.statements()}
    for statement, user, path, name in named():
        without.discard(statement.name)
        text = path.read_text("utf-8")
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{path.name}::{name}"
        spoken = (user or statement.place).rpartition(".")[2]
        assert re.search(rf"\b{spoken}\b", text) or (statement.chosen and f'"{statement.chosen}"' in text)
    assert not without


@pytest.mark.docs
def test_the_tests_of_a_bound_touch_it() -> None:
    """In the compiled code of each named test stands the bound, its name, or the list of all bounds."""
    tests = [(statement, user, path, name) for statement, user, path, name in named() if statement.chosen]
    assert {statement.chosen for statement, *_ in tests} == set(BOUNDS_BY_NAME)
    for statement, user, path, name in tests:
        function = getattr(importlib.import_module(references.module_of(path)), name)
        words, things = words_and_things(function)
        chosen = statement.chosen in {*words, *(one for one in things if isinstance(one, str))}
        places = {statement.place, user or statement.place}
        touched = chosen or any(refers(function, *place.rsplit(".", 1)) for place in places)
        assert touched, f"{path.name}::{name} for {statement.name}"


def test_the_script_is_not_misled_by_words(tmp_path: Path) -> None:
    """A local name that is spelled like a bound is none; an import, a re-export and a bound by its name are."""
    text = """
import shuffledp as sdp
from shuffledp.bounds.clones import CloneBound as Alike

def helper():
    return Alike()

def test_by_a_helper():
    helper()

def test_by_name():
    sdp.amplify(sdp.KRR(1.0, 2), 10, bound="clone")

def test_of_words():
    KRR, CloneBound = "clone", 1
"""
    path = tmp_path / "test_words.py"
    path.write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "ROOT", tmp_path)
        found = references.tests_of(path)
    clone, krr = "shuffledp.bounds.clones.CloneBound", "shuffledp.mechanisms.frequency.randomized_response.KRR"
    assert clone in found["test_by_a_helper"].names
    assert krr in found["test_by_name"].names
    assert found["test_by_name"].bounds == {"clone"}
    assert not found["test_of_words"].names & {clone, krr}
    assert not found["test_of_words"].bounds
