"""Random parameter sets of every bound and mechanism: an answer or a sentence, and never a warning."""

from __future__ import annotations

import os

import pytest

from shuffledp.mechanisms.catalogue import all_mechanisms

from .fuzz import SETTINGS, complaints

CASES = int(os.environ.get("SHUFFLEDP_FUZZ_CASES", "300"))
"""As many as one has time for: about ten a second."""


def test_every_mechanism_takes_part() -> None:
    """A new one needs a line that draws its settings."""
    assert sorted(SETTINGS) == sorted(all_mechanisms())


@pytest.mark.parametrize("cases", [6, pytest.param(CASES, marks=pytest.mark.exhaustive)])
def test_random_parameters_are_answered_or_refused_in_a_sentence(cases: int) -> None:
    """Values are numbers of at least 0, what is attained is not above what is promised, refusals are sentences."""
    found = [f"{number}: {answer.call_text}\n{answer.complaint}" for number, answer in complaints(cases)]
    assert not found, "\n".join(found)
