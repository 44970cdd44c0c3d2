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
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.formatting import format_exact, format_html_table
from shuffledp._core.results_and_value_objects import Progress
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
from shuffledp.planning.turnout_guarantees import TurnoutGuarantee, known_sample_epsilon, reduced_turnout_guarantees

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

Result = TypeVar("Result", covariant=True)
MAX_RECALIBRATED, MAX_RECALIBRATED_ERROR_RATIO = 3, 1.25
"""Largest number of mechanisms that all bounds calibrate again, and the largest multiple of the smallest error."""
MIN_TRIALS_PER_WORKER = 8
"""Starting a process takes as long as one or two trials."""
THREAD_VARIABLES = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that limit the threads of linear algebra libraries."""


def build_trials(goal: Goal, only: str | None = None, settings: Mapping[str, Any] | None = None) -> list[Trial]:
    """Returns the trials of all mechanisms, or of ``only`` one; ``settings`` are those of a table."""
    kind = None if only is None else catalogue.find(only)
    if kind is not None and kind.table_setting:
        return [_build_table_trial(goal, kind, settings or {})]
    if settings:
        raise ValueError("plan: settings are searched, unless the mechanism is a table, such as padded-exponential.")
    if goal.target_distances is not None:
        raise ValueError("plan: target distances need a mechanism on distances, such as padded-exponential.")
    mechanisms = list(goal.usable_mechanisms()) if only is None else goal.find_mechanisms(only)
    if not mechanisms:
        raise _mechanism_error(goal, str(only))
    return [Trial(name, kind, goal) for name, kind in mechanisms]


def _mechanism_error(goal: Goal, only: str) -> ValueError:
    """Returns the error for a mechanism that is unknown or does another task."""
    names, kind = [name for name, _ in goal.usable_mechanisms()], catalogue.find(only)
    near = catalogue.find_closest_name(only, names) if kind is None else None
    hint = f", which is for {kind.task}." if kind is not None else f"; did you mean {near!r}?" if near else "."
    return ValueError(
        f"plan: mechanism must be one of {', '.join(names)} for the task {goal.task.name!r}, got {only!r}{hint}"
    )


def _build_table_trial(goal: Goal, kind: type[Mechanism], settings: Mapping[str, Any]) -> Trial:
    """Returns the trial of a mechanism given as a table; raises ValueError if it is invalid or misses the targets."""
    with validation.relabel_errors("plan", "DistanceMatrix", kind.__name__, kind.name):
        mechanism = catalogue.build(kind.name, None, settings)
    goal.task.check_mechanism(mechanism)
    goal.build_pair_targets(mechanism)
    return Trial(kind.name, kind, goal, mechanism)


class Work(Protocol[Result]):
    """A piece of work that can run here or in another process."""

    def run(self) -> Sequence[Result]: ...


def run_jobs(
    waiting: Sequence[Work[Result]], workers: int = 1, advance: Callable[[int], None] | None = None
) -> Iterator[Result]:
    """Yields the outcomes in the order of their completion; several workers are processes of their own.

    A mechanism whose class another process cannot import is tried in this one. ``advance`` is called with 1 when a
    piece of work is done, however many outcomes it has.
    """
    report = advance or (lambda done: None)
    remote = [work for work in waiting if workers > 1 and _is_picklable(work)]
    for work in waiting:
        if work not in remote:
            yield from work.run()
            report(1)
    if not remote:
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Spawned, not forked: a copy of this process could hold a lock.
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        with _limit_threads():
            futures = [pool.submit(work.run) for work in remote]
        for future in as_completed(futures):
            yield from future.result()
            report(1)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _limit_threads() -> Iterator[None]:
    """Limits processes that are started in the block to one thread: there is one process for each processor."""
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


def _is_picklable(work: object) -> bool:
    """Returns True if an object can be pickled; a pool would wait forever for one that cannot."""
    try:
        pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def choose_worker_count(waiting: Sequence[Any]) -> int:
    """Returns the number of processors, or fewer if there is too little work for so many processes."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(processors, len(waiting) // MIN_TRIALS_PER_WORKER))


