"""The application: routes, the page, and the guard around them."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match

from milepost.inspect import Database, open_database
from milepost.server._errors import HttpError
from milepost.server._guard import Guard, Rules
from milepost.server._routes import ALL
from milepost.server._routing import error_response
from milepost.server._server import Limits, Server

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from milepost.checkpoint.base import BaseCheckpointSaver

FOLDER: Final = Path(__file__).parent / "_page"
NOT_BUILT: Final = (
    "The API answers, and the page is not part of this installation: its files are missing from "
    "milepost/server/_page. /openapi.json describes the API.\n"
)
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def create_app(
    database: Database | BaseCheckpointSaver[Any] | str,
    *,
    token: str | None,
    graphs: Mapping[str, Any] | None = None,
    write: bool = False,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    max_body: int = 8 * 1024 * 1024,
    limits: Limits | None = None,
) -> Starlette:
    """An ASGI application that serves the threads of a database, and the page to look at them.

    Args:
        database: A database, a saver, or an address. The database is closed with the application if
            it was given by its address.
        token: What clients must know: one word; None lets in everyone who reaches the server, for
            one that is behind an authentication of its own.
        graphs: Compiled graphs by name: with `write` they can be run.
        write: Whether threads can be changed.
        hosts: Names besides `localhost` and addresses under which the server may be reached.
        origins: Other origins whose pages may call it.
        max_body: Bytes of a request.
        limits: How much one answer may hold.

    Examples:
        >>> import secrets
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.server import create_app
        >>> app = create_app(InMemorySaver(), token=secrets.token_urlsafe())
        >>> type(app).__name__  # uvicorn.run(app)
        'Starlette'
    """
    rules = Rules(token, hosts, origins, max_body)
    operations = [operation for routes in ALL for operation in routes.operations]
    with ExitStack() as on_error:
        if isinstance(database, str):
            opened = on_error.enter_context(open_database(database, write=write))
        else:
            opened = database if isinstance(database, Database) else Database.of(database)
        server = Server(
            opened, graphs or {}, write=write, limits=limits or Limits(), operations=operations
        )
        on_error.pop_all()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await server.runs.aclose()
            if isinstance(database, str):
                opened.close()

    app = Starlette(
        routes=[*operations, PageFiles()],
        middleware=[Middleware(Guard, rules)],
        exception_handlers={404: _no_such_path},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.server = server
    return app


async def _no_such_path(request: Request, error: Exception) -> Response:
    del error
    path = request.url.path
    hint = ""
    if "/runs" in path:
        hint = (
            " This server has no runs of the Agent Server's: POST /milepost/threads/{id}/run runs "
            "a graph, and the graph itself, where it is imported, with this database as its saver."
        )
    return error_response(HttpError(404, f"There is nothing at {path}.{hint}"))


class PageFiles(BaseRoute):
    """`/`, and the files that it names.

    Paths are looked up in a list that was made at the start, so that no path leads elsewhere.
    """

    def __init__(self) -> None:
        self._files = {
            f"/{file.relative_to(FOLDER).as_posix()}": file
            for file in sorted(FOLDER.rglob("*"))
            if file.is_file() and not file.name.startswith(".")
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for one of them."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return Match.NONE, {}
        known = scope["path"] == "/" or scope["path"] in self._files
        return (Match.FULL if known else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file."""
        path = Request(scope).url.path
        file = self._files.get("/index.html" if path == "/" else path)
        response: Response = PlainTextResponse(NOT_BUILT)
        if file is not None:
            kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0]
            # Names of assets carry a hash of what is in them.
            kept = "private, max-age=31536000, immutable" if "/assets/" in path else "no-cache"
            response = FileResponse(file, media_type=kind, headers={"Cache-Control": kept})
        await response(scope, receive, send)
