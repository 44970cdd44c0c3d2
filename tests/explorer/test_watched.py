"""What is told of collections and campaigns that are under way: their steps, and no count before it may be known."""

from __future__ import annotations

import json
from pathlib import Path

from shuffledp.collection.resumable_job import Job, JobArguments
from shuffledp.explorer import watched_directories
from tests.service import create_campaign, plan_for
from tests.service.test_round import NOW, USERS, Shuffler


def test_a_round_tells_its_count_once_it_is_mixed(tmp_path: Path) -> None:
    """While it is open, how many reports are there stays unsaid."""
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30)))
    for report in shuffler.reports([0, 1] * (USERS // 2)):
        assert shuffler.post(report)
    (campaign,) = watched_directories.describe_directory(shuffler.paths.state)["campaigns"]
    assert campaign["id"] == shuffler.campaign.id
    assert campaign["rounds_told"] == [{"round": 1, "state": "open", "closes": NOW + 3600}]
    assert (campaign["planned"], campaign["minimum"]) == (USERS, 30)
    shuffler.turn()
    (campaign,) = watched_directories.describe_directory(shuffler.paths.state)["campaigns"]
    assert campaign["rounds_told"][0]["users"] == USERS
    shuffler.store.close()


def test_a_collection_tells_its_step_and_not_its_rows(tmp_path: Path) -> None:
    """The number of rows that are there is in the job's file, and nowhere in what is told."""
    plan, out = plan_for(40, minimum=30), tmp_path / "result"
    job = Job.begin(out, JobArguments(plan, 1, ("digit",), {}, 38, None), "embedded")
    steps = []
    for made in (None, job.encoded_directory, job.shuffled_directory, job.release_directory):
        if made is not None:
            made.mkdir()
        told = watched_directories.describe_directory(out)
        steps.append(told["steps"][told["step"]])
        assert "users" not in told
        assert "38" not in json.dumps({name: value for name, value in told.items() if name != "conditions"})
    assert steps == ["begun", "encoded", "shuffled", "reported"]


def test_a_finished_collection_tells_what_it_released(collected: Path) -> None:
    """Users, estimates and the certified guarantee, as its report has them."""
    told, report = (
        watched_directories.describe_directory(collected),
        json.loads((collected / "report.json").read_text("utf-8")),
    )
    assert told["steps"][told["step"]] == "released"
    assert (told["users"], told["guarantee"]) == (300, report["guarantee"])
    assert told["estimates"] == report["estimates"]


def test_another_directory_is_a_sentence(tmp_path: Path) -> None:
    """Which names no more than the directory."""
    assert watched_directories.describe_directory(tmp_path)["problem"].startswith(
        "web: expected a directory of `shuffledp collect`"
    )
    (tmp_path / "report.json").write_text("{}", "utf-8")
    assert watched_directories.describe_directory(tmp_path)["kind"] == "unknown"
