"""[VR] Tables 1, 5 and 6: variation-ratio parameters of ε-LDP randomizers, computed from the mechanisms."""

from __future__ import annotations

import math
from math import comb, exp

from shuffledp.mechanisms.frequency.hadamard_response import HadamardResponse
from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.mechanisms.frequency.local_hash import LocalHash
from shuffledp.mechanisms.frequency.rappor import RAPPOR
from shuffledp.mechanisms.frequency.subset import Subset
from shuffledp.mechanisms.itemset.privset import PrivSet
from shuffledp.mechanisms.itemset.sampling_rappor import SamplingRAPPOR
from shuffledp.mechanisms.itemset.wheel import Wheel
from shuffledp.mechanisms.keyvalue.collision import Collision
from shuffledp.mechanisms.keyvalue.pckv import PCKV
from shuffledp.mechanisms.keyvalue.privkv import PrivKV
from shuffledp.mechanisms.mean.laplace import Laplace
from shuffledp.mechanisms.mean.piecewise import Piecewise
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.vector.duchi import Duchi
from shuffledp.mechanisms.vector.harmony import Harmony
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.progress import Progress
from shuffledp.reproduction.parameter_row import COLUMNS, ParameterRow, panel, total_variation
from shuffledp.reproduction.sheet import Item, Judgement, Sheet

E = exp(1.0)
"""All instances have ε = 1."""


def first() -> list[ParameterRow]:
    """Table 1."""
    half = 1 - exp(-0.5)
    rr, rappor, subset = KRR(1.0, 4), RAPPOR(1.0, 3), Subset(1.0, 6, 2)
    hashed, hadamard = LocalHash(1.0, 5, 3), HadamardResponse(1.0, 5)
    sampled, pairs, wheel = SamplingRAPPOR(1.0, 5, 2), PCKV(1.0, 4, 2), Wheel(1.0, 4, 2, arc=0.2, circle=5)
    fine = Laplace(1.0), Piecewise(1.0)
    keys = 4 + 2
    arcs = 2 * 0.2
    return [
        ParameterRow("any randomizer", VariationRatio.of_ldp(1.0), "(e^ε−1)/(e^ε+1)", math.tanh(0.5)),
        ParameterRow("Laplace", fine[0], "1−e^(−ε/2)", half, half),
        ParameterRow("piecewise", fine[1], "1−e^(−ε/2)", half),
        _known("randomized response, 2 options", KRR(1.0, 2), "(e^ε−1)/(e^ε+1)", math.tanh(0.5)),
        _known("randomized response", rr, "(e^ε−1)/(e^ε+d−1)", (E - 1) / (E + 3)),
        _known("RAPPOR", rappor, "(e^(ε/2)−1)/(e^(ε/2)+1)", math.tanh(0.25)),
        _known("subset", subset, "(e^ε−1)(C(d−1,k−1)−C(d−2,k−2))/(e^ε·C(d−1,k−1)+C(d−1,k))",
               (E - 1) * (comb(5, 1) - comb(4, 0)) / (E * comb(5, 1) + comb(5, 2))),
        _known("local hash", hashed, "(e^ε−1)/(e^ε+l−1)", (E - 1) / (E + 2)),
        _known("Hadamard response", hadamard, "(s/2)(e^ε−1)/(se^ε+K−s)", (4 / 2) * (E - 1) / (4 * E + 4)),
        _known("sampling RAPPOR", sampled, "s(e^(ε/2)−1)/(d(e^(ε/2)+1))", 2 * math.tanh(0.25) / 5),
        _known("PCKV-GRR", pairs, "s(e^ε−1)/(se^ε+2d−s)", 2 * (E - 1) / (2 * E + 2 * keys - 2)),
        ParameterRow("Wheel", wheel, "sℓ(e^ε−1)/(sℓe^ε+1−sℓ)", arcs * (E - 1) / (arcs * E + 1 - arcs)),
    ]  # fmt: skip


def further() -> list[ParameterRow]:
    """Tables 5 and 6."""
    sets, kv = PrivSet(1.0, 6, 2, size=2), PrivKV(1.0, 4)
    first_budget, second_budget = exp(kv.share), exp(1 - kv.share)
    inner = (second_budget - 1) / (second_budget + 1)
    printed_kv = 2 * max(first_budget * inner, first_budget - 1 + inner / 2) / (4 * (first_budget + 1))
    misses, far = comb(4, 2), comb(2, 2)
    whole = comb(6, 2)
    blocks, box = HadamardResponse(1.0, 5, 2), Collision(1.0, 2, 1, length=5)
    owned, size = 2, 8
    return [
        _known("Duchi et al., d = 3", Duchi(1.0, 3), "(e^ε−1)/(e^ε+1)", math.tanh(0.5)),
        _known("Duchi et al., d = 4", Duchi(1.0, 4), "(e^ε−1)/(e^ε+1)", math.tanh(0.5)),
        _known("Harmony", Harmony(1.0, 3), "(e^ε−1)/(e^ε+1)", math.tanh(0.5)),
        _known("Hadamard response, blocks", blocks, "s(e^ε−1)/(se^ε+K−s)",
               owned * (E - 1) / (owned * E + size - owned)),
        _known("PrivSet, Table 5", sets, "(e^ε−1)(C(d−s,k)−C(d−2s,k))/(e^ε·C(d,k)−C(d−s,k))+C(d−s,k)",
               (E - 1) * (misses - far) / (E * whole - misses + misses)),
        _known("PrivSet, Table 6", sets, "(e^ε−1)(C(d−s,k)−C(d−2s,k))/(e^ε(C(d,k)−C(d−s,k))+C(d−s,k))",
               (E - 1) * (misses - far) / (E * (whole - misses) + misses)),
        _known("Collision", box, "min(s,l−s)(e^ε−1)/(se^ε+l−s)", (E - 1) / (E + 4)),
        _known("PrivKV", kv, "2s·max(e^ε1(e^ε2−1)/(e^ε2+1), e^ε1−1+(e^ε2−1)/(2(e^ε2+1)))/(d(e^ε1+1))", printed_kv),
    ]  # fmt: skip


def _known(name: str, mechanism: Mechanism, formula: str, published: float) -> ParameterRow:
    """A row whose total variation is enumerated too."""
    return ParameterRow(name, mechanism, formula, published, total_variation(mechanism))


def make(progress: Progress) -> Sheet:
    with progress.step("Tables 1, 5 and 6", 2) as advance:
        one = first()
        advance(1)
        two = further()
        advance(1)
    rows = [*one, *two]
    said = {
        word: [row.name for row in rows if row.compared == word] for word in ("right", "sound, not tight", "too small")
    }
    verdicts = [
        Judgement("parameters", f"{len(said['right'])} of {len(rows)} printed β are those of the mechanism.", True),
        Judgement("too_small", f"Too small as printed: {', '.join(said['too small'])}.", not said["too small"]),
        Judgement("not_tight", f"Sound, but not tight: {', '.join(said['sound, not tight'])}.", True),
    ]
    panels = [panel("Table 1, ε = 1", one), panel("Tables 5 and 6, ε = 1", two)]
    return Sheet(
        ("table", *COLUMNS), [("1", *r.cells()) for r in one] + [("5, 6", *r.cells()) for r in two], verdicts, panels
    )


ITEM = Item("vr-tables-1-5-6", "VR", "Tables 1, 5 and 6", "Parameters of ε-LDP randomizers", make)
