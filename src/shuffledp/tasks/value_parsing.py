"""Conversion of table cells to values, and the public rules for missing values, clipping and long lists.

The same text can be written with composed letters (NFC) or with combining marks (NFD), and with invisible characters. A
public list holds each name in only one of these spellings, and values in all spellings count for that name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp._core.formatting import CONTROL, INVISIBLE, escape_line
from shuffledp._core.validation import Array, Bools, Floats, Integers
from shuffledp.sampling.random_sources import RandomSource

# --- Names of categories ---


_IGNORED_PATTERN = re.compile(f"[{INVISIBLE}]")
_ALLOWED_INVISIBLE = "\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f\U000e0020-\U000e007f\U000e0100-\U000e01ef"
"""Joiners, variation selectors and tags, which scripts and emoji need: a name may contain them."""
_FORBIDDEN_PATTERN = re.compile(f"[{CONTROL}]|(?![{_ALLOWED_INVISIBLE}])[{INVISIBLE}]")
_IGNORED_IN_ARROW_SYNTAX = "[" + "".join(each if each == "-" else f"\\x{{{ord(each):x}}}" for each in INVISIBLE) + "]"
"""The class of ignored characters, in the syntax of Arrow's regular expressions."""


def canonicalize(text: str) -> str:
    r"""Returns the form in which names are compared: composed (NFC), without invisible characters.

    >>> canonicalize("cafe\u0301") == canonicalize("caf\u00e9") == canonicalize("caf\u00e9\u200b")
    True
    """
    return text if text.isascii() else unicodedata.normalize("NFC", _IGNORED_PATTERN.sub("", text))


def canonicalize_array(array: Any) -> Any:
    """Applies ``canonicalize`` to every text of an Arrow array."""
    import pyarrow.compute as pc

    if pc.all(pc.string_is_ascii(array)).as_py() is not False:
        return array
    return pc.utf8_normalize(pc.replace_substring_regex(array, _IGNORED_IN_ARROW_SYNTAX, ""), "NFC")


def is_refused_name(text: str) -> bool:
    """Returns True if a name contains control characters, or invisible ones that no script needs."""
    return _FORBIDDEN_PATTERN.search(text) is not None or (text != "" and not canonicalize(text))


def check_names(who: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of a public list, composed; raises ValueError if one is invisible or two look alike."""
    first: dict[str, str] = {}
    for name in names:
        if is_refused_name(name):
            raise ValueError(
                f"{who}: categories must be texts without control or invisible characters, got '{escape_line(name)}'."
            )
        key = canonicalize(name)
        if key in first:
            spellings = "" if first[key] == name else ", in two spellings (Unicode) that look alike"
            raise ValueError(f"{who}: categories must be different, got '{escape_line(name)}' twice{spellings}.")
        first[key] = name
    return tuple(unicodedata.normalize("NFC", name) for name in names)


NUMBER_PATTERN = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$|^[+-]?inf(inity)?$"
INTEGER_PATTERN = r"^([+-]?\d+)\.0*$"
MISSING_NUMBER_TEXTS = ("nan", "na", "n/a", "null", "none", "-nan", "#n/a", "<na>")
"""Texts, in lower case, by which other programs mark a missing number."""
BOOLEAN_TEXTS = ("true", "false")


def is_text(kind: Any) -> bool:
    """Returns True if a column of this type holds texts."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: Any) -> bool:
    """Returns True if a column of this type holds lists or maps."""
    import pyarrow as pa

    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map)
    return any(is_kind(kind) for is_kind in kinds)


