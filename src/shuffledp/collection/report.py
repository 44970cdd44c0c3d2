"""The report of a finished collection: estimates, a plot, a certificate, the guarantee in words, and range queries."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core import plotting, validation
from shuffledp._core.formatting import (
    GUARANTEE_DIGITS,
    INFINITE_EPSILON_TEXT,
    PrintableResult,
    escape_markdown,
    format_epsilon,
    format_epsilon_equation,
    format_exact,
    format_json,
    format_rounded_down,
    format_rounded_up,
    format_settings,
)
from shuffledp.bounds.metric_amplification import MetricVariationRatio
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION
from shuffledp.certificates.claim import Claim
from shuffledp.collection import estimate_tables
from shuffledp.collection.estimate_tables import (
    DEFAULT_ESTIMATE_OPTIONS,
    ESTIMATES_FILE,
    EstimateOptions,
    build_arrow_table,
    build_data_frame,
    build_rows,
    check_output_path,
    format_tables,
    save,
    write_estimates,
)
from shuffledp.collection.input.base import RowCount
from shuffledp.collection.job import REPORT_FILE
from shuffledp.ledger.accounting import BudgetStatus
from shuffledp.ledger.guarantee import Guarantee
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.planning.plan import Plan
from shuffledp.statement import find_citations, format_table
from shuffledp.tasks.base import Quantity
from shuffledp.tasks.column_reader import Tally
from shuffledp.tasks.ranges import ASK_PREFIX, OrderedDomainQueries, Quantile, RangeCount, Ranges
from shuffledp.tasks.value_parsing import STRICT_RULES, Rules

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure


# --- Range queries and quantiles of a finished collection ---


DEFAULT_CONFIDENCE = 0.95
NODES_FIELD = "nodes"
"""Field of report.json that holds the estimate of every node."""


def ask(
    directory: str | os.PathLike[str],
    *,
    ranges: Sequence[tuple[Any, Any]] = (),
    quantiles: Sequence[float] = (),
    confidence: float = DEFAULT_CONFIDENCE,
) -> list[RangeCount | Quantile]:
    """Answers range and quantile queries on a finished collection of the task ranges.

    The answers are post-processing and cost no privacy, however many there are.

    Args:
        directory: Directory that ``collect`` or ``estimate`` wrote.
        ranges: Pairs (first, last), both included, by label or number.
        quantiles: Shares between 0 and 1.
        confidence: Probability that an interval holds the true value, for each interval by itself.

    Returns:
        The counts of the ranges, then the quantiles, in the given order, each with its interval.

    Raises:
        ValueError: If the directory is not that of a finished collection of the task ranges, or a query is outside the
            domain.

    >>> import pyarrow, tempfile
    >>> import shuffledp as sdp
    >>> plan = sdp.Plan(sdp.tasks.Ranges(8), sdp.RangeTree(8, 20.0, 800), users=800, epsilon=4.0, delta=1e-4)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     report = sdp.collect(plan, pyarrow.array([1, 2, 2, 6] * 200), out=f"{room}/result")
    ...     few, middle = sdp.ask(f"{room}/result", ranges=[(0, 3)], quantiles=[0.5])
    >>> bool(abs(few.value - 600) < 6 * few.standard_error), middle.value
    (True, '2')
    """
    level = validation.open_probability(ASK_PREFIX, "confidence", confidence, up=True)
    questions = _read_questions(Path(directory))
    counted = [questions.range(first, last, level) for first, last in ranges]
    return [*counted, *(questions.quantile(share, level) for share in quantiles)]


def _read_questions(directory: Path) -> OrderedDomainQueries:
    """Reads the estimates of a finished collection for queries."""
    try:
        document = json.loads((directory / REPORT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ValueError(f"{ASK_PREFIX}: expected the directory of a finished collection, got {directory}.") from None
    plan = Plan.load(directory / "plan.json")
    _check_ranges_task(plan)
    return build_questions(plan, estimate_from_document(document))


def build_questions(plan: Plan, estimate: Estimate) -> OrderedDomainQueries:
    """Returns an object that answers queries on the estimate; raises ValueError unless the task is ranges."""
    return OrderedDomainQueries(plan.task.domain, _check_ranges_task(plan).range_estimator(plan.mechanism), estimate)


def _check_ranges_task(plan: Plan) -> Ranges:
    if not isinstance(plan.task, Ranges):
        raise ValueError(
            f"{ASK_PREFIX}: only a collection of the task {Ranges.name!r} can be asked, got {plan.task.name!r}."
        )
    return plan.task


def nodes_to_document(estimate: Estimate) -> dict[str, Any]:
    """Returns every node's estimate and variance, without rounding, for JSON."""
    return {"users": estimate.users, "estimate": estimate.value.tolist(), "variance": estimate.variance.tolist()}


