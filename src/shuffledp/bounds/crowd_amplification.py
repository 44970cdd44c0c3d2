"""``amplify`` of a ``Crowd``: a curve for a user of each group, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from shuffledp.array import Floats
from shuffledp.bounds.best import BestCurve, best_curve, joined_source
from shuffledp.bounds.mixed_crowds import mixed_curve
from shuffledp.privacy.attack import AttackCurve
from shuffledp.privacy.curve import PrivacyCurve, Source
from shuffledp.privacy.mixed_crowd import Crowd
from shuffledp.privacy.randomizer import MayMix, Randomizer
from shuffledp.privacy.value import BoundValue

MOST_LEFT_OUT = 1
"""How many groups, of three or more, are left out in turn: those who hide badly may be better not counted on."""


@dataclass(frozen=True)
class CrowdCurve(PrivacyCurve):
    """Pointwise the largest of the curves of all groups: what holds for everybody.

    ``groups`` has each group that answers, with the curve of its users.
    """

    groups: tuple[tuple[MayMix, PrivacyCurve], ...]

    @property
    def certified(self) -> bool:
        return all(curve.certified for _, curve in self.groups)

    def of(self, group: MayMix) -> PrivacyCurve:
        """The curve of a user of one group."""
        for known, curve in self.groups:
            if known == group:
                return curve
        raise ValueError(f"CrowdCurve: expected one of its {len(self.groups)} groups that answer, got {group!r}.")

    def _epsilon(self, delta: float) -> BoundValue:
        return max((curve.epsilon(delta) for _, curve in self.groups), key=lambda value: value.upper)

    def _delta(self, epsilon: float) -> BoundValue:
        return max((curve.delta(epsilon) for _, curve in self.groups), key=lambda value: value.upper)

    def loss_deviation(self) -> float | None:
        return min((one for _, c in self.groups if (one := c.loss_deviation()) is not None), default=None)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        found = [curve.profile(epsilons) for _, curve in self.groups]
        return np.max([one.upper for one in found], axis=0), np.max([one.lower for one in found], axis=0)


def crowd_curve(crowd: Crowd, colluding: int, effort: str) -> CrowdCurve:
    """The curve of everybody in a mixed crowd, of whom ``colluding``, of any groups, hide nobody."""
    curves = []
    for number, (group, users) in enumerate(crowd.groups):
        if isinstance(group, Randomizer):
            curves.append((group, _curve_of(crowd, number, group, users, colluding, effort)))
    source = joined_source(tuple(curve for _, curve in curves), crowd.users - colluding)
    whole = Source(
        source.bound, source.theorem, source.messages, source.guarantee, source.note, origin=source.origin,
        attack=_joined_attack([curve for _, curve in curves]), users=crowd.users, colluding=colluding,
    )  # fmt: skip
    return CrowdCurve(whole, tuple(curves))


def _curve_of(crowd: Crowd, number: int, group: MayMix, users: int, colluding: int, effort: str) -> PrivacyCurve:
    """The smallest of what its own group, all groups, and all but one hide."""
    assert isinstance(group, Randomizer)
    alone = best_curve(group, max(1, users - colluding), effort)
    counts = [each - (place == number) for place, (_, each) in enumerate(crowd.groups)]
    mixed = []
    for kept in _subsets(len(counts), number):
        present = [place for place in kept if counts[place] > 0]
        others = group.hidden_among([crowd.groups[place][0] for place in present])
        curve = mixed_curve(others, tuple(counts[place] for place in present), colluding)
        if curve is not None:
            mixed.append(curve)
    if not mixed:
        return alone.sent_by(crowd.users, colluding)
    curves = (*(mixed), *(alone.curves if isinstance(alone, BestCurve) else (alone,)))
    refused = alone.refused if isinstance(alone, BestCurve) else ()
    found = BestCurve(joined_source(curves, crowd.users - colluding), curves, refused)
    # A dataset of everybody is attacked; one of some only is none of this crowd.
    whole = mixed[0].source.attack if mixed[0].messages == crowd.users - colluding else None
    return found.attacked_by(whole).sent_by(crowd.users, colluding)


def _subsets(groups: int, own: int) -> list[tuple[int, ...]]:
    """All groups; and where there are three or more, all but one of the others."""
    everybody = tuple(range(groups))
    if groups < 3:
        return [everybody]
    fewer = combinations(everybody, groups - MOST_LEFT_OUT)
    return [everybody, *(kept for kept in fewer if own in kept)]


def _joined_attack(curves: list[PrivacyCurve]) -> AttackCurve | None:
    """What is attained against a user of any group."""
    attacks = [curve.source.attack for curve in curves]
    known = [attack for attack in attacks if isinstance(attack, AttackCurve)]
    if not known:
        return None
    return AttackCurve((), known[0].messages, tuple(way for attack in known for way in attack.further))
