"""``amplify``: the privacy of a randomizer's shuffled output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, overload

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.bounds import BOUND_OF, BOUNDS, best, exact_binary
from shuffledp.bounds.bound import Bound
from shuffledp.bounds.crowd_amplification import CrowdCurve, crowd_curve
from shuffledp.bounds.own import curve_of, demand_own_names
from shuffledp.errors import NotApplicable
from shuffledp.privacy.attack import Attack, AttackCurve
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.mixed_crowd import Crowd
from shuffledp.privacy.neighbours import Neighbours
from shuffledp.privacy.own_loss import OwnLossAttack
from shuffledp.privacy.randomizer import HasNeighbours, HasOwnLoss, Randomizer
from shuffledp.privacy.value import BoundValue

MOST_USERS = 10**18
"""More than anybody can have; sums over far larger crowds leave the range of floats."""

BoundChoice: TypeAlias = "str | Bound | Sequence[str | Bound]"
"""What ``amplify`` takes as ``bound``: a name, or names and bounds of one's own."""


def bound_names() -> list[str]:
    """Every name that ``amplify`` takes as ``bound``."""
    return [best.NAME, *BOUND_OF]


@overload
def amplify(randomizer: Crowd, *, colluding: float = 0, effort: str = best.FULL) -> CrowdCurve: ...
@overload
def amplify(
    randomizer: Randomizer,
    users: float,
    *,
    bound: BoundChoice = best.NAME,
    colluding: float = 0,
    pair: Sequence[Any] | None = None,
    diameter: float | None = None,
    effort: str = best.FULL,
) -> PrivacyCurve: ...


def amplify(
    randomizer: Randomizer | Crowd,
    users: float | None = None,
    *,
    bound: BoundChoice = best.NAME,
    colluding: float = 0,
    pair: Sequence[Any] | None = None,
    diameter: float | None = None,
    effort: str = best.FULL,
) -> PrivacyCurve:
    """The privacy curve of the shuffled messages of ``users`` users who all run ``randomizer``.

    ``users`` counts everybody, the one to protect included; ``colluding`` of them tell the analyst their messages,
    dummies included, and hide nobody. ``randomizer`` is a mechanism or ``VariationRatio`` parameters. The curve's
    ``messages`` is the number of those that hide each other: one from each user, unless the mechanism sends several.
    A metric mechanism takes ``pair=(a, b)``: the guarantee for these two inputs, or ``diameter``: for every two inputs
    at most so many input units apart (metres for degrees, ε for a table of distances); otherwise it is for all inputs.
    What is proved for all inputs by the same bounds counts for chosen ones too, where it is smaller.
    ``bound`` is a name, by default "best", or a list: the smallest guarantee among just these. A ``Bound`` object of
    one's own in that list is used here and nowhere else, and the curve's note says whose it is.
    A ``Crowd`` has its users with it, of several randomizers: the curve holds for everybody, ``of(group)`` for a group.
    ``effort`` is "full", or "quick": "best" then leaves out bounds that take seconds, and is often a tenth larger.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=128), users=100_000)
    >>> curve.epsilon(delta=1e-8).upper < 0.0102
    True
    >>> curve.epsilon(delta=1e-8).bound
    'optimal'
    >>> older = sdp.amplify(sdp.KRR(epsilon=2.0, options=128), users=100_000, bound=["clone", "analytic"])
    >>> older.epsilon(delta=1e-8).bound
    'analytic'
    """
    best.demand_effort("amplify", effort)
    lost = argument.count("amplify", "colluding", colluding, at_least=0)
    if isinstance(randomizer, Crowd):
        if users is not None or bound != best.NAME or pair is not None or diameter is not None:
            raise ValueError("amplify: a Crowd takes no users, bound, pair or diameter besides its groups.")
        if lost >= randomizer.users:
            raise ValueError(f"amplify: colluding must be below users = {randomizer.users}, got {lost}.")
        return crowd_curve(randomizer, lost, effort)
    total = argument.count("amplify", "users", users, at_most=MOST_USERS)
    if lost >= total:
        raise ValueError(f"amplify: colluding must be below users = {total}, got {lost}.")
    if not isinstance(randomizer, Randomizer):
        raise TypeError(f"amplify: expected a mechanism or VariationRatio, got {randomizer!r}.")
    randomizer = chosen_inputs(randomizer, pair, diameter)
    if isinstance(randomizer, Neighbours):
        curve = _chosen_inputs_curve(randomizer, total, lost, bound, effort).for_some_inputs()
    else:
        curve = _curve(randomizer, randomizer.hiding_messages(total - lost), bound, effort)
    attack = _attack(randomizer, randomizer.attack_messages(total - lost))
    return curve.attacked_by(attack).sent_by(total, lost)


