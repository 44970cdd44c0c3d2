"""The contour sum: enclosing for any law, any n, and any plan, because the proof does not depend on the plan."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from flint import acb, arb
from hypothesis import assume, given, settings, strategies as st
from mpmath import mp, mpf

from shuffledp.numerics import contour_integral, positive_part
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.numerics.contour_integral import ContourPlan, TiltedLaw
from shuffledp.numerics.distributions import FiniteLaw
from shuffledp.numerics.positive_part import positive_part_mean
from shuffledp.privacy.variation_ratio import VariationRatio

from .exact_law import KINDS, ExactLaw, encloses, laws, lower_end, overlap, random_law, relative_width, upper_end


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_random_laws_are_enclosed(kind: str, tolerance: float) -> None:
    """The bracket holds the exact value for laws with two to six values and few summands, where it is hardest."""
    rng, tried = Random(f"{kind} {tolerance}"), 0
    while tried < 40:
        size = rng.randint(2, 6)
        law, count = random_law(rng, size, kind), rng.randint(1, 12 if size < 4 else 6)
        if law.has_positive_value:
            tried += 1
            found = contour_integral.bracket(
                law.finite, count, contour_integral.make_plan(law.finite, count, tolerance)
            )
            assert encloses(found, law.positive_part_mean(count))
            assert found.method == "contour"


@settings(deadline=None, derandomize=True, max_examples=60)
@given(laws(), st.integers(1, 5), st.sampled_from([1e-2, 1e-5]))
def test_any_law_is_enclosed(law: ExactLaw, count: int, tolerance: float) -> None:
    """No law that an adversary finds escapes its bracket."""
    assume(law.has_positive_value)
    found = contour_integral.bracket(law.finite, count, contour_integral.make_plan(law.finite, count, tolerance))
    assert encloses(found, law.positive_part_mean(count))


def disturbed(plan: ContourPlan, rng: Random) -> ContourPlan:
    """Another plan: every number multiplied by a random factor, the first nodes kept without a gap."""

    def factor() -> float:
        return math.exp(rng.uniform(-2, 2))

    tilt, step = plan.tilt * factor(), plan.step * factor()
    variance = plan.variance * math.exp(rng.uniform(-1, 6))
    enough = math.sqrt(60 / variance) / step
    last = rng.choice((0, 1, 10, min(1000, math.ceil(enough * rng.uniform(0.3, 1.5)))))
    # Beyond the kept nodes the plan may claim one peak (whose reach is checked) or the Gaussian factor alone.
    peak = last + rng.randint(1, 200) if rng.random() < 0.5 else 0
    return dataclasses.replace(
        plan,
        tilt=tilt,
        variance=variance,
        step=step,
        node_indices=np.arange(last + 1),
        reach=max(last, peak),
        peak_reach=peak,
        shift_right=plan.shift_right * factor(),
        shift_left=tilt * rng.uniform(0.01, 0.99),
    )


def test_no_plan_breaks_the_enclosure() -> None:
    """Any tilt, variance, step, number of nodes and shifts give two true sides, sharp or useless."""
    rng = Random(41)
    sharp_upper = sharp_lower = plans = 0
    while plans < 600:
        size = rng.randint(2, 5)
        law, count = random_law(rng, size, rng.choice(KINDS[:3])), rng.randint(1, 10 if size < 4 else 6)
        if not law.has_positive_value:
            continue
        exact = law.positive_part_mean(count)
        plan = contour_integral.make_plan(law.finite, count, 1e-4)
        for _ in range(5):
            plans += 1
            found = contour_integral.bracket(law.finite, count, disturbed(plan, rng))
            assert not found.lower.is_finite() or lower_end(found.lower) <= exact
            assert not found.upper.is_finite() or exact <= upper_end(found.upper)
            sharp_upper += bool(found.upper.is_finite() and upper_end(found.upper) < 2 * exact)
            sharp_lower += bool(found.lower.is_finite() and lower_end(found.lower) > exact / 2)
    # The test means something only if many disturbed plans still say something.
    assert sharp_upper > 30
    assert sharp_lower > 10


@pytest.mark.parametrize("users", [10**3, 10**5])
def test_no_plan_breaks_the_enclosure_of_many_summands(users: int) -> None:
    """The same for a real pair at large n, against the exact walk, with plans close to the chosen one."""
    rng, parameters = Random(users), VariationRatio.from_ldp(2.0)
    epsilon = 4 * math.sqrt(6.0 / users)
    law = parameters.pair(epsilon).law(epsilon)
    exact = positive_part.bracket_by_recurrence(law, users, -200.0)
    plan = contour_integral.make_plan(law, users, 1e-5)
    for _ in range(25):
        tilt = plan.tilt * math.exp(rng.uniform(-0.2, 0.2))
        other = dataclasses.replace(
            plan,
            tilt=tilt,
            variance=plan.variance * math.exp(rng.uniform(-0.5, 1)),
            step=plan.step * math.exp(rng.uniform(-0.5, 1)),
            node_indices=np.arange(plan.reach + 1) if plan.reach < 2000 else np.arange(2001),
            reach=min(plan.reach, 2000),
            peak_reach=0,
            shift_left=tilt * rng.uniform(0.1, 0.9),
        )
        found = contour_integral.bracket(law, users, other)
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper


def log_sizes(law: FiniteLaw, count: int, plan: ContourPlan, nodes: list[int]) -> list[float]:
    """log of |M(t)^n exp(v t²/2)| over its value at node 0, in balls of plenty of bits."""
    with precision(200 + count.bit_length()):
        atoms = [(value / plan.scale, weight) for value, weight in law.atoms()]
        tau, step, variance = arb(plan.tilt), arb(plan.step), arb(plan.variance)

        def log_size(k: int) -> arb:
            t = acb(tau, step * k)
            moment = sum((weight * (t * value).exp() for value, weight in atoms), acb(0))
            return abs(moment).log() * count + variance * (tau * tau - step * step * k * k) / 2

        start = log_size(0)
        # A moment that may be 0 has an infinite ball around minus infinity; it is small enough.
        return [float((log_size(k) - start).mid()) if log_size(k).is_finite() else -math.inf for k in nodes]


def test_skipped_nodes_are_as_small_as_the_plan_says() -> None:
    """The one float in the proof: every node that a plan leaves out is below the plan's bound, at n up to 1e10."""
    rng, checked = Random(7), 0
    while checked < 40:
        size, count = rng.randint(2, 5), int(10 ** rng.uniform(0, 10))
        law = random_law(rng, size, rng.choice(KINDS[:3]))
        if not law.has_positive_value:
            continue
        # Move the lowest value so that the sum's mean is a few deviations below 0: there the peaks are many.
        values, lowest = list(law.values), law.values.index(min(law.values))
        mean = sum(v * w for v, w in zip(law.values, law.weights, strict=True))
        target = -Fraction(rng.randint(1, 8), math.isqrt(count)) * abs(values[lowest])
        values[lowest] += (target - mean) / law.weights[lowest]
        if not min(values) < 0 < max(values):
            continue
        finite = ExactLaw(tuple(values), law.weights).finite
        plan = contour_integral.make_plan(finite, count, rng.choice((1e-5, 5e-10)))
        kept = set(plan.node_indices.tolist())
        if plan.peak_reach > plan.node_indices[-1] or len(kept) == plan.reach + 1:
            continue
        checked += 1
        near = {k + d for k in rng.sample(sorted(kept), min(len(kept), 40)) for d in (-2, -1, 1, 2)}
        near |= {rng.randint(0, plan.reach) for _ in range(40)}
        skipped = sorted(k for k in near if 0 <= k <= plan.reach and k not in kept)
        assert all(size <= plan.log_skipped for size in log_sizes(finite, count, plan, skipped))


