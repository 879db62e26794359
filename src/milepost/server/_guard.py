"""Checks of every request: host, origin, token, and size of the body.

A page on another site can make a browser send requests to this machine. Three checks keep it out,
each enough for the attack that it is about:

* `Host` must be an address, `localhost` or a name that was allowed: a name that an attacker points
  at 127.0.0.1 (DNS rebinding) is none of these.
* `Origin`, if there is one, must be that host or an allowed origin; and a change that is asked for
  with the cookie alone must carry one, as browsers do (request forgery).
* The token is asked for in any case: in the URL of the page once, which makes it a cookie that
  scripts cannot read and other sites cannot send; in `Authorization` or `x-api-key` elsewhere.
"""

from __future__ import annotations

import hmac
import re
import uuid
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass
from html import escape
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from milepost.server._errors import HttpError
from milepost.server._routing import error_response, path_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN: Final = frozenset({"/ok", "/info"})
"""Paths that need no token: clients ask there first whether a server runs."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
ALLOWED: Final = "authorization, content-type, last-event-id, prefer, x-api-key, x-auth-scheme"
EXPOSED: Final = "Content-Location, Location, X-Pagination-Total, X-Pagination-Next, x-request-id"


@dataclass(frozen=True, slots=True)
class Rules:
    """Which requests are let through."""

    token: str | None
    """None lets in every request that passes the other checks."""
    hosts: Collection[str]
    """Names besides `localhost` under which the server is reached."""
    origins: Collection[str]
    """Other origins whose pages may call the API; "*" for all, which the token still guards."""
    max_body: int
    """How many bytes a request may have."""

    def __post_init__(self) -> None:
        if self.token is not None and not is_token(self.token):
            raise ValueError("token must be one word of printable ASCII; None lets everyone in.")


class Guard:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._hosts = {_host_name(host) or host.lower() for host in rules.hosts}
        self._origins = {origin.rstrip("/").lower() for origin in rules.origins}
        self._token = None if rules.token is None else rules.token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a WebSocket: refused, since no route uses one
        headers = Headers(scope=scope)
        send = _with_headers(send, self._cors(headers.get("origin")))
        app: ASGIApp
        try:
            app = self._check(scope, headers) or self._app
            receive = _bounded(receive, headers, self._rules.max_body)
        except HttpError as error:
            app = error_response(error)
        await app(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers) -> Response | None:
        """Raise for a request that may not come in; return the answer of one that ends here."""
        if len(headers.getlist("host")) != 1:
            raise HttpError(400, "A request names one host.")
        host = headers["host"]
        if not self._is_our_host(host):
            raise HttpError(
                403, f"This server is not reached as '{host[:200]}'. To allow it: --allow-host."
            )
        origin = headers.get("origin")
        if origin is not None and not self._may_call(origin, host):
            raise HttpError(403, f"Pages of '{origin[:200]}' may not call this server.")
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            return Response(status_code=204)
        if self._token is None or path_of(scope) in OPEN:
            return None
        if self._in_headers(headers):
            return None
        if self._in_cookie(scope, headers):
            self._check_forgery(scope, headers)
            return None
        return self._welcome(scope)

    def _is_our_host(self, host: str) -> bool:
        name = _host_name(host)
        return name is not None and (name == "localhost" or name in self._hosts or is_address(name))

    def _may_call(self, origin: str, host: str) -> bool:
        if self._is_allowed(origin):
            return True
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()

    def _is_allowed(self, origin: str) -> bool:
        """Whether another origin was allowed."""
        return "*" in self._origins or origin.lower() in self._origins

    def _cors(self, origin: str | None) -> dict[str, str]:
        """What lets pages of other origins read answers, if that was asked for."""
        if origin is None or not self._is_allowed(origin):
            return {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
            "Access-Control-Allow-Headers": ALLOWED,
            "Access-Control-Expose-Headers": EXPOSED,
            "Cross-Origin-Resource-Policy": "cross-origin",
            "Vary": "Origin",
        }

    def _in_headers(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return True
        return self._is_token(headers.get("x-api-key", ""))

    def _in_cookie(self, scope: Scope, headers: Headers) -> bool:
        # Leniently: other programs on this machine set cookies for the same host.
        found = cookie_parser(headers.get("cookie", "")).get(_cookie_name(scope))
        return found is not None and self._is_token(found)

    def _is_token(self, given: str) -> bool:
        if self._token is None:
            return True
        return hmac.compare_digest(given.encode(errors="replace"), self._token)

    def _check_forgery(self, scope: Scope, headers: Headers) -> None:
        """Refuse requests of other sites: browsers, which have the cookie, name the site."""
        site = headers.get("sec-fetch-site", "same-origin")
        if site not in ("same-origin", "none") and path_of(scope) != "/":
            raise HttpError(403, "Pages of other sites may not call this server.")
        if scope["method"] not in SAFE_METHODS and "origin" not in headers:
            raise HttpError(403, "A change that the cookie authorizes needs an Origin header.")

    def _welcome(self, scope: Scope) -> Response:
        """The first visit, with the token in the URL; and visits without it."""
        is_page = path_of(scope) == "/" and scope["method"] == "GET"
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if is_page and given and self._is_token(given[-1]):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            target = escape(f"/?{rest}" if rest else "/")
            # A redirect would be part of a visit that perhaps began on another site, where the
            # cookie is not sent. This page goes on by itself, and takes the place of the token's
            # URL in the history.
            response = HTMLResponse(
                f'<!doctype html><meta charset="utf-8"><title>milepost</title>'
                f'<meta http-equiv="refresh" content="0;url={target}">'
            )
            response.set_cookie(
                _cookie_name(scope),
                given[-1],
                httponly=True,
                samesite="strict",
                secure=scope.get("scheme") == "https",
            )
            return response
        if is_page:
            return PlainTextResponse(
                "Open the address that `milepost ui` printed: it has the token.\n", status_code=401
            )
        raise HttpError(401, "A token is needed: Authorization: Bearer TOKEN, or x-api-key: TOKEN.")


def is_token(text: str) -> bool:
    """Whether a text can be sent as a token."""
    return re.fullmatch("[!-~]+", text) is not None


def _host_name(host: str) -> str | None:
    """The name in a Host header, without the port; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    if parts.netloc != host or "@" in host:
        return None
    return parts.hostname


def is_address(name: str) -> bool:
    """Whether a host is named by its IP address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _cookie_name(scope: Scope) -> str:
    """Cookies do not know ports, and several servers may run on this machine."""
    server = scope.get("server")
    return f"milepost-{server[1] if server else 0}"


def _bounded(receive: Receive, headers: Headers, limit: int) -> Receive:
    """The body, unless it is too large."""
    too_large = HttpError(413, f"A request may have {limit:,} bytes.")
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or int(length) > limit:
        raise too_large
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise too_large
        return message

    return bounded


def _with_headers(send: Send, more: Mapping[str, str]) -> Send:
    wanted = {**HEADERS, **more, "x-request-id": str(uuid.uuid4())}

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.setdefault("Cache-Control", "no-store")
            headers.update(wanted)
        await send(message)

    return sending
