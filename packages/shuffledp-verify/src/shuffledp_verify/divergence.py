"""The hockey-stick divergence of shuffled messages, for one law of the others' messages; ``RandomBlanket`` averages it.

Everything rests on identity (★): with n messages in all and G = (first − e^ε·second)/hiding under the law ``hiding``,
D = (1/n)·E(S)_+, S = G_1 + … + G_n. A law is a list of classes of messages; each class has its probability under the
user's first value (``first``), under the second (``second``), and in another user's message (``hiding``).

E(S)_+ is enclosed from both sides, by the first of these that is short enough:

- every vector of counts, in exact rationals if the law is exact (``enumerate_counts``);
- a contour sum in balls (``ContourSum``);
- binomial sums in balls (``sum_binomials``).

e^ε is replaced by a rational just below it for a proof (D falls as e^ε grows), just above it for a disproof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import acb, arb, fmpq

from shuffledp_verify.arithmetic import (
    Enclosure,
    Number,
    bracket_exponential,
    positive_part,
    precision,
    rational,
    sum_balls,
)
from shuffledp_verify.verdict import Finding, Verdict

Class = tuple[Number, Number, Number]
"""First, second and hiding probability of one class of messages."""
Atom = tuple[Number, Number]
"""A value of G and its weight."""

ZERO = fmpq(0)
MAX_VECTORS = 3_000
MAX_VECTOR_ATOMS = 40
MAX_BITS = 100_000
"""Largest length in bits of the exact fractions in an enumeration."""
MAX_BINOMIALS = 50_000
NEGLIGIBLE_SHARE = 1e-15
"""Counts whose total contribution is below this share of the target are only bounded."""
MAX_BINOMIAL_USERS = 1_500
PROOF_BITS = 512


# --- Few users: every vector of counts ---


def can_enumerate(atoms: Sequence[Atom], users: int) -> bool:
    """Returns True if there are few enough vectors of counts."""
    if users == 1:
        return True
    bits = max(int(weight.q).bit_length() if isinstance(weight, fmpq) else 0 for _, weight in atoms)
    few = math.comb(users + len(atoms) - 1, users) <= MAX_VECTORS
    return few and len(atoms) <= MAX_VECTOR_ATOMS and users * bits <= MAX_BITS


def enumerate_counts(atoms: Sequence[Atom], users: int, target: Number = ZERO) -> Number:
    """Returns E(S)_+ by every vector of counts, exactly if the law is exact.

    Args:
        atoms: Values of G and their weights.
        users: Number of summands.
        target: Unused; ``sum_binomials`` has the same parameters.

    Returns:
        E(S)_+.
    """
    if users == 1:
        return _total(weight * positive_part(value) for value, weight in atoms)
    powers = [_powers(weight, users) for _, weight in atoms]

    def visit(index: int, left: int, chance: Number, total: Number) -> Number:
        value = atoms[index][0]
        if index == len(atoms) - 1:
            return chance * powers[index][left] * positive_part(total + left * value)
        return _total(
            visit(index + 1, left - k, chance * math.comb(left, k) * powers[index][k], total + k * value)
            for k in range(left + 1)
        )

    return visit(0, users, fmpq(1), fmpq(0))


def _powers(weight: Number, most: int) -> list[Number]:
    result: list[Number] = [fmpq(1)]
    for _ in range(most):
        result.append(result[-1] * weight)
    return result


def _total(numbers: Iterable[Number]) -> Number:
    total: Number = fmpq(0)
    for number in numbers:
        total = total + number
    return total


# --- More users: binomial sums ---


def can_sum_binomials(atoms: Sequence[Atom], users: int) -> bool:
    """Returns True if there are few enough counts of the middle values."""
    middle = len(atoms) - 2
    few = middle >= 0 and math.comb(users + middle, middle) <= MAX_BINOMIALS
    return few and users <= MAX_BINOMIAL_USERS


def sum_binomials(atoms: Sequence[Atom], users: int, target: Number = ZERO) -> arb:
    """Returns E(S)_+ as a ball whose width is negligible against ``target``.

    Given the counts of the middle values, c messages are left for the outermost two; k of them on the larger one with
    probability C(c,k)·ρ^k(1−ρ)^(c−k). Then S = base + k·gap, and E(S)_+ is the largest over K of
    E[S; k ≥ K] = gap·c·ρ·P(Bin(c−1, ρ) ≥ K−1) + base·P(Bin(c, ρ) ≥ K), attained at the least K with S > 0.

    Args:
        atoms: Values of G and their weights.
        users: Number of summands.
        target: The number to compare E(S)_+ with.

    Returns:
        A ball that contains E(S)_+.
    """
    # With as many bits as there are terms, FLINT sums the finite series of the incomplete beta function.
    with precision(users + PROOF_BITS):
        (bottom, bottom_weight), *middle, (top, top_weight) = sorted(atoms, key=lambda atom: float(arb(atom[0]).mid()))
        gap, outer = top - bottom, bottom_weight + top_weight
        share = arb(top_weight) / arb(outer)
        powers = [_powers(arb(weight), users) for weight in (outer, *(weight for _, weight in middle))]
        factorials = [arb(math.factorial(k)) for k in range(users + 1)]
        total, left_out = arb(0), arb(0)
        most = users * arb(top)
        negligible = arb(target) * NEGLIGIBLE_SHARE / most / math.comb(users + len(middle), len(middle))
        for counts in _compositions(users, len(powers)):
            c = counts[0]
            chance = factorials[users]
            for k, power in zip(counts, powers, strict=True):
                chance = chance * power[k] / factorials[k]
            if chance <= negligible:
                left_out += chance
                continue
            base = c * bottom + _total(k * value for k, (value, _) in zip(counts[1:], middle, strict=True))
            candidates = [k for k in _least_positive_counts(base, gap) if k <= c]
            if not candidates:
                continue
            inner = arb(0)
            for least in candidates:
                part = arb(base) * _tail(c, least, share)
                if c:
                    part += arb(gap) * c * share * _tail(c - 1, least - 1, share)
                inner = inner.max(part)
            total += chance * inner
        return total.union(total + left_out * most)


def _least_positive_counts(base: Number, gap: Number) -> range:
    """Returns the least k ≥ 0 with base + k·gap > 0; if balls leave it open, every candidate."""
    if isinstance(base, fmpq) and isinstance(gap, fmpq):
        quotient = -base / gap
        least = max(0, int(quotient.p) // int(quotient.q) + 1)
        return range(least, least + 1)
    ball = -arb(base) / arb(gap)
    return range(max(0, _floor(ball.lower()) + 1), max(0, _floor(ball.upper()) + 1) + 1)


def _floor(number: arb) -> int:
    """Returns the floor of an exact ball."""
    mantissa, exponent = map(int, number.man_exp())
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent


def _tail(trials: int, least: int, share: arb) -> arb:
    """Returns P(Bin(trials, share) ≥ least)."""
    if least <= 0:
        return arb(1)
    if least > trials:
        return arb(0)
    return share.beta_lower(least, trials - least + 1, regularized=True)


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for head in range(total + 1):
        for tail in _compositions(total - head, parts - 1):
            yield (head, *tail)


# --- Many users: contour sums ---

MAX_TERMS = 3_000_000
"""Largest number of exponentials in one contour sum."""
EARLY_STOP_LOG_MARGIN = 7.0
"""Once the bound of a block of nodes is this many e-folds below its target, further pairs of values are skipped."""
MAX_VALUES_FOR_PAIRS = 12
"""Up to this many values a block of nodes is bounded by all pairs of them, beyond by a matching."""


class ContourSum:
    """E(S)_+ by a contour sum on the line Re t = τ > 0, for one law and one n, at the working precision.

    S is smoothed by a normal variable of variance v (which raises E(S)_+, by at most v times the density of the
    smoothed sum at 0). The trapezoid rule is then applied to

        E(S + √v·Z)_+ = (1/2πi) ∫ M(t)^n·exp(v·t²/2)·t^(−2) dt,   M(t) = E exp(tG),

    which raises it again, by the sum over m ≠ 0 of exp(τy)·E(S + √v·Z − y)_+ at y = 2πm/step (Poisson summation).
    """

    def __init__(self, atoms: Sequence[tuple[arb, arb]], users: int) -> None:
        self.users = users
        self.values = [value for value, _ in atoms]
        self.weights = [weight for _, weight in atoms]
        self.tilt = self._saddle()
        tau = arb(self.tilt)
        tilted = [weight * (tau * value).exp() for value, weight in atoms]
        self.moment = sum_balls(tilted)
        self.tilted = [weight / self.moment for weight in tilted]
        mean = sum_balls(weight * value for value, weight in zip(self.values, self.tilted, strict=True))
        spread = sum_balls(
            w * (value - mean) * (value - mean) for value, w in zip(self.values, self.tilted, strict=True)
        )
        self.deviation = math.sqrt(max(0.0, users * float(spread.mid())) + 2 / self.tilt**2)
        """The width of the integrand's peak is 1/deviation."""

    def _saddle(self) -> float:
        """Returns approximately the minimum over t > 0 of M(t)^n·t^(−2): any τ > 0 is sound, this one is tight."""
        largest = max(float(value.mid()) for value in self.values)
        low, high = -60.0, 60.0
        for _ in range(30):
            middle = (low + high) / 2
            t = arb(2.0**middle / largest)
            parts = [
                weight * (t * (value - largest)).exp() for value, weight in zip(self.values, self.weights, strict=True)
            ]
            slope = (
                t * sum_balls(part * value for part, value in zip(parts, self.values, strict=True)) / sum_balls(parts)
            )
            low, high = (low, middle) if float((self.users * slope).mid()) > 2 else (middle, high)
        return float(2.0**low / largest)

    def enclose(self, smoothing: float) -> Enclosure | None:
        """Encloses E(S)_+ with v = smoothing/τ².

        Args:
            smoothing: v·τ²; the smaller, the closer the two sides, relatively.

        Returns:
            Both sides; None if the sum would be too long.
        """
        tau, variance = arb(self.tilt), arb(smoothing / self.tilt**2)
        digits = math.log(1 / smoothing) + 14
        shifts, step = self._choose_spacing(variance, digits)
        nodes = self._choose_nodes(variance, step, digits)
        if nodes is None:
            return None
        kept, left_out = nodes
        smoothed, density = self._sum_nodes(kept, variance, step)
        unit = step / (2 * arb.pi()) * self._power(tau, variance)
        missing = unit * left_out
        upper = unit * smoothed + missing / tau**2
        aliases = sum_balls(
            self._chernoff(tau + d, variance) / ((abs(d) * 2 * arb.pi() / step).exp() - 1) for d in shifts
        )
        lower = unit * smoothed - missing / tau**2 - aliases - variance * (unit * density + missing)
        return Enclosure(lower.lower(), upper.upper())

    def _power(self, theta: arb, variance: arb) -> arb:
        """Returns M(θ)^n·exp(v·θ²/2)."""
        moment = sum_balls(w * (theta * value).exp() for value, w in zip(self.values, self.weights, strict=True))
        return (self.users * moment.log() + variance * theta * theta / 2).exp()

    def _chernoff(self, theta: arb, variance: arb) -> arb:
        """Returns a bound of exp(θy)·E(S + √v·Z − y)_+ for every y, by (x)_+ ≤ exp(θx)/(eθ)."""
        return self._power(theta, variance) / (arb(1).exp() * theta)

    def _choose_spacing(self, variance: arb, digits: float) -> tuple[tuple[arb, arb], arb]:
        """Returns shifts from τ to the right and left for the Chernoff bounds, and a step that makes them small."""
        tau = arb(self.tilt)
        height = self._power(tau, variance) / (tau * tau * self.deviation * 2.5)

        def distance(shift: float) -> float:
            ratio = self._chernoff(tau + shift, variance) / height
            return (float(ratio.log().mid()) + digits) / abs(shift)

        rights = [0.5 * 1.25**k / self.deviation for k in range(20)]
        lefts = [-self.tilt * share for share in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)]
        right, left = min(rights, key=distance), min(lefts, key=distance)
        length = max(distance(right), distance(left), 2 * self.deviation)
        return (arb(right), arb(left)), arb(2 * math.pi / length)

    def _choose_nodes(self, variance: arb, step: arb, digits: float) -> tuple[list[int], arb] | None:
        """Returns the nodes k ≥ 0 to sum, and a bound of Σ |M(t)^n·exp(v·t²/2)| over all others, relative to node 0.

        |M(τ+iu)|² = M(τ)²·(1 − Σ 4·w_a·w_b·sin²(u(A_a − A_b)/2)) over all pairs of values, w their tilted weights. For
        many values: |M(τ+iu)| ≤ M(τ)·(1 − Σ 2·w_a·w_b/(w_a + w_b)·sin²(…)) over the pairs of a matching, by the
        triangle inequality. A block of nodes is bounded at once, with the sine evaluated on a ball that contains them
        all.
        """
        reach = math.ceil(math.sqrt(2 * (digits + 20) / float(variance.mid())) / float(step.mid()))
        level = arb(-(digits + math.log(reach)))
        pairs, power = self._value_pairs()
        widest = max((float(abs(gap).upper()) for _, gap in pairs), default=0.0) * float(step.mid())
        size = max(1, min(1 << 20, int(1 / max(widest, 1e-9))))
        if reach / size * len(pairs) > MAX_TERMS:
            return None
        most = MAX_TERMS // len(self.values)
        kept, left_out = [0], arb(0)
        stack = [(start, min(reach, start + size - 1)) for start in range(1, reach + 1, size)]
        stack.reverse()
        while stack:
            first, last = stack.pop()
            count = last - first + 1
            decay = -variance * (step * first) ** 2 / 2
            u = step * arb(first + last, count) / 4
            enough = -(((level - EARLY_STOP_LOG_MARGIN - decay) / power).expm1())
            hold = arb(0)
            for part, gap in pairs:
                hold += part * (u * gap).sin().abs_lower() ** 2
                # No term is negative, so that leaving terms out is sound.
                if hold > enough:
                    break
            if hold < 1:
                decay += power * (-hold).log1p()
            if decay <= level:
                left_out += count * decay.exp()
            elif count <= 2:
                kept += range(first, last + 1)
                if len(kept) > most:
                    return None
            else:
                middle = (first + last) // 2
                stack += [(middle + 1, last), (first, middle)]
        # Beyond: exp(−v·u²/2), each node at most exp(−v·step²·(reach + 1)) times the one before.
        after = reach + 1
        rate = variance * step * step
        left_out += (-rate * after * after / 2).exp() / (1 - (-rate * after).exp())
        return kept, 2 * left_out

    def _value_pairs(self) -> tuple[list[tuple[arb, arb]], arb]:
        """Returns factor and difference of each pair of values, and the power of the bound."""
        atoms = sorted(zip(self.values, self.tilted, strict=True), key=lambda atom: float(atom[0].mid()))
        if len(atoms) <= MAX_VALUES_FOR_PAIRS:
            every = [(4 * w * y, a - b) for i, (a, w) in enumerate(atoms) for b, y in atoms[:i]]
            return _heaviest_first(every), arb(self.users) / 2
        half = len(atoms) // 2
        matching = zip(atoms[:half], atoms[half:], strict=False)
        return _heaviest_first((2 * w * y / (w + y), a - b) for (a, w), (b, y) in matching), arb(self.users)

    def _sum_nodes(self, kept: Sequence[int], variance: arb, step: arb) -> tuple[arb, arb]:
        """Returns Σ M(t)^n·exp(v·t²/2), relative to node 0, over the chosen nodes and their mirror images.

        First with the factor t^(−2), then without.
        """
        tau = arb(self.tilt)
        with_square, without = arb(0), arb(0)
        for k in kept:
            u = step * k
            real, imaginary = arb(0), arb(0)
            for value, weight in zip(self.values, self.tilted, strict=True):
                sine, cosine = (u * value).sin_cos()
                real += weight * cosine
                imaginary += weight * sine
            term = acb(real, imaginary) ** self.users * acb(-variance * u * u / 2, variance * tau * u).exp()
            twice = 1 if k == 0 else 2
            without += twice * term.real
            with_square += twice * (term / acb(tau, u) ** 2).real
        return with_square, without


