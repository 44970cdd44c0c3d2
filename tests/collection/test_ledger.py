"""The ledger: what a population has given in all, and a budget that cannot be spent twice."""

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shuffledp import KRR, amplify
from shuffledp._core import __version__
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp._core.formatting import format_rounded_up
from shuffledp.collection.collect import CollectionRequest, collect, run_collection
from shuffledp.collection.engine import create_engine
from shuffledp.collection.input.files import FileTable
from shuffledp.ledger.collection_guarantee import Guarantee, composed_epsilon, compute_entry_curve
from shuffledp.ledger.hash_chain import LedgerError
from shuffledp.ledger.ledger import Ledger, RoundTaken
from tests.collection import list_paths, new_ledger, random_column, small_plan, write_table

# Entries of a few plans.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

CHEAP = {"epsilon_local": 0.5, "bound": "efmrtt19"}
USERS = 1000
DIGEST = "ab" * 32


def alone(**changes: Any) -> Guarantee:
    return Guarantee(small_plan("krr", users=USERS, **(CHEAP | changes)), USERS)


def test_entries_tell_their_privacy_again(place: Path | str) -> None:
    """A fresh reader computes from the file what amplify says of the mechanism."""
    ledger = new_ledger(place)
    guarantee = Guarantee(small_plan("krr"), 5000)
    ledger.reserve("a", guarantee)
    (standing,) = Ledger(place).budget_statuses("test", delta=1e-7)
    (entry,) = standing.entries
    direct = amplify(KRR(epsilon=2.0, options=4), 5000, effort="quick")
    assert compute_entry_curve(entry.recipe).epsilon(1e-7).upper == direct.epsilon(1e-7).upper
    assert standing.epsilon == direct.epsilon(1e-7).upper
    assert entry.epsilon == direct.epsilon(1e-6).upper
    assert (entry.state, entry.released, standing.budget, standing.remaining) == ("reserved", None, None, None)


def test_rounds_are_composed_soundly(place: Path | str) -> None:
    """Never below one round alone, and at most the sum of the rounds at a share of δ each."""
    ledger = new_ledger(place, "test", "elsewhere")
    for number, users in enumerate((2000, 3000, 4000)):
        ledger.reserve(str(number), Guarantee(small_plan("krr"), users))
    ledger.reserve("other", Guarantee(small_plan("krr", population="elsewhere"), 9000))
    elsewhere, everyone, standing = ledger.budget_statuses(delta=1e-6)
    assert (everyone.population, everyone.entries, everyone.epsilon) == ("everyone", (), 0.0)
    assert (elsewhere.population, len(elsewhere.entries)) == ("elsewhere", 1)
    mechanism = KRR(epsilon=2.0, options=4)
    curves = [amplify(mechanism, users, effort="quick") for users in (2000, 3000, 4000)]
    assert standing.epsilon <= sum(curve.epsilon(1e-6 / 3).upper for curve in curves) * (1 + 1e-12)
    assert standing.epsilon > curves[0].epsilon(1e-6).upper
    assert composed_epsilon([], 1e-6) == 0.0
    assert composed_epsilon(curves[:1], 1e-6) == pytest.approx(curves[0].epsilon(1e-6).upper, rel=1e-9)


def test_a_budget_refuses_what_would_exceed_it(place: Path | str) -> None:
    """Two rounds fit, the third does not; another population is not concerned; nothing is written down."""
    ledger = new_ledger(place, "test", "elsewhere")
    twice = composed_epsilon([alone().curve] * 2, 1e-6)
    ledger.set_budget("test", twice, 1e-6)
    ledger.reserve("a", alone())
    ledger.reserve("b", alone())
    with pytest.raises(
        GuaranteeTooWeak, match=r"would bring 'test' from ε = .* above the budget .*; nothing was collected\.$"
    ):
        ledger.reserve("c", alone())
    ledger.reserve("c", alone(population="elsewhere"))
    (standing,) = ledger.budget_statuses("test")
    assert [entry.id for entry in standing.entries] == ["a", "b"]
    assert standing.remaining == 0.0
    assert standing.epsilon == twice


