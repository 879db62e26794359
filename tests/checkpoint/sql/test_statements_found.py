"""A statement in a server's log can be found in the source: only its placeholders were rewritten."""

from __future__ import annotations

import ast
import operator
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import milepost
from graphs import PATIENCE, thread
from milepost.checkpoint._contract.threads import ThreadFilter
from milepost.checkpoint._sql.saver import queries_for
from milepost.checkpoint._sql.statements import Statements
from milepost.checkpoint._sql.threads.registry import Search
from milepost.checkpoint._sql.write import store
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph
from milepost.inspect._sources import SqlSource
from milepost.types import Command, interrupt

ROOT = Path(milepost.__file__).parent
PUT_TOGETHER = re.compile(
    r"CREATE |ALTER |INSERT INTO \w*migrations|SELECT v FROM \w*migrations|"  # of any schema
    r"BEGIN|COMMIT|ROLLBACK|PRAGMA|SET |"  # how transactions are run
    r"SELECT name FROM (sqlite_master|pragma)|SELECT .* information_schema|SELECT sql FROM sqlite"
)
"""Statements that are not in the source in one piece."""


def plain(sql: str) -> str:
    """A statement without its layout, its placeholders, and its second row and those after it."""
    text = re.sub(r"\$\d+|%s", "?", re.sub(r"\s+", " ", sql)).strip()
    return re.sub(r"(\((?:\?(?:, )?)+\))(?:, \1)+", r"\1", text)


@cache
def texts_in_source() -> frozenset[str]:
    found = set()
    for path in (*ROOT.glob("checkpoint/**/*.py"), *ROOT.glob("_db/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(plain(node.value))
    return frozenset(found)


def is_found(sql: str, texts: Statements) -> bool:
    """Whether a statement is in the source, or is one there with conditions that are."""
    known = texts_in_source()
    if sql in known or PUT_TOGETHER.match(sql):
        return True
    for start in (plain(texts.list_threads), plain(texts.count_threads)):
        if start in known and sql.startswith(start):
            rest = sql.removeprefix(start)
            for text in sorted((text for text in known if " " in text), key=len, reverse=True):
                rest = rest.replace(text, "")
            return re.fullmatch(r"(\W|WHERE|AND|OR)*", rest) is not None
    return False


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    answer: str


class Together:
    """Stores the steps of several runs at once, and waits until there is one of each."""

    def __init__(self, saver: Any, runs: int) -> None:
        self._commit = saver.commit
        self._all_wait = threading.Barrier(runs, action=self._store, timeout=PATIENCE)
        self._steps: dict[int, list[Any]] = {}
        self._outcomes: dict[int, list[Any]] = {}

    def commit(self, steps: list[Any]) -> list[Any]:
        self._steps[threading.get_ident()] = steps
        self._all_wait.wait()
        return self._outcomes[threading.get_ident()]

    def _store(self) -> None:
        outcome = iter(self._commit([step for steps in self._steps.values() for step in steps]))
        for run, steps in self._steps.items():
            self._outcomes[run] = [next(outcome) for _ in steps]


def of_many_threads(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs on four threads, which begin, go on and end in the same transactions."""
    builder = StateGraph(State).add_sequence([(name, lambda _: {"log": ["x"]}) for name in "abc"])
    graph = builder.add_edge(START, "a").compile(checkpointer=saver)
    owners: list[dict[str, Any]] = [{}, {}, {"owner": "u"}, {"owner": "v"}]
    configs = [{**thread(f"m{n}"), "metadata": owner} for n, owner in enumerate(owners)]
    for _ in range(2):  # new threads, then known ones
        with ThreadPoolExecutor(len(configs)) as pool, monkeypatch.context() as patch:
            patch.setattr(saver, "commit", Together(saver, len(configs)).commit)
            runs = [pool.submit(graph.invoke, {}, at, durability="sync") for at in configs]
            assert all(run.result(PATIENCE) for run in runs)
        configs = [thread(f"m{n}") for n in range(len(owners))]
    for n in range(len(owners)):
        saver.delete_thread(f"m{n}")


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
    saver.list_threads(metadata={"owner": "u"})
    saver.list_threads(metadata={"tags": ["a", "b"], "plan": "free"}, status="stale")
    saver.list_threads(prefix="f", after="a", status="running", updated_after=1, updated_before=2)
    searching = SqlSource(saver)
    for search in (Search(), Search("Text", True, "thread_id", False), Search(sort="created_at")):
        searching.threads(ThreadFilter(status="idle"), search)
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
        yield SqliteSaver(connection, thread_metadata=["owner"]), sent
        connection.close()
        return
    from milepost._db.postgres import wire
    from milepost.checkpoint.postgres import PostgresSaver

    numbered: Callable[[str], bytes] = wire._numbered

    def recording(sql: str) -> bytes:
        sent.append(numbered(sql).decode())
        return numbered(sql)

    monkeypatch.setattr(wire, "_numbered", recording)
    address = request.getfixturevalue("shared_uri")
    with PostgresSaver.from_conn_string(address, thread_metadata=["owner"]) as saver:
        saver.setup()
        yield saver, sent


def test_every_statement_of_a_session_is_in_the_source_in_one_piece(recorded, monkeypatch):
    saver, sent = recorded
    monkeypatch.setattr(store, "_REGISTRY_INTERVAL", 3600.0)  # however slow this is
    session(saver)
    of_many_threads(saver, monkeypatch)
    different = {plain(sql) for sql in sent}
    assert len(different) > 30
    texts = queries_for(saver.statements, saver.dialect)
    assert different.issuperset(
        plain(getattr(texts, name))
        for name in ("holds_thread", "hold_thread", "take_thread", "has_writes", "new_thread")
    )
    assert [one for one in different if not is_found(one, texts)] == []
