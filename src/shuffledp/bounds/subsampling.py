"""Privacy curves of the shuffled messages of a random sample: ``subsample``, ``poisson`` and ``nonresponse``.

People who are not drawn send nothing. Unless a function says otherwise, nobody learns who was drawn. Neighbours
replace one person of the population.

``nonresponse`` is for samples, of fixed or random size, in which some people do not respond. The people who would
respond if they were drawn are a set of unknown size r. Given that m of them came, these are a uniform m-subset of that
set, so a person is among them with probability m/r: neither the rate nor the share that was drawn enters.
The number who came is public; r is not, and only r ≥ m is certain.
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

from shuffledp._core import validation
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Floats
from shuffledp.bounds import pointwise_minimum, registry
from shuffledp.bounds.amplify import BoundChoice, amplify
from shuffledp.numerics import distributions
from shuffledp.numerics.ball_arithmetic import precision, round_down, round_up, to_rational
from shuffledp.numerics.distributions import (
    Bracket,
    Coin,
    Window,
    binomial_upper_tail,
    find_chernoff_window,
    masses_between,
)
from shuffledp.numerics.roots import invert
from shuffledp.privacy.curve import (
    FORMULA_BITS,
    MAX_EPSILON,
    BoundValue,
    CurveSource,
    NumericCurve,
    PrivacyCurve,
    exact_lower_bound,
)
from shuffledp.privacy.dominating_pairs import ConstantPair, HidingPair
from shuffledp.privacy.lower_bounds import Attack, AttackCurve
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.privacy.sampled_curve import SampledCurve, SampledDeltas

# --- Subsampling ---


BITS = 128
LOG_ROUNDING_MARGIN = 1e-13
"""Above the relative rounding error of log(1 + (e^ε − 1)/share) in floats."""
UNDERFLOW_MARGIN = 1e-320
"""Above the loss of a sum over all cells to underflow."""
LOG_OMITTED_PROBABILITY = -100.0
"""Sample sizes whose log probability is below this are charged in full."""
CURVE_POSITIONS = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0)
"""Standard deviations from the mean sample size at which the next curve begins."""
SHARE_POSITIONS = (-0.5, 0.5, 1.5, 3.5)
"""Further positions, at which the share of the population changes but not the curve."""
ATTACK_POSITIONS = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)
"""Positions for the lower bound of an attack."""
COMPOSED_ATTACK_POSITIONS = (-1.5, -0.5, 0.5)
"""The same in each of several rounds, where a curve is evaluated at hundreds of ε."""
MIN_RANGE_PROBABILITY = 0.01
"""Ranges of sizes less probable than this are left out of the lower bound."""
FULL_EFFORT_POSITION = -2.0
"""From this position on curves are computed with the full effort: smaller sizes are improbable."""


def inner_epsilon(epsilon: Floats, share: Floats | float) -> Floats:
    """Returns log(1 + (e^ε − 1)/share): the ε at which the sample's own curve is evaluated."""
    capped = np.minimum(epsilon, MAX_EPSILON)
    large = capped > 30.0
    plain = np.log1p(np.expm1(np.where(large, 0.0, capped)) / share)
    return np.asarray(np.where(large, capped - np.log(share), plain))


