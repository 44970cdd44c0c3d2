"""The sum F of two binomials, and the most that one more coin tossed with it can betray.

F = Bin(many, high) + Bin(few, low). One more coin falls with probability high (law P of the total) or low (law Q):

    D(x) = Σ_t (P − e^x·Q)(t)_+ = max_t H(t),   H(t) = A·P(F ≥ t−1) + B·P(F ≥ t),
    A = high − e^x·low,   B = (1−high) − e^x·(1−low),

because f(t−1)/f(t) grows with t (the law f of a sum of independent coins is log-concave): the positive terms
g(t) = A·f(t−1) + B·f(t) are those from some t on.

H(t) is a coefficient of φ(z)·(A·z+B)·z/(z−1), φ(z) = E z^F, and f(t) one of φ(z): with N equally spaced nodes on the
circle |z| = r > 1 the trapezoid rule gives Σ_m H(t+mN)·r^(mN). The terms m ≠ 0 are bounded by Chernoff's bound at the
radius r², nodes far from the real axis by |φ(re^{iα})| ≤ φ(r)·exp(−V(1−cos α)), V the variance of the tilted coins.
So the cost does not grow with the number of coins. Few coins are multiplied out, once for all x: f(t) are the
coefficients of φ, their sums P(F ≥ t) are kept beside them, and the first positive g is found by halving.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from flint import acb, arb, arb_poly, ctx

from shuffledp.errors import NumericalError
from shuffledp.numerics.ball import precision, rational
from shuffledp.numerics.finite_law import Bracket

BITS = 160
FEW_COINS, MOST_LAWS = 1000, 256
"""Up to so many coins are multiplied out; so many laws of theirs are kept for another x."""
NEGLIGIBLE = 0.2
"""What is only bounded (aliases, far nodes) is about e^(NEGLIGIBLE·bits) times smaller than the result."""
MOST_BITS = 1 << 12
MOST_STEPS, TRUSTED_STEPS = 60, 3
LOG_NOTHING = -2000.0
"""The logarithm below which a value is far below every float, and only bounded."""
SHARP = 1e-9
"""Relative radius that a certified value may have."""


@dataclass(frozen=True)
class TwoCoins:
    """F = Bin(many, high) + Bin(few, low) with 0 ≤ low < high ≤ 1 exact, and D(x) as above."""

    high: Fraction
    low: Fraction
    many: int
    few: int

    def bracket(self, x: float) -> Bracket:
        """Certified enclosure of D(x).

        Requires: x ≥ 0.
        Returns: both sides, rounding, aliases and skipped nodes included.
        """
        # Coins that always fall the same way only move the sum.
        many, few = (0 if self.high == 1 else self.many), (0 if self.low == 0 else self.few)
        if (many, few) != (self.many, self.few):
            return TwoCoins(self.high, self.low, many, few).bracket(x)
        if many + few <= FEW_COINS:
            return self._multiplied_out(x)
        bits = BITS + (many + few).bit_length()
        while bits <= MOST_BITS:
            with precision(bits):
                found = self._at(x)
                if found is not None:
                    return found
            bits *= 2
        raise NumericalError(f"TwoCoins: nothing is certain at {MOST_BITS} bits; please report the parameters.")

    def log_estimate(self, x: float) -> float:
        """log D(x), from the certified value: it is cheap."""
        return self.bracket(x).log_upper()

    def natural_scale(self) -> float:
        """(high − low) times the standard deviation of the likelihood ratio's logarithm, about 1/√Var F."""
        high, low = float(self.high), float(self.low)
        variance = self.many * high * (1 - high) + self.few * low * (1 - low) + 0.25
        return (high - low) / math.sqrt(variance)

    def _multiplied_out(self, x: float) -> Bracket:
        """H at the first t whose g is certainly positive, and at most what may be positive before it."""
        with precision(BITS):
            laws = self._laws(x)
            if not laws.gain > 0:
                return Bracket(arb(0), laws.gain.upper().max(arb(0)), "two coins")
            law = _law(self)
            first, last = 0, self.many + self.few + 1
            while first < last:
                middle = (first + last) // 2
                first, last = (first, middle) if law.term(laws, middle) > 0 else (middle + 1, last)
            total, unsure = law.total(laws, first), arb(0)
            for t in range(first - 1, -1, -1):
                term = law.term(laws, t)
                if term <= 0:
                    break
                unsure += term.upper().max(arb(0))
            return Bracket(total.lower().max(arb(0)), (total + unsure).upper(), "two coins")

    def _laws(self, x: float) -> _Laws:
        high, low = arb(rational(self.high)), arb(rational(self.low))
        growth = arb(x).exp()
        return _Laws(high, low, high - growth * low, (1 - high) - growth * (1 - low))

    def _at(self, x: float) -> Bracket | None:
        laws = self._laws(x)
        gain, loss = laws.gain, laws.loss
        if gain <= 0:
            return Bracket(arb(0), arb(0), "two coins")
        if not gain > 0:
            # D ≤ A, for P(F ≥ t−1) ≤ 1 and B ≤ 0.
            return Bracket(arb(0), gain.upper().max(arb(0)), "two coins")
        tilt = self._tilt(float((-loss / gain).log()))
        most = self._at_most(laws, tilt)
        if most.log() < LOG_NOTHING:
            return Bracket(arb(0), most.upper(), "two coins")
        t = self._threshold(tilt)
        for attempt in range(MOST_STEPS):
            found = _Terms.around(self, laws, t, tilt)
            step = found.step()
            if step == 0:
                return found.largest()
            # The advice is for a smooth law: with few coins it may go to and fro.
            step = step if attempt < TRUSTED_STEPS else (step > 0) - (step < 0)
            t = min(max(t + step, 1), self.many + self.few + 1)
        return None

    def _at_most(self, laws: _Laws, tilt: float) -> arb:
        """A bound of D: A·P(F ≥ t) where no term up to t is positive, by Chernoff.

        Likelier coins make f(t)/f(t−1) larger, as the likelihood ratio order is kept by adding log-concave laws. So it
        is at least that of coins that are all the least likely, p: (n−t+1)/t·p/(1−p).
        """
        if self.many + self.few == 0:
            return laws.gain
        least = laws.low if self.few else laws.high
        odds = -laws.loss / laws.gain * least / (1 - least)
        first = max(0, math.floor(float(((self.many + self.few + 1) * odds / (1 + odds)).lower()) * (1 - 1e-12)) - 1)
        radius = arb(tilt).exp()
        log_moment = self.many * (1 - laws.high + laws.high * radius).log()
        log_moment += self.few * (1 - laws.low + laws.low * radius).log()
        return laws.gain * (log_moment - first * arb(tilt)).exp()

    def _tilt(self, log_ratio: float) -> float:
        """log r: where f(t−1)/f(t) is about the ratio that decides; at least one standard deviation above 0."""
        return max(log_ratio, 1.0 / math.sqrt(self.variance_at(log_ratio) + 1.0))

    def _threshold(self, tilt: float) -> int:
        middle = self.mean_at(tilt) + 0.5
        return min(max(math.ceil(middle), 1), self.many + self.few + 1)

    def _tilted(self, probability: Fraction, tilt: float) -> float:
        p = float(probability)
        return p / (p + (1 - p) * math.exp(-tilt)) if p > 0 else 0.0

    def mean_at(self, tilt: float) -> float:
        return self.many * self._tilted(self.high, tilt) + self.few * self._tilted(self.low, tilt)

    def variance_at(self, tilt: float) -> float:
        one, other = self._tilted(self.high, tilt), self._tilted(self.low, tilt)
        return self.many * one * (1 - one) + self.few * other * (1 - other)


