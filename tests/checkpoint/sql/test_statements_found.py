"""A statement in a server's log can be found in the source: only its placeholders were rewritten."""

from __future__ import annotations

import ast
import operator
import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import milepost
from graphs import thread
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph
from milepost.types import Command, interrupt

ROOT = Path(milepost.__file__).parent
PUT_TOGETHER = re.compile(
    r"CREATE |ALTER |INSERT INTO \w*migrations|SELECT v FROM \w*migrations|"  # of any schema
    r"BEGIN|COMMIT|ROLLBACK|PRAGMA|SET |"  # how transactions are run
    r"SELECT thread_id, status, created_at, updated_at, COALESCE.* ORDER BY|"  # a filter of threads
    r"SELECT name FROM (sqlite_master|pragma)|SELECT .* information_schema|SELECT sql FROM sqlite"
)
"""Statements that are not in the source in one piece."""


def plain(sql: str) -> str:
    """A statement without its layout, its placeholders, and its second row and those after it."""
    text = re.sub(r"\$\d+|%s", "?", re.sub(r"\s+", " ", sql)).strip()
    text = re.sub(r"(\((?:\?(?:, )?)+\))(?:, \1)+", r"\1", text)
    guarded = re.fullmatch(r"WITH held AS \((.*?)(?: RETURNING 1)?\) SELECT 1 / \(count.*", text)
    return plain(guarded[1]) if guarded else text


@cache
def texts_in_source() -> frozenset[str]:
    found = set()
    for path in (*ROOT.glob("checkpoint/**/*.py"), *ROOT.glob("_db/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(plain(node.value))
    return frozenset(found)


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    answer: str


def session(saver: Any) -> None:
    """A little of everything that a program does with a saver."""

    def ask(state: State) -> dict[str, Any]:
        return {"answer": interrupt("sure?"), "log": ["x" * 300]}

    builder = StateGraph(State).add_node("ask", ask).add_edge("inner", "ask").add_edge("ask", END)
    inner = StateGraph(State).add_node("n", lambda _: {"log": ["inner"]}).add_edge(START, "n")
    builder.add_node("inner", inner.compile()).add_edge(START, "inner")
    graph = builder.compile(checkpointer=saver)
    config = thread("found")
    for durability in ("sync", "exit"):
        graph.invoke({"log": ["y" * 2000]}, config, durability=durability)
        graph.invoke(Command(resume="yes"), config, durability=durability)
    history = list(graph.get_state_history(config))
    graph.update_state(history[-2].config, {"log": ["changed"]}, as_node="inner")
    list(saver.list(config, limit=3))
    saver.create_thread("other", {"owner": "u"})
    saver.set_thread_metadata("found", {"owner": "u"})
    list(saver.list_threads(metadata={"owner": "u"}))
    saver.get_thread("found")
    saver.copy_thread("found", "copy")
    saver.prune(["copy"])
    for name in ("found", "copy", "other"):
        saver.delete_thread(name)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def recorded(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[Any, list[str]]]:
    """A saver, and what is sent to its database."""
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
        yield SqliteSaver(connection), sent
        connection.close()
        return
    from milepost._db.postgres import wire
    from milepost.checkpoint.postgres import PostgresSaver

    numbered: Callable[[str], bytes] = wire._numbered

    def recording(sql: str) -> bytes:
        sent.append(numbered(sql).decode())
        return numbered(sql)

    monkeypatch.setattr(wire, "_numbered", recording)
    with PostgresSaver.from_conn_string(request.getfixturevalue("shared_uri")) as saver:
        saver.setup()
        yield saver, sent


def test_every_statement_of_a_session_is_in_the_source_in_one_piece(recorded):
    saver, sent = recorded
    session(saver)
    different = {plain(sql) for sql in sent}
    assert len(different) > 30
    known = texts_in_source()
    assert [one for one in different if one not in known and not PUT_TOGETHER.match(one)] == []
