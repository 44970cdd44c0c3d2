"""What the people who really took part are promised, against what the plan promised."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from shuffledp import argument
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.best import QUICK
from shuffledp.bounds.nonresponse import LARGEST_DELTA, nonresponse
from shuffledp.bounds.schedule import CONDITION, WHO as SCHEDULE, Schedule, rate_text
from shuffledp.bounds.subsampling import poisson, subsample
from shuffledp.certificate.certify import proved_claim, scheduled_claim
from shuffledp.certificate.claim import Claim
from shuffledp.composition.group import group
from shuffledp.composition.sequential import compose
from shuffledp.document import GUARANTEE_DIGITS, epsilon_is, typed
from shuffledp.errors import ShuffledpError
from shuffledp.mechanisms import catalogue
from shuffledp.planner.plan_file import Plan
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.value import BoundValue
from shuffledp.statement.condition import NONRESPONSE, SECRET_SAMPLE, conditions
from shuffledp.statement.statement import Statement, facts_of

ROUNDING = 1e-12
CURVES = ("curve", "value", "epsilon")
KNOWN_CURVES = ("known", "known_epsilon", "_known_curve", "missed_pair")
"""Of who is known, and of how many hide each other: these follow from who came, not from the recipe alone."""


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
    drawn_from: int | None = None
    """How many people they were drawn from at random, where nobody learns who was; None where all were asked."""
    rate: str | None = None
    """An exact decimal: the chance with which each of those takes part, by a coin; None where their number is fixed."""
    drawn: int | None = None
    """The number drawn, where it is fixed and some of them may have stayed away; None where none did."""
    failure: float | None = None
    """The part of δ that a sample costs of which some may have stayed away; ``users`` are then those who came."""

    @classmethod
    def of(cls, plan: Plan, users: int, per_person: int = 1) -> Self:
        """The recipe of a plan in which this many users take part."""
        mechanism = json.dumps(plan.mechanism.document(), sort_keys=True)
        return cls(mechanism, users, plan.bound, per_person, plan.colluding * per_person, plan.effort)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``document``."""
        mechanism = json.dumps(document["mechanism"], sort_keys=True)
        return cls(
            mechanism, document["users"], document["bound"], document.get("per_person", 1),
            document.get("colluding", 0), document.get("effort", QUICK), document.get("of"), document.get("rate"),
            document.get("drawn"), document.get("failure"),
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
            **({} if self.drawn_from is None else {"of": self.drawn_from}),
            **({} if self.rate is None else {"rate": self.rate}),
            **({} if self.drawn is None else {"drawn": self.drawn}),
            **({} if self.failure is None else {"failure": self.failure}),
        }

    @property
    def asked(self) -> int:
        """How many were drawn, whether they came or not."""
        return self.users if self.drawn is None else max(self.drawn, self.users)

    @property
    def known(self) -> Recipe:
        """The same of people who came and are known: that of a sample without the secret of who was drawn."""
        return replace(self, drawn_from=None, rate=None, drawn=None, failure=None)

    def premises(self) -> tuple[str, ...]:
        """What must be so for its guarantee, beside what every collection needs."""
        drawn = () if self.drawn_from is None else (SECRET_SAMPLE,)
        if self.failure is not None:
            drawn = (*drawn, NONRESPONSE)
        return (*drawn, *catalogue.read(json.loads(self.mechanism)).premises())

    def crowd_words(self) -> str:
        """Who took part, for people."""
        drawn = "" if self.drawn_from is None else f" of {self.drawn_from:,}"
        coins = "" if self.rate is None else f" by coins of {rate_text(Fraction(self.rate) * 100)}%"
        came = " came" if self.failure is not None else ""
        away = f"{came}" if self.asked == self.users else f"{came}, {self.asked - self.users:,} drawn stayed away"
        lost = f" ({self.colluding:,} colluding)" if self.colluding else ""
        return f"{self.users:,}{drawn}{coins}{away}{lost}"

    def covers(self, other: Recipe) -> bool:
        """Whether this counts at least what the other does: the same, with as many users or fewer.

        Of people who are drawn, more are a larger share: only as many count the same.
        """
        if self.drawn_from is not None:
            return self == other
        return replace(other, users=self.users) == self and other.users >= self.users

    def drawn_alike(self, settled: Recipe) -> bool:
        """Whether what a reservation is settled with was drawn as it says: no fewer, though fewer may have come."""
        same = (self.drawn_from, self.rate) == (settled.drawn_from, settled.rate)
        return same and (self.drawn_from is None or self.rate is not None or settled.asked >= self.asked)


