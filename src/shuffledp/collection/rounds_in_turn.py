"""A search by one party: round after round, each a collection of its own that asks on after what the last one found.

In the output directory::

    search.json   the plan, the column and the input that it began with
    round-1/ …    each round as ``collect`` leaves it, with the plan of the next one
    report.json … the files of the last round's report

A round is written down in the ledger, and can be killed and resumed, like any other collection. What a round asks is a
function of what the rounds before it released, so that nothing but the rounds themselves is to be accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp.collection import durable
from shuffledp.collection.job import REPORT
from shuffledp.collection.report import NEXT_PLAN, Report
from shuffledp.planner.plan_file import Plan

if TYPE_CHECKING:
    from shuffledp.collection.collect import Request

BEGAN = "search.json"


def all_rounds(request: Request, run: Callable[[Request], Report]) -> Report:
    """Every round that is not finished yet, ``run`` one after the other; the report of the last."""
    _demand_same(request)
    plan: Plan | None = request.plan
    number, report, last = _first_round(request), None, request.out
    while plan is not None:
        last = request.out / f"round-{number}"
        if not (last / REPORT).exists():
            begun = (last / "work").exists()
            ahead = plan.rounds - number + 1
            one = replace(request, plan=plan, out=last, round_number=number, resume=begun, ahead=ahead, asking=None)
            report = run(one)
        plan, number = _following(last), number + 1
    _publish(last, request.out)
    if report is None:
        raise ValueError(f"collect: {request.out} already holds a finished collection; choose another directory.")
    return report


def _first_round(request: Request) -> int:
    """A plan of a search says itself which round it asks."""
    return request.plan.round_numbers[0] if request.round_number is None else request.round_number


def _demand_same(request: Request) -> None:
    """What goes on is what began; a sentence where something else is there."""
    out, path = request.out, request.out / BEGAN
    began = {
        "plan": request.plan.document(),
        "columns": list(request.columns),
        "rule for cells": request.rules.document(),
        "input": request.table.fingerprint(),
        "confidence or post-processing": request.manner.document(),
    }
    told = json.dumps(began, sort_keys=True)
    if not path.exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ValueError(f"collect: expected a new or empty directory, got {out}.")
        request.plan.identity(_first_round(request))
        durable.make_directory(out)
        durable.write_whole(path, told.encode())
        return
    if not request.resume:
        raise ValueError(f"collect: {out} holds a search that began before; go on with --resume, or delete it.")
    before = json.loads(path.read_text(encoding="utf-8"))
    changed = [name for name, value in json.loads(told).items() if before.get(name, {}) != value]
    if changed:
        raise ValueError(f"collect: the {changed[0]} is not the one that the search in {out} began with.")


def _following(place: Path) -> Plan | None:
    path = place / NEXT_PLAN
    return Plan.load(path) if path.exists() else None


def _publish(last: Path, out: Path) -> None:
    """The report of the last round, its messages apart, where whoever looks finds it first."""
    files = [path for path in last.iterdir() if path.is_file()]
    for path in sorted(files, key=lambda path: (path.name == REPORT, path.name)):
        durable.replace_whole(out / path.name, path.read_bytes())
