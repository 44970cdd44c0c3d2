"""Heavy hitters among words: what is found against what was promised, and what it costs.

Words are those of the package `wordfreq` where it is installed, with its frequencies; else made-up ones by Zipf's law.
Counts of whole searches are drawn by their law; ``--collect`` really encodes, shuffles and reads one round.

    .venv/bin/python benchmarks/hitters.py --users 1e6 1e7 --rounds 9 10 --repeat 10 --collect
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import shuffledp as sdp
from shuffledp.planning.plan import Plan
from shuffledp.planning.simulation import SearchOutcome, simulate_searches
from shuffledp.sampling.prefix_codes import ConcatenatedTexts
from shuffledp.tasks.heavy_hitters import SearchTask
from shuffledp.tasks.heavy_hitters_search import SimulatedUsers, build_simulated_users

EPSILON, DELTA = 1.0, 1e-8


def words(users: int, language: str) -> tuple[list[str], Any] | None:
    """Words and how many of the users hold each, where real frequencies are installed."""
    try:
        from wordfreq import get_frequency_dict  # type: ignore[import-not-found]
    except ImportError:
        return None
    known = {word: share for word, share in get_frequency_dict(language, "large").items() if len(word.encode()) <= 64}
    shares = np.array(list(known.values()))
    held = np.random.default_rng(0).multinomial(users, shares / shares.sum())
    return [word for word, count in zip(known, held, strict=True) if count], held[held > 0]


def crowd_of(task: SearchTask, users: int, language: str) -> SimulatedUsers:
    found = words(users, language)
    return (
        task.draw_simulated_users(users)
        if found is None
        else build_simulated_users(task.open_domain, ConcatenatedTexts.from_strings(found[0]), found[1])
    )


def planned(users: int, rounds: int) -> Plan:
    asked = sdp.tasks.HeavyHitters(strings=64)
    return sdp.plan(asked, users, EPSILON, DELTA, rounds=rounds, rests_on="shuffler").best.plan


def row(plan: Plan, outcome: SearchOutcome) -> str:
    promised, rounds = plan.promise, plan.rounds
    bits = rounds * plan.mechanism.messages_per_user * plan.mechanism.message_bits
    cells = [
        f"{plan.users:.0e}", f"{rounds}", f"{promised['threshold']:,.0f}", f"{outcome.searches[0].heavy:,}",
        f"{outcome.recall:.2%}", f"{outcome.precision:.2%}", f"{promised['floor']:,.0f}", f"{outcome.false_finds:.2g}",
        f"{outcome.covered:.1%}", f"{rounds * plan.mechanism.messages_per_user:,.0f}", f"{bits / 8:,.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def one_round(plan: Plan, crowd: SimulatedUsers) -> str:
    """Processor time of each role in the first round."""
    import pyarrow as pa

    values: ConcatenatedTexts = crowd.values
    texts = pa.array([bytes(values.data[a:b]).decode() for a, b in zip(values.ends, values.ends[1:], strict=False)])
    column = texts.take(pa.array(np.random.default_rng(1).permutation(np.repeat(np.arange(len(texts)), crowd.counts))))
    spent = []
    with tempfile.TemporaryDirectory() as room:
        place = Path(room)
        for role in (
            lambda: sdp.collection.encode(plan, column, out=place / "ours"),
            lambda: sdp.collection.shuffle([place / "ours"], out=place / "shuffled", plan=plan),
            lambda: sdp.collection.estimate(plan, place / "shuffled", out=place / "result"),
        ):
            begun = time.process_time()
            role()
            spent.append(time.process_time() - begun)
    encode, shuffle, estimate = spent
    return (
        f"    one round of {plan.rounds}, processor time: encode {encode / plan.users * 1e6:.1f} µs a user, "
        f"shuffle {shuffle:.1f} s, estimate {estimate:.1f} s; all rounds: estimate {estimate * plan.rounds:.0f} s"
    )


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--users", type=float, nargs="+", default=[1e6])
    given.add_argument("--rounds", type=int, nargs="+", default=[9, 1])
    given.add_argument("--repeat", type=int, default=3)
    given.add_argument("--language", default="en")
    given.add_argument("--collect", action="store_true")
    asked = given.parse_args()
    heads = ["users", "rounds", "threshold", "words above", "found", "above the floor", "floor", "held by nobody",
             "covered", "messages a user", "bytes a user"]  # fmt: skip
    print("| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), sep="\n")
    for users in asked.users:
        for rounds in asked.rounds:
            plan = planned(int(users), rounds)
            task = plan.task
            assert isinstance(task, SearchTask)
            crowd = crowd_of(task, int(users), asked.language)
            print(row(plan, simulate_searches(plan, task, crowd, asked.repeat, 0, lambda done: None)), flush=True)
            if asked.collect:
                print(one_round(plan, crowd), flush=True)


if __name__ == "__main__":
    main()