def curve_of_entry(recipe: Recipe) -> PrivacyCurve:
    """The privacy of one collection, for a person with all rows: the only place where an entry becomes a curve."""
    mechanism = catalogue.read(json.loads(recipe.mechanism))
    how: dict[str, Any] = {"bound": recipe.bound, "colluding": recipe.colluding, "effort": recipe.effort}
    if recipe.drawn_from is None:
        if recipe.rate is not None:
            raise ValueError('ledger: a "rate" needs "of", the number of people who flip the coin.')
        return group(amplify(mechanism, recipe.users, **how), recipe.per_person)
    if recipe.per_person > 1:
        raise ValueError(f"ledger: people who are drawn have one row each, got up to {recipe.per_person}.")
    # Numbers of every exact type are taken as they are.
    exact: Any = None if recipe.rate is None else Decimal(recipe.rate)
    if recipe.failure is not None:
        rate, asked = (None, recipe.asked) if exact is None else (Fraction(exact), None)
        return nonresponse(
            mechanism, recipe.users, recipe.drawn_from, failure=recipe.failure, asked=asked, rate=rate, **how
        )
    if recipe.drawn is not None:
        # Written by 0.1.0, where some stayed away: what it counted for that is not proved.
        return curve_of_entry(recipe.known)
    if exact is not None:
        return poisson(mechanism, recipe.drawn_from, exact, **how)
    return subsample(amplify(mechanism, recipe.users, **how), recipe.drawn_from)


