"""Certificates of protocols in which every user sends several messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from shuffledp_verify import Verdict

import shuffledp as sdp
from shuffledp.certificates.claim import build_claim, parse_mechanism_claim, verify

PROTOCOLS: dict[str, Any] = {
    "pure": sdp.PureDUMP(options=16, dummies=2),
    "pure, blanks": sdp.PureDUMP(options=3, share=0.3),
    "mix": sdp.MixDUMP(options=8, flip=0.3),
    "mix, blanks": sdp.MixDUMP(options=8, flip=0.3, dummies=2, share=0.7),
    "balls": sdp.BallsIntoBins(options=100, bins=7),
    "cheu": sdp.CheuZhilyaev(options=4, flip=0.1),
    "balcer": sdp.BalcerCheu(options=2, coin=0.9),
    "balcer, many": sdp.BalcerCheu(options=5, coin=0.75, coins=2),
    "uniform": sdp.BalcerUniform(options=2, coins=3),
}


def document_of(protocol: Any, users: int, bound: str, delta: float) -> dict[str, Any] | None:
    """The file of a claim; None where there is nothing to claim."""
    value = sdp.amplify(protocol, users, bound=bound).epsilon(delta)
    if value.upper >= 700:
        return None
    document = json.loads(build_claim(protocol, users, value, delta=delta).text())
    assert isinstance(document, dict)
    return document


def verdict(document: dict[str, Any]) -> Verdict:
    return verify(parse_mechanism_claim(json.dumps(document))).verdict


@pytest.mark.parametrize("bound", ["optimal", "variation-ratio"])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_is_certified_is_proved_again(name: str, bound: str) -> None:
    """The law, and how many messages hide, are rebuilt from the protocol: yes at every number of users."""
    for users, delta in ((20, 1e-3), (3000, 1e-6), (10**7, 1e-9)):
        document = document_of(PROTOCOLS[name], users, bound, delta)
        assert document is None or verdict(document) is Verdict.YES


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_number_of_messages_cannot_be_stretched(name: str) -> None:
    """A claim for more users, or for more dummies or coins, is not proved for fewer."""
    document = document_of(PROTOCOLS[name], 3000, "optimal", 1e-6)
    assert document is not None
    fewer = {**document, "users": 2500, "statement": document["statement"].replace("3000", "2500")}
    assert verdict(fewer) is Verdict.NO


def test_fewer_dummies_hide_less() -> None:
    """The same claim with a dummy less is refuted, although the law of a dummy is the same."""
    document = document_of(PROTOCOLS["pure"], 3000, "optimal", 1e-6)
    assert document is not None
    document["randomizer"]["settings"]["dummies"] = 1
    assert verdict(document) is Verdict.NO


def test_a_local_epsilon_is_neither_there_nor_allowed() -> None:
    """A protocol without a local guarantee has no epsilon in its description."""
    document = document_of(PROTOCOLS["pure"], 3000, "optimal", 1e-6)
    assert document is not None
    assert set(document["randomizer"]) == {"mechanism", "settings"}
    document["randomizer"]["epsilon"] = 1.0
    with pytest.raises(ValueError, match="unknown field 'epsilon'"):
        parse_mechanism_claim(json.dumps(document))
