"""Spark keeps the job's key: from whoever reaches its ports, from logs and from the list of processes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from shuffledp._core.results_and_value_objects import Progress
from shuffledp.collection.collect import collect
from shuffledp.collection.engine import EmbeddedEngine, Engine, EngineError
from shuffledp.collection.input.files import FileTable
from shuffledp.planning.plan import Plan
from shuffledp.spark import secure_session
from shuffledp.spark.engine import Spark
from tests.cli import plain_environment
from tests.collection import (
    build_batch_spec,
    expected_messages,
    random_column,
    read_messages,
    small_plan,
    spark_block_client,
    spark_session_scenario,
    write_table,
)
from tests.collection.spark_session_scenario import KEY

pytestmark = pytest.mark.usefixtures("no_pictures")

ROOT = Path(__file__).parents[2]
ROWS = 3000
AUTHENTICATED = {"spark.authenticate": "true", "spark.io.encryption.enabled": "true"}
CRYPTO = {
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
}
TLS = {"spark.ssl.rpc.enabled": "true", "spark.ssl.rpc.trustStore": "/etc/trust.jks"}
HERE = {"spark.master": "local[4, 2]", "spark.driver.host": "127.0.0.1"}
REACHABLE = HERE | {"spark.driver.host": "192.0.2.7"}
CLUSTER = {"spark.master": "spark://example.org:7077", "spark.driver.host": "127.0.0.1"}


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (HERE | AUTHENTICATED, []),
        (HERE | AUTHENTICATED | {"spark.master": "local", "spark.driver.host": "localhost"}, []),
        (HERE | AUTHENTICATED | {"spark.driver.host": "::1"}, []),
        (HERE, ["spark.authenticate", "spark.io.encryption.enabled"]),
        (HERE | AUTHENTICATED | {"spark.authenticate": "false"}, ["spark.authenticate"]),
        (HERE | AUTHENTICATED | {"spark.io.encryption.enabled": "FALSE"}, ["spark.io.encryption.enabled"]),
        (REACHABLE | AUTHENTICATED, ["spark.driver.host"]),
        (HERE | AUTHENTICATED | {"spark.driver.bindAddress": "0.0.0.0"}, ["spark.driver.bindAddress"]),
        (REACHABLE | AUTHENTICATED | {"spark.driver.bindAddress": "127.0.0.1"}, []),
        (REACHABLE | AUTHENTICATED | CRYPTO, []),
        (REACHABLE | AUTHENTICATED | TLS, []),
        (CLUSTER | AUTHENTICATED | CRYPTO, []),
        (CLUSTER | AUTHENTICATED | TLS, []),
        (CLUSTER | AUTHENTICATED | TLS | {"spark.ssl.rpc.trustStore": ""}, list(CRYPTO)),
        (CLUSTER | CRYPTO, ["spark.authenticate", "spark.io.encryption.enabled"]),
        (CLUSTER | AUTHENTICATED, list(CRYPTO)),
        (CLUSTER | AUTHENTICATED | {"spark.network.crypto.enabled": "true"}, list(CRYPTO)[1:]),
        (CLUSTER | AUTHENTICATED | CRYPTO | {"spark.network.crypto.saslFallback": "true"}, [list(CRYPTO)[2]]),
        *((CLUSTER | AUTHENTICATED | {"spark.master": name}, list(CRYPTO)) for name in ("yarn", "k8s://https://h:1")),
        (CLUSTER | AUTHENTICATED | {"spark.master": "local-cluster[2,1,1024]"}, list(CRYPTO)),
    ],
)
def test_what_a_session_lacks(settings: dict[str, str], missing: list[str]) -> None:
    """Everything that must be set is named, and nothing else; what is named would be enough."""
    lacking = secure_session.find_missing_settings(settings)
    assert list(lacking) == missing
    assert secure_session.find_missing_settings(settings | lacking) == {}


def test_our_own_settings_lack_nothing_and_hold_no_secret() -> None:
    """They are in the command line of Spark's process."""
    ours = {**secure_session.LOCAL_SETTINGS, **secure_session.ENCRYPTED_FILES, "spark.master": "local[*]"}
    assert secure_session.find_missing_settings(ours) == {}
    assert not [name for name in ours if "secret" in name.lower()]


def test_a_session_whose_settings_cannot_be_seen_is_refused() -> None:
    """Such as one of Spark Connect, which is no session of Spark's own."""
    remote: Any = object()
    with pytest.raises(EngineError, match=r"got one of Spark Connect.*spark\.api\.mode=classic"):
        _ = Spark(session=remote).session