def estimate_from_document(document: dict[str, Any]) -> Estimate:
    """Reads the estimate of every node from a report; raises ValueError if it has none."""
    try:
        kept = document[NODES_FIELD]
        return Estimate(np.array(kept["estimate"], float), np.array(kept["variance"], float), int(kept["users"]))
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{ASK_PREFIX}: the report does not hold the nodes of a tree; ask one of range queries."
        ) from None


# --- The guarantee in words ---


@dataclass(frozen=True)
class GuaranteeText:
    """The guarantee of a collection as text: who is promised what, under which conditions, with which exceptions.

    ``subject`` says whose data the promise is about; ``rows_text`` says what was taken as one person, and by which
    rules. ``rejected_messages`` counts the messages that were not as planned; ``budget_status`` is the state of the
    population's ledger, if there is one.
    """

    guarantee: Guarantee
    subject: str
    rows_text: str
    rejected_messages: int
    budget_status: BudgetStatus | None

    def __str__(self) -> str:
        parts = (
            self._format_guarantee(),
            self._describe_sample(),
            self._describe_pairs(),
            self._describe_colluding(),
            self._describe_local_guarantee(),
            self.rows_text,
            self._describe_domain(),
            self._describe_rounds(),
            self._describe_ledger_total(),
            self._describe_rejected(),
            self._describe_missed_target(),
        )
        return " ".join(filter(None, parts))

    def _format_guarantee(self) -> str:
        held = self.guarantee
        if math.isinf(held.stated_value.upper):
            return (
                f"No ε is known that holds at δ = {format_exact(held.plan.delta)}: it may be {INFINITE_EPSILON_TEXT}."
            )
        epsilon, delta = format_rounded_up(held.stated_value.upper, GUARANTEE_DIGITS), format_exact(held.plan.delta)
        return (
            f"Whatever one of the {self.subject}, the probability of any set of shuffled messages "
            f"changes by at most a factor e^{epsilon}, and by {delta} beyond that: "
            f"({epsilon}, {delta})-differential privacy, by {held.stated_value.theorem}."
        )

    def _describe_sample(self) -> str:
        """Describes the sample of users, and the guarantee that is left if the sample becomes known."""
        held = self.guarantee
        if not held.schedule.is_sampled:
            return ""
        rounds = (
            ""
            if held.plan.rounds == 1
            else f", and over {held.plan.rounds:,} rounds {format_epsilon_equation(held.total_epsilon_if_sample_known)}"
        )
        return (
            f"They were drawn: {held.schedule.describe()}. This {SAMPLING_SECRECY_CONDITION}; if it is known, a user "
            f"who was drawn is "
            f"promised {format_epsilon_equation(held.epsilon_if_sample_known)}{rounds}. Estimates are about those who "
            f"were drawn."
        )

    def _describe_pairs(self) -> str:
        """Describes the stronger guarantee for pairs of close values, if there is one."""
        promise = self.guarantee.plan.pair_targets
        if promise is None:
            return ""
        if self.guarantee.missed_pair is not None:
            a, b = self.guarantee.missed_pair
            missed = f"Values {a} and {b}, and perhaps others, MISS the ε of their own that the plan promises"
            return f"{missed}, which was accepted by --allow-weaker."
        return f"Every two values keep {promise.describe()}, as planned, by {MetricVariationRatio.theorem}."

    def _describe_colluding(self) -> str:
        """States how many users may collude, and the least number of users for which the target was planned."""
        plan = self.guarantee.plan
        held = f"It holds even if {plan.colluding:,} of the users tell what they sent." if plan.colluding else ""
        least = "" if plan.minimum is None else f"The target was planned to be met from {plan.minimum:,} users on."
        return " ".join(filter(None, (held, least)))

    def _describe_local_guarantee(self) -> str:
        """Describes the guarantee without the shuffler."""
        local = self.guarantee.plan.mechanism.local_epsilon
        crowd = self.guarantee.plan.mechanism.message_plan
        if crowd.has_shuffler_noise:
            whoever = (
                " How many users took part, or collude, does not matter." if crowd.is_participation_independent else ""
            )
            return (
                "All of it rests on the shuffler, which drew the noise: to who knows the noise, or sees who sent what, "
                f"the messages promise nothing.{whoever}"
            )
        if local is None:
            return "All of it rests on the shuffler: to who sees who sent them, the messages promise nothing."
        what = "Each message alone keeps" if crowd.is_single_message else "All that a user sends keeps"
        return f"{what} local ε = {format_rounded_up(local)} even from the shuffler."

    def _describe_domain(self) -> str:
        """States which parts of the domain were read from the data and are not covered."""
        read = self.guarantee.plan.read_from_data
        if not read:
            return ""
        return f"The plan's {' and '.join(read)} were read from the data: a release of its own, which no ε here covers."

    def _describe_rounds(self) -> str:
        plan, number = self.guarantee.plan, self.guarantee.round_number
        if plan.rounds == 1:
            return ""
        which = "" if number is None else f"This is {plan.format_round(number)}. "
        return (
            f"{which}Over {plan.rounds} such rounds: "
            f"{format_epsilon_equation(self.guarantee.epsilon, GUARANTEE_DIGITS)}."
        )

    def _describe_ledger_total(self) -> str:
        """States the total ε if the ledger has more collections of these people than the plan counts."""
        planned, held = self.guarantee.plan.rounds, self.budget_status
        if held is None or len(held.entries) <= planned:
            return ""
        return (
            f"The ledger has {len(held.entries):,} collections from these people, where the plan is for {planned:,}: "
            f"all together {format_epsilon_equation(held.epsilon)} at δ = {format_exact(held.delta)}."
        )

    def _describe_rejected(self) -> str:
        if not self.rejected_messages:
            return ""
        return (
            f"{self.rejected_messages:,} messages were not as planned: as many users are taken to hide nobody, and "
            f"are not counted."
        )

    def _describe_missed_target(self) -> str:
        held = self.guarantee
        if held.epsilon <= held.plan.epsilon:
            return ""
        return (
            f"This is WEAKER than the planned ε = {format_exact(held.plan.epsilon)}, and was accepted by "
            f"--allow-weaker."
        )


