"""State of a collection or shuffler whose directory the page watches; no counts before they are released."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from shuffledp._core.errors import ShuffledpError
from shuffledp.collection.resumable_job import REPORT_FILE, Job
from shuffledp.planning.plan import Plan
from shuffledp.service.server import describe_round
from shuffledp.service.stores import AcceptedCampaign, ShufflerPaths, Store

COLLECTION_STEPS = ("begun", "encoded", "shuffled", "reported", "released")
"""Steps of a collection, in order."""
REPORTS_FILE = "reports.sqlite"
MAX_SHOWN_ESTIMATES = 100


def describe_directory(directory: Path) -> dict[str, Any]:
    """Returns the state of a directory of ``collect`` or of a shuffler; a problem text if it is neither."""
    describe = _describe_shuffler if (directory / REPORTS_FILE).exists() else _describe_collection
    try:
        description = describe(directory)
    except (ShuffledpError, ValueError, KeyError, TypeError, OSError) as error:
        description = {"kind": "unknown", "problem": " ".join(str(error).split())}
    return {"name": directory.resolve().name, **description}


def _describe_collection(directory: Path) -> dict[str, Any]:
    report = directory / REPORT_FILE
    if report.exists():
        return _describe_report(json.loads(report.read_text("utf-8")))
    job = Job.find_unfinished(directory)
    if job is None:
        raise ValueError(f"web: expected a directory of `shuffledp collect` or of a shuffler, got {directory.name!r}.")
    step = (
        COLLECTION_STEPS.index("reported")
        if job.is_reported
        else 2 * job.is_shuffled or int(job.encoded_directory.exists())
    )
    return {"kind": "collection", "steps": list(COLLECTION_STEPS), "step": step, **_describe_plan(job.plan)}


def _describe_report(report: dict[str, Any]) -> dict[str, Any]:
    """Describes a finished collection: everything in its report is released."""
    return {
        "kind": "collection",
        "steps": list(COLLECTION_STEPS),
        "step": len(COLLECTION_STEPS) - 1,
        **_describe_plan(Plan.parse(json.dumps(report["plan"]))),
        **{name: report[name] for name in ("users", "estimates", "standard_error", "confidence")},
        "estimates": report["estimates"][:MAX_SHOWN_ESTIMATES],
        "guarantee": report["guarantee"],
        "statement": report["statement"],
    }


def _describe_plan(plan: Plan) -> dict[str, Any]:
    """Returns the public facts of a plan."""
    return {
        "task": plan.task.name, "mechanism": plan.mechanism.name, "planned": plan.users, "minimum": plan.fewest,
        "epsilon": plan.epsilon, "delta": plan.delta, "rounds": plan.participation.rounds,
        "conditions": list(plan.conditions()),
    }  # fmt: skip


def _describe_shuffler(directory: Path) -> dict[str, Any]:
    with closing(ShufflerPaths.from_directories(directory).open_store()) as store:
        return {
            "kind": "shuffler",
            "campaigns": [_describe_campaign(store, each) for each in store.accepted_campaigns()],
        }


def _describe_campaign(store: Store, accepted: AcceptedCampaign) -> dict[str, Any]:
    campaign = accepted.campaign
    return {
        "id": campaign.id,
        "promised": campaign.promised_epsilon,
        "rounds_told": [describe_round(campaign, each) for each in store.rounds(campaign.id)],
        **_describe_plan(campaign.plan),
    }
