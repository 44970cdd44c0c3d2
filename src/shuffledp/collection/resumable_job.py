"""The state of one collection on disk, from which a killed run is resumed.

In the output directory, until the collection is finished::

    work/job.json   the plan, the input, the number of rows, the engine
    work/key        the secret from which the randomness of every message is derived; deleted after shuffling
    work/forgotten  empty; marks that there was a key
    work/encoded/   messages in the order of the input; deleted with the key
    work/input/     data from memory, only for an engine that reads files; deleted with the key
    work/shuffled/  messages in order
    work/release/   estimates and report

Each of these appears under its name only when it is complete. A killed run is resumed from there. Repeated steps use
the same randomness, which depends only on the key and the position of the row in the input.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from shuffledp.collection.estimate_tables import DEFAULT_ESTIMATE_OPTIONS, EstimateOptions
from shuffledp.ledger.ledger import Ledger
from shuffledp.planning.plan import Plan
from shuffledp.sampling.random_sources import KEY_BYTES
from shuffledp.storage import durable_files
from shuffledp.storage.migrations import FIRST_VERSION, NewerSchema, check_version
from shuffledp.tasks.column_reader import Tally
from shuffledp.tasks.value_parsing import STRICT_RULES, Rules

JOB_FILE = "job.json"
JOB_VERSION = 1
"""Version of the layout of ``work``; shuffledp 0.1.0 used the same layout without writing the version."""
REPORT_FILE = "report.json"
MESSAGES_DIRECTORY = "messages"


@dataclass(frozen=True)
class JobArguments:
    """The arguments that a collection began with; a resumed collection must have the same ones."""

    plan: Plan
    round_number: int
    columns: tuple[str, ...]
    input_fingerprint: Mapping[str, Any]
    """Fingerprint of the input."""
    users: int
    ledger: Mapping[str, Any] | None
    """Head of the ledger when the collection began; None without a ledger."""
    options: list[int] | None = None
    """The selected options; None selects all of them."""
    draws_sample: bool = False
    """True if the collection draws a sample of the rows; then ``users`` counts all rows."""
    rules: Rules = STRICT_RULES
    tally: Tally = field(default_factory=Tally)
    """Number of values that the rules change. Only the party with the raw data may see it; it is never in a report."""
    estimate_options: EstimateOptions = DEFAULT_ESTIMATE_OPTIONS

    def to_document(self) -> dict[str, Any]:
        """Returns the fields for job.json."""
        # A single column stays a string, for compatibility with older files.
        column = self.columns[0] if len(self.columns) == 1 else list(self.columns)
        return {
            "plan": self.plan.document(),
            "round": self.round_number,
            "column": column,
            "input": dict(self.input_fingerprint),
            "users": self.users,
            "ledger": self.ledger,
            **({} if self.options is None else {"options": self.options}),
            **({"draws": True} if self.draws_sample else {}),
            **({"rules": self.rules.document(), "tally": vars(self.tally)} if self.rules != STRICT_RULES else {}),
            **(
                {}
                if self.estimate_options == DEFAULT_ESTIMATE_OPTIONS
                else {"manner": self.estimate_options.to_document()}
            ),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Restores the result of ``to_document``."""
        column = document["column"]
        columns = (column,) if isinstance(column, str) else tuple(column)
        return cls(
            Plan.parse(json.dumps(document["plan"])), document["round"], columns, document["input"], document["users"],
            document["ledger"], document.get("options"), document.get("draws", False),
            Rules(**document.get("rules", {})), Tally(**document.get("tally", {})),
            EstimateOptions.from_document(document.get("manner", {})),
        )  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One collection into one directory."""

    out: Path
    id: str
    arguments: JobArguments
    engine: str

    @property
    def plan(self) -> Plan:
        return self.arguments.plan

    @property
    def rows(self) -> int:
        """The number of rows of the input that are used or sampled from."""
        return self.arguments.users

    @property
    def work_directory(self) -> Path:
        return self.out / "work"

    @property
    def encoded_directory(self) -> Path:
        return self.work_directory / "encoded"

    @property
    def shuffled_directory(self) -> Path:
        return self.work_directory / "shuffled"

    @property
    def release_directory(self) -> Path:
        return self.work_directory / "release"

    @property
    def has_begun(self) -> bool:
        """True if any value may have been encoded, so that the work cannot be repeated with other randomness."""
        return (self.work_directory / "key").exists() or self._forgotten_mark.exists() or self.is_shuffled

    @property
    def is_shuffled(self) -> bool:
        """True if the messages are shuffled; then they are never encoded again."""
        return self.shuffled_directory.exists() or (self.out / MESSAGES_DIRECTORY).exists()

    @property
    def is_reported(self) -> bool:
        """True if everything to be released is ready, or partly released."""
        return self.release_directory.exists() or (self.out / REPORT_FILE).exists()

    # --- Beginning ---

    @classmethod
    def begin(cls, out: Path, arguments: JobArguments, engine: str) -> Job:
        """Begins a new job in a new or empty directory."""
        job = cls(out, Ledger.new_id(), arguments, engine)
        try:
            durable_files.make_directory(job.out)
            durable_files.make_directory(job.work_directory, durable_files.OWNER_ONLY_DIRECTORY)
            durable_files.check_owned_directory(job.work_directory)
        except OSError as error:
            raise ValueError(f"collect: cannot write to {out}: {error.strerror}.") from None
        if any(not path.name.startswith(JOB_FILE) for path in job.work_directory.iterdir()):
            # A key from elsewhere would decide all randomness.
            raise ValueError(f"collect: {job.work_directory} has files of other work; choose another directory.")
        document = {"version": JOB_VERSION, "id": job.id, "engine": engine} | arguments.to_document()
        if not durable_files.create_atomically(job.work_directory / JOB_FILE, json.dumps(document, indent=1).encode()):
            raise ValueError(f"collect: another process is collecting into {out}.")
        if any(path.name != "work" for path in out.iterdir()):
            # Another process has finished there since this one looked.
            durable_files.remove_tree(job.work_directory)
            raise ValueError(f"collect: {out} is no longer empty; choose another directory.")
        return job

    @classmethod
    def find_unfinished(cls, out: Path) -> Job | None:
        """Returns the job that a killed run left; None if there is none."""
        path = out / "work" / JOB_FILE
        if not path.exists():
            return None
        durable_files.check_owned_directory(path.parent)
        try:
            document = json.loads(durable_files.read_owned_file(path))
            check_version(f"collect: {path}", int(document.get("version", FIRST_VERSION)), JOB_VERSION)
            return cls(out, document.pop("id"), JobArguments.from_document(document), document["engine"])
        except NewerSchema:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"collect: {path} is damaged ({error}); delete {out} and collect anew.") from None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps other processes from working on the same job."""
        with ExitStack() as stack:
            try:
                stack.enter_context(durable_files.open_locked(self.work_directory / JOB_FILE, create=False))
            except BlockingIOError:
                raise ValueError(f"collect: another process is collecting into {self.out}.") from None
            yield

    # --- The secret key ---

    def load_key(self) -> bytes:
        """Returns the secret key, generated on first use and readable by its owner only."""
        path = self.work_directory / "key"
        durable_files.check_owned_directory(self.work_directory)
        if not os.path.lexists(path):
            if self.encoded_directory.exists():
                raise ValueError(f"collect: {self.work_directory} has messages but no key; delete it and collect anew.")
            if self._forgotten_mark.exists():
                raise ValueError(f"collect: the shuffled messages of {self.out} are gone; they cannot be made again.")
            durable_files.create_atomically(path, os.urandom(KEY_BYTES))
        return durable_files.read_owned_file(path)

    @property
    def _forgotten_mark(self) -> Path:
        """Path of the mark that there was a key: another one would randomize the same values again."""
        return self.work_directory / "forgotten"

    def forget_order(self) -> None:
        """Deletes everything that links messages to people: the key and the messages in the order of the input.

        The shuffled messages must be on disk: without the key they cannot be produced again.
        """
        key = self.work_directory / "key"
        if key.exists():
            durable_files.create_atomically(self._forgotten_mark, b"")
            durable_files.destroy(key)
        durable_files.remove_tree(self.encoded_directory)
        durable_files.remove_tree(input_directory(self.encoded_directory))

    # --- Ending ---

    def publish(self) -> None:
        """Moves everything to the output directory, the report last, and deletes the rest."""
        if self.shuffled_directory.exists():
            durable_files.rename(self.shuffled_directory, self.out / MESSAGES_DIRECTORY)
        if self.release_directory.exists():
            for path in sorted(
                self.release_directory.iterdir(), key=lambda path: (path.name == REPORT_FILE, path.name)
            ):
                durable_files.rename(path, self.out / path.name)
        durable_files.remove_tree(self.work_directory)

    def abandon(self) -> None:
        """Deletes all work; job.json, which identifies it, goes last."""
        for path in self.work_directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != JOB_FILE:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.work_directory, ignore_errors=True)
        if self.out.exists() and not any(self.out.iterdir()):
            self.out.rmdir()


def input_directory(encoded: Path) -> Path:
    """Returns the directory of data from memory for an engine that reads files."""
    return encoded.with_name("input")
