"""[VR] Table 3: parameters of multi-message protocols, against the laws of their messages."""

from __future__ import annotations

import math

from shuffledp.mechanisms.multimessage.balcer_cheu import BalcerCheu
from shuffledp.mechanisms.multimessage.balcer_uniform import BalcerUniform
from shuffledp.mechanisms.multimessage.balls_into_bins import BallsIntoBins
from shuffledp.mechanisms.multimessage.cheu_zhilyaev import CheuZhilyaev
from shuffledp.mechanisms.multimessage.mix_dump import MixDUMP
from shuffledp.mechanisms.multimessage.pure_dump import PureDUMP
from shuffledp.progress import Progress
from shuffledp.reproduction.parameter_row import largest, largest_ratio
from shuffledp.reproduction.sheet import COLUMNS, Chart, Item, Judgement, Sheet

FLIP = 0.25
PROTOCOLS = (
    ("Balcer–Cheu, ϖ = 0.75", BalcerCheu(2, coin=0.75), (math.inf, 1.0, 4.0)),
    ("Balcer et al., fair coins", BalcerUniform(2), (math.inf, 1.0, 2.0)),
    (
        "Cheu–Zhilyaev, f = 0.25",
        CheuZhilyaev(3, flip=FLIP),
        ((1 - FLIP) ** 2 / FLIP**2, 1 - 2 * FLIP, (1 - FLIP) / FLIP),
    ),
    ("pureDUMP, 5 options", PureDUMP(5), (math.inf, 1.0, 5.0)),
    ("balls into 7 bins", BallsIntoBins(5, bins=7), (math.inf, 1.0, 7.0)),
    ("balls into 7 bins, 2 special", BallsIntoBins(5, bins=7, special=2), (math.inf, 1.0, 3.5)),
    (
        "mixDUMP, f = 0.25, 5 options",
        MixDUMP(5, flip=FLIP),
        ((1 - FLIP) * 4 / FLIP, (1 - FLIP) - FLIP / 4, (1 - FLIP) * 5),
    ),
)
"""A protocol, and p, β and q as printed."""


def make(progress: Progress) -> Sheet:
    rows = []
    for name, mechanism, printed in progress.each("Table 3", PROTOCOLS):
        known = mechanism.variation_ratio()
        table = mechanism.hiding_table()
        ours = known.p, known.beta, max(known.q_pair)
        found = largest_ratio(table.rows, table.rows), largest(table.rows), largest_ratio(table.rows, [table.floor])
        rows += [
            (name, symbol, *each)
            for symbol, each in zip("pβq", zip(printed, printed, ours, found, strict=True), strict=True)
        ]
    off = [row for row in rows if math.isfinite(row[2]) and abs(row[2] - row[5]) > 1e-9]
    shown = [row for row in rows if row[1] == "β"]
    panel = Chart("β of the message that depends on the value", "β", "", {
        "printed formula": [(row[2], float(place)) for place, row in enumerate(shown)],
        "sound": [(row[4], float(place)) for place, row in enumerate(shown)],
        "attained, by enumeration": [(row[5], float(place)) for place, row in enumerate(shown)],
    }, [row[0] for row in shown])  # fmt: skip
    told = "; ".join(f"{row[0]}: {row[1]} is {row[5]:.4g}, not {row[2]:.4g}" for row in off)
    verdicts = [
        Judgement(
            "protocols", f"{len(rows) - len(off)} of {len(rows)} printed parameters are those of the messages.", True
        ),
        Judgement(
            "collisions", f"{told}: balls that collide tell nothing, so that the print is sound, not tight.", True
        ),
        Judgement(
            "cheu", "The pair of Cheu–Zhilyaev's parameters is no upper bound (VR-4), though they are right.", False
        ),
    ]
    return Sheet(("protocol", "parameter", *COLUMNS), rows, verdicts, [panel])


ITEM = Item("vr-table-3", "VR", "Table 3", "Parameters of multi-message protocols", make)