def test_a_plan_keeps_node_zero_and_few_others() -> None:
    """Every plan starts at the saddle's own node, stays below the stated number of nodes, and has legal shifts."""
    rng = Random(8)
    for _ in range(60):
        law, count = random_law(rng, rng.randint(2, 5), rng.choice(KINDS[:3])), int(10 ** rng.uniform(0, 9))
        if law.has_positive_value:
            plan = contour_integral.make_plan(law.finite, count, 5e-10)
            assert plan.node_indices[0] == 0
            assert len(plan.node_indices) <= contour_integral.MAX_SUMMED_NODES
            assert np.all(np.diff(plan.node_indices) > 0)
            assert plan.node_indices[-1] <= plan.reach
            assert 0 < plan.shift_left < plan.tilt
            assert plan.shift_right > 0


@pytest.mark.parametrize(("count", "power"), [(40, 45), (100, 100), (240, 250)])
def test_tiny_results_keep_their_relative_digits(count: int, power: int) -> None:
    """Results below 1e-250 have two sides within a percent of each other, against the exact walk."""
    tiny = Fraction(1, 10**10)
    law = ExactLaw((Fraction(3), Fraction(-1), Fraction(-2, 7)), (tiny, Fraction(3, 5) - tiny, Fraction(2, 5))).finite
    exact = positive_part.bracket_by_recurrence(law, count, -math.inf)
    assert 0 < upper_end(exact.upper) < Fraction(1, 10**power)
    found = contour_integral.bracket(law, count, contour_integral.make_plan(law, count, 1e-6))
    assert overlap(found, exact)
    assert relative_width(found) < 0.01


