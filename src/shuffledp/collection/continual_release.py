"""Daily release of counts over time by the shuffler.

Each day the shuffler releases the messages of the tree nodes that end on that day, its noise among them, and keeps the
rest. All noise is drawn once, on the first day, and mixed with the messages that are kept: an observer of the kept
messages on one day learns no more about the users before than the guarantee allows, and a repeated call, from any copy
of the state, does not draw again. A day is complete in the shuffler's own directory before anybody else sees any of it.

The public directory has one directory per day, whose manifest names that of the day before. The manifest does not
contain the number of people or of their messages: the noise hides these.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np

from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp._core.results_and_value_objects import Progress
from shuffledp._core.validation import Array, Bytes, Integers
from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.message_files import BatchSpec, EncodedFile, MessageDigest
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.ledger.ledger import Ledger, choose_round
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.base.range_estimator import TreeEstimator
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.planning.plan import Plan
from shuffledp.sampling.random_sources import SystemSource
from shuffledp.storage import durable_files
from shuffledp.tasks.running_counts import OverTime

# --- The public directory ---


DAY_FORMAT, DAY_VERSION = "shuffledp messages of one day", 1
RELEASE_DIGEST_PREFIX = b"shuffledp release day by day\0"
DAY_DIRECTORY_PATTERN = re.compile(r"day-(\d{5,})")


@dataclass(frozen=True)
class DayManifest:
    """The shuffler's description of one day's messages: a function of them, of the plan, and of the day before."""

    plan: str
    """Identity of the plan's round that they belong to."""
    release: str
    """Random id, the same on all days; no other release of the plan has it."""
    day: int
    width: int
    messages: int
    sha256: str
    """Hash of all messages, one after the other, in order of their bytes."""
    before: str
    """The ``fingerprint`` of the day before; empty on the first day."""

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self._format_json().encode()).hexdigest()

    @property
    def digest(self) -> str:
        """An id of all days of this release together: the ledger is charged once for them."""
        return hashlib.sha256(RELEASE_DIGEST_PREFIX + f"{self.plan}:{self.release}".encode()).hexdigest()

    def _format_json(self) -> str:
        return json.dumps({"format": DAY_FORMAT, "version": DAY_VERSION} | asdict(self), indent=1) + "\n"

    def write(self, directory: Path) -> None:
        """Writes the manifest into the directory of the day's messages."""
        (directory / message_files.MANIFEST_NAME).write_text(self._format_json(), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Reads the manifest from the directory of the day's messages; raises ValueError if there is none."""
        manifest = cls(**message_files.read_manifest_fields(directory, cls, DAY_FORMAT, {DAY_VERSION: ()}))
        if manifest.width < 1:
            raise ValueError(
                f"messages: {directory / message_files.MANIFEST_NAME} is damaged: expected a width of at least 1."
            )
        return manifest

    def read_verified_messages(self, directory: Path) -> Iterator[Bytes]:
        """Yields the day's messages in batches; raises ValueError as soon as they differ from the manifest."""
        return message_files.read_verified_messages(directory, self.width, MessageDigest(self.messages, self.sha256))


@dataclass(frozen=True)
class Calendar:
    """The days that the messages of a mechanism are about, and so the days on which they can be released."""

    mechanism: Mechanism
    estimator: TreeEstimator

    @classmethod
    def from_plan(cls, who: str, plan: Plan) -> Self:
        """Returns the calendar of a plan that can be released daily; raises ValueError for any other plan."""
        mechanism = plan.mechanism
        estimator = mechanism.estimator
        if not isinstance(plan.task, OverTime) or not isinstance(estimator, TreeEstimator):
            goal = Argument(
                "task=OverTime(…), rests_on='shuffler-noise'",
                command_line="--task counts-over-time --rests-on shuffler-noise",
            )
            expected = "expected a plan for the task 'counts over time'"
            raise InvalidArgument(who, expected, got=repr(plan.task.name), hint=phrase("plan with {goal}", goal=goal))
        if not mechanism.message_plan.has_shuffler_noise:
            raise InvalidArgument(
                who,
                "expected noise of the shuffler",
                got=f"{mechanism.name}, whose noise the users draw: on the first days the users of later days are "
                "missing",
                hint=phrase("plan with {rests_on='shuffler-noise'}"),
            )
        return cls(mechanism, estimator)

    @property
    def tree(self) -> ValueTree:
        return self.estimator.tree

    def find_last_days(self, messages: Array) -> Integers:
        """Returns the last day of the tree node of each message."""
        return np.asarray(self.tree.last_values[self.estimator.message_nodes(messages)])

    def is_from_day(self, messages: Array, day: int) -> Array:
        """Returns for each message True if a user whose event was on this day can have sent it."""
        return np.isin(self.estimator.message_nodes(messages), self.tree.find_nodes(np.array([day])))


def day_directory(directory: Path, day: int) -> Path:
    """Returns the directory of a day."""
    return directory / f"day-{day:05d}"


def list_days(directory: Path) -> list[int]:
    """Returns the days that are in a directory, in order."""
    matches = [DAY_DIRECTORY_PATTERN.fullmatch(path.name) for path in directory.iterdir()] if directory.is_dir() else []
    return sorted(int(each[1]) for each in matches if each is not None)


def read_released_days(directory: Path) -> list[DayManifest]:
    """Returns the manifests of all days from the first to the last.

    Raises ValueError if a day is missing or does not follow the one before.
    """
    days: list[DayManifest] = []
    for expected, number in enumerate(list_days(directory)):
        if number != expected:
            raise ValueError(f"messages: {directory} lacks day {expected}: all days up to the last one are needed.")
        manifest = DayManifest.read(day_directory(directory, number))
        before = days[-1].fingerprint if days else ""
        same = not days or (manifest.plan, manifest.release, manifest.width) == (
            days[0].plan,
            days[0].release,
            days[0].width,
        )
        if not same or (manifest.day, manifest.before) != (number, before):
            raise ValueError(
                f"messages: {day_directory(directory, number)} does not follow the day before: one was changed."
            )
        days.append(manifest)
    return days


ERROR_PREFIX = "release"
PUBLIC_DIRECTORY, WAITING_DIRECTORY, STATE_FILE, LOCK_FILE = "public", "waiting", "state.json", "lock"
STATE_FORMAT, STATE_VERSION = "shuffledp state of a release", 1
OWNER_ONLY, GROUP_AND_OTHERS = 0o700, 0o077


@dataclass(frozen=True)
class ReleasedDay:
    """The counts of one released day; only ``messages`` is public, the others are for the shuffler alone.

    Refused and misdated rows are in no release.

    Args:
        day: Number of the day, from 0.
        messages: Number of messages released on this day, visible to everybody.
        users: Number of users on this day, as the encoders state it.
        refused: Number of rows that are not messages of the plan.
        astray: Number of messages of another day.
        missing: Number of messages too few or too many for the users.

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
    """Releases one day of counts over time to the public directory, in the role of the shuffler.

    Days are released in order, each once. Repeat a call that was killed with the same arguments: it releases the noise
    that it had drawn.

    Args:
        inputs: Files from ``encode`` of the people whose event was on this day; none on a day without events.
        plan: A plan for the task counts over time with noise of the shuffler, or the path of its file.
        day: The day, named as in the plan's domain.
        state: The shuffler's own directory, the same on all days.
        out: The public directory, the same on all days.
        ledger: Path of the ledger, which is charged for all days on the first one.
        allow_weaker: If True, continues even if the plan misses its target.
        round_number: Number of the plan's round. The default is the round of the days before or of the files; on a
            first day without files, it is chosen as for ``collect``.
        progress: Receives the progress of each step.

    Returns:
        The counts of the day.

    Raises:
        ValueError: If the plan cannot be released daily, the day is not the next one, a file is damaged or of another
            plan or round or was given before, or one of the directories is not that of the days before.
        GuaranteeTooWeak: If the plan misses its target, or the budget has no room for the release.

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
    plan, private, public = Plan.load_if_path(plan), Path(state), Path(out)
    calendar = Calendar.from_plan(ERROR_PREFIX, plan)
    number = plan.task.domain.find_option_number(ERROR_PREFIX, day)
    Guarantee(plan, plan.users).require_target(allow_weaker)
    bundles = [EncodedFile.open(file) for path in inputs for file in message_files.list_encoded_files(Path(path))]
    with _lock_state(private, public):
        _remove_old_days(private)
        before = ShufflerState.read_last(private)
        _check_next_day(before, number, private, public, plan.task.domain.label)
        spec, guarantee = _choose_round(plan, round_number, before, bundles, ledger)
        _check_files(bundles, spec, before, number)
        split = DaySplit(calendar, spec.plan, number, bundles, Progress() if progress is None else progress)
        if before is None or before.day != number:
            split.write_day(private, before)
        else:
            split.count_rejected()
        prepared = day_directory(private, number) / PUBLIC_DIRECTORY
        manifest = DayManifest.read(prepared)
        if ledger is not None:
            # A release cannot be taken back. Later days have the digest of the first, which is paid for.
            Ledger(ledger).book(guarantee, manifest.digest)
        if bundles:
            message_files.record_shuffle(
                ERROR_PREFIX, spec.plan, [each.id for each in bundles], manifest.digest, drawn=True
            )
        with durable_files.create_atomic_directory(day_directory(public, number)) as unfinished:
            for file in sorted(prepared.iterdir()):
                with open(file, "rb") as source, open(unfinished / file.name, "wb") as target:
                    shutil.copyfileobj(source, target)
        _remove_old_days(private)
    return ReleasedDay(number, manifest.messages, split.users, split.refused, split.misdated, split.missing)


@dataclass(frozen=True)
class ShufflerState:
    """The shuffler's own state after a day, beside the messages of nodes that have not ended.

    It does not hold the number of users or files of any day: the noise hides these.
    """

    plan: str
    release: str
    day: int
    waiting: int
    """Number of messages kept, noise included."""
    bundles: list[str]
    """Sorted ids of all files given so far."""
    given: str
    """Hash of the ids of this day's files: a repeated call must give the same ones."""

    @classmethod
    def read_last(cls, private: Path) -> Self | None:
        """Returns the state after the last complete day; None before the first."""
        days = list_days(private)
        return cls.read(day_directory(private, days[-1])) if days else None

    @classmethod
    def read(cls, directory: Path) -> Self:
        path = directory / STATE_FILE
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if (document.pop("format"), document.pop("version")) != (STATE_FORMAT, STATE_VERSION):
                raise ValueError
            return cls(**document)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{ERROR_PREFIX}: cannot read {path}; restore the directory of the days before.") from None

    def write(self, directory: Path) -> None:
        document: dict[str, Any] = {"format": STATE_FORMAT, "version": STATE_VERSION} | asdict(self)
        (directory / STATE_FILE).write_text(json.dumps(document) + "\n", encoding="utf-8")


@dataclass
class DaySplit:
    """The messages of one day while they are divided into released and kept ones, and counts of rows set aside."""

    calendar: Calendar
    identity: str
    number: int
    encoded_files: Sequence[EncodedFile]
    progress: Progress
    refused: int = field(default=0, init=False)
    misdated: int = field(default=0, init=False)

    def write_day(self, private: Path, before: ShufflerState | None) -> None:
        """Writes the whole day to the shuffler's own directory, under its final name once it is complete."""
        with durable_files.create_atomic_directory(day_directory(private, self.number)) as unfinished:
            for name in (PUBLIC_DIRECTORY, WAITING_DIRECTORY):
                (unfinished / name).mkdir()
            if before is None:
                noise = batch_processing.draw_shuffler_messages(self.calendar.mechanism, SystemSource())
                held, count, release, last = iter([noise]), len(noise), os.urandom(16).hex(), ""
            else:
                old = day_directory(private, before.day)
                held = self._read_waiting(old / WAITING_DIRECTORY, before.waiting)
                count, release = before.waiting, before.release
                last = DayManifest.read(old / PUBLIC_DIRECTORY).fingerprint
            over, waiting = self._write_split(held, count, unfinished)
            width = self.calendar.mechanism.message_bytes
            DayManifest(
                self.identity, release, self.number, width, over.messages, over.sha256, last
            ).write(unfinished / PUBLIC_DIRECTORY)  # fmt: skip
            ids = [each.id for each in self.encoded_files]
            known = sorted([*ids, *(before.bundles if before is not None else [])])
            ShufflerState(self.identity, release, self.number, waiting, known, message_files.hash_ids(ids)).write(
                unfinished
            )

    def count_rejected(self) -> None:
        """Counts the rows set aside on a day that is prepared already."""
        with self.progress.step("counting", sum(each.messages for each in self.encoded_files)) as advance:
            deque(self._read_valid(advance), maxlen=0)

    @property
    def users(self) -> int:
        return sum(each.users for each in self.encoded_files)

    @property
    def missing(self) -> int:
        sent_by = self.calendar.mechanism.message_plan.user_messages
        return sum(abs((sent_by(each.users) or 0) - each.messages) for each in self.encoded_files)

    def _read_waiting(self, directory: Path, count: int) -> Iterator[Bytes]:
        """Yields the messages kept from the days before; raises ValueError if some are missing."""
        files = message_files.list_message_files(directory) if count else []
        found = 0
        for wire in message_files.read_messages(files, self.calendar.mechanism.message_bytes):
            found += len(wire)
            yield wire
        if found != count:
            raise ValueError(f"{ERROR_PREFIX}: {directory} is damaged; restore the directory of the days before.")

    def _write_split(self, held: Iterator[Bytes], count: int, room: Path) -> tuple[message_files.MessageDigest, int]:
        """Writes the released and the kept messages, both in order of their bytes.

        Returns the number and hash of the released messages, and the number of kept ones.
        """
        mechanism, hashed, over, waiting = self.calendar.mechanism, hashlib.sha256(), 0, 0
        width, total = mechanism.message_bytes, count + sum(each.messages for each in self.encoded_files)
        public, later = (
            message_files.MessageWriter(room / name, width) for name in (PUBLIC_DIRECTORY, WAITING_DIRECTORY)
        )
        with self.progress.step("shuffling", total) as advance, public, later:
            for wire in message_files.sort_messages(chain(held, self._read_valid(advance)), width, total, room):
                is_over = self.calendar.find_last_days(mechanism.unpack(wire)) <= self.number
                done, rest = np.ascontiguousarray(wire[is_over]), wire[~is_over]
                public.write(done)
                later.write(rest)
                hashed.update(done.data)
                over, waiting = over + len(done), waiting + len(rest)
        return message_files.MessageDigest(over, hashed.hexdigest()), waiting

    def _read_valid(self, advance: Callable[[int], None]) -> Iterator[Bytes]:
        """Yields the messages of all files that are messages of the plan and of this day."""
        mechanism = self.calendar.mechanism
        for each in self.encoded_files:
            for wire in each.read():
                good, bad = batch_processing.filter_valid(mechanism, wire)
                todays = self.calendar.is_from_day(mechanism.unpack(good), self.number)
                self.refused += bad
                self.misdated += len(good) - int(np.count_nonzero(todays))
                yield good[todays]
                advance(len(wire))


@contextmanager
def _lock_state(private: Path, public: Path) -> Iterator[None]:
    """Locks the shuffler's own directory, which must be readable by its owner only, against other processes."""
    inside, outside = private.resolve(), public.resolve()
    if inside == outside or inside in outside.parents or outside in inside.parents:
        raise InvalidArgument(
            ERROR_PREFIX,
            phrase("{state} is for the shuffler alone and {out} is public: neither may contain the other"),
        )
    durable_files.make_directory(private, OWNER_ONLY)
    if private.stat().st_mode & GROUP_AND_OTHERS:
        raise ValueError(
            f"{ERROR_PREFIX}: {private} is open to others and must be for the shuffler alone; run `chmod 700` on it."
        )
    durable_files.check_owned_directory(private.resolve())
    with ExitStack() as stack:
        try:
            stack.enter_context(durable_files.open_locked(private / LOCK_FILE))
        except BlockingIOError:
            raise ValueError(f"{ERROR_PREFIX}: another process is releasing from {private}.") from None
        yield


def _remove_old_days(private: Path) -> None:
    """Deletes all days but the last complete one: nothing is kept of nodes that have ended."""
    # A killed process may have renamed the last day without syncing the name to disk.
    durable_files.sync_path(private)
    for old in list_days(private)[:-1]:
        durable_files.remove_tree(day_directory(private, old))


def _check_next_day(
    before: ShufflerState | None, number: int, private: Path, public: Path, label: Callable[[int], str]
) -> None:
    """Raises ValueError unless the day follows the last public one, or is the last one and not yet public."""
    expected, is_public = 0 if before is None else before.day + 1, day_directory(public, number).exists()
    if before is not None and number == before.day and not is_public:
        expected = number
    if number < expected or (number == expected > 0 and is_public):
        raise ValueError(f"{ERROR_PREFIX}: day {label(number)} is already released; each day is released once.")
    if number > expected:
        raise ValueError(
            f"{ERROR_PREFIX}: expected day {label(expected)}, which comes next, got {label(number)}; a day without "
            "events is released without messages."
        )
    if expected == 0:
        if list_days(public):
            raise InvalidArgument(
                ERROR_PREFIX,
                f"{public} has days that are not in {private}",
                hint=phrase("give the {state} of those days"),
            )
        return
    prepared = DayManifest.read(day_directory(private, before.day) / PUBLIC_DIRECTORY) if before is not None else None
    assert prepared is not None, "there are days before"
    last = prepared.before if prepared.day == number else prepared.fingerprint
    previous = day_directory(public, number - 1)
    if not previous.exists():
        raise InvalidArgument(
            ERROR_PREFIX,
            phrase(
                "{public} has no {name}: repeat that day's command, or give the {out} of the days before",
                public=public,
                name=previous.name,
            ),
        )
    if DayManifest.read(previous).fingerprint != last:
        raise InvalidArgument(
            ERROR_PREFIX,
            f"{previous} is not the release of that day",
            hint=phrase("give the {out} of the days before"),
        )


def _choose_round(
    plan: Plan,
    requested: int | None,
    before: ShufflerState | None,
    bundles: Sequence[EncodedFile],
    ledger: str | os.PathLike[str] | None,
) -> tuple[BatchSpec, Guarantee]:
    """Returns the round: the given one, that of the days before, that of the files, or the next free one."""
    identities = [before.plan] if before is not None else [each.plan for each in bundles[:1]]
    known_number = (
        next((plan.find_round(identity) for identity in identities), None) if requested is None else requested
    )
    number = choose_round(ERROR_PREFIX, plan, known_number, None if ledger is None else Ledger(ledger))
    return BatchSpec.from_plan(plan, number, 0, 1), Guarantee(plan, plan.users, round_number=number)


def _check_files(bundles: Sequence[EncodedFile], spec: BatchSpec, before: ShufflerState | None, number: int) -> None:
    """Raises ValueError unless all files are of this plan's round, with one event per person, and never given before.

    If the day is prepared already, they must be the same files as then.
    """
    again = before is not None and before.day == number
    earlier: set[str] = set() if before is None or again else set(before.bundles)
    if before is not None and before.plan != spec.plan:
        raise ValueError(f"{ERROR_PREFIX}: the days before belong to another plan or another round than the one given.")
    ids: set[str] = set()
    for each in bundles:
        if (each.plan, each.width, each.noise) != (spec.plan, spec.width, spec.noise):
            raise ValueError(
                f"{ERROR_PREFIX}: {each.path} was made for another plan or another round than the one given."
            )
        if each.per_person != 1:
            raise ValueError(
                f"{ERROR_PREFIX}: {each.path} has up to {each.per_person} events of one person; expected one."
            )
        if each.id in ids or each.id in earlier:
            raise ValueError(
                f"{ERROR_PREFIX}: the messages of {each.path} were given already; each file must be given once."
            )
        ids.add(each.id)
    if before is not None and again and message_files.hash_ids(ids) != before.given:
        raise ValueError(
            f"{ERROR_PREFIX}: this day was prepared already, from other files; give the same files as then."
        )
