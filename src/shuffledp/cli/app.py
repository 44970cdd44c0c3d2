"""The command tree, and the one place where errors become a sentence and an exit code."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

import shuffledp
from shuffledp.cli import (
    amplify,
    ask,
    audit,
    calibrate,
    campaign,
    collect,
    compare,
    crowd,
    demo,
    keys,
    ledger,
    mechanisms,
    metric,
    metric_compare,
    plan,
    receive,
    reproduce,
    send,
    serve,
    simulate,
    tour,
    tradeoff,
    verify,
    web,
)
from shuffledp.cli.once import OnceEach
from shuffledp.errors import ShuffledpError

BAD = (TyperException, ShuffledpError, ValueError, TypeError, OverflowError, OSError, MemoryError)
"""What bad input, or asking for too much, raises."""
NOT_PARSED = re.compile(r"Input should be a valid (number|integer), unable to parse string as an? \w+")
"""The parser's words for what is no number."""
STOPPED = 130
"""What a shell calls a program that Ctrl-C ended."""

app = typer.Typer(
    cls=OnceEach,
    name="shuffledp",
    help="The shuffle model of differential privacy: certified numbers.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shuffledp {shuffledp.__version__}")
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
        tour.run()


app.command("amplify")(amplify.command)
app.command("compare")(compare.command)
app.command("crowd")(crowd.command)
app.command("calibrate")(calibrate.command)
app.command("tradeoff")(tradeoff.command)
app.command("mechanisms")(mechanisms.command)
app.command("audit")(audit.command)
app.command("verify")(verify.command)
app.command("reproduce")(reproduce.command)
metric.app.command("compare")(metric_compare.command)
app.add_typer(metric.app, name="metric")
app.command("plan")(plan.command)
app.command("simulate")(simulate.command)
app.command("collect")(collect.command)
app.command("encode")(collect.encode)
app.command("shuffle")(collect.shuffle)
app.command("release")(collect.release)
app.command("estimate")(collect.estimate)
app.add_typer(keys.app, name="keys")
app.add_typer(campaign.app, name="campaign")
app.command("serve")(serve.command)
app.command("send")(send.command)
app.command("receive")(receive.command)
app.command("demo")(demo.command)
app.command("ask", cls=ask.TakesRanges)(ask.command)
app.add_typer(ledger.app, name="ledger")
app.command("web")(web.command)


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
    return f"{command}: {sentence}" if found and command and speaker in _python_names() else message


def _python_names() -> set[str]:
    """What is public in Python, without the mechanisms, which commands name too, and the words that are things."""
    rooms = (shuffledp, shuffledp.metric, shuffledp.tradeoff)
    names = {name for room in rooms for name, what in vars(room).items() if callable(what) and not _is_mechanism(what)}
    return (names | {"task", "at_distance"}) - {"plan", "DistanceMatrix"}


def _is_mechanism(what: object) -> bool:
    return isinstance(what, type) and issubclass(what, shuffledp.Mechanism)


def _fail(message: str, status: int = 2) -> None:
    print(f"shuffledp: {message}", file=sys.stderr)
    sys.exit(status)
