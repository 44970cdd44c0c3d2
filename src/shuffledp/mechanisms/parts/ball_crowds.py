"""Gaussian noise on points of the unit ball: every pair and every other user, from triples of points on a circle.

P, Q and R are N(x_0, σ²), N(x_1, σ²) and N(x, σ²) in any dimension; G = X − kY with X = P/R, Y = Q/R at a message of
R, k = e^ε. (log X, log Y) is normal, its covariance K the Gram matrix of (x_0−x, x_1−x)/σ²: A and B on the diagonal,
g beside it; its means are −A/2 and −B/2. In units of 1/σ², A, B and C = A + B − 2g are the squared sides of the
triangle.

Two moves spread G in convex order, whatever k is. (i) Adding a positive semidefinite matrix to K multiplies X and Y
by independent factors of mean 1. (ii) Lowering g, where K stays semidefinite: Φ(e^u − ke^v) has the mixed derivative
−ke^(u+v)·Φ'' ≤ 0, and the derivative of its mean by g is the mean of that (Plackett).

Points on a circle. The disc of the three has a radius of at most 1; if less, scaling them up is (i). If the triangle
has an angle of 90° or more, its longest side is the diameter of the smallest disc around it: scale that to 2. Where
this side is x_0 x_1, moving x away from it until it is on the circle adds t² to A, B and g, which is (i); where it is
x x_0, moving x_1 so adds to B only; likewise the other. So three points on a unit circle stand for all, with no angle
above 90°: the arcs are π − β_i, β_i ≥ 0, β_0 + β_1 + β_2 = π, and A = 2 + 2cos β_0, B = 2 + 2cos β_1, C = 2 + 2cos
β_2.

Few triples. Let A = A' − x, B = B' − y, C ≤ C', 0 ≤ x ≤ X, 0 ≤ y ≤ Y on a cell, and e ≥ 0. Adding the rank-one matrix
with x + e, y + e on the diagonal and √((x+e)(y+e)) beside it, (i), gives a triple with A' + e, B' + e and a third
square of at most C' + (√(x+e) − √(y+e))²; by (ii) it may be told as the largest of these,

    C'' = C' + max(√(X+e) − √e, √(Y+e) − √e)².

With e = 0 a cell costs as much as it is wide, with more e the square of that, and a common factor of log-variance
e/σ².

One kind. K = η²·11ᵀ + (α, −λ)(α, −λ)ᵀ, where the foot of x on the line x_0 x_1 is α from x_0 and λ from x_1, and η
away: X = W·e^(αu−α²/2), Y = W·e^(−λu−λ²/2), log W normal with variance η², u standard normal. Raising α, λ or η is
(i) or (ii), so they are floats, rounded up. G is linear in W: between two nodes W may be told as one of them with the
right mean. (X/W, Y/W) is on a convex curve: between two nodes it is in the triangle of both and of the crossing of
the tangents there, and may be told as a corner with the right mean; a node is on the line between the crossings
beside it, and is told as one of them.

Tails. Where Y/W or W is largest, Y is left out: G grows. Where X/W, W or X is largest, X is left out; P has τ at each
of these, τ = P(N > r). If G_i ≤ G'_i + E_i with E E_i ≤ η for each user i, then E(ΣG_i)_+/m ≤ E(ΣG'_i)_+/m + η: 1/m
cancels the m users, and what is left out may depend on the other user. It is 3τ in all, and η (``room``) for the few
kinds.

The widest kind. In units of 1/σ², A, B, C ≤ 4 and g ≥ 0. For e ≥ 0 adding the rank-one matrix with 4 + e − A and 4 + e
− B on the diagonal, (i), makes g + √((4+e−A)(4+e−B)) of g: its square is at least e² + e(8 − A − B) + 2ge = e² + e(8 −
C) ≥ e² + 4e. By (ii) one kind stands for all triples: 4 + e twice, and √(e² + 4e) beside. It costs a quarter of ε or
more, and nothing is searched.

Few kinds for all. Let U_G(c) = E(G − c)_+. If U_G ≤ Σλ_k·U_k + η at every c, with weights λ of sum 1 for each other
user, then E(ΣG)_+/m is at most the same of a crowd of the kinds k, and η: E(S + G)_+ = E U_G(−S), one user after the
other, and 1/m cancels the m users. U_G − Σλ_k·U_k is convex between two neighbouring values of the kinds k, rises up to
the least and falls from the largest: it is largest at one of them. So three kinds that are a little too wide (x_0 and
x_1 opposite, x at right angles: A + B = T, g = 0, from x = x_1 to x = x_0) are held against all cells, at each ε; a
cell that is not below them is halved. How wide they are and which λ are tried is planned in floats, and proves nothing;
where they are not above all cells the widest kind is taken. U is summed in floats from the side where it is small, its
rounding counted.

A common part that does not depend on the dimension. No input is farther than 1 from 0. With w = N(0, σ²), p =
e^(1/2σ²+r/σ) and w_i = min(w, pR_i), of mass 1 − δ_i, δ_i ≤ τ: R_i = w_i/p + rest. As in Theorem 5 of docs/crowds.md,
with γ = 1/p, D(I) ≤ γ(B(I) + τ(e^ε − 1)) + (1 − γ(1 − 2τ))·mean_i D(I∖i).

What is executed. Messages are those of points computed in floats, rounded and noised. But for an event of probability
t the laws are within e^±κ of K·N(x, σ²), K being exact rounding and noise of exact points no farther than L from
their input. So P ≤ e^κ·KP + t, Q ≥ e^−κ·KQ − t, and of R a part e^−κ is counted where its point is no farther than L;
elsewhere P has e^κ·t at the most, which is left out, and leaving out Q costs e^ε·t. In all 3τe^κ + η + t(1 + e^κ +
2e^ε) + (τ + t)(1 + e^ε), over 1 − 2(τ + t).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.numerics.finite_law import FiniteLaw
from shuffledp.numerics.many_crowds import FloatView
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.others import KnownOthers, Others
from shuffledp.privacy.pair import ExactClass, ExactClasses, HidingPair, exact_pair

BITS = 256
"""Chances of e^-110 are differences of numbers near 1."""
MOST_CELLS = 300
COMMON = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
"""What e is tried as, in widths of a cell."""
LEVELS, LIKELY = (0.01, 0.02, 0.04, 0.06, 0.09, 0.13), 0.22
"""By how much the few kinds' E G² is above the worst triple's, relatively: the first that is enough is taken, among
those above ``LIKELY``/σ², or the last."""
KINDS = 3
"""How many kinds these are."""
LEAST_SHARP = 1.5
"""With less noise the widest kind alone is looked at: one message may outweigh a crowd."""
ROOM, WIDEST_ROOM, CELL_ROOM = 0.003, 0.04, 0.004
"""What nodes may add to E G², relatively: of the few kinds, of the widest one, of a cell."""
FEWEST_NODES, MOST_NODES = 16, 64
FEWEST_FACTORS, MOST_FACTORS = 3, 20
SPREAD_OF_NODES = 5.5
"""N nodes add this over N² to a variance of 1."""
FLOOR, EVEN_FLOOR, EVEN_NODES = 0.03, 0.5, 96
"""How near nodes are in the tails, relatively to where they are nearest; and how many there are of even ones."""
FINE = 4001
ROUNDED = 2.0**-48
TINY = 1e-9
FLOATS_ARE_OFF = 2.0**-38
"""Relative to what is summed: more than what sums of ten thousand floats are off by."""
UNITS_OF_TAIL, LEAST_ROOM = 4, 2.0**-45
LARGEST_CHECKED = 20.0
SOME_PLACES, MOST_TRIES, MOST_TRIED = 48, 12, 8


class Triple(NamedTuple):
    """α, λ and η of a kind."""

    first: float
    second: float
    away: float

    @property
    def square(self) -> float:
        """E G² at ε = 0, in floats."""
        one, two, both = self.first**2, self.second**2, -self.first * self.second
        return math.exp(self.away**2) * (math.expm1(one) + math.expm1(two) - 2 * math.expm1(both))

    def mirrored(self) -> Triple:
        return Triple(self.second, self.first, self.away)


class Cell(NamedTuple):
    """β_0 and β_1 from … to …, in parts of π."""

    low: Fraction
    high: Fraction
    other_low: Fraction
    other_high: Fraction

    def halves(self) -> tuple[Cell, Cell]:
        """Cut where it reaches farther."""
        with precision(96):
            return self._halves()

    def _halves(self) -> tuple[Cell, Cell]:
        low, other_low = self.low, self.other_low
        high, other_high = min(self.high, 1 - other_low), min(self.other_high, 1 - low)
        _, _, _, reach, other = self.sides()
        if float(reach.mid()) > float(other.mid()):
            middle = (low + high) / 2
            return Cell(low, middle, other_low, other_high), Cell(middle, high, other_low, other_high)
        middle = (other_low + other_high) / 2
        return Cell(low, high, other_low, middle), Cell(low, high, middle, other_high)

    @property
    def is_needed(self) -> bool:
        """Whether it has a triple with β_0 ≤ β_1."""
        return self.low + self.other_low < 1 and self.low < self.other_high

    def sides(self) -> tuple[arb, arb, arb, arb, arb]:
        """A', B', C', and how far A and B reach below."""
        first, second = _square(self.low), _square(self.other_low)
        pair = _square(max(1 - self.high - self.other_high, Fraction(0)))
        high, other_high = min(self.high, 1 - self.other_low), min(self.other_high, 1 - self.low)
        return first, second, pair, first - _square(high), second - _square(other_high)


