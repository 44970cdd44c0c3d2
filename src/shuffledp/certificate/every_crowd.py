"""The bound ``all-crowds``: every kind of law that others may have, and the worst crowd of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Self

from flint import fmpq, fmpq_mat

from shuffledp.certificate import field
from shuffledp.certificate.crowds import Family, judge_crowds
from shuffledp.certificate.evidence import Evidence, Notice, Rebuilt, TooMany, all_proved
from shuffledp.certificate.parameters import Parameters, rational
from shuffledp.certificate.proof import Class, Finding
from shuffledp.certificate.wording import claimed_mechanism, messages_of
from shuffledp.certificate.written_law import (
    BALL_BITS,
    LawText,
    Refuted,
    classes_text,
    compare_laws,
    demand_same,
    number_text,
    proportions,
    read_law,
    read_probability,
    rebuilt_classes,
)
from shuffledp.numerics.ball import precision
from shuffledp.privacy.others import Others
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio

if TYPE_CHECKING:
    from shuffledp.certificate.claim import Claim

NAME = "all-crowds"
MOST_CLASSES = 20_000
"""How many classes of messages a file may hold."""


@dataclass(frozen=True)
class FamilyText:
    """All kinds of others of one direction of the divergence, as text."""

    gamma: str
    """The share of one law that every other user's law has."""
    kinds: LawText

    def document(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "kinds": self.kinds}


