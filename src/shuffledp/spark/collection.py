"""Collections over Spark data frames: by one party, by the separate roles, and over windows of a stream.

Rows and messages stay on the cluster. The driver holds the job's state with its key, the ledger, report and estimates.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp._core.errors import GuaranteeTooWeak, InvalidArgument, NotApplicable
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.collect import CollectionRequest, run_collection, run_request
from shuffledp.collection.engine import Engine
from shuffledp.collection.estimate_tables import DEFAULT_CONFIDENCE, EstimateOptions, OptionSelection
from shuffledp.collection.input.base import is_address, is_spark_frame
from shuffledp.collection.input.tables import check_column_names
from shuffledp.collection.message_files import SHUFFLER, find_noise_party
from shuffledp.collection.report import SEPARATE_ROLES_TEXT, Report
from shuffledp.collection.resumable_job import REPORT_FILE, Job
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.ledger.ledger import choose_round
from shuffledp.ledger.storage import parse_location
from shuffledp.planning.plan import Plan
from shuffledp.sampling.random_sources import KEY_BYTES, SystemSource
from shuffledp.spark import secure_session as spark_session, sorted_shuffle, worker_tasks
from shuffledp.spark.cluster_files import FileSystem
from shuffledp.spark.deterministic_rows import quote_name
from shuffledp.spark.engine import Spark
from shuffledp.spark.frame_table import FrameTable
from shuffledp.spark.secure_session import convert_spark_errors
from shuffledp.spark.worker_tasks import COUNT_COLUMN, MESSAGES_SCHEMA, map_batches
from shuffledp.tasks.value_parsing import STRICT_RULES, Rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# --- Collections by one party ---


STATE_HOME_VARIABLE = "XDG_STATE_HOME"


def collect(
    frame: DataFrame,
    plan: Plan | str | os.PathLike[str],
    column: str | Sequence[str] | None = None,
    *,
    out: str | os.PathLike[str],
    key: str | Sequence[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    engine: str | Engine = "spark",
    ledger: str | os.PathLike[str] | None = None,
    allow_weaker: bool = False,
    resume: bool = False,
    round_number: int | None = None,
    drawn: bool = False,
    rules: Rules = STRICT_RULES,
    options: Any = None,
    confidence: float = DEFAULT_CONFIDENCE,
    post: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Runs a plan on a Spark data frame; every row is a person.

    Args:
        frame: The data frame.
        plan: A plan, or the path of its file.
        column: Name or names of the columns with the users' values, as for ``shuffledp.collect``.
        out: New directory: a path of the driver, or an address that Spark writes to (``s3a://…``, ``hdfs://…``,
            ``file:/…``). The workers write the messages to an address, and report and estimates are written beside
            them. Messages of more than two bytes need an address, unless the workers see the driver's paths.
        key: Column or columns that distinguish rows, as for ``encode``.
        state: If ``out`` is an address, directory of the driver for the job's key and the state that ``resume`` needs;
            the default is a directory of the user.
        engine: "spark", or a running ``Spark`` engine.
        ledger: Path of the ledger that records the privacy loss of the population; None to keep none.
        allow_weaker: If True, continues even if there are too few users to meet the target.
        resume: If True, resumes a collection that was killed.
        round_number: Number of the plan's round, as for ``shuffledp.collect``.
        drawn: If True, the data frame holds only users who were sampled already; required if the plan samples its
            users.
        rules: How to treat cells that are not as planned. Drop rows without a value in Spark.
        options: The options to report, by label or number, as for ``shuffledp.collect``.
        confidence: Probability that an interval holds the true value, for each interval by itself.
        post: Post-processing, reported beside the estimates, as for ``shuffledp.collect``.
        progress: Receives the progress of each step.

    Returns:
        The report, which is also written to ``out``.

    Raises:
        ValueError: If an argument or a value of the data is not as planned, the rows cannot be identified, ``out`` is
            in use, or the ledger refuses the round.
        GuaranteeTooWeak: If there are too few users to meet the target, or the budget has no room for the round.
        EngineError: If Spark fails, or its session would not keep the key secret.
    """
    plan, location = Plan.load_if_path(plan), None if ledger is None else parse_location(ledger)
    _check_rules("collect", rules)
    names = plan.task.resolve_columns(check_column_names(column))
    table = FrameTable(frame, check_column_names(key))
    columns = table.choose_columns(names)
    reader = plan.column(*columns, rules=rules)
    address = str(out) if is_address(out) else None
    job_directory = Path(out) if address is None else _find_state_directory(address, state)
    request = CollectionRequest(
        plan, table.select_columns(columns), reader.names, job_directory, location, allow_weaker, resume, round_number,
        drawn, rules, OptionSelection.from_options("collect", plan, options),
        estimate_options=EstimateOptions.from_arguments("collect", confidence, post, plan.task, whole=options is None),
    )  # fmt: skip
    if request.draws_sample:
        drawn_already = Argument("drawn", "True", "drawn, --drawn")
        raise InvalidArgument(
            "collect",
            "expected the rows of users who were drawn already, as the plan samples its users",
            hint=phrase("draw them in Spark, write them once, and say so ({drawn})", drawn=drawn_already),
        )
    if not isinstance(engine, Spark):
        if engine != "spark":
            raise ValueError("collect: a Spark data frame is collected by the engine spark.")
        engine = Spark(progress, session=frame.sparkSession)
    return run_request(request, engine) if address is None else _collect_to_address(address, request, engine)


