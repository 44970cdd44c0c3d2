"""The house itself: one meaning a name, one room a thing, one list for what is public."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.ability import AnswersQueries, AnswersRanges
from shuffledp.mechanisms.catalogue import WRAPPERS, all_mechanisms
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.tabulated import Tabulated
from shuffledp.mechanisms.parts.user_values import UserValues
from shuffledp.mechanisms.parts.wire import Wire
from shuffledp.privacy.randomizer import ABILITIES, Randomizer

ROOT = Path(sdp.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py")
FAMILIES = sorted(path for path in (ROOT / "mechanisms").iterdir() if path.is_dir() and path.name[0] != "_")
KINDS = list(all_mechanisms().values())
PARTS = {"values": UserValues, "law": Law, "wire": Wire, "reading": Reading}
ANSWERED_BY_PARTS = (
    "check", "probe", "value_range", "variation_ratio", "blankets", "attacks", "coin_range", "message_bits",
    "message_bytes", "pack", "unpack", "accumulate", "finish", "estimate", "truth", "variance", "encode",
)  # fmt: skip


def twice(names: list[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def classes_of(path: Path) -> list[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_no_public_class_name_means_two_things() -> None:
    """Whoever searches for a class finds one."""
    assert twice([name for path in FILES for name in classes_of(path)]) == []


@pytest.mark.parametrize("family", [path for path in FAMILIES if path.name != "parts"], ids=lambda path: path.name)
def test_a_family_holds_mechanisms_and_nothing_else(family: Path) -> None:
    """One file, one randomizer; what they are made of is in parts."""
    for path in family.glob("[a-z]*.py"):
        module = inspect.getmodulename(path)
        found = [
            kind for kind in vars(__import__(f"{Mechanism.__module__.rpartition('.')[0]}.{family.name}.{module}",
                                             fromlist=["*"])).values()
            if inspect.isclass(kind) and issubclass(kind, Randomizer) and kind.__module__.endswith(f".{module}")
            and not kind.__name__.startswith("_")
        ]  # fmt: skip
        assert len(found) == 1, f"{path.name} defines {[kind.__name__ for kind in found]}"


def test_parts_hold_no_mechanism() -> None:
    """Mechanisms are made of parts, never the other way round."""
    for path in (ROOT / "mechanisms" / "parts").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                folder = node.module.split(".")[2:3]
                assert folder not in ([family.name] for family in FAMILIES if family.name != "parts"), path.name


@pytest.mark.parametrize("kind", [*KINDS, *WRAPPERS.values()], ids=lambda kind: kind.__name__)
def test_a_mechanism_is_assembled_from_parts(kind: type[Mechanism]) -> None:
    """It inherits from the one abstract class and the abilities that it names; its parts answer the questions.

    A mechanism that is a table and nothing else is ``Tabulated``, which says why it is a base.
    """
    assert set(kind.__bases__) <= {Mechanism, Tabulated, AnswersRanges, AnswersQueries, *ABILITIES}
    mine = sorted(set(ANSWERED_BY_PARTS) & set(vars(kind)))
    assert mine == [], f"{kind.__name__} answers {mine} itself"
    example = kind.examples()[0]
    for name, part in PARTS.items():
        assert isinstance(getattr(example, name), part)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_setting_is_settled(kind: type[Mechanism]) -> None:
    """What a plan or a certificate writes down leaves nothing to the defaults of another version."""
    for example in kind.examples():
        open_settings = [name for name, value in example.settings().items() if value is None]
        assert open_settings == []
        if catalogue.can_be_named(kind):
            assert catalogue.read(example.document()) == example


def test_every_mechanism_is_exported_by_name() -> None:
    """The list is written by hand, and found again by walking through the package."""
    missing = [kind for kind in KINDS if getattr(sdp, kind.__name__, None) is not kind]
    lines = [f"from {kind.__module__} import {kind.__name__} as {kind.__name__}" for kind in missing]
    assert lines == [], "add these lines to shuffledp/__init__.py, and to its second list"
