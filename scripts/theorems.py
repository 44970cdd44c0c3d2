"""Writes the table of docs/theorems.md from the docstrings of the package.

python scripts/theorems.py            rewrite the table
python scripts/theorems.py --check    only compare; exit code 1 if the table is out of date

The source is parsed, not imported, so that no optional dependency is needed.
"""

from __future__ import annotations

import ast
import gc
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import references

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "shuffledp"
VERIFIER = ROOT / "packages" / "shuffledp-verify" / "src" / "shuffledp_verify"
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "theorems.md"
BEGIN = "<!-- made from docstrings by scripts/theorems.py: begin -->"
END = "<!-- end -->"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = [layer for group in CONTRACTS[0]["layers"][::-1] for layer in re.split(r" [:|] ", group)]
MAX_TESTS = 3
"""Largest number of tests listed for each statement."""
REFUSAL = re.compile("bad_|refus|sentence|no_message|errors$")
"""Names of tests of refused input, which are listed last."""
KEYS = tuple(re.findall(r"^\| \[(\w+)\] \|", PAGE.read_text("utf-8"), re.MULTILINE))
"""Keys of the sources, in the order of the page's list."""
OWN = "Of this project and of textbooks"
LABEL = re.compile(r"(Theorem|Requires|Returns|Deviates):\s*(.*)")


@dataclass(frozen=True)
class Statement:
    """A class or function that implements a statement, with the labelled parts of its docstring."""

    file: Path
    name: str
    alias: str
    """The name by which users select it; empty if there is none."""
    summary: str
    parts: dict[str, str]

    @cached_property
    def place(self) -> str:
        """The dotted name of its definition, or of its class."""
        return f"{references.module_of(self.file)}.{self.name.split('.')[0]}"

    @cached_property
    def chosen(self) -> str:
        """The name by which a bound is selected; empty for everything else."""
        in_bounds = self.file.parent.name == "bounds" and not self.file.name.startswith("metric_")
        return self.alias if in_bounds else ""

    @cached_property
    def methods(self) -> frozenset[str]:
        """The method's name, or the empty set for a class or function."""
        return frozenset(self.name.split(".")[1:])

    def touched_by(self, found: references.Touched) -> bool:
        """Returns True if a test refers to the definition, and to the method by name, or selects the bound by name."""
        if self.chosen and self.chosen in found.bounds:
            return True
        return self.place in found.names and self.methods <= found.attributes


def parts_of(docstring: str) -> dict[str, str]:
    """Returns the labelled parts of a docstring; a part ends at the next label or at an empty line."""
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
    """Returns every class, function and method whose docstring has a ``Theorem:`` line, in the order of the layers."""
    files = sorted([*PACKAGE.rglob("*.py"), *VERIFIER.rglob("*.py")], key=lambda path: (_layer(path), path))
    return tuple(statement for path in files for statement in _walk(path, references.parsed(path), ""))


def _layer(path: Path) -> int:
    first = _room(path)
    return LAYERS.index(first) if first in LAYERS else -1


def _room(path: Path) -> str:
    """Returns the layer of a file; the verifier belongs to the certificates, whose tests cover it."""
    return "certificates" if path.is_relative_to(VERIFIER) else path.relative_to(PACKAGE).parts[0]


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
    """Returns the class attribute ``name`` if it is a plain string."""
    for item in node.body:
        if isinstance(item, ast.Assign) and [ast.unparse(target) for target in item.targets] == ["name"]:
            return str(ast.literal_eval(item.value))
    return ""


@cache
def all_tests() -> dict[tuple[Path, str], references.Touched]:
    """Returns the references of every test, by file and name.

    Tests directly in the tests' folder are about the whole package and name everything, so they are left out.
    """
    files = sorted(TESTS.glob("*/**/test_*.py"))
    return {(path, name): found for path in files for name, found in references.tests_of(path).items()}


@cache
def about() -> dict[tuple[Path, str], int]:
    """Returns the number of statements that each test refers to; a small number means a specific test."""
    return {test: sum(one.touched_by(found) for one in statements()) for test, found in all_tests().items()}


