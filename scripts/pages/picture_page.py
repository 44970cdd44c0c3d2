"""Writes the gallery: runs the scripts of docs/gallery and shows each with its output and its picture."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import runpy
import shlex
import sys
import tempfile
from pathlib import Path
from unittest import mock


def write(root: Path, staged: Path) -> None:
    """Writes a page with a card for each script, and its pictures beside it."""
    pictures = staged / "pictures"
    pictures.mkdir()
    sections = [_section(script, pictures) for script in sorted((root / "docs" / "gallery").iterdir())]
    head = "# Gallery\n\nMade anew whenever these pages are: each picture by the lines below it.\n\n"
    programs = "Longer programs: [`examples/`](repo:examples), told about on [the page about learning](learning.md).\n"
    (staged / "gallery.md").write_text(head + "\n".join(sections) + "\n" + programs, "utf-8")


def _section(script: Path, pictures: Path) -> str:
    text = script.read_text("utf-8")
    title, words, code = (_of_python if script.suffix == ".py" else _of_shell)(text)
    printed = run(script, pictures)
    kind = "python" if script.suffix == ".py" else "sh"
    shown = f"\n```text\n{printed}```\n" if printed.strip() and kind == "python" else ""
    drop = f":::{{dropdown}} The lines behind it\n```{kind}\n{code}```\n{shown}:::\n"
    return f"## {title}\n\n{words}\n\n![{title}](pictures/{script.stem}.png)\n\n{drop}"


def _of_python(text: str) -> tuple[str, str, str]:
    _, docstring, code = text.split('"""', 2)
    title, _, words = docstring.strip().partition("\n\n")
    return title, words, code.lstrip()


def _of_shell(text: str) -> tuple[str, str, str]:
    comments = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    return comments[0], " ".join(comments[1:]).strip(), "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith("#")
    )  # fmt: skip


def run(script: Path, pictures: Path) -> str:
    """Runs a script and returns its output; its picture, named after the script, goes to the folder."""
    out, before = io.StringIO(), Path.cwd()
    with tempfile.TemporaryDirectory() as room, contextlib.redirect_stdout(out):
        os.chdir(room)
        try:
            if script.suffix == ".py":
                runpy.run_path(str(script))
            else:
                _command(_of_shell(script.read_text("utf-8"))[2])
            picture = Path(f"{script.stem}.png")
            assert picture.is_file(), f"{script.name} left no {picture}"
            (pictures / picture.name).write_bytes(picture.read_bytes())
        finally:
            os.chdir(before)
    return inspect.cleandoc(out.getvalue()) + "\n" if out.getvalue() else ""


def _command(text: str) -> None:
    from shuffledp.cli import main

    said = io.StringIO()
    with mock.patch.object(sys, "argv", shlex.split(text)), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(said.getvalue()) from end
