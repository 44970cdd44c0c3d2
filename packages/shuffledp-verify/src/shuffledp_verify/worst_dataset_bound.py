"""The worst dataset: a divergence that holds for all values of all other users.

``decide_worst_dataset`` takes every law that another user's message may have (a ``LawFamily``); ``decide_binary`` takes
randomizers with two messages. The first bounds all datasets at once, described by the laws that their users have; the
second bounds few users by blocks of datasets.

Bounds on hulls of datasets: each of m independent summands has one of a few laws; p_x is the share of those that
have the law x, and M_x(t) = E exp(tG_x). Any τ > 0, variance v and step s satisfy

    E(S)_+ ≤ (s/2π)·Σ_k Re[exp(m·Σ_x p_x·log M_x(t_k) + v·t_k²/2)/t_k²],   t_k = τ + iks:

normal noise of variance v raises the left side (Jensen), and the trapezoid rule adds further non-negative terms
(Poisson summation; ``divergence.ContourSum``). Let p be in the hull of some corners and m between two numbers. The
exponent is linear in m·p, which is then in the hull of each corner times either number. So the phase of term k is
between its least and its largest value there; with C_k the largest cosine between these, the sum divided by m is at
most

    Σ_{C_k>0} C_k·exp(real part)/m − Σ_{C_k<0} |C_k|·(the least size at any of these points)/(the larger number),

convex in m and in p: it is largest at a corner, and between the two numbers it is below the chord. A hull is the union
of two: with the points a and b replaced in turn by their middle (Σλ_w·w with λ_a ≥ λ_b needs only a and the middle), or
of the hull of b and all middles to b, and that of these middles and all points but b.

``ContourNodes`` holds log M_x in balls. Nodes that contribute little are bounded by their size: by |M_x(τ+iu)/M_x(τ)|
in floats with a wide margin, and by exp(−2·u²·variance/π²) as long as no two values are more than π/u apart. After that
there are only sums of floats that are at most 1, times a margin far above their rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, combinations_with_replacement, pairwise
from operator import mul

from flint import acb, arb, arb_poly, fmpq

from shuffledp_verify.arithmetic import (
    Number,
    bound_positive_sum,
    delta_bits,
    exponential_ball,
    precision,
    rational,
    sum_balls,
)
from shuffledp_verify.divergence import Class, decide_divergence
from shuffledp_verify.verdict import Finding, Undecided, Verdict

Atoms = Sequence[tuple[arb, arb]]
"""Values of G and their weights."""
Row = list[float]
"""One number for each node."""
Logs = tuple[float, float]
"""Logarithms of bounds for the larger and for the smaller number of summands."""

# --- Nodes of the contour sum ---

MAX_SMOOTHING = 0.02
MIN_DEVIATION = 0.1
"""Least deviation of the sum S for the choice of the step, in units of 1/τ."""
ALIAS_DISTANCE = 8.0
"""Distance to the next alias, in deviations and in units of 1/τ."""
LAST_EXPONENT = 40.0
"""Exponent of the smoothing factor at which the sum ends."""
NEGLIGIBLE_NODES = 1e-6
"""Total weight of all nodes that are only bounded, relative to node 0."""
NEGLIGIBLE_EXPONENT = -60.0
"""A node that is known to be this many e-folds below node 0 needs no sharper bound."""
SMALL_MOMENT = 2.0**-30
"""Size of a moment, relative to that at τ, below which its phase counts as unknown."""
MAX_NODE_TERMS = 1_500_000
MARGIN = 1e-9
"""Relative margin far above the rounding error of any sum of floats here."""
PHASE_MARGIN = 1e-11
MAX_PHASE_MARGIN = 1e-4
MAX_PIECES = 400
FEW_CORNERS = 2
LAWS_TRIED = 4
"""Number of laws, those of the largest moments, whose datasets are tried first."""
UNKNOWN_PROBABILITY_REASON = "some probability of the others is not known well enough."


class _FloatLaw:
    """A law of G in floats, in units of the largest value of all laws, for planning and for bounds with a margin."""

    def __init__(self, atoms: Atoms, scale: float) -> None:
        self.values = [float(value.mid()) / scale for value, _ in atoms]
        self.weights = [float(weight.mid()) for _, weight in atoms]
        self.top = max(self.values)
        self.largest = max(map(abs, self.values))
        self.width = self.top - min(self.values)

    def log_moment(self, t: float) -> float:
        """Returns log M(t), computed from M − 1 near 0."""
        if t * self.top <= 1:
            rise = sum(w * math.expm1(t * value) for value, w in zip(self.values, self.weights, strict=True))
            if rise > -0.5:
                return math.log1p(rise)
        total = sum(w * math.exp(t * (value - self.top)) for value, w in zip(self.values, self.weights, strict=True))
        return t * self.top + math.log(total)

    def tilted(self, t: float) -> tuple[list[float], float, float]:
        """Returns the weights tilted by t, the mean and the variance."""
        raised = [w * math.exp(t * (value - self.top)) for value, w in zip(self.values, self.weights, strict=True)]
        total = sum(raised)
        weights = [weight / total for weight in raised]
        mean = sum(map(mul, weights, self.values))
        variance = sum(w * (value - mean) ** 2 for value, w in zip(self.values, weights, strict=True))
        return weights, mean, variance


def _saddle(laws: Sequence[_FloatLaw], count: int) -> tuple[float, float]:
    """Returns the minimiser of max_x count·log M_x(t) − 2·log t, and the tilted sum's standard deviation."""
    low, high = -80.0, 80.0
    for _ in range(50):
        middle = (low + high) / 2
        t = math.exp(middle)
        worst = max(laws, key=lambda law: law.log_moment(t))
        low, high = (low, middle) if count * t * worst.tilted(t)[1] > 2 else (middle, high)
    t = math.exp(low)
    worst = max(laws, key=lambda law: law.log_moment(t))
    return t, math.sqrt(count * worst.tilted(t)[2])


