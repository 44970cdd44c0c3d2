"""Compressed randomizers: the law of the seeds exactly with toy generators, statistically with the real ones.

Each chi-square test raises a false alarm with probability 1e-7; seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

import shuffledp as sdp
from shuffledp.mechanisms.base.seed_compression import ApproximateProposal
from shuffledp.mechanisms.catalogue import all_mechanisms, build
from shuffledp.mechanisms.combined.compressed import Compressed
from tests.mechanisms.toy_mechanisms import (
    SEEDS,
    Spiked,
    ToyGenerator,
    acceptance,
    larger_divergence,
    largest_ratio,
    measured_advantage,
    seed_law,
    total_variation,
)
from tests.mechanisms.with_proposal import EXTRA_EXAMPLES, WITH_PROPOSAL, examples, pure_table

FALSE_ALARM = 1e-7


every_example = pytest.mark.parametrize("randomizer", [pytest.param(one, id=name) for name, one in examples()])
one_of_each = pytest.mark.parametrize(
    "randomizer",
    [*(all_mechanisms()[name].examples()[-1] for name in WITH_PROPOSAL), *EXTRA_EXAMPLES.values()],
    ids=[*WITH_PROPOSAL, *EXTRA_EXAMPLES],
)


def assert_fits(observed: Any, expected: Any) -> None:
    """Chi-square of counts against expected counts, rare classes together."""
    from scipy.stats import chi2

    keep = expected >= 5
    seen, wanted = np.append(observed[keep], observed[~keep].sum()), np.append(expected[keep], expected[~keep].sum())
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    assert ((seen - wanted) ** 2 / wanted).sum() <= chi2.isf(FALSE_ALARM, max(1, len(wanted) - 1))


def at_most_e_to(ratio: Fraction, epsilon: float) -> bool:
    with ctx.workprec(256):
        return bool(arb(ratio.numerator) / ratio.denominator <= arb(epsilon).exp())


@every_example
@pytest.mark.parametrize("gamma", [0.3, 1e-9])
def test_with_uniform_bits_the_law_is_within_gamma(randomizer: Any, gamma: float) -> None:
    """[LC] Lemma A.2, exactly: a fraction f ≤ γ of the messages has the proposal law, the rest the right one."""
    compressed = Compressed(randomizer, gamma)
    table, ratio = pure_table(randomizer), Fraction(randomizer.proposal.ratio)
    for value, row in list(zip(table.inputs, table.probabilities, strict=True))[:3]:
        chances = [Fraction(float(c)) for c in acceptance(randomizer, value, table.messages)]
        reference = [p / (ratio * chance) for p, chance in zip(row, chances, strict=True)]
        accepting = sum(map(Fraction.__mul__, reference, chances))
        exhausted = (1 - accepting) ** compressed.tries
        law = [(1 - exhausted) * r * a / accepting + exhausted * r for r, a in zip(reference, chances, strict=True)]
        assert float(exhausted) <= gamma
        assert total_variation(list(row), law) <= Fraction(compressed.total_variation)


@pytest.mark.exhaustive("oue-2")
@every_example
def test_the_seeds_keep_the_promises_exactly(randomizer: Any) -> None:
    """Every seed of a toy generator whose advantage is measured: both guarantees, total variation and the fallback."""
    table = pure_table(randomizer)
    inputs = table.inputs[[0, 1, -1]]
    for kind in ("even", "random"):
        advantage = measured_advantage(randomizer, ToyGenerator(kind), table, inputs)
        if randomizer.proposal.ratio * advantage >= 0.25:
            # 256 seeds are too few for such a ratio: no lemma applies, and nothing is promised.
            with pytest.raises(ValueError, match="below 1/4"):
                Compressed(randomizer, 1e-6, ToyGenerator(kind, advantage))
            continue
        for gamma in (0.5, 1e-6):
            compressed = Compressed(randomizer, gamma, ToyGenerator(kind, advantage))
            laws = [seed_law(compressed, value) for value in inputs]
            parameters, (low, high) = compressed.variation_ratio(), compressed.guarantee.density_levels
            for law in laws:
                assert sum(law) == 1
                assert low <= min(law) * SEEDS
                assert max(law) * SEEDS <= high
                assert at_most_e_to(max(law) * SEEDS, compressed.seed_guarantee.deletion_epsilon)
                assert at_most_e_to(1 / (min(law) * SEEDS), compressed.seed_guarantee.deletion_epsilon)
                for other in laws:
                    largest = largest_ratio(law, other)
                    assert at_most_e_to(largest, compressed.seed_guarantee.replacement_epsilon)
                    assert largest <= Fraction(parameters.p)
                    assert total_variation(law, other) <= Fraction(parameters.beta)
            assert compressed.epsilon == compressed.seed_guarantee.replacement_epsilon


@every_example
@pytest.mark.parametrize("kind", ["even", "random", "bad"])
def test_no_generator_can_break_the_fallback(randomizer: Any, kind: str) -> None:
    """[LC] Lemma 3.5: the guarantee for an arbitrary function holds for bad ones too."""
    compressed = Compressed(randomizer, 0.01, ToyGenerator(kind))
    fallback = compressed.guarantee.unconditional_guarantee
    assert fallback is not None
    laws = [seed_law(compressed, value) for value in pure_table(randomizer).inputs[[0, 1, -1]]]
    for law in laws:
        assert at_most_e_to(max(law) * SEEDS, fallback.deletion_epsilon)
        assert at_most_e_to(1 / (min(law) * SEEDS), fallback.deletion_epsilon)
        for other in laws:
            assert at_most_e_to(largest_ratio(law, other), fallback.replacement_epsilon)


@pytest.mark.parametrize("gamma", [0.9, 0.5, 1e-6])
def test_encode_follows_the_exact_law_of_the_seeds(gamma: float) -> None:
    """Also where the budget is one try and most users run out of it."""
    randomizer = sdp.KRR(2.0, 5)
    compressed = Compressed(randomizer, gamma, ToyGenerator("random"))
    assert gamma != 0.9 or compressed.tries == 1
    for value in (0, 3):
        seeds = compressed.encode(np.full(40_000, value), rng=np.random.default_rng(17))
        law = np.array([float(p) for p in seed_law(compressed, value)])
        assert_fits(np.bincount(seeds[:, 0], minlength=SEEDS), 40_000 * law)


@one_of_each
def test_expanded_messages_follow_the_uncompressed_law(randomizer: Any) -> None:
    """With the real generators: what the server expands fits the randomizer's table, for the last input."""
    table = randomizer.table()
    columns = {bytes(row): number for number, row in enumerate(randomizer.pack(table.messages))}
    prg = {"krr": "aes-ctr", "rappor": "chacha20"}.get(randomizer.name, "shake128")
    compressed = Compressed(randomizer, prg=prg)
    values = np.repeat(table.inputs[-1:], 4000, axis=0)
    messages = compressed.expand(compressed.encode(values, rng=np.random.default_rng(23)))
    seen = np.zeros(len(columns))
    kinds, counts = np.unique(randomizer.pack(messages), axis=0, return_counts=True)
    for kind, count in zip(kinds, counts, strict=True):
        seen[columns[bytes(kind)]] = count
    assert_fits(seen, 4000 * np.array([float(p) for p in table.probabilities[-1]]))


