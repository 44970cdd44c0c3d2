"""The module in Node: answers as Python reads them, estimates within intervals, and what clients refuse."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shuffledp import KRR, CancellingNoise, HadamardResponse, Piecewise, Plan, PureDUMP, tasks
from shuffledp._core.validation import Bytes
from shuffledp.ledger.hash_chain import format_canonical_json
from shuffledp.sampling import rounding_and_digits
from shuffledp.service.browser.assets import MODULE_NAME, load_static_file
from shuffledp.service.browser.recipes import build_recipe
from shuffledp.service.campaign import CAMPAIGN_LABEL, Campaign
from shuffledp.service.crypto import MESSAGE_LABEL, REPORT_LABEL, PrivateKey, ShufflerKey, build_context
from shuffledp.service.notices_and_statements import RoundNotice
from tests.service import ANALYST, SHUFFLER, create_campaign, plan_for
from tests.service.browser import LARGE_MECHANISMS, MECHANISMS, plan_with
from tests.service.browser.test_conformance import HERE, node

CONFIDENCE = 1 - 1e-9
ANSWERS, FEW_ANSWERS = 2000, 100
"""Few where an answer takes thousands of words."""
SEALED = 300


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file as it is served."""
    path = tmp_path_factory.mktemp("module") / "client.mjs"
    path.write_bytes(load_static_file(MODULE_NAME).body)
    return path


