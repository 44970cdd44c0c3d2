"""The program `shuffledp`: its commands; here exceptions become messages and exit codes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from shuffledp._core import __version__
from shuffledp._core.errors import ShuffledpError, error_phrase
from shuffledp._core.formatting import escape_line
from shuffledp._core.message_phrases import ArgumentWriter, write_option

# --- Repeated options ---


class UniqueOptionsGroup(TyperGroup):
    """A group whose commands refuse a repeated single-valued option, which would silently replace the first value."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Returns the command with its name and words; raises ValueError if a single-valued option is repeated."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            _check_not_repeated(str(name), command, ctx, rest)
        return name, command, rest


def _check_not_repeated(name: str, command: Any, ctx: Any, args: list[str]) -> None:
    parser = command.make_parser(ctx)
    # A group's own options end at the first word that is not an option.
    parser.allow_interspersed_args = command.allow_interspersed_args
    try:
        _, _, order = parser.parse_args(list(args))
    except TyperException:
        # The command itself reports words that it cannot parse.
        return
    names = set()
    for parameter in order:
        single = parameter.param_type_name == "option" and not (parameter.multiple or parameter.count)
        if single and parameter.name in names:
            raise ValueError(f"{name}: {parameter.opts[0]} was given twice, and takes one value; give it once.")
        names.add(parameter.name)


# --- Commands, imported when they are used ---


RESEARCH_PREFIX = "research."
"""Commands of modules with this prefix exist only in a checkout, not in the installed package."""


class CommandEntry(NamedTuple):
    """A command: ``module:name`` of a function, or of the ``app`` of a group, in this package or in ``research``."""

    target: str
    summary: str
    """First sentence of the command's help, so that commands can be listed without importing them."""
    class_name: str | None = None
    """Name of the command's own class in the same module; None for the parser's default."""


COMMAND_ENTRIES = {
    "amplify": CommandEntry("amplify:command", "Compute the certified central (ε, δ) guarantee of shuffled messages."),
    "compare": CommandEntry("compare_bounds:command", "Compare every bound, and the best known attack."),
    "crowd": CommandEntry(
        "crowd:command",
        "Compute the central (ε, δ) guarantee of each group, if groups differ in their local ε or their table.",
    ),
    "calibrate": CommandEntry("calibrate:command", "Find the most useful setting that meets a central target."),
    "tradeoff": CommandEntry("tradeoff:command", "Bound every attack on the shuffled messages, certified."),
    "mechanisms": CommandEntry(
        "mechanisms:mechanisms_command", "List every randomizer with its task and settings; with NAME, describe one."
    ),
    "audit": CommandEntry("audit_and_verify:audit_command", "Test whether a randomizer keeps its local ε."),
    "verify": CommandEntry("audit_and_verify:verify_command", "Prove a certificate's claim by an independent route."),
    "reproduce": CommandEntry(
        "research.reproduction.command:command",
        "Reproduce tables and figures of the papers: as printed, as published, as proved.",
    ),
    "plan": CommandEntry(
        "plan:plan_command", "Rank the mechanisms that meet a target by their error, and write a plan."
    ),
    "simulate": CommandEntry(
        "plan:simulate_command", "Simulate a plan with made-up users, to compare the error with the expected one."
    ),
    "collect": CommandEntry("collection:collect_command", "Collect privately: encode, shuffle, aggregate, report."),
    "encode": CommandEntry("collection:encode", "Randomize values into messages, in the role of the encoder."),
    "shuffle": CommandEntry("collection:shuffle", "Remove order and origin of messages, in the role of the shuffler."),
    "release": CommandEntry("collection:release", "Release the messages of one day, in the role of the shuffler."),
    "estimate": CommandEntry(
        "collection:estimate", "Write a report from shuffled messages, in the role of the analyst."
    ),
    "serve": CommandEntry(
        "serve:serve_command",
        "Run the shuffler: take sealed reports, close rounds by the clock, hand batches to the analyst.",
    ),
    "send": CommandEntry(
        "campaign:send_command", "Randomize, seal and send the rows of a table, in the role of the encoder."
    ),
    "receive": CommandEntry(
        "campaign:receive_command", "Open the sealed messages of a campaign for `estimate`, in the role of the analyst."
    ),
    "demo": CommandEntry(
        "demo:demo_command",
        "Run a whole campaign on this machine: clients, a shuffler that is killed once, and an analyst.",
    ),
    "ask": CommandEntry(
        "collection:ask_command", "Query a finished collection of ranges, which costs no privacy.", "TakesRanges"
    ),
    "web": CommandEntry(
        "web:web_command",
        "Open a page on this machine to explore guarantees, choose a mechanism and save its proof.",
    ),
    "metric": CommandEntry("metric:app", "Compute metric privacy, which hides nearby inputs better than distant ones."),
    "keys": CommandEntry("campaign:keys_app", "Create and show the keys of analysts and shufflers."),
    "campaign": CommandEntry("campaign:campaign_app", "Create campaigns, and run them at the shuffler."),
    "ledger": CommandEntry("ledger:app", "Show and manage privacy losses and budgets."),
}