def test_an_exhausted_budget_sends_a_valid_message_of_the_reference_law() -> None:
    """One try in twenty is accepted and only one is made: the exact mixture, with a real generator."""
    randomizer = sdp.KRR(4.0, 30)
    compressed = Compressed(randomizer, gamma=0.96, prg="shake128")
    assert compressed.tries == 1
    messages = compressed.expand(compressed.encode(np.full(30_000, 7), rng=np.random.default_rng(2)))
    accepted = 1 / randomizer.proposal.ratio
    own, other = (float(p) for p in (randomizer.estimator.true_support, randomizer.estimator.false_support))
    law = np.full(30, accepted * other + (1 - accepted) / 30)
    law[7] += accepted * (own - other)
    assert_fits(np.bincount(messages, minlength=30), 30_000 * law)


def test_estimates_are_those_of_the_randomizer() -> None:
    """Batches add up in any order; the histogram is near the truth (six standard errors, false alarm below 1e-6)."""
    randomizer = sdp.RAPPOR(2.0, 100)
    compressed = Compressed(randomizer)
    values = np.random.default_rng(4).integers(0, 100, 5000) ** 2 // 100
    seeds = compressed.encode(values, rng=np.random.default_rng(5))
    assert compressed.pack(seeds).shape == (5000, compressed.message_bytes) == (5000, 16)
    assert len({bytes(seed) for seed in seeds}) == 5000
    np.testing.assert_array_equal(compressed.unpack(compressed.pack(seeds)), seeds)
    whole = compressed.estimate(seeds)
    np.testing.assert_array_equal(whole.value, randomizer.estimate(compressed.expand(seeds)).value)
    parts = compressed.accumulate(seeds[3000:]) + compressed.accumulate(seeds[:3000])
    np.testing.assert_array_equal(compressed.finish(parts, 5000).value, whole.value)
    assert (np.abs(whole.value - compressed.truth(values)) < 6 * whole.standard_error).all()
    np.testing.assert_array_equal(compressed.variance(values), randomizer.variance(values))
    assert (compressed.encode(values[:5]) != compressed.encode(values[:5])).any()


