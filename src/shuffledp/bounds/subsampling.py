"""Users drawn from a larger population: the privacy of the shuffled messages of a random sample.

Whoever is not drawn sends nothing, and nobody learns who was drawn. Neighbours replace one person of the population.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.bounds import best
from shuffledp.bounds.amplify import BoundChoice, amplify
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.numerics.binomial import Coin, Window, masses_between, window
from shuffledp.numerics.finite_law import Bracket
from shuffledp.numerics.inversion import invert
from shuffledp.privacy.attack import Attack, AttackCurve
from shuffledp.privacy.curve import FORMULA_BITS, LARGEST_EPSILON, NumericCurve, PrivacyCurve, Source
from shuffledp.privacy.pair import AtEvery, HidingPair
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.record import Record
from shuffledp.privacy.value import BoundValue, certain

BITS = 128
SHIFT = 1e-13
"""More than the relative rounding of log(1 + (e^ε − 1)/share) in floats."""
UNDERFLOW = 1e-320
"""More than a sum over all cells can lose at the end of the floats."""
LOG_LEFT_OUT = -100.0
"""Sample sizes less probable than this are charged in full."""
CROWDS = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0)
"""From how many standard deviations above the mean size on the curve of another crowd serves."""
CELLS = (-0.5, 0.5, 1.5, 3.5)
"""The same for another share of the population, besides those."""
ATTACKED = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)
"""The same for what an attack attains."""
ATTACKED_OFTEN = (-1.5, -0.5, 0.5)
"""The same in each of several rounds, where a curve is asked for at hundreds of ε."""
LIKELY = 0.01
"""Crowds less probable than this are left out of the lower side."""
LOOKED_AT = -2.0
"""Crowds from here on are looked at with all the effort that is asked for: smaller ones are improbable."""


def inner_epsilon(epsilon: Floats, share: Floats | float) -> Floats:
    """log(1 + (e^ε − 1)/share): the ε at which the sample itself is looked at."""
    capped = np.minimum(epsilon, LARGEST_EPSILON)
    large = capped > 30.0
    plain = np.log1p(np.expm1(np.where(large, 0.0, capped)) / share)
    return np.asarray(np.where(large, capped - np.log(share), plain))


@dataclass(frozen=True)
class SubsampledCurve(PrivacyCurve):
    """``inside`` on a uniformly random ``share`` of the population, drawn without replacement.

    Theorem: [VR] Proposition 2 (Balle, Barthe, Gaboardi 2018): D_{e^ε} ≤ s·D_{e^ε'} of the sample's mechanism, with
    e^ε' = 1 + (e^ε − 1)/s, for ε ≥ 0 and a share s of the population.
    Requires: ``inside`` bounds both directions for every pair of samples that differ in one person.
    Returns: a certified upper bound of both directions. Replacing a person is a symmetric relation, so the larger
    direction, extended by symmetry to ε < 0, is what dominates in a composition: the slope at ε = 0 is the inside
    curve's, and −(1 − s·δ(0))/2 is smaller than −(1 − δ(0))/2, so the extension is convex (privacy/loss.py).
    """

    inside: PrivacyCurve
    share: fmpq

    @property
    def certified(self) -> bool:
        return self.inside.certified

    def _epsilon(self, delta: float) -> BoundValue:
        with precision(BITS):
            share = arb(self.share)
            inner = round_down(arb(delta) / share)
            if inner >= 1.0:
                return self._value(0.0, 0.0)
            found = self.inside.epsilon(inner)
            if math.isinf(found.upper):
                return self._value(math.inf, found.slack)
            upper = round_up(_outer(found.upper, share))
            lower = round_down(_outer(max(0.0, math.nextafter(found.upper - found.slack, 0.0)), share))
        return self._value(upper, max(0.0, upper - lower))

    def _delta(self, epsilon: float) -> BoundValue:
        seen = min(epsilon, LARGEST_EPSILON)
        with precision(BITS):
            share = arb(self.share)
            inner = (arb(seen).expm1() / share).log1p()
            early, late = max(0.0, round_down(inner)), round_up(inner)
            found, after = self.inside.delta(early), self.inside.delta(late)
            upper = min(1.0, round_up(share * arb(found.upper)))
            lower = round_down(share * arb(max(0.0, math.nextafter(after.upper - after.slack, 0.0))))
        # What lies beyond the largest ε that is looked at is only known from above.
        lower = 0.0 if epsilon > LARGEST_EPSILON else max(0.0, lower)
        return self._value(upper, max(0.0, math.nextafter(upper - lower, math.inf)) if upper > lower else 0.0)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self.upper_profile(epsilons), self.lower_profile(epsilons)

    def upper_profile(self, epsilons: Floats) -> Floats:
        share = float(arb(self.share))
        inner = inner_epsilon(epsilons, share) * (1 - SHIFT)
        upper = self.inside.profile(inner).upper
        return _raised(upper * share, upper > 0, 4 * SHIFT)

    def lower_profile(self, epsilons: Floats) -> Floats:
        share = float(arb(self.share))
        inner = inner_epsilon(epsilons, share) * (1 + SHIFT)
        lower = self.inside.profile(inner).lower * share * (1 - 4 * SHIFT)
        return np.asarray(np.where(epsilons <= LARGEST_EPSILON, lower, 0.0))


def _raised(values: Floats, positive: NDArray[np.bool_], rounding: float) -> Floats:
    """Values in floats as upper bounds; what is 0 stays 0 unless it only became so."""
    return np.asarray(np.minimum(1.0, values * (1 + rounding) + np.where(positive, UNDERFLOW, 0.0)))


def _outer(epsilon: float, share: arb) -> arb:
    """log(1 + share·(e^ε − 1))."""
    return (share * arb(epsilon).expm1()).log1p()


def subsample(curve: PrivacyCurve, population: float) -> PrivacyCurve:
    """The curve of the same round when its users are drawn at random, without replacement, from ``population``.

    The number drawn is that of all who send, colluding ones included. If K people of the population collude, at most K
    of the drawn do, and fewer hide more. They know whether they were drawn, and with that how many of the others were:
    at most all that are drawn, of those who do not collude. Of several rounds the one with the most people counts.
    From below: the attacks on the curve where the whole population holds what the others of their datasets do, so that
    whoever is drawn in the victim's place sends a message of the same law (``HidingPair.drawn``); colluders are not
    asked. Only for mechanisms of one message each.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> drawn = sdp.subsample(curve, population=1_000_000)
    >>> curve.epsilon(delta=1e-6).upper < 0.0675, drawn.epsilon(delta=1e-6).upper < 0.0005
    (True, True)
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"subsample: expected a privacy curve as amplify gives it, got {curve!r}.")
    total = argument.count("subsample", "population", population)
    require_all_inputs("subsample", curve)
    drawn = curve.users
    if total < drawn:
        raise ValueError(f"subsample: population must be at least the curve's {drawn} users, got {total}.")
    if total == drawn:
        return curve
    colluding, attack = curve.source.colluding, curve.source.attack
    # Where some who were drawn stay away, what the others do decides who may send in whose place.
    all_came = isinstance(attack, AttackCurve) and attack.messages == drawn - colluding
    attack = attack.drawn(drawn, total) if isinstance(attack, AttackCurve) and all_came else None
    if total - colluding <= drawn:
        # The colluders may learn that all others were drawn: the curve is still above.
        return curve.attacked_by(attack).sent_by(total, colluding)
    known = f", {colluding} of whom tell whether they were," if colluding else ""
    theorem = f"{drawn} of {total} sampled without replacement{known} [VR Prop. 2], then: {curve.theorem}"
    source = dataclasses.replace(curve.source, theorem=theorem, attack=attack, users=total)
    return SubsampledCurve(source, curve, fmpq(drawn, total - colluding))


