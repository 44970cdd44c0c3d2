"""Collects everything that Sphinx reads in one folder: docs/, the project's pages, and pages made from the code."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path, PurePosixPath

import api_page
import matrix_page
import picture_page

PROJECT = {
    "README.md": "project/readme.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
"""Pages outside docs/, and their places on the site."""
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
TOCTREE = re.compile(r"^[`:]{3}\{toctree\}(.*?)^[`:]{3}$", re.MULTILINE | re.DOTALL)
OTHERS = "<!-- other pages -->"
"""Marker of the list that takes all pages not named in any other list."""


def stage(root: Path, staged: Path) -> None:
    """Writes all pages; links to other files become ``repo:`` links."""
    staged.mkdir(parents=True)
    pages = {f"docs/{path.relative_to(root / 'docs').as_posix()}": path.relative_to(root / "docs").as_posix()
             for path in sorted((root / "docs").rglob("*.md"))}  # fmt: skip
    pages |= {name: place for name, place in PROJECT.items() if (root / name).is_file()}
    for name, place in pages.items():
        _write(staged / place, _relinked((root / name).read_text("utf-8"), name, place, pages))
    for name in ("_static", "images"):
        shutil.copytree(root / "docs" / name, staged / name)
    api_page.write(staged)
    matrix_page.write(staged)
    picture_page.write(root, staged)
    _list_others(staged)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _relinked(text: str, name: str, place: str, pages: dict[str, str]) -> str:
    """Returns a page with its links adapted to its place on the site; code is unchanged."""

    def new(link: re.Match[str]) -> str:
        target, mark, anchor = link[2].partition("#")
        if not target or ":" in target:
            return link[0]
        file = os.path.normpath(PurePosixPath(name).parent / target)
        # Pictures of docs/ keep their places.
        there = pages.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else "")
        if there:
            return f"{link[1]}{os.path.relpath(there, PurePosixPath(place).parent)}{mark}{anchor}{link[3]}"
        return f"{link[1]}repo:{file}{mark}{anchor}{link[3]}"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(new, part) for part in parts)


def _list_others(staged: Path) -> None:
    """Adds the pages that no table of contents names to the list with the marker, so that a new page needs no entry."""
    texts = {path: path.read_text("utf-8") for path in staged.rglob("*.md")}
    named = {name for path, text in texts.items() for name in _listed(path.relative_to(staged).parent, text)}
    left = [path.stem for path in sorted(staged.glob("*.md")) if path.stem not in {*named, "index"}]
    block = ":::{toctree}\n:hidden:\n\n" + "\n".join(f"/{name}" for name in left) + "\n:::" if left else ""
    for path, text in texts.items():
        if OTHERS in text:
            path.write_text(text.replace(OTHERS, block), "utf-8")


def _listed(folder: Path, text: str) -> list[str]:
    """Returns the pages in a page's tables of contents, as paths from the top."""
    blocks = TOCTREE.findall(text)
    words = [word for block in blocks for word in re.findall(r"^(?:.*<)?([\w/.-]+)>?$", block, re.MULTILINE)]
    return [word.lstrip("/") if word.startswith("/") else (folder / word).as_posix() for word in words]
