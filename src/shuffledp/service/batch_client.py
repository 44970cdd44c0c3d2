"""Batch transfers with a shuffler: an edge server sends the rows of a table; the analyst fetches and opens a batch.

The edge server randomises the table once and seals the reports into a file, the spool, which holds them until all are
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
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from shuffledp._core.base_classes import Progress
from shuffledp._core.validation import Bytes
from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.engine import EmbeddedEngine, report_progress
from shuffledp.collection.input.base import Table
from shuffledp.collection.input.tables import check_column_names, open_input, prepare_table
from shuffledp.collection.message_files import MANIFEST_NAME, USERS, Manifest, drop_repeated_rows, find_noise_party
from shuffledp.collection.roles import check_new_directory
from shuffledp.ledger.hash_chain import format_canonical_json
from shuffledp.ledger.ledger import choose_round
from shuffledp.sampling.random_sources import KEY_BYTES
from shuffledp.service import client
from shuffledp.service.campaign import MAX_STATEMENT_BYTES, Campaign
from shuffledp.service.client import HttpClient
from shuffledp.service.crypto import AnalystKey, EnvelopeOpener
from shuffledp.service.ingest import MAX_REPORTS_PER_REQUEST
from shuffledp.service.sealing import CampaignSealer, seal_reports
from shuffledp.service.signed_documents import BatchStatement, RoundNotice
from shuffledp.service.stores import RoundState, format_utc
from shuffledp.storage import durable_files
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.value_parsing import STRICT_RULES, Rules

# --- Opening a batch ---

RECEIVE = "receive"


def receive(
    campaign: Campaign | str | os.PathLike[str],
    key: AnalystKey | str | os.PathLike[str],
    sealed: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    round_number: int | None = None,
    workers: int | None = 1,
    progress: Progress | None = None,
) -> Manifest:
    """Opens mixed messages with the analyst's key and writes them, sorted by their bytes, for ``estimate``.

    Messages that do not open and repeated messages are discarded and counted: each of them reduces by one the number of
    users who are assumed to hide each other.

    Args:
        campaign: The campaign or the path of its file.
        key: The analyst's key or the path of its file.
        sealed: Directory of the batch from the shuffler.
        out: New directory for the opened messages.
        round_number: Expected round; by default the round that the messages were sealed for.
        workers: Number of processes; None stands for one per processor.
        progress: Display of the progress.

    Returns:
        The manifest of the opened messages.

    Raises:
        ValueError: If the messages or the key belong to another campaign or round, the shuffler's noise is missing, or
            no message opens.
    """
    chosen = campaign if isinstance(campaign, Campaign) else Campaign.load(campaign)
    analyst = key if isinstance(key, AnalystKey) else AnalystKey.load(key)
    shown = Progress() if progress is None else progress
    return open_batch(chosen, analyst, Path(sealed), Path(out), round_number, workers, shown)


def open_batch(
    campaign: Campaign,
    analyst: AnalystKey,
    sealed: Path,
    directory: Path,
    round_number: int | None,
    workers: int | None,
    progress: Progress,
    more_files: Mapping[str, bytes] | None = None,
) -> Manifest:
    """Opens a batch as ``receive`` does; ``more_files`` maps names to contents of further files for the directory."""
    if round_number is not None:
        campaign.check_round(round_number)
    check_new_directory(RECEIVE, directory)
    if analyst.private_key.public_key != campaign.analyst_key:
        raise ValueError(f"{RECEIVE}: the campaign's messages are sealed to another key.")
    manifest = Manifest.read(sealed)
    sealer = CampaignSealer.from_identity(campaign, manifest.plan)
    is_expected = sealer is not None and round_number in (None, sealer.round_number)
    if sealer is None or not is_expected or manifest.width != campaign.message_bytes:
        raise ValueError(f"{RECEIVE}: the messages in {sealed} were sealed for another campaign or round.")
    if manifest.noise != find_noise_party(campaign.plan.mechanism):
        raise ValueError(f"{RECEIVE}: the shuffler was to draw the noise of this plan, and did not for {sealed}.")
    opener = _BatchOpener(EnvelopeOpener(analyst.private_key, sealer.info), manifest, progress)
    with durable_files.create_atomic_directory(directory) as unfinished:
        opened = opener.write(sealed, unfinished, campaign, sealer.round_number, workers)
        for name, content in (more_files or {}).items():
            (unfinished / name).write_bytes(content)
    return opened


@dataclass
class _BatchOpener:
    """The opening of a batch, with the count of discarded messages."""

    opener: EnvelopeOpener
    manifest: Manifest
    progress: Progress
    discarded: int = 0

    def write(
        self, source: Path, directory: Path, campaign: Campaign, round_number: int, workers: int | None
    ) -> Manifest:
        """Writes the opened messages, sorted, and their manifest."""
        sealed, width = self.manifest, campaign.plan.mechanism.message_bytes
        with self.progress.step("opening", sealed.messages) as advance:
            opened = self._open_envelopes(
                drop_repeated_rows(sealed.read_verified_messages(source), self._count_repeated), advance, workers
            )
            written = message_files.write_messages(
                message_files.sort_messages(opened, width, sealed.messages, directory), width, directory
            )
        if not written.messages:
            raise ValueError(
                f"{RECEIVE}: none of the {sealed.messages} messages in {source} opens with the analyst's key."
            )
        manifest = Manifest(
            campaign.plan.identity(round_number), width, written.messages, written.sha256, sealed.users,
            sealed.per_person, sealed.refused + self.discarded, sealed.missing, sealed.noise, sealed.digest,
            sealed.bundles,
        )  # fmt: skip
        manifest.write(directory)
        return manifest

    def _count_repeated(self, rows: int) -> None:
        self.discarded += rows

    def _open_envelopes(
        self, batches: Iterator[Bytes], advance: Callable[[int], None], workers: int | None
    ) -> Iterator[Bytes]:
        for opened, bad in self.opener.open_all(batches, self.manifest.messages, workers):
            self.discarded += bad
            yield opened
            advance(len(opened) + bad)


# --- Fetching a batch from the shuffler ---

PART_BYTES = 8 << 20
MAX_FILE_OVERHEAD_BYTES = 1 << 16
"""Maximum overhead of a message file, in bytes."""
MAX_NAME_LENGTH = 64
STATEMENT_NAME = "_statement.json"
"""Copy of the signed statement beside the messages; after a kill the next run identifies their batch by it."""


def fetch_and_open(
    campaign: Campaign | str | os.PathLike[str],
    key: AnalystKey | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    url: str | None = None,
    round_number: int | None = None,
    workers: int | None = 1,
    progress: Progress | None = None,
) -> Manifest:
    """Fetches a round's batch, opens it with the analyst's key, and tells the shuffler to delete its copy.

    Args:
        campaign: The campaign or the path of its file.
        key: The analyst's key or the path of its file.
        out: New directory for the opened messages, for ``estimate``. The fetched files are stored beside it until they
            are opened, so that a killed run can continue.
        url: Address of the shuffler; by default the one in the campaign.
        round_number: The round; required if the campaign has several.
        workers: Number of processes; None stands for one per processor.
        progress: Display of the progress.

    Returns:
        The manifest of the opened messages.

    Raises:
        ValueError: If there is no such batch, the shuffler cannot be reached or does not accept the key, its statement
            is invalid or implausible, the disk is too small, or the batch cannot be opened.
    """
    chosen = campaign if isinstance(campaign, Campaign) else Campaign.load(campaign)
    analyst = key if isinstance(key, AnalystKey) else AnalystKey.load(key)
    number = choose_round(RECEIVE, chosen.plan, round_number, None)
    link, directory = HttpClient(chosen.url if url is None else url), Path(out)
    shown = Progress() if progress is None else progress
    batch = _RemoteBatch(chosen, number, link, analyst.fetch_token(chosen.nonce))
    sealed = directory.with_name(f"{directory.name}.sealed")
    with link:
        signed = batch.read_stored_statement(directory)
        manifest = None if signed is None else _find_opened_batch(directory, BatchStatement.from_signed(chosen, signed))
        if signed is None or manifest is None:
            signed = batch.read_stored_statement(sealed) or batch.fetch_statement()
            manifest = _find_opened_batch(directory, BatchStatement.from_signed(chosen, signed))
        if manifest is None:
            batch.check_disk_space(BatchStatement.from_signed(chosen, signed), sealed)
            batch.fetch(signed, sealed, shown)
            manifest = open_batch(chosen, analyst, sealed, directory, number, workers, shown, {STATEMENT_NAME: signed})
        batch.confirm(BatchStatement.from_signed(chosen, signed))
    durable_files.remove_tree(sealed)
    return manifest


def _find_opened_batch(directory: Path, statement: BatchStatement) -> Manifest | None:
    """Returns the manifest of this batch if an earlier run opened it and was killed before it confirmed; else None."""
    if not (directory / MANIFEST_NAME).exists():
        return None
    manifest = Manifest.read(directory)
    return manifest if manifest.closed == statement.manifest.digest else None


class _RemoteBatch:
    """The batch of one round at the shuffler."""

    def __init__(self, campaign: Campaign, round_number: int, link: HttpClient, token: str) -> None:
        campaign.check_round(round_number)
        self._campaign, self._number, self._link = campaign, round_number, link
        self._path = f"/v1/campaigns/{campaign.id}/rounds/{round_number}"
        self._headers = {"Authorization": f"Bearer {token}"}

    def read_stored_statement(self, directory: Path) -> bytes | None:
        """Returns the statement stored by an earlier run, or None; the shuffler may have deleted its batch since."""
        path = directory / STATEMENT_NAME
        with suppress(ValueError):
            content = path.read_bytes() if path.exists() else b""
            return content if BatchStatement.from_signed(self._campaign, content).number == self._number else None
        return None

    def fetch_statement(self) -> bytes:
        """Fetches the signed statement about the batch."""
        answer = self._link.request("GET", f"{self._path}/batch", headers=self._headers, at_most=MAX_STATEMENT_BYTES)
        if answer.status == 401:
            raise ValueError(f"{RECEIVE}: the shuffler does not accept this analyst's key.")
        if answer.status != 200:
            raise self._missing_batch_error()
        statement = BatchStatement.from_signed(self._campaign, answer.content)
        if statement.number != self._number:
            raise ValueError(f"{RECEIVE}: the shuffler returned the batch of another round.")
        self._check_plausible(statement)
        return answer.content

    def _missing_batch_error(self) -> ValueError:
        return ValueError(
            f"{RECEIVE}: there is no batch of round {self._number} at {self._link.url}: {self._describe_state()}."
        )

    def _check_plausible(self, statement: BatchStatement) -> None:
        """Raises ValueError if the claimed batch is larger than one of this campaign can be."""
        campaign, manifest = self._campaign, statement.manifest
        sent = manifest.users * campaign.messages_per_user
        if manifest.users > campaign.capacity:
            excess = f"{manifest.users:,} users, more than the {campaign.capacity:,} reports that the campaign accepts"
        elif find_noise_party(campaign.plan.mechanism) == USERS and manifest.messages > sent:
            excess = f"{manifest.messages:,} messages, more than {manifest.users:,} users send"
        elif sum(statement.files.values()) > 2 * manifest.messages * manifest.width + MAX_FILE_OVERHEAD_BYTES * len(
            statement.files
        ):
            excess = f"{sum(statement.files.values()):,} bytes, more than {manifest.messages:,} messages have"
        else:
            return
        raise ValueError(f"{RECEIVE}: the shuffler claims {excess}; nothing was fetched, do not rely on it.")

    def check_disk_space(self, statement: BatchStatement, directory: Path) -> None:
        """Raises ValueError if the disk has no room for the rest of the batch."""
        missing = sum(statement.files.values())
        missing -= sum(path.stat().st_size for path in directory.glob("*.parquet")) if directory.exists() else 0
        free = shutil.disk_usage(directory.absolute().parent).free
        if missing > free:
            raise ValueError(
                f"{RECEIVE}: the batch needs {missing:,} more bytes, and {free:,} are free in "
                f"{directory.parent}; make room there."
            )

    def _describe_state(self) -> str:
        answer = self._link.request("GET", self._path, headers=self._headers)
        try:
            state = json.loads(answer.content) if answer.status == 200 else {}
            return _describe_missing_batch(RoundState(state["state"]), state["closes"])
        except (ValueError, KeyError, TypeError):
            return "it knows no such round"

    def fetch(self, signed: bytes, directory: Path, progress: Progress) -> None:
        """Fetches the files of the batch into a directory; continues where a killed run stopped."""
        statement = BatchStatement.from_signed(self._campaign, signed)
        durable_files.make_directory(directory, durable_files.OWNER_ONLY_DIRECTORY)
        durable_files.check_owned_directory(directory)
        durable_files.replace_atomically(directory / STATEMENT_NAME, signed)
        with progress.step("fetching", sum(statement.files.values())) as advance:
            for name, size in statement.files.items():
                if not _is_message_file_name(name):
                    raise ValueError(f"{RECEIVE}: the shuffler names a file that cannot belong to a batch.")
                path = directory / name
                with open(durable_files.open_owned_file(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
                    held = file.seek(0, os.SEEK_END)
                    while held < size:
                        part = self._fetch_part(name, held, min(size, held + PART_BYTES) - 1)
                        file.write(part)
                        held += len(part)
                        advance(len(part))
        statement.manifest.write(directory)

    def _fetch_part(self, name: str, first: int, last: int) -> bytes:
        headers, length = self._headers | {"Range": f"bytes={first}-{last}"}, last - first + 1
        answer = self._link.request("GET", f"{self._path}/batch/{name}", headers=headers, at_most=length)
        if answer.status == 404:
            raise self._missing_batch_error()
        # A file that consists of one part may come with status 200.
        is_part = answer.status == 206 or (answer.status == 200 and first == 0)
        if not is_part or len(answer.content) != length:
            raise ValueError(
                f"{RECEIVE}: the shuffler does not hand over {name} in the requested parts: status "
                f"{answer.status}, {len(answer.content):,} bytes of {length:,}."
            )
        return answer.content

    def confirm(self, statement: BatchStatement) -> None:
        """Tells the shuffler to delete the batch; ignores failures, since the retention time will delete it as well."""
        path = f"{self._path}/batch?digest={statement.manifest.digest}"
        with suppress(ValueError):
            self._link.request("DELETE", path, headers=self._headers)


def _describe_missing_batch(state: RoundState, closes: int) -> str:
    """Returns the reason why a round has no batch."""
    if state is RoundState.OPEN:
        return f"it is open until {format_utc(closes)}; try again after that"
    if state in (RoundState.CLOSING, RoundState.MIXED):
        return "it is being closed; try again later"
    if state is RoundState.EXPIRED:
        return "too few people took part or it was given up, so nothing is handed over"
    return "it was handed over or its retention time was over, and it was deleted"


def _is_message_file_name(name: str) -> bool:
    """Returns True if this is the name of a message file without a path to other directories."""
    return (
        len(name) <= MAX_NAME_LENGTH and name.startswith("messages-") and name.endswith(".parquet") and "/" not in name
    )


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
