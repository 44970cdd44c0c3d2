"""What a bound asks about many pairs of inputs at once, in floats."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from shuffledp.array import Floats
from shuffledp.privacy.space import DistanceMatrix


@dataclass(frozen=True, eq=False)
class ManyPairs:
    """The numbers of ``Surroundings``, a place in each array for each pair."""

    distance: Floats
    far_first: Floats
    far_second: Floats
    clone_sum: Floats
    diameter: Floats

    @classmethod
    def of(cls, space: DistanceMatrix) -> ManyPairs:
        """Every two inputs, in the order of ``space.pairs()``."""
        matrix, far = space.matrix, space.eccentricity
        first, second = np.triu_indices(space.size, 1)
        distance = matrix[first, second]
        clones = clone_sums(matrix)[first, second]
        return cls(distance, far[first], far[second], clones, np.full_like(distance, space.diameter))

    def at(self, places: Any) -> ManyPairs:
        """Some of the pairs."""
        return ManyPairs(*(getattr(self, field.name)[places] for field in fields(self)))


def clone_sums(matrix: Floats) -> Floats:
    """R of every two inputs: the largest e^D(a,c) + e^D(b,c)."""
    grown = np.exp(matrix)
    return np.stack([(row + grown).max(axis=1) for row in grown])