def test_the_stated_guarantee_is_the_lemmas_with_the_stated_advantage() -> None:
    """ε_r + 4C·β_G and ε + 2C·β_G, and 2^-47 or so for the rounding of what is executed."""
    randomizer = sdp.RAPPOR(2.0, 1024)
    compressed = Compressed(randomizer, gamma=1e-6)
    reference, rounding = randomizer.proposal, 2.0**-46
    assert reference is not None
    ratio = reference.ratio
    assert reference.deletion_epsilon == pytest.approx(1.0, rel=1e-15)
    for stated, base, factor in (
        (compressed.seed_guarantee.deletion_epsilon, 1.0, 2),
        (compressed.seed_guarantee.replacement_epsilon, 2.0, 4),
    ):
        assert base <= stated <= base + factor * ratio * 2.0**-64 + rounding
    assert compressed.tries == math.ceil(ratio * math.log(1e6))
    assert 1e-6 <= compressed.total_variation <= 1e-6 + compressed.tries * 2.0**-64 + 1e-14
    assert compressed.assumption.startswith("Assumes that AES-128 in counter mode under a random key is a pseudorandom")
    assert "Whatever the generator is" in compressed.assumption


def test_seeds_are_amplified_like_messages() -> None:
    """amplify takes it as a mechanism; rounding and β_G cost nothing visible, the common part's ratio a little."""
    for randomizer in (sdp.RAPPOR(2.0, 1024), sdp.PIRAPPOR(3.0, 1024), sdp.Subset(2.0, 50)):
        compressed = Compressed(randomizer)
        value = sdp.amplify(compressed, 100_000, effort="quick").epsilon(1e-8)
        base = sdp.amplify(randomizer, 100_000, bound="variation-ratio").epsilon(1e-8)
        best = sdp.amplify(randomizer, 100_000, effort="quick").epsilon(1e-8)
        assert best.upper <= value.upper <= base.upper * (1 + 1e-6)
        assert value.guarantee
        assert value.certified
        assert sdp.amplify(compressed, 100_000, effort="quick").note == compressed.assumption
        assert sdp.amplify(randomizer, 100_000, effort="quick").note == ""


@pytest.mark.parametrize("randomizer", [sdp.KRR(3.0, 16), sdp.PrivHS(2.0, 5), sdp.Duchi(1.0, 9)], ids=str)
def test_seeds_of_two_level_mechanisms_hide_as_well_as_their_messages(randomizer: Any) -> None:
    """Where two regions share nothing, the blanket of the seeds is that of the messages but for rounding."""
    seeds, messages = (
        sdp.amplify(mechanism, 10_000, bound="optimal").epsilon(1e-8).upper
        for mechanism in (Compressed(randomizer), randomizer)
    )
    assert messages <= seeds <= messages * (1 + 1e-6)


def test_a_central_target_is_met_by_calibration() -> None:
    """calibrate takes a function of the local ε, and finds what it finds for the randomizer itself."""
    target: dict[str, Any] = {"users": 100_000, "epsilon": 0.1, "delta": 1e-8}
    plain = sdp.calibrate(sdp.RAPPOR, options=100, bound="variation-ratio", **target)
    found = sdp.calibrate(lambda epsilon: Compressed(sdp.RAPPOR(epsilon, 100)), **target, effort="quick")
    assert isinstance(found.mechanism, Compressed)
    assert found.epsilon.upper <= 0.1
    assert found.value == pytest.approx(plain.value, rel=2e-3)


