"""What an entry of the ledger says: who was drawn, who came, and what somebody should look at."""

from __future__ import annotations

import dataclasses
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp._core.formatting import format_exact
from shuffledp.bounds.subsampling import nonresponse
from shuffledp.ledger import accounting
from shuffledp.ledger.collection_guarantee import (
    CurveInputs,
    Guarantee,
    composed_epsilon,
    compute_entry_curve,
    limit_nonresponse_delta,
)
from shuffledp.ledger.hash_chain import LedgerError
from shuffledp.ledger.ledger import Ledger
from tests.collection import new_ledger, small_plan
from tests.collection.test_ledger import CHEAP, DIGEST, USERS, alone
from tests.collection.test_spending import counted, mixed

# The same entries, alone and composed.
pytestmark = pytest.mark.usefixtures("each_curve_once")

KRR = sdp.KRR(epsilon=1.0, options=4)


@dataclasses.dataclass(frozen=True)
class Drawn(Guarantee):
    """A guarantee for people who are drawn."""

    drawn_from: int | None = None
    rate: str | None = None
    drawn: int | None = None
    failure: float | None = None

    @property
    def curve_inputs(self) -> CurveInputs:
        how = {
            "sampled_from": self.drawn_from, "rate": self.rate, "fixed_sample_size": self.drawn, "failure": self.failure
        }  # fmt: skip
        return dataclasses.replace(super().curve_inputs, **how)  # type: ignore[arg-type]


def drawn(users: int = USERS, of: int = 10 * USERS, rate: str | None = None, **changes: Any) -> Drawn:
    return Drawn(small_plan("krr", users=users, **({"epsilon_local": 1.0} | changes)), users, drawn_from=of, rate=rate)


def test_people_who_are_drawn_are_read_as_such() -> None:
    """As many as were asked for, out of more."""
    recipe = drawn().curve_inputs
    assert CurveInputs.from_document(recipe.to_document()) == recipe
    assert recipe.to_document()["of"] == 10 * USERS
    expected = sdp.subsample(sdp.amplify(KRR, USERS, effort="quick"), 10 * USERS)
    found = compute_entry_curve(recipe)
    for delta in (1e-4, 1e-8):
        assert found.epsilon(delta).upper == expected.epsilon(delta).upper
    everybody = compute_entry_curve(dataclasses.replace(recipe, sampled_from=None))
    assert found.epsilon(1e-6).upper < 0.2 * everybody.epsilon(1e-6).upper


def test_people_who_flip_a_coin_are_read_as_such() -> None:
    """Each with the exact decimal that stands there."""
    recipe = drawn(users=198, of=2000, rate="0.1", bound="variation-ratio").curve_inputs
    assert CurveInputs.from_document(recipe.to_document()) == recipe
    expected = sdp.poisson(KRR, 2000, Decimal("0.1"), bound="variation-ratio")
    assert compute_entry_curve(recipe).delta(0.02).upper == expected.delta(0.02).upper


@pytest.mark.exhaustive
def test_coins_that_were_tossed_elsewhere_count_by_who_came() -> None:
    """The number who came is public: of one row nothing is left but the randomizer's own ε."""
    plan = small_plan("krr", users=36, epsilon_local=1.0, out_of=360, rate="0.1")
    alone_there = Guarantee(plan, 1)
    assert alone_there.curve_inputs.to_document()["failure"] == plan.delta / 2
    assert 0.9999 < alone_there.value.upper <= 1.0
    assert 0.9999 < alone_there.epsilon_if_sample_known <= 1.0
    assert alone_there.document()["came"] == 1
    all_there = Guarantee(plan, 36)
    assert sdp.subsample(sdp.amplify(KRR, 36), 360).epsilon(plan.delta).upper < all_there.value.upper < 0.2
    assert all_there.epsilon_if_sample_known == sdp.amplify(KRR, 36, effort="quick").epsilon(plan.delta).upper
    here = sdp.poisson(KRR, 360, Decimal("0.1"))  # type: ignore[arg-type]
    assert Guarantee(plan, 36, sampled_from=360).value.upper == here.epsilon(plan.delta).upper


