"""Hats on a line: every pair and every crowd, from pairs as far apart as can be.

t_j is the weight of a message at distance j from the point of its sender: it falls to the brim t_s = β and stays
there. A message that is in nobody's hat has the weight β three times, so that G = (P_a − c·P_b)/R, c = e^ε ≥ 1,
depends on the places of a, b and x only by their differences. Let a < b, else look at the mirror image: so both
directions are covered. R is R_x, or less of it, the rest revealed (G = 0): the law of G is then above.

Raising b. If R falls to both sides of a place that is not above b, raising b by one spreads G. Reflect messages at b
+ ½: z above goes to z' below it, and t_b takes its values u ≤ v at z, z' in the other order. With A ≤ A' the weights
of a, and r ≤ r' those of R, at z and z', the values (A−cu)/r and (A'−cv)/r' become (A−cv)/r and (A'−cu)/r'. The mean
is the same; the first is now not above both, the second not below both, because Ar' − A'r ≤ A(r'−r) ≤ cu(r'−r), as A
≤ u.

Lowering a. If R falls to both sides of a place that is not below a, and R ≤ R_b, lowering a by one spreads G, if c <
t_(p−D)/t_p for all D < p < s, D = b − a. Reflect at a − ½: z below goes to z' above. With A ≤ A' now the weights of
b, the values (u−cA)/r and (v−cA')/r' become (v−cA)/r and (u−cA')/r'. The first is not below both, the second not
above both, if c(Ar' − A'r) ≤ u(r'−r). Where A = β, r = β too, and r' ≤ A'. Else c(Ar' − A'r) ≤ cA(r'−r) ≤ u(r'−r).
Where c is not below the largest t_(p−D)/t_p there are, G is nowhere above 0 and nothing is told. The largest and the
least are the same but for the rounding of weights, and P_a is told as 1 + 2^-34 times as much.

So every pair and every other user is below one of three kinds. If a ≤ x ≤ b: the pair (0, g) and x from 0 to g. If x
< a: the pair (u, g) and 0; where u' ≤ u ≤ u' + h it is the pair (u', g − …) and a point of −h … 0, hence below the
pair (u', g) and what all of these have in common, min(P_−h, P_0). If x > b, let y ≤ x − b ≤ y + h: R_x is at least
what P_b and P_(b+y+h) have in common, and the pair may be moved apart to g − y. Points x of a range have the law of
their two ends in common. Ranges are as long as the worst of all kinds hardly gets worse by it.

Messages. If P and Q at z are α times those at u and β times those at v, up to 2^-36, and R is not less, z may be told
as u or v: that tells more. Where R is a little less, all of it is told as so much less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from flint import fmpq
from numpy.typing import NDArray

from shuffledp.array import Floats
from shuffledp.numerics.ball import below
from shuffledp.privacy.others import KnownOthers, Others
from shuffledp.privacy.pair import HidingPair, exact_pair

ERROR_BITS, PART_BITS, ONE = 34, 36, 1 << 52
"""Laws are told up to 2^-34: weights that fall unevenly, and messages told as others, are each within 2^-36."""
MOST_MESSAGES = 8192
SLOPE = 24
"""Messages that are told apart from a tip to the brim."""
MOST_HIDDEN = 2.0**-8
"""Of R, relatively: how much less may be told of it."""
TILT = 0.5
NEAR = 2e-3
"""How much worse than every kind of one point a range may be, by E G² and by E e^(tG), t = TILT over the largest G."""

Units = NDArray[np.int64]


class HatKind(NamedTuple):
    """A pair, and the two ends of where another user may be."""

    first: int
    second: int
    thirds: tuple[int, int]


Rule = Callable[[int, int], HatKind]


@dataclass(frozen=True)
class HatCrowds:
    """Weights t_0 … t_s in whole units, of points 0 … ``grid``."""

    units: tuple[int, ...]
    grid: int

    @property
    def reach(self) -> int:
        return len(self.units) - 1

    @cached_property
    def whole(self) -> int:
        return self.units[0] + 2 * sum(self.units[1:-1]) + (self.grid + 2) * self.units[-1]

    @cached_property
    def _places(self) -> Units:
        return np.arange(-self.reach, self.grid + self.reach + 1)

    @cached_property
    def _table(self) -> Units:
        return np.array(self.units)

    def _law(self, *points: int) -> Units:
        """In units: what the laws of some points have in common."""
        far = np.max([np.abs(self._places - point) for point in points], axis=0)
        return np.asarray(self._table[np.minimum(far, self.reach)])

    def others(self) -> Others | None:
        """Every two points and every crowd; none where there are many messages, or weights are rounded coarsely."""
        if len(self._places) > MOST_MESSAGES or not self._falls_evenly():
            return None
        common = Fraction(int(self._law(0, self.grid).sum()), self.whole)
        return KnownOthers(below(common), symmetric=True, given=tuple(dict.fromkeys(map(self.pair, self.kinds()))))

    def _falls_evenly(self) -> bool:
        """Whether all t_(p−D)/t_p, p < s, are within 1 + 2^-36 of the largest: by those of one step."""
        steps = [Fraction(high, low) for high, low in pairwise(self.units)]
        if self.reach == 1:
            return True
        uneven = max(steps) / min(steps[:-1]) - 1
        return self.reach * uneven < Fraction(1, 1 << PART_BITS + 1)

    # --- ranges -------------------------------------------------------------------------------------------------

    @cached_property
    def _rules(self) -> list[tuple[Rule, int, int]]:
        g = self.grid
        return [
            (lambda low, high: HatKind(0, g, (low, high)), 0, g),
            (lambda low, high: HatKind(low, g, (low - high, 0)), 1, g - 1),
            (lambda low, high: HatKind(0, g - low, (g - low, g - low + high)), 1, g - 1),
        ]

    def kinds(self) -> Iterator[HatKind]:
        """Ranges from the first on, each as long as can be."""
        most = self._worst
        for rule, start, last in self._rules:
            low = start
            while low <= last:
                high = low
                while high < last and (self._badness(rule(low, high + 1)) <= most).all():
                    high += 1
                yield rule(low, high)
                low = high + 1

    @cached_property
    def _worst(self) -> Floats:
        single = [self._badness(rule(at, at)) for rule, start, last in self._rules for at in range(start, last + 1)]
        return np.asarray(np.max(single, axis=0) * (1 + NEAR))

    def _badness(self, kind: HatKind) -> Floats:
        first, second = (self._law(point) / self.whole for point in kind[:2])
        hiding = self._law(*kind.thirds) / self.whole
        value = (first - second) / hiding
        tilted = TILT / (self.units[0] / self.units[-1]) * value
        return np.array([hiding @ value**2, hiding @ (np.expm1(tilted) - tilted)])

    # --- messages -----------------------------------------------------------------------------------------------

    def pair(self, kind: HatKind) -> HidingPair:
        """The pair of a kind, ``first`` from above, the two others from below."""
        columns = np.stack([self._law(kind.first), self._law(kind.second), self._law(*kind.thirds)]).T.tolist()
        weights: dict[tuple[int, ...], int] = {}
        most = ONE
        for column, weight, hidden in self._told(columns):
            size = math.gcd(*column)
            shape = tuple(each // size for each in column)
            weights[shape] = weights.get(shape, 0) + weight * size
            most = max(most, hidden)
        bottom = self.whole * ONE << ERROR_BITS
        more, less = (1 << ERROR_BITS) + 1, (1 << ERROR_BITS) - 1
        shrunk = fmpq(ONE, most)
        classes = [
            (fmpq(more * weight * a, bottom), fmpq(less * weight * b, bottom), fmpq(less * weight * r, bottom) * shrunk)
            for (a, b, r), weight in sorted(weights.items())
        ]
        return exact_pair(classes, symmetric=False)

    @cached_property
    def _stride(self) -> int:
        return max(1, self.reach // SLOPE)

    def _told(self, columns: Sequence[list[int]]) -> Iterator[tuple[list[int], int, int]]:
        """Messages that others are told as: weights, and how much more these hide at the most, in units of 2^-52."""
        start = 0
        yield columns[0], ONE, ONE
        while start < len(columns) - 1:
            end, shares = self._next(columns, start)
            hidden = max((share.hidden for share in shares), default=ONE)
            yield columns[start], sum(share.left for share in shares), hidden
            yield columns[end], ONE + sum(share.right for share in shares), hidden
            start = end

    def _next(self, columns: Sequence[list[int]], start: int) -> tuple[int, list[_Shares]]:
        """The next message that is told, and what is told of those before it."""
        stride = min(self._stride, len(columns) - 1 - start)
        while True:
            shares = [_as_two(columns[start], columns[start + stride], z) for z in columns[start + 1 : start + stride]]
            found = [share for share in shares if share]
            if len(found) == len(shares):
                return start + stride, found
            stride //= 2


class _Shares(NamedTuple):
    """Of two messages, as which one between them is told, and how much more they hide, in units of 2^-52."""

    left: int
    right: int
    hidden: int


def _as_two(u: Sequence[int], v: Sequence[int], z: Sequence[int]) -> _Shares | None:
    """Shares with which P and Q are those of z up to 2^-36, and R hardly more; none if there are not any."""
    left, right = ([a / c for a, c in zip(end, z, strict=True)] for end in (u, v))
    found = 1 / max(left), 0.0
    for i, j in ((0, 1), (0, 2), (1, 2)):
        size = left[i] * right[j] - left[j] * right[i]
        if abs(size) > 1e-9:
            found = (right[j] - right[i]) / size, (left[i] - left[j]) / size
            break
    if not min(found) >= 0:
        return None
    alpha, beta = (round(share * ONE) for share in found)
    first, second, third = (alpha * a + beta * b for a, b in zip(u, v, strict=True))
    hidden = max(ONE, -(-third // z[2]))
    exact = all(abs(told - each * ONE) << PART_BITS <= each * ONE for told, each in ((first, z[0]), (second, z[1])))
    return _Shares(alpha, beta, hidden) if exact and hidden <= ONE * (1 + MOST_HIDDEN) else None
