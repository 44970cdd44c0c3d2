"""Catalogue of the mechanisms by name, found by importing the package; plug-ins come after the package's own."""

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
from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp.mechanisms import plugins
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.combined import compressed, repeated
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.mechanisms.combined.repeated import Repeated

MIN_NAME_SIMILARITY = 0.7
"""Smallest similarity at which a name is taken for a misspelling of a known one."""
WRAPPERS: Mapping[str, type[Compressed | Repeated]] = {
    compressed.NAME_PREFIX: Compressed,
    repeated.NAME_PREFIX: Repeated,
}
"""Mechanisms around other mechanisms, by the prefix of their name; the inner mechanism is their first field."""


def all_mechanisms() -> dict[str, type[Mechanism]]:
    """Returns the package's concrete mechanism classes by their command-line name."""
    _import_all()
    return {kind.name: kind for kind in sorted(_concrete_classes(Mechanism), key=lambda kind: kind.name)}


@cache
def _import_all() -> None:
    """Imports every module of the package once: the walk takes longer than most catalogue queries."""
    for module in pkgutil.walk_packages(shuffledp.mechanisms.__path__, f"{shuffledp.mechanisms.__name__}."):
        importlib.import_module(module.name)


def _concrete_classes(kind: Any) -> Iterator[type[Mechanism]]:
    for child in kind.__subclasses__():
        ours = child.__module__.startswith(f"{shuffledp.mechanisms.__name__}.")
        # Compressed serves the task of its inner mechanism and is no entry of its own.
        if ours and not child.__abstractmethods__ and child is not Compressed:
            yield child
        yield from _concrete_classes(child)


def settings_fields(kind: type[Mechanism]) -> list[dataclasses.Field[Any]]:
    """Returns the constructor's arguments besides ε."""
    return [field for field in dataclasses.fields(kind) if field.init and field.name != "epsilon"]  # type: ignore[arg-type]


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Returns True if a setting may be left out."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def takes_epsilon(kind: type[Mechanism]) -> bool:
    """Returns True if the constructor takes a local ε."""
    return any(field.name == "epsilon" and field.init for field in dataclasses.fields(kind))  # type: ignore[arg-type]


def is_buildable_by_name(kind: type[Mechanism]) -> bool:
    """Returns True if a name and serialisable settings, as in a plan, suffice to build the mechanism."""
    return kind.has_numeric_settings or kind.combines_mechanisms or bool(kind.table_setting)


def construct(kind: type[Mechanism], epsilon: float | None, chosen: Mapping[str, Any]) -> Mechanism:
    """Builds a mechanism from its local ε, if it takes one, and its settings."""
    return kind(**chosen) if epsilon is None else kind(epsilon=epsilon, **chosen)  # type: ignore[call-arg]


def aliases() -> dict[str, str]:
    """Returns the alternative names of the package's mechanisms, with the catalogue's name of each."""
    # Only names that the class itself defines, not inherited ones.
    return {other: kind.name for kind in all_mechanisms().values() for other in vars(kind).get("aliases", ())}


def find(name: str) -> type[Mechanism] | None:
    """Returns the class of a name: the package's own first, then those of plug-in files and installed packages."""
    ours = all_mechanisms()
    return ours.get(name) or plugins.find(name) or ours.get(aliases().get(normalize_name(name), normalize_name(name)))


def canonical_name(name: str) -> str:
    """Returns the catalogue's name for an alternative name; unknown names are returned unchanged."""
    plain = normalize_name(name)
    return plain if plain in all_mechanisms() else aliases().get(plain, name)


