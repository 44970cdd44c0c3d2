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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pyspark

HOME = Path(pyspark.__file__).parent
SOURCE = Path(__file__).parents[2] / "src"
MASTER_STARTED_LINE = re.compile(r"spark://127\.0\.0\.1:\d+")
TIMEOUT_SECONDS = 180
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
}
QUANTILE = "spark.speculation.quantile"
"""Which part of a stage's tasks must have ended before those that last get a second attempt beside them."""
NEVER_SPECULATE, SPECULATE_SOON = "1.0", "0.1"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.efficiency.enabled": "false",
    # As long as nobody says otherwise.
    QUANTILE: NEVER_SPECULATE,
}
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java that lives for seconds: what it would save by compiling thoroughly costs more than it saves."""
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Of the workers: on one host Spark has no two attempts of a task at once."""


@dataclass(frozen=True)
class Cluster:
    """Where it is, and who works there."""

    master: str
    shared: Path
    """Seen by driver and workers."""
    configuration: Path
    workers: tuple[int, ...]


@contextlib.contextmanager
def run_cluster(room: Path, hidden: Path, changes: Mapping[str, str] = MappingProxyType({})) -> Iterator[Cluster]:
    """A cluster while the block runs, in a new directory; its workers find the directory ``hidden`` empty.

    ``changes_values``: settings of its applications.
    """
    conf, shared = _place(room / "conf"), _place(room / "shared")
    settings = {**SETTINGS, **changes, "spark.authenticate.secret": secrets.token_hex(32)}
    path = conf / "spark-defaults.conf"
    path.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    path.chmod(0o600)
    environment = os.environ | {
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": HOSTS[0],
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(_place(room / "local")),
        "SPARK_DAEMON_JAVA_OPTS": JVM_OPTIONS,
    }
    with contextlib.ExitStack() as stack:
        log = room / "master.log"
        options = ["--host", HOSTS[0], "--port", "0", "--webui-port", "0"]
        address = _address(log, _daemon(stack, log, _class("master.Master", *options), environment, room))
        workers = []
        for number, host in enumerate(HOSTS, 1):
            own = _place(room / f"worker-{number}")
            options = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(own)]
            command = _hide_directory(hidden, _class("worker.Worker", *options, address))
            here = environment | {"SPARK_LOCAL_IP": host}
            workers.append(_daemon(stack, room / f"worker-{number}.log", command, here, own).pid)
        yield Cluster(address, shared, conf, tuple(workers))


def _place(path: Path) -> Path:
    path.mkdir()
    return path


def _class(name: str, *arguments: str) -> list[str]:
    return [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]


def _hide_directory(hidden: Path, command: list[str]) -> list[str]:
    """The same command where nothing is in a directory."""
    mount = f"mount -t tmpfs none {shlex.quote(str(hidden))} && exec {shlex.join(command)}"
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]


def _daemon(
    stack: contextlib.ExitStack, log: Path, command: list[str], environment: dict[str, str], cwd: Path
) -> subprocess.Popen[bytes]:
    """A process of the cluster, in a session of its own, and gone at the end with all that it started."""
    file = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(command, env=environment, stdout=file, stderr=file, cwd=cwd, start_new_session=True)
    stack.callback(_end_process, process)
    return process


def _end_process(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = MASTER_STARTED_LINE.search(log.read_text("utf-8", "replace"))
        if found:
            return found.group()
        time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8", "replace")[-2000:])


def child_processes(parents: tuple[int, ...]) -> list[int]:
    """The processes that these have started: of workers those that run tasks."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if parent_process(int(path.name)) in parents:
                found.append(int(path.name))
    return sorted(found)


def parent_process(process: int) -> int:
    """Who started a process."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def is_running(process: int) -> bool:
    """Whether a process runs: one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
