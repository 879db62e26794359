"""Who may ask, from where, and how much."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from serving import TOKEN, Running, asking_graph, serving

from milepost.checkpoint.memory import InMemorySaver

WRITES = (
    ("POST", "/threads", {}),
    ("PATCH", "/threads/t", {"metadata": {}}),
    ("DELETE", "/threads/t", None),
    ("POST", "/threads/t/copy", None),
    ("POST", "/threads/prune", {"thread_ids": ["t"]}),
    ("POST", "/threads/t/state", {"values": {}}),
    ("PUT", "/store/items", {"namespace": ["a"], "key": "k", "value": {}}),
    ("DELETE", "/store/items", {"namespace": ["a"], "key": "k"}),
    ("POST", "/assistants", {"graph_id": "asking"}),
    ("PATCH", "/assistants/asking", {}),
    ("DELETE", "/assistants/asking", None),
    ("POST", "/assistants/asking/latest", {"version": 1}),
    ("POST", "/milepost/threads/t/run", {"graph_id": "asking"}),
    ("POST", "/milepost/threads/t/cancel", None),
)


@pytest.fixture(scope="module")
def reading() -> Iterator[Running]:
    """A server that only reads."""
    with serving(InMemorySaver(), graphs={"asking": asking_graph()}) as running:
        yield running


@pytest.fixture(scope="module")
def writing() -> Iterator[Running]:
    """A server that may write and takes small bodies."""
    graphs = {"asking": asking_graph()}
    with serving(InMemorySaver(), graphs=graphs, write=True, max_body=2000) as running:
        yield running


@contextmanager
def visit(running: Running) -> Iterator[httpx.Client]:
    """A browser that has opened the printed address."""
    with running.stranger() as browser:
        browser.get("/", params={"token": TOKEN})
        yield browser


# -- the token


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": "wrong"},
        {"x-api-key": TOKEN + "x"},
        {"x-api-key": ""},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"cookie": "milepost-1=" + TOKEN},
    ],
)
def test_without_the_token_nothing_is_told(reading: Running, headers: dict[str, str]) -> None:
    with reading.stranger(headers=headers) as client:
        for path in ("/milepost/info", "/threads/t", "/openapi.json", "/nothing", "/assets/x.js"):
            answer = client.get(path)
            assert answer.status_code == 401, path
            assert answer.json() == {
                "detail": "A token is needed: Authorization: Bearer TOKEN, or x-api-key: TOKEN."
            }
        assert client.post("/threads/search", json={}).status_code == 401
        page = client.get("/")
        assert page.status_code == 401
        assert "milepost ui" in page.text


@pytest.mark.parametrize(
    "headers",
    [
        {"x-api-key": TOKEN},
        {"authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer {TOKEN}"},
    ],
)
def test_the_token_is_taken_from_either_header(reading: Running, headers: dict[str, str]) -> None:
    with reading.stranger(headers=headers) as client:
        assert client.get("/milepost/info").status_code == 200


def test_what_clients_ask_first_needs_no_token(reading: Running) -> None:
    with reading.stranger() as client:
        assert client.get("/ok").json() == {"ok": True}
        assert client.get("/ok", params={"check_db": True}).json() == {"ok": True}
        assert client.get("/info").json()["metadata"] == {"server": "milepost"}


def test_the_first_visit_makes_the_token_a_cookie_that_scripts_cannot_read(
    reading: Running,
) -> None:
    with reading.stranger() as browser:
        first = browser.get("/", params={"token": TOKEN, "thread": "<a&b>"})
        assert first.status_code == 200
        assert TOKEN not in first.text
        assert 'content="0;url=/?thread=%3Ca%26b%3E"' in first.text
        cookie = first.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert cookie.startswith(f"milepost-{reading.port}=")
        assert browser.get("/").status_code == 200
        assert browser.get("/milepost/info").status_code == 200


def test_a_wrong_token_in_the_address_sets_no_cookie(reading: Running) -> None:
    with reading.stranger() as browser:
        answer = browser.get("/", params={"token": "wrong"})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers


def test_the_token_in_an_address_opens_the_page_alone(reading: Running) -> None:
    with reading.stranger() as browser:
        assert browser.get("/milepost/info", params={"token": TOKEN}).status_code == 401
        assert browser.post("/", params={"token": TOKEN}).status_code == 401


def test_cookies_of_other_programs_do_not_lock_the_page_out(reading: Running) -> None:
    ours = f"milepost-{reading.port}={TOKEN}"
    with reading.stranger(headers={"cookie": f'a={{"b": [1]}}; x y=z; {ours}; ="'}) as browser:
        assert browser.get("/milepost/info").status_code == 200


@pytest.mark.parametrize("token", ["", "two words", "\n", "ü"])
def test_a_token_that_guards_nothing_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        serving(InMemorySaver(), token=token).__enter__()


def test_a_path_in_disguise_needs_the_token_too(reading: Running) -> None:
    with reading.stranger() as client:
        for path in ("/%6fk", "/ok/", "//ok", "/ok/../milepost/info", "/info%2f"):
            request = client.build_request("GET", "/")
            request.url = request.url.copy_with(raw_path=path.encode())
            assert client.send(request).status_code == 401, path


# -- where a request comes from


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "evil.example@127.0.0.1",
        "localhost:99999999",
        "127.0.0.1:x",
        "",
        "localhost/../x",
    ],
)
def test_a_name_that_was_not_allowed_is_refused(reading: Running, host: str) -> None:
    with reading.client(headers={"host": host}) as client:
        for path in ("/", "/ok", "/milepost/info"):
            assert client.get(path).status_code in (400, 403), path


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1234", "127.0.0.1", "[::1]:80", "LOCALHOST"]
)
def test_this_machine_is_reached_by_its_usual_names(reading: Running, host: str) -> None:
    with reading.client(headers={"host": host}) as client:
        assert client.get("/milepost/info").status_code == 200


def test_two_hosts_are_refused(reading: Running) -> None:
    sent = "GET /ok HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    with socket.create_connection(("127.0.0.1", reading.port), timeout=10) as connection:
        connection.sendall(sent.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "file://"]
)
def test_pages_of_other_origins_may_not_call(writing: Running, origin: str) -> None:
    with writing.client(headers={"origin": origin}) as client, visit(writing) as browser:
        for one in (client, browser):
            answer = one.post("/threads", json={}, headers={"origin": origin})
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
        preflight = client.options("/threads", headers={"access-control-request-method": "POST"})
        assert preflight.status_code == 403


def test_the_cookie_alone_changes_nothing_without_an_origin(writing: Running) -> None:
    with visit(writing) as browser:
        assert browser.post("/threads", json={}).status_code == 403
        ours = {"origin": writing.url}
        assert browser.post("/threads", json={}, headers=ours).status_code == 200
        for site in ("cross-site", "same-site"):
            there = {**ours, "sec-fetch-site": site}
            assert browser.post("/threads", json={}, headers=there).status_code == 403
            assert browser.get("/milepost/info", headers=there).status_code == 403


def test_an_origin_is_allowed_by_name() -> None:
    origin = "https://studio.example"
    with (
        serving(InMemorySaver(), origins=[f"{origin}/"], hosts=["box.example:80"]) as running,
        running.stranger(headers={"origin": origin}) as client,
    ):
        wanted = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "x-api-key",
        }
        preflight = client.options("/threads/search", headers=wanted)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == origin
        allowed = preflight.headers["access-control-allow-headers"].split(", ")
        assert {"x-api-key", "x-auth-scheme", "last-event-id"} <= set(allowed)
        assert "access-control-allow-credentials" not in preflight.headers
        assert client.post("/threads/search", json={}).status_code == 401
        named = {"x-api-key": TOKEN, "host": "box.example:80"}
        answer = client.post("/threads/search", json={}, headers=named)
        assert answer.status_code == 200
        assert "X-Pagination-Total" in answer.headers["access-control-expose-headers"]
        other = client.get("/ok", headers={"origin": "https://studio.example.evil.example"})
        assert other.status_code == 403


def test_answers_forbid_scripts_frames_and_guessing(reading: Running) -> None:
    with reading.client() as client:
        for path in ("/", "/ok", "/nothing", "/milepost/threads/%3Cscript%3E", "/threads/x"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["x-request-id"]
        assert client.get("/milepost/info").headers["cache-control"] == "no-store"
        hostile = client.get("/milepost/threads/%3Cscript%3E")
        assert hostile.headers["content-type"] == "application/json"


# -- how much, and what


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_a_server_that_reads_changes_nothing(
    reading: Running, method: str, path: str, body: Any
) -> None:
    with reading.client() as client:
        answer = client.request(method, path, json=body)
    assert answer.status_code == 403
    assert "--write" in answer.json()["detail"]


def test_every_route_that_writes_is_tried_above(reading: Running) -> None:
    operations = reading.app.state.server.operations
    shapes = {(one.method, len(one.path.split("/"))) for one in operations if one.writes}
    tried = {(method, len(path.split("/"))) for method, path, _ in WRITES}
    assert shapes == tried
    assert len([one for one in operations if one.writes]) == len(WRITES)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(writing: Running) -> None:
    large = {"metadata": {"x": "y" * 3000}}
    with writing.client() as client:
        assert client.post("/threads", json=large).status_code == 413
        chunks = (b'{"metadata":', b'{"x": "', b"y" * 3000, b'"}}')
        assert client.post("/threads", content=iter(chunks)).status_code == 413
        assert client.post("/threads", json={"metadata": {"x": "y"}}).status_code == 200


@pytest.mark.parametrize(
    "content", [b"{", b"[1]", b"7", b"\xff", b'{"a": NaN}', b"[" * 900, b'"x"']
)
def test_a_body_that_is_no_object_is_refused(writing: Running, content: bytes) -> None:
    with writing.client() as client:
        assert client.post("/threads/search", content=content).status_code in (400, 422)


def test_what_is_nested_deeply_is_refused_or_answered(writing: Running) -> None:
    deep: Any = 1
    for _ in range(280):
        deep = {"a": deep}
    with writing.client() as client:
        made = client.post("/threads", json={"metadata": deep})
        assert made.status_code in (200, 422)
        found = client.post("/threads/search", json={"metadata": deep})
        assert found.status_code in (200, 422)


def test_a_body_that_says_it_is_too_large_is_not_waited_for(writing: Running) -> None:
    sent = (
        "POST /threads HTTP/1.1\r\nHost: localhost\r\n"
        f"x-api-key: {TOKEN}\r\nContent-Length: 99999999\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", writing.port), timeout=10) as connection:
        connection.sendall(sent.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_may_be_called_text(writing: Running) -> None:
    with writing.client() as client:
        plain = {"content-type": "text/plain"}
        assert client.post(
            "/threads/count", content=b'{"status": "idle"}', headers=plain
        ).is_success


def test_a_field_that_nobody_knows_is_refused_if_it_says_something(writing: Running) -> None:
    with writing.client() as client:
        for nothing in (None, False, "", [], {}):
            answer = client.post("/threads/search", json={"newer": nothing})
            assert answer.status_code == 200, nothing
        for something in (True, 0, "x", [1]):
            answer = client.post("/threads/search", json={"newer": something})
            assert answer.status_code == 422, something
            assert "newer" in answer.json()["detail"]
        assert client.get("/ok", params={"newer": "x"}).status_code == 422
        assert client.get("/ok", params={"check_db": ""}).status_code == 200


def test_a_path_that_leads_out_of_the_page_finds_nothing(reading: Running) -> None:
    with reading.client() as client:
        for path in ("/../pyproject.toml", "/%2e%2e/_app.py", "/_app.py", "/assets/../../_app.py"):
            request = client.build_request("GET", "/")
            request.url = request.url.copy_with(raw_path=path.encode())
            assert client.send(request).status_code == 404


def test_a_method_that_a_path_has_not_is_refused(reading: Running) -> None:
    with reading.client() as client:
        assert client.put("/threads/search", json={}).status_code == 405
        assert client.delete("/milepost/info").status_code == 405


def test_a_server_without_a_token_still_checks_where_requests_come_from() -> None:
    with serving(InMemorySaver(), token=None) as running, running.stranger() as client:
        assert client.get("/milepost/info").status_code == 200
        assert client.get("/milepost/info", headers={"host": "evil.example"}).status_code == 403
        there = {"origin": "https://evil.example"}
        assert client.post("/threads/search", json={}, headers=there).status_code == 403
