"""``shuffledp serve``: the shuffler listens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli.shuffler_option import Database, KeysDirectory
from shuffledp.service.place import Front, Place
from shuffledp.service.serve import serve


def command(
    state: Annotated[
        Path | None, typer.Option("--state", help="The shuffler's directory; without it, take reports for another one.")
    ] = None,
    keys: KeysDirectory = None,
    database: Database = None,
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Port 0 takes a free one.")] = (
        "127.0.0.1:8080"
    ),
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Where operators may ask for /metrics.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes that take reports.")] = 1,
) -> None:
    """The shuffler: take sealed reports, close rounds by the clock, hand batches to the analyst. TLS goes in front.

    With --database and without --state it is a front: it takes reports, on any number of machines, and the one with
    --state closes the rounds.
    """
    if state is None and database is None:
        raise ValueError("serve: give --state, the shuffler's directory, or --database to take reports for another.")
    serve(
        Front(database or "") if state is None else Place.of(state, keys, database),
        listen,
        workers=workers,
        metrics=metrics,
        ready=lambda at: typer.echo(f"Listening at {at}; stop with Ctrl-C."),
    )
