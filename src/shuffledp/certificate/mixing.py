"""How far split and mixed messages are from ones that tell the sum alone, bounded a second time, by counting colours.

Nothing of ``shuffledp.numerics`` is used; the engine looks at components, and takes an induction over owners.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from flint import arb, fmpz, fmpz_poly

KNOWN = 96
"""L: for so many owners and fewer everything is counted exactly, in whole numbers."""


@dataclass(frozen=True)
class Colourings:
    """``owners`` of ``places`` = m places each; a uniform permutation of all places joins owners of exchanged ones.

    C is the number of components, N the ``base``; asked is t_n(N) = E[N^(C−1)] − 1 for n owners.

    Theorem: N^C counts the colourings of the owners by N colours that are constant on components, that is, whose colour
    classes the permutation keeps. Classes of n_1 + … + n_N = n owners are kept with probability Π (n_i·m)!/(nm)!. So
    E_n[N^C] = c_n(N)/a_n with a_k = (km)!/k! and c_n(N) = [z^n] A(z)^N, A(z) = Σ a_k·z^k, exactly. Write
    c_n(N) = N·a_n·(1 + t_n(N)). Colours in two heaps, A^(M+M') = A^M·A^M', give

        (M+M')·t_n(M+M') = M·t_n(M) + M'·t_n(M') + M·M'·Σ_{0<k<n} r(n,k)·(1 + t_k(M))·(1 + t_{n−k}(M'))

    with r(n, k) = a_k·a_{n−k}/a_n = C(n, k)/C(nm, km). N is reached by doubling and adding one, from t(1) = 0.

    For at most L owners all is counted. Beyond, t is bounded for all n ≥ L_j = 2^j·L at once, for each tier j. In the
    sum let s be the smaller of k and n − k: it counts at most twice, and the other is at least n/2, hence in the tier
    before. r(n, s) falls with n, as r(n+1, s)/r(n, s) ≤ (1 − s/(n+1))^(m−1), and so does n·r(n, s) where m ≥ 2; it
    falls with s up to n/2. So for s < L it is at most r(max(L_j, 2s), s); those of a tier i < j are at most
    L_i·r(L_j, L_i) in sum, and those from L_j on at most L_j·r(2L_j, L_j).
    """

    owners: int
    places: int
    base: int

    def excess(self) -> arb | None:
        """An upper bound of t_n(N) at the working precision, exact for few owners; None where there is none."""
        if self.owners == 1 or self.base == 1:
            return arb(0)
        if self.owners <= KNOWN:
            return self._counted(self._power(self.owners), self.base)[self.owners] - 1
        return self._bounded() if self.places >= 2 else None

    def distance(self) -> arb | None:
        """η = ½·√(t_n(N)), an upper bound."""
        excess = self.excess()
        return None if excess is None else (excess.upper().max(arb(0)).sqrt() / 2).upper()

    @cached_property
    def _weights(self) -> list[fmpz]:
        """a_0, a_1, …"""
        factorials = [fmpz(1)]
        for k in range(1, min(self.owners, KNOWN) + 1):
            places = range((k - 1) * self.places + 1, k * self.places + 1)
            factorials.append(reduce(lambda product, place: product * place, places, factorials[-1]))
        return [whole / math.factorial(k) for k, whole in enumerate(factorials)]

    def _power(self, most: int) -> fmpz_poly:
        """A^N up to z^most."""
        one = power = fmpz_poly(self._weights[: most + 1])
        for digit in bin(self.base)[3:]:
            power = _cut(power * power, most)
            if digit == "1":
                power = _cut(power * one, most)
        return power

    def _counted(self, power: fmpz_poly, colours: int) -> list[arb]:
        """1 + t_k for each k that A^colours is known to; 1 for none."""
        numbers = zip(power.coeffs()[1:], self._weights[1:], strict=True)
        return [arb(1), *(arb(count) / (colours * arb(weight)) for count, weight in numbers)]

    # --- many owners ------------------------------------------------------------------------------------------

    def _bounded(self) -> arb:
        sizes = [KNOWN]
        while 2 * sizes[-1] <= self.owners:
            sizes.append(2 * sizes[-1])
        rows = [_Row.of_tier(tier, sizes, self.places) for tier in range(len(sizes))]
        rows.append(_Row.of_one(self.owners, sizes, self.places))
        known = fmpz_poly(self._weights)
        one = heap = _Heap(1, self._counted(known, 1), [arb(1)] * len(rows))
        power = known
        for digit in bin(self.base)[3:]:
            power = _cut(power * power, KNOWN)
            heap = heap.joined(heap, rows, self._counted(power, 2 * heap.colours))
            if digit == "1":
                power = _cut(power * known, KNOWN)
                heap = heap.joined(one, rows, self._counted(power, heap.colours + 1))
        return heap.above[-1] - 1


@dataclass(frozen=True)
class _Row:
    """Bounds of r(n, s): ``near`` for s = 1, 2, … below L, ``far`` the sum over each tier of larger s."""

    near: Sequence[arb]
    far: Sequence[arb]
    before: int
    """The tier of what is at least n/2; −1 where it may be among the counted."""

    @classmethod
    def of_tier(cls, tier: int, sizes: Sequence[int], places: int) -> _Row:
        """For all n from the size of the tier on."""
        least = sizes[tier]
        near = [_kept(max(least, 2 * s), s, places) for s in range(1, KNOWN)]
        far = [size * _kept(least, size, places) for size in sizes[:tier]]
        return cls(near, [*far, least * _kept(2 * least, least, places)], tier - 1)

    @classmethod
    def of_one(cls, owners: int, sizes: Sequence[int], places: int) -> _Row:
        """For one n, from the last size up to before twice as many."""
        near = [_kept(owners, s, places) for s in range(1, min(KNOWN - 1, owners // 2) + 1)]
        far = [size * _kept(owners, size, places) for size in sizes[:-1]]
        return cls(near, far, len(sizes) - 2)


@dataclass(frozen=True)
class _Heap:
    """What is known of 1 + t for some colours: up to L owners exactly, and bounds for each row."""

    colours: int
    known: Sequence[arb]
    above: Sequence[arb]

    def joined(self, other: _Heap, rows: Sequence[_Row], known: Sequence[arb]) -> _Heap:
        """The colours of both together, whose counted values are ``known``."""
        colours = self.colours + other.colours
        above = []
        for place, row in enumerate(rows):
            mine, theirs = self._large(row), other._large(row)
            smaller = (
                *zip(row.near, self.known[1:], other.known[1:], strict=False),
                *zip(row.far, self.above, other.above, strict=False),
            )
            total = sum((weight * (one * theirs + two * mine) for weight, one, two in smaller), arb(0))
            product = self.colours * other.colours * total
            whole = self.colours * self.above[place] + other.colours * other.above[place] + product
            above.append((whole / colours).upper())
        return _Heap(colours, known, above)

    def _large(self, row: _Row) -> arb:
        """A bound for what is at least n/2."""
        if row.before >= 0:
            return self.above[row.before]
        return reduce(lambda one, other: one.max(other), self.known[KNOWN // 2 :], self.above[0])


def _kept(owners: int, size: int, places: int) -> arb:
    """r(n, k)."""
    return arb.bin_uiui(owners, size) / arb.bin_uiui(owners * places, size * places)


def _cut(series: fmpz_poly, most: int) -> fmpz_poly:
    return fmpz_poly(series.coeffs()[: most + 1])
