"""What an attacker attains on real datasets: certified lower bounds, from the divergences of their exact pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from shuffledp.numerics.ball import precision
from shuffledp.numerics.expectation import PositivePartMean
from shuffledp.numerics.inversion import Decreasing, invert
from shuffledp.privacy.curve import FORMULA_BITS, LARGEST_EPSILON, NumericCurve, PrivacyCurve, Source
from shuffledp.privacy.pair import AtEvery, HidingPair
from shuffledp.privacy.record import Record


class Attack(Record, ABC):
    """What is attained on some real dataset: certified lower bounds."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """A dataset whose divergence at ε is at least this."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """No ε below this is (ε, δ)-private for every dataset."""

    @abstractmethod
    def exact_curves(self) -> Sequence[PrivacyCurve]:
        """Curves of attacked datasets whose two directions are equal: all that is known of them, from both sides."""


@dataclass(frozen=True)
class AttackCurve(Attack):
    """What attacks on real datasets attain: certified lower bounds of δ(ε) and ε(δ).

    Each attack is the exact pair of one dataset (or of datasets drawn at random: some dataset attains at least the
    average, because the divergence is convex). Both directions count.
    """

    attacks: tuple[HidingPair, ...]
    messages: int
    further: tuple[Decreasing, ...] = ()
    """Divergences of datasets that no pair describes, one direction each."""

    @cached_property
    def _divergences(self) -> tuple[Decreasing, ...]:
        ways = [way for pair in self.attacks for way in ([pair] if pair.symmetric else [pair, pair.swapped()])]
        return *(PositivePartMean(way.law, self.messages) for way in ways), *self.further

    def exact_curves(self) -> Sequence[PrivacyCurve]:
        # Exact for its dataset, hence no upper bound for the others.
        source = Source("attack", "identity (★)", self.messages, guarantee=False)
        with precision(FORMULA_BITS):
            return [
                NumericCurve(source, (AtEvery(pair),), pair.largest_log_ratio(), fixed=True)
                for pair in self.attacks
                if pair.symmetric
            ]

    def delta(self, epsilon: float) -> float:
        """A dataset whose divergence at ε is at least this."""
        return max(d.bracket(min(epsilon, LARGEST_EPSILON)).lower_float() for d in self._divergences)

    def epsilon(self, delta: float) -> float:
        """No ε below this is (ε, δ)-private for every dataset."""
        best = 0.0
        for divergence in self._divergences:
            if best == 0.0 or divergence.bracket(best).lower > delta:
                found = invert(divergence, delta, LARGEST_EPSILON, zero_at_high=False)
                best = max(best, found.lower)
        return best
