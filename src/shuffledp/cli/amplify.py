"""``shuffledp amplify``: the privacy of shuffled messages."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shuffledp.bounds.amplify import amplify, bound_names
from shuffledp.cli import show
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.variation_ratio import VariationRatio


def command(
    users: Annotated[float, typer.Option(help="Messages that hide each other, the user's own included.")],
    delta: Annotated[float | None, typer.Option(help="Target δ; the answer is ε.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Target ε; the answer is δ.")] = None,
    epsilon_local: Annotated[float | None, typer.Option(help="Any ε0-LDP randomizer with this ε0.")] = None,
    p: Annotated[float | None, typer.Option(help="Largest ratio between two inputs, above 1 or inf.")] = None,
    beta: Annotated[float | None, typer.Option(help="Largest total variation between two inputs.")] = None,
    q: Annotated[float | None, typer.Option(help="Largest ratio to another user's messages.")] = None,
    q0: Annotated[float | None, typer.Option(help="That ratio where input 0 is likelier.")] = None,
    q1: Annotated[float | None, typer.Option(help="That ratio where input 1 is likelier.")] = None,
    q_common: Annotated[float | None, typer.Option(help="That ratio on the part both inputs share.")] = None,
    bound: Annotated[str, typer.Option(help="Which theorem; see the list below.")] = "best",
    colluding: Annotated[float, typer.Option(help="Users who tell the analyst their message.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """The central (ε, δ) guarantee of shuffled messages, certified."""
    if (delta is None) == (epsilon is None):
        raise ValueError("amplify: give either --delta (to get ε) or --epsilon (to get δ).")
    randomizer = _randomizer(epsilon_local, p, beta, q, q0, q1, q_common)
    curve = amplify(randomizer, users, bound=bound, colluding=colluding)
    value = curve.epsilon(delta) if delta is not None else curve.delta(_given(epsilon))
    if json:
        typer.echo(show.as_json(_document(randomizer, curve, value, delta, epsilon)))
    else:
        _table(randomizer, curve, value, delta, epsilon)


command.__doc__ = f"{command.__doc__}\n\nBounds: {', '.join(bound_names())}."


def _given(number: float | None) -> float:
    assert number is not None
    return number


def _randomizer(
    epsilon_local: float | None,
    p: float | None,
    beta: float | None,
    q: float | None,
    q0: float | None,
    q1: float | None,
    q_common: float | None,
) -> VariationRatio:
    raw = {"--p": p, "--beta": beta, "--q": q, "--q0": q0, "--q1": q1, "--q-common": q_common}
    if epsilon_local is not None:
        extra = [name for name, value in raw.items() if value is not None]
        if extra:
            raise ValueError(f"amplify: --epsilon-local stands alone, got {', '.join(extra)} too.")
        return VariationRatio.of_ldp(epsilon_local)
    if p is None or beta is None:
        raise ValueError("amplify: give --epsilon-local, or --p, --beta and --q (or --q0 and --q1).")
    if q is not None and q0 is None and q1 is None:
        return VariationRatio(p, beta, q, q_common)
    if q is None and q0 is not None and q1 is not None:
        return VariationRatio(p, beta, (q0, q1), q_common)
    raise ValueError("amplify: give either --q, or both --q0 and --q1.")


def _document(
    randomizer: VariationRatio,
    curve: PrivacyCurve,
    value: BoundValue,
    delta: float | None,
    epsilon: float | None,
) -> dict[str, Any]:
    answer = {"lower": value.lower, "upper": value.upper, "slack": value.slack}
    return {
        "epsilon": answer if epsilon is None else epsilon,
        "delta": answer if delta is None else delta,
        "users": curve.users,
        "bound": value.bound,
        "theorem": value.theorem,
        "certified": value.certified,
        "guarantee": value.guarantee,
        "note": curve.note,
        "parameters": randomizer.describe(),
    }


def _table(
    randomizer: VariationRatio,
    curve: PrivacyCurve,
    value: BoundValue,
    delta: float | None,
    epsilon: float | None,
) -> None:
    known, answer = ("δ", "ε") if epsilon is None else ("ε", "δ")
    given = delta if epsilon is None else epsilon
    label = f"{answer} (guaranteed)" if value.guarantee else f"{answer} (published, NOT guaranteed)"
    parameters = ", ".join(f"{name} = {text:.6g}" for name, text in randomizer.describe().items())
    pairs = [
        (label, show.number(value.upper)),
        ("lower bound", "none known for these parameters" if value.lower is None else f"{value.lower:.7g}"),
        ("numerical slack", f"{value.slack:.1e}"),
        (known, f"{given:g}"),
        ("users", f"{curve.users:,}"),
        ("bound", value.bound),
        ("theorem", value.theorem),
        ("certificate", "proved in ball arithmetic, rounding included" if value.certified else "none"),
        ("parameters", parameters),
    ]
    show.rows("Privacy of the shuffled messages", pairs, curve.note)
