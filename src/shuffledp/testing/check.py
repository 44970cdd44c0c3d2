"""What a check is: one question about one subject, that answers with everything that it found wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from shuffledp.progress import Progress
from shuffledp.testing.checked import Checked, Failure

Subject = TypeVar("Subject")

EXACT = "certain: exact arithmetic"
ROUNDED = "certain, up to rounding of floats"
CERTAIN = "certain"
MOST_SHOWN = 3
"""How many of the things that one check finds wrong are shown."""


def always(subject: object) -> str:
    """It applies to everything."""
    del subject
    return ""


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """One question. ``run`` yields a clause, without a full stop, for everything that it finds wrong."""

    name: str
    run: Callable[[Subject], Iterable[str]]
    wrong: str
    """What is wrong when it fails: the beginning of a sentence."""
    meaning: str
    """What that means to who relies on the subject: the end of the sentence."""
    certainty: str = CERTAIN
    why_not: Callable[[Subject], str] = always
    """Why it does not apply to a subject; empty where it does."""
    slow: bool = False
    """Whether it usually takes seconds."""

    def failure(self, subject: Subject) -> Failure | None:
        """What it found; an error that is not expected is a failure as well, and none is ever taken for a success."""
        try:
            found = list(islice(_different(self.run(subject)), MOST_SHOWN + 1))
        except Exception as error:
            return self.stopped(error)
        if not found:
            return None
        more = "; and more" if len(found) > MOST_SHOWN else ""
        return Failure(
            self.name, f"{self.wrong}: {'; '.join(found[:MOST_SHOWN])}{more}; {self.meaning}.", self.certainty
        )

    def excuse(self, subject: Subject) -> str | Failure:
        """Why it does not apply, empty where it does; a failure where that cannot be said."""
        try:
            return self.why_not(subject)
        except Exception as error:
            return self.stopped(error)

    def stopped(self, error: Exception) -> Failure:
        """The failure of a check that could not be finished."""
        clause = f"the check was stopped by {type(error).__name__} in {_place(error)}: {str(error).rstrip('.')}"
        return Failure(self.name, f"{self.wrong}, or cannot be asked: {clause}; {self.meaning}.", CERTAIN)


def checks(
    wrong: str,
    meaning: str,
    *,
    certainty: str = CERTAIN,
    why_not: Callable[[Subject], str] = always,
    slow: bool = False,
) -> Callable[[Callable[[Subject], Iterable[str]]], Check[Subject]]:
    """Make a check of a function, named after it."""

    def make(run: Callable[[Subject], Iterable[str]]) -> Check[Subject]:
        name = getattr(run, "__name__", "").replace("_", " ")
        return Check(name, run, wrong, meaning, certainty, why_not, slow)

    return make


def run_all(who: str, subject: Subject, suite: Sequence[Check[Subject]], progress: Progress | None) -> Checked:
    """Every check of a suite that applies; all failures, not the first one only."""
    ran, skipped, failures = [], [], []
    with (progress or Progress()).step("checking", len(suite)) as advance:
        for check in suite:
            excuse = check.excuse(subject)
            if isinstance(excuse, str) and excuse:
                skipped.append((check.name, excuse))
            else:
                ran.append(check.name)
                failure = excuse if isinstance(excuse, Failure) else check.failure(subject)
                failures += [] if failure is None else [failure]
            advance(1)
    return Checked(who, tuple(ran), tuple(skipped), tuple(failures))


@contextmanager
def refused(*kinds: type[Exception]) -> Iterator[list[str]]:
    """Collects the sentence of a refusal that must come; the list stays empty where none came."""
    sentences: list[str] = []
    try:
        yield sentences
    except kinds as error:
        sentences.append(str(error))


def _different(clauses: Iterable[str]) -> Iterator[str]:
    """The same, each once."""
    seen: set[str] = set()
    for clause in clauses:
        if clause not in seen:
            yield clause
        seen.add(clause)


def _place(error: Exception) -> str:
    """Where an error arose: the last line of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "an unknown place"