def _collect_to_address(address: str, request: CollectionRequest, engine: Spark) -> Report:
    """Collects into a directory of another file system: the workers write messages, the driver the rest at the end."""
    if request.plan.task.has_next_round:
        raise ValueError("collect: a search runs in rounds, which need a path of the driver; give one with out.")
    files = FileSystem(engine.session)
    with convert_spark_errors("listing the output"):
        existing = files.list_names(address)
    if existing and Job.find_unfinished(request.out) is None:
        # A job that is still there may have been killed after it delivered its report and before it deleted itself.
        if REPORT_FILE in existing:
            raise ValueError(f"collect: {address} already holds a finished collection; choose another directory.")
        raise ValueError(f"collect: expected a new or empty directory, got {address}.")
    engine.place = address
    report = run_collection(request, engine)
    shutil.rmtree(request.out)
    return report


def _find_state_directory(address: str, state: str | os.PathLike[str] | None) -> Path:
    """Returns the directory of the driver for the state of the job that writes to an address."""
    if state is not None:
        return Path(state)
    home = os.environ.get(STATE_HOME_VARIABLE) or Path.home() / ".local" / "state"
    return Path(home) / "shuffledp" / "jobs" / hashlib.sha256(address.rstrip("/").encode()).hexdigest()[:32]


PlanOrPath = Plan | str | os.PathLike[str]
ENCODING_ID_PREFIX, ID_DIGITS = b"shuffledp data frame of messages\0", 32
LOSSLESS_STEPS = {"Project", "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias", "Union", "View"}
"""Steps of a query plan that keep all messages."""
METADATA_KEY = "shuffledp"
"""Metadata key of a column of messages.

Its value holds the plan's round, the width, whether it is shuffled, and an id of the encoding, or a hash of the ids of
all encodings that were shuffled.
"""


