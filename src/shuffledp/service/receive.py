"""The analyst's first step: sealed messages that were mixed become messages that ``estimate`` reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection import durable, shuffling
from shuffledp.collection.lot import noise_of
from shuffledp.collection.manifest import Manifest
from shuffledp.collection.role.shuffler import demand_new_directory
from shuffledp.progress import Progress
from shuffledp.service.campaign import Campaign
from shuffledp.service.key_file import AnalystKey
from shuffledp.service.opening import Opener
from shuffledp.service.sealing import Sealing

WHO = "receive"


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
    """Open mixed messages with the analyst's key, and put them in order of their bytes, for ``estimate``.

    ``sealed``: the directory from the shuffler; ``out``: a new directory. Messages of another campaign or round are
    refused; ``round_number`` is by default the one that they were sealed for. What does not open, and what is there
    twice, is set aside and counted: each such row takes one user off those who are taken to hide each other.
    ``workers`` processes share the work; None takes one for each processor.
    """
    chosen = campaign if isinstance(campaign, Campaign) else Campaign.load(campaign)
    opened_by = key if isinstance(key, AnalystKey) else AnalystKey.load(key)
    shown = Progress() if progress is None else progress
    return open_batch(chosen, opened_by, Path(sealed), Path(out), round_number, workers, shown)


def open_batch(
    chosen: Campaign,
    opened_by: AnalystKey,
    given: Path,
    directory: Path,
    round_number: int | None,
    workers: int | None,
    progress: Progress,
    beside: Mapping[str, bytes] | None = None,
) -> Manifest:
    """The same; ``beside`` are files for the directory, by their names."""
    if round_number is not None:
        chosen.demand_round(round_number)
    demand_new_directory(WHO, directory)
    if opened_by.private.public != chosen.analyst:
        raise ValueError(f"{WHO}: the campaign's messages are sealed to another key than the one given.")
    manifest = Manifest.read(given)
    sealing = Sealing.of_messages(chosen, manifest.plan)
    right = sealing is not None and round_number in (None, sealing.round_number)
    if sealing is None or not right or manifest.width != chosen.message_bytes:
        raise ValueError(
            f"{WHO}: the messages in {given} were sealed for another campaign or round than the one given."
        )
    if manifest.noise != noise_of(chosen.plan.mechanism):
        raise ValueError(f"{WHO}: the shuffler was to draw the noise of this plan, and did not for {given}.")
    work = _Receiving(Opener(opened_by.private, sealing.info), manifest, progress)
    with durable.whole_directory(directory) as unfinished:
        made = work.write(given, unfinished, chosen, sealing.round_number, workers)
        for name, content in (beside or {}).items():
            (unfinished / name).write_bytes(content)
    return made


@dataclass
class _Receiving:
    """Messages on their way out of their envelopes, and what is set aside."""

    opener: Opener
    manifest: Manifest
    progress: Progress
    refused: int = 0

    def write(
        self, given: Path, directory: Path, campaign: Campaign, round_number: int, workers: int | None
    ) -> Manifest:
        """The opened messages, in order, with their manifest."""
        sealed, width = self.manifest, campaign.plan.mechanism.message_bytes
        with self.progress.step("opening", sealed.messages) as advance:
            opened = self._opened(different(sealed.checked(given), self._twice), advance, workers)
            written = shuffling.write(shuffling.in_order(opened, width, sealed.messages, directory), width, directory)
        if not written.messages:
            raise ValueError(f"{WHO}: none of the {sealed.messages} messages in {given} opens with the analyst's key.")
        made = Manifest(
            campaign.plan.identity(round_number), width, written.messages, written.sha256, sealed.users,
            sealed.per_person, sealed.refused + self.refused, sealed.missing, sealed.noise, sealed.digest,
            sealed.bundles,
        )  # fmt: skip
        made.write(directory)
        return made

    def _twice(self, rows: int) -> None:
        self.refused += rows

    def _opened(self, batches: Iterator[Bytes], advance: Callable[[int], None], workers: int | None) -> Iterator[Bytes]:
        for opened, bad in self.opener.all(batches, self.manifest.messages, workers):
            self.refused += bad
            yield opened
            advance(len(opened) + bad)


def different(
    batches: Iterator[Bytes], repeated: Callable[[int], None], compared: int | None = None
) -> Iterator[Bytes]:
    """Rows that come in order, each once; ``repeated`` is told how many there were besides.

    ``compared``: so many bytes at the beginning of a row tell it from others; None is all of them.
    """
    last = b""
    for wire in batches:
        if not len(wire):
            continue
        first, told = np.empty(len(wire), dtype=np.bool_), wire[:, :compared]
        first[0] = told[0].tobytes() != last
        np.any(told[1:] != told[:-1], axis=1, out=first[1:])
        last = told[-1].tobytes()
        again = int(len(first) - np.count_nonzero(first))
        repeated(again)
        yield wire[first] if again else wire