def is_numeric(array: Any) -> bool:
    """Returns True for integers, floats, decimals and booleans, which are 1 and 0."""
    import pyarrow as pa

    kind = array.type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def is_date(kind: Any) -> bool:
    """Returns True for dates and timestamps."""
    import pyarrow as pa

    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def decode_array(array: Any) -> Any:
    """Decodes dictionaries and string views, which few of Arrow's functions support."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return decode_string_views(array)


def decode_string_views(array: Any) -> Any:
    """Converts string views to contiguous texts."""
    import pyarrow as pa

    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def trim(array: Any) -> Any:
    """Strips whitespace from both ends of texts."""
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(array)


def find_missing(array: Any, texts: tuple[str, ...], *, numeric: bool) -> Bools:
    """Returns True for each row without a value: null, NaN, empty, or a text that marks a missing value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = decode_array(array)
    missing = np.asarray(pc.is_null(array, nan_is_null=pa.types.is_floating(array.type)))
    if is_text(array.type):
        trimmed = trim(array)
        marked = pc.is_in(trimmed, value_set=pa.array(["", *texts], type=array.type))
        if numeric:
            numbers = pa.array(MISSING_NUMBER_TEXTS, type=array.type)
            marked = pc.or_(marked, pc.is_in(pc.utf8_lower(trimmed), value_set=numbers))
        missing = missing | np.asarray(marked)
    return np.asarray(missing, dtype=np.bool_)


def find_missing_rows(columns: Sequence[Any], numeric: Sequence[bool], texts: tuple[str, ...]) -> Bools:
    """Returns True for each row without a value in one of these columns."""
    missing = [find_missing(array, texts, numeric=number) for array, number in zip(columns, numeric, strict=True)]
    return np.asarray(np.any(missing, axis=0))


def parse_floats(array: Any) -> tuple[Floats, Bools]:
    """Converts rows that have a value to numbers; also returns True for each row that is not a number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_text(array.type):
        numbers = array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array
        return _to_numpy(numbers.cast(pa.float64(), safe=False)), np.zeros(len(array), dtype=np.bool_)
    texts = trim(array)
    try:
        return _to_numpy(texts.cast(pa.float64())), np.zeros(len(array), dtype=np.bool_)
    except pa.ArrowInvalid:
        good = pc.fill_null(pc.match_substring_regex(texts, NUMBER_PATTERN, ignore_case=True), False)
        texts = pc.if_else(good, pc.utf8_ltrim(texts, "+"), pa.scalar(None, texts.type))
        return _to_numpy(texts.cast(pa.float64())), ~np.asarray(good, dtype=np.bool_)


def parse_integers(array: Any) -> tuple[Array, Bools]:
    """Converts rows to integers, also 1.0; also returns True for each row that is not an integer."""
    import pyarrow as pa

    if pa.types.is_integer(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=False)), np.zeros(len(array), dtype=np.bool_)
    numbers, bad = parse_floats(array)
    bad = bad | ~(np.floor(numbers) == numbers) | ~(np.abs(numbers) <= 2.0**53)
    return np.where(bad, 0.0, numbers).astype(np.int64), bad


def format_labels(array: Any) -> Any:
    """Converts each row to its label: 1.0 is "1", a day is "2026-01-31", texts are canonical."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if is_text(kind):
        return canonicalize_array(array)
    if pa.types.is_timestamp(kind):
        days = pc.floor_temporal(array, unit="day")
        if pc.all(pc.equal(days, array)).as_py() is not False:
            return array.cast(pa.date32()).cast(pa.string())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Only zeros after the decimal point: the number is an integer.
        return pc.replace_substring_regex(array.cast(pa.string()), INTEGER_PATTERN, r"\1")
    return array.cast(pa.string())


