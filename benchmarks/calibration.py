"""The cost of a calibration: processor time against bisecting the same range by certified ε, both in this run.

python benchmarks/calibration.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import shuffledp as sdp

RELATIVE = 2e-5
CASES: list[tuple[str, Callable[[float], Any], int, float, float]] = [
    ("KRR, 128 options", lambda local: sdp.KRR(local, 128), 100_000, 1.0, 1e-8),
    ("any ε0-LDP", sdp.VariationRatio.from_ldp, 100_000, 1.0, 1e-8),
    ("any ε0-LDP", sdp.VariationRatio.from_ldp, 100_000_000, 0.1, 1e-10),
    ("Subset, 64 options", lambda local: sdp.Subset(local, 64), 100_000, 0.5, 1e-8),
    ("OUE, 128 options", lambda local: sdp.OUE(local, 128), 100_000, 0.5, 1e-8),
    ("Laplace", lambda local: sdp.Laplace(local), 20_000, 0.3, 1e-7),
    ("RangeQueries, 2048 values", lambda local: sdp.RangeQueries(local, 11), 100_000, 0.1, 1e-7),
]


def halving(build: Callable[[float], Any], users: int, epsilon: float, delta: float) -> float:
    """The plain way: halve [10^-6, 64] until it is as narrow as calibrate leaves it."""
    low, high = 1e-6, 64.0
    while high - low > RELATIVE * low:
        middle = (low + high) / 2
        if sdp.amplify(build(middle), users).epsilon(delta).upper <= epsilon:
            low = middle
        else:
            high = middle
    return low


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = action()
    return result, time.process_time() - start


def main() -> None:
    sdp.calibrate(sdp.KRR, options=4, users=100, epsilon=0.5, delta=1e-4)
    print("| randomizer | n | target | local ε | ours, s | halving, s | ratio |\n|---|---|---|---|---|---|---|")
    for name, build, users, epsilon, delta in CASES:
        found, ours = timed(lambda b=build, n=users, e=epsilon, d=delta: sdp.calibrate(b, users=n, epsilon=e, delta=d))
        plain, theirs = timed(lambda b=build, n=users, e=epsilon, d=delta: halving(b, n, e, d))
        assert abs(found.value / plain - 1) < 10 * RELATIVE
        target = f"({epsilon:g}, {delta:g})"
        print(
            f"| {name} | {users:.0e} | {target} | {found.value:.5f} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f} |"
        )


if __name__ == "__main__":
    main()
