"""Options that several commands share, each with one spelling and one usual help text.

``takes_randomizer`` adds the options that describe a randomizer to a command and passes it a ``RandomizerOptions``;
``takes_input`` does the same for input files, with an ``InputOptions``.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from shuffledp._core import pages, validation
from shuffledp.bounds.participation import Participation
from shuffledp.cli import output
from shuffledp.mechanisms import catalogue, plugins
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.privacy.metric_space import read_numbers
from shuffledp.privacy.variation_ratio import ApproximateLDP, VariationRatio
from shuffledp.statement import Statement
from shuffledp.tasks.value_parsing import DEFAULT_SEPARATOR, LONG_LIST_TREATMENTS, MISSING_TREATMENTS, REFUSE, Rules

# --- The randomizer: a mechanism of the catalogue, a table, raw parameters, or any ε0-LDP randomizer ---


@dataclass(frozen=True)
class RandomizerOptions:
    """The options that describe a randomizer, as typed; None if not given."""

    command: str
    mechanism: str | None = None
    epsilon_local: float | None = None
    delta_local: float | None = None
    settings: tuple[str, ...] = ()
    table: Path | None = None
    p: float | None = None
    beta: float | None = None
    q: float | None = None
    q0: float | None = None
    q1: float | None = None
    q_common: float | None = None

    @classmethod
    def from_options(
        cls, command: str, *, mechanism: str | None = None, mechanism_file: Path | None = None, **rest: Any
    ) -> RandomizerOptions:
        """Builds a choice from the parsed options; a file that defines one mechanism selects it."""
        if mechanism is None and mechanism_file is not None:
            names = list(plugins.load_file(mechanism_file))
            if len(names) > 1:
                raise ValueError(f"{command}: {mechanism_file.name} has {', '.join(names)}; add --mechanism NAME.")
            mechanism = names[0]
        return cls(command, mechanism, settings=tuple(rest.pop("set_", None) or ()), **rest)

    def build(self) -> Mechanism | VariationRatio | ApproximateLDP:
        """Builds the randomizer; raises ValueError if options are missing or contradict each other."""
        raw = ("p", "beta", "q", "q0", "q1", "q_common")
        if self.table is not None:
            self._check_alone("--table", "mechanism", "epsilon_local", "delta_local", *raw)
            if self.settings:
                raise ValueError(f"{self.command}: --table does not go with --set.")
            from shuffledp.mechanisms.table_and_density import FromTable

            return FromTable.from_csv(self.table)
        if self.mechanism is not None:
            self._check_alone("--mechanism", "delta_local", *raw)
            settings = load_tables(self.command, self.mechanism, parse_settings(self.command, self.settings))
            return catalogue.build(self.mechanism, self.epsilon_local, settings)
        if self.settings:
            raise ValueError(f"{self.command}: --set needs --mechanism.")
        if self.epsilon_local is not None:
            self._check_alone("--epsilon-local without --mechanism", *raw)
            if self.delta_local:
                return ApproximateLDP(self.epsilon_local, self.delta_local)
            return VariationRatio.from_ldp(self.epsilon_local)
        if self.delta_local is not None:
            raise ValueError(f"{self.command}: --delta-local needs --epsilon-local.")
        return self._build_variation_ratio()

    def builder_for_setting(self, name: str) -> Callable[[float], Mechanism | VariationRatio | ApproximateLDP]:
        """Returns a function from the local ε, or another setting, to the randomizer."""
        if self.table is not None:
            raise ValueError(f"{self.command}: --table leaves only users or rounds to find; add --find.")
        if name == "epsilon":
            if self.epsilon_local is not None:
                raise ValueError(f"{self.command}: --epsilon-local is the searched setting; leave it out.")
            return lambda value: dataclasses.replace(self, epsilon_local=value).build()
        if name in parse_settings(self.command, self.settings):
            raise ValueError(f"{self.command}: {name} is the searched setting; leave out --set {name}=….")
        return lambda value: dataclasses.replace(self, settings=(*self.settings, f"{name}={value!r}")).build()

    def _build_variation_ratio(self) -> VariationRatio:
        if self.p is None or self.beta is None:
            raise ValueError(f"{self.command}: give --mechanism, --table, --epsilon-local, or --p, --beta and --q.")
        if self.q is not None and self.q0 is None and self.q1 is None:
            return VariationRatio(self.p, self.beta, self.q, self.q_common)
        if self.q is None and self.q0 is not None and self.q1 is not None:
            return VariationRatio(self.p, self.beta, (self.q0, self.q1), self.q_common)
        raise ValueError(f"{self.command}: give either --q, or both --q0 and --q1.")

    def _check_alone(self, option: str, *others: str) -> None:
        extra = [f"--{name.replace('_', '-')}" for name in others if getattr(self, name) is not None]
        if extra:
            raise ValueError(f"{self.command}: {option} does not go with {', '.join(extra)}.")


def parse_settings(command: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Parses the pairs of ``--set name=value``."""
    result: dict[str, str] = {}
    for text in texts:
        key, found, value = text.partition("=")
        if not found or not key or not value:
            raise ValueError(f"{command}: --set takes name=value, got {text!r}.")
        if key in result:
            raise ValueError(f"{command}: --set {key} must be given once, got it twice.")
        result[key] = value
    return result


