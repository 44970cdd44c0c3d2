"""The contour's nodes summed in floats, with a proved bound of what rounding can do to the sum.

Relative to node 0, the term of t = τ + iu is R(u)^n·exp(−v·u²/2 + i·v·τ·u), R(u) = Σ π_j·exp(i·u·A_j), with π the
tilted weights. Write e = 2^-53 and m = |u|·Σ π_j·|A_j|. The model of arithmetic: sums, products and quotients of
floats are off by at most a relative e; sin, cos, exp, log1p and arctan2 by at most a relative FUNCTION_ERROR·e, sin and
cos also where their argument is large (their authors claim a quarter of that).

- π_j and A_j are rounded from balls, and u = k·h is rounded: a phase u·A_j is off by at most 3.1e·|u·A_j|. Hence sin(φ)
  by at most 20e·|φ|, 2·sin²(φ/2) by at most 46e·|φ|, and with the weights and a sum of J terms in any order, R by at
  most ρ = (70 + 3J)·e·m.
- Where |R| ≥ ½: log R is off by at most 2.1ρ from R, 110e·m from |R|² − 1 and its logarithm, 30e·m from the angle: at
  most (290 + 7J)·e·m. The product with n adds 20e·n·m, because |log R| ≤ 15m.
- The Gaussian factor, the sum of both exponents, exp and the division by (1 + iu/τ)² add at most
  16e·(v·u²/2 + v·τ·u) + 16e·n·m + 64e.
- Where |R| < ½ and there are many summands the term is below 2^-n, and is counted as an error of that size. Where there
  are few, R itself is raised to its power by products, each off by at most a relative √8·e: with ρ' = ρ + e, as 1 is
  added to R − 1, R^n is off by at most n·ρ'·(|R| + ρ')^(n−1) + 3n·e·|R|^n.
"""

from __future__ import annotations

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.array import Floats

FUNCTION_ERROR = 8
UNIT = 2.0**-53
LEAST_ACCURACY = 60
"""Bits that a ball must be sure of before it is rounded to a float."""
MOST_DOUBT = 0.05
"""Relative doubt about one node beyond which balls are used."""
LOG_HALF = -0.6931
FEW = 64
"""Below this many summands 2^-n is no small error."""
NEAR_HALF = 0.52
"""More than |R| + ρ' where |R| was found to be below ½, as n·ρ' is below ``MOST_DOUBT``/4."""
NOTHING = 1e-200
"""A tilted weight below this is left out, and counted as doubt about R."""
SMALLEST = 1e-300
BLOCK = 32
"""Neighbouring nodes that are turned from one."""


def relative_sums(
    atoms: list[tuple[arb, arb]], count: int, tau: float, variance: float, step: float, kept: NDArray[np.int64]
) -> tuple[arb, arb] | None:
    """Sums over the kept nodes and their conjugates relative to node 0, the first with the factor (τ/t)².

    Each is a ball that contains the exact sum; None where floats are not sure enough. ``kept`` begins with 0.
    """
    law = tilted_floats(atoms, tau)
    if law is None:
        return None
    values, weights, _ = law
    u = step * kept.astype(np.float64)
    real, imaginary = _less_one(values, weights, u)
    size, turn = _logarithm(real, imaginary)
    small = size < LOG_HALF
    size[small] = 0.0
    gaussian = 0.5 * variance * u**2
    rotation = variance * tau * u
    with np.errstate(under="ignore"):
        sizes = np.exp(count * size - gaussian)
        terms = sizes * turned(count * turn + rotation)
    moments = u * float(np.dot(weights, np.abs(values))) * 1.001
    doubt = UNIT * (count * (330 + 7 * len(values)) * moments + 20 * (gaussian + rotation) + 64)
    doubt += 5.0 * count * len(atoms) * NOTHING
    if not float(doubt.max()) <= MOST_DOUBT:
        return None
    factor = np.where(kept == 0, 1.0, 2.0)
    if count < FEW:
        with np.errstate(under="ignore"):
            powers = power((1.0 + real + 1j * imaginary)[small], count)
            terms[small] = powers * np.exp(-gaussian[small]) * turned(rotation[small])
            sizes[small] = np.abs(terms[small])
        unsure = NEAR_HALF ** (count - 1) * 1.1 * float(np.sum(doubt[small] + 8 * count * UNIT))
    else:
        factor[small] = 0.0
        unsure = int(small.sum()) * 0.51**count
    error = float(np.sum(factor * sizes * (1.1 * doubt + 2 * len(kept) * UNIT)))
    error = 1.01 * (error + 2 * unsure) + SMALLEST
    with_square = float(np.sum(factor * (terms / (1 + 1j * u / tau) ** 2).real))
    return arb(with_square, error), arb(float(np.sum(factor * terms.real)), error)


