"""Split and mix: its δ against all messages of all users, its noise against enumeration, its estimate, its limits."""

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp._core.errors import NotApplicable
from shuffledp.mechanisms.correlated_noise.split_and_mix import (
    WRAP_CHANCE,
    LaplaceSum,
    ModularShares,
    PartialLaplaceSum,
    SplitAndMix,
    SplitAndMixLoss,
    mixing_distance,
)
from shuffledp.numerics.ball_arithmetic import round_up
from shuffledp.numerics.distributions import PolyaDifferenceLaw
from shuffledp.sampling.random_sources import resolve_source
from tests.oracle.shared_messages import Counts, combine_multisets, user_multisets

EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)


# --- δ, by all messages ----------------------------------------------------------------------------------------------


def wrapped_share(base: int, rate: float, honest: int) -> np.ndarray:
    """The law of one user's noise modulo N, by its characteristic function."""
    turns = np.exp(2j * np.pi * np.arange(base) / base)
    transform = (((1 - math.exp(-rate)) / np.abs(1 - math.exp(-rate) * turns)) ** (2 / honest)).astype(complex)
    return np.fft.ifft(transform).real


def user_view(base: int, messages: int, value: int, noise: np.ndarray) -> Counts:
    """The law of the multiset of a user's messages."""
    laws = [user_multisets(base, messages, (value + z) % base) for z in range(base)]
    keys = np.unique(np.concatenate([law[0] for law in laws]))
    chances = np.zeros(len(keys))
    for z, (found, ways) in enumerate(laws):
        chances[np.searchsorted(keys, found)] += noise[z] * ways / base ** (messages - 1)
    return keys, chances


@lru_cache
def all_views(users: int, base: int, messages: int, levels: int, rate: float, honest: int) -> list[list[np.ndarray]]:
    """For all inputs of the others, the law of all messages for each input of the first user."""
    noise = wrapped_share(base, rate, honest)
    alone = [user_view(base, messages, value, noise) for value in range(levels + 1)]
    found = []
    for others in itertools.combinations_with_replacement(range(levels + 1), users - 1):
        views = []
        for view in alone:
            for other in others:
                view = combine_multisets(view, alone[other])
            views.append(view[1])
        found.append(views)
    return found


def true_delta(users: int, base: int, messages: int, levels: int, rate: float, honest: int, epsilon: float) -> float:
    """The largest hockey-stick divergence over all inputs of all users and every change of the first one's."""
    found = all_views(users, base, messages, levels, rate, honest)
    pairs = (pair for views in found for pair in itertools.permutations(views, 2))
    return max(float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum()) for first, second in pairs)


@pytest.mark.parametrize(
    ("users", "base", "messages", "levels", "rate", "honest"),
    [
        (2, 4, 4, 1, 1.0, 2),
        (2, 5, 5, 2, 0.5, 2),
        (3, 4, 4, 1, 1.0, 3),
        (3, 5, 4, 2, 0.7, 3),
        (3, 3, 5, 1, 2.0, 3),
        (2, 5, 7, 1, 1.0, 4),
        (3, 5, 5, 1, 0.5, 5),
        (3, 4, 4, 1, 1.0, 1),
    ],
)
def test_no_messages_tell_more(users: int, base: int, messages: int, levels: int, rate: float, honest: int) -> None:
    """The formula at a modulus so small that all views can be looked at: noise of all, of a part, and of more."""
    distance = round_up(mixing_distance(users, messages - 1, base))
    share = Fraction(users, honest)
    whole = LaplaceSum(Fraction(rate), levels)
    noise = whole if share >= 1 else PartialLaplaceSum(Fraction(rate), levels, share)
    loss = SplitAndMixLoss(noise, distance, "")
    upper, lower = loss.profile(np.array(EPSILONS))
    assert (lower <= upper).all()
    for epsilon, bound in zip(EPSILONS, upper, strict=True):
        assert true_delta(users, base, messages, levels, rate, honest, epsilon) <= bound
    assert upper[0] < 1


@pytest.mark.exhaustive
@pytest.mark.parametrize(("users", "colluding", "messages"), [(3, 1, 3), (4, 2, 3), (3, 0, 2)])
def test_colluding_users_hide_nobody(users: int, colluding: int, messages: int) -> None:
    """The mechanism itself, with a modulus that nothing wraps around: those who collude are taken off."""
    honest = users - colluding
    mechanism = SplitAndMix(rate=4.0, levels=1, modulus=20, messages=messages, honest=honest)
    curve = sdp.amplify(mechanism, users=users, colluding=colluding, effort="quick")
    for epsilon in (0.5, 2.0, 4.5):
        truth = true_delta(honest, 20, messages, 1, 4.0, honest, epsilon)
        assert truth <= curve.delta(epsilon=epsilon).upper
        noise, mixing = mechanism.delta_parts(epsilon, honest)
        assert noise + mixing >= min(1.0, curve.delta(epsilon=epsilon).upper)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("honest", "messages"), [(2, 3), (3, 2)])
