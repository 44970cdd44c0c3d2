"""Noise that honest users, or the shuffler, add together: its divergence, from its kind and numbers.

A kind of noise is read from facts, a flat table of exact numbers (with another such table for noise inside noise); the
classes at the end of this file are the kinds. Each computes its divergence from its numbers:

- counts hidden by noise messages (Poisson dummies, cancelling noise): sums over pairs of counts, in balls;
- noise on sums (discrete Laplace, Pólya, Skellam): geometric series, products of power series, or a printed theorem;
- several noises together: privacy losses on a grid, multiplied in integers;
- messages that are within a distance η of such noise (split and mix, padding): (1 + e^ε)·η is added.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Self

from flint import arb, arb_poly, fmpq, fmpz, fmpz_poly

from shuffledp_verify._split_and_mix import Colourings
from shuffledp_verify.arithmetic import Enclosure, bound_positive_sum, delta_bits, precision, rational, sum_balls
from shuffledp_verify.verdict import Finding, Verdict

# --- Counts hidden by noise messages ---

MAX_UNDECIDED_CELLS = 2_000_000
"""Largest number of cells that are examined one by one because balls leave their signs open."""


@dataclass(frozen=True)
class CountLaw:
    """The law of a count: P(first), P(first + 1), …, all positive, and an upper bound of the remaining probability."""

    first: int
    masses: Sequence[arb]
    outside: arb

    @property
    def growth_ratios(self) -> list[arb]:
        """Ratios P(x+1)/P(x), for all but the last x."""
        return [after / before for before, after in zip(self.masses, self.masses[1:], strict=False)]


def enclose_moved_message(counts: CountLaw, ratio: arb) -> Enclosure | None:
    """Encloses the divergence of one more message in one of two independent counts of one law against the other.

    This is Σ_{x,y} (P(x)·P(y) − ratio·P(x+1)·P(y−1))₊.

    Theorem: with g(x) = P(x+1)/P(x) a cell counts if ratio·g(x) < g(y−1). Sorted by g, largest first, those y are an
    initial part that grows from one x to the next; sums of P(y) and P(y−1) over it are precomputed. Cells outside the
    table, and the cells at its edge whose neighbours are outside, count in full for the upper side and not at all for
    the lower.

    Args:
        counts: The law P of either count.
        ratio: e^ε.

    Returns:
        Both sides; None if the sign of too many cells is left open.
    """
    growths = counts.growth_ratios
    middles = [float(growth.mid()) for growth in growths]
    order = sorted(range(len(growths)), key=lambda place: -middles[place])
    # y = place + 1, so that P(y−1) and P(y) are the masses at place and place + 1.
    least = list(accumulate((growths[place].lower() for place in order), lambda a, b: a.min(b)))
    most = list(accumulate((growths[place].upper() for place in reversed(order)), lambda a, b: a.max(b)))[::-1]
    held = [arb(0), *accumulate(counts.masses[place + 1] for place in order)]
    shifted = [arb(0), *accumulate(counts.masses[place] for place in order)]
    upper, lower, open_cells = arb(0), arb(0), 0
    sure = maybe = 0
    for x in order:
        threshold = ratio * growths[x]
        while sure < len(order) and least[sure] > threshold:
            sure += 1
        while maybe < len(order) and not most[maybe] <= threshold:
            maybe += 1
        start = min(sure, maybe)
        part = counts.masses[x] * (held[start] - growths[x] * ratio * shifted[start])
        upper, lower = upper + part, lower + part
        open_cells += maybe - start
        if open_cells > MAX_UNDECIDED_CELLS:
            return None
        for place in order[start:maybe]:
            cell = counts.masses[x] * (counts.masses[place + 1] - threshold * counts.masses[place])
            upper += cell.max(arb(0))
    edges = counts.masses[0] + counts.masses[-1] + 2 * counts.outside
    if counts.first == 0:
        # No count is below 0, so that the messages of this edge are revealed with certainty.
        lower += counts.masses[0] * (held[-1] + counts.masses[0])
    return Enclosure(lower.lower(), (upper + edges).upper())


def poisson_law(mean: arb, left_out: arb) -> CountLaw:
    """Returns the Poisson law of a mean, without about ``left_out`` of its probability."""
    centre = int(float(mean.mid()))
    peak = (centre * mean.log() - mean - arb(centre + 1).lgamma()).exp()
    upwards: list[arb] = [peak]
    downwards: list[arb] = []
    # Each further probability is at most that share of the one before, so that a geometric series bounds the rest.
    while True:
        last = centre + len(upwards) - 1
        share = mean / (last + 1)
        rest = upwards[-1] * share / (1 - share) if share < 1 else arb(1)
        if rest < left_out:
            above = rest
            break
        upwards.append(upwards[-1] * share)
    while True:
        first, lowest = centre - len(downwards), downwards[-1] if downwards else peak
        share = first / mean
        below = arb(0) if first == 0 else (lowest * share / (1 - share) if share < 1 else arb(1))
        if below < left_out:
            break
        downwards.append(lowest * share)
    return CountLaw(centre - len(downwards), [*reversed(downwards), *upwards], (above + below).upper())


def negative_binomial(shape: arb, ratio: arb, size: int) -> list[arb]:
    """Returns P(0), …, P(size − 1) of the negative binomial law of this shape and ratio."""
    chances = [(shape * (1 - ratio).log()).exp()]
    for i in range(size - 1):
        chances.append(chances[-1] * ratio * (shape + i) / (i + 1))
    return chances


def negative_binomial_size(shape: float, ratio: float, left_out: float) -> int:
    """Returns about how many counts hold all but ``left_out`` of the law, by the Chernoff bound at the best tilt."""
    size, mean = 16, shape * ratio / (1 - ratio)
    while True:
        if size > mean:
            # P(X ≥ size) ≤ ((1 − s)/(1 − s·z))^shape·z^−size, least at s·z = size/(size + shape).
            tilt = size / (size + shape)
            bound = shape * math.log((1 - ratio) / (1 - tilt)) - size * math.log(tilt / ratio)
            if bound < math.log(left_out):
                return size
        size += size // 8


# --- Cancelling noise ---

MAX_COUNTS, MAX_TABLE_CELLS = 1 << 17, 1 << 20


@dataclass(frozen=True)
class CancellingCounts:
    """Cancelling noise: X + F messages for an option and Y + F against it.

    X and Y are geometric with ratio q = e^−rate, F negative binomial of this shape and ratio, all independent.
    """

    rate: fmpq
    shape: fmpq
    ratio: fmpq
    share: fmpq
    """The share of the planned noise senders who take part; if it is below 1, X, Y and F are smaller."""

    def enclose(self, factor: arb, left_out: float) -> Enclosure | None:
        """Encloses the divergence at e^ε = factor ≥ 1 of replacing one option's message by another's.

        Theorem: the smaller of two geometric numbers, geometric with ratio q², is independent of their difference Z,
        P(Z = z) ∝ q^|z| (no memory). So the two counts are W = min(X, Y) + F and Z, independent. One more message for
        the option makes Z one larger, and W too if Z was below 0. With g(w) = P(W = w+1)/P(W = w), if each option is
        described by its own (W, Z), the messages' probabilities in world 1 are those of world 0 times

            q²/g(w'−1)   with P(w')/(1+q)²        (the first option's Z at least 0, the second's below 1),
            g(w)/q²      with q²·P(w)/(1+q)²      (below 0, and at least 1),
            g(w)/g(w'−1) with q·P(w)P(w')/(1+q)²  (below 0, and below 1),

        and 1 for the rest, which contributes nothing as e^ε ≥ 1. Exchanging the options exchanges the worlds.

        Args:
            factor: e^ε.
            left_out: About the probability that is left out of a law.

        Returns:
            Both sides; None if the law is too long.
        """
        q = (-arb(self.rate)).exp()
        counts = self._smaller_count_law(q, left_out)
        if counts is None:
            return None
        both = enclose_moved_message(counts, factor)
        if both is None:
            return None
        masses = counts.masses
        square = q * q
        first = bound_positive_sum(masses[1:], [factor * square * mass for mass in masses[:-1]])
        second = bound_positive_sum(masses[:-1], [factor / square * mass for mass in masses[1:]])
        # No count is below the least W; the successor of the largest W is not in the table.
        edge = masses[0], masses[-1] + counts.outside
        lower = first[0] + edge[0] + square * second[0] + q * both.lower
        upper = first[1] + edge[0] + counts.outside + square * (second[1] + edge[1]) + q * both.upper
        whole = (1 + q) ** 2
        return Enclosure((lower / whole).lower(), (upper / whole).upper())

    def losses(self, left_out: float) -> tuple[LossTable, LossTable] | None:
        """Returns the losses of removing a message from an option and of adding one, which are independent."""
        if self.share != 1:
            return self._partial_share_losses(left_out)
        q = (-arb(self.rate)).exp()
        counts = self._smaller_count_law(q, left_out)
        if counts is None:
            return None
        masses, whole = counts.masses, 1 + q
        taken = [1 / whole, *(q * mass / whole for mass in masses[:-1])], [q / whole, *(m / whole for m in masses[1:])]
        added = [q / whole, *(mass / whole for mass in masses[1:])], [1 / whole, *(q * m / whole for m in masses[:-1])]
        return LossTable.from_balls(*taken), LossTable.from_balls(*added, masses[0] / whole)

    def _smaller_count_law(self, q: arb, left_out: float) -> CountLaw | None:
        """Returns the law of W, from 0 on, as the product of two power series, exact as far as both are known."""
        floods = negative_binomial_size(float(self.shape), float(self.ratio), left_out)
        size = floods + math.ceil(math.log(left_out) / (-2 * float(self.rate)))
        if size > MAX_COUNTS:
            return None
        flood = negative_binomial(arb(self.shape), arb(self.ratio), size)
        product = arb_poly(flood) * arb_poly(negative_binomial(arb(1), q * q, size))
        masses = [product[place] for place in range(size)]
        if not all(mass > 0 for mass in masses):
            return None
        return CountLaw(0, masses, (1 - sum_balls(masses)).upper().max(arb(0)))

    def _partial_share_losses(self, left_out: float) -> tuple[LossTable, LossTable] | None:
        """Returns the losses if X and Y are negative binomial of shape ``share`` and F of shape share·shape.

        With d = |u − v| and m the smaller one, P(u, v) = Σ_f P(F = f)·g(m−f)·g(m−f+d): for each d a product of series.
        """
        rate, shape = float(self.rate), self.share * self.shape
        far = math.ceil(-math.log(left_out) / rate)
        size = negative_binomial_size(float(shape), float(self.ratio), left_out) + far // 2
        if far * size > MAX_TABLE_CELLS:
            return None
        flood = arb_poly(negative_binomial(arb(shape), arb(self.ratio), size))
        single = negative_binomial(arb(self.share), (-arb(self.rate)).exp(), size + far)
        rows = []
        for distance in range(far + 1):
            products = [one * other for one, other in zip(single[:size], single[distance:], strict=False)]
            row = flood * arb_poly(products)
            rows.append([row[place] for place in range(size)])
        first, second, revealed = [], [], arb(0)
        for nearer, further in pairwise(rows):
            # Two cases: the count that gets a message is not the smaller one, or it is.
            first += nearer + further[:-1]
            second += further + nearer[1:]
            revealed += nearer[0]
        return LossTable.from_balls(first, second), LossTable.from_balls(second, first, revealed)


# --- Several noises together: losses on a grid ---

UNIT_BITS = 160
"""Masses are integers in units of 2^−UNIT_BITS."""
FINEST_STEP = 2.0**-14
LOSS_MARGIN = 2.0**-46
"""Upper bound of the error of a loss in floats: probabilities have relative errors of 2^−50, losses are below 32."""
SHARE_MARGIN = 2.0**-32
"""Upper bound of the error of a cell's share between two losses of the grid: LOSS_MARGIN/FINEST_STEP."""
MIN_CHANCE = 1e-290
"""Smaller probabilities are not stored as floats; they count as revealed for the upper side, not for the lower."""
MAX_LOSS = 30.0
MAX_BINS = 1 << 19