def test_a_reservation_can_be_given_back_and_a_release_cannot(place: Path | str) -> None:
    """What was given cannot be taken back."""
    ledger = new_ledger(place)
    ledger.set_budget("test", alone().value.upper * 1.01, 1e-6)
    ledger.reserve("a", alone())
    ledger.reserve("a", alone())  # a run that goes on
    with pytest.raises(GuaranteeTooWeak):
        ledger.reserve("b", alone())
    assert ledger.has_reserved("a")
    ledger.give_back("a")
    ledger.give_back("a")
    assert not ledger.has_reserved("a")
    ledger.reserve("b", alone())
    ledger.settle("b", alone(), DIGEST)
    ledger.settle("b", alone(), DIGEST)
    with pytest.raises(ValueError, match="already released, with other messages"):
        ledger.settle("b", alone(), "ff" * 32)
    with pytest.raises(ValueError, match="cannot be taken back"):
        ledger.give_back("b")
    with pytest.raises(GuaranteeTooWeak):
        ledger.reserve("a", alone())
    for use in (ledger.give_back, lambda id_: ledger.settle(id_, alone(), DIGEST)):
        with pytest.raises(ValueError, match="there is no collection z"):
            use("z")
    (entry,) = Ledger(ledger.path).budget_statuses("test")[0].entries
    assert (entry.id, entry.state, entry.digest, entry.software) == ("b", "released", DIGEST, __version__)


def test_what_is_settled_is_those_who_came(place: Path | str) -> None:
    """Fewer users count more, and are refused where the budget was for all; what was reserved stays."""
    ledger = new_ledger(place)
    planned, came = (Guarantee(alone().plan, users) for users in (20_000, 10_000))
    ledger.set_budget("test", came.value.upper * 0.99, 1e-6)
    ledger.reserve("a", planned)
    with pytest.raises(GuaranteeTooWeak, match=r"above the budget .*; nothing was released"):
        ledger.settle("a", came, DIGEST)
    assert ledger.has_reserved("a")
    ledger.set_budget("test", came.value.upper, 1e-6)
    ledger.settle("a", came, DIGEST)
    (standing,) = ledger.budget_statuses("test")
    assert (standing.entries[0].users, standing.spent) == (10_000, came.value.upper)
    assert standing.remaining == 0.0


def test_a_reservation_that_was_granted_may_become_smaller(place: Path | str) -> None:
    """Even where the budget was lowered meanwhile."""
    ledger = new_ledger(place)
    ledger.reserve("a", alone())
    ledger.set_budget("test", alone().value.upper / 10, 1e-6)
    ledger.settle("a", Guarantee(alone().plan, USERS + 1), DIGEST)
    assert ledger.budget_statuses("test")[0].entries[0].users == USERS + 1


def test_a_role_books_the_same_messages_once(place: Path | str) -> None:
    """The shuffler and the estimator of one collection; other messages, people or fewer users count again."""
    ledger = new_ledger(place, "test", "others")
    first = ledger.book(alone(), DIGEST)
    entries = ledger.head().entries
    assert ledger.book(alone(), DIGEST) == first
    assert ledger.book(Guarantee(alone().plan, USERS + 1), DIGEST) == first
    assert ledger.head().entries == entries
    assert ledger.book(alone(epsilon_local=0.4), DIGEST) != first
    assert ledger.book(alone(population="others"), DIGEST) != first
    assert ledger.book(alone(), "ff" * 32) != first
    assert [len(standing.entries) for standing in ledger.budget_statuses()] == [0, 1, 3]
    ledger.set_budget("test", 1e-3, 1e-6)
    with pytest.raises(GuaranteeTooWeak):
        ledger.book(alone(), "ee" * 32)
    assert len(ledger.budget_statuses("test")[0].entries) == 3


