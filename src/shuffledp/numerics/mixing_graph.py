"""Components of the multigraph that a uniform permutation draws on owners of equally many places: a power's mean.

There are k owners of m places each. A uniform permutation of the k·m places draws an edge from the owner of each place
to the owner of where it goes; C is the number of components, and S_k = E[N^C].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from flint import arb

from shuffledp.numerics.ball import precision, until_sharp

BITS = 192
FIRST_KNOWN, MOST_KNOWN = 32, 1024
"""From so few owners a proof for all numbers of owners is tried, up to so many."""
MOST_EXACT = 512
"""Up to so many owners the mean itself is computed."""


@dataclass(frozen=True)
class MixingGraph:
    """The graph of ``places`` = m places an owner, with the base N of the power.

    Theorem: a set of j of k owners is closed, no edge leaving it, with probability 1/C(km, jm), and then the graphs
    inside and outside are independent graphs of j and of k − j owners. Write r(k, j) = C(k, j)/C(km, jm): the mean
    number of closed sets of j owners.

    Small k, exactly: permutations whose closed sets are given are counted by A(z)^N, A(z) = Σ_k (km)!·z^k/k!, so that
    S_k = k!·[z^k]A(z)^N/(km)!, and A·(A^N)' = N·A'·A^N gives S_k = (1/k)·Σ_{j=1}^k (N·j − (k−j))·r(k, j)·S_{k−j}.

    Large k: either some component has more than k/2 owners; those outside of it are a closed set of j < k/2 owners,
    and N^(C−1) is N to the number of their components. Or no component has; then components put together one by one
    make a closed set of s owners with k/3 ≤ s ≤ k/2 (it, or what it leaves). Hence

        E[N^(C−1)] − 1 ≤ Σ_{1≤j<k/2} r(k, j)·(S_j − 1) + (1/N)·Σ_{k/3≤s≤k/2} r(k, s)·S_s·S_{k−s}.      (*)

    r(k, j) falls with k, as r(k+1, j)/r(k, j) = (k+1)/(k+1−j)·Π_{i=1}^m (1 − jm/(km+i)) ≤ (1 − j/(k+1))^(m−1); and
    r(k, j) ≤ C(k, j)^−(m−1), as C(km, jm) ≥ C(k, j)^m. Let S_j be known for j ≤ L, and at most B for K ≤ j ≤ L, where
    K = ⌈L/3⌉. For k ≥ L the right side of (*) is then at most

        T(k) = Σ_{1≤j<K} r(k, j)·(S_j − 1) + k·C(k, K)^−(m−1)·(B + B²/N),

    provided that all S_j with K ≤ j < k are at most B. T falls with k (C(k, K)/k grows, K ≥ 2, m ≥ 2). So
    N·(1 + T(L)) ≤ B proves S_k ≤ B for all k ≥ K by induction, and T(k) bounds the mean for every k ≥ L.
    """

    places: int
    base: int

    def excess(self, owners: int) -> arb:
        """E[N^(C−1)] − 1: exact for few owners, an upper bound for many; infinite where none could be proved."""
        if owners == 1 or self.base == 1:
            return arb(0)
        if owners <= MOST_EXACT:
            return _exactly(self, owners)
        proof = _proof(self)
        if proof is None or owners < proof.known:
            return arb("inf")
        with precision(BITS):
            return proof.excess(owners)

    def means(self, most: int) -> list[arb]:
        """S_0 … S_most, exactly, at the working precision."""
        # k!/(km)!, of which r(k, j) is a quotient.
        weight = [arb.fac_ui(k) / arb.fac_ui(k * self.places) for k in range(most + 1)]
        found = [arb(1)]
        parts = [1 / weight[0]]
        for k in range(1, most + 1):
            terms = (((self.base + 1) * j - k) * parts[k - j] / weight[j] for j in range(1, k + 1))
            found.append(sum(terms, arb(0)) * weight[k] / k)
            parts.append(found[k] / weight[k])
        return found

    def closed_sets(self, owners: int, size: int) -> arb:
        """r(k, j): the mean number of closed sets of this size."""
        return arb.bin_uiui(owners, size) / arb.bin_uiui(owners * self.places, size * self.places)


@dataclass(frozen=True)
class _Proof:
    """S_0 … S_L, and a B that no S_k with k ≥ K exceeds."""

    graph: MixingGraph
    means: tuple[arb, ...]
    limit: arb

    @property
    def known(self) -> int:
        """L."""
        return len(self.means) - 1

    @property
    def far(self) -> int:
        """K."""
        return -(-self.known // 3)

    def excess(self, owners: int) -> arb:
        """T(k), for k ≥ L."""
        near = sum((self.graph.closed_sets(owners, j) * (self.means[j] - 1) for j in range(1, self.far)), arb(0))
        each = arb.bin_uiui(owners, self.far) ** (1 - self.graph.places)
        return (near + owners * each * (self.limit + self.limit**2 / self.graph.base)).upper()

    def holds(self) -> bool:
        """Whether the induction begins: what is known is at most B, and so is N·(1 + T(L))."""
        begins = self.graph.base * (1 + self.excess(self.known)) <= self.limit
        return bool(begins) and all(one <= self.limit for one in self.means[self.far :])


@lru_cache(maxsize=64)
def _proof(graph: MixingGraph) -> _Proof | None:
    """The proof from the fewest known means that is found; none where there are too many to compute."""
    known = FIRST_KNOWN
    while graph.places >= 2 and known <= MOST_KNOWN:
        with precision(BITS):
            means = tuple(graph.means(known))
            begun = _Proof(graph, means, arb(graph.base))
            near = begun.excess(known)
            # Logarithms, as some are beyond the floats.
            largest = max([*means[begun.far :], graph.base * (1 + near)], key=lambda one: float(one.log()))
            proof = _Proof(graph, means, 2 * largest.upper())
            if proof.holds():
                return proof
        known *= 2
    return None


@lru_cache(maxsize=256)
def _exactly(graph: MixingGraph, owners: int) -> arb:
    def compute() -> tuple[arb, arb]:
        value = graph.means(owners)[owners] / graph.base - 1
        return value, value

    return until_sharp(compute, BITS)[0]


def mixing_distance(owners: int, places: int, base: int) -> arb:
    """½·√(E[N^(C−1)] − 1), an upper bound; at most 1."""
    with precision(BITS):
        half: arb = MixingGraph(places, base).excess(owners).upper().sqrt() / 2
        return half.upper() if half <= 1 else arb(1)
