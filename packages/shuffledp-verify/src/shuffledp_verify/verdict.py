"""The outcome of a proof: proved, refuted or undecided, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """The answer to "is the claim proved?"."""

    YES = "yes"
    NO = "no"
    OPEN = "cannot decide"


@dataclass(frozen=True)
class Finding:
    """A verdict, the reason for it, and the method that found it.

    Args:
        verdict: Yes (proved), no (disproved) or cannot decide.
        reason: One sentence.
        method: The computation, and the origin of the law that it is about.

    >>> print(Finding(Verdict.YES, "δ(1) ≤ 1e-6 is proved.", "enumeration of counts"))
    yes: δ(1) ≤ 1e-6 is proved. (enumeration of counts)
    """

    verdict: Verdict
    reason: str
    method: str

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.reason} ({self.method})"


class Refuted(Exception):
    """The claim is wrong; the message says why."""


class Undecided(Exception):
    """The claim is neither proved nor disproved; the message says why."""


class TooManyCases(Exception):
    """The proof has more cases than this package examines."""
