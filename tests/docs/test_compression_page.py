"""docs/compression.md: its example runs, and its numbers are what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.catalogue import all_mechanisms

PAGE = (Path(__file__).parents[2] / "docs" / "compression.md").read_text("utf-8")


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """As it is printed."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "docs/compression.md", "exec"), {})
    assert "ReplaceDeleteGuarantee(replacement_epsilon=2.0000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("OUE", sdp.OUE(2.0, 1024)),
        ("Compressed OUE", sdp.Compressed(sdp.OUE(2.0, 1024))),
        ("PIRAPPOR", sdp.PIRAPPOR(2.0, 1024)),
        ("ProjectiveGeometry", sdp.ProjectiveGeometry(2.0, 1024)),
    ],
)
def test_the_comparison_is_right(name: str, mechanism: sdp.Mechanism) -> None:
    """Bits, variance and central ε, by the default effort, of each row."""
    variance = mechanism.variance(np.zeros(1, dtype=np.int64))[1]
    central = sdp.amplify(mechanism, 100_000).epsilon(1e-8).upper
    assert f"| {name} | {mechanism.message_bits} | {variance:.4f} | {central:.5f} |" in PAGE


def test_what_seeds_cost_is_right() -> None:
    """The share that compressed OUE has more, and what a quick answer is."""
    (share,) = re.findall(r"Seeds cost OUE (\S+)% of its central ε", PAGE)
    plain, seeds = (
        sdp.amplify(mechanism, 100_000).epsilon(1e-8).upper
        for mechanism in (sdp.OUE(2.0, 1024), sdp.Compressed(sdp.OUE(2.0, 1024)))
    )
    assert share == f"{100 * (seeds / plain - 1):.1f}"
    quick = sdp.amplify(sdp.OUE(2.0, 1024), 100_000, effort="quick").epsilon(1e-8).upper
    assert f"OUE has {quick:.5f}" in PAGE


@pytest.mark.parametrize(
    ("name", "mechanism", "tries"),
    [
        ("one run", sdp.Compressed(sdp.PrivUnitG(8.0, 1024)), "296"),
        ("two runs, a seed each", sdp.Repeated(sdp.Compressed(sdp.PrivUnitG(4.0, 1024)), 2), "24"),
        ("two runs, one seed", sdp.Compressed(sdp.Repeated(sdp.PrivUnitG(4.0, 1024), 2)), "149, twice as long"),
        ("four runs, a seed each", sdp.Repeated(sdp.Compressed(sdp.PrivUnitG(2.0, 1024)), 4), "12"),
    ],
)
def test_the_table_of_runs_is_right(name: str, mechanism: sdp.Mechanism, tries: str) -> None:
    """Bits, error, seeds that are tried and central ε of each row."""
    error = mechanism.variance(np.full((1, 1024), 1 / 32)).sum() / 1024
    central = sdp.amplify(mechanism, 1_000_000).epsilon(1e-8).upper
    assert f"| {name} | {mechanism.message_bits} | {error:.4f} | {tries} | {central:.5f} |" in PAGE
    long = 2 if "twice" in tries else 1
    assert f"{mechanism.expected_random_words / 1536 / long:.0f}" == tries.partition(",")[0]


def test_the_list_of_what_can_be_compressed_is_complete() -> None:
    """Every mechanism of the catalogue that gives its proposal law, and no other."""
    (listed,) = re.findall(r"In the catalogue: (.*)\.\n", PAGE)
    kinds = all_mechanisms().values()
    assert set(listed.split(", ")) == {kind.__name__ for kind in kinds if kind.examples()[0].proposal is not None}
