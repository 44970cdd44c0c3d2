"""``shuffledp ask``: ranges and quantiles of a released collection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from shuffledp.cli import options, show
from shuffledp.collection.ask import CONFIDENCE, ask
from shuffledp.document import json_text, share_text

BETWEEN = "\x1f"
"""Between the two ends of a range that the parser takes as one text: no label has it."""


class TakesRanges(TyperCommand):
    """Takes two words after ``--range``, as often as it is given: the parser knows lists of one word only."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        joined: list[str] = []
        left = list(args)
        while left:
            word = left.pop(0)
            joined.append(word)
            if word == "--range" and len(left) < 2:
                raise ValueError(f"ask: --range takes the first and the last value, got {' '.join(left) or 'nothing'}.")
            if word == "--range":
                joined.append(BETWEEN.join((left.pop(0), left.pop(0))))
        return super().parse_args(ctx, joined)


def command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What `collect` or `estimate` wrote.")],
    range_: Annotated[
        list[str] | None,
        typer.Option(
            "--range", metavar="FIRST LAST", help="How many users from FIRST up to and including LAST; repeatable."
        ),
    ] = None,
    quantile: Annotated[
        list[float] | None,
        typer.Option(
            parser=options.number,
            metavar="SHARE",
            help="The first value that this share of users, 50% or 0.5, do not exceed; repeatable.",
        ),
    ] = None,
    confidence: options.Confidence = CONFIDENCE,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Ask a finished collection of ranges; costs no privacy.

    Values are named as in the domain. Both ends of a range are included.
    """
    if not range_ and not quantile:
        raise ValueError("ask: expected --range FIRST LAST or --quantile SHARE, got neither.")
    ends = [pair.split(BETWEEN) for pair in range_ or ()]
    ranges = [(first, last) for first, last in ends]
    found = ask(directory, ranges=ranges, quantiles=quantile or (), confidence=confidence)
    if json:
        typer.echo(json_text({"confidence": confidence, "answers": [answer.document() for answer in found]}))
        return
    rows = []
    for answer in found:
        told = dict(answer.summary())
        first = told.get("users", told.get("value", ""))
        rows.append((answer.heading, f"{first}  ({told['interval']})"))
    show.rows(f"Answers, with {share_text(confidence)} intervals", rows)
