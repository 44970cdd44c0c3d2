"""``Statement``: a guarantee in plain words and in formal terms, with its theorem and its conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from flint import arb

from shuffledp._core import __version__, validation
from shuffledp._core.citations import find_citations
from shuffledp._core.errors import ShuffledpError
from shuffledp._core.formatting import (
    GUARANTEE_DIGITS,
    format_epsilon_equation,
    format_exact,
    format_percentage,
    format_rounded_down,
    format_rounded_up,
    format_settings,
)
from shuffledp._core.pages import (
    CommandBlock,
    FactTable,
    Heading,
    ItemList,
    PageBlock,
    Paragraph,
    format_html,
    format_markdown,
    write_page,
)
from shuffledp._core.results_and_value_objects import PrintableResult, Row
from shuffledp.bounds.participation import Participation
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.numerics.ball_arithmetic import precision, round_down, round_up
from shuffledp.privacy.attack_risk import AttackRisk
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.randomizer_interface import Randomizer

# --- Posterior probability from (ε, δ) ---


BITS = 128
PROBABILITY_STEPS = 1000
"""Probabilities are stated in tenths of a percent."""
MIN_LOG_ODDS_MARGIN = 0.004
"""Least distance of the stated log odds above ε, so that the exception is at most 251 times δ.