@dataclass(frozen=True)
class Ranking:
    """The outcome of all trials; ``print`` it to read it, ``best.plan`` is the plan.

    There are two winners: ``best_local`` guarantees a local ε even against the shuffler, ``best_by_shuffler`` rests on
    the shuffler alone. ``best`` is ``best_local`` unless the goal has another trust assumption.

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
            outcomes: Candidates and rejections, in any order.

        Returns:
            The ranking.

        Raises:
            ValueError: If no mechanism meets the goal.
        """
        outcomes = list(outcomes)
        candidates = [outcome for outcome in outcomes if isinstance(outcome, Candidate)]
        rejections = [outcome for outcome in outcomes if isinstance(outcome, Rejection)]
        if not candidates:
            first = rejections[0]
            reason = first.reason if len(rejections) == 1 else f"for instance {first.name}: {first.reason}"
            raise ValueError(f"plan: no mechanism meets the target within the limits; {reason}")
        candidates.sort(key=_sort_key)
        return cls(goal, tuple(candidates), tuple(rejections))

    @property
    def best(self) -> Candidate:
        """The winner of the kind that the goal asks for; raises ValueError if there is none."""
        if self.selected_candidate is None:
            raise InvalidArgument("plan", ranking_text.explain_missing_plan(self.candidates[0]).without_period())
        return self.selected_candidate

    @property
    def selected_candidate(self) -> Candidate | None:
        """The winner of the kind that the goal asks for; None if there is none."""
        return {LOCAL: self.best_local, SHUFFLER: self.best_by_shuffler, NOISE: self.best_by_noise}[self.goal.rests_on]

    @property
    def best_local(self) -> Candidate | None:
        """The candidate with the smallest error among those with a local ε even against the shuffler, or None."""
        return next((candidate for candidate in self.candidates if candidate.has_local_epsilon), None)

    @property
    def best_by_shuffler(self) -> Candidate | None:
        """The best candidate among those that rest on the shuffler alone, with noise that users draw.

        Of candidates within 5% of the smallest error, it is the one with the fewest bits.
        """
        eligible = [one for one in self.candidates if not (one.has_local_epsilon or one.has_shuffler_noise)]
        near = [one for one in eligible if one.standard_error <= NEAR_BEST_RATIO * eligible[0].standard_error]
        return min(near, key=lambda candidate: (candidate.bits, candidate.standard_error), default=None)

    @property
    def best_by_noise(self) -> Candidate | None:
        """The candidate with the smallest error among those whose noise the shuffler draws."""
        return next((candidate for candidate in self.candidates if candidate.has_shuffler_noise), None)

    @property
    def winners(self) -> tuple[Candidate, ...]:
        """The best with a local ε, the best by the shuffler alone, and the one that the goal asks for."""
        winners = dict.fromkeys((self.best_local, self.best_by_shuffler, self.selected_candidate))
        return tuple(winner for winner in winners if winner is not None)

    @cached_property
    def reduced_turnout_guarantees(self) -> dict[str, tuple[TurnoutGuarantee, ...]]:
        """The guarantees of the winners, by their names, if only half or a tenth of the users take part."""
        return {candidate.name: reduced_turnout_guarantees(candidate.plan) for candidate in self.winners}

    @cached_property
    def known_sample_epsilons(self) -> dict[str, float]:
        """The ε of all rounds of the winners, by their names, if everybody learns who was drawn."""
        if not self.goal.participation.is_sampled:
            return {}
        return {candidate.name: known_sample_epsilon(candidate.plan) for candidate in self.winners}

    def reasons(self) -> dict[str, list[str]]:
        """Returns the reasons of rejections, each with the names of the mechanisms."""
        result: dict[str, list[str]] = {}
        for rejection in self.rejections:
            result.setdefault(rejection.reason, []).append(rejection.name)
        return result

    def format_rejections(self) -> list[str]:
        """Returns one line for each reason of rejection, with the names of the mechanisms."""
        return [f"{', '.join(names)}: {reason}" for reason, names in self.reasons().items()]

    def rows(self) -> list[list[str]]:
        """Returns one row for each candidate, under ``ranking_text.HEADINGS``; winners are marked."""
        return [ranking_text.format_row(candidate, candidate in self.winners) for candidate in self.candidates]

    def notes(self) -> list[str]:
        """Returns the paragraphs below the table."""
        return ranking_text.format_notes(self)

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
            **goal.participation.to_document(),
            **(
                {"condition": SAMPLING_SECRECY_CONDITION, "if_known": self.known_sample_epsilons}
                if goal.participation.is_sampled
                else {}
            ),
            "domain": goal.task.domain.to_document(),
            "error": {"unit": goal.task.unit, "data": goal.task.data_description},
            "central": {"standard_error": goal.central_baseline.standard_error, "noise": goal.central_baseline.noise},
            "rests_on": goal.rests_on,
            "best": _name(self.selected_candidate),
            "best_local": _name(self.best_local),
            "best_by_shuffler": _name(self.best_by_shuffler),
            "best_by_noise": _name(self.best_by_noise),
            "fewer_users": {
                name: [each.document() for each in fewer] for name, fewer in self.reduced_turnout_guarantees.items()
            },
            "mechanisms": [_document(candidate, goal.users) for candidate in self.candidates],
            "caveat": goal.task.ranking_remark([candidate.mechanism for candidate in self.candidates]),
            "refused": [{"name": rejection.name, "reason": rejection.reason} for rejection in self.rejections],
        }


