"""Rounds without a network: every state, what is mixed, what is forgotten, and what the ledger says."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shuffledp import CancellingNoise, Plan, PureDUMP, collection, tasks
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.collection import message_files
from shuffledp.collection.message_files import Manifest
from shuffledp.ledger.hash_chain import LedgerError
from shuffledp.ledger.ledger import Ledger, RoundTaken
from shuffledp.service import crypto, rounds
from shuffledp.service.batch_receiver import receive
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import REPORT_LABEL, build_context
from shuffledp.service.notices_and_statements import BatchStatement, RoundNotice
from shuffledp.service.rounds import RoundManager
from shuffledp.service.sealing import CampaignSealer, seal_reports
from shuffledp.service.stores import AcceptedCampaign, PostedReports, Round, RoundState, ShufflerPaths
from shuffledp.storage import durable_files
from tests.collection import read_messages
from tests.oracle import hpke
from tests.service import ANALYST, COLOURS, SHUFFLER, create_campaign, plan_for

pytestmark = pytest.mark.usefixtures("no_pictures")

NOW = 1_800_000_000
USERS = 40


class Shuffler:
    """One in a directory, with a campaign."""

    def __init__(self, room: Path, campaign: Campaign, ledger: Path | None = None, database: str | None = None) -> None:
        self.paths, self.campaign = ShufflerPaths.from_directories(room / "shuffler", None, database), campaign
        self.paths.create_directories(SHUFFLER)
        self.store = self.paths.open_store()
        self.accepted = AcceptedCampaign(campaign, None if ledger is None else str(ledger))
        self.manager = RoundManager(self.paths, self.store)
        self.manager.accept(self.accepted, NOW)

    def round(self, number: int = 1) -> Round:
        found = self.store.round(self.campaign.id, number)
        assert found is not None
        return found

    def notice(self, number: int = 1) -> RoundNotice:
        return RoundNotice.from_signed(self.campaign, self.round(number).notice)

    def reports(self, values: Sequence[int], number: int = 1) -> list[bytes]:
        mechanism = self.campaign.plan.mechanism
        wire = mechanism.pack(mechanism.encode(np.array(values)))
        return [row.tobytes() for row in seal_reports(self.campaign, self.notice(number), wire)]

    def post(self, content: bytes, now: float = NOW, number: int = 1) -> bool:
        return self.store.append_reports([PostedReports(self.campaign.id, number, content)], now)[0]

    def turn(self, now: float = NOW + 3600) -> RoundState:
        self.manager.take_due_steps(int(now))
        return self.round().state


@pytest.fixture
def shuffler(tmp_path: Path) -> Shuffler:
    return Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30)))


def batch_bytes(shuffler: Shuffler) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in shuffler.paths.batch_directory(shuffler.round()).iterdir()}


def keys_in(paths: ShufflerPaths) -> list[str]:
    """The rounds that have a key: neither the shuffler's own, nor the marks of what is over."""
    return sorted(path.name for path in paths.keys.iterdir() if path.name not in ("identity", "spent"))


def test_a_round_from_open_to_erased(shuffler: Shuffler, tmp_path: Path) -> None:
    """Reports with repetitions and garbage; the batch is what the oracle says; nothing is left of what came in."""
    campaign, paths = shuffler.campaign, shuffler.paths
    reports = shuffler.reports([0, 1] * 20)
    foreign = campaign.analyst_key.seal(build_context(REPORT_LABEL, campaign.id, 1), bytes(49))
    for report in [*reports, reports[3], reports[3], bytes(97), foreign]:
        assert shuffler.post(report)
    key = paths.round_key(shuffler.round().name)
    assert key is not None
    inside = [hpke.open_envelope(key.secret, build_context(REPORT_LABEL, campaign.id, 1), report) for report in reports]
    assert not shuffler.manager.is_due(NOW + 3599)
    assert shuffler.turn(NOW + 3599) is RoundState.OPEN
    assert not shuffler.post(reports[0], NOW + 3600)
    assert shuffler.manager.is_due(NOW + 3600)
    assert shuffler.turn() is RoundState.FORGOTTEN
    assert not shuffler.post(reports[0])
    statement = BatchStatement.from_signed(campaign, shuffler.round().statement or b"")
    assert (statement.manifest.users, statement.repeated, statement.refused) == (USERS, 2, 2)
    assert read_messages(paths.batch_directory(shuffler.round()), 49) == sorted(inside)
    assert paths.round_key(shuffler.round().name) is None
    assert keys_in(paths) == []
    assert list(shuffler.store.reports(campaign.id, 1)) == []
    assert not paths.work_directory.exists()
    made = receive(campaign, ANALYST, paths.batch_directory(shuffler.round()), out=tmp_path / "opened")
    assert (made.users, made.messages, made.refused) == (USERS, USERS, 0)
    assert collection.estimate(campaign.plan, tmp_path / "opened", out=tmp_path / "r").guarantee.users == USERS
    assert shuffler.turn(NOW + 3600 + 7199) is RoundState.FORGOTTEN
    assert shuffler.turn(NOW + 3600 + 7200) is RoundState.ERASED
    assert list(paths.batches_directory.iterdir()) == []
    assert not shuffler.manager.is_due(NOW * 2)


