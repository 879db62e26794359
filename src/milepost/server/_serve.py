"""Runs the application with uvicorn, on a socket of this machine."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from milepost.errors import MilepostError

if TYPE_CHECKING:
    from starlette.applications import Starlette

PORT: Final = 2024
"""The port that clients of an Agent Server use by default."""


def bind(host: str, port: int | None) -> socket.socket:
    """A socket that listens; without a port, on the usual one or a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (PORT, 0) if port is None else (port,):
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, wanted))
            made.listen(128)
        except (OSError, OverflowError) as error:
            made.close()
            taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            if taken and port is None and wanted:
                continue
            raise MilepostError(f"{host}:{wanted} cannot be listened on: {error}.") from error
        return made
    raise AssertionError("a free port is not taken")


def address_of(listening: socket.socket, host: str) -> str:
    """The address of a server, as a browser on this machine reaches it."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{listening.getsockname()[1]}"


class UiServer(uvicorn.Server):
    """A server that ends the streams that are open when it is asked to stop."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,  # its lines would contain the token of the first visit
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                timeout_graceful_shutdown=5,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, then wait for other requests."""
        self._app.state.server.streams.close()
        await super().shutdown(sockets)


def serve(app: Any, listening: socket.socket, runner: asyncio.Runner) -> None:
    """Answer requests until Ctrl-C, on the loop of the graphs that async functions have made."""
    # Ctrl-C is the way to stop it.
    with closing(listening), suppress(KeyboardInterrupt):
        runner.run(UiServer(app).serve(sockets=[listening]))
