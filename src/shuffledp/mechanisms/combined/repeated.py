"""The budget split over several runs of one randomizer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpq

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.reference import exact_references
from shuffledp.mechanisms.parts.repeated_run import RepeatedReading, RepeatedReference, RepeatedWire
from shuffledp.mechanisms.parts.seed import SeedLaw
from shuffledp.mechanisms.parts.unit_ball import UnitBall
from shuffledp.mechanisms.parts.user_values import ValuesOf
from shuffledp.mechanisms.vector.privhs import PrivHS
from shuffledp.mechanisms.vector.privunit_g import PrivUnitG
from shuffledp.mechanisms.vector.sqkr import SQKR
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import ExactClass, HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource

PREFIX = "repeated"
"""Before the name of the mechanism, on the command line and in plans."""
MOST_MESSAGES_OF_A_TABLE = 1000
MOST_CLASSES = 2000
"""Of the messages of all runs, in an attack."""
UNATTACKED = "no attack on one run is known whose law is exact."


@dataclass(frozen=True)
class Repeated(Mechanism):
    """A user runs ``mechanism`` on the same vector ``runs`` times and sends all messages as one.

    m runs at ε each are one run at mε. The estimate is the mean over all messages, its variance 1/m of one run's:
    less than one run at mε has where the error falls slowly in ε (PrivHS), more where it falls fast (PrivUnit), at
    a message m times as long. The pair of two inputs is the product of the runs' pairs, classes with equally many
    runs in either own set put together.

    Runs of a ``Compressed`` mechanism send a seed each. A run at ε tries about e^ε seeds or fewer, so that m of them
    are found exponentially faster than one for mε.

    ``mechanism``: one for vectors in the unit ball, with the local ε of one run. ``runs``: m, how many.

    Theorem: [LC] Lemma C.1: mε, error α/m, m times the bits. The product of dominating two-level pairs dominates: given
    the other runs, the density of one enters G linearly, and ``RegionLaw``'s argument (``SeedLaw``'s for seeds) holds
    run by run.

    >>> import shuffledp as sdp
    >>> once = sdp.PrivHS(epsilon=1.0, dimension=8)
    >>> mechanism = sdp.Repeated(once, runs=3)
    >>> mechanism.epsilon, mechanism.message_bits // once.message_bits
    (3.0, 3)
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.1528'
    >>> seeds = sdp.Repeated(sdp.Compressed(sdp.PrivUnitG(epsilon=4.0, dimension=1024)), runs=2)
    >>> f"{seeds.epsilon:.3f}", seeds.message_bits
    ('8.000', 256)
    """

    mechanism: Mechanism
    runs: int
    epsilon: float = field(init=False)

    name = "repeated"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: several runs of another mechanism, each with a part of ε"
    take_it = "For vectors by several short messages in place of a long one."
    built_from_numbers = False
    tuning = ()

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """A few runs: more of them have more noise than one, but for mechanisms that do not use a large ε."""
        del facts
        yield from ({"runs": runs} for runs in (2, 3, 4))

    def __post_init__(self) -> None:
        if not self.fits(self.mechanism):
            raise TypeError(f"Repeated: mechanism must be one for vectors in the unit ball, got {self.mechanism!r}.")
        object.__setattr__(self, "runs", argument.count("Repeated", "runs", self.runs))
        object.__setattr__(self, "epsilon", above(self.runs * Fraction(self.mechanism.epsilon)))
        object.__setattr__(self, "name", f"{PREFIX}-{self.mechanism.name}")

    @classmethod
    def fits(cls, mechanism: Any) -> bool:
        """Whether it is one for vectors in the unit ball whose law has two levels, at most."""
        vectors = isinstance(mechanism, Mechanism) and isinstance(mechanism.values.plain, UnitBall)
        return vectors and _region(mechanism) is not None

    @property
    def dimension(self) -> int:
        ball = self.values.plain
        assert isinstance(ball, UnitBall)
        return ball.dimension

    @property
    def region(self) -> OwnRegion:
        """The law of one run."""
        region = _region(self.mechanism)
        assert region is not None, "checked by the constructor"
        return region

    @property
    def has_table(self) -> bool:  # type: ignore[override]
        return self.mechanism.has_table

    def settings(self) -> dict[str, Any]:
        """The settings of one run, its ε among them, and how many there are."""
        return self.mechanism.settings() | {"runs": self.runs}

    @property
    def assumption(self) -> str:
        """What one run assumes; what is left without it is as much for each."""
        one = self.mechanism
        return one.assumed_of(self.runs) if isinstance(one, Compressed) else one.assumption

    # --- its parts --------------------------------------------------------------------------------------------

    @cached_property
    def values(self) -> ValuesOf:
        return ValuesOf("Repeated", self.mechanism.values)

    @cached_property
    def law(self) -> PairLaw:
        classes, region = _product_classes(self.region, self.runs), self.region
        ratio = above((region.inside / region.outside) ** self.runs)
        gap = sum((first - second for first, second, _ in classes if first > second), fmpq(0))
        parameters = VariationRatio(p=ratio, beta=above(Fraction(int(gap.p), int(gap.q))), q=ratio)
        attacked = tuple(self._attacks())
        hidden = exact_pair(classes, symmetric=True)
        return PairLaw(parameters, (hidden,), attacked=attacked, why_no_attack="" if attacked else UNATTACKED)

    def _attacks(self) -> Iterator[HidingPair]:
        """Those on one run, in which all others hold one value: its runs are independent, as user 1's are."""
        if not isinstance(self.mechanism, PrivHS | SQKR):
            return
        for pair in self.mechanism.attacks():
            if pair.exact is not None and math.comb(self.runs + len(pair.exact) - 1, self.runs) <= MOST_CLASSES:
                yield exact_pair(_in_all_runs(pair.exact, self.runs), symmetric=pair.symmetric)

    @cached_property
    def wire(self) -> RepeatedWire:
        return RepeatedWire("Repeated", self.mechanism.wire, self.runs)

    @cached_property
    def reading(self) -> RepeatedReading:
        return RepeatedReading(self.mechanism.reading, self.runs)

    @cached_property
    def reference(self) -> RepeatedReference | None:
        """The product of one run's, where it has one that bounds every ratio."""
        known = exact_references([self.mechanism.reference])
        return None if known is None else RepeatedReference(known[0], self.runs)

    # --- running it -------------------------------------------------------------------------------------------

    @property
    def words_tried(self) -> float:
        return self.runs * self.mechanism.words_tried

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return np.stack([self.mechanism.randomize(values, source) for _ in range(self.runs)], axis=1)

    def table(self) -> OutputTable:
        if not self.has_table:
            raise ValueError(f"Repeated: runs of {self.mechanism.name} cannot be written down as a table.")
        single = self.mechanism.table()
        if len(single.messages) ** self.runs > MOST_MESSAGES_OF_A_TABLE:
            raise ValueError(
                f"Repeated: a table needs fewer messages, got {len(single.messages)} in each of {self.runs} runs."
            )
        picks = list(itertools.product(range(len(single.messages)), repeat=self.runs))
        rows = tuple(
            tuple(math.prod((row[k] for k in pick), start=Fraction(1)) for pick in picks)
            for row in single.probabilities
        )
        return OutputTable(single.inputs, single.messages[np.array(picks)], rows)

    @classmethod
    def examples(cls) -> Sequence[Repeated]:
        return [
            cls(SQKR(0.5, 2), 2),
            cls(SQKR(1.0, 2, signs=1), 1),
            cls(Compressed(PrivHS(0.5, 2), prg="shake128"), 3),
            cls(Compressed(PrivUnitG(1.0, 3), prg="shake128"), 2),
        ]


