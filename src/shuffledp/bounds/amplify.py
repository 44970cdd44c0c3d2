"""``amplify``: the privacy of a randomizer's shuffled output."""

from __future__ import annotations

from shuffledp import argument
from shuffledp.bounds import best, binary
from shuffledp.bounds.bound import all_bounds
from shuffledp.privacy.capability import (
    GivesAttacks,
    GivesCoin,
    GivesVariationRatio,
    attack_messages,
    hiding_messages,
)
from shuffledp.privacy.curve import AttackCurve, PrivacyCurve


def bound_names() -> list[str]:
    """Every name that ``amplify`` takes as ``bound``."""
    return [best.NAME, *all_bounds()]


def amplify(randomizer: object, users: float, *, bound: str = best.NAME, colluding: float = 0) -> PrivacyCurve:
    """The privacy curve of the shuffled messages of ``users`` users who all run ``randomizer``.

    ``users`` counts everybody, the one to protect included; ``colluding`` of them tell the analyst their messages,
    dummies included, and hide nobody. ``randomizer`` is a mechanism or ``VariationRatio`` parameters. The curve's
    ``users`` is the number of messages that hide each other: one from each user, unless the mechanism sends several.
    """
    total = argument.count("amplify", "users", users)
    lost = argument.count("amplify", "colluding", colluding, at_least=0)
    if lost >= total:
        raise ValueError(f"amplify: colluding must be below users = {total}, got {lost}.")
    if isinstance(randomizer, type) or not isinstance(randomizer, GivesVariationRatio):
        raise TypeError(f"amplify: expected a mechanism or VariationRatio, got {randomizer!r}.")
    hidden = hiding_messages(randomizer, total - lost)
    attack = _attack(randomizer, attack_messages(randomizer, total - lost))
    if bound == best.NAME:
        return best.best_curve(randomizer, hidden).attacked_by(attack).sent_by(total)
    known = all_bounds()
    if bound not in known:
        raise ValueError(f"amplify: bound must be one of {', '.join(bound_names())}, got {bound!r}.")
    return known[bound].curve(randomizer, hidden).attacked_by(attack).sent_by(total)


def _attack(randomizer: object, users: int) -> AttackCurve | None:
    """What is known from below, for every bound of this randomizer."""
    pairs = tuple(randomizer.attacks()) if isinstance(randomizer, GivesAttacks) else ()
    coin = randomizer.coin_range() if isinstance(randomizer, GivesCoin) else None
    crowds = () if coin is None else tuple(c for way in binary.directions_of(coin, users) for c in way.attacks())
    return AttackCurve(pairs, users, crowds) if pairs or crowds else None
