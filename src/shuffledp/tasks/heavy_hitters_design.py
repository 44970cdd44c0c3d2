"""Settings of a search for heavy hitters: the law of what it finds, and the design with the least error.

The settings are chosen by approximate numbers; the exact law then gives the guarantee. The number of candidates that
survive a round depends on the data: plans assume texts that follow Zipf's law, with codes of about 40 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import phrase
from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.dummies.poisson_dummies import PoissonDUMP
from shuffledp.numerics.roots import find_crossing

THRESHOLD_PROBABILITY, FLOOR_PROBABILITY = 0.99, 0.01


@dataclass(frozen=True)
class SearchLaw:
    """The law of a search over rounds whose counts have Poisson noise; the ``mean`` of the noise is subtracted.

    A candidate survives a round if its estimate is above ``keep`` users, and is shown if in the last round it is above
    ``show``. There are at most ``options`` candidates.

    Theorem: the noise N of a candidate is Poisson, depends on no user's value, and is independent of all other
        candidates and rounds, even though later rounds ask for the survivors of earlier ones. Every user whose code
        begins with a candidate's bits counts for it, so an item of c users survives each round with probability at
        least P(N > keep + mean − c).
    """

    mean: float
    rounds: int
    keep: float
    show: float
    options: int

    def exceedance_probability(self, users: Array | float, above: float) -> Floats:
        """Returns the probability that the estimate for ``users`` is above a number."""
        from scipy.special import pdtrc

        beyond = np.floor(above + self.mean - np.asarray(users, dtype=np.float64))
        return np.where(beyond < 0, 1.0, pdtrc(np.maximum(beyond, 0.0), self.mean))

    def detection_probability(self, users: Array | float) -> Floats:
        """Returns a lower bound of the probability that an item of ``users`` is found."""
        return np.asarray(
            self.exceedance_probability(users, self.keep) ** (self.rounds - 1)
            * self.exceedance_probability(users, self.show)
        )

    @property
    def threshold(self) -> int:
        """The smallest number of users with whom an item is found with 99% probability."""
        return self._find_smallest_users(
            lambda users: float(self.detection_probability(users)) >= THRESHOLD_PROBABILITY
        )

    @property
    def floor(self) -> int:
        """The largest number of users with whom an item is shown with at most 1% probability, for any other data."""
        above = self._find_smallest_users(
            lambda users: float(self.exceedance_probability(users, self.show)) > FLOOR_PROBABILITY
        )
        return above - 1

    @property
    def false_finds(self) -> float:
        """An upper bound of the mean number of candidates shown that nobody holds."""
        return self.options * float(self.exceedance_probability(0, self.show))

    @property
    def false_survivors(self) -> float:
        """An upper bound of the mean number of candidates that nobody holds and that survive a round."""
        return self.options * float(self.exceedance_probability(0, self.keep))

    def _find_smallest_users(self, holds: Callable[[int], bool]) -> int:
        """Returns the smallest number of users from which on a condition holds."""
        low, high = 0, math.ceil(self.show + self.keep + 40 * math.sqrt(self.mean) + 100)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle + 1, high)
        return low

    def interval(self, value: Floats, above: float, confidence: float) -> tuple[Floats, Floats]:
        """Returns confidence intervals for estimates that are shown only because they are above a number.

        Theorem: given that it is shown, an estimate has the law above, truncated at ``above``; it increases
            stochastically with c, since the Poisson law is log-concave. Inverting tests of both tails gives intervals
            that contain the truth with at least this probability, given that the estimate is shown. The estimate itself
            is always included.
        """
        tail = (1 - confidence) / 2
        counts = np.rint(value + self.mean)
        # Probabilities of an estimate at least, or at most, as large, given that it is shown.
        low = _find_smallest_each(lambda users: self._upper_tail(counts, users, above) >= tail, counts)
        high = _find_smallest_each(lambda users: self._lower_tail(counts, users, above) < tail, counts) - 1
        return np.minimum(low, np.maximum(value, 0.0)), np.maximum(high, value)

    def _upper_tail(self, counts: Floats, users: Integers, above: float) -> Floats:
        return self.exceedance_probability(users, counts - 1 - self.mean) / self.exceedance_probability(users, above)  # type: ignore[arg-type]

    def _lower_tail(self, counts: Floats, users: Integers, above: float) -> Floats:
        return 1.0 - self.exceedance_probability(users, counts - self.mean) / self.exceedance_probability(users, above)  # type: ignore[arg-type]


def _find_smallest_each(holds: Callable[[Integers], Array], ends: Floats) -> Integers:
    """Returns the smallest integers between 0 and ``ends`` + 2 from which on conditions hold."""
    low = np.zeros(len(ends), dtype=np.int64)
    high = np.maximum(ends, 0).astype(np.int64) + 2
    while (low < high).any():
        middle = (low + high) // 2
        here = holds(middle)
        low, high = np.where(here, low, np.minimum(middle + 1, high)), np.where(here, middle, high)
    return low


ZIPF_DIVISOR = 8.0
"""By Zipf's law, about users / (ZIPF_DIVISOR · c) items have at least c users; the reciprocal of Zipf's constant,
reduced for prefixes that items share.
"""
TEXT_BITS, TEXT_SPREAD = 40.0, 14.0
"""Mean and standard deviation of the length of a text's code, in bits."""
MAX_FALSE_FINDS = 0.5
"""Largest mean number of items shown that nobody holds."""
SHOW_MARGIN_DEVIATIONS = 1.2
"""Difference between ``show`` and ``keep``, in standard deviations of the noise."""
THRESHOLD_MULTIPLES = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
"""Multiples of the smallest threshold that the noise permits, in the order of trial: a higher one finds fewer items."""
ROOM_CHOICES = tuple(round(2.0 ** (half / 2)) for half in range(14, 43))
MAX_MESSAGES_READ = 1 << 29
"""Largest number of messages of all rounds that a server reads."""
DEFAULT_MAX_BITS = 8 * 2048
"""Default limit of the bits that a user sends in all rounds."""
NEAR_BEST_RATIO = 1.05
MAX_EXACT_ROUNDS = 8
"""Beyond this number of rounds, the required dummies grow at most in proportion to the rounds."""
MAX_EXCESS, LOG_MEAN_RANGE = 1e3, (math.log(1e-2), math.log(1e8))
CONFIRMING_TABLES = 2
"""Tables of a search in one round that only confirm the finds of the others; one more counts them."""
STAND_OUT_DEVIATIONS = 2.7
"""Standard deviations above the other buckets at which a bucket is retained in a search in one round."""
MAX_GROWTH = 0.5
"""Largest mean number of false candidates that follow from one in the next table: below 1, so that all die out."""
MAX_STEP = 8


