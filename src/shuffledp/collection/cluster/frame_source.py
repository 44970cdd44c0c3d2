"""Inputs that Spark reads itself, as they are typed: addresses, tables of its catalog, and tables of other formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shuffledp.collection.cluster.file_system import is_address
from shuffledp.collection.engine.engine import EngineFailed
from shuffledp.collection.engine.spark_session import in_a_sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = "table"
FORMATS = ("avro", "csv", "delta", "iceberg", "json", "orc", "parquet")
"""What may stand before an address, and a colon."""
SUFFIXES = {".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".json": "json", ".orc": "orc", ".avro": "avro"}
TEXT = {"header": "true", "escape": '"', "multiLine": "true", "mode": "FAILFAST"}
"""CSV as everywhere else here: a header, quotes doubled, and a bad row stops."""


def is_for_spark(path: Any) -> bool:
    """Whether only Spark can read it: an address, or ``table:NAME``, or a format and an address."""
    return isinstance(path, str) and (is_address(path) or _split(path)[0] is not None)


def frame_of(session: SparkSession, paths: Sequence[str], delimiter: str | None = None) -> DataFrame:
    """The rows of all inputs, which are of one kind."""
    kinds = {_kind(path) for path in paths}
    if len(kinds) != 1:
        raise ValueError(f"input: expected inputs of one format, got {', '.join(sorted(kinds))}.")
    (kind,) = kinds
    places = [_split(path)[1] for path in paths]
    with in_a_sentence("reading the input"):
        if kind == TABLE:
            if len(places) > 1:
                raise ValueError(f"input: expected one table, got {len(places)}.")
            return session.table(places[0])
        if kind in ("delta", "iceberg"):
            if len(places) > 1:
                raise ValueError(f"input: expected one {kind} table, got {len(places)}.")
            return _elsewhere(session, kind, places[0])
        reader = session.read.options(**TEXT) if kind == "csv" else session.read
        if kind == "csv" and (delimiter or places[0].endswith(".tsv")):
            reader = reader.option("sep", delimiter or "\t")
        return reader.format(kind).load(places)


def _elsewhere(session: SparkSession, kind: str, place: str) -> DataFrame:
    """A table of a format that does not come with Spark."""
    try:
        return session.read.format(kind).load(place)
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error) or "ClassNotFoundException" in str(error):
            raise EngineFailed(
                f"input: Spark cannot read {kind} here; add its package to the session (spark.jars.packages)."
            ) from None
        raise


def _kind(path: str) -> str:
    named = _split(path)[0]
    return named or next((kind for suffix, kind in SUFFIXES.items() if path.endswith(suffix)), "parquet")


def _split(path: str) -> tuple[str | None, str]:
    """What stands before the address, and the address."""
    kind, colon, rest = path.partition(":")
    if colon and (kind == TABLE or (kind in FORMATS and is_address(rest))):
        return kind, rest
    return None, path
