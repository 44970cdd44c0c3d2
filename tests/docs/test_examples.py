"""The examples in docstrings are run: each says what the package does today, and every public name has one."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

import shuffledp

ROOT = Path(shuffledp.__file__).parent
NAMESPACES = ("shuffledp", "shuffledp.bounds", "shuffledp.collection", "shuffledp.metric", "shuffledp.tasks",
              "shuffledp.testing", "shuffledp.tradeoff")  # fmt: skip
ABSTRACT = {"Bound", "Gradient", "Mechanism", "Randomizer", "Space", "Task", "TradeOff", "Amplification", "Values"}
"""What is there to be inherited from; docs/bring-your-own.md shows how."""
ERRORS = {"ConformanceError", "NotApplicable", "NumericalError", "ShuffledpError"}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
MODULES = [name_of(path) for path in sorted(ROOT.rglob("*.py")) if EXAMPLE.search(path.read_text("utf-8"))]


@pytest.mark.spark("[shuffledp.spark]")
@pytest.mark.docs("shuffledp.mechanisms.mean.gaussian", "shuffledp.planning.planner", "shuffledp.collection.report")
@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name: str) -> None:
    """Every ``>>>`` prints what the docstring says."""
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def public_names(namespace: str) -> list[str]:
    """What the namespace imports as itself, or lists."""
    module = importlib.import_module(namespace)
    assert module.__file__ is not None
    file = Path(module.__file__)
    stub = file.with_suffix(".pyi")
    tree = ast.parse((stub if stub.exists() else file).read_text("utf-8"))
    aliases = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    listed = [alias.name for alias in aliases if alias.asname == alias.name and not alias.name.startswith("_")]
    return [name for name in listed if not isinstance(getattr(module, name), ModuleType)]


PUBLIC = sorted({(space, name) for space in NAMESPACES for name in public_names(space)} - {
    (space, name) for space in NAMESPACES for name in ABSTRACT | ERRORS
})  # fmt: skip


@pytest.mark.parametrize(("namespace", "name"), PUBLIC)
def test_what_is_public_has_an_example(namespace: str, name: str) -> None:
    """Parameters in words and one call that runs."""
    thing = getattr(importlib.import_module(namespace), name)
    if callable(thing):
        assert ">>>" in (thing.__doc__ or ""), f"{namespace}.{name} has no example"