@dataclass(frozen=True)
class ChosenInputsCurve(PrivacyCurve):
    """The curve of chosen inputs: at each ε the smaller of what is proved for these and for all inputs.

    Theorem: δ(ε) of some pairs of inputs is at most that of all pairs.
    Requires: two guarantees for the same users and messages.
    Returns: values that say which of the two they are; an attack is on the chosen inputs only.
    """

    chosen: PrivacyCurve
    all_inputs: PrivacyCurve

    @property
    def certified(self) -> bool:
        return self.chosen.certified and self.all_inputs.certified

    def loss_deviation(self) -> float | None:
        known = [curve.loss_deviation() for curve in (self.chosen, self.all_inputs)]
        return min((one for one in known if one is not None), default=None)

    def _epsilon(self, delta: float) -> BoundValue:
        found = self.chosen.epsilon(delta)
        attack = self.all_inputs.source.attack
        # Where an attack on all inputs attains more than δ at this ε, no bound for all inputs is below.
        if attack is not None and math.isfinite(found.upper) and attack.delta(found.upper) > delta:
            return found
        return self._smaller(found, self.all_inputs.epsilon(delta))

    def _delta(self, epsilon: float) -> BoundValue:
        found = self.chosen.delta(epsilon)
        attack = self.all_inputs.source.attack
        if attack is not None and attack.delta(epsilon) >= found.upper:
            return found
        return self._smaller(found, self.all_inputs.delta(epsilon))

    def _smaller(self, chosen: BoundValue, all_inputs: BoundValue) -> BoundValue:
        if chosen.upper <= all_inputs.upper:
            return chosen
        return replace(all_inputs, theorem=f"{all_inputs.theorem}, for all inputs and hence for these")

    def quick_delta(self, epsilon: float) -> tuple[float, float]:
        return min(self.chosen.quick_delta(epsilon), self.all_inputs.quick_delta(epsilon))

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        one, other = self.chosen.profile(epsilons), self.all_inputs.profile(epsilons)
        first = one.upper <= other.upper
        return np.where(first, one.upper, other.upper), np.where(first, one.lower, other.lower)


def _chosen_inputs_curve(
    randomizer: Neighbours, users: int, colluding: int, bound: BoundChoice, effort: str
) -> PrivacyCurve:
    """The curve of chosen inputs, never above that of all inputs by the same bounds; only guarantees are compared."""
    chosen = _curve(randomizer, randomizer.hiding_messages(users - colluding), bound, effort)
    if randomizer.mechanism is None or not chosen.guarantee:
        return chosen
    try:
        all_inputs = amplify(randomizer.mechanism, users, bound=bound, colluding=colluding, effort=effort)
    except NotApplicable:
        return chosen
    if not all_inputs.guarantee:
        return chosen
    return ChosenInputsCurve(best.joined_source((chosen, all_inputs), chosen.messages), chosen, all_inputs)


def _curve(randomizer: Randomizer, users: int, bound: BoundChoice, effort: str) -> PrivacyCurve:
    if bound == best.NAME:
        return best.best_curve(randomizer, users, effort)
    listed = [bound] if isinstance(bound, str | Bound) else list(bound)
    bounds = list({id(each): each for item in listed for each in _bounds_called(item)}.values())
    if not bounds:
        raise ValueError("amplify: expected at least one bound, got an empty list.")
    demand_own_names(bounds)
    if len(bounds) == 1:
        return curve_of(bounds[0], randomizer, users)
    return best.smallest_curve(randomizer, users, bounds)


def _bounds_called(item: object) -> Sequence[Bound]:
    """One bound; by the name of the default, all of ours that guarantee."""
    if isinstance(item, Bound):
        return [item]
    if not isinstance(item, str):
        raise TypeError(f"amplify: bound must be a name, a Bound object or a list of these, got {item!r}.")
    if item == best.NAME:
        return [bound for bound in BOUNDS if bound.guarantees]
    if item not in BOUND_OF:
        raise ValueError(f"amplify: bound must be one of {', '.join(bound_names())}, got {item!r}.")
    return [BOUND_OF[item]]


def chosen_inputs(randomizer: Randomizer, pair: Sequence[Any] | None, diameter: float | None) -> Randomizer:
    """What is asked about: chosen inputs of a metric mechanism, or the randomizer as it is."""
    if pair is None and diameter is None:
        return randomizer
    if not isinstance(randomizer, HasNeighbours):
        raise TypeError(f"amplify: pair and diameter need a metric mechanism, got {type(randomizer).__name__}.")
    if pair is None:
        found = randomizer.within(argument.positive_finite("amplify", "diameter", diameter, up=True))
    elif diameter is not None:
        raise ValueError("amplify: give either pair or diameter, not both.")
    elif len(pair) != 2:
        raise ValueError(f"amplify: pair must be two inputs, got {len(pair)}.")
    else:
        found = randomizer.between(pair[0], pair[1])
    return replace(found, mechanism=randomizer)


def _attack(randomizer: Randomizer, users: int) -> Attack | None:
    """What is known from below, for every bound of this randomizer."""
    if isinstance(randomizer, HasOwnLoss):
        loss = randomizer.own_loss(users)
        return OwnLossAttack(loss) if loss.attained else None
    pairs, coin = tuple(randomizer.attacks()), randomizer.coin_range()
    crowds = () if coin is None else tuple(c for way in exact_binary.directions_of(coin, users) for c in way.attacks())
    derived = randomizer.derived_attacks()
    if not (pairs or crowds or derived):
        return None
    return AttackCurve(pairs, users, crowds, derived, randomizer.one_message_each)
