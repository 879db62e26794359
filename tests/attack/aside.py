"""A database beside the attacked one, for operations that damage what is stored.

Damage shows to everybody who looks at a database as a whole, and a process may be killed before it
has repaired what it broke. So each actor has a database of its own for that: a file beside the
attacked one, or a schema of the same server. The damage itself is done on a plain connection.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attack.operation import Context, Steps, plain


class Hindered(Exception):
    """The checker's own connection failed: a fault has hit it, too."""


def own_database(context: Context) -> Steps:
    """An `Aside`. To make its tables may have to wait for a transaction of the actor's own loop."""
    return (yield plain(Aside, "__call__", context))


class Aside:
    """The empty database of one actor."""

    def __init__(self, context: Context) -> None:
        recorder = context.recorder
        self.name = f"aside_{recorder.worker}_{recorder.thread}".replace(".", "_")
        self.is_sqlite = context.place.name.startswith("sqlite")
        self._server = context.place.address
        self.address = f"{self._server}.{self.name}" if self.is_sqlite else self.address_with()
        self.place = type(context.place)(self.address)
        """A `places.Place`, of the same kind as the attacked one."""
        if self.is_sqlite:
            self._remove_files()
        else:
            self._make_schema()

    def address_with(self, *settings: str) -> str:
        """On PostgreSQL: the address, with more settings for its sessions."""
        from psycopg.conninfo import make_conninfo

        options = " ".join(f"-c {one}" for one in (f"search_path={self.name}", *settings))
        return make_conninfo(self._server, options=options)

    def _remove_files(self) -> None:
        path = Path(self.address)
        for file in path.parent.glob(path.name + "*"):
            file.unlink(missing_ok=True)

    def _make_schema(self) -> None:
        with self.connection() as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {self.name} CASCADE")
            connection.execute(f"CREATE SCHEMA {self.name}")
        self.place.prepare()

    @contextlib.contextmanager
    def connection(self) -> Iterator[Any]:
        """A plain connection, on which each statement is a transaction."""
        if self.is_sqlite:
            try:
                with contextlib.closing(
                    sqlite3.connect(self.address, isolation_level=None)
                ) as connection:
                    yield connection
            except sqlite3.Error as error:
                raise Hindered(str(error)) from error
            return
        import psycopg

        try:
            with psycopg.connect(self.address, autocommit=True) as connection:
                yield connection
        except psycopg.Error as error:
            raise Hindered(str(error)) from error

    def rows(self, sql: str, *values: Any) -> list[Any]:
        with self.connection() as connection:
            return list(connection.execute(self._marked(sql), values).fetchall())

    def change(self, sql: str, *values: Any) -> int:
        """How many rows a statement has changed."""
        with self.connection() as connection:
            return int(connection.execute(self._marked(sql), values).rowcount)

    def damage(self, sql: str, *values: Any) -> None:
        """Change something that must be there."""
        if self.change(sql, *values) < 1:
            raise RuntimeError(f"there was nothing to damage: {sql}")

    def _marked(self, sql: str) -> str:
        return sql if self.is_sqlite else sql.replace("?", "%s")