@dataclass(frozen=True)
class AllCrowds(Evidence):
    """The kinds of others for each direction of the divergence that may differ."""

    crowds: tuple[FamilyText, ...]

    bounds = (NAME,)
    fields = ("crowds",)
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 2e-5, 1e-4, 1e-3 of "
        "itself (delta: 1e-3, 1e-2, 1e-1) with which an independent proof was found and then rounded up to 7 digits; "
        "every number here stands for the nearest 64-bit float, exactly"
    )
    # The two proofs smooth and cut otherwise.
    epsilon_margins = (Decimal("2e-5"), Decimal("1e-4"), Decimal("1e-3"))
    delta_margins = (Decimal("1e-3"), Decimal("1e-2"), Decimal("1e-1"))
    proved_when_made = True

    @classmethod
    def of(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        messages_of(randomizer, users)
        found: list[FamilyText] = []
        count = 0
        for one in randomizer.others():
            for way in (one,) if one.symmetric else (one, one.swapped()):
                kinds = tuple(classes_text(kind) for kind in way.kinds)
                count += sum(map(len, kinds))
                if count > MOST_CLASSES:
                    raise ValueError(f"certificate: expected at most {MOST_CLASSES} classes of messages, got more.")
                found.append(FamilyText(number_text(fmpq(*way.gamma.as_integer_ratio())), kinds))
        return cls(tuple(found))

    @classmethod
    def described(cls, randomizer: Randomizer) -> dict[str, Any]:
        both_ways = {"local": True} if isinstance(randomizer, VariationRatio) else {}
        return super().described(randomizer) | both_ways

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return document.get("bound") == NAME

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        listed = field.list_of("crowds", fields["crowds"])
        found = [field.object_of("a direction of crowds", item, ("gamma", "kinds")) for item in listed]
        return cls(
            tuple(FamilyText(read_probability("gamma", one["gamma"]), read_law("kinds", one["kinds"])) for one in found)
        )

    def document(self) -> dict[str, Any]:
        return {"crowds": [one.document() for one in self.crowds]}

    def rebuilt(self, claim: Claim) -> Rebuilt:
        if "parameters" not in claim.randomizer:
            mechanism, whose = claimed_mechanism(claim.randomizer)
            families = self._families(mechanism.others())
            origin = f"laws of all others from the mechanism{whose}"
            return _Crowds(families, lambda users: messages_of(mechanism, users), origin)
        if "local" not in claim.randomizer:
            raise Refuted(f"the bound {NAME!r} needs ratios that hold both ways (local).")
        words = claim.randomizer["parameters"]
        Parameters.of(words)
        named = {name: float(number) for name, number in words.items()}
        q_pair = named["q0"], named["q1"]
        ratios = VariationRatio(named["p"], named["beta"], q_pair, q_common=named["q_common"], local=True)
        families = self._families(ratios.others())
        if not (ratios.at_maximum and q_pair == (ratios.p, ratios.p)):
            return _Crowds(families, int, "laws of all others from the parameters, as VariationRatio states them")
        _demand_all_ldp_kinds(families[0], rational(ratios.p))
        return _Crowds(families, int, "laws of all others from the parameters, all extreme ones of a local ε")

    def _families(self, others: Sequence[Others]) -> list[Family]:
        """Those of the file, rebuilt; and the other direction of what is said to be its own mirror image and is not."""
        found: list[Family] = []
        mirrored: list[Family] = []
        count = 0
        with precision(BALL_BITS):
            for one in others:
                for way in (one,) if one.symmetric else (one, one.swapped()):
                    kinds = tuple(tuple(rebuilt_classes(kind)) for kind in way.kinds)
                    count += sum(map(len, kinds))
                    if count > MOST_CLASSES:
                        raise TooMany(f"there are more than {MOST_CLASSES} classes of messages.")
                    found.append(Family(rational(way.gamma), kinds))
                if one.symmetric and not _is_own_mirror(found[-1].kinds):
                    swapped = tuple(tuple(rebuilt_classes(kind.swapped())) for kind in one.kinds)
                    mirrored.append(Family(found[-1].gamma, swapped))
        if not found or len(self.crowds) != len(found):
            raise Refuted(f"there are {len(self.crowds)} directions of crowds in the file and {len(found)} in truth.")
        for number, (text, family) in enumerate(zip(self.crowds, found, strict=True), 1):
            before = f"direction {number}: "
            demand_same(f"{before}gamma", text.gamma, family.gamma)
            compare_laws("kind", text.kinds, family.kinds, before)
        return [*found, *mirrored]


@dataclass(frozen=True)
class _Crowds(Rebuilt):
    """Every family of laws that must be proved."""

    families: Sequence[Family]
    messages: Callable[[int], int]
    """How many messages of so many users hide each other."""
    origin: str

    def judged(self, users: int, epsilon: Fraction, delta: Fraction, notice: Notice) -> Finding:
        others, count = self.messages(users) - 1, len(self.families)

        def finding(number: int, family: Family) -> Finding:
            notice(f"proving family of laws {number} of {count}")
            return judge_crowds(family, others, epsilon, delta)

        every = "every crowd" if count == 1 else f"every crowd, in {count} directions"
        found = (finding(number, family) for number, family in enumerate(self.families, 1))
        return all_proved(found, self.origin, every)


def _is_own_mirror(kinds: Sequence[Sequence[Class]]) -> bool:
    """Whether exchanging the two inputs leaves the laws of G as they are; not where they are not exact."""
    laws = {proportions(kind) for kind in kinds}
    return None not in laws and laws == {proportions([(b, a, h) for a, b, h in kind]) for kind in kinds}


def _demand_all_ldp_kinds(family: Family, p: fmpq) -> None:
    """Refute unless every extreme law of a local ε is there, found a second time.

    Messages have weights of 1 or p under the two inputs and another user's; three equations say that each law sums to
    1, so that the extreme ones have at most three messages. Where the two inputs have one law G is never above 0.
    """
    there = {proportions(kind) for kind in family.kinds}
    for chosen in combinations(product((fmpq(1), p), repeat=3), 3):
        matrix = fmpq_mat(3, 3, [message[law] for law in range(3) for message in chosen])
        if matrix.det() == 0:
            continue
        masses = matrix.solve(fmpq_mat(3, 1, [1, 1, 1])).entries()
        if min(masses) < 0:
            continue
        kind = [(m * a, m * b, m * h) for m, (a, b, h) in zip(masses, chosen, strict=True) if m > 0]
        if any(a != b for a, b, _ in kind) and proportions(kind) not in there:
            raise Refuted("the kinds of others lack one that a local ε allows.")
    if family.gamma * p > 1:
        raise Refuted("gamma is above 1/p.")
