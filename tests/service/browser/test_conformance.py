"""Bytes: the vectors are the oracles', and the module in Node has the same bytes."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from shuffledp.service.browser.assets import MODULE_NAME, load_static_file
from tests.oracle import hpke
from tests.service.browser import conformance_vectors
from tests.service.test_envelope import CONTENT, EPHEMERAL, INFO, SEALED, SECRET, SENT

HERE = Path(__file__).parent
MAX_BYTES = 8000


def node(script: Path, *arguments: str, given: str = "") -> str:
    """What a script of Node prints; where there is no Node, these tests cannot pass."""
    command = [*_node(), str(script), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def _node() -> list[str]:
    program = shutil.which("node")
    assert program is not None, "Node is needed: apt-get install nodejs"
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    # What later ones have from the beginning.
    return [program, "--experimental-global-webcrypto"] if version.startswith("v18.") else [program]


def test_the_vectors_are_the_oracles() -> None:
    """They are made anew, to the last byte; `python -m tests.service.browser.conformance_vectors` writes them."""
    assert conformance_vectors.format_vectors() == conformance_vectors.PATH.read_text("utf-8")


@pytest.mark.browser
def test_the_module_has_the_same_bytes(tmp_path: Path) -> None:
    """As it is served, for every mechanism, and its envelopes."""
    module = tmp_path / "client.mjs"
    module.write_bytes(load_static_file(MODULE_NAME).body)
    told = conformance_vectors.build_vectors()
    cases = sum(len(each["cases"]) for each in told["messages"]) + len(told["seal"])
    assert node(HERE / "conformance.mjs", str(module), str(conformance_vectors.PATH)) == f"{cases}\n"


def test_the_vectors_are_those_of_the_standard() -> None:
    """RFC 9180's own, but for the tag: it has associated data there, of which the encrypted bytes know nothing."""
    ours = hpke.seal(EPHEMERAL, hpke.public_key(SECRET), INFO, CONTENT)
    assert ours[:-16] == (SENT + SEALED)[:-16]
    assert ours.hex() == conformance_vectors.build_vectors()["seal"][0]["sealed"]


def test_the_module_is_small() -> None:
    """With all its mechanisms, as it is served, compressed."""
    assert len(gzip.compress(load_static_file(MODULE_NAME).body, 9)) <= MAX_BYTES
