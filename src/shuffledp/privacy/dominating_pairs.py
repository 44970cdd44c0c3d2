"""Dominating pairs in count form: the law of one user's message against the laws of the messages that hide it.

Randomizers and bounds meet in this small interface: a list of message classes, each with three probabilities. The law
of G, both directions and every ε follow from it. ``OtherUsers`` and ``MixedOtherUsers`` list the laws that other users
may have.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import arb, fmpq

from shuffledp._core.errors import NumericalError
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp.numerics.ball_arithmetic import precision, round_down, round_up
from shuffledp.numerics.distributions import Atoms, FiniteLaw
from shuffledp.numerics.worst_case_positive_part import MessageProbabilities, chi_squared_distances


class MessageClass(NamedTuple):
    """Probabilities of one class of messages: user 1's under either input, and that of one hiding message."""

    first: arb
    second: arb
    hiding: arb


Classes = Sequence[MessageClass]
ExactClass = tuple[fmpq, fmpq, fmpq]
"""The three probabilities of a class as rationals."""


@dataclass(frozen=True)
class ExactClasses:
    """Classes known as rationals, each of positive hiding probability."""

    triples: tuple[ExactClass, ...]

    def __call__(self) -> Classes:
        result = []
        for first, second, hiding in self.triples:
            one = arb(first)
            result.append(MessageClass(one, one if first == second else arb(second), arb(hiding)))
        return result

    def swapped(self) -> ExactClasses:
        """Returns the classes with the two inputs exchanged."""
        return ExactClasses(tuple((second, first, hiding) for first, second, hiding in self.triples))


@dataclass(frozen=True)
class SwappedClasses:
    """The classes of another rule with the two inputs exchanged."""

    classes: Callable[[], Classes]

    def __call__(self) -> Classes:
        return [MessageClass(c.second, c.first, c.hiding) for c in self.classes()]


@dataclass(frozen=True)
class SubsampledClasses:
    """The classes of another rule where user 1 takes part with probability ``share``, and else another user does."""

    classes: Callable[[], Classes]
    share: fmpq

    def __call__(self) -> Classes:
        share, rest = arb(self.share), arb(1 - self.share)
        result = []
        for c in self.classes():
            first = share * c.first + rest * c.hiding
            second = first if c.first is c.second else share * c.second + rest * c.hiding
            result.append(MessageClass(first, second, c.hiding))
        return result


@dataclass(frozen=True)
class HidingPair(ValueObject):
    """User 1 sends one message with the law ``first`` or ``second``, each other user one with the law ``hiding``.

    Theorem: identity (★): with M messages in all, D_{e^ε}(P‖Q) = (1/M)·E[(G_1 + … + G_M)_+], where
    G = (first − e^ε·second)/hiding has the law ``hiding``.
    Requires: ``classes()`` returns balls at the working precision; each of the three laws sums to 1; a class of hiding
    probability exactly 0 is allowed only where both of user 1's are 0 too; where both of user 1's are equal they are
    one ball, the same object.

    A pair is data where ``classes`` is: rationals (``exact_pair``), or a frozen dataclass with ``__call__`` that holds
    the numbers from which the classes are computed. Then pairs, and curves made of them, pickle and compare equal.

    Args:
        classes: Function that returns the message classes at the working precision.
        symmetric: True if exchanging the two inputs leaves the law of G unchanged.
        reverse_classes: The classes with the inputs exchanged, if they do not follow from `classes`.
    """

    classes: Callable[[], Classes] = field(repr=False)
    symmetric: bool
    """True if exchanging ``first`` and ``second`` leaves the law of G unchanged."""
    reverse_classes: Callable[[], Classes] | None = field(default=None, repr=False)
    """The classes of the other direction, if these with ``first`` and ``second`` exchanged are not: bounds of laws,
    ``first`` from above and ``second`` from below, also exchange their sides.
    """

    @property
    def exact(self) -> tuple[ExactClass, ...] | None:
        """The classes as rationals; None if they are not known as such."""
        return self.classes.triples if isinstance(self.classes, ExactClasses) else None

    def swapped(self) -> HidingPair:
        """Returns the pair for the other direction of the divergence."""
        if self.reverse_classes is not None:
            return HidingPair(self.reverse_classes, self.symmetric, reverse_classes=self.classes)
        if isinstance(self.classes, ExactClasses):
            return HidingPair(self.classes.swapped(), self.symmetric)
        if isinstance(self.classes, SwappedClasses):
            return HidingPair(self.classes.classes, self.symmetric)
        return HidingPair(SwappedClasses(self.classes), self.symmetric)

    def subsample(self, share: fmpq) -> HidingPair:
        """Returns the pair where user 1 sends with probability ``share``, and else one more of the others does.

        Theorem: a user who is not drawn is replaced by one whose message has the law w = ``hiding``, so the messages
        have the mixed laws s·(P and w^(n−1)) + (1−s)·w^n and s·(Q and w^(n−1)) + (1−s)·w^n. Their densities with
        respect to w^n are the means over all messages of s·P/w + 1 − s and of s·Q/w + 1 − s: identity (★) for the laws
        s·P + (1−s)·w and s·Q + (1−s)·w.
        Returns: a pair whose divergence is exactly that of the sample; where part of P and Q is left out because nobody
        else sends it, at most that.

        Args:
            share: Probability that user 1 sends.
        """
        if isinstance(self.classes, ExactClasses) and self.reverse_classes is None:
            rest = 1 - share
            mixed = [(share * a + rest * w, share * b + rest * w, w) for a, b, w in self.classes.triples]
            return HidingPair(ExactClasses(tuple(mixed)), self.symmetric)
        back = None if self.reverse_classes is None else SubsampledClasses(self.reverse_classes, share)
        return HidingPair(SubsampledClasses(self.classes, share), self.symmetric, reverse_classes=back)

    def spread(self) -> float:
        """Returns about Σ (first − second)²/hiding: the variance of a message's loss in the limit of many users."""
        apart = [(c.first - c.second, c.hiding) for c in self.classes() if not c.hiding.is_zero()]
        # Not a power, because balls around 0 have none.
        return float(sum((gap * gap / hiding for gap, hiding in apart), arb(0)))

    def law(self, epsilon: float) -> FiniteLaw:
        """Returns the law of G at ε.

        Args:
            epsilon: The ε.
        """

        def atoms() -> Atoms:
            ratio = arb(epsilon).exp()
            nothing = arb(0)
            result: list[tuple[arb, arb]] = []
            for c in self.classes():
                if c.hiding.is_zero():
                    continue
                # A ball minus itself is 0 at every precision; otherwise the number of values would depend on the
                # precision.
                apart = arb(0) if c.first is c.second else c.first - c.second
                value = apart - c.second * (ratio - 1)
                if value.is_zero():
                    nothing += c.hiding
                else:
                    result.append((value / c.hiding, c.hiding))
            if not nothing.is_zero():
                result.append((arb(0), nothing))
            return result

        return FiniteLaw(atoms)

    def largest_log_ratio(self) -> float:
        """Returns an upper bound of log(first/second), from which on D = 0; infinity where a class has second = 0."""
        largest = 0.0
        for c in self.classes():
            if c.second.is_zero():
                if not c.first.is_zero():
                    return math.inf
                continue
            largest = max(largest, round_up((c.first / c.second).log()))
        return largest


