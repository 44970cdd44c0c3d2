"""How much a search over rounds asks at a time: rough numbers to choose settings by, which the exact law then states.

How many survive a round is a matter of the data. Plans take text for granted: items by Zipf's law, whose codes have a
few bits more or less than 40.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from shuffledp.bounds.best import QUICK
from shuffledp.bounds.schedule import Schedule
from shuffledp.mechanisms.multimessage.poisson_dump import PoissonDUMP
from shuffledp.numerics.root import find_crossing
from shuffledp.tasks.search_law import SearchLaw

HARMONIC = 8.0
"""So many times as many items as of c users there are users over c: 1/Zipf's constant, less for what items share."""
TEXT_BITS, TEXT_SPREAD = 40.0, 14.0
"""The bits of a text's code, on average, and how far they are from that."""
FALSE = 0.5
"""Items that nobody holds and that may be shown, on average."""
APART = 1.2
"""By how many standard deviations less is enough to survive a round than to be shown."""
RAISED = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
"""How many times what the noise demands an item may have to have: of many users fewer items are found."""
ROOMS = tuple(round(2.0 ** (half / 2)) for half in range(14, 43))
MOST_READ = 1 << 29
"""Messages of all rounds that a server reads."""
MOST_BITS = 8 * 2048
"""Bits a user, of all rounds, where nobody says otherwise."""
NEAR_BEST = 1.05
MANY_ROUNDS = 8
"""From so many on the dummies that are needed grow in proportion to the rounds, or a little less."""
LARGEST_EXCESS, REACH = 1e3, (math.log(1e-2), math.log(1e8))
CHECKS = 2
"""Tables of a search in one round that only confirm what the others found; one more counts it."""
ABOVE = 2.7
"""By how many standard deviations a bucket is above the others to be kept in a search in one round."""
MOST_GROWTH = 0.5
"""A candidate that nobody holds is followed by so many more on average: all of them die out."""
LONGEST_STEP = 8


@dataclass(frozen=True)
class Wish:
    """What a search is to find, from whom, and what it may cost."""

    users: int
    rounds: int
    mean: float
    """About how many dummies hide each option."""
    reach: int
    """How many bits of a code are to be found."""
    fixed: bool
    """Whether every code has so many bits, as numbers do."""
    bits: float
    messages: float
    by_shuffler: bool


@dataclass(frozen=True)
class SearchDesign:
    """How many options there are in a round, and how many users it takes to survive and to be shown."""

    room: int
    keep: float
    show: float
    threshold: int
    messages: float
    """A user's, in all rounds."""


@lru_cache(maxsize=256)
def dummies(epsilon: float, delta: float, rounds: int) -> float:
    """How many dummies an option needs for all rounds to meet a target; for many rounds about, from above."""
    if rounds > MANY_ROUNDS:
        return dummies(epsilon, delta, MANY_ROUNDS) * rounds / MANY_ROUNDS

    def excess(log_mean: float) -> float:
        curve = Schedule(2, rounds=rounds).curve(PoissonDUMP(2, math.exp(log_mean), 0), effort=QUICK)
        return epsilon - curve.epsilon(delta).upper

    # Few dummies may leave no finite ε at all.
    found = find_crossing(lambda x: min(max(excess(x), -LARGEST_EXCESS), LARGEST_EXCESS), *REACH, absolute=1e-3)
    return math.exp(found.above)


@dataclass(frozen=True)
class TableDesign:
    """How many buckets and tables a search in one round has, how many bits longer each is, and what is kept."""

    room: int
    step: int
    tables: int
    keep: float
    threshold: int
    messages: float
    false_finds: float


@dataclass(frozen=True)
class Background:
    """What a bucket holds besides an item: its dummies, and users whose values fall into it by chance."""

    users: int
    room: int
    mean: float

    @property
    def others(self) -> float:
        """Users of other values on average."""
        return self.users / self.room

    def spread(self, keep: float) -> float:
        """Its standard deviation where no other value has more than ``keep`` users, by Zipf's law."""
        return math.sqrt(self.mean + self.others * (1 + keep / HARMONIC))

    def keep(self, times: float) -> float:
        """So many times what stands out by itself."""
        found = 0.0
        for _ in range(64):
            found = times * ABOVE * self.spread(found)
        return found

    def occupied(self, keep: float) -> float:
        """The share of buckets that stand out, by an item or by chance."""
        by_chance = 0.5 * math.erfc(keep / self.spread(keep) / math.sqrt(2.0))
        return self.users / (HARMONIC * keep) / self.room + by_chance


