"""Encoder, shuffler and estimator apart, over files of messages."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp import amplify, collection
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp._core.validation import Bytes
from shuffledp.collection import message_files
from shuffledp.collection.message_files import USERS, AlreadyShuffled, BatchSpec, EncodedFile, Manifest
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.ledger.ledger import Ledger, RoundTaken
from shuffledp.planning.plan import Plan
from shuffledp.storage import sorting
from tests.collection import (
    list_paths,
    new_ledger,
    random_column,
    read_encoded_file,
    read_messages,
    small_plan,
    write_table,
)

# Many bundles of a few plans.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

CHEAP = {"epsilon_local": 0.5, "bound": "efmrtt19"}
PLAN = small_plan("krr", users=2000, **CHEAP)


def encoded(directory: Path, number: int, rows: int = 1000, plan: Plan = PLAN) -> Path:
    """What one of several encoders hands over."""
    path = write_table(directory / f"data{number}.parquet", value=random_column("krr", rows, seed=number))
    out = directory / f"ours{number}.messages"
    assert collection.encode(plan, path, "value", out=out) == rows
    return out


def given_bundle(path: Path, rows: list[list[int]], users: int, plan: Plan = PLAN) -> Path:
    """A bundle of any rows, as a stranger may make one."""
    wire = np.array(rows, dtype=np.uint8)
    message_files.write_encoded_file(
        path, BatchSpec(plan.identity(), wire.shape[1], users, 1, len(wire), len(wire), USERS), [wire]
    )
    return path


def test_three_roles_give_a_report(tmp_path: Path) -> None:
    """Two encoders, one shuffler without a plan, one estimator."""
    files = [encoded(tmp_path, 1), encoded(tmp_path, 2)]
    assert collection.shuffle(files, out=tmp_path / "shuffled") == 2000
    together = [row for path in files for row in read_encoded_file(path)]
    assert read_messages(tmp_path / "shuffled", 1) == sorted(together)
    report = collection.estimate(PLAN, tmp_path / "shuffled", out=tmp_path / "out")
    wire = np.frombuffer(b"".join(together), dtype=np.uint8).reshape(-1, 1)
    direct = PLAN.mechanism.estimate(PLAN.mechanism.unpack(wire))
    np.testing.assert_array_equal(report.estimate.value, direct.value)
    assert "run separately" in report.document()["parties"]
    assert "saw the raw data" not in (tmp_path / "out" / "report.md").read_text("utf-8")
    assert report.guarantee.users == 2000
    assert report.document()["counts"] == {"messages": 2000, "refused": 0, "missing": 0}


def test_a_bundle_has_nothing_of_the_input(tmp_path: Path) -> None:
    """What it is, whose plan it is, how many users, and the messages."""
    path = encoded(tmp_path, 1)
    first, header, rest = path.read_bytes().split(b"\n", 2)
    assert first == b"shuffledp messages 2"
    told = json.loads(header)
    assert told.keys() == {"id", "plan", "users", "per_person", "width", "noise"}
    assert (told["plan"], told["users"], told["width"]) == (PLAN.identity(), 1000, 1)
    assert len(rest) == 1000 + 32


def test_encoding_the_same_people_again_is_refused(tmp_path: Path) -> None:
    """And every encoding draws its own randomness."""
    out = encoded(tmp_path, 1)
    before = out.read_bytes()
    with pytest.raises(ValueError, match="would weaken their privacy"):
        collection.encode(PLAN, tmp_path / "data1.parquet", "value", out=out)
    assert out.read_bytes() == before
    collection.encode(PLAN, tmp_path / "data1.parquet", "value", out=tmp_path / "again.messages")
    assert read_encoded_file(tmp_path / "again.messages") != read_encoded_file(out)


def test_a_bad_table_leaves_no_messages(tmp_path: Path) -> None:
    """Not even a part of them."""
    path = write_table(tmp_path / "data.parquet", value=pa.array(["red", "pink"]))
    with pytest.raises(ValueError, match="got something else in 1 of 2 values"):
        collection.encode(PLAN, path, "value", out=tmp_path / "out.messages")
    empty = write_table(tmp_path / "empty.parquet", value=pa.array([], pa.string()))
    with pytest.raises(ValueError, match="at least one row"):
        collection.encode(PLAN, empty, "value", out=tmp_path / "out.messages")
    with pytest.raises(ValueError, match="there is none"):
        collection.encode(PLAN, path, "value", out=tmp_path / "nowhere" / "out.messages")
    assert list_paths(tmp_path) == ["data.parquet", "empty.parquet"]


def test_the_shuffler_keeps_the_plan_where_it_has_one(tmp_path: Path) -> None:
    """Too few messages are not handed on and cost nothing; enough are, and stand in the ledger once."""
    files = [encoded(tmp_path, 1)]
    enough = Guarantee(PLAN, 1000).value.upper
    strict = small_plan("krr", users=2000, epsilon=enough * 0.99, **CHEAP)
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    ledger.register("test")
    before = list_paths(tmp_path)
    with pytest.raises(GuaranteeTooWeak, match="1000 users took part where 2000 were planned"):
        collection.shuffle(files, out=tmp_path / "shuffled", plan=strict, ledger=ledger.path)
    assert list_paths(tmp_path) == before
    assert all(not standing.entries for standing in ledger.budget_statuses())
    for out in ("shuffled", "again"):
        # The same messages in the same order are no second release.
        collection.shuffle(files, out=tmp_path / out, plan=strict, ledger=ledger.path, allow_weaker=True)
        (standing,) = ledger.budget_statuses("test")
        assert [(entry.users, entry.state) for entry in standing.entries] == [(1000, "released")]
    with pytest.raises(GuaranteeTooWeak):
        collection.estimate(strict, tmp_path / "shuffled", out=tmp_path / "out", ledger=ledger.path)
    assert not (tmp_path / "out").exists()
    report = collection.estimate(
        strict, tmp_path / "shuffled", out=tmp_path / "out", ledger=ledger.path, allow_weaker=True
    )
    assert report.budget_status is not None
    assert len(report.budget_status.entries) == 1


def test_a_full_disk_leaves_no_entry_in_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is charged when something is released, not before it fails."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    ledger.register("test")
    files = [encoded(tmp_path, 1)]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "messages")

    with monkeypatch.context() as patch:
        patch.setattr(message_files, "write_messages", full)
        with pytest.raises(OSError, match="No space"):
            collection.shuffle(files, out=tmp_path / "shuffled", plan=PLAN, ledger=ledger.path)
    assert all(not standing.entries for standing in ledger.budget_statuses())
    assert not (tmp_path / "shuffled").exists()
    assert collection.shuffle(files, out=tmp_path / "shuffled", plan=PLAN, ledger=ledger.path) == 1000


def test_several_messages_a_user(tmp_path: Path) -> None:
    """Users are counted, not messages; in order of their bytes no place tells a real message from a dummy."""
    plan = small_plan("pure-dump", users=300)
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", 300))
    assert collection.encode(plan, path, "value", out=tmp_path / "ours.messages") == 300
    handed_over = read_encoded_file(tmp_path / "ours.messages")
    assert handed_over == sorted(handed_over)
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    ledger.register("test")
    shuffled = collection.shuffle(
        [tmp_path / "ours.messages"], out=tmp_path / "shuffled", plan=plan, ledger=ledger.path
    )
    assert shuffled == 300 * 31
    report = collection.estimate(plan, tmp_path / "shuffled", out=tmp_path / "out")
    assert report.guarantee.users == ledger.budget_statuses("test")[0].entries[0].users == 300
    assert report.guarantee.value.upper == amplify(plan.mechanism, 300, effort="quick").epsilon(1e-6).upper
    assert "there is no guarantee" in report.statement()


def test_what_is_no_file_of_messages_is_a_sentence(tmp_path: Path) -> None:
    """Other files, nothing at all."""
    good = encoded(tmp_path, 1)
    text = tmp_path / "text.messages"
    text.write_text("text")
    for wrong in (text, tmp_path / "data1.parquet"):
        with pytest.raises(ValueError, match="is not a file of messages"):
            collection.shuffle([wrong], out=tmp_path / "out")
    with pytest.raises(ValueError, match="expected a file or a directory"):
        collection.shuffle([tmp_path / "none"], out=tmp_path / "out")
    with pytest.raises(ValueError, match="expected a new or empty directory"):
        collection.shuffle([good], out=tmp_path)
    for wrong in (good, tmp_path):
        with pytest.raises(ValueError, match="not a directory from `shuffledp shuffle`"):
            collection.estimate(PLAN, wrong, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- one bad message is one bad message ---------------------------------------------------------------------------


@pytest.mark.parametrize("at_the_shuffler", [True, False])
def test_a_row_that_is_no_message_takes_one_user_off(tmp_path: Path, at_the_shuffler: bool) -> None:
    """At the shuffler where it has the plan, at the estimator otherwise; the others' estimate stands."""
    files = [encoded(tmp_path, 1), given_bundle(tmp_path / "strange.messages", [[255], [1], [4]], 3)]
    written = collection.shuffle(files, out=tmp_path / "shuffled", plan=PLAN if at_the_shuffler else None)
    assert written == (1001 if at_the_shuffler else 1003)
    report = collection.estimate(PLAN, tmp_path / "shuffled", out=tmp_path / "out")
    assert report.guarantee.users == 1001
    assert report.document()["counts"] == {"messages": 1001, "refused": 2, "missing": 0}
    good = np.frombuffer(b"".join(read_encoded_file(files[0])) + b"\x01", dtype=np.uint8).reshape(-1, 1)
    direct = PLAN.mechanism.estimate(PLAN.mechanism.unpack(good))
    np.testing.assert_array_equal(report.estimate.value, direct.value)
    assert "2 messages were not as planned" in report.statement()
    assert "messages refused" in (tmp_path / "out" / "report.md").read_text("utf-8")