def _heaviest_first(pairs: Iterable[tuple[arb, arb]]) -> list[tuple[arb, arb]]:
    return sorted(pairs, key=lambda pair: -float(pair[0].mid()))


# --- Decision for one law ---

PositivePartMethod = Callable[[Sequence[Atom], int, Number], Number]
"""E(S)_+ of a law and a number of draws, precise enough for a target."""

GUARD_BITS = 96


def decide_divergence(classes: Sequence[Class], users: int, epsilon: Fraction, delta: Fraction) -> Finding:
    """Decides whether D_{e^ε}(P‖Q) ≤ δ if user 1's message has the law ``first`` or ``second``, the others' ``hiding``.

    Requires: each of the three laws sums to 1; a class that hides with probability 0 reveals user 1.

    Args:
        classes: The law.
        users: Number of messages, including user 1's.
        epsilon: The claimed ε.
        delta: The claimed δ.

    Returns:
        Yes, no, or cannot decide.
    """
    with precision(PROOF_BITS):
        bound = rational(delta)
        below, above = bracket_exponential(epsilon)
        low, high = _build_summand(classes, below), _build_summand(classes, above)
        if low is None or high is None:
            return Finding(Verdict.OPEN, "a hiding probability is not known to be positive.", "none")
        if low.is_never_positive and low.revealed <= bound:
            return Finding(Verdict.YES, "no message is e^ε times likelier under one input.", "likelihood ratios")
        if high.revealed > bound:
            return _disproved_finding(high, users, arb(0), bound, "messages that nobody hides")
        if low.is_never_positive or not any(value > 0 for value, _ in high.atoms):
            return Finding(Verdict.OPEN, "e^ε is too near to the largest likelihood ratio.", "likelihood ratios")
        if can_enumerate(low.merged_atoms, users):
            return _decide_by_sum(enumerate_counts, "enumeration of all counts", low, high, users, bound)
        quick = _decide_by_contour(low, high, users, bound, attempts=1)
        if quick.verdict is not Verdict.OPEN:
            return quick
        if can_sum_binomials(low.merged_atoms, users):
            return _decide_by_sum(sum_binomials, "binomial sums in balls", low, high, users, bound)
        return _decide_by_contour(low, high, users, bound, attempts=8)