def test_a_capped_acceptance_keeps_the_promises_exactly() -> None:
    """[LC] Algorithm 4 and Lemmas A.8, A.9, A.10, for a randomizer that is private only up to δ."""
    randomizer = Spiked()
    reference = randomizer.proposal
    assert isinstance(reference, ApproximateProposal)
    assert 0.1 < reference.deletion_delta < 0.25
    assert reference.acceptance(np.array([0]), np.array([0]))[0] > 1
    for gamma in (0.5, 1e-6):
        compressed = Compressed(randomizer, gamma, ToyGenerator("even"))
        uncapped = reference.ratio * math.log(1 / gamma)
        assert compressed.tries == math.ceil(uncapped / (1 - reference.deletion_delta))
        laws = [seed_law(compressed, value) for value in range(3)]
        promise, uniform = compressed.seed_guarantee, [Fraction(1, SEEDS)] * SEEDS
        for law, row in zip(laws, randomizer.rows, strict=True):
            assert larger_divergence(law, uniform, promise.deletion_epsilon) <= Fraction(promise.deletion_delta)
            expanded = [sum(law[16 * y : 16 * y + 16]) for y in range(16)]
            assert total_variation(row, expanded) <= Fraction(compressed.total_variation)
            for other in laws:
                assert larger_divergence(law, other, promise.replacement_epsilon) <= Fraction(promise.replacement_delta)
        seeds = compressed.encode(np.ones(20_000, dtype=np.int64), rng=np.random.default_rng(3))
        assert_fits(np.bincount(seeds[:, 0], minlength=SEEDS), 20_000 * np.array([float(p) for p in laws[1]]))
        with pytest.raises(ValueError, match=r"^Compressed: the randomizer is private only up to δ"):
            compressed.variation_ratio()


def test_seeds_that_are_private_up_to_delta_are_amplified() -> None:
    """Gaussian noise by a seed: its local (ε, δ) holds exactly for the expanded table, and δ counts about twice."""
    gaussian = sdp.Gaussian(4.0)
    compressed = Compressed(gaussian)
    reference, promise = compressed.inner_proposal, compressed.seed_guarantee
    assert isinstance(reference, ApproximateProposal)
    assert compressed.local_epsilon is None
    rows = [list(row) for row in gaussian.law.table.fractions()]
    for row, other in itertools.permutations(rows, 2):
        assert larger_divergence(row, other, reference.replacement_epsilon) <= Fraction(reference.replacement_delta)
    value = sdp.amplify(compressed, 100_000, effort="quick").epsilon(1e-6)
    pure = sdp.amplify(sdp.VariationRatio.from_ldp(promise.replacement_epsilon), 100_000, bound="all-crowds")
    assert value.bound == "all-crowds"
    assert value.upper == pytest.approx(pure.epsilon(1e-6).upper, rel=1e-3)
    values = np.random.default_rng(4).random(20_000)
    found = compressed.estimate(compressed.encode(values, rng=np.random.default_rng(5)))
    assert abs(float(found.value[0]) - values.mean()) < 5 * math.sqrt(float(found.variance[0]))
    with pytest.raises(ValueError, match="no bound applies to Compressed"):
        sdp.amplify(Compressed(Spiked(), prg=ToyGenerator("even")), 1000, effort="quick")


def test_what_it_is_made_of_is_data() -> None:
    """The same settings give equal parts, which survive being sent elsewhere, generator included."""
    for prg in ("aes-ctr", "chacha20", "shake128"):
        made, again, other = (Compressed(sdp.KRR(epsilon, 4), prg=prg) for epsilon in (2.0, 2.0, 1.0))
        for name in ("domain", "encoding", "estimator", "expansion", "guarantee"):
            part = getattr(made, name)
            assert part == getattr(again, name)
            assert pickle.loads(pickle.dumps(part)) == part
        assert made.estimator != other.estimator
        assert (
            made.estimator != Compressed(sdp.KRR(2.0, 4), prg="shake128" if prg == "aes-ctr" else "aes-ctr").estimator
        )
        sent = pickle.loads(pickle.dumps(made.estimator))
        seeds = made.encode(np.arange(4).repeat(50), rng=np.random.default_rng(6))
        np.testing.assert_array_equal(sent.accumulate(seeds), made.accumulate(seeds))
    assert not made.law.tight
    assert made.law.covers_mixtures
    assert not Compressed(Spiked(), prg=ToyGenerator("even")).law.covers_mixtures


