"""``check_bound``: soundness of a bound by brute force over all datasets, on random tables and the catalogue."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.base import Bound
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.mechanisms.table_and_density import FromTable
from shuffledp.testing import exact_enumeration, multi_message_divergence
from shuffledp.testing._check_framework import EXACT, CheckResult, Failure
from shuffledp.testing.exact_enumeration import worst_divergence
from shuffledp.testing.mechanisms import describe_mechanism

# --- Brute force ---


USER_COUNTS, EXP_EPSILONS = (1, 2, 3, 5, 7), (Fraction(17, 16), Fraction(3, 2))
"""Numbers of users, and values of e^ε, to try."""
MAX_CELLS = 400_000
"""Largest number of cells of counts × datasets for one brute-force search."""
RELATIVE_TOLERANCE = 1e-12
"""Relative rounding error of an exact value as a float."""


def feasible_user_counts(mechanism: Mechanism) -> list[int]:
    """Returns the numbers of users for which every dataset can be tried."""
    rows = mechanism.table().probabilities
    return [users for users in USER_COUNTS if enumeration_size(len(rows), len(rows[0]), users) <= MAX_CELLS]


def enumeration_size(inputs: int, outputs: int, users: int) -> int:
    """Returns the number of cells of counts × datasets × pairs of inputs."""
    cells = math.comb(users + outputs - 1, outputs - 1)
    datasets = math.comb(users - 1 + inputs - 1, inputs - 1)
    return cells * datasets * inputs**2


def worst_dataset_divergence(mechanism: Mechanism, users: int, ratio: Fraction) -> Fraction:
    """Returns the largest divergence; if users send several messages, over all reports regardless of their order."""
    table = mechanism.table()
    if mechanism.messages_per_user > 1:
        return multi_message_divergence.worst_divergence(multi_message_divergence.report_laws(table), users, ratio)
    return worst_divergence(table.probabilities, users, ratio)


def epsilon_below(ratio: Fraction) -> float:
    """Returns a float ε slightly below log(ratio), so that e^ε is at most the ratio."""
    return math.nextafter(math.log(float(ratio)), 0.0)


def check_upper_bounds(
    bounds: Iterable[Bound], mechanism: Mechanism, truth: Fraction, users: int, ratio: Fraction
) -> Iterator[tuple[str, str]]:
    """Yields each bound that applies, by name, with an error if its δ at ``ratio`` is below ``truth``, else ""."""
    for bound in bounds:
        try:
            curve = bound.curve(mechanism, mechanism.hiding_messages(users))
            upper = curve.delta(epsilon_below(ratio)).upper
        except NotApplicable:
            continue
        sound = upper >= float(truth) * (1 - RELATIVE_TOLERANCE)
        point = f"with n = {users} and e^ε = {ratio}"
        error = "" if sound else f"{point}, {bound.name} says δ ≤ {upper:.9g}, some dataset has δ = {float(truth):.9g}"
        yield bound.name, error


def check_attack(mechanism: Mechanism, truth: Fraction, users: int, ratio: Fraction) -> Iterator[str]:
    """Yields an error if the attack that ``amplify`` knows claims more than the divergence of the worst dataset."""
    lower = amplify(mechanism, users, effort=QUICK_EFFORT).delta(epsilon_below(ratio)).lower
    # ε is slightly below log(ratio): the divergence there may be larger, by e^ε times two steps of a float.
    if lower is not None and not lower <= float(truth) * (1 + 1e-9) + 1e-15:
        yield (
            f"with n = {users} and e^ε = {ratio}, the attack claims δ ≥ {lower:.9g}, "
            f"no dataset has more than {float(truth):.9g}"
        )


# --- Checks ---


DEFAULT_TABLES = 40
"""Number of random tables; every second one is extremal."""
HALF_EXP_EPSILONS = (3, 4, 8)
"""Twice the ratios e^ε0 of extremal tables."""
UNSOUND_CONSEQUENCE = "its upper bound is not one"


@dataclass(frozen=True)
class BoundTrial:
    """A randomizer with the numbers of users and the ratios e^ε at which its worst dataset is searched."""

    mechanism: Mechanism
    points: tuple[tuple[int, Fraction], ...]

    def exact_divergences(self) -> Iterator[tuple[int, Fraction, Fraction]]:
        """Yields the number of users, e^ε, and the largest divergence over all datasets."""
        for users, ratio in self.points:
            yield users, ratio, worst_dataset_divergence(self.mechanism, users, ratio)


def check_bound(
    bound: Bound,
    *,
    randomizers: Iterable[Mechanism] | None = None,
    tables: int = DEFAULT_TABLES,
    raises: bool = True,
    progress: Progress | None = None,
) -> CheckResult:
    """Compares a bound with the exact divergence of the worst dataset and pair of inputs, for a few users.

    Passing is no proof: brute force reaches a few users and messages only.

    Args:
        bound: A ``Bound``, or any object with its ``name`` and ``curve``.
        randomizers: Small mechanisms with a table; by default the examples of the catalogue and random tables.
        tables: Number of random tables; half of them are extremal (in every column two probabilities, one e^ε0 times
            the other).
        raises: If False, failures are only listed in the result.
        progress: Receives the progress.

    Returns:
        The outcome, with one check for each randomizer to which the bound applies. A bound that applies to none of the
        randomizers has not passed.

    Raises:
        ConformanceError: If the bound is below the exact value somewhere, or applies to none of the randomizers; it
            lists all failures.
        TypeError: If ``bound`` is not a bound, or a randomizer has no table.
        ValueError: If a randomizer is too large for brute force, or ``tables`` is negative.

    >>> import shuffledp as sdp
    >>> tiny = sdp.KRR(epsilon=1.0, options=2)
    >>> sdp.testing.check_bound(sdp.bounds.BOUNDS_BY_NAME["variation-ratio"], randomizers=[tiny]).ran
    ('never below the truth for KRR(epsilon=1.0, options=2)',)
    """
    if isinstance(bound, type) or not (callable(getattr(bound, "curve", None)) and hasattr(bound, "name")):
        raise TypeError(f"check_bound: expected an object of a class of Bound, got {bound!r}.")
    validation.count("check_bound", "tables", tables, at_least=0)
    if randomizers is None:
        trials = [*catalogue_trials(), *(draw_random_trial(seed, extremal=seed % 2 == 0) for seed in range(tables))]
    else:
        trials = [build_trial(one) for one in randomizers]
    return _run_trials(bound, trials, progress).raise_if_failed(raises)


def _run_trials(bound: Bound, trials: Sequence[BoundTrial], progress: Progress | None) -> CheckResult:
    ran, skipped, failures = [], [], []
    with (progress or Progress()).step("checking", len(trials)) as advance:
        for trial in trials:
            name = f"never below the truth for {describe_mechanism(trial.mechanism)}"
            found = list(compare_bounds([bound], trial))
            wrong = [sentence for _, sentence in found if sentence]
            if found:
                ran.append(name)
            else:
                skipped.append((name, "the bound does not apply"))
            if wrong:
                clause = f"{describe_mechanism(trial.mechanism)}, {wrong[0]}"
                failures.append(Failure(name, f"The bound is below the truth: {clause}; {UNSOUND_CONSEQUENCE}.", EXACT))
            advance(1)
    return CheckResult(type(bound).__name__, tuple(ran), tuple(skipped), tuple(failures))


def compare_bounds(bounds: Sequence[Bound], trial: BoundTrial) -> Iterator[tuple[str, str]]:
    """Yields each bound that applies, by name, with the error at each point of the trial; empty if there is none."""
    for users, ratio, truth in trial.exact_divergences():
        yield from check_upper_bounds(bounds, trial.mechanism, truth, users, ratio)


def build_trial(mechanism: Mechanism) -> BoundTrial:
    """Returns a trial of a mechanism with every number of users that brute force can reach."""
    if not isinstance(mechanism, Mechanism) or not mechanism.has_table:
        raise TypeError(f"check_bound: randomizers must be mechanisms with a table, got {mechanism!r}.")
    user_counts = feasible_user_counts(mechanism)
    if not user_counts:
        raise ValueError(
            f"check_bound: {describe_mechanism(mechanism)} is too large for brute force; take a smaller instance."
        )
    return BoundTrial(mechanism, tuple((users, ratio) for users in user_counts for ratio in EXP_EPSILONS))


def catalogue_trials() -> Iterator[BoundTrial]:
    """Yields trials of the examples of the catalogue that have a table."""
    for kind in all_mechanisms().values():
        yield from (build_trial(example) for example in kind.examples() if example.has_table)


def draw_random_trial(seed: int, *, extremal: bool = True) -> BoundTrial:
    """Returns a trial of a random table with two or three inputs, a few users and a ratio below the table's own."""
    rng = Random(seed)
    local = Fraction(rng.choice(HALF_EXP_EPSILONS), 2)
    inputs, outputs = rng.choice([2, 3]), rng.choice([3, 4])
    if extremal:
        rows = exact_enumeration.random_extremal_table(rng, inputs, outputs, local)
    else:
        rows = exact_enumeration.random_table(rng, inputs, outputs)
    mechanism = FromTable([[float(chance) for chance in row] for row in rows])
    users = rng.choice([2, 3, 4, 5]) if seed % 10 else 7
    ratio = 1 + (local - 1) * Fraction(rng.randint(1, 15), 16)
    return BoundTrial(mechanism, ((users, ratio),))
