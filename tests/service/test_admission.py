"""Tokens that admit people: the RFC's own vectors, what is refused, and that each counts once in its round alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

import shuffledp
from shuffledp._core.validation import Bytes
from shuffledp.service.campaign import Campaign
from shuffledp.service.notices_and_statements import BatchStatement
from shuffledp.service.sealing import seal_reports
from shuffledp.service.stores import RoundState
from shuffledp.service.tokens import TOKEN_BYTES, Issuer, IssuerKey, PrivateTokens, TokenRequest
from tests.cli import run
from tests.collection import read_messages
from tests.service import ANALYST, SHUFFLER, plan_for
from tests.service.test_round import NOW, Shuffler, batch_bytes

pytestmark = pytest.mark.usefixtures("no_pictures")

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "private_tokens.json").read_text("utf-8"))["vectors"]
USERS = 30


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer.new()


def campaign_with(issuer: Issuer, rounds: int = 1) -> Campaign:
    return Campaign.create(
        plan_for(USERS, rounds=rounds), ANALYST, SHUFFLER.identity, url="http://127.0.0.1", operators=("A", "B"),
        window=3600, extensions=0, admission=PrivateTokens("issuer.example", issuer.key),
    )  # fmt: skip


def token_of(issuer: Issuer, campaign: Campaign, number: int = 1) -> bytes:
    """As a client gets one."""
    assert isinstance(campaign.admission, PrivateTokens)
    request = campaign.admission.request(campaign.id, number)
    return request.finish(issuer.sign(request.content))


def report(shuffler: Shuffler, token: bytes, value: int = 0, number: int = 1) -> bytes:
    mechanism = shuffler.campaign.plan.mechanism
    wire = mechanism.pack(mechanism.encode(np.array([value])))
    tokens: Bytes = np.frombuffer(token, dtype=np.uint8).reshape(1, -1)
    return seal_reports(shuffler.campaign, shuffler.notice(number), wire, tokens).tobytes()


@pytest.mark.parametrize("vector", VECTORS, ids=["first", "second"])
def test_vectors(vector: dict[str, str]) -> None:
    """Request, response and token, byte for byte."""
    told = {name: bytes.fromhex(text) for name, text in vector.items()}
    private = load_pem_private_key(told["skS"], None)
    issuer = Issuer(private)  # type: ignore[arg-type]
    key = IssuerKey.from_der(told["pkS"])
    assert (issuer.key, key.der) == (key, told["pkS"])
    blind = int.from_bytes(told["blind"], "big")
    request = TokenRequest.from_randomness(key, told["token_challenge"], told["nonce"], told["salt"], blind)
    assert request.content == told["token_request"]
    assert issuer.sign(request.content) == told["token_response"]
    assert request.finish(told["token_response"]) == told["token"]
    assert key.verifies(told["token"])


def test_what_is_no_token(issuer: Issuer) -> None:
    """Every altered byte, another issuer's, another campaign's, another round's; and requests that are none."""
    campaign, other = campaign_with(issuer, 2), campaign_with(issuer, 2)
    rule = campaign.admission
    assert isinstance(rule, PrivateTokens)
    good, stranger = token_of(issuer, campaign), Issuer.new()
    altered = [good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :] for place in range(0, TOKEN_BYTES, 7)]
    foreign = PrivateTokens("issuer.example", stranger.key).request(campaign.id, 1)
    wrong = [*altered, foreign.finish(stranger.sign(foreign.content)), token_of(issuer, other),
             token_of(issuer, campaign, 2), bytes(TOKEN_BYTES)]  # fmt: skip
    rows = np.frombuffer(b"".join([good, *wrong]), dtype=np.uint8).reshape(-1, TOKEN_BYTES)
    assert rule.verify_tokens(rows, campaign.id, 1).tolist() == [True] + [False] * len(wrong)
    with pytest.raises(ValueError, match="not a signature"):
        rule.request(campaign.id, 1).finish(issuer.sign(rule.request(campaign.id, 1).content))
    for content in (b"", bytes(259), rule.request(campaign.id, 1).content[:3] + b"\xff" * 256):
        with pytest.raises(ValueError, match="request for a token"):
            issuer.sign(content)
    with pytest.raises(ValueError, match="RSA-PSS key"):
        IssuerKey.from_der(issuer.key.der[:-1])