def recalibrate_best(ranking: Ranking, waiting: Sequence[Trial], progress: Progress) -> Ranking:
    """Calibrates the best mechanisms with a local ε again by all bounds, including the slow ones."""
    goal = replace(ranking.goal, effort=FULL_EFFORT)
    local = [candidate for candidate in ranking.candidates if candidate.has_local_epsilon]
    names = [
        candidate.name
        for candidate in local[:MAX_RECALIBRATED]
        if candidate.standard_error <= MAX_RECALIBRATED_ERROR_RATIO * local[0].standard_error
    ]
    outcomes: list[Candidate | Rejection] = [one for one in ranking.candidates if one.name not in names]
    trials = [replace(trial, goal=goal) for trial in waiting if trial.name in names]
    with progress.step("evaluating all bounds", len(trials)) as advance:
        for trial in trials:
            outcomes += trial.run()
            advance(1)
    recalibrated = {outcome.name for outcome in outcomes}
    # The full bounds may fail for a mechanism that the quick bounds could certify.
    outcomes += [candidate for candidate in local if candidate.name not in recalibrated]
    return Ranking.from_outcomes(goal, [*outcomes, *ranking.rejections])


def _name(candidate: Candidate | None) -> str | None:
    return None if candidate is None else candidate.name


def _sort_key(candidate: Candidate) -> tuple[float, int, int, str]:
    """Returns the key of the order; errors are compared by four digits, since searches stop at a tolerance."""
    return float(f"{candidate.standard_error:.4g}"), candidate.bits, len(candidate.mechanism.settings()), candidate.name


def _document(candidate: Candidate, users: int) -> dict[str, Any]:
    proof, questions = candidate.proof, [dict(vars(one)) for one in candidate.question_errors]
    return {
        "name": candidate.name,
        "settings": candidate.mechanism.to_document()["settings"] if questions else candidate.mechanism.settings(),
        **({"questions": questions} if questions else {}),
        "standard_error": candidate.standard_error,
        "times_curator": candidate.curator_error_ratio,
        "epsilon_local": candidate.mechanism.local_epsilon,
        "bits_per_user": candidate.bits,
        "sealed_bits_per_user": candidate.sealed_bits,
        "messages_per_user": candidate.messages,
        "influence": candidate.influence,
        "client_seconds_per_user": candidate.cost.encoding_seconds,
        "server_seconds": candidate.cost.server_seconds(users),
        "epsilon": {"upper": proof.upper, "slack": proof.slack},
        "bound": proof.bound,
        "theorem": proof.theorem,
        "certified": proof.certified,
        "guarantee": proof.guarantee,
        "limit": candidate.limit,
        "rests_on": candidate.rests_on,
        "assumption": candidate.assumption,
    }


# --- Plot of error against bits ---


MARKER_STYLES = {
    LOCAL_EPSILON: ("local ε even against the shuffler", "o", plotting.COLOURS[0]),
    ONLY_SHUFFLER: ("no local ε: rests on the shuffler", "D", plotting.COLOURS[1]),
    ONLY_SHUFFLER_NOISE: ("rests on the shuffler and its noise", "^", plotting.COLOURS[2]),
    PSEUDORANDOM_SEEDS: ("local ε if seeds are pseudorandom", "s", plotting.COLOURS[3]),
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
        for rests_on, (label, marker, colour) in MARKER_STYLES.items():
            points = [(one.bits, one.standard_error) for one in ranking.candidates if one.rests_on == rests_on]
            if points:
                bits, errors = zip(*points, strict=True)
                axes.scatter(bits, errors, MARKER_AREA, color=colour, marker=marker, label=label, zorder=3)
        central = goal.central_baseline
        axes.axhline(central.standard_error, color="0.3", linestyle="--", linewidth=1)
        text, position = f"trusted curator, {central.noise} noise", (0.99, central.standard_error)
        axes.annotate(text, position, xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize="small")
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
    boxes = [_marker_box(axes, candidate.bits, candidate.standard_error) for candidate in ranking.candidates]
    for index, candidate in enumerate(ranking.candidates):
        for across, along in LABEL_OFFSETS:
            text = axes.annotate(
                candidate.name,
                (candidate.bits, candidate.standard_error),
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
            others = boxes[:index] + boxes[index + 1 :]
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(box.overlaps(other) for other in others):
                boxes.append(box)
                break
            text.remove()


def _marker_box(axes: Any, x: float, y: float) -> Bbox:
    """Returns the box of a marker."""
    from matplotlib.transforms import Bbox

    (across, along), reach = axes.transData.transform((x, y)), MARKER_RADIUS * axes.figure.dpi / 72
    return Bbox.from_extents(across - reach, along - reach, across + reach, along + reach)
