"""Ranking of the mechanisms for a task: those that meet the goal, by their error, and why the others do not."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from shuffledp._core import plotting, validation
from shuffledp._core.formatting import format_exact, format_html_table
from shuffledp._core.progress import Progress
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION
from shuffledp.bounds.registry import FULL_EFFORT
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.planning import ranking_text
from shuffledp.planning.goal import LOCAL, NOISE, SHUFFLER, Goal
from shuffledp.planning.mechanism_calibration import (
    LOCAL_EPSILON,
    NEAR_BEST_RATIO,
    ONLY_SHUFFLER,
    ONLY_SHUFFLER_NOISE,
    PSEUDORANDOM_SEEDS,
    Candidate,
    Rejection,
    Trial,
)
from shuffledp.planning.ranking_text import TurnoutGuarantee, known_sample_epsilon, reduced_turnout_guarantees

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    from shuffledp.mechanisms.base.mechanism import Mechanism


Result = TypeVar("Result", covariant=True)
MAX_RECALIBRATED, MAX_RECALIBRATED_ERROR_RATIO = 3, 1.25
"""Largest number of mechanisms that all bounds calibrate again, and the largest multiple of the smallest error."""
MIN_TRIALS_PER_WORKER = 8
"""Starting a process takes as long as one or two trials."""
THREAD_VARIABLES = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that limit the threads of linear algebra libraries."""


def build_trials(goal: Goal, only: str | None = None, settings: Mapping[str, Any] | None = None) -> list[Trial]:
    """Returns the trials of all mechanisms, or of ``only`` one; a table is taken with its ``settings``."""
    kind = None if only is None else catalogue.find(only)
    if kind is not None and kind.table_setting:
        return [_build_table_trial(goal, kind, settings or {})]
    if settings:
        raise ValueError("plan: settings are searched, unless the mechanism is a table, such as padded-exponential.")
    if goal.target_distances is not None:
        raise ValueError("plan: target distances need a mechanism on distances, such as padded-exponential.")
    chosen = list(goal.usable_mechanisms()) if only is None else goal.find_mechanisms(only)
    if not chosen:
        raise _mechanism_error(goal, str(only))
    return [Trial(name, kind, goal) for name, kind in chosen]


def _mechanism_error(goal: Goal, only: str) -> ValueError:
    """Returns the error for a mechanism that is unknown or does another task."""
    names, kind = [name for name, _ in goal.usable_mechanisms()], catalogue.find(only)
    near = catalogue.find_closest_name(only, names) if kind is None else None
    meant = f", which is for {kind.task}" if kind is not None else f"; did you mean {near!r}?" if near else ""
    told = f"plan: mechanism must be one of {', '.join(names)} for the task {goal.task.name!r}, got {only!r}{meant}"
    return ValueError(told if told.endswith("?") else f"{told}.")


def _build_table_trial(goal: Goal, kind: type[Mechanism], settings: Mapping[str, Any]) -> Trial:
    """Returns the trial of a mechanism given as a table; raises ValueError if it is invalid or misses the targets."""
    with validation.relabel_errors("plan", "DistanceMatrix", kind.__name__, kind.name):
        made = catalogue.build(kind.name, None, settings)
    goal.task.check_mechanism(made)
    goal.build_pair_targets(made)
    return Trial(kind.name, kind, goal, made)


class Work(Protocol[Result]):
    """A piece of work that can run here or in another process."""

    def run(self) -> Sequence[Result]: ...


