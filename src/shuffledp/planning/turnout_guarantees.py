"""Guarantees of a plan when fewer users take part, or when it is known who was drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shuffledp._core.errors import NumericalError
from shuffledp._core.formatting import format_epsilon_equation
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.planning.plan import Plan

REDUCED_SHARES = {"half": 2, "a tenth": 10}
"""Names of the fractions of users that take part, with their denominators."""


@dataclass(frozen=True)
class TurnoutGuarantee:
    """The guarantee of all rounds together if only a part of the users take part."""

    share: str
    users: int
    epsilon: float | None
    """The certified central ε at the plan's δ; None if nothing is proved."""
    reason: str = ""
    """The reason if nothing is proved."""

    @property
    def text(self) -> str:
        """The guarantee as a short text, rounded up."""
        return "no central ε" if self.epsilon is None else format_epsilon_equation(self.epsilon, 4)

    def document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        return dict(vars(self))


def reduced_turnout_guarantees(plan: Plan) -> tuple[TurnoutGuarantee, ...]:
    """Returns the guarantees for half and for a tenth of the planned users, with as many colluding as planned."""
    shares = {share: plan.users // part for share, part in REDUCED_SHARES.items()}
    return tuple(guarantee_at_turnout(plan, users, share) for share, users in shares.items() if users)


def guarantee_at_turnout(plan: Plan, users: int, share: str = "these") -> TurnoutGuarantee:
    """Returns the guarantee of the plan if exactly ``users`` take part."""
    try:
        # With a random number of users many sizes are computed: only the quick bounds are fast enough.
        effort = plan.effort if plan.rate is None else QUICK_EFFORT
        participation = plan.participation.with_respondents(users, plan.delta)
        curve = participation.curve(plan.mechanism, bound=plan.bound, colluding=plan.colluding, effort=effort)
        if not curve.guarantee:
            return TurnoutGuarantee(share, users, None, f"The plan's bound {plan.bound} is no guarantee.")
        return TurnoutGuarantee(share, users, curve.epsilon(plan.delta).upper)
    except (ValueError, NumericalError) as error:
        # Too few honest users for the mechanism or for any theorem: a result, not an error of the caller.
        return TurnoutGuarantee(share, users, None, str(error))


def known_sample_epsilon(plan: Plan) -> float:
    """Returns ε of all rounds at the plan's δ if everybody learns who was drawn, for a person drawn every time."""
    effort = plan.effort if plan.rate is None else QUICK_EFFORT
    curve = plan.participation.disclosed_sample_curve(
        plan.mechanism, bound=plan.bound, colluding=plan.colluding, effort=effort
    )
    return curve.epsilon(plan.delta).upper
