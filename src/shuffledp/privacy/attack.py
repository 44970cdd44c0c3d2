"""What an attacker attains on constructed datasets: certified lower bounds, from the divergences of exact pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from flint import fmpq

from shuffledp.numerics.ball import precision
from shuffledp.numerics.expectation import PositivePartMean
from shuffledp.numerics.inversion import Decreasing, invert
from shuffledp.privacy.curve import FORMULA_BITS, LARGEST_EPSILON, NumericCurve, PrivacyCurve, Source
from shuffledp.privacy.pair import AtEvery, HidingPair
from shuffledp.privacy.record import Record


class Attack(Record, ABC):
    """What is attained on some constructed dataset: certified lower bounds."""

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
    """What attacks on constructed datasets attain: certified lower bounds of δ(ε) and ε(δ).

    Each attack is the exact pair of one dataset (or of datasets drawn at random: some dataset attains at least the
    average, because the divergence is convex). Both directions count.
    """

    attacks: tuple[HidingPair, ...]
    messages: int
    further: tuple[Decreasing, ...] = ()
    """Divergences of datasets that no pair describes, one direction each."""
    derived: Callable[[], Sequence[HidingPair]] | None = None
    """More exact pairs, derived only when somebody asks what is attained."""
    one_each: bool = False
    """Whether each message is all that a user sends, so that whoever is not drawn is replaced by one more of them."""

    @cached_property
    def pairs(self) -> tuple[HidingPair, ...]:
        """All exact pairs."""
        return *self.attacks, *(() if self.derived is None else self.derived())

    @cached_property
    def ways(self) -> tuple[HidingPair, ...]:
        """The pairs in both directions, where these differ."""
        return tuple(way for pair in self.pairs for way in ([pair] if pair.symmetric else [pair, pair.swapped()]))

    @cached_property
    def _divergences(self) -> tuple[Decreasing, ...]:
        return *(PositivePartMean(way.law, self.messages) for way in self.ways), *self.further

    def drawn(self, users: int, population: int) -> AttackCurve | None:
        """The same attacks where ``users`` of a larger population are drawn secretly; None where that is not known.

        All others of the population hold what the others of the dataset do, so that it is the same whoever is drawn.
        """
        if not self.one_each:
            return None
        return AttackCurve((), users, derived=DrawnPairs(self, fmpq(users, population)), one_each=True)

    def exact_curves(self) -> Sequence[PrivacyCurve]:
        # Exact for its dataset, hence no upper bound for the others.
        source = Source("attack", "identity (★)", self.messages, guarantee=False)
        with precision(FORMULA_BITS):
            return [
                NumericCurve(source, (AtEvery(pair),), pair.largest_log_ratio(), fixed=True)
                for pair in self.pairs
                if pair.symmetric
            ]

    def delta(self, epsilon: float) -> float:
        """A dataset whose divergence at ε is at least this."""
        found = (d.bracket(min(epsilon, LARGEST_EPSILON)).lower_float() for d in self._divergences)
        return max(0.0, max(found, default=0.0))

    def epsilon(self, delta: float) -> float:
        """No ε below this is (ε, δ)-private for every dataset."""
        best = 0.0
        for divergence in self._divergences:
            if best == 0.0 or divergence.bracket(best).lower > delta:
                found = invert(divergence, delta, LARGEST_EPSILON, zero_at_high=False)
                best = max(best, found.lower)
        return best


@dataclass(frozen=True)
class DrawnPairs:
    """The pairs of some attacks where user 1 takes part with a probability only."""

    attacks: AttackCurve
    share: fmpq

    def __call__(self) -> Sequence[HidingPair]:
        return [pair.drawn(self.share) for pair in self.attacks.pairs]