def turned(phase: Floats) -> NDArray[np.complex128]:
    """exp(i·phase), many times faster than the exponential of a complex number."""
    result = np.empty(phase.shape, dtype=np.complex128)
    result.real, result.imag = np.cos(phase), np.sin(phase)
    return result


def log_ratio(values: Floats, weights: Floats, u: Floats) -> tuple[Floats, Floats]:
    """log|R(u)| and the argument of R(u), accurate where R is near 1."""
    return _logarithm(*_less_one(values, weights, u))


def _less_one(values: Floats, weights: Floats, u: Floats) -> tuple[Floats, Floats]:
    """The real and the imaginary part of R(u) − 1."""
    phase = np.multiply.outer(u, values)
    return -2.0 * (np.sin(0.5 * phase) ** 2) @ weights, np.sin(phase) @ weights


def _logarithm(real: Floats, imaginary: Floats) -> tuple[Floats, Floats]:
    with np.errstate(divide="ignore"):
        size = 0.5 * np.log1p(np.maximum(2 * real + real**2 + imaginary**2, -1.0))
    return size, np.arctan2(imaginary, 1.0 + real)


def power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """By at most ``exponent`` − 1 rounded products for each factor of the result."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


def ratios(values: Floats, weights: Floats, step: float, indices: NDArray[np.int64]) -> NDArray[np.complex128]:
    """R(u) at u = k·step, off by some e·(J + u·Σ π_j·|A_j|): few exponentials, and a product of matrices."""
    rows, place = np.unique(indices // BLOCK, return_inverse=True)
    firsts = weights * turned(step * BLOCK * np.multiply.outer(rows, values))
    turns = turned(step * np.multiply.outer(values, np.arange(BLOCK)))
    return np.asarray((firsts @ turns)[place, indices % BLOCK])


def squares(values: Floats, weights: Floats, u: Floats) -> Floats:
    """|R(u)|², off by some e·(J² + u·Σ π_j·|A_j|): a cosine for each pair of values."""
    total = np.full(len(u), float(weights @ weights))
    for first in range(len(values)):
        for second in range(first):
            both = 2.0 * float(weights[first] * weights[second])
            total += both * np.cos(u * float(values[first] - values[second]))
    return total


def tilted_floats(atoms: list[tuple[arb, arb]], tau: float) -> tuple[Floats, Floats, arb] | None:
    """Values and tilted weights, each the rounding of a ball that is sure of more digits than a float has, and M(τ)."""
    exact_tau = arb(tau)
    tilted = [weight * (exact_tau * value).exp() for value, weight in atoms]
    mass = sum(tilted, arb(0))
    values: list[float] = []
    weights: list[float] = []
    for (value, _), weight in zip(atoms, tilted, strict=True):
        share = weight / mass
        if share < NOTHING:
            continue
        if min(value.rel_accuracy_bits(), share.rel_accuracy_bits()) < LEAST_ACCURACY:
            return None
        values.append(float(value.mid()))
        weights.append(float(share.mid()))
    return np.array(values), np.array(weights), mass
