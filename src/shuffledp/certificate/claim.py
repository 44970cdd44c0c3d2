"""The claim of a certificate: a privacy statement with all that is needed to prove it again, as readable JSON."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.certificate.evidence import Backing, Evidence
from shuffledp.certificate.kinds import kind_for, provable
from shuffledp.certificate.wording import short
from shuffledp.document import BEYOND, GUARANTEE_DIGITS
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.readable import Readable, Row
from shuffledp.version import __version__

FORMAT = "shuffledp certificate"
VERSION = 1
LEAST_DELTA = Decimal("1e-300")
LARGEST_EPSILON = 1000
SOFTWARE = ("shuffledp", "python-flint", "numpy", "python")


@dataclass(frozen=True)
class Claim(Readable):
    """(epsilon, delta)-DP of the shuffled messages of ``users`` users who all run ``randomizer``.

    ``text`` is the file's content, ``save`` writes it; ``print`` shows what is claimed.

    ``randomizer``: its name and settings, or its parameters. ``bound``, ``theorem``: what the proof rests on.
    ``software``: the versions that made it.

    >>> import textwrap, shuffledp as sdp
    >>> claim = sdp.certify(sdp.KRR(2.0, options=16), 5000, delta=1e-6)
    >>> print(textwrap.fill(claim.statement, 90))
    Replacing one user's value changes the shuffled messages of 5000 users by at most epsilon
    = 0.09780284, delta = 1e-06.
    """

    randomizer: Mapping[str, Any]
    users: int
    epsilon: float
    delta: float
    bound: str
    theorem: str
    software: Mapping[str, str]
    evidence: Backing
    """What the second proof compares with; of which kind it is decides how the claim is proved."""

    @property
    def statement(self) -> str:
        return self.evidence.statement(self)

    def text(self) -> str:
        """The file: one JSON object."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "statement": self.statement,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "users": self.users,
            "randomizer": self.randomizer,
            "bound": self.bound,
            "theorem": self.theorem,
            "guarantee": True,
            "rounding": self.evidence.rounding,
            **self.evidence.document(),
            "software": self.software,
        }
        return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file, for ``verify``."""
        Path(path).write_text(self.text(), encoding="utf-8")

    def stated(self, value: BoundValue, theorem: str | None = None) -> BoundValue:
        """The number that is claimed, in the place of the engine's ``value`` of the same question.

        Whatever is told beside a certificate tells this one: the second proof may need a margin, another grid of
        losses or another bound. ``theorem``: of all rounds and samples, where the claim names that of one round.
        """
        number = self.epsilon if value.delta is not None else self.delta
        # The engine's is the smallest of all bounds, so that what it is certainly above is below the claimed one too.
        slack = number - max(0.0, value.upper - value.slack)
        named = self.theorem if theorem is None else theorem
        return replace(
            value, upper=number, slack=max(0.0, math.nextafter(slack, math.inf)), bound=self.bound, theorem=named
        )

    @property
    def origin(self) -> str | None:
        """Whose law it is, where the mechanism is not of this package: the file or module, and the class."""
        said: str | None = self.randomizer.get("origin")
        return said

    @property
    def heading(self) -> str:
        return "A claim that `shuffledp verify` proves again"

    def summary(self) -> list[Row]:
        """What is to be read, a name and a text each."""
        whose = [] if self.origin is None else [("law of", f"{self.origin}: not of shuffledp")]
        return [
            ("claim", self.statement),
            ("randomizer", short(self.randomizer)),
            *whose,
            ("bound", f"{self.bound}: {self.theorem}"),
            *self.evidence.rows(),
            ("software", ", ".join(f"{name} {number}" for name, number in self.software.items())),
        ]


def claim_of(
    randomizer: Randomizer,
    users: int,
    value: BoundValue,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    margin: Decimal | None = None,
) -> Claim:
    """The claim that a value of a curve makes: ε at the given ``delta``, or δ at the given ``epsilon``.

    ``users`` counts the honest users, whatever the number of their messages. ``margin``: what the value is raised by,
    where it is not the least that is usual for its bound.
    """
    kind = kind_of_value(randomizer, value)
    claimed = raised_pair(value.upper, epsilon, delta, kind.margins(delta)[0] if margin is None else margin)
    words = kind.described(randomizer)
    evidence = kind.of(randomizer, users, value.bound, claimed[0])
    return Claim(words, users, *claimed, value.bound, value.theorem, software(), evidence)


def kind_of_value(randomizer: Randomizer, value: BoundValue) -> type[Evidence]:
    """The kind of evidence that a value has, or a sentence why there is none."""
    if not value.guarantee:
        raise ValueError(f"certificate: {value.bound} is not a guarantee, so there is nothing to certify.")
    kind = kind_for(randomizer, value.bound)
    if kind is None:
        raise ValueError(
            f"certificate: expected a numeric bound ({', '.join(provable())}), got {value.bound}; "
            f"leave --bound out to get the one that is smallest."
        )
    return kind


def raised_pair(upper: float, epsilon: float | None, delta: float | None, margin: Decimal) -> tuple[float, float]:
    """(ε, δ): the one that was computed, raised."""
    raised = rounded_up(upper, margin)
    if delta is not None:
        if not raised.is_finite():
            raise ValueError(f"certificate: epsilon is {BEYOND} at this delta; claim a larger delta.")
        return float(raised), delta
    if raised >= 1:
        raise ValueError("certificate: expected a delta below 1, got 1, which promises nothing.")
    if epsilon is None or epsilon > LARGEST_EPSILON:
        raise ValueError(f"certificate: expected an epsilon of at most {LARGEST_EPSILON}, got {epsilon}.")
    return epsilon, float(max(raised, LEAST_DELTA)) if raised else 0.0


def rounded_up(value: float, margin: Decimal) -> Decimal:
    """The value raised by a share of itself, and then to the next number of seven digits."""
    if math.isinf(value):
        return Decimal("Infinity")
    return Context(prec=GUARANTEE_DIGITS, rounding=ROUND_CEILING).plus(Decimal(value) * (1 + margin))


def software() -> dict[str, str]:
    """The versions that make a claim."""
    # Importing it takes longer than all of this module.
    from importlib.metadata import version

    found = (__version__, version("python-flint"), np.__version__, platform.python_version())
    return dict(zip(SOFTWARE, found, strict=True))
