"""All mechanisms of a task side by side: those that meet the goal by their error, and why the others do not."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from shuffledp import argument
from shuffledp.bounds.best import FULL
from shuffledp.bounds.schedule import CONDITION
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.planner import overview
from shuffledp.planner.goal import LOCAL, NOISE, SHUFFLER, Goal
from shuffledp.planner.trial import NEAR_BEST, Offer, Refusal, Trial
from shuffledp.planner.turnout import Turnout, known_epsilon, turnouts
from shuffledp.progress import Progress
from shuffledp.readable import html_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = TypeVar("Result", covariant=True)
MOST_AGAIN, IN_REACH = 3, 1.25
"""How many are calibrated by all bounds, and up to which error: these may change places."""
TRIALS_OF_A_WORKER = 8
"""Starting a process takes as long as a trial or two."""
THREADS = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What libraries of linear algebra ask how many threads they may start."""


def trials(goal: Goal, only: str | None = None, settings: Mapping[str, Any] | None = None) -> list[Trial]:
    """What is to be calibrated, one mechanism each; ``only`` the one of this name, a table with its ``settings``."""
    kind = None if only is None else catalogue.find(only)
    if kind is not None and kind.built_from_table:
        return [_as_given(goal, kind, settings or {})]
    if settings:
        raise ValueError("plan: settings are searched, unless the mechanism is a table, such as padded-exponential.")
    if goal.target_distances is not None:
        raise ValueError("plan: target distances need a mechanism on distances, such as padded-exponential.")
    chosen = list(goal.kinds()) if only is None else goal.kinds_named(only)
    if not chosen:
        raise _other_mechanism(goal, str(only))
    return [Trial(name, kind, goal) for name, kind in chosen]


def _other_mechanism(goal: Goal, only: str) -> ValueError:
    """The sentence for a mechanism that nobody knows, or that does something else."""
    names, kind = [name for name, _ in goal.kinds()], catalogue.find(only)
    near = catalogue.near_name(only, names) if kind is None else None
    meant = f", which is for {kind.task}" if kind is not None else f"; did you mean {near!r}?" if near else ""
    told = f"plan: mechanism must be one of {', '.join(names)} for the task {goal.task.name!r}, got {only!r}{meant}"
    return ValueError(told if told.endswith("?") else f"{told}.")


def _as_given(goal: Goal, kind: type[Mechanism], settings: Mapping[str, Any]) -> Trial:
    """A mechanism that is a table; a sentence where it is a bad one, or cannot keep what is promised."""
    with argument.said_by("plan", "DistanceMatrix", kind.__name__, kind.name):
        made = catalogue.build(kind.name, None, settings)
    goal.task.demand(made)
    goal.promise_of(made)
    return Trial(kind.name, kind, goal, made)


class Work(Protocol[Result]):
    """What can be done here or in another process."""

    def run(self) -> Sequence[Result]: ...