At distance 0 the exception would have no bound: δ alone bounds no likelihood ratio just above e^ε.
"""


@dataclass(frozen=True)
class Belief:
    """An upper bound of an attacker's posterior belief, except with probability ``exception_probability``.

    Theorem: let P be the law of the attacker's view if the person's value is X, Q the law if it is any other (any
    mixture), and D_{e^ε}(P‖Q) ≤ δ. Bayes: the posterior odds are the prior odds times P/Q. With t > 0 and
    B = {P > e^(ε+t)·Q}: δ ≥ P(B) − e^ε·Q(B) ≥ (1 − e^−t)·P(B), so that P(B) ≤ δ/(1 − e^−t), and Q(B) ≤ P(B).
    Requires: the guarantee holds for every two values of the person; a mixture of others is covered by convexity.
    Returns: ``posterior`` is prior odds times e^(ε+t) as a probability; both are rounded up.
    """

    prior: float
    posterior: float
    exception_probability: float
    delta: float = 0.0
    """The δ of the guarantee, from which the exception follows."""

    @classmethod
    def from_guarantee(cls, epsilon: float, delta: float, before: float = 0.5) -> Belief:
        """Returns the belief, rounded up to a tenth of a percent that is at least ``MIN_LOG_ODDS_MARGIN`` above ε."""
        before = validation.open_probability("Belief", "before", before)
        if math.isinf(epsilon):
            return cls(before, 1.0, 0.0)
        with precision(BITS):
            odds = arb(before) / (1 - arb(before))
            posterior_odds = odds * (arb(epsilon) + MIN_LOG_ODDS_MARGIN).exp()
            step = math.ceil(round_up(posterior_odds / (1 + posterior_odds)) * PROBABILITY_STEPS)
            if step >= PROBABILITY_STEPS:
                return cls(before, 1.0, 0.0)
            after = arb(step) / PROBABILITY_STEPS
            margin = (after / (1 - after) / odds).log() - arb(epsilon)
            exception = round_up(arb(delta) / -((-margin).expm1()))
        assert round_down(margin) > 0, "the stated log odds are above ε"
        return cls(before, step / PROBABILITY_STEPS, min(1.0, exception), delta)

    def sentence(self) -> str:
        """Returns the belief in plain words."""
        before = _format_percent(self.prior)
        if self.posterior >= 1.0:
            return (
                f"Anyone who is {before} sure of a person's value beforehand may be more than 99.9% sure of it "
                f"afterwards: this guarantee is next to nothing."
            )
        return (
            f"Anyone who is {before} sure of a person's value beforehand, and knows everybody else's, is at most "
            f"{_format_percent(self.posterior)} sure of it afterwards{self._describe_exception()}."
        )

    def _describe_exception(self) -> str:
        """Returns the probability that somebody becomes surer; it follows from ε and δ, and is not a second δ."""
        if not self.exception_probability:
            return ""
        probability = format_exact(float(format_rounded_up(self.exception_probability, 2)))
        delta = format_exact(float(format_rounded_up(self.delta)))
        return (
            f", except with probability {probability}; this exception is a consequence of ε and δ = {delta}, not an "
            f"additional one"
        )


def _format_percent(probability: float) -> str:
    return f"{100 * probability:.1f}".rstrip("0").rstrip(".") + "%"


# --- Conditions of a guarantee ---


SHUFFLER_CONDITION = "The shuffler reveals neither the order of the messages nor their senders."
NEIGHBOURS_CONDITION = "It hides a person's value, not their participation (neighbouring datasets replace one value)."
RANDOMNESS_CONDITION = "All run this randomizer, with fresh secret randomness, and send nothing else."
SECRET_SAMPLE_CONDITION = "Nobody learns who was drawn."
NONRESPONSE_CONDITION = "Whether a drawn person takes part depends neither on their value nor on who else was drawn."


def conditions(
    randomizer: Randomizer,
    participation: Participation,
    *,
    colluding: int = 0,
    per_person: int = 1,
    rows: bool = False,
    by_id: bool = False,
) -> tuple[str, ...]:
    """Returns the conditions under which a guarantee holds, as sentences.

    Args:
        randomizer: The local randomizer that every user runs.
        participation: Users of each round, and the number of rounds.
        colluding: Number of these users who may reveal to the analyst what they sent.
        per_person: Largest number of rows of one person.
        rows: True if the guarantee is about rows of a table, each of which counts as a person.
        by_id: True if a column of the table identifies the person of each row.

    Returns:
        One sentence for each condition.

    >>> import shuffledp as sdp
    >>> sentences = conditions(sdp.KRR(1.0, options=4), sdp.Participation(1000, 5000, rounds=3), colluding=10)
    >>> for sentence in sentences[1:3]: print(sentence)
    At least 990 of the 1,000 users of a round are honest; up to 10 may reveal what they sent.
    Nobody learns who was drawn.
    """
    return (
        SHUFFLER_CONDITION,
        _honesty_condition(participation, colluding),
        *((SECRET_SAMPLE_CONDITION,) if participation.is_sampled else ()),
        *((NONRESPONSE_CONDITION,) if participation.came is not None else ()),
        _contribution_condition(per_person, rows, by_id),
        RANDOMNESS_CONDITION,
        *randomizer.premises(),
        NEIGHBOURS_CONDITION,
        _rounds_condition(participation),
    )


def _honesty_condition(participation: Participation, colluding: int) -> str:
    if participation.rate is not None and participation.came is None:
        people = f"{participation.of:,} people honestly flip the coin that decides whether they take part"
        return f"{people}, up to {colluding:,} of whom may reveal all they know." if colluding else f"{people}."
    several = participation.rounds > 1 or participation.is_sampled
    users = f"{participation.participants:,} users{' of a round' if several else ''}"
    if not colluding:
        return f"All {users} are honest: no user reveals their message, and none is fabricated."
    honest = f"{participation.participants - colluding:,}"
    return f"At least {honest} of the {users} are honest; up to {colluding:,} may reveal what they sent."


def _contribution_condition(per_person: int, rows: bool, by_id: bool) -> str:
    if by_id:
        limit = "" if per_person == 1 else f", of whom at most {per_person:,} rows are used"
        return f"Each id in the users' column is a different person{limit}."
    if per_person > 1:
        return f"No person has more than {per_person:,} rows."
    return "Each row is a different person." if rows else "Each person takes part once per round."


def _rounds_condition(participation: Participation) -> str:
    rounds = participation.rounds
    subject = "Nothing else is" if rounds == 1 else f"Nothing but these {rounds:,} rounds is"
    return f"{subject} released about the same people: privacy losses add up."


# --- Warning about a large δ ---


MAX_DELTA_TIMES_USERS = 0.01
"""Largest δ·n without a warning.

