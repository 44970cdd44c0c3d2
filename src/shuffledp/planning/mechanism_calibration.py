"""Calibration of one mechanism to a goal: settings by a quick guess, the guarantee by a certified bound."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp._core.errors import NotApplicable, NumericalError
from shuffledp._core.formatting import format_rounded_up
from shuffledp._core.validation import Array
from shuffledp.calibration.calibrate import Calibration, guess, search
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.estimator import Estimator
from shuffledp.mechanisms.base.mechanism import Mechanism, MultiQueryCapability, TunableParameter
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.mechanisms.combined.repeated import Repeated
from shuffledp.planning.goal import NOISE, Goal
from shuffledp.planning.plan import Plan
from shuffledp.privacy.curve import BoundValue

# --- Costs ---


MIN_ENCODING_SECONDS, MIN_READING_INCREASE_SECONDS, MAX_MEASUREMENT_SECONDS = 0.01, 0.03, 1.0
"""The shortest measurable time of encoding, the shortest measurable increase of the time of reading, and the time
beyond which neither is repeated with more users.
"""
MIN_BATCH_GROWTH, MAX_BATCH_GROWTH = 2, 16
"""The smallest and largest factor by which the number of users grows between measurements of reading."""
MIN_SECONDS = 1e-9
MAX_MEASURED_USERS = 1 << 18
MEASUREMENT_SEED = 1
SEAL_OVERHEAD_BYTES = 48
"""Overhead of sealing: HPKE's one-time X25519 key of 32 bytes, and the cipher's tag of 16."""


@dataclass(frozen=True)
class Cost:
    """Processor time in seconds: to encode one user, to read one user's messages, and for the estimate at the end."""

    encoding_seconds: float
    reading_seconds: float
    finishing_seconds: float

    def server_seconds(self, users: int) -> float:
        """Returns the time to read the messages of ``users`` and compute the estimate."""
        return self.reading_seconds * users + self.finishing_seconds


def sealed_bits(mechanism: Mechanism) -> float:
    """Returns the bits that a user sends if each message is sealed to the analyst, and all together to the shuffler."""
    sealed = mechanism.messages_per_user * (mechanism.message_bytes + SEAL_OVERHEAD_BYTES)
    return 8 * (sealed + SEAL_OVERHEAD_BYTES)


def measure_cost(mechanism: Mechanism, values: Array, reading: Estimator | None = None) -> Cost:
    """Measures encoding and reading the messages of no more users than a reliable measurement needs.

    Messages are read by ``reading``, or by the mechanism's full estimator.
    """
    rng = np.random.default_rng(MEASUREMENT_SEED)
    # The first call includes one-time computations.
    begun = time.process_time()
    messages, users = mechanism.encode(values[:1], rng), 1
    encoding = time.process_time() - begun
    while encoding <= MAX_MEASUREMENT_SECONDS:
        own = np.resize(values, (users, *values.shape[1:]))
        begun = time.process_time()
        messages = mechanism.encode(own, rng)
        encoding = time.process_time() - begun
        if encoding > MIN_ENCODING_SECONDS or users >= MAX_MEASURED_USERS:
            break
        users *= 8
    server = mechanism.estimator if reading is None else reading
    begun = time.process_time()
    total = server.accumulate(messages[: _message_count(mechanism, 1)])
    one = time.process_time() - begun
    each = _measure_reading(mechanism, server, messages, users, one)
    begun = time.process_time()
    server.finish(total, 1)
    finishing = time.process_time() - begun
    return Cost(max(encoding / users, MIN_SECONDS), max(each, MIN_SECONDS), finishing)


def _message_count(mechanism: Mechanism, users: int) -> int:
    """Returns about how many messages ``users`` send; at least one."""
    return max(1, round(users * mechanism.messages_per_user))


