"""Base classes of output laws, as bounds need them; randomized bits; printed guarantees of published protocols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp.privacy.dominating_pairs import HidingPair, MixedOtherUsers, OtherUsers
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import random_sources

# --- Randomized response on one bit ---


MIN_EPSILON = 1e-17
"""Smallest ε: a bit flipped with a multiple of 2^-64 still carries information at half of it."""


def check_informative_epsilon(who: str, name: str, epsilon: object) -> float:
    """Returns a finite ε that is large enough for a bit to carry information: at least `MIN_EPSILON`."""
    number = validation.positive_finite(who, name, epsilon)
    if number < MIN_EPSILON:
        raise ValueError(f"{who}: {name} must be at least {MIN_EPSILON:g}, got {number!r}.")
    return number


def flip_probability(epsilon: float) -> Fraction:
    """Returns the smallest multiple f of 2^-64 with (1−f)/f ≤ e^ε, that is f ≥ 1/(e^ε + 1); from ε = 64 on 2^-64."""
    return random_sources.round_up_to_multiple(lambda: 1 / (arb(min(epsilon, 64.0)).exp() + 1))


# --- Laws ---


class Law(ABC):
    """Output laws of all inputs, as far as privacy is concerned: likelihood ratios, blanket and attacks."""

    tight: bool = False
    """True if some pair of inputs attains β and the blanket; otherwise they are proved upper bounds."""
    covers_mixtures: bool = False
    """True if `blankets()` suffice to assemble the worst case of a mixture of randomizers.

    That is, every pair of inputs, equal ones included, has a G below that of one of them in convex order.

    It is set if every law is the blanket times 1 or a constant c. Then the G of an unchanged input x is below that of
    its change from any other x': G grows by b − a with mean 0. For a = c it does not grow (b ≤ c), for a = 1 it does
    not fall (b ≥ 1), and the former has the smaller value of (1 − e^ε)·a.
    """

    missing_attack_reason: str = ""
    """Reason, as half a sentence, why no dataset with an exact law is known; empty if there is one."""

    @abstractmethod
    def variation_ratio(self) -> VariationRatio:
        """Returns upper bounds of the ratio, the total variation and the ratios to the others, for the executed law."""

    @abstractmethod
    def blankets(self) -> Sequence[HidingPair]:
        """Returns, for each kind of input pair that may be the worst, its pair against the privacy blanket."""

    @abstractmethod
    def attacks(self) -> Sequence[HidingPair]:
        """Returns the exact pairs of some constructed datasets; empty if none is known."""

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns, for each kind of input pair that may be the worst, every law that another user's message may have.

        Empty if these laws are not known.
        """
        return ()

    def mixed_other_users(self, hiders: Sequence[Law]) -> Sequence[MixedOtherUsers]:
        """Returns, for each kind of input pair that may be the worst, every law that a message of each group may have.

        Args:
            hiders: Laws of the groups among whose messages this one hides.

        Returns:
            One entry per kind of input pair; empty if their messages differ in kind, or it is not known.
        """
        return ()

    def opt_out_law(self) -> Law | None:
        """Returns the law of a sender of the same messages who holds no value, or None if it is not defined."""
        return None

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        """Returns the extreme probabilities of one message over all inputs, if there are only two messages."""
        return None


# --- Protocols in which no single message hides a value, but the noise of all users together does ---


@dataclass(frozen=True)
class AggregateNoiseLaw(Law):
    """Law of a protocol with aggregate noise, to which bounds on single messages do not apply.

    Args:
        error_prefix: Name that begins error messages.
    """

    error_prefix: str

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable("variation-ratio", f"{self.error_prefix} hides values by the noise of all users together.")

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()


# --- Laws given by their worst pairs of inputs ---


@dataclass(frozen=True)
class PairLaw(Law):
    """Law whose worst pairs of inputs and parameters are known.

    Args:
        parameters: Variation-ratio parameters that hold for every pair of inputs.
        blanket_pairs: Pairs against the privacy blanket.
        attack_pairs: Exact pairs of constructed datasets.
        tight: True if some pair of inputs attains β and the blanket.
        covers_mixtures: True if `blanket_pairs` covers mixtures of randomizers, as for `Law`.
        missing_attack_reason: Reason why `attack_pairs` is empty.
    """

    parameters: VariationRatio
    blanket_pairs: tuple[HidingPair, ...]
    attack_pairs: tuple[HidingPair, ...] = ()
    tight: bool = False
    covers_mixtures: bool = False
    missing_attack_reason: str = ""

    def variation_ratio(self) -> VariationRatio:
        return self.parameters

    def blankets(self) -> Sequence[HidingPair]:
        return self.blanket_pairs

    def attacks(self) -> Sequence[HidingPair]:
        return self.attack_pairs


# --- Published guarantees of multi-message protocols, as printed: for comparison, never as a certified guarantee ---


PUBLISHED_BOUND_NAME = "protocol-published"
"""Name of the bound that reports published guarantees."""


def build_not_applicable(reason: str) -> NotApplicable:
    """Returns the exception that says why the published guarantee does not apply."""
    return NotApplicable(PUBLISHED_BOUND_NAME, reason)


def check_no_blank_dummies(share: float) -> None:
    """Raises NotApplicable if some dummies are blank, which the printed analyses do not cover."""
    if share < 1:
        raise build_not_applicable(f"needs share = 1, got {share!r}.")


def check_epsilon_range(most: float, epsilon: arb) -> arb:
    """Returns ε, or raises NotApplicable if it exceeds the range of the printed analysis."""
    if not epsilon <= most:
        raise build_not_applicable(f"needs ε ≤ {most:g}, got {float(epsilon):.6g}.")
    return epsilon


def dump_epsilon(options: int, share: float, messages: int, delta: arb) -> arb:
    """Returns the ε of the DUMP protocols: √(14·d·log(2/δ)/dummies).

    Theorem: [DUMP] pureDUMP, after [PB] Theorem 3.1 for uniform blankets.
    Requires: every dummy filled; ε ≤ 1.
    """
    check_no_blank_dummies(share)
    return check_epsilon_range(1, (14 * options * (2 / delta).log() / (messages - 1)).sqrt())


def inverse_coth(square: arb) -> arb:
    """Returns the x with coth(x)² = square; raises NotApplicable if there is none."""
    if not square > 1:
        raise build_not_applicable(f"needs more noise: coth(x)² = {float(square):.6g} has no solution.")
    return (1 / square.sqrt()).atanh()
