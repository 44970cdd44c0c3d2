"""Protocols whose noise has a law of its own, alone or several together: the numbers that the law follows from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from shuffledp.bounds import BOUND_OF
from shuffledp.certificate import field
from shuffledp.certificate.evidence import Evidence, Notice, Rebuilt
from shuffledp.certificate.noise_proof import Facts, judge_noise, read_noise
from shuffledp.certificate.proof import Finding, Verdict
from shuffledp.certificate.wording import Stranger, claimed_mechanism, messages_of
from shuffledp.certificate.written_law import Refuted, fraction_text, read_fraction
from shuffledp.errors import NotApplicable
from shuffledp.privacy.own_loss import OwnLoss
from shuffledp.privacy.randomizer import HasOwnLoss, HasParts, Randomizer

if TYPE_CHECKING:
    from shuffledp.certificate.claim import Claim

OWN_NOISE, COMPOSED_PARTS = "own-noise", "composed-parts"
MOST_TIMES = 1 << 12

FactsText = dict[str, Any]
"""Facts as JSON: texts, and one object of the noise within."""


@dataclass(frozen=True)
class NoiseText:
    """Noise in numbers, and how many such noises a changed value moves."""

    facts: FactsText
    times: int

    def document(self) -> dict[str, Any]:
        return {"times": self.times, "noise": self.facts}


@dataclass(frozen=True)
class AddedNoise(Evidence):
    """The noise that hides a value, part by part."""

    noises: tuple[NoiseText, ...]

    bounds = (OWN_NOISE, COMPOSED_PARTS)
    fields = ("noises",)
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 2e-8, 2e-5, 1e-4, "
        "1e-3 of itself (delta: 1e-6, 1e-3, 1e-2, 1e-1) with which an independent proof was found and then rounded up "
        "to 7 digits; every number here stands for the nearest 64-bit float, exactly"
    )
    epsilon_margins = (Decimal("2e-8"), Decimal("2e-5"), Decimal("1e-4"), Decimal("1e-3"))
    delta_margins = (Decimal("1e-6"), Decimal("1e-3"), Decimal("1e-2"), Decimal("1e-1"))
    proved_when_made = True

    @classmethod
    def of(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        return cls(tuple(NoiseText(_text(facts), times) for facts, times in _noises(randomizer, users)))

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "noises" in document

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        listed = field.list_of("noises", fields["noises"])
        found = [field.object_of("one of the noises", item, ("times", "noise")) for item in listed]
        return cls(
            tuple(
                NoiseText(_read_text(one["noise"]), field.integer("times", one["times"], 1, MOST_TIMES))
                for one in found
            )
        )

    def document(self) -> dict[str, Any]:
        return {"noises": [one.document() for one in self.noises]}

    def theorem(self, claim: Claim) -> str:
        """That of the noise, which the bound names."""
        try:
            mechanism, _ = claimed_mechanism(claim.randomizer)
            loss = _losses(mechanism, claim.users)[0][0]
        except (Stranger, ValueError):
            # Not known here: said where the noise is looked for.
            return claim.theorem
        general = BOUND_OF[claim.bound].theorem
        return f"{general}: {loss.theorem}" if claim.bound == COMPOSED_PARTS else loss.theorem

    def rebuilt(self, claim: Claim) -> Rebuilt:
        if "mechanism" not in claim.randomizer:
            raise Refuted(f"the bound {claim.bound!r} needs a protocol with noise of its own.")
        mechanism, whose = claimed_mechanism(claim.randomizer)
        if isinstance(mechanism, HasParts) != (claim.bound == COMPOSED_PARTS):
            raise Refuted(f"the bound {claim.bound!r} is not one of {claim.randomizer['mechanism']}.")

        def noises(users: int) -> Sequence[tuple[Facts, int]]:
            return _noises(mechanism, users)

        try:
            truth = [NoiseText(_text(facts), times) for facts, times in noises(claim.users)]
        except ValueError as error:
            raise Refuted(str(error).removeprefix("certificate: ")) from None
        if len(truth) != len(self.noises):
            raise Refuted(f"there are {len(self.noises)} noises in the file and {len(truth)} in truth.")
        for number, (said, found) in enumerate(zip(self.noises, truth, strict=True), 1):
            _demand_same(f"noise {number}: ", said.document(), found.document())
        return _Noises(noises, f"numbers of the noise from the mechanism{whose}")


@dataclass(frozen=True)
class _Noises(Rebuilt):
    """The noises of so many users."""

    noises: Callable[[int], Sequence[tuple[Facts, int]]]
    origin: str

    def judged(self, users: int, epsilon: Fraction, delta: Fraction, notice: Notice) -> Finding:
        notice("summing over the law of the noise")
        try:
            parts = [(read_noise(facts), times) for facts, times in self.noises(users)]
        except KeyError as error:
            # Somebody else's protocol may have noise of its own.
            reason = f"no second proof is known here of noise with the kind or number {error}."
            return Finding(Verdict.OPEN, reason, self.origin)
        finding = judge_noise(parts, epsilon, delta)
        method = f"{finding.method}; {self.origin}"
        if finding.verdict is Verdict.YES:
            return Finding(Verdict.YES, "the divergence is at most delta for every two values.", method)
        return Finding(finding.verdict, finding.reason, method)


def _losses(randomizer: Randomizer, users: int) -> list[tuple[OwnLoss, int]]:
    """What each part tells, and how many parts are like it; a sentence where that is not known."""
    parts = randomizer.parts() if isinstance(randomizer, HasParts) else [(randomizer, 1)]
    found = []
    for part, times in parts:
        if not isinstance(part, HasOwnLoss):
            raise ValueError(f"certificate: {type(part).__name__} has no noise with a law of its own.")
        try:
            found.append((part.own_loss(messages_of(part, users)), times))
        except NotApplicable as error:
            raise ValueError(f"certificate: {error.reason}") from None
    return found


def _noises(randomizer: Randomizer, users: int) -> list[tuple[Facts, int]]:
    """The facts of each part's noise; a sentence where there is no second proof of one."""
    result: list[tuple[Facts, int]] = []
    for loss, times in _losses(randomizer, users):
        facts = loss.facts()
        if facts is None:
            raise ValueError(f"certificate: no second proof is known of what {loss.theorem} says.")
        result.append((facts, times))
    return result


# --- texts --------------------------------------------------------------------------------------------------------


def _text(facts: Facts) -> FactsText:
    return {
        name: said if isinstance(said, str) else fraction_text(said) if isinstance(said, Fraction) else _text(said)
        for name, said in facts.items()
    }


def _read_text(value: Any, inside: bool = False) -> FactsText:
    """An object of texts, with one more such object at most."""
    if not isinstance(value, dict):
        raise field.bad("a noise must be an object")
    found: FactsText = {}
    for name, said in value.items():
        if name == "noise" and not inside:
            found[name] = _read_text(said, inside=True)
        elif name == "kind":
            found[name] = field.text(name, said)
        else:
            found[name] = read_fraction(f"{name} of a noise", said)
    return found


def _demand_same(what: str, said: Mapping[str, Any], truth: Mapping[str, Any]) -> None:
    """Refute at the first difference."""
    for name in (*truth, *said):
        if name not in said or name not in truth:
            raise Refuted(f"{what}{name} is only in {'truth' if name in truth else 'the file'}.")
        if isinstance(truth[name], Mapping) and isinstance(said[name], Mapping):
            _demand_same(what, said[name], truth[name])
        elif said[name] != truth[name]:
            raise Refuted(f"{what}{name} is {said[name]} in the file and {truth[name]} in truth.")
