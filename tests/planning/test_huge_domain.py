"""Plans for domains that no array holds: errors by structure, costs by what is asked, reasons for what is left out."""

from __future__ import annotations

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.calibration.targets import Target
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import Candidate, Rejection
from shuffledp.planning.ranking import build_trials, run_jobs
from shuffledp.tasks import counts_and_frequencies
from shuffledp.tasks.counts_and_frequencies import Frequency

HUGE = 1 << 48
GOAL = Goal(Frequency(HUGE), 10**6, Target(1.0, 1e-8))
SMALL: list[Mechanism] = [
    sdp.KRR(4.0, 300),
    sdp.OUE(2.0, 300),
    sdp.Subset(2.0, 300),
    sdp.LocalHash(3.0, 300),
    sdp.HadamardResponse(2.0, 300),
    sdp.HadamardResponse(3.0, 300, blocks=8),
    sdp.ProjectiveGeometry(2.0, 300),
    sdp.PIRAPPOR(2.0, 300),
    sdp.PureDUMP(300, dummies=2),
    sdp.MixDUMP(300, 0.2),
    sdp.CheuZhilyaev(300, 0.1),
    sdp.BalcerCheu(300, 0.9),
    sdp.BallsIntoBins(300, 31),
    sdp.CancellingNoise(300, 0.5, 4.0, 0.8, honest=100),
    sdp.CancellingNoise(300, 0.5, 4.0, 0.8, honest=0),
    sdp.PoissonDUMP(300, 4.0, honest=100),
    sdp.Compressed(sdp.OUE(2.0, 300)),
]


@pytest.mark.parametrize("mechanism", SMALL, ids=lambda each: each.name)
def test_the_error_by_structure_is_that_over_all_options(mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that stand for all, against the mean over users who hold each option once."""
    task = Frequency(300)
    over_all = task.standard_error(mechanism, 7000)
    monkeypatch.setattr(counts_and_frequencies, "MAX_SAMPLE_OPTIONS", 16)
    by_structure = task.standard_error(mechanism, 7000)
    assert by_structure == pytest.approx(over_all, rel=1e-9)


def test_made_up_users_of_asked_options_are_those_of_all() -> None:
    task, mechanism = Frequency(300), sdp.KRR(1.0, 300)
    asked = np.array([0, 7, 100, 101, 299])
    assert task.option_true_counts(asked, 7001).tolist() == task.true_counts(mechanism, 7001)[asked].tolist()


@pytest.mark.exhaustive("projective-geometry")
@pytest.mark.parametrize("name", ["projective-geometry", "krr", "balls-into-bins"])
def test_a_huge_domain_is_planned_for(name: str) -> None:
    (offer,) = run_jobs(build_trials(GOAL, name))
    assert isinstance(offer, Candidate)
    assert offer.bits < 200
    assert 0 < offer.cost.encoding_seconds < 1
    assert offer.cost.server_seconds(10**6) > 0
    held = np.full(1, 10**6 / HUGE)
    variance = offer.mechanism.build_estimator([5]).variance_at_counts(held, 10**6)
    assert variance is not None
    assert offer.standard_error == pytest.approx(float(np.sqrt(variance[0])), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("oue", "a message must have at most 1,073,741,824 bits"),
        ("balcer-uniform", "a user must send at most 268,435,456 messages"),
        ("pi-rappor", "options must be below 2^31"),
        ("cancelling-noise", "bits a user"),
        ("poisson-dump", "bits a user"),
    ],
)
def test_what_a_huge_domain_is_too_much_for_is_left_out_with_the_reason(name: str, reason: str) -> None:
    (refusal,) = run_jobs(build_trials(GOAL, name))
    assert isinstance(refusal, Rejection)
    assert reason in refusal.reason


def test_the_table_says_what_the_servers_time_is_for() -> None:
    assert Frequency(HUGE).timed_estimator_description == " for 10,000 of the 281,474,976,710,656 options"
    assert Frequency(1024).timed_estimator_description == ""