def test_whoever_knows_the_others_attains_the_noises_part(honest: int, messages: int) -> None:
    """The lower value is below what all messages tell, and above all but what mixing adds."""
    mechanism = SplitAndMix(rate=4.0, levels=1, modulus=20, messages=messages, honest=honest)
    curve = sdp.amplify(mechanism, users=honest, effort="quick")
    for epsilon in (0.5, 2.0, 3.5):
        lower = curve.delta(epsilon=epsilon).lower
        assert lower is not None
        assert lower <= true_delta(honest, 20, messages, 1, 4.0, honest, epsilon)
        assert lower == pytest.approx(mechanism.delta_parts(epsilon, honest)[0], rel=1e-6)
    wider = SplitAndMix(rate=4.0, levels=1, modulus=40, messages=messages, honest=honest)
    assert sdp.amplify(wider, users=honest + 1, effort="quick").delta(epsilon=1.0).lower is None


@pytest.mark.parametrize("shift", [1, 2, 7])
def test_laplace_noise_by_enumeration(shift: int) -> None:
    z = np.arange(-4000, 4001)
    for rate in (0.02, 0.3, 1.5):
        ratio = math.exp(-rate)
        law = [(1 - ratio) / (1 + ratio) * ratio ** np.abs(z - s).astype(float) for s in (0, shift)]
        for epsilon in (0.0, 0.01, 0.1, 0.9 * rate * shift, rate * shift):
            truth = np.maximum(law[0] - math.exp(epsilon) * law[1], 0.0).sum()
            upper, lower = LaplaceSum(Fraction(rate), shift).delta(epsilon)
            assert lower <= upper
            assert upper == pytest.approx(truth, abs=1e-12)
        assert LaplaceSum(Fraction(rate), shift).delta(rate * shift) == (0.0, 0.0)


@pytest.mark.parametrize("shape", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10), Fraction(1)])
def test_what_a_part_of_the_users_add(shape: Fraction) -> None:
    """Against sums of negative binomials by floats; and the whole is the closed form."""
    rate, shift = 0.2, 5
    one = stats.nbinom.pmf(np.arange(900), float(shape), -math.expm1(-rate))
    law = np.convolve(one, one[::-1])
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        truth = np.maximum(law - math.exp(epsilon) * np.roll(law, shift), 0.0).sum()
        upper, lower = PartialLaplaceSum(Fraction(rate), shift, shape).delta(epsilon)
        assert lower <= truth * (1 + 1e-10) + 1e-14
        assert truth <= upper * (1 + 1e-10) + 1e-14
        assert upper - lower <= 1e-8 * truth + 1e-10
        if shape == 1:
            assert upper >= LaplaceSum(Fraction(rate), shift).delta(epsilon)[1]


def test_less_noise_hides_less() -> None:
    mechanism = SplitAndMix(rate=0.01, levels=100, modulus=1 << 24, messages=12, honest=1000)
    found = [
        sdp.amplify(mechanism, users=users, effort="quick").epsilon(delta=1e-6).upper
        for users in (2000, 1000, 800, 500)
    ]
    assert found == sorted(found)
    assert found[0] == pytest.approx(1.0, abs=1e-5)
    assert found[1] <= 1.0
    assert 2.0 < found[3] < 4.0


def test_a_wider_shift_tells_more() -> None:
    """The largest change is the worst, whatever part of the noise is there."""
    for shape in (Fraction(1, 5), Fraction(2, 3)):
        for epsilon in (0.0, 0.4, 1.3):
            found = [PartialLaplaceSum(Fraction(1, 4), shift, shape).delta(epsilon) for shift in range(1, 9)]
            for (_, lower), (upper, _) in itertools.pairwise(found):
                assert lower <= upper * (1 + 1e-9)


# --- sums ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("modulus", [2, 3, 1000, 100_003, (1 << 60) - 1, 1 << 60])
def test_shares_add_up_modulo_n(modulus: int) -> None:
    shares = ModularShares(modulus, 7)
    numbers = np.arange(-50, 50)
    split = shares.split(numbers, resolve_source(np.random.default_rng(1)))
    assert split.shape == (100, 7)
    assert split.min() >= 0
    assert split.max() < modulus
    for number, row in zip(numbers.tolist(), split.tolist(), strict=True):
        assert (sum(row) - number) % modulus == 0
    total = sum(map(int, split.ravel().tolist()))
    sums = shares.digit_sums(split.ravel())
    assert shares.unwrap_sum(sums, 0, 0) % modulus == total % modulus


def test_all_shares_but_their_sum_are_uniform() -> None:
    split = ModularShares(3, 3).split(np.full(27_000, 2), resolve_source(np.random.default_rng(2)))
    kinds, seen = np.unique(split, axis=0, return_counts=True)
    assert len(kinds) == 9
    assert ((seen - 3000) ** 2 / 3000).sum() < stats.chi2.isf(1e-7, 8)


