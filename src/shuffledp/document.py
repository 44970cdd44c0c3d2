"""Documents as text: JSON out, and guarantees rounded up."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

GUARANTEE_DIGITS = 7
"""Of a guarantee, wherever a command states it: on the screen, in a report, a statement and a certificate."""
BEYOND = "above 700"
"""What is said of an ε for which no number was found: none up to the largest that is searched is proved."""


def json_text(document: Mapping[str, Any], indent: int | None = None) -> str:
    """One JSON object; infinities become the strings "inf" and "-inf"."""
    return json.dumps(_plain(document), ensure_ascii=False, allow_nan=False, indent=indent)


def typed(value: float) -> str:
    """A number that somebody gave, as it is written by hand: 1e-8, 0.5, 2; never rounded.

    >>> typed(1e-8), typed(2.0), typed(0.1), typed(100_000), typed(1e20)
    ('1e-8', '2', '0.1', '100000', '1e20')
    """
    digits, exponent, power = repr(value).partition("e")
    return f"{digits.removesuffix('.0')}{exponent}{int(power)}" if exponent else digits.removesuffix(".0")


def share_text(share: float) -> str:
    """A share as a percentage, with the digits it has.

    >>> share_text(0.95), share_text(0.999), share_text(1 / 3)
    ('95%', '99.9%', '33.33333333%')
    """
    return f"{100 * share:.10g}%"


def decimal_of(value: float, digits: int) -> Decimal:
    """A float as the decimal that it was written as, where that has at most so many digits; else exactly.

    The float nearest to 0.1 is above 0.1 by 6e-18: rounding it up would state 0.1001 of what is claimed to be 0.1.
    """
    written = Decimal(f"{float(value)!r}".removesuffix(".0"))
    return written if len(written.normalize().as_tuple().digits) <= digits else Decimal(value)


def rounded_up(value: float, digits: int = 6) -> str:
    """A guarantee in few digits that still holds.

    >>> rounded_up(0.09780284, 7), rounded_up(0.09780284, 4)
    ('0.09780284', '0.09781')
    """
    if math.isinf(value):
        return "inf"
    return f"{Context(prec=digits, rounding=ROUND_CEILING).plus(decimal_of(value, digits)):g}"


def epsilon_text(value: float, digits: int = 6) -> str:
    """An ε in few digits, rounded up; infinite ones are only known to be above all that is searched."""
    return BEYOND if math.isinf(value) else rounded_up(value, digits)


def epsilon_is(value: float, digits: int = 6) -> str:
    """The same as the end of a sentence: ε = …, or that it is beyond."""
    return f"ε {BEYOND}" if math.isinf(value) else f"ε = {rounded_up(value, digits)}"


def slack_text(slack: float) -> str:
    """How far a value may be above the exact one, in two digits."""
    return "unknown" if math.isinf(slack) else rounded_up(slack, 2)


def rounded_down(value: float, digits: int = 6) -> str:
    """What an attack attains, in few digits that it still attains."""
    if math.isinf(value):
        return "inf"
    return f"{Context(prec=digits, rounding=ROUND_FLOOR).plus(decimal_of(value, digits)):g}"


def average_text(value: float) -> str:
    """How many messages or bits a user sends: a whole number as it is, an average in three digits."""
    if value == int(value) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings in a line; of a table only how large it is."""
    return ", ".join(f"{name} = {_setting_text(value)}" for name, value in settings.items())


def _setting_text(value: Any) -> str:
    if not isinstance(value, list):
        return f"{value}"
    if all(isinstance(one, Mapping) for one in value):
        return " + ".join(str(one.get("name")) for one in value)
    if all(isinstance(one, str) for one in value):
        return " : ".join(value)
    return f"a table of {len(value)} × {len(value[0])}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
