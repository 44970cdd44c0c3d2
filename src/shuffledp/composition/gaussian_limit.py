"""The Gaussian limit of many users: an approximation, never a guarantee."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from shuffledp.errors import NotApplicable
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve, Source
from shuffledp.privacy.value import BoundValue

NAME = "gaussian-limit"
NOTE = "Approximate: the limit of many users, not an upper bound."


@dataclass(frozen=True)
class GaussianLimit(PrivacyCurve):
    """δ(ε) between N(μ, 1) and N(0, 1), in floats.

    Theorem: central limit of (★): n messages whose G has standard deviation σ at ε = 0 approach μ = σ/√n, rounds add
    μ²; for any ε0-LDP randomizer μ = (e^ε0 − 1)·√(2/((e^ε0 + 1)·n)).
    Requires: nothing: that is why it is only approximate (n = 1e3, ε0 = 4, δ = 1e-5: 1.221 against the true 1.498).
    Returns: an approximation with ``guarantee`` and ``certified`` False; ``slack`` is infinite.
    """

    mu: float

    @property
    def certified(self) -> bool:
        return False

    def loss_deviation(self) -> float | None:
        return self.mu

    def _delta(self, epsilon: float) -> BoundValue:
        from scipy.special import log_ndtr

        seen = min(epsilon, LARGEST_EPSILON)
        if self.mu == 0:
            return self._value(0.0, math.inf)
        first = float(log_ndtr(self.mu / 2 - seen / self.mu))
        second = seen + float(log_ndtr(-self.mu / 2 - seen / self.mu))
        return self._value(math.exp(first) * -math.expm1(min(0.0, second - first)), math.inf)

    def _epsilon(self, delta: float) -> BoundValue:
        if self.mu == 0 or self._delta(0.0).upper <= delta:
            return self._value(0.0, math.inf)
        found = find_crossing(lambda x: delta - self._delta(x).upper, 0.0, LARGEST_EPSILON, guess=self.mu)
        return self._value(found.above, math.inf)


def gaussian_limit(curve: PrivacyCurve) -> GaussianLimit:
    """What the curve approaches when there are many users: an approximation in no time, and not an upper bound.

    ``curve`` is one of ``amplify``, or several rounds of ``compose``.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> value = sdp.gaussian_limit(curve).epsilon(delta=1e-6)
    >>> print(f"{value.upper:.3f}", value.guarantee)
    0.068 False
    """
    mu = curve.loss_deviation()
    if mu is None:
        raise NotApplicable(NAME, f"the curve of {curve.bound!r} does not know its limit.")
    source: Source = dataclasses.replace(
        curve.source, bound=NAME, theorem="central limit theorem", guarantee=False, note=NOTE, attack=None
    )
    return GaussianLimit(source, mu)
