"""Truths lie within their intervals, for every task: the benchmark's studies, with fewer runs and people."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.coverage import STUDIES, Study, covered
from shuffledp.mechanisms.base.mechanism import Mechanism

USERS, RUNS, SEED = 400, 120, 7
LEAST = float(binom.ppf(1e-7, RUNS, 0.93) / RUNS)
"""Runs that cover 93% on average cover no less but with probability 1e-7, even if a run's labels all fall together."""
TRIED = [
    pytest.param(study, mechanism, id=f"{study.name}-{mechanism.name}")
    for study in STUDIES
    for mechanism in study.mechanisms(USERS)
]


@pytest.mark.exhaustive(
    "count-duchi",
    "frequency-hadamard-response",
    "frequency-local-hash",
    "key-value-collision",
    "key-value-pckv",
    "krr",
    "location-oue",
    "ranges-oue",
    "sets-privset",
    "sets-wheel",
    "survey-all-answered",
)
@pytest.mark.parametrize(("study", "mechanism"), TRIED)
def test_intervals_hold_the_truth(study: Study, mechanism: Mechanism) -> None:
    """Of each quantity; the false-alarm rate is at most 1e-7 each."""
    found = covered(study, mechanism, USERS, RUNS, SEED, 0.95)
    assert found
    for one in found:
        assert one.told.any()
        assert one.share >= LEAST, f"{one.quantity}: {one.share:.1%}, least of all {one.worst}"


@pytest.mark.exhaustive
def test_narrower_intervals_would_be_noticed() -> None:
    """Those of 60% confidence are not taken for 95%."""
    study = STUDIES[0]
    (one,) = covered(study, study.mechanisms(USERS)[0], USERS, RUNS, SEED, 0.6)
    assert one.share < LEAST
    assert np.isclose(one.share, 0.6, atol=0.1)
