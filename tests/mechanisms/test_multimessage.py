"""Protocols in which every user sends several messages: soundness by enumeration, estimators end to end.

The divergences of the real protocols come from enumerating all reports of all users, in exact fractions, with no code
of the package but the tables of single reports, which the conformance suite checks against what is encoded.
"""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings, strategies as st

import shuffledp as sdp
from shuffledp._core.errors import NotApplicable
from tests.oracle import multi_message_divergence
from tests.oracle.exact_enumeration import hockey_stick_of_counts

RATIOS = (Fraction(1), Fraction(9, 8), Fraction(2), Fraction(5))

# Others' messages are known where their values are: the bound is the truth of every dataset.
KNOWN: list[Any] = [
    sdp.PureDUMP(options=2),
    sdp.PureDUMP(options=3, dummies=2),
    sdp.PureDUMP(options=3, share=0.375),
    sdp.BalcerCheu(options=2, coin=0.75),
    sdp.BalcerCheu(options=2, coin=0.625, coins=2),
    sdp.BalcerUniform(options=2),
]
# Others' own randomness hides on top, or two counters move.
RANDOM: list[Any] = [
    sdp.MixDUMP(options=2, flip=0.25),
    sdp.MixDUMP(options=3, flip=0.5, share=0.5),
    sdp.CheuZhilyaev(options=2, flip=0.25),
    sdp.BallsIntoBins(options=3, bins=2),
    sdp.BalcerCheu(options=3, coin=0.75),
    sdp.BalcerUniform(options=3),
]
PROTOCOLS = [*KNOWN, *RANDOM]


def delta_of(mechanism: Any, users: int, ratio: Fraction, **more: Any) -> Any:
    return sdp.amplify(mechanism, users, **more, effort="quick").delta(math.log(ratio))


