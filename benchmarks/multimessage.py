"""Multi-message protocols: what exact accounting saves over the printed analyses, and errors against theory.

    .venv/bin/python benchmarks/multimessage.py [--users 1e5] [--samples 20000]

The printed analysis fixes how much noise a target ε' takes. Exact accounting then says what that noise is worth (ε),
and how much noise the target really takes. Errors are measured on encoded, packed, unpacked and decoded messages.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import track
from rich.table import Table

import shuffledp as sdp

TARGETS = (0.1, 0.25, 0.5, 1.0, 1.5)
SEED = 20_260_101


def coth(x: float) -> float:
    return 1 / math.tanh(x)


def cheu_flip(users: int, epsilon: float, delta: float) -> float | None:
    """The flip probability of the printed condition n·f(1−f) = (33/5)·coth²(ε/2)·log(4/δ), if there is one."""
    need = 33 / 5 * coth(epsilon / 2) ** 2 * math.log(4 / delta)
    return None if users < 4 * need else (1 - math.sqrt(1 - 4 * need / users)) / 2


def row(name: str, users: int, delta: float, target: float, mechanism: Any) -> list[str]:
    """ε' against the exact ε at the printed noise, and what the printed pair of [VR] would have claimed."""
    value = sdp.amplify(mechanism, users).epsilon(delta)
    published = sdp.amplify(mechanism, users, bound="variation-ratio-published").epsilon(delta).upper
    lower = "–" if value.lower is None else f"{value.lower:.5g}"
    saved = 100 * (1 - value.upper / target)
    return [
        name,
        f"{users:,}",
        f"{delta:g}",
        f"{target:g}",
        f"{value.upper:.5g}",
        lower,
        f"{published:.5g}",
        f"{saved:.1f}%",
    ]


def savings() -> Iterator[list[str]]:
    """The settings of [VR] Figures 3 and 4, and the other protocols at their own printed noise."""
    for users in (10_000, 100_000):
        for target in TARGETS:
            flip = cheu_flip(users, target, 0.01 / users)
            if flip is not None and flip < 0.5:
                mechanism = sdp.CheuZhilyaev(options=16, flip=flip)
                yield row(f"Cheu–Zhilyaev, f = {flip:.3g}", users, 0.01 / users, target, mechanism)
    for bins in (13, 127):
        for target in TARGETS:
            users = math.ceil(32 * bins * math.log(2 / 1e-6) / target**2)
            yield row(f"balls into {bins} bins", users, 1e-6, target, sdp.BallsIntoBins(options=10**4, bins=bins))
    for target in TARGETS[:-1]:
        users = math.ceil(14 * 128 * math.log(2 / 1e-6) / target**2)
        yield row("pureDUMP, 128 options", users, 1e-6, target, sdp.PureDUMP(options=128))
    for target in TARGETS[:-1]:
        users = 100_000
        coin = 1 - 50 * math.log(2 / 1e-8) / (target**2 * users)
        if coin >= 0.5:
            mechanism = sdp.BalcerCheu(options=2, coin=coin)
            yield row(f"Balcer–Cheu, ϖ = {coin:.4g}", users, 1e-8, target, mechanism)
    for target in TARGETS:
        users = math.ceil(20 * coth(target / 2) ** 2 * math.log(2 / 1e-8))
        yield row("Balcer et al., fair coins", users, 1e-8, target, sdp.BalcerUniform(options=2))