class ContourNodes:
    """The terms of the contour sum for all datasets of ``fewest`` to ``most`` summands with these laws.

    Everything planned in floats is sound for any choice: τ, the smoothing, the step, and the nodes that are summed.

    Args:
        kinds: Values of G and their weights, for each law.
        most: The largest number of summands.
        fewest: The smallest number of summands.
        cost: The cost of smoothing, relative to ε; the larger, the fewer nodes matter.

    Raises:
        Undecided: If the sum would be too long, or a probability is not known well enough.
    """

    def __init__(self, kinds: Sequence[Atoms], most: int, fewest: int, cost: float) -> None:
        self.most, self.fewest, self.kinds = most, fewest, len(kinds)
        self.scale = max(float(value.mid()) for atoms in kinds for value, _ in atoms)
        laws = [_FloatLaw(atoms, self.scale) for atoms in kinds]
        self.tau, deviation = _saddle(laws, fewest)
        deviation = max(deviation, MIN_DEVIATION / self.tau)
        smoothing = min(MAX_SMOOTHING, cost * max(1.0, (self.tau * deviation) ** 2))
        self.variance = 2 * smoothing / self.tau**2
        self.step = 2 * math.pi / (ALIAS_DISTANCE * deviation + ALIAS_DISTANCE / self.tau)
        scaled = [[(value / self.scale, weight) for value, weight in atoms] for atoms in kinds]
        tilted = [_tilted(atoms, self.tau) for atoms in scaled]
        self.tops = [moment.log() for _, moment in tilted]
        near, self.far = self._plan(laws)
        if len(near) * sum(map(len, kinds)) > MAX_NODE_TERMS:
            raise Undecided("the sum over all kinds of others would be too long.")
        self.u: Row = [self.step * k for k in near]
        self.known = [True] * len(near)
        self.size, self.turn, self.doubt = self._evaluate(scaled, [weights for weights, _ in tilted], near)
        self.common: Row = [-0.5 * self.variance * u**2 - math.log1p((u / self.tau) ** 2) for u in self.u]
        self.rotation: Row = [self.variance * self.tau * u - 2 * math.atan2(u, self.tau) for u in self.u]
        self.times: Row = [1.0 if k == 0 else 2.0 for k in near]

    def heights(self, count: int) -> list[arb]:
        """Returns count·log M_x(τ) for each law."""
        return [count * top for top in self.tops]

    def _plan(self, laws: Sequence[_FloatLaw]) -> tuple[list[int], float]:
        """Returns the nodes k ≥ 0 to sum, and a bound of the others' sum, relative to the highest node 0."""
        a = 0.5 * self.variance * self.step**2
        last = math.ceil(math.sqrt(LAST_EXPONENT / a))
        ends = [self.heights(count) for count in {self.most, self.fewest}]
        highest = [max(end, key=lambda height: float(height.mid())) for end in ends]
        sizes = [-math.inf] * (last + 1)
        for x, law in enumerate(laws):
            weights, _, spread = law.tilted(self.tau)
            spread = max(0.0, spread * (1 - 1e-6) - 1e-13 * law.largest**2)
            depth = max(float((end[x] - top).upper()) for end, top in zip(ends, highest, strict=True))
            for k in range(last + 1):
                u = self.step * k
                log = -2 / math.pi**2 * u * u * spread if u * law.width <= 3.14 else 0.0
                if depth + self.fewest * log > NEGLIGIBLE_EXPONENT:
                    log = min(log, _log_moment_size(law, weights, u))
                sizes[k] = max(sizes[k], depth + self.fewest * log)
        for k in range(last + 1):
            u = self.step * k
            sizes[k] += MARGIN - (0.5 * self.variance * u * u + math.log1p((u / self.tau) ** 2)) * (1 - MARGIN)
        order = sorted(range(1, last + 1), key=sizes.__getitem__)
        weighed = list(accumulate(math.exp(min(sizes[k], 0.0)) for k in order))
        few = next((place for place, weight in enumerate(weighed) if weight >= NEGLIGIBLE_NODES), len(order))
        beyond = math.exp(-a * (last + 1) ** 2) / -math.expm1(-2 * a * (last + 1))
        far = 2 * ((weighed[few - 1] if few else 0.0) + beyond) * (1 + 2 * MARGIN)
        return sorted([0, *order[few:]]), far

    def _evaluate(
        self, kinds: Sequence[Atoms], tilted: Sequence[Sequence[arb]], near: Sequence[int]
    ) -> tuple[list[Row], list[Row], float]:
        """Returns log|M_x(τ+iu)/M_x(τ)| and its argument for each law and node, and the largest error of either."""
        size, turn = ([[0.0] * len(near) for _ in kinds] for _ in range(2))
        doubt = 0.0
        for place, k in enumerate(near):
            u = arb(self.step) * k
            for x, (atoms, weights) in enumerate(zip(kinds, tilted, strict=True)):
                real, imaginary = arb(0), arb(0)
                for (value, _), weight in zip(atoms, weights, strict=True):
                    sine, cosine = (u * value).sin_cos()
                    real += weight * cosine
                    imaginary += weight * sine
                moment = acb(real, imaginary)
                if not abs(moment) > SMALL_MOMENT:
                    if not abs(moment) < 2 * SMALL_MOMENT:
                        raise Undecided(UNKNOWN_PROBABILITY_REASON)
                    self.known[place], size[x][place] = False, math.log(2 * SMALL_MOMENT)
                    continue
                log = moment.log()
                size[x][place], turn[x][place] = float(log.real.mid()), float(log.imag.mid())
                doubt = max(doubt, float(log.real.rad()), float(log.imag.rad()))
        if not math.isfinite(doubt):
            raise Undecided(UNKNOWN_PROBABILITY_REASON)
        return size, turn, doubt


