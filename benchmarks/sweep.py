"""Slack and time of the sound bound over a grid of randomizers, ε0, n and δ; also how any one call is measured.

Times are processor time, all threads together: what the call takes on an idle machine, whatever else runs.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from randomizer import BETA, parameters
from rich.console import Console
from rich.progress import track
from rich.table import Table

from shuffledp import VariationRatio, amplify
from shuffledp.numerics.positive_part import positive_part_mean

PUBLISHED, SOUND = "variation-ratio-published", "variation-ratio"

EPSILONS_LOCAL = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
DELTAS = (1e-3, 1e-6, 1e-9, 1e-30, 1e-100)
USERS = (
    *(100, 200, 300, 500, 700, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000),
    *(10**6, 10**7, 10**8, 10**10, 10**12),
)


@dataclass(frozen=True)
class Case:
    """One call: ε at δ of a bound for variation-ratio parameters and a number of users."""

    name: str
    parameters: VariationRatio
    users: int
    delta: float
    bound: str = SOUND

    def run(self) -> Outcome:
        start = time.process_time()
        value = amplify(self.parameters, self.users, bound=self.bound).epsilon(self.delta)
        return Outcome(self, time.process_time() - start, value.upper, value.slack)

    def route(self, epsilon: float) -> str:
        """Returns the engine's route to the divergence at ε."""
        own = self.parameters
        pair = own.pair(epsilon) if self.bound == SOUND else own.published_pair()
        return positive_part_mean(pair.law(epsilon), self.users).method


@dataclass(frozen=True)
class Outcome:
    """The time and the result of a call."""

    case: Case
    seconds: float
    epsilon: float
    slack: float

    @property
    def relative_slack(self) -> float:
        """Slack over ε; 0 where ε is infinite, because then δ is below what any ε attains."""
        return self.slack / self.epsilon if 0 < self.epsilon < math.inf else 0.0

    def route(self) -> str:
        return self.case.route(self.epsilon) if math.isfinite(self.epsilon) else "none"


def grid() -> Iterator[Case]:
    """Returns every case of the sweep."""
    for name, epsilon_local, users, delta in itertools.product(BETA, EPSILONS_LOCAL, USERS, DELTAS):
        yield Case(f"{name}, ε0 = {epsilon_local:g}", parameters(name, epsilon_local), users, delta)


def run_sweep(console: Console) -> list[Outcome]:
    """Measures the whole grid."""
    cases = list(grid())
    return [case.run() for case in track(cases, description="sweep", console=console, transient=True)]


def worst_table(title: str, outcomes: Sequence[Outcome]) -> Table:
    """Returns a table of these outcomes with their routes."""
    table = Table(title=title, title_justify="left")
    for heading in ("case", "bound", "n", "δ", "ε", "relative slack", "ms", "route"):
        table.add_column(heading, justify="left" if heading in ("case", "bound", "route") else "right")
    for outcome in outcomes:
        case = outcome.case
        table.add_row(
            case.name,
            case.bound.removeprefix(SOUND).removeprefix("-") or "sound",
            f"{case.users:.4g}",
            f"{case.delta:.3g}",
            f"{outcome.epsilon:.6g}",
            f"{outcome.relative_slack:.1e}",
            f"{outcome.seconds * 1e3:.0f}",
            outcome.route(),
        )
    return table


def slowest(outcomes: Sequence[Outcome], number: int) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: -outcome.seconds)[:number]


def loosest(outcomes: Sequence[Outcome], number: int) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: -outcome.relative_slack)[:number]
