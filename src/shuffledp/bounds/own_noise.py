"""Protocols whose noise has a law of its own: the guarantee is that law's."""

from __future__ import annotations

from shuffledp.bounds.bound import Bound
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import Source
from shuffledp.privacy.own_loss import OwnLossCurve
from shuffledp.privacy.randomizer import HasOwnLoss, Randomizer


class OwnNoiseBound(Bound):
    """The privacy loss of noise that all honest users, or the shuffler, add together.

    Theorem: the protocol's own, proved where its loss is computed; each curve names it.
    Requires: a protocol that knows the law of its noise, and as many honest users as it needs.
    Returns: certified values of δ(ε); equal to the truth where the protocol says that an attack attains them.
    """

    name = "own-noise"
    theorem = "the law of the protocol's own noise"
    summary = "exact, for protocols whose users or shuffler add noise with a law of its own"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> OwnLossCurve:
        if not isinstance(randomizer, HasOwnLoss):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} has no noise with a law of its own.")
        loss = randomizer.own_loss(users)
        return OwnLossCurve(Source(self.name, loss.theorem, users, self.guarantees, loss.note), loss)
