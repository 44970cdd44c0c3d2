"""A PostgreSQL of the tests' own: made in a temporary directory, reached by a socket there, and ended with them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

TIMEOUT_SECONDS = 60.0


def program_path(name: str) -> str:
    """Where a program of PostgreSQL is: in the path, or where Debian puts it."""
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(beside[-1]) if beside else None)
    assert found is not None, f"the tests need PostgreSQL's {name}; install the package postgresql."
    return found


class Postgres:
    """One server. It does not run as root, whoever runs the tests."""

    def __init__(self, room: Path) -> None:
        self._room, self.data = room, room / "data"
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(room, nobody.pw_uid, nobody.pw_gid)
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        arguments = ["-D", str(self.data), "-U", "shuffledp", "--auth=trust", "-E", "UTF8", "--no-locale", "-N"]
        subprocess.run(
            [program_path("initdb"), *arguments], check=True, stdout=subprocess.DEVNULL, cwd=room, **self._as
        )
        self.start()

    def start(self) -> None:
        """And wait until it answers."""
        arguments = [
            "-D",
            str(self.data),
            "-k",
            str(self._room),
            "-c",
            "listen_addresses=",
            "-c",
            "shared_buffers=16MB",
        ]
        with (self._room / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program_path("postgres"), *arguments], stdout=log, stderr=log, cwd=self._room, **self._as
            )
        until = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._room / "log").read_text()
                assert time.monotonic() < until, (self._room / "log").read_text()
                time.sleep(0.05)

    def url(self, name: str) -> str:
        return f"postgresql://shuffledp@/{name}?host={self._room}"

    def new_database(self) -> str:
        """The address of a database that nobody has used."""
        name = f"test_{os.urandom(6).hex()}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def kill(self) -> None:
        """At once, with all of its processes: until they see that their parent is gone they would answer."""
        own = self._process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text("ascii").split()
        self._process.kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self._process.wait(TIMEOUT_SECONDS)

    def stop(self) -> None:
        """Without waiting for clients."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(TIMEOUT_SECONDS)


@contextmanager
def run_postgres() -> Iterator[Postgres]:
    """A server while the block runs."""
    room = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        server = Postgres(room)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(room)
