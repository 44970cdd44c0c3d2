"""The distance of split and mixed messages from messages that reveal the sum alone, by counting colourings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from flint import arb, fmpz, fmpz_poly

MAX_COUNTED_OWNERS = 96
"""L: up to this many owners everything is counted exactly, in integers."""


@dataclass(frozen=True)
class Colourings:
    """``owners`` with ``places`` = m places each; a uniform permutation of all places joins owners of exchanged places.

    C is the number of components and N the ``base``; the result is t_n(N) = E[N^(C−1)] − 1 for n owners.

    Theorem: N^C counts the colourings of the owners by N colours that are constant on components, that is, whose colour
    classes the permutation preserves. Classes of n_1 + … + n_N = n owners are preserved with probability
    Π (n_i·m)!/(nm)!. So E_n[N^C] = c_n(N)/a_n with a_k = (km)!/k! and c_n(N) = [z^n] A(z)^N, A(z) = Σ a_k·z^k, exactly.
    Write c_n(N) = N·a_n·(1 + t_n(N)). Dividing the colours into two groups, A^(M+M') = A^M·A^M', gives

        (M+M')·t_n(M+M') = M·t_n(M) + M'·t_n(M') + M·M'·Σ_{0<k<n} r(n,k)·(1 + t_k(M))·(1 + t_{n−k}(M'))

    with r(n, k) = a_k·a_{n−k}/a_n = C(n, k)/C(nm, km). N is reached by doubling and adding one, from t(1) = 0.

    Up to L owners everything is counted. Beyond, t is bounded for all n ≥ L_j = 2^j·L at once, for each tier j. In the
    sum let s be the smaller of k and n − k: it counts at most twice, and the other is at least n/2, hence in the tier
    before. r(n, s) falls with n, as r(n+1, s)/r(n, s) ≤ (1 − s/(n+1))^(m−1), and so does n·r(n, s) if m ≥ 2; it
    falls with s up to n/2. So for s < L it is at most r(max(L_j, 2s), s); the s of a tier i < j contribute at most
    L_i·r(L_j, L_i) in sum, and those from L_j on at most L_j·r(2L_j, L_j).
    """

    owners: int
    places: int
    base: int

    def excess(self) -> arb | None:
        """Returns an upper bound of t_n(N) at the working precision, exact for few owners; None if none is known."""
        if self.owners == 1 or self.base == 1:
            return arb(0)
        if self.owners <= MAX_COUNTED_OWNERS:
            return self._count_exactly(self._power(self.owners), self.base)[self.owners] - 1
        return self._bound_excess() if self.places >= 2 else None

    def distance(self) -> arb | None:
        """Returns an upper bound of η = ½·√(t_n(N)); None if no bound is known."""
        excess = self.excess()
        return None if excess is None else (excess.upper().max(arb(0)).sqrt() / 2).upper()

    @cached_property
    def _weights(self) -> list[fmpz]:
        """The numbers a_0, a_1, … of the theorem."""
        factorials = [fmpz(1)]
        for k in range(1, min(self.owners, MAX_COUNTED_OWNERS) + 1):
            places = range((k - 1) * self.places + 1, k * self.places + 1)
            factorials.append(reduce(lambda product, place: product * place, places, factorials[-1]))
        return [whole / math.factorial(k) for k, whole in enumerate(factorials)]

    def _power(self, most: int) -> fmpz_poly:
        """Returns A^N up to z^most."""
        one = power = fmpz_poly(self._weights[: most + 1])
        for digit in bin(self.base)[3:]:
            power = _truncate(power * power, most)
            if digit == "1":
                power = _truncate(power * one, most)
        return power

    def _count_exactly(self, power: fmpz_poly, colours: int) -> list[arb]:
        """Returns 1 + t_k for each k up to which A^colours is known; 1 for k = 0."""
        numbers = zip(power.coeffs()[1:], self._weights[1:], strict=True)
        return [arb(1), *(arb(count) / (colours * arb(weight)) for count, weight in numbers)]

    # --- Many owners ---

    def _bound_excess(self) -> arb:
        sizes = [MAX_COUNTED_OWNERS]
        while 2 * sizes[-1] <= self.owners:
            sizes.append(2 * sizes[-1])
        rows = [_RatioBounds.from_tier(tier, sizes, self.places) for tier in range(len(sizes))]
        rows.append(_RatioBounds.from_owners(self.owners, sizes, self.places))
        known = fmpz_poly(self._weights)
        one = heap = _ColourGroup(1, self._count_exactly(known, 1), [arb(1)] * len(rows))
        power = known
        for digit in bin(self.base)[3:]:
            power = _truncate(power * power, MAX_COUNTED_OWNERS)
            heap = heap.join(heap, rows, self._count_exactly(power, 2 * heap.colours))
            if digit == "1":
                power = _truncate(power * known, MAX_COUNTED_OWNERS)
                heap = heap.join(one, rows, self._count_exactly(power, heap.colours + 1))
        return heap.above[-1] - 1


@dataclass(frozen=True)
class _RatioBounds:
    """Bounds of r(n, s): ``near`` for s = 1, 2, … below L, ``far`` the sum over each tier of larger s."""

    near: Sequence[arb]
    far: Sequence[arb]
    before: int
    """The tier of sizes that are at least n/2; −1 if they may be among the exactly counted ones."""

    @classmethod
    def from_tier(cls, tier: int, sizes: Sequence[int], places: int) -> _RatioBounds:
        """Returns bounds for all n from the size of the tier on."""
        least = sizes[tier]
        near = [_size_ratio(max(least, 2 * s), s, places) for s in range(1, MAX_COUNTED_OWNERS)]
        far = [size * _size_ratio(least, size, places) for size in sizes[:tier]]
        return cls(near, [*far, least * _size_ratio(2 * least, least, places)], tier - 1)

    @classmethod
    def from_owners(cls, owners: int, sizes: Sequence[int], places: int) -> _RatioBounds:
        """Returns bounds for one n, from the last size up to just below twice that size."""
        near = [_size_ratio(owners, s, places) for s in range(1, min(MAX_COUNTED_OWNERS - 1, owners // 2) + 1)]
        far = [size * _size_ratio(owners, size, places) for size in sizes[:-1]]
        return cls(near, far, len(sizes) - 2)


@dataclass(frozen=True)
class _ColourGroup:
    """1 + t for a group of colours: exact values up to L owners, and bounds for each row."""

    colours: int
    known: Sequence[arb]
    above: Sequence[arb]

    def join(self, other: _ColourGroup, rows: Sequence[_RatioBounds], known: Sequence[arb]) -> _ColourGroup:
        """Returns the values of both groups together, whose exact values are ``known``."""
        colours = self.colours + other.colours
        above = []
        for place, row in enumerate(rows):
            mine, theirs = self._bound_large_sizes(row), other._bound_large_sizes(row)
            smaller = (
                *zip(row.near, self.known[1:], other.known[1:], strict=False),
                *zip(row.far, self.above, other.above, strict=False),
            )
            total = sum((weight * (one * theirs + two * mine) for weight, one, two in smaller), arb(0))
            product = self.colours * other.colours * total
            whole = self.colours * self.above[place] + other.colours * other.above[place] + product
            above.append((whole / colours).upper())
        return _ColourGroup(colours, known, above)

    def _bound_large_sizes(self, row: _RatioBounds) -> arb:
        """Returns a bound for all sizes that are at least n/2."""
        if row.before >= 0:
            return self.above[row.before]
        return reduce(lambda one, other: one.max(other), self.known[MAX_COUNTED_OWNERS // 2 :], self.above[0])


def _size_ratio(owners: int, size: int, places: int) -> arb:
    """Returns r(n, k)."""
    return arb.bin_uiui(owners, size) / arb.bin_uiui(owners * places, size * places)


def _truncate(series: fmpz_poly, most: int) -> fmpz_poly:
    return fmpz_poly(series.coeffs()[: most + 1])
