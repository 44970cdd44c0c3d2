"""Options of the commands about campaigns and shufflers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CampaignId = Annotated[str, typer.Argument(metavar="ID", help="The campaign's id, or its beginning.")]
StateDirectory = Annotated[Path, typer.Option("--state", help="The shuffler's directory.")]
KeysDirectory = Annotated[
    Path | None,
    typer.Option("--keys", help="Its directory of keys, which belongs in no backup; STATE.keys by default."),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database", envvar="SHUFFLEDP_DATABASE", metavar="URL", help="postgresql://…, instead of a file in --state."
    ),
]
CampaignFile = Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="The campaign file.")]
