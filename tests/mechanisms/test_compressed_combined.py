"""Compression around runs and queries, and runs of what is compressed: by brute force, in fractions."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

import shuffledp as sdp
from shuffledp import Compressed, Parallel, Repeated
from shuffledp._core.validation import Array
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.base.seed_compression import SeedLaw
from shuffledp.mechanisms.base.table_law import UnitTable
from shuffledp.mechanisms.base.table_mechanism import TableProposal
from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.sampling import rounding_and_digits
from tests.mechanisms.test_compressed import at_most_e_to
from tests.mechanisms.test_unit_ball import divergence
from tests.mechanisms.toy_mechanisms import (
    SEEDS,
    Spiked,
    ToyCircle,
    ToyGenerator,
    largest_ratio,
    measured_advantage,
    seed_law,
    total_variation,
)
from tests.mechanisms.with_proposal import pure_table

Law = list[Fraction]


# --- proposal laws ---------------------------------------------------------------------------------------------------


def column_maxima(mechanism: Mechanism) -> Fraction:
    """Σ_y max_x R(x)(y): no proposal law has a smaller largest ratio."""
    return sum(map(max, zip(*mechanism.table().probabilities, strict=True)), Fraction(0))


@pytest.mark.parametrize(
    "mechanism",
    [
        *sdp.FromTable.examples(),
        *sdp.FromDensity.examples(),
        *sdp.Exponential.examples(),
        *sdp.PlanarLaplace.examples(),
        *Parallel.examples()[:1],
        Parallel([sdp.FromTable([[0.9, 0.1], [0.2, 0.8]]), sdp.KRR(3.0, 5)], [0.3, 0.7]),
    ],
    ids=str,
)
def test_no_reference_law_has_a_smaller_ratio(mechanism: Any) -> None:
    """Tables and mixtures of them: the largest ratio is the sum of the column maxima, but for rounding."""
    least = column_maxima(mechanism)
    assert least <= Fraction(mechanism.proposal.ratio) <= least * (1 + Fraction(1, 10**15))


def test_tables_whose_maxima_add_up_to_more_than_a_word() -> None:
    """Forty inputs, hardly any output in common: weights are rounded up, ratios are those of the rounded ones."""
    rows = np.full((40, 40), 1e-9) + np.diag(np.linspace(0.3, 1.0, 40))
    table = sdp.FromTable(rows / rows.sum(axis=1, keepdims=True))
    reference = table.proposal
    assert reference is not None
    assert 39 < reference.ratio < 40
    assert reference.total_weight < 1 << 62
    weights, units = reference.weights.tolist(), table.unit_table.units.tolist()
    pairs = [pair for row in units for pair in zip(row, weights, strict=True)]
    ratios = [
        Fraction(entry * reference.total_weight, weight * table.unit_table.total_units) for entry, weight in pairs
    ]
    assert max(ratios) <= Fraction(reference.ratio) <= max(ratios) * (1 + Fraction(1, 10**15))
    assert reference.min_ratio == min(ratios)


def test_tables_of_fractions_finer_than_words() -> None:
    """Units of 3^-50: weights are rounded up, and every acceptance probability is right to a relative 2^-50."""
    rng = Random(5)
    ends = [sorted(rng.randrange(3**50) for _ in range(3)) for _ in range(4)]
    cells = [[b - a for a, b in itertools.pairwise([0, *row, 3**50])] for row in ends]
    rows = [[Fraction(cell, 3**50) for cell in row] for row in cells]
    reference = TableProposal(UnitTable.from_rows("Mine", rows))
    law = [Fraction(weight, reference.total_weight) for weight in reference.weights.tolist()]
    ratios = [[chance / other for chance, other in zip(row, law, strict=True)] for row in rows]
    assert max(map(max, ratios)) <= Fraction(reference.ratio) <= max(map(max, ratios)) * (1 + Fraction(1, 10**15))
    assert reference.min_ratio == min(map(min, ratios))
    for x, y in itertools.product(range(4), repeat=2):
        (found,) = reference.acceptance(np.array([x]), np.array([y]))
        wanted = ratios[x][y] / Fraction(reference.ratio)
        assert abs(Fraction(float(found)) - wanted) <= wanted / 2**50


def test_a_table_that_gives_a_value_away_too_often_is_refused() -> None:
    """What one input may send and another never does has no largest ratio the other way: it counts to δ."""
    with pytest.raises(ValueError, match=r"^Compressed: needs δ \+ C·β_G \+ rounding below 1/4"):
        Compressed(sdp.FromTable([[0.5, 0.5], [1.0, 0.0]]))
    seldom = Compressed(sdp.FromTable([[0.59, 0.4, 0.01], [0.4, 0.6, 0.0]]))
    assert 0.01 <= seldom.seed_guarantee.replacement_delta < 0.03


@pytest.mark.parametrize(("epsilon", "grid"), [(1.0, 1), (0.5, 2), (4.0, 1024), (1e-6, 65_536), (30.0, 700)])
def test_the_ratio_of_laplace(epsilon: float, grid: int) -> None:
    """(2 + (g−1)(1−λ))/(1+λ), near 1 + ε/2: also where there is hardly any noise, or hardly anything else."""
    mechanism = sdp.Laplace(epsilon, -1.0, 7.0, grid)
    reference = mechanism.proposal
    with ctx.workprec(300):
        for point in (0, grid // 2, grid):
            law = mechanism.law.noise.point_law(point)
            for message in (0, grid // 2, point, grid):
                ratio = law[message] * reference.total_weight / int(reference.weights[message])
                assert arb(to_rational(reference.min_ratio)) <= ratio <= arb(reference.ratio)
    rate = epsilon / grid
    wanted = (2 - (grid - 1) * math.expm1(-rate)) / (1 + math.exp(-rate))
    assert wanted * (1 - 1e-13) <= reference.ratio <= wanted * (1 + 1e-7)
    assert float(reference.min_ratio) == pytest.approx(wanted * math.exp(-epsilon), rel=1e-7)
    assert reference.total_weight < 1 << 62


@pytest.mark.parametrize("mechanism", [sdp.Laplace(40.0, grid=5000), sdp.Laplace(0.01, -5.0, 1.0, 77)], ids=str)
def test_laplace_is_accepted_as_its_law_in_balls_says(mechanism: sdp.Laplace) -> None:
    """At random numbers and messages, by the law of ``GridNoise`` at 300 bits: to a relative 2^-50."""
    rng, reference = np.random.default_rng(3), mechanism.proposal
    values = mechanism.check([*rng.uniform(mechanism.low, mechanism.high, 5).tolist(), mechanism.low, mechanism.high])
    messages = rng.integers(0, mechanism.grid + 1, len(values))
    messages[:2] = 0, mechanism.grid
    found = reference.acceptance(values, messages)
    units = rounding_and_digits.interval_to_units(values, mechanism.low, mechanism.high)
    with ctx.workprec(300):
        for unit, message, chance in zip(units.tolist(), messages.tolist(), found.tolist(), strict=True):
            weight = arb(int(reference.weights[message])) / reference.total_weight
            wanted = mechanism.law.noise.number_law(unit)[message] / weight / arb(reference.ratio)
            assert abs(arb(chance) / wanted - 1) <= arb(2) ** -50


def test_the_reference_law_of_runs_is_the_product() -> None:
    """Ratios to the power of the runs, and the error of acceptance as many times."""
    once = sdp.PrivUnitG(3.0, 5).proposal
    runs = Repeated(sdp.PrivUnitG(3.0, 5), 4).proposal
    assert runs is not None
    assert runs.word_count == 4 * once.word_count
    assert runs.ratio == pytest.approx(once.ratio**4, rel=1e-14)
    assert runs.min_ratio == once.min_ratio**4
    assert runs.acceptance_error == pytest.approx(4 * once.acceptance_error, rel=1e-14)
    assert runs.rounding > 4 * once.rounding
    assert Repeated(sdp.SQKR(1.0, 2), 2).proposal is None


def test_the_reference_law_of_queries_prefers_those_that_are_hard_to_find() -> None:
    """Its ratio is the mean of the queries', not their largest; ratios among values stay what they are."""
    parts = [sdp.KRR(4.0, 50), sdp.RAPPOR(1.0, 6), sdp.Laplace(1.0)]
    mixed = Parallel(parts, [1, 2, 1])
    reference = mixed.proposal
    assert reference is not None
    ratios = [part.proposal.ratio for part in parts]
    assert reference.ratio == pytest.approx((ratios[0] + 2 * ratios[1] + ratios[2]) / 4, rel=1e-14)
    assert reference.ratio < max(ratios) / 2
    assert float(reference.ratio / reference.min_ratio) == pytest.approx(math.exp(4.0), rel=1e-12)
    assert Compressed(mixed).epsilon == pytest.approx(4.0, rel=1e-12)
    assert Parallel([sdp.KRR(1.0, 3), sdp.Piecewise(1.0)]).proposal is None


