"""A Sphinx extension: our docstrings are plain sentences; this makes the markup that Sphinx wants of them."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

LABEL = re.compile(r"^(Theorem|Requires|Returns|Deviates):\s*(.*)$")
CODE = re.compile(r"(``.*?``)")


def rewrite(app: Sphinx, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """In place: labels become a list of fields, examples stay, and no other character is markup."""
    del app, kind, name, thing, options
    lines[:] = list(_marked(lines))


def _marked(lines: list[str]) -> Any:
    in_example = in_list = False
    for line in lines:
        if line.lstrip().startswith(">>>"):
            if not in_example:
                yield ""
            in_example, in_list = True, False
        elif in_example and not line.strip():
            in_example = False
        if in_example:
            yield line.strip() if line.lstrip().startswith(">>>") else line
            continue
        label = LABEL.match(line)
        if label:
            if not in_list:
                yield ""
            in_list = True
            yield f":{label[1]}: {escaped(label[2])}"
        elif in_list and line.strip():
            yield f"    {escaped(line.strip())}"
        else:
            in_list = in_list and bool(line.strip())
            yield escaped(line)


def readable(
    app: Sphinx, kind: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """A default that is made anew is no Python: with it, a signature would be one long line of full names."""
    del app, kind, name, thing, options
    return (signature.replace("<factory>", "...") if signature else signature), returns


def escaped(line: str) -> str:
    parts = CODE.split(line)
    return "".join(part if part.startswith("``") else re.sub(r"([\\*`|_])", r"\\\1", part) for part in parts)


def plain_types(app: Sphinx, doctree: nodes.document) -> None:
    """Types in signatures are text: hardly any of them has a page, and looking for each takes a third of the build."""
    del app
    for signature in doctree.findall(addnodes.desc_signature):
        for link in list(signature.findall(addnodes.pending_xref)):
            link.replace_self(link.children)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", readable)
    app.connect("doctree-read", plain_types)
    return {"parallel_read_safe": True}