def _log_moment_size(law: _FloatLaw, weights: Sequence[float], u: float) -> float:
    """Returns an upper bound of log|M(τ+iu)/M(τ)|, from floats."""
    real = sum(w * math.cos(u * value) for value, w in zip(law.values, weights, strict=True))
    imaginary = sum(w * math.sin(u * value) for value, w in zip(law.values, weights, strict=True))
    return math.log(min(1.0, math.hypot(real, imaginary) + 1e-11 + 1e-14 * u * law.largest))


def _tilted(atoms: Atoms, tau: float) -> tuple[list[arb], arb]:
    """Returns the weights tilted by τ, and M(τ)."""
    raised = [weight * (arb(tau) * value).exp() for value, weight in atoms]
    moment = sum_balls(raised)
    return [weight / moment for weight in raised], moment


# --- Hulls of datasets ---


@dataclass(frozen=True)
class Corner:
    """A dataset by the shares of its laws, with its terms for the larger and for the smaller number of summands.

    The exponent of each term is linear in the shares, so that the rows of a midpoint are the midpoints of the rows.
    """

    shares: tuple[float, ...]
    phases: tuple[Row, Row]
    """Phases of the terms, before the rotation common to all datasets."""
    logs: tuple[Row, Row]
    """Logarithms of the terms' sizes, before the factor common to all datasets."""
    magnitudes: tuple[Row, Row]
    """Sizes of the terms."""


