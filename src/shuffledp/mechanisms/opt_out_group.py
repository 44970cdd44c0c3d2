"""``OptOut``: users who do not answer, whose messages depend on no value and hide the others."""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp.mechanisms.base.encoding import Encoding
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism, Sender


@dataclass(frozen=True)
class OptOut(ValueObject, Sender):
    """Group of users who do not answer, but send messages of a mechanism that depend on no value and hide the others.

    The message is uniform or, for unary encodings, a row of bits none of which is the user's own.

    Args:
        mechanism: Mechanism of the users who answer.

    Raises:
        TypeError: If it is not a mechanism.
        ValueError: If it does not define a message that depends on no value.

    Example:
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
        if self.mechanism.law.opt_out_law() is None:
            raise ValueError(f"OptOut: {self.mechanism.name} defines no message of a user who does not answer.")

    @property
    def law(self) -> Law:
        law = self.mechanism.law.opt_out_law()
        assert law is not None
        return law

    @property
    def encoding(self) -> Encoding:
        return self.mechanism.encoding
