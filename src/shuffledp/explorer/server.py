"""The web server of the explorer: access control, the page's files, its JSON interface, and how it is started."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import socket
import sys
import tempfile
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp._core.errors import InvalidArgument
from shuffledp._core.formatting import escape_line, format_json
from shuffledp._core.message_phrases import Argument
from shuffledp.explorer import snippets, watched_directories
from shuffledp.explorer.requests import OPENAPI_DOCUMENT, OPERATIONS, CommandRequest, Operation
from shuffledp.explorer.workers import Busy, OverBudget, ProgressListener, WorkerPool
from shuffledp.mechanisms import catalogue
from shuffledp.tasks.registry import TASKS
from shuffledp.tasks.survey_parser import QUESTION_TASK_NAMES

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


# --- Access control ---
# Only the page that this server delivered, at this address and with this run's secret in its path, may send requests.
# A page of another site does not know the secret, cannot reach this host under a name that it makes resolve to loopback
# (DNS rebinding), and is refused by the Origin and Sec-Fetch-Site headers that its browser sends. The secret is not a
# cookie, because browsers send cookies to every port of a host, hence to servers of other users of this machine.


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
ALLOWED_FETCH_SITES = (b"same-origin", b"none")
"""Sec-Fetch-Site of requests by the page itself, and of addresses that a user typed."""
NAVIGATION_HEADERS = {b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}
"""Headers of a navigation to the page from another page, such as the file that `shuffledp web` opens."""


class AccessControl:
    """An ASGI application in front of another one that passes on only permitted requests.

    ``entered`` is called at the first request with the secret.
    """

    def __init__(
        self, application: Application, token: str, hosts: Collection[str], entered: Callable[[], None] | None = None
    ) -> None:
        self._application, self._token, self._on_first_request = application, token, entered
        self._hosts = frozenset(host.lower().encode() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses a request, or removes the secret from its path and passes it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._application(scope, receive, send)
            return
        token, slash, path = scope["path"].removeprefix("/").partition("/")
        headers = dict(scope["headers"])
        # Opening the page has no effect, so a link from any other page may lead to it.
        is_navigation = not path and scope["method"] == "GET" and headers.items() >= NAVIGATION_HEADERS.items()
        if reason := self._find_refusal_reason(headers, is_navigation):
            await _refuse_access(send, 403, reason)
            return
        if not slash or not hmac.compare_digest(token.encode(), self._token.encode()):
            await _refuse_access(
                send, 404, "The address of the page contains a secret; open the address that `shuffledp web` prints."
            )
            return
        if self._on_first_request is not None:
            entered, self._on_first_request = self._on_first_request, None
            entered()
        inner = {**scope, "path": f"/{path}", "raw_path": f"/{path}".encode(), "root_path": ""}
        await self._application(inner, receive, _with_headers(send))

    def _find_refusal_reason(self, headers: dict[bytes, bytes], is_navigation: bool) -> str:
        """Returns the reason for refusing a request with these headers; empty if it is permitted."""
        if headers.get(b"host", b"").lower() not in self._hosts:
            return "This page answers under its own address only."
        origin = headers.get(b"origin")
        is_foreign = origin is not None and origin.lower().removeprefix(b"http://") not in self._hosts
        is_cross_site = headers.get(b"sec-fetch-site", b"none").lower() not in ALLOWED_FETCH_SITES
        return "Requests by other sites are refused." if is_foreign or (is_cross_site and not is_navigation) else ""


async def _refuse_access(send: Send, status: int, message: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"), *SECURITY_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": message.encode() + b"\n"})


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *SECURITY_HEADERS]
        await send(message)

    return send_with_headers


# --- The page's files and its JSON interface ---


PAGE_DIRECTORY = Path(__file__).parent / "page"
MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MAX_REQUEST_BYTES = 1 << 21
"""Largest request; a table of a thousand inputs and outputs is larger and needs the command line."""
BODY_TIMEOUT_SECONDS = 10.0
NDJSON_MEDIA_TYPE = "application/x-ndjson"
NO_STORE_HEADERS, NO_CACHE_HEADERS = {"cache-control": "no-store"}, {"cache-control": "no-cache"}
NOT_FOUND_MESSAGE = "web: there is nothing at this address."
MAX_CACHED_ANSWERS, MAX_CACHED_BYTES = 256, 1 << 18
CLOSE_HEADERS = {"connection": "close"}
"""Closes the connection instead of waiting for the unread rest of a request."""
BUSY_MESSAGE = "web: too many requests are waiting; try again in a moment."


class RequestDeclined(Exception):
    """A refused request, with the HTTP status and the message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Explorer:
    """The explorer as an ASGI application; ``watch`` lists directories of collections or shufflers to show."""

    def __init__(self, pool: WorkerPool | None = None, watch: Sequence[Path] = ()) -> None:
        self._pool, self._watch = pool or WorkerPool(), tuple(watch)
        self._cached_answers: OrderedDict[str, bytes] = OrderedDict()
        self.application = self._build_application()

    def _build_application(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route

        routes = [
            Route("/", self._serve_file, methods=["GET"]),
            Route("/page/{file}", self._serve_file, methods=["GET"]),
            Route("/api/openapi.json", _serve_openapi, methods=["GET"]),
            Route("/api/watched", self._serve_watched, methods=["GET"]),
            Route("/api/tasks", _serve_tasks, methods=["GET"]),
            *(Route(f"/api/{name}", self._build_handler(each), methods=["POST"]) for name, each in OPERATIONS.items()),
        ]
        handlers: dict[Any, Any] = {
            RequestDeclined: _respond_declined,
            HTTPException: _respond_http_error,
            Exception: _respond_internal_error,
        }
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        self._pool.start()
        # Code snippets need the names of all mechanisms; loading them in the background does not delay the first
        # answer.
        loading = asyncio.create_task(asyncio.to_thread(catalogue.all_mechanisms))
        try:
            yield
        finally:
            await loading
            await self._pool.stop()

    async def _serve_file(self, request: Request) -> Response:
        from starlette.responses import FileResponse

        path = PAGE_DIRECTORY / request.path_params.get("file", "index.html")
        if path.parent != PAGE_DIRECTORY or path.suffix not in MEDIA_TYPES or not path.is_file():
            raise RequestDeclined(404, NOT_FOUND_MESSAGE)
        return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=NO_CACHE_HEADERS)

    async def _serve_watched(self, _: Request) -> Response:
        from starlette.responses import Response

        watched = await asyncio.to_thread(
            lambda: [watched_directories.describe_directory(each) for each in self._watch]
        )
        return Response(format_json({"watched": watched}), media_type="application/json", headers=NO_STORE_HEADERS)

    def _build_handler(self, operation: Operation) -> Any:
        async def handle(request: Request) -> Response:
            from starlette.responses import Response, StreamingResponse

            values = await _read_body(request, operation)
            try:
                command = operation.build_request(values)
            except ValueError as error:
                raise RequestDeclined(422, str(error)) from None
            if NDJSON_MEDIA_TYPE in request.headers.get("accept", ""):
                lines = self._stream_lines(operation, command, values, _wait_for_disconnect(request))
                return StreamingResponse(lines, media_type=NDJSON_MEDIA_TYPE, headers=NO_STORE_HEADERS)
            content = await self._answer(operation, command, values)
            return Response(content, media_type="application/json", headers=NO_STORE_HEADERS)

        return handle

    async def _answer(
        self,
        operation: Operation,
        command: CommandRequest,
        values: Mapping[str, Any],
        listener: ProgressListener = lambda line: None,
    ) -> bytes:
        """Returns the answer as JSON, from the cache if the same request was answered before."""
        key = json.dumps([operation.name, values], sort_keys=True)
        if key in self._cached_answers:
            self._cached_answers.move_to_end(key)
            return self._cached_answers[key]
        try:
            answer = await self._pool.queue(operation.is_long).ask(command, listener)
        except Busy:
            raise RequestDeclined(503, BUSY_MESSAGE) from None
        except OverBudget as error:
            raise RequestDeclined(422, str(error)) from None
        if "refused" in answer:
            raise RequestDeclined(422, answer["refused"])
        python = snippets.format_python(operation.name, values)
        content = format_json({"command": snippets.format_command(command), "python": python, **answer}).encode()
        if len(content) <= MAX_CACHED_BYTES:
            self._cached_answers[key] = content
            if len(self._cached_answers) > MAX_CACHED_ANSWERS:
                self._cached_answers.popitem(last=False)
        return content

    async def _stream_lines(
        self, operation: Operation, command: CommandRequest, values: Mapping[str, Any],
        disconnect: Coroutine[Any, Any, None],
    ) -> AsyncIterator[bytes]:  # fmt: skip
        """Yields progress and early results as JSON lines, then the answer; a disconnect cancels the work."""
        queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        work = asyncio.create_task(self._answer(operation, command, values, queue.put_nowait))
        work.add_done_callback(lambda _: queue.put_nowait({}))
        # Watched separately, because a disconnect would otherwise be noticed only at the next line.
        departure = asyncio.create_task(disconnect)
        departure.add_done_callback(lambda _: work.cancel())
        try:
            while line := await queue.get():
                yield json.dumps(line, ensure_ascii=False).encode() + b"\n"
            if work.cancelled():
                return
            try:
                yield await work + b"\n"
            except RequestDeclined as declined:
                yield json.dumps({"error": declined.message, "status": declined.status}).encode() + b"\n"
        finally:
            work.cancel()
            departure.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    """Waits until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_body(request: Request, operation: Operation) -> Any:
    """Reads the JSON body of a request, up to the permitted size."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RequestDeclined(415, f"{operation.name}: expected a body of type application/json.")
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            async for piece in request.stream():
                content += piece
                if len(content) > MAX_REQUEST_BYTES:
                    raise RequestDeclined(
                        413,
                        f"{operation.name}: a request may have {MAX_REQUEST_BYTES >> 20} MB; run the command in "
                        f"a terminal.",
                    )
    except TimeoutError:
        raise RequestDeclined(408, f"{operation.name}: the request did not arrive completely in time.") from None
    try:
        return json.loads(bytes(content), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise RequestDeclined(
            400, f"{operation.name}: expected JSON, got something else, or nested too deeply."
        ) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


async def _serve_openapi(_: Request) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(OPENAPI_DOCUMENT, headers=NO_CACHE_HEADERS)


async def _serve_tasks(_: Request) -> Response:
    """Lists the tasks that can be planned for, and the options of each."""
    from starlette.responses import JSONResponse

    tasks = [{"name": kind.command_name(), "takes": list(kind.accepted_options)} for kind in TASKS]
    return JSONResponse({"tasks": tasks, "questions": list(QUESTION_TASK_NAMES)}, headers=NO_CACHE_HEADERS)


async def _respond_declined(_: Request, declined: RequestDeclined) -> Response:
    from starlette.responses import JSONResponse

    headers = {503: {"retry-after": "1"}, 408: CLOSE_HEADERS, 413: CLOSE_HEADERS}.get(declined.status, {})
    return JSONResponse({"error": declined.message}, declined.status, headers=NO_STORE_HEADERS | headers)


async def _respond_internal_error(request: Request, error: Exception) -> Response:
    """Reports an internal error on the server's stderr, without the contents of the request."""
    from starlette.responses import JSONResponse

    print(
        f"shuffledp: web: {escape_line(request.url.path)} failed ({type(error).__name__}).", file=sys.stderr, flush=True
    )
    return JSONResponse({"error": "web: this failed, which is a bug of shuffledp; please report it."}, 500)


async def _respond_http_error(_: Request, error: Any) -> Response:
    from starlette.responses import JSONResponse

    message = NOT_FOUND_MESSAGE if error.status_code == 404 else f"web: {error.detail}."
    return JSONResponse({"error": message}, error.status_code, headers=NO_STORE_HEADERS | dict(error.headers or {}))


# --- Running the server ---


LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 16
MAX_CONNECTIONS = 2000
KEEP_ALIVE_SECONDS, STOP_SECONDS = 30, 2


def bind_socket(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 takes a free port."""
    if not 0 <= port <= 65535:
        raise InvalidArgument("web", "must be between 0 and 65535", got=str(port), parameter=Argument("port"))
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Clients may connect before the server is loaded.
        listener.listen(MAX_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise ValueError(f"web: cannot listen at {host}:{port}: {error.strerror or error}.") from None
    return listener


def host_headers(host: str, port: int) -> list[str]:
    """Returns the Host headers under which a browser may reach this server; loopback has several names."""
    names = {host, "localhost", LOOPBACK} if host in (LOOPBACK, "::1") else {host}
    return [f"{_bracket(name)}:{port}" for name in sorted(names)]


def _bracket(host: str) -> str:
    """Returns a host as addresses write it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def serve_page(
    host: str = LOOPBACK,
    port: int = 0,
    *,
    watch: Sequence[Path] = (),
    ready: Callable[[str], None] | None = None,
    entered: Callable[[], None] | None = None,
) -> None:
    """Serves the page until it is stopped.

    ``ready`` is called with the page's address, whose path contains this run's secret; ``entered`` at the first request
    with the secret.
    """
    import uvicorn

    for directory in watch:
        if not directory.is_dir():
            expected = "must be a directory of `collect` or of a shuffler"
            raise InvalidArgument("web", expected, got=repr(str(directory)), parameter=Argument("watch"))
    listening = bind_socket(host, port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(TOKEN_BYTES)
    application = AccessControl(Explorer(watch=watch).application, token, host_headers(host, port), entered)
    if ready is not None:
        ready(f"http://{_bracket(host)}:{port}/{token}/")
    # Requests are not logged, because their addresses contain the secret. Connections cut off by Ctrl-C are not errors;
    # the explorer reports internal errors itself.
    config = uvicorn.Config(
        application, access_log=False, log_level="critical", server_header=False, proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def redirect_file(address: str) -> Iterator[Path]:
    """Writes a file, readable by its owner only, that redirects a browser to the address; deletes it at exit.

    The browser is started with this file's name, because every user of the machine can read a process's arguments.
    """
    url = escape(address)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={url}"><title>shuffledp</title></head>\n'
        f'<body><p><a href="{url}">Open the page.</a></p></body></html>\n'
    )
    with tempfile.TemporaryDirectory(prefix="shuffledp-page-", ignore_cleanup_errors=True) as directory:
        path = Path(directory) / "open.html"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(page)
        yield path