def enclose_divergence(classes: Sequence[Class], users: int, epsilon: Fraction, smoothing: float) -> Enclosure | None:
    """Encloses the divergence itself by one contour sum, or by counts for few users.

    Requires: as for ``decide_divergence``.

    Args:
        classes: The law.
        users: Number of messages, including user 1's.
        epsilon: The ε at which the divergence is enclosed.
        smoothing: The smaller, the closer the two sides, relatively.

    Returns:
        Both sides; None if the sum would be too long.
    """
    with precision(GUARD_BITS + 2 * users.bit_length() + PROOF_BITS):
        below, above = bracket_exponential(epsilon)
        low, high = _build_summand(classes, below), _build_summand(classes, above)
        if low is None or high is None:
            return None
        revealed = arb(low.revealed).union(arb(high.revealed))
        if low.is_never_positive or not any(value > 0 for value, _ in high.atoms):
            return Enclosure(revealed.lower(), revealed.upper()) if low.is_never_positive else None
        if can_enumerate(low.merged_atoms, users):
            least, most = (
                arb(enumerate_counts(high.merged_atoms, users)),
                arb(enumerate_counts(low.merged_atoms, users)),
            )
            return Enclosure((least / users + revealed).lower(), (most / users + revealed).upper())
    with precision(GUARD_BITS + 2 * users.bit_length()):
        atoms = [(arb(a).union(arb(b)), arb(weight)) for (a, weight), (b, _) in zip(low.atoms, high.atoms, strict=True)]
        sides = ContourSum(atoms, users).enclose(smoothing)
        if sides is None:
            return None
        lower = sides.lower.max(arb(0)) / users + revealed
        return Enclosure(lower.lower(), (sides.upper / users + revealed).upper())


