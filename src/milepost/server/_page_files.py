"""The page: files that were built before, sent as they are."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

FOLDER: Final = Path(__file__).parent / "_page"
NOT_BUILT: Final = (
    "The API answers, and the page is not part of this installation: its files are missing from "
    "milepost/server/_page. /openapi.json describes the API.\n"
)
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class PageFiles(BaseRoute):
    """`/`, and the files that it names.

    Paths are looked up in a list that was made at the start, so that no path leads elsewhere.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {
            f"/{file.relative_to(folder).as_posix()}": file
            for file in sorted(folder.rglob("*"))
            if file.is_file() and not file.name.startswith(".")
        }
        self._index = self._files.get("/index.html")

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for one of them."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return Match.NONE, {}
        known = scope["path"] == "/" or scope["path"] in self._files
        return (Match.FULL if known else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file."""
        response = self._response(Request(scope).url.path)
        await response(scope, receive, send)

    def _response(self, path: str) -> Response:
        file = self._index if path == "/" else self._files.get(path)
        if file is None:
            return PlainTextResponse(NOT_BUILT)
        kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0]
        # Names of assets carry a hash of what is in them.
        kept = "private, max-age=31536000, immutable" if "/assets/" in path else "no-cache"
        return FileResponse(file, media_type=kind, headers={"Cache-Control": kept})
