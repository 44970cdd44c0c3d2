"""Conformance vectors for clients in any language, made by the oracles alone: words in, bytes out.

``python -m tests.service.browser.conformance_vectors`` writes them anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shuffledp.sampling.rounding_and_digits import RANGE_UNITS
from tests.oracle import hpke, recipe as oracle
from tests.oracle.recipe import WordDraws
from tests.service.browser import MECHANISMS, program_for
from tests.service.browser.test_recipe import packed
from tests.service.test_envelope import CONTENT, EPHEMERAL, INFO, SECRET

PATH = Path(__file__).parents[2] / "golden" / "browser.json"
LAST_WORD = (1 << 64) - 1
VECTORS_DESCRIPTION = (
    "Word k of a seed is the first eight bytes of SHA-256(seed/k), big-endian; `first` words come before them. A "
    "number below n takes as few words as can hold n numbers, the first the most significant, and draws again where it "
    "is at least the largest multiple of n."
)


def build_vectors() -> dict[str, Any]:
    """All of them."""
    return {
        "about": VECTORS_DESCRIPTION,
        "messages": [each for name in MECHANISMS for each in _mechanism_vector(name)],
        "seal": _sealing_vector(),
    }


def _mechanism_vector(name: str) -> list[dict[str, Any]]:
    mechanism = MECHANISMS[name]
    told = program_for(mechanism)
    made = []
    for number, value in enumerate(_input_values(name)):
        # Words at both ends: refused ones, and chances of nearly 0 and 1.
        first = ([], [LAST_WORD, 0], [0, LAST_WORD, LAST_WORD])[number % 3]
        seed = f"{name} {number}"
        messages = oracle.run_program(told, value, WordDraws(oracle.word_stream(seed, first)))
        content, width = packed(mechanism, messages), told["bytes"]
        rows = [content[start : start + width].hex() for start in range(0, len(content), width)]
        made.append({"value": str(value), "first": [f"{word:x}" for word in first], "seed": seed, "messages": rows})
    return [{"name": name, "recipe": told, "cases": made}]


def _input_values(name: str) -> list[int]:
    options = getattr(MECHANISMS[name], "options", None)
    if options is None:
        return [0, RANGE_UNITS, RANGE_UNITS // 2, RANGE_UNITS // 3, 1, RANGE_UNITS - 1, RANGE_UNITS // 7, 12345]
    return [number * (options - 1) // 5 for number in range(6)]


def _sealing_vector() -> list[dict[str, str]]:
    receiver = hpke.public_key(SECRET)
    cases = [(EPHEMERAL, INFO, CONTENT), (EPHEMERAL, b"", b""), (SECRET, b"shuffledp v1 message\0" + bytes(40), b"\1")]
    return [
        {
            "ephemeral": ephemeral.hex(), "receiver": receiver.hex(), "info": info.hex(), "content": content.hex(),
            "sealed": hpke.seal(ephemeral, receiver, info, content).hex(),
        }
        for ephemeral, info, content in cases
    ]  # fmt: skip


def format_vectors() -> str:
    """The file: a line a mechanism."""
    told = build_vectors()
    lines = [json.dumps(each, ensure_ascii=False) for each in told["messages"]]
    seals = [json.dumps(each) for each in told["seal"]]
    return (
        f'{{"about": {json.dumps(told["about"])},\n"messages": [\n'
        + ",\n".join(lines)
        + '\n],\n"seal": [\n'
        + ",\n".join(seals)
        + "\n]}\n"
    )


if __name__ == "__main__":
    PATH.write_text(format_vectors(), "utf-8")
