"""The layout of the package: no class name twice, mechanisms made of parts, one list of public names."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from collections import Counter
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.domain import InputDomain
from shuffledp.mechanisms.base.encoding import Encoding
from shuffledp.mechanisms.base.estimator import Estimator
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism, MultiQueryCapability, RangeQueryCapability
from shuffledp.mechanisms.base.table_mechanism import TableMechanism
from shuffledp.mechanisms.catalogue import WRAPPERS, all_mechanisms
from shuffledp.privacy.randomizer_interface import CAPABILITIES

ROOT = Path(sdp.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py")
KINDS = list(all_mechanisms().values())
PARTS = {"domain": InputDomain, "law": Law, "encoding": Encoding, "estimator": Estimator}
ANSWERED_BY_PARTS = (
    "check", "audit_pair", "value_range", "variation_ratio", "blankets", "attacks", "coin_range", "message_bits",
    "message_bytes", "pack", "unpack", "accumulate", "finish", "estimate", "truth", "variance", "encode",
)  # fmt: skip


def twice(names: list[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def classes_of(path: Path) -> list[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


@pytest.mark.exhaustive
def test_no_public_class_name_means_two_things() -> None:
    """Whoever searches for a class finds one."""
    assert twice([name for path in FILES for name in classes_of(path)]) == []


@pytest.mark.parametrize("kind", [*KINDS, *WRAPPERS.values()], ids=lambda kind: kind.__name__)
def test_a_mechanism_is_assembled_from_parts(kind: type[Mechanism]) -> None:
    """It inherits from the one abstract class and the abilities that it names; its parts answer the questions.

    A mechanism that is a table and nothing else is ``TableMechanism``, which says why it is a base.
    """
    assert set(kind.__bases__) <= {Mechanism, TableMechanism, RangeQueryCapability, MultiQueryCapability, *CAPABILITIES}
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
        if catalogue.is_buildable_by_name(kind):
            assert catalogue.from_document(example.to_document()) == example


def test_every_mechanism_is_exported_by_name() -> None:
    """The list is written by hand, and found again by walking through the package."""
    missing = [kind for kind in KINDS if getattr(sdp, kind.__name__, None) is not kind]
    lines = [f"from {kind.__module__} import {kind.__name__} as {kind.__name__}" for kind in missing]
    assert lines == [], "add these lines to shuffledp/__init__.pyi"


# --- Import paths ---


REPOSITORY = ROOT.parents[1]
LISTED = re.compile(r"^\| `(shuffledp[\w.]*)` \|(.*)\|$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```(?:python|py|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = [
    path
    for pattern in (
        "README.md",
        "docs/**/*.md",
        "docs/gallery/*.py",
        "examples/*.py",
    )
    for path in sorted(REPOSITORY.glob(pattern))
]


def supported_paths() -> dict[str, set[str]]:
    """Returns the import paths that docs/deprecation.md lists; private modules with the public names in them."""
    table = LISTED.findall((REPOSITORY / "docs" / "deprecation.md").read_text("utf-8"))
    return {path: set(re.findall(r"`(\w+)`", text)) for path, text in table}


def imports_of(path: Path) -> set[tuple[str, str]]:
    """Returns the modules of the package that a program or the programs of a page import, with the names (or "")."""
    text = path.read_text("utf-8")
    programs = [text] if path.suffix == ".py" else [textwrap.dedent(block) for block in CODE_BLOCK.findall(text)]
    found = set()
    for program in programs:
        # Blocks that show an interactive session or leave something out cannot be parsed.
        lines = [line.strip().removeprefix(">>> ") for line in program.splitlines()]
        for match in re.finditer(
            r"^from (shuffledp[\w.]*) import (\(.*?\)|.*?)(?:#.*)?$", "\n".join(lines), re.M | re.S
        ):
            names = match[2].strip("() \n").replace("\n", " ").split(",")
            found |= {(match[1], name.split(" as ")[0].strip()) for name in names if name.strip()}
        found |= {(match, "") for match in re.findall(r"^import (shuffledp[\w.]*)", "\n".join(lines), re.M)}
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_documents_import_from_supported_paths_only(path: Path) -> None:
    """All that a reader may copy keeps working: docs/deprecation.md promises it for these paths."""
    listed = supported_paths()
    private = [
        (module, name)
        for module, name in imports_of(path)
        if module not in listed or (listed[module] and name not in listed[module] | {""})
    ]
    assert private == []


def test_the_supported_paths_are_the_facades() -> None:
    """The table names every stub and namespace, and names that exist."""
    stubs = {".".join(path.parent.relative_to(ROOT.parent).parts) for path in ROOT.rglob("__init__.pyi")}
    listed = supported_paths()
    assert stubs <= set(listed)
    for module, names in listed.items():
        assert all(hasattr(importlib.import_module(module), name) for name in names)