def require_all_inputs(who: str, curve: PrivacyCurve) -> None:
    """Refuse a curve for chosen inputs: whoever is drawn in a person's place may hold any value."""
    if curve.source.some_inputs:
        raise ValueError(
            f"{who}: expected a curve for all inputs, because others drawn in a person's place may hold any value, "
            "got one for a pair or a diameter."
        )


@dataclass(frozen=True)
class SizedCrowd:
    """Samples of some sizes: the curve of the smallest, and in which cells of sizes it serves.

    ``cells`` has the most probability of each cell, and its largest share; ``beyond`` that of the cells before, of
    which this curve is below: the least probability, and the smallest share.
    """

    inside: PrivacyCurve
    cells: tuple[tuple[float, float], ...]
    beyond: tuple[tuple[float, float], ...]

    def sides(self, epsilons: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """What is added from above and from below at each ε, and where the first is positive; one look at the curve."""
        above, below = (np.array(cells).reshape(-1, 2) for cells in (self.cells, self.beyond))
        points = [
            inner_epsilon(epsilons, above[:, 1:]) * (1 - SHIFT),
            inner_epsilon(epsilons, below[:, 1:]) * (1 + SHIFT),
        ]
        # Cells next to each other look at nearly the same points, of which many at once cost little more than one.
        seen = self.inside.profile(np.concatenate(points).reshape(-1))
        cut = points[0].size
        upper, lower = seen.upper[:cut].reshape(points[0].shape), seen.lower[cut:].reshape(points[1].shape)
        weighed = (above[:, :1] * above[:, 1:] * upper).sum(axis=0), (below[:, :1] * below[:, 1:] * lower).sum(axis=0)
        return *weighed, np.asarray((upper > 0).any(axis=0))


class ProfiledCurve(PrivacyCurve):
    """A curve that is given by its profile: values at one ε, and the inverse, follow from it."""

    @abstractmethod
    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Bounds of δ from above and from below."""

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), max(0.0, math.nextafter(upper - lower, math.inf)))

    def bracket(self, epsilon: float) -> Bracket:
        """Both sides of δ at one ε."""
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return Bracket(arb(float(lower)), arb(float(upper)), "cells of sample sizes")

    def log_estimate(self, epsilon: float) -> float:
        """log δ from above, to search with."""
        return self.bracket(epsilon).log_upper()

    def natural_scale(self) -> float:
        """About the standard deviation of the loss."""
        return self._scale

    @cached_property
    def _scale(self) -> float:
        return max(self.bracket(0.0).upper_float(), 1e-12) * math.sqrt(2 * math.pi)

    def _epsilon(self, delta: float) -> BoundValue:
        found = invert(self, delta, LARGEST_EPSILON, zero_at_high=False)
        if math.isinf(found.upper):
            return self._value(found.upper, found.upper)
        return self._value(found.upper, found.upper - found.lower)


@dataclass(frozen=True)
class PoissonCurve(ProfiledCurve):
    """Each person of the population takes part with probability ``rate``, on their own.

    Theorem: the sample size is binomial and independent of the data, and given the size the sample is uniform without
    replacement: δ(ε) ≤ E_n[(n/N)·δ_n(ε'_n)] with [VR] Proposition 2 at the share n/N. Where everybody learns who
    takes part: δ(ε) ≤ E_n[δ_n(ε)] for one who does, with one more than a binomial number of the others.
    Requires: one curve per sample size; δ_n never grows with n, because whoever has n messages can add one more.
    Returns: a certified upper bound: sizes are taken in cells low … high, each with the share of high and the curve
    of at most low, and what is outside all cells is added in full. ``slack`` compares with the opposite choice where
    the size is likely to be.
    Deviates: a shuffler reveals the number of messages, so the formula for Poisson sampling that compares a sample
    with and without one person does not apply.
    """

    crowds: tuple[SizedCrowd, ...]
    outside: float

    @property
    def certified(self) -> bool:
        return all(crowd.inside.certified for crowd in self.crowds)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = np.full_like(epsilons, self.outside), np.zeros_like(epsilons)
        positive = upper > 0
        for crowd in self.crowds:
            above, below, seen = crowd.sides(epsilons)
            upper, lower, positive = upper + above, lower + below, positive | seen
        rounding = 8 * SHIFT * (sum(len(crowd.cells) for crowd in self.crowds) + 1)
        lower = np.where(epsilons <= LARGEST_EPSILON, lower * (1 - rounding), 0.0)
        return _raised(upper, positive, rounding), np.asarray(lower)


def poisson(
    randomizer: Randomizer,
    population: float,
    rate: float,
    *,
    bound: BoundChoice = best.NAME,
    colluding: float = 0,
    effort: str = best.QUICK,
    secret: bool = True,
) -> PrivacyCurve:
    """The curve of one round in which each of ``population`` people takes part with probability ``rate``.

    ``randomizer``, ``bound`` and ``effort`` are as in ``amplify``; who takes part is decided independently. Nobody
    learns it, except that ``colluding`` people know it of themselves; with ``secret=False`` everybody does, and the
    curve is that of a person who takes part.

    >>> import shuffledp as sdp
    >>> curve = sdp.poisson(sdp.VariationRatio.of_ldp(1.0), population=2000, rate=0.1, bound="variation-ratio")
    >>> curve.delta(0.1).upper < 1e-5
    True
    """
    total = argument.count("poisson", "population", population)
    lost = argument.count("poisson", "colluding", colluding, at_least=0)
    chance = argument.exact("poisson", "rate", rate)
    if not 0 < chance <= 1:
        raise ValueError(f"poisson: rate must be above 0 and at most 1, got {argument.shown(rate)}.")
    if lost >= total:
        raise ValueError(f"poisson: colluding must be below population = {total}, got {lost}.")
    best.demand_effort("poisson", effort)
    if chance == 1:
        with argument.said_by("poisson", "amplify"):
            return amplify(randomizer, total, bound=bound, colluding=lost, effort=effort)

    def curve_of(users: int, looked_at: bool) -> PrivacyCurve:
        with argument.said_by("poisson", "amplify"):
            curve = amplify(randomizer, users, bound=bound, effort=effort if looked_at else best.QUICK)
        if secret:
            require_all_inputs("poisson", curve)
        return curve

    # Whoever is known to take part is one more than those of the others who do.
    surely = 0 if secret else 1
    others = total - lost - surely
    if others == 0:
        return curve_of(1, True).sent_by(total, lost)
    sizes = _Sizes(others, chance, surely)
    crowds = sizes.crowds(curve_of, total - lost if secret else None)
    one = crowds[len(crowds) // 2].inside
    takes_part = f"each of {total} takes part with probability {float(chance):g}"
    given = "given the size [VR Prop. 2]" if secret else "given who does"
    theorem = f"{takes_part}, {given}: {one.theorem}"
    source = Source(
        one.bound,
        theorem,
        max(1, round((total - lost) * chance)),
        all(crowd.inside.guarantee for crowd in crowds),
        one.note,
        users=total,
        colluding=lost,
        some_inputs=one.source.some_inputs,
        origin=one.source.origin,
    )
    known = one.source.attack
    if isinstance(known, AttackCurve) and known.one_each:
        source = dataclasses.replace(source, attack=CoinAttack(known, sizes, total - lost if secret else None))
    return PoissonCurve(source, tuple(crowds), sizes.outside)


@dataclass(frozen=True)
class _Sizes(Record):
    """How many of ``others`` people take part, each with probability ``chance``, besides those who ``surely`` do."""

    others: int
    chance: Fraction
    surely: int

    @cached_property
    def _coin(self) -> Coin:
        exact = rational(self.chance)
        return Coin(arb(exact), arb(1 - exact))

    @cached_property
    def _window(self) -> Window:
        with precision(BITS):
            return window(self.others, self._coin, LOG_LEFT_OUT)

    @property
    def outside(self) -> float:
        """Above the probability of a size that is in no cell, unless nobody takes part."""
        with precision(BITS):
            return round_up(self._window.outside)

    @property
    def _mean(self) -> float:
        return self.others * float(self.chance)

    @property
    def _deviation(self) -> float:
        return max(1.0, math.sqrt(self._mean * (1 - float(self.chance))))

    @property
    def _least(self) -> int:
        """Of nobody there is nothing to see."""
        return max(1 - self.surely, self._window.low)

    def _starts(self, places: tuple[float, ...]) -> list[int]:
        """The first number from each place on."""
        first, last = self._least, max(self._least, self._window.high)
        cuts = {math.ceil(self._mean + place * self._deviation) for place in places}
        return [first, *(cut for cut in sorted(cuts) if first < cut <= last)]

    def crowds(self, curve_of: Callable[[int, bool], PrivacyCurve], population: int | None) -> list[SizedCrowd]:
        """One curve for each crowd; ``population`` is that of which a share is drawn, None where all are known."""
        starts = self._starts(CROWDS)
        cells = starts if population is None else self._starts(CROWDS + CELLS)
        ends = [*cells[1:], max(self._least, self._window.high) + 1]
        masses = self._masses([*cells, ends[-1]])
        found: list[SizedCrowd] = []
        for number, start in enumerate(starts):
            end = starts[number + 1] if number + 1 < len(starts) else math.inf
            mine = [k for k, low in enumerate(cells) if start <= low < end]
            above = [(masses[k][1], _share(ends[k] - 1 + self.surely, population, up=True)) for k in mine]
            looked_at = start - self._mean >= LOOKED_AT * self._deviation - 1 or end == math.inf
            below: list[tuple[float, float]] = []
            if number:
                chance = sum(masses[k][0] for k, low in enumerate(cells) if starts[number - 1] <= low < start)
                if chance > LIKELY:
                    below = [(chance * (1 - SHIFT), _share(starts[number - 1] + self.surely, population, up=False))]
            found.append(SizedCrowd(curve_of(start + self.surely, looked_at), tuple(above), tuple(below)))
        return found

    def between(self, places: tuple[float, ...]) -> tuple[list[int], list[tuple[float, float]]]:
        """The numbers from some places on, up to the largest, and bounds of the probability of each cell between."""
        last = max(self._least, self._window.high)
        cuts = [*self._starts(places), last + 1]
        return [size + self.surely for size in cuts], self._masses(cuts)

    def _masses(self, cuts: list[int]) -> list[tuple[float, float]]:
        """Bounds of the probability of each cell between neighbours."""
        with precision(BITS):
            masses = masses_between(self.others, cuts, self._coin)
            return [(max(0.0, round_down(mass)), round_up(mass)) for mass in masses]


@dataclass(frozen=True)
class CoinAttack(Attack):
    """Lower bounds from attacks where coins decide who takes part.

    Theorem: how many come, m, is seen and does not depend on the data, so that the divergence of a dataset is
    E_m[D_m], D_m that of m messages. Where nobody learns who takes part, all of the population but one hold what the
    others of the attack do, and D_m is that of a sample of m of them (``HidingPair.drawn``); leaving out one message at
    random makes a sample of m one of m − 1, so that D_m never falls in m. Where everybody learns it, D_m is that of
    the attack on m users, which never grows in m.
    Requires: mechanisms of one message each. Colluders are left out of the population: their coins are their own.
    Returns: certified lower bounds: of each cell of sizes the end where D_m is least, times its probability.
    """

    once: AttackCurve
    sizes: _Sizes
    population: int | None
    """Those who do not collude, where nobody learns who takes part; None where everybody does."""

    @cached_property
    def _curves(self) -> tuple[PrivacyCurve, ...]:
        """One for each direction of each attack."""
        return tuple(self._curve(way, ATTACKED) for way in self.once.ways)

    def _curve(self, pair: HidingPair, places: tuple[float, ...]) -> PrivacyCurve:
        """The divergence of one dataset, from both sides."""
        sizes, masses = self.sizes.between(places)
        # Where nothing is said of a cell it counts in full from above, and for nothing from below.
        grows = self.population is not None
        crowds = []
        for number, size in enumerate(sizes):
            before = masses[number - 1 : number] if number else []
            after = masses[number : number + 1]
            above, below = (before, after) if grows else (after, before)
            if self.population is not None and size > self.population:
                # There is no sample of more than all: all of them serve from above.
                size = self.population
            crowds.append(
                SizedCrowd(
                    self._sized(pair, size),
                    tuple((most, 1.0) for _, most in above),
                    tuple((least, 1.0) for least, _ in below),
                )
            )
        return PoissonCurve(self._source(sizes[0]), tuple(crowds), self.sizes.outside)

    def _sized(self, pair: HidingPair, users: int) -> PrivacyCurve:
        seen = pair if self.population is None else pair.drawn(fmpq(users, self.population))
        with precision(FORMULA_BITS):
            return NumericCurve(self._source(users), (AtEvery(seen),), seen.largest_log_ratio(), fixed=True)

    def _source(self, users: int) -> Source:
        return Source("attack", "identity (★)", users, guarantee=False)

    def exact_curves(self) -> Sequence[PrivacyCurve]:
        return [self._curve(pair, ATTACKED_OFTEN) for pair in self.once.pairs if pair.symmetric]

    def delta(self, epsilon: float) -> float:
        """A dataset whose divergence at ε is at least this."""
        return max((certain(curve.delta(epsilon)) for curve in self._curves), default=0.0)

    def epsilon(self, delta: float) -> float:
        """No ε below this is (ε, δ)-private for every dataset."""
        return max((certain(curve.epsilon(delta)) for curve in self._curves), default=0.0)


def _share(drawn: int, population: int | None, *, up: bool) -> float:
    """The share of the population, rounded away from the exact one."""
    if population is None:
        return 1.0
    with precision(BITS):
        exact = arb(fmpq(drawn, population))
        return min(1.0, round_up(exact)) if up else round_down(exact)
