"""The worst dataset for Gaussian noise in a ball: a finite law for each kind of other user, and few kinds for all.

The proof is in docs/crowds.md, "Gaussian noise in a ball".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import arb

from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import precision, round_down, round_up, to_rational
from shuffledp.numerics.distributions import FiniteLaw
from shuffledp.numerics.roots import find_crossing
from shuffledp.numerics.worst_case_positive_part import MessageProbabilities
from shuffledp.privacy.dominating_pairs import (
    ExactClass,
    ExactClasses,
    HidingPair,
    ListedOtherUsers,
    OtherUsers,
    exact_pair,
)

PRECISION_BITS = 256
"""Precision: probabilities of e^-110 are differences of numbers near 1."""
MAX_CELLS = 300
"""Largest number of cells that are examined for one level."""
TRIED_CELL_WIDTHS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
"""Values of e that are tried, in widths of a cell."""
EXCESS_LEVELS, MIN_SCALED_LEVEL = (0.01, 0.02, 0.04, 0.06, 0.09, 0.13), 0.22
"""Relative excesses of the few kinds' E G² over the worst triple's; the first sufficient one is used.

Only those above ``MIN_SCALED_LEVEL``/σ² are tried, or the last one.
"""
KIND_COUNT = 3
"""Number of the few kinds."""
MIN_SHARP_SIGMA = 1.5
"""With less noise only the widest kind is used: one message may outweigh all others."""
KIND_TOLERANCE, WIDEST_KIND_TOLERANCE, CELL_TOLERANCE = 0.003, 0.04, 0.004
"""Largest relative increase of E G² by nodes: of the few kinds, of the widest one, of a cell."""
MIN_NODES, MAX_NODES = 16, 64
MIN_FACTORS, MAX_FACTORS = 3, 20
NODE_SPREAD = 5.5
"""N nodes add this over N² to a variance of 1."""
TAIL_NODE_DENSITY, EVEN_TAIL_NODE_DENSITY, EVEN_NODES = 0.03, 0.5, 96
"""Density of nodes in the tails, relative to the largest one, uneven and even; and the number of even nodes."""
DENSITY_POINTS = 4001
ROUNDING_ERROR = 2.0**-48
MIN_COMPONENT = 1e-9
SUM_ERROR = 2.0**-38
"""Relative error of a sum: larger than that of sums of ten thousand floats."""
TAIL_MULTIPLE, MIN_DOMINATION_SLACK = 4, 2.0**-45
MAX_CHECKED_EPSILON = 20.0
INITIAL_POINTS, MAX_REFINEMENTS, MAX_CACHED_WEIGHTS = 48, 12, 8


class KindParameters(NamedTuple):
    """α, λ and η of a kind."""

    first: float
    second: float
    away: float

    @property
    def mean_square_gain(self) -> float:
        """E G² at ε = 0, in floats."""
        one, two, both = self.first**2, self.second**2, -self.first * self.second
        return math.exp(self.away**2) * (math.expm1(one) + math.expm1(two) - 2 * math.expm1(both))

    def swapped(self) -> KindParameters:
        return KindParameters(self.second, self.first, self.away)


class AngleCell(NamedTuple):
    """Ranges of β_0 and β_1, in parts of π."""

    low: Fraction
    high: Fraction
    other_low: Fraction
    other_high: Fraction

    def split(self) -> tuple[AngleCell, AngleCell]:
        """Returns the two halves, cut along the longer side."""
        with precision(96):
            return self._split()

    def _split(self) -> tuple[AngleCell, AngleCell]:
        low, other_low = self.low, self.other_low
        high, other_high = min(self.high, 1 - other_low), min(self.other_high, 1 - low)
        _, _, _, reach, other = self.sides()
        if float(reach.mid()) > float(other.mid()):
            middle = (low + high) / 2
            return AngleCell(low, middle, other_low, other_high), AngleCell(middle, high, other_low, other_high)
        middle = (other_low + other_high) / 2
        return AngleCell(low, high, other_low, middle), AngleCell(low, high, middle, other_high)

    @property
    def is_needed(self) -> bool:
        """True if it contains a triple with β_0 ≤ β_1."""
        return self.low + self.other_low < 1 and self.low < self.other_high

    def sides(self) -> tuple[arb, arb, arb, arb, arb]:
        """Returns A', B', C', and how far A and B reach below."""
        first, second = _squared_distance(self.low), _squared_distance(self.other_low)
        pair = _squared_distance(max(1 - self.high - self.other_high, Fraction(0)))
        high, other_high = min(self.high, 1 - self.other_low), min(self.other_high, 1 - self.low)
        return first, second, pair, first - _squared_distance(high), second - _squared_distance(other_high)


