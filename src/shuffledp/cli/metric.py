"""``shuffledp metric``: metric privacy for a matrix of distances, a list of points or a range of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from shuffledp._core import plotting, validation
from shuffledp._core.formatting import format_exact, format_json
from shuffledp._core.validation import Floats
from shuffledp.bounds.compare_metric import ComparedPair, compare_pairs, lower_bound
from shuffledp.bounds.local_metric_solver import LocalMetric, LocalMetricSolver
from shuffledp.bounds.metric_amplification import (
    Amplification,
    AmplifiedMetric,
    MetricVariationRatio,
    all_amplifications,
    find_amplification,
)
from shuffledp.bounds.metric_noise_laws import AnyNoise, find_noise, noise_names
from shuffledp.cli import options, output
from shuffledp.cli.app import UniqueOptionsGroup
from shuffledp.cli.output import Console, ProgressBars
from shuffledp.mechanisms.metric.exponential import PaddedExponential
from shuffledp.privacy.curve import BoundValue
from shuffledp.privacy.metric_space import DistanceMatrix, Segment, read_numbers
from shuffledp.tasks.counts_and_frequencies import Frequency

app = typer.Typer(
    cls=UniqueOptionsGroup,
    help="Compute metric privacy, which hides nearby inputs better than distant ones.",
    add_completion=False,
    rich_markup_mode=None,
)

Users = Annotated[
    float,
    typer.Option(parser=options.number, help="Number of messages that hide each other, including the user's own."),
]
Matrix = Annotated[Path | None, typer.Option(help="CSV of privacy distances (ε), a row per input, no header.")]
Points = Annotated[Path | None, typer.Option(help="CSV of points, a row of coordinates each, no header.")]
Degrees = Annotated[bool, typer.Option("--degrees", help="Points are latitude, longitude; distances are metres.")]
Range = Annotated[
    tuple[float, float] | None, typer.Option("--range", metavar="LOW HIGH", help="All numbers from LOW to HIGH.")
]
Rate = Annotated[float | None, typer.Option(help="ε per input unit, for points and ranges; 1 by default.")]
BoundName = Annotated[str, typer.Option(help=f"One of {', '.join(all_amplifications())}.")]
NoiseName = Annotated[
    str,
    typer.Option(
        help=f"Kind of the randomizer's noise: {', '.join(noise_names())}; Laplace noise needs points on a line, "
        "planar Laplace noise in a plane."
    ),
]

DEFAULT_STEPS = 10


@dataclass(frozen=True)
class MetricSpaceOptions:
    """The options that describe a metric space, as typed."""

    command: str
    matrix: Path | None
    points: Path | None
    degrees: bool
    range: tuple[float, float] | None
    rate: float | None

    def build(self) -> DistanceMatrix | Segment:
        given = [name for name in ("matrix", "points", "range") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{self.command}: give one of --matrix, --points and --range, got {len(given)} of them.")
        if self.degrees and self.points is None:
            raise ValueError(f"{self.command}: --degrees goes with --points.")
        if self.matrix is not None:
            if self.rate is not None:
                raise ValueError(f"{self.command}: --rate goes with --points or --range, not with --matrix.")
            return DistanceMatrix.from_csv(self.matrix)
        rate = 1.0 if self.rate is None else self.rate
        if self.range is not None:
            return Segment(*self.range, rate=rate)
        assert self.points is not None
        places = read_numbers(self.command, self.points)
        return DistanceMatrix.from_degrees(places, rate) if self.degrees else DistanceMatrix.from_points(places, rate)

    def build_finite(self) -> DistanceMatrix:
        space = self.build()
        if not isinstance(space, DistanceMatrix):
            raise ValueError(f"{self.command}: expected --matrix or --points, got --range.")
        return space


def _build_amplification(command: str, bound: str, noise: str) -> Amplification:
    chosen = find_amplification(bound)
    if noise == AnyNoise.name:
        return chosen
    if not isinstance(chosen, MetricVariationRatio):
        raise ValueError(f"{command}: --noise goes with --bound variation-ratio or all-crowds, got {bound}.")
    return type(chosen)(find_noise(noise))


def _describe_noise_restriction(noise: str) -> str:
    """Returns the sentence that restricts a result to one kind of noise; empty for any noise."""
    return "" if noise == AnyNoise.name else f" Holds for {noise} noise only."


@app.command("amplify")
def amplify(
    users: Users,
    delta: options.Delta,
    matrix: Matrix = None,
    points: Points = None,
    degrees: Degrees = False,
    range_: Range = None,
    rate: Rate = None,
    bound: BoundName = "variation-ratio",
    noise: NoiseName = "any",
    steps: Annotated[
        int | None, typer.Option(metavar="INT", help="Number of distances of a range to show, by default 10.", min=1)
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw amplified against local distances (png, pdf, svg).")] = None,
    json: options.Json = False,
) -> None:
    """Compute the privacy distances after shuffling."""
    plotting.check_plot_path("metric amplify", plot)
    if steps is not None and range_ is None:
        raise ValueError("metric amplify: --steps goes with --range.")
    space = MetricSpaceOptions("metric amplify", matrix, points, degrees, range_, rate).build()
    metric = AmplifiedMetric(
        space, validation.count("metric", "users", users), delta, _build_amplification("metric amplify", bound, noise)
    )
    document: dict[str, Any] = {
        "users": metric.users,
        "delta": delta,
        "bound": metric.amplification.name,
        "theorem": metric.amplification.theorem,
        "noise": noise,
        "certified": True,
        "guarantee": True,
        "largest_local": space.diameter,
    }
    if isinstance(space, DistanceMatrix):
        amplified = _compute_all_pairs(space, "Amplifying", lambda a, b: metric(a, b).upper)
        document |= {"local": space.matrix.tolist(), "amplified": amplified.tolist()}
        # Two pairs at equal local distance may differ after shuffling, so points are drawn and no line.
        drawn, style = [(float(space.matrix[pair]), float(amplified[pair])) for pair in space.pairs()], "o"
    else:
        values = _amplify_along(metric, space, DEFAULT_STEPS if steps is None else steps)
        document["distances"] = [
            {"distance": distance / space.rate, "local": distance, "amplified": v.document(attacked=False)["epsilon"]}
            for distance, v in values
        ]
        drawn, style = [(distance, v.upper) for distance, v in values], "o-"
    if plot is not None:
        title = f"{metric.amplification.name}, {metric.users:,} users, δ = {plotting.format_scientific(delta)}"
        _draw_distances(plot, drawn, style, title)
        if not json:
            output.print_written_path("figure", plot)
    if json:
        typer.echo(format_json(document))
        return
    output.print_text(f"Privacy distances (ε) after shuffling {metric.users:,} messages, δ = {format_exact(delta)}.")
    output.print_text(f"Bound: {metric.amplification.theorem}.{_describe_noise_restriction(noise)}\n")
    if isinstance(space, DistanceMatrix):
        _print_matrix(np.array(document["amplified"]))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("input units", "local ε", "shuffled ε"):
        table.add_column(heading, justify="right")
    for distance, v in values:
        table.add_row(f"{distance / space.rate:.6g}", f"{distance:.6g}", output.format_epsilon(v.upper))
    Console().print(table)


def _amplify_along(metric: AmplifiedMetric, space: Segment, steps: int) -> list[tuple[float, BoundValue]]:
    """Returns the amplified distances of pairs at evenly spaced local distances, up to the full range."""
    distances = [space.diameter * (i + 1) / steps for i in range(steps - 1)] + [space.diameter]
    with _show_progress("Amplifying", steps) as advance:
        return [(distance, advance(metric.at_epsilon_local(distance))) for distance in distances]


@app.command("lower")
def lower(
    users: Users,
    delta: options.Delta,
    matrix: Matrix = None,
    points: Points = None,
    degrees: Degrees = False,
    rate: Rate = None,
    json: options.Json = False,
) -> None:
    """Compute lower limits of all bounds for any randomizer.

    These are the distances that an attack on the padded exponential mechanism attains.
    """
    space = MetricSpaceOptions("metric lower", matrix, points, degrees, None, rate).build_finite()
    total = validation.count("metric", "users", users)
    found = _compute_all_pairs(space, "Attacking", lambda a, b: lower_bound(space, a, b, total, delta))
    if json:
        document = {"users": total, "delta": delta, "local": space.matrix.tolist(), "lower": found.tolist()}
        typer.echo(format_json({**document, "theorem": "padded exponential lower bound [MDP]", "certified": True}))
        return
    output.print_text(
        f"Some private randomizer has these distances (ε) after shuffling {total:,} messages, δ = "
        f"{format_exact(delta)}.\n"
    )
    _print_matrix(found, up=False)


@app.command("solve")
def solve(
    users: Users,
    delta: options.Delta,
    matrix: Matrix = None,
    points: Points = None,
    degrees: Degrees = False,
    rate: Rate = None,
    bound: BoundName = "variation-ratio",
    noise: NoiseName = "any",
    diameters: Annotated[int, typer.Option(metavar="INT", help="Number of local diameters (ε) to try.", min=1)] = 4,
    out: Annotated[
        Path | None, typer.Option(help="Write an answer as CSV, and the target beside it, for `shuffledp plan`.")
    ] = None,
    answer: Annotated[
        int | None,
        typer.Option(
            metavar="INT", help="Number of the answer to write; by default that with the smallest error.", min=1
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Find the largest local distances that meet a target.

    The distances given are the global target. With --bound corollary-1 or corollary-2-uniform this is the solver of the
    paper; otherwise distances are raised until none can grow by 1%.
    """
    place = _check_output(out, answer, noise)
    target = MetricSpaceOptions("metric solve", matrix, points, degrees, None, rate).build_finite()
    solver = LocalMetricSolver(
        target, validation.count("metric", "users", users), delta, _build_amplification("metric solve", bound, noise)
    )
    largest = solver.largest_diameter()
    answers = solver.solve(diameters, progress=ProgressBars())
    written = None if place is None else place.write(solver, answers)
    if json:
        solutions = {"noise": noise} | _solutions(solver, largest, answers)
        typer.echo(format_json(solutions | ({} if written is None else written.document())))
        return
    output.print_text(
        f"Local distances (ε) for the target after shuffling {solver.users:,} messages, δ = {format_exact(delta)}."
    )
    equal = f"If all were equal: at most {output.format_lower(largest)}."
    output.print_text(f"Bound: {solver.amplification.theorem}.{_describe_noise_restriction(noise)} {equal}")
    for number, found in enumerate(answers, 1):
        output.print_text(f"\n{number} of {len(answers)}, for a mechanism that needs a metric:")
        _print_matrix(found.metric.matrix, up=False)
    if written is not None:
        output.print_text(f"\n{written.describe(solver)}")


