"""Users who opt out: they send messages that depend on no value and hide the others."""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp.mechanisms.base.encoding import Encoding
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism, Sender
from shuffledp.privacy.randomizer import ValueObject


@dataclass(frozen=True)
class OptOut(ValueObject, Sender):
    """Group of users who do not answer, but send messages of a mechanism that depend on no value and hide the others.

    The message is drawn from the mechanism's reference law: a uniform one or, for unary encodings, bits none of which
    is the user's own.

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
            raise ValueError(f"OptOut: nobody says what {self.mechanism.name} sends of nothing.")

    @property
    def law(self) -> Law:
        found = self.mechanism.law.opt_out_law()
        assert found is not None
        return found

    @property
    def encoding(self) -> Encoding:
        return self.mechanism.encoding
