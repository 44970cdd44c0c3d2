"""Files of messages: those of one encoder (bundles), shuffled messages with their manifest, the record of shuffles.

A bundle is the file of one encoder's messages for the shuffler, which does not trust it: a line that names the format,
a line of JSON, the messages one after the other, and a SHA-256 of everything before it::

    shuffledp messages 2
    {"id": "…", "plan": "…", "users": 1000, "per_person": 1, "width": 1, "noise": "users"}
    …

The number of messages follows from the size of the file: nothing in it can claim or expand to more. ``plan`` is the
identity of the plan's round, ``per_person`` the largest number of rows of one person, each of which counts as a user.
``id`` is random and distinguishes a copy of a bundle from another bundle with the same content. ``noise`` names the
party that draws the noise that hides the messages: if it is the shuffler, they are not private before that.

Shuffled messages are Parquet files with one column of fixed-width bytes, in the order of the bytes. That order is a
function of the multiset of messages alone: senders, order of arrival, files and the division of the work leave no
trace. No randomness is drawn, so that none can leak, and a repetition gives the same files. Names and row groups depend
only on the number of messages, sizes on their multiset. ``_manifest.json`` beside them is a function of the multiset of
messages, the plan, the numbers of people and of what was set aside, and the ids of the bundles.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.validation import Bytes
from shuffledp.ledger.rollback_guard import state_directory
from shuffledp.mechanisms.base.message_plan import MessagePlan
from shuffledp.storage import durable_files, sorting

if TYPE_CHECKING:
    import pyarrow as pa

    from shuffledp.ledger.collection_guarantee import Guarantee
    from shuffledp.mechanisms.base.mechanism import Mechanism
    from shuffledp.planning.plan import Plan


# --- The record of shuffled files ---


RECORDS_FOLDER = "shuffled"
"""Holds one file per round of a plan, with one line per set of message files released together."""
ID_DIGITS = 32


class AlreadyShuffled(ValueError):
    """Some of the message files were released before, together with others; nothing was released now."""


def record_shuffle(who: str, plan: str, ids: Collection[str], digest: str, *, drawn: bool) -> None:
    """Records that these message files of a plan's round are released together, before anybody sees the result.

    The same set may be released again, unless noise was ``drawn`` for it and the result, identified by its ``digest``,
    differs from the earlier one: noise that is drawn twice averages out. If the record cannot be written, nothing is
    recorded.

    Raises:
        AlreadyShuffled: If some of them were released before in another set, or the same set with other noise.
    """
    own = {_hash_id(id_) for id_ in ids}
    try:
        with _open_record(plan) as file:
            content = file.read()
            if any(_matches_record(who, line, own, digest, drawn) for line in content.splitlines()):
                return
            # A line that a power loss cut off was written before anybody saw its release.
            file.seek(content.rfind(b"\n") + 1)
            file.truncate()
            file.write(json.dumps({"ids": sorted(own), "digest": digest}).encode() + b"\n")
            file.flush()
            durable_files.sync(file.fileno())
            durable_files.sync_path(record_path(plan).parent)
    except OSError:
        return


def _matches_record(who: str, line: bytes, own: set[str], digest: str, drawn: bool) -> bool:
    """Returns True if a line records this very set; raises AlreadyShuffled if it records a part of it."""
    try:
        record = json.loads(line)
        before, released = set(record["ids"]), record["digest"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    if before.isdisjoint(own):
        return False
    if before != own:
        raise AlreadyShuffled(
            f"{who}: {len(before & own)} of the {len(own)} files were shuffled before, together with others or without "
            f"the rest: the difference would reveal the messages of a few; give all files of a round at once, and "
            f"encode late ones for the next round."
        )
    if drawn and released != digest:
        raise AlreadyShuffled(f"{who}: these files were shuffled before, with other noise; use that result.")
    return True


def _hash_id(id_: str) -> str:
    return hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:ID_DIGITS]


def record_path(plan: str) -> Path:
    """Returns the path of the record of a plan's round."""
    # The author of the message file chose the plan's identity: hash it before it becomes a file name.
    return state_directory() / RECORDS_FOLDER / f"{hash_ids([plan])[:ID_DIGITS]}.jsonl"


