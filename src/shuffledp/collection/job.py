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

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shuffledp.collection.ledger import Ledger
from shuffledp.planner.plan_file import Plan
from shuffledp.sampling.random import KEY_BYTES

JOB = "job.json"
REPORT = "report.json"
MESSAGES = "messages"


@dataclass(frozen=True)
class Job:
    """One collection into one directory."""

    out: Path
    id: str
    plan: Plan
    column: str
    source: Mapping[str, Any]
    """The input's fingerprint."""
    users: int
    engine: str

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
    def is_shuffled(self) -> bool:
        """Whether the messages are shuffled; then they are never encoded again."""
        return self.shuffled.exists() or (self.out / MESSAGES).exists()

    @property
    def is_reported(self) -> bool:
        """Whether all that is to be released is ready, or partly released."""
        return self.release.exists() or (self.out / REPORT).exists()

    # --- beginning --------------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, out: Path, plan: Plan, column: str, source: Mapping[str, Any], users: int, engine: str) -> Job:
        """A new job in a directory that is new or empty."""
        job = cls(out, Ledger.new_id(), plan, column, dict(source), users, engine)
        try:
            job.out.mkdir(parents=True, exist_ok=True)
            job.work.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ValueError(f"collect: cannot write to {out}: {error.strerror}.") from None
        document = {
            "id": job.id, "plan": plan.document(), "column": column, "input": job.source, "users": users,
            "engine": engine,
        }  # fmt: skip
        if not write_whole(job.work / JOB, json.dumps(document, indent=1).encode()):
            raise ValueError(f"collect: another process is collecting into {out}.")
        if any(path.name != "work" for path in out.iterdir()):
            # Another process finished there since this one looked.
            shutil.rmtree(job.work)
            raise ValueError(f"collect: {out} is no longer empty; choose another directory.")
        return job

    @classmethod
    def unfinished(cls, out: Path) -> Job | None:
        """The job that a killed run left; None if there is none."""
        path = out / "work" / JOB
        if not path.exists():
            return None
        document = json.loads(path.read_text(encoding="utf-8"))
        plan = Plan.parse(json.dumps(document["plan"]))
        return cls(
            out, document["id"], plan, document["column"], document["input"], document["users"], document["engine"]
        )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from working on the same job."""
        with open(self.work / JOB, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"collect: another process is collecting into {self.out}.") from None
            yield

    # --- the secret -------------------------------------------------------------------------------------------

    def key(self) -> bytes:
        """The secret key, made when it is first needed; readable by its owner only."""
        path = self.work / "key"
        if not path.exists():
            if self.encoded.exists():
                raise ValueError(f"collect: {self.work} has messages but no key; delete it and collect anew.")
            if self._forgotten.exists():
                raise ValueError(f"collect: the shuffled messages of {self.out} are gone; they cannot be made again.")
            write_whole(path, os.urandom(KEY_BYTES))
        return path.read_bytes()

    @property
    def _forgotten(self) -> Path:
        """There was a key: another one would randomise the same values anew."""
        return self.work / "forgotten"

    def forget_order(self) -> None:
        """Delete what links messages to people: the key and the messages in the order of the input."""
        key = self.work / "key"
        if key.exists():
            write_whole(self._forgotten, b"")
            with open(key, "r+b") as file:
                file.write(bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            key.unlink()
        shutil.rmtree(self.encoded, ignore_errors=True)
        shutil.rmtree(input_beside(self.encoded), ignore_errors=True)

    # --- ending -----------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Move everything to the output directory, the report last, and delete the rest."""
        if self.shuffled.exists():
            os.replace(self.shuffled, self.out / MESSAGES)
        if self.release.exists():
            for path in sorted(self.release.iterdir(), key=lambda path: (path.name == REPORT, path.name)):
                os.replace(path, self.out / path.name)
        shutil.rmtree(self.work)

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


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """A directory to fill; it gets its name only when the block ends well."""
    for old in path.parent.glob(f"{path.name}.unfinished-*"):
        shutil.rmtree(old, ignore_errors=True)
    # A name of its own: a worker of a run that was killed may still be writing.
    unfinished = path.with_name(f"{path.name}.unfinished-{os.urandom(8).hex()}")
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    os.replace(unfinished, path)


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file that only its owner may read; it gets its name only when it is complete on disk.

    Returns False, and leaves it alone, if it is there already: of two processes only one succeeds.
    """
    unfinished = path.with_name(f"{path.name}.unfinished-{os.urandom(8).hex()}")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(unfinished, path)
    except FileExistsError:
        return False
    finally:
        unfinished.unlink()
    return True
