"""Mechanisms of somebody else, by name: from a Python file, or from an installed package that offers them as plug-ins.

A visitor never takes the name of a mechanism of this package, and what is proved about one is about the law that its
own class states.
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
from typing import TYPE_CHECKING, Any

from shuffledp.mechanisms.mechanism import Mechanism

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "shuffledp.mechanisms"
"""The entry points under which an installed package offers its mechanisms: a name, and the class of that name."""
WHO = "mechanism file"
OURS = "shuffledp."
FILES = "SHUFFLEDP_MECHANISM_FILES"
"""The files read so far, for processes that are started from this one and get its classes or their names."""
PREFIX = "visitor_"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_registered: dict[str, type[Mechanism]] = {}
_files: dict[str, Path] = {}
_digests: dict[str, str] = {}
"""By the name of the module: the file that it was read from, and the SHA-256 of its bytes then."""


def load(path: str | PathLike[str]) -> dict[str, type[Mechanism]]:
    """The mechanisms that a Python file defines, by name; from now on the catalogue knows them in this process.

    ``path``: a file with one or more concrete subclasses of ``Mechanism``, each a dataclass with a ``name`` that is
    not in the catalogue. The file is run, once: reading it again gives the same classes.
    """
    file = Path(path).resolve()
    module = _module(file)
    kinds = [kind for kind in vars(module).values() if _is_own(kind, module)]
    try:
        if not kinds:
            raise ValueError(
                f"{WHO}: expected {file.name} to define a Mechanism with all that it must answer, got none."
            )
        found = _free(kinds)
    except ValueError:
        # So that the file is read anew once it was mended.
        del sys.modules[module.__name__], _files[module.__name__]
        raise
    _registered.update(found)
    if file not in _inherited():
        os.environ[FILES] = os.pathsep.join(map(str, [*_inherited(), file]))
    return found


def register(kind: type[Mechanism]) -> None:
    """Make a class known to the catalogue of this process by its ``name``, such as one of a notebook."""
    if not (inspect.isclass(kind) and issubclass(kind, Mechanism)) or inspect.isabstract(kind):
        raise TypeError(f"register: expected a Mechanism with all that it must answer, got {kind!r}.")
    _registered.update(_free([kind]))


def _free(kinds: Sequence[type[Mechanism]]) -> dict[str, type[Mechanism]]:
    """The classes by their names; a sentence if one is taken."""
    found: dict[str, type[Mechanism]] = {}
    for kind in kinds:
        name = _checked(kind, WHO)
        if name in found or _registered.get(name, kind) is not kind:
            raise ValueError(f"{WHO}: the name {name!r} of {kind.__name__} is taken by another class; choose another.")
        found[name] = kind
    return found


def registered() -> dict[str, type[Mechanism]]:
    """What files have brought into this process so far."""
    return dict(_registered)


def entry_points() -> dict[str, type[Mechanism]]:
    """Every mechanism that an installed package offers, by name."""
    return {entry.name: _loaded(entry) for entry in _entries()}


def find(name: str) -> type[Mechanism] | None:
    """A visitor's class by its name: of a file, else of an installed package, imported only now."""
    for file in () if name in _registered else _inherited():
        load(file)
    if name in _registered:
        return _registered[name]
    for entry in _entries(name=name):
        return _loaded(entry)
    return None


def names() -> list[str]:
    """Every visitor's name, without importing anything."""
    return [*_registered, *_entries().names]


def origin(kind: type[Mechanism]) -> str | None:
    """Whose law a mechanism's is: None for this package's own, else file or module and class.

    A file is named with the SHA-256 of its bytes when it was read, so that another file of that name is told apart.
    """
    module = kind.__module__
    if module.startswith(OURS) and getattr(sys.modules.get(module), kind.__qualname__, None) is kind:
        return None
    if module not in _files:
        return f"{module}:{kind.__qualname__}"
    return f"{_files[module].name}:{kind.__qualname__}, sha256 {_digests[module]}"


