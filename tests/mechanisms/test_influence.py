"""What one liar can move: the stated influence is what an exhaustive search over all messages of a wire finds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.validation import Array, Floats
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.mechanisms.dummies.balcer_histograms import CounterEstimator
from shuffledp.mechanisms.vector._unit_ball_parts import LatticeEncoding, LatticeEstimator
from shuffledp.mechanisms.vector.gaussian import NoisyVectorEstimator

COUNTS, COORDINATES = (0.0, 1.0), (-1.0, 1.0)
FURTHER: list[Mechanism] = [
    sdp.KRR(4.0, 300),
    sdp.RAPPOR(0.1, 9),
    sdp.OUE(5.0, 10),
    sdp.HadamardResponse(4.0, 40, blocks=8),
    sdp.HadamardResponse(0.2, 130),
    sdp.LocalHash(3.0, 20, length=11),
    sdp.Subset(0.3, 8, size=3),
    sdp.PIRAPPOR(2.0, 9),
    sdp.ProjectiveGeometry(1.5, 40),
    sdp.PrivSet(2.0, 7, items=2),
    sdp.Wheel(1.0, 6, items=2, circle=7),
    sdp.SamplingRAPPOR(0.1, 150, items=3),
    sdp.Collision(3.0, 3, items=1, length=7),
    sdp.PCKV(4.0, keys=70, padding=5),
    sdp.PrivKV(0.3, keys=90, share=0.8, items=4),
    sdp.PrivKV(3.0, keys=5, share=0.1),
    sdp.Laplace(0.3, low=18.0, high=98.0, grid=80),
    sdp.Laplace(12.0, low=-2.0, high=-1.0),
    sdp.Piecewise(0.2),
    sdp.WitchHat(0.5, half_width=4.0, scale=3.0, grid=30),
    sdp.Duchi(0.3, dimension=9),
    sdp.Harmony(0.3, dimension=200),
    sdp.SQKR(1.0, dimension=5, signs=2, level=3.0),
    sdp.Repeated(sdp.SQKR(2.0, dimension=3, signs=1), runs=2),
    sdp.PureDUMP(options=5, dummies=4),
    sdp.PureDUMP(options=4, dummies=3, share=0.2),
    sdp.MixDUMP(options=6, flip=0.7, dummies=3, share=0.4),
    sdp.BallsIntoBins(options=6, bins=3, dummies=2, share=0.7),
    sdp.CheuZhilyaev(options=3, flip=0.3, dummies=2),
    sdp.BalcerCheu(options=2, coin=0.96, coins=9),
    sdp.BalcerUniform(options=4, coins=1),
    sdp.CancellingNoise(options=4, rate=1.0, shape=2.0, ratio=0.3, honest=50, places=4),
    sdp.RangeQueries(0.3, height=5),
    sdp.RangeQueries(9.0, height=7),
    sdp.PlanarLaplace(0.5, west=0.0, east=3.0, south=0.0, north=2.0, columns=3, rows=2),
    sdp.FromTable([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]),
    # Least and most of a contribution are both above 0 here, and an answer to the other query adds 0.
    sdp.Parallel([sdp.Laplace(6.0, low=18.0, high=98.0, grid=20), sdp.KRR(1.0, 4)], weights=[3, 1]),
    sdp.Parallel([sdp.Laplace(6.0, low=18.0, high=98.0, grid=20)]),
    sdp.Parallel([sdp.PrivKV(1.0, keys=3), sdp.Duchi(2.0, dimension=4), sdp.RangeQueries(1.0, height=3)]),
]  # fmt: skip
EXAMPLES = [example for kind in catalogue.all_mechanisms().values() for example in kind.examples()]
LATTICES = [example for example in EXAMPLES if isinstance(example.encoding, LatticeEncoding)]
ANYWHERE = [example for example in EXAMPLES if isinstance(example, sdp.SplitAndMix | sdp.SplitAndMixVector)]
FEW_MESSAGES = 32
FEW_BYTES = 2
"""All messages of so many bytes can be tried."""


def seeds_of(mechanism: Mechanism) -> bool:
    """Whether its messages are seeds, of which there are too many to try them all."""
    return any(isinstance(layer, Compressed) for layer in catalogue.iterate_layers(mechanism))


SEARCHED = [
    example
    for example in EXAMPLES + FURTHER
    if not isinstance(example.encoding, LatticeEncoding)
    and example not in ANYWHERE
    and not seeds_of(example)
    and not FEW_MESSAGES < example.message_plan.max_messages < math.inf
    and example.message_bytes <= FEW_BYTES
]


def named(mechanism: Mechanism) -> str:
    return mechanism.name


def every_message(mechanism: Mechanism) -> Array:
    """All byte rows of the wire's width that are messages."""
    width = mechanism.message_bytes
    assert width <= FEW_BYTES, "too many rows to try them all"
    rows = np.stack(np.unravel_index(np.arange(256**width), (256,) * width), axis=1).astype(np.uint8)
    return mechanism.unpack(rows[mechanism.valid(rows)])


