"""``shuffledp metric``: distances as privacy budgets, from a matrix, a list of points or a range."""

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

from shuffledp import argument, figure as figures
from shuffledp.array import Floats
from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.cli.once import OnceEach
from shuffledp.cli.show import Console
from shuffledp.document import json_text, typed
from shuffledp.mechanisms.metric.padded_exponential import PaddedExponential
from shuffledp.metric.amplification import Amplification, MetricVariationRatio, all_amplifications, amplification_of
from shuffledp.metric.amplified import AmplifiedMetric
from shuffledp.metric.lower import lower_bound
from shuffledp.metric.noise import AnyNoise, noise_names, noise_of
from shuffledp.metric.solver import LocalMetric, LocalMetricSolver
from shuffledp.privacy.number_file import read_numbers
from shuffledp.privacy.space import DistanceMatrix, Segment
from shuffledp.privacy.value import BoundValue
from shuffledp.tasks.frequency import Frequency

app = typer.Typer(
    cls=OnceEach,
    help="Metric privacy: near inputs are hidden better than far ones.",
    add_completion=False,
    rich_markup_mode=None,
)

Users = Annotated[
    float, typer.Option(parser=options.number, help="Messages that hide each other, the user's own included.")
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
        help=f"What is known of the randomizer: {', '.join(noise_names())}; Laplace noise needs points on a line, "
        "planar Laplace noise in a plane."
    ),
]

STEPS = 10


@dataclass(frozen=True)
class SpaceChoice:
    """The options that name a space, as typed."""

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

    def finite(self) -> DistanceMatrix:
        space = self.build()
        if not isinstance(space, DistanceMatrix):
            raise ValueError(f"{self.command}: expected --matrix or --points, got --range.")
        return space


def _amplification(command: str, bound: str, noise: str) -> Amplification:
    chosen = amplification_of(bound)
    if noise == AnyNoise.name:
        return chosen
    if not isinstance(chosen, MetricVariationRatio):
        raise ValueError(f"{command}: --noise goes with --bound variation-ratio or all-crowds, got {bound}.")
    return type(chosen)(noise_of(noise))


