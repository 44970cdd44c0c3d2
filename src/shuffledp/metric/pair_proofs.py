"""Whether every two inputs meet their own target after shuffling: each pair by a proof in ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shuffledp.array import Floats
from shuffledp.metric.amplification import Amplification, MetricVariationRatio
from shuffledp.metric.many_pairs import ManyPairs
from shuffledp.privacy.record import Record
from shuffledp.privacy.space import DistanceMatrix

Advance = Callable[[int], None]
"""Told of every number of pairs that are done."""


def nobody(count: int) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class PairProofs(Record):
    """Proofs that local distances, shuffled among so many users, are at most the target's, pair by pair.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [2.0]])
    >>> proofs = PairProofs(target=places, users=10_000, delta=1e-6)
    >>> proofs.missed(places) is None, PairProofs(places, users=2, delta=1e-6).missed(places) is None
    (True, True)
    >>> proofs.missed(sdp.metric.DistanceMatrix(places.matrix * 8))
    (0, 1)
    """

    target: DistanceMatrix
    users: int
    delta: float
    amplification: Amplification = field(default_factory=MetricVariationRatio)

    def amplified(self, space: DistanceMatrix, advance: Advance = nobody) -> Floats:
        """The proved distances after shuffling, each at most its target; infinite where that could not be proved."""
        result = np.zeros_like(space.matrix)
        guesses = self.amplification.guesses(ManyPairs.of(space), self.users, self.delta)
        for (a, b), guess in zip(space.pairs(), guesses.tolist(), strict=True):
            pair, target = space.surroundings(a, b), float(self.target.matrix[a, b])
            asked = (*(getattr(pair, name) for name in self.amplification.asks), target)
            if asked not in self._known:
                self._known[asked] = self.amplification.proved(pair, self.users, self.delta, target, guess)
            result[a, b] = result[b, a] = self._known[asked]
            advance(1)
        return result

    @cached_property
    def _known(self) -> dict[tuple[float, ...], float]:
        """Pairs with the same numbers and target have the same proof."""
        return {}

    def missed(self, space: DistanceMatrix) -> tuple[int, int] | None:
        """The first two inputs whose target is not proved; None where all are."""
        amplified = self.amplified(space)
        return next(((a, b) for a, b in space.pairs() if math.isinf(amplified[a, b])), None)