@dataclass(frozen=True)
class LossTable:
    """Probabilities of messages in world 0 and in world 1."""

    first: Sequence[float]
    second: Sequence[float]
    omitted: arb
    """Upper bound of the probability, in world 0, of all messages that are not in the table."""
    revealed: arb
    """Lower bound of the probability, in world 0, of those of them that are never sent in world 1."""

    @classmethod
    def from_balls(cls, first: Sequence[arb], second: Sequence[arb], revealed: arb | None = None) -> LossTable:
        """Returns the table of balls that are far narrower than floats."""
        rest = (1 - sum_balls(first)).upper().max(arb(0))
        chances = [[float(chance.mid()) for chance in law] for law in (first, second)]
        return cls(chances[0], chances[1], rest, arb(0) if revealed is None else revealed.lower().max(arb(0)))

    @cached_property
    def losses(self) -> list[tuple[float, float]]:
        """The loss and the probability of each message, except for the least likely ones."""
        return [
            (math.log(p / q), p)
            for p, q in zip(self.first, self.second, strict=True)
            if p > MIN_CHANCE and q > MIN_CHANCE
        ]

    @cached_property
    def unstored_probability(self) -> float:
        """The probability of the messages that ``losses`` leaves out, up to rounding."""
        left = (p for p, q in zip(self.first, self.second, strict=True) if not (p > MIN_CHANCE and q > MIN_CHANCE))
        return sum(left) + MIN_CHANCE * len(self.first)

    def reach(self, left_out: float) -> float:
        """Returns a loss beyond which the probability on either side is about ``left_out``."""
        largest_first = sorted(((abs(loss), chance) for loss, chance in self.losses), key=lambda one: -one[0])
        beyond, reached = 0.0, 0.0
        for size, chance in largest_first:
            beyond, reached = beyond + chance, size
            if beyond >= left_out:
                break
        return reached