def test_the_order_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same reports in another order and other segments, by other processes, sorted on disk: the same bytes."""
    campaign = create_campaign(plan_for(USERS))
    first, second, third = (Shuffler(tmp_path / name, campaign) for name in "abc")
    for other in (second, third):
        path = other.paths.keys / other.round().name
        path.write_bytes((first.paths.keys / first.round().name).read_bytes())
    reports = first.reports([0, 1, 2, 0] * 10)
    for report in reports:
        first.post(report)
    for shuffler in (second, third):
        shuffler.post(b"".join(reports[:7]))
        shuffler.post(b"".join(reversed(reports[7:])) + reports[0])
    first.turn()
    second.turn()
    monkeypatch.setattr(rounds, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(crypto, "CHUNK_ROWS", 3)
    third.turn()
    names = {"messages-00000.parquet", "_manifest.json", "_aside.json"}
    found = [batch_bytes(each) for each in (first, second, third)]
    assert found[0].keys() == found[1].keys() == found[2].keys() == names
    for name in names - {"_aside.json"}:
        assert found[0][name] == found[1][name] == found[2][name]


def test_too_few_are_never_handed_on(tmp_path: Path) -> None:
    """Repetitions and garbage do not count; the window is extended with the same key, then the round expires."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30), extensions=1), ledger.path)
    (standing,) = ledger.budget_statuses()
    assert [entry.users for entry in standing.entries] == [30]
    reports = shuffler.reports([0] * 29)
    for report in [*reports, *reports, *[bytes(97)] * 9]:
        shuffler.post(report)
    assert shuffler.turn() is RoundState.OPEN
    assert (shuffler.round().closes, shuffler.round().extended) == (NOW + 7200, 1)
    assert shuffler.notice() == replace(shuffler.notice(), closes=NOW + 7200)
    assert shuffler.post(reports[0], NOW + 5000)
    assert list(shuffler.paths.batches_directory.iterdir()) == []
    assert shuffler.turn(NOW + 7200) is RoundState.EXPIRED
    assert keys_in(shuffler.paths) == []
    assert list(shuffler.store.reports(shuffler.campaign.id, 1)) == []
    assert list(shuffler.paths.batches_directory.iterdir()) == []
    assert ledger.budget_statuses()[0].entries == ()


