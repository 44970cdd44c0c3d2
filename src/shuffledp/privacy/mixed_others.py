"""What the others of a mixed crowd may send: users of several groups, each with a randomizer of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.record import Record


@dataclass(frozen=True)
class MixedOthers(Record):
    """Two inputs of one group's user, and every law that a user of each group may have.

    ``groups``: for each group, in order, its kinds as in ``Others``: whatever a user of it holds, at any ε the law of
    G = (first − e^ε·second)/hiding is a mixture of these, or below it in convex order.
    ``gamma``: for each group a γ > 0 with which every law of its users is at least γ times one law that is the same
    for all groups.
    """

    gamma: tuple[float, ...]
    groups: tuple[tuple[HidingPair, ...], ...]
    symmetric: bool
    """Exchanging the two inputs leaves each set of kinds as it is."""
    aligned: tuple[tuple[HidingPair, ...], ...] = ()
    """The same kinds with one and the same list of messages, where ``groups`` have put together some of these."""

    def __post_init__(self) -> None:
        if len(self.gamma) != len(self.groups) or not all(self.groups):
            raise ValueError("MixedOthers: expected some kinds and a gamma for every group.")
        if not all(0.0 <= each <= 1.0 for each in self.gamma):
            raise ValueError(f"MixedOthers: expected every gamma between 0 and 1, got {self.gamma!r}.")

    def swapped(self) -> MixedOthers:
        """The other direction of the divergence."""
        return replace(self, groups=_swapped(self.groups), aligned=_swapped(self.aligned))

    def largest_log_ratio(self) -> float:
        """An upper bound of log(first/second)."""
        return max(kind.largest_log_ratio() for kinds in self.groups for kind in kinds)


def _swapped(groups: tuple[tuple[HidingPair, ...], ...]) -> tuple[tuple[HidingPair, ...], ...]:
    return tuple(tuple(kind.swapped() for kind in kinds) for kinds in groups)