@contextmanager
def _open_record(plan: str) -> Iterator[BinaryIO]:
    """Opens the record of a plan's round under an exclusive lock."""
    path = record_path(plan)
    durable_files.make_directory(path.parent, 0o700)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with open(os.open(path, flags, durable_files.OWNER_ONLY), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


# --- Expected messages ---


USERS, SHUFFLER = "users", "shuffler"


@dataclass(frozen=True)
class BatchSpec:
    """The identity and the expected size of the messages of a collection, or of one encoder's part of it."""

    plan: str
    """Identity of the plan's round."""
    width: int
    users: int
    per_person: int
    """Largest number of rows of one person, each of which counts as a user."""
    user_messages: int | None
    """Number of messages that the users send; None if it varies."""
    messages: int | None
    """Number of messages with those that the shuffler adds; None if it varies."""
    noise: str
    """The party that draws the noise that hides the messages: ``USERS`` or ``SHUFFLER``."""

    @classmethod
    def from_plan(cls, plan: Plan, round_number: int, users: int, per_person: int) -> Self:
        """Returns the expected messages of this many users of a plan's round."""
        return cls.from_mechanism(plan.identity(round_number), plan.mechanism, users, per_person)

    @classmethod
    def from_mechanism(cls, identity: str, mechanism: Mechanism, users: int, per_person: int = 1) -> Self:
        """Returns the expected messages of this many users of a mechanism, under the identity of a plan's round."""
        message_plan = mechanism.message_plan
        sent, messages = message_plan.user_messages(users), message_plan.total_messages(users)
        return cls(identity, mechanism.message_bytes, users, per_person, sent, messages, find_noise_party(mechanism))

    def allows_user_messages(self, messages: int) -> bool:
        """Returns True if this can be the number of all messages of the users."""
        return self.user_messages in (None, messages)

    def allows_total_messages(self, messages: int) -> bool:
        """Returns True if this can be the number of all messages, those of the shuffler included."""
        return self.messages in (None, messages)


def find_noise_party(mechanism: Mechanism) -> str:
    """Returns the party that draws the noise that hides the messages of a mechanism."""
    return SHUFFLER if mechanism.message_plan.has_shuffler_noise else USERS


# --- Parquet files of messages ---


MESSAGE_COLUMN = "message"
GROUP_ROWS, GROUP_BYTES = 1 << 20, 1 << 23
GROUPS_PER_FILE = 16
"""Largest numbers of messages and bytes in a row group, and of row groups in a file."""
READ_BYTES = 1 << 20


def group_rows(width: int) -> int:
    """Returns the number of messages in a row group, except the last; also the size of a batch in memory."""
    return max(1, min(GROUP_ROWS, GROUP_BYTES // width))


def to_arrow(wire: Bytes) -> pa.Array:
    """Converts rows of bytes to an Arrow array, without a copy."""
    import pyarrow as pa

    rows = np.ascontiguousarray(wire)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(rows.shape[1]), len(rows), [None, pa.py_buffer(rows)])


def from_arrow(array: pa.Array, width: int) -> Bytes:
    """Restores the result of ``to_arrow``; accepts bytes of variable length if all have this width."""
    import pyarrow as pa

    if array.null_count:
        raise ValueError(f"messages: expected a message in every row, got {array.null_count} nulls.")
    kind = pa.binary(width)
    if array.type != kind:
        try:
            array = array.cast(kind)
        except pa.ArrowException:
            raise ValueError(f"messages: expected rows of {width} bytes, got {array.type} of other lengths.") from None
    array.validate(full=True)
    start = array.offset * width
    flat = np.frombuffer(array.buffers()[1], dtype=np.uint8)[start : start + len(array) * width]
    return flat.reshape(len(array), width)


def read_messages(paths: Iterable[Path], width: int) -> Iterator[Bytes]:
    """Yields the messages of files in batches of bounded size, without relying on the counts in their footers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        try:
            with pq.ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False) as file:
                _check_schema(path, file.schema_arrow, width)
                for batch in file.iter_batches(batch_size=group_rows(width), columns=[MESSAGE_COLUMN]):
                    yield from_arrow(batch.column(0), width)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"messages: cannot read {path}: {' '.join(str(error).split()).rstrip('.')}.") from None


def count_messages(paths: Iterable[Path]) -> int:
    """Returns the number of messages in our own files, according to their footers."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in paths)


def _check_schema(path: Path, schema: pa.Schema, width: int) -> None:
    import pyarrow as pa

    kinds = (pa.binary(width), pa.binary())
    if schema.names != [MESSAGE_COLUMN] or schema.field(0).type not in kinds:
        raise ValueError(
            f"messages: {path} does not hold messages of {width} bytes: expected one column {MESSAGE_COLUMN!r}."
        )


def list_message_files(directory: Path) -> list[Path]:
    """Returns the files of a directory of messages in order; of a file, the file itself."""
    if directory.is_file():
        return [directory]
    found = sorted(path for path in directory.iterdir() if path.suffix == ".parquet") if directory.is_dir() else []
    if not found:
        raise ValueError(f"messages: expected a file or a directory of messages, got {str(directory)!r}.")
    return found


class MessageWriter:
    """Writes messages to one file after another, in row groups of one size."""

    def __init__(self, directory: Path, width: int, stem: str = "messages") -> None:
        self._directory, self._width, self._stem = directory, width, stem
        self._group = np.empty((group_rows(width), width), dtype=np.uint8)
        self._held = self._groups = self._files = 0
        self._file: pa.parquet.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self._flush()
        self._close()

    def write(self, wire: Bytes) -> None:
        """Adds these messages."""
        taken = 0
        while taken < len(wire):
            take = min(len(self._group) - self._held, len(wire) - taken)
            self._group[self._held : self._held + take] = wire[taken : taken + take]
            self._held, taken = self._held + take, taken + take
            if self._held == len(self._group):
                self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._held:
            return
        if self._file is None:
            self._file = open_writer(self._directory / f"{self._stem}-{self._files:05d}.parquet", self._width)
            self._files += 1
        self._file.write_table(
            pa.table({MESSAGE_COLUMN: to_arrow(self._group[: self._held])}), row_group_size=self._held
        )
        self._groups, self._held = self._groups + 1, 0
        if self._groups >= GROUPS_PER_FILE:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._groups = None, 0


def write_messages_to(file: BinaryIO, width: int, batches: Iterable[Bytes]) -> None:
    """Writes messages to an open file, in the order in which they come."""
    import pyarrow as pa

    with open_writer(file, width) as writer:
        for wire in batches:
            writer.write_table(pa.table({MESSAGE_COLUMN: to_arrow(wire)}))


def open_writer(where: Path | BinaryIO, width: int) -> pa.parquet.ParquetWriter:
    """Opens a file for messages of this width; sorted messages compress to almost nothing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([pa.field(MESSAGE_COLUMN, pa.binary(width), nullable=True)])
    return pq.ParquetWriter(
        where, schema, use_dictionary=False, compression="zstd", compression_level=1, write_statistics=False,
        store_schema=False,
    )  # fmt: skip


# --- Bundles: files of one encoder's messages ---


FIRST_LINE = b"shuffledp messages 2\n"
MAX_HEADER_BYTES = 4096
CHECKSUM_BYTES = hashlib.sha256().digest_size
MAX_MESSAGE_BYTES = 1 << 26
"""Largest width of a message of any mechanism, in bytes."""
MAX_USERS = 1 << 62
"""Largest number of users accepted; larger numbers in a file would only cost work."""
HEADER_FIELDS = {"id": str, "plan": str, "users": int, "per_person": int, "width": int, "noise": str}
ENCODED_SUFFIX = ".messages"


@dataclass(frozen=True)
class EncodedFile:
    """A file of one encoder's messages: the fields of its header, and the real number of its messages."""

    path: Path
    id: str
    plan: str
    users: int
    per_person: int
    width: int
    noise: str
    messages: int
    start: int
    """Offset of the first message in bytes."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Reads the header of a bundle; raises ValueError if it is not one. ``read`` verifies the checksum."""
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                first, header = file.read(len(FIRST_LINE)), file.readline(MAX_HEADER_BYTES)
        except OSError as error:
            raise ValueError(f"messages: cannot read {path}: {error.strerror}.") from None
        if first != FIRST_LINE:
            raise ValueError(f"messages: {path} is not a file of messages from `shuffledp encode`.")
        header_fields = _parse_header(path, header)
        start, width = len(FIRST_LINE) + len(header), header_fields["width"]
        messages, left = divmod(size - start - CHECKSUM_BYTES, width)
        if left or messages < 0:
            raise _build_damage_error(path)
        return cls(path, messages=messages, start=start, **header_fields)

    def read(self) -> Iterator[Bytes]:
        """Yields the messages in batches of bounded size; raises ValueError at the end if any byte differs.

        Do not rely on anything read before the end.
        """
        hashed, left = hashlib.sha256(), self.messages
        with open(self.path, "rb") as file:
            hashed.update(file.read(self.start))
            while left:
                count = min(left, group_rows(self.width))
                wire = np.fromfile(file, dtype=np.uint8, count=count * self.width)
                if len(wire) != count * self.width:
                    raise _build_damage_error(self.path)
                hashed.update(wire.data)
                left -= count
                yield wire.reshape(count, self.width)
            if file.read(CHECKSUM_BYTES + 1) != hashed.digest():
                raise _build_damage_error(self.path)


def write_encoded_file(path: Path, spec: BatchSpec, batches: Iterable[Bytes]) -> None:
    """Writes a bundle readable by its owner only; it gets its name when it is complete on disk."""
    with durable_files.create_atomic_file(path) as file:
        write_encoded_to(file, spec, batches)


def write_encoded_to(file: BinaryIO, spec: BatchSpec, batches: Iterable[Bytes]) -> None:
    """Writes a bundle to an open file."""
    header = {"id": os.urandom(16).hex()}
    header |= {name: getattr(spec, name) for name in ("plan", "users", "per_person", "width", "noise")}
    hashed = hashlib.sha256()
    for piece in (FIRST_LINE, json.dumps(header).encode() + b"\n"):
        file.write(piece)
        hashed.update(piece)
    for wire in batches:
        rows = np.ascontiguousarray(wire)
        file.write(rows.data)
        hashed.update(rows.data)
    file.write(hashed.digest())


def hash_ids(ids: Iterable[str]) -> str:
    """Returns one hash of a set of bundles, from their ids."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()


def list_encoded_files(path: Path) -> list[Path]:
    """Returns the bundles of a directory in order of their names; of a file, the file itself."""
    if path.is_file():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix == ENCODED_SUFFIX) if path.is_dir() else []
    if not found:
        raise ValueError(f"messages: expected a file or a directory of {ENCODED_SUFFIX} files, got {str(path)!r}.")
    return found


def _parse_header(path: Path, header: bytes) -> dict[str, Any]:
    try:
        header_fields = json.loads(header)
    except (ValueError, RecursionError):
        raise _build_damage_error(path) from None
    good = (
        isinstance(header_fields, dict)
        and header_fields.keys() == HEADER_FIELDS.keys()
        and all(type(header_fields[name]) is kind for name, kind in HEADER_FIELDS.items())
        and 0 <= header_fields["users"] <= MAX_USERS
        and 1 <= header_fields["per_person"] <= MAX_USERS
        and 1 <= header_fields["width"] <= MAX_MESSAGE_BYTES
        and header_fields["noise"] in (USERS, SHUFFLER)
    )
    if not good:
        raise _build_damage_error(path)
    return dict(header_fields)


def _build_damage_error(path: Path) -> ValueError:
    return ValueError(f"messages: {path} is damaged: its checksum or size is wrong; ask its encoder for it again.")


# --- Shuffling: sorting by bytes ---


MAX_COUNTED_BYTES = 2
"""Messages of at most this width are counted rather than sorted."""
MAX_IN_MEMORY_BYTES = 192 << 20
"""Largest total size of messages that are sorted in memory; more are sorted on disk."""


@dataclass(frozen=True)
class MessageDigest:
    """The number of messages that were written in order, and a SHA-256 of them one after the other."""

    messages: int
    sha256: str


def sort_messages(batches: Iterable[Bytes], width: int, at_most: int, room: Path) -> Iterator[Bytes]:
    """Yields the messages in order of their bytes.

    ``at_most`` bounds their number; ``room`` is a directory for sorting on disk.
    """
    if width <= MAX_COUNTED_BYTES:
        return sort_by_counting(batches, width)
    if at_most * width <= MAX_IN_MEMORY_BYTES:
        return sort_in_memory(batches, width, at_most)
    return sort_on_disk(batches, width, room)


def write_messages(sorted_messages: Iterable[Bytes], width: int, directory: Path) -> MessageDigest:
    """Writes messages that are in order, and returns their number and hash."""
    written, hashed = 0, hashlib.sha256()
    with MessageWriter(directory, width) as writer:
        for wire in sorted_messages:
            writer.write(wire)
            hashed.update(np.ascontiguousarray(wire).data)
            written += len(wire)
    return MessageDigest(written, hashed.hexdigest())


def sort_by_counting(batches: Iterable[Bytes], width: int) -> Iterator[Bytes]:
    """Sorts by counting how often each of the 2^(8·width) messages occurs."""
    counts = np.zeros(1 << 8 * width, dtype=np.int64)
    for wire in batches:
        rows = np.ascontiguousarray(wire)
        numbers = rows.reshape(-1) if width == 1 else rows.view(">u2").reshape(-1).astype(np.uint16)
        counts += np.bincount(numbers, minlength=len(counts))
    yield from expand_counts(counts, width)


def expand_counts(counts: NDArray[np.int64], width: int) -> Iterator[Bytes]:
    """Yields each number as often as it was counted, as messages in order, in batches of bounded size."""
    ends = np.cumsum(counts)
    total = int(ends[-1])
    step = group_rows(width)
    for start in range(0, total, step):
        stop = min(total, start + step)
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        numbers = np.arange(first, last + 1)
        inside = np.minimum(ends[numbers], stop) - np.maximum(ends[numbers] - counts[numbers], start)
        wire = np.repeat(numbers.astype(f">u{width}"), inside)
        yield wire.view(np.uint8).reshape(-1, width)


def drop_repeated_rows(
    batches: Iterator[Bytes], repeated: Callable[[int], None], compared: int | None = None
) -> Iterator[Bytes]:
    """Yields sorted rows without repetitions.

    Args:
        batches: Sorted rows.
        repeated: Function that is called with the number of dropped rows of each batch.
        compared: Number of leading bytes that are compared; None compares entire rows.
    """
    last = b""
    for wire in batches:
        if not len(wire):
            continue
        first, leading = np.empty(len(wire), dtype=np.bool_), wire[:, :compared]
        first[0] = leading[0].tobytes() != last
        np.any(leading[1:] != leading[:-1], axis=1, out=first[1:])
        last = leading[-1].tobytes()
        repetitions = int(len(first) - np.count_nonzero(first))
        repeated(repetitions)
        yield wire[first] if repetitions else wire


def sort_in_memory(batches: Iterable[Bytes], width: int, at_most: int) -> Iterator[Bytes]:
    """Sorts in one array."""
    room = np.empty((at_most, width), dtype=np.uint8)
    count = 0
    for wire in batches:
        if count + len(wire) > at_most:
            raise ValueError(f"messages: expected at most {at_most}, got more.")
        room[count : count + len(wire)] = wire
        count += len(wire)
    # Only the part that was filled: the rest is uninitialised memory.
    filled = room[:count]
    sorting.view_as_byte_strings(filled).sort()
    step = group_rows(width)
    for start in range(0, count, step):
        yield filled[start : start + step]


def sort_on_disk(batches: Iterable[Bytes], width: int, directory: Path) -> Iterator[Bytes]:
    """Sorts by sorted runs on disk, for more messages than fit into memory."""
    # Inside a directory that is removed if this process is killed: runs still show which messages came together.
    with tempfile.TemporaryDirectory(dir=directory) as room:
        yield from sorting.sort_on_disk(iter(batches), width, Path(room), group_rows(width))


def check_sorted(batches: Iterable[Bytes]) -> Iterator[Bytes]:
    """Yields the same batches; raises ValueError if a message precedes its predecessor."""
    last: bytes = b""
    for wire in batches:
        texts = sorting.view_as_byte_strings(np.ascontiguousarray(wire))
        if len(wire) and (wire[0].tobytes() < last or (texts[1:] < texts[:-1]).any()):
            raise ValueError(
                "messages: they are not in order, as shuffled messages are; run `shuffledp shuffle` on them first."
            )
        last = wire[-1].tobytes() if len(wire) else last
        yield wire


MANIFEST_NAME = "_manifest.json"
"""Readers of the directory as a table ignore names that begin with an underscore."""
MANIFEST_FORMAT, MANIFEST_VERSION, VERSION_WITHOUT_BUNDLES = "shuffledp shuffled messages", 4, 3
"""The older version, without ``bundles``, is used for messages that were not shuffled from bundles."""
MAX_MANIFEST_BYTES = 1 << 16
DIGEST_PREFIX = b"shuffledp released messages\0"


# --- Manifest ---


@dataclass(frozen=True)
class Manifest:
    """The shuffler's description of the messages that it releases."""

    plan: str
    """Identity of the plan's round that they belong to."""
    width: int
    messages: int
    sha256: str
    """Hash of all messages, one after the other, in order of their bytes."""
    users: int
    """Number of users who sent them, as the encoders state it."""
    per_person: int
    """Largest number of rows of one person, each of which counts as a user."""
    refused: int
    """Number of rows that were not messages of the plan and were set aside."""
    missing: int
    """Number of messages too few or too many for the users, summed over the encoders."""
    noise: str
    """The party that drew the noise that hides the messages; the shuffler's messages are among these."""
    closed: str = ""
    """The ``digest`` of the same messages as the shuffler released them, if they were encrypted; else empty."""
    bundles: str = ""
    """Hash of the ids of all bundles that were shuffled, by ``hash_ids``; empty if there are none."""

    @property
    def digest(self) -> str:
        """An id of these messages of this plan; shuffling the same bundles again gives the same one.

        Messages keep it when they are decrypted, so that a ledger counts them once.
        """
        if self.closed:
            return self.closed
        # Bundles of other people may hold the same messages, if few messages are possible: they are another release.
        files = f":{self.bundles}" if self.bundles else ""
        return hashlib.sha256(DIGEST_PREFIX + f"{self.plan}:{self.sha256}{files}".encode()).hexdigest()

    def count_missing(self, message_plan: MessagePlan) -> int:
        """Returns the number of messages too few or too many, as far as it can be known.

        A shuffler without the plan does not count them; if users send varying numbers of messages, nobody can.
        """
        expected = message_plan.total_messages(self.users)
        return self.missing if expected is None else max(self.missing, abs(expected - self.messages - self.refused))

    def count_users(self, messages: int, message_plan: MessagePlan) -> int:
        """Returns the number of users that an estimate from this many messages is about, at least one.

        Valid messages still count if others of the same user were not as planned.
        """
        if message_plan.is_variable:
            return max(1, self.users - self.refused - (self.messages - messages))
        return max(1, round(messages / message_plan.messages_per_user))

    def count_hiding_users(self, refused_since: int, message_plan: MessagePlan) -> int:
        """Returns the number of users who hide each other, after ``refused_since`` more rows turned out to be invalid.

        The sender of an invalid row, or of too few or too many messages, may not have followed the plan: each such row
        subtracts one user. There are never more users than the messages suffice for.
        """
        users = self.users - self.count_missing(message_plan) - self.refused - refused_since
        if message_plan.min_messages:
            users = min(users, (self.messages - refused_since) // message_plan.min_messages)
        if users < 1:
            raise ValueError("messages: expected at least one user whose messages follow the plan, got none.")
        return users

    def build_guarantee(self, plan: Plan, round_number: int | None, refused_since: int = 0) -> Guarantee:
        """Returns the guarantee, counting only users who can be relied on to hide each other."""
        # Imported here: shufflers that run as a service read manifests without needing any bounds.
        from shuffledp.ledger.collection_guarantee import Guarantee

        users = self.count_hiding_users(refused_since, plan.mechanism.message_plan)
        return Guarantee(plan, users, self.per_person, set_aside=max(0, self.users - users), round_number=round_number)

    # --- The file ---

    def write(self, directory: Path) -> None:
        """Writes the manifest into the directory of the messages."""
        values = {name: value for name, value in asdict(self).items() if name != "bundles" or value}
        document = {
            "format": MANIFEST_FORMAT,
            "version": MANIFEST_VERSION if self.bundles else VERSION_WITHOUT_BUNDLES,
        } | values
        (directory / MANIFEST_NAME).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Reads the manifest from the directory of the messages; raises ValueError if there is none."""
        values = read_manifest_fields(
            directory, cls, MANIFEST_FORMAT, {VERSION_WITHOUT_BUNDLES: ("bundles",), MANIFEST_VERSION: ()}
        )
        if min(values["width"], values["per_person"]) < 1:
            raise ValueError(f"messages: {directory / MANIFEST_NAME} is damaged: expected counts of at least 0.")
        return cls(**values)

    # --- The messages ---

    def read_verified_messages(self, directory: Path) -> Iterator[Bytes]:
        """Yields the messages in batches of bounded size; raises ValueError as soon as they differ from the manifest.

        Only at the end is it certain that they are complete and unchanged.
        """
        return read_verified_messages(directory, self.width, MessageDigest(self.messages, self.sha256))


def read_verified_messages(directory: Path, width: int, written: MessageDigest) -> Iterator[Bytes]:
    """Yields the messages of a directory; raises ValueError if they differ from those that its manifest describes."""
    # No file is written if there are no messages.
    files = list_message_files(directory) if written.messages else sorted(directory.glob("*.parquet"))
    count, hashed = 0, hashlib.sha256()
    for wire in check_sorted(read_messages(files, width)):
        count += len(wire)
        if count > written.messages:
            break
        hashed.update(np.ascontiguousarray(wire).data)
        yield wire
    if MessageDigest(count, hashed.hexdigest()) != written:
        raise ValueError(f"messages: {directory} is damaged: its messages are not those of its {MANIFEST_NAME}.")


def write_shuffled(sorted_messages: Iterable[Bytes], spec: BatchSpec, directory: Path) -> Manifest:
    """Writes messages that are in order, with a manifest that says that nothing was set aside."""
    written = write_messages(sorted_messages, spec.width, directory)
    return _write_complete_manifest(written, spec, directory)


def write_manifest(spec: BatchSpec, directory: Path) -> Manifest:
    """Writes the manifest beside files that are in order; nothing was set aside."""
    count, hashed = 0, hashlib.sha256()
    for wire in check_sorted(read_messages(sorted(directory.glob("*.parquet")), spec.width)):
        hashed.update(np.ascontiguousarray(wire).data)
        count += len(wire)
    return _write_complete_manifest(MessageDigest(count, hashed.hexdigest()), spec, directory)


def _write_complete_manifest(written: MessageDigest, spec: BatchSpec, directory: Path) -> Manifest:
    manifest = Manifest(
        spec.plan, spec.width, written.messages, written.sha256, spec.users, spec.per_person, 0, 0, spec.noise
    )
    manifest.write(directory)
    return manifest


def read_manifest_fields(
    directory: Path, kind: type, form: str, versions: Mapping[int, Collection[str]]
) -> dict[str, Any]:
    """Reads the fields of a manifest of this kind: texts, and counts of at least 0.

    ``versions`` are the versions to accept, each with the fields that it lacks.
    """
    path = directory / MANIFEST_NAME
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read(MAX_MANIFEST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"messages: {directory} has no {MANIFEST_NAME}: it is not a directory from `shuffledp shuffle`."
        ) from None
    except OSError as error:
        raise ValueError(f"messages: cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ValueError(f"messages: {path} is damaged: expected JSON.") from None
    known = isinstance(document, dict) and document.pop("format", None) == form
    version = document.pop("version", None) if known else None
    if type(version) is not int or version not in versions:
        newest = max(versions)
        raise ValueError(f'messages: expected {path} with "format": "{form}", version {newest}, got something else.')
    present = [field for field in fields(kind) if field.name not in versions[version]]
    kinds = {field.name: str if field.type == "str" else int for field in present}
    if document.keys() != kinds.keys() or any(type(document[name]) is not expected for name, expected in kinds.items()):
        raise ValueError(f"messages: {path} is damaged: expected {', '.join(kinds)}.")
    if any(document[name] < 0 for name, expected in kinds.items() if expected is int):
        raise ValueError(f"messages: {path} is damaged: expected counts of at least 0.")
    return dict(document)


# --- Encryption for the analyst ---


class MessageSealer(Protocol):
    """Encrypts each message for the analyst; the shuffler sees only rows of one width."""

    @property
    def round_number(self) -> int:
        """The round of the messages."""

    def identity(self, plan: Plan, round_number: int) -> str:
        """Returns the identity of the encrypted messages of a plan's round; raises ValueError for another plan."""

    def sealed_width(self, plain: int) -> int:
        """Returns the width of an encrypted message."""

    def seal(self, wire: Bytes) -> Bytes:
        """Encrypts each row on its own, in the same order."""


def seal_batch_spec(spec: BatchSpec, sealer: MessageSealer | None, plan: Plan, round_number: int) -> BatchSpec:
    """Returns the expected messages after encryption by the sealer, if there is one."""
    if sealer is None:
        return spec
    return replace(spec, plan=sealer.identity(plan, round_number), width=sealer.sealed_width(spec.width))
