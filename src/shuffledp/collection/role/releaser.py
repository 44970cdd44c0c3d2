"""The shuffler of counts over time, day by day: it keeps what is not over yet, and releases what is.

All noise is drawn on the first day, once, and mixed with the messages that are kept: whoever sees what is kept on one
day learns no more of those who came before than the release promises, and nothing that is done again, from whatever
copy of it, draws a second time. A day is complete in the shuffler's own directory before anybody else sees any of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection import bundle, day as days, durable, kernel, message, shuffle_record, shuffling
from shuffledp.collection.bundle import Bundle
from shuffledp.collection.day import Calendar, DayManifest
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.ledger import Ledger, chosen_round
from shuffledp.collection.lot import Lot
from shuffledp.planner.plan_file import Plan
from shuffledp.progress import Progress
from shuffledp.sampling.random import SystemSource

WHO = "release"
PUBLIC, WAITING, STATE, LOCK = "public", "waiting", "state.json", "lock"
FORMAT, VERSION = "shuffledp state of a release", 1
OWNER_ONLY, OTHERS = 0o700, 0o077


@dataclass(frozen=True)
class ReleasedDay:
    """A day that was released: how many ``messages`` everybody sees, and what is for the shuffler alone.

    ``day`` is its number from 0. ``users``: how many the encoders say there were on this day. ``refused``: rows that
    are no messages of the plan. ``astray``: messages of another day. ``missing``: how many there were too few or too
    many for the users. Rows that are refused or astray are in no release.

    >>> import shuffledp as sdp
    >>> sdp.collection.ReleasedDay(day=3, messages=120, users=70, refused=0, astray=2, missing=0).astray
    2
    """

    day: int
    messages: int
    users: int
    refused: int
    astray: int
    missing: int


def release(
    inputs: Iterable[str | os.PathLike[str]] = (),
    *,
    plan: Plan | str | os.PathLike[str],
    day: str | int,
    state: str | os.PathLike[str],
    out: str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    allow_weaker: bool = False,
    round_number: int | None = None,
    progress: Progress | None = None,
) -> ReleasedDay:
    """The shuffler of counts over time: what is over on this day, into the public directory.

    ``inputs`` are files from ``encode`` of the people whose event was on this ``day``, named as in the plan's domain;
    none on a day without events. ``state`` is the shuffler's own directory, ``out`` the public one; both are those of
    the days before. Days come in order, each once. The ``ledger`` at a path is charged for all days on the first one.
    A call that was killed is repeated as it was, and releases what it had drawn. ``round_number`` is by default that of
    the days before or of the files; on a first day without any it is as for ``collect``.

    >>> import pyarrow, tempfile
    >>> import shuffledp as sdp
    >>> plan = sdp.Plan(sdp.tasks.OverTime(4), sdp.RangeTree(4, 60.0, 0), users=100, epsilon=3.0, delta=1e-5)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     for day, events in enumerate([30, 0]):
    ...         files = [f"{room}/{day}.messages"] if events else []
    ...         for file in files:
    ...             users = sdp.collection.encode(plan, pyarrow.array([day] * events), out=file)
    ...         done = sdp.collection.release(files, plan=plan, day=day, state=f"{room}/own", out=f"{room}/public")
    ...     report = sdp.collection.estimate(plan, f"{room}/public", out=f"{room}/result")
    >>> done.users, report.quantities[0].labels
    (0, ('0', '1'))
    """
    chosen, own, public = Plan.of(plan), Path(state), Path(out)
    calendar, number = Calendar.of(WHO, chosen), chosen.task.domain.place(WHO, day)
    Guarantee(chosen, chosen.users).demand(allow_weaker)
    bundles = [Bundle.open(file) for path in inputs for file in bundle.files_of(Path(path))]
    with _alone(own, public):
        _tidy(own)
        before = Kept.last(own)
        _demand_next(before, number, own, public, chosen.task.domain.label)
        lot, guarantee = _of_round(chosen, round_number, before, bundles, ledger)
        _demand_messages(bundles, lot, before, number)
        todays = Day(calendar, lot.plan, number, bundles, Progress() if progress is None else progress)
        if before is None or before.day != number:
            todays.draw(own, before)
        else:
            todays.count()
        drawn = days.place(own, number) / PUBLIC
        made = DayManifest.read(drawn)
        if ledger is not None:
            # What is public cannot be taken back; days after the first have the name of the first, and are paid for.
            Ledger(ledger).book(guarantee, made.digest)
        if bundles:
            shuffle_record.remember(WHO, lot.plan, [each.id for each in bundles], made.digest, drawn=True)
        with durable.whole_directory(days.place(public, number)) as unfinished:
            for file in sorted(drawn.iterdir()):
                with open(file, "rb") as source, open(unfinished / file.name, "wb") as target:
                    shutil.copyfileobj(source, target)
        _tidy(own)
    return ReleasedDay(number, made.messages, todays.users, todays.refused, todays.astray, todays.missing)


@dataclass(frozen=True)
class Kept:
    """What the shuffler keeps after a day, beside the messages of what is not over: for itself alone.

    How many came, or how many files there were on which day, is not among it: that is what the noise hides.
    """

    plan: str
    release: str
    day: int
    waiting: int
    """How many messages are kept, noise included."""
    bundles: list[str]
    """The ids of all files that were given, in their own order."""
    given: str
    """A hash of the ids of this day's files: who gives them again can be told from who gives others."""

    @classmethod
    def last(cls, own: Path) -> Self | None:
        """After the last day that is complete; None before the first."""
        found = days.numbers_in(own)
        return cls.read(days.place(own, found[-1])) if found else None

    @classmethod
    def read(cls, directory: Path) -> Self:
        path = directory / STATE
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if (document.pop("format"), document.pop("version")) != (FORMAT, VERSION):
                raise ValueError
            return cls(**document)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{WHO}: cannot read {path}; bring the directory of the days before back.") from None

    def write(self, directory: Path) -> None:
        document: dict[str, Any] = {"format": FORMAT, "version": VERSION} | asdict(self)
        (directory / STATE).write_text(json.dumps(document) + "\n", encoding="utf-8")