def _measure_reading(mechanism: Mechanism, server: Estimator, messages: Array, users: int, one: float) -> float:
    """Measures the time to read one more user: that of a batch less ``one``, the time of a batch with one user.

    Batches grow until they take half as long again as the first one, or too long to go on.
    """
    enough, read, taken = max(one / 2, MIN_READING_INCREASE_SECONDS), 1, one
    while read < users and taken - one <= enough and taken <= MAX_MEASUREMENT_SECONDS:
        more = max(one if read == 1 else taken - one, enough / MAX_BATCH_GROWTH)
        read = min(round(min(max(MIN_BATCH_GROWTH, 1.5 * enough / more), MAX_BATCH_GROWTH) * read), users)
        begun = time.process_time()
        server.accumulate(messages[: _message_count(mechanism, read)])
        taken = time.process_time() - begun
    return one if read == 1 else (taken - one) / (read - 1)


# --- Trials ---

NEAR_BEST_RATIO = 1.05
"""Among settings whose error is within this factor of the smallest, the one with the fewest bits is chosen."""
LOCAL_EPSILON, PSEUDORANDOM_SEEDS, ONLY_SHUFFLER, ONLY_SHUFFLER_NOISE = "local ε", "seeds", "shuffler", "its noise"
"""The protection left if messages are linked to their senders: a local ε, one if seeds are pseudorandom, or none."""
SHUFFLER_NOISE_SUFFIX = "(shuffler)"
"""Suffix of the name if the shuffler draws the noise."""
MAX_GUESS_RATIO = 1.5
"""Factor beyond a guess up to which a search looks, since wrapped mechanisms stop working for large ε."""
MAX_LOWERINGS = 8
MAX_COARSE_DUMMIES = 16
"""Up to this number of dummies, rounding it to an integer is so coarse that another setting has to compensate."""
MAX_BITS, MAX_SEED_BYTES = 1 << 26, 1e9
"""Largest number of bits to send, and of bytes of seeds to try, for any user."""
MAX_SEED_STEPS = 2e8
"""Largest number of steps to find a seed: more take minutes."""
MAX_NOISE_MESSAGES = 1e9
"""Largest number of noise messages that a shuffler draws."""
MAX_DESIGNS = 3
"""Number of designs of a front that a guess considers: those with the smallest errors."""
MAX_CHOICES = 4
"""Largest number of settings tried for certification, if the guess was wrong about the first ones."""

SettingSearch = Callable[[Mapping[str, Any], TunableParameter], "Calibration | _Guess"]


@dataclass(frozen=True)
class QuestionError:
    """The mechanism and error of one question of a survey."""

    name: str
    mechanism: str
    standard_error: float
    unit: str
    times_curator: float
    """Its error over that of a trusted curator who asks only this question."""