def load_tables(command: str, mechanism: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Replaces the file name of a table among the settings by the table's rows."""
    name = catalogue.find_buildable_class(mechanism).table_setting
    return {key: read_numbers(command, text) if key == name else text for key, text in settings.items()}


def parse_input_value(command: str, option: str, text: str) -> Any:
    """Parses one input of a mechanism: a number, or a JSON list."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float | list):
        raise ValueError(f"{command}: {option} must be a number or a JSON list, got {text!r}.")
    return value


GROUPED_NUMBER_PATTERN = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
"""A number with commas between thousands; 1,5 does not match, so that it is never read as 15."""


def number(text: str | float) -> float:
    """Parses a number such as 5,000,000, 5_000_000, 5e6 or 2%; numbers, such as defaults, are returned as they are."""
    if not isinstance(text, str):
        return text
    plain = text.strip()
    share = plain.endswith("%")
    plain = plain.removesuffix("%")
    if GROUPED_NUMBER_PATTERN.fullmatch(plain):
        plain = plain.replace(",", "")
    try:
        found = float(plain)
    except ValueError:
        raise typer.BadParameter(f"expected a number such as 5000000, 5,000,000 or 5e6, got {text!r}.") from None
    # In decimal arithmetic, because 99.9 / 100 is not the float 0.999.
    return float(Decimal(plain.replace("_", "")) / 100) if share and math.isfinite(found) else found


def share(text: str | float) -> float:
    """Parses a share such as 95% or 0.95; a number of 1 or more, such as 95 without its sign, is refused."""
    with suppress(typer.BadParameter):
        if (found := number(text)) < 1:
            return found
    raise typer.BadParameter(f"expected a share below the whole, such as 95% or 0.95, got {text!r}.")


USERS_HELP = "Number of users who take part, including the protected one."
Users = Annotated[float, typer.Option(parser=number, help=USERS_HELP)]
MaybeUsers = Annotated[float | None, typer.Option(parser=number, help=USERS_HELP)]
PeopleSampledFrom = Annotated[
    float | None,
    typer.Option(parser=number, help="Number of people from whom the users of each round are secretly drawn."),
]
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE", help="Instead of --users: probability with which each of --of takes part, such as 2% or 0.02."
    ),
]
Rounds = Annotated[float, typer.Option(parser=number, help="Number of rounds that the guarantee covers together.")]
Delta = Annotated[float, typer.Option(help="Target δ.")]
BoundName = Annotated[str, typer.Option(help="Name of the theorem; see `shuffledp amplify --help`.")]
Colluding = Annotated[
    float, typer.Option(parser=number, help="Number of users who reveal their messages to the analyst.")
]
Effort = Annotated[
    str,
    typer.Option(help="quick, or full: also bounds that take seconds and search all datasets; often a much smaller ε."),
]
Confidence = Annotated[
    float, typer.Option(parser=share, metavar="SHARE", help="Confidence of each interval, such as 90% or 0.9.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def build_participation(
    who: str, users: float | None, of: float | None, rate: str | None, rounds: float | None = None
) -> Participation:
    """Builds the schedule from the options; raises ValueError with the command's name if they contradict each other."""
    with validation.relabel_errors(who, "Participation"):
        if users is None and rate is None:
            raise ValueError(f"{who}: give --users, or --of and --rate.")
        return Participation(users, of, rate, 1 if rounds is None else rounds)  # type: ignore[arg-type]


def _load_mechanisms(path: Path | None) -> Path | None:
    if path is not None:
        plugins.load_file(path)
    return path


MechanismFile = Annotated[
    Path | None,
    typer.Option(
        "--mechanism-file",
        callback=_load_mechanisms,
        is_eager=True,
        metavar="FILE",
        help="Python file that defines your own mechanisms.",
    ),
]
"""Loaded before the other options, so that commands, and plans that they load, find its mechanisms by name."""

# --- Decorator for commands about a randomizer ---

SETTINGS_HELP = "A setting of the mechanism; may be repeated."
RANDOMIZER_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "mechanism": (str | None, "A name from `shuffledp mechanisms`."),
    "mechanism_file": (MechanismFile, ""),
    "epsilon_local": (float | None, "Local ε0; alone: any ε0-LDP randomizer."),
    "delta_local": (float | None, "δ0 of an (ε0, δ0)-LDP randomizer, with --epsilon-local alone."),
    "set_": (Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)], ""),
    "table": (Path | None, "CSV file of a randomizer: a row per input, no header."),
    "p": (float | None, "Largest ratio between two inputs, above 1 or inf."),
    "beta": (float | None, "Largest total variation between two inputs."),
    "q": (float | None, "Largest ratio to another user's messages."),
    "q0": (float | None, "That ratio where input 0 is likelier."),
    "q1": (float | None, "That ratio where input 1 is likelier."),
    "q_common": (float | None, "That ratio on the part both inputs share."),
}
"""Type of each field of ``RandomizerOptions`` on the command line, and its help if the type does not include it."""

