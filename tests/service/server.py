"""A real server in processes of its own, on a free port of loopback; it is ended by whoever started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from shuffledp.service.campaign import Campaign
from shuffledp.service.client import HttpClient
from shuffledp.service.rounds import RoundManager
from shuffledp.service.stores import AcceptedCampaign, ShufflerPaths
from tests.service import SHUFFLER

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 60.0


class Server:
    """``shuffledp serve``, with all that it starts in one group of processes."""

    def __init__(
        self,
        state: Path,
        *,
        workers: int = 1,
        database: str | None = None,
        front: bool = False,
        more: Sequence[str] = (),
    ) -> None:
        arguments = ["serve", "--listen", "127.0.0.1:0", "--workers", str(workers), *more]
        arguments += [] if front else ["--state", str(state)]
        arguments += [] if database is None else ["--database", database]
        with (state / "stderr.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "shuffledp", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
                start_new_session=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Listening at "), (state / "stderr.log").read_text()
        self.url = line.split()[2].rstrip(";")
        with HttpClient(self.url, max_attempts=30) as link:
            link.request("GET", "/healthz")

    def kill(self) -> None:
        """SIGKILL to everything that it started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self._wait()

    def stop(self) -> None:
        """As an operator stops it."""
        self.process.send_signal(signal.SIGTERM)
        self._wait()

    def _wait(self) -> None:
        self.process.wait(TIMEOUT_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def run_server(state: Path, **chosen: Any) -> Iterator[Server]:
    """A server while the block runs."""
    server = Server(state, **chosen)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def accept_campaign(
    state: Path, campaign: Campaign, ledger: Path | None = None, database: str | None = None
) -> ShufflerPaths:
    """A shuffler that opened the campaign's first round just now."""
    paths = ShufflerPaths.from_directories(state, None, database)
    paths.create_directories(SHUFFLER)
    store = paths.open_store()
    RoundManager(paths, store).accept(
        AcceptedCampaign(campaign, None if ledger is None else str(ledger)), int(time.time())
    )
    store.close()
    return paths


def close_round_now(paths: ShufflerPaths, campaign: Campaign) -> None:
    """Let the round's time be over; the server's clock finds out by itself."""
    store = paths.open_store()
    found = store.rounds(campaign.id)[-1]
    assert store.update_round(found, replace(found, closes=int(time.time())))
    store.close()


def fetch_round_state(server: Server, campaign: Campaign, token: str, number: int = 1) -> str:
    """Where a round stands, as the analyst is told."""
    headers = {"Authorization": f"Bearer {token}"}
    with HttpClient(server.url) as link:
        answer = link.request("GET", f"/v1/campaigns/{campaign.id}/rounds/{number}", headers=headers)
    return str(json.loads(answer.content)["state"])


def wait_for_state(server: Server, campaign: Campaign, token: str, state: str) -> None:
    """Until a round stands there."""
    until = time.monotonic() + TIMEOUT_SECONDS
    while fetch_round_state(server, campaign, token) != state:
        assert time.monotonic() < until, fetch_round_state(server, campaign, token)
        time.sleep(0.1)
