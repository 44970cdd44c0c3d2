"""Messages that are whole numbers."""

from __future__ import annotations

from abc import abstractmethod

from shuffledp.array import Array, Bytes
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.wire import integers_of_wire, wire_of_integers


class WholeNumber(Mechanism):
    """A message is a whole number below ``outputs``: as few bits as these need, big-endian on the wire."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many different messages there are."""

    @property
    def message_bits(self) -> int:
        return (self.outputs - 1).bit_length()

    def pack(self, messages: Array) -> Bytes:
        return wire_of_integers(messages, self.message_bits)

    def unpack(self, wire: Bytes) -> Array:
        return integers_of_wire(type(self).__name__, wire, self.message_bits, self.outputs)
