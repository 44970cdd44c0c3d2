"""An edge server's part: the rows of a table randomised once, sealed into a file, and posted from there.

``SPOOL`` holds the sealed reports until all of them are confirmed, ``SPOOL.sent`` says how far that is, of which
reports, in which round and of which data. Killed at any moment, the next run posts the same bytes on; when all are
confirmed the reports are deleted and the mark stays, so that the same table is not randomised a second time. What does
not belong together is refused.

A spool is two lines, the reports one after the other, and a SHA-256 of all before it::

    shuffledp spool 2
    {"campaign": "…", "round": 1, "reports": 1000, "salt": "…", "input": "…"}
    …

``input`` is a fingerprint of the data, hashed with a salt: marks of the same data cannot be told from others. Both
files are for their owner only: who has the salt could try guesses of a table that is small enough to be guessed whole.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from shuffledp.array import Bytes
from shuffledp.collection import durable, kernel
from shuffledp.collection.chain import canonical
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
FIRST_LINE = b"shuffledp spool 2\n"
LONGEST_HEADER = 4096
CHECKSUM_BYTES = hashlib.sha256().digest_size
READ_BYTES = 1 << 20
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

    ``spool``: a new file, or that of a run that was killed, which goes on; a mark of it stays. Of several rows of a
    ``user`` the first is used. ``url`` is by default where the campaign says; ``rules``, ``delimiter`` and ``gather``
    are as for ``collect``.

    Raises:
        ValueError: If the spool or its mark is of another campaign, another round or other data, or is damaged, or if
            it is gone before all of it was sent.
    """
    chosen = campaign if isinstance(campaign, Campaign) else Campaign.load(campaign)
    link, path = Link(chosen.url if url is None else url), Path(spool)
    shown = Progress() if progress is None else progress
    read = chosen.plan.task.columns_read(named(column))
    table = table_of(data, read, user, 1, delimiter, gather)
    values = chosen.plan.column(*table.columns_named(read), rules=rules)
    table = prepared(table, values, user, gather)
    how = {"columns": list(values.names), "user": user, "rules": rules.document(), "delimiter": delimiter}
    source = {"input": table.fingerprint(), "gather": gather, **how}
    with link:
        mark = _Mark.of(path)
        if mark is None and not os.path.lexists(path):
            _encode(chosen, table, values, path, delivery.open_round(chosen, link), source, shown)
            if table.fingerprint() != source["input"]:
                durable.remove(path)
                raise ValueError("input: the file has changed since the first look; nothing was sent.")
        if mark is None:
            # Before anything is sent: without it a spool that is lost would be made anew, with other randomness.
            mark = _Mark.begin(path)
        mark.demand(chosen, source)
        if mark.sent < mark.reports:
            return _post(mark, chosen, link, shown)
        mark.tidy()
        _demand_its_round(mark, chosen, link)
    return Sent(mark.reports, mark.round)


def _encode(
    campaign: Campaign,
    table: Table,
    read: Column,
    path: Path,
    notice: Notice,
    source: Mapping[str, Any],
    progress: Progress,
) -> None:
    """All reports of the table into the spool; it gets its name when it is complete on disk."""
    users = Embedded(progress).check(table, read)
    if users == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    encoder = kernel.Encoder(read, os.urandom(KEY_BYTES))
    salt = os.urandom(KEY_BYTES).hex()
    header = {"campaign": campaign.id, "round": notice.number, "reports": users, "salt": salt,
              "input": _fingerprint(source, salt)}  # fmt: skip

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
            hashed = hashlib.sha256()
            for piece in (FIRST_LINE, json.dumps(header).encode() + b"\n"):
                file.write(piece)
                hashed.update(piece)
            for sealed in reports():
                piece = sealed.tobytes()
                file.write(piece)
                hashed.update(piece)
            file.write(hashed.digest())
    except (BlockingIOError, FileExistsError):
        raise ValueError(f"{WHO}: another process is sealing into {path}.") from None


