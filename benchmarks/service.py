"""The shuffler as a service against its bars: taking reports, keeping them, opening and mixing them.

    .venv/bin/python benchmarks/service.py [requests] [hostile] [opening] [closing] [large] [--seconds 8]
                                           [--reports 1e7] [--database postgresql://…] [--json]

Everything is processor time of the process in question, measured side by side in one run, so that a loaded machine does
not matter. The servers are processes of their own on loopback. ``hostile`` takes reports while one connection sends a
request that has no end, in each of several ways. ``large`` reads, sorts, drops repetitions, sorts again
and writes so many reports with everything but the cipher, which would take 51 µs a report; its memory is that of a
process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from alone import peak_megabytes

from shuffledp import KRR, Plan, tasks
from shuffledp._core.validation import Bytes
from shuffledp.service import crypto
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import REPORTS_MEDIA_TYPE, AnalystKey, PrivateKey, ShufflerKey, _load_hpke_suite
from shuffledp.service.notices_and_statements import RoundNotice
from shuffledp.service.rounds import RoundManager, RoundMixer
from shuffledp.service.sealing import seal_reports
from shuffledp.service.serve import bind_socket, build_uvicorn_settings, socket_address
from shuffledp.service.stores import AcceptedCampaign, PostedReports, ShufflerPaths

Served = tuple[int, int]
"""Process id and port."""
KINDS = ("empty", "single", "many")
CONNECTIONS, BATCH, TURNS = 64, 100, 4
BARS: dict[str, tuple[str, float]] = {
    "single request / empty ASGI app": ("≤", 2.2),
    "single-report requests a core-second": ("≥", 12_000),
    "batched reports a core-second": ("≥", 500_000),
    "server's resident MB": ("≤", 80),
    "stored bytes / wire bytes": ("≤", 1.03),
    "reports beside one hostile connection": ("≥", 0.9),
    "bare decrypt / opening": ("≥", 0.9),
    "closing without opening / opening": ("≤", 0.10),
    "MB to close without the cipher": ("≤", 400),
}


def campaign_of(users: int) -> tuple[Campaign, ShufflerKey]:
    plan = Plan(tasks.Frequency(16), KRR(1.0, 16), users=users, epsilon=2.0, delta=1e-6, bound="stronger-clone")
    shuffler = ShufflerKey.new()
    made = Campaign.create(
        plan,
        AnalystKey.new(),
        shuffler.identity,
        url="http://127.0.0.1",
        operators=("A", "B"),
        window=3600,
        capacity=10**9,
    )
    return made, shuffler


# --- requests ---------------------------------------------------------------------------------------------------------


async def empty(scope: Any, receive: Any, send: Any) -> None:
    """The least that an application can do: it reads the body and says 201."""
    if scope["type"] != "http":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def serve_empty() -> None:
    """Serves an empty application with the same server and settings."""
    import uvicorn

    with bind_socket("127.0.0.1:0") as listening:
        print(f"Listening at {socket_address(listening)}; empty.", flush=True)
        uvicorn.Server(uvicorn.Config(empty, **build_uvicorn_settings())).run(sockets=[listening])


@contextmanager
def server(*command: str) -> Iterator[Served]:
    """A server while the block runs."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline().split(";")[0].rpartition(":")[2])
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()


def seconds_of(pid: int) -> float:
    """Processor time of all threads of a process."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def megabytes_of(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def load(port: int, request: bytes, seconds: float) -> int:
    """Sends requests on all connections; returns the number of responses, each of which must be a 201."""
    done, until = 0, time.monotonic() + seconds
    with selectors.DefaultSelector() as waiting:
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(request)
            waiting.register(connection, selectors.EVENT_READ)
        busy = CONNECTIONS
        while busy:
            for key, _ in waiting.select():
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                answer = connection.recv(1 << 16)
                assert answer.startswith(b"HTTP/1.1 201"), answer
                done += 1
                if time.monotonic() < until:
                    connection.sendall(request)
                else:
                    waiting.unregister(connection)
                    connection.close()
                    busy -= 1
    return done


def request_of(campaign: Campaign, reports: int) -> bytes:
    """One request with so many reports."""
    size = reports * campaign.report_bytes
    path = f"/v1/campaigns/{campaign.id}/rounds/1/reports"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {REPORTS_MEDIA_TYPE}\r\n"
    return f"{head}Content-Length: {size}\r\n\r\n".encode() + os.urandom(size)


@contextmanager
def shuffler_server(room: Path, database: str | None, reports: int) -> Iterator[tuple[Served, Campaign, bytes]]:
    """A shuffler that has just opened a campaign's round, and a request for it."""
    campaign, key = campaign_of(1000)
    paths = ShufflerPaths.from_directories(room, None, database)
    paths.create_directories(key)
    with closing(paths.open_store()) as store:
        RoundManager(paths, store).accept(AcceptedCampaign(campaign, None), int(time.time()))
    shared = ["--database", database] if database else []
    with server("-m", "shuffledp", "serve", "--state", str(room), "--listen", "127.0.0.1:0", *shared) as found:
        yield found, campaign, request_of(campaign, reports)


