"""``shuffledp send``: an edge server takes part for its people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.cli.shuffler_option import CampaignFile
from shuffledp.cli.source import Origin, takes_input
from shuffledp.document import json_text
from shuffledp.service.send import send

Url = Annotated[str | None, typer.Option("--url", help="Where the shuffler is; by default where the campaign says.")]


@takes_input
def command(
    campaign: CampaignFile,
    source: Origin,
    spool: Annotated[
        Path, typer.Option("--spool", help="A new file for the sealed reports; one of a killed run is sent on.")
    ],
    url: Url = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The encoder's role over a network: randomize, seal and send the rows of a table. Killed, it goes on."""
    if source.rows_per_user != 1:
        raise ValueError("send: a person takes part once in a round; --rows-per-user must be 1.")
    done = send(
        campaign, source.paths, source.columns, spool=spool, url=url, user=source.user, rules=source.rules,
        delimiter=source.delimiter, gather=source.gather, progress=Bars(),
    )  # fmt: skip
    if json:
        typer.echo(json_text({"reports": done.reports, "round": done.round_number}))
    else:
        show.say(
            f"{done.reports:,} reports were taken in round {done.round_number}; keep {spool}.sent as a mark of that."
        )
