"""Plug-in mechanisms by name, from a Python file or from entry points of installed packages.

A plug-in never takes the name of a mechanism of this package. Its guarantees are about the law that its own class
states.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from os import PathLike
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

from shuffledp.mechanisms.base.mechanism import Mechanism

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

ENTRY_POINT_GROUP = "shuffledp.mechanisms"
"""Entry-point group under which an installed package offers mechanisms: a name, and the class of that name."""
ERROR_PREFIX = "mechanism file"
PACKAGE_PREFIX = "shuffledp."
FILES_VARIABLE = "SHUFFLEDP_MECHANISM_FILES"
"""Environment variable with the files read so far, for child processes that receive their classes or names."""
MODULE_PREFIX = "plugin_"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_registered: dict[str, type[Mechanism]] = {}
_files: dict[str, Path] = {}
"""The file of each module, by its name."""
_digests: dict[str, str] = {}
"""The SHA-256 of the bytes that each module was read from, by its name."""


def load_file(path: str | PathLike[str]) -> dict[str, type[Mechanism]]:
    """Runs a Python file and registers the mechanisms that it defines in the catalogue of this process.

    A file is run once; loading it again returns the same classes.

    Args:
        path: File with one or more concrete subclasses of `Mechanism`, each a dataclass with a `name` that is not in
            the catalogue.

    Returns:
        The classes by name.

    Raises:
        ValueError: If the file does not exist, does not end in .py, fails to run, defines no mechanism, or a name is
            invalid or taken.
    """
    file = Path(path).resolve()
    module = _import_file(file)
    kinds = [kind for kind in vars(module).values() if _is_concrete(kind) and kind.__module__ == module.__name__]
    try:
        if not kinds:
            raise ValueError(
                f"{ERROR_PREFIX}: expected {file.name} to define a Mechanism with all that it must answer, got none."
            )
        mechanisms = _check_names_free(kinds)
    except ValueError:
        # So that the file is read again once it is corrected.
        del sys.modules[module.__name__], _files[module.__name__]
        raise
    _registered.update(mechanisms)
    if file not in _files_from_environment():
        os.environ[FILES_VARIABLE] = os.pathsep.join(map(str, [*_files_from_environment(), file]))
    return mechanisms


def register(kind: type[Mechanism]) -> None:
    """Registers a class, such as one of a notebook, in the catalogue of this process by its `name`.

    Args:
        kind: Concrete subclass of `Mechanism`.

    Raises:
        TypeError: If it is not one.
        ValueError: If its name is invalid or taken, or it is not a dataclass.
    """
    if not _is_concrete(kind):
        raise TypeError(f"register: expected a Mechanism with all that it must answer, got {kind!r}.")
    _registered.update(_check_names_free([kind]))


def _check_names_free(kinds: Sequence[type[Mechanism]]) -> dict[str, type[Mechanism]]:
    """Returns the classes by name; raises ValueError if a name is taken."""
    by_name: dict[str, type[Mechanism]] = {}
    for kind in kinds:
        name = _check_class(kind, ERROR_PREFIX)
        if name in by_name or _registered.get(name, kind) is not kind:
            raise ValueError(
                f"{ERROR_PREFIX}: the name {name!r} of {kind.__name__} is taken by another class; choose another."
            )
        by_name[name] = kind
    return by_name


def registered_mechanisms() -> dict[str, type[Mechanism]]:
    """Returns the mechanisms that were loaded or registered in this process."""
    return dict(_registered)


def load_entry_points() -> dict[str, type[Mechanism]]:
    """Returns every mechanism that an installed package offers, by name."""
    return {entry.name: _load_entry_point(entry) for entry in _find_entry_points()}


def find(name: str) -> type[Mechanism] | None:
    """Returns the plug-in class of a name, or None: from a file, else from an installed package, imported now."""
    for file in () if name in _registered else _files_from_environment():
        load_file(file)
    if name in _registered:
        return _registered[name]
    for entry in _find_entry_points(name=name):
        return _load_entry_point(entry)
    return None


def plugin_names() -> list[str]:
    """Returns the names of all plug-ins without importing them."""
    return [*_registered, *_find_entry_points().names]


def origin(kind: type[Mechanism]) -> str | None:
    """Returns the origin of a mechanism's law: None for the package's own, else file or module and class.

    A file is named with the SHA-256 of its bytes when it was read, which distinguishes files of the same name.
    """
    module = kind.__module__
    if module.startswith(PACKAGE_PREFIX) and getattr(sys.modules.get(module), kind.__qualname__, None) is kind:
        return None
    if module not in _files:
        return f"{module}:{kind.__qualname__}"
    return f"{_files[module].name}:{kind.__qualname__}, sha256 {_digests[module]}"


# --- Loading a file ---


def _import_file(file: Path) -> ModuleType:
    """Imports the file as a module of a private name, once per process."""
    name = _module_name(file)
    if name in sys.modules:
        return sys.modules[name]
    if not file.is_file():
        raise ValueError(f"{ERROR_PREFIX}: expected a Python file, but there is none at {file}.")
    if file.suffix != ".py":
        raise ValueError(f"{ERROR_PREFIX}: expected a Python file that ends in .py, got {file}.")
    _files[name] = file
    try:
        return importlib.import_module(name)
    except SyntaxError as error:
        del _files[name]
        raise ValueError(f"{ERROR_PREFIX}: {file.name}, line {error.lineno}: {error.msg}.") from None
    except Exception as error:
        del _files[name]
        raise ValueError(
            f"{ERROR_PREFIX}: {file.name} stopped with {type(error).__name__}: {_one_line(error)}."
        ) from error


def _module_name(file: Path) -> str:
    stem = re.sub(r"\W", "_", file.stem)
    return f"{MODULE_PREFIX}{stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"


def _files_from_environment() -> list[Path]:
    return [Path(text) for text in os.environ.get(FILES_VARIABLE, "").split(os.pathsep) if text]


class _Finder(MetaPathFinder):
    """Importer of plug-in files by their private name, also for child processes that unpickle their classes."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if not fullname.startswith(MODULE_PREFIX):
            return None
        files = {_module_name(file): file for file in (*_files_from_environment(), *_files.values())}
        file = files.get(fullname)
        if file is None:
            return None
        _files[fullname] = file
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, str(file)))


