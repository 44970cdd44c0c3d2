"""Whether values are validated: bad ones are refused by a sentence, good ones have one canonical form."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from shuffledp.testing.case import Case
from shuffledp.testing.check import Check, checks, refused

BAD: tuple[Any, ...] = (
    [],
    None,
    "text",
    np.array(["a", "b"]),
    float("nan"),
    [float("nan")],
    [[float("nan")]],
    [10**9],
    [[10**9]],
    [True],
)
"""Values that are in no domain."""


def bad_values_are_refused(case: Case, bad: Any) -> Iterator[str]:
    """Values outside the domain raise one sentence that names the mechanism."""
    with refused(ValueError, TypeError) as sentences:
        case.mechanism.encode(bad, rng=case.generator())
    if not sentences:
        yield f"encode({bad!r}) returned messages"
    for sentence in sentences:
        if not sentence.startswith(case.who):
            yield f"the sentence for {bad!r} does not begin with {case.who}: {sentence!r}"
        if not sentence.endswith("."):
            yield f"the refusal of {bad!r} is no sentence: {sentence!r}"


def _refusal(bad: Any) -> Check[Case]:
    wrong = f"The bad value {bad!r} is not refused as it should be"
    meaning = (
        "bad data must stop a collection by one sentence, which says who expected what, before anything is encoded"
    )
    return Check(f"{bad!r} is refused with a sentence", partial(bad_values_are_refused, bad=bad), wrong, meaning)


@checks(
    "The canonical form of a value is not its own canonical form",
    "a value that is checked twice would become another one",
)
def the_canonical_form_is_stable(case: Case) -> Iterator[str]:
    """``check`` of what ``check`` gave is the same, and inputs of the table and the probe are canonical."""
    mechanism = case.mechanism
    for name, values in (("the table's inputs" if mechanism.has_table else "probe()", case.values),
                         ("probe()", mechanism.probe())):  # fmt: skip
        once = mechanism.check(values)
        twice = mechanism.check(once)
        if once.shape != twice.shape or once.dtype != twice.dtype or not np.array_equal(once, twice):
            yield f"check() changes values of {name} that it gave itself"
        if len(once) != len(values):
            yield f"check() makes {len(once)} values of {len(values)}"


INPUT_CHECKS: tuple[Check[Case], ...] = (*map(_refusal, BAD), the_canonical_form_is_stable)
