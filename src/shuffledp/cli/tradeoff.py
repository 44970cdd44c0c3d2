"""``shuffledp tradeoff``: bounds on attacks as numbers, a trade-off curve or a figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from shuffledp._core import plotting, validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.formatting import format_json
from shuffledp._core.validation import Floats
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION, Participation
from shuffledp.bounds.pointwise_minimum import BEST_BOUND_NAME as BEST
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.calibration.calibrate import Calibration, calibrate
from shuffledp.calibration.targets import RiskTarget
from shuffledp.cli import options, output
from shuffledp.cli.options import RandomizerOptions, parse_settings
from shuffledp.cli.output import show_spinner
from shuffledp.privacy.attack_risk import AttackRisk
from shuffledp.privacy.curve import MAX_EPSILON, PrivacyCurve
from shuffledp.privacy.guaranteed_tradeoff import GuaranteedTradeOff, trade_off
from shuffledp.privacy.random_initialization import Gradient, LeastSquares, Logistic, NoisyStep
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.privacy.tradeoff import GaussianTradeOff, TradeOff, privacy_curve
from shuffledp.statement import conditions

# --- Noisy gradient steps: --step NAME --set name=value ---


GRADIENTS: dict[str, tuple[Callable[..., Gradient], tuple[str, ...]]] = {
    "least-squares": (LeastSquares, ("optimum", "clip")),
    "logistic": (Logistic, ("limit",)),
}


@dataclass(frozen=True)
class GradientStepOptions:
    """A noisy gradient step, and the plain Gaussian step with the same largest gradient if gradients are bounded."""

    name: str
    settings: dict[str, float]
    step: NoisyStep
    plain: GaussianTradeOff | None


def build_step(name: str, settings: tuple[str, ...]) -> GradientStepOptions:
    """Builds the step by name; raises ValueError if the name or a setting is unknown."""
    if name not in GRADIENTS:
        raise ValueError(f"tradeoff: --step must be one of {', '.join(GRADIENTS)}, got {name!r}.")
    kind, known = GRADIENTS[name]
    numbers: dict[str, float] = {}
    for key, text in parse_settings("tradeoff", settings).items():
        if key not in (*known, "noise"):
            raise ValueError(f"tradeoff: {name} takes --set {', '.join((*known, 'noise'))}, got {key!r}.")
        try:
            numbers[key] = float(text)
        except ValueError:
            raise ValueError(f"tradeoff: {key} must be a number, got {text!r}.") from None
    noise = numbers.pop("noise", 1.0)
    step = NoisyStep(kind(**numbers), noise)
    limit = step.gradient.largest_size()
    return GradientStepOptions(name, numbers, step, GaussianTradeOff(limit / noise) if limit < float("inf") else None)


# --- Figures ---


MIN_PLOT_RATE = 1e-6


def plot_levels() -> Floats:
    """Returns the type I errors at which curves are drawn, dense near both ends."""
    small = np.geomspace(MIN_PLOT_RATE * 1e-3, 0.5, 400)
    return np.unique(np.concatenate([[0.0], small, 1.0 - small, [1.0]]))


def draw_curves(curves: Mapping[str, TradeOff], path: Path, *, title: str = "", log: bool = False) -> None:
    """Draws type II against type I errors, or power on logarithmic axes, to a file (png, pdf or svg by its suffix)."""
    from matplotlib.figure import Figure

    with plotting.figure_style():
        figure = Figure(figsize=(5.2, 4.6), layout="constrained")
        axes = figure.subplots()
        x = plot_levels()
        for place, (name, curve) in enumerate(curves.items()):
            y = curve.tpr(x) if log else curve.fnr(x)
            # The first curve is wide, so that the dashes of a curve that coincides with it remain visible.
            width = 2.6 if place == 0 else 1.4
            axes.plot(x, y, label=name, linewidth=width, zorder=3 + place, **plotting.line_style(place))
        axes.plot(x, x if log else 1 - x, label="perfect privacy", color="0.55", linewidth=1.0, zorder=1)
        if log:
            axes.set(xscale="log", yscale="log", xlim=(MIN_PLOT_RATE, 1), ylim=(MIN_PLOT_RATE, 1))
            axes.set(xlabel="false-positive rate", ylabel="largest true-positive rate")
        else:
            axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="type I error (false-positive rate)")
            axes.set_ylabel("smallest type II error (false-negative rate)")
        axes.set_aspect("equal")
        axes.grid(visible=True, which="major")
        if title:
            axes.set_title(title, fontsize=10)
        axes.legend(loc="lower right" if log else "upper right")
        plotting.save_figure("tradeoff", figure, path)


DEFAULT_LEVELS = (1e-4, 1e-3, 1e-2, 1e-1)
MAX_POINTS = 100_000
LazyCurves = Callable[[], dict[str, TradeOff]]
"""Trade-off curves by label, computed only if they are drawn."""


@options.takes_randomizer("tradeoff")
def command(
    *,
    users: options.MaybeUsers = None,
    choice: RandomizerOptions,
    bound: options.BoundName = BEST,
    colluding: options.Colluding = 0,
    of: options.PeopleSampledFrom = None,
    rate: options.Rate = None,
    rounds: options.Rounds = 1,
    step: Annotated[
        str | None, typer.Option(help="Instead: one noisy gradient step, least-squares or logistic, with --set.")
    ] = None,
    fpr: Annotated[
        list[float] | None, typer.Option(metavar="RATE", help="A false-positive rate to evaluate; may be repeated.")
    ] = None,
    prior: Annotated[float, typer.Option(help="The attacker's prior of the second dataset.")] = 0.5,
    tpr: Annotated[float | None, typer.Option(help="Target: at most this TPR at --fpr.")] = None,
    advantage: Annotated[float | None, typer.Option(help="Target: at most this TPR - FPR.")] = None,
    bayes_risk: Annotated[float | None, typer.Option(help="Target: at least this error at --prior.")] = None,
    ppv: Annotated[float | None, typer.Option(help="Target: at most this precision at --fpr, --prior.")] = None,
    against: Annotated[
        list[str] | None, typer.Option(metavar="BOUND", help="Another bound to draw too; may be repeated.")
    ] = None,
    points: Annotated[int, typer.Option(help="Points of the curve in --json.")] = 101,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve to this file (png, pdf, svg).")] = None,
    log: Annotated[bool, typer.Option("--log", help="Draw TPR against FPR on logarithmic axes.")] = False,
    json: options.Json = False,
) -> None:
    """Bound every attack on the shuffled messages, certified.

    With a target and no --users: the smallest number of users. With a target, --users and no --epsilon-local: the
    largest local ε.
    """
    if not 2 <= points <= MAX_POINTS:
        raise ValueError(f"tradeoff: --points must be between 2 and {MAX_POINTS:,}, got {points}.")
    plotting.check_plot_path("tradeoff", plot)
    if plot is None and (log or against):
        raise ValueError("tradeoff: --against and --log are about the figure; add --plot FILE.")
    target = _parse_target(tpr, advantage, bayes_risk, ppv, fpr, prior)
    levels = tuple(fpr or DEFAULT_LEVELS)
    with show_spinner("Computing"):
        if step is not None:
            has_randomizer = dataclasses.replace(choice, settings=()) != RandomizerOptions("tradeoff")
            has_users = users is not None or of is not None or rate is not None or rounds != 1
            if has_randomizer or target is not None or has_users or against or colluding or bound != BEST:
                raise ValueError("tradeoff: --step goes with --set, --fpr, --prior and the output options only.")
            report, curves = _build_step_report(step, choice.settings, levels, prior)
        else:
            participation_options = {"users": users, "of": of, "rate": rate, "rounds": rounds}
            report, curves = _build_shuffled_report(
                choice, participation_options, target, bound, colluding, levels, prior, against or []
            )
        document = report.document(points)
        if plot is not None:
            draw_curves(curves(), plot, title=report.subject.capitalize(), log=log)
            if not json:
                output.print_written_path("figure", plot)
    if json:
        typer.echo(format_json(document))
    else:
        output.print_rows(f"What attacks on {report.subject} can do", report.rows(document), report.curve.note)
        if "conditions" in document:
            output.print_conditions(document["conditions"])


def _build_step_report(
    name: str, settings: tuple[str, ...], levels: tuple[float, ...], prior: float
) -> tuple[RiskReport, LazyCurves]:
    choice = build_step(name, settings)
    whole = choice.step.guaranteed_curve()
    curves: dict[str, TradeOff] = {"random start": whole}
    extra: dict[str, Any] = {"step": name, **choice.settings, "noise": choice.step.noise}
    if choice.plain is not None:
        curves["plain Gaussian step"] = choice.plain
        extra["plain_advantage"] = choice.plain.advantage()
    report = RiskReport("one noisy gradient step", privacy_curve(whole), whole, levels, prior, extra)
    return report, lambda: curves


def _build_shuffled_report(
    choice: RandomizerOptions,
    participation_options: dict[str, Any],
    target: RiskTarget | None,
    bound: str,
    colluding: float,
    levels: tuple[float, ...],
    prior: float,
    against: list[str],
) -> tuple[RiskReport, LazyCurves]:
    extra: dict[str, Any] = {}
    disclosed_curve: PrivacyCurve | None = None
    if target is not None:
        if colluding:
            raise ValueError("tradeoff: --colluding does not go with a target.")
        calibration = _calibrate(choice, participation_options, target, bound)
        curve, randomizer, schedule, disclosed_curve = (
            calibration.curve,
            calibration.mechanism,
            calibration.schedule,
            calibration.disclosed_sample_curve,
        )
        extra["calibrated"] = {calibration.setting: calibration.value, "risk": calibration.risk.value}
    else:
        if participation_options["users"] is None and participation_options["rate"] is None:
            raise ValueError(
                "tradeoff: give --users, or a target (--tpr, --advantage, --bayes-risk or --ppv), or --of and --rate."
            )
        schedule = options.build_participation("tradeoff", **participation_options)
        randomizer = choice.build()
        with validation.relabel_errors("tradeoff", "amplify", "subsample", "poisson"):
            curve = schedule.curve(randomizer, bound=bound, colluding=colluding, effort=QUICK_EFFORT)
            if schedule.is_sampled:
                disclosed_curve = schedule.disclosed_sample_curve(
                    randomizer, bound=bound, colluding=colluding, effort=QUICK_EFFORT
                )
    honest = int(schedule.expected_users - colluding)
    whole = trade_off(curve)
    required_conditions = conditions(randomizer, schedule, colluding=int(colluding))
    extra |= {
        "users": honest,
        "messages": curve.messages,
        **schedule.to_document(),
        "conditions": list(required_conditions),
    }
    if disclosed_curve is not None:
        extra |= {
            "condition": SAMPLING_SECRECY_CONDITION,
            "if_known": {"advantage": AttackRisk(disclosed_curve).advantage().value},
        }

    def curves() -> dict[str, TradeOff]:
        others = _other_curves(randomizer, schedule, int(colluding), curve.messages, against)
        return {f"shuffled ({curve.bound})": whole, **others}

    return RiskReport(f"the messages of {honest:,} users", curve, whole, levels, prior, extra, schedule), curves


def _parse_target(
    tpr: float | None,
    advantage: float | None,
    bayes_risk: float | None,
    ppv: float | None,
    fpr: list[float] | None,
    prior: float,
) -> RiskTarget | None:
    if tpr is advantage is bayes_risk is ppv is None:
        return None
    level = None
    if tpr is not None or ppv is not None:
        if fpr is None or len(fpr) != 1:
            raise ValueError("tradeoff: a target --tpr or --ppv needs exactly one --fpr.")
        level = fpr[0]
    chance = prior if bayes_risk is not None or ppv is not None else None
    return RiskTarget(advantage, tpr, bayes_risk, ppv, level, chance)


def _calibrate(
    choice: RandomizerOptions, participation_options: dict[str, Any], target: RiskTarget, bound: str
) -> Calibration:
    if participation_options["users"] is None and participation_options["rate"] is None:
        return calibrate(
            choice.build(), find="users", target=target, bound=bound, effort=QUICK_EFFORT, **participation_options
        )
    if choice.epsilon_local is not None or choice.p is not None or choice.table is not None:
        raise ValueError("tradeoff: a target asks for --users or for the local ε: leave out one of the two.")
    return calibrate(
        choice.builder_for_setting("epsilon"), target=target, bound=bound, effort=QUICK_EFFORT, **participation_options
    )


def _other_curves(
    randomizer: Randomizer, schedule: Participation, colluding: int, messages: int, against: list[str]
) -> dict[str, TradeOff]:
    """Returns the trade-off curves of other bounds, and that of one message without shuffling."""
    curves: dict[str, TradeOff] = {}
    for name in against:
        other = schedule.curve(randomizer, bound=name, colluding=colluding)
        curves[name if other.guarantee else f"{name} (no guarantee)"] = trade_off(other)
    try:
        parameters = randomizer.variation_ratio()
    except NotApplicable:
        return curves
    alone = parameters.largest_log_ratio()
    if alone <= MAX_EPSILON and messages == schedule.expected_users - colluding and schedule.rounds == 1:
        ends = np.array([0.0, alone]), np.array([parameters.beta, 0.0])
        curves["one message, not shuffled"] = GuaranteedTradeOff(*ends)
    return curves


@dataclasses.dataclass(frozen=True)
class RiskReport:
    """Everything that the command prints about one curve."""

    subject: str
    curve: PrivacyCurve
    trade_off_curve: GuaranteedTradeOff
    levels: tuple[float, ...]
    prior: float
    extra: dict[str, Any]
    schedule: Participation | None = None

    def document(self, points: int) -> dict[str, Any]:
        # A target was checked with the ε of the search, so the same ε is printed.
        risk = AttackRisk(self.curve, None if "calibrated" in self.extra else self.trade_off_curve)
        advantage = risk.advantage()
        x = np.linspace(0.0, 1.0, points)
        prior = self.prior
        return {
            "advantage": {"lower": advantage.attained, "upper": advantage.value},
            "tpr": [{"fpr": level, "tpr": risk.tpr(level).value} for level in self.levels],
            "bayes_risk": {"prior": prior, "risk": risk.bayes_risk(prior).value},
            "ppv": [{"fpr": level, "prior": prior, "ppv": risk.ppv(level, prior).value} for level in self.levels],
            "bound": self.curve.bound,
            "theorem": self.trade_off_curve.theorem,
            "certified": self.trade_off_curve.certified,
            "guarantee": self.trade_off_curve.guarantee,
            "note": self.curve.note,
            "curve": {"fpr": x.tolist(), "fnr": self.trade_off_curve.fnr(x).tolist()},
            **self.extra,
        }

    def rows(self, document: dict[str, Any]) -> list[tuple[str, str]]:
        sure = "at most" if self.trade_off_curve.guarantee else "as published, NOT guaranteed,"
        advantage = document["advantage"]
        attained = advantage["lower"]
        lower = (
            ""
            if attained is None
            else f" (an attack on a constructed dataset achieves {output.format_lower(attained)})"
        )
        certificate = "proved, rounding included" if self.trade_off_curve.certified else "none: floats"
        return [
            *self._calibrated_rows(document.get("calibrated", {})),
            ("advantage TPR - FPR", f"{sure} {output.format_upper(advantage['upper'])}{lower}"),
            *((f"TPR at FPR {row['fpr']:g}", f"{sure} {output.format_upper(row['tpr'])}") for row in document["tpr"]),
            (f"error at prior {self.prior:g}", f"at least {output.format_lower(document['bayes_risk']['risk'])}"),
            *(
                (f"precision at FPR {row['fpr']:g}", f"{sure} {output.format_upper(row['ppv'])}")
                for row in document["ppv"]
            ),
            *self._plain_rows(document.get("plain_advantage")),
            *([("users", output.format_users(document["users"], document["messages"]))] if "users" in document else []),
            *self._schedule_rows(document),
            ("bound", self.curve.bound),
            ("theorem", self.trade_off_curve.theorem),
            *output.paper_rows(self.trade_off_curve.theorem),
            ("certificate", certificate),
        ]

    def _schedule_rows(self, document: dict[str, Any]) -> list[tuple[str, str]]:
        if self.schedule is None:
            return []
        left = document.get("if_known", {}).get("advantage")
        condition = (
            [] if left is None else self.schedule.condition_rows(f"advantage at most {output.format_upper(left)}")
        )
        return [*self.schedule.rows(), *condition]

    def _calibrated_rows(self, found: dict[str, float]) -> list[tuple[str, str]]:
        texts = {"users": "users needed", "epsilon_local": "largest local ε"}
        return [
            (text, f"{found[name]:,}" if name == "users" else output.format_lower(found[name]))
            for name, text in texts.items()
            if name in found
        ]

    def _plain_rows(self, advantage: float | None) -> list[tuple[str, str]]:
        return [] if advantage is None else [("plain Gaussian step", f"advantage {output.format_upper(advantage)}")]