# --- report.md ---


def format_page(report: Report, proof: str, drawn: bool) -> str:
    """Returns the page, with a note ``proof`` about the certificate, and with the plot if it was drawn."""
    plan = report.guarantee.plan
    parts = [
        f"# Collection: {escape_markdown(plan.task.name)}",
        "## What is promised",
        escape_markdown(report.statement()),
        escape_markdown(report.parties),
        "It holds if",
        _format_list(report.guarantee.conditions()),
        format_table(("", ""), _list_facts(report, proof)),
        _format_list(find_citations(report.guarantee.stated_value.theorem)),
        "## Estimates",
        f"Each interval holds the true value with confidence {report.estimate_options.confidence_text}. All estimates "
        f"are in {ESTIMATES_FILE}."
        f"{_describe_selection(report)}",
        report.estimate_options.post_description,
        *format_tables(report.quantities),
        "![estimates](estimates.png)" if drawn else "",
    ]
    if report.budget_status is not None:
        parts += ["## Ledger", escape_markdown(report.budget_status.format_text())]
    return "\n\n".join(filter(None, parts)) + "\n"


def _list_facts(report: Report, proof: str) -> list[tuple[str, str]]:
    plan, held = report.guarantee.plan, report.guarantee
    lower, mechanism = held.stated_value.lower, plan.mechanism.to_document()
    attained = "none known" if lower is None else format_rounded_down(lower)
    return [
        ("population", plan.population),
        *report.summarize_participation(" that took part"),
        ("central ε, guaranteed", format_epsilon(held.stated_value.upper, GUARANTEE_DIGITS)),
        *report.summarize_guarantee([("an attack on a constructed dataset achieves", attained)]),
        (
            "local ε",
            "none" if plan.mechanism.local_epsilon is None else format_rounded_up(plan.mechanism.local_epsilon),
        ),
        ("messages a user", f"{plan.mechanism.messages_per_user:,.4g}"),
        ("noise is drawn by", "the shuffler" if plan.mechanism.message_plan.has_shuffler_noise else "the users"),
        ("mechanism", f"{mechanism['name']} {format_settings(mechanism['settings'])}".strip()),
        ("bound", f"{held.stated_value.bound}: {held.stated_value.theorem}"),
        ("certificate", proof),
        *((f"messages {name}", f"{number:,}") for name, number in report.rejected_counts().items()),
        *(
            (f"largest standard error{_format_question_suffix(name)}", f"{error:.6g}")
            for name, error in report.errors().items()
        ),
        *((f"promised {name.replace('_', ' ')}", f"{number:.6g}") for name, number in plan.promise.items()),
        ("engine", report.engine),
    ]