@dataclass(frozen=True)
class SearchRequirements:
    """The target and the limits of a search."""

    users: int
    rounds: int
    dummies_per_option: float
    """Approximate number of dummies that hide each option."""
    reach: int
    """The number of bits of a code to be found."""
    fixed: bool
    """True if every code has this number of bits, as those of numbers do."""
    bits: float
    messages: float
    by_shuffler: bool


@dataclass(frozen=True)
class SearchDesign:
    """Settings of a search over rounds: the options of a round, and the thresholds to survive and to be shown."""

    room: int
    keep: float
    show: float
    threshold: int
    messages: float
    """Messages of a user in all rounds."""


@lru_cache(maxsize=256)
def required_dummies(epsilon: float, delta: float, rounds: int) -> float:
    """Returns the dummies of an option with which all rounds meet a target; an overestimate for many rounds."""
    # Imported here, so that a client can read its task without loading the bounds.
    from shuffledp.bounds.participation import Participation
    from shuffledp.bounds.registry import QUICK_EFFORT

    if rounds > MAX_EXACT_ROUNDS:
        return required_dummies(epsilon, delta, MAX_EXACT_ROUNDS) * rounds / MAX_EXACT_ROUNDS

    def excess(log_mean: float) -> float:
        curve = Participation(2, rounds=rounds).curve(PoissonDUMP(2, math.exp(log_mean), 0), effort=QUICK_EFFORT)
        return epsilon - curve.epsilon(delta).upper

    # With few dummies there may be no finite ε.
    found = find_crossing(lambda x: min(max(excess(x), -MAX_EXCESS), MAX_EXCESS), *LOG_MEAN_RANGE, absolute=1e-3)
    return math.exp(found.above)


@dataclass(frozen=True)
class TableDesign:
    """Settings of a search in one round: buckets, tables, bits by which prefixes grow, and the threshold."""

    room: int
    step: int
    tables: int
    keep: float
    threshold: int
    messages: float
    false_finds: float


Design = TypeVar("Design", SearchDesign, TableDesign)


@dataclass(frozen=True)
class BucketBackground:
    """The content of a bucket besides an item: dummies, and users whose values fall into it by chance."""

    users: int
    room: int
    mean: float

    @property
    def mean_other_users(self) -> float:
        """The mean number of users with other values."""
        return self.users / self.room

    def standard_deviation(self, keep: float) -> float:
        """Returns the standard deviation if other values follow Zipf's law up to ``keep`` users."""
        return math.sqrt(self.mean + self.mean_other_users * (1 + keep / ZIPF_DIVISOR))

    def stand_out_threshold(self, times: float) -> float:
        """Returns ``times`` the smallest excess that stands out."""
        threshold = 0.0
        for _ in range(64):
            threshold = times * STAND_OUT_DEVIATIONS * self.standard_deviation(threshold)
        return threshold

    def occupied_fraction(self, keep: float) -> float:
        """Returns the fraction of buckets that stand out, by an item or by chance."""
        by_chance = 0.5 * math.erfc(keep / self.standard_deviation(keep) / math.sqrt(2.0))
        return self.users / (ZIPF_DIVISOR * keep) / self.room + by_chance


def design_table_search(wish: SearchRequirements, epsilon: float, delta: float) -> TableDesign:
    """Returns the search in one round with about the smallest threshold within the limits."""
    designs = list(_feasible_table_designs(wish, epsilon, delta))
    if not designs:
        raise InvalidArgument(
            "plan",
            f"no search in one round reaches {wish.reach} bits within {_describe_limits(wish)}",
            hint=phrase("plan several {rounds}, allow more bits, or lower {reach}"),
        )
    return _choose_design(designs)


