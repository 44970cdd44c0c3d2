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
from shuffledp._core.citations import find_citations
from shuffledp._core.formatting import (
    GUARANTEE_DIGITS,
    INFINITE_EPSILON_TEXT,
    escape_markdown,
    format_epsilon,
    format_epsilon_equation,
    format_exact,
    format_json,
    format_rounded_down,
    format_rounded_up,
    format_settings,
)
from shuffledp._core.pages import format_table
from shuffledp._core.results_and_value_objects import PrintableResult
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
from shuffledp.collection.resumable_job import REPORT_FILE
from shuffledp.ledger.accounting import BudgetStatus
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.planning.plan import Plan
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
        raise ValueError(f"{ASK_PREFIX}: expected a collection of the task {Ranges.name!r}, got {plan.task.name!r}.")
    return plan.task


def nodes_to_document(estimate: Estimate) -> dict[str, Any]:
    """Returns every node's estimate and variance, without rounding, for JSON."""
    return {"users": estimate.users, "estimate": estimate.value.tolist(), "variance": estimate.variance.tolist()}


def estimate_from_document(document: dict[str, Any]) -> Estimate:
    """Reads the estimate of every node from a report; raises ValueError if it has none."""
    try:
        nodes = document[NODES_FIELD]
        return Estimate(np.array(nodes["estimate"], float), np.array(nodes["variance"], float), int(nodes["users"]))
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{ASK_PREFIX}: the report has no nodes of a tree; choose a collection of the task {Ranges.name!r}."
        ) from None


# --- The guarantee in words ---


