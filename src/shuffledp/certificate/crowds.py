"""A proof, or a disproof, that no crowd leaves user 1 with a divergence above δ: the bound ``all-crowds``.

Theorem: absent user (docs/crowds.md). Every other user's law is one of some kinds, a mixture of them, or below one in
convex order, and at least γ times one law that is the same for all. With M others and U(m) the largest E(ΣG)_+/m over
all crowds of m,

    D ≤ Σ_{h<M} γ(1−γ)^h·U(M−h) + (1−γ)^M,   U ≤ 1.

The numbers h are taken together in some blocks. In each, ``certificate.crowd_hull`` bounds U by a function of m that is
convex, so that it lies below the chord between the block's ends; what is beyond the last block counts in full.
A disproof is a constant crowd: U(M) is at least E(ΣG)_+/(M+1) of M + 1 messages of one kind, which ``judge`` knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb, fmpq

from shuffledp.certificate.counts import Number
from shuffledp.certificate.crowd_hull import Atoms, Hull, Logs, Nodes, Undecided
from shuffledp.certificate.proof import Class, Finding, Verdict, exponential, judge
from shuffledp.numerics.ball import precision

METHOD = "worst crowd: hulls of crowds, a contour sum in balls"
BITS = 128
LEFT = 10.0
"""What is beyond the last block is planned this many e-folds below δ."""
EDGES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.5, 8.5, 11.0, 15.0, 20.0)
"""Where blocks end, in means of h."""
FEW_EDGES = (0.0, 1.0, 3.0, 8.0)
HARDLY = 0.02
"""Where the lost users cost less than this share of ε, a few blocks do."""
TOGETHER = 0.95
"""Blocks share their nodes as long as so many of the others are left."""
ROUNDING = 1e-6
LEAST_COST, OF_THE_LOSS, MORE = 1e-5, 0.02, (4.0, 16.0)
"""What smoothing may cost, relative to ε: the least, the same as a share of what the lost users cost, and how much more
is tried. Where few take part the nodes of a lattice count, whose phases no few pieces tell."""
LIKELY = 3
"""How many constant crowds are looked at for a disproof."""


@dataclass(frozen=True)
class Family:
    """Two inputs of user 1, and every kind of others: classes as ``judge`` takes them, for one direction."""

    gamma: fmpq
    kinds: tuple[tuple[Class, ...], ...]


@dataclass(frozen=True)
class _Block:
    """So many others at the most and at the least, and the chances that go with these two ends."""

    most: int
    fewest: int
    chances: tuple[arb, arb]


def judge_crowds(family: Family, others: int, epsilon: Fraction, delta: Fraction) -> Finding:
    """Whether the divergence is at most δ at ε for every crowd of so many others, by the theorem above."""
    with precision(BITS + 2 * others.bit_length()):
        try:
            if _proved(family, others, epsilon, arb(fmpq(delta.numerator, delta.denominator))):
                return Finding(Verdict.YES, "the divergence is at most δ.", METHOD)
            reason = "δ is too near to the bound itself."
        except Undecided as error:
            reason = str(error)
    for kind in _likely(family, epsilon):
        finding = judge(kind, others + 1, epsilon, delta)
        if finding.verdict is Verdict.NO:
            return Finding(Verdict.NO, finding.reason, f"one crowd: {finding.method}")
    return Finding(Verdict.OPEN, reason, METHOD)


def _proved(family: Family, others: int, epsilon: Fraction, delta: arb) -> bool:
    """Whether the sum is within δ."""
    below, above = exponential(epsilon)
    ratio = arb(below).union(arb(above))
    kinds = [_summand(kind, ratio) for kind in family.kinds]
    if all(value <= 0 for atoms in kinds for value, _ in atoms):
        return bool((1 - arb(family.gamma)) ** others <= delta)
    if not any(value > 0 for atoms in kinds for value, _ in atoms) or not delta > 0:
        return False
    blocks, beyond = _blocks(family.gamma, others, -float(delta.log().mid()))
    least = max(LEAST_COST, OF_THE_LOSS / (float(arb(family.gamma)) * others))
    undecided: Undecided | None = None
    for cost in (least, *(least * more for more in MORE)):
        try:
            if _is_within(blocks, list(_hulls(kinds, blocks, cost)), delta - beyond):
                return True
        except Undecided as error:
            undecided = error
    if undecided is not None:
        raise undecided
    return False


def _is_within(blocks: Sequence[_Block], hulls: Sequence[Hull], most: arb) -> bool:
    """Whether all blocks are within a sum; they share the room that a few crowds leave, half of it evenly."""
    seen = [hull.seen() for hull in hulls]
    total = _total(blocks, seen)
    room = (most - total) * (1 - ROUNDING) / 2
    if not room > 0:
        return False
    found = []
    for block, hull, logs in zip(blocks, hulls, seen, strict=True):
        even = room / (2 * len(blocks))
        high, low = (
            _log_above(log, room * arb(log).exp() / total + even / chance)
            for log, chance in zip(logs, block.chances, strict=True)
        )
        found.append(hull.proved((high, low)))
    return bool(_total(blocks, found) <= most)


def _log_above(log: float, more: arb) -> float:
    """log(e^log + more), or less."""
    return float((arb(log).exp() + more).log().lower()) if more.is_finite() else math.inf


def _hulls(kinds: Sequence[Atoms], blocks: Sequence[_Block], cost: float) -> Iterator[Hull]:
    """One for each block, neighbours with the same nodes."""
    left = list(blocks)
    while left:
        together = [block for block in left if block.fewest >= TOGETHER * left[0].most] or left[:1]
        nodes = Nodes(kinds, together[0].most, together[-1].fewest, cost)
        yield from (Hull(nodes, block.most, block.fewest) for block in together)
        left = left[len(together) :]


def _total(blocks: Sequence[_Block], logs: Sequence[Logs]) -> arb:
    ends = [end for block, found in zip(blocks, logs, strict=True) for end in zip(block.chances, found, strict=True)]
    return sum((chance * arb(min(0.0, log)).exp() for chance, log in ends), arb(0))


def _blocks(gamma: fmpq, others: int, digits: float) -> tuple[list[_Block], arb]:
    """Blocks of h, each with the chances of its ends, and the chance of all that is beyond them."""
    if gamma == 1:
        return [_Block(others, others, (arb(1), arb(0)))], arb(0)
    share = arb(gamma)
    stay = 1 - share
    mean = float((-1 / stay.log()).mid())
    last = min(others, math.ceil((digits + LEFT) * mean))
    parts = FEW_EDGES if mean * (1 + digits) < HARDLY * others * 0.01 else EDGES
    edges = sorted({*(min(last, math.ceil(part * mean)) for part in parts), last})
    blocks = []
    for start, end in pairwise(edges):
        length = end - start
        before, after = stay**start, stay**end
        whole = before - after
        # Σ γ(1−γ)^h·(h − start)/(length − 1).
        late = (before * stay * (1 - stay**length) / share - length * after) / (length - 1) if length > 1 else arb(0)
        blocks.append(_Block(others - start, others - end + 1, (whole - late, late)))
    return blocks, stay**last


def _summand(kind: Sequence[Class], ratio: arb) -> list[tuple[arb, arb]]:
    """G = (first − e^ε·second)/hiding; classes in the same proportions are one."""
    merged: dict[tuple[Number, Number], Number] = {}
    balls = []
    for first, second, hiding in kind:
        if hiding == 0 and first == 0 and second == 0:
            continue
        if not hiding > 0:
            raise Undecided("a probability of the others is not known to be positive.")
        if isinstance(first, fmpq) and isinstance(second, fmpq) and isinstance(hiding, fmpq):
            place = first / hiding, second / hiding
            merged[place] = merged.get(place, fmpq(0)) + hiding
        else:
            balls.append(((first - ratio * second) / hiding, arb(hiding)))
    return [*((first - ratio * second, arb(hiding)) for (first, second), hiding in merged.items()), *balls]


def _likely(family: Family, epsilon: Fraction) -> list[tuple[Class, ...]]:
    """The kinds with the largest spread of G, in floats: they hide worst, if all others are of one kind."""
    ratio = math.exp(float(epsilon))

    def spread(kind: Sequence[Class]) -> float:
        chances = [[float(arb(chance)) for chance in each] for each in kind]
        return sum((first - ratio * second) ** 2 / hiding for first, second, hiding in chances if hiding > 0)

    return sorted(family.kinds, key=spread, reverse=True)[:LIKELY]