def made(module: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Node makes of them."""
    return list(json.loads(node(HERE / "reports.mjs", str(module), given=json.dumps({"seed": "node", "jobs": jobs}))))


def job_of(plan: Plan, answers: list[Any]) -> dict[str, Any]:
    return {"document": {"recipe": build_recipe(plan), "plan": plan.document()}, "answers": answers}


def within(plan: Plan, wire: Bytes, values: Any, users: int) -> None:
    """Every estimate's interval holds the truth."""
    mechanism = plan.mechanism
    assert mechanism.valid(wire).all()
    found = mechanism.estimator.finish(mechanism.estimator.accumulate(mechanism.unpack(wire)), users)
    truth = mechanism.truth(values)
    low, high = found.interval(CONFIDENCE)
    assert ((low <= truth) & (truth <= high)).all(), (found.value, truth)


PLANS = {
    name: plan_with(mechanism, FEW_ANSWERS if name in LARGE_MECHANISMS else ANSWERS)
    for name, mechanism in MECHANISMS.items()
    # Reading these would count a million options and more.
    if name not in ("krr of many", "local-hash of very many")
}


@pytest.mark.browser
def test_estimates_of_what_node_sends(module: Path) -> None:
    """Every mechanism: as many valid messages as it sends, and intervals (of 1 − 1e-9 each) that hold the truth."""
    rng = np.random.default_rng(21)
    answers: dict[str, list[Any]] = {}
    for name, plan in PLANS.items():
        size = plan.task.domain.size
        users = plan.users
        drawn = rng.uniform(-2.0, 6.0, users) if size is None else rng.integers(0, max(2, size // 2), users)
        answers[name] = drawn.tolist()
    told = made(module, [job_of(plan, answers[name]) for name, plan in PLANS.items()])
    for (name, plan), found in zip(PLANS.items(), told, strict=True):
        wire = np.frombuffer(bytes.fromhex("".join(found["messages"])), dtype=np.uint8)
        wire = wire.reshape(-1, plan.mechanism.message_bytes)
        assert len(wire) == plan.users * (plan.mechanism.message_plan.user_messages(1) or 0)
        if name == "cancelling-noise by the shuffler":
            # Nobody has added the noise yet: the messages are the answers.
            assert wire.reshape(-1).tolist() == [2 * each for each in answers[name]]
            continue
        within(plan, wire, plan.column("x").read_values(pa.array(answers[name])), plan.users)


@pytest.mark.browser
@pytest.mark.parametrize("name", ["piecewise", "witch-hat", "split-and-mix", "duchi"])
def test_numbers_are_read_as_in_python(module: Path, name: str) -> None:
    """To the last unit, at the ends, between two units, and anywhere."""
    plan = plan_with(MECHANISMS[name])
    rng = np.random.default_rng(5)
    numbers = [-2.0, 10.0, 4.0, 0.0, -0.0, 1e-300, 10 - 2**-49, *rng.uniform(-2, 10, 500).tolist()]
    numbers += [-2 + 12 * (k + 0.5) / 2**53 for k in range(8)]
    (told,) = made(module, [job_of(plan, numbers)])
    values = np.asarray(plan.column("x").read_values(pa.array(numbers))).reshape(-1)
    recipe = build_recipe(plan)
    units = (
        rounding_and_digits.signed_to_units(values)
        if recipe.get("signed")
        else rounding_and_digits.interval_to_units(values, *recipe["range"])
    )
    assert told["values"] == [str(unit) for unit in units]


@pytest.mark.browser
def test_yes_and_no(module: Path) -> None:
    """As truth values or numbers."""
    plan = Plan(tasks.Count(), MECHANISMS["duchi"], users=10, epsilon=1.0, delta=1e-6)
    (told,) = made(module, [job_of(plan, [True, False, 1, 0])])
    assert told["values"] == [str(2**53), "0"] * 2


SEALED_PLANS = [
    Plan(tasks.Frequency(["red", "green", "blue"]), KRR(2.0, 3), users=SEALED, epsilon=2.0, delta=1e-2),
    Plan(tasks.Mean(0.0, 24.0), Piecewise(2.0), users=SEALED, epsilon=2.0, delta=1e-2),
    Plan(tasks.Frequency(3), PureDUMP(3, dummies=2), users=SEALED, epsilon=20.0, delta=1e-2),
]


@pytest.mark.browser
def test_what_node_seals_is_opened_and_estimated(module: Path) -> None:
    """Both envelopes, with the keys of the round and of the analyst; messages in order of their bytes."""
    rng, key, jobs = np.random.default_rng(3), PrivateKey.new(), list[dict[str, Any]]()
    campaigns = [create_campaign(plan) for plan in SEALED_PLANS]
    for campaign in campaigns:
        labels = campaign.plan.task.domain.names
        chosen = rng.integers(0, 2, SEALED).tolist()
        answers = chosen if labels is None else [labels[each] for each in chosen]
        notice = {"round": 1, "key": key.public_key.key.hex()}
        jobs.append({"id": campaign.id, "document": campaign.document, "notice": notice, "answers": answers})
    for campaign, job, told in zip(campaigns, jobs, made(module, jobs), strict=True):
        reports = np.frombuffer(bytes.fromhex("".join(told["reports"])), dtype=np.uint8).reshape(SEALED, -1)
        assert reports.shape[1] == campaign.report_bytes
        inside, good = key.open_rows(build_context(REPORT_LABEL, campaign.id, 1), reports)
        assert good.all()
        sealed = inside.reshape(-1, campaign.message_bytes)
        for messages in inside.reshape(SEALED, campaign.messages_per_user, -1):
            assert [row.tobytes() for row in messages] == sorted(row.tobytes() for row in messages)
        wire, good = ANALYST.private_key.open_rows(build_context(MESSAGE_LABEL, campaign.id, 1), sealed)
        assert good.all()
        assert sorted(row.tobytes() for row in wire) == _rows(told["messages"], wire.shape[1])
        within(campaign.plan, wire, campaign.plan.column("x").read_values(pa.array(job["answers"])), SEALED)


def _rows(messages: list[str], width: int) -> list[bytes]:
    whole = bytes.fromhex("".join(messages))
    return sorted(whole[start : start + width] for start in range(0, len(whole), width))


@pytest.mark.browser
def test_what_clients_do_with_shufflers_that_fail_or_lie(module: Path) -> None:
    """The same bytes again, one answer of two at once, sentences; nothing is drawn or sent where something is wrong."""
    campaign, other = create_campaign(), create_campaign()
    strange = create_campaign(Plan(tasks.Frequency(5), HadamardResponse(0.5, 5), users=40, epsilon=1.0, delta=1e-6))
    told = {
        "campaign": campaign.content.decode(), "id": campaign.id, "strange": strange.content.decode(),
        "strangeId": strange.id, "notice": _notice(campaign.id, SHUFFLER), "other": _notice(other.id, SHUFFLER),
        "forged": _notice(campaign.id, ShufflerKey.new()),
    }  # fmt: skip
    choosy = campaign.document | {"admission": {"kind": "of some kind"}}
    content_of = format_canonical_json(choosy).encode()
    id_ = hashlib.sha256(CAMPAIGN_LABEL + content_of).hexdigest()
    told |= {"choosy": content_of.decode(), "choosyId": id_, "choosyNotice": _notice(id_, SHUFFLER)}
    assert node(HERE / "clients.mjs", str(module), given=json.dumps(told)) == ""


def _notice(campaign: str, by: ShufflerKey) -> str:
    return RoundNotice(campaign, 1, 0, 1, PrivateKey.new().public_key).sign(by).decode()


def test_a_campaign_with_another_recipe_is_refused() -> None:
    """By the shuffler and by Python's client: pages would follow another law than the one that was promised."""
    campaign = create_campaign()
    campaign.prove_promise()
    document = campaign.document
    document["recipe"] = document["recipe"] | {"uniform": "1"}
    with pytest.raises(ValueError, match="recipe, which web pages run, does not match its plan"):
        Campaign.from_document(document).prove_promise()
    assert create_campaign(plan_for()).recipe["kind"] == "option"
    by_shuffler = CancellingNoise(options=3, rate=0.8, shape=6.0, ratio=0.7, honest=0)
    assert build_recipe(plan_with(by_shuffler))["noise"] == []


@pytest.mark.browser
def test_spellings_that_look_alike_are_one_answer(module: Path) -> None:
    """As Python reads them: composed or not, with or without what has no shape; also of a plan that is not composed."""
    names = ["tea", "caf\u00e9", "\U0001f469\u200d\U0001f4bb"]
    answers = ["cafe\u0301", "caf\u00e9\u200b", "\ufefftea", "\U0001f469\U0001f4bb", "tea"]
    plan = Plan(tasks.Frequency(names), KRR(0.5, 3), users=60, epsilon=1.0, delta=1e-6)
    job = job_of(plan, answers)
    assert made(module, [job])[0]["values"] == ["1", "1", "0", "2", "0"]
    assert [plan.task.domain.find_option_number("test", each) for each in answers] == [1, 1, 0, 2, 0]
    job["document"]["plan"]["task"]["domain"]["categories"][1] = "cafe\u0301"
    assert made(module, [job])[0]["values"] == ["1", "1", "0", "2", "0"]
