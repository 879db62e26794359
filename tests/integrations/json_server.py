"""A server that has RedisJSON, as far as reading a database of langgraph-checkpoint-redis goes.

The module itself cannot be had from PyPI. This is a server on loopback that speaks Redis' protocol
and answers from documents of a test: `SCAN` in small pages, with keys that come twice, as it is
allowed to; `JSON.GET` with one path or several; `PTTL`. Everything else is an unknown command, so
that a test shows which commands a reader needs.
"""

from __future__ import annotations

import json
import re
import socketserver
import threading
from collections.abc import Callable
from typing import Any

PAGE = 7
"""Keys in one answer of SCAN."""


class JsonServer:
    """`documents` by their keys; a value that is bytes is a key of another type. `commands` are the
    names that were asked for."""

    def __init__(self, documents: dict[str, Any], *, modules: bool = True) -> None:
        self.documents = documents
        self.modules = modules
        self.expiry: dict[str, int] = {}
        """Key → milliseconds that it has left."""
        self.commands: set[str] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._server.server_address[1]}/0"

    def __enter__(self) -> JsonServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # -- commands

    def answer(self, name: str, given: list[str]) -> Any:
        """The reply to one command; an exception is an error of the server."""
        self.commands.add(name)
        found: dict[str, Callable[..., Any]] = {
            "CLIENT": lambda *_: "OK",
            "SELECT": lambda *_: "OK",
            "PING": lambda: "PONG",
            "SCAN": self._scan,
            "PTTL": lambda key: self.expiry.get(key, -1 if key in self.documents else -2),
        }
        if self.modules:
            found["JSON.GET"] = self._get
        if name not in found:
            raise ValueError(f"ERR unknown command '{name}', with args beginning with: ")
        return found[name](*given)

    def _scan(self, cursor: str, *options: str) -> list[Any]:
        given = dict(zip((name.upper() for name in options[::2]), options[1::2], strict=True))
        keys, at = sorted(self.documents), int(cursor)
        page = keys[at : at + PAGE]
        after = at + PAGE - 1 if len(page) == PAGE else 0  # the last key of a page comes again
        pattern = re.compile(_as_regex(given.get("MATCH", "*")), re.DOTALL)
        matching = [key for key in page if pattern.fullmatch(key)]
        return [str(after if after < len(keys) else 0), matching]

    def _get(self, key: str, *paths: str) -> str | None:
        if key not in self.documents:
            return None
        document = self.documents[key]
        if isinstance(document, bytes):
            raise ValueError("WRONGTYPE Operation against a key holding the wrong kind of value")
        found = {path: _at(document, path) for path in paths}
        return json.dumps(found[paths[0]] if len(paths) == 1 else found)


def _as_regex(pattern: str) -> str:
    """A pattern of Redis', in which a backslash takes the meaning from what follows."""
    parts = re.findall(r"\\.|.", pattern)
    return "".join({"*": ".*", "?": "."}.get(one, re.escape(one[-1])) for one in parts)


def _at(document: Any, path: str) -> list[Any]:
    """What a plain path such as `$.checkpoint.id` leads to: nothing, or one value."""
    root, *names = path.split(".")
    assert root == "$"
    for name in names:
        if not isinstance(document, dict) or name not in document:
            return []
        document = document[name]
    return [document]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    owner: JsonServer


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while line := self.rfile.readline():
            name, *given = [self._part() for _ in range(int(line[1:]))]
            assert isinstance(self.server, _Server)
            try:
                reply = _encoded(self.server.owner.answer(name.upper(), given))
            except ValueError as error:
                reply = f"-{error}\r\n".encode()
            self.wfile.write(reply)

    def _part(self) -> str:
        size = int(self.rfile.readline()[1:])
        return self.rfile.read(size + 2)[:-2].decode()


def _encoded(reply: Any) -> bytes:
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, list):
        return b"*%d\r\n" % len(reply) + b"".join(map(_encoded, reply))
    body = str(reply).encode()
    return b"$%d\r\n%s\r\n" % (len(body), body)
