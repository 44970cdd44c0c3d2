"""``shuffledp amplify``: the privacy of shuffled messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from shuffledp import argument
from shuffledp.bounds.amplify import amplify, bound_names, chosen_inputs
from shuffledp.bounds.best import FULL, NAME as BEST, QUICK
from shuffledp.bounds.subsampling import subsample
from shuffledp.certificate.certify import certify
from shuffledp.certificate.claim import Claim
from shuffledp.cli import options, show
from shuffledp.cli.bars import waiting
from shuffledp.cli.randomizer import Choice, number_or_list
from shuffledp.composition.sequential import compose
from shuffledp.document import json_text, settings_text
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue


@options.takes_randomizer("amplify")
def command(
    *,
    users: options.Users,
    delta: Annotated[float | None, typer.Option(help="Target δ; the answer is ε.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Target ε; the answer is δ.")] = None,
    choice: Choice,
    pair: Annotated[
        list[str] | None, typer.Option(metavar="INPUT", help="Metric mechanisms: one of two inputs; give it twice.")
    ] = None,
    diameter: Annotated[float | None, typer.Option(help="Metric mechanisms: inputs at most this far apart.")] = None,
    bound: Annotated[str, typer.Option(help="Which theorem; see the list above.")] = BEST,
    colluding: options.Colluding = 0,
    rounds: Annotated[float, typer.Option(help="How many rounds the same people go through.")] = 1,
    population: Annotated[float | None, typer.Option(help="The users of each round are drawn from so many.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Write the claim here, for `shuffledp verify`.")] = None,
    effort: options.Effort = FULL,
    json: options.Json = False,
) -> None:
    """The central (ε, δ) guarantee of shuffled messages, certified."""
    inputs = None if pair is None else [number_or_list("amplify", "--pair", text) for text in pair]
    repeated = Rounds(argument.count("amplify", "rounds", rounds), population)
    with waiting("Amplifying" if repeated.rounds == 1 else "Composing the rounds") as say:
        randomizer = choice.build()
        if (delta is None) == (epsilon is None):
            raise ValueError("amplify: give either --delta (to get ε) or --epsilon (to get δ).")
        subject = chosen_inputs(randomizer, inputs, diameter)
        if certificate is not None and (subject is not randomizer or repeated != Rounds(1, None)):
            raise ValueError(
                "amplify: --certificate is for one round of all users and all inputs, "
                "without --rounds, --population, --pair and --diameter."
            )

        def answered(effort: str) -> tuple[PrivacyCurve, BoundValue]:
            curve = repeated.curve(amplify(subject, users, bound=bound, colluding=colluding, effort=effort))
            return curve, curve.epsilon(delta) if delta is not None else curve.delta(epsilon or 0.0)

        curve, value = answered(QUICK if bound == BEST else effort)
        quick = None
        if effort != QUICK and bound == BEST:
            quick = value
            say(f"At most {show.upper(value.upper)} by {value.bound}; looking at every crowd")
            curve, value = answered(effort)
        chosen = {"pair": inputs, "diameter": diameter}
        answer = Answer(randomizer, subject, chosen, curve, int(users - colluding), value, delta, epsilon)
        if certificate is not None:
            claim = certify(
                randomizer, users, delta=delta, epsilon=epsilon, bound=bound, colluding=colluding, effort=effort
            )
            _save(claim, certificate, value)
        document, rows = answer.document() | repeated.document(), answer.rows(repeated.rows())
        if quick is not None and quick.upper > value.upper:
            document["quick"] = {"upper": quick.upper, "bound": quick.bound}
            rows.insert(1, ("quick answer", f"{show.upper(quick.upper)} ({quick.bound})"))
    if json:
        typer.echo(json_text(document))
    else:
        show.rows("Privacy of the shuffled messages", rows, curve.note)


command.__doc__ = f"{command.__doc__}\n\nBounds: {', '.join(bound_names())}."


@dataclass(frozen=True)
class Rounds:
    """How often the round is run, and from how many its users are drawn each time (None: always the same ones)."""

    rounds: int
    population: float | None

    def curve(self, once: PrivacyCurve) -> PrivacyCurve:
        drawn = once if self.population is None else subsample(once, self.population)
        return compose(drawn, self.rounds)

    def document(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "population": None if self.population is None else int(self.population)}

    def rows(self) -> list[tuple[str, str]]:
        drawn = [] if self.population is None else [("drawn from", f"{int(self.population):,}, each round anew")]
        return drawn + ([] if self.rounds == 1 else [("rounds", f"{self.rounds:,}")])


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
        return document | {name: given for name, given in self.chosen.items() if given is not None}

    def rows(self, repeated: list[tuple[str, str]]) -> list[tuple[str, str]]:
        value = self.value
        known, answer = ("δ", "ε") if self.epsilon is None else ("ε", "δ")
        given = self.delta if self.epsilon is None else self.epsilon
        return [
            (f"{answer} (guaranteed)" if value.guarantee else f"{answer} (published, NOT guaranteed)",
             show.epsilon(value.upper) if self.epsilon is None else show.upper(value.upper)),
            ("lower bound", "none known" if value.lower is None else show.lower(value.lower)),
            ("numerical slack", show.slack(value.slack)),
            (known, repr(given)),
            ("users", show.crowd(self.honest, self.curve.messages)),
            *self._mechanism(),
            *((name, repr(given)) for name, given in self.chosen.items() if given is not None),
            *repeated,
            ("bound", value.bound),
            ("theorem", value.theorem),
            ("certificate", _certificate(value)),
            *self._shown_parameters(),
            *([("holds for", self.subject.holds_for)] if self.subject.holds_for else []),
        ]  # fmt: skip

    def _shown_parameters(self) -> list[tuple[str, str]]:
        words = ", ".join(f"{name} = {number:.6g}" for name, number in self._parameters().items())
        return [("parameters", words)] if words else []

    def _mechanism(self) -> list[tuple[str, str]]:
        if not isinstance(self.randomizer, Mechanism):
            return []
        return [("mechanism", f"{self.randomizer.name}: {settings_text(self.randomizer.settings())}")]

    def _parameters(self) -> dict[str, float]:
        return self.subject.told_parameters()


def _save(claim: Claim, path: Path, value: BoundValue) -> None:
    """Write the claim; where the best bound has no second proof here, it is that of one that has."""
    if claim.bound != value.bound:
        show.note(f"{value.bound} has no second proof here, so the certificate claims what {claim.bound} gives.")
    try:
        claim.save(path)
    except OSError as error:
        raise ValueError(f"amplify: cannot write {path}: {error.strerror}.") from None


def _certificate(value: BoundValue) -> str:
    if not value.guarantee:
        return "the formula's value is exact, but the formula is not an upper bound"
    return "proved, rounding included" if value.certified else "none"