@dataclass(frozen=True)
class _Laws:
    """The probabilities and the two weights A and B as balls."""

    high: arb
    low: arb
    gain: arb
    loss: arb


@dataclass(frozen=True)
class _Terms:
    """H(t), and g(t−2) … g(t+1) where their signs are not known anyway."""

    total: arb
    terms: dict[int, arb]
    advice: int

    @classmethod
    def around(cls, coins: TwoCoins, laws: _Laws, t: int, tilt: float) -> _Terms:
        """By the trapezoid rule on the circle of radius e^tilt, everything left out added as a radius."""
        radius = arb(tilt).exp()
        nodes, used, left_out = _plan(coins, laws, t, tilt)
        high, low, gain, loss = (acb(ball) for ball in (laws.high, laws.low, laws.gain, laws.loss))
        angle, scale = 2 * arb.pi() / nodes, (-t * arb(tilt)).exp()
        powers = [arb(0)] * 5
        total = arb(0)
        for j in range(used + 1):
            # Each anew: balls that are turned again and again grow.
            (sine, cosine), (sine_t, cosine_t) = (angle * j).sin_cos(), (angle * (j * t)).sin_cos()
            z = acb(radius * cosine, radius * sine)
            # φ(z)·z^(−t). Factors are of one kind: a real ball times a complex one takes flint ten times as long.
            weight = (1 - high + high * z) ** coins.many * (1 - low + low * z) ** coins.few
            weight *= acb(scale * cosine_t, -scale * sine_t)
            # A node and its mirror image have conjugate values; the real axis has no mirror image.
            share = 1 if j == 0 or 2 * j == nodes else 2
            total += share * (weight * (gain * z + loss) * z / (z - 1)).real
            term = weight / z
            for power in range(5):
                powers[power] += share * term.real
                term *= z
        assert used <= nodes // 2
        f = [(value / nodes) + arb(0, left_out) for value in powers]
        terms = {offset: laws.gain * f[2 - offset] + laws.loss * f[1 - offset] for offset in (-2, -1, 0, 1)}
        most = coins.many + coins.few
        known = {offset: ball for offset, ball in terms.items() if 0 < t + offset <= most}
        spread = (abs(laws.gain) + abs(laws.loss)).upper()
        ratio = radius / (radius - 1)
        total = total / nodes + arb(0, (left_out * spread * (1 + ratio)).upper())
        return cls(total, known, _advice(coins, f, laws, tilt))

    def step(self) -> int:
        """Where to look next for the first positive g; 0 if it is here, as far as the balls can tell."""
        if any(self.terms[k] > 0 for k in (-2, -1) if k in self.terms):
            return min(-1, self.advice)
        if any(self.terms[k] < 0 for k in (0, 1) if k in self.terms):
            return max(1, self.advice)
        return 0

    def largest(self) -> Bracket | None:
        """D, once g(t−2) ≤ 0 ≤ g(t+1) is certain: then only g(t−1) and g(t) may have the other sign."""
        if not self.total.is_finite() or not self.total.rad() < abs(self.total.mid()) * SHARP:
            return None
        before, after = self.terms.get(-2), self.terms.get(1)
        if (before is not None and not before <= 0) or (after is not None and not after >= 0):
            return None
        extra = self.terms.get(-1, arb(0)).upper().max(arb(0)) + (-self.terms.get(0, arb(0))).upper().max(arb(0))
        return Bracket(self.total.lower().max(arb(0)), (self.total + extra).upper(), "two coins")


