"""The options that several commands share: one spelling and one sentence of help each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PARTICIPANTS = "How many users take part, the one to protect included."
Users = Annotated[float, typer.Option(help=PARTICIPANTS)]
MaybeUsers = Annotated[float | None, typer.Option(help=PARTICIPANTS)]
Delta = Annotated[float, typer.Option(help="Target δ.")]

# --- the randomizer, as in ``Choice`` -----------------------------------------------------------------------------

MechanismName = Annotated[str | None, typer.Option(help="A name from `shuffledp mechanisms`.")]
LocalEpsilon = Annotated[float | None, typer.Option(help="Local ε0; alone: any ε0-LDP randomizer.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the mechanism; may be repeated."),
]
TableFile = Annotated[Path | None, typer.Option(help="CSV of a randomizer: a row per input, no header.")]
LargestRatio = Annotated[float | None, typer.Option(help="Largest ratio between two inputs, above 1 or inf.")]
TotalVariation = Annotated[float | None, typer.Option(help="Largest total variation between two inputs.")]
HidingRatio = Annotated[float | None, typer.Option(help="Largest ratio to another user's messages.")]
HidingRatio0 = Annotated[float | None, typer.Option(help="That ratio where input 0 is likelier.")]
HidingRatio1 = Annotated[float | None, typer.Option(help="That ratio where input 1 is likelier.")]
CommonRatio = Annotated[float | None, typer.Option(help="That ratio on the part both inputs share.")]

BoundName = Annotated[str, typer.Option(help="Which theorem; see `shuffledp amplify --help`.")]
Colluding = Annotated[float, typer.Option(help="Users who tell the analyst their messages.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
