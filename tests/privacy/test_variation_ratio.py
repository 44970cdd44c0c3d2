"""Variation-ratio parameters: derived exactly, snapped and raised only in the sound direction, refused by name."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from flint import arb, fmpq

from shuffledp.numerics.ball_arithmetic import precision, to_rational
from shuffledp.privacy.variation_ratio import SNAP_TOLERANCE, VariationRatio
from tests.numerics.exact_law import contains, lower_end, upper_end


def fraction(number: fmpq) -> Fraction:
    """The same rational in Python's type."""
    return Fraction(int(number.p), int(number.q))


@pytest.mark.parametrize(
    ("p", "beta", "q"), [(3.0, 0.25, 2.0), (1.5, 0.1, 1.5), (1e6, 0.7, 40.0), (2.0, 1e-9, 2.0), (7.25, 0.0, 1.0)]
)
def test_derived_parameters_are_exact(p: float, beta: float, q: float) -> None:
    """α = β/(p−1), pα, γ = 1−α−pα as exact rationals of the floats that were given."""
    parameters = VariationRatio(p, beta, q)
    alpha = Fraction(beta) / (Fraction(p) - 1)
    assert fraction(parameters.alpha) == alpha
    assert fraction(parameters.p_alpha) == Fraction(p) * alpha
    assert fraction(parameters.gamma) == 1 - alpha - Fraction(p) * alpha
    assert fraction(parameters.p_alpha - parameters.alpha) == Fraction(beta)
    assert tuple(map(fraction, parameters.ratios)) == (Fraction(q), Fraction(q), Fraction(q))


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.999])
def test_an_infinite_ratio_is_the_limit(beta: float) -> None:
    """At p = ∞: α = 0, pα = β, γ = 1 − β."""
    parameters = VariationRatio(math.inf, beta, 4.0)
    assert parameters.alpha == 0
    assert fraction(parameters.p_alpha) == Fraction(beta)
    assert fraction(parameters.gamma) == 1 - Fraction(beta)
    assert parameters.largest_log_ratio() == math.inf


@pytest.mark.parametrize("p", [1 + 1e-9, 1.5, math.e, 3.0, 148.4131591025766, 1e6, 1e12, math.inf])
@pytest.mark.parametrize("off", [0.0, 1e-13, -1e-13, 5e-13, -5e-13])
def test_a_beta_within_rounding_of_its_maximum_is_the_maximum(p: float, off: float) -> None:
    """β within 1e-12 of (p−1)/(p+1) gives γ = 0 exactly, from either side."""
    most_beta = 1.0 if math.isinf(p) else (p - 1) / (p + 1)
    parameters = VariationRatio(p, most_beta * (1 + off), 2 * min(p, 10.0))
    assert parameters.is_beta_maximal
    assert parameters.gamma == 0
    assert fraction(parameters.alpha + parameters.p_alpha) == 1


def test_a_beta_further_off_is_kept() -> None:
    """A β that is lower by more than 1e-12 is the real number that was given."""
    parameters = VariationRatio(3.0, 0.5 * (1 - 3e-12), 3.0)
    assert not parameters.is_beta_maximal
    assert parameters.gamma > 0
    with pytest.raises(ValueError, match="beta"):
        VariationRatio(3.0, 0.5 * (1 + 3e-12), 3.0)


def test_beta_zero_has_no_extreme_part() -> None:
    """β = 0: user 1's message says nothing, all of it is common."""
    parameters = VariationRatio(5.0, 0.0, 5.0)
    assert parameters.alpha == 0
    assert parameters.gamma == 1


def test_the_ratios_are_raised_where_rounding_alone_broke_the_condition() -> None:
    """q a hair below 1 + β is raised, with the others, until r0 + r1 + γ/q_common = 1 exactly."""
    p, beta = 4.0, 0.3
    low = VariationRatio(p, beta, (1 + beta) * (1 - 3e-13))
    q0, q1, q_common = low.ratios
    assert fraction(q0) > Fraction((1 + beta) * (1 - 3e-13))
    assert low.p_alpha / q0 + low.p_alpha / q1 + low.gamma / q_common == 1
    enough = VariationRatio(p, beta, 1.5)
    assert fraction(enough.ratios[0]) == Fraction(1.5)


