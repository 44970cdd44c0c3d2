"""``send``: an edge server randomizes the rows of a table, seals the reports and sends them to a shuffler.

The edge server randomizes the table once and seals the reports into a file, the spool, which holds them until all are
confirmed. The mark, a file with the spool's name and the suffix ``.sent``, records the progress, the round, and
fingerprints of the reports and the data. After a kill the next run continues with the same bytes. When all reports are
confirmed, the spool is deleted and the mark stays, so that the same table is not randomised again. A spool, a mark and
data that do not belong together are refused.

A spool consists of two lines, the concatenated reports, and a SHA-256 of everything before it::

    shuffledp spool 2
    {"campaign": "…", "round": 1, "reports": 1000, "salt": "…", "input": "…"}
    …

``input`` is a salted fingerprint of the data, so marks of the same data look unrelated. Only their owner can read the
two files: with the salt, a table small enough to be guessed completely could be found by trying guesses.
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

from shuffledp._core.results_and_value_objects import Progress
from shuffledp._core.validation import Bytes
from shuffledp.collection import batch_processing
from shuffledp.collection.engine import EmbeddedEngine, report_progress
from shuffledp.collection.input.base import Table
from shuffledp.collection.input.tables import check_column_names, open_input, prepare_table
from shuffledp.ledger.hash_chain import format_canonical_json
from shuffledp.sampling.random_sources import KEY_BYTES
from shuffledp.service import client
from shuffledp.service.campaign import Campaign
from shuffledp.service.client import HttpClient
from shuffledp.service.ingest import MAX_REPORTS_PER_REQUEST
from shuffledp.service.notices_and_statements import RoundNotice
from shuffledp.service.sealing import seal_reports
from shuffledp.storage import durable_files
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.value_parsing import STRICT_RULES, Rules

# --- Sending a table ---

SEND = "send"
SPOOL_FIRST_LINE = b"shuffledp spool 2\n"
MAX_HEADER_BYTES = 4096
CHECKSUM_BYTES = hashlib.sha256().digest_size
READ_BYTES = 1 << 20
REPORTS_PER_REQUEST = MAX_REPORTS_PER_REQUEST // 2


@dataclass(frozen=True)
class SendResult:
    """Result of ``send``: the number of reports and their round."""

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
    rules: Rules = STRICT_RULES,
    delimiter: str | None = None,
    gather: bool = False,
    progress: Progress | None = None,
) -> SendResult:
    """Sends a report for each row of a table, or for each user.

    Args:
        campaign: The campaign or the path of its file.
        data: The table, as for ``collect``.
        column: Name or names of the columns with the values.
        spool: Path of the spool: a new file, or the one of a killed run, which is continued. The mark beside it stays.
        url: Address of the shuffler; by default the one in the campaign.
        user: Column that identifies users; the first row of each is used. None takes each row for a user.
        rules: As for ``collect``.
        delimiter: As for ``collect``.
        gather: As for ``collect``.
        progress: Display of the progress.

    Returns:
        The number of reports and their round.

    Raises:
        RoundClosed: If no round is open, or the round closes before all reports are sent.
        ValueError: If the spool or its mark belongs to another campaign, another round or other data, is damaged, or is
            missing before all of it was sent; or if the shuffler cannot be reached or refuses the reports.
    """
    chosen = campaign if isinstance(campaign, Campaign) else Campaign.load(campaign)
    link, path = HttpClient(chosen.url if url is None else url), Path(spool)
    shown = Progress() if progress is None else progress
    names = chosen.plan.task.resolve_columns(check_column_names(column))
    table = open_input(data, names, user, 1, delimiter, gather)
    values = chosen.plan.column(*table.choose_columns(names), rules=rules)
    table = prepare_table(table, values, user, gather)
    options = {"columns": list(values.names), "user": user, "rules": rules.document(), "delimiter": delimiter}
    source = {"input": table.fingerprint(), "gather": gather, **options}
    with link:
        mark = _SpoolMark.load(path)
        if mark is None and not os.path.lexists(path):
            _write_spool(chosen, table, values, path, client.fetch_open_round(chosen, link), source, shown)
            if table.fingerprint() != source["input"]:
                durable_files.remove(path)
                raise ValueError("input: the file has changed since the first look; nothing was sent.")
        if mark is None:
            # Written before anything is sent: otherwise a lost spool would be made again with other randomness.
            mark = _SpoolMark.create(path)
        mark.check_source(chosen, source)
        if mark.sent < mark.reports:
            return _send_remaining_reports(mark, chosen, link, shown)
        mark.remove_sent_spool()
        _check_round(mark, chosen, link)
    return SendResult(mark.reports, mark.round)


def _write_spool(
    campaign: Campaign,
    table: Table,
    read: ColumnReader,
    path: Path,
    notice: RoundNotice,
    source: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Writes all reports of the table into the spool, which gets its name when it is complete on disk."""
    users = EmbeddedEngine(progress).check(table, read)
    if users == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    encoder = batch_processing.Encoder(read, os.urandom(KEY_BYTES))
    salt = os.urandom(KEY_BYTES).hex()
    header = {"campaign": campaign.id, "round": notice.number, "reports": users, "salt": salt,
              "input": _fingerprint(source, salt)}  # fmt: skip

    def reports() -> Iterator[Bytes]:
        count = 0
        with progress.step("sealing", users) as advance:
            batches = encoder.encode_part(
                report_progress(table.batches(read, batch_processing.CHUNK_ROWS), lambda rows: None), 0
            )
            for wire in batches:
                for start in range(0, len(wire), step := 1000 * campaign.messages_per_user):
                    sealed = seal_reports(campaign, notice, wire[start : start + step])
                    count += len(sealed)
                    yield sealed
                    advance(len(sealed))
        if count != users:
            raise ValueError(f"input: expected {users} rows as in the first pass; the file has changed since.")

    try:
        with durable_files.create_atomic_file(path) as file:
            hashed = hashlib.sha256()
            for piece in (SPOOL_FIRST_LINE, json.dumps(header).encode() + b"\n"):
                file.write(piece)
                hashed.update(piece)
            for sealed in reports():
                piece = sealed.tobytes()
                file.write(piece)
                hashed.update(piece)
            file.write(hashed.digest())
    except (BlockingIOError, FileExistsError):
        raise ValueError(f"{SEND}: another process is sealing into {path}.") from None


