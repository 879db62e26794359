"""The application: routes, the page, and the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from milepost.inspect import Database, open_database
from milepost.server._errors import HttpError
from milepost.server._guard import Guard, Rules
from milepost.server._page_files import PageFiles
from milepost.server._routes import ALL
from milepost.server._routing import error_response
from milepost.server._server import Limits, Server

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver


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
    opened = open_database(database, write=write) if isinstance(database, str) else database
    if not isinstance(opened, Database):
        opened = Database.of(opened)
    operations = [operation for routes in ALL for operation in routes.operations]
    server = Server(
        opened, graphs or {}, write=write, limits=limits or Limits(), operations=operations
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await server.aclose()
            if isinstance(database, str):
                opened.close()

    app = Starlette(
        routes=[*operations, PageFiles()],
        middleware=[Middleware(Guard, rules)],
        exception_handlers={404: _no_such_path, HttpError: _failed},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.server = server
    return app


async def _no_such_path(request: Request, error: Exception) -> Response:
    del error
    return error_response(HttpError(404, f"There is nothing at {request.url.path}."))


async def _failed(request: Request, error: Exception) -> Response:
    del request
    return error_response(error)