@dataclass(frozen=True)
class SubsampledCurve(PrivacyCurve):
    """The curve ``inside`` on a uniformly random ``share`` of the population, drawn without replacement.

    Theorem: [VR] Proposition 2 (Balle, Barthe, Gaboardi 2018): D_{e^ε} ≤ s·D_{e^ε'} of the sample's mechanism, with
    e^ε' = 1 + (e^ε − 1)/s, for ε ≥ 0 and a share s of the population.
    Requires: ``inside`` bounds both directions for every pair of samples that differ in one person.
    Returns: a certified upper bound of both directions. Replacing a person is a symmetric relation, so the larger
    direction, extended by symmetry to ε < 0, is the one that dominates in a composition: the slope at ε = 0 is the
    inside curve's, and −(1 − s·δ(0))/2 is smaller than −(1 − δ(0))/2, so the extension is convex
    (privacy/privacy_loss.py).
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
            value = self.inside.epsilon(inner)
            if math.isinf(value.upper):
                return self._value(math.inf, value.slack)
            upper = round_up(_outer_epsilon(value.upper, share))
            lower = round_down(_outer_epsilon(max(0.0, math.nextafter(value.upper - value.slack, 0.0)), share))
        return self._value(upper, max(0.0, upper - lower))

    def _delta(self, epsilon: float) -> BoundValue:
        point = min(epsilon, MAX_EPSILON)
        with precision(BITS):
            share = arb(self.share)
            inner = (arb(point).expm1() / share).log1p()
            early, late = max(0.0, round_down(inner)), round_up(inner)
            value, next_value = self.inside.delta(early), self.inside.delta(late)
            upper = min(1.0, round_up(share * arb(value.upper)))
            lower = round_down(share * arb(max(0.0, math.nextafter(next_value.upper - next_value.slack, 0.0))))
        # Beyond the largest ε of the numerics only an upper bound is known.
        lower = 0.0 if epsilon > MAX_EPSILON else max(0.0, lower)
        return self._value(upper, max(0.0, math.nextafter(upper - lower, math.inf)) if upper > lower else 0.0)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self.upper_profile(epsilons), self.lower_profile(epsilons)

    def upper_profile(self, epsilons: Floats) -> Floats:
        share = float(arb(self.share))
        inner = inner_epsilon(epsilons, share) * (1 - LOG_ROUNDING_MARGIN)
        upper = self.inside.profile(inner).upper
        return _raise_bounds(upper * share, upper > 0, 4 * LOG_ROUNDING_MARGIN)

    def lower_profile(self, epsilons: Floats) -> Floats:
        share = float(arb(self.share))
        inner = inner_epsilon(epsilons, share) * (1 + LOG_ROUNDING_MARGIN)
        lower = self.inside.profile(inner).lower * share * (1 - 4 * LOG_ROUNDING_MARGIN)
        return np.asarray(np.where(epsilons <= MAX_EPSILON, lower, 0.0))


def _raise_bounds(values: Floats, positive: NDArray[np.bool_], rounding: float) -> Floats:
    """Returns upper bounds of values computed in floats; an exact 0 stays 0, an underflow does not."""
    return np.asarray(np.minimum(1.0, values * (1 + rounding) + np.where(positive, UNDERFLOW_MARGIN, 0.0)))


def _outer_epsilon(epsilon: float, share: arb) -> arb:
    """Returns log(1 + share·(e^ε − 1))."""
    return (share * arb(epsilon).expm1()).log1p()


def subsample(curve: PrivacyCurve, population: float) -> PrivacyCurve:
    """Returns the privacy curve of a round whose users are drawn at random, without replacement, from a population.

    If K people of the population collude, at most K of those drawn do, and fewer colluders hide more. Colluders know
    whether they were drawn, and hence how many of the others were: at most all that are drawn, out of those who do not
    collude.

    The lower bound comes from the attacks on ``curve``, with the whole population holding the inputs of the other users
    of their datasets: whoever is drawn in the victim's place then sends a message of the same law
    (``HidingPair.subsample``). It disregards the colluders' knowledge and exists only for mechanisms that send one
    message per user.

    Args:
        curve: Curve of the users who take part, as ``amplify`` returns it. Its number of users, colluding ones
            included, is the number drawn. For several rounds, that of the round with the most people.
        population: Size of the population that they are drawn from.

    Returns:
        An upper bound of δ(ε) for every person of the population; ``curve`` itself if everybody is drawn.

    Raises:
        TypeError: If ``curve`` is not a privacy curve, or ``population`` is not a number.
        ValueError: If ``population`` is smaller than the number of users, or the curve is for a pair or a diameter
            only.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> drawn = sdp.subsample(curve, population=1_000_000)
    >>> curve.epsilon(delta=1e-6).upper < 0.0675, drawn.epsilon(delta=1e-6).upper < 0.0005
    (True, True)
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"subsample: expected a privacy curve as amplify returns it, got {curve!r}.")
    total = validation.count("subsample", "population", population)
    require_all_inputs("subsample", curve)
    drawn = curve.users
    if total < drawn:
        raise ValueError(f"subsample: population must be at least the curve's {drawn} users, got {total}.")
    if total == drawn:
        return curve
    colluding, attack = curve.source.colluding, curve.source.attack
    # If some of those drawn did not answer, the others' behaviour decides who may send in whose place: no attack is
    # known.
    all_came = isinstance(attack, AttackCurve) and attack.messages == drawn - colluding
    attack = attack.subsample(drawn, total) if isinstance(attack, AttackCurve) and all_came else None
    if total - colluding <= drawn:
        # The colluders may learn that all others were drawn, so that sampling hides nobody; the curve is still an upper
        # bound.
        return curve.with_attack(attack).with_users(total, colluding)
    known = f", {colluding} of whom tell whether they were," if colluding else ""
    theorem = f"{drawn} of {total} sampled without replacement{known} [VR Prop. 2], then: {curve.theorem}"
    source = dataclasses.replace(curve.source, theorem=theorem, attack=attack, users=total)
    return SubsampledCurve(source, curve, fmpq(drawn, total - colluding))


