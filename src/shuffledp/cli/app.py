"""The program, and the one place where errors become a sentence and an exit code."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from shuffledp.cli.command_list import AllCommands
from shuffledp.errors import ShuffledpError
from shuffledp.escaping import visible
from shuffledp.version import __version__

BAD = (TyperException, ShuffledpError, ValueError, TypeError, OverflowError, OSError, MemoryError)
"""What bad input, or asking for too much, raises."""
NOT_PARSED = re.compile(r"Input should be a valid (number|integer), unable to parse string as an? \w+")
"""The parser's words for what is no number."""
STOPPED = 130
"""What a shell calls a program that Ctrl-C ended."""

app = typer.Typer(
    cls=AllCommands,
    name="shuffledp",
    help="The shuffle model of differential privacy: certified numbers.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shuffledp {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """The shuffle model of differential privacy: certified numbers."""
    if context.invoked_subcommand is None:
        from shuffledp.cli import tour

        tour.run()


def run() -> None:
    """Run the command line; bad input is one sentence on stderr and exit code 2."""
    try:
        status = app(standalone_mode=False)
    except BAD as error:
        if os.environ.get("SHUFFLEDP_DEBUG") and not isinstance(error, TyperException | OSError | MemoryError):
            raise
        _fail(sentence_of(error))
    except (KeyboardInterrupt, typer.Abort):
        _stopped()
    else:
        # The parser turns Ctrl-C into this status.
        if status == STOPPED:
            _stopped()
        sys.exit(status if isinstance(status, int) else 0)


def sentence_of(error: Exception) -> str:
    """What is said of bad input: one sentence, in the words of the command that stands in ``sys.argv``."""
    if isinstance(error, TyperException):
        said = _sentence(error)
    elif isinstance(error, MemoryError):
        said = "this needs more memory than there is; ask for less."
    elif isinstance(error, OSError):
        said = f"cannot use {error.filename}: {error.strerror}." if error.filename else f"{error}."
    else:
        said = _as_command(str(error))
    return " ".join(said.split())


def _stopped() -> None:
    _fail("Stopped.", STOPPED)


def _sentence(error: TyperException) -> str:
    """The parser's complaint as a full sentence, with what was typed where it says so."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    text = NOT_PARSED.sub("expected a number such as 0.5 or 1e-8", text)
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _as_command(message: str) -> str:
    """A sentence of a Python function or class, which nobody called by typing a command, is the command's own."""
    speaker, found, sentence = message.partition(": ")
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    return f"{command}: {sentence}" if found and command not in ("", speaker) and _is_python(speaker) else message


def _is_python(name: str) -> bool:
    """Whether it is public in Python, and neither a mechanism, which commands name too, nor a word that is a thing."""
    import shuffledp

    if name in ("plan", "DistanceMatrix"):
        return False
    rooms = (shuffledp, shuffledp.metric, shuffledp.tradeoff)
    found = [getattr(room, name) for room in rooms if name in dir(room)]
    return name == "task" or any(callable(what) and not _is_mechanism(what) for what in found)


def _is_mechanism(what: object) -> bool:
    from shuffledp.mechanisms.mechanism import Mechanism

    return isinstance(what, type) and issubclass(what, Mechanism)


def _fail(message: str, status: int = 2) -> None:
    print(f"shuffledp: {visible(message)}", file=sys.stderr)
    sys.exit(status)