def test_one_more_in_the_extension_is_enough(tmp_path: Path) -> None:
    """What came before it stays in; the ledger is settled with those who came."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30), extensions=1), ledger.path)
    reports = shuffler.reports([0] * 31)
    for report in reports[:29]:
        shuffler.post(report)
    shuffler.turn()
    for report in reports[29:]:
        shuffler.post(report, NOW + 4000)
    assert shuffler.turn(NOW + 7200) is RoundState.FORGOTTEN
    (entry,) = ledger.budget_statuses()[0].entries
    manifest = Manifest.read(shuffler.paths.batch_directory(shuffler.round()))
    assert (entry.users, entry.state, entry.digest) == (31, "released", manifest.digest)


def test_an_empty_round_expires(shuffler: Shuffler) -> None:
    """Nobody came."""
    assert shuffler.turn() is RoundState.EXPIRED


def test_rounds_follow_each_other(tmp_path: Path) -> None:
    """As many as planned, each with a key of its own; what was sealed for one does not count in another."""
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30, rounds=2)))
    old = shuffler.reports([0] * 30)
    for report in old:
        shuffler.post(report)
    assert shuffler.turn() is RoundState.FORGOTTEN
    assert shuffler.round(2).state is RoundState.OPEN
    assert shuffler.notice(2).key != shuffler.notice(1).key
    for report in [*old, *shuffler.reports([1] * 30, 2)]:
        shuffler.post(report, NOW + 3601, 2)
    shuffler.turn(NOW + 7200)
    statement = BatchStatement.from_signed(shuffler.campaign, shuffler.round(2).statement or b"")
    assert (statement.manifest.users, statement.refused) == (30, 30)
    assert not shuffler.manager.is_due(NOW + 7201)
    assert len(shuffler.store.rounds(shuffler.campaign.id)) == 2


def test_several_messages_of_a_client(tmp_path: Path) -> None:
    """They are apart in the batch, all or none of them."""
    plan = Plan(tasks.Frequency(3), PureDUMP(3, dummies=60), users=30, epsilon=20.0, delta=1e-2)
    shuffler = Shuffler(tmp_path, create_campaign(plan))
    reports = shuffler.reports([0, 1, 2] * 10)
    assert {len(report) for report in reports} == {61 * 49 + 48}
    for report in reports:
        shuffler.post(report)
    assert shuffler.turn() is RoundState.FORGOTTEN
    made = receive(
        shuffler.campaign, ANALYST, shuffler.paths.batch_directory(shuffler.round()), out=tmp_path / "opened"
    )
    assert (made.users, made.messages) == (30, 30 * 61)
    assert collection.estimate(plan, tmp_path / "opened", out=tmp_path / "r").guarantee.users == 30


def test_noise_of_the_shuffler(tmp_path: Path) -> None:
    """It is drawn when the round is mixed, and sealed like everybody's."""
    mechanism = next(one for one in CancellingNoise.examples() if one.message_plan.has_shuffler_noise)
    plan = Plan(tasks.Frequency(mechanism.options), mechanism, users=30, epsilon=20.0, delta=1e-2)
    shuffler = Shuffler(tmp_path, create_campaign(plan))
    for report in shuffler.reports([0, 1] * 15):
        shuffler.post(report)
    assert shuffler.turn() is RoundState.FORGOTTEN
    made = receive(
        shuffler.campaign, ANALYST, shuffler.paths.batch_directory(shuffler.round()), out=tmp_path / "opened"
    )
    assert made.noise == "shuffler"
    assert made.messages > 30 * shuffler.campaign.messages_per_user
    assert collection.estimate(plan, tmp_path / "opened", out=tmp_path / "r").guarantee.users == 30


def test_a_budget_refuses_a_campaign(tmp_path: Path) -> None:
    """Nothing is kept of it."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    ledger.set_budget("everyone", 0.01, 1e-6)
    with pytest.raises(GuaranteeTooWeak):
        Shuffler(tmp_path, create_campaign(plan_for(USERS)), ledger.path)
    paths = ShufflerPaths.from_directories(tmp_path / "shuffler")
    assert paths.open_store().accepted_campaigns() == []
    assert keys_in(paths) == []


def test_a_round_is_released_once_under_one_ledger(tmp_path: Path) -> None:
    """It stands there with its plan and number: neither another campaign nor the roles release it again."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    plan = plan_for(USERS, minimum=30, rounds=2)
    shuffler = Shuffler(tmp_path, create_campaign(plan), ledger.path)
    reports = shuffler.reports([0, 1] * 20)
    for report in [*reports, *reports]:
        assert shuffler.post(report)
    assert shuffler.turn() is RoundState.FORGOTTEN
    assert BatchStatement.from_signed(shuffler.campaign, shuffler.round().statement or b"").manifest.users == USERS
    first, second = ledger.budget_statuses("everyone")[0].entries
    assert (first.plan, first.round, first.rounds, first.state) == (plan.fingerprint, 1, 2, "released")
    assert (second.plan, second.round, second.state) == (plan.fingerprint, 2, "reserved")
    (tmp_path / "other").mkdir()
    with pytest.raises(RoundTaken, match=r"round 1 of 2 of the plan .* was released on"):
        Shuffler(tmp_path / "other", create_campaign(plan), ledger.path)
    collection.encode(plan, pa.array([*COLOURS] * 10), out=tmp_path / "late.messages", round_number=1)
    with pytest.raises(RoundTaken, match="was released on"):
        collection.shuffle([tmp_path / "late.messages"], out=tmp_path / "late", plan=plan, ledger=ledger.path)
    # The same messages, opened and read, are no second release.
    receive(shuffler.campaign, ANALYST, shuffler.paths.batch_directory(shuffler.round()), out=tmp_path / "opened")
    report = collection.estimate(plan, tmp_path / "opened", out=tmp_path / "r", ledger=ledger.path)
    assert report.guarantee.round_number == 1
    assert len(ledger.budget_statuses("everyone")[0].entries) == 2