@dataclass(frozen=True)
class _Law:
    """f(t) and P(F ≥ t) for all t."""

    chances: arb_poly
    tails: arb_poly

    def term(self, laws: _Laws, t: int) -> arb:
        """g(t)."""
        before = self.chances[t - 1] if t else arb(0)
        return laws.gain * before + laws.loss * self.chances[t]

    def total(self, laws: _Laws, t: int) -> arb:
        """H(t), the sum of g from t on."""
        return laws.gain * self.tails[max(t - 1, 0)] + laws.loss * self.tails[t]


@lru_cache(maxsize=MOST_LAWS)
def _law(coins: TwoCoins) -> _Law:
    """The coefficients of φ(z), the same at every x."""
    high, low = arb(rational(coins.high)), arb(rational(coins.low))
    chances = arb_poly([1 - high, high]) ** coins.many * arb_poly([1 - low, low]) ** coins.few
    sums = accumulate(reversed(chances.coeffs()))
    return _Law(chances, arb_poly(list(sums)[::-1]))


def _value(coins: TwoCoins, laws: _Laws, t: int, z: acb) -> acb:
    """φ(z)·z^(−t)."""
    factors = (
        (coins.many, 1 - laws.high + laws.high * z),
        (coins.few, 1 - laws.low + laws.low * z),
        (-t, z),
    )
    exponent, odd = acb(0), False
    for count, base in factors:
        # The logarithm's cut is the negative axis, where the node opposite to r lies.
        if base.real < 0:
            base, odd = -base, odd ^ bool(count % 2)
        exponent += count * base.log()
    return -exponent.exp() if odd else exponent.exp()


