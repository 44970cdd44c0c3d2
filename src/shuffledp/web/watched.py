"""Where a collection or a campaign stands: what may be known of it, and no count before that."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from shuffledp.collection.job import REPORT, Job
from shuffledp.errors import ShuffledpError
from shuffledp.planner.plan_file import Plan
from shuffledp.service.app import round_told
from shuffledp.service.place import Place
from shuffledp.service.store import Accepted, Store

STEPS = ("begun", "encoded", "shuffled", "reported", "released")
"""Of a collection, in their order."""
REPORTS = "reports.sqlite"


def told(directory: Path) -> dict[str, Any]:
    """A document about a directory of ``collect`` or of a shuffler; a sentence in it where it is neither."""
    try:
        found = _shuffler(directory) if (directory / REPORTS).exists() else _collection(directory)
    except (ShuffledpError, ValueError, KeyError, TypeError, OSError) as error:
        found = {"kind": "unknown", "problem": " ".join(str(error).split())}
    return {"name": directory.resolve().name, **found}


# --- a collection -----------------------------------------------------------------------------------------------------


def _collection(directory: Path) -> dict[str, Any]:
    report = directory / REPORT
    if report.exists():
        return _released(json.loads(report.read_text("utf-8")))
    job = Job.unfinished(directory)
    if job is None:
        raise ValueError(f"web: expected a directory of `shuffledp collect` or of a shuffler, got {directory.name!r}.")
    step = STEPS.index("reported") if job.is_reported else 2 * job.is_shuffled or int(job.encoded.exists())
    return {"kind": "collection", "steps": list(STEPS), "step": step, **_plan(job.plan)}


def _released(report: dict[str, Any]) -> dict[str, Any]:
    """What was released is for everybody who sees the report."""
    guarantee = report["guarantee"]
    plan = Plan.parse(json.dumps(report["plan"]))
    kept = {name: report[name] for name in ("users", "estimates", "standard_error", "confidence")}
    kept["estimates"] = kept["estimates"][:100]
    return {"kind": "collection", "steps": list(STEPS), "step": len(STEPS) - 1, **_plan(plan), **kept,
            "guarantee": guarantee, "statement": report["statement"]}  # fmt: skip


def _plan(plan: Plan) -> dict[str, Any]:
    """What was planned, which is no secret."""
    return {
        "task": plan.task.name, "mechanism": plan.mechanism.name, "planned": plan.users, "minimum": plan.fewest,
        "epsilon": plan.epsilon, "delta": plan.delta, "rounds": plan.schedule.rounds,
        "conditions": list(plan.conditions()),
    }  # fmt: skip


# --- a shuffler -------------------------------------------------------------------------------------------------------


def _shuffler(directory: Path) -> dict[str, Any]:
    with closing(Place.of(directory).store()) as store:
        return {"kind": "shuffler", "campaigns": [_campaign(store, each) for each in store.accepted()]}


def _campaign(store: Store, accepted: Accepted) -> dict[str, Any]:
    campaign = accepted.campaign
    rounds = [round_told(campaign, each) for each in store.rounds(campaign.id)]
    return {"id": campaign.id, "promised": campaign.promised, "rounds_told": rounds, **_plan(campaign.plan)}
