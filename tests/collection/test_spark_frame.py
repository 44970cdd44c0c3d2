"""Data frames in, data frames out: messages that depend on the key and the rows alone, and sentences for the rest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, functions as F

import shuffledp as sdp
from shuffledp._core.errors import ShuffledpError
from shuffledp.collection.engine import EngineError
from shuffledp.collection.message_files import AlreadyShuffled
from shuffledp.planning.plan import Plan
from shuffledp.sampling.random_sources import KeyedSource
from shuffledp.spark import sorted_shuffle, worker_tasks as message_frame
from shuffledp.spark.collection import METADATA_KEY
from shuffledp.spark.deterministic_rows import BUCKET_COUNT
from shuffledp.spark.engine import Spark
from shuffledp.spark.frame_table import FrameTable
from tests.collection import (
    FRAME_ROWS as ROWS,
    expected_messages,
    multiset,
    new_ledger,
    random_column,
    read_messages,
    small_frame_plan,
    small_plan,
)

KEY = bytes(range(32))
MANY = 60
"""Files of a row each, or of none; benchmarks/spark.py takes 10,000."""
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_pictures")]


def counted(wire: Any) -> Counter[bytes]:
    return Counter(row.tobytes() for row in wire)


# --- the messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["krr-wide", "oue"])
def test_rows_of_files_send_the_messages_of_their_place(frames: dict[str, DataFrame], name: str) -> None:
    """As the engine in this process encodes the same file; computed twice they are the same, and the shuffle sorts."""
    plan = small_frame_plan(name)
    wanted = expected_messages(plan.mechanism, plan.column("value").read_values(random_column(name, ROWS)), KEY)
    encoded = sdp.spark.encode(frames[name], plan, "value", secret=KEY)
    assert multiset(encoded) == counted(wanted)
    shuffled = sdp.spark.shuffle(encoded)
    rows = [(bytes(row[0]), row[1]) for row in shuffled.collect()]
    assert rows == sorted(counted(wanted).items())
    report = sdp.spark.estimate(shuffled, plan, allow_weaker=True)
    again = plan.mechanism.estimate(plan.mechanism.unpack(wanted))
    np.testing.assert_allclose(report.estimate.value, again.value, rtol=1e-12)
    assert (report.guarantee.users, report.counts["refused"]) == (ROWS, 0)


def test_rows_with_a_key_send_the_messages_of_their_key(spark: Spark, frames: dict[str, DataFrame]) -> None:
    """Against a loop over buckets; in whichever order, partitions and files the rows come."""
    frame, plan = frames["krr-wide"], small_frame_plan("krr-wide")
    again = F.xxhash64(F.lit("again"), "who")
    rows = sorted(
        (row[0] % BUCKET_COUNT, row[0], row[1], row[2])
        for row in frame.select(F.xxhash64("who"), again, "value").collect()
    )
    wanted: Counter[bytes] = Counter()
    for bucket in range(BUCKET_COUNT):
        values = np.array([row[3] for row in rows if row[0] == bucket], dtype=np.int64)
        if len(values):
            wanted += counted(plan.mechanism.pack(plan.mechanism.randomize(values, KeyedSource(KEY, bucket << 32))))
    for one in (frame, frame.repartition(5).sort(F.desc("who"))):
        assert multiset(sdp.spark.encode(one, plan, "value", key="who", secret=KEY)) == wanted


def test_what_is_done_with_messages_does_not_change_them(frames: dict[str, DataFrame]) -> None:
    """Other numbers of tasks: behind another data frame, in one partition, divided by other settings."""
    plan = small_frame_plan("oue")
    encoded = sdp.spark.encode(frames["oue"].union(frames["oue"]), plan, "value", secret=KEY)
    assert encoded.rdd.getNumPartitions() > 1
    kept = multiset(encoded)
    assert multiset(encoded.coalesce(1)) == kept
    other = sdp.spark.encode(frames["oue"], plan, "value", secret=bytes(32))
    assert multiset(other.union(encoded)) == kept + multiset(other)
    encoded.sparkSession.conf.set("spark.sql.files.maxPartitionBytes", "1000")
    try:
        assert multiset(encoded.filter("count > 0")) == kept
    finally:
        encoded.sparkSession.conf.set("spark.sql.files.maxPartitionBytes", "67108864")


def test_a_secret_is_drawn_where_none_is_given(frames: dict[str, DataFrame]) -> None:
    """Two calls randomize anew; one data frame does not."""
    first, second = (sdp.spark.encode(frames["oue"], small_frame_plan("oue"), "value") for _ in range(2))
    kept = multiset(first)
    assert multiset(first) == kept
    assert multiset(second) != kept


def test_wide_messages_are_cut_into_ranges(
    spark: Spark, frames: dict[str, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges in order, each sorted; the cuts are the same whatever the order, and balanced."""
    monkeypatch.setattr(sorted_shuffle, "RANGE_BYTES", 2000)
    encoded = sdp.spark.encode(frames["oue"], small_frame_plan("oue"), "value", secret=KEY)
    shuffled = sdp.spark.shuffle(encoded)
    rows = [(bytes(row[0]), row[1]) for row in shuffled.collect()]
    assert rows == sorted(multiset(encoded).items())
    sizes = [row[1] for row in shuffled.groupBy(F.spark_partition_id()).count().collect()]
    assert len(sizes) == -(-ROWS * 5 // 2000)
    assert max(sizes) < 3 * ROWS / len(sizes)
    cuts = [sorted_shuffle.choose_boundaries(one, 5, ROWS).boundaries for one in (encoded, encoded.repartition(3))]
    assert cuts[0].tolist() == cuts[1].tolist()


def test_a_round_is_shuffled_once_from_all_its_frames(
    spark: Spark, frames: dict[str, DataFrame], tmp_path: Path
) -> None:
    """By what each of them is labelled with, through unions and files; the same ones again are the same messages."""
    plan = small_plan("krr-wide", population=str(tmp_path), rounds=2)
    first, second = (sdp.spark.encode(frames["krr-wide"], plan, "value", round_number=2) for _ in range(2))
    shuffled = sdp.spark.shuffle(first)
    for other in (first.union(second), second.union(first)):
        with pytest.raises(AlreadyShuffled, match=r"^shuffle: 1 of the 2 files were shuffled before, together with"):
            sdp.spark.shuffle(other)
    for some in (first.filter("count > 1"), first.limit(5), second.union(second.sample(0.5))):
        with pytest.raises(ValueError, match="expected all messages from encode, or unions of them, got a"):
            sdp.spark.shuffle(some)
    with pytest.raises(ValueError, match="got ones that were shuffled already"):
        sdp.spark.shuffle(shuffled)
    first.write.parquet(f"file:{tmp_path}/first")
    stored = spark.session.read.parquet(f"file:{tmp_path}/first")
    assert multiset(sdp.spark.shuffle(stored)) == multiset(shuffled)
    with pytest.raises(AlreadyShuffled):
        sdp.spark.shuffle(stored.union(second))
    report = sdp.spark.estimate(sdp.spark.shuffle(second), plan, allow_weaker=True)
    assert report.guarantee.round_number == 2
    with pytest.raises(ValueError, match="another plan or round"):
        sdp.spark.estimate(shuffled, plan, round_number=1)
    with pytest.raises(ValueError, match=r"encode: the plan has 2 rounds, .*; give it by round_number=…"):
        sdp.spark.encode(frames["krr-wide"], plan, "value")


# What Spark leaves open when it is handed a table.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning")
def test_the_shufflers_noise_is_drawn_once(frames: dict[str, DataFrame], tmp_path: Path) -> None:
    """A data frame has its noise whenever it is computed; a second one of the same messages would average it out."""
    mechanism = sdp.CancellingNoise(40, rate=0.6, shape=2.0, ratio=0.8, honest=0)
    plan = sdp.Plan(sdp.tasks.Frequency(40), mechanism, users=ROWS, epsilon=90.0, delta=0.1, population=str(tmp_path))
    encoded = sdp.spark.encode(frames["oue"], plan, "value")
    shuffled = sdp.spark.shuffle(encoded, plan)
    assert multiset(shuffled) == multiset(shuffled)
    with pytest.raises(AlreadyShuffled, match=r"these files were shuffled before, with other noise; use that result"):
        sdp.spark.shuffle(encoded, plan)


def test_a_fingerprint_is_a_sum_of_hashes(frames: dict[str, DataFrame]) -> None:
    """Against whole numbers of Python, whatever the order."""
    hashes = [row[0] for row in frames["oue"].select(F.xxhash64("who", "value")).collect()]
    found = FrameTable(frames["oue"].repartition(3)).fingerprint()
    assert found["sum"] == str(sum(each % ((1 << 61) - 1) for each in hashes))
    assert (found["rows"], found["xor"]) == (ROWS, reduce(xor, hashes))


def test_statistics_of_counts_are_those_of_the_messages() -> None:
    """Weighed by bits, against every message repeated; rows that are no messages are counted."""
    mechanism = small_frame_plan("krr-wide").mechanism
    generator = np.random.default_rng(3)
    wire = mechanism.pack(np.arange(1000))
    counts = generator.integers(0, 50, 1000)
    found = message_frame.accumulate_counts(mechanism, None, wire, counts)
    np.testing.assert_array_equal(
        found.statistic, mechanism.accumulate(mechanism.unpack(np.repeat(wire, counts, axis=0)))
    )
    bad = np.full((1, 2), 255, dtype=np.uint8)
    found = message_frame.accumulate_counts(mechanism, None, np.concatenate([wire, bad]), np.append(counts, 5))
    assert (found.messages, found.refused) == (counts.sum(), 5)


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "key", "part"),
    [
        (lambda frame: frame.withColumn("value", (F.rand() * 40).cast("int")), None, "draws at random"),
        (lambda frame: frame.withColumn("id", F.expr("uuid()")), "id", "draws at random"),
        (lambda frame: frame.withColumn("id", F.monotonically_increasing_id()), "id", "numbers rows as they come"),
        (lambda frame: frame.repartition(3), None, "whose order a retry repeats"),
        (lambda frame: frame.sort("who"), None, "name a column that distinguishes rows"),
        (lambda frame: frame.limit(100), "who", "does not depend on the order of rows"),
        (lambda frame: frame.sample(0.5, seed=1), "who", "does not depend on the order of rows"),
        (lambda frame: frame.dropDuplicates(["value"]), "who", "does not depend on the order of rows"),
        (
            lambda frame: frame.groupBy("who").agg(F.first("value").alias("value")),
            "who",
            "does not depend on the order",
        ),
        (lambda frame: frame, "nobody", "the data frame has no column 'nobody'; it has who, value"),
    ],
)
def test_what_would_randomize_twice_is_a_sentence(
    frames: dict[str, DataFrame], change: Callable[[DataFrame], DataFrame], key: str | None, part: str
) -> None:
    """Before anything runs."""
    with pytest.raises(ValueError, match=part) as caught:
        sdp.spark.encode(change(frames["oue"]), small_frame_plan("oue"), "value", key=key)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("key", "part"), [("value", "expected a different key in every row"), ("none", "expected a key in every row")]
)
def test_keys_must_tell_rows_apart(frames: dict[str, DataFrame], key: str, part: str) -> None:
    """One that is there twice, or not at all, stops the job."""
    frame = frames["oue"].withColumn("none", F.when(F.col("value") < 39, F.col("who")))
    with pytest.raises(Exception, match=part):
        sdp.spark.encode(frame, small_frame_plan("oue"), "value", key=key).collect()


