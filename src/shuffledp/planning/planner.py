"""``plan``: calibrates every mechanism of a task to a target, and ranks those that meet it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from shuffledp._core import validation
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.bounds.participation import Participation
from shuffledp.bounds.registry import QUICK_EFFORT, check_effort
from shuffledp.calibration.targets import Target
from shuffledp.planning._survey_strategies import rank_survey
from shuffledp.planning.goal import LOCAL, Goal, Limits
from shuffledp.planning.plan import parse_target_distances
from shuffledp.planning.ranking import Ranking, build_trials, choose_worker_count, recalibrate_best, run_jobs
from shuffledp.privacy.metric_space import DistanceMatrix
from shuffledp.tasks.base import Task


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
    effort: str = QUICK_EFFORT,
    workers: int | None = 1,
    progress: Progress | None = None,
) -> Ranking:
    """Calibrates every mechanism that is able to do a task to a privacy target, and ranks them by error.

    ``ranking.best.plan`` is ready for ``simulate`` and ``collect``, and ``ranking.best.plan.save(path)`` writes it.

    Args:
        task: Task to estimate, such as ``tasks.Frequency(["red", "green"])``.
        users: Number of users in each round.
        epsilon: Target of the central ε over all rounds.
        delta: Target of δ over all rounds.
        rounds: Number of rounds, with the same users or a new secret sample in each.
        of: Number of people from whom the users of a round are drawn, as in ``Participation``; None if they are always
            the same.
        rate: Probability that each of these people takes part, as in ``Participation``; None for a fixed number of
            users.
        max_bits: Largest number of bits that a user may send; None for no limit.
        max_messages: Largest number of messages that a user may send; None for no limit.
        local_epsilon_at_most: Local ε that every message must guarantee even without the shuffler; None for no limit.
        mechanism: Name of the only mechanism to plan with; None for all.
        population: Name of the users in the ledger.
        rests_on: Trust assumption of ``ranking.best``: "local" for the best mechanism with a local ε even against the
            shuffler; "shuffler" for the best that rests on the shuffler alone, whose messages reveal the true value to
            anyone who links them to their sender; "shuffler-noise" if the shuffler also draws the noise.
        minimum: Smallest number of users with whom the target must be met; errors are still stated for ``users``. None
            for all of them.
        colluding: Number of those users who collude with the analyst and hide nobody.
        settings: Settings of a mechanism that is a table, such as "padded-exponential" on a local metric; it is used
            without a search.
        target_distances: Target ε of every two values, one row for each value, as in the target of a solved metric;
            only with such a table. Every pair is proved.
        effort: "quick" to compare mechanisms by bounds that take milliseconds; "full" to calibrate the best ones with a
            local ε again by all bounds, so that less noise suffices.
        workers: Number of processes that share the work. None starts as many as are useful, which a script may do only
            below ``if __name__ == "__main__"``.
        progress: Receiver of progress reports.

    Returns:
        The ranking, with the plan of every mechanism that meets the target.

    Raises:
        ValueError: If an argument is out of range, the mechanism cannot do the task, or none meets the target within
            the limits.
        TypeError: If ``task`` is not a task or an argument is of the wrong type.

    >>> from shuffledp.tasks.counts_and_frequencies import Frequency
    >>> ranking = plan(Frequency(["red", "green"]), users=1e5, epsilon=1, delta=1e-6, mechanism="krr")
    >>> ranking.best.plan.mechanism.name
    'krr'
    """
    if not isinstance(task, Task):
        raise TypeError(f"plan: task must be a task, such as tasks.Frequency(10), got {task!r}.")
    limits = Limits(max_bits, max_messages, local_epsilon_at_most)  # type: ignore[arg-type]
    with validation.relabel_errors("plan", "Target", "Participation"):
        target = Target(epsilon, delta)  # type: ignore[arg-type]
        participation = Participation(users, of, rate, rounds)  # type: ignore[arg-type]
    pairs = parse_target_distances(target_distances)
    check_effort("plan", effort)
    goal = Goal(
        task, participation.expected_users, target, participation.rounds, limits, population, rests_on, minimum,  # type: ignore[arg-type]
        colluding, pairs, **participation.sampling_document(),  # type: ignore[arg-type]
    )  # fmt: skip
    progress = Progress() if progress is None else progress
    if task.questions:
        return rank_survey(replace(goal, effort=effort), mechanism, settings, workers, progress)
    goal = goal.with_task_settings()
    trials = build_trials(goal, mechanism, settings)
    with progress.step("calibrating", len(trials)) as advance:
        outcomes = list(run_jobs(trials, choose_worker_count(trials) if workers is None else workers, advance))
    ranking = Ranking.from_outcomes(goal, outcomes)
    return ranking if effort == QUICK_EFFORT else recalibrate_best(ranking, trials, progress)
