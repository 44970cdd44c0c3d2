"""What the people who really took part are promised, against what the plan promised."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from shuffledp import argument
from shuffledp.bounds.best import QUICK
from shuffledp.certificate.certify import proved_claim
from shuffledp.certificate.claim import Claim
from shuffledp.composition.group import group
from shuffledp.composition.schedule import CONDITION, WHO as SCHEDULE, Schedule
from shuffledp.composition.sequential import compose
from shuffledp.document import epsilon_is
from shuffledp.errors import ShuffledpError
from shuffledp.mechanisms import catalogue
from shuffledp.planner.plan_file import Plan
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.value import BoundValue

CHANCE = 6.0
"""By how many standard deviations fewer may come than coins make expect, before it is taken not to be chance."""


class TooWeak(ShuffledpError):
    """The collection would promise less than was planned or than the budget allows; nothing was released."""


def composed_epsilon(curves: Sequence[PrivacyCurve], delta: float) -> float:
    """ε of all rounds together at δ, each of them on the same people: an upper bound; 0 for no round."""
    return compose(curves).epsilon(delta).upper if curves else 0.0


@dataclass(frozen=True)
class Recipe:
    """All that the privacy curve of one collection follows from; collections with the same one have the same curve."""

    mechanism: str
    """Its document, as JSON in canonical form."""
    users: int
    """How many rows take part: one of each user, or several."""
    bound: str
    per_person: int = 1
    """The most rows of one person."""
    colluding: int = 0
    """How many of the rows hide nobody: all that the users have who collude."""
    effort: str = QUICK
    """Which bounds are looked at."""
    out_of: int | None = None
    """Out of how many rows these were secretly drawn; None where all take part."""
    rate: str | None = None
    """The probability of each, where a coin decided; ``users`` is then how many come on average."""

    @classmethod
    def of(cls, plan: Plan, schedule: Schedule, per_person: int = 1) -> Self:
        """The recipe of a round of a plan in which these users take part."""
        mechanism, drawn = json.dumps(plan.mechanism.document(), sort_keys=True), schedule.drawn()
        return cls(
            mechanism, schedule.expected, plan.bound, per_person, plan.colluding * per_person, plan.effort,
            drawn.get("of"), drawn.get("rate"),
        )  # fmt: skip

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``document``."""
        mechanism = json.dumps(document["mechanism"], sort_keys=True)
        return cls(
            mechanism, document["users"], document["bound"], document.get("per_person", 1),
            document.get("colluding", 0), document.get("effort", QUICK), document.get("of"), document.get("rate"),
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "mechanism": json.loads(self.mechanism),
            "users": self.users,
            "bound": self.bound,
            "per_person": self.per_person,
            # Only where there are any: stored curves are found by what this says, and older ones say nothing of it.
            **({"colluding": self.colluding} if self.colluding else {}),
            **({} if self.effort == QUICK else {"effort": self.effort}),
            **self.schedule.drawn(),
        }

    @property
    def schedule(self) -> Schedule:
        """Who takes part."""
        return Schedule.read({"users": self.users, "of": self.out_of, "rate": self.rate})

    def curve(self) -> PrivacyCurve:
        """The privacy of such a collection, for a person with all her rows; nobody learns who was drawn."""
        return self._of(self.schedule.curve)

    def known(self) -> PrivacyCurve:
        """The same if everybody learns who was drawn, for a person who was."""
        return self._of(self.schedule.known)

    def _of(self, curve: Callable[..., PrivacyCurve]) -> PrivacyCurve:
        mechanism = catalogue.read(json.loads(self.mechanism))
        return group(curve(mechanism, bound=self.bound, colluding=self.colluding, effort=self.effort), self.per_person)


