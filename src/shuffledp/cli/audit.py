"""``shuffledp audit``: does a randomizer keep its local promise?"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from shuffledp.audit.empirical import AuditResult, audit
from shuffledp.audit.subject import CommandSubject, MechanismSubject, Subject
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
    samples: Annotated[float, typer.Option(help="Messages drawn for each input.")] = 200_000,
    confidence: Annotated[float, typer.Option(help="How sure the lower bound is.")] = 0.999,
    json: options.Json = False,
) -> None:
    """Test whether a randomizer keeps its local ε.

    Its messages prove a lower bound on ε, with the confidence that is asked for. Exit code 1 if the claim is broken.
    """
    if (choice.mechanism is None) == (run is None):
        raise ValueError("audit: give either --mechanism or --command.")
    if values is not None and len(values) != 2:
        raise ValueError(f"audit: --value must be given exactly twice, got {len(values)}.")
    subject: Subject
    if run is not None:
        if choice.epsilon_local is not None or choice.settings:
            raise ValueError("audit: --command does not go with --epsilon-local and --set; --claimed is the ε to test.")
        if values is None or claimed is None:
            raise ValueError("audit: --command needs --value twice and --claimed.")
        subject, claim = CommandSubject(run, (values[0], values[1])), claimed
    else:
        chosen = choice.build()
        assert isinstance(chosen, Mechanism)
        subject = MechanismSubject(chosen, _inputs(chosen, values))
        claim = _claim(chosen) if claimed is None else claimed
    with waiting("Auditing"):
        finding = audit(subject, claim, samples=samples, confidence=confidence)
    _report(finding, json)
    if finding.violated:
        raise typer.Exit(1)


def _claim(mechanism: Mechanism) -> float:
    promised = mechanism.local_epsilon
    if promised is None:
        raise ValueError(f"audit: {mechanism.name} promises nothing for one user's report alone; give --claimed.")
    return promised


def _inputs(mechanism: Mechanism, values: list[str] | None) -> NDArray[Any]:
    """The two inputs: as typed (numbers or JSON lists), or the mechanism's own probe."""
    if values is None:
        return mechanism.probe()
    return mechanism.check([number_or_list("audit", "--value", text) for text in values])


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
    pairs = [
        ("verdict", finding.verdict),
        ("local ε is at least", f"{finding.epsilon_lower:.4f}"),
        ("claimed", f"{finding.claimed:g}"),
        ("confidence", f"{finding.confidence:g}"),
        ("messages drawn", f"2 × {finding.samples:,}"),
        ("best event", finding.event),
        ("what was audited", finding.title),
    ]
    show.rows("Audit of a local randomizer", pairs)
