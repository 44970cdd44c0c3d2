"""Mechanisms of somebody else, by name: from a Python file, or from an installed package that offers them as plug-ins.

A visitor never takes the name of a mechanism of this package, and what is proved about one is about the law that its
own class states.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import inspect
import re
import sys
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

from shuffledp.mechanisms.mechanism import Mechanism

GROUP = "shuffledp.mechanisms"
"""The entry points under which an installed package offers its mechanisms: a name, and the class of that name."""
WHO = "mechanism file"
OURS = "shuffledp."
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_registered: dict[str, type[Mechanism]] = {}
_files: dict[str, Path] = {}
"""By the name of the module: the file that it was read from."""


def load(path: str | PathLike[str]) -> dict[str, type[Mechanism]]:
    """The mechanisms that a Python file defines, by name; from now on the catalogue knows them in this process.

    ``path``: a file with one or more concrete subclasses of ``Mechanism``, each a dataclass with a ``name`` that is
    not in the catalogue. The file is run, once: reading it again gives the same classes.
    """
    file = Path(path).resolve()
    module = _module(file)
    kinds = [kind for kind in vars(module).values() if _is_own(kind, module)]
    if not kinds:
        raise ValueError(f"{WHO}: expected {file.name} to define a Mechanism with all that it must answer, got none.")
    found: dict[str, type[Mechanism]] = {}
    for kind in kinds:
        name = _checked(kind, WHO)
        if name in found or _registered.get(name, kind) is not kind:
            raise ValueError(f"{WHO}: the name {name!r} of {kind.__name__} is taken by another class; choose another.")
        found[name] = kind
    _registered.update(found)
    return found


def registered() -> dict[str, type[Mechanism]]:
    """What files have brought into this process so far."""
    return dict(_registered)


def entry_points() -> dict[str, type[Mechanism]]:
    """Every mechanism that an installed package offers, by name."""
    return {entry.name: _loaded(entry) for entry in importlib.metadata.entry_points(group=GROUP)}


def find(name: str) -> type[Mechanism] | None:
    """A visitor's class by its name: of a file, else of an installed package, imported only now."""
    if name in _registered:
        return _registered[name]
    for entry in importlib.metadata.entry_points(group=GROUP, name=name):
        return _loaded(entry)
    return None


def names() -> list[str]:
    """Every visitor's name, without importing anything."""
    return [*_registered, *importlib.metadata.entry_points(group=GROUP).names]


def origin(kind: type[Mechanism]) -> str | None:
    """Whose law a mechanism's is: None for this package's own, else file or module and class.

    A file is named with the SHA-256 of its bytes when it was read, so that another file of that name is told apart.
    """
    module = kind.__module__
    if module.startswith(OURS):
        return None
    if module not in _files:
        return f"{module}:{kind.__qualname__}"
    digest = sys.modules[module].__dict__["__digest__"]
    return f"{_files[module].name}:{kind.__qualname__}, sha256 {digest}"


# --- reading a file -----------------------------------------------------------------------------------------------


def _module(file: Path) -> ModuleType:
    """The file as a module of a private name, run once in a process."""
    stem = re.sub(r"\W", "_", file.stem)
    name = f"visitor_{stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ValueError(f"{WHO}: expected a Python file that ends in .py, got {file}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name], _files[name] = module, file
    try:
        module.__dict__["__digest__"] = hashlib.sha256(file.read_bytes()).hexdigest()
        spec.loader.exec_module(module)
    except SyntaxError as error:
        _forget(name)
        raise ValueError(f"{WHO}: {file.name}, line {error.lineno}: {error.msg}.") from None
    except Exception as error:
        _forget(name)
        raise ValueError(f"{WHO}: {file.name} stopped with {type(error).__name__}: {_flat(error)}.") from error
    return module


def _forget(module: str) -> None:
    del sys.modules[module], _files[module]


def _is_own(kind: Any, module: ModuleType) -> bool:
    """Whether a name of the module is a concrete mechanism that was defined there."""
    if not (inspect.isclass(kind) and issubclass(kind, Mechanism)):
        return False
    return kind.__module__ == module.__name__ and not inspect.isabstract(kind)


# --- what a class must keep ---------------------------------------------------------------------------------------


def _loaded(entry: importlib.metadata.EntryPoint) -> type[Mechanism]:
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
    if name in catalogue.all_mechanisms() or catalogue.wrapper_of(name)[0] is not None:
        raise ValueError(f"{who}: the name {name!r} of {kind.__name__} is the catalogue's own; choose another.")
    if not dataclasses.is_dataclass(kind):
        raise ValueError(f"{who}: {kind.__name__} must be a dataclass, so that its settings have names.")
    return name


def _flat(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
