"""Claims over a grid are proved again; every edit is refused."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from shuffledp_verify import Verdict
from shuffledp_verify.message_laws import VariationRatioParameters

import shuffledp as sdp
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.certificates.claim import build_claim, parse_mechanism_claim, round_up_with_margin, verify
from shuffledp.certificates.mechanism_evidence import MechanismBlanketEvidence
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.frequency.unary_encoding import RAPPOR
from shuffledp.mechanisms.mean.laplace import Laplace
from shuffledp.mechanisms.table_and_density import FromTable
from tests.oracle.exact_enumeration import hockey_stick_of_counts

Document = dict[str, Any]

RANDOMIZERS: dict[str, Any] = {
    "krr": KRR(2.0, 16),
    "krr-2": KRR(1.0, 2),
    "krr-large": KRR(3.0, 10**5),
    "rappor": RAPPOR(2.0, 6),
    "laplace": Laplace(1.0, grid=4),
    "table": FromTable([[0.5, 0.3, 0.1, 0.1], [0.25, 0.25, 0.3, 0.2], [0.2, 0.2, 0.2, 0.4]]),
    "any ldp": sdp.VariationRatio.from_ldp(2.0),
    "common part": sdp.VariationRatio(4.0, 0.2, 4.0),
    "disjoint": sdp.VariationRatio(math.inf, 1.0, 16.0),
    "infinite p": sdp.VariationRatio(math.inf, 0.001, 8.0),
    "asymmetric": sdp.VariationRatio(4.0, 0.2, (3.0, 2.0), q_common=3.0),
    "asymmetric, infinite p": sdp.VariationRatio(math.inf, 0.3, (6.0, 3.0)),
    "asymmetric, disjoint": sdp.VariationRatio(math.inf, 1.0, (2.0, 4.0)),
}
DELTAS = [1e-3, 1e-9, 1e-100]
USERS = [1, 2, 30, 200, 20_000, 10**6, 10**12]
"""Some for each way in which the engine may go."""


def certificate(randomizer: object, users: int, bound: str = "best", **target: float) -> Document:
    """The parsed file of a claim."""
    curve = sdp.amplify(randomizer, users, bound=bound, effort="quick")
    value = curve.epsilon(**target) if "delta" in target else curve.delta(**target)
    document = json.loads(build_claim(randomizer, users, value, **target).text())
    assert isinstance(document, dict)
    return document


def verdict(document: Document) -> Verdict:
    return verify(parse_mechanism_claim(json.dumps(document))).verdict


def with_statement(document: Document) -> Document:
    """The edited document with the statement that goes with its numbers: the forger knows the format."""
    edited = copy.deepcopy(document)
    edited["statement"] = (
        f"Replacing one user's value changes the shuffled messages of {edited['users']} users "
        f"by at most epsilon = {float(edited['epsilon'])!r}, delta = {float(edited['delta'])!r}."
    )
    return edited


class TestYes:
    """What the engine certifies, the proof proves."""

    @pytest.mark.exhaustive("laplace-30", "table-200")
    @pytest.mark.parametrize("users", USERS)
    @pytest.mark.parametrize("name", RANDOMIZERS)
    def test_the_default_bound(self, name: str, users: int) -> None:
        """Every randomizer at every n, with one δ each; one of them with all."""
        place = (list(RANDOMIZERS).index(name) + USERS.index(users)) % len(DELTAS)
        for delta in DELTAS if name == "krr" else DELTAS[place : place + 1]:
            value = sdp.amplify(RANDOMIZERS[name], users, bound=MechanismBlanketEvidence.bounds).epsilon(delta)
            if value.upper < 700:
                document = json.loads(build_claim(RANDOMIZERS[name], users, value, delta=delta).text())
                assert verdict(document) is Verdict.YES, (delta, document["epsilon"])

    @pytest.mark.parametrize("bound", MechanismBlanketEvidence.bounds)
    @pytest.mark.parametrize("users", [1, 40, 3000, 10**7])
    def test_every_numeric_bound(self, bound: str, users: int) -> None:
        for randomizer in (KRR(1.0, 4), sdp.VariationRatio.from_ldp(1.0)):
            if bound != "optimal" or isinstance(randomizer, KRR):
                assert verdict(certificate(randomizer, users, bound, delta=1e-6)) is Verdict.YES

    @pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.3, 2.5])
    def test_delta_for_an_epsilon(self, epsilon: float) -> None:
        for randomizer in (KRR(2.0, 16), RANDOMIZERS["asymmetric"]):
            for users in (5, 500, 10**5):
                document = certificate(randomizer, users, epsilon=epsilon)
                assert document["epsilon"] == epsilon
                assert verdict(document) is Verdict.YES

    def test_it_does_not_ask_the_engine(self) -> None:
        """With the engine's entry points out of order, the proof is the same."""
        document = certificate(KRR(2.0, 16), 5000, delta=1e-6)
        broken = mock.Mock(side_effect=AssertionError("the engine was asked"))
        with (
            mock.patch.multiple("shuffledp.numerics.contour_integral", bracket=broken, make_plan=broken),
            mock.patch("shuffledp.numerics.positive_part.PositivePartMean.bracket", broken),
        ):
            assert verdict(document) is Verdict.YES

    @pytest.mark.parametrize("value", [1e-9, 0.1234567, 0.12345671, 3.0, 699.99999, 1.0 - 1e-16])
    def test_rounding_leaves_room(self, value: float) -> None:
        """At least 2e-8 above, at most seven digits, not much above."""
        raised = Fraction(round_up_with_margin(value, MechanismBlanketEvidence.epsilon_margins[0]))
        assert Fraction(value) * (1 + Fraction(2, 10**8)) <= raised <= Fraction(value) * (1 + Fraction(11, 10**7))
        assert len(round_up_with_margin(value, MechanismBlanketEvidence.epsilon_margins[0]).as_tuple().digits) <= 7


