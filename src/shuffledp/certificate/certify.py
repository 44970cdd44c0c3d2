"""``certify``: a privacy statement about a randomizer as a claim that others can prove again."""

from __future__ import annotations

from shuffledp import argument
from shuffledp.bounds import BOUND_OF, best
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.tails import has_tails
from shuffledp.certificate.claim import ALL_CROWDS, PROVABLE, Claim, claim_of, margins, provable
from shuffledp.certificate.proof import Finding, Verdict
from shuffledp.certificate.verify import verify
from shuffledp.errors import NotApplicable
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue


def certify(
    randomizer: Randomizer,
    users: float,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    bound: str = best.NAME,
    colluding: float = 0,
    effort: str = best.FULL,
) -> Claim:
    """The claim that the shuffled messages of ``users`` users who all run ``randomizer`` are (ε, δ)-private.

    ``randomizer``: a mechanism or ``VariationRatio`` parameters. ``users``: all of them, of whom ``colluding`` hide
    nobody. Give ``delta`` to claim the smallest ε that is proved, or ``epsilon`` to claim the smallest δ. ``bound``: a
    numeric bound; by default the best one that ``verify`` can prove, with ``effort`` "full" also among those that take
    longer. It starts from the randomizer, not from a value of a curve: a value does not know what it is about, and must
    not be paired with something else.

    >>> import shuffledp as sdp
    >>> from shuffledp.certificate.certify import certify
    >>> from shuffledp.certificate.verify import verify
    >>> claim = certify(sdp.KRR(2.0, options=16), 5000, delta=1e-6)
    >>> claim.epsilon
    0.09780284
    >>> verify(claim).verdict.value
    'yes'
    """
    if (delta is None) == (epsilon is None):
        raise ValueError("certify: give either delta (to claim ε) or epsilon (to claim δ).")
    delta = None if delta is None else argument.open_probability("certify", "delta", delta)
    epsilon = None if epsilon is None else argument.non_negative("certify", "epsilon", epsilon)
    honest = argument.count("certify", "users", users) - argument.count("certify", "colluding", colluding, at_least=0)
    with argument.said_by("certify", "amplify"):
        curve = amplify(randomizer, users, bound=bound, colluding=colluding, effort=effort)
    value = curve.epsilon(delta) if delta is not None else curve.delta(0.0 if epsilon is None else epsilon)
    if bound != best.NAME:
        return proved_claim(randomizer, honest, value, epsilon=epsilon, delta=delta)
    _demand_no_tails(randomizer)
    other = provable(randomizer, honest, value, epsilon=epsilon, delta=delta)
    if effort == best.FULL and value.bound not in PROVABLE and value.guarantee:
        # Somebody's own bound or an exact one may be the best, with that of all crowds between it and the rest.
        crowds = value if value.bound == ALL_CROWDS else _of_all_crowds(randomizer, honest, epsilon, delta)
        if crowds is not None and float(crowds) < float(other):
            try:
                return proved_claim(randomizer, honest, crowds, epsilon=epsilon, delta=delta)
            except ValueError:
                pass
    return claim_of(randomizer, honest, other, epsilon=epsilon, delta=delta)


def proved_claim(
    randomizer: Randomizer, users: int, value: BoundValue, *, epsilon: float | None = None, delta: float | None = None
) -> Claim:
    """``claim_of``, for the worst of all crowds with the least margin that its second proof needs; or a sentence."""
    _demand_no_tails(randomizer)
    if value.bound != ALL_CROWDS:
        return claim_of(randomizer, users, value, epsilon=epsilon, delta=delta)
    finding: Finding | None = None
    for margin in margins(value.bound, delta):
        claim = claim_of(randomizer, users, value, epsilon=epsilon, delta=delta, margin=margin)
        finding = verify(claim)
        if finding.verdict is Verdict.YES:
            return claim
    assert finding is not None
    raise ValueError(f"certificate: no second proof of {ALL_CROWDS} was found: {finding.reason}")


def _demand_no_tails(randomizer: Randomizer) -> None:
    if has_tails(randomizer):
        raise ValueError(
            "certificate: where some of a law is cut and added to delta there is no second proof yet; "
            "take a randomizer with a finite local epsilon."
        )


def _of_all_crowds(randomizer: Randomizer, users: int, epsilon: float | None, delta: float | None) -> BoundValue | None:
    try:
        curve = BOUND_OF[ALL_CROWDS].curve(randomizer, randomizer.hiding_messages(users))
    except NotApplicable:
        return None
    return curve.epsilon(delta) if delta is not None else curve.delta(epsilon or 0.0)