@dataclass
class Day:
    """The messages of one day on their way into what is over and what is kept, and what is set aside."""

    calendar: Calendar
    identity: str
    number: int
    bundles: Sequence[Bundle]
    progress: Progress
    refused: int = field(default=0, init=False)
    astray: int = field(default=0, init=False)

    def draw(self, own: Path, before: Kept | None) -> None:
        """All of the day into the shuffler's own directory, where it has its name when it is complete."""
        with durable.whole_directory(days.place(own, self.number)) as unfinished:
            for name in (PUBLIC, WAITING):
                (unfinished / name).mkdir()
            if before is None:
                noise = kernel.drawn_by_shuffler(self.calendar.mechanism, SystemSource())
                held, count, release, last = iter([noise]), len(noise), os.urandom(16).hex(), ""
            else:
                old = days.place(own, before.day)
                held, count, release = self._held(old / WAITING, before.waiting), before.waiting, before.release
                last = DayManifest.read(old / PUBLIC).fingerprint
            over, waiting = self._divided(held, count, unfinished)
            width = self.calendar.mechanism.message_bytes
            DayManifest(
                self.identity, release, self.number, width, over.messages, over.sha256, last
            ).write(unfinished / PUBLIC)  # fmt: skip
            ids = [each.id for each in self.bundles]
            known = sorted([*ids, *(before.bundles if before is not None else [])])
            Kept(self.identity, release, self.number, waiting, known, bundle.hash_of(ids)).write(unfinished)

    def count(self) -> None:
        """What is set aside, of a day that is drawn already."""
        with self.progress.step("counting", sum(each.messages for each in self.bundles)) as advance:
            deque(self._sifted(advance), maxlen=0)

    @property
    def users(self) -> int:
        return sum(each.users for each in self.bundles)

    @property
    def missing(self) -> int:
        sent_by = self.calendar.mechanism.crowd.sent_by
        return sum(abs((sent_by(each.users) or 0) - each.messages) for each in self.bundles)

    def _held(self, directory: Path, count: int) -> Iterator[Bytes]:
        """What was kept of the days before."""
        files = message.files_of(directory) if count else []
        found = 0
        for wire in message.read(files, self.calendar.mechanism.message_bytes):
            found += len(wire)
            yield wire
        if found != count:
            raise ValueError(f"{WHO}: {directory} is damaged; bring the directory of the days before back.")

    def _divided(self, held: Iterator[Bytes], count: int, room: Path) -> tuple[shuffling.Written, int]:
        """What is over on this day, and how many messages are not: both in order of their bytes."""
        mechanism, hashed, over, waiting = self.calendar.mechanism, hashlib.sha256(), 0, 0
        width, total = mechanism.message_bytes, count + sum(each.messages for each in self.bundles)
        public, kept = (message.Writer(room / name, width) for name in (PUBLIC, WAITING))
        with self.progress.step("shuffling", total) as advance, public, kept:
            for wire in shuffling.in_order(chain(held, self._sifted(advance)), width, total, room):
                is_over = self.calendar.over_on(mechanism.unpack(wire)) <= self.number
                done, rest = np.ascontiguousarray(wire[is_over]), wire[~is_over]
                public.write(done)
                kept.write(rest)
                hashed.update(done.data)
                over, waiting = over + len(done), waiting + len(rest)
        return shuffling.Written(over, hashed.hexdigest()), waiting

    def _sifted(self, advance: Callable[[int], None]) -> Iterator[Bytes]:
        """The messages of all bundles that are messages of the plan and of this day."""
        mechanism = self.calendar.mechanism
        for each in self.bundles:
            for wire in each.read():
                good, bad = kernel.sifted(mechanism, wire)
                todays = self.calendar.of_day(mechanism.unpack(good), self.number)
                self.refused += bad
                self.astray += len(good) - int(np.count_nonzero(todays))
                yield good[todays]
                advance(len(wire))


