"""The shuffler: sees messages without their meaning, and takes away their order and origin."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection import bundle, durable, kernel, shuffling
from shuffledp.collection.bundle import Bundle
from shuffledp.collection.ledger import Ledger
from shuffledp.collection.lot import SHUFFLER, noise_of
from shuffledp.collection.manifest import Manifest
from shuffledp.collection.wrapper import Wrapper
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress
from shuffledp.sampling.random import SystemSource


def shuffle(
    inputs: Iterable[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str],
    plan: Plan | str | os.PathLike[str] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    reservation: str | None = None,
    allow_weaker: bool = False,
    round_number: int = 1,
    wrapper: Wrapper | None = None,
    progress: Progress | None = None,
) -> int:
    """The shuffler: the messages of all encoders in order of their bytes; returns how many.

    ``inputs`` are files from ``encode``, all of one plan and round, and ``out`` is a new directory. No plan is needed,
    unless it says that the shuffler draws the noise: then it is drawn here, and mixed with the messages. Shuffling the
    same messages again draws other noise, and whoever sees both learns more: the ledger charges for both.
    With one, rows that are no messages of it are set aside and counted, fewer users than the target needs are not
    handed on, unless ``allow_weaker``, and the ``ledger`` at a path is kept: a ``reservation`` made there before is
    settled with those who came. ``round_number`` as for ``collect``. Messages that were closed by a ``wrapper`` are
    mixed as they are, and the noise that is drawn here is closed in the same way.

    >>> import pyarrow, tempfile
    >>> from shuffledp.collection import encode
    >>> from shuffledp.mechanisms.frequency.krr import KRR
    >>> from shuffledp.tasks.frequency import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     users = encode(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/ours.messages")
    ...     shuffle([f"{room}/ours.messages"], out=f"{room}/shuffled", plan=plan)
    1000
    """
    chosen, directory = None if plan is None else Plan.of(plan), Path(out)
    demand_new_directory("shuffle", directory)
    bundles = [Bundle.open(file) for path in inputs for file in bundle.files_of(Path(path))]
    _demand_one_plan(bundles)
    if chosen is not None:
        _demand_plan(bundles, chosen, round_number, wrapper)
    if chosen is None and bundles[0].noise == SHUFFLER:
        raise ValueError("shuffle: the shuffler draws the noise of this plan; give the plan with --plan.")
    if sum(each.messages for each in bundles) == 0:
        raise ValueError("shuffle: expected at least one message, got none.")
    shown = Progress() if progress is None else progress
    with durable.whole_directory(directory) as unfinished:
        made = Mixing(bundles, chosen, shown, wrapper).write(unfinished)
        if chosen is not None:
            guarantee = made.guarantee(chosen)
            guarantee.demand(allow_weaker)
            if ledger is not None:
                # What is handed on cannot be taken back: it is written down before, and after it is complete on disk.
                durable.sync_tree(unfinished)
                Ledger(ledger).book(guarantee, made.digest, reservation)
    return made.messages


@dataclass
class Mixing:
    """The messages of many encoders on their way into one order, and what is set aside."""

    bundles: Sequence[Bundle]
    plan: Plan | None
    progress: Progress
    wrapper: Wrapper | None = None
    refused: int = 0
    missing: int = 0

    def write(self, directory: Path) -> Manifest:
        """The messages in order of their bytes, with their manifest, into a directory."""
        first, noise = self.bundles[0], self._noise()
        total = sum(each.messages for each in self.bundles) + len(noise)
        with self.progress.step("shuffling", total) as advance:
            mixed = chain([noise], self._sifted(advance))
            written = shuffling.write(shuffling.in_order(mixed, first.width, total, directory), first.width, directory)
        if written.messages == len(noise):
            raise ValueError(f"shuffle: expected messages of the plan, got {self.refused} rows that are none.")
        users, most = sum(each.users for each in self.bundles), max(each.per_person for each in self.bundles)
        made = Manifest(
            first.plan, first.width, written.messages, written.sha256, users, most, self.refused, self.missing,
            first.noise,
        )  # fmt: skip
        made.write(directory)
        return made

    def _noise(self) -> Bytes:
        """What the shuffler itself must add, drawn from the operating system and kept nowhere else."""
        width = self.bundles[0].width
        if self.plan is None:
            return np.empty((0, width), dtype=np.uint8)
        drawn = kernel.drawn_by_shuffler(self.plan.mechanism, SystemSource())
        return drawn if self.wrapper is None else self.wrapper.close(drawn)

    def _sifted(self, advance: Callable[[int], None]) -> Iterator[Bytes]:
        """The messages of all bundles; without those that are none, where the plan is known."""
        for each in self.bundles:
            if self.plan is not None:
                expected = self.plan.mechanism.crowd.sent_by(each.users)
                self.missing += 0 if expected is None else abs(expected - each.messages)
            for wire in each.read():
                good, bad = self._good(wire)
                self.refused += bad
                yield good
                advance(len(wire))

    def _good(self, wire: Bytes) -> tuple[Bytes, int]:
        """The rows that are messages as far as can be seen here, and how many are none."""
        if self.plan is None or self.wrapper is not None:
            return wire, 0
        return kernel.sifted(self.plan.mechanism, wire)


def _demand_one_plan(bundles: Sequence[Bundle]) -> None:
    """All bundles are of one plan's round, and none is there twice."""
    seen: dict[str, Path] = {}
    for each in bundles:
        if each.id in seen:
            raise ValueError(
                f"shuffle: {each.path} holds the same messages as {seen[each.id]}; each file must be given once."
            )
        seen[each.id] = each.path
        if (each.plan, each.width, each.noise) != (bundles[0].plan, bundles[0].width, bundles[0].noise):
            raise ValueError(f"shuffle: {each.path} was made for another plan or round than {bundles[0].path}.")


def _demand_plan(bundles: Sequence[Bundle], plan: Plan, round_number: int, wrapper: Wrapper | None) -> None:
    """The bundles are of this plan's round, and say of who draws the noise what the plan says."""
    identity, noise = plan.identity(round_number), noise_of(plan.mechanism)
    if wrapper is not None:
        identity = wrapper.identity(plan, round_number)
    for each in bundles:
        if each.plan != identity:
            raise ValueError(f"shuffle: {each.path} was made for another plan or another round than the one given.")
        if each.noise != noise:
            raise ValueError(f"shuffle: {each.path} is damaged: the plan's noise is drawn by the {noise}.")


def demand_new_directory(who: str, out: Path) -> None:
    """Nothing is there yet that would be overwritten."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{who}: expected a new or empty directory, got {out}.")