Publishing each of n people's values with probability δ satisfies (0, δ)-differential privacy, and publishes
somebody's with probability 1 − (1 − δ)^n, which is nearly δ·n. One in a hundred is about the largest such chance that
one would call negligible; the rule of thumb that δ be "far below 1/n" says the same without a number.
"""


def delta_warnings(delta: float | None, users: int) -> list[str]:
    """Returns a warning if δ is not far below 1/n; an empty list if it is, or if δ is None.

    >>> delta_warnings(1e-8, 10**6)
    []
    >>> print(*delta_warnings(1e-6, 10**6))
    δ = 1e-6 is not far below 1/n with n = 1,000,000: it allows publishing somebody's value with probability 63.3%; \
take 1e-8 or less.
    """
    if delta is None or not 0.0 < delta < 1.0 or delta * users <= MAX_DELTA_TIMES_USERS * (1 + 1e-9):
        return []
    probability = format_percentage(float(format_rounded_up(-math.expm1(users * math.log1p(-delta)), 3)))
    better = 10.0 ** math.floor(math.log10(MAX_DELTA_TIMES_USERS / users) + 1e-9)
    return [
        f"δ = {format_exact(delta)} is not far below 1/n with n = {users:,}: it allows publishing somebody's value "
        f"with probability {probability}; take {format_exact(better)} or less."
    ]


FALSE_ALARM_RATE = 0.01
DEFINITION = (
    "Definition ((ε, δ)-differential privacy of the shuffled messages): for every two datasets that differ in one "
    "person's value, and every set S of multisets of messages, Pr[messages in S] under the one is at most "
    "e^ε · Pr[messages in S] under the other, plus δ. In other words, the hockey-stick divergence of order e^ε between "
    "the two laws is at most δ in both directions."
)
SECONDARY_DIGITS = 4
"""Number of digits of the numbers beside the guarantee; its own ε and δ have as many as a certificate."""


@dataclass(frozen=True)
class Statement(PrintableResult):
    """A guarantee in words: its theorem, its conditions, and the power of attacks.

    Args:
        value: A value of a privacy curve, ε at a δ or δ at an ε.
        conditions: The sentences of ``conditions``.
        disclosed_sample_value: The same value if everybody learns who was drawn; None if users are not drawn.
        curve: The privacy curve, for the sentence about attackers; None to omit it.
        command: The command that computes the same number.
        facts: Further labelled rows for the table.
        date: Date of the statement, by default today's (UTC).

    Raises:
        ValueError: If ``value`` is neither an ε nor a δ of a privacy curve.
        ShuffledpError: If ``value`` is not a guarantee.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(2.0, options=16), users=10_000)
    >>> statement = sdp.Statement(curve.epsilon(delta=1e-6), ("Nobody cheats.",), date="2026-01-31")
    >>> print(statement.plain_sentence()[:53])
    Anyone who is 50% sure of a person's value beforehand
    >>> "0.06749029" in statement.markdown()
    True
    """

    value: BoundValue
    conditions: Sequence[str]
    disclosed_sample_value: BoundValue | None = None
    curve: PrivacyCurve | None = field(default=None, repr=False)
    command: str = ""
    facts: Sequence[Row] = ()
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    def __post_init__(self) -> None:
        if self.value.delta is None and self.value.epsilon is None:
            raise ValueError("Statement: expected an ε or a δ of a privacy curve, got another number.")
        if not self.value.guarantee:
            raise ShuffledpError(f"Statement: {self.value.bound} is not a guarantee, so there is nothing to state.")

    # --- Numbers ---

    @property
    def epsilon(self) -> float:
        """The promised ε."""
        return self.value.upper if self.value.delta is not None else float(self.value.epsilon or 0.0)

    @property
    def delta(self) -> float:
        """The promised δ."""
        return self.value.upper if self.value.delta is None else self.value.delta

    def _format_pair(self) -> tuple[str, str]:
        """Returns the texts of ε and δ: the input verbatim, the result rounded up."""
        if self.value.delta is not None:
            return format_rounded_up(self.value.upper, GUARANTEE_DIGITS), format_exact(self.value.delta)
        return format_exact(self.epsilon), format_rounded_up(self.value.upper, GUARANTEE_DIGITS)

    # --- Plain, formal and by theorem ---

    def plain_sentence(self) -> str:
        """Returns the guarantee in one sentence with percentages."""
        return Belief.from_guarantee(self.epsilon, self.delta).sentence()

    def formal_sentence(self) -> str:
        """Returns the guarantee as (ε, δ)-differential privacy."""
        if math.isinf(self.epsilon):
            return f"No ε is proved at δ = {format_exact(self.delta)}."
        epsilon, delta = self._format_pair()
        return f"The shuffled messages are ({epsilon}, {delta})-differentially private: ε = {epsilon}, δ = {delta}."

    def theorem_sentence(self) -> str:
        """Returns the sentence that names the theorem, and says if the number is certified."""
        proof = "The number is proved, rounding included." if self.value.certified else "The arithmetic is in floats."
        return f"Theorem: {self.value.theorem} (bound {self.value.bound!r}). {proof}"

    # --- Attacks and disclosed samples ---

    def attack_sentence(self) -> str:
        """Returns the sentence about the best known attack."""
        lower = self.value.lower
        if lower is None:
            return "No attack is known that shows how close the number is to the best possible one."
        name = "ε" if self.value.delta is not None else "δ"
        return (
            f"A concrete attack on a constructed dataset achieves {name} = "
            f"{format_rounded_down(lower, SECONDARY_DIGITS)}: nobody can prove less for the same messages."
        )

    def attack_power_sentence(self) -> str:
        """Returns the sentence on the power of tests for one person's value; empty without a curve."""
        if self.curve is None:
            return ""
        power = format_rounded_up(100 * AttackRisk(self.curve).tpr(FALSE_ALARM_RATE).value, 3)
        return (
            f"An attacker who accepts {FALSE_ALARM_RATE:.0%} false alarms recognizes a person's value in at most "
            f"{power}% of the cases (a random guess: {FALSE_ALARM_RATE:.0%})."
        )

    def disclosed_sample_sentence(self) -> str:
        """Returns the sentence on the guarantee if it becomes known who was drawn; empty if users are not drawn."""
        if self.disclosed_sample_value is None:
            return ""
        if self.value.delta is not None:
            guarantee = format_epsilon_equation(self.disclosed_sample_value.upper, SECONDARY_DIGITS)
        else:
            guarantee = f"δ = {format_rounded_up(self.disclosed_sample_value.upper, SECONDARY_DIGITS)}"
        return f"If it becomes known who was drawn, the guarantee for these people is only {guarantee}."

    # --- Text and pages ---

    @property
    def heading(self) -> str:
        return "Privacy statement"

    def summary(self) -> list[Row]:
        """Returns the labelled lines that ``print`` shows."""
        return [
            ("in words", self.plain_sentence()),
            ("formally", self.formal_sentence()),
            ("proof", self.theorem_sentence()),
            ("best attack", self.attack_sentence()),
        ]

    @property
    def remark(self) -> str:
        return "\n".join(("Conditions:", *(f"- {sentence}" for sentence in self.conditions)))

    def blocks(self) -> list[PageBlock]:
        """Returns the parts of the page."""
        epsilon, delta = self._format_pair()
        rows = [
            ("ε", epsilon),
            ("δ", delta),
            *self.facts,
            ("date", self.date),
            ("software", f"shuffledp {__version__}"),
        ]
        return [
            Heading(self.heading, 1),
            Paragraph(self.plain_sentence(), is_lead=True),
            *map(
                Paragraph,
                filter(None, (self.attack_power_sentence(), self.disclosed_sample_sentence(), self.attack_sentence())),
            ),
            Heading("Conditions"),
            Paragraph("The guarantee holds under all of these conditions:"),
            ItemList(self.conditions),
            Heading("In formal terms"),
            Paragraph(self.formal_sentence()),
            Paragraph(DEFINITION),
            Paragraph(self.theorem_sentence()),
            *([ItemList(sources)] if (sources := find_citations(self.value.theorem)) else []),
            Heading("Facts"),
            FactTable(rows),
            *([Paragraph("Command for the same number:"), CommandBlock(self.command)] if self.command else []),
        ]

    def markdown(self) -> str:
        """Returns the statement in Markdown."""
        return format_markdown(self.blocks())

    def html(self) -> str:
        """Returns the statement as one HTML file that loads nothing."""
        return format_html(self.heading, self.blocks())

    def save(self, path: str | PathLike[str], who: str = "Statement") -> None:
        """Writes the statement as Markdown or HTML.

        Args:
            path: File to write; its ending, .md or .html, selects the format.
            who: Prefix of error messages.

        Raises:
            ValueError: If the file has another ending or cannot be written.
        """
        write_page(who, Path(path), self.heading, self.blocks())


def build_fact_rows(randomizer: Randomizer, users: int, rows: Sequence[Row]) -> list[Row]:
    """Returns the rows on the randomizer, the number of users, and how they are drawn."""
    if isinstance(randomizer, Mechanism):
        local = randomizer.local_epsilon
        alone = "no guarantee" if local is None else f"local ε = {format_rounded_up(local, SECONDARY_DIGITS)}"
        own_rows = [
            ("mechanism", f"{randomizer.name}: {format_settings(randomizer.settings())}"),
            ("without the shuffler", alone),
        ]
    else:
        parameters = randomizer.ratio_parameters()
        own_rows = [("parameters", ", ".join(f"{name} = {number:.6g}" for name, number in parameters.items()))]
    scope = [("holds for", randomizer.covered_randomizers)] if randomizer.covered_randomizers else []
    return [("honest users", f"{users:,}"), *rows, *own_rows, *scope]