def test_messages_of_others_are_refused(frames: dict[str, DataFrame]) -> None:
    """Of another plan, not shuffled, or of no plan at all."""
    encoded = sdp.spark.encode(frames["oue"], small_frame_plan("oue"), "value", secret=KEY)
    assert encoded.schema["message"].metadata[METADATA_KEY]["width"] == 5
    with pytest.raises(ValueError, match="expected messages that were shuffled"):
        sdp.spark.estimate(encoded, small_frame_plan("oue"))
    with pytest.raises(ValueError, match="made for another plan"):
        sdp.spark.estimate(encoded, small_plan("oue", users=ROWS))
    with pytest.raises(ValueError, match=r"expected a data frame of messages from shuffledp\.spark"):
        sdp.spark.shuffle(frames["oue"])
    with pytest.raises(TypeError, match="expected a Spark data frame, got list"):
        sdp.spark.encode([], small_frame_plan("oue"), "value")  # type: ignore[arg-type]


# --- whole collections --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "part"),
    [
        ("SELECT CAST(NULL AS INT) AS value", "expected a value in every row, got 1 without one"),
        ("SELECT 40 AS value UNION ALL SELECT 1", "expected whole numbers from 0 to 39, got something else in 1 of"),
        ("SELECT 'many' AS value", "expected whole numbers"),
        ("SELECT array(1) AS value", "expected whole numbers"),
        ("SELECT 1 AS other", "the data frame has no column 'value'; it has other"),
        ("SELECT 1 AS value WHERE false", "expected at least one row, got none"),
    ],
)
def test_a_bad_frame_is_a_sentence_and_nothing_is_written(spark: Spark, frame: str, part: str, tmp_path: Path) -> None:
    """As for every other input."""
    with pytest.raises((ValueError, ShuffledpError)) as caught:
        sdp.collect(small_frame_plan("oue"), spark.session.sql(frame), "value", out=tmp_path / "out", allow_weaker=True)
    told = str(caught.value)
    assert part in told
    assert told.endswith(".")
    assert "\n" not in told
    assert list(tmp_path.iterdir()) == []


