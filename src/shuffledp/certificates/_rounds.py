"""Evidence of several rounds and of samples: points (ε, δ) of one round without sampling, which are composed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shuffledp_verify import Finding
from shuffledp_verify.arithmetic import Refuted
from shuffledp_verify.claim import Evidence as ReadEvidence, RoundEvidence, RoundsEvidence
from shuffledp_verify.decision import MessageCallback, check_rounds, prove_rounds

from shuffledp.certificates.evidence import (
    MechanismEvidence,
    MechanismRoundEvidence,
    attach_round_mechanism,
    rebuild_mechanism,
)

if TYPE_CHECKING:
    from shuffledp.certificates.claim import Claim


@dataclass(frozen=True)
class MechanismRoundsEvidence(RoundsEvidence, MechanismEvidence):
    """Points of one round, the number of rounds and the sampling of each."""

    round_evidence: MechanismRoundEvidence
    """The law of one round, for the largest ε of a point."""
    evidence_by_size: Mapping[int, MechanismRoundEvidence] = dataclasses.field(default_factory=dict)
    """The same for other numbers of users, if some of its numbers depend on them."""

    def summary_rows(self) -> list[tuple[str, str]]:
        count = sum(len(size.points) for size in self.sizes)
        sampled = "" if self.plan.draw is None else "; samples by [VR] Proposition 2"
        return [("proof", f"{count} points of one round; rounds by [VR] Lemma 7.2{sampled}")]

    def theorem(self, claim: Claim) -> str:
        return self.round_evidence.theorem(self.single_round_claim(claim))

    def prove_or_raise(self, claim: Claim, notice: MessageCallback) -> Finding:
        check_rounds(claim, self)
        laws = self.round_evidence.rebuild_proof(self.single_round_claim(claim))
        self._check_numbers(claim)
        return prove_rounds(claim, self, laws, notice)

    def _check_numbers(self, claim: Claim) -> None:
        """Refutes numbers for other numbers of users that are not the mechanism's."""
        for users, said in self.evidence_by_size.items():
            if "parameters" in claim.randomizer:
                raise Refuted("parameters have no numbers that depend on the users.")
            mechanism, _ = rebuild_mechanism(claim.randomizer)
            if said != self.round_evidence.with_users(mechanism, users):
                raise Refuted(f"the numbers of {users} users are not those of the mechanism.")


def attach_mechanism(evidence: ReadEvidence) -> MechanismEvidence:
    """Converts the evidence of a file to the class that rebuilds laws from the mechanism."""
    if isinstance(evidence, RoundsEvidence):
        of_sizes = {users: attach_round_mechanism(one) for users, one in evidence.evidence_by_size.items()}
        return MechanismRoundsEvidence(
            evidence.plan, evidence.sizes, attach_round_mechanism(evidence.round_evidence), of_sizes
        )
    assert isinstance(evidence, RoundEvidence), "a claim is about one round or about several"
    return attach_round_mechanism(evidence)
