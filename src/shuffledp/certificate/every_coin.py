"""The bound ``exact-binary``: randomizers with two messages, and every dataset of coins between two extreme ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from shuffledp.certificate import field
from shuffledp.certificate.evidence import Evidence, Notice, Rebuilt
from shuffledp.certificate.proof import Finding, Verdict
from shuffledp.certificate.two_messages import judge_coins
from shuffledp.certificate.wording import claimed_mechanism, messages_of
from shuffledp.certificate.written_law import Refuted, fraction_text, read_fraction
from shuffledp.errors import ShuffledpError
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.privacy.randomizer import Randomizer

if TYPE_CHECKING:
    from shuffledp.certificate.claim import Claim

NAME = "exact-binary"


@dataclass(frozen=True)
class EveryCoin(Evidence):
    """The least and the largest probability of one of the two messages, over all inputs."""

    least: str
    most: str

    bounds = (NAME,)
    fields = ("coin",)
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 1e-6, 2e-5, 1e-4, "
        "1e-3 of itself (delta: 1e-4, 1e-3, 1e-2, 1e-1) with which an independent proof was found and then rounded up "
        "to 7 digits; every number here stands for the nearest 64-bit float, exactly"
    )
    epsilon_margins = (Decimal("1e-6"), Decimal("2e-5"), Decimal("1e-4"), Decimal("1e-3"))
    delta_margins = (Decimal("1e-4"), Decimal("1e-3"), Decimal("1e-2"), Decimal("1e-1"))
    proved_when_made = True

    @classmethod
    def of(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        messages_of(randomizer, users)
        coin = randomizer.coin_range()
        if coin is None:
            raise ValueError(f"certificate: {NAME} needs a randomizer with two messages.")
        return cls(*map(fraction_text, coin))

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "coin" in document

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        coin = field.object_of("coin", fields["coin"], ("least", "most"))
        return cls(read_fraction("least", coin["least"]), read_fraction("most", coin["most"]))

    def document(self) -> dict[str, Any]:
        return {"coin": {"least": self.least, "most": self.most}}

    def rebuilt(self, claim: Claim) -> Rebuilt:
        if "parameters" in claim.randomizer:
            raise Refuted(f"the bound {NAME!r} needs a randomizer, not parameters.")
        mechanism, whose = claimed_mechanism(claim.randomizer)
        coin = mechanism.coin_range()
        if coin is None:
            raise Refuted("the randomizer has more than two messages.")
        for name, said, truth in (("least", self.least, coin[0]), ("most", self.most, coin[1])):
            if said != fraction_text(truth):
                raise Refuted(f"coin: {name} is {said} in the file and {fraction_text(truth)} in truth.")
        checked = _checked(mechanism, *coin)
        return _Coins(mechanism, *coin, f"coins {checked}{whose}")


@dataclass(frozen=True)
class _Coins(Rebuilt):
    """Every dataset of such coins."""

    mechanism: Mechanism
    least: Fraction
    most: Fraction
    origin: str

    def judged(self, users: int, epsilon: Fraction, delta: Fraction, notice: Notice) -> Finding:
        notice("proving every dataset of two messages")
        finding = judge_coins(self.most, self.least, messages_of(self.mechanism, users), epsilon, delta)
        method = f"{finding.method}; {self.origin}"
        if finding.verdict is Verdict.YES:
            return Finding(Verdict.YES, "the divergence is at most delta for every dataset.", method)
        return Finding(finding.verdict, finding.reason, method)


def _checked(mechanism: Mechanism, least: Fraction, most: Fraction) -> str:
    """Refute coins that the table of messages contradicts; and where they come from, in words."""
    try:
        rows = mechanism.hiding_table().rows
    except (ValueError, ShuffledpError):
        return "from the mechanism"
    if any(len(row) != 2 for row in rows):
        raise Refuted("the table of the randomizer has more than two messages.")
    first = min(row[0] for row in rows), max(row[0] for row in rows)
    if (least, most) not in (first, (1 - first[1], 1 - first[0])):
        raise Refuted("the table of the randomizer has other coins.")
    return "checked against the table of all its messages"
