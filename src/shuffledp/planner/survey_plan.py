"""Plans of surveys: everybody answers every question, or each user one, whichever has the least error.

Each question's mechanism is chosen by a quick guess for its share of the budget; what all of them together promise is
certified, and they are given a little more or less of it until that is the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shuffledp.bounds.best import QUICK
from shuffledp.calibration.target import Target
from shuffledp.errors import NotApplicable, NumericalError
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.combined.all_answered import AllAnswered
from shuffledp.mechanisms.combined.parallel import Parallel
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.planner import cost
from shuffledp.planner.goal import Goal
from shuffledp.planner.ranking import Ranking, run, workers_for
from shuffledp.planner.trial import NEAR_BEST, Offer, Refusal, Trial
from shuffledp.privacy.randomizer import HasNeighbours
from shuffledp.privacy.value import BoundValue
from shuffledp.progress import Progress
from shuffledp.tasks.survey import Question, Survey

WHO = "plan"
MOST_STEPS, NEAR_TARGET = 8, 0.005
"""How often the questions are given more or less, and how near to the target is near enough."""
MOST_STEP, STEEPEST, STEP = 1.4, 4.0, 0.05


def survey_ranking(
    goal: Goal, only: str | None, settings: Mapping[str, Any] | None, workers: int | None, progress: Progress
) -> Ranking:
    """The ways to run a survey, each with the mechanisms that suit it best, certified and ranked by their error."""
    if settings:
        raise ValueError(f"{WHO}: settings are for one mechanism, not for a survey.")
    if goal.target_distances is not None:
        raise ValueError(f"{WHO}: target distances are for one question, not for a survey.")
    ways = [way for way in WAYS if only in (None, way.kind.name)]
    if not ways:
        names = ", ".join(dict.fromkeys(way.kind.name for way in WAYS))
        raise ValueError(f"{WHO}: mechanism must be one of {names} for the task {goal.task.name!r}, got {only!r}.")
    looks = list(dict.fromkeys(look for way in ways for look in way.looks(goal)))
    found: dict[Look, list[Candidate]] = {look: [] for look in looks}
    with progress.step("comparing mechanisms", len(looks)) as advance:
        for one in run(looks, workers_for(looks) if workers is None else workers, advance):
            found[one.look].append(one)
    outcomes: list[Offer | Refusal] = []
    with progress.step("calibrating", len(ways)) as advance:
        for way in ways:
            outcomes.append(way.outcome(goal, found))
            advance(1)
    return Ranking.of(goal, outcomes)


# --- one question -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """One mechanism for one question with its part of the budget, to be looked at by a quick guess."""

    name: str
    kind: type[Mechanism]
    goal: Goal

    def run(self) -> list[Candidate]:
        """What it comes to, with each of several settings; where there is none it says why."""
        try:
            made = Trial(self.name, self.kind, self.goal).guessed()
            errors = [self.goal.task.standard_error(one, self.goal.users) for one in made]
        except (ValueError, TypeError, ZeroDivisionError, NumericalError) as error:
            return [Candidate(self, None, math.inf, str(error))]
        return [Candidate(self, *pair) for pair in zip(made, errors, strict=True)]

    def __hash__(self) -> int:
        return hash((self.name, self.goal.users, self.goal.rounds, self.goal.target.epsilon))


@dataclass(frozen=True)
class Candidate:
    """A mechanism by a quick guess, and its error."""

    look: Look
    mechanism: Mechanism | None
    error: float
    reason: str = ""

    @property
    def bits(self) -> float:
        assert self.mechanism is not None, "it is one"
        return self.mechanism.message_bits * self.mechanism.messages_per_user


Fits = Callable[[Mechanism], bool]


def keeps_local(made: Mechanism) -> bool:
    """Whether its messages promise something even to the shuffler."""
    return made.local_epsilon is not None


def tells_truth(made: Mechanism) -> bool:
    """Whether its messages promise nothing to who links them to their sender."""
    return made.local_epsilon is None


def drawn_by_shuffler(made: Mechanism) -> bool:
    """Whether the shuffler draws its noise."""
    return made.crowd.by_shuffler


def drawn_by_users(made: Mechanism) -> bool:
    """Whether the shuffler has nothing to draw."""
    return not made.crowd.by_shuffler


def any_noise(made: Mechanism) -> bool:
    """Whoever draws the noise."""
    del made
    return True


def best_of(candidates: Sequence[Candidate], fits: Fits) -> Candidate | None:
    """Of those that fit and have nearly the least error the one with the fewest bits."""
    able = [one for one in candidates if one.mechanism is not None and fits(one.mechanism)]
    least = min((one.error for one in able), default=0.0)
    near = [one for one in able if one.error <= NEAR_BEST * least]
    return min(near, key=lambda one: (one.bits, one.error), default=None)


# --- the ways -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """How a survey is answered."""

    name: str
    kind: type[AllAnswered] | type[Parallel]
    fits: Fits
    needs: Fits
    """What must be among the mechanisms: otherwise it is a way that rests on less."""

    def looks(self, goal: Goal) -> list[Look]:
        """What is to be compared."""
        if self._why_not(goal):
            return []
        return [look for question in self.shared(goal) for look in question.looks(self.fits, self.kind is Parallel)]

    def _why_not(self, goal: Goal) -> str:
        """Why the survey cannot be answered so at all; empty where it can."""
        some = [question for question in goal.task.questions if not question.task.sampled]
        if self.kind is not Parallel or not some:
            return ""
        name, title = some[0].task.name, some[0].title
        return f"the errors of {name!r} are not known where only some users answer {title!r}."

    def shared(self, goal: Goal) -> list[Shared]:
        """The questions, each with its part of the budget."""
        task = goal.task
        assert isinstance(task, Survey), "what is planned here"
        if self.kind is Parallel:
            return [Shared(goal, question, 1.0, 1.0) for question in task.asked]
        return [Shared(goal, question, *part) for question, part in zip(task.asked, parts_of(goal), strict=True)]

    def outcome(self, goal: Goal, found: Mapping[Look, Sequence[Candidate]]) -> Offer | Refusal:
        """The certified offer, or why there is none."""
        why_not = self._why_not(goal)
        if why_not:
            return Refusal(self.name, why_not)
        try:
            chosen = [self._chosen(question, found) for question in self.shared(goal)]
            if not any(one.mechanism is not None and self.needs(one.mechanism) for _, one in chosen):
                return Refusal(self.name, "of no question has what rests on more trust less error.")
            return Settling(goal, self, tuple(chosen)).offer()
        except (ValueError, TypeError, NumericalError) as error:
            reason = error.reason if isinstance(error, NotApplicable) else str(error)
            return Refusal(self.name, reason if reason.endswith(".") else f"{reason}.")

    def _chosen(self, question: Shared, found: Mapping[Look, Sequence[Candidate]]) -> tuple[Shared, Candidate]:
        looks = question.looks(self.fits, self.kind is Parallel)
        candidates = [one for look in looks for one in found[look]]
        best = best_of(candidates, self.fits)
        if best is None:
            why = next((one.reason for one in candidates if one.reason), "none suits this way")
            raise ValueError(f"no mechanism answers {question.question.title!r}: {why}")
        return question, best

    def made(self, goal: Goal, parts: Sequence[Mechanism]) -> Mechanism:
        """The mechanism of all questions."""
        assert isinstance(goal.task, Survey), "what is planned here"
        return Parallel(parts, goal.task.shares) if self.kind is Parallel else AllAnswered(parts)


WAYS = (
    Way("parallel", Parallel, keeps_local, any_noise),
    Way("all-answered, local", AllAnswered, keeps_local, any_noise),
    Way("all-answered", AllAnswered, drawn_by_users, tells_truth),
    Way("all-answered (shuffler)", AllAnswered, any_noise, drawn_by_shuffler),
)
"""One question each; all by mechanisms that keep a local ε; all by the shuffler; also by the shuffler's noise."""


