"""The shuffler's HTTP interface: ingest of reports, and documents and batches for clients and the analyst.

``OPENAPI_DOCUMENT`` describes it in OpenAPI. No request is logged and no cookie is set. Campaigns are administered on
the shuffler's host, not over HTTP.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp._core import __version__
from shuffledp.service import ingest
from shuffledp.service.browser.assets import build_openapi_paths, static_routes
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import REPORTS_MEDIA_TYPE
from shuffledp.service.ingest import (
    ALLOW_ANY_ORIGIN,
    MAX_REPORTS_PER_REQUEST,
    TITLES,
    AsyncStore,
    GroupWriter,
    HttpError,
    Ingest,
    Receive,
    Send,
    extra_response_headers,
    format_problem,
)
from shuffledp.service.notices_and_statements import BatchStatement
from shuffledp.service.rounds import RoundScheduler
from shuffledp.service.stores import IngestNode, Round, RoundState, ShufflerPaths, Store, StoreUnavailable

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


# --- OpenAPI 3.1 description, which the tests compare with the server ---

ID_PARAMETER = {"name": "id", "in": "path", "required": True, "description": "The campaign's id.",
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}  # fmt: skip
ROUND_PARAMETER = {"name": "number", "in": "path", "required": True, "description": "The round.",
          "schema": {"type": "integer", "minimum": 1, "maximum": 999_999_999}}  # fmt: skip
FILE_PARAMETER = {"name": "file", "in": "path", "required": True, "schema": {"type": "string"},
        "description": "A file that the statement names."}  # fmt: skip
DIGEST_PARAMETER = {"name": "digest", "in": "query", "required": True, "schema": {"type": "string"},
          "description": "The digest of the received batch."}  # fmt: skip
PROBLEM_CONTENT = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
BINARY_CONTENT = {"schema": {"type": "string", "format": "binary"}}
ANALYST_SECURITY: list[dict[str, list[str]]] = [{"analyst": []}]


def _openapi_responses(good: dict[int, tuple[str, str | None]], *refused: int) -> dict[str, Any]:
    """Returns OpenAPI responses: description and media type by successful status, and the statuses of errors."""
    responses: dict[str, Any] = {}
    for status, (description, kind) in good.items():
        responses[str(status)] = {"description": description} | ({} if kind is None else {"content": {kind: {}}})
    return responses | {str(status): {"description": TITLES[status], "content": PROBLEM_CONTENT} for status in refused}


OPENAPI_DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "shuffledp shuffler",
        "version": __version__,
        "description": "Takes sealed reports and hands mixed ones to the campaign's analyst. A request whose head has "
        "more than 16 KiB or 100 fields is answered by 431, and its connection closed.",
    },
    "paths": {
        "/v1/campaigns/{id}": {
            "parameters": [ID_PARAMETER],
            "get": {
                "summary": "The campaign document.",
                "responses": _openapi_responses({200: ("It never changes.", "application/json")}, 404, 503),
            },
        },
        "/v1/campaigns/{id}/round": {
            "parameters": [ID_PARAMETER],
            "get": {
                "summary": "The signed notice of the round that is open.",
                "responses": _openapi_responses({200: ("Seal reports to its key.", "application/json")}, 404, 410, 503),
            },
        },
        "/v1/campaigns/{id}/rounds/{number}/reports": {
            "parameters": [ID_PARAMETER, ROUND_PARAMETER],
            "post": {
                "summary": f"Send 1 to {MAX_REPORTS_PER_REQUEST} reports.",
                "description": "Repeated bytes get the same response, and count once.",
                "requestBody": {"required": True, "content": {REPORTS_MEDIA_TYPE: BINARY_CONTENT}},
                "responses": _openapi_responses(
                    {201: ("They are on disk.", None)}, 400, 404, 408, 410, 413, 415, 503, 507
                ),
            },
        },
        "/v1/campaigns/{id}/rounds/{number}": {
            "parameters": [ID_PARAMETER, ROUND_PARAMETER],
            "get": {
                "summary": "The state of the round, and once it is mixed the number of users.",
                "security": ANALYST_SECURITY,
                "responses": _openapi_responses({200: ("The state.", "application/json")}, 401, 404, 503),
            },
        },
        "/v1/campaigns/{id}/rounds/{number}/batch": {
            "parameters": [ID_PARAMETER, ROUND_PARAMETER],
            "get": {
                "summary": "The signed statement about the batch.",
                "security": ANALYST_SECURITY,
                "responses": _openapi_responses({200: ("Its manifest and files.", "application/json")}, 401, 404, 503),
            },
            "delete": {
                "summary": "Confirm that the batch was received; the shuffler deletes it.",
                "parameters": [DIGEST_PARAMETER],
                "security": ANALYST_SECURITY,
                "responses": _openapi_responses({204: ("It is, or was, handed over.", None)}, 401, 404, 409, 503),
            },
        },
        "/v1/campaigns/{id}/rounds/{number}/batch/{file}": {
            "parameters": [ID_PARAMETER, ROUND_PARAMETER, FILE_PARAMETER],
            "get": {
                "summary": "A file of sealed messages; parts of it by Range.",
                "security": ANALYST_SECURITY,
                "responses": _openapi_responses(
                    {
                        200: ("The file.", "application/vnd.apache.parquet"),
                        206: ("A part of it.", "application/vnd.apache.parquet"),
                        416: ("There is no such part.", None),
                    },
                    401,
                    404,
                    503,
                ),
            },
        },
        "/v1/openapi.json": {
            "get": {"summary": "This document.", "responses": _openapi_responses({200: ("It.", "application/json")})},
        },
        **build_openapi_paths(),
        "/healthz": {"get": {"summary": "It runs.", "responses": _openapi_responses({204: ("Yes.", None)})}},
        "/readyz": {"get": {"summary": "It can store.", "responses": _openapi_responses({204: ("Yes.", None)}, 503)}},
    },
    "components": {
        "securitySchemes": {"analyst": {"type": "http", "scheme": "bearer"}},
        "schemas": {
            "Problem": {
                "type": "object",
                "required": ["type", "title", "status"],
                "properties": {
                    "type": {"type": "string"},
                    "title": {"type": "string"},
                    "status": {"type": "integer"},
                },
            }
        },
    },
}  # fmt: skip

# --- Application ---

STATE_VARIABLE, KEYS_VARIABLE = "SHUFFLEDP_SERVICE_STATE", "SHUFFLEDP_SERVICE_KEYS"
DATABASE_VARIABLE, RECOVERED_VARIABLE = "SHUFFLEDP_DATABASE", "SHUFFLEDP_SERVICE_RECOVERED"
USER_COUNT_STATES = (RoundState.FORGOTTEN, RoundState.HANDED_OVER, RoundState.ERASED)
"""States in which the analyst sees the number of users; earlier, a count would reveal who took part when."""
MAX_NOTICE_CACHE_SECONDS = 60
"""Maximum time for which caches may store a notice, since its deadline may be extended."""
PREFLIGHT_HEADERS = [
    ALLOW_ANY_ORIGIN,
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"content-type"),
    (b"access-control-max-age", b"86400"),
]


class ShufflerApplication:
    """The ASGI application of a shuffler, or of an ingest server for a shuffler elsewhere."""

    def __init__(self, paths: ShufflerPaths | IngestNode, recovered: bool = False) -> None:
        self._paths, self._scheduler = None, None
        if isinstance(paths, ShufflerPaths):
            _ = paths.signing_key
            self._paths, self._scheduler = paths, RoundScheduler(paths, recovered)
        self._store, self._writer = AsyncStore(paths.open_store), GroupWriter(paths.open_store)
        self._ingest = Ingest(self._writer, self._store)
        self._other_routes = self._build_application()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            await self._ingest(scope["path"], scope["headers"], receive, send)
        elif scope["type"] == "http" and scope["method"] == "OPTIONS":
            await send({"type": "http.response.start", "status": 204, "headers": PREFLIGHT_HEADERS})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._other_routes(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        self._writer.start()
        if self._scheduler is not None:
            self._scheduler.start()
        yield
        if self._scheduler is not None:
            self._scheduler.stop()
        self._writer.stop()
        self._store.close()

    def _build_application(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route

        _register_parameters()
        campaign, a_round = "/v1/campaigns/{id:campaign}", "/v1/campaigns/{id:campaign}/rounds/{number:round}"
        routes = [
            Route(campaign, self._show_campaign, methods=["GET"]),
            Route(f"{campaign}/round", self._show_notice, methods=["GET"]),
            Route(a_round, self._show_round, methods=["GET"]),
            Route(f"{a_round}/batch", self._show_batch, methods=["GET"]),
            Route(f"{a_round}/batch", self._confirm_batch, methods=["DELETE"]),
            Route(f"{a_round}/batch/{{file}}", self._show_file, methods=["GET"]),
            Route("/v1/openapi.json", _show_openapi, methods=["GET"]),
            *static_routes(),
            Route("/healthz", _show_health, methods=["GET"]),
            Route("/readyz", self._check_ready, methods=["GET"]),
        ]
        handlers: dict[Any, Any] = {
            HttpError: _handle_http_error,
            StoreUnavailable: _handle_unavailable,
            HTTPException: _handle_framework_error,
        }
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)

    # --- Requests of clients ---

    async def _show_campaign(self, request: Request) -> Response:
        return _json_response((await self._find_campaign(request)).content, "public, max-age=31536000, immutable")

    async def _show_notice(self, request: Request) -> Response:
        campaign = await self._find_campaign(request)
        rounds, now = await self._store.query(lambda store: store.rounds(campaign.id)), time.time()
        if not rounds or rounds[-1].state is not RoundState.OPEN or rounds[-1].closes <= now:
            raise HttpError(410)
        left = max(0, min(MAX_NOTICE_CACHE_SECONDS, int(rounds[-1].closes - now)))
        return _json_response(rounds[-1].notice, f"public, max-age={left}")

    # --- Requests of the analyst ---

    async def _show_round(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse(describe_round(*await self._authorize_round(request)), headers=_base_headers("no-store"))

    async def _show_batch(self, request: Request) -> Response:
        _, found = await self._authorize_round(request)
        return _json_response(self._batch_statement(found), "no-store")

    async def _show_file(self, request: Request) -> Response:
        from starlette.responses import FileResponse

        campaign, found = await self._authorize_round(request)
        name = request.path_params["file"]
        if self._paths is None or name not in BatchStatement.from_signed(campaign, self._batch_statement(found)).files:
            raise HttpError(404)
        path = self._paths.batch_directory(found) / name
        return FileResponse(path, media_type="application/vnd.apache.parquet", headers=_base_headers("no-store"))

    async def _confirm_batch(self, request: Request) -> Response:
        from starlette.responses import Response

        campaign, found = await self._authorize_round(request)
        if found.state not in USER_COUNT_STATES:
            raise HttpError(404)
        digest = BatchStatement.from_signed(campaign, found.statement or b"").manifest.digest
        if request.query_params.get("digest") != digest:
            raise HttpError(409)
        if found.state is RoundState.FORGOTTEN:
            await self._store.query(
                lambda store: store.update_round(found, replace(found, state=RoundState.HANDED_OVER))
            )
        return Response(status_code=204, headers=_base_headers("no-store"))

    # --- Requests of operators ---

    async def _check_ready(self, _: Request) -> Response:
        from starlette.responses import Response

        await self._store.query(_check_store_usable)
        return Response(status_code=204, headers=_base_headers("no-store"))

    # --- Lookup ---

    async def _find_campaign(self, request: Request) -> Campaign:
        found = await self._store.query(lambda store: store.campaign(request.path_params["id"]))
        if found is None:
            raise HttpError(404)
        return found

    async def _authorize_round(self, request: Request) -> tuple[Campaign, Round]:
        """Returns the campaign and round of an analyst's request, after checking its bearer token."""
        campaign = await self._find_campaign(request)
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not campaign.authorizes_fetch(token.strip()):
            raise HttpError(401)
        found = await self._store.query(lambda store: store.round(campaign.id, request.path_params["number"]))
        if found is None:
            raise HttpError(404)
        return campaign, found

    def _batch_statement(self, found: Round) -> bytes:
        """Returns the signed statement of a batch that can be fetched."""
        if found.state is not RoundState.FORGOTTEN or found.statement is None:
            raise HttpError(404)
        return found.statement


