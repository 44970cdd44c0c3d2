"""Texts that other people wrote: on terminals, on pages and in sheets they are texts."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from shuffledp._core import pages
from shuffledp._core.formatting import escape_line, escape_markdown, escape_sheet_cell, escape_terminal
from shuffledp.cli import output
from tests.cli import run

NASTY = "\x1b]0;owned\x07\x9b31m\u202e\u200b\r\ud800"
MARKED = "<script>alert(1)</script>"
LINK = "[click](javascript:alert(1))"
FORMULA = "=cmd|' /C calc'!A0"
NAMES = (MARKED, LINK, FORMULA, "-5", "caf\u00e9 | <b>", "![x](http://evil.example/x.png)", "www.evil.example")


def is_harmless(text: str) -> bool:
    """Nothing in it but lines of letters: no control character, no override, nothing without a shape."""
    return (
        re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]", text)
        is None
    )


def test_what_cannot_be_seen_is_an_escape() -> None:
    """Every control character, override and zero-width character; line breaks stay where there are lines."""
    assert escape_line("a\nb" + NASTY) == r"a\nb\x1b]0;owned\x07\x9b31m\u202e\u200b\r\ud800"
    assert escape_terminal("a\nb\x1b") == "a\nb\\x1b"
    letters = "".join(map(chr, range(0x3000)))
    assert is_harmless(escape_line(letters))
    assert is_harmless(escape_terminal(letters))
    emoji = "\U0001f469\u200d\U0001f4bb \u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3"
    plain = f"Z\u00fcrich \u6771\u4eac {emoji} \u0646\u0645\u06cc\u200c\u062f 10\u202f000"
    assert escape_line(plain) == plain


@pytest.mark.parametrize(
    "text", ["Z\u00fcrich", "R&D", "18-24", "user_id", "a (b)", "[PB] B. Balle", "100%", "it's 5 #1"]
)
def test_plain_names_stay_as_they_are(text: str) -> None:
    """On a page and in a sheet."""
    assert (escape_line(text), escape_markdown(text), escape_sheet_cell(text)) == (text, text, text)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        (FORMULA, f"'{FORMULA}"), ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"), ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+3", "'-2+3"), ("\t=1", "'\t=1"), (" =1", "' =1"), ("\uff1d1", "'\uff1d1"), ("-", "'-"),
        ("-5", "-5"), ("+5.5", "+5.5"), ("-1e-3", "-1e-3"), ("-inf", "-inf"), ("-5 \u2026 -3", "-5 \u2026 -3"),
        ("2026-01-31", "2026-01-31"), ("a=b", "a=b"), ("", ""),
    ],
)  # fmt: skip
def test_cells_of_a_sheet_are_not_computed(text: str, cell: str) -> None:
    """Numbers stay numbers."""
    assert escape_sheet_cell(text) == cell


def test_pages_have_no_tags_and_no_links() -> None:
    """Whatever block a text stands in, in both forms."""
    texts = [*NAMES, NASTY, "``` x", "&lt;b&gt;", "a@b.example", "$x$"]
    blocks = [
        *(pages.Heading(text) for text in texts), *(pages.Paragraph(text, is_lead=True) for text in texts),
        pages.ItemList(texts), pages.FactTable([(text, text) for text in texts]),
    ]  # fmt: skip
    told = pages.format_markdown(blocks)
    assert is_harmless(told)
    assert not re.search(r"<|(?<!\\)\]\(|https?://|www\.|[a-z]@|(?<!\\)`", told)
    assert "&amp;lt;b&amp;gt;" in told
    assert all(line.count(" | ") == 1 for line in told.splitlines() if line.startswith("| "))
    html = pages.format_html(MARKED, blocks)
    assert is_harmless(html)
    assert "<script" not in html
    assert pages.CommandBlock("a ``` b").markdown() == "````sh\na ``` b\n````"


def test_names_of_categories_get_out_as_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the screen, into report.md, estimates.csv and a notebook; JSON and Parquet hold them as they are."""
    monkeypatch.chdir(tmp_path)
    plan = sdp.Plan(
        sdp.tasks.Frequency(NAMES), sdp.KRR(4.0, len(NAMES)), users=700, epsilon=4.0, delta=1e-6,
        population="everyone<img src=x>",
    )  # fmt: skip
    plan.save("plan.json")
    with Path("rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["name"], *([name] for name in NAMES * 100)])
    done = run("collect", "plan.json", "--input", "rows.csv", "--column", "name", "--out", "out", "--no-ledger")
    assert done.status == 0
    told = Path("out/report.md").read_text("utf-8")
    assert "<script" not in told
    assert "<img" not in told
    assert r"[click\](javascript:alert(1))" in told
    assert r"![x\](http\://evil.example/x.png)" in told
    assert "| -5 |" in told
    with Path("out/estimates.csv").open(encoding="utf-8", newline="") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    assert labels == [f"'{name}" if name == FORMULA else name for name in NAMES]
    assert [row["label"] for row in json.loads(Path("out/estimates.json").read_text("utf-8"))["estimates"]] == [*NAMES]
    assert pq.read_table("out/estimates.parquet")["label"].to_pylist() == [*NAMES]


def test_nothing_of_a_text_controls_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, notes and lines of the command line, and what ``print`` shows of an object."""
    output.print_rows(NASTY, [(NASTY, NASTY)], NASTY)
    output.print_note(NASTY)
    output.print_conditions([NASTY])
    output.print_text(NASTY)
    output.Console(force_terminal=False).print(NASTY, markup=False)
    told = capsys.readouterr()
    assert is_harmless(told.out + told.err)
    assert (told.out + told.err).count("\\x1b]0;owned") == 8
    coloured = io.StringIO()
    output.Console(file=coloured, force_terminal=True).print("[bold]a[/bold]")
    assert coloured.getvalue().startswith("\x1b[1m")


def test_errors_and_names_of_columns_control_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column and a file may be called anything."""
    monkeypatch.chdir(tmp_path)
    Path("a\x1b[2Jb.csv").write_text("x\x1b[31m,y\n1,2\n", "utf-8")
    done = run("plan", "--input", "a\x1b[2Jb.csv", "--column", "nobody\x1b[1m", "--epsilon", "1", "--delta", "1e-6")
    assert done.status == 2
    assert is_harmless(done.err)
    assert r"\x1b[2J" in done.err
