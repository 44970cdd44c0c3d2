"""The site: it builds without a warning, no link inside it is dead, and its search finds what people look for."""

from __future__ import annotations

import html.parser
import importlib
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from sphinx.search.en import SearchEnglish

import shuffledp as sdp
from shuffledp.mechanisms import catalogue
from tests import shared_results

ROOT = Path(__file__).parents[2]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "scripts" / "pages")
    matrix_page = importlib.import_module("matrix_page")
    staging = importlib.import_module("staging")
    api_page = importlib.import_module("api_page")
    raised = importlib.import_module("raised")


@pytest.fixture(scope="session")
def site(shared_folder: Path) -> Path:
    """Built once in a run, as ``scripts/docs`` does it."""

    def build() -> Path:
        out = shared_folder / "site"
        command = [str(ROOT / "scripts" / "docs"), "--out", str(out)]
        done = subprocess.run(command, env=os.environ | {"PYTHON": sys.executable}, capture_output=True, text=True,
                              encoding="utf-8", check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return out

    return shared_results.compute_once(shared_folder / "site-built", build)


class Links(html.parser.HTMLParser):
    """All places that a page links to, and all that can be linked to in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.names: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.targets.add(value)
            elif name in ("id", "name") and value:
                self.names.add(value)


@pytest.mark.docs
def test_no_link_inside_the_site_is_dead(site: Path) -> None:
    """Neither a file nor a place in it; pages link to nothing on this machine."""
    pages = {page: Links(page) for page in site.rglob("*.html") if "_static" not in page.parts}
    assert len(pages) > 80
    dead = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or (page.stem in ("search", "genindex") and not parts.path):
                assert parts.scheme != "file", f"{page} links to {target}"
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            known = pages[file].names if file in pages else {unquote(parts.fragment)}
            if not file.exists() or (parts.fragment and unquote(parts.fragment) not in known):
                dead.append(f"{page.relative_to(site)} → {target}")
    assert not dead, "\n".join(sorted(dead)[:40])


def search_index(site: Path) -> dict[str, Any]:
    """What the search box reads."""
    text = (site / "searchindex.js").read_text("utf-8")
    found: dict[str, Any] = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    return found


def pages_with(index: dict[str, Any], words: str) -> set[str]:
    """The pages on which all these words stand, stemmed as the search box stems them."""
    language = SearchEnglish({})
    found = []
    for word in re.findall(r"\w+", words.lower()):
        if word not in language.stopwords:
            places = [index[part].get(language.stem(word), []) for part in ("terms", "titleterms")]
            found.append({one for place in places for one in (place if isinstance(place, list) else [place])})
    return {index["filenames"][one] for one in set.intersection(*found)}


@pytest.mark.docs
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("privacy blanket", "glossary.md"),
        ("hockey-stick", "glossary.md"),
        ("RAPPOR", "howto/weekly-sample.md"),
        ("two percent a week", "howto/weekly-sample.md"),
    ],
)
def test_the_search_finds_it(site: Path, words: str, page: str) -> None:
    """All its words stand on the page where the answer is."""
    assert page in pages_with(search_index(site), words)


@pytest.mark.docs
def test_every_page_and_every_name_is_there(site: Path) -> None:
    """Pages of docs/, also those that no list names; names of the public lists; pictures of the gallery."""
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()
    index = (site / "api" / "index.html").read_text("utf-8")
    for space in api_page.SPACES:
        for name in api_page.public_names(space):
            assert f"{space.replace('shuffledp', 'sdp', 1)}.{name}" in index or f".{name}<" in index
    gallery = (site / "gallery.html").read_text("utf-8")
    for script in (ROOT / "docs" / "gallery").iterdir():
        assert f"{script.stem}.png" in gallery


def test_links_are_moved_with_their_pages() -> None:
    """To pages of the site, to files outside of it; code stays."""
    pages = {"docs/a.md": "a.md", "docs/b/c.md": "b/c.md", "README.md": "project/readme.md"}
    relinked = staging._relinked
    assert relinked("[x](../a.md#y)", "docs/b/c.md", "b/c.md", pages) == "[x](../a.md#y)"
    assert relinked("[x](docs/a.md)", "README.md", "project/readme.md", pages) == "[x](../a.md)"
    assert relinked("[x](../src/z.py#L3)", "docs/a.md", "a.md", pages) == "[x](repo:src/z.py#L3)"
    assert relinked("[x](https://a.b)", "docs/a.md", "a.md", pages) == "[x](https://a.b)"
    assert relinked("```\n[x](../src/z.py)\n```", "docs/a.md", "a.md", pages) == "```\n[x](../src/z.py)\n```"


def test_a_page_that_no_list_names_is_listed(tmp_path: Path) -> None:
    """Also if another folder has a page of that name."""
    (tmp_path / "howto").mkdir()
    (tmp_path / "index.md").write_text("# x\n\n:::{toctree}\nhowto/index\n:::\n\n<!-- other pages -->\n")
    (tmp_path / "howto" / "index.md").write_text("# x\n\n:::{toctree}\nspark\n/old\n:::\n")
    for name in ("spark.md", "old.md", "howto/spark.md"):
        (tmp_path / name).write_text("# x\n")
    staging._list_others(tmp_path)
    assert (tmp_path / "index.md").read_text().endswith(":::{toctree}\n:hidden:\n\n/spark\n:::\n")


def test_indices_and_exponents_are_set() -> None:
    """Of formulas in plain text; names with an underscore stay what they are."""

    def html(text: str) -> str:
        marks = {"": "{}", "_": "<sub>{}</sub>", "^": "<sup>{}</sup>"}
        return "".join(marks[mark].format(html(words) if mark else words) for words, mark in raised.pieces(text))

    assert html("x_1^0, D_{e^ε}(P‖Q)") == "x<sub>1</sub><sup>0</sup>, D<sub>e<sup>ε</sup></sub>(P‖Q)"
    assert html("e^−ε·(1 − δ), 2^-64, e^(−αε)x") == "e<sup>−ε</sup>·(1 − δ), 2<sup>-64</sup>, e<sup>−αε</sup>x"
    assert html("mean_i f_{I∖i}, e^{tG_x}") == "mean<sub>i</sub> f<sub>I∖i</sub>, e<sup>tG<sub>x</sub></sup>"
    assert html("e^D(a,b), D_F(P‖Q)") == "e<sup>D(a,b)</sup>, D<sub>F</sub>(P‖Q)"
    for name in ("dp_accounting", "test_both_sides.py", "1e6_000", "a/test_krr.py::test_a_large_one", "jax_privacy"):
        assert html(name) == name


def test_no_page_has_emphasis_by_accident() -> None:
    """An underscore or a star of a formula that ate its neighbours: both marks would be missing from the page."""
    reader = MarkdownIt("commonmark").enable("table")
    found = []
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for block in reader.parse(page.read_text("utf-8")):
            parts = block.children or []
            for before, mark in itertools.pairwise(parts):
                glued = before.type == "text" and before.content[-1:].isalnum()
                if mark.type == "em_open" and (mark.markup == "_" or glued):
                    found.append(f"{page.name}: {block.content[:80]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["krr", "balcer-cheu", "privunit-optimized", "gaussian", "poisson-dump", "laplace"])
def test_the_support_matrix_says_what_is_so(name: str) -> None:
    """Its marks against what happens: a certificate is made or refused, a lower bound is there or not."""
    kind = catalogue.all_mechanisms()[name]
    can = matrix_page.support(kind)
    example = kind.examples()[0]
    value = sdp.amplify(example, 1_000, effort="quick").epsilon(1e-4)
    assert can["attack"] == (value.lower is not None)
    try:
        sdp.certify(example, 1_000, delta=1e-4, effort="quick")
        certified = True
    except ValueError:
        certified = False
    assert can["certificate"] == certified
    assert can["compressed"] == (example.proposal is not None)
    assert matrix_page.table().count("\n") == len(catalogue.all_mechanisms()) + 1
