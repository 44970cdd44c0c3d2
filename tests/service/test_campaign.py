"""Campaigns: one text, one id; what is promised is computed again; signatures; key files."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from shuffledp import KRR, CancellingNoise, Plan, PureDUMP, tasks
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.service import crypto
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import AnalystKey, ShufflerKey, verify_document
from tests.service import ANALYST, COLOURS, SHUFFLER, create_campaign, plan_for

CAMPAIGN = create_campaign(plan_for(minimum=30, colluding=4))


def changed(**fields: Any) -> dict[str, Any]:
    return CAMPAIGN.document | fields


def test_one_text_and_one_id(tmp_path: Path) -> None:
    """The id is a hash of the bytes, which are the file's but for the line's end."""
    CAMPAIGN.save(tmp_path / "campaign.json")
    content = (tmp_path / "campaign.json").read_bytes().removesuffix(b"\n")
    assert CAMPAIGN.id == hashlib.sha256(b"shuffledp v1 campaign\0" + content).hexdigest()
    told = json.loads(content)
    assert json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == content
    assert Campaign.load(tmp_path / "campaign.json") == CAMPAIGN
    with pytest.raises(ValueError, match="never overwritten"):
        CAMPAIGN.save(tmp_path / "campaign.json")
    with pytest.raises(ValueError, match="not canonical JSON"):
        Campaign.parse(json.dumps(told).encode())
    assert create_campaign(plan_for(minimum=30, colluding=4)).id != CAMPAIGN.id


def test_what_it_says() -> None:
    """The plan as it was, keys, sizes of what is sent, and the promise at the minimum."""
    assert CAMPAIGN.plan == plan_for(minimum=30, colluding=4)
    assert CAMPAIGN.analyst_key == ANALYST.private_key.public_key
    assert CAMPAIGN.shuffler_identity == SHUFFLER.identity
    assert (CAMPAIGN.message_bytes, CAMPAIGN.report_bytes) == (49, 97)
    promise = CAMPAIGN.document["promise"]
    assert (promise["users"], promise["colluding"], promise["epsilon_local"]) == (30, 4, 0.5)
    assert promise["epsilon"] > create_campaign(plan_for(users=40)).promised_epsilon


def test_how_many_reports_a_round_takes() -> None:
    """What the campaign says, at least its minimum; else ten times the planned users, and no few for small ones."""
    assert create_campaign(plan_for(minimum=30), capacity=30).capacity == 30
    assert (CAMPAIGN.capacity, "capacity" in CAMPAIGN.document) == (100_000, False)
    assert create_campaign(plan_for(users=20_000)).capacity == 200_000


@pytest.mark.parametrize(
    "document",
    [
        changed(version=2),
        changed(more=1),
        {name: value for name, value in CAMPAIGN.document.items() if name != "nonce"},
        changed(window="7d"),
        changed(window=0),
        changed(extensions=-1),
        changed(hops=[]),
        changed(hops=CAMPAIGN.document["hops"] * 2),
        changed(hops=[{"operator": "", "url": ""}]),
        changed(hops=["x"]),
        changed(analyst={"operator": 1, "key": CAMPAIGN.document["analyst"]["key"]}),
        changed(analyst={}),
        changed(nonce="zz"),
        changed(fetch="00"),
        changed(promise={}),
        changed(promise=CAMPAIGN.document["promise"] | {"users": 31}),
        changed(promise=CAMPAIGN.document["promise"] | {"epsilon": True}),
        changed(plan={}),
        changed(capacity="1000"),
        changed(capacity=29),
        changed(capacity=10**13),
    ],
)
def test_what_is_no_campaign_is_one_sentence(document: dict[str, Any]) -> None:
    """Whatever is wrong with it."""
    with pytest.raises((ValueError, TypeError), match=r"^(campaign|plan): [^\n]*\.$"):
        Campaign.from_document(document)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{" * 10_000, b" " * (2 << 20)])
def test_bytes_that_are_none(content: bytes) -> None:
    """Nor do they take long."""
    with pytest.raises(ValueError, match="expected a file"):
        Campaign.parse(content)


def test_the_promise_is_computed_again() -> None:
    """One that is too small is refused, and one that rests on the shuffler alone unless that is accepted."""
    CAMPAIGN.prove_promise()
    better = CAMPAIGN.document["promise"] | {"epsilon": CAMPAIGN.promised_epsilon * 0.999}
    with pytest.raises(ValueError, match="not proved"):
        Campaign.from_document(changed(promise=better)).prove_promise()
    dump = Plan(tasks.Frequency(COLOURS), PureDUMP(3, dummies=60), users=200, epsilon=3.0, delta=1e-4)
    resting = create_campaign(dump)
    with pytest.raises(ValueError, match="without_local=True"):
        resting.prove_promise()
    resting.prove_promise(without_local=True)
    assert resting.report_bytes == 61 * 49 + 48


def test_plans_that_are_no_campaigns() -> None:
    """A target that is missed; numbers of messages that vary; secret samples."""
    with pytest.raises(GuaranteeTooWeak):
        create_campaign(Plan(tasks.Frequency(COLOURS), KRR(4.0, 3), users=40, epsilon=0.5, delta=1e-6))
    noise = next(one for one in CancellingNoise.examples() if one.message_plan.user_messages(1) is None)
    varying = Plan(tasks.Frequency(noise.options), noise, users=100, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="different numbers"):
        create_campaign(varying)
    drawn = Plan(tasks.Frequency(COLOURS), KRR(0.5, 3), users=40, epsilon=1.0, delta=1e-6, out_of=400)
    with pytest.raises(ValueError, match="drawn"):
        create_campaign(drawn)


def test_signatures() -> None:
    """Every change of document, label and signer is noticed."""
    content = SHUFFLER.sign_document(b"label", {"a": 1})
    assert verify_document("who", SHUFFLER.identity, b"label", content) == {"a": 1}
    others = [
        (ShufflerKey.new().identity, b"label", content),
        (SHUFFLER.identity, b"other", content),
        (SHUFFLER.identity, b"label", content.replace(b"1", b"2", 1)),
        (SHUFFLER.identity, b"label", b'{"a":1}'),
        (SHUFFLER.identity, b"label", b"["),
    ]
    for identity, label, given in others:
        with pytest.raises(ValueError, match="not signed"):
            verify_document("who", identity, label, given)


def test_key_files(tmp_path: Path) -> None:
    """For their owner only, of one kind, never written over."""
    for kind, made in (("analyst", ANALYST), ("shuffler", SHUFFLER)):
        path = tmp_path / kind
        made.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert crypto.load_key(path) == made
        with pytest.raises(ValueError, match="already there"):
            made.save(path)
    with pytest.raises(ValueError, match="expected the key of an analyst"):
        AnalystKey.load(tmp_path / "shuffler")
    (tmp_path / "none").write_text("{}")
    with pytest.raises(ValueError, match="not a key file"):
        crypto.load_key(tmp_path / "none")
    with pytest.raises(ValueError, match="cannot read"):
        crypto.load_key(tmp_path / "nowhere")


def test_the_secret_of_a_batch_is_the_campaigns_own() -> None:
    """Another campaign of the same analyst has another one: a shuffler cannot fetch from another shuffler."""
    other = create_campaign()
    assert CAMPAIGN.authorizes_fetch(ANALYST.fetch_token(CAMPAIGN.nonce))
    assert not CAMPAIGN.authorizes_fetch(ANALYST.fetch_token(other.nonce))
    assert not CAMPAIGN.authorizes_fetch(AnalystKey.new().fetch_token(CAMPAIGN.nonce))
