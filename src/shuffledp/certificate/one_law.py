"""The bounds of one law: the classes of messages that hide a user, and the divergence of many draws from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from flint import fmpq

from shuffledp.bounds import BOUND_OF
from shuffledp.certificate.every_pair import Kind, kinds_of, law_of_kind
from shuffledp.certificate.evidence import Evidence, Notice, Rebuilt, all_proved
from shuffledp.certificate.parameters import Parameters
from shuffledp.certificate.proof import Finding, exponential, judge
from shuffledp.certificate.wording import claimed_mechanism, messages_of
from shuffledp.certificate.written_law import (
    BALL_BITS,
    Law,
    LawText,
    Refuted,
    classes_text,
    compare_laws,
    distinct,
    read_law,
    rebuilt_classes,
)
from shuffledp.numerics.ball import precision
from shuffledp.privacy.curve import NumericCurve
from shuffledp.privacy.randomizer import Randomizer

if TYPE_CHECKING:
    from shuffledp.certificate.claim import Claim

OPTIMAL = "optimal"


@dataclass(frozen=True)
class OneLaw(Evidence):
    """The law of each direction of the divergence that may differ."""

    law: LawText
    """For each such direction, the classes of messages."""

    bounds = (OPTIMAL, "variation-ratio", "stronger-clone", "clone")
    fields = ("law",)
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by 2e-8 of itself (delta: 1e-6) "
        "and then rounded up to 7 digits, so that an independent proof has room; "
        "every number here stands for the nearest 64-bit float, exactly"
    )
    # Over such a step of ε the divergence falls by far more than 2e-8 of itself.
    epsilon_margins = (Decimal("2e-8"),)
    delta_margins = (Decimal("1e-6"),)

    @classmethod
    def of(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        curve = BOUND_OF[bound].curve(randomizer, messages_of(randomizer, users))
        assert isinstance(curve, NumericCurve)
        return cls(tuple(classes_text(direction(epsilon)) for direction in curve.directions))

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "law" in document

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        return cls(read_law("law", fields["law"]))

    def document(self) -> dict[str, Any]:
        return {"law": self.law}

    def rebuilt(self, claim: Claim) -> Rebuilt:
        found = _laws_of(claim)
        _, above = exponential(Fraction(claim.epsilon))
        compare_laws("direction", self.law, found.stated(above))
        return found


@dataclass(frozen=True)
class Laws(Rebuilt):
    """The laws of a claim's randomizer; each is asked for with a number of at least e^ε, on which some depend."""

    stated: Callable[[fmpq], Sequence[Law]]
    """Those that the file says."""
    proved: Callable[[fmpq], Sequence[Law]]
    """Those that must be proved: a table has the last word."""
    messages: Callable[[int], int]
    """How many messages of so many users hide each other."""
    origin: str

    def judged(self, users: int, epsilon: Fraction, delta: Fraction, notice: Notice) -> Finding:
        _, above = exponential(epsilon)
        laws, messages = self.proved(above), self.messages(users)

        def finding(number: int, law: Law) -> Finding:
            notice(f"proving law {number} of {len(laws)}")
            return judge(law, messages, epsilon, delta)

        every = "the only law" if len(laws) == 1 else f"all {len(laws)} laws"
        return all_proved((finding(number, law) for number, law in enumerate(laws, 1)), self.origin, every)


def _laws_of(claim: Claim) -> Laws:
    """Every law that must be proved, for how many messages, and where it comes from."""
    words = claim.randomizer
    if "parameters" in words:
        if claim.bound == OPTIMAL:
            raise Refuted(f"the bound {OPTIMAL!r} needs a randomizer, not parameters.")
        parameters = Parameters.of(words["parameters"]).for_bound(claim.bound)
        return Laws(parameters.laws, parameters.laws, int, "law from the parameters")
    mechanism, whose = claimed_mechanism(words)
    kinds = kinds_of(mechanism)
    checked = "law from the mechanism" if kinds is None else "law checked against the table of all its messages"
    return laws_of_subject(mechanism, claim.bound, checked + whose, kinds or ())


def laws_of_subject(subject: Randomizer, bound: str, origin: str, kinds: Sequence[Kind] = ()) -> Laws:
    """The laws that a randomizer states; where all kinds of pairs of its table are known, these have the last word."""

    def messages(users: int) -> int:
        return messages_of(subject, users)

    if bound == OPTIMAL:
        blankets = blanket_laws(subject)
        every = distinct([*blankets, *map(law_of_kind, kinds)])
        return Laws(lambda above: blankets, lambda above: every, messages, origin)
    parameters = Parameters.of(subject.variation_ratio().describe()).for_bound(bound)
    for kind in kinds:
        parameters.check(kind)
    return Laws(parameters.laws, parameters.laws, messages, origin)


def blanket_laws(randomizer: Randomizer) -> list[Law]:
    """The randomizer's own blankets, each in every direction that may differ."""
    result: list[Law] = []
    with precision(BALL_BITS):
        for pair in randomizer.blankets():
            for way in (pair,) if pair.symmetric else (pair, pair.swapped()):
                result.append(rebuilt_classes(way))
    return result
