"""Brute force finds bounds that are below the truth, and passes those that are not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.testing import ConformanceError, check_bound
from shuffledp.testing.bounds import draw_random_trial, worst_dataset_divergence
from tests import brute_force_cache

SMALL = [sdp.KRR(0.5, 3), sdp.KRR(1.0, 2), sdp.PureDUMP(2, 1)]


@dataclass(frozen=True)
class Hopeful:
    """The numeric bound for a crowd that is larger by some users."""

    more: int
    name: str = "hopeful"

    def curve(self, randomizer: Any, users: int) -> sdp.PrivacyCurve:
        return BOUNDS_BY_NAME["optimal"].curve(randomizer, users + self.more)


@dataclass(frozen=True)
class Shy:
    """A bound that never applies."""

    name: str = "shy"

    def curve(self, randomizer: Any, users: int) -> sdp.PrivacyCurve:
        raise sdp.NotApplicable("shy", "needs more courage.")


@pytest.mark.parametrize("name", ["optimal", "variation-ratio", "clone"])
def test_sound_bounds_pass(name: str) -> None:
    checked = check_bound(BOUNDS_BY_NAME[name], randomizers=SMALL)
    assert checked.passed
    assert len(checked.ran) + len(checked.skipped) == len(SMALL)
    assert len(checked.ran) >= 2


def test_a_bound_for_too_many_users_fails() -> None:
    """One user too many is found; all randomizers on which it fails are listed."""
    bound: Any = Hopeful(1)
    with pytest.raises(ConformanceError, match="hopeful says δ ≤") as caught:
        check_bound(bound, randomizers=SMALL)
    assert len(caught.value.checked.failures) == len(SMALL)
    assert "The bound is below the truth: KRR(epsilon=0.5, options=3), with n = 1" in " ".join(
        str(caught.value).split()
    )


def test_the_published_theorem_fails() -> None:
    """It is below the truth for three options and two users."""
    checked = check_bound(BOUNDS_BY_NAME["variation-ratio-published"], randomizers=SMALL, raises=False)
    assert [failure.check for failure in checked.failures] == ["never below the truth for KRR(epsilon=0.5, options=3)"]


def test_a_bound_that_never_applies_has_not_passed() -> None:
    bound: Any = Shy()
    with pytest.raises(ConformanceError, match=r"^Shy: nothing was checked\.$"):
        check_bound(bound, randomizers=SMALL)
    checked = check_bound(bound, randomizers=SMALL, raises=False)
    assert {reason for _, reason in checked.skipped} == {"the bound does not apply"}


@pytest.mark.exhaustive
def test_the_default_randomizers_are_the_catalogue_and_random_tables(shared_folder: Path) -> None:
    """Every example that has a table, and so many random ones."""
    with brute_force_cache.cache_worst_datasets(shared_folder):
        checked = check_bound(BOUNDS_BY_NAME["optimal"], tables=4)
    assert len(checked.ran) > 100
    assert sum("FromTable" in name for name in checked.ran) == 3 + 4


def test_random_tables_are_extremal_or_not() -> None:
    """Every column of an extremal one holds two values only, up to the rounding of the executed table."""
    for seed in range(4):
        rows = draw_random_trial(seed).mechanism.table().probabilities
        assert all(len({round(float(x), 9) for x in column}) <= 2 for column in zip(*rows, strict=True))
        ((users, ratio),) = draw_random_trial(seed, extremal=False).points
        assert 2 <= users <= 7
        assert ratio > 1


@pytest.mark.parametrize(
    ("bound", "randomizers", "sentence"),
    [
        (Hopeful, None, r"^check_bound: expected an object of a class of Bound, got <class .*>\.$"),
        ("optimal", None, r"^check_bound: expected an object of a class of Bound, got 'optimal'\.$"),
        (Hopeful(0), [3], r"^check_bound: randomizers must be mechanisms with a table, got 3\.$"),
        (Hopeful(0), [sdp.KRR(1.0, 80)], r"^check_bound: KRR\(.*\) is too large for brute force; take a smaller "),
    ],
)
def test_what_cannot_be_checked_is_refused(bound: Any, randomizers: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        check_bound(bound, randomizers=randomizers)


def test_the_worst_dataset_of_one_user_is_the_table_itself() -> None:
    """Brute force over nobody else: the divergence of two rows."""
    mechanism = sdp.KRR(1.0, 2)
    first, second = mechanism.table().probabilities
    assert worst_dataset_divergence(mechanism, 1, 1) == max(first[0] - second[0], first[1] - second[1])  # type: ignore[arg-type]
