"""Plans of surveys: every user answers every question, or each user one, whichever has the smaller error.

The mechanism of each question is chosen by a quick guess for its part of the budget. The guarantee of all together is
certified, and the parts are scaled until it meets the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shuffledp._core.errors import NotApplicable, NumericalError
from shuffledp._core.progress import Progress
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.calibration.targets import Target
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.combined.answer_all import AllAnswered
from shuffledp.mechanisms.combined.parallel import Parallel
from shuffledp.planning import mechanism_calibration
from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import NEAR_BEST_RATIO, Candidate, Rejection, Trial
from shuffledp.planning.ranking import Ranking, choose_worker_count, run_jobs
from shuffledp.privacy.curve import BoundValue
from shuffledp.privacy.randomizer import HasNeighbours
from shuffledp.tasks.survey import Question, Survey

PLAN_PREFIX = "plan"
MAX_SCALINGS, TARGET_TOLERANCE = 8, 0.005
"""Largest number of times that the parts are scaled, and the accepted relative distance from the target."""
MAX_LOG_FACTOR, MAX_SLOPE, FACTOR_STEP = 1.4, 4.0, 0.05


def rank_survey(
    goal: Goal, only: str | None, settings: Mapping[str, Any] | None, workers: int | None, progress: Progress
) -> Ranking:
    """Ranks the strategies for a survey, each with its best mechanisms, certified, by their error."""
    if settings:
        raise ValueError(f"{PLAN_PREFIX}: settings are for one mechanism, not for a survey.")
    if goal.target_distances is not None:
        raise ValueError(f"{PLAN_PREFIX}: target distances are for one question, not for a survey.")
    ways = [way for way in SURVEY_STRATEGIES if only in (None, way.kind.name)]
    if not ways:
        names = ", ".join(dict.fromkeys(way.kind.name for way in SURVEY_STRATEGIES))
        raise ValueError(
            f"{PLAN_PREFIX}: mechanism must be one of {names} for the task {goal.task.name!r}, got {only!r}."
        )
    looks = list(dict.fromkeys(look for way in ways for look in way.question_trials(goal)))
    found: dict[QuestionTrial, list[GuessedMechanism]] = {look: [] for look in looks}
    with progress.step("comparing mechanisms", len(looks)) as advance:
        for one in run_jobs(looks, choose_worker_count(looks) if workers is None else workers, advance):
            found[one.trial].append(one)
    outcomes: list[Candidate | Rejection] = []
    with progress.step("calibrating", len(ways)) as advance:
        for way in ways:
            outcomes.append(way.outcome(goal, found))
            advance(1)
    return Ranking.from_outcomes(goal, outcomes)


# --- One question ---


@dataclass(frozen=True)
class QuestionTrial:
    """One mechanism for one question with its part of the budget, to be evaluated by a quick guess."""

    name: str
    kind: type[Mechanism]
    goal: Goal

    def run(self) -> list[GuessedMechanism]:
        """Returns the mechanism with each of several settings, or the reason why there is none."""
        try:
            made = Trial(self.name, self.kind, self.goal).guess_mechanisms()
            errors = [self.goal.task.standard_error(one, self.goal.users) for one in made]
        except (ValueError, TypeError, ZeroDivisionError, NumericalError) as error:
            return [GuessedMechanism(self, None, math.inf, str(error))]
        return [GuessedMechanism(self, *pair) for pair in zip(made, errors, strict=True)]

    def __hash__(self) -> int:
        return hash((self.name, self.goal.users, self.goal.rounds, self.goal.target.epsilon))


@dataclass(frozen=True)
class GuessedMechanism:
    """A mechanism by a quick guess, and its error."""

    trial: QuestionTrial
    mechanism: Mechanism | None
    error: float
    reason: str = ""

    @property
    def bits(self) -> float:
        assert self.mechanism is not None, "it is one"
        return self.mechanism.message_bits * self.mechanism.messages_per_user


MechanismCondition = Callable[[Mechanism], bool]


def has_local_epsilon(made: Mechanism) -> bool:
    """Returns True if its messages have a local ε, even against the shuffler."""
    return made.local_epsilon is not None


def lacks_local_epsilon(made: Mechanism) -> bool:
    """Returns True if its messages guarantee nothing against anyone who links them to their sender."""
    return made.local_epsilon is None


def has_shuffler_noise(made: Mechanism) -> bool:
    """Returns True if the shuffler draws its noise."""
    return made.message_plan.has_shuffler_noise


def lacks_shuffler_noise(made: Mechanism) -> bool:
    """Returns True if the shuffler draws no noise."""
    return not made.message_plan.has_shuffler_noise


def accept_all(made: Mechanism) -> bool:
    """Returns True, whoever draws the noise."""
    del made
    return True


def choose_best(candidates: Sequence[GuessedMechanism], fits: MechanismCondition) -> GuessedMechanism | None:
    """Returns the mechanism with the fewest bits among those that fit and are within 5% of the smallest error."""
    able = [one for one in candidates if one.mechanism is not None and fits(one.mechanism)]
    least = min((one.error for one in able), default=0.0)
    near = [one for one in able if one.error <= NEAR_BEST_RATIO * least]
    return min(near, key=lambda one: (one.bits, one.error), default=None)


# --- Strategies ---


@dataclass(frozen=True)
class SurveyStrategy:
    """A strategy for answering a survey."""

    name: str
    kind: type[AllAnswered] | type[Parallel]
    condition: MechanismCondition
    required_condition: MechanismCondition
    """A condition that one of the mechanisms must meet: otherwise it is a strategy that needs less trust."""

    def question_trials(self, goal: Goal) -> list[QuestionTrial]:
        """Returns the mechanisms to compare."""
        if self._find_obstacle(goal):
            return []
        return [
            look
            for question in self.question_budgets(goal)
            for look in question.question_trials(self.condition, self.kind is Parallel)
        ]

    def _find_obstacle(self, goal: Goal) -> str:
        """Returns the reason why the survey cannot be answered this way; empty if it can."""
        some = [question for question in goal.task.questions if not question.task.supports_subsampling]
        if self.kind is not Parallel or not some:
            return ""
        name, title = some[0].task.name, some[0].title
        return f"the errors of {name!r} are not known where only some users answer {title!r}."

    def question_budgets(self, goal: Goal) -> list[QuestionBudget]:
        """Returns the questions, each with its part of the budget."""
        task = goal.task
        assert isinstance(task, Survey), "what is planned here"
        if self.kind is Parallel:
            return [QuestionBudget(goal, question, 1.0, 1.0) for question in task.asked]
        return [
            QuestionBudget(goal, question, *part) for question, part in zip(task.asked, split_budget(goal), strict=True)
        ]

    def outcome(self, goal: Goal, found: Mapping[QuestionTrial, Sequence[GuessedMechanism]]) -> Candidate | Rejection:
        """Returns the certified offer, or the reason why there is none."""
        why_not = self._find_obstacle(goal)
        if why_not:
            return Rejection(self.name, why_not)
        try:
            chosen = [self._choose(question, found) for question in self.question_budgets(goal)]
            if not any(one.mechanism is not None and self.required_condition(one.mechanism) for _, one in chosen):
                return Rejection(self.name, "of no question has what rests on more trust less error.")
            return SurveyCalibration(goal, self, tuple(chosen)).calibrate()
        except (ValueError, TypeError, NumericalError) as error:
            reason = error.reason if isinstance(error, NotApplicable) else str(error)
            return Rejection(self.name, reason if reason.endswith(".") else f"{reason}.")

    def _choose(
        self, question: QuestionBudget, found: Mapping[QuestionTrial, Sequence[GuessedMechanism]]
    ) -> tuple[QuestionBudget, GuessedMechanism]:
        looks = question.question_trials(self.condition, self.kind is Parallel)
        candidates = [one for look in looks for one in found[look]]
        best = choose_best(candidates, self.condition)
        if best is None:
            why = next((one.reason for one in candidates if one.reason), "none suits this way")
            raise ValueError(f"no mechanism answers {question.question.title!r}: {why}")
        return question, best

    def build_mechanism(self, goal: Goal, parts: Sequence[Mechanism]) -> Mechanism:
        """Returns the mechanism for all questions."""
        assert isinstance(goal.task, Survey), "what is planned here"
        return Parallel(parts, goal.task.shares) if self.kind is Parallel else AllAnswered(parts)


SURVEY_STRATEGIES = (
    SurveyStrategy("parallel", Parallel, has_local_epsilon, accept_all),
    SurveyStrategy("all-answered, local", AllAnswered, has_local_epsilon, accept_all),
    SurveyStrategy("all-answered", AllAnswered, lacks_shuffler_noise, lacks_local_epsilon),
    SurveyStrategy("all-answered (shuffler)", AllAnswered, accept_all, has_shuffler_noise),
)
"""One question per user; or all questions, by mechanisms with a local ε, by the shuffler alone, or with its noise."""


@dataclass(frozen=True)
class QuestionBudget:
    """A question with its part of the budget, expressed as 1 / ``share`` rounds at ``factor`` times ε."""

    goal: Goal
    question: Question
    share: float
    factor: float

    def goal_at_factor(self, factor: float) -> Goal:
        """Returns the goal of this question alone, with its ε scaled by ``factor``."""
        goal, rounds = self.goal, max(1, math.ceil(1 / self.share - 1e-9))
        target = Target(goal.target.epsilon * self.factor * factor, goal.target.delta)
        cap = goal.limits.epsilon_local
        limits = replace(goal.limits, epsilon_local=None if cap is None else cap * self.share, messages=None)
        return replace(
            goal,
            task=self.question.task,
            target=target,
            rounds=goal.rounds * rounds,
            limits=limits,
            effort=QUICK_EFFORT,
        )

    def question_trials(self, fits: MechanismCondition, one_message: bool) -> list[QuestionTrial]:
        """Returns the mechanisms that may answer the question."""
        goal = self.goal_at_factor(1.0)
        kinds = dict(
            goal.usable_mechanisms()
            if self.question.mechanism is None
            else goal.find_mechanisms(self.question.mechanism)
        )
        if not kinds:
            names = ", ".join(name for name, _ in goal.usable_mechanisms() if not catalogue.split_wrappers(name)[0])
            raise ValueError(
                f"{PLAN_PREFIX}: the question {self.question.title!r} can be answered by {names}, "
                f"got {self.question.mechanism!r}."
            )
        asked = self.question.mechanism is not None
        return [
            QuestionTrial(name, kind, goal) for name, kind in kinds.items() if asked or _is_worth_trying(name, kind)
            if _may_fit(kind, fits, one_message)
        ]  # fmt: skip


def _is_worth_trying(name: str, kind: type[Mechanism]) -> bool:
    """Returns True if a mechanism is worth trying without being named.

    Wrappers make messages shorter, but in a survey all are padded to one length; and a survey gives no better guarantee
    for near values than for far ones.
    """
    return not catalogue.split_wrappers(name)[0] and not issubclass(kind, HasNeighbours)


def _may_fit(kind: type[Mechanism], fits: MechanismCondition, one_message: bool) -> bool:
    """Returns True if some mechanism of a class fits."""
    examples = kind.examples()
    return any(fits(one) and (not one_message or one.message_plan.is_single_message) for one in examples)


def split_budget(goal: Goal) -> list[tuple[float, float]]:
    """Returns the part of the budget of each question, and the factor left over by rounding to whole rounds.

    The parts minimise a curator's error: with Laplace noise, parts of ε in proportion to (w·a²)^⅓, where a is the error
    of the question alone with the whole budget; with Gaussian noise, parts of μ² in proportion to √w·a.
    """
    task = goal.task
    assert isinstance(task, Survey), "what is planned here"
    pure = goal.central_baseline.noise == "Laplace"
    wanted = []
    for weight, question in zip(task.shares, task.asked, strict=True):
        alone = replace(goal, task=question.task).central_baseline.standard_error / question.task.user_influence(
            goal.users
        )
        wanted.append((float(weight) * alone**2) ** (1 / 3) if pure else math.sqrt(float(weight)) * alone)
    shares = [one / math.fsum(wanted) for one in wanted]
    left = [share * math.ceil(1 / share - 1e-9) for share in shares]
    factors = [rest if pure else math.sqrt(rest) for rest in left]
    # Questions that are nearly alike get the same part, so that mechanisms are designed for them once.
    return [
        (share, FACTOR_STEP * math.floor(factor / FACTOR_STEP + 1e-9))
        for share, factor in zip(shares, factors, strict=True)
    ]


@dataclass(frozen=True)
class _ScalingStep:
    """The next factor of all parts, from the ε that earlier factors reached."""

    target: float
    factor: float = 1.0
    previous: tuple[float, float] | None = None

    def next_step(self, reached: float) -> _ScalingStep:
        """ε grows about like a power of the factor; the first step assumes that it is linear."""
        if not 0.0 < reached < math.inf:
            return _ScalingStep(self.target, self.factor / 2)
        slope = 1.0
        if self.previous is not None and self.previous[0] != self.factor and self.previous[1] != reached:
            slope = math.log(reached / self.previous[1]) / math.log(self.factor / self.previous[0])
        wanted = math.log(self.target * (1 - TARGET_TOLERANCE / 2) / reached) / min(
            MAX_SLOPE, max(1 / MAX_SLOPE, slope)
        )
        step = math.exp(min(MAX_LOG_FACTOR, max(-MAX_LOG_FACTOR, wanted)))
        return _ScalingStep(self.target, self.factor * step, (self.factor, reached))


# --- All questions ---


@dataclass(frozen=True)
class SurveyCalibration:
    """The questions with their chosen mechanisms, whose parts are scaled until the target is met."""

    goal: Goal
    strategy: SurveyStrategy
    selected_mechanisms: tuple[tuple[QuestionBudget, GuessedMechanism], ...]

    def calibrate(self) -> Candidate:
        """Returns the certified offer."""
        made, proof = self._scale_to_target()
        self.goal.task.check_mechanism(made)
        reason = self.goal.limits.find_violation(made)
        if reason is not None:
            raise NotApplicable(PLAN_PREFIX, reason)
        error = self.goal.task.standard_error(made, self.goal.users)
        spent = mechanism_calibration.measure_cost(made, self.goal.task.representative_values(made))
        return Candidate(self.goal, self.strategy.name, made, proof, error, spent, "")

    def _scale_to_target(self) -> tuple[Mechanism, BoundValue]:
        """Returns the mechanism with as much of the budget as the target allows."""
        target, best, tried = self.goal.target, None, _ScalingStep(self.goal.target.epsilon)
        for _ in range(MAX_SCALINGS):
            made = self._build_mechanism(tried.factor)
            reached = self._prove_epsilon(made)
            if target.is_met(reached):
                best = (made, reached) if best is None or reached.upper > best[1].upper else best
                if reached.upper >= target.epsilon * (1 - TARGET_TOLERANCE):
                    break
            tried = tried.next_step(reached.upper)
        if best is None:
            raise NotApplicable(PLAN_PREFIX, f"it reaches {target.format_value(reached)}")
        return best

    def _build_mechanism(self, factor: float) -> Mechanism:
        parts = [self._build_part(question, one, factor) for question, one in self.selected_mechanisms]
        return self.strategy.build_mechanism(self.goal, parts)

    @staticmethod
    def _build_part(question: QuestionBudget, chosen: GuessedMechanism, factor: float) -> Mechanism:
        """Returns the chosen mechanism with another part of the budget."""
        assert chosen.mechanism is not None, "only such are chosen"
        if factor == 1.0:
            return chosen.mechanism
        again = QuestionTrial(chosen.trial.name, chosen.trial.kind, question.goal_at_factor(factor)).run()
        drawn = chosen.mechanism.message_plan.has_shuffler_noise
        best = choose_best(again, lambda made: made.message_plan.has_shuffler_noise == drawn)
        if best is None or best.mechanism is None:
            raise NotApplicable(PLAN_PREFIX, f"{chosen.trial.name} cannot answer {question.question.title!r} with less")
        return best.mechanism

    def _prove_epsilon(self, made: Mechanism) -> BoundValue:
        goal = self.goal
        curve = goal.least_participation.curve(made, colluding=goal.colluding, effort=goal.effort)
        return goal.target.evaluate(curve)
