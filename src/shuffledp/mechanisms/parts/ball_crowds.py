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
cancels the m users, and what is left out may depend on the other user. It is 3τ in all.

A common part that does not depend on the dimension. No input is farther than 1 from 0. With w = N(0, σ²), p =
e^(1/2σ²+r/σ) and w_i = min(w, pR_i), of mass 1 − δ_i, δ_i ≤ τ: R_i = w_i/p + rest. As in Theorem 5 of docs/crowds.md,
with γ = 1/p, D(I) ≤ γ(B(I) + τ(e^ε − 1)) + (1 − γ(1 − 2τ))·mean_i D(I∖i).

What is executed. Messages are those of points computed in floats, rounded and noised. But for an event of probability
t the laws are within e^±κ of K·N(x, σ²), K being exact rounding and noise of exact points no farther than L from
their input. So P ≤ e^κ·KP + t, Q ≥ e^−κ·KQ − t, and of R a part e^−κ is counted where its point is no farther than L;
elsewhere P has e^κ·t at the most, which is left out, and leaving out Q costs e^ε·t. In all 3τe^κ + t(1 + e^κ + 2e^ε)
+ (τ + t)(1 + e^ε), over 1 − 2(τ + t).
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import arb

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.privacy.others import KnownOthers, Others
from shuffledp.privacy.pair import ExactClass, ExactClasses, HidingPair, exact_pair

BITS = 512
"""Chances of e^-110 are differences of numbers near 1."""
MOST_CELLS = 20
NEAR = 0.01
"""How much larger than every triple's a kind's E G² may be, relatively, where no more cells are worth it."""
COMMON = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
"""What e is tried as, in widths of a cell."""
LEVEL, ROOM, MOST_ROOM = 0.03, 0.012, 0.03
"""Up to where nodes may raise E G², relatively to the worst triple's; by how much at the least, and at the most."""
FEWEST_NODES, MOST_NODES = 16, 64
FEWEST_FACTORS, MOST_FACTORS = 3, 20
SPREAD_OF_NODES = 5.5
"""N nodes add this over N² to a variance of 1."""
FLOOR = 0.03
FINE = 4001
ROUNDED = 2.0**-48


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


def _square(part: Fraction) -> arb:
    """2 + 2cos(π·part)."""
    return 2 + 2 * arb.cos_pi_fmpq(rational(part))


@dataclass(frozen=True)
class BallCrowds:
    """Kinds that stand for all triples of points, where noise has the standard deviation ``sigma``."""

    sigma: float

    @cached_property
    def triples(self) -> list[Triple]:
        """Those with x nearer to the second; the others are their mirror images."""
        whole = Cell(Fraction(0), Fraction(1, 2), Fraction(0), Fraction(1))
        enough = self.worst * (1 + NEAR)
        with precision(96):
            triple = self._triple(whole)
            waiting = [(-triple.square, 0, whole, triple)]
            number = 1
            while len(waiting) < MOST_CELLS and number < 4 * MOST_CELLS and -waiting[0][0] > enough:
                _, _, cell, _ = heapq.heappop(waiting)
                for part in cell.halves():
                    if not part.is_needed:
                        continue
                    triple = self._triple(part)
                    heapq.heappush(waiting, (-triple.square, number, part, triple))
                    number += 1
        found = sorted({triple for _, _, _, triple in waiting}, reverse=True)
        return [one for one in found if not any(_is_below(one, other) for other in found if other != one)]

    @cached_property
    def worst(self) -> float:
        """The largest E G² of a triple, in floats."""
        beta = np.linspace(0, math.pi, 129)
        first, pair = np.meshgrid(beta, beta)
        a, c, b = 2 + 2 * np.cos(first), 2 + 2 * np.cos(pair), 2 - 2 * np.cos(np.minimum(first + pair, math.pi))
        s = self.sigma**-2
        squares = np.expm1(s * a) + np.expm1(s * b) - 2 * np.expm1(s * (a + b - c) / 2)
        return float(squares[first + pair <= math.pi + 1e-9].max())

    def _triple(self, cell: Cell) -> Triple:
        """The best e."""
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
    tiny = 1e-9
    return Triple(*(max(tiny, round_up(each * scale)) for each in (one, two, away)))


def _is_below(one: Triple, other: Triple) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


# --- one kind as a finite law ---------------------------------------------------------------------------------------


