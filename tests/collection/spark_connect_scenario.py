"""Somebody who has Spark only by Spark Connect: ``python -m`` with a directory of a plan, messages and rows.

A process of its own, as one process has one kind of session; what was found is written to ``found.json`` there.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import shuffledp as sdp
from shuffledp.spark import sorted_shuffle


def refusal_message(work: Callable[[], Any]) -> str:
    """The sentence of what is refused, or nothing."""
    try:
        work()
    except (ValueError, sdp.ShuffledpError) as error:
        return str(error)
    return ""


def main(room: Path) -> None:
    """Shuffle and estimate the messages, and try the rest."""
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # As wide messages of many people have them.
    sorted_shuffle.RANGE_BYTES = 4000
    session: Any = SparkSession.builder.remote("local[1]").getOrCreate()
    plan = sdp.Plan.load(room / "plan.json")
    messages, rows = (session.read.parquet(f"file:{room}/{name}") for name in ("messages", "data.parquet"))
    shuffled = sdp.spark.shuffle(messages)
    report = sdp.spark.estimate(shuffled, plan, allow_weaker=True)
    late = session.read.parquet(f"file:{room}/late")
    found = {
        "union": refusal_message(lambda: sdp.spark.shuffle(late.union(messages))),
        "some": refusal_message(lambda: sdp.spark.shuffle(messages.limit(5))),
        "kind": type(session).__module__,
        "rows": [[row[0].hex(), row[1]] for row in shuffled.collect()],
        "estimate": report.estimate.value.tolist(),
        "encode": refusal_message(lambda: sdp.spark.encode(rows, plan, "value")),
        "keyed": refusal_message(lambda: sdp.spark.encode(rows, plan, "value", key="who")),
        "collect": refusal_message(lambda: sdp.spark.collect(rows, plan, "value", out=room / "out")),
        "nothing": not (room / "out").exists(),
    }
    (room / "found.json").write_text(json.dumps(found), "utf-8")
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