def find_label_indices(array: Any, names: tuple[str, ...]) -> tuple[Array, Bools]:
    """Returns the index in ``names`` of each text of ``format_labels``, and True for each row that is none of them.

    A text that is not found literally is looked up without surrounding spaces, 1.0 as 1, and booleans in any case.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    names = tuple(map(canonicalize, names))
    indices = pc.index_in(array, value_set=pa.array(names, type=kind))
    if indices.null_count:
        texts = pc.replace_substring_regex(trim(array), INTEGER_PATTERN, r"\1")
        folded = [name.casefold() for name in names]
        if set(folded) <= set(BOOLEAN_TEXTS):
            texts, names = pc.utf8_lower(texts), tuple(folded)
        indices = pc.coalesce(indices, pc.index_in(texts, value_set=pa.array(names, type=kind)))
    bad = np.asarray(pc.is_null(indices), dtype=np.bool_)
    return np.asarray(pc.fill_null(indices, 0)).astype(np.int64), bad


def split_texts(array: Any, separator: str) -> Any:
    """Splits texts into lists at the separator, without surrounding spaces and empty entries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = pc.split_pattern(array, separator)
    entries, sizes = trim(lists.flatten()), np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    kept = np.asarray(pc.not_equal(entries, ""), dtype=np.bool_)
    owners = np.repeat(np.arange(len(sizes)), sizes)[kept]
    ends = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(sizes)))])
    offsets = pa.array(ends, pa.int32() if pa.types.is_list(lists.type) else pa.int64())
    kind = pa.ListArray if pa.types.is_list(lists.type) else pa.LargeListArray
    return kind.from_arrays(offsets, entries.filter(pa.array(kept)))


def split_pairs(entries: Any, between: str) -> tuple[Any, Any, Bools]:
    """Splits texts such as ``key:2.5`` at the last separator.

    Returns the keys, the values, and True for each entry without a separator.
    """
    import pyarrow.compute as pc

    parts = pc.extract_regex(entries, rf"^(?P<key>.*){between}(?P<value>[^{between}]*)$")
    bad = np.asarray(pc.is_null(parts), dtype=np.bool_)
    keys, values = parts.flatten()
    if bad.any():
        # One array at a time, since Arrow fills two at once element by element.
        keys, values = pc.fill_null(keys, ""), pc.fill_null(values, "")
    return trim(keys), values, bad


def _to_numpy(array: Any) -> Floats:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


# --- Rules for input ---


REFUSE, DROP, CATEGORY, EMPTY, SAMPLE = "refuse", "drop", "category", "empty", "sample"
MISSING_TREATMENTS = (REFUSE, DROP, CATEGORY, EMPTY)
"""Treatments of a row without a value."""
LONG_LIST_TREATMENTS = (REFUSE, SAMPLE)
"""Treatments of a list with more entries than planned."""
MISSING_CATEGORY = "(missing)"
"""The category of users without a value."""
DEFAULT_SEPARATOR = ";"
INPUT_PREFIX = "input"


