"""Every ``>>>`` example in a docstring gives what it shows."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import shuffledp

ROOT = Path(shuffledp.__file__).parent
MODULES = [
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for path in sorted(ROOT.rglob("*.py"))
    if ">>>" in path.read_text("utf-8") and path.name != "__init__.py"
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name: str) -> None:
    """Each in a namespace of its own."""
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
