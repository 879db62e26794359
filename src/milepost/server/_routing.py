"""Routes: a function that takes a `Call` and returns a record.

    routes = Routes("Threads")

    @routes.get("/threads/{thread_id}")
    def get_thread(call: Call[Empty, ThreadQuery]) -> Thread:
        '''Get a thread.'''

The annotation says what body and what query the route takes, the return type what it answers: from
them come validation and the OpenAPI document. A plain function runs on a thread of its own, since
it reads databases; a coroutine function runs on the event loop.

Paths are matched before they are decoded, so that an id may contain a slash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    get_type_hints,
)
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, compile_path

from milepost._internal import log
from milepost.server._errors import HttpError, as_http_error, refused
from milepost.server._json import convert, decode, encode
from milepost.server._sse import EventStream

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from milepost.server._server import Server

JSON: Final = "application/json"


class Empty(msgspec.Struct, frozen=True):
    """A body or a query without fields."""


Body = TypeVar("Body", bound=msgspec.Struct)
Query = TypeVar("Query", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Call(Generic[Body, Query]):
    """One request, read and checked."""

    server: Server
    path: dict[str, str]
    body: Body
    query: Query
    request: Request

    @property
    def thread_id(self) -> str:
        """The thread that the path names."""
        return self.path["thread_id"]


Handler = Callable[[Call[Any, Any]], Any]
H = TypeVar("H", bound=Handler)


def list_response(
    records: Iterable[object], limit: int, total: int | None = None, offset: int = 0
) -> Response:
    """A list of records; a refusal if they take more bytes than `limit`.

    If the list is a part of `total` records, the headers say where the next part begins.
    """
    encoded: list[bytes] = []
    size = 0
    for record in records:
        encoded.append(encode(record))
        size += len(encoded[-1])
        if size > limit:
            raise refused(
                f"The answer takes more than {limit:,} bytes. Ask for fewer with limit, or for "
                "some fields with select."
            )
    headers: dict[str, str] = {}
    if total is not None:
        headers["X-Pagination-Total"] = str(total)
        following = offset + len(encoded)
        if encoded and following < total:
            headers["X-Pagination-Next"] = str(following)
    return Response(b"[%s]" % b",".join(encoded), media_type=JSON, headers=headers)


class RouteOptions(TypedDict, total=False):
    """The options of a route."""

    writes: bool
    """Whether it changes anything: refused unless the server may write."""
    status: int
    """Of a success; 200 by default."""
    answer: Any
    """What it answers, where the function returns a response of its own."""
    is_partial: bool
    """Whether the client may ask for some fields of the answer only."""


class Operation(BaseRoute):
    """A method of a path, and the function that answers it."""

    def __init__(
        self, method: str, path: str, handler: Handler, tag: str, **options: Unpack[RouteOptions]
    ) -> None:
        self.method = method
        self.path = path
        self.handler = handler
        self.tag = tag
        self.writes = options.get("writes", False)
        self.status = options.get("status", 200)
        self.is_partial = options.get("is_partial", False)
        hints = get_type_hints(handler)
        self.body, self.query = cast(
            "tuple[type[msgspec.Struct], type[msgspec.Struct]]", get_args(hints["call"])
        )
        self.answer: Any = options.get("answer") or hints["return"]
        self.streams = hints["return"] is EventStream
        self._pattern = compile_path(path)[0]
        self._lists = {
            field.encode_name
            for field in msgspec.structs.fields(self.query)
            if "list[" in str(field.type)
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether this is the route of a request."""
        if scope["type"] != "http":
            return Match.NONE, {}
        found = self._pattern.match(path_of(scope))
        if found is None:
            return Match.NONE, {}
        match = Match.FULL if scope["method"] == self.method else Match.PARTIAL
        return match, {"path_params": found.groupdict()}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive, send)
        try:
            response = await self._answer(request)
        except Exception as error:
            known = as_http_error(error)
            if known is None:
                failed = "The request %s %s has failed: %s."
                log.warning(log.SERVER, failed, self.method, self.path, error)
                known = HttpError(500, f"The server failed with {type(error).__name__}.")
            response = error_response(known)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        server = cast("Server", request.app.state.server)
        if request.method != self.method:
            raise HttpError(405, f"{request.method} is no method of {self.path}.")
        if self.writes and not server.write:
            raise HttpError(
                403, "This server only reads. Start it with --write (create_app(write=True))."
            )
        call = Call(
            server,
            _decoded(request.scope["path_params"]),
            await self._read_body(request),
            self._read_query(request),
            request,
        )
        if iscoroutinefunction(self.handler):
            answer = await cast("Awaitable[Any]", self.handler(call))
        else:
            answer = await run_in_threadpool(self.handler, call)
        return self._respond(answer)

    async def _read_body(self, request: Request) -> msgspec.Struct:
        data = b"" if self.body is Empty else await request.body()
        given = decode(data) if data.strip() else {}
        if not isinstance(given, dict):
            raise refused("The body must be a JSON object.")
        return convert(given, self.body, "field")

    def _read_query(self, request: Request) -> msgspec.Struct:
        given: dict[str, Any] = {}
        for name, value in request.query_params.multi_items():
            if name in self._lists:
                given.setdefault(name, []).append(value)
            elif value != "":  # the way in which clients send nothing
                given[name] = value
        return convert(given, self.query, "query parameter", strict=False)

    def _respond(self, answer: Any) -> Response:
        if isinstance(answer, Response):
            return answer
        if self.status == 204:
            return Response(status_code=204)
        return Response(encode(answer), status_code=self.status, media_type=JSON)


def error_response(error: HttpError) -> Response:
    """The answer to an error."""
    return Response(encode({"detail": error.detail}), status_code=error.status, media_type=JSON)


class Routes:
    """The routes of one part of the API."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.operations: list[Operation] = []

    def route(self, method: str, path: str, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        """Let the function that follows answer this method of this path."""

        def add(handler: H) -> H:
            self.operations.append(Operation(method, path, handler, self.tag, **options))
            return handler

        return add

    def get(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self.route("GET", path, **options)


def path_of(scope: Scope) -> str:
    """The path as it was sent: routes are matched against it."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("ascii", "surrogateescape")


def _decoded(parameters: dict[str, str]) -> dict[str, str]:
    try:
        return {name: unquote_to_bytes(part).decode() for name, part in parameters.items()}
    except UnicodeError:
        raise refused("A part of the path is no percent-encoded UTF-8.") from None