# --- the law of seeds -------------------------------------------------------------------------------------------------


def compressed_with_few_seeds(randomizer: Mechanism) -> tuple[Compressed, list[Law]]:
    """With a generator of 256 seeds whose advantage is measured, and the exact laws of three values."""
    table = pure_table(randomizer)
    inputs = table.inputs[[0, 1, -1]]
    found = [(measured_advantage(randomizer, ToyGenerator(kind), table, inputs), kind) for kind in ("even", "random")]
    advantage, kind = min(found)
    compressed = Compressed(randomizer, 1e-6, ToyGenerator(kind, advantage))
    return compressed, [seed_law(compressed, value) for value in inputs]


def grouped(*laws: Law) -> tuple[Law, ...]:
    """The same laws with seeds put together that all of them have in proportion."""
    merged: Counter[tuple[Fraction, ...]] = Counter(zip(*laws, strict=True))
    columns, counts = zip(*merged, strict=True), merged.values()
    return tuple([chance * count for chance, count in zip(column, counts, strict=True)] for column in columns)


def assert_covered(law: Any, first: Law, second: Law, hiding: Law) -> None:
    """What the blanket claims is at least the divergence of these laws, for one, two and three users."""
    (pair,) = law.blankets()
    for users, ratio in itertools.product((1, 2, 3), (Fraction(11, 10), Fraction(3, 2), Fraction(2))):
        real = divergence(first, second, hiding, users, ratio)
        claimed = PositivePartMean(pair.law, users).bracket(math.log(float(ratio))).upper_float()
        assert claimed >= float(real) - 1e-12


