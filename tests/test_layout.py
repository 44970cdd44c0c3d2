"""The layout of the package: no class name twice, mechanisms made of parts, one list of public names."""

from __future__ import annotations

import ast
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
from shuffledp.mechanisms.catalogue import WRAPPERS, all_mechanisms
from shuffledp.mechanisms.custom import TableMechanism
from shuffledp.privacy.randomizer import ABILITIES

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
    assert set(kind.__bases__) <= {Mechanism, TableMechanism, RangeQueryCapability, MultiQueryCapability, *ABILITIES}
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