def _plan(coins: TwoCoins, laws: _Laws, t: int, tilt: float) -> tuple[int, int, arb]:
    """How many nodes the circle has, how many of one half are used, and a bound of what is left out of each f.

    Aliases: f(t+mN)·r^(mN) ≤ φ(r²)·r^(−2(t−3))·r^(−mN) for m ≥ 1 (also for tails in place of f), and at most r^(−N|m|)
    for m ≤ −1. Nodes at an angle α or more: at most N of them, each below φ(r)·r^(−t+3)·exp(−V(1−cos α)).
    """
    radius = arb(tilt).exp()
    square = radius * radius
    size = _value(coins, laws, t - 3, acb(radius)).real
    far_size = _value(coins, laws, t - 3, acb(square)).real
    log_size = float(size.log())
    log_far = float(far_size.log())
    weight = float(((abs(laws.gain) + abs(laws.loss)) / laws.gain).log())
    variance = coins.variance_at(tilt)
    wanted = NEGLIGIBLE * ctx.prec + weight + math.log1p(variance) + 5 * tilt + math.log1p(1 / tilt)
    nodes = math.ceil((wanted + max(0.0, -log_size, log_far - log_size)) / tilt) + 1
    angle = math.sqrt(2 * (wanted + math.log(nodes)) / variance) * 1.05 if variance > 0 else math.inf
    used = nodes // 2 if angle >= 3 else min(nodes // 2, math.ceil(angle * nodes / (2 * math.pi)))
    once = (-nodes * arb(tilt)).exp()
    left_out = (far_size + 1) * once / (1 - once)
    if used < nodes // 2:
        certain = _variance(coins, laws, radius)
        cosine = (2 * arb.pi() * (used + 1) / nodes).cos()
        left_out += size * (-certain * (1 - cosine)).exp()
    return nodes, used, left_out.upper()


def _variance(coins: TwoCoins, laws: _Laws, radius: arb) -> arb:
    """Variance of the coins tilted by ``radius``: |1−p+pre^{iα}|² = (1−p+pr)²·(1 − 2v(1−cos α)) for each."""
    result = arb(0)
    for count, p in ((coins.many, laws.high), (coins.few, laws.low)):
        share = p * radius / (1 - p + p * radius)
        result += count * share * (1 - share)
    return result


def _advice(coins: TwoCoins, f: list[arb], laws: _Laws, tilt: float) -> int:
    """How far the sign change is, by the slope 1/variance of log f(t−1)/f(t)."""
    here, before = f[1], f[2]
    if not (here > 0 and before > 0):
        return 0
    distance = float((-laws.loss / laws.gain).log() - (before / here).log())
    return round(distance * max(1.0, coins.variance_at(tilt)))
