"""Plans of surveys: every user answers every question or only one of them, whichever has the smaller error.

The mechanism of each question is chosen by a quick guess for its part of the budget. The guarantee of all together is
certified, and the parts are scaled until it meets the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shuffledp._core.errors import NotApplicable, NumericalError
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.combined.answer_all import AllAnswered
from shuffledp.mechanisms.combined.parallel import Parallel
from shuffledp.planning import mechanism_calibration
from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import NEAR_BEST_RATIO, Candidate, Rejection, Trial
from shuffledp.planning.ranking import Ranking, choose_worker_count, run_jobs
from shuffledp.privacy.curve import BoundValue
from shuffledp.privacy.randomizer_interface import HasNeighbours
from shuffledp.tasks.domain import PLAN_PREFIX
from shuffledp.tasks.survey import Question, Survey

MAX_SCALINGS, TARGET_TOLERANCE = 8, 0.005
"""Largest number of times that the parts are scaled, and the accepted relative distance from the target."""
MAX_LOG_FACTOR, MAX_SLOPE, FACTOR_STEP = 1.4, 4.0, 0.05
"""Largest logarithm of a change of the parts, largest assumed power by which ε grows with them, and their rounding."""


def rank_survey(
    goal: Goal, only: str | None, settings: Mapping[str, Any] | None, workers: int | None, progress: Progress
) -> Ranking:
    """Ranks the strategies for a survey, each with its best mechanisms, certified, by their error."""
    if settings:
        raise ValueError(f"{PLAN_PREFIX}: settings are for one mechanism, not for a survey.")
    if goal.target_distances is not None:
        raise ValueError(f"{PLAN_PREFIX}: target distances are for one question, not for a survey.")
    strategies = [strategy for strategy in SURVEY_STRATEGIES if only in (None, strategy.kind.name)]
    if not strategies:
        names = ", ".join(dict.fromkeys(strategy.kind.name for strategy in SURVEY_STRATEGIES))
        raise ValueError(
            f"{PLAN_PREFIX}: mechanism must be one of {names} for the task {goal.task.name!r}, got {only!r}."
        )
    trials = list(dict.fromkeys(trial for strategy in strategies for trial in strategy.question_trials(goal)))
    guesses: dict[QuestionTrial, list[GuessedMechanism]] = {trial: [] for trial in trials}
    with progress.step("comparing mechanisms", len(trials)) as advance:
        for guess in run_jobs(trials, choose_worker_count(trials) if workers is None else workers, advance):
            guesses[guess.trial].append(guess)
    outcomes: list[Candidate | Rejection] = []
    with progress.step("calibrating", len(strategies)) as advance:
        for strategy in strategies:
            outcomes.append(strategy.outcome(goal, guesses))
            advance(1)
    return Ranking.from_outcomes(goal, outcomes)


# --- One question ---


@dataclass(frozen=True)
class QuestionTrial:
    """One mechanism for one question with its part of the budget, evaluated by a quick guess."""

    name: str
    kind: type[Mechanism]
    goal: Goal

    def run(self) -> list[GuessedMechanism]:
        """Returns the mechanism with each of several settings, or the reason why there is none."""
        try:
            mechanisms = Trial(self.name, self.kind, self.goal).guess_mechanisms()
            errors = [self.goal.task.standard_error(mechanism, self.goal.users) for mechanism in mechanisms]
        except (ValueError, TypeError, ZeroDivisionError, NumericalError) as error:
            return [GuessedMechanism(self, None, math.inf, str(error))]
        return [GuessedMechanism(self, *pair) for pair in zip(mechanisms, errors, strict=True)]

    def __hash__(self) -> int:
        return hash((self.name, self.goal.users, self.goal.rounds, self.goal.target.epsilon))


@dataclass(frozen=True)
class GuessedMechanism:
    """A mechanism with guessed settings, and its error."""

    trial: QuestionTrial
    mechanism: Mechanism | None
    """None if there is none."""
    error: float
    reason: str = ""
    """The reason why there is no mechanism."""

    @property
    def bits(self) -> float:
        assert self.mechanism is not None
        return self.mechanism.message_bits * self.mechanism.messages_per_user


MechanismCondition = Callable[[Mechanism], bool]


def has_local_epsilon(mechanism: Mechanism) -> bool:
    """Returns True if messages have a local ε, even against the shuffler."""
    return mechanism.local_epsilon is not None


def has_shuffler_noise(mechanism: Mechanism) -> bool:
    """Returns True if the shuffler draws the noise."""
    return mechanism.message_plan.has_shuffler_noise


def choose_best(guesses: Sequence[GuessedMechanism], fits: MechanismCondition) -> GuessedMechanism | None:
    """Returns the mechanism with the fewest bits among those that fit and are within 5% of the smallest error."""
    eligible = [guess for guess in guesses if guess.mechanism is not None and fits(guess.mechanism)]
    least = min((guess.error for guess in eligible), default=0.0)
    near = [guess for guess in eligible if guess.error <= NEAR_BEST_RATIO * least]
    return min(near, key=lambda guess: (guess.bits, guess.error), default=None)


# --- Strategies ---


@dataclass(frozen=True)
class SurveyStrategy:
    """A strategy for answering a survey."""

    name: str
    kind: type[AllAnswered] | type[Parallel]
    condition: MechanismCondition
    """A condition that every mechanism must meet."""
    required_condition: MechanismCondition
    """A condition that at least one mechanism must meet; otherwise another strategy needs less trust."""

    def question_trials(self, goal: Goal) -> list[QuestionTrial]:
        """Returns the mechanisms to compare."""
        if self._find_obstacle(goal):
            return []
        return [trial for budget in self.question_budgets(goal) for trial in self._budget_trials(budget)]

    def _budget_trials(self, budget: QuestionBudget) -> list[QuestionTrial]:
        return budget.question_trials(self.condition, one_message=self.kind is Parallel)

    def _find_obstacle(self, goal: Goal) -> str:
        """Returns the reason why the survey cannot be answered this way; empty if it can."""
        unsuited = [question for question in goal.task.questions if not question.task.supports_subsampling]
        if self.kind is not Parallel or not unsuited:
            return ""
        name, title = unsuited[0].task.name, unsuited[0].title
        return f"the errors of {name!r} are not known if only some users answer {title!r}."

    def question_budgets(self, goal: Goal) -> list[QuestionBudget]:
        """Returns the questions, each with its part of the budget."""
        questions = goal.task.questions
        parts = [(1.0, 1.0)] * len(questions) if self.kind is Parallel else split_budget(goal)
        return [QuestionBudget(goal, question, *part) for question, part in zip(questions, parts, strict=True)]

    def outcome(self, goal: Goal, guesses: Mapping[QuestionTrial, Sequence[GuessedMechanism]]) -> Candidate | Rejection:
        """Returns the certified candidate, or the reason why there is none."""
        obstacle = self._find_obstacle(goal)
        if obstacle:
            return Rejection(self.name, obstacle)
        try:
            chosen = [self._choose(budget, guesses) for budget in self.question_budgets(goal)]
            if not any(one.mechanism is not None and self.required_condition(one.mechanism) for _, one in chosen):
                return Rejection(self.name, "more trust reduces the error of no question.")
            return SurveyCalibration(goal, self, tuple(chosen)).calibrate()
        except (ValueError, TypeError, NumericalError) as error:
            reason = error.reason if isinstance(error, NotApplicable) else str(error)
            return Rejection(self.name, reason if reason.endswith(".") else f"{reason}.")

    def _choose(
        self, budget: QuestionBudget, guesses: Mapping[QuestionTrial, Sequence[GuessedMechanism]]
    ) -> tuple[QuestionBudget, GuessedMechanism]:
        own = [guess for trial in self._budget_trials(budget) for guess in guesses[trial]]
        best = choose_best(own, self.condition)
        if best is None:
            reason = next((guess.reason for guess in own if guess.reason), "none fits this strategy")
            raise ValueError(f"no mechanism answers {budget.question.title!r}: {reason}")
        return budget, best

    def build_mechanism(self, goal: Goal, parts: Sequence[Mechanism]) -> Mechanism:
        """Returns the mechanism for all questions."""
        assert isinstance(goal.task, Survey)
        return Parallel(parts, goal.task.shares) if self.kind is Parallel else AllAnswered(parts)


SURVEY_STRATEGIES = (
    SurveyStrategy("parallel", Parallel, has_local_epsilon, lambda mechanism: True),
    SurveyStrategy("all-answered, local", AllAnswered, has_local_epsilon, lambda mechanism: True),
    SurveyStrategy(
        "all-answered",
        AllAnswered,
        lambda mechanism: not has_shuffler_noise(mechanism),
        lambda mechanism: not has_local_epsilon(mechanism),
    ),
    SurveyStrategy("all-answered (shuffler)", AllAnswered, lambda mechanism: True, has_shuffler_noise),
)
"""One question per user; or all questions with a local ε, by the shuffler alone, or by its noise."""


@dataclass(frozen=True)
class QuestionBudget:
    """A question with its part of the budget, expressed as 1 / ``share`` rounds at ``factor`` times ε."""

    goal: Goal
    question: Question
    share: float
    factor: float

    def goal_at_factor(self, factor: float) -> Goal:
        """Returns the goal of this question alone, with its ε scaled by ``factor``."""
        goal, cap = self.goal, self.goal.limits.epsilon_local
        return replace(
            goal,
            task=self.question.task,
            target=replace(goal.target, epsilon=goal.target.epsilon * self.factor * factor),
            rounds=goal.rounds * max(1, math.ceil(1 / self.share - 1e-9)),
            limits=replace(goal.limits, epsilon_local=None if cap is None else cap * self.share, messages=None),
            effort=QUICK_EFFORT,
        )

    def question_trials(self, fits: MechanismCondition, one_message: bool) -> list[QuestionTrial]:
        """Returns the mechanisms that may answer the question."""
        goal, only = self.goal_at_factor(1.0), self.question.mechanism
        kinds = dict(goal.usable_mechanisms() if only is None else goal.find_mechanisms(only))
        if not kinds:
            names = ", ".join(name for name, _ in goal.usable_mechanisms() if not catalogue.split_wrappers(name)[0])
            raise ValueError(
                f"{PLAN_PREFIX}: the question {self.question.title!r} can be answered by {names}, got {only!r}."
            )
        return [
            QuestionTrial(name, kind, goal)
            for name, kind in kinds.items()
            if (only is not None or _is_worth_trying(name, kind)) and _may_fit(kind, fits, one_message)
        ]


def _is_worth_trying(name: str, kind: type[Mechanism]) -> bool:
    """Returns True if a mechanism is worth trying unless the question names another.

    Wrappers make messages shorter, but a survey pads all messages to one length; metric mechanisms protect near values
    more strongly, but a survey does not state such a guarantee.
    """
    return not catalogue.split_wrappers(name)[0] and not issubclass(kind, HasNeighbours)


def _may_fit(kind: type[Mechanism], fits: MechanismCondition, one_message: bool) -> bool:
    """Returns True if some mechanism of a class fits."""
    return any(fits(one) and (not one_message or one.message_plan.is_single_message) for one in kind.examples())


def split_budget(goal: Goal) -> list[tuple[float, float]]:
    """Returns the part of the budget of each question, and the factor that corrects its rounding to whole rounds.

    The parts minimise a curator's error: with Laplace noise, parts of ε in proportion to (w·a²)^⅓, where a is the error
    of the question alone with the whole budget; with Gaussian noise, parts of μ² in proportion to √w·a.
    """
    survey = goal.task
    assert isinstance(survey, Survey)
    pure = goal.central_baseline.noise == "Laplace"
    proportions = []
    for weight, question in zip(survey.shares, survey.asked, strict=True):
        task = question.task
        error = replace(goal, task=task).central_baseline.standard_error / task.user_influence(goal.users)
        proportions.append((float(weight) * error**2) ** (1 / 3) if pure else math.sqrt(float(weight)) * error)
    shares = [proportion / math.fsum(proportions) for proportion in proportions]
    excesses = [share * math.ceil(1 / share - 1e-9) for share in shares]
    factors = [excess if pure else math.sqrt(excess) for excess in excesses]
    # Rounded, so that similar questions get the same part and share the design of mechanisms.
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
        """Returns the next factor: ε grows about like a power of it, and linearly for the first step."""
        if not 0.0 < reached < math.inf:
            return _ScalingStep(self.target, self.factor / 2)
        slope = 1.0
        if self.previous is not None and self.previous[0] != self.factor and self.previous[1] != reached:
            slope = math.log(reached / self.previous[1]) / math.log(self.factor / self.previous[0])
        slope = min(MAX_SLOPE, max(1 / MAX_SLOPE, slope))
        log_step = math.log(self.target * (1 - TARGET_TOLERANCE / 2) / reached) / slope
        step = math.exp(min(MAX_LOG_FACTOR, max(-MAX_LOG_FACTOR, log_step)))
        return _ScalingStep(self.target, self.factor * step, (self.factor, reached))


# --- All questions ---


@dataclass(frozen=True)
class SurveyCalibration:
    """The questions with their chosen mechanisms, whose parts are scaled until the target is met."""

    goal: Goal
    strategy: SurveyStrategy
    selected_mechanisms: tuple[tuple[QuestionBudget, GuessedMechanism], ...]

    def calibrate(self) -> Candidate:
        """Returns the certified candidate."""
        mechanism, proof = self._scale_to_target()
        task = self.goal.task
        task.check_mechanism(mechanism)
        reason = self.goal.limits.find_violation(mechanism)
        if reason is not None:
            raise NotApplicable(PLAN_PREFIX, reason)
        error = task.standard_error(mechanism, self.goal.users)
        cost = mechanism_calibration.measure_cost(mechanism, task.representative_values(mechanism))
        return Candidate(self.goal, self.strategy.name, mechanism, proof, error, cost, "")

    def _scale_to_target(self) -> tuple[Mechanism, BoundValue]:
        """Returns the mechanism with as much of the budget as the target allows."""
        goal, best, step = self.goal, None, _ScalingStep(self.goal.target.epsilon)
        for _ in range(MAX_SCALINGS):
            parts = [self._build_part(budget, guess, step.factor) for budget, guess in self.selected_mechanisms]
            mechanism = self.strategy.build_mechanism(goal, parts)
            curve = goal.least_participation.curve(mechanism, colluding=goal.colluding, effort=goal.effort)
            proof = goal.target.evaluate(curve)
            if goal.target.is_met(proof):
                best = (mechanism, proof) if best is None or proof.upper > best[1].upper else best
                if proof.upper >= goal.target.epsilon * (1 - TARGET_TOLERANCE):
                    break
            step = step.next_step(proof.upper)
        if best is None:
            raise NotApplicable(PLAN_PREFIX, f"it reaches {goal.target.format_value(proof)}")
        return best

    @staticmethod
    def _build_part(budget: QuestionBudget, guess: GuessedMechanism, factor: float) -> Mechanism:
        """Returns the chosen mechanism with another part of the budget."""
        assert guess.mechanism is not None
        if factor == 1.0:
            return guess.mechanism
        guesses = QuestionTrial(guess.trial.name, guess.trial.kind, budget.goal_at_factor(factor)).run()
        by_shuffler = has_shuffler_noise(guess.mechanism)
        best = choose_best(guesses, lambda mechanism: has_shuffler_noise(mechanism) == by_shuffler)
        if best is None or best.mechanism is None:
            raise NotApplicable(PLAN_PREFIX, f"{guess.trial.name} cannot answer {budget.question.title!r} with less")
        return best.mechanism