def run(
    waiting: Sequence[Work[Result]], workers: int = 1, advance: Callable[[int], None] | None = None
) -> Iterator[Result]:
    """The outcomes, as they come; with several workers, in processes of their own.

    A mechanism whose class another process could not find again is tried in this one. ``advance`` is called with 1
    when a work is done, however many outcomes it has.
    """
    told = advance or (lambda done: None)
    away = [one for one in waiting if workers > 1 and _travels(one)]
    for one in waiting:
        if one not in away:
            yield from one.run()
            told(1)
    if not away:
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Processes are started afresh: a copy of this one could be caught holding a lock.
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        with _a_thread_each():
            sent = [pool.submit(one.run) for one in away]
        for done in as_completed(sent):
            yield from done.result()
            told(1)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _a_thread_each() -> Iterator[None]:
    """Processes that are started here compute by one thread: there are as many of them as processors."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _travels(one: object) -> bool:
    """Whether it can be sent: one that cannot would be lost on the way, and waited for without end."""
    try:
        pickle.dumps(one)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def workers_for(waiting: Sequence[Any]) -> int:
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
    """The outcome of all trials; ``print`` it to read it, ``best.plan`` is the plan.

    ``goal``: what was asked for. ``offers``: mechanisms that meet it, each with its plan. ``refusals``: those that do
    not. There are two winners: ``best_local`` keeps a local ε even from the shuffler, ``best_by_shuffler`` rests on the
    shuffler alone. ``best`` is the first, or the second where the goal asks for it.

    >>> import shuffledp as sdp
    >>> ranking = sdp.plan(sdp.tasks.Frequency(4), users=1000, epsilon=1, delta=1e-6, mechanism="krr")
    >>> ranking.best.plan.mechanism.name, ranking.best == ranking.best_local, ranking.best_by_shuffler
    ('krr', True, None)
    >>> f"{ranking.best.standard_error:.1f}", ranking.refusals
    ('7.7', ())
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
        """The winner that was asked for; a sentence (``ValueError``) where there is none of its kind."""
        if self.chosen is None:
            raise ValueError(f"plan: {overview.missing(self.offers[0])}")
        return self.chosen

    @property
    def chosen(self) -> Offer | None:
        """The same, and None where there is none."""
        return {LOCAL: self.best_local, SHUFFLER: self.best_by_shuffler, NOISE: self.best_by_noise}[self.goal.rests_on]

    @property
    def best_local(self) -> Offer | None:
        """The least error among those that keep a local ε even from the shuffler."""
        return next((offer for offer in self.offers if offer.keeps_local), None)

    @property
    def best_by_shuffler(self) -> Offer | None:
        """Among those that rest on the shuffler alone, with noise that users draw.

        Of nearly the least error it is the one with the fewest bits.
        """
        able = [offer for offer in self.offers if not (offer.keeps_local or offer.by_noise)]
        near = [offer for offer in able if offer.standard_error <= NEAR_BEST * able[0].standard_error]
        return min(near, key=lambda offer: (offer.bits, offer.standard_error), default=None)

    @property
    def best_by_noise(self) -> Offer | None:
        """The least error among those whose noise the shuffler itself draws."""
        return next((offer for offer in self.offers if offer.by_noise), None)

    @property
    def winners(self) -> tuple[Offer, ...]:
        """The best that keeps a local ε, the best by the shuffler alone, and what was asked for, if it is neither."""
        found = dict.fromkeys((self.best_local, self.best_by_shuffler, self.chosen))
        return tuple(offer for offer in found if offer is not None)

    @cached_property
    def fewer(self) -> dict[str, tuple[Turnout, ...]]:
        """What the winners promise, by their names, if only half or a tenth of the users take part."""
        return {offer.name: turnouts(offer.plan) for offer in self.winners}

    @cached_property
    def known(self) -> dict[str, float]:
        """ε of all rounds that the winners promise, by their names, if everybody learns who was drawn."""
        if not self.goal.schedule.is_sampled:
            return {}
        return {offer.name: known_epsilon(offer.plan) for offer in self.winners}

    def reasons(self) -> dict[str, list[str]]:
        """Why mechanisms were refused, each reason with the names of all that it holds for."""
        result: dict[str, list[str]] = {}
        for refusal in self.refusals:
            result.setdefault(refusal.reason, []).append(refusal.name)
        return result

    def left_out(self) -> list[str]:
        """A line for each reason, with those that it holds for."""
        return [f"{', '.join(names)}: {reason}" for reason, names in self.reasons().items()]

    def rows(self) -> list[list[str]]:
        """A row for each offer, under ``overview.HEAD``; the winners are marked."""
        return [overview.cells(offer, offer in self.winners) for offer in self.offers]

    def notes(self) -> list[str]:
        """What stands below the table, a paragraph each."""
        return overview.notes(
            self.offers, self.best_local, self.best_by_shuffler, self.best_by_noise, self.fewer, self.known
        )

    def __str__(self) -> str:
        lines = [overview.title(self.goal), *overview.aligned(self.rows()), ""]
        lines += overview.wrapped(self.notes())
        if self.refusals:
            lines += ["", "Left out:", *overview.wrapped(self.left_out(), indent="  ")]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_of(overview.title(self.goal), self.rows(), " ".join(self.notes()), overview.HEAD)

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
            "minimum": goal.fewest,
            "colluding": goal.colluding,
            "epsilon": goal.target.epsilon,
            "delta": goal.target.delta,
            **goal.schedule.document(),
            **({"condition": CONDITION, "if_known": self.known} if goal.schedule.is_sampled else {}),
            "domain": goal.task.domain.document(),
            "error": {"unit": goal.task.unit, "data": goal.task.data},
            "central": {"standard_error": goal.yardstick.standard_error, "noise": goal.yardstick.noise},
            "rests_on": goal.rests_on,
            "best": None if self.chosen is None else self.chosen.name,
            "best_local": None if self.best_local is None else self.best_local.name,
            "best_by_shuffler": None if self.best_by_shuffler is None else self.best_by_shuffler.name,
            "best_by_noise": None if self.best_by_noise is None else self.best_by_noise.name,
            "fewer_users": {name: [each.document() for each in found] for name, found in self.fewer.items()},
            "mechanisms": [_document(offer, goal.users) for offer in self.offers],
            "caveat": goal.task.caveat([offer.mechanism for offer in self.offers]),
            "refused": [{"name": refusal.name, "reason": refusal.reason} for refusal in self.refusals],
        }


