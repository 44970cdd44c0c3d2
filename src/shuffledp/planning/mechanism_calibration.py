"""Calibration of one mechanism to a goal: settings are guessed quickly, then a certified bound proves the guarantee."""

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
"""Lower bound of every measured time, so that none is 0."""
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


def measure_cost(mechanism: Mechanism, values: Array, estimator: Estimator | None = None) -> Cost:
    """Measures encoding and reading the messages of no more users than a reliable measurement needs.

    Messages are read by ``estimator``, by default the mechanism's full one.
    """
    rng = np.random.default_rng(MEASUREMENT_SEED)
    # The first call includes one-time computations.
    begun = time.process_time()
    messages, users = mechanism.encode(values[:1], rng), 1
    encoding = time.process_time() - begun
    while encoding <= MAX_MEASUREMENT_SECONDS:
        batch = np.resize(values, (users, *values.shape[1:]))
        begun = time.process_time()
        messages = mechanism.encode(batch, rng)
        encoding = time.process_time() - begun
        if encoding > MIN_ENCODING_SECONDS or users >= MAX_MEASURED_USERS:
            break
        users *= 8
    estimator = mechanism.estimator if estimator is None else estimator
    begun = time.process_time()
    total = estimator.accumulate(messages[: _message_count(mechanism, 1)])
    first = time.process_time() - begun
    reading = _measure_reading(mechanism, estimator, messages, users, first)
    begun = time.process_time()
    estimator.finish(total, 1)
    finishing = time.process_time() - begun
    return Cost(max(encoding / users, MIN_SECONDS), max(reading, MIN_SECONDS), finishing)


def _message_count(mechanism: Mechanism, users: int) -> int:
    """Returns about how many messages ``users`` send; at least one."""
    return max(1, round(users * mechanism.messages_per_user))


def _measure_reading(mechanism: Mechanism, estimator: Estimator, messages: Array, users: int, first: float) -> float:
    """Measures the time to read one more user: that of a batch less ``first``, the time of a batch with one user.

    Batches grow until they take half as long again as the first one, or too long to go on.
    """
    enough, read, taken = max(first / 2, MIN_READING_INCREASE_SECONDS), 1, first
    while read < users and taken - first <= enough and taken <= MAX_MEASUREMENT_SECONDS:
        increase = max(first if read == 1 else taken - first, enough / MAX_BATCH_GROWTH)
        read = min(round(min(max(MIN_BATCH_GROWTH, 1.5 * enough / increase), MAX_BATCH_GROWTH) * read), users)
        begun = time.process_time()
        estimator.accumulate(messages[: _message_count(mechanism, read)])
        taken = time.process_time() - begun
    return first if read == 1 else (taken - first) / (read - 1)


# --- Trials ---

NEAR_BEST_RATIO = 1.05
"""Among settings whose error is within this factor of the smallest, the one with the fewest bits is chosen."""
LOCAL_EPSILON, PSEUDORANDOM_SEEDS, ONLY_SHUFFLER, ONLY_SHUFFLER_NOISE = "local ε", "seeds", "shuffler", "its noise"
"""Remaining protection if messages are linked to their senders: a local ε, one if seeds are pseudorandom, or none."""
SHUFFLER_NOISE_SUFFIX = "(shuffler)"
"""Suffix of the name if the shuffler draws the noise."""
MAX_GUESS_RATIO = 1.5
"""Factor beyond a guess at which a search stops, since wrapped mechanisms do not work for large ε."""
MAX_LOWERINGS = 8
"""Largest number of searches with lower and lower limits of a wrapped mechanism's ε."""
MAX_COARSE_DUMMIES = 16
"""Up to this number of dummies, rounding to an integer is so coarse that another setting has to compensate."""
MAX_BITS, MAX_SEED_BYTES = 1 << 26, 1e9
"""Largest number of bits to send, and of bytes of seeds to try, for any user."""
MAX_SEED_STEPS = 2e8
"""Largest number of steps to find a seed: more take minutes."""
MAX_NOISE_MESSAGES = 1e9
"""Largest number of noise messages that a shuffler draws."""
MAX_DESIGNS = 3
"""Number of designs of a Pareto front that a guess considers: those with the smallest errors."""
MAX_CHOICES = 4
"""Largest number of settings that are tried if those of the best guesses cannot be certified."""

