"""Special functions of scipy, which is imported when one is first used: it takes longer than the whole package."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.array import Floats


def ndtr(x: ArrayLike) -> Floats:
    """Φ: the standard normal distribution function."""
    from scipy import special

    return np.asarray(special.ndtr(x))


def log_ndtr(x: ArrayLike) -> Floats:
    """log Φ, with all its digits in the tail."""
    from scipy import special

    return np.asarray(special.log_ndtr(x))


def ndtri(p: ArrayLike) -> Floats:
    """Φ⁻¹: the standard normal quantile."""
    from scipy import special

    return np.asarray(special.ndtri(p))


def expit(x: ArrayLike) -> Floats:
    """The logistic function."""
    from scipy import special

    return np.asarray(special.expit(x))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Floats:
    """The regularised incomplete beta function."""
    from scipy import special

    return np.asarray(special.betainc(a, b, x))
