"""One message more in one of two independent counts of one law, against one more in the other: a divergence, both ways.

A second proof of what Poisson dummies and cancelling noise tell; nothing of ``shuffledp.numerics`` but ``precision``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from flint import arb

from shuffledp.certificate.line import Sides

MOST_CELLS = 2_000_000
"""Cells of a table whose sign balls leave open, of which so many are looked at one by one."""


@dataclass(frozen=True)
class Counts:
    """The law of a count: P(first), P(first + 1), …, all of them positive, and at most the chance of any other."""

    first: int
    masses: Sequence[arb]
    outside: arb

    @property
    def growths(self) -> list[arb]:
        """P(x+1)/P(x), for all but the last x."""
        return [after / before for before, after in zip(self.masses, self.masses[1:], strict=False)]


def moved(counts: Counts, ratio: arb) -> Sides | None:
    """Σ_{x,y} (P(x)·P(y) − ratio·P(x+1)·P(y−1))₊ over two independent counts; None where too much is left open.

    Theorem: with g(x) = P(x+1)/P(x) a cell counts where ratio·g(x) < g(y−1). Sorted by g, largest first, those y are
    an initial part that grows from one x to the next; sums of P(y) and P(y−1) over it are known beforehand. What is
    outside of the table, and the cells at its edge whose neighbours are, count wholly above and not at all below.
    """
    growths = counts.growths
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
        if open_cells > MOST_CELLS:
            return None
        for place in order[start:maybe]:
            cell = counts.masses[x] * (counts.masses[place + 1] - threshold * counts.masses[place])
            upper += cell.max(arb(0))
    edges = counts.masses[0] + counts.masses[-1] + 2 * counts.outside
    if counts.first == 0:
        # Nothing is below 0: what stands there is told for certain.
        lower += counts.masses[0] * (held[-1] + counts.masses[0])
    return Sides(lower.lower(), (upper + edges).upper())


def positive_sum(chances: Sequence[arb], others: Sequence[arb]) -> tuple[arb, arb]:
    """Σ (p − q)₊ over the cells of two laws, from below and from above."""
    cells = [p - q for p, q in zip(chances, others, strict=True)]
    below = sum((cell for cell in cells if cell > 0), arb(0))
    return below.lower(), sum((cell.max(arb(0)) for cell in cells), arb(0)).upper()


# --- laws ---------------------------------------------------------------------------------------------------------


def poisson_counts(mean: arb, left_out: arb) -> Counts:
    """Poisson numbers, all but about ``left_out`` of them."""
    centre = int(float(mean.mid()))
    peak = (centre * mean.log() - mean - arb(centre + 1).lgamma()).exp()
    upwards: list[arb] = [peak]
    downwards: list[arb] = []
    # Each further chance is at most that share of the one before, so that all further ones are a geometric series.
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
    return Counts(centre - len(downwards), [*reversed(downwards), *upwards], (above + below).upper())


def negative_binomial(shape: arb, ratio: arb, size: int) -> list[arb]:
    """P(0), …, P(size − 1) of this shape and ratio."""
    chances = [(shape * (1 - ratio).log()).exp()]
    for i in range(size - 1):
        chances.append(chances[-1] * ratio * (shape + i) / (i + 1))
    return chances


def negative_binomial_size(shape: float, ratio: float, left_out: float) -> int:
    """About how many counts hold all but ``left_out`` of the law: by Chernoff, at the tilt that is best for it."""
    size, mean = 16, shape * ratio / (1 - ratio)
    while True:
        if size > mean:
            # P(X ≥ size) ≤ ((1 − s)/(1 − s·z))^shape·z^−size, least where s·z = size/(size + shape).
            tilt = size / (size + shape)
            bound = shape * math.log((1 - ratio) / (1 - tilt)) - size * math.log(tilt / ratio)
            if bound < math.log(left_out):
                return size
        size += size // 8
