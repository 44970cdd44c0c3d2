"""Names of categories: one form for all spellings that look alike, and what a public list may not hold.

The same text can be written with composed letters (NFC) or with letters and marks (NFD), and with characters that have
no shape. A public list has each name once in any of these spellings, and a value counts for the name that it shows.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from shuffledp.escaping import CONTROL, INVISIBLE, visible

_IGNORED = re.compile(f"[{INVISIBLE}]")
_SPELLED_WITH = "\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f\U000e0020-\U000e007f\U000e0100-\U000e01ef"
"""Joiners, variants and tags, by which scripts and emoji choose a shape: a name may hold them."""
_REFUSED = re.compile(f"[{CONTROL}]|(?![{_SPELLED_WITH}])[{INVISIBLE}]")
_IN_ARROW = "[" + "".join(each if each == "-" else f"\\x{{{ord(each):x}}}" for each in INVISIBLE) + "]"
"""The class of what is ignored, in the words of Arrow's regular expressions."""


def canonical(text: str) -> str:
    r"""The form by which names are compared: composed (NFC), without what has no shape.

    >>> canonical("cafe\u0301") == canonical("caf\u00e9") == canonical("caf\u00e9\u200b")
    True
    """
    return text if text.isascii() else unicodedata.normalize("NFC", _IGNORED.sub("", text))


def canonical_texts(array: Any) -> Any:
    """The same of every text of an Arrow array."""
    import pyarrow.compute as pc

    if pc.all(pc.string_is_ascii(array)).as_py() is not False:
        return array
    return pc.utf8_normalize(pc.replace_substring_regex(array, _IN_ARROW, ""), "NFC")


def is_refused(text: str) -> bool:
    """Whether a name holds control characters, or others that cannot be seen and that no script is spelled with."""
    return _REFUSED.search(text) is not None or (text != "" and not canonical(text))


def checked(who: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a public list, composed; a sentence where one cannot be seen, or two look alike."""
    first: dict[str, str] = {}
    for name in names:
        if is_refused(name):
            raise ValueError(
                f"{who}: categories must be texts without control characters and such as cannot be seen, got "
                f"'{visible(name)}'."
            )
        key = canonical(name)
        if key in first:
            twin = "twice" if first[key] == name else "twice, in two spellings (Unicode) that look alike"
            raise ValueError(f"{who}: categories must be different, got '{visible(name)}' {twin}.")
        first[key] = name
    return tuple(unicodedata.normalize("NFC", name) for name in names)
