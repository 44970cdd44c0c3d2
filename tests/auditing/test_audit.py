"""The audit finds broken randomizers and leaves sound ones alone.

An audit at confidence 0.999 accuses a sound randomizer with probability at most 0.001; seeds are fixed where possible,
and sound randomizers are audited a few dozen times in all.
"""

from __future__ import annotations

import os
import sys
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import auditing as interval
from shuffledp._core.errors import ShuffledpError
from shuffledp.auditing import CommandSubject, MechanismSubject, audit
from shuffledp.mechanisms.base.two_level_law import TwoLevelResponse
from shuffledp.mechanisms.catalogue import all_mechanisms

BROKEN = """
import math, random, sys
other = 1 / (math.exp(1.0) + 1)
for line in sys.stdin:
    own = int(line)
    print("".join("1" if random.random() < ({own} if j == own else other) else "0" for j in range(8)))
"""


class Unmasked(sdp.KRR):
    """Tells the truth too often: the coin of a much larger ε under the claim of a small one."""

    @property
    def response(self) -> TwoLevelResponse:  # type: ignore[override]
        return TwoLevelResponse("Unmasked", self.epsilon, Fraction(1, self.options), Fraction(1, 4))


EXAMPLES = {name: kind.examples()[0] for name, kind in all_mechanisms().items()}


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if example.local_epsilon is not None])
def test_no_sound_mechanism_is_accused(name: str) -> None:
    """For every mechanism of the catalogue with a promise the proved ε stays below it, and is not nothing."""
    mechanism = EXAMPLES[name]
    assert mechanism.local_epsilon is not None
    finding = audit(MechanismSubject(mechanism, mechanism.audit_pair()), mechanism.local_epsilon, samples=40_000)
    assert not finding.violated
    assert finding.verdict.startswith("no violation")


@pytest.mark.parametrize("local", [0.5, 1.0, 3.0])
def test_randomized_response_is_measured_closely(local: float) -> None:
    """For randomized response the audit proves most of ε."""
    finding = audit(MechanismSubject(sdp.KRR(local, 4), np.array([0, 1])), local, samples=200_000)
    assert 0.8 * local <= finding.epsilon_lower <= local


def test_the_front_door_takes_a_mechanism() -> None:
    """Its own promise and probe by default; inputs and a claim of the caller's; the answer reads."""
    finding = audit(sdp.KRR(1.0, 4), samples=20_000)
    assert finding.claimed == 1.0
    assert not finding.violated
    assert "no violation of ε = 1 found" in str(finding)
    assert ">2 × 20,000</td>" in finding._repr_html_()
    chosen = audit(sdp.KRR(3.0, 4), 0.5, samples=20_000, inputs=[2, 3])
    assert chosen.violated
    assert "on 2 against 3" in chosen.title


def test_what_the_front_door_refuses(tmp_path: Path) -> None:
    """What promises nothing needs a claim; a subject has its own inputs; two inputs are two."""
    with pytest.raises(ValueError, match=r"claims no local ε.* give claimed"):
        audit(sdp.PureDUMP(options=4, dummies=2), samples=100)
    program = CommandSubject(command(tmp_path, 0.5), ("0", "1"))
    with pytest.raises(ValueError, match="give claimed"):
        audit(program, samples=100)
    with pytest.raises(ValueError, match="leave inputs out"):
        audit(program, 1.0, samples=100, inputs=["0", "1"])
    with pytest.raises(ValueError, match="inputs must be two, got 3"):
        audit(sdp.KRR(1.0, 4), samples=100, inputs=[0, 1, 2])
    with pytest.raises(ValueError, match="KRR"):
        audit(sdp.KRR(1.0, 4), samples=100, inputs=[0, 7])
    with pytest.raises(TypeError, match="expected a mechanism or a Subject"):
        audit(3, 1.0)  # type: ignore[arg-type]


def test_a_broken_mechanism_is_caught() -> None:
    """A coin that does not fit the claim is proved broken."""
    finding = audit(MechanismSubject(Unmasked(0.5, 4), np.array([0, 1])), 0.5, samples=20_000)
    assert finding.violated
    assert finding.verdict.startswith("BROKEN")


def command(tmp_path: Path, own: float) -> str:
    script = tmp_path / "randomizer.py"
    script.write_text(BROKEN.replace("{own}", str(own)), "utf-8")
    return f"{sys.executable} {script}"


def test_a_broken_program_is_caught(tmp_path: Path) -> None:
    """A unary encoding that keeps its own bit with 3/4 instead of 1/2 breaks ε = 1; the right one is left alone."""
    broken = audit(CommandSubject(command(tmp_path, 0.75), ("0", "1")), 1.0, samples=20_000)
    assert broken.violated
    right = audit(CommandSubject(command(tmp_path, 0.5), ("0", "1")), 1.0, samples=20_000)
    assert not right.violated
    assert right.epsilon_lower > 0.5


