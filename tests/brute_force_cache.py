"""The worst datasets of the catalogue's examples, which two suites compare with: brute force runs once for both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.testing import bounds
from tests import shared_results


@contextmanager
def cache_worst_datasets(shared_folder: Path) -> Iterator[None]:
    """Within it, a worst dataset that brute force has found in this run is not searched for again.

    It is kept under all that it depends on: the table with its messages, how many a user sends, the crowd and e^ε.
    """
    search = bounds.worst_dataset_divergence

    def find(mechanism: Mechanism, users: int, ratio: Fraction) -> Fraction:
        table = mechanism.table()
        messages = [message.tobytes() for message in table.messages]
        rows = [[(chance.numerator, chance.denominator) for chance in row] for row in table.probabilities]
        depends = (messages, rows, mechanism.messages_per_user, users, ratio.numerator, ratio.denominator)
        name = hashlib.sha256(repr(depends).encode()).hexdigest()
        return shared_results.compute_once(shared_folder / f"truth {name}", lambda: search(mechanism, users, ratio))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "worst_dataset_divergence", find)
        yield