def require_all_inputs(who: str, curve: PrivacyCurve) -> None:
    """Raises ValueError for a curve of chosen inputs: whoever is drawn in a person's place may hold any value."""
    if curve.source.chosen_inputs_only:
        raise ValueError(
            f"{who}: expected a curve for all inputs, because others drawn in a person's place may hold any value, "
            "got one for a pair or a diameter."
        )


@dataclass(frozen=True)
class SampleSizeRange:
    """A range of sample sizes: the curve of the smallest size, and the cells of sizes that it bounds.

    ``cells`` holds, for each cell that the curve bounds from above, an upper bound of its probability and its largest
    share; ``smaller_cells``, for the cells of smaller sizes, which the curve bounds from below, a lower bound of the
    probability and the smallest share.
    """

    inside: PrivacyCurve
    cells: tuple[tuple[float, float], ...]
    smaller_cells: tuple[tuple[float, float], ...]

    def bound_contributions(self, epsilons: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Returns the contributions to the upper and to the lower bound at each ε, and where the former is positive."""
        above, below = (np.array(cells).reshape(-1, 2) for cells in (self.cells, self.smaller_cells))
        points = [
            inner_epsilon(epsilons, above[:, 1:]) * (1 - LOG_ROUNDING_MARGIN),
            inner_epsilon(epsilons, below[:, 1:]) * (1 + LOG_ROUNDING_MARGIN),
        ]
        # The cells are evaluated in one call: many nearby points cost little more than one.
        profile = self.inside.profile(np.concatenate(points).reshape(-1))
        cut = points[0].size
        upper, lower = profile.upper[:cut].reshape(points[0].shape), profile.lower[cut:].reshape(points[1].shape)
        weighed = (above[:, :1] * above[:, 1:] * upper).sum(axis=0), (below[:, :1] * below[:, 1:] * lower).sum(axis=0)
        return *weighed, np.asarray((upper > 0).any(axis=0))


class ProfiledCurve(PrivacyCurve):
    """A curve defined by its profile, from which single values and the inverse follow."""

    @abstractmethod
    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Returns upper and lower bounds of δ."""

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), max(0.0, math.nextafter(upper - lower, math.inf)))

    def bracket(self, epsilon: float) -> Bracket:
        """Returns both sides of δ at one ε."""
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return Bracket(arb(float(lower)), arb(float(upper)), "cells of sample sizes")

    def log_estimate(self, epsilon: float) -> float:
        """Returns an upper bound of log δ for the search of ε."""
        return self.bracket(epsilon).log_upper()

    def natural_scale(self) -> float:
        """Returns about the standard deviation of the privacy loss."""
        return self._scale

    @cached_property
    def _scale(self) -> float:
        return max(self.bracket(0.0).upper_float(), 1e-12) * math.sqrt(2 * math.pi)

    def _epsilon(self, delta: float) -> BoundValue:
        inverse = invert(self, delta, MAX_EPSILON, zero_at_high=False)
        if math.isinf(inverse.upper):
            return self._value(inverse.upper, inverse.upper)
        return self._value(inverse.upper, inverse.upper - inverse.lower)


