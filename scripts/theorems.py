"""Writes the table of docs/theorems.md from the docstrings of the package.

python scripts/theorems.py            rewrite the table
python scripts/theorems.py --check    only compare; exit code 1 if the table is out of date

The source is read, not imported, so that no optional dependency is needed.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "shuffledp"
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "theorems.md"
BEGIN = "<!-- made from docstrings by scripts/theorems.py: begin -->"
END = "<!-- end -->"
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["shuffledp"]["layers"]
LABEL = re.compile(r"(Theorem|Requires|Returns|Deviates):\s*(.*)")


class Source:
    """The text of a test file, and its words: each file is searched once, not once for each statement."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = frozenset(re.findall(r"\w+", text))
        self.after_dots = frozenset(re.findall(r"\.(\w+)", text))


@dataclass(frozen=True)
class Statement:
    """A class or function that implements a statement, and what its docstring says of it."""

    file: Path
    name: str
    alias: str
    """The name by which users choose it ("" if there is none)."""
    summary: str
    parts: dict[str, str]

    def tests(self, sources: dict[Path, Source]) -> list[Path]:
        """The test files that mention it: by name, by alias, or a method together with its class."""
        first, *rest = self.name.split(".")
        return [
            path
            for path, source in sources.items()
            if (first in source.words and source.after_dots.issuperset(rest))
            or (self.alias and f'"{self.alias}"' in source.text)
        ]


def parts_of(docstring: str) -> dict[str, str]:
    """The labelled parts of a docstring; a part ends at the next label or at an empty line."""
    found: dict[str, str] = {}
    label = None
    for line in inspect.cleandoc(docstring).splitlines():
        match = LABEL.match(line)
        if match:
            label = match[1]
            found[label] = match[2]
        elif not line.strip():
            label = None
        elif label:
            found[label] += " " + line.strip()
    return found


def first_sentence(docstring: str) -> str:
    paragraph = " ".join(inspect.cleandoc(docstring).split("\n\n")[0].split())
    return re.split(r"(?<=\.) ", paragraph)[0]


@cache
def statements() -> tuple[Statement, ...]:
    """Every class, function and method whose docstring has a ``Theorem:`` line, in the order of the layers."""
    files = sorted(PACKAGE.rglob("*.py"), key=lambda path: (_layer(path), path))
    return tuple(statement for path in files for statement in _walk(path, ast.parse(path.read_text("utf-8")), ""))


def _layer(path: Path) -> int:
    first = path.relative_to(PACKAGE).parts[0]
    return LAYERS.index(first) if first in LAYERS else -1


def _walk(path: Path, parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[Statement]:
    for node in parent.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        name = prefix + node.name
        docstring = ast.get_docstring(node) or ""
        parts = parts_of(docstring)
        if "Theorem" in parts:
            yield Statement(path, name, _alias(node), first_sentence(docstring), parts)
        if isinstance(node, ast.ClassDef):
            yield from _walk(path, node, f"{name}.")


def _alias(node: ast.ClassDef | ast.FunctionDef) -> str:
    """The value of the class attribute ``name``, where it is a plain string."""
    for item in node.body:
        if isinstance(item, ast.Assign) and [ast.unparse(target) for target in item.targets] == ["name"]:
            return str(ast.literal_eval(item.value))
    return ""


@cache
def table() -> str:
    """The same for every page: made once in a process."""
    # Tests of one layer each; those beside the folders are about the package as a whole and name everything.
    sources = {path: Source(path.read_text("utf-8")) for path in sorted(TESTS.glob("*/**/test_*.py"))}
    lines = ["| statement | what it says | requires | deviates | code | tests |", "|---|---|---|---|---|---|"]
    for statement in statements():
        head, colon, detail = statement.parts["Theorem"].partition(": ")
        code = statement.file.relative_to(PACKAGE).as_posix()
        cells = [
            f"**{head.rstrip('.')}**{colon}{detail}",
            statement.summary,
            statement.parts.get("Requires", "–"),
            statement.parts.get("Deviates", "–"),
            f"`{statement.name}` in [{code}](../src/shuffledp/{code})",
            "<br>".join(_link(path) for path in statement.tests(sources)) or "–",
        ]
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines)


def _link(path: Path) -> str:
    name = path.relative_to(TESTS).as_posix()
    return f"[{name}](../tests/{name})"


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", r"\|")


def renewed(page: str) -> str:
    """The page with the table between its two markers made anew."""
    head, begin, rest = page.partition(BEGIN)
    _, end, foot = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name}: expected the two lines {BEGIN!r} and {END!r}.")
    return f"{head}{BEGIN}\n\n{table()}\n\n{END}{foot}"


def main(arguments: list[str], page: Path = PAGE) -> int:
    if arguments not in ([], ["--check"]):
        print("theorems.py: expected nothing or --check.", file=sys.stderr)
        return 2
    old = page.read_text("utf-8")
    new = renewed(old)
    if arguments and new != old:
        print(f"{page.name} is out of date: run python scripts/theorems.py.", file=sys.stderr)
        return 1
    if not arguments:
        page.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
