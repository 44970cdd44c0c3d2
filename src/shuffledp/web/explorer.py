"""The page and its interface: files, an address for each operation, and what is watched."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.document import json_text
from shuffledp.escaping import visible
from shuffledp.mechanisms import catalogue
from shuffledp.tasks.asked_questions import NAMES
from shuffledp.tasks.task_list import TASKS
from shuffledp.web import lines, watched
from shuffledp.web.described import DESCRIPTION
from shuffledp.web.inquiry import OPERATIONS, Inquiry, Operation
from shuffledp.web.pool import Busy, OverBudget, Pool

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

PAGE = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MOST_BYTES = 1 << 21
"""Of a request; a table of a thousand inputs and outputs each is larger, and is for the command line."""
BODY_SECONDS = 10.0
LINES = "application/x-ndjson"
MOST_KEPT, LONGEST_KEPT = 256, 1 << 18
ENDED = {"connection": "close"}
"""What was not read of a request is not waited for."""
BUSY = "web: many questions are waiting already; try again in a moment."


class Declined(Exception):
    """A status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Explorer:
    """An ASGI application; ``watch`` are directories of collections or shufflers that it may look into."""

    def __init__(self, pool: Pool | None = None, watch: Sequence[Path] = ()) -> None:
        self._pool, self._watch = pool or Pool(), tuple(watch)
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self.application = self._application()

    def _application(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route

        routes = [
            Route("/", self._page, methods=["GET"]),
            Route("/page/{file}", self._page, methods=["GET"]),
            Route("/api/openapi.json", _describe, methods=["GET"]),
            Route("/api/watched", self._watched, methods=["GET"]),
            Route("/api/tasks", _tasks, methods=["GET"]),
            *(Route(f"/api/{name}", self._asker(each), methods=["POST"]) for name, each in OPERATIONS.items()),
        ]
        handlers: dict[Any, Any] = {Declined: _refuse, HTTPException: _refuse_other, Exception: _fail}
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._running)

    @asynccontextmanager
    async def _running(self, _: object) -> AsyncIterator[None]:
        self._pool.start()
        # The names of mechanisms in Python lines need all of them loaded, which would keep the first answer waiting.
        loading = asyncio.create_task(asyncio.to_thread(catalogue.all_mechanisms))
        try:
            yield
        finally:
            await loading
            await self._pool.stop()

    # --- files --------------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        from starlette.responses import FileResponse

        path = PAGE / request.path_params.get("file", "index.html")
        if path.parent != PAGE or path.suffix not in KINDS or not path.is_file():
            raise Declined(404, "web: there is nothing at this address.")
        return FileResponse(path, media_type=KINDS[path.suffix], headers={"cache-control": "no-cache"})

    async def _watched(self, _: Request) -> Response:
        from starlette.responses import Response

        found = await asyncio.to_thread(lambda: [watched.told(directory) for directory in self._watch])
        return Response(json_text({"watched": found}), media_type="application/json", headers=_fresh())

    # --- questions ----------------------------------------------------------------------------------------------

    def _asker(self, operation: Operation) -> Any:
        async def ask(request: Request) -> Response:
            from starlette.responses import Response, StreamingResponse

            given = await _body(request, operation)
            try:
                inquiry = operation.inquiry(given)
            except ValueError as error:
                raise Declined(422, str(error)) from None
            if LINES in request.headers.get("accept", ""):
                told = self._lines(operation, inquiry, given, _gone(request))
                return StreamingResponse(told, media_type=LINES, headers=_fresh())
            content = await self._answer(operation, inquiry, given)
            return Response(content, media_type="application/json", headers=_fresh())

        return ask

    async def _answer(
        self, operation: Operation, inquiry: Inquiry, given: Mapping[str, Any], heard: Any = lambda line: None
    ) -> bytes:
        """The document, from before where the same was asked."""
        key = json.dumps([operation.name, given], sort_keys=True)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        try:
            found = await self._pool.lane(operation.is_long).ask(inquiry, heard)
        except Busy:
            raise Declined(503, BUSY) from None
        except OverBudget as error:
            raise Declined(422, str(error)) from None
        if "refused" in found:
            raise Declined(422, found["refused"])
        python = lines.of(operation.name, given)
        content = json_text({"command": lines.command(inquiry), "python": python, **found}).encode()
        if len(content) <= LONGEST_KEPT:
            self._kept[key] = content
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return content

    async def _lines(
        self, operation: Operation, inquiry: Inquiry, given: Mapping[str, Any], gone: Coroutine[Any, Any, None]
    ) -> AsyncIterator[bytes]:
        """How far it is and what is known first, a line each, then the document; who stops reading stops the work."""
        queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        work = asyncio.create_task(self._answer(operation, inquiry, given, queue.put_nowait))
        work.add_done_callback(lambda _: queue.put_nowait({}))
        # Not only when there is something to send: a step may take long.
        left = asyncio.create_task(gone)
        left.add_done_callback(lambda _: work.cancel())
        try:
            while line := await queue.get():
                yield json.dumps(line, ensure_ascii=False).encode() + b"\n"
            if work.cancelled():
                return
            try:
                yield await work + b"\n"
            except Declined as declined:
                yield json.dumps({"error": declined.sentence, "status": declined.status}).encode() + b"\n"
        finally:
            work.cancel()
            left.cancel()


async def _gone(request: Request) -> None:
    """Until who asked is no longer there."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _fresh() -> dict[str, str]:
    return {"cache-control": "no-store"}


async def _body(request: Request, operation: Operation) -> Any:
    """The JSON of a request, of which no more is read than may be sent."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Declined(415, f"{operation.name}: expected a body of type application/json.")
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                content += piece
                if len(content) > MOST_BYTES:
                    raise Declined(
                        413,
                        f"{operation.name}: a request may have {MOST_BYTES >> 20} MB; run the command in a terminal.",
                    )
    except TimeoutError:
        raise Declined(408, f"{operation.name}: the request did not come whole.") from None
    try:
        return json.loads(bytes(content), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Declined(400, f"{operation.name}: expected JSON, got something else, or nested too deeply.") from None


def _no_constant(name: str) -> Any:
    raise ValueError(name)


async def _describe(_: Request) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(DESCRIPTION, headers={"cache-control": "no-cache"})


async def _tasks(_: Request) -> Response:
    """What can be planned for, and the options that tell each."""
    from starlette.responses import JSONResponse

    told = [{"name": kind.command_name(), "takes": list(kind.taken)} for kind in TASKS]
    return JSONResponse({"tasks": told, "questions": list(NAMES)}, headers={"cache-control": "no-cache"})


async def _refuse(_: Request, declined: Declined) -> Response:
    from starlette.responses import JSONResponse

    more = {503: {"retry-after": "1"}, 408: ENDED, 413: ENDED}.get(declined.status, {})
    return JSONResponse({"error": declined.sentence}, declined.status, headers=_fresh() | more)


async def _fail(request: Request, error: Exception) -> Response:
    """A mistake of ours: told to whoever started the page, without what was asked."""
    from starlette.responses import JSONResponse

    print(f"shuffledp: web: {visible(request.url.path)} failed ({type(error).__name__}).", file=sys.stderr, flush=True)
    return JSONResponse({"error": "web: this failed, which is a mistake of shuffledp; please report it."}, 500)


async def _refuse_other(_: Request, error: Any) -> Response:
    from starlette.responses import JSONResponse

    sentence = "web: there is nothing at this address." if error.status_code == 404 else f"web: {error.detail}."
    return JSONResponse({"error": sentence}, error.status_code, headers=_fresh() | dict(error.headers or {}))
