"""Which test touches which definition of the package: by what each test refers to, not by words that look alike.

The source is read, not imported. A name counts where it is resolved, through imports and re-exports, to the file where
it is defined. Helpers, fixtures and constants of the same file belong to the tests that use them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
BY_NAME = {"bound", "against"}
"""Keywords and columns of tests that take a bound by its name."""


@dataclass(frozen=True)
class Touched:
    """What a piece of code refers to."""

    names: set[str] = field(default_factory=set)
    """Definitions, as ``shuffledp.module.Name``."""
    attributes: set[str] = field(default_factory=set)
    bounds: set[str] = field(default_factory=set)
    """Texts that stand where a bound is chosen by its name."""

    def add(self, other: Touched) -> None:
        for mine, yours in (
            (self.names, other.names),
            (self.attributes, other.attributes),
            (self.bounds, other.bounds),
        ):
            mine.update(yours)


def module_of(path: Path) -> str:
    """The dotted name of a file of the package, or of the tests."""
    base = SOURCE if path.is_relative_to(SOURCE) else ROOT
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def file_of(module: str) -> Path | None:
    """The file of a module of the package."""
    place = SOURCE.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


WORTH_A_LOOK = (
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
    """All nodes below one that can tell anything; the cheapest way to walk a tree, as this is most of the work."""
    found, waiting = [], [node]
    while waiting:
        now = waiting.pop()
        if isinstance(now, WORTH_A_LOOK):
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
    """What stands on the top level of a file, each with the nodes below it."""
    return {node: parts_of(node) for node in parsed(path).body}


@cache
def imports(path: Path) -> dict[str, str]:
    """Local names and what they stand for, of a whole file, imports inside functions included."""
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
    """Where a dotted name leads, through re-exports; itself if that is not known."""
    module, _, last = name.rpartition(".")
    path = file_of(module) if module else None
    if path is None:
        return name
    further = imports(path).get(last)
    return defined(further) if further and further != name else name


def touched(path: Path, node: ast.stmt) -> Touched:
    """What one node of a file refers to."""
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
    """a.b.c as its words; nothing for other expressions."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        start = _chain(node.value)
        return [*start, node.attr] if start else []
    return []


def _resolved(start: str, rest: list[str]) -> Iterator[str]:
    """Every beginning of the chain, each as the place where it is defined."""
    name = defined(start)
    yield name
    for word in rest:
        name = defined(f"{name}.{word}")
        yield name


def _chosen_bounds(node: ast.AST) -> Iterator[str]:
    """Texts after ``bound=``, in ``BOUND_OF[…]``, after "--bound", and of a parametrised column that is called so."""
    if isinstance(node, ast.keyword) and node.arg in BY_NAME:
        yield from _texts(node.value)
    elif isinstance(node, ast.Subscript):
        if _chain(node.value)[-1:] == ["BOUND_OF"]:
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
    """Every test function of a file with all that it touches, by way of what it uses of the same file, too."""
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
    """Definitions of the package, and which others refer to each."""
    found: dict[str, set[str]] = {}
    for path in sorted((SOURCE / "shuffledp").rglob("*.py")):
        own = module_of(path)
        for node in parsed(path).body:
            for name in _names(node):
                for other in touched(path, node).names:
                    if other != f"{own}.{name}":
                        found.setdefault(other, set()).add(f"{own}.{name}")
    return found