WHOLE = Cell(Fraction(0), Fraction(1, 2), Fraction(0), Fraction(1))


def _square(part: Fraction) -> arb:
    """2 + 2cos(π·part)."""
    return 2 + 2 * arb.cos_pi_fmpq(rational(part))


@dataclass(frozen=True)
class BallCrowds:
    """Kinds that stand for all triples of points, where noise has the standard deviation ``sigma``."""

    sigma: float

    @cached_property
    def worst(self) -> float:
        """The largest E G² of a triple, in floats."""
        beta = np.linspace(0, math.pi, 129)
        first, pair = np.meshgrid(beta, beta)
        a, c, b = 2 + 2 * np.cos(first), 2 + 2 * np.cos(pair), 2 - 2 * np.cos(np.minimum(first + pair, math.pi))
        s = self.sigma**-2
        squares = np.expm1(s * a) + np.expm1(s * b) - 2 * np.expm1(s * (a + b - c) / 2)
        return float(squares[first + pair <= math.pi + 1e-9].max())

    @cached_property
    def widest(self) -> Triple:
        """That which stands for all alone, with the best of some e."""
        s = self.sigma**-2

        def square(more: float) -> float:
            return math.exp(s * (4 + more)) - math.exp(s * math.sqrt(more * (4 + more)))

        more = min((k / 16 for k in range(129)), key=square)
        with precision(96):
            e = arb(more)
            corner, beside = 4 + e, (e * e + 4 * e).sqrt()
            scale = 1 / arb(rational(self.sigma))
            half, away = (((corner + sign * beside) / 2).sqrt() * scale for sign in (-1, 1))
            return Triple(round_up(half), round_up(half), round_up(away))

    def arc(self, level: float) -> list[Triple]:
        """A few kinds with A + B = T, g = 0, T so large that E G² is above the worst triple's by this level."""
        s, wanted = self.sigma**-2, self.worst * (1 + level)
        steps = KINDS - 1
        found = []
        for k in range(steps + 1):
            share = k / steps

            def excess(total: float, share: float = share) -> float:
                return math.expm1(share * total * s) + math.expm1((1 - share) * total * s) - wanted

            total = s * find_crossing(excess, 0.0, 40.0, relative=0.0, absolute=1e-9).middle
            root, away = math.sqrt(total), math.sqrt(total * share * (1 - share))
            found.append(Triple(max(TINY, share * root), max(TINY, (1 - share) * root), away))
        return found

    def triple(self, cell: Cell) -> Triple:
        """What a cell is told as, with the best e."""
        with precision(96):
            sides = cell.sides()
            width = float(max(float(sides[3].mid()), float(sides[4].mid()), 0.0))
            return min((_told(*sides, common * width, self.sigma) for common in COMMON), key=lambda one: one.square)