def sent_by_a_liar(mechanism: Mechanism) -> int:
    """As many messages as are taken from one user; a few where nothing limits them."""
    most = mechanism.message_plan.max_messages
    return 3 if math.isinf(most) else int(most)


def influence_of(mechanism: Mechanism) -> float:
    """What is stated for so many messages."""
    sways = mechanism.estimator.influence(sent_by_a_liar(mechanism))
    assert sways is not None
    assert mechanism.influence == (
        math.inf if math.isinf(mechanism.message_plan.max_messages) else max(sway.equivalent_users for sway in sways)
    )
    return max(sway.equivalent_users for sway in sways)


def every_report(mechanism: Mechanism) -> Iterator[Array]:
    """All multisets of as many messages as a user sends."""
    messages, each = every_message(mechanism), sent_by_a_liar(mechanism)
    assert math.comb(len(messages) + each - 1, each) < 20_000
    for places in combinations_with_replacement(range(len(messages)), each):
        yield messages[list(places)]


def contribution(mechanism: Mechanism, report: Array) -> Floats:
    """What the report adds to each number, by the estimator itself."""
    return mechanism.finish(mechanism.accumulate(report), users=1).value


def honest_ends(mechanism: Mechanism) -> tuple[Floats, Floats]:
    """Between what an honest user adds to each estimated number: what the task says, not the reading."""
    if isinstance(mechanism, sdp.Parallel | sdp.AllAnswered):
        parts = [honest_ends(inner) for inner in mechanism.mechanisms]
        low, high = (np.concatenate([part[end].reshape(-1) for part in parts]) for end in (0, 1))
        return low, high
    shape = mechanism.truth(mechanism.audit_pair()[:1]).shape
    if mechanism.task == "mean":
        ends = mechanism.value_range
    elif mechanism.task == "vector mean":
        ends = COORDINATES
    elif mechanism.task == "key-value":
        low, high = (np.stack([np.full(shape[1], kind[end]) for kind in (COUNTS, COORDINATES)]) for end in (0, 1))
        return low, high
    else:
        counts = ("frequency", "set-valued", "range queries", "location", "several tables")
        assert mechanism.task in counts, mechanism.task
        ends = COUNTS
    return np.full(shape, ends[0]), np.full(shape, ends[1])


def moved(mechanism: Mechanism, contributions: Floats) -> float:
    """The most that one of the contributions is off from an honest value, in users."""
    low, high = honest_ends(mechanism)
    beyond = np.maximum(contributions.max(axis=0) - low, high - contributions.min(axis=0))
    return float((beyond / (high - low)).max())


@pytest.mark.parametrize("mechanism", SEARCHED, ids=named)
def test_the_worst_of_all_reports_is_the_influence(mechanism: Mechanism) -> None:
    found = np.array([contribution(mechanism, report) for report in every_report(mechanism)])
    assert influence_of(mechanism) == pytest.approx(moved(mechanism, found), rel=1e-9)


