"""The analyst fetches a batch, is killed on the way, and goes on: what it says of the batch is true."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shuffledp.service import batch_receiver, table_sender
from shuffledp.service.batch_receiver import fetch_and_open
from shuffledp.service.client import HttpClient, ShufflerResponse
from shuffledp.service.stores import RoundState
from shuffledp.storage import durable_files
from tests.collection import list_paths
from tests.service import ANALYST, create_campaign, plan_for
from tests.service.test_round import NOW, Shuffler

USERS = 12


class Killed(BaseException):
    """The analyst's process ends here."""


class Desk:
    """The analyst's side of a shuffler, without a network: its batch, until it is confirmed."""

    def __init__(self, shuffler: Shuffler) -> None:
        self.shuffler, self.asked = shuffler, list[str]()
        self.away = False

    def ask(
        self,
        _: HttpClient,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        at_most: int = 0,
    ) -> ShufflerResponse:
        self.asked.append(f"{method} {path.rpartition('/')[2]}")
        if self.away:
            raise ValueError("shuffler: no answer.")
        found = self.shuffler.round()
        if method == "DELETE":
            self.shuffler.store.update_round(found, replace(found, state=RoundState.HANDED_OVER))
            return ShufflerResponse(204, b"")
        if path.endswith("/1"):
            return ShufflerResponse(200, json.dumps({"state": found.state, "closes": found.closes}).encode())
        if found.state is not RoundState.FORGOTTEN or found.statement is None:
            return ShufflerResponse(404, b"")
        if path.endswith("/batch"):
            return ShufflerResponse(200, found.statement)
        first, _, last = (headers or {})["Range"].removeprefix("bytes=").partition("-")
        content = (self.shuffler.paths.batch_directory(found) / path.rpartition("/")[2]).read_bytes()
        return ShufflerResponse(206, content[int(first) : int(last) + 1])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk(Shuffler(tmp_path, create_campaign(plan_for(USERS))))
    for report in made.shuffler.reports([0] * USERS):
        assert made.shuffler.post(report)
    assert made.shuffler.turn() is RoundState.FORGOTTEN
    monkeypatch.setattr(HttpClient, "request", lambda *arguments, **named: made.ask(*arguments, **named))
    return made


def received(desk: Desk, room: Path) -> int:
    return fetch_and_open(desk.shuffler.campaign, ANALYST, out=room / "opened").users


def killed_at(owner: Any, name: str, desk: Desk, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receive, and be killed before this is called."""

    def stop(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, stop)
        with pytest.raises(Killed):
            received(desk, room)


def test_killed_after_the_last_word(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shuffler has deleted its copy, and all is here: that is no failure; nor is asking a third time."""
    killed_at(table_sender.durable_files, "remove_tree", desk, tmp_path, monkeypatch)
    assert desk.shuffler.round().state is RoundState.HANDED_OVER
    assert desk.shuffler.turn() is RoundState.ERASED
    before = list_paths(tmp_path / "opened")
    for _ in range(2):
        assert received(desk, tmp_path) == USERS
        assert not (tmp_path / "opened.sealed").exists()
    assert list_paths(tmp_path / "opened") == before


def test_killed_before_the_last_word(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shuffler is told by the next run."""
    killed_at(batch_receiver._RemoteBatch, "confirm", desk, tmp_path, monkeypatch)
    assert desk.shuffler.round().state is RoundState.FORGOTTEN
    assert received(desk, tmp_path) == USERS
    assert desk.shuffler.turn() is RoundState.ERASED


def test_killed_before_it_was_opened(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it was fetched, and its time is over at the shuffler: it is opened from here."""
    killed_at(batch_receiver, "open_batch", desk, tmp_path, monkeypatch)
    desk.shuffler.turn(NOW + 3600 + 7200)
    assert desk.shuffler.round().state is RoundState.ERASED
    assert received(desk, tmp_path) == USERS


def test_a_shuffler_that_cannot_be_told(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it cannot be reached in the end does not matter: its copy has a time."""
    real = batch_receiver._RemoteBatch.confirm

    def away(self: Any, *arguments: Any) -> None:
        desk.away = True
        real(self, *arguments)

    monkeypatch.setattr(batch_receiver._RemoteBatch, "confirm", away)
    for _ in range(2):
        assert received(desk, tmp_path) == USERS
    assert not (tmp_path / "opened.sealed").exists()


def test_half_of_a_batch_that_is_deleted(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only now is it true that it was deleted."""
    monkeypatch.setattr(batch_receiver, "PART_BYTES", 100)
    parts, real = 0, batch_receiver._RemoteBatch._fetch_part

    def second_is_the_last(self: Any, *arguments: Any) -> bytes:
        nonlocal parts
        parts += 1
        if parts == 3:
            raise Killed
        return real(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(batch_receiver._RemoteBatch, "_fetch_part", second_is_the_last)
        with pytest.raises(Killed):
            received(desk, tmp_path)
    desk.shuffler.turn(NOW + 3600 + 7200)
    with pytest.raises(ValueError, match=r"no batch of round 1 .* its retention time was over, and it was deleted"):
        received(desk, tmp_path)


def test_what_lies_there_of_another_round(desk: Desk, tmp_path: Path) -> None:
    """Messages of another campaign, of the same plan, are not taken for these."""
    received(desk, tmp_path)
    other = Desk(Shuffler(tmp_path / "other", create_campaign(desk.shuffler.campaign.plan)))
    for report in other.shuffler.reports([1] * USERS):
        other.shuffler.post(report)
    other.shuffler.turn()
    desk.shuffler, before = other.shuffler, list_paths(tmp_path / "opened")
    with pytest.raises(ValueError, match="expected a new or empty directory"):
        received(desk, tmp_path)
    assert list_paths(tmp_path / "opened") == before
    assert desk.shuffler.round().state is RoundState.FORGOTTEN


def test_a_planted_directory(desk: Desk, tmp_path: Path) -> None:
    """Nothing is fetched into what others can write to, nor through a link."""
    sealed = tmp_path / "opened.sealed"
    sealed.mkdir()
    sealed.chmod(0o777)
    with pytest.raises(durable_files.ForeignFile, match="sealed"):
        received(desk, tmp_path)
    sealed.chmod(0o700)
    (tmp_path / "precious").write_bytes(b"mine")
    (sealed / "messages-00000.parquet").symlink_to(tmp_path / "precious")
    with pytest.raises(durable_files.ForeignFile, match="messages-00000"):
        received(desk, tmp_path)
    assert (tmp_path / "precious").read_bytes() == b"mine"