def looked_at_again(ranking: Ranking, waiting: Sequence[Trial], progress: Progress) -> Ranking:
    """The same ranking, where the best that keep a local ε are calibrated by all bounds, however long these take."""
    goal = replace(ranking.goal, effort=FULL)
    local = [offer for offer in ranking.offers if offer.keeps_local]
    names = [offer.name for offer in local[:MOST_AGAIN] if offer.standard_error <= IN_REACH * local[0].standard_error]
    found: list[Offer | Refusal] = [offer for offer in ranking.offers if offer.name not in names]
    again = [replace(trial, goal=goal) for trial in waiting if trial.name in names]
    with progress.step("looking at every crowd", len(again)) as advance:
        for trial in again:
            found += trial.run()
            advance(1)
    kept = {offer.name for offer in found}
    # What takes long may fail where the quick bounds did not.
    found += [offer for offer in local if offer.name not in kept]
    return Ranking.of(goal, [*found, *ranking.refusals])


def _order(offer: Offer) -> tuple[float, int, int, str]:
    """Errors that differ in the fifth digit are the same: searches end where they are near enough."""
    return float(f"{offer.standard_error:.4g}"), offer.bits, len(offer.mechanism.settings()), offer.name


def _document(offer: Offer, users: int) -> dict[str, Any]:
    proof = offer.proof
    return {
        "name": offer.name,
        "settings": offer.mechanism.settings() if not offer.answers else offer.mechanism.document()["settings"],
        **({"questions": [dict(vars(one)) for one in offer.answers]} if offer.answers else {}),
        "standard_error": offer.standard_error,
        "times_curator": offer.times_curator,
        "epsilon_local": offer.mechanism.local_epsilon,
        "bits_per_user": offer.bits,
        "sealed_bits_per_user": offer.sealed_bits,
        "messages_per_user": offer.messages,
        "influence": offer.influence,
        "client_seconds_per_user": offer.cost.client,
        "server_seconds": offer.cost.server(users),
        "epsilon": {"upper": proof.upper, "slack": proof.slack},
        "bound": proof.bound,
        "theorem": proof.theorem,
        "certified": proof.certified,
        "guarantee": proof.guarantee,
        "limit": offer.limit,
        "rests_on": offer.rests_on,
        "assumption": offer.assumption,
    }
