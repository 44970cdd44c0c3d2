"""What every local randomizer answers about itself."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Bytes, Floats
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource, source_of


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate, its estimated variance, and how many users stand behind it."""

    value: Floats
    variance: Floats
    users: int

    @property
    def standard_error(self) -> Floats:
        return np.sqrt(np.maximum(self.variance, 0.0))

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """A two-sided normal confidence interval, per component."""
        level = argument.open_probability("interval", "confidence", confidence)
        reach = NormalDist().inv_cdf(0.5 + level / 2) * self.standard_error
        return self.value - reach, self.value + reach


@dataclass(frozen=True)
class OutputTable:
    """The exact output law on a small instance: one row per input, one column per distinct report of a user.

    A report is a user's one message, or a row of all of them where there are several.
    """

    inputs: Array
    messages: Array
    probabilities: tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class HidingTable:
    """What tells a user's value, and what hides it, exactly, on a small instance; one column per distinct message.

    ``rows`` are laws of the message that depends on the value, for inputs among which every kind of pair occurs;
    ``floor`` is below the law of every message that hides it (and what it lacks to 1 hides nothing).
    """

    rows: tuple[tuple[Fraction, ...], ...]
    floor: tuple[Fraction, ...]


@dataclass(frozen=True)
class Tuning:
    """A constructor argument that may be searched for a privacy target: privacy is monotone in it.

    ``whole``: only whole numbers. ``more_is_more_private``: whether a larger value gives more privacy. From ``least``
    to ``most``, both included: where a search looks. A value in this range may still be refused by the constructor
    with a ValueError, at the end where the mechanism tells nothing; infinity stands for no limit. ``below_one``: a
    probability that may come close to 1, where its distance to 1 is what counts.
    """

    name: str
    whole: bool
    more_is_more_private: bool
    least: float
    most: float
    below_one: bool = False


