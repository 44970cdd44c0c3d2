"""The package gives the numbers, bytes and names that tests/golden/snapshot stores; a falsified one is reported."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import snapshot

ROOT = Path(__file__).parents[1]


def compared(*words: str) -> subprocess.CompletedProcess[str]:
    """Compare in a process of its own, where nothing was imported or patched before."""
    command = [sys.executable, str(ROOT / "scripts" / "snapshot.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.fixture(scope="module")
def cheap_part() -> subprocess.CompletedProcess[str]:
    """The one comparison of the fast tier: 25 s of processor time for messages, names and values of every section."""
    return compared("--fast")


def test_the_cheap_part_is_unchanged(cheap_part: subprocess.CompletedProcess[str]) -> None:
    """Messages, public names, and cheap values of every section."""
    assert cheap_part.returncode == 0, cheap_part.stdout + cheap_part.stderr


@pytest.mark.exhaustive
def test_everything_is_unchanged() -> None:
    done = compared()
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_falsified_value_is_reported(tmp_path: Path) -> None:
    """One bit of one number, a missing entry and one too many: each with its place, what was expected and what is."""
    for path in snapshot.FOLDER.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "metric.json"
    entries = json.loads(path.read_text("utf-8"))
    right = entries["lower bound"][0]
    wrong = (float.fromhex(right) * (1 + 2.0**-20)).hex()
    entries["lower bound"][0] = wrong
    entries["nobody computes this"] = entries.pop("clone")
    path.write_text(json.dumps(entries), "utf-8")
    done = compared("--fast", "--only", "metric", "--folder", str(tmp_path))
    assert done.returncode == 1
    assert f'metric > lower bound > 0\n  expected "{wrong}"' in done.stdout
    assert f'= {float.fromhex(wrong)!r}\n  got      "0x' in done.stdout
    assert "metric > nobody computes this" in done.stdout
    assert 'metric > clone\n  expected "(nothing)"' in done.stdout
    assert "3 differences" in done.stdout


def test_on_the_same_machine_one_bit_is_a_difference() -> None:
    """On another one nine digits are compared, and hashes of floats are not."""
    tree = {"value": (0.1).hex(), "hash": "~sha256 a", "bytes": "sha256 a", "name": "krr"}
    other = copy.deepcopy(tree) | {"value": (0.1 + 2**-56).hex(), "hash": "~sha256 b"}
    exact = [where for where, _, _ in snapshot.differences(tree, other, "", close=False)]
    assert exact == [" > value", " > hash"]
    assert list(snapshot.differences(tree, other, "", close=True)) == []
    far = tree | {"value": (0.1001).hex(), "bytes": "sha256 b", "name": "oue"}
    assert [where for where, _, _ in snapshot.differences(tree, far, "", close=True)] == [
        " > value",
        " > bytes",
        " > name",
    ]


def test_randomness_of_one_size_does_not_depend_on_that_of_others() -> None:
    one, other = snapshot.Stream(), snapshot.Stream()
    one(8)
    assert one(32) == other(32)
    assert one(32) != other(8) * 4
    assert len(one(16)) == 16