def test_seeds_are_expanded_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statistic is the same however many words are expanded at once, and no more rows than that are."""
    compressed = Compressed(sdp.RAPPOR(2.0, 40))
    seeds = compressed.encode(np.arange(40), rng=np.random.default_rng(8))
    whole = compressed.accumulate(seeds)
    monkeypatch.setattr(
        "shuffledp.mechanisms.base.seed_compression.MAX_BLOCK_WORDS", 3 * compressed.inner_proposal.word_count
    )
    assert [len(part) for _, part in compressed.expansion.expand_blocks(seeds)] == [3] * 13 + [1]
    np.testing.assert_array_equal(compressed.accumulate(seeds), whole)


def test_bad_arguments_are_refused() -> None:
    """Each with one sentence."""
    with pytest.raises(TypeError, match=r"^Compressed: expected a randomizer with a proposal law, got "):
        Compressed(sdp.Piecewise(1.0))
    with pytest.raises(TypeError, match=r"^Compressed: expected a randomizer with a proposal law, got "):
        Compressed(sdp.KRR)
    with pytest.raises(ValueError, match=r"^Compressed: gamma must be between 0 and 1, both excluded, got 0\.0\.$"):
        Compressed(sdp.KRR(1.0, 4), gamma=0)
    with pytest.raises(ValueError, match=r"^Compressed: prg must be one of aes-ctr, chacha20, shake128, or a"):
        Compressed(sdp.KRR(1.0, 4), prg="rot13")
    with pytest.raises(ValueError, match=r"^Compressed: the density ratio to the proposal law must be small enough"):
        Compressed(sdp.RAPPOR(60.0, 4))
    with pytest.raises(ValueError, match=r"^Compressed: needs δ \+ C·β_G \+ rounding below 1/4, got "):
        Compressed(sdp.KRR(1.0, 4), prg=ToyGenerator("bad", 0.2))
    compressed = Compressed(sdp.KRR(1.0, 4))
    with pytest.raises(ValueError, match=r"^Compressed: expected rows of 16 bytes, got uint8 of shape \(1, 3\)\.$"):
        compressed.unpack(np.zeros((1, 3), dtype=np.uint8))
    with pytest.raises(ValueError, match=r"^Compressed KRR: values must be from 0 to 3, got 4\.$"):
        compressed.encode([4])
    with pytest.raises(ValueError, match=r"^Compressed: expected at least one message"):
        compressed.estimate(np.zeros((0, 16), dtype=np.uint8))
    with pytest.raises(ValueError, match=r"^Compressed: 2\^128 seeds cannot be written down as a table\.$"):
        compressed.table()


def test_it_is_built_by_name_around_an_entry_of_the_catalogue() -> None:
    """compressed- before the name; settings are the randomizer's or its own, and lead back to the same object."""
    built = build("compressed-rappor", 2.0, {"options": "40", "gamma": "1e-6", "prg": "chacha20"})
    assert built == Compressed(sdp.RAPPOR(2.0, 40), 1e-6, "chacha20")
    assert built.name == "compressed-rappor"
    assert built.settings() == {"epsilon": 2.0, "options": 40, "gamma": 1e-6, "prg": "chacha20"}
    texts = {key: str(value) for key, value in built.settings().items() if key != "epsilon"}
    assert build(built.name, 2.0, texts) == built
    with pytest.raises(ValueError, match=r"^rappor: expected settings among options, got 'prime'\.$"):
        build("compressed-rappor", 2.0, {"options": "40", "prime": "7"})
    with pytest.raises(ValueError, match=r"^mechanism must be one of .*, got 'nothing'\.$"):
        build("compressed-nothing", 2.0, {})
    with pytest.raises(TypeError, match=r"^Compressed: expected a randomizer with a proposal law"):
        build("compressed-piecewise", 2.0, {})
    assert not any(name.startswith("compressed") for name in all_mechanisms())
    assert all(isinstance(example, Compressed) for example in Compressed.examples())


def test_no_certificate_hides_the_assumption() -> None:
    """A certificate claims what is proved; what rests on a generator is refused with a sentence."""
    from shuffledp.certificates.claim import build_claim

    compressed = Compressed(sdp.RAPPOR(1.0, 10))
    value = sdp.amplify(compressed, 1000, effort="quick").epsilon(1e-6)
    with pytest.raises(
        ValueError, match=r"^certificate: expected a randomizer that can be written down, got Compressed"
    ):
        build_claim(compressed, 1000, value, delta=1e-6)
