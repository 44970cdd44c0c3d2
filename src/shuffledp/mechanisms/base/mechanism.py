"""Base class of all mechanisms, and the tables in which small instances write down their exact output laws."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bools, Bytes, Floats
from shuffledp.mechanisms.base.domain import InputDomain, check_categories
from shuffledp.mechanisms.base.encoding import Encoding
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, SelectedOptions, check_memory
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.message_plan import MessagePlan, SingleMessage
from shuffledp.mechanisms.base.range_estimator import ConsistentRangeEstimator, TreeEstimator
from shuffledp.mechanisms.base.seed_compression import Proposal, SeedEstimator
from shuffledp.mechanisms.base.table_law import TableLaw
from shuffledp.privacy.dominating_pairs import HidingPair, MixedOtherUsers, OtherUsers
from shuffledp.privacy.randomizer_interface import HasMixedUsers, Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import RandomSource, resolve_source

# --- Optional capabilities ---


class RangeQueryCapability(ABC):
    """Mechanism that estimates how many users hold a value in a range [a, b), from the nodes of a tree."""

    @property
    @abstractmethod
    def range_estimator(self) -> ConsistentRangeEstimator:
        """The estimator of ranges from the estimates of all nodes."""

    def ranges(self, estimate: Estimate, ranges: Sequence[tuple[int, int]]) -> Estimate:
        """Returns unbiased estimates of the number of users with a value in each range [a, b).

        Args:
            estimate: The result of `estimate(messages)`.
            ranges: Pairs (a, b).

        Returns:
            One component per range.

        Raises:
            ValueError: If a range is empty or outside the domain.
        """
        return self.range_estimator.ranges(estimate, ranges)

    def range_variance(self, values: Any, ranges: Sequence[tuple[int, int]]) -> Floats:
        """Returns the exact variance of `ranges`.

        Args:
            values: The true values, one per user.
            ranges: Pairs (a, b).

        Returns:
            One variance per range.

        Raises:
            ValueError: If a value or a range is outside the domain.
        """
        assert isinstance(self, Mechanism)
        return self.range_estimator.range_variance(self.check(values), ranges)


class MultiQueryCapability(ABC):
    """Mechanism that answers several queries to the same users, each by a mechanism of its own."""

    mechanisms: Sequence[Mechanism]

    @property
    @abstractmethod
    def shares(self) -> tuple[Fraction, ...]:
        """The probability with which a user answers each query."""

    @abstractmethod
    def queries(self, estimate: Estimate) -> list[Estimate]:
        """Splits an estimate into the estimates of the queries.

        Args:
            estimate: The result of `estimate(messages)`.

        Returns:
            One estimate per query, in the shape that its mechanism returns.
        """

    @abstractmethod
    def query_variance(self, number: int, values: Array) -> Floats:
        """Returns the exact variance of the estimate of one query.

        Args:
            number: Index of the query.
            values: The true values of its column, in canonical form.

        Returns:
            One variance per component.
        """


def find_range_estimator(mechanism: Mechanism) -> ConsistentRangeEstimator | None:
    """Returns a mechanism's estimator of ranges, from nodes of a tree or sums of options; None if it has none."""
    estimator = mechanism.estimator.inner if isinstance(mechanism.estimator, SeedEstimator) else mechanism.estimator
    if not isinstance(estimator, TreeEstimator) or not estimator.has_known_covariances:
        return None
    return ConsistentRangeEstimator.from_estimator(type(mechanism).__name__, estimator)


def supports_ranges(kind: type[Mechanism] | Mechanism) -> bool:
    """Returns True if a mechanism, or some example of a class, answers ranges."""
    instances = kind.examples() if isinstance(kind, type) else [kind]
    return any(find_range_estimator(each) is not None for each in instances)


def requires_padding(kind: type[Mechanism] | Mechanism) -> bool:
    """Returns True if users must hold exactly the stated number of items and are padded with dummies."""
    instances = kind.examples() if isinstance(kind, type) else [kind]
    return any(each.domain.requires_padding for each in instances)


