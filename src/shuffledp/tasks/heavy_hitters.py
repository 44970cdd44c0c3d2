"""Heavy hitters: values that many users hold, found without a public list, over several rounds or in one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import phrase
from shuffledp._core.validation import Array, Bytes, Floats, Integers
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.dummies.poisson_dummies import PoissonDummiesEstimator
from shuffledp.sampling.hashing import assign_buckets
from shuffledp.sampling.prefix_codes import BitCode, first_bits
from shuffledp.tasks import heavy_hitters_design
from shuffledp.tasks.base import Needs, Quantity, Sensitivity, Task, count_shape
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.domain import PLAN_PREFIX, TASK_PREFIX, TaskOptions, Values
from shuffledp.tasks.heavy_hitters_design import CONFIRMING_TABLES, BucketBackground, SearchLaw, SearchRequirements
from shuffledp.tasks.heavy_hitters_search import (
    OpenDomain,
    PrefixCandidates,
    SearchSimulation,
    SimulatedUsers,
    ValueSearch,
    build_open_domain,
    draw_zipf_users,
    escape_unprintable,
    to_byte_strings,
)

if TYPE_CHECKING:
    import pyarrow as pa


# --- Searches in general ---


class SearchTask(Task, ValueSearch):
    """A task that finds values without a public list; its constructor takes ``constructor_arguments``."""

    open_domain: OpenDomain
    reach: int
    room: int

    unit = "users"
    allows_shuffler_noise = True
    accepted_options: ClassVar[tuple[str, ...]] = ("strings", "bits", "reach")

    def _set_common_settings(self, strings: int | None, bits: int | None, reach: int | None, room: int) -> None:
        """Sets the settings that all searches share."""
        domain = build_open_domain(strings, bits)
        reach = validation.count(TASK_PREFIX, "reach", domain.default_reach if reach is None else reach)
        object.__setattr__(self, "open_domain", domain)
        object.__setattr__(self, "reach", min(reach, domain.max_code_bits))
        most = heavy_hitters_design.ROOM_CHOICES[-1]
        object.__setattr__(self, "room", validation.count(TASK_PREFIX, "room", room, at_least=2, at_most=most))

    @property
    def domain(self) -> Values:
        return self.open_domain.domain

    @property
    def code_name(self) -> str:
        """The name of the public code, which must be the same for all participants."""
        return self.open_domain.name

    def constructor_arguments(self) -> dict[str, Any]:
        """Returns all settings, those of the domain included, by the names of the constructor's arguments."""
        settings = {name: getattr(self, name) for name in self.parameters if name != "code_name"}
        return self.domain.to_document() | settings

    def build_search_requirements(self, needs: Needs, mean: float = 0.0) -> SearchRequirements:
        """Returns the target and the limits of a design.

        Args:
            needs: The privacy target and the users.
            mean: About how many dummies hide each option.
        """
        bits = heavy_hitters_design.DEFAULT_MAX_BITS if needs.bits is None else needs.bits
        messages = float("inf") if needs.messages is None else needs.messages
        fixed = self.open_domain.has_fixed_length
        return SearchRequirements(needs.users, needs.rounds, mean, self.reach, fixed, bits, messages, needs.by_shuffler)

    def check_mechanism(self, mechanism: Mechanism) -> None:
        if not self.can_use(mechanism):
            raise ValueError(f"{PLAN_PREFIX}: the task {self.name!r} cannot be done by {mechanism.name}.")
        settings = mechanism.settings()
        for name, number in self.mechanism_settings.items():
            if settings[name] != number:
                raise ValueError(
                    f"{PLAN_PREFIX}: {mechanism.name} has {name} = {settings[name]}, but the search has {number}."
                )

    def is_number_column(self, place: int) -> bool:
        del place
        return self.open_domain.has_fixed_length

    def draw_simulated_users(self, users: int) -> SimulatedUsers:
        return draw_zipf_users(self.open_domain, users)

    @classmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        settings = dict(parameters)
        code = settings.pop("code_name")
        task = cls(**domain.to_document(), **settings)
        if task.code_name != code:
            raise ValueError(
                f"{PLAN_PREFIX}: expected the code {task.code_name!r}, got {code!r}; use the version that has it."
            )
        return task

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        build: Callable[..., Task] = cls
        return build(**{name: given.optional_count(name) for name in cls.accepted_options})


