"""E(S)_+ of a sum of n independent draws by a contour sum in balls.

It is smoothed by a normal variable of variance v (which raises E(S)_+, by at most v times the density of the smoothed
sum at 0), then comes the trapezoid rule on the line Re t = τ > 0 of

    E(S + √v·Z)_+ = (1/2πi) ∫ M(t)^n·exp(v·t²/2)·t^(−2) dt,   M(t) = E exp(tG),

which raises it again, by the sum over m ≠ 0 of exp(τy)·E(S + √v·Z − y)_+ at y = 2πm/step (Poisson summation).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flint import acb, arb

MOST_TERMS = 3_000_000
"""Exponentials that one contour sum may cost."""
AMPLE = 7.0
"""Where a block of nodes is so many e-folds smaller than it must be, not all pairs of values need be looked at."""
ALL_PAIRS = 12
"""Up to this many values a block of nodes is bounded by all pairs of them, beyond by a matching."""


@dataclass(frozen=True)
class Sides:
    """lower ≤ E(S)_+ ≤ upper."""

    lower: arb
    upper: arb


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
            enough = -(((level - AMPLE - decay) / power).expm1())
            hold = arb(0)
            for part, gap in pairs:
                hold += part * (u * gap).sin().abs_lower() ** 2
                # No term is negative: fewer of them hold less.
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

    def _pairs(self) -> tuple[list[tuple[arb, arb]], arb]:
        """Factor and difference of each pair of values, and the power of the bound."""
        atoms = sorted(zip(self.values, self.tilted, strict=True), key=lambda atom: float(atom[0].mid()))
        if len(atoms) <= ALL_PAIRS:
            every = [(4 * w * y, a - b) for i, (a, w) in enumerate(atoms) for b, y in atoms[:i]]
            return _heaviest_first(every), arb(self.users) / 2
        half = len(atoms) // 2
        matching = zip(atoms[:half], atoms[half:], strict=False)
        return _heaviest_first((2 * w * y / (w + y), a - b) for (a, w), (b, y) in matching), arb(self.users)

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


def _heaviest_first(pairs: Iterable[tuple[arb, arb]]) -> list[tuple[arb, arb]]:
    return sorted(pairs, key=lambda pair: -float(pair[0].mid()))


def _sum(numbers: Iterable[arb]) -> arb:
    return sum(numbers, arb(0))
