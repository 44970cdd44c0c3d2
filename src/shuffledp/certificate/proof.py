"""A proof, or a disproof, that a user hidden by a given law is (ε, δ)-private: D_{e^ε}(P‖Q) ≤ δ.

Everything rests on identity (★): with n messages in all and G = (first − e^ε·second)/hiding under the law ``hiding``,
D = (1/n)·E(S)_+, S = G_1 + … + G_n. Three ways to bound E(S)_+ from both sides:

- enumeration: every vector of counts, in exact fractions where the law is given in them;
- binomial sums: every count of the middle values; given these, the two outermost values share the rest by a binomial
  law, whose tails are incomplete beta functions;
- a contour sum: smoothed by a normal variable of variance v (which raises E(S)_+, by at most v times the density of
  the smoothed sum at 0), then the trapezoid rule on the line Re t = τ > 0 of

      E(S + √v·Z)_+ = (1/2πi) ∫ M(t)^n·exp(v·t²/2)·t^(−2) dt,   M(t) = E exp(tG),

  which raises it again, by the sum over m ≠ 0 of exp(τy)·E(S + √v·Z − y)_+ at y = 2πm/step (Poisson summation).

e^ε is replaced by a rational just below it for a proof (D falls as e^ε grows), just above it for a disproof.
Nothing here is shared with the engine in ``shuffledp.numerics``: this is a second opinion, written for plainness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from flint import acb, arb, fmpq

from shuffledp.numerics.ball import precision

Number = fmpq | arb
"""A probability or a value: an exact rational, or a ball that contains it."""
Class = tuple[Number, Number, Number]
"""First, second and hiding probability of one class of messages."""
Atom = tuple[Number, Number]
"""A value of G and its weight."""

ZERO = fmpq(0)
EXPONENTIAL_BITS = 192
MOST_VECTORS = 3_000
MOST_ATOMS_OF_A_VECTOR = 40
MOST_BITS = 100_000
"""Length of the exact fractions that enumeration may meet."""
MOST_BINOMIALS = 50_000
NEGLIGIBLE = 1e-15
"""Counts whose whole contribution is below this share of the target are only bounded."""
MOST_USERS_OF_BINOMIALS = 1_500
PROOF_BITS = 512
GUARD_BITS = 96
MOST_TERMS = 3_000_000
"""Exponentials that one contour sum may cost."""
ALL_PAIRS = 12
"""Up to this many values a block of nodes is bounded by all pairs of them, beyond by a matching."""


class Verdict(Enum):
    """What is known of a claim."""

    YES = "yes"
    NO = "no"
    OPEN = "cannot decide"


@dataclass(frozen=True)
class Finding:
    """A verdict, why, and how it was found."""

    verdict: Verdict
    reason: str
    method: str


@dataclass(frozen=True)
class Sides:
    """lower ≤ E(S)_+ ≤ upper."""

    lower: arb
    upper: arb


def exponential(x: Fraction) -> tuple[fmpq, fmpq]:
    """Rationals just below and just above e^x for x ≥ 0: Taylor's series of x/2^k in whole units, squared k times.

    Each term is rounded down for the lower and up for the upper sum. The series stops at an upper term of one unit;
    from there on each term is at most half the one before it, so that all further ones are at most one unit in sum.
    """
    halvings = math.ceil(x).bit_length() + 2
    small = x / 2**halvings
    bits = EXPONENTIAL_BITS + 2 * halvings
    one = 1 << bits
    low = high = low_term = high_term = one
    k = 0
    while high_term > 1:
        k += 1
        low_term = low_term * small.numerator // (small.denominator * k)
        high_term = -(-high_term * small.numerator // (small.denominator * k))
        low, high = low + low_term, high + high_term
    high += 1
    for _ in range(halvings):
        low, high = low * low >> bits, -(-high * high >> bits)
    return fmpq(low, one), fmpq(high, one)


def judge(classes: Sequence[Class], users: int, epsilon: Fraction, delta: Fraction) -> Finding:
    """Whether D_{e^ε}(P‖Q) ≤ δ: user 1's message is by the law ``first`` or ``second``, the others' by ``hiding``.

    Requires: each of the three laws sums to 1; a class that hides with probability 0 reveals user 1.
    """
    with precision(PROOF_BITS):
        bound = fmpq(delta.numerator, delta.denominator)
        below, above = exponential(epsilon)
        low, high = _summand(classes, below), _summand(classes, above)
        if low is None or high is None:
            return Finding(Verdict.OPEN, "a hiding probability is not known to be positive.", "none")
        if low.never_positive and low.revealed <= bound:
            return Finding(Verdict.YES, "no message is e^ε times likelier under one input.", "likelihood ratios")
        if high.revealed > bound:
            return _disproved(high, users, arb(0), bound, "messages that nobody hides")
        if low.never_positive or not any(value > 0 for value, _ in high.atoms):
            return Finding(Verdict.OPEN, "e^ε is too near to the largest likelihood ratio.", "likelihood ratios")
        if _few_vectors(low.merged, users):
            return _by_sum(enumerated, "enumeration of all counts", low, high, users, bound)
        quick = _by_contour(low, high, users, bound, attempts=1)
        if quick.verdict is not Verdict.OPEN:
            return quick
        if _few_binomials(low.merged, users):
            return _by_sum(binomial_sums, "binomial sums in balls", low, high, users, bound)
        return _by_contour(low, high, users, bound, attempts=8)


Mean = Callable[[Sequence[Atom], int, Number], Number]


def _by_sum(mean: Mean, method: str, low: _Summand, high: _Summand, users: int, bound: fmpq) -> Finding:
    """Compare E(S)_+ itself with its target."""
    target = users * (bound - low.revealed)
    if mean(low.merged, users, target) <= target:
        return _proved(method)
    target = users * (bound - high.revealed)
    value = mean(high.merged, users, target)
    if value > target:
        return _disproved(high, users, arb(value), bound, method)
    return Finding(Verdict.OPEN, "δ is too near to the divergence itself.", method)


def _proved(method: str) -> Finding:
    return Finding(Verdict.YES, "the divergence is at most δ.", method)


def _disproved(summand: _Summand, users: int, mean: arb, bound: fmpq, method: str) -> Finding:
    least = float((mean.lower() / users + arb(summand.revealed)).lower())
    reason = f"this bound's divergence is above δ: at least {least:.7g} against {float(arb(bound)):.7g}."
    return Finding(Verdict.NO, reason, method)


@dataclass(frozen=True)
class _Summand:
    """The law of G, and the divergence of the messages that nobody else ever sends."""

    atoms: list[Atom]
    revealed: Number

    @property
    def never_positive(self) -> bool:
        return all(value <= 0 for value, _ in self.atoms)

    @property
    def merged(self) -> list[Atom]:
        """Equal exact values as one, the rest as it is."""
        exact: dict[fmpq, Number] = {}
        balls: list[Atom] = []
        for value, weight in self.atoms:
            if isinstance(value, fmpq):
                exact[value] = exact.get(value, ZERO) + weight
            else:
                balls.append((value, weight))
        return [*exact.items(), *balls]


def _summand(classes: Sequence[Class], ratio: fmpq) -> _Summand | None:
    """G = (first − ratio·second)/hiding; exact classes that agree for every ratio are put together.

    None if a hiding probability may be 0. The order of the values does not depend on the ratio.
    """
    revealed: Number = fmpq(0)
    kinds: dict[tuple[fmpq, fmpq], fmpq] = {}
    balls: list[Atom] = []
    for first, second, hiding in classes:
        if hiding == 0:
            revealed += _positive(first - ratio * second)
        elif not hiding > 0:
            return None
        elif isinstance(first, fmpq) and isinstance(second, fmpq) and isinstance(hiding, fmpq):
            kind = first / hiding, second / hiding
            kinds[kind] = kinds.get(kind, fmpq(0)) + hiding
        else:
            balls.append(((first - ratio * second) / hiding, hiding))
    exact = [(first - ratio * second, hiding) for (first, second), hiding in kinds.items()]
    return _Summand([*exact, *balls], revealed)


def _positive(number: Number) -> Number:
    return number.max(arb(0)) if isinstance(number, arb) else max(number, fmpq(0))


# --- small n: every vector of counts ------------------------------------------------------------------------------


def _few_vectors(atoms: Sequence[Atom], users: int) -> bool:
    if users == 1:
        return True
    bits = max(int(weight.q).bit_length() if isinstance(weight, fmpq) else 0 for _, weight in atoms)
    few = math.comb(users + len(atoms) - 1, users) <= MOST_VECTORS
    return few and len(atoms) <= MOST_ATOMS_OF_A_VECTOR and users * bits <= MOST_BITS


def enumerated(atoms: Sequence[Atom], users: int, target: Number = ZERO) -> Number:
    """E(S)_+, exactly where the law is; ``target`` does not matter here."""
    if users == 1:
        return _total(weight * _positive(value) for value, weight in atoms)
    powers = [_powers(weight, users) for _, weight in atoms]

    def visit(index: int, left: int, chance: Number, total: Number) -> Number:
        value = atoms[index][0]
        if index == len(atoms) - 1:
            return chance * powers[index][left] * _positive(total + left * value)
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


# --- moderate n: binomial sums ------------------------------------------------------------------------------------


def _few_binomials(atoms: Sequence[Atom], users: int) -> bool:
    middle = len(atoms) - 2
    few = middle >= 0 and math.comb(users + middle, middle) <= MOST_BINOMIALS
    return few and users <= MOST_USERS_OF_BINOMIALS


def binomial_sums(atoms: Sequence[Atom], users: int, target: Number = ZERO) -> arb:
    """E(S)_+ as a ball, its width of no weight against ``target``.

    Given the counts of the middle values, c messages are left for the outermost two; k of them on the larger one with
    probability C(c,k)·ρ^k(1−ρ)^(c−k). Then S = base + k·gap, and E(S)_+ is the largest over K of
    E[S; k ≥ K] = gap·c·ρ·P(Bin(c−1, ρ) ≥ K−1) + base·P(Bin(c, ρ) ≥ K), attained at the least K with S > 0.
    """
    # With as many bits as there are terms, flint sums the finite series of the incomplete beta function.
    with precision(users + PROOF_BITS):
        (bottom, bottom_weight), *middle, (top, top_weight) = sorted(atoms, key=lambda atom: float(arb(atom[0]).mid()))
        gap, outer = top - bottom, bottom_weight + top_weight
        share = arb(top_weight) / arb(outer)
        powers = [_powers(arb(weight), users) for weight in (outer, *(weight for _, weight in middle))]
        factorials = [arb(math.factorial(k)) for k in range(users + 1)]
        total, left_out = arb(0), arb(0)
        most = users * arb(top)
        negligible = arb(target) * NEGLIGIBLE / most / math.comb(users + len(middle), len(middle))
        for counts in _compositions(users, len(powers)):
            c = counts[0]
            chance = factorials[users]
            for k, power in zip(counts, powers, strict=True):
                chance = chance * power[k] / factorials[k]
            if chance <= negligible:
                left_out += chance
                continue
            base = c * bottom + _total(k * value for k, (value, _) in zip(counts[1:], middle, strict=True))
            candidates = [k for k in _least(base, gap) if k <= c]
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


def _least(base: Number, gap: Number) -> range:
    """The least k ≥ 0 with base + k·gap > 0; where balls leave it open, all that it may be."""
    if isinstance(base, fmpq) and isinstance(gap, fmpq):
        least = max(0, math.floor(_fraction(-base / gap)) + 1)
        return range(least, least + 1)
    quotient = -arb(base) / arb(gap)
    return range(max(0, _floor(quotient.lower()) + 1), max(0, _floor(quotient.upper()) + 1) + 1)


def _fraction(number: fmpq) -> Fraction:
    return Fraction(int(number.p), int(number.q))


def _floor(number: arb) -> int:
    """The floor of an exact ball."""
    mantissa, exponent = number.man_exp()
    return math.floor(Fraction(int(mantissa)) * Fraction(2) ** int(exponent))


def _tail(trials: int, least: int, share: arb) -> arb:
    """P(Bin(trials, share) ≥ least)."""
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


# --- anything else: the contour sum -------------------------------------------------------------------------------


def _by_contour(low: _Summand, high: _Summand, users: int, bound: fmpq, *, attempts: int) -> Finding:
    """Smooth less and less, until one side decides or the sum would cost too much."""
    method = "contour sum in balls"
    with precision(GUARD_BITS + 2 * users.bit_length()):
        # One ball for each value holds it at both rationals, hence at e^ε itself.
        atoms = [(arb(a).union(arb(b)), arb(weight)) for (a, weight), (b, _) in zip(low.atoms, high.atoms, strict=True)]
        target = users * (arb(bound) - arb(low.revealed).union(arb(high.revealed)))
        line = Line(atoms, users)
        smoothing = 1e-3
        for _ in range(attempts):
            sides = line.sides(smoothing)
            if sides is None:
                break
            if sides.upper <= target:
                return _proved(method)
            if sides.lower > target:
                return _disproved(high, users, sides.lower, bound, method)
            middle = (sides.lower + sides.upper) / 2
            gap = abs(float((middle / target - 1).mid())) if target > 0 else 0.0
            smoothing = min(smoothing / 8, max(gap / 3, smoothing / 1000))
        return Finding(Verdict.OPEN, "the sum that would decide it is too long.", method)


class Line:
    """The integrand on the line Re t = τ, for one law and one n, at the working precision."""

    def __init__(self, atoms: Sequence[tuple[arb, arb]], users: int) -> None:
        self.users = users
        self.values = [value for value, _ in atoms]
        self.weights = [weight for _, weight in atoms]
        self.tilt = self._saddle()
        tau = arb(self.tilt)
        tilted = [weight * (tau * value).exp() for value, weight in atoms]
        self.moment = _sum(tilted)
        self.tilted = [weight / self.moment for weight in tilted]
        mean = _sum(weight * value for value, weight in zip(self.values, self.tilted, strict=True))
        spread = _sum(w * (value - mean) * (value - mean) for value, w in zip(self.values, self.tilted, strict=True))
        self.deviation = math.sqrt(max(0.0, users * float(spread.mid())) + 2 / self.tilt**2)
        """The width of the integrand's peak is 1/deviation."""

    def _saddle(self) -> float:
        """Roughly the minimum over t > 0 of M(t)^n·t^(−2): any τ > 0 is sound, this one is tight."""
        largest = max(float(value.mid()) for value in self.values)
        low, high = -60.0, 60.0
        for _ in range(30):
            middle = (low + high) / 2
            t = arb(2.0**middle / largest)
            parts = [
                weight * (t * (value - largest)).exp() for value, weight in zip(self.values, self.weights, strict=True)
            ]
            slope = t * _sum(part * value for part, value in zip(parts, self.values, strict=True)) / _sum(parts)
            low, high = (low, middle) if float((self.users * slope).mid()) > 2 else (middle, high)
        return float(2.0**low / largest)

    def sides(self, smoothing: float) -> Sides | None:
        """Both sides of E(S)_+ with v = smoothing/τ²; None if the sum would be too long."""
        tau, variance = arb(self.tilt), arb(smoothing / self.tilt**2)
        digits = math.log(1 / smoothing) + 14
        shifts, step = self._spacing(variance, digits)
        nodes = self._nodes(variance, step, digits)
        if nodes is None:
            return None
        kept, left_out = nodes
        smoothed, density = self._sum_of(kept, variance, step)
        unit = step / (2 * arb.pi()) * self._power(tau, variance)
        missing = unit * left_out
        upper = unit * smoothed + missing / tau**2
        aliases = _sum(self._chernoff(tau + d, variance) / ((abs(d) * 2 * arb.pi() / step).exp() - 1) for d in shifts)
        lower = unit * smoothed - missing / tau**2 - aliases - variance * (unit * density + missing)
        return Sides(lower.lower(), upper.upper())

    def _power(self, theta: arb, variance: arb) -> arb:
        """M(θ)^n·exp(v·θ²/2)."""
        moment = _sum(w * (theta * value).exp() for value, w in zip(self.values, self.weights, strict=True))
        return (self.users * moment.log() + variance * theta * theta / 2).exp()

    def _chernoff(self, theta: arb, variance: arb) -> arb:
        """A bound of exp(θy)·E(S + √v·Z − y)_+ for every y, by (x)_+ ≤ exp(θx)/(eθ)."""
        return self._power(theta, variance) / (arb(1).exp() * theta)

    def _spacing(self, variance: arb, digits: float) -> tuple[tuple[arb, arb], arb]:
        """How far from τ to look to the right and left for the Chernoff bounds, and a step that makes them small."""
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

    def _nodes(self, variance: arb, step: arb, digits: float) -> tuple[list[int], arb] | None:
        """The nodes k ≥ 0 to sum, and a bound of all others' |M(t)^n·exp(v·t²/2)| in sum, relative to node 0.

        |M(τ+iu)|² = M(τ)²·(1 − Σ 4·w_a·w_b·sin²(u(A_a − A_b)/2)) over all pairs of values, w their tilted weights. For
        many values: |M(τ+iu)| ≤ M(τ)·(1 − Σ 2·w_a·w_b/(w_a + w_b)·sin²(…)) over the pairs of a matching, by the
        triangle inequality. A block of nodes is bounded at once, the sine evaluated on a ball that holds them all.
        """
        reach = math.ceil(math.sqrt(2 * (digits + 20) / float(variance.mid())) / float(step.mid()))
        level = arb(-(digits + math.log(reach)))
        pairs, power = self._pairs()
        widest = max((float(abs(gap).upper()) for _, gap in pairs), default=0.0) * float(step.mid())
        size = max(1, min(1 << 20, int(1 / max(widest, 1e-9))))
        if reach / size * len(pairs) > MOST_TERMS:
            return None
        most = MOST_TERMS // len(self.values)
        kept, left_out = [0], arb(0)
        stack = [(start, min(reach, start + size - 1)) for start in range(1, reach + 1, size)]
        stack.reverse()
        while stack:
            first, last = stack.pop()
            count = last - first + 1
            decay = -variance * (step * first) ** 2 / 2
            u = step * arb(first + last, count) / 4
            hold = _sum(part * (u * gap).sin().abs_lower() ** 2 for part, gap in pairs)
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

    def _pairs(self) -> tuple[list[tuple[arb, arb]], arb]:
        """Factor and difference of each pair of values, and the power of the bound."""
        atoms = sorted(zip(self.values, self.tilted, strict=True), key=lambda atom: float(atom[0].mid()))
        if len(atoms) <= ALL_PAIRS:
            every = [(4 * w * y, a - b) for i, (a, w) in enumerate(atoms) for b, y in atoms[:i]]
            return every, arb(self.users) / 2
        half = len(atoms) // 2
        matching = zip(atoms[:half], atoms[half:], strict=False)
        return [(2 * w * y / (w + y), a - b) for (a, w), (b, y) in matching], arb(self.users)

    def _sum_of(self, kept: Sequence[int], variance: arb, step: arb) -> tuple[arb, arb]:
        """Σ M(t)^n·exp(v·t²/2), relative to node 0, over the kept nodes and their mirror images.

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


def _sum(numbers: Iterable[arb]) -> arb:
    return sum(numbers, arb(0))