def from_environment() -> ShufflerApplication:
    """Creates the application from environment variables that name the shuffler's directories and database."""
    state, keys, database = (os.environ.get(name) for name in (STATE_VARIABLE, KEYS_VARIABLE, DATABASE_VARIABLE))
    if state:
        paths = ShufflerPaths.from_directories(Path(state), Path(keys) if keys else None, database or None)
        return ShufflerApplication(paths, bool(os.environ.get(RECOVERED_VARIABLE)))
    if database:
        return ShufflerApplication(IngestNode(database))
    raise ValueError(f"serve: expected {STATE_VARIABLE} or {DATABASE_VARIABLE} in the environment.")


def _register_parameters() -> None:
    """Registers path parameters for campaigns and rounds; other texts are not found, and never parsed as numbers."""
    from starlette.convertors import Convertor, register_url_convertor

    class CampaignId(Convertor[str]):
        regex = ingest.CAMPAIGN_PATTERN

        def convert(self, value: str) -> str:
            return value

        def to_string(self, value: str) -> str:
            return value

    class RoundNumber(Convertor[int]):
        regex = ingest.ROUND_PATTERN

        def convert(self, value: str) -> int:
            return int(value)

        def to_string(self, value: int) -> str:
            return str(value)

    register_url_convertor("campaign", CampaignId())
    register_url_convertor("round", RoundNumber())


