"""Two messages: is every dataset (ε, δ)-private? The others are coins of two kinds, some of one, the rest of the other.

Few users: sums over every count, in balls, for every crowd or for many at once. Many: all crowds by their hulls, as for
randomizers with more messages (``certificate.crowds``).
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb, arb_poly, fmpq

from shuffledp.certificate.crowds import Family, judge_crowds
from shuffledp.certificate.moved import positive_sum
from shuffledp.certificate.proof import Finding, Verdict, exponential
from shuffledp.numerics.ball import precision

FEW, MOST = 1_000, 100_000
"""Up to so many users crowds are looked at one by one; and up to so many where hulls do not decide it."""
MOST_LOOKS = 400
BITS, LEFT_OUT = 160, 2.0**-60
"""The working precision, and what of δ is left out of a law."""
METHOD = "sums over every count of every crowd in balls"


def judge_coins(high: Fraction, low: Fraction, users: int, epsilon: Fraction, delta: Fraction) -> Finding:
    """Whether D_{e^ε} ≤ δ for user 1's coin ``high`` against ``low``, and for the other way round.

    Theorem: every other user's law is a mixture of the two coins, and D is convex in it, so that the worst others hold
    one of them each. The other direction is the same with the meaning of the messages exchanged.
    """
    found = [judge_one_way(high, low, users, epsilon, delta)]
    if (1 - low, 1 - high) != (high, low):
        found.append(judge_one_way(1 - low, 1 - high, users, epsilon, delta))
    # No is worse than cannot decide, which is worse than yes.
    order = (Verdict.NO, Verdict.OPEN, Verdict.YES)
    return min(found, key=lambda finding: order.index(finding.verdict))


def judge_one_way(high: Fraction, low: Fraction, users: int, epsilon: Fraction, delta: Fraction) -> Finding:
    """One direction, high > low."""
    if users > FEW:
        finding = judge_crowds(_family(high, low), users - 1, epsilon, delta)
        if finding.verdict is not Verdict.OPEN or users > MOST:
            return finding
    with precision(BITS + max(0, delta.denominator.bit_length() - delta.numerator.bit_length())):
        return _Coins(high, low, users, epsilon, delta).judged()


def _family(high: Fraction, low: Fraction) -> Family:
    """What others have in common, and the two kinds of them."""
    first, second = _exact(high), _exact(low)
    kinds = tuple(
        ((first, second, other), (1 - first, 1 - second, 1 - other)) for other in (first, second) if 0 < other < 1
    )
    return Family(second + 1 - first, kinds)


class _Coins:
    """All crowds of one direction, at the working precision."""

    def __init__(self, high: Fraction, low: Fraction, users: int, epsilon: Fraction, delta: Fraction) -> None:
        self.high, self.low, self.others = arb(_exact(high)), arb(_exact(low)), users - 1
        below, above = exponential(epsilon)
        factor = arb(below).union(arb(above))
        # Of F messages 1 from the others, D = Σ_t (α·P(F = t−1) − β·P(F = t))₊.
        self.alpha = self.high - factor * self.low
        self.beta = factor * (1 - self.low) - (1 - self.high)
        self.delta = arb(_exact(delta))

    def judged(self) -> Finding:
        """Blocks of crowds, halved where what holds for all of them is too much.

        One more coin is post-processing: with from a to b of them ``high`` a crowd tells at most as much as one of a
        such coins and as many ``low`` as there are with b.
        """
        if self.alpha <= 0:
            return Finding(Verdict.YES, "no message is e^ε times likelier under one input.", "likelihood ratios")
        stack, looked = [(0, self.others)], 0
        while stack:
            first, last = stack.pop()
            lower, upper = self._divergence(first, self.others - last)
            looked += 1
            if upper <= self.delta:
                continue
            if first == last:
                if lower > self.delta:
                    reason = f"a dataset's divergence is above δ: at least {float(lower):.7g}."
                    return Finding(Verdict.NO, reason, METHOD)
                return Finding(Verdict.OPEN, "δ is too near to the divergence itself.", METHOD)
            if looked > MOST_LOOKS:
                return Finding(Verdict.OPEN, "too many datasets are nearly as bad as the worst.", METHOD)
            middle = (first + last) // 2
            stack += [(first, middle), (middle + 1, last)]
        return Finding(Verdict.YES, "the divergence is at most δ.", METHOD)

    def _divergence(self, many: int, rest: int) -> tuple[arb, arb]:
        left_out = self.delta * LEFT_OUT
        product = arb_poly(_binomial(many, self.high, left_out)) * arb_poly(_binomial(rest, self.low, left_out))
        law = product.coeffs()
        # Where F is known but for a little mass, every cell is off by at most α or β times a part of it.
        missing = (1 - sum(law, arb(0))).max(arb(0))
        lower, upper = positive_sum([arb(0), *(self.alpha * p for p in law)], [*(self.beta * p for p in law), arb(0)])
        return (lower - self.beta * missing).lower(), (upper + self.alpha * missing).upper()


def _binomial(trials: int, chance: arb, left_out: arb) -> list[arb]:
    """The chances of all counts, from some count on, but for unlikely ones at the ends."""
    if trials == 0 or chance == 1 or chance == 0:
        return [arb(1)]
    odds, mode = chance / (1 - chance), round(trials * float(chance))
    peak = arb.bin_uiui(trials, mode) * chance**mode * (1 - chance) ** (trials - mode)
    up, down = [peak], [peak]
    while mode + len(up) <= trials and not up[-1] < left_out / trials:
        count = mode + len(up)
        up.append(up[-1] * odds * (trials - count + 1) / count)
    while mode - len(down) >= 0 and not down[-1] < left_out / trials:
        count = mode - len(down)
        down.append(down[-1] / odds * (count + 1) / (trials - count))
    return [*reversed(down[1:]), *up]


def _exact(number: Fraction) -> fmpq:
    return fmpq(number.numerator, number.denominator)