def encode(
    frame: DataFrame,
    plan: PlanOrPath,
    column: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    round_number: int | None = None,
    drawn: bool = False,
    rules: Rules = STRICT_RULES,
    secret: bytes | None = None,
) -> DataFrame:
    """Encodes all rows of a data frame into messages, with the number of times that each task sent them.

    The result is lazy: nothing runs before it is used. However often it is computed, with any partitions or retries,
    every row sends the same message again. For that a row needs an identity: either a key, or its place in files (or in
    data of the driver) without a join, sort or repartition in between. Other data frames are refused.

    Requires: a session that keeps the secret, and PySpark on the driver, shuffledp on the workers.

    Args:
        frame: The data frame, one row per user. A stream gives a stream; its rows are identified by their place in the
            source.
        plan: A plan, or the path of its file.
        column: Name or names of the columns with the users' values, as for ``shuffledp.collect``.
        key: Column or columns that distinguish rows; None if their place in files does.
        round_number: Number of the plan's round; required if the plan has several rounds.
        drawn: If True, the data frame holds only users who were sampled already; required if the plan samples its
            users.
        rules: How to treat cells that are not as planned. Drop rows without a value in Spark.
        secret: 32 bytes from which the randomness is derived. By default they are drawn here and stored nowhere else.
            Never give a secret that was used for other rows.

    Returns:
        A data frame with the columns ``message`` and ``count``.

    Raises:
        TypeError: If ``frame`` is not a Spark data frame.
        ValueError: If an argument is not as planned, or the rows cannot be identified.
        EngineError: If the session would not keep the secret.
    """
    plan = Plan.load_if_path(plan)
    _check_frame("encode", frame)
    spark_session.check_safe(frame.sparkSession)
    if plan.participation.is_sampled and not drawn:
        raise ValueError(
            "encode: expected the rows of users who were drawn already, as the plan samples its users; draw them "
            "first, and give drawn=True."
        )
    table = FrameTable(frame, check_column_names(key))
    columns = table.choose_columns(plan.task.resolve_columns(check_column_names(column)))
    _check_rules("encode", rules)
    reader = plan.column(*columns, rules=rules)
    key_bytes = os.urandom(KEY_BYTES) if secret is None else secret
    encoder = batch_processing.Encoder(reader, key_bytes)
    task = worker_tasks.build_encode_task(encoder, bool(table.key), frame.isStreaming)
    number = choose_round("encode", plan, round_number, None)
    label = {
        "plan": plan.identity(number),
        "width": plan.mechanism.message_bytes,
        "noise": find_noise_party(plan.mechanism),
        "shuffled": False,
        "bundle": hashlib.sha256(ENCODING_ID_PREFIX + key_bytes).hexdigest()[:ID_DIGITS],
    }
    return _attach_label(map_batches(table.identify_rows(reader), task, MESSAGES_SCHEMA), label)


def shuffle(frame: DataFrame, plan: PlanOrPath | None = None) -> DataFrame:
    """Shuffles the messages of a data frame from ``encode``, or of a ``union`` of several.

    The result is a function of the multiset of messages: the distinct messages in order of their bytes, with their
    counts, in partitions that are ranges of messages.

    A round is shuffled once, from all its data frames together. If some of them were shuffled before, only the same set
    is accepted again, and not even that if the shuffler draws the noise: keep the data frame that is returned, which
    has the same noise whenever it is computed. Only this user's machine, the driver's, records what was shuffled.

    Args:
        frame: Messages from ``encode``.
        plan: A plan, or the path of its file; required if the shuffler draws the plan's noise.

    Returns:
        A data frame with the columns ``message`` and ``count``.

    Raises:
        TypeError: If ``frame`` is not a Spark data frame.
        ValueError: If ``frame`` does not hold all messages of its encodings, is of another plan, or some of them were
            shuffled before with others.
    """
    _check_frame("shuffle", frame)
    label = _read_label("shuffle", frame)
    if label["shuffled"]:
        raise ValueError("shuffle: expected messages from shuffledp.spark.encode, got ones that were shuffled already.")
    bundles = _find_encoding_ids(frame, label)
    messages, adds_noise = frame.select(message_files.MESSAGE_COLUMN, COUNT_COLUMN), label["noise"] == SHUFFLER
    if adds_noise:
        messages = messages.union(_draw_noise(frame, label, plan))
    shuffled = sorted_shuffle.shuffle_messages(messages, label["width"])
    # Newly drawn noise makes another release, whose digest nobody knows before it is computed.
    digest = os.urandom(KEY_BYTES).hex() if adds_noise else ""
    message_files.record_shuffle("shuffle", label["plan"], bundles, digest, drawn=adds_noise)
    return _attach_label(shuffled, {**label, "shuffled": True, "bundle": message_files.hash_ids(bundles)})


