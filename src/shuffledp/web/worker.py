"""A process that runs commands for the page: one at a time, within a budget of memory, until it is ended.

It reads a command a line and answers in lines, all JSON: how far it is, then what came out. Whoever asks may end it at
any time.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

MEMORY = 1 << 30
"""What a command may take beyond what the loaded package has."""
LARGEST_FILE = 1 << 26
TELL_SECONDS = 0.1
READY = {"ready": True}
Tell = Callable[[Mapping[str, Any]], None]


def main(nice: int = 0) -> None:
    """Answer until there is nothing more to read; ``nice``: by how much others go first."""
    os.nice(nice)
    asked, told = sys.stdin.buffer, os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What a library prints must not be taken for an answer.
    os.dup2(2, 1)
    command = _loaded()
    limit(MEMORY)

    def tell(line: Mapping[str, Any]) -> None:
        told.write(json.dumps(line, ensure_ascii=False) + "\n")
        told.flush()

    tell(READY)
    for line in asked:
        tell(answered(command, json.loads(line), tell))


def _loaded() -> Any:
    """The command tree, with all that the first question would otherwise wait for."""
    import typer

    import shuffledp
    from shuffledp.cli.app import app
    from shuffledp.mechanisms import catalogue

    catalogue.all_mechanisms()
    warm = shuffledp.amplify(shuffledp.KRR(1.0, options=4), 1000, effort="quick")
    warm.epsilon(1e-6)
    return typer.main.get_command(app)


def limit(memory: int) -> None:
    """A budget, from what is taken now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0]) if sys.platform == "linux" else 0
    if pages:
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answered(command: Any, asked: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """What a command says and writes; or the sentence that it refuses by."""
    from shuffledp.cli import bars
    from shuffledp.cli.app import BAD, sentence_of

    sys.argv = ["shuffledp", *asked["arguments"]]
    out = io.StringIO()
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="shuffledp-web-") as room:
        os.chdir(room)
        try:
            for name, text in asked["files"].items():
                Path(name).write_text(text, "utf-8")
            quiet = contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO())
            with quiet[0], quiet[1], bars.heard_by(_now_and_then(tell), partial(_tell_first, tell)):
                command.main(list(asked["arguments"]), prog_name="shuffledp", standalone_mode=False)
            written = {name: Path(name).read_text("utf-8") for name in asked["written"]}
        except BAD as error:
            return {"refused": sentence_of(error)}
        except RecursionError:
            return {"refused": f"{asked['operation']}: this is nested too deeply."}
        finally:
            os.chdir(home)
    return {"answer": json.loads(out.getvalue()), "files": written}


def _tell_first(tell: Tell, document: Mapping[str, Any]) -> None:
    """What is known before the rest, as JSON has it."""
    from shuffledp.document import json_text

    tell({"first": json.loads(json_text(document))})


def _now_and_then(tell: Tell) -> Callable[[str, int, int | None], None]:
    """How far it is, but not more often than anybody can see."""
    last, last_name = 0.0, ""

    def heard(name: str, done: int, total: int | None) -> None:
        nonlocal last, last_name
        now = time.monotonic()
        if name != last_name or now - last >= TELL_SECONDS:
            tell({"progress": {"step": name, "done": done, "total": total}})
            last, last_name = now, name

    return heard


if __name__ == "__main__":
    main(int(sys.argv[1]))