@dataclass(frozen=True)
class _WrittenAnswer:
    """The answer that was written, its files and its standard error."""

    number: int
    metric: Path
    target: Path
    error: float

    def document(self) -> dict[str, Any]:
        files = {"metric": str(self.metric), "target": str(self.target)}
        return {"written": {"answer": self.number, **files, "standard_error": self.error}}

    def describe(self, solver: LocalMetricSolver) -> str:
        """Returns the text that names the files and the next command."""
        return (
            f"Answer {self.number} is in {self.metric}, its target in {self.target}. With the padded exponential "
            f"mechanism a count of users has a standard error of {self.error:.4g}, where they are spread evenly:\n"
            f"  shuffledp plan --task frequency --domain {solver.target.size} --users {solver.users} "
            f"--epsilon {solver.target.diameter!r} --delta {solver.delta!r} \\\n"
            f"    --mechanism {PaddedExponential.name} --set distances={self.metric} --target-distances {self.target} "
            f"--out plan.json"
        )


@dataclass(frozen=True)
class _AnswerOutput:
    """The file to write to, and the number of the answer; None takes the answer with the smallest error."""

    path: Path
    answer: int | None

    def write(self, solver: LocalMetricSolver, answers: list[LocalMetric]) -> _WrittenAnswer:
        errors = [_standard_error(each.metric, solver.users) for each in answers]
        number = int(np.argmin(errors)) + 1 if self.answer is None else self.answer
        if number > len(answers):
            raise ValueError(f"metric solve: --answer must be at most the {len(answers)} answers found, got {number}.")
        target = self.path.with_name(f"{self.path.stem}.target{self.path.suffix}")
        written = _WrittenAnswer(number, self.path, target, errors[number - 1])
        for path, space in ((written.metric, answers[number - 1].metric), (written.target, solver.target)):
            try:
                path.write_text(space.csv_text(), encoding="utf-8")
            except OSError as error:
                raise ValueError(f"metric solve: cannot write {path}: {error.strerror}.") from None
        return written


