"""``calibrate``: the most useful setting that meets a target, a central (ε, δ) or a limit on attacks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shuffledp import argument
from shuffledp.bounds import best
from shuffledp.bounds.schedule import WHO as SCHEDULE, Schedule, exact_rate
from shuffledp.calibration.search import Found, Search
from shuffledp.calibration.target import WHO, CurveTarget, Reached, Target
from shuffledp.composition.sequential import compose
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import HasNoisyOthers, HasOwnLoss, HasParts, Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.readable import Readable, Row
from shuffledp.tradeoff.risk import Risk

LOCAL = "epsilon_local"
"""What a caller calls the local ε, because ``epsilon`` is the central target."""
USERS = Tuning("users", whole=True, more_is_more_private=True, least=1, most=1e12)
ROUNDS = Tuning("rounds", whole=True, more_is_more_private=False, least=1, most=1e6)
OF = Tuning("of", whole=True, more_is_more_private=True, least=1, most=1e12)
AROUND = (USERS, ROUNDS, OF)
"""What is not a setting of the randomizer itself."""
LOCAL_EPSILON = Mechanism.tuning[0]
"""How the local ε of a randomizer that does not say so itself is searched."""

NOT_PROVED = " as printed: NOT a guarantee"

FIRST_FACTOR, MOST_FACTORS, NEAR_ENOUGH = 1.002, 4, 1e-3
"""By how much coins raise ε over a sample of their mean size, how often that is looked at anew, and until when."""

Builder = Callable[[float], Randomizer]
"""A randomizer from the value of the setting that is searched."""


@dataclass(frozen=True)
class Calibration(Readable):
    """A setting that meets the target: its value, the randomizer, and the certified curve that was checked.

    ``setting``, ``value``: which one was looked for, and what was found. ``mechanism``: the randomizer with it.
    ``curve``: its privacy curve. ``target``: what was asked for.

    >>> import shuffledp as sdp
    >>> found = sdp.calibrate(sdp.KRR(2.0, options=16), find="users", epsilon=0.5, delta=1e-6)
    >>> found.setting, found.value
    ('users', 224)
    >>> f"{found.epsilon.upper:.4f}", found.limit
    ('0.4996', '')
    """

    setting: str
    value: float
    mechanism: Any
    curve: PrivacyCurve
    reached: Reached
    """The certified number that the target limits."""
    target: CurveTarget
    limit: str
    """Why no more useful value was looked at; empty where the next one misses the target."""
    users: int
    """Those who hide each other: colluding users taken away."""
    schedule: Schedule
    """Who takes part, and how often."""
    known: PrivacyCurve | None = None
    """The curve if everybody learns who was drawn; None where nobody is."""

    @property
    def epsilon(self) -> BoundValue:
        """The central ε at the target's δ: at most the target."""
        if not isinstance(self.reached, BoundValue):
            raise AttributeError("Calibration: a risk target names no δ; take .risk, or .curve.epsilon(delta) at a δ.")
        return self.reached

    @property
    def risk(self) -> Risk:
        """The attack risk that the target limits."""
        if not isinstance(self.reached, Risk):
            raise AttributeError("Calibration: an (ε, δ) target limits ε; take .epsilon, or AttackRisk(.curve).")
        return self.reached

    def condition(self) -> list[Row]:
        """What the target is met under, where users are drawn, and what is reached otherwise."""
        if self.known is None:
            return []
        return self.schedule.condition(self.target.text(self.target.reached(self.known)))

    @property
    def heading(self) -> str:
        return "The most useful setting that meets the target"

    def summary(self) -> list[Row]:
        """What is to be read, a name and a text each."""
        value = f"{self.value:,}" if isinstance(self.value, int) else repr(self.value)
        limit = [("limit", self.limit)] if self.limit else []
        return [
            (self.setting, value),
            ("reached", self.target.text(self.reached) + ("" if self.curve.guarantee else NOT_PROVED)),
            ("target", str(self.target)),
            ("users", f"{self.users:,}"),
            *self.schedule.rows(),
            *self.condition(),
            ("bound", f"{self.reached.bound}: {self.reached.theorem}"),
            ("mechanism", repr(self.mechanism)),
            *limit,
        ]