@dataclass(frozen=True)
class LossGrid:
    """Integer masses of the losses k·step, k from ``lowest`` on, and the revealed mass."""

    step: float
    lowest: int
    masses: fmpz_poly
    revealed: arb

    @classmethod
    def from_table_above(cls, table: LossTable, step: float, reach: float) -> LossGrid:
        """Returns losses that reveal more: each cell is divided between two grid losses, keeping both probabilities.

        Merging the parts again is post-processing, which reveals less. Losses are raised by a margin, those below
        −reach to it, and those above reach count as revealed; masses are raised by the possible error of the shares.
        """
        many = math.ceil(reach / step) + 1
        least, whole, gone = -many * step, math.expm1(-step), 0.0
        lower, upper = [0.0] * (2 * many + 1), [0.0] * (2 * many + 1)
        for loss, chance in table.losses:
            raised = max(loss + LOSS_MARGIN, least)
            place = max(math.floor(raised / step), -many)
            if place >= many:
                gone += chance
                continue
            share = min(max(math.expm1(place * step - raised) / whole, 0.0), 1.0)
            lower[place + many] += chance * (1 - share + SHARE_MARGIN)
            upper[place + many + 1] += chance * (share + SHARE_MARGIN)
        masses = [_units((a + b) * (1 + SHARE_MARGIN)) + 1 for a, b in zip(lower, upper, strict=True)]
        return cls(
            step,
            -many,
            fmpz_poly(masses),
            table.omitted + arb((table.unstored_probability + gone) * (1 + SHARE_MARGIN)),
        )

    @classmethod
    def from_table_below(cls, table: LossTable, step: float, reach: float) -> LossGrid:
        """Returns losses that reveal less: every loss is lowered to the grid, and those below −reach are left out."""
        many = math.ceil(reach / step) + 1
        masses = [0.0] * (2 * many + 1)
        for loss, chance in table.losses:
            place = min(math.floor((loss - LOSS_MARGIN) / step), many)
            if place >= -many:
                masses[place + many] += chance
        whole = fmpz_poly([max(0, _units(mass * (1 - SHARE_MARGIN)) - 1) for mass in masses])
        return cls(step, -many, whole, table.revealed)

    def join(self, other: LossGrid, *, up: bool) -> LossGrid:
        """Returns the losses of two independent parts together, with masses rounded up or down to integers."""
        product = self.masses * other.masses
        lift = (1 << UNIT_BITS) - 1 if up else 0
        masses = fmpz_poly([(mass + lift) >> UNIT_BITS for mass in product.coeffs()])
        # Increasing in both, as long as they are probabilities.
        mine, theirs = self.revealed.min(arb(1)), other.revealed.min(arb(1))
        return LossGrid(self.step, self.lowest + other.lowest, masses, mine + theirs - mine * theirs)

    def divergence(self, factor: arb) -> arb:
        """Returns Σ mass·(1 − factor·e^−loss)₊ plus the revealed mass."""
        coefficients = self.masses.coeffs()
        step, total = arb(self.step), arb(0)
        start = max(0, math.floor(float(factor.log().mid()) / self.step) - self.lowest - 1)
        # The few losses near ε one by one, the larger ones by Horner's rule.
        while start < len(coefficients):
            ratio = factor * (-step * (self.lowest + start)).exp()
            if ratio < 1:
                break
            total += arb(coefficients[start]) * (1 - ratio).max(arb(0))
            start += 1
        else:
            return total / arb(2) ** UNIT_BITS + self.revealed
        shrink, tilted = (-step).exp(), arb(0)
        for mass in reversed(coefficients[start:]):
            tilted = tilted * shrink + mass
        plain = arb(sum(coefficients[start:], fmpz(0)))
        return (total + plain - ratio * tilted) / arb(2) ** UNIT_BITS + self.revealed


