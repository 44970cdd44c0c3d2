"""What the figures of all commands share: distinct lines, numbers as in print, places that can be written to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shuffledp._core import plotting
from tests.cli import run


def test_lines_differ() -> None:
    """No two of the first 49 curves have the same colour and dashes."""
    looks = {str(plotting.line_style(place)) for place in range(49)}
    assert len(looks) == 49


@pytest.mark.parametrize(
    ("value", "text"), [(1e-6, "$10^{-6}$"), (2.5e-9, r"$2.5\cdot10^{-9}$"), (0.5, r"$5\cdot10^{-1}$")]
)
def test_numbers_as_in_print(value: float, text: str) -> None:
    """Powers of ten."""
    assert plotting.format_scientific(value) == text


@pytest.mark.exhaustive
def test_the_legend_names_every_bound_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Best first, what is no guarantee and the attack last; the others are grey; the title says what is drawn."""
    monkeypatch.setattr("shuffledp.cli.compare_bounds.PLOT_POINTS", 2)
    path = tmp_path / "bounds.svg"
    words = ("--mechanism", "krr", "--epsilon-local", "1", "--set", "options=4", "--users", "1000", "--delta", "1e-5")
    assert run("compare", *words, "--plot", str(path)).status == 0
    text = path.read_text(encoding="utf-8")
    assert "krr (options=4), 1,000 users" in text
    printed = ">variation-ratio-published (no guarantee)<"
    assert 0 < text.index(">optimal<") < text.index(printed) < text.index(">attack: no more is possible<")
    assert text.count(">optimal<") == 1
    assert ">clone-analytic<" not in text
    assert re.search(r">grey: \d+ other bounds<", text)


def test_a_matrix_is_drawn_as_dots(tmp_path: Path) -> None:
    """Three pairs: three marks and no line between them, since pairs that are equally far apart may differ."""
    matrix, path = tmp_path / "d.csv", tmp_path / "d.svg"
    matrix.write_text("0,1,2\n1,0,1\n2,1,0\n")
    words = ("metric", "amplify", "--users", "1000", "--delta", "1e-5", "--plot", str(path))
    assert run(*words, "--matrix", str(matrix)).status == 0
    dots = path.read_text(encoding="utf-8")
    assert run(*words, "--range", "0", "1", "--steps", "3").status == 0
    line = path.read_text(encoding="utf-8")
    dashes = [text.count("fill: none; stroke: #0b3c5d") for text in (dots, line)]
    assert dashes == [0, 1]
