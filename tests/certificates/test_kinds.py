"""Certificates of protocols, two messages, noisy crowds and chosen inputs: made, read, proved; and edits of them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any
from unittest import mock

import pytest
from flint import fmpq
from shuffledp_verify import Verdict
from shuffledp_verify.divergence import RandomBlanket, enclose_divergence
from shuffledp_verify.worst_dataset_bound import MAX_EXHAUSTIVE_USERS, decide_binary, decide_binary_direction

import shuffledp as sdp
from shuffledp.certificates.certify import certify
from shuffledp.certificates.claim import Claim, parse_mechanism_claim, verify
from shuffledp.mechanisms.correlated_noise.cancelling_noise_loss import CancellingNoiseLoss
from tests.cli import run

Document = dict[str, Any]

NOISE = sdp.CancellingNoise(options=5, rate=1.2, shape=12, ratio=0.6, honest=100)
MIXED = sdp.SplitAndMix(rate=0.01, levels=100, modulus=1 << 20, messages=9, honest=1000)
SUBJECTS: dict[str, tuple[Any, int, float, dict[str, Any]]] = {
    "own-noise": (NOISE, 100, 1e-3, {}),
    "mixed": (MIXED, 1000, 1e-6, {}),
    "composed-parts": (
        sdp.CancellingTree(options=9, rate=1.2, shape=12, ratio=0.6, honest=100, fan_out=3), 100, 1e-3, {},
    ),
    "exact-binary": (sdp.KRR(1.0, options=2), 100, 1e-6, {}),
    "noisy-crowd": (sdp.MixDUMP(options=4, flip=0.4, dummies=1), 20, 1e-2, {}),
    "pair": (sdp.Laplace(1.0, grid=2), 100, 1e-4, {"pair": (0.0, 0.5)}),
    "diameter": (sdp.Laplace(1.0, grid=2), 100, 1e-4, {"diameter": 0.5}),
}  # fmt: skip


@lru_cache
def claim_of(name: str) -> Claim:
    subject, users, delta, inputs = SUBJECTS[name]
    return certify(subject, users, delta=delta, effort="quick", **inputs)


@pytest.mark.exhaustive
def test_a_pair_is_certified_by_all_inputs_where_that_is_less() -> None:
    """The claim is about everybody, says more than was asked, and states the ε that amplify states."""
    mechanism = sdp.PaddedExponential([[abs(a - b) / 2 for a in range(5)] for b in range(5)])  # type: ignore[arg-type]
    curve = sdp.amplify(mechanism, 100, pair=(0, 4))
    claim = certify(mechanism, 100, delta=1e-4, pair=(0, 4))
    value = curve.epsilon(1e-4)
    assert claim.bound == value.bound == "all-crowds"
    assert value.upper <= claim.epsilon <= value.upper * 1.0002
    assert claim.statement.startswith("Replacing one user's value changes the shuffled messages of 100 users")
    assert verify(claim).verdict is Verdict.YES
    near = certify(mechanism, 100, delta=1e-4, pair=(0, 1))
    assert near.statement.startswith("Replacing one user's value 0 by 1, or 1 by 0,")


def edited(name: str, change: Callable[[Document], None]) -> Document:
    document: Document = json.loads(claim_of(name).text())
    change(document)
    return document


def verdict(document: Document) -> tuple[Verdict, str]:
    finding = verify(parse_mechanism_claim(json.dumps(document)))
    return finding.verdict, finding.reason


@pytest.mark.exhaustive("pair")
@pytest.mark.parametrize("name", SUBJECTS)
def test_made_read_and_proved(name: str) -> None:
    subject, users, delta, inputs = SUBJECTS[name]
    claim = claim_of(name)
    value = sdp.amplify(subject, users, effort="quick", **inputs).epsilon(delta)
    assert claim.bound == value.bound
    assert value.upper < claim.epsilon <= value.upper * (1.002 if name == "noisy-crowd" else 1 + 2e-5)
    assert parse_mechanism_claim(claim.text()) == claim
    assert verify(claim).verdict is Verdict.YES


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_smaller_epsilon_is_disproved(name: str) -> None:
    document = edited(name, lambda said: said.update(epsilon=said["epsilon"] * 0.97))
    document["statement"] = document["statement"].replace(repr(claim_of(name).epsilon), repr(document["epsilon"]))
    assert verdict(document)[0] is Verdict.NO


def _renoised(**numbers: str) -> Callable[[Document], None]:
    return lambda said: said["noises"][0]["noise"].update(numbers)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("own-noise", _renoised(rate="1"), "noise 1: rate is 1 in the file"),
        ("own-noise", _renoised(kind="poisson"), "noise 1: kind is poisson"),
        ("own-noise", _renoised(more="1"), "more is only in the file"),
        ("own-noise", lambda said: said["randomizer"]["settings"].update(shape=90.0), "noise 1: shape is 12"),
        ("own-noise", lambda said: said["noises"].append(said["noises"][0]), "2 noises in the file and 1 in truth"),
        ("own-noise", lambda said: said.update(theorem="none"), "the theorem of own-noise is"),
        ("own-noise", lambda said: said.update(bound="composed-parts"), "the theorem of composed-parts is"),
        ("mixed", _renoised(places="9"), "places is 9 in the file and 8 in truth"),
        ("mixed", lambda said: said["noises"][0]["noise"]["noise"].update(shift="1"), "shift is 1 in the file"),
        ("composed-parts", lambda said: said["noises"][0].update(times=1), "times is 1 in the file and 2 in truth"),
        ("exact-binary", lambda said: said["coin"].update(most="1/2"), "coin: most is 1/2 in the file"),
        ("exact-binary", lambda said: said["randomizer"]["settings"].update(options=3), "more than two messages"),
        ("noisy-crowd", lambda said: said.update(chance="1"), "chance is 1 in the file"),
        ("noisy-crowd", lambda said: said.update(others=78), "others is 78 in the file"),
        ("noisy-crowd", lambda said: said["law"][0][0].update(hiding="1/3"), "class 1: hiding is 1/3"),
        ("pair", lambda said: said["law"][0][0].update(first="1/3"), "class 1: first is 1/3"),
        ("diameter", lambda said: said["randomizer"].update(epsilon=0.5), "class 1"),
    ],
)
def test_a_forged_file_is_found(name: str, change: Callable[[Document], None], reason: str) -> None:
    found = verdict(edited(name, change))
    assert found[0] is Verdict.NO
    assert reason in found[1]


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("own-noise", lambda said: said.update(noises=[]), "noises must be a list that is not empty"),
        ("own-noise", _renoised(rate="1e3"), "rate of a noise must be a text 'a/b'"),
        ("own-noise", lambda said: said["noises"][0].update(times=0), "times must be a whole number from 1"),
        ("own-noise", lambda said: said["noises"][0].update(noise=3), "a noise must be an object"),
        ("exact-binary", lambda said: said["coin"].update(more="1"), "coin has the unknown field 'more'"),
        ("noisy-crowd", lambda said: said.update(others=0), "others must be a whole number from 1"),
        ("pair", lambda said: said["inputs"].update(pair=[0.0]), "a pair must be two inputs"),
        ("pair", lambda said: said["inputs"].update(pair=[0.0, 0.25]), "the statement does not say"),
        ("diameter", lambda said: said["inputs"].update(pair=[0.0, 0.5]), "inputs has the unknown field 'pair'"),
    ],
)
def test_a_file_that_is_no_certificate(name: str, change: Callable[[Document], None], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        verdict(edited(name, change))


def test_what_is_said_of_chosen_inputs() -> None:
    assert claim_of("pair").statement.startswith("Replacing one user's value 0.0 by 0.5, or 0.5 by 0.0, changes")
    assert claim_of("diameter").statement.startswith(
        "Replacing one user's value by one at most 0.5 input units away changes"
    )


def test_delta_for_an_epsilon() -> None:
    claim = certify(MIXED, 1000, epsilon=1.1)
    # Beyond the largest loss of the noise nothing but mixing is left.
    assert 0 < claim.delta < 1e-7
    assert verify(claim).verdict is Verdict.YES


def test_noise_without_a_second_proof_is_refused() -> None:
    vector = sdp.GaussianVector(dimension=3, multiplier=2.0)
    with pytest.raises(ValueError, match="there is no second proof yet"):
        certify(vector, 1000, delta=1e-6)


def test_noise_of_an_unknown_kind_is_left_open() -> None:
    """Somebody else's protocol may say of its noise what nobody here can prove."""
    for facts, sentence in (
        ({"kind": "uniform", "width": Fraction(3)}, "known here of noise with the kind or number 'uniform'"),
        (None, "no second proof is known of what exact law of cancelling noise"),
    ):
        with (
            mock.patch.object(CancellingNoiseLoss, "noise_facts", return_value=facts),
            pytest.raises(ValueError, match=sentence),
        ):
            certify(NOISE, 100, delta=1e-3)


