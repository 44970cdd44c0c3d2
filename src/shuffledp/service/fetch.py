"""Fetching a batch from the shuffler: its signed statement, its files part by part, and word that it has arrived."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

from shuffledp.collection import durable
from shuffledp.collection.ledger import chosen_round
from shuffledp.collection.lot import USERS, noise_of
from shuffledp.collection.manifest import NAME, Manifest
from shuffledp.progress import Progress
from shuffledp.service.campaign import Campaign
from shuffledp.service.key_file import AnalystKey
from shuffledp.service.link import Link
from shuffledp.service.notice import LONGEST_STATEMENT, BatchRecord
from shuffledp.service.receive import open_batch
from shuffledp.service.store import State, utc

WHO = "receive"
PART_BYTES = 8 << 20
FILE_BYTES = 1 << 16
"""What a file of messages has besides them, at most."""
LONGEST_NAME = 64
STATEMENT_NAME = "_statement.json"
"""What the shuffler signed, beside the messages: a run after a kill knows by it which batch they are of."""


def receive_from(
    campaign: Campaign | str | os.PathLike[str],
    key: AnalystKey | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    url: str | None = None,
    round_number: int | None = None,
    workers: int | None = 1,
    progress: Progress | None = None,
) -> Manifest:
    """Fetch a round's batch, open it with the analyst's key, and tell the shuffler to delete its copy.

    ``out``: a new directory, for ``estimate``; what is fetched is kept beside it until it is opened, so that a killed
    run goes on. ``url`` is by default where the campaign says. ``round_number`` must be given where there are several;
    the others are as for ``receive``.
    """
    chosen = campaign if isinstance(campaign, Campaign) else Campaign.load(campaign)
    opened_by = key if isinstance(key, AnalystKey) else AnalystKey.load(key)
    number = chosen_round(WHO, chosen.plan, round_number, None)
    link, directory = Link(chosen.url if url is None else url), Path(out)
    shown = Progress() if progress is None else progress
    batch = _Batch(chosen, number, link, opened_by.token(chosen.nonce))
    sealed = directory.with_name(f"{directory.name}.sealed")
    with link:
        signed = batch.kept_in(directory)
        made = None if signed is None else _done_before(directory, BatchRecord.read(chosen, signed))
        if signed is None or made is None:
            signed = batch.kept_in(sealed) or batch.signed()
            made = _done_before(directory, BatchRecord.read(chosen, signed))
        if made is None:
            batch.demand_room(BatchRecord.read(chosen, signed), sealed)
            batch.fetch(signed, sealed, shown)
            made = open_batch(chosen, opened_by, sealed, directory, number, workers, shown, {STATEMENT_NAME: signed})
        batch.confirm(BatchRecord.read(chosen, signed))
    durable.remove_tree(sealed)
    return made


def _done_before(directory: Path, statement: BatchRecord) -> Manifest | None:
    """What a run that was killed before its last word has opened."""
    if not (directory / NAME).exists():
        return None
    found = Manifest.read(directory)
    return found if found.closed == statement.manifest.digest else None


class _Batch:
    """One round's batch at the shuffler."""

    def __init__(self, campaign: Campaign, round_number: int, link: Link, token: str) -> None:
        campaign.demand_round(round_number)
        self._campaign, self._number, self._link = campaign, round_number, link
        self._path = f"/v1/campaigns/{campaign.id}/rounds/{round_number}"
        self._headers = {"Authorization": f"Bearer {token}"}

    def kept_in(self, directory: Path) -> bytes | None:
        """What the shuffler signed, as an earlier run put it down: the shuffler may have no batch any more."""
        path = directory / STATEMENT_NAME
        with suppress(ValueError):
            content = path.read_bytes() if path.exists() else b""
            return content if BatchRecord.read(self._campaign, content).number == self._number else None
        return None

    def signed(self) -> bytes:
        """What the shuffler signed about the batch."""
        answer = self._link.ask("GET", f"{self._path}/batch", headers=self._headers, at_most=LONGEST_STATEMENT)
        if answer.status == 401:
            raise ValueError(f"{WHO}: the shuffler does not know the analyst by this key.")
        if answer.status != 200:
            raise self._missing()
        statement = BatchRecord.read(self._campaign, answer.content)
        if statement.number != self._number:
            raise ValueError(f"{WHO}: the shuffler answers with the batch of another round.")
        self._demand_possible(statement)
        return answer.content

    def _missing(self) -> ValueError:
        return ValueError(f"{WHO}: there is no batch of round {self._number} at {self._link.url}: {self._state()}.")

    def _demand_possible(self, statement: BatchRecord) -> None:
        """A sentence unless a batch of this campaign can be as large as the shuffler says."""
        campaign, manifest = self._campaign, statement.manifest
        sent = manifest.users * campaign.messages
        if manifest.users > campaign.capacity:
            told = f"{manifest.users:,} users, more than the {campaign.capacity:,} reports that the campaign takes"
        elif noise_of(campaign.plan.mechanism) == USERS and manifest.messages > sent:
            told = f"{manifest.messages:,} messages, more than {manifest.users:,} users send"
        elif sum(statement.files.values()) > 2 * manifest.messages * manifest.width + FILE_BYTES * len(statement.files):
            told = f"{sum(statement.files.values()):,} bytes, more than {manifest.messages:,} messages have"
        else:
            return
        raise ValueError(f"{WHO}: the shuffler claims {told}; nothing was fetched, do not rely on it.")

    def demand_room(self, statement: BatchRecord, directory: Path) -> None:
        """A sentence unless the disk holds what is not fetched yet."""
        wanted = sum(statement.files.values())
        wanted -= sum(path.stat().st_size for path in directory.glob("*.parquet")) if directory.exists() else 0
        free = shutil.disk_usage(directory.absolute().parent).free
        if wanted > free:
            raise ValueError(
                f"{WHO}: the batch has {wanted:,} bytes, and {free:,} are free in {directory.parent}; make room there."
            )

    def _state(self) -> str:
        answer = self._link.ask("GET", self._path, headers=self._headers)
        try:
            told = json.loads(answer.content) if answer.status == 200 else {}
            return _words(State(told["state"]), told["closes"])
        except (ValueError, KeyError, TypeError):
            return "it knows no such round"

    def fetch(self, signed: bytes, directory: Path, progress: Progress) -> None:
        """All files of the batch into a directory, from where a killed run was."""
        statement = BatchRecord.read(self._campaign, signed)
        durable.make_directory(directory, durable.OWNER_ONLY_DIRECTORY)
        durable.demand_own_directory(directory)
        durable.replace_whole(directory / STATEMENT_NAME, signed)
        with progress.step("fetching", sum(statement.files.values())) as advance:
            for name, size in statement.files.items():
                if not _is_plain(name):
                    raise ValueError(f"{WHO}: the shuffler names a file that is none of a batch.")
                path = directory / name
                with open(durable.open_own(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
                    held = file.seek(0, os.SEEK_END)
                    while held < size:
                        part = self._part(name, held, min(size, held + PART_BYTES) - 1)
                        file.write(part)
                        held += len(part)
                        advance(len(part))
        statement.manifest.write(directory)

    def _part(self, name: str, first: int, last: int) -> bytes:
        wanted, length = self._headers | {"Range": f"bytes={first}-{last}"}, last - first + 1
        answer = self._link.ask("GET", f"{self._path}/batch/{name}", headers=wanted, at_most=length)
        if answer.status == 404:
            raise self._missing()
        # A file that is one part may come without its being said.
        good = answer.status == 206 or (answer.status == 200 and first == 0)
        if not good or len(answer.content) != length:
            raise ValueError(
                f"{WHO}: the shuffler does not hand over {name} in the parts that are asked for: status "
                f"{answer.status}, {len(answer.content):,} bytes of {length:,}."
            )
        return answer.content

    def confirm(self, statement: BatchRecord) -> None:
        """The shuffler may delete it. That it could not be told does not matter: its time will be over."""
        path = f"{self._path}/batch?digest={statement.manifest.digest}"
        with suppress(ValueError):
            self._link.ask("DELETE", path, headers=self._headers)


def _words(state: State, closes: int) -> str:
    """Why there is no batch."""
    if state is State.OPEN:
        return f"it is open until {utc(closes)}; come back when it is closed"
    if state in (State.CLOSING, State.MIXED):
        return "it is being closed; try again in a while"
    if state is State.EXPIRED:
        return "too few took part, or it was given up, so that nothing is handed on"
    return "it was handed over, or its time was over, and it was deleted"


def _is_plain(name: str) -> bool:
    """Whether a name is one of our files of messages, and no way out of the directory."""
    return len(name) <= LONGEST_NAME and name.startswith("messages-") and name.endswith(".parquet") and "/" not in name