@pytest.mark.parametrize("seed", range(5))
def test_true_parameters_rounded_upward_are_never_refused(seed: int) -> None:
    """q = 1 + β, the least possible, and β at its maximum with q = 2p/(p+1) pass, whatever the floats round to."""
    rng = Random(seed)
    for _ in range(200):
        p = 1 + 10 ** rng.uniform(-6, 6)
        beta = (p - 1) / (p + 1) * rng.choice((1.0, rng.random()))
        VariationRatio(p, beta, 1 + beta)
        VariationRatio(p, (p - 1) / (p + 1), 2 * p / (p + 1))


def test_from_ldp_rounds_upward() -> None:
    """Any ε0-LDP randomizer: p = q is the float above e^ε0, β the largest, γ = 0."""
    for epsilon in (1e-6, 0.1, 1.0, 5.0, 100.0, 709.0):
        parameters = VariationRatio.from_ldp(epsilon)
        with precision(200):
            exact = arb(epsilon).exp()
            assert arb(parameters.p) >= exact
            assert arb(math.nextafter(math.nextafter(parameters.p, 0.0), 0.0)) < exact
        assert parameters.gamma == 0
        assert parameters.q == (parameters.p, parameters.p)
        assert parameters.largest_log_ratio() >= epsilon


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, 710.0])
def test_from_ldp_refuses(epsilon: float) -> None:
    """A local ε that is not above 0, not finite or beyond the floats is refused by name."""
    with pytest.raises(ValueError, match="epsilon_local"):
        VariationRatio.from_ldp(epsilon)


@pytest.mark.parametrize("p", [1 + 1e-9, 2.0, math.e, 1e10, 1.7e308])
def test_the_largest_log_ratio_is_not_below_log_p(p: float) -> None:
    """The ε beyond which everything vanishes is log p rounded up, to within a few ulps."""
    value = VariationRatio(p, 0.0, 2.0).largest_log_ratio()
    with precision(200):
        exact = arb(p).log()
        assert arb(value) >= exact
    assert value == pytest.approx(math.log(p), rel=1e-15)


BAD: list[tuple[dict[str, Any], type[Exception], list[str]]] = [
    ({"p": 1.0}, ValueError, ["p", "above 1", "1.0"]),
    ({"p": 0.5}, ValueError, ["p", "above 1", "0.5"]),
    ({"p": -math.inf}, ValueError, ["p", "above 1", "-inf"]),
    ({"p": math.nan}, ValueError, ["p", "NaN"]),
    ({"p": "3"}, TypeError, ["p", "number", "'3'"]),
    ({"p": None}, TypeError, ["p", "number", "None"]),
    ({"p": True}, TypeError, ["p", "number", "True"]),
    ({"p": 3 + 0j}, TypeError, ["p", "number"]),
    ({"beta": -1e-9}, ValueError, ["beta", "between 0 and", "-1e-09"]),
    ({"beta": 0.51}, ValueError, ["beta", "(p-1)/(p+1) = 0.5", "p = 3.0", "0.51"]),
    ({"beta": math.nan}, ValueError, ["beta", "NaN"]),
    ({"beta": math.inf}, ValueError, ["beta", "between 0 and", "inf"]),
    ({"p": math.inf, "beta": 1.001}, ValueError, ["beta", "1.0", "1.001"]),
    ({"beta": "0.1"}, TypeError, ["beta", "number", "'0.1'"]),
    ({"beta": None}, TypeError, ["beta", "number", "None"]),
    ({"beta": True}, TypeError, ["beta", "number", "True"]),
    ({"q": 0.99}, ValueError, ["q", "at least 1", "0.99"]),
    ({"q": -3.0}, ValueError, ["q", "at least 1", "-3.0"]),
    ({"q": math.inf}, ValueError, ["q", "finite", "inf"]),
    ({"q": math.nan}, ValueError, ["q", "NaN"]),
    ({"q": "3"}, TypeError, ["q", "number", "'3'"]),
    ({"q": None}, TypeError, ["q", "number", "None"]),
    ({"q": False}, TypeError, ["q", "number", "False"]),
    ({"q": (3.0,)}, ValueError, ["q", "pair (q0, q1)", "(3.0,)"]),
    ({"q": (3.0, 3.0, 3.0)}, ValueError, ["q", "pair (q0, q1)", "(3.0, 3.0, 3.0)"]),
    ({"q": ()}, ValueError, ["q", "pair (q0, q1)", "()"]),
    ({"q": (0.5, 3.0)}, ValueError, ["q0", "at least 1", "0.5"]),
    ({"q": (3.0, math.inf)}, ValueError, ["q1", "finite", "inf"]),
    ({"q": (3.0, "x")}, TypeError, ["q1", "number", "'x'"]),
    ({"q_common": 0.5}, ValueError, ["q_common", "at least 1", "0.5"]),
    ({"q_common": math.inf}, ValueError, ["q_common", "finite", "inf"]),
    ({"q_common": "1"}, TypeError, ["q_common", "number", "'1'"]),
    ({"q_common": True}, TypeError, ["q_common", "number", "True"]),
    ({"beta": 0.4, "q": 1.2}, ValueError, ["r0 + r1", "at most 1", "1.16667", "q0=1.2"]),
    ({"beta": 0.4, "q": (1.0, 2.0), "q_common": 1.0}, ValueError, ["r0 + r1", "q_common=1.0", "raise q or lower beta"]),
    ({"beta": 0.5, "q": 1.5 * (1 - 1e-9)}, ValueError, ["r0 + r1", "at most 1"]),
]