@dataclass(frozen=True)
class GuaranteeText:
    """The guarantee of a collection as text, with its conditions and exceptions.

    ``subject`` names the protected person and the change of their data; ``rows_text`` describes the rows of one person
    and the rules for them. ``rejected_messages`` counts the messages that were not as planned; ``budget_status`` is the
    state of the population's ledger, if there is one.
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
        guarantee = self.guarantee
        if math.isinf(guarantee.stated_value.upper):
            delta = format_exact(guarantee.plan.delta)
            return f"No ε is known that holds at δ = {delta}: it may be {INFINITE_EPSILON_TEXT}."
        epsilon = format_rounded_up(guarantee.stated_value.upper, GUARANTEE_DIGITS)
        delta = format_exact(guarantee.plan.delta)
        return (
            f"If one of the {self.subject}, the probability of any set of shuffled messages "
            f"would change by at most a factor e^{epsilon}, and by {delta} beyond that: "
            f"({epsilon}, {delta})-differential privacy, by {guarantee.stated_value.theorem}."
        )

    def _describe_sample(self) -> str:
        """Describes the sample of users, and the guarantee that remains if the sample becomes known."""
        guarantee = self.guarantee
        if not guarantee.participation.is_sampled:
            return ""
        rounds = (
            ""
            if guarantee.plan.rounds == 1
            else f", and over {guarantee.plan.rounds:,} rounds "
            f"{format_epsilon_equation(guarantee.total_epsilon_if_sample_known)}"
        )
        return (
            f"They were drawn: {guarantee.participation.describe()}. This {SAMPLING_SECRECY_CONDITION}; if it is "
            f"known, a user who was drawn has {format_epsilon_equation(guarantee.epsilon_if_sample_known)}{rounds}. "
            "Estimates are about those who were drawn."
        )

    def _describe_pairs(self) -> str:
        """Describes the stronger guarantee for pairs of close values, if there is one."""
        targets = self.guarantee.plan.pair_targets
        if targets is None:
            return ""
        if self.guarantee.missed_pair is not None:
            a, b = self.guarantee.missed_pair
            missed = f"Values {a} and {b}, and perhaps others, MISS the ε of their own that the plan promises"
            return f"{missed}, which was accepted by --allow-weaker."
        return f"Every two values keep {targets.describe()}, as planned, by {MetricVariationRatio.theorem}."

    def _describe_colluding(self) -> str:
        """States how many users may collude, and the least number of users for which the target was planned."""
        plan = self.guarantee.plan
        collusion = f"It holds even if {plan.colluding:,} of the users reveal their messages." if plan.colluding else ""
        minimum = "" if plan.minimum is None else f"The plan meets its target with {plan.minimum:,} or more users."
        return " ".join(filter(None, (collusion, minimum)))

    def _describe_local_guarantee(self) -> str:
        """Describes the guarantee without the shuffler."""
        local = self.guarantee.plan.mechanism.local_epsilon
        message_plan = self.guarantee.plan.mechanism.message_plan
        if message_plan.has_shuffler_noise:
            note = " The number of users who take part or collude does not matter."
            return (
                "All of it rests on the shuffler, which drew the noise: against an attacker who knows the noise or "
                "sees the senders of the messages, there is no guarantee."
            ) + note * message_plan.is_participation_independent
        if local is None:
            return "All of it rests on the shuffler: against an attacker who sees the senders, there is no guarantee."
        subject = "Each message alone has" if message_plan.is_single_message else "All messages of a user together have"
        return f"{subject} local ε = {format_rounded_up(local)}, even against the shuffler."

    def _describe_domain(self) -> str:
        """States which parts of the domain were read from the data and are not covered."""
        read = self.guarantee.plan.read_from_data
        if not read:
            return ""
        return f"The plan's {' and '.join(read)} were read from the data: that is a release which no ε here covers."

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
        planned, status = self.guarantee.plan.rounds, self.budget_status
        if status is None or len(status.entries) <= planned:
            return ""
        return (
            f"The ledger has {len(status.entries):,} collections from these people, but the plan counts {planned:,}: "
            f"all together {format_epsilon_equation(status.epsilon)} at δ = {format_exact(status.delta)}."
        )

    def _describe_rejected(self) -> str:
        if not self.rejected_messages:
            return ""
        return (
            f"{self.rejected_messages:,} messages were not as planned; as many users are assumed to hide nobody and "
            f"are not counted."
        )

    def _describe_missed_target(self) -> str:
        guarantee = self.guarantee
        if guarantee.epsilon <= guarantee.plan.epsilon:
            return ""
        return (
            f"This is WEAKER than the planned ε = {format_exact(guarantee.plan.epsilon)}, and was accepted by "
            f"--allow-weaker."
        )


# --- report.md ---


def format_page(report: Report, proof: str, drawn: bool) -> str:
    """Returns the page, with a note ``proof`` about the certificate, and with the plot if it was drawn."""
    plan = report.guarantee.plan
    parts = [
        f"# Collection: {escape_markdown(plan.task.name)}",
        "## Guarantee",
        escape_markdown(report.statement()),
        escape_markdown(report.parties),
        "It holds if",
        _format_list(report.guarantee.conditions()),
        format_table(("", ""), _list_facts(report, proof)),
        _format_list(find_citations(report.guarantee.stated_value.theorem)),
        "## Estimates",
        f"Each interval holds the true value with confidence {report.estimate_options.confidence_text}. All estimates "
        f"are in {ESTIMATES_FILE}.{_describe_selection(report)}",
        report.estimate_options.post_description,
        *format_tables(report.quantities),
        "![estimates](estimates.png)" if drawn else "",
    ]
    if report.budget_status is not None:
        parts += ["## Ledger", escape_markdown(report.budget_status.format_text())]
    return "\n\n".join(filter(None, parts)) + "\n"


def _list_facts(report: Report, proof: str) -> list[tuple[str, str]]:
    plan, guarantee = report.guarantee.plan, report.guarantee
    lower, mechanism = guarantee.stated_value.lower, plan.mechanism.to_document()
    attained = "none known" if lower is None else format_rounded_down(lower)
    return [
        ("population", plan.population),
        *report.summarize_participation(" that took part"),
        ("central ε, guaranteed", format_epsilon(guarantee.stated_value.upper, GUARANTEE_DIGITS)),
        *report.summarize_guarantee([("an attack on a constructed dataset achieves", attained)]),
        (
            "local ε",
            "none" if plan.mechanism.local_epsilon is None else format_rounded_up(plan.mechanism.local_epsilon),
        ),
        ("messages a user", f"{plan.mechanism.messages_per_user:,.4g}"),
        ("noise is drawn by", "the shuffler" if plan.mechanism.message_plan.has_shuffler_noise else "the users"),
        ("mechanism", f"{mechanism['name']} {format_settings(mechanism['settings'])}".strip()),
        ("bound", f"{guarantee.stated_value.bound}: {guarantee.stated_value.theorem}"),
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
    return f" They are for {report.selected_count:,} selected options out of {size:,}."


QUARTILES = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}
NEXT_PLAN_FILE = "next-plan.json"
"""The plan of the next round, if its questions depend on this round."""
ONE_PARTY_TEXT = (
    "One party ran all three roles and saw the raw data. The guarantee protects against everybody who sees only the "
    "shuffled messages or the estimates, but not against that party; for that, run encode, shuffle and estimate on "
    "separate machines."
)
SEPARATE_ROLES_TEXT = (
    "Encoding, shuffling and estimating were run separately. The guarantee holds as long as the shuffler does not pass "
    "on the order of the messages or their senders."
)
ENCODER_ROWS_TEXT = (
    "Each row that an encoder read was taken as one person, unless a column identified the users; only the encoder "
    "knows which values it left out, clipped or sampled."
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
        errors: dict[str, float] = {}
        for quantity in self.quantities:
            if quantity.standard_error is not None:
                errors[quantity.question] = max(
                    errors.get(quantity.question, 0.0), float(quantity.standard_error.max(initial=0.0))
                )
        return errors

    def statement(self) -> str:
        """Returns the guarantee in words."""
        rejected = sum(self.rejected_counts().values())
        return str(
            GuaranteeText(self.guarantee, self._describe_subject(), self._describe_rows(), rejected, self.budget_status)
        )

    def _describe_rows(self) -> str:
        """Describes the rows of one person."""
        text = ENCODER_ROWS_TEXT if self.rows is None else self.rows.format_sentence()
        return " ".join([text, *self.rules.describe()])

    def private_counts_text(self) -> str:
        """Returns counts for the party that ran the collection, and nobody else; empty if no value was changed."""
        changed = {"numbers clipped": self.tally.clipped, "lists drawn from": self.tally.shortened}
        texts = ", ".join(f"{number:,} {words}" for words, number in changed.items() if number)
        return f"For you alone, and in no file, because the guarantee does not cover it: {texts}." if texts else ""

    def _describe_subject(self) -> str:
        """Names the protected person and the change of their data."""
        guarantee = self.guarantee
        if guarantee.per_person == 1:
            return f"{guarantee.users:,} users had held any other value"
        people = "users" if self.rows is None or self.rows.users is None else f"{self.rows.users:,} users"
        return (
            f"{people} had held any other values in all their rows, at most {guarantee.per_person:,} of the "
            f"{guarantee.users:,}, whose number is not hidden"
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
        guarantee = self.guarantee
        return [
            *self.summarize_participation(),
            ("ε (guaranteed)", format_epsilon(guarantee.stated_value.upper, GUARANTEE_DIGITS)),
            *self.summarize_guarantee(),
            ("theorem", guarantee.stated_value.theorem),
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
        guarantee, plan = self.guarantee, self.guarantee.plan
        together = format_epsilon(guarantee.epsilon, GUARANTEE_DIGITS)
        rounds = [] if plan.rounds == 1 else [(f"ε of all {plan.rounds:,} rounds", together)]
        if rounds and guarantee.round_number is not None:
            rounds.insert(0, ("round", f"{guarantee.round_number:,} of {plan.rounds:,}"))
        drawn = guarantee.participation.is_sampled
        sample = (
            [
                ("drawn", guarantee.participation.describe()),
                *guarantee.participation.condition_rows(format_epsilon_equation(guarantee.epsilon_if_sample_known)),
            ]
            if drawn
            else []
        )
        target = ("target", f"ε = {format_exact(plan.epsilon)}, {guarantee.format_target_status()}")
        return [*rounds, *attack, ("δ", format_exact(plan.delta)), *sample, target, *self._summarize_pairs()]

    def _summarize_pairs(self) -> list[tuple[str, str]]:
        """Returns the line about the guarantee for pairs of values, if close ones are promised more."""
        targets = self.guarantee.plan.pair_targets
        if targets is None:
            return []
        return [
            ("target of two values", f"{targets.describe()}, " + ("MISSED" if self.guarantee.missed_pair else "met"))
        ]

    def _summarize_users(self, words: str = "") -> tuple[str, str]:
        """Returns the line with the number of users or rows that took part."""
        guarantee, plan = self.guarantee, self.guarantee.plan
        least = "" if plan.minimum is None else f", {plan.minimum:,} at the least"
        return (
            "users" if guarantee.per_person == 1 else "rows"
        ) + words, f"{guarantee.users:,} of {plan.users:,} planned{least}"

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
        quartiles = [(name, self.quantile(share)) for name, share in QUARTILES.items()]
        return [(name, f"{quantile.value} ({quantile.low} … {quantile.high})") for name, quantile in quartiles]

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
        guarantee, plan = self.guarantee, self.guarantee.plan
        named = "" if not self.columns or plan.task.questions else f" of {', '.join(self.columns)}"
        rounds = "" if plan.rounds == 1 else f" over {plan.rounds:,} rounds"
        epsilon = format_epsilon_equation(guarantee.stated_epsilon, GUARANTEE_DIGITS)
        delta = format_exact(plan.delta)
        return f"{plan.task.name}{named}\n{epsilon}, δ = {delta}{rounds}, {self._format_user_count()}"

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
    """The report of the days released so far, with one guarantee for all days.

    The number of users is not released: ``guarantee`` holds for any number.
    """

    def document(self) -> dict[str, Any]:
        """Returns the content of report.json, without the number of users and the nodes of the tree."""
        document = {name: value for name, value in super().document().items() if name != NODES_FIELD}
        days = self.quantities[0].labels
        return document | {
            "users": None,
            "guarantee": document["guarantee"] | {"users": None},
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
        return f"people of all {self._day_count:,} days had held any other value"

    def _summarize_quartiles(self) -> list[tuple[str, str]]:
        return []

    def _describe_rows(self) -> str:
        count = len(self.quantities[0].labels)
        return (
            f"{count:,} of {self._day_count:,} days are released; the guarantee is for all days together and is "
            f"charged once. Each row was taken as one person with one event in the whole period."
        )


def _build_no_queries_error() -> ValueError:
    return ValueError("ask: a daily release has only running counts; take the difference of two of them.")