@pytest.mark.parametrize(
    "randomizer",
    [sdp.KRR(1.0, 3), sdp.OUE(0.5, 3), sdp.FromTable([[0.6, 0.4], [0.45, 0.55], [0.5, 0.5]]), sdp.Laplace(0.4, grid=2),
     sdp.Duchi(1.0, 3), Parallel([sdp.KRR(0.5, 2), sdp.KRR(1.0, 3)]), ToyCircle(0.8), Repeated(ToyCircle(0.3), 2)],
    ids=str,
)  # fmt: skip
def test_the_blanket_of_seeds_covers_every_pair(randomizer: Mechanism) -> None:
    """The exact laws of all seeds against what all values have in common."""
    compressed, laws = compressed_with_few_seeds(randomizer)
    common = [min(column) for column in zip(*laws, strict=True)]
    for first, second in itertools.permutations(laws, 2):
        assert_covered(compressed.law, *grouped(first, second, common))


def test_regions_that_must_overlap() -> None:
    """Where most messages are a little likelier and few far rarer, two regions cannot be disjoint."""
    table = [[0.04, 0.48, 0.48], [0.32, 0.34, 0.34]]
    compressed = Compressed(sdp.FromTable(table), prg=ToyGenerator("even"))
    assert isinstance(compressed.law, SeedLaw)
    levels = compressed.law.two_level_law
    assert levels.response.share > Fraction(1, 2)
    assert levels.exclusive_share == 1 - levels.response.share
    laws = [seed_law(compressed, value) for value in (0, 1)]
    common = [min(column) for column in zip(*laws, strict=True)]
    assert_covered(levels, *grouped(*laws, common))
    assert_covered(levels, *grouped(*laws[::-1], common))