def tests_for(statement: Statement) -> tuple[str, list[tuple[Path, str]]]:
    """Returns the definition through which a statement is tested (empty if directly), and its most specific tests."""
    direct = [test for test, found in all_tests().items() if statement.touched_by(found)]
    if direct:
        return "", _most_about(statement, direct)
    # A definition that no test names is tested through its users, preferably by tests that also name the method.
    for methods in (statement.methods, frozenset()):
        user, through = _by_way_of(statement.place, methods)
        if through:
            return user, _most_about(statement, through)
    return "", []


def _by_way_of(place: str, methods: frozenset[str]) -> tuple[str, list[tuple[Path, str]]]:
    """Returns the nearest user of a definition that tests refer to, and these tests."""
    waiting, seen = [place], {place}
    while waiting:
        users = sorted(user for one in waiting for user in references.users_of().get(one, ()) if user not in seen)
        for user in users:
            through = [t for t, found in all_tests().items() if user in found.names and methods <= found.attributes]
            if through:
                return user, through
        seen.update(users)
        waiting = users
    return "", []


def _most_about(statement: Statement, tests: list[tuple[Path, str]]) -> list[tuple[Path, str]]:
    def rank(test: tuple[Path, str]) -> tuple[object, ...]:
        path, name = test
        beside = statement.file.stem in path.stem
        same_layer = path.relative_to(TESTS).parts[0] == _room(statement.file)
        refusal = bool(REFUSAL.search(name))
        return (refusal, not beside, about()[test], not same_layer, path.as_posix(), name)

    return sorted(tests, key=rank)[:MAX_TESTS]


@cache
def table() -> str:
    """Returns a table for each source, in the order of KEYS; computed once per process."""
    groups: dict[str, list[Statement]] = {key: [] for key in (*KEYS, "")}
    # All syntax trees stay in memory, and garbage collection among them would double the running time.
    collects = gc.isenabled()
    gc.disable()
    try:
        for statement in statements():
            groups[source_of(statement)].append(statement)
        return "\n\n".join(
            f"### {f'Of [{key}]' if key else OWN}\n\n{_rows(found)}" for key, found in groups.items() if found
        )
    finally:
        if collects:
            gc.enable()


def source_of(statement: Statement) -> str:
    """Returns the key at the head of the citation; empty for proofs of this project or of textbooks."""
    found = re.match(r"\W*\[([A-Z]{2,}\d*)\b", statement.parts["Theorem"])
    if found and found[1] not in KEYS:
        sys.exit(
            f"theorems: {statement.name} cites [{found[1]}]; add it to 'Citation keys' in docs/theorems.md and to "
            "CITATIONS in src/shuffledp/statement.py."
        )
    return found[1] if found else ""


def _rows(found: list[Statement]) -> str:
    lines = ["| statement | requires | code and tests |", "|---|---|---|"]
    for statement in found:
        head, colon, detail = _plain(statement.parts["Theorem"]).partition(": ")
        home = VERIFIER.parent if statement.file.is_relative_to(VERIFIER) else PACKAGE
        code = statement.file.relative_to(home).as_posix()
        deviates = _plain(statement.parts.get("Deviates", ""))
        cells = [
            f"**{head.rstrip('.')}**{colon}{detail}<br>*{_plain(statement.summary).rstrip('.')}.*",
            _plain(statement.parts.get("Requires", "–")) + (f"<br>**Deviates**: {deviates}" if deviates else ""),
            f"`{statement.name}` in [{code}](../{home.relative_to(ROOT).as_posix()}/{code}"
            f"#{statement.name.rpartition('.')[2]})<br>" + _tests_cell(statement),
        ]
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines)


def _tests_cell(statement: Statement) -> str:
    user, tests = tests_for(statement)
    words = [f"by way of `{user.rpartition('.')[2]}`:"] if user else []
    return "<br>".join([*words, *(_link(*test) for test in tests)]) or "–"


def _link(path: Path, name: str) -> str:
    file = path.relative_to(TESTS).as_posix()
    return f"[{file}::{name}](../tests/{file}#{name})"


def _plain(text: str) -> str:
    """Returns a docstring's text as Markdown, with underscores and stars escaped."""
    parts = re.split(r"(`[^`]*`)", re.sub(r"(?<=[\w)])_\+", "₊", text.replace("``", "`")))
    return "".join(
        one if place % 2 else re.sub(r"(?<=[)'∫])_(?=\S)|(?<=\w)\*", r"\\\g<0>", one) for place, one in enumerate(parts)
    )


def renewed(page: str) -> str:
    """Returns the page with a new table between its two markers."""
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
