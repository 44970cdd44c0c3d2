"""``shuffledp amplify``: the privacy of shuffled messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from shuffledp._core import plotting, validation
from shuffledp._core.formatting import format_exact, format_json, format_settings
from shuffledp.bounds.amplify import bound_names, restrict_to_inputs
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION, Participation
from shuffledp.bounds.pointwise_minimum import BEST_BOUND_NAME as BEST
from shuffledp.bounds.registry import FULL_EFFORT, QUICK_EFFORT
from shuffledp.bounds.sweep import AXES, LOCAL_EPSILON, USERS, Sweep, sweep
from shuffledp.certificates.certify import certify
from shuffledp.certificates.claim import Claim
from shuffledp.cli import options, output
from shuffledp.cli.options import RandomizerOptions, parse_input_value
from shuffledp.cli.output import ProgressBars, publish_early_answer, show_spinner
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.statement import Statement, build_fact_rows, conditions, delta_warnings

# --- Options --plot, --curve and --against ---


Plot = Annotated[Path | None, typer.Option(help="Draw ε along --against to this file (png, pdf, svg).")]
CurveFile = Annotated[Path | None, typer.Option("--curve", help="Write the same numbers as CSV.")]
Against = Annotated[str | None, typer.Option(metavar="AXIS", help=f"{', '.join(AXES)} (δ at each ε). [{USERS}]")]


def check_curve_path(who: str, path: Path | None) -> None:
    """Raises ValueError if the curve cannot be written to `path`, before anything is computed."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise ValueError(f"{who}: could not write the curve to {path}: there is no such place.")


@dataclass(frozen=True)
class SweepOutput:
    """The files to write, and the axis along which ε is computed."""

    who: str
    plot: Path | None
    curve: Path | None
    against: str | None

    def __post_init__(self) -> None:
        plotting.check_plot_path(self.who, self.plot)
        if self.against is not None and self.plot is None and self.curve is None:
            raise ValueError(f"{self.who}: --against is about the figure; add --plot FILE or --curve FILE.csv.")
        if self.against is not None and self.against not in AXES:
            raise ValueError(f"{self.who}: --against must be one of {', '.join(AXES)}, got {self.against!r}.")
        check_curve_path(self.who, self.curve)

    def write(
        self,
        choice: RandomizerOptions,
        subject: Randomizer,
        schedule: Participation,
        delta: float | None,
        bound: str,
        colluding: float,
    ) -> None:
        """Computes the values along the axis and writes the figure and the CSV file."""
        if self.plot is None and self.curve is None:
            return
        if delta is None:
            raise ValueError(f"{self.who}: --plot and --curve need --delta.")
        over = self.against or USERS
        local = choice.epsilon_local
        if over == LOCAL_EPSILON and local is None:
            raise ValueError(f"{self.who}: --against {LOCAL_EPSILON} needs --epsilon-local.")
        source = (lambda x: replace(choice, epsilon_local=x).build()) if over == LOCAL_EPSILON else subject
        curve = sweep(
            source, schedule, over=over, delta=delta, local=local, bound=bound, colluding=colluding,
            effort=QUICK_EFFORT, about=_figure_title(choice, schedule, over, delta), progress=ProgressBars(),
        )  # fmt: skip
        self._save(curve)

    def _save(self, found: Sweep) -> None:
        if self.curve is not None:
            found.save(self.curve, self.who)
            output.print_written_path("curve", self.curve)
        if self.plot is not None:
            found.plot(self.plot, self.who)
            output.print_written_path("figure", self.plot)


def _figure_title(choice: RandomizerOptions, schedule: Participation, over: str, delta: float) -> str:
    """Returns the figure's title: the randomizer, and the parameters that are constant along the axis."""
    settings = f" ({', '.join(choice.settings)})" if choice.settings else ""
    name = f"{choice.mechanism}{settings}" if choice.mechanism else "any randomizer with these parameters"
    local = (
        ""
        if over == LOCAL_EPSILON or choice.epsilon_local is None
        else f", local ε = {format_exact(choice.epsilon_local)}"
    )
    users = "" if over == USERS else f", {schedule.expected_users:,} users"
    rounds = "" if schedule.rounds == 1 or over == "rounds" else f", {schedule.rounds:,} rounds"
    at = "" if over == "epsilon" else f", δ = {plotting.format_scientific(delta)}"
    return f"{name}{local}{users}{rounds}{at}"


