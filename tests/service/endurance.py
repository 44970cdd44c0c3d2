"""A server that is killed again and again, while clients send and while it closes its rounds.

    python -m tests.service.endurance --kills 50 --store sqlite|postgres

Clients repeat the same bytes until they are acknowledged. Then, whatever was killed when: each report is in the batch
of its round exactly once, and the round's key and reports are gone.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from shuffledp.service.campaign import Campaign
from shuffledp.service.client import HttpClient, post_reports
from shuffledp.service.crypto import REPORT_LABEL, PrivateKey, build_context
from shuffledp.service.notices_and_statements import BatchStatement
from shuffledp.service.stores import RoundState, ShufflerPaths
from tests.collection import read_messages
from tests.oracle import hpke
from tests.service import create_campaign, plan_for
from tests.service.postgres import run_postgres
from tests.service.server import TIMEOUT_SECONDS, Server, accept_campaign, close_round_now
from tests.service.test_round import Shuffler

CLIENTS = 3


@dataclass
class Endurance:
    """One shuffler, its server of the moment, and how often it was killed."""

    paths: ShufflerPaths
    campaign: Campaign
    rng: random.Random
    kills: int = 0
    acknowledged: int = 0
    _server: list[Server] = field(default_factory=list)

    def start(self) -> None:
        self._server.append(Server(self.paths.state, workers=self.rng.choice([1, 2]), database=self.paths.database))

    def kill(self) -> None:
        self._server[-1].kill()
        self.kills += 1

    def end(self) -> None:
        if self._server and self._server[-1].process.poll() is None:
            self._server[-1].kill()

    def run_round(self, number: int, users: int, kills: int) -> None:
        """A round from its first report to its batch, with so many kills, a third of them while it is closed."""
        shuffler = Shuffler.__new__(Shuffler)
        shuffler.paths, shuffler.campaign, shuffler.store = self.paths, self.campaign, self.paths.open_store()
        reports = shuffler.reports([value % 3 for value in range(users)], number)
        key = self.paths.round_key(shuffler.round(number).name)
        assert key is not None
        closing = kills // 3
        self._send_reports(number, reports, kills - closing)
        close_round_now(self.paths, self.campaign)
        for _ in range(closing):
            time.sleep(self.rng.uniform(0.5, 4.0))
            self.kill()
            self.start()
        self._check(shuffler, number, reports, key)
        shuffler.store.close()

    def _send_reports(self, number: int, reports: list[bytes], kills: int) -> None:
        """All reports are sent, by clients that never give up."""
        taken: list[bytes] = []
        clients = [
            threading.Thread(target=self._run_client, args=(number, reports[first::CLIENTS], taken), daemon=True)
            for first in range(CLIENTS)
        ]
        for each in clients:
            each.start()
        for left in range(kills, 0, -1):
            wanted = len(taken) + self.rng.randrange(1, 1 + max(1, (len(reports) - len(taken)) // left))
            until = time.monotonic() + TIMEOUT_SECONDS
            while len(taken) < min(wanted, len(reports)) and time.monotonic() < until:
                time.sleep(0.002)
            self.kill()
            self.start()
        for each in clients:
            each.join(2 * TIMEOUT_SECONDS)
        assert sorted(taken) == sorted(reports)
        self.acknowledged += len(taken)

    def _run_client(self, number: int, mine: list[bytes], taken: list[bytes]) -> None:
        until = time.monotonic() + 20 * TIMEOUT_SECONDS
        for report in mine:
            while time.monotonic() < until:
                try:
                    with HttpClient(self._server[-1].url, max_attempts=1) as link:
                        post_reports(self.campaign, number, link, report)
                except ValueError:
                    time.sleep(0.02)
                else:
                    taken.append(report)
                    time.sleep(0.005)
                    break

    def _check(self, shuffler: Shuffler, number: int, reports: list[bytes], key: PrivateKey) -> None:
        until = time.monotonic() + 4 * TIMEOUT_SECONDS
        while shuffler.round(number).state is not RoundState.FORGOTTEN:
            assert time.monotonic() < until, shuffler.round(number).state
            time.sleep(0.1)
        found = shuffler.round(number)
        info = build_context(REPORT_LABEL, self.campaign.id, number)
        inside = sorted(hpke.open_envelope(key.secret, info, report) for report in reports)
        assert read_messages(self.paths.batch_directory(found), self.campaign.message_bytes) == inside
        statement = BatchStatement.from_signed(self.campaign, found.statement or b"")
        assert (statement.manifest.users, statement.refused) == (len(reports), 0)
        assert self.paths.round_key(found.name) is None
        assert not (self.paths.keys / found.name).exists()
        assert shuffler.store.stored_bytes(self.campaign.id, number) == 0


def run_endurance(room: Path, database: str | None, *, kills: int, rounds: int, users: int, seed: int) -> Endurance:
    """So many kills over so many rounds."""
    campaign = create_campaign(plan_for(users, rounds=rounds), window=24 * 3600)
    paths = accept_campaign(room / "state", campaign, database=database)
    endurance = Endurance(paths, campaign, random.Random(seed))
    try:
        endurance.start()
        for number in range(1, rounds + 1):
            endurance.run_round(number, users, kills // rounds + (number <= kills % rounds))
    finally:
        endurance.end()
    return endurance


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--users", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    told = parser.parse_args()
    chosen = {"kills": told.kills, "rounds": told.rounds, "users": told.users, "seed": told.seed}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as room:
        if told.store == "sqlite":
            done = run_endurance(Path(room), None, **chosen)
        else:
            with run_postgres() as server:
                done = run_endurance(Path(room), server.new_database(), **chosen)
    print(
        f"{told.store}: {done.kills} kills, {done.acknowledged} acknowledged reports in {told.rounds} rounds, each "
        f"once in its batch; keys and reports gone; {time.monotonic() - begun:.0f} s."
    )


if __name__ == "__main__":
    main()
