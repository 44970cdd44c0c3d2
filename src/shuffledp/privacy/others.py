"""What the others may send: all laws of a third user's message, for one pair of inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb, fmpq

from shuffledp.numerics.ball import precision, round_down
from shuffledp.numerics.finite_law import FiniteLaw
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.record import Record

BITS = 192


@dataclass(frozen=True)
class Others(Record):
    """Two inputs and everybody else: the two laws of user 1, and in ``kinds`` every law that another user may have.

    In each of ``kinds`` ``hiding`` is the law of one other user, whole: nothing of it is revealed. Whatever another
    user holds, at any ε the law of G = (first − e^ε·second)/hiding is a mixture of these, or below it in convex order.
    ``gamma``: a γ > 0 with which every other user's law is at least γ times one law that is the same for all.
    """

    kinds: tuple[HidingPair, ...]
    gamma: float
    symmetric: bool
    """Exchanging the two inputs leaves the set of ``kinds`` as it is."""

    def __post_init__(self) -> None:
        if not (self.kinds and 0.0 < self.gamma <= 1.0):
            raise ValueError(
                f"Others: expected some kinds and 0 < gamma <= 1, got {len(self.kinds)} and {self.gamma!r}."
            )

    def swapped(self) -> Others:
        """The other direction of the divergence."""
        return Others(tuple(kind.swapped() for kind in self.kinds), self.gamma, self.symmetric)

    def laws(self, epsilon: float) -> list[FiniteLaw]:
        """The laws of G at ε."""
        return [kind.law(epsilon) for kind in self.kinds]

    def deviation(self) -> float:
        """χ*, in floats: the largest standard deviation of G at ε = 0; the loss is proportional to it in the limit."""
        return max(math.sqrt(_square(kind)) for kind in self.kinds)

    def largest_log_ratio(self) -> float:
        """An upper bound of log(first/second)."""
        return max(kind.largest_log_ratio() for kind in self.kinds)


def _square(kind: HidingPair) -> float:
    """Σ (first − second)²/hiding."""
    with precision(BITS):
        gaps = (
            (c.first - c.second) * (c.first - c.second) / c.hiding for c in kind.classes() if not c.hiding.is_zero()
        )
        return float(sum(gaps, arb(0)))


def shared_part(blanket: HidingPair) -> float:
    """γ of a pair against the privacy blanket: the mass of what is not revealed, rounded down."""
    with precision(BITS):
        total = sum((c.hiding for c in blanket.classes() if not (c.first.is_zero() and c.second.is_zero())), arb(0))
        return min(1.0, round_down(total))


def of_any_ldp(ratio: fmpq) -> Others:
    """Every randomizer whose laws have pairwise ratios of at most ``ratio`` p, and every crowd.

    Theorem: the three probabilities (first, second, hiding) of a message are a combination, with weights of at least 0,
    of the rays {1, p}³: the cone of all triples with pairwise ratios of at most p has no others. Each of the three laws
    sums to 1, so that the weights are a mixture of the extreme points of three equations: at most three messages each,
    six in all. Two of them are below others in convex order: where all three laws are one, G is its mean; where the two
    inputs' are one and the other user's is not, G has the chances p and 1 over p + 1 as where the other user's is the
    first input's, with the same mean, and values p(1−e^ε) and (1−e^ε)/p between 1 − p·e^ε and 1 − e^ε/p.
    Requires: both ways: the others' laws to user 1's, too. γ = 1/p: everybody's law is at least 1/p of user 1's.
    """
    p, one = ratio, fmpq(1)
    binary = [(p, one), (one, p)]
    kinds = [
        [(a, b, a) for a, b in binary],
        [(a, b, b) for a, b in binary],
        [(p, one, one), (one, p, one), (one, one, p)],
        [(one, p, p), (p, one, p), (p, p, one)],
    ]
    pairs = tuple(_normalised(rays) for rays in kinds)
    with precision(BITS):
        gamma = round_down(1 / arb(p))
    return Others(pairs, gamma, symmetric=True)


def _normalised(rays: Sequence[tuple[fmpq, fmpq, fmpq]]) -> HidingPair:
    """The rays with equal weights, which make each of the three laws sum to 1."""
    whole = sum((ray[0] for ray in rays), fmpq(0))
    return exact_pair([(a / whole, b / whole, c / whole) for a, b, c in rays], symmetric=False)