def exact_pair(classes: Sequence[ExactClass], *, symmetric: bool) -> HidingPair:
    """Returns a pair from exact probabilities; the mass that the hiding law lacks to 1 is revealed.

    Args:
        classes: The probabilities (first, second, hiding) of each class of messages.
        symmetric: True if exchanging the two inputs leaves the law of G unchanged.

    Raises:
        ValueError: If the hiding probabilities sum to more than 1.
    """
    rest = 1 - sum((hiding for _, _, hiding in classes), fmpq(0))
    if rest < 0:
        raise ValueError(f"exact_pair: hiding probabilities must sum to at most 1, got {float(arb(1 - rest))!r}.")
    kept = tuple(triple for triple in [*classes, (fmpq(0), fmpq(0), rest)] if triple[2] != 0)

    return HidingPair(ExactClasses(kept), symmetric)


@dataclass(frozen=True)
class ConstantPair:
    """The same pair at every ε."""

    pair: HidingPair

    def __call__(self, epsilon: float) -> HidingPair:
        return self.pair


# --- Others with several randomizers ---


@dataclass(frozen=True)
class MixedOtherUsers(ValueObject):
    """Two inputs of a user of one group, and every law that a user of each group may have.

    ``groups``: for each group, in order, its kinds as in ``OtherUsers``: whatever a user of it holds, at any ε the law
    of G = (first − e^ε·second)/hiding is a mixture of these, or below one in convex order.
    ``gamma``: for each group a γ > 0 such that every law of its users is at least γ times one law that is the same for
    all groups.
    """

    gamma: tuple[float, ...]
    groups: tuple[tuple[HidingPair, ...], ...]
    symmetric: bool
    """True if exchanging the two inputs leaves each set of kinds unchanged."""
    aligned: tuple[tuple[HidingPair, ...], ...] = ()
    """The same kinds over one common list of messages, if ``groups`` have merged some of these."""

    def __post_init__(self) -> None:
        if len(self.gamma) != len(self.groups) or not all(self.groups):
            raise ValueError("MixedOtherUsers: expected some laws and a gamma for every group.")
        if not all(0.0 <= each <= 1.0 for each in self.gamma):
            raise ValueError(f"MixedOtherUsers: expected every gamma between 0 and 1, got {self.gamma!r}.")

    def swapped(self) -> MixedOtherUsers:
        """Returns the other direction of the divergence."""
        return replace(self, groups=_swapped(self.groups), aligned=_swapped(self.aligned))

    def largest_log_ratio(self) -> float:
        """Returns an upper bound of log(first/second)."""
        return max(kind.largest_log_ratio() for kinds in self.groups for kind in kinds)