# --- Exact output laws of small instances ---


@dataclass(frozen=True)
class OutputTable:
    """Exact output law of a small instance: one row per input, one column per distinct report of a user.

    A report is the user's only message, or a row of all their messages if they send several.

    Args:
        inputs: The inputs, one per row of `probabilities`.
        messages: The distinct reports, one per column of `probabilities`.
        probabilities: The exact probability of each report given each input.
    """

    inputs: Array
    messages: Array
    probabilities: tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class HidingTable:
    """Exact laws, on a small instance, of the message that reveals a user's value and of the messages that hide it.

    Both have one column per distinct message.

    Args:
        rows: Laws of the message that depends on the value, for inputs among which every kind of pair occurs.
        blanket: A pointwise lower bound of the law of every hiding message. Its missing mass to 1 hides nothing.
    """

    rows: tuple[tuple[Fraction, ...], ...]
    blanket: tuple[Fraction, ...]


# --- Senders: the law, the bytes and the number of messages decide whether two groups hide each other ---


class Sender(HasMixedUsers):
    """Sender of messages of a known law."""

    @property
    @abstractmethod
    def law(self) -> Law:
        """The law of a message, as bounds need it."""

    @property
    @abstractmethod
    def encoding(self) -> Encoding:
        """The encoding of messages as bytes."""

    @property
    def message_plan(self) -> MessagePlan:
        """The number of messages that each user sends, and how many of them hide each other."""
        return SingleMessage()

    @final
    def distinguishing_reason(self, other: HasMixedUsers) -> str:
        if not (
            self.message_plan.is_single_message and isinstance(other, Sender) and other.message_plan.is_single_message
        ):
            return "not every user sends one message"
        return "" if self.encoding == other.encoding else "their messages have different forms"

    @final
    def mixed_other_users(self, groups: Sequence[HasMixedUsers]) -> Sequence[MixedOtherUsers]:
        laws = [group.law for group in groups if isinstance(group, Sender) and not self.distinguishing_reason(group)]
        return self.law.mixed_other_users(laws) if len(laws) == len(groups) else ()


# --- Tunable parameters ---


@dataclass(frozen=True)
class TunableParameter:
    """Constructor argument that can be searched for a privacy target, because privacy is monotone in it.

    Args:
        name: Name of the argument.
        is_integer: True if only whole numbers are allowed.
        more_is_more_private: True if a larger value gives more privacy.
        minimum: Smallest value that a search tries, included. The constructor may still raise ValueError within the
            range, at the end where messages carry no information.
        maximum: Largest value that a search tries, included; infinity for no limit.
        approaches_one: True for a probability that may approach 1, where the distance to 1 matters.
    """

    name: str
    is_integer: bool
    more_is_more_private: bool
    minimum: float
    maximum: float
    approaches_one: bool = False


MAX_TABLE_BITS, MAX_TABLE_BITS_WITH_ATTACKS, MAX_TABLE_ROWS = 8, 4, 256
"""Limits of the table search for attacks: bits of a message, the same if the law states attacks itself, and inputs."""


# --- Mechanisms ---