def _told(first: arb, second: arb, pair: arb, reach: arb, other: arb, common: float, sigma: float) -> Triple:
    """α, λ and η, rounded up, of A' + e, B' + e and C''."""
    more = arb(rational(common))
    farther = ((arb.max(reach, other).max(arb(0)) + more).sqrt() - more.sqrt()) ** 2
    a, b, c = (first + more).upper(), (second + more).upper(), (pair + farther + 1e-12).upper()
    root = c.sqrt()
    one, two = (a + c - b) / (2 * root), (b + c - a) / (2 * root)
    away = arb.max(a - one**2, arb(0)).sqrt()
    scale = 1 / arb(rational(sigma))
    return Triple(*(max(TINY, round_up(each * scale)) for each in (one, two, away)))


# --- one kind as a finite law ---------------------------------------------------------------------------------------


def _tail(x: arb) -> arb:
    """P(N > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def _nodes(low: float, high: float, importance: Floats, count: int, floor: float) -> list[float]:
    """``count`` + 1 places from low to high, nearest to each other where a spread costs most."""
    places = np.linspace(low, high, FINE)
    density = importance ** (1 / 3)
    density = density / density.max() + floor
    rise = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    found = np.interp(np.linspace(0, rise[-1], count + 1), rise, places)
    found[0], found[-1] = low, high
    return [float(place) for place in found]


Atom = tuple[arb, arb, arb]
"""A chance, and that times X and times Y."""


def line_atoms(first: float, second: float, reach: float, count: int, floor: float = FLOOR) -> list[Atom]:
    """A law that (e^(αu−α²/2), e^(−λu−λ²/2)) is below, but for what is left out beyond ``reach`` of P's and Q's."""
    low, high = -second - reach, first + reach
    u = np.linspace(low, high, FINE)
    importance = np.zeros(FINE)
    for weight, middle in (
        (first**2 * math.exp(first**2), 2 * first),
        (second**2 * math.exp(second**2), -2 * second),
        (2 * first * second * math.exp(-first * second), first - second),
    ):
        importance += weight * np.exp(-((u - middle) ** 2) / 2)
    nodes = [arb(rational(place)) for place in _nodes(low, high, importance, count, floor)]
    a, b = arb(rational(first)), arb(rational(second))
    x, y = [(a * u - a * a / 2).exp() for u in nodes], [(-b * u - b * b / 2).exp() for u in nodes]
    tails = [(_tail(u), _tail(u - a), _tail(u + b)) for u in nodes]
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


def factor_atoms(away: float, reach: float, count: int, floor: float = FLOOR) -> list[tuple[arb, arb]]:
    """Chances, and these times W, of a law that W is below, but for what is left out beyond ``reach`` of P's."""
    low, high = away - reach, away + reach
    importance = np.exp(-((np.linspace(low, high, FINE) - 2 * away) ** 2) / 2)
    nodes = [arb(rational(place)) for place in _nodes(low, high, importance, count, floor)]
    h = arb(rational(away))
    values = [(h * v - h * h / 2).exp() for v in nodes]
    tails = [(_tail(v), _tail(v - h)) for v in nodes]
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
    """One kind as classes of messages: ``first`` from above, ``second`` and what hides from below."""

    triple: Triple
    reach: float
    error: float
    room: float
    """What nodes may add to E G², relatively."""
    even: bool = False
    """Whether nodes are near each other in the tails, too."""

    @cached_property
    def floats(self) -> Floats:
        """Rows of (first, second, hiding)."""
        nodes = min(MOST_NODES, max(FEWEST_NODES, math.ceil(math.sqrt(2 * SPREAD_OF_NODES / self.room))))
        fewest = FEWEST_FACTORS
        if self.even:
            away = self.triple.away / math.hypot(self.triple.first, self.triple.second, self.triple.away)
            nodes, fewest = EVEN_NODES, max(fewest, math.ceil(EVEN_NODES * away))
        floor = EVEN_FLOOR if self.even else FLOOR
        with precision(BITS):
            line = line_atoms(self.triple.first, self.triple.second, self.reach, nodes, floor)
            factors = _factors(self.triple.away, self.reach, self.room / 2, fewest, floor)
            assert all(each[0] >= 0 for each in (*line, *factors)), "every chance is certain"
            more = arb(rational(self.error)).exp()
            sides = np.array([(round_up(x * more), round_down(y / more), round_down(c / more)) for c, x, y in line])
            scales = np.array([(round_up(m), round_down(m), round_down(c)) for c, m in factors])
        found = (sides[:, None, :] * scales).reshape(-1, 3) * [1 + ROUNDED, 1 - ROUNDED, 1 - ROUNDED]
        return _without_largest(found, tail_below(self.reach))

    @cached_property
    def lacking(self) -> tuple[float, float, float]:
        """What each of the three sums lacks to 1."""
        one, two, three = (math.fsum([1.0, *(-column)]) for column in self.floats.T)
        return one, two, max(0.0, three)

    @cached_property
    def classes(self) -> ExactClasses:
        pair = exact_pair([_exact(each) for each in self.floats.tolist()], symmetric=False)
        assert isinstance(pair.classes, ExactClasses)
        return pair.classes

    @cached_property
    def mirror(self) -> KindLaw:
        return replace(self, triple=self.triple.mirrored())

    @cached_property
    def pair(self) -> HidingPair:
        return HidingPair(self.classes, False, back=self.mirror.classes)


