"""Questions to a released collection: ranges and quantiles of an ordered domain, as often as one likes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.collection.job import REPORT
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.planner.plan_file import Plan
from shuffledp.tasks.question import WHO, Quantile, Questions, RangeCount
from shuffledp.tasks.ranges import Ranges

CONFIDENCE = 0.95
NODES = "nodes"
"""The field of a report that holds every node's estimate."""


def ask(
    directory: str | os.PathLike[str],
    *,
    ranges: Sequence[tuple[Any, Any]] = (),
    quantiles: Sequence[float] = (),
    confidence: float = CONFIDENCE,
) -> list[RangeCount | Quantile]:
    """Ask a finished collection of ranges: the answers are post-processing, and cost no privacy.

    ``directory`` is what ``collect`` or ``estimate`` wrote. ``ranges`` are pairs (first, last), both included, by label
    or number; ``quantiles`` are shares between 0 and 1. Answers come in that order, each with an interval that holds
    the truth with ``confidence``.

    >>> import pyarrow, tempfile
    >>> import shuffledp as sdp
    >>> plan = sdp.Plan(sdp.tasks.Ranges(8), sdp.RangeTree(8, 20.0, 800), users=800, epsilon=4.0, delta=1e-4)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     report = sdp.collect(plan, pyarrow.array([1, 2, 2, 6] * 200), out=f"{room}/result")
    ...     few, middle = sdp.ask(f"{room}/result", ranges=[(0, 3)], quantiles=[0.5])
    >>> bool(abs(few.value - 600) < 6 * few.standard_error), middle.value
    (True, '2')
    """
    level = argument.open_probability(WHO, "confidence", confidence, up=True)
    questions = _questions(Path(directory))
    counted = [questions.range(first, last, level) for first, last in ranges]
    return [*counted, *(questions.quantile(share, level) for share in quantiles)]


def _questions(directory: Path) -> Questions:
    """What a released directory can be asked."""
    try:
        document = json.loads((directory / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ValueError(f"{WHO}: expected the directory of a finished collection, got {directory}.") from None
    plan = Plan.load(directory / "plan.json")
    _demand_order(plan)
    return questions_of(plan, estimate_of(document))


def questions_of(plan: Plan, estimate: Estimate) -> Questions:
    """The questions of a plan whose domain has an order; a sentence for another."""
    return Questions(plan.task.domain, _demand_order(plan).answers(plan.mechanism), estimate)


def _demand_order(plan: Plan) -> Ranges:
    if not isinstance(plan.task, Ranges):
        raise ValueError(f"{WHO}: only a collection of the task {Ranges.name!r} can be asked, got {plan.task.name!r}.")
    return plan.task


def document_of(estimate: Estimate) -> dict[str, Any]:
    """Every node's estimate, to the last digit."""
    return {"users": estimate.users, "estimate": estimate.value.tolist(), "variance": estimate.variance.tolist()}


def estimate_of(document: dict[str, Any]) -> Estimate:
    """The estimate of a report."""
    try:
        kept = document[NODES]
        return Estimate(np.array(kept["estimate"], float), np.array(kept["variance"], float), int(kept["users"]))
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{WHO}: the report does not hold the nodes of a tree; ask one of range queries.") from None
