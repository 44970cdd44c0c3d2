"""``shuffledp receive``: the analyst opens what the shuffler mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.cli.collect import RoundOfMessages as Round
from shuffledp.cli.send import Url
from shuffledp.cli.shuffler_option import CampaignFile
from shuffledp.document import json_text
from shuffledp.service.campaign import Campaign
from shuffledp.service.fetch import receive_from
from shuffledp.service.key_file import AnalystKey
from shuffledp.service.receive import receive


def command(
    campaign: CampaignFile,
    key: Annotated[Path, typer.Option("--key", help="The analyst's key file.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for the opened messages.")],
    input_: Annotated[
        Path | None, typer.Option("--input", help="The directory from `shuffle`; without it, fetch from the shuffler.")
    ] = None,
    url: Url = None,
    round_number: Round = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """The analyst's role: open the sealed messages of a campaign, for `estimate`."""
    chosen, opened_by = Campaign.load(campaign), AnalystKey.load(key)
    if input_ is not None and url is not None:
        raise ValueError("receive: give either --input or --url, not both.")
    if input_ is None:
        made = receive_from(
            chosen, opened_by, out=out, url=url, round_number=round_number, workers=None, progress=Bars()
        )
    else:
        made = receive(chosen, opened_by, input_, out=out, round_number=round_number, workers=None, progress=Bars())
    if json:
        typer.echo(
            json_text({"messages": made.messages, "refused": made.refused, "users": made.users, "out": str(out)})
        )
        return
    show.say(f"{made.messages:,} messages in {out}: `shuffledp estimate PLAN --input {out}` reads them.")
    if made.refused:
        show.say(f"{made.refused:,} did not open, or were there twice; each takes one user off those who are counted.")
