"""The Python of docs/tradeoff.md runs, and its tables hold what the package computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shuffledp import VariationRatio, amplify
from shuffledp.privacy.random_initialization import LeastSquares, Logistic, NoisyStep
from shuffledp.privacy.tradeoff import GaussianTradeOff

# Its tests ask what the page has asked.
pytestmark = pytest.mark.usefixtures("each_curve_once")

PAGE = (Path(__file__).parents[2] / "docs" / "tradeoff.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (1e\d) \| (1e-\d) \| (\d) \| ([\d.]+) \| ([\d.]+) \|$", re.MULTILINE)
STEP = re.compile(r"^\| (least squares, clipped at|logistic, features up to) (\d) \| ([\d.]+) \| ([\d.]+) \|$", re.M)


@pytest.mark.docs
def test_the_python_runs() -> None:
    """All blocks in order, in one namespace."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    space: dict[str, object] = {}
    for block in blocks:
        exec(block, space)


def test_the_table_of_the_theorem() -> None:
    """Exact and published ε, to the digits shown."""
    rows = ROW.findall(PAGE)
    assert len(rows) == 5
    for users, delta, local, exact, published in rows:
        parameters = VariationRatio.from_ldp(float(local))
        for bound, shown in (("stronger-clone", exact), ("mixture", published)):
            value = amplify(parameters, float(users), bound=bound).epsilon(float(delta)).upper
            assert value == pytest.approx(float(shown), rel=5e-5)


def test_the_table_of_the_steps() -> None:
    """Advantages of the random start and of the plain step."""
    rows = STEP.findall(PAGE)
    assert len(rows) == 4
    for kind, size, random_start, plain in rows:
        gradient = LeastSquares(1.0, float(size)) if kind.startswith("least") else Logistic(float(size))
        assert NoisyStep(gradient).advantage() == pytest.approx(float(random_start), abs=5e-4)
        assert GaussianTradeOff(float(size)).advantage() == pytest.approx(float(plain), abs=5e-4)
