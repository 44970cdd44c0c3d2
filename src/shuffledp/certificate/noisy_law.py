"""The bound ``noisy-crowd``: dummies, and the others' real messages as far as they are certain to hide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from shuffledp.certificate import field
from shuffledp.certificate.evidence import Evidence, Notice, Rebuilt, all_proved
from shuffledp.certificate.noisy import NoisyCrowd
from shuffledp.certificate.one_law import OPTIMAL, OneLaw, blanket_laws
from shuffledp.certificate.proof import Finding
from shuffledp.certificate.wording import MOST_USERS, claimed_mechanism, messages_of
from shuffledp.certificate.written_law import (
    Law,
    LawText,
    Refuted,
    compare_laws,
    fraction_text,
    read_fraction,
    read_law,
)
from shuffledp.privacy.randomizer import HasNoisyOthers, Randomizer

if TYPE_CHECKING:
    from shuffledp.certificate.claim import Claim

NAME = "noisy-crowd"


@dataclass(frozen=True)
class NoisyLaw(Evidence):
    """The law of what hides, and how many others' messages have it with which chance."""

    law: LawText
    others: int
    chance: str

    bounds = (NAME,)
    fields = ("law", "others", "chance")
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 2e-5, 1e-4, 1e-3, "
        "1e-2 of itself (delta: 1e-3, 1e-2, 1e-1, 1) with which an independent proof was found and then rounded up "
        "to 7 digits; every number here stands for the nearest 64-bit float, exactly"
    )
    epsilon_margins = (Decimal("2e-5"), Decimal("1e-4"), Decimal("1e-3"), Decimal("1e-2"))
    delta_margins = (Decimal("1e-3"), Decimal("1e-2"), Decimal("1e-1"), Decimal("1"))
    proved_when_made = True

    @classmethod
    def of(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        if not isinstance(randomizer, HasNoisyOthers):
            raise ValueError(f"certificate: {NAME} needs real messages that are noisy, besides dummies.")
        others, chance = randomizer.noisy_others(messages_of(randomizer, users))
        return cls(OneLaw.of(randomizer, users, OPTIMAL, epsilon).law, others, fraction_text(chance))

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "chance" in document

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        others = field.integer("others", fields["others"], 1, MOST_USERS)
        return cls(read_law("law", fields["law"]), others, read_fraction("chance", fields["chance"]))

    def document(self) -> dict[str, Any]:
        return {"law": self.law, "others": self.others, "chance": self.chance}

    def rebuilt(self, claim: Claim) -> Rebuilt:
        if "parameters" in claim.randomizer:
            raise Refuted(f"the bound {NAME!r} needs a randomizer, not parameters.")
        mechanism, whose = claimed_mechanism(claim.randomizer)
        if not isinstance(mechanism, HasNoisyOthers):
            raise Refuted("the randomizer has no noise besides dummies.")
        found = _Noisy(mechanism, blanket_laws(mechanism), f"law and chance from the mechanism{whose}")
        crowd = found.crowd(claim.users)
        compare_laws("direction", self.law, found.laws)
        for name, said, truth in (
            ("others", str(self.others), str(crowd.others)),
            ("chance", self.chance, fraction_text(crowd.chance)),
        ):
            if said != truth:
                raise Refuted(f"{name} is {said} in the file and {truth} in truth.")
        return found


@dataclass(frozen=True)
class _Noisy(Rebuilt):
    """The law of each direction, among any number of users."""

    mechanism: Randomizer
    laws: Sequence[Law]
    origin: str

    def crowd(self, users: int) -> NoisyCrowd:
        """What hides one of so many users."""
        assert isinstance(self.mechanism, HasNoisyOthers)
        messages = messages_of(self.mechanism, users)
        return NoisyCrowd(messages, *self.mechanism.noisy_others(messages))

    def judged(self, users: int, epsilon: Fraction, delta: Fraction, notice: Notice) -> Finding:
        crowd = self.crowd(users)
        notice("proving the sizes of the crowd, stratum by stratum")
        every = "the only law" if len(self.laws) == 1 else f"all {len(self.laws)} laws"
        return all_proved((crowd.judged(law, epsilon, delta) for law in self.laws), self.origin, every)
