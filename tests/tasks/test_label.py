"""Names of categories: spellings that look alike are one, in lists, in data and to whoever asks."""

from __future__ import annotations

import random
import unicodedata

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp._core.formatting import INVISIBLE
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.domain import Categories, parse_domain
from shuffledp.tasks.value_parsing import canonicalize, canonicalize_array

COMPOSED, APART = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(
    "twin", [APART, "caf\u00e9\u200b", "\ufeffcaf\u00e9", "ca\u200dfe\u0301", "caf\u00e9\ufe0f", "c\u00adaf\u00e9"]
)
def test_twins_are_not_two_categories(twin: str) -> None:
    """In a list they are refused, with an escape for what cannot be seen; in data they are the name that they show."""
    with pytest.raises(ValueError, match=r"^task: categories must be ") as told:
        Categories((COMPOSED, "tea", twin))
    assert str(told.value).replace("\u00e9", "").replace("\u0301", "").isprintable()
    with pytest.raises(ValueError, match=r"^task: categories must be "):
        parse_domain({"keys": [COMPOSED, "tea", twin], "low": 0.0, "high": 1.0})
    task = sdp.tasks.Frequency([COMPOSED, "tea"])
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        found = ColumnReader(("drink",), task, sdp.KRR(1.0, 2)).read_values(
            pa.array([twin, "tea", COMPOSED], pa.string()).cast(kind)
        )
        np.testing.assert_array_equal(found, [0, 1, 0])
    assert task.domain.find_option_number("ask", twin) == 0


@pytest.mark.parametrize(
    "code", [0, 7, 9, 10, 13, 27, 127, 0x9B, 0x200B, 0x200E, 0x202E, 0x2028, 0x2060, 0xFEFF, 0xD800]
)
def test_names_that_cannot_be_seen_are_refused(code: int) -> None:
    """Control characters, overrides of direction and zero-width characters; the sentence shows an escape."""
    with pytest.raises(ValueError, match="without control or invisible characters") as told:
        Categories(("red", f"gr{chr(code)}een"))
    assert chr(code) not in str(told.value)
    assert "\\" in str(told.value)


def test_names_of_every_script_are_as_they_were() -> None:
    """Joiners that scripts and emoji are spelled with stay; a plan holds composed letters."""
    names = (
        "\u0646\u0645\u06cc\u200c\u062f\u0627\u0646\u0645",
        "\U0001f469\u200d\U0001f4bb",
        "\u2764\ufe0f",
        "r&d <b>",
        " x",
    )
    assert Categories(names).labels == names
    assert Categories((APART, "tea")).to_document() == {"categories": [COMPOSED, "tea"]}


def test_arrow_and_python_agree_on_the_one_form() -> None:
    """On every letter, and on strings of letters, marks and what has no shape, as unicodedata has it."""
    rng = random.Random(1)
    pools = [range(0x300, 0x370), range(0x41, 0x250), range(0x2000, 0x2070), range(0x1100, 0x1200), range(0x900, 0x980)]
    texts = [chr(code) for code in range(0x20, 0x110000) if not 0xD800 <= code < 0xE000]
    texts += ["".join(chr(rng.choice(rng.choice(pools))) for _ in range(6)) for _ in range(2000)]
    assert [canonicalize(text) for text in texts] == canonicalize_array(pa.array(texts)).to_pylist()
    assert all(unicodedata.is_normalized("NFC", canonicalize(text)) for text in texts[-2000:])
    assert all(canonicalize(letter) == "" for letter in INVISIBLE if letter != "-")
