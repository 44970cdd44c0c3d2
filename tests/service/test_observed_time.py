"""Clocks that jump: nothing is closed, given up or erased by a time that nobody saw pass."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from shuffledp.service import rounds
from shuffledp.service.rounds import RoundScheduler, TrustedClock, TrustedTime
from shuffledp.service.stores import RoundState
from tests.cli import run
from tests.service import create_campaign, plan_for
from tests.service.test_round import NOW, USERS, Shuffler

YEAR = 366 * 24 * 3600
HOUR, DAY = 3600, 24 * 3600


@dataclass
class Machine:
    """A machine with a clock that anybody may set."""

    state: Path
    clock: float = float(NOW)
    uptime: float = 1000.0
    boot: str = "first"

    def look(self) -> TrustedTime:
        """By a process that has just begun: whatever is known is on disk."""
        return TrustedClock(self.state).read()

    def confirm(self) -> None:
        TrustedClock(self.state).confirm()

    def run(self, seconds: float, jump: float = 0.0) -> TrustedTime:
        """So much time passes, and the clock jumps besides."""
        self.uptime += seconds
        self.clock += seconds + jump
        return self.look()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    state = tmp_path / "shuffler"
    state.mkdir()
    made = Machine(state)
    for name, read in {"clock": "clock_time", "uptime": "uptime", "boot": "boot_id"}.items():
        monkeypatch.setattr(rounds, read, lambda name=name: getattr(made, name))
    assert made.look() == TrustedTime(NOW, 0)
    return made


def test_a_clock_that_goes_right(machine: Machine) -> None:
    """Is believed, also with small corrections, for years; and while no process of the shuffler runs."""
    for _ in range(400):
        assert machine.run(DAY + 7, 20.5) == TrustedTime(int(machine.clock), 0)
    assert machine.run(YEAR) == TrustedTime(int(machine.clock), 0)


@pytest.mark.parametrize("jump", [20 * YEAR, HOUR + 1, -HOUR - 1, -20 * YEAR])
def test_a_jump_is_not_believed(machine: Machine, jump: float) -> None:
    """Time goes on as it passes, until the clock agrees again."""
    machine.run(HOUR)
    assert machine.run(10, jump) == TrustedTime(NOW + HOUR + 10, jump)
    assert machine.run(5 * DAY) == TrustedTime(NOW + HOUR + 10 + 5 * DAY, jump)
    assert machine.run(0, -jump) == TrustedTime(NOW + HOUR + 10 + 5 * DAY, 0)


def test_many_small_jumps(machine: Machine) -> None:
    """Are one large one: an hour a day is the most that is believed."""
    for _ in range(100):
        found = machine.run(60, 600)
    assert found.now - NOW == 100 * 60
    assert found.jump == 100 * 600


def test_a_machine_that_was_off(machine: Machine) -> None:
    """For minutes it is believed; for a night, the operator confirms the clock, and it is believed from then on."""
    machine.run(HOUR)
    machine.boot, machine.uptime = "second", 30.0
    machine.clock += 600
    assert machine.look() == TrustedTime(NOW + HOUR + 600, 0)
    machine.run(DAY)
    machine.boot, machine.uptime = "third", 30.0
    machine.clock += 8 * HOUR
    found = machine.look()
    assert 8 * HOUR - 60 <= found.jump <= 8 * HOUR
    machine.confirm()
    assert machine.look() == TrustedTime(int(machine.clock), 0)
    assert machine.run(3 * DAY) == TrustedTime(int(machine.clock), 0)


def test_a_damaged_file_is_said(machine: Machine) -> None:
    """And nothing is done by the clock until somebody has looked."""
    (machine.state / "clock").write_text('{"boot": 1}')
    with pytest.raises(ValueError, match="damaged; check this machine's clock"):
        machine.look()
    machine.confirm()
    assert machine.look() == TrustedTime(NOW, 0)


def test_rounds_wait_while_the_clock_is_wrong(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server whose clock jumps by 20 years closes nothing and erases nothing, says so once, and goes on when told."""
    shuffler = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30, rounds=2)))
    clock = RoundScheduler(shuffler.paths)
    for report in shuffler.reports([0] * USERS):
        assert shuffler.post(report)

    def tick(seconds: float, jump: float = 0.0) -> tuple[RoundState, ...]:
        machine.uptime += seconds
        machine.clock += seconds + jump
        shuffler.manager.take_due_steps(clock._read_time())
        return tuple(each.state for each in shuffler.store.rounds(shuffler.campaign.id))

    assert tick(60) == (RoundState.OPEN,)
    assert tick(60, 20 * YEAR) == tick(1) == (RoundState.OPEN,)
    # By the time that passes it is closed, and its batch is there.
    assert tick(3600) == (RoundState.FORGOTTEN, RoundState.OPEN)
    assert shuffler.paths.batch_directory(shuffler.round()).exists()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["jump"]) for line in lines] == [("clock", 20 * YEAR)]
    assert "campaign clock --confirm" in lines[0]["reason"]
    told = run("campaign", "clock", "--state", str(shuffler.paths.state)).out
    assert f"{20 * YEAR:,} seconds ahead of the time that passed" in told
    assert run("campaign", "clock", "--state", str(shuffler.paths.state), "--confirm").status == 0
    assert tick(1)[0] is RoundState.ERASED
    shuffler.store.close()


def test_closing_by_hand_touches_no_other_round(machine: Machine, tmp_path: Path) -> None:
    """A command at a machine whose clock has jumped ends the round that was named, and erases nothing."""
    first, second = (Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30))) for _ in range(2))
    for each in (first, second):
        for report in each.reports([0] * USERS):
            assert each.post(report)
    first.manager.close_now(first.round(), NOW)
    assert first.round().state is RoundState.FORGOTTEN
    machine.run(10, 20 * YEAR)
    assert run("campaign", "close", second.campaign.id[:9], "--state", str(machine.state)).status == 0
    assert (first.round().state, second.round().state) == (RoundState.FORGOTTEN, RoundState.FORGOTTEN)
    assert second.round().closes == NOW + 10
    for each in (first, second):
        assert each.paths.batch_directory(each.round()).exists()
        each.store.close()
