"""Encoder, shuffler and estimator apart, over files of messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp import amplify
from shuffledp.array import Bytes
from shuffledp.collection import external_sort, role, shuffling
from shuffledp.collection.guarantee import Guarantee, TooWeak
from tests.collection import data_of, everything_under, messages_in, new_ledger, plan_of, write_table

CHEAP = {"epsilon_local": 0.5, "bound": "efmrtt19"}
PLAN = plan_of("krr", users=2000, **CHEAP)


def encoded(directory: Path, number: int, rows: int = 1000) -> Path:
    """What one of several encoders hands over."""
    path = write_table(directory / f"data{number}.parquet", value=data_of("krr", rows, seed=number))
    out = directory / f"messages{number}.parquet"
    assert role.encode(PLAN, path, "value", out=out) == rows
    return out


def test_three_roles_give_a_report(tmp_path: Path) -> None:
    """Two encoders, one shuffler without a plan, one estimator."""
    files = [encoded(tmp_path, 1), encoded(tmp_path, 2)]
    assert role.shuffle(files, out=tmp_path / "shuffled") == 2000
    together = [row for path in files for row in messages_in(path, 1)]
    assert messages_in(tmp_path / "shuffled", 1) == sorted(together)
    report = role.estimate(PLAN, tmp_path / "shuffled", out=tmp_path / "out")
    wire = np.frombuffer(b"".join(together), dtype=np.uint8).reshape(-1, 1)
    direct = PLAN.mechanism.estimate(PLAN.mechanism.unpack(wire))
    np.testing.assert_array_equal(report.estimate.value, direct.value)
    assert "run apart" in report.document()["parties"]
    assert "saw the raw data" not in (tmp_path / "out" / "report.md").read_text("utf-8")
    assert report.guarantee.users == 2000


def test_a_file_of_messages_has_nothing_else(tmp_path: Path) -> None:
    """One column of bytes, no metadata of the input."""
    file = pq.ParquetFile(encoded(tmp_path, 1))
    assert file.schema_arrow.names == ["message"]
    assert file.schema_arrow.field(0).type == pa.binary(1)
    assert file.metadata.metadata is None


def test_encoding_the_same_people_again_is_refused(tmp_path: Path) -> None:
    """And every encoding draws its own randomness."""
    out = encoded(tmp_path, 1)
    before = out.read_bytes()
    with pytest.raises(ValueError, match="would weaken their privacy"):
        role.encode(PLAN, tmp_path / "data1.parquet", "value", out=out)
    assert out.read_bytes() == before
    role.encode(PLAN, tmp_path / "data1.parquet", "value", out=tmp_path / "again.parquet")
    assert messages_in(tmp_path / "again.parquet", 1) != messages_in(out, 1)


def test_a_bad_table_leaves_no_messages(tmp_path: Path) -> None:
    """Not even a part of them."""
    path = write_table(tmp_path / "data.parquet", value=pa.array(["red", "pink"]))
    with pytest.raises(ValueError, match="got 'pink'"):
        role.encode(PLAN, path, "value", out=tmp_path / "out.parquet")
    empty = write_table(tmp_path / "empty.parquet", value=pa.array([], pa.string()))
    with pytest.raises(ValueError, match="at least one row"):
        role.encode(PLAN, empty, "value", out=tmp_path / "out.parquet")
    with pytest.raises(ValueError, match="there is none"):
        role.encode(PLAN, path, "value", out=tmp_path / "nowhere" / "out.parquet")
    assert everything_under(tmp_path) == ["data.parquet", "empty.parquet"]


def test_the_shuffler_keeps_the_plan_where_it_has_one(tmp_path: Path) -> None:
    """Too few messages are not handed on; enough are, and stand in the ledger."""
    files = [encoded(tmp_path, 1)]
    enough = Guarantee(PLAN, 1000).value.upper
    strict = plan_of("krr", users=2000, epsilon=enough * 0.99, **CHEAP)
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    before = everything_under(tmp_path)
    with pytest.raises(TooWeak, match="1000 users took part where 2000 were planned"):
        role.shuffle(files, out=tmp_path / "shuffled", plan=strict, ledger=ledger.path)
    assert everything_under(tmp_path) == before
    role.shuffle(files, out=tmp_path / "shuffled", plan=strict, ledger=ledger.path, allow_weaker=True)
    (standing,) = ledger.standings("test")
    assert [(entry.users, entry.state) for entry in standing.entries] == [(1000, "released")]
    with pytest.raises(TooWeak):
        role.estimate(strict, tmp_path / "shuffled", out=tmp_path / "out")


def test_several_messages_a_user(tmp_path: Path) -> None:
    """Users are counted, not messages; what is no multiple of a user's messages is refused; the report says so."""
    plan = plan_of("pure-dump", users=300)
    path = write_table(tmp_path / "data.parquet", value=data_of("krr", 300))
    assert role.encode(plan, path, "value", out=tmp_path / "messages.parquet") == 300
    # In order of their bytes, so that no place tells a real message from a dummy.
    handed_over = pq.read_table(tmp_path / "messages.parquet")["message"].to_pylist()
    assert handed_over == sorted(handed_over)
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    shuffled = role.shuffle([tmp_path / "messages.parquet"], out=tmp_path / "shuffled", plan=plan, ledger=ledger.path)
    assert shuffled == 300 * 31
    report = role.estimate(plan, tmp_path / "shuffled", out=tmp_path / "out")
    assert report.guarantee.users == ledger.standings("test")[0].entries[0].users == 300
    assert report.guarantee.value.upper == amplify(plan.mechanism, 300).epsilon(1e-6).upper
    assert "promise nothing" in report.statement()
    assert ledger.standings("test")[0].entries[0].document()["epsilon_local"] is None
    pq.write_table(pa.table({"message": pa.array([b"\0"] * 32, pa.binary(1))}), tmp_path / "odd.parquet")
    with pytest.raises(ValueError, match="expected a multiple of 31 messages"):
        role.estimate(plan, tmp_path / "odd.parquet", out=tmp_path / "odd")


