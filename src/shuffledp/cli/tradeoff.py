"""``shuffledp tradeoff``: what an attacker can do, as numbers, a curve or a figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from shuffledp import argument, figure as figures
from shuffledp.bounds.best import NAME as BEST, QUICK
from shuffledp.bounds.schedule import CONDITION, Schedule
from shuffledp.calibration.calibrate import Calibration, calibrate
from shuffledp.calibration.risk_target import RiskTarget
from shuffledp.cli import options, show
from shuffledp.cli.bars import waiting
from shuffledp.cli.randomizer import Choice
from shuffledp.cli.trade_off_figure import draw
from shuffledp.document import json_text
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.statement.condition import conditions
from shuffledp.tradeoff.guaranteed import GuaranteedTradeOff, trade_off
from shuffledp.tradeoff.risk import AttackRisk
from shuffledp.tradeoff.trade_off import TradeOff
from shuffledp.tradeoff.trade_off_curve import privacy_curve

LEVELS = (1e-4, 1e-3, 1e-2, 1e-1)
MOST_POINTS = 100_000
Curves = Callable[[], dict[str, TradeOff]]
"""Computed only where they are drawn."""


@options.takes_randomizer("tradeoff")
def command(
    *,
    users: options.MaybeUsers = None,
    choice: Choice,
    bound: options.BoundName = BEST,
    colluding: options.Colluding = 0,
    of: options.Of = None,
    rate: options.Rate = None,
    rounds: options.Rounds = 1,
    step: Annotated[
        str | None, typer.Option(help="Instead: one noisy gradient step, least-squares or logistic, with --set.")
    ] = None,
    fpr: Annotated[
        list[float] | None, typer.Option(metavar="RATE", help="A false-positive rate to look at; may be repeated.")
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
    """What any attack on the shuffled messages can do, certified.

    With a target and no --users: the smallest number of users. With a target, --users and no --epsilon-local: the
    largest local ε.
    """
    if not 2 <= points <= MOST_POINTS:
        raise ValueError(f"tradeoff: --points must be between 2 and {MOST_POINTS:,}, got {points}.")
    figures.demand_place("tradeoff", plot)
    if plot is None and (log or against):
        raise ValueError("tradeoff: --against and --log are about the figure; add --plot FILE.")
    target = _target(tpr, advantage, bayes_risk, ppv, fpr, prior)
    levels = tuple(fpr or LEVELS)
    with waiting("Computing"):
        if step is not None:
            named = dataclasses.replace(choice, settings=()) != Choice("tradeoff")
            asked = users is not None or of is not None or rate is not None or rounds != 1
            if named or target is not None or asked or against or colluding or bound != BEST:
                raise ValueError("tradeoff: --step goes with --set, --fpr, --prior and the output options only.")
            report, curves = _step_report(step, choice.settings, levels, prior)
        else:
            around = {"users": users, "of": of, "rate": rate, "rounds": rounds}
            report, curves = _shuffled_report(choice, around, target, bound, colluding, levels, prior, against or [])
        document = report.document(points)
        if plot is not None:
            draw(curves(), plot, title=report.subject.capitalize(), log=log)
            if not json:
                show.written("figure", plot)
    if json:
        typer.echo(json_text(document))
    else:
        show.rows(f"What attacks on {report.subject} can do", report.rows(document), report.curve.note)
        if "conditions" in document:
            show.conditions(document["conditions"])


def _step_report(
    name: str, settings: tuple[str, ...], levels: tuple[float, ...], prior: float
) -> tuple[RiskReport, Curves]:
    # Needs scipy, which the other commands do without.
    from shuffledp.cli import noisy_step

    choice = noisy_step.build(name, settings)
    whole = choice.step.guaranteed()
    curves: dict[str, TradeOff] = {"random start": whole}
    extra: dict[str, Any] = {"step": name, **choice.settings, "noise": choice.step.noise}
    if choice.plain is not None:
        curves["plain Gaussian step"] = choice.plain
        extra["plain_advantage"] = choice.plain.advantage()
    report = RiskReport("one noisy gradient step", privacy_curve(whole), whole, levels, prior, extra)
    return report, lambda: curves


def _shuffled_report(
    choice: Choice,
    around: dict[str, Any],
    target: RiskTarget | None,
    bound: str,
    colluding: float,
    levels: tuple[float, ...],
    prior: float,
    against: list[str],
) -> tuple[RiskReport, Curves]:
    extra: dict[str, Any] = {}
    known: PrivacyCurve | None = None
    if target is not None:
        if colluding:
            raise ValueError("tradeoff: --colluding does not go with a target.")
        found = _calibrated(choice, around, target, bound)
        curve, randomizer, schedule, known = found.curve, found.mechanism, found.schedule, found.known
        extra["calibrated"] = {found.setting: found.value, "risk": found.risk.value}
    else:
        if around["users"] is None and around["rate"] is None:
            raise ValueError(
                "tradeoff: give --users, or a target (--tpr, --advantage, --bayes-risk or --ppv), or --of and --rate."
            )
        schedule = options.schedule_of("tradeoff", **around)
        randomizer = choice.build()
        with argument.said_by("tradeoff", "amplify", "subsample", "poisson"):
            curve = schedule.curve(randomizer, bound=bound, colluding=colluding, effort=QUICK)
            if schedule.is_sampled:
                known = schedule.known(randomizer, bound=bound, colluding=colluding, effort=QUICK)
    honest = int(schedule.expected - colluding)
    whole = trade_off(curve)
    needed = conditions(randomizer, schedule, colluding=int(colluding))
    extra |= {"users": honest, "messages": curve.messages, **schedule.document(), "conditions": list(needed)}
    if known is not None:
        extra |= {"condition": CONDITION, "if_known": {"advantage": AttackRisk(known).advantage().value}}

    def curves() -> dict[str, TradeOff]:
        others = _others(randomizer, schedule, int(colluding), curve.messages, against)
        return {f"shuffled ({curve.bound})": whole, **others}

    return RiskReport(f"the messages of {honest:,} users", curve, whole, levels, prior, extra, schedule), curves


def _target(
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


def _calibrated(choice: Choice, around: dict[str, Any], target: RiskTarget, bound: str) -> Calibration:
    if around["users"] is None and around["rate"] is None:
        return calibrate(choice.build(), find="users", target=target, bound=bound, effort=QUICK, **around)
    if choice.epsilon_local is not None or choice.p is not None or choice.table is not None:
        raise ValueError("tradeoff: a target asks for --users or for the local ε: leave out one of the two.")
    return calibrate(choice.with_setting("epsilon"), target=target, bound=bound, effort=QUICK, **around)


def _others(
    randomizer: Randomizer, schedule: Schedule, colluding: int, messages: int, against: list[str]
) -> dict[str, TradeOff]:
    """Other bounds to compare with, and one message that nobody hides."""
    curves: dict[str, TradeOff] = {}
    for name in against:
        other = schedule.curve(randomizer, bound=name, colluding=colluding)
        curves[name if other.guarantee else f"{name} (no guarantee)"] = trade_off(other)
    try:
        parameters = randomizer.variation_ratio()
    except NotApplicable:
        return curves
    alone = parameters.largest_log_ratio()
    if alone <= LARGEST_EPSILON and messages == schedule.expected - colluding and schedule.rounds == 1:
        ends = np.array([0.0, alone]), np.array([parameters.beta, 0.0])
        curves["one message, not shuffled"] = GuaranteedTradeOff(*ends)
    return curves


@dataclasses.dataclass(frozen=True)
class RiskReport:
    """Everything that the command says about one curve."""

    subject: str
    curve: PrivacyCurve
    whole: GuaranteedTradeOff
    levels: tuple[float, ...]
    prior: float
    extra: dict[str, Any]
    schedule: Schedule | None = None

    def document(self, points: int) -> dict[str, Any]:
        # A target was checked by the search's own ε, so its number is shown by the same.
        risk = AttackRisk(self.curve, None if "calibrated" in self.extra else self.whole)
        advantage = risk.advantage()
        x = np.linspace(0.0, 1.0, points)
        prior = self.prior
        return {
            "advantage": {"lower": advantage.attained, "upper": advantage.value},
            "tpr": [{"fpr": level, "tpr": risk.tpr(level).value} for level in self.levels],
            "bayes_risk": {"prior": prior, "risk": risk.bayes_risk(prior).value},
            "ppv": [{"fpr": level, "prior": prior, "ppv": risk.ppv(level, prior).value} for level in self.levels],
            "bound": self.curve.bound,
            "theorem": self.whole.theorem,
            "certified": self.whole.certified,
            "guarantee": self.whole.guarantee,
            "note": self.curve.note,
            "curve": {"fpr": x.tolist(), "fnr": self.whole.fnr(x).tolist()},
            **self.extra,
        }

    def rows(self, document: dict[str, Any]) -> list[tuple[str, str]]:
        sure = "at most" if self.whole.guarantee else "as published, NOT guaranteed,"
        advantage = document["advantage"]
        attained = advantage["lower"]
        lower = "" if attained is None else f" (an attack on a constructed dataset achieves {show.lower(attained)})"
        certificate = "proved, rounding included" if self.whole.certified else "none: floats"
        return [
            *self._calibrated_rows(document.get("calibrated", {})),
            ("advantage TPR - FPR", f"{sure} {show.upper(advantage['upper'])}{lower}"),
            *((f"TPR at FPR {row['fpr']:g}", f"{sure} {show.upper(row['tpr'])}") for row in document["tpr"]),
            (f"error at prior {self.prior:g}", f"at least {show.lower(document['bayes_risk']['risk'])}"),
            *((f"precision at FPR {row['fpr']:g}", f"{sure} {show.upper(row['ppv'])}") for row in document["ppv"]),
            *self._plain_rows(document.get("plain_advantage")),
            *([("users", show.crowd(document["users"], document["messages"]))] if "users" in document else []),
            *self._schedule_rows(document),
            ("bound", self.curve.bound),
            ("theorem", self.whole.theorem),
            *show.papers(self.whole.theorem),
            ("certificate", certificate),
        ]

    def _schedule_rows(self, document: dict[str, Any]) -> list[tuple[str, str]]:
        if self.schedule is None:
            return []
        left = document.get("if_known", {}).get("advantage")
        condition = [] if left is None else self.schedule.condition(f"advantage at most {show.upper(left)}")
        return [*self.schedule.rows(), *condition]

    def _calibrated_rows(self, found: dict[str, float]) -> list[tuple[str, str]]:
        texts = {"users": "users needed", "epsilon_local": "largest local ε"}
        return [
            (text, f"{found[name]:,}" if name == "users" else show.lower(found[name]))
            for name, text in texts.items()
            if name in found
        ]

    def _plain_rows(self, advantage: float | None) -> list[tuple[str, str]]:
        return [] if advantage is None else [("plain Gaussian step", f"advantage {show.upper(advantage)}")]