@dataclass(frozen=True)
class Candidate:
    """A mechanism that meets the goal, with its proof, error and cost."""

    goal: Goal
    name: str
    mechanism: Mechanism
    proof: BoundValue
    """The certified central ε of all rounds together."""
    standard_error: float
    cost: Cost
    limit: str
    """The limit that kept it from using all of the target; empty if there was none."""

    @property
    def bits(self) -> int:
        """Bits that a user sends, on average if the number of messages varies."""
        return math.ceil(self.mechanism.message_bits * self.messages)

    @property
    def messages(self) -> float:
        """Messages that a user sends, on average if their number varies."""
        return self.mechanism.messages_per_user

    @property
    def sealed_bits(self) -> int:
        """Bits that a user sends if messages are sealed, once to the analyst and once to the shuffler."""
        return math.ceil(sealed_bits(self.mechanism))

    @property
    def influence(self) -> float | None:
        """The largest influence of one dishonest user on an estimate, in users; None if it is not known."""
        known: float | None = getattr(self.mechanism, "influence", None)
        return known

    @property
    def curator_error_ratio(self) -> float:
        """Its error over that of a trusted curator."""
        return self.standard_error / self.goal.central_baseline.standard_error

    @property
    def has_local_epsilon(self) -> bool:
        """True if messages have a local ε even against the shuffler."""
        return self.mechanism.local_epsilon is not None

    @property
    def has_shuffler_noise(self) -> bool:
        """True if the shuffler draws the noise, so that the guarantee depends on it."""
        return self.mechanism.message_plan.has_shuffler_noise

    @property
    def rests_on(self) -> str:
        """The protection left without the shuffler, as a short text."""
        if not self.has_local_epsilon:
            return ONLY_SHUFFLER_NOISE if self.has_shuffler_noise else ONLY_SHUFFLER
        return PSEUDORANDOM_SEEDS if self.mechanism.assumption else LOCAL_EPSILON

    @property
    def assumption(self) -> str:
        """The protection left without the shuffler, as a sentence."""
        local = self.mechanism.local_epsilon
        alone = (
            "without it a message promises nothing."
            if local is None
            else f"without it a message still keeps local ε = {format_rounded_up(local, 4)}."
        )
        draws = "draws the noise and " if self.has_shuffler_noise else ""
        sentence = f"The shuffler {draws}hides who sent what; {alone}"
        return f"{sentence} {self.mechanism.assumption}".strip()

    @cached_property
    def question_errors(self) -> tuple[QuestionError, ...]:
        """The mechanism and error of each question of a survey; empty for a single task."""
        questions, task = self.goal.task.questions, self.goal.task
        if not questions or not isinstance(self.mechanism, MultiQueryCapability):
            return ()
        errors = task.question_errors(self.mechanism, self.goal.users)
        alone = [dataclasses.replace(self.goal, task=one.task).central_baseline.standard_error for one in questions]
        return tuple(
            QuestionError(name, made.name, error, one.task.unit, error / least)
            for name, one, made, error, least in zip(
                task.names, questions, self.mechanism.mechanisms, errors, alone, strict=True
            )
        )

    @property
    def plan(self) -> Plan:
        """The plan for ``collect``."""
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
                "central_standard_error": goal.central_baseline.standard_error,
                **self._plan_promises(),
            },
        )

    def _plan_promises(self) -> dict[str, float]:
        """Returns the task's guarantees, and the time to read all messages if their number is among them."""
        promised = self.goal.task.promises(self.mechanism, self.goal.users)
        read = promised.get("messages_read")
        if read is None:
            return promised
        return promised | {"server_seconds": self.cost.reading_seconds / self.messages * read}


