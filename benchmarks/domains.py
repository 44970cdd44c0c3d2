"""Speed of reading messages for some of 2^48 options, beside a plain loop over these options.

    .venv/bin/python benchmarks/domains.py [--messages 2e5] [--asked 10000] [--plain 20] [--json FILE]

Times are processor time. The plain loop takes ``--plain`` of the options one by one, in numpy's integers;
both give the same counts. A pair is one message and one option.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import shuffledp as sdp
from shuffledp.mechanisms.base.mechanism import Mechanism

OPTIONS, SEED = 1 << 48, 1


@dataclass(frozen=True)
class Row:
    """One mechanism: messages a second for all asked options, and how often the plain loop would do it."""

    mechanism: str
    bits: int
    rows_per_second: float
    nanoseconds_a_pair: float
    plain_nanoseconds_a_pair: float
    ratio: float


def hashed(mechanism: sdp.LocalHash | sdp.BallsIntoBins, messages: np.ndarray, option: int) -> int:
    """The plain loop of a hash: seeds' digits times the option's, the remainder, a comparison."""
    prime, degree = mechanism.hash_messages.buckets, mechanism.hash_messages.degree
    seeds, values = np.divmod(messages[messages < mechanism.hash_messages.messages], prime)
    total = np.zeros(len(seeds), dtype=np.int64)
    for place in range(degree):
        total += seeds // prime**place % prime * (option // prime**place % prime)
    return int(np.count_nonzero(total % prime == values))


def orthogonal(mechanism: sdp.ProjectiveGeometry, messages: np.ndarray, option: int) -> int:
    return int(mechanism.space.orthogonal(np.full(len(messages), option), messages).sum())


def measured(name: str, mechanism: Mechanism, plain: Callable[..., int] | None, given: argparse.Namespace) -> Row:
    rng = np.random.default_rng(SEED)
    messages = mechanism.encode(rng.integers(0, OPTIONS, int(given.messages)), rng)
    asked = rng.integers(0, OPTIONS, int(given.asked))
    reading = mechanism.build_estimator(asked)
    begun = time.process_time()
    statistic = reading.accumulate(messages)
    seconds = time.process_time() - begun
    pairs, slow = len(messages) * len(asked), float("nan")
    if plain is not None:
        begun = time.process_time()
        found = [plain(mechanism, messages, int(option)) for option in asked[: given.plain]]
        slow = (time.process_time() - begun) / len(messages) / given.plain
        assert found == statistic[: given.plain].tolist()
    each = seconds / pairs
    return Row(name, mechanism.message_bits, len(messages) / seconds, 1e9 * each, 1e9 * slow, slow / each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=float, default=2e5)
    parser.add_argument("--asked", type=float, default=1e4)
    parser.add_argument("--plain", type=int, default=20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cases: list[tuple[str, Mechanism, Callable[..., int] | None]] = [
        ("krr", sdp.KRR(20.0, OPTIONS), None),
        ("hadamard-response, one block", sdp.HadamardResponse(2.0, OPTIONS), None),
        ("local-hash, 2 buckets", sdp.LocalHash(1.0, OPTIONS, length=2), hashed),
        ("local-hash, 53 buckets", sdp.LocalHash(4.0, OPTIONS, length=53), hashed),
        ("local-hash, 4099 buckets", sdp.LocalHash(8.0, OPTIONS, length=4099), hashed),
        ("balls-into-bins, 61 bins", sdp.BallsIntoBins(OPTIONS, bins=61), hashed),
        ("projective-geometry, prime 2971", sdp.ProjectiveGeometry(8.0, OPTIONS), orthogonal),
    ]
    rows = [measured(name, mechanism, plain, given) for name, mechanism, plain in cases]
    print("| mechanism | bits | messages a second | ns a pair | plain loop, ns a pair | ratio |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        beside = "– | –" if np.isnan(row.ratio) else f"{row.plain_nanoseconds_a_pair:.1f} | {row.ratio:.0f}"
        fast = f"{row.rows_per_second:,.0f} | {row.nanoseconds_a_pair:.3f}"
        print(f"| {row.mechanism} | {row.bits} | {fast} | {beside} |")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