def test_a_ledger_is_created_on_purpose(tmp_path: Path) -> None:
    """Whatever is asked of one that is not there is a sentence, and leaves nothing."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    uses: tuple[Callable[[], Any], ...] = (
        ledger.budget_statuses,
        ledger.head,
        ledger.accept,
        lambda: ledger.register("test"),
        lambda: ledger.give_back("a"),
        lambda: ledger.set_budget("test", 1.0, 1e-6),
        lambda: ledger.reserve("a", alone()),
        lambda: ledger.book(alone(), DIGEST),
        lambda: ledger.has_reserved("a"),
    )
    for use in uses:
        with pytest.raises(LedgerError, match=r"there is no ledger at .*; create it by `shuffledp ledger create`, .*"):
            use()
    assert list_paths(tmp_path) == []
    Ledger.create(ledger.path)
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    assert list_paths(tmp_path) == ["ledger.sqlite"]
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerError, match="is already there"):
        Ledger.create(ledger.path)
    assert ledger.path.read_bytes() == before
    with pytest.raises(ValueError, match="epsilon must be above 0"):
        ledger.set_budget("test", 0.0, 1e-6)
    with pytest.raises(LedgerError, match="cannot create"):
        Ledger.create(ledger.path / "inside")


@pytest.mark.parametrize("content", [b"", b"not a ledger at all" * 100, None])
def test_what_is_no_ledger_is_a_sentence(tmp_path: Path, content: bytes | None) -> None:
    """An empty file, a text, a ledger from before entries were chained: none of them is taken for an empty ledger."""
    path = tmp_path / "ledger.sqlite"
    if content is None:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE collection (id TEXT PRIMARY KEY)")
    else:
        path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"^ledger: .*ledger.sqlite.*\.$"):
        Ledger(path).budget_statuses()


def test_the_default_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a variable, or below the user's directories; never where a command happens to be typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert Ledger.default_path() == tmp_path / "data" / "shuffledp" / "ledger.sqlite"
    Ledger.create(Ledger.default_path())
    monkeypatch.setenv("SHUFFLEDP_LEDGER", str(tmp_path / "chosen"))
    assert Ledger.default_path() == tmp_path / "chosen"
    monkeypatch.delenv("SHUFFLEDP_LEDGER")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setattr("sys.platform", "linux")
    assert Ledger.default_path() == Path("/home/somebody/.local/share/shuffledp/ledger.sqlite")
    monkeypatch.setattr("sys.platform", "darwin")
    assert Ledger.default_path() == Path("/home/somebody/Library/Application Support/shuffledp/ledger.sqlite")


NAMES = ["Café  Visitors", " cafe\u0301 visitors", "CAFÉ\tVISITORS", "ｃａｆé\u00a0visitors", "café\u200b visitors"]


def test_a_population_has_one_name(place: Path | str) -> None:
    """However it is typed, the same people's collections are added up."""
    ledger = new_ledger(place, NAMES[0])
    for number, name in enumerate(NAMES):
        ledger.reserve(str(number), alone(population=name))
    assert [len(standing.entries) for standing in ledger.budget_statuses()] == [len(NAMES), 0]
    assert ledger.budget_statuses(NAMES[2])[0].population == "café visitors"


def test_an_unknown_population_is_refused_with_a_suggestion(place: Path | str) -> None:
    """A mistyped name would have its own, empty account."""
    ledger = new_ledger(place, "visitors")
    for use in (
        lambda: ledger.reserve("a", alone(population="vistors")),
        lambda: ledger.book(alone(population="vistors"), DIGEST),
        lambda: ledger.set_budget("vistors", 1.0, 1e-6),
        lambda: ledger.budget_statuses("vistors"),
    ):
        with pytest.raises(
            LedgerError, match=r"knows no population 'vistors'; did you mean 'visitors'\? .*ledger register 'vistors'"
        ):
            use()
    with pytest.raises(LedgerError, match="it knows everyone, visitors"):
        ledger.budget_statuses("zzz")
    assert ledger.head().entries == 3
    with pytest.raises(ValueError, match="population must be a name"):
        ledger.register(" \u200b ")


def test_both_deltas_are_told(place: Path | str) -> None:
    """ε at the collection's own δ, and what of the budget is spent at the budget's."""
    ledger = new_ledger(place)
    ledger.reserve("a", alone())
    curve = alone().curve
    (standing,) = ledger.budget_statuses("test")
    assert (standing.delta, standing.epsilon) == (1e-6, curve.epsilon(1e-6).upper)
    ledger.set_budget("test", 5.0, 1e-4)
    (standing,) = ledger.budget_statuses("test", 1e-6)
    assert (standing.delta, standing.epsilon) == (1e-6, curve.epsilon(1e-6).upper)
    assert (standing.spent, standing.remaining) == (curve.epsilon(1e-4).upper, 5.0 - curve.epsilon(1e-4).upper)


def spend(path: Path, name: str, begin: Any, results: Any) -> None:
    """Try to reserve one round, at the same moment as others do."""
    begin.wait(60)
    try:
        Ledger(path).reserve(name, alone())
        results.put("reserved")
    except GuaranteeTooWeak:
        results.put("refused")


