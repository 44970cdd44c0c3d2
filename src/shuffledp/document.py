"""Documents as text: JSON out, and guarantees rounded up."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any


def json_text(document: Mapping[str, Any], indent: int | None = None) -> str:
    """One JSON object; infinities become the strings "inf" and "-inf"."""
    return json.dumps(_plain(document), ensure_ascii=False, allow_nan=False, indent=indent)


def rounded_up(value: float, digits: int = 6) -> str:
    """A guarantee in few digits that still holds."""
    if math.isinf(value):
        return "inf"
    return f"{Context(prec=digits, rounding=ROUND_CEILING).plus(Decimal(value)):g}"


def rounded_down(value: float, digits: int = 6) -> str:
    """What an attack attains, in few digits that it still attains."""
    if math.isinf(value):
        return "inf"
    return f"{Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(value)):g}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
