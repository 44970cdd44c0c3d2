"""Running the shuffler's HTTP interface under uvicorn, and metrics for operators on a separate socket.

The metrics are coarse on purpose. A running count of reports would reveal who took part when, so the only size is the
number of stored bytes rounded up to a power of four.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shuffledp._core import __version__, validation
from shuffledp._core.errors import install_hint
from shuffledp.service import rounds
from shuffledp.service.rounds import UVICORN_LOG_CONFIG, RoundManager
from shuffledp.service.server import (
    DATABASE_VARIABLE,
    KEYS_VARIABLE,
    RECOVERED_VARIABLE,
    STATE_VARIABLE,
    ShufflerApplication,
)
from shuffledp.service.stores import IngestNode, RoundState, ShufflerPaths, Store, StoreUnavailable
from shuffledp.storage.migrations import NewerSchema

# --- Metrics ---

METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def format_metrics(connect: Callable[[], Store], now: float) -> str:
    """Returns the metrics in the text format of Prometheus."""
    lines = [f'shuffledp_info{{version="{__version__}"}} 1']
    try:
        with closing(connect()) as store:
            lines += list(_store_metrics(store, now))
    except (StoreUnavailable, ValueError):
        lines.append("shuffledp_store_up 0")
    names = dict.fromkeys(line.partition(" ")[0].partition("{")[0] for line in lines)
    return "".join(
        f"# TYPE {name} gauge\n" + "".join(f"{line}\n" for line in lines if line.startswith((f"{name} ", f"{name}{{")))
        for name in names
    )


def _store_metrics(store: Store, now: float) -> Iterator[str]:
    rounds = [each for accepted in store.accepted_campaigns() for each in store.rounds(accepted.campaign.id)]
    count, overdue = Counter(each.state for each in rounds), 0.0
    for each in rounds:
        if each.state in (RoundState.OPEN, RoundState.CLOSING, RoundState.MIXED):
            overdue = max(overdue, now - each.closes)
    stored = sum(
        store.stored_bytes(each.campaign, each.number)
        for each in rounds
        if each.state in (RoundState.OPEN, RoundState.CLOSING)
    )
    yield "shuffledp_store_up 1"
    yield from (f'shuffledp_rounds{{state="{state}"}} {count[state]}' for state in RoundState)
    yield f"shuffledp_overdue_seconds {max(0, round(overdue))}"
    yield f"shuffledp_stored_bytes_at_most {4 ** ((stored - 1).bit_length() + 1 >> 1) if stored else 0}"


class MetricsServer:
    """A context manager that serves the metrics on a bound socket in a thread."""

    def __init__(self, bound: socket.socket, connect: Callable[[], Store]) -> None:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = format_metrics(connect, time.time()).encode() if self.path == "/metrics" else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", METRICS_MEDIA_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Logs nothing, since a log would record the operators' addresses."""

        self._server = ThreadingHTTPServer(bound.getsockname()[:2], Answer, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = bound
        self._server.daemon_threads = True

    def __enter__(self) -> None:
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, name="monitor", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


# --- Server ---

NO_LEDGER_REASON = (
    "only the marks in the key directory record which rounds of this campaign were handed over: restoring old copies "
    "of the state and of the keys may ask people twice; accept campaigns with --ledger, and copy no keys"
)
APPLICATION_FACTORY = "shuffledp.service.server:from_environment"
MAX_CONNECTIONS, MAX_WORKERS = 2000, 1024
KEEP_ALIVE_SECONDS, SHUTDOWN_SECONDS = 5, 10
WORKER_START_SECONDS = 120
"""Time before a worker process that does not respond is replaced; starting is slow on a busy machine."""


def bind_socket(listen: str) -> socket.socket:
    """Binds a socket at HOST:PORT, where port 0 stands for a free one; raises ValueError if that fails."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"serve: expected HOST:PORT to listen at, such as 127.0.0.1:8080, got {listen!r}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host.strip("[]"), int(port)))
    except OSError as error:
        bound.close()
        raise ValueError(f"serve: cannot listen at {listen}: {error.strerror}.") from None
    return bound


def socket_address(bound: socket.socket) -> str:
    """Returns the HTTP address of a bound socket."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def build_uvicorn_settings() -> dict[str, Any]:
    """Returns uvicorn's settings: no log of requests, no use of clients' addresses, limits on connections."""
    try:
        from shuffledp.service._server_connection_limits import LimitedConnection
    except ImportError:
        raise ValueError(f"serve: a server needs uvicorn and httptools; {install_hint('service')}.") from None
    return {
        "access_log": False, "log_config": UVICORN_LOG_CONFIG, "server_header": False, "proxy_headers": False,
        "ws": "none",
        "http": LimitedConnection, "limit_concurrency": MAX_CONNECTIONS, "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": SHUTDOWN_SECONDS, "timeout_worker_healthcheck": WORKER_START_SECONDS,
    }  # fmt: skip


def serve(
    paths: ShufflerPaths | IngestNode,
    listen: str,
    *,
    workers: int = 1,
    metrics: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serves until stopped, without TLS, which a proxy in front must provide.

    Args:
        paths: A shuffler, or an ingest server for a shuffler elsewhere.
        listen: HOST:PORT to listen at.
        workers: Number of processes.
        metrics: HOST:PORT of the metrics, which only operators should be able to reach; None serves none.
        ready: Function that is called with the address once the socket is bound.

    Raises:
        ValueError: If an argument is invalid, the socket cannot be bound, or recovery fails.
        NewerSchema: If a newer version wrote the store.
    """
    validation.count("serve", "workers", workers, at_most=MAX_WORKERS)
    settings = build_uvicorn_settings()
    if isinstance(paths, ShufflerPaths):
        _ = paths.signing_key
    # An invalid database URL fails here; a database that does not respond yet may do so later.
    with closing(paths.open_store()) as store:
        recovered = _recover_rounds(paths, store)
    with (
        bind_socket(listen) as bound,
        nullcontext() if metrics is None else MetricsServer(bind_socket(metrics), paths.open_store),
    ):
        if ready is not None:
            ready(socket_address(bound))
        _run_uvicorn(paths, bound, workers, settings, recovered)


def _recover_rounds(paths: ShufflerPaths | IngestNode, store: Store) -> bool:
    """Recovers rounds before serving and logs campaigns without a ledger; returns True if recovery is done.

    Returns False if the store is unavailable, or for an ingest server, which has nothing to recover.
    """
    try:
        store.accepted_campaigns()
        if isinstance(paths, IngestNode):
            return False
        for accepted in RoundManager(paths, store).campaigns():
            if accepted.ledger is None:
                rounds.log_event("no ledger", campaign=accepted.campaign.id[:12], reason=NO_LEDGER_REASON)
        if not rounds.recover(paths):
            raise ValueError("serve: rounds cannot be opened; the log line before this one names the reason.")
        return True
    except NewerSchema:
        raise
    except StoreUnavailable:
        return False


def _run_uvicorn(
    paths: ShufflerPaths | IngestNode, bound: socket.socket, workers: int, settings: dict[str, Any], recovered: bool
) -> None:
    import uvicorn

    if workers > 1:
        os.environ.update(_worker_environment(paths) | {RECOVERED_VARIABLE: "1" * recovered})
        uvicorn.run(APPLICATION_FACTORY, factory=True, workers=workers, fd=bound.fileno(), **settings)
    else:
        uvicorn.Server(uvicorn.Config(ShufflerApplication(paths, recovered), **settings)).run(sockets=[bound])


def _worker_environment(paths: ShufflerPaths | IngestNode) -> dict[str, str]:
    """Returns the environment variables for worker processes."""
    if isinstance(paths, IngestNode):
        return {STATE_VARIABLE: "", KEYS_VARIABLE: "", DATABASE_VARIABLE: paths.database}
    return {
        STATE_VARIABLE: str(paths.state.resolve()),
        KEYS_VARIABLE: str(paths.keys.resolve()),
        DATABASE_VARIABLE: paths.database or "",
    }