@pytest.mark.exhaustive("2")
@pytest.mark.parametrize("runs", [1, 2])
def test_runs_of_seeds_by_brute_force(runs: int) -> None:
    """All pairs of 256 seeds: local guarantee, parameters and blanket of the product, in fractions."""
    compressed, singles = compressed_with_few_seeds(ToyCircle(0.7))
    mechanism = Repeated(compressed, runs)
    common = [min(column) for column in zip(*singles, strict=True)]
    parameters = mechanism.variation_ratio()
    for pair in itertools.permutations(singles, 2):
        once = grouped(*pair, common)
        first, second, hiding = ([math.prod(pick) for pick in itertools.product(law, repeat=runs)] for law in once)
        assert sum(first) == sum(second) == 1
        assert at_most_e_to(largest_ratio(first, second), mechanism.epsilon)
        assert largest_ratio(first, second) <= Fraction(parameters.p)
        assert total_variation(first, second) <= Fraction(parameters.beta)
        assert_covered(mechanism.law, *grouped(first, second, hiding))
    assert largest_ratio(*singles[:2]) ** runs >= Fraction(parameters.p) * Fraction(4, 5), "not far from tight"


def test_seeds_of_runs_are_drawn_by_their_exact_law() -> None:
    """Both runs of Repeated(Compressed) follow the law of one, independently: chi-square, false alarm 1e-7."""
    from tests.mechanisms.test_compressed import assert_fits

    compressed, (law, *_) = compressed_with_few_seeds(ToyCircle(1.0))
    users = 60_000
    seeds = Repeated(compressed, 2).encode([[1.0, 0.0]] * users, rng=np.random.default_rng(12))
    kinds, places = np.unique([float(p) for p in law], return_inverse=True)
    weights = np.bincount(places, weights=[float(p) for p in law])
    seen = np.zeros((len(kinds), len(kinds)))
    np.add.at(seen, (places[seeds[:, 0, 0]], places[seeds[:, 1, 0]]), 1)
    assert_fits(seen.reshape(-1), users * np.outer(weights, weights).reshape(-1))
    assert len(law) == SEEDS


# --- what it costs and what it gives ----------------------------------------------------------------------------------


def test_eight_in_two_runs() -> None:
    """PrivUnitG at ε = 8, d = 1024: error 0.2177·d with 256 bits, and a twelfth of the seeds that one run tries."""
    once, twice = sdp.PrivUnitG(8.0, 1024), Repeated(Compressed(sdp.PrivUnitG(4.0, 1024)), 2)
    vector = np.full((1, 1024), 1 / 32)
    assert twice.variance(vector).sum() / 1024 == pytest.approx(0.2177, abs=5e-5)
    assert 8 * (1 - 1e-6) <= twice.epsilon <= 8 + 1e-12
    assert twice.message_bits == 256
    assert Compressed(once).expected_random_words >= 12 * twice.expected_random_words
    # One seed for both runs is half as long, and as hard to find as one for ε = 8 at that noise.
    alone = Compressed(Repeated(sdp.PrivUnitG(4.0, 1024), 2))
    assert alone.message_bits == 128
    assert alone.inner_proposal.ratio == pytest.approx((twice.expected_random_words / 2 / 1536) ** 2, rel=1e-12)


