"""Reference laws: drawn as stated, and every output law as near to them as stated."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from shuffledp.mechanisms.base.seed_compression import integers_below
from shuffledp.mechanisms.catalogue import all_mechanisms
from tests.mechanisms.toy_mechanisms import acceptance
from tests.mechanisms.with_proposal import WITH_PROPOSAL, examples, pure_table

FALSE_ALARM = 1e-7
SAMPLES = 20_000


every_example = pytest.mark.parametrize("mechanism", [pytest.param(one, id=name) for name, one in examples()])


def test_these_mechanisms_give_a_reference_law() -> None:
    """Where it is natural: uniform, independent bits, or what is likeliest of each message; no other has a table."""
    found = {name for name, kind in all_mechanisms().items() if kind.examples()[0].proposal is not None}
    assert found == {*WITH_PROPOSAL, "gaussian", "privunit-g", "privhs"}


@every_example
def test_output_laws_are_within_the_stated_ratios_of_the_reference(mechanism: Any) -> None:
    """From the table alone: ρ = R(x)/(C·acceptance) is one law for all inputs, and C and ε are the exact extremes."""
    table = pure_table(mechanism)
    ratio = Fraction(mechanism.proposal.ratio)
    laws = []
    for value, row in zip(table.inputs, table.probabilities, strict=True):
        chances = acceptance(mechanism, value, table.messages)
        assert (chances <= 1).all()
        assert (chances > 0).all()
        laws.append([float(p / ratio) / a for p, a in zip(row, chances, strict=True)])
    np.testing.assert_allclose(laws, np.broadcast_to(laws[0], np.shape(laws)), rtol=1e-14)
    assert math.fsum(laws[0]) == pytest.approx(1, rel=1e-13)
    ratios = np.array([[float(p) for p in row] for row in table.probabilities]) / laws[0]
    assert ratios.max() == pytest.approx(mechanism.proposal.ratio, rel=1e-13)
    assert ratios.min() == pytest.approx(float(mechanism.proposal.min_ratio), rel=1e-13)
    assert np.abs(np.log(ratios)).max() == pytest.approx(mechanism.proposal.deletion_epsilon, rel=1e-12)


@every_example
def test_reference_messages_follow_the_reference_law(mechanism: Any) -> None:
    """Chi-square with 20,000 draws, false alarm 1e-7 each; the same words give the same message."""
    from scipy.stats import chi2

    table = pure_table(mechanism)
    chances = acceptance(mechanism, table.inputs[0], table.messages) * mechanism.proposal.ratio
    law = np.array([float(p) for p in table.probabilities[0]]) / chances
    words = np.random.default_rng(5).integers(0, 1 << 64, (SAMPLES, mechanism.proposal.word_count), dtype=np.uint64)
    messages = mechanism.proposal.draw_messages(words)
    np.testing.assert_array_equal(messages[:50], mechanism.proposal.draw_messages(words[:50]))
    assert messages.dtype == table.messages.dtype
    columns = {bytes(row): number for number, row in enumerate(mechanism.pack(table.messages))}
    seen = np.zeros(len(columns))
    kinds, counts = np.unique(mechanism.pack(messages), axis=0, return_counts=True)
    for kind, count in zip(kinds, counts, strict=True):
        seen[columns[bytes(kind)]] = count
    keep = law * SAMPLES >= 5
    observed, wanted = np.append(seen[keep], seen[~keep].sum()), SAMPLES * np.append(law[keep], law[~keep].sum())
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    assert ((observed - wanted) ** 2 / wanted).sum() <= chi2.isf(FALSE_ALARM, max(1, len(wanted) - 1))


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, (1 << 32) + 5, (1 << 62) + 12_345, 1 << 63])
def test_bounded_integers_are_the_exact_quotients(bound: int) -> None:
    """Against whole-number arithmetic, extreme words included."""
    rng = np.random.default_rng(bound % 1000)
    words = rng.integers(0, 1 << 64, (500, 2), dtype=np.uint64)
    words[:4] = [[0, 0], [(1 << 64) - 1] * 2, [(1 << 63), 0], [(1 << 64) - 1, 0]]
    expected = [((int(high) << 64) + int(low)) * bound >> 128 for high, low in words]
    assert integers_below(bound, words).tolist() == expected