@dataclass(frozen=True)
class Rules:
    """Public rules that convert table cells to users' values, the same for every row.

    By default, a cell that does not fit the plan stops the collection.

    Args:
        missing: Treatment of a row without a value. "refuse" stops the collection; "drop" omits the row, and does not
            hide the number of users with a value; "category" counts it for the category "(missing)", which the plan
            must have; "empty" reads it as a list without entries.
        gaps: Texts that mark a missing value, besides an empty cell.
        clip: True to move numbers outside the plan's interval to its ends.
        separator: Text between the entries of a list in one cell.
        longer: Treatment of a list with more entries than planned: "refuse" stops the collection; "sample" draws as
            many as planned at random, on the user's side.

    Raises:
        ValueError: If ``missing`` or ``longer`` is unknown, or ``separator`` is empty or only spaces.
        TypeError: If ``gaps`` is not a list of texts, or ``clip`` is not a boolean.

    >>> import shuffledp as sdp
    >>> sdp.tasks.Rules(missing="drop", clip=True).describe()
    ['Rows without a value were omitted: it is not hidden which users have a value.', 'Numbers beyond the interval \
were moved to its ends: the estimates are those of the moved numbers.']
    """

    missing: str = REFUSE
    gaps: tuple[str, ...] = ()
    clip: bool = False
    separator: str = DEFAULT_SEPARATOR
    longer: str = REFUSE

    def __post_init__(self) -> None:
        _check_choice("missing", self.missing, MISSING_TREATMENTS)
        _check_choice("longer", self.longer, LONG_LIST_TREATMENTS)
        if isinstance(self.gaps, str) or not all(isinstance(text, str) for text in self.gaps):
            raise TypeError(f"{INPUT_PREFIX}: gaps must be a list of texts, got {self.gaps!r}.")
        object.__setattr__(self, "gaps", tuple(self.gaps))
        if not isinstance(self.clip, bool):
            raise TypeError(f"{INPUT_PREFIX}: clip must be true or false, got {self.clip!r}.")
        if not isinstance(self.separator, str) or not self.separator.strip(" "):
            raise ValueError(f"{INPUT_PREFIX}: separator must be a text such as ';', got {self.separator!r}.")

    @property
    def drops_rows(self) -> bool:
        """True if rows may be omitted."""
        return self.missing == DROP

    @property
    def changes_values(self) -> bool:
        """True if values may be changed; the changes are then counted."""
        return self.clip or self.longer == SAMPLE

    def describe(self) -> list[str]:
        """Returns the sentences about these rules that every reader of a report must know."""
        sentences = {
            "Rows without a value were omitted: it is not hidden which users have a value.": self.drops_rows,
            "Numbers beyond the interval were moved to its ends: the estimates are those of the moved numbers.":
                self.clip,
            "Lists that were too long were replaced by a random sample of their entries, which the estimates describe.":
                self.longer == SAMPLE,
        }  # fmt: skip
        return [sentence for sentence, applies in sentences.items() if applies]

    def document(self) -> dict[str, Any]:
        """Returns the JSON document: the rules that differ from the default."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if value != getattr(STRICT_RULES, name)
        }


def _check_choice(name: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"{INPUT_PREFIX}: {name} must be one of {', '.join(known)}, got {given!r}.")


STRICT_RULES = Rules()
"""The default: nothing is changed or omitted."""


# --- Random samples of long lists, drawn on the user's side ---


def find_first_occurrences(owners: Integers, numbers: Integers) -> Integers:
    """Returns the sorted indices at which a row has a number for the first time."""
    order = np.lexsort((numbers, owners))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (owners[order][1:] != owners[order][:-1]) | (numbers[order][1:] != numbers[order][:-1])
    # The sort is stable, so the first of equal entries is the one that is retained.
    return np.sort(order[new])


def draw_positions(sizes: Integers, most: int, source: RandomSource | None) -> dict[int, tuple[Integers, Integers]]:
    """Draws ``most`` distinct positions, uniformly over all sets, for each row with more entries.

    Returns, for each such length, the rows of that length and the positions of each. Without a source these are the
    first positions, which suffice for a check.
    """
    positions = {}
    for size in np.unique(sizes[sizes > most]).tolist():
        rows = np.flatnonzero(sizes == size)
        places = np.tile(np.arange(size), (len(rows), 1))
        each = np.arange(len(rows))
        for place in range(most if source is not None else 0):
            # Move a uniform one of the remaining positions to the front.
            chosen = place + source.integers_below(size - place, len(rows))  # type: ignore[union-attr]
            places[each, chosen], places[:, place] = places[:, place].copy(), places[each, chosen].copy()
        positions[size] = rows, np.sort(places[:, :most], axis=1)
    return positions


def find_kept_entries(sizes: Integers, drawn: dict[int, tuple[Integers, Integers]], most: int) -> Integers:
    """Returns the sorted indices of all retained entries of the concatenated rows."""
    if not drawn:
        return np.arange(int(sizes.sum()))
    starts = np.cumsum(sizes) - sizes
    kept = np.repeat(sizes <= most, sizes)
    for rows, places in drawn.values():
        kept[(starts[rows][:, None] + places).reshape(-1)] = True
    return np.flatnonzero(kept)
