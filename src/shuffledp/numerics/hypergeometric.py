"""Tails of the hypergeometric law in balls."""

from __future__ import annotations

from flint import arb


def upper_tail(population: int, marked: int, drawn: int, k: int) -> arb:
    """P(at least ``k`` of the ``drawn`` are marked), of a uniform sample without replacement.

    Summed from the nearer end, so that a tiny tail keeps its relative digits.
    """
    if k <= max(0, drawn + marked - population):
        return arb(1)
    if k > min(marked, drawn):
        return arb(0)
    if k * population < marked * drawn:
        return 1 - _falling_sum(population, population - marked, drawn, drawn - k + 1)
    return _falling_sum(population, marked, drawn, k)


def _log_ways(total: int, chosen: int) -> arb:
    return arb(total + 1).lgamma() - arb(chosen + 1).lgamma() - arb(total - chosen + 1).lgamma()


def _falling_sum(population: int, marked: int, drawn: int, k: int) -> arb:
    """The sum of the probabilities from ``k`` on, near or above the mean: their ratios fall, and so does the rest."""
    rest = population - marked
    log_first = _log_ways(marked, k) + _log_ways(rest, drawn - k) - _log_ways(population, drawn)
    total = term = log_first.exp()
    for at in range(k, min(marked, drawn)):
        term = term * ((marked - at) * (drawn - at)) / ((at + 1) * (rest - drawn + at + 1))
        total += term
        if term <= total.rad():
            ratio = arb((marked - at - 1) * (drawn - at - 1)) / ((at + 2) * (rest - drawn + at + 2))
            if ratio < 1:
                return total + (term * ratio / (1 - ratio)).union(arb(0))
    return total
