"""``amplify``: the privacy of a randomizer's shuffled output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

from shuffledp import argument
from shuffledp.bounds import BOUND_OF, BOUNDS, best, exact_binary
from shuffledp.bounds.bound import Bound
from shuffledp.bounds.crowd_amplification import CrowdCurve, crowd_curve
from shuffledp.bounds.own import curve_of, demand_own_names
from shuffledp.privacy.attack import Attack, AttackCurve
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.mixed_crowd import Crowd
from shuffledp.privacy.neighbours import Neighbours
from shuffledp.privacy.own_loss import OwnLossAttack
from shuffledp.privacy.randomizer import HasNeighbours, HasOwnLoss, Randomizer

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
    at most that far apart, in the unit of the inputs; otherwise it is for all inputs.
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
    hidden = randomizer.hiding_messages(total - lost)
    attack = _attack(randomizer, randomizer.attack_messages(total - lost))
    curve = _curve(randomizer, hidden, bound, effort).attacked_by(attack).sent_by(total, lost)
    return curve.for_some_inputs() if isinstance(randomizer, Neighbours) else curve


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
        return randomizer.within(argument.positive_finite("amplify", "diameter", diameter, up=True))
    if diameter is not None:
        raise ValueError("amplify: give either pair or diameter, not both.")
    if len(pair) != 2:
        raise ValueError(f"amplify: pair must be two inputs, got {len(pair)}.")
    return randomizer.between(pair[0], pair[1])


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