@pytest.mark.parametrize("mechanism", SEARCHED, ids=named)
def test_estimates_are_sums_or_means_of_contributions(mechanism: Mechanism) -> None:
    """So that the worst for one user is the worst among any number of users, whoever the others are."""
    rng = np.random.default_rng(4)
    messages, each = every_message(mechanism), sent_by_a_liar(mechanism)
    for _ in range(5):
        reports = [messages[rng.integers(0, len(messages), each)] for _ in range(3)]
        contributions = np.array([contribution(mechanism, report) for report in reports])
        added, size = contributions.sum(axis=0), 1e-9 * np.abs(contributions).max()
        together = mechanism.finish(mechanism.accumulate(np.concatenate(reports)), users=3).value
        np.testing.assert_allclose(together, np.where(are_means(mechanism), added / 3, added), rtol=0, atol=size)


def are_means(mechanism: Mechanism) -> Array:
    """Which of the estimated numbers are means over the users; the others are sums."""
    if isinstance(mechanism, sdp.Parallel | sdp.AllAnswered):
        return np.concatenate([are_means(inner).reshape(-1) for inner in mechanism.mechanisms])
    return np.full(mechanism.truth(mechanism.audit_pair()[:1]).shape, mechanism.task in ("mean", "vector mean"))


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=named)
def test_honest_users_add_what_their_value_is(mechanism: Mechanism) -> None:
    """The ends of a number are those of the honest users' means, and nobody is less of a liar than an honest user."""
    low, high = honest_ends(mechanism)
    sways = mechanism.estimator.influence(sent_by_a_liar(mechanism))
    assert sways is not None
    assert min(sway.honest_min for sway in sways) == low.min()
    assert max(sway.honest_max for sway in sways) == high.max()
    assert mechanism.influence is not None
    assert mechanism.influence >= 1 - 1e-12
    if not mechanism.has_table:
        for value in mechanism.audit_pair():
            assert (np.abs(mechanism.truth(value[None, ...])) <= 1).all()
        return
    table = mechanism.table()
    each = mechanism.messages_per_user
    reports = table.messages if each > 1 else table.messages[:, None]
    added = np.array([contribution(mechanism, report) for report in reports])
    for row in table.probabilities:
        mean = np.tensordot(np.array([float(chance) for chance in row]), added, axes=1)
        size = 1e-9 * np.abs(added).max()
        assert (mean >= low - size).all()
        assert (mean <= high + size).all()


@pytest.mark.parametrize("mechanism", LATTICES, ids=named)
def test_the_largest_coordinate_of_a_vector(mechanism: Mechanism) -> None:
    """Numbers of 16 bits are all tried as a coordinate; of 32 bits only those beside the largest.

    The rest is linearity: a coordinate's estimate is a multiple of its sum, whatever the others are.
    """
    wire, reading = mechanism.encoding, mechanism.estimator
    assert isinstance(wire, LatticeEncoding)
    assert isinstance(reading, LatticeEstimator | NoisyVectorEstimator)
    bits = 8 * wire.coordinate_bytes
    beside = range(wire.largest - 3, wire.largest + 4)
    tried = np.arange(-(1 << 15), 1 << 15) if bits == 16 else np.array([s * n for n in beside for s in (-1, 1)])
    vectors = np.zeros((len(tried), wire.dimension), dtype=np.int64)
    vectors[:, -1] = tried
    rows = wire.pack(vectors)
    good = tried[mechanism.valid(rows)]
    assert good.tolist() == [n for n in tried.tolist() if abs(n) <= wire.largest]
    ends = np.full((2, wire.dimension), 0)
    ends[:, -1] = good.min(), good.max()
    # The others change nothing, and may be as large: no wire looks at the length of a vector.
    for others in (0, wire.largest):
        ends[:, :-1] = others
        assert mechanism.valid(wire.pack(ends)).all()
        found = np.array([contribution(mechanism, end[None, :]) for end in ends])
        assert mechanism.influence == pytest.approx(moved(mechanism, found), rel=1e-9)
    one = contribution(mechanism, vectors[tried == good.max()])[-1] / good.max()
    for number in np.random.default_rng(1).choice(good, 5):
        vector = np.zeros((1, wire.dimension), dtype=np.int64)
        vector[0, -1] = number
        assert contribution(mechanism, vector)[-1] == pytest.approx(one * number, rel=1e-9)


def test_vectors_of_several_runs_are_moved_as_by_one() -> None:
    once = sdp.PrivUnitG(1.0, dimension=3)
    assert sdp.Repeated(once, runs=4).influence == once.influence


