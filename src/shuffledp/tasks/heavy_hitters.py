"""Heavy hitters: which values many users hold, found without a list, by asking on after what survived before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.poisson_dummy import CountedAmongPoisson
from shuffledp.sampling.bit_code import BitCode
from shuffledp.tasks import search_design
from shuffledp.tasks.candidates import Candidates
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import TASK
from shuffledp.tasks.hitters_at_once import HittersAtOnce
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.rehearsal import MadeUp, Rehearsal
from shuffledp.tasks.search_law import SearchLaw
from shuffledp.tasks.search_task import SearchTask
from shuffledp.tasks.shape import counted
from shuffledp.tasks.task import Needs, Sensitivity, Task
from shuffledp.tasks.unlisted import Unlisted, printable

if TYPE_CHECKING:
    import pyarrow as pa

MOST_KEPT = 2
"""Of so many options at most one survives: every round must make what survived longer."""
SAMPLED = 1024


@dataclass(frozen=True, init=False)
class HeavyHitters(SearchTask):
    """Which texts or numbers many users hold, found over several rounds without a list of them.

    ``strings`` is the most bytes of a text, ``bits`` the most bits of a whole number: one of the two. Every value has a
    public code of bits (``sampling/text_code.py``). The first round counts all beginnings of some bits, each later one
    those that survived, made longer; whoever holds none of them says so, which hides like any other answer. ``reach``
    is how many bits of a code are to be found, 64 for texts unless said otherwise: what has a longer code is found by
    its beginning, and shown so.

    The rest is what a plan settles: ``room``, the options of a round; ``keep`` and ``show``, above how many estimated
    users a candidate survives a round and is shown after the last; ``round`` and ``rounds``; and ``survivors``, the
    beginnings that survived before this round.

    >>> HeavyHitters(strings=64).domain, HeavyHitters(bits=48).reach
    (Strings(length=64), 48)
    >>> asked = HeavyHitters(bits=48).planned(Needs(10**6, 1.0, 1e-8, rounds=8))
    >>> asked.room, asked.rounds, len(asked.candidates)
    (65536, 8, 65535)
    """

    values_of: Unlisted
    reach: int
    room: int
    keep: float
    show: float
    rounds: int
    round: int
    survivors: tuple[str, ...]

    name = "heavy hitters"
    kinds: ClassVar[tuple[str, ...]] = ("frequency",)
    data = "one count of the last round"
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
        self._begin(strings, bits, reach, room)
        settled = {
            "keep": argument.positive_finite(TASK, "keep", keep),
            "show": argument.positive_finite(TASK, "show", show),
            "rounds": argument.count(TASK, "rounds", rounds),
            "round": argument.count(TASK, "round", round, at_most=rounds),
            "survivors": _checked(survivors, self.values_of.code, self.room),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    # --- what it is about -------------------------------------------------------------------------------------

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"options": self.room}

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        """Counts with a Poisson number of dummies, whose law says what is found: alike for every option."""
        some = kind.examples() if isinstance(kind, type) else [kind]
        return kind.task in cls.kinds and all(isinstance(one.reading, CountedAmongPoisson) for one in some)

    @cached_property
    def candidates(self) -> Candidates:
        """What this round asks; the last option of all is none of these."""
        return Candidates.below(self.values_of.code, self.survivors, self.room - 1)

    @property
    def round_asked(self) -> int:
        return self.round

    def demand_round(self, number: int) -> None:
        if number != self.round:
            raise ValueError(
                f"plan: this plan asks round {self.round} of {self.rounds}, got round {number}; each round has a plan "
                f"of its own, which the round before wrote."
            )

    def planned(self, needs: Needs) -> Task:
        if needs.rounds == 1:
            return HittersAtOnce(**self.domain.document(), reach=self.reach).planned(needs)
        noise = search_design.dummies(needs.epsilon, needs.delta, needs.rounds)
        found = search_design.designed(self.wish(needs, noise))
        return self._with(room=found.room, keep=round(found.keep, 1), show=round(found.show, 1), rounds=needs.rounds)

    def _with(self, **changed: Any) -> Self:
        return type(self)(**(self.settled() | changed))

    # --- its error --------------------------------------------------------------------------------------------

    def sample(self, mechanism: Mechanism) -> Array:
        return np.arange(min(self.room, SAMPLED))

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0, math.sqrt(2.0))

    def search_law(self, mechanism: Mechanism, users: int) -> SearchLaw:
        """What is found, of so many users."""
        noise = float(mechanism.variance(np.zeros(1, dtype=np.int64))[0])
        mean = noise if mechanism.crowd.by_shuffler else noise * users
        return SearchLaw(mean, self.rounds, self.keep, self.show, self.room - 1)

    def promises(self, mechanism: Mechanism, users: int) -> dict[str, float]:
        found = self.search_law(mechanism, users)
        each = self.rounds * mechanism.messages_per_user
        drawn = self.rounds * self.room * found.mean if mechanism.crowd.by_shuffler else 0.0
        return {
            "threshold": float(found.threshold), "floor": float(found.floor), "false_finds": found.false_finds,
            "messages_all_rounds": each, "bits_all_rounds": each * mechanism.message_bits,
            "messages_read": each * users + drawn,
        }  # fmt: skip

    def told(self, promise: Mapping[str, float]) -> list[tuple[str, str]]:
        if "threshold" not in promise:
            return []
        return [
            ("found", f"what at least {promise['threshold']:,.0f} users hold, each with 99% probability"),
            ("hardly found", f"what at most {promise['floor']:,.0f} users hold: each with 1% probability at most"),
            ("held by nobody", f"{promise['false_finds']:.2g} of what is shown on average, at most"),
            ("reaches", f"codes of about {self.reach} bits: {self.values_of.words(self.reach)}"),
            ("in all rounds", f"{promise['messages_all_rounds']:,.1f} messages, {promise['bits_all_rounds']:,.0f} bits "
             "a user"),
            *([("server", f"{promise['server_seconds']:,.1f} s to read them, as measured here")]
              if "server_seconds" in promise else []),
        ]  # fmt: skip

    def caveat(self, offered: Sequence[Mechanism]) -> str:
        first = offered[0]
        found = self.search_law(first, getattr(first, "honest", 0))
        return (
            f"Found with 99% probability: what at least {found.threshold:,} users hold, as long as no round has more "
            f"than {self.most_kept:,} survivors; at most {found.false_finds:.2g} items that nobody holds are shown on "
            f"average. {self.room:,} options a round; above {self.keep:g} users a candidate survives, above "
            f"{self.show:g} it is shown. About {self.reach} bits of a code are reached: "
            f"{self.values_of.words(self.reach)}. bits, msgs and server are for one of {self.rounds} rounds."
        )

    # --- from a table to a report -----------------------------------------------------------------------------

    def values(self, column: Column, array: pa.Array) -> Any:
        places, values = self.values_of.read(column, array)
        named = self.candidates.named_by(values)
        return np.where(named < 0, self.room - 1, named)[places]

    @property
    def is_last(self) -> bool:
        """Whether nothing is asked after this round."""
        return self.round == self.rounds

    @property
    def asks_on(self) -> bool:
        return self.rounds > 1

    @property
    def least(self) -> float:
        """Above how many estimated users a candidate is seen after this round."""
        return self.show if self.is_last else self.keep

    @property
    def most_kept(self) -> int:
        """The most candidates that survive; of more, those with the most users do."""
        return max(1, (self.room - 1) // MOST_KEPT)

    def surviving(self, estimate: Estimate) -> Integers:
        """The candidates above what is enough in this round, those with the most users first."""
        value = estimate.value[: len(self.candidates)]
        order = np.argsort(-value, kind="stable")
        return order[value[order] > self.least][: self.most_kept]

    def following(self, estimate: Estimate) -> Task | None:
        """The next round's task; None after the last, and where nothing survived."""
        return self._next(estimate)

    def _next(self, estimate: Estimate) -> Self | None:
        kept = self.surviving(estimate)
        if self.is_last or not len(kept):
            return None
        # Where all of them are complete there is nothing to ask but how many hold each.
        rounds = self.round + 1 if self.candidates.complete[kept].all() else self.rounds
        written = tuple(self.candidates.written(int(place)) for place in kept)
        return self._with(survivors=written, round=self.round + 1, rounds=rounds)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        """What survived this round; intervals know that it is shown because it is large."""
        kept = self.surviving(estimate)
        value = estimate.value[kept]
        low, high = self.search_law(mechanism, estimate.users).interval(value, self.least, confidence)
        labels = tuple(printable(self.candidates.label(int(place))) for place in kept)
        errors, shape = estimate.standard_error[kept], counted(estimate.users, all_in_one=False)
        return [Quantity("users", labels, value, errors, low.astype(float), high, shape=shape)]

    # --- tried on made-up users -------------------------------------------------------------------------------

    def rehearse(self, mechanism: Mechanism, crowd: MadeUp, confidence: float, rng: np.random.Generator) -> Rehearsal:
        users, reading = int(crowd.held.sum()), mechanism.reading
        assert isinstance(reading, CountedAmongPoisson), "that is what can be used"
        task = self
        while True:
            counts = np.zeros(self.room, dtype=np.int64)
            counts[: len(task.candidates)] = task.candidates.counts(crowd.sorted)
            counts[-1] = users - counts[:-1].sum()
            estimate = reading.simulate(counts, users, rng)
            following = task._next(estimate)
            if following is None:
                return task._rehearsed(mechanism, crowd, estimate, counts, confidence)
            task = following

    def _rehearsed(
        self, mechanism: Mechanism, crowd: MadeUp, estimate: Estimate, counts: Integers, confidence: float
    ) -> Rehearsal:
        """What the last round shows beside what is true."""
        (shown,), kept = self.quantities(mechanism, estimate, confidence), self.surviving(estimate)
        assert shown.low is not None, "intervals are known"
        assert shown.high is not None, "intervals are known"
        complete, truth = self.candidates.complete[kept], counts[kept]
        far = kept[complete | (self.candidates.depth[kept] >= self.reach)]
        found = np.isin(self.candidates.named_by(crowd.values), far)
        heavy = crowd.held >= self.search_law(mechanism, estimate.users).threshold
        return Rehearsal(
            heavy=int(heavy.sum()), recalled=int((heavy & found).sum()), shown=len(kept), whole=int(complete.sum()),
            held=truth, inside=int(((shown.low <= truth) & (truth <= shown.high)).sum()),
        )  # fmt: skip


def _checked(survivors: Sequence[str], code: BitCode, room: int) -> tuple[str, ...]:
    """Beginnings of codes, none of them the beginning of another, and so few that all can be asked for."""
    if isinstance(survivors, str) or not all(isinstance(bits, str) for bits in survivors):
        raise TypeError(f"{TASK}: survivors must be texts of bits, got something else.")
    if not 1 <= len(survivors) < room:
        raise ValueError(f"{TASK}: expected from 1 to {room - 1} survivors, got {len(survivors)}.")
    for bits in survivors:
        code.state(bits)
    ordered = sorted(survivors)
    if any(later.startswith(one) for one, later in pairwise(ordered)):
        raise ValueError(f"{TASK}: no survivor may be the beginning of another, got such.")
    return tuple(survivors)
