"""The roles on files, sealed: the shuffler cannot read, and the estimate is that of the same messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from shuffledp import CancellingNoise, Plan, collection, tasks
from shuffledp.collection import message_files
from shuffledp.collection.message_files import USERS, BatchSpec, Manifest
from shuffledp.ledger.ledger import Ledger
from shuffledp.service.batch_receiver import receive
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import AnalystKey
from shuffledp.service.sealing import CampaignSealer
from tests.cli import run
from tests.collection import read_encoded_file, read_messages
from tests.oracle import hpke
from tests.service import ANALYST, COLOURS, SHUFFLER, create_campaign, plan_for

pytestmark = pytest.mark.usefixtures("no_pictures")

CAMPAIGN = create_campaign(plan_for(users=60, minimum=40))
VALUES = pa.array([COLOURS[number % 3] for number in range(60)])


def mixed(room: Path, campaign: Campaign = CAMPAIGN, extra: list[bytes] | None = None) -> Path:
    """What the shuffler hands on: the messages of two encoders, and rows of anybody's."""
    sealing, plan = CampaignSealer(campaign), campaign.plan
    files = []
    for number, part in enumerate((VALUES[:20], VALUES[20:])):
        files.append(room / f"{number}.messages")
        collection.encode(plan, part, out=files[-1], wrapper=sealing)
    if extra:
        wire = np.frombuffer(b"".join(extra), dtype=np.uint8).reshape(len(extra), -1)
        lot = BatchSpec(sealing.identity(plan, 1), wire.shape[1], len(wire), 1, len(wire), len(wire), USERS)
        files.append(room / "extra.messages")
        message_files.write_encoded_file(files[-1], lot, [wire])
    collection.shuffle(files, out=room / "shuffled", plan=plan, wrapper=sealing)
    return room / "shuffled"


def test_sealed_messages_are_estimated(tmp_path: Path) -> None:
    """What comes out is what the oracle opens, in order; one ledger counts it once."""
    there, ledger = mixed(tmp_path), Ledger.create(tmp_path / "ledger.sqlite")
    sealed = read_messages(there, 49)
    assert sealed == sorted([*read_encoded_file(tmp_path / "0.messages"), *read_encoded_file(tmp_path / "1.messages")])
    made = receive(CAMPAIGN, ANALYST, there, out=tmp_path / "opened")
    opened = [hpke.open_envelope(ANALYST.private_key.secret, CampaignSealer(CAMPAIGN).info, row) for row in sealed]
    assert read_messages(tmp_path / "opened", 1) == sorted(opened)
    assert (made.users, made.messages, made.refused) == (60, 60, 0)
    assert made.digest == Manifest.read(there).digest
    report = collection.estimate(CAMPAIGN.plan, tmp_path / "opened", out=tmp_path / "result", ledger=ledger.path)
    assert report.guarantee.users == 60
    wire = np.frombuffer(b"".join(opened), dtype=np.uint8).reshape(-1, 1)
    mechanism = CAMPAIGN.plan.mechanism
    np.testing.assert_array_equal(report.estimate.value, mechanism.estimate(mechanism.unpack(wire)).value)
    with pytest.raises(ValueError, match="another plan or round"):
        collection.estimate(CAMPAIGN.plan, there, out=tmp_path / "other")


def test_the_shuffler_and_the_analyst_may_keep_one_ledger(tmp_path: Path) -> None:
    """The same messages, sealed and opened, count once."""
    ledger, sealing = Ledger.create(tmp_path / "ledger.sqlite"), CampaignSealer(CAMPAIGN)
    collection.encode(CAMPAIGN.plan, VALUES, out=tmp_path / "a.messages", wrapper=sealing)
    collection.shuffle(
        [tmp_path / "a.messages"], out=tmp_path / "s", plan=CAMPAIGN.plan, wrapper=sealing, ledger=ledger.path
    )
    receive(CAMPAIGN, ANALYST, tmp_path / "s", out=tmp_path / "o")
    collection.estimate(CAMPAIGN.plan, tmp_path / "o", out=tmp_path / "r", ledger=ledger.path)
    (standing,) = ledger.budget_statuses()
    assert [entry.users for entry in standing.entries] == [60]


def test_bad_rows_are_counted_and_stop_nobody(tmp_path: Path) -> None:
    """Garbage, a repetition, another campaign's message and one that is no message: each takes a user off."""
    other = create_campaign(CAMPAIGN.plan)
    again = CAMPAIGN.analyst_key.seal(CampaignSealer(CAMPAIGN).info, b"\x02")
    extra = [bytes(49), again, again, CAMPAIGN.analyst_key.seal(CampaignSealer(other).info, b"\x00"),
             CAMPAIGN.analyst_key.seal(CampaignSealer(CAMPAIGN).info, b"\xff")]  # fmt: skip
    made = receive(CAMPAIGN, ANALYST, mixed(tmp_path, extra=extra), out=tmp_path / "opened")
    assert (made.users, made.messages, made.refused) == (65, 62, 3)
    report = collection.estimate(CAMPAIGN.plan, tmp_path / "opened", out=tmp_path / "result")
    assert report.document()["counts"]["refused"] == 4
    assert report.guarantee.users == 61


