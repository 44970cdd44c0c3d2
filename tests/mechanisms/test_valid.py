"""Rows that are not messages are told apart from those that are, whatever bytes strangers send."""

from __future__ import annotations

import numpy as np
import pytest

from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.mechanism import Mechanism

EXAMPLES = [example for kind in catalogue.all_mechanisms().values() for example in kind.examples()]


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=lambda mechanism: mechanism.name)
def test_the_mask_is_what_each_row_alone_says(mechanism: Mechanism) -> None:
    """Row by row, ``unpack`` takes a row exactly where the mask says so; and a user's own message is always good."""
    generator = np.random.default_rng(5)
    sent = mechanism.pack(mechanism.encode(mechanism.audit_pair(), generator))
    assert mechanism.valid(sent).all()
    width = mechanism.message_bytes
    rows = generator.integers(0, 256, (60, width), dtype=np.uint8)
    edges = [np.full(width, byte, dtype=np.uint8) for byte in (0, 1, 127, 128, 255)]
    # One bit of a good message turned.
    near = np.repeat(sent[:1], 16, axis=0)
    near[np.arange(16), generator.integers(0, width, 16)] ^= (1 << generator.integers(0, 8, 16)).astype(np.uint8)
    rows = np.concatenate([rows, edges, near, sent[:3]])
    mask = mechanism.valid(rows)
    assert mask.dtype == np.bool_
    for row, good in zip(rows, mask, strict=True):
        if good:
            back = mechanism.unpack(row[None, :])
            assert np.isfinite(mechanism.accumulate(back)).all()
            np.testing.assert_array_equal(mechanism.pack(back), row[None, :])
        else:
            with pytest.raises(ValueError, match=r"expected .* got others in 1 of 1 rows"):
                mechanism.unpack(row[None, :])
    if mask.any():
        np.testing.assert_array_equal(mechanism.pack(mechanism.unpack(rows[mask])), rows[mask])


def test_some_bytes_are_no_messages() -> None:
    """The test above has something to refuse for nearly every mechanism."""
    generator = np.random.default_rng(6)
    refusing = {
        mechanism.name
        for mechanism in EXAMPLES
        if not mechanism.valid(generator.integers(0, 256, (500, mechanism.message_bytes), dtype=np.uint8)).all()
    }
    assert len(refusing) >= 25, refusing
