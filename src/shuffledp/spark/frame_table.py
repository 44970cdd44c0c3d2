"""Data frames as the input of a collection: reading them by format or address, and a frame as a ``Table``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import phrase
from shuffledp.collection.engine import EngineError
from shuffledp.collection.input.base import Table, is_address
from shuffledp.spark.deterministic_rows import check_columns, identify_rows, quote_name
from shuffledp.spark.secure_session import convert_spark_errors
from shuffledp.spark.worker_tasks import COUNT_COLUMN, check_values
from shuffledp.tasks.column_reader import ColumnReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


# --- Inputs that Spark reads itself ---


TABLE_PREFIX = "table"
FORMATS = ("avro", "csv", "delta", "iceberg", "json", "orc", "parquet")
"""Formats that may precede an address, with a colon."""
FORMAT_BY_SUFFIX = {".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".json": "json", ".orc": "orc", ".avro": "avro"}
CSV_OPTIONS = {"header": "true", "escape": '"', "multiLine": "true", "mode": "FAILFAST"}
"""Options for CSV as elsewhere in the package: a header, doubled quotes, and an error for a bad row."""


def is_for_spark(path: Any) -> bool:
    """Returns True if only Spark can read it: an address, ``table:NAME``, or a format and an address."""
    return isinstance(path, str) and (is_address(path) or _split_format(path)[0] is not None)


def read_frame(session: SparkSession, paths: Sequence[str], delimiter: str | None = None) -> DataFrame:
    """Returns the rows of all inputs, which must have one format."""
    kinds = {_find_format(path) for path in paths}
    if len(kinds) != 1:
        raise ValueError(f"input: expected inputs of one format, got {', '.join(sorted(kinds))}.")
    (kind,) = kinds
    places = [_split_format(path)[1] for path in paths]
    with convert_spark_errors("reading the input"):
        if kind == TABLE_PREFIX:
            if len(places) > 1:
                raise ValueError(f"input: expected one table, got {len(places)}.")
            return session.table(places[0])
        if kind in ("delta", "iceberg"):
            if len(places) > 1:
                raise ValueError(f"input: expected one {kind} table, got {len(places)}.")
            return _read_extension_format(session, kind, places[0])
        reader = session.read.options(**CSV_OPTIONS) if kind == "csv" else session.read
        if kind == "csv" and (delimiter or places[0].endswith(".tsv")):
            reader = reader.option("sep", delimiter or "\t")
        return reader.format(kind).load(places)


def _read_extension_format(session: SparkSession, kind: str, place: str) -> DataFrame:
    """Reads a table of a format that does not come with Spark."""
    try:
        return session.read.format(kind).load(place)
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error) or "ClassNotFoundException" in str(error):
            raise EngineError(
                f"input: Spark cannot read {kind} here; add its package to the session (spark.jars.packages)."
            ) from None
        raise


def _find_format(path: str) -> str:
    named = _split_format(path)[0]
    return named or next((kind for suffix, kind in FORMAT_BY_SUFFIX.items() if path.endswith(suffix)), "parquet")


def _split_format(path: str) -> tuple[str | None, str]:
    """Returns the format before an address, or None, and the address."""
    kind, colon, rest = path.partition(":")
    if colon and (kind == TABLE_PREFIX or (kind in FORMATS and is_address(rest))):
        return kind, rest
    return None, path


# --- A data frame as a table ---


MAX_DISTINCT_VALUES = 1 << 16
COUNTABLE = {"tinyint", "smallint", "int", "bigint", "string", "boolean"}
"""Types of columns that can have few distinct values."""
HASH_MODULUS = (1 << 61) - 1
DIGIT_BITS = 21


@dataclass(frozen=True, eq=False)
class FrameTable(Table):
    """The rows of a data frame, identified by a key or by their place in files; they stay on the cluster."""

    frame: DataFrame
    key: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return "the data frame"

    def names(self) -> list[str]:
        return [name for name in self.frame.columns if name not in self.key]

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        raise InvalidArgument(
            "input",
            "the rows of a data frame are not read here",
            hint=phrase("choose, drop or gather them in Spark first, and use {engine='spark'}"),
        )

    def fingerprint(self) -> dict[str, Any]:
        """Returns the number of rows and the sum of their hashes over all columns, as at the first call."""
        return dict(self._fingerprint)

    @cached_property
    def _fingerprint(self) -> dict[str, Any]:
        from pyspark.sql import functions as F

        names = list(map(quote_name, self.frame.columns))
        hashed = self.frame.select(F.xxhash64(*names).alias("hash"))
        folded = F.pmod(F.col("hash"), F.lit(HASH_MODULUS))
        # Sums integers of 61 bits by thirds, none of which comes near 2^63: decimals take ten times as long.
        thirds = [
            F.shiftright(folded, DIGIT_BITS * place).bitwiseAND(F.lit((1 << DIGIT_BITS) - 1)) for place in range(3)
        ]
        row: Any = hashed.agg(F.count("*"), F.bit_xor("hash"), *map(F.sum, thirds)).first()
        total = sum(int(third or 0) << DIGIT_BITS * place for place, third in enumerate(row[2:]))
        return {"rows": int(row[0]), "sum": str(total), "xor": int(row[1] or 0), "columns": self.frame.columns}

    # --- On the cluster ---

    def select_columns(self, columns: Sequence[str]) -> FrameTable:
        """Returns the table with only these columns and the key."""
        check_columns(self.frame, [*columns, *self.key])
        return FrameTable(self.frame.select(*map(quote_name, (*columns, *self.key))), self.key)

    def identify_rows(self, column: ColumnReader) -> DataFrame:
        """Returns its rows in partitions and an order that a retry repeats."""
        return identify_rows(self.frame, column.names, self.key)

    def check(self, column: ColumnReader) -> int:
        """Returns the number of rows; raises ValueError if a value is not as planned."""
        values = self.frame.select(*map(quote_name, column.names))
        rows, problem = check_values(self._count_distinct(column) or values, column)
        if problem is not None:
            # The distinct values do not show how many rows hold them.
            _, row_problem = check_values(values, column)
            raise ValueError(phrase("{title}, {problem}", title=self.title, problem=row_problem or problem))
        return rows

    def _count_distinct(self, column: ColumnReader) -> DataFrame | None:
        """Returns the distinct values with their counts if they are few: Spark counts them without leaving Java."""
        kinds = {name: kind for name, kind in self.frame.dtypes if name in column.names}
        size = column.task.domain.size
        if len(column.names) > 1 or size is None or size > MAX_DISTINCT_VALUES or set(kinds.values()) - COUNTABLE:
            return None
        return self.frame.groupBy(quote_name(column.names[0])).count().withColumnRenamed("count", COUNT_COLUMN)