def _region(mechanism: Mechanism) -> OwnRegion | None:
    """The two levels between which all densities of one run are, on at most half of all messages; None: not known."""
    law = mechanism.law
    if isinstance(law, SeedLaw):
        if not law.guarantee.pure:
            return None
        law = law.levels
    return law.region if isinstance(law, RegionLaw) and 2 * law.region.share <= 1 else None


def _product_classes(region: OwnRegion, runs: int) -> list[ExactClass]:
    """Runs in the first own set, in the second, elsewhere: the product law of each number of them."""
    share, low, high = rational(region.share), rational(region.outside), rational(region.inside)
    classes = []
    for first, second in _two_parts(runs):
        ways = math.comb(runs, first) * math.comb(runs - first, second)
        mass = ways * share ** (first + second) * (1 - 2 * share) ** (runs - first - second)
        others = low ** (runs - first - second)
        densities = (high**first * low**second * others, low**first * high**second * others, low**runs)
        classes.append((mass * densities[0], mass * densities[1], mass * densities[2]))
    return classes


def _in_all_runs(classes: Sequence[ExactClass], runs: int) -> list[ExactClass]:
    """How many runs have a message of each class: the product laws."""
    result = []
    for chosen in itertools.combinations_with_replacement(range(len(classes)), runs):
        counts = [chosen.count(place) for place in range(len(classes))]
        ways = math.factorial(runs) // math.prod(map(math.factorial, counts))
        powers = [[chance**count for chance in one] for one, count in zip(classes, counts, strict=True)]
        first, second, hiding = (ways * math.prod(factors, start=fmpq(1)) for factors in zip(*powers, strict=True))
        result.append((first, second, hiding))
    return result


def _two_parts(whole: int) -> Iterator[tuple[int, int]]:
    for first in range(whole + 1):
        for second in range(whole - first + 1):
            yield first, second
