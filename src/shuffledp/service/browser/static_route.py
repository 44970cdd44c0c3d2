"""The routes of what browsers are served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from shuffledp.service.browser.static_file import FILES, MODULE, PAGE, StaticFile, content

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

NOT_MODIFIED = 304
WORDS = {MODULE: "The module that browsers and Node take part with.", PAGE: "A page that takes part."}


def static_routes() -> list[Route]:
    """One for each file."""
    from starlette.routing import Route

    return [Route(f"/v1/{name}", _serving(content(name)), methods=["GET"]) for name in FILES]


def _serving(file: StaticFile) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        from starlette.responses import Response

        known = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
        if file.tag in known or "*" in known:
            return Response(status_code=NOT_MODIFIED, headers=file.headers)
        return Response(file.body, headers=file.headers, media_type=file.media_type)

    return serve


def described() -> dict[str, Any]:
    """For the interface's description."""
    return {
        f"/v1/{name}": {
            "get": {
                "summary": WORDS.get(name, "A part of that page."),
                "responses": {
                    "200": {"description": "It.", "content": {content(name).media_type.partition(";")[0]: {}}},
                    str(NOT_MODIFIED): {"description": "What you have is it."},
                },
            }
        }
        for name in FILES
    }
