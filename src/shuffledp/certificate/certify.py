"""``certify``: a privacy statement about a randomizer as a claim that others can prove again."""

from __future__ import annotations

from shuffledp import argument
from shuffledp.bounds import best
from shuffledp.bounds.amplify import amplify
from shuffledp.certificate.claim import Claim, claim_of, provable
from shuffledp.privacy.randomizer import Randomizer


def certify(
    randomizer: Randomizer,
    users: float,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    bound: str = best.NAME,
    colluding: float = 0,
) -> Claim:
    """The claim that the shuffled messages of ``users`` users who all run ``randomizer`` are (ε, δ)-private.

    ``randomizer``: a mechanism or ``VariationRatio`` parameters. ``users``: all of them, of whom ``colluding`` hide
    nobody. Give ``delta`` to claim the smallest ε that is proved, or ``epsilon`` to claim the smallest δ. ``bound``: a
    numeric bound; by default the best one that ``verify`` can prove. It starts from the randomizer, not from a value of
    a curve: a value does not know what it is about, and must not be paired with something else.

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
        curve = amplify(randomizer, users, bound=bound, colluding=colluding)
    value = curve.epsilon(delta) if delta is not None else curve.delta(0.0 if epsilon is None else epsilon)
    if bound == best.NAME:
        value = provable(randomizer, honest, value, epsilon=epsilon, delta=delta)
    return claim_of(randomizer, honest, value, epsilon=epsilon, delta=delta)
