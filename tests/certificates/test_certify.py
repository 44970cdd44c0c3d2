"""certify and verify from Python; whose law a claim is about."""

from __future__ import annotations

import json
import math
from pathlib import Path
from unittest import mock

import pytest
from shuffledp_verify import Finding, Verdict

import shuffledp as sdp
from shuffledp.certificates.certify import certify
from shuffledp.certificates.claim import build_claim, parse_mechanism_claim, verify
from shuffledp.mechanisms import plugins
from tests.cli import run
from tests.mechanisms.test_visitor import TOY, forget, written

__all__ = ["forget"]


def test_a_claim_from_a_randomizer(tmp_path: Path) -> None:
    """The same claim as from the curve's own value; proved as an object and as a file."""
    claim = certify(sdp.KRR(2.0, 16), 5_100, delta=1e-6, colluding=100, effort="quick")
    value = sdp.amplify(sdp.KRR(2.0, 16), 5_000, effort="quick").epsilon(1e-6)
    assert claim == build_claim(sdp.KRR(2.0, 16), 5_000, value, delta=1e-6)
    assert verify(claim).verdict is Verdict.YES
    path = tmp_path / "claim.json"
    claim.save(path)
    assert parse_mechanism_claim(path.read_text(encoding="utf-8")).text() == claim.text()
    for given in (path, str(path)):
        assert verify(given).verdict is Verdict.YES
    assert str(verify(path)).startswith("yes: the divergence is at most delta")
    assert claim.statement in str(claim)
    assert "krr: epsilon = 2.0, options = 16" in str(claim)
    assert ">krr: epsilon = 2.0, options = 16</td>" in claim._repr_html_()


def test_delta_of_an_epsilon() -> None:
    """The other way round; parameters and tables are shown too."""
    claim = certify(sdp.VariationRatio.from_ldp(1.0), 1_000, epsilon=0.2, effort="quick")
    assert claim.epsilon == 0.2
    assert "parameters: p = 2.7" in str(claim)
    assert verify(claim).verdict is Verdict.YES
    assert "a table of 2 inputs and 2 messages" in str(
        certify(sdp.FromTable([[0.6, 0.4], [0.4, 0.6]]), 9, delta=0.1, effort="quick")
    )


def test_an_infinite_parameter() -> None:
    """Proved as an object and as a file, which are the same."""
    claim = certify(sdp.VariationRatio(math.inf, 1.0, 16.0), 1_000, delta=1e-6, effort="quick")
    assert parse_mechanism_claim(claim.text()) == claim
    assert parse_mechanism_claim(claim.text()).text() == claim.text()
    assert verify(claim).verdict is Verdict.YES


def test_a_bound_without_a_second_proof_gives_way_to_one_that_has() -> None:
    """Unless it is asked for by name."""
    coin = sdp.KRR(1.0, 2)
    assert certify(coin, 300, delta=1e-6, effort="quick").bound == "exact-binary"
    undecided = Finding(Verdict.OPEN, "it takes too long.", "none")
    with mock.patch("shuffledp_verify.proofs.decide_binary", return_value=undecided):
        assert certify(coin, 300, delta=1e-6, effort="quick").bound == "optimal"
        with pytest.raises(ValueError, match="no second proof of exact-binary was found: it takes too long"):
            certify(coin, 300, delta=1e-6, bound="exact-binary")
    with pytest.raises(ValueError, match="expected a numeric bound"):
        certify(coin, 300, delta=1e-6, bound="analytic")


@pytest.mark.parametrize("target", [{}, {"delta": 1e-6, "epsilon": 0.1}])
def test_one_target(target: dict[str, float]) -> None:
    """Exactly one of the two."""
    with pytest.raises(ValueError, match="give either delta"):
        certify(sdp.KRR(1.0, 4), 100, **target, effort="quick")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """One sentence."""
    with pytest.raises(ValueError, match="cannot read"):
        verify(tmp_path / "missing.json")


def test_no_table_of_exponentially_many_inputs_is_written_down() -> None:
    """Small sets are checked on every entry, large ones are the mechanism's word: the method says which."""
    small = verify(certify(sdp.SamplingRAPPOR(1.0, options=5, items=2), 300, delta=1e-4, bound="variation-ratio"))
    large = verify(certify(sdp.SamplingRAPPOR(1.0, options=40, items=20), 300, delta=1e-4, bound="variation-ratio"))
    assert (small.verdict, large.verdict) == (Verdict.YES, Verdict.YES)
    assert "law checked against the table" in small.method
    assert "law from the mechanism" in large.method


# --- mechanisms of somebody else --------------------------------------------------------------------------------------


def test_whose_law_it_is(tmp_path: Path) -> None:
    """The claim and the finding name the class; a claim that hides it, or of another file, is not decided."""
    kind = plugins.load_file(written(tmp_path, TOY.format(name="toy")))["toy"]
    claim = certify(kind(2.0, 16), 1_000, delta=1e-6, effort="quick")  # type: ignore[call-arg]
    origin = plugins.origin(kind)
    assert claim.origin == origin
    assert json.loads(claim.text())["randomizer"]["origin"] == origin
    assert f"law of      {origin}: not of shuffledp" in str(claim)
    finding = verify(parse_mechanism_claim(claim.text()))
    assert finding.verdict is Verdict.YES
    assert f"as stated by {origin}, which is not of shuffledp" in finding.method
    document = json.loads(claim.text())
    del document["randomizer"]["origin"]
    hidden = verify(parse_mechanism_claim(json.dumps(document)))
    assert hidden.verdict is Verdict.OPEN
    assert "of shuffledp, and the one of that name here is of mine.py:Toy" in hidden.reason
    document["randomizer"]["origin"] = "mine.py:Toy, sha256 0"
    assert verify(parse_mechanism_claim(json.dumps(document))).verdict is Verdict.OPEN
    document["randomizer"] |= {"mechanism": "krr", "origin": origin}
    assert verify(parse_mechanism_claim(json.dumps(document))).verdict is Verdict.OPEN
    document["randomizer"]["origin"] = 7
    with pytest.raises(ValueError, match="origin must be a text"):
        parse_mechanism_claim(json.dumps(document))


def test_our_own_mechanisms_carry_no_origin() -> None:
    """The files of before stay what they were."""
    claim = certify(sdp.KRR(2.0, 16), 1_000, delta=1e-6, effort="quick")
    assert claim.origin is None
    assert json.loads(claim.text())["randomizer"].keys() == {"mechanism", "epsilon", "settings"}


def test_on_the_command_line(tmp_path: Path) -> None:
    """A certificate of one's own mechanism is proved again where its file is at hand."""
    file, claim = str(written(tmp_path, TOY.format(name="toy"))), str(tmp_path / "claim.json")
    words = ("amplify", "--epsilon-local", "2", "--set", "options=16", "--users", "1000", "--delta", "1e-6")
    assert run(*words, "--mechanism-file", file, "--certificate", claim).status == 0
    plugins._registered.clear()
    unknown = run("verify", claim)
    assert (unknown.status, unknown.out) == (2, "")
    assert "mechanism must be one of" in unknown.err
    known = run("verify", claim, "--mechanism-file", file, "--json")
    assert known.status == 0
    assert "mine.py:Toy" in json.loads(known.out)["method"]
