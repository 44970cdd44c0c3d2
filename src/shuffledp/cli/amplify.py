"""``shuffledp amplify``: the privacy of shuffled messages."""

from __future__ import annotations

import json as json_module
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from shuffledp import argument
from shuffledp.bounds.amplify import amplify, bound_names, chosen_inputs
from shuffledp.bounds.best import NAME as BEST
from shuffledp.certificate.claim import claim_of, provable
from shuffledp.cli import show
from shuffledp.cli.randomizer import Choice
from shuffledp.composition.sequential import compose
from shuffledp.composition.subsampling import subsample
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.privacy.capability import GivesVariationRatio
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.variation_ratio import VariationRatio

Randomizer = Mechanism | VariationRatio


@dataclass(frozen=True)
class Repeated:
    """How often the round is run, and from how many its users are drawn each time (None: always the same ones)."""

    rounds: int
    population: float | None

    def curve(self, once: PrivacyCurve) -> PrivacyCurve:
        drawn = once if self.population is None else subsample(once, self.population)
        return compose(drawn, self.rounds)

    def waiting(self) -> AbstractContextManager[object]:
        """Something that moves on the terminal while rounds are composed."""
        return nullcontext() if self.rounds == 1 else Console(stderr=True).status("Composing the rounds …")

    def document(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "population": None if self.population is None else int(self.population)}

    def rows(self) -> list[tuple[str, str]]:
        drawn = [] if self.population is None else [("drawn from", f"{int(self.population):,}, each round anew")]
        return drawn + ([] if self.rounds == 1 else [("rounds", f"{self.rounds:,}")])


@dataclass(frozen=True)
class Inputs:
    """The inputs of a metric mechanism that are asked about; all of them if nothing is given."""

    pair: list[Any] | None
    diameter: float | None

    def document(self) -> dict[str, Any]:
        given = {"pair": self.pair, "diameter": self.diameter}
        return {name: value for name, value in given.items() if value is not None}

    def rows(self) -> list[tuple[str, str]]:
        if self.pair is not None:
            return [("inputs", f"{self.pair[0]} against {self.pair[1]} only")]
        return [] if self.diameter is None else [("inputs", f"at most {self.diameter:g} apart")]


