"""The separate roles of a collection: encoder, shuffler and analyst.

The encoder sees only its own users' data and writes messages. The shuffler sees messages without their meaning and
removes their order and origin. The analyst reads only the shuffled messages.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp._core.errors import GuaranteeTooWeak, InvalidArgument
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp._core.results_and_value_objects import Progress
from shuffledp._core.validation import Bytes
from shuffledp.collection import batch_processing, continual_release, message_files
from shuffledp.collection.continual_release import Calendar
from shuffledp.collection.engine import EmbeddedEngine, report_progress
from shuffledp.collection.estimate_tables import DEFAULT_CONFIDENCE, EstimateOptions, OptionSelection
from shuffledp.collection.input.table_views import SampledTable
from shuffledp.collection.input.tables import check_column_names, open_input, prepare_table
from shuffledp.collection.message_files import (
    SHUFFLER,
    BatchSpec,
    EncodedFile,
    Manifest,
    MessageSealer,
    find_noise_party,
    seal_batch_spec,
)
from shuffledp.collection.report import SEPARATE_ROLES_TEXT, DailyReleaseReport, Report
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.ledger.hash_chain import LedgerError
from shuffledp.ledger.ledger import Ledger, choose_round
from shuffledp.planning.plan import Plan
from shuffledp.sampling.random_sources import KEY_BYTES, SystemSource
from shuffledp.storage import durable_files, sorting
from shuffledp.tasks.base import Quantity, cumulative_shape, option_labels
from shuffledp.tasks.running_counts import OverTime
from shuffledp.tasks.value_parsing import STRICT_RULES, Rules

# --- The encoder ---


def encode(
    plan: Plan | str | os.PathLike[str],
    data: Any,
    column: str | Sequence[str] | None = None,
    *,
    out: str | os.PathLike[str],
    user: str | None = None,
    rows_per_user: int = 1,
    round_number: int | None = None,
    drawn: bool = False,
    rules: Rules = STRICT_RULES,
    delimiter: str | None = None,
    gather: bool = False,
    wrapper: MessageSealer | None = None,
    progress: Progress | None = None,
) -> int:
    """Writes one file of messages for the rows of a table, in the role of the encoder.

    The randomness is the operating system's and is not stored. An existing file is not overwritten, and the remains of
    a killed run are destroyed first: two messages of the same users would reveal more than one. User ids are not passed
    on.

    Args:
        plan: A plan, or the path of its file.
        data: One row per user, as for ``collect``.
        column: Name or names of the columns with the users' values, as for ``collect``.
        out: New file of messages, for the shuffler.
        user: Name of the column that identifies the user of each row. Without it, each row is taken as one person.
        rows_per_user: Number of rows used per user, the first ones in the order of the input.
        round_number: Number of the plan's round; required if the plan has several rounds.
        drawn: If True, ``data`` holds only users who were sampled already. If the plan samples each user by a coin
            flip, the default is to flip the coins here; if it samples a fixed number of users, they must be sampled
            beforehand.
        rules: How to treat cells that are not as planned.
        delimiter: Field separator of a CSV file.
        gather: If True, all rows of a user form one list; for tasks that take lists.
        wrapper: Encrypts each message for the analyst, so that the shuffler cannot read it.
        progress: Receives the progress of each step.

    Returns:
        The number of rows that were encoded.

    Raises:
        ValueError: If an argument or a value of the data is not as planned, or ``out`` exists or cannot be written.

    >>> import pyarrow, tempfile
    >>> from shuffledp.mechanisms.frequency.randomized_response import KRR
    >>> from shuffledp.tasks.counts_and_frequencies import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     encode(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/ours.messages")
    1000
    """
    plan, path = Plan.load_if_path(plan), Path(out)
    number = wrapper.round_number if round_number is None and wrapper is not None else round_number
    number = choose_round("encode", plan, number, None)
    _check_new_file(path)
    if not path.parent.is_dir():
        raise ValueError(f"encode: expected a directory {path.parent} to write to, but there is none.")
    names = plan.task.resolve_columns(check_column_names(column))
    table = open_input(data, names, user, rows_per_user, delimiter, gather)
    engine = EmbeddedEngine(Progress() if progress is None else progress)
    reader, mechanism = plan.column(*table.choose_columns(names), rules=rules), plan.mechanism
    table = prepare_table(table, reader, user, gather)
    users = engine.check(table, reader)
    if users == 0:
        raise ValueError(f"input: expected at least one row, got none in {table.place}.")
    if _flips_coins(plan, drawn):
        table = SampledTable.draw(table, users, plan.participation, os.urandom(KEY_BYTES))
        users = table.sample_size
    spec = seal_batch_spec(BatchSpec.from_plan(plan, number, users, table.per_person), wrapper, plan, number)
    encoder = batch_processing.Encoder(reader, os.urandom(KEY_BYTES))
    with engine.progress.step("encoding", users) as advance:
        batches = encoder.encode_part(report_progress(table.batches(reader, batch_processing.CHUNK_ROWS), advance), 0)
        if wrapper is not None:
            batches = map(wrapper.seal, batches)
        if mechanism.messages_per_user != 1:
            # A user's real message comes first: sort by bytes, so that the shuffler cannot tell it from the dummies.
            batches = map(sorting.sort_in_memory, batches)
        try:
            message_files.write_encoded_file(path, spec, _check_message_count(spec, batches))
        except BlockingIOError:
            raise ValueError(f"encode: another process is encoding into {path}.") from None
        except FileExistsError:
            _check_new_file(path)
            raise
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error).rstrip(".")
            raise ValueError(f"encode: cannot write {path}: {reason}.") from None
    return users


def _flips_coins(plan: Plan, drawn: bool) -> bool:
    """Returns True if the sampling coins are flipped here; raises ValueError if the sample must be drawn beforehand."""
    sampled = plan.participation.is_sampled
    if drawn and not sampled:
        raise InvalidArgument(
            "encode",
            phrase("is for plans whose users are drawn out of more people ({of})"),
            parameter=Argument("drawn"),
        )
    if sampled and not drawn and plan.rate is None:
        raise InvalidArgument(
            "encode",
            "the plan draws a fixed number of all people, and an encoder sees only some of them",
            hint=phrase("draw the users first, pass only their rows, and add {drawn=True}"),
        )
    return sampled and not drawn


def _check_new_file(path: Path) -> None:
    if path.exists():
        durable_files.remove_unfinished_files(path)
        raise ValueError(f"encode: {path} exists already; encoding the same people again would weaken their privacy.")


def _check_message_count(spec: BatchSpec, batches: Iterator[Bytes]) -> Iterator[Bytes]:
    """Yields the messages; raises ValueError if their number is wrong, before the file gets its name."""
    count = 0
    for wire in batches:
        count += len(wire)
        yield wire
    if not spec.allows_user_messages(count):
        raise ValueError(f"input: expected {spec.users} rows as in the first pass; the file has changed since.")


def shuffle(
    inputs: Iterable[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str],
    plan: Plan | str | os.PathLike[str] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    reservation: str | None = None,
    allow_weaker: bool = False,
    round_number: int | None = None,
    wrapper: MessageSealer | None = None,
    progress: Progress | None = None,
) -> int:
    """Writes the messages of all encoders in order of their bytes, in the role of the shuffler.

    A round is shuffled once, from all its files together: an observer of two results, one from some files and one from
    the same files and a late one, could compute the late file's messages. Exactly the same files may be shuffled again,
    to the same messages; the ledger refuses anything else. Without a ledger, only this user's machine records which
    files were shuffled together. Repeat a call that was killed with the same arguments: it releases the noise that it
    had drawn.

    Args:
        inputs: Files from ``encode``, all of one plan and round.
        out: New directory for the shuffled messages.
        plan: A plan, or the path of its file. Required if the shuffler draws the plan's noise, which is then drawn
            here, once, and mixed with the messages. With a plan, rows that are not messages of it are set aside and
            counted, and nothing is released if there are too few users to meet the target.
        ledger: Path of the ledger to charge; ignored without ``plan``.
        reservation: Id of a reservation made in the ledger before, which is settled with the users who took part.
        allow_weaker: If True, continues even if there are too few users to meet the target.
        round_number: Number of the plan's round; the default is the round that the files were encoded for.
        wrapper: The wrapper that encrypted the messages, if any. They are mixed as they are, and noise that is drawn
            here is encrypted in the same way.
        progress: Receives the progress of each step.

    Returns:
        The number of shuffled messages.

    Raises:
        ValueError: If a file is damaged or of another plan or round, a file is given twice, some of the files were
            shuffled before with others, or ``out`` is not empty.
        GuaranteeTooWeak: If there are too few users to meet the target, or the budget has no room for the round.

    >>> import pyarrow, tempfile
    >>> from shuffledp.collection import encode
    >>> from shuffledp.mechanisms.frequency.randomized_response import KRR
    >>> from shuffledp.tasks.counts_and_frequencies import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     users = encode(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/ours.messages")
    ...     shuffle([f"{room}/ours.messages"], out=f"{room}/shuffled", plan=plan)
    1000
    """
    plan, directory = None if plan is None else Plan.load_if_path(plan), Path(out)
    check_new_directory("shuffle", directory)
    bundles = [EncodedFile.open(file) for path in inputs for file in message_files.list_encoded_files(Path(path))]
    _check_one_plan(bundles)
    number = None if plan is None else _round_to_shuffle(bundles, plan, round_number, wrapper)
    if plan is None and bundles[0].noise == SHUFFLER:
        raise InvalidArgument(
            "shuffle", "the shuffler draws the noise of this plan", hint=phrase("give the plan with {plan}")
        )
    if sum(each.messages for each in bundles) == 0:
        raise ValueError("shuffle: expected at least one message, got none.")
    mixer = MessageMixer(bundles, plan, Progress() if progress is None else progress, wrapper)
    # Complete under another name before the ledger is charged: a resumed run releases the noise it has drawn.
    ready = directory.with_name(f"{directory.name}.ready")
    manifest = mixer.find_result(ready)
    if manifest is not None:
        guarantee = _check_guarantee(plan, manifest, number, allow_weaker)
    else:
        with durable_files.create_atomic_directory(ready) as unfinished:
            manifest = mixer.write(unfinished)
            guarantee = _check_guarantee(plan, manifest, number, allow_weaker)
    try:
        # A release cannot be taken back: record it first.
        if ledger is not None and guarantee is not None:
            Ledger(ledger).book(guarantee, manifest.digest, reservation, manifest.bundles)
        ids = [each.id for each in bundles]
        message_files.record_shuffle("shuffle", manifest.plan, ids, manifest.digest, drawn=manifest.noise == SHUFFLER)
    except (GuaranteeTooWeak, LedgerError, message_files.AlreadyShuffled):
        durable_files.remove_tree(ready)
        raise
    durable_files.rename(ready, directory)
    return manifest.messages


def _check_guarantee(plan: Plan | None, manifest: Manifest, number: int | None, allow_weaker: bool) -> Guarantee | None:
    """Returns the guarantee of the shuffled messages, None without a plan.

    Raises GuaranteeTooWeak if it misses the target.
    """
    if plan is None:
        return None
    guarantee = manifest.build_guarantee(plan, number)
    guarantee.require_target(allow_weaker)
    return guarantee


@dataclass
class MessageMixer:
    """The messages of many encoders while they are merged into one order, and counts of rows set aside."""

    encoded_files: Sequence[EncodedFile]
    plan: Plan | None
    progress: Progress
    sealer: MessageSealer | None = None
    refused: int = 0
    missing: int = 0

    @property
    def files_hash(self) -> str:
        """Hash that identifies the set of message files."""
        return message_files.hash_ids(each.id for each in self.encoded_files)

    def find_result(self, directory: Path) -> Manifest | None:
        """Returns the manifest of the result that a killed run left; None if there is none.

        Raises ValueError if that run was of other files.
        """
        if not os.path.lexists(directory):
            return None
        status = os.lstat(directory)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise ValueError(f"shuffle: {directory} is needed for the result and was not made by shuffle; remove it.")
        manifest, first = Manifest.read(directory), self.encoded_files[0]
        if (manifest.plan, manifest.width, manifest.bundles) != (first.plan, first.width, self.files_hash):
            raise ValueError(
                f"shuffle: {directory} was left by a killed run of other files; repeat that run, or remove it."
            )
        # Verify that the messages to be released are those that were written.
        deque(manifest.read_verified_messages(directory), maxlen=0)
        return manifest

    def write(self, directory: Path) -> Manifest:
        """Writes the messages in order of their bytes, and their manifest, to a directory."""
        first, noise = self.encoded_files[0], self._draw_noise()
        total = sum(each.messages for each in self.encoded_files) + len(noise)
        with self.progress.step("shuffling", total) as advance:
            mixed = chain([noise], self._read_valid(advance))
            written = message_files.write_messages(
                message_files.sort_messages(mixed, first.width, total, directory), first.width, directory
            )
        if written.messages == len(noise):
            raise ValueError(f"shuffle: expected messages of the plan, got {self.refused} rows that are not.")
        users = sum(each.users for each in self.encoded_files)
        per_person = max(each.per_person for each in self.encoded_files)
        manifest = Manifest(
            first.plan, first.width, written.messages, written.sha256, users, per_person, self.refused, self.missing,
            first.noise, bundles=self.files_hash,
        )  # fmt: skip
        manifest.write(directory)
        return manifest

    def _draw_noise(self) -> Bytes:
        """Draws the noise that the shuffler must add, from the operating system's randomness, stored nowhere else."""
        width = self.encoded_files[0].width
        if self.plan is None:
            return np.empty((0, width), dtype=np.uint8)
        noise = batch_processing.draw_shuffler_messages(self.plan.mechanism, SystemSource())
        return noise if self.sealer is None else self.sealer.seal(noise)

    def _read_valid(self, advance: Callable[[int], None]) -> Iterator[Bytes]:
        """Yields the messages of all files; if the plan is known, without rows that are not messages of it."""
        for each in self.encoded_files:
            if self.plan is not None:
                expected = self.plan.mechanism.message_plan.user_messages(each.users)
                self.missing += 0 if expected is None else abs(expected - each.messages)
            for wire in each.read():
                good, bad = self._filter_valid(wire)
                self.refused += bad
                yield good
                advance(len(wire))

    def _filter_valid(self, wire: Bytes) -> tuple[Bytes, int]:
        """Returns the rows that are messages as far as the shuffler can tell, and the number of the others."""
        if self.plan is None or self.sealer is not None:
            return wire, 0
        return batch_processing.filter_valid(self.plan.mechanism, wire)


def _check_one_plan(bundles: Sequence[EncodedFile]) -> None:
    """Raises ValueError unless all files are of one plan's round and none is given twice."""
    paths: dict[str, Path] = {}
    for each in bundles:
        if each.id in paths:
            raise ValueError(
                f"shuffle: {each.path} holds the same messages as {paths[each.id]}; each file must be given once."
            )
        paths[each.id] = each.path
        if (each.plan, each.width, each.noise) != (bundles[0].plan, bundles[0].width, bundles[0].noise):
            raise ValueError(f"shuffle: {each.path} was made for another plan or round than {bundles[0].path}.")


def _round_to_shuffle(
    bundles: Sequence[EncodedFile], plan: Plan, requested: int | None, sealer: MessageSealer | None
) -> int:
    """Returns the plan's round that the files belong to; raises ValueError if a file contradicts the plan."""
    number = sealer.round_number if requested is None and sealer is not None else requested
    if number is not None:
        plan.identity(number)
    numbers = plan.round_numbers if number is None else [number]
    identities = {
        plan.identity(number) if sealer is None else sealer.identity(plan, number): number for number in numbers
    }
    noise = find_noise_party(plan.mechanism)
    for each in bundles:
        if each.plan not in identities:
            raise ValueError(f"shuffle: {each.path} was made for another plan or another round than the one given.")
        if each.noise != noise:
            raise ValueError(f"shuffle: {each.path} is damaged: the plan's noise is drawn by the {noise}.")
    return identities[bundles[0].plan]


def check_new_directory(who: str, out: Path) -> None:
    """Raises ValueError if the directory exists and is not empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{who}: expected a new or empty directory, got {out}.")


# --- The analyst ---


def estimate(
    plan: Plan | str | os.PathLike[str],
    messages: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    reservation: str | None = None,
    allow_weaker: bool = False,
    round_number: int | None = None,
    options: Any = None,
    confidence: float = DEFAULT_CONFIDENCE,
    post: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Computes estimates and writes a report from shuffled messages, in the role of the analyst.

    Messages of another plan or round are refused; rows that are not messages are set aside, counted and reported. The
    same messages may be estimated again with other options, confidence or post-processing, which costs no privacy.

    Args:
        plan: A plan, or the path of its file.
        messages: Directory from ``shuffle``, or the public directory from ``release``; then the report has the running
            counts of all days released so far.
        out: New directory for estimates and report.
        ledger: Path of the ledger to charge, unless it has these messages already. It refuses other messages of a round
            that was released.
        reservation: Id of a reservation made in the ledger before, which is settled with the users who took part.
        allow_weaker: If True, continues even if there are too few users to meet the target.
        round_number: Number of the plan's round; the default is the round that the messages were encoded for.
        options: The options to report, by label or number, as for ``collect``.
        confidence: Probability that an interval holds the true value, for each interval by itself.
        post: Post-processing, reported beside the estimates, as for ``collect``.
        progress: Receives the progress of each step.

    Returns:
        The report, which is also written to ``out``.

    Raises:
        ValueError: If an argument is not as expected, the messages are damaged or of another plan or round, ``out`` is
            not empty, or the ledger refuses the messages.
        GuaranteeTooWeak: If there are too few users to meet the target, or the budget has no room for the round.

    >>> import pyarrow, tempfile
    >>> from shuffledp.collection import encode, shuffle
    >>> from shuffledp.mechanisms.frequency.randomized_response import KRR
    >>> from shuffledp.tasks.counts_and_frequencies import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     users = encode(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/ours.messages")
    ...     count = shuffle([f"{room}/ours.messages"], out=f"{room}/shuffled")
    ...     report = estimate(plan, f"{room}/shuffled", out=f"{room}/result")
    >>> report.guarantee.users
    1000
    """
    plan, source, directory = Plan.load_if_path(plan), Path(messages), Path(out)
    mechanism, engine = plan.mechanism, EmbeddedEngine(Progress() if progress is None else progress)
    check_new_directory("estimate", directory)
    estimate_options = EstimateOptions.from_arguments("estimate", confidence, post, plan.task, whole=options is None)
    if continual_release.list_days(source):
        if reservation is not None:
            raise ValueError("estimate: a daily release is charged on its first day; leave out the reservation.")
        if options is not None:
            plan.task.parse_options("estimate", options)
        return _estimate_daily(plan, source, directory, round_number, allow_weaker, ledger, engine, estimate_options)
    selection = OptionSelection.from_options("estimate", plan, options)
    manifest = Manifest.read(source)
    number = _round_to_estimate(plan, round_number, manifest.plan, source)
    if manifest.width != mechanism.message_bytes:
        raise _build_wrong_plan_error(source)
    if manifest.noise != find_noise_party(mechanism):
        raise ValueError(f"estimate: the plan has noise of the shuffler, which {source} lacks; shuffle with the plan.")
    total = engine.aggregate(mechanism, source, manifest.messages, selection.estimator)
    guarantee = manifest.build_guarantee(plan, number, total.refused)
    guarantee.require_target(allow_weaker)
    result = selection.estimator.finish(total.statistic, manifest.count_users(total.messages, mechanism.message_plan))
    quantities = estimate_options.quantities(selection, result)
    counts = {
        "messages": total.messages,
        "refused": manifest.refused + total.refused,
        "missing": manifest.count_missing(mechanism.message_plan),
    }
    report = Report(
        guarantee, result, quantities, SEPARATE_ROLES_TEXT, engine.name, counts=counts,
        selected_count=selection.count, estimate_options=estimate_options,
    )  # fmt: skip
    return _write_report(report, directory, ledger, manifest.digest, reservation, manifest.bundles)


def _round_to_estimate(plan: Plan, requested: int | None, identity: str, where: Path) -> int:
    """Returns the plan's round that the messages belong to; raises ValueError unless it is the given one, if any."""
    if requested is not None:
        plan.identity(requested)
    number = plan.find_round(identity)
    if number is None or requested not in (None, number):
        raise _build_wrong_plan_error(where)
    return number


def _build_wrong_plan_error(where: Path) -> ValueError:
    return ValueError(f"estimate: the messages in {where} were made for another plan or round than the one given.")


def _write_report(
    report: Report,
    directory: Path,
    ledger: str | os.PathLike[str] | None,
    digest: str,
    reservation: str | None = None,
    bundles: str | None = None,
) -> Report:
    """Charges the ledger, if any, and writes the report to its directory."""
    plan = report.guarantee.plan
    with durable_files.create_atomic_directory(directory) as unfinished:
        if ledger is not None:
            opened_ledger = Ledger(ledger)
            opened_ledger.book(report.guarantee, digest, reservation, bundles)
            report = replace(report, budget_status=opened_ledger.budget_statuses(plan.population, plan.delta)[0])
        report = replace(report, guarantee=report.guarantee.with_certificate())
        report.write(unfinished)
    return report


def _estimate_daily(
    plan: Plan, source: Path, directory: Path, round_number: int | None, allow_weaker: bool,
    ledger: str | os.PathLike[str] | None, engine: EmbeddedEngine, estimate_options: EstimateOptions,
) -> Report:  # fmt: skip
    """Reports the running counts of all days released so far."""
    calendar, released = Calendar.from_plan("estimate", plan), continual_release.read_released_days(source)
    mechanism, task = plan.mechanism, plan.task
    assert isinstance(task, OverTime), "only this task has a calendar"
    number = _round_to_estimate(plan, round_number, released[0].plan, source)
    if released[0].width != mechanism.message_bytes or len(released) > calendar.tree.value_count:
        raise _build_wrong_plan_error(source)
    guarantee = Guarantee(plan, plan.users, round_number=number)
    guarantee.require_target(allow_weaker)
    total = np.zeros(calendar.tree.node_count, dtype=np.int64)
    with engine.progress.step("aggregating", sum(each.messages for each in released)) as advance:
        for each in released:
            for wire in each.read_verified_messages(continual_release.day_directory(source, each.day)):
                messages = mechanism.unpack(wire)
                if (calendar.find_last_days(messages) != each.day).any():
                    raise ValueError(f"estimate: day {each.day} in {source} has messages of tree nodes that end later.")
                total += mechanism.accumulate(messages)
                advance(len(wire))
    counts = task.running_counts(mechanism, mechanism.finish(total, plan.users), len(released))
    labels = option_labels(task.domain, len(released))
    quantity = Quantity.from_estimate(
        "users up to", labels, counts, estimate_options.confidence, cumulative_shape(plan.users)
    )
    message_counts = {"messages": sum(each.messages for each in released)}
    quantities = estimate_options.add_adjusted(task, mechanism, counts, [quantity])
    report = DailyReleaseReport(
        guarantee,
        counts,
        quantities,
        SEPARATE_ROLES_TEXT,
        engine.name,
        counts=message_counts,
        estimate_options=estimate_options,
    )
    return _write_report(report, directory, ledger, released[0].digest)