@dataclass(frozen=True)
class Guarantee:
    """The privacy of a plan's shuffled messages if this many users take part.

    Where one person may have several rows, ``per_person`` at most, ``users`` counts the rows. As many of the users
    collude as the plan says.
    """

    plan: Plan
    users: int
    per_person: int = 1
    out_of: int | None = None
    """Out of how many rows these were drawn here; None where the plan says it of a sample that was drawn elsewhere."""

    @cached_property
    def schedule(self) -> Schedule:
        """Who takes part in this round.

        Of a sample that was drawn elsewhere, and of which fewer came than planned, as large a part of those who were
        not drawn is taken to be out of reach, too: the share stays, the crowd shrinks.
        """
        planned = self.plan.schedule.each_round()
        if not planned.is_sampled:
            return Schedule(self.users)
        if self.out_of is not None:
            with argument.said_by("collect", SCHEDULE):
                return replace(planned, users=None if planned.rate is not None else self.users, of=self.out_of)
        if planned.rate is not None and self.users >= planned.expected - CHANCE * math.sqrt(planned.expected):
            return planned
        return planned.answered_by(self.users)

    @cached_property
    def recipe(self) -> Recipe:
        return Recipe.of(self.plan, self.schedule, self.per_person)

    def came(self, users: int) -> Guarantee:
        """The same of as many as were drawn; where coins decided, that changes no promise."""
        if users == self.users:
            return self
        result = replace(self, users=users)
        if result.recipe == self.recipe:
            kept = ("curve", "value", "epsilon", "known", "known_epsilon")
            vars(result).update({name: vars(self)[name] for name in kept if name in vars(self)})
        return result

    @cached_property
    def curve(self) -> PrivacyCurve:
        if self.recipe.colluding >= self.users:
            raise TooWeak(
                f"collect: {self.users} {self._who} took part, and the plan takes {self.plan.colluding} users to "
                f"collude, who hide nobody: that leaves nobody; nothing was released."
            )
        curve = self.recipe.curve()
        if not curve.guarantee:
            raise ValueError(f"collect: the plan's bound {self.plan.bound} is no guarantee; plan with another one.")
        return curve

    @cached_property
    def value(self) -> BoundValue:
        """ε of this round alone, at the plan's δ."""
        return self.curve.epsilon(self.plan.delta)

    @cached_property
    def epsilon(self) -> float:
        """ε of all planned rounds together, if each is like this one."""
        if self.plan.rounds == 1:
            return self.value.upper
        return composed_epsilon([self.curve] * self.plan.rounds, self.plan.delta)

    @cached_property
    def known(self) -> float:
        """ε of this round alone if everybody learns who was drawn."""
        return self._known_curve.epsilon(self.plan.delta).upper

    @cached_property
    def known_epsilon(self) -> float:
        """The same of all planned rounds together, for a person who is drawn each time."""
        return (
            self.known
            if self.plan.rounds == 1
            else composed_epsilon([self._known_curve] * self.plan.rounds, self.plan.delta)
        )

    @cached_property
    def _known_curve(self) -> PrivacyCurve:
        return self.recipe.known()

    @property
    def kept(self) -> bool:
        """Whether the plan's target is met, and that of every pair of values where there are such."""
        return self.epsilon <= self.plan.epsilon and self.missed_pair is None

    @cached_property
    def missed_pair(self) -> tuple[int, int] | None:
        """The first two values that miss a target of their own; None where none do, or have one."""
        promise = self.plan.pair_promise
        return None if promise is None else promise.missed(self._honest)

    @property
    def _honest(self) -> int:
        """How many users hide each other."""
        if self.plan.pair_promise is not None and self.per_person > 1:
            raise TooWeak(
                f"collect: the plan promises every two values an ε of their own, which holds for one row of each "
                f"person, got up to {self.per_person}; nothing was released."
            )
        return self.users - self.recipe.colluding

    def demand(self, allow_weaker: bool) -> None:
        """Stop unless the target is met, or missing it was allowed."""
        if self.missed_pair is not None and not allow_weaker:
            promise = self.plan.pair_promise
            assert promise is not None, "a pair can only miss what it was promised"
            raise TooWeak(
                f"collect: {promise.sentence(self.missed_pair, self._honest)}; nothing was released; add "
                f"--allow-weaker to accept that."
            )
        if not self.kept and not allow_weaker:
            rounds = f" over {self.plan.rounds} rounds" if self.plan.rounds > 1 else ""
            least = "" if self.plan.minimum is None else f", at least {self.plan.minimum}"
            lost = f", {self.plan.colluding} of them colluding," if self.plan.colluding else ""
            lost = f" out of {self.schedule.of}{lost}" if self.schedule.is_sampled else lost
            raise TooWeak(
                f"collect: {self.users} {self._who} took part{lost} where {self.plan.users} were planned{least}, which "
                f"gives {epsilon_is(self.epsilon)}{rounds} at δ = {self.plan.delta:g}, above the target "
                f"{self.plan.epsilon:g}; nothing was released; add --allow-weaker to accept that."
            )

    @property
    def _who(self) -> str:
        return "users" if self.per_person == 1 else f"rows, up to {self.per_person} of one person,"

    def claim(self) -> Claim:
        """The certificate's claim for this round; a sentence (``ValueError``) where `verify` could not prove it."""
        if self.per_person > 1:
            raise ValueError("certificate: expected one row of each person, got more; no proof of that is known.")
        if self.schedule.is_sampled:
            raise ValueError("certificate: expected all users, not some who were drawn; no proof of that is known.")
        if math.isinf(self.value.upper):
            raise ValueError("certificate: there is no finite ε to certify.")
        return proved_claim(self.plan.mechanism, self._honest, self.value, delta=self.plan.delta)

    def _pairs(self) -> dict[str, Any]:
        """What every two values are promised, and what is proved for them."""
        promise = self.plan.pair_promise
        if promise is None:
            return {}
        return {"target_distances": promise.target.matrix.tolist(), "distances": promise.proved(self._honest).tolist()}

    def _drawn(self) -> dict[str, Any]:
        """How the users were drawn, what the promise rests on, and what is left without it."""
        if not self.schedule.is_sampled:
            return {}
        left = {"epsilon": self.known, "epsilon_all_rounds": self.known_epsilon}
        return self.schedule.drawn() | {"condition": CONDITION, "if_known": left}

    def document(self) -> dict[str, Any]:
        """For the report."""
        return {
            "epsilon": {"lower": self.value.lower, "upper": self.value.upper, "slack": self.value.slack},
            "delta": self.plan.delta,
            "users": self.users,
            "per_person": self.per_person,
            "colluding": self.plan.colluding,
            "bound": self.value.bound,
            "theorem": self.value.theorem,
            "certified": self.value.certified,
            "guarantee": self.value.guarantee,
            "rounds": self.plan.rounds,
            **self._drawn(),
            "epsilon_all_rounds": self.epsilon,
            "target": {
                "epsilon": self.plan.epsilon,
                "delta": self.plan.delta,
                "users": self.plan.users,
                "minimum": self.plan.fewest,
            },
            "target_met": self.kept,
            **self._pairs(),
            "epsilon_local": self.plan.mechanism.local_epsilon,
            "messages_per_user": self.plan.mechanism.messages_per_user,
        }