@pytest.mark.parametrize(("change", "kind", "words"), BAD)
def test_bad_input_is_refused_with_a_sentence(change: dict[str, Any], kind: type[Exception], words: list[str]) -> None:
    """Each bad value raises one sentence that names the parameter, what is allowed and what was given."""
    arguments: dict[str, Any] = {"p": 3.0, "beta": 0.2, "q": 3.0} | change
    with pytest.raises(kind) as caught:
        VariationRatio(**arguments)
    message = str(caught.value)
    assert message.startswith("VariationRatio: ")
    assert message.endswith(".")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_other_number_types_are_accepted() -> None:
    """Integers and numpy numbers are numbers; a list is a pair as good as a tuple."""
    plain = VariationRatio(3.0, 0.25, (3.0, 4.0))
    assert VariationRatio(3, np.float64(0.25), [3, np.int64(4)]) == plain
    assert isinstance(VariationRatio(3, 0.25, 3).p, float)


def test_parameters_are_frozen_and_comparable() -> None:
    """Equal parameters are equal and hashable; no field can be set."""
    parameters = VariationRatio(3.0, 0.25, 3.0)
    assert parameters == VariationRatio(3.0, 0.25, (3.0, 3.0))
    assert hash(parameters) == hash(VariationRatio(3.0, 0.25, 3.0))
    with pytest.raises(FrozenInstanceError):
        parameters.p = 4.0


def test_swapping_exchanges_the_inputs() -> None:
    """Swapped parameters exchange q0 and q1 and keep the rest; twice is the identity."""
    parameters = VariationRatio(9.0, 0.5, (4.0, 6.0), q_common=2.0)
    assert parameters.swapped().q_pair == (6.0, 4.0)
    assert parameters.swapped().swapped() == parameters
    assert parameters.swapped().q_common == 2.0
    assert not parameters.is_symmetric
    assert VariationRatio(9.0, 0.5, 4.0).is_symmetric


def test_it_describes_itself_with_defaults_filled_in() -> None:
    """The description names every parameter; the common ratio defaults to the larger q."""
    assert VariationRatio(9.0, 0.5, (4.0, 6.0)).describe() == {
        "p": 9.0,
        "beta": 0.5,
        "q0": 4.0,
        "q1": 6.0,
        "q_common": 6.0,
    }
    assert VariationRatio(9.0, 0.5, 4.0, q_common=2.0).describe()["q_common"] == 2.0


def test_raw_parameters_offer_themselves() -> None:
    """The parameters are a randomizer in their own right."""
    parameters = VariationRatio(9.0, 0.5, 4.0)
    assert parameters.variation_ratio() is parameters