def run_jobs(
    waiting: Sequence[Work[Result]], workers: int = 1, advance: Callable[[int], None] | None = None
) -> Iterator[Result]:
    """Yields the outcomes as they come; with several workers, from other processes.

    A mechanism whose class another process cannot import is tried in this one. ``advance`` is called with 1 when a
    piece of work is done, however many outcomes it has.
    """
    told = advance or (lambda done: None)
    away = [one for one in waiting if workers > 1 and _is_picklable(one)]
    for one in waiting:
        if one not in away:
            yield from one.run()
            told(1)
    if not away:
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Spawned, not forked: a copy of this process could hold a lock.
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        with _limit_threads():
            sent = [pool.submit(one.run) for one in away]
        for done in as_completed(sent):
            yield from done.result()
            told(1)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _limit_threads() -> Iterator[None]:
    """Limits processes that are started here to one thread: there is one process for each processor."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _is_picklable(one: object) -> bool:
    """Returns True if an object can be pickled: otherwise it would be lost, and waited for without end."""
    try:
        pickle.dumps(one)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def choose_worker_count(waiting: Sequence[Any]) -> int:
    """Returns the number of processors, or fewer if there is too little work for so many processes."""
    return max(
        1,
        min(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            len(waiting) // MIN_TRIALS_PER_WORKER,
        ),
    )


@dataclass(frozen=True)
class Ranking:
    """The outcome of all trials; ``print`` it to read it, ``best.plan`` is the plan.

    There are two winners: ``best_local`` guarantees a local ε even against the shuffler, ``best_by_shuffler`` rests on
    the shuffler alone. ``best`` is the first, unless the goal asks for another.

    Args:
        goal: Task, users and privacy target.
        candidates: Mechanisms that meet the goal, each with its plan: the smallest error first; of equal errors the
            fewest bits, then the fewest settings.
        rejections: Mechanisms that do not meet the goal, with the reasons.

    >>> import shuffledp as sdp
    >>> ranking = sdp.plan(sdp.tasks.Frequency(4), users=1000, epsilon=1, delta=1e-6, mechanism="krr")
    >>> ranking.best.plan.mechanism.name, ranking.best == ranking.best_local, ranking.best_by_shuffler
    ('krr', True, None)
    >>> f"{ranking.best.standard_error:.1f}", ranking.rejections
    ('7.7', ())
    """

    goal: Goal
    candidates: tuple[Candidate, ...]
    rejections: tuple[Rejection, ...]

    @classmethod
    def from_outcomes(cls, goal: Goal, outcomes: Iterable[Candidate | Rejection]) -> Ranking:
        """Sorts the outcomes of trials.

        Args:
            goal: Goal of the trials.
            outcomes: Offers and refusals, in any order.

        Returns:
            The ranking.

        Raises:
            ValueError: If no mechanism meets the goal.
        """
        found = list(outcomes)
        offers = [each for each in found if isinstance(each, Candidate)]
        refusals = [each for each in found if isinstance(each, Rejection)]
        if not offers:
            why = refusals[0].reason if len(refusals) == 1 else f"for instance {refusals[0].name}: {refusals[0].reason}"
            raise ValueError(f"plan: no mechanism meets the target within the limits; {why}")
        offers.sort(key=_sort_key)
        return cls(goal, tuple(offers), tuple(refusals))

    @property
    def best(self) -> Candidate:
        """The winner of the kind that the goal asks for; raises ValueError if there is none."""
        if self.selected_candidate is None:
            raise ValueError(f"plan: {ranking_text.explain_missing_plan(self.candidates[0])}")
        return self.selected_candidate

    @property
    def selected_candidate(self) -> Candidate | None:
        """The winner of the kind that the goal asks for; None if there is none."""
        return {LOCAL: self.best_local, SHUFFLER: self.best_by_shuffler, NOISE: self.best_by_noise}[self.goal.rests_on]

    @property
    def best_local(self) -> Candidate | None:
        """The offer with the smallest error among those with a local ε even against the shuffler."""
        return next((offer for offer in self.candidates if offer.has_local_epsilon), None)

    @property
    def best_by_shuffler(self) -> Candidate | None:
        """The best offer among those that rest on the shuffler alone, with noise that users draw.

        Of offers within 5% of the smallest error, it is the one with the fewest bits.
        """
        able = [offer for offer in self.candidates if not (offer.has_local_epsilon or offer.has_shuffler_noise)]
        near = [offer for offer in able if offer.standard_error <= NEAR_BEST_RATIO * able[0].standard_error]
        return min(near, key=lambda offer: (offer.bits, offer.standard_error), default=None)

    @property
    def best_by_noise(self) -> Candidate | None:
        """The offer with the smallest error among those whose noise the shuffler draws."""
        return next((offer for offer in self.candidates if offer.has_shuffler_noise), None)

    @property
    def winners(self) -> tuple[Candidate, ...]:
        """The best with a local ε, the best by the shuffler alone, and the one that the goal asks for."""
        found = dict.fromkeys((self.best_local, self.best_by_shuffler, self.selected_candidate))
        return tuple(offer for offer in found if offer is not None)

    @cached_property
    def reduced_turnout_guarantees(self) -> dict[str, tuple[TurnoutGuarantee, ...]]:
        """The guarantees of the winners, by their names, if only half or a tenth of the users take part."""
        return {offer.name: reduced_turnout_guarantees(offer.plan) for offer in self.winners}

    @cached_property
    def known_sample_epsilons(self) -> dict[str, float]:
        """The ε of all rounds of the winners, by their names, if everybody learns who was drawn."""
        if not self.goal.schedule.is_sampled:
            return {}
        return {offer.name: known_sample_epsilon(offer.plan) for offer in self.winners}

    def reasons(self) -> dict[str, list[str]]:
        """Returns the reasons of refusals, each with the names of the mechanisms."""
        result: dict[str, list[str]] = {}
        for refusal in self.rejections:
            result.setdefault(refusal.reason, []).append(refusal.name)
        return result

    def format_rejections(self) -> list[str]:
        """Returns one line for each reason of refusal, with the names of the mechanisms."""
        return [f"{', '.join(names)}: {reason}" for reason, names in self.reasons().items()]

    def rows(self) -> list[list[str]]:
        """Returns one row for each offer, under ``ranking_text.HEADINGS``; winners are marked."""
        return [ranking_text.format_row(offer, offer in self.winners) for offer in self.candidates]

    def notes(self) -> list[str]:
        """Returns the paragraphs below the table."""
        return ranking_text.format_notes(
            self.candidates,
            self.best_local,
            self.best_by_shuffler,
            self.best_by_noise,
            self.reduced_turnout_guarantees,
            self.known_sample_epsilons,
        )

    def __str__(self) -> str:
        lines = [ranking_text.format_title(self.goal), *ranking_text.align_table(self.rows()), ""]
        lines += ranking_text.wrap_paragraphs(self.notes())
        if self.rejections:
            lines += ["", "Left out:", *ranking_text.wrap_paragraphs(self.format_rejections(), indent="  ")]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return format_html_table(
            ranking_text.format_title(self.goal), self.rows(), " ".join(self.notes()), ranking_text.HEADINGS
        )

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plots error against bits, one point for each mechanism.

        Args:
            path: File to write the figure to; None writes none.

        Returns:
            The figure.

        Raises:
            ValueError: If the file cannot be written.
        """
        return draw_ranking(self, None if path is None else Path(path))

    def document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        goal = self.goal
        return {
            "task": goal.task.name,
            "users": goal.users,
            "minimum": goal.fewest,
            "colluding": goal.colluding,
            "epsilon": goal.target.epsilon,
            "delta": goal.target.delta,
            **goal.schedule.to_document(),
            **(
                {"condition": SAMPLING_SECRECY_CONDITION, "if_known": self.known_sample_epsilons}
                if goal.schedule.is_sampled
                else {}
            ),
            "domain": goal.task.domain.to_document(),
            "error": {"unit": goal.task.unit, "data": goal.task.data_description},
            "central": {"standard_error": goal.central_baseline.standard_error, "noise": goal.central_baseline.noise},
            "rests_on": goal.rests_on,
            "best": None if self.selected_candidate is None else self.selected_candidate.name,
            "best_local": None if self.best_local is None else self.best_local.name,
            "best_by_shuffler": None if self.best_by_shuffler is None else self.best_by_shuffler.name,
            "best_by_noise": None if self.best_by_noise is None else self.best_by_noise.name,
            "fewer_users": {
                name: [each.document() for each in found] for name, found in self.reduced_turnout_guarantees.items()
            },
            "mechanisms": [_document(offer, goal.users) for offer in self.candidates],
            "caveat": goal.task.ranking_remark([offer.mechanism for offer in self.candidates]),
            "refused": [{"name": refusal.name, "reason": refusal.reason} for refusal in self.rejections],
        }


