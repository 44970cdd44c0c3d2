"""An edge server's part: the rows of a table randomised once, sealed into a file, and posted from there.

``SPOOL`` holds the sealed reports until all of them are confirmed, ``SPOOL.sent`` how far that is. Killed at any
moment, the next run posts the same bytes on; when all are confirmed the reports are deleted and a mark stays, so that
the same table is not randomised a second time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shuffledp.array import Bytes
from shuffledp.collection import durable, kernel
from shuffledp.collection.engine.embedded import Embedded, told
from shuffledp.collection.input.given_data import named, prepared, table_of
from shuffledp.collection.input.table import Table
from shuffledp.progress import Progress
from shuffledp.sampling.random import KEY_BYTES
from shuffledp.service import delivery
from shuffledp.service.campaign import Campaign
from shuffledp.service.ingest import MOST_REPORTS
from shuffledp.service.link import Link
from shuffledp.service.notice import Notice
from shuffledp.service.sealed_report import sealed_reports
from shuffledp.tasks.column import Column
from shuffledp.tasks.rules import STRICT, Rules

WHO = "send"
HEAD_BYTES = 40
"""The campaign's id and the round, before the reports."""
REPORTS_A_REQUEST = MOST_REPORTS // 2


@dataclass(frozen=True)
class Sent:
    """What was sent, in which round."""

    reports: int
    round_number: int


def send(
    campaign: Campaign | str | os.PathLike[str],
    data: Any,
    column: str | Sequence[str] | None = None,
    *,
    spool: str | os.PathLike[str],
    url: str | None = None,
    user: str | None = None,
    rules: Rules = STRICT,
    delimiter: str | None = None,
    gather: bool = False,
    progress: Progress | None = None,
) -> Sent:
    """Send a report for each row of a table; each row, or each ``user``, is one person who takes part.

    ``spool``: a new file, or that of a run that was killed, which goes on. Of several rows of a ``user`` the first is
    used. ``url`` is by default where the campaign says; ``rules``, ``delimiter`` and ``gather`` are as for ``collect``.
    """
    chosen = campaign if isinstance(campaign, Campaign) else Campaign.load(campaign)
    link, path = Link(chosen.url if url is None else url), Path(spool)
    shown = Progress() if progress is None else progress
    with link:
        if not path.exists():
            read = chosen.plan.task.columns_read(named(column))
            table = table_of(data, read, user, 1, delimiter, gather)
            values = chosen.plan.column(*table.columns_named(read), rules=rules)
            table = prepared(table, values, user, gather)
            _encode(chosen, table, values, path, delivery.open_round(chosen, link), shown)
        return _Spool.open(path, chosen).post(link, shown)


def _encode(campaign: Campaign, table: Table, read: Column, path: Path, notice: Notice, progress: Progress) -> None:
    """All reports of the table into the spool; it gets its name when it is complete on disk."""
    users = Embedded(progress).check(table, read)
    if users == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    encoder = kernel.Encoder(read, os.urandom(KEY_BYTES))

    def reports() -> Iterator[Bytes]:
        found = 0
        with progress.step("sealing", users) as advance:
            batches = encoder.part(told(table.batches(read, kernel.CHUNK_ROWS), lambda rows: None), 0)
            for wire in batches:
                for start in range(0, len(wire), step := 1000 * campaign.messages):
                    sealed = sealed_reports(campaign, notice, wire[start : start + step])
                    found += len(sealed)
                    yield sealed
                    advance(len(sealed))
        if found != users:
            raise ValueError(f"input: expected {users} rows as at the first look; the file has changed since.")

    try:
        with durable.whole_file(path) as file:
            file.write(bytes.fromhex(campaign.id) + notice.number.to_bytes(8, "big"))
            for sealed in reports():
                file.write(sealed.tobytes())
    except BlockingIOError:
        raise ValueError(f"{WHO}: another process is sealing into {path}.") from None


@dataclass(frozen=True)
class _Spool:
    """Sealed reports on their way."""

    path: Path
    campaign: Campaign
    round_number: int
    reports: int

    @classmethod
    def open(cls, path: Path, campaign: Campaign) -> _Spool:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
        if head[:32].hex() != campaign.id:
            raise ValueError(f"{WHO}: {path} holds reports of another campaign.")
        reports, left = divmod(path.stat().st_size - HEAD_BYTES, campaign.report_bytes)
        if left:
            raise ValueError(f"{WHO}: {path} is damaged; its people cannot take part in this round any more.")
        return cls(path, campaign, int.from_bytes(head[32:], "big"), reports)

    @property
    def _mark(self) -> Path:
        return self.path.with_name(f"{self.path.name}.sent")

    def post(self, link: Link, progress: Progress) -> Sent:
        """From where the last run was; nothing if all is confirmed."""
        done = int(self._mark.read_text()) if self._mark.exists() else 0
        if self.reports == 0:
            # Emptied when all of it was confirmed.
            return Sent(done, self.round_number)
        with progress.step("sending", self.reports - done) as advance, open(self.path, "rb") as file:
            file.seek(HEAD_BYTES + done * self.campaign.report_bytes)
            while content := file.read(REPORTS_A_REQUEST * self.campaign.report_bytes):
                delivery.deliver(self.campaign, self.round_number, link, content)
                sent = len(content) // self.campaign.report_bytes
                done += sent
                durable.replace_whole(self._mark, str(done).encode())
                advance(sent)
        with open(self.path, "r+b") as file:
            file.truncate(HEAD_BYTES)
            durable.sync(file.fileno())
        return Sent(done, self.round_number)
