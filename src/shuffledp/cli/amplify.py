"""``shuffledp amplify``: the privacy of shuffled messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from shuffledp import argument
from shuffledp.bounds.amplify import bound_names, chosen_inputs
from shuffledp.bounds.best import FULL, NAME as BEST, QUICK
from shuffledp.bounds.schedule import CONDITION, Schedule
from shuffledp.certificate.certify import certify
from shuffledp.certificate.claim import Claim
from shuffledp.cli import options, report as report_option, show, sweep
from shuffledp.cli.bars import know, waiting
from shuffledp.cli.randomizer import Choice, number_or_list
from shuffledp.document import json_text, settings_text, typed
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.statement.condition import conditions
from shuffledp.statement.exposure import caution
from shuffledp.statement.statement import Statement, facts_of


@options.takes_randomizer("amplify")
def command(
    *,
    users: options.MaybeUsers = None,
    delta: Annotated[float | None, typer.Option(help="Target δ; the answer is ε.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Target ε; the answer is δ.")] = None,
    choice: Choice,
    pair: Annotated[
        list[str] | None, typer.Option(metavar="INPUT", help="Metric mechanisms: one of two inputs; give it twice.")
    ] = None,
    diameter: Annotated[
        float | None,
        typer.Option(
            help="Metric mechanisms: inputs at most so many input units apart (metres for degrees, ε for a table)."
        ),
    ] = None,
    bound: Annotated[str, typer.Option(help="Which theorem; see the list above.")] = BEST,
    colluding: options.Colluding = 0,
    of: options.Of = None,
    rate: options.Rate = None,
    rounds: options.Rounds = 1,
    certificate: Annotated[
        Path | None, typer.Option(help="Write the claim here, rounds and samples included, for `shuffledp verify`.")
    ] = None,
    report: report_option.Report = None,
    plot: sweep.Plot = None,
    curve_file: sweep.CurveFile = None,
    against: sweep.Against = None,
    effort: options.Effort = FULL,
    json: options.Json = False,
) -> None:
    """The central (ε, δ) guarantee of shuffled messages, certified."""
    inputs = None if pair is None else [number_or_list("amplify", "--pair", text) for text in pair]
    schedule = options.schedule_of("amplify", users, of, rate, rounds)
    report_option.demand_place("amplify", report)
    wanted = sweep.Wanted("amplify", plot, curve_file, against)
    with waiting("Amplifying" if schedule.rounds == 1 else "Composing the rounds") as say:
        randomizer = choice.build()
        if (delta is None) == (epsilon is None):
            raise ValueError("amplify: give either --delta (to get ε) or --epsilon (to get δ).")
        subject = chosen_inputs(randomizer, inputs, diameter)
        is_simple = schedule.rounds == 1 and not schedule.is_sampled
        if certificate is not None and not is_simple and subject is not randomizer:
            raise ValueError("amplify: --certificate of --pair or --diameter is for one round of all users.")

        def asked(curve: PrivacyCurve) -> BoundValue:
            return curve.epsilon(delta) if delta is not None else curve.delta(epsilon or 0.0)

        def answered(effort: str) -> tuple[PrivacyCurve, BoundValue]:
            with argument.said_by("amplify", "subsample", "poisson"):
                curve = schedule.curve(subject, bound=bound, colluding=colluding, effort=effort)
            return curve, asked(curve)

        curve, value = answered(QUICK if bound == BEST else effort)
        quick = None
        if effort != QUICK and bound == BEST:
            quick = value
            say(f"At most {show.upper(value.upper)} by {value.bound}; looking at every crowd")
            curve, value = answered(effort)
        honest = int(schedule.expected - colluding)
        # The attack may take as long again.
        know(value.document(attacked=False) | {"users": honest, "rounds": schedule.rounds})
        known = None
        if schedule.is_sampled:
            known = asked(schedule.known(subject, bound=bound, colluding=colluding, effort=effort))
        chosen = {"pair": inputs, "diameter": diameter}
        # What promises nothing needs no conditions.
        needed = conditions(subject, schedule, colluding=int(colluding)) if value.guarantee else ()
        found = value
        if certificate is not None:
            say("Proving the certificate")
            claim = certify(
                randomizer, users, delta=delta, epsilon=epsilon, bound=bound, colluding=colluding, of=of, rate=rate,
                rounds=rounds, effort=effort, pair=inputs, diameter=diameter,
            )  # fmt: skip
            theorem = value.theorem
            if claim.bound != value.bound:
                theorem = schedule.curve(subject, bound=claim.bound, colluding=colluding, effort=effort).theorem
            value = claim.stated(value, theorem)
            _save(claim, certificate)
        answer = Answer(randomizer, subject, chosen, curve, honest, value, delta, epsilon, schedule, known, needed)
        document, rows = answer.document(), answer.rows()
        if certificate is not None:
            document["without_certificate"] = {"upper": found.upper, "bound": found.bound}
            if show.upper(found.upper) != show.upper(value.upper):
                rows.insert(1, ("without certificate", f"{show.upper(found.upper)} ({found.bound})"))
        if report is not None:
            report_option.write("amplify", answer.statement(), report)
        if quick is not None and quick.upper > found.upper:
            document["quick"] = {"upper": quick.upper, "bound": quick.bound}
            rows.insert(1, ("quick answer", f"{show.upper(quick.upper)} ({quick.bound})"))
    with argument.said_by("amplify", "sweep"):
        wanted.write(choice, subject, schedule, delta, bound, colluding)
    cautions = caution(delta, schedule.people)
    if json:
        typer.echo(json_text(document | ({"warnings": cautions} if cautions else {})))
    else:
        show.rows("Privacy of the shuffled messages", rows, "\n".join(filter(None, [curve.note, *cautions])))
        show.written("certificate", certificate)
        show.conditions(needed)


command.__doc__ = f"{command.__doc__}\n\nBounds: {', '.join(bound_names())}."


@dataclass(frozen=True)
class Answer:
    """One value of a curve, and all that is said about it."""

    randomizer: Randomizer
    subject: Randomizer
    """What the curve is of: the randomizer, or chosen inputs of it."""
    chosen: dict[str, Any]
    curve: PrivacyCurve
    honest: int
    value: BoundValue
    delta: float | None
    epsilon: float | None
    schedule: Schedule
    known: BoundValue | None
    """The same value if everybody learns who was drawn; None where nobody is."""
    conditions: tuple[str, ...]

    def statement(self) -> Statement:
        """The same for people who must defend it."""
        facts = facts_of(self.subject, self.honest, self.schedule.rows())
        facts += self._shown_inputs()
        command = report_option.command_typed()
        return Statement(self.value, self.conditions, self.known, self.curve, command, facts)

    def document(self) -> dict[str, Any]:
        said = self.value.document()
        document: dict[str, Any] = {
            "epsilon": said.pop("epsilon"),
            "delta": said.pop("delta"),
            "users": self.honest,
            "messages": self.curve.messages,
            **said,
            "note": self.curve.note,
            "parameters": self._parameters(),
            **({"holds_for": self.subject.holds_for} if self.subject.holds_for else {}),
        }
        if isinstance(self.randomizer, Mechanism):
            document["mechanism"] = {"name": self.randomizer.name, **self.randomizer.settings()}
        document |= {name: given for name, given in self.chosen.items() if given is not None}
        document |= self.schedule.document()
        if self.known is not None:
            document |= {"condition": CONDITION, "if_known": self.known.document(attacked=False)}
        return document | {"conditions": list(self.conditions)}

    def rows(self) -> list[tuple[str, str]]:
        value = self.value
        known, answer = ("δ", "ε") if self.epsilon is None else ("ε", "δ")
        given = self.delta if self.epsilon is None else self.epsilon
        return [
            (f"{answer} (guaranteed)" if value.guarantee else f"{answer} (published, NOT guaranteed)",
             show.epsilon(value.upper) if self.epsilon is None else show.upper(value.upper)),
            ("lower bound", "none known" if value.lower is None else show.lower(value.lower)),
            ("numerical slack", show.slack(value.slack)),
            (known, typed(0.0 if given is None else given)),
            *([] if self.known is None else self.schedule.condition(f"{answer} = {show.upper(self.known.upper)}")),
            ("users", show.crowd(self.honest, self.curve.messages)),
            *self._mechanism(),
            *self._shown_inputs(),
            *self.schedule.rows(),
            ("bound", value.bound),
            ("theorem", value.theorem),
            *show.papers(value.theorem),
            ("certificate", _certificate(value)),
            *self._shown_parameters(),
            *([("holds for", self.subject.holds_for)] if self.subject.holds_for else []),
        ]  # fmt: skip

    def _shown_inputs(self) -> list[tuple[str, str]]:
        unit = {"diameter": " input units"}
        return [(name, f"{given!r}{unit.get(name, '')}") for name, given in self.chosen.items() if given is not None]

    def _shown_parameters(self) -> list[tuple[str, str]]:
        words = ", ".join(f"{name} = {number:.6g}" for name, number in self._parameters().items())
        return [("parameters", words)] if words else []

    def _mechanism(self) -> list[tuple[str, str]]:
        if not isinstance(self.randomizer, Mechanism):
            return []
        return [("mechanism", f"{self.randomizer.name}: {settings_text(self.randomizer.settings())}")]

    def _parameters(self) -> dict[str, float]:
        return self.subject.told_parameters()


def _save(claim: Claim, path: Path) -> None:
    try:
        claim.save(path)
    except OSError as error:
        raise ValueError(f"amplify: cannot write {path}: {error.strerror}.") from None


def _certificate(value: BoundValue) -> str:
    if not value.guarantee:
        return "the formula's value is exact, but the formula is not an upper bound"
    return "proved, rounding included" if value.certified else "none"
