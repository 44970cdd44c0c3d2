"""Formatting of numbers, guarantees (rounded up), attacks (rounded down), JSON, and escaped text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from html import escape
from typing import Any

# --- Escaping ---


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


# --- Numbers and tables ---


GUARANTEE_DIGITS = 7
"""Digits of a guarantee wherever a command states it: on the screen, in a report, a statement and a certificate."""
INFINITE_EPSILON_TEXT = "above 700"
"""Text for an infinite ε: the searches end at 700, and no smaller ε was proved."""


def format_json(document: Mapping[str, Any], indent: int | None = None) -> str:
    """Returns one JSON object; infinities become the strings "inf" and "-inf"."""
    return json.dumps(_to_json_value(document), ensure_ascii=False, allow_nan=False, indent=indent)


def format_exact(value: float) -> str:
    """Returns a user's number as one writes it by hand (1e-8, 0.5, 2), never rounded.

    >>> format_exact(1e-8), format_exact(2.0), format_exact(0.1), format_exact(100_000), format_exact(1e20)
    ('1e-8', '2', '0.1', '100000', '1e20')
    """
    digits, exponent, power = repr(value).partition("e")
    return f"{digits.removesuffix('.0')}{exponent}{int(power)}" if exponent else digits.removesuffix(".0")


def format_percentage(share: float) -> str:
    """Returns a share as a percentage of up to ten digits.

    >>> format_percentage(0.95), format_percentage(0.999), format_percentage(1 / 3)
    ('95%', '99.9%', '33.33333333%')
    """
    return f"{100 * share:.10g}%"


def to_decimal(value: float, digits: int) -> Decimal:
    """Returns the shortest decimal of a float if it has at most ``digits`` digits; else its exact value.

    The float nearest to 0.1 is above 0.1 by 6e-18: rounding it up would print a claimed 0.1 as 0.1001.
    """
    written = Decimal(f"{float(value)!r}".removesuffix(".0"))
    return written if len(written.normalize().as_tuple().digits) <= digits else Decimal(value)


def format_rounded_up(value: float, digits: int = 6) -> str:
    """Returns a guarantee in few digits, rounded up so that it still holds.

    >>> format_rounded_up(0.09780284, 7), format_rounded_up(0.09780284, 4)
    ('0.09780284', '0.09781')
    """
    if math.isinf(value):
        return "inf"
    return f"{Context(prec=digits, rounding=ROUND_CEILING).plus(to_decimal(value, digits)):g}"


def format_epsilon(value: float, digits: int = 6) -> str:
    """Returns an ε in few digits, rounded up; an infinite one is only known to be above the largest searched value."""
    return INFINITE_EPSILON_TEXT if math.isinf(value) else format_rounded_up(value, digits)


def format_epsilon_equation(value: float, digits: int = 6) -> str:
    """Returns the same as an equation, "ε = …", or "ε above 700"."""
    return f"ε {INFINITE_EPSILON_TEXT}" if math.isinf(value) else f"ε = {format_rounded_up(value, digits)}"


def format_slack(slack: float) -> str:
    """Returns the slack of a value (its distance above the exact one, at most) in two digits."""
    return "unknown" if math.isinf(slack) else format_rounded_up(slack, 2)


def format_rounded_down(value: float, digits: int = 6) -> str:
    """Returns the ε or δ of an attack in few digits, rounded down so that the attack still achieves it."""
    if math.isinf(value):
        return "inf"
    return f"{Context(prec=digits, rounding=ROUND_FLOOR).plus(to_decimal(value, digits)):g}"


def format_average(value: float) -> str:
    """Returns a number of messages or bits per user: whole numbers as they are, averages in three digits."""
    if value == int(value) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def format_settings(settings: Mapping[str, Any]) -> str:
    """Returns settings on one line; a table is shown by its size."""
    return ", ".join(f"{name} = {_format_setting(value)}" for name, value in settings.items())


def _format_setting(value: Any) -> str:
    if not isinstance(value, list):
        return f"{value}"
    if all(isinstance(one, Mapping) for one in value):
        return " + ".join(str(one.get("name")) for one in value)
    if all(isinstance(one, str) for one in value):
        return " : ".join(value)
    return f"a table of {len(value)} × {len(value[0])}"


def _to_json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


# --- Printed results ---


def format_html_table(heading: str, rows: Sequence[Sequence[str]], remark: str = "", head: Sequence[str] = ()) -> str:
    """Returns an HTML table with escaped text; ``head`` names the columns."""
    body = "".join(_format_html_row(row, "td") for row in rows)
    named = f"<thead>{_format_html_row(head, 'th')}</thead>" if head else ""
    below = f"<p>{escape(escape_terminal(remark))}</p>" if remark else ""
    return f"<table><caption>{escape(escape_line(heading))}</caption>{named}<tbody>{body}</tbody></table>{below}"


def yes_or_no(holds: bool, otherwise: str = "no") -> str:
    return "yes" if holds else otherwise


def _format_html_row(cells: Sequence[str], tag: str) -> str:
    left = 'style="text-align:left"'
    return "<tr>" + "".join(f"<{tag} {left}>{escape(escape_terminal(cell))}</{tag}>" for cell in cells) + "</tr>"