FULL_CELL = AngleCell(Fraction(0), Fraction(1, 2), Fraction(0), Fraction(1))


def _squared_distance(part: Fraction) -> arb:
    """Returns 2 + 2cos(π·part)."""
    return 2 + 2 * arb.cos_pi_fmpq(to_rational(part))


@dataclass(frozen=True)
class BallWorstDataset:
    """Kinds that stand for all triples of points, for noise of standard deviation ``sigma``."""

    sigma: float

    @cached_property
    def worst_mean_square(self) -> float:
        """The largest E G² of a triple, in floats."""
        beta = np.linspace(0, math.pi, 129)
        first, pair = np.meshgrid(beta, beta)
        a, c, b = 2 + 2 * np.cos(first), 2 + 2 * np.cos(pair), 2 - 2 * np.cos(np.minimum(first + pair, math.pi))
        s = self.sigma**-2
        squares = np.expm1(s * a) + np.expm1(s * b) - 2 * np.expm1(s * (a + b - c) / 2)
        return float(squares[first + pair <= math.pi + 1e-9].max())

    @cached_property
    def widest_kind(self) -> KindParameters:
        """The kind that stands for all triples alone, with the best of some e."""
        s = self.sigma**-2

        def square(more: float) -> float:
            return math.exp(s * (4 + more)) - math.exp(s * math.sqrt(more * (4 + more)))

        with precision(96):
            e = arb(min((k / 16 for k in range(129)), key=square))
            corner, beside = 4 + e, (e * e + 4 * e).sqrt()
            scale = 1 / arb(to_rational(self.sigma))
            half, away = (((corner + sign * beside) / 2).sqrt() * scale for sign in (-1, 1))
            return KindParameters(round_up(half), round_up(half), round_up(away))

    def arc_kinds(self, level: float) -> list[KindParameters]:
        """Returns a few kinds with A + B = T, g = 0, T so large that E G² exceeds the worst triple's by this level."""
        s, target = self.sigma**-2, self.worst_mean_square * (1 + level)
        kinds = []
        for k in range(KIND_COUNT):
            share = k / (KIND_COUNT - 1)

            def excess(total: float, share: float = share) -> float:
                return math.expm1(share * total * s) + math.expm1((1 - share) * total * s) - target

            total = s * find_crossing(excess, 0.0, 40.0, relative=0.0, absolute=1e-9).middle
            root, away = math.sqrt(total), math.sqrt(total * share * (1 - share))
            kinds.append(KindParameters(max(MIN_COMPONENT, share * root), max(MIN_COMPONENT, (1 - share) * root), away))
        return kinds

    def cell_kind(self, cell: AngleCell) -> KindParameters:
        """Returns the kind that stands for a cell, with the best e."""
        with precision(96):
            sides = cell.sides()
            width = float(max(float(sides[3].mid()), float(sides[4].mid()), 0.0))
            return min(
                (_build_kind(*sides, common * width, self.sigma) for common in TRIED_CELL_WIDTHS),
                key=lambda one: one.mean_square_gain,
            )


