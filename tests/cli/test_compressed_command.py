"""Compressed mechanisms on the command line."""

from __future__ import annotations

import json

from tests.cli import run


def test_amplify_takes_a_compressed_mechanism() -> None:
    """By its prefixed name; the answer carries the assumption as a note."""
    words = ["amplify", "--mechanism", "compressed-rappor", "--epsilon-local", "2", "--set", "options=100"]
    outcome = run(*words, "--users", "10000", "--delta", "1e-6", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["mechanism"] == {
        "name": "compressed-rappor",
        "epsilon": 2.0,
        "options": 100,
        "gamma": 1e-9,
        "prg": "aes-ctr",
    }
    assert document["guarantee"]
    assert "AES-128" in document["note"]
    assert 0 < document["epsilon"]["upper"] < 0.2


def test_calibrate_takes_a_compressed_mechanism() -> None:
    """The local ε is searched as for the mechanism itself."""
    words = ["calibrate", "--mechanism", "compressed-rappor", "--set", "options=100", "--users", "10000"]
    outcome = run(*words, "--epsilon", "0.5", "--delta", "1e-6", "--json")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["mechanism"]["name"] == "compressed-rappor"
    assert document["mechanism"]["epsilon"] > 2


def test_a_mechanism_without_a_reference_law_is_refused() -> None:
    """One sentence, exit 2."""
    words = ["amplify", "--mechanism", "compressed-piecewise", "--epsilon-local", "2"]
    outcome = run(*words, "--users", "10000", "--delta", "1e-6")
    assert outcome.status == 2
    assert outcome.out == ""
    assert "gives its reference law" in outcome.err
