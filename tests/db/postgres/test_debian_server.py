"""The PostgreSQL of the system, which is mostly older than the one that all other tests run on."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.store.postgres import PostgresStore
from milepost.testing import saver_tests

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=None)
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
