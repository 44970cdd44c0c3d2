"""The work of one collection on disk: what is done stays done, whenever the process is killed.

In the output directory, until the collection is finished::

    work/job.json   the plan, the input, the number of rows, the engine
    work/key        the secret from which every report's randomness is derived; deleted once messages are shuffled
    work/forgotten  empty; says that there was a key
    work/encoded/   messages in the order of the input; deleted with the key
    work/input/     data from memory, only where an engine reads files; deleted with the key
    work/shuffled/  messages in order
    work/release/   estimates and report

Each of these appears under its name only when it is complete. A killed run goes on from there; what has to be repeated
repeats with the same randomness, as it depends on the key and the place of the report in the input only.
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

from shuffledp.collection import durable
from shuffledp.collection.ledger import Ledger
from shuffledp.collection.manner import USUAL, Manner
from shuffledp.planner.plan_file import Plan
from shuffledp.sampling.random import KEY_BYTES
from shuffledp.tasks.column import Tally
from shuffledp.tasks.rules import STRICT, Rules

JOB = "job.json"
REPORT = "report.json"
MESSAGES = "messages"


@dataclass(frozen=True)
class Start:
    """What a collection begins with; one that goes on must go on with the same."""

    plan: Plan
    round_number: int
    columns: tuple[str, ...]
    source: Mapping[str, Any]
    """The input's fingerprint."""
    users: int
    ledger: Mapping[str, Any] | None
    """The ledger that it was written down in, by its head at that time; None where none is kept."""
    options: list[int] | None = None
    """The options that are asked for; None for all of them."""
    draws: bool = False
    """Whether some of the rows are drawn here; then ``users`` counts all of them."""
    rules: Rules = STRICT
    tally: Tally = field(default_factory=Tally)
    """How many values the rules change: for whoever sees the raw data, and never in a report."""
    manner: Manner = USUAL

    def document(self) -> dict[str, Any]:
        """For job.json."""
        # One column is a text, as ever.
        column = self.columns[0] if len(self.columns) == 1 else list(self.columns)
        return {
            "plan": self.plan.document(), "round": self.round_number, "column": column,
            "input": dict(self.source), "users": self.users, "ledger": self.ledger,
            **({} if self.options is None else {"options": self.options}), **({"draws": True} if self.draws else {}),
            **({"rules": self.rules.document(), "tally": vars(self.tally)} if self.rules != STRICT else {}),
            **({} if self.manner == USUAL else {"manner": self.manner.document()}),
        }  # fmt: skip

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``document``."""
        told = {"options": None, "draws": False, **document}
        column = told["column"]
        columns = (column,) if isinstance(column, str) else tuple(column)
        return cls(
            Plan.parse(json.dumps(told["plan"])), told["round"], columns, told["input"], told["users"],
            told["ledger"], told["options"], told["draws"], Rules(**told.get("rules", {})),
            Tally(**told.get("tally", {})), Manner.read(told.get("manner", {})),
        )  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One collection into one directory."""

    out: Path
    id: str
    start: Start
    engine: str

    @property
    def plan(self) -> Plan:
        return self.start.plan

    @property
    def rows(self) -> int:
        """How many rows of the input there are to take, or to draw from."""
        return self.start.users

    @property
    def work(self) -> Path:
        return self.out / "work"

    @property
    def encoded(self) -> Path:
        return self.work / "encoded"

    @property
    def shuffled(self) -> Path:
        return self.work / "shuffled"

    @property
    def release(self) -> Path:
        return self.work / "release"

    @property
    def has_begun(self) -> bool:
        """Whether any value was encoded, so that the work cannot be done again with other randomness."""
        return (self.work / "key").exists() or self._forgotten.exists() or self.is_shuffled

    @property
    def is_shuffled(self) -> bool:
        """Whether the messages are shuffled; then they are never encoded again."""
        return self.shuffled.exists() or (self.out / MESSAGES).exists()

    @property
    def is_reported(self) -> bool:
        """Whether all that is to be released is ready, or partly released."""
        return self.release.exists() or (self.out / REPORT).exists()

    # --- beginning --------------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, out: Path, start: Start, engine: str) -> Job:
        """A new job in a directory that is new or empty."""
        job = cls(out, Ledger.new_id(), start, engine)
        try:
            durable.make_directory(job.out)
            durable.make_directory(job.work, durable.OWNER_ONLY_DIRECTORY)
            durable.demand_own_directory(job.work)
        except OSError as error:
            raise ValueError(f"collect: cannot write to {out}: {error.strerror}.") from None
        if any(not path.name.startswith(JOB) for path in job.work.iterdir()):
            # A key that is not made here decides all randomness.
            raise ValueError(f"collect: {job.work} has work that was not begun here; choose another directory.")
        document = {"id": job.id, "engine": engine} | start.document()
        if not durable.write_whole(job.work / JOB, json.dumps(document, indent=1).encode()):
            raise ValueError(f"collect: another process is collecting into {out}.")
        if any(path.name != "work" for path in out.iterdir()):
            # Another process finished there since this one looked.
            durable.remove_tree(job.work)
            raise ValueError(f"collect: {out} is no longer empty; choose another directory.")
        return job

    @classmethod
    def unfinished(cls, out: Path) -> Job | None:
        """The job that a killed run left; None if there is none."""
        path = out / "work" / JOB
        if not path.exists():
            return None
        durable.demand_own_directory(path.parent)
        try:
            document = json.loads(durable.read_own(path))
            return cls(out, document.pop("id"), Start.read(document), document["engine"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"collect: {path} is damaged ({error}); delete {out} and collect anew.") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from working on the same job."""
        with ExitStack() as stack:
            try:
                stack.enter_context(durable.locked(self.work / JOB, create=False))
            except BlockingIOError:
                raise ValueError(f"collect: another process is collecting into {self.out}.") from None
            yield

    # --- the secret -------------------------------------------------------------------------------------------

    def key(self) -> bytes:
        """The secret key, made here when it is first needed; readable by its owner only."""
        path = self.work / "key"
        durable.demand_own_directory(self.work)
        if not os.path.lexists(path):
            if self.encoded.exists():
                raise ValueError(f"collect: {self.work} has messages but no key; delete it and collect anew.")
            if self._forgotten.exists():
                raise ValueError(f"collect: the shuffled messages of {self.out} are gone; they cannot be made again.")
            durable.write_whole(path, os.urandom(KEY_BYTES))
        return durable.read_own(path)

    @property
    def _forgotten(self) -> Path:
        """There was a key: another one would randomise the same values anew."""
        return self.work / "forgotten"

    def forget_order(self) -> None:
        """Delete what links messages to people: the key and the messages in the order of the input.

        The shuffled messages must be on disk: without the key they cannot be made again.
        """
        key = self.work / "key"
        if key.exists():
            durable.write_whole(self._forgotten, b"")
            durable.destroy(key)
        durable.remove_tree(self.encoded)
        durable.remove_tree(input_beside(self.encoded))

    # --- ending -----------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Move everything to the output directory, the report last, and delete the rest."""
        if self.shuffled.exists():
            durable.rename(self.shuffled, self.out / MESSAGES)
        if self.release.exists():
            for path in sorted(self.release.iterdir(), key=lambda path: (path.name == REPORT, path.name)):
                durable.rename(path, self.out / path.name)
        durable.remove_tree(self.work)

    def abandon(self) -> None:
        """Leave nothing behind; what says whose work it is goes last."""
        for path in self.work.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != JOB:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.work, ignore_errors=True)
        if self.out.exists() and not any(self.out.iterdir()):
            self.out.rmdir()


def input_beside(encoded: Path) -> Path:
    """Where data from memory are put for an engine that reads files."""
    return encoded.with_name("input")