class Mechanism(Randomizer):
    """A local randomizer: the law of its message, how to run it, how to read the messages.

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
    built_from_numbers: ClassVar[bool] = True
    """Whether epsilon and numbers suffice to build it, so that the command line can."""
    tight: ClassVar[bool] = True
    """Whether some pair of inputs attains β and the blanket; otherwise they are proved upper bounds."""
    covers_mixtures: ClassVar[bool] = False
    """Whether every pair of inputs, equal ones included, has a G below that of one of ``blankets()`` in convex order,
    so that the worst case of a mixture of randomizers can be put together from these.

    It is set where every law is the blanket times 1 or a constant c. Then an input x that stays is below its change
    from any other x': G grows by b − a with mean 0, where a = c it does not grow (b ≤ c), where a = 1 it does not fall
    (b ≥ 1), and the former is the smaller value of (1 − e^ε)·a.
    """
    tuning: ClassVar[tuple[Tuning, ...]] = (Tuning("epsilon", False, False, 1e-6, 64.0),)
    """The arguments that may be searched for a privacy target, the usual one first; empty where there is none."""
    has_table: ClassVar[bool] = True
    """Whether the examples' output law can be written down; a vector of many numbers cannot, and ``table`` refuses."""
    epsilon: float

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Settings worth comparing for a plan, besides those searched; ``facts`` are known, such as ``options``."""
        del facts
        yield {}

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments by name, epsilon first."""
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
    def value_range(self) -> tuple[float, float]:
        """Where the numbers lie that it takes, both ends included, if it takes numbers."""
        return -1.0, 1.0

    # --- running it -------------------------------------------------------------------------------------------

    @property
    def words_tried(self) -> float:
        """Random words that a client expands on average before it has a message to send; 0 where nothing is tried."""
        return 0.0

    @abstractmethod
    def check(self, values: Any) -> Array:
        """The values in canonical form, one per user along the first axis; a sentence if any of them is bad."""

    @abstractmethod
    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Messages for checked values."""

    def encode(self, values: Any, rng: Any = None) -> Array:
        """All users' messages. ``rng`` None draws from the operating system; a numpy Generator is for simulations."""
        return self.randomize(self.check(values), source_of(rng))

    @property
    def messages_per_user(self) -> int:
        """How many messages every user sends: a fixed number, so that counting messages tells nothing but n."""
        return 1

    def users_behind(self, messages: int) -> int:
        """How many users sent this many messages; a sentence if no number of users does."""
        users, left = divmod(messages, self.messages_per_user)
        if left:
            who, each = type(self).__name__, self.messages_per_user
            raise ValueError(f"{who}: expected a multiple of {each} messages, {each} from each user, got {messages}.")
        return users

    @property
    @abstractmethod
    def message_bits(self) -> int:
        """Size of one message in bits."""

    @property
    def message_bytes(self) -> int:
        """Size of one message on the wire."""
        return -(-self.message_bits // 8)

    @abstractmethod
    def pack(self, messages: Array) -> Bytes:
        """Messages as rows of ``message_bytes`` bytes."""

    @abstractmethod
    def unpack(self, wire: Bytes) -> Array:
        """The inverse of ``pack``; a sentence if the bytes are not messages of this mechanism."""

    # --- reading the messages ---------------------------------------------------------------------------------

    @abstractmethod
    def accumulate(self, messages: Array) -> Array:
        """A statistic of fixed shape that adds up over batches of messages, whatever their order."""

    @abstractmethod
    def finish(self, total: Array, users: int) -> Estimate:
        """The estimate from the added-up statistic of all messages of ``users`` users."""

    def estimate(self, messages: Array) -> Estimate:
        """The unbiased estimate from all messages."""
        if len(messages) == 0:
            raise ValueError(f"{type(self).__name__}: expected at least one message to estimate from, got none.")
        return self.finish(self.accumulate(messages), self.users_behind(len(messages)))

    @abstractmethod
    def truth(self, values: Any) -> Floats:
        """What ``estimate`` estimates, computed from the true values."""

    @abstractmethod
    def variance(self, values: Any) -> Floats:
        """The exact variance of ``estimate`` per component, for these true values."""

    # --- its privacy ------------------------------------------------------------------------------------------

    @property
    def local_epsilon(self) -> float | None:
        """The local guarantee; None where a report alone promises nothing."""
        return self.epsilon

    def hiding_messages(self, users: int) -> int:
        """How many messages of ``users`` honest users hide each other: one that depends on the value among them."""
        return users

    def attack_messages(self, users: int) -> int:
        """The same number in the datasets of ``attacks``."""
        return self.hiding_messages(users)

    @abstractmethod
    def variation_ratio(self) -> VariationRatio:
        """Upper bounds of the ratio, the total variation and the ratios to the others, of the executed law."""

    @abstractmethod
    def blankets(self) -> Sequence[HidingPair]:
        """For each kind of input pair that may be the worst one: its pair against the privacy blanket.

        The hiding law is the pointwise infimum over all inputs (or a smaller law), then the revealed rest. Empty where
        only the parameters are known.
        """

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        """Where there are only two messages: the least and the largest probability of one of them, over all inputs."""
        return None

    # --- for tests and the catalogue --------------------------------------------------------------------------

    @abstractmethod
    def probe(self) -> Array:
        """Two inputs that are hard to hide from each other, in canonical form: what an audit compares."""

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


def _plain(value: Any) -> Any:
    """A setting as JSON has it; infinity is a text there."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def wire_of_integers(messages: Array, bits: int) -> Bytes:
    """Non-negative integers of at most ``bits`` bits as big-endian rows, so that sorting bytes sorts numbers."""
    width = -(-bits // 8)
    if width in (1, 2, 4, 8):
        return np.ascontiguousarray(messages, dtype=f">u{width}").view(np.uint8).reshape(-1, width)
    wide = np.ascontiguousarray(messages, dtype=">u8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(wide[:, 8 - width :])


def integers_of_wire(who: str, wire: Bytes, bits: int, limit: int) -> NDArray[np.int64]:
    """The inverse of ``wire_of_integers``; refuses rows of another width and numbers of ``limit`` or more."""
    width = -(-bits // 8)
    rows = np.asarray(wire)
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"{who}: expected rows of {width} bytes, got {rows.dtype} of shape {rows.shape}.")
    wide = np.zeros((len(rows), 8), dtype=np.uint8)
    wide[:, 8 - width :] = rows
    numbers = wide.view(">u8").reshape(-1)
    if len(numbers) and int(numbers.max()) >= limit:
        raise ValueError(f"{who}: expected messages below {limit}, got {int(numbers.max())}.")
    return numbers.astype(np.int64)