def test_a_session_that_does_not_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory is gone even if nobody closes the engine."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("shuffledp.spark.secure_session.find_running_session", lambda: None)
    monkeypatch.setattr("shuffledp.spark.secure_session.shutil.which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EngineError, match="Java 17 was not found"):
        _ = Spark().session
    assert list(tmp_path.iterdir()) == []


class Dying(EmbeddedEngine):
    """Gives up when it is to encode."""

    name = "spark"

    def encode(self, *_: Any) -> None:
        raise EngineError("spark: died.")


def test_a_session_that_is_refused_costs_no_work(tmp_path: Path) -> None:
    """A collection that was killed can still go on, in a session that is safe."""
    room = _room(tmp_path)
    remote: Any = object()

    def run(engine: Engine, resume: bool) -> None:
        collect(room / "plan.json", room / "data.csv", "value", out=room / "out", engine=engine, resume=resume)

    with pytest.raises(EngineError, match="died"):
        run(Dying(Progress()), False)
    key = (room / "out" / "work" / "key").read_bytes()
    with pytest.raises(EngineError, match=r"Spark Connect.*continue with resume=True"):
        run(Spark(session=remote), True)
    assert (room / "out" / "work" / "key").read_bytes() == key


# --- our own session ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoding(spark: Spark, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the application that has just encoded under the key."""
    room = _room(tmp_path_factory.mktemp("own"))
    plan, table = Plan.load(room / "plan.json"), FileTable(room / "data.csv")
    spark.encode(table, plan.column("value"), KEY, build_batch_spec(plan, ROWS), room / "encoded")
    return str(spark.session.sparkContext.applicationId)


def _room(room: Path) -> Path:
    small_plan("krr", users=ROWS, epsilon_local=0.5, bound="efmrtt19").save(room / "plan.json")
    write_table(room / "data.csv", value=random_column("krr", ROWS))
    return room


@pytest.mark.spark
def test_a_stranger_gets_no_block(spark: Spark, encoding: str) -> None:
    """Neither from where blocks are served nor from the driver, in any of the ways to ask."""
    host, port = spark_session_scenario.block_address()
    driver = int(dict(spark.session.sparkContext.getConf().getAll())["spark.driver.port"])
    for place in (port, driver):
        found = spark_block_client.fetch_block((host, place), encoding, "broadcast_0_piece0")
        assert found.kind == spark_block_client.FAILURE
        assert b"AuthRpcHandler.doAuthChallenge" in found.body
        for frame in (
            spark_block_client.chunk_request(0),
            spark_block_client.stream_request("0_0"),
            spark_block_client.stream_request("/files/broadcast_0_piece0"),
        ):
            with spark_block_client.connect((host, place)) as ask:
                assert ask(frame).kind not in (
                    spark_block_client.CHUNK,
                    spark_block_client.STREAM,
                    spark_block_client.ANSWER,
                )
    assert list(spark_block_client.fetch_broadcasts((host, port), encoding)) == []


@pytest.mark.spark
def test_every_port_is_of_this_machine_alone(encoding: str) -> None:
    """Those of Spark's process, of the Python processes that it started, and of this one."""
    processes = spark_block_client.process_tree(spark_session_scenario.spark_process())
    ports = {process: spark_block_client.listening_addresses(process) for process in (os.getpid(), *processes)}
    assert len(ports[spark_session_scenario.spark_process()]) == 3
    assert [
        address for found in ports.values() for address, _ in found if not spark_block_client.is_loopback(address)
    ] == []


@pytest.mark.spark
def test_between_python_and_spark_both_ask_for_a_token(encoding: str) -> None:
    """Spark's process takes no command, and its Python processes no work, from whoever merely connects."""
    gateway = SparkContext._gateway
    assert gateway is not None
    assert _answer(gateway.gateway_parameters.port, b"c\nt\ngetClass\ne\n").startswith(b"!x")
    workers = spark_block_client.process_tree(spark_session_scenario.spark_process()) - {
        spark_session_scenario.spark_process()
    }
    ports = {port for process in workers for _, port in spark_block_client.listening_addresses(process)}
    assert ports
    for port in ports:
        assert _answer(port, b"\0\0\0\5wrong").endswith(b"\0\0\0\3err")


def _answer(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=spark_block_client.TIMEOUT_SECONDS) as connection:
        connection.sendall(request)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(100):
                found += more
    return found


@pytest.mark.spark
def test_no_secret_in_the_list_of_processes(spark: Spark, encoding: str) -> None:
    """Whoever is on this machine can read how each process was started."""
    secret = spark_session_scenario.spark_secret()
    assert len(secret) == 64
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes())
    assert any(b"spark.authenticate=true" in line for line in lines)
    assert not any(secret.encode() in line or _shows(line) for line in lines)
    settings = dict(spark.session.sparkContext.getConf().getAll())
    assert secret not in settings.values()
    assert settings["spark.app.name"] == "shuffledp"


