"""Shared parts of the conformance suites: exact laws of G, the mechanism under test, checks and their outcomes."""

from __future__ import annotations

import itertools
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, islice
from math import gcd, lcm
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from flint import ctx

from shuffledp._core.base_classes import Progress
from shuffledp._core.validation import Array, Floats
from shuffledp.mechanisms.base.mechanism import HidingTable, Mechanism, OutputTable
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.privacy.randomizer import HasTails
from shuffledp.sampling.random_sources import resolve_source
from shuffledp.testing import exact_enumeration

# --- Laws of G and their convex order, in exact fractions ---


RationalGainLaw = dict[Fraction, Fraction]
"""The law of G: the probability of each value."""
CONVEX_ORDER_TOLERANCE = Fraction(1, 10**14)


def gain_law(
    first: Sequence[Fraction], second: Sequence[Fraction], hiding: Sequence[Fraction], ratio: Fraction
) -> RationalGainLaw:
    """Returns the law of G = (first − ratio·second)/hiding under ``hiding``, whose missing mass is revealed and adds 0.

    Integers are many times faster than fractions: values are numerators and denominators, probabilities are in units.
    """
    unit = lcm(*(w.denominator for w in hiding))
    units: dict[tuple[int, int], int] = {(0, 1): unit}
    up, down = ratio.as_integer_ratio()
    for a, b, w in zip(first, second, hiding, strict=True):
        own = w.numerator * (unit // w.denominator)
        units[0, 1] -= own
        if own > 0:
            over = (down * a.numerator * b.denominator - up * b.numerator * a.denominator) * w.denominator
            under = down * a.denominator * b.denominator * w.numerator
            common = gcd(over, under)
            value = over // common, under // common
            units[value] = units.get(value, 0) + own
    return {Fraction(*value): Fraction(own, unit) for value, own in units.items()}


def gain_law_of_pair(pair: HidingPair, ratio: Fraction) -> RationalGainLaw:
    """Returns the law of G of one of the package's pairs; balls are replaced by their midpoints, to 60 digits."""
    if pair.exact is not None:
        triples = [tuple(Fraction(int(x.p), int(x.q)) for x in triple) for triple in pair.exact]
    else:
        with ctx.workprec(200):
            triples = [tuple(Fraction(str(x.mid().str(60, radius=False))) for x in triple) for triple in pair.classes()]
    first, second, hiding = zip(*triples, strict=True)
    return gain_law(first, second, hiding, ratio)


def expected_excesses(law: RationalGainLaw, levels: Sequence[Fraction]) -> list[Fraction]:
    """Returns E(G − t)_+ at each level t, for decreasing levels."""
    excesses = []
    values = sorted(law, reverse=True)
    chances = [Fraction(0), *accumulate(law[value] for value in values)]
    parts = [Fraction(0), *accumulate(value * law[value] for value in values)]
    above = 0
    for level in levels:
        while above < len(values) and values[above] > level:
            above += 1
        excesses.append(parts[above] - level * chances[above])
    return excesses


def is_below_in_convex_order(law: RationalGainLaw, other: RationalGainLaw) -> bool:
    """Returns True if ``law`` is below ``other`` in convex order: E(G − t)_+ is nowhere larger, and the means agree.

    It suffices to compare at the values, between which E(G − t)_+ is linear.
    """
    means = [sum((value * chance for value, chance in one.items()), Fraction(0)) for one in (law, other)]
    if abs(means[0] - means[1]) > CONVEX_ORDER_TOLERANCE:
        return False
    levels = sorted({*law, *other}, reverse=True)
    return all(
        a <= b + CONVEX_ORDER_TOLERANCE
        for a, b in zip(expected_excesses(law, levels), expected_excesses(other, levels), strict=True)
    )


DEFAULT_SEED, DEFAULT_SAMPLES = 20_240_001, 20_000
"""Seed of the statistical checks, and number of users of each input that they encode."""
BLANKET_LEVELS = ((1, Fraction(11, 10)), (2, Fraction(5, 4)), (3, Fraction(21, 20)))
"""Numbers of users and e^ε at which blankets are compared."""
MAX_PAIRED_MESSAGES = 60
"""Largest number of messages for which estimates from every pair of messages are computed."""

Probabilities = tuple[Fraction, ...]


@dataclass(frozen=True)
class EstimateMoments:
    """The law of the estimate for some values: its mean and variance, exact up to rounding."""

    values: Array
    mean: Floats
    variance: Floats
    scale: float


@dataclass(frozen=True)
class MechanismCase:
    """A mechanism under test, with the seed and the number of samples of the statistical checks."""

    mechanism: Mechanism
    seed: int = DEFAULT_SEED
    samples: int = DEFAULT_SAMPLES

    @property
    def class_name(self) -> str:
        """The name of the mechanism's class, with which its error messages begin."""
        return type(self.mechanism).__name__

    @property
    def has_tails(self) -> bool:
        """True if guarantees truncate the law, so that its likelihood ratios need not be bounded."""
        return isinstance(self.mechanism, HasTails) and self.mechanism.has_tails

    def generator(self, number: int = 0) -> np.random.Generator:
        """Returns a separate random generator for each statistical check."""
        return np.random.default_rng(self.seed + number)

    @cached_property
    def table(self) -> OutputTable:
        return self.mechanism.table()

    @cached_property
    def hiding_table(self) -> HidingTable:
        return self.mechanism.hiding_table()

    @property
    def rows(self) -> tuple[Probabilities, ...]:
        return self.table.probabilities

    @cached_property
    def input_pairs(self) -> list[tuple[int, int]]:
        """Every two inputs, by the indices of their rows."""
        return list(itertools.combinations(range(len(self.hiding_table.rows)), 2))

    @cached_property
    def values(self) -> Array:
        """All inputs of the table or, without a table, a few inputs."""
        return self.table.inputs if self.mechanism.has_table else self.mechanism.audit_pair()

    @cached_property
    def messages(self) -> Array:
        """All messages or, without a table, a few that were sent."""
        if self.mechanism.has_table:
            return self.flatten_reports(self.table.messages)
        return self.send_messages(np.repeat(self.mechanism.audit_pair(), 8, axis=0), self.generator(2))

    def send_messages(self, values: Array, rng: Any) -> Array:
        """Returns the messages of users with these values, and those that the shuffler adds."""
        source = resolve_source(rng)
        own, added = self.mechanism.encode(values, source), self.mechanism.draw_shuffler_messages(source)
        return own if added is None else np.concatenate([own, added])

    def flatten_reports(self, reports: Array) -> Array:
        """Flattens reports to messages, those of a user next to each other."""
        return reports if self.mechanism.messages_per_user == 1 else reports.reshape(-1, *reports.shape[2:])

    @cached_property
    def blanket_divergences(self) -> list[tuple[int, Fraction, Fraction, float]]:
        """For each level: users, e^ε, the largest divergence by a pair's own blanket, and that of ``blankets()``."""
        from shuffledp.numerics.positive_part import PositivePartMean

        result = []
        for users, ratio in BLANKET_LEVELS:
            truth = max(self._blanket_divergence(a, b, users, ratio) for a, b in self.input_pairs)
            epsilon = float(np.log(float(ratio)))
            ways = [way for pair in self.mechanism.blankets() for way in (pair, pair.swapped())]
            claims = [PositivePartMean(way.law, users).bracket(epsilon).upper_float() for way in ways]
            result.append((users, ratio, truth, max([0.0, *claims])))
        return result

    def _blanket_divergence(self, a: int, b: int, users: int, ratio: Fraction) -> Fraction:
        """Returns the larger direction of (1/n)·E(ΣG)_+ for one pair, from the table with equal values of G merged."""
        worst = Fraction(0)
        for law in (self.gain_law(a, b, ratio), self.gain_law(b, a, ratio)):
            worst = max(worst, self._positive_part_mean(frozenset(law.items()), users) / users)
        return worst

    def _positive_part_mean(self, law: frozenset[tuple[Fraction, Fraction]], users: int) -> Fraction:
        """Returns E(ΣG)_+, cached because similar inputs have the same law."""
        if (law, users) not in self._positive_part_means:
            values, weights = zip(*((value, weight) for value, weight in law if weight), strict=True)
            self._positive_part_means[law, users] = exact_enumeration.positive_part_mean(values, weights, users)
        return self._positive_part_means[law, users]

    @cached_property
    def _positive_part_means(self) -> dict[tuple[frozenset[tuple[Fraction, Fraction]], int], Fraction]:
        return {}

    def gain_law(self, a: int, b: int, ratio: Fraction) -> RationalGainLaw:
        """Returns the law of G = (P − ratio·Q)/floor for two inputs.

        The missing mass of the floor is revealed and adds 0.
        """
        return gain_law(self.hiding_table.rows[a], self.hiding_table.rows[b], self.hiding_table.blanket, ratio)

    @cached_property
    def single_report_estimates(self) -> Floats:
        """The estimate from each report of the table alone."""
        return np.array([self._estimate([place]) for place in range(len(self.table.messages))])

    @cached_property
    def estimates(self) -> list[EstimateMoments]:
        """Mean and variance of the estimate for one user of each input and, if messages are few, for two users."""
        table = self.table
        result = []
        for value, row in zip(table.inputs, table.probabilities, strict=True):
            result.append(_moments(value[None, ...], self.single_report_estimates, [float(chance) for chance in row]))
        if len(table.messages) <= MAX_PAIRED_MESSAGES:
            places = list(itertools.product(range(len(table.messages)), repeat=2))
            pairs = np.array([self._estimate(list(pair)) for pair in places])
            first, last = table.probabilities[0], table.probabilities[-1]
            result.append(_moments(table.inputs[[0, -1]], pairs, [float(first[a] * last[b]) for a, b in places]))
        return result

    def _estimate(self, places: list[int]) -> Any:
        return self.mechanism.estimate(self.flatten_reports(self.table.messages[places])).value


def _moments(values: Array, estimates: Floats, chances: list[float]) -> EstimateMoments:
    mean = np.tensordot(np.array(chances), estimates, axes=1)
    variance = np.tensordot(np.array(chances), (estimates - mean) ** 2, axes=1)
    return EstimateMoments(values, mean, variance, max(1.0, float(np.abs(estimates).max())))


def require_table(case: MechanismCase) -> str:
    """Returns why a check of the table does not apply; empty if the mechanism has a table."""
    return "" if case.mechanism.has_table else "its law cannot be written down as a table"


def require_bounded_ratios(case: MechanismCase) -> str:
    """Returns why a check of likelihood ratios does not apply; empty if there is a table with bounded ratios."""
    return require_table(case) or (
        "an input may send a message that another input hardly ever sends" if case.has_tails else ""
    )


def require_no_table(case: MechanismCase) -> str:
    """Returns why a check for mechanisms without a table does not apply; empty if there is no table."""
    return "its law is checked exactly, by its table" if case.mechanism.has_table else ""


# --- Outcomes ---


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


# --- Checks ---


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