def test_what_is_no_file_of_messages_is_a_sentence(tmp_path: Path) -> None:
    """Other files, other widths, nothing at all."""
    good = encoded(tmp_path, 1)
    wide = tmp_path / "wide.parquet"
    pq.write_table(pa.table({"message": pa.array([b"ab", b"cd"], pa.binary(2))}), wide)
    text = tmp_path / "text.parquet"
    text.write_text("text")
    with pytest.raises(ValueError, match="of one width, got 1, 2 bytes"):
        role.shuffle([good, wide], out=tmp_path / "out")
    with pytest.raises(ValueError, match=r"^messages: cannot read "):
        role.shuffle([text], out=tmp_path / "out")
    with pytest.raises(ValueError, match="is not a file of messages"):
        role.shuffle([tmp_path / "data1.parquet"], out=tmp_path / "out")
    with pytest.raises(ValueError, match="expected a file or a directory of messages"):
        role.shuffle([tmp_path / "none"], out=tmp_path / "out")
    with pytest.raises(ValueError, match="does not hold messages of krr as planned"):
        role.estimate(PLAN, wide, out=tmp_path / "out")
    with pytest.raises(ValueError, match="expected a new or empty directory"):
        role.shuffle([good], out=tmp_path)
    assert not (tmp_path / "out").exists()


def test_messages_that_the_mechanism_never_sends_are_refused(tmp_path: Path) -> None:
    """A message outside the mechanism's set stops the estimate."""
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"message": pa.array([b"\xff"] * 2000, pa.binary(1))}), path)
    with pytest.raises(ValueError, match="KRR: expected messages below 4, got 255"):
        role.estimate(PLAN, path, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    """By name, through its directory and through a link: its senders would be counted twice."""
    (tmp_path / "all").mkdir()
    file = encoded(tmp_path, 1).rename(tmp_path / "all" / "messages.parquet")
    link = tmp_path / "link.parquet"
    link.symlink_to(file)
    for twice in ([file, file], [tmp_path / "all", file], [file, link]):
        with pytest.raises(ValueError, match="is given twice"):
            role.shuffle(twice, out=tmp_path / "shuffled")
    assert not (tmp_path / "shuffled").exists()


def test_messages_that_were_not_shuffled_are_not_estimated_from(tmp_path: Path) -> None:
    """What an encoder hands over is in the order of its people."""
    with pytest.raises(ValueError, match="were not shuffled"):
        role.estimate(PLAN, encoded(tmp_path, 1, rows=2000), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_encoder_keeps_its_file_to_itself_and_replaces_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readable by its owner only; of two encoders at once the second one fails, and the first one's file stays."""
    out = encoded(tmp_path, 1)
    assert out.stat().st_mode & 0o777 == 0o600
    before = out.read_bytes()
    monkeypatch.setattr(Path, "exists", lambda path: False)
    with pytest.raises(ValueError, match="File exists"):
        role.encode(PLAN, tmp_path / "data1.parquet", "value", out=out)
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data1.parquet", "messages1.parquet"]


def test_runs_on_disk_are_removed_with_what_a_killed_shuffler_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted runs tell which messages came together: they lie inside of the unfinished directory."""
    seen: list[Path] = []

    def sort(batches: object, width: int, room: Path, rows: int) -> Iterator[Bytes]:
        seen.append(room)
        return original(batches, width, room, rows)  # type: ignore[arg-type]

    original = external_sort.sort
    monkeypatch.setattr(external_sort, "sort", sort)
    monkeypatch.setattr(shuffling, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(shuffling, "COUNTED_BYTES", 0)
    role.shuffle([encoded(tmp_path, 1)], out=tmp_path / "shuffled")
    (room,) = seen
    assert room.parent.name.startswith("shuffled.unfinished-")
    assert all(path.suffix == ".parquet" for path in (tmp_path / "shuffled").iterdir())