@pytest.mark.exhaustive
def test_from_the_command_line(tmp_path: Any) -> None:
    path = str(tmp_path / "claim.json")
    protocol = ["--mechanism", "poisson-dump", "--set", "options=9", "--set", "mean=20", "--set", "honest=100"]
    assert run("amplify", *protocol, "--users", "100", "--delta", "1e-6", "--certificate", path).status == 0
    assert run("verify", path).status == 0
    pair = ["--mechanism", "laplace", "--epsilon-local", "1", "--set", "grid=2", "--pair", "0", "--pair", "0.5"]
    assert run("amplify", *pair, "--users", "100", "--delta", "1e-4", "--certificate", path).status == 0
    assert run("verify", path).status == 0


# --- two messages -----------------------------------------------------------------------------------------------------


def worst_dataset(high: Fraction, low: Fraction, users: int, ratio: Fraction) -> Fraction:
    """The largest divergence over all datasets at e^ε = ratio, by all messages of all users."""
    found = Fraction(0)
    for many in range(users):
        coins = [high] * many + [low] * (users - 1 - many)
        law = [Fraction(0)] * users
        for bits in itertools.product((0, 1), repeat=users - 1):
            law[sum(bits)] += math.prod(p if bit else 1 - p for p, bit in zip(coins, bits, strict=True))
        padded = [Fraction(0), *law, Fraction(0)]
        for one, two in ((high, low), (low, high)):
            worlds = [[p * padded[t] + (1 - p) * padded[t + 1] for t in range(users + 1)] for p in (one, two)]
            cells = [max(Fraction(0), a - ratio * b) for a, b in zip(*worlds, strict=True)]
            found = max(found, sum(cells, Fraction(0)))
    return found


