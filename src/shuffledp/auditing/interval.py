"""Exact confidence limits for a probability from counts."""

from __future__ import annotations


def at_least(hits: int, trials: int, error: float) -> float:
    """Clopper–Pearson: with probability 1 − error over the draw, the true probability is at least this."""
    from scipy.special import betaincinv

    return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, error))


def at_most(hits: int, trials: int, error: float) -> float:
    """Clopper–Pearson: with probability 1 − error over the draw, the true probability is at most this."""
    return 1.0 - at_least(trials - hits, trials, error)