def tail_below(reach: float) -> float:
    """τ, rounded down."""
    with precision(BITS):
        return round_down(_tail(arb(rational(reach))))


def room(reach: float) -> float:
    """η: by how much a cell may be above the few kinds."""
    return UNITS_OF_TAIL * tail_below(reach) + LEAST_ROOM


def _without_largest(classes: Floats, most: float) -> Floats:
    """Without X where it is largest, as much as P has there with a probability of ``most``."""
    kept = classes[np.argsort(-classes[:, 0] / classes[:, 2], kind="stable")]
    left = most * (1 - ROUNDED)
    for row in kept:
        if row[0] > left:
            break
        left = (left - float(row[0])) * (1 - ROUNDED)
        row[0] = 0.0
    return kept


def _exact(each: list[float]) -> ExactClass:
    first, second, hiding = map(rational, each)
    return first, second, hiding


def _factors(away: float, reach: float, room: float, fewest: int, floor: float) -> list[tuple[arb, arb]]:
    """As few nodes of W as add no more than ``room`` to E W², relatively."""
    if away <= 0:
        return [(arb(1), arb(1))]
    count, exact = fewest, math.exp(away**2)
    while True:
        found = factor_atoms(away, reach, count, floor)
        if count >= MOST_FACTORS or sum(float(mean * mean / chance) for chance, mean in found) <= exact * (1 + room):
            return found
        count += 1


