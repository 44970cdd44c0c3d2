"""Checks of conformance suites: what they need, how they are run, and their results."""

from __future__ import annotations

import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from shuffledp._core.results_and_value_objects import Progress


@dataclass(frozen=True)
class Failure:
    """A check that failed."""

    check: str
    message: str
    """The error, its location and its consequence."""
    certainty: str
    """Exact, or the probability of a false alarm."""

    def __str__(self) -> str:
        return f"{self.message} ({self.certainty})"


@dataclass(frozen=True)
class CheckResult:
    """The outcome of a conformance suite.

    Printed, it is one sentence, or the numbered list of failures.

    Args:
        subject: Name of the mechanism, bound or engine.
        ran: Names of the checks that ran.
        skipped: Names of the checks that did not apply, each with the reason.
        failures: The checks that failed.

    >>> import shuffledp as sdp
    >>> small = [sdp.KRR(epsilon=1.0, options=2), sdp.KRR(epsilon=2.0, options=3)]
    >>> checked = sdp.testing.check_bound(sdp.bounds.BOUNDS_BY_NAME["clone"], randomizers=small)
    >>> print(checked)
    CloneBound passes all 2 checks.
    >>> checked.passed, checked.skipped, checked.failures
    (True, (), ())
    """

    subject: str
    ran: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def passed(self) -> bool:
        """True if some check ran and none failed."""
        return bool(self.ran) and not self.failures

    def __str__(self) -> str:
        failed = len({failure.check for failure in self.failures})
        skipped = f", {len(self.skipped)} do not apply" if self.skipped else ""
        if self.passed:
            return f"{self.subject} passes all {len(self.ran)} checks{skipped}."
        if not self.ran:
            return f"{self.subject}: nothing was checked."
        head = f"{self.subject} fails {failed} of {len(self.ran)} checks{skipped}:"
        return "\n".join([head, *(_format_numbered(place, one) for place, one in enumerate(self.failures, 1))])

    def raise_if_failed(self, raises: bool) -> CheckResult:
        """Returns the outcome, or raises an error that lists all failures.

        Args:
            raises: If False, never raises.

        Returns:
            The outcome itself.

        Raises:
            ConformanceError: If ``raises`` is True and the suite has not passed.
        """
        if raises and not self.passed:
            raise ConformanceError(self)
        return self


class ConformanceError(AssertionError):
    """The error of a subject that fails its conformance suite; the message lists all failures.

    Args:
        checked: The outcome, also as an attribute.
    """

    def __init__(self, checked: CheckResult) -> None:
        super().__init__(str(checked))
        self.checked = checked

    def __reduce__(self) -> tuple[type[ConformanceError], tuple[CheckResult]]:
        return ConformanceError, (self.checked,)


def merge_results(subject: str, outcomes: Iterable[CheckResult]) -> CheckResult:
    """Merges several outcomes; each check and failure is prefixed with the name of its subject."""
    every = list(outcomes)
    return CheckResult(
        subject,
        tuple(f"{one.subject}: {name}" for one in every for name in one.ran),
        tuple((f"{one.subject}: {name}", reason) for one in every for name, reason in one.skipped),
        tuple(
            Failure(f"{one.subject}: {failure.check}", f"{one.subject}: {failure.message}", failure.certainty)
            for one in every
            for failure in one.failures
        ),
    )


def _format_numbered(place: int, failure: Failure) -> str:
    text = f"{place}. {failure}"
    return textwrap.fill(text, 118, initial_indent="  ", subsequent_indent="     ", break_on_hyphens=False)


Subject = TypeVar("Subject")
EXACT = "certain: exact arithmetic"
EXACT_UP_TO_ROUNDING = "certain, up to rounding of floats"
CERTAIN = "certain"
MAX_ERRORS_SHOWN = 3
"""Number of errors that are shown for each check."""


def no_requirement(subject: object) -> str:
    """Returns no reason to skip: the check applies to everything."""
    del subject
    return ""


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """A check of one property. ``run`` yields a clause, without a full stop, for every error that it finds."""

    name: str
    run: Callable[[Subject], Iterable[str]]
    error_text: str
    """The error if the check fails: the beginning of the sentence."""
    consequence: str
    """The consequence for users of the subject: the end of the sentence."""
    certainty: str = CERTAIN
    requirement: Callable[[Subject], str] = no_requirement
    """Returns why the check does not apply to a subject; empty if it applies."""
    slow: bool = False
    """True if it usually takes seconds."""

    def find_failure(self, subject: Subject) -> Failure | None:
        """Runs the check and returns the failure, or None; an unexpected exception is a failure, never a success."""
        try:
            errors = list(islice(_unique(self.run(subject)), MAX_ERRORS_SHOWN + 1))
        except Exception as error:
            return self.failure_from_exception(error)
        if not errors:
            return None
        more = "; and more" if len(errors) > MAX_ERRORS_SHOWN else ""
        return Failure(
            self.name,
            f"{self.error_text}: {'; '.join(errors[:MAX_ERRORS_SHOWN])}{more}; {self.consequence}.",
            self.certainty,
        )

    def skip_reason(self, subject: Subject) -> str | Failure:
        """Returns why the check does not apply, empty if it does; a failure if deciding that raises an exception."""
        try:
            return self.requirement(subject)
        except Exception as error:
            return self.failure_from_exception(error)

    def failure_from_exception(self, error: Exception) -> Failure:
        """Returns the failure of a check that was stopped by an exception."""
        clause = (
            f"the check was stopped by {type(error).__name__} in {_error_location(error)}: {str(error).rstrip('.')}"
        )
        return Failure(self.name, f"{self.error_text}, or cannot be checked: {clause}; {self.consequence}.", CERTAIN)


def conformance_check(
    wrong: str,
    meaning: str,
    *,
    certainty: str = CERTAIN,
    why_not: Callable[[Subject], str] = no_requirement,
    slow: bool = False,
) -> Callable[[Callable[[Subject], Iterable[str]]], Check[Subject]]:
    """Turns a function into a check that is named after it."""

    def make(run: Callable[[Subject], Iterable[str]]) -> Check[Subject]:
        name = getattr(run, "__name__", "").replace("_", " ")
        return Check(name, run, wrong, meaning, certainty, why_not, slow)

    return make


def run_all(who: str, subject: Subject, suite: Sequence[Check[Subject]], progress: Progress | None) -> CheckResult:
    """Runs every check of a suite that applies, and collects all failures."""
    ran, skipped, failures = [], [], []
    with (progress or Progress()).step("checking", len(suite)) as advance:
        for check in suite:
            reason = check.skip_reason(subject)
            if isinstance(reason, str) and reason:
                skipped.append((check.name, reason))
            else:
                ran.append(check.name)
                failure = reason if isinstance(reason, Failure) else check.find_failure(subject)
                failures += [] if failure is None else [failure]
            advance(1)
    return CheckResult(who, tuple(ran), tuple(skipped), tuple(failures))


@contextmanager
def collect_refusals(*kinds: type[Exception]) -> Iterator[list[str]]:
    """Collects the message of an exception that is expected; the list stays empty if none is raised."""
    sentences: list[str] = []
    try:
        yield sentences
    except kinds as error:
        sentences.append(str(error))


def _unique(clauses: Iterable[str]) -> Iterator[str]:
    """Yields each clause once."""
    clauses_before: set[str] = set()
    for clause in clauses:
        if clause not in clauses_before:
            yield clause
        clauses_before.add(clause)


def _error_location(error: Exception) -> str:
    """Returns the file and line where an exception was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "an unknown place"
