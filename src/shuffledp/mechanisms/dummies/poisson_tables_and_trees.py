"""Several tables, or the levels of a tree: every user sends a message for each, among Poisson dummies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import Category, IntegerVector
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import PoissonErrorLaw
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import AggregateNoiseLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, RangeQueryCapability
from shuffledp.mechanisms.base.message_plan import SharedNoise
from shuffledp.mechanisms.base.range_estimator import ConsistentRangeEstimator
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.mechanisms.dummies.poisson_dummies import (
    MAX_MEAN,
    TUNABLE_MEAN,
    PoissonDummies,
    PoissonDummiesEstimator,
    PoissonDUMP,
    check_positive,
)
from shuffledp.privacy.randomizer_interface import HasParts, Randomizer
from shuffledp.sampling.random_sources import RandomSource

# --- Tables ---


@dataclass(frozen=True)
class PoissonTablesEstimator(Estimator):
    """Estimator of the counts of all options, table after table: message counts minus the mean number of dummies.

    A message is the index of its option among the options of all tables.

    Args:
        options: Options of each table.
        tables: Number of tables.
        dummies: The dummies among the messages.
    """

    options: int
    tables: int
    dummies: PoissonDummies

    def option_indices(self, values: Array) -> Integers:
        """Returns rows of one option per table as indices among all options."""
        return np.asarray(values + self.options * np.arange(self.tables), dtype=np.int64)

    @property
    def _message_count(self) -> int:
        return self.options * self.tables

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self._message_count)

    def finish(self, total: Array, users: int) -> Estimate:
        noise = float(self.dummies.mean_per_kind(users))
        value = np.asarray(total, dtype=np.float64) - noise
        return Estimate(value, np.full(self._message_count, noise), users, PoissonErrorLaw(noise))

    def truth(self, values: Array) -> Floats:
        return np.bincount(self.option_indices(values).reshape(-1), minlength=self._message_count).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return np.full(self._message_count, float(self.dummies.mean_per_kind(len(values))))

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of messages that all name one option."""
        expected = float(self.dummies.mean_per_kind(1))
        return (Influence(-expected, messages - expected),)


ERROR_PREFIX = "PoissonTables"
MAX_KINDS = 1 << 26
"""Largest number of options of all tables together: the estimate holds two numbers for each."""


