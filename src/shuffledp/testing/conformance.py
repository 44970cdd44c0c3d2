"""The suite that every mechanism must pass, ours and anybody's own: an explicit list of checks, and how to run it."""

from __future__ import annotations

from typing import Any

from shuffledp import argument
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.progress import Progress
from shuffledp.testing.case import SAMPLES, SEED, Case
from shuffledp.testing.check import Check, run_all
from shuffledp.testing.checked import Checked, together
from shuffledp.testing.crowd_check import CROWD_CHECKS
from shuffledp.testing.estimate_check import ESTIMATE_CHECKS
from shuffledp.testing.input_check import INPUT_CHECKS
from shuffledp.testing.law_check import LAW_CHECKS
from shuffledp.testing.privacy_check import PRIVACY_CHECKS
from shuffledp.testing.protocol_check import PROTOCOL_CHECKS
from shuffledp.testing.sampling_check import SAMPLING_CHECKS
from shuffledp.testing.settings_check import SETTINGS_CHECKS
from shuffledp.testing.wire_check import WIRE_CHECKS

CHECKS: tuple[Check[Case], ...] = (
    *LAW_CHECKS,
    *PRIVACY_CHECKS,
    *CROWD_CHECKS,
    *SAMPLING_CHECKS,
    *ESTIMATE_CHECKS,
    *WIRE_CHECKS,
    *INPUT_CHECKS,
    *SETTINGS_CHECKS,
    *PROTOCOL_CHECKS,
)

LEAST_SAMPLES = 1000
LARGEST_TABLE = 1_000_000
"""Inputs × inputs × messages of a table whose pairs of inputs are all compared."""


def check_mechanism(
    mechanism: Mechanism | type[Mechanism],
    *,
    seed: int = SEED,
    samples: int = SAMPLES,
    raises: bool = True,
    progress: Progress | None = None,
) -> Checked:
    """Run the conformance suite on a mechanism; a class is checked on its ``examples()``.

    Give a small instance: its table of probabilities is compared exactly, input by input and message by message, and
    its guarantees by brute force over all datasets of a few users. Statistical are the checks that ``encode`` follows
    the table and, where there is none, of mean and variance: ``samples`` users of each input from a fixed ``seed``,
    each with a false alarm of at most 1e-7. ``progress`` shows how far it is.

    Requires: a Mechanism, or a class of it.
    Returns: what was checked. All failures are in one ConformanceError (an AssertionError), each with what it means
    and how sure it is; with ``raises=False`` they are only listed, as ``failures``.

    >>> import shuffledp as sdp
    >>> coin = sdp.FromTable([[0.75, 0.25], [0.25, 0.75]])
    >>> sdp.testing.check_mechanism(coin, samples=1000).passed
    True
    """
    argument.count("check_mechanism", "seed", seed, at_least=0)
    argument.count("check_mechanism", "samples", samples, at_least=LEAST_SAMPLES)
    if isinstance(mechanism, type) and issubclass(mechanism, Mechanism):
        return _check_class(mechanism, seed, samples, progress).demanded(raises)
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"check_mechanism: expected a Mechanism or a class of it, got {mechanism!r}.")
    return _check_object(mechanism, seed, samples, progress).demanded(raises)


def _check_object(mechanism: Mechanism, seed: int, samples: int, progress: Progress | None) -> Checked:
    case = Case(mechanism, seed, samples)
    _demand_small(case)
    return run_all(name_of(mechanism), case, CHECKS, progress)


def _check_class(kind: type[Mechanism], seed: int, samples: int, progress: Progress | None) -> Checked:
    missing: Any = sorted(kind.__abstractmethods__)
    if missing:
        raise TypeError(f"check_mechanism: {kind.__name__} must define {', '.join(missing)}.")
    examples = list(kind.examples())
    if not examples:
        raise ValueError(f"check_mechanism: {kind.__name__}.examples() must give small instances, got none.")
    return together(kind.__name__, (_check_object(one, seed, samples, progress) for one in examples))


def name_of(mechanism: Mechanism) -> str:
    """The class with its settings where they are short; a class may have neither."""
    try:
        settings = ", ".join(f"{name}={value!r}" for name, value in mechanism.settings().items())
    except Exception:
        settings = "…"
    return f"{type(mechanism).__name__}({settings if len(settings) <= 60 else '…'})"


def _demand_small(case: Case) -> None:
    """Refuse what would take hours. A table that cannot be had is a failure of the checks that ask for it."""
    if not case.mechanism.has_table:
        return
    try:
        inputs, messages = len(case.rows), len(case.rows[0])
    except Exception:
        return
    if inputs**2 * messages > LARGEST_TABLE:
        raise ValueError(
            f"check_mechanism: {case.who} has a table of {inputs} inputs and {messages} messages, too many to compare "
            "all; check a smaller instance."
        )
