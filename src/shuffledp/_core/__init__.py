"""Errors, validation, formatting and figures, used by all other packages; here the version and lazy exports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__version__ = "0.2.0"


def attach_stub(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Builds the lazy exports of a package from the stub that lists them for type checkers.

    Args:
        package: Name of the package.
        file: Its ``__init__.py``; the stub ``__init__.pyi`` stands beside it and holds nothing but lines
            ``from MODULE_NAME import NAME as NAME``. A name imported from the package itself is one of its modules.

    Returns:
        The package's ``__getattr__``, ``__dir__`` and ``__all__``.
    """
    home: dict[str, str] = {}
    with open(f"{file}i", encoding="utf-8") as stub:
        # Parsed without `re` and `ast`, which take longer to import than the package itself.
        for statement in f"\n{stub.read()}".split("\nfrom ")[1:]:
            module, _, names = statement.partition(" import ")
            home |= {name.split()[-1]: module for name in names.strip("()\n").split(",") if name.strip()}
    namespace = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = home[name]
        value = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
        namespace[name] = value
        return value

    return get, lambda: sorted({*namespace, *home}), sorted(home)
