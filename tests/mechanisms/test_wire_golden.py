"""Messages from a fixed seed are the same bytes in every version: readers of old messages depend on it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from shuffledp._core.validation import Bytes
from shuffledp.mechanisms.catalogue import all_mechanisms

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "wire.json").read_text("utf-8"))["wire"]
IN_FLOATS = {"gaussian-vector", "privunit", "privunit-optimized", "privunit-g", "privhs", "sqkr"}
"""Their points are computed in float arithmetic, whose last digit is the machine's."""


def digest(wire: Bytes) -> str:
    rows = np.ascontiguousarray(wire)
    return hashlib.sha256(f"{rows.dtype}{rows.shape}".encode() + rows.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", sorted(all_mechanisms().keys() - IN_FLOATS))
def test_messages_from_a_fixed_seed_are_unchanged(name: str) -> None:
    """A new mechanism, or a new example, adds its line to tests/golden/wire.json; an old line never changes."""
    found = {}
    for place, mechanism in enumerate(all_mechanisms()[name].examples()):
        values = np.concatenate([mechanism.audit_pair()] * 50)
        messages = mechanism.encode(values, np.random.default_rng(5))
        found[f"{name}/{place}"] = digest(mechanism.pack(messages))
    expected = {key: GOLDEN.get(key, "not there") for key in found}
    assert found == expected, f"lines for tests/golden/wire.json, in its order: {json.dumps(found, indent=1)}"