def _research_module(name: str, place: str) -> ModuleType:
    """Imports a module of the checkout that holds this package; raises ValueError if there is no checkout."""
    checkout = Path(__file__).parents[3]
    if not (checkout / Path(*place.split("."))).with_suffix(".py").is_file():
        raise ValueError(
            f"{name}: this command needs a checkout of the source, where `./run {name}` starts it; it is not part of "
            "the installed package."
        )
    # Appended last, so that nothing in the checkout's folder hides an installed package.
    if str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    return import_module(place)


def _build_command(name: str, entry: CommandEntry) -> Any:
    """Imports a command and converts it to the parser's command object."""
    place, _, found = entry.target.partition(":")
    module = (
        _research_module(name, place) if place.startswith(RESEARCH_PREFIX) else import_module(f"shuffledp.cli.{place}")
    )
    command, parent = getattr(module, found), typer.Typer(add_completion=False, rich_markup_mode=None)
    # With a callback, typer builds a group even of a single command.
    parent.callback()(lambda: None)
    if isinstance(command, typer.Typer):
        parent.add_typer(command, name=name)
    else:
        parent.command(name, cls=getattr(module, entry.class_name) if entry.class_name else None)(command)
    group = typer.main.get_command(parent)
    assert isinstance(group, TyperGroup)
    return group.commands[name]


class LazyCommands(MutableMapping[str, Any]):
    """All commands in order, each built at its first use."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build_command(name, COMMAND_ENTRIES[name])
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands stay")

    def __iter__(self) -> Iterator[str]:
        return iter(COMMAND_ENTRIES)

    def __len__(self) -> int:
        return len(COMMAND_ENTRIES)


class LazyCommandGroup(UniqueOptionsGroup):
    """The program's group of commands, listed without importing them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMAND_ENTRIES)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the names and first sentences of the commands."""
        commands: dict[str, Any] = {
            name: TyperCommand(name, help=entry.summary) for name, entry in COMMAND_ENTRIES.items()
        }
        TyperGroup(commands=commands).format_commands(ctx, formatter)


USER_ERRORS = (TyperException, ShuffledpError, ValueError, TypeError, OverflowError, OSError, MemoryError)
"""Exceptions caused by bad input or by requests that are too large."""
UNPARSED_NUMBER_PATTERN = re.compile(r"Input should be a valid (number|integer), unable to parse string as an? \w+")
"""The parser's message for text that is not a number."""
INTERRUPT_EXIT_CODE = 130
"""Exit code of a program stopped by Ctrl-C."""

app = typer.Typer(
    cls=LazyCommandGroup,
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

        tour.run_tour()


def run() -> None:
    """Runs the command line; bad input prints one message on stderr and exits with code 2."""
    try:
        status = app(standalone_mode=False)
    except USER_ERRORS as error:
        if os.environ.get("SHUFFLEDP_DEBUG") and not isinstance(error, TyperException | OSError | MemoryError):
            raise
        _exit_with_message(format_error(error))
    except (KeyboardInterrupt, typer.Abort):
        _exit_interrupted()
    else:
        # The parser turns Ctrl-C into this status.
        if status == INTERRUPT_EXIT_CODE:
            _exit_interrupted()
        sys.exit(status if isinstance(status, int) else 0)


def format_error(error: Exception, write_argument: ArgumentWriter = write_option) -> str:
    """Returns the message for an exception, with the name of the command in ``sys.argv``."""
    if isinstance(error, TyperException):
        text = _format_parser_error(error)
    elif isinstance(error, MemoryError):
        text = "this needs more memory than there is; ask for less."
    elif isinstance(error, OSError):
        text = f"cannot use {error.filename}: {error.strerror}." if error.filename else f"{error}."
    else:
        text = _replace_function_name(error_phrase(error).write(write_argument))
    return " ".join(text.split())


def _exit_interrupted() -> None:
    _exit_with_message("Stopped.", INTERRUPT_EXIT_CODE)


def _format_parser_error(error: TyperException) -> str:
    """Returns the parser's message as a full sentence."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    text = UNPARSED_NUMBER_PATTERN.sub("expected a number such as 0.5 or 1e-8", text)
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _replace_function_name(message: str) -> str:
    """Replaces the name of a Python function or class at the head of a message by the command's name."""
    speaker, found, sentence = message.partition(": ")
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    return (
        f"{command}: {sentence}" if found and command not in ("", speaker) and _is_python_callable(speaker) else message
    )


def _is_python_callable(name: str) -> bool:
    """Returns True if `name` is a public Python callable other than a mechanism.

    Mechanisms, "plan" and "DistanceMatrix" are also words of the command line and stay in messages.
    """
    import shuffledp

    if name in ("plan", "DistanceMatrix"):
        return False
    rooms = (shuffledp, shuffledp.metric, shuffledp.tradeoff)
    found = [getattr(room, name) for room in rooms if name in dir(room)]
    return name == "task" or any(callable(what) and not _is_mechanism(what) for what in found)


def _is_mechanism(what: object) -> bool:
    from shuffledp.mechanisms.base.mechanism import Mechanism

    return isinstance(what, type) and issubclass(what, Mechanism)


def _exit_with_message(message: str, status: int = 2) -> None:
    print(f"shuffledp: {escape_line(message)}", file=sys.stderr)
    sys.exit(status)
