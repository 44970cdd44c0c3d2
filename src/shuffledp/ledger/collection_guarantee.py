"""``Guarantee`` of the users who took part, compared with the plan's target; the curve of a ledger's entry."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from shuffledp._core import validation
from shuffledp._core.errors import GuaranteeTooWeak, error_phrase
from shuffledp._core.formatting import GUARANTEE_DIGITS, format_epsilon_equation, format_exact
from shuffledp._core.message_phrases import phrase, write_option
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.participation import (
    SAMPLING_SECRECY_CONDITION,
    Participation,
    format_rate,
)
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.bounds.subsampling import MAX_DELTA, nonresponse, poisson, subsample
from shuffledp.certificates.certify import certify_participation, certify_value
from shuffledp.certificates.claim import Claim
from shuffledp.mechanisms import catalogue
from shuffledp.planning.plan import Plan
from shuffledp.privacy.composition import compose
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.group_privacy import group
from shuffledp.statement import (
    NONRESPONSE_CONDITION,
    SECRET_SAMPLE_CONDITION,
    Statement,
    build_fact_rows,
    conditions,
)

ROUNDING_TOLERANCE = 1e-12
CACHED_VALUES = ("curve", "value", "epsilon")
CACHED_USER_VALUES = (
    "epsilon_if_sample_known", "total_epsilon_if_sample_known", "_curve_if_sample_known", "missed_pair",
)  # fmt: skip
"""Cached values that depend not only on the curve inputs but also on the users who came."""


def composed_epsilon(curves: Sequence[PrivacyCurve], delta: float) -> float:
    """Returns an upper bound of ε at δ of all rounds together, with the same people in each; 0 for no round."""
    return compose(curves).epsilon(delta).upper if curves else 0.0


@dataclass(frozen=True)
class CurveInputs:
    """The inputs that determine the privacy curve of one collection: equal inputs have equal curves."""

    mechanism: str
    """The document of the mechanism, as canonical JSON."""
    users: int
    """The number of rows: one for each user, or several."""
    bound: str
    per_person: int = 1
    """The largest number of rows of one person."""
    colluding: int = 0
    """The number of rows of colluding users, which hide nobody."""
    effort: str = QUICK_EFFORT
    """The bounds that may be used."""
    sampled_from: int | None = None
    """The number of people from whom the users were secretly drawn; None if all take part."""
    rate: str | None = None
    """The probability that each of these people takes part, an exact decimal; None for a fixed number of users."""
    fixed_sample_size: int | None = None
    """The number drawn, if it is fixed and some of them may have stayed away; None if none did."""
    failure: float | None = None
    """The part of δ spent on a sample of which some may have stayed away; ``users`` are then those who came."""

    DOCUMENT_NAMES: ClassVar[Mapping[str, str]] = {"sampled_from": "of", "fixed_sample_size": "drawn"}
    """Names of fields in the document that differ from their own."""

    @classmethod
    def from_plan(cls, plan: Plan, users: int, per_person: int = 1) -> Self:
        """Returns the curve inputs of a plan with this number of users."""
        mechanism = json.dumps(plan.mechanism.to_document(), sort_keys=True)
        return cls(mechanism, users, plan.bound, per_person, plan.colluding * per_person, plan.effort)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Inverts ``to_document``."""
        names = {each.name: cls.DOCUMENT_NAMES.get(each.name, each.name) for each in fields(cls)}
        values = {name: document[key] for name, key in names.items() if key in document}
        return cls(**values | {"mechanism": json.dumps(document["mechanism"], sort_keys=True)})

    def to_document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        # Default values are omitted: stored curves are found by this document, and older ones do not have the fields.
        return {
            self.DOCUMENT_NAMES.get(each.name, each.name): getattr(self, each.name)
            for each in fields(self)
            if each.name == "per_person" or getattr(self, each.name) != each.default
        } | {"mechanism": json.loads(self.mechanism)}

    @property
    def sample_size(self) -> int:
        """The number drawn, whether they came or not."""
        return self.users if self.fixed_sample_size is None else max(self.fixed_sample_size, self.users)

    @property
    def without_sampling(self) -> CurveInputs:
        """The inputs if it is known who came: without the amplification by a secret sample."""
        return replace(self, sampled_from=None, rate=None, fixed_sample_size=None, failure=None)

    def premises(self) -> tuple[str, ...]:
        """Returns the conditions of the guarantee, besides those of every collection."""
        return (
            *((SECRET_SAMPLE_CONDITION,) if self.sampled_from is not None else ()),
            *((NONRESPONSE_CONDITION,) if self.failure is not None else ()),
            *catalogue.from_document(json.loads(self.mechanism)).premises(),
        )

    def format_participants(self) -> str:
        """Returns a text of the participants."""
        drawn = "" if self.sampled_from is None else f" of {self.sampled_from:,}"
        coins = "" if self.rate is None else f" by coins of {format_rate(Fraction(self.rate) * 100)}%"
        came = " came" if self.failure is not None else ""
        missing = self.sample_size - self.users
        away = f", {missing:,} drawn stayed away" if missing else ""
        colluding = f" ({self.colluding:,} colluding)" if self.colluding else ""
        return f"{self.users:,}{drawn}{coins}{came}{away}{colluding}"

    def covers(self, other: CurveInputs) -> bool:
        """Returns True if this collection costs at least as much privacy as another: the same with at most its users.

        For samples more users are a larger share, so that only equal inputs are comparable.
        """
        if self.sampled_from is not None:
            return self == other
        return replace(other, users=self.users) == self and other.users >= self.users

    def has_same_sampling(self, settled: CurveInputs) -> bool:
        """Returns True if a settlement was sampled like this reservation; no fewer were drawn, but fewer may come."""
        same = (self.sampled_from, self.rate) == (settled.sampled_from, settled.rate)
        return same and (self.sampled_from is None or self.rate is not None or settled.sample_size >= self.sample_size)


