"""Programs on Redis: scripts, transactions where scripts are barred, lost connections, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("redis")
import redis

from milepost._db.redis.client import make_client
from milepost._db.redis.commands import (
    Pipeline,
    RunScript,
    Scan,
    Script,
    ScriptsBarred,
    Waited,
    command,
)
from milepost._db.redis.engine import RedisEngine
from milepost._db.redis.guarded import Counter, Guard, guarded, reading, value_of
from milepost.errors import (
    ColourError,
    ConnectionUnusableError,
    ForeignDatabaseError,
    OutcomeUnknownError,
    SaverError,
    StorageFullError,
)
from redis_servers import RedisServer, lose_an_answer


def add(key: bytes, *, once: bool = False) -> RunScript:
    """A script that adds 1 to the field `n` of a hash, and replies with `[DONE, new value]`."""
    return guarded([key], (), [command("HGET", key, "n")], [Counter(key, "n")], once=once)


def one(effect: Any) -> Any:
    """A program of one effect."""
    return (yield effect)


class Engine:
    """An engine on a server, in one of the two colours."""

    def __init__(self, url: str, colour: str, **settings: Any) -> None:
        cluster = settings.pop("cluster", None)
        self.runner = asyncio.Runner() if colour == "async" else None
        client = make_client(url, is_async=colour == "async", cluster=cluster)
        self.engine = RedisEngine(client, owner="Tested", **settings)

    def __call__(self, effect: Any) -> Any:
        if self.runner is None:
            return self.engine.run(one(effect))
        return self.runner.run(self.engine.arun(one(effect)))

    def close(self) -> None:
        if self.runner is None:
            self.engine.close()
        else:
            self.runner.run(self.engine.aclose())
            self.runner.close()


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(redis_url: str, colour: str) -> Iterator[Engine]:
    opened = Engine(redis_url, colour)
    yield opened
    opened.close()


def test_a_program_is_sent_the_replies_of_what_it_yields(engine):
    assert engine(command("SET", b"k", b"v")) is not None
    assert engine(command("GET", b"k")) == b"v"
    assert engine(Pipeline([command("GET", b"k"), command("GET", b"no")])) == [b"v", None]
    assert engine(Scan(b"k*")) == [b"k"]


def test_a_script_that_the_server_has_forgotten_is_loaded_again(engine):
    assert engine(add(b"n")) == [1, b"1"]
    engine(command("SCRIPT FLUSH"))
    assert engine(add(b"n")) == [1, b"2"]


def test_a_transaction_does_what_the_script_does_where_scripts_are_barred(redis_server, colour):
    with redis_server.client() as client:
        client.flushall()
        client.execute_command(
            "ACL", "SETUSER", "plain", "on", "nopass", "~*", "+@all", "-@scripting"
        )
    opened = Engine(f"{redis_server.url}?username=plain&password=x", colour)
    try:
        assert opened(add(b"n")) == [1, b"1"]
        assert opened(add(b"n")) == [1, b"2"]
        assert opened.engine.scripts is False
        with pytest.raises(ScriptsBarred):
            opened(RunScript(Script("return 1"), [b"n"], []))
    finally:
        opened.close()


def test_a_transaction_is_tried_again_if_others_change_its_key(
    redis_server, redis_url, colour, monkeypatch
):
    opened = Engine(redis_url, colour, scripts=False)
    left = [5]

    def interfering(counter: int, **sign: bool) -> bytes:
        """`value_of`, which is called after a counter was read; others change it then."""
        if left[0]:
            left[0] -= 1
            with redis_server.client() as other:
                other.hincrby(b"n", "n")
        return value_of(counter, **sign)

    monkeypatch.setattr("milepost._db.redis.attempts.value_of", interfering)
    try:
        assert opened(add(b"n")) == [1, b"6"]
    finally:
        opened.close()


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_a_write_waits_for_the_disk_where_the_server_can_tell(kind, colour):
    server = RedisServer(kind, appendonly="yes", appendfsync="everysec").start()
    opened = Engine(server.url, colour)
    try:
        for number in (1, 2):  # unknown to the server, then known
            confirmed = opened(Waited(add(b"n"), 1, 0, 10_000))
            known = (1, 0) if kind == "valkey" else (-1, -1)
            assert confirmed == ([1, b"%d" % number], *known)
    finally:
        opened.close()
        server.close()


class TestALostConnection:
    @pytest.fixture
    def server(self) -> Iterator[RedisServer]:
        server = RedisServer(appendonly="yes", appendfsync="always").start()
        yield server
        server.close()

    def test_is_replaced_and_the_command_is_sent_again(self, server, colour):
        opened = Engine(server.url, colour)
        try:
            assert opened(add(b"n")) == [1, b"1"]
            server.kill()
            server.start()
            assert opened(add(b"n")) == [1, b"2"]
        finally:
            opened.close()

    def test_of_what_must_not_be_repeated_is_reported(self, server, colour):
        opened = Engine(server.url, colour)
        try:
            assert opened(add(b"n", once=True)) == [1, b"1"]
            lose_an_answer(opened.engine)
            with pytest.raises(OutcomeUnknownError, match="Tested"):
                opened(add(b"n", once=True))
            assert opened(command("HGET", b"n", "n")) == b"2"
        finally:
            opened.close()

    def test_that_cannot_be_replaced_is_reported_with_advice(self, server, colour, monkeypatch):
        monkeypatch.setattr("milepost._db.redis.engine.RETRY_SECONDS", 0.05)
        opened = Engine(server.url, colour)
        server.kill()
        with pytest.raises(ConnectionUnusableError, match="See that the server runs"):
            opened(command("GET", b"k"))
        opened.close()


def test_a_full_memory_is_reported_as_such(colour):
    server = RedisServer(maxmemory="1mb").start()
    opened = Engine(server.url, colour)
    try:
        with server.client() as other, suppress(redis.ResponseError):
            for number in range(100):
                other.set(f"k{number}", b"x" * 100_000)
        with pytest.raises(StorageFullError, match="maxmemory"):
            opened(command("SET", b"k", b"x" * 100_000))
    finally:
        opened.close()
        server.close()


def test_a_value_at_which_the_server_ends_the_connection_is_told_with_the_limit(
    colour, monkeypatch
):
    monkeypatch.setattr("milepost._db.redis.engine.RETRY_SECONDS", 0.05)
    monkeypatch.setattr("milepost._db.redis.errors.MAX_ARGUMENT", 2**20)
    server = RedisServer(proto_max_bulk_len="1mb").start()
    opened = Engine(server.url, colour)
    try:
        script = Script("redis.call('SET', KEYS[1], ARGV[1])")
        with pytest.raises(OutcomeUnknownError, match=r"has 3 MiB.*proto-max-bulk-len"):
            opened(RunScript(script, [b"k"], [b"x" * 3 * 2**20], writes=True))
        assert opened(command("GET", b"k")) is None
    finally:
        opened.close()
        server.close()


def test_a_key_of_another_type_is_anothers(engine):
    engine(command("SET", b"k", b"v"))
    with pytest.raises(ForeignDatabaseError, match="prefix"):
        engine(command("HGET", b"k", b"f"))
    with pytest.raises(SaverError, match="Tested"):
        engine(command("NO-SUCH-COMMAND"))


def test_a_cluster_runs_scripts_where_their_keys_are(redis_cluster, colour):
    redis_cluster.flush()
    opened = Engine(redis_cluster.url, colour, cluster=True)
    try:
        for number in range(20):
            assert opened(add(b"{%d}n" % number)) == [1, b"1"]
            assert opened(Waited(add(b"{%d}n" % number), 0, 0, 100)).reply == [1, b"2"]
        assert len(opened(Scan(b"*n"))) == 20
        opened.engine.scripts = False
        assert opened(add(b"{1}n")) == [1, b"3"]
    finally:
        opened.close()


def test_a_client_that_decodes_is_refused(redis_url):
    with pytest.raises(ConnectionUnusableError, match="decode_responses"):
        RedisEngine(make_client(redis_url, is_async=False, decode_responses=True), owner="Tested")
    with pytest.raises(TypeError, match="from_conn_string"):
        RedisEngine(redis_url, owner="Tested")


def test_an_async_client_is_not_used_from_sync_code_without_its_loop(redis_url):
    client = make_client(redis_url, is_async=True)
    with pytest.raises(ColourError, match="async methods"):
        RedisEngine(client, owner="Tested").run(one(command("PING")))


@pytest.mark.parametrize("scripts", [True, False])
class TestGuardedCommands:
    @pytest.fixture
    def guarding(self, redis_url: str, colour: str, scripts: bool) -> Iterator[Engine]:
        opened = Engine(redis_url, colour, scripts=scripts)
        yield opened
        opened.close()

    def test_are_done_if_what_was_read_still_holds(self, guarding):
        guards = [Guard(("HGET", b"h", "f"), None), Guard(("HLEN", b"h"), b"0")]
        puts = [command("HSET", b"h", "f", b"v"), command("SET", b"at", value_of(0))]
        counter = [Counter(b"h", "seq")]
        assert guarding(guarded([b"h", b"at"], guards, puts, counter))[0] == 1
        assert guarding(guarded([b"h", b"at"], guards, puts, counter)) == [0, 1]
        same = [Guard(("HGET", b"h", "f"), b"v"), Guard(("HLEN", b"h"), b"2")]
        assert guarding(guarded([b"h", b"at"], same, puts, counter))[0] == 1
        assert guarding(reading([b"h", b"at"], [command("GET", b"at"), command("GET", b"no")])) == [
            1,
            b"2",
            None,
        ]


def test_a_cluster_that_does_not_answer_is_an_error_of_ours():
    with pytest.raises(ConnectionUnusableError, match=r"127\.0\.0\.1:1"):
        make_client("redis+cluster://127.0.0.1:1", is_async=False)
