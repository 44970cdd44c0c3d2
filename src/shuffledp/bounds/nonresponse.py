"""Random samples of which only some respond: privacy given how many did, whoever would have.

A sample is drawn, by coins or of a fixed size, and of those who are drawn some stay away. The people who would respond
if they were drawn are a set of unknown size r. Given that m of them came, these are a uniform m-subset of that set, so
a person is among them with probability m/r: neither the rate of the coins nor the share that was drawn enters. The
number who came is public; r is not, and only r ≥ m is certain.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, fmpq

from shuffledp.array import Floats
from shuffledp.bounds import best
from shuffledp.bounds.amplify import BoundChoice, amplify
from shuffledp.bounds.subsampling import SHIFT, UNDERFLOW, ProfiledCurve, inner_epsilon, require_all_inputs
from shuffledp.composition.dots import Dots, DottedCurve
from shuffledp.numerics import hypergeometric
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.numerics.binomial import Coin, upper_tail
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue

WHO = "nonresponse"
BITS = 96
EXPONENT = 0.7
"""c in the excess β·(1 − c)·u^(−c); of the values tried, the one with the smallest ε where few come."""
LARGEST_DELTA = 2.0**-10
"""Curves are made for δ up to this, of all that is composed."""
FARTHEST, NEAREST = 9.0, -3.0
"""Cells of r end where m is between so many standard deviations above what is expected."""
STEPS = ((2_000, 0.02), (20_000, 0.05), (math.inf, 0.15))
"""The distance of their ends in standard deviations, up to so many who came: tails of many take longer."""
FEW = 250
"""Ranges of r up to this length have a cell for each r."""


@dataclass(frozen=True)
class NonresponseCurve(ProfiledCurve):
    """δ(ε) given how many responded, ``failure`` included.

    Theorem: let T_r(m) be the probability that at least m of r potential respondents are drawn, d(r, m, ε) the δ of a
    uniform m-subset of them ([VR] Proposition 2 at the share m/r), β the failure probability,
    h(u) = (1 − δ*)·β·(1 − c)·u^(−c) and f(ε) = max_r (d(r, m, ε) − h(T_r(m)))₊. Compose the curves β + (1 − β)·f of all
    rounds, and let ε(m) be where the result is δ ≤ δ*. Then on average over the numbers m that come the true δ at
    ε(m) is at most δ, for every r in every round. Proof: given m, a round's δ is at most f + h whatever ε is, and
    adding a constant to the factors of a composition adds at most their sum. So the true δ at ε(m) is at most F + Σh,
    where F is the composition of all f. T_r(M) is stochastically at least uniform, so the mean of h is at most
    (1 − δ*)·β·∫(1 − c)u^(−c)du = (1 − δ*)·β. The composition of the curves is 1 − Π(1 − β)·(1 − F) ≤ δ, hence
    F ≤ 1 − (1 − δ)·(1 + Σβ) ≤ δ − (1 − δ*)·Σβ.
    Requires: β is chosen before m is seen; whether somebody responds depends neither on their value nor on who else
    was drawn. K colluders know who of them was drawn: then m − K honest people hide each other, at most m of at most
    N − K came, and T is that of m − K.
    Returns: a certified upper bound. Cells r₁ ≤ r ≤ r₂ take d at r₁ and T at r₂, because d falls and T rises with r.
    Each d − h is the curve of a pair, and so is f: their slopes at ε = 0 are those of the round without sampling.
    """

    known: PrivacyCurve
    """The curve of those who came, if everybody knew who they are."""
    inside: DottedCurve
    """The same as dots, of which many at once cost little."""
    shares: tuple[float, ...]
    excesses: tuple[float, ...]
    failure: float

    @property
    def certified(self) -> bool:
        return True

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        shares, excesses = np.array(self.shares)[:, None], np.array(self.excesses)[:, None]
        if not self.shares:
            constant = np.full_like(epsilons, self.failure)
            return constant, constant * (1 - SHIFT)
        early = inner_epsilon(epsilons, shares) * (1 - SHIFT)
        late = inner_epsilon(epsilons, shares) * (1 + SHIFT)
        above = self.inside.profile(early.reshape(-1)).upper.reshape(early.shape)
        below = self.inside.profile(late.reshape(-1)).lower.reshape(late.shape)
        over = np.maximum(0.0, shares * above * (1 + 4 * SHIFT) + UNDERFLOW - excesses).max(axis=0)
        under = np.maximum(0.0, shares * below * (1 - 4 * SHIFT) - excesses * (1 + SHIFT)).max(axis=0)
        upper = np.minimum(1.0, (self.failure + (1 - self.failure) * over) * (1 + SHIFT))
        lower = np.where(epsilons <= LARGEST_EPSILON, (self.failure + (1 - self.failure) * under) * (1 - SHIFT), 0.0)
        return np.asarray(upper), np.asarray(np.minimum(lower, upper))

    def _epsilon(self, delta: float) -> BoundValue:
        found, rest = super()._epsilon(delta), math.nextafter(delta - self.failure, 0.0)
        # Dots end a little beyond a largest loss that the curve itself knows exactly.
        most = self.known.epsilon(rest).upper if rest > 0 else math.inf
        return found if found.upper <= most else self._value(most, max(0.0, most - (found.upper - found.slack)))


def failure_of(delta: float, rounds: int = 1) -> float:
    """The failure probability of each of several rounds whose δ together is this: half of it in all."""
    return delta / (2 * rounds)


def nonresponse(
    randomizer: Randomizer,
    came: int,
    of: int,
    *,
    failure: float,
    asked: int | None = None,
    rate: Fraction | None = None,
    bound: BoundChoice = best.NAME,
    colluding: int = 0,
    effort: str = best.QUICK,
    up_to: float = LARGEST_DELTA,
) -> PrivacyCurve:
    """Returns the privacy curve of a secret sample of which ``came`` people responded.

    Args:
        randomizer: The randomizer that everybody runs.
        came: How many people responded.
        of: How many people there are, drawn or not.
        failure: A part of δ, fixed before the sample is drawn: with this probability so many come by chance that they
            look like the sample of a larger group of potential respondents.
        asked: How many were drawn, where their number is fixed.
        rate: The probability with which each person is drawn, where a coin decides.
        bound: As in ``amplify``.
        colluding: People of the population who tell what they sent and whether they were drawn.
        effort: As in ``amplify``.
        up_to: The largest δ, of this round or of all that it is composed with, at which the curve is asked.

    Returns:
        An upper bound of δ(ε) whoever would have responded.

    Raises:
        ValueError: If neither or both of ``asked`` and ``rate`` are given, nobody honest came, or more people came
            than were drawn.
    """
    if (asked is None) == (rate is None):
        raise ValueError(f"{WHO}: expected asked or rate, got {'both' if rate is not None else 'neither'}.")
    known = amplify(randomizer, came, bound=bound, colluding=colluding, effort=effort)
    require_all_inputs(WHO, known)
    most_drawn = of if asked is None else asked
    if came > most_drawn:
        raise ValueError(f"{WHO}: came must be at most the {most_drawn} people who can have been drawn, got {came}.")
    draw = _Draw(came, of, colluding, asked, rate)
    inside = DottedCurve(known.source, Dots.of(known))
    most = inside.profile(np.zeros(1)).upper[0]
    cells = [(share, excess) for share, excess in draw.cells(failure * (1 - up_to)) if share * most > excess]
    shares, excesses = zip(*cells, strict=True) if cells else ((), ())
    theorem = f"{came} respondents of {draw.words()}, given their number, whoever would respond: {known.theorem}"
    source = dataclasses.replace(known.source, theorem=theorem, attack=None, users=of, colluding=colluding)
    return NonresponseCurve(source, known, inside, shares, excesses, failure)


@dataclass(frozen=True)
class _Draw:
    """A draw of people, and the number who came; ``colluding`` people may be among those."""

    came: int
    of: int
    colluding: int
    asked: int | None
    rate: Fraction | None

    def words(self) -> str:
        if self.rate is not None:
            return f"{self.of} who are drawn with probability {float(self.rate):g} each"
        return f"{self.asked} drawn of {self.of}"

    @property
    def _least(self) -> int:
        """The fewest honest people who came."""
        return max(1, self.came - self.colluding)

    @property
    def _most(self) -> int:
        """The most honest people who would respond: whoever was drawn and stayed away is not among them.

        Where coins decide it does not matter how many people there are: so many that fewer than came are improbable.
        """
        if self.rate is not None:
            wide = self._least - 2 * NEAREST * math.sqrt(self._least)
            return max(self._least, self.of - self.colluding, math.ceil(wide / float(self.rate)))
        assert self.asked is not None, "checked when it was made"
        return max(self._least, self.of - self.colluding - max(0, self.asked - self.colluding - self.came))

    def _tail(self, respondents: int) -> arb:
        """P(at least the fewest honest people come | so many would respond), or more."""
        if self.rate is not None:
            exact = rational(self.rate)
            return upper_tail(respondents, self._least, Coin(arb(exact), arb(1 - exact)))
        assert self.asked is not None, "checked when it was made"
        honest = self.of - self.colluding
        return hypergeometric.upper_tail(honest, respondents, min(self.asked, honest), self._least)

    def _deviation(self, respondents: int) -> float:
        """By how many standard deviations those who came are more than expected; falls with ``respondents``."""
        if self.rate is not None:
            chance = float(self.rate)
            mean, variance = respondents * chance, respondents * chance * (1 - chance)
        else:
            assert self.asked is not None, "checked when it was made"
            share, drawn = respondents / self.of, self.asked / self.of
            mean, variance = self.asked * share, self.asked * share * (1 - share) * (1 - drawn)
        return (self._least - mean) / math.sqrt(max(variance, 1e-9))

    def _starts(self) -> list[int]:
        """The first r of each cell."""
        low, high = self._least, self._most
        if high - low < FEW:
            return list(range(low, high + 1))
        step = next(step for most, step in STEPS if low <= most)
        levels = np.arange(FARTHEST, NEAREST, -step).tolist()
        return sorted({low, *(self._first_within(level) for level in levels)})

    def _first_within(self, level: float) -> int:
        """The first r of which those who came are at most so many standard deviations more than expected."""
        low, high = self._least, self._most
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._deviation(middle) <= level else (middle + 1, high)
        return low

    def cells(self, mean: float) -> list[tuple[float, float]]:
        """Of each cell of r an upper bound of m/r, and a lower bound of the excess, whose mean is at most this."""
        starts = [start for start in self._starts() if start <= self._most]
        # Where coins decide, the last cell is open.
        tails = [1.0 if self.rate is not None else self._tail_above(self._most)]
        tails = [self._tail_above(start - 1) for start in starts[1:]] + tails
        found: list[tuple[float, float]] = []
        for start, tail in zip(starts, tails, strict=True):
            with precision(BITS):
                share = min(1.0, round_up(arb(fmpq(self.came, start))))
                paid = arb(mean) * (1 - arb(EXPONENT)) * arb(tail) ** arb(-EXPONENT) if tail else arb(1)
                found.append((share, min(1.0, max(0.0, round_down(paid)))))
        return found

    def _tail_above(self, respondents: int) -> float:
        with precision(BITS):
            return min(1.0, round_up(self._tail(respondents)))
