"""All mechanisms of a task side by side: those that meet the goal by their error, and why the others do not."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.planner import overview
from shuffledp.planner.goal import Goal
from shuffledp.planner.trial import Offer, Refusal, Trial
from shuffledp.readable import html_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIALS_OF_A_WORKER = 8
"""Starting a process takes as long as a trial or two."""


def trials(goal: Goal, only: str | None = None) -> list[Trial]:
    """What is to be calibrated, one mechanism each; ``only`` the one of this name."""
    every = [Trial(name, kind, goal) for name, kind in goal.kinds()]
    chosen = [trial for trial in every if only in (None, trial.name)]
    if not chosen:
        names = ", ".join(trial.name for trial in every)
        raise ValueError(f"plan: mechanism must be one of {names} for the task {goal.task.name!r}, got {only!r}.")
    return chosen


def run(waiting: Sequence[Trial], workers: int = 1) -> Iterator[Offer | Refusal]:
    """The outcomes, as they come; with several workers, in processes of their own.

    A mechanism whose class another process could not find again is tried in this one.
    """
    away = [trial for trial in waiting if workers > 1 and _travels(trial)]
    yield from (trial.run() for trial in waiting if trial not in away)
    if not away:
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Processes are started afresh: a copy of this one could be caught holding a lock.
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        for done in as_completed([pool.submit(trial.run) for trial in away]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _travels(trial: Trial) -> bool:
    """Whether it can be sent: one that cannot would be lost on the way, and waited for without end."""
    try:
        pickle.dumps(trial)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def workers_for(waiting: Sequence[Trial]) -> int:
    """As many processes as there are processors, where there is enough to do for them to be worth starting."""
    return max(
        1,
        min(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            len(waiting) // TRIALS_OF_A_WORKER,
        ),
    )


@dataclass(frozen=True)
class Ranking:
    """The outcome of all trials; ``print`` it to read it, ``best.plan`` is the plan with the smallest error.

    ``goal``: what was asked for. ``offers``: mechanisms that meet it, each with its plan. ``refusals``: those that do
    not.

    >>> import shuffledp as sdp
    >>> ranking = sdp.plan(sdp.tasks.Frequency(4), users=1000, epsilon=1, delta=1e-6, mechanism="balcer-uniform")
    >>> ranking.best.plan.mechanism
    BalcerUniform(options=4, coins=1)
    >>> f"{ranking.best.standard_error:.1f}", ranking.refusals
    ('15.8', ())
    """

    goal: Goal
    offers: tuple[Offer, ...]
    """The smallest error first; of equal ones the fewest bits, then the fewest settings."""
    refusals: tuple[Refusal, ...]

    @classmethod
    def of(cls, goal: Goal, outcomes: Iterable[Offer | Refusal]) -> Ranking:
        """Sort the outcomes; a sentence where no mechanism meets the goal."""
        found = list(outcomes)
        offers = [each for each in found if isinstance(each, Offer)]
        refusals = [each for each in found if isinstance(each, Refusal)]
        if not offers:
            why = refusals[0].reason if len(refusals) == 1 else f"for instance {refusals[0].name}: {refusals[0].reason}"
            raise ValueError(f"plan: no mechanism meets the target within the limits; {why}")
        offers.sort(key=_order)
        return cls(goal, tuple(offers), tuple(refusals))

    @property
    def best(self) -> Offer:
        return self.offers[0]

    def reasons(self) -> dict[str, list[str]]:
        """Why mechanisms were refused, each reason with the names of all that it holds for."""
        result: dict[str, list[str]] = {}
        for refusal in self.refusals:
            result.setdefault(refusal.reason, []).append(refusal.name)
        return result

    def left_out(self) -> list[str]:
        """A line for each reason, with those that it holds for."""
        return [f"{', '.join(names)}: {reason}" for reason, names in self.reasons().items()]

    def __str__(self) -> str:
        lines = [overview.title(self.goal), *overview.aligned([overview.cells(offer) for offer in self.offers])]
        lines += ["", *overview.notes(self.best)]
        if self.refusals:
            lines += ["", "Left out:", *(f"  {line}" for line in self.left_out())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [overview.cells(offer) for offer in self.offers]
        return html_of(overview.title(self.goal), rows, " ".join(overview.notes(self.best)), overview.HEAD)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Error against bits, a point for each mechanism; also to a file where ``path`` names one."""
        from shuffledp.planner import ranking_figure

        return ranking_figure.draw(self, None if path is None else Path(path))

    def document(self) -> dict[str, Any]:
        """For JSON."""
        goal = self.goal
        return {
            "task": goal.task.name,
            "users": goal.users,
            "epsilon": goal.target.epsilon,
            "delta": goal.target.delta,
            "rounds": goal.rounds,
            "domain": goal.task.domain.document(),
            "error": {"unit": goal.task.unit, "data": goal.task.data},
            "central": {"standard_error": goal.yardstick.standard_error, "noise": goal.yardstick.noise},
            "best": self.best.name,
            "mechanisms": [_document(offer, goal.users) for offer in self.offers],
            "refused": [{"name": refusal.name, "reason": refusal.reason} for refusal in self.refusals],
        }


def _order(offer: Offer) -> tuple[float, int, int, str]:
    """Errors that differ in the fifth digit are the same: searches end where they are near enough."""
    return float(f"{offer.standard_error:.4g}"), offer.bits, len(offer.mechanism.settings()), offer.name


def _document(offer: Offer, users: int) -> dict[str, Any]:
    proof = offer.proof
    return {
        "name": offer.name,
        "settings": offer.mechanism.settings(),
        "standard_error": offer.standard_error,
        "epsilon_local": offer.mechanism.local_epsilon,
        "bits_per_user": offer.bits,
        "messages_per_user": offer.messages,
        "client_seconds_per_user": offer.cost.client,
        "server_seconds": offer.cost.server(users),
        "epsilon": {"upper": proof.upper, "slack": proof.slack},
        "bound": proof.bound,
        "theorem": proof.theorem,
        "certified": proof.certified,
        "guarantee": proof.guarantee,
        "limit": offer.limit,
        "assumption": offer.assumption,
    }