def _check_output(out: Path | None, answer: int | None, noise: str) -> _AnswerOutput | None:
    """Returns the place to write to; raises ValueError early if the result cannot be written or used."""
    if out is None:
        if answer is not None:
            raise ValueError("metric solve: --answer goes with --out.")
        return None
    if noise != AnyNoise.name:
        raise ValueError(
            f"metric solve: --out is for the {PaddedExponential.name} mechanism, which does not add {noise} noise; "
            f"expected --noise {AnyNoise.name}, got {noise}."
        )
    if out.is_dir() or not out.parent.is_dir():
        raise ValueError(f"metric solve: expected a file in an existing directory to write to, got {out}.")
    return _AnswerOutput(out, answer)


def _standard_error(metric: DistanceMatrix, users: int) -> float:
    """Returns the standard error of a count with the padded exponential mechanism and evenly spread users."""
    return Frequency(metric.size).standard_error(PaddedExponential(metric.matrix), users)


def _solutions(solver: LocalMetricSolver, largest: float, answers: list[LocalMetric]) -> dict[str, Any]:
    return {
        "users": solver.users,
        "delta": solver.delta,
        "bound": solver.amplification.name,
        "theorem": solver.amplification.theorem,
        "certified": True,
        "guarantee": True,
        "target": solver.target.matrix.tolist(),
        "largest_equal": largest,
        "solutions": [
            {
                "diameter": answer.diameter,
                "raw": answer.raw.matrix.tolist(),
                "closure": answer.closure.matrix.tolist(),
                "metric": answer.metric.matrix.tolist(),
                "amplified": answer.amplified.tolist(),
            }
            for answer in answers
        ],
    }


