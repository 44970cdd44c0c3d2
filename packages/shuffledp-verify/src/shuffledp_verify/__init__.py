"""Proves or disproves privacy claims of shuffledp from the claim file alone.

>>> from shuffledp_verify import verify
>>> print(verify("claim.json"))  # doctest: +SKIP
yes: the divergence is at most delta for the only law. (contour sum in balls; law as the claim writes it)
"""

from shuffledp_verify.claim import Claim as Claim, parse_claim as parse_claim, read_claim as read_claim
from shuffledp_verify.proofs import verify as verify
from shuffledp_verify.verdict import Finding as Finding, Verdict as Verdict

__version__ = "0.2.0"
__all__ = ["Claim", "Finding", "Verdict", "parse_claim", "read_claim", "verify"]