@pytest.mark.parametrize("mechanism", KNOWN, ids=repr)
def test_where_others_are_known_the_bound_is_the_truth(mechanism: Any) -> None:
    """Every dataset, every pair: the worst divergence is the bound, from above and, by the attack, from below."""
    laws = multi_message_divergence.report_laws(mechanism.table())
    for users in (1, 2, 3):
        if users == 3 and len(mechanism.table().messages) > 16:
            continue
        for ratio in RATIOS:
            truth = float(multi_message_divergence.worst_divergence(laws, users, ratio))
            value = delta_of(mechanism, users, ratio)
            assert value.upper == pytest.approx(truth, rel=1e-9, abs=1e-15)
            assert value.upper >= truth * (1 - 1e-12)
            assert value.lower == pytest.approx(truth, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("mechanism", RANDOM, ids=repr)
def test_no_dataset_is_above_the_bound(mechanism: Any) -> None:
    """Every dataset, every pair: never above the bound; some dataset is at or above the attack."""
    laws = multi_message_divergence.report_laws(mechanism.table())
    for users in (1, 2):
        for ratio in RATIOS:
            truth = float(multi_message_divergence.worst_divergence(laws, users, ratio))
            value = delta_of(mechanism, users, ratio)
            assert value.upper >= truth * (1 - 1e-12)
            assert value.lower is None or value.lower <= truth * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("mechanism", [m for m in RANDOM if "Balcer" not in type(m).__name__], ids=repr)
def test_alone_with_the_own_dummies_the_bound_is_the_truth(mechanism: Any) -> None:
    """With one user there is nobody else's randomness left out."""
    laws = multi_message_divergence.report_laws(mechanism.table())
    for ratio in RATIOS:
        truth = float(multi_message_divergence.worst_divergence(laws, 1, ratio))
        assert delta_of(mechanism, 1, ratio).upper == pytest.approx(truth, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("mechanism", PROTOCOLS, ids=repr)
def test_colluding_users_take_their_dummies_with_them(mechanism: Any) -> None:
    """With K users whose messages are known, what is left hides like n − K users; the victim's own dummies stay."""
    laws = multi_message_divergence.report_laws(mechanism.table())
    for ratio in RATIOS[1:]:
        curve = delta_of(mechanism, 2, ratio, colluding=1)
        assert curve.upper == delta_of(mechanism, 1, ratio).upper
        assert curve.upper >= float(multi_message_divergence.worst_divergence(laws, 1, ratio)) * (1 - 1e-12)
    assert sdp.amplify(mechanism, 50, colluding=20, effort="quick").messages == mechanism.hiding_messages(30)


def two_counters(coin: Fraction, coins: int, ratio: Fraction) -> Fraction:
    """D of the counts when one counter loses one and another gains one, each with its own Bin(coins, coin)."""
    law = [comb(coins, k) * coin**k * (1 - coin) ** (coins - k) for k in range(coins + 1)]

    def at(k: int) -> Fraction:
        return law[k] if 0 <= k <= coins else Fraction(0)

    every = range(coins + 2)
    return sum(
        (max(Fraction(0), at(a - 1) * at(b) - ratio * at(a) * at(b - 1)) for a in every for b in every), Fraction(0)
    )


def test_a_change_moves_exactly_two_counters() -> None:
    """For three options the enumerated protocol is two independent counters that move in opposite directions."""
    mechanism = sdp.BalcerCheu(options=3, coin=0.75)
    laws = multi_message_divergence.report_laws(mechanism.table())
    for users in (1, 2):
        for ratio in RATIOS:
            assert multi_message_divergence.worst_divergence(laws, users, ratio) == two_counters(
                Fraction(3, 4), users, ratio
            )


@pytest.mark.exhaustive("0.875")
@pytest.mark.parametrize("coin", [0.5, 0.75, 0.875])
def test_coins_that_travel_in_pairs_cost_little(coin: float) -> None:
    """The bound for many options is above the two counters' exact divergence, and close to it; one counter is below."""
    for users, ratio, most in ((40, Fraction(3, 2), 1.35), (200, Fraction(5, 4), 1.1)):
        exact = float(two_counters(Fraction(coin), users, ratio))
        value = delta_of(sdp.BalcerCheu(options=7, coin=coin), users, ratio)
        assert value.lower <= exact <= value.upper <= exact * most


def test_the_bits_of_cheu_and_zhilyaev_are_kept_apart() -> None:
    """The corrected value of erratum VR-4, and the oracle's own count of the four patterns of two bits."""
    flip, keep, ratio = Fraction(1, 4), Fraction(3, 4), Fraction(3)
    first = [keep * keep, flip * flip, flip * keep, keep * flip]
    second = [flip * flip, keep * keep, flip * keep, keep * flip]
    hiding = [flip * keep, flip * keep, keep * keep, flip * flip]
    truth = float(hockey_stick_of_counts(first, second, hiding, 9, ratio))
    found = delta_of(sdp.CheuZhilyaev(options=5, flip=0.25, dummies=8), 1, ratio).upper
    assert found == pytest.approx(truth, rel=1e-12)
    assert round(found, 6) == 0.012291


def test_pure_dump_is_the_pair_of_its_parameters() -> None:
    """p = ∞, β = 1, q = d at M messages; and the contract's own example."""
    parameters = sdp.VariationRatio(p=math.inf, beta=1.0, q=16.0)
    mechanism = sdp.PureDUMP(options=16, dummies=3)
    assert mechanism.hiding_messages(20_000) == 60_001
    found = sdp.amplify(mechanism, users=20_000, effort="quick").epsilon(1e-7).upper
    assert found == pytest.approx(sdp.amplify(parameters, users=60_001, effort="quick").epsilon(1e-7).upper, rel=1e-9)


def test_balls_that_collide_hide_each_other() -> None:
    """With collisions counted, balls into bins is tighter than the printed β = 1."""
    mechanism = sdp.BallsIntoBins(options=1000, bins=17)
    printed = (
        sdp.amplify(sdp.VariationRatio(p=math.inf, beta=1.0, q=17.0), users=5001, effort="quick").epsilon(1e-6).upper
    )
    ours = sdp.amplify(mechanism, users=5000, effort="quick").epsilon(1e-6).upper
    assert printed * 0.9 < ours < printed


def test_special_bins() -> None:
    """s of b bins for each option: the parameters of [VR] Table 3 up to shared bins; s = 1 is what it was."""
    for special in (1, 2, 5):
        mechanism = sdp.BallsIntoBins(options=1000, bins=17, special=special)
        known = mechanism.variation_ratio()
        assert (known.p, known.beta, max(known.q_pair)) == pytest.approx((math.inf, 1 - special / 17, 17 / special))
        printed = sdp.VariationRatio(p=math.inf, beta=1.0, q=17 / special)
        most = sdp.amplify(printed, users=5001, effort="quick").epsilon(1e-6).upper
        assert 0.5 * most < sdp.amplify(mechanism, users=5000, effort="quick").epsilon(1e-6).upper < most
    found = sdp.amplify(sdp.BallsIntoBins(options=99, bins=17, special=4), 10**5, bound="protocol-published")
    assert found.epsilon(1e-6).upper == pytest.approx(math.sqrt(32 * 17 / 4 * math.log(2e6) / 1e5))
    with pytest.raises(ValueError, match="special must be below the 5 bins, got 5"):
        sdp.BallsIntoBins(options=4, bins=5, special=5)


@pytest.mark.parametrize("asked", [None, [3, 0, 49]])
def test_special_bins_are_read_alike_however_they_are_decoded(asked: list[int] | None) -> None:
    """All options at once, and some of them, against a count of every message and option by hand."""
    mechanism = sdp.BallsIntoBins(options=50, bins=7, special=3)
    messages = mechanism.encode(np.arange(400) % 50, rng=np.random.default_rng(5))
    bins, seeds = messages % 7, messages // 7
    codes = mechanism.hash_messages.hashing.codes
    digits = np.stack([seeds // 7**place % 7 for place in range(codes.shape[1] - 1, -1, -1)], axis=1)
    own = (bins[:, None] - digits @ codes.T) % 7 < 3
    support = own.sum(axis=0)
    value = (support - 400 * (3 / 7 + 3 / 7)) / (1 - 3 / 7)
    if asked is None:
        np.testing.assert_allclose(mechanism.estimate(messages).value, value, rtol=1e-12)
    else:
        np.testing.assert_allclose(mechanism.estimate_some(messages, asked).value, value[asked], rtol=1e-12)


@pytest.mark.parametrize("mechanism", PROTOCOLS, ids=repr)
def test_the_known_law_is_never_worse_than_the_parameters(mechanism: Any) -> None:
    """The exact bound is at most the reduction with the protocol's parameters."""
    for users in (10, 1000):
        exact = sdp.amplify(mechanism, users, bound="optimal").delta(0.3).upper
        assert exact <= sdp.amplify(mechanism, users, bound="variation-ratio").delta(0.3).upper * (1 + 1e-9)


@pytest.mark.exhaustive("values4")
@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda x: sdp.PureDUMP(options=9, dummies=x), (1, 2, 7, 30)),
        (lambda x: sdp.PureDUMP(options=9, share=x), (0.01, 0.1, 0.5, 1.0)),
        (lambda x: sdp.MixDUMP(options=9, flip=x), (0.01, 0.1, 0.5, 0.8)),
        (lambda x: sdp.BallsIntoBins(options=9, bins=5, dummies=x), (1, 2, 7, 30)),
        (lambda x: sdp.CheuZhilyaev(options=9, flip=x), (0.001, 0.01, 0.1, 0.4)),
        (lambda x: sdp.BalcerCheu(options=2, coin=x), (0.99, 0.9, 0.7, 0.5)),
        (lambda x: sdp.BalcerUniform(options=9, coins=x), (1, 2, 7, 30)),
    ],
)
def test_what_can_be_tuned_is_monotone(make: Any, values: tuple[float, ...]) -> None:
    """In the direction that a tuning names, ε falls."""
    found = [sdp.amplify(make(value), users=500, effort="quick").epsilon(1e-5).upper for value in values]
    assert found == sorted(found, reverse=True)
    names = {tuning.name: tuning for tuning in make(values[0]).tunable}
    varied = [name for name in names if getattr(make(values[0]), name) != getattr(make(values[1]), name)]
    assert len(varied) == 1
    assert names[varied[0]].more_is_more_private == (values[0] < values[1])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    options=st.integers(2, 200),
    flip=st.floats(1e-9, 0.999),
    share=st.floats(1e-6, 1.0),
)
def test_parameters_of_mix_dump_hold_to_the_last_bit(options: int, flip: float, share: float) -> None:
    """Whatever the rounding of p, q and q_common, dummies contain the decomposition, exactly."""
    try:
        mechanism = sdp.MixDUMP(options=options, flip=flip, share=share)
    except ValueError:
        return
    parameters = mechanism.variation_ratio()
    own, other, each = (
        mechanism.estimator.true_support,
        mechanism.estimator.false_support,
        mechanism.dummy_law.filled / options,
    )
    p, q, q_common = Fraction(parameters.p), Fraction(parameters.q_pair[0]), Fraction(parameters.q_common)
    assert p >= own / other
    unlikely = (own - other) / (p - 1)
    assert p * unlikely / q + (other - unlikely) / q_common <= each
    assert other / q_common <= each
    assert Fraction(parameters.beta) >= own - other