def calibrate(
    randomizer: Callable[..., Randomizer] | Randomizer,
    *,
    target: CurveTarget | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    users: float | None = None,
    rounds: float | None = None,
    of: float | None = None,
    rate: Any = None,
    find: str | None = None,
    epsilon_local: float | None = None,
    bound: str = best.NAME,
    colluding: float = 0,
    effort: str = best.FULL,
    **settings: Any,
) -> Calibration:
    """The most useful value of one setting with which the shuffled output certainly meets a target.

    ``randomizer`` is a mechanism's class (its other arguments follow by name), a function of the local ε such as
    ``VariationRatio.of_ldp``, or, to find users or rounds, a finished mechanism. ``target`` is ``Target(epsilon,
    delta)``, for which ``epsilon=`` and ``delta=`` are short, or a ``RiskTarget``. ``find`` is ``"epsilon_local"`` (the
    largest), ``"users"`` (the fewest; the most, where they are drawn out of ``of``), ``"rounds"`` (the most), ``"of"``
    (the fewest people to draw from) or a setting that the mechanism lists in its ``tuning``; by default the first of
    those. There are ``rounds`` rounds, and ``of`` and ``rate`` say who takes part in each, as in ``Schedule``; a
    ``rate`` that the mechanism itself takes is the mechanism's.
    ``bound`` names the theorem, which must be a guarantee; only ``"protocol-published"``, a protocol's own printed
    analysis, is searched without being one, and the result says so. ``colluding`` users hide nobody; ``effort`` is as
    in ``amplify``. The value has been checked by its certified curve; 0.1% more (for whole numbers: the next one)
    misses the target, unless ``limit`` says why none was looked at.

    Where a default of the mechanism jumps with the setting (subset size, hash length), the central ε jumps too and
    values beyond the found one may meet the target again; they are looked for up to half as much again.

    >>> import shuffledp as sdp
    >>> found = sdp.calibrate(sdp.KRR, options=4, users=100, epsilon=0.5, delta=1e-3)
    >>> found.mechanism.epsilon == found.value and found.epsilon.upper <= 0.5
    True
    >>> sdp.calibrate(sdp.KRR(2.0, 16), find="users", target=sdp.RiskTarget(advantage=0.1)).value
    56
    """
    aim = _target(target, epsilon, delta)
    tuning = _tuning(randomizer, find)
    if rate is not None and "rate" in getattr(randomizer, "__dataclass_fields__", {}) and isinstance(randomizer, type):
        if of is not None:
            raise ValueError(f"{WHO}: rate is a setting of {randomizer.__name__}; give users and of, not coins.")
        settings, rate = {**settings, "rate": rate}, None
    build = _builder(randomizer, tuning, epsilon_local, settings)
    return search(
        build, tuning, aim, users=users, rounds=rounds, of=of, rate=rate, bound=bound, colluding=colluding,
        effort=effort,
    )  # fmt: skip


def _target(target: CurveTarget | None, epsilon: float | None, delta: float | None) -> CurveTarget:
    """The target as given, or the (ε, δ) in short form."""
    if target is None:
        if epsilon is None or delta is None:
            raise ValueError(f"{WHO}: give a target, or epsilon and delta.")
        with argument.said_by(WHO, "Target"):
            return Target(epsilon, delta)
    if epsilon is not None or delta is not None:
        raise ValueError(f"{WHO}: give either a target, or epsilon and delta, not both.")
    if not isinstance(target, CurveTarget):
        raise TypeError(f"{WHO}: expected Target(epsilon, delta) or a RiskTarget, got {target!r}.")
    return target