def test_two_runs_at_once_cannot_both_spend_a_budget(place: Path | str) -> None:
    """Of four processes that try at the same time, exactly as many succeed as the budget allows: one."""
    new_ledger(place).set_budget("test", alone().value.upper * 1.5, 1e-6)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.collection.test_ledger"])
    begin, results = context.Barrier(4), context.Queue()
    processes = [context.Process(target=spend, args=(place, str(number), begin, results)) for number in range(4)]
    for process in processes:
        process.start()
    answers = sorted(results.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(60)
    assert answers == ["refused", "refused", "refused", "reserved"]
    (standing,) = Ledger(place).budget_statuses("test")
    assert len(standing.entries) == 1


def test_a_look_waits_for_nobody_and_sees_whole_entries(tmp_path: Path) -> None:
    """While another run is at the ledger, what is committed can be read."""
    path = tmp_path / "ledger.sqlite"
    ledger = new_ledger(path)
    ledger.reserve("a", alone())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM event")
    (standing,) = ledger.budget_statuses("test")
    assert [entry.id for entry in standing.entries] == ["a"]
    other.execute("ROLLBACK")
    other.close()


def test_a_refused_collection_leaves_nothing(tmp_path: Path) -> None:
    """Neither output nor entry; and one that misses the target is not even asked for at the ledger."""
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", USERS))
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("test", alone().value.upper / 2, 1e-6)
    before = list_paths(tmp_path)
    request = CollectionRequest(alone().plan, FileTable(path), ("value",), tmp_path / "out", ledger.path)
    with pytest.raises(GuaranteeTooWeak, match="above the budget"):
        run_collection(request, create_engine("embedded"))
    assert list_paths(tmp_path) == before
    assert ledger.budget_statuses("test")[0].entries == ()


@pytest.mark.parametrize("rounds", [1, 5])
def test_too_few_users_are_noticed_before_anything_is_released(tmp_path: Path, rounds: int) -> None:
    """The ε that was really achieved is named; --allow-weaker releases it, and the report says so."""
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", 400))
    target = Guarantee(small_plan("krr", users=3000, rounds=rounds), 3000).epsilon
    plan = small_plan("krr", users=3000, epsilon=target * 1.0001, rounds=rounds)
    achieved = Guarantee(plan, 400).epsilon
    assert achieved > plan.epsilon
    new_ledger(tmp_path / "ledger.sqlite")
    request = CollectionRequest(plan, FileTable(path), ("value",), tmp_path / "out", tmp_path / "ledger.sqlite")
    with pytest.raises(
        GuaranteeTooWeak, match=rf"400 users took part where 3000 were planned.*ε = {format_rounded_up(achieved)}"
    ):
        run_collection(request, create_engine("embedded"))
    assert list_paths(tmp_path) == ["data.parquet", "ledger.sqlite"]
    weaker = CollectionRequest(
        plan, FileTable(path), ("value",), tmp_path / "out", tmp_path / "ledger.sqlite", allow_weaker=True
    )
    report = run_collection(weaker, create_engine("embedded"))
    document = report.document()
    assert document["users"] == 400
    assert document["guarantee"]["target_met"] is False
    alone_there = amplify(plan.mechanism, 400, effort="quick").epsilon(1e-6).upper
    assert document["guarantee"]["without_certificate"]["upper"] == alone_there
    assert alone_there <= document["guarantee"]["epsilon"]["upper"] <= alone_there * 1.00001
    assert "WEAKER" in document["statement"]
    assert ("Over 5 such rounds" in document["statement"]) == (rounds == 5)


def test_a_bound_that_is_no_guarantee_is_refused(tmp_path: Path) -> None:
    """The published formula may be planned with, but not collected under."""
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", 400))
    plan = small_plan("krr", users=400, bound="variation-ratio-published")
    with pytest.raises(ValueError, match="is no guarantee"):
        run_collection(
            CollectionRequest(plan, FileTable(path), ("value",), tmp_path / "out", None), create_engine("embedded")
        )
    assert list_paths(tmp_path) == ["data.parquet"]


def test_a_mechanism_is_amplified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking the target, asking the budget and telling what was spent share one curve."""
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", USERS))
    built: list[Any] = []

    def counted(*arguments: Any, **named: Any) -> Any:
        built.append(arguments)
        return amplify(*arguments, **named)

    monkeypatch.setattr("shuffledp.ledger.collection_guarantee.amplify", counted)
    new_ledger(tmp_path / "ledger.sqlite").set_budget("test", 10.0, 1e-6)
    collect(alone().plan, path, "value", out=tmp_path / "out", ledger=tmp_path / "ledger.sqlite")
    assert len(built) == 1


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_the_next_free_round_is_collected(tmp_path: Path, place: Path | str) -> None:
    """Each round once, and none that is not planned; reports say which of how many it is."""
    ledger = new_ledger(place)
    plan, data = alone(rounds=3).plan, random_column("krr", USERS)
    for number in (1, 2, 3):
        report = collect(plan, data, out=tmp_path / str(number), ledger=place)
        assert report.document()["guarantee"]["round"] == number
        assert f"This is round {number} of 3. Over 3 such rounds: ε = " in report.statement()
        assert ("round", f"{number} of 3") in report.summary()
        assert f"| round | {number} of 3 |" in (tmp_path / str(number) / "report.md").read_text("utf-8")
    before = list_paths(tmp_path)
    with pytest.raises(RoundTaken, match=r"all 3 rounds of the plan .* were released, each once; plan more rounds to"):
        collect(plan, data, out=tmp_path / "more", ledger=place)
    with pytest.raises(RoundTaken, match=r"round 2 of 3 of the plan .* was released on 20.* plan more rounds\.$"):
        collect(plan, data, out=tmp_path / "more", ledger=place, round_number=2)
    with pytest.raises(ValueError, match="round must be at most 3, as planned, got 4"):
        collect(plan, data, out=tmp_path / "more", ledger=place, round_number=4)
    assert list_paths(tmp_path) == before
    (standing,) = ledger.budget_statuses("test")
    assert [(entry.plan, entry.round, entry.rounds) for entry in standing.entries] == [
        (plan.fingerprint, number, 3) for number in (1, 2, 3)
    ]
    # Planned anew for more rounds, of which the first three are given.
    report = collect(alone(rounds=5).plan, data, out=tmp_path / "4", ledger=place)
    assert report.guarantee.round_number == 4
    assert [words for _, words in standing.statement().facts if "round 3 of 3, krr" in words]


def test_without_a_ledger_nobody_knows_which_round_is_next(tmp_path: Path) -> None:
    """Where a plan has but one round it is that one."""
    plan, data = alone(rounds=3).plan, random_column("krr", USERS)
    with pytest.raises(
        ValueError, match=r"collect: the plan has 3 rounds, and without a ledger .*; give it by round_number=…\.$"
    ):
        collect(plan, data, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert collect(plan, data, out=tmp_path / "out", round_number=3).guarantee.round_number == 3
    assert collect(alone().plan, data, out=tmp_path / "one").guarantee.round_number == 1


def test_a_reserved_round_is_not_free(place: Path | str) -> None:
    """Until it is taken back; whoever has reserved it goes on with it, and with no other."""
    ledger = new_ledger(place)
    plan = alone(rounds=2).plan

    def of(number: int) -> Guarantee:
        return Guarantee(plan, USERS + 1, round_number=number)

    ledger.reserve("a", of(1))
    ledger.reserve("a", of(1))
    assert ledger.next_round(plan) == 2
    with pytest.raises(
        RoundTaken, match=r"round 1 of 2 .* is reserved by the collection a; go on .*`shuffledp ledger forget a`"
    ):
        ledger.reserve("b", of(1))
    with pytest.raises(RoundTaken, match="is reserved by the collection a"):
        ledger.book(of(1), DIGEST)
    with pytest.raises(LedgerError, match=r"a was reserved for round 1 of 2 of the plan .*, got round 2 of the plan"):
        ledger.book(of(2), DIGEST, "a")
    ledger.give_back("a")
    assert ledger.next_round(plan) == 1
    ledger.reserve("c", of(1))
    assert ledger.book(of(1), DIGEST, "c") == "c"
    # The same messages, of which fewer turn out to hide each other, are charged as such; others are refused.
    assert ledger.book(Guarantee(plan, USERS, round_number=1), DIGEST) != "c"
    with pytest.raises(RoundTaken, match="was released on"):
        ledger.book(of(1), "ff" * 32)
    assert ledger.next_round(plan) == 2


def test_entries_from_before_rounds_were_written_down(place: Path | str) -> None:
    """They can be read, and nobody guesses which round of the plan they were."""
    ledger = new_ledger(place)
    ledger.reserve("a", alone(rounds=4))
    ledger.settle("a", alone(rounds=4), DIGEST)
    (event,) = [event for event in ledger._file.read_events() if event.kind == "settle"]
    assert {"plan", "round", "rounds", "bundles"}.isdisjoint(event.payload)
    (entry,) = ledger.budget_statuses("test")[0].entries
    assert (entry.plan, entry.round, entry.round_text) == (None, None, "-")
    plan = alone(rounds=4).plan
    with pytest.raises(LedgerError, match=r"has 1 collection like this one from before .* by round_number=…"):
        ledger.next_round(plan)
    ledger.check_round_is_free(plan, 2)
    assert ledger.next_round(alone(rounds=4, epsilon_local=0.4).plan) == 1
