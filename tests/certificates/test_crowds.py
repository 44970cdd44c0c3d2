"""The second proof of the worst crowd: against exact fractions, the engine and every edit of a file."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from flint import arb, fmpq
from shuffledp_verify import Finding, Verdict
from shuffledp_verify.arithmetic import bracket_exponential, precision
from shuffledp_verify.verdict import Undecided
from shuffledp_verify.worst_dataset_bound import ContourNodes, Hull, LawFamily, decide_worst_dataset

import shuffledp as sdp
from shuffledp.certificates import mechanism_evidence
from shuffledp.certificates.certify import certify
from shuffledp.certificates.claim import build_claim, parse_mechanism_claim, round_up_with_margin, verify
from shuffledp.mechanisms import catalogue
from shuffledp.privacy.dominating_pairs import ListedOtherUsers
from tests.cli import run

Exact = Sequence[tuple[Fraction, Fraction]]
"""Values and weights."""
Document = dict[str, Any]


# --- exact fractions --------------------------------------------------------------------------------------------------


def added(one: dict[Fraction, Fraction], law: Exact) -> dict[Fraction, Fraction]:
    result: dict[Fraction, Fraction] = {}
    for (total, chance), (value, weight) in product(one.items(), law):
        result[total + value] = result.get(total + value, Fraction(0)) + chance * weight
    return result


def means_of_pairs(first: Exact, second: Exact, count: int) -> list[Fraction]:
    """E(S)_+/count of every crowd of two kinds, by how many are of the second."""
    sums = [[{Fraction(0): Fraction(1)}], [{Fraction(0): Fraction(1)}]]
    for law, rows in zip((first, second), sums, strict=True):
        for _ in range(count):
            rows.append(added(rows[-1], law))
    found = []
    for k in range(count + 1):
        pairs = product(sums[0][count - k].items(), sums[1][k].items())
        found.append(sum((p * q * max(a + b, Fraction(0)) for (a, p), (b, q) in pairs), Fraction(0)) / count)
    return found


def balls(law: Exact) -> list[tuple[arb, arb]]:
    return [(arb(rational(value)), arb(rational(weight))) for value, weight in law]


def rational(number: Fraction) -> fmpq:
    return fmpq(number.numerator, number.denominator)


def log(number: Fraction) -> float:
    return math.log(number.numerator) - math.log(number.denominator)


WIDE: Exact = [(Fraction(1), Fraction(1, 4)), (Fraction(-1, 2), Fraction(3, 4))]
NARROW: Exact = [(Fraction(1, 3), Fraction(1, 2)), (Fraction(-7, 12), Fraction(1, 2))]
SKEW: Exact = [(Fraction(7, 8), Fraction(1, 10)), (Fraction(0), Fraction(3, 5)), (Fraction(-17, 24), Fraction(3, 10))]
PAIRS = [(WIDE, NARROW), (WIDE, SKEW), (SKEW, NARROW)]


class TestOfCompositions:
    """Bounds of E(S)_+/m against the same in fractions, for every crowd of two kinds."""

    @pytest.mark.parametrize("cost", [1e-4, 1e-2])
    @pytest.mark.parametrize("laws", PAIRS)
    def test_a_hull_bounds_every_crowd_in_it(self, laws: tuple[Exact, Exact], cost: float) -> None:
        """Of all crowds and of parts of them, at both ends and, by the chord, between them."""
        with precision(160):
            nodes = ContourNodes([balls(law) for law in laws], 7, 4, cost)
            whole = Hull(nodes, 7, 4)
            truth = {count: means_of_pairs(*laws, count) for count in range(4, 8)}
            for low, high in ((0.0, 1.0), (0.0, 0.5), (0.25, 0.5), (1.0, 1.0)):
                corners = [whole.mix(*whole.corners, share=1 - part) for part in (low, high)]
                (most, fewest), _ = whole.bound(corners)
                for count, found in truth.items():
                    part = (count - 4) / 3
                    chord = part * math.exp(most) + (1 - part) * math.exp(fewest)
                    inside = [mean for k, mean in enumerate(found) if low <= k / count <= high]
                    assert not inside or chord >= max(inside)

    @pytest.mark.exhaustive("40-laws1", "40-laws2")
    @pytest.mark.parametrize("laws", PAIRS)
    @pytest.mark.parametrize("count", [2, 12, 40])
    def test_the_worst_crowd_is_found_within_a_percent_and_never_undercut(
        self, laws: tuple[Exact, Exact], count: int
    ) -> None:
        truth = log(max(means_of_pairs(*laws, count)))
        with precision(160):
            for cost in (1e-4, 1e-3, 4e-3):
                bound = Hull(ContourNodes([balls(law) for law in laws], count, count, cost), count, count)
                with pytest.raises(Undecided):
                    bound.prove((truth - 1e-6, truth - 1e-6))
            if count >= 40:
                bound = Hull(ContourNodes([balls(law) for law in laws], count, count, 1e-3), count, count)
                assert truth <= max(bound.prove((truth + 0.01, truth + 0.01))) <= truth + 0.01
                sharp = Hull(ContourNodes([balls(law) for law in laws], count, count, 3e-4), count, count)
                assert abs(max(sharp.sample()) - truth) <= 0.01

    def test_halves_cover(self) -> None:
        """A point of a hull is in one of its two parts, whichever way it is cut."""
        with precision(160):
            hull = Hull(ContourNodes([balls(law) for law in (WIDE, NARROW, SKEW)], 9, 9, 1e-3), 9, 9)
        corners = hull.corners
        one, other = hull.split_at_midpoint(corners, 0, 1)
        assert one[0].shares == other[1].shares == (0.5, 0.5, 0.0)
        assert one[1:] == corners[1:]
        near, far = hull.split_around(corners, 2)
        assert [corner.shares for corner in near] == [(0.5, 0.0, 0.5), (0.0, 0.5, 0.5), (0.0, 0.0, 1.0)]
        assert far == [*near[:2], *corners[:2]]
        # A middle is what its shares say, but for rounding.
        direct = hull.mix(corners[0], corners[2])
        assert direct.magnitudes[0] == pytest.approx(near[0].magnitudes[0], rel=1e-12)


class TestTheorem:
    """The whole sum in fractions: binary randomized response, e^ε0 = 2, every crowd."""

    @pytest.mark.exhaustive("18", "24")
    @pytest.mark.parametrize("others", [1, 18, 24])
    def test_against_fractions(self, others: int) -> None:
        gamma, epsilon = Fraction(2, 3), Fraction(1, 8)
        rows = [[Fraction(2, 3), Fraction(1, 3)], [Fraction(1, 3), Fraction(2, 3)]]
        kinds = tuple(
            tuple((rational(a), rational(b), rational(h)) for a, b, h in zip(*rows, row, strict=True)) for row in rows
        )
        low, high = (Fraction(int(side.p), int(side.q)) for side in bracket_exponential(epsilon))

        def total(ratio: Fraction) -> Fraction:
            laws = [[((a - ratio * b) / h, h) for a, b, h in zip(*rows, row, strict=True)] for row in rows]
            lost = [gamma * (1 - gamma) ** h * max(means_of_pairs(*laws, others - h)) for h in range(others)]
            return sum(lost, (1 - gamma) ** others)

        family = LawFamily(rational(gamma), kinds)
        assert decide_worst_dataset(family, others, epsilon, total(low) * Fraction(103, 100)).verdict is Verdict.YES
        for share in (Fraction(999999, 1000000), Fraction(9, 10), Fraction(1, 100)):
            assert decide_worst_dataset(family, others, epsilon, total(high) * share).verdict is not Verdict.YES
        assert decide_worst_dataset(family, others, epsilon, total(high) / 100).verdict is Verdict.NO

    def test_no_ratio_above(self) -> None:
        """Beyond the largest ratio only the lost crowd is left."""
        half = fmpq(1, 2)
        family = LawFamily(half, (((half, half, half), (half, half, half)),))
        assert decide_worst_dataset(family, 3, Fraction(1), Fraction(1, 8)).verdict is Verdict.YES
        assert decide_worst_dataset(family, 3, Fraction(1), Fraction(1, 9)).verdict is not Verdict.YES

    def test_a_law_that_is_not_known(self) -> None:
        """One sentence."""
        half, wide = fmpq(1, 2), arb(0, 1)
        family = LawFamily(half, (((half, fmpq(1, 4), wide), (half, fmpq(3, 4), wide)),))
        finding = decide_worst_dataset(family, 30, Fraction(1, 10), Fraction(1, 10))
        assert finding.verdict is Verdict.OPEN
        assert "not known to be positive" in finding.reason


# --- the engine ----------------------------------------------------------------------------------------------------


def made(name: str, epsilon: float, **settings: int) -> Any:
    kind = catalogue.find(name)
    assert kind is not None
    return catalogue.construct(kind, epsilon, settings)


ENGINE = [
    (sdp.KRR(1.0, 128), 10**4),
    (sdp.KRR(3.0, 16), 10**6),
    (sdp.KRR(1.0, 16), 10**9),
    (sdp.RAPPOR(1.0, 128), 1000),
    (sdp.VariationRatio.from_ldp(1.0), 50),
    (sdp.VariationRatio.from_ldp(1.0), 10**4),
    (sdp.VariationRatio.from_ldp(3.0), 10**6),
    (sdp.VariationRatio(3.0, 0.3, 3.0, local=True), 2000),
    (made("hadamard-response", 1.0, options=128), 10**4),
    (made("privkv", 1.0, keys=20), 10**4),
    (sdp.Laplace(1.0, grid=8), 2000),
]


@pytest.mark.exhaustive("Laplace-int", "VariationRatio-int0")
@pytest.mark.parametrize(("randomizer", "users"), ENGINE, ids=lambda one: getattr(type(one), "__name__", ""))
def test_what_the_engine_finds_is_proved(randomizer: Any, users: int) -> None:
    """A thousandth above its ε; a hundredth below that of a real crowd it is refused."""
    delta = 1e-6 if users > 100 else 1e-3
    value = sdp.amplify(randomizer, users, bound="all-crowds").epsilon(delta)
    claim = build_claim(randomizer, users, value, delta=delta)
    assert verify(dataclasses.replace(claim, epsilon=value.upper * 1.001)).verdict is Verdict.YES
    below = (value.upper if value.lower is None else value.lower) * 0.99
    finding = verify(dataclasses.replace(claim, epsilon=below))
    assert finding.verdict is Verdict.NO


def test_it_does_not_ask_the_engine() -> None:
    claim = certify(sdp.VariationRatio.from_ldp(1.0), 3000, delta=1e-6, effort="full")
    broken = mock.Mock(side_effect=AssertionError("the engine was asked"))
    with (
        mock.patch.multiple(
            "shuffledp.numerics.worst_case_positive_part.WorstDatasetMixture",
            __init__=broken,
            bound_worst_mixture=broken,
        ),
        mock.patch("shuffledp.numerics.positive_part.PositivePartMean.bracket", broken),
        mock.patch("shuffledp.bounds.worst_dataset_bound.WorstDatasetDivergence.bracket", broken),
    ):
        assert verify(claim).verdict is Verdict.YES


class TestCertify:
    """Which bound is claimed, and how much it is raised."""

    def test_all_crowds_where_they_are_looked_at(self) -> None:
        randomizer = sdp.VariationRatio.from_ldp(1.0)
        claim = certify(randomizer, 5000, delta=1e-6, effort="full")
        value = sdp.amplify(randomizer, 5000, bound="all-crowds").epsilon(1e-6)
        assert claim.bound == "all-crowds"
        assert claim.epsilon in [
            float(round_up_with_margin(value.upper, margin))
            for margin in mechanism_evidence.MechanismWorstDatasetEvidence.epsilon_margins
        ]
        assert claim.epsilon < certify(randomizer, 5000, delta=1e-6, effort="quick").epsilon
        assert "local = True" in str(claim)
        assert parse_mechanism_claim(claim.text()) == claim
        assert verify(parse_mechanism_claim(claim.text())).verdict is Verdict.YES

    def test_delta(self) -> None:
        claim = certify(sdp.RAPPOR(1.0, 16), 5000, epsilon=0.05, effort="full")
        assert claim.bound == "all-crowds"
        assert claim.delta < certify(sdp.RAPPOR(1.0, 16), 5000, epsilon=0.05, effort="quick").delta
        assert verify(claim).verdict is Verdict.YES

    def test_between_a_bound_without_a_second_proof_and_the_others(self) -> None:
        """Of two messages of few users the exact bound is the best; all crowds come next, where there is time."""
        undecided = Finding(Verdict.OPEN, "it takes too long.", "none")
        with mock.patch("shuffledp_verify.proofs.decide_binary", return_value=undecided):
            claim = certify(sdp.KRR(1.0, 2), 4_000, delta=1e-6, effort="full")
            assert claim.bound == "all-crowds"
            assert claim.epsilon < certify(sdp.KRR(1.0, 2), 4_000, delta=1e-6, effort="quick").epsilon

    def test_too_many_kinds(self) -> None:
        """The best of one law instead; by its name a sentence."""
        with mock.patch.object(mechanism_evidence, "MAX_CLASSES", 5):
            assert certify(sdp.RAPPOR(1.0, 16), 2000, delta=1e-6, effort="full").bound == "optimal"
            with pytest.raises(ValueError, match="at most 5 classes of messages"):
                certify(sdp.RAPPOR(1.0, 16), 2000, delta=1e-6, bound="all-crowds")

    def test_no_proof_is_found(self) -> None:
        """A reason, and what is second best."""
        with mock.patch("shuffledp_verify.worst_dataset_bound.MAX_NODE_TERMS", 0):
            assert certify(sdp.RAPPOR(1.0, 16), 2000, delta=1e-6, effort="full").bound == "optimal"
            with pytest.raises(ValueError, match="no second proof of all-crowds was found: the sum over all kinds"):
                certify(sdp.RAPPOR(1.0, 16), 2000, delta=1e-6, bound="all-crowds")


# --- edits ---------------------------------------------------------------------------------------------------------


def document_of(randomizer: Any) -> Document:
    found: Document = json.loads(certify(randomizer, 5000, delta=1e-6, bound="all-crowds").text())
    return found


def verdict(document: Document) -> Verdict:
    edited = copy.deepcopy(document)
    edited["statement"] = (
        f"Replacing one user's value changes the shuffled messages of {edited['users']} users "
        f"by at most epsilon = {float(edited['epsilon'])!r}, delta = {float(edited['delta'])!r}."
    )
    return verify(parse_mechanism_claim(json.dumps(edited))).verdict


def changed(document: Document) -> None:
    document["crowds"][0]["kinds"][1][0]["hiding"] = "1/7"


EDITS: dict[str, Callable[[Document], object]] = {
    "epsilon a percent smaller": lambda d: d.update(epsilon=d["epsilon"] * 0.99),
    "delta smaller": lambda d: d.update(delta=d["delta"] * 0.9),
    "fewer users": lambda d: d.update(users=4800),
    "a larger gamma": lambda d: d["crowds"][0].update(gamma="9/10"),
    "gamma 1": lambda d: d["crowds"][0].update(gamma="1"),
    "a kind dropped": lambda d: d["crowds"][0]["kinds"].pop(),
    "a kind doubled": lambda d: d["crowds"][0]["kinds"].append(d["crowds"][0]["kinds"][0]),
    "a class dropped": lambda d: d["crowds"][0]["kinds"][0].pop(),
    "a probability changed": changed,
    "a direction added": lambda d: d["crowds"].append(d["crowds"][0]),
    "theorem renamed": lambda d: d.update(theorem="a better theorem"),
}


class TestEdits:
    """What makes a claim false or its file inconsistent is refused."""

    MECHANISM = document_of(sdp.RAPPOR(1.0, 16))
    PARAMETERS = document_of(sdp.VariationRatio.from_ldp(1.0))

    @pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
    @pytest.mark.parametrize("document", [MECHANISM, PARAMETERS], ids=["mechanism", "parameters"])
    def test_refused(self, document: Document, edit: Callable[[Document], object]) -> None:
        assert verdict(document) is Verdict.YES
        edited = copy.deepcopy(document)
        edit(edited)
        assert verdict(edited) is Verdict.NO

    def test_an_epsilon_a_little_smaller(self) -> None:
        """Nothing is said to be true that is not proved."""
        for share in (0.999, 0.9995, 0.9998):
            edited = {**self.MECHANISM, "epsilon": self.MECHANISM["epsilon"] * share}
            assert verdict(edited) is not Verdict.YES

    def test_more_users_or_more_loss_is_still_true(self) -> None:
        for field, value in (("users", 6000), ("epsilon", 0.5), ("delta", 2e-6)):
            assert verdict({**self.MECHANISM, field: value}) is Verdict.YES

    def test_another_randomizer(self) -> None:
        for field, value in (("epsilon", 1.1), ("settings", {"options": 17})):
            edited = copy.deepcopy(self.MECHANISM)
            edited["randomizer"][field] = value
            assert verdict(edited) is Verdict.NO
        for name, number in (("p", 3.0), ("beta", 0.4)):
            edited = copy.deepcopy(self.PARAMETERS)
            edited["randomizer"]["parameters"][name] = number
            assert verdict(edited) is Verdict.NO

    def test_ratios_must_hold_both_ways(self) -> None:
        edited = copy.deepcopy(self.PARAMETERS)
        del edited["randomizer"]["local"]
        assert verdict(edited) is Verdict.NO
        edited["randomizer"]["local"] = False
        with pytest.raises(ValueError, match="local must be true"):
            verdict(edited)

    @pytest.mark.parametrize(
        ("edit", "part"),
        [
            (lambda d: d.update(crowds=[]), "crowds must be a list"),
            (lambda d: d["crowds"][0].update(gamma=0.5), "gamma must be a text"),
            (lambda d: d["crowds"][0].pop("gamma"), "lacks the field 'gamma'"),
            (lambda d: d["crowds"][0].update(more=1), "unknown field 'more'"),
            (lambda d: d["crowds"][0].update(kinds=[]), "kinds must be a list"),
            (lambda d: d.update(law=[]), "unknown field 'law'"),
            (lambda d: d.update(rounding="none"), "rounding"),
        ],
    )
    def test_bad_files(self, edit: Callable[[Document], object], part: str) -> None:
        edited = copy.deepcopy(self.MECHANISM)
        edit(edited)
        with pytest.raises(ValueError, match=part):
            verdict(edited)


class TestOtherLaws:
    """What the randomizer says of its others is taken at its word, but for what can be seen at once."""

    def test_a_kind_that_a_local_epsilon_allows_is_missing(self) -> None:
        randomizer = sdp.VariationRatio.from_ldp(1.0)
        (family,) = randomizer.other_users()
        told = [k for k, kind in enumerate(family.user_pairs) if any(a != b for a, b, _ in kind.exact or ())]
        assert len(told) == 4
        less = [
            dataclasses.replace(family, listed_pairs=family.user_pairs[:k] + family.user_pairs[k + 1 :]) for k in told
        ]
        value = sdp.amplify(randomizer, 3000, bound="all-crowds").epsilon(1e-6)
        for fewer in less:
            with mock.patch.object(sdp.VariationRatio, "other_users", return_value=(fewer,)):
                finding = verify(build_claim(randomizer, 3000, value, delta=1e-6))
            assert finding.verdict is Verdict.NO
            assert "lack one" in finding.reason

    def test_what_is_said_to_be_its_own_mirror_image(self) -> None:
        """Both directions are proved where that is not so."""
        randomizer = sdp.RAPPOR(1.0, 8)
        (family,) = randomizer.other_users()
        assert isinstance(family, ListedOtherUsers)
        lopsided = dataclasses.replace(family, listed_pairs=family.listed_pairs[:1])
        value = sdp.amplify(randomizer, 3000, bound="all-crowds").epsilon(1e-6)
        with mock.patch.object(sdp.RAPPOR, "other_users", return_value=(lopsided,)):
            finding = verify(build_claim(randomizer, 3000, value, delta=1e-6))
        assert "every dataset, in 2 directions" in finding.reason

    def test_too_many_classes(self) -> None:
        claim = certify(sdp.RAPPOR(1.0, 16), 3000, delta=1e-6, bound="all-crowds")
        with mock.patch.object(mechanism_evidence, "MAX_CLASSES", 5):
            finding = verify(claim)
        assert finding.verdict is Verdict.OPEN
        assert finding.reason == "there are more than 5 classes of messages."


def test_on_the_command_line(tmp_path: Path) -> None:
    """The bound's name is shown, and the file is proved again."""
    claim = str(tmp_path / "claim.json")
    words = ("amplify", "--epsilon-local", "1", "--users", "3000", "--delta", "1e-6", "--effort", "full")
    assert run(*words, "--certificate", claim).status == 0
    shown = run("verify", claim)
    assert shown.status == 0
    assert "all-crowds" in shown.out
    assert json.loads(Path(claim).read_text("utf-8"))["bound"] == "all-crowds"


def test_what_is_cut_has_no_second_proof() -> None:
    for randomizer in (sdp.Gaussian(4.0), sdp.FromTable([[0.5, 0.5, 0.0], [0.5, 0.4, 0.1]])):
        for bound in ("best", "optimal"):
            with pytest.raises(ValueError, match="certificate: where some of a law is cut"):
                certify(randomizer, 1000, delta=0.2, effort="quick", bound=bound)
