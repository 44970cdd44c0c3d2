"""Spark sessions that keep a job's key secret: starting one, and checking the settings of a running one.

The key is in blocks that Spark serves on its ports, sends and writes: hence authentication, encryption of the network
if there is one, and encryption of files.
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

from shuffledp._core.errors import install_hint
from shuffledp._core.message_phrases import phrase
from shuffledp.collection import batch_processing
from shuffledp.collection.engine import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY_SETTINGS = {
    # The division of the input must not depend on the number of cores: a part's randomness depends on its number.
    "spark.sql.files.maxPartitionBytes": "67108864",
    "spark.sql.files.openCostInBytes": "4194304",
    "spark.sql.files.minPartitionNum": "64",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(batch_processing.CHUNK_ROWS),
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}
"""Settings for our own queries."""
ENCRYPTED_NETWORK = {
    "spark.network.crypto.enabled": "true",
    # By default Spark's messages can be altered on their way, and a peer can force an older protocol in clear.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
}
# Temporary files between two steps still show which messages came together.
ENCRYPTED_FILES = {"spark.io.encryption.enabled": "true"}
AUTHENTICATION = {"spark.authenticate": "true"}
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
QUIET_SETTINGS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
# Not through a server (Spark Connect), which has ports and settings of its own.
CLASSIC_API = {"spark.api.mode": "classic"}
LOCAL_SETTINGS = {**AUTHENTICATION, **ENCRYPTED_NETWORK, **LOOPBACK, "spark.eventLog.enabled": "false"}
"""Settings on this machine.

They do not include the secret: Spark generates one for each session and keeps it secret, whereas everything set
before its process starts is visible in the list of processes.
"""
SECRET_SETTING = "spark.authenticate.secret"


def start_session(master: str, room: Path | None) -> SparkSession:
    """Starts a session that keeps a key secret; raises EngineError if it cannot, or if PySpark or Java is missing.

    On this machine everything is set here. A cluster has its own secret, and its configuration must enable the
    protection.
    """
    SparkSession = _import_session_class()
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise EngineError(
            phrase(
                "spark: Java 17 was not found; install it (Debian: apt install openjdk-17-jre-headless), set "
                "JAVA_HOME, or use {engine='embedded'}."
            )
        )
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        **QUIET_SETTINGS,
        **CLASSIC_API,
        **QUERY_SETTINGS,
        **ENCRYPTED_FILES,
        **(LOCAL_SETTINGS if _is_local(master) else {}),
    }
    if room is not None:
        settings["spark.local.dir"] = str(room)
    with convert_spark_errors("starting"), suppress_warnings():
        builder = SparkSession.builder.master(master).appName("shuffledp")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    try:
        check_safe(session)
    except BaseException:
        session.stop()
        raise
    return session


def find_running_session() -> SparkSession | None:
    """Returns the session that already runs in this process, whoever started it."""
    SparkSession = _import_session_class()
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return None
    with convert_spark_errors("starting"), suppress_warnings():
        # Without settings this returns the running session, and changes nothing.
        return SparkSession.builder.getOrCreate()


def create_sibling_session(session: SparkSession, master: str | None) -> SparkSession:
    """Returns a session beside somebody else's on the same Spark, with its own settings for queries.

    Raises EngineError if a key would not be safe there. The other session is not changed, and its owner stops it.
    """
    check_safe(session)
    if master not in (None, session.sparkContext.master):
        raise EngineError(
            phrase(
                "spark: expected a session on {wanted}, but one on {running} is running; stop it first, or leave "
                "{master} out.",
                wanted=master,
                running=session.sparkContext.master,
            )
        )
    with convert_spark_errors("starting"):
        ours = session.newSession()
        for name, value in QUERY_SETTINGS.items():
            ours.conf.set(name, value)
    return ours


def find_missing_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that a session lacks before it may hold a key; empty if it is safe."""
    needed = {**AUTHENTICATION, **ENCRYPTED_FILES}
    if _is_local(settings["spark.master"]):
        if not _has_tls(settings) and _select_missing(settings, ENCRYPTED_NETWORK):
            needed |= _restrict_ports(settings)
    elif not _has_tls(settings):
        needed |= ENCRYPTED_NETWORK
    return _select_missing(settings, needed)


def _select_missing(settings: Mapping[str, str], needed: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in needed.items() if settings.get(name, "").strip().lower() != value.lower()}


def _is_local(master: str) -> bool:
    """Returns True if Spark runs in one process of this machine."""
    return re.fullmatch(r"local(\[[^\]]*\])?", master) is not None


def _has_tls(settings: Mapping[str, str]) -> bool:
    """Returns True for encryption by certificates, with a trust store to verify them."""
    stores = ("spark.ssl.rpc.trustStore", "spark.ssl.trustStore")
    return not _select_missing(settings, {"spark.ssl.rpc.enabled": "true"}) and any(map(settings.get, stores))


def _restrict_ports(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that restrict the ports to this machine, unless they are restricted already."""
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


def check_safe(session: SparkSession) -> None:
    """Raises EngineError unless a key is safe in this session."""
    if not isinstance(session, _import_session_class()):
        raise EngineError(
            "spark: expected a session of Spark itself, got one of Spark Connect, whose settings cannot be checked; "
            "start one with spark.api.mode=classic."
        )
    context = session.sparkContext
    if context._jsc is None:
        raise EngineError("spark: expected a session that runs, got one that was stopped; start another.")
    settings = dict(context.getConf().getAll())
    missing = find_missing_settings(settings)
    if missing:
        listed = ", ".join(f"{name}={value}" for name, value in missing.items())
        raise EngineError(
            phrase(
                "spark: expected a session that keeps the job's key, got one on {found} without {listed}; set this "
                "where it is configured, or use {engine='embedded'}.",
                found=context.master,
                listed=listed,
            )
        )
    secret = settings.get(SECRET_SETTING, "")
    assert context._jvm is not None, "a session that runs has a process"
    if secret and secret in (context._jvm.System.getProperty("sun.java.command") or ""):
        raise EngineError(
            f"spark: expected a secret that nobody else can read, but {SECRET_SETTING} is in the command line of "
            "Spark's process; set it in spark-defaults.conf instead."
        )


def _import_session_class() -> type[SparkSession]:
    try:
        with suppress_warnings():
            from pyspark.sql import SparkSession
    except ImportError:
        raise EngineError(
            phrase(
                "spark: PySpark is not installed; {install}, or use {engine='embedded'}.", install=install_hint("spark")
            )
        ) from None
    return SparkSession


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppresses PySpark's warnings about pandas versions, which nothing here uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@contextmanager
def convert_spark_errors(step: str) -> Iterator[None]:
    """Converts Spark's failures, which are pages long, to EngineError with one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        errors = (line for line in reversed(lines) if "Error: " in line or "Exception: " in line)
        reason = next(errors, lines[0] if lines else "no reason given")
        raise EngineError(f"spark: {step} failed: {reason.rstrip('.')}.") from error
