"""pureDUMP: the true option in the clear, among uniform dummies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf

from flint import arb

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.crowd import AmongDummies
from shuffledp.mechanisms.parts.dummy import (
    DUMMIES,
    SHARE,
    CountedAmongDummies,
    MessageTable,
    UniformDummies,
    checked_dummies,
    checked_share,
)
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.published import uniform_dummies
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.numerics.ball import above
from shuffledp.privacy.pair import exact_pair
from shuffledp.privacy.randomizer import HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class PureDUMP(Mechanism, HasPublishedGuarantee):
    """Send the true option as it is, and ``dummies`` options drawn uniformly.

    All draws are exactly uniform. With ``share`` below 1 a dummy is blank with probability 1 − share.

    ``options``: d, how many options there are; a user's value is the number of one of them, from 0. ``dummies``: how
    many uniform options every user adds, 1 by default. ``share``: the chance that a dummy is filled and not blank, 1 by
    default. There is no local ε: the user's own message is in the clear, and hides only among the dummies.

    Theorem: identity (★), exact: the others' options are known and can be taken out of the counts, which leaves the
    victim's among M − 1 = (honest users)·dummies uniform ones. [VR] Table 3, pureDUMP: p = ∞, β = 1, q = d.
    Requires: d ≥ 2; dummies ≥ 1; 0 < share ≤ 1.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PureDUMP(options=16, dummies=3)
    >>> mechanism.messages_per_user
    4
    >>> sdp.amplify(mechanism, users=10_000).messages
    30001
    >>> found = sdp.calibrate(sdp.PureDUMP, find="dummies", options=16, users=10_000, epsilon=0.2, delta=1e-6)
    >>> found.value, f"{found.epsilon.upper:.4f}"
    (2, '0.1494')
    """

    options: int
    dummies: int = 1
    share: float = 1.0

    name = "pure-dump"
    task = "frequency"
    summary = "the true option and uniform dummies; private only among many users"
    take_it = "For counts by dummies, where the shuffler is trusted."
    also_called = (
        "puredump",
        "dump",
    )
    tuning = (DUMMIES, SHARE)
    published_theorem = "pureDUMP's own analysis [DUMP]: ε = √(14·d·log(2/δ)/dummies), ε ≤ 1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count("PureDUMP", "options", self.options, at_least=2))
        object.__setattr__(self, "dummies", checked_dummies("PureDUMP", self.dummies))
        object.__setattr__(self, "share", checked_share("PureDUMP", self.share))

    @cached_property
    def uniform(self) -> UniformDummies:
        """What hides the option."""
        return UniformDummies.of_share(self.dummies, self.options, self.share)

    @cached_property
    def values(self) -> OneOption:
        return OneOption("PureDUMP", self.options)

    @cached_property
    def law(self) -> PairLaw:
        """Any dataset is attacked: whoever knows the others' options takes them out of the counts."""
        one, none, each = Fraction(1), Fraction(0), Fraction(1, self.options)
        parameters = VariationRatio(p=inf, beta=1.0, q=above(self.options / self.uniform.filled))
        hidden = exact_pair(self.uniform.classes([(one, none, each), (none, one, each)]), symmetric=True)
        return PairLaw(parameters, (hidden,), attacked=(hidden,), tight=True)

    @property
    def crowd(self) -> AmongDummies:
        return AmongDummies(self.dummies)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("PureDUMP", self.uniform.outputs)

    @cached_property
    def reading(self) -> CountedAmongDummies:
        return CountedAmongDummies.of(self.uniform, uniform_share=Fraction(0))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.uniform.around(_in_the_clear, values, source)

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        return uniform_dummies(self.options, self.share, messages, delta)

    def message_table(self) -> MessageTable:
        """The exact laws of single messages, for instances small enough to write down."""
        return self.uniform.table(self.reading.real_rows())

    def hiding_table(self) -> HidingTable:
        return self.message_table().hiding()

    def table(self) -> OutputTable:
        return self.message_table().with_dummies("PureDUMP", self.dummies)

    @classmethod
    def examples(cls) -> Sequence[PureDUMP]:
        return [cls(options=2), cls(options=3, dummies=2), cls(options=4, dummies=1, share=0.3)]


def _in_the_clear(values: Array, source: RandomSource) -> Array:
    del source
    return values
