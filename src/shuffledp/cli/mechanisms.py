"""``shuffledp mechanisms``: the catalogue, and the page of one mechanism."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from shuffledp import argument
from shuffledp.cli import options, show
from shuffledp.cli.show import Console
from shuffledp.document import json_text
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.statement.citation import sources_of
from shuffledp.tasks import task_list

_SETTING = re.compile(r"(``\w+``(?:, ``\w+``)*): ")
_FIELDS = ("Theorem:", "Requires:", "Returns:", "Deviates:", "Privacy:")


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One of them, by any name it is known by.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only those that do this task, as `plan` calls it.")] = None,
    json: options.Json = False,
) -> None:
    """The catalogue: every randomizer, its task and settings; with NAME all about one."""
    if name is not None:
        if task is not None:
            raise ValueError("mechanisms: give NAME or --task, not both.")
        _one(_named(name), json)
        return
    kinds = catalogue.all_mechanisms()
    if task is not None:
        with argument.said_by("mechanisms", "plan"):
            asked = task_list.by_command_name(task)
        kinds = {known: kind for known, kind in kinds.items() if asked.can_use(kind)}
    if json:
        typer.echo(json_text({"mechanisms": [_entry(kind) for kind in kinds.values()]}))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "task", "settings", "what it sends" if task is None else "when to take it"):
        table.add_column(column, overflow="fold")
    for kind in kinds.values():
        table.add_row(kind.name, kind.task, Text(_settings(kind)), kind.summary if task is None else kind.take_it)
    Console().print(table)
    show.say("\nSettings in [brackets] have a default. All about one: shuffledp mechanisms NAME.")
    if task is None:
        _more(kinds)


def _more(kinds: dict[str, type[Mechanism]]) -> None:
    """How to use what the catalogue lists."""
    show.say("Every one that takes a local ε guarantees it exactly:")
    show.say("  shuffledp amplify --mechanism krr --epsilon-local 2 --set options=128 --users 1e5 --delta 1e-8")
    without = [kind.name for kind in kinds.values() if kind.built_from_numbers and not catalogue.takes_epsilon(kind)]
    show.say(f"\nWithout a local ε, because every user's dummies hide everybody: {', '.join(without)}. For example:")
    show.say("  shuffledp amplify --mechanism pure-dump --set options=128 --set dummies=5 --users 1e5 --delta 1e-8")
    show.say(
        "\nAround another one, with its name after theirs: compressed- (a seed of the message), repeated- (runs at"
    )
    show.say("a part of ε each; ε is that of one run). For example, two seeds that keep local ε = 8 together:")
    show.say("  shuffledp amplify --mechanism repeated-compressed-privunit-g --epsilon-local 4 --set runs=2 \\")
    show.say("    --set dimension=1024 --users 1e5 --delta 1e-8")


def _named(name: str) -> type[Mechanism]:
    kind = catalogue.find(name)
    if kind is None:
        raise catalogue.unknown(name)
    return kind


# --- one mechanism ------------------------------------------------------------------------------------------------


def _one(kind: type[Mechanism], json: bool) -> None:
    if json:
        typer.echo(json_text(_entry(kind)))
        return
    about, settings, fields = _paragraphs(kind)
    rows = [
        ("what it sends", kind.summary),
        ("when to take it", kind.take_it),
        ("task", kind.task),
        ("also called", ", ".join(vars(kind).get("also_called", ()))),
        ("in Python", f"shuffledp.{kind.__name__}"),
        ("local ε", "yes, kept by every message" if catalogue.takes_epsilon(kind) else "none to set"),
        *((f"setting {field.name}", _told(field, settings)) for field in catalogue.settings(kind)),
        *fields.items(),
        ("papers", "; ".join(sources_of(" ".join(fields.values())))),
    ]
    show.rows(kind.name, [(name, text) for name, text in rows if text])
    if about:
        Console().print(Text(f"\n{about}"))


def _told(field: dataclasses.Field[Any], settings: dict[str, str]) -> str:
    """What a setting means, and its default."""
    default = "" if not catalogue.has_default(field) else f" (default: {field.default})"
    return f"{settings.get(field.name, '')}{default}".strip()


def _paragraphs(kind: type[Mechanism]) -> tuple[str, dict[str, str], dict[str, str]]:
    """Its documentation: what is said of it, of each setting, and the theorem with its conditions."""
    text = inspect.getdoc(kind) or ""
    parts = [part.replace("\n", " ") for part in text.split(">>>")[0].strip().split("\n\n")]
    settings: dict[str, str] = {}
    fields: dict[str, str] = {}
    about = []
    for part in parts:
        if part.startswith(_FIELDS):
            fields |= _fields(part)
        elif _SETTING.match(part):
            settings |= _meanings(part)
        else:
            about.append(_plain(part))
    return "\n\n".join(about), settings, fields


def _fields(part: str) -> dict[str, str]:
    """Theorem, Requires and so on, each with its text."""
    pieces = re.split(rf"({'|'.join(_FIELDS)}) ", part)[1:]
    return {
        name.rstrip(":").lower(): _plain(text.strip()) for name, text in zip(pieces[::2], pieces[1::2], strict=True)
    }


def _meanings(part: str) -> dict[str, str]:
    """What each setting of a paragraph means."""
    pieces = _SETTING.split(part)[1:]
    found: dict[str, str] = {}
    for names, text in zip(pieces[::2], pieces[1::2], strict=True):
        found |= {name: _plain(text.strip()) for name in _plain(names).split(", ")}
    return found


def _plain(text: str) -> str:
    return text.replace("``", "")


# --- all of them --------------------------------------------------------------------------------------------------


def _settings(kind: type[Mechanism]) -> str:
    if not catalogue.can_be_named(kind):
        return "in Python"
    return ", ".join(_text(field, kind) for field in catalogue.settings(kind))


def _text(field: dataclasses.Field[Any], kind: type[Mechanism]) -> str:
    if field.name == kind.built_from_table:
        return f"{field.name} (a CSV file)"
    return f"[{field.name}]" if catalogue.has_default(field) else field.name


def _entry(kind: type[Mechanism]) -> dict[str, Any]:
    _, meanings, _ = _paragraphs(kind)
    return {
        "name": kind.name,
        "also_called": list(vars(kind).get("also_called", ())),
        "class": kind.__name__,
        "task": kind.task,
        "summary": kind.summary,
        "take_it": kind.take_it,
        "local_epsilon": catalogue.takes_epsilon(kind),
        "by_name": catalogue.can_be_named(kind),
        "settings": [
            {
                "name": field.name,
                "type": str(field.type),
                "required": not catalogue.has_default(field),
                "meaning": meanings.get(field.name, ""),
            }
            for field in catalogue.settings(kind)
        ],
    }
