"""Heavy hitters in one round: all lengths of all beginnings are asked at once, in hashed tables, and read from above.

Each table counts in which bucket the first so many bits of users' codes are. What stands out in the first table is made
longer, and kept where it stands out in the next one, until all bits are found. Two more tables confirm what was found
by other hashes, and one that decides nothing counts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Bytes, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.sampling.bit_code import first_bits
from shuffledp.sampling.row_hash import buckets
from shuffledp.tasks import search_design
from shuffledp.tasks.candidates import Candidates, texts_of
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import TASK, WHO
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.rehearsal import MadeUp, Rehearsal
from shuffledp.tasks.search_design import CHECKS, Background
from shuffledp.tasks.search_law import SearchLaw
from shuffledp.tasks.search_task import SearchTask
from shuffledp.tasks.shape import counted
from shuffledp.tasks.task import Needs, Sensitivity
from shuffledp.tasks.unlisted import Unlisted, printable

if TYPE_CHECKING:
    import pyarrow as pa

HARDLY = 1.3
"""So many standard deviations below what is kept an item passes both tables that confirm with 1% probability."""


@dataclass(frozen=True, init=False)
class HittersAtOnce(SearchTask):
    """Which texts or numbers many users hold, found in one round without a list of them.

    ``strings``, ``bits`` and ``reach`` as for ``HeavyHitters``. The rest is what a plan settles: ``room``, the buckets
    of a table; ``step``, by how many bits each table asks for more than the one before; ``keep``, above how many users
    more than the average a bucket stands out.

    >>> asked = HittersAtOnce(bits=48).planned(Needs(10**6, 1.0, 1e-8))
    >>> asked.room, asked.depths[:3], asked.tables
    (65536, (16, 20, 24), 12)
    """

    values_of: Unlisted
    reach: int
    room: int
    step: int
    keep: float

    name = "heavy hitters at once"
    kinds: ClassVar[tuple[str, ...]] = ("several tables",)
    data = "one count of the last table"
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
        self._begin(strings, bits, reach, room)
        longest = search_design.LONGEST_STEP
        object.__setattr__(self, "step", argument.count(TASK, "step", step, at_most=longest))
        object.__setattr__(self, "keep", argument.positive_finite(TASK, "keep", keep))

    # --- what it is about -------------------------------------------------------------------------------------

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """How many bits of a code each table asks for; the last ones confirm and count."""
        found = search_design.depths(self.room, self.step, self.reach)
        return found + (self.reach,) * (CHECKS + 1)

    @property
    def tables(self) -> int:
        return len(self.depths)

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"options": self.room, "tables": self.tables}

    def planned(self, needs: Needs) -> Self:
        if needs.rounds > 1:
            raise ValueError(f"{WHO}: the task {self.name!r} asks once; leave --rounds out.")
        found = search_design.in_tables(self.wish(needs), needs.epsilon, needs.delta)
        design: dict[str, Any] = {"room": found.room, "step": found.step, "keep": round(found.keep, 1)}
        return type(self)(**(self.settled() | design))

    # --- its error --------------------------------------------------------------------------------------------

    def sample(self, mechanism: Mechanism) -> Array:
        return np.zeros((1, self.tables), dtype=np.int64)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0 * self.tables, math.sqrt(2.0 * self.tables))

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        del variance
        return self._background(mechanism, users).spread(self.keep)

    def _background(self, mechanism: Mechanism, users: int) -> Background:
        noise = float(mechanism.variance(self.sample(mechanism))[0])
        return Background(users, self.room, noise if mechanism.crowd.by_shuffler else noise * users)

    def threshold(self, mechanism: Mechanism, users: int) -> int:
        """The fewest users of whom an item is found with 99% probability: whoever shares its buckets only adds."""
        behind = self._background(mechanism, users)
        law = SearchLaw(behind.mean, self.tables - 1, self.keep, self.keep, self.room)
        return law.threshold + math.ceil(behind.others)

    def promises(self, mechanism: Mechanism, users: int) -> dict[str, float]:
        behind = self._background(mechanism, users)
        share, items = behind.occupied(self.keep), users / (search_design.HARMONIC * self.keep)
        growth = min(0.99, share * 2.0**self.step)
        each = mechanism.messages_per_user
        drawn = self.tables * self.room * behind.mean if mechanism.crowd.by_shuffler else 0.0
        return {
            "threshold": float(self.threshold(mechanism, users)),
            "floor": max(0.0, math.floor(self.keep - HARDLY * behind.spread(self.keep))),
            "false_finds": items * growth / (1 - growth) * share**CHECKS,
            "messages_read": each * users + drawn,
        }

    def told(self, promise: Mapping[str, float]) -> list[tuple[str, str]]:
        if "threshold" not in promise:
            return []
        return [
            ("found", f"what at least {promise['threshold']:,.0f} users hold, each with 99% probability"),
            ("hardly found", f"what at most about {promise['floor']:,.0f} users hold"),
            ("held by nobody", f"about {promise['false_finds']:.2g} of what is shown, by Zipf's law"),
            ("reaches", f"codes of {self.reach} bits: {self.values_of.words(self.reach)}"),
            *([("server", f"{promise['server_seconds']:,.1f} s to read all messages, as measured here")]
              if "server_seconds" in promise else []),
        ]  # fmt: skip

    def caveat(self, offered: Sequence[Mechanism]) -> str:
        first = offered[0]
        users = getattr(first, "honest", 0)
        found = f"what at least {self.threshold(first, users):,} users hold" if users else "see the plan"
        return (
            f"Found with 99% probability: {found}. {self.tables} tables of {self.room:,} buckets; above {self.keep:g} "
            f"users more than the average a bucket stands out. {self.reach} bits of a code are found: "
            f"{self.values_of.words(self.reach)}. Over several rounds (--rounds 8) less is needed."
        )

    # --- from a table to a report -----------------------------------------------------------------------------

    def values(self, column: Column, array: pa.Array) -> Any:
        places, values = self.values_of.read(column, array)
        return self._named_by(self.values_of.code.rows(values, self.reach))[places]

    def _named_by(self, rows: Bytes) -> Integers:
        """The bucket of each code in every table."""
        return np.stack([self._bucket(rows, table) for table in range(self.tables)], axis=1)

    def _bucket(self, rows: Bytes, table: int) -> Integers:
        return buckets(first_bits(rows, self.depths[table]), table, self.room)

    def decoded(self, counts: Floats, users: int) -> Candidates:
        """What stands out in every table but the last; ``counts`` is a row for each table."""
        found, kept = Candidates.whole(self.values_of.code), np.arange(1)
        for table in range(self.tables - 1):
            if table == 0 or self.depths[table] > self.depths[table - 1]:
                found = found.lengthened(kept, self.depths[table])
                kept = np.arange(len(found))
            above = counts[table, self._bucket(found.bits[kept], table)] - users / self.room
            order = np.argsort(-above, kind="stable")
            kept = kept[order[above[order] > self.keep][: self.room]]
        return found.lengthened(kept, self.reach)

    def _counted(self, counts: Floats, found: Candidates, confidence: float) -> tuple[Quantity, Integers]:
        """Users of what was found, by the last table, the most first; and which of the found each is.

        What else is in a bucket is as in those of nothing found. Where two share a bucket, each is counted less the
        other's count in the table before.
        """
        last, place = counts[-1], self._bucket(found.bits, self.tables - 1)
        rest = np.delete(last, np.unique(place))
        before = counts[-2, self._bucket(found.bits, self.tables - 2)] - rest.mean()
        sharing = np.bincount(place, minlength=self.room)[place]
        others = np.bincount(place, weights=before, minlength=self.room)[place] - before
        value = last[place] - rest.mean() - np.where(sharing > 1, others, 0.0)
        ends = np.quantile(rest, [(1 - confidence) / 2, (1 + confidence) / 2]) - rest.mean()
        wider, order = np.sqrt(sharing), np.argsort(-value, kind="stable")
        columns = (value, wider * rest.std(), np.maximum(value - wider * ends[1], 0.0), value - wider * ends[0])
        labels = tuple(printable(found.label(int(one))) for one in order)
        return Quantity("users", labels, *(column[order] for column in columns)), order

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        counts = estimate.value.reshape(self.tables, self.room)
        found, _ = self._counted(counts, self.decoded(counts, estimate.users), confidence)
        return [replace(found, shape=counted(estimate.users, all_in_one=False))]

    # --- tried on made-up users -------------------------------------------------------------------------------

    def rehearse(self, mechanism: Mechanism, crowd: MadeUp, confidence: float, rng: np.random.Generator) -> Rehearsal:
        users = int(crowd.held.sum())
        mean = self._background(mechanism, users).mean
        rows = self.values_of.code.rows(crowd.values, self.reach)
        held = [np.bincount(one, weights=crowd.held, minlength=self.room) for one in self._named_by(rows).T]
        counts = np.asarray(np.stack(held) + rng.poisson(mean, (self.tables, self.room)) - mean, dtype=np.float64)
        found = self.decoded(counts, users)
        shown, order = self._counted(counts, found, confidence)
        assert shown.low is not None, "intervals are known"
        assert shown.high is not None, "intervals are known"
        truth, heavy = found.counts(crowd.sorted)[order], crowd.held >= self.threshold(mechanism, users)
        recalled = np.isin(texts_of(rows[heavy]), texts_of(found.bits))
        return Rehearsal(
            heavy=int(heavy.sum()), recalled=int(recalled.sum()), shown=len(found), whole=int(found.complete.sum()),
            held=truth, inside=int(((shown.low <= truth) & (truth <= shown.high)).sum()),
        )  # fmt: skip