# --- reading a file -----------------------------------------------------------------------------------------------


def _module(file: Path) -> ModuleType:
    """The file as a module of a private name, run once in a process."""
    name = _module_name(file)
    if name in sys.modules:
        return sys.modules[name]
    if not file.is_file():
        raise ValueError(f"{WHO}: expected a Python file, but there is none at {file}.")
    if file.suffix != ".py":
        raise ValueError(f"{WHO}: expected a Python file that ends in .py, got {file}.")
    _files[name] = file
    try:
        return importlib.import_module(name)
    except SyntaxError as error:
        del _files[name]
        raise ValueError(f"{WHO}: {file.name}, line {error.lineno}: {error.msg}.") from None
    except Exception as error:
        del _files[name]
        raise ValueError(f"{WHO}: {file.name} stopped with {type(error).__name__}: {_flat(error)}.") from error


def _module_name(file: Path) -> str:
    stem = re.sub(r"\W", "_", file.stem)
    return f"{PREFIX}{stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"


def _inherited() -> list[Path]:
    return [Path(text) for text in os.environ.get(FILES, "").split(os.pathsep) if text]


class _Finder(MetaPathFinder):
    """Imports a file by its private name, also where a process gets a class from the one that started it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if not fullname.startswith(PREFIX):
            return None
        known = {_module_name(file): file for file in (*_inherited(), *_files.values())}
        if fullname not in known:
            return None
        _files[fullname] = known[fullname]
        loader = _Loader(fullname, str(known[fullname]))
        return importlib.util.spec_from_file_location(fullname, known[fullname], loader=loader)


class _Loader(SourceFileLoader):
    """Runs the very bytes whose digest is kept, and leaves no compiled file behind."""

    def get_code(self, fullname: str) -> CodeType:
        text = self.get_data(self.path)
        _digests[fullname] = hashlib.sha256(text).hexdigest()
        return self.source_to_code(text, self.path)


sys.meta_path.append(_Finder())


def _is_own(kind: Any, module: ModuleType) -> bool:
    """Whether a name of the module is a concrete mechanism that was defined there."""
    if not (inspect.isclass(kind) and issubclass(kind, Mechanism)):
        return False
    return kind.__module__ == module.__name__ and not inspect.isabstract(kind)


# --- what a class must keep ---------------------------------------------------------------------------------------


def _entries(name: str | None = None) -> EntryPoints:
    """What installed packages name in our group; the module that reads it is slow to import."""
    from importlib import metadata

    found = metadata.entry_points(group=GROUP)
    return found if name is None else found.select(name=name)


def _loaded(entry: EntryPoint) -> type[Mechanism]:
    who = f"{GROUP} entry point {entry.name!r}"
    try:
        kind = entry.load()
    except Exception as error:
        raise ValueError(f"{who}: {entry.value} stopped with {type(error).__name__}: {_flat(error)}.") from error
    if not (inspect.isclass(kind) and issubclass(kind, Mechanism)) or inspect.isabstract(kind):
        raise ValueError(f"{who}: expected a Mechanism with all that it must answer, got {entry.value}.")
    if _checked(kind, who) != entry.name:
        raise ValueError(f"{who}: expected a class of that name, got {kind.name!r}.")
    return kind


def _checked(kind: type[Mechanism], who: str) -> str:
    """The class's name; a sentence if it cannot be one of a catalogue."""
    # The catalogue asks here for what is not its own.
    from shuffledp.mechanisms import catalogue

    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{who}: {kind.__name__} must have a name of small letters, digits and hyphens, got {name!r}.")
    if name in catalogue.all_mechanisms() or catalogue.wrappers_of(name)[0]:
        raise ValueError(f"{who}: the name {name!r} of {kind.__name__} is the catalogue's own; choose another.")
    if not dataclasses.is_dataclass(kind):
        raise ValueError(f"{who}: {kind.__name__} must be a dataclass, so that its settings have names.")
    return name


def _flat(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