def _tail(x: arb) -> arb:
    """P(N > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def _nodes(low: float, high: float, importance: Floats, count: int) -> list[float]:
    """``count`` + 1 places from low to high, nearest to each other where a spread costs most."""
    places = np.linspace(low, high, FINE)
    density = importance ** (1 / 3)
    density = density / density.max() + FLOOR
    rise = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    found = np.interp(np.linspace(0, rise[-1], count + 1), rise, places)
    found[0], found[-1] = low, high
    return [float(place) for place in found]


Atom = tuple[arb, arb, arb]
"""A chance, and that times X and times Y."""


def line_atoms(first: float, second: float, reach: float, count: int) -> list[Atom]:
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
    nodes = [arb(rational(place)) for place in _nodes(low, high, importance, count)]
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


def factor_atoms(away: float, reach: float, count: int) -> list[tuple[arb, arb]]:
    """Chances, and these times W, of a law that W is below, but for what is left out beyond ``reach`` of P's."""
    low, high = away - reach, away + reach
    importance = np.exp(-((np.linspace(low, high, FINE) - 2 * away) ** 2) / 2)
    nodes = [arb(rational(place)) for place in _nodes(low, high, importance, count)]
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
    nodes: int
    factors: int

    def classes(self) -> ExactClasses:
        with precision(BITS):
            line = line_atoms(self.triple.first, self.triple.second, self.reach, self.nodes)
            factors = factor_atoms(self.triple.away, self.reach, self.factors)
            assert all(each[0] >= 0 for each in (*line, *factors)), "every chance is certain"
            more = arb(rational(self.error)).exp()
            sides = [(round_down(c / more), round_up(x * more), round_down(y / more)) for c, x, y in line]
            scales = [(round_down(c), round_up(m), round_down(m)) for c, m in factors]
            most = round_down(_tail(arb(rational(self.reach))))
        found = []
        for hiding, one, two in sides:
            for chance, up, down in scales:
                found.append((one * up * (1 + ROUNDED), two * down * (1 - ROUNDED), hiding * chance * (1 - ROUNDED)))
        pair = exact_pair([_exact(each) for each in _without_largest(found, most)], symmetric=False)
        assert isinstance(pair.classes, ExactClasses)
        return pair.classes


def _without_largest(classes: list[tuple[float, float, float]], most: float) -> list[tuple[float, float, float]]:
    """Without X where it is largest, as much as P has there with a probability of ``most``."""
    classes.sort(key=lambda each: -each[0] / each[2])
    left = most * (1 - ROUNDED)
    kept = []
    for first, second, hiding in classes:
        gone = first <= left
        left = (left - first) * (1 - ROUNDED) if gone else 0.0
        kept.append((0.0 if gone else first, second, hiding))
    return kept


def _exact(each: tuple[float, float, float]) -> ExactClass:
    first, second, hiding = map(rational, each)
    return first, second, hiding


def _factors_for(away: float, reach: float, room: float) -> int:
    """How many nodes of W add no more than ``room`` to E W², relatively."""
    with precision(96):
        exact = math.exp(away**2)
        for count in range(FEWEST_FACTORS, MOST_FACTORS):
            square = sum(float(mean * mean / chance) for chance, mean in factor_atoms(away, reach, count))
            if square <= exact * (1 + room):
                return count
    return MOST_FACTORS


def others_of_ball(sigma: float, reach: float, error: float) -> Others:
    """Every two points of the ball and every crowd of them, where what is beyond ``reach`` is left out."""
    crowds = BallCrowds(sigma)
    given: list[HidingPair] = []
    for triple in crowds.triples:
        room = min(MOST_ROOM, max(ROOM, crowds.worst * (1 + LEVEL) / triple.square - 1)) / 2
        nodes = min(MOST_NODES, max(FEWEST_NODES, math.ceil(math.sqrt(SPREAD_OF_NODES / room))))
        factors = _factors_for(triple.away, reach, room)
        one, other = (KindLaw(each, reach, error, nodes, factors).classes() for each in (triple, triple.mirrored()))
        given += [HidingPair(one, False, back=other), HidingPair(other, False, back=one)]
    with precision(BITS):
        b, r, loss = 1 / arb(rational(sigma)), arb(rational(reach)), arb(rational(error))
        gamma = round_down((-(b * b / 2 + r * b) - loss).exp() * (1 - 4 * _tail(r)))
    return KnownOthers(gamma, symmetric=True, given=tuple(given))