@dataclass(frozen=True)
class PoissonCurve(ProfiledCurve):
    """Each person of the population takes part independently with probability ``rate``.

    Theorem: the sample size is binomial and independent of the data, and given the size the sample is uniform without
    replacement: δ(ε) ≤ E_n[(n/N)·δ_n(ε'_n)] with [VR] Proposition 2 at the share n/N. Where everybody learns who takes
    part: δ(ε) ≤ E_n[δ_n(ε)] for a person who does, with one more than a binomial number of the others.
    Requires: one curve per sample size; δ_n never grows with n, because an attacker with n messages can add one more.
    Returns: a certified upper bound: sizes are grouped in cells low … high, each with the share of high and the curve
    of at most low, and the probability outside all cells is added in full. ``slack`` compares with the opposite choice
    where the size is likely to be.
    Deviates: a shuffler reveals the number of messages, so the formula for Poisson sampling that compares a sample with
    and without one person does not apply.
    """

    size_ranges: tuple[SampleSizeRange, ...]
    outside: float

    @property
    def certified(self) -> bool:
        return all(sizes.inside.certified for sizes in self.size_ranges)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = np.full_like(epsilons, self.outside), np.zeros_like(epsilons)
        positive = upper > 0
        for sizes in self.size_ranges:
            above, below, is_positive = sizes.bound_contributions(epsilons)
            upper, lower, positive = upper + above, lower + below, positive | is_positive
        rounding = 8 * LOG_ROUNDING_MARGIN * (sum(len(sizes.cells) for sizes in self.size_ranges) + 1)
        lower = np.where(epsilons <= MAX_EPSILON, lower * (1 - rounding), 0.0)
        return _raise_bounds(upper, positive, rounding), np.asarray(lower)