Edit = Callable[[Document], None]


def put(*path: Any, value: Any) -> Edit:
    def edit(document: Document) -> None:
        target: Any = document
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return edit


def scale(field: str, factor: float) -> Edit:
    def edit(document: Document) -> None:
        document[field] = float(f"{document[field] * factor:.12g}")

    return edit


FALSE_EDITS: dict[str, Edit] = {
    "epsilon lowered by 1e-4": scale("epsilon", 1 - 1e-4),
    "epsilon lowered by a percent": scale("epsilon", 0.99),
    "epsilon 0": put("epsilon", value=0),
    "delta lowered": scale("delta", 0.98),
    "delta 0": put("delta", value=0),
    "fewer users": put("users", value=4900),
    "one user": put("users", value=1),
    "a class changed": put("law", 0, 0, "hiding", value="1/7"),
    "a class changed a little": put("law", 0, 1, "second", value="[0.3 +/- 0]"),
    "a wide ball": put("law", 0, 0, "first", value="[0.5 +/- 0.5]"),
    "a class doubled": lambda document: document["law"][0].append(document["law"][0][0]),
    "a class left out": lambda document: document["law"][0].pop(),
    "a direction added": lambda document: document["law"].append(document["law"][0]),
    "bound renamed": put("bound", value="clone"),
    "bound unknown": put("bound", value="tightest"),
    "bound published": put("bound", value="variation-ratio-published"),
    "bound a closed form": put("bound", value="analytic"),
    "theorem renamed": put("theorem", value="a better theorem"),
}


class TestNo:
    """Every edit that makes the claim false, or the file inconsistent, is refused."""

    MECHANISM = certificate(KRR(2.0, 16), 5000, delta=1e-6)
    PARAMETERS = certificate(sdp.VariationRatio(4.0, 0.2, 4.0), 5000, delta=1e-6)

    @pytest.mark.parametrize("edit", FALSE_EDITS.values(), ids=FALSE_EDITS.keys())
    @pytest.mark.parametrize("document", [MECHANISM, PARAMETERS], ids=["mechanism", "parameters"])
    def test_edits(self, document: Document, edit: Edit) -> None:
        edited = copy.deepcopy(document)
        edit(edited)
        assert verdict(with_statement(edited)) is Verdict.NO

    @pytest.mark.parametrize(
        "edit",
        [
            put("randomizer", "settings", "options", value=17),
            put("randomizer", "epsilon", value=1.9),
            put("randomizer", "epsilon", value=2.1),
            put("randomizer", "mechanism", value="rappor"),
        ],
    )
    def test_another_mechanism(self, edit: Edit) -> None:
        edited = copy.deepcopy(self.MECHANISM)
        edit(edited)
        assert verdict(with_statement(edited)) is Verdict.NO

    @pytest.mark.parametrize(
        ("name", "value"), [("p", 3.9), ("p", "inf"), ("beta", 0.19), ("q0", 3.9), ("q_common", 3)]
    )
    def test_other_parameters(self, name: str, value: Any) -> None:
        edited = copy.deepcopy(self.PARAMETERS)
        edited["randomizer"]["parameters"][name] = value
        assert verdict(with_statement(edited)) is Verdict.NO

    def test_another_table(self) -> None:
        edited = certificate(RANDOMIZERS["table"], 500, delta=1e-6)
        edited["randomizer"]["table"][0][1:3] = [0.2, 0.2]
        assert verdict(edited) is Verdict.NO

    def test_a_renamed_bound_with_its_theorem(self) -> None:
        """The law must be the one of the bound that is named."""
        for bound in MechanismBlanketEvidence.bounds:
            if bound != "optimal":
                edited = {**self.MECHANISM, "bound": bound, "theorem": BOUNDS_BY_NAME[bound].theorem}
                assert verdict(edited) is Verdict.NO

    def test_a_forger_who_rewrites_everything(self) -> None:
        """With the law of other parameters in the file, what counts is still the randomizer."""
        easier = certificate(KRR(1.5, 16), 5000, delta=1e-6)
        assert verdict({**easier, "randomizer": self.MECHANISM["randomizer"]}) is Verdict.NO
        assert verdict(with_statement({**self.MECHANISM, "epsilon": easier["epsilon"]})) is Verdict.NO

    def test_more_users_or_more_loss_is_still_true(self) -> None:
        """D falls in n and in ε: a claim made weaker this way is a true claim."""
        for field, value in (("users", 6000), ("epsilon", 0.5), ("delta", 2e-6)):
            assert verdict(with_statement({**self.MECHANISM, field: value})) is Verdict.YES

    @pytest.mark.parametrize("bound", ["optimal", "variation-ratio"])
    def test_the_published_counter_example(self, bound: str) -> None:
        """Randomized response on 4 options, e^ε0 = 2, n = 10, ε = log 1.5: published 0.00094, true δ 0.00113."""
        honest = certificate(KRR(math.log(2), 4), 10, bound, epsilon=math.log(1.5))
        assert verdict(honest) is Verdict.YES
        assert verdict(with_statement({**honest, "delta": 0.00095})) is Verdict.NO
        assert verdict(with_statement({**honest, "delta": 0.00113})) is Verdict.NO
        published = {**honest, "delta": 0.00095, "bound": "variation-ratio-published"}
        assert verdict(with_statement(published)) is Verdict.NO