def _fingerprint(source: Mapping[str, Any], salt: str) -> str:
    """What changes if the data do, or what is read of them; it cannot be compared with that of another salt."""
    return hmac.new(bytes.fromhex(salt), canonical(source).encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class _Mark:
    """How far a spool is sent; it stays when all of it is."""

    path: Path
    """Of the spool."""
    campaign: str
    round: int
    reports: int
    salt: str
    input: str
    spool: str
    """The checksum at the end of the spool."""
    sent: int

    @property
    def file(self) -> Path:
        return _mark_of(self.path)

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """The mark of a spool; None where none was sent from there."""
        file = _mark_of(path)
        if not os.path.lexists(file):
            return None
        content = durable.read_own(file)
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            found = cls(path, **json.loads(content))
            if found._is_whole() and type(found.sent) is int and 0 <= found.sent <= found.reports:
                return found
        raise ValueError(
            f"{WHO}: {file} is no mark of this version, or damaged: what was sent from {path} is not known; choose "
            f"another spool, and only for people of whom nothing was sent."
        )

    @classmethod
    def begin(cls, path: Path) -> Self:
        """The mark of a spool of which nothing was sent, from what it says of itself."""
        mark = cls(path, **_header(path), spool=_checksum(path), sent=0)
        if not mark._is_whole():
            raise _damaged(path)
        mark.save()
        return mark

    def _is_whole(self) -> bool:
        kinds = [(self.campaign, str), (self.round, int), (self.reports, int), (self.salt, str), (self.input, str)]
        return all(type(value) is kind for value, kind in [*kinds, (self.spool, str)]) and self.reports > 0

    def save(self) -> None:
        """On disk when this returns."""
        told = asdict(self)
        del told["path"]
        durable.replace_whole(self.file, json.dumps(told).encode())

    def demand(self, campaign: Campaign, source: Mapping[str, Any]) -> None:
        """Stop unless it is about this campaign and these data."""
        if self.campaign != campaign.id:
            raise ValueError(f"{WHO}: {self.path} holds reports of another campaign; choose another spool.")
        if not hmac.compare_digest(self.input, _fingerprint(source, self.salt)):
            raise ValueError(
                f"{WHO}: {self.path} is for other data than those given, or for other columns or rules of them; choose "
                f"another spool."
            )

    def demand_spool(self) -> None:
        """Stop unless the spool is there, and the one that this is about."""
        if not os.path.lexists(self.path):
            raise ValueError(
                f"{WHO}: {self.path} is gone, from which {self.sent} of {self.reports} reports were sent in round "
                f"{self.round}; put it back: its people were randomised once, and must not be again."
            )
        if _checksum(self.path) != self.spool:
            raise ValueError(f"{WHO}: {self.path} is not the spool that {self.file} is about; put that one back.")

    def tidy(self) -> None:
        """Remove a spool that is sent: killed before, the last run left it."""
        if os.path.lexists(self.path):
            self.demand_spool()
            durable.remove(self.path)


def _mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sent")


def _header(path: Path) -> dict[str, Any]:
    """What a spool says of itself."""
    with open(durable.open_own(path), "rb") as file:
        first, line = file.read(len(FIRST_LINE)), file.readline(LONGEST_HEADER)
    if first != FIRST_LINE:
        raise ValueError(
            f"{WHO}: {path} is no spool of this version; send it on with the version that made it, or choose another."
        )
    with suppress(ValueError, RecursionError):
        told = json.loads(line)
        if isinstance(told, dict) and told.keys() == {"campaign", "round", "reports", "salt", "input"}:
            return told
    raise _damaged(path)


def _checksum(path: Path) -> str:
    """The checksum of a spool, if every byte is as it was written."""
    _header(path)
    hashed = hashlib.sha256()
    with open(durable.open_own(path), "rb") as file:
        left = os.fstat(file.fileno()).st_size - CHECKSUM_BYTES
        while left > 0:
            piece = file.read(min(left, READ_BYTES))
            hashed.update(piece)
            left -= len(piece) or left
        if file.read() != hashed.digest():
            raise _damaged(path)
    return hashed.hexdigest()


def _damaged(path: Path) -> ValueError:
    return ValueError(f"{WHO}: {path} is damaged; its people cannot take part in this round any more.")


def _post(mark: _Mark, campaign: Campaign, link: Link, progress: Progress) -> Sent:
    """The rest of the reports, from where the last run was; the mark follows each answer, and then the spool goes."""
    mark.demand_spool()
    size = campaign.report_bytes
    with ExitStack() as stack:
        try:
            file = stack.enter_context(durable.locked(mark.path, create=False))
        except (BlockingIOError, FileNotFoundError):
            raise ValueError(f"{WHO}: another process is sending {mark.path}.") from None
        advance = stack.enter_context(progress.step("sending", mark.reports - mark.sent))
        file.seek(-CHECKSUM_BYTES - (mark.reports - mark.sent) * size, os.SEEK_END)
        while mark.sent < mark.reports:
            count = min(REPORTS_A_REQUEST, mark.reports - mark.sent)
            delivery.deliver(campaign, mark.round, link, file.read(count * size))
            mark = replace(mark, sent=mark.sent + count)
            mark.save()
            advance(count)
        durable.remove(mark.path)
    return Sent(mark.reports, mark.round)


def _demand_its_round(mark: _Mark, campaign: Campaign, link: Link) -> None:
    """Stop where another round is open than the one that everything was sent in."""
    with suppress(delivery.RoundOver):
        opened = delivery.open_round(campaign, link).number
        if opened != mark.round:
            raise ValueError(
                f"{WHO}: {mark.file} says that {mark.reports} reports were taken in round {mark.round}, and round "
                f"{opened} is open; choose another spool for it."
            )
