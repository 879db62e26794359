"""Threads of a database over HTTP: the Agent Server's API, and a page to look at them.

`create_app` makes an ASGI application, `milepost ui` runs it. Needs `pip install 'milepost[ui]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    from milepost.server._app import create_app
    from milepost.server._server import Limits

__all__ = ["Limits", "create_app"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from milepost.server import _app, _server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("milepost", ""):
            raise
        raise MissingDependencyError(
            f"milepost.server needs {error.name}: pip install 'milepost[ui]'"
        ) from error
    return {"create_app": _app.create_app, "Limits": _server.Limits}[name]