@pytest.mark.exhaustive
def test_a_fixed_sample_counts_by_who_came() -> None:
    """200 of 2,000 were drawn and 40 came: they may be a larger share of all who would come than 200 of 2,000."""
    plan = small_plan("krr", users=200, epsilon_local=1.0, out_of=2000)
    few = Guarantee(plan, 40)
    unproved = sdp.subsample(sdp.amplify(KRR, 40).with_users(200), 2000).epsilon(plan.delta).upper
    assert unproved < few.value.upper < sdp.amplify(KRR, 40).epsilon(plan.delta).upper
    assert few.with_users(40) == few
    # Rows that are no messages may be of people who were drawn: they came, and hide nobody.
    less = Guarantee(plan, 35, set_aside=5)
    assert (less.curve_inputs.users, less.curve_inputs.colluding) == (40, 5)
    assert few.value.upper < less.value.upper
    assert Guarantee(plan, 201).curve_inputs.sampled_from is None


def test_what_samples_cost_of_delta_is_at_most_half_of_it() -> None:
    """Later ones count as people who are known; that is decided by what was planned, in its order."""
    recipes = [
        dataclasses.replace(drawn().curve_inputs, fixed_sample_size=USERS, failure=1e-7, users=USERS - k)
        for k in range(8)
    ]
    others = drawn().curve_inputs
    found = limit_nonresponse_delta([others, *recipes, others], 1e-6)
    assert found == [others, *recipes[:5], *(recipe.without_sampling for recipe in recipes[5:]), others]
    assert limit_nonresponse_delta(recipes, 0.01) == [recipe.without_sampling for recipe in recipes]
    assert recipes[0].without_sampling.to_document().keys() == {"mechanism", "users", "bound", "per_person"}


@pytest.mark.exhaustive
def test_samples_are_added_to_other_collections() -> None:
    """By dots as at once, the part of δ that a sample costs included."""
    recipes = [
        dataclasses.replace(drawn(users=500).curve_inputs, fixed_sample_size=1000, failure=1e-7),
        drawn().curve_inputs,
    ]
    together = composed_epsilon([compute_entry_curve(recipe) for recipe in recipes], 1e-6)
    found = accounting.PrivacyAccountant(lambda keys: {}).epsilon(recipes, 1e-6, {})
    assert together <= found <= together * 1.001
    assert found > max(compute_entry_curve(recipe).epsilon(1e-6).upper for recipe in recipes)


def test_entries_of_old_where_some_stayed_away_count_as_known() -> None:
    """Version 0.1.0 took the share of all who were drawn, which is no proof."""
    recipe = dataclasses.replace(drawn(users=500).curve_inputs, fixed_sample_size=1000)
    assert compute_entry_curve(recipe).epsilon(1e-6).upper == sdp.amplify(KRR, 500, effort="quick").epsilon(1e-6).upper


def test_colluding_people_know_whether_they_were_drawn() -> None:
    """They hide nobody, neither in the sample nor among those it is drawn from."""
    plan = small_plan("krr", users=400, epsilon_local=1.0, bound="variation-ratio", colluding=100)
    fixed = compute_entry_curve(Drawn(plan, 400, drawn_from=4000).curve_inputs)
    amplified = sdp.amplify(KRR, 400, bound="variation-ratio", colluding=100)
    assert fixed.delta(0.01).upper == sdp.subsample(amplified, 4000).delta(0.01).upper
    coins = compute_entry_curve(Drawn(plan, 400, drawn_from=4000, rate="0.1").curve_inputs)
    expected = sdp.poisson(KRR, 3900, Decimal("0.1"), bound="variation-ratio")
    assert coins.delta(0.01).upper == expected.delta(0.01).upper


