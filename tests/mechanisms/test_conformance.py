"""One suite that every mechanism of the catalogue must pass, on its own small examples.

The suite is ``shuffledp.testing``'s, which anybody can run on a mechanism of their own; here each of its checks is a
test of each example, but for those that take next to nothing, which are one test together. The output table of an
example is exact, so privacy and estimators are checked exactly (as fractions, or to rounding). Statistical are only the
test that ``encode`` follows the table and, for mechanisms whose law cannot be written down as a table, the test of mean
and variance: each raises a false alarm with probability at most 1e-7; with a few hundred of them, and fixed seeds, the
suite as a whole stays below 1e-4.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.testing._check_framework import Check
from shuffledp.testing._mechanism_case import DEFAULT_SAMPLES, MechanismCase, require_no_table, require_table
from shuffledp.testing.mechanism_checks import (
    ENCODING_CHECKS,
    INPUT_CHECKS,
    INVALID_VALUES,
    SETTINGS_CHECKS,
    TOO_LARGE_REASON,
    no_bound_is_below_the_real_protocol,
    require_local_without_table,
    require_mixture_cover,
    require_numeric_settings,
    require_other_users,
    require_tight,
    require_tight_single_message,
    require_two_messages,
)
from shuffledp.testing.mechanisms import CHECKS
from shuffledp.testing.sampling_checks import FALSE_ALARM_PROBABILITY
from tests import brute_force_cache

EXAMPLES = {
    f"{name}-{number}": MechanismCase(example)
    for name, kind in {**all_mechanisms(), "compressed": Compressed}.items()
    for number, example in enumerate(kind.examples())
}
AT_ONCE = (*ENCODING_CHECKS, *INPUT_CHECKS, *SETTINGS_CHECKS)
"""What takes less time than to start a test."""


def _cases() -> Iterator[Any]:
    for check in (check for check in CHECKS if check not in AT_ONCE):
        for name, case in EXAMPLES.items():
            if not check.requirement(case):
                yield pytest.param(check, case, id=f"{check.name.replace(' ', '-')}-{name}")


@pytest.fixture(autouse=True, scope="module")
def truths(shared_folder: Path) -> Iterator[None]:
    """Brute force is shared with the tests of check_bound."""
    with brute_force_cache.cache_worst_datasets(shared_folder):
        yield


@pytest.mark.exhaustive("stated-mean-and-variance-compressed", "stated-mean-and-variance-repeated")
@pytest.mark.usefixtures("few_pieces")
@pytest.mark.parametrize(("check", "case"), list(_cases()))
def test_conformance(check: Check[MechanismCase], case: MechanismCase) -> None:
    """Each check of the suite on each example."""
    failure = check.find_failure(case)
    if failure is not None:
        # pytest would shorten a failure that it compares.
        pytest.fail(str(failure), pytrace=False)


@pytest.mark.parametrize("name", EXAMPLES)
def test_messages_bad_values_and_settings(name: str) -> None:
    """All the checks that take next to nothing."""
    case = EXAMPLES[name]
    found = [check.find_failure(case) for check in AT_ONCE if not check.requirement(case)]
    assert found
    failures = [str(failure) for failure in found if failure is not None]
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)


def test_no_check_is_left_out_unseen() -> None:
    """Examples are small enough; a check that does not apply says why, by one of a few reasons."""
    rules = (
        require_table,
        require_no_table,
        require_local_without_table,
        require_tight,
        require_mixture_cover,
        require_two_messages,
        require_numeric_settings,
        require_other_users,
        require_tight_single_message,
    )
    excuses = {rule(case) for case in EXAMPLES.values() for rule in rules}
    for check in CHECKS:
        reasons = {check.requirement(case) for case in EXAMPLES.values()}
        # It is for a few users; the brute force that stops earlier is for every example.
        assert reasons <= excuses | ({TOO_LARGE_REASON} if check is no_bound_is_below_the_real_protocol else set())
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_sizes_of_the_statistical_checks() -> None:
    """So many users of each input, so rare false alarms, and these bad values."""
    assert (DEFAULT_SAMPLES, FALSE_ALARM_PROBABILITY, len(INVALID_VALUES)) == (20_000, 1e-7, 10)
