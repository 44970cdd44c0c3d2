"""One contract, all stores: what is acknowledged is in the round, what is refused is nowhere, and a round ends once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shuffledp.service import stores
from shuffledp.service.stores import (
    AcceptedCampaign,
    PostedReports,
    PostgresStore,
    Round,
    RoundState,
    ShufflerPaths,
    SqliteStore,
    Store,
    StoreUnavailable,
)
from tests.collection import read_messages
from tests.service import create_campaign, plan_for
from tests.service.postgres import Postgres
from tests.service.test_round import NOW, USERS, Shuffler, batch_bytes

CAMPAIGN, OTHER = create_campaign(plan_for()), create_campaign(plan_for())
CLOSES = NOW + 100
Connect = Callable[[], Store]


@pytest.fixture
def connect(tmp_path: Path, database: str | None) -> Iterator[Connect]:
    """Connections to one store; all are ended with the test."""
    made: list[Store] = []

    def connected() -> Store:
        made.append(ShufflerPaths.from_directories(tmp_path, None, database).open_store())
        return made[-1]

    yield connected
    for store in made:
        store.close()


def opened(store: Store, number: int = 1) -> Round:
    made = Round(CAMPAIGN.id, number, RoundState.OPEN, CLOSES, 0, b"notice\0\xff")
    assert store.open_round(made)
    return made


def piece(content: bytes, number: int = 1) -> PostedReports:
    return PostedReports(CAMPAIGN.id, number, content)


def content_of(store: Store, number: int = 1) -> bytes:
    return b"".join(store.reports(CAMPAIGN.id, number))


def test_campaigns(connect: Connect) -> None:
    """Each is kept once, as it was first accepted, in order; everybody sees them."""
    store = connect()
    for accepted in (
        AcceptedCampaign(CAMPAIGN, None),
        AcceptedCampaign(OTHER, "a ledger"),
        AcceptedCampaign(CAMPAIGN, "another"),
    ):
        store.add_campaign(accepted)
    for seen in (store, connect()):
        assert seen.accepted_campaigns() == [AcceptedCampaign(CAMPAIGN, None), AcceptedCampaign(OTHER, "a ledger")]
        assert seen.campaign(OTHER.id) == OTHER
        assert seen.campaign("0" * 64) is None


def test_the_size_of_reports(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is known without the plan."""
    store = connect()
    store.add_campaign(AcceptedCampaign(CAMPAIGN, None))
    wanted, plan = CAMPAIGN.report_bytes, "shuffledp.service.campaign.Campaign.plan"
    assert (store.report_bytes(CAMPAIGN.id), store.report_bytes(OTHER.id)) == (wanted, None)
    with monkeypatch.context() as patch:
        patch.setattr(plan, property(lambda _: pytest.fail("it was read")))
        assert connect().report_bytes(CAMPAIGN.id) == wanted


def test_a_campaign_that_is_damaged(connect: Connect) -> None:
    """Its id tells; nobody acts on it."""
    store = connect()
    store.add_campaign(AcceptedCampaign(CAMPAIGN, None))
    damaged = CAMPAIGN.content.replace(b'"window":3600', b'"window":3601')
    with pytest.raises(StoreUnavailable, match="damaged"):
        stores.check_stored_campaign(CAMPAIGN.id, damaged)
    if isinstance(store, SqliteStore):
        store._file.execute("UPDATE campaigns SET content = ?", (damaged,))
        for ask in (lambda opened: opened.accepted_campaigns(), lambda opened: opened.campaign(CAMPAIGN.id)):
            with pytest.raises(StoreUnavailable, match="damaged"):
                ask(connect())


def test_rounds(connect: Connect) -> None:
    """They are opened once, and changed only by whoever knows how they stand."""
    store, other = connect(), connect()
    made = opened(store)
    assert not other.open_round(replace(made, notice=b"other"))
    second = opened(other, 2)
    assert store.rounds(CAMPAIGN.id) == [made, second]
    mixed = replace(made, state=RoundState.MIXED, closes=CLOSES + 1, extended=3, statement=b"\0signed")
    assert store.update_round(made, mixed)
    assert not other.update_round(made, replace(made, state=RoundState.EXPIRED))
    assert not other.update_round(replace(mixed, closes=1), replace(made, state=RoundState.EXPIRED))
    assert other.round(CAMPAIGN.id, 1) == mixed
    assert other.round(CAMPAIGN.id, 3) is None
    assert store.rounds(OTHER.id) == []


