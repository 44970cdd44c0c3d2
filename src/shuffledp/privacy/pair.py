"""The dominating pair in count form: what hides one user's message, and how well.

This is the small interface between whoever knows a randomizer and whoever proves a bound: a list of message
classes, each with three probabilities. Everything else (the law of G, both directions, every ε) follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flint import arb, fmpq

from shuffledp.numerics.ball import round_up
from shuffledp.numerics.finite_law import Atoms, FiniteLaw
from shuffledp.privacy.record import Record


class MessageClass(NamedTuple):
    """Probabilities of one class of messages: user 1's under either input, and one hiding message's."""

    first: arb
    second: arb
    hiding: arb


Classes = Sequence[MessageClass]
ExactClass = tuple[fmpq, fmpq, fmpq]
"""The same three probabilities as rationals."""


@dataclass(frozen=True)
class ExactClasses:
    """Classes that are known as rationals, of positive hiding probability each."""

    triples: tuple[ExactClass, ...]

    def __call__(self) -> Classes:
        result = []
        for first, second, hiding in self.triples:
            one = arb(first)
            result.append(MessageClass(one, one if first == second else arb(second), arb(hiding)))
        return result

    def exchanged(self) -> ExactClasses:
        """The two inputs exchanged."""
        return ExactClasses(tuple((second, first, hiding) for first, second, hiding in self.triples))


@dataclass(frozen=True)
class ExchangedClasses:
    """The classes of another rule with the two inputs exchanged."""

    classes: Callable[[], Classes]

    def __call__(self) -> Classes:
        return [MessageClass(c.second, c.first, c.hiding) for c in self.classes()]


@dataclass(frozen=True)
class DrawnClasses:
    """The classes of another rule where user 1 takes part with a probability, and somebody else in their place."""

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
class HidingPair(Record):
    """User 1 sends one message by the law ``first`` or ``second``; each other user one by the law ``hiding``.

    Theorem: identity (★): with M messages in all, D_{e^ε}(P‖Q) = (1/M)·E[(G_1 + … + G_M)_+], where
    G = (first − e^ε·second)/hiding has the law ``hiding``.
    Requires: ``classes()`` gives balls at the working precision; each of the three laws sums to 1; a class of
    hiding probability exactly 0 is allowed only where both of user 1's are 0 too; where both of user 1's are equal
    they are one ball, the same object.

    A pair is data where ``classes`` is: rationals (``exact_pair``), or a frozen dataclass with ``__call__`` that holds
    the numbers which the classes are computed from. Then pairs, and curves made of them, pickle and compare equal.
    """

    classes: Callable[[], Classes] = field(repr=False)
    symmetric: bool
    """Swapping ``first`` and ``second`` leaves the law of G as it is."""
    back: Callable[[], Classes] | None = field(default=None, repr=False)
    """The classes of the other direction, where they are more than these with ``first`` and ``second`` exchanged:
    bounds of laws rather than laws, ``first`` from above and ``second`` from below, exchange their sides too."""

    @property
    def exact(self) -> tuple[ExactClass, ...] | None:
        """The classes as rationals, where they are known as such."""
        return self.classes.triples if isinstance(self.classes, ExactClasses) else None

    def swapped(self) -> HidingPair:
        """The same pair for the other direction of the divergence."""
        if self.back is not None:
            return HidingPair(self.back, self.symmetric, back=self.classes)
        if isinstance(self.classes, ExactClasses):
            return HidingPair(self.classes.exchanged(), self.symmetric)
        if isinstance(self.classes, ExchangedClasses):
            return HidingPair(self.classes.classes, self.symmetric)
        return HidingPair(ExchangedClasses(self.classes), self.symmetric)

    def drawn(self, share: fmpq) -> HidingPair:
        """The same messages where user 1 is one of them with probability ``share``, and one more of the others if not.

        Theorem: whoever is not drawn is replaced by somebody whose message has the law w = ``hiding``, so that the
        messages have the mixed laws s·(P and w^(n−1)) + (1−s)·w^n and s·(Q and w^(n−1)) + (1−s)·w^n. Their densities
        with respect to w^n are the means over all messages of s·P/w + 1 − s and of s·Q/w + 1 − s: identity (★) for
        the laws s·P + (1−s)·w and s·Q + (1−s)·w.
        Returns: a pair whose divergence is that of the sample, exactly; where some of P and Q is left out because
        nobody else sends it, no more than that.
        """
        if isinstance(self.classes, ExactClasses) and self.back is None:
            rest = 1 - share
            mixed = [(share * a + rest * w, share * b + rest * w, w) for a, b, w in self.classes.triples]
            return HidingPair(ExactClasses(tuple(mixed)), self.symmetric)
        back = None if self.back is None else DrawnClasses(self.back, share)
        return HidingPair(DrawnClasses(self.classes, share), self.symmetric, back=back)

    def spread(self) -> float:
        """About Σ (first − second)²/hiding: the variance of what a message tells where many take part."""
        apart = [(c.first - c.second, c.hiding) for c in self.classes() if not c.hiding.is_zero()]
        # Not a power, which no ball about 0 has.
        return float(sum((gap * gap / hiding for gap, hiding in apart), arb(0)))

    def law(self, epsilon: float) -> FiniteLaw:
        """The law of G at ε."""

        def atoms() -> Atoms:
            ratio = arb(epsilon).exp()
            nothing = arb(0)
            result: list[tuple[arb, arb]] = []
            for c in self.classes():
                if c.hiding.is_zero():
                    continue
                # One ball minus itself is 0 at every precision; else how many values there are would depend on it.
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
        """An upper bound of log(first/second): from here on D = 0. Infinity where a class has second = 0."""
        largest = 0.0
        for c in self.classes():
            if c.second.is_zero():
                if not c.first.is_zero():
                    return math.inf
                continue
            largest = max(largest, round_up((c.first / c.second).log()))
        return largest


def exact_pair(classes: Sequence[ExactClass], *, symmetric: bool) -> HidingPair:
    """A pair from exact probabilities (first, second, hiding); what hiding lacks to 1 is the revealed rest."""
    rest = 1 - sum((hiding for _, _, hiding in classes), fmpq(0))
    if rest < 0:
        raise ValueError(f"exact_pair: hiding probabilities must sum to at most 1, got {float(arb(1 - rest))!r}.")
    kept = tuple(triple for triple in [*classes, (fmpq(0), fmpq(0), rest)] if triple[2] != 0)

    return HidingPair(ExactClasses(kept), symmetric)


@dataclass(frozen=True)
class AtEvery:
    """One and the same pair at every ε."""

    pair: HidingPair

    def __call__(self, epsilon: float) -> HidingPair:
        return self.pair
