"""A sentence begins with what was called: the function or class in Python, the command on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp._core import validation
from tests.cli import run

KRR = sdp.KRR(1.0, 4)
NORMAL = sdp.tradeoff.GaussianTradeOff(1.0)
LAPLACE = sdp.metric.MechanismMetric(sdp.Laplace(1.0), users=10, delta=0.1)
LINE = sdp.metric.AmplifiedMetric(sdp.metric.Segment(0, 1), users=9, delta=0.1)
PLAN = sdp.Plan(sdp.tasks.Frequency(4), KRR, users=10, epsilon=1.0, delta=0.1)
CALLS: dict[str, list[Callable[[], Any]]] = {
    "amplify": [
        lambda: sdp.amplify(KRR, 0, effort="quick"),
        lambda: sdp.amplify(KRR, 10, colluding=10, effort="quick"),
    ],
    "compare": [
        lambda: sdp.compare(KRR, 0, 0.1),
        lambda: sdp.compare(KRR, 10, 0.1, colluding=10),
        lambda: sdp.compare(KRR, 10, 2),
        lambda: sdp.compare(3, 10, 0.1),  # type: ignore[arg-type]
    ],
    "certify": [
        lambda: sdp.certify(KRR, 0, delta=0.1, effort="quick"),
        lambda: sdp.certify(KRR, 10, delta=0.1, colluding=10, effort="quick"),
        lambda: sdp.certify(KRR, 10, delta=2, effort="quick"),
        lambda: sdp.certify(KRR, 10, epsilon=-1, effort="quick"),
        lambda: sdp.certify(KRR, 10, delta=0.1, bound="none"),
    ],
    "calibrate": [
        lambda: sdp.calibrate(sdp.KRR, options=4, users=10, epsilon=-1, delta=0.1, effort="quick"),
        lambda: sdp.calibrate(sdp.KRR, options=4, users=10, epsilon=1, delta=2, effort="quick"),
        lambda: sdp.calibrate(sdp.KRR, options=4, users=10, epsilon=1, delta=0.1, bound="none"),
        lambda: sdp.calibrate(sdp.KRR, options=4, users=10, epsilon=1, delta=0.1, colluding=10, effort="quick"),
    ],
    "Target": [lambda: sdp.Target(-1, 0.1), lambda: sdp.Target(1, 2)],
    "plan": [
        lambda: sdp.plan(sdp.tasks.Frequency(4), users=10, epsilon=-1, delta=0.1),
        lambda: sdp.plan(sdp.tasks.Frequency(4), users=10, epsilon=1, delta=2),
        lambda: sdp.plan(sdp.tasks.Frequency(4), users=0, epsilon=1, delta=0.1),
        lambda: sdp.Plan(sdp.tasks.Frequency(4), KRR, users=0, epsilon=1.0, delta=0.1),
        lambda: sdp.Plan.parse(PLAN.text().replace('"count": 4', '"count": 1')),
    ],
    "task": [
        lambda: sdp.tasks.Frequency(1),
        lambda: sdp.tasks.Frequency(["a"]),
        lambda: sdp.tasks.Mean(1, 0),
        lambda: sdp.tasks.ItemSets(4, 9),
        lambda: sdp.tasks.KeyValue(4, 0, 1, items=9),
        lambda: sdp.tasks.VectorMean(0, 0, 1),
        lambda: sdp.tasks.Location(0, 1, 0, 1, columns=0),
    ],
    "poisson": [lambda: sdp.poisson(3, 10, 0.5), lambda: sdp.poisson(KRR, 10, 1, bound="none")],  # type: ignore[arg-type]
    "MechanismMetric": [lambda: LAPLACE.within(-1)],
    "AmplifiedMetric": [lambda: LINE.at_epsilon_local(2), lambda: LINE.at_epsilon_local(-1)],
    "lower_bound": [
        lambda: sdp.metric.lower_bound(sdp.metric.DistanceMatrix([[0, 1], [1, 0]]), 0, 0, users=9, delta=0.1),
        lambda: sdp.metric.lower_bound(sdp.metric.DistanceMatrix([[0, 1], [1, 0]]), 0, 1, users=0, delta=0.1),
    ],
    "divergence": [lambda: sdp.divergence(NORMAL, "renyi", 0.5)],
    "RangeQueries": [lambda: sdp.RangeQueries(-1.0, 3), lambda: sdp.RangeQueries(1.0, 99)],
    "simulate": [lambda: sdp.simulate(PLAN, users=0), lambda: sdp.simulate(PLAN, repeats=0)],
    "audit": [lambda: sdp.audit(KRR, samples=1), lambda: sdp.audit(KRR, confidence=1)],
}


@pytest.mark.parametrize("who", CALLS)
def test_who_was_called_speaks(who: str) -> None:
    """And nothing that was called on the way."""
    for call in CALLS[who]:
        with pytest.raises((TypeError, ValueError), match=rf"^{who}: .*\.$"):
            call()


CROWD = {"--users": "50", "--delta": "1e-2"}
COMMANDS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "amplify": (
        {"--epsilon-local": "1", **CROWD},
        ("--epsilon-local", "--users", "--delta", "--colluding", "--rounds", "--of", "--bound"),
    ),
    "compare": (
        {"--epsilon-local": "1", **CROWD},
        ("--epsilon-local", "--users", "--delta", "--colluding", "--of", "--rounds"),
    ),
    "calibrate": (
        {"--mechanism": "krr", "--set": "options=4", "--epsilon": "1", **CROWD},
        ("--users", "--epsilon", "--delta", "--colluding", "--rounds", "--of", "--bound"),
    ),
    "tradeoff": (
        {"--epsilon-local": "1", "--users": "50"},
        ("--epsilon-local", "--users", "--fpr", "--prior", "--colluding", "--of", "--rounds", "--bound"),
    ),
    "audit": (
        {"--mechanism": "krr", "--set": "options=4", "--epsilon-local": "1", "--samples": "200"},
        ("--claimed", "--samples", "--confidence"),
    ),
    "plan": (
        {"--task": "mean", "--low": "0", "--high": "1", "--epsilon": "1", "--mechanism": "piecewise", **CROWD},
        (
            "--users",
            "--epsilon",
            "--delta",
            "--rounds",
            "--of",
            "--max-bits",
            "--high",
            "--local-epsilon-at-most",
            "--minimum",
            "--colluding",
            "--rests-on",
        ),
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_speaks(command: str) -> None:
    """Whatever of Python it went through; one sentence, exit code 2."""
    words, options = COMMANDS[command]
    for option in options:
        for bad in ("-1", "nan"):
            given = [part for pair in (words | {option: bad}).items() for part in pair]
            outcome = run(command, *given)
            assert outcome.status == 2, (option, bad)
            assert re.fullmatch(rf"shuffledp: {command}: [^\n]*\.\n", outcome.err), outcome.err


def test_only_named_speakers_are_replaced() -> None:
    """Another's sentence, and an error that is more than one, stay as they are."""
    with pytest.raises(ValueError, match=r"^b: no$"), validation.relabel_errors("who", "a"):
        raise ValueError("b: no")
    with pytest.raises(ValueError, match=r"^who: no: never$"), validation.relabel_errors("who", "a"):
        raise ValueError("a: no: never")
    with pytest.raises(sdp.NotApplicable, match=r"^a: no$"), validation.relabel_errors("who", "a"):
        raise sdp.NotApplicable("a", "no")
