"""``shuffledp audit`` and ``shuffledp verify``: checks of a mechanism's messages, and of a claim."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from shuffledp_verify import Verdict

from shuffledp._core.formatting import format_json
from shuffledp.auditing import DEFAULT_TIMEOUT, AuditResult, CommandSubject, Subject, audit
from shuffledp.certificates.claim import read_claim, verify
from shuffledp.cli import options, output
from shuffledp.cli.options import RandomizerOptions, parse_input_value
from shuffledp.cli.output import show_spinner
from shuffledp.mechanisms.base.mechanism import Mechanism


@options.takes_randomizer(
    "audit",
    "mechanism",
    "mechanism_file",
    "epsilon_local",
    "set_",
    helps={"epsilon_local": "Local ε of the mechanism."},
)
def audit_command(
    *,
    choice: RandomizerOptions,
    run: Annotated[
        str | None, typer.Option("--command", help="A program: values on stdin, messages on stdout, one a line.")
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--value", metavar="INPUT", help="One of the two inputs; give it twice.")
    ] = None,
    claimed: Annotated[float | None, typer.Option(help="The local ε to test.")] = None,
    samples: Annotated[float, typer.Option(parser=options.number, help="Messages drawn for each input.")] = 200_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.999,
    seconds: Annotated[
        float, typer.Option(help="Maximum time of a command for each input, in seconds.")
    ] = DEFAULT_TIMEOUT,
    json: options.Json = False,
) -> None:
    """Test whether a randomizer keeps its local ε.

    Its messages prove a lower bound on ε with the given confidence. Exit code 1 if the claim is broken.
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
        subject = _build_mechanism(choice, claimed)
        inputs = None if values is None else [parse_input_value("audit", "--value", text) for text in values]
    with show_spinner("Auditing"):
        finding = audit(subject, claimed, samples=samples, confidence=confidence, inputs=inputs)
    _print_report(finding, json)
    if finding.violated:
        raise typer.Exit(1)


def _build_mechanism(choice: RandomizerOptions, claimed: float | None) -> Mechanism:
    mechanism = choice.build()
    assert isinstance(mechanism, Mechanism)
    if claimed is None and mechanism.local_epsilon is None:
        raise ValueError(f"audit: {mechanism.name} promises nothing for one user's report alone; give --claimed.")
    return mechanism


def _print_report(finding: AuditResult, json: bool) -> None:
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
        typer.echo(format_json(document))
        return
    output.print_rows(finding.heading, finding.summary())


EXIT_CODES = {Verdict.YES: 0, Verdict.NO: 1, Verdict.OPEN: 3}
QUIET_SECONDS = 2.0


def verify_command(
    file: Annotated[Path, typer.Argument(help="A certificate, from `shuffledp amplify --certificate`.")],
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Prove a certificate's claim by an independent route. Exit code 0: yes, 1: no, 3: cannot decide."""
    del mechanism_file  # The option's callback has loaded it.
    claim = read_claim(file)
    finding = verify(claim, _StepPrinter())
    if json:
        fields = {"verdict": finding.verdict.value, "reason": finding.reason, "method": finding.method}
        typer.echo(format_json(fields))
    else:
        rows = [("verdict", finding.verdict.value), ("reason", finding.reason), ("method", finding.method)]
        output.print_rows(
            "Certificate", [("claim", claim.statement), ("bound", f"{claim.bound}: {claim.theorem}"), *rows]
        )
    raise typer.Exit(EXIT_CODES[finding.verdict])


class _StepPrinter:
    """Prints the current step on stderr, at most every two seconds and not in the first two."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self.last >= QUIET_SECONDS:
            print(f"shuffledp: {text} …", file=sys.stderr)
            self.last = now