def _decide_by_sum(
    mean: PositivePartMethod, method: str, low: _Summand, high: _Summand, users: int, bound: fmpq
) -> Finding:
    """Compares E(S)_+ itself with its target."""
    target = users * (bound - low.revealed)
    if mean(low.merged_atoms, users, target) <= target:
        return _proved_finding(method)
    target = users * (bound - high.revealed)
    value = mean(high.merged_atoms, users, target)
    if value > target:
        return _disproved_finding(high, users, arb(value), bound, method)
    return Finding(Verdict.OPEN, "δ is too near to the divergence itself.", method)


def _decide_by_contour(low: _Summand, high: _Summand, users: int, bound: fmpq, *, attempts: int) -> Finding:
    """Decreases the smoothing until one side decides or the sum would be too long."""
    method = "contour sum in balls"
    with precision(GUARD_BITS + 2 * users.bit_length()):
        # One ball for each value contains it at both rationals, hence at e^ε itself.
        atoms = [(arb(a).union(arb(b)), arb(weight)) for (a, weight), (b, _) in zip(low.atoms, high.atoms, strict=True)]
        target = users * (arb(bound) - arb(low.revealed).union(arb(high.revealed)))
        contour = ContourSum(atoms, users)
        smoothing = 1e-3
        for _ in range(attempts):
            sides = contour.enclose(smoothing)
            if sides is None:
                break
            if sides.upper <= target:
                return _proved_finding(method)
            if sides.lower > target:
                return _disproved_finding(high, users, sides.lower, bound, method)
            middle = (sides.lower + sides.upper) / 2
            gap = abs(float((middle / target - 1).mid())) if target > 0 else 0.0
            smoothing = min(smoothing / 8, max(gap / 3, smoothing / 1000))
        return Finding(Verdict.OPEN, "the sum that would decide it is too long.", method)


