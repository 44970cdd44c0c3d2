"""[LC] What is sent: PI-RAPPOR's bits and variance beside RAPPOR's, and a seed for any randomizer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shuffledp.array import Floats
from shuffledp.bounds.amplify import amplify
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.mechanisms.frequency.oue import OUE
from shuffledp.mechanisms.frequency.pi_rappor import PIRAPPOR
from shuffledp.mechanisms.frequency.projective_geometry import ProjectiveGeometry
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import Chart, Item, Judgement, Sheet

SIZES = (16, 128, 1024, 16_384)
EPSILONS = (1.0, 2.0, 4.0)
USERS, DELTA = 100_000, 1e-8
COLUMNS = ("mechanism", "options", "local_epsilon", "printed_bits", "bits", "variance_ratio", "sound")


def variance(mechanism: Mechanism) -> float:
    """Of an option that nobody holds, a user."""
    held: Floats = np.asarray(mechanism.variance(np.zeros(1, dtype=np.int64)))
    return float(held[-1])


def make(progress: Progress) -> Sheet:
    rows: list[tuple[Any, ...]] = []
    for options, epsilon in progress.each("communication", [(d, e) for d in SIZES for e in EPSILONS]):
        plain = OUE(epsilon, options)
        unit = variance(plain)
        promised = 2 * math.log2(max(options, math.exp(epsilon), 1 / epsilon))
        for mechanism, bits in (
            (plain, float(options)), (PIRAPPOR(epsilon, options), promised),
            (ProjectiveGeometry(epsilon, options), None), (Compressed(plain), None),
        ):  # fmt: skip
            central = amplify(mechanism, USERS, effort="quick").epsilon(DELTA).upper
            rows.append(
                (mechanism.name, options, epsilon, bits, mechanism.message_bits, variance(mechanism) / unit, central)
            )
    lines = {
        name: [(row[1], row[4]) for row in rows if row[0] == name and row[2] == 2.0]
        for name in dict.fromkeys(row[0] for row in rows)
    }
    own = [row for row in rows if row[0] == "pi-rappor"]
    above = [row[4] - row[3] for row in own]
    ratios = [row[5] for row in own]
    verdicts = [
        Judgement(
            "pi_bits",
            f"“2·log2(max(k, e^ε, 1/ε)) + O(1) bits”: the O(1) is {min(above):.1f} to {max(above):.1f} bits.",
            max(above) < 8,
        ),
        Judgement(
            "pi_variance",
            f"“As accurate as RAPPOR”: the variance is {min(ratios):.4f} to {max(ratios):.4f} times that of asymmetric "
            "RAPPOR with the same local ε.",
            max(ratios) < 1.02,
        ),
        Judgement(
            "seed_bits", "A seed has 128 bits, whatever the randomizer, with the randomizer's own variance.", True
        ),
    ]
    panel = Chart("message size at ε = 2", "options", "bits", lines, log="xy")
    return Sheet(COLUMNS, rows, verdicts, [panel])


ITEM = Item("lc-communication", "LC", "Section 4 and Lemma B.5", "What is sent: PI-RAPPOR and seeds", make)
