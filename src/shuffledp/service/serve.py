"""Running the shuffler's interface under uvicorn, on a socket that is bound before anything else."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from shuffledp.service.app import KEYS_VARIABLE, STATE_VARIABLE, Service
from shuffledp.service.place import Place

FACTORY = "shuffledp.service.app:from_environment"
MOST_CONNECTIONS = 2000
KEEP_ALIVE_SECONDS, STOP_SECONDS = 5, 10


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


def serve(place: Place, listen: str, *, workers: int = 1, ready: Callable[[str], None] | None = None) -> None:
    """Serve until stopped; ``ready`` is told the address. TLS is the business of a proxy in front."""
    import uvicorn

    _ = place.identity
    bound_to = bound(listen)
    os.environ[STATE_VARIABLE], os.environ[KEYS_VARIABLE] = str(place.state.resolve()), str(place.keys.resolve())
    # Nothing about requests is written anywhere, and no address is asked for.
    quiet: dict[str, Any] = {"access_log": False, "log_level": "warning", "server_header": False,
                             "proxy_headers": False}  # fmt: skip
    limits: dict[str, Any] = {"limit_concurrency": MOST_CONNECTIONS, "timeout_keep_alive": KEEP_ALIVE_SECONDS,
                              "timeout_graceful_shutdown": STOP_SECONDS}  # fmt: skip
    host, port = bound_to.getsockname()[:2]
    if ready is not None:
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    if workers > 1:
        uvicorn.run(FACTORY, factory=True, workers=workers, fd=bound_to.fileno(), **quiet, **limits)
    else:
        uvicorn.Server(uvicorn.Config(Service(place), **quiet, **limits)).run(sockets=[bound_to])
