"""A data frame of Spark as a table: its rows stay on the cluster, and who reads them is an engine on that cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shuffledp.collection.cluster import row_identity
from shuffledp.collection.cluster.message_frame import COUNT, checked
from shuffledp.collection.cluster.row_identity import quoted
from shuffledp.collection.input.table import Table
from shuffledp.tasks.column import Column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FEW = 1 << 16
COUNTABLE = {"tinyint", "smallint", "int", "bigint", "string", "boolean"}
"""Types of columns whose different values can be few."""
MODULUS = (1 << 61) - 1
DIGIT = 21


@dataclass(frozen=True, eq=False)
class FrameTable(Table):
    """The rows of a data frame, known by a key or by their place in files."""

    frame: DataFrame
    key: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return "the data frame"

    def names(self) -> list[str]:
        return [name for name in self.frame.columns if name not in self.key]

    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        raise ValueError(
            "input: the rows of a data frame are not read here; choose, drop or gather them in Spark before, and "
            "use --engine spark."
        )

    def fingerprint(self) -> dict[str, Any]:
        """How many rows, and the sum of their hashes: of all columns that are there, as at the first look."""
        return dict(self._known)

    @cached_property
    def _known(self) -> dict[str, Any]:
        from pyspark.sql import functions as F

        names = list(map(quoted, self.frame.columns))
        hashed = self.frame.select(F.xxhash64(*names).alias("hash"))
        folded = F.pmod(F.col("hash"), F.lit(MODULUS))
        # The sum of whole numbers of 61 bits by thirds, none of which comes near 2^63: decimals take ten times as long.
        thirds = [F.shiftright(folded, DIGIT * place).bitwiseAND(F.lit((1 << DIGIT) - 1)) for place in range(3)]
        row: Any = hashed.agg(F.count("*"), F.bit_xor("hash"), *map(F.sum, thirds)).first()
        total = sum(int(third or 0) << DIGIT * place for place, third in enumerate(row[2:]))
        return {"rows": int(row[0]), "sum": str(total), "xor": int(row[1] or 0), "columns": self.frame.columns}

    # --- on the cluster ---------------------------------------------------------------------------------------

    def narrowed(self, columns: Sequence[str]) -> FrameTable:
        """Only what is read, and the key."""
        row_identity.demand_columns(self.frame, [*columns, *self.key])
        return FrameTable(self.frame.select(*map(quoted, (*columns, *self.key))), self.key)

    def identified(self, column: Column) -> DataFrame:
        """Its rows in partitions and an order that a retry repeats."""
        return row_identity.identified(self.frame, column.names, self.key)

    def check(self, column: Column) -> int:
        """How many rows there are, if every value is good; a sentence otherwise."""
        values = self.frame.select(*map(quoted, column.names))
        rows, problem = checked(self._different(column) or values, column)
        if problem is not None:
            # Of different values nobody knows how many rows hold them.
            _, told = checked(values, column)
            raise ValueError(f"{self.title}, {told or problem}")
        return rows

    def _different(self, column: Column) -> DataFrame | None:
        """Different values with how often they occur, where they are few: Spark counts them without leaving Java."""
        kinds = {name: kind for name, kind in self.frame.dtypes if name in column.names}
        size = column.task.domain.size
        if len(column.names) > 1 or size is None or size > FEW or set(kinds.values()) - COUNTABLE:
            return None
        return self.frame.groupBy(quoted(column.names[0])).count().withColumnRenamed("count", COUNT)


def is_frame(data: Any) -> bool:
    """Whether this is a data frame of Spark, of whichever kind, without importing Spark."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(data).__mro__
    )