class Hull:
    """The bound of the module's docstring, for datasets of ``most`` to ``fewest`` summands at these nodes."""

    def __init__(self, nodes: ContourNodes, most: int, fewest: int) -> None:
        assert nodes.most >= most >= fewest >= nodes.fewest
        self.nodes, self.counts = nodes, (most, fewest)
        ends = [nodes.heights(count) for count in self.counts]
        self.highest = max((height for end in ends for height in end), key=lambda height: float(height.mid()))
        self.corners: list[Corner] = []
        for x in range(nodes.kinds):
            logs, turns = [], []
            for end, count in zip(ends, self.counts, strict=True):
                depth = float((end[x] - self.highest).mid())
                logs.append([depth + count * size for size in nodes.size[x]])
                turns.append([count * turn for turn in nodes.turn[x]])
            shares = tuple(float(x == y) for y in range(nodes.kinds))
            self.corners.append(self._build_corner(shares, (turns[0], turns[1]), (logs[0], logs[1])))
        rows = [row for corner in self.corners for row in (*corner.logs, *corner.phases)]
        largest = max(max(map(abs, row)) for row in (*rows, nodes.common, nodes.rotation))
        known = max(float(height.rad()) for end in ends for height in end) + float(self.highest.rad())
        self.pad = PHASE_MARGIN + 1e-15 * (nodes.kinds + 64) * largest + 2 * (most * nodes.doubt + known)
        if not self.pad <= MAX_PHASE_MARGIN:
            raise Undecided("floats do not tell the phases well enough.")

    def _build_corner(self, shares: tuple[float, ...], turns: tuple[Row, Row], logs: tuple[Row, Row]) -> Corner:
        nodes = self.nodes
        first, second = (
            [times * math.exp(log + common) for log, common, times in zip(row, nodes.common, nodes.times, strict=True)]
            for row in logs
        )
        return Corner(shares, turns, logs, (first, second))

    def mix(self, one: Corner, other: Corner, share: float = 0.5) -> Corner:
        """Returns the mixture of two datasets, with weight ``share`` on the first."""

        def mixed(row: Sequence[float], second: Sequence[float]) -> Row:
            return [share * a + (1 - share) * b for a, b in zip(row, second, strict=True)]

        turns = mixed(one.phases[0], other.phases[0]), mixed(one.phases[1], other.phases[1])
        logs = mixed(one.logs[0], other.logs[0]), mixed(one.logs[1], other.logs[1])
        return self._build_corner(tuple(mixed(one.shares, other.shares)), turns, logs)

    @cached_property
    def log_unit(self) -> float:
        """The logarithm of the unit of all terms, rounded up."""
        tau, variance, step = arb(self.nodes.tau), arb(self.nodes.variance), arb(self.nodes.step)
        log = (step * self.nodes.scale / (2 * arb.pi() * tau * tau)).log() + self.highest + variance * tau * tau / 2
        return math.nextafter(float(log.upper()), math.inf)

    def bound(self, corners: Sequence[Corner]) -> tuple[Logs, list[float]]:
        """Returns the logarithms of both bounds of E(S)_+/m on a hull, and the weight of each of its corners."""
        nodes = self.nodes
        turns = [row for corner in corners for row in corner.phases]
        lows, highs = map(min, *turns), map(max, *turns)
        cosines = [
            _largest_cosine(low + rotation - self.pad, high + rotation + self.pad) if known else 1.0
            for low, high, rotation, known in zip(lows, highs, nodes.rotation, nodes.known, strict=True)
        ]
        positive, negative = [max(c, 0.0) for c in cosines], [max(-c, 0.0) for c in cosines]
        least = map(min, *(row for corner in corners for row in corner.magnitudes))
        taken = sum(map(mul, least, negative)) * math.exp(-self.pad) * (1 - MARGIN) / self.counts[0]
        sums = [[sum(map(mul, corner.magnitudes[end], positive)) for corner in corners] for end in (0, 1)]
        logs = []
        for each, count in zip(sums, self.counts, strict=True):
            total = (max(each) * math.exp(self.pad) * (1 + MARGIN) + nodes.far) / count - taken
            logs.append(self.log_unit + math.log(max(total * (1 + MARGIN), 1e-300)) + MARGIN)
        return (logs[0], logs[1]), sums[1]

    def _most_distant_corner(self, corners: Sequence[Corner], weights: Sequence[float], worst: int) -> int:
        """Returns the corner whose phases differ most from those of the worst corner; heavy corners are preferred."""
        centre, rows = corners[worst].phases[1], corners[worst].magnitudes[1]
        weighed = [size if u > 0 else 0.0 for size, u in zip(rows, self.nodes.u, strict=True)]
        found = []
        for corner, weight in zip(corners, weights, strict=True):
            turns = zip(corner.phases[1], centre, weighed, strict=True)
            apart = sum(min(abs(turn - middle), 2.0) * size for turn, middle, size in turns)
            found.append(apart * math.sqrt(min(weight / max(weights[worst], 1e-300), 1.0)) + 1e-12 * apart)
        return found.index(max(found))

    def sample(self) -> Logs:
        """Returns the largest bounds of a few datasets: constant ones of large moments, and even mixtures of two."""
        order = sorted(self.corners, key=lambda corner: -corner.logs[1][0])[:LAWS_TRIED]
        found = [self.bound([self.mix(a, b)])[0] for a, b in combinations_with_replacement(order, 2)]
        return max(most for most, _ in found), max(fewest for _, fewest in found)

    def prove(self, target: Logs) -> Logs:
        """Returns bounds over all datasets that are within a target; U ≤ 1 needs no proof.

        Args:
            target: Logarithms of the largest permitted bounds, for the larger and the smaller number.

        Returns:
            Logarithms of the bounds.

        Raises:
            Undecided: If the hull would have to be cut into too many pieces.
        """
        if min(target) >= 0:
            return 0.0, 0.0
        waiting = [list(self.corners)]
        largest, looked = (-math.inf, -math.inf), 0

        def is_within(corners: Sequence[Corner]) -> tuple[bool, list[float]]:
            nonlocal largest, looked
            looked += 1
            found, weights = self.bound(corners)
            if within := found[0] <= target[0] and found[1] <= target[1]:
                largest = max(largest[0], found[0]), max(largest[1], found[1])
            return within, weights

        while waiting:
            corners = waiting.pop()
            within, weights = is_within(corners)
            if within:
                continue
            worst = weights.index(max(weights))
            unlike = self._most_distant_corner(corners, weights, worst)
            if looked >= MAX_PIECES or worst == unlike:
                raise Undecided(
                    "the worst dataset is not separated from the others by the largest number of subdivisions."
                )
            if FEW_CORNERS < len(corners) <= self.nodes.kinds:
                near, far = self.split_around(corners, worst)
                if is_within(far)[0]:
                    waiting.append(near)
                    continue
            waiting += self.split_at_midpoint(corners, worst, unlike)
        return largest

    def split_around(self, corners: Sequence[Corner], place: int) -> tuple[list[Corner], list[Corner]]:
        """Returns two hulls that cover one: the part near a corner, and the rest."""
        near = [corner if index == place else self.mix(corner, corners[place]) for index, corner in enumerate(corners)]
        middles, rest = ([hull[i] for i in range(len(hull)) if i != place] for hull in (near, corners))
        return near, [*middles, *rest]

    def split_at_midpoint(self, corners: Sequence[Corner], a: int, b: int) -> tuple[list[Corner], list[Corner]]:
        """Returns two hulls that cover one: in each, one of two corners is replaced by their midpoint."""
        one, other = list(corners), list(corners)
        one[a] = other[b] = self.mix(corners[a], corners[b])
        return one, other


