"""Runs a page as a reader would: every command and every block of Python, from top to bottom, in one folder.

``console`` blocks hold ``$ shuffledp …`` with output below; ``…`` stands for anything, and a block without output only
has to work. ``python`` blocks share one session; ``print(…)  # text`` prints that text, or a ``text`` block below is
what was printed. ``sh`` blocks are commands whose output is not shown. What only a network or a person can do is listed
here, and nothing else is left out.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli import run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPECTED_OUTPUT = re.compile(r"^print\(.*\)\s+# (.*)$", re.MULTILINE)
SKIPPED_COMMANDS = ("pip install", "cd ", "python -m venv", "./run", "./test", "scripts/docs", "git clone")


@dataclass
class Page:
    """A page of docs/ in the order of its blocks."""

    path: Path
    session: dict[str, object] = field(default_factory=dict)

    def run(self) -> None:
        """All blocks; what they write goes to the current folder."""
        printed = None
        for kind, text in BLOCK.findall(self.path.read_text("utf-8")):
            if kind == "text" and printed is not None:
                check_output(text, printed, self.path.name)
            printed = None
            if kind == "python":
                printed = self._python(text)
            elif kind in ("console", "sh"):
                for command, shown in parse_commands(text):
                    self._command(command, shown)
            else:
                assert kind in ("text", "json", "csv", "html"), f"{self.path.name}: a block of {kind or 'nothing'}"

    def _python(self, text: str) -> str | None:
        """What was printed, where no comments say what it should be."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, self.path.name, "exec"), self.session)
        if not EXPECTED_OUTPUT.search(text):
            return out.getvalue()
        for shown, real in zip(EXPECTED_OUTPUT.findall(text), out.getvalue().splitlines(), strict=True):
            check_output(shown, real, self.path.name)
        return None

    def _command(self, command: str, shown: str) -> None:
        if command.startswith(SKIPPED_COMMANDS):
            return
        command, _, target = command.partition(" > ")
        program, *words = shlex.split(command, comments=True)
        assert program == "shuffledp", f"{self.path.name}: {command}"
        outcome = run(*words)
        assert outcome.status == 0, f"{command}: {outcome.err}"
        if target:
            Path(target.strip()).write_text(outcome.out, "utf-8")
        check_output(shown, outcome.out + outcome.err, command)


def parse_commands(text: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what is shown below it; a line that ends with \\ goes on."""
    text = text.replace("\\\n", " ")
    if "$ " not in text:
        return [(line, "") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    parts = [part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    return [(command.strip(), shown) for command, _, shown in parts]


def check_output(shown: str, real: str, where: str) -> None:
    """What is shown is there, in this order, however lines are broken; … is anything, and so is the slack."""
    words, found = " ".join(shown.split()), " ".join(real.split())
    pattern = re.sub(r"(?:\\ )?…(?:\\ )?", ".*?", re.escape(words))
    pattern = re.sub(r"(numerical\\ slack\\ )\S+?(?=\\ )", r"\1\\S+", pattern)
    assert re.search(pattern, found, re.DOTALL), f"{where} shows\n{words}\nbut there is\n{found}"
