"""The analyst's side of a campaign: fetching a closed round's batch from the shuffler, and opening it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shuffledp._core.results_and_value_objects import Progress
from shuffledp._core.validation import Bytes
from shuffledp.collection import message_files
from shuffledp.collection.message_files import MANIFEST_NAME, USERS, Manifest, drop_repeated_rows, find_noise_party
from shuffledp.collection.roles import check_new_directory
from shuffledp.ledger.ledger import choose_round
from shuffledp.service.campaign import Campaign
from shuffledp.service.client import HttpClient
from shuffledp.service.crypto import AnalystKey, EnvelopeOpener
from shuffledp.service.notices_and_statements import MAX_STATEMENT_BYTES, BatchStatement
from shuffledp.service.sealing import CampaignSealer
from shuffledp.service.stores import RoundState, format_utc
from shuffledp.storage import durable_files

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
