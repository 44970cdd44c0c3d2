"""A Sphinx extension that converts docstrings of plain sentences to reStructuredText."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

LABEL = re.compile(r"^(Theorem|Requires|Returns|Deviates|Privacy):\s*(\S.*)$")
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Examples?):\s*$")
ITEM = re.compile(r"^ {4}(\*{0,2}\w+): (.*)$")
FIELD = {"Args": "param", "Attributes": "param", "Raises": "raises"}
CODE = re.compile(r"(``.*?``)")


def rewrite(app: Sphinx, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Converts a docstring in place: labels become a field list, examples stay, and all other markup is escaped."""
    del app, kind, name, thing, options
    lines[:] = list(_marked(lines))


def _marked(lines: list[str]) -> Any:
    in_example = in_list = False
    section, indent = "", 0
    for line in lines:
        if line.lstrip().startswith(">>>"):
            if not in_example:
                yield ""
            in_example, in_list, indent = True, False, len(line) - len(line.lstrip())
        elif in_example and not line.strip():
            in_example = False
        if in_example:
            yield line[indent:] if not line[:indent].strip() else line
            continue
        title, label = SECTION.match(line), LABEL.match(line)
        if title or (line.strip() and not line.startswith(" ")):
            section = title[1] if title else ""
        if title:
            if not in_list:
                yield ""
            in_list = not section.startswith("Example")
            if section in ("Returns", "Yields"):
                yield f":{section}:"
        elif label:
            if not in_list:
                yield ""
            in_list = True
            yield f":{label[1]}: {escaped(label[2])}"
        elif section in FIELD and (item := ITEM.match(line)):
            yield f":{FIELD[section]} {escaped(item[1])}: {escaped(item[2])}"
        elif in_list and line.strip():
            yield f"    {escaped(line.strip())}"
        else:
            in_list = in_list and bool(line.strip())
            yield escaped(line)


def readable(
    app: Sphinx, kind: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Replaces defaults made by factories, which are not Python and would make signatures one long line."""
    del app, kind, name, thing, options
    return (signature.replace("<factory>", "...") if signature else signature), returns


def escaped(line: str) -> str:
    parts = CODE.split(line)
    return "".join(part if part.startswith("``") else re.sub(r"([\\*`|_])", r"\\\1", part) for part in parts)


def plain_types(app: Sphinx, doctree: nodes.document) -> None:
    """Replaces links on types by text; few types have a page, and resolving them takes a third of the build."""
    del app
    for signature in doctree.findall(addnodes.desc_signature):
        for link in list(signature.findall(addnodes.pending_xref)):
            link.replace_self(link.children)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", readable)
    app.connect("doctree-read", plain_types)
    return {"parallel_read_safe": True}
