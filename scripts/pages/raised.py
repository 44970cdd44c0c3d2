"""A Sphinx extension that sets indices and exponents of plain formulas, such as ``x_1^0`` and ``e^{−ε/2}``."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.transforms import Transform

WORD = r"\d+(?:\.\d+)?[α-ω]?|[A-Za-zα-ωΑ-Ωℓ∞∅][A-Za-z0-9α-ω]*"
MARK = re.compile(rf"([_^])((?<=\^)[A-Z]\([^()\s]*\)|\{{[^{{}}]*\}}|\([^()\s]*\)|[−-]?(?:{WORD})′?)")
"""An index or an exponent: in brackets, or one word of letters and digits with an optional sign."""
BASE = re.compile(
    r"(?:(?<![\w.])[^\W\d_](?:\d|\u0304|′|')?|(?<=[^\W\d_])[A-ZΑ-Ωα-ω]|(?<=[Α-Ωα-ω])[a-z]|(?<![\w.:])[a-z]{2,4}|[)\]}‖|∫])$"
)
"""Text that may carry an index: a letter, the last letter of a product, a short word such as *mean*, a bracket."""
CODE = (nodes.literal, nodes.literal_block, nodes.raw, nodes.math, nodes.comment, nodes.doctest_block)


def pieces(text: str) -> list[tuple[str, str]]:
    """Splits a text into runs, each with its mark: "_", "^", or "" for plain text."""
    found: list[tuple[str, str]] = []
    start = 0
    for match in MARK.finditer(text):
        before = text[start : match.start()]
        if not before and found:
            # An exponent after an index, or the other way round; "test_a_b" is a name.
            allowed = found[-1][1] not in ("", match[1])
        elif match[1] == "^":
            allowed = bool(re.search(r"[\w)\]}|₊]$", before))
        else:
            inside = match[2].strip("{}")
            base = BASE.search(before)
            # A short word takes an index of one character: "mean_i" is an index, "dp_accounting" a name.
            short = len(inside) == 1 and text[match.end() : match.end() + 1] != "_"
            allowed = base is not None and (len(base[0]) < 2 or not base[0].isalpha() or short)
        if not allowed:
            continue
        if before:
            found.append((before, ""))
        found.append((_bare(match[2]), match[1]))
        start = match.end()
    if text[start:]:
        found.append((text[start:], ""))
    return found


def _bare(text: str) -> str:
    return text[1:-1] if text[0] in "{(" else text


def nodes_of(text: str) -> list[nodes.Node]:
    """Converts a text to nodes; an index or exponent may itself have an index."""
    made: list[nodes.Node] = []
    for words, mark in pieces(text):
        if not mark:
            made.append(nodes.Text(words))
            continue
        node = (nodes.subscript if mark == "_" else nodes.superscript)()
        node += nodes_of(words)
        made.append(node)
    return made


class Raised(Transform):
    """Applies the conversion to all text of a page except code, when the page is read."""

    default_priority = 900

    def apply(self, **kwargs: Any) -> None:
        for text in list(self.document.findall(nodes.Text)):
            node: Any = text.parent
            while node is not None and not isinstance(node, CODE):
                node = node.parent
            if node is None and ("_" in text or "^" in text) and text.parent is not None:
                text.parent.replace(text, nodes_of(text.astext()))


def setup(app: Any) -> dict[str, bool]:
    app.add_transform(Raised)
    return {"parallel_read_safe": True}
