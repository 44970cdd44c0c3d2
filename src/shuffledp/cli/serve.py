"""``shuffledp serve``: the shuffler's server, in a process that loads neither plans nor bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.service.serve import serve
from shuffledp.service.stores import IngestNode, ShufflerPaths

KeysDirectory = Annotated[
    Path | None,
    typer.Option("--keys", help="Its directory of keys, which belongs in no backup; STATE.keys by default."),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database", envvar="SHUFFLEDP_DATABASE", metavar="URL", help="postgresql://…, instead of a file in --state."
    ),
]


def serve_command(
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
    """Run the shuffler: take sealed reports, close rounds by the clock, hand batches to the analyst. TLS goes in front.

    With --database and without --state it is a front: it takes reports, on any number of machines, and the one with
    --state closes the rounds.
    """
    if state is None and database is None:
        raise ValueError("serve: give --state, the shuffler's directory, or --database to take reports for another.")
    serve(
        IngestNode(database or "") if state is None else ShufflerPaths.from_directories(state, keys, database),
        listen,
        workers=workers,
        metrics=metrics,
        ready=lambda at: typer.echo(f"Listening at {at}; stop with Ctrl-C."),
    )