def test_a_reservation_of_a_sample_is_settled_with_those_who_came(tmp_path: Path) -> None:
    """Half came: as many were drawn as before."""
    recipe = dataclasses.replace(drawn(users=500).curve_inputs, fixed_sample_size=1000, failure=5e-7)
    assert CurveInputs.from_document(recipe.to_document()) == recipe
    expected = nonresponse(KRR, 500, 10_000, drawn=1000, failure=5e-7)
    for epsilon in (0.0, 0.01, 0.05):
        assert compute_entry_curve(recipe).delta(epsilon).upper == expected.delta(epsilon).upper
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    ledger.reserve("a", drawn())
    with pytest.raises(LedgerError, match="reserved for 1000 people drawn from 10000, and must be settled as such"):
        ledger.settle("a", drawn(users=500), DIGEST)
    with pytest.raises(LedgerError, match="must be settled as such"):
        ledger.settle("a", Guarantee(drawn().plan, USERS), DIGEST)
    came = Drawn(drawn().plan, 500, drawn_from=10 * USERS, drawn=USERS, failure=5e-7)
    ledger.settle("a", came, DIGEST)
    (standing,) = ledger.budget_statuses("test", 1e-6)
    assert standing.epsilon == compute_entry_curve(recipe).epsilon(1e-6).upper
    assert standing.epsilon > compute_entry_curve(drawn().curve_inputs).epsilon(1e-6).upper


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sampled_from": None, "rate": "0.1"}, 'a "rate" needs "of"'),
        ({"per_person": 2}, "have one row each, got up to 2"),
        ({"sampled_from": USERS - 1}, "population must be at least the curve's 1000 users, got 999"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compute_entry_curve(dataclasses.replace(drawn().curve_inputs, **changes))


@pytest.mark.exhaustive
def test_mixed_entries_are_what_composing_them_at_once_gives(tmp_path: Path) -> None:
    """Different mechanisms and users, some drawn: between the certified sides of the composition, and a slack above."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    rounds: list[Guarantee] = [
        drawn(), Guarantee(small_plan("oue"), 3000), drawn(users=300, of=3000), Guarantee(small_plan("krr"), 5000),
        Guarantee(small_plan("local-hash"), 2000), Guarantee(small_plan("piecewise"), 4000),
    ]  # fmt: skip
    for number, guarantee in enumerate(rounds):
        ledger.reserve(str(number), guarantee)
    (standing,) = Ledger(ledger.path).budget_statuses("test", 1e-6)
    value = sdp.compose([guarantee.curve for guarantee in rounds]).epsilon(1e-6)
    assert value.upper - value.slack <= standing.epsilon <= value.upper + value.slack


def test_every_collection_leaves_what_a_look_needs(place: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever books without ever asking what it amounts to leaves no work to those who ask."""
    ledger = new_ledger(place)
    for number, guarantee in enumerate(mixed(3)):
        ledger.book(guarantee, f"{number:064x}")
    with counted(monkeypatch) as seen:
        Ledger(ledger.path).budget_statuses("test", 1e-8)
    assert seen == []


def test_a_reader_keeps_what_it_computed(place: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After another version wrote the ledger, the first look computes and the second does not."""
    ledger = new_ledger(place)
    for number, guarantee in enumerate(mixed(3)):
        ledger.reserve(str(number), guarantee)
    monkeypatch.setattr(accounting, "__version__", "0.0.0")
    entries = ledger.head().entries
    for expected in (3, 0):
        with counted(monkeypatch) as seen:
            (standing,) = Ledger(ledger.path).budget_statuses("test", 1e-8)
        assert len(seen) == expected
    assert ledger.head().entries == entries + 1
    assert ledger.budget_statuses("test", 1e-8)[0].epsilon == standing.epsilon


def test_a_reader_waits_for_nobody_to_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another run is at the ledger the answer is the same, and nothing is kept."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    for number, guarantee in enumerate(mixed(2)):
        ledger.reserve(str(number), guarantee)
    before, entries = ledger.budget_statuses("test", 1e-8)[0].epsilon, ledger.head().entries
    monkeypatch.setattr(accounting, "__version__", "0.0.0")
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert Ledger(ledger.path).budget_statuses("test", 1e-8)[0].epsilon == before
    other.execute("ROLLBACK")
    other.close()
    assert ledger.head().entries == entries


@pytest.mark.parametrize("came", [USERS // 2, 2 * USERS])
def test_a_reservation_is_settled_with_those_who_came(tmp_path: Path, came: int) -> None:
    """Fewer count more, more count less, and the ledger says what amplify says of them."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    planned, real = (Guarantee(small_plan("krr"), users) for users in (USERS, came))
    ledger.reserve("a", planned)
    reserved = ledger.budget_statuses("test", 1e-6)[0].epsilon
    ledger.settle("a", real, DIGEST)
    (standing,) = Ledger(ledger.path).budget_statuses("test", 1e-6)
    assert standing.epsilon == sdp.amplify(real.plan.mechanism, came, effort="quick").epsilon(1e-6).upper
    assert (standing.epsilon > reserved) == (came < USERS)
    assert (standing.entries[0].users, standing.entries[0].epsilon) == (came, standing.epsilon)


def test_a_settled_collection_is_not_settled_otherwise(tmp_path: Path) -> None:
    """Once: the same again changes nothing, and fewer users for the same messages are not passed over in silence."""
    ledger = new_ledger(tmp_path / "ledger.sqlite", "test", "others")
    ledger.reserve("a", alone())
    ledger.settle("a", alone(), DIGEST)
    entries = ledger.head().entries
    for users in (USERS, USERS + 1):
        ledger.settle("a", Guarantee(alone().plan, users), DIGEST)
    with pytest.raises(LedgerError, match="already settled with 1000 users"):
        ledger.settle("a", Guarantee(alone().plan, USERS - 1), DIGEST)
    with pytest.raises(LedgerError, match="reserved for the population 'test'"):
        ledger.settle("a", alone(population="others"), DIGEST)
    assert ledger.head().entries == entries


def test_more_of_those_who_were_drawn_from_are_not_the_same(tmp_path: Path) -> None:
    """A larger share of the people is drawn: the same messages are booked again."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    first = ledger.book(drawn(), DIGEST)
    assert ledger.book(drawn(), DIGEST) == first
    assert ledger.book(drawn(users=USERS + 1), DIGEST) != first


def test_a_new_name_is_pointed_out(tmp_path: Path) -> None:
    """Where others have given, and until something else is collected."""
    ledger = new_ledger(tmp_path / "ledger.sqlite", "visitors", "vistors", "staff")
    plans = {name: alone(population=name) for name in ("visitors", "vistors", "staff", "stuff")}
    assert ledger.warnings(plans["visitors"].plan) == []
    ledger.reserve("a", plans["visitors"])
    assert ledger.budget_statuses("visitors")[0].warnings == ()
    (said,) = ledger.warnings(plans["vistors"].plan)
    assert "nothing was collected from 'vistors' before" in said
    assert "if 'visitors' are the same people" in said
    assert "if these people have another name" in ledger.warnings(plans["staff"].plan)[0]
    assert "knows no population 'stuff'; did you mean 'staff'?" in ledger.warnings(plans["stuff"].plan)[0]
    ledger.reserve("b", plans["vistors"])
    assert ledger.budget_statuses("vistors")[0].warnings == (said,)
    ledger.reserve("c", plans["visitors"])
    assert ledger.budget_statuses("vistors")[0].warnings == ()
    assert "'vistors' and 'visitors' are two populations" in ledger.find_similar_name_warnings("vistors")[0]
    assert ledger.find_similar_name_warnings("everyone") == []


def test_a_spent_budget_is_pointed_out(tmp_path: Path) -> None:
    """One that is spent, and one that the plan would spend."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    twice = composed_epsilon([alone().curve] * 2, 1e-6)
    ledger.set_budget("test", twice, 1e-6)
    plan = small_plan("krr", users=USERS, rounds=3, **CHEAP)
    assert ledger.warnings(plan) == []
    (said,) = ledger.warnings(plan, ahead=True)
    assert said.startswith("ledger: this plan would bring 'test' from ε = 0 to ")
    assert said.endswith(f"above the budget {format_exact(twice)}.")
    assert ledger.warnings(alone().plan, ahead=True) == []
    for number in range(2):
        ledger.reserve(str(number), alone())
    (said,) = ledger.warnings(plan)
    assert said == f"ledger: the budget of 'test' is spent: ε = {twice:.6g} of {format_exact(twice)} at δ = 1e-6."
    assert ledger.budget_statuses("test")[0].warnings == (said,)
