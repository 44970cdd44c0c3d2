"""Texts that other people wrote, where they get out: to a terminal, into a Markdown page, into a cell of a sheet.

Names of categories, columns, populations and files may come from anybody. JSON and Parquet hold them as they are; the
functions here are for readers that would take a part of them for something else than text.
"""

from __future__ import annotations

import re

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Letters without a shape of their own (Default_Ignorable_Code_Point of Unicode), as a class of a regular expression.

Joiners, marks of direction and overrides, selectors of variants, fillers and tags.
"""
CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
"""Control characters, line separators, and halves of letters, alike."""
_JOINERS, _STYLES = "\u200c\u200d", "\ufe0e\ufe0f"
"""What some scripts and emoji are spelled with: joiners stay behind letters beyond ASCII, and the marks for emoji."""
_STRAY = f"(?<![^\x00-\x9f{INVISIBLE}])(?<![{_STYLES}])[{_JOINERS}]"
_UNSEEN = re.compile(f"{_STRAY}|[{CONTROL}]|(?![{_JOINERS}{_STYLES}])[{INVISIBLE}]")
_UNSEEN_BUT_BREAKS = re.compile(f"(?!\n)(?:{_UNSEEN.pattern})")
_MARKS = re.compile(r"[\\`*|~$]|\](?=[(\[:]|$)|(?<![^\W_])_|_(?![^\W_])|(?<=[A-Za-z0-9])@(?=[A-Za-z0-9])")
_ADDRESS = re.compile(r"\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)", re.IGNORECASE)
_ENTITY = re.compile(r"&(?=#?\w+;)")
_FORMULA = re.compile("\\s*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
"""With what a cell begins that spreadsheets compute (OWASP, CSV injection)."""
_HARMLESS = re.compile(r"[+-]?(inf|[\d\s.,:/…–-]*\d(e[+-]?\d+)?[\d\s.,:/…–-]*)", re.IGNORECASE)
"""Numbers, days and ranges of them, which have nothing to compute with."""


def visible(text: str) -> str:
    r"""The text on one line, with escapes in place of whatever cannot be seen.

    >>> print(visible("red\x1b[31m, caf\u00e9 \u202eder"))
    red\x1b[31m, café \u202eder
    """
    return _UNSEEN.sub(_escape, text)


def terminal(text: str) -> str:
    """The same for several lines, whose breaks stay."""
    return _UNSEEN_BUT_BREAKS.sub(_escape, text)


def markdown(text: str) -> str:
    r"""The text as Markdown shows it: no tag, link, code, table or formula begins in it.

    >>> print(markdown("<b>[a](http://b) | c_d *e*"))
    &lt;b&gt;[a\](http\://b) \| c_d \*e\*
    """
    marked = _MARKS.sub(r"\\\g<0>", _ENTITY.sub("&amp;", visible(text)))
    return _ADDRESS.sub(r"\1\3\\\2\4", marked.replace("<", "&lt;").replace(">", "&gt;"))


def sheet_cell(text: str) -> str:
    """The text for a cell of a CSV file: with a quote before it where a spreadsheet would compute it.

    >>> sheet_cell("=cmd|' /C calc'!A0"), sheet_cell("-5"), sheet_cell("red")
    ("'=cmd|' /C calc'!A0", '-5', 'red')
    """
    return f"'{text}" if _FORMULA.match(text) and not _HARMLESS.fullmatch(text) else text


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