def compute_entry_curve(recipe: CurveInputs) -> PrivacyCurve:
    """Returns the privacy curve of one collection, for a person with all their rows.

    This is the only place where an entry becomes a curve.
    """
    mechanism = catalogue.from_document(json.loads(recipe.mechanism))
    options: dict[str, Any] = {"bound": recipe.bound, "colluding": recipe.colluding, "effort": recipe.effort}
    if recipe.sampled_from is None:
        if recipe.rate is not None:
            raise ValueError('ledger: a "rate" needs "of", the number of people who flip the coin.')
        return group(amplify(mechanism, recipe.users, **options), recipe.per_person)
    if recipe.per_person > 1:
        raise ValueError(f"ledger: people who are drawn have one row each, got up to {recipe.per_person}.")
    # Exact numbers of any type are accepted.
    exact: Any = None if recipe.rate is None else Decimal(recipe.rate)
    if recipe.failure is not None:
        rate, drawn = (None, recipe.sample_size) if exact is None else (Fraction(exact), None)
        return nonresponse(
            mechanism, recipe.users, recipe.sampled_from, failure=recipe.failure, drawn=drawn, rate=rate, **options
        )
    if recipe.fixed_sample_size is not None:
        # Written by 0.1.0 if some stayed away: its theorem for this case is not proved.
        return compute_entry_curve(recipe.without_sampling)
    if exact is not None:
        return poisson(mechanism, recipe.sampled_from, exact, **options)
    return subsample(amplify(mechanism, recipe.users, **options), recipe.sampled_from)


def limit_nonresponse_delta(recipes: Iterable[CurveInputs], delta: float) -> list[CurveInputs]:
    """Replaces samples, in their order, whose parts of δ would exceed half of it in sum, by known people.

    The choice depends only on the plans and on δ, never on the users who came.
    """
    limited, left = [], delta / 2 if delta <= MAX_DELTA else 0.0
    for recipe in recipes:
        cost = 0.0 if recipe.failure is None else recipe.failure
        # The parts of a plan's rounds may add up to slightly more because of rounding.
        fits = cost <= left * (1 + ROUNDING_TOLERANCE) + ROUNDING_TOLERANCE * delta
        left -= cost if fits else 0.0
        limited.append(recipe if fits or not cost else recipe.without_sampling)
    return limited


