"""Values that are data: equal by what they hold, and fit to be pickled, sent to another process and stored."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np


class Record:
    """A frozen dataclass that is its fields and nothing else: what it computed for itself is no part of it.

    ``cached_property`` values enter neither comparisons nor pickles. A dataclass that holds arrays takes ``eq=False``,
    so that the comparison here, of arrays by their content, is used.
    """

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        return {
            name: held
            for name, held in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for held in state.values():
            if isinstance(held, np.ndarray):
                held.setflags(write=False)
        vars(self).update(state)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash(_content(self))


def _content(record: Any) -> tuple[object, ...]:
    held = (getattr(record, one.name) for one in fields(record) if one.compare)
    return tuple((one.dtype.str, one.shape, one.tobytes()) if isinstance(one, np.ndarray) else one for one in held)
