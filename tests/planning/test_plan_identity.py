"""What messages belong to: every change of what a message means gives another identity, and nothing else does."""

from __future__ import annotations

import dataclasses

import pytest

from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.planning.plan import Plan
from shuffledp.tasks import Frequency

PLAN = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6, rounds=3)


def test_another_meaning_is_another_identity() -> None:
    changed = [
        dataclasses.replace(PLAN, mechanism=KRR(8.0, 2)),
        dataclasses.replace(PLAN, task=Frequency(["green", "red"])),
        dataclasses.replace(PLAN, population="readers"),
    ]
    identities = {PLAN.identity(), PLAN.identity(2), PLAN.identity(3), *(plan.identity() for plan in changed)}
    assert len(identities) == 6


def test_the_target_does_not_change_what_a_message_means() -> None:
    later = dataclasses.replace(PLAN, users=10, epsilon=2.0, delta=1e-3, rounds=5, software={"shuffledp": "9.9"})
    assert later.identity() == PLAN.identity()
    assert Plan.parse(PLAN.text()).identity(2) == PLAN.identity(2)


@pytest.mark.parametrize("number", [0, 4, True, 1.5, "1"])
def test_only_planned_rounds(number: object) -> None:
    with pytest.raises((ValueError, TypeError), match="round"):
        PLAN.identity(number)  # type: ignore[arg-type]