def _swapped(groups: tuple[tuple[HidingPair, ...], ...]) -> tuple[tuple[HidingPair, ...], ...]:
    return tuple(tuple(kind.swapped() for kind in kinds) for kinds in groups)


# --- Others with the same randomizer ---


BITS, VIEW_BITS = 192, 60
"""Precision of the balls from which floats are made, and the number of their bits that must be certain."""


@dataclass(frozen=True)
class OtherUsers(ValueObject, ABC):
    """Two inputs and all other users.

    It has the two laws of user 1, and in ``user_pairs`` every law that another user may have. In each kind ``hiding``
    is the law of one other user, or a part of it and then the revealed rest. Whatever another user holds, at any ε the
    law of G = (first − e^ε·second)/hiding is a mixture of these, or below one in convex order.

    Args:
        gamma: A γ > 0 such that every other user's law is at least γ times one law that is the same for all.
        symmetric: True if exchanging the two inputs leaves the set of ``user_pairs`` unchanged.
    """

    gamma: float
    symmetric: bool

    def __post_init__(self) -> None:
        if not 0.0 < self.gamma <= 1.0:
            raise ValueError(f"OtherUsers: expected 0 < gamma <= 1, got {self.gamma!r}.")

    @property
    @abstractmethod
    def user_pairs(self) -> tuple[HidingPair, ...]:
        """Every law that another user may have, against the two of user 1."""

    @abstractmethod
    def user_pair(self, place: int) -> HidingPair:
        """Returns the pair of one kind of other user.

        Args:
            place: Its row in ``probabilities``.
        """

    @abstractmethod
    def swapped(self) -> OtherUsers:
        """Returns the other direction of the divergence."""

    @property
    @abstractmethod
    def probabilities(self) -> MessageProbabilities:
        """All kinds in floats."""

    @property
    @abstractmethod
    def signature(self) -> frozenset[object]:
        """The data that determine the kinds: equal for equal kinds, in any order."""

    def laws(self, epsilon: float) -> list[FiniteLaw]:
        """Returns the laws of G at ε.

        Args:
            epsilon: The ε.
        """
        return [kind.law(epsilon) for kind in self.user_pairs]

    def approximate_laws(self, epsilon: float) -> list[FiniteLaw]:
        """Returns approximately the same laws, for estimates, where proving that ``laws`` is complete takes long.

        Args:
            epsilon: The ε.
        """
        return self.laws(epsilon)

    @abstractmethod
    def largest_log_ratio(self) -> float:
        """Returns an upper bound of log(first/second)."""


@dataclass(frozen=True)
class ListedOtherUsers(OtherUsers):
    """Other users whose possible laws are all listed.

    Args:
        listed_pairs: Every law that another user may have, against the two of user 1.
    """

    listed_pairs: tuple[HidingPair, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.listed_pairs:
            raise ValueError("OtherUsers: expected some laws, got none.")

    @property
    def user_pairs(self) -> tuple[HidingPair, ...]:
        return self.listed_pairs

    def user_pair(self, place: int) -> HidingPair:
        return self.listed_pairs[place]

    def swapped(self) -> OtherUsers:
        return ListedOtherUsers(self.gamma, self.symmetric, tuple(kind.swapped() for kind in self.listed_pairs))

    @cached_property
    def probabilities(self) -> MessageProbabilities:
        with precision(BITS):
            classes = [kind.classes() for kind in self.listed_pairs]
            if not all(_is_precise(chance) for kind in classes for each in kind for chance in each):
                raise NumericalError("OtherUsers: a probability is not known to 60 binary digits; please report.")
        shape = len(classes), max(map(len, classes))
        view = MessageProbabilities(np.zeros(shape), np.zeros(shape), np.zeros(shape))
        for row, kind in enumerate(classes):
            for column, chances in enumerate(kind):
                for array, chance in zip(view, chances, strict=True):
                    array[row, column] = float(chance)
        return view

    @cached_property
    def signature(self) -> frozenset[object]:
        return frozenset(self.listed_pairs)

    def largest_log_ratio(self) -> float:
        return max(kind.largest_log_ratio() for kind in self.listed_pairs)


def _is_precise(chance: arb) -> bool:
    """Returns True if the probability is known to the digits that ``MessageProbabilities`` requires."""
    return bool(chance.is_zero() or chance.rel_accuracy_bits() > VIEW_BITS)


def blanket_mass(blanket: HidingPair) -> float:
    """Returns γ of a pair against the privacy blanket: the mass that is not revealed, rounded down."""
    with precision(BITS):
        total = sum((c.hiding for c in blanket.classes() if not (c.first.is_zero() and c.second.is_zero())), arb(0))
        return min(1.0, round_down(total))


def worst_user_pairs(families: Sequence[OtherUsers], most: int = 2) -> list[HidingPair]:
    """Returns the kinds with the largest spread of G, which hide worst in the limit if all others are of that kind."""
    spread = [
        (float(square), one, place)
        for one in families
        for place, square in enumerate(chi_squared_distances(one.probabilities))
    ]
    return [one.user_pair(place) for _, one, place in sorted(spread, key=lambda found: -found[0])[:most]]
