"""Requests that ask for too much are refused, while others are answered."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import shuffledp
from shuffledp.explorer.requests import OPERATIONS
from shuffledp.explorer.workers import Busy, OverBudget, WorkerQueue
from tests.explorer.browser import TIMEOUT_SECONDS, PageServer

QUICK = {"epsilon_local": 1, "delta": 0.01, "effort": "quick"}
LONG = {"mechanism": "krr", "epsilon_local": 2, "settings": {"options": 16}, "users": 1e5, "delta": 1e-8}


def answered(server: PageServer, users: int) -> None:
    """An ordinary question, as the page asks it: again where the server is busy."""
    until = time.monotonic() + TIMEOUT_SECONDS
    while (status := server.query("amplify", {**QUICK, "users": users})[0]) == 503:
        assert time.monotonic() < until
        time.sleep(0.2)
    assert status == 200


def test_a_table_of_ten_thousand_times_ten_thousand(server: PageServer) -> None:
    """It is not even read to its end."""
    host, port = server.host.split(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS) as link:
        head = (
            f"POST /{server.url.split('/')[3]}/api/amplify HTTP/1.1\r\nHost: {server.host}\r\n"
            f"Content-Type: application/json\r\nContent-Length: 300000000\r\n\r\n"
        )
        link.sendall(head.encode() + b'{"table": "')
        row = b"0.0001," * 10_000
        sent = 0
        try:
            for _ in range(10_000):
                link.sendall(row)
                sent += len(row)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass
        told = link.recv(1 << 16) if sent else b""
    assert sent < 100_000_000
    assert not told or b" 413 " in told.split(b"\r\n")[0]
    answered(server, 101)


def test_deep_json(server: PageServer) -> None:
    """Refused in a sentence, in a list or in an object."""
    for deep in (b"[" * 500_000, b'{"settings":' * 100_000, b'{"plan": ' + b"[" * 900 + b"]" * 900 + b"}"):
        status, found = server.query("simulate", deep)
        assert status in (400, 422), found
        assert found["error"].startswith("simulate: ")
    assert server.query("amplify", b'{"users": NaN}')[0] == 400
    assert server.query("amplify", b'{"users": ' + b"9" * 5000 + b"}")[0] == 400
    answered(server, 102)


def test_huge_numbers(server: PageServer) -> None:
    """Each is the library's own refusal, or an answer; none is an error of ours."""
    for given in (
        {**QUICK, "users": 1e300},
        {**QUICK, "users": "1e999"},
        {**QUICK, "users": 10, "rounds": 1e30},
        {"mechanism": "oue", "settings": {"options": 1e15}, **QUICK, "users": 1e6},
    ):
        assert server.query("amplify", given)[0] in (200, 422)
    answered(server, 103)


def test_a_thousand_at_once(server: PageServer) -> None:
    """Some are answered, the others refused at once; the page and its questions are answered all the while."""

    def one(place: int) -> int:
        return server.query("amplify", {**QUICK, "users": 1000 + place})[0]

    with ThreadPoolExecutor(128) as crowd:
        asked = [crowd.submit(one, place) for place in range(1000)]
        assert server.get("")[0] == 200
        answered(server, 104)
        statuses = [each.result() for each in asked]
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 2
    answered(server, 105)


def test_what_takes_long_does_not_keep_others_waiting(server: PageServer) -> None:
    """Long questions have workers of their own; who stops listening stops the work."""
    host, port = server.host.split(":")
    body = json.dumps({**LONG, "against": "rounds"}).encode()
    head = (
        f"POST /{server.url.split('/')[3]}/api/sweep HTTP/1.1\r\nHost: {server.host}\r\n"
        f"Accept: application/x-ndjson\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    links = [socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS) for _ in range(4)]
    for link in links:
        link.sendall(head + body)
    told = links[0].recv(4096)
    while b"progress" not in told:
        told += links[0].recv(4096)
    answered(server, 106)
    during = server.children()
    for link in links:
        link.close()
    until = time.monotonic() + TIMEOUT_SECONDS
    while during <= server.children():
        assert time.monotonic() < until, "who works for nobody is ended"
        time.sleep(0.1)
    answered(server, 107)


# --- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_question_over_its_time_is_ended() -> None:
    """The worker is gone, and the next question is answered by another one."""

    async def tried() -> tuple[str, dict[str, Any]]:
        lane = WorkerQueue(1, 60.0)
        lane.start()
        try:
            quick = OPERATIONS["amplify"].build_request({**QUICK, "users": 100})
            await lane.ask(quick)
            lane.seconds = 0.5
            with pytest.raises(OverBudget) as late:
                await lane.ask(OPERATIONS["sweep"].build_request({**LONG, "against": "rounds"}))
            lane.seconds = 60.0
            return str(late.value), await lane.ask(quick)
        finally:
            await lane.stop()

    sentence, answer = asyncio.run(tried())
    assert sentence.startswith("sweep: this takes longer than the 0.5 seconds")
    assert answer["answer"]["users"] == 100


def test_no_more_may_wait_than_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is told so at once."""
    monkeypatch.setattr("shuffledp.explorer.workers.MAX_WAITING_REQUESTS", 0)

    async def tried() -> None:
        with pytest.raises(Busy):
            await WorkerQueue(1, 1.0).ask(OPERATIONS["mechanisms"].build_request({}))

    asyncio.run(tried())


def test_memory_is_limited(tmp_path: Path) -> None:
    """A worker cannot take more than its budget, and says so in the command's words."""
    program = """
import json, sys
from shuffledp.explorer import workers as worker
command = worker._load_command()
asked = {"operation": "amplify", "written": [], "files": {"table.csv": ("1," + "0," * 1498 + "0\\n") * 1500},
         "arguments": ["amplify", "--table=table.csv", "--users=10", "--delta=0.1", "--json"]}
worker.limit_resources(1 << 25)
print(json.dumps(worker.run_command(command, asked, lambda line: None)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
        env={"PYTHONPATH": str(Path(shuffledp.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert json.loads(done.stdout) == {"refused": "this needs more memory than there is; ask for less."}, done.stderr


def test_workers_have_limits(server: PageServer) -> None:
    """Of memory, of files and of dumps."""
    answered(server, 108)
    for worker in server.children():
        text = Path(f"/proc/{worker}/limits").read_text("ascii")
        told = {line[:26].strip(): line[26:].split()[0] for line in text.splitlines()[1:]}
        assert int(told["Max address space"]) < 4 << 30
        assert told["Max core file size"] == "0"
        assert told["Max file size"] != "unlimited"
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
