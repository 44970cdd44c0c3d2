"""Writes the Python reference: a page for each part of the package, from the docstrings of the public names."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

from plain_docstring import escaped

from shuffledp import Mechanism

SPACES = ("shuffledp", "shuffledp.bounds", "shuffledp.collection", "shuffledp.mechanisms.base", "shuffledp.metric",
          "shuffledp.spark", "shuffledp.tasks", "shuffledp.testing", "shuffledp.tradeoff")  # fmt: skip
TITLES = {
    "bounds": "Amplification: what shuffling gives",
    "composition": "Rounds, groups, Rényi",
    "calibration": "Calibration: settings for a target",
    "planning": "Plans",
    "collection": "Collections",
    "spark": "Spark",
    "service": "Service: clients of a shuffler",
    "statement": "Statements in words",
    "certificates": "Certificates",
    "auditing": "Audits",
    "privacy": "Curves and randomizers",
    "tradeoff": "Trade-off curves: what attackers can do",
    "metric": "Metric privacy",
    "tasks": "Tasks",
    "testing": "Checks for what you bring",
    "errors": "Errors",
    "mechanisms.base": "Mechanisms: the base",
    "mechanisms.frequency": "Mechanisms: one option of many",
    "mechanisms.mean": "Mechanisms: means of numbers",
    "mechanisms.vector": "Mechanisms: means of vectors",
    "mechanisms.sets_and_key_values": "Mechanisms: sets, and keys with values",
    "mechanisms.metric": "Mechanisms: places and distances",
    "mechanisms.dummies": "Mechanisms: messages among dummies",
    "mechanisms.correlated_noise": "Mechanisms: noise that users share",
    "mechanisms.combined": "Mechanisms: built of others",
    "mechanisms.table_and_density": "Mechanisms: your own table or density",
    "mechanisms.opt_out_group": "Mechanisms: users who do not answer",
}
"""Titles of the pages in order, by the part of the package that defines their names."""

PARTS = (
    ("shuffledp_verify", "certificates"),
    ("shuffledp._core", "errors"),
    ("shuffledp.ledger", "collection"),
    ("shuffledp.privacy.composition", "composition"),
    ("shuffledp.privacy.group_privacy", "composition"),
    ("shuffledp.privacy.renyi", "composition"),
    ("shuffledp.privacy.sampled_curve", "composition"),
    ("shuffledp.privacy.tradeoff", "tradeoff"),
    ("shuffledp.privacy.guaranteed_tradeoff", "tradeoff"),
    ("shuffledp.privacy.shuffled_tradeoff", "tradeoff"),
    ("shuffledp.privacy.divergences", "tradeoff"),
    ("shuffledp.privacy.attack_risk", "tradeoff"),
    ("shuffledp.privacy.random_initialization", "tradeoff"),
    ("shuffledp.privacy.metric_space", "metric"),
    ("shuffledp.bounds.metric", "metric"),
    ("shuffledp.bounds.compare_metric", "metric"),
    ("shuffledp.bounds.local_metric_solver", "metric"),
    ("shuffledp.sampling", "mechanisms.base"),
)
"""The parts of names whose module does not begin with the name of a part."""

VALUES = {
    "BOUNDS": "All bounds that are looked at without being passed by hand.",
    "BOUNDS_BY_NAME": "Each bound by the name that ``bound=`` and ``--bound`` take.",
    "TASKS": "All tasks.",
}
"""Descriptions of public constants, which have no docstring."""


def public_names(namespace: str) -> list[str]:
    """Returns the names that a namespace imports as themselves, or lists in ``__all__``."""
    module = importlib.import_module(namespace)
    file = Path(module.__file__ or "")
    stub = file.with_suffix(".pyi")
    tree = ast.parse((stub if stub.exists() else file).read_text("utf-8"))
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
    """Returns the layer or family of mechanisms that defines a name; for a constant, the namespace that lists it."""
    module = getattr(thing, "__module__", None) or space
    for beginning, part in PARTS:
        if module.startswith(beginning):
            return part
    words = module.split(".")[1:]
    family = ".".join(words[:2])
    if family in TITLES:
        return family
    return words[0] if words and words[0] in TITLES else space.rpartition(".")[2]


def _page(title: str, names: dict[str, tuple[str, object]]) -> str:
    lines = [title, "=" * len(title), ""]
    for name, (space, thing) in names.items():
        kind = "class" if inspect.isclass(thing) else "function" if inspect.isfunction(thing) else "data"
        lines += [name, "-" * len(name), "", f".. currentmodule:: {space}", ""]
        if kind == "data":
            lines += [f".. data:: {name}", "", f"   {escaped(VALUES[name])}", ""]
            continue
        lines += [f".. auto{kind}:: {name}"]
        # Members common to all mechanisms are documented at their base class.
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