@pytest.mark.parametrize("q_common", [None, 1.0, 2.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_the_pair_has_three_laws(q_common: float | None, epsilon: float) -> None:
    """User 1's two laws are (pα, α, γ) and (α, pα, γ), the hiding law (r, r, γ/q_common, rest), each of sum 1."""
    p, beta, q = 4.0, 0.25, 4.0
    parameters = VariationRatio(p, beta, q, q_common)
    with precision(128):
        classes = parameters.pair(epsilon).classes()
        for column in zip(*classes, strict=True):
            total = sum(column, arb(0))
            assert contains(total, Fraction(1))
        expected = [
            (Fraction(1, 3), Fraction(1, 12), Fraction(1, 12)),
            (Fraction(1, 12), Fraction(1, 3), Fraction(1, 12)),
            (Fraction(7, 12), Fraction(7, 12), Fraction(7, 12) / Fraction(q_common or q)),
        ]
        for c, exact in zip(classes, expected, strict=False):
            assert all(contains(ball, value) for ball, value in zip(c, exact, strict=True))


def test_the_published_pair_lets_the_common_part_hide_among_all_rests() -> None:
    """Its third class is hidden by everything that is not extreme; with nothing left there is no third class."""
    with precision(128):
        classes = VariationRatio(4.0, 0.25, 4.0).published_pair().classes()
        assert contains(classes[2].hiding, Fraction(5, 6))
        assert contains(classes[2].first, Fraction(7, 12))
        full = VariationRatio(math.inf, 1.0, 2.0).published_pair().classes()
    assert len(full) == 2


def test_no_common_part_makes_the_two_pairs_one() -> None:
    """At the largest β the sound and the published pair give the same law of G."""
    parameters = VariationRatio.from_ldp(1.3)
    with precision(128):
        sound, published = parameters.pair(0.4).law(0.4).atoms(), parameters.published_pair().law(0.4).atoms()
        assert len(sound) == len(published) == 3
        for (value, weight), (other, mass) in zip(sound, published, strict=True):
            assert value.overlaps(other)
            assert weight.overlaps(mass)


def hiding_of_bottom(parameters: VariationRatio, epsilon: float) -> arb:
    """The probability with which another user hides the class where input 1 is likelier."""
    return parameters.pair(epsilon).classes()[1].hiding


def test_q1_is_raised_only_where_the_reduction_would_not_grow_with_beta() -> None:
    """q1 rises to q_common·(e^ε − 1)/(e^ε − 1/p), and only where that is more than q1."""
    parameters = VariationRatio(10.0, 0.3, (20.0, 2.0))
    with precision(128):
        small = hiding_of_bottom(parameters, 0.01)
        assert contains(small, fraction(parameters.p_alpha) / 2)
        large = hiding_of_bottom(parameters, 2.0)
        needed = 20 * (arb(2).exp() - 1) / (arb(2).exp() - arb(1) / 10)
        assert upper_end(large * needed) >= fraction(parameters.p_alpha) >= lower_end(large * needed)
        # In the other direction the lower class has the larger ratio already.
        assert contains(hiding_of_bottom(parameters.swapped(), 2.0), fraction(parameters.p_alpha) / 20)
        for epsilon in (0.0, 0.5, 2.0):
            hidden = sum((c.hiding for c in parameters.pair(epsilon).classes()), arb(0))
            assert contains(hidden, Fraction(1))


def test_disjoint_laws_need_no_raising() -> None:
    """At p = ∞ with β = 1 the two laws are disjoint, β cannot be an over-estimate, and q1 stays."""
    parameters = VariationRatio(math.inf, 1.0, (20.0, 2.0))
    with precision(128):
        assert contains(hiding_of_bottom(parameters, 3.0), Fraction(1, 2))


def test_snapping_is_relative() -> None:
    """The distance within which β is its maximum is relative, so a tiny p − 1 is snapped as well as a large p."""
    p = 1 + 2.0**-40
    at = (p - 1) / (p + 1)
    assert VariationRatio(p, at * (1 - SNAP_TOLERANCE / 2), 2.0).gamma == 0
    assert VariationRatio(p, at * (1 - 4 * SNAP_TOLERANCE), 2.0).gamma > 0
    assert to_rational(p) > 1
