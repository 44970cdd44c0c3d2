"""A Sphinx extension that shows files linked by ``repo:`` as plain pages with numbered lines."""

from __future__ import annotations

import html
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.osutil import relative_uri

ROOT = Path(__file__).resolve().parents[2]
DEFINED = re.compile(r"\s*(?:def|class) (\w+)")
LINKED: dict[str, None] = {}
"""The linked paths, in the order found."""


def place_of(path: str) -> str:
    return f"source/{path.rstrip('/')}"


def resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replaces ``repo:path#L3`` by the address of that file's page; warns if the file does not exist."""
    from sphinx.util import logging

    for link in doctree.findall(nodes.reference):
        target = link.get("refuri", "")
        if not target.startswith("repo:"):
            continue
        path, mark, anchor = target.removeprefix("repo:").partition("#")
        if not (ROOT / path).exists():
            logging.getLogger(__name__).warning("links to %s, which is not there", path, location=link)
        LINKED[path] = None
        link["refuri"] = relative_uri(app.builder.get_target_uri(docname), f"{place_of(path)}.html") + mark + anchor


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} — shuffledp</title><link rel="stylesheet" href="{top}_static/source.css"></head>
<body><p><a href="{top}index.html">shuffledp</a> / {title}</p>
{body}
</body></html>
"""


def write_pages(app: Sphinx, error: Exception | None) -> None:
    """Writes a page for each linked file, and a list of files for each folder; without the theme, which is slow."""
    if error is not None:
        return
    waiting, done = list(LINKED), set()
    while waiting:
        path = waiting.pop()
        if path in done:
            continue
        done.add(path)
        inside = sorted(one.relative_to(ROOT).as_posix() for one in (ROOT / path).glob("*.py"))
        waiting += inside
        here = f"{place_of(path)}.html"
        body = _list(here, inside) if (ROOT / path).is_dir() else _listing(ROOT / path)
        file = Path(app.outdir, here)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PAGE.format(title=path, top="../" * here.count("/"), body=body), "utf-8")


def _list(here: str, inside: list[str]) -> str:
    entries = (f'<li><a href="{relative_uri(here, place_of(one) + ".html")}">{one}</a></li>' for one in inside)
    return f"<ul>{''.join(entries)}</ul>"


def _listing(path: Path) -> str:
    """Returns a file's numbered lines; the first definition of each name is also a link target."""
    shown, seen = [], set()
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        found = DEFINED.match(line)
        name = found[1] if found and found[1] not in seen else ""
        seen.add(name)
        text = html.escape(line, quote=False)
        text = f'<span id="{name}">{text}</span>' if name else text
        shown.append(f'<a id="L{number}" href="#L{number}">{number:4}</a> {text}')
    return f"<pre>{chr(10).join(shown)}</pre>"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", resolve)
    app.connect("build-finished", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
