"""Whether a mechanism is what its settings say: built again from them, or sent to another process, it is the same."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from shuffledp.errors import NotApplicable
from shuffledp.mechanisms import catalogue
from shuffledp.testing.case import Case
from shuffledp.testing.check import Check, checks


def from_numbers(case: Case) -> str:
    """Only for what a plan can name: the others are not built from numbers, or a table of them."""
    named = catalogue.can_be_named(type(case.mechanism))
    return "" if named else "it is not built from numbers (built_from_numbers = False)"


@checks(
    "The settings do not build the same mechanism",
    "a saved plan would run another mechanism than the one that was planned",
    why_not=from_numbers,
)
def the_settings_build_the_same_mechanism(case: Case) -> Iterator[str]:
    """Numbers and texts by the constructor's names, and the mechanism built from them is equal.

    A mechanism that is made of others is built from what a plan writes down of these.
    """
    settings = case.mechanism.settings()
    if case.mechanism.built_from_mechanisms:
        yield from different(case, catalogue.read(json.loads(json.dumps(case.mechanism.document()))), "read again")
        return
    for name, value in settings.items():
        if name != case.mechanism.built_from_table and not (value is None or isinstance(value, int | float | str)):
            yield f"setting {name} is no number or text but {type(value).__name__}"
    yield from different(case, type(case.mechanism)(**settings), "built from its settings")


@checks(
    "The mechanism does not survive pickling",
    "collections on several processes or machines cannot use it",
    why_not=from_numbers,
)
def it_survives_pickling(case: Case) -> Iterator[str]:
    """The same mechanism comes out, with everything that it remembers once it was used."""
    mechanism = case.mechanism
    for use in (mechanism.variation_ratio, mechanism.blankets, mechanism.attacks):
        # Noise with a law of its own is not told message by message.
        with suppress(NotApplicable):
            use()
    mechanism.variance(case.values[:1])
    mechanism.estimate(case.sent(case.values[:1], case.generator(4)), users=1)
    yield from different(case, pickle.loads(pickle.dumps(mechanism)), "after pickling")


def different(case: Case, other: Any, how: str) -> Iterator[str]:
    """In what another mechanism is not the same."""
    if other != case.mechanism:
        yield f"{how}, it is not equal to itself"
    if other.settings() != case.mechanism.settings():
        yield f"{how}, it has other settings"
    values = np.repeat(case.values[:2], 50, axis=0)
    sent, again = (one.pack(Case(one, case.seed).sent(values, case.generator(4))) for one in (case.mechanism, other))
    if not np.array_equal(sent, again):
        yield f"{how}, it sends other messages from the same seed"


SETTINGS_CHECKS: tuple[Check[Case], ...] = (the_settings_build_the_same_mechanism, it_survives_pickling)