def estimate(
    frame: DataFrame,
    plan: PlanOrPath,
    *,
    users: int | None = None,
    allow_weaker: bool = False,
    round_number: int | None = None,
    options: Any = None,
    confidence: float = DEFAULT_CONFIDENCE,
    post: str | None = None,
) -> Report:
    """Computes estimates and the guarantee from the shuffled messages of a data frame.

    Rows that are not messages are counted and set aside. No ledger is charged.

    Args:
        frame: Messages from ``shuffle``.
        plan: A plan, or the path of its file.
        users: Number of users; None to compute it from the number of messages, where that is possible.
        allow_weaker: If True, continues even if there are too few users to meet the target.
        round_number: Number of the plan's round; the default is the round that the messages were encoded for.
        options: The options to report, by label or number, as for ``shuffledp.collect``.
        confidence: Probability that an interval holds the true value, for each interval by itself.
        post: Post-processing, reported beside the estimates, as for ``shuffledp.collect``.

    Returns:
        The report.

    Raises:
        TypeError: If ``frame`` is not a Spark data frame.
        ValueError: If the messages are of another plan or round, or were not shuffled, or there are none.
        GuaranteeTooWeak: If there are too few users to meet the target.
    """
    plan = Plan.load_if_path(plan)
    _check_frame("estimate", frame)
    label, mechanism = _read_label("estimate", frame), plan.mechanism
    number = plan.find_round(label["plan"])
    if number is None or round_number not in (None, number) or label["width"] != mechanism.message_bytes:
        raise ValueError("estimate: the messages were made for another plan or round than the one given.")
    if not label["shuffled"]:
        raise ValueError("estimate: expected messages that were shuffled; call shuffledp.spark.shuffle on them first.")
    estimate_options = EstimateOptions.from_arguments("estimate", confidence, post, plan.task, whole=options is None)
    selection = OptionSelection.from_options("estimate", plan, options)
    total = worker_tasks.sum_statistics(frame, mechanism, selection.estimator)
    if total is None or not total.messages:
        raise ValueError(f"messages: expected at least one message of {mechanism.name}, got none.")
    senders = mechanism.count_users(total.messages) if users is None else users
    guarantee = Guarantee(plan, senders - total.refused, set_aside=total.refused, round_number=number)
    guarantee.require_target(allow_weaker)
    result = selection.estimator.finish(total.statistic, senders)
    counts = {"messages": total.messages, "refused": total.refused}
    return Report(
        guarantee, result, estimate_options.quantities(selection, result), SEPARATE_ROLES_TEXT, "spark", counts=counts,
        selected_count=selection.count, estimate_options=estimate_options,
    )  # fmt: skip


def _check_rules(who: str, rules: Rules) -> None:
    if rules.drops_rows:
        raise ValueError(f"{who}: rows without a value are dropped in Spark; call df.dropna() on their column first.")


def _draw_noise(frame: DataFrame, label: dict[str, Any], plan: PlanOrPath | None) -> DataFrame:
    """Draws the noise that the shuffler must add: once, here, from the operating system's randomness."""
    import pyarrow as pa

    if plan is None:
        raise ValueError("shuffle: the shuffler draws the noise of this plan; give the plan.")
    plan = Plan.load_if_path(plan)
    if plan.find_round(label["plan"]) is None:
        raise ValueError("shuffle: the messages were made for another plan than the one given.")
    noise = batch_processing.draw_shuffler_messages(plan.mechanism, SystemSource())
    batches = list(worker_tasks.combine_messages([(noise, None)], plan.mechanism.message_bytes))
    empty = worker_tasks.build_batch(noise[:0], noise[:0, 0].astype("int64"))
    return frame.sparkSession.createDataFrame(pa.Table.from_batches(batches or [empty]))


# --- Labels of message columns ---


def _attach_label(frame: DataFrame, label: dict[str, Any]) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.select(
        F.col(message_files.MESSAGE_COLUMN).alias(message_files.MESSAGE_COLUMN, metadata={METADATA_KEY: label}),
        COUNT_COLUMN,
    )


def _read_label(who: str, frame: DataFrame) -> dict[str, Any]:
    columns = [message_files.MESSAGE_COLUMN, COUNT_COLUMN]
    label = frame.schema[message_files.MESSAGE_COLUMN].metadata.get(METADATA_KEY) if frame.columns == columns else None
    if not isinstance(label, dict) or label.keys() != {"plan", "width", "noise", "shuffled", "bundle"}:
        raise ValueError(
            f"{who}: expected a data frame of messages from shuffledp.spark, with its columns {', '.join(columns)} "
            "unchanged."
        )
    return label


