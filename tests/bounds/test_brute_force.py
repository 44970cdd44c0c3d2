"""No upper bound is below the truth: every bound against brute force over all datasets and all pairs of inputs.

The catalogue's examples are compared in the conformance suite, by the same functions of ``shuffledp.testing``.
"""

from __future__ import annotations

import pytest

from shuffledp.bounds.registry import BOUNDS
from shuffledp.testing import bounds
from shuffledp.testing.bounds import draw_random_trial
from shuffledp.testing.mechanism_checks import every_bound_and_attack_holds_for_all_datasets
from shuffledp.testing.mechanisms import CHECKS


def test_the_catalogue_is_compared_in_the_conformance_suite() -> None:
    """For up to seven users, as far as brute force reaches."""
    assert every_bound_and_attack_holds_for_all_datasets in CHECKS
    assert (bounds.USER_COUNTS, bounds.MAX_CELLS) == ((1, 2, 3, 5, 7), 400_000)


@pytest.mark.parametrize("seed", range(200))
def test_random_extremal_tables_against_all_datasets(seed: int) -> None:
    """On random tables with entries in ratio 1 or e^ε0, no bound is below the worst dataset, no attack above it."""
    trial = draw_random_trial(seed)
    sound = [bound for bound in BOUNDS if bound.guarantees]
    for users, ratio, truth in trial.exact_divergences():
        found = bounds.check_upper_bounds(sound, trial.mechanism, truth, users, ratio)
        assert [wrong for _, wrong in found if wrong] == []
        assert list(bounds.check_attack(trial.mechanism, truth, users, ratio)) == []