@dataclass(frozen=True)
class Rejection:
    """A mechanism that does not meet the goal, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class Trial:
    """One mechanism to be calibrated."""

    name: str
    kind: type[Mechanism]
    goal: Goal
    fixed_mechanism: Mechanism | None = None
    """The mechanism itself if it is a table, and nothing is left to calibrate."""

    def run(self) -> list[Candidate | Rejection]:
        """Returns the best settings, certified, or the reason why there are none.

        There are several if a mechanism designs a front, from small errors to few messages.
        """
        try:
            found = list(self._certify_fixed()) or list(self._certify_designs()) or [self._calibrate_best()]
        except (ValueError, TypeError, NumericalError) as error:
            return [self._reject(str(error))]
        outcomes = [self._evaluate(each) for each in found]
        # Refusals of a front matter only if none of its designs is within the limits.
        return [each for each in outcomes if isinstance(each, Candidate)] or outcomes[:1]

    def guess_mechanisms(self) -> list[Mechanism]:
        """Returns the mechanism by a quick guess, which proves nothing, or the first ones of a front that it designs.

        Raises ValueError if there is none.
        """
        designs = [self.kind(**settings) for settings in itertools.islice(self._designs(), MAX_DESIGNS)]
        if not designs:
            designs = [self._guess_mechanism(min(self._choices(), key=lambda choice: choice.error).settings)]
        for made in designs:
            self._check_cost(made)
        return designs

    def _evaluate(self, found: Calibration) -> Candidate | Rejection:
        mechanism: Mechanism = found.mechanism
        try:
            reason = self.goal.limits.find_violation(mechanism)
            if reason is not None:
                return self._reject(reason)
            error = self._standard_error(mechanism)
            task = self.goal.task
            spent = measure_cost(mechanism, task.representative_values(mechanism), task.timed_estimator(mechanism))
        except (ValueError, TypeError, NumericalError) as error_:
            return self._reject(str(error_))
        name = f"{self.name} {SHUFFLER_NOISE_SUFFIX}" if mechanism.message_plan.has_shuffler_noise else self.name
        return Candidate(self.goal, name, mechanism, found.epsilon, error, spent, found.limit)

    def _reject(self, reason: str) -> Rejection:
        # The list already names the mechanism and the speaker.
        _, _, plain = reason.partition(f"{self.kind.__name__}: ")
        sentence = (plain or reason).removeprefix("plan: ")
        return Rejection(self.name, sentence if sentence.endswith(".") else f"{sentence}.")

    def _standard_error(self, mechanism: Mechanism) -> float:
        return self.goal.task.standard_error(mechanism, self.goal.users)

    # --- Settings ---

    def _determined_settings(self) -> dict[str, Any]:
        """Returns the settings that the task and the goal determine."""
        names = [field.name for field in catalogue.settings_fields(self.kind)]
        goal = self.goal
        by_shuffler = goal.rests_on == NOISE and goal.task.allows_shuffler_noise
        known = {**goal.task.mechanism_settings_for(self.kind), "honest": 0 if by_shuffler else goal.users}
        return {name: value for name, value in known.items() if name in names}

    def _certify_fixed(self) -> Iterator[Calibration]:
        """Yields the mechanism that needs no calibration, if there is one and it and all pairs meet their targets."""
        goal, made = self.goal, self.fixed_mechanism
        if made is None:
            return
        promise = goal.build_pair_targets(made)
        if promise is not None:
            promise.check_targets(goal.fewest - goal.colluding)
        yield self._certify(made, "epsilon", made.epsilon)

    def _certify_designs(self) -> Iterator[Calibration]:
        """Yields the mechanism's own designs that its certified curve confirms: the first, or all of a front."""
        refused = None
        for settings in self._designs():
            try:
                found = self._certify_design(settings)
            except NotApplicable as refusal:
                refused = refusal
                continue
            yield found
            if not self.kind.has_design_frontier:
                return
            refused = None
        if refused is not None:
            raise refused

    def _designs(self) -> Iterator[dict[str, Any]]:
        goal = self.goal
        target, honest = goal.inner_target, goal.fewest - goal.colluding
        facts = {**goal.task.mechanism_settings_for(self.kind), "users": goal.users}
        return self.kind.designs(facts, honest, target.epsilon, target.delta, goal.rounds)

    def _certify_design(self, settings: Mapping[str, Any]) -> Calibration:
        """Returns a design if its certified curve meets the target; raises NotApplicable otherwise."""
        name, made = self.kind.tunable[0].name, self.kind(**settings)
        self._check_cost(made)
        return self._certify(made, name, settings[name])

    def _certify(self, made: Mechanism, name: str, value: float) -> Calibration:
        """Returns a mechanism if its certified curve meets the target; raises NotApplicable otherwise."""
        goal, target, schedule = self.goal, self.goal.target, self.goal.least_participation
        curve = schedule.curve(made, colluding=goal.colluding, effort=goal.effort)
        reached = target.evaluate(curve)
        if not target.is_met(reached):
            raise NotApplicable(self.kind.__name__, f"it reaches {target.format_value(reached)}")
        return Calibration(name, value, made, curve, reached, target, "", goal.fewest, schedule)

    def _calibrate_best(self) -> Calibration:
        """Returns the best of the choices that can be certified."""
        waiting = self._choices()
        for _ in range(MAX_CHOICES):
            least = min(choice.error for choice in waiting)
            near = [choice for choice in waiting if choice.error <= NEAR_BEST_RATIO * least]
            chosen = min(near, key=lambda choice: (choice.bits, choice.error))
            try:
                return self._calibrate(chosen.settings)
            except NotApplicable as refusal:
                waiting.remove(chosen)
                if not waiting:
                    raise
                last = refusal
        raise last

    def _choices(self) -> list[_Choice]:
        """Returns variants of the settings not searched, within the limits, each with its error by a quick guess."""
        choices: list[_Choice] = []
        refused: list[tuple[float, str]] = []
        for variant in self._variants():
            settings, bits = self._determined_settings() | variant, math.inf
            try:
                mechanism = self._guess_mechanism(settings)
                bits = mechanism.messages_per_user * mechanism.message_bits
                self._check_cost(mechanism)
                choices.append(_Choice(self._standard_error(mechanism), bits, settings))
            except NotApplicable as error:
                refused.append((bits, error.reason))
            except (ValueError, ZeroDivisionError) as error:
                refused.append((bits, str(error)))
        if not choices:
            raise ValueError(min(refused)[1])
        return choices

    def _variants(self) -> Iterator[dict[str, Any]]:
        """Yields settings worth comparing, of the mechanism and of its wrappers."""
        facts = self.goal.task.mechanism_settings_for(self.kind)
        for chosen in itertools.product(*(kind.variants(facts) for kind in (self.kind, *self._wrappers))):
            yield {name: value for settings in chosen for name, value in settings.items()}

    def _check_cost(self, mechanism: Mechanism) -> None:
        """Raises NotApplicable if a mechanism is too costly whatever its local ε."""
        for made in catalogue.iterate_layers(mechanism):
            if isinstance(made, Compressed) and made.message_bits >= made.randomizer.message_bits:
                seed = f"a seed of {made.message_bits} bits"
                raise NotApplicable("plan", f"{seed} is no shorter than the message that it stands for")
            if isinstance(made, Compressed) and made.expected_steps > MAX_SEED_STEPS:
                raise NotApplicable("plan", f"a client would take about {made.expected_steps:.1g} steps to find a seed")
        drawn = mechanism.message_plan.shuffler_messages
        if drawn > MAX_NOISE_MESSAGES:
            raise NotApplicable("plan", f"the shuffler would draw about {drawn:.2g} messages of noise")
        size = 8.0 * mechanism.expected_random_words
        if size > MAX_SEED_BYTES:
            raise NotApplicable("plan", f"a client would try about {size / 1e9:,.0f} GB of seeds for one value")
        given = self.goal.limits
        limits = dataclasses.replace(given, bits=MAX_BITS if given.bits is None else given.bits)
        if mechanism.local_epsilon is not None:
            limits = dataclasses.replace(limits, epsilon_local=None)
        reason = limits.find_violation(mechanism)
        if reason is not None:
            raise NotApplicable("plan", reason)

    # --- Calibration ---

    def _calibrate(self, settings: Mapping[str, Any]) -> Calibration:
        """Returns the certified mechanism; settings that a guess puts at the end of a range are fixed there first."""
        try:
            return self._search_in_turn(settings, self._guess_setting)
        except NotApplicable:
            return self._search_in_turn(settings, self._search_certified)

    def _search_in_turn(self, settings: Mapping[str, Any], find: SettingSearch) -> Calibration:
        """Searches the first setting that is not given, then the next ones if the first leaves room.

        Only the last search has to be certified, whatever the values of the settings before it.
        """
        given = dict(settings)
        *earlier, last = self._searchable_settings(given)
        for tuning in earlier:
            room = find(given, tuning)
            if not room.limit:
                found = self._search_certified(given, tuning)
                if not (tuning.is_integer and found.value <= MAX_COARSE_DUMMIES):
                    return found
                room = found
            given[tuning.name] = room.value
        return self._search_certified(given, last)

    def _guess_mechanism(self, settings: Mapping[str, Any]) -> Mechanism:
        """Returns the mechanism with which a quick guess meets the target."""
        given = dict(settings)
        for tuning in self._searchable_settings(given):
            found = self._guess_setting(given, tuning)
            given[tuning.name] = found.value
            if not found.limit and not (tuning.is_integer and found.value <= MAX_COARSE_DUMMIES):
                break
        return found.mechanism

    def _searchable_settings(self, given: Mapping[str, Any]) -> list[TunableParameter]:
        """Returns the settings that can be searched."""
        tunings = [tuning for tuning in self.kind.tunable if tuning.name not in given]
        if not tunings:
            raise ValueError("nothing is left to calibrate")
        return tunings

    def _search_certified(self, given: Mapping[str, Any], tuning: TunableParameter) -> Calibration:
        """Returns the certified setting; searches lower ones while a wrapper's local ε exceeds the limit."""
        build, most, schedule = (
            self._builder(given, tuning),
            self._restrict_range(given, tuning),
            self.goal.least_participation,
        )
        for _ in range(MAX_LOWERINGS):
            found = search(
                build, most, self.goal.target, users=schedule.users, of=schedule.of, rate=schedule.rate,
                came=schedule.came, failure=schedule.failure, rounds=schedule.rounds, colluding=self.goal.colluding,
                effort=self.goal.effort,
            )  # fmt: skip
            cap, local = self.goal.limits.epsilon_local, found.mechanism.local_epsilon
            if cap is None or local is None or local <= cap or tuning.name != "epsilon":
                return found
            most = dataclasses.replace(most, maximum=most.maximum * (cap / local) ** 2)
        raise NotApplicable("plan", f"no local ε of at most {cap:g} was found")

    def _restrict_range(self, given: Mapping[str, Any], tuning: TunableParameter) -> TunableParameter:
        """Restricts the range of a search to the limit of the local ε, and to the range in which wrappers work."""
        capped = self._cap_local_epsilon(given, tuning)
        if tuning.name != "epsilon" or not self._wrappers:
            return capped
        return dataclasses.replace(
            capped, maximum=min(capped.maximum, MAX_GUESS_RATIO * self._guess_setting(given, tuning).value)
        )

    def _cap_local_epsilon(self, given: Mapping[str, Any], tuning: TunableParameter) -> TunableParameter:
        """Restricts the range of a search to the limit of the local ε, which repeated runs share."""
        cap = self.goal.limits.epsilon_local
        if tuning.name != "epsilon" or cap is None:
            return tuning
        runs = given["runs"] if Repeated in self._wrappers else 1
        return dataclasses.replace(tuning, maximum=min(tuning.maximum, cap / runs))

    def _guess_setting(self, given: Mapping[str, Any], tuning: TunableParameter) -> _Guess:
        build, tuning = self._builder(given, tuning), self._cap_local_epsilon(given, tuning)
        honest = self.goal.fewest - self.goal.colluding
        share = float(self.goal.schedule.share)
        value = guess(build, tuning, self.goal.target, users=honest, rounds=self.goal.rounds, share=share)
        end = tuning.minimum if tuning.more_is_more_private else tuning.maximum
        return _Guess(value, build(value), "at its end" if value == end else "")

    @property
    def _wrappers(self) -> tuple[type[Mechanism], ...]:
        return catalogue.split_wrappers(self.name)[0]

    def _builder(self, given: Mapping[str, Any], tuning: TunableParameter) -> Callable[[float], Mechanism]:
        """Returns the mechanism as a function of the setting that is searched."""
        around = {field.name for wrapper in self._wrappers for field in catalogue.wrapper_settings(wrapper)}
        plain = {name: value for name, value in given.items() if name not in around}

        def build(value: float) -> Mechanism:
            return catalogue.wrap(self.kind(**plain, **{tuning.name: value}), self._wrappers, given)

        return build


@dataclass(frozen=True)
class _Choice:
    """Settings besides those searched, with their error and bits by a quick guess."""

    error: float
    bits: float
    settings: dict[str, Any]


@dataclass(frozen=True)
class _Guess:
    """A setting by a quick guess, in the form of a calibration."""

    value: float
    mechanism: Mechanism
    limit: str
