"""The options that several commands share: one spelling and one sentence of help each.

``takes_randomizer`` gives a command the options that name a randomizer, and hands it one ``Choice``.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from shuffledp import argument
from shuffledp.bounds.schedule import WHO, Schedule
from shuffledp.cli.randomizer import Choice
from shuffledp.mechanisms import visitor

GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
"""Commas where people put them, and nowhere else: 1,5 is not taken for 15."""


def number(text: str | float) -> float:
    """A number as people write it: 5,000,000, 5_000_000, 5e6; a share as 2%. Defaults are numbers already."""
    if not isinstance(text, str):
        return text
    plain = text.strip()
    share = plain.endswith("%")
    plain = plain.removesuffix("%")
    if GROUPED.fullmatch(plain):
        plain = plain.replace(",", "")
    try:
        found = float(plain)
    except ValueError:
        raise typer.BadParameter(f"expected a number such as 5000000, 5,000,000 or 5e6, got {text!r}.") from None
    # As written: 99.9 / 100 is not the float 0.999.
    return float(Decimal(plain.replace("_", "")) / 100) if share and math.isfinite(found) else found


def share(text: str | float) -> float:
    """A share of a whole, as 95% or 0.95; what is beyond is a percentage without its sign."""
    with suppress(typer.BadParameter):
        if (found := number(text)) < 1:
            return found
    raise typer.BadParameter(f"expected a share below the whole, such as 95% or 0.95, got {text!r}.")


PARTICIPANTS = "How many users take part, the one to protect included."
Users = Annotated[float, typer.Option(parser=number, help=PARTICIPANTS)]
MaybeUsers = Annotated[float | None, typer.Option(parser=number, help=PARTICIPANTS)]
Of = Annotated[
    float | None, typer.Option(parser=number, help="The users of each round are drawn, secretly, out of so many.")
]
Rate = Annotated[
    str | None, typer.Option(metavar="SHARE", help="Instead of --users: a secret coin for each of --of, 2% or 0.02.")
]
Rounds = Annotated[
    float, typer.Option(parser=number, help="How many rounds there are, over which everything is promised.")
]
Delta = Annotated[float, typer.Option(help="Target δ.")]
BoundName = Annotated[str, typer.Option(help="Which theorem; see `shuffledp amplify --help`.")]
Colluding = Annotated[float, typer.Option(parser=number, help="Users who tell the analyst their messages.")]
Effort = Annotated[
    str, typer.Option(help="quick, or full: also what takes seconds, every crowd; often a much smaller ε.")
]
Confidence = Annotated[
    float, typer.Option(parser=share, metavar="SHARE", help="How sure each interval is to hold the truth: 90% or 0.9.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


def schedule_of(
    who: str, users: float | None, of: float | None, rate: str | None, rounds: float | None = None
) -> Schedule:
    """Who takes part and how often, from the options; a sentence of the command where they do not go together."""
    with argument.said_by(who, WHO):
        if users is None and rate is None:
            raise ValueError(f"{who}: give --users, or --of and --rate.")
        return Schedule(users, of, rate, 1 if rounds is None else rounds)  # type: ignore[arg-type]


def _load(path: Path | None) -> Path | None:
    if path is not None:
        visitor.load(path)
    return path


MechanismFile = Annotated[
    Path | None,
    typer.Option(
        "--mechanism-file",
        callback=_load,
        is_eager=True,
        metavar="FILE",
        help="Python that defines mechanisms of your own.",
    ),
]
"""Read before anything else, so that a command, or a plan that it loads, finds these mechanisms by their names."""

# --- the randomizer -----------------------------------------------------------------------------------------------

SETTINGS = "A setting of the mechanism; may be repeated."
RANDOMIZER: Mapping[str, tuple[Any, str]] = {
    "mechanism": (str | None, "A name from `shuffledp mechanisms`."),
    "mechanism_file": (MechanismFile, ""),
    "epsilon_local": (float | None, "Local ε0; alone: any ε0-LDP randomizer."),
    "delta_local": (float | None, "δ0 of an (ε0, δ0)-LDP randomizer, with --epsilon-local alone."),
    "set_": (Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS)], ""),
    "table": (Path | None, "CSV of a randomizer: a row per input, no header."),
    "p": (float | None, "Largest ratio between two inputs, above 1 or inf."),
    "beta": (float | None, "Largest total variation between two inputs."),
    "q": (float | None, "Largest ratio to another user's messages."),
    "q0": (float | None, "That ratio where input 0 is likelier."),
    "q1": (float | None, "That ratio where input 1 is likelier."),
    "q_common": (float | None, "That ratio on the part both inputs share."),
}
"""What each field of ``Choice`` is on the command line: its type and, where the type does not say it, its help."""

Command = Callable[..., None]


def takes_randomizer(
    command: str, *names: str, helps: Mapping[str, str] | None = None, before: Mapping[str, str] | None = None
) -> Callable[[Command], Command]:
    """Put the options of a randomizer where the function's parameter ``choice`` stands, and hand it a ``Choice``.

    ``names``: which of them, all by default. ``helps``: another sentence for some. ``before``: an own parameter of the
    function, and the option of these before which it is listed.
    """
    wanted = names or tuple(RANDOMIZER)

    def decorate(function: Command) -> Command:
        signature = inspect.signature(function)
        hints = get_type_hints(function, include_extras=True)
        shared = [_parameter(name, (helps or {}).get(name)) for name in wanted]
        own = {name: one.replace(annotation=hints[name]) for name, one in signature.parameters.items()}
        listed = _in_order(own, shared, before or {})

        @functools.wraps(function)
        def run(**given: Any) -> None:
            fields = {name: given.pop(name) for name in wanted}
            function(choice=Choice.given(command, **fields), **given)

        run.__signature__ = signature.replace(parameters=listed)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in listed}
        return run

    return decorate


def _parameter(name: str, text: str | None) -> inspect.Parameter:
    kind, known = RANDOMIZER[name]
    annotation = Annotated[kind, typer.Option(help=text or known)] if known else kind
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _in_order(
    own: Mapping[str, inspect.Parameter], shared: list[inspect.Parameter], before: Mapping[str, str]
) -> list[inspect.Parameter]:
    """The function's parameters by keyword, the shared ones in the place of ``choice``."""
    moved = {later: own[name] for name, later in before.items()}
    group = [one for option in shared for one in ([moved[option.name]] if option.name in moved else []) + [option]]
    rest = [one for name, one in own.items() if name not in before]
    listed = [each for one in rest for each in (group if one.name == "choice" else [one])]
    return [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in listed]
