"""What a finished collection leaves: estimates as CSV and Parquet, a plot, a certificate, and a report in words."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp import figure
from shuffledp.certificate.claim import Claim
from shuffledp.collection import estimate_text
from shuffledp.collection.ask import NODES, document_of, questions_of
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.input.table import RowCount
from shuffledp.collection.manner import USUAL, Manner
from shuffledp.collection.promise_text import PromiseText
from shuffledp.collection.report_page import page
from shuffledp.collection.result import demand_place, frame_of, rows_of, save, table_of, write_estimates
from shuffledp.collection.standing import Standing
from shuffledp.document import GUARANTEE_DIGITS, epsilon_is, epsilon_text, json_text, typed
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.readable import Readable
from shuffledp.tasks.column import Tally
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.question import Quantile, RangeCount
from shuffledp.tasks.ranges import Ranges
from shuffledp.tasks.rules import STRICT, Rules

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

QUARTILES = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}
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
            "ledger": None if self.standing is None else self.standing.document(),
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
        aside = sum(self.set_aside().values())
        return str(PromiseText(self.guarantee, self._whom(), self._rows_used(), aside, self.standing))

    def _rows_used(self) -> str:
        """What was taken as one person."""
        told = ROWS_APART if self.rows is None else self.rows.sentence()
        return " ".join([told, *self.rules.words()])

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

    def set_aside(self) -> dict[str, int]:
        """What was not as planned, where anything was."""
        return {name: number for name, number in self.counts.items() if name != "messages" and number}

    # --- in a few lines -----------------------------------------------------------------------------------------

    @property
    def heading(self) -> str:
        return f"Collection: {self.guarantee.plan.task.name}"

    def summary(self) -> list[tuple[str, str]]:
        """The report in a few lines: what each is called, and what it is."""
        held = self.guarantee
        return [
            *self.turnout(),
            ("ε (guaranteed)", epsilon_text(held.stated.upper, GUARANTEE_DIGITS)),
            *self.promised(),
            ("theorem", held.stated.theorem),
            *((f"messages {name}", f"{number:,}") for name, number in self.set_aside().items()),
            *([] if self.standing is None else self.standing.rows()),
            *estimate_text.lines(self.quantities, self.manner.sure),
            *self._quartiles(),
        ]

    def turnout(self, words: str = "") -> list[tuple[str, str]]:
        """Whose messages these are, who of them hide nobody, and what was not used."""
        return [self._took_part(words), *self._colluding(), *self._left_out()]

    def promised(self, attack: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """What belongs to the guaranteed ε: of all rounds, at which δ, of which sample, and what was planned.

        ``attack`` is what is said of attacks, beside the ε.
        """
        held, plan = self.guarantee, self.guarantee.plan
        together = epsilon_text(held.epsilon, GUARANTEE_DIGITS)
        rounds = [] if plan.rounds == 1 else [(f"ε of all {plan.rounds:,} rounds", together)]
        if rounds and held.round_number is not None:
            rounds.insert(0, ("round", f"{held.round_number:,} of {plan.rounds:,}"))
        drawn = held.schedule.is_sampled
        sample = [("drawn", held.schedule.words()), *held.schedule.condition(epsilon_is(held.known))] if drawn else []
        target = ("target", f"ε = {typed(plan.epsilon)}, {held.target_words()}")
        return [*rounds, *attack, ("δ", typed(plan.delta)), *sample, target, *self._of_a_pair()]

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

    def _quartiles(self) -> list[tuple[str, str]]:
        """Where the middle of ordered values is, if the task is ranges."""
        if not isinstance(self.guarantee.plan.task, Ranges):
            return []
        found = [(name, self.quantile(share)) for name, share in QUARTILES.items()]
        return [(name, f"{one.value} ({one.low} … {one.high})") for name, one in found]

    @property
    def remark(self) -> str:
        return "\n".join(filter(None, (self.manner.post_words, self.parties)))

    # --- a picture ----------------------------------------------------------------------------------------------

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """The estimates with their intervals; also to a file where ``path`` names one."""
        from shuffledp.collection import plot

        return plot.draw(self.quantities, None if path is None else Path(path), self.manner, self._caption())

    def _caption(self) -> str:
        """What stands above the picture: of which column, what is promised, how many users."""
        held, plan = self.guarantee, self.guarantee.plan
        named = "" if not self.columns or plan.task.questions else f" of {', '.join(self.columns)}"
        rounds = "" if plan.rounds == 1 else f" over {plan.rounds:,} rounds"
        promised = f"{epsilon_is(held.stated_epsilon, GUARANTEE_DIGITS)}, δ = {typed(plan.delta)}{rounds}"
        return f"{plan.task.name}{named}\n{promised}, {self._crowd_words()}"

    def _crowd_words(self) -> str:
        """How many took part, as a picture says it."""
        return f"n = {self.guarantee.users:,}"

    # --- files --------------------------------------------------------------------------------------------------

    def markdown(self, proof: str, drawn: bool) -> str:
        """report.md, with what is said of the certificate, and with the picture where there is one."""
        return page(self, proof, drawn)

    def write(self, directory: Path) -> None:
        """All files of the report into a directory."""
        claim = self.guarantee.certificate
        assert claim is not None, "a report is written of a guarantee with its certificate"
        proof = f"none: {claim}"
        if isinstance(claim, Claim):
            claim.save(directory / "certificate.json")
            proof = "certificate.json, for `shuffledp verify`"
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
        try:
            self.plot(path)
        except Exception:
            path.unlink(missing_ok=True)
            return False
        return True