# --- few kinds for all ----------------------------------------------------------------------------------------------


class Gains(NamedTuple):
    """The law of G at one ε in floats, from its least value on: values, the parts of G's mean, chances, and what these
    are computed from; ``mean``: E G − (1 − e^ε)."""

    values: Floats
    parts: Floats
    chances: Floats
    sizes: Floats
    mean: float

    def above(self, places: Floats) -> tuple[Floats, Floats]:
        """E(G − c)_+, less 1 − e^ε − c where c < 0, and by how much this may be off.

        Sums of what is beyond c on its own side, so that what is rare is known as well as what is not.
        """
        start = np.searchsorted(self.values, places)
        parts, chances, sizes = (np.concatenate([[0.0], np.cumsum(each)]) for each in self[1:4])
        low = places * chances[start] - parts[start] + self.mean
        low_off = np.abs(places) * chances[start] + sizes[start] + abs(self.mean)
        parts, chances, sizes = (np.append(np.cumsum(each[::-1])[::-1], 0.0) for each in self[1:4])
        high = parts[start] - places * chances[start]
        high_off = places * chances[start] + sizes[start]
        there = places < 0
        return np.where(there, low, high), FLOATS_ARE_OFF * np.where(there, low_off, high_off)


def gains(law: KindLaw, epsilon: float) -> Gains:
    """With what is revealed at 0, as ``exact_pair`` has it."""
    first, second, hiding = law.floats.T
    lacking_first, lacking_second, rest = law.lacking
    more = math.expm1(epsilon)
    parts, sizes = np.append((first - second) - more * second, 0.0), np.append(first + (1 + more) * second, 0.0)
    chances = np.append(hiding, rest)
    values = np.divide(parts, chances, out=np.zeros_like(parts), where=chances > 0)
    order = np.argsort(values, kind="stable")
    mean = (1 + more) * lacking_second - lacking_first
    return Gains(values[order], parts[order], chances[order], sizes[order], mean)


