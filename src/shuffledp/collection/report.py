"""What a finished collection leaves: estimates as CSV and Parquet, a plot, a certificate, and a report in words."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp import figure
from shuffledp.bounds.schedule import CONDITION
from shuffledp.collection.ask import NODES, document_of, questions_of
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.input.table import RowCount
from shuffledp.collection.manner import USUAL, Manner
from shuffledp.collection.result import demand_place, frame_of, rows_of, save, table_of, write_estimates
from shuffledp.collection.standing import Standing
from shuffledp.document import BEYOND, epsilon_is, epsilon_text, json_text, rounded_up, settings_text, typed
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.metric.amplification import MetricVariationRatio
from shuffledp.readable import Readable
from shuffledp.tasks.column import Tally
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.question import Quantile, RangeCount
from shuffledp.tasks.ranges import Ranges
from shuffledp.tasks.rules import STRICT, Rules

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

ROWS_SHOWN, LINES_SHOWN, QUESTIONS_SHOWN = 20, 10, 10
NEXT_PLAN = "next-plan.json"
"""The plan of the next round, where what it asks depends on this one."""
ONE_PARTY = (
    "One party ran all three roles and saw the raw data. The guarantee holds towards those who see only the shuffled "
    "messages or the estimates, not towards that party; run encode, shuffle and estimate on separate machines for that."
)
PARTIES_APART = (
    "Encoding, shuffling and estimating were run apart. The guarantee holds as long as the shuffler does not hand on "
    "the order of the messages or who sent them."
)
ROWS_APART = (
    "Each row that an encoder read was taken as one person, unless the encoder was told whose rows they are; what it "
    "left out, clipped or drew from is known to it alone."
)


@dataclass(frozen=True)
class Report(Readable):
    """One collection, told; ``print`` it to read it.

    ``guarantee``: what was promised and what is certified for the users who took part. ``estimate``: all numbers, with
    their variances; ``quantities``: the same by name. ``parties``: who must be trusted, in words. ``engine``: what ran
    it.

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
    standing: Standing | None = None
    """The population's ledger, this collection included."""
    rows: RowCount | None = None
    """Which rows of the input were used; None where only the encoders know."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Messages that were read, refused because they were none, and missing or too many for their users."""
    rules: Rules = STRICT
    """What became of cells that are not as planned."""
    tally: Tally = field(default_factory=Tally)
    """How many values the rules changed: exact counts, which no guarantee covers, and hence in no file."""
    asked: int | None = None
    """How many options were asked for; None where it is all of them."""
    manner: Manner = USUAL
    """How sure intervals are, and what was done to the estimates afterwards."""
    columns: tuple[str, ...] = ()
    """The columns that were read; none where only the encoders know."""

    def document(self) -> dict[str, Any]:
        """report.json."""
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
            **({"rules": self.rules.document()} if self.rules != STRICT else {}),
            "parties": self.parties,
            "engine": self.engine,
            "confidence": self.confidence,
            **({} if self.manner.post is None else {"post": {"way": self.manner.post, "said": self.manner.post_words}}),
            "standard_error": self.largest_error() if not plan.task.questions else self.errors(),
            "promise": dict(plan.promise),
            "asked": self.asked,
            "estimates": rows_of(self.quantities, self.confidence),
            **({NODES: document_of(self.estimate)} if isinstance(plan.task, Ranges) else {}),
            "ledger": None if self.standing is None else standing_document(self.standing),
            "plan": plan.document(),
        }

    @property
    def confidence(self) -> float:
        """How sure each interval is to hold the truth."""
        return self.manner.confidence

    def to_arrow(self) -> pa.Table:
        """All estimates as a table of Arrow, a row each in the order of the domain."""
        return table_of(self.quantities, self.confidence)

    def to_frame(self) -> Any:
        """The same as a data frame of pandas, if that is installed."""
        return frame_of(self.quantities, self.confidence)

    def save(self, path: str | os.PathLike[str]) -> None:
        """The same to a file whose name ends in .csv, .parquet or .json."""
        demand_place("report", Path(path))
        save(self.quantities, self.confidence, Path(path))

    def range(self, first: Any, last: Any, confidence: float | None = None) -> RangeCount:
        """How many users hold a value from ``first`` up to and including ``last``, where the task is ranges."""
        return questions_of(self.guarantee.plan, self.estimate).range(first, last, confidence or self.confidence)

    def quantile(self, share: float, confidence: float | None = None) -> Quantile:
        """The first value that at least this share of the users do not exceed, where the task is ranges."""
        return questions_of(self.guarantee.plan, self.estimate).quantile(share, confidence or self.confidence)

    def largest_error(self) -> float:
        """The largest standard error of any estimate."""
        return max(self.errors().values())

    def errors(self) -> dict[str, float]:
        """The largest standard error of each question's estimates; of those of the only one, which has no name."""
        found: dict[str, float] = {}
        for one in self.quantities:
            if one.standard_error is not None:
                found[one.question] = max(found.get(one.question, 0.0), float(one.standard_error.max(initial=0.0)))
        return found

    def statement(self) -> str:
        """The guarantee in words."""
        held = self.guarantee
        parts = (
            self._promise(),
            self._condition(),
            self._pairs(),
            self._despite(),
            self._alone(),
            self._rows_used(),
            self._domain(),
        )
        text = " ".join(filter(None, parts))
        if held.plan.rounds > 1:
            text += f" Over {held.plan.rounds} such rounds: {epsilon_is(held.epsilon)}."
        past = 0 if self.standing is None else len(self.standing.entries)
        if self.standing is not None and past > held.plan.rounds:
            text += (
                f" The ledger has {past:,} collections from these people, where the plan is for {held.plan.rounds:,}: "
                f"all together {epsilon_is(self.standing.epsilon)} at δ = {typed(self.standing.delta)}."
            )
        aside = sum(self._aside().values())
        if aside:
            text += (
                f" {aside:,} messages were not as planned: as many users are taken to hide nobody, and are not counted."
            )
        if held.epsilon > held.plan.epsilon:
            text += (
                f" This is WEAKER than the planned ε = {typed(held.plan.epsilon)}, and was accepted by --allow-weaker."
            )
        return text

    def _condition(self) -> str:
        """How users were drawn, and what is left if somebody learns who was."""
        held = self.guarantee
        if not held.schedule.is_sampled:
            return ""
        rounds = (
            "" if held.plan.rounds == 1 else f", and over {held.plan.rounds:,} rounds {epsilon_is(held.known_epsilon)}"
        )
        return (
            f"They were drawn: {held.schedule.words()}. This {CONDITION}; if it is known, a user who was drawn is "
            f"promised {epsilon_is(held.known)}{rounds}. Estimates are about those who were drawn."
        )

    def _drawn(self) -> list[tuple[str, str]]:
        """The same in short."""
        held = self.guarantee
        if not held.schedule.is_sampled:
            return []
        return [("drawn", held.schedule.words()), *held.schedule.condition(epsilon_is(held.known))]

    def _rows_used(self) -> str:
        """What was taken as one person."""
        told = ROWS_APART if self.rows is None else self.rows.sentence()
        return " ".join([told, *self.rules.words()])

    def _domain(self) -> str:
        """What of the domain is no part of the promise."""
        read = self.guarantee.plan.read_from_data
        if not read:
            return ""
        return f"The plan's {' and '.join(read)} were read from the data: a release of its own, which no ε here covers."

    def alone(self) -> str:
        """What whoever ran the collection may want to know, and nobody else; empty where nothing was changed."""
        changed = {"numbers clipped": self.tally.clipped, "lists drawn from": self.tally.shortened}
        told = ", ".join(f"{number:,} {words}" for words, number in changed.items() if number)
        return f"For you alone, and in no file, as the guarantee does not cover it: {told}." if told else ""

    def _whom(self) -> str:
        """Whose data the promise is about."""
        held = self.guarantee
        if held.per_person == 1:
            return f"{held.users:,} users held instead"
        people = "users" if self.rows is None or self.rows.users is None else f"{self.rows.users:,} users"
        return (
            f"{people} held instead in all her rows, at most {held.per_person:,} of the {held.users:,}, "
            f"whose number is not hidden"
        )

    def _despite(self) -> str:
        """Who may collude, and with how few users the target was planned to hold."""
        plan = self.guarantee.plan
        held = f"It holds even if {plan.colluding:,} of the users tell what they sent." if plan.colluding else ""
        least = "" if plan.minimum is None else f"The target was planned to be met from {plan.minimum:,} users on."
        return " ".join(filter(None, (held, least)))

    def _alone(self) -> str:
        """What holds without the shuffler."""
        local = self.guarantee.plan.mechanism.local_epsilon
        crowd = self.guarantee.plan.mechanism.crowd
        if crowd.by_shuffler:
            whoever = " How many users took part, or collude, does not matter." if crowd.whoever_comes else ""
            return (
                "All of it rests on the shuffler, which drew the noise: to who knows the noise, or sees who sent what, "
                f"the messages promise nothing.{whoever}"
            )
        if local is None:
            return "All of it rests on the shuffler: to who sees who sent them, the messages promise nothing."
        what = "Each message alone keeps" if crowd.one_each else "All that a user sends keeps"
        return f"{what} local ε = {rounded_up(local)} even from the shuffler."

    def _promise(self) -> str:
        held = self.guarantee
        if math.isinf(held.value.upper):
            return f"No ε is known that holds at δ = {typed(held.plan.delta)}: it may be {BEYOND}."
        epsilon, delta = rounded_up(held.value.upper), typed(held.plan.delta)
        return (
            f"Whatever one of the {self._whom()}, the probability of any set of shuffled messages "
            f"changes by at most a factor e^{epsilon}, and by {delta} beyond that: "
            f"({epsilon}, {delta})-differential privacy, by {held.value.theorem}."
        )

    def _pairs(self) -> str:
        """What near values are promised beyond that, where they are."""
        promise = self.guarantee.plan.pair_promise
        if promise is None:
            return ""
        if self.guarantee.missed_pair is not None:
            a, b = self.guarantee.missed_pair
            missed = f"Values {a} and {b}, and perhaps others, MISS the ε of their own that the plan promises"
            return f"{missed}, which was accepted by --allow-weaker."
        return f"Every two values keep {promise.words()}, as planned, by {MetricVariationRatio.theorem}."

    def _aside(self) -> dict[str, int]:
        """What was not as planned, where anything was."""
        return {name: number for name, number in self.counts.items() if name != "messages" and number}

    @property
    def heading(self) -> str:
        return f"Collection: {self.guarantee.plan.task.name}"

    def summary(self) -> list[tuple[str, str]]:
        """The report in a few lines: what each is called, and what it is."""
        held = self.guarantee
        pairs = [
            self._took_part(),
            *self._colluding(),
            *self._left_out(),
            ("ε (guaranteed)", epsilon_text(held.value.upper, 7)),
            *self._all_rounds(),
            ("δ", typed(held.plan.delta)),
            *self._drawn(),
            ("target", f"ε = {typed(held.plan.epsilon)}, " + ("met" if held.kept else "MISSED")),
            *self._of_a_pair(),
            ("theorem", held.value.theorem),
            *((f"messages {name}", f"{number:,}") for name, number in self._aside().items()),
        ]
        if self.standing is not None:
            spent, budget = (
                f"{epsilon_is(self.standing.epsilon, 7)} at δ = {typed(self.standing.delta)}",
                self.standing.budget,
            )
            pairs.append((f"{held.plan.population!r} so far", spent))
            if budget is not None:
                words = f"{epsilon_is(self.standing.spent, 7)} of {typed(budget.epsilon)} at δ = {typed(budget.delta)}"
                pairs.append(("of the budget", words))
        return pairs + self._largest()

    def _all_rounds(self) -> list[tuple[str, str]]:
        """ε of whoever takes part in all planned rounds, where there are several."""
        rounds = self.guarantee.plan.rounds
        return [] if rounds == 1 else [(f"ε of all {rounds:,} rounds", epsilon_text(self.guarantee.epsilon, 7))]

    def _of_a_pair(self) -> list[tuple[str, str]]:
        """What every two values are promised, where near ones are promised more."""
        promise = self.guarantee.plan.pair_promise
        if promise is None:
            return []
        return [("target of two values", f"{promise.words()}, " + ("MISSED" if self.guarantee.missed_pair else "met"))]

    def _took_part(self, words: str = "") -> tuple[str, str]:
        """Whose messages these are: what they are called, and how many."""
        held, plan = self.guarantee, self.guarantee.plan
        least = "" if plan.minimum is None else f", {plan.minimum:,} at the least"
        return ("users" if held.per_person == 1 else "rows") + words, f"{held.users:,} of {plan.users:,} planned{least}"

    def _colluding(self) -> list[tuple[str, str]]:
        """How many users are taken to collude, where any are."""
        colluding = self.guarantee.plan.colluding
        return [("colluding", f"{colluding:,} users, who hide nobody")] if colluding else []

    def _left_out(self) -> list[tuple[str, str]]:
        """How many rows were not used, where users were told apart."""
        if self.rows is None:
            return []
        dropped = [("rows without a value", f"{self.rows.dropped:,}, not used")] if self.rows.dropped else []
        if self.rows.users is None or self.rows.gathered:
            return dropped
        most = f"at most {self.rows.per_person:,} of each user"
        return [("rows left out", f"{self.rows.left_out:,}: {most}, the first in the order of the input"), *dropped]

    def _largest(self) -> list[tuple[str, str]]:
        """The largest estimates with their intervals; of a survey, those of each question."""
        first = {quantity.question: quantity for quantity in reversed(self.quantities)}
        shown = list(reversed(first.values()))[:QUESTIONS_SHOWN]
        lines = [line for quantity in shown for line in _lines(quantity, max(1, LINES_SHOWN // len(shown)))]
        if len(first) > len(shown):
            lines.append(("…", f"{len(first) - len(shown):,} more questions in estimates.csv"))
        return lines

    @property
    def remark(self) -> str:
        return "\n".join(filter(None, (self.manner.post_words, self.parties)))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """The estimates with their intervals; also to a file where ``path`` names one."""
        from shuffledp.collection import plot

        return plot.draw(self.quantities, None if path is None else Path(path), self.manner, self._caption())

    def _caption(self) -> str:
        """What stands above the picture: of which column, what is promised, how many users."""
        held, plan = self.guarantee, self.guarantee.plan
        named = "" if not self.columns or plan.task.questions else f" of {', '.join(self.columns)}"
        rounds = "" if plan.rounds == 1 else f" over {plan.rounds:,} rounds"
        promised = f"{epsilon_is(held.epsilon, 4)}, δ = {typed(plan.delta)}{rounds}"
        return f"{plan.task.name}{named}\n{promised}, {self._crowd_words()}"

    def _crowd_words(self) -> str:
        """How many took part, as a picture says it."""
        return f"n = {self.guarantee.users:,}"

    def markdown(self, proof: str, drawn: bool) -> str:
        """report.md, with what is said of the certificate, and with the picture where there is one."""
        plan, held = self.guarantee.plan, self.guarantee
        lower, mechanism = held.value.lower, plan.mechanism.document()
        facts = [
            ("population", plan.population),
            self._took_part(" that took part"),
            *self._colluding(),
            *self._left_out(),
            ("central ε, guaranteed", epsilon_text(held.value.upper)),
            *self._all_rounds(),
            ("an attack attains", "none known" if lower is None else f"{lower:.6g}"),
            ("δ", typed(plan.delta)),
            *self._drawn(),
            ("target", f"ε = {typed(plan.epsilon)}, " + ("met" if held.kept else "MISSED")),
            *self._of_a_pair(),
            ("local ε", "none" if plan.mechanism.local_epsilon is None else rounded_up(plan.mechanism.local_epsilon)),
            ("messages a user", f"{plan.mechanism.messages_per_user:,.4g}"),
            ("noise is drawn by", "the shuffler" if plan.mechanism.crowd.by_shuffler else "the users"),
            ("mechanism", f"{mechanism['name']} {settings_text(mechanism['settings'])}".strip()),
            ("bound", f"{held.value.bound}: {held.value.theorem}"),
            ("certificate", proof),
            *((f"messages {name}", f"{number:,}") for name, number in self._aside().items()),
            *((f"largest standard error{_of(name)}", f"{error:.6g}") for name, error in self.errors().items()),
            *((f"promised {name.replace('_', ' ')}", f"{number:.6g}") for name, number in plan.promise.items()),
            ("engine", self.engine),
        ]
        parts = [
            f"# Collection: {plan.task.name}",
            "## What is promised",
            self.statement(),
            self.parties,
            _table(("", ""), facts),
            "## Estimates",
            f"Each interval holds the true value with confidence {self.manner.sure}. All estimates are in estimates.csv"
            f".{self._of_those_asked()}",
            *filter(None, [self.manner.post_words]),
            *(text for quantity in self.quantities for text in self._shown(quantity)),
            *(["![estimates](estimates.png)"] if drawn else []),
        ]
        if self.standing is not None:
            parts += ["## Ledger", _ledger_words(self.standing)]
        return "\n\n".join(parts) + "\n"

    def _of_those_asked(self) -> str:
        """Which options these are, where not all of them."""
        if self.asked is None:
            return ""
        size = self.guarantee.plan.task.domain.size
        return f" They are of the {self.asked:,} options that were asked for, of {size:,} in all."

    def _shown(self, quantity: Quantity) -> list[str]:
        known = [place for place in range(len(quantity.labels)) if not math.isnan(quantity.value[place])]
        order = sorted(known, key=lambda place: -quantity.value[place])
        rows = []
        for place in order[:ROWS_SHOWN]:
            interval = ""
            if quantity.low is not None and quantity.high is not None:
                interval = f"{quantity.low[place]:,.6g} … {quantity.high[place]:,.6g}"
            after = [] if quantity.adjusted is None else [f"{quantity.adjusted[place]:,.6g}"]
            rows.append((quantity.labels[place], f"{quantity.value[place]:,.6g}", interval, *after))
        title = quantity.name if len(order) <= ROWS_SHOWN else f"{quantity.name} (largest {ROWS_SHOWN})"
        head = ("", title, "interval") if quantity.adjusted is None else ("", title, "interval", "adjusted")
        untold = len(quantity.labels) - len(known)
        note = f"\n\nOf {untold:,} others nothing is told: their counts are not above their errors." if untold else ""
        heading = [f"### {quantity.question}"] if quantity.question else []
        return [*heading, _table(head, rows) + note]

    def write(self, directory: Path) -> None:
        """All files of the report into a directory."""
        try:
            (directory / "certificate.json").write_text(self.guarantee.claim().text(), encoding="utf-8")
            proof = "certificate.json, for `shuffledp verify`"
        except ValueError as error:
            proof = f"none: {str(error).removeprefix('certificate: ').rstrip('.')}"
        write_estimates(self.quantities, self.confidence, directory)
        drawn = self._draw(directory / "estimates.png")
        (directory / "plan.json").write_text(self.guarantee.plan.text(), encoding="utf-8")
        following = self.guarantee.plan.following(self.estimate)
        if following is not None:
            (directory / NEXT_PLAN).write_text(following.text(), encoding="utf-8")
        (directory / "report.md").write_text(self.markdown(proof, drawn), encoding="utf-8")
        (directory / "report.json").write_text(json_text(self.document(), indent=1) + "\n", encoding="utf-8")

    def _draw(self, path: Path) -> bool:
        """Whether there is a picture: a collection must not fail for want of one, whatever is wrong."""
        if not figure.can_draw():
            return False
        from shuffledp.collection import plot

        try:
            plot.draw(self.quantities, path, self.manner, self._caption())
        except Exception:
            path.unlink(missing_ok=True)
            return False
        return True


def _of(question: str) -> str:
    return f" of {question}" if question else ""


def _lines(quantity: Quantity, most: int) -> list[tuple[str, str]]:
    """The largest estimates of one quantity, with their intervals."""
    head = f"{quantity.question}: " if quantity.question else ""
    pairs: list[tuple[str, str]] = []
    for place in sorted(range(len(quantity.labels)), key=lambda place: -quantity.value[place])[:most]:
        interval = ""
        if quantity.low is not None and quantity.high is not None:
            interval = f"  ({quantity.low[place]:,.6g} … {quantity.high[place]:,.6g})"
        after = "" if quantity.adjusted is None else f"  adjusted {quantity.adjusted[place]:,.6g}"
        pairs.append((head + quantity.labels[place], f"{quantity.value[place]:,.6g}{interval}{after}"))
    if len(quantity.labels) > len(pairs):
        pairs.append((f"{head}…", f"{len(quantity.labels) - len(pairs):,} more in estimates.csv"))
    return pairs


def standing_document(standing: Standing) -> dict[str, Any]:
    """One population of the ledger, for JSON."""
    budget = standing.budget
    return {
        "population": standing.population,
        "epsilon": standing.epsilon,
        "delta": standing.delta,
        "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
        "spent": standing.spent,
        "left": standing.left,
        "collections": [entry.document() for entry in standing.entries],
        "head": standing.head.document(),
        "accepted": list(standing.accepted),
        "warnings": list(standing.warnings),
        "conditions": list(standing.conditions()),
    }


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def accepted_words(standing: Standing) -> str:
    """What stays to be said of a ledger that is not the one that was there before; empty where it is."""
    if not standing.accepted:
        return ""
    times = ", ".join(time[: len("2026-01-01")] for time in standing.accepted)
    return f"This ledger was replaced or restored on {times}; what was given before may be missing."


def _ledger_words(standing: Standing) -> str:
    rounds, budget, head = len(standing.entries), standing.budget, standing.head
    text = (
        f"{standing.population!r} has now taken part in {rounds} collection{'s' if rounds > 1 else ''}, "
        f"{epsilon_is(standing.epsilon)} at δ = {typed(standing.delta)} in all."
    )
    if budget is not None:
        spent = f", of which {epsilon_text(standing.spent)} are spent" if budget.delta != standing.delta else ""
        text += f" The budget is ε = {typed(budget.epsilon)} at δ = {typed(budget.delta)}{spent}."
    text += f" The ledger is {head.ledger}, and its entry {head.entries} has the hash {head.hash}."
    return " ".join(filter(None, (text, accepted_words(standing))))
