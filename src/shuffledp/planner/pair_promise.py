"""A promise for every two values: an ε of their own after shuffling, so that near values are hidden better."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.metric.pair_proofs import PairProofs
from shuffledp.privacy.record import Record
from shuffledp.privacy.space import DistanceMatrix


def promised(given: Any) -> DistanceMatrix | None:
    """The promise as given: distances, a table of them, or none."""
    if given is None or isinstance(given, DistanceMatrix):
        return given
    with argument.said_by("plan", "DistanceMatrix"):
        return DistanceMatrix(given)


@dataclass(frozen=True)
class PairPromise(Record):
    """The targets of all pairs, for a mechanism that is private for local distances.

    Theorem: ``metric.MetricVariationRatio`` for each pair: what holds for any randomizer that is private for the local
    distances holds for this one.
    Requires: one round, and one value of each person.
    """

    target: DistanceMatrix
    mechanism: Mechanism
    delta: float
    rounds: int = 1

    def __post_init__(self) -> None:
        space = getattr(self.mechanism, "space", None)
        if not isinstance(space, DistanceMatrix):
            raise ValueError(
                f"plan: target distances need a mechanism on distances, such as padded-exponential, "
                f"got {self.mechanism.name}."
            )
        if space.size != self.target.size:
            raise ValueError(
                f"plan: expected target distances of {space.size} values, as {self.mechanism.name} has, "
                f"got {self.target.size}."
            )
        if self.rounds > 1:
            raise ValueError(f"plan: target distances are for one round, got rounds = {self.rounds}.")

    @cached_property
    def local(self) -> DistanceMatrix:
        """The distances that the mechanism itself keeps."""
        space = getattr(self.mechanism, "space", None)
        assert isinstance(space, DistanceMatrix)
        return space

    def proved(self, honest: int) -> Floats:
        """What is proved for each pair if so many users hide each other; infinite where its target is missed."""
        return self._proofs(honest).amplified(self.local)

    def missed(self, honest: int) -> tuple[int, int] | None:
        """The first two values that miss their target with so many users; None where none do."""
        return self._proofs(honest).missed(self.local)

    def _proofs(self, honest: int) -> PairProofs:
        return self._made.setdefault(honest, PairProofs(self.target, honest, self.delta))

    @cached_property
    def _made(self) -> dict[int, PairProofs]:
        """Each remembers what it proved."""
        return {}

    def words(self) -> str:
        """The promise in short."""
        least, most = self.target.smallest, self.target.diameter
        return f"an ε of their own, from {least:.6g} to {most:.6g}"

    def demand(self, honest: int) -> None:
        """Stop where a pair misses its target."""
        pair = self.missed(honest)
        if pair is not None:
            raise NotApplicable(type(self.mechanism).__name__, self.sentence(pair, honest))

    def sentence(self, pair: tuple[int, int], honest: int) -> str:
        """Which promise is not kept."""
        a, b = pair
        return (
            f"values {a} and {b} are promised ε = {float(self.target.matrix[a, b]):.6g}, which {honest:,} users do not "
            f"prove for the local distances; solve the metric for so many users"
        )
