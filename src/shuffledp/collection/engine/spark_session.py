"""Sessions of Spark that keep a job's key: how one is started, and what a running one must be set to.

The key lies in blocks that Spark serves on its ports, in what it sends and in what it writes: hence authentication,
encryption of the network wherever there is one, and encryption of files.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp.collection import kernel
from shuffledp.collection.engine.engine import EngineFailed
from shuffledp.errors import installing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_A_QUERY = {
    # How the input is divided must not depend on the number of cores: a part's randomness depends on its number.
    "spark.sql.files.maxPartitionBytes": "67108864",
    "spark.sql.files.openCostInBytes": "4194304",
    "spark.sql.files.minPartitionNum": "64",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(kernel.CHUNK_ROWS),
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}
"""What must hold while our own queries run."""
ENCRYPTED_NETWORK = {
    "spark.network.crypto.enabled": "true",
    # Spark's default can be altered on its way, and gives in to whoever asks for an older protocol in clear.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
}
# Files between two steps still tell what came together.
ENCRYPTED_FILES = {"spark.io.encryption.enabled": "true"}
AUTHENTICATED = {"spark.authenticate": "true"}
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
# Not by way of a server (Spark Connect), which has ports and settings of its own.
DIRECT = {"spark.api.mode": "classic"}
HERE = {**AUTHENTICATED, **ENCRYPTED_NETWORK, **LOOPBACK, "spark.eventLog.enabled": "false"}
"""On this machine. The secret is not among them: Spark makes one for each session and shows it to nobody, whereas all
that is set before its process starts can be read in the list of processes."""
SECRET = "spark.authenticate.secret"


def start(master: str, room: Path | None) -> SparkSession:
    """A session of our own, safe for a key; a sentence where that cannot be, or where PySpark or Java is missing.

    On this machine all is set here. A cluster has its own secret, and its configuration must turn on what keeps it.
    """
    SparkSession = _class()
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise EngineFailed(
            "spark: Java 17 was not found; install it (Debian: apt install openjdk-17-jre-headless), set JAVA_HOME, "
            "or use --engine embedded."
        )
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {**QUIET, **DIRECT, **OF_A_QUERY, **ENCRYPTED_FILES, **(HERE if _is_here(master) else {})}
    if room is not None:
        settings["spark.local.dir"] = str(room)
    with in_a_sentence("starting"), quiet():
        builder = SparkSession.builder.master(master).appName("shuffledp")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    try:
        demand_safe(session)
    except BaseException:
        session.stop()
        raise
    return session


def running() -> SparkSession | None:
    """The session that already runs in this process, whoever started it."""
    SparkSession = _class()
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return None
    with in_a_sentence("starting"), quiet():
        # Without settings this gives what is there, and changes nothing.
        return SparkSession.builder.getOrCreate()


def beside(session: SparkSession, master: str | None) -> SparkSession:
    """A session beside somebody else's, on the same Spark but with settings of its own for queries.

    A sentence where a key would not be safe there. The other one stays as it is, and its owner's to stop.
    """
    demand_safe(session)
    if master not in (None, session.sparkContext.master):
        raise EngineFailed(
            f"spark: expected a session on {master}, but one on {session.sparkContext.master} is running; stop it "
            "first, or leave --master out."
        )
    with in_a_sentence("starting"):
        ours = session.newSession()
        for name, value in OF_A_QUERY.items():
            ours.conf.set(name, value)
    return ours


def missing(settings: Mapping[str, str]) -> dict[str, str]:
    """What a session with these settings would have to be set to before it may hold a key; nothing if it is safe."""
    needed = {**AUTHENTICATED, **ENCRYPTED_FILES}
    if _is_here(settings["spark.master"]):
        if not _has_tls(settings) and _lacking(settings, ENCRYPTED_NETWORK):
            needed |= _away_from_the_network(settings)
    elif not _has_tls(settings):
        needed |= ENCRYPTED_NETWORK
    return _lacking(settings, needed)


def _lacking(settings: Mapping[str, str], needed: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in needed.items() if settings.get(name, "").strip().lower() != value.lower()}


def _is_here(master: str) -> bool:
    """Whether Spark runs in one process of this machine."""
    return re.fullmatch(r"local(\[[^\]]*\])?", master) is not None


def _has_tls(settings: Mapping[str, str]) -> bool:
    """Encryption by certificates, which must be checked against something."""
    stores = ("spark.ssl.rpc.trustStore", "spark.ssl.trustStore")
    return not _lacking(settings, {"spark.ssl.rpc.enabled": "true"}) and any(map(settings.get, stores))


def _away_from_the_network(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings by which nobody but this machine reaches the ports, unless that is so already."""
    host = settings.get("spark.driver.host", "")
    bound = settings.get("spark.driver.bindAddress", host)
    if _is_loopback(bound):
        return {}
    return LOOPBACK if "spark.driver.bindAddress" in settings else {"spark.driver.host": LOOPBACK["spark.driver.host"]}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def demand_safe(session: SparkSession) -> None:
    """A sentence unless a key is safe in this session."""
    if not isinstance(session, _class()):
        raise EngineFailed(
            "spark: expected a session of Spark itself, got one of Spark Connect, whose settings cannot be checked; "
            "start one with spark.api.mode=classic."
        )
    context = session.sparkContext
    if context._jsc is None:
        raise EngineFailed("spark: expected a session that runs, got one that was stopped; start another.")
    settings = dict(context.getConf().getAll())
    lacking = missing(settings)
    if lacking:
        wanted = ", ".join(f"{name}={value}" for name, value in lacking.items())
        raise EngineFailed(
            f"spark: expected a session that keeps the job's key, got one on {context.master} without {wanted}; "
            "set this where it is configured, or use --engine embedded."
        )
    secret = settings.get(SECRET, "")
    assert context._jvm is not None, "a session that runs has a process"
    if secret and secret in (context._jvm.System.getProperty("sun.java.command") or ""):
        raise EngineFailed(
            f"spark: expected a secret that nobody else can read, but {SECRET} stands in the command line of Spark's "
            "process; set it in spark-defaults.conf instead."
        )


def _class() -> type[SparkSession]:
    try:
        with quiet():
            from pyspark.sql import SparkSession
    except ImportError:
        raise EngineFailed(
            f"spark: PySpark is not installed; {installing('spark')}, or use --engine embedded."
        ) from None
    return SparkSession


@contextmanager
def quiet() -> Iterator[None]:
    """PySpark warns of pandas versions, which nothing here uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@contextmanager
def in_a_sentence(step: str) -> Iterator[None]:
    """Spark's failures, which are pages long, as one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = (line for line in reversed(lines) if "Error: " in line or "Exception: " in line)
        reason = next(told, lines[0] if lines else "no reason given")
        raise EngineFailed(f"spark: {step} failed: {reason.rstrip('.')}.") from error
