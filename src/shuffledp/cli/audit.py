"""``shuffledp audit``: does a randomizer keep its local promise?"""

from __future__ import annotations

from typing import Annotated

import typer

from shuffledp.auditing.empirical import AuditResult, audit
from shuffledp.auditing.subject import SECONDS, CommandSubject, Subject
from shuffledp.cli import options, show
from shuffledp.cli.bars import waiting
from shuffledp.cli.randomizer import Choice, number_or_list
from shuffledp.document import json_text
from shuffledp.mechanisms.mechanism import Mechanism


@options.takes_randomizer(
    "audit",
    "mechanism",
    "mechanism_file",
    "epsilon_local",
    "set_",
    helps={"epsilon_local": "Local ε of the mechanism."},
)
def command(
    *,
    choice: Choice,
    run: Annotated[
        str | None, typer.Option("--command", help="A program: values on stdin, messages on stdout, one a line.")
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--value", metavar="INPUT", help="One of the two inputs; give it twice.")
    ] = None,
    claimed: Annotated[float | None, typer.Option(help="The local ε to hold it against.")] = None,
    samples: Annotated[float, typer.Option(parser=options.number, help="Messages drawn for each input.")] = 200_000,
    confidence: Annotated[float, typer.Option(help="How sure the lower bound is.")] = 0.999,
    seconds: Annotated[float, typer.Option(help="Longest that a command may take for each input.")] = SECONDS,
    json: options.Json = False,
) -> None:
    """Test whether a randomizer keeps its local ε.

    Its messages prove a lower bound on ε, with the confidence that is asked for. Exit code 1 if the claim is broken.
    """
    if (choice.mechanism is None) == (run is None):
        raise ValueError("audit: give either --mechanism or --command.")
    if values is not None and len(values) != 2:
        raise ValueError(f"audit: --value must be given exactly twice, got {len(values)}.")
    if run is not None:
        if choice.epsilon_local is not None or choice.settings:
            raise ValueError("audit: --command does not go with --epsilon-local and --set; --claimed is the ε to test.")
        if values is None or claimed is None:
            raise ValueError("audit: --command needs --value twice and --claimed.")
        subject: Mechanism | Subject = CommandSubject(run, (values[0], values[1]), seconds=seconds)
        inputs = None
    else:
        subject = _mechanism(choice, claimed)
        inputs = None if values is None else [number_or_list("audit", "--value", text) for text in values]
    with waiting("Auditing"):
        finding = audit(subject, claimed, samples=samples, confidence=confidence, inputs=inputs)
    _report(finding, json)
    if finding.violated:
        raise typer.Exit(1)


def _mechanism(choice: Choice, claimed: float | None) -> Mechanism:
    mechanism = choice.build()
    assert isinstance(mechanism, Mechanism)
    if claimed is None and mechanism.local_epsilon is None:
        raise ValueError(f"audit: {mechanism.name} promises nothing for one user's report alone; give --claimed.")
    return mechanism


def _report(finding: AuditResult, json: bool) -> None:
    if json:
        document = {
            "epsilon": {"lower": finding.epsilon_lower, "claimed": finding.claimed},
            "violated": finding.violated,
            "verdict": finding.verdict,
            "confidence": finding.confidence,
            "samples": finding.samples,
            "event": finding.event,
            "subject": finding.title,
        }
        typer.echo(json_text(document))
        return
    show.rows(finding.heading, finding.summary())
