"""Counts over time, released day by day: what is over and nothing else, with noise that is drawn once."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp import Plan, collection
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.collection import continual_release
from shuffledp.collection.message_files import AlreadyShuffled, EncodedFile
from shuffledp.ledger.ledger import RoundTaken
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.sampling.random_sources import resolve_source
from shuffledp.storage import durable_files
from shuffledp.tasks import Frequency, OverTime, Task
from tests.collection import list_paths, new_ledger, read_messages
from tests.collection.kill_points import run_and_kill_at

# Many releases by a few plans.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

EVENTS = (30, 0, 25, 7, 40, 3)


def plan_with(mechanism: Mechanism, task: Task | None = None, **changes: Any) -> Plan:
    chosen = OverTime(mechanism.settings()["options"]) if task is None else task
    base: dict[str, Any] = {"users": 100, "epsilon": 50.0, "delta": 1e-5, "population": "test"}
    return Plan(chosen, mechanism, **(base | changes))


POISSON = plan_with(sdp.RangeTree(6, 20.0, 0))
CANCELLING = plan_with(sdp.CancellingTree(6, 0.5, 25.0, 0.8, 0, fan_out=3))
FLAT = plan_with(sdp.PoissonDUMP(6, 20.0, 0))


def encoded(room: Path, plan: Plan, day: int, events: int, label: Any = None) -> list[Path]:
    """The files of a day; none where there is no event."""
    path = room / f"{day}.messages"
    if events and not path.exists():
        collection.encode(plan, pa.array([day if label is None else label] * events), out=path)
    return [path] if events else []


def released(room: Path, plan: Plan, events: Sequence[int] = EVENTS, **more: Any) -> list[collection.ReleasedDay]:
    """All these days, one after the other."""
    return [
        collection.release(
            encoded(room, plan, day, count), plan=plan, day=day, state=room / "own", out=room / "public", **more
        )
        for day, count in enumerate(events)
    ]


def numbers_of(plan: Plan, directory: Path) -> list[int]:
    """The messages of a directory as numbers; there may be none."""
    width = plan.mechanism.message_bytes
    if not list(directory.glob("*.parquet")):
        return []
    return [int.from_bytes(row, "big") for row in read_messages(directory, width)]


# --- what is released ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [POISSON, CANCELLING, FLAT], ids=lambda plan: plan.mechanism.name)
def test_all_days_together_are_the_one_collection(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same draws give the same multiset of messages, and each day has exactly the nodes that are over on it."""
    noise = plan.mechanism.pack(plan.mechanism.draw_shuffler_messages(resolve_source(np.random.default_rng(3))))
    draws = []
    monkeypatch.setattr(
        "shuffledp.collection.batch_processing.draw_shuffler_messages", lambda *_: draws.append(1) or noise
    )
    released(tmp_path, plan)
    assert len(draws) == 1
    files = [file for day, count in enumerate(EVENTS) for file in encoded(tmp_path, plan, day, count)]
    with pytest.raises(AlreadyShuffled, match="were shuffled before"):
        collection.shuffle(files, out=tmp_path / "once", plan=plan)
    # What people send is no secret before the noise is drawn: encoded again, it is the same.
    (tmp_path / "again").mkdir()
    files = [file for day, count in enumerate(EVENTS) for file in encoded(tmp_path / "again", plan, day, count)]
    collection.shuffle(files, out=tmp_path / "once", plan=plan)
    days = [numbers_of(plan, tmp_path / "public" / f"day-{day:05d}") for day in range(len(EVENTS))]
    assert sorted(itertools.chain(*days)) == numbers_of(plan, tmp_path / "once")
    tree, signs = plan.mechanism.estimator.tree, 2 if plan is CANCELLING else 1  # type: ignore[attr-defined]
    for day, found in enumerate(days):
        assert found == sorted(found)
        assert {
            end - 1 for number in found for level, start in enumerate(tree.level_starts)
            if 0 <= number // signs - start < tree.level_sizes[level]
            for end in [tree.node_range(level, number // signs - start)[1]]
        } == {day}  # fmt: skip


def test_the_promise_is_that_of_all_released_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brute force, four days, two levels: δ of the counts of all days together is the curve's.

    The counts are those that a release really has, without noise, for an event on day a or b; the noise of each node
    that differs is enumerated, the others cancel.
    """
    mean, mechanism = 1.5, sdp.RangeTree(4, 1.5, 0)
    plan = plan_with(mechanism, delta=0.5)
    empty = np.empty((0, mechanism.message_bytes), dtype=np.uint8)
    monkeypatch.setattr("shuffledp.collection.batch_processing.draw_shuffler_messages", lambda *_: empty)
    views = []
    for name, day in (("a", 0), ("b", 3), ("near", 1)):
        room = tmp_path / name
        room.mkdir()
        released(room, plan, [1 + (day == k) if k in (0, 2) else int(day == k) for k in range(4)])
        counts = [np.bincount(numbers_of(plan, room / "public" / f"day-{k:05d}"), minlength=6) for k in range(4)]
        views.append(np.concatenate(counts))
    curve = sdp.amplify(mechanism, 3, effort="quick")
    law = stats.poisson.pmf(np.arange(-2, 24), mean)
    for first, second, tight in ((0, 1, True), (1, 0, True), (0, 2, False)):
        moved = views[first] - views[second]
        assert np.abs(moved).sum() == (4 if tight else 2)
        # A count that is one larger in the first dataset, or one smaller, against the other.
        laws = [np.ones(1), np.ones(1)]
        for change in moved[moved != 0]:
            pair = (law[1:-1], law[2:]) if change > 0 else (law[2:], law[1:-1])
            laws = [np.multiply.outer(old, new).ravel() for old, new in zip(laws, pair, strict=True)]
        for epsilon in (0.5, 1.5, 3.0):
            truth = float(np.maximum(laws[0] - np.exp(epsilon) * laws[1], 0).sum())
            bound = curve.delta(epsilon).upper
            assert truth <= bound * (1 + 1e-9)
            if tight:
                assert bound == pytest.approx(truth, rel=1e-3)


def test_the_noise_of_every_node_has_its_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 32 days with people on most: variance and mean of the 62 nodes' noise; false alarms below 1e-7."""
    plan = plan_with(sdp.RangeTree(32, 6.0, 0), delta=0.3)
    monkeypatch.setattr(continual_release, "SystemSource", lambda: resolve_source(np.random.default_rng(5)))
    events = [day * day % 5 for day in range(32)]
    released(tmp_path, plan, events)
    total = np.zeros(62)
    for day in range(32):
        total += np.bincount(numbers_of(plan, tmp_path / "public" / f"day-{day:05d}"), minlength=62)
    noise = total - plan.mechanism.estimator.tree.sum_leaves(np.array(events, dtype=float))  # type: ignore[attr-defined]
    assert stats.poisson.cdf(noise.sum(), 62 * 6.0) == pytest.approx(0.5, abs=0.5 - 5e-8)
    dispersion = ((noise - noise.mean()) ** 2).sum() / noise.mean()
    assert stats.chi2.cdf(dispersion, 61) == pytest.approx(0.5, abs=0.5 - 5e-8)


def test_noise_is_the_operating_systems(tmp_path: Path) -> None:
    """Two releases of the same people differ, and do not have one name."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        released(tmp_path / name, POISSON)
    found = [json.loads((tmp_path / name / "public" / "day-00005" / "_manifest.json").read_text()) for name in "ab"]
    assert found[0]["sha256"] != found[1]["sha256"]
    assert found[0]["release"] != found[1]["release"]


def test_a_day_tells_nobody_how_many_came(tmp_path: Path) -> None:
    """No file of the public directory has a count of people, of refused rows or of files."""
    done = released(tmp_path, POISSON)
    assert [day.users for day in done] == list(EVENTS)
    public = tmp_path / "public"
    for day in range(len(EVENTS)):
        told = json.loads((public / f"day-{day:05d}" / "_manifest.json").read_text("utf-8"))
        assert told.keys() == {"format", "version", "plan", "release", "day", "width", "messages", "sha256", "before"}
        assert told["messages"] == len(numbers_of(POISSON, public / f"day-{day:05d}"))
    names = {Path(name).name for name in list_paths(public)}
    assert names == {"_manifest.json", "messages-00000.parquet", *(f"day-{day:05d}" for day in range(len(EVENTS)))}


def test_what_is_kept_is_the_shufflers_alone(tmp_path: Path) -> None:
    """Only what is not over, among its noise, in a directory of its owner; after the last day nothing."""
    released(tmp_path, POISSON, EVENTS[:3])
    own = tmp_path / "own"
    assert own.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in own.iterdir() if path.is_dir()] == ["day-00002"]
    told = json.loads((own / "day-00002" / "state.json").read_text("utf-8"))
    assert told.keys() == {"format", "version", "plan", "release", "day", "waiting", "bundles", "given"}
    assert len(told["bundles"]) == 2
    lasts = POISSON.mechanism.estimator.tree.last_values  # type: ignore[attr-defined]
    kept = numbers_of(POISSON, own / "day-00002" / "waiting")
    assert set(lasts[kept]) == {3, 4, 5}
    for day, count in enumerate(EVENTS[3:], 3):
        files = encoded(tmp_path, POISSON, day, count)
        collection.release(files, plan=POISSON, day=day, state=own, out=tmp_path / "public")
    assert list((own / "day-00005" / "waiting").iterdir()) == []
    own.chmod(0o755)
    with pytest.raises(ValueError, match="for the shuffler alone; run `chmod 700` on it"):
        collection.release(plan=POISSON, day=5, state=own, out=tmp_path / "public")


# --- what is estimated --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [POISSON, CANCELLING, FLAT], ids=lambda plan: plan.mechanism.name)
def test_every_day_is_estimated_from_what_is_over(plan: Plan, tmp_path: Path) -> None:
    """Unbiased within six standard errors, the last day as the others; the first days do not change any more."""
    before = np.zeros(0)
    for day, count in enumerate(EVENTS):
        files = encoded(tmp_path, plan, day, count)
        collection.release(files, plan=plan, day=day, state=tmp_path / "own", out=tmp_path / "public")
        report = collection.estimate(plan, tmp_path / "public", out=tmp_path / f"result{day}")
        (quantity,) = report.quantities
        assert quantity.labels == tuple(str(k) for k in range(day + 1))
        assert quantity.value[:day].tolist() == before.tolist()
        before = quantity.value
        truth, error = np.cumsum(EVENTS[: day + 1]), report.estimate.standard_error
        assert (error > 0).all()
        assert (np.abs(quantity.value - truth) <= 6 * error).all()
    told = report.document()
    assert told["users"] is told["guarantee"]["users"] is None
    assert told["days"] == {"released": 6, "last": "5", "of": 6}
    assert "nodes" not in told
    assert "6 of 6 days are released; the guarantee is for all days together and is charged once" in told["statement"]
    assert "one of the people of all 6 days" in told["statement"]
    assert "| days released | 0 … 5: 6 of 6 |" in (tmp_path / "result5" / "report.md").read_text("utf-8")
    with pytest.raises(ValueError, match="has only running counts"):
        report.range(0, 3)
    with pytest.raises(ValueError, match="has only running counts"):
        report.quantile(0.5)
    with pytest.raises(ValueError, match="the report has no nodes of a tree"):
        sdp.ask(tmp_path / "result5", ranges=[(0, 3)])


def test_what_is_estimated_is_what_was_released(tmp_path: Path) -> None:
    """A day that is missing, swapped, of another plan, or changed in any way is a sentence."""
    released(tmp_path, POISSON)
    other = tmp_path / "other"
    other.mkdir()
    released(other, POISSON)

    def refused(match: str, plan: Plan = POISSON) -> None:
        with pytest.raises(ValueError, match=match):
            collection.estimate(plan, tmp_path / "changed", out=tmp_path / "result")
        assert not (tmp_path / "result").exists()
        shutil.rmtree(tmp_path / "changed")

    for change in ("gone", "swapped", "edited", "messages", "moved", "other"):
        there = shutil.copytree(tmp_path / "public", tmp_path / "changed") / "day-00003"
        if change == "gone":
            shutil.rmtree(there)
            refused("lacks day 3: all days up to the last one are needed")
        elif change == "swapped":
            shutil.rmtree(there)
            shutil.copytree(other / "public" / "day-00003", there)
            refused("day-00003 does not follow the day before: one was changed")
        elif change == "edited":
            path = there.parent / "day-00002" / "_manifest.json"
            path.write_text(path.read_text("utf-8").replace('"messages": ', '"messages": 1'), "utf-8")
            refused("day-00003 does not follow the day before: one was changed")
        elif change == "messages":
            pq.write_table(pq.read_table(there / "messages-00000.parquet").slice(1), there / "messages-00000.parquet")
            refused("day-00003 is damaged: its messages are not those of its _manifest.json")
        elif change == "moved":
            later = there.parent / "day-00004"
            told = (later / "_manifest.json").read_text("utf-8")
            shutil.rmtree(later)
            shutil.rmtree(there.parent / "day-00005")
            shutil.copytree(there, later)
            (later / "_manifest.json").write_text(_with_messages_of(there, told), "utf-8")
            refused("day 4 in .* has messages of tree nodes that end later")
        else:
            refused("made for another plan or round", FLAT)


def _with_messages_of(directory: Path, told: str) -> str:
    """A manifest that speaks of the messages of another day."""
    other = json.loads((directory / "_manifest.json").read_text("utf-8"))
    return json.dumps(json.loads(told) | {name: other[name] for name in ("messages", "sha256")})


# --- what is refused ----------------------------------------------------------------------------------------------


def test_days_come_in_order(tmp_path: Path) -> None:
    """Again, earlier, later, beyond the end, by labels: a sentence, and nothing changes."""
    days = ["mon", "tue", "wed", "thu", "fri", "sat"]
    plan = plan_with(sdp.RangeTree(6, 20.0, 0), OverTime(days))

    def one(day: str, **more: Any) -> None:
        given: dict[str, Any] = {"plan": plan, "state": tmp_path / "own", "out": tmp_path / "public"} | more
        collection.release(encoded(tmp_path, plan, days.index(day), 3, day) if day in days else [], day=day, **given)

    with pytest.raises(ValueError, match="expected day mon, which comes next, got tue; a day without events is"):
        one("tue")
    one("mon")
    one("tue")
    before = list_paths(tmp_path)
    for day, match in (
        ("mon", "day mon is already released; each day is released once"),
        ("tue", "day tue is already released; each day is released once"),
        ("thu", "expected day wed, which comes next, got thu"),
        ("sun", "expected a value of the domain, such as 'mon', got 'sun'"),
    ):
        with pytest.raises(ValueError, match=match):
            one(day)
    assert [name for name in list_paths(tmp_path) if name != "3.messages"] == before
    for more, match in (
        ({"state": tmp_path / "fresh"}, "expected day mon, which comes next, got wed"),
        ({"out": tmp_path / "fresh"}, "has no day-00001: repeat that day's command, or give the out"),
        ({"out": tmp_path / "own" / "public"}, "neither may contain the other"),
        ({"plan": POISSON, "day": 2}, "another plan or another round"),
    ):
        given: dict[str, Any] = {"day": "wed", "plan": plan, "state": tmp_path / "own", "out": tmp_path / "public"}
        with pytest.raises(ValueError, match=match):
            collection.release(**(given | more))
    with pytest.raises(ValueError, match=r"has days that are not in .*; give the state of those days"):
        one("mon", state=tmp_path / "fresh2")
    shutil.copytree(tmp_path / "own", tmp_path / "copy")
    one("wed")
    with pytest.raises(ValueError, match="day wed is already released; each day is released once"):
        one("wed", state=tmp_path / "copy")
    shutil.rmtree(tmp_path / "own")
    shutil.move(tmp_path / "copy", tmp_path / "own")
    for name in ("day-00001", "day-00002"):
        shutil.rmtree(tmp_path / "public" / name)
    shutil.copytree(tmp_path / "public" / "day-00000", tmp_path / "public" / "day-00001")
    with pytest.raises(ValueError, match="day-00001 is not the release of that day"):
        one("wed")


def test_files_that_are_refused(tmp_path: Path) -> None:
    """Given twice, on one day or on two; of another plan; with several events of a person."""
    files = encoded(tmp_path, POISSON, 0, 5)
    copy = shutil.copyfile(files[0], tmp_path / "copy.messages")
    given: dict[str, Any] = {"plan": POISSON, "state": tmp_path / "own", "out": tmp_path / "public"}
    with pytest.raises(ValueError, match=r"copy\.messages were given already; each file must be given once"):
        collection.release([*files, copy], day=0, **given)
    collection.release(files, day=0, **given)
    with pytest.raises(ValueError, match=r"copy\.messages were given already; each file must be given once"):
        collection.release([copy], day=1, **given)
    collection.encode(FLAT, pa.array([1, 1]), out=tmp_path / "flat.messages")
    with pytest.raises(ValueError, match=r"flat\.messages was made for another plan or another round"):
        collection.release([tmp_path / "flat.messages"], day=1, **given)
    table = pa.table({"day": [1, 1, 1], "who": ["x", "x", "y"]})
    collection.encode(POISSON, table, "day", out=tmp_path / "many.messages", user="who", rows_per_user=2)
    with pytest.raises(ValueError, match="has up to 2 events of one person; expected one"):
        collection.release([tmp_path / "many.messages"], day=1, **given)
    assert list_paths(tmp_path / "public") == [
        "day-00000", "day-00000/_manifest.json", "day-00000/messages-00000.parquet",
    ]  # fmt: skip


def test_people_of_another_day_are_set_aside(tmp_path: Path) -> None:
    """Their own day is not today's, the weeks may be; only the shuffler learns how many."""
    collection.encode(POISSON, pa.array([0, 0, 5, 1]), out=tmp_path / "0.messages")
    done = collection.release(
        [tmp_path / "0.messages"], plan=POISSON, day=0, state=tmp_path / "own", out=tmp_path / "public"
    )
    # Of day 5 no node has day 0; of day 1 all but its own have.
    assert (done.users, done.refused, done.astray, done.missing) == (4, 0, 4, 0)
    assert EncodedFile.open(tmp_path / "0.messages").messages == 4 * 3


@pytest.mark.parametrize(
    ("plan", "match"),
    [
        (
            plan_with(sdp.RangeTree(6, 20.0, 100)),
            "the users of later days are missing; plan with rests_on=.shuffler-noise",
        ),
        (
            plan_with(sdp.PoissonDUMP(6, 20.0, 0), Frequency(6)),
            "expected a plan for the task 'counts over time'",
        ),
    ],
)
def test_plans_that_cannot_be_released_day_by_day(plan: Plan, match: str, tmp_path: Path) -> None:
    """One sentence says what to ask for."""
    with pytest.raises(ValueError, match=match):
        collection.release(plan=plan, day=0, state=tmp_path / "own", out=tmp_path / "public")
    assert list_paths(tmp_path) == []


# --- the ledger, and kills ----------------------------------------------------------------------------------------


def test_all_days_are_paid_for_once(tmp_path: Path) -> None:
    """By the shuffler on the first day, and by nobody again; another release of the same round is refused."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    released(tmp_path, POISSON, ledger=ledger.path)
    collection.estimate(POISSON, tmp_path / "public", out=tmp_path / "result", ledger=ledger.path)
    (entry,) = ledger.budget_statuses("test")[0].entries
    assert entry.recipe.users == POISSON.users
    (tmp_path / "again").mkdir()
    with pytest.raises(RoundTaken, match="a round is released once"):
        released(tmp_path / "again", POISSON, EVENTS[:1], ledger=ledger.path)
    assert not (tmp_path / "again" / "public").exists()
    (entry,) = ledger.budget_statuses("test")[0].entries
    assert (entry.plan, entry.round) == (POISSON.fingerprint, 1)


def test_a_release_that_lost_its_state_draws_no_second_noise(tmp_path: Path) -> None:
    """The same files with other noise: even without a ledger this machine remembers them."""
    released(tmp_path, POISSON, EVENTS[:1])
    other: dict[str, Any] = {"state": tmp_path / "other", "out": tmp_path / "other-public"}
    with pytest.raises(AlreadyShuffled, match="these files were shuffled before, with other noise"):
        collection.release(encoded(tmp_path, POISSON, 0, EVENTS[0]), plan=POISSON, day=0, **other)
    assert not (tmp_path / "other-public").exists()


def test_a_ledger_that_refuses_keeps_the_day_back(tmp_path: Path) -> None:
    """Nothing is public; when the budget is raised the same command releases what was drawn."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("test", 0.1, POISSON.delta)
    with pytest.raises(GuaranteeTooWeak, match="above the budget"):
        released(tmp_path, POISSON, EVENTS[:1], ledger=ledger.path)
    assert not (tmp_path / "public").exists()
    drawn = (tmp_path / "own" / "day-00000" / "public" / "_manifest.json").read_bytes()
    other = encoded(tmp_path, POISSON, 1, 5)
    with pytest.raises(ValueError, match="prepared already, from other files; give the same files as then"):
        collection.release(other, plan=POISSON, day=0, state=tmp_path / "own", out=tmp_path / "public")
    ledger.set_budget("test", POISSON.epsilon, POISSON.delta)
    released(tmp_path, POISSON, EVENTS[:1], ledger=ledger.path)
    assert (tmp_path / "public" / "day-00000" / "_manifest.json").read_bytes() == drawn


def releasing(room: Path, day: int) -> None:
    files = encoded(room, POISSON, day, EVENTS[day])
    given: dict[str, Any] = {"state": room / "own", "out": room / "public", "ledger": room / "ledger.sqlite"}
    collection.release(files, plan=POISSON, day=day, **given)


@pytest.mark.crash
@pytest.mark.parametrize("day", [0, 2])
def test_a_day_killed_before_every_step(day: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL before each change of a name and each look into the ledger; then the day is released again.

    What was complete in the shuffler's directory is what is released; after the first day that is the same whenever
    it was killed, as the noise is there from the first day on.
    """
    step, finished, every = 0, False, set[str]()
    template = tmp_path / "template"
    template.mkdir()
    ledger = new_ledger(template / "ledger.sqlite")
    for before in range(day):
        releasing(template, before)
    encoded(template, POISSON, day, EVENTS[day])
    while not finished:
        step += 1
        room = tmp_path / f"step{step}"
        # A machine of its own: one that saw the ledger go on takes the copy of before for what it is.
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"state{step}"))
        shutil.copytree(template, room)
        (room / "own").mkdir(mode=0o700, exist_ok=True)
        finished = run_and_kill_at(step, room, releasing, room, day)
        drawn = room / "own" / f"day-{day:05d}" / "public" / "_manifest.json"
        manifest = room / "public" / f"day-{day:05d}" / "_manifest.json"
        held = drawn.read_bytes() if drawn.exists() else None
        if manifest.exists():
            assert manifest.read_bytes() == held
            with pytest.raises(ValueError, match="is already released"):
                releasing(room, day)
        else:
            releasing(room, day)
        assert held in (None, manifest.read_bytes())
        every.add(manifest.read_text("utf-8"))
        assert [path.name for path in (room / "own").iterdir() if path.is_dir()] == [f"day-{day:05d}"]
        assert not any("unfinished" in name for name in list_paths(room / "public"))
        assert len(type(ledger)(room / "ledger.sqlite").budget_statuses("test")[0].entries) == 1
        collection.estimate(POISSON, room / "public", out=room / "result")
    assert step > 12, step
    assert len(every) == 1 or day == 0


def test_a_day_that_fails_while_it_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, after the ledger was told: nothing is public, and the same is released afterwards."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    releasing(tmp_path, 0)
    with monkeypatch.context() as patch:
        patch.setattr(
            continual_release.shutil, "copyfileobj", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left"))
        )
        with pytest.raises(OSError, match="No space left"):
            releasing(tmp_path, 1)
    assert not (tmp_path / "public" / "day-00001").exists()
    held = (tmp_path / "own" / "day-00001" / "public" / "_manifest.json").read_bytes()
    with pytest.raises(ValueError, match="has no day-00001: repeat that day's command"):
        releasing(tmp_path, 2)
    releasing(tmp_path, 1)
    assert (tmp_path / "public" / "day-00001" / "_manifest.json").read_bytes() == held
    with monkeypatch.context() as patch:
        patch.setattr(
            continual_release.shutil, "copyfileobj", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left"))
        )
        with pytest.raises(OSError, match="No space left"):
            releasing(tmp_path, 2)
    done = collection.release(
        encoded(tmp_path, POISSON, 2, EVENTS[2]), plan=POISSON, day=2, state=tmp_path / "own", out=tmp_path / "public"
    )
    assert (done.users, done.refused, done.astray, done.missing) == (EVENTS[2], 0, 0, 0)
    assert len(ledger.budget_statuses("test")[0].entries) == 1


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """Whoever has the shuffler's directory has it alone."""
    (tmp_path / "own").mkdir(mode=0o700)
    with (
        durable_files.open_locked(tmp_path / "own" / "lock"),
        pytest.raises(ValueError, match="another process is releasing from"),
    ):
        collection.release(plan=POISSON, day=0, state=tmp_path / "own", out=tmp_path / "public")
