"""Bridge to dp_accounting (the optional extra ``interop``): privacy-loss distributions, events and an accountant.

``curve.to_pld()`` returns a distribution that composes with any other of dp_accounting; ``ShuffledDpEvent(curve)`` is
an event that ``ShuffledAccountant`` accepts beside all others; ``from_pld`` turns a distribution into a curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import install_hint
from shuffledp._core.validation import Floats
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, CurveSource, PrivacyCurve
from shuffledp.privacy.privacy_loss import LossGrid, LossSurvey

try:
    import attr
    from dp_accounting import dp_event, privacy_accountant
    from dp_accounting.pld import pld_pmf, pld_privacy_accountant, privacy_loss_distribution
except ImportError as error:
    raise ImportError(
        f"shuffledp: the bridge to other accountants needs dp_accounting; {install_hint('interop')}."
    ) from error

MIN_DELTA = 1e-15
REACH, ACCURACY = 6.0, 2e-5
"""Standard deviations within which the grid is even, and the relative amount by which it may raise ε."""
MAX_POINTS = 10_000_000
ROUNDING = 1e-12
"""Share of the mass that covers losses of dp_accounting, products in floats, that are not exactly on the grid."""

Distribution = Any
Replace = privacy_accountant.NeighboringRelation.REPLACE_ONE


def to_pld(
    curve: PrivacyCurve,
    *,
    discretization: float = 1e-4,
    pessimistic: bool = True,
    smallest_delta: float = MIN_DELTA,
) -> Distribution:
    """Returns a ``PrivacyLossDistribution`` of dp_accounting that dominates the curve, or one dominated by it.

    Theorem: connect the dots [Doroshenko et al. 2022], as in privacy/privacy_loss.py; one symmetric distribution, which
    dominates both directions of every pair of datasets that differ in one replaced record.
    Requires: ``discretization`` is the grid step of dp_accounting, equal for all that are composed; a value well below
    the curve's own ε makes the result tight. Losses that matter only for δ below ``smallest_delta`` are moved to
    infinity.

    Args:
        curve: The curve to convert.
        discretization: Grid step of the losses.
        pessimistic: True for a distribution that is worse than the curve, False for one that is better.
        smallest_delta: Losses that matter only for smaller δ are moved to infinity.

    Returns:
        An object of dp_accounting, an optimistic one where the curve is no guarantee. Its further computations are in
        floats without a bound of their error.

    Raises:
        ValueError: If a number is out of range, or if the grid would have more than ten million points.
    """
    who = "PrivacyCurve.to_pld"
    step = validation.positive_finite(who, "discretization", discretization)
    least = validation.open_probability(who, "smallest_delta", smallest_delta)
    survey = LossSurvey(curve, least)
    grid = LossGrid(curve, step, survey.floor)
    deviation = math.sqrt(survey.variance)
    stride = max(1, math.floor(math.sqrt(6 * ACCURACY) * deviation / step))
    above, below = grid.pairs(REACH * deviation, least, lambda x: np.full_like(x, least), stride=stride)
    chosen = above if pessimistic else below
    first, last = int(chosen.kinks.indices[0]), int(chosen.kinks.indices[-1])
    if last - first >= MAX_POINTS:
        raise ValueError(f"{who}: the losses take {last - first + 1} grid points; raise discretization, got {step!r}.")
    masses = np.zeros(last - first + 1)
    masses[chosen.kinks.indices - first] = chosen.kinks.masses * (1 + ROUNDING if pessimistic else 1 - ROUNDING)
    infinite = chosen.value_at_infinity * (1 + ROUNDING) if pessimistic else 0.0
    # A distribution that dominates a curve without guarantee is no guarantee either, and must not be marked
    # pessimistic.
    pmf = pld_pmf.DensePLDPmf(step, first, masses, min(1.0, infinite), pessimistic and curve.guarantee)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


@attr.s(frozen=True, auto_attribs=True)
class ShuffledDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """One round of shuffled messages, described by its curve; neighbours replace one record.

    Args:
        curve: The round's privacy curve.
    """

    curve: PrivacyCurve


class ShuffledAccountant(pld_privacy_accountant.PLDAccountant):  # type: ignore[misc]
    """dp_accounting's accountant of privacy-loss distributions, extended to ``ShuffledDpEvent``.

    It counts every repetition of a ``RandomizedResponseDpEvent``; dp_accounting 0.6.0 counts one.

    Args:
        neighboring_relation: dp_accounting's neighbouring relation; shuffled rounds need REPLACE_ONE.
        value_discretization_interval: Step of the grid of losses; it must be well below one round's ε.
    """

    _pld: Any

    def __init__(self, neighboring_relation: Any = Replace, value_discretization_interval: float = 1e-4) -> None:
        super().__init__(neighboring_relation, value_discretization_interval)

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if isinstance(event, ShuffledDpEvent):
            if self.neighboring_relation != Replace:
                return privacy_accountant.PrivacyAccountant.CompositionErrorDetails(
                    invalid_event=event,
                    error_message=f"neighboring_relation must be REPLACE_ONE, found {self.neighboring_relation}.",
                )
            if do_compose and count:
                one = to_pld(event.curve, discretization=self._value_discretization_interval)
                self._pld = self._pld.compose(one if count == 1 else one.self_compose(count))
            return None
        if isinstance(event, dp_event.RandomizedResponseDpEvent) and do_compose and count > 1:
            before = self._pld
            self._pld = privacy_loss_distribution.identity(
                value_discretization_interval=self._value_discretization_interval
            )
            failed = super()._maybe_compose(event, 1, do_compose)
            self._pld = before.compose(self._pld.self_compose(count))
            return failed
        return super()._maybe_compose(event, count, do_compose)


@dataclass(frozen=True)
class PldCurve(PrivacyCurve):
    """The curve of a dp_accounting distribution, the worse of its two directions, in floats."""

    pld: Distribution

    @property
    def certified(self) -> bool:
        return False

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        values = np.asarray(self.pld.get_delta_for_epsilon(np.sort(epsilons)), dtype=np.float64)
        upper = np.empty_like(values)
        upper[np.argsort(epsilons)] = np.clip(values, 0.0, 1.0)
        return upper, np.zeros_like(upper)

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), _ = self._profile(np.array([epsilon]))
        return self._value(float(upper), float(upper))

    def _epsilon(self, delta: float) -> BoundValue:
        if self._delta(0.0).upper <= delta:
            return self._value(0.0, 0.0)
        if self._delta(MAX_EPSILON).upper > delta:
            return self._value(math.inf, math.inf)
        found = find_crossing(lambda x: delta - self._delta(x).upper, 0.0, MAX_EPSILON, guess=1.0)
        return self._value(found.above, found.above)


def from_pld(pld: Distribution, *, users: float = 1, name: str = "dp_accounting") -> PldCurve:
    """Returns the curve of a distribution of dp_accounting, to compose with others here.

    The curve is a guarantee if the distribution is pessimistic. It is never certified, because dp_accounting does not
    bound the rounding of its transforms. The larger of the two directions is taken, which is sound for both.

    Args:
        pld: A ``PrivacyLossDistribution``.
        users: Number of users, for the description only.
        name: Name of the bound in results.

    Returns:
        A privacy curve.

    Raises:
        TypeError: If ``pld`` is not a ``PrivacyLossDistribution``.
        ValueError: If ``users`` is not a whole number of at least 1.
    """
    if not isinstance(pld, privacy_loss_distribution.PrivacyLossDistribution):
        raise TypeError(f"from_pld: expected a PrivacyLossDistribution of dp_accounting, got {type(pld).__name__}.")
    pessimistic = bool(pld._pmf_remove._pessimistic_estimate)
    note = "" if pessimistic else "An optimistic distribution: not an upper bound."
    number = validation.count("from_pld", "users", users)
    return PldCurve(CurveSource(name, "privacy-loss distribution of dp_accounting", number, pessimistic, note), pld)
