"""Chosen inputs of a metric mechanism: two of them, or all that are near each other, and the law that hides these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from shuffledp.bounds.amplify import chosen_inputs
from shuffledp.certificate import field
from shuffledp.certificate.evidence import Evidence, Rebuilt
from shuffledp.certificate.one_law import OneLaw, laws_of_subject
from shuffledp.certificate.proof import exponential
from shuffledp.certificate.wording import claimed_mechanism, described
from shuffledp.certificate.written_law import LawText, Refuted, compare_laws, read_law
from shuffledp.privacy.neighbours import Neighbours
from shuffledp.privacy.randomizer import HasNeighbours, Randomizer

if TYPE_CHECKING:
    from shuffledp.certificate.claim import Claim

PAIR, DIAMETER = "pair", "diameter"


@dataclass(frozen=True)
class ChosenInputs(Neighbours):
    """The known facts about chosen inputs, with the choice: ``pair`` or ``diameter``."""

    inputs: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, mechanism: Randomizer, pair: Any, diameter: float | None) -> ChosenInputs:
        """As ``amplify`` chooses them."""
        found = chosen_inputs(mechanism, pair, diameter)
        assert isinstance(found, Neighbours)
        inputs = (DIAMETER, float(diameter)) if diameter is not None else (PAIR, tuple(map(_plain, pair)))
        return cls(found.parameters, found.pairs, found.attacking, mechanism, (inputs,))


@dataclass(frozen=True)
class ChosenLaw(Evidence):
    """The law of each direction, as for all inputs, and which inputs are meant."""

    inputs: Mapping[str, Any]
    law: LawText

    bounds = OneLaw.bounds
    fields = ("inputs", "law")
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 2e-8, 2e-5, 1e-3 of "
        "itself (delta: 1e-6, 1e-3, 1e-1) with which an independent proof was found and then rounded up to 7 digits; "
        "every number here stands for the nearest 64-bit float, exactly"
    )
    epsilon_margins = (Decimal("2e-8"), Decimal("2e-5"), Decimal("1e-3"))
    delta_margins = (Decimal("1e-6"), Decimal("1e-3"), Decimal("1e-1"))
    proved_when_made = True
    for_all_inputs = False

    @classmethod
    def serves(cls, randomizer: Randomizer, bound: str) -> bool:
        return isinstance(randomizer, ChosenInputs) and bound in cls.bounds

    @classmethod
    def of(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        assert isinstance(randomizer, ChosenInputs)
        return cls(dict(randomizer.inputs), OneLaw.of(randomizer, users, bound, epsilon).law)

    @classmethod
    def described(cls, randomizer: Randomizer) -> dict[str, Any]:
        assert isinstance(randomizer, ChosenInputs)
        assert randomizer.mechanism is not None
        return described(randomizer.mechanism)

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "inputs" in document

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        return cls(_read_inputs(fields["inputs"]), read_law("law", fields["law"]))

    def document(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "law": self.law}

    def statement(self, claim: Claim) -> str:
        if DIAMETER in self.inputs:
            what = f"Replacing one user's value by one at most {self.inputs[DIAMETER]!r} input units away"
        else:
            first, second = map(_said, self.inputs[PAIR])
            what = f"Replacing one user's value {first} by {second}, or {second} by {first},"
        return (
            f"{what} changes the shuffled messages of {claim.users} users "
            f"by at most epsilon = {claim.epsilon!r}, delta = {claim.delta!r}."
        )

    def rebuilt(self, claim: Claim) -> Rebuilt:
        if "mechanism" not in claim.randomizer:
            raise Refuted("inputs are those of a mechanism, and none is named.")
        mechanism, whose = claimed_mechanism(claim.randomizer)
        if not isinstance(mechanism, HasNeighbours):
            raise Refuted(f"{claim.randomizer['mechanism']} says nothing of chosen inputs.")
        try:
            subject = chosen_inputs(mechanism, self.inputs.get(PAIR), self.inputs.get(DIAMETER))
        except (TypeError, ValueError) as error:
            raise Refuted(f"the inputs are not the mechanism's: {error}") from None
        found = laws_of_subject(subject, claim.bound, f"law of these inputs from the mechanism{whose}")
        _, above = exponential(Fraction(claim.epsilon))
        compare_laws("direction", self.law, found.stated(above))
        return found


def _plain(value: Any) -> Any:
    """An input as JSON has it: a whole number, a float, or a list of floats."""
    if isinstance(value, bool | str):
        raise ValueError(f"certificate: an input must be a number or a list of them, got {type(value).__name__}.")
    try:
        return int(value) if float(value).is_integer() and not isinstance(value, float) else float(value)
    except TypeError:
        return tuple(float(each) for each in value)


def _said(value: Any) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def _read_inputs(value: Any) -> dict[str, Any]:
    name = DIAMETER if isinstance(value, dict) and DIAMETER in value else PAIR
    said = field.object_of("inputs", value, (name,))[name]
    if name == DIAMETER:
        return {DIAMETER: field.number(DIAMETER, said)}
    listed = field.list_of(PAIR, said)
    if len(listed) != 2:
        raise field.bad("a pair must be two inputs")
    return {PAIR: tuple(_read_input(one) for one in listed)}


def _read_input(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(field.number("an input", each) for each in field.list_of("an input", value))
    number = field.number("an input", value)
    return value if isinstance(value, int) else number
