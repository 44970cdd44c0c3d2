"""``check_mechanism``: the conformance suite that every mechanism must pass, as an explicit list of checks."""

from __future__ import annotations

from typing import Any

from shuffledp._core import validation
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.testing._check_framework import Check, CheckResult, merge_results, run_all
from shuffledp.testing._mechanism_case import DEFAULT_SAMPLES, DEFAULT_SEED, MechanismCase
from shuffledp.testing.estimate_checks import ESTIMATE_CHECKS
from shuffledp.testing.mechanism_checks import (
    ENCODING_CHECKS,
    INPUT_CHECKS,
    LAW_CHECKS,
    OTHER_USERS_CHECKS,
    PRIVACY_CHECKS,
    PROTOCOL_CHECKS,
    SETTINGS_CHECKS,
)
from shuffledp.testing.sampling_checks import SAMPLING_CHECKS

CHECKS: tuple[Check[MechanismCase], ...] = (
    *LAW_CHECKS,
    *PRIVACY_CHECKS,
    *OTHER_USERS_CHECKS,
    *SAMPLING_CHECKS,
    *ESTIMATE_CHECKS,
    *ENCODING_CHECKS,
    *INPUT_CHECKS,
    *SETTINGS_CHECKS,
    *PROTOCOL_CHECKS,
)

MIN_SAMPLES = 1000
MAX_TABLE_COMPARISONS = 1_000_000
"""Largest table, inputs × inputs × messages, all of whose pairs of inputs are compared."""


def check_mechanism(
    mechanism: Mechanism | type[Mechanism],
    *,
    seed: int = DEFAULT_SEED,
    samples: int = DEFAULT_SAMPLES,
    raises: bool = True,
    progress: Progress | None = None,
) -> CheckResult:
    """Runs the conformance suite on a mechanism, or on the examples of a class.

    The table of probabilities is compared exactly, input by input and message by message, and the guarantees by brute
    force over all datasets of a few users. Two kinds of checks are statistical: that ``encode`` follows the table and,
    where there is none, those of mean and variance. Each has a false alarm probability of at most 1e-7.

    Args:
        mechanism: A small instance, or a class, which is checked on its ``examples()``.
        seed: Seed of the statistical checks.
        samples: Number of users of each input in the statistical checks, at least 1000.
        raises: If False, failures are only listed in the result.
        progress: Receives the progress.

    Returns:
        The outcome; each failure comes with its meaning and certainty.

    Raises:
        ConformanceError: If a check fails; it lists all failures.
        TypeError: If ``mechanism`` is neither a mechanism nor a class of mechanisms, or is an abstract class.
        ValueError: If the table is too large, a class has no examples, or a number is out of range.

    >>> import shuffledp as sdp
    >>> coin = sdp.FromTable([[0.75, 0.25], [0.25, 0.75]])
    >>> sdp.testing.check_mechanism(coin, samples=1000).passed
    True
    """
    validation.count("check_mechanism", "seed", seed, at_least=0)
    validation.count("check_mechanism", "samples", samples, at_least=MIN_SAMPLES)
    if isinstance(mechanism, type) and issubclass(mechanism, Mechanism):
        return _check_class(mechanism, seed, samples, progress).raise_if_failed(raises)
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"check_mechanism: expected a Mechanism or a class of it, got {mechanism!r}.")
    return _check_instance(mechanism, seed, samples, progress).raise_if_failed(raises)


def _check_instance(mechanism: Mechanism, seed: int, samples: int, progress: Progress | None) -> CheckResult:
    case = MechanismCase(mechanism, seed, samples)
    _check_table_size(case)
    return run_all(describe_mechanism(mechanism), case, CHECKS, progress)


def _check_class(kind: type[Mechanism], seed: int, samples: int, progress: Progress | None) -> CheckResult:
    missing: Any = sorted(kind.__abstractmethods__)
    if missing:
        raise TypeError(f"check_mechanism: {kind.__name__} must define {', '.join(missing)}.")
    examples = list(kind.examples())
    if not examples:
        raise ValueError(f"check_mechanism: {kind.__name__}.examples() must give small instances, got none.")
    return merge_results(kind.__name__, (_check_instance(one, seed, samples, progress) for one in examples))


def describe_mechanism(mechanism: Mechanism) -> str:
    """Returns the name of the class, with the settings if they are short; works for classes without settings, too."""
    try:
        settings = ", ".join(f"{name}={value!r}" for name, value in mechanism.settings().items())
    except Exception:
        settings = "…"
    return f"{type(mechanism).__name__}({settings if len(settings) <= 60 else '…'})"


def _check_table_size(case: MechanismCase) -> None:
    """Raises ValueError for a table that would take hours; a table that fails is left to the checks that need it."""
    if not case.mechanism.has_table:
        return
    try:
        inputs, messages = len(case.rows), len(case.rows[0])
    except Exception:
        return
    if inputs**2 * messages > MAX_TABLE_COMPARISONS:
        raise ValueError(
            f"check_mechanism: {case.class_name} has a table of {inputs} inputs and {messages} messages, too many to "
            "compare all; check a smaller instance."
        )