Command = Callable[..., None]


def takes_randomizer(
    command: str, *names: str, helps: Mapping[str, str] | None = None, before: Mapping[str, str] | None = None
) -> Callable[[Command], Command]:
    """Replaces a command's parameter ``choice`` by the options of a randomizer, and passes it a ``RandomizerOptions``.

    Args:
        command: Name of the command, for error messages.
        *names: Options to add; all by default.
        helps: Help texts that replace the usual ones.
        before: Parameters of the function, each with the option before which the help lists it.

    Returns:
        The decorator.
    """
    wanted = names or tuple(RANDOMIZER_OPTIONS)

    def decorate(function: Command) -> Command:
        signature = inspect.signature(function)
        hints = get_type_hints(function, include_extras=True)
        shared = [_option_parameter(name, (helps or {}).get(name)) for name in wanted]
        own = {name: one.replace(annotation=hints[name]) for name, one in signature.parameters.items()}
        listed = _order_parameters(own, shared, before or {})

        @functools.wraps(function)
        def run(**given: Any) -> None:
            fields = {name: given.pop(name) for name in wanted}
            function(choice=RandomizerOptions.from_options(command, **fields), **given)

        run.__signature__ = signature.replace(parameters=listed)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in listed}
        return run

    return decorate


def _option_parameter(name: str, text: str | None) -> inspect.Parameter:
    kind, known = RANDOMIZER_OPTIONS[name]
    annotation = Annotated[kind, typer.Option(help=text or known)] if known else kind
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _order_parameters(
    own: Mapping[str, inspect.Parameter], shared: list[inspect.Parameter], before: Mapping[str, str]
) -> list[inspect.Parameter]:
    """Returns all parameters as keywords, with the shared ones in place of ``choice``."""
    moved = {later: own[name] for name, later in before.items()}
    group = [one for option in shared for one in ([moved[option.name]] if option.name in moved else []) + [option]]
    rest = [one for name, one in own.items() if name not in before]
    listed = [each for one in rest for each in (group if one.name == "choice" else [one])]
    return [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in listed]


# --- Option --report ---


REPORT_OPTION = "--report"
Report = Annotated[
    Path | None, typer.Option(REPORT_OPTION, help="Write the guarantee in words to this file: .md or .html.")
]


def check_report_path(who: str, path: Path | None) -> None:
    """Raises ValueError if the report cannot be written, before any work is done."""
    pages.check_report_path(who, path)


def write_statement(who: str, statement: Statement, path: Path | None) -> None:
    """Writes the statement if a path is given, and prints where it is."""
    if path is not None:
        statement.save(path, who)
        output.print_written_path("statement", path)


