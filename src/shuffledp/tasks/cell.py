"""What stands in cells, whoever wrote the table: texts that are numbers, truth values, dates, lists and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shuffledp.array import Array, Bools, Floats
from shuffledp.tasks.label import canonical, canonical_texts

NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$|^[+-]?inf(inity)?$"
WHOLE = r"^([+-]?\d+)\.0*$"
NO_NUMBERS = ("nan", "na", "n/a", "null", "none", "-nan", "#n/a", "<na>")
"""Texts, in small letters, that stand for no number in other people's files."""
BOOLEANS = ("true", "false")


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds texts."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: Any) -> bool:
    """Whether a column of this type holds lists or maps."""
    import pyarrow as pa

    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map)
    return any(is_kind(kind) for is_kind in kinds)


def is_numeric(array: Any) -> bool:
    """Whole, floating or decimal numbers, or truth values, which are 1 and 0."""
    import pyarrow as pa

    kind = array.type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def is_date(kind: Any) -> bool:
    """Days or moments."""
    import pyarrow as pa

    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def plain(array: Any) -> Any:
    """What is in each row stands there: without dictionaries and views, of which few of Arrow's functions know."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return without_views(array)


def without_views(array: Any) -> Any:
    """Texts that stand together, where they were views."""
    import pyarrow as pa

    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def trimmed(array: Any) -> Any:
    """Texts without spaces at their ends."""
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(array)


def gaps(array: Any, texts: tuple[str, ...], *, numeric: bool) -> Bools:
    """Which rows have no value: nothing, an empty text, one that stands for none, or what is not a number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = plain(array)
    found = np.asarray(pc.is_null(array, nan_is_null=pa.types.is_floating(array.type)))
    if is_text(array.type):
        told = trimmed(array)
        known = pc.is_in(told, value_set=pa.array(["", *texts], type=array.type))
        if numeric:
            known = pc.or_(known, pc.is_in(pc.utf8_lower(told), value_set=pa.array(NO_NUMBERS, type=array.type)))
        found = found | np.asarray(known)
    return np.asarray(found, dtype=np.bool_)


def missing_rows(columns: Sequence[Any], numeric: Sequence[bool], texts: tuple[str, ...]) -> Bools:
    """Which rows have no value in one of these columns."""
    found = [gaps(array, texts, numeric=number) for array, number in zip(columns, numeric, strict=True)]
    return np.asarray(np.any(found, axis=0))


def floats(array: Any) -> tuple[Floats, Bools]:
    """The numbers of rows that have a value, and which rows hold none that is one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_text(array.type):
        numbers = array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array
        return _numpy(numbers.cast(pa.float64(), safe=False)), np.zeros(len(array), dtype=np.bool_)
    told = trimmed(array)
    try:
        return _numpy(told.cast(pa.float64())), np.zeros(len(array), dtype=np.bool_)
    except pa.ArrowInvalid:
        good = pc.fill_null(pc.match_substring_regex(told, NUMBER, ignore_case=True), False)
        told = pc.if_else(good, pc.utf8_ltrim(told, "+"), pa.scalar(None, told.type))
        return _numpy(told.cast(pa.float64())), ~np.asarray(good, dtype=np.bool_)


def whole_numbers(array: Any) -> tuple[Array, Bools]:
    """Whole numbers, 1.0 among them, and which rows hold none that is one."""
    import pyarrow as pa

    if pa.types.is_integer(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=False)), np.zeros(len(array), dtype=np.bool_)
    numbers, bad = floats(array)
    bad = bad | ~(np.floor(numbers) == numbers) | ~(np.abs(numbers) <= 2.0**53)
    return np.where(bad, 0.0, numbers).astype(np.int64), bad


def labels(array: Any) -> Any:
    """What each row says as a text, however it is kept: 1.0 is 1, a day is 2026-01-31, texts in their one form."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if is_text(kind):
        return canonical_texts(array)
    if pa.types.is_timestamp(kind):
        days = pc.floor_temporal(array, unit="day")
        if pc.all(pc.equal(days, array)).as_py() is not False:
            return array.cast(pa.date32()).cast(pa.string())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Behind the point are zeros only: the number is whole.
        return pc.replace_substring_regex(array.cast(pa.string()), WHOLE, r"\1")
    return array.cast(pa.string())


def places(array: Any, names: tuple[str, ...]) -> tuple[Array, Bools]:
    """The place of each text, as ``labels`` gives it, in a list, and which rows hold none of them.

    A text that is not there as it stands is looked for without spaces at its ends, and 1.0 as 1; truth values in
    whatever letters.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    names = tuple(map(canonical, names))
    found = pc.index_in(array, value_set=pa.array(names, type=kind))
    if found.null_count:
        told = pc.replace_substring_regex(trimmed(array), WHOLE, r"\1")
        folded = [name.casefold() for name in names]
        if set(folded) <= set(BOOLEANS):
            told, names = pc.utf8_lower(told), tuple(folded)
        found = pc.coalesce(found, pc.index_in(told, value_set=pa.array(names, type=kind)))
    bad = np.asarray(pc.is_null(found), dtype=np.bool_)
    return np.asarray(pc.fill_null(found, 0)).astype(np.int64), bad


def split(array: Any, separator: str) -> Any:
    """Lists from texts: what stands between separators, without spaces at the ends and without empty entries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = pc.split_pattern(array, separator)
    entries, sizes = trimmed(lists.flatten()), np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    kept = np.asarray(pc.not_equal(entries, ""), dtype=np.bool_)
    owners = np.repeat(np.arange(len(sizes)), sizes)[kept]
    ends = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(sizes)))])
    offsets = pa.array(ends, pa.int32() if pa.types.is_list(lists.type) else pa.int64())
    kind = pa.ListArray if pa.types.is_list(lists.type) else pa.LargeListArray
    return kind.from_arrays(offsets, entries.filter(pa.array(kept)))


def pairs(entries: Any, between: str) -> tuple[Any, Any, Bools]:
    """Keys and values of texts such as ``key:2.5``, divided at the last sign, and which entries have none."""
    import pyarrow.compute as pc

    parts = pc.extract_regex(entries, rf"^(?P<key>.*){between}(?P<value>[^{between}]*)$")
    bad = np.asarray(pc.is_null(parts), dtype=np.bool_)
    keys, values = parts.flatten()
    if bad.any():
        # Each for itself: gaps of both at once are filled one by one.
        keys, values = pc.fill_null(keys, ""), pc.fill_null(values, "")
    return trimmed(keys), values, bad


def _numpy(array: Any) -> Floats:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
