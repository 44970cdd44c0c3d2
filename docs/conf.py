"""The site's settings for Sphinx; ``scripts/docs`` stages the pages and calls it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "scripts" / "pages")]

from shuffledp._core import __version__  # noqa: E402

project = "shuffledp"
author = "the shuffledp authors"
copyright = "the shuffledp authors, Apache 2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_design", "source_page", "plain_docstring", "raised"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# "repo" is what staging makes of links to files outside of docs/.
myst_url_schemes = ["http", "https", "mailto", "repo"]
suppress_warnings = ["myst.header"]
# Types of other packages and of our own insides are no pages here; everything else that is referred to must exist.
nitpick_ignore_regex = [(r"py:.*", r".*")]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# By their names, not by all that numpy takes for one.
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "Floats": "Floats"}
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries = False
highlight_language = "none"
pygments_style = "default"

html_theme = "pydata_sphinx_theme"
html_title = "shuffledp"
html_static_path = [str(ROOT / "docs" / "_static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": "shuffledp"},
    "show_prev_next": True,
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}
# Pages that stand alone have no neighbours to list.
html_sidebars = {"index": [], "catalogue": [], "gallery": []}