# --- Heavy hitters in one round ---
#
# Prefixes of all lengths are collected at once, in hashed tables. Each table counts the users whose prefix of the
# table's length falls into each bucket. Prefixes that stand out in the first table are lengthened, and survive if they
# stand out in the next one, until all bits are found. Two more tables confirm the finds by other hashes. The last table
# decides nothing and counts the finds.


FLOOR_DEVIATIONS = 1.3
"""Standard deviations below ``keep`` at which an item passes both confirming tables with 1% probability."""


@dataclass(frozen=True, init=False)
class HittersAtOnce(SearchTask):
    """Texts or numbers that many users hold, found in one round without a public list.

    A plan chooses ``room``, ``step`` and ``keep``.

    Args:
        strings: Largest number of bytes of a text. Give either ``strings`` or ``bits``.
        bits: Largest number of bits of an integer.
        reach: Number of bits of a code to be found; by default 64 for texts (fewer for short ones) and all bits for
            numbers.
        room: Number of buckets of a table.
        step: Number of bits by which the prefixes of each table are longer than those of the table before.
        keep: Excess of users over the average above which a bucket stands out.

    Raises:
        ValueError: If both or neither of ``strings`` and ``bits`` are given, or an argument is out of range.
        TypeError: If an argument is not a number.

    >>> task = HittersAtOnce(bits=48).choose_settings(Needs(10**6, 1.0, 1e-8))
    >>> task.room, task.depths[:3], task.tables
    (65536, (16, 20, 24), 12)
    """

    open_domain: OpenDomain
    reach: int
    room: int
    step: int
    keep: float

    name = "heavy hitters at once"
    mechanism_tasks: ClassVar[tuple[str, ...]] = ("several tables",)
    data_description = "one count of the last table"
    parameters: ClassVar[tuple[str, ...]] = ("code_name", "reach", "room", "step", "keep")

    def __init__(
        self,
        strings: int | None = None,
        bits: int | None = None,
        *,
        reach: int | None = None,
        room: int = 2,
        step: int = 1,
        keep: float = 1.0,
    ) -> None:
        self._set_common_settings(strings, bits, reach, room)
        longest = heavy_hitters_design.MAX_STEP
        object.__setattr__(self, "step", validation.count(TASK_PREFIX, "step", step, at_most=longest))
        object.__setattr__(self, "keep", validation.positive_finite(TASK_PREFIX, "keep", keep))

    # --- Domain, mechanisms and rounds ---

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The length in bits of the prefixes of each table; the last tables confirm and count."""
        lengths = heavy_hitters_design.prefix_lengths(self.room, self.step, self.reach)
        return lengths + (self.reach,) * (CONFIRMING_TABLES + 1)

    @property
    def tables(self) -> int:
        """The number of tables of counters, one for each of `depths`."""
        return len(self.depths)

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"options": self.room, "tables": self.tables}

    def choose_settings(self, needs: Needs) -> Self:
        if needs.rounds > 1:
            raise InvalidArgument(
                PLAN_PREFIX, f"the task {self.name!r} has one round", hint=phrase("leave out {rounds}")
            )
        requirements = self.build_search_requirements(needs)
        design = heavy_hitters_design.design_table_search(requirements, needs.epsilon, needs.delta)
        settings: dict[str, Any] = {"room": design.room, "step": design.step, "keep": round(design.keep, 1)}
        return type(self)(**(self.constructor_arguments() | settings))

    # --- Errors ---

    def representative_values(self, mechanism: Mechanism) -> Array:
        return np.zeros((1, self.tables), dtype=np.int64)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0 * self.tables, math.sqrt(2.0 * self.tables))

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        del variance
        return self._background(mechanism, users).standard_deviation(self.keep)

    def _background(self, mechanism: Mechanism, users: int) -> BucketBackground:
        noise = float(mechanism.variance(self.representative_values(mechanism))[0])
        return BucketBackground(users, self.room, noise if mechanism.message_plan.has_shuffler_noise else noise * users)

    def threshold(self, mechanism: Mechanism, users: int) -> int:
        """Returns the smallest number of users with whom an item is found with 99% probability.

        Other values in its buckets only add to it.

        Args:
            mechanism: Mechanism that is used.
            users: Number of users.

        Returns:
            The number of users that hold the item.
        """
        background = self._background(mechanism, users)
        law = SearchLaw(background.mean, self.tables - 1, self.keep, self.keep, self.room)
        return law.threshold + math.ceil(background.mean_other_users)

    def promises(self, mechanism: Mechanism, users: int) -> dict[str, float]:
        background = self._background(mechanism, users)
        share = background.occupied_fraction(self.keep)
        items = users / (heavy_hitters_design.ZIPF_DIVISOR * self.keep)
        growth = min(0.99, share * 2.0**self.step)
        noise = self.tables * self.room * background.mean if mechanism.message_plan.has_shuffler_noise else 0.0
        return {
            "threshold": float(self.threshold(mechanism, users)),
            "floor": max(0.0, math.floor(self.keep - FLOOR_DEVIATIONS * background.standard_deviation(self.keep))),
            "false_finds": items * growth / (1 - growth) * share**CONFIRMING_TABLES,
            "messages_read": mechanism.messages_per_user * users + noise,
        }

    def describe_promises(self, promise: Mapping[str, float]) -> list[tuple[str, str]]:
        if "threshold" not in promise:
            return []
        return [
            ("found", f"values of at least {promise['threshold']:,.0f} users, each with 99% probability"),
            ("rarely found", f"values of at most about {promise['floor']:,.0f} users"),
            ("false finds", f"about {promise['false_finds']:.2g}, assuming Zipf's law"),
            ("reach", f"codes of {self.reach} bits: {self.open_domain.describe_reach(self.reach)}"),
            *_describe_server_time(promise),
        ]

    def ranking_remark(self, offered: Sequence[Mechanism]) -> str:
        first = offered[0]
        users = getattr(first, "honest", 0)
        found = f"values of at least {self.threshold(first, users):,} users" if users else "see the plan"
        return (
            f"Found with 99% probability: {found}. The search has {self.tables} tables of {self.room:,} buckets; a "
            f"bucket stands out with {self.keep:g} users more than the average. {self.reach} bits of a code are found: "
            f"{self.open_domain.describe_reach(self.reach)}. Several rounds (--rounds 8) find values of fewer users."
        )

    # --- Input and report ---

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        places, values = self.open_domain.read_column(column, array)
        return self._find_buckets(self.open_domain.code.rows(values, self.reach))[places]

    def _find_buckets(self, rows: Bytes) -> Integers:
        """Returns the bucket of each code in every table."""
        return np.stack([self._find_table_bucket(rows, table) for table in range(self.tables)], axis=1)

    def _find_table_bucket(self, rows: Bytes, table: int) -> Integers:
        return assign_buckets(first_bits(rows, self.depths[table]), table, self.room)

    def find_values(self, counts: Floats, users: int) -> PrefixCandidates:
        """Finds the values that stand out in every table but the last.

        Args:
            counts: Estimated counts, one row for each table.
            users: Number of users.

        Returns:
            The values, or prefixes of ``reach`` bits.
        """
        found, kept = PrefixCandidates.from_root(self.open_domain.code), np.arange(1)
        for table in range(self.tables - 1):
            if table == 0 or self.depths[table] > self.depths[table - 1]:
                found = found.lengthen(kept, self.depths[table])
                kept = np.arange(len(found))
            above = counts[table, self._find_table_bucket(found.bits[kept], table)] - users / self.room
            order = np.argsort(-above, kind="stable")
            kept = kept[order[above[order] > self.keep][: self.room]]
        return found.lengthen(kept, self.reach)

    def _count_finds(self, counts: Floats, found: PrefixCandidates, confidence: float) -> tuple[Quantity, Integers]:
        """Counts the finds by the last table, largest first; also returns the order of the finds.

        The background of a bucket is estimated by the buckets without a find. If finds share a bucket, the counts of
        the others in the table before are subtracted.
        """
        last, place = counts[-1], self._find_table_bucket(found.bits, self.tables - 1)
        rest = np.delete(last, np.unique(place))
        before = counts[-2, self._find_table_bucket(found.bits, self.tables - 2)] - rest.mean()
        sharing = np.bincount(place, minlength=self.room)[place]
        others = np.bincount(place, weights=before, minlength=self.room)[place] - before
        value = last[place] - rest.mean() - np.where(sharing > 1, others, 0.0)
        ends = np.quantile(rest, [(1 - confidence) / 2, (1 + confidence) / 2]) - rest.mean()
        wider, order = np.sqrt(sharing), np.argsort(-value, kind="stable")
        columns = (value, wider * rest.std(), np.maximum(value - wider * ends[1], 0.0), value - wider * ends[0])
        labels = tuple(escape_unprintable(found.label(int(one))) for one in order)
        return Quantity("users", labels, *(column[order] for column in columns)), order

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        counts = estimate.value.reshape(self.tables, self.room)
        found, _ = self._count_finds(counts, self.find_values(counts, estimate.users), confidence)
        return [replace(found, shape=count_shape(estimate.users, all_in_one=False))]

    # --- Simulation ---

    def simulate_search(
        self, mechanism: Mechanism, simulated: SimulatedUsers, confidence: float, rng: np.random.Generator
    ) -> SearchSimulation:
        users = int(simulated.counts.sum())
        mean = self._background(mechanism, users).mean
        rows = self.open_domain.code.rows(simulated.values, self.reach)
        held = [np.bincount(one, weights=simulated.counts, minlength=self.room) for one in self._find_buckets(rows).T]
        counts = np.asarray(np.stack(held) + rng.poisson(mean, (self.tables, self.room)) - mean, dtype=np.float64)
        finds = self.find_values(counts, users)
        shown, order = self._count_finds(counts, finds, confidence)
        truth = finds.count_users(simulated.sorted_values)[order]
        heavy = simulated.counts >= self.threshold(mechanism, users)
        recalled = np.isin(to_byte_strings(rows[heavy]), to_byte_strings(finds.bits))
        return SearchSimulation(
            heavy=int(heavy.sum()), recalled=int(recalled.sum()), shown=len(finds), whole=int(finds.is_complete.sum()),
            true_counts=truth, covering_intervals=_count_covering_intervals(shown, truth),
        )  # fmt: skip


OPTIONS_PER_SURVIVOR = 2
"""Options per survivor, at least: every round must be able to lengthen the survivors."""
SAMPLE_OPTIONS = 1024


@dataclass(frozen=True, init=False)
class HeavyHitters(SearchTask):
    """Texts or numbers that many users hold, found over several rounds without a public list.

    Every value has a public binary code (``sampling/prefix_codes.py``). The first round counts all prefixes of some
    length, each later round those that survived, lengthened. Users whose value has none of these prefixes send an
    option of its own, which hides others like any option. A plan chooses ``room``, ``keep``, ``show`` and ``rounds``;
    each round writes the plan of the next.

    Args:
        strings: Largest number of bytes of a text. Give either ``strings`` or ``bits``.
        bits: Largest number of bits of an integer.
        reach: Number of bits of a code to be found; by default 64 for texts (fewer for short ones) and all bits for
            numbers. A value with a longer code is found and shown by its prefix.
        room: Number of options of a round.
        keep: Estimated users above which a candidate survives a round.
        show: Estimated users above which a candidate is shown after the last round.
        rounds: Number of rounds.
        round: This round, from 1.
        survivors: Prefixes that survived the round before, as texts of bits.

    Raises:
        ValueError: If both or neither of ``strings`` and ``bits`` are given, an argument is out of range, or a survivor
            is a prefix of another.
        TypeError: If an argument is not a number, or ``survivors`` are not texts.

    >>> HeavyHitters(strings=64).domain, HeavyHitters(bits=48).reach
    (Strings(length=64), 48)
    >>> task = HeavyHitters(bits=48).choose_settings(Needs(10**6, 1.0, 1e-8, rounds=8))
    >>> task.room, task.rounds, len(task.candidates)
    (65536, 8, 65535)
    """

    open_domain: OpenDomain
    reach: int
    room: int
    keep: float
    show: float
    rounds: int
    round: int
    survivors: tuple[str, ...]

    name = "heavy hitters"
    mechanism_tasks: ClassVar[tuple[str, ...]] = ("frequency",)
    data_description = "one count of the last round"
    parameters: ClassVar[tuple[str, ...]] = (
        "code_name", "reach", "room", "keep", "show", "rounds", "round", "survivors",
    )  # fmt: skip

    def __init__(
        self,
        strings: int | None = None,
        bits: int | None = None,
        *,
        reach: int | None = None,
        room: int = 2,
        keep: float = 1.0,
        show: float = 1.0,
        rounds: int = 1,
        round: int = 1,
        survivors: Sequence[str] = ("",),
    ) -> None:
        self._set_common_settings(strings, bits, reach, room)
        settings = {
            "keep": validation.positive_finite(TASK_PREFIX, "keep", keep),
            "show": validation.positive_finite(TASK_PREFIX, "show", show),
            "rounds": validation.count(TASK_PREFIX, "rounds", rounds),
            "round": validation.count(TASK_PREFIX, "round", round, at_most=rounds),
            "survivors": _check_survivors(survivors, self.open_domain.code, self.room),
        }
        for name, value in settings.items():
            object.__setattr__(self, name, value)

    # --- Domain, mechanisms and rounds ---

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"options": self.room}

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        # Only counts with a Poisson number of dummies: their law, the same for every option, determines the finds.
        examples = kind.examples() if isinstance(kind, type) else [kind]
        return kind.task in cls.mechanism_tasks and all(
            isinstance(one.estimator, PoissonDummiesEstimator) for one in examples
        )

    @cached_property
    def candidates(self) -> PrefixCandidates:
        """The candidates of this round; the last option stands for all other values."""
        return PrefixCandidates.from_survivors(self.open_domain.code, self.survivors, self.room - 1)

    @property
    def only_round(self) -> int:
        return self.round

    def check_round(self, number: int) -> None:
        if number != self.round:
            raise ValueError(
                f"plan: this plan is for round {self.round} of {self.rounds}, got round {number}; the plan of each "
                f"later round was written by the round before."
            )

    def choose_settings(self, needs: Needs) -> Task:
        if needs.rounds == 1:
            return HittersAtOnce(**self.domain.to_document(), reach=self.reach).choose_settings(needs)
        noise = heavy_hitters_design.required_dummies(needs.epsilon, needs.delta, needs.rounds)
        design = heavy_hitters_design.design_search(self.build_search_requirements(needs, noise))
        return self._replace_settings(
            room=design.room, keep=round(design.keep, 1), show=round(design.show, 1), rounds=needs.rounds
        )

    def _replace_settings(self, **changed: Any) -> Self:
        return type(self)(**(self.constructor_arguments() | changed))

    # --- Errors ---

    def representative_values(self, mechanism: Mechanism) -> Array:
        return np.arange(min(self.room, SAMPLE_OPTIONS))

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0, math.sqrt(2.0))

    def search_law(self, mechanism: Mechanism, users: int) -> SearchLaw:
        """Returns the law of the finds.

        Args:
            mechanism: Mechanism that is used.
            users: Number of users.

        Returns:
            The law, from which thresholds and intervals follow.
        """
        noise = float(mechanism.variance(np.zeros(1, dtype=np.int64))[0])
        mean = noise if mechanism.message_plan.has_shuffler_noise else noise * users
        return SearchLaw(mean, self.rounds, self.keep, self.show, self.room - 1)

    def promises(self, mechanism: Mechanism, users: int) -> dict[str, float]:
        law = self.search_law(mechanism, users)
        messages = self.rounds * mechanism.messages_per_user
        noise = self.rounds * self.room * law.mean if mechanism.message_plan.has_shuffler_noise else 0.0
        return {
            "threshold": float(law.threshold), "floor": float(law.floor), "false_finds": law.false_finds,
            "messages_all_rounds": messages, "bits_all_rounds": messages * mechanism.message_bits,
            "messages_read": messages * users + noise,
        }  # fmt: skip

    def describe_promises(self, promise: Mapping[str, float]) -> list[tuple[str, str]]:
        if "threshold" not in promise:
            return []
        return [
            ("found", f"values of at least {promise['threshold']:,.0f} users, each with 99% probability"),
            ("rarely found", f"values of at most {promise['floor']:,.0f} users, each with at most 1% probability"),
            ("false finds", f"at most {promise['false_finds']:.2g} on average"),
            ("reach", f"codes of about {self.reach} bits: {self.open_domain.describe_reach(self.reach)}"),
            ("in all rounds", f"{promise['messages_all_rounds']:,.1f} messages, {promise['bits_all_rounds']:,.0f} bits "
             "a user"),
            *_describe_server_time(promise),
        ]  # fmt: skip

    def ranking_remark(self, offered: Sequence[Mechanism]) -> str:
        first = offered[0]
        law = self.search_law(first, getattr(first, "honest", 0))
        return (
            f"Found with 99% probability: values of at least {law.threshold:,} users, if no round has more than "
            f"{self.max_survivors:,} survivors; on average at most {law.false_finds:.2g} values that nobody holds are "
            f"shown. Each round has {self.room:,} options; a candidate survives with more than {self.keep:g} users, "
            f"and is shown with more than {self.show:g}. About {self.reach} bits of a code are found: "
            f"{self.open_domain.describe_reach(self.reach)}. bits, msgs and server are for one of {self.rounds} rounds."
        )

    # --- Input and report ---

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        places, values = self.open_domain.read_column(column, array)
        candidates = self.candidates.find_prefix_indices(values)
        return np.where(candidates < 0, self.room - 1, candidates)[places]

    @property
    def is_last(self) -> bool:
        """True if this is the last round."""
        return self.round == self.rounds

    @property
    def has_next_round(self) -> bool:
        return self.rounds > 1

    @property
    def survival_threshold(self) -> float:
        """The estimated users above which a candidate survives this round."""
        return self.show if self.is_last else self.keep

    @property
    def max_survivors(self) -> int:
        """The largest number of survivors; if more qualify, those with the most users survive."""
        return max(1, (self.room - 1) // OPTIONS_PER_SURVIVOR)

    def find_survivors(self, estimate: Estimate) -> Integers:
        """Returns the candidates that survive this round.

        Args:
            estimate: Estimate of this round.

        Returns:
            Their indices, largest estimate first.
        """
        value = estimate.value[: len(self.candidates)]
        order = np.argsort(-value, kind="stable")
        return order[value[order] > self.survival_threshold][: self.max_survivors]

    def build_next_task(self, estimate: Estimate) -> Self | None:
        kept = self.find_survivors(estimate)
        if self.is_last or not len(kept):
            return None
        # If all survivors are complete, one more round counts them and the search ends.
        rounds = self.round + 1 if self.candidates.is_complete[kept].all() else self.rounds
        survivors = tuple(self.candidates.bit_text(int(place)) for place in kept)
        return self._replace_settings(survivors=survivors, round=self.round + 1, rounds=rounds)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        # The intervals account for the selection: only large estimates are shown.
        kept = self.find_survivors(estimate)
        value = estimate.value[kept]
        low, high = self.search_law(mechanism, estimate.users).interval(value, self.survival_threshold, confidence)
        labels = tuple(escape_unprintable(self.candidates.label(int(place))) for place in kept)
        errors, shape = estimate.standard_error[kept], count_shape(estimate.users, all_in_one=False)
        return [Quantity("users", labels, value, errors, low.astype(float), high, shape=shape)]

    # --- Simulation ---

    def simulate_search(
        self, mechanism: Mechanism, simulated: SimulatedUsers, confidence: float, rng: np.random.Generator
    ) -> SearchSimulation:
        users, estimator = int(simulated.counts.sum()), mechanism.estimator
        assert isinstance(estimator, PoissonDummiesEstimator)
        task = self
        while True:
            counts = np.zeros(self.room, dtype=np.int64)
            counts[: len(task.candidates)] = task.candidates.count_users(simulated.sorted_values)
            counts[-1] = users - counts[:-1].sum()
            estimate = estimator.simulate(counts, users, rng)
            following = task.build_next_task(estimate)
            if following is None:
                return task._compare_with_truth(mechanism, simulated, estimate, counts, confidence)
            task = following

    def _compare_with_truth(
        self, mechanism: Mechanism, simulated: SimulatedUsers, estimate: Estimate, counts: Integers, confidence: float
    ) -> SearchSimulation:
        """Compares the finds of the last round with the truth."""
        (shown,), kept = self.quantities(mechanism, estimate, confidence), self.find_survivors(estimate)
        complete, truth = self.candidates.is_complete[kept], counts[kept]
        reached = kept[complete | (self.candidates.depth[kept] >= self.reach)]
        found = np.isin(self.candidates.find_prefix_indices(simulated.values), reached)
        heavy = simulated.counts >= self.search_law(mechanism, estimate.users).threshold
        return SearchSimulation(
            heavy=int(heavy.sum()), recalled=int((heavy & found).sum()), shown=len(kept), whole=int(complete.sum()),
            true_counts=truth, covering_intervals=_count_covering_intervals(shown, truth),
        )  # fmt: skip


def _describe_server_time(promise: Mapping[str, float]) -> list[tuple[str, str]]:
    seconds = promise.get("server_seconds")
    return [] if seconds is None else [("server", f"{seconds:,.1f} s to read all messages, as measured here")]


def _count_covering_intervals(shown: Quantity, truth: Integers) -> int:
    """Returns the number of intervals that contain the truth."""
    assert shown.low is not None
    assert shown.high is not None
    return int(((shown.low <= truth) & (truth <= shown.high)).sum())


def _check_survivors(survivors: Sequence[str], code: BitCode, room: int) -> tuple[str, ...]:
    """Checks that survivors are prefixes of codes, none a prefix of another, and fewer than the options of a round."""
    if isinstance(survivors, str) or not all(isinstance(bits, str) for bits in survivors):
        raise TypeError(f"{TASK_PREFIX}: survivors must be texts of bits, got something else.")
    if not 1 <= len(survivors) < room:
        raise ValueError(f"{TASK_PREFIX}: expected from 1 to {room - 1} survivors, got {len(survivors)}.")
    for bits in survivors:
        code.state(bits)
    ordered = sorted(survivors)
    if any(later.startswith(one) for one, later in pairwise(ordered)):
        raise ValueError(f"{TASK_PREFIX}: no survivor may be a prefix of another.")
    return tuple(survivors)
