"""Sets with noise that cancels: the loss by brute force, real messages, sets of any length up to a stated one."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp

import shuffledp as sdp
from tests.oracle import cancelling_noise

CUT = 3
CHANGES = [(1, -1, 1, -1), (1, -1, 1), (-1, -1, 1), (1, 1), (-1, -1), (1, -1), (1,), (-1,)]
"""Two items for two others; two for one, and the other way round; two for none; …: 1 takes a message away."""


@pytest.mark.parametrize(("rate", "shape", "ratio"), [(2.5, 1.5, 0.05), (3.0, 0.7, 0.08)])
@pytest.mark.parametrize(("honest", "users", "colluding"), [(2, 2, 0), (2, 3, 1), (0, 1, 0), (2, 2, 1)])
def test_no_pair_of_sets_is_told_apart_better(
    rate: float, shape: float, ratio: float, honest: int, users: int, colluding: int
) -> None:
    """Users' shares added up one by one, all counts of up to four options enumerated; two for two are the worst."""
    mechanism = sdp.CancellingSets(options=5, items=2, rate=rate, shape=shape, ratio=ratio, honest=honest)
    curve = sdp.amplify(mechanism, users, colluding=colluding, effort="quick")
    mp.dps = 30
    there, whole = (min(2, users - colluding), 2) if honest else (1, 1)
    law = cancelling_noise.pair_law(there, whole, rate, shape, ratio, CUT)
    for epsilon in (0.5, 2.0, 4.0):
        upper = curve.delta(epsilon).upper
        found = {change: cancelling_noise.divergence(law, epsilon, change) for change in CHANGES}
        assert max(low for low, _ in found.values()) <= upper
        worst_low, worst_high = found[CHANGES[0]]
        assert all(low <= worst_high for low, _ in found.values())
        # No more than what composing costs and what the enumeration leaves out.
        assert upper <= worst_high * 1.02 + (worst_high - worst_low)


def test_sets_of_any_length() -> None:
    """None, one or two items: counts are unbiased with the stated error; three are refused before anything is sent."""
    mechanism = sdp.CancellingSets(options=6, items=2, rate=0.6, shape=8.0, ratio=0.7, honest=4000)
    sets = [[], [0], [1, 2], [5, 0]] * 1000
    truth = np.bincount([item for one in sets for item in one], minlength=6)
    errors = []
    for seed in range(60):
        messages = mechanism.encode(sets, np.random.default_rng(seed))
        errors.append(mechanism.estimate(messages, users=4000).value - truth)
    expected = float(mechanism.estimate(messages, users=4000).standard_error[0])
    # 360 errors of a law with kurtosis 6: the mean is off by 5.5, their square by 5.5 deviations once in 1e7.
    assert abs(np.mean(errors)) < 5.5 * expected / np.sqrt(360)
    assert np.mean(np.square(errors)) == pytest.approx(expected**2, rel=5.5 * np.sqrt(5 / 360))
    with pytest.raises(ValueError, match=r"CancellingSets: .*at most 2"):
        mechanism.encode([[0, 1, 2]])