def search(
    build: Builder,
    tuning: Tuning,
    target: CurveTarget,
    *,
    users: float | None,
    rounds: float | None = None,
    of: float | None = None,
    rate: Any = None,
    came: int | None = None,
    failure: float | None = None,
    bound: str = best.NAME,
    colluding: float = 0,
    effort: str = best.FULL,
) -> Calibration:
    """Search one setting of what ``build`` makes; ``calibrate`` with the parts already sorted out.

    ``came`` and ``failure``: of a sample of which some may stay away, as in ``Schedule``.
    """
    best.demand_effort(WHO, effort)
    given = {"users": users, "rounds": rounds, "of": of, "rate": rate, "came": came, "failure": failure}
    asked = _Asked(build, tuning, given, bound, colluding, effort)
    random_size = (rate is not None or came is not None) and isinstance(target, Target)
    result = asked.by_fixed_size(target) if random_size else asked.found(target, given)
    deployment = asked.prepared(target, given, effort)[0]
    schedule = deployment.schedule_at(result.value)
    value = schedule.expected if tuning is USERS else result.value
    setting = LOCAL if tuning.name == "epsilon" else tuning.name
    made, honest = build(result.value), schedule.taking_part - deployment.colluding
    seen = deployment.known(made, schedule, effort) if schedule.is_sampled else None
    return Calibration(setting, value, made, result.curve, result.reached, target, result.limit, honest, schedule, seen)


@dataclass(frozen=True)
class _Asked:
    """What is searched, and how hard."""

    build: Builder
    tuning: Tuning
    given: Mapping[str, Any]
    bound: str
    colluding: float
    effort: str

    def prepared(self, target: CurveTarget, given: Mapping[str, Any], effort: str) -> tuple[_Deployment, Search]:
        return _prepared(self.build, self.tuning, target, given, self.bound, self.colluding, effort)

    def found(self, target: CurveTarget, given: Mapping[str, Any]) -> Found:
        """The value, first by what takes milliseconds; what takes seconds is asked for only near where that has led."""
        _, quick = self.prepared(target, given, best.QUICK)
        if self.bound != best.NAME or self.effort == best.QUICK:
            return quick.run()
        _, full = self.prepared(target, given, best.FULL)
        try:
            known = quick.run()
        except NotApplicable:
            return full.run()
        return full.beyond(known)

    def by_fixed_size(self, target: CurveTarget) -> Found:
        """The value where chance decides how many come: searched for samples of that size, and proved for what is run.

        Its own curve takes many times as long, and is a nearly constant factor above.
        """
        assert isinstance(target, Target), "other targets are searched by the curve of what is run"
        deployment, _ = self.prepared(target, self.given, self.effort)
        fixed = {**self.given, "fixed_size": True}
        factor, met = FIRST_FACTOR, None
        for _ in range(MOST_FACTORS):
            near = self.found(Target(target.epsilon / factor, target.delta), fixed)
            curve = deployment.curve(near.value)
            reached = target.reached(curve)
            if target.met(reached):
                met = Found(near.value, curve, reached, near.limit)
                if near.limit or reached.upper > target.epsilon * (1 - NEAR_ENOUGH):
                    break
            assert isinstance(near.reached, BoundValue)
            factor = max(1.0, reached.upper / near.reached.upper) * (1 + NEAR_ENOUGH / 4)
        if met is None:
            raise NotApplicable(WHO, f"no {self.tuning.name} is proved to give {target}.")
        return met


def guess(
    build: Builder,
    tuning: Tuning,
    target: CurveTarget,
    *,
    users: float,
    rounds: float | None = None,
    share: float = 1.0,
) -> float:
    """Where a normal approximation meets the target: quick, to choose among alternatives, and proves nothing.

    ``share`` is how probably a person takes part in a round.
    """
    given = {"users": users, "rounds": rounds, "of": math.ceil(users / share), "rate": None}
    return _prepared(build, tuning, target, given, best.NAME, 0, best.QUICK)[1].guess()


