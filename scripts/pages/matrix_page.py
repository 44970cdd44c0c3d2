"""Writes the support matrix of the catalogue: the capabilities of each mechanism, determined from the code."""

from __future__ import annotations

import importlib
import importlib.util
import math
from pathlib import Path
from typing import Any

import shuffledp as sdp
from shuffledp.bounds.tail_truncation import has_tails
from shuffledp.certificates.mechanism_evidence import describe_randomizer
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.tasks.registry import TASKS

COLUMNS = ("runs", "plans", "certificate", "attack", "compressed", "browser")
MARK = "<!-- the support matrix -->"
USERS = 10_000


def write(staged: Path) -> None:
    """Replaces the marker on the catalogue's page by the matrix."""
    page = staged / "catalogue.md"
    text = page.read_text("utf-8")
    assert MARK in text, f"catalogue.md: expected the line {MARK}"
    page.write_text(text.replace(MARK, table()), "utf-8")


def table() -> str:
    head = ["mechanism", "task", "local ε", *COLUMNS, "what it sends"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, kind in catalogue.all_mechanisms().items():
        can = support(kind)
        marks = ["●" if can[column] else "" for column in COLUMNS]
        local = "●" if math.isfinite(kind.examples()[0].local_epsilon or math.inf) else ""
        cells = [f"{{py:obj}}`{name} <shuffledp.{kind.__name__}>`", kind.task, local, *marks, kind.summary]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def support(kind: type[Mechanism]) -> dict[str, bool]:
    """Returns each column of the matrix for one mechanism, determined from its examples."""
    examples = kind.examples()
    return {
        "runs": any(task.can_use(kind) for task in TASKS),
        "plans": any(task.can_use(kind) for task in TASKS) and (kind.has_numeric_settings or kind.combines_mechanisms),
        "certificate": any(_written(example) for example in examples),
        "attack": any(_attacked(example) for example in examples),
        "compressed": any(example.proposal is not None for example in examples),
        "browser": kind in _browsers(),
    }


def _written(example: Mechanism) -> bool:
    try:
        describe_randomizer(example)
    except ValueError:
        return False
    return not has_tails(example)


def _attacked(example: Mechanism) -> bool:
    """Returns True if an attack on some dataset is known."""
    users = max(USERS, getattr(example, "honest", 0))
    try:
        return sdp.amplify(example, users, effort="quick").source.attack is not None
    except sdp.NotApplicable:
        return False


def _browsers() -> Any:
    """Returns the mechanisms that run in browsers; none if the service is not installed."""
    if importlib.util.find_spec("shuffledp.service.browser.recipes") is None:
        return ()
    return importlib.import_module("shuffledp.service.browser.recipes").RECIPE_BUILDERS