def describe_round(campaign: Campaign, found: Round) -> dict[str, Any]:
    """Returns the state of a round, with the number of users once that may be known."""
    document: dict[str, Any] = {"round": found.number, "state": found.state, "closes": found.closes}
    if found.state in USER_COUNT_STATES:
        document["users"] = BatchStatement.from_signed(campaign, found.statement or b"").manifest.users
    return document


def _check_store_usable(store: Store) -> None:
    """Raises ``StoreUnavailable`` unless reports can be stored."""
    store.accepted_campaigns()
    store.check_disk_space()


async def _show_openapi(_: Request) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(OPENAPI_DOCUMENT, headers=_base_headers("public, max-age=3600"))


async def _show_health(_: Request) -> Response:
    from starlette.responses import Response

    return Response(status_code=204, headers=_base_headers("no-store"))


async def _handle_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return _problem_response(error.status)


async def _handle_unavailable(_: Request, error: Exception) -> Response:
    del error
    return _problem_response(503)


async def _handle_framework_error(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return _problem_response(status if status in ingest.TITLES else 404)


def _problem_response(status: int) -> Response:
    from starlette.responses import Response

    headers = {name.decode(): value.decode() for name, value in extra_response_headers(status)}
    return Response(format_problem(status), status, _base_headers("no-store") | headers, "application/problem+json")


def _json_response(content: bytes, cache_control: str) -> Response:
    from starlette.responses import Response

    return Response(content, headers=_base_headers(cache_control), media_type="application/json")


def _base_headers(cache_control: str) -> dict[str, str]:
    return {"access-control-allow-origin": "*", "cache-control": cache_control}