def _prepared(
    build: Builder,
    tuning: Tuning,
    target: CurveTarget,
    given: Mapping[str, Any],
    bound: str,
    colluding: float,
    effort: str,
) -> tuple[_Deployment, Search]:
    """What is run and how its setting is searched; a sentence where they do not go together."""
    lost = argument.count(WHO, "colluding", colluding, at_least=0)
    named = tuning.name if tuning in AROUND else None
    if named is not None and given.get(named) is not None:
        raise ValueError(f"{WHO}: {named} is what is searched for, got {named} = {given[named]!r} too.")
    if given["rate"] is not None:
        if tuning is USERS:
            raise ValueError(f"{WHO}: how many users come follows from of and rate; find of instead.")
    elif tuning is not USERS:
        if given["users"] is None:
            raise ValueError(f"{WHO}: users must be given, unless it is what is searched for.")
        argument.count(WHO, "users", given["users"], at_least=lost + 1)
    known = {name: value for name, value in given.items() if value is not None}
    deployment = _Deployment(build, tuning, known, lost, bound, effort)
    searched = deployment.searched()
    composed = tuning is ROUNDS or deployment.schedule_at(searched.least).rounds > 1
    return deployment, Search(deployment.curve, deployment.log_deviation, searched, target, composed=composed)


@dataclass(frozen=True)
class _Deployment:
    """What is run, as a function of the one setting that is searched."""

    build: Builder
    tuning: Tuning
    given: Mapping[str, Any]
    colluding: int
    bound: str
    effort: str

    def searched(self) -> Tuning:
        """Where the setting is looked for: of samples out of a population, smaller ones are more private."""
        of, users, rate = (self.given.get(name) for name in ("of", "users", "rate"))
        if self.tuning is USERS and of is not None:
            most = argument.count(WHO, "of", of, at_least=self.colluding + 1) - self.colluding
            return dataclasses.replace(USERS, more_is_more_private=False, most=most)
        if self.tuning is OF:
            least = math.ceil(1 / exact_rate(WHO, rate)) if rate is not None else argument.count(WHO, "users", users)
            return dataclasses.replace(OF, least=max(least, self.colluding + 1))
        return self.tuning

    def schedule_at(self, value: float) -> Schedule:
        """Who takes part; where users are searched, those who do not collude are counted."""
        searched: dict[str, Any] = {}
        if self.tuning is USERS:
            searched = {"users": int(value) + self.colluding}
        elif self.tuning in AROUND:
            searched = {self.tuning.name: int(value)}
        given = {**self.given, **searched}
        fixed = given.pop("fixed_size", False)
        with argument.said_by(WHO, SCHEDULE):
            schedule = Schedule(**given)
        if not fixed:
            return schedule
        alike = schedule.scaled_to(schedule.taking_part)
        return Schedule(schedule.taking_part, alike.of, rounds=schedule.rounds)

    def curve(self, value: float) -> PrivacyCurve:
        """The privacy of all rounds together."""
        schedule = self.schedule_at(value)
        once = self._once if self.tuning is ROUNDS else self._one_round(value)
        return once if schedule.rounds == 1 else compose(once, schedule.rounds)

    @cached_property
    def _once(self) -> PrivacyCurve:
        """The one curve of which rounds are searched."""
        return self._one_round(1)

    def _one_round(self, value: float) -> PrivacyCurve:
        with argument.said_by(WHO, "amplify", "subsample", "poisson"):
            made, schedule = self.build(value), self.schedule_at(value).each_round()
            return schedule.curve(made, bound=self.bound, colluding=self.colluding, effort=self.effort)

    def known(self, made: Randomizer, schedule: Schedule, effort: str) -> PrivacyCurve:
        """The same if everybody learns who was drawn."""
        return schedule.known(made, bound=self.bound, colluding=self.colluding, effort=effort)

    def log_deviation(self, value: float) -> float:
        """log of the loss's standard deviation by a normal approximation, only to know where to look; −∞ where nothing
        is told.

        The sum in (★) has variance n·2βq(p−1)/p, over n; the squares of rounds add up, and a share of the population
        has that share of the loss.
        """
        schedule = self.schedule_at(value)
        honest = schedule.taking_part - self.colluding
        around = 0.5 * math.log(schedule.rounds) + math.log(schedule.share)
        try:
            made = self.build(value)
            own = own_deviation(made, honest)
            if own is not None:
                return math.log(own) + around
            known = made.variation_ratio()
        except (TypeError, ValueError):
            # Not everything is made, or made of, at the ends of a search.
            return -math.inf
        if known.beta == 0:
            return -math.inf
        p_share = 1.0 if math.isinf(known.p) else (known.p - 1) / known.p
        hidden: float = made.hiding_messages(honest)
        if isinstance(made, HasNoisyOthers):
            others, chance = made.noisy_others(int(hidden))
            hidden += others * float(chance)
        return 0.5 * math.log(2 * known.beta * max(known.q_pair) * p_share / hidden) + around


