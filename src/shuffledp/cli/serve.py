"""``shuffledp serve``: the shuffler listens."""

from __future__ import annotations

from typing import Annotated

import typer

from shuffledp.cli.campaign import KeysDirectory, StateDirectory
from shuffledp.service.place import Place
from shuffledp.service.serve import serve


def command(
    state: StateDirectory,
    keys: KeysDirectory = None,
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Port 0 takes a free one.")] = (
        "127.0.0.1:8080"
    ),
    workers: Annotated[int, typer.Option("--workers", help="Processes that take reports.")] = 1,
) -> None:
    """The shuffler: take sealed reports, close rounds by the clock, hand batches to the analyst. TLS goes in front."""
    serve(
        Place.of(state, keys),
        listen,
        workers=workers,
        ready=lambda address: typer.echo(f"Listening at {address}; stop with Ctrl-C."),
    )
