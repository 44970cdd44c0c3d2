"""Estimates lie within their stated intervals at the stated rate, from the table to the report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.estimate_tables import DEFAULT_CONFIDENCE
from shuffledp.collection.input.files import FileTable
from tests.collection import COLOURS, random_column, small_plan, write_messages, write_table

# Hundreds of collections by a few plans.
pytestmark = pytest.mark.usefixtures("each_curve_once")

ROWS = 2000
REPETITIONS = 300
FALSE_ALARM = 1e-4
SLACK = 0.01
"""A normal interval for 2000 users may cover this much less than it says."""


def truth_of(name: str, path: Path) -> NDArray[np.float64]:
    """What is estimated, from the table by a plain look at its rows."""
    rows = pq.read_table(path)["value"].to_pylist()
    options = {"krr": COLOURS, "oue": range(40), "local-hash": range(40)}
    if name in options:
        counts = Counter(rows)
        return np.array([counts[option] for option in options[name]], dtype=float)
    return np.array([fmean(rows)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["krr", "oue", "local-hash", "laplace", "piecewise", "duchi"])
def test_intervals_cover_the_truth_at_the_stated_rate(name: str, tmp_path: Path) -> None:
    """Over 300 collections with fixed keys, the share of covered estimates is at least 95% but for chance.

    False-alarm rate 1e-4 for each mechanism. Estimates of one collection hang together (at most all of them: the
    test counts them as one), so that the number of independent trials is that of collections: the average share is
    compared with the lower 1e-4 quantile of a binomial share of 300 trials.
    """
    path = write_table(tmp_path / "data.parquet", value=random_column(name, ROWS))
    column = small_plan(name).column("value")
    mechanism, table = column.mechanism, FileTable(path)
    truth = truth_of(name, path)
    width = mechanism.message_bytes
    shares, squares = [], []
    for repetition in range(REPETITIONS):
        key = np.random.default_rng(repetition).bytes(32)
        parts = list(
            batch_processing.Encoder(column, key).encode_part(table.batches(column, batch_processing.CHUNK_ROWS), 0)
        )
        encoded = write_messages(tmp_path / f"encoded{repetition}", parts)
        shuffled = tmp_path / f"shuffled{repetition}"
        shuffled.mkdir()
        read = message_files.read_messages(message_files.list_message_files(encoded), width)
        message_files.write_messages(message_files.sort_messages(read, width, ROWS, shuffled), width, shuffled)
        found = batch_processing.accumulate(
            mechanism, message_files.read_messages(message_files.list_message_files(shuffled), width)
        )
        assert found is not None
        (quantity,) = column.quantities(mechanism.finish(found.statistic, found.messages), DEFAULT_CONFIDENCE)
        assert quantity.low is not None
        assert quantity.high is not None
        assert quantity.standard_error is not None
        shares.append(float(((quantity.low <= truth) & (truth <= quantity.high)).mean()))
        squares.append(float((((quantity.value - truth) / quantity.standard_error) ** 2).mean()))
    least = binom.ppf(FALSE_ALARM, REPETITIONS, DEFAULT_CONFIDENCE - SLACK) / REPETITIONS
    assert np.mean(shares) >= least
    # Intervals are not wide for nothing either: the errors are as large as the standard errors say, or little less.
    assert 0.6 < np.mean(squares) < 1.35