# --- estimators ---------------------------------------------------------------------------------------------------

LARGE: list[Any] = [
    sdp.PureDUMP(options=500),
    sdp.PureDUMP(options=500, share=0.25),
    sdp.MixDUMP(options=500, flip=0.2),
    sdp.BallsIntoBins(options=500, bins=23),
    sdp.CheuZhilyaev(options=500, flip=0.01),
    sdp.BalcerCheu(options=20, coin=0.99),
    sdp.BalcerUniform(options=2, coins=3),
]


def collected(mechanism: Any, values: Any, generator: np.random.Generator) -> Any:
    """Encode, pack, sort (which forgets the order), and add up in batches, as a server does."""
    wire = mechanism.pack(mechanism.encode(values, rng=generator))
    width = wire.shape[1]
    if width <= 8:
        wire = (
            np.sort(np.ascontiguousarray(wire).view(f"S{width}").reshape(-1))
            if width == 1
            else wire[np.lexsort(wire.T)]
        )
        wire = np.frombuffer(wire.tobytes(), dtype=np.uint8).reshape(-1, width)
    else:
        wire = wire[generator.permutation(len(wire))]
    half = len(wire) // 3
    total = mechanism.accumulate(mechanism.unpack(wire[:half])) + mechanism.accumulate(mechanism.unpack(wire[half:]))
    return mechanism.finish(total, mechanism.count_users(len(wire)))