@dataclass(frozen=True)
class Guarantee:
    """The privacy of a plan's shuffled messages if this many users take part.

    If one person may have several rows, at most ``per_person``, ``users`` counts the rows. As many of the users collude
    as the plan says.
    """

    plan: Plan
    users: int
    per_person: int = 1
    sampled_from: int | None = None
    """The number of rows from which these were drawn here; None if the plan's sample was drawn elsewhere."""
    has_user_ids: bool = field(default=False, compare=False)
    """True if a column of the input identifies the person of each row."""
    set_aside: int = 0
    """The number of people who came besides the reliable users: they hide nobody."""
    round_number: int | None = field(default=None, compare=False)
    """The round of the plan; None if it is not specified."""
    certificate: Claim | str | None = field(default=None, repr=False, compare=False)
    """The claim of its certificate, or the reason why there is none; None if none was requested."""

    @cached_property
    def participation(self) -> Participation:
        """The participation in this round: of those drawn here, or of those who came of a sample drawn elsewhere."""
        planned = self.plan.participation.single_round()
        if not planned.is_sampled:
            return Participation(self.users)
        if self.sampled_from is None:
            return self.plan.participation.with_respondents(self.users + self.set_aside, self.plan.delta).single_round()
        with validation.relabel_errors("collect", "Participation"):
            if planned.rate is None:
                return Participation(self.users, self.sampled_from)
            return replace(planned, of=self.sampled_from)

    @property
    def _has_nonresponse(self) -> bool:
        """True if some who were drawn may have stayed away."""
        return self.participation.came is not None

    @property
    def curve_inputs(self) -> CurveInputs:
        """The curve inputs of this round.

        With coins flipped here, ``users`` is the expected number, so that rounds with the same coins have equal inputs.
        """
        participation, sampling = self.participation, self.participation.sampling_document()
        if not sampling:
            return CurveInputs.from_plan(self.plan, self.users, self.per_person)
        on_average = "rate" in sampling and not self._has_nonresponse
        users = participation.expected_users if on_average else participation.participants
        inputs = CurveInputs.from_plan(self.plan, users, self.per_person)
        fixed = self._has_nonresponse and participation.rate is None
        return replace(
            inputs,
            colluding=inputs.colluding + (self.set_aside if self._has_nonresponse else 0),
            sampled_from=sampling["of"],
            rate=sampling.get("rate"),
            fixed_sample_size=participation.expected_users if fixed else None,
            failure=participation.failure,
        )

    def with_round(self, round_number: int) -> Guarantee:
        """Returns this guarantee for a round of the plan, with all cached values."""
        result = replace(self, round_number=round_number)
        vars(result).update({name: value for name, value in vars(self).items() if name != "round_number"})
        return result

    def with_users(self, users: int) -> Guarantee:
        """Returns the guarantee for the number of users who were drawn here.

        With coin flips only the ε for known participants changes.
        """
        if users == self.users:
            return self
        result = replace(self, users=users, certificate=None)
        return self._share_with(result, CACHED_VALUES) if result.curve_inputs == self.curve_inputs else result

    def with_certificate(self) -> Guarantee:
        """Returns this guarantee with its certificate, or the reason why there is none.

        Its ``stated_value`` is the value of the claim.
        """
        certificate: Claim | str
        try:
            certificate = self.claim()
        except ValueError as error:
            certificate = error_phrase(error).write(write_option).removeprefix("certificate: ").rstrip(".")
        return self._share_with(replace(self, certificate=certificate), (*CACHED_VALUES, *CACHED_USER_VALUES))

    def _share_with(self, other: Guarantee, names: Sequence[str]) -> Guarantee:
        """Copies some cached values to a guarantee with the same curve inputs."""
        vars(other).update({name: vars(self)[name] for name in names if name in vars(self)})
        return other

    @cached_property
    def curve(self) -> PrivacyCurve:
        if self.plan.colluding * self.per_person >= self.users:
            raise GuaranteeTooWeak(
                f"collect: {self.users} {self._rows_noun} took part, and the plan assumes that {self.plan.colluding} "
                f"users collude, which leaves no honest user; nothing was released."
            )
        curve = compute_entry_curve(self.curve_inputs)
        if not curve.guarantee:
            raise ValueError(f"collect: the plan's bound {self.plan.bound} is no guarantee; plan with another one.")
        return curve

    @cached_property
    def value(self) -> BoundValue:
        """The ε of this round alone, at the plan's δ."""
        return self.curve.epsilon(self.plan.delta)

    @cached_property
    def epsilon(self) -> float:
        """The ε of all planned rounds together, if each is like this one."""
        if self.plan.rounds == 1:
            return self.value.upper
        return composed_epsilon([self.curve] * self.plan.rounds, self.plan.delta)

    @cached_property
    def stated_value(self) -> BoundValue:
        """The ε of this round alone that every output states: that of the certificate, if there is one."""
        if not isinstance(self.certificate, Claim):
            return self.value
        claim, theorem = self.certificate, self.value.theorem
        if claim.bound != self.value.bound:
            theorem = compute_entry_curve(replace(self.curve_inputs, bound=claim.bound)).theorem
        return claim.certified_value(self.value, theorem)

    @property
    def stated_epsilon(self) -> float:
        """The ε of all planned rounds together that every output states; a certificate covers only one round."""
        return self.stated_value.upper if self.plan.rounds == 1 else self.epsilon

    @cached_property
    def epsilon_if_sample_known(self) -> float:
        """The ε of this round alone if everybody learns who was drawn."""
        return self._curve_if_sample_known.epsilon(self.plan.delta).upper

    @cached_property
    def total_epsilon_if_sample_known(self) -> float:
        """The ε of all planned rounds together if everybody learns who was drawn, for a person drawn every time."""
        rounds = self.plan.rounds
        return (
            self.epsilon_if_sample_known
            if rounds == 1
            else composed_epsilon([self._curve_if_sample_known] * rounds, self.plan.delta)
        )

    @cached_property
    def _curve_if_sample_known(self) -> PrivacyCurve:
        """The privacy curve if only those who came hide each other."""
        return compute_entry_curve(replace(self.curve_inputs, users=self.users + self.set_aside).without_sampling)

    @property
    def is_target_met(self) -> bool:
        """True if the target of the plan and those of all pairs of values are met."""
        return self.epsilon <= self.plan.epsilon and self.missed_pair is None

    @cached_property
    def missed_pair(self) -> tuple[int, int] | None:
        """The first pair of values that misses its target; None if none does, or if pairs have no targets."""
        targets = self.plan.pair_targets
        return None if targets is None else targets.find_missed_pair(self._honest_users)

    @property
    def _honest_users(self) -> int:
        """The number of users who hide each other."""
        if self.plan.pair_targets is not None and self.per_person > 1:
            raise GuaranteeTooWeak(
                f"collect: the plan has a target ε for every two values, which holds for one row of each person, got "
                f"up to {self.per_person}; nothing was released."
            )
        return self.users - self.plan.colluding * self.per_person

    def require_target(self, allow_weaker: bool) -> None:
        """Raises GuaranteeTooWeak unless the target is met or a weaker guarantee is allowed."""
        plan, pair = self.plan, self.missed_pair
        if pair is not None and plan.pair_targets is not None and not allow_weaker:
            missed = plan.pair_targets.describe_missed_pair(pair, self._honest_users)
            raise GuaranteeTooWeak(
                phrase(
                    "collect: {missed}; nothing was released; add {allow_weaker=True} to accept that.", missed=missed
                )
            )
        # The curve is computed in any case: where it does not exist, allowing a weaker one does not help.
        if self.is_target_met or allow_weaker:
            return
        sample = f" out of {self.participation.of}" if self.participation.is_sampled else ""
        colluding = f", {plan.colluding} of them colluding," if plan.colluding else ""
        minimum = "" if plan.minimum is None else f", at least {plan.minimum}"
        rounds = f" over {plan.rounds} rounds" if plan.rounds > 1 else ""
        again = "plan again with {minimum}, the fewest who will come, or " if self._has_nonresponse else ""
        missed = (
            f"{self.users} {self._rows_noun} took part{sample}{colluding} where {plan.users} were "
            f"planned{minimum}, which gives {format_epsilon_equation(self.epsilon)}{rounds} at "
            f"δ = {format_exact(plan.delta)}, above the target {format_exact(plan.epsilon)}"
        )
        raise GuaranteeTooWeak(
            phrase(
                f"collect: {{missed}}; nothing was released; {again}add {{allow_weaker=True}} to accept that.",
                missed=missed,
            )
        )

    @property
    def _rows_noun(self) -> str:
        return "users" if self.per_person == 1 else f"rows, up to {self.per_person} of one person,"

    def conditions(self) -> tuple[str, ...]:
        """Returns the conditions under which the guarantee holds."""
        plan = self.plan
        return conditions(
            plan.mechanism, replace(self.participation, rounds=plan.rounds), colluding=self.curve_inputs.colluding,
            per_person=self.per_person, rows=True, by_id=self.has_user_ids,
        )  # fmt: skip

    def statement(self, command: str = "") -> Statement:
        """Returns the statement of this round's guarantee, with that of all planned rounds."""
        plan = self.plan
        all_rounds = [("all planned rounds", format_epsilon_equation(self.epsilon))] if plan.rounds > 1 else []
        if plan.rounds > 1 and self.round_number is not None:
            all_rounds = [("round", f"{self.round_number:,} of {plan.rounds:,}"), *all_rounds]
        facts = [
            ("task", plan.task.name),
            ("population", plan.population),
            (
                "target",
                f"ε = {format_exact(plan.epsilon)}, δ = {format_exact(plan.delta)}, {self.format_target_status()}",
            ),
            *all_rounds,
            *build_fact_rows(plan.mechanism, self.users - plan.colluding * self.per_person, self.participation.rows()),
        ]
        known = self._curve_if_sample_known.epsilon(plan.delta) if self.participation.is_sampled else None
        return Statement(self.stated_value, self.conditions(), known, self.curve, command, facts)

    def format_target_status(self) -> str:
        """Returns a text on the target: if it is met, and if only the certificate's margin exceeds it."""
        if not self.is_target_met:
            return "MISSED"
        if self.stated_epsilon <= self.plan.epsilon:
            return "met"
        return (
            f"met: {format_epsilon_equation(self.epsilon, GUARANTEE_DIGITS)} is proved; the certificate's second "
            f"proof needs more"
        )

    def claim(self) -> Claim:
        """Returns the claim of this round's certificate; raises ValueError if `verify` could not prove it."""
        if self.per_person > 1:
            raise ValueError("certificate: expected one row of each person, got more, for which no proof is known.")
        if math.isinf(self.value.upper):
            raise ValueError("certificate: there is no finite ε to certify.")
        if self.participation.is_sampled:
            plan = self.plan
            return certify_participation(
                plan.mechanism,
                self.participation,
                self._honest_users,
                bound=plan.bound,
                colluding=self.curve_inputs.colluding,
                delta=plan.delta,
                effort=plan.effort,
            )
        return certify_value(self.plan.mechanism, self._honest_users, self.value, delta=self.plan.delta)

    def _pairs_document(self) -> dict[str, Any]:
        """Returns the targets of pairs of values and the ε proved for them."""
        targets = self.plan.pair_targets
        if targets is None:
            return {}
        return {
            "target_distances": targets.target.matrix.tolist(),
            "distances": targets.proved_epsilons(self._honest_users).tolist(),
        }

    def _participation_document(self) -> dict[str, Any]:
        """Returns the participation, its condition, and the guarantee without that condition."""
        if not self.participation.is_sampled:
            return {}
        known = {"epsilon": self.epsilon_if_sample_known, "epsilon_all_rounds": self.total_epsilon_if_sample_known}
        came = {"came": self.participation.came, "failure": self.participation.failure} if self._has_nonresponse else {}
        return (
            self.participation.sampling_document() | came | {"condition": SAMPLING_SECRECY_CONDITION, "if_known": known}
        )

    def _uncertified_document(self) -> dict[str, Any]:
        """Returns the ε proved by the plan's bound, if a certificate states another one."""
        if not isinstance(self.certificate, Claim):
            return {}
        return {"without_certificate": {"upper": self.value.upper, "bound": self.value.bound}}

    def document(self) -> dict[str, Any]:
        """Returns the JSON document for the report."""
        plan, value = self.plan, self.stated_value
        return {
            "epsilon": {"lower": value.lower, "upper": value.upper, "slack": value.slack},
            **self._uncertified_document(),
            "delta": plan.delta,
            "users": self.users,
            "per_person": self.per_person,
            "colluding": plan.colluding,
            "bound": value.bound,
            "theorem": value.theorem,
            "certified": value.certified,
            "guarantee": value.guarantee,
            "round": self.round_number,
            "rounds": plan.rounds,
            **self._participation_document(),
            "epsilon_all_rounds": self.stated_epsilon,
            "target": {"epsilon": plan.epsilon, "delta": plan.delta, "users": plan.users, "minimum": plan.fewest},
            "target_met": self.is_target_met,
            **self._pairs_document(),
            "conditions": list(self.conditions()),
            "epsilon_local": plan.mechanism.local_epsilon,
            "messages_per_user": plan.mechanism.messages_per_user,
        }
