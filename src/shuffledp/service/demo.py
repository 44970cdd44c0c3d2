"""A demonstration of a complete campaign over loopback: many clients, a shuffler that is killed, and the analyst."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shuffledp._core.results_and_value_objects import Progress
from shuffledp._core.validation import Array
from shuffledp.collection.message_files import Manifest
from shuffledp.collection.report import Report
from shuffledp.collection.roles import estimate
from shuffledp.ledger.ledger import Ledger
from shuffledp.planning.plan import Plan
from shuffledp.service.batch_receiver import fetch_and_open
from shuffledp.service.campaign import Campaign
from shuffledp.service.client import HttpClient, fetch_open_round, post_reports
from shuffledp.service.crypto import AnalystKey, ShufflerKey
from shuffledp.service.notices_and_statements import RoundNotice
from shuffledp.service.rounds import RoundManager
from shuffledp.service.sealing import seal_reports
from shuffledp.service.stores import AcceptedCampaign, ShufflerPaths

ERROR_PREFIX = "demo"
CONNECTIONS = 24
SEALING_BATCH_SIZE = 500
MAX_ATTEMPTS = 60
"""Attempts per request; clients retry for a few minutes."""
WAIT_TIMEOUT_SECONDS = 60.0
StepCallback = Callable[[str], None]


@dataclass(frozen=True)
class DemoResult:
    """Result of the demonstration."""

    campaign: Campaign
    report: Report
    received: Manifest
    ledger: Ledger


def run_demo(
    plan: Plan,
    values: Array,
    room: Path,
    *,
    kills: int = 1,
    progress: Progress | None = None,
    tell: StepCallback = lambda _: None,
) -> DemoResult:
    """Collects one value of each client in a campaign with separate clients, shuffler and analyst.

    Args:
        plan: The plan of the campaign.
        values: Values of the clients.
        room: Directory for all files.
        kills: Number of times that the server is killed and restarted while clients send.
        progress: Display of the progress.
        tell: Function that is called with a sentence about each step.

    Returns:
        The campaign, the analyst's report, the manifest of the received messages, and the shuffler's ledger.
    """
    shown = Progress() if progress is None else progress
    analyst, shuffler = AnalystKey.new(), ShufflerKey.new()
    campaign = Campaign.create(
        plan, analyst, shuffler.identity, url="http://127.0.0.1", operators=("the analyst", "the shuffler"), window=3600
    )
    campaign.prove_promise(without_local=True)
    tell(
        f"The campaign {campaign.id[:12]}… is created. The shuffler accepts it: it computes the promise again and "
        f"reserves it in its ledger."
    )
    paths, ledger = ShufflerPaths.from_directories(room / "shuffler"), Ledger.create(room / "ledger.sqlite")
    paths.create_directories(shuffler)
    with closing(paths.open_store()) as store:
        RoundManager(paths, store).accept(AcceptedCampaign(campaign, str(ledger.path)), int(time.time()))
    with _ServerProcess(paths).run() as server:
        _run_clients(campaign, values, server, kills, shown, tell)
        tell(
            "The round is closed: reports are opened, messages sorted by their bytes, and the round's key is destroyed."
        )
        _close_round(paths, campaign)
        received = fetch_and_open(campaign, analyst, out=room / "opened", url=server.url, progress=shown)
    tell(f"The analyst fetched and opened {received.messages:,} messages of {received.users:,} clients.")
    return DemoResult(campaign, estimate(plan, room / "opened", out=room / "result"), received, ledger)


# --- Clients ---


def _run_clients(
    campaign: Campaign, values: Array, server: _ServerProcess, kills: int, progress: Progress, tell: StepCallback
) -> None:
    """Runs all clients concurrently; each sends the same bytes until they are acknowledged."""
    with HttpClient(server.url, MAX_ATTEMPTS) as link:
        notice = fetch_open_round(campaign, link)
    reports = [report for part in _seal_values(campaign, notice, values, progress) for report in part]
    done = _AcknowledgementCounter(len(reports) // (kills + 1) or 1)
    tell(
        f"{len(reports):,} clients randomised and sealed their values, {len(reports[0]):,} bytes each; they send them."
    )
    with progress.step("sending", len(reports)) as advance, ThreadPoolExecutor(CONNECTIONS) as pool:

        def client(own: Sequence[bytes]) -> None:
            with HttpClient(server.url, MAX_ATTEMPTS) as link:
                for report in own:
                    post_reports(campaign, notice.number, link, report)
                    advance(1)
                    done.add()

        sending = [pool.submit(client, reports[first::CONNECTIONS]) for first in range(CONNECTIONS)]
        for part in range(1, kills + 1):
            done.wait_for_part(part)
            server.kill()
            tell(f"The server was killed after {done.count:,} acknowledgements, and restarted.")
            server.start()
        for each in sending:
            each.result()


def _seal_values(campaign: Campaign, notice: RoundNotice, values: Array, progress: Progress) -> Iterator[list[bytes]]:
    mechanism = campaign.plan.mechanism
    with progress.step("sealing", len(values)) as advance:
        for start in range(0, len(values), SEALING_BATCH_SIZE):
            batch = values[start : start + SEALING_BATCH_SIZE]
            wire = np.ascontiguousarray(mechanism.pack(mechanism.encode(batch)))
            yield [row.tobytes() for row in seal_reports(campaign, notice, wire)]
            advance(len(batch))


class _AcknowledgementCounter:
    """A counter of acknowledged reports, shared by threads, that can be waited for in units of ``part``."""

    def __init__(self, part: int) -> None:
        self.count, self._part = 0, part
        self._changed = threading.Condition()

    def add(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify()

    def wait_for_part(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.count >= number * self._part, WAIT_TIMEOUT_SECONDS)


# --- Shuffler ---


class _ServerProcess:
    """``shuffledp serve`` in a separate process; a restart uses the same address."""

    def __init__(self, paths: ShufflerPaths) -> None:
        self._paths, self._listen, self.url = paths, "127.0.0.1:0", ""

    def start(self) -> None:
        command = [sys.executable, "-P", "-m", "shuffledp", "serve", "--state", str(self._paths.state)]
        self._process = subprocess.Popen(
            [*command, "--listen", self._listen], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        with self._process.stdout as out:
            words = out.readline().split()
        if len(words) < 3:
            raise ValueError(f"{ERROR_PREFIX}: the server did not start at {self._listen}.")
        self.url = words[2].rstrip(";")
        self._listen = self.url.removeprefix("http://")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @contextmanager
    def run(self) -> Iterator[_ServerProcess]:
        """Runs the server until the block ends."""
        self.start()
        try:
            yield self
        finally:
            self.kill()


def _close_round(paths: ShufflerPaths, campaign: Campaign) -> None:
    """Closes the round now, as ``campaign close`` does."""
    deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
    with closing(paths.open_store()) as store:
        while True:
            try:
                with paths.lock_rounds():
                    RoundManager(paths, store).close_now(store.rounds(campaign.id)[-1], int(time.time()))
                    return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ValueError(
                        f"{ERROR_PREFIX}: another process keeps closing rounds in {paths.state}."
                    ) from None
                time.sleep(0.1)