def compose_losses(
    parts: Sequence[tuple[LossTable, int]], step: float, factor: arb, left_out: float
) -> Enclosure | None:
    """Encloses the divergence of independent parts together.

    Args:
        parts: The losses of each part, and the number of parts like it.
        step: The distance of the losses on the grid.
        factor: e^ε.
        left_out: About the probability of losses that are only bounded.

    Returns:
        Both sides; None if there are too many losses.
    """
    reach = [max(min(table.reach(left_out), MAX_LOSS), step) for table, _ in parts]
    if (
        step < FINEST_STEP
        or sum(times * far for (_, times), far in zip(parts, reach, strict=True)) > MAX_BINS / 2 * step
    ):
        return None
    found = []
    for up, on_grid in ((True, LossGrid.from_table_above), (False, LossGrid.from_table_below)):
        whole: LossGrid | None = None
        for (table, times), far in zip(parts, reach, strict=True):
            law = _power(on_grid(table, step, far), times, up=up)
            whole = law if whole is None else whole.join(law, up=up)
        assert whole is not None, "there is at least one part"
        found.append(whole.divergence(factor))
    return Enclosure(found[1].lower(), found[0].upper())


def _power(law: LossGrid, times: int, *, up: bool) -> LossGrid:
    power = law
    for digit in bin(times)[3:]:
        power = power.join(power, up=up)
        if digit == "1":
            power = power.join(law, up=up)
    return power


def _units(mass: float) -> int:
    return int(math.ldexp(mass, UNIT_BITS))


# --- Noise on sums ---

MAX_VALUES = 1 << 18
"""Largest number of values of the noise that are examined one by one."""
MAX_ORDER = 10**6