class Above:
    """Whether laws of G are below mixtures of some kinds."""

    def __init__(self, kinds: list[Gains], room: float) -> None:
        self.room = room
        self.places = np.unique(np.concatenate([kind.values for kind in kinds]))
        seen = [kind.above(self.places) for kind in kinds]
        self.kinds, self.off = np.array([each for each, _ in seen]), np.max([off for _, off in seen], axis=0)
        self.tried: list[Floats] = [np.full(len(kinds), 1 / len(kinds))]

    def holds(self, law: Gains) -> bool:
        """Whether E(G − c)_+ is certainly at most that of a mixture, and ``room``, at every c."""
        found, off = law.above(self.places)
        needed = found + off + self.off - self.room
        for weights in self.tried:
            if (weights @ self.kinds >= needed).all():
                return True
        known = np.linspace(0, len(needed) - 1, SOME_PLACES).astype(int)
        for _ in range(MOST_TRIES):
            chosen = self._planned(needed, found, known)
            if chosen is None:
                return False
            room = chosen @ self.kinds - needed
            if (room >= 0).all():
                self.tried = [chosen, *self.tried[: MOST_TRIED - 1]]
                return True
            known = np.append(known, np.argmin(room / (np.abs(found) + self.room)))
        return False

    def _planned(self, needed: Floats, found: Floats, known: Floats) -> Floats | None:
        """Weights with the most room at some places, relatively; None where there is none. Any would be sound.

        Their sum is a little below 1: what is left, on any of the kinds, is more than what rounding the sum does.
        """
        # Loaded where it is needed: most do without.
        from scipy.optimize import linprog

        scale = np.abs(found[known]) + self.room
        count = len(self.kinds)
        rows = np.column_stack([-self.kinds[:, known].T / scale[:, None], np.ones(len(known))])
        bounds = [*[(0.0, 1.0)] * count, (None, None)]
        total = np.append(np.ones(count), 0.0)[None, :]
        aim = np.append(np.zeros(count), -1.0)
        solved = linprog(aim, rows, -needed[known] / scale, total, [1.0], bounds)
        if solved.x is None or solved.x[-1] < 0:
            return None
        weights = np.maximum(solved.x[:-1], 0.0)
        return np.asarray(weights * ((1 - FLOATS_ARE_OFF) / weights.sum()))