def own_deviation(made: Randomizer, users: int) -> float | None:
    """About the standard deviation of the loss where a protocol knows its own, or is made of such parts; else None."""
    if isinstance(made, HasOwnLoss):
        return made.own_loss(made.hiding_messages(users)).deviation()
    if not isinstance(made, HasParts):
        return None
    found = [(own_deviation(part, users), times) for part, times in made.parts()]
    squares = [times * one**2 for one, times in found if one is not None]
    return math.sqrt(sum(squares)) if len(squares) == len(found) else None


def _tuning(randomizer: Any, find: str | None) -> Tuning:
    """How the setting that is asked for is searched."""
    if callable(randomizer):
        return named_tuning(_known(randomizer), find)
    if find is None or find not in [tuning.name for tuning in AROUND]:
        raise ValueError(f"{WHO}: a finished mechanism leaves only users, rounds or of to find, got find = {find!r}.")
    return named_tuning((), find)


def _known(randomizer: Any) -> Sequence[Tuning]:
    """What the class of a mechanism says can be searched; a plain function takes the local ε."""
    known: Sequence[Tuning] = getattr(randomizer, "tuning", (LOCAL_EPSILON,))
    return known


def named_tuning(known: Sequence[Tuning], find: str | None) -> Tuning:
    """The setting of a name among those that a mechanism lists, or users or rounds; by default the first."""
    names = {LOCAL if tuning.name == "epsilon" else tuning.name: tuning for tuning in (*known, *AROUND)}
    if find is None:
        return next(iter(names.values()))
    if find not in names:
        raise ValueError(f"{WHO}: what to find must be one of {', '.join(names)}, got {find!r}.")
    return names[find]


def _builder(randomizer: Any, tuning: Tuning, epsilon_local: float | None, settings: dict[str, Any]) -> Builder:
    """The randomizer as a function of the searched setting."""
    if not callable(randomizer):
        if settings or epsilon_local is not None:
            raise ValueError(f"{WHO}: a finished mechanism takes no further settings, got {randomizer!r}.")
        return lambda value: randomizer
    if tuning.name in settings:
        raise ValueError(f"{WHO}: {tuning.name} is what is searched for; leave it out of the settings.")
    if tuning.name == "epsilon":
        if epsilon_local is not None:
            raise ValueError(f"{WHO}: epsilon_local is what is searched for, got {epsilon_local!r} too.")
        return lambda value: randomizer(value, **settings)
    if epsilon_local is None and LOCAL_EPSILON.name in [known.name for known in _known(randomizer)]:
        raise ValueError(f"{WHO}: epsilon_local must be given, unless it is what is searched for.")
    local = () if epsilon_local is None else (epsilon_local,)
    if tuning in AROUND:
        made = randomizer(*local, **settings)
        return lambda value: made
    return lambda value: randomizer(*local, **settings, **{tuning.name: value})
