"""Exact trade-off function of shuffled messages, by counts of messages, and of the pair of clones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import betainc, precision
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.privacy.tradeoff import PiecewiseTradeOff

BITS = 96
MAX_VECTORS = 8_000_000
NEGLIGIBLE_MASS = 1e-18
"""Counts are visited until the rest on either side has at most about this probability."""


@dataclass(frozen=True)
class BinomialWindow:
    """P(Bin(count, success) = k) for the k of non-negligible mass, normalised."""

    low: int
    masses: Floats

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.arange(self.low, self.low + len(self.masses))


def binomial_window(count: int, success: float) -> BinomialWindow:
    """Multiplies the ratios of masses outwards from the mode; each mass is accurate to about its distance in ulps."""
    if success >= 1.0 or success <= 0.0 or count == 0:
        return BinomialWindow(count if success >= 1.0 else 0, np.array([1.0]))
    mode = min(count, math.floor((count + 1) * success))
    reach = _reach(count, success)
    low, high = max(0, mode - reach), min(count, mode + reach)
    odds = success / (1.0 - success)
    up = np.arange(mode, high, dtype=np.float64)
    down = np.arange(mode, low, -1, dtype=np.float64)
    right = np.cumprod((count - up) / (up + 1.0) * odds)
    left = np.cumprod(down / ((count - down + 1.0) * odds))
    masses = np.concatenate([left[::-1], [1.0], right])
    return BinomialWindow(low, masses / math.fsum(masses.tolist()))


def _reach(count: int, success: float) -> int:
    """Returns a distance from the mean beyond which a negligible mass lies on each side, by Bernstein's inequality."""
    log = -math.log(NEGLIGIBLE_MASS)
    variance = count * success * (1.0 - success)
    return math.ceil(log / 3 + math.sqrt((log / 3) ** 2 + 2 * variance * log)) + 2


def shuffled_trade_off(pair: HidingPair, users: float) -> PiecewiseTradeOff:
    """Returns T(P, Q) of all messages together, one segment for each vector of counts.

    Theorem: identity (★) before the positive part: with counts N_k of n messages in class k, under the law of n hiding
    messages P/W = (1/n)·Σ N_k·first_k/hiding_k, and Q/W alike.
    Requires: at most three classes of messages (γ = 0), or so few users that the vectors can be visited.

    Args:
        pair: Dominating pair of a randomizer in count form.
        users: Number of all users, user 1 included.

    Returns:
        The exact curve in floats, to about 1e-15; counts of total probability 1e-18 or so are left out.

    Raises:
        ValueError: If ``users`` is not a whole number of at least 1.
        NotApplicable: If there are more than eight million vectors of counts.

    >>> import shuffledp as sdp
    >>> pair = sdp.VariationRatio.from_ldp(2.0).pair(0.0)
    >>> exact = sdp.tradeoff.shuffled_trade_off(pair, users=100)
    >>> print(f"{exact.advantage():.4f} {exact.delta(0.5):.4f}")
    0.1240 0.0104
    """
    count = validation.count("shuffled_trade_off", "users", users)
    with precision(BITS):
        classes = [tuple(float(part.mid()) for part in c) for c in pair.classes()]
    # The revealed rest, which carries no information, comes last; rounding then leaves the sum of the others unchanged.
    classes.sort(key=lambda c: c[0] + c[1] == 0.0)
    first, second, hiding = (np.array(column) for column in zip(*classes, strict=True))
    weights, null, alternative = _vectors(count, hiding, first / hiding, second / hiding)
    null, alternative = weights * (null / count), weights * (alternative / count)
    return PiecewiseTradeOff(null / null.sum(), alternative / alternative.sum(), "identity (★), every vector of counts")