def _largest_cosine(low: float, high: float) -> float:
    """Returns the largest cosine between two angles."""
    turn = 2 * math.pi
    if math.floor(high / turn + MARGIN) >= math.ceil(low / turn - MARGIN):
        return 1.0
    return min(1.0, max(math.cos(low), math.cos(high)) + MARGIN)


# --- Every dataset of a family of laws ---

FAMILY_METHOD = "worst dataset: hulls of datasets, a contour sum in balls"
FAMILY_BITS = 128
BEYOND_EXPONENT = 10.0
"""The last block ends where the remaining probability is this many e-folds below δ."""
BLOCK_EDGES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.5, 8.5, 11.0, 15.0, 20.0)
"""Numbers of absent users at which blocks end, in multiples of their mean."""
FEW_BLOCK_EDGES = (0.0, 1.0, 3.0, 8.0)
FEW_BLOCKS_ABSENT_PERCENT = 0.02
"""FEW_BLOCK_EDGES are used if mean absent users times 1 + log(1/δ) are below this percentage of the others."""
SHARED_NODES_MIN_RATIO = 0.95
"""Blocks share their nodes if each has at least this share of the largest number of others."""
ROUNDING_ROOM = 1e-6
MIN_COST, ABSENCE_COST_RATIO, COST_FACTORS = 1e-5, 0.02, (4.0, 16.0)
"""Cost of smoothing relative to ε: its minimum, its ratio to the mean share of absent users, and factors to try next.

With few users the nodes of a lattice matter, and a few pieces do not separate their phases.
"""
DISPROOFS_TRIED = 3
"""Number of constant datasets that are tried for a disproof."""


