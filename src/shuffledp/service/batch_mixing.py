"""Mixing a round: reports in, messages in order of their bytes out; a function of the set of reports and the key.

Equal reports are one (no altered copy of a report opens), what does not open is set aside, and what is left are the
messages that clients sealed to the analyst, which nobody here can read. In order of their bytes they do not tell which
came together, in which order or when.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection import kernel, shuffling
from shuffledp.collection.lot import noise_of
from shuffledp.collection.manifest import Manifest
from shuffledp.sampling.random import SystemSource
from shuffledp.service.admission import Admission
from shuffledp.service.campaign import Campaign
from shuffledp.service.envelope import REPORT, PrivateKey, context
from shuffledp.service.opening import Opener
from shuffledp.service.receive import different
from shuffledp.service.sealing import Sealing

IN_MEMORY_BYTES = 64 << 20
"""Reports, or messages, that are sorted in memory; more are sorted on disk."""
ASIDE = "_aside.json"
"""How many reports were set aside, beside the messages."""


class TooFew(Exception):
    """Fewer reports than the campaign's minimum: nothing of them may be handed on."""


@dataclass
class Mix:
    """The reports of one round on their way into a batch, and what is set aside."""

    campaign: Campaign
    number: int
    key: PrivateKey
    workers: int | None = 1
    repeated: int = 0
    refused: int = 0
    users: int = 0

    def write(self, segments: Iterable[bytes], size: int, directory: Path, room: Path) -> Manifest:
        """The batch with its manifest into a directory; ``room`` is one to sort in. ``TooFew`` below the minimum."""
        campaign, plan = self.campaign, self.campaign.plan
        reports, width, each = size // campaign.report_bytes, campaign.message_bytes, campaign.messages
        sealing = Sealing(campaign, self.number)
        noise = sealing.close(kernel.drawn_by_shuffler(plan.mechanism, SystemSource()))
        rows = (np.frombuffer(segment, dtype=np.uint8).reshape(-1, campaign.report_bytes) for segment in segments)
        ordered = _in_order(rows, campaign.report_bytes, reports, room)
        opened = self._opened(different(ordered, self._twice), reports)
        if campaign.admission is not None:
            opened = self._admitted(opened, campaign.admission, reports, room)
        messages = self._counted(opened)
        mixed = _in_order(chain([noise], messages), width, reports * each + len(noise), room)
        written = shuffling.write(self._enough(mixed), width, directory)
        made = Manifest(
            sealing.identity(plan, self.number), width, written.messages, written.sha256, self.users, 1, 0, 0,
            noise_of(plan.mechanism),
        )  # fmt: skip
        made.write(directory)
        aside = {"repeated": self.repeated, "refused": self.refused}
        (directory / ASIDE).write_text(json.dumps(aside) + "\n", encoding="utf-8")
        return made

    def _twice(self, rows: int) -> None:
        self.repeated += rows

    def _opened(self, batches: Iterator[Bytes], reports: int) -> Iterator[Bytes]:
        info = context(REPORT, self.campaign.id, self.number)
        for opened, bad in Opener(self.key, info).all(batches, reports, self.workers):
            self.refused += bad
            yield opened

    def _admitted(self, batches: Iterator[Bytes], rule: Admission, reports: int, room: Path) -> Iterator[Bytes]:
        """The messages of those who may take part, each once: of two reports with one mark the first in order."""
        width, marks = self.campaign.messages * self.campaign.message_bytes, rule.mark_bytes
        ordered = _in_order(self._marked(batches, rule, width), marks + width, reports, room)
        for rows in different(ordered, self._spent, marks):
            yield rows[:, marks:]

    def _marked(self, batches: Iterator[Bytes], rule: Admission, width: int) -> Iterator[Bytes]:
        """Marks and messages of those who may take part."""
        for rows in batches:
            tokens = rows[:, width:]
            good = rule.admitted(tokens, self.campaign.id, self.number)
            self.refused += int(len(good) - np.count_nonzero(good))
            yield np.concatenate([rule.marks(tokens), rows[:, :width]], axis=1)[good]

    def _spent(self, rows: int) -> None:
        self.refused += rows

    def _counted(self, batches: Iterator[Bytes]) -> Iterator[Bytes]:
        for rows in batches:
            self.users += len(rows)
            yield np.ascontiguousarray(rows).reshape(-1, self.campaign.message_bytes)

    def _enough(self, mixed: Iterator[Bytes]) -> Iterator[Bytes]:
        """The messages, if enough users sent them: before the first is seen all reports were opened."""
        first = next(mixed, None)
        if self.users < self.campaign.plan.fewest:
            raise TooFew
        return iter(()) if first is None else chain([first], mixed)


def _in_order(batches: Iterable[Bytes], width: int, at_most: int, room: Path) -> Iterator[Bytes]:
    if at_most * width <= IN_MEMORY_BYTES:
        return shuffling.in_memory(batches, width, at_most)
    return shuffling.on_disk(batches, width, room)