def noise_needed(users: int, target: float, delta: float) -> Iterator[list[str]]:
    """The standard error of a count at a target: with the printed noise, and with what is really needed."""
    flip = cheu_flip(users, target, delta)
    assert flip is not None
    cases: list[tuple[str, Any, Any]] = [
        (
            "Cheu–Zhilyaev, 128 options",
            sdp.CheuZhilyaev(options=128, flip=flip),
            sdp.calibrate(sdp.CheuZhilyaev, options=128, users=users, epsilon=target, delta=delta).mechanism,
        ),
        (
            "pureDUMP, 128 options",
            sdp.PureDUMP(options=128, share=min(1.0, 14 * 128 * math.log(2 / delta) / target**2 / users)),
            sdp.calibrate(sdp.PureDUMP, find="share", options=128, users=users, epsilon=target, delta=delta).mechanism,
        ),
        (
            "Balcer–Cheu, 2 options",
            sdp.BalcerCheu(options=2, coin=1 - 50 * math.log(2 / delta) / (target**2 * users)),
            sdp.calibrate(sdp.BalcerCheu, options=2, users=users, epsilon=target, delta=delta).mechanism,
        ),
    ]
    for name, printed, ours in cases:
        values = np.zeros(users, dtype=np.int64)
        errors = [math.sqrt(float(mechanism.variance(values)[-1])) for mechanism in (printed, ours)]
        yield [name, *(f"{error:.1f}" for error in errors), f"{errors[0] / errors[1]:.2f}"]


def measured(mechanism: Any, users: int, samples: int, show: Callable[[Any], Any]) -> list[str]:
    """Squared errors of enough collections, over the stated variance."""
    generator = np.random.default_rng(SEED)
    options = mechanism.options
    values = np.minimum(generator.geometric(0.05, users) - 1, options - 1)
    truth, variance = mechanism.truth(values), mechanism.variance(values)
    ratios, means = [], []
    counted = options if options > 2 else 1
    rounds = -(-samples // counted)
    for _ in show(range(rounds)):
        wire = mechanism.pack(mechanism.encode(values, rng=generator))
        found = mechanism.estimate(mechanism.unpack(wire))
        scores = ((found.value - truth) / np.sqrt(variance))[:counted]
        ratios.append(float((scores**2).mean()))
        means.append(float(scores.mean()))
    error = math.sqrt(2 / (rounds * counted))
    return [
        repr(mechanism),
        f"{rounds * counted:,}",
        f"{math.sqrt(float(variance.mean())):.1f}",
        f"{100 * (np.mean(ratios) - 1):+.2f}% ± {100 * error:.2f}%",
        f"{np.mean(means):+.4f} ± {1 / math.sqrt(rounds * counted):.4f}",
    ]


def print_table(console: Console, title: str, columns: list[str], rows: list[list[str]]) -> None:
    table = Table(title=title, title_justify="left", box=MARKDOWN)
    for column in columns:
        table.add_column(column)
    for cells in rows:
        table.add_row(*cells)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=float, default=1e5)
    parser.add_argument("--samples", type=float, default=20_000)
    given = parser.parse_args()
    users, samples = int(given.users), int(given.samples)
    console = Console(width=200)
    notes = Console(stderr=True)
    columns = [
        "protocol at its printed noise",
        "users",
        "δ",
        "printed ε'",
        "ε, certified",
        "attack",
        "[VR] pair",
        "saved",
    ]
    print_table(console, "What the printed noise is worth", columns, list(savings()))
    columns = ["at ε = 0.5, δ = 1e-8, n = 1e5", "printed", "needed", "ratio"]
    print_table(console, "Standard error of a count", columns, list(noise_needed(100_000, 0.5, 1e-8)))
    mechanisms = [
        sdp.PureDUMP(options=1000),
        sdp.PureDUMP(options=1000, share=0.25),
        sdp.MixDUMP(options=1000, flip=0.2),
        sdp.BallsIntoBins(options=1000, bins=31),
        sdp.CheuZhilyaev(options=1000, flip=0.01),
        sdp.BalcerCheu(options=2, coin=0.99),
        sdp.BalcerCheu(options=50, coin=0.99),
        sdp.BalcerUniform(options=2),
    ]
    rows = [
        measured(mechanism, users, samples, lambda turns: track(turns, "Measuring", console=notes, transient=True))
        for mechanism in mechanisms
    ]
    columns = ["protocol", "errors", "standard error", "mean square against theory", "mean (in standard errors)"]
    print_table(console, f"Errors of counts, {users:,} users", columns, rows)


if __name__ == "__main__":
    main()
