"""The reduction in floats against the certified curve, with and without a common part, both directions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.bounds.metric_amplification import log_divergences

CASES = [
    # distance, share of the largest β, log q0, log q1, users, δ
    (1.0, 1.0, 1.5, 2.5, 10_000, 1e-6),
    (1.0, 1.0, 2.5, 1.5, 10_000, 1e-6),
    (3.0, 1.0, 3.2, 3.2, 100_000, 1e-9),
    (2.0, 0.6, 2.5, 3.5, 50_000, 1e-7),
    (0.2, 0.8, 2.0, 1.0, 5_000, 1e-4),
    (0.01, 1.0, 3.0, 3.5, 1_000_000, 1e-8),
]


def test_against_certified_values() -> None:
    """At the ε of a certified δ, all cases with one number of users in one call."""
    for users in {case[4] for case in CASES}:
        rows = [case for case in CASES if case[4] == users]
        log_p, share, log_q0, log_q1 = (np.array([case[place] for case in rows]) for place in range(4))
        beta = share * np.tanh(log_p / 2)
        curves = [
            sdp.amplify(
                sdp.VariationRatio(math.exp(p), min(b, (math.exp(p) - 1) / (math.exp(p) + 1)),
                                   (math.exp(q0), math.exp(q1))),
                users, bound="variation-ratio",
            )
            for p, b, q0, q1 in zip(log_p, beta, log_q0, log_q1, strict=True)
        ]  # fmt: skip
        epsilon = np.array([curve.epsilon(case[5]).upper for curve, case in zip(curves, rows, strict=True)])
        found = log_divergences(log_p, beta, log_q0, log_q1, epsilon, users)
        assert found == pytest.approx(np.log([case[5] for case in rows]), abs=3e-3)
