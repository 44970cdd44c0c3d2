"""Protocols that answer several questions at once: the guarantee of all answers together."""

from __future__ import annotations

import dataclasses

from shuffledp.bounds.bound import Bound
from shuffledp.composition.sequential import compose
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import HasOwnLoss, HasParts, Randomizer

ACCURACY = 1e-5
"""By how much, relatively, composing may raise ε: noise whose loss has large atoms needs a fine grid."""


def _has_atoms(randomizer: HasParts) -> bool:
    """Whether some part's noise is made together, so that its loss may have large atoms."""
    return any(isinstance(part, HasOwnLoss | HasParts) for part, _ in randomizer.parts())


class ComposedPartsBound(Bound):
    """Every question's own guarantee, composed.

    Theorem: composition of independent mechanisms (privacy/loss.py), each bounded by the smallest of our guarantees.
    Requires: parts whose messages say which question they answer and whose randomness is independent.
    Returns: a certified upper bound of δ(ε); one user's value may change the answer to every question.
    """

    name = "composed-parts"
    theorem = "composition of the parts' own guarantees"
    summary = "for protocols that ask several questions at once, each hidden by its own crowd"
    guarantees = True

    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        if not isinstance(randomizer, HasParts):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} asks one question only.")
        from shuffledp.bounds.best import best_curve

        curves: list[PrivacyCurve] = []
        for part, times in randomizer.parts():
            found = best_curve(part, part.hiding_messages(users))
            # Equal curves are one curve several times, which is composed faster.
            curves += [next((known for known in curves if known == found), found)] * times
        together = compose(curves, accuracy=ACCURACY if _has_atoms(randomizer) else None)
        own = "; ".join(dict.fromkeys(curve.theorem for curve in curves))
        theorem = f"{self.theorem}: {own}"
        source = dataclasses.replace(
            together.source, bound=self.name, theorem=theorem, messages=users, users=None, attack=None
        )
        return dataclasses.replace(together, source=source)
