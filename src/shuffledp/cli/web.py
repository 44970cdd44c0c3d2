"""``shuffledp web``: a page on this machine that shows what shuffling buys."""

from __future__ import annotations

import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli import show
from shuffledp.web.opened import LOOPBACK, leading_file, open_page


def command(
    port: Annotated[int, typer.Option(help="Where to listen; 0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Another address of this machine than loopback.")] = LOOPBACK,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    watch: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIRECTORY", help="A directory of `collect`, or of a shuffler, to show; may be repeated."),
    ] = None,
) -> None:
    """A page to see what shuffling buys, choose, and take the proof home; it stays on this machine."""

    def ready(address: str) -> None:
        show.say(f"The page is at {address} until Ctrl-C; whoever has this address can use it.")
        if host != LOOPBACK:
            show.note("It listens beyond this machine, without encryption: put TLS in front, or leave --host out.")
        if not no_open:
            webbrowser.open(files.enter_context(leading_file(address)).as_uri())

    with ExitStack() as files:
        # What leads to the page goes when somebody is there, or with the page.
        open_page(host, port, watch=watch or (), ready=ready, entered=files.close)