def test_what_is_refused_is_not_stored(connect: Connect) -> None:
    """Of requests that are committed together each has its own answer."""
    store = connect()
    made = opened(store)
    opened(store, 2)
    gone = PostedReports("0" * 64, 1, b"nowhere")
    pieces = [piece(b"a"), piece(b"b", 2), gone, piece(b"c"), piece(b"d", 3)]
    assert store.append_reports(pieces, NOW) == [True, True, False, True, False]
    assert store.append_reports([piece(b"late")], CLOSES) == [False]
    assert store.append_reports([piece(b"last")], CLOSES - 0.001) == [True]
    assert store.update_round(made, replace(made, state=RoundState.CLOSING))
    assert store.append_reports([piece(b"e"), piece(b"f", 2)], NOW) == [False, True]
    assert (content_of(store), content_of(store, 2)) == (b"aclast", b"bf")
    assert (store.stored_bytes(CAMPAIGN.id, 1), store.stored_bytes(CAMPAIGN.id, 3)) == (6, 0)
    store.delete_reports(CAMPAIGN.id, 1)
    assert (content_of(store), content_of(store, 2)) == (b"", b"bf")


def test_segments_end(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole requests, and not too many in one."""
    monkeypatch.setattr(stores, "SEGMENT_BYTES", 10)
    store = connect()
    opened(store)
    pieces = [piece(bytes([number]) * 4) for number in range(50)] + [piece(b"x" * 25), piece(b"y")]
    assert store.append_reports(pieces, NOW) == [True] * 52
    found = list(store.reports(CAMPAIGN.id, 1))
    assert [len(segment) for segment in found] == [12] * 16 + [33, 1]
    assert b"".join(found) == b"".join(each.content for each in pieces)


@pytest.mark.exhaustive
def test_a_round_is_closed_while_others_write(connect: Connect) -> None:
    """From the moment at which it is closed nothing is added; what was acknowledged is in, what was not is nowhere."""
    store, chance = connect(), random.Random(3)
    for number in range(1, 9):
        made = opened(store, number)
        taken: list[bytes] = []

        def write(own: Store, mark: bytes, number: int = number, taken: list[bytes] = taken) -> None:
            for count in range(10_000):
                content = mark + count.to_bytes(4, "big")
                if not own.append_reports([piece(content, number)], NOW)[0]:
                    return
                taken.append(content)

        workers = [threading.Thread(target=write, args=(connect(), mark)) for mark in (b"a", b"b")]
        for worker in workers:
            worker.start()
        while len(taken) < 3 + chance.randrange(8):
            time.sleep(0.0005)
        assert store.update_round(made, replace(made, state=RoundState.CLOSING))
        found = content_of(store, number)
        for worker in workers:
            worker.join()
        assert content_of(store, number) == found
        assert sorted(found[start : start + 5] for start in range(0, len(found), 5)) == sorted(taken)


def test_everything_is_there_after_a_restart(connect: Connect) -> None:
    """A connection that is closed and one that begins."""
    store = connect()
    opened(store)
    assert store.append_reports([piece(b"kept")], NOW) == [True]
    store.close()
    assert content_of(connect()) == b"kept"


def test_one_at_a_time(tmp_path: Path, database: str | None) -> None:
    """Whoever changes rounds; the lock of a connection that is gone is free."""
    paths = ShufflerPaths.from_directories(tmp_path, None, database)
    first, second = paths.open_store(), paths.open_store()
    with (
        paths.lock_rounds(),
        first.lock_rounds(),
        pytest.raises(BlockingIOError),
        paths.lock_rounds(),
        second.lock_rounds(),
    ):
        pass
    with paths.lock_rounds(), second.lock_rounds():
        second.accepted_campaigns()
    if database is not None:
        with first.lock_rounds(), pytest.raises(BlockingIOError), second.lock_rounds():
            pass
        with first.lock_rounds():
            first.close()
            with pytest.raises(StoreUnavailable, match="lock"):
                first.accepted_campaigns()
    first.close()
    second.close()


def test_the_batch_does_not_depend_on_the_store(tmp_path: Path, database: str | None) -> None:
    """Nor on the order, the requests or the connections: the same reports and key give the same bytes."""
    campaign = create_campaign(plan_for(USERS))
    plain = Shuffler(tmp_path / "plain", campaign)
    other = Shuffler(tmp_path / "other", campaign, database=database)
    path = other.paths.keys / other.round().name
    path.write_bytes((plain.paths.keys / plain.round().name).read_bytes())
    reports = plain.reports([0, 1, 2, 0] * 10)
    for report in reports:
        assert plain.post(report)
    second = other.paths.open_store()
    assert second.append_reports(
        [PostedReports(campaign.id, 1, b"".join(reversed(reports[7:])) + reports[9])], NOW
    ) == [True]
    assert other.post(b"".join(reports[:7]))
    for shuffler in (plain, other):
        assert shuffler.turn() is RoundState.FORGOTTEN
    assert read_messages(plain.paths.batch_directory(plain.round()), 49)
    found, wanted = batch_bytes(other), batch_bytes(plain)
    assert found.pop("_aside.json") != wanted.pop("_aside.json")
    assert found == wanted
    assert second.stored_bytes(campaign.id, 1) == 0
    for store in (second, plain.store, other.store):
        store.close()


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Nothing is acknowledged, and the same connection goes on when there is room."""
    store = ShufflerPaths.from_directories(tmp_path).open_store()
    assert isinstance(store, SqliteStore)
    opened(store)
    (pages,) = store._file.execute("PRAGMA page_count").fetchone()
    store._file.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreUnavailable, match="full"):
        store.append_reports([piece(b"x" * 100_000)], NOW)
    store._file.execute("PRAGMA max_page_count = 1000000")
    assert store.append_reports([piece(b"y")], NOW) == [True]
    assert content_of(store) == b"y"
    store.close()


