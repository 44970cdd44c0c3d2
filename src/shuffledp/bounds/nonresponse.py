"""Privacy of a random sample of which only some people respond, given the number of respondents.

A sample is drawn, by coins or of a fixed size, and some of those drawn do not respond. The people who would respond if
they were drawn are a set of unknown size r. Given that m of them came, these are a uniform m-subset of that set, so a
person is among them with probability m/r: neither the rate of the coins nor the share that was drawn enters. The number
who came is public; r is not, and only r ≥ m is certain.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, fmpq

from shuffledp._core.types import Floats
from shuffledp.bounds import registry
from shuffledp.bounds.amplify import BoundChoice, amplify
from shuffledp.bounds.subsampling import (
    LOG_ROUNDING_MARGIN,
    UNDERFLOW_MARGIN,
    ProfiledCurve,
    inner_epsilon,
    require_all_inputs,
)
from shuffledp.numerics import distributions
from shuffledp.numerics.distributions import Coin, binomial_upper_tail
from shuffledp.numerics.intervals import precision, round_down, round_up, to_rational
from shuffledp.privacy.composition import SampledCurve, SampledDeltas
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer

ERROR_PREFIX = "nonresponse"
BITS = 96
EXCESS_EXPONENT = 0.7
"""c in the excess β·(1 − c)·u^(−c); of the values tried, the one with the smallest ε if few people come."""
MAX_DELTA = 2.0**-10
"""Curves hold for δ up to this, summed over all composed rounds."""
MAX_CELL_DEVIATION, MIN_CELL_DEVIATION = 9.0, -3.0
"""Range of the cell boundaries in r: standard deviations by which m exceeds its expectation."""
CELL_STEPS = ((2_000, 0.02), (20_000, 0.05), (math.inf, 0.15))
"""Distance of the boundaries in standard deviations, by the largest number who came: tails of many take longer."""
MAX_SINGLE_CELLS = 250
"""Ranges of r up to this length have a cell for each r."""


@dataclass(frozen=True)
class NonresponseCurve(ProfiledCurve):
    """δ(ε) given the number of respondents, ``failure`` included.

    Theorem: let T_r(m) be the probability that at least m of r potential respondents are drawn, d(r, m, ε) the δ of a
    uniform m-subset of them ([VR] Proposition 2 at the share m/r), β the failure probability, h(u) = (1 − δ*)·β·(1 −
    c)·u^(−c) and f(ε) = max_r (d(r, m, ε) − h(T_r(m)))₊. Compose the curves β + (1 − β)·f of all rounds, and let ε(m)
    be where the result is δ ≤ δ*. Then on average over the numbers m that come the true δ at ε(m) is at most δ, for
    every r in every round. Proof: given m, a round's δ is at most f + h at every ε, and adding a constant to the
    factors of a composition adds at most their sum. So the true δ at ε(m) is at most F + Σh, where F is the composition
    of all f. T_r(M) is stochastically at least uniform, so the mean of h is at most (1 − δ*)·β·∫(1 − c)u^(−c)du = (1 −
    δ*)·β. The composition of the curves is 1 − Π(1 − β)·(1 − F) ≤ δ, hence F ≤ 1 − (1 − δ)·(1 + Σβ) ≤ δ − (1 − δ*)·Σβ.
    Requires: β is chosen before m is known; a person's response depends neither on their value nor on who else was
    drawn. K colluders know who of them was drawn: then m − K honest people hide each other, at most m of at most N − K
    came, and T is that of m − K.
    Returns: a certified upper bound. Cells r₁ ≤ r ≤ r₂ take d at r₁ and T at r₂, because d falls and T rises with r.
    Each d − h is the curve of a pair, and so is f: their slopes at ε = 0 are those of the round without sampling.
    """

    disclosed_sample_curve: PrivacyCurve
    """The curve of the respondents if everybody knew who they are."""
    tabulated_curve: SampledCurve
    """The same curve as a table, which evaluates many points at little cost."""
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
            return constant, constant * (1 - LOG_ROUNDING_MARGIN)
        early = inner_epsilon(epsilons, shares) * (1 - LOG_ROUNDING_MARGIN)
        late = inner_epsilon(epsilons, shares) * (1 + LOG_ROUNDING_MARGIN)
        above = self.tabulated_curve.profile(early.reshape(-1)).upper.reshape(early.shape)
        below = self.tabulated_curve.profile(late.reshape(-1)).lower.reshape(late.shape)
        over = np.maximum(0.0, shares * above * (1 + 4 * LOG_ROUNDING_MARGIN) + UNDERFLOW_MARGIN - excesses).max(axis=0)
        under = np.maximum(
            0.0, shares * below * (1 - 4 * LOG_ROUNDING_MARGIN) - excesses * (1 + LOG_ROUNDING_MARGIN)
        ).max(axis=0)
        upper = np.minimum(1.0, (self.failure + (1 - self.failure) * over) * (1 + LOG_ROUNDING_MARGIN))
        lower = np.where(
            epsilons <= MAX_EPSILON, (self.failure + (1 - self.failure) * under) * (1 - LOG_ROUNDING_MARGIN), 0.0
        )
        return np.asarray(upper), np.asarray(np.minimum(lower, upper))

    def _epsilon(self, delta: float) -> BoundValue:
        found, rest = super()._epsilon(delta), math.nextafter(delta - self.failure, 0.0)
        # The table ends a little beyond the largest loss, which the curve itself knows exactly.
        most = self.disclosed_sample_curve.epsilon(rest).upper if rest > 0 else math.inf
        return found if found.upper <= most else self._value(most, max(0.0, most - (found.upper - found.slack)))


def round_failure(delta: float, rounds: int = 1) -> float:
    """Returns the failure probability of each round: half of the δ of all rounds, divided equally."""
    return delta / (2 * rounds)


def nonresponse(
    randomizer: Randomizer,
    came: int,
    of: int,
    *,
    failure: float,
    asked: int | None = None,
    rate: Fraction | None = None,
    bound: BoundChoice = registry.BEST_BOUND_NAME,
    colluding: int = 0,
    effort: str = registry.QUICK_EFFORT,
    up_to: float = MAX_DELTA,
) -> PrivacyCurve:
    """Returns the privacy curve of a secret sample of which ``came`` people responded.

    Args:
        randomizer: The randomizer that everybody runs.
        came: Number of people who responded.
        of: Size of the population, drawn or not.
        failure: A part of δ, fixed before the sample is drawn: with this probability so many come by chance that they
            look like the sample of a larger group of potential respondents.
        asked: Number of people drawn, if it is fixed.
        rate: Probability with which each person is drawn, if a coin decides.
        bound: As in ``amplify``.
        colluding: Number of people of the population who reveal their messages and whether they were drawn.
        effort: As in ``amplify``.
        up_to: The largest δ, of this round or of all rounds composed with it, at which the curve is evaluated.

    Returns:
        An upper bound of δ(ε) for every set of potential respondents.

    Raises:
        ValueError: If neither or both of ``asked`` and ``rate`` are given, nobody honest came, or more people came than
            were drawn.
    """
    if (asked is None) == (rate is None):
        raise ValueError(f"{ERROR_PREFIX}: expected asked or rate, got {'both' if rate is not None else 'neither'}.")
    known = amplify(randomizer, came, bound=bound, colluding=colluding, effort=effort)
    require_all_inputs(ERROR_PREFIX, known)
    most_drawn = of if asked is None else asked
    if came > most_drawn:
        raise ValueError(
            f"{ERROR_PREFIX}: came must be at most the {most_drawn} people who can have been drawn, got {came}."
        )
    draw = _ResponseDraw(came, of, colluding, asked, rate)
    inside = SampledCurve(known.source, SampledDeltas.from_curve(known))
    most = inside.profile(np.zeros(1)).upper[0]
    cells = [(share, excess) for share, excess in draw.cells(failure * (1 - up_to)) if share * most > excess]
    shares, excesses = zip(*cells, strict=True) if cells else ((), ())
    theorem = f"{came} respondents of {draw.describe()}, given their number, whoever would respond: {known.theorem}"
    source = dataclasses.replace(known.source, theorem=theorem, attack=None, users=of, colluding=colluding)
    return NonresponseCurve(source, known, inside, shares, excesses, failure)


@dataclass(frozen=True)
class _ResponseDraw:
    """A draw of people and the number who came, ``colluding`` people possibly among them."""

    respondents: int
    population: int
    colluding: int
    drawn_count: int | None
    rate: Fraction | None

    def describe(self) -> str:
        if self.rate is not None:
            return f"{self.population} who are drawn with probability {float(self.rate):g} each"
        return f"{self.drawn_count} drawn of {self.population}"

    @property
    def _least_honest(self) -> int:
        """The least number of honest people who came."""
        return max(1, self.respondents - self.colluding)

    @property
    def _most_honest(self) -> int:
        """The largest number of honest people who would respond; people who were drawn and did not respond are not
        among them.

        If coins decide, the size of the population does not matter: then so many that fewer than came is improbable.
        """
        if self.rate is not None:
            wide = self._least_honest - 2 * MIN_CELL_DEVIATION * math.sqrt(self._least_honest)
            return max(self._least_honest, self.population - self.colluding, math.ceil(wide / float(self.rate)))
        assert self.drawn_count is not None, "checked when it was made"
        return max(
            self._least_honest,
            self.population - self.colluding - max(0, self.drawn_count - self.colluding - self.respondents),
        )

    def _response_tail(self, respondents: int) -> arb:
        """Returns an upper bound of P(at least the least number of honest people come | so many would respond)."""
        if self.rate is not None:
            exact = to_rational(self.rate)
            return binomial_upper_tail(respondents, self._least_honest, Coin(arb(exact), arb(1 - exact)))
        assert self.drawn_count is not None, "checked when it was made"
        honest = self.population - self.colluding
        return distributions.hypergeometric_upper_tail(
            honest, respondents, min(self.drawn_count, honest), self._least_honest
        )

    def _deviation(self, respondents: int) -> float:
        """Returns the standard deviations by which more people came than expected; it falls with ``respondents``."""
        if self.rate is not None:
            chance = float(self.rate)
            mean, variance = respondents * chance, respondents * chance * (1 - chance)
        else:
            assert self.drawn_count is not None, "checked when it was made"
            share, drawn = respondents / self.population, self.drawn_count / self.population
            mean, variance = self.drawn_count * share, self.drawn_count * share * (1 - share) * (1 - drawn)
        return (self._least_honest - mean) / math.sqrt(max(variance, 1e-9))

    def _starts(self) -> list[int]:
        """Returns the first r of each cell."""
        low, high = self._least_honest, self._most_honest
        if high - low < MAX_SINGLE_CELLS:
            return list(range(low, high + 1))
        step = next(step for most, step in CELL_STEPS if low <= most)
        levels = np.arange(MAX_CELL_DEVIATION, MIN_CELL_DEVIATION, -step).tolist()
        return sorted({low, *(self._first_within(level) for level in levels)})

    def _first_within(self, level: float) -> int:
        """Returns the first r for which at most so many standard deviations more people came than expected."""
        low, high = self._least_honest, self._most_honest
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._deviation(middle) <= level else (middle + 1, high)
        return low

    def cells(self, mean: float) -> list[tuple[float, float]]:
        """Returns, for each cell of r, an upper bound of m/r and a lower bound of the excess, whose mean is at most
        ``mean``.
        """
        starts = [start for start in self._starts() if start <= self._most_honest]
        # If coins decide, the last cell is unbounded.
        tails = [1.0 if self.rate is not None else self._tail_above(self._most_honest)]
        tails = [self._tail_above(start - 1) for start in starts[1:]] + tails
        found: list[tuple[float, float]] = []
        for start, tail in zip(starts, tails, strict=True):
            with precision(BITS):
                share = min(1.0, round_up(arb(fmpq(self.respondents, start))))
                paid = arb(mean) * (1 - arb(EXCESS_EXPONENT)) * arb(tail) ** arb(-EXCESS_EXPONENT) if tail else arb(1)
                found.append((share, min(1.0, max(0.0, round_down(paid)))))
        return found

    def _tail_above(self, respondents: int) -> float:
        with precision(BITS):
            return min(1.0, round_up(self._response_tail(respondents)))