def _proved_finding(method: str) -> Finding:
    return Finding(Verdict.YES, "the divergence is at most δ.", method)


def _disproved_finding(summand: _Summand, users: int, mean: arb, bound: fmpq, method: str) -> Finding:
    least = float((mean.lower() / users + arb(summand.revealed)).lower())
    reason = f"this bound's divergence is above δ: at least {least:.7g} against {float(arb(bound)):.7g}."
    return Finding(Verdict.NO, reason, method)


@dataclass(frozen=True)
class _Summand:
    """The law of G, and the divergence of the messages that no other user ever sends."""

    atoms: list[Atom]
    revealed: Number

    @property
    def is_never_positive(self) -> bool:
        """True if no value of G can be above 0."""
        return all(value <= 0 for value, _ in self.atoms)

    @property
    def merged_atoms(self) -> list[Atom]:
        """The atoms with equal exact values merged."""
        exact: dict[fmpq, Number] = {}
        balls: list[Atom] = []
        for value, weight in self.atoms:
            if isinstance(value, fmpq):
                exact[value] = exact.get(value, ZERO) + weight
            else:
                balls.append((value, weight))
        return [*exact.items(), *balls]


def _build_summand(classes: Sequence[Class], ratio: fmpq) -> _Summand | None:
    """Returns the law of G = (first − ratio·second)/hiding, with exact classes merged that agree for every ratio.

    None if a hiding probability may be 0. The order of the values does not depend on the ratio.
    """
    revealed: Number = fmpq(0)
    kinds: dict[tuple[fmpq, fmpq], fmpq] = {}
    balls: list[Atom] = []
    for first, second, hiding in classes:
        if hiding == 0:
            revealed += positive_part(first - ratio * second)
        elif not hiding > 0:
            return None
        elif isinstance(first, fmpq) and isinstance(second, fmpq) and isinstance(hiding, fmpq):
            kind = first / hiding, second / hiding
            kinds[kind] = kinds.get(kind, fmpq(0)) + hiding
        else:
            balls.append(((first - ratio * second) / hiding, hiding))
    exact = [(first - ratio * second, hiding) for (first, second), hiding in kinds.items()]
    return _Summand([*exact, *balls], revealed)


