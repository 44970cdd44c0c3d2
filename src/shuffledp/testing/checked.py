"""What a suite found: every failure with its meaning and how sure it is, and the error that lists them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """One check that did not hold."""

    check: str
    """The check's name."""
    sentence: str
    """What is wrong, where it was seen, and what it means."""
    certainty: str
    """How sure that is: exact, or how likely a false alarm."""

    def __str__(self) -> str:
        return f"{self.sentence} ({self.certainty})"


@dataclass(frozen=True)
class Checked:
    """The outcome of a suite: what was asked, what was not and why, and what failed.

    ``subject`` names what was checked; printed, the outcome is one sentence, or the numbered list of ``failures``.

    >>> import shuffledp as sdp
    >>> small = [sdp.KRR(epsilon=1.0, options=2), sdp.KRR(epsilon=2.0, options=3)]
    >>> checked = sdp.testing.check_bound(sdp.bounds.CloneBound(), randomizers=small)
    >>> print(checked)
    CloneBound passes all 2 checks.
    >>> checked.passed, checked.skipped, checked.failures
    (True, (), ())
    """

    subject: str
    ran: tuple[str, ...]
    """The names of the checks that ran."""
    skipped: tuple[tuple[str, str], ...] = ()
    """The names of those that did not, each with the reason."""
    failures: tuple[Failure, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether something was checked and nothing failed."""
        return bool(self.ran) and not self.failures

    def __str__(self) -> str:
        failed = len({failure.check for failure in self.failures})
        skipped = f", {len(self.skipped)} do not apply" if self.skipped else ""
        if self.passed:
            return f"{self.subject} passes all {len(self.ran)} checks{skipped}."
        if not self.ran:
            return f"{self.subject}: nothing was checked."
        head = f"{self.subject} fails {failed} of {len(self.ran)} checks{skipped}:"
        return "\n".join([head, *(_numbered(place, one) for place, one in enumerate(self.failures, 1))])

    def demanded(self, raises: bool) -> Checked:
        """The same, or an error that lists all failures."""
        if raises and not self.passed:
            raise ConformanceError(self)
        return self


class ConformanceError(AssertionError):
    """Something does not keep its promises; the message lists all failures, and ``checked`` holds them."""

    def __init__(self, checked: Checked) -> None:
        super().__init__(str(checked))
        self.checked = checked

    def __reduce__(self) -> tuple[type[ConformanceError], tuple[Checked]]:
        return ConformanceError, (self.checked,)


def together(subject: str, outcomes: Iterable[Checked]) -> Checked:
    """Several outcomes as one, each failure with the name of what it is of."""
    every = list(outcomes)
    return Checked(
        subject,
        tuple(f"{one.subject}: {name}" for one in every for name in one.ran),
        tuple((f"{one.subject}: {name}", reason) for one in every for name, reason in one.skipped),
        tuple(
            Failure(f"{one.subject}: {failure.check}", f"{one.subject}: {failure.sentence}", failure.certainty)
            for one in every
            for failure in one.failures
        ),
    )


def _numbered(place: int, failure: Failure) -> str:
    text = f"{place}. {failure}"
    return textwrap.fill(text, 118, initial_indent="  ", subsequent_indent="     ", break_on_hyphens=False)
