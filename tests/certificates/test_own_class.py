"""Certificates of classes of one's own, whose law is a table that follows from settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp.mechanisms import plugins
from tests.cli import run
from tests.mechanisms.test_visitor import forget

__all__ = ["forget"]

HEAD = """
from dataclasses import dataclass, field

import numpy as np

from shuffledp.mechanisms.base.table_mechanism import TableMechanism
from shuffledp.mechanisms.base.table_law import UnitTable
"""
HALF = """
@dataclass(frozen=True, eq=False, repr=False)
class Half(TableMechanism):
    '''Keeps less than it is asked for: half of epsilon on most answers.'''

    epsilon: float
    options: int = 3

    name, summary, has_numeric_settings = "half", "half of epsilon", True

    def __post_init__(self):
        weights = np.ones((self.options, self.options)) + np.expm1(self.epsilon / 2) * np.eye(self.options)
        self._set_table(UnitTable.from_floats(weights / weights.sum(axis=1, keepdims=True)))

    @classmethod
    def examples(cls):
        return [cls(1.0), cls(2.0, 4)]
"""
KEEP = """
@dataclass(frozen=True, eq=False, repr=False)
class Keep(TableMechanism):
    '''The true answer with probability keep; no local epsilon is asked for.'''

    keep: float = 0.75
    options: int = 3
    style: str = "plain"

    name, summary, has_numeric_settings = "keep", "the truth with probability keep", True

    def __post_init__(self):
        rest = (1 - self.keep) / (self.options - 1)
        table = np.full((self.options, self.options), rest) + (self.keep - rest) * np.eye(self.options)
        self._set_table(UnitTable.from_floats(table))

    @classmethod
    def examples(cls):
        return [cls(), cls(0.6, 2)]
"""
FIXED = """
@dataclass(frozen=True, eq=False, repr=False)
class Fixed(TableMechanism):
    '''One table and no settings.'''

    name, summary, has_numeric_settings = "fixed", "one table", True

    def __post_init__(self):
        self._set_table(UnitTable.from_floats(np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])))

    @classmethod
    def examples(cls):
        return [cls()]
"""
FORGETFUL = (
    KEEP.replace("Keep", "Forgetful").replace('"keep",', '"forgetful",')
    + """
    def settings(self):
        return {"options": self.options}
"""
)
CASES: dict[str, tuple[str, tuple[Any, ...], tuple[str, ...]]] = {
    "half": (HALF, (1.5, 4), ("--epsilon-local", "1.5", "--set", "options=4")),
    "keep": (KEEP, (0.7, 4), ("--set", "keep=0.7", "--set", "options=4")),
    "fixed": (FIXED, (), ()),
}


def written(tmp_path: Path, text: str, *, future: bool) -> str:
    """As a file; its annotations are texts or types."""
    path = tmp_path / "mine.py"
    path.write_text(("from __future__ import annotations\n" if future else "") + HEAD + text, "utf-8")
    return str(path)


@pytest.mark.parametrize("future", [True, False], ids=["texts", "types"])
@pytest.mark.parametrize("name", CASES)
def test_a_fresh_certificate_is_proved(tmp_path: Path, name: str, future: bool) -> None:
    """In Python and on the command line, also in another process's words: the settings build the same table."""
    text, arguments, words = CASES[name]
    file = written(tmp_path, text, future=future)
    mechanism = plugins.load_file(file)[name](*arguments)
    assert sdp.verify(sdp.certify(mechanism, 20, delta=1e-2, effort="quick")).verdict.value == "yes"
    certificate = str(tmp_path / "certificate.json")
    chosen = ("--mechanism-file", file, "--mechanism", name, *words)
    made = run("amplify", *chosen, "--users", "20", "--delta", "1e-2", "--certificate", certificate)
    assert (made.status, made.stderr_complaints) == (0, "")
    proved = run("verify", certificate, "--mechanism-file", file)
    assert (proved.status, proved.err) == (0, "")


@pytest.mark.parametrize("name", CASES)
def test_the_settings_are_what_the_constructor_was_given(tmp_path: Path, name: str) -> None:
    """So that plans and certificates build the same mechanism; its promise is the table's own."""
    text, arguments, _ = CASES[name]
    kind = plugins.load_file(written(tmp_path, text, future=True))[name]
    mechanism = kind(*arguments)
    assert tuple(mechanism.settings().values())[: len(arguments)] == arguments
    assert kind(**mechanism.settings()) == mechanism
    assert mechanism.local_epsilon == mechanism.law.variation_ratio().largest_log_ratio() or name == "fixed"


def test_settings_that_leave_something_out_are_refused(tmp_path: Path) -> None:
    """A certificate that nobody could prove is not written."""
    kind = plugins.load_file(written(tmp_path, FORGETFUL, future=True))["forgetful"]
    with pytest.raises(ValueError, match=r"^certificate: built again from its settings, Forgetful has another law"):
        sdp.certify(kind(0.6, 3), 20, delta=1e-2, effort="quick")