def enclose_laplace(rate: Fraction, shift: int, epsilon: Fraction) -> Enclosure:
    """Encloses the divergence of discrete Laplace noise on a sum.

    P(z) = (1−q)/(1+q)·q^|z|, q = e^−rate; one user moves the sum by up to ``shift`` = s.

    Theorem: P(z) − e^ε·P(z−s) is P(z)·(1 − e^ε·q^s) for z ≤ 0, (1−q)/(1+q)·(q^z − e^ε·q^(s−z)) for 0 < z < s, and
    nowhere positive beyond. The second is positive as long as 2z < s − ε/rate, and both are geometric series. A smaller
    shift is never worse, because P falls on either side of 0. The law is symmetric, so that both directions are equal.

    Args:
        rate: The rate of the noise.
        shift: The sensitivity of the sum.
        epsilon: The ε at which the divergence is enclosed.

    Returns:
        Both sides.
    """
    if epsilon >= rate * shift:
        return Enclosure(arb(0), arb(0))
    last = max(0, min(shift - 1, math.ceil((shift - epsilon / rate) / 2) - 1))
    rate_, far = arb(rational(rate)), arb(rational(epsilon - rate * shift)).exp()
    q, power = (-rate_).exp(), (-rate_ * last).exp()
    inner = q * (1 - power) - far * (1 / power - 1)
    value = ((1 - far) + inner) / (1 + q)
    return Enclosure(value.lower(), value.upper())


