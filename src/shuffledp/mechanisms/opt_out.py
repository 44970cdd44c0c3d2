"""``OptOut``: people who take part in name only, and send messages that depend on nothing."""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.sender import Sender
from shuffledp.mechanisms.parts.wire import Wire
from shuffledp.privacy.record import Record


@dataclass(frozen=True)
class OptOut(Record, Sender):
    """Whoever does not want to answer and sends what ``mechanism`` sends of nothing: they hide the others.

    That is a message drawn by its reference law: a uniform one, or, of unary encodings, bits of which none is the own.

    >>> import shuffledp as sdp
    >>> krr = sdp.KRR(epsilon=1.0, options=16)
    >>> crowd = sdp.Crowd({krr: 9_000, sdp.OptOut(krr): 1_000})
    >>> sdp.amplify(crowd).epsilon(delta=1e-6).upper < sdp.amplify(krr, users=9_000).epsilon(delta=1e-6).upper
    True
    """

    mechanism: Mechanism

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(f"OptOut: expected a mechanism, got {self.mechanism!r}.")
        if self.mechanism.law.of_nothing() is None:
            raise ValueError(f"OptOut: nobody says what {self.mechanism.name} sends of nothing.")

    @property
    def law(self) -> Law:
        found = self.mechanism.law.of_nothing()
        assert found is not None
        return found

    @property
    def wire(self) -> Wire:
        return self.mechanism.wire
