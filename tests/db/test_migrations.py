"""A migration is whole or not there, can be repeated, and newer tables are refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from milepost._db import migrations
from milepost._db.operations import Execute
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import SaverError
from milepost.store.postgres import PostgresStore
from milepost.store.sqlite import SqliteStore

KINDS = [SqliteSaver, SqliteStore, PostgresSaver, PostgresStore]
TABLES = {True: "milepost_store_migrations", False: "checkpoint_migrations"}
OLDER = (
    "DROP TABLE milepost_deleted",
    "DROP INDEX milepost_items_lacking",
    "DELETE FROM milepost_store_migrations WHERE v > 0",
)
"""What makes the tables of a store those of an older version."""


class Broken(Exception):
    """A process that ended at a statement."""


class Place:
    """An empty database for one kind of saver or store."""

    def __init__(self, make: Any, address: str) -> None:
        self.make = make
        self.address = address
        self.migrations = TABLES[make in (SqliteStore, PostgresStore)]

    def opened(self) -> AbstractContextManager[Any]:
        return self.make.from_conn_string(self.address)  # type: ignore[no-any-return]

    def run(self, *statements: str) -> list[Any]:
        """Statements behind the back of milepost, and the rows of the last one."""
        on_postgres = self.make in (PostgresSaver, PostgresStore)
        connect: Any = psycopg.connect if on_postgres else sqlite3.connect
        with closing(connect(self.address)) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
        return rows

    def versions(self) -> list[int]:
        return [row[0] for row in self.run(f"SELECT v FROM {self.migrations} ORDER BY v")]


@pytest.fixture(params=KINDS, ids=lambda make: make.__name__)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param in (PostgresSaver, PostgresStore):
        return Place(request.param, request.getfixturevalue("uri"))
    return Place(request.param, str(tmp_path / "a.db"))


def ending_at(number: int) -> Callable[..., Execute]:
    """Statements, of which the one with this number is not carried out any more."""
    seen = 0

    def execute(*arguments: Any) -> Execute:
        nonlocal seen
        seen += 1
        if seen == number:
            raise Broken
        return Execute(*arguments)

    return execute


def set_up_after_ends(place: Place, monkeypatch: pytest.MonkeyPatch, most: int) -> int:
    """End a setup at each of its statements, then let one pass; how many statements there are."""
    for number in range(1, most):
        monkeypatch.setattr(migrations, "Execute", ending_at(number))
        with place.opened() as made:
            try:
                made.setup()
            except Broken:
                continue
        return number - 1
    raise AssertionError(f"a setup of {most} statements or more")


def test_a_setup_that_ended_at_any_statement_is_repeated(place, monkeypatch):
    assert set_up_after_ends(place, monkeypatch, most=40) > 5
    with place.opened() as made:
        made.setup()
    assert place.versions() == list(range(len(place.versions())))


@pytest.mark.parametrize("place", [SqliteStore, PostgresStore], indirect=True)
def test_an_upgrade_that_ended_at_any_statement_is_repeated(place, monkeypatch):
    with place.opened() as store:
        store.setup()
        store.put(("n",), "k", {"n": 1})
        wanted = place.versions()
    place.run(*OLDER)
    assert set_up_after_ends(place, monkeypatch, most=20) > 3
    assert place.versions() == wanted
    with place.opened() as store:
        assert store.get(("n",), "k").value == {"n": 1}
        store.delete(("n",), "k")
        assert store.get(("n",), "k") is None


def test_tables_of_a_newer_version_are_refused_and_stay(place):
    with place.opened() as made:
        made.setup()
    newest = max(place.versions())
    place.run(f"INSERT INTO {place.migrations} (v) VALUES ({newest + 1})")
    said = rf"newer version .*tables are at version {newest + 1}, this one knows {newest}\)"
    with place.opened() as made, pytest.raises(SaverError, match=said):
        made.setup()
    assert max(place.versions()) == newest + 1
