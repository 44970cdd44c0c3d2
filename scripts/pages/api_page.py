"""The reference: every name of the public lists from its docstring, a page for each part of the package."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

from plain_docstring import escaped

from shuffledp import Mechanism

SPACES = ("shuffledp", "shuffledp.bounds", "shuffledp.collection", "shuffledp.metric", "shuffledp.tasks",
          "shuffledp.testing", "shuffledp.tradeoff")  # fmt: skip
TITLES = {
    "bounds": "Amplification: what shuffling gives",
    "composition": "Rounds, groups, Rényi",
    "calibration": "Calibration: settings for a target",
    "planner": "Plans",
    "collection": "Collections",
    "service": "Service: clients of a shuffler",
    "statement": "Statements in words",
    "certificate": "Certificates",
    "auditing": "Audits",
    "privacy": "Curves and randomizers",
    "tradeoff": "Trade-off curves: what attackers can do",
    "metric": "Metric privacy",
    "tasks": "Tasks",
    "testing": "Checks for what you bring",
    "errors": "Errors",
    "mechanisms": "Mechanisms: the base",
    "mechanisms.frequency": "Mechanisms: one option of many",
    "mechanisms.mean": "Mechanisms: means of numbers",
    "mechanisms.vector": "Mechanisms: means of vectors",
    "mechanisms.itemset": "Mechanisms: sets",
    "mechanisms.keyvalue": "Mechanisms: keys with values",
    "mechanisms.metric": "Mechanisms: places and distances",
    "mechanisms.multimessage": "Mechanisms: several messages a user",
    "mechanisms.combined": "Mechanisms: built of others",
    "mechanisms.given": "Mechanisms: your own table or density",
}
"""The pages in their order, by the part of the package where a name is defined."""

VALUES = {
    "BOUNDS": "All bounds that are looked at without being passed by hand.",
    "BOUND_OF": "Each bound by the name that ``bound=`` and ``--bound`` take.",
    "TASKS": "All tasks.",
}
"""What public tables of values hold; they have no docstring of their own."""


def public_names(namespace: str) -> list[str]:
    """What a namespace imports as itself, or lists in ``__all__``."""
    module = importlib.import_module(namespace)
    tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    aliases = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    listed = [alias.name for alias in aliases if alias.asname == alias.name]
    listed = [name for name in listed or getattr(module, "__all__", ()) if not name.startswith("_")]
    return sorted(name for name in listed if not isinstance(getattr(module, name), ModuleType))


def write(staged: Path) -> None:
    folder = staged / "api"
    folder.mkdir()
    parts: dict[str, dict[str, tuple[str, object]]] = {part: {} for part in TITLES}
    for space in SPACES:
        for name in public_names(space):
            thing = getattr(importlib.import_module(space), name)
            parts[_part(thing, space)].setdefault(name, (space, thing))
    for part, names in parts.items():
        (folder / f"{part}.rst").write_text(_page(TITLES[part], names), "utf-8")
    (folder / "index.rst").write_text(_index(parts), "utf-8")


def _part(thing: object, space: str) -> str:
    """Where it is defined: a layer, or a family of mechanisms; a table of values belongs to the list it stands in."""
    words = (getattr(thing, "__module__", None) or space).split(".")[1:]
    if words[:1] == ["mechanisms"] and ".".join(words[:2]) in TITLES:
        return ".".join(words[:2])
    return words[0] if words and words[0] in TITLES else space.rpartition(".")[2]


def _page(title: str, names: dict[str, tuple[str, object]]) -> str:
    lines = [title, "=" * len(title), ""]
    for name, (space, thing) in names.items():
        kind = "class" if inspect.isclass(thing) else "function" if inspect.isfunction(thing) else "data"
        lines += [name, "-" * len(name), "", f".. currentmodule:: {space}", "", f".. auto{kind}:: {name}"]
        # What all mechanisms have stands at their base.
        lines += ["   :members:"] if kind == "class" and not _is_mechanism(thing) else []
        lines += [""]
    return "\n".join(lines) + "\n"


def _is_mechanism(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Mechanism) and thing is not Mechanism


def _index(parts: dict[str, dict[str, tuple[str, object]]]) -> str:
    title = "Python reference"
    lines = [
        title,
        "=" * len(title),
        "",
        "All that is public, from the docstrings; ``sdp`` is ``import shuffledp as sdp``.",
        "",
    ]
    for part, names in parts.items():
        heading = TITLES[part]
        lines += [heading, "-" * len(heading), "", ".. list-table::", "   :widths: 30 70", ""]
        for name, (space, thing) in names.items():
            spoken = space.replace("shuffledp", "sdp", 1)
            lines += [f"   * - :py:obj:`{spoken}.{name} <{space}.{name}>`", f"     - {_first_line(name, thing)}"]
        lines += [""]
    return "\n".join([*lines, ".. toctree::", "   :hidden:", "", *(f"   {part}" for part in parts), ""])


def _first_line(name: str, thing: object) -> str:
    if not callable(thing):
        return escaped(VALUES[name])
    return escaped(inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0].replace("\n", " "))