class _Loader(SourceFileLoader):
    """Loader that runs exactly the bytes whose digest is stored, and writes no compiled file."""

    def get_code(self, fullname: str) -> CodeType:
        text = self.get_data(self.path)
        _digests[fullname] = hashlib.sha256(text).hexdigest()
        return self.source_to_code(text, self.path)


sys.meta_path.append(_Finder())


def _is_concrete(kind: Any) -> TypeGuard[type[Mechanism]]:
    """Returns True for a mechanism class without abstract methods."""
    return inspect.isclass(kind) and issubclass(kind, Mechanism) and not inspect.isabstract(kind)


# --- Entry points and checks of a class ---


def _find_entry_points(name: str | None = None) -> EntryPoints:
    """Returns the entry points of the group `ENTRY_POINT_GROUP`."""
    # A slow import, needed only here.
    from importlib import metadata

    offered = metadata.entry_points(group=ENTRY_POINT_GROUP)
    return offered if name is None else offered.select(name=name)


def _load_entry_point(entry: EntryPoint) -> type[Mechanism]:
    who = f"{ENTRY_POINT_GROUP} entry point {entry.name!r}"
    try:
        kind = entry.load()
    except Exception as error:
        raise ValueError(f"{who}: {entry.value} stopped with {type(error).__name__}: {_one_line(error)}.") from error
    if not _is_concrete(kind):
        raise ValueError(f"{who}: expected a Mechanism with all that it must answer, got {entry.value}.")
    if _check_class(kind, who) != entry.name:
        raise ValueError(f"{who}: expected a class of that name, got {kind.name!r}.")
    return kind


def _check_class(kind: type[Mechanism], who: str) -> str:
    """Returns the class's name; raises ValueError if it cannot be a name of the catalogue."""
    # Imported here because the catalogue imports this module.
    from shuffledp.mechanisms import catalogue

    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{who}: {kind.__name__} must have a name of small letters, digits and hyphens, got {name!r}.")
    if name in catalogue.all_mechanisms() or catalogue.split_wrappers(name)[0]:
        raise ValueError(f"{who}: the name {name!r} of {kind.__name__} is the catalogue's own; choose another.")
    if not dataclasses.is_dataclass(kind):
        raise ValueError(f"{who}: {kind.__name__} must be a dataclass, so that its settings have names.")
    return name


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
