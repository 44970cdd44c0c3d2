"""Running the shuffler's interface under uvicorn, on a socket that is bound before anything else."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from typing import Any

from shuffledp import argument
from shuffledp.errors import installing
from shuffledp.service import clock, journal
from shuffledp.service.app import DATABASE_VARIABLE, KEYS_VARIABLE, RECOVERED_VARIABLE, STATE_VARIABLE, Service
from shuffledp.service.journal import LOGGING
from shuffledp.service.monitor import Monitor
from shuffledp.service.place import Front, Place
from shuffledp.service.round import Keeper
from shuffledp.service.store import Store, Unavailable

NO_LEDGER = (
    "only the marks in the directory of keys tell which rounds of this campaign were handed on: if old copies of the "
    "state and of the keys are put back, people may be asked twice; accept campaigns with --ledger, and copy no keys"
)
FACTORY = "shuffledp.service.app:from_environment"
MOST_CONNECTIONS, MOST_WORKERS = 2000, 1024
KEEP_ALIVE_SECONDS, STOP_SECONDS = 5, 10
BEGIN_SECONDS = 120
"""Before a process that does not answer is replaced: on a busy machine it takes long to begin."""


def bound(listen: str) -> socket.socket:
    """A socket at HOST:PORT; port 0 takes a free one."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"serve: expected HOST:PORT to listen at, such as 127.0.0.1:8080, got {listen!r}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host.strip("[]"), int(port)))
    except OSError as error:
        made.close()
        raise ValueError(f"serve: cannot listen at {listen}: {error.strerror}.") from None
    return made


def address(of: socket.socket) -> str:
    """Where a socket is bound, as others ask for it."""
    host, port = of.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def settings() -> dict[str, Any]:
    """For uvicorn: nothing about requests is written anywhere, no address is asked for, nobody holds a connection."""
    try:
        from shuffledp.service.connection import Connection
    except ImportError:
        raise ValueError(f"serve: a server needs uvicorn and httptools; {installing('service')}.") from None
    quiet = {"access_log": False, "log_config": LOGGING, "server_header": False, "proxy_headers": False, "ws": "none"}
    return quiet | {
        "http": Connection, "limit_concurrency": MOST_CONNECTIONS, "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": STOP_SECONDS, "timeout_worker_healthcheck": BEGIN_SECONDS,
    }  # fmt: skip


def serve(
    place: Place | Front,
    listen: str,
    *,
    workers: int = 1,
    metrics: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until stopped; ``ready`` is told the address. TLS is the business of a proxy in front.

    ``metrics``: where operators, and nobody else, may ask for numbers.
    """
    argument.count("serve", "workers", workers, at_most=MOST_WORKERS)
    chosen = settings()
    if isinstance(place, Place):
        _ = place.identity
    # What is no database is said at once; one that does not answer yet may do so later.
    with closing(place.store()) as store:
        recovered = isinstance(place, Place) and _recovered(place, store)
    with bound(listen) as bound_to, nullcontext() if metrics is None else Monitor(bound(metrics), place.store):
        if ready is not None:
            ready(address(bound_to))
        _run(place, bound_to, workers, chosen, recovered)


def _recovered(place: Place, store: Store) -> bool:
    """Tidy up before anything is served, and say which campaigns no ledger guards; False where the store is away."""
    with suppress(Unavailable):
        for accepted in Keeper(place, store).own():
            if accepted.ledger is None:
                journal.tell("no ledger", campaign=accepted.campaign.id[:12], reason=NO_LEDGER)
        if not clock.recover(place):
            raise ValueError("serve: rounds cannot be opened as long as what the line before says is so.")
        return True
    return False


def _run(place: Place | Front, bound_to: socket.socket, workers: int, chosen: dict[str, Any], recovered: bool) -> None:
    import uvicorn

    if workers > 1:
        os.environ.update(_told(place) | {RECOVERED_VARIABLE: "1" * recovered})
        uvicorn.run(FACTORY, factory=True, workers=workers, fd=bound_to.fileno(), **chosen)
    else:
        uvicorn.Server(uvicorn.Config(Service(place, recovered), **chosen)).run(sockets=[bound_to])


def _told(place: Place | Front) -> dict[str, str]:
    """For the processes that take reports."""
    if isinstance(place, Front):
        return {STATE_VARIABLE: "", KEYS_VARIABLE: "", DATABASE_VARIABLE: place.database}
    return {
        STATE_VARIABLE: str(place.state.resolve()),
        KEYS_VARIABLE: str(place.keys.resolve()),
        DATABASE_VARIABLE: place.database or "",
    }