@dataclass(frozen=True)
class LawFamily:
    """Two values of user 1, and every law that another user's message may have, for one direction.

    Attributes:
        gamma: The share of one law that every other user's law contains.
        kinds: The laws, each as the classes that ``decide_divergence`` takes.
    """

    gamma: fmpq
    kinds: tuple[tuple[Class, ...], ...]


@dataclass(frozen=True)
class _AbsentUsersBlock:
    """The largest and the smallest number of others in a block, and the probabilities of these two ends."""

    most: int
    fewest: int
    chances: tuple[arb, arb]


def decide_worst_dataset(family: LawFamily, others: int, epsilon: Fraction, delta: Fraction) -> Finding:
    """Decides whether D_{e^ε} ≤ δ for every dataset of the other users.

    Theorem: absent user (docs/crowds.md). Every other user's law is one of some kinds, a mixture of them, or below one
    in convex order, and at least γ times one law that is the same for all. With M others and U(m) the largest
    E(ΣG)_+/m over all datasets of m,

        D ≤ Σ_{h<M} γ(1−γ)^h·U(M−h) + (1−γ)^M,   U ≤ 1.

    The numbers h are combined in blocks. In each, ``Hull`` bounds U by a function of m that is convex, so that it lies
    below the chord between the block's ends; numbers beyond the last block count in full. A disproof is a constant
    dataset: U(M) is at least E(ΣG)_+/(M+1) of M + 1 messages of one kind, which ``decide_divergence`` computes.

    Args:
        family: Every law of another user's message, for one direction.
        others: Number of other users.
        epsilon: The claimed ε.
        delta: The claimed δ.

    Returns:
        Yes, no, or cannot decide.
    """
    with precision(FAMILY_BITS + 2 * others.bit_length()):
        try:
            if _is_proved(family, others, epsilon, arb(rational(delta))):
                return Finding(Verdict.YES, "the divergence is at most δ.", FAMILY_METHOD)
            reason = "δ is too near to the bound itself."
        except Undecided as error:
            reason = str(error)
    for kind in _widest_laws(family, epsilon):
        finding = decide_divergence(kind, others + 1, epsilon, delta)
        if finding.verdict is Verdict.NO:
            return Finding(Verdict.NO, finding.reason, f"one dataset: {finding.method}")
    return Finding(Verdict.OPEN, reason, FAMILY_METHOD)


def _is_proved(family: LawFamily, others: int, epsilon: Fraction, delta: arb) -> bool:
    """Returns True if the sum of the theorem is within δ."""
    ratio = exponential_ball(epsilon)
    kinds = [_summand(kind, ratio) for kind in family.kinds]
    if all(value <= 0 for atoms in kinds for value, _ in atoms):
        return bool((1 - arb(family.gamma)) ** others <= delta)
    if not any(value > 0 for atoms in kinds for value, _ in atoms) or not delta > 0:
        return False
    blocks, beyond = _blocks(family.gamma, others, -float(delta.log().mid()))
    least = max(MIN_COST, ABSENCE_COST_RATIO / (float(arb(family.gamma)) * others))
    undecided: Undecided | None = None
    for cost in (least, *(least * more for more in COST_FACTORS)):
        try:
            if _is_within(blocks, list(_hulls(kinds, blocks, cost)), delta - beyond):
                return True
        except Undecided as error:
            undecided = error
    if undecided is not None:
        raise undecided
    return False


def _is_within(blocks: Sequence[_AbsentUsersBlock], hulls: Sequence[Hull], most: arb) -> bool:
    """Returns True if the sum of all blocks is at most ``most``; blocks share the room that sampled datasets leave."""
    sampled = [hull.sample() for hull in hulls]
    total = _total(blocks, sampled)
    room = (most - total) * (1 - ROUNDING_ROOM) / 2
    if not room > 0:
        return False
    found = []
    for block, hull, logs in zip(blocks, hulls, sampled, strict=True):
        even = room / (2 * len(blocks))
        high, low = (
            _log_add_below(log, room * arb(log).exp() / total + even / chance)
            for log, chance in zip(logs, block.chances, strict=True)
        )
        found.append(hull.prove((high, low)))
    return bool(_total(blocks, found) <= most)


def _log_add_below(log: float, more: arb) -> float:
    """Returns a lower bound of log(e^log + more)."""
    return float((arb(log).exp() + more).log().lower()) if more.is_finite() else math.inf


