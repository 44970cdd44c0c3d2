"""One page server, one browser and one fetched copy of axe-core for all tests of a session."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
TIMEOUT_SECONDS = 180.0
STOPPED_MESSAGE = "shuffledp: Stopped.\n"
NO_PROXY_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class PageServer:
    """``shuffledp web`` with all that it starts in one group of processes."""

    def __init__(self, *arguments: str, opens: bool = False) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "shuffledp", "web", *(() if opens else ("--no-open",)), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
            start_new_session=True,
            # Tests that run in the background ignore Ctrl-C, and what they start would, too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found is not None, "it tells its address first"
        self.url = found[0]

    @property
    def host(self) -> str:
        return self.url.split("/")[2]

    def query(self, operation: str, given: Any, **headers: str) -> tuple[int, Any]:
        """Status and document of one question."""
        body = given if isinstance(given, bytes) else json.dumps(given).encode()
        told = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        request = urllib.request.Request(f"{self.url}api/{operation}", body, told)
        return self._send_request(request)

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """Status and content of an address."""
        told = {name.replace("_", "-"): text for name, text in headers.items()}
        return self._send_request(urllib.request.Request(self.url + path, headers=told))

    def _send_request(self, request: urllib.request.Request) -> tuple[int, Any]:
        try:
            with NO_PROXY_OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
                return answer.status, _read(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _read(error.read())

    def children(self) -> set[int]:
        """The workers that live."""
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        return {int(word) for word in listed.stdout.split()}

    def stop(self) -> str:
        """As somebody does with Ctrl-C; what it wrote to stderr."""
        workers = self.children()
        self.process.send_signal(signal.SIGINT)
        _, told = self.process.communicate(timeout=TIMEOUT_SECONDS)
        until = time.monotonic() + TIMEOUT_SECONDS
        while any(_is_running(worker) for worker in workers):
            assert time.monotonic() < until, "its workers end with it"
            time.sleep(0.05)
        return told


def _is_running(process: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def _read(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode()


@contextlib.contextmanager
def run_server(*arguments: str) -> Iterator[PageServer]:
    """A page while the block runs."""
    server = PageServer(*arguments)
    try:
        yield server
    finally:
        told = server.stop()
    assert told == STOPPED_MESSAGE, told


def chromium_path() -> str:
    """The program; a sentence where it is missing."""
    found = shutil.which("chromium")
    assert found is not None, "Chromium is needed: apt-get install chromium"
    return found


def axe_source(folder: Path) -> str:
    """The text of axe-core, from npm's registry; a sentence where it cannot be had."""
    npm = shutil.which("npm")
    assert npm is not None, "The accessibility test needs npm to fetch axe-core; install Node.js."
    made = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not made.exists():
        command = [npm, "install", "--prefix", str(folder), "--no-save", "--no-audit", "--no-fund", "axe-core@4"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert made.exists(), f"axe-core could not be fetched by npm: {done.stderr.strip()[-300:]}"
    return made.read_text("utf-8")
