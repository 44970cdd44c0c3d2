"""A person's device: its client is imported, and sends, without planner, bounds and proofs; and what it then checks."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from shuffledp import Client, Plan, PureDUMP, SplitAndMix, tasks
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.ledger.hash_chain import format_canonical_json
from shuffledp.planning import mechanism_calibration
from shuffledp.service import crypto
from shuffledp.service.campaign import Campaign, DevicePlan
from shuffledp.service.client import Wallet
from shuffledp.service.crypto import MESSAGE_LABEL, REPORT_LABEL, build_context
from tests.oracle import hpke
from tests.service import ANALYST, COLOURS, create_campaign, plan_for
from tests.service.test_client import Wire, wire as wire
from tests.service.test_round import USERS, Shuffler

CAMPAIGN = create_campaign(plan_for(USERS))
NOT_ON_DEVICES = (
    "shuffledp.auditing",
    "shuffledp.bounds",
    "shuffledp.calibration",
    "shuffledp.certificates",
    "shuffledp.privacy.composition",
    "shuffledp.planning",
    "shuffledp.statement",
    "shuffledp.testing",
)
"""Planning, proving and testing: nothing that encodes, seals or sends needs them."""
MAX_MODULES = 40
SENDS = f"""
import json, sys
from pathlib import Path

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith({NOT_ON_DEVICES!r}):
            raise ImportError(f"{{name}} is not on this device")

sys.meta_path.insert(0, Blocked())
try:
    import shuffledp.bounds
except ImportError:
    pass
else:
    raise AssertionError("nothing is blocked")
from shuffledp.service.client import Client
from shuffledp.service.client import HttpClient, ShufflerResponse

posted, asked = [], json.loads(sys.stdin.read())

def ask(self, method, path, body=None, headers=None, at_most=0):
    if method == "GET":
        return ShufflerResponse(200, notice)
    posted.append(body.hex())
    return ShufflerResponse(201, b"")

HttpClient.request = ask
for campaign, told, value in asked:
    notice = bytes.fromhex(told)
    client = Client(campaign, "wallet", limit=100.0, delta=0.1, verify=False)
    assert client.send(value) == 1
    spent = client.spent
print(json.dumps([posted, spent]))
"""
"""A program that sends answers in turn: a campaign's file, the notice of its round and a value, each."""


def shufflers_of(room: Path, *plans: Plan) -> list[Shuffler]:
    return [Shuffler(room / str(number), create_campaign(plan)) for number, plan in enumerate(plans)]


def test_importing_the_client_loads_no_prover() -> None:
    """Neither planner, bounds, proofs nor libraries for them; a task and a mechanism are loaded with a campaign."""
    program = "import shuffledp.service.client, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    loaded = done.stdout.split()
    assert [name for name in loaded if name.startswith(NOT_ON_DEVICES)] == []
    assert [name for name in ("flint", "scipy", "pyarrow", "cryptography", "starlette") if name in loaded] == []
    assert len([name for name in loaded if name.split(".")[0] == "shuffledp"]) <= MAX_MODULES


def test_a_device_sends_where_they_cannot_be_imported(tmp_path: Path) -> None:
    """One message a person, or many, or with noise: every report opens at the other end, message by message."""
    shares = SplitAndMix(rate=1 / 128, levels=128, modulus=1 << 20, messages=9, honest=1000)
    plans = [
        plan_for(USERS),
        Plan(tasks.Frequency(COLOURS), PureDUMP(3, dummies=60), users=200, epsilon=3.0, delta=1e-4),
        Plan(tasks.Mean(0, 1), shares, users=1000, epsilon=2.0, delta=1e-4),
    ]
    shufflers, asked = shufflers_of(tmp_path, *plans), []
    for number, (shuffler, value) in enumerate(zip(shufflers, ("red", "blue", 0.25), strict=True)):
        shuffler.campaign.save(tmp_path / f"{number}.json")
        asked.append((f"{number}.json", shuffler.round().notice.hex(), value))
    done = subprocess.run(
        [sys.executable, "-c", SENDS],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    posted, spent = json.loads(done.stdout)
    assert spent == pytest.approx(sum(shuffler.campaign.promised_epsilon for shuffler in shufflers))
    for shuffler, report in zip(shufflers, map(bytes.fromhex, posted), strict=True):
        assert shuffler.post(report)
        campaign, key = shuffler.campaign, shuffler.paths.round_key(shuffler.round().name)
        assert key is not None
        inside, width = (
            hpke.open_envelope(key.secret, build_context(REPORT_LABEL, campaign.id, 1), report),
            campaign.message_bytes,
        )
        messages = [inside[start : start + width] for start in range(0, len(inside), width)]
        assert len(messages) == campaign.messages_per_user
        plain = [
            hpke.open_envelope(ANALYST.private_key.secret, build_context(MESSAGE_LABEL, campaign.id, 1), each)
            for each in messages
        ]
        assert {len(each) for each in plain} == {campaign.plan.mechanism.message_bytes}


@pytest.mark.parametrize("plan", [plan_for(minimum=30, colluding=4, rounds=2), plan_for()], ids=["all", "least"])
def test_a_device_reads_the_same_of_a_plan(plan: Plan) -> None:
    """By itself from the document, or from the plan that was read in full."""
    one, other = DevicePlan.from_plan(plan), DevicePlan.from_document(plan.document())
    assert (one.task.to_document(), one.mechanism) == (other.task.to_document(), other.mechanism)
    assert one.promise_conditions() == other.promise_conditions()
    assert (one.rounds, one.is_sampled) == (other.rounds, other.is_sampled)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 3}, {"format": "x"}, {"users": 0}, {"users": "many"}, {"minimum": 41}, {"colluding": 40},
        {"delta": 2}, {"rounds": 0}, {"task": "frequency"}, {"task": {"name": "x"}}, {"mechanism": {"name": "x"}},
        {"mechanism": "krr"}, {"mechanism": {"name": "duchi", "epsilon": 1.0, "settings": {"dimension": 2}}},
        {"of": 1000},
    ],
    ids=str,
)  # fmt: skip
def test_a_plan_that_a_device_cannot_act_on(changes: dict[str, Any]) -> None:
    """Is one sentence, also where nothing else of the plan is checked."""
    told = CAMPAIGN.document
    with pytest.raises(ValueError, match=r"^campaign: [^\n]*\.$"):
        Campaign.parse(format_canonical_json(told | {"plan": told["plan"] | changes}).encode(), whole_plan=False)


