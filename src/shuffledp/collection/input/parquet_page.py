"""The pages of a Parquet file before anything in them is believed: their headers, by a reader of our own.

A header says how much memory its page takes and how many values it holds. One that was made up, or moved by a damaged
byte, would make a reader ask for gigabytes, or hand on what happened to lie in memory.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MOST_PAGE_BYTES = 1 << 29
"""Of one page, as it is in memory; writers make pages of about a megabyte."""
FIRST_LOOK, MOST_HEADER_BYTES = 1 << 8, 1 << 22
"""Bytes of a header that are read at first, and at most."""
DEEPEST = 8
VALUES_IN_A_BYTE = 8
DICTIONARY_PAGE, UNCOMPRESSED_SIZE, COMPRESSED_SIZE, NUMBER = 7, 2, 3, 1
DATA_PAGES = (5, 8)
"""Fields of a page's header, and of the part for each kind of page."""
BYTE, DOUBLE, BINARY, STRUCT = 3, 7, 8, 12
TRUE, FALSE = 1, 2
NUMBERS = (4, 5, 6)


class Damaged(ValueError):
    """A file that contradicts itself."""


class _TooShort(Exception):
    """More bytes are needed."""


@dataclass
class _Compact:
    """Thrift's compact protocol, as far as headers need it."""

    content: bytes
    place: int = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.place + count > len(self.content):
            raise _TooShort
        self.place += count
        return self.content[self.place - count : self.place]

    def whole(self) -> int:
        """A number of seven bits a byte."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise Damaged("a number without an end")

    def signed(self) -> int:
        value = self.whole()
        return (value >> 1) ^ -(value & 1)

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Fields by their numbers."""
        if depth > DEEPEST:
            raise Damaged("a header inside headers without an end")
        fields: dict[int, Any] = {}
        number = 0
        while True:
            head = self.take(1)[0]
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self.signed()
            fields[number] = self._value(head & 15, depth)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self.take(1)[0]
        if kind in NUMBERS:
            return self.signed()
        if kind == DOUBLE:
            return self.take(8)
        if kind == BINARY:
            return self.take(self.whole())
        if kind == STRUCT:
            return self.struct(depth + 1)
        # Headers of pages have no lists, sets or maps.
        raise Damaged(f"a field of kind {kind}")


def demand_sound(path: Path, metadata: pq.FileMetaData, columns: Collection[str]) -> None:
    """Stop by ``Damaged`` unless the pages of these columns hold as many values as told, each of a sensible size."""
    size = path.stat().st_size
    with path.open("rb") as file:
        rows = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            rows += group.num_rows
            for place in range(group.num_columns):
                chunk = group.column(place)
                if chunk.path_in_schema.split(".")[0] in columns or chunk.path_in_schema in columns:
                    _demand_chunk(file, size, chunk)
                    if chunk.path_in_schema in columns and chunk.num_values != group.num_rows:
                        raise Damaged(f"a column has {chunk.num_values} values for {group.num_rows} rows")
        if rows != metadata.num_rows:
            raise Damaged(f"its parts have {rows} rows, and all together {metadata.num_rows}")


def _demand_chunk(file: BinaryIO, size: int, chunk: pq.ColumnChunkMetaData) -> None:
    starts = [start for start in (chunk.dictionary_page_offset, chunk.data_page_offset) if start]
    place, values = min(starts, default=0), 0
    while values < chunk.num_values:
        if not 0 < place < size:
            raise Damaged("a page lies outside the file")
        header, length = _header(file, place)
        place += length + _demand_sizes(header, size - place - length)
        parts = [header[kind] for kind in DATA_PAGES if kind in header]
        for part in parts:
            found = part.get(NUMBER) if isinstance(part, dict) else None
            if not isinstance(found, int) or found < 0 or values + found > chunk.num_values:
                raise Damaged(f"its pages have more values than the {chunk.num_values} that it tells of")
            values += found


def _demand_sizes(header: dict[int, Any], left: int) -> int:
    """The bytes of a page in the file, of which this many are left."""
    packed, unpacked = header.get(COMPRESSED_SIZE), header.get(UNCOMPRESSED_SIZE)
    if not isinstance(packed, int) or not isinstance(unpacked, int) or not 0 <= packed <= left or unpacked < 0:
        raise Damaged("a page is larger than the file")
    if unpacked > MOST_PAGE_BYTES:
        raise Damaged(f"a page of {unpacked} bytes, where at most {MOST_PAGE_BYTES} are read")
    dictionary = header.get(DICTIONARY_PAGE)
    if isinstance(dictionary, dict):
        entries = dictionary.get(NUMBER)
        if not isinstance(entries, int) or not 0 <= entries <= VALUES_IN_A_BYTE * unpacked:
            raise Damaged("a dictionary has more entries than bytes")
    return packed


def _header(file: BinaryIO, place: int) -> tuple[dict[int, Any], int]:
    """The header of a page, and how long it is."""
    look = FIRST_LOOK
    while True:
        file.seek(place)
        reader = _Compact(file.read(look))
        try:
            return reader.struct(), reader.place
        except _TooShort:
            if len(reader.content) < look or look >= MOST_HEADER_BYTES:
                raise Damaged("a page without a header") from None
            look *= 16