def requests(arguments: argparse.Namespace) -> dict[str, float]:
    """One report, and many, a request; against an application that does nothing, in turns."""
    spent, asked = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory() as room:
        kept = Path(room, "many")
        with ExitStack() as stack:
            begin, database = stack.enter_context, arguments.database
            single = begin(shuffler_server(Path(room, "single"), database, 1))
            many = begin(shuffler_server(kept, database, BATCH))
            found = [(begin(server(__file__, "--empty")), single[2]), (single[0], single[2]), (many[0], many[2])]
            for turn in range(TURNS + 1):
                for name, ((pid, port), content) in zip(KINDS, found, strict=True):
                    begun = seconds_of(pid)
                    answers = load(port, content, arguments.seconds / TURNS)
                    # The first turn warms up.
                    asked[name] += answers if turn else 0
                    spent[name] += seconds_of(pid) - begun if turn else 0
            memory = megabytes_of(single[0][0])
        stored = {} if database else {"stored bytes / wire bytes": stored_over_wire(kept, many[1])}
    each = {name: spent[name] / asked[name] for name in KINDS}
    return {
        "empty ASGI requests a core-second": 1 / each["empty"],
        "single request / empty ASGI app": each["single"] / each["empty"],
        "single-report requests a core-second": 1 / each["single"],
        "batched reports a core-second": BATCH / each["many"],
        "server's resident MB": memory,
        **stored,
    }


def stored_over_wire(state: Path, campaign: Campaign) -> float:
    """Bytes in the database, once its log is written back, over those that came."""
    with closing(ShufflerPaths.from_directories(state).open_store()) as store:
        return (state / "reports.sqlite").stat().st_size / store.stored_bytes(campaign.id, 1)


# --- hostile connections ----------------------------------------------------------------------------------------------

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
ENDLESS = {
    "value": (GET + b"X: ", b"a" * (1 << 16)),
    "fields": (GET, b"a:\r\n" * (1 << 14)),
    "address": (b"GET /", b"a" * (1 << 16)),
}
MAX_SENT, PAIRS, ATTACKS = 1 << 30, 4, 200
CONTROL = "control"


def attack(port: int, begin: bytes, piece: bytes, ended: threading.Event) -> None:
    """One connection that sends on until it is closed, or the others are done."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as hostile, suppress(OSError):
        hostile.sendall(begin)
        for _ in range(MAX_SENT // len(piece) if piece else 0):
            if ended.is_set():
                break
            hostile.sendall(piece)


def hostile(arguments: argparse.Namespace) -> dict[str, float]:
    """Processor time of the server a report, with a hostile connection and without, in turns; and of that connection.

    How many reports share a commit changes with what else the disk does: turns are short, each has its neighbour, and a
    harmless connection shows how far the ratio moves by itself. What a connection costs alone is far more exact.
    """
    ratios: dict[str, list[float]] = {kind: [] for kind in (*ENDLESS, CONTROL)}
    with (
        tempfile.TemporaryDirectory() as room,
        shuffler_server(Path(room), arguments.database, 1) as ((pid, port), _, request),
    ):

        def spent(kind: str | None) -> float:
            begun, ended = seconds_of(pid), threading.Event()
            told = ENDLESS.get(kind or CONTROL, (GET, b""))
            attacking = threading.Thread(target=attack, args=(port, *told, ended))
            attacking.start()
            answers = load(port, request, arguments.seconds / (TURNS * PAIRS))
            ended.set()
            attacking.join()
            return (seconds_of(pid) - begun) / answers

        spent(None)
        for turn in range(TURNS * PAIRS):
            for kind in ratios:
                # Who is first changes, too.
                first, second = (spent(kind), spent(None)) if turn % 2 else (spent(None), spent(kind))
                ratios[kind].append(second / first if turn % 2 else first / second)
        costs = []
        for told in ENDLESS.values():
            begun = seconds_of(pid)
            for _ in range(ATTACKS):
                attack(port, *told, threading.Event())
            costs.append(1e3 * (seconds_of(pid) - begun) / ATTACKS)
        memory = megabytes_of(pid)
    return {
        "reports beside one hostile connection": statistics.median(each for kind in ENDLESS for each in ratios[kind]),
        "the same beside a harmless one (noise)": statistics.median(ratios[CONTROL]),
        "ms of a hostile connection, worst kind": max(costs),
        "server's resident MB, hostile": memory,
    }


# --- opening and closing ----------------------------------------------------------------------------------------------


def processor(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def open_all(_: argparse.Namespace) -> dict[str, float]:
    """Compares opening with the cipher alone, on the same envelopes, in turns."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private, info = PrivateKey.new(), b"info"
    rows = private.public_key.seal_rows(info, np.zeros((2000, 49), dtype=np.uint8))
    contents, opener = [row.tobytes() for row in rows], crypto.EnvelopeOpener(private, info)
    suite, key = _load_hpke_suite(), X25519PrivateKey.from_private_bytes(private.secret)

    def bare() -> None:
        for content in contents:
            suite.decrypt(content, key, info)

    pairs = [(processor(bare), processor(lambda: opener(rows))) for _ in range(12)]
    bare_seconds, ours = (sum(times) for times in zip(*pairs, strict=True))
    return {"opened a core-second": 12 * len(rows) / ours, "bare decrypt / opening": bare_seconds / ours}


