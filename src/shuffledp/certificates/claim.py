"""Claims: privacy statements with everything that is needed to prove them again, as readable JSON."""

from __future__ import annotations

import json
import math
import platform
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from os import PathLike
from pathlib import Path

import numpy as np
from shuffledp_verify import Claim as ReadClaim, Finding, Verdict
from shuffledp_verify.claim import FORMAT, FORMAT_VERSION, MAX_EPSILON, SOFTWARE_NAMES, parse_claim, read_claim_text
from shuffledp_verify.proofs import MessageCallback
from shuffledp_verify.verdict import Refuted

from shuffledp._core import __version__
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.formatting import GUARANTEE_DIGITS, INFINITE_EPSILON_TEXT
from shuffledp._core.message_phrases import phrase
from shuffledp._core.results_and_value_objects import PrintableResult, Row
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.certificates.mechanism_evidence import (
    MechanismEvidence,
    MechanismRoundEvidence,
    attach_mechanism,
    find_evidence_class,
    format_randomizer,
    provable_bounds,
    read_description,
)
from shuffledp.privacy.curve import BoundValue
from shuffledp.privacy.randomizer_interface import Randomizer

MIN_DELTA = Decimal("1e-300")


@dataclass(frozen=True)
class Claim(ReadClaim, PrintableResult):
    """The claim of (epsilon, delta)-DP of the shuffled messages of ``users`` users who all run ``randomizer``.

    ``text`` is the file's content, ``save`` writes it; ``print`` shows the claim.

    Args:
        randomizer: Its name and settings, or its parameters.
        users: Number of honest users.
        epsilon: Claimed ε.
        delta: Claimed δ.
        bound: Name of the bound that the proof rests on.
        theorem: Its theorem.
        software: Versions of the software that made the claim.
        evidence: The laws and numbers that the second proof compares with; its kind decides how the claim is proved.

    >>> import textwrap, shuffledp as sdp
    >>> claim = sdp.certify(sdp.KRR(2.0, options=16), 5000, delta=1e-6)
    >>> print(textwrap.fill(claim.statement, 90))
    Replacing one user's value changes the shuffled messages of 5000 users by at most epsilon
    = 0.09780284, delta = 1e-06.
    """

    evidence: MechanismEvidence

    def text(self) -> str:
        """Returns the content of the file: one JSON object."""
        document = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "statement": self.statement,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "users": self.users,
            "randomizer": self.randomizer,
            "bound": self.bound,
            "theorem": self.theorem,
            "guarantee": True,
            "rounding": self.evidence.rounding,
            **self.evidence.to_document(),
            "software": self.software,
        }
        return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the file, for ``verify``.

        Args:
            path: Path of the file.
        """
        Path(path).write_text(self.text(), encoding="utf-8")

    def certified_value(self, value: BoundValue, theorem: str | None = None) -> BoundValue:
        """Returns the claimed number in place of the engine's ``value`` of the same question.

        Reports with a certificate show this number: the second proof may need a margin, another grid of losses or
        another bound.

        Args:
            value: The engine's value.
            theorem: Theorem of all rounds and samples, if the claim names that of one round.

        Returns:
            A copy of ``value`` with the claimed number, bound and theorem.
        """
        number = self.epsilon if value.delta is not None else self.delta
        # The engine's value is the smallest of all bounds, so its certain lower value is also below the claimed number.
        slack = number - max(0.0, value.upper - value.slack)
        named = self.theorem if theorem is None else theorem
        return replace(
            value, upper=number, slack=max(0.0, math.nextafter(slack, math.inf)), bound=self.bound, theorem=named
        )

    @property
    def origin(self) -> str | None:
        """The file or module, and the class, of a mechanism that is not part of shuffledp; None for the others."""
        origin: str | None = self.randomizer.get("origin")
        return origin

    @property
    def heading(self) -> str:
        return "A claim that `shuffledp verify` proves again"

    def summary(self) -> list[Row]:
        """Returns the rows of the summary as (name, text)."""
        origin = [] if self.origin is None else [("law of", f"{self.origin}: not of shuffledp")]
        return [
            ("claim", self.statement),
            ("randomizer", format_randomizer(self.randomizer)),
            *origin,
            ("bound", f"{self.bound}: {self.theorem}"),
            *self.evidence.summary_rows(),
            ("software", ", ".join(f"{name} {number}" for name, number in self.software.items())),
        ]


def build_claim(
    randomizer: Randomizer,
    users: int,
    value: BoundValue,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    margin: Decimal | None = None,
) -> Claim:
    """Returns the claim of a curve's value: ε at ``delta``, or δ at ``epsilon``.

    ``users`` counts the honest users, whatever the number of their messages. ``margin`` is the relative amount by which
    the value is raised, by default the least of its bound.
    """
    kind = require_evidence_class(randomizer, value)
    claimed = raise_pair(value.upper, epsilon, delta, kind.margins(delta)[0] if margin is None else margin)
    evidence = kind.from_randomizer(randomizer, users, value.bound, claimed[0])
    return Claim(
        kind.describe_randomizer(randomizer), users, *claimed, value.bound, value.theorem, software_versions(), evidence
    )


def require_evidence_class(randomizer: Randomizer, value: BoundValue) -> type[MechanismRoundEvidence]:
    """Returns the kind of evidence for a value, or raises ValueError if there is none."""
    if not value.guarantee:
        raise ValueError(f"certificate: {value.bound} is not a guarantee, so there is nothing to certify.")
    kind = find_evidence_class(randomizer, value.bound)
    if kind is None:
        raise InvalidArgument(
            "certificate",
            f"expected a numeric bound ({', '.join(provable_bounds())})",
            got=value.bound,
            hint=phrase("leave {bound} out to get the one that is smallest"),
        )
    return kind


def raise_pair(upper: float, epsilon: float | None, delta: float | None, margin: Decimal) -> tuple[float, float]:
    """Returns (ε, δ) with the computed one raised."""
    raised = round_up_with_margin(upper, margin)
    if delta is not None:
        if not raised.is_finite():
            raise ValueError(f"certificate: epsilon is {INFINITE_EPSILON_TEXT} at this delta; claim a larger delta.")
        return float(raised), delta
    if raised >= 1:
        raise ValueError("certificate: expected a delta below 1, got 1, which promises nothing.")
    if epsilon is None or epsilon > MAX_EPSILON:
        raise ValueError(f"certificate: expected an epsilon of at most {MAX_EPSILON}, got {epsilon}.")
    return epsilon, float(max(raised, MIN_DELTA)) if raised else 0.0


def round_up_with_margin(value: float, margin: Decimal) -> Decimal:
    """Returns the value raised by a share of itself, and then to the next number of seven digits."""
    if math.isinf(value):
        return Decimal("Infinity")
    return Context(prec=GUARANTEE_DIGITS, rounding=ROUND_CEILING).plus(Decimal(value) * (1 + margin))


def software_versions() -> dict[str, str]:
    """Returns the versions of the software that makes a claim."""
    # Importing it takes longer than the rest of this module.
    from importlib.metadata import version

    versions = (__version__, version("python-flint"), np.__version__, platform.python_version())
    return dict(zip(SOFTWARE_NAMES, versions, strict=True))


# --- Reading ---


def read_claim(path: str | PathLike[str]) -> Claim:
    """Reads the claim of a file; raises ValueError if it cannot be read or is not a certificate."""
    return parse_mechanism_claim(read_claim_text(path))


def parse_mechanism_claim(text: str) -> Claim:
    """Reads the claim of a text; raises ValueError if a field is missing, unknown or of the wrong kind."""
    read = parse_claim(text, read_description)
    return Claim(
        read.randomizer,
        read.users,
        read.epsilon,
        read.delta,
        read.bound,
        read.theorem,
        read.software,
        attach_mechanism(read.evidence),
    )


# --- Verification ---
#
# The file is trusted only for its question: which randomizer, how many users, which bound, which (ε, δ). The blankets
# or parameters of a mechanism, its table and its number of hiding messages come from the same class that the engine
# uses. The law is rebuilt and compared with the claimed one, and D ≤ δ is proved for it.


def verify(claim: Claim | str | PathLike[str], notice: MessageCallback = lambda text: None) -> Finding:
    """Proves a claim again.

    A mechanism of somebody else must be known here (``--mechanism-file``, or an installed package); the method of the
    result then says that the law is the one that its class states.

    Args:
        claim: The result of ``certify``, or the path of its file.
        notice: Called with messages about the progress.

    Returns:
        A finding with the verdict yes (proved), no (disproved) or cannot decide, its reason and the method.

    Raises:
        ValueError: If the file cannot be read or is not a certificate.

    >>> from shuffledp import VariationRatio
    >>> from shuffledp.certificates.certify import certify
    >>> from shuffledp.certificates.claim import verify
    >>> print(verify(certify(VariationRatio.from_ldp(1.0), 1000, delta=1e-6, effort="quick")))
    yes: the divergence is at most delta for the only law. (binomial sums in balls; law from the parameters)
    """
    if not isinstance(claim, Claim):
        claim = read_claim(claim)
    try:
        _check_bound(claim)
    except Refuted as refuted:
        return Finding(Verdict.NO, str(refuted), "the bound that is named")
    return claim.evidence.prove(claim, notice)


def _check_bound(claim: Claim) -> None:
    """Refutes a claim whose bound does not exist, is not a guarantee or has another theorem."""
    if claim.bound not in claim.evidence.bounds:
        status = "no numeric bound that guarantees" if claim.bound in BOUNDS_BY_NAME else "unknown"
        raise Refuted(f"the bound {claim.bound!r} is {status}; expected one of {', '.join(provable_bounds())}.")
    theorem = claim.evidence.theorem(claim)
    if claim.theorem != theorem:
        raise Refuted(f"the theorem of {claim.bound} is {theorem!r}, got {claim.theorem!r}.")