def _describe_limits(wish: SearchRequirements) -> str:
    return f"{wish.bits:,.0f} bits and {wish.messages:,.0f} messages a user and {MAX_MESSAGES_READ:.1e} in all"


def _choose_design(designs: Sequence[Design]) -> Design:
    """Returns the design with the fewest messages of those within 5% of the smallest threshold."""
    least = min(design.threshold for design in designs)
    near = [design for design in designs if design.threshold <= NEAR_BEST_RATIO * least]
    return min(near, key=lambda design: (design.messages, design.room, design.threshold))


def _feasible_table_designs(wish: SearchRequirements, epsilon: float, delta: float) -> Iterator[TableDesign]:
    for room in ROOM_CHOICES:
        for step in range(1, MAX_STEP + 1):
            tables = len(prefix_lengths(room, step, wish.reach)) + CONFIRMING_TABLES + 1
            background = BucketBackground(wish.users, room, required_dummies(epsilon, delta, tables))
            noise = tables * room * background.mean
            each = tables + (0.0 if wish.by_shuffler else noise / wish.users)
            if each > wish.messages or each * math.log2(tables * room) > wish.bits or noise > MAX_MESSAGES_READ:
                continue
            for times in THRESHOLD_MULTIPLES:
                keep = background.stand_out_threshold(times)
                share, items = background.occupied_fraction(keep), wish.users / (ZIPF_DIVISOR * keep)
                growth = share * 2.0**step
                false = items * growth / (1 - growth) * share**CONFIRMING_TABLES if growth < 1 else math.inf
                if growth <= MAX_GROWTH and false <= max(MAX_FALSE_FINDS, items / 100):
                    law = SearchLaw(background.mean, tables - 1, keep, keep, room)
                    threshold = law.threshold + math.ceil(background.mean_other_users)
                    yield TableDesign(room, step, tables, keep, threshold, each, false)
                    break


def prefix_lengths(room: int, step: int, reach: int) -> tuple[int, ...]:
    """Returns the prefix length of each table of a search in one round, without the tables that confirm and count."""
    first = min(reach, room.bit_length() - 1)
    return (*range(first, reach, step), reach)


def design_search(wish: SearchRequirements) -> SearchDesign:
    """Returns the search over rounds with about the smallest threshold within the limits."""
    designs = list(_feasible_designs(wish))
    if not designs:
        raise InvalidArgument(
            "plan",
            f"no search over {wish.rounds} rounds reaches {wish.reach} bits within {_describe_limits(wish)}",
            hint=phrase("allow more {rounds} or bits, or lower {reach}"),
        )
    return _choose_design(designs)


def _feasible_designs(wish: SearchRequirements) -> Iterator[SearchDesign]:
    """Yields the designs that reach far enough within the limits."""
    deviation = math.sqrt(wish.dummies_per_option)
    for room in ROOM_CHOICES:
        dummies_of_all = room * wish.dummies_per_option
        each = wish.rounds * (1 + (0.0 if wish.by_shuffler else dummies_of_all / wish.users))
        read = wish.rounds * (wish.users + dummies_of_all)
        if (
            each > wish.messages
            or each * math.log2(room) > wish.bits
            or read > MAX_MESSAGES_READ + wish.rounds * wish.users
        ):
            continue
        lowest = _lowest_show_threshold(room, wish.dummies_per_option)
        for times in THRESHOLD_MULTIPLES:
            show = times * lowest
            keep = show - SHOW_MARGIN_DEVIATIONS * deviation
            law = SearchLaw(wish.dummies_per_option, wish.rounds, keep, show, room - 1)
            if estimate_bits_found(wish, law) >= wish.reach:
                yield SearchDesign(room, keep, show, law.threshold, each)
                break


def _lowest_show_threshold(room: int, mean: float) -> float:
    """Returns the users above which the noise alone shows at most ``MAX_FALSE_FINDS`` candidates on average."""
    from scipy.stats import poisson

    return float(poisson.isf(MAX_FALSE_FINDS / room, mean) + 1 - mean)


def estimate_bits_found(wish: SearchRequirements, law: SearchLaw) -> float:
    """Estimates the number of bits that all rounds find."""
    depth = math.log2(law.options)
    kept = min(wish.users / (ZIPF_DIVISOR * law.keep), law.options)
    for _ in range(wish.rounds - 1):
        done = kept * _complete_fraction(wish, depth)
        waiting = max(1.0, kept - done + law.false_survivors)
        room = (law.options - done) / waiting
        if room <= 1:
            return depth
        depth += math.log2(room)
    return depth


def _complete_fraction(wish: SearchRequirements, depth: float) -> float:
    """Returns the fraction of items whose codes have at most ``depth`` bits."""
    if wish.fixed:
        return float(depth >= wish.reach)
    return 0.5 * (1 + math.erf((depth - TEXT_BITS) / (TEXT_SPREAD * math.sqrt(2.0))))