def test_many_small_files_and_empty_partitions(spark: Spark, tmp_path: Path) -> None:
    """A row a file, files without rows, and a rule that clips: everybody is there once."""
    (tmp_path / "data").mkdir()
    numbers = [number % 80 for number in range(MANY) if number % 10]
    for number in range(MANY):
        column = pa.array([float(number % 80)] if number % 10 else [], pa.float64())
        pq.write_table(pa.table({"value": column}), tmp_path / "data" / f"{number:05d}.parquet")
    frame = spark.session.read.parquet(f"file:{tmp_path}/data")
    plan, rules = small_plan("laplace", users=len(numbers)), sdp.tasks.Rules(clip=True)
    report = sdp.collect(plan, frame, "value", out=tmp_path / "out", rules=rules, allow_weaker=True, confidence=0.5)
    assert report.guarantee.users == len(numbers)
    assert report.estimate_options.confidence == 0.5
    assert report.tally.clipped == sum(number > 60 for number in numbers)
    assert len(read_messages(tmp_path / "out" / "messages", plan.mechanism.message_bytes)) == len(numbers)


class Stopped(BaseException):
    """Stands for a kill, inside a process that goes on."""


@pytest.mark.parametrize(
    ("name", "point", "after"), [("oue", "encode", True), ("krr-wide", "shuffle", False), ("oue", "shuffle", True)]
)
def test_a_frame_goes_on_after_a_kill(
    spark: Spark, frames: dict[str, DataFrame], name: str, point: str, after: bool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The messages of the first key, in the ledger once; nothing in the order of the input was ever written."""
    plan, ledger = small_frame_plan(name), new_ledger(tmp_path / "ledger.sqlite")
    original = getattr(Spark, point)

    def stop(*arguments: object, **named: object) -> None:
        if after:
            original(*arguments, **named)
        raise Stopped

    def collect() -> None:
        sdp.spark.collect(frames[name], plan, "value", out=tmp_path / "out", ledger=ledger.path, resume=True)

    with monkeypatch.context() as patched:
        patched.setattr(Spark, point, stop)
        with pytest.raises(Stopped):
            collect()
    key = (tmp_path / "out" / "work" / "key").read_bytes()
    assert not list((tmp_path / "out" / "work").glob("encoded/*"))
    collect()
    wanted = expected_messages(plan.mechanism, plan.column("value").read_values(random_column(name, ROWS)), key)
    assert read_messages(tmp_path / "out" / "messages", plan.mechanism.message_bytes) == sorted(
        row.tobytes() for row in wanted
    )
    assert [entry.state for entry in ledger.budget_statuses("test")[0].entries] == ["released"]


def test_only_spark_collects_a_frame(frames: dict[str, DataFrame], tmp_path: Path) -> None:
    """And what another table's options do is done in Spark."""
    plan = small_frame_plan("oue")
    with pytest.raises(ValueError, match="choose each person's rows in Spark"):
        sdp.collect(plan, frames["oue"], "value", out=tmp_path / "out", user="who")
    with pytest.raises(ValueError, match=r"df\.dropna\(\)"):
        sdp.collect(plan, frames["oue"], "value", out=tmp_path / "out", rules=sdp.tasks.Rules(missing="drop"))
    with pytest.raises(ValueError, match="key is for Spark data frames"):
        sdp.collect(plan, pa.array([1, 2]), out=tmp_path / "out", key="who")
    drawing = {name: told for name, told in plan.document().items() if name != "check"} | {"of": 10 * ROWS}
    sampled = Plan.parse(json.dumps(drawing))
    with pytest.raises(ValueError, match="as the plan samples its users"):
        sdp.spark.encode(frames["oue"], sampled, "value")


def test_a_session_that_leaks_gets_no_secret(
    spark: Spark, frames: dict[str, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same demand as for the engine."""
    monkeypatch.setattr(
        "shuffledp.spark.secure_session.find_missing_settings", lambda _: {"spark.authenticate": "true"}
    )
    with pytest.raises(EngineError, match=r"spark\.authenticate=true"):
        sdp.spark.encode(frames["oue"], small_frame_plan("oue"), "value")