def _build_kind(
    first: arb, second: arb, pair: arb, reach: arb, other: arb, common: float, sigma: float
) -> KindParameters:
    """Returns α, λ and η, rounded up, of A' + e, B' + e and C''."""
    more = arb(to_rational(common))
    farther = ((arb.max(reach, other).max(arb(0)) + more).sqrt() - more.sqrt()) ** 2
    a, b, c = (first + more).upper(), (second + more).upper(), (pair + farther + 1e-12).upper()
    root = c.sqrt()
    one, two = (a + c - b) / (2 * root), (b + c - a) / (2 * root)
    away = arb.max(a - one**2, arb(0)).sqrt()
    scale = 1 / arb(to_rational(sigma))
    return KindParameters(*(max(MIN_COMPONENT, round_up(each * scale)) for each in (one, two, away)))


def normal_tail(x: arb) -> arb:
    """Returns P(N > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def _place_nodes(low: float, high: float, importance: Floats, count: int, floor: float) -> list[float]:
    """Returns ``count`` + 1 places from low to high, densest where a wide gap would cost most."""
    places = np.linspace(low, high, DENSITY_POINTS)
    density = importance ** (1 / 3)
    density = density / density.max() + floor
    rise = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    nodes = np.interp(np.linspace(0, rise[-1], count + 1), rise, places)
    nodes[0], nodes[-1] = low, high
    return [float(node) for node in nodes]


Atom = tuple[arb, arb, arb]
"""A probability, and its products with X and with Y."""


def line_atoms(first: float, second: float, reach: float, count: int, floor: float = TAIL_NODE_DENSITY) -> list[Atom]:
    """Returns a law that dominates that of (e^(αu−α²/2), e^(−λu−λ²/2)), without P and Q beyond ``reach``."""
    low, high = -second - reach, first + reach
    u = np.linspace(low, high, DENSITY_POINTS)
    importance = np.zeros(DENSITY_POINTS)
    for weight, middle in (
        (first**2 * math.exp(first**2), 2 * first),
        (second**2 * math.exp(second**2), -2 * second),
        (2 * first * second * math.exp(-first * second), first - second),
    ):
        importance += weight * np.exp(-((u - middle) ** 2) / 2)
    nodes = [arb(to_rational(place)) for place in _place_nodes(low, high, importance, count, floor)]
    a, b = arb(to_rational(first)), arb(to_rational(second))
    x, y = [(a * u - a * a / 2).exp() for u in nodes], [(-b * u - b * b / 2).exp() for u in nodes]
    tails = [(normal_tail(u), normal_tail(u - a), normal_tail(u + b)) for u in nodes]
    ends = [arb(0)] * len(nodes)
    crossings = []
    for j in range(count):
        mass, one, two = (start - end for start, end in zip(tails[j], tails[j + 1], strict=True))
        right = (b * one / x[j] + a * two / y[j] - (a + b) * mass) / (b * x[j + 1] / x[j] + a * y[j + 1] / y[j] - a - b)
        left = (b * one / x[j + 1] + a * two / y[j + 1] - (a + b) * mass) / (
            b * x[j] / x[j + 1] + a * y[j] / y[j + 1] - a - b
        )
        ends[j] += left
        ends[j + 1] += right
        turn = a * b * (1 / (x[j] * y[j + 1]) - 1 / (x[j + 1] * y[j]))
        place = (a + b) * a * (1 / y[j + 1] - 1 / y[j]) / turn, (a + b) * b * (1 / x[j] - 1 / x[j + 1]) / turn
        crossings.append([mass - left - right, *place])
    for j in range(1, count):
        share = ends[j] * (x[j] - crossings[j - 1][1]) / (crossings[j][1] - crossings[j - 1][1])
        crossings[j][0] += share
        crossings[j - 1][0] += ends[j] - share
    outer = [[ends[0], x[0], y[0]], *crossings, [ends[-1], x[-1], y[-1]]]
    atoms: list[Atom] = [(chance, chance * one, chance * two) for chance, one, two in outer]
    below_all, above_all = 1 - tails[0][1], tails[-1][2]
    return [*atoms, (below_all / x[0], below_all, arb(0)), (above_all / y[-1], arb(0), above_all)]


def factor_atoms(away: float, reach: float, count: int, floor: float = TAIL_NODE_DENSITY) -> list[tuple[arb, arb]]:
    """Returns a law that dominates that of W, without P beyond ``reach``, as probabilities and these times W."""
    low, high = away - reach, away + reach
    importance = np.exp(-((np.linspace(low, high, DENSITY_POINTS) - 2 * away) ** 2) / 2)
    nodes = [arb(to_rational(place)) for place in _place_nodes(low, high, importance, count, floor)]
    h = arb(to_rational(away))
    values = [(h * v - h * h / 2).exp() for v in nodes]
    tails = [(normal_tail(v), normal_tail(v - h)) for v in nodes]
    chances = [arb(0)] * len(nodes)
    chances[0] = (1 - tails[0][1]) / values[0]
    for j in range(count):
        mass, mean = (start - end for start, end in zip(tails[j], tails[j + 1], strict=True))
        up = (mean - values[j] * mass) / (values[j + 1] - values[j])
        chances[j] += mass - up
        chances[j + 1] += up
    return [(chance, chance * value) for chance, value in zip(chances, values, strict=True)]


@dataclass(frozen=True)
class KindLaw:
    """One kind as classes of messages: ``first`` from above, ``second`` and the hiding law from below."""

    parameters: KindParameters
    reach: float
    error: float
    tolerance: float
    """Largest relative increase of E G² by nodes."""
    has_even_nodes: bool = False
    """True if nodes are dense in the tails, too."""

    @cached_property
    def float_rows(self) -> Floats:
        """Rows of (first, second, hiding)."""
        nodes = min(MAX_NODES, max(MIN_NODES, math.ceil(math.sqrt(2 * NODE_SPREAD / self.tolerance))))
        fewest = MIN_FACTORS
        if self.has_even_nodes:
            away = self.parameters.away / math.hypot(
                self.parameters.first, self.parameters.second, self.parameters.away
            )
            nodes, fewest = EVEN_NODES, max(fewest, math.ceil(EVEN_NODES * away))
        floor = EVEN_TAIL_NODE_DENSITY if self.has_even_nodes else TAIL_NODE_DENSITY
        with precision(PRECISION_BITS):
            line = line_atoms(self.parameters.first, self.parameters.second, self.reach, nodes, floor)
            factors = _find_factor_atoms(self.parameters.away, self.reach, self.tolerance / 2, fewest, floor)
            assert all(each[0] >= 0 for each in (*line, *factors)), "every probability is certainly not negative"
            more = arb(to_rational(self.error)).exp()
            sides = np.array([(round_up(x * more), round_down(y / more), round_down(c / more)) for c, x, y in line])
            scales = np.array([(round_up(m), round_down(m), round_down(c)) for c, m in factors])
        margins = np.array([1 + ROUNDING_ERROR, 1 - ROUNDING_ERROR, 1 - ROUNDING_ERROR])
        rows = (sides[:, None, :] * scales).reshape(-1, 3) * margins
        return _drop_largest(rows, tail_below(self.reach))

    @cached_property
    def missing_masses(self) -> tuple[float, float, float]:
        """1 minus each of the three sums."""
        one, two, three = (math.fsum([1.0, *(-column)]) for column in self.float_rows.T)
        return one, two, max(0.0, three)

    @cached_property
    def classes(self) -> ExactClasses:
        pair = exact_pair([_to_exact_class(each) for each in self.float_rows.tolist()], symmetric=False)
        assert isinstance(pair.classes, ExactClasses)
        return pair.classes

    @cached_property
    def mirror(self) -> KindLaw:
        return replace(self, parameters=self.parameters.swapped())

    @cached_property
    def pair(self) -> HidingPair:
        return HidingPair(self.classes, False, reverse_classes=self.mirror.classes)


def tail_below(reach: float) -> float:
    """Returns τ, rounded down."""
    with precision(PRECISION_BITS):
        return round_down(normal_tail(arb(to_rational(reach))))


def domination_slack(reach: float) -> float:
    """Returns η, the amount by which a cell may be above the few kinds."""
    return TAIL_MULTIPLE * tail_below(reach) + MIN_DOMINATION_SLACK


def _drop_largest(classes: Floats, most: float) -> Floats:
    """Removes X where it is largest, up to a probability of ``most`` under P."""
    rows = classes[np.argsort(-classes[:, 0] / classes[:, 2], kind="stable")]
    rest = most * (1 - ROUNDING_ERROR)
    for row in rows:
        if row[0] > rest:
            break
        rest = (rest - float(row[0])) * (1 - ROUNDING_ERROR)
        row[0] = 0.0
    return rows


def _to_exact_class(each: list[float]) -> ExactClass:
    first, second, hiding = map(to_rational, each)
    return first, second, hiding


def _find_factor_atoms(away: float, reach: float, room: float, fewest: int, floor: float) -> list[tuple[arb, arb]]:
    """Returns the fewest nodes of W that increase E W² by at most a share ``room``, or ``MAX_FACTORS`` of them."""
    if away <= 0:
        return [(arb(1), arb(1))]
    count, exact = fewest, math.exp(away**2)
    while True:
        atoms = factor_atoms(away, reach, count, floor)
        if count >= MAX_FACTORS or sum(float(mean * mean / chance) for chance, mean in atoms) <= exact * (1 + room):
            return atoms
        count += 1


class GainDistribution(NamedTuple):
    """The law of G at one ε in floats, in ascending order of the values.

    ``parts`` are the values times their probabilities ``chances``, ``sizes`` the sums of the absolute values of the
    summands of each part; ``mean`` is E G − (1 − e^ε).
    """

    values: Floats
    parts: Floats
    chances: Floats
    sizes: Floats
    mean: float

    def upper_excess(self, places: Floats) -> tuple[Floats, Floats]:
        """Returns E(G − c)_+, minus 1 − e^ε − c where c < 0, and a bound of its error.

        Sums run over the side beyond c, so that small probabilities are as accurate as large ones.
        """
        start = np.searchsorted(self.values, places)
        parts, chances, sizes = (np.concatenate([[0.0], np.cumsum(each)]) for each in self[1:4])
        low = places * chances[start] - parts[start] + self.mean
        low_off = np.abs(places) * chances[start] + sizes[start] + abs(self.mean)
        parts, chances, sizes = (np.append(np.cumsum(each[::-1])[::-1], 0.0) for each in self[1:4])
        high = parts[start] - places * chances[start]
        high_off = places * chances[start] + sizes[start]
        below = places < 0
        return np.where(below, low, high), SUM_ERROR * np.where(below, low_off, high_off)


def compute_gain_distribution(law: KindLaw, epsilon: float) -> GainDistribution:
    """Returns the law of G, with the revealed part at 0 as in ``exact_pair``."""
    first, second, hiding = law.float_rows.T
    lacking_first, lacking_second, rest = law.missing_masses
    more = math.expm1(epsilon)
    parts, sizes = np.append((first - second) - more * second, 0.0), np.append(first + (1 + more) * second, 0.0)
    chances = np.append(hiding, rest)
    values = np.divide(parts, chances, out=np.zeros_like(parts), where=chances > 0)
    order = np.argsort(values, kind="stable")
    mean = (1 + more) * lacking_second - lacking_first
    return GainDistribution(values[order], parts[order], chances[order], sizes[order], mean)


class MixtureDomination:
    """Test whether mixtures of some kinds dominate laws of G."""

    def __init__(self, kinds: list[GainDistribution], room: float) -> None:
        self.room = room
        self.places = np.unique(np.concatenate([kind.values for kind in kinds]))
        excesses = [kind.upper_excess(self.places) for kind in kinds]
        self.kinds, self.off = np.array([each for each, _ in excesses]), np.max([off for _, off in excesses], axis=0)
        self.tried: list[Floats] = [np.full(len(kinds), 1 / len(kinds))]

    def is_dominated(self, law: GainDistribution) -> bool:
        """Returns True if E(G − c)_+ is certainly at most that of a mixture, plus ``room``, at every c."""
        excess, off = law.upper_excess(self.places)
        needed = excess + off + self.off - self.room
        for weights in self.tried:
            if (weights @ self.kinds >= needed).all():
                return True
        known = np.linspace(0, len(needed) - 1, INITIAL_POINTS).astype(int)
        for _ in range(MAX_REFINEMENTS):
            best = self._plan_weights(needed, excess, known)
            if best is None:
                return False
            room = best @ self.kinds - needed
            if (room >= 0).all():
                self.tried = [best, *self.tried[: MAX_CACHED_WEIGHTS - 1]]
                return True
            known = np.append(known, np.argmin(room / (np.abs(excess) + self.room)))
        return False

    def _plan_weights(self, needed: Floats, excess: Floats, known: Floats) -> Floats | None:
        """Returns weights with the largest relative margin at some places; None if there is none. Any would be sound.

        Their sum is slightly below 1: the remainder, on any of the kinds, exceeds the rounding of the sum.
        """
        # Imported here, because most callers do not need it.
        from scipy.optimize import linprog

        scale = np.abs(excess[known]) + self.room
        count = len(self.kinds)
        rows = np.column_stack([-self.kinds[:, known].T / scale[:, None], np.ones(len(known))])
        bounds = [*[(0.0, 1.0)] * count, (None, None)]
        total = np.append(np.ones(count), 0.0)[None, :]
        aim = np.append(np.zeros(count), -1.0)
        solved = linprog(aim, rows, -needed[known] / scale, total, [1.0], bounds)
        if solved.x is None or solved.x[-1] < 0:
            return None
        weights = np.maximum(solved.x[:-1], 0.0)
        return np.asarray(weights * ((1 - SUM_ERROR) / weights.sum()))


@dataclass(frozen=True)
class BallOtherUsers(OtherUsers):
    """Every two points of the ball and every dataset of them, without the noise beyond ``reach``."""

    sigma: float
    reach: float
    error: float
    quick: bool
    """True if only the widest kind is used."""

    @cached_property
    def _worst_dataset(self) -> BallWorstDataset:
        return BallWorstDataset(self.sigma)

    def _build_kind_law(self, kind: KindParameters, tolerance: float, *, has_even_nodes: bool = False) -> KindLaw:
        return KindLaw(kind, self.reach, self.error, tolerance, has_even_nodes)

    @cached_property
    def widest_law(self) -> KindLaw:
        return self._build_kind_law(self._worst_dataset.widest_kind, WIDEST_KIND_TOLERANCE)

    def few_kinds(self, level: float) -> list[KindLaw]:
        if level not in self._kinds_by_level:
            kinds = self._worst_dataset.arc_kinds(level)
            self._kinds_by_level[level] = [self._build_kind_law(kind, KIND_TOLERANCE) for kind in kinds]
        return self._kinds_by_level[level]

    @cached_property
    def _kinds_by_level(self) -> dict[float, list[KindLaw]]:
        return {}

    @cached_property
    def _laws_by_cell(self) -> dict[AngleCell, KindLaw]:
        return {}

    @cached_property
    def _split_cells(self) -> set[tuple[float, AngleCell]]:
        """Pairs of a level and a cell that is too wide for it."""
        return set()

    @cached_property
    def _open_levels(self) -> list[float]:
        """Levels that have sufficed so far, or are not yet tried."""
        return [level for level in EXCESS_LEVELS if level * self.sigma**2 > MIN_SCALED_LEVEL] or [EXCESS_LEVELS[-1]]

    @cached_property
    def _level_by_epsilon(self) -> dict[float, float | None]:
        return {}

    def find_level(self, epsilon: float) -> float | None:
        """Returns the first level at which mixtures of the few kinds dominate all cells; None if there is none."""
        if self.quick or epsilon > MAX_CHECKED_EPSILON:
            return None
        if epsilon not in self._level_by_epsilon:
            while self._open_levels and not self._suffices(self._open_levels[0], epsilon):
                del self._open_levels[0]
            self._level_by_epsilon[epsilon] = self._open_levels[0] if self._open_levels else None
        return self._level_by_epsilon[epsilon]

    def _suffices(self, level: float, epsilon: float) -> bool:
        """Returns True if mixtures of the few kinds dominate all cells, halved as needed."""
        kinds = [compute_gain_distribution(kind, epsilon) for kind in self.few_kinds(level)]
        most, examined = self._worst_dataset.worst_mean_square * (1 + level), 0
        domination = MixtureDomination(kinds, domination_slack(self.reach))
        waiting = [FULL_CELL]
        while waiting:
            cell = waiting.pop()
            if (level, cell) not in self._split_cells:
                examined += 1
                if examined > MAX_CELLS:
                    return False
                if cell not in self._laws_by_cell:
                    kind = self._worst_dataset.cell_kind(cell)
                    self._laws_by_cell[cell] = self._build_kind_law(kind, CELL_TOLERANCE, has_even_nodes=True)
                law = self._laws_by_cell[cell]
                if law.parameters.mean_square_gain <= most and all(
                    domination.is_dominated(compute_gain_distribution(each, epsilon)) for each in (law, law.mirror)
                ):
                    continue
                self._split_cells.add((level, cell))
            waiting += [half for half in cell.split() if half.is_needed]
        return True

    def laws(self, epsilon: float) -> list[FiniteLaw]:
        level = self.find_level(epsilon)
        kinds = [self.widest_law] if level is None else self.few_kinds(level)
        return [kind.pair.law(epsilon) for kind in kinds]

    def approximate_laws(self, epsilon: float) -> list[FiniteLaw]:
        return [kind.pair.law(epsilon) for kind in self._likely_kinds]

    @property
    def _likely_kinds(self) -> list[KindLaw]:
        """The kinds that are likely to suffice."""
        return [self.widest_law] if self.quick or not self._open_levels else self.few_kinds(self._open_levels[0])

    @cached_property
    def user_pairs(self) -> tuple[HidingPair, ...]:
        """The pairs that are likely to suffice."""
        return tuple(kind.pair for kind in self._likely_kinds)

    def user_pair(self, place: int) -> HidingPair:
        return self.user_pairs[place]

    def swapped(self) -> OtherUsers:
        return self

    @cached_property
    def probabilities(self) -> MessageProbabilities:
        return ListedOtherUsers(self.gamma, True, self.user_pairs).probabilities

    @cached_property
    def signature(self) -> frozenset[object]:
        return frozenset([self])

    def largest_log_ratio(self) -> float:
        return math.inf


def build_ball_other_users(sigma: float, reach: float, error: float, *, quick: bool) -> BallOtherUsers:
    """Returns every two points of the ball and every dataset of them, with the certified common part."""
    with precision(PRECISION_BITS):
        b, r, loss = 1 / arb(to_rational(sigma)), arb(to_rational(reach)), arb(to_rational(error))
        gamma = round_down((-(b * b / 2 + r * b) - loss).exp() * (1 - 4 * normal_tail(r)))
    return BallOtherUsers(gamma, True, sigma, reach, error, quick or sigma < MIN_SHARP_SIGMA)