@pytest.mark.crash
@pytest.mark.database
def test_a_database_that_is_killed(database_server: Postgres) -> None:
    """What was acknowledged is there when it is back; meanwhile nothing is."""
    store = PostgresStore(database_server.new_database())
    opened(store)
    acknowledged = []
    for number in range(30):
        if number == 20:
            database_server.kill()
        try:
            assert store.append_reports([piece(number.to_bytes(2, "big"))], NOW) == [True]
            acknowledged.append(number.to_bytes(2, "big"))
        except StoreUnavailable:
            assert number >= 20
    assert len(acknowledged) == 20
    with pytest.raises(StoreUnavailable, match="a moment ago"):
        store.accepted_campaigns()
    database_server.start()
    time.sleep(1.1)
    assert store.append_reports([piece(b"zz")], NOW) == [True]
    assert content_of(store) == b"".join([*acknowledged, b"zz"])
    store.close()


@pytest.mark.database
def test_a_new_connection_keeps_nobody_waiting(database_server: Postgres) -> None:
    """While one reads a round, others come and write."""
    url = database_server.new_database()
    store, writer = PostgresStore(url), PostgresStore(url)
    opened(store)
    assert store.append_reports([piece(b"a"), piece(b"b")], NOW) == [True, True]
    reading = store.reports(CAMPAIGN.id, 1)
    assert next(reading) == b"ab"
    assert writer.append_reports([piece(b"c")], NOW) == [True]
    assert list(reading) == []
    store.close()
    writer.close()


def test_what_is_no_database(tmp_path: Path) -> None:
    """A sentence, without the address, which may hold a password."""
    with pytest.raises(ValueError, match="postgresql://host/name") as failed:
        ShufflerPaths.from_directories(tmp_path, None, "mysql://me:secret@host/x").open_store()
    assert "secret" not in str(failed.value)
    store = PostgresStore("postgresql://me:secret@127.0.0.1:1/x")
    with pytest.raises(StoreUnavailable) as down:
        store.accepted_campaigns()
    assert "secret" not in str(down.value)


def test_a_round_that_is_full(connect: Connect) -> None:
    """As many bytes as its campaign's reports have: what fits is stored, whoever asks, and each has its own answer."""
    campaign = create_campaign(plan_for(), capacity=100)
    store, size = connect(), campaign.report_bytes
    store.add_campaign(AcceptedCampaign(campaign, None))
    for number in (1, 2):
        assert store.open_round(Round(campaign.id, number, RoundState.OPEN, CLOSES, 0, b""))

    def post(asked: Store, *counts: int, number: int = 1) -> list[bool]:
        return asked.append_reports(
            [PostedReports(campaign.id, number, bytes([count]) * count * size) for count in counts], NOW
        )

    assert post(store, 60, 30) == [True, True]
    assert post(connect(), 11, 7, 4, 3) == [False, True, False, True]
    assert post(store, 1) == [False]
    assert store.append_reports(
        [PostedReports(campaign.id, 2, bytes(size)), PostedReports(campaign.id, 1, bytes(size))], NOW
    ) == [True, False]
    assert (store.stored_bytes(campaign.id, 1), store.stored_bytes(campaign.id, 2)) == (100 * size, size)
    kept = b"".join(store.reports(campaign.id, 1))
    assert sorted(set(kept)) == [3, 7, 30, 60]
    store.delete_reports(campaign.id, 1)
    assert post(store, 100) == [True], "nothing is left of what was forgotten"


def test_a_round_that_an_earlier_version_filled(connect: Connect) -> None:
    """It did not keep count: what it stored is counted once, when a newer version opens the store."""
    campaign = create_campaign(plan_for(), capacity=100)
    store, size = connect(), campaign.report_bytes
    store.add_campaign(AcceptedCampaign(campaign, None))
    assert store.open_round(Round(campaign.id, 1, RoundState.OPEN, CLOSES, 0, b""))
    assert store.append_reports([PostedReports(campaign.id, 1, bytes(90 * size))], NOW) == [True]
    if isinstance(store, SqliteStore):
        store._file.execute("DROP TABLE held")
        store._file.execute("PRAGMA user_version = 0")
    elif isinstance(store, PostgresStore):
        store._session.execute("DROP TABLE shuffledp_held")
        store._session.execute("DROP TABLE shuffledp_schema")
    other = connect()
    assert other.append_reports([PostedReports(campaign.id, 1, bytes(11 * size))], NOW) == [False]
    assert other.append_reports([PostedReports(campaign.id, 1, bytes(10 * size))], NOW) == [True]
    assert store.append_reports([PostedReports(campaign.id, 1, bytes(size))], NOW) == [False]