@pytest.mark.parametrize("mechanism", LARGE, ids=repr)
def test_estimates_of_shuffled_messages(mechanism: Any) -> None:
    """20,000 users with skewed values, three times: errors are as large as stated, and centred on 0.

    z-scores: their mean square is within 4 standard deviations √(2/k) of 1 for k of them, their mean within 4/√k;
    with 14 such tests at fixed seeds the chance of a false alarm is below 2e-3 (estimates are not exactly normal).
    """
    generator = np.random.default_rng(20_260_011)
    scores = []
    for _ in range(3):
        values = np.minimum(generator.geometric(0.2, 20_000) - 1, mechanism.options - 1)
        found = collected(mechanism, values, generator)
        assert found.users == len(values)
        scores.append((found.value - mechanism.truth(values)) / np.sqrt(mechanism.variance(values)))
        np.testing.assert_allclose(found.variance.sum(), mechanism.variance(values).sum(), rtol=0.02)
    flat = np.concatenate(scores)
    if mechanism.options == 2:
        flat = flat[::2]
    assert abs(flat.mean()) <= 4 / math.sqrt(len(flat))
    assert abs((flat**2).mean() - 1) <= 4 * math.sqrt(2 / len(flat))


def test_a_report_has_a_fixed_number_of_messages() -> None:
    """Users follow from the number of messages; any other number is refused."""
    for mechanism in PROTOCOLS:
        values = mechanism.audit_pair()
        messages = mechanism.encode(values)
        assert len(messages) == 2 * mechanism.messages_per_user
        assert mechanism.estimate(messages).users == 2
        with pytest.raises(ValueError, match=f"expected a multiple of {mechanism.messages_per_user} messages"):
            mechanism.estimate(messages[:-1])


def test_blanks_are_sent_but_count_for_nothing() -> None:
    """A dummy is blank with probability 1 − share; the real message never is."""
    mechanism = sdp.PureDUMP(options=4, dummies=1, share=0.25)
    messages = mechanism.encode(np.full(40_000, 3), rng=np.random.default_rng(4)).reshape(-1, 2)
    assert (messages[:, 0] == 3).all()
    # 6 standard deviations: a false alarm has probability 2e-9.
    assert abs((messages[:, 1] == 4).mean() - 0.75) < 6 * math.sqrt(0.1875 / 40_000)
    assert mechanism.accumulate(messages.reshape(-1)).sum() == (messages < 4).sum()


