"""``shuffledp web``: the explorer, a web page on this machine."""

from __future__ import annotations

import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli import output
from shuffledp.explorer.server import LOOPBACK, redirect_file, serve_page


def web_command(
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
        output.print_text(f"The page is at {address} until Ctrl-C; whoever has this address can use it.")
        if host != LOOPBACK:
            output.print_note(
                "It listens beyond this machine, without encryption: put TLS in front, or leave --host out."
            )
        if not no_open:
            webbrowser.open(files.enter_context(redirect_file(address)).as_uri())

    with ExitStack() as files:
        # The file that leads to the page is deleted once a browser has opened the page, or when the server ends.
        serve_page(host, port, watch=watch or (), ready=ready, entered=files.close)
