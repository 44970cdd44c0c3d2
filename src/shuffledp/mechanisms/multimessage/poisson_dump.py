"""Poisson dummies: the true option in the clear, among as many dummies of each option as a Poisson law says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.crowd import SharedNoise
from shuffledp.mechanisms.parts.own_noise_law import OwnNoiseLaw
from shuffledp.mechanisms.parts.poisson_dummy import (
    MEAN,
    CountedAmongPoisson,
    PoissonDummies,
    PoissonLoss,
    checked_mean,
)
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.value_tree import ValueTree
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.privacy.randomizer import HasOwnLoss
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class PoissonDUMP(Mechanism, HasOwnLoss):
    """Send the true option as it is; all honest users together add a Poisson number of dummies of each option.

    Each user adds a Poisson(options·mean/honest) number of uniform options, drawn exactly, most often none: how many
    messages a user sends varies, whatever the value. The estimate is a count less the mean number of its dummies: the
    noise has variance ``mean``, like a Gaussian's, and is the same for every option.

    ``options``: d, how many options there are; a user's value is the number of one of them, from 0. ``mean``: dummies
    of each option in all. ``honest``: how many users add their share; fewer make less noise and more of them more, and
    0 says that the shuffler draws all dummies. There is no local ε: the user's message is in the clear.

    Theorem: the loss of moving one message between two independent Poisson counts (``PoissonLoss``), exact, whatever d
    and n.
    Requires: d ≥ 2; mean > 0; honest ≥ 0.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PoissonDUMP(options=1024, mean=100.0, honest=1_000_000)
    >>> f"{mechanism.messages_per_user:.4f}"
    '1.1024'
    >>> answer = sdp.amplify(mechanism, users=1_000_000).epsilon(delta=1e-9)
    >>> f"{answer.upper:.4f} {answer.lower:.4f}"
    '0.8183 0.8183'
    """

    options: int
    mean: float
    honest: int

    name = "poisson-dump"
    task = "frequency"
    summary = "the true option, and a Poisson number of dummies of each option in all"
    take_it = "For counts by dummies where users come and go: each adds a Poisson number."
    tuning = (MEAN,)
    has_table = False

    def __post_init__(self) -> None:
        who = "PoissonDUMP"
        object.__setattr__(self, "options", argument.count(who, "options", self.options, at_least=2))
        object.__setattr__(self, "mean", checked_mean(who, self.mean))
        object.__setattr__(self, "honest", argument.count(who, "honest", self.honest, at_least=0))

    @cached_property
    def dummies(self) -> PoissonDummies:
        """What hides the option."""
        return PoissonDummies(self.options, self.mean, self.honest)

    @cached_property
    def values(self) -> OneOption:
        return OneOption("PoissonDUMP", self.options)

    @cached_property
    def law(self) -> OwnNoiseLaw:
        return OwnNoiseLaw("PoissonDUMP")

    @cached_property
    def crowd(self) -> SharedNoise:
        return self.dummies.around_messages(1)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("PoissonDUMP", self.options)

    @cached_property
    def reading(self) -> CountedAmongPoisson:
        return CountedAmongPoisson(ValueTree(self.options, self.options), self.dummies)

    def own_loss(self, honest: int) -> PoissonLoss:
        return self.dummies.loss(honest)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.dummies.around(values[:, None], source)

    def drawn_by_shuffler(self, source: RandomSource) -> Array | None:
        return self.dummies.drawn(source)

    def table(self) -> OutputTable:
        raise ValueError("PoissonDUMP: any number of messages cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[PoissonDUMP]:
        return [cls(options=2, mean=3.0, honest=10), cls(options=5, mean=20.0, honest=100)]
