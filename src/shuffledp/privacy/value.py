"""One number of a privacy statement, ε or δ, with what stands behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shuffledp.document import epsilon_is, rounded_down, rounded_up, slack_text, typed
from shuffledp.privacy.record import Record
from shuffledp.readable import Readable, Row, yes_or_no

if TYPE_CHECKING:
    from shuffledp.privacy.attack import Attack


@dataclass(frozen=True)
class BoundValue(Readable, Record):
    """One number of a privacy statement and what stands behind it.

    ``upper`` is the certified guarantee (also ``float()``); ``lower`` is attained by an attack on a constructed
    dataset, None if none is known; ``slack`` is how far ``upper`` may be above the exact value of the same bound, in
    the same unit.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> print(curve.epsilon(delta=1e-6))
    ε = 0.0674903 at δ = 1e-6
      guarantee              yes
      attained by an attack  0.0674885
      numerical slack        1.6e-10
      bound                  optimal
      theorem                privacy blanket [PB], numerically exact [SCW25]
      certified              yes
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

    def document(self, *, attacked: bool = True) -> dict[str, Any]:
        """The value as a JSON object: ε and δ, the one that was asked for as a number, the other with its bounds.

        ``attacked=False`` leaves ``lower`` out, which may take as long as the value itself. A value that is neither an
        ε nor a δ, such as a Rényi divergence, is called "value". ``origin`` is there only where the bound is not ours.
        """
        bounds = {"lower": self.lower} if attacked else {}
        bounds |= {"upper": self.upper, "slack": self.slack}
        said: dict[str, Any] = {"value": bounds}
        if self.delta is not None:
            said = {"epsilon": bounds, "delta": self.delta}
        elif self.epsilon is not None:
            said = {"epsilon": self.epsilon, "delta": bounds}
        said |= {"bound": self.bound, "theorem": self.theorem, "certified": self.certified}
        said |= {"guarantee": self.guarantee, "note": self.note}
        return said | ({"origin": self.origin} if self.origin else {})

    @property
    def heading(self) -> str:
        if self.delta is not None:
            return f"{epsilon_is(self.upper)} at δ = {typed(self.delta)}"
        number = rounded_up(self.upper)
        return f"value = {number}" if self.epsilon is None else f"δ = {number} at ε = {typed(self.epsilon)}"

    def summary(self) -> list[Row]:
        rows = [
            ("guarantee", yes_or_no(self.guarantee, "NO: not an upper bound of the privacy loss")),
            ("attained by an attack", "none known" if self.lower is None else rounded_down(self.lower)),
            ("numerical slack", slack_text(self.slack)),
            ("bound", self.bound),
            ("theorem", self.theorem),
            ("certified", yes_or_no(self.certified)),
        ]
        return rows + ([("note", self.note)] if self.note else [])


def certain(value: BoundValue) -> float:
    """What the exact value of the same bound is certainly not below."""
    if math.isinf(value.upper):
        return 0.0
    return max(0.0, math.nextafter(value.upper - value.slack, 0.0))