def within_failure(recipes: Iterable[Recipe], delta: float) -> list[Recipe]:
    """Samples that cost a part of δ, up to half of it, in their order; later ones count as people who are known.

    Which ones those are depends on what was planned and on δ, never on who came.
    """
    found, left = [], delta / 2 if delta <= LARGEST_DELTA else 0.0
    for recipe in recipes:
        cost = 0.0 if recipe.failure is None else recipe.failure
        # What a plan of many rounds divides among them may be a hair more in sum.
        fits = cost <= left * (1 + ROUNDING) + ROUNDING * delta
        left -= cost if fits else 0.0
        found.append(recipe if fits or not cost else recipe.known)
    return found


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
    by_id: bool = field(default=False, compare=False)
    """Whether a column of the input says whose the rows are."""
    set_aside: int = 0
    """The number who came beyond the users who can be relied on: people who hide nobody."""
    round_number: int | None = field(default=None, compare=False)
    """Which of the plan's rounds this is; None where nobody says."""
    certificate: Claim | str | None = field(default=None, repr=False, compare=False)
    """The claim that is handed out with it, or why there is none; None where none was asked for."""

    @cached_property
    def schedule(self) -> Schedule:
        """Who took part in this round: those drawn here, or those who came of a sample that was drawn elsewhere."""
        planned = self.plan.schedule.each_round()
        if not planned.is_sampled:
            return Schedule(self.users)
        if self.out_of is None:
            return self.plan.schedule.answered_by(self.users + self.set_aside, self.plan.delta).each_round()
        with argument.said_by("collect", SCHEDULE):
            if planned.rate is None:
                return Schedule(self.users, self.out_of)
            return replace(planned, of=self.out_of)

    @property
    def _responded(self) -> bool:
        """True where some who were drawn may have stayed away."""
        return self.schedule.came is not None

    @property
    def recipe(self) -> Recipe:
        """Where coins are tossed here, ``users`` is how many come on average: rounds of the same coins are the same."""
        schedule, drawn = self.schedule, self.schedule.drawn()
        on_average = "rate" in drawn and not self._responded
        users = schedule.expected if on_average else schedule.taking_part if drawn else self.users
        found = Recipe.of(self.plan, users, self.per_person)
        if not drawn:
            return found
        lost = self.set_aside if self._responded else 0
        asked = schedule.expected if self._responded and schedule.rate is None else None
        return replace(
            found, colluding=found.colluding + lost, drawn_from=drawn["of"], rate=drawn.get("rate"), drawn=asked,
            failure=schedule.failure,
        )  # fmt: skip

    def in_round(self, round_number: int) -> Guarantee:
        """The same of this round of the plan, with all that is computed already."""
        result = replace(self, round_number=round_number)
        vars(result).update({name: value for name, value in vars(self).items() if name != "round_number"})
        return result

    def came(self, users: int) -> Guarantee:
        """The same of as many as were drawn here; where coins decided, that changes no promise but of who is known."""
        if users == self.users:
            return self
        result = replace(self, users=users, certificate=None)
        return self._share_with(result, CURVES) if result.recipe == self.recipe else result

    def with_certificate(self) -> Guarantee:
        """The same with its certificate, or why there is none: from here on what is claimed is what is ``stated``."""
        made: Claim | str
        try:
            made = self.claim()
        except ValueError as error:
            made = str(error).removeprefix("certificate: ").rstrip(".")
        return self._share_with(replace(self, certificate=made), (*CURVES, *KNOWN_CURVES))

    def _share_with(self, other: Guarantee, names: Sequence[str]) -> Guarantee:
        """The other, of the same recipe, with these of what was computed here."""
        vars(other).update({name: vars(self)[name] for name in names if name in vars(self)})
        return other

    @cached_property
    def curve(self) -> PrivacyCurve:
        if self.plan.colluding * self.per_person >= self.users:
            raise TooWeak(
                f"collect: {self.users} {self._who} took part, and the plan takes {self.plan.colluding} users to "
                f"collude, who hide nobody: that leaves nobody; nothing was released."
            )
        curve = curve_of_entry(self.recipe)
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
    def stated(self) -> BoundValue:
        """ε of this round alone as every file and the screen state it: as its certificate does, where it has one."""
        if not isinstance(self.certificate, Claim):
            return self.value
        claim, theorem = self.certificate, self.value.theorem
        if claim.bound != self.value.bound:
            theorem = curve_of_entry(replace(self.recipe, bound=claim.bound)).theorem
        return claim.stated(self.value, theorem)

    @property
    def stated_epsilon(self) -> float:
        """ε of all planned rounds together, stated alike: a certificate is of one round."""
        return self.stated.upper if self.plan.rounds == 1 else self.epsilon

    @cached_property
    def known(self) -> float:
        """ε of this round alone if everybody learns who was drawn."""
        return self._known_curve.epsilon(self.plan.delta).upper

    @cached_property
    def known_epsilon(self) -> float:
        """The same of all planned rounds together, for a person who is drawn each time."""
        rounds = self.plan.rounds
        return self.known if rounds == 1 else composed_epsilon([self._known_curve] * rounds, self.plan.delta)

    @cached_property
    def _known_curve(self) -> PrivacyCurve:
        """Those who came hide each other, and nothing else does."""
        return curve_of_entry(replace(self.recipe, users=self.users + self.set_aside).known)

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
        return self.users - self.plan.colluding * self.per_person

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
            again = "plan again with --minimum, the fewest of those drawn who will come, or " if self._responded else ""
            raise TooWeak(
                f"collect: {self.users} {self._who} took part{lost} where {self.plan.users} were planned{least}, which "
                f"gives {epsilon_is(self.epsilon)}{rounds} at δ = {typed(self.plan.delta)}, above the target "
                f"{typed(self.plan.epsilon)}; nothing was released; {again}add --allow-weaker to accept that."
            )

    @property
    def _who(self) -> str:
        return "users" if self.per_person == 1 else f"rows, up to {self.per_person} of one person,"

    def conditions(self) -> tuple[str, ...]:
        """What must be so for the promise to hold."""
        plan = self.plan
        drawn = replace(self.schedule, rounds=plan.rounds)
        return conditions(
            plan.mechanism, drawn, colluding=self.recipe.colluding, per_person=self.per_person, rows=True,
            by_id=self.by_id,
        )  # fmt: skip

    def statement(self, command: str = "") -> Statement:
        """The promise of this round for people who must defend it, with all planned rounds beside it."""
        plan, drawn = self.plan, self.schedule.is_sampled
        all_rounds = [("all planned rounds", epsilon_is(self.epsilon))] if plan.rounds > 1 else []
        if plan.rounds > 1 and self.round_number is not None:
            all_rounds = [("round", f"{self.round_number:,} of {plan.rounds:,}"), *all_rounds]
        facts = [
            ("task", plan.task.name),
            ("population", plan.population),
            ("target", f"ε = {typed(plan.epsilon)}, δ = {typed(plan.delta)}, {self.target_words()}"),
            *all_rounds,
            *facts_of(plan.mechanism, self.users - plan.colluding * self.per_person, self.schedule.rows()),
        ]
        known = self._known_curve.epsilon(plan.delta) if drawn else None
        return Statement(self.stated, self.conditions(), known, self.curve, command, facts)

    def target_words(self) -> str:
        """Whether the plan's target is met; where the certificate's margin alone goes beyond it, that too."""
        if not self.kept:
            return "MISSED"
        if self.stated_epsilon <= self.plan.epsilon:
            return "met"
        return f"met: {epsilon_is(self.epsilon, GUARANTEE_DIGITS)} is proved; the certificate's second proof needs more"

    def claim(self) -> Claim:
        """The certificate's claim for this round; a sentence (``ValueError``) where `verify` could not prove it."""
        if self.per_person > 1:
            raise ValueError("certificate: expected one row of each person, got more; no proof of that is known.")
        if math.isinf(self.value.upper):
            raise ValueError("certificate: there is no finite ε to certify.")
        if self.schedule.is_sampled:
            plan = self.plan
            return scheduled_claim(
                plan.mechanism, self.schedule, self._honest, bound=plan.bound, colluding=self.recipe.colluding,
                delta=plan.delta, effort=plan.effort,
            )  # fmt: skip
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
        came = {"came": self.schedule.came, "failure": self.schedule.failure} if self._responded else {}
        return self.schedule.drawn() | came | {"condition": CONDITION, "if_known": left}

    def _without_certificate(self) -> dict[str, Any]:
        """What is proved by the bound that the plan names, where a certificate states what it could prove again."""
        if not isinstance(self.certificate, Claim):
            return {}
        return {"without_certificate": {"upper": self.value.upper, "bound": self.value.bound}}

    def document(self) -> dict[str, Any]:
        """For the report."""
        return {
            "epsilon": {"lower": self.stated.lower, "upper": self.stated.upper, "slack": self.stated.slack},
            **self._without_certificate(),
            "delta": self.plan.delta,
            "users": self.users,
            "per_person": self.per_person,
            "colluding": self.plan.colluding,
            "bound": self.stated.bound,
            "theorem": self.stated.theorem,
            "certified": self.stated.certified,
            "guarantee": self.stated.guarantee,
            "round": self.round_number,
            "rounds": self.plan.rounds,
            **self._drawn(),
            "epsilon_all_rounds": self.stated_epsilon,
            "target": {
                "epsilon": self.plan.epsilon,
                "delta": self.plan.delta,
                "users": self.plan.users,
                "minimum": self.plan.fewest,
            },
            "target_met": self.kept,
            **self._pairs(),
            "conditions": list(self.conditions()),
            "epsilon_local": self.plan.mechanism.local_epsilon,
            "messages_per_user": self.plan.mechanism.messages_per_user,
        }