@pytest.mark.parametrize("with_plan", [True, False])
@pytest.mark.parametrize(("rows", "users"), [(61, 2), (63, 2), (31, 2), (0, 5)])
def test_missing_messages_stop_nobody(tmp_path: Path, with_plan: bool, rows: int, users: int) -> None:
    """31 messages a user: too few or too many take users off, as many as may not have followed the plan."""
    plan = small_plan("pure-dump", users=300)
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", 300))
    collection.encode(plan, path, "value", out=tmp_path / "ours.messages")
    strange = tmp_path / "strange.messages"
    message_files.write_encoded_file(
        strange, BatchSpec(plan.identity(), 1, users, 1, rows, rows, USERS), [np.zeros((rows, 1), dtype=np.uint8)]
    )
    files = [tmp_path / "ours.messages", strange]
    collection.shuffle(files, out=tmp_path / "shuffled", plan=plan if with_plan else None)
    report = collection.estimate(plan, tmp_path / "shuffled", out=tmp_path / "out")
    missing = abs(31 * users - rows)
    assert report.guarantee.users == 300 + users - missing
    assert report.counts["missing"] == missing


def test_only_bad_messages_are_no_collection(tmp_path: Path) -> None:
    path = given_bundle(tmp_path / "strange.messages", [[255]] * 2000, 2000)
    with pytest.raises(ValueError, match="got 2000 rows that are not"):
        collection.shuffle([path], out=tmp_path / "shuffled", plan=PLAN)
    collection.shuffle([path], out=tmp_path / "shuffled")
    with pytest.raises(ValueError, match="expected at least one message of krr"):
        collection.estimate(PLAN, tmp_path / "shuffled", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- messages belong to a plan ------------------------------------------------------------------------------------


def test_messages_of_another_plan_are_refused_by_every_role(tmp_path: Path) -> None:
    """Made at local ε 8 they would be taken for messages at ε 0.5: the promise would be broken."""
    loud = small_plan("krr", users=2000, epsilon_local=8.0)
    other = encoded(tmp_path, 1, plan=loud)
    mine = encoded(tmp_path, 2)
    with pytest.raises(ValueError, match="was made for another plan or another round"):
        collection.shuffle([other], out=tmp_path / "shuffled", plan=PLAN)
    with pytest.raises(ValueError, match="was made for another plan or round than"):
        collection.shuffle([mine, other], out=tmp_path / "shuffled")
    collection.shuffle([other], out=tmp_path / "shuffled")
    with pytest.raises(ValueError, match="were made for another plan or round"):
        collection.estimate(PLAN, tmp_path / "shuffled", out=tmp_path / "out")


def test_messages_of_another_round_are_refused(tmp_path: Path) -> None:
    plan = small_plan("krr", users=1000, rounds=2, **CHEAP)
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", 1000))
    collection.encode(plan, path, "value", out=tmp_path / "second.messages", round_number=2)
    with pytest.raises(ValueError, match="another round"):
        collection.shuffle([tmp_path / "second.messages"], out=tmp_path / "shuffled", plan=plan, round_number=1)
    collection.shuffle([tmp_path / "second.messages"], out=tmp_path / "shuffled", plan=plan, round_number=2)
    with pytest.raises(ValueError, match="another plan or round"):
        collection.estimate(plan, tmp_path / "shuffled", out=tmp_path / "out", round_number=1)
    collection.estimate(plan, tmp_path / "shuffled", out=tmp_path / "out", round_number=2)
    # Nobody has to say it again: the messages tell.
    collection.shuffle([tmp_path / "second.messages"], out=tmp_path / "same", plan=plan)
    report = collection.estimate(plan, tmp_path / "same", out=tmp_path / "result")
    assert report.guarantee.round_number == 2
    assert "This is round 2 of 2." in report.statement()
    assert ("round", "2 of 2") in report.summary()
    with pytest.raises(
        ValueError, match=r"encode: the plan has 2 rounds, and without a ledger .*; give it by round_number=…\.$"
    ):
        collection.encode(plan, path, "value", out=tmp_path / "third.messages")
    with pytest.raises(ValueError, match="round must be at most 2"):
        collection.encode(plan, path, "value", out=tmp_path / "third.messages", round_number=3)


# --- a round is released once -------------------------------------------------------------------------------------


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_round_is_shuffled_once_from_all_its_files(tmp_path: Path, place: Path | str) -> None:
    """The difference of two releases would be the late file's messages, which nobody hides."""
    ledger = new_ledger(place)
    first, late = encoded(tmp_path, 1), encoded(tmp_path, 2)
    kept: dict[str, Any] = {"plan": PLAN, "ledger": place}
    collection.shuffle([first], out=tmp_path / "one", **kept)
    before = list_paths(tmp_path)
    for files in ([first, late], [late], [late, first]):
        with pytest.raises(
            RoundTaken, match=r"ledger: round 1 of 1 of the plan .* was released on 20.*; encode late ones for the next"
        ):
            collection.shuffle(files, out=tmp_path / "two", **kept)
    assert list_paths(tmp_path) == before
    collection.shuffle([first], out=tmp_path / "again", **kept)
    assert contents(tmp_path / "again") == contents(tmp_path / "one")
    (entry,) = ledger.budget_statuses("test")[0].entries
    ids = hashlib.sha256(EncodedFile.open(first).id.encode()).hexdigest()
    assert (entry.plan, entry.round, entry.rounds, entry.bundles) == (PLAN.fingerprint, 1, 1, ids)
    assert Manifest.read(tmp_path / "one").bundles == ids


@pytest.mark.parametrize("plan", [PLAN, None])
def test_without_a_ledger_files_are_still_not_shuffled_with_others(tmp_path: Path, plan: Plan | None) -> None:
    """This user's machine remembers them; files that were never shuffled are another matter."""
    first, second, third = (encoded(tmp_path, number) for number in (1, 2, 3))
    collection.shuffle([first, second], out=tmp_path / "one", plan=plan)
    before = list_paths(tmp_path)
    for files in ([first], [first, second, third], [second, third]):
        with pytest.raises(AlreadyShuffled, match=r"of the [123] files were shuffled before, .*; give all files of a"):
            collection.shuffle(files, out=tmp_path / "two", plan=plan, allow_weaker=True)
    assert list_paths(tmp_path) == before
    collection.shuffle([second, first], out=tmp_path / "again", plan=plan)
    assert contents(tmp_path / "again") == contents(tmp_path / "one")
    collection.shuffle([third], out=tmp_path / "other", plan=plan, allow_weaker=True)


def test_the_estimator_refuses_a_second_release_of_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the manifest says of the files, whatever the shufflers remember."""
    first, late = encoded(tmp_path, 1), encoded(tmp_path, 2)
    for name, files in {"one": [first], "two": [first, late]}.items():
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / f"state-{name}"))
            collection.shuffle(files, out=tmp_path / name)
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    for out in ("result", "told-again"):
        collection.estimate(PLAN, tmp_path / "one", out=tmp_path / out, ledger=ledger.path)
    with pytest.raises(RoundTaken, match="a round is released once"):
        collection.estimate(PLAN, tmp_path / "two", out=tmp_path / "no", ledger=ledger.path)
    assert not (tmp_path / "no").exists()
    assert len(ledger.budget_statuses("test")[0].entries) == 1


def test_other_people_with_the_same_messages_are_another_release(tmp_path: Path) -> None:
    """A few different messages are often the same: a ledger must not take them for what it has booked."""
    found = []
    for name in ("a", "b"):
        collection.shuffle([given_bundle(tmp_path / name, [[1], [2]], users=2)], out=tmp_path / f"{name}-out")
        found.append(Manifest.read(tmp_path / f"{name}-out"))
    assert found[0].sha256 == found[1].sha256
    assert found[0].digest != found[1].digest
    # As of older versions, which said nothing of files.
    plain = dataclasses.replace(found[0], bundles="")
    assert plain.digest == dataclasses.replace(found[1], bundles="").digest
    (tmp_path / "old").mkdir()
    plain.write(tmp_path / "old")
    assert json.loads((tmp_path / "old" / "_manifest.json").read_text("utf-8"))["version"] == 3
    assert Manifest.read(tmp_path / "old") == plain


def test_of_overlapping_shuffles_at_once_one_succeeds(tmp_path: Path, place: Path | str) -> None:
    """The ledger decides when it is written, not when it is read."""
    new_ledger(place)
    files = [encoded(tmp_path, number) for number in range(4)]
    start = threading.Barrier(3)

    def attempt(number: int) -> bool:
        start.wait(60)
        try:
            collection.shuffle([files[0], files[number]], out=tmp_path / f"out{number}", plan=PLAN, ledger=place)
        except RoundTaken:
            return False
        return True

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(attempt, (1, 2, 3))) == [False, False, True]
    assert len(list(tmp_path.glob("out*"))) == 1


# --- count what is read -------------------------------------------------------------------------------------------


def test_a_bundle_cannot_claim_more_than_it_holds(tmp_path: Path) -> None:
    """A million users are said to have sent a thousand messages: a thousand hide each other."""
    path = given_bundle(tmp_path / "strange.messages", [[1]] * 1000, 1_000_000)
    for plan in (PLAN, None):
        out = tmp_path / f"out{plan is None}"
        assert collection.shuffle([path], out=out, plan=plan) == 1000
        report = collection.estimate(PLAN, out, out=tmp_path / f"result{plan is None}")
        assert report.guarantee.users == 1000
        assert report.counts["missing"] == 999_000
    several = small_plan("pure-dump", users=300)
    lot = BatchSpec(several.identity(), 1, 10**6, 1, 3100, 3100, USERS)
    message_files.write_encoded_file(tmp_path / "several.messages", lot, [np.zeros((3100, 1), dtype=np.uint8)])
    with pytest.raises(ValueError, match="expected at least one user whose messages follow the plan"):
        collection.shuffle([tmp_path / "several.messages"], out=tmp_path / "no", plan=several)


@pytest.mark.parametrize("width", [1, 2, 3, 40])
def test_a_footer_that_lies_is_noticed(tmp_path: Path, width: int) -> None:
    """Shuffled files with other rows than the manifest's: fewer, more, others; a footer is never believed."""
    rows = np.sort(np.random.default_rng(1).integers(0, 256, (1000, width), dtype=np.uint8).view(f"S{width}"), axis=0)
    wire = rows.view(np.uint8).reshape(-1, width)
    for name, kept in (("fewer", wire[:-1]), ("more", np.concatenate([wire, wire[-1:]])), ("others", wire[::-1])):
        directory = tmp_path / name
        directory.mkdir()
        written = message_files.write_messages([wire], width, directory)
        Manifest("0" * 64, width, 1000, written.sha256, 1000, 1, 0, 0, USERS).write(directory)
        assert sum(map(len, Manifest.read(directory).read_verified_messages(directory))) == 1000
        (directory / "messages-00000.parquet").unlink()
        message_files.write_messages([kept], width, directory)
        with pytest.raises(ValueError, match=r"is damaged|not in order"):
            list(Manifest.read(directory).read_verified_messages(directory))


def test_sorting_in_memory_hands_on_nothing_but_what_was_read(tmp_path: Path) -> None:
    """Room for a million messages of 40 bytes, of which a thousand come: no other memory comes out."""
    wire = np.random.default_rng(1).integers(0, 256, (1000, 40), dtype=np.uint8)
    found = list(message_files.sort_in_memory([wire], 40, 1_000_000))
    assert sum(map(len, found)) == 1000
    assert {row.tobytes() for part in found for row in part} == {row.tobytes() for row in wire}


# --- copies, damage, kills ----------------------------------------------------------------------------------------


def test_a_file_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    """By name, through its directory, a link or a copy: its senders would be counted twice."""
    (tmp_path / "all").mkdir()
    file = encoded(tmp_path, 1).rename(tmp_path / "all" / "ours.messages")
    link, hard, copy = (tmp_path / f"{name}.messages" for name in ("link", "hard", "copy"))
    link.symlink_to(file)
    hard.hardlink_to(file)
    copy.write_bytes(file.read_bytes())
    for twice in ([file, file], [tmp_path / "all", file], [file, link], [file, hard], [copy, file]):
        with pytest.raises(ValueError, match="holds the same messages as"):
            collection.shuffle(twice, out=tmp_path / "shuffled")
    assert not (tmp_path / "shuffled").exists()


def test_two_encoders_may_send_the_same_messages(tmp_path: Path) -> None:
    """A user each, who happen to send the same: both count."""
    files = [given_bundle(tmp_path / f"{name}.messages", [[1]], 1) for name in "ab"]
    assert collection.shuffle(files, out=tmp_path / "shuffled") == 2


def test_any_damage_is_noticed(tmp_path: Path) -> None:
    """Every byte of a small bundle changed, and every length cut: refused, or (its random name) without effect."""
    good = given_bundle(tmp_path / "good.messages", [[value % 4] for value in range(40)], 40)
    content, bad = good.read_bytes(), tmp_path / "bad.messages"
    wanted = read_encoded_file(good)
    for changed in [*(content[:size] for size in range(len(content))), content + b"\0", *_flipped(content)]:
        bad.write_bytes(changed)
        with pytest.raises(ValueError, match=r"is damaged|is not a file of messages"):
            read_encoded_file(bad)
    bad.write_bytes(content)
    assert read_encoded_file(bad) == wanted


def _flipped(content: bytes) -> Iterator[bytes]:
    for place in range(len(content)):
        yield content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]