def test_probabilities_are_rounded_towards_privacy() -> None:
    """What is executed hides at least as much as what was asked for, in multiples of 2^-64."""
    for number in (0.1, 1e-3, 1e-17, 2.0**-70):
        for executed in (
            sdp.PureDUMP(options=3, share=number).dummy_law.filled,
            sdp.CheuZhilyaev(options=3, flip=number).executed_flip,
            sdp.MixDUMP(options=3, flip=number).uniform_share * Fraction(2, 3),
        ):
            assert Fraction(number) <= executed <= Fraction(number) + Fraction(1, 2**64)
    assert sdp.PureDUMP(options=3).dummy_law.filled == 1
    assert sdp.BalcerCheu(options=3, coin=0.7).coin_counters.heads == Fraction(0.7)


@pytest.mark.parametrize("mechanism", [*PROTOCOLS, *LARGE], ids=repr)
def test_what_a_protocol_is_made_of_is_data(mechanism: Any) -> None:
    """The same settings give equal parts, which survive being sent elsewhere; other settings give others."""
    again = type(mechanism)(**mechanism.settings())
    assert again == mechanism
    for part, same in (
        (mechanism.domain, again.domain),
        (mechanism.encoding, again.encoding),
        (mechanism.estimator, again.estimator),
        (mechanism.law.parameters, again.law.parameters),
    ):
        assert part == same
        assert hash(part) == hash(same)
        assert pickle.loads(pickle.dumps(part)) == part
    hiding = "coins" if hasattr(mechanism, "coins") else "dummies"
    more = type(mechanism)(**mechanism.settings() | {hiding: getattr(mechanism, hiding) + 1})
    assert more.estimator != mechanism.estimator


def test_large_instances_work() -> None:
    """A million options, and hash functions whose messages are too many to count one by one."""
    values = np.array([0, 999_999, 999_999])
    for mechanism in (
        sdp.PureDUMP(options=10**6, dummies=2),
        sdp.MixDUMP(options=10**6, flip=0.1),
        sdp.BallsIntoBins(options=10**5, bins=17, dummies=2),
        sdp.BallsIntoBins(options=1000, bins=1009),
        sdp.CheuZhilyaev(options=10**6, flip=1e-4),
    ):
        held = values % mechanism.options
        wire = mechanism.pack(mechanism.encode(held))
        assert len(mechanism.estimate(mechanism.unpack(wire)).value) == mechanism.options
        assert 0 < sdp.amplify(mechanism, users=10**9, effort="quick").epsilon(1e-9).upper < 1


# --- what the protocols' own papers say ---------------------------------------------------------------------------


def coth(x: float) -> float:
    return 1 / math.tanh(x)


@pytest.mark.parametrize("delta", [1e-4, 1e-8])
def test_printed_guarantees_are_quoted_right(delta: float) -> None:
    """Each printed condition holds with equality at the ε that is shown."""
    users = 100_000

    def printed(mechanism: Any) -> float:
        value = sdp.amplify(mechanism, users, bound="protocol-published").epsilon(delta)
        assert not value.guarantee
        return float(value.upper)

    log = math.log
    assert 14 * 16 * log(2 / delta) / printed(sdp.PureDUMP(options=16)) ** 2 == pytest.approx(users)
    assert 14 * 16 * log(2 / delta) / printed(sdp.MixDUMP(options=16, flip=0.1)) ** 2 == pytest.approx(users)
    assert 32 * 17 * log(2 / delta) / printed(sdp.BallsIntoBins(options=99, bins=17)) ** 2 == pytest.approx(users)
    found = printed(sdp.CheuZhilyaev(options=16, flip=0.1))
    assert 33 / 5 * coth(found / 2) ** 2 * log(4 / delta) == pytest.approx(users * 0.1 * 0.9)
    found = printed(sdp.BalcerUniform(options=2))
    assert 10 * coth(found / 2) ** 2 * log(2 / delta) == pytest.approx(users / 2)
    found = printed(sdp.BalcerUniform(options=9))
    assert 10 * coth(found / 4) ** 2 * log(4 / delta) == pytest.approx(users / 2)
    found = printed(sdp.BalcerCheu(options=2, coin=0.75))
    assert 1 - 50 * log(2 / delta) / (found**2 * users) == pytest.approx(0.75)
    found = printed(sdp.BalcerCheu(options=9, coin=0.75))
    assert 1 - 50 * log(4 / delta) / ((found / 2) ** 2 * users) == pytest.approx(0.75)


