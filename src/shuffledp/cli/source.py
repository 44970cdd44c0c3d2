"""Where rows come from, on the command line: files, columns, whose they are, and the rules for their cells."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import typer

from shuffledp.tasks.rules import LONGER, MISSING, REFUSE, SEPARATOR, Rules

Command = Callable[..., None]
KEYWORD = inspect.Parameter.KEYWORD_ONLY
Inputs = Annotated[
    list[str],
    typer.Option(
        "--input",
        metavar="FILE",
        help="CSV (.csv, .tsv, .csv.gz), Parquet or Arrow: a file, a directory, a pattern, or - for standard input; "
        "repeatable.",
    ),
]
MaybeInputs = Annotated[list[str] | None, *Inputs.__metadata__]
OPTIONS: dict[str, tuple[Any, Any]] = {
    "column": (
        Annotated[
            list[str] | None,
            typer.Option("--column", help="The column with the users' values; repeatable where several are read."),
        ],
        None,
    ),
    "user": (
        Annotated[
            str | None, typer.Option("--user", help="The column that says whose each row is; else a row is a person.")
        ],
        None,
    ),
    "rows_per_user": (
        Annotated[
            int,
            typer.Option("--rows-per-user", help="The most rows of one user that are used, the first of the input."),
        ],
        1,
    ),
    "gather": (
        Annotated[bool, typer.Option("--gather", help="All rows of a user are one list: for sets and pairs.")],
        False,
    ),
    "missing": (
        Annotated[str, typer.Option("--missing", help=f"Rows without a value: {', '.join(MISSING)}.")],
        REFUSE,
    ),
    "gap": (
        Annotated[
            list[str] | None,
            typer.Option("--gap", metavar="TEXT", help="A text that stands for no value, such as NA; repeatable."),
        ],
        None,
    ),
    "clip": (Annotated[bool, typer.Option("--clip", help="Move numbers beyond the range to its ends.")], False),
    "separator": (
        Annotated[str, typer.Option("--separator", help="What divides the entries of a list in one cell.")],
        SEPARATOR,
    ),
    "longer": (
        Annotated[str, typer.Option("--longer", help=f"Lists of more entries than planned: {', '.join(LONGER)}.")],
        REFUSE,
    ),
    "delimiter": (
        Annotated[str | None, typer.Option("--delimiter", help="What divides the fields of a CSV file.")],
        None,
    ),
}


@dataclass(frozen=True)
class Origin:
    """The options that tell where rows come from, as typed."""

    paths: tuple[str, ...]
    columns: tuple[str, ...]
    user: str | None
    rows_per_user: int
    gather: bool
    rules: Rules
    delimiter: str | None

    @classmethod
    def given(
        cls, paths: list[str] | None, column: list[str] | None, user: str | None, rows_per_user: int, gather: bool,
        missing: str, gap: list[str] | None, clip: bool, separator: str, longer: str, delimiter: str | None,
    ) -> Origin:  # fmt: skip
        """From the options as parsed."""
        rules = Rules(missing, tuple(gap or ()), clip, separator, longer)
        return cls(tuple(paths or ()), tuple(column or ()), user, rows_per_user, gather, rules, delimiter)


def takes_input(function: Command) -> Command:
    """Put the options of an input where the function's parameter ``source`` stands, and hand it a ``Origin``.

    Where the parameter may be None, so may the input.
    """
    signature, hints = inspect.signature(function), get_type_hints(function, include_extras=True)
    needed = hints["source"] is Origin
    shared = [inspect.Parameter("input_", KEYWORD, annotation=Inputs if needed else MaybeInputs)]
    if not needed:
        shared[0] = shared[0].replace(default=None)
    shared += [
        inspect.Parameter(name, KEYWORD, default=known, annotation=kind) for name, (kind, known) in OPTIONS.items()
    ]
    own = [one.replace(annotation=hints[name], kind=KEYWORD) for name, one in signature.parameters.items()]
    listed = [each for one in own for each in (shared if one.name == "source" else [one])]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        paths = given.pop("input_")
        fields = {name: given.pop(name) for name in OPTIONS}
        function(source=Origin.given(paths, **fields), **given)

    run.__signature__ = signature.replace(parameters=listed)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in listed}
    return run