@pytest.mark.parametrize(
    "mechanism",
    [Repeated(Compressed(sdp.PrivUnitG(3.0, 8)), 3), Compressed(Repeated(sdp.PrivUnitG(2.0, 8), 2), prg="shake128")],
    ids=["runs of seeds", "a seed of runs"],
)
def test_the_mean_is_estimated_from_seeds_of_runs(mechanism: Any) -> None:
    """Within six standard errors in every coordinate (false alarm below 1e-7), shorter vectors included."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=(3000, 8)) + 2
    values *= (rng.random(3000) / np.linalg.norm(values, axis=1))[:, None]
    messages = mechanism.unpack(mechanism.pack(mechanism.encode(values, rng=rng)))
    estimate = mechanism.estimate(messages)
    assert estimate.users == 3000
    assert (np.abs(estimate.value - mechanism.truth(values)) < 6 * np.sqrt(mechanism.variance(values))).all()
    assert np.sqrt(mechanism.variance(values)).max() < 0.1


def test_queries_are_estimated_from_seeds() -> None:
    """A seed stands for the number of a query and its message; each estimate is within six standard errors."""
    mechanism = Compressed(Parallel([sdp.KRR(2.0, 4), sdp.Laplace(2.0, 10.0, 20.0), sdp.Duchi(2.0, 3)], [2, 1, 1]))
    rng, users = np.random.default_rng(5), 6000
    numbers: list[Array] = [rng.integers(0, 4, users) ** 2 // 4, rng.uniform(10, 20, users)]
    columns = [*numbers, rng.uniform(-1, 0, (users, 3))]
    values = mechanism.check(columns)
    estimate = mechanism.estimate(mechanism.encode(values, rng=rng))
    assert mechanism.message_bits == 128
    assert (np.abs(estimate.value - mechanism.truth(values)) < 6 * np.sqrt(mechanism.variance(values))).all()
    assert mechanism.seed_guarantee.replacement_epsilon == pytest.approx(2.0, rel=1e-12)


def test_runs_carry_the_assumption() -> None:
    """As much is left without it as for all seeds together; a curve says so, and no certificate hides it."""
    from shuffledp.certificates.claim import build_claim

    once = Compressed(sdp.PrivHS(1.0, 40))
    mechanism = Repeated(once, 3)
    fallback = once.guarantee.unconditional_guarantee
    assert fallback is not None
    assert mechanism.assumption.endswith(f"by more than e^{math.ceil(3000 * fallback.replacement_epsilon) / 1000:g}.")
    assert mechanism.assumption.partition(" Whatever")[0] == once.assumption.partition(" Whatever")[0]
    assert sdp.amplify(mechanism, 1000, effort="quick").note == mechanism.assumption
    assert Repeated(sdp.PrivHS(1.0, 40), 3).assumption == ""
    with pytest.raises(ValueError, match=r"^certificate: expected a randomizer that can be written down, got Repeated"):
        build_claim(mechanism, 1000, sdp.amplify(mechanism, 1000, effort="quick").epsilon(1e-6), delta=1e-6)


def test_runs_of_seeds_hide_as_well_as_runs_of_messages() -> None:
    """The central ε is that of uncompressed runs but for rounding."""
    for runs, once in ((2, sdp.PrivUnitG(2.0, 64)), (4, sdp.PrivHS(1.0, 64))):
        seeds, plain = (
            sdp.amplify(mechanism, 20_000, effort="quick").epsilon(1e-6).upper
            for mechanism in (Repeated(Compressed(once), runs), Repeated(once, runs))
        )
        assert plain <= seeds * (1 + 1e-12)
        assert seeds <= plain * (1 + 1e-5)


def test_what_would_take_for_ever_is_refused() -> None:
    """The runs' ratios multiply; a sentence says what they come to, also where they are no number any more."""
    many = Repeated(sdp.PrivUnitG(8.0, 1024), 4)
    with pytest.raises(ValueError, match=r"small enough to try seeds, got 7\.67e\+09; lower the"):
        Compressed(many)
    with pytest.raises(ValueError, match=r"^Compressed: the density ratio .* got inf; lower the local epsilon\.$"):
        Compressed(Repeated(sdp.PrivUnitG(8.0, 4), 2000))


