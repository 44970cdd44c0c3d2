"""Indices and exponents of the pages' plain formulas: ``x_1^0`` and ``e^{−ε/2}`` are set as sub- and superscripts."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.transforms import Transform

WORD = r"\d+(?:\.\d+)?[α-ω]?|[A-Za-zα-ωΑ-Ωℓ∞∅][A-Za-z0-9α-ω]*"
MARK = re.compile(rf"([_^])((?<=\^)[A-Z]\([^()\s]*\)|\{{[^{{}}]*\}}|\([^()\s]*\)|[−-]?(?:{WORD})′?)")
"""An index or an exponent: in brackets, or one word of letters and digits, perhaps with its sign."""
BASE = re.compile(
    r"(?:(?<![\w.])[^\W\d_](?:\d|\u0304|′|')?|(?<=[^\W\d_])[A-ZΑ-Ωα-ω]|(?<=[Α-Ωα-ω])[a-z]|(?<![\w.:])[a-z]{2,4}|[)\]}‖|∫])$"
)
"""What an index may stand at: a letter, the last one of a product, a short word such as *low* or *mean*, a bracket."""
CODE = (nodes.literal, nodes.literal_block, nodes.raw, nodes.math, nodes.comment, nodes.doctest_block)


def pieces(text: str) -> list[tuple[str, str]]:
    """The text cut into runs, each with "" or the mark that it was under: "_" or "^"."""
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
            # Short words take one sign: "mean_i" is an index, "dp_accounting" a name.
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
    """The same as nodes; what is raised may itself have an index."""
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
    """Runs when a page is read, on all of its text that is no code."""

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
