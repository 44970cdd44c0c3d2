"""Whether messages survive as bytes: round trip, width, and refusal of what is no message."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shuffledp.testing.case import Case
from shuffledp.testing.check import Check, checks, refused


@checks(
    "The wire does not have the stated width",
    "files of messages could not be read, and sizes would tell messages apart",
)
def rows_have_the_stated_width(case: Case) -> Iterator[str]:
    """Bytes, as many for every message as ``message_bytes`` says, and no more than its bits need."""
    mechanism, wire = case.mechanism, case.mechanism.pack(case.messages)
    if wire.dtype != np.uint8:
        yield f"pack() gives {wire.dtype}, not bytes (uint8)"
    if wire.shape != (len(case.messages), mechanism.message_bytes):
        expected = (len(case.messages), mechanism.message_bytes)
        yield f"pack() of {expected[0]} messages gives shape {wire.shape}, not {expected}"
    if mechanism.message_bytes != -(-mechanism.message_bits // 8):
        yield f"{mechanism.message_bits} bits are not {mechanism.message_bytes} bytes"


@checks(
    "Messages do not survive the wire",
    "the estimate is computed from other messages than were sent",
)
def messages_survive_the_wire(case: Case) -> Iterator[str]:
    """pack and unpack are inverse."""
    arrived = np.asarray(case.mechanism.unpack(case.mechanism.pack(case.messages)))
    if arrived.shape != np.shape(case.messages):
        yield f"messages of shape {np.shape(case.messages)} arrive with shape {arrived.shape}"
    elif not np.array_equal(arrived, case.messages):
        different = (arrived != case.messages).reshape(len(arrived), -1).any(axis=1)
        yield f"{int(different.sum())} of {len(arrived)} messages arrive as other ones"


@checks(
    "Bytes of another width are not refused",
    "messages of another mechanism would be read as if they were its own",
)
def another_width_is_refused(case: Case) -> Iterator[str]:
    """Rows of another width are no messages, and a sentence says what was expected."""
    wrong = np.zeros((1, case.mechanism.message_bytes + 1), dtype=np.uint8)
    with refused(ValueError) as sentences:
        case.mechanism.unpack(wrong)
    if not sentences:
        yield f"unpack() took a row of {wrong.shape[1]} bytes"
    elif "expected" not in sentences[0]:
        yield f"the refusal does not say what was expected: {sentences[0]!r}"


WIRE_CHECKS: tuple[Check[Case], ...] = (rows_have_the_stated_width, messages_survive_the_wire, another_width_is_refused)