class TestBadFiles:
    """One sentence for a file that is no certificate."""

    @pytest.mark.parametrize("field", TestNo.MECHANISM)
    def test_missing_and_ill_typed_fields(self, field: str) -> None:
        for value in (None, [], {}, "x", 1.5, True):
            if isinstance(value, str) and field in ("bound", "theorem"):
                continue
            with pytest.raises(ValueError, match=r"^certificate: .*\.$"):
                parse_mechanism_claim(
                    json.dumps({**TestNo.MECHANISM, field: value} if value != TestNo.MECHANISM[field] else {})
                )
        with pytest.raises(ValueError, match=f"lacks the field '{field}'"):
            parse_mechanism_claim(json.dumps({key: value for key, value in TestNo.MECHANISM.items() if key != field}))

    @pytest.mark.parametrize(
        ("edit", "part"),
        [
            (put("guarantee", value=False), "guarantee must be true"),
            (put("more", value=1), "unknown field 'more'"),
            (put("version", value=2), "version 1"),
            (put("users", value=0), "users must be"),
            (put("users", value=10**16), "users must be"),
            (put("epsilon", value=-0.1), "epsilon must be"),
            (put("delta", value=1.5), "delta must be"),
            (put("epsilon", value=0.01), "statement"),
            (put("law", value=[]), "law must be a list"),
            (put("law", 0, 0, "first", value="-1/2"), "first of a class must be a fraction"),
            (put("law", 0, 0, "first", value="1/0"), "first of a class must be a fraction"),
            (put("law", 0, 0, "first", value=0.5), "first of a class must be a text"),
            (put("law", 0, 0, "third", value="1"), "unknown field 'third'"),
            (put("randomizer", value={"mechanism": "krr"}), "lacks the field 'epsilon'"),
            (put("randomizer", "table", value=[[1]]), "unknown field 'mechanism'"),
            (put("software", "numpy", value=2), "numpy must be a text"),
        ],
    )
    def test_sentences(self, edit: Edit, part: str) -> None:
        edited = copy.deepcopy(TestNo.MECHANISM)
        edit(edited)
        with pytest.raises(ValueError, match=part):
            parse_mechanism_claim(json.dumps(edited))

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"format": NaN}', '{"a": 1, "a": 2}', "1e999"])
    def test_no_certificate_at_all(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"^certificate: .*\.$"):
            parse_mechanism_claim(text)

    @pytest.mark.parametrize(
        ("edit", "part"),
        [
            (put("randomizer", "mechanism", value="magic"), "mechanism must be one of"),
            (put("randomizer", "settings", "size", value=3), "no setting 'size'"),
            (put("randomizer", "settings", value={}), "options"),
            (put("randomizer", "settings", "options", value=1), "options must be at least 2"),
            (put("randomizer", "epsilon", value=-1), "epsilon"),
        ],
    )
    def test_randomizers_that_do_not_exist(self, edit: Edit, part: str) -> None:
        edited = copy.deepcopy(TestNo.MECHANISM)
        edit(edited)
        with pytest.raises(ValueError, match=part):
            verdict(edited)

    @pytest.mark.parametrize(("name", "value"), [("p", 1), ("beta", 0.9), ("q0", 0.5), ("q1", "inf")])
    def test_parameters_that_do_not_exist(self, name: str, value: Any) -> None:
        edited = copy.deepcopy(TestNo.PARAMETERS)
        edited["randomizer"]["parameters"][name] = value
        with pytest.raises(ValueError, match=r"^certificate: "):
            verdict(edited)


