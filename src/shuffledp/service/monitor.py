"""Numbers for operators, at an address of their own: which states rounds are in, and whether the store answers.

They are coarse on purpose. A running count of reports would tell who took part when, so that the only size is a power
of four of the bytes that are stored.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket

from shuffledp.service.store import State, Store, Unavailable
from shuffledp.version import __version__

KIND = "text/plain; version=0.0.4; charset=utf-8"


def exposition(connect: Callable[[], Store], now: float) -> str:
    """In the text form that Prometheus reads."""
    told = [f'shuffledp_info{{version="{__version__}"}} 1']
    try:
        with closing(connect()) as store:
            told += list(_of_store(store, now))
    except (Unavailable, ValueError):
        told.append("shuffledp_store_up 0")
    kinds = dict.fromkeys(line.partition(" ")[0].partition("{")[0] for line in told)
    return "".join(
        f"# TYPE {name} gauge\n" + "".join(f"{line}\n" for line in told if line.startswith((f"{name} ", f"{name}{{")))
        for name in kinds
    )


def _of_store(store: Store, now: float) -> Iterator[str]:
    rounds = [each for accepted in store.accepted() for each in store.rounds(accepted.campaign.id)]
    count, overdue = Counter(each.state for each in rounds), 0.0
    for each in rounds:
        if each.state in (State.OPEN, State.CLOSING, State.MIXED):
            overdue = max(overdue, now - each.closes)
    held = sum(store.size(each.campaign, each.number) for each in rounds if each.state in (State.OPEN, State.CLOSING))
    yield "shuffledp_store_up 1"
    yield from (f'shuffledp_rounds{{state="{state}"}} {count[state]}' for state in State)
    yield f"shuffledp_overdue_seconds {max(0, round(overdue))}"
    yield f"shuffledp_stored_bytes_at_most {4 ** ((held - 1).bit_length() + 1 >> 1) if held else 0}"


class Monitor:
    """Answers on a socket of its own, in a thread, as long as a block runs."""

    def __init__(self, bound: socket, connect: Callable[[], Store]) -> None:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exposition(connect, time.time()).encode() if self.path == "/metrics" else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", KIND)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: it would say who asked."""

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