@contextmanager
def _alone(own: Path, public: Path) -> Iterator[None]:
    """The shuffler's own directory, which nobody else reads, while no other process has it."""
    inside, outside = own.resolve(), public.resolve()
    if inside == outside or inside in outside.parents or outside in inside.parents:
        raise ValueError(f"{WHO}: --state is for the shuffler alone and --out is public: neither may be in the other.")
    durable.make_directory(own, OWNER_ONLY)
    if own.stat().st_mode & OTHERS:
        raise ValueError(f"{WHO}: {own} is for the shuffler alone; take it from the others by `chmod 700`.")
    durable.demand_own_directory(own.resolve())
    with ExitStack() as stack:
        try:
            stack.enter_context(durable.locked(own / LOCK))
        except BlockingIOError:
            raise ValueError(f"{WHO}: another process is releasing from {own}.") from None
        yield


def _tidy(own: Path) -> None:
    """Only the last day that is complete is needed: nothing is kept of what is over."""
    # Its name may have been given by a process that was killed before it was on disk.
    durable.sync_path(own)
    for old in days.numbers_in(own)[:-1]:
        durable.remove_tree(days.place(own, old))


def _demand_next(before: Kept | None, number: int, own: Path, public: Path, label: Callable[[int], str]) -> None:
    """This is the day after the last one, which is public, or the last one, which is not."""
    wanted, is_public = 0 if before is None else before.day + 1, days.place(public, number).exists()
    if before is not None and number == before.day and not is_public:
        wanted = number
    if number < wanted or (number == wanted > 0 and is_public):
        raise ValueError(f"{WHO}: day {label(number)} is already released; each day is, once.")
    if number > wanted:
        raise ValueError(
            f"{WHO}: expected day {label(wanted)}, which comes next, got {label(number)}; a day without events is "
            f"released without messages."
        )
    if wanted == 0:
        if days.numbers_in(public):
            raise ValueError(f"{WHO}: {public} has days of which {own} knows nothing; give the --state of those days.")
        return
    drawn = DayManifest.read(days.place(own, before.day) / PUBLIC) if before is not None else None
    assert drawn is not None, "there are days before"
    last = drawn.before if drawn.day == number else drawn.fingerprint
    there = days.place(public, number - 1)
    if not there.exists():
        raise ValueError(
            f"{WHO}: {public} has no {there.name}: repeat that day's command, or give the --out of the days before."
        )
    if DayManifest.read(there).fingerprint != last:
        raise ValueError(f"{WHO}: {there} is not what was released on that day; give the --out of the days before.")


def _of_round(
    plan: Plan, given: int | None, before: Kept | None, bundles: Sequence[Bundle], ledger: str | os.PathLike[str] | None
) -> tuple[Lot, Guarantee]:
    """The round: the one that is given, or that of the days before, or that of the messages, or the next free one."""
    known = [before.plan] if before is not None else [each.plan for each in bundles[:1]]
    found = next((plan.round_of(identity) for identity in known), None) if given is None else given
    number = chosen_round(WHO, plan, found, None if ledger is None else Ledger(ledger))
    return Lot.of(plan, number, 0, 1), Guarantee(plan, plan.users, round_number=number)


def _demand_messages(bundles: Sequence[Bundle], lot: Lot, before: Kept | None, number: int) -> None:
    """All files are of this plan's round, of people with one event each, and were never given before.

    Of a day that is drawn already they are the same ones.
    """
    again = before is not None and before.day == number
    earlier: set[str] = set() if before is None or again else set(before.bundles)
    if before is not None and before.plan != lot.plan:
        raise ValueError(f"{WHO}: the days before were released of another plan or another round than the one given.")
    seen: set[str] = set()
    for each in bundles:
        if (each.plan, each.width, each.noise) != (lot.plan, lot.width, lot.noise):
            raise ValueError(f"{WHO}: {each.path} was made for another plan or another round than the one given.")
        if each.per_person != 1:
            raise ValueError(f"{WHO}: {each.path} has up to {each.per_person} events of one person; expected one.")
        if each.id in seen or each.id in earlier:
            raise ValueError(f"{WHO}: the messages of {each.path} were given already; each file must be given once.")
        seen.add(each.id)
    if before is not None and again and bundle.hash_of(seen) != before.given:
        raise ValueError(f"{WHO}: this day was drawn already, from other files; give those that it was drawn from.")
