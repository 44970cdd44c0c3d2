"""Somebody who runs Spark sessions of all kinds, and what our engine makes of each: ``python -m`` with a directory.

One process, as Spark takes long to start; what was found is printed as one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.collect import collect
from shuffledp.collection.engine import EngineError, open_engine
from shuffledp.collection.input.files import FileTable
from shuffledp.planning.plan import Plan
from shuffledp.spark.engine import Spark, _build_encode_task
from shuffledp.spark.worker_tasks import map_batches
from tests.collection import build_batch_spec, spark_block_client

KEY = bytes.fromhex("5ec7e7" * 10 + "0123")
SPLIT = "spark.sql.files.maxPartitionBytes"
LEAKY = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    # What was broadcast stays until the session ends, so that it can be looked for.
    "spark.cleaner.referenceTracking": "false",
}
SAFE = LEAKY | {
    "spark.authenticate": "true",
    "spark.io.encryption.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.log.level": "INFO",
    SPLIT: "4000",
}
CLUSTER = "local-cluster[1,1,1024]"


@contextlib.contextmanager
def session_of(settings: dict[str, str]) -> Iterator[SparkSession]:
    """A session as its owner starts it."""
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def block_address() -> spark_block_client.Address:
    """Where Spark serves blocks: at the port that is neither the driver's nor that of the process itself."""
    context = SparkContext._active_spark_context
    assert context is not None
    assert SparkContext._gateway is not None
    settings = dict(context.getConf().getAll())
    others = {int(settings["spark.driver.port"]), SparkContext._gateway.gateway_parameters.port}
    (port,) = {port for _, port in spark_block_client.listening_addresses(spark_process())} - others
    return settings["spark.driver.host"], port


def spark_process() -> int:
    """Spark's own process."""
    assert SparkContext._gateway is not None
    return int(SparkContext._gateway.proc.pid)


def spark_secret() -> str:
    """What Spark's processes prove to each other, asked of Spark itself."""
    jvm: Any = SparkContext._jvm
    user = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    return bytes(user.getCredentials().getSecretKey(jvm.org.apache.hadoop.io.Text("sparkCookie"))).decode()


def is_key_stolen(application: str) -> bool:
    """Whether the stranger finds the key among what Spark broadcasts."""
    return any(KEY in task for task in spark_block_client.fetch_broadcasts(block_address(), application))


def refusal(application: str) -> str:
    """Why the stranger gets no block, after the number of the call and the length of the answer."""
    return spark_block_client.fetch_block(block_address(), application, "broadcast_0_piece0").body[12:].decode()


def refusal_message(room: Path, engine: str | Spark) -> str:
    """The sentence of a collection that is refused, or nothing."""
    try:
        collect(room / "plan.json", room / "data.csv", "value", out=room / "out", engine=engine)
    except EngineError as error:
        return str(error)
    return ""


def check_default_session(room: Path) -> dict[str, Any]:
    """A session as Spark starts it by default."""
    with session_of(LEAKY | {"spark.local.dir": str(room / "local")}) as session:
        data = session.read.option("header", True).csv(str(room / "data.csv")).select("value")
        encoder = batch_processing.Encoder(Plan.load(room / "plan.json").column("value"), KEY)
        map_batches(data, _build_encode_task(encoder), f"{message_files.MESSAGE_COLUMN} binary").collect()
        before = session.conf.getAll
        return {
            "stolen": is_key_stolen(session.sparkContext.applicationId),
            "said": refusal_message(room, "spark"),
            "changed": session.conf.getAll != before,
            "alive": session.range(3).count() == 3,
        }


def check_secured_session(room: Path) -> dict[str, Any]:
    """A session whose owner has thought of secrets, and divides files in another way."""
    (room / "events").mkdir()
    with session_of(SAFE | {"spark.eventLog.dir": (room / "events").as_uri()}) as session:
        session.conf.set("spark.sql.shuffle.partitions", "3")
        before = session.conf.getAll
        plan, table = Plan.load(room / "plan.json"), FileTable(room / "data.csv")
        column = plan.column("value")
        with open_engine("spark") as engine:
            engine.encode(table, column, KEY, build_batch_spec(plan, engine.check(table, column)), room / "encoded")
        with contextlib.closing(Spark(session=session)) as engine:
            split = engine.session.conf.get(SPLIT)
        return {
            "stolen": is_key_stolen(session.sparkContext.applicationId),
            "refusal": refusal(session.sparkContext.applicationId),
            "elsewhere": refusal_message(room, Spark(master="local[7]")),
            "changed": session.conf.getAll != before or SparkSession.getActiveSession() is not session,
            "alive": session.range(3).count() == 3,
            "splits": [split, session.conf.get(SPLIT)],
            "secret": spark_secret(),
        }


def check_exposed_secret_session(room: Path) -> dict[str, Any]:
    """A session that is safe but for its secret, which is a word that stands in the list of processes."""
    with session_of(SAFE | {"spark.eventLog.enabled": "false", "spark.authenticate.secret": "pyspark-shell"}):
        return {"said": refusal_message(room, "spark")}


def check_engine_session() -> dict[str, Any]:
    """One that the engine starts, after all the others."""
    with open_engine("spark", master="local[2]") as engine:
        assert isinstance(engine, Spark)
        settings = dict(engine.session.sparkContext.getConf().getAll())
        found: dict[str, Any] = {"secret": spark_secret(), "settings": settings}
    return found | {"stopped": SparkContext._active_spark_context is None}


def check_cluster_session(room: Path) -> dict[str, Any]:
    """Processes of their own, in a configuration without any secret."""
    return {"said": refusal_message(room, Spark(master=CLUSTER)), "stopped": SparkContext._active_spark_context is None}


def main(room: Path) -> None:
    """All of them in turn."""
    warnings.simplefilter("ignore", FutureWarning)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = {
        "leaky": check_default_session(room),
        "safe": check_secured_session(room),
        "shown": check_exposed_secret_session(room),
        "own": check_engine_session(),
        "cluster": check_cluster_session(room),
    }
    (room / "found.json").write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
