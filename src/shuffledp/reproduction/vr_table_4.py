"""[VR] Table 4: ε of any ε0-LDP randomizer by Algorithm 1 with 20 or 10 halvings, and how long it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from shuffledp.bounds.amplify import amplify
from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import COLUMNS, Chart, Item, Judgement, Sheet

PRINT: dict[tuple[float, int, int], tuple[str, float]] = {
    (0.1, 10**4, 20): ("0.00280", 3.0), (0.1, 10**4, 10): ("0.00284", 1.3),
    (0.1, 10**6, 20): ("0.000346", 14.9), (0.1, 10**6, 10): ("0.000391", 3.1),
    (0.1, 10**8, 20): ("0.0000404", 61.5), (0.1, 10**8, 10): ("0.0000977", 0.45),
    (1.0, 10**4, 20): ("0.0433", 0.45), (1.0, 10**4, 10): ("0.0440", 2.3),
    (1.0, 10**6, 20): ("0.00503", 16.7), (1.0, 10**6, 10): ("0.00586", 4.7),
    (1.0, 10**8, 20): ("0.000566", 106.2), (1.0, 10**8, 10): ("0.000977", 0.43),
    (3.0, 10**4, 20): ("0.227", 3.8), (3.0, 10**4, 10): ("0.229", 1.5),
    (3.0, 10**6, 20): ("0.0255", 13.9), (3.0, 10**6, 10): ("0.0264", 2.8),
    (3.0, 10**8, 20): ("0.00283", 117.5), (3.0, 10**8, 10): ("0.00293", 5.2),
    (5.0, 10**4, 20): ("0.743", 2.4), (5.0, 10**4, 10): ("0.743", 0.9),
    (5.0, 10**6, 20): ("0.0778", 9.3), (5.0, 10**6, 10): ("0.0782", 3.1),
    (5.0, 10**8, 20): ("0.00853", 44.6), (5.0, 10**8, 10): ("0.00977", 7.9),
}  # fmt: skip
"""ε0, users, halvings: the ε and the seconds as printed."""


CUT_OFF = {(5.0, 10**6, 20), (5.0, 10**8, 20)}
"""Where the print cuts its last digit off; everywhere else it rounds up."""


def allowance(local: float, users: int, epsilon: float) -> float:
    """What the authors' program of March 2023 adds to δ for the counts that it leaves out of its sum.

    Its sum over counts stops where one adds less than t = δ/(10n), kept between 1e-19 and 1e-14, and t·n·(p − e^ε)·α is
    added for the rest (github.com/wangsw/PrivacyAmplification, commit 4e5db25): up to a tenth of δ where n ≥ 10^6, and
    1e-4 of it at n = 10^4.
    """
    tolerance = max(1e-19, min(1e-14, 0.01 / users / users / 10))
    ratio = math.exp(local)
    return tolerance * users * (ratio - math.exp(epsilon)) / (ratio + 1)


def with_allowance(local: float, users: int, epsilon_at: Callable[[float], float]) -> float:
    """The ε at which δ and the allowance together are 0.01/n; the allowance hardly changes with ε."""
    delta, epsilon = 0.01 / users, 0.0
    for _ in range(3):
        epsilon = epsilon_at(delta - allowance(local, users, epsilon))
    return epsilon


def halved(local: float, exact: float, halvings: int) -> float:
    """What the bisection of [0, ε0] returns: the upper end of its last interval, a multiple of ε0/2^T."""
    step = local / 2.0**halvings
    return math.ceil(exact / step) * step


def rounded_up(value: float, like: str) -> str:
    """A number with as many decimals as a printed one, rounded up as an upper bound is."""
    return str(Decimal(value).quantize(_unit(like), ROUND_CEILING))


def cut_off(value: float, like: str) -> str:
    """A number with as many decimals as a printed one, the rest left away."""
    return str(Decimal(value).quantize(_unit(like), ROUND_FLOOR))


def as_printed(row: tuple[float, int, int], program: float) -> str:
    """What the program returns, written as its row of the table is."""
    return (cut_off if row in CUT_OFF else rounded_up)(program, PRINT[row][0])


def _unit(printed: str) -> Decimal:
    return Decimal(1).scaleb(int(Decimal(printed).as_tuple().exponent))


def units(found: float, printed: str) -> int:
    """By how many units of its last digit the print is above a number that is rounded up alike."""
    return int((Decimal(printed) - Decimal(rounded_up(found, printed))) / _unit(printed))


def make(progress: Progress) -> Sheet:
    rows, lines = [], {"printed, T = 20": [], "sound": [], "attack": []}  # type: ignore[var-annotated]
    exact: dict[tuple[float, int], tuple[float, float, float | None]] = {}
    allowed: dict[tuple[float, int], float] = {}
    for local, users in progress.each("Table 4", list(dict.fromkeys((e, n) for e, n, _ in PRINT))):
        start = time.process_time()
        curve = amplify(VariationRatio.of_ldp(local), users, bound="stronger-clone")
        value = curve.epsilon(0.01 / users)
        seconds = time.process_time() - start
        allowed[local, users] = with_allowance(local, users, lambda delta, of=curve: of.epsilon(delta).upper)  # type: ignore[misc]
        # Of all ε0-LDP randomizers these two are the worst.
        attacked = [
            amplify(KRR(local, options), users, effort="quick").epsilon(0.01 / users).lower for options in (2, 3)
        ]
        exact[local, users] = value.upper, seconds, max((one for one in attacked if one is not None), default=None)
    off, matched = [], []
    for (local, users, halvings), (printed, printed_seconds) in PRINT.items():
        sound, seconds, attack = exact[local, users]
        published = halved(local, sound, halvings)
        off.append(units(published, printed))
        program = halved(local, allowed[local, users], halvings)
        matched.append(as_printed((local, users, halvings), program) == printed)
        rows.append((local, users, halvings, printed, published, sound, attack, program, printed_seconds, seconds))
    panels = []
    for local in (0.1, 1.0, 3.0, 5.0):
        lines = {
            "printed, T = 20": [(n, float(PRINT[e, n, 20][0])) for e, n in exact if e == local],
            "printed, T = 10": [(n, float(PRINT[e, n, 10][0])) for e, n in exact if e == local],
            "sound": [(n, found[0]) for (e, n), found in exact.items() if e == local],
            "attack on 2 or 3 options": [(n, found[2]) for (e, n), found in exact.items() if e == local and found[2]],
        }
        panels.append(Chart(f"ε0 = {local:g}", "users", "ε", lines, log="xy"))
    halves = [(t, miss) for (_, _, t), miss in zip(PRINT, off, strict=True)]
    coarse, fine = ([miss for t, miss in halves if t == wanted] for wanted in (10, 20))
    verdicts = [
        Judgement(
            "table_4", f"T = 10: {coarse.count(0)} of 12 printed ε to the last digit, rounded up.", set(coarse) == {0}
        ),
        Judgement(
            "table_4",
            f"T = 20: {fine.count(0)} of 12 printed ε to the last digit; the others, all at n ≥ 10^6, are 1 to "
            f"{max(fine)} units of the last digit above what Algorithm 1 gives in exact arithmetic.",
            set(fine) == {0},
        ),
        Judgement(
            "table_4_program",
            f"With what the authors' program adds to δ for counts it does not sum (up to a tenth of δ at n ≥ 10^6), "
            f"{sum(matched)} of 24 are as printed: {len(CUT_OFF)} at ε0 = 5 cut off after the last digit, the others "
            "rounded up.",
            all(matched),
        ),
        Judgement(
            "times",
            f"A certified ε took {1000 * max(one[1] for one in exact.values()):.0f} ms of processor time at the most, "
            "whatever n is; printed times grow to 117.5 s at n = 10^8.",
            True,
        ),
    ]
    columns = ("local_epsilon", "users", "halvings", *COLUMNS, "program", "printed_seconds", "our_seconds")
    return Sheet(columns, rows, verdicts, panels)


ITEM = Item("vr-table-4", "VR", "Table 4", "Any ε0-LDP randomizer: ε and running time", make)