def test_noise_of_the_shuffler_is_sealed(tmp_path: Path) -> None:
    """It looks like everybody else's messages, and is in the estimate."""
    mechanism = next(one for one in CancellingNoise.examples() if one.message_plan.has_shuffler_noise)
    plan = Plan(tasks.Frequency(mechanism.options), mechanism, users=30, epsilon=20.0, delta=1e-2)
    campaign = create_campaign(plan)
    sealing = CampaignSealer(campaign)
    collection.encode(plan, pa.array([0, 1] * 15), out=tmp_path / "a.messages", wrapper=sealing)
    with pytest.raises(ValueError, match="give the plan with plan"):
        collection.shuffle([tmp_path / "a.messages"], out=tmp_path / "none")
    sent = len(read_encoded_file(tmp_path / "a.messages"))
    total = collection.shuffle([tmp_path / "a.messages"], out=tmp_path / "s", plan=plan, wrapper=sealing)
    assert total > sent == 30 * campaign.messages_per_user
    made = receive(campaign, ANALYST, tmp_path / "s", out=tmp_path / "o")
    assert (made.messages, made.refused, made.noise) == (total, 0, "shuffler")
    assert collection.estimate(plan, tmp_path / "o", out=tmp_path / "r").guarantee.users == 30


def test_what_is_refused(tmp_path: Path) -> None:
    """Another key, campaign, round or plan, by a sentence each; nothing is left behind."""
    there = mixed(tmp_path)
    with pytest.raises(ValueError, match="another key"):
        receive(CAMPAIGN, AnalystKey.new(), there, out=tmp_path / "opened")
    with pytest.raises(ValueError, match="another campaign"):
        receive(create_campaign(CAMPAIGN.plan), ANALYST, there, out=tmp_path / "opened")
    with pytest.raises(ValueError, match="at most 1"):
        receive(CAMPAIGN, ANALYST, there, out=tmp_path / "opened", round_number=2)
    with pytest.raises(ValueError, match="not about this plan"):
        collection.encode(plan_for(users=61), VALUES, out=tmp_path / "x.messages", wrapper=CampaignSealer(CAMPAIGN))
    told = json.loads((there / "_manifest.json").read_text())
    (there / "_manifest.json").write_text(json.dumps(told | {"noise": "shuffler"}))
    with pytest.raises(ValueError, match="was to draw the noise"):
        receive(CAMPAIGN, ANALYST, there, out=tmp_path / "opened")
    assert not (tmp_path / "opened").exists()
    assert not (tmp_path / "x.messages").exists()


def test_the_commands(tmp_path: Path) -> None:
    """keys, campaign, encode --seal, shuffle, receive, estimate: the whole way on files."""
    CAMPAIGN.plan.save(tmp_path / "plan.json")
    (tmp_path / "data.csv").write_text("colour\n" + "\n".join(VALUES.to_pylist()) + "\n", "utf-8")
    at = {name: str(tmp_path / name) for name in ("plan.json", "data.csv", "analyst.key", "shuffler.key",
          "campaign.json", "mine.messages", "shuffled", "opened", "result")}  # fmt: skip

    def done(*arguments: str) -> str:
        outcome = run(*arguments)
        assert (outcome.status, outcome.stderr_complaints) == (0, "")
        return outcome.out

    assert json.loads(done("keys", "new", at["analyst.key"]))["kem"] == 32
    identity = done("keys", "new", at["shuffler.key"], "--shuffler")
    assert done("keys", "show", at["shuffler.key"]) == identity
    (tmp_path / "shuffler.json").write_text(identity)
    done("campaign", "create", at["plan.json"], "--analyst-key", at["analyst.key"], "--shuffler",
         str(tmp_path / "shuffler.json"), "--out", at["campaign.json"], "--analyst", "Example Institute",
         "--window", "7d")  # fmt: skip
    shown = done("campaign", "show", at["campaign.json"])
    assert "if 40 take part" in shown
    assert "Example Institute" in shown
    assert json.loads(done("campaign", "show", at["campaign.json"], "--json"))["campaign"]["window"] == 604800
    done("encode", at["plan.json"], "--input", at["data.csv"], "--column", "colour", "--out", at["mine.messages"],
         "--seal", at["campaign.json"])  # fmt: skip
    done("shuffle", at["mine.messages"], "--out", at["shuffled"], "--plan", at["plan.json"], "--no-ledger",
         "--sealed", at["campaign.json"])  # fmt: skip
    assert "60 messages" in done("receive", at["campaign.json"], "--key", at["analyst.key"], "--input", at["shuffled"],
                                 "--out", at["opened"])  # fmt: skip
    done("estimate", at["plan.json"], "--input", at["opened"], "--out", at["result"], "--no-ledger")
    outcome = run("shuffle", at["mine.messages"], "--out", str(tmp_path / "x"), "--sealed", at["campaign.json"])
    assert (outcome.status, outcome.out) == (2, "")
    assert run("campaign", "create", at["plan.json"], "--analyst-key", at["analyst.key"], "--shuffler", at["plan.json"],
               "--out", str(tmp_path / "y")).status == 2  # fmt: skip
    assert SHUFFLER.public_document != json.loads(identity)