def test_a_token_counts_once(tmp_path: Path, issuer: Issuer) -> None:
    """Two reports with one token are one person; a forged one is nobody; nothing of tokens is in the batch."""
    campaign = campaign_with(issuer)
    first, second = (Shuffler(tmp_path / name, campaign) for name in "ab")
    (second.paths.keys / second.round().name).write_bytes((first.paths.keys / first.round().name).read_bytes())
    tokens = [token_of(issuer, campaign) for _ in range(USERS)]
    reports = [report(first, token) for token in tokens]
    greedy, forged = report(first, tokens[0], 1), report(first, tokens[1][:-1] + b"x")
    everything = [*reports, greedy, forged, reports[2]]
    assert {len(one) for one in everything} == {campaign.report_bytes} == {49 + 354 + 48}
    for one in everything:
        assert first.post(one)
    assert second.post(b"".join(reversed(everything)))
    for shuffler in (first, second):
        assert shuffler.turn() is RoundState.FORGOTTEN
        statement = BatchStatement.from_signed(campaign, shuffler.round().statement or b"")
        assert (statement.manifest.users, statement.repeated, statement.refused) == (USERS, 1, 2)
        assert len(read_messages(shuffler.paths.batch_directory(shuffler.round()), 49)) == USERS
    assert batch_bytes(first) == batch_bytes(second)
    assert all(tokens[5][2:34] not in content for content in batch_bytes(first).values())
    for shuffler in (first, second):
        shuffler.store.close()


def test_those_who_are_not_admitted_do_not_count(tmp_path: Path, issuer: Issuer) -> None:
    """The minimum is of people: a thousand reports with one token do not reach it."""
    shuffler = Shuffler(tmp_path, campaign_with(issuer))
    token = token_of(issuer, shuffler.campaign)
    for _ in range(USERS + 5):
        assert shuffler.post(report(shuffler, token), NOW)
    assert shuffler.turn() is RoundState.EXPIRED
    assert list(shuffler.paths.batches_directory.iterdir()) == []
    shuffler.store.close()


def test_reports_need_a_token(tmp_path: Path, issuer: Issuer) -> None:
    """And where everybody is admitted there is none."""
    shuffler = Shuffler(tmp_path, campaign_with(issuer))
    with pytest.raises(ValueError, match="token of 354 bytes"):
        shuffler.reports([0])
    plain = Shuffler(tmp_path / "plain", Campaign.from_document({
        name: value for name, value in shuffler.campaign.document.items() if name != "admission"
    }))  # fmt: skip
    with pytest.raises(ValueError, match="admits everybody"):
        report(plain, bytes(354))
    with pytest.raises(ValueError, match="does not know"):
        Campaign.from_document(shuffler.campaign.document | {"admission": {"kind": "guess"}})
    for store in (shuffler.store, plain.store):
        store.close()


def test_the_example_of_the_page(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with a function that gets its token."""
    monkeypatch.chdir(tmp_path)
    campaign = campaign_with(issuer)
    campaign.save("campaign.json")
    page = (Path(__file__).parents[2] / "docs" / "shuffler.md").read_text("utf-8")
    (example,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    room = {"sdp": shuffledp, "issuer": issuer}
    exec(example, room)
    client = room["client"]
    assert isinstance(client, shuffledp.Client)
    token = client._request_token(1)
    assert token is not None
    assert campaign.admission is not None
    assert campaign.admission.verify_tokens(token, campaign.id, 1).tolist() == [True]


def test_a_campaign_names_its_issuer(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command line, with the key as the issuer publishes it."""
    monkeypatch.chdir(tmp_path)
    plan_for(USERS).save("plan.json")
    Path("issuer.der").write_bytes(issuer.key.der)
    ANALYST.save("analyst.key")
    Path("shuffler.json").write_text(json.dumps(SHUFFLER.public_document), "utf-8")
    made = ("campaign", "create", "plan.json", "--analyst-key", "analyst.key", "--shuffler", "shuffler.json")
    outcome = run(*made, "--issuer", "issuer.example", "--issuer-key", "issuer.der", "--out", "campaign.json")
    assert (outcome.status, outcome.stderr_complaints) == (0, "")
    assert "once a round" in outcome.out
    assert Campaign.load("campaign.json").admission == PrivateTokens("issuer.example", issuer.key)
    assert run(*made, "--issuer-key", "plan.json", "--out", "other.json").status == 2