def _find_encoding_ids(frame: DataFrame, label: Mapping[str, Any]) -> list[str]:
    """Returns the ids of all encodings in a data frame; the label of a union holds only the first.

    Encodings may be united, renamed and written, and nothing else: a part of the messages, or some of them repeated,
    would be another release of the same people.
    """
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        found = _find_ids_in_connect_plan(getattr(frame, "_plan", None), frame.sparkSession)
    else:
        found = _find_ids_in_plan(plan.queryExecution().analyzed())
    return sorted({*found, label["bundle"]})


def _find_ids_in_plan(node: Any) -> list[str]:
    """Returns the ids in the column labels of a logical plan, from its top down to the result of ``encode``."""
    output = node.output()
    labels = (output.apply(place).metadata() for place in range(output.size()))
    own = [each.getMetadata(METADATA_KEY).getString("bundle") for each in labels if each.contains(METADATA_KEY)]
    children = node.children()
    below = [id_ for place in range(children.size()) for id_ in _find_ids_in_plan(children.apply(place))]
    if own and below and node.nodeName() not in LOSSLESS_STEPS:
        raise _build_subset_error(node.nodeName())
    return below or own


def _find_ids_in_connect_plan(plan: Any, session: Any) -> list[str]:
    """Returns the ids in a plan of Spark Connect, where messages can only have been read from files."""
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    name = type(plan).__name__
    children = [each for each in (plan._child, getattr(plan, "other", None)) if each is not None]
    if not children:
        metadata = ConnectFrame(plan, session).schema[message_files.MESSAGE_COLUMN].metadata
        return [metadata[METADATA_KEY]["bundle"]]
    is_union = name == "SetOperation" and (plan.set_op, plan.is_all) == ("union", True)
    if not is_union and name not in LOSSLESS_STEPS:
        raise _build_subset_error(name)
    return [id_ for each in children for id_ in _find_ids_in_connect_plan(each, session)]


def _build_subset_error(step: str) -> ValueError:
    return ValueError(
        f"shuffle: expected all messages from encode, or unions of them, got a {step} of them; choose the rows before "
        "encoding them."
    )


def _check_frame(who: str, frame: Any) -> None:
    if not is_spark_frame(frame):
        raise TypeError(f"{who}: expected a Spark data frame, got {type(frame).__name__}.")


# --- Windows of a stream ---


WINDOW_COLUMN = "shuffledp_window"
BATCH_PARTITION = "batch"
TOO_FEW_FILE = "too-few"
WINDOW_PREFIX = "window-"