# --- Output ---


@contextmanager
def _show_progress(title: str, total: int) -> Iterator[Any]:
    """Shows a progress bar on stderr; yields a function that advances it and returns its argument."""
    with ProgressBars().step(title, total) as done:

        def advance(result: Any) -> Any:
            done(1)
            return result

        yield advance


def _compute_all_pairs(space: DistanceMatrix, title: str, value: Any) -> Floats:
    """Computes a symmetric matrix from the values of all pairs."""
    result = np.zeros_like(space.matrix)
    with _show_progress(title, space.size * (space.size - 1) // 2) as advance:
        for a, b in space.pairs():
            result[a, b] = result[b, a] = advance(value(a, b))
    return result


def _print_matrix(matrix: Floats, *, up: bool = True) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for number in range(len(matrix)):
        table.add_column(str(number), justify="right")
    text = output.format_epsilon if up else output.format_lower
    for number, row in enumerate(matrix.tolist()):
        table.add_row(Text(str(number), style="bold"), *(text(value, 5) for value in row))
    Console().print(table)


def _draw_distances(path: Path, points: list[tuple[float, float]], style: str, title: str) -> None:
    from matplotlib.figure import Figure

    with plotting.figure_style():
        figure = Figure(figsize=(5.2, 4.0), layout="constrained")
        axes = figure.subplots()
        axes.plot(*zip(*sorted(points), strict=True), style, markersize=4, color=plotting.COLOURS[0])
        axes.set(xlabel="local privacy distance (ε)", ylabel="privacy distance after shuffling (ε)", xlim=0, ylim=0)
        axes.set_title(title, fontsize=10)
        axes.grid(visible=True, which="major")
        plotting.save_figure("metric amplify", figure, path)


# --- shuffledp metric compare ---


COMPARE_PREFIX = "metric compare"
MAX_LABELLED_BOUNDS = 4
"""Number of theorems with a colour and a label of their own; the lower bound is the fifth entry of the legend."""
NO_VALUE_MARK = "–"


def compare_command(
    users: Users,
    delta: options.Delta,
    matrix: Matrix = None,
    points: Points = None,
    degrees: Degrees = False,
    rate: Rate = None,
    pair: Annotated[
        tuple[int, int] | None, typer.Option(metavar="A B", help="Only these two inputs, by number from 0.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw amplified against local distances (png, pdf, svg).")] = None,
    json: options.Json = False,
) -> None:
    """Compare every theorem, and the lower limit of all of them."""
    plotting.check_plot_path(COMPARE_PREFIX, plot)
    space = MetricSpaceOptions(COMPARE_PREFIX, matrix, points, degrees, None, rate).build_finite()
    found = compare_pairs(space, users, delta, None if pair is None else [_check_pair(space, pair)], ProgressBars())
    if plot is not None:
        _draw_comparison(found, f"{int(users):,} users, δ = {plotting.format_scientific(delta)}", plot)
        output.print_note(f"The figure was written to {plot}.")
    if json:
        rows = [_document(each) for each in found]
        typer.echo(format_json({"users": int(users), "delta": delta, "certified": True, "pairs": rows}))
        return
    output.print_text(f"Privacy distances (ε) after shuffling {int(users):,} messages, δ = {format_exact(delta)}.\n")
    _print(found)


def _check_pair(space: DistanceMatrix, pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] == pair[1] or not all(0 <= place < space.size for place in pair):
        raise ValueError(
            f"{COMPARE_PREFIX}: --pair must be two inputs from 0 to {space.size - 1}, got {pair[0]} and {pair[1]}."
        )
    return pair


def _document(found: ComparedPair) -> dict[str, object]:
    bounds = {name: value.document(attacked=False)["epsilon"] for name, value in found.values.items()}
    return {
        "pair": [found.first, found.second],
        "local": found.local,
        "bounds": bounds,
        "best": found.best,
        "lower": found.lower,
        **({"why_no_lower": found.missing_attack_reason} if found.missing_attack_reason else {}),
    }


def _print(found: list[ComparedPair]) -> None:
    """Prints a row for each theorem and a column for each pair, because the theorems' names are long."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for each in found:
        table.add_column(f"{each.first}, {each.second}", justify="right")
    table.add_row("local", *(f"{each.local:.6g}" for each in found))
    for name in found[0].values:
        table.add_row(name, *(output.format_epsilon(each.values[name].upper, 5) for each in found))
    table.add_row(
        "no bound below",
        *(NO_VALUE_MARK if each.lower is None else output.format_lower(each.lower, 5) for each in found),
    )
    Console().print(table)
    for why in dict.fromkeys(each.missing_attack_reason for each in found if each.missing_attack_reason):
        Console().print(f"\n{NO_VALUE_MARK}: {why}", highlight=False)


def _draw_comparison(found: list[ComparedPair], title: str, path: Path) -> None:
    """Draws a point for every pair; the tightest theorems are coloured, the others are grey."""
    from matplotlib.figure import Figure

    ranked = sorted(found[0].values, key=lambda name: sum(each.values[name].upper for each in found))
    with plotting.figure_style():
        figure = Figure(figsize=(6.8, 4.0), layout="constrained")
        axes = figure.subplots()
        local = [each.local for each in found]
        for place, name in reversed(list(enumerate(ranked))):
            shown = place < MAX_LABELLED_BOUNDS
            style: dict[str, Any] = {
                "color": plotting.COLOURS[place] if shown else "0.8",
                "markersize": 5 - 0.5 * min(place, 4),
            }
            axes.plot(local, [each.values[name].upper for each in found], "o", label=name if shown else None, **style)
        attacked = [(each.local, each.lower) for each in found if each.lower is not None]
        if attacked:
            axes.plot(*zip(*attacked, strict=True), "k_", markersize=9, label="no bound below")
        others = len(ranked) - MAX_LABELLED_BOUNDS
        if others > 0:
            axes.annotate(f"grey: {others} other theorems", (0.985, 0.02), xycoords="axes fraction", ha="right",
                          fontsize=8, color="0.5")  # fmt: skip
        axes.set(xlabel="local privacy distance (ε)", ylabel="privacy distance after shuffling (ε)", xlim=0, ylim=0)
        axes.set_title(title, fontsize=10)
        axes.grid(visible=True, which="major")
        axes.legend(loc="upper left")
        plotting.save_figure(COMPARE_PREFIX, figure, path)


app.command("compare")(compare_command)
