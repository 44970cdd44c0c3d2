"""Every mechanism of the package by name: a new file with a new class is found by itself; visitors come after."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import math
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

import shuffledp.mechanisms
from shuffledp import argument
from shuffledp.mechanisms import visitor
from shuffledp.mechanisms.combined import compressed, repeated
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.mechanisms.combined.repeated import Repeated
from shuffledp.mechanisms.mechanism import Mechanism

ALIKE = 0.7
"""How alike a name must be to one that is known, to be taken for a slip."""
WRAPPERS: Mapping[str, type[Compressed | Repeated]] = {compressed.PREFIX: Compressed, repeated.PREFIX: Repeated}
"""What is built around a mechanism, by the prefix of its name; its first field is the mechanism."""


def all_mechanisms() -> dict[str, type[Mechanism]]:
    """Final mechanism classes by their command-line name."""
    _import_all()
    found = sorted(_final_kinds(Mechanism), key=lambda kind: kind.name)
    return {kind.name: kind for kind in found}


@cache
def _import_all() -> None:
    """Every file of the package, once: looking for them takes longer than most questions to the catalogue."""
    for module in pkgutil.walk_packages(shuffledp.mechanisms.__path__, f"{shuffledp.mechanisms.__name__}."):
        importlib.import_module(module.name)


def _final_kinds(kind: Any) -> Iterator[type[Mechanism]]:
    for child in kind.__subclasses__():
        ours = child.__module__.startswith(f"{shuffledp.mechanisms.__name__}.")
        # What is for any task, that of the mechanism around which it is built, is no entry of its own.
        if ours and not child.__abstractmethods__ and child is not Compressed:
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
    return kind.built_from_numbers or kind.built_from_mechanisms or bool(kind.built_from_table)


def construct(kind: type[Mechanism], epsilon: float | None, chosen: Mapping[str, Any]) -> Mechanism:
    """A mechanism from its local ε, if it takes one, and its settings."""
    return kind(**chosen) if epsilon is None else kind(epsilon=epsilon, **chosen)  # type: ignore[call-arg]


def aliases() -> dict[str, str]:
    """Other names of this package's mechanisms, and what each stands for."""
    # Not what a class has from another one that it is built on.
    return {other: kind.name for kind in all_mechanisms().values() for other in vars(kind).get("also_called", ())}


def find(name: str) -> type[Mechanism] | None:
    """The class of a name: this package's own first, then what files and installed packages brought along."""
    ours = all_mechanisms()
    return ours.get(name) or visitor.find(name) or ours.get(aliases().get(plain_name(name), plain_name(name)))


def own_name(name: str) -> str:
    """What the catalogue calls a mechanism that goes by several names; other names as they are."""
    plain = plain_name(name)
    return plain if plain in all_mechanisms() else aliases().get(plain, name)


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Which of some names may be meant, among those that they are also called; None where none is alike."""
    names = list(known)
    other = {alias: own for alias, own in aliases().items() if own in names}
    near = difflib.get_close_matches(plain_name(name), [*names, *other], 1, cutoff=ALIKE)
    return other.get(near[0], near[0]) if near else None


def plain_name(name: str) -> str:
    """A name as the catalogue writes names."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def unknown(name: str) -> ValueError:
    """The sentence for a name that nobody knows."""
    kinds = [*(known for known, own in all_mechanisms().items() if can_be_named(own)), *visitor.names()]
    meant = near_name(name, kinds)
    if meant is not None:
        return ValueError(
            f"mechanism must be one of the catalogue, such as {meant!r}, which may be meant, got {name!r}."
        )
    return ValueError(f"mechanism must be one of {', '.join(kinds)}, got {name!r}.")


def kind_of(name: str) -> type[Mechanism]:
    """The mechanism of a name, or the one around which it is built, among those that can be written down."""
    _, name = wrappers_of(name)
    kind = find(name)
    if kind is None or not can_be_named(kind):
        raise unknown(name)
    return kind


