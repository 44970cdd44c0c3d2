"""The proof of each kind of claim, with the verdict yes, no, or cannot decide.

``verify`` takes the law that the claim writes, checks that it is a law, and decides whether its divergence is at most δ
at ε. Parameters are the exception: their law is derived a second time and compared with the one in the file. Whether
the law is that of a mechanism is not decided here; ``shuffledp verify`` compares them, and uses the classes of this
file to prove the law that it found.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from os import PathLike
from typing import Any

from flint import arb, fmpq

from shuffledp_verify.arithmetic import bracket_exponential, precision, rational
from shuffledp_verify.claim import (
    BOUNDS,
    EXACT_BINARY,
    MAX_CLASSES,
    OPTIMAL,
    THEOREMS,
    WORST_DATASET,
    BinaryEvidence,
    BlanketEvidence,
    Claim,
    LawFamilyText,
    NoiseEvidence,
    PairEvidence,
    RandomBlanketEvidence,
    RoundEvidence,
    RoundsEvidence,
    WorstDatasetEvidence,
    read_claim,
)
from shuffledp_verify.composition import GridTooLong, SizePoints
from shuffledp_verify.divergence import RandomBlanket, decide_divergence
from shuffledp_verify.message_laws import (
    BALL_BITS,
    Law,
    LawText,
    VariationRatioParameters,
    check_extreme_laws,
    compare_laws,
    distinct_laws,
    is_mirror_image,
    parse_law,
    parse_number,
)
from shuffledp_verify.noise import Facts, decide_noise, read_noise
from shuffledp_verify.verdict import Finding, Refuted, TooManyCases, Undecided, Verdict
from shuffledp_verify.worst_dataset_bound import LawFamily, decide_binary, decide_worst_dataset

MessageCallback = Callable[[str], None]
"""Receives the name of the current step."""
MessageCount = Callable[[int], int]
"""The number of messages that hide each other, as a function of the number of users."""

CLAIM_ORIGIN = "as the claim writes"
DISPROOF_BITS = 256
ROUNDS_METHOD = "rounds composed in whole numbers from chords"


def verify(claim: Claim | str | PathLike[str], notice: MessageCallback = lambda text: None) -> Finding:
    """Proves that the law written in a claim is (ε, δ)-private, or disproves it.

    Args:
        claim: A claim, or the path of its file.
        notice: Receives the name of the current step.

    Returns:
        Yes (proved), no (disproved) or cannot decide, with the reason and the method.

    Raises:
        ValueError: If the file cannot be read, or is not a certificate.
    """
    if not isinstance(claim, Claim):
        claim = read_claim(claim)
    evidence = claim.evidence
    try:
        _check_bound(claim)
        if isinstance(evidence, RoundsEvidence):
            return prove_rounds(claim, evidence, _build_rounds_proof(claim, evidence), notice)
        assert isinstance(evidence, RoundEvidence), "a claim is about one round or about several"
        proof = build_written_proof(evidence, claim, lambda users: evidence)
        return proof.decide(claim.users, Fraction(claim.epsilon), Fraction(claim.delta), notice)
    except Refuted as refuted:
        return Finding(Verdict.NO, str(refuted), "the law in the file")
    except (TooManyCases, Undecided) as open_:
        return Finding(Verdict.OPEN, str(open_), "the law in the file")


def _check_bound(claim: Claim) -> None:
    """Refutes a bound that has no proof here, or whose theorem is another one."""
    if claim.bound not in claim.evidence.bounds:
        raise Refuted(f"the bound {claim.bound!r} is unknown; expected one of {', '.join(BOUNDS)}.")
    theorem = THEOREMS.get(claim.bound, claim.theorem)
    if claim.theorem != theorem:
        raise Refuted(f"the theorem of {claim.bound} is {theorem!r}, got {claim.theorem!r}.")


# --- Proofs of one round ---


class RoundProof(ABC):
    """The laws of one round, decided for any number of users and any (ε, δ)."""

    @abstractmethod
    def decide(self, users: int, epsilon: Fraction, delta: Fraction, notice: MessageCallback) -> Finding:
        """Decides whether one round is (ε, δ)-private by the claimed bound.

        Args:
            users: Number of users.
            epsilon: The claimed ε.
            delta: The claimed δ.
            notice: Receives the name of the current step.

        Returns:
            Yes, no, or cannot decide.
        """


@dataclass(frozen=True)
class BlanketProof(RoundProof):
    """Laws that must all be private."""

    laws: Callable[[fmpq], Sequence[Law]]
    """The laws as a function of a number that is at least e^ε, on which some depend."""
    messages: MessageCount
    origin: str

    def decide(self, users: int, epsilon: Fraction, delta: Fraction, notice: MessageCallback) -> Finding:
        _, above = bracket_exponential(epsilon)
        laws, messages = self.laws(above), self.messages(users)

        def finding(number: int, law: Law) -> Finding:
            notice(f"proving law {number} of {len(laws)}")
            return decide_divergence(law, messages, epsilon, delta)

        every = "the only law" if len(laws) == 1 else f"all {len(laws)} laws"
        return combine_findings((finding(number, law) for number, law in enumerate(laws, 1)), self.origin, every)


@dataclass(frozen=True)
class RandomBlanketProof(RoundProof):
    """The law of a dummy for each direction, among a random number of dummies."""

    laws: Sequence[Law]
    blanket: Callable[[int], RandomBlanket]
    """The messages that hide a user, as a function of the number of users."""
    origin: str

    def decide(self, users: int, epsilon: Fraction, delta: Fraction, notice: MessageCallback) -> Finding:
        blanket = self.blanket(users)
        notice("proving the numbers of hiding messages, stratum by stratum")
        every = "the only law" if len(self.laws) == 1 else f"all {len(self.laws)} laws"
        return combine_findings((blanket.decide(law, epsilon, delta) for law in self.laws), self.origin, every)


@dataclass(frozen=True)
class WorstDatasetProof(RoundProof):
    """Families of laws that must all be private, for every dataset."""

    families: Sequence[LawFamily]
    messages: MessageCount
    origin: str

    def decide(self, users: int, epsilon: Fraction, delta: Fraction, notice: MessageCallback) -> Finding:
        others, count = self.messages(users) - 1, len(self.families)

        def finding(number: int, family: LawFamily) -> Finding:
            notice(f"proving family of laws {number} of {count}")
            return decide_worst_dataset(family, others, epsilon, delta)

        every = "every dataset" if count == 1 else f"every dataset, in {count} directions"
        found = (finding(number, family) for number, family in enumerate(self.families, 1))
        return combine_findings(found, self.origin, every)


@dataclass(frozen=True)
class BinaryProof(RoundProof):
    """Every dataset of a randomizer with two messages."""

    least: Fraction
    most: Fraction
    messages: MessageCount
    origin: str

    def decide(self, users: int, epsilon: Fraction, delta: Fraction, notice: MessageCallback) -> Finding:
        notice("proving every dataset of two messages")
        finding = decide_binary(self.most, self.least, self.messages(users), epsilon, delta)
        method = f"{finding.method}; {self.origin}"
        if finding.verdict is Verdict.YES:
            return Finding(Verdict.YES, "the divergence is at most delta for every dataset.", method)
        return Finding(finding.verdict, finding.reason, method)


@dataclass(frozen=True)
class NoiseProof(RoundProof):
    """The noise that honest users, or the shuffler, add together."""

    noises: Callable[[int], Sequence[tuple[Facts, int]]]
    """The facts of each noise, and how many parts of a changed value have it, as a function of the number of users."""
    origin: str

    def decide(self, users: int, epsilon: Fraction, delta: Fraction, notice: MessageCallback) -> Finding:
        notice("summing over the law of the noise")
        try:
            parts = [(read_noise(facts), times) for facts, times in self.noises(users)]
        except KeyError as error:
            # A third-party protocol may have a kind of noise that is unknown here.
            reason = f"no second proof is known here of noise with the kind or number {error}."
            return Finding(Verdict.OPEN, reason, self.origin)
        finding = decide_noise(parts, epsilon, delta)
        method = f"{finding.method}; {self.origin}"
        if finding.verdict is Verdict.YES:
            return Finding(Verdict.YES, "the divergence is at most delta for every two values.", method)
        return Finding(finding.verdict, finding.reason, method)


def combine_findings(findings: Iterable[Finding], origin: str, proved: str) -> Finding:
    """Returns the combined finding: no if one is no, yes only if all are yes.

    Args:
        findings: The findings; those after a "no" are not computed.
        origin: The origin of the laws, for the method.
        proved: The laws that were proved, in words.

    Returns:
        The combined finding.
    """
    methods: dict[str, None] = {}
    open_: Finding | None = None
    for finding in findings:
        methods[finding.method] = None
        if finding.verdict is Verdict.NO:
            return Finding(Verdict.NO, finding.reason, "; ".join((*methods, origin)))
        if finding.verdict is Verdict.OPEN and open_ is None:
            open_ = finding
    method = "; ".join((*methods, origin))
    if open_ is not None:
        return Finding(Verdict.OPEN, open_.reason, method)
    return Finding(Verdict.YES, f"the divergence is at most delta for {proved}.", method)


# --- Rounds and samples ---


def prove_rounds(claim: Claim, rounds: RoundsEvidence, proof: RoundProof, notice: MessageCallback) -> Finding:
    """Proves the points of one round, and compose them.

    Args:
        claim: A claim about several rounds, or about a sample.
        rounds: Its evidence.
        proof: The proof of one round.
        notice: Receives the name of the current step.

    Returns:
        Yes, no, or cannot decide.

    Raises:
        Refuted: If the numbers of the claim contradict each other.
        TooManyCases: If the losses are too far apart for the grid.
    """
    check_rounds(claim, rounds)
    found = _prove_points(rounds, proof, notice)
    if isinstance(found, Finding):
        return found
    sizes, method, open_ = found
    notice("composing the rounds")
    epsilon, delta = Fraction(claim.epsilon), Fraction(claim.delta)
    try:
        reached = rounds.plan.bound(sizes, delta).delta(epsilon) if delta else arb(1)
    except GridTooLong as error:
        raise TooManyCases(str(error)) from None
    if reached <= arb(rational(delta)):
        every = "all rounds" if rounds.plan.rounds > 1 else "the round"
        return Finding(Verdict.YES, f"the divergence is at most delta for {every}.", method)
    disproof = _disprove_rounds(claim, rounds, proof, notice)
    if disproof is not None:
        return disproof
    reason = f"these points give delta = {float(reached.upper()):.7g} at this epsilon."
    if open_ is not None:
        reason += f" One of them was not proved: {open_}"
    return Finding(Verdict.OPEN, reason, method)


def check_rounds(claim: Claim, rounds: RoundsEvidence) -> None:
    """Refutes a claim about rounds whose bound, sizes and draw contradict each other."""
    if claim.bound not in rounds.round_evidence.bounds:
        raise Refuted(f"the bound {claim.bound!r} is not that of the law in the file.")
    if not rounds.round_evidence.for_all_inputs:
        raise Refuted("rounds and samples are claimed for all inputs, and the law in the file is not.")
    draw, least, most = rounds.plan.draw, rounds.sizes[0].users, rounds.sizes[-1].users
    if draw is not None and draw.sample_size is None:
        if claim.users != max(1, math.floor(draw.chance * draw.honest_population)):
            raise Refuted("users is not how many come on average.")
        if most > draw.honest_population:
            raise Refuted(f"there are points of {most} users, more than there are people.")
    elif least > claim.users:
        raise Refuted(f"the points are for {least} users, more than the {claim.users} of the claim.")
    elif draw is not None and draw.sample_size is not None and claim.users != draw.sample_size - draw.colluding:
        # If some of the sample stay away, nothing follows from the share that was drawn.
        raise Refuted("users is not how many are drawn and do not collude.")


def _prove_points(
    rounds: RoundsEvidence, proof: RoundProof, notice: MessageCallback
) -> tuple[list[SizePoints], str, str | None] | Finding:
    """Returns the proved points, the method, and the reason why a point is undecided; a finding if a point is wrong."""
    count, number = sum(len(size.points) for size in rounds.sizes), 0
    methods: dict[str, None] = {}
    open_: str | None = None
    kept: list[SizePoints] = []
    for size in rounds.sizes:
        points = []
        for epsilon, delta in size.points:
            number += 1
            notice(f"proving point {number} of {count}")
            finding = proof.decide(size.users, Fraction(epsilon), Fraction(delta), lambda text: None)
            methods |= dict.fromkeys(finding.method.split("; "))
            if finding.verdict is Verdict.NO:
                reason = f"the point epsilon = {epsilon!r} of {size.users} users is wrong: {finding.reason}"
                return Finding(Verdict.NO, reason, finding.method)
            if finding.verdict is Verdict.YES:
                points.append((epsilon, delta))
            else:
                open_ = open_ or finding.reason
        kept.append(SizePoints(size.users, tuple(points)))
    return kept, "; ".join((ROUNDS_METHOD, *methods)), open_


def _disprove_rounds(
    claim: Claim, rounds: RoundsEvidence, proof: RoundProof, notice: MessageCallback
) -> Finding | None:
    """Returns a finding of no if one round alone is above δ by this bound; not tried if coins decide who takes part."""
    draw = rounds.plan.draw
    if draw is not None and draw.sample_size is None:
        return None
    notice("looking for a disproof")
    share = Fraction(1) if draw is None else draw.chance
    with precision(DISPROOF_BITS):
        inner = (arb(rational(Fraction(claim.epsilon))).expm1() / arb(rational(share))).log1p().upper()
    mantissa, exponent = inner.man_exp()
    epsilon = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    finding = proof.decide(claim.users, epsilon, Fraction(claim.delta) / share, lambda text: None)
    if finding.verdict is not Verdict.NO:
        return None
    return Finding(Verdict.NO, f"one round alone is above delta: {finding.reason}", finding.method)


# --- The law as a claim writes it ---

EvidenceAt = Callable[[int], RoundEvidence]
"""The evidence as a function of the number of users."""


def _build_rounds_proof(claim: Claim, rounds: RoundsEvidence) -> RoundProof:
    once = rounds.round_evidence

    def evidence_at(users: int) -> RoundEvidence:
        if users == claim.users:
            return once
        if users not in rounds.evidence_by_size and set(once.user_dependent_fields) & set(once.to_document()):
            raise Undecided(f"the file does not say which numbers its law has for {users} users.")
        return rounds.evidence_by_size.get(users, once)

    return build_written_proof(once, rounds.single_round_claim(claim), evidence_at)


@singledispatch
def build_written_proof(evidence: RoundEvidence, claim: Claim, evidence_at: EvidenceAt) -> RoundProof:
    """Returns the proof of the law that a claim writes.

    Args:
        evidence: The evidence of one round.
        claim: The claim about that round.
        evidence_at: The evidence for any number of users that the claim is about.

    Returns:
        The proof.

    Raises:
        Refuted: If the text is not a law, or not the law of the parameters.
    """
    raise Undecided(f"no proof is known here of {type(evidence).__name__}.")


@build_written_proof.register(BlanketEvidence)
@build_written_proof.register(PairEvidence)
def _(evidence: BlanketEvidence | PairEvidence, claim: Claim, evidence_at: EvidenceAt) -> RoundProof:
    if "parameters" in claim.randomizer:
        if claim.bound == OPTIMAL:
            raise Refuted(f"the bound {OPTIMAL!r} needs a randomizer, not parameters.")
        _check_no_messages(evidence)
        parameters = VariationRatioParameters.from_description(claim.randomizer["parameters"]).for_bound(claim.bound)
        _, above = bracket_exponential(Fraction(claim.epsilon))
        compare_laws("direction", evidence.law, parameters.laws(above))
        return BlanketProof(parameters.laws, int, "law from the parameters")
    laws = [parse_law(direction) for direction in evidence.law]
    if claim.bound == OPTIMAL:
        laws = distinct_laws([*laws, *_missing_mirror_images(evidence.law, laws)])
    return BlanketProof(lambda above: laws, _message_count(evidence_at), f"law {CLAIM_ORIGIN} it")


@build_written_proof.register
def _(evidence: RandomBlanketEvidence, claim: Claim, evidence_at: EvidenceAt) -> RoundProof:
    messages = _message_count(evidence_at)
    laws = [parse_law(direction) for direction in evidence.law]
    laws += _missing_mirror_images(evidence.law, laws)

    def blanket(users: int) -> RandomBlanket:
        found = evidence_at(users)
        assert isinstance(found, RandomBlanketEvidence), "all sizes have the same kind of evidence"
        chance = Fraction(found.chance)
        if not 0 < chance <= 1:
            raise Refuted("chance is no probability above 0.")
        return RandomBlanket(messages(users), found.others, chance)

    return RandomBlanketProof(laws, blanket, f"law and chance {CLAIM_ORIGIN} them")


@build_written_proof.register
def _(evidence: WorstDatasetEvidence, claim: Claim, evidence_at: EvidenceAt) -> RoundProof:
    if sum(len(kind) for one in evidence.families for kind in one.kinds) > MAX_CLASSES:
        raise TooManyCases(f"there are more than {MAX_CLASSES} classes of messages.")
    families = [_parse_family(one) for one in evidence.families]
    origin = f"laws of all others {CLAIM_ORIGIN} them"
    if "parameters" in claim.randomizer:
        if "local" not in claim.randomizer:
            raise Refuted(f"the bound {WORST_DATASET!r} needs ratios that hold both ways (local).")
        _check_no_messages(evidence)
        parameters = VariationRatioParameters.from_description(claim.randomizer["parameters"])
        at_maximum = parameters.total_variation == parameters.largest_beta
        if parameters.p is not None and at_maximum and parameters.q0 == parameters.q1 == parameters.p:
            check_extreme_laws(families[0], parameters.p)
            origin = "laws of all others from the parameters, all extreme ones of a local ε"
    return WorstDatasetProof([*families, *_mirrored_families(families)], _message_count(evidence_at), origin)


@build_written_proof.register
def _(evidence: BinaryEvidence, claim: Claim, evidence_at: EvidenceAt) -> RoundProof:
    if "parameters" in claim.randomizer:
        raise Refuted(f"the bound {EXACT_BINARY!r} needs a randomizer, not parameters.")
    least, most = Fraction(evidence.least), Fraction(evidence.most)
    if not least <= most <= 1:
        raise Refuted("coin: least and most must be probabilities, the least first.")
    return BinaryProof(least, most, _message_count(evidence_at), f"coins {CLAIM_ORIGIN} them")


@build_written_proof.register
def _(evidence: NoiseEvidence, claim: Claim, evidence_at: EvidenceAt) -> RoundProof:
    def noises(users: int) -> list[tuple[Facts, int]]:
        found = evidence_at(users)
        assert isinstance(found, NoiseEvidence), "all sizes have the same kind of evidence"
        return [(_parse_facts(one.facts), one.times) for one in found.noises]

    return NoiseProof(noises, f"numbers of the noise {CLAIM_ORIGIN} them")


def _check_no_messages(evidence: RoundEvidence) -> None:
    """Refutes a number of messages beside parameters, whose users send one message each."""
    if evidence.messages is not None:
        raise Refuted("parameters are those of one message of each user.")


def _message_count(evidence_at: EvidenceAt) -> MessageCount:
    def messages(users: int) -> int:
        found = evidence_at(users).messages
        return users if found is None else found

    return messages


def _parse_family(text: LawFamilyText) -> LawFamily:
    with precision(BALL_BITS):
        gamma = parse_number(text.gamma)
    if not isinstance(gamma, fmpq) or not 0 < gamma <= 1:
        raise Refuted("gamma must be a fraction above 0 and at most 1.")
    return LawFamily(gamma, tuple(tuple(parse_law(kind)) for kind in text.kinds))


def _missing_mirror_images(texts: LawText, laws: Sequence[Law]) -> list[Law]:
    """Returns the laws of the other direction that are not yet written, as text or in the same proportions."""
    written = {_law_key(text) for text in texts}
    return [
        [(second, first, hiding) for first, second, hiding in law]
        for text, law in zip(texts, laws, strict=True)
        if _law_key(text, mirrored=True) not in written and not any(is_mirror_image([law], [other]) for other in laws)
    ]


def _law_key(text: Sequence[dict[str, str]], *, mirrored: bool = False) -> tuple[tuple[str, ...], ...]:
    order = ("second", "first", "hiding") if mirrored else ("first", "second", "hiding")
    return tuple(sorted(tuple(one[name] for name in order) for one in text))


def _mirrored_families(families: Sequence[LawFamily]) -> list[LawFamily]:
    """Returns the families of the other direction that are not yet written in the same proportions."""
    return [
        LawFamily(one.gamma, tuple(tuple((b, a, h) for a, b, h in kind) for kind in one.kinds))
        for one in families
        if not any(is_mirror_image(one.kinds, other.kinds) for other in families)
    ]


def _parse_facts(text: dict[str, Any]) -> dict[str, Any]:
    """Returns the facts of a noise; all texts but the kind are fractions."""
    return {
        name: said if name == "kind" else _parse_facts(said) if isinstance(said, dict) else Fraction(said)
        for name, said in text.items()
    }
