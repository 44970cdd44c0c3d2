"""``shuffledp verify``: prove a certificate's claim again."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from shuffledp.certificate.proof import Verdict
from shuffledp.certificate.reader import read
from shuffledp.certificate.verify import verify
from shuffledp.cli import options, show
from shuffledp.document import json_text

STATUS = {Verdict.YES: 0, Verdict.NO: 1, Verdict.OPEN: 3}
QUIET_SECONDS = 2.0


def command(
    file: Annotated[Path, typer.Argument(help="A certificate, from `shuffledp amplify --certificate`.")],
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Prove a certificate's claim by an independent route. Exit code 0: yes, 1: no, 3: cannot decide."""
    del mechanism_file  # read already
    claim = read(file)
    finding = verify(claim, _Progress())
    if json:
        fields = {"verdict": finding.verdict.value, "reason": finding.reason, "method": finding.method}
        typer.echo(json_text(fields))
    else:
        rows = [("verdict", finding.verdict.value), ("reason", finding.reason), ("method", finding.method)]
        show.rows("Certificate", [("claim", claim.statement), ("bound", f"{claim.bound}: {claim.theorem}"), *rows])
    raise typer.Exit(STATUS[finding.verdict])


class _Progress:
    """What is being done, on stderr, at most once every two seconds and not before the first two."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self.last >= QUIET_SECONDS:
            print(f"shuffledp: {text} …", file=sys.stderr)
            self.last = now