def enclose_polya(rate: Fraction, shift: int, shape: Fraction, factor: arb, left_out: float) -> Enclosure | None:
    """Encloses the divergence of Pólya noise on a sum: a difference of negative binomials of one shape, at most 1.

    Theorem: Σ_z (P(z) − e^ε·P(z−s))₊ over a table, by the product of two power series, all but the edge; with P' ≤ P
    and Q' ≤ Q it is at most (P' − e^ε·Q')₊ + P − P'. P falls on either side of 0, as negative binomials of shape at
    most 1 do from 0 on: only z < s/2 count.

    Args:
        rate: The rate of the noise; the ratio of the negative binomials is e^−rate.
        shift: The sensitivity s of the sum.
        shape: The shape of the negative binomials.
        factor: e^ε.
        left_out: About the probability that is left out of a law.

    Returns:
        Both sides; None if the law is too long.
    """
    size = math.ceil(-math.log(left_out) / float(rate)) + 1
    if size > MAX_VALUES:
        return None
    chances = negative_binomial(arb(rational(shape)), (-arb(rational(rate))).exp(), size)
    product = arb_poly(chances) * arb_poly(chances[::-1])
    # P(z) is at index size − 1 + z; it lacks the contribution of larger numbers.
    missing = (1 - sum_balls(chances)).upper().max(arb(0))
    lower, upper = arb(0), arb(0)
    for z in range(1 - size, min(size, (shift + 1) // 2)):
        here = product[size - 1 + z]
        there = product[size - 1 + z - shift] if z - shift > -size else arb(0)
        cell = here - factor * there
        upper += cell.max(arb(0))
        if cell > 0:
            lower += cell
    spread = 2 * missing
    return Enclosure((lower - factor * spread).lower().max(arb(0)), (upper + spread).upper())


def enclose_bounded_loss(largest: Fraction, epsilon: Fraction) -> Enclosure:
    """Encloses the divergence of any noise whose losses are bounded.

    With losses of at most ε₀, a coin that shows the truth with probability e^ε₀/(1 + e^ε₀) reveals more. The lower side
    is 0.

    Args:
        largest: The largest loss ε₀.
        epsilon: The ε at which the divergence is enclosed.

    Returns:
        Both sides.
    """
    if epsilon >= largest:
        return Enclosure(arb(0), arb(0))
    low, high = arb(rational(epsilon)).exp(), arb(rational(largest)).exp()
    return Enclosure(arb(0), ((high - low) / (1 + high)).upper())


def enclose_skellam(variance: Fraction, square: Fraction, total: Fraction, epsilon: Fraction) -> Enclosure:
    """Encloses the divergence of Skellam noise on each of several sums.

    Theorem: [Agarwal, Kairouz, Liu 2021] Theorem 3.5 for each integer order, turned into δ by [Canonne, Kamath, Steinke
    2020] Proposition 12; any order is sound, and the best one is searched here from the smallest on, by doubling and
    halving. The lower side is 0.

    Args:
        variance: The variance of the noise on one sum.
        square: The largest Δ₂² by which one user changes the sums.
        total: The largest Δ₁.
        epsilon: The ε at which the divergence is enclosed.

    Returns:
        Both sides.
    """

    def log_delta(order: int) -> arb:
        half = square / (2 * variance)
        rest = min(((2 * order - 1) * square + 6 * total) / (4 * variance**2), 3 * total / (2 * variance))
        grown = (order - 1) * (order * half + rest - epsilon)
        return arb(rational(grown)) + (order - 1) * arb(fmpq(order - 1, order)).log() - arb(order).log()

    low, high = 2, 4
    while high < MAX_ORDER and log_delta(high) < log_delta(high // 2):
        low, high = high // 2, 2 * high
    while high - low > 2:
        third = (high - low) // 3 or 1
        if log_delta(low + third) < log_delta(high - third):
            high -= third
        else:
            low += third
    best = min((log_delta(order) for order in range(low, high + 1)), key=lambda found: float(found.mid()))
    return Enclosure(arb(0), best.exp().upper())


# --- Kinds of noise ---

Facts = Mapping[str, Any]
"""``kind``, its numbers as ``Fraction``, and ``noise``: the facts of the noise inside."""

NOISE_BITS = 256
OMITTED_DELTA_SHARE = 2.0**-34
"""The share of δ that is left out of a law."""
SMALLER_EPSILONS = (Fraction(1, 2), Fraction(3, 4), Fraction(7, 8), Fraction(15, 16))
"""Fractions of ε at which a smaller δ may be proved, because the addition (1 + e^ε)·η grows with ε."""
GRID_STEPS = (256, 1024)
"""Numbers of grid steps per scale of the noise, tried in this order."""
MAX_MEAN = 10**7


@dataclass(frozen=True)
class DivergenceTarget:
    """The claimed (ε, δ), at the working precision."""

    epsilon: Fraction
    delta: Fraction

    @property
    def exp_epsilon(self) -> arb:
        """e^ε."""
        return arb(rational(self.epsilon)).exp()

    @property
    def omitted_probability(self) -> float:
        """The probability that may be left out of a law."""
        return max(float(self.delta) * OMITTED_DELTA_SHARE, 1e-280)

    @property
    def bits(self) -> int:
        """A working precision with digits to spare for this δ."""
        return NOISE_BITS + delta_bits(self.delta)


def _read_positive(facts: Facts, name: str, *, most: int | None = None, below: bool = False) -> Fraction:
    """Returns a number from facts; raises ValueError unless it is above 0 and within the required limit."""
    number = facts[name]
    if not isinstance(number, Fraction) or number <= 0:
        raise ValueError(f"certificate: {name} of a noise must be above 0.")
    if (most is not None and number > most) or (below and number >= 1):
        raise ValueError(f"certificate: {name} of a noise must be {'below' if below else 'at most'} 1.")
    return number


def _read_positive_integer(facts: Facts, name: str) -> int:
    """Returns an integer from facts; raises ValueError unless it is an integer above 0."""
    number = _read_positive(facts, name)
    if number.denominator != 1:
        raise ValueError(f"certificate: {name} of a noise must be a whole number.")
    return number.numerator


class Noise(ABC):
    """One kind of noise."""

    kind: ClassVar[str]
    summation_method: ClassVar[str]
    """Name of the method of summation."""

    @property
    def method(self) -> str:
        """Name of the method of proof."""
        return self.summation_method

    @classmethod
    @abstractmethod
    def from_facts(cls, facts: Facts) -> Self:
        """Returns the noise described by facts; raises KeyError if a number is missing."""

    @abstractmethod
    def enclose(self, target: DivergenceTarget) -> Enclosure | None:
        """Encloses the divergence at ε, sharply enough for δ; None if that takes too long."""

    def losses(self, left_out: float) -> Sequence[LossTable] | None:
        """Returns the losses of independent parts of the messages; None if they are not all known."""
        return None

    @property
    def scale(self) -> float:
        """Typical loss of the noise; the step of a grid is a fraction of it."""
        return 1.0

    @property
    def largest_epsilon(self) -> Fraction | None:
        """An ε from which on the divergence is 0; None if there is none."""
        return None


@dataclass(frozen=True)
class CancellingNoise(Noise):
    """Cancelling noise: geometric noise on two counts of each option, and pairs of messages that flood both."""

    counts: CancellingCounts

    kind = "cancelling"
    summation_method = "sums over the joint law of the counts"

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        rate, shape = (_read_positive(facts, name) for name in ("rate", "shape"))
        ratio, share = _read_positive(facts, "ratio", below=True), _read_positive(facts, "share")
        return cls(CancellingCounts(*map(rational, (rate, shape, ratio, share))))

    def enclose(self, target: DivergenceTarget) -> Enclosure | None:
        if self.counts.share == 1:
            return self.counts.enclose(target.exp_epsilon, target.omitted_probability)
        return compose_noises([(self, 1)], target)

    def losses(self, left_out: float) -> Sequence[LossTable] | None:
        return self.counts.losses(left_out)

    @property
    def scale(self) -> float:
        return float(self.counts.rate)


@dataclass(frozen=True)
class PoissonDummies(Noise):
    """A Poisson number of dummies of each option."""

    mean: Fraction

    kind = "poisson"
    summation_method = "sums over the joint law of the counts"

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        return cls(_read_positive(facts, "mean"))

    def enclose(self, target: DivergenceTarget) -> Enclosure | None:
        if self.mean > MAX_MEAN:
            return None
        return enclose_moved_message(
            poisson_law(arb(rational(self.mean)), arb(target.omitted_probability)), target.exp_epsilon
        )

    def losses(self, left_out: float) -> Sequence[LossTable] | None:
        if self.mean > MAX_MEAN:
            return None
        counts = poisson_law(arb(rational(self.mean)), arb(left_out))
        masses = counts.masses
        never = masses[0] if counts.first == 0 else None
        return LossTable.from_balls(masses[:-1], masses[1:]), LossTable.from_balls(masses[1:], masses[:-1], never)

    @property
    def scale(self) -> float:
        return math.sqrt(1 / max(float(self.mean), 0.1))


@dataclass(frozen=True)
class LaplaceNoise(Noise):
    """Discrete Laplace noise on a sum."""

    rate: Fraction
    shift: int

    kind = "laplace"
    summation_method = "geometric series of the noise"

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        return cls(_read_positive(facts, "rate"), _read_positive_integer(facts, "shift"))

    def enclose(self, target: DivergenceTarget) -> Enclosure | None:
        return enclose_laplace(self.rate, self.shift, target.epsilon)

    @property
    def largest_epsilon(self) -> Fraction | None:
        return self.rate * self.shift


@dataclass(frozen=True)
class PolyaNoise(Noise):
    """Differences of negative binomials on each of ``sums`` sums, composed by dividing ε among them."""

    rate: Fraction
    shift: int
    shape: Fraction
    sums: int

    kind = "polya"
    summation_method = "sums over the law of the noise, a product of power series"

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        shape = _read_positive(facts, "shape", most=1)
        return cls(
            _read_positive(facts, "rate"),
            _read_positive_integer(facts, "shift"),
            shape,
            _read_positive_integer(facts, "sums"),
        )

    def enclose(self, target: DivergenceTarget) -> Enclosure | None:
        each = DivergenceTarget(target.epsilon / self.sums, target.delta / self.sums)
        found = enclose_polya(self.rate, self.shift, self.shape, each.exp_epsilon, each.omitted_probability)
        if found is None:
            return None
        # With one sum, its own divergence is attained; with several, no lower bound is known.
        return Enclosure(found.lower if self.sums == 1 else arb(0), (found.upper * self.sums).upper())


@dataclass(frozen=True)
class BoundedNoise(Noise):
    """Any noise whose losses are bounded."""

    most: Fraction

    kind = "bounded"
    summation_method = "the largest loss of the noise"

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        return cls(_read_positive(facts, "largest"))

    def enclose(self, target: DivergenceTarget) -> Enclosure | None:
        return enclose_bounded_loss(self.most, target.epsilon)

    @property
    def largest_epsilon(self) -> Fraction | None:
        return self.most


@dataclass(frozen=True)
class SkellamNoise(Noise):
    """Skellam noise on each of several sums."""

    variance: Fraction
    square: Fraction
    total: Fraction

    kind = "skellam"
    summation_method = "Rényi divergences of the noise by the printed theorem"

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        return cls(*(_read_positive(facts, name) for name in ("variance", "square", "total")))

    def enclose(self, target: DivergenceTarget) -> Enclosure | None:
        return enclose_skellam(self.variance, self.square, self.total, target.epsilon)


class ApproximateNoise(Noise):
    """Messages within η of messages that reveal only the noise inside: δ(ε) = δ_inside(ε) + (1 + e^ε)·η.

    As δ falls with ε, the δ of a smaller ε also holds, for which (1 + e^ε)·η is smaller.
    """

    inside: Noise

    @abstractmethod
    def distance(self) -> arb | None:
        """Returns an upper bound of η; None if none is found."""

    def enclose(self, target: DivergenceTarget) -> Enclosure | None:
        distance, found = self.distance(), self.inside.enclose(target)
        if distance is None or found is None:
            return None
        upper = (found.upper + (1 + target.exp_epsilon) * distance).upper()
        if upper > arb(rational(target.delta)):
            for epsilon in self._smaller_epsilons(target.epsilon):
                less = DivergenceTarget(epsilon, target.delta)
                other = self.inside.enclose(less)
                if other is not None:
                    upper = upper.min((other.upper + (1 + less.exp_epsilon) * distance).upper())
        return Enclosure(found.lower, upper)

    def _smaller_epsilons(self, epsilon: Fraction) -> list[Fraction]:
        enough = self.inside.largest_epsilon
        return [
            *([enough] if enough is not None and enough < epsilon else []),
            *(part * epsilon for part in SMALLER_EPSILONS),
        ]


@dataclass(frozen=True)
class SplitAndMixNoise(ApproximateNoise):
    """Sums whose numbers are split into shares and mixed."""

    inside: Noise
    mixing: Colourings
    sums: int

    kind = "mixed"

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        owners, places, base = (_read_positive_integer(facts, name) for name in ("owners", "places", "base"))
        return cls(read_noise(facts["noise"]), Colourings(owners, places, base), _read_positive_integer(facts, "sums"))

    @property
    def method(self) -> str:
        return f"{self.inside.method}; colourings that mixing keeps, counted exactly and bounded for many owners"

    def distance(self) -> arb | None:
        found = self.mixing.distance()
        return None if found is None else found * self.sums


@dataclass(frozen=True)
class PaddedNoise(ApproximateNoise):
    """Noise that must fit into fixed places; η is the probability that some user's noise does not fit.

    A user's noise has ``single`` + 2·``pairs`` messages, negative binomials of these shapes with ratios e^−rate and
    ratio.
    """

    inside: Noise
    users: int
    places: int
    rate: Fraction
    ratio: Fraction
    single: Fraction
    pairs: Fraction

    kind = "padded"

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        rate, ratio = _read_positive(facts, "rate"), _read_positive(facts, "ratio", below=True)
        shapes = (_read_positive(facts, name) for name in ("single", "pairs"))
        return cls(
            read_noise(facts["noise"]),
            _read_positive_integer(facts, "users"),
            _read_positive_integer(facts, "places"),
            rate,
            ratio,
            *shapes,
        )

    @property
    def method(self) -> str:
        return f"{self.inside.method}; the law of one user's messages, a product of power series"

    def distance(self) -> arb | None:
        alone = negative_binomial(arb(rational(self.single)), (-arb(rational(self.rate))).exp(), self.places)
        twice = [arb(0)] * self.places
        for count, chance in enumerate(
            negative_binomial(arb(rational(self.pairs)), arb(rational(self.ratio)), self.places)
        ):
            if 2 * count < self.places:
                twice[2 * count] = chance
        product = arb_poly(alone) * arb_poly(twice)
        fits = sum_balls(product[count] for count in range(self.places))
        return (self.users * (1 - fits)).upper().max(arb(0))


NOISE_CLASSES: tuple[type[Noise], ...] = (
    CancellingNoise,
    PoissonDummies,
    LaplaceNoise,
    PolyaNoise,
    BoundedNoise,
    SkellamNoise,
    SplitAndMixNoise,
    PaddedNoise,
)
"""All kinds of noise that have a proof here."""


def read_noise(facts: Facts) -> Noise:
    """Returns the noise described by facts.

    Args:
        facts: ``kind`` and its numbers.

    Returns:
        The noise.

    Raises:
        KeyError: If the kind is unknown, or a number is missing.
    """
    kind = {one.kind: one for one in NOISE_CLASSES}[facts["kind"]]
    return kind.from_facts(facts)


def compose_noises(parts: Sequence[tuple[Noise, int]], target: DivergenceTarget) -> Enclosure | None:
    """Encloses the divergence of independent noises together, on a grid of losses.

    Args:
        parts: Each noise, and the number of parts that have it.
        target: The claimed (ε, δ).

    Returns:
        Both sides; None if the losses of one are not known, or there are too many.
    """
    copies = sum(times for _, times in parts)
    cells: list[tuple[LossTable, int]] = []
    for noise, times in parts:
        found = noise.losses(target.omitted_probability / copies)
        if found is None:
            return None
        cells += [(one, times) for one in found]
    scale = min(noise.scale for noise, _ in parts)
    best: Enclosure | None = None
    for steps in GRID_STEPS:
        found_sides = compose_losses(
            cells, max(scale / steps, FINEST_STEP), target.exp_epsilon, target.omitted_probability / copies
        )
        if found_sides is None:
            break
        best = found_sides
        bound = arb(rational(target.delta))
        if best.upper <= bound or best.lower > bound:
            break
    return best


def decide_noise(parts: Sequence[tuple[Noise, int]], epsilon: Fraction, delta: Fraction) -> Finding:
    """Decides whether independent noises together are (ε, δ)-private.

    Args:
        parts: Each noise, and the number of parts of a changed value that have it.
        epsilon: The claimed ε.
        delta: The claimed δ.

    Returns:
        Yes, no, or cannot decide.
    """
    target = DivergenceTarget(epsilon, delta)
    alone = parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else None
    method = parts[0][0].method if alone is not None else f"{parts[0][0].method}; losses on a grid in whole numbers"
    with precision(target.bits):
        bound = arb(rational(delta))
        sides = compose_noises(parts, target) if alone is None else alone.enclose(target)
        if sides is None:
            return Finding(Verdict.OPEN, "the law of the noise is too long, or of a kind that is not composed.", method)
        if sides.upper <= bound:
            return Finding(Verdict.YES, "the divergence is at most δ.", method)
        if sides.lower > bound:
            least = float(sides.lower)
            reason = f"the noise's divergence is above δ: at least {least:.7g} against {float(bound):.7g}."
            return Finding(Verdict.NO, reason, method)
    return Finding(Verdict.OPEN, "δ is too near to what is proved.", method)
