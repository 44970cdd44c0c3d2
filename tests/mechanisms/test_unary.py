"""Unary encodings: closed forms against enumeration, large instances, the wire, bad input.

The statistical tests have fixed seeds; each raises a false alarm with probability below 1e-6.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from shuffledp.mechanisms.frequency.unary_encoding import OUE, RAPPOR, UnaryBits, UnaryLaw
from shuffledp.numerics.positive_part import PositivePartMean
from tests.oracle import exact_enumeration

KINDS: list[type[RAPPOR | OUE]] = [RAPPOR, OUE]
SMALL = [kind(epsilon, options) for kind in KINDS for epsilon in (0.1, 1.0, 5.0) for options in (2, 3, 4, 6)]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_small = pytest.mark.parametrize("mechanism", SMALL, ids=str)


@every_small
def test_both_have_one_law_that_differs_in_numbers_only(mechanism: RAPPOR | OUE) -> None:
    """The law is data: the options and the two chances of a 1, those of the estimator."""
    bits = UnaryBits(mechanism.options, mechanism.estimator.true_support, mechanism.estimator.false_support)
    assert mechanism.law == UnaryLaw(bits)
    assert mechanism.law != UnaryLaw(UnaryBits(mechanism.options + 1, bits.true_probability, bits.false_probability))


@every_small
def test_parameters_are_the_least_ones(mechanism: RAPPOR | OUE) -> None:
    """p, beta, q and q_common are those of the enumerated table, for every pair of inputs."""
    stated = mechanism.variation_ratio().describe()
    for found in exact_enumeration.variation_ratio_of_table(mechanism.table().probabilities).values():
        for name in ("p", "beta"):
            assert 0 <= Fraction(stated[name]) - getattr(found, name) <= 1e-12 * stated[name]
        assert found.q == found.p
        assert stated["q0"] == stated["q1"] == stated["p"]
        assert found.q_common == (1 if mechanism.options == 2 else found.p)
        assert Fraction(stated["q_common"]) >= found.q_common


@every_small
def test_blanket_classes_are_those_of_the_table(mechanism: RAPPOR | OUE) -> None:
    """Outputs of the table with the same likelihood ratios, added up, are the stated classes, to 60 digits."""
    rows = mechanism.table().probabilities
    groups: dict[Any, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * 3)
    for output in zip(*rows, strict=True):
        first, second, hiding = output[0], output[1], min(output)
        group = groups[first / hiding, second / hiding]
        groups[first / hiding, second / hiding] = [a + b for a, b in zip(group, (first, second, hiding), strict=True)]
    rest = 1 - sum(group[2] for group in groups.values())
    wanted = sorted([*groups.values(), [Fraction(0), Fraction(0), rest]])
    with ctx.workprec(300):
        (pair,) = mechanism.blankets()
        stated = sorted(pair.classes(), key=lambda c: (float(c.first), float(c.second), float(c.hiding)))
        assert len(stated) == len(wanted)
        for triple, balls in zip(wanted, stated, strict=True):
            for number, ball in zip(triple, balls, strict=True):
                assert abs(ball - arb(number.numerator) / number.denominator) < 1e-60


@every_small
def test_attacks_are_real_datasets(mechanism: RAPPOR | OUE) -> None:
    """The others all hold a third option, or, where there are only two, the first, or either by a fair coin."""
    rows = mechanism.table().probabilities
    mixed = tuple((a + b) / 2 for a, b in zip(rows[0], rows[1], strict=True))
    crowds = [rows[0], mixed] if mechanism.options == 2 else [rows[2]]
    for pair, crowd in zip(mechanism.attacks(), crowds, strict=True):
        for way, (a, b) in ((pair, (0, 1)), (pair.swapped(), (1, 0))):
            truth = _divergence(rows[a], rows[b], crowd, 3, Fraction(9, 8))
            found = PositivePartMean(way.law, 3).bracket(math.log(1.125))
            assert found.lower_float() - 1e-12 <= truth <= found.upper_float() + 1e-12


def _divergence(first: Any, second: Any, hiding: Any, users: int, ratio: Fraction) -> float:
    """(1/n)·E(ΣG)_+ with equal values of G merged."""
    weights: dict[Fraction, Fraction] = defaultdict(Fraction)
    for a, b, w in zip(first, second, hiding, strict=True):
        weights[(a - ratio * b) / w] += w
    return float(exact_enumeration.positive_part_mean(list(weights), list(weights.values()), users) / users)


@every_kind
def test_large_domain(kind: type[RAPPOR | OUE]) -> None:
    """A million options: the law of G is normalised with mean 1 - e^epsilon and amplifies more than the parameters."""
    mechanism = kind(2.0, 1_000_000)
    (pair,) = mechanism.blankets()
    with ctx.workprec(128):
        atoms = pair.law(0.25).atoms()
        assert abs(sum((w for _, w in atoms), arb(0)) - 1) < 1e-30
        assert abs(sum((v * w for v, w in atoms), arb(0)) - (1 - arb(0.25).exp())) < 1e-30
    blanket = PositivePartMean(pair.law, 2000).bracket(0.25).upper_float()
    generic = PositivePartMean(mechanism.variation_ratio().pair(0.25).law, 2000).bracket(0.25).upper_float()
    (attack,) = mechanism.attacks()
    attained = PositivePartMean(attack.law, 2000).bracket(0.25).lower_float()
    assert 0 < attained <= blanket <= generic


@every_kind
@pytest.mark.parametrize("options", [2, 13, 64, 1000])
def test_estimates_of_a_crowd(kind: type[RAPPOR | OUE], options: int) -> None:
    """Estimates are within 6.5 standard errors of the true counts."""
    mechanism = kind(1.5, options)
    values = np.random.default_rng(1).integers(0, options, 30_000) ** 2 // options
    estimate = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(2)))
    scores = (estimate.value - mechanism.truth(values)) / np.sqrt(mechanism.variance(values))
    assert np.abs(scores).max() <= 6.5
    np.testing.assert_allclose(estimate.variance, mechanism.variance(values), rtol=0.1)


@every_kind
def test_no_bit_beyond_the_options_is_set(kind: type[RAPPOR | OUE]) -> None:
    """Unused bits of the last byte are 0, and a wire row with one of them set is refused."""
    mechanism = kind(1.0, 11)
    messages = mechanism.encode(np.zeros(5000, dtype=int), rng=np.random.default_rng(3))
    assert messages.shape == (5000, 2)
    assert not (messages[:, 1] >> 3).any()
    np.testing.assert_array_equal(mechanism.unpack(mechanism.pack(messages)), messages)
    bad = messages[:1].copy()
    bad[0, 1] |= 0x80
    with pytest.raises(
        ValueError,
        match=rf"^{kind.__name__}: expected rows of 11 bits, with zeros beyond them, got others in 1 of 1 rows\.$",
    ):
        mechanism.unpack(bad)
    with pytest.raises(
        ValueError, match=rf"^{kind.__name__}: expected rows of 2 bytes, got int64 of shape \(1, 2\)\.$"
    ):
        mechanism.unpack(bad.astype(np.int64))


@every_kind
@pytest.mark.parametrize("epsilon", [1e-17, 1e-6, 40.0, 100.0, 1e308])
def test_extreme_epsilon(kind: type[RAPPOR | OUE], epsilon: float) -> None:
    """The executed law stays strictly between useless and revealing, and inside the promise."""
    mechanism = kind(epsilon, 3)
    s, r = mechanism.estimator.true_support, mechanism.estimator.false_support
    assert 0 < r < s < 1
    ratio = s * (1 - r) / (r * (1 - s))
    with ctx.workprec(256):
        assert arb(ratio.numerator) / ratio.denominator <= arb(min(epsilon, 200.0)).exp()
    assert mechanism.variation_ratio().p > 1


@every_kind
def test_gap_of_supports_is_exact(kind: type[RAPPOR | OUE]) -> None:
    """One supporting message moves the estimate by 1/(s - r), also where s and r are nearly the same float."""
    mechanism = kind(1e-12, 2)
    with_one, without = mechanism.finish(np.array([1, 0]), 1).value
    gap = mechanism.estimator.true_support - mechanism.estimator.false_support
    assert with_one - without == pytest.approx(float(1 / gap), rel=1e-12)


@every_kind
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1.0, 1), "options must be at least 2, got 1."),
        ((1.0, 2.5), "options must be a whole number of at least 2, got 2.5."),
        ((0.0, 2), "epsilon must be above 0 and finite, got 0.0."),
        ((math.nan, 2), "epsilon must be a number, got NaN."),
        ((math.inf, 2), "epsilon must be above 0 and finite, got inf."),
        ((1e-18, 2), "epsilon must be at least 1e-17, got 1e-18."),
    ],
)
def test_bad_settings(kind: type[RAPPOR | OUE], arguments: Any, sentence: str) -> None:
    """One sentence that names the mechanism."""
    with pytest.raises(ValueError, match=f"^{re.escape(f'{kind.__name__}: {sentence}')}$"):
        kind(*arguments)


@every_kind
def test_bad_values(kind: type[RAPPOR | OUE]) -> None:
    """Nothing is encoded if any value is bad; no table of a large instance."""
    mechanism = kind(1.0, 100)
    with pytest.raises(ValueError, match=rf"^{kind.__name__}: values must be from 0 to 99, got 100\.$"):
        mechanism.encode([1, 100, 2])
    with pytest.raises(ValueError, match=rf"^{kind.__name__}: a table needs at most 12 options, got 100\.$"):
        mechanism.table()
    with pytest.raises(
        ValueError, match=rf"^{kind.__name__}: expected at least one message to estimate from, got none"
    ):
        mechanism.estimate(np.empty((0, 13), dtype=np.uint8))


@every_kind
def test_whole_floats_are_counts(kind: type[RAPPOR | OUE]) -> None:
    """1e6 options are a million, kept as a whole number."""
    mechanism = kind(1.0, 1e6)  # type: ignore[arg-type]
    assert mechanism.options == 1_000_000
    assert isinstance(mechanism.options, int)
    assert mechanism.message_bits == 1_000_000
    assert mechanism.message_bytes == 125_000
