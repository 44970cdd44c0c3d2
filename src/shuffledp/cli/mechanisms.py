"""``shuffledp mechanisms``: the catalogue."""

from __future__ import annotations

import dataclasses
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shuffledp.cli import options
from shuffledp.document import json_text
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.mechanism import Mechanism


def command(json: options.Json = False) -> None:
    """The catalogue: every randomizer, its task and settings."""
    kinds = catalogue.all_mechanisms()
    if json:
        typer.echo(json_text({"mechanisms": [_entry(kind) for kind in kinds.values()]}))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "task", "settings", "what it sends"):
        table.add_column(column, overflow="fold")
    for kind in kinds.values():
        table.add_row(kind.name, kind.task, Text(_settings(kind)), kind.summary)
    Console().print(table)
    typer.echo("\nSettings in [brackets] have a default. Every one that takes a local ε guarantees it exactly:")
    typer.echo("  shuffledp amplify --mechanism krr --epsilon-local 2 --set options=128 --users 1e5 --delta 1e-8")
    without = [kind.name for kind in kinds.values() if kind.built_from_numbers and not catalogue.takes_epsilon(kind)]
    typer.echo(f"\nWithout a local ε, because every user's dummies hide everybody: {', '.join(without)}. For example:")
    typer.echo("  shuffledp amplify --mechanism pure-dump --set options=128 --set dummies=5 --users 1e5 --delta 1e-8")
    typer.echo(
        "\nAround another one, with its name after theirs: compressed- (a seed of the message), repeated- (runs at"
    )
    typer.echo("a part of ε each; ε is that of one run). For example, two seeds that keep local ε = 8 together:")
    typer.echo("  shuffledp amplify --mechanism repeated-compressed-privunit-g --epsilon-local 4 --set runs=2 \\")
    typer.echo("    --set dimension=1024 --users 1e5 --delta 1e-8")


def _settings(kind: type[Mechanism]) -> str:
    if not catalogue.can_be_named(kind):
        return "in Python"
    return ", ".join(_text(field, kind) for field in catalogue.settings(kind))


def _text(field: dataclasses.Field[Any], kind: type[Mechanism]) -> str:
    if field.name == kind.built_from_table:
        return f"{field.name} (a CSV file)"
    return f"[{field.name}]" if catalogue.has_default(field) else field.name


def _entry(kind: type[Mechanism]) -> dict[str, Any]:
    return {
        "name": kind.name,
        "class": kind.__name__,
        "task": kind.task,
        "summary": kind.summary,
        "local_epsilon": catalogue.takes_epsilon(kind),
        "settings": [
            {"name": field.name, "type": str(field.type), "required": not catalogue.has_default(field)}
            for field in catalogue.settings(kind)
        ],
    }