@dataclass
class Windows:
    """A collection of each window of a stream: ``df.writeStream.foreachBatch(Windows(…)).start()``.

    Rows wait in ``room`` until their window is over: when a row arrives that is ``late`` seconds younger than the
    window's end. Then they are collected into ``out/window-START`` (seconds since 1970) and deleted. A window of fewer
    users than the target needs releases nothing, and is marked by the file ``too-few``. Every other window is a round
    of the plan: the next one that is free in the ledger, or without a ledger the next after the windows in ``out``;
    after the last round the stream stops. Rows that arrive later are ignored. A batch that Spark repeats changes
    nothing.

    Args:
        plan: A plan, or the path of its file.
        column: Name or names of the columns with the users' values.
        time: Name of the column with the time of each row.
        seconds: Length of a window.
        room: Address of a directory for waiting rows that only the collecting party can read.
        out: Directory for the results, a path or an address, as for ``collect``.
        late: Seconds to wait for late rows after the end of a window.
        ledger: Path of the ledger that records the privacy loss of the population; None to keep none.

    Raises:
        ValueError: If ``room`` is not an address, ``seconds`` is less than 1, or ``late`` is negative.
    """

    plan: Plan | str | os.PathLike[str]
    column: str | Sequence[str]
    time: str
    seconds: int
    room: str
    out: str | os.PathLike[str]
    late: int = 0
    ledger: str | os.PathLike[str] | None = None
    latest_time: int = field(default=0, init=False)
    """Latest time of any row so far."""

    def __post_init__(self) -> None:
        if not is_address(self.room):
            raise ValueError(f"windows: room must be an address such as hdfs://host/rows, got {self.room!r}.")
        if self.seconds < 1 or self.late < 0:
            raise ValueError("windows: seconds must be at least 1, and late at least 0.")

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Stores the rows of a batch, and collects the windows that are over."""
        from pyspark.sql import functions as F

        files = FileSystem(batch.sparkSession)
        when = F.unix_timestamp(F.col(quote_name(self.time)))
        rows = batch.withColumn(WINDOW_COLUMN, F.floor(when / F.lit(self.seconds)) * F.lit(self.seconds))
        with convert_spark_errors("storing the batch"):
            times: Any = batch.select(F.max(when), F.count_if(when.isNull())).first()
            if times[1]:
                raise ValueError(f"windows: expected a time in every row, got {times[1]:,} rows without one.")
            rows.write.mode("overwrite").partitionBy(WINDOW_COLUMN).parquet(f"{self.room}/{BATCH_PARTITION}={number}")
        self.latest_time = max(self.latest_time, int(times[0] or 0))
        for start in self._find_waiting_windows(files):
            if start + self.seconds + self.late <= self.latest_time:
                self._release_window(files, batch, start)

    def _find_waiting_windows(self, files: FileSystem) -> list[int]:
        """Returns the starts of the windows that have waiting rows."""
        inside = (name for batch in files.list_names(self.room) for name in files.list_names(f"{self.room}/{batch}"))
        return sorted({int(name.partition("=")[2]) for name in inside if name.startswith(f"{WINDOW_COLUMN}=")})

    def _release_window(self, files: FileSystem, batch: DataFrame, start: int) -> None:
        """Collects one window, once, and deletes its rows."""
        addresses = [f"{self.room}/{name}/{WINDOW_COLUMN}={start}" for name in files.list_names(self.room)]
        addresses = [address for address in addresses if files.exists(address)]
        out = f"{str(self.out).rstrip('/')}/{WINDOW_PREFIX}{start}"
        if {REPORT_FILE, TOO_FEW_FILE}.isdisjoint(_list_names(files, out)):
            frame = batch.sparkSession.read.parquet(*addresses)
            try:
                collect(
                    frame, self.plan, self.column, out=out, ledger=self.ledger, resume=True,
                    round_number=self._choose_round(files, frame, start),
                )  # fmt: skip
            except (GuaranteeTooWeak, NotApplicable):
                _mark_too_few(files, out)
        for address in addresses:
            files.remove(address)

    def _choose_round(self, files: FileSystem, frame: DataFrame, start: int) -> int | None:
        """Returns the round of a window; None if the ledger chooses it."""
        if self.ledger is not None:
            return None
        out, plan = str(self.out).rstrip("/"), Plan.load_if_path(self.plan)
        windows = (name for name in _list_names(files, out) if name.startswith(WINDOW_PREFIX))
        others = [name for name in windows if name != f"{WINDOW_PREFIX}{start}"]
        released = sum(REPORT_FILE in _list_names(files, f"{out}/{name}") for name in others)
        if released >= plan.rounds:
            # A window of too few users needs no round.
            Guarantee(plan, frame.count()).require_target(allow_weaker=False)
            raise ValueError(
                f"windows: the plan has {plan.rounds} rounds, and {released} windows in {out} were released; plan one "
                "round for each window."
            )
        return released + 1


def _list_names(files: FileSystem, directory: str) -> list[str]:
    """Returns the names in a directory of the driver, or at an address."""
    if is_address(directory):
        return files.list_names(directory)
    return sorted(path.name for path in Path(directory).glob("*"))


def _mark_too_few(files: FileSystem, directory: str) -> None:
    if not is_address(directory):
        Path(directory).mkdir(parents=True, exist_ok=True)
        Path(directory, TOO_FEW_FILE).touch()
        return
    with tempfile.TemporaryDirectory() as room:
        Path(room, TOO_FEW_FILE).touch()
        files.upload(Path(room, TOO_FEW_FILE), f"{directory}/{TOO_FEW_FILE}")