def format_command_line(arguments: Sequence[str] | None = None) -> str:
    """Returns the command line without ``--report``, which reproduces the same number.

    >>> format_command_line(["amplify", "--users", "10", "--report", "told.md", "--json"])
    'shuffledp amplify --users 10 --json'
    """
    words = iter(sys.argv[1:] if arguments is None else arguments)
    remaining = []
    for word in words:
        if word == REPORT_OPTION:
            next(words, None)
        elif not word.startswith(f"{REPORT_OPTION}="):
            remaining.append(word)
    return shlex.join(["shuffledp", *remaining])


# --- Campaigns and shufflers ---


CampaignId = Annotated[str, typer.Argument(metavar="ID", help="The campaign's id, or its beginning.")]
StateDirectory = Annotated[Path, typer.Option("--state", help="The shuffler's directory.")]
CampaignFile = Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="The campaign file.")]


# --- Input files, their columns and users, and the rules for their cells ---


KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
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
INPUT_OPTIONS: dict[str, tuple[Any, Any]] = {
    "column": (
        Annotated[
            list[str] | None,
            typer.Option("--column", help="The column with the users' values; repeatable where several are read."),
        ],
        None,
    ),
    "user": (
        Annotated[
            str | None,
            typer.Option(
                "--user", help="The column that identifies the user of each row; without it, each row is a person."
            ),
        ],
        None,
    ),
    "rows_per_user": (
        Annotated[
            int,
            typer.Option("--rows-per-user", help="Maximum number of rows used per user, the first ones of the input."),
        ],
        1,
    ),
    "gather": (
        Annotated[bool, typer.Option("--gather", help="Combine all rows of a user into one list, for sets and pairs.")],
        False,
    ),
    "missing": (
        Annotated[str, typer.Option("--missing", help=f"Rows without a value: {', '.join(MISSING_TREATMENTS)}.")],
        REFUSE,
    ),
    "gap": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--gap", metavar="TEXT", help="A text that stands for a missing value, such as NA; repeatable."
            ),
        ],
        None,
    ),
    "clip": (Annotated[bool, typer.Option("--clip", help="Move numbers beyond the range to its ends.")], False),
    "separator": (
        Annotated[str, typer.Option("--separator", help="Separator of the entries of a list in one cell.")],
        DEFAULT_SEPARATOR,
    ),
    "longer": (
        Annotated[
            str,
            typer.Option("--longer", help=f"Lists of more entries than planned: {', '.join(LONG_LIST_TREATMENTS)}."),
        ],
        REFUSE,
    ),
    "delimiter": (
        Annotated[str | None, typer.Option("--delimiter", help="Separator of the fields of a CSV file.")],
        None,
    ),
}


@dataclass(frozen=True)
class InputOptions:
    """The options that describe the input, as typed."""

    paths: tuple[str, ...]
    columns: tuple[str, ...]
    user: str | None
    rows_per_user: int
    gather: bool
    rules: Rules
    delimiter: str | None

    @classmethod
    def from_options(
        cls, paths: list[str] | None, column: list[str] | None, user: str | None, rows_per_user: int, gather: bool,
        missing: str, gap: list[str] | None, clip: bool, separator: str, longer: str, delimiter: str | None,
    ) -> InputOptions:  # fmt: skip
        """Builds the input options from the parsed ones."""
        rules = Rules(missing, tuple(gap or ()), clip, separator, longer)
        return cls(tuple(paths or ()), tuple(column or ()), user, rows_per_user, gather, rules, delimiter)


def takes_input(function: Command) -> Command:
    """Replaces a command's parameter ``source`` by the options of an input, and passes it an ``InputOptions``.

    The input is optional if the parameter's type allows None.
    """
    signature, hints = inspect.signature(function), get_type_hints(function, include_extras=True)
    needed = hints["source"] is InputOptions
    shared = [inspect.Parameter("input_", KEYWORD_ONLY, annotation=Inputs if needed else MaybeInputs)]
    if not needed:
        shared[0] = shared[0].replace(default=None)
    shared += [
        inspect.Parameter(name, KEYWORD_ONLY, default=known, annotation=kind)
        for name, (kind, known) in INPUT_OPTIONS.items()
    ]
    own = [one.replace(annotation=hints[name], kind=KEYWORD_ONLY) for name, one in signature.parameters.items()]
    listed = [each for one in own for each in (shared if one.name == "source" else [one])]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        paths = given.pop("input_")
        fields = {name: given.pop(name) for name in INPUT_OPTIONS}
        function(source=InputOptions.from_options(paths, **fields), **given)

    run.__signature__ = signature.replace(parameters=listed)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in listed}
    return run
