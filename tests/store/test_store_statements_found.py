"""A statement of a store in a server's log can be found in the source: only its placeholders were
rewritten, and what a call alone knows was added: filter, order, table of vectors, rows."""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost.store._sql.statements import REPLACING
from milepost.store.base import GetOp, PutOp
from milepost.store.sqlite import SqliteStore

ROOT = Path(milepost.__file__).parent
LEFT_OPEN = re.compile(r"\{\w+\}")
OTHERS = re.compile(
    r"INSERT INTO milepost_deleted .* DO NOTHING|CREATE |ALTER |DROP |INSERT INTO \w*migrations|SELECT v FROM \w*migrations|"
    r"BEGIN|COMMIT|ROLLBACK|PRAGMA|SET |LOCK TABLE|SELECT (current_setting|set_config|pg_|attname)|"
    r"SELECT name FROM (sqlite_master|pragma)|SELECT .* information_schema|SELECT sql FROM sqlite"
)
"""Statements of any schema, and how transactions are run."""
SPACE = ("notes", "u")
MANY = 200


def plain(sql: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\$\d+|%s", "?", sql)).strip()


@cache
def known() -> list[re.Pattern[str]]:
    found = []
    ends = f"( {re.escape(plain(REPLACING))})?( WHERE [\\w. <=?]+)?"
    for path in (ROOT / "store").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.match(r"(SELECT|INSERT|UPDATE|DELETE|WITH) ", text):
                parts = map(re.escape, LEFT_OPEN.split(plain(text)))
                found.append(re.compile(".*".join(parts) + ends))
    return found


def session(store: Any) -> None:
    """A little of everything that a program does with a store."""
    store.put(SPACE, "a", {"text": "one", "n": 1}, ttl=5)
    store.put(SPACE, "b", {"text": "two", "n": 2})
    store.put(SPACE, "b", {"text": "three", "n": 3})
    store.batch([PutOp(SPACE, f"k{n}", {"n": n}) for n in range(MANY)])
    store.get(SPACE, "a")
    store.batch([GetOp(SPACE, key) for key in "ab"])
    for order in (None, "key", "-created_at"):
        store.search(("notes",), filter={"n": {"$gt": 1}}, order=order)
        store.search(SPACE, limit=3, order=order)
    store.list_namespaces(prefix=("notes",))
    store.delete(SPACE, "b")
    store.batch([PutOp(SPACE, f"k{n}", None) for n in range(3)])
    store.sweep_ttl()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def recorded(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[Any, list[str]]]:
    """A store, and what is sent to its database."""
    sent: list[str] = []
    if request.param == "sqlite":

        class Cursor(sqlite3.Cursor):
            def execute(self, sql: str, *given: Any) -> Any:
                sent.append(sql)
                return super().execute(sql, *given)

            def executemany(self, sql: str, *given: Any) -> Any:
                sent.append(sql)
                return super().executemany(sql, *given)

        class Connection(sqlite3.Connection):
            def cursor(self, factory: Any = Cursor) -> Any:
                return super().cursor(factory)

        file = tmp_path / "found.db"
        connection = sqlite3.connect(file, check_same_thread=False, factory=Connection)
        index: Any = {"dims": 1, "embed": lambda texts: [[1.0] for _ in texts]}
        store = SqliteStore(connection, index=index)
        yield store, sent
        store.close()
        connection.close()
        return
    from milepost._db.postgres import wire
    from milepost.store.postgres import PostgresStore

    numbered: Callable[[str], bytes] = wire._numbered

    def recording(sql: str) -> bytes:
        sent.append(numbered(sql).decode())
        return numbered(sql)

    monkeypatch.setattr(wire, "_numbered", recording)
    with PostgresStore.from_conn_string(request.getfixturevalue("shared_uri")) as store:
        yield store, sent


def test_every_statement_of_a_session_is_in_the_source_in_one_piece(recorded):
    store, sent = recorded
    session(store)
    different = {plain(sql) for sql in sent}
    assert len(different) > 15
    strange = [
        one
        for one in different
        if not OTHERS.match(one) and not any(text.fullmatch(one) for text in known())
    ]
    assert strange == []
