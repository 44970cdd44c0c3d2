"""How much local privacy, or how many users, an attack-risk target needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from shuffledp import argument
from shuffledp.bounds.amplify import amplify
from shuffledp.errors import NotApplicable
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.tradeoff.risk import AttackRisk, Risk

WHO = "RiskTarget"
LEAST_LOCAL, MOST_LOCAL = 1e-4, 20.0
MOST_USERS = 10**12
RELATIVE = 1e-6
"""How sharply the local ε is found; what is returned meets the target in any case."""


@dataclass(frozen=True)
class RiskTarget:
    """One limit on every attack: give exactly one of the four, with what it needs.

    ``advantage``: at most this TPR − FPR. ``tpr`` with ``fpr``: at most this true-positive rate at that false-positive
    rate. ``bayes_risk`` with ``prior``: at least this probability of a wrong guess. ``ppv`` with ``fpr`` and
    ``prior``: at most this positive predictive value.
    """

    advantage: float | None = None
    tpr: float | None = None
    bayes_risk: float | None = None
    ppv: float | None = None
    fpr: float | None = None
    prior: float | None = None

    def __post_init__(self) -> None:
        needs = {"advantage": (), "tpr": ("fpr",), "bayes_risk": ("prior",), "ppv": ("fpr", "prior")}
        given = [name for name in needs if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{WHO}: give exactly one of advantage, tpr, bayes_risk, ppv, got {given or 'none'}.")
        wanted = needs[given[0]]
        for name in ("fpr", "prior"):
            if (getattr(self, name) is not None) != (name in wanted):
                raise ValueError(f"{WHO}: {given[0]} {'needs' if name in wanted else 'does not take'} {name}.")
        for name in (given[0], *wanted):
            argument.open_probability(WHO, name, getattr(self, name))

    def risk(self, curve: PrivacyCurve) -> Risk:
        """The number that the target limits."""
        risk = AttackRisk(curve)
        if self.advantage is not None:
            return risk.advantage()
        if self.bayes_risk is not None:
            return risk.bayes_risk(_given(self.prior))
        if self.ppv is not None:
            return risk.ppv(_given(self.fpr), _given(self.prior))
        return risk.tpr(_given(self.fpr))

    def excess(self, risk: Risk) -> float:
        """Above 0 exactly where the target is missed."""
        if self.bayes_risk is not None:
            return self.bayes_risk - risk.value
        limit = self.advantage if self.advantage is not None else self.ppv if self.ppv is not None else self.tpr
        return risk.value - _given(limit)


@dataclass(frozen=True)
class RiskCalibration:
    """What meets a target: ``value`` (local ε or number of users), the curve, and the risk that was checked."""

    value: float
    randomizer: Randomizer
    curve: PrivacyCurve
    risk: Risk


@dataclass(frozen=True)
class _Trial:
    """One candidate, with its curve and risk computed once."""

    randomizer: Randomizer
    users: int
    bound: str
    target: RiskTarget

    @cached_property
    def curve(self) -> PrivacyCurve:
        return amplify(self.randomizer, self.users, bound=self.bound)

    @cached_property
    def risk(self) -> Risk:
        return self.target.risk(self.curve)

    @cached_property
    def excess(self) -> float:
        if not self.curve.guarantee:
            raise NotApplicable(self.bound, "is not a guarantee, so that nothing can be calibrated to it.")
        return self.target.excess(self.risk)

    def result(self, value: float) -> RiskCalibration:
        return RiskCalibration(value, self.randomizer, self.curve, self.risk)


def calibrate_local(
    make: Callable[[float], Randomizer], users: float, target: RiskTarget, *, bound: str = "best"
) -> RiskCalibration:
    """The largest local ε, up to 20, whose shuffled messages meet an attack-risk target.

    ``make`` builds the randomizer of a local ε, such as ``VariationRatio.of_ldp``.
    """
    count = argument.count("calibrate_local", "users", users)
    trials: dict[float, _Trial] = {}

    def excess(log_local: float) -> float:
        local = math.exp(log_local)
        try:
            trial = _Trial(make(local), count, bound, target)
        except ValueError:
            # A mechanism may refuse a local ε with which it would tell nothing, or one that is far too large.
            return -math.inf if local < 1 else math.inf
        trials[local] = trial
        return trial.excess

    low, high = math.log(LEAST_LOCAL), math.log(MOST_LOCAL)
    if excess(low) > 0:
        raise NotApplicable(
            "calibrate_local", f"no local ε of at least {LEAST_LOCAL:g} meets the target with {count:,} users."
        )
    if excess(high) > 0:
        find_crossing(excess, low, high, guess=0.0, relative=0.0, absolute=RELATIVE)
    meeting = [local for local, trial in trials.items() if trial.excess <= 0]
    if not meeting:
        make(LEAST_LOCAL)
        raise NotApplicable("calibrate_local", f"no local ε was found that meets the target with {count:,} users.")
    return trials[max(meeting)].result(max(meeting))


def calibrate_users(randomizer: Randomizer, target: RiskTarget, *, bound: str = "best") -> RiskCalibration:
    """The smallest number of users, up to 1e12, whose shuffled messages meet an attack-risk target."""
    trials: dict[int, _Trial] = {}

    def enough(users: int) -> bool:
        if users not in trials:
            trials[users] = _Trial(randomizer, users, bound, target)
        return trials[users].excess <= 0

    def score(log_users: float) -> float:
        users = max(1, round(math.exp(log_users)))
        return -trials[users].excess if enough(users) else min(-trials[users].excess, 0.0)

    if enough(1):
        return trials[1].result(1)
    high = 2
    while not enough(high):
        high *= 8
        if high > MOST_USERS:
            raise NotApplicable("calibrate_users", f"{MOST_USERS:,} users do not meet the target; lower the local ε.")
    find_crossing(score, math.log(max(1, high // 8)), math.log(high), relative=0.0, absolute=0.25 / high)
    best = min(users for users, trial in trials.items() if trial.excess <= 0)
    while best > 1 and enough(best - 1):
        best -= 1
    return trials[best].result(best)


def _given(value: float | None) -> float:
    assert value is not None
    return value
