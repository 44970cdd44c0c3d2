"""The files that a shuffler serves to browsers, with the headers that keep them as they are."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from types import MappingProxyType

MODULE, PAGE = "client.js", "take-part"
FILES = MappingProxyType({MODULE: "client.js", PAGE: "page.html", "page.js": "page.js", "page.css": "page.css"})
"""What each is called below /v1/, and the file in this folder."""
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
INTEGRITY = b"{integrity}"
"""Where the page names the module that it was made for."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""No inline script or style, no other host, nothing to be framed or posted."""
KEPT_SECONDS = 3600


@dataclass(frozen=True)
class StaticFile:
    """One of them."""

    body: bytes
    media_type: str

    @cached_property
    def tag(self) -> str:
        """A strong ETag: other bytes have another one."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    @cached_property
    def integrity(self) -> str:
        """For subresource integrity."""
        return "sha384-" + base64.b64encode(hashlib.sha384(self.body).digest()).decode()

    @property
    def headers(self) -> Mapping[str, str]:
        """Pages of every origin may load it; it is what it says it is, and tells nobody where it was loaded."""
        return {
            "etag": self.tag,
            "cache-control": f"public, max-age={KEPT_SECONDS}",
            "access-control-allow-origin": "*",
            "cross-origin-resource-policy": "cross-origin",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "content-security-policy": POLICY,
        }


@lru_cache
def content(name: str) -> StaticFile:
    """By what it is called."""
    path = resources.files(__package__) / FILES[name]
    body = path.read_bytes()
    if name == PAGE:
        body = body.replace(INTEGRITY, content(MODULE).integrity.encode())
    return StaticFile(body, TYPES[FILES[name][FILES[name].rindex(".") :]])
