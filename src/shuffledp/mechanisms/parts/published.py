"""What the multi-message protocols' own papers promise, as printed: for comparison, never as a guarantee of ours."""

from __future__ import annotations

from flint import arb

from shuffledp.errors import NotApplicable

NAME = "protocol-published"
"""The bound under which these are shown."""


def not_applicable(reason: str) -> NotApplicable:
    return NotApplicable(NAME, reason)


def all_filled(share: float) -> None:
    """Refuse blanks, which the printed analyses do not have."""
    if share < 1:
        raise not_applicable(f"needs share = 1, got {share!r}.")


def at_most(most: float, epsilon: arb) -> arb:
    """Refuse an ε for which the printed analysis is not meant."""
    if not epsilon <= most:
        raise not_applicable(f"needs ε ≤ {most:g}, got {float(epsilon):.6g}.")
    return epsilon


def uniform_dummies(options: int, share: float, messages: int, delta: arb) -> arb:
    """ε of the DUMP protocols: √(14·d·log(2/δ)/dummies).

    Theorem: [DUMP] pureDUMP, after [PB] Theorem 3.1 for uniform blankets.
    Requires: every dummy filled; ε ≤ 1.
    """
    all_filled(share)
    return at_most(1, (14 * options * (2 / delta).log() / (messages - 1)).sqrt())


def inverse_coth(square: arb) -> arb:
    """The x with coth(x)² = square, or NotApplicable where there is none."""
    if not square > 1:
        raise not_applicable(f"needs more noise: coth(x)² = {float(square):.6g} has no solution.")
    return (1 / square.sqrt()).atanh()