def wrappers_of(name: str) -> tuple[tuple[type[Compressed | Repeated], ...], str]:
    """What a name's prefixes say is built around a mechanism, from the outside, and the mechanism's name."""
    prefix, _, inner = name.partition("-")
    if prefix not in WRAPPERS or not inner:
        return (), name
    deeper, plain = wrappers_of(inner)
    return (WRAPPERS[prefix], *deeper), plain


def worth_trying(example: Mechanism) -> Iterator[str]:
    """The prefixes of what a plan builds around mechanisms like this one: a seed, or a few where one is hard to find.

    Several messages in place of one, or one seed for several runs, have more noise, or take longer, than these.
    """
    if Compressed.fits(example):
        yield compressed.PREFIX
        if Repeated.fits(Compressed(example)):
            yield f"{repeated.PREFIX}-{compressed.PREFIX}"


def wrapped(mechanism: Mechanism, wrappers: Sequence[type[Mechanism]], given: Mapping[str, Any]) -> Mechanism:
    """A mechanism with all of these around it, from the outside, and their settings among those given."""
    made = mechanism
    for wrapper in reversed(wrappers):
        own = {field.name for field in own_settings(wrapper)}
        made = wrapper(made, **{key: value for key, value in given.items() if key in own})  # type: ignore[call-arg]
    return made


def layers(mechanism: Mechanism) -> Iterator[Mechanism]:
    """A mechanism, the one around which it is built, and so on."""
    yield mechanism
    if isinstance(mechanism, Compressed):
        yield from layers(mechanism.randomizer)
    elif isinstance(mechanism, Repeated):
        yield from layers(mechanism.mechanism)


def own_settings(wrapper: type[Mechanism]) -> list[dataclasses.Field[Any]]:
    """The settings of a wrapper besides the mechanism."""
    _, *own = settings(wrapper)
    return own


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
    wrappers, inner = wrappers_of(name)
    if wrappers:
        own = {field.name: field for wrapper in wrappers for field in own_settings(wrapper)}
        mechanism = build(inner, epsilon_local, {key: text for key, text in given.items() if key not in own})
        return wrapped(mechanism, wrappers, _chosen(name, own, {key: given[key] for key in given if key in own}))
    if takes_epsilon(kind) and epsilon_local is None:
        raise ValueError(f"{name}: --mechanism needs --epsilon-local.")
    if not takes_epsilon(kind) and epsilon_local is not None:
        why = "its table says it" if kind.built_from_table else "it takes no local ε"
        raise ValueError(f"{name}: {why}; leave --epsilon-local out.")
    known = {field.name: field for field in settings(kind)}
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ValueError(f"{name}: expected settings among {', '.join(known) or 'none'}, got {unknown[0]!r}.")
    if kind.built_from_mechanisms:
        return construct(kind, None, dict(given) | {"mechanisms": _mechanisms(name, given.get("mechanisms"))})
    return construct(kind, epsilon_local, _chosen(name, known, given, kind.built_from_table))


def _mechanisms(name: str, given: Any) -> list[Mechanism]:
    """The mechanisms that another one is made of, as their documents tell."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(
            f"{name}: mechanisms must be a list of mechanisms as a plan has them, got {argument.shown(given)}."
        )
    for one in given:
        if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
            raise TypeError(f"{name}: expected a mechanism with its name and settings, got {argument.shown(one)}.")
    return [read(one) for one in given]


def _chosen(
    name: str, known: Mapping[str, dataclasses.Field[Any]], given: Mapping[str, Any], table: str = ""
) -> dict[str, Any]:
    """The settings as their types say, none that is needed left out; the one called ``table`` is one."""
    missing = [key for key, field in known.items() if key not in given and not has_default(field)]
    if missing:
        raise ValueError(f"{name}: setting {missing[0]} is missing; add --set {missing[0]}=….")
    return {
        key: _rows(name, key, text) if key == table else _number(name, key, text, known[key])
        for key, text in given.items()
    }


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