@pytest.mark.parametrize("users", [10**4, 10**6, 10**8, 10**10, 10**12])
@pytest.mark.parametrize("sharpness", [1e-6, 5e-10])
def test_the_width_is_what_the_tolerance_says(users: int, sharpness: float) -> None:
    """At four standard deviations the two sides differ by about tolerance·z², from n = 1e4 to 1e12 alike."""
    parameters = VariationRatio.from_ldp(1.0)
    epsilon = 4 * 1.1 / math.sqrt(users)
    law = parameters.pair(epsilon).law(epsilon)
    found = contour_integral.bracket(law, users, contour_integral.make_plan(law, users, sharpness))
    assert relative_width(found) < 3 * sharpness * 25


def test_the_estimate_is_close_to_the_certified_value() -> None:
    """The floats that steer a search agree with the balls to their own accuracy, up to n = 1e12."""
    for users in (10**3, 10**6, 10**9, 10**12):
        for scale in (1.0, 4.0, 8.0):
            epsilon = scale / math.sqrt(users)
            law = VariationRatio.from_ldp(1.0).pair(epsilon).law(epsilon)
            plan = contour_integral.make_plan(law, users, 1e-5)
            found, steered = contour_integral.bracket(law, users, plan), contour_integral.estimate(law, users, plan)
            assert steered.log_upper == pytest.approx(found.log_upper(), abs=1e-4)
            assert steered.log_lower - 1e-4 <= steered.log_value <= steered.log_upper + 1e-4
            assert found.log_lower() - 1e-4 <= steered.log_value <= found.log_upper() + 1e-4


def test_many_values_agree_with_few() -> None:
    """A value split into several equal ones is the same law: brackets overlap."""
    epsilon, users = 0.02, 10**5
    three = VariationRatio.from_ldp(1.0).pair(epsilon).law(epsilon)

    def split() -> list[tuple[arb, arb]]:
        return [(value, weight / 3) for value, weight in three.atoms() for _ in range(3)]

    nine = FiniteLaw(split)
    one = contour_integral.bracket(three, users, contour_integral.make_plan(three, users, 1e-8))
    other = contour_integral.bracket(nine, users, contour_integral.make_plan(nine, users, 1e-8))
    assert overlap(one, other)
    assert relative_width(other) < 1e-5


@pytest.mark.parametrize("users", [10**9, 10**11, 10**12])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 0.9])
def test_results_beyond_all_floats_can_be_planned(users: int, epsilon: float) -> None:
    """Where the result is e^-(n/10) the plan still exists and the upper side rounds to the least float."""
    law = VariationRatio.from_ldp(1.0).pair(epsilon).law(epsilon)
    found = contour_integral.bracket(law, users, contour_integral.make_plan(law, users, 5e-10))
    assert 0 < found.upper_float() <= 1e-300
    assert found.lower <= found.upper


def test_a_tiny_top_weight_beside_a_deep_value() -> None:
    """A law whose positive value is rarer than one float of 1 can be planned and is enclosed."""
    tiny = Fraction(1, 10**20)
    law = ExactLaw((Fraction(1), Fraction(-(10**6))), (tiny, 1 - tiny))
    found = contour_integral.bracket(law.finite, 3, contour_integral.make_plan(law.finite, 3, 1e-5))
    assert encloses(found, law.positive_part_mean(3))


def test_has_positive_value() -> None:
    """Only a value above 0 counts."""
    assert contour_integral.has_positive_value(
        ExactLaw((Fraction(1, 10**9), Fraction(-1)), (Fraction(1, 2),) * 2).finite
    )
    assert not contour_integral.has_positive_value(ExactLaw((Fraction(0), Fraction(-1)), (Fraction(1, 2),) * 2).finite)


