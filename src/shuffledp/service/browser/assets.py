"""The static files that a shuffler serves to browsers, with their security headers and routes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

MODULE_NAME, PAGE_NAME = "client.js", "take-part"
FILES = MappingProxyType(
    {MODULE_NAME: "client.js", PAGE_NAME: "page.html", "page.js": "page.js", "page.css": "page.css"}
)
"""File in this folder by its name below /v1/."""
MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
INTEGRITY_PLACEHOLDER = b"{integrity}"
"""Placeholder in the page for the integrity hash of the module."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Content security policy: no inline script or style, no other host, no framing, no form submission."""
CACHE_SECONDS = 3600


@dataclass(frozen=True)
class StaticFile:
    """A file and its media type."""

    body: bytes
    media_type: str

    @cached_property
    def etag(self) -> str:
        """A strong ETag, a hash of the content."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    @cached_property
    def integrity(self) -> str:
        """The hash for subresource integrity."""
        return "sha384-" + base64.b64encode(hashlib.sha384(self.body).digest()).decode()

    @property
    def headers(self) -> Mapping[str, str]:
        """Response headers: any origin may load the file, its media type is not guessed, no referrer is sent."""
        return {
            "etag": self.etag,
            "cache-control": f"public, max-age={CACHE_SECONDS}",
            "access-control-allow-origin": "*",
            "cross-origin-resource-policy": "cross-origin",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "content-security-policy": CONTENT_SECURITY_POLICY,
        }


@lru_cache
def load_static_file(name: str) -> StaticFile:
    """Returns the file with this name below /v1/."""
    path = resources.files(__package__) / FILES[name]
    body = path.read_bytes()
    if name == PAGE_NAME:
        body = body.replace(INTEGRITY_PLACEHOLDER, load_static_file(MODULE_NAME).integrity.encode())
    return StaticFile(body, MEDIA_TYPES[FILES[name][FILES[name].rindex(".") :]])


# --- Routes ---

NOT_MODIFIED = 304
SUMMARIES = {MODULE_NAME: "The module that browsers and Node take part with.", PAGE_NAME: "A page that takes part."}


def static_routes() -> list[Route]:
    """Returns a route for each file."""
    from starlette.routing import Route

    return [Route(f"/v1/{name}", _build_handler(load_static_file(name)), methods=["GET"]) for name in FILES]


def _build_handler(file: StaticFile) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        from starlette.responses import Response

        known = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
        if file.etag in known or "*" in known:
            return Response(status_code=NOT_MODIFIED, headers=file.headers)
        return Response(file.body, headers=file.headers, media_type=file.media_type)

    return serve


def build_openapi_paths() -> dict[str, Any]:
    """Returns the OpenAPI paths of the files."""
    return {
        f"/v1/{name}": {
            "get": {
                "summary": SUMMARIES.get(name, "A part of that page."),
                "responses": {
                    "200": {"description": "It.", "content": {load_static_file(name).media_type.partition(";")[0]: {}}},
                    str(NOT_MODIFIED): {"description": "What you have is it."},
                },
            }
        }
        for name in FILES
    }
