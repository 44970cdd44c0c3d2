"""The arguments that a search for a privacy target may turn."""

from __future__ import annotations

import dataclasses

import pytest

from shuffledp.mechanisms.catalogue import all_mechanisms


@pytest.mark.parametrize("name", all_mechanisms())
def test_a_tuning_names_a_constructor_argument_and_a_range(name: str) -> None:
    """Each tuning is an argument of the constructor, with an ordered range; what is whole starts whole."""
    kind = all_mechanisms()[name]
    arguments = {field.name for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    assert bool(kind.tunable) == kind.has_numeric_settings
    for tuning in kind.tunable:
        assert tuning.name in arguments
        assert tuning.minimum < tuning.maximum
        assert not tuning.is_integer or tuning.minimum == int(tuning.minimum)