def test_numbers_are_compared_by_size(tmp_path: Path) -> None:
    """A program that adds far too little noise to a number is caught although no message repeats."""
    script = tmp_path / "noise.py"
    script.write_text(
        "import random, sys\nfor line in sys.stdin:\n    print(float(line) + random.gauss(0, 0.2))\n", "utf-8"
    )
    finding = audit(CommandSubject(f"{sys.executable} {script}", ("0", "1")), 2.0, samples=20_000)
    assert finding.violated
    assert "number" in finding.event


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit(3)", "status 3"),
        ("print(1)", "wrote 1 messages"),
        ("import sys\nfor line in sys.stdin: print('x' * 999)", "at most 256 bytes"),
    ],
)
def test_a_program_that_misbehaves_is_a_sentence(tmp_path: Path, program: str, words: str) -> None:
    """Programs that fail, drop messages or write too much are refused with the reason."""
    script = tmp_path / "bad.py"
    script.write_text(program, "utf-8")
    with pytest.raises(ShuffledpError, match=words):
        audit(CommandSubject(f"{sys.executable} {script}", ("0", "1")), 1.0, samples=100)


def test_a_missing_program_is_a_sentence() -> None:
    """A program that cannot be started is named."""
    with pytest.raises(ShuffledpError, match="could not start"):
        audit(CommandSubject("no-such-program-here", ("0", "1")), 1.0, samples=100)


@pytest.mark.parametrize("bad", [{"samples": 10}, {"confidence": 1.0}, {"claimed": -1.0}, {"claimed": float("nan")}])
def test_bad_arguments_are_refused(bad: dict[str, Any]) -> None:
    """Too few samples, a certain confidence or a negative claim are refused."""
    subject = MechanismSubject(sdp.KRR(1.0, 2), np.array([0, 1]))
    with pytest.raises(ValueError, match="audit"):
        audit(subject, **{"claimed": 1.0, **bad})


def test_limits_are_exact() -> None:
    """The limits solve the binomial tails, at 0, at all, and between."""
    from scipy.stats import binom

    assert interval.lower_confidence_limit(0, 50, 0.01) == 0.0
    assert interval.upper_confidence_limit(50, 50, 0.01) == 1.0
    low, high = interval.lower_confidence_limit(7, 50, 0.01), interval.upper_confidence_limit(7, 50, 0.01)
    assert binom.sf(6, 50, low) == pytest.approx(0.01)
    assert binom.cdf(7, 50, high) == pytest.approx(0.01)


RUNAWAYS = {
    "messages without end": ("while True: print('y')", "was given 100 values and wrote more messages"),
    "one message without end": ("while True: sys.stdout.write('y' * 4096)", "at most 256 bytes, got a longer one"),
    "empty messages without end": ("while True: sys.stdout.write('\\r')", "was given 100 values and wrote more"),
    "complaints without end": ("while True: sys.stderr.write('y' * 4096)", "took more than 2 seconds for 100 values"),
    "silence without end": ("time.sleep(600)", "took more than 2 seconds for 100 values"),
    "a closed pipe": ("os.close(1); os.close(2); time.sleep(600)", "took more than 2 seconds for 100 values"),
}


@pytest.mark.exhaustive("complaints without end")
@pytest.mark.parametrize("what", RUNAWAYS)
def test_a_program_without_end_is_ended(tmp_path: Path, what: str) -> None:
    """Whatever it does without end, it is gone soon after, little of it was kept, and one sentence says why."""
    program, sentence = RUNAWAYS[what]
    script, note = tmp_path / "endless.py", tmp_path / "pid"
    head = f"import os, sys, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\n"
    script.write_text(head + program, "utf-8")
    subject = CommandSubject(f"{sys.executable} {script}", ("0", "1"), seconds=2 if "2 seconds" in sentence else 60)
    tracemalloc.start()
    with pytest.raises(ShuffledpError, match=sentence):
        subject.draw(0, 100)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4_000_000
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text("utf-8")), 0)


def test_what_a_program_says_last_is_told(tmp_path: Path) -> None:
    """A long complaint is read to its end, although little of it is kept, and values it does not read are no error."""
    script = tmp_path / "loud.py"
    script.write_text("import sys\nsys.stderr.write('y\\n' * 500_000 + 'no more.')\nsys.exit(5)", "utf-8")
    with pytest.raises(ShuffledpError, match=r"^audit: the command ended with status 5: no more\.$"):
        CommandSubject(f"{sys.executable} {script}", ("0", "1")).draw(0, 200_000)


def test_more_samples_than_fit_are_refused_before_the_program_starts() -> None:
    """The rows of bytes would not fit."""
    with pytest.raises(ValueError, match="samples must be at most 4,194,304 for a command"):
        CommandSubject("no-such-program-here", ("0", "1")).draw(0, 10**9)
