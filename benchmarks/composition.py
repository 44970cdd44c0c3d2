"""Rounds composed: time and tightness, beside dp_accounting's own privacy-loss distributions in the same run.

    python benchmarks/composition.py [--json FILE]

Times are processor time, all threads together. Needs dp_accounting (the extra ``interop``) for the second route:
its own rounding of two explicit probability mass functions where these can be listed, and its connect-the-dots on the
same curve elsewhere, each composed by its own transforms.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

from dp_accounting.pld import privacy_loss_distribution
from rich.console import Console
from rich.table import Table

import shuffledp as sdp
from shuffledp.privacy.curve import PrivacyCurve

ROUNDS = ((10_000, 1), (10_000, 100), (10_000, 1000), (10**6, 1000), (10**8, 1000), (10**6, 100_000))
Row = dict[str, float | int | str | None]


def clones(epsilon_local: float, users: int) -> PrivacyCurve:
    return sdp.amplify(sdp.VariationRatio.from_ldp(epsilon_local), users, bound="stronger-clone")


def timed(work: Callable[[], float]) -> tuple[float, float]:
    start = time.process_time()
    value = work()
    return value, time.process_time() - start


def same_rounds(users: int, rounds: int, delta: float) -> Row:
    """K rounds of one curve, by us and by dp_accounting on a grid of its own from the same curve."""
    start = time.process_time()
    value = sdp.compose(clones(2.0, users), rounds).epsilon(delta)
    seconds = time.process_time() - start
    deviation = clones(2.0, users).loss_deviation() or 1.0
    grid = min(1e-4, deviation / 40)

    def theirs() -> float:
        return float(clones(2.0, users).to_pld(discretization=grid).self_compose(rounds).get_epsilon_for_delta(delta))

    other, their_seconds = timed(theirs)
    return row(f"{rounds} rounds, n = {users:.0e}", value, seconds, other, their_seconds)


def explicit(users: int, rounds: int, delta: float) -> Row:
    """Composes for few users, so that both probability mass functions can be listed and passed to dp_accounting."""
    start = time.process_time()
    value = sdp.compose(clones(2.0, users), rounds).epsilon(delta)
    seconds = time.process_time() - start
    first, second = mass_functions(2.0, users)

    def theirs() -> float:
        return float(
            privacy_loss_distribution.from_two_probability_mass_functions(
                first, second, value_discretization_interval=1e-4
            )
            .self_compose(rounds)
            .get_epsilon_for_delta(delta)
        )

    other, their_seconds = timed(theirs)
    return row(f"{rounds} rounds, n = {users}, explicit", value, seconds, other, their_seconds)


def mass_functions(epsilon_local: float, users: int) -> tuple[dict[object, float], dict[object, float]]:
    """Logarithms of both laws of the stronger clones' counts."""
    ratio = math.exp(epsilon_local)
    hide, others = 1 / (ratio + 1), users - 1
    one: dict[object, float] = {}
    two: dict[object, float] = {}
    for a in range(others + 1):
        for b in range(others + 1 - a):
            rest = others - a - b
            log = math.lgamma(others + 1) - math.lgamma(a + 1) - math.lgamma(b + 1) - math.lgamma(rest + 1)
            mass = math.exp(log + (a + b) * math.log(hide) + rest * math.log1p(-2 * hide))
            for key, first, second in (((a + 1, b), ratio * hide, hide), ((a, b + 1), hide, ratio * hide)):
                one[key] = one.get(key, 0.0) + mass * first
                two[key] = two.get(key, 0.0) + mass * second
    return tuple({key: math.log(mass) for key, mass in law.items() if mass > 0} for law in (one, two))  # type: ignore[return-value]


def different_rounds(kind: str, count: int, delta: float) -> Row:
    """Composes many different curves, once each."""
    start = time.process_time()
    if kind == "clones":
        curves = [clones(0.3 + 0.06 * k, 100_000 + 3000 * k) for k in range(count)]
    else:
        curves = [sdp.amplify(sdp.KRR(epsilon=0.3 + 0.06 * k, options=4 + k), 100_000 + 3000 * k) for k in range(count)]
    value = sdp.compose(curves).epsilon(delta)
    return row(f"{count} different curves, {kind}", value, time.process_time() - start, None, None)


def row(name: str, value: sdp.BoundValue, seconds: float, other: float | None, their_seconds: float | None) -> Row:
    return {
        "case": name,
        "epsilon": value.upper,
        "slack": value.slack / value.upper,
        "seconds": seconds,
        "dp_accounting": other,
        "dp_accounting seconds": their_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [same_rounds(users, rounds, 1e-6) for users, rounds in ROUNDS]
    rows.append(explicit(60, 100, 1e-4))
    rows += [different_rounds(kind, 50, 1e-7) for kind in ("clones", "best of KRR")]
    table = Table("case", "ε", "relative slack", "seconds", "dp_accounting ε", "its seconds")
    for one in rows:
        table.add_row(*("–" if x is None else f"{x:.6g}" if isinstance(x, float) else str(x) for x in one.values()))
    Console().print(table)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