class Mechanism(Randomizer, Sender):
    """Local randomizer with the law of its messages, their encoding and their estimator.

    A mechanism is assembled from four parts: `domain` (the input domain), `law` (the output laws, as bounds need them),
    `encoding` (the encoding of messages as bytes) and `estimator` (the estimator). It adds its own settings and
    `randomize`. If users send several messages it also has a message plan, `message_plan`; if a seed can stand for a
    message it has a `proposal` law.

    Every executed probability is a multiple of 2^-64 (or drawn exactly in some other way), rounded in the direction of
    privacy. The law, the parameters, the blanket and the estimator are those of the executed randomizer.

    Messages are a numpy array whose first axis runs over messages, with the messages of one user next to each other;
    most mechanisms send one message per user. `epsilon` is the local guarantee. Mechanisms whose messages hide only
    among the messages of others have no local guarantee.

    Subclasses are frozen dataclasses whose init fields are the constructor's settings.
    """

    name: ClassVar[str]
    """Name on the command line and in the catalogue."""
    task: ClassVar[str]
    """The estimated quantity: frequency, mean, set-valued, key-value or vector mean."""
    summary: ClassVar[str]
    use_case: ClassVar[str] = ""
    """One sentence that says when to choose this mechanism."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Alternative names in the literature."""
    has_numeric_settings: ClassVar[bool] = True
    """True if ε and numbers suffice to build the mechanism, so that the command line can do it."""
    table_setting: ClassVar[str] = ""
    """Name of the setting that is a table, if a table and numbers suffice; the command line reads it from a file."""
    combines_mechanisms: ClassVar[bool] = False
    """True if the setting `mechanisms` is a list of other mechanisms, which a plan writes down one by one."""
    tunable: ClassVar[tuple[TunableParameter, ...]] = (TunableParameter("epsilon", False, False, 1e-6, 64.0),)
    """Arguments that can be searched for a privacy target, the usual one first; empty if there are none."""
    has_table: ClassVar[bool] = True
    """True if the output law of the examples can be written down. If False (long vectors), `table` raises."""
    epsilon: float

    def __post_init__(self) -> None:
        validation.check_fields(self)

    # --- Parts ---

    @property
    @abstractmethod
    def domain(self) -> InputDomain:
        """The domain of users' values."""

    @property
    @abstractmethod
    def estimator(self) -> Estimator:
        """The estimator, from messages to an estimate."""

    @property
    def proposal(self) -> Proposal | None:
        """An input-independent law close to every output law, for which seeds can stand; None if there is none."""
        return None

    # --- Settings ---

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the settings worth comparing in a plan, besides those that are searched.

        Args:
            facts: Known settings, such as `options`.

        Yields:
            Keyword arguments of the constructor.
        """
        del facts
        yield {}

    has_design_frontier: ClassVar[bool] = False
    """True if each of `designs` is a candidate of its own, from low error to few messages; else only the first is."""

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields complete settings for a privacy target, the most useful first, if they follow from the target.

        A plan takes the first design whose privacy curve meets the target. If there are no designs, settings are
        searched.

        Args:
            facts: Known settings as for `variants`. `facts["users"]`, if present, is the expected number of users.
            users: The smallest number of honest users for which the target must hold.
            epsilon: Target ε of the shuffled messages.
            delta: Target δ.
            rounds: Number of rounds that compose to the target.

        Yields:
            Keyword arguments of the constructor.
        """
        del facts, users, epsilon, delta, rounds
        yield from ()

    def settings(self) -> dict[str, Any]:
        """Returns the constructor's arguments by name, ε first, with the executed values in place of defaults."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.init}  # type: ignore[arg-type]

    def to_document(self) -> dict[str, Any]:
        """Returns the name, the local ε (null if it takes none) and all other settings in force, ready for JSON.

        `catalogue.from_document` rebuilds the mechanism from it.
        """
        settings = {name: value for name, value in self.settings().items() if value is not None}
        local = settings.pop("epsilon", None)
        return {
            "name": self.name,
            "epsilon": _to_json_value(local),
            "settings": {k: _to_json_value(v) for k, v in settings.items()},
        }

    @property
    @final
    def value_range(self) -> tuple[float, float]:
        """The smallest and the largest number that users may hold, both included, if values are numbers."""
        return self.domain.value_range

    # --- Running the mechanism ---

    @property
    def expected_random_words(self) -> float:
        """The mean number of random words that a client expands to find a message; 0 without rejection sampling."""
        return 0.0

    @final
    def check(self, values: Any) -> Array:
        """Returns the values in canonical form.

        Args:
            values: One value per user along the first axis.

        Returns:
            An array with one value or row per user.

        Raises:
            TypeError: If values have the wrong type.
            ValueError: If any value is outside the domain, or there is none.
        """
        return self.domain.check(values)

    @abstractmethod
    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns the messages for checked values.

        Args:
            values: Values in canonical form, as `check` returns them.
            source: Source of randomness.

        Returns:
            The messages along the first axis, those of one user next to each other.
        """

    @final
    def encode(self, values: Any, rng: Any = None) -> Array:
        """Returns the messages of all users.

        Messages that the shuffler adds are not among them: `draw_shuffler_messages` draws these once for all users.

        Args:
            values: One value per user along the first axis.
            rng: None to draw from the operating system; a numpy Generator for simulations.

        Returns:
            The messages along the first axis, those of one user next to each other.

        Raises:
            TypeError: If values have the wrong type.
            ValueError: If any value is outside the domain, or there is none.
        """
        return self.randomize(self.check(values), resolve_source(rng))

    @property
    def messages_per_user(self) -> float:
        """The number of messages that each user sends, on average if it varies."""
        return self.message_plan.messages_per_user

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        """Draws the messages that the shuffler must add to those of the users.

        Args:
            source: Source of randomness.

        Returns:
            The messages, or None if the shuffler adds none.
        """
        del source
        return None

    @final
    def count_users(self, messages: int) -> int:
        """Returns how many users sent a number of messages.

        Args:
            messages: Number of messages of all users.

        Returns:
            The number of users.

        Raises:
            ValueError: If the number of messages per user varies, or `messages` is not a multiple of it.
        """
        who, each = type(self).__name__, self.messages_per_user
        if self.message_plan.is_variable:
            raise ValueError(f"{who}: users send different numbers of messages; say how many users there are.")
        users, left = divmod(messages, int(each))
        if left:
            raise ValueError(f"{who}: expected a multiple of {each} messages, {each} from each user, got {messages}.")
        return users

    @property
    @final
    def message_bits(self) -> int:
        """The size of one message in bits."""
        return self.encoding.bits

    @property
    @final
    def message_bytes(self) -> int:
        """The size of one encoded message in bytes."""
        return -(-self.message_bits // 8)

    @final
    def pack(self, messages: Array) -> Bytes:
        """Encodes messages as bytes.

        Args:
            messages: Messages along the first axis.

        Returns:
            One row of `message_bytes` bytes per message.
        """
        return self.encoding.pack(messages)

    @final
    def unpack(self, wire: Bytes) -> Array:
        """Decodes messages; the inverse of `pack`.

        Args:
            wire: One row of `message_bytes` bytes per message.

        Returns:
            Messages along the first axis.

        Raises:
            ValueError: If the rows have the wrong width or are not messages of this mechanism.
        """
        return self.encoding.unpack(wire)

    @final
    def valid(self, wire: Bytes) -> Bools:
        """Returns which rows of bytes are messages of this mechanism, since anybody may send other bytes.

        Args:
            wire: Rows of `message_bytes` bytes.

        Returns:
            A boolean for each row.

        Raises:
            ValueError: If the rows have the wrong width.
        """
        return self.encoding.valid(wire)

    # --- Estimation ---

    @final
    def check_estimate_memory(self, who: str) -> None:
        """Checks that an estimate of all options fits into memory.

        Args:
            who: Name that begins the error message.

        Raises:
            ValueError: If it does not fit.
        """
        if self.estimator.option_count is not None:
            check_memory(who, self.estimator.option_count, self.estimator.full_estimate_bytes)

    @property
    def _full_estimator(self) -> Estimator:
        """The estimator of all options, if they fit into memory."""
        self.check_estimate_memory(type(self).__name__)
        return self.estimator

    @final
    def accumulate(self, messages: Array) -> Array:
        """Returns a statistic of fixed shape that is additive over batches of messages, in any order.

        Args:
            messages: A batch of messages.

        Returns:
            The statistic.

        Raises:
            ValueError: If a histogram of all options does not fit into memory.
        """
        return self._full_estimator.accumulate(messages)

    @final
    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the estimate from the accumulated statistic.

        Args:
            total: The sum of `accumulate` over all messages.
            users: Number of users who sent them.

        Returns:
            The unbiased estimate.
        """
        return self.estimator.finish(total, users)

    @final
    def estimate(self, messages: Array, users: int | None = None) -> Estimate:
        """Returns the unbiased estimate from all messages.

        Args:
            messages: All messages, those of the shuffler included.
            users: Number of users; needed if it does not follow from the number of messages.

        Returns:
            The estimate with its estimated variance.

        Raises:
            ValueError: If there are no messages, if `users` is needed, or if a histogram of all options does not fit
                into memory (`estimate_some` estimates chosen options).
        """
        users = self._check_messages(messages, users)
        return self.finish(self.accumulate(messages), users)

    def _check_messages(self, messages: Array, users: int | None) -> int:
        """Returns the number of users, by default from that of the messages; raises ValueError if there are none."""
        if len(messages) == 0:
            raise ValueError(f"{type(self).__name__}: expected at least one message to estimate from, got none.")
        return self.count_users(len(messages)) if users is None else users

    @final
    def build_estimator(self, options: Any) -> Estimator:
        """Returns an estimator of chosen options alone, in a domain of any size.

        Its `accumulate` is additive over batches of messages and its `finish` returns the estimate.

        Args:
            options: Numbers of the options, in the order of the answers.

        Returns:
            The estimator.

        Raises:
            TypeError: If the options are not whole numbers.
            ValueError: If an option is outside the domain, or the mechanism does not estimate counts of options.
        """
        who, option_count = type(self).__name__, self.estimator.option_count
        if option_count is None:
            raise ValueError(f"{who}: it does not count how many users hold each option; ask for the whole estimate.")
        return self.estimator.select(SelectedOptions(check_categories(who, options, option_count)))

    @final
    def estimate_some(self, messages: Array, options: Any, users: int | None = None) -> Estimate:
        """Returns how many users hold each of the chosen options: the components of `estimate` for these options.

        Neither time nor memory grows with the number of other options.

        Args:
            messages: All messages, those of the shuffler included.
            options: Numbers of the options, in the order of the answers.
            users: Number of users; needed if it does not follow from the number of messages.

        Returns:
            The unbiased estimate, one component per chosen option.

        Raises:
            TypeError: If the options are not whole numbers.
            ValueError: If an option is outside the domain, there are no messages, `users` is needed, or the mechanism
                does not estimate counts of options.

        Example:
            >>> import numpy as np, shuffledp as sdp
            >>> mechanism = sdp.LocalHash(epsilon=4.0, options=2**48, length=53)
            >>> values = [123_456_789_012] * 700 + [5] * 300
            >>> messages = mechanism.encode(values, np.random.default_rng(1))
            >>> found = mechanism.estimate_some(messages, [5, 123_456_789_012, 7])
            >>> found.value.round(-2).astype(int).tolist(), found.standard_error.round().tolist()
            ([300, 700, 0], [19.0, 27.0, 9.0])
        """
        estimator = self.build_estimator(options)
        users = self._check_messages(messages, users)
        return estimator.finish(estimator.accumulate(messages), users)

    @final
    def truth(self, values: Any) -> Floats:
        """Returns the estimated quantity, computed from the true values.

        Args:
            values: The true values, one per user.

        Returns:
            One number per component of the estimate.

        Raises:
            TypeError: If values have the wrong type.
            ValueError: If any value is outside the domain, or the options do not fit into memory.
        """
        return self._full_estimator.truth(self.check(values))

    @final
    def variance(self, values: Any) -> Floats:
        """Returns the exact variance of `estimate` per component.

        Args:
            values: The true values, one per user.

        Returns:
            One variance per component of the estimate.

        Raises:
            TypeError: If values have the wrong type.
            ValueError: If any value is outside the domain, or the options do not fit into memory.
        """
        return self._full_estimator.variance(self.check(values))

    @property
    @final
    def influence(self) -> float | None:
        """The most by which one lying user moves an estimated number, in users; None if the estimator does not know.

        A liar sends as many messages as are accepted from one user, any that the encoding admits. They move a number,
        away from the contribution of an honest user, at most as far as this many users do who move from one end of
        their range to the other. Infinity: the number of messages per user, or their contribution, is unlimited.

        >>> import shuffledp as sdp
        >>> [f"{sdp.KRR(epsilon, options=1024).influence:.2f}" for epsilon in (1.0, 9.6)]
        ['596.36', '1.07']
        """
        influences = self.estimator.influence(self.message_plan.max_messages)
        return None if influences is None else max(each.equivalent_users for each in influences)

    # --- Privacy ---

    @property
    def local_epsilon(self) -> float | None:
        """The local guarantee; None if a report alone has none."""
        return self.epsilon if self.message_plan.has_local_guarantee and math.isfinite(self.epsilon) else None

    def premises(self) -> tuple[str, ...]:
        return (*self.message_plan.premises(), *super().premises())

    def hiding_messages(self, users: int) -> int:
        """Returns how many messages hide each other, the one that depends on the value included.

        Args:
            users: Number of honest users.

        Returns:
            The number of messages.
        """
        return self.message_plan.hiding_messages(users)

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
        """Returns the search for attacks in the output table, or None if messages are too long for a table."""
        if not (self.has_table and self.one_message_each) or isinstance(self.law, TableLaw):
            return None
        limit = MAX_TABLE_BITS_WITH_ATTACKS if self.law.attacks() else MAX_TABLE_BITS
        return TableAttacks(self) if self.message_bits <= limit else None

    @final
    @property
    def one_message_each(self) -> bool:
        return self.message_plan.is_single_message

    @final
    @property
    def missing_attack_reason(self) -> str:
        return self.law.missing_attack_reason

    @final
    def other_users(self) -> Sequence[OtherUsers]:
        return self.law.other_users() if self.message_plan.is_single_message else ()

    @final
    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        return self.law.coin_range()

    # --- Tests and the catalogue ---

    @final
    def audit_pair(self) -> Array:
        """Returns two inputs that are hard to hide from each other, in canonical form; an audit compares them."""
        return self.domain.audit_pair()

    @abstractmethod
    def table(self) -> OutputTable:
        """Returns the exact output law; only for instances small enough to write it down.

        Raises:
            ValueError: If the instance is too large.
        """

    def hiding_table(self) -> HidingTable:
        """Returns the laws of the revealing and the hiding messages; here any other user's message hides."""
        rows = self.table().probabilities
        return HidingTable(rows, tuple(map(min, zip(*rows, strict=True))))

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[Mechanism]:
        """Returns small instances whose table can be written down; the conformance tests run on them."""


@dataclass(frozen=True)
class TableAttacks:
    """The attacks that a mechanism's table shows: the inputs hardest to hide, among the worst other inputs."""

    mechanism: Mechanism

    def __call__(self) -> Sequence[HidingPair]:
        try:
            # On a copy, so that the caller's mechanism keeps none of the caches.
            rows = copy(self.mechanism).table().probabilities
            law = TableLaw.from_rows(self.mechanism.name, rows) if len(rows) <= MAX_TABLE_ROWS else None
        except ValueError:
            # Too many inputs to write down, or the rows are not probability distributions.
            return ()
        return () if law is None else law.attacks()


def _to_json_value(value: Any) -> Any:
    """Returns a setting as a JSON value; infinity becomes text."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if isinstance(value, Mechanism):
        return value.to_document()
    if isinstance(value, list | tuple):
        return [_to_json_value(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