# --- somebody else's session --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the owner of many sessions has been: with its log."""
    room = _room(tmp_path_factory.mktemp("owner"))
    quick = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "PYTHONPATH": str(ROOT / "src")}
    with (room / "log").open("wb") as log:
        command = [sys.executable, "-m", "tests.collection.spark_session_scenario", str(room)]
        done = subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, env=plain_environment() | quick, timeout=500)
    assert done.returncode == 0, (room / "log").read_text("utf-8", "replace")[-3000:]
    return room


@pytest.fixture(scope="module")
def sessions(room: Path) -> dict[str, dict[str, Any]]:
    """What the owner found, by session."""
    found: dict[str, dict[str, Any]] = json.loads((room / "found.json").read_text("utf-8"))
    return found


@pytest.mark.spark
def test_a_session_that_leaks_is_refused_and_left_alone(sessions: dict[str, dict[str, Any]]) -> None:
    """As Spark starts it by default, the same stranger reads the key from it."""
    leaky = sessions["leaky"]
    assert leaky["stolen"]
    for name in ("spark.authenticate=true", "spark.io.encryption.enabled=true", "spark.driver.host=127.0.0.1"):
        assert name in leaky["said"]
    assert (leaky["changed"], leaky["alive"]) == (False, True)


@pytest.mark.spark
def test_a_session_that_is_safe_is_used_and_left_alone(sessions: dict[str, dict[str, Any]], room: Path) -> None:
    """Our queries divide files in our way, its owner's in theirs; the stranger gets nothing."""
    safe = sessions["safe"]
    assert not safe["stolen"]
    assert "doAuthChallenge" in safe["refusal"]
    assert (safe["changed"], safe["alive"]) == (False, True)
    assert safe["splits"] == [
        secure_session.QUERY_SETTINGS[spark_session_scenario.SPLIT],
        spark_session_scenario.SAFE[spark_session_scenario.SPLIT],
    ]
    assert "one on local[2] is running" in safe["elsewhere"]
    column = Plan.load(room / "plan.json").column("value")
    expected = expected_messages(column.mechanism, column.read_values(random_column("krr", ROWS)), KEY)
    assert read_messages(room / "encoded", column.mechanism.message_bytes) == [row.tobytes() for row in expected]


@pytest.mark.spark
def test_a_secret_that_everybody_can_read_is_refused(sessions: dict[str, dict[str, Any]]) -> None:
    """It stands in the command line of the owner's process."""
    assert "spark.authenticate.secret is in the command line" in sessions["shown"]["said"]
    assert "pyspark-shell" not in sessions["shown"]["said"]


@pytest.mark.spark
def test_every_session_has_a_secret_of_its_own(sessions: dict[str, dict[str, Any]]) -> None:
    """What our own session needs is set even where its owner had turned it off; and it is stopped at the end."""
    own = sessions["own"]
    assert len({own["secret"], sessions["safe"]["secret"]}) == 2
    assert own["settings"].items() >= {**secure_session.LOCAL_SETTINGS, **secure_session.ENCRYPTED_FILES}.items()
    assert own["stopped"]


@pytest.mark.spark
def test_a_cluster_without_authentication_is_refused(sessions: dict[str, dict[str, Any]]) -> None:
    """Its configuration is not ours to change; what we started there is stopped."""
    for name in ("spark.authenticate=true", *(f"{name}={value}" for name, value in CRYPTO.items())):
        assert name in sessions["cluster"]["said"]
    assert sessions["cluster"]["stopped"]


@pytest.mark.spark
def test_neither_log_nor_event_log_has_the_key(sessions: dict[str, dict[str, Any]], room: Path) -> None:
    """In no way to write it down."""
    events = [path.read_bytes() for path in (room / "events").rglob("events_*")]
    log = (room / "log").read_bytes()
    assert any(b"MapInArrow" in event for event in events)
    assert b"DAGScheduler: Submitting" in log
    for text in (log, *events):
        assert not _shows(text)
        assert sessions["safe"]["secret"].encode() not in text


def _shows(text: bytes) -> bool:
    """Whether the key stands there: its bytes, hexadecimal, in base64, or as numbers in Python or Java."""
    signed = [byte - 256 if byte > 127 else byte for byte in KEY]
    forms = [KEY.hex(), repr(KEY)[2:-1], ", ".join(map(str, KEY)), ", ".join(map(str, signed))]
    # However the key lies among other bytes, two of its thirds in base64 do not depend on them.
    forms += [base64.b64encode(KEY[start : start + 27]).decode() for start in range(3)]
    return KEY in text or any(form.lower().encode() in text.lower() for form in forms)
