"""Which setting of a mechanism may be searched for a privacy target, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """A constructor argument that may be searched for a privacy target: privacy is monotone in it.

    ``whole``: only whole numbers. ``more_is_more_private``: whether a larger value gives more privacy. From ``least``
    to ``most``, both included: where a search looks. A value in this range may still be refused by the constructor
    with a ValueError, at the end where the mechanism tells nothing; infinity stands for no limit. ``below_one``: a
    probability that may come close to 1, where its distance to 1 is what counts.
    """

    name: str
    whole: bool
    more_is_more_private: bool
    least: float
    most: float
    below_one: bool = False
