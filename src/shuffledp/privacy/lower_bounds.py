"""Attacks on constructed datasets: certified lower bounds of δ(ε) and ε(δ)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from flint import fmpq

from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.numerics.roots import DecreasingFunction, invert
from shuffledp.privacy.curve import FORMULA_BITS, MAX_EPSILON, CurveSource, NumericCurve, PrivacyCurve
from shuffledp.privacy.dominating_pairs import ConstantPair, HidingPair


class Attack(ValueObject, ABC):
    """Certified lower bounds of δ(ε) and ε(δ), attained on constructed datasets."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Returns a δ that the divergence of some dataset reaches at ε."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Returns an ε below which not every dataset is (ε, δ)-private."""

    @abstractmethod
    def exact_curves(self) -> Sequence[PrivacyCurve]:
        """Returns the exact curves of those attacked datasets whose two directions are equal."""


@dataclass(frozen=True)
class AttackCurve(Attack):
    """Certified lower bounds of δ(ε) and ε(δ) from the exact pairs of constructed datasets.

    Each pair describes one dataset, or datasets drawn at random: some dataset attains at least the average, because the
    divergence is convex. Both directions count.
    """

    attacks: tuple[HidingPair, ...]
    messages: int
    extra_divergences: tuple[DecreasingFunction, ...] = ()
    """Divergences of datasets that are not given by a pair, one direction each."""
    derive_pairs: Callable[[], Sequence[HidingPair]] | None = None
    """Derives further exact pairs; called only when a lower bound is needed."""
    one_message_each: bool = False
    """True if every user sends one message, so that a user who is not drawn is replaced by one more of the others."""

    @cached_property
    def pairs(self) -> tuple[HidingPair, ...]:
        """All exact pairs."""
        return *self.attacks, *(() if self.derive_pairs is None else self.derive_pairs())

    @cached_property
    def directed_pairs(self) -> tuple[HidingPair, ...]:
        """The pairs in both directions, where these differ."""
        return tuple(way for pair in self.pairs for way in ([pair] if pair.symmetric else [pair, pair.swapped()]))

    @cached_property
    def _divergences(self) -> tuple[DecreasingFunction, ...]:
        return *(PositivePartMean(way.law, self.messages) for way in self.directed_pairs), *self.extra_divergences

    def subsample(self, users: int, population: int) -> AttackCurve | None:
        """Returns the same attacks for a secret sample of ``users`` from a larger population; None if that is unknown.

        The rest of the population holds the same values as the others of the dataset, so it does not matter who is
        drawn.
        """
        if not self.one_message_each:
            return None
        return AttackCurve(
            (), users, derive_pairs=SubsampledPairs(self, fmpq(users, population)), one_message_each=True
        )

    def exact_curves(self) -> Sequence[PrivacyCurve]:
        # Exact for its dataset, hence not an upper bound for others.
        source = CurveSource("attack", "identity (★)", self.messages, guarantee=False)
        with precision(FORMULA_BITS):
            return [
                NumericCurve(source, (ConstantPair(pair),), pair.largest_log_ratio(), has_fixed_pairs=True)
                for pair in self.pairs
                if pair.symmetric
            ]

    def delta(self, epsilon: float) -> float:
        lower = (d.bracket(min(epsilon, MAX_EPSILON)).lower_float() for d in self._divergences)
        return max(0.0, max(lower, default=0.0))

    def epsilon(self, delta: float) -> float:
        best = 0.0
        for divergence in self._divergences:
            if best == 0.0 or divergence.bracket(best).lower > delta:
                inverse = invert(divergence, delta, MAX_EPSILON, zero_at_high=False)
                best = max(best, inverse.lower)
        return best


@dataclass(frozen=True)
class SubsampledPairs:
    """The pairs of some attacks where user 1 takes part only with probability ``share``."""

    attacks: AttackCurve
    share: fmpq

    def __call__(self) -> Sequence[HidingPair]:
        return [pair.subsample(self.share) for pair in self.attacks.pairs]
