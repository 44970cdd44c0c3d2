"""A ledger of hundreds of different collections: what writing, looking, and composing all of them at once take.

    python benchmarks/ledger.py [--entries 200] [--json FILE]

Times are processor time, all threads together. Every fourth collection is of people drawn from ten times as many.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import shuffledp as sdp
from shuffledp.ledger.collection_guarantee import CurveInputs, Guarantee
from shuffledp.ledger.ledger import Ledger

DELTA = 1e-8


@dataclass(frozen=True)
class Drawn(Guarantee):
    """A guarantee whose users are drawn from a larger number of people."""

    drawn_from: int | None = None

    @property
    def curve_inputs(self) -> CurveInputs:
        return replace(super().curve_inputs, sampled_from=self.drawn_from)


def mixed(count: int) -> list[Drawn]:
    """Returns entries with different mechanisms, local ε and numbers of users."""
    rng = np.random.default_rng(1)
    result = []
    for number in range(count):
        epsilon, users = round(rng.uniform(0.5, 3.0), 3), int(rng.integers(1_000, 1_000_000))
        mechanism = (
            sdp.KRR(epsilon, 16), sdp.OUE(epsilon, 16), sdp.Subset(epsilon, 16), sdp.LocalHash(epsilon, 16),
            sdp.HadamardResponse(epsilon, 16), sdp.RAPPOR(epsilon, 16),
        )[number % 6]  # fmt: skip
        plan = sdp.Plan(sdp.tasks.Frequency(16), mechanism, users=users, epsilon=10.0, delta=DELTA)
        result.append(Drawn(plan, users, drawn_from=10 * users if number % 4 == 0 else None))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=200)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    collections = mixed(asked.entries)
    with tempfile.TemporaryDirectory() as room:
        path = Path(room, "ledger.sqlite")
        ledger = Ledger.create(path)
        started = time.process_time()
        for number, guarantee in enumerate(collections):
            ledger.reserve(str(number), guarantee)
        writing = time.process_time() - started
        started = time.process_time()
        (standing,) = Ledger(path).budget_statuses("everyone", DELTA)
        looking = time.process_time() - started
    started = time.process_time()
    value = sdp.compose([guarantee.curve for guarantee in collections]).epsilon(DELTA)
    at_once = time.process_time() - started
    found = {
        "entries": asked.entries, "seconds_to_write_one": writing / asked.entries, "seconds_to_look": looking,
        "seconds_at_once": at_once, "epsilon_of_the_ledger": standing.epsilon, "epsilon_at_once": value.upper,
        "slack_at_once": value.slack,
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