@dataclass(frozen=True)
class Shared:
    """A question with its part of the budget: as if it were asked in so many rounds, and ε were so many times ε."""

    goal: Goal
    question: Question
    share: float
    factor: float

    def at(self, factor: float) -> Goal:
        """The goal of this question alone, where its ε is that many times its own."""
        goal, rounds = self.goal, max(1, math.ceil(1 / self.share - 1e-9))
        target = Target(goal.target.epsilon * self.factor * factor, goal.target.delta)
        cap = goal.limits.epsilon_local
        limits = replace(goal.limits, epsilon_local=None if cap is None else cap * self.share, messages=None)
        return replace(
            goal, task=self.question.task, target=target, rounds=goal.rounds * rounds, limits=limits, effort=QUICK
        )

    def looks(self, fits: Fits, one_message: bool) -> list[Look]:
        """The mechanisms that may answer it."""
        goal = self.at(1.0)
        kinds = dict(goal.kinds() if self.question.mechanism is None else goal.kinds_named(self.question.mechanism))
        if not kinds:
            names = ", ".join(name for name, _ in goal.kinds() if not catalogue.wrappers_of(name)[0])
            raise ValueError(
                f"{WHO}: the question {self.question.title!r} can be answered by {names}, "
                f"got {self.question.mechanism!r}."
            )
        asked = self.question.mechanism is not None
        return [
            Look(name, kind, goal) for name, kind in kinds.items() if asked or _is_plain(name, kind)
            if _may(kind, fits, one_message)
        ]  # fmt: skip


def _is_plain(name: str, kind: type[Mechanism]) -> bool:
    """Whether it is worth trying unasked.

    What is built around mechanisms makes messages shorter, which are padded to one length here; and that near values
    are hidden better than far ones is not what a survey promises.
    """
    return not catalogue.wrappers_of(name)[0] and not issubclass(kind, HasNeighbours)


