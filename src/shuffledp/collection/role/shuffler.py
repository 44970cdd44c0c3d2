"""The shuffler: sees messages without their meaning, and takes away their order and origin."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection import bundle, durable, kernel, shuffle_record, shuffling
from shuffledp.collection.bundle import Bundle
from shuffledp.collection.chain import LedgerFailed
from shuffledp.collection.guarantee import Guarantee, TooWeak
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
    round_number: int | None = None,
    wrapper: Wrapper | None = None,
    progress: Progress | None = None,
) -> int:
    """The shuffler: the messages of all encoders in order of their bytes; returns how many.

    ``inputs`` are files from ``encode``, all of one plan and round, and ``out`` is a new directory. No plan is needed,
    unless it says that the shuffler draws the noise: then it is drawn here, once, and mixed with the messages.
    With one, rows that are no messages of it are set aside and counted, fewer users than the target needs are not
    handed on, unless ``allow_weaker``, and the ``ledger`` at a path is kept: a ``reservation`` made there before is
    settled with those who came. ``round_number`` is by default the round that the files were encoded for. Messages that
    were closed by a ``wrapper`` are mixed as they are, and the noise that is drawn here is closed in the same way.

    A round is shuffled once, from all its files together: whoever sees what came of some of them, and of the same ones
    with a late one, has the late one's messages. Exactly the same files may be shuffled again, to the same messages;
    the ledger refuses anything else. Without a ledger only this user's machine remembers which files were shuffled
    together. A call that was killed is repeated as it was, and hands on what it had drawn.

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
    number = None if chosen is None else _round(bundles, chosen, round_number, wrapper)
    if chosen is None and bundles[0].noise == SHUFFLER:
        raise ValueError("shuffle: the shuffler draws the noise of this plan; give the plan with --plan.")
    if sum(each.messages for each in bundles) == 0:
        raise ValueError("shuffle: expected at least one message, got none.")
    mixing = Mixing(bundles, chosen, Progress() if progress is None else progress, wrapper)
    # Complete under a name of its own before anything is booked: a killed run goes on with the noise that it has drawn.
    ready = directory.with_name(f"{directory.name}.ready")
    made = mixing.left_in(ready)
    if made is not None:
        guarantee = _promised(chosen, made, number, allow_weaker)
    else:
        with durable.whole_directory(ready) as unfinished:
            made = mixing.write(unfinished)
            guarantee = _promised(chosen, made, number, allow_weaker)
    try:
        # What is handed on cannot be taken back: it is written down before.
        if ledger is not None and guarantee is not None:
            Ledger(ledger).book(guarantee, made.digest, reservation, made.bundles)
        ids = [each.id for each in bundles]
        shuffle_record.remember("shuffle", made.plan, ids, made.digest, drawn=made.noise == SHUFFLER)
    except (TooWeak, LedgerFailed, shuffle_record.ShuffledBefore):
        durable.remove_tree(ready)
        raise
    durable.rename(ready, directory)
    return made.messages


def _promised(plan: Plan | None, made: Manifest, number: int | None, allow_weaker: bool) -> Guarantee | None:
    """What is promised to those whose messages these are; None without a plan; a sentence where it is too little."""
    if plan is None:
        return None
    guarantee = made.guarantee(plan, number)
    guarantee.demand(allow_weaker)
    return guarantee


@dataclass
class Mixing:
    """The messages of many encoders on their way into one order, and what is set aside."""

    bundles: Sequence[Bundle]
    plan: Plan | None
    progress: Progress
    wrapper: Wrapper | None = None
    refused: int = 0
    missing: int = 0

    @property
    def given(self) -> str:
        """Names the set of bundles."""
        return bundle.hash_of(each.id for each in self.bundles)

    def left_in(self, directory: Path) -> Manifest | None:
        """What a run that was killed left to be handed on; None where none was, a sentence if it was another one."""
        if not os.path.lexists(directory):
            return None
        found = os.lstat(directory)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise ValueError(f"shuffle: {directory} is in the way, and not ours; remove it.")
        made, first = Manifest.read(directory), self.bundles[0]
        if (made.plan, made.width, made.bundles) != (first.plan, first.width, self.given):
            raise ValueError(
                f"shuffle: {directory} was left by a killed run of other files; repeat that one, or remove it."
            )
        # Whatever is handed on is what was written.
        deque(made.checked(directory), maxlen=0)
        return made

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
            first.noise, bundles=self.given,
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


def _round(bundles: Sequence[Bundle], plan: Plan, given: int | None, wrapper: Wrapper | None) -> int:
    """The plan's round that the bundles are of, which say of who draws the noise what the plan says."""
    wanted = wrapper.round_number if given is None and wrapper is not None else given
    if wanted is not None:
        plan.identity(wanted)
    numbers = plan.round_numbers if wanted is None else [wanted]
    identities = {
        plan.identity(number) if wrapper is None else wrapper.identity(plan, number): number for number in numbers
    }
    noise = noise_of(plan.mechanism)
    for each in bundles:
        if each.plan not in identities:
            raise ValueError(f"shuffle: {each.path} was made for another plan or another round than the one given.")
        if each.noise != noise:
            raise ValueError(f"shuffle: {each.path} is damaged: the plan's noise is drawn by the {noise}.")
    return identities[bundles[0].plan]


def demand_new_directory(who: str, out: Path) -> None:
    """Nothing is there yet that would be overwritten."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{who}: expected a new or empty directory, got {out}.")
