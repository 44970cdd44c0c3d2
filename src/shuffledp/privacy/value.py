"""One number of a privacy statement, ε or δ, with what stands behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from shuffledp.privacy.record import Record

if TYPE_CHECKING:
    from shuffledp.privacy.attack import Attack


@dataclass(frozen=True)
class BoundValue(Record):
    """One number of a privacy statement and what stands behind it.

    ``upper`` is the certified guarantee (also ``float()``); ``lower`` is attained by an attack on a real dataset,
    None if none is known; ``slack`` is how far ``upper`` may be above the exact value of the same bound, in the
    same unit.
    """

    upper: float
    slack: float
    bound: str
    theorem: str
    certified: bool
    guarantee: bool
    note: str = ""
    """What the reader must know besides."""
    origin: str = ""
    """Who stands behind the bound, where it is not shuffledp's own."""
    delta: float | None = field(default=None, repr=False)
    """Where the value is an ε: the δ that it was asked for."""
    epsilon: float | None = field(default=None, repr=False)
    """Where the value is a δ: the ε that it was asked for."""
    attack: Attack | None = field(default=None, repr=False)
    """What is known from below."""

    @cached_property
    def lower(self) -> float | None:
        """Computed when it is first asked for."""
        if self.attack is None:
            return None
        if self.delta is not None:
            return self.attack.epsilon(self.delta)
        return None if self.epsilon is None else self.attack.delta(self.epsilon)

    def __float__(self) -> float:
        return self.upper