def find_closest_name(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name closest to a misspelt one, alternative names included; None if none is similar."""
    names = list(known)
    alternatives = {alias: own for alias, own in aliases().items() if own in names}
    near = difflib.get_close_matches(normalize_name(name), [*names, *alternatives], 1, cutoff=MIN_NAME_SIMILARITY)
    return alternatives.get(near[0], near[0]) if near else None


def normalize_name(name: str) -> str:
    """Returns a name in the catalogue's spelling."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def unknown_name_error(name: str) -> ValueError:
    """Returns the error for an unknown mechanism name."""
    buildable = [known for known, kind in all_mechanisms().items() if is_buildable_by_name(kind)]
    names = [*buildable, *plugins.plugin_names()]
    closest = find_closest_name(name, names)
    if closest is not None:
        return ValueError(
            f"mechanism must be one of the catalogue, such as {closest!r}, which may be meant, got {name!r}."
        )
    return ValueError(f"mechanism must be one of {', '.join(names)}, got {name!r}.")


def find_buildable_class(name: str) -> type[Mechanism]:
    """Returns the class of a mechanism that can be built by name, without its wrappers.

    Raises:
        ValueError: If the name is unknown.
    """
    _, name = split_wrappers(name)
    kind = find(name)
    if kind is None or not is_buildable_by_name(kind):
        raise unknown_name_error(name)
    return kind


def split_wrappers(name: str) -> tuple[tuple[type[Compressed | Repeated], ...], str]:
    """Splits a name into its wrappers, outermost first, and the inner mechanism's name."""
    prefix, _, inner = name.partition("-")
    if prefix not in WRAPPERS or not inner:
        return (), name
    deeper, plain = split_wrappers(inner)
    return (WRAPPERS[prefix], *deeper), plain


def wrapper_candidates(example: Mechanism) -> Iterator[str]:
    """Yields the prefixes of the wrappers that a plan tries: one seed, or a few seeds if one is hard to find.

    Several messages in place of one, or one seed for several runs, have more noise or take longer.
    """
    if Compressed.accepts(example):
        yield compressed.NAME_PREFIX
        if Repeated.accepts(Compressed(example)):
            yield f"{repeated.NAME_PREFIX}-{compressed.NAME_PREFIX}"


def wrap(mechanism: Mechanism, wrappers: Sequence[type[Mechanism]], settings: Mapping[str, Any]) -> Mechanism:
    """Wraps a mechanism in wrappers, outermost first, with their settings among `settings`."""
    for wrapper in reversed(wrappers):
        own = {field.name for field in wrapper_settings(wrapper)}
        mechanism = wrapper(mechanism, **{key: value for key, value in settings.items() if key in own})  # type: ignore[call-arg]
    return mechanism


def iterate_layers(mechanism: Mechanism) -> Iterator[Mechanism]:
    """Yields a mechanism, the one inside it, and so on."""
    yield mechanism
    if isinstance(mechanism, Compressed):
        yield from iterate_layers(mechanism.randomizer)
    elif isinstance(mechanism, Repeated):
        yield from iterate_layers(mechanism.mechanism)


def wrapper_settings(wrapper: type[Mechanism]) -> list[dataclasses.Field[Any]]:
    """Returns the settings of a wrapper besides the mechanism."""
    return settings_fields(wrapper)[1:]


def from_document(document: Mapping[str, Any]) -> Mechanism:
    """Builds the mechanism of a `Mechanism.to_document()`.

    Args:
        document: Name, local ε and settings.

    Returns:
        The mechanism.

    Raises:
        TypeError: If a setting has the wrong type.
        ValueError: If the name is unknown or a setting is invalid, unknown or missing.
    """
    local = document.get("epsilon")
    epsilon = math.inf if local == "inf" else local
    if epsilon is not None:
        epsilon = validation.real(document["name"], "epsilon", epsilon)
    return build(document["name"], epsilon, document.get("settings", {}))


def build(name: str, epsilon_local: float | None, settings: Mapping[str, Any]) -> Mechanism:
    """Builds a mechanism from its name and settings.

    Args:
        name: Name in the catalogue, with the prefixes of wrappers.
        epsilon_local: Local ε, if the mechanism takes one.
        settings: Settings by name: numbers or their texts, or a table.

    Returns:
        The mechanism.

    Raises:
        TypeError: If a setting has the wrong type.
        ValueError: If the name is unknown, ε is missing or superfluous, or a setting is invalid, unknown or missing.
    """
    kind = find_buildable_class(name)
    wrappers, inner = split_wrappers(name)
    if wrappers:
        own = {field.name: field for wrapper in wrappers for field in wrapper_settings(wrapper)}
        mechanism = build(inner, epsilon_local, {key: text for key, text in settings.items() if key not in own})
        outer = {key: text for key, text in settings.items() if key in own}
        return wrap(mechanism, wrappers, _parse_settings(name, own, outer))
    if takes_epsilon(kind) and epsilon_local is None:
        raise InvalidArgument(name, phrase("needs {epsilon_local}"), parameter=Argument("mechanism"))
    if not takes_epsilon(kind) and epsilon_local is not None:
        reason = "its table says it" if kind.table_setting else "it takes no local ε"
        raise InvalidArgument(name, reason, hint=phrase("leave {epsilon_local} out"))
    known = {field.name: field for field in settings_fields(kind)}
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise ValueError(f"{name}: expected settings among {', '.join(known) or 'none'}, got {unknown[0]!r}.")
    if kind.combines_mechanisms:
        return construct(kind, None, {**settings, "mechanisms": _build_mechanisms(name, settings.get("mechanisms"))})
    return construct(kind, epsilon_local, _parse_settings(name, known, settings, kind.table_setting))


def _build_mechanisms(name: str, documents: Any) -> list[Mechanism]:
    """Builds the inner mechanisms from their documents."""
    if not isinstance(documents, Sequence) or isinstance(documents, str):
        shown = validation.format_value(documents)
        raise TypeError(f"{name}: mechanisms must be a list of mechanisms as a plan has them, got {shown}.")
    for each in documents:
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
            shown = validation.format_value(each)
            raise TypeError(f"{name}: expected a mechanism with its name and settings, got {shown}.")
    return [from_document(each) for each in documents]


def _parse_settings(
    name: str, known: Mapping[str, dataclasses.Field[Any]], settings: Mapping[str, Any], table: str = ""
) -> dict[str, Any]:
    """Returns the settings converted to their types; raises ValueError if one is missing.

    The setting called `table` is a table of numbers.
    """
    missing = [key for key, field in known.items() if key not in settings and not has_default(field)]
    if missing:
        setting = Argument(missing[0], "…", f"--set {missing[0]}=…")
        raise InvalidArgument(name, f"setting {missing[0]} is missing", hint=phrase("add {setting}", setting=setting))
    return {
        key: _check_table(name, key, value) if key == table else _parse_setting(name, key, value, known[key])
        for key, value in settings.items()
    }


def _check_table(name: str, key: str, value: Any) -> Any:
    """Returns a table as it is; the mechanism checks its content."""
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        shown = validation.format_value(value)
        raise TypeError(f"{name}: {key} must be a table, a list of rows of numbers, got {shown}.")
    return value


def _parse_setting(name: str, key: str, value: Any, field: dataclasses.Field[Any]) -> Any:
    kind = _type_name(field)
    if kind.startswith("str"):
        if not isinstance(value, str):
            raise TypeError(f"{name}: {key} must be a text, got {value!r}.")
        return value
    number = _parse_number(name, key, value) if isinstance(value, str) else validation.real(name, key, value)
    # Not the float: whole numbers may be too large for an exact float.
    whole = number if isinstance(value, str) else value
    return validation.count(name, key, whole, at_least=0) if kind.startswith("int") else number


def _type_name(field: dataclasses.Field[Any]) -> str:
    """Returns the name of a setting's type: classes with evaluated annotations store the type, ours its text."""
    return field.type.__name__ if isinstance(field.type, type) else str(field.type)


def _parse_number(name: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name}: {key} must be a number, got {text!r}.") from None