# --- Dummies, and other users' messages that are dummies by chance ---

BLANKET_BITS = 192
BLANKET_SMOOTHING = 1e-4
OMITTED_SIZES_DELTA_SHARE = 2.0**-13
"""Approximate share of δ that the sizes of the blanket left out at either end may cost."""
STRATA_COUNT, MAX_SINGLE_SIZES = 24, 48
"""Number of strata of sizes, and the number of sizes up to which each size is a stratum of its own."""
MIN_DELTA = 1e-280
BLANKET_METHOD = "contour sums in balls for the numbers of hiding messages, by strata"


@dataclass(frozen=True)
class RandomBlanket:
    """``messages`` that always hide, and ``others`` that each hide with probability ``chance``, independently."""

    messages: int
    others: int
    chance: Fraction

    def decide(self, law: Sequence[Class], epsilon: Fraction, delta: Fraction) -> Finding:
        """Decides whether E[D_{M+H}] ≤ δ, H ~ Bin(others, chance), where D_m is the divergence among m messages.

        Theorem: D_m falls with m, as one more message is post-processing. So sizes from a up to before b contribute at
        most their probability times D_{M+a} and at least their probability times D_{M+b−1}; sizes below the first at
        most D_M.

        Args:
            law: The law of a dummy, as the classes that ``decide_divergence`` takes.
            epsilon: The claimed ε.
            delta: The claimed δ.

        Returns:
            Yes, no, or cannot decide.
        """
        with precision(BLANKET_BITS + delta.denominator.bit_length()):
            edges = self._stratum_edges(max(float(delta), MIN_DELTA))
            chances = [self._probability_below(edge) for edge in edges]
            masses = [after - before for before, after in zip(chances, [*chances[1:], arb(1)], strict=True)]
        sides = [enclose_divergence(law, self.messages + edge, epsilon, BLANKET_SMOOTHING) for edge in (0, *edges)]
        if any(one is None for one in sides):
            return Finding(Verdict.OPEN, "the sum that would decide it is too long.", BLANKET_METHOD)
        whole, *among = [one for one in sides if one is not None]
        with precision(BLANKET_BITS + delta.denominator.bit_length()):
            bound = arb(rational(delta))
            upper = chances[0] * whole.upper
            for mass, one in zip(masses, among, strict=True):
                upper += mass.max(arb(0)) * one.upper
            lower = arb(0)
            for mass, following in zip(masses, among[1:], strict=False):
                lower += mass * following.lower
            if upper <= bound or whole.upper <= bound:
                return Finding(Verdict.YES, "the divergence is at most δ.", BLANKET_METHOD)
            if lower > bound:
                reason = f"this bound's divergence is above δ: at least {float(lower.lower()):.7g}."
                return Finding(Verdict.NO, reason, BLANKET_METHOD)
        return Finding(Verdict.OPEN, "δ is too near to the divergence itself.", BLANKET_METHOD)

    def _stratum_edges(self, delta: float) -> list[int]:
        """Returns the sizes at which strata begin; smaller sizes are unlikely, and larger ones contribute little."""
        mean = self.others * float(self.chance)
        far = math.sqrt(-2 * mean * math.log(delta * OMITTED_SIZES_DELTA_SHARE))
        low, high = max(0, math.floor(mean - far)), min(self.others, math.ceil(mean + 4 * math.sqrt(mean)) + 1)
        parts = high - low if high - low <= MAX_SINGLE_SIZES else STRATA_COUNT
        return sorted({low + (high - low) * step // max(parts, 1) for step in range(parts + 1)})

    def _probability_below(self, count: int) -> arb:
        """Returns P(H < count): 1 − P(H ≥ count), an incomplete beta function."""
        if count <= 0:
            return arb(0)
        return 1 - arb(rational(self.chance)).beta_lower(count, self.others - count + 1, regularized=True)
