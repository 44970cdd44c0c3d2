"""What an attacker who sees several rounds of the same protocol attains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from shuffledp.privacy.attack import Attack
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.value import certain


@dataclass(frozen=True)
class RepeatedAttack(Attack):
    """Several rounds, each attacked in the same way: certified lower bounds of δ(ε) and ε(δ).

    The rounds are independent given the data, so the pair of all rounds is a product, and what composition proves
    about it from below is attained (by a dataset for each round, where the others' values were drawn at random).
    Attacks whose two directions differ are not composed: one of their rounds is still a lower bound for all.
    """

    once: Attack
    rounds: int
    compose: Callable[[PrivacyCurve, int], PrivacyCurve]

    @cached_property
    def _together(self) -> PrivacyCurve | None:
        """All rounds of the attack that tells most when there are many users."""
        curves = self.once.exact_curves()
        if not curves:
            return None
        return self.compose(max(curves, key=lambda curve: curve.loss_deviation() or 0.0), self.rounds)

    def exact_curves(self) -> Sequence[PrivacyCurve]:
        return [] if self._together is None else [self._together]

    def delta(self, epsilon: float) -> float:
        """A dataset whose divergence at ε is at least this."""
        return max([self.once.delta(epsilon), *(certain(c.delta(epsilon)) for c in self.exact_curves())])

    def epsilon(self, delta: float) -> float:
        """No ε below this is (ε, δ)-private for every dataset."""
        return max([self.once.epsilon(delta), *(certain(c.epsilon(delta)) for c in self.exact_curves())])