@dataclass(frozen=True)
class PoissonTables(Mechanism, HasParts):
    """One option of each table in the clear, among a Poisson number of dummies of each option.

    Each user sends one message per table, and a Poisson(tables·options·mean/honest) number of dummies, uniform over all
    options of all tables: then the numbers of dummies are independent and Poisson. Searches in one round use it. There
    is no local ε.

    Theorem: a changed value changes one message a table; the tables' counts are independent, each ``PoissonDUMP`` on
    its options: the exact losses of the tables, composed.
    Requires: options ≥ 2; tables ≥ 1; mean > 0; honest ≥ 0.

    Args:
        options: Options of each table.
        tables: Number of tables; a user's value is a row of as many whole numbers from 0.
        mean: Mean number of dummies of each option in total.
        honest: Number of users who together add that mean; 0 if the shuffler draws all dummies.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range, or there are too many options in total.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.PoissonTables(options=64, tables=3, mean=80.0, honest=10_000)
        >>> f"{mechanism.messages_per_user:.2f}"
        '4.54'
        >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.3f}"
        '1.193'
    """

    options: int = field(metadata=checked(validation.count, at_least=2))
    tables: int = field(metadata=checked(validation.count))
    mean: float = field(metadata=checked(check_positive, at_most=MAX_MEAN))
    honest: int = field(metadata=checked(validation.count, at_least=0))

    name = "poisson-tables"
    task = "several tables"
    summary = "one option of each of several tables, among a Poisson number of dummies of each option"
    use_case = "For values that nobody listed, found in one round by hashed tables, where the shuffler is trusted."
    tunable = (TUNABLE_MEAN,)
    has_table = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.options * self.tables > MAX_KINDS:
            raise ValueError(f"{ERROR_PREFIX}: expected at most {MAX_KINDS} options of all tables, got more.")

    @cached_property
    def dummies(self) -> PoissonDummies:
        """The dummies that hide the options."""
        return PoissonDummies(self.options * self.tables, self.mean, self.honest)

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        """Returns the mechanism of one table, and the number of tables that compose."""
        return [(PoissonDUMP(self.options, self.mean, self.honest), self.tables)]

    @cached_property
    def domain(self) -> IntegerVector:
        return IntegerVector(ERROR_PREFIX, self.options, self.tables)

    @cached_property
    def message_plan(self) -> SharedNoise:
        return self.dummies.build_message_plan(self.tables)

    @cached_property
    def estimator(self) -> PoissonTablesEstimator:
        return PoissonTablesEstimator(self.options, self.tables, self.dummies)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.dummies.add_dummies(self.estimator.option_indices(values), source)

    @cached_property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw("PoissonTables")

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("PoissonTables", self.dummies.kinds)

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        return self.dummies.draw_shuffler_messages(source)

    def table(self) -> OutputTable:
        raise ValueError("PoissonTables: any number of messages cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PoissonTables]:
        return [cls(options=3, tables=2, mean=10.0, honest=100), cls(options=4, tables=3, mean=5.0, honest=50)]


# --- Trees, for counts in ranges of an ordered domain ---


MAX_NODES = 1 << 26
"""Largest number of nodes: the estimate holds two numbers for each."""


def fan_outs(options: int) -> list[int]:
    """Returns, for each possible number of levels, the smallest fan-out, at least 2, that suffices."""
    fan_outs_by_height: dict[int, int] = {}
    height = ValueTree(options, 2).height
    for levels in range(height, 0, -1):
        # The least b with b^levels ≥ options; a float's root may be off by one.
        guess = max(2, round(options ** (1 / levels)) - 1)
        fan_out = next(b for b in range(guess, options + 1) if b**levels >= options)
        fan_outs_by_height.setdefault(ValueTree(options, fan_out).height, fan_out)
    return list(fan_outs_by_height.values())


@dataclass(frozen=True)
class RangeTree(Mechanism, RangeQueryCapability, HasParts):
    """The node of the user's value on every level of a tree in the clear, among Poisson numbers of dummies.

    The tree has as many levels as the values need, and each level's last node may be narrower. Each user sends one
    message per level, and a Poisson(nodes·mean/honest) number of dummies, uniform over all nodes of all levels: then
    the numbers of dummies of all nodes are independent and Poisson. Ranges are estimated by weighted least squares over
    the whole tree. There is no local ε.

    Theorem: a changed value changes one message a level; the levels' counts are independent, each ``PoissonDUMP`` on
    its nodes: the exact losses of the levels, composed. Values that differ on the first level differ on all.
    Requires: options ≥ 2; 2 ≤ fan_out; mean > 0; honest ≥ 0.

    Args:
        options: Number of values; a user's value is a whole number from 0.
        mean: Mean number of dummies of each node in total.
        honest: Number of users who together add that mean; 0 if the shuffler draws all dummies.
        fan_out: Children of each node; with more of them fewer messages are sent.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range, or the tree has too many nodes.

    Example:
        >>> import numpy as np, shuffledp as sdp
        >>> mechanism = sdp.RangeTree(options=100, mean=50.0, honest=10_000)
        >>> mechanism.height, mechanism.nodes, f"{mechanism.messages_per_user:.2f}"
        (7, 201, '8.00')
        >>> messages = mechanism.encode([3] * 5000 + [60] * 5000, rng=np.random.default_rng(1))
        >>> found = mechanism.ranges(mechanism.estimate(messages, users=10_000), [(0, 50)])
        >>> bool(abs(found.value[0] - 5000) < 5 * found.standard_error[0])
        True
    """

    options: int = field(metadata=checked(validation.count, at_least=2))
    mean: float = field(metadata=checked(check_positive, at_most=MAX_MEAN))
    honest: int = field(metadata=checked(validation.count, at_least=0))
    fan_out: int = field(default=2, metadata=checked(validation.count, at_least=2))

    name = "range-tree"
    task = "range queries"
    summary = "the node of every level of a tree, among a Poisson number of dummies of each node"
    use_case = "For ranges by dummies, where the shuffler is trusted."
    tunable = (TUNABLE_MEAN,)
    has_table = False

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the smallest fan-out for each possible number of levels; `facts` must contain `options`."""
        yield from ({"fan_out": fan_out} for fan_out in fan_outs(facts["options"]))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes > MAX_NODES:
            raise ValueError(f"RangeTree: a tree of {self.options} values is too large; at most {MAX_NODES} nodes.")

    @cached_property
    def tree(self) -> ValueTree:
        """The tree of nodes, level after level."""
        return ValueTree(self.options, self.fan_out)

    @property
    def height(self) -> int:
        """The number of levels."""
        return self.tree.height

    @property
    def nodes(self) -> int:
        """The number of different messages."""
        return self.tree.node_count

    @cached_property
    def dummies(self) -> PoissonDummies:
        """The dummies that hide the nodes."""
        return PoissonDummies(self.nodes, self.mean, self.honest)

    # --- Parts ---

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        """Returns the mechanism of one level, whose loss does not depend on its size, and the number of levels."""
        return [(PoissonDUMP(max(2, self.options), self.mean, self.honest), self.height)]

    @cached_property
    def domain(self) -> Category:
        return Category("RangeTree", self.options)

    @cached_property
    def message_plan(self) -> SharedNoise:
        return self.dummies.build_message_plan(self.height)

    @cached_property
    def estimator(self) -> PoissonDummiesEstimator:
        return PoissonDummiesEstimator(self.tree, self.dummies)

    @cached_property
    def range_estimator(self) -> ConsistentRangeEstimator:
        return ConsistentRangeEstimator.from_estimator("RangeTree", self.estimator)

    # --- Running the mechanism ---

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.dummies.add_dummies(self.tree.find_nodes(values), source)

    @cached_property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw("RangeTree")

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("RangeTree", self.dummies.kinds)

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        return self.dummies.draw_shuffler_messages(source)

    def table(self) -> OutputTable:
        raise ValueError("RangeTree: any number of messages cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[RangeTree]:
        return [cls(options=4, mean=10.0, honest=100), cls(options=5, mean=20.0, honest=50, fan_out=3)]
