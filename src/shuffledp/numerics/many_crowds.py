"""Many families of laws at once: Chernoff bounds of E[(G_1 + … + G_m)_+] over all crowds of each, in floats.

For every t > 0, s ≤ e^(ts)/(e·t), so that E(S)_+ ≤ Π_i M_i(t)/(e·t): largest where everybody has the law with the
largest M. It is a few percent above in ε, and a thousand times cheaper than ``worst_crowd``: what it settles need not
be looked at again.

G = (first − e^ε·second)/hiding at a message of the law hiding, which may lack some mass: there G = 0. Each of the three
probabilities is known to a relative 2^-44. Then G is known to within 2^-41·(first + e^ε·second)/hiding, and
M − 1 = Σ hiding·expm1(tG) to within 2^-40·(Σ hiding·|expm1(tG)| + t·Σ e^(tG)·(first + e^ε·second)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shuffledp.array import Floats

ROUNDING = 2.0**-40
MARGIN = 1e-9
AT_ONCE = 1 << 21
LARGEST_EXPONENT = 300.0
"""What is beyond is settled by nobody here."""


class FloatView(NamedTuple):
    """Probabilities of messages, each to a relative 2^-44; ``hiding`` has a row for each kind of other user.

    Of the other two there is one row for all, or one for each kind.
    """

    first: Floats
    second: Floats
    hiding: Floats


def squares(view: FloatView) -> Floats:
    """For each kind Σ (first − second)²/hiding."""
    square = (view.first - view.second) ** 2 * np.ones_like(view.hiding)
    gaps = np.divide(square, view.hiding, out=np.zeros_like(view.hiding), where=view.hiding > 0)
    return np.asarray(gaps.sum(axis=1))


def log_chernoff(views: Sequence[FloatView], epsilon: float, counts: Floats) -> Floats:
    """For each family (rows) and count m (columns) the logarithm of a bound of E(S)_+/m over all its crowds."""
    result = np.full((len(views), len(counts)), np.inf)
    ratio = np.exp(epsilon)
    for numbers, first, second, hiding in _together(views):
        there = hiding > 0
        mass = first + ratio * second
        value = (first - second) - np.expm1(epsilon) * second
        value = np.divide(value, hiding, out=np.zeros(hiding.shape), where=there)
        square = (hiding * value**2).sum(axis=2).max(axis=1)
        t = _tilt(np.expm1(epsilon), square, float(counts[0]))
        exponent = t[:, None, None] * value
        settled = (exponent.max(axis=(1, 2)) < LARGEST_EXPONENT) & np.isfinite(t)
        growth = np.expm1(np.minimum(exponent, LARGEST_EXPONENT))
        excess = (hiding * growth).sum(axis=2)
        doubt = (hiding * np.abs(growth)).sum(axis=2) + t[:, None] * ((1 + growth) * mass * there).sum(axis=2)
        log_moment = np.log1p(np.maximum(excess + ROUNDING * doubt, -1 + MARGIN)).max(axis=1)
        found = np.multiply.outer(log_moment, counts) - 1 - np.log(t)[:, None] - np.log(counts)
        found += MARGIN * (1 + np.abs(np.multiply.outer(log_moment, counts)))
        result[numbers[settled]] = found[settled]
    return result


def _tilt(mean: float, square: Floats, count: float) -> Floats:
    """The best t for a normal sum of this mean below 0 and mean square."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((mean + np.sqrt(mean**2 + 8 * square / count)) / (2 * square))


def _together(views: Sequence[FloatView]) -> list[tuple[Floats, Floats, Floats, Floats]]:
    """Families of one shape as one array each: family, kind, message; not too many at once."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for number, view in enumerate(views):
        shapes.setdefault(view.hiding.shape, []).append(number)
    result = []
    for shape, members in shapes.items():
        step = max(1, AT_ONCE // (shape[0] * shape[1]))
        for start in range(0, len(members), step):
            numbers = members[start : start + step]
            hiding = np.stack([views[k].hiding for k in numbers])
            first, second = (
                np.stack([np.atleast_2d(views[k][place]) for k in numbers]) * np.ones_like(hiding) for place in (0, 1)
            )
            result.append((np.array(numbers), first, second, hiding))
    return result
