"""Claims of rounds and samples: proved again, close to the engine, and every edit refused or not proved."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from shuffledp_verify import Verdict

import shuffledp as sdp
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION
from shuffledp.certificates import certify as points
from shuffledp.certificates.certify import certify, certify_participation
from shuffledp.certificates.claim import Claim, parse_mechanism_claim, verify
from shuffledp.certificates.mechanism_evidence import MechanismRoundsEvidence
from shuffledp.privacy.curve import BoundValue

Document = dict[str, Any]
KRR = sdp.KRR(1.0, options=8)
SCHEDULES: dict[str, dict[str, Any]] = {
    "rounds": {"users": 20_000, "rounds": 5},
    "fixed": {"users": 20_000, "of": 10**6, "rounds": 12},
    "coins": {"of": 10**6, "rate": "2%", "rounds": 2},
    "fixed, once": {"users": 20_000, "of": 10**6},
    "coins, once": {"of": 10**6, "rate": 0.02},
}


@pytest.fixture(scope="module")
def claims() -> dict[str, Claim]:
    return {name: certify(KRR, **given, delta=1e-6, effort="quick") for name, given in SCHEDULES.items()}


def engine(given: dict[str, Any]) -> BoundValue:
    if "rate" in given:
        # As if as many came each time as do on average: a little less, and much quicker than coins.
        given = {"users": 20_000, "of": given["of"], "rounds": given.get("rounds", 1)}
    return sdp.Participation(**given).curve(KRR, effort="quick").epsilon(1e-6)


@pytest.mark.exhaustive("coins", "rounds")
@pytest.mark.parametrize("name", SCHEDULES)
def test_proved_and_close_to_the_engine(name: str, claims: dict[str, Claim]) -> None:
    """As an object and as a file; the two routes agree within a thousandth, for coins nearly."""
    claim, value = claims[name], engine(SCHEDULES[name])
    assert parse_mechanism_claim(claim.text()) == claim
    finding = verify(parse_mechanism_claim(claim.text()))
    assert finding.verdict is Verdict.YES, finding
    assert finding.method.startswith("rounds composed in whole numbers from chords; contour sum in balls")
    assert value.upper - value.slack <= claim.epsilon <= value.upper * (1.015 if "coins" in name else 1.001)


def test_what_is_claimed(claims: dict[str, Claim]) -> None:
    """The rounds, how each is drawn, and the condition."""
    assert claims["rounds"].statement.startswith(
        "Replacing one user's values changes the shuffled messages of 5 rounds of 20000 users by at most epsilon = "
    )
    fixed, coins = claims["fixed"].statement, claims["coins"].statement
    assert "of one of 1000000 people changes the shuffled messages of 12 rounds, in each of which 20000 are" in fixed
    assert "everyone takes part with probability 0.02, by a coin of their own" in coins
    assert fixed.endswith(f"This {SAMPLING_SECRECY_CONDITION}.")
    assert coins.endswith(f"This {SAMPLING_SECRECY_CONDITION}.")
    assert "1 round, in which 20000 are drawn at random, by" in claims["fixed, once"].statement
    assert "points of one round; rounds by [VR] Lemma 7.2; samples by [VR] Proposition 2" in str(claims["fixed"])
    document = json.loads(claims["coins"].text())
    assert document["schedule"] == {"rounds": 2, "of": 10**6, "rate": "0.02", "colluding": 0}
    assert document["users"] == 20_000
    assert document["law"]


@pytest.mark.exhaustive
def test_delta_for_an_epsilon() -> None:
    """The other way round."""
    for name, epsilon in (("fixed", 0.002), ("fixed, once", 0.001), ("coins, once", 0.0005)):
        claim = certify(KRR, **SCHEDULES[name], epsilon=epsilon, effort="quick")
        exact = sdp.Participation(**SCHEDULES[name]).curve(KRR, effort="quick").delta(epsilon).upper
        assert claim.epsilon == epsilon
        assert claim.delta <= exact * 1.2
        assert verify(claim).verdict is Verdict.YES


def test_who_colludes() -> None:
    """Those of the population who tell whether they were drawn; the claim says so, as the engine counts them."""
    claim = certify(KRR, 20_000, of=10**6, colluding=5_000, delta=1e-6, effort="quick")
    schedule = sdp.Participation(20_000, 10**6)
    value = schedule.curve(KRR, colluding=5_000, effort="quick").epsilon(1e-6)
    assert claim.epsilon == pytest.approx(value.upper, rel=1e-3)
    assert claim.users == 15_000
    assert "1000000 people, 5000 of whom collude," in claim.statement
    assert "20000 are drawn at random and at least 15000 who do not collude come" in claim.statement
    assert verify(claim).verdict is Verdict.YES


def test_all_crowds() -> None:
    """The best bound that takes longer, by its own second proof."""
    claim = certify(sdp.RAPPOR(1.0, 16), 30_000, of=10**5, delta=1e-6)
    assert claim.bound == "all-crowds"
    assert claim.epsilon < certify(sdp.RAPPOR(1.0, 16), 30_000, of=10**5, delta=1e-6, effort="quick").epsilon
    assert "worst dataset" in verify(parse_mechanism_claim(claim.text())).method


@pytest.mark.exhaustive
def test_two_messages_and_parameters() -> None:
    """Other kinds of evidence serve as well: points of any kind of one round."""
    coin = certify(sdp.KRR(1.0, 2), 200, of=10**4, delta=1e-4, effort="quick")
    assert coin.bound == "exact-binary"
    assert verify(parse_mechanism_claim(coin.text())).verdict is Verdict.YES
    asymmetric = sdp.VariationRatio(4.0, 0.2, (3.0, 2.0), q_common=3.0)
    ratios = certify(asymmetric, 20_000, of=10**5, delta=1e-6, effort="quick")
    assert ratios.bound == "variation-ratio"
    assert verify(parse_mechanism_claim(ratios.text())).verdict is Verdict.YES


# --- edits ------------------------------------------------------------------------------------------------------------


def edited(claim: Claim, edit: Callable[[Document], object]) -> Verdict:
    """The verdict of a file with the statement that goes with its numbers: the forger knows the format."""
    document = json.loads(claim.text())
    edit(document)
    backing = MechanismRoundsEvidence.from_document(document)
    changed = dataclasses.replace(
        claim,
        **{name: document[name] for name in ("randomizer", "users", "epsilon", "delta", "bound", "theorem")},
        evidence=backing,
    )
    document["statement"] = changed.statement
    return verify(parse_mechanism_claim(json.dumps(document))).verdict


def lower_points(document: Document) -> None:
    for size in document["sizes"]:
        size["points"] = [[epsilon, delta * 0.9] for epsilon, delta in size["points"]]


def lower_a_point(document: Document) -> None:
    place = len(document["sizes"][0]["points"]) // 2
    document["sizes"][0]["points"][place][1] *= 0.97


FALSE: dict[str, Callable[[Document], object]] = {
    "epsilon two percent smaller": lambda d: d.update(epsilon=d["epsilon"] * 0.98),
    "delta smaller": lambda d: d.update(delta=d["delta"] * 0.9),
    "a round more": lambda d: d["schedule"].update(rounds=13),
    "fewer people": lambda d: d["schedule"].update(of=900_000),
    "more colluding": lambda d: d["schedule"].update(colluding=200),
}
WRONG: dict[str, Callable[[Document], object]] = {
    "points lowered": lower_points,
    "a point lowered": lower_a_point,
    "more local epsilon": lambda d: d["randomizer"].update(epsilon=1.1),
    "a law changed": lambda d: d["law"][0][0].update(hiding="1/7"),
    "another bound": lambda d: d.update(bound="clone"),
    "theorem renamed": lambda d: d.update(theorem="a better theorem"),
}


class TestEdits:
    """Nothing in the file is believed but the question."""

    @pytest.mark.parametrize("edit", FALSE.values(), ids=FALSE.keys())
    def test_not_proved(self, edit: Callable[[Document], object], claims: dict[str, Claim]) -> None:
        assert edited(claims["fixed"], edit) is not Verdict.YES

    @pytest.mark.parametrize("edit", WRONG.values(), ids=WRONG.keys())
    def test_refuted(self, edit: Callable[[Document], object], claims: dict[str, Claim]) -> None:
        assert edited(claims["fixed"], edit) is Verdict.NO

    def test_refuted_for_coins(self, claims: dict[str, Claim]) -> None:
        """Forged points, numbers that do not follow, and a rate that is not the claimed one."""
        claim = claims["coins, once"]
        assert edited(claim, lower_points) is Verdict.NO
        assert edited(claim, lambda d: d.update(users=30_000)) is Verdict.NO
        assert edited(claim, lambda d: d["schedule"].update(rate="0.03")) is Verdict.NO
        assert edited(claim, lambda d: d.update(epsilon=d["epsilon"] * 0.98)) is not Verdict.YES
        assert edited(claim, lambda d: d["sizes"].pop(0)) is not Verdict.YES

    @pytest.mark.exhaustive
    def test_one_round_alone_disproves(self, claims: dict[str, Claim]) -> None:
        """No, where the claim is less than what one round costs; less certain ones are left open."""
        claim = claims["fixed, once"]
        assert edited(claim, lambda d: d.update(epsilon=d["epsilon"] * 0.9)) is Verdict.NO
        assert edited(claims["fixed"], lambda d: d.update(epsilon=d["epsilon"] / 10)) is Verdict.NO
        assert edited(claims["fixed"], FALSE["epsilon two percent smaller"]) is Verdict.OPEN

    def test_users_who_are_not_there(self, claims: dict[str, Claim]) -> None:
        claim = claims["fixed, once"]
        assert edited(claim, lambda d: d["sizes"][0].update(users=21_000)) is Verdict.NO
        assert edited(claim, lambda d: d["schedule"].update(drawn=19_000)) is Verdict.NO

    def test_samples_of_which_some_stay_away(self, claims: dict[str, Claim]) -> None:
        """Whoever comes is a share of those who would, not of all people: the share that was drawn proves nothing."""
        claim = claims["fixed, once"]

        def fewer(document: Document) -> None:
            document.update(users=10_000, epsilon=document["epsilon"] * 3)
            document["sizes"][0].update(users=10_000)

        assert edited(claim, fewer) is Verdict.NO
        with pytest.raises(ValueError, match="one of which some may have stayed away"):
            certify_participation(KRR, sdp.Participation(100, 1000).with_respondents(50, 1e-6), 50, delta=1e-6)

    @pytest.mark.exhaustive
    def test_weaker_claims_are_still_true(self, claims: dict[str, Claim]) -> None:
        for edit in (
            lambda d: d.update(epsilon=d["epsilon"] * 2),
            lambda d: d["schedule"].update(of=2 * 10**6),
            lambda d: d["schedule"].update(rounds=11),
            lambda d: d["sizes"][0]["points"].pop(3),
        ):
            assert edited(claims["fixed"], edit) in (Verdict.YES, Verdict.OPEN)
        assert edited(claims["fixed, once"], lambda d: d["schedule"].update(of=2 * 10**6)) is Verdict.YES

    def test_a_law_of_chosen_inputs_is_not_one_of_all(self) -> None:
        """What two inputs are promised is not promised to everybody."""
        laplace = sdp.Laplace(1.0, grid=4)
        once = certify(laplace, 2_000, of=10**4, delta=1e-3, effort="quick", bound="optimal")
        pair = certify(laplace, 2_000, pair=[0.0, 0.25], delta=1e-3, effort="quick", bound="optimal")
        document = json.loads(once.text()) | {"inputs": json.loads(pair.text())["inputs"]}
        finding = verify(parse_mechanism_claim(json.dumps(document)))
        assert finding.verdict is Verdict.NO
        assert "for all inputs" in finding.reason
        with pytest.raises(ValueError, match="pair and diameter are for one round"):
            certify(laplace, 2_000, rounds=2, pair=[0.0, 0.25], delta=1e-3)

    @pytest.mark.parametrize(
        ("edit", "part"),
        [
            (lambda d: d["schedule"].pop("rounds"), "lacks the field 'rounds'"),
            (lambda d: d["schedule"].update(rounds=0), "rounds must be"),
            (lambda d: d["schedule"].update(drawn=2 * 10**6), "drawn must be"),
            (lambda d: d["schedule"].update(colluding=10**6), "colluding must be"),
            (lambda d: d["schedule"].update(rate="0.02"), "unknown field 'drawn'"),
            (lambda d: d.update(schedule=[]), "schedule must be an object"),
            (lambda d: d.update(step=0), "step must be above 0"),
            (lambda d: d.update(sizes=[]), "sizes must be a list"),
            (lambda d: d["sizes"].append(d["sizes"][0]), "sizes must rise"),
            (lambda d: d["sizes"].append(d["sizes"][0] | {"users": 21_000}), "there must be one size"),
            (lambda d: d["sizes"][0]["points"].append([0.0, 0.5]), "epsilons of points must rise"),
            (lambda d: d["sizes"][0]["points"].append([0.0]), "a point must be a list"),
            (lambda d: d["sizes"][0]["points"][0].__setitem__(1, 2), "delta of a point must be"),
            (lambda d: d.update(crowds=[]), "unknown field 'crowds'"),
            (lambda d: d.update(rounding="none"), "rounding"),
            (
                lambda d: d.update(statement=d["statement"].removesuffix(f" This {SAMPLING_SECRECY_CONDITION}.")),
                "statement",
            ),
        ],
    )
    def test_bad_files(self, edit: Callable[[Document], object], part: str, claims: dict[str, Claim]) -> None:
        document = json.loads(claims["fixed"].text())
        edit(document)
        with pytest.raises(ValueError, match=part):
            parse_mechanism_claim(json.dumps(document))

    @pytest.mark.parametrize("rate", ["2%", "0.020", ".02", "1.0", "0", 0.02])
    def test_a_rate_is_one_decimal(self, rate: Any, claims: dict[str, Claim]) -> None:
        document = copy.deepcopy(json.loads(claims["coins, once"].text()))
        document["schedule"]["rate"] = rate
        with pytest.raises(ValueError, match="rate must be"):
            parse_mechanism_claim(json.dumps(document))


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^certify: rounds must be at least 1"):
        certify(KRR, 100, rounds=0, delta=1e-6)
    with pytest.raises(ValueError, match="colluding must be below the 100 users of a round"):
        certify(KRR, 100, of=1000, colluding=100, delta=1e-6)
    with pytest.raises(ValueError, match="not a guarantee"):
        certify(KRR, 100, rounds=2, delta=1e-6, bound="variation-ratio-published")
    with pytest.raises(ValueError, match="expected a numeric bound"):
        certify(KRR, 10**5, rounds=2, delta=1e-6, bound="analytic")
    with pytest.raises(ValueError, match="some of a law is cut"):
        certify(sdp.Gaussian(4.0), 1000, rounds=2, delta=0.2)
    with pytest.raises(ValueError, match="epsilon is above 700 at this delta; claim a larger delta"):
        certify(sdp.VariationRatio(float("inf"), 0.5, 4.0), 10, rounds=2, delta=1e-6, effort="quick")
    monkeypatch.setattr(points, "DELTA_MARGINS", (-0.5, -0.5))
    with pytest.raises(ValueError, match="no second proof of optimal was found for the rounds"):
        certify(KRR, 2_000, of=10**4, delta=1e-6, bound="optimal")


# --- the deployment of the README -------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({"users": 100_000, "rounds": 52}, 0.2320),
        ({"users": 100_000, "of": 5_000_000, "rounds": 52}, 0.003825),
        ({"of": 5_000_000, "rate": "2%", "rounds": 52}, 0.003840),
    ],
    ids=["known", "fixed", "coins"],
)
def test_a_year_of_rappor(given: dict[str, Any], most: float) -> None:
    """64 options, ε0 = 2, 100,000 of 5,000,000 a week, 52 weeks, δ = 1e-8."""
    claim = certify(sdp.RAPPOR(2.0, 64), **given, delta=1e-8)
    assert 0.98 * most <= claim.epsilon <= most
    assert verify(parse_mechanism_claim(claim.text())).verdict is Verdict.YES
    assert edited(claim, lower_a_point) is Verdict.NO
