"""docs/crowds.md: its table is what the bound and the attack say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shuffledp as sdp

PAGE = Path(__file__).parents[2] / "docs" / "crowds.md"
MADE = {
    "rappor, 128 options": lambda local: sdp.RAPPOR(local, 128),
    "oue, 128 options": lambda local: sdp.OUE(local, 128),
    "subset, 128 options": lambda local: sdp.Subset(local, 128),
    "duchi, 5; harmony, 16; privhs, 64": lambda local: sdp.PrivHS(local, 64),
    "laplace, 1,024 steps": sdp.Laplace,
    "piecewise": sdp.Piecewise,
    "privset, 4 of 128": lambda local: sdp.PrivSet(local, 128, 4),
    "pi-rappor, 100 options": lambda local: sdp.PIRAPPOR(local, 100),
    "sampling-rappor, 4 of 128": lambda local: sdp.SamplingRAPPOR(local, 128, 4),
    "privkv, 100 keys": lambda local: sdp.PrivKV(local, 100),
    "range-queries, height 6": lambda local: sdp.RangeQueries(local, 6),
    "planar-laplace, 6 × 6": sdp.PlanarLaplace,
    "witch-hat, 256 steps": sdp.WitchHat,
    "any ε0-LDP": sdp.VariationRatio.from_ldp,
}


def rows() -> list[tuple[str, float, str, str, str]]:
    """Mechanism, local ε, and three numbers as they are printed."""
    found, name = [], ""
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"[\d.]+", cells[1]):
            name = cells[0] or name
            found.append((name, float(cells[1]), *cells[2:5]))
    return found


def test_every_mechanism_of_the_table_is_known() -> None:
    assert {row[0] for row in rows()} == set(MADE)
    assert len(rows()) == 37


@pytest.mark.docs("laplace, 1,024 steps", "planar", "witch-hat, 256 steps")
@pytest.mark.parametrize(("name", "local", "before", "now", "attack"), rows())
def test_a_row_of_the_table(name: str, local: float, before: str, now: str, attack: str) -> None:
    """To the digits given."""
    randomizer = MADE[name](local)
    usual = sdp.amplify(randomizer, 10_000, effort="quick").epsilon(1e-6)
    found = sdp.amplify(randomizer, 10_000, bound="all-crowds").epsilon(1e-6)
    assert usual.upper == pytest.approx(float(before), rel=6e-5)
    assert found.upper == pytest.approx(float(now), rel=6e-5)
    # Some randomizer of this ε0 attains it: two options up to log 2, three beyond.
    attacked = (
        usual
        if name != "any ε0-LDP"
        else sdp.amplify(sdp.KRR(local, 2 if local < 0.69 else 3), 10_000, effort="quick").epsilon(1e-6)
    )
    assert attacked.lower == pytest.approx(float(attack), rel=6e-5)