@pytest.mark.parametrize("mechanism", Compressed.examples(), ids=named)
def test_a_liar_finds_the_seed_it_needs(mechanism: Mechanism) -> None:
    """No seed does more than the randomizer's messages do, and among a few hundred one does as much.

    But for vectors, and for noise without an end, where hardly any seed stands for what the wire would take.
    """
    assert isinstance(mechanism, Compressed)
    seeds = np.random.default_rng(2).integers(0, 256, (400, mechanism.message_bytes), dtype=np.uint8)
    found = np.array([contribution(mechanism, seed[None, :]) for seed in seeds])
    assert mechanism.influence == mechanism.randomizer.influence
    most = moved(mechanism.randomizer, found)
    assert mechanism.influence is not None
    assert most <= mechanism.influence * (1 + 1e-9)
    far = isinstance(mechanism.randomizer, sdp.Repeated | sdp.Gaussian)
    assert far or most == pytest.approx(mechanism.influence, rel=1e-9)


def test_seeds_of_vectors_move_no_more_than_the_wire_of_vectors() -> None:
    mechanism = Compressed(sdp.PrivUnitG(2.0, dimension=2))
    seeds = np.random.default_rng(3).integers(0, 256, (400, mechanism.message_bytes), dtype=np.uint8)
    found = np.array([contribution(mechanism, seed[None, :]) for seed in seeds])
    assert mechanism.influence is not None
    assert 1 < moved(mechanism.randomizer, found) < mechanism.influence


# --- golden numbers ---------------------------------------------------------------------------------------------------


def test_randomized_response_of_1024_options() -> None:
    """(1 − r)/(s − r) = (e^ε + d − 2)/(e^ε − 1), written down without the package."""
    for epsilon, golden in ((9.6, 1.0693), (1.0, 596.3622)):
        closed = (math.exp(epsilon) + 1022) / math.expm1(epsilon)
        assert closed == pytest.approx(golden, abs=5e-5)
        assert sdp.KRR(epsilon, 1024).influence == pytest.approx(closed, rel=1e-12)


def test_a_user_who_holds_the_option_already_is_moved_one_less() -> None:
    """(1 − s)/(s − r), 595.36 at ε = 1: what is added beyond an honest holder of the option, one user's worth less."""
    beyond = 1023 / math.expm1(1.0)
    assert beyond == pytest.approx(595.3622, abs=5e-5)
    assert sdp.KRR(1.0, 1024).influence == pytest.approx(beyond + 1, rel=1e-12)


@pytest.mark.parametrize(
    "mechanism",
    [
        sdp.KRR(1.0, 1 << 20),
        sdp.OUE(1.0, 1 << 20),
        sdp.HadamardResponse(1.0, 1 << 20),
        sdp.LocalHash(1.0, 1 << 20),
        sdp.PIRAPPOR(1.0, 1 << 20),
        sdp.ProjectiveGeometry(1.0, 1 << 20),
        sdp.Wheel(1.0, 1 << 20, items=4),
        sdp.SamplingRAPPOR(1.0, 1 << 20, items=4),
        sdp.PureDUMP(options=1 << 20, dummies=1000),
        sdp.BallsIntoBins(options=1 << 20, bins=61),
        sdp.BalcerCheu(options=1 << 20, coin=0.9),
        sdp.RangeQueries(1.0, height=20),
        sdp.PCKV(1.0, keys=1 << 20, padding=4),
        sdp.Duchi(1.0, dimension=1024),
        sdp.SQKR(1.0, dimension=1024),
        sdp.PrivUnitG(1.0, dimension=1024),
        sdp.PrivHS(1.0, dimension=1024),
    ],
    ids=named,
)
def test_large_domains_have_a_number_too(mechanism: Mechanism) -> None:
    """By closed forms: nothing here could try all messages."""
    influence = mechanism.influence
    assert influence is not None
    assert 1 < influence < math.inf


# --- several messages, ranges, mechanisms of others -------------------------------------------------------------------


def test_a_liar_puts_all_messages_on_one_option() -> None:
    """m messages instead of one, less what dummies add on average; for a counter also those of all other counters."""
    assert sdp.PureDUMP(options=1024, dummies=8).influence == pytest.approx(9 - 8 / 1024, rel=1e-12)
    assert sdp.BalcerCheu(options=100, coin=0.75, coins=2).influence == pytest.approx(300 - 1.5, rel=1e-12)