def command(
    users: Annotated[float, typer.Option(help="How many users take part, the one to protect included.")],
    delta: Annotated[float | None, typer.Option(help="Target δ; the answer is ε.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Target ε; the answer is δ.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="A name from `shuffledp mechanisms`.")] = None,
    epsilon_local: Annotated[float | None, typer.Option(help="Local ε0; alone: any ε0-LDP randomizer.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting of the mechanism, name=value.")] = None,
    table: Annotated[Path | None, typer.Option(help="CSV of a randomizer: a row per input, no header.")] = None,
    p: Annotated[float | None, typer.Option(help="Largest ratio between two inputs, above 1 or inf.")] = None,
    beta: Annotated[float | None, typer.Option(help="Largest total variation between two inputs.")] = None,
    q: Annotated[float | None, typer.Option(help="Largest ratio to another user's messages.")] = None,
    q0: Annotated[float | None, typer.Option(help="That ratio where input 0 is likelier.")] = None,
    q1: Annotated[float | None, typer.Option(help="That ratio where input 1 is likelier.")] = None,
    q_common: Annotated[float | None, typer.Option(help="That ratio on the part both inputs share.")] = None,
    pair: Annotated[list[str] | None, typer.Option(help="Metric mechanisms: one of two inputs; give it twice.")] = None,
    diameter: Annotated[float | None, typer.Option(help="Metric mechanisms: inputs at most this far apart.")] = None,
    bound: Annotated[str, typer.Option(help="Which theorem; see the list above.")] = "best",
    colluding: Annotated[float, typer.Option(help="Users who tell the analyst their messages.")] = 0,
    rounds: Annotated[float, typer.Option(help="How many rounds the same people go through.")] = 1,
    population: Annotated[float | None, typer.Option(help="The users of each round are drawn from so many.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Write the claim here, for `shuffledp verify`.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """The central (ε, δ) guarantee of shuffled messages, certified."""
    choice = Choice("amplify", mechanism, epsilon_local, tuple(set_ or ()), table, p, beta, q, q0, q1, q_common)
    randomizer = choice.build()
    inputs = Inputs(None if pair is None else [_input(text) for text in pair], diameter)
    subject = chosen_inputs(randomizer, inputs.pair, inputs.diameter)
    if certificate is not None and subject is not randomizer:
        raise ValueError("amplify: a certificate is for all inputs; leave out --pair and --diameter.")
    curve = amplify(subject, users, bound=bound, colluding=colluding)
    honest = int(users - colluding)
    if (delta is None) == (epsilon is None):
        raise ValueError("amplify: give either --delta (to get ε) or --epsilon (to get δ).")
    if certificate is not None and (rounds != 1 or population is not None):
        raise ValueError("amplify: --certificate is for one round of all users, without --rounds and --population.")
    repeated = Repeated(argument.count("amplify", "rounds", rounds), population)
    curve = repeated.curve(curve)
    with repeated.waiting():
        value = curve.epsilon(delta) if delta is not None else curve.delta(_given(epsilon))
    if certificate is not None:
        proved = value
        if bound == BEST:
            proved = provable(randomizer, honest, value, epsilon=epsilon, delta=delta)
            if proved is not value:
                show.note(f"{value.bound} has no second proof, so the certificate claims what {proved.bound} gives.")
        claim = claim_of(randomizer, honest, proved, epsilon=epsilon, delta=delta)
        try:
            certificate.write_text(claim.text(), encoding="utf-8")
        except OSError as error:
            raise ValueError(f"amplify: cannot write {certificate}: {error.strerror}.") from None
    if json:
        document = _document(randomizer, curve, honest, value, delta, epsilon) | repeated.document()
        typer.echo(show.as_json(document | {"parameters": _parameters(subject)} | inputs.document()))
    else:
        _table(randomizer, subject, curve, honest, value, delta, epsilon, [*inputs.rows(), *repeated.rows()])


command.__doc__ = f"{command.__doc__}\n\nBounds: {', '.join(bound_names())}."


def _given(number: float | None) -> float:
    assert number is not None
    return number


def _certificate(value: BoundValue) -> str:
    if not value.guarantee:
        return "the formula's value is exact, but the formula is not an upper bound"
    return "proved in ball arithmetic, rounding included" if value.certified else "none"


def _document(
    randomizer: Randomizer,
    curve: PrivacyCurve,
    honest: int,
    value: BoundValue,
    delta: float | None,
    epsilon: float | None,
) -> dict[str, Any]:
    answer = {"lower": value.lower, "upper": value.upper, "slack": value.slack}
    document = {
        "epsilon": answer if epsilon is None else epsilon,
        "delta": answer if delta is None else delta,
        "users": honest,
        "messages": curve.users,
        "bound": value.bound,
        "theorem": value.theorem,
        "certified": value.certified,
        "guarantee": value.guarantee,
        "note": curve.note,
        "parameters": randomizer.variation_ratio().describe(),
    }
    if isinstance(randomizer, Mechanism):
        document["mechanism"] = {"name": randomizer.name, **randomizer.settings()}
    return document


def _parameters(subject: object) -> dict[str, float]:
    assert isinstance(subject, GivesVariationRatio)
    return subject.variation_ratio().describe()


def _input(text: str) -> Any:
    """One input as typed: a number or a JSON list."""
    try:
        return json_module.loads(text)
    except json_module.JSONDecodeError:
        raise ValueError(f"amplify: --pair must be a number or a JSON list, got {text!r}.") from None


def _table(
    randomizer: Randomizer,
    subject: object,
    curve: PrivacyCurve,
    honest: int,
    value: BoundValue,
    delta: float | None,
    epsilon: float | None,
    extra: list[tuple[str, str]],
) -> None:
    known, answer = ("δ", "ε") if epsilon is None else ("ε", "δ")
    given = delta if epsilon is None else epsilon
    label = f"{answer} (guaranteed)" if value.guarantee else f"{answer} (published, NOT guaranteed)"
    described = _parameters(subject)
    parameters = ", ".join(f"{name} = {text:.6g}" for name, text in described.items())
    pairs = [
        (label, show.upper(value.upper)),
        ("lower bound", "none known" if value.lower is None else show.lower(value.lower)),
        ("numerical slack", show.upper(value.slack, 2)),
        (known, repr(given)),
        ("users", show.crowd(honest, curve.users)),
        *extra,
        ("bound", value.bound),
        ("theorem", value.theorem),
        ("certificate", _certificate(value)),
        ("parameters", parameters),
    ]
    if isinstance(randomizer, Mechanism):
        settings = ", ".join(f"{name} = {text}" for name, text in randomizer.settings().items())
        pairs.insert(pairs.index(("bound", value.bound)), ("mechanism", f"{randomizer.name}: {settings}"))
    show.rows("Privacy of the shuffled messages", pairs, curve.note)
