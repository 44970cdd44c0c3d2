"""Speed and tightness of a certified ε, side by side with Algorithm 1 of the variation-ratio paper.

    python benchmarks/amplification.py [--json FILE] [--no-sweep]

Our calls and the steps of Algorithm 1 alternate, so that other load on the machine slows both alike; times are
processor time, all threads together.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from algorithm_1 import CHUNK, HALVINGS, Algorithm1
from randomizer import parameters
from rich.console import Console
from rich.table import Table
from sweep import PUBLISHED, SOUND, Case, Outcome, loosest, run_sweep, slowest, worst_table

EPSILON_LOCAL = 1.0
USERS = (10**4, 10**6, 10**8, 10**10, 10**12)
BOUNDS = {"any LDP": (PUBLISHED,), "KRR 16": (PUBLISHED, SOUND), "Laplace": (PUBLISHED, SOUND)}
"""With any LDP γ = 0 and the two bounds are one."""
WHOLE_UP_TO = 10**6
"""Up to this n Algorithm 1 runs whole; beyond, its time is estimated from a sample of its blocks."""
SAMPLED_BLOCKS = 6
NEAR_MEAN = 12.0
"""Counts this many standard deviations from their mean add less than 1e-30 to a divergence."""


@dataclass(frozen=True)
class Baseline:
    """Algorithm 1 at one setting, and our calls between its steps."""

    seconds: float
    sampled: float
    """The share of its blocks that ran; 1 where it ran whole."""
    low: float
    high: float
    """Its last interval."""
    agrees: bool
    """Its divergences at the ends of that interval, and the interval itself, enclose δ and our ε."""
    ours: dict[str, list[Outcome]]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    randomizer: str
    bound: str
    users: int
    epsilon: float
    relative_slack: float
    milliseconds: float
    cold_milliseconds: float
    peak_megabytes: float
    baseline_seconds: float
    baseline_sampled: float
    ratio: float
    agrees: bool | None


@dataclass(frozen=True)
class Bar:
    """A number held against what it should be."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def delta_at(users: int) -> float:
    """δ as in the paper's table of running times."""
    return 0.01 / users


def baseline(name: str, users: int, rng: random.Random) -> Baseline:
    """Runs Algorithm 1, or a sample of its blocks, with our calls between its steps."""
    own, delta = parameters(name, EPSILON_LOCAL), delta_at(users)
    algorithm = Algorithm1(own.p, own.beta, own.q_pair[0], users)
    cases = {bound: Case(name, own, users, delta, bound) for bound in BOUNDS[name]}
    known = cases[PUBLISHED].run()
    ours: dict[str, list[Outcome]] = {bound: [] for bound in cases}
    blocks = algorithm.chunks()
    whole = users <= WHOLE_UP_TO
    number = len(blocks) if whole else SAMPLED_BLOCKS
    seconds = 0.0

    def too_small(epsilon: float) -> bool:
        nonlocal seconds
        for bound, case in cases.items():
            ours[bound].append(case.run())
        some = list(blocks) if whole else rng.sample(blocks, number)
        start = time.process_time()
        total = sum(algorithm.chunk_sum(epsilon, block) for block in some)
        seconds += (time.process_time() - start) * len(blocks) / number
        # A sample cannot decide, so the search is led to where the whole sum would lead it.
        return total > delta if whole else epsilon < known.epsilon

    low, high = algorithm.search(too_small)
    near = algorithm.chunks_near_mean(NEAR_MEAN)
    encloses_delta = algorithm.delta_of(low, near) > delta >= algorithm.delta_of(high, near)
    agrees = encloses_delta and low <= known.epsilon and known.epsilon - known.slack <= high
    return Baseline(seconds, number / len(blocks), low, high, agrees, ours)


def alone(*arguments: object) -> dict[str, float]:
    """First-call seconds and peak megabytes of a fresh process that does nothing else."""
    script = Path(__file__).with_name("alone.py")
    command = [sys.executable, str(script), *map(str, arguments)]
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def rows_of(name: str, users: int, rng: random.Random) -> list[Row]:
    """The table's lines for one randomizer and one n."""
    run = baseline(name, users, rng)
    own = parameters(name, EPSILON_LOCAL)
    rows = []
    for bound, outcomes in run.ours.items():
        seconds = statistics.median(outcome.seconds for outcome in outcomes)
        fresh = alone(repr(own.p), repr(own.beta), repr(own.q_pair[0]), users, bound, delta_at(users))
        rows.append(
            Row(
                randomizer=name,
                bound="published" if bound == PUBLISHED else "sound",
                users=users,
                epsilon=outcomes[0].epsilon,
                relative_slack=outcomes[0].relative_slack,
                milliseconds=seconds * 1e3,
                cold_milliseconds=fresh["seconds"] * 1e3,
                peak_megabytes=fresh["megabytes"],
                baseline_seconds=run.seconds,
                baseline_sampled=run.sampled,
                ratio=run.seconds / seconds,
                agrees=run.agrees if bound == PUBLISHED else None,
            )
        )
    return rows


