"""What every local randomizer answers about itself, and the four parts that answer it."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Bytes, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.reading import Reading, demand_room
from shuffledp.mechanisms.parts.reference import Reference
from shuffledp.mechanisms.parts.sender import Sender
from shuffledp.mechanisms.parts.table_law import TableLaw
from shuffledp.mechanisms.parts.user_values import UserValues, categories
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.privacy.others import Others
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource, source_of

MOST_TABLE_BITS, FEW_TABLE_BITS, MOST_TABLE_ROWS = 8, 4, 256
"""Of messages and inputs, up to which a table is looked at for attacks; the second where the law states some itself."""


class Mechanism(Randomizer, Sender):
    """A local randomizer: the law of its message, how to run it, how to read the messages.

    It is assembled from four parts: ``values`` (what users may hold), ``law`` (what a bound needs to know), ``wire``
    (messages as bytes) and ``reading`` (from messages to an estimate); its own are its settings and ``randomize``.
    Where users send several messages it has a ``crowd``, where a seed can stand for a message a ``reference``.

    Every probability that is executed is a multiple of 2^-64 (or drawn exactly some other way), rounded in the
    direction of privacy. The law, the parameters, the blanket and the estimator are those of the executed randomizer.

    Messages are a numpy array whose first axis runs over messages, a user's messages next to each other; most
    mechanisms send one. ``epsilon`` is the local guarantee; mechanisms that only hide among others' messages have none.
    """

    name: ClassVar[str]
    """The name on the command line."""
    task: ClassVar[str]
    """What it estimates: frequency, mean, set-valued, key-value, vector mean."""
    summary: ClassVar[str]
    take_it: ClassVar[str] = ""
    """When to take it, in one sentence."""
    also_called: ClassVar[tuple[str, ...]] = ()
    """Other names that people know it by."""
    built_from_numbers: ClassVar[bool] = True
    """Whether epsilon and numbers suffice to build it, so that the command line can."""
    built_from_table: ClassVar[str] = ""
    """The one setting that is a table of numbers, where that and numbers suffice: the command line takes a file."""
    built_from_mechanisms: ClassVar[bool] = False
    """Whether its setting ``mechanisms`` is a list of other mechanisms, which a plan writes down one by one."""
    tuning: ClassVar[tuple[Tuning, ...]] = (Tuning("epsilon", False, False, 1e-6, 64.0),)
    """The arguments that may be searched for a privacy target, the usual one first; empty where there is none."""
    has_table: ClassVar[bool] = True
    """Whether the examples' output law can be written down; a vector of many numbers cannot, and ``table`` refuses."""
    epsilon: float

    # --- its parts --------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def values(self) -> UserValues:
        """What users may hold."""

    @property
    @abstractmethod
    def reading(self) -> Reading:
        """From messages to the estimate."""

    @property
    def reference(self) -> Reference | None:
        """A law near every input's that needs no input, where there is one: what a seed can stand for."""
        return None

    # --- its settings -----------------------------------------------------------------------------------------

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Settings worth comparing for a plan, besides those searched; ``facts`` are known, such as ``options``."""
        del facts
        yield {}

    designs_a_front: ClassVar[bool] = False
    """Whether each of ``designs`` is an offer of its own, from little error to few messages; else the first one is."""

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Complete settings for a target, the most useful first, where they follow from it; none: they are searched.

        ``users`` are the fewest honest ones that a target must hold for. ``facts`` are known as for ``variants``, and
        ``facts["users"]``, if it is there, is how many are expected. A plan takes the first that its curve confirms.
        """
        del facts, users, epsilon, delta, rounds
        yield from ()

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments by name, epsilon first, each as it is executed: none is left to a default."""
        fields = [field.name for field in dataclasses.fields(self) if field.init]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in fields}

    def document(self) -> dict[str, Any]:
        """For JSON: its name, its local ε (null where it takes none) and all other settings, as they are in force.

        ``catalogue.read`` builds it again from this.
        """
        settings = {name: value for name, value in self.settings().items() if value is not None}
        local = settings.pop("epsilon", None)
        return {"name": self.name, "epsilon": _plain(local), "settings": {k: _plain(v) for k, v in settings.items()}}

    @property
    @final
    def value_range(self) -> tuple[float, float]:
        """Where the numbers lie that it takes, both ends included, if it takes numbers."""
        return self.values.range

    # --- running it -------------------------------------------------------------------------------------------

    @property
    def words_tried(self) -> float:
        """Random words that a client expands on average before it has a message to send; 0 where nothing is tried."""
        return 0.0

    @final
    def check(self, values: Any) -> Array:
        """The values in canonical form, one per user along the first axis; a sentence if any of them is bad."""
        return self.values.check(values)

    @abstractmethod
    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Messages for checked values."""

    @final
    def encode(self, values: Any, rng: Any = None) -> Array:
        """All users' messages. ``rng`` None draws from the operating system; a numpy Generator is for simulations.

        What the shuffler adds is not among them: ``drawn_by_shuffler`` draws it once for all.
        """
        return self.randomize(self.check(values), source_of(rng))

    @property
    def messages_per_user(self) -> float:
        """How many messages every user sends; on average where their number varies."""
        return self.crowd.per_user

    def drawn_by_shuffler(self, source: RandomSource) -> Array | None:
        """The messages that the shuffler must add to those of the users; None where it has nothing to draw."""
        del source
        return None

    @final
    def users_behind(self, messages: int) -> int:
        """How many users sent this many messages; a sentence if no number of users does, or nobody can tell."""
        who, each = type(self).__name__, self.messages_per_user
        if self.crowd.varies:
            raise ValueError(f"{who}: users send different numbers of messages; say how many users there are.")
        users, left = divmod(messages, int(each))
        if left:
            raise ValueError(f"{who}: expected a multiple of {each} messages, {each} from each user, got {messages}.")
        return users

    @property
    @final
    def message_bits(self) -> int:
        """Size of one message in bits."""
        return self.wire.bits

    @property
    @final
    def message_bytes(self) -> int:
        """Size of one message on the wire."""
        return -(-self.message_bits // 8)

    @final
    def pack(self, messages: Array) -> Bytes:
        """Messages as rows of ``message_bytes`` bytes."""
        return self.wire.pack(messages)

    @final
    def unpack(self, wire: Bytes) -> Array:
        """The inverse of ``pack``; a sentence if the bytes are not messages of this mechanism."""
        return self.wire.unpack(wire)

    @final
    def valid(self, wire: Bytes) -> NDArray[np.bool_]:
        """Which rows of bytes are messages of this mechanism: strangers may send others."""
        return self.wire.valid(wire)

    # --- reading the messages ---------------------------------------------------------------------------------

    @final
    def demand_whole(self, who: str) -> None:
        """Stop, by a sentence of ``who``, where all options at once do not fit into memory."""
        if self.reading.counted is not None:
            demand_room(who, self.reading.counted, self.reading.whole_bytes)

    @property
    def _whole(self) -> Reading:
        """The reading of everything, where there is room for it."""
        self.demand_whole(type(self).__name__)
        return self.reading

    @final
    def accumulate(self, messages: Array) -> Array:
        """A statistic of fixed shape that adds up over batches of messages, whatever their order."""
        return self._whole.accumulate(messages)

    @final
    def finish(self, total: Array, users: int) -> Estimate:
        """The estimate from the added-up statistic of all messages of ``users`` users."""
        return self.reading.finish(total, users)

    @final
    def estimate(self, messages: Array, users: int | None = None) -> Estimate:
        """The unbiased estimate from all messages; ``users`` where their number cannot be told from the messages'.

        A histogram that does not fit is refused: ``estimate_some`` reads the options that are asked for.
        """
        if len(messages) == 0:
            raise ValueError(f"{type(self).__name__}: expected at least one message to estimate from, got none.")
        return self.finish(self.accumulate(messages), self.users_behind(len(messages)) if users is None else users)

    @final
    def reading_of(self, options: Any) -> Reading:
        """How messages are read for these options alone, in this order, in a domain of any size.

        Its ``accumulate`` adds up over batches of messages and its ``finish`` gives the estimate, as for the whole.
        """
        who, counted = type(self).__name__, self.reading.counted
        if counted is None:
            raise ValueError(f"{who}: it does not count how many users hold each option; ask for the whole estimate.")
        return self.reading.some(Asked(categories(who, options, counted)))

    @final
    def estimate_some(self, messages: Array, options: Any, users: int | None = None) -> Estimate:
        """How many users hold each of these options, in this order: what ``estimate`` has at their places.

        Neither time nor memory grows with how many options there are besides. ``users`` as for ``estimate``.

        >>> import numpy as np, shuffledp as sdp
        >>> mechanism = sdp.LocalHash(epsilon=4.0, options=2**48, length=53)
        >>> values = [123_456_789_012] * 700 + [5] * 300
        >>> messages = mechanism.encode(values, np.random.default_rng(1))
        >>> found = mechanism.estimate_some(messages, [5, 123_456_789_012, 7])
        >>> found.value.round(-2).astype(int).tolist(), found.standard_error.round().tolist()
        ([300, 700, 0], [19.0, 27.0, 9.0])
        """
        reading = self.reading_of(options)
        if len(messages) == 0:
            raise ValueError(f"{type(self).__name__}: expected at least one message to estimate from, got none.")
        behind = self.users_behind(len(messages)) if users is None else users
        return reading.finish(reading.accumulate(messages), behind)

    @final
    def truth(self, values: Any) -> Floats:
        """What ``estimate`` estimates, computed from the true values."""
        return self._whole.truth(self.check(values))

    @final
    def variance(self, values: Any) -> Floats:
        """The exact variance of ``estimate`` per component, for these true values."""
        return self._whole.variance(self.check(values))

    @property
    @final
    def influence(self) -> float | None:
        """The most that one liar moves an estimated number by, in users; None where its reading does not tell.

        A liar sends as many messages as are taken from one user, any that the wire admits. It moves a number at most as
        far from what an honest user would have added as so many users do who go from one end of their values to the
        other. Infinity: nothing limits how many messages are taken from one user, or what one says.

        >>> import shuffledp as sdp
        >>> [f"{sdp.KRR(epsilon, options=1024).influence:.2f}" for epsilon in (1.0, 9.6)]
        ['596.36', '1.07']
        """
        sways = self.reading.sways(self.crowd.most)
        return None if sways is None else max(sway.users for sway in sways)

    # --- its privacy ------------------------------------------------------------------------------------------

    @property
    def local_epsilon(self) -> float | None:
        """The local guarantee; None where a report alone promises nothing."""
        return self.epsilon if self.crowd.keeps_local and math.isfinite(self.epsilon) else None

    def premises(self) -> tuple[str, ...]:
        return (*self.crowd.premises(), *super().premises())

    def hiding_messages(self, users: int) -> int:
        return self.crowd.hiding(users)

    @final
    def variation_ratio(self) -> VariationRatio:
        return self.law.variation_ratio()

    @final
    def blankets(self) -> Sequence[HidingPair]:
        return self.law.blankets()

    @final
    def attacks(self) -> Sequence[HidingPair]:
        return self.law.attacks()

    @final
    def derived_attacks(self) -> TableAttacks | None:
        """Those that the table shows, where a message is short enough to write it down."""
        if not (self.has_table and self.one_message_each) or isinstance(self.law, TableLaw):
            return None
        most = FEW_TABLE_BITS if self.law.attacks() else MOST_TABLE_BITS
        return TableAttacks(self) if self.message_bits <= most else None

    @final
    @property
    def one_message_each(self) -> bool:
        return self.crowd.one_each

    @final
    @property
    def why_no_attack(self) -> str:
        return self.law.why_no_attack

    @final
    def others(self) -> Sequence[Others]:
        return self.law.others() if self.crowd.one_each else ()

    @final
    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        return self.law.coin_range()

    # --- for tests and the catalogue --------------------------------------------------------------------------

    @final
    def probe(self) -> Array:
        """Two inputs that are hard to hide from each other, in canonical form: what an audit compares."""
        return self.values.probe()

    @abstractmethod
    def table(self) -> OutputTable:
        """The exact output law, for instances small enough to write down."""

    def hiding_table(self) -> HidingTable:
        """The message that depends on the value against what hides it: here any other user's message."""
        rows = self.table().probabilities
        return HidingTable(rows, tuple(map(min, zip(*rows, strict=True))))

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[Mechanism]:
        """Small instances whose table can be written down; the conformance tests run on these."""


@dataclass(frozen=True)
class TableAttacks:
    """The attacks on a mechanism that its table shows: the inputs that are hardest to hide, among the worst others."""

    mechanism: Mechanism

    def __call__(self) -> Sequence[HidingPair]:
        try:
            # A copy: what it caches on the way is no part of whoever holds this.
            rows = copy(self.mechanism).table().probabilities
            law = TableLaw.of(self.mechanism.name, rows) if len(rows) <= MOST_TABLE_ROWS else None
        except ValueError:
            # Too many inputs to write down, or a table that is no law.
            return ()
        return () if law is None else law.attacks()


def _plain(value: Any) -> Any:
    """A setting as JSON has it; infinity is a text there."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if isinstance(value, Mechanism):
        return value.document()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
