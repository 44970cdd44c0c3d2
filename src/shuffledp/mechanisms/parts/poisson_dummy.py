"""Poisson dummies: of each kind of message a Poisson number in all, added by all users together or by the shuffler."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.count_tails import PoissonTails
from shuffledp.mechanisms.parts.crowd import SharedNoise
from shuffledp.mechanisms.parts.reading import Reading, SimulatedReading, SomeReading, TreeReading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.value_tree import ValueTree
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import rational
from shuffledp.numerics.poisson_pair import PoissonPair, log_ratio_deviation
from shuffledp.privacy.own_loss import Facts, OwnLoss
from shuffledp.sampling.random import RandomSource
from shuffledp.sampling.real_law import PoissonLaw

LARGEST_MEAN, MOST_COUNTED = 1e9, 1e8
"""Most dummies of an option, and how many of them are counted."""
MEAN = Tuning("mean", False, True, 1e-3, LARGEST_MEAN)
LARGEST_DRAW = 64
"""A Poisson number of a larger mean is drawn as the sum of several: that is its law."""
MOST_AT_ONCE = 1 << 22
BY_SHUFFLER = "The shuffler draws the noise, and must draw all of it."


def checked_mean(who: str, given: Any) -> float:
    """A mean number of dummies, or a sentence."""
    mean = argument.positive_finite(who, "mean", given)
    if mean > LARGEST_MEAN:
        raise ValueError(f"{who}: mean must be at most {LARGEST_MEAN:g}, got {mean!r}.")
    return mean


@dataclass(frozen=True)
class PoissonLoss(OwnLoss):
    """What all messages tell of one user's option, where each option has a Poisson number of dummies of this mean.

    Theorem: the others' options are known and can be taken out of the counts. Replacing option a by b moves one message
    between two independent Poisson counts, of which ``PoissonPair`` tells the divergence; no other count changes.
    Returns: exact, whatever the domain and the number of users; attained by who knows all other options.
    """

    mean: Fraction
    by_shuffler: bool = False
    exact: bool = True
    """Whether there are no more dummies than these."""

    @property
    def theorem(self) -> str:
        return "exact law of Poisson dummies (ours)"

    @property
    def note(self) -> str:
        return BY_SHUFFLER if self.by_shuffler else ""

    @property
    def attained(self) -> bool:
        return self.exact

    @cached_property
    def _pair(self) -> PoissonPair:
        return PoissonPair(self.mean)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self._pair.profile(epsilons)

    def deviation(self) -> float:
        return log_ratio_deviation(self.mean)

    def facts(self) -> Facts:
        return {"kind": "poisson", "mean": self.mean}


@dataclass(frozen=True)
class PoissonDummies:
    """Of each of ``kinds`` messages a Poisson(``mean``) number of dummies where ``honest`` users add their shares.

    A user draws a Poisson(kinds·mean/honest) number and for each dummy its kind uniformly, exactly: the numbers of each
    kind, over any users, are then independent and Poisson. With ``honest`` 0 the shuffler draws all of them, once.
    """

    kinds: int
    mean: float
    honest: int

    @property
    def by_shuffler(self) -> bool:
        return self.honest == 0

    def of_each_kind(self, users: float) -> Fraction:
        """The mean number of dummies of each kind where so many users took part."""
        return Fraction(self.mean) if self.by_shuffler else Fraction(self.mean) * Fraction(users) / self.honest

    def around_messages(self, own: int) -> SharedNoise:
        """What users send whose own messages are so many."""
        return SharedNoise(own, float(self.kinds * self.of_each_kind(1)), self.honest)

    def loss(self, users: int) -> PoissonLoss:
        """More dummies only hide more: the loss of very many is at most that of many."""
        mean = self.of_each_kind(users)
        return PoissonLoss(min(mean, Fraction(MOST_COUNTED)), self.by_shuffler, mean <= MOST_COUNTED)

    @cached_property
    def _law(self) -> tuple[PoissonLaw, int]:
        """The law of a draw, and how many draws make up what one party draws."""
        whole = self.kinds * self.of_each_kind(1)
        draws = max(1, -(-whole.numerator // (whole.denominator * LARGEST_DRAW)))
        return PoissonLaw(_Quotient(whole / draws)), draws

    def numbers(self, parties: int, source: RandomSource) -> Integers:
        """How many dummies each of so many parties adds."""
        law, draws = self._law
        if draws == 1:
            return law.draw(source, parties)
        step = max(1, MOST_AT_ONCE // draws)
        sizes = [min(step, parties - start) for start in range(0, parties, step)]
        return np.concatenate([law.draw(source, size * draws).reshape(size, draws).sum(axis=1) for size in sizes])

    def around(self, real: Array, source: RandomSource) -> Array:
        """All messages of users who send these real ones, a row for each user: first the real ones, then dummies."""
        users, each = real.shape
        if self.by_shuffler:
            return real.reshape(-1)
        dummies = self.numbers(users, source)
        ends = np.cumsum(dummies + each)
        first = ends - dummies - each
        messages = np.empty(int(ends[-1]), dtype=np.int64)
        own = np.zeros(len(messages), dtype=np.bool_)
        for place in range(each):
            messages[first + place] = real[:, place]
            own[first + place] = True
        messages[~own] = source.below(self.kinds, int(dummies.sum()))
        return messages

    def drawn(self, source: RandomSource) -> Array | None:
        """What the shuffler adds; None where it is the users who do."""
        if not self.by_shuffler:
            return None
        return source.below(self.kinds, int(self.numbers(1, source)[0]))


@dataclass(frozen=True)
class _Quotient:
    """A fraction as a ball at the working precision."""

    value: Fraction

    def __call__(self) -> arb:
        return arb(rational(self.value))


@dataclass(frozen=True)
class CountedAmongPoisson(SimulatedReading, TreeReading):
    """Counts of the nodes of a ``tree``, flat or tall, less the mean number of dummies; every user is in one a level.

    The noise of every node is independent with a variance that no value changes.
    """

    tree: ValueTree
    dummies: PoissonDummies

    @property
    def values_free(self) -> bool:
        return True

    def nodes_named(self, messages: Array) -> Integers:
        return np.asarray(messages, dtype=np.int64)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.tree.nodes)

    def finish(self, total: Array, users: int) -> Estimate:
        noise = float(self.dummies.of_each_kind(users))
        value = np.asarray(total, dtype=np.float64) - noise
        return Estimate(value, np.full(self.tree.nodes, noise), users, PoissonTails(noise))

    @property
    def counted(self) -> int | None:
        """Of a flat tree the nodes are the options; a tall one has others besides."""
        return self.tree.values if self.tree.height == 1 else None

    def some(self, asked: Asked) -> Reading:
        return SomeAmongPoisson(self, asked)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """All messages name one node."""
        expected = float(self.dummies.of_each_kind(1))
        return (Sway(-expected, messages - expected),)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        noise = rng.poisson(float(self.dummies.of_each_kind(users)), self.tree.nodes)
        return self.finish(self.tree.of_leaves(held) + noise, users)

    def truth(self, values: Array) -> Floats:
        return self.tree.of_leaves(np.bincount(values, minlength=self.tree.values).astype(np.float64))

    def variance(self, values: Array) -> Floats:
        return np.full(self.tree.nodes, float(self.dummies.of_each_kind(len(values))))

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        del held
        return np.asarray(float(self.dummies.of_each_kind(users)) * (weights**2).sum(axis=-1))


@dataclass(frozen=True)
class SomeAmongPoisson(SomeReading):
    """The counts of the options that were asked for."""

    whole: CountedAmongPoisson
    asked: Asked

    def accumulate(self, messages: Array) -> Array:
        return self.asked.counts(messages)

    def finish(self, total: Array, users: int) -> Estimate:
        noise = self._noise(users)
        value = np.asarray(total, dtype=np.float64) - noise
        return Estimate(value, np.full(len(self.asked), noise), users, PoissonTails(noise))

    def sways(self, messages: float) -> tuple[Sway, ...]:
        return self.whole.sways(messages)

    def variance_where(self, held: Floats, users: float) -> Floats:
        return np.full(len(held), self._noise(users))

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        return self.finish(held + rng.poisson(self._noise(users), len(held)), users)

    def _noise(self, users: float) -> float:
        """How many dummies of each option there are on average."""
        return float(self.whole.dummies.of_each_kind(users))