def in_tables(wish: Wish, epsilon: float, delta: float) -> TableDesign:
    """The least threshold of a search in one round, within the limits."""
    able = list(_able_tables(wish, epsilon, delta))
    if not able:
        raise ValueError(
            f"plan: no search in one round reaches {wish.reach} bits within {wish.bits:,.0f} bits and "
            f"{wish.messages:,.0f} messages a user and {MOST_READ:.1e} in all; ask in several --rounds, allow more "
            f"bits, or lower --reach."
        )
    least = min(design.threshold for design in able)
    near = [design for design in able if design.threshold <= NEAR_BEST * least]
    return min(near, key=lambda design: (design.messages, design.room, design.threshold))


def _able_tables(wish: Wish, epsilon: float, delta: float) -> Iterator[TableDesign]:
    for room in ROOMS:
        for step in range(1, LONGEST_STEP + 1):
            tables = len(depths(room, step, wish.reach)) + CHECKS + 1
            behind = Background(wish.users, room, dummies(epsilon, delta, tables))
            noise = tables * room * behind.mean
            each = tables + (0.0 if wish.by_shuffler else noise / wish.users)
            if each > wish.messages or each * math.log2(tables * room) > wish.bits or noise > MOST_READ:
                continue
            for times in RAISED:
                keep = behind.keep(times)
                share, items = behind.occupied(keep), wish.users / (HARMONIC * keep)
                growth = share * 2.0**step
                false = items * growth / (1 - growth) * share**CHECKS if growth < 1 else math.inf
                if growth <= MOST_GROWTH and false <= max(FALSE, items / 100):
                    law = SearchLaw(behind.mean, tables - 1, keep, keep, room)
                    yield TableDesign(room, step, tables, keep, law.threshold + math.ceil(behind.others), each, false)
                    break


def depths(room: int, step: int, reach: int) -> tuple[int, ...]:
    """How many bits of a code each table of a search in one round asks for, without those that confirm and count."""
    first = min(reach, room.bit_length() - 1)
    return (*range(first, reach, step), reach)


def designed(wish: Wish) -> SearchDesign:
    """The least threshold within the limits; of nearly the same ones that with the fewest messages."""
    able = list(_able(wish))
    if not able:
        raise ValueError(
            f"plan: no search over {wish.rounds} rounds reaches {wish.reach} bits within {wish.bits:,.0f} bits and "
            f"{wish.messages:,.0f} messages a user and {MOST_READ:.1e} in all; allow more --rounds or bits, or lower "
            f"--reach."
        )
    least = min(design.threshold for design in able)
    near = [design for design in able if design.threshold <= NEAR_BEST * least]
    return min(near, key=lambda design: (design.messages, design.room, design.threshold))


def _able(wish: Wish) -> Iterator[SearchDesign]:
    """All designs that reach far enough."""
    deviation = math.sqrt(wish.mean)
    for room in ROOMS:
        dummies_of_all = room * wish.mean
        each = wish.rounds * (1 + (0.0 if wish.by_shuffler else dummies_of_all / wish.users))
        read = wish.rounds * (wish.users + dummies_of_all)
        if each > wish.messages or each * math.log2(room) > wish.bits or read > MOST_READ + wish.rounds * wish.users:
            continue
        lowest = _shown_from(room, wish.mean)
        for times in RAISED:
            show = times * lowest
            finding = SearchLaw(wish.mean, wish.rounds, show - APART * deviation, show, room - 1)
            if reached(wish, finding) >= wish.reach:
                yield SearchDesign(room, finding.keep, show, finding.threshold, each)
                break


def _shown_from(room: int, mean: float) -> float:
    """Above how many users the noise alone hardly gets anything."""
    from scipy.stats import poisson

    return float(poisson.isf(FALSE / room, mean) + 1 - mean)


def reached(wish: Wish, finding: SearchLaw) -> float:
    """About how many bits all rounds find."""
    depth = math.log2(finding.options)
    kept = min(wish.users / (HARMONIC * finding.keep), finding.options)
    for _ in range(wish.rounds - 1):
        done = kept * _complete(wish, depth)
        waiting = max(1.0, kept - done + finding.kept_by_noise)
        room = (finding.options - done) / waiting
        if room <= 1:
            return depth
        depth += math.log2(room)
    return depth


def _complete(wish: Wish, depth: float) -> float:
    """The share of items whose codes have no more bits than so many."""
    if wish.fixed:
        return float(depth >= wish.reach)
    return 0.5 * (1 + math.erf((depth - TEXT_BITS) / (TEXT_SPREAD * math.sqrt(2.0))))
