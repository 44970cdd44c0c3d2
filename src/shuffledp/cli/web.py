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
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address of this machine to listen on instead of loopback.")] = LOOPBACK,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, and open no browser.")] = False,
    watch: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIRECTORY", help="Directory of `collect` or of a shuffler to show; may be repeated."),
    ] = None,
) -> None:
    """Open a page on this machine to explore guarantees, choose a mechanism and save its proof."""

    def ready(address: str) -> None:
        output.print_text(f"The page is at {address} until Ctrl-C; anyone who has this address can use it.")
        if host != LOOPBACK:
            output.print_note(
                "It is reachable from other machines, without encryption: put TLS in front of it, or omit --host."
            )
        if not no_open:
            webbrowser.open(files.enter_context(redirect_file(address)).as_uri())

    with ExitStack() as files:
        # The redirecting file is deleted once a browser has opened the page, or when the server ends.
        serve_page(host, port, watch=watch or (), ready=ready, entered=files.close)
