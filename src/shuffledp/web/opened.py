"""Running the page under uvicorn on a socket of this machine, and telling its address."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path

from shuffledp.web.doorway import Doorway
from shuffledp.web.explorer import Explorer

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 16
MOST_CONNECTIONS = 2000
KEEP_ALIVE_SECONDS, STOP_SECONDS = 30, 2


def bound(host: str, port: int) -> socket.socket:
    """A socket there; port 0 takes a free one."""
    if not 0 <= port <= 65535:
        raise ValueError(f"web: --port must be between 0 and 65535, got {port}.")
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        # Whoever is told the address may come before the server is loaded.
        made.listen(MOST_CONNECTIONS)
    except OSError as error:
        made.close()
        raise ValueError(f"web: cannot listen at {host}:{port}: {error.strerror or error}.") from None
    return made


def names(host: str, port: int) -> list[str]:
    """What a browser may call this host; loopback has more names than one."""
    own = {host, "localhost", LOOPBACK} if host in (LOOPBACK, "::1") else {host}
    return [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in sorted(own)]


def open_page(
    host: str = LOOPBACK,
    port: int = 0,
    *,
    watch: Sequence[Path] = (),
    ready: Callable[[str], None] | None = None,
    entered: Callable[[], None] | None = None,
) -> None:
    """Serve until stopped; ``ready`` is told the address, whose path has the secret of this run.

    ``entered`` is called when the page is first asked for under it.
    """
    import uvicorn

    for directory in watch:
        if not directory.is_dir():
            raise ValueError(f"web: --watch must be a directory of `collect` or of a shuffler, got {str(directory)!r}.")
    listening = bound(host, port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(TOKEN_BYTES)
    application = Doorway(Explorer(watch=watch).application, token, names(host, port), entered)
    if ready is not None:
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/{token}/")
    # Nothing about requests is written anywhere: their addresses have the secret. Those that Ctrl-C cuts off are no
    # errors; what is one is written by the explorer itself.
    config = uvicorn.Config(
        application, access_log=False, log_level="critical", server_header=False, proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def leading_file(address: str) -> Iterator[Path]:
    """A file that leads a browser to the address, for its owner alone, until it is removed or no longer needed.

    A browser is started with the name of this file: the arguments of a process are seen by everybody on the machine.
    """
    told = escape(address)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={told}"><title>shuffledp</title></head>\n'
        f'<body><p><a href="{told}">Open the page.</a></p></body></html>\n'
    )
    with tempfile.TemporaryDirectory(prefix="shuffledp-page-", ignore_cleanup_errors=True) as room:
        path = Path(room) / "open.html"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(page)
        yield path