def _only_for(noise: str) -> str:
    """The condition that a noise is, as a sentence after another."""
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
        int | None, typer.Option(metavar="INT", help="How many distances of a range to show, by default 10.", min=1)
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw amplified against local distances (png, pdf, svg).")] = None,
    json: options.Json = False,
) -> None:
    """The distances that are left after shuffling."""
    figures.demand_place("metric amplify", plot)
    if steps is not None and range_ is None:
        raise ValueError("metric amplify: --steps goes with --range.")
    space = SpaceChoice("metric amplify", matrix, points, degrees, range_, rate).build()
    metric = AmplifiedMetric(
        space, argument.count("metric", "users", users), delta, _amplification("metric amplify", bound, noise)
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
        amplified = _all_pairs(space, "Amplifying", lambda a, b: metric(a, b).upper)
        document |= {"local": space.matrix.tolist(), "amplified": amplified.tolist()}
        # Two pairs that are equally far apart may differ after shuffling: dots, no line.
        drawn, style = [(float(space.matrix[pair]), float(amplified[pair])) for pair in space.pairs()], "o"
    else:
        values = _along(metric, space, STEPS if steps is None else steps)
        document["distances"] = [
            {"distance": distance / space.rate, "local": distance, "amplified": v.document(attacked=False)["epsilon"]}
            for distance, v in values
        ]
        drawn, style = [(distance, v.upper) for distance, v in values], "o-"
    if plot is not None:
        title = f"{metric.amplification.name}, {metric.users:,} users, δ = {figures.scientific(delta)}"
        _draw(plot, drawn, style, title)
        if not json:
            show.written("figure", plot)
    if json:
        typer.echo(json_text(document))
        return
    show.say(f"Privacy distances (ε) after shuffling {metric.users:,} messages, δ = {typed(delta)}.")
    show.say(f"Bound: {metric.amplification.theorem}.{_only_for(noise)}\n")
    if isinstance(space, DistanceMatrix):
        _print_matrix(np.array(document["amplified"]))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("input units", "local ε", "shuffled ε"):
        table.add_column(heading, justify="right")
    for distance, v in values:
        table.add_row(f"{distance / space.rate:.6g}", f"{distance:.6g}", show.epsilon(v.upper))
    Console().print(table)


def _along(metric: AmplifiedMetric, space: Segment, steps: int) -> list[tuple[float, BoundValue]]:
    """Distances in even steps up to the full range, wherever the pair lies."""
    distances = [space.diameter * (i + 1) / steps for i in range(steps - 1)] + [space.diameter]
    with _bar("Amplifying", steps) as advance:
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
    """What no bound for all randomizers can beat.

    The distances that an attack on the padded exponential mechanism attains.
    """
    space = SpaceChoice("metric lower", matrix, points, degrees, None, rate).finite()
    total = argument.count("metric", "users", users)
    found = _all_pairs(space, "Attacking", lambda a, b: lower_bound(space, a, b, total, delta))
    if json:
        document = {"users": total, "delta": delta, "local": space.matrix.tolist(), "lower": found.tolist()}
        typer.echo(json_text({**document, "theorem": "padded exponential lower bound [MDP]", "certified": True}))
        return
    show.say(
        f"Some private randomizer has these distances (ε) after shuffling {total:,} messages, δ = {typed(delta)}.\n"
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
    diameters: Annotated[int, typer.Option(metavar="INT", help="How many local diameters (ε) to try.", min=1)] = 4,
    out: Annotated[
        Path | None, typer.Option(help="Write an answer as CSV, and the target beside it, for `shuffledp plan`.")
    ] = None,
    answer: Annotated[
        int | None,
        typer.Option(metavar="INT", help="Which answer to write; by default that with the least error.", min=1),
    ] = None,
    json: options.Json = False,
) -> None:
    """The largest local distances that meet a target.

    The distances given are the global target. With --bound corollary-1 or corollary-2-uniform this is the solver of the
    paper; otherwise distances are raised until none can grow by 1%.
    """
    place = _place(out, answer, noise)
    target = SpaceChoice("metric solve", matrix, points, degrees, None, rate).finite()
    solver = LocalMetricSolver(
        target, argument.count("metric", "users", users), delta, _amplification("metric solve", bound, noise)
    )
    largest = solver.largest_diameter()
    answers = solver.solve(diameters, progress=Bars())
    written = None if place is None else place.write(solver, answers)
    if json:
        solutions = {"noise": noise} | _solutions(solver, largest, answers)
        typer.echo(json_text(solutions | ({} if written is None else written.document())))
        return
    show.say(f"Local distances (ε) for the target after shuffling {solver.users:,} messages, δ = {typed(delta)}.")
    equal = f"If all were equal: at most {show.lower(largest)}."
    show.say(f"Bound: {solver.amplification.theorem}.{_only_for(noise)} {equal}")
    for number, found in enumerate(answers, 1):
        show.say(f"\n{number} of {len(answers)}, for a mechanism that needs a metric:")
        _print_matrix(found.metric.matrix, up=False)
    if written is not None:
        show.say(f"\n{written.words(solver)}")


@dataclass(frozen=True)
class _Written:
    """Which answer was written where, with its error."""

    number: int
    metric: Path
    target: Path
    error: float

    def document(self) -> dict[str, Any]:
        files = {"metric": str(self.metric), "target": str(self.target)}
        return {"written": {"answer": self.number, **files, "standard_error": self.error}}

    def words(self, solver: LocalMetricSolver) -> str:
        """What is where, and how to go on."""
        return (
            f"Answer {self.number} is in {self.metric}, its target in {self.target}. With the padded exponential "
            f"mechanism a count of users has a standard error of {self.error:.4g}, where they are spread evenly:\n"
            f"  shuffledp plan --task frequency --domain {solver.target.size} --users {solver.users} "
            f"--epsilon {solver.target.diameter!r} --delta {solver.delta!r} \\\n"
            f"    --mechanism {PaddedExponential.name} --set distances={self.metric} --target-distances {self.target} "
            f"--out plan.json"
        )


@dataclass(frozen=True)
class _Place:
    """Where an answer is written to, and which one; None: that with the least error."""

    path: Path
    answer: int | None

    def write(self, solver: LocalMetricSolver, answers: list[LocalMetric]) -> _Written:
        errors = [_error(each.metric, solver.users) for each in answers]
        number = int(np.argmin(errors)) + 1 if self.answer is None else self.answer
        if number > len(answers):
            raise ValueError(f"metric solve: --answer must be at most the {len(answers)} answers found, got {number}.")
        target = self.path.with_name(f"{self.path.stem}.target{self.path.suffix}")
        written = _Written(number, self.path, target, errors[number - 1])
        for path, space in ((written.metric, answers[number - 1].metric), (written.target, solver.target)):
            try:
                path.write_text(space.csv_text(), encoding="utf-8")
            except OSError as error:
                raise ValueError(f"metric solve: cannot write {path}: {error.strerror}.") from None
        return written


def _place(out: Path | None, answer: int | None, noise: str) -> _Place | None:
    """Stop before the long work where its result could not be written, or not be used."""
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
    return _Place(out, answer)


def _error(metric: DistanceMatrix, users: int) -> float:
    """The standard error of a count by the padded exponential mechanism, the users spread evenly."""
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


# --- how it looks ---------------------------------------------------------------------------------------------------


@contextmanager
def _bar(title: str, total: int) -> Iterator[Any]:
    """A progress bar on stderr; what it yields passes its argument through and takes one step."""
    with Bars().step(title, total) as done:

        def advance(result: Any) -> Any:
            done(1)
            return result

        yield advance


def _all_pairs(space: DistanceMatrix, title: str, value: Any) -> Floats:
    """A symmetric matrix, pair by pair."""
    result = np.zeros_like(space.matrix)
    with _bar(title, space.size * (space.size - 1) // 2) as advance:
        for a, b in space.pairs():
            result[a, b] = result[b, a] = advance(value(a, b))
    return result


def _print_matrix(matrix: Floats, *, up: bool = True) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for number in range(len(matrix)):
        table.add_column(str(number), justify="right")
    text = show.epsilon if up else show.lower
    for number, row in enumerate(matrix.tolist()):
        table.add_row(Text(str(number), style="bold"), *(text(value, 5) for value in row))
    Console().print(table)


def _draw(path: Path, points: list[tuple[float, float]], style: str, title: str) -> None:
    from matplotlib.figure import Figure

    with figures.look():
        figure = Figure(figsize=(5.2, 4.0), layout="constrained")
        axes = figure.subplots()
        axes.plot(*zip(*sorted(points), strict=True), style, markersize=4, color=figures.COLOURS[0])
        axes.set(xlabel="local privacy distance (ε)", ylabel="privacy distance after shuffling (ε)", xlim=0, ylim=0)
        axes.set_title(title, fontsize=10)
        axes.grid(visible=True, which="major")
        figures.save("metric amplify", figure, path)
