"""Bridge to dp_accounting (the optional extra ``interop``): its privacy-loss distributions, its events, its accountant.

``curve.to_pld()`` gives a distribution that composes with any other of theirs; ``ShuffledDpEvent(curve)`` is an event
that ``ShuffledAccountant`` understands next to all of theirs; ``from_pld`` turns a distribution of theirs into a curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.errors import installing
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve, Source
from shuffledp.privacy.loss import LossGrid, LossSurvey
from shuffledp.privacy.value import BoundValue

try:
    import attr
    from dp_accounting import dp_event, privacy_accountant
    from dp_accounting.pld import pld_pmf, pld_privacy_accountant, privacy_loss_distribution
except ImportError as error:
    raise ImportError(
        f"shuffledp: the bridge to other accountants needs dp_accounting; {installing('interop')}."
    ) from error

SMALLEST_DELTA = 1e-15
REACH, ACCURACY = 6.0, 2e-5
"""Up to how many standard deviations the grid is used evenly, and by how much that may raise ε, relatively."""
MOST_POINTS = 10_000_000
ROUNDING = 1e-12
"""Sums of their losses, products in floats, are not exactly on the grid; this share of the mass covers it."""

Distribution = Any
Replace = privacy_accountant.NeighboringRelation.REPLACE_ONE


def to_pld(
    curve: PrivacyCurve,
    *,
    discretization: float = 1e-4,
    pessimistic: bool = True,
    smallest_delta: float = SMALLEST_DELTA,
) -> Distribution:
    """A ``PrivacyLossDistribution`` of dp_accounting that is worse than the curve, or better where not pessimistic.

    Theorem: connect the dots [Doroshenko et al. 2022], as in privacy/loss.py; one symmetric distribution, which
    dominates both directions of every pair of datasets that differ in one replaced record.
    Requires: ``discretization`` is theirs, and equal for all that are composed; a value well below the curve's own
    ε makes the result tight. Losses that matter only for δ below ``smallest_delta`` are moved to infinity.
    Returns: their object, an optimistic one where the curve is no guarantee. What it computes from there on is in
    floats without a bound of their error.
    """
    who = "PrivacyCurve.to_pld"
    step = argument.positive_finite(who, "discretization", discretization)
    least = argument.open_probability(who, "smallest_delta", smallest_delta)
    survey = LossSurvey(curve, least)
    grid = LossGrid(curve, step, survey.floor)
    deviation = math.sqrt(survey.variance)
    stride = max(1, math.floor(math.sqrt(6 * ACCURACY) * deviation / step))
    above, below = grid.pairs(REACH * deviation, least, lambda x: np.full_like(x, least), stride=stride)
    chosen = above if pessimistic else below
    first, last = int(chosen.kinks.indices[0]), int(chosen.kinks.indices[-1])
    if last - first >= MOST_POINTS:
        raise ValueError(f"{who}: the losses take {last - first + 1} grid points; raise discretization, got {step!r}.")
    masses = np.zeros(last - first + 1)
    masses[chosen.kinks.indices - first] = chosen.kinks.masses * (1 + ROUNDING if pessimistic else 1 - ROUNDING)
    infinite = chosen.rest * (1 + ROUNDING) if pessimistic else 0.0
    # What is worse than a curve that is no guarantee is none either: theirs must not be taken for a pessimistic one.
    pmf = pld_pmf.DensePLDPmf(step, first, masses, min(1.0, infinite), pessimistic and curve.guarantee)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


@attr.s(frozen=True, auto_attribs=True)
class ShuffledDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """One round of shuffled messages, described by its curve; neighbours replace one record."""

    curve: PrivacyCurve


class ShuffledAccountant(pld_privacy_accountant.PLDAccountant):  # type: ignore[misc]
    """Their accountant of privacy-loss distributions, which also understands ``ShuffledDpEvent``.

    It counts every ``RandomizedResponseDpEvent`` of a repeated one; dp_accounting 0.6.0 counts one.
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
    """The curve of a distribution of dp_accounting, the worse of its two directions, in its floats."""

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
        if self._delta(LARGEST_EPSILON).upper > delta:
            return self._value(math.inf, math.inf)
        found = find_crossing(lambda x: delta - self._delta(x).upper, 0.0, LARGEST_EPSILON, guess=1.0)
        return self._value(found.above, found.above)


def from_pld(pld: Distribution, *, users: float = 1, name: str = "dp_accounting") -> PldCurve:
    """The curve of a distribution of dp_accounting, to compose with others here.

    It is a guarantee if the distribution is pessimistic, and never certified: dp_accounting does not bound the
    rounding of its transforms. The larger of its two directions is taken, which is sound for both.
    """
    if not isinstance(pld, privacy_loss_distribution.PrivacyLossDistribution):
        raise TypeError(f"from_pld: expected a PrivacyLossDistribution of dp_accounting, got {type(pld).__name__}.")
    pessimistic = bool(pld._pmf_remove._pessimistic_estimate)
    note = "" if pessimistic else "An optimistic distribution: not an upper bound."
    number = argument.count("from_pld", "users", users)
    return PldCurve(Source(name, "privacy-loss distribution of dp_accounting", number, pessimistic, note), pld)