def close_all(_: argparse.Namespace) -> dict[str, float]:
    """A whole round, and how much of it is opening."""
    users = 20_000
    campaign, shuffler = campaign_of(users)
    key = PrivateKey.new()
    notice = RoundNotice(campaign.id, 1, 0, 1, key.public_key)
    wire = campaign.plan.mechanism.pack(campaign.plan.mechanism.encode(np.arange(users) % 16))
    reports = seal_reports(campaign, notice, wire)
    spent, opened = 0.0, crypto.EnvelopeOpener.__call__

    def timed(self: crypto.EnvelopeOpener, rows: Bytes) -> tuple[Bytes, int]:
        nonlocal spent
        begun = time.process_time()
        found = opened(self, rows)
        spent += time.process_time() - begun
        return found

    crypto.EnvelopeOpener.__call__ = timed  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as room:
        paths = ShufflerPaths.from_directories(Path(room))
        paths.create_directories(shuffler)
        with closing(paths.open_store()) as store:
            RoundManager(paths, store).accept(AcceptedCampaign(campaign, None), 0)
            for start in range(0, users, BATCH):
                store.append_reports([PostedReports(campaign.id, 1, reports[start : start + BATCH].tobytes())], 0)
            (paths.keys / f"{campaign.id}-1").write_bytes(key.secret)
            total = processor(lambda: RoundManager(paths, store).take_due_steps(3600))
            assert store.stored_bytes(campaign.id, 1) == 0
    crypto.EnvelopeOpener.__call__ = opened  # type: ignore[method-assign]
    return {"closing without opening / opening": (total - spent) / spent}


def close_large(arguments: argparse.Namespace) -> dict[str, float]:
    """Closes a large round in a separate process."""
    command = [sys.executable, __file__, "--large", arguments.reports]
    return dict(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))


def close_one_large(count: int) -> dict[str, float]:
    """Mixes random reports, a few of them repeated, with all steps but the cipher."""
    campaign, shuffler = campaign_of(1000)
    generator, width, chunk = np.random.default_rng(1), campaign.report_bytes, 50_000
    crypto.EnvelopeOpener.__call__ = lambda self, rows: (np.ascontiguousarray(rows[:, 48:]), 0)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as room:
        paths = ShufflerPaths.from_directories(Path(room, "state"))
        paths.create_directories(shuffler)
        with closing(paths.open_store()) as store:
            RoundManager(paths, store).accept(AcceptedCampaign(campaign, None), 0)
            for start in range(0, count, chunk):
                rows = generator.bytes(min(chunk, count - start) * width)
                store.append_reports(
                    [PostedReports(campaign.id, 1, rows), PostedReports(campaign.id, 1, rows[: 10 * width])], 0
                )
            before, size = peak_megabytes(), store.stored_bytes(campaign.id, 1)
            stored = (paths.state / "reports.sqlite").stat().st_size / size
            mix, work = RoundMixer(campaign, 1, PrivateKey.new()), Path(room, "work")
            work.mkdir()
            out = Path(room, "out")
            out.mkdir()
            spent = processor(lambda: mix.write(store.reports(campaign.id, 1), size, out, work))
            assert (mix.users, mix.repeated) == (count, 10 * -(-count // chunk))
    return {
        "reports closed without the cipher": count,
        "µs a report without the cipher": 1e6 * spent / count,
        "stored bytes / wire bytes, large": stored,
        "MB before": before,
        "MB to close without the cipher": peak_megabytes(),
    }


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "requests": requests, "hostile": hostile, "opening": open_all, "closing": close_all, "large": close_large,
}  # fmt: skip


def verdict(name: str, value: float) -> str:
    if name not in BARS:
        return ""
    sign, bar = BARS[name]
    return f"{sign} {bar:g}: {'met' if (value <= bar if sign == '≤' else value >= bar) else 'MISSED'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each kind of request")
    parser.add_argument("--reports", default="1e7")
    parser.add_argument("--database")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--empty", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--large", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.empty:
        serve_empty()
    elif arguments.large:
        print(json.dumps(close_one_large(int(float(arguments.large)))))
    else:
        found = {name: value for part in arguments.parts or PARTS for name, value in PARTS[part](arguments).items()}
        if arguments.json:
            print(json.dumps(found))
        for name, value in () if arguments.json else found.items():
            print(f"{name:40} {value:12,.3f}  {verdict(name, value)}")


if __name__ == "__main__":
    main()
