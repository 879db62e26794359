"""Search by meaning inside SQLite, with sqlite-vec.

Some builds of Python cannot load extensions into their sqlite3. A drop-in module can, and takes
its place in a process of its own, as it would in a program.
"""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiosqlite
import pytest

from milepost.store.sqlite import AsyncSqliteStore, SqliteStore

INDEX: Any = {"dims": 2, "embed": lambda texts: [[1.0, float(len(text))] for text in texts]}
MEANING = Path(__file__).parents[1] / "test_store_meaning.py"

PROGRAM = """
import sys
import pysqlite3
import pysqlite3.dbapi2
sys.modules["sqlite3"] = pysqlite3
sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2

import pytest

searches = []

class InsideSqlite:
    def pytest_sessionstart(self):
        from milepost.store._vectors.sqlite import LiteVectors

        search = LiteVectors._in_sqlite

        def counting(self, *arguments):
            searches.append(1)
            return search(self, *arguments)

        LiteVectors._in_sqlite = LiteVectors._in_numpy = counting

arguments = ["-n0", "-p", "no:cacheprovider", sys.argv[1], "-k", "sqlite"]
failed = pytest.main(arguments, plugins=[InsideSqlite()])
sys.exit(failed or not searches)
"""


def test_finds_what_every_store_finds():
    pytest.importorskip("pysqlite3")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(MEANING)],
        cwd=MEANING.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Loading(sqlite3.Connection):
    """A connection that says, like one of a full build, whether it may load extensions."""

    allowed = False

    def enable_load_extension(self, allowed: bool) -> None:
        self.allowed = allowed
        self.create_function("load_extension", 1, self.load)

    def load(self, name: Any) -> Any:
        if not self.allowed:
            raise PermissionError("not authorized")
        assert name is None


@pytest.mark.parametrize("allowed", [True, False])
def test_a_connection_of_the_users_may_load_extensions_afterwards_if_it_could_before(
    tmp_path, monkeypatch, allowed
):
    loaded: list[Any] = []
    monkeypatch.setitem(sys.modules, "sqlite_vec", SimpleNamespace(load=loaded.append))
    connect = partial(sqlite3.connect, tmp_path / "store.db", factory=Loading)
    with closing(connect(check_same_thread=False)) as connection:
        connection.row_factory = sqlite3.Row
        connection.enable_load_extension(allowed)
        SqliteStore(connection, index=INDEX).put(("a",), "k", {"text": "x"})
        assert (loaded, connection.allowed) == ([connection], allowed)


def test_a_connection_behind_aiosqlite_may_load_extensions_afterwards_if_it_could_before(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "sqlite_vec", SimpleNamespace(load=lambda _: None))

    async def main() -> None:
        async with aiosqlite.connect(tmp_path / "store.db", factory=Loading) as connection:
            await connection._execute(connection._conn.enable_load_extension, True)
            store = AsyncSqliteStore(connection, index=INDEX)
            await store.aput(("a",), "k", {"text": "x"})
            assert connection._conn.allowed

    asyncio.run(main())