def test_messages_without_limit_move_without_limit() -> None:
    for mechanism in (*EXAMPLES, *FURTHER):
        sways = mechanism.estimator.influence(math.inf)
        assert sways is not None
        assert max(sway.equivalent_users for sway in sways) == math.inf


@pytest.mark.parametrize(("epsilon", "height"), [(0.1, 2), (0.5, 3), (4.0, 3), (9.0, 4), (0.1, 5)])
def test_ranges_are_moved_no_further_than_nodes(epsilon: float, height: int) -> None:
    mechanism = sdp.RangeQueries(epsilon, height)
    ranges = [(a, b) for a in range(mechanism.options) for b in range(a + 1, mechanism.options + 1)]
    influence = mechanism.influence
    assert influence is not None
    for message in every_message(mechanism):
        estimate = mechanism.finish(mechanism.accumulate(np.array([message])), users=1)
        value = mechanism.ranges(estimate, ranges).value
        assert max(value.max(), 1 - value.min()) <= influence * (1 + 1e-9)


def test_a_counter_of_two_options_is_read_both_ways() -> None:
    """Nine coins that are nearly all heads: a liar who sends tails only adds 1 + 9ϖ to the other option."""
    reading = sdp.BalcerCheu(options=2, coin=0.96, coins=9).estimator
    assert isinstance(reading, CounterEstimator)
    ones, zeros = reading.influence(10)
    assert (ones.min_contribution, ones.max_contribution) == pytest.approx((-8.64, 1.36))
    assert (zeros.min_contribution, zeros.max_contribution) == pytest.approx((-0.36, 9.64))


@dataclass(frozen=True)
class OwnReading(Estimator):
    """A visitor's own, which says nothing of liars."""

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=2)

    def finish(self, total: Array, users: int) -> Estimate:
        return Estimate(total * 1000.0, total * 0.0, users)

    def truth(self, values: Array) -> Floats:
        return np.bincount(values, minlength=2) * 1000.0

    def variance(self, values: Array) -> Floats:
        return np.zeros(2)


class OwnMechanism(sdp.KRR):
    @property
    def estimator(self) -> OwnReading:  # type: ignore[override]
        return OwnReading()


def test_what_is_not_known_is_not_claimed() -> None:
    own = OwnMechanism(1.0, 2)
    assert own.influence is None
    assert sdp.Parallel([sdp.KRR(1.0, 2), own]).influence is None
    # No unbiased estimate: nothing to move.
    assert sdp.FromTable([[0.5, 0.5], [0.5, 0.5]]).influence is None


def test_a_sway_counts_in_users() -> None:
    sway = Influence(-30.0, 50.0, 10.0, 20.0)
    assert sway.equivalent_users == 5.0
    assert sway.scale(2.0) == Influence(-60.0, 100.0, 10.0, 20.0)
    assert Influence(5.0, 6.0).include_zero() == Influence(0.0, 6.0)
    assert Influence(-6.0, -5.0).include_zero() == Influence(-6.0, 0.0)


@pytest.mark.parametrize("mechanism", ANYWHERE, ids=named)
def test_one_share_moves_a_sum_anywhere(mechanism: Mechanism) -> None:
    """As far as the modulus has room: shares say nothing about what they are shares of."""
    assert mechanism.influence == math.inf
    values = np.resize(mechanism.audit_pair(), (20, *mechanism.audit_pair().shape[1:]))
    sent = mechanism.encode(values, rng=np.random.default_rng(0))
    found = mechanism.estimate(sent).value[0]
    low, high = mechanism.value_range
    first = np.flatnonzero(sent < mechanism.modulus)[0]  # type: ignore[attr-defined]
    furthest = 0.0
    for place in (1, 3, 5, 7):
        lie = sent.copy()
        lie[first] = (sent[first] + place * mechanism.modulus // 8) % mechanism.modulus  # type: ignore[attr-defined]
        furthest = max(furthest, abs(mechanism.estimate(lie).value[0] - found))
    assert furthest > 2 * (high - low)
