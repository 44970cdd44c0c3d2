"""The three roles over data frames of Spark: encode, shuffle, estimate."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shuffledp.collection import bundle, kernel, message, shuffle_record
from shuffledp.collection.asking import Asking
from shuffledp.collection.cluster import exact_shuffle, message_frame
from shuffledp.collection.cluster.frame_table import FrameTable, is_frame
from shuffledp.collection.cluster.message_frame import COUNT, SCHEMA, mapped
from shuffledp.collection.engine import spark_session
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.input.given_data import named
from shuffledp.collection.ledger import chosen_round
from shuffledp.collection.lot import SHUFFLER, noise_of
from shuffledp.collection.manner import CONFIDENCE, Manner
from shuffledp.collection.report import PARTIES_APART, Report
from shuffledp.planner.plan_file import Plan
from shuffledp.sampling.random import KEY_BYTES, SystemSource
from shuffledp.tasks.rules import STRICT, Rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PlanGiven = Plan | str | os.PathLike[str]
BUNDLE, ID_DIGITS = b"shuffledp data frame of messages\0", 32
KEEPS_ALL = {"Project", "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias", "Union", "View"}
"""Steps of a plan after which the same messages are there."""
LABEL = "shuffledp"
"""The metadata of a column of messages: the plan's round, the width, whether it is shuffled, and
an id of the encoding, or a hash of the ids of all that were shuffled."""


def encode(
    frame: DataFrame,
    plan: PlanGiven,
    column: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    round_number: int | None = None,
    drawn: bool = False,
    rules: Rules = STRICT,
    secret: bytes | None = None,
) -> DataFrame:
    """The messages of all rows of a data frame, each message with how often its task sent it: ``message``, ``count``.

    Lazy, as any data frame: nothing runs before it is used, and however often it is computed, in whichever partitions,
    by retries or twice, every row sends the message that it sent before. For that a row needs an identity: ``key``
    names the column, or columns, that tell rows apart, or the rows are those of files (or of the driver) without a
    join, sort or repartition in between, and their place there is who they are. Other data frames are refused.
    ``column``, ``rules`` and ``drawn`` as for ``shuffledp.collect``; ``round_number`` must be given where the plan has
    more than one round. ``secret``, 32 bytes, is what
    the randomness comes from: it is drawn here, and kept nowhere else, unless it is given; one that was used for other
    rows must not be given again. A stream gives a stream: its rows are known by their place in the source.

    Requires: a session that keeps the secret, and PySpark on the driver, shuffledp on the workers.
    """
    chosen = Plan.of(plan)
    _demand_frame("encode", frame)
    spark_session.demand_safe(frame.sparkSession)
    if chosen.schedule.is_sampled and not drawn:
        raise ValueError(
            "encode: the plan draws its users; choose the rows of those who were drawn, and say drawn=True."
        )
    table = FrameTable(frame, named(key))
    columns = table.columns_named(chosen.task.columns_read(named(column)))
    read = chosen.column(*columns, rules=_without_gaps(rules))
    own = os.urandom(KEY_BYTES) if secret is None else secret
    encoder = kernel.Encoder(read, own)
    work = message_frame.encoding(encoder, bool(table.key), frame.isStreaming)
    number = chosen_round("encode", chosen, round_number, None)
    label = {
        "plan": chosen.identity(number), "width": chosen.mechanism.message_bytes, "noise": noise_of(chosen.mechanism),
        "shuffled": False, "bundle": hashlib.sha256(BUNDLE + own).hexdigest()[:ID_DIGITS],
    }  # fmt: skip
    return _with_label(mapped(table.identified(read), work, SCHEMA), label)


def shuffle(frame: DataFrame, plan: PlanGiven | None = None) -> DataFrame:
    """The messages of a data frame from ``encode``, or of several by ``union``, without a trace of where they were.

    What comes out is a function of the multiset of messages: different messages in order of their bytes, with how often
    each was sent, in partitions that are ranges of messages. ``plan`` is needed where the shuffler draws the noise.

    A round is shuffled once, from all its data frames together: of those that were shuffled before, others are refused
    than the same ones. Where the shuffler draws the noise these are refused, too: keep the data frame that is returned,
    which has the same noise whenever it is computed. Only this user's machine, the driver's, remembers that.
    """
    _demand_frame("shuffle", frame)
    label = _label("shuffle", frame)
    if label["shuffled"]:
        raise ValueError("shuffle: expected messages from shuffledp.spark.encode, got ones that were shuffled already.")
    bundles = _bundles(frame, label)
    messages, noisy = frame.select(message.COLUMN, COUNT), label["noise"] == SHUFFLER
    if noisy:
        messages = messages.union(_noise(frame, label, plan))
    mixed = exact_shuffle.shuffled(messages, label["width"])
    # What is drawn anew is another release, of which nobody knows the digest before it is computed.
    digest = os.urandom(KEY_BYTES).hex() if noisy else ""
    shuffle_record.remember("shuffle", label["plan"], bundles, digest, drawn=noisy)
    return _with_label(mixed, {**label, "shuffled": True, "bundle": bundle.hash_of(bundles)})


def estimate(
    frame: DataFrame,
    plan: PlanGiven,
    *,
    users: int | None = None,
    allow_weaker: bool = False,
    round_number: int | None = None,
    options: Any = None,
    confidence: float = CONFIDENCE,
    post: str | None = None,
) -> Report:
    """Estimates and guarantee from the shuffled messages of a data frame.

    ``users``: of how many people they are, where that cannot be told from their number. ``round_number`` is by default
    the one that the messages were encoded for. ``allow_weaker``, ``options``, ``confidence`` and ``post`` as for
    ``shuffledp.collect``. Messages of another plan or round are refused, as are fewer users than the plan's target
    needs; rows that are no messages are counted and set aside. No ledger is kept.
    """
    chosen = Plan.of(plan)
    _demand_frame("estimate", frame)
    label, mechanism = _label("estimate", frame), chosen.mechanism
    number = chosen.round_of(label["plan"])
    if number is None or round_number not in (None, number) or label["width"] != mechanism.message_bytes:
        raise ValueError("estimate: the messages were made for another plan or round than the one given.")
    if not label["shuffled"]:
        raise ValueError("estimate: expected messages that were shuffled; call shuffledp.spark.shuffle on them first.")
    manner = Manner.of("estimate", confidence, post, chosen.task, whole=options is None)
    asking = Asking.of("estimate", chosen, options)
    found = message_frame.total(frame, mechanism, asking.reading)
    if found is None or not found.messages:
        raise ValueError(f"messages: expected at least one message of {mechanism.name}, got none.")
    came = mechanism.users_behind(found.messages) if users is None else users
    guarantee = Guarantee(chosen, came - found.refused, set_aside=found.refused, round_number=number)
    guarantee.demand(allow_weaker)
    result = asking.reading.finish(found.statistic, came)
    counts = {"messages": found.messages, "refused": found.refused}
    return Report(
        guarantee, result, manner.quantities(asking, result), PARTIES_APART, "spark", counts=counts,
        asked=asking.count, manner=manner,
    )  # fmt: skip


def _without_gaps(rules: Rules) -> Rules:
    if rules.drops:
        raise ValueError("encode: rows without a value are dropped in Spark: take df.dropna() of their column first.")
    return rules


def _noise(frame: DataFrame, label: dict[str, Any], plan: PlanGiven | None) -> DataFrame:
    """What the shuffler itself must add: drawn once, here, from the operating system."""
    import pyarrow as pa

    if plan is None:
        raise ValueError("shuffle: the shuffler draws the noise of this plan; give the plan.")
    chosen = Plan.of(plan)
    if chosen.round_of(label["plan"]) is None:
        raise ValueError("shuffle: the messages were made for another plan than the one given.")
    drawn = kernel.drawn_by_shuffler(chosen.mechanism, SystemSource())
    batches = list(message_frame.combined([(drawn, None)], chosen.mechanism.message_bytes))
    empty = message_frame.batch_of(drawn[:0], drawn[:0, 0].astype("int64"))
    return frame.sparkSession.createDataFrame(pa.Table.from_batches(batches or [empty]))


# --- what a column says of itself ---------------------------------------------------------------------------------


def _with_label(frame: DataFrame, label: dict[str, Any]) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.select(F.col(message.COLUMN).alias(message.COLUMN, metadata={LABEL: label}), COUNT)


def _label(who: str, frame: DataFrame) -> dict[str, Any]:
    wanted = [message.COLUMN, COUNT]
    found = frame.schema[message.COLUMN].metadata.get(LABEL) if frame.columns == wanted else None
    if not isinstance(found, dict) or found.keys() != {"plan", "width", "noise", "shuffled", "bundle"}:
        raise ValueError(
            f"{who}: expected a data frame of messages from shuffledp.spark, with the columns {', '.join(wanted)} as "
            "they came from there."
        )
    return found


def _bundles(frame: DataFrame, label: Mapping[str, Any]) -> list[str]:
    """The ids of all data frames from ``encode`` that are in this one: of a union the first alone is in its own label.

    They may be put together, named and written, and nothing else: some of the messages, or some of them more often,
    would be another release of the same people.
    """
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        found = _in_connect_plan(getattr(frame, "_plan", None), frame.sparkSession)
    else:
        found = _in_plan(plan.queryExecution().analyzed())
    return sorted({*found, label["bundle"]})


def _in_plan(node: Any) -> list[str]:
    """The ids that a logical plan's columns are labelled with, from its top down to what ``encode`` made."""
    output = node.output()
    told = (output.apply(place).metadata() for place in range(output.size()))
    own = [each.getMetadata(LABEL).getString("bundle") for each in told if each.contains(LABEL)]
    children = node.children()
    below = [id_ for place in range(children.size()) for id_ in _in_plan(children.apply(place))]
    if own and below and node.nodeName() not in KEEPS_ALL:
        raise _only_some(node.nodeName())
    return below or own


def _in_connect_plan(plan: Any, session: Any) -> list[str]:
    """The same of a plan of Spark Connect, where messages can only have been read from files."""
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    name = type(plan).__name__
    children = [each for each in (plan._child, getattr(plan, "other", None)) if each is not None]
    if not children:
        told = ConnectFrame(plan, session).schema[message.COLUMN].metadata
        return [told[LABEL]["bundle"]]
    is_union = name == "SetOperation" and (plan.set_op, plan.is_all) == ("union", True)
    if not is_union and name not in KEEPS_ALL:
        raise _only_some(name)
    return [id_ for each in children for id_ in _in_connect_plan(each, session)]


def _only_some(step: str) -> ValueError:
    return ValueError(
        f"shuffle: expected all messages from encode, or unions of them, got a {step} of them; choose the rows before "
        f"they are encoded."
    )


def _demand_frame(who: str, frame: Any) -> None:
    if not is_frame(frame):
        raise TypeError(f"{who}: expected a data frame of Spark, got {type(frame).__name__}.")