def test_an_encoder_keeps_its_file_to_itself_and_replaces_none(tmp_path: Path) -> None:
    """Readable by its owner only; while one encodes, another one is refused."""
    out = encoded(tmp_path, 1)
    assert out.stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other.messages"
    with (
        message_files.durable_files.create_atomic_file(other),
        pytest.raises(ValueError, match="another process is encoding into"),
    ):
        collection.encode(PLAN, tmp_path / "data1.parquet", "value", out=other)
    assert list_paths(tmp_path) == ["data1.parquet", "other.messages", "ours1.messages"]


KILLED = """
import os, signal, sys
from shuffledp import collection
from shuffledp.collection import batch_processing
batch_processing.CHUNK_ROWS = 100
encode, seen = batch_processing.Encoder.encode, []
def killed(self, *arguments):
    seen.append(encode(self, *arguments))
    if len(seen) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return seen[-1]
batch_processing.Encoder.encode = killed
collection.encode(sys.argv[1], sys.argv[2], "value", out=sys.argv[3])
"""


def test_a_killed_encoder_leaves_no_second_randomisation(tmp_path: Path) -> None:
    """What it left is destroyed before the next one begins: there are never two messages of a user side by side."""
    PLAN.save(tmp_path / "plan.json")
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", 1000))
    out = tmp_path / "ours.messages"
    arguments = [str(tmp_path / "plan.json"), str(path), str(out)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False, env=dict(os.environ))
    assert killed.returncode == -9
    assert not out.exists()
    (left,) = tmp_path.glob("ours*")
    assert left.name.startswith("ours.messages.unfinished-")
    assert collection.encode(PLAN, path, "value", out=out) == 1000
    assert [path.name for path in tmp_path.glob("ours*")] == ["ours.messages"]
    assert EncodedFile.open(out).messages == len(read_encoded_file(out)) == 1000


def test_runs_on_disk_are_removed_with_what_a_killed_shuffler_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted runs tell which messages came together: they lie inside of the unfinished directory."""
    seen: list[Path] = []

    def sort(batches: object, width: int, room: Path, rows: int) -> Iterator[Bytes]:
        seen.append(room)
        return original(batches, width, room, rows)  # type: ignore[arg-type]

    original = sorting.sort_on_disk
    monkeypatch.setattr(sorting, "sort_on_disk", sort)
    monkeypatch.setattr(message_files, "MAX_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(message_files, "MAX_COUNTED_BYTES", 0)
    collection.shuffle([encoded(tmp_path, 1)], out=tmp_path / "shuffled")
    (room,) = seen
    assert room.parent.name.startswith("shuffled.ready.unfinished-")
    assert list_paths(tmp_path / "shuffled") == ["_manifest.json", "messages-00000.parquet"]
    assert pq.read_table(tmp_path / "shuffled").num_rows == 1000