def test_what_cannot_be_run_several_times_is_refused() -> None:
    """Seeds for counts, seeds that are private only up to δ, and runs of runs."""
    spiked = Compressed(Spiked(), prg=ToyGenerator("even"))
    for bad in (Compressed(sdp.KRR(1.0, 4)), spiked, Repeated(sdp.PrivHS(1.0, 3), 2)):
        with pytest.raises(TypeError, match=r"^Repeated: mechanism must be one for vectors in the unit ball, got "):
            Repeated(bad, 2)
    with pytest.raises(TypeError, match=r"^Compressed: expected a randomizer with a proposal law"):
        Compressed(Repeated(Compressed(sdp.PrivHS(1.0, 3)), 2))


# --- by name ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        Repeated(Compressed(sdp.PrivUnitG(1.37, 64), 1e-7, "chacha20"), 3),
        Compressed(Repeated(sdp.PrivHS(0.7, 9), 4), prg="shake128"),
        Repeated(sdp.SQKR(1.1, 12), 2),
        Compressed(sdp.Duchi(2.0, 300)),
        Compressed(sdp.PlanarLaplace(1.0, columns=3)),
        Compressed(sdp.Laplace(1.0, 0.0, 5.0, 30)),
    ],
    ids=lambda one: one.name,
)
def test_documents_lead_back_to_the_same_mechanism(mechanism: Mechanism) -> None:
    """Also as texts, as the command line has them."""
    document = mechanism.to_document()
    assert catalogue.from_document(document) == mechanism
    texts = {key: str(value) for key, value in document["settings"].items()}
    assert catalogue.build(mechanism.name, document["epsilon"], texts) == mechanism


def test_names() -> None:
    """Prefixes from the outside; ε is that of one run; what is missing or impossible is a sentence."""
    made = catalogue.build("repeated-compressed-privunit-g", 4.0, {"dimension": "32", "runs": "2", "prg": "shake128"})
    assert made == Repeated(Compressed(sdp.PrivUnitG(4.0, 32), prg="shake128"), 2)
    assert made.name == "repeated-compressed-privunit-g"
    assert made.settings() == {"epsilon": 4.0, "dimension": 32, "gamma": 1e-9, "prg": "shake128", "runs": 2}
    assert [layer.name for layer in catalogue.iterate_layers(made)] == [
        made.name,
        "compressed-privunit-g",
        "privunit-g",
    ]
    assert catalogue.find_buildable_class(made.name) is sdp.PrivUnitG
    with pytest.raises(ValueError, match=r"^repeated-privhs: setting runs is missing; add runs=…\.$"):
        catalogue.build("repeated-privhs", 1.0, {"dimension": "4"})
    with pytest.raises(TypeError, match=r"^Repeated: mechanism must be one for vectors in the unit ball, got KRR"):
        catalogue.build("repeated-krr", 1.0, {"options": "4", "runs": "2"})
    with pytest.raises(ValueError, match=r"^mechanism must be one of .*, got 'repeated'\.$"):
        catalogue.build("repeated", 1.0, {})


@pytest.mark.exhaustive
def test_random_tables_keep_their_promises() -> None:
    """Forty tables of a few inputs and outputs: the exact law of 256 seeds is within the levels and the guarantees."""
    rng = Random(11)
    for _ in range(40):
        inputs, outputs = rng.randint(2, 4), rng.randint(2, 6)
        rows = np.array([[rng.choice([1, 2, 3, rng.random() + 0.2]) for _ in range(outputs)] for _ in range(inputs)])
        compressed, laws = compressed_with_few_seeds(sdp.FromTable(rows / rows.sum(axis=1, keepdims=True)))
        low, high = compressed.guarantee.density_levels
        for law in laws:
            assert low <= min(law) * SEEDS <= max(law) * SEEDS <= high
            for other in laws:
                assert at_most_e_to(largest_ratio(law, other), compressed.epsilon)
