"""One mechanism, calibrated to a goal: its good settings by a quick guess, its promise by a certified bound."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shuffledp.calibration.calibrate import Calibration, guess, search
from shuffledp.document import rounded_up
from shuffledp.errors import NotApplicable, NumericalError
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.ability import AnswersQueries
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.mechanisms.combined.repeated import Repeated
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.planner import cost
from shuffledp.planner.cost import Cost
from shuffledp.planner.goal import NOISE, Goal
from shuffledp.planner.plan_file import Plan
from shuffledp.privacy.value import BoundValue

NEAR_BEST = 1.05
"""Of settings whose error is within this factor of the least, the one with the fewest bits is taken."""
LOCAL, PSEUDORANDOM, ONLY_SHUFFLER, ITS_NOISE = "local ε", "seeds", "shuffler", "its noise"
BY_SHUFFLER = "(shuffler)"
"""Added to the name where the shuffler draws the noise."""
"""What is left where somebody links messages to their senders: a local ε, one if seeds are pseudorandom, or nothing."""
BEYOND_GUESS = 1.5
"""How far beyond a guess a search looks where mechanisms stop working for large ε."""
MOST_LOWERINGS = 8
FEW = 16
"""Up to so many dummies, a whole number of them is so coarse that another setting makes up for it."""
MOST_BITS, MOST_TRIED = 1 << 26, 1e9
"""More bits to send, or bytes of seeds to try, than this are asked of no user."""
MOST_STEPS = 2e8
"""More steps than this to find a seed take minutes."""
MOST_DRAWN = 1e9
"""More messages than this are drawn by no shuffler."""
MOST_DESIGNS = 3
"""So many of a front are looked at by a guess: those of the least error."""
MOST_CHOICES = 4
"""So many settings are tried to be certified, where a guess was wrong about the first ones."""

Find = Callable[[Mapping[str, Any], Tuning], "Calibration | _Guess"]


@dataclass(frozen=True)
class QuestionError:
    """How one question of a survey is answered."""

    name: str
    mechanism: str
    standard_error: float
    unit: str
    times_curator: float
    """Its error over that of a trusted curator who asks only this question."""


@dataclass(frozen=True)
class Offer:
    """A mechanism that meets the goal, and how well."""

    goal: Goal
    name: str
    mechanism: Mechanism
    proof: BoundValue
    """The certified central ε of all rounds together."""
    standard_error: float
    cost: Cost
    limit: str
    """What kept it from using all of the target; empty where nothing did."""

    @property
    def bits(self) -> int:
        """Bits a user, on average where the number of messages varies."""
        return math.ceil(self.mechanism.message_bits * self.messages)

    @property
    def messages(self) -> float:
        """Messages a user, on average where their number varies."""
        return self.mechanism.messages_per_user

    @property
    def sealed_bits(self) -> int:
        """Bits a user where messages are sealed, once to the analyst and once to the shuffler."""
        return math.ceil(cost.sealed_bits(self.mechanism))

    @property
    def influence(self) -> float | None:
        """The most that one dishonest user can move an estimate by, in users; None where it is not known."""
        known: float | None = getattr(self.mechanism, "influence", None)
        return known

    @property
    def times_curator(self) -> float:
        """Its error over that of a trusted curator."""
        return self.standard_error / self.goal.yardstick.standard_error

    @property
    def keeps_local(self) -> bool:
        """Whether messages keep a local ε even from the shuffler."""
        return self.mechanism.local_epsilon is not None

    @property
    def by_noise(self) -> bool:
        """Whether the shuffler draws the noise, so that all rests on its doing so."""
        return self.mechanism.crowd.by_shuffler

    @property
    def rests_on(self) -> str:
        """What is left without the shuffler, in short."""
        if not self.keeps_local:
            return ITS_NOISE if self.by_noise else ONLY_SHUFFLER
        return PSEUDORANDOM if self.mechanism.assumption else LOCAL

    @property
    def assumption(self) -> str:
        """The same as a sentence."""
        local = self.mechanism.local_epsilon
        alone = (
            "without it a message promises nothing."
            if local is None
            else f"without it a message still keeps local ε = {rounded_up(local, 4)}."
        )
        draws = "draws the noise and " if self.by_noise else ""
        sentence = f"The shuffler {draws}hides who sent what; {alone}"
        return f"{sentence} {self.mechanism.assumption}".strip()

    @cached_property
    def answers(self) -> tuple[QuestionError, ...]:
        """What answers each question of a survey; none where the task is one."""
        questions, task = self.goal.task.questions, self.goal.task
        if not questions or not isinstance(self.mechanism, AnswersQueries):
            return ()
        errors = task.errors(self.mechanism, self.goal.users)
        alone = [dataclasses.replace(self.goal, task=one.task).yardstick.standard_error for one in questions]
        return tuple(
            QuestionError(name, made.name, error, one.task.unit, error / least)
            for name, one, made, error, least in zip(
                task.names, questions, self.mechanism.mechanisms, errors, alone, strict=True
            )
        )

    @property
    def plan(self) -> Plan:
        """The plan that ``collect`` takes."""
        goal = self.goal
        return Plan(
            goal.task,
            self.mechanism,
            users=goal.users,
            rounds=goal.rounds,
            out_of=goal.of,
            rate=goal.rate,
            epsilon=goal.target.epsilon,
            delta=goal.target.delta,
            population=goal.population,
            minimum=goal.minimum,
            colluding=goal.colluding,
            target_distances=goal.target_distances,
            effort=goal.effort,
            promise={
                "standard_error": self.standard_error,
                "central_standard_error": goal.yardstick.standard_error,
                **self._promised(),
            },
        )

    def _promised(self) -> dict[str, float]:
        """What the task promises besides, and how long reading all messages takes where it says how many there are."""
        promised = self.goal.task.promises(self.mechanism, self.goal.users)
        read = promised.get("messages_read")
        if read is None:
            return promised
        return promised | {"server_seconds": self.cost.reading / self.messages * read}


@dataclass(frozen=True)
class Refusal:
    """A mechanism that does not meet the goal, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Trial:
    """One mechanism to be calibrated."""

    name: str
    kind: type[Mechanism]
    goal: Goal
    given: Mechanism | None = None
    """The mechanism itself where it is a table, and nothing is left to calibrate."""

    def run(self) -> list[Offer | Refusal]:
        """The best settings found, certified; or why there are none.

        They are several where a mechanism designs a front, from little error to few messages.
        """
        try:
            found = list(self._as_given()) or list(self._designed()) or [self._best_settled()]
        except (ValueError, TypeError, NumericalError) as error:
            return [self._refusal(str(error))]
        outcomes = [self._outcome(each) for each in found]
        # Of a front, what is beyond the limits is not worth a word while something is within them.
        return [each for each in outcomes if isinstance(each, Offer)] or outcomes[:1]

    def guessed(self) -> list[Mechanism]:
        """The mechanism by a quick guess, which proves nothing; the first ones of a front, where it designs one.

        A sentence (``ValueError``) where there is none.
        """
        designs = [self.kind(**settings) for settings in itertools.islice(self._designs(), MOST_DESIGNS)]
        if not designs:
            designs = [self._guessed(min(self._choices(), key=lambda choice: choice.error).settings)]
        for made in designs:
            self._demand(made)
        return designs

    def _outcome(self, found: Calibration) -> Offer | Refusal:
        mechanism: Mechanism = found.mechanism
        try:
            reason = self.goal.limits.why_not(mechanism)
            if reason is not None:
                return self._refusal(reason)
            error = self._error(mechanism)
            task = self.goal.task
            spent = cost.measure(mechanism, task.sample(mechanism), task.reading(mechanism))
        except (ValueError, TypeError, NumericalError) as error_:
            return self._refusal(str(error_))
        name = f"{self.name} {BY_SHUFFLER}" if mechanism.crowd.by_shuffler else self.name
        return Offer(self.goal, name, mechanism, found.epsilon, error, spent, found.limit)

    def _refusal(self, reason: str) -> Refusal:
        # The list already says which mechanism it is, and who says it.
        _, _, plain = reason.partition(f"{self.kind.__name__}: ")
        sentence = (plain or reason).removeprefix("plan: ")
        return Refusal(self.name, sentence if sentence.endswith(".") else f"{sentence}.")

    def _error(self, mechanism: Mechanism) -> float:
        return self.goal.task.standard_error(mechanism, self.goal.users)

    # --- settings ---------------------------------------------------------------------------------------------

    def _known(self) -> dict[str, Any]:
        """What the task and the goal tell about the settings."""
        names = [field.name for field in catalogue.settings(self.kind)]
        goal = self.goal
        by_shuffler = goal.rests_on == NOISE and goal.task.by_either
        known = {**goal.task.facts_for(self.kind), "honest": 0 if by_shuffler else goal.users}
        return {name: value for name, value in known.items() if name in names}

    def _as_given(self) -> Iterator[Calibration]:
        """The mechanism that is not to be calibrated, if there is one, where it and every pair meet their targets."""
        goal, made = self.goal, self.given
        if made is None:
            return
        promise = goal.promise_of(made)
        if promise is not None:
            promise.demand(goal.fewest - goal.colluding)
        yield self._met(made, "epsilon", made.epsilon)

    def _designed(self) -> Iterator[Calibration]:
        """Those of the mechanism's own designs that its certified curve confirms: the first, or all of a front."""
        refused = None
        for settings in self._designs():
            try:
                found = self._confirmed(settings)
            except NotApplicable as refusal:
                refused = refusal
                continue
            yield found
            if not self.kind.designs_a_front:
                return
            refused = None
        if refused is not None:
            raise refused

    def _designs(self) -> Iterator[dict[str, Any]]:
        goal = self.goal
        target, honest = goal.inner_target, goal.fewest - goal.colluding
        facts = {**goal.task.facts_for(self.kind), "users": goal.users}
        return self.kind.designs(facts, honest, target.epsilon, target.delta, goal.rounds)

    def _confirmed(self, settings: Mapping[str, Any]) -> Calibration:
        """A design, if its certified curve meets the target."""
        name, made = self.kind.tuning[0].name, self.kind(**settings)
        self._demand(made)
        return self._met(made, name, settings[name])

    def _met(self, made: Mechanism, name: str, value: float) -> Calibration:
        """A mechanism, if its certified curve meets the target."""
        goal, target, schedule = self.goal, self.goal.target, self.goal.least
        curve = schedule.curve(made, colluding=goal.colluding, effort=goal.effort)
        reached = target.reached(curve)
        if not target.met(reached):
            raise NotApplicable(self.kind.__name__, f"it reaches {target.text(reached)}")
        return Calibration(name, value, made, curve, reached, target, "", goal.fewest, schedule)

    def _best_settled(self) -> Calibration:
        """The first of the choices that can be certified."""
        waiting = self._choices()
        for _ in range(MOST_CHOICES):
            least = min(choice.error for choice in waiting)
            near = [choice for choice in waiting if choice.error <= NEAR_BEST * least]
            chosen = min(near, key=lambda choice: (choice.bits, choice.error))
            try:
                return self._settled(chosen.settings)
            except NotApplicable as refusal:
                waiting.remove(chosen)
                if not waiting:
                    raise
                last = refusal
        raise last

    def _choices(self) -> list[_Choice]:
        """The settings besides those searched, within the limits, each with its error by a quick guess."""
        choices: list[_Choice] = []
        refused: list[tuple[float, str]] = []
        for variant in self._variants():
            settings, bits = self._known() | variant, math.inf
            try:
                mechanism = self._guessed(settings)
                bits = mechanism.messages_per_user * mechanism.message_bits
                self._demand(mechanism)
                choices.append(_Choice(self._error(mechanism), bits, settings))
            except NotApplicable as error:
                refused.append((bits, error.reason))
            except (ValueError, ZeroDivisionError) as error:
                refused.append((bits, str(error)))
        if not choices:
            raise ValueError(min(refused)[1])
        return choices

    def _variants(self) -> Iterator[dict[str, Any]]:
        """Settings worth comparing, of the mechanism and of what is built around it."""
        facts = self.goal.task.facts_for(self.kind)
        for chosen in itertools.product(*(kind.variants(facts) for kind in (self.kind, *self._wrappers))):
            yield {name: value for settings in chosen for name, value in settings.items()}

    def _demand(self, mechanism: Mechanism) -> None:
        """Stop where such a mechanism is not worth calibrating: too costly whatever its local ε."""
        for made in catalogue.layers(mechanism):
            if isinstance(made, Compressed) and made.message_bits >= made.randomizer.message_bits:
                seed = f"a seed of {made.message_bits} bits"
                raise NotApplicable("plan", f"{seed} is no shorter than the message that it stands for")
            if isinstance(made, Compressed) and made.steps_tried > MOST_STEPS:
                raise NotApplicable("plan", f"a client would take about {made.steps_tried:.1g} steps to find a seed")
        drawn = mechanism.crowd.drawn
        if drawn > MOST_DRAWN:
            raise NotApplicable("plan", f"the shuffler would draw about {drawn:.2g} messages of noise")
        size = 8.0 * mechanism.words_tried
        if size > MOST_TRIED:
            raise NotApplicable("plan", f"a client would try about {size / 1e9:,.0f} GB of seeds for one value")
        given = self.goal.limits
        limits = dataclasses.replace(given, bits=MOST_BITS if given.bits is None else given.bits)
        if mechanism.local_epsilon is not None:
            limits = dataclasses.replace(limits, epsilon_local=None)
        reason = limits.why_not(mechanism)
        if reason is not None:
            raise NotApplicable("plan", reason)

    # --- calibration ------------------------------------------------------------------------------------------

    def _settled(self, settings: Mapping[str, Any]) -> Calibration:
        """The certified mechanism; settings that a guess puts at their end are tried there first."""
        try:
            return self._in_turn(settings, self._guess)
        except NotApplicable:
            return self._in_turn(settings, self._searched)

    def _in_turn(self, settings: Mapping[str, Any], find: Find) -> Calibration:
        """Search the first setting that is not given; then the next ones, where it leaves room.

        Only the last search has to be certified, whatever the settings before it were set to.
        """
        given = dict(settings)
        *earlier, last = self._open(given)
        for tuning in earlier:
            room = find(given, tuning)
            if not room.limit:
                found = self._searched(given, tuning)
                if not (tuning.whole and found.value <= FEW):
                    return found
                room = found
            given[tuning.name] = room.value
        return self._searched(given, last)

    def _guessed(self, settings: Mapping[str, Any]) -> Mechanism:
        """The mechanism where a quick guess meets the target."""
        given = dict(settings)
        for tuning in self._open(given):
            found = self._guess(given, tuning)
            given[tuning.name] = found.value
            if not found.limit and not (tuning.whole and found.value <= FEW):
                break
        return found.mechanism

    def _open(self, given: Mapping[str, Any]) -> list[Tuning]:
        """What can be searched."""
        tunings = [tuning for tuning in self.kind.tuning if tuning.name not in given]
        if not tunings:
            raise ValueError("nothing is left to calibrate")
        return tunings

    def _searched(self, given: Mapping[str, Any], tuning: Tuning) -> Calibration:
        """The certified setting; where a wrapper's local ε comes out above the limit, that of a lower one."""
        build, most, schedule = self._builder(given, tuning), self._tuned(given, tuning), self.goal.least
        for _ in range(MOST_LOWERINGS):
            found = search(
                build, most, self.goal.target, users=schedule.users, of=schedule.of, rate=schedule.rate,
                came=schedule.came, failure=schedule.failure, rounds=schedule.rounds, colluding=self.goal.colluding,
                effort=self.goal.effort,
            )  # fmt: skip
            cap, local = self.goal.limits.epsilon_local, found.mechanism.local_epsilon
            if cap is None or local is None or local <= cap or tuning.name != "epsilon":
                return found
            most = dataclasses.replace(most, most=most.most * (cap / local) ** 2)
        raise NotApplicable("plan", f"no local ε of at most {cap:g} was found")

    def _tuned(self, given: Mapping[str, Any], tuning: Tuning) -> Tuning:
        """Where the setting is searched: within the limit of local ε, and where a wrapper works."""
        capped = self._capped(given, tuning)
        if tuning.name != "epsilon" or not self._wrappers:
            return capped
        return dataclasses.replace(capped, most=min(capped.most, BEYOND_GUESS * self._guess(given, tuning).value))

    def _capped(self, given: Mapping[str, Any], tuning: Tuning) -> Tuning:
        """Within the limit of local ε, which the runs share."""
        cap = self.goal.limits.epsilon_local
        if tuning.name != "epsilon" or cap is None:
            return tuning
        runs = given["runs"] if Repeated in self._wrappers else 1
        return dataclasses.replace(tuning, most=min(tuning.most, cap / runs))

    def _guess(self, given: Mapping[str, Any], tuning: Tuning) -> _Guess:
        build, tuning = self._builder(given, tuning), self._capped(given, tuning)
        honest = self.goal.fewest - self.goal.colluding
        share = float(self.goal.schedule.share)
        value = guess(build, tuning, self.goal.target, users=honest, rounds=self.goal.rounds, share=share)
        end = tuning.least if tuning.more_is_more_private else tuning.most
        return _Guess(value, build(value), "at its end" if value == end else "")

    @property
    def _wrappers(self) -> tuple[type[Mechanism], ...]:
        return catalogue.wrappers_of(self.name)[0]

    def _builder(self, given: Mapping[str, Any], tuning: Tuning) -> Callable[[float], Mechanism]:
        """The mechanism as a function of the setting that is searched."""
        around = {field.name for wrapper in self._wrappers for field in catalogue.own_settings(wrapper)}
        plain = {name: value for name, value in given.items() if name not in around}

        def build(value: float) -> Mechanism:
            return catalogue.wrapped(self.kind(**plain, **{tuning.name: value}), self._wrappers, given)

        return build


@dataclass(frozen=True)
class _Choice:
    """Settings besides those searched, and what they come to by a quick guess."""

    error: float
    bits: float
    settings: dict[str, Any]


@dataclass(frozen=True)
class _Guess:
    """A setting by a quick guess, in the form of a calibration."""

    value: float
    mechanism: Mechanism
    limit: str
