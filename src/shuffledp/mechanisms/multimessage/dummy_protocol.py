"""What all protocols answer in which a user sends one message that depends on the value, and dummies that hide it."""

from __future__ import annotations

from abc import abstractmethod

from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.dummy import MessageTable


class DummyProtocol(Mechanism):
    """One message that depends on the value and ``dummies`` that do not, all dummies of all users with one law.

    A base and no part, because bounds, certificates and collections ask the mechanism itself how many messages hide
    each other; the protocols would repeat these answers word by word.

    Theorem: identity (★) with w = the law of a dummy and M − 1 = all dummies of all honest users, the victim's own
    among them. Others' real messages are revealed: known, or independent of the victim's value, they take nothing away.
    Returns: exact where others' real messages are a function of their values; else an upper bound.
    """

    task = "frequency"
    dummies: int

    @property
    def local_epsilon(self) -> None:
        return None

    @property
    def messages_per_user(self) -> int:
        return 1 + self.dummies

    def hiding_messages(self, users: int) -> int:
        return users * self.dummies + 1

    def other_users(self, messages: int) -> int:
        """How many users besides the victim there are where this many messages hide each other."""
        return (messages - 1) // self.dummies - 1

    @abstractmethod
    def message_table(self) -> MessageTable:
        """The exact laws of single messages, for instances small enough to write down."""

    def hiding_table(self) -> HidingTable:
        return self.message_table().hiding()

    def table(self) -> OutputTable:
        return self.message_table().with_dummies(type(self).__name__, self.dummies)
