"""Poisson tables: one option of each of several tables, everybody answers all of them, among Poisson dummies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.multimessage.poisson_dump import PoissonDUMP
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.crowd import SharedNoise
from shuffledp.mechanisms.parts.own_noise_law import OwnNoiseLaw
from shuffledp.mechanisms.parts.poisson_dummy import MEAN, PoissonDummies, checked_mean
from shuffledp.mechanisms.parts.table_count import CountedInTables
from shuffledp.mechanisms.parts.user_values import NumberRows
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.privacy.randomizer import HasParts, Randomizer
from shuffledp.sampling.random import RandomSource

WHO = "PoissonTables"
MOST_KINDS = 1 << 26
"""Options of all tables together: the estimate holds two numbers for each."""


@dataclass(frozen=True)
class PoissonTables(Mechanism, HasParts):
    """Name one option of each table, in the clear; all honest users together add a Poisson number of dummies of each.

    Each user sends one message a table, and a Poisson(tables·options·mean/honest) number of dummies, uniform over all
    options of all tables: then the numbers of dummies are independent and Poisson. Searches in one round ask so.

    ``options``: how many options each table has. ``tables``: how many tables there are; a user's value is a row of as
    many whole numbers from 0. ``mean``: dummies of each option in all. ``honest``: how many users add their share, 0
    where the shuffler draws all. There is no local ε.

    Theorem: a changed value changes one message a table; the tables' counts are independent, each ``PoissonDUMP`` on
    its options: the exact losses of the tables, composed.
    Requires: options ≥ 2; tables ≥ 1; mean > 0; honest ≥ 0.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PoissonTables(options=64, tables=3, mean=80.0, honest=10_000)
    >>> f"{mechanism.messages_per_user:.2f}"
    '4.54'
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.3f}"
    '1.193'
    """

    options: int
    tables: int
    mean: float
    honest: int

    name = "poisson-tables"
    task = "several tables"
    summary = "one option of each of several tables, among a Poisson number of dummies of each option"
    take_it = "For values that nobody listed, found in one round by hashed tables, where the shuffler is trusted."
    tuning = (MEAN,)
    has_table = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count(WHO, "options", self.options, at_least=2))
        object.__setattr__(self, "tables", argument.count(WHO, "tables", self.tables))
        object.__setattr__(self, "mean", checked_mean(WHO, self.mean))
        object.__setattr__(self, "honest", argument.count(WHO, "honest", self.honest, at_least=0))
        if self.options * self.tables > MOST_KINDS:
            raise ValueError(f"{WHO}: expected at most {MOST_KINDS} options of all tables, got more.")

    @cached_property
    def dummies(self) -> PoissonDummies:
        """What hides the options."""
        return PoissonDummies(self.options * self.tables, self.mean, self.honest)

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        return [(PoissonDUMP(self.options, self.mean, self.honest), self.tables)]

    @cached_property
    def values(self) -> NumberRows:
        return NumberRows(WHO, self.options, self.tables)

    @cached_property
    def law(self) -> OwnNoiseLaw:
        return OwnNoiseLaw(WHO)

    @cached_property
    def crowd(self) -> SharedNoise:
        return self.dummies.around_messages(self.tables)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire(WHO, self.options * self.tables)

    @cached_property
    def reading(self) -> CountedInTables:
        return CountedInTables(self.options, self.tables, self.dummies)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.dummies.around(self.reading.places(values), source)

    def drawn_by_shuffler(self, source: RandomSource) -> Array | None:
        return self.dummies.drawn(source)

    def table(self) -> OutputTable:
        raise ValueError(f"{WHO}: any number of messages cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PoissonTables]:
        return [cls(options=3, tables=2, mean=10.0, honest=100), cls(options=4, tables=3, mean=5.0, honest=50)]
