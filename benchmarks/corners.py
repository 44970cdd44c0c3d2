"""The slowest and the loosest of many calls with random parameters, extreme ones included.

    python benchmarks/corners.py [--calls N] [--seed S] [--json FILE]

p near 1, large and infinite; β from its maximum down to 1e-8 of it; q from its least value to 1e8 times p, also
unequal; n from 100 to 1e12; δ from 0.1 to 1e-300.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import track
from sweep import PUBLISHED, SOUND, Case, loosest, slowest, worst_table

from shuffledp import VariationRatio

SLOW, LOOSE = 0.5, 1e-6
"""Seconds and relative slack beyond which a call is counted."""


def random_parameters(rng: random.Random) -> VariationRatio | None:
    """Returns random parameters, or None if they break a condition."""
    p = rng.choice(
        [
            math.inf,
            1 + 10 ** rng.uniform(-12, -0.5),
            math.exp(rng.uniform(0.1, 4)),
            math.exp(rng.uniform(4, 40)),
        ]
    )
    most = 1.0 if math.isinf(p) else (p - 1) / (p + 1)
    beta = most * rng.choice([1.0, rng.random(), 10 ** rng.uniform(-8, 0)])
    ratio = p if math.isfinite(p) else rng.uniform(1, 5)
    least = max(1 + beta, ratio)
    choices: list[float | tuple[float, float]] = [
        ratio,
        ratio * 10 ** rng.uniform(0, 8),
        (1 + beta) * 10 ** rng.random(),
        (least * 10 ** rng.uniform(0, 3), least * 10 ** rng.uniform(0, 3)),
    ]
    try:
        return VariationRatio(p, beta, rng.choice(choices), rng.choice([None, None, None, 1.0]))
    except ValueError:
        return None


def random_cases(rng: random.Random) -> Iterator[Case]:
    """Yields random calls without end."""
    while True:
        own = random_parameters(rng)
        users = int(10 ** rng.uniform(2, rng.choice([5, 12])))
        delta = 10 ** -rng.uniform(1, rng.choice([30, 300]))
        bound = rng.choice([SOUND, SOUND, PUBLISHED])
        if own is not None:
            yield Case(f"p={own.p:.4g} β={own.beta:.4g} q={_ratios(own)}", own, users, delta, bound)


def _ratios(own: VariationRatio) -> str:
    q0, q1 = own.q_pair
    text = f"{q0:.3g}" if q0 == q1 else f"{q0:.3g}/{q1:.3g}"
    return text if own.q_common is None else f"{text} q_c={own.q_common:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write every slow or loose call to this file")
    options = parser.parse_args()
    console = Console()
    cases = list(itertools.islice(random_cases(random.Random(options.seed)), options.calls))
    outcomes = [case.run() for case in track(cases, description="corners", console=console, transient=True)]
    slow = [outcome for outcome in outcomes if outcome.seconds > SLOW]
    loose = [outcome for outcome in outcomes if outcome.relative_slack > LOOSE]
    console.print(
        f"{len(outcomes)} calls: {len(slow)} took more than {SLOW} s, "
        f"{len(loose)} have a relative slack above {LOOSE:g}."
    )
    console.print(worst_table("Slowest", slowest(outcomes, 10)))
    console.print(worst_table("Loosest", loosest(outcomes, 10)))
    if options.json:
        record = [
            {
                "p": outcome.case.parameters.p,
                "beta": outcome.case.parameters.beta,
                "q": outcome.case.parameters.q_pair,
                "q_common": outcome.case.parameters.q_common,
                "users": outcome.case.users,
                "delta": outcome.case.delta,
                "bound": outcome.case.bound,
                "epsilon": outcome.epsilon,
                "slack": outcome.slack,
                "seconds": outcome.seconds,
                "route": outcome.route(),
            }
            for outcome in {id(outcome): outcome for outcome in slow + loose}.values()
        ]
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