@pytest.mark.parametrize(("high", "low"), [(Fraction(3, 4), Fraction(1, 4)), (Fraction(9, 10), Fraction(1, 3))])
@pytest.mark.parametrize("users", [1, 2, 5])
def test_coins_against_all_messages(high: Fraction, low: Fraction, users: int) -> None:
    for epsilon in (Fraction(0), Fraction(1, 4), Fraction(3, 4)):
        truth = worst_dataset(high, low, users, Fraction(math.exp(epsilon)))
        if truth:
            assert decide_binary(high, low, users, epsilon, truth * (1 + Fraction(1, 10**9))).verdict is Verdict.YES
            assert decide_binary(high, low, users, epsilon, truth * (1 - Fraction(1, 10**9))).verdict is Verdict.NO


@pytest.mark.exhaustive
def test_few_coins_and_many_agree() -> None:
    """On either side of the number of users at which the proof changes."""
    high, low = sdp.KRR(1.0, options=2).coin_range() or (Fraction(0), Fraction(0))
    high, low = max(high, low), min(high, low)
    for users in (MAX_EXHAUSTIVE_USERS, MAX_EXHAUSTIVE_USERS + 100):
        value = sdp.amplify(sdp.KRR(1.0, options=2), users, bound="exact-binary").epsilon(1e-6).upper
        assert (
            decide_binary_direction(high, low, users, Fraction(value * 1.0001), Fraction(1e-6)).verdict is Verdict.YES
        )
        assert decide_binary_direction(high, low, users, Fraction(value * 0.97), Fraction(1e-6)).verdict is Verdict.NO


# --- noisy crowds -----------------------------------------------------------------------------------------------------


def divergence_of(law: list[tuple[Fraction, Fraction, Fraction]], messages: int, ratio: Fraction) -> Fraction:
    """D among so many messages, by all counts of all classes."""
    total = Fraction(0)
    for counts in itertools.product(range(messages + 1), repeat=len(law)):
        if sum(counts) != messages:
            continue
        ways = math.factorial(messages) // math.prod(map(math.factorial, counts))
        chance = ways * math.prod(h**k for (_, _, h), k in zip(law, counts, strict=True))
        mean = sum((k * (a - ratio * b) / h for (a, b, h), k in zip(law, counts, strict=True)), Fraction(0))
        total += chance * max(Fraction(0), mean) / messages
    return total


def test_a_noisy_crowd_against_all_counts() -> None:
    thirds = Fraction(1, 3)
    law = [
        (Fraction(2, 3), Fraction(1, 6), thirds),
        (Fraction(1, 6), Fraction(2, 3), thirds),
        (Fraction(1, 6),) * 2 + (thirds,),
    ]
    balls = [tuple(fmpq(x.numerator, x.denominator) for x in row) for row in law]
    others, chance, epsilon = 3, Fraction(2, 5), Fraction(1, 4)
    ratio = Fraction(math.exp(epsilon))
    truth = sum(
        math.comb(others, k) * chance**k * (1 - chance) ** (others - k) * divergence_of(law, 2 + k, ratio)
        for k in range(others + 1)
    )
    crowd = RandomBlanket(2, others, chance)
    assert crowd.decide(balls, epsilon, truth * Fraction(101, 100)).verdict is Verdict.YES
    assert crowd.decide(balls, epsilon, truth * Fraction(99, 100)).verdict is not Verdict.YES
    sides = enclose_divergence(balls, 3, epsilon, 1e-4)
    assert sides is not None
    assert float(sides.lower) <= float(divergence_of(law, 3, ratio)) * (1 + 1e-9)
    assert float(sides.upper) >= float(divergence_of(law, 3, ratio)) * (1 - 1e-9)