SettingSearch = Callable[[Mapping[str, Any], TunableParameter], "Calibration | _Guess"]


@dataclass(frozen=True)
class QuestionError:
    """The mechanism and error of one question of a survey."""

    name: str
    mechanism: str
    standard_error: float
    unit: str
    times_curator: float
    """The error divided by that of a trusted curator who asks only this question."""


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
    """The limit that prevents it from using the whole target; empty if there is none."""

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
        influence: float | None = getattr(self.mechanism, "influence", None)
        return influence

    @property
    def curator_error_ratio(self) -> float:
        """The error divided by that of a trusted curator."""
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
        """The remaining protection without the shuffler, as a short text."""
        if not self.has_local_epsilon:
            return ONLY_SHUFFLER_NOISE if self.has_shuffler_noise else ONLY_SHUFFLER
        return PSEUDORANDOM_SEEDS if self.mechanism.assumption else LOCAL_EPSILON

    @property
    def assumption(self) -> str:
        """The remaining protection without the shuffler, as a sentence."""
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
        survey = self.goal.task
        if not survey.questions or not isinstance(self.mechanism, MultiQueryCapability):
            return ()
        tasks = [question.task for question in survey.questions]
        errors = survey.question_errors(self.mechanism, self.goal.users)
        return tuple(
            QuestionError(
                name, mechanism.name, error, task.unit,
                error / dataclasses.replace(self.goal, task=task).central_baseline.standard_error,
            )
            for name, task, mechanism, error in zip(survey.names, tasks, self.mechanism.mechanisms, errors, strict=True)
        )  # fmt: skip

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
        promises = self.goal.task.promises(self.mechanism, self.goal.users)
        messages = promises.get("messages_read")
        if messages is None:
            return promises
        return promises | {"server_seconds": self.cost.reading_seconds / self.messages * messages}


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
    """The mechanism, if it is a table without settings to calibrate."""

    def run(self) -> list[Candidate | Rejection]:
        """Returns the best settings, certified, or the reason why there are none.

        There are several if a mechanism designs a Pareto front, from small errors to few messages.
        """
        try:
            calibrations = list(self._certify_fixed()) or list(self._certify_designs()) or [self._calibrate_best()]
        except (ValueError, TypeError, NumericalError) as error:
            return [self._reject(str(error))]
        outcomes = [self._evaluate(calibration) for calibration in calibrations]
        # Rejected designs of a front matter only if none of its designs is within the limits.
        return [each for each in outcomes if isinstance(each, Candidate)] or outcomes[:1]

    def guess_mechanisms(self) -> list[Mechanism]:
        """Returns the mechanism with guessed, unproved settings, or the first designs of its Pareto front.

        Raises ValueError if there is none.
        """
        designs = [self.kind(**settings) for settings in itertools.islice(self._designs(), MAX_DESIGNS)]
        if not designs:
            designs = [self._guess_mechanism(min(self._choices(), key=lambda choice: choice.error).settings)]
        for mechanism in designs:
            self._check_cost(mechanism)
        return designs

    def _evaluate(self, calibration: Calibration) -> Candidate | Rejection:
        mechanism: Mechanism = calibration.mechanism
        try:
            reason = self.goal.limits.find_violation(mechanism)
            if reason is not None:
                return self._reject(reason)
            error = self._standard_error(mechanism)
            task = self.goal.task
            cost = measure_cost(mechanism, task.representative_values(mechanism), task.timed_estimator(mechanism))
        except (ValueError, TypeError, NumericalError) as error_:
            return self._reject(str(error_))
        name = f"{self.name} {SHUFFLER_NOISE_SUFFIX}" if mechanism.message_plan.has_shuffler_noise else self.name
        return Candidate(self.goal, name, mechanism, calibration.epsilon, error, cost, calibration.limit)

    def _reject(self, reason: str) -> Rejection:
        # The list of rejections names the mechanism itself.
        _, _, unprefixed = reason.partition(f"{self.kind.__name__}: ")
        sentence = (unprefixed or reason).removeprefix("plan: ")
        return Rejection(self.name, sentence if sentence.endswith(".") else f"{sentence}.")

    def _standard_error(self, mechanism: Mechanism) -> float:
        return self.goal.task.standard_error(mechanism, self.goal.users)

    # --- Settings ---

    def _determined_settings(self) -> dict[str, Any]:
        """Returns the settings that the task and the goal determine."""
        names, goal = [field.name for field in catalogue.settings_fields(self.kind)], self.goal
        by_shuffler = goal.rests_on == NOISE and goal.task.allows_shuffler_noise
        settings = {**goal.task.mechanism_settings_for(self.kind), "honest": 0 if by_shuffler else goal.users}
        return {name: value for name, value in settings.items() if name in names}

    def _certify_fixed(self) -> Iterator[Calibration]:
        """Yields the mechanism that needs no calibration, if there is one.

        Raises NotApplicable if it or a pair of values misses its target.
        """
        goal, mechanism = self.goal, self.fixed_mechanism
        if mechanism is None:
            return
        pair_targets = goal.build_pair_targets(mechanism)
        if pair_targets is not None:
            pair_targets.check_targets(goal.fewest - goal.colluding)
        yield self._certify(mechanism, "epsilon", mechanism.epsilon)

    def _certify_designs(self) -> Iterator[Calibration]:
        """Yields the mechanism's own designs that its certified curve confirms: the first, or a whole Pareto front."""
        last_error = None
        for settings in self._designs():
            try:
                calibration = self._certify_design(settings)
            except NotApplicable as error:
                last_error = error
                continue
            yield calibration
            if not self.kind.has_design_frontier:
                return
            last_error = None
        if last_error is not None:
            raise last_error

    def _designs(self) -> Iterator[dict[str, Any]]:
        goal = self.goal
        target, honest = goal.inner_target, goal.fewest - goal.colluding
        settings = {**goal.task.mechanism_settings_for(self.kind), "users": goal.users}
        return self.kind.designs(settings, honest, target.epsilon, target.delta, goal.rounds)

    def _certify_design(self, settings: Mapping[str, Any]) -> Calibration:
        """Returns a design if its certified curve meets the target; raises NotApplicable otherwise."""
        name, mechanism = self.kind.tunable[0].name, self.kind(**settings)
        self._check_cost(mechanism)
        return self._certify(mechanism, name, settings[name])

    def _certify(self, mechanism: Mechanism, name: str, value: float) -> Calibration:
        """Returns a mechanism if its certified curve meets the target; raises NotApplicable otherwise."""
        goal, target, participation = self.goal, self.goal.target, self.goal.least_participation
        curve = participation.curve(mechanism, colluding=goal.colluding, effort=goal.effort)
        proof = target.evaluate(curve)
        if not target.is_met(proof):
            raise NotApplicable(self.kind.__name__, f"it reaches {target.format_value(proof)}")
        return Calibration(name, value, mechanism, curve, proof, target, "", goal.fewest, participation)

    def _calibrate_best(self) -> Calibration:
        """Returns the best of the choices that can be certified."""
        choices = self._choices()
        for _ in range(MAX_CHOICES):
            least = min(choice.error for choice in choices)
            near = [choice for choice in choices if choice.error <= NEAR_BEST_RATIO * least]
            best = min(near, key=lambda choice: (choice.bits, choice.error))
            try:
                return self._calibrate(best.settings)
            except NotApplicable as error:
                choices.remove(best)
                if not choices:
                    raise
                last_error = error
        raise last_error

    def _choices(self) -> list[_Choice]:
        """Returns variants of the settings that are not searched, within the limits, each with its guessed error."""
        choices: list[_Choice] = []
        rejected: list[tuple[float, str]] = []
        for variant in self._variants():
            settings, bits = self._determined_settings() | variant, math.inf
            try:
                mechanism = self._guess_mechanism(settings)
                bits = mechanism.messages_per_user * mechanism.message_bits
                self._check_cost(mechanism)
                choices.append(_Choice(self._standard_error(mechanism), bits, settings))
            except NotApplicable as error:
                rejected.append((bits, error.reason))
            except (ValueError, ZeroDivisionError) as error:
                rejected.append((bits, str(error)))
        if not choices:
            raise ValueError(min(rejected)[1])
        return choices

    def _variants(self) -> Iterator[dict[str, Any]]:
        """Yields settings worth comparing, of the mechanism and of its wrappers."""
        known = self.goal.task.mechanism_settings_for(self.kind)
        for variant in itertools.product(*(kind.variants(known) for kind in (self.kind, *self._wrappers))):
            yield {name: value for settings in variant for name, value in settings.items()}

    def _check_cost(self, mechanism: Mechanism) -> None:
        """Raises NotApplicable if a mechanism is too costly whatever its local ε."""
        for layer in catalogue.iterate_layers(mechanism):
            if isinstance(layer, Compressed) and layer.message_bits >= layer.randomizer.message_bits:
                seed = f"a seed of {layer.message_bits} bits"
                raise NotApplicable("plan", f"{seed} is no shorter than the message that it represents")
            if isinstance(layer, Compressed) and layer.expected_steps > MAX_SEED_STEPS:
                steps = f"about {layer.expected_steps:.1g} steps"
                raise NotApplicable("plan", f"a client would take {steps} to find a seed")
        noise = mechanism.message_plan.shuffler_messages
        if noise > MAX_NOISE_MESSAGES:
            raise NotApplicable("plan", f"the shuffler would draw about {noise:.2g} messages of noise")
        size = 8.0 * mechanism.expected_random_words
        if size > MAX_SEED_BYTES:
            raise NotApplicable("plan", f"a client would try about {size / 1e9:,.0f} GB of seeds for one value")
        limits = self.goal.limits
        if limits.bits is None:
            limits = dataclasses.replace(limits, bits=MAX_BITS)
        if mechanism.local_epsilon is not None:
            limits = dataclasses.replace(limits, epsilon_local=None)
        reason = limits.find_violation(mechanism)
        if reason is not None:
            raise NotApplicable("plan", reason)

    # --- Calibration ---

    def _calibrate(self, settings: Mapping[str, Any]) -> Calibration:
        """Returns the certified mechanism; a setting that a guess puts at the end of its range is fixed there first."""
        try:
            return self._search_in_turn(settings, self._guess_setting)
        except NotApplicable:
            return self._search_in_turn(settings, self._search_certified)

    def _search_in_turn(self, settings: Mapping[str, Any], search_earlier: SettingSearch) -> Calibration:
        """Searches the first missing setting, then the next ones if the first does not exhaust the target.

        Only the last search has to be certified, whatever the values of the settings before it.
        """
        settings = dict(settings)
        *earlier, last = self._searchable_parameters(settings)
        for parameter in earlier:
            result = search_earlier(settings, parameter)
            if not result.limit:
                calibration = self._search_certified(settings, parameter)
                if not (parameter.is_integer and calibration.value <= MAX_COARSE_DUMMIES):
                    return calibration
                result = calibration
            settings[parameter.name] = result.value
        return self._search_certified(settings, last)

    def _guess_mechanism(self, settings: Mapping[str, Any]) -> Mechanism:
        """Returns the mechanism that meets the target by a quick guess."""
        settings = dict(settings)
        for parameter in self._searchable_parameters(settings):
            guessed = self._guess_setting(settings, parameter)
            settings[parameter.name] = guessed.value
            if not guessed.limit and not (parameter.is_integer and guessed.value <= MAX_COARSE_DUMMIES):
                break
        return guessed.mechanism

    def _searchable_parameters(self, settings: Mapping[str, Any]) -> list[TunableParameter]:
        parameters = [parameter for parameter in self.kind.tunable if parameter.name not in settings]
        if not parameters:
            raise ValueError("nothing is left to calibrate")
        return parameters

    def _search_certified(self, settings: Mapping[str, Any], parameter: TunableParameter) -> Calibration:
        """Returns the certified setting; searches lower ones while a wrapper's local ε exceeds the limit."""
        build, limited = self._builder(settings, parameter), self._restrict_range(settings, parameter)
        participation = dataclasses.asdict(self.goal.least_participation)
        for _ in range(MAX_LOWERINGS):
            calibration = search(
                build, limited, self.goal.target, **participation, colluding=self.goal.colluding,
                effort=self.goal.effort,
            )  # fmt: skip
            cap, local = self.goal.limits.epsilon_local, calibration.mechanism.local_epsilon
            if cap is None or local is None or local <= cap or parameter.name != "epsilon":
                return calibration
            limited = dataclasses.replace(limited, maximum=limited.maximum * (cap / local) ** 2)
        raise NotApplicable("plan", f"no local ε of at most {cap:g} was found")

    def _restrict_range(self, settings: Mapping[str, Any], parameter: TunableParameter) -> TunableParameter:
        """Restricts the range of a search to the limit of the local ε, and to the range in which wrappers work."""
        capped = self._cap_local_epsilon(settings, parameter)
        if parameter.name != "epsilon" or not self._wrappers:
            return capped
        guessed = self._guess_setting(settings, parameter).value
        return dataclasses.replace(capped, maximum=min(capped.maximum, MAX_GUESS_RATIO * guessed))

    def _cap_local_epsilon(self, settings: Mapping[str, Any], parameter: TunableParameter) -> TunableParameter:
        """Restricts the range of a search to the limit of the local ε, which repeated runs share."""
        cap = self.goal.limits.epsilon_local
        if parameter.name != "epsilon" or cap is None:
            return parameter
        runs = settings["runs"] if Repeated in self._wrappers else 1
        return dataclasses.replace(parameter, maximum=min(parameter.maximum, cap / runs))

    def _guess_setting(self, settings: Mapping[str, Any], parameter: TunableParameter) -> _Guess:
        build, capped = self._builder(settings, parameter), self._cap_local_epsilon(settings, parameter)
        honest = self.goal.fewest - self.goal.colluding
        share = float(self.goal.participation.share)
        value = guess(build, capped, self.goal.target, users=honest, rounds=self.goal.rounds, share=share)
        end = capped.minimum if capped.more_is_more_private else capped.maximum
        return _Guess(value, build(value), "at its end" if value == end else "")

    @property
    def _wrappers(self) -> tuple[type[Mechanism], ...]:
        return catalogue.split_wrappers(self.name)[0]

    def _builder(self, settings: Mapping[str, Any], parameter: TunableParameter) -> Callable[[float], Mechanism]:
        """Returns the mechanism as a function of the setting that is searched."""
        of_wrappers = {field.name for wrapper in self._wrappers for field in catalogue.wrapper_settings(wrapper)}
        inner = {name: value for name, value in settings.items() if name not in of_wrappers}

        def build(value: float) -> Mechanism:
            return catalogue.wrap(self.kind(**inner, **{parameter.name: value}), self._wrappers, settings)

        return build


@dataclass(frozen=True)
class _Choice:
    """The settings that are not searched, with the guessed error and bits of the mechanism."""

    error: float
    bits: float
    settings: dict[str, Any]


@dataclass(frozen=True)
class _Guess:
    """A guessed setting; its fields are those of a calibration."""

    value: float
    mechanism: Mechanism
    limit: str
