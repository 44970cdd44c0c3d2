"""``Crowd``: users of several groups in one shuffle, each group with a randomizer of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shuffledp import argument
from shuffledp.privacy.randomizer import MayMix, Randomizer
from shuffledp.privacy.record import Record


@dataclass(frozen=True, init=False)
class Crowd(Record):
    """How many users run which randomizer: other settings, other randomizers with the same messages, or opt-outs.

    >>> import shuffledp as sdp
    >>> crowd = sdp.Crowd({sdp.KRR(1.0, options=16): 60_000, sdp.KRR(3.0, options=16): 40_000})
    >>> crowd.users
    100000
    """

    groups: tuple[tuple[MayMix, int], ...] = field()

    def __init__(self, groups: Mapping[MayMix, float]) -> None:
        if not isinstance(groups, Mapping) or not groups:
            raise TypeError(
                "Crowd: expected a mapping from mechanisms to numbers of users, such as {KRR(1.0, 16): 900}."
            )
        listed = []
        for group, users in groups.items():
            if not isinstance(group, MayMix):
                name = type(group).__name__
                raise TypeError(f"Crowd: expected mechanisms, whose messages are known, got {name}; amplify it alone.")
            listed.append((group, argument.count("Crowd", "users", users)))
        (first, _), *rest = listed
        for group, _ in rest:
            if why := first.why_apart(group):
                raise ValueError(f"Crowd: expected groups that hide each other, but {why}; amplify each alone.")
        if not any(isinstance(group, Randomizer) for group, _ in listed):
            raise ValueError("Crowd: expected somebody who answers, got opt-outs only.")
        object.__setattr__(self, "groups", tuple(listed))

    @property
    def users(self) -> int:
        """How many there are in all."""
        return sum(users for _, users in self.groups)
