"""What Spark writes where workers see it, and nobody else must: files by rank, addresses, windows of a stream."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

import shuffledp as sdp
from shuffledp.collection import message_files
from shuffledp.collection.engine import EngineError
from shuffledp.collection.resumable_job import Job
from shuffledp.spark import cluster_files, frame_table as frame_source, sorted_shuffle, worker_tasks as message_frame
from shuffledp.spark.engine import Spark
from shuffledp.storage import sorting
from tests.cli import run as run_command
from tests.collection import (
    FRAME_ROWS as ROWS,
    build_batch_spec,
    expected_messages,
    multiset,
    new_ledger,
    random_column,
    read_messages,
    small_frame_plan,
    small_plan,
    sort_messages,
)

KEY = bytes(range(32))
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_pictures")]


@pytest.mark.parametrize("name", ["krr-wide", "oue"])
def test_files_at_an_address_hold_the_messages_by_rank(
    spark: Spark, frames: dict[str, DataFrame], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten files of three row groups; their digests are those of whoever reads them without Spark."""
    monkeypatch.setattr(message_files, "GROUP_ROWS", 100)
    monkeypatch.setattr(message_files, "GROUPS_PER_FILE", 3)
    plan = small_frame_plan(name)
    wanted = sort_messages(
        expected_messages(plan.mechanism, plan.column("value").read_values(random_column(name, ROWS)), KEY)
    )
    encoded = sdp.spark.encode(frames[name], plan, "value", secret=KEY)
    made, counts = cluster_files.write_shuffled(
        spark.session, encoded, build_batch_spec(plan, ROWS), f"file:{tmp_path}/messages"
    )
    told = ""
    for number in range(10):
        path = tmp_path / "messages" / f"messages-{number:05d}.parquet"
        own = pq.read_table(path).column("message").to_pylist()
        assert own == wanted[300 * number : 300 * (number + 1)]
        footer = pq.read_metadata(path)
        assert [footer.row_group(group).num_rows for group in range(footer.num_row_groups)] == [100] * 3
        told += f"300 {hashlib.sha256(b''.join(own)).hexdigest()}\n"
    assert not (tmp_path / "messages" / "messages-00010.parquet").exists()
    assert (made.messages, made.sha256) == (ROWS, hashlib.sha256(told.encode()).hexdigest())
    if counts is not None:
        assert (
            counts.tolist() == np.bincount([int.from_bytes(each, "big") for each in wanted], minlength=1 << 16).tolist()
        )


