"""The PostgreSQL of the system, which is mostly older than the one that all other tests run on."""

import operator
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, TypedDict

import psycopg
import pytest

from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.graph import START, StateGraph
from milepost.store.postgres import PostgresStore
from milepost.testing import saver_tests

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=None)
COUNTING = (PROGRAMS or Path("/usr/bin/initdb")).parent.with_name("lib") / "pg_stat_statements.so"
"""The module with which the server counts what it does for each statement."""
pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(PROGRAMS is None, reason="apt-get install postgresql runs these"),
]


@pytest.fixture(scope="module")
def system_server() -> Iterator[str]:
    assert PROGRAMS is not None
    folder = Path(tempfile.mkdtemp(prefix="milepost-old-pg-"))  # short: it has a socket
    as_user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        shutil.chown(folder, pwd.getpwnam("postgres").pw_uid)
        as_user = ["runuser", "-u", "postgres", "--"]

    def run(program: str, *arguments: str) -> None:
        command = [*as_user, str(PROGRAMS.with_name(program)), "-D", str(folder / "data")]
        subprocess.run([*command, *arguments], check=True, cwd=folder, stdout=subprocess.DEVNULL)

    run("initdb", "-A", "trust", "-U", "postgres")
    settings = f"-k {folder} -c listen_addresses= -c fsync=off"
    if COUNTING.exists():
        settings += f" -c shared_preload_libraries={COUNTING.stem}"
    run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", settings)
    yield f"postgresql://postgres:@/postgres?host={folder}"
    run("pg_ctl", "stop", "-m", "immediate")
    shutil.rmtree(folder, ignore_errors=True)


def saver(system_server: str) -> Iterator[PostgresSaver]:
    with PostgresSaver.from_conn_string(system_server, schema="sync") as made:
        made.setup()
        yield made


async def async_saver(system_server: str) -> AsyncIterator[AsyncPostgresSaver]:
    async with AsyncPostgresSaver.from_conn_string(system_server, schema="async") as made:
        await made.setup()
        yield made


test_saver = saver_tests(saver, persistent=True)
test_async_saver = saver_tests(async_saver, persistent=True)


def test_what_is_erased_is_in_no_file(system_server):
    with PostgresSaver.from_conn_string(system_server) as made:
        made.setup()
        made.create_thread("1", {"owner": "ada"})
        made.create_thread("2", {"owner": "bob"})
        assert made.erase(metadata={"owner": "ada"}).threads == ["1"]
        assert [info.thread_id for info in made.list_threads()] == ["2"]
        [file] = made.conn.execute(
            "SELECT pg_read_binary_file(pg_relation_filepath('threads'))"
        ).fetchone()
        assert b"bob" in file
        assert b"ada" not in file


def test_items_of_a_store(system_server):
    with PostgresStore.from_conn_string(system_server) as store:
        store.setup()
        for name in ("ada", "bob"):
            store.put(("users", name), "city", {"name": f"the city of {name}", "n": len(name)})
        [found] = store.search(("users",), filter={"name": "the city of ada"})
        assert found.namespace == ("users", "ada")
        assert store.list_namespaces(prefix=("users",)) == [("users", "ada"), ("users", "bob")]
        store.delete(("users", "ada"), "city")
        assert store.get(("users", "ada"), "city") is None


class Notes(TypedDict):
    notes: Annotated[list[str], operator.add]
    text: str


def use_everything(uri: str, turns: int) -> None:
    """Several turns on a thread, each on a saver that has not seen it; then all that can be read,
    and what looks after threads."""
    builder = StateGraph(Notes).add_edge(START, "write")
    builder.add_node("write", lambda state: {"notes": ["a note"], "text": "x" * 5_000})
    config = {"configurable": {"thread_id": "1"}, "metadata": {"owner": "ada"}}
    for _ in range(turns):
        with PostgresSaver.from_conn_string(uri, thread_metadata=["owner"]) as saver:
            saver.setup()
            graph = builder.compile(checkpointer=saver)
            graph.invoke({"notes": ["a question"]}, config)
            assert graph.get_state(config).values["text"]
            [*_, oldest] = graph.get_state_history(config)
            graph.get_state(oldest.config)
            graph.update_state(config, {"notes": ["an edit"]})
            assert [info.thread_id for info in saver.list_threads(metadata={"owner": "ada"})]
            saver.copy_thread("1", "2")
            saver.prune(["2"], strategy="keep_latest")
            assert saver.verify() == []
            saver.delete_thread("2")
    with PostgresStore.from_conn_string(uri) as store:
        store.setup()
        for n in range(turns):
            store.put(("users", "ada"), str(n), {"n": n})
            assert store.get(("users", "ada"), str(n)) is not None
            assert store.search(("users",), filter={"n": {"$gte": n}})
            assert store.list_namespaces(max_depth=1) == [("users",)]
            store.delete(("users", "ada"), str(n))


def test_no_statement_seems_so_costly_that_the_server_compiles_it(system_server):
    """Where the server can compile statements to machine code (`jit`), it does so with each run of
    one that it takes for costly. That is tens of milliseconds, for reads of less than one."""
    with psycopg.connect(system_server, autocommit=True) as connection:
        [(can_compile,)] = connection.execute("SELECT pg_jit_available()").fetchall()
        if not (COUNTING.exists() and can_compile and connection.info.server_version >= 150_000):
            pytest.skip("this server compiles nothing, or does not count what it compiles")
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        connection.execute("CREATE SCHEMA compiled")
        use_everything(f"{system_server}&options=-csearch_path%3Dcompiled", turns=8)
        compiled = connection.execute(
            "SELECT query FROM pg_stat_statements WHERE jit_functions > 0"
        ).fetchall()
    assert compiled == []