@pytest.mark.parametrize("times", [1.0, 2.5, 30.0])
def test_intervals_cover_what_they_say(times: float) -> None:
    """Of as many users as were planned, and of more; by real messages. 2,000 intervals: ±2% is four deviations."""
    honest, repeats = 40, 2000
    users = int(honest * times)
    mechanism = SplitAndMix(rate=0.01, levels=100, modulus=1 << 30, messages=2, honest=honest, low=-1.0, high=1.0)
    values = np.resize(np.linspace(-1, 1, 41), users)
    rng, inside = np.random.default_rng(3), 0
    messages = mechanism.encode(np.tile(values, repeats), rng=rng).reshape(repeats, -1)
    truth = values.mean()
    errors = []
    for row in messages:
        found = mechanism.estimate(row)
        low, high = found.interval(0.95)
        inside += int(low[0] <= truth <= high[0])
        errors.append(float(found.value[0] - truth))
    assert 0.93 <= inside / repeats <= 0.97
    spread = float(np.mean(np.square(errors))) / float(mechanism.variance(values)[0])
    assert 0.8 <= spread <= 1.2


def test_estimates_drawn_by_their_law_are_those_of_messages() -> None:
    mechanism = SplitAndMix(rate=0.02, levels=30, modulus=1 << 24, messages=2, honest=50)
    rng, users = np.random.default_rng(4), 100
    held = np.full(10, users // 10)
    drawn = np.array([mechanism.estimator.simulate(held, users, rng).value[0] for _ in range(4000)])
    values = (np.repeat(np.arange(10), users // 10) + 0.5) / 10
    stated = float(mechanism.variance(values)[0])
    assert abs(drawn.mean() - 0.5) <= 6 * math.sqrt(stated / 4000)
    assert drawn.var() / stated == pytest.approx(1.0, abs=0.2)


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_sum_that_may_wrap_around_is_refused() -> None:
    mechanism = SplitAndMix(rate=0.1, levels=10, modulus=1 << 12, messages=4, honest=100)
    assert mechanism.estimator.wrap_chance(300) <= WRAP_CHANCE
    with pytest.raises(NotApplicable, match=r"a sum of 400 users may wrap around modulo 4096 .* larger modulus\."):
        sdp.amplify(mechanism, users=400, effort="quick")
    with pytest.raises(ValueError, match=r"^SplitAndMix: a sum of 400 users may wrap around"):
        mechanism.estimate(mechanism.encode(np.full(400, 0.5), rng=np.random.default_rng(0)))


def test_the_chance_to_wrap_around_is_above_the_truth() -> None:
    law = PolyaDifferenceLaw(Fraction(1, 5), Fraction(3))
    one = stats.nbinom.pmf(np.arange(2000), 3, -math.expm1(-0.2))
    both = np.convolve(one, one[::-1])
    for beyond in (5, 20, 60, 120):
        truth = 2 * both[len(one) - 1 + beyond :].sum()
        assert truth <= float(law.tail(beyond)) <= max(1.0, 100 * truth)


def test_too_fine_noise_of_too_few_users_is_refused_by_a_sentence() -> None:
    mechanism = SplitAndMix(rate=1e-6, levels=60_000, modulus=1 << 50, messages=12, honest=10_000)
    with pytest.raises(NotApplicable, match=r"the noise needs 10,000 honest users, got 9,999; plan for fewer\."):
        sdp.amplify(mechanism, users=9_999, bound="own-noise")


def test_a_design_has_room_for_twice_the_users() -> None:
    """More people than were planned may come; the estimate and the guarantee are still there."""
    for users in (300, 10_000, 1_000_000):
        mechanism = SplitAndMix(**next(SplitAndMix.designs({}, users, 1.0, 1e-8, 1)))
        assert mechanism.estimator.wrap_chance(2 * users) <= WRAP_CHANCE
        assert sdp.amplify(mechanism, users=2 * users, effort="quick").epsilon(delta=1e-8).upper <= 1.0
        expected = SplitAndMix(**next(SplitAndMix.designs({"users": 9 * users}, users, 1.0, 1e-8, 1)))
        assert expected.estimator.wrap_chance(18 * users) <= WRAP_CHANCE
        assert expected.honest == users


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rate": 0.0}, "rate must be above 0"),
        ({"rate": 100.0}, "rate must be from"),
        ({"levels": 0}, "levels must be at least 1"),
        ({"levels": 1 << 20}, "levels must be at most 65536"),
        ({"modulus": 11}, "modulus must be above"),
        ({"modulus": 1 << 61}, "modulus must be at most"),
        ({"messages": 1}, "messages must be at least 2"),
        ({"honest": 0}, "honest must be at least 1"),
        ({"low": 1.0}, "low must be below high"),
    ],
)
def test_bad_settings_are_refused_by_a_sentence(settings: dict[str, float], sentence: str) -> None:
    good = {"rate": 0.1, "levels": 10, "modulus": 1 << 16, "messages": 4, "honest": 100}
    with pytest.raises(ValueError, match=f"^SplitAndMix: {sentence}"):
        SplitAndMix(**(good | settings))  # type: ignore[arg-type]
