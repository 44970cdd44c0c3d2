"""The pages about the architecture and the words in the code name what exists; the picture shows every package."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "shuffledp"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
WALKS = PAGE.partition("\n## A number\n")[2]
CODE = re.findall(r"`([^`\n]+)`", WALKS)
PATHS = sorted({code for code in CODE if re.fullmatch(r"[\w/]+\.(py|js)", code)})
NAMES = sorted({found[1] for code in CODE if (found := re.match(r"(?!sdp\.)([\w/]+(?:\.\w+)*)(?:\(.*)?$", code))})
NAMES = [name for name in NAMES if not re.search(r"\.(py|pyi|js|json)$", name)]
WORDS = re.findall(
    r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$",
    (ROOT / "docs" / "glossary.md").read_text("utf-8").partition("\n## Words in the code\n")[2],
    re.MULTILINE,
)[1:]
DEFINED = re.compile(r"^[ \t]*(?:export )?(?:async )?(?:def |class |function )?(\w+)", re.MULTILINE)
"""The first name of a line: that of a function, class, method, field or constant."""


@functools.cache
def defined(path: Path = PACKAGE) -> set[str]:
    """The names that a file defines, or all files of a folder, and the names of modules."""
    if path.is_file():
        return set(DEFINED.findall(path.read_text("utf-8")))
    files = [*path.rglob("*.py"), *path.rglob("*.js")]
    return {file.stem for file in files}.union(*(defined(file) for file in files))


@pytest.mark.parametrize("name", PATHS)
def test_the_files_exist(name: str) -> None:
    """As paths from the package; `shuffledp/` may stand in front."""
    assert (PACKAGE / name.removeprefix("shuffledp/")).is_file()


@pytest.mark.parametrize("name", NAMES)
def test_the_names_are_defined(name: str) -> None:
    """`folder/module.name`: in that module. `Class.name`, `name`: somewhere in the package."""
    folder, _, rest = name.rpartition("/")
    module, _, rest = rest.partition(".") if folder else ("", "", rest)
    known = defined(PACKAGE / folder / f"{module}.py") if folder else defined()
    assert [part for part in rest.split(".") if part not in known] == []


@pytest.mark.parametrize(("word", "place"), WORDS, ids=[word for word, _ in WORDS])
def test_the_words_are_where_the_table_says(word: str, place: str) -> None:
    """All classes of a row are in one of its files; each of its files and folders exists."""
    paths = [PACKAGE / path for path in re.findall(r"`([\w/]+(?:/\w+|\.py))`", place)]
    assert paths
    assert all(path.exists() for path in paths)
    known = set().union(*(defined(path) for path in paths))
    assert set(re.findall(r"`([A-Z]\w+)`", word + place)) <= known


def test_the_picture_shows_every_package() -> None:
    """Once each, with the modules beside them that are no façades, and the second proof."""
    tree = ElementTree.parse(ROOT / "docs" / "_static" / "packages.svg")
    shown = [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text") if text.get("font-weight") == "700"]
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    modules = {"auditing", "statement"}
    assert all((PACKAGE / f"{module}.py").is_file() for module in modules)
    assert sorted(name for name in shown if name) == sorted({*folders, *modules, "shuffledp-verify"})