@options.takes_randomizer("amplify")
def command(
    *,
    users: options.MaybeUsers = None,
    delta: Annotated[float | None, typer.Option(help="Target δ; the answer is ε.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Target ε; the answer is δ.")] = None,
    choice: RandomizerOptions,
    pair: Annotated[
        list[str] | None, typer.Option(metavar="INPUT", help="Metric mechanisms: one of two inputs; give it twice.")
    ] = None,
    diameter: Annotated[
        float | None,
        typer.Option(
            help="Metric mechanisms: inputs at most so many input units apart (metres for degrees, ε for a table)."
        ),
    ] = None,
    bound: Annotated[str, typer.Option(help="Name of the theorem; see the list above.")] = BEST,
    colluding: options.Colluding = 0,
    of: options.PeopleSampledFrom = None,
    rate: options.Rate = None,
    rounds: options.Rounds = 1,
    certificate: Annotated[
        Path | None, typer.Option(help="Write the claim here, rounds and samples included, for `shuffledp verify`.")
    ] = None,
    report: options.Report = None,
    plot: Plot = None,
    curve_file: CurveFile = None,
    against: Against = None,
    effort: options.Effort = FULL_EFFORT,
    json: options.Json = False,
) -> None:
    """Compute the certified central (ε, δ) guarantee of shuffled messages."""
    inputs = None if pair is None else [parse_input_value("amplify", "--pair", text) for text in pair]
    schedule = options.build_participation("amplify", users, of, rate, rounds)
    options.check_report_path("amplify", report)
    sweep_output = SweepOutput("amplify", plot, curve_file, against)
    with show_spinner("Amplifying" if schedule.rounds == 1 else "Composing the rounds") as set_text:
        randomizer = choice.build()
        if (delta is None) == (epsilon is None):
            raise ValueError("amplify: give either --delta (to get ε) or --epsilon (to get δ).")
        subject = restrict_to_inputs(randomizer, inputs, diameter)
        is_simple = schedule.rounds == 1 and not schedule.is_sampled
        if certificate is not None and not is_simple and subject is not randomizer:
            raise ValueError("amplify: --certificate of --pair or --diameter is for one round of all users.")

        def evaluate(curve: PrivacyCurve) -> BoundValue:
            return curve.epsilon(delta) if delta is not None else curve.delta(epsilon or 0.0)

        def compute(effort: str) -> tuple[PrivacyCurve, BoundValue]:
            with validation.relabel_errors("amplify", "subsample", "poisson"):
                curve = schedule.curve(subject, bound=bound, colluding=colluding, effort=effort)
            return curve, evaluate(curve)

        curve, value = compute(QUICK_EFFORT if bound == BEST else effort)
        quick_value = None
        if effort != QUICK_EFFORT and bound == BEST:
            quick_value = value
            set_text(f"At most {output.format_upper(value.upper)} by {value.bound}; searching all datasets")
            curve, value = compute(effort)
        honest = int(schedule.expected_users - colluding)
        # The attack may take as long as the bound.
        publish_early_answer(value.document(attacked=False) | {"users": honest, "rounds": schedule.rounds})
        disclosed_value = None
        if schedule.is_sampled:
            disclosed_value = evaluate(
                schedule.disclosed_sample_curve(subject, bound=bound, colluding=colluding, effort=effort)
            )
        restrictions = {"pair": inputs, "diameter": diameter}
        # A value without a guarantee has no conditions.
        required_conditions = conditions(subject, schedule, colluding=int(colluding)) if value.guarantee else ()
        uncertified_value = value
        if certificate is not None:
            set_text("Proving the certificate")
            claim = certify(
                randomizer, users, delta=delta, epsilon=epsilon, bound=bound, colluding=colluding, of=of, rate=rate,
                rounds=rounds, effort=effort, pair=inputs, diameter=diameter,
            )  # fmt: skip
            theorem = value.theorem
            if claim.bound != value.bound:
                theorem = schedule.curve(subject, bound=claim.bound, colluding=colluding, effort=effort).theorem
            value = claim.certified_value(value, theorem)
            _save_claim(claim, certificate)
        result = AmplificationReport(
            randomizer,
            subject,
            restrictions,
            curve,
            honest,
            value,
            delta,
            epsilon,
            schedule,
            disclosed_value,
            required_conditions,
        )
        document, rows = result.document(), result.rows()
        if certificate is not None:
            document["without_certificate"] = {"upper": uncertified_value.upper, "bound": uncertified_value.bound}
            if output.format_upper(uncertified_value.upper) != output.format_upper(value.upper):
                rows.insert(
                    1,
                    (
                        "without certificate",
                        f"{output.format_upper(uncertified_value.upper)} ({uncertified_value.bound})",
                    ),
                )
        if report is not None:
            options.write_statement("amplify", result.statement(), report)
        if quick_value is not None and quick_value.upper > uncertified_value.upper:
            document["quick"] = {"upper": quick_value.upper, "bound": quick_value.bound}
            rows.insert(1, ("quick answer", f"{output.format_upper(quick_value.upper)} ({quick_value.bound})"))
    with validation.relabel_errors("amplify", "sweep"):
        sweep_output.write(choice, subject, schedule, delta, bound, colluding)
    warnings = delta_warnings(delta, schedule.population_size)
    if json:
        typer.echo(format_json(document | ({"warnings": warnings} if warnings else {})))
    else:
        output.print_rows("Privacy of the shuffled messages", rows, "\n".join(filter(None, [curve.note, *warnings])))
        output.print_written_path("certificate", certificate)
        output.print_conditions(required_conditions)