def poisson(
    randomizer: Randomizer,
    population: float,
    rate: float,
    *,
    bound: BoundChoice = pointwise_minimum.BEST_BOUND_NAME,
    colluding: float = 0,
    effort: str = registry.QUICK_EFFORT,
    secret: bool = True,
) -> PrivacyCurve:
    """Returns the privacy curve of one round in which each person takes part independently with the same probability.

    Args:
        randomizer: As in ``amplify``.
        population: Number of people.
        rate: Probability that a person takes part, above 0 and at most 1.
        bound: As in ``amplify``.
        colluding: Number of people who reveal their messages and whether they take part.
        effort: As in ``amplify``.
        secret: True if nobody but the colluders learns who takes part. If False, everybody does, and the curve is that
            of a person who takes part.

    Returns:
        An upper bound of δ(ε).

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of range, or the curve is for chosen inputs only and ``secret`` is True.
        NotApplicable: If none of the chosen bounds applies.

    >>> import shuffledp as sdp
    >>> curve = sdp.poisson(sdp.VariationRatio.from_ldp(1.0), population=2000, rate=0.1, bound="variation-ratio")
    >>> curve.delta(0.1).upper < 1e-5
    True
    """
    total = validation.count("poisson", "population", population)
    lost = validation.count("poisson", "colluding", colluding, at_least=0)
    chance = validation.exact("poisson", "rate", rate)
    if not 0 < chance <= 1:
        raise ValueError(f"poisson: rate must be above 0 and at most 1, got {validation.format_value(rate)}.")
    if lost >= total:
        raise ValueError(f"poisson: colluding must be below population = {total}, got {lost}.")
    registry.check_effort("poisson", effort)
    if chance == 1:
        with validation.relabel_errors("poisson", "amplify"):
            return amplify(randomizer, total, bound=bound, colluding=lost, effort=effort)

    def curve_of(users: int, is_probable: bool) -> PrivacyCurve:
        with validation.relabel_errors("poisson", "amplify"):
            curve = amplify(randomizer, users, bound=bound, effort=effort if is_probable else registry.QUICK_EFFORT)
        if secret:
            require_all_inputs("poisson", curve)
        return curve

    # A person who is known to take part comes on top of the others who do.
    certain = 0 if secret else 1
    others = total - lost - certain
    if others == 0:
        return curve_of(1, True).with_users(total, lost)
    sizes = _SampleSizeLaw(others, chance, certain)
    population_left = total - lost if secret else None
    ranges = sizes.size_ranges(curve_of, population_left)
    middle = ranges[len(ranges) // 2].inside
    takes_part = f"each of {total} takes part with probability {float(chance):g}"
    condition = "given the size [VR Prop. 2]" if secret else "given who does"
    attack = middle.source.attack
    source = dataclasses.replace(
        middle.source,
        theorem=f"{takes_part}, {condition}: {middle.theorem}",
        messages=max(1, round((total - lost) * chance)),
        guarantee=all(each.inside.guarantee for each in ranges),
        attack=PoissonSampleAttack(attack, sizes, population_left)
        if isinstance(attack, AttackCurve) and attack.one_message_each
        else None,
        users=total,
        colluding=lost,
    )
    return PoissonCurve(source, tuple(ranges), sizes.outside)


@dataclass(frozen=True)
class _SampleSizeLaw(ValueObject):
    """The law of the number of people who take part: ``certain_count`` plus each of ``others`` with a probability."""

    others: int
    chance: Fraction
    certain_count: int

    @cached_property
    def _coin(self) -> Coin:
        exact = to_rational(self.chance)
        return Coin(arb(exact), arb(1 - exact))

    @cached_property
    def _window(self) -> Window:
        with precision(BITS):
            return find_chernoff_window(self.others, self._coin, LOG_OMITTED_PROBABILITY)

    @property
    def outside(self) -> float:
        """An upper bound of the probability of a size that is in no cell, except of size 0."""
        with precision(BITS):
            return round_up(self._window.outside)

    @property
    def _mean(self) -> float:
        return self.others * float(self.chance)

    @property
    def _deviation(self) -> float:
        return max(1.0, math.sqrt(self._mean * (1 - float(self.chance))))

    @property
    def _least_size(self) -> int:
        """The smallest size in a cell; if nobody takes part, nothing is released."""
        return max(1 - self.certain_count, self._window.low)

    def _first_sizes(self, places: tuple[float, ...]) -> list[int]:
        """Returns the first size at or above each position, given in standard deviations from the mean."""
        first, last = self._least_size, max(self._least_size, self._window.high)
        cuts = {math.ceil(self._mean + place * self._deviation) for place in places}
        return [first, *(cut for cut in sorted(cuts) if first < cut <= last)]

    def size_ranges(
        self, curve_of: Callable[[int, bool], PrivacyCurve], population: int | None
    ) -> list[SampleSizeRange]:
        """Computes one curve for each range of sizes.

        ``population`` is the one that the share is relative to, or None if everybody learns who takes part.
        """
        starts = self._first_sizes(CURVE_POSITIONS)
        cells = starts if population is None else self._first_sizes(CURVE_POSITIONS + SHARE_POSITIONS)
        ends = [*cells[1:], max(self._least_size, self._window.high) + 1]
        masses = self._bound_masses([*cells, ends[-1]])
        ranges: list[SampleSizeRange] = []
        for number, start in enumerate(starts):
            end = starts[number + 1] if number + 1 < len(starts) else math.inf
            above = [
                (masses[k][1], _share(ends[k] - 1 + self.certain_count, population, up=True))
                for k, low in enumerate(cells)
                if start <= low < end
            ]
            is_probable = start - self._mean >= FULL_EFFORT_POSITION * self._deviation - 1 or end == math.inf
            below: list[tuple[float, float]] = []
            if number:
                chance = sum(masses[k][0] for k, low in enumerate(cells) if starts[number - 1] <= low < start)
                if chance > MIN_RANGE_PROBABILITY:
                    share = _share(starts[number - 1] + self.certain_count, population, up=False)
                    below = [(chance * (1 - LOG_ROUNDING_MARGIN), share)]
            ranges.append(
                SampleSizeRange(curve_of(start + self.certain_count, is_probable), tuple(above), tuple(below))
            )
        return ranges

    def bound_cells(self, places: tuple[float, ...]) -> tuple[list[int], list[tuple[float, float]]]:
        """Returns the sizes that begin a cell, one past the largest, and bounds of the probability of each cell."""
        last = max(self._least_size, self._window.high)
        cuts = [*self._first_sizes(places), last + 1]
        return [size + self.certain_count for size in cuts], self._bound_masses(cuts)

    def _bound_masses(self, cuts: list[int]) -> list[tuple[float, float]]:
        """Returns bounds of the probability of each cell between neighbouring cuts."""
        with precision(BITS):
            masses = masses_between(self.others, cuts, self._coin)
            return [(max(0.0, round_down(mass)), round_up(mass)) for mass in masses]


@dataclass(frozen=True)
class PoissonSampleAttack(Attack):
    """Lower bounds from attacks where each person takes part independently.

    Theorem: the number m of people who come is public and does not depend on the data, so that the divergence of a
    dataset is E_m[D_m], D_m that of m messages. Where nobody learns who takes part, all of the population but one hold
    the input of the others of the attack, and D_m is that of a sample of m of them (``HidingPair.subsample``); leaving
    out one message at random makes a sample of m one of m − 1, so that D_m never falls in m. Where everybody learns
    it, D_m is that of the attack on m users, which never grows in m.
    Requires: mechanisms of one message each. Colluders are left out of the population: their coins are independent.
    Returns: certified lower bounds: of each cell of sizes the end where D_m is least, times its probability.
    """

    round_attack: AttackCurve
    sizes: _SampleSizeLaw
    population: int | None
    """Number of people who do not collude, if nobody learns who takes part; None if everybody does."""

    @cached_property
    def _curves(self) -> tuple[PrivacyCurve, ...]:
        """One curve for each direction of each attack."""
        return tuple(self._curve(way, ATTACK_POSITIONS) for way in self.round_attack.directed_pairs)

    def _curve(self, pair: HidingPair, places: tuple[float, ...]) -> PrivacyCurve:
        """Returns the divergence of one dataset, from both sides."""
        sizes, masses = self.sizes.bound_cells(places)
        # An unbounded cell counts in full from above and for nothing from below.
        grows = self.population is not None
        ranges = []
        for number, size in enumerate(sizes):
            before = masses[number - 1 : number] if number else []
            after = masses[number : number + 1]
            above, below = (before, after) if grows else (after, before)
            if self.population is not None and size > self.population:
                # A sample cannot be larger than the population, whose divergence then serves as the upper bound.
                size = self.population
            ranges.append(
                SampleSizeRange(
                    self._fixed_size_curve(pair, size),
                    tuple((most, 1.0) for _, most in above),
                    tuple((least, 1.0) for least, _ in below),
                )
            )
        return PoissonCurve(self._source(sizes[0]), tuple(ranges), self.sizes.outside)

    def _fixed_size_curve(self, pair: HidingPair, users: int) -> PrivacyCurve:
        if self.population is not None:
            pair = pair.subsample(fmpq(users, self.population))
        with precision(FORMULA_BITS):
            return NumericCurve(
                self._source(users), (ConstantPair(pair),), pair.largest_log_ratio(), has_fixed_pairs=True
            )

    def _source(self, users: int) -> CurveSource:
        return CurveSource("attack", "identity (★)", users, guarantee=False)

    def exact_curves(self) -> Sequence[PrivacyCurve]:
        return [self._curve(pair, COMPOSED_ATTACK_POSITIONS) for pair in self.round_attack.pairs if pair.symmetric]

    def delta(self, epsilon: float) -> float:
        return max((exact_lower_bound(curve.delta(epsilon)) for curve in self._curves), default=0.0)

    def epsilon(self, delta: float) -> float:
        return max((exact_lower_bound(curve.epsilon(delta)) for curve in self._curves), default=0.0)


def _share(drawn: int, population: int | None, *, up: bool) -> float:
    """Returns the share of the population, rounded up or down."""
    if population is None:
        return 1.0
    with precision(BITS):
        exact = arb(fmpq(drawn, population))
        return min(1.0, round_up(exact)) if up else round_down(exact)


# --- Samples of which only some respond ---


NONRESPONSE_BITS = 96
EXCESS_EXPONENT = 0.7
"""c in the excess β·(1 − c)·u^(−c); of the values tried, the one with the smallest ε if few people come."""
MAX_DELTA = 2.0**-10
"""Curves hold for δ up to this, summed over all composed rounds."""
MAX_CELL_DEVIATION, MIN_CELL_DEVIATION = 9.0, -3.0
"""Range of the cell boundaries in r: standard deviations by which m exceeds its expectation."""
CELL_STEPS = ((2_000, 0.02), (20_000, 0.05), (math.inf, 0.15))
"""Distance of the boundaries in standard deviations, by the largest number of respondents: tails of many take longer.
"""
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
    drawn. K colluders know which of them were drawn: then m − K honest people hide each other, at most m of at most
    N − K came, and T is that of m − K.
    Returns: a certified upper bound. Cells r₁ ≤ r ≤ r₂ take d at r₁ and T at r₂, because d falls and T rises with r.
    Each d − h is the curve of a pair, and so is f: their slopes at ε = 0 are those of the round without sampling.
    """

    disclosed_sample_curve: PrivacyCurve
    """The curve of the respondents if everybody knows who they are."""
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
        value, rest = super()._epsilon(delta), math.nextafter(delta - self.failure, 0.0)
        # The table ends a little beyond the largest loss, which the curve itself knows exactly.
        most = self.disclosed_sample_curve.epsilon(rest).upper if rest > 0 else math.inf
        return value if value.upper <= most else self._value(most, max(0.0, most - (value.upper - value.slack)))


def round_failure(delta: float, rounds: int = 1) -> float:
    """Returns the failure probability of each round: half of the δ of all rounds, divided equally."""
    return delta / (2 * rounds)


def nonresponse(
    randomizer: Randomizer,
    came: int,
    of: int,
    *,
    failure: float,
    drawn: int | None = None,
    rate: Fraction | None = None,
    bound: BoundChoice = pointwise_minimum.BEST_BOUND_NAME,
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
        drawn: Number of people drawn, if it is fixed; otherwise None.
        rate: Probability with which each person is drawn; None if the number is fixed.
        bound: As in ``amplify``.
        colluding: Number of people of the population who reveal their messages and whether they were drawn.
        effort: As in ``amplify``.
        up_to: The largest δ, of this round or of all rounds composed with it, at which the curve is evaluated.

    Returns:
        An upper bound of δ(ε) for every set of potential respondents.

    Raises:
        ValueError: If neither or both of ``drawn`` and ``rate`` are given, nobody honest came, or more people came than
            were drawn.
    """
    if (drawn is None) == (rate is None):
        raise ValueError(f"nonresponse: expected drawn or rate, got {'both' if rate is not None else 'neither'}.")
    known = amplify(randomizer, came, bound=bound, colluding=colluding, effort=effort)
    require_all_inputs("nonresponse", known)
    most_drawn = of if drawn is None else drawn
    if came > most_drawn:
        raise ValueError(
            f"nonresponse: came must be at most the {most_drawn} people who can have been drawn, got {came}."
        )
    draw = _ResponseDraw(came, of, colluding, drawn, rate)
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
        """The largest number of honest people who would respond, without those who were drawn and did not.

        With a rate the size of the population does not matter; the number is then so large that fewer than came is
        improbable.
        """
        if self.rate is not None:
            wide = self._least_honest - 2 * MIN_CELL_DEVIATION * math.sqrt(self._least_honest)
            return max(self._least_honest, self.population - self.colluding, math.ceil(wide / float(self.rate)))
        assert self.drawn_count is not None
        return max(
            self._least_honest,
            self.population - self.colluding - max(0, self.drawn_count - self.colluding - self.respondents),
        )

    def _response_tail(self, respondents: int) -> arb:
        """Returns an upper bound of P(at least the least number of honest people come | so many would respond)."""
        if self.rate is not None:
            exact = to_rational(self.rate)
            return binomial_upper_tail(respondents, self._least_honest, Coin(arb(exact), arb(1 - exact)))
        assert self.drawn_count is not None
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
            assert self.drawn_count is not None
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
        """Returns an upper bound of m/r and a lower bound of the excess for each cell of r.

        The mean of the excess is at most ``mean``.
        """
        starts = [start for start in self._starts() if start <= self._most_honest]
        # With a rate the last cell is unbounded.
        tails = [1.0 if self.rate is not None else self._tail_above(self._most_honest)]
        tails = [self._tail_above(start - 1) for start in starts[1:]] + tails
        cells: list[tuple[float, float]] = []
        for start, tail in zip(starts, tails, strict=True):
            with precision(NONRESPONSE_BITS):
                share = min(1.0, round_up(arb(fmpq(self.respondents, start))))
                excess = arb(mean) * (1 - arb(EXCESS_EXPONENT)) * arb(tail) ** arb(-EXCESS_EXPONENT) if tail else arb(1)
                cells.append((share, min(1.0, max(0.0, round_down(excess)))))
        return cells

    def _tail_above(self, respondents: int) -> float:
        with precision(NONRESPONSE_BITS):
            return min(1.0, round_up(self._response_tail(respondents)))
