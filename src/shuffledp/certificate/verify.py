"""Is a claim true? Rebuild the law of the randomizer, compare it with the claimed one, prove D ≤ δ for it.

The file is trusted for nothing but its question: which randomizer, how many users, which bound, which (ε, δ). What a
mechanism says of itself is asked of the same class that the engine asks: its blankets or parameters, its table, and how
many messages hide each other.
"""

from __future__ import annotations

from os import PathLike

from shuffledp.bounds import BOUND_OF
from shuffledp.certificate.claim import Claim
from shuffledp.certificate.evidence import Notice
from shuffledp.certificate.kinds import provable
from shuffledp.certificate.proof import Finding, Verdict
from shuffledp.certificate.reader import read
from shuffledp.certificate.written_law import Refuted


def verify(claim: Claim | str | PathLike[str], notice: Notice = lambda text: None) -> Finding:
    """Prove a claim again: yes (proved), no (disproved) or cannot decide, with the reason and the method.

    ``claim``: what ``certify`` returned, or the path of its file. ``notice`` hears what is being done. Where the
    mechanism is somebody else's, its class must be known here (``--mechanism-file``, or an installed package), and the
    method says that the law is what that class states.

    >>> from shuffledp import VariationRatio
    >>> from shuffledp.certificate.certify import certify
    >>> from shuffledp.certificate.verify import verify
    >>> print(verify(certify(VariationRatio.of_ldp(1.0), 1000, delta=1e-6, effort="quick")))
    yes: the divergence is at most delta for the only law. (binomial sums in balls; law from the parameters)
    """
    if not isinstance(claim, Claim):
        claim = read(claim)
    try:
        _demand_bound(claim)
    except Refuted as refuted:
        return Finding(Verdict.NO, str(refuted), "the bound that is named")
    return claim.evidence.prove(claim, notice)


def _demand_bound(claim: Claim) -> None:
    """Refute a bound that there is not, that is no guarantee, or whose theorem is another one."""
    if claim.bound not in claim.evidence.bounds:
        what = "no numeric bound that guarantees" if claim.bound in BOUND_OF else "unknown"
        raise Refuted(f"the bound {claim.bound!r} is {what}; expected one of {', '.join(provable())}.")
    theorem = claim.evidence.theorem(claim)
    if claim.theorem != theorem:
        raise Refuted(f"the theorem of {claim.bound} is {theorem!r}, got {claim.theorem!r}.")
