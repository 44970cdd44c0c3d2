"""Every mechanism of the package by name: a new file with a new class is found by itself; visitors come after."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import shuffledp.mechanisms
from shuffledp import argument
from shuffledp.mechanisms import visitor
from shuffledp.mechanisms.combined.compressed import PREFIX, Compressed
from shuffledp.mechanisms.mechanism import Mechanism

WRAPPERS: Mapping[str, type[Mechanism]] = {PREFIX: Compressed}
"""What is built around a mechanism, by the prefix of its name; its first field is the mechanism."""


def all_mechanisms() -> dict[str, type[Mechanism]]:
    """Final mechanism classes by their command-line name."""
    for module in pkgutil.walk_packages(shuffledp.mechanisms.__path__, f"{shuffledp.mechanisms.__name__}."):
        importlib.import_module(module.name)
    found = sorted(_final_kinds(Mechanism), key=lambda kind: kind.name)
    return {kind.name: kind for kind in found}


def _final_kinds(kind: Any) -> Iterator[type[Mechanism]]:
    for child in kind.__subclasses__():
        ours = child.__module__.startswith(f"{shuffledp.mechanisms.__name__}.")
        # What is built around a mechanism is no entry of its own.
        if ours and not child.__abstractmethods__ and child not in WRAPPERS.values():
            yield child
        yield from _final_kinds(child)


def settings(kind: type[Mechanism]) -> list[dataclasses.Field[Any]]:
    """The constructor's arguments besides epsilon."""
    return [field for field in dataclasses.fields(kind) if field.init and field.name != "epsilon"]  # type: ignore[arg-type]


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Whether a setting may be left out."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def takes_epsilon(kind: type[Mechanism]) -> bool:
    """Whether the constructor wants a local ε."""
    return any(field.name == "epsilon" and field.init for field in dataclasses.fields(kind))  # type: ignore[arg-type]


def can_be_named(kind: type[Mechanism]) -> bool:
    """Whether its name and settings that can be written down suffice to build it, as a plan has them."""
    return kind.built_from_numbers or bool(kind.built_from_table)


def construct(kind: type[Mechanism], epsilon: float | None, chosen: Mapping[str, Any]) -> Mechanism:
    """A mechanism from its local ε, if it takes one, and its settings."""
    return kind(**chosen) if epsilon is None else kind(epsilon=epsilon, **chosen)  # type: ignore[call-arg]


def find(name: str) -> type[Mechanism] | None:
    """The class of a name: this package's own first, then what files and installed packages brought along."""
    return all_mechanisms().get(name) or visitor.find(name)


def kind_of(name: str) -> type[Mechanism]:
    """The mechanism of a name, or the one around which it is built, among those that can be written down."""
    _, name = wrapper_of(name)
    kind = find(name)
    if kind is None or not can_be_named(kind):
        kinds = [known for known, own in all_mechanisms().items() if can_be_named(own)]
        raise ValueError(f"mechanism must be one of {', '.join([*kinds, *visitor.names()])}, got {name!r}.")
    return kind


def wrapper_of(name: str) -> tuple[type[Mechanism] | None, str]:
    """What a name's prefix says is built around a mechanism, if any, and the mechanism's name."""
    prefix, _, inner = name.partition("-")
    return (WRAPPERS[prefix], inner) if prefix in WRAPPERS else (None, name)


def read(document: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a ``Mechanism.document()``; a sentence if it is none."""
    local = document.get("epsilon")
    epsilon = math.inf if local == "inf" else local
    if epsilon is not None:
        epsilon = argument.real(document["name"], "epsilon", epsilon)
    return build(document["name"], epsilon, document.get("settings", {}))


def build(name: str, epsilon_local: float | None, given: Mapping[str, Any]) -> Mechanism:
    """A mechanism from its name, local ε if it takes one, and settings: numbers or the texts of them, or a table."""
    kind = kind_of(name)
    wrapper, inner = wrapper_of(name)
    if wrapper is not None:
        return _wrapped(wrapper, inner, epsilon_local, given)
    if takes_epsilon(kind) and epsilon_local is None:
        raise ValueError(f"{name}: --mechanism needs --epsilon-local.")
    if not takes_epsilon(kind) and epsilon_local is not None:
        why = "its table says it" if kind.built_from_table else "it has no local ε, dummies hide its messages"
        raise ValueError(f"{name}: {why}; leave --epsilon-local out.")
    known = {field.name: field for field in settings(kind)}
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ValueError(f"{name}: expected settings among {', '.join(known) or 'none'}, got {unknown[0]!r}.")
    missing = [key for key, field in known.items() if key not in given and not has_default(field)]
    if missing:
        raise ValueError(f"{name}: setting {missing[0]} is missing; add --set {missing[0]}=….")
    chosen = {
        key: _rows(name, key, text) if key == kind.built_from_table else _number(name, key, text, known[key])
        for key, text in given.items()
    }
    return construct(kind, epsilon_local, chosen)


def _wrapped(kind: type[Mechanism], inner: str, epsilon_local: float | None, given: Mapping[str, Any]) -> Mechanism:
    """What is built around a mechanism: the settings are its own or the mechanism's."""
    _, *own = settings(kind)
    known = {field.name: field for field in own}
    mechanism = build(inner, epsilon_local, {key: text for key, text in given.items() if key not in known})
    chosen = {key: _number(inner, key, text, known[key]) for key, text in given.items() if key in known}
    return kind(mechanism, **chosen)  # type: ignore[call-arg]


def _rows(name: str, key: str, given: Any) -> Any:
    """A table, row by row; what it must hold is for the mechanism to say."""
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise TypeError(f"{name}: {key} must be a table, a list of rows of numbers, got {argument.shown(given)}.")
    return given


def _number(name: str, key: str, given: Any, field: dataclasses.Field[Any]) -> Any:
    kind = _type_of(field)
    if kind.startswith("str"):
        if not isinstance(given, str):
            raise TypeError(f"{name}: {key} must be a text, got {given!r}.")
        return given
    number = _parsed(name, key, given) if isinstance(given, str) else argument.real(name, key, given)
    # Not the float: whole numbers may be larger than floats are exact.
    whole = number if isinstance(given, str) else given
    return argument.count(name, key, whole, at_least=0) if kind.startswith("int") else number


def _type_of(field: dataclasses.Field[Any]) -> str:
    """A setting's type in words: a file may have it as the type itself, ours have it as text."""
    return field.type.__name__ if isinstance(field.type, type) else str(field.type)


def _parsed(name: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name}: {key} must be a number, got {text!r}.") from None
