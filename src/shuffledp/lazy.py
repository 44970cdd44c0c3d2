"""Packages whose names are imported when they are asked for: a program pays for what it uses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def door(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package: ``homes`` has the names that each module gives.

    What the package itself gives are its own rooms. Type checkers and editors do not run this: for them the same names
    stand in the package as plain imports, and a test compares the two.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}
    room = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = home[name]
        found = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
        room[name] = found
        return found

    return get, lambda: sorted({*room, *home}), sorted(home)
