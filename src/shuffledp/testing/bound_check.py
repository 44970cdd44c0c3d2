"""Whether a bound is ever below the truth: brute force over all datasets, on random tables and the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from shuffledp import argument
from shuffledp.bounds.bound import Bound
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.mechanisms.given.from_table import FromTable
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.progress import Progress
from shuffledp.testing import brute_force, oracle
from shuffledp.testing.check import EXACT
from shuffledp.testing.checked import Checked, Failure
from shuffledp.testing.conformance import name_of

TABLES = 40
"""How many random tables are tried, every second one extremal."""
LOCAL = (3, 4, 8)
"""Twice the ratios e^ε0 of extremal tables."""
MEANING = "what it calls an upper bound is none"


@dataclass(frozen=True)
class BoundTrial:
    """A randomizer with the crowds and ratios at which its worst dataset is found."""

    mechanism: Mechanism
    places: tuple[tuple[int, Fraction], ...]

    def truths(self) -> Iterator[tuple[int, Fraction, Fraction]]:
        """Users, e^ε, and the largest divergence over all datasets."""
        for users, ratio in self.places:
            yield users, ratio, brute_force.worst_dataset(self.mechanism, users, ratio)


def check_bound(
    bound: Bound,
    *,
    randomizers: Iterable[Mechanism] | None = None,
    tables: int = TABLES,
    raises: bool = True,
    progress: Progress | None = None,
) -> Checked:
    """Compare a bound with the truth for a few users: the worst of all datasets and pairs of inputs, exactly.

    ``randomizers`` are small mechanisms with a table; by default the catalogue's examples and ``tables`` random tables,
    half of them extremal (in every column two probabilities, one e^ε0 times the other). Passing is no proof: brute
    force reaches a few users and messages only. ``progress`` shows how far it is.

    Requires: a Bound, or any object with its ``name`` and ``curve``.
    Returns: what was checked, one name for each randomizer to which the bound applies. All failures are in one
    ConformanceError (an AssertionError); with ``raises=False`` they are only listed, as ``failures``. A bound that
    applies to none of the randomizers has not passed.

    >>> import shuffledp as sdp
    >>> tiny = sdp.KRR(epsilon=1.0, options=2)
    >>> sdp.testing.check_bound(sdp.bounds.VariationRatioBound(), randomizers=[tiny]).ran
    ('never below the truth for KRR(epsilon=1.0, options=2)',)
    """
    if isinstance(bound, type) or not (callable(getattr(bound, "curve", None)) and hasattr(bound, "name")):
        raise TypeError(f"check_bound: expected an object of a class of Bound, got {bound!r}.")
    argument.count("check_bound", "tables", tables, at_least=0)
    if randomizers is None:
        trials = [*catalogue_trials(), *(random_trial(seed, extremal=seed % 2 == 0) for seed in range(tables))]
    else:
        trials = [trial_of(one) for one in randomizers]
    return _compared(bound, trials, progress).demanded(raises)


def _compared(bound: Bound, trials: Sequence[BoundTrial], progress: Progress | None) -> Checked:
    ran, skipped, failures = [], [], []
    with (progress or Progress()).step("checking", len(trials)) as advance:
        for trial in trials:
            name = f"never below the truth for {name_of(trial.mechanism)}"
            found = list(compare([bound], trial))
            wrong = [sentence for _, sentence in found if sentence]
            if found:
                ran.append(name)
            else:
                skipped.append((name, "the bound does not apply"))
            if wrong:
                clause = f"{name_of(trial.mechanism)}, {wrong[0]}"
                failures.append(Failure(name, f"The bound is below the truth: {clause}; {MEANING}.", EXACT))
            advance(1)
    return Checked(type(bound).__name__, tuple(ran), tuple(skipped), tuple(failures))


def compare(bounds: Sequence[Bound], trial: BoundTrial) -> Iterator[tuple[str, str]]:
    """Each bound that applies, by name, with what is wrong at one of the trial's places; empty where nothing is."""
    for users, ratio, truth in trial.truths():
        yield from brute_force.below_the_truth(bounds, trial.mechanism, truth, users, ratio)


def trial_of(mechanism: Mechanism) -> BoundTrial:
    """A mechanism with every crowd that brute force can reach."""
    if not isinstance(mechanism, Mechanism) or not mechanism.has_table:
        raise TypeError(f"check_bound: randomizers must be mechanisms with a table, got {mechanism!r}.")
    crowds = brute_force.crowds_in_reach(mechanism)
    if not crowds:
        raise ValueError(f"check_bound: {name_of(mechanism)} is too large for brute force; take a smaller instance.")
    return BoundTrial(mechanism, tuple((users, ratio) for users in crowds for ratio in brute_force.RATIOS))


def catalogue_trials() -> Iterator[BoundTrial]:
    """The examples of the catalogue that have a table."""
    for kind in all_mechanisms().values():
        yield from (trial_of(example) for example in kind.examples() if example.has_table)


def random_trial(seed: int, *, extremal: bool = True) -> BoundTrial:
    """A random table with two or three inputs, a small crowd and a ratio below the table's own."""
    rng = Random(seed)
    local = Fraction(rng.choice(LOCAL), 2)
    inputs, outputs = rng.choice([2, 3]), rng.choice([3, 4])
    if extremal:
        rows = oracle.random_extremal_table(rng, inputs, outputs, local)
    else:
        rows = oracle.random_table(rng, inputs, outputs)
    mechanism = FromTable([[float(chance) for chance in row] for row in rows])
    users = rng.choice([2, 3, 4, 5]) if seed % 10 else 7
    ratio = 1 + (local - 1) * Fraction(rng.randint(1, 15), 16)
    return BoundTrial(mechanism, ((users, ratio),))