class TestRefusals:
    """What cannot be certified is refused when the file would be written."""

    def test_a_published_number(self) -> None:
        value = sdp.amplify(sdp.VariationRatio(4.0, 0.2, 4.0), 1000, bound="variation-ratio-published").epsilon(1e-6)
        with pytest.raises(ValueError, match="not a guarantee"):
            build_claim(sdp.VariationRatio(4.0, 0.2, 4.0), 1000, value, delta=1e-6)

    def test_a_closed_form(self) -> None:
        value = sdp.amplify(KRR(1.0, 4), 10**5, bound="analytic").epsilon(1e-6)
        with pytest.raises(ValueError, match="expected a numeric bound"):
            build_claim(KRR(1.0, 4), 10**5, value, delta=1e-6)

    def test_no_finite_epsilon(self) -> None:
        randomizer = sdp.VariationRatio(math.inf, 0.5, 4.0)
        with pytest.raises(ValueError, match="epsilon is above 700 at this delta; claim a larger delta"):
            build_claim(randomizer, 10, sdp.amplify(randomizer, 10, effort="quick").epsilon(1e-6), delta=1e-6)

    def test_a_delta_of_1(self) -> None:
        randomizer = sdp.VariationRatio(math.inf, 1.0, 4.0)
        with pytest.raises(ValueError, match="promises nothing"):
            build_claim(randomizer, 1, sdp.amplify(randomizer, 1, effort="quick").delta(0.5), epsilon=0.5)


class TestParameters:
    """The second derivation of the law."""

    @pytest.mark.parametrize("name", [name for name in RANDOMIZERS if hasattr(RANDOMIZERS[name], "alpha")])
    def test_each_law_sums_to_1(self, name: str) -> None:
        parameters = VariationRatioParameters.from_description(RANDOMIZERS[name].describe())
        for law in parameters.laws(parameters.q0 * 3 / 2):
            for column in range(3):
                assert sum(c[column] for c in law) == 1

    def test_parameters_that_the_mechanism_does_not_have(self) -> None:
        """A mechanism that understates its parameters is caught by its table."""
        honest = KRR(2.0, 4)
        lie = sdp.VariationRatio(p=7.0, beta=0.4, q=7.0, q_common=1.0)
        with mock.patch.object(KRR, "variation_ratio", return_value=lie):
            value = sdp.amplify(honest, 1000, bound="variation-ratio").epsilon(1e-6)
            finding = verify(build_claim(honest, 1000, value, delta=1e-6))
        assert finding.verdict is Verdict.NO
        assert "mechanism's" in finding.reason

    def test_a_blanket_that_the_mechanism_does_not_have(self) -> None:
        """A mechanism that overstates its blanket is caught by its table."""
        honest, easier = KRR(2.0, 4), KRR(1.5, 4)
        with mock.patch.object(KRR, "blankets", return_value=easier.blankets()):
            value = sdp.amplify(honest, 1000, bound="optimal").epsilon(1e-6)
            assert verify(build_claim(honest, 1000, value, delta=1e-6)).verdict is Verdict.NO


@pytest.mark.parametrize("users", [1, 2, 5, 9])
def test_the_claim_is_an_upper_bound_of_the_exact_divergence(users: int) -> None:
    """The oracle's fractions at the claimed ε: the divergence is at most δ, and not by much."""
    document = certificate(KRR(1.0, 3), users, delta=1e-2)
    rows = [[Fraction(c[key]) for c in document["law"][0]] for key in ("first", "second", "hiding")]
    ratio = Fraction(math.exp(document["epsilon"]))
    exact = hockey_stick_of_counts(rows[0], rows[1], rows[2], users, ratio)
    assert Fraction(99, 10**4) < exact <= Fraction(1, 100)


def test_the_file_is_readable() -> None:
    """The order and the numbers that a person looks for."""
    document = certificate(KRR(2.0, 16), 5000, delta=1e-6)
    assert list(document)[:6] == ["format", "version", "statement", "epsilon", "delta", "users"]
    assert document["randomizer"] == {"mechanism": "krr", "epsilon": 2.0, "settings": {"options": 16}}
    assert document["software"]["numpy"] == np.__version__
    assert document["software"].keys() == {"shuffledp", "python-flint", "numpy", "python"}