@dataclass(frozen=True)
class BallOthers(Others):
    """Every two points of the ball and every crowd of them, where what is beyond ``reach`` is left out."""

    sigma: float
    reach: float
    error: float
    quick: bool
    """Whether the widest kind alone is looked at."""

    @cached_property
    def _crowds(self) -> BallCrowds:
        return BallCrowds(self.sigma)

    def _law(self, triple: Triple, room: float) -> KindLaw:
        return KindLaw(triple, self.reach, self.error, room)

    @cached_property
    def widest(self) -> KindLaw:
        return self._law(self._crowds.widest, WIDEST_ROOM)

    def few(self, level: float) -> list[KindLaw]:
        if level not in self._few:
            self._few[level] = [self._law(triple, ROOM) for triple in self._crowds.arc(level)]
        return self._few[level]

    @cached_property
    def _few(self) -> dict[float, list[KindLaw]]:
        return {}

    @cached_property
    def _cells(self) -> dict[Cell, tuple[Triple, KindLaw]]:
        return {}

    @cached_property
    def _parted(self) -> set[tuple[float, Cell]]:
        """Cells that were too wide for a level."""
        return set()

    @cached_property
    def _levels(self) -> list[float]:
        """Those that have been enough so far."""
        return [level for level in LEVELS if level * self.sigma**2 > LIKELY] or [LEVELS[-1]]

    @cached_property
    def _found(self) -> dict[float, float | None]:
        return {}

    def level(self, epsilon: float) -> float | None:
        """The first level at which a few kinds are above all cells; None where none is."""
        if self.quick or epsilon > LARGEST_CHECKED:
            return None
        if epsilon not in self._found:
            while self._levels and not self._is_enough(self._levels[0], epsilon):
                del self._levels[0]
            self._found[epsilon] = self._levels[0] if self._levels else None
        return self._found[epsilon]

    def _is_enough(self, level: float, epsilon: float) -> bool:
        """Whether all cells, cut into smaller ones where need be, are below some of the few kinds."""
        kinds = [gains(kind, epsilon) for kind in self.few(level)]
        most, looked = self._crowds.worst * (1 + level), 0
        above = Above(kinds, room(self.reach))
        waiting = [WHOLE]
        while waiting:
            cell = waiting.pop()
            if (level, cell) not in self._parted:
                looked += 1
                if looked > MOST_CELLS:
                    return False
                if cell not in self._cells:
                    triple = self._crowds.triple(cell)
                    self._cells[cell] = triple, replace(self._law(triple, CELL_ROOM), even=True)
                triple, law = self._cells[cell]
                if triple.square <= most and all(above.holds(gains(one, epsilon)) for one in (law, law.mirror)):
                    continue
                self._parted.add((level, cell))
            waiting += [half for half in cell.halves() if half.is_needed]
        return True

    def laws(self, epsilon: float) -> list[FiniteLaw]:
        level = self.level(epsilon)
        kinds = [self.widest] if level is None else self.few(level)
        return [kind.pair.law(epsilon) for kind in kinds]

    def likely_laws(self, epsilon: float) -> list[FiniteLaw]:
        return [kind.pair.law(epsilon) for kind in self._first]

    @property
    def _first(self) -> list[KindLaw]:
        """What is likely to be enough."""
        return [self.widest] if self.quick or not self._levels else self.few(self._levels[0])

    @cached_property
    def kinds(self) -> tuple[HidingPair, ...]:
        """Those that are likely to be enough."""
        return tuple(kind.pair for kind in self._first)

    def kind(self, place: int) -> HidingPair:
        return self.kinds[place]

    def swapped(self) -> Others:
        return self

    @cached_property
    def view(self) -> FloatView:
        return KnownOthers(self.gamma, True, self.kinds).view

    @cached_property
    def signature(self) -> frozenset[object]:
        return frozenset([self])

    def largest_log_ratio(self) -> float:
        return math.inf


def others_of_ball(sigma: float, reach: float, error: float, *, quick: bool) -> BallOthers:
    with precision(BITS):
        b, r, loss = 1 / arb(rational(sigma)), arb(rational(reach)), arb(rational(error))
        gamma = round_down((-(b * b / 2 + r * b) - loss).exp() * (1 - 4 * _tail(r)))
    return BallOthers(gamma, True, sigma, reach, error, quick or sigma < LEAST_SHARP)
