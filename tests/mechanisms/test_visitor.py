"""Mechanisms of somebody else: from a file, from an installed package; never under a name of ours."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp.mechanisms import catalogue, plugins

TOY = '''
from dataclasses import dataclass
from shuffledp import KRR

@dataclass(frozen=True)
class Toy(KRR):
    """Randomized response under another name."""

    name = "{name}"
    summary = "a toy"
'''


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    before, files, modules = dict(plugins._registered), dict(plugins._files), set(sys.modules)
    monkeypatch.setenv(plugins.FILES_VARIABLE, "")
    yield
    plugins._registered.clear()
    plugins._registered.update(before)
    plugins._files.clear()
    plugins._files.update(files)
    for name in set(sys.modules) - modules:
        if name.startswith(("plugin_", "toy_package")):
            del sys.modules[name]


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_brings_its_mechanisms(tmp_path: Path) -> None:
    """By their names, for the whole process; reading the file twice gives the same classes."""
    path = written(tmp_path, TOY.format(name="toy"))
    found = plugins.load_file(path)
    assert list(found) == ["toy"]
    assert plugins.load_file(str(path))["toy"] is found["toy"]
    assert catalogue.find_buildable_class("toy") is found["toy"]
    assert catalogue.find_buildable_class("compressed-toy") is found["toy"]
    made = catalogue.build("toy", 1.0, {"options": "8"})
    own = sdp.amplify(sdp.KRR(1.0, 8), 1000, effort="quick").epsilon(1e-6)
    assert sdp.amplify(made, 1000, effort="quick").epsilon(1e-6).upper == own.upper
    assert "toy" not in catalogue.all_mechanisms()


def test_whose_law_it_is(tmp_path: Path) -> None:
    """Nothing to say of our own; file, class and digest of another."""
    path = written(tmp_path, TOY.format(name="toy"))
    said = plugins.origin(plugins.load_file(path)["toy"])
    assert said is not None
    assert said.startswith("mine.py:Toy, sha256 ")
    assert len(said.rpartition(" ")[2]) == 64
    assert plugins.origin(sdp.KRR) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TOY.format(name="krr"), "the name 'krr' of Toy is the catalogue's own"),
        (TOY.format(name="compressed-toy"), "is the catalogue's own"),
        (TOY.format(name="My Toy"), "small letters, digits and hyphens"),
        ("x = 1\n", "expected mine.py to define a Mechanism"),
        ("from shuffledp import KRR\n", "expected mine.py to define a Mechanism"),
        ("from shuffledp import Mechanism\nclass Half(Mechanism):\n    name = 'half'\n", "expected mine.py to define"),
        ("def broken(:\n", "mine.py, line 1: invalid syntax"),
        ("import nothing_of_that_name\n", "mine.py stopped with ModuleNotFoundError"),
        (f"{TOY.format(name='toy')}\nclass Second(Toy):\n    pass\n", "'toy' of Second is taken by another class"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    """With the reason; nothing is registered."""
    path = written(tmp_path, text)
    for _ in range(2):
        with pytest.raises(ValueError, match=sentence) as caught:
            plugins.load_file(path)
        assert "\n" not in str(caught.value)
    assert plugins.registered_mechanisms() == {}
    assert not list(tmp_path.glob("__pycache__"))


def test_a_mended_file_is_read_anew(tmp_path: Path) -> None:
    """Once its name is free."""
    with pytest.raises(ValueError, match="the catalogue's own"):
        plugins.load_file(written(tmp_path, TOY.format(name="krr")))
    assert list(plugins.load_file(written(tmp_path, TOY.format(name="mended")))) == ["mended"]


def test_a_class_of_this_process() -> None:
    """Known by its name, and by whose it is, whatever it says of its module."""

    @dataclass(frozen=True)
    class Noted(sdp.KRR):
        name = "noted"

    plugins.register(Noted)
    assert catalogue.find_buildable_class("noted") is Noted
    assert plugins.origin(Noted) == f"{__name__}:{Noted.__qualname__}"
    Noted.__module__ = sdp.KRR.__module__
    assert plugins.origin(Noted) is not None
    for bad in (sdp.Mechanism, 3):
        with pytest.raises(TypeError, match="expected a Mechanism"):
            plugins.register(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the catalogue's own"):
        plugins.register(sdp.KRR)


def test_what_is_no_python_file(tmp_path: Path) -> None:
    """Missing, a folder, another ending."""
    for path in (tmp_path / "missing.py", tmp_path, written(tmp_path, "x = 1", "mine.txt")):
        with pytest.raises(ValueError, match="expected a Python file"):
            plugins.load_file(path)


def test_two_files_cannot_share_a_name(tmp_path: Path) -> None:
    """The first one keeps it."""
    first = plugins.load_file(written(tmp_path, TOY.format(name="toy"), "a.py"))["toy"]
    with pytest.raises(ValueError, match="taken by another class"):
        plugins.load_file(written(tmp_path, TOY.format(name="toy"), "b.py"))
    assert catalogue.find_buildable_class("toy") is first


def test_a_process_that_is_started_afresh_knows_them_too(tmp_path: Path) -> None:
    """A class travels by its name, and the catalogue of the new process finds it."""
    kind = plugins.load_file(written(tmp_path, TOY.format(name="toy")))["toy"]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(plugins.origin, kind).result() == plugins.origin(kind)
        made = pool.submit(catalogue.build, "toy", 1.0, {"options": "8"}).result()
    assert made == kind(1.0, 8)  # type: ignore[call-arg]


# --- installed packages -------------------------------------------------------------------------------------------


def installed(folder: Path, entries: str, body: str = TOY.format(name="guest")) -> None:
    """A distribution as pip leaves it behind."""
    written(folder, body, "toy_package.py")
    info = folder / "toy_package-1.0.dist-info"
    info.mkdir()
    written(info, "Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n", "METADATA")
    written(info, f"[{plugins.ENTRY_POINT_GROUP}]\n{entries}\n", "entry_points.txt")
    importlib.invalidate_caches()


def test_an_installed_package_offers_a_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by its name, imported when it is first asked for."""
    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "guest = toy_package:Toy")
    catalogue.find_buildable_class("krr")
    assert "guest" in plugins.plugin_names()
    assert "toy_package" not in sys.modules
    kind = catalogue.find_buildable_class("guest")
    assert plugins.load_entry_points() == {"guest": kind}
    assert plugins.origin(kind) == "toy_package:Toy"
    with pytest.raises(ValueError, match=r"krr, .*guest, got 'nobody'"):
        catalogue.find_buildable_class("nobody")


@pytest.mark.parametrize(
    ("entries", "body", "sentence"),
    [
        ("krr = toy_package:Toy", TOY.format(name="krr"), "'krr' of Toy is the catalogue's own"),
        ("guest = toy_package:Toy", TOY.format(name="other"), "expected a class of that name, got 'other'"),
        ("guest = toy_package:dataclass", TOY.format(name="guest"), "expected a Mechanism"),
        ("guest = toy_package:Missing", TOY.format(name="guest"), "stopped with AttributeError"),
    ],
)
def test_bad_entry_points_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: str, body: str, sentence: str
) -> None:
    """And a name of ours stays ours."""
    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, entries, body)
    with pytest.raises(ValueError, match=sentence):
        plugins.load_entry_points()
    assert catalogue.find_buildable_class("krr") is sdp.KRR


def test_importing_the_package_looks_for_no_plug_ins() -> None:
    """Entry points are read only where a name is not ours."""
    code = (
        "import importlib.metadata as m\n"
        "def refuse(**given): raise SystemExit('read')\n"
        "m.entry_points = refuse\n"
        "import shuffledp.mechanisms.catalogue as c\n"
        "c.build('krr', 1.0, {'options': '4'})\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
