"""What a plan promises if fewer users take part than were planned for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shuffledp.bounds.best import QUICK
from shuffledp.document import epsilon_is
from shuffledp.errors import NumericalError
from shuffledp.planner.plan_file import Plan

SHARES = {"half": 2, "a tenth": 10}
"""What part of the users is left, in words, and one in how many that is."""


@dataclass(frozen=True)
class Turnout:
    """The guarantee of all rounds together if only a part of the users take part."""

    share: str
    users: int
    epsilon: float | None
    """The certified central ε at the plan's δ; None where nothing is proved."""
    reason: str = ""
    """Why nothing is proved."""

    @property
    def words(self) -> str:
        """The guarantee in short, rounded up."""
        return "no central ε" if self.epsilon is None else epsilon_is(self.epsilon, 4)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


def turnouts(plan: Plan) -> tuple[Turnout, ...]:
    """Half and a tenth of the planned users, as many of them colluding as the plan says; at least one."""
    shares = {share: plan.users // part for share, part in SHARES.items()}
    return tuple(turnout(plan, users, share) for share, users in shares.items() if users)


def turnout(plan: Plan, users: int, share: str = "these") -> Turnout:
    """What the plan promises if just so many users take part."""
    try:
        # Of many sizes only the quick bounds are worth the time.
        effort = plan.effort if plan.rate is None else QUICK
        schedule = plan.schedule.answered_by(users, plan.delta)
        curve = schedule.curve(plan.mechanism, bound=plan.bound, colluding=plan.colluding, effort=effort)
        if not curve.guarantee:
            return Turnout(share, users, None, f"The plan's bound {plan.bound} is no guarantee.")
        return Turnout(share, users, curve.epsilon(plan.delta).upper)
    except (ValueError, NumericalError) as error:
        # Too few honest users for the mechanism, or for any theorem: not a fault of whoever asks what if.
        return Turnout(share, users, None, str(error))


def known_epsilon(plan: Plan) -> float:
    """ε of all rounds at the plan's δ if everybody learns who was drawn, for a person who is drawn each time."""
    effort = plan.effort if plan.rate is None else QUICK
    curve = plan.schedule.known(plan.mechanism, bound=plan.bound, colluding=plan.colluding, effort=effort)
    return curve.epsilon(plan.delta).upper
