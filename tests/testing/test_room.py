"""The room itself: light to import, no test framework, and oracles that share nothing with what they check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import shuffledp.testing
from tests.test_package import BEYOND_NUMBERS

ROOM = Path(shuffledp.testing.__file__).parent


def test_an_import_stays_light() -> None:
    """What only some checks need is imported where it is used."""
    heavy = (*BEYOND_NUMBERS, "pytest")
    report = f"import sys, shuffledp.testing; print(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", ["exact_enumeration.py", "multi_message_divergence.py"])
def test_oracles_import_nothing_of_the_package(name: str) -> None:
    """Nor anything that computes: only the standard library."""
    tree = ast.parse((ROOM / name).read_text("utf-8"))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert all(str(module).split(".")[0] in sys.stdlib_module_names for module in modules)


def test_what_is_exported() -> None:
    """Five names."""
    for name in ("check_mechanism", "check_bound", "check_engine", "CheckResult", "ConformanceError"):
        assert getattr(shuffledp.testing, name).__doc__
