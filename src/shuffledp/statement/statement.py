"""``Statement``: a guarantee in three registers, with its conditions, for people who must defend or sign it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from shuffledp.document import GUARANTEE_DIGITS, epsilon_is, rounded_down, rounded_up, settings_text, typed
from shuffledp.errors import ShuffledpError
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.readable import Readable, Row
from shuffledp.statement import page
from shuffledp.statement.belief import Belief
from shuffledp.statement.citation import sources_of
from shuffledp.tradeoff.risk import AttackRisk
from shuffledp.version import __version__

FALSE_ALARMS = 0.01
DEFINITION = (
    "Definition ((ε, δ)-differential privacy of the shuffled messages): for every two datasets that differ in one "
    "person's value, and every set S of multisets of messages, Pr[messages in S] under the one is at most "
    "e^ε · Pr[messages in S] under the other, plus δ. In other words, the hockey-stick divergence of order e^ε between "
    "the two laws is at most δ, both ways round."
)
DIGITS = 4
"""Of what is told beside the guarantee; its own ε and δ have as many as a certificate."""


@dataclass(frozen=True)
class Statement(Readable):
    """What is promised, to whom, by which theorem, under which conditions.

    ``value``: a value of a privacy curve, ε at a δ or δ at an ε. ``conditions``: what must be so. ``known``: the same
    value if everybody learns who was drawn, where users are. ``curve``: for what attackers can do; None to say nothing
    of them. ``command``: how to get the number again. ``facts``: further rows for the table.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(2.0, options=16), users=10_000)
    >>> told = sdp.Statement(curve.epsilon(delta=1e-6), ("Nobody cheats.",), date="2026-01-31")
    >>> print(told.plain()[:66])
    Whoever is 50% sure beforehand that a person said something partic
    >>> "0.06749029" in told.markdown()
    True
    """

    value: BoundValue
    conditions: Sequence[str]
    known: BoundValue | None = None
    curve: PrivacyCurve | None = field(default=None, repr=False)
    command: str = ""
    facts: Sequence[Row] = ()
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    def __post_init__(self) -> None:
        if self.value.delta is None and self.value.epsilon is None:
            raise ValueError("Statement: expected an ε or a δ of a privacy curve, got another number.")
        if not self.value.guarantee:
            raise ShuffledpError(f"Statement: {self.value.bound} is not a guarantee, so there is nothing to state.")

    # --- the numbers ------------------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        return self.value.upper if self.value.delta is not None else float(self.value.epsilon or 0.0)

    @property
    def delta(self) -> float:
        return self.value.upper if self.value.delta is None else self.value.delta

    def _texts(self) -> tuple[str, str]:
        """(ε, δ): what was given as it was given, what was computed rounded up."""
        if self.value.delta is not None:
            return rounded_up(self.value.upper, GUARANTEE_DIGITS), typed(self.value.delta)
        return typed(self.epsilon), rounded_up(self.value.upper, GUARANTEE_DIGITS)

    # --- three registers --------------------------------------------------------------------------------------

    def plain(self) -> str:
        """One sentence with percentages."""
        return Belief.of(self.epsilon, self.delta).sentence()

    def formal(self) -> str:
        """The number in the field's own words."""
        if math.isinf(self.epsilon):
            return f"No ε is proved at δ = {typed(self.delta)}."
        epsilon, delta = self._texts()
        return f"The shuffled messages are ({epsilon}, {delta})-differentially private: ε = {epsilon}, δ = {delta}."

    def theorem(self) -> str:
        """What proves it."""
        proof = "The number is proved, rounding included." if self.value.certified else "The arithmetic is in floats."
        return f"Theorem: {self.value.theorem} (bound {self.value.bound!r}). {proof}"

    # --- beside it --------------------------------------------------------------------------------------------

    def from_below(self) -> str:
        """What an attack is known to attain."""
        lower = self.value.lower
        if lower is None:
            return "No attack is known that shows how far the number is from the best possible one."
        name = "ε" if self.value.delta is not None else "δ"
        return (
            f"A concrete attack on a constructed dataset achieves {name} = {rounded_down(lower, DIGITS)}: nobody can "
            f"prove less for the same messages."
        )

    def attackers(self) -> str:
        """What a test can do that looks for one person's value; empty where the curve is not given."""
        if self.curve is None:
            return ""
        power = AttackRisk(self.curve).tpr(FALSE_ALARMS).value
        most = rounded_up(100 * power, 3)
        return (
            f"An attacker who accepts {FALSE_ALARMS:.0%} false alarms finds out a person's value in at most {most}% of "
            f"the cases in which it is the one looked for (guessing alone finds {FALSE_ALARMS:.0%})."
        )

    def otherwise(self) -> str:
        """What is left if it becomes known who was drawn; empty where nobody is."""
        if self.known is None:
            return ""
        if self.value.delta is not None:
            left = epsilon_is(self.known.upper, DIGITS)
        else:
            left = f"δ = {rounded_up(self.known.upper, DIGITS)}"
        return f"If it becomes known who was drawn, those are left with {left}."

    # --- told -------------------------------------------------------------------------------------------------

    @property
    def heading(self) -> str:
        return "Privacy statement"

    def summary(self) -> list[Row]:
        """In a few lines."""
        below = self.from_below()
        return [("in words", self.plain()), ("formally", self.formal()), ("by", self.theorem()), ("from below", below)]

    @property
    def remark(self) -> str:
        return "\n".join(("Conditions:", *(f"- {sentence}" for sentence in self.conditions)))

    def blocks(self) -> list[page.Block]:
        """The whole page."""
        epsilon, delta = self._texts()
        rows = [
            ("ε", epsilon),
            ("δ", delta),
            *self.facts,
            ("date", self.date),
            ("software", f"shuffledp {__version__}"),
        ]
        return [
            page.Heading(self.heading, 1),
            page.Paragraph(self.plain(), first=True),
            *map(page.Paragraph, filter(None, (self.attackers(), self.otherwise(), self.from_below()))),
            page.Heading("Conditions"),
            page.Paragraph("The promise holds if all of these are so:"),
            page.Items(self.conditions),
            page.Heading("In the field's own words"),
            page.Paragraph(self.formal()),
            page.Paragraph(DEFINITION),
            page.Paragraph(self.theorem()),
            *([page.Items(sources)] if (sources := sources_of(self.value.theorem)) else []),
            page.Heading("Facts"),
            page.Facts(rows),
            *([page.Paragraph("The same number again:"), page.Command(self.command)] if self.command else []),
        ]

    def markdown(self) -> str:
        """As Markdown."""
        return page.markdown(self.blocks())

    def html(self) -> str:
        """As one HTML file that loads nothing."""
        return page.html(self.heading, self.blocks())

    def save(self, path: str | PathLike[str], who: str = "Statement") -> None:
        """Write it: the ending, .md or .html, says which form."""
        page.write(who, Path(path), self.heading, self.blocks())


def facts_of(randomizer: Randomizer, users: int, rows: Sequence[Row]) -> list[Row]:
    """Which randomizer, how many users, and how they are drawn."""
    if isinstance(randomizer, Mechanism):
        local = randomizer.local_epsilon
        said = [
            ("mechanism", f"{randomizer.name}: {settings_text(randomizer.settings())}"),
            (
                "without the shuffler",
                "nothing is promised" if local is None else f"local ε = {rounded_up(local, DIGITS)}",
            ),
        ]
    else:
        named = randomizer.told_parameters()
        said = [("parameters", ", ".join(f"{name} = {number:.6g}" for name, number in named.items()))]
    about = [("holds for", randomizer.holds_for)] if randomizer.holds_for else []
    return [("honest users", f"{users:,}"), *rows, *said, *about]
