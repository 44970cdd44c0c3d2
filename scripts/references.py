"""Finds the definitions of the package that each test refers to.

The source is parsed, not imported. A name counts if imports and re-exports resolve it to the file that defines it, so
that equal words do not match. Helpers, fixtures and constants of a test file count for the tests that use them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (ROOT / "src", ROOT / "packages" / "shuffledp-verify" / "src")
"""Source folders of this package and of the verifier."""
BY_NAME = {"bound", "against"}
"""Keywords and parametrised columns of tests that select a bound by its name."""


@dataclass(frozen=True)
class Touched:
    """References of a piece of code."""

    names: set[str] = field(default_factory=set)
    """Definitions, as ``shuffledp.module.Name``."""
    attributes: set[str] = field(default_factory=set)
    bounds: set[str] = field(default_factory=set)
    """Names of bounds, at places that select a bound by name."""

    def add(self, other: Touched) -> None:
        for mine, yours in (
            (self.names, other.names),
            (self.attributes, other.attributes),
            (self.bounds, other.bounds),
        ):
            mine.update(yours)


def module_of(path: Path) -> str:
    """Returns the dotted name of a file of the package or of the tests."""
    base = next((source for source in SOURCES if path.is_relative_to(source)), ROOT)
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def file_of(module: str) -> Path | None:
    """Returns the file of a module, or None if it is not part of the package."""
    places = [source.joinpath(*module.split(".")) for source in SOURCES]
    # A package that imports its names lazily lists them in its stub.
    files = [path for at in places for path in (at.with_suffix(".py"), at / "__init__.pyi", at / "__init__.py")]
    return next((path for path in files if path.is_file()), None)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


REFERENCE_NODES = (
    ast.Attribute,
    ast.Name,
    ast.keyword,
    ast.Subscript,
    ast.List,
    ast.Tuple,
    ast.Call,
    ast.Import,
    ast.ImportFrom,
)


def parts_of(node: ast.AST) -> list[ast.AST]:
    """Returns all nodes below one that can hold references; a loop, because it takes most of the running time."""
    found, waiting = [], [node]
    while waiting:
        now = waiting.pop()
        if isinstance(now, REFERENCE_NODES):
            found.append(now)
        for name in now._fields:
            value = getattr(now, name, None)
            if type(value) is list:
                waiting += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and name != "ctx":
                waiting.append(value)
    return found


@cache
def walked(path: Path) -> dict[ast.stmt, list[ast.AST]]:
    """Returns the top-level statements of a file, each with the nodes below it."""
    return {node: parts_of(node) for node in parsed(path).body}


@cache
def imports(path: Path) -> dict[str, str]:
    """Returns the imported names of a file, including imports inside functions, with their full names."""
    found: dict[str, str] = {}
    for node in (part for parts in walked(path).values() for part in parts):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            first = {alias.name.split(".")[0]: alias.name.split(".")[0] for alias in node.names if not alias.asname}
            found |= first | {alias.asname: alias.name for alias in node.names if alias.asname}
    return found


@cache
def defined(name: str) -> str:
    """Follows a dotted name through re-exports to its definition; returns it unchanged if it is not in the package."""
    module, _, last = name.rpartition(".")
    path = file_of(module) if module else None
    if path is None:
        return name
    further = imports(path).get(last)
    return defined(further) if further and further != name else name


def touched(path: Path, node: ast.stmt) -> Touched:
    """Returns the references of one top-level statement."""
    known, found = imports(path), Touched()
    own = module_of(path)
    for part in walked(path)[node]:
        if isinstance(part, ast.Attribute):
            found.attributes.add(part.attr)
        chain = _chain(part)
        if chain and chain[0] in known:
            found.names.update(_resolved(known[chain[0]], chain[1:]))
        elif chain:
            found.names.add(f"{own}.{chain[0]}")
        found.bounds.update(_chosen_bounds(part))
    return found


def _chain(node: ast.AST) -> list[str]:
    """Returns the words of a chain a.b.c; empty for other expressions."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        start = _chain(node.value)
        return [*start, node.attr] if start else []
    return []


def _resolved(start: str, rest: list[str]) -> Iterator[str]:
    """Yields the definition of every prefix of a chain."""
    name = defined(start)
    yield name
    for word in rest:
        name = defined(f"{name}.{word}")
        yield name


def _chosen_bounds(node: ast.AST) -> Iterator[str]:
    """Yields the texts after ``bound=``, in ``BOUNDS_BY_NAME[…]``, after "--bound", and in a column named bound."""
    if isinstance(node, ast.keyword) and node.arg in BY_NAME:
        yield from _texts(node.value)
    elif isinstance(node, ast.Subscript):
        if _chain(node.value)[-1:] == ["BOUNDS_BY_NAME"]:
            yield from _texts(node.slice)
    elif isinstance(node, ast.List | ast.Tuple | ast.Call):
        words = node.args if isinstance(node, ast.Call) else node.elts
        for one, other in pairwise(words):
            if isinstance(one, ast.Constant) and one.value in ("--bound", "--against"):
                yield from _texts(other)
        if isinstance(node, ast.Call) and _chain(node.func)[-1:] == ["parametrize"] and len(node.args) > 1:
            columns = {word for text in _texts(node.args[0]) for word in text.replace(",", " ").split()}
            yield from _texts(node.args[1]) if BY_NAME & columns else ()


def _texts(node: ast.AST) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


@cache
def tests_of(path: Path) -> dict[str, Touched]:
    """Returns the tests of a file, each with its references and those of the helpers that it uses from the file."""
    parts: dict[str, list[ast.stmt]] = {}
    for node in parsed(path).body:
        for name in _names(node):
            parts.setdefault(name, []).append(node)
    own = module_of(path)
    direct = {name: [touched(path, node) for node in nodes] for name, nodes in parts.items()}
    found = {}
    for name in parts:
        if name.startswith("test_"):
            found[name] = _closure(name, direct, own, parts)
    return found


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _closure(name: str, direct: dict[str, list[Touched]], own: str, parts: dict[str, list[ast.stmt]]) -> Touched:
    total, waiting, seen = Touched(), [name], set()
    while waiting:
        now = waiting.pop()
        if now in seen:
            continue
        seen.add(now)
        for one in direct.get(now, ()):
            total.add(one)
            waiting += [word.removeprefix(f"{own}.") for word in one.names if word.startswith(f"{own}.")]
        for node in parts.get(now, ()):
            if isinstance(node, ast.FunctionDef):
                waiting += [argument.arg for argument in node.args.args if argument.arg in parts]
    return total


@cache
def users_of() -> dict[str, set[str]]:
    """Returns for each definition of the package the other definitions that refer to it."""
    found: dict[str, set[str]] = {}
    for path in sorted(path for source in SOURCES for path in source.rglob("*.py")):
        own = module_of(path)
        for node in parsed(path).body:
            for name in _names(node):
                for other in touched(path, node).names:
                    if other != f"{own}.{name}":
                        found.setdefault(other, set()).add(f"{own}.{name}")
    return found
