"""Planning: which mechanism, with which settings, meets a privacy target with the least error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from shuffledp import argument
from shuffledp.bounds.best import QUICK, demand_effort
from shuffledp.bounds.schedule import Schedule
from shuffledp.calibration.target import Target
from shuffledp.planner.goal import LOCAL, Goal, Limits
from shuffledp.planner.pair_promise import promised
from shuffledp.planner.ranking import Ranking, looked_at_again, run, trials, workers_for
from shuffledp.planner.survey_plan import survey_ranking
from shuffledp.privacy.space import DistanceMatrix
from shuffledp.progress import Progress
from shuffledp.tasks.task import Task


def plan(
    task: Task,
    users: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    rounds: float = 1,
    of: float | None = None,
    rate: Any = None,
    max_bits: float | None = None,
    max_messages: float | None = None,
    local_epsilon_at_most: float | None = None,
    mechanism: str | None = None,
    population: str = "everyone",
    rests_on: str = LOCAL,
    minimum: float | None = None,
    colluding: float = 0,
    settings: Mapping[str, Any] | None = None,
    target_distances: DistanceMatrix | ArrayLike | None = None,
    effort: str = QUICK,
    workers: int | None = 1,
    progress: Progress | None = None,
) -> Ranking:
    """Every mechanism that can do a task, calibrated to a privacy target and ranked by its error.

    ``task`` says what is estimated, such as ``tasks.Frequency(["red", "green"])``; ``users`` how many take part;
    ``epsilon`` and ``delta`` the central privacy that they are promised, over all ``rounds``. In each round the same
    users answer, or as many as are secretly drawn: ``of`` and ``rate`` say how, as in ``Schedule``. ``max_bits`` and
    ``max_messages`` limit what a user sends; ``local_epsilon_at_most`` is a local ε that every
    message must keep even without the shuffler. ``mechanism`` plans with the one of this name only; ``population`` is
    what the ledger calls the users. ``rests_on`` says which winner is ``ranking.best``: "local", the best that keeps a
    local ε even from the shuffler; "shuffler", the best that rests on the shuffler alone, whose messages tell the true
    value to whoever links them to their sender; or "shuffler-noise", where the shuffler also draws the noise. The
    target is met even if only ``minimum`` users take part, of whom ``colluding`` hide nobody, while errors are for all
    ``users``. Mechanisms are compared by bounds that take milliseconds; with ``effort`` "full" the best ones that keep
    a local ε are then calibrated by all bounds, which leaves room for less noise. ``workers`` processes share the work;
    None takes as many as are worth starting, which a script may do only below ``if __name__ == "__main__"``.
    ``progress`` is told how far it is.

    A mechanism that is a table, such as "padded-exponential" on a local metric, is taken as it is: ``settings`` are its
    own, and nothing is searched. With it ``target_distances`` may promise every two values an ε of their own, one row
    for each value, as in the target of a solved metric; each pair is proved.

    ``ranking.best.plan`` is ready for ``simulate`` and ``collect``, and ``ranking.best.plan.save(path)`` writes it.

    >>> from shuffledp.tasks.frequency import Frequency
    >>> ranking = plan(Frequency(["red", "green"]), users=1e5, epsilon=1, delta=1e-6, mechanism="krr")
    >>> ranking.best.plan.mechanism.name
    'krr'
    """
    if not isinstance(task, Task):
        raise TypeError(f"plan: task must be a task, such as tasks.Frequency(10), got {task!r}.")
    limits = Limits(max_bits, max_messages, local_epsilon_at_most)  # type: ignore[arg-type]
    with argument.said_by("plan", "Target", "Schedule"):
        target = Target(epsilon, delta)  # type: ignore[arg-type]
        schedule = Schedule(users, of, rate, rounds)  # type: ignore[arg-type]
    pairs = promised(target_distances)
    demand_effort("plan", effort)
    goal = Goal(
        task, schedule.expected, target, schedule.rounds, limits, population, rests_on, minimum,  # type: ignore[arg-type]
        colluding, pairs, **schedule.drawn(),  # type: ignore[arg-type]
    )  # fmt: skip
    told = Progress() if progress is None else progress
    if task.questions:
        return survey_ranking(replace(goal, effort=effort), mechanism, settings, workers, told)
    goal = goal.settled()
    waiting = trials(goal, mechanism, settings)
    with told.step("calibrating", len(waiting)) as advance:
        outcomes = list(run(waiting, workers_for(waiting) if workers is None else workers, advance))
    ranking = Ranking.of(goal, outcomes)
    return ranking if effort == QUICK else looked_at_again(ranking, waiting, told)
