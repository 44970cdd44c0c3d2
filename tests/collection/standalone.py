"""A standalone cluster of Spark on this machine: a master and two workers, processes of their own, on loopback.

The workers live in a file system of their own (a mount namespace) where the driver's directory is empty: what they
share with it is one directory, the stand-in for a cluster's file system.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
SOURCE = Path(__file__).parents[2] / "src"
STARTED = re.compile(r"spark://127\.0\.0\.1:\d+")
SECONDS = 180
SETTINGS = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "640m",
    "spark.executor.memory": "640m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "4",
    "spark.executorEnv.PYTHONPATH": str(SOURCE),
    # Two attempts of a task at once are as common as can be.
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.task.maxFailures": "8",
}


@dataclass(frozen=True)
class Cluster:
    """Where it is, and who works there."""

    master: str
    shared: Path
    """Seen by driver and workers."""
    configuration: Path
    workers: tuple[int, ...]


@contextlib.contextmanager
def running(room: Path, hidden: Path) -> Iterator[Cluster]:
    """A cluster while the block runs, in a new directory; its workers find the directory ``hidden`` empty."""
    conf, shared = _place(room / "conf"), _place(room / "shared")
    settings = SETTINGS | {"spark.authenticate.secret": secrets.token_hex(32)}
    path = conf / "spark-defaults.conf"
    path.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    path.chmod(0o600)
    environment = os.environ | {
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(_place(room / "local")),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with contextlib.ExitStack() as stack:
        options = ["--host", "127.0.0.1", "--webui-port", "0"]
        log = room / "master.log"
        master = _daemon(stack, log, _class("master.Master", *options, "--port", "0"), environment, room)
        address = _address(log, master)
        workers = []
        for number in (1, 2):
            own = _place(room / f"worker-{number}")
            options_ = [*options, "--cores", "1", "--memory", "1g", "--work-dir", str(own), address]
            command = _apart(hidden, _class("worker.Worker", *options_))
            workers.append(_daemon(stack, room / f"worker-{number}.log", command, environment, own).pid)
        yield Cluster(address, shared, conf, tuple(workers))


def _place(path: Path) -> Path:
    path.mkdir()
    return path


def _class(name: str, *arguments: str) -> list[str]:
    return [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]


def _apart(hidden: Path, command: list[str]) -> list[str]:
    """The same command where nothing is in a directory."""
    mount = f"mount -t tmpfs none {shlex.quote(str(hidden))} && exec {shlex.join(command)}"
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]


def _daemon(
    stack: contextlib.ExitStack, log: Path, command: list[str], environment: dict[str, str], cwd: Path
) -> subprocess.Popen[bytes]:
    """A process of the cluster, in a session of its own, and gone at the end with all that it started."""
    file = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(command, env=environment, stdout=file, stderr=file, cwd=cwd, start_new_session=True)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = STARTED.search(log.read_text("utf-8", "replace"))
        if found:
            return found.group()
        time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8", "replace")[-2000:])


def children(parents: tuple[int, ...]) -> list[int]:
    """The processes that these have started: of workers those that run tasks."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) in parents:
                found.append(int(path.parent.name))
    return sorted(found)