def recalibrate_best(ranking: Ranking, waiting: Sequence[Trial], progress: Progress) -> Ranking:
    """Calibrates the best mechanisms with a local ε again by all bounds, however long these take."""
    goal = replace(ranking.goal, effort=FULL_EFFORT)
    local = [offer for offer in ranking.candidates if offer.has_local_epsilon]
    names = [
        offer.name
        for offer in local[:MAX_RECALIBRATED]
        if offer.standard_error <= MAX_RECALIBRATED_ERROR_RATIO * local[0].standard_error
    ]
    found: list[Candidate | Rejection] = [offer for offer in ranking.candidates if offer.name not in names]
    again = [replace(trial, goal=goal) for trial in waiting if trial.name in names]
    with progress.step("looking at every crowd", len(again)) as advance:
        for trial in again:
            found += trial.run()
            advance(1)
    kept = {offer.name for offer in found}
    # The full bounds may fail for a mechanism that the quick bounds could certify.
    found += [offer for offer in local if offer.name not in kept]
    return Ranking.from_outcomes(goal, [*found, *ranking.rejections])


def _sort_key(offer: Candidate) -> tuple[float, int, int, str]:
    """Errors are compared by four digits: searches stop when they are close enough."""
    return float(f"{offer.standard_error:.4g}"), offer.bits, len(offer.mechanism.settings()), offer.name