def _vectors(count: int, hiding: Floats, null: Floats, alternative: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns probability, Σ N·first/hiding and Σ N·second/hiding of every vector of counts, from the last class on."""
    windows = _number_of_vectors(count, hiding)
    if windows > MAX_VECTORS:
        raise NotApplicable(
            "shuffled_trade_off",
            f"expected at most {MAX_VECTORS:,} vectors of counts, got about {windows:,.0f}; "
            f"use trade_off(amplify(...)), which has no such limit.",
        )
    if len(hiding) == 1:
        return np.ones(1), np.array([count * null[0]]), np.array([count * alternative[0]])
    last = binomial_window(count, float(hiding[-1] / hiding.sum()))
    parts = []
    for number, mass in zip(last.counts.tolist(), last.masses.tolist(), strict=True):
        weight, one, other = _vectors_within(count - number, hiding[:-1], null[:-1], alternative[:-1])
        parts.append((mass * weight, one + number * null[-1], other + number * alternative[-1]))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def _vectors_within(count: int, hiding: Floats, null: Floats, alternative: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns the same for the remaining classes; the last two are handled in one step."""
    if len(hiding) != 2:
        return _vectors(count, hiding, null, alternative)
    split = binomial_window(count, float(hiding[0] / hiding.sum()))
    k = split.counts
    return split.masses, k * null[0] + (count - k) * null[1], k * alternative[0] + (count - k) * alternative[1]


def _number_of_vectors(count: int, hiding: Floats) -> float:
    """Returns about the number of vectors to visit."""
    total, left = 1.0, float(count)
    for position in range(len(hiding) - 1, 0, -1):
        share = float(hiding[position] / hiding[: position + 1].sum())
        total *= min(left, 2 * _reach(math.ceil(left), share)) + 1 if 0 < share < 1 else 1
        left *= 1 - share
    return total


CLONE_ROUNDING = 1e-12
"""A threshold within this of a knot is taken for the knot: the point is on the curve either way."""


@dataclass(frozen=True)
class CloneErrors(ValueObject):
    """Errors of the likelihood-ratio tests of the stronger clones' pair for ``users`` messages of an ε0-LDP randomizer.

    Theorem: [FDP] Proposition 4.1: w = 1/(e^ε0+1), C ~ Bin(n−1, 2w), F_i the distribution function of Bin(i, ½),
    s_i = ⌊i − (i+1)/(t+1)⌋: fpr_0(t) = Σ P(C=i)·F_i(s_i), fnr_0(t) = Σ P(C=i)·(1 − F_i(s_i+1)).
    Requires: ε0 > 0 and finite; users ≥ 1.
    Returns: floats, good to about 1e-12.
    Deviates: print has F_i(s_i+1) for the type II error in one place (FD-5).
    """

    epsilon_local: float = field(metadata=validation.checked(validation.positive_finite, up=True))
    users: int = field(metadata=validation.checked(validation.count))

    def __post_init__(self) -> None:
        validation.check_fields(self)

    @property
    def weight(self) -> float:
        """w: the probability that user 1's message looks like that of the other input."""
        return 1.0 / (math.exp(self.epsilon_local) + 1.0)

    @cached_property
    def _clones(self) -> BinomialWindow:
        return binomial_window(self.users - 1, 2 * self.weight)

    def inner_errors(self, thresholds: ArrayLike) -> tuple[Floats, Floats]:
        """Returns (fpr_0, fnr_0) of P_0 = (A+1, C−A) against Q_0 = (A, C−A+1) where p_0/q_0 ≤ t is rejected."""
        clones, chance = self._clones.counts.astype(np.float64), self._clones.masses
        found = []
        for t in np.atleast_1d(np.asarray(thresholds, dtype=np.float64)).tolist():
            last = np.floor((clones - (clones + 1) / (t + 1)) + CLONE_ROUNDING * (clones + 1))
            found.append(
                (
                    np.dot(chance, _half_binomial_cdf(last, clones)),
                    np.dot(chance, _half_binomial_tail(last + 1, clones)),
                )
            )
        fpr, fnr = (np.array(column) for column in zip(*found, strict=True))
        return fpr, fnr

    def exact_errors(self, thresholds: ArrayLike) -> tuple[Floats, Floats]:
        """Returns points (fpr, fnr) of the pair's exact curve, for thresholds of p_0/q_0.

        Theorem: exact curve of an exchange, from [FDP] Proposition 4.1.
        Deviates: [FDP] Theorem 4.2 gives a lower curve only (FD-3).
        """
        fpr, fnr = self.inner_errors(thresholds)
        w = self.weight
        return (1 - w) * fpr + w * (1 - fnr), (1 - w) * fnr + w * (1 - fpr)

    def published_delta(self, epsilon: float) -> float:
        """Returns δ(ε) of Theorem 4.2's curve, at the one threshold that attains it.

        Theorem: [FDP] Corollary 4.3: t_ε = (1−2w)/(e^ε−2w), δ = 1 − e^ε·fpr_0 − 2w·(1−fpr_0) − (1−2w)·fnr_0.
        Requires: ε ≥ 0.
        Returns: the published bound in floats, for reproduction; digits are lost below δ = 1e-14.
        Deviates: the slope at threshold t is −1/t; the printed l(t) with floors under-reports (FD-4).
        """
        epsilon = validation.non_negative("CloneErrors", "epsilon", epsilon)
        w = self.weight
        fpr, fnr = (float(error[0]) for error in self.inner_errors((1 - 2 * w) / (math.exp(epsilon) - 2 * w)))
        return 1 - math.exp(epsilon) * fpr - 2 * w * (1 - fpr) - (1 - 2 * w) * fnr


def _half_binomial_cdf(k: Floats, count: Floats) -> Floats:
    """P(Bin(count, ½) ≤ k)."""
    inside = (k >= 0) & (k < count)
    found = betainc(np.where(inside, count - k, 1.0), np.where(inside, k + 1, 1.0), 0.5)
    return np.where(inside, found, (k >= 0).astype(np.float64))


def _half_binomial_tail(k: Floats, count: Floats) -> Floats:
    """P(Bin(count, ½) > k)."""
    inside = (k >= 0) & (k < count)
    found = betainc(np.where(inside, k + 1, 1.0), np.where(inside, count - k, 1.0), 0.5)
    return np.where(inside, found, (k < 0).astype(np.float64))
