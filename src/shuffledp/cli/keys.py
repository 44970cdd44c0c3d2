"""``shuffledp keys``: the analyst's and the shuffler's secrets, and what others are told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli import show as shown
from shuffledp.cli.once import OnceEach
from shuffledp.document import json_text
from shuffledp.service import key_file
from shuffledp.service.key_file import AnalystKey, ShufflerKey

app = typer.Typer(
    cls=OnceEach,
    help="Keys of analysts and shufflers, in files for their owners.",
    add_completion=False,
    rich_markup_mode=None,
)
KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The key file.")]


@app.command()
def new(
    file: KeyFile,
    shuffler: Annotated[
        bool, typer.Option("--shuffler", help="A shuffler's key, which signs; else an analyst's.")
    ] = False,
) -> None:
    """Make a key, in a new file; prints the public part. What is sealed to a lost key is lost."""
    made = ShufflerKey.new() if shuffler else AnalystKey.new()
    made.save(file)
    shown.written("key", file)
    typer.echo(json_text(made.public))


@app.command()
def show(file: KeyFile) -> None:
    """Print the public part of a key."""
    typer.echo(json_text(key_file.load(file).public))