@pytest.mark.parametrize("kind", KINDS)
def test_one_node_is_enough_for_a_bound(kind: str) -> None:
    """Where no plan is affordable: above the exact value, and within twice of Chernoff's bound."""
    rng, tried = Random(kind), 0
    while tried < 20:
        law, count = random_law(rng, rng.randint(2, 5), kind), rng.randint(1, 6)
        if not law.has_positive_value:
            continue
        tried += 1
        tilted = TiltedLaw(law.finite, count)
        tau = tilted.saddle(0.0)
        found = contour_integral.bracket(law.finite, count, contour_integral._plan_one_node(tilted, tau))
        assert encloses(found, law.positive_part_mean(count))
        chernoff = tilted.log_moment(tau) - 1 - math.log(tau) + math.log(tilted.scale)
        assert found.log_upper() <= chernoff + math.log(2)


RARE = VariationRatio(39.511971864058076, 1e-17, (43.974252970533875, 39.51197186405822), 39.5119835733159)
MANY = 2_674_532_936


@pytest.mark.parametrize("epsilon", [1.0e-7, 1.1e-7, 1.28e-7])
def test_many_summands_of_which_few_are_large(epsilon: float) -> None:
    """Values of probability 1e-19 decide, among 2.7e9 summands: a plan ends, and bounds the mean from above.

    The other route is a bound from below: given the numbers of rare values, E(S)_+ ≥ (E S)_+. A number of k of them has
    probability C(n, k)·w^k·(1 − w)^(n−k), and what is left of the drift is its mean.
    """
    law = RARE.pair(epsilon).law(epsilon)
    found = positive_part_mean(law, MANY)
    assert found.upper.is_finite()
    with mp.workdps(60):
        (top, w), (_, _), *rest = [
            (mpf(v.mid().str(50, radius=False)), mpf(w.mid().str(50, radius=False))) for v, w in precise(law)
        ]
        drift = sum(v * w for v, w in rest) / sum(w for _, w in rest)
        below = mpf(0)
        for k in range(1, 60):
            chance = mp.binomial(MANY, k) * w**k * sum(w for _, w in rest) ** (MANY - k)
            below += chance * max(mpf(0), k * top + (MANY - k) * drift)
        assert below > 0
        upper = mpf(found.upper.str(40, radius=False))
        # What the two leave open is what the number of common values varies by.
        assert below <= upper <= below * mp.exp(2)


def precise(law: FiniteLaw) -> list[tuple[arb, arb]]:
    """The atoms to many digits."""
    with precision(256):
        return list(law.atoms())


def test_a_node_where_the_moment_vanishes() -> None:
    """A fair coin at the angle π: the logarithm is minus infinity, and no part of it is NaN."""
    law = ExactLaw((Fraction(0), Fraction(1)), (Fraction(1, 2), Fraction(1, 2))).finite
    tilted = TiltedLaw(law, 10)
    found = contour_integral._log_ratio(tilted, np.array([0.5, 0.5]), 0.0, 1.0, math.pi, np.array([0, 1, 2]))
    assert not np.isnan(found).any()
    assert found.real[0] == 0.0
    assert found.real[1] < -300


@pytest.mark.parametrize("count", [3, 10**7, 10**7 + 1, 10**12])
def test_ratios_to_node_0_in_floats(count: int) -> None:
    """By a product of matrices or one by one: as many digits tell, for nodes near and far, in any blocks."""
    law = ExactLaw(
        (Fraction(-3, 4), Fraction(1, 8), Fraction(1)), (Fraction(1, 2), Fraction(3, 8), Fraction(1, 8))
    ).finite
    tilted, tau, step = TiltedLaw(law, count), 1.5, 3e-7
    indices = np.array([0, 1, 5, 31, 32, 33, 700, 4096, 5000])
    found = contour_integral._log_ratio(tilted, tilted.tilt_weights(tau), 1e-3, tau, step, indices)
    with mp.workdps(60):
        moment = lambda t: sum(w * mp.exp(t * v) for v, w in ((-0.75, 0.5), (0.125, 0.375), (1, 0.125)))  # noqa: E731
        for k, value in zip(indices.tolist(), found, strict=True):
            t = mp.mpc(tau, mp.mpf(step) * k)
            exact = count * mp.log(moment(t) / moment(mp.mpf(tau))) + mp.mpf(1e-3) * (t * t - mp.mpf(tau) ** 2) / 2
            assert abs(float(exact.real) - value.real) <= 1e-7 + 1e-12 * abs(value.real)
            assert abs(float(exact.imag) - value.imag) <= 1e-7 + 1e-12 * abs(value.imag)
