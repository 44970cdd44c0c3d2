"""The shuffler's interface: taking reports, and a few documents for clients and for the analyst.

``openapi.py`` describes it. Nothing here logs a request, and nothing sets a cookie. Campaigns are administered at the
shuffler's own host, not from here.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.service import ingest
from shuffledp.service.asked_store import AskedStore
from shuffledp.service.browser.static_route import static_routes
from shuffledp.service.campaign import Campaign
from shuffledp.service.clock import Clock
from shuffledp.service.ingest import ANYBODY, Ingest, Receive, Refused, Send, extra_headers, problem
from shuffledp.service.notice import BatchRecord
from shuffledp.service.openapi import DESCRIPTION
from shuffledp.service.place import Front, Place
from shuffledp.service.store import Round, State, Store, Unavailable
from shuffledp.service.writer import GroupWriter

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

STATE_VARIABLE, KEYS_VARIABLE = "SHUFFLEDP_SERVICE_STATE", "SHUFFLEDP_SERVICE_KEYS"
DATABASE_VARIABLE, RECOVERED_VARIABLE = "SHUFFLEDP_DATABASE", "SHUFFLEDP_SERVICE_RECOVERED"
SHOWN = (State.FORGOTTEN, State.HANDED_OVER, State.ERASED)
"""The states in which the analyst is told how many came: before, a count would tell who took part when."""
NOTICE_SECONDS = 60
"""How long a notice may be kept by caches: its deadline may be extended."""
PREFLIGHT = [
    ANYBODY,
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"content-type"),
    (b"access-control-max-age", b"86400"),
]


class Service:
    """An ASGI application over one shuffler's directories, or in front of one that is elsewhere."""

    def __init__(self, place: Place | Front, recovered: bool = False) -> None:
        self._place, self._clock = None, None
        if isinstance(place, Place):
            _ = place.identity
            self._place, self._clock = place, Clock(place, recovered)
        self._store, self._writer = AskedStore(place.store), GroupWriter(place.store)
        self._ingest = Ingest(self._writer, self._store)
        self._others = self._application()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            await self._ingest(scope["path"], scope["headers"], receive, send)
        elif scope["type"] == "http" and scope["method"] == "OPTIONS":
            await send({"type": "http.response.start", "status": 204, "headers": PREFLIGHT})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._others(scope, receive, send)

    @asynccontextmanager
    async def _running(self, _: object) -> AsyncIterator[None]:
        self._writer.start()
        if self._clock is not None:
            self._clock.start()
        yield
        if self._clock is not None:
            self._clock.stop()
        self._writer.stop()
        self._store.close()

    def _application(self) -> Starlette:
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
            Route(f"{a_round}/batch", self._hand_over, methods=["DELETE"]),
            Route(f"{a_round}/batch/{{file}}", self._show_file, methods=["GET"]),
            Route("/v1/openapi.json", _describe, methods=["GET"]),
            *static_routes(),
            Route("/healthz", _healthy, methods=["GET"]),
            Route("/readyz", self._ready, methods=["GET"]),
        ]
        handlers: dict[Any, Any] = {Refused: _refuse, Unavailable: _say_later, HTTPException: _refuse_other}
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._running)

    # --- for clients ------------------------------------------------------------------------------------------

    async def _show_campaign(self, request: Request) -> Response:
        return _document((await self._campaign(request)).content, "public, max-age=31536000, immutable")

    async def _show_notice(self, request: Request) -> Response:
        campaign = await self._campaign(request)
        rounds, now = await self._store.ask(lambda store: store.rounds(campaign.id)), time.time()
        if not rounds or rounds[-1].state is not State.OPEN or rounds[-1].closes <= now:
            raise Refused(410)
        left = max(0, min(NOTICE_SECONDS, int(rounds[-1].closes - now)))
        return _document(rounds[-1].notice, f"public, max-age={left}")

    # --- for the analyst --------------------------------------------------------------------------------------

    async def _show_round(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse(round_told(*await self._asked(request)), headers=_plain("no-store"))

    async def _show_batch(self, request: Request) -> Response:
        _, found = await self._asked(request)
        return _document(self._batch(found), "no-store")

    async def _show_file(self, request: Request) -> Response:
        from starlette.responses import FileResponse

        campaign, found = await self._asked(request)
        name = request.path_params["file"]
        if self._place is None or name not in BatchRecord.read(campaign, self._batch(found)).files:
            raise Refused(404)
        path = self._place.batch(found) / name
        return FileResponse(path, media_type="application/vnd.apache.parquet", headers=_plain("no-store"))

    async def _hand_over(self, request: Request) -> Response:
        from starlette.responses import Response

        campaign, found = await self._asked(request)
        if found.state not in SHOWN:
            raise Refused(404)
        digest = BatchRecord.read(campaign, found.statement or b"").manifest.digest
        if request.query_params.get("digest") != digest:
            raise Refused(409)
        if found.state is State.FORGOTTEN:
            await self._store.ask(lambda store: store.move(found, replace(found, state=State.HANDED_OVER)))
        return Response(status_code=204, headers=_plain("no-store"))

    # --- for operators ----------------------------------------------------------------------------------------

    async def _ready(self, _: Request) -> Response:
        from starlette.responses import Response

        await self._store.ask(_demand_usable)
        return Response(status_code=204, headers=_plain("no-store"))

    # --- what is asked for ------------------------------------------------------------------------------------

    async def _campaign(self, request: Request) -> Campaign:
        found = await self._store.ask(lambda store: store.campaign(request.path_params["id"]))
        if found is None:
            raise Refused(404)
        return found

    async def _asked(self, request: Request) -> tuple[Campaign, Round]:
        """The campaign and round of an analyst's request."""
        campaign = await self._campaign(request)
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not campaign.admits(token.strip()):
            raise Refused(401)
        found = await self._store.ask(lambda store: store.round(campaign.id, request.path_params["number"]))
        if found is None:
            raise Refused(404)
        return campaign, found

    def _batch(self, found: Round) -> bytes:
        """What was signed about a batch that is there."""
        if found.state is not State.FORGOTTEN or found.statement is None:
            raise Refused(404)
        return found.statement


def from_environment() -> Service:
    """For servers that import their application; the variables name the shuffler's directories and database."""
    state, keys, database = (os.environ.get(name) for name in (STATE_VARIABLE, KEYS_VARIABLE, DATABASE_VARIABLE))
    if state:
        place = Place.of(Path(state), Path(keys) if keys else None, database or None)
        return Service(place, bool(os.environ.get(RECOVERED_VARIABLE)))
    if database:
        return Service(Front(database))
    raise ValueError(f"serve: expected {STATE_VARIABLE} or {DATABASE_VARIABLE} in the environment.")


def _register_parameters() -> None:
    """Let addresses name campaigns and rounds: what looks like neither is not found, and never made a number of."""
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


def round_told(campaign: Campaign, found: Round) -> dict[str, Any]:
    """Where a round stands, and how many took part once that may be known."""
    told: dict[str, Any] = {"round": found.number, "state": found.state, "closes": found.closes}
    if found.state in SHOWN:
        told["users"] = BatchRecord.read(campaign, found.statement or b"").manifest.users
    return told


def _demand_usable(store: Store) -> None:
    """``Unavailable`` unless reports can be stored."""
    store.accepted()
    store.demand_room()


async def _describe(_: Request) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(DESCRIPTION, headers=_plain("public, max-age=3600"))


async def _healthy(_: Request) -> Response:
    from starlette.responses import Response

    return Response(status_code=204, headers=_plain("no-store"))


async def _refuse(_: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)
    return _problem(refused.status)


async def _say_later(_: Request, unavailable: Exception) -> Response:
    del unavailable
    return _problem(503)


async def _refuse_other(_: Request, refused: Exception) -> Response:
    status = getattr(refused, "status_code", 404)
    return _problem(status if status in ingest.TITLES else 404)


def _problem(status: int) -> Response:
    from starlette.responses import Response

    headers = {name.decode(): value.decode() for name, value in extra_headers(status)}
    return Response(problem(status), status, _plain("no-store") | headers, "application/problem+json")


def _document(content: bytes, kept: str) -> Response:
    from starlette.responses import Response

    return Response(content, headers=_plain(kept), media_type="application/json")


def _plain(kept: str) -> dict[str, str]:
    return {"access-control-allow-origin": "*", "cache-control": kept}