def _hulls(kinds: Sequence[Atoms], blocks: Sequence[_AbsentUsersBlock], cost: float) -> Iterator[Hull]:
    """Yields a hull for each block; neighbouring blocks share their nodes."""
    left = list(blocks)
    while left:
        together = [block for block in left if block.fewest >= SHARED_NODES_MIN_RATIO * left[0].most] or left[:1]
        nodes = ContourNodes(kinds, together[0].most, together[-1].fewest, cost)
        yield from (Hull(nodes, block.most, block.fewest) for block in together)
        left = left[len(together) :]


def _total(blocks: Sequence[_AbsentUsersBlock], logs: Sequence[Logs]) -> arb:
    ends = [end for block, found in zip(blocks, logs, strict=True) for end in zip(block.chances, found, strict=True)]
    return sum_balls(chance * arb(min(0.0, log)).exp() for chance, log in ends)


def _blocks(gamma: fmpq, others: int, digits: float) -> tuple[list[_AbsentUsersBlock], arb]:
    """Returns blocks of h, each with the probabilities of its ends, and the probability of all h beyond them."""
    if gamma == 1:
        return [_AbsentUsersBlock(others, others, (arb(1), arb(0)))], arb(0)
    share = arb(gamma)
    stay = 1 - share
    mean = float((-1 / stay.log()).mid())
    last = min(others, math.ceil((digits + BEYOND_EXPONENT) * mean))
    parts = FEW_BLOCK_EDGES if mean * (1 + digits) < FEW_BLOCKS_ABSENT_PERCENT * others * 0.01 else BLOCK_EDGES
    edges = sorted({*(min(last, math.ceil(part * mean)) for part in parts), last})
    blocks = []
    for start, end in pairwise(edges):
        length = end - start
        before, after = stay**start, stay**end
        whole = before - after
        # Σ γ(1−γ)^h·(h − start)/(length − 1).
        late = (before * stay * (1 - stay**length) / share - length * after) / (length - 1) if length > 1 else arb(0)
        blocks.append(_AbsentUsersBlock(others - start, others - end + 1, (whole - late, late)))
    return blocks, stay**last


def _summand(kind: Sequence[Class], ratio: arb) -> list[tuple[arb, arb]]:
    """Returns the law of G = (first − e^ε·second)/hiding, with classes of the same proportions merged."""
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


def _widest_laws(family: LawFamily, epsilon: Fraction) -> list[tuple[Class, ...]]:
    """Returns the laws with the largest spread of G, in floats; they hide worst if all others have the same law."""
    ratio = math.exp(float(epsilon))

    def spread(kind: Sequence[Class]) -> float:
        chances = [[float(arb(chance)) for chance in each] for each in kind]
        return sum((first - ratio * second) ** 2 / hiding for first, second, hiding in chances if hiding > 0)

    return sorted(family.kinds, key=spread, reverse=True)[:DISPROOFS_TRIED]


# --- Two messages ---

MAX_EXHAUSTIVE_USERS, MAX_FALLBACK_USERS = 1_000, 100_000
"""Up to the first number, datasets are examined one by one; up to the second, also if hulls do not decide."""
MAX_BLOCKS = 400
BINARY_BITS, OMITTED_DELTA_SHARE = 160, 2.0**-60
"""The working precision, and the share of δ that is left out of a law."""
BINARY_METHOD = "sums over every count of every dataset in balls"


def decide_binary(high: Fraction, low: Fraction, users: int, epsilon: Fraction, delta: Fraction) -> Finding:
    """Decides whether every dataset of a randomizer with two messages is (ε, δ)-private.

    Few users: sums over every count, in balls, for every dataset or for many at once. Many: all datasets by their
    hulls, as for randomizers with more messages.

    Theorem: every other user's law is a mixture of the two coins, and D is convex in it, so that in the worst case each
    other user has one of them. The other direction is the same with the meaning of the messages exchanged.

    Args:
        high: The largest probability of one of the messages, over all values.
        low: Its least probability.
        users: Number of messages.
        epsilon: The claimed ε.
        delta: The claimed δ.

    Returns:
        Yes, no, or cannot decide.
    """
    found = [decide_binary_direction(high, low, users, epsilon, delta)]
    if (1 - low, 1 - high) != (high, low):
        found.append(decide_binary_direction(1 - low, 1 - high, users, epsilon, delta))
    # No takes precedence over cannot decide, and that over yes.
    order = (Verdict.NO, Verdict.OPEN, Verdict.YES)
    return min(found, key=lambda finding: order.index(finding.verdict))