def _may(kind: type[Mechanism], fits: Fits, one_message: bool) -> bool:
    """Whether some mechanism of a class fits."""
    examples = kind.examples()
    return any(fits(one) and (not one_message or one.crowd.one_each) for one in examples)


def parts_of(goal: Goal) -> list[tuple[float, float]]:
    """The part of the budget that each question gets, and what is left of rounding it to whole rounds.

    They are those for which a curator's error is the least: with Laplace noise parts of ε in proportion to (w·a²)^⅓,
    a the error of the question alone with all of it, with Gaussian noise parts of μ² in proportion to √w·a.
    """
    task = goal.task
    assert isinstance(task, Survey), "what is planned here"
    pure = goal.yardstick.noise == "Laplace"
    wanted = []
    for weight, question in zip(task.shares, task.asked, strict=True):
        alone = replace(goal, task=question.task).yardstick.standard_error / question.task.one_user(goal.users)
        wanted.append((float(weight) * alone**2) ** (1 / 3) if pure else math.sqrt(float(weight)) * alone)
    shares = [one / math.fsum(wanted) for one in wanted]
    left = [share * math.ceil(1 / share - 1e-9) for share in shares]
    factors = [rest if pure else math.sqrt(rest) for rest in left]
    # Questions that are nearly alike get the same, so that mechanisms are designed for them once.
    return [(share, STEP * math.floor(factor / STEP + 1e-9)) for share, factor in zip(shares, factors, strict=True)]


@dataclass(frozen=True)
class _Tried:
    """How much the questions are given next, from what they reached with more or less."""

    target: float
    factor: float = 1.0
    before: tuple[float, float] | None = None

    def then(self, reached: float) -> _Tried:
        """ε grows about as a power of what is given: the first one is taken as linear."""
        if not 0.0 < reached < math.inf:
            return _Tried(self.target, self.factor / 2)
        slope = 1.0
        if self.before is not None and self.before[0] != self.factor and self.before[1] != reached:
            slope = math.log(reached / self.before[1]) / math.log(self.factor / self.before[0])
        wanted = math.log(self.target * (1 - NEAR_TARGET / 2) / reached) / min(STEEPEST, max(1 / STEEPEST, slope))
        step = math.exp(min(MOST_STEP, max(-MOST_STEP, wanted)))
        return _Tried(self.target, self.factor * step, (self.factor, reached))


# --- all questions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settling:
    """The questions with the mechanisms that were chosen, to be given more or less until the target is met."""

    goal: Goal
    way: Way
    chosen: tuple[tuple[Shared, Candidate], ...]

    def offer(self) -> Offer:
        """The certified offer."""
        made, proof = self._settled()
        self.goal.task.demand(made)
        reason = self.goal.limits.why_not(made)
        if reason is not None:
            raise NotApplicable(WHO, reason)
        error = self.goal.task.standard_error(made, self.goal.users)
        spent = cost.measure(made, self.goal.task.sample(made))
        return Offer(self.goal, self.way.name, made, proof, error, spent, "")

    def _settled(self) -> tuple[Mechanism, BoundValue]:
        """The mechanism with as much of the budget as the target allows."""
        target, best, tried = self.goal.target, None, _Tried(self.goal.target.epsilon)
        for _ in range(MOST_STEPS):
            made = self._made(tried.factor)
            reached = self._reached(made)
            if target.met(reached):
                best = (made, reached) if best is None or reached.upper > best[1].upper else best
                if reached.upper >= target.epsilon * (1 - NEAR_TARGET):
                    break
            tried = tried.then(reached.upper)
        if best is None:
            raise NotApplicable(WHO, f"it reaches {target.text(reached)}")
        return best

    def _made(self, factor: float) -> Mechanism:
        parts = [self._part(question, one, factor) for question, one in self.chosen]
        return self.way.made(self.goal, parts)

    @staticmethod
    def _part(question: Shared, chosen: Candidate, factor: float) -> Mechanism:
        """The chosen mechanism with another part of the budget."""
        assert chosen.mechanism is not None, "only such are chosen"
        if factor == 1.0:
            return chosen.mechanism
        again = Look(chosen.look.name, chosen.look.kind, question.at(factor)).run()
        drawn = chosen.mechanism.crowd.by_shuffler
        best = best_of(again, lambda made: made.crowd.by_shuffler == drawn)
        if best is None or best.mechanism is None:
            raise NotApplicable(WHO, f"{chosen.look.name} cannot answer {question.question.title!r} with less")
        return best.mechanism

    def _reached(self, made: Mechanism) -> BoundValue:
        goal = self.goal
        curve = goal.least.curve(made, colluding=goal.colluding, effort=goal.effort)
        return goal.target.reached(curve)