def _format_question_suffix(question: str) -> str:
    return f" of {question}" if question else ""


def _format_list(sentences: tuple[str, ...] | list[str]) -> str:
    return "\n".join(f"- {escape_markdown(sentence)}" for sentence in sentences)


def _describe_selection(report: Report) -> str:
    """States how many options were selected, unless all were."""
    if report.selected_count is None:
        return ""
    size = report.guarantee.plan.task.domain.size
    return f" They are of the {report.selected_count:,} options that were asked for, of {size:,} in all."


QUARTILES = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}
NEXT_PLAN_FILE = "next-plan.json"
"""The plan of the next round, if its questions depend on this round."""
ONE_PARTY_TEXT = (
    "One party ran all three roles and saw the raw data. The guarantee holds towards those who see only the shuffled "
    "messages or the estimates, not towards that party; run encode, shuffle and estimate on separate machines for that."
)
SEPARATE_ROLES_TEXT = (
    "Encoding, shuffling and estimating were run apart. The guarantee holds as long as the shuffler does not hand on "
    "the order of the messages or who sent them."
)
ENCODER_ROWS_TEXT = (
    "Each row that an encoder read was taken as one person, unless the encoder was told whose rows they are; what it "
    "left out, clipped or drew from is known to it alone."
)


@dataclass(frozen=True)
class Report(PrintableResult):
    """The result of one collection; print it to read it.

    Args:
        guarantee: The promised guarantee, and the certified one for the users who took part.
        estimate: All estimated numbers, with their variances.
        quantities: The same estimates with names and labels.
        parties: The parties that must be trusted, in words.
        engine: Name of the engine that ran the collection.
        budget_status: State of the population's ledger, with this collection; None without a ledger.
        rows: Counts of the rows of the input that were used; None if only the encoders know.
        counts: Numbers of messages that were read, refused as invalid, and missing or too many for their users.
        rules: How cells that are not as planned were treated.
        tally: Number of values that the rules changed. These are exact counts that no guarantee covers, so they are in
            no file.
        selected_count: Number of selected options; None if all were reported.
        estimate_options: Confidence of the intervals, and the post-processing.
        columns: Names of the columns that were read; empty if only the encoders know.

    >>> import pyarrow, tempfile
    >>> import shuffledp as sdp
    >>> plan = sdp.Plan(sdp.tasks.Frequency(["red", "green"]), sdp.KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     report = sdp.collect(plan, pyarrow.array(["red", "green"] * 500), out=f"{room}/result")
    >>> report.guarantee.users, f"{report.guarantee.value.upper:.4f}"
    (1000, '0.3233')
    >>> [(quantity.name, quantity.labels) for quantity in report.quantities]
    [('users', ('red', 'green'))]
    """

    guarantee: Guarantee
    estimate: Estimate
    quantities: Sequence[Quantity]
    parties: str
    engine: str
    budget_status: BudgetStatus | None = None
    rows: RowCount | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    rules: Rules = STRICT_RULES
    tally: Tally = field(default_factory=Tally)
    selected_count: int | None = None
    estimate_options: EstimateOptions = DEFAULT_ESTIMATE_OPTIONS
    columns: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Returns the content of report.json."""
        plan = self.guarantee.plan
        return {
            "format": "shuffledp report",
            "version": 1,
            "task": plan.task.name,
            "population": plan.population,
            "users": self.guarantee.users,
            "counts": dict(self.counts),
            "guarantee": self.guarantee.document(),
            "statement": self.statement(),
            "rows": None if self.rows is None else self.rows.document(),
            **({"rules": self.rules.document()} if self.rules != STRICT_RULES else {}),
            "parties": self.parties,
            "engine": self.engine,
            "confidence": self.confidence,
            **(
                {}
                if self.estimate_options.post is None
                else {"post": {"way": self.estimate_options.post, "said": self.estimate_options.post_description}}
            ),
            "standard_error": self.largest_error() if not plan.task.questions else self.errors(),
            "promise": dict(plan.promise),
            "asked": self.selected_count,
            "estimates": build_rows(self.quantities, self.confidence),
            **({NODES_FIELD: nodes_to_document(self.estimate)} if isinstance(plan.task, Ranges) else {}),
            "ledger": None if self.budget_status is None else self.budget_status.document(),
            "plan": plan.document(),
        }

    @property
    def confidence(self) -> float:
        """Probability that an interval holds the true value, for each interval by itself."""
        return self.estimate_options.confidence

    def to_arrow(self) -> pa.Table:
        """Returns all estimates as an Arrow table, one row each in the order of the domain."""
        return build_arrow_table(self.quantities, self.confidence)

    def to_frame(self) -> Any:
        """Returns all estimates as a pandas data frame; raises ShuffledpError if pandas is not installed."""
        return build_data_frame(self.quantities, self.confidence)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all estimates to a file.

        Args:
            path: File whose name ends in .csv, .parquet or .json.

        Raises:
            ValueError: If the name has another ending, or its directory does not exist.
        """
        check_output_path("report", Path(path))
        save(self.quantities, self.confidence, Path(path))

    def range(self, first: Any, last: Any, confidence: float | None = None) -> RangeCount:
        """Estimates the number of users whose value is in a range, for the task ranges.

        Args:
            first: First value of the range, by label or number.
            last: Last value of the range, included.
            confidence: Confidence of the interval; None for that of the report.

        Returns:
            The estimated count with its interval.

        Raises:
            ValueError: If the task is not ranges, or the range is outside the domain.
        """
        return build_questions(self.guarantee.plan, self.estimate).range(first, last, confidence or self.confidence)

    def quantile(self, share: float, confidence: float | None = None) -> Quantile:
        """Estimates a quantile, for the task ranges.

        Args:
            share: Share of the users, between 0 and 1.
            confidence: Confidence of the interval; None for that of the report.

        Returns:
            The smallest value that at least this share of the users do not exceed, with its interval.

        Raises:
            ValueError: If the task is not ranges, or the share is out of range.
        """
        return build_questions(self.guarantee.plan, self.estimate).quantile(share, confidence or self.confidence)

    def largest_error(self) -> float:
        """Returns the largest standard error of any estimate."""
        return max(self.errors().values())

    def errors(self) -> dict[str, float]:
        """Returns the largest standard error per question; a single question has the empty name."""
        found: dict[str, float] = {}
        for one in self.quantities:
            if one.standard_error is not None:
                found[one.question] = max(found.get(one.question, 0.0), float(one.standard_error.max(initial=0.0)))
        return found

    def statement(self) -> str:
        """Returns the guarantee in words."""
        aside = sum(self.rejected_counts().values())
        return str(
            GuaranteeText(self.guarantee, self._describe_subject(), self._describe_rows(), aside, self.budget_status)
        )

    def _describe_rows(self) -> str:
        """States what was taken as one person."""
        told = ENCODER_ROWS_TEXT if self.rows is None else self.rows.format_sentence()
        return " ".join([told, *self.rules.describe()])

    def private_counts_text(self) -> str:
        """Returns counts for whoever ran the collection, and nobody else; empty if no value was changed."""
        changed = {"numbers clipped": self.tally.clipped, "lists drawn from": self.tally.shortened}
        told = ", ".join(f"{number:,} {words}" for words, number in changed.items() if number)
        return f"For you alone, and in no file, as the guarantee does not cover it: {told}." if told else ""

    def _describe_subject(self) -> str:
        """States whose data the promise is about."""
        held = self.guarantee
        if held.per_person == 1:
            return f"{held.users:,} users held instead"
        people = "users" if self.rows is None or self.rows.users is None else f"{self.rows.users:,} users"
        return (
            f"{people} held instead in all her rows, at most {held.per_person:,} of the {held.users:,}, "
            f"whose number is not hidden"
        )

    def rejected_counts(self) -> dict[str, int]:
        """Returns the positive counts of messages that were not as planned."""
        return {name: number for name, number in self.counts.items() if name != "messages" and number}

    # --- Summary ---

    @property
    def heading(self) -> str:
        return f"Collection: {self.guarantee.plan.task.name}"

    def summary(self) -> list[tuple[str, str]]:
        """Returns the report in a few lines, as pairs of name and text."""
        held = self.guarantee
        return [
            *self.summarize_participation(),
            ("ε (guaranteed)", format_epsilon(held.stated_value.upper, GUARANTEE_DIGITS)),
            *self.summarize_guarantee(),
            ("theorem", held.stated_value.theorem),
            *((f"messages {name}", f"{number:,}") for name, number in self.rejected_counts().items()),
            *([] if self.budget_status is None else self.budget_status.summary_rows()),
            *estimate_tables.format_lines(self.quantities, self.estimate_options.confidence_text),
            *self._summarize_quartiles(),
        ]

    def summarize_participation(self, words: str = "") -> list[tuple[str, str]]:
        """Returns the lines about the users, the colluding ones among them, and the rows that were not used.

        Args:
            words: Text to append to the name of the first line.

        Returns:
            Pairs of name and text.
        """
        return [self._summarize_users(words), *self._summarize_colluding(), *self._summarize_unused_rows()]

    def summarize_guarantee(self, attack: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """Returns the lines that belong to the guaranteed ε: all rounds, δ, the sample, and the target.

        Args:
            attack: Lines about attacks, placed beside the ε.

        Returns:
            Pairs of name and text.
        """
        held, plan = self.guarantee, self.guarantee.plan
        together = format_epsilon(held.epsilon, GUARANTEE_DIGITS)
        rounds = [] if plan.rounds == 1 else [(f"ε of all {plan.rounds:,} rounds", together)]
        if rounds and held.round_number is not None:
            rounds.insert(0, ("round", f"{held.round_number:,} of {plan.rounds:,}"))
        drawn = held.schedule.is_sampled
        sample = (
            [
                ("drawn", held.schedule.describe()),
                *held.schedule.condition_rows(format_epsilon_equation(held.epsilon_if_sample_known)),
            ]
            if drawn
            else []
        )
        target = ("target", f"ε = {format_exact(plan.epsilon)}, {held.format_target_status()}")
        return [*rounds, *attack, ("δ", format_exact(plan.delta)), *sample, target, *self._summarize_pairs()]

    def _summarize_pairs(self) -> list[tuple[str, str]]:
        """Returns the line about the guarantee for pairs of values, if close ones are promised more."""
        promise = self.guarantee.plan.pair_targets
        if promise is None:
            return []
        return [
            ("target of two values", f"{promise.describe()}, " + ("MISSED" if self.guarantee.missed_pair else "met"))
        ]

    def _summarize_users(self, words: str = "") -> tuple[str, str]:
        """Returns the line with the number of users or rows that took part."""
        held, plan = self.guarantee, self.guarantee.plan
        least = "" if plan.minimum is None else f", {plan.minimum:,} at the least"
        return ("users" if held.per_person == 1 else "rows") + words, f"{held.users:,} of {plan.users:,} planned{least}"

    def _summarize_colluding(self) -> list[tuple[str, str]]:
        """Returns the line about users who are assumed to collude, if any."""
        colluding = self.guarantee.plan.colluding
        return [("colluding", f"{colluding:,} users, who hide nobody")] if colluding else []

    def _summarize_unused_rows(self) -> list[tuple[str, str]]:
        """Returns the lines about rows that were not used, if users are identified."""
        if self.rows is None:
            return []
        dropped = [("rows without a value", f"{self.rows.dropped:,}, not used")] if self.rows.dropped else []
        if self.rows.users is None or self.rows.gathered:
            return dropped
        most = f"at most {self.rows.per_person:,} of each user"
        return [("rows left out", f"{self.rows.left_out:,}: {most}, the first in the order of the input"), *dropped]

    def _summarize_quartiles(self) -> list[tuple[str, str]]:
        """Returns the lines with the quartiles, if the task is ranges."""
        if not isinstance(self.guarantee.plan.task, Ranges):
            return []
        found = [(name, self.quantile(share)) for name, share in QUARTILES.items()]
        return [(name, f"{one.value} ({one.low} … {one.high})") for name, one in found]

    @property
    def remark(self) -> str:
        return "\n".join(filter(None, (self.estimate_options.post_description, self.parties)))

    # --- Plot ---

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plots the estimates with their intervals.

        Args:
            path: File to write the plot to; None to write none.

        Returns:
            The figure.
        """
        from shuffledp.collection import plots

        return plots.draw_figure(
            self.quantities, None if path is None else Path(path), self.estimate_options, self._format_caption()
        )

    def _format_caption(self) -> str:
        """Returns the caption of the plot: task, column, guarantee and number of users."""
        held, plan = self.guarantee, self.guarantee.plan
        named = "" if not self.columns or plan.task.questions else f" of {', '.join(self.columns)}"
        rounds = "" if plan.rounds == 1 else f" over {plan.rounds:,} rounds"
        promised = (
            f"{format_epsilon_equation(held.stated_epsilon, GUARANTEE_DIGITS)}, δ = {format_exact(plan.delta)}{rounds}"
        )
        return f"{plan.task.name}{named}\n{promised}, {self._format_user_count()}"

    def _format_user_count(self) -> str:
        """Returns the number of users for the caption."""
        return f"n = {self.guarantee.users:,}"

    # --- Files ---

    def markdown(self, proof: str, drawn: bool) -> str:
        """Returns the content of report.md.

        Args:
            proof: Note about the certificate.
            drawn: True if there is a plot to include.

        Returns:
            The page as Markdown.
        """
        return format_page(self, proof, drawn)

    def write(self, directory: Path) -> None:
        """Writes all files of the report.

        Args:
            directory: Existing directory to write to.
        """
        claim = self.guarantee.certificate
        assert claim is not None, "a report is written of a guarantee with its certificate"
        proof = f"none: {claim}"
        if isinstance(claim, Claim):
            claim.save(directory / "certificate.json")
            proof = "certificate.json, for `shuffledp verify`"
        write_estimates(self.quantities, self.confidence, directory)
        drawn = self._draw(directory / "estimates.png")
        (directory / "plan.json").write_text(self.guarantee.plan.text(), encoding="utf-8")
        following = self.guarantee.plan.build_next_plan(self.estimate)
        if following is not None:
            (directory / NEXT_PLAN_FILE).write_text(following.text(), encoding="utf-8")
        (directory / "report.md").write_text(self.markdown(proof, drawn), encoding="utf-8")
        (directory / "report.json").write_text(format_json(self.document(), indent=1) + "\n", encoding="utf-8")

    def _draw(self, path: Path) -> bool:
        """Writes the plot and returns True, or returns False: a collection must not fail because of its plot."""
        if not plotting.has_matplotlib():
            return False
        try:
            self.plot(path)
        except Exception:
            path.unlink(missing_ok=True)
            return False
        return True


# --- Daily releases ---


@dataclass(frozen=True)
class DailyReleaseReport(Report):
    """The report of the days released so far, with one promise for all days.

    The number of users is not released: ``guarantee`` holds for any number.
    """

    def document(self) -> dict[str, Any]:
        """Returns the content of report.json, without the number of users and the nodes of the tree."""
        told = {name: value for name, value in super().document().items() if name != NODES_FIELD}
        days = self.quantities[0].labels
        return told | {
            "users": None,
            "guarantee": told["guarantee"] | {"users": None},
            "days": {"released": len(days), "last": days[-1], "of": self._day_count},
        }

    def range(self, first: Any, last: Any, confidence: float | None = None) -> RangeCount:
        """Raises ValueError: range queries are not known before all days are over."""
        raise _build_no_queries_error()

    def quantile(self, share: float, confidence: float | None = None) -> Quantile:
        """Raises ValueError: quantiles are not known before all days are over."""
        raise _build_no_queries_error()

    @property
    def _day_count(self) -> int:
        size = self.guarantee.plan.task.domain.size
        assert size is not None, "days can be counted"
        return size

    def _summarize_users(self, words: str = "") -> tuple[str, str]:
        days = self.quantities[0].labels
        return "days released", f"{days[0]} … {days[-1]}: {len(days):,} of {self._day_count:,}"

    def _format_user_count(self) -> str:
        return ": ".join(self._summarize_users())

    def _describe_subject(self) -> str:
        return f"people of all {self._day_count:,} days held instead"

    def _summarize_quartiles(self) -> list[tuple[str, str]]:
        return []

    def _describe_rows(self) -> str:
        count = len(self.quantities[0].labels)
        return (
            f"{count:,} of {self._day_count:,} days are released; the promise is for all of them together, and is "
            f"spent "
            f"once. Each row was taken as one person with one event in the whole time."
        )


def _build_no_queries_error() -> ValueError:
    return ValueError("ask: what is released day by day has running counts only; take the difference of two of them.")