@pytest.mark.parametrize("name", ["format", "users", "delta", "task", "mechanism"])
def test_a_plan_without_a_field_that_devices_need(name: str) -> None:
    told = CAMPAIGN.document
    fewer = {each: value for each, value in told["plan"].items() if each != name}
    with pytest.raises(ValueError, match=rf"^campaign: (its plan lacks the field '{name}'|expected a plan .*)\.$"):
        Campaign.parse(format_canonical_json(told | {"plan": fewer}).encode(), whole_plan=False)


def test_what_a_device_checks(tmp_path: Path) -> None:
    """By default that the promise is proved; without bounds only that it is about the campaign's plan."""
    told = CAMPAIGN.document
    better = format_canonical_json(
        told | {"promise": told["promise"] | {"epsilon": CAMPAIGN.promised_epsilon * 0.999}}
    ).encode()
    other = format_canonical_json(told | {"promise": told["promise"] | {"users": 41}}).encode()
    unknown = format_canonical_json(told | {"plan": told["plan"] | {"bound": "none"}}).encode()
    for content in (better, unknown):
        (tmp_path / "campaign.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"not proved|bound must be one of"):
            Client(tmp_path / "campaign.json", tmp_path / "wallet")
        Client(tmp_path / "campaign.json", tmp_path / "wallet", verify=False)
    with pytest.raises(ValueError, match="does not match its plan"):
        Campaign.parse(other, whole_plan=False)
    with pytest.raises(GuaranteeTooWeak, match="without the shuffler"):
        Client(CAMPAIGN, tmp_path / "wallet", local_limit=0.4, verify=False)


def test_promises_are_added_up_without_bounds(wire: Wire, tmp_path: Path) -> None:
    """A campaign counts once, with all of its rounds; above the limit, or with too large a δ, nothing is sent."""
    settings: dict[str, Any] = {"limit": 5.0, "delta": 2e-6, "verify": False}
    first = wire.shuffler.campaign
    Client(first, tmp_path / "wallet", **settings).send("red")
    wire.number = 2
    assert (
        Wallet.open_directory(tmp_path / "wallet", 5.0, 2e-6, verify=False).total_epsilon(first)
        == first.promised_epsilon
    )
    second, third = shufflers_of(tmp_path / "others", plan_for(USERS), plan_for(USERS, minimum=30))
    wire.shuffler, wire.number = second, 1
    both = Fraction(first.promised_epsilon) + Fraction(second.campaign.promised_epsilon)
    with pytest.raises(GuaranteeTooWeak, match="above your limit"):
        Client(second.campaign, tmp_path / "wallet", **settings | {"limit": float(both) * 0.999}).send("red")
    client = Client(second.campaign, tmp_path / "wallet", **settings)
    client.send("red")
    assert both <= Fraction(client.spent) <= both * (1 + Fraction(1, 2**52))
    # Rounds of each, composed: what was really given is less than what was promised for all rounds.
    assert Wallet.open_directory(tmp_path / "wallet", 5.0, 2e-6).total_epsilon() < client.spent
    wire.shuffler = third
    with pytest.raises(GuaranteeTooWeak, match="δ of all campaigns"):
        Client(third.campaign, tmp_path / "wallet", **settings).send("red")
    assert len(wire.posted) == 2


def test_sealing_adds_what_the_planner_counts() -> None:
    """Two layers state it: envelopes as they are made, and the costs that plans are ranked by."""
    assert crypto.ENVELOPE_OVERHEAD_BYTES == mechanism_calibration.SEAL_OVERHEAD_BYTES