def _fingerprint(source: Mapping[str, Any], salt: str) -> str:
    """Returns a salted hash of the data and of the options with which they are read."""
    return hmac.new(bytes.fromhex(salt), format_canonical_json(source).encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class _SpoolMark:
    """The mark of a spool: how many of its reports are sent. It stays after all of them are."""

    path: Path
    """Path of the spool."""
    campaign: str
    round: int
    reports: int
    salt: str
    input: str
    spool: str
    """The checksum at the end of the spool."""
    sent: int

    @property
    def mark_path(self) -> Path:
        return _mark_path(self.path)

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Reads the mark of a spool; None if there is none, ValueError if it is damaged."""
        file = _mark_path(path)
        if not os.path.lexists(file):
            return None
        content = durable_files.read_owned_file(file)
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            mark = cls(path, **json.loads(content))
            if mark._is_valid() and type(mark.sent) is int and 0 <= mark.sent <= mark.reports:
                return mark
        raise ValueError(
            f"{SEND}: {file} is no mark of this version, or damaged: the reports sent from {path} are not known; "
            f"choose another spool, and only for people of whom nothing was sent."
        )

    @classmethod
    def create(cls, path: Path) -> Self:
        """Writes the mark of a spool from which nothing was sent."""
        mark = cls(path, **_read_header(path), spool=_checksum(path), sent=0)
        if not mark._is_valid():
            raise _damaged_spool_error(path)
        mark.save()
        return mark

    def _is_valid(self) -> bool:
        kinds = [(self.campaign, str), (self.round, int), (self.reports, int), (self.salt, str), (self.input, str)]
        return all(type(value) is kind for value, kind in [*kinds, (self.spool, str)]) and self.reports > 0

    def save(self) -> None:
        """Writes the mark; it is on disk when this returns."""
        document = asdict(self)
        del document["path"]
        durable_files.replace_atomically(self.mark_path, json.dumps(document).encode())

    def check_source(self, campaign: Campaign, source: Mapping[str, Any]) -> None:
        """Raises ValueError unless the mark belongs to this campaign and these data."""
        if self.campaign != campaign.id:
            raise ValueError(f"{SEND}: {self.path} holds reports of another campaign; choose another spool.")
        if not hmac.compare_digest(self.input, _fingerprint(source, self.salt)):
            raise ValueError(
                f"{SEND}: {self.path} is for other data, or for other columns or rules; choose another spool."
            )

    def check_spool(self) -> None:
        """Raises ValueError unless the spool exists and is the one of this mark."""
        if not os.path.lexists(self.path):
            raise ValueError(
                f"{SEND}: {self.path} is missing, and only {self.sent} of its {self.reports} reports were sent in "
                f"round {self.round}; restore it: the same people must not be randomised again."
            )
        if _checksum(self.path) != self.spool:
            raise ValueError(f"{SEND}: {self.path} is not the spool that {self.mark_path} is about; restore that one.")

    def remove_sent_spool(self) -> None:
        """Removes a completely sent spool that a killed run left."""
        if os.path.lexists(self.path):
            self.check_spool()
            durable_files.remove(self.path)


def _mark_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sent")


def _read_header(path: Path) -> dict[str, Any]:
    """Reads the header of a spool."""
    with open(durable_files.open_owned_file(path), "rb") as file:
        first, line = file.read(len(SPOOL_FIRST_LINE)), file.readline(MAX_HEADER_BYTES)
    if first != SPOOL_FIRST_LINE:
        raise ValueError(
            f"{SEND}: {path} is no spool of this version; send it with the version that wrote it, or choose another."
        )
    with suppress(ValueError, RecursionError):
        header = json.loads(line)
        if isinstance(header, dict) and header.keys() == {"campaign", "round", "reports", "salt", "input"}:
            return header
    raise _damaged_spool_error(path)


def _checksum(path: Path) -> str:
    """Returns the checksum of a spool; raises ValueError if it does not match the content."""
    _read_header(path)
    hashed = hashlib.sha256()
    with open(durable_files.open_owned_file(path), "rb") as file:
        left = os.fstat(file.fileno()).st_size - CHECKSUM_BYTES
        while left > 0:
            piece = file.read(min(left, READ_BYTES))
            hashed.update(piece)
            left -= len(piece) or left
        if file.read() != hashed.digest():
            raise _damaged_spool_error(path)
    return hashed.hexdigest()


def _damaged_spool_error(path: Path) -> ValueError:
    return ValueError(f"{SEND}: {path} is damaged; its people cannot take part in this round any more.")


def _send_remaining_reports(mark: _SpoolMark, campaign: Campaign, link: HttpClient, progress: Progress) -> SendResult:
    """Sends the remaining reports, updates the mark after each response, and removes the spool at the end."""
    mark.check_spool()
    size = campaign.report_bytes
    with ExitStack() as stack:
        try:
            file = stack.enter_context(durable_files.open_locked(mark.path, create=False))
        except (BlockingIOError, FileNotFoundError):
            raise ValueError(f"{SEND}: another process is sending {mark.path}.") from None
        advance = stack.enter_context(progress.step("sending", mark.reports - mark.sent))
        file.seek(-CHECKSUM_BYTES - (mark.reports - mark.sent) * size, os.SEEK_END)
        while mark.sent < mark.reports:
            count = min(REPORTS_PER_REQUEST, mark.reports - mark.sent)
            client.post_reports(campaign, mark.round, link, file.read(count * size))
            mark = replace(mark, sent=mark.sent + count)
            mark.save()
            advance(count)
        durable_files.remove(mark.path)
    return SendResult(mark.reports, mark.round)


def _check_round(mark: _SpoolMark, campaign: Campaign, link: HttpClient) -> None:
    """Raises ValueError if another round is open than the one in which everything was sent."""
    with suppress(client.RoundClosed):
        opened = client.fetch_open_round(campaign, link).number
        if opened != mark.round:
            raise ValueError(
                f"{SEND}: {mark.mark_path} says that {mark.reports} reports were taken in round {mark.round}, and "
                f"round {opened} is open; choose another spool for it."
            )