@pytest.mark.parametrize("mechanism", [*LARGE, sdp.BallsIntoBins(options=50, bins=3)], ids=repr)
def test_the_exact_epsilon_is_never_above_the_printed_one(mechanism: Any) -> None:
    """Wherever a printed analysis applies, exact accounting is below it: no print was found to be wrong."""
    for users, delta in product((300, 10**4, 10**6), (1e-3, 1e-8)):
        try:
            printed = sdp.amplify(mechanism, users, bound="protocol-published").epsilon(delta).upper
        except NotApplicable:
            continue
        assert sdp.amplify(mechanism, users, effort="quick").epsilon(delta).upper < printed


def test_printed_guarantees_say_where_they_do_not_apply() -> None:
    """Blanks, an ε above 1 and too little noise are refused by name; nothing of it is ever the default."""
    for mechanism, users, reason in (
        (sdp.PureDUMP(options=16, share=0.5), 10**5, "needs share = 1"),
        (sdp.PureDUMP(options=16), 100, "needs ε ≤ 1"),
        (sdp.CheuZhilyaev(options=16, flip=0.01), 100, "needs more noise"),
        (sdp.KRR(1.0, 4), 100, "gives no published analysis"),
    ):
        with pytest.raises(NotApplicable, match=reason):
            sdp.amplify(mechanism, users, bound="protocol-published").epsilon(1e-6)
    best = sdp.amplify(sdp.PureDUMP(options=16), 10**5, effort="quick")
    assert best.epsilon(1e-6).bound == "optimal"
    assert float(sdp.PureDUMP(options=16).published_epsilon(10**5, arb("1e-6"))) > best.epsilon(1e-6).upper


# --- bad settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: sdp.PureDUMP(options=1), "PureDUMP: options must be at least 2, got 1."),
        (lambda: sdp.PureDUMP(options=4, dummies=0), "PureDUMP: dummies must be at least 1, got 0."),
        (lambda: sdp.PureDUMP(options=4, dummies=1e7), "PureDUMP: dummies must be at most 1000000, got 10000000."),
        (lambda: sdp.PureDUMP(options=4, share=1.5), "PureDUMP: share must be above 0 and at most 1, got 1.5."),
        (lambda: sdp.MixDUMP(options=4, flip=0.75), "MixDUMP: flip must be below 1 − 1/options = 0.75, got 0.75."),
        (lambda: sdp.MixDUMP(options=4, flip=0.0), "MixDUMP: flip must be between 0 and 1, both excluded, got 0.0."),
        (
            lambda: sdp.BallsIntoBins(options=4, bins=4),
            "BallsIntoBins: bins must be a prime number such as 3 or 5, got 4.",
        ),
        (lambda: sdp.CheuZhilyaev(options=4, flip=0.5), "CheuZhilyaev: flip must be below 1/2, got 0.5."),
        (lambda: sdp.CheuZhilyaev(options=4, flip=0.1, dummies=0), "CheuZhilyaev: dummies must be at least 1, got 0."),
        (lambda: sdp.BalcerCheu(options=2, coin=0.4), "BalcerCheu: coin must be at least 1/2 and below 1, got 0.4."),
        (lambda: sdp.BalcerCheu(options=2, coin=1.0), "BalcerCheu: coin must be at least 1/2 and below 1, got 1.0."),
        (lambda: sdp.BalcerUniform(options=2, coins=0), "BalcerUniform: coins must be at least 1, got 0."),
        (
            lambda: sdp.BalcerUniform(options=2, coins=1e7),
            "BalcerUniform: coins must be at most 1000000, got 10000000.",
        ),
    ],
)
def test_bad_settings_are_one_sentence(make: Any, sentence: str) -> None:
    """Who expected what, got what."""
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert str(caught.value) == sentence


def test_tables_of_large_protocols_are_refused() -> None:
    """A table of too many reports is a sentence, not a wait."""
    for mechanism in (
        sdp.PureDUMP(options=100, dummies=5),
        sdp.CheuZhilyaev(options=20, flip=0.1),
        sdp.BalcerCheu(options=50, coin=0.9),
    ):
        with pytest.raises(ValueError, match="a table needs"):
            mechanism.table()