def decide_binary_direction(high: Fraction, low: Fraction, users: int, epsilon: Fraction, delta: Fraction) -> Finding:
    """Decides one direction, high > low."""
    if users > MAX_EXHAUSTIVE_USERS:
        finding = decide_worst_dataset(_extreme_coin_family(high, low), users - 1, epsilon, delta)
        if finding.verdict is not Verdict.OPEN or users > MAX_FALLBACK_USERS:
            return finding
    with precision(BINARY_BITS + delta_bits(delta)):
        return _BinaryDatasets(high, low, users, epsilon, delta).decide()


def _extreme_coin_family(high: Fraction, low: Fraction) -> LawFamily:
    """Returns the family of the two extreme coins, with the share that all coins have in common."""
    first, second = rational(high), rational(low)
    kinds = tuple(
        ((first, second, other), (1 - first, 1 - second, 1 - other)) for other in (first, second) if 0 < other < 1
    )
    return LawFamily(second + 1 - first, kinds)


class _BinaryDatasets:
    """All datasets of one direction, at the working precision."""

    def __init__(self, high: Fraction, low: Fraction, users: int, epsilon: Fraction, delta: Fraction) -> None:
        self.high, self.low, self.others = arb(rational(high)), arb(rational(low)), users - 1
        factor = exponential_ball(epsilon)
        # With F messages 1 from the others, D = Σ_t (α·P(F = t−1) − β·P(F = t))₊.
        self.alpha = self.high - factor * self.low
        self.beta = factor * (1 - self.low) - (1 - self.high)
        self.delta = arb(rational(delta))

    def decide(self) -> Finding:
        """Decides blocks of datasets, and halve those whose common bound is too large.

        One more coin is post-processing: a dataset with a to b coins ``high`` reveals at most as much as one with a
        coins ``high`` and as many coins ``low`` as there are with b.
        """
        if self.alpha <= 0:
            return Finding(Verdict.YES, "no message is e^ε times likelier under one input.", "likelihood ratios")
        stack, looked = [(0, self.others)], 0
        while stack:
            first, last = stack.pop()
            lower, upper = self._divergence(first, self.others - last)
            looked += 1
            if upper <= self.delta:
                continue
            if first == last:
                if lower > self.delta:
                    reason = f"a dataset's divergence is above δ: at least {float(lower):.7g}."
                    return Finding(Verdict.NO, reason, BINARY_METHOD)
                return Finding(Verdict.OPEN, "δ is too near to the divergence itself.", BINARY_METHOD)
            if looked > MAX_BLOCKS:
                return Finding(Verdict.OPEN, "too many datasets are nearly as bad as the worst.", BINARY_METHOD)
            middle = (first + last) // 2
            stack += [(first, middle), (middle + 1, last)]
        return Finding(Verdict.YES, "the divergence is at most δ.", BINARY_METHOD)

    def _divergence(self, many: int, rest: int) -> tuple[arb, arb]:
        left_out = self.delta * OMITTED_DELTA_SHARE
        product = arb_poly(_binomial(many, self.high, left_out)) * arb_poly(_binomial(rest, self.low, left_out))
        law = product.coeffs()
        # If F lacks a little mass, every cell is off by at most α or β times a part of it.
        missing = (1 - sum_balls(law)).max(arb(0))
        lower, upper = bound_positive_sum(
            [arb(0), *(self.alpha * p for p in law)], [*(self.beta * p for p in law), arb(0)]
        )
        return (lower - self.beta * missing).lower(), (upper + self.alpha * missing).upper()


def _binomial(trials: int, chance: arb, left_out: arb) -> list[arb]:
    """Returns the probabilities of consecutive counts; unlikely counts at both ends are left out."""
    if trials == 0 or chance == 1 or chance == 0:
        return [arb(1)]
    odds, mode = chance / (1 - chance), round(trials * float(chance))
    peak = arb.bin_uiui(trials, mode) * chance**mode * (1 - chance) ** (trials - mode)
    up, down = [peak], [peak]
    while mode + len(up) <= trials and not up[-1] < left_out / trials:
        count = mode + len(up)
        up.append(up[-1] * odds * (trials - count + 1) / count)
    while mode - len(down) >= 0 and not down[-1] < left_out / trials:
        count = mode - len(down)
        down.append(down[-1] / odds * (count + 1) / (trials - count))
    return [*reversed(down[1:]), *up]