def _document(offer: Candidate, users: int) -> dict[str, Any]:
    proof = offer.proof
    return {
        "name": offer.name,
        "settings": offer.mechanism.settings()
        if not offer.question_errors
        else offer.mechanism.to_document()["settings"],
        **({"questions": [dict(vars(one)) for one in offer.question_errors]} if offer.question_errors else {}),
        "standard_error": offer.standard_error,
        "times_curator": offer.curator_error_ratio,
        "epsilon_local": offer.mechanism.local_epsilon,
        "bits_per_user": offer.bits,
        "sealed_bits_per_user": offer.sealed_bits,
        "messages_per_user": offer.messages,
        "influence": offer.influence,
        "client_seconds_per_user": offer.cost.encoding_seconds,
        "server_seconds": offer.cost.server_seconds(users),
        "epsilon": {"upper": proof.upper, "slack": proof.slack},
        "bound": proof.bound,
        "theorem": proof.theorem,
        "certified": proof.certified,
        "guarantee": proof.guarantee,
        "limit": offer.limit,
        "rests_on": offer.rests_on,
        "assumption": offer.assumption,
    }


# --- Plot of error against bits ---


MARKER_STYLES = {
    LOCAL_EPSILON: ("a message keeps its local ε even from the shuffler", "o", plotting.COLOURS[0]),
    ONLY_SHUFFLER: ("messages rest on the shuffler alone", "D", plotting.COLOURS[1]),
    ONLY_SHUFFLER_NOISE: ("the shuffler draws the noise", "^", plotting.COLOURS[2]),
    PSEUDORANDOM_SEEDS: ("keeps its local ε if seeds are pseudorandom", "s", plotting.COLOURS[3]),
}
MARKER_AREA, MARKER_RADIUS = 36, 5
"""Area and radius of a marker, in points."""
LABEL_OFFSETS = tuple((side * 8, 11 * row) for row in (0, 1, -1, 2, -2, 3, -3, 4, -4) for side in (1, -1))
"""Offsets of a name from its marker, the best first, in points."""


def draw_ranking(ranking: Ranking, path: Path | None) -> Figure:
    """Draws one point for each mechanism and the curator's error as a line; saves the figure if a path is given."""
    goal = ranking.goal
    with plotting.figure_style():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.5, 5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for group, (words, marker, colour) in MARKER_STYLES.items():
            own = [offer for offer in ranking.candidates if offer.rests_on == group]
            if own:
                bits, errors = [offer.bits for offer in own], [offer.standard_error for offer in own]
                axes.scatter(bits, errors, MARKER_AREA, color=colour, marker=marker, label=words, zorder=3)
        central = goal.central_baseline
        axes.axhline(central.standard_error, color="0.3", linestyle="--", linewidth=1)
        words = f"trusted curator, {central.noise} noise"
        place = (0.99, central.standard_error)
        axes.annotate(words, place, xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize="small")
        axes.set(xscale="log", yscale="log", xlabel="bits a user", ylabel=f"standard error ({goal.task.unit})")
        axes.margins(x=0.18, y=0.12)
        target = f"ε = {format_exact(goal.target.epsilon)}, δ = {plotting.format_scientific(goal.target.delta)}"
        rounds = "" if goal.rounds == 1 else f", {goal.rounds:,} rounds"
        axes.set_title(f"{goal.task.name}: {goal.users:,} users, {target}{rounds}", fontsize=10)
        axes.grid(visible=True, which="major")
        figure.legend(loc="outside lower center", ncols=1)
        _place_labels(ranking, axes)
        if path is not None:
            plotting.save_figure("plan", figure, path)
    return figure


def _place_labels(ranking: Ranking, axes: Any) -> None:
    """Places each name at the first offset inside the axes where it covers no marker and no other name."""
    axes.figure.draw_without_rendering()
    frame = axes.get_window_extent()
    taken = [_marker_box(axes, offer.bits, offer.standard_error) for offer in ranking.candidates]
    for own, offer in enumerate(ranking.candidates):
        for across, along in LABEL_OFFSETS:
            text = axes.annotate(
                offer.name,
                (offer.bits, offer.standard_error),
                xytext=(across, along),
                textcoords="offset points",
                ha="left" if across > 0 else "right",
                va="center",
                fontsize="small",
                zorder=2,
                # A name away from its marker is connected by a line.
                arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": "0.5", "shrinkB": 3} if along else None,
            )
            # The extent of the text alone, without its line.
            text.update_positions(axes.figure.canvas.get_renderer())
            box = super(type(text), text).get_window_extent()
            others = [other for place, other in enumerate(taken) if place != own]
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(box.overlaps(other) for other in others):
                taken.append(box)
                break
            text.remove()


def _marker_box(axes: Any, x: float, y: float) -> Bbox:
    """Returns the box of a marker."""
    from matplotlib.transforms import Bbox

    (across, along), reach = axes.transData.transform((x, y)), MARKER_RADIUS * axes.figure.dpi / 72
    return Bbox.from_extents(across - reach, along - reach, across + reach, along + reach)
