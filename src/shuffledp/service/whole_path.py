"""The whole path on one machine, over loopback: a shuffler that is killed on the way, many clients, and the analyst."""

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

from shuffledp.array import Array
from shuffledp.collection.ledger import Ledger
from shuffledp.collection.manifest import Manifest
from shuffledp.collection.report import Report
from shuffledp.collection.role.estimator import estimate
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress
from shuffledp.service import delivery
from shuffledp.service.campaign import Campaign
from shuffledp.service.fetch import receive_from
from shuffledp.service.key_file import AnalystKey, ShufflerKey
from shuffledp.service.link import Link
from shuffledp.service.notice import Notice
from shuffledp.service.place import Place
from shuffledp.service.round import Keeper
from shuffledp.service.sealed_report import sealed_reports
from shuffledp.service.store import Accepted

WHO = "demo"
CONNECTIONS = 24
SEALED_AT_ONCE = 500
TRIES = 60
"""Clients come back for a few minutes."""
END_SECONDS = 60.0
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Rehearsed:
    """What came out: the analyst's report, and what was received."""

    campaign: Campaign
    report: Report
    received: Manifest
    ledger: Ledger


def rehearse(
    plan: Plan,
    values: Array,
    room: Path,
    *,
    kills: int = 1,
    progress: Progress | None = None,
    tell: Tell = lambda _: None,
) -> Rehearsed:
    """Collect ``values``, one of each client, as parties do that see no more than they should.

    ``room``: a directory for everything. The server is killed ``kills`` times while clients send.
    """
    shown = Progress() if progress is None else progress
    analyst, shuffler = AnalystKey.new(), ShufflerKey.new()
    campaign = Campaign.create(
        plan, analyst, shuffler.identity, url="http://127.0.0.1", operators=("the analyst", "the shuffler"), window=3600
    )
    campaign.demand_kept(without_local=True)
    tell(
        f"The campaign {campaign.id[:12]}… is made, and accepted by the shuffler: it computes the promise again, and "
        f"reserves it in its ledger."
    )
    place, ledger = Place.of(room / "shuffler"), Ledger.create(room / "ledger.sqlite")
    place.make(shuffler)
    with closing(place.store()) as store:
        Keeper(place, store).accept(Accepted(campaign, str(ledger.path)), int(time.time()))
    with _Server(place).running() as server:
        _take_part(campaign, values, server, kills, shown, tell)
        tell(
            "The round is closed: reports are opened, messages put in order of their bytes, the round's key destroyed."
        )
        _end(place, campaign)
        received = receive_from(campaign, analyst, out=room / "opened", url=server.url, progress=shown)
    tell(f"The analyst fetched and opened {received.messages:,} messages of {received.users:,} clients.")
    return Rehearsed(campaign, estimate(plan, room / "opened", out=room / "result"), received, ledger)


# --- clients ----------------------------------------------------------------------------------------------------------


def _take_part(campaign: Campaign, values: Array, server: _Server, kills: int, progress: Progress, tell: Tell) -> None:
    """All clients, in no particular order; each sends the same bytes until they are acknowledged."""
    with Link(server.url, TRIES) as link:
        notice = delivery.open_round(campaign, link)
    reports = [report for part in _sealed(campaign, notice, values, progress) for report in part]
    done = _Count(len(reports) // (kills + 1) or 1)
    tell(f"{len(reports):,} clients randomised and sealed their values, {len(reports[0]):,} bytes each, and send them.")
    with progress.step("sending", len(reports)) as advance, ThreadPoolExecutor(CONNECTIONS) as pool:

        def client(mine: Sequence[bytes]) -> None:
            with Link(server.url, TRIES) as link:
                for report in mine:
                    delivery.deliver(campaign, notice.number, link, report)
                    advance(1)
                    done.add()

        sending = [pool.submit(client, reports[first::CONNECTIONS]) for first in range(CONNECTIONS)]
        for killed in range(1, kills + 1):
            done.wait_for_part(killed)
            server.kill()
            tell(f"The server was killed when {done.count:,} were acknowledged, and started again.")
            server.start()
        for each in sending:
            each.result()


def _sealed(campaign: Campaign, notice: Notice, values: Array, progress: Progress) -> Iterator[list[bytes]]:
    mechanism = campaign.plan.mechanism
    with progress.step("sealing", len(values)) as advance:
        for start in range(0, len(values), SEALED_AT_ONCE):
            some = values[start : start + SEALED_AT_ONCE]
            wire = np.ascontiguousarray(mechanism.pack(mechanism.encode(some)))
            yield [row.tobytes() for row in sealed_reports(campaign, notice, wire)]
            advance(len(some))


class _Count:
    """How many are done, for threads; ``part`` of them is worth waiting for."""

    def __init__(self, part: int) -> None:
        self.count, self._part = 0, part
        self._changed = threading.Condition()

    def add(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify()

    def wait_for_part(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.count >= number * self._part, END_SECONDS)


# --- the shuffler -----------------------------------------------------------------------------------------------------


class _Server:
    """``shuffledp serve`` in a process of its own; started again, it is at the same address."""

    def __init__(self, place: Place) -> None:
        self._place, self._listen, self.url = place, "127.0.0.1:0", ""

    def start(self) -> None:
        command = [sys.executable, "-P", "-m", "shuffledp", "serve", "--state", str(self._place.state)]
        self._process = subprocess.Popen(
            [*command, "--listen", self._listen], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        with self._process.stdout as out:
            words = out.readline().split()
        if len(words) < 3:
            raise ValueError(f"{WHO}: the server did not start at {self._listen}.")
        self.url = words[2].rstrip(";")
        self._listen = self.url.removeprefix("http://")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @contextmanager
    def running(self) -> Iterator[_Server]:
        """Until the block ends."""
        self.start()
        try:
            yield self
        finally:
            self.kill()


def _end(place: Place, campaign: Campaign) -> None:
    """Close the round now, as ``campaign close`` does."""
    until = time.monotonic() + END_SECONDS
    with closing(place.store()) as store:
        while True:
            try:
                with place.alone():
                    Keeper(place, store).close_now(store.rounds(campaign.id)[-1], int(time.time()))
                    return
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ValueError(f"{WHO}: another process keeps closing rounds in {place.state}.") from None
                time.sleep(0.1)