def test_a_restored_copy_without_keys_expires(shuffler: Shuffler) -> None:
    """What a thief of the backup holds is noise; the shuffler gives the round up."""
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
    (shuffler.paths.keys / shuffler.round().name).unlink()
    assert shuffler.manager.is_due(NOW)
    assert shuffler.turn(NOW) is RoundState.EXPIRED


def test_closing_and_giving_up_by_hand(tmp_path: Path) -> None:
    """The minimum holds all the same, and what is signed cannot be taken back."""
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30)))
    for report in shuffler.reports([0] * 30):
        shuffler.post(report)
    shuffler.manager.close_now(shuffler.round(), NOW + 10)
    assert shuffler.round().state is RoundState.FORGOTTEN
    with pytest.raises(ValueError, match="cannot be taken back"):
        shuffler.manager.give_up_round(shuffler.accepted, shuffler.round())
    other = Shuffler(tmp_path / "other", create_campaign(plan_for(USERS)))
    other.manager.give_up_round(other.accepted, other.round())
    assert other.round().state is RoundState.EXPIRED


# --- what is left, and what is put back ---------------------------------------------------------------------------


class Stopped(BaseException):
    """The process was killed here."""


def stopped_before(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Close the round, and be killed when this is called; what is tidied up on the way out is not."""

    def stop(*_: object, **__: object) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, stop)
        patched.setattr(durable_files.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Stopped):
            shuffler.turn()


def messages_left(shuffler: Shuffler) -> int:
    """How many messages below the state directory open by the analyst's key."""
    info, width = CampaignSealer(shuffler.campaign, 1).info, shuffler.campaign.message_bytes
    opener, found = crypto.EnvelopeOpener(ANALYST.private_key, info), 0
    for path in shuffler.paths.state.rglob("*.parquet"):
        wires = list(message_files.read_messages([path], width))
        found += sum(len(opened) for opened, _ in opener.open_all(wires, sum(map(len, wires)), 1))
    return found


@pytest.mark.parametrize(("killed", "with_ledger"), [
    ("sync_tree", False), ("rename", True), ("settle", True), ("sign", True), ("sign", False),
])  # fmt: skip
def test_expiry_leaves_nothing_that_opens(
    tmp_path: Path, killed: str, with_ledger: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the statement is signed a round can be given up; then neither batches, whole or not, nor work are left."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    campaign = create_campaign(plan_for(USERS, minimum=30))
    shuffler = Shuffler(tmp_path, campaign, ledger.path if with_ledger else None)
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
    owners = {"rename": durable_files, "sync_tree": durable_files, "settle": Ledger, "sign": BatchStatement}
    stopped_before(shuffler, monkeypatch, owners[killed], killed)
    assert messages_left(shuffler) == USERS
    shuffler.paths.work_directory.mkdir(exist_ok=True)
    (shuffler.paths.work_directory / "run").touch()
    assert shuffler.round().state is RoundState.CLOSING
    shuffler.manager.give_up_round(shuffler.accepted, shuffler.round())
    assert shuffler.turn() is RoundState.EXPIRED
    assert messages_left(shuffler) == 0
    assert list(shuffler.paths.batches_directory.iterdir()) == []
    assert not shuffler.paths.work_directory.exists()
    assert keys_in(shuffler.paths) == []
    # What the ledger was told to be released stays counted.
    assert len(ledger.budget_statuses()[0].entries) == (with_ledger and killed == "sign")


def test_expiry_that_is_killed_is_not_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator gave it up: a batch that is whole is not handed on by the next process."""
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30)))
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
    stopped_before(shuffler, monkeypatch, BatchStatement, "sign")

    def stop(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(ShufflerPaths, "destroy_round_key", stop)
        with pytest.raises(Stopped):
            shuffler.manager.give_up_round(shuffler.accepted, shuffler.round())
    assert shuffler.turn() is RoundState.EXPIRED
    assert messages_left(shuffler) == 0


def test_what_cannot_be_removed_is_not_called_expired(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is done again when it can be."""
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
    stopped_before(shuffler, monkeypatch, BatchStatement, "sign")
    with monkeypatch.context() as patched:
        patched.setattr(durable_files.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(OSError, match="batches"):
            shuffler.manager.give_up_round(shuffler.accepted, shuffler.round())
    assert shuffler.round().state is RoundState.CLOSING
    assert shuffler.turn() is RoundState.EXPIRED


def test_expiry_on_a_full_disk(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark needs room, which there is when what is to be destroyed is gone."""
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
    stopped_before(shuffler, monkeypatch, BatchStatement, "sign")
    batch, spend = shuffler.paths.batch_directory(shuffler.round()), ShufflerPaths.mark_finished

    def full(self: ShufflerPaths, name: str, digest: str = "") -> None:
        if batch.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        spend(self, name, digest)

    monkeypatch.setattr(ShufflerPaths, "mark_finished", full)
    shuffler.manager.give_up_round(shuffler.accepted, shuffler.round())
    assert shuffler.round().state is RoundState.EXPIRED
    assert shuffler.paths.finished_digest(shuffler.round().name) == ""


@pytest.mark.parametrize("killed", ["rename", "sync_tree"])
def test_a_start_sweeps_what_was_left(shuffler: Shuffler, killed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfinished batches, work, and what rounds that are over had; a round that can go on does."""
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
    stopped_before(shuffler, monkeypatch, durable_files, killed)
    paths, name = shuffler.paths, shuffler.round().name
    paths.work_directory.mkdir(exist_ok=True)
    (paths.work_directory / "run").touch()
    assert messages_left(shuffler) == USERS
    shuffler.manager.recover(NOW)
    assert (messages_left(shuffler), paths.work_directory.exists()) == (0, False)
    assert shuffler.turn() is RoundState.FORGOTTEN
    (paths.keys / name).write_bytes(b"key of a copy that was put back")
    shuffler.manager.recover(NOW)
    assert keys_in(paths) == []
    assert messages_left(shuffler) == USERS


def test_a_forgotten_round_has_one_batch(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process left of it goes with the key."""
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
    stopped_before(shuffler, monkeypatch, ShufflerPaths, "destroy_round_key")
    batch = shuffler.paths.batch_directory(shuffler.round())
    shutil.copytree(batch, batch.with_name(f"{batch.name}.unfinished-00"))
    assert shuffler.turn() is RoundState.FORGOTTEN
    assert list(shuffler.paths.batches_directory.iterdir()) == [batch]
    assert messages_left(shuffler) == USERS


def put_back(shuffler: Shuffler, tmp_path: Path, with_keys: bool) -> Shuffler:
    """Mix a round of a shuffler, put back a copy from before that, and start on it."""
    copies = [(shuffler.paths.state, tmp_path / "copy")]
    if with_keys:
        copies.append((shuffler.paths.keys, tmp_path / "copy.keys"))
    shuffler.store.close()
    for there, copy in copies:
        shutil.copytree(there, copy)
    shuffler.store = shuffler.paths.open_store()
    shuffler.manager = RoundManager(shuffler.paths, shuffler.store)
    assert shuffler.turn() is RoundState.FORGOTTEN
    shuffler.store.close()
    for there, copy in copies:
        shutil.rmtree(there)
        copy.rename(there)
    shuffler.store = shuffler.paths.open_store()
    shuffler.manager = RoundManager(shuffler.paths, shuffler.store)
    return shuffler


@pytest.mark.parametrize(("how", "with_keys", "with_ledger"), [
    ("start", False, False), ("start", True, True), ("clock", False, False), ("clock", True, True),
    ("close", False, True), ("close", True, True), ("expire", False, False), ("accept", True, True),
])  # fmt: skip
def test_a_round_that_was_handed_on_is_closed_for_good(
    tmp_path: Path, how: str, with_keys: bool, with_ledger: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ledger, or the mark beside the keys, knows it; whatever is done first, it is left, and nothing is released.

    Only where keys and state are put back, and no ledger is kept, can nobody know.
    """
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    campaign = create_campaign(plan_for(USERS, minimum=30, rounds=2), extensions=1)
    shuffler = Shuffler(tmp_path, campaign, ledger.path if with_ledger else None)
    reports = shuffler.reports([0] * USERS)
    for report in reports[:-1]:
        shuffler.post(report)
    key = (shuffler.paths.keys / shuffler.round().name).read_bytes()
    put_back(shuffler, tmp_path, with_keys)
    if not with_keys:
        # As if it had been kept elsewhere: without a key a round is given up anyway.
        (shuffler.paths.keys / shuffler.round().name).write_bytes(key)
    before = [entry.digest for entry in ledger.budget_statuses()[0].entries]
    assert shuffler.round().state is RoundState.OPEN
    shuffler.manager = replace(shuffler.manager, is_logging=True)
    if how == "start":
        shuffler.manager.recover(NOW)
    elif how == "clock":
        shuffler.post(reports[-1])
        shuffler.manager.take_due_steps(NOW + 3600)
    elif how == "close":
        with pytest.raises(ValueError, match=r"round 1 was handed over .* closed for good"):
            shuffler.manager.close_now(shuffler.round(), NOW)
    elif how == "expire":
        shuffler.manager.give_up_round(shuffler.accepted, shuffler.round())
    else:
        shuffler.manager.accept(shuffler.accepted, NOW)
    assert shuffler.round().state is RoundState.EXPIRED
    assert ("put back" in capsys.readouterr().err) == (how in ("start", "clock", "accept"))
    assert shuffler.store.stored_bytes(campaign.id, 1) == 0
    assert messages_left(shuffler) == 0
    assert keys_in(shuffler.paths) in ([], [f"{campaign.id}-2"])
    shuffler.manager.take_due_steps(NOW + 3601)
    assert [each.state for each in shuffler.store.rounds(campaign.id)] == [RoundState.EXPIRED, RoundState.OPEN]
    assert [entry.digest for entry in ledger.budget_statuses()[0].entries if entry.digest] == [x for x in before if x]


def test_a_ledger_that_refuses_does_not_hold_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mixed from a copy that was put back, before the ledger was asked: the ledger knows other messages."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30)), ledger.path)
    reports = shuffler.reports([0] * USERS)
    for report in reports[:-1]:
        shuffler.post(report)
    put_back(shuffler, tmp_path, with_keys=True)
    shuffler.post(reports[-1])
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "has_released", lambda *_: False)
        with pytest.raises(LedgerError, match="with other messages"):
            shuffler.turn()
    assert shuffler.paths.batch_directory(shuffler.round()).exists()
    assert shuffler.turn() is RoundState.EXPIRED
    assert messages_left(shuffler) == 0


def test_a_round_that_expired_is_not_opened_again(tmp_path: Path) -> None:
    """Its people were asked; a copy from before it was opened does not know that."""
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30, rounds=3)))
    shuffler.store.close()
    shutil.copytree(shuffler.paths.state, tmp_path / "copy")
    shuffler.store = shuffler.paths.open_store()
    shuffler.manager = RoundManager(shuffler.paths, shuffler.store)
    for later in (NOW + 3600, NOW + 7200):
        shuffler.manager.take_due_steps(later)
    assert shuffler.round(2).state is RoundState.EXPIRED
    shuffler.store.close()
    shutil.rmtree(shuffler.paths.state)
    (tmp_path / "copy").rename(shuffler.paths.state)
    shuffler.store = shuffler.paths.open_store()
    shuffler.manager = RoundManager(shuffler.paths, shuffler.store)
    for _ in range(3):
        shuffler.manager.take_due_steps(NOW + 7201)
    assert [each.state for each in shuffler.store.rounds(shuffler.campaign.id)] == [RoundState.EXPIRED] * 2 + [
        RoundState.OPEN
    ]


# --- where keys are -----------------------------------------------------------------------------------------------


def test_keys_are_outside_of_the_state(shuffler: Shuffler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside it by default: what copies the state does not copy them; neither may be in the other."""
    paths = shuffler.paths
    assert paths.keys == tmp_path / "shuffler.keys"
    key = (paths.keys / shuffler.round().name).read_bytes()
    assert not any(key in path.read_bytes() for path in paths.state.rglob("*") if path.is_file())
    for keys in (paths.state / "keys", paths.state, tmp_path, paths.state / "a" / ".." / "b"):
        with pytest.raises(ValueError, match="neither may be in the other"):
            ShufflerPaths.from_directories(paths.state, keys)
    (tmp_path / "link").symlink_to(paths.state)
    with pytest.raises(ValueError, match="neither may be in the other"):
        ShufflerPaths.from_directories(paths.state, tmp_path / "link" / "keys")
    assert ShufflerPaths.from_directories(tmp_path / "shuffler" / ".").keys == paths.keys
    monkeypatch.chdir(paths.state)
    assert ShufflerPaths.from_directories(Path()).keys == paths.keys


def test_keys_of_an_older_version_are_to_be_moved(shuffler: Shuffler) -> None:
    """A sentence says where to; moved, all goes on."""
    paths, within = shuffler.paths, shuffler.paths.state / "keys"
    paths.keys.rename(within)
    for keys in (None, within):
        with pytest.raises(ValueError, match=rf"mv {within} {paths.keys}"):
            ShufflerPaths.from_directories(paths.state, keys)
    within.rename(paths.keys)
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
    assert ShufflerPaths.from_directories(paths.state).signing_key == SHUFFLER
    assert shuffler.turn() is RoundState.FORGOTTEN


def test_directories_of_others_are_refused(shuffler: Shuffler) -> None:
    """Whoever can write there could put back a key, or take away a mark."""
    for directory in (shuffler.paths.state, shuffler.paths.keys):
        directory.chmod(0o777)
        with pytest.raises(durable_files.ForeignFile, match=directory.name):
            _ = shuffler.paths.signing_key
        directory.chmod(0o700)
    shuffler.paths.keys.chmod(0o755)
    with pytest.raises(ValueError, match="chmod 700"):
        _ = shuffler.paths.signing_key


def test_another_shufflers_campaign(tmp_path: Path, shuffler: Shuffler) -> None:
    """Is refused, and a directory has one identity."""
    from shuffledp.service.crypto import ShufflerKey

    stranger = ShufflerKey.new()
    with pytest.raises(ValueError, match="another shuffler"):
        shuffler.paths.create_directories(stranger)
    elsewhere = ShufflerPaths.from_directories(tmp_path / "elsewhere")
    elsewhere.create_directories(stranger)
    with pytest.raises(ValueError, match="another shuffler"):
        RoundManager(elsewhere, elsewhere.open_store()).accept(shuffler.accepted, NOW)
    with pytest.raises(ValueError, match="campaign accept"):
        _ = ShufflerPaths.from_directories(tmp_path / "nowhere").signing_key


def test_one_process_at_a_time(shuffler: Shuffler) -> None:
    """The other one is told at once."""
    with shuffler.paths.lock_rounds(), pytest.raises(BlockingIOError), shuffler.paths.lock_rounds():
        pass


def test_files_are_the_owners(shuffler: Shuffler) -> None:
    """Neither the database nor what SQLite writes beside it can be read by others, nor can keys."""
    shuffler.post(shuffler.reports([0])[0])
    assert shuffler.paths.state.stat().st_mode & 0o077 == 0
    for path in shuffler.paths.state.rglob("*"):
        if path.is_file():
            assert path.stat().st_mode & 0o077 == 0, path


def test_the_batch_keeps_to_the_files_of_the_roles(shuffler: Shuffler) -> None:
    """What the service hands on and what sealed files hand on is one format."""
    for report in shuffler.reports([0] * USERS):
        shuffler.post(report)
    shuffler.turn()
    manifest = Manifest.read(shuffler.paths.batch_directory(shuffler.round()))
    assert manifest.plan == CampaignSealer(shuffler.campaign).identity(shuffler.campaign.plan, 1)


def test_processes_share_the_opening(shuffler: Shuffler, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same result, in the same order."""
    monkeypatch.setattr(crypto, "MIN_PARALLEL_ROWS", 1)
    monkeypatch.setattr(crypto, "CHUNK_ROWS", 4)
    private = ANALYST.private_key
    rows = private.public_key.seal_rows(b"info", np.arange(20, dtype=np.uint8).reshape(10, 2))
    rows = np.concatenate([rows, np.zeros_like(rows[:1])])
    opener = crypto.EnvelopeOpener(private, b"info")
    found = list(opener.open_all([rows], len(rows), workers=2))
    assert b"".join(opened.tobytes() for opened, _ in found) == bytes(range(20))
    assert sum(bad for _, bad in found) == 1


def test_the_store_is_written_through(shuffler: Shuffler) -> None:
    """FULL, so that a commit is on disk before it is acknowledged; and a log that is checkpointed."""
    file: sqlite3.Connection = shuffler.store._file  # type: ignore[attr-defined]
    assert file.execute("PRAGMA synchronous").fetchone() == (2,)
    assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
