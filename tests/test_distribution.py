"""The wheel and the source distribution: what is inside, and that the wheel works away from the repository."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import shuffledp_verify

import shuffledp

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "shuffledp"
NOT_COPIED = shutil.ignore_patterns(
    *(".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "shuffledp-report*")
)
STEM = f"shuffledp-{shuffledp.__version__}"


@dataclass(frozen=True)
class Built:
    """The two files, opened."""

    wheel: Path
    inside_wheel: frozenset[str]
    inside_source: frozenset[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Built from a copy, as building leaves folders behind; the wheel is made from the source distribution."""
    copy, out = tmp_path_factory.mktemp("copy") / "shuffledp", tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, copy, ignore=NOT_COPIED)
    command = [sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=out, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel, source = out / f"{STEM}-py3-none-any.whl", out / f"{STEM}.tar.gz"
    assert sorted(out.iterdir()) == sorted([wheel, source])
    with zipfile.ZipFile(wheel) as archive, tarfile.open(source) as tape:
        names = (member.name for member in tape if member.isfile())
        return Built(wheel, frozenset(archive.namelist()), frozenset(name.removeprefix(f"{STEM}/") for name in names))


def package_files() -> set[str]:
    """Every file of the package, caches excepted."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(PACKAGE.parent).as_posix() for path in files}


def test_the_wheel_holds_the_whole_package_and_nothing_else(built: Built) -> None:
    """Every module of every folder, py.typed and the licence; no tests."""
    code = {name for name in built.inside_wheel if ".dist-info/" not in name}
    assert code == package_files()
    assert "shuffledp/py.typed" in code
    assert f"{STEM}.dist-info/licenses/LICENSE" in built.inside_wheel


def test_the_source_holds_what_is_needed_to_test_it(built: Built) -> None:
    """The package, the tests, the papers' tables and the scripts that run them."""
    assert {f"src/{name}" for name in package_files()} <= built.inside_source
    here = {path.relative_to(ROOT).as_posix() for room in ("tests", "research") for path in (ROOT / room).rglob("*.py")}
    wanted = here | {"LICENSE", "README.md", "CITATION.cff", "pyproject.toml", "run", "test", "scripts/setup.sh"}
    assert wanted <= built.inside_source
    assert not [name for name in built.inside_source if name.endswith(".pyc") or ".venv" in name]


def test_the_metadata(built: Built) -> None:
    """Version, extras and the command."""
    with zipfile.ZipFile(built.wheel) as archive:
        metadata = archive.read(f"{STEM}.dist-info/METADATA").decode()
        commands = archive.read(f"{STEM}.dist-info/entry_points.txt").decode()
    assert f"\nVersion: {shuffledp.__version__}\n" in metadata
    assert "shuffledp = shuffledp.cli:main" in commands
    for extra in ("all", "cli", "collect", "interop", "plot", "service", "spark", "test", "tour", "web"):
        assert f"\nProvides-Extra: {extra}\n" in metadata
    core = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert len(core) == 5
    assert "Requires-Dist: shuffledp-verify>=0.2.0" in core


def test_the_wheel_works_by_itself(built: Built, tmp_path: Path) -> None:
    """Unpacked, which is all that installing a pure wheel does, and imported from there."""
    site = tmp_path / "site"
    with zipfile.ZipFile(built.wheel) as archive:
        archive.extractall(site)
    program = (
        "import shuffledp; print(shuffledp.__file__); "
        "print(shuffledp.amplify(shuffledp.KRR(2.0, 128), 1e5).epsilon(1e-8).upper)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(site)},
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    place, epsilon = done.stdout.split()
    assert Path(place) == site / "shuffledp" / "__init__.py"
    assert f"{float(epsilon):.6f}" == "0.010174"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "shuffledp", "reproduce"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(site)},
        cwd=tmp_path,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs a checkout" in done.stderr


def test_the_verifier_is_a_wheel_of_its_own(tmp_path: Path) -> None:
    """Every module, py.typed and the licence; it needs FLINT alone, and brings its command."""
    copy, out = tmp_path / "copy", tmp_path / "dist"
    shutil.copytree(ROOT / "packages" / "shuffledp-verify", copy, ignore=NOT_COPIED)
    command = [sys.executable, "-P", "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.iterdir()
    stem = f"shuffledp_verify-{shuffledp_verify.__version__}"
    assert wheel.name == f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        metadata = archive.read(f"{stem}.dist-info/METADATA").decode()
        commands = archive.read(f"{stem}.dist-info/entry_points.txt").decode()
    here = copy / "src"
    assert {name for name in inside if ".dist-info/" not in name} == {
        path.relative_to(here).as_posix() for path in (here / "shuffledp_verify").iterdir() if path.is_file()
    }
    assert f"{stem}.dist-info/licenses/LICENSE" in inside
    assert re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE) == ["python-flint>=0.7"]
    assert "shuffledp-verify = shuffledp_verify.__main__:main" in commands
