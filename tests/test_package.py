"""The package as a whole: the cost of an import, and the public names."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import shuffledp
import shuffledp.mechanisms.base

ROOT = Path(shuffledp.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

NUMBERS = ("numpy", "flint")
BEYOND_NUMBERS = ("cryptography", "scipy", "pyarrow", "duckdb", "matplotlib", "typer", "rich")
HEAVY = NUMBERS + BEYOND_NUMBERS

CONTRACT = """
    amplify compose calibrate VariationRatio FromTable
    KRR RAPPOR OUE Subset LocalHash HadamardResponse Laplace Piecewise Duchi Harmony PrivSet Wheel Collision PCKV
    PrivKV SamplingRAPPOR PlanarLaplace WitchHat PaddedExponential BalcerCheu BalcerUniform CheuZhilyaev
    BallsIntoBins PureDUMP MixDUMP PIRAPPOR ProjectiveGeometry PrivUnit PrivUnitOptimized PrivUnitG PrivHS SQKR
"""


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import shuffledp", HEAVY),
        ("import shuffledp; shuffledp.KRR, shuffledp.amplify, shuffledp.collect", BEYOND_NUMBERS),
        ("import shuffledp.cli.app", HEAVY[:-2]),
    ],
    ids=["package", "names", "commands"],
)
def test_an_import_stays_light(program: str, heavy: tuple[str, ...]) -> None:
    """What only some users need is imported where it is used; a name when it is asked for."""
    report = f"{program}; import sys; print(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []


def test_the_package_does_without_the_research_code() -> None:
    """Only the list of commands names it, as a text: it is not in the wheel."""
    found = [
        path.relative_to(ROOT).as_posix()
        for path in FILES
        if "research" in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "research" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "research")
    ]
    assert found == []


@pytest.mark.exhaustive
def test_public_names_of_the_contract_are_exported() -> None:
    """A class or function with a promised name can be had from the package itself."""
    defined = {
        node.name
        for path in FILES
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    missing = [name for name in CONTRACT.split() if name in defined and name not in exported()]
    assert missing == []
    assert {"amplify", "VariationRatio"} <= set(exported())


def listed(package: Path) -> dict[str, str]:
    """The names that a package's stub exports, each with the module that defines it."""
    lines = ast.parse((package / "__init__.pyi").read_text("utf-8")).body
    found = [(alias, str(node.module)) for node in lines if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert all(isinstance(node, ast.ImportFrom) for node in lines)
    assert all(alias.asname == alias.name for alias, _ in found), "every export is written X as X"
    assert len(found) == len({alias.name for alias, _ in found}), "no name is there twice"
    return {alias.name: home for alias, home in found}


def exported() -> list[str]:
    """The names of the front door."""
    return list(listed(ROOT))


@pytest.mark.parametrize(
    "package", [shuffledp, shuffledp.collection, shuffledp.mechanisms.base], ids=lambda package: package.__name__
)
def test_programs_and_type_checkers_see_the_same_names(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each from the module that the other list says; and nothing is missing where names are listed."""
    assert package.__file__ is not None
    names = listed(Path(package.__file__).parent)
    assert sorted(names) == package.__all__
    assert set(names) <= set(dir(package))
    for name, home in names.items():
        # As if nobody had asked for it before.
        monkeypatch.delitem(vars(package), name, raising=False)
        module = import_module(f"{home}.{name}") if home == package.__name__ else import_module(home)
        wanted = module if home == package.__name__ else getattr(module, name)
        assert getattr(package, name) is wanted, name


def test_a_name_that_is_none() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="module 'shuffledp' has no attribute 'amplfy'"):
        _ = shuffledp.amplfy  # type: ignore[attr-defined]


def test_everything_exported_exists() -> None:
    """The list has no dead names, and each says what it is."""
    for name in exported():
        assert getattr(shuffledp, name).__doc__


def test_nothing_else_is_public() -> None:
    """Besides the list there are only the package's own rooms."""
    rooms = {path.stem for path in ROOT.iterdir()}
    extra = [name for name in vars(shuffledp) if not name.startswith("_") and name not in exported()]
    assert sorted(set(extra) - rooms) == []
