"""Escaping of untrusted text for a terminal, a Markdown page or a spreadsheet cell.

Names of categories, columns, populations and files may come from anybody. JSON and Parquet store them unchanged; the
functions here are for readers that would interpret parts of them as something other than text.
"""

from __future__ import annotations

import re

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters without a visible shape (Unicode's Default_Ignorable_Code_Point), as a regular expression character class.

Joiners, direction marks and overrides, variation selectors, fillers and tags.
"""
CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
"""Control characters, line separators and lone surrogates, as a character class."""
_JOINERS, _VARIATION_SELECTORS = "\u200c\u200d", "\ufe0e\ufe0f"
"""Used in the spelling of some scripts and emoji: joiners are kept after non-ASCII characters, variation selectors
always."""
_STRAY_JOINER = f"(?<![^\x00-\x9f{INVISIBLE}])(?<![{_VARIATION_SELECTORS}])[{_JOINERS}]"
_INVISIBLE_PATTERN = re.compile(f"{_STRAY_JOINER}|[{CONTROL}]|(?![{_JOINERS}{_VARIATION_SELECTORS}])[{INVISIBLE}]")
_INVISIBLE_EXCEPT_NEWLINE_PATTERN = re.compile(f"(?!\n)(?:{_INVISIBLE_PATTERN.pattern})")
_MARKDOWN_SYNTAX_PATTERN = re.compile(
    r"[\\`*|~$]|\](?=[(\[:]|$)|(?<![^\W_])_|_(?![^\W_])|(?<=[A-Za-z0-9])@(?=[A-Za-z0-9])"
)
_URL_SCHEME_PATTERN = re.compile(r"\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)", re.IGNORECASE)
_ENTITY = re.compile(r"&(?=#?\w+;)")
_FORMULA = re.compile("\\s*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
"""The beginning of a cell that a spreadsheet would evaluate (OWASP, CSV injection)."""
_NUMBER_OR_DATE_PATTERN = re.compile(r"[+-]?(inf|[\d\s.,:/…–-]*\d(e[+-]?\d+)?[\d\s.,:/…–-]*)", re.IGNORECASE)
"""Numbers, dates and ranges of them, which are safe although they may begin like a formula."""


def escape_line(text: str) -> str:
    r"""Returns the text on one line, with invisible characters escaped.

    >>> print(escape_line("red\x1b[31m, caf\u00e9 \u202eder"))
    red\x1b[31m, café \u202eder
    """
    return _INVISIBLE_PATTERN.sub(_escape, text)


def escape_terminal(text: str) -> str:
    """Returns the text with invisible characters escaped, except line breaks."""
    return _INVISIBLE_EXCEPT_NEWLINE_PATTERN.sub(_escape, text)


def escape_markdown(text: str) -> str:
    r"""Returns the text escaped for Markdown: it cannot start a tag, link, code, table or formula.

    >>> print(escape_markdown("<b>[a](http://b) | c_d *e*"))
    &lt;b&gt;[a\](http\://b) \| c_d \*e\*
    """
    marked = _MARKDOWN_SYNTAX_PATTERN.sub(r"\\\g<0>", _ENTITY.sub("&amp;", escape_line(text)))
    return _URL_SCHEME_PATTERN.sub(r"\1\3\\\2\4", marked.replace("<", "&lt;").replace(">", "&gt;"))


def escape_sheet_cell(text: str) -> str:
    """Returns the text for a cell of a CSV file, with a leading quote if a spreadsheet would evaluate it.

    >>> escape_sheet_cell("=cmd|' /C calc'!A0"), escape_sheet_cell("-5"), escape_sheet_cell("red")
    ("'=cmd|' /C calc'!A0", '-5', 'red')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER_OR_DATE_PATTERN.fullmatch(text) else text


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