@pytest.mark.parametrize("rows", [1, 7, 300, 9000])
def test_files_take_their_ranks_from_ranges(rows: int) -> None:
    """Against Python's own sort; a message that is missing or too many is noticed."""
    generator = np.random.default_rng(1)
    wire = generator.integers(0, 4, (500, 3), dtype=np.uint8)
    kept, counts = message_frame.merge_equal(wire, None)
    cuts = sorted_shuffle.RangeBoundaries(3, sorting.view_as_byte_strings(kept[[10, 20, 40]]))
    sizes = np.bincount(cuts.find_ranges(kept), counts, cuts.range_count).astype(np.int64)
    layout = sorted_shuffle.FileLayout(cuts, (0, *np.cumsum(sizes).tolist()), rows)
    pieces = (message_frame.merge_equal(part, None) for part in np.array_split(generator.permutation(wire), 4))
    batches = list(layout._build_divide_task()(message_frame.build_batch(*piece) for piece in pieces))
    found = {
        file: [row.tobytes() for each in wires for row in each] for file, wires in layout.read_files(iter(batches))
    }
    wanted = sort_messages(wire)
    assert found == {file: wanted[file * rows : (file + 1) * rows] for file in range(-(-500 // rows))}
    for wrong in (batches[1:], [*batches, batches[0]]):
        with pytest.raises(ValueError, match="the input has changed"):
            deque((deque(wires, 0) for _, wires in layout.read_files(iter(wrong))), 0)


def test_runs_of_few_messages_end_where_files_do() -> None:
    """Against a list of all messages; more of one than is repeated at a time."""
    counts = np.zeros(256, dtype=np.int64)
    counts[[0, 3, 4, 255]] = (5, 9000, 1, 94)
    every = [number for number in range(256) for _ in range(counts[number])]
    for rows in (1, 50, 4096, 10_000):
        runs = sorted_shuffle.build_runs(counts, 1, rows).to_pylist()
        found = [(run["file"], number) for run in runs for number in [run["message"][0]] * run["count"]]
        assert found == [(rank // rows, number) for rank, number in enumerate(every)]


def test_a_checksum_tells_short_messages_apart() -> None:
    """None is shared, by any two of one or two bytes."""
    known = sorted_shuffle.build_checksum_table(1) | sorted_shuffle.build_checksum_table(2)
    assert len(set(known.values())) == len(known) == 256 + 65_536


def test_a_file_that_is_out_of_order_is_noticed() -> None:
    """A digest from counts is one of the file only if every message stands where it must."""
    rows = [
        {"message": b"\0\1", "count": 2, "first": 0, "last": 1},
        {"message": b"\0\3", "count": 3, "first": 2, "last": 4},
    ]
    wanted = hashlib.sha256(b"\0\1" * 2 + b"\0\3" * 3).hexdigest()
    assert sorted_shuffle.compute_sha256(*sorted_shuffle.check_file_order(rows, 2)) == wanted
    for bad in ({"message": b"\0\0"}, {"message": b"\0\1"}, {"last": 5}, {"first": 1}, {"message": b"\3"}):
        with pytest.raises(ValueError, match=r"expected (a file in order of its messages|rows of 2 bytes)"):
            sorted_shuffle.check_file_order([rows[0], rows[1] | bad], 2)


def test_the_command_reads_and_writes_addresses(frames: dict[str, DataFrame], tmp_path: Path) -> None:
    """With a key, into a new directory of another file system; a second run there is refused."""
    small_frame_plan("oue").save(tmp_path / "plan.json")
    frames["oue"].repartition(2).write.parquet(f"file:{tmp_path}/rows")
    arguments = (
        "collect", str(tmp_path / "plan.json"), "--input", f"file:{tmp_path}/rows", "--column", "value", "--no-ledger",
        "--engine", "spark", "--key", "who", "--out", f"file:{tmp_path}/out",
    )  # fmt: skip
    done = run_command(*arguments, "--json")
    assert done.status == 0, done.err
    assert len(read_messages(tmp_path / "out" / "messages", 5)) == ROWS
    assert (tmp_path / "out" / "report.json").exists()
    again = run_command(*arguments)
    assert again.status == 2
    assert "already holds a finished collection" in again.err
    assert "needs --engine spark" in run_command(*arguments[:7], "--out", str(tmp_path / "o")).err


def test_inputs_that_spark_reads(spark: Spark, tmp_path: Path) -> None:
    """By suffix, by format and by name; one sentence where Spark cannot."""
    rows = [(f'p"{number}', number) for number in range(3)]
    written = spark.session.range(3).selectExpr("""concat('p"', id) AS who""", "CAST(id AS INT) AS value")
    for kind in ("json", "orc"):
        written.write.format(kind).save(f"file:{tmp_path}/rows.{kind}")
    written.createOrReplaceTempView("visits")
    (tmp_path / "rows.csv").write_text("who,value\n" + "".join(f'"p""{number}",{number}\n' for number in range(3)))
    (tmp_path / "rows.tsv").write_text("who\tvalue\n" + "".join(f'"p""{number}"\t{number}\n' for number in range(3)))
    places = [f"file:{tmp_path}/rows.{suffix}" for suffix in ("json", "orc", "csv", "tsv")]
    for place in (*places, f"orc:file:{tmp_path}/rows.orc", "table:visits"):
        found = frame_source.read_frame(spark.session, [place]).select("who", "value").collect()
        assert sorted((row[0], int(row[1])) for row in found) == rows, place
    with pytest.raises(ValueError, match=r"^input: expected inputs of one format, got csv, json\.$"):
        frame_source.read_frame(spark.session, [places[0], places[2]])
    for kind in ("delta", "iceberg"):
        with pytest.raises(EngineError, match=f"^input: Spark cannot read {kind} here; add its package to .*\\.$"):
            frame_source.read_frame(spark.session, [f"{kind}:file:{tmp_path}/rows"])
    with pytest.raises(EngineError, match=r"^spark: reading the input failed: [^\n]*\.$"):
        frame_source.read_frame(spark.session, [f"file:{tmp_path}/nothing"])


def test_a_job_that_is_unknown_to_an_address_is_not_overwritten(frames: dict[str, DataFrame], tmp_path: Path) -> None:
    """Somebody's files are there already."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="expected a new or empty directory"):
        sdp.spark.collect(
            frames["oue"], small_frame_plan("oue"), "value", out=f"file:{tmp_path}/out", state=tmp_path / "state"
        )
    assert Job.find_unfinished(tmp_path / "state") is None


# --- streams ------------------------------------------------------------------------------------------------------


def test_a_stream_is_encoded_and_collected_by_windows(spark: Spark, tmp_path: Path) -> None:
    """Messages as of the rows; of windows that are over those with enough users are released, each once."""
    (tmp_path / "rows").mkdir()
    for number, (start, rows) in enumerate(((0, ROWS), (100, 5), (200, 10))):
        times = pa.array([start + 1] * rows, pa.timestamp("s"))
        pq.write_table(
            pa.table({"value": random_column("oue", rows), "time": times}), tmp_path / "rows" / f"{number}.parquet"
        )
    schema = "value int, time timestamp"
    stream = spark.session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"file:{tmp_path}/rows")
    plan = small_plan("oue", users=ROWS, epsilon_local=0.5, epsilon=0.2)
    with pytest.raises(ValueError, match="in the order of their source"):
        sdp.spark.encode(stream.repartition(2), plan, "value")
    encoded = sdp.spark.encode(stream, plan, "value", secret=KEY)
    query = encoded.writeStream.format("memory").queryName("messages").trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert sum(multiset(spark.session.table("messages")).values()) == ROWS + 15
    windows = sdp.spark.Windows(plan, "value", "time", 100, f"file:{tmp_path}/waiting", tmp_path / "out", ledger=None)
    query = stream.writeStream.foreachBatch(windows).trigger(availableNow=True).start()
    query.awaitTermination(200)
    found = {path.name: sorted(each.name for each in path.iterdir()) for path in (tmp_path / "out").iterdir()}
    assert sorted(found) == ["window-0", "window-100"]
    assert "report.json" in found["window-0"]
    assert found["window-100"] == ["too-few"]
    assert len(read_messages(tmp_path / "out" / "window-0" / "messages", 5)) == ROWS
    with pytest.raises(ValueError, match="room must be an address"):
        sdp.spark.Windows(plan, "value", "time", 100, "here", tmp_path / "out")


def test_windows_at_an_address_are_released_once(spark: Spark, tmp_path: Path) -> None:
    """A batch that comes again, as after a crash, changes nothing: neither a release nor a window of too few."""
    times = [1] * ROWS + [101] * 5 + [201]
    columns = {"value": random_column("oue", len(times)), "time": pa.array(times, pa.timestamp("s"))}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    batch = spark.session.read.parquet(f"file:{tmp_path}/rows.parquet")
    plan = small_plan("oue", users=ROWS, epsilon_local=0.5, epsilon=0.2)
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    found = []
    for _ in range(2):
        room, out = f"file:{tmp_path}/waiting", f"file:{tmp_path}/out"
        sdp.spark.Windows(plan, "value", "time", 100, room, out, ledger=ledger.path)(batch, 0)
        found.append({path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()})
        assert [path.name for path in (tmp_path / "waiting" / "batch=0").glob("*=*")] == ["shuffledp_window=200"]
    assert found[0] == found[1]
    assert {path.parent.name for path in found[0] if path.name == "report.json"} == {"window-0"}
    assert {path.parent.name for path in found[0] if path.name == "too-few"} == {"window-100"}
    assert len(read_messages(tmp_path / "out" / "window-0" / "messages", 5)) == ROWS
    assert [entry.state for entry in ledger.budget_statuses("test")[0].entries] == ["released"]


@pytest.mark.parametrize("keeps", [True, False])
def test_every_window_is_a_round(spark: Spark, tmp_path: Path, keeps: bool) -> None:
    """Two are planned: the third stops the stream, unless it has too few users, who need no round."""
    times = [1] * ROWS + [101] * ROWS + [201] * 5 + [301] * ROWS + [401]
    columns = {"value": random_column("oue", len(times)), "time": pa.array(times, pa.timestamp("s"))}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    batch = spark.session.read.parquet(f"file:{tmp_path}/rows.parquet")
    plan = small_plan("oue", users=ROWS, epsilon_local=0.5, epsilon=0.3, rounds=2)
    ledger = new_ledger(tmp_path / "ledger.sqlite").path if keeps else None
    windows = sdp.spark.Windows(plan, "value", "time", 100, f"file:{tmp_path}/waiting", tmp_path / "out", ledger=ledger)
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"all 2 rounds of the plan|the plan has 2 rounds, and 2 windows in .* were released"
        ):
            windows(batch, 0)
    told = {path.parent.name: json.loads(path.read_text("utf-8")) for path in tmp_path.glob("out/*/report.json")}
    assert {name: one["guarantee"]["round"] for name, one in told.items()} == {"window-0": 1, "window-100": 2}
    assert (tmp_path / "out" / "window-200" / "too-few").exists()
    assert not (tmp_path / "out" / "window-300").exists()