def speed_table(rows: Sequence[Row]) -> Table:
    """The table of times."""
    caption = (
        f"ε0 = {EPSILON_LOCAL:g}, δ = 0.01/n. ours: median of {HALVINGS} calls; "
        f"cold: first call of a fresh process; "
        f"agree: both ε are the same within Algorithm 1's last interval (published rows only). "
        f"~ estimated: at each of the {HALVINGS} steps {SAMPLED_BLOCKS} random blocks of {CHUNK} counts ran; "
        f"'sampled' is their share."
    )
    table = Table(title="A certified ε against Algorithm 1", title_justify="left", caption=caption)
    for heading in ("randomizer", "bound"):
        table.add_column(heading)
    for heading in ("n", "ε", "relative slack", "ours ms", "cold ms", "peak MB", "Algorithm 1 s", "sampled", "ratio"):
        table.add_column(heading, justify="right")
    table.add_column("agree")
    for row in rows:
        table.add_row(
            row.randomizer,
            row.bound,
            f"{row.users:.0e}",
            f"{row.epsilon:.6g}",
            f"{row.relative_slack:.1e}",
            f"{row.milliseconds:.1f}",
            f"{row.cold_milliseconds:.1f}",
            f"{row.peak_megabytes:.0f}",
            f"{'' if row.baseline_sampled == 1 else '~'}{row.baseline_seconds:,.4g}",
            f"{row.baseline_sampled:.2g}",
            f"{row.ratio:,.0f}",
            {True: "yes", False: "NO", None: ""}[row.agrees],
        )
    return table


def speed_bars(rows: Sequence[Row], bare_megabytes: float) -> list[Bar]:
    """The bars that the table of times is held against: the worst line counts."""

    def worst(pick: Callable[[Row], float], users: int, bound: str = "") -> float:
        return max(pick(row) for row in rows if row.users == users and bound in row.bound)

    def least_ratio(users: int) -> float:
        return min(row.ratio for row in rows if row.users == users and row.bound == "published")

    bars = [
        Bar("Algorithm 1 over ours at n = 1e6", least_ratio(10**6), 1_000, at_least=True),
        Bar("Algorithm 1 over ours at n = 1e8", least_ratio(10**8), 100_000, at_least=True),
        Bar("ms at n = 1e6", worst(lambda row: row.milliseconds, 10**6), 50),
    ]
    bars += [Bar(f"ms at n = {n:.0e}", worst(lambda row: row.milliseconds, n), 30) for n in USERS if n >= 10**8]
    bars += [
        Bar("sound bound, ms at n = 1e6", worst(lambda row: row.milliseconds, 10**6, "sound"), 100),
        Bar("sound bound, relative slack at n = 1e6", worst(lambda row: row.relative_slack, 10**6, "sound"), 1e-5),
        Bar("peak MB of a process with one call", max(row.peak_megabytes for row in rows), 200),
        Bar("peak MB of a process that only imports", bare_megabytes, 200),
    ]
    return bars


def bar_table(bars: Sequence[Bar]) -> Table:
    table = Table(title="Bars", title_justify="left")
    for heading in ("what", "measured", "bar", ""):
        table.add_column(heading, justify="left" if heading in ("what", "") else "right")
    for bar in bars:
        sign = "≥" if bar.at_least else "≤"
        table.add_row(bar.what, f"{bar.value:,.3g}", f"{sign} {bar.limit:,.3g}", "met" if bar.met else "NOT MET")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="also write every measured number to this file")
    parser.add_argument("--no-sweep", action="store_true", help="leave out the grid of slacks (a few minutes)")
    options = parser.parse_args()
    console = Console()
    rng = random.Random(1)
    bare = alone()["megabytes"]
    rows: list[Row] = []
    for name in BOUNDS:
        for users in USERS:
            with console.status(f"{name}, n = {users:.0e}"):
                rows += rows_of(name, users, rng)
    console.print(speed_table(rows))
    bars = speed_bars(rows, bare)
    outcomes: list[Outcome] = []
    if not options.no_sweep:
        outcomes = run_sweep(console)
        console.print(worst_table(f"Loosest of {len(outcomes)} calls", loosest(outcomes, 5)))
        console.print(worst_table(f"Slowest of {len(outcomes)} calls", slowest(outcomes, 5)))
        bars.append(Bar("relative slack, worst of the sweep", loosest(outcomes, 1)[0].relative_slack, 1e-4))
    console.print(bar_table(bars))
    if options.json:
        record = {
            "rows": [asdict(row) for row in rows],
            "bars": [asdict(bar) | {"met": bar.met} for bar in bars],
            "sweep": [
                {
                    "randomizer": outcome.case.name,
                    "users": outcome.case.users,
                    "delta": outcome.case.delta,
                    "epsilon": outcome.epsilon,
                    "slack": outcome.slack,
                    "seconds": outcome.seconds,
                }
                for outcome in outcomes
            ],
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
