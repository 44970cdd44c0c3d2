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
from shuffledp.service.delivery import deliver
from shuffledp.service.envelope import REPORT, PrivateKey, context
from shuffledp.service.link import Link
from shuffledp.service.notice import BatchRecord
from shuffledp.service.place import Place
from shuffledp.service.store import State
from tests.collection import messages_in
from tests.oracle import hpke
from tests.service import campaign_of, plan_for
from tests.service.postgres import postgres
from tests.service.server import PATIENCE, Server, accepted, end_now
from tests.service.test_round import Shuffler

CLIENTS = 3


@dataclass
class Endurance:
    """One shuffler, its server of the moment, and how often it was killed."""

    place: Place
    campaign: Campaign
    chance: random.Random
    killed: int = 0
    acknowledged: int = 0
    _server: list[Server] = field(default_factory=list)

    def start(self) -> None:
        self._server.append(Server(self.place.state, workers=self.chance.choice([1, 2]), database=self.place.database))

    def kill(self) -> None:
        self._server[-1].kill()
        self.killed += 1

    def end(self) -> None:
        if self._server and self._server[-1].process.poll() is None:
            self._server[-1].kill()

    def round(self, number: int, users: int, kills: int) -> None:
        """A round from its first report to its batch, with so many kills, a third of them while it is closed."""
        shuffler = Shuffler.__new__(Shuffler)
        shuffler.place, shuffler.campaign, shuffler.store = self.place, self.campaign, self.place.store()
        reports = shuffler.reports([value % 3 for value in range(users)], number)
        key = self.place.key(shuffler.round(number).name)
        assert key is not None
        closing = kills // 3
        self._load(number, reports, kills - closing)
        end_now(self.place, self.campaign)
        for _ in range(closing):
            time.sleep(self.chance.uniform(0.5, 4.0))
            self.kill()
            self.start()
        self._check(shuffler, number, reports, key)
        shuffler.store.close()

    def _load(self, number: int, reports: list[bytes], kills: int) -> None:
        """All reports are sent, by clients that never give up."""
        taken: list[bytes] = []
        clients = [
            threading.Thread(target=self._client, args=(number, reports[first::CLIENTS], taken), daemon=True)
            for first in range(CLIENTS)
        ]
        for each in clients:
            each.start()
        for left in range(kills, 0, -1):
            wanted = len(taken) + self.chance.randrange(1, 1 + max(1, (len(reports) - len(taken)) // left))
            until = time.monotonic() + PATIENCE
            while len(taken) < min(wanted, len(reports)) and time.monotonic() < until:
                time.sleep(0.002)
            self.kill()
            self.start()
        for each in clients:
            each.join(2 * PATIENCE)
        assert sorted(taken) == sorted(reports)
        self.acknowledged += len(taken)

    def _client(self, number: int, mine: list[bytes], taken: list[bytes]) -> None:
        until = time.monotonic() + 20 * PATIENCE
        for report in mine:
            while time.monotonic() < until:
                try:
                    with Link(self._server[-1].url, tries=1) as link:
                        deliver(self.campaign, number, link, report)
                except ValueError:
                    time.sleep(0.02)
                else:
                    taken.append(report)
                    time.sleep(0.005)
                    break

    def _check(self, shuffler: Shuffler, number: int, reports: list[bytes], key: PrivateKey) -> None:
        until = time.monotonic() + 4 * PATIENCE
        while shuffler.round(number).state is not State.FORGOTTEN:
            assert time.monotonic() < until, shuffler.round(number).state
            time.sleep(0.1)
        found = shuffler.round(number)
        info = context(REPORT, self.campaign.id, number)
        inside = sorted(hpke.opened(key.secret, info, report) for report in reports)
        assert messages_in(self.place.batch(found), self.campaign.message_bytes) == inside
        statement = BatchRecord.read(self.campaign, found.statement or b"")
        assert (statement.manifest.users, statement.refused) == (len(reports), 0)
        assert self.place.key(found.name) is None
        assert not (self.place.keys / found.name).exists()
        assert shuffler.store.size(self.campaign.id, number) == 0


def endure(room: Path, database: str | None, *, kills: int, rounds: int, users: int, seed: int) -> Endurance:
    """So many kills over so many rounds."""
    campaign = campaign_of(plan_for(users, rounds=rounds), window=24 * 3600)
    place = accepted(room / "state", campaign, database=database)
    endurance = Endurance(place, campaign, random.Random(seed))
    try:
        endurance.start()
        for number in range(1, rounds + 1):
            endurance.round(number, users, kills // rounds + (number <= kills % rounds))
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
            done = endure(Path(room), None, **chosen)
        else:
            with postgres() as server:
                done = endure(Path(room), server.new_database(), **chosen)
    print(
        f"{told.store}: {done.killed} kills, {done.acknowledged} acknowledged reports in {told.rounds} rounds, each "
        f"once in its batch; keys and reports gone; {time.monotonic() - begun:.0f} s."
    )


if __name__ == "__main__":
    main()