command.__doc__ = f"{command.__doc__}\n\nBounds: {', '.join(bound_names())}."


@dataclass(frozen=True)
class AmplificationReport:
    """One value of a curve with everything that the command prints about it."""

    randomizer: Randomizer
    subject: Randomizer
    """The randomizer that the curve describes, or its restriction to some inputs."""
    chosen: dict[str, Any]
    curve: PrivacyCurve
    honest: int
    value: BoundValue
    delta: float | None
    epsilon: float | None
    schedule: Participation
    known: BoundValue | None
    """The same value if the drawn users are known to everybody; None without sampling."""
    conditions: tuple[str, ...]

    def statement(self) -> Statement:
        """Returns the statement of the guarantee for `--report`."""
        facts = build_fact_rows(self.subject, self.honest, self.schedule.rows())
        facts += self._input_rows()
        command = options.format_command_line()
        return Statement(self.value, self.conditions, self.known, self.curve, command, facts)

    def document(self) -> dict[str, Any]:
        value = self.value.document()
        document: dict[str, Any] = {
            "epsilon": value.pop("epsilon"),
            "delta": value.pop("delta"),
            "users": self.honest,
            "messages": self.curve.messages,
            **value,
            "note": self.curve.note,
            "parameters": self._parameters(),
            **({"holds_for": self.subject.covered_randomizers} if self.subject.covered_randomizers else {}),
        }
        if isinstance(self.randomizer, Mechanism):
            document["mechanism"] = {"name": self.randomizer.name, **self.randomizer.settings()}
        document |= {name: given for name, given in self.chosen.items() if given is not None}
        document |= self.schedule.to_document()
        if self.known is not None:
            document |= {"condition": SAMPLING_SECRECY_CONDITION, "if_known": self.known.document(attacked=False)}
        return document | {"conditions": list(self.conditions)}

    def rows(self) -> list[tuple[str, str]]:
        value = self.value
        known, answer = ("δ", "ε") if self.epsilon is None else ("ε", "δ")
        given = self.delta if self.epsilon is None else self.epsilon
        return [
            (
                f"{answer} (guaranteed)" if value.guarantee else f"{answer} (published, NOT guaranteed)",
                output.format_epsilon(value.upper) if self.epsilon is None else output.format_upper(value.upper),
            ),
            ("lower bound", "none known" if value.lower is None else output.format_lower(value.lower)),
            ("numerical slack", output.format_slack(value.slack)),
            (known, format_exact(0.0 if given is None else given)),
            *(
                []
                if self.known is None
                else self.schedule.condition_rows(f"{answer} = {output.format_upper(self.known.upper)}")
            ),
            ("users", output.format_users(self.honest, self.curve.messages)),
            *self._mechanism_rows(),
            *self._input_rows(),
            *self.schedule.rows(),
            ("bound", value.bound),
            ("theorem", value.theorem),
            *output.paper_rows(value.theorem),
            ("certificate", _describe_certificate(value)),
            *self._parameter_rows(),
            *([("holds for", self.subject.covered_randomizers)] if self.subject.covered_randomizers else []),
        ]

    def _input_rows(self) -> list[tuple[str, str]]:
        unit = {"diameter": " input units"}
        return [(name, f"{given!r}{unit.get(name, '')}") for name, given in self.chosen.items() if given is not None]

    def _parameter_rows(self) -> list[tuple[str, str]]:
        words = ", ".join(f"{name} = {number:.6g}" for name, number in self._parameters().items())
        return [("parameters", words)] if words else []

    def _mechanism_rows(self) -> list[tuple[str, str]]:
        if not isinstance(self.randomizer, Mechanism):
            return []
        return [("mechanism", f"{self.randomizer.name}: {format_settings(self.randomizer.settings())}")]

    def _parameters(self) -> dict[str, float]:
        return self.subject.ratio_parameters()


def _save_claim(claim: Claim, path: Path) -> None:
    try:
        claim.save(path)
    except OSError as error:
        raise ValueError(f"amplify: cannot write {path}: {error.strerror}.") from None


def _describe_certificate(value: BoundValue) -> str:
    if not value.guarantee:
        return "the formula's value is exact, but the formula is not an upper bound"
    return "proved, rounding included" if value.certified else "none"
