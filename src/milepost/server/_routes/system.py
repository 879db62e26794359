"""What a server says of itself."""

from __future__ import annotations

from typing import Any

import msgspec

from milepost import inspect
from milepost._internal.version import __version__
from milepost.server._openapi import document
from milepost.server._routing import Call, Empty, Routes

routes = Routes("System")


class OkQuery(msgspec.Struct, frozen=True):
    """`check_db` asks the database too."""

    check_db: bool = False


class Ok(msgspec.Struct):
    """All is well."""

    ok: bool


@routes.get("/ok")
def ok(call: Call[Empty, OkQuery]) -> Ok:
    """Whether the server answers."""
    if call.query.check_db:
        inspect.threads(call.server.database, limit=1)  # raises if it does not answer
    return Ok(True)


class Info(msgspec.Struct, kw_only=True):
    """What clients ask for before they start."""

    version: str
    langgraph_py_version: str
    flags: dict[str, bool]
    metadata: dict[str, Any]


@routes.get("/info")
def info(call: Call[Empty, Empty]) -> Info:
    """The server's version and what it can do."""
    return Info(
        version=__version__,
        langgraph_py_version="1.2",
        flags={
            "assistants": True,
            "crons": False,
            "langsmith": False,
            "runs": False,
            "write": call.server.write,
        },
        metadata={"server": "milepost"},
    )


@routes.get("/openapi.json")
def openapi(call: Call[Empty, Empty]) -> dict[str, Any]:
    """This API as an OpenAPI 3.1 document."""
    return document(call.server.operations)
