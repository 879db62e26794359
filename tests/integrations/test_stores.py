"""Stores of one library in the graphs of the other."""

from __future__ import annotations

from typing import Any

import pytest
from libraries import LANGGRAPH, MILEPOST
from stories import Log, line, thread

from milepost.cli import main
from milepost.integrations.langgraph import as_langgraph_store, from_langgraph_store
from milepost.store.base import BaseStore
from milepost.store.sqlite import SqliteStore

pytest.importorskip("langgraph.store.sqlite")

from langgraph.store.base import BaseStore as TheirStore
from langgraph.store.sqlite import SqliteStore as TheirSqliteStore


class Caller:
    """Calls a store in one of the two colours."""

    def __init__(self, run: Any, store: Any) -> None:
        self.run = run
        self.store = store

    def __getattr__(self, name: str) -> Any:
        if self.run.colour == "sync":
            return getattr(self.store, name)
        method = getattr(self.store, f"a{name}")
        return lambda *args, **named: self.run._runner.run(method(*args, **named))


def used(store: Any) -> Any:
    """Use a store in every way, and tell what it said."""
    store.put(("users", "ann"), "food", {"likes": "soup", "rank": 2})
    store.put(("users", "ann"), "music", {"likes": "piano", "rank": 1})
    store.put(("users", "bob"), "food", {"likes": "bread"})
    store.put(("users", "ann"), "music", {"likes": "song", "rank": 1})
    store.put(("users", "bob"), "city", {"likes": "lisbon", "rank": 3})
    store.delete(("users", "bob"), "food")
    got = store.get(("users", "ann"), "food")
    found = store.search(("users",), filter={"rank": {"$lt": 2}})
    return (
        (got.namespace, got.key, got.value, got.created_at.tzinfo is not None),
        store.get(("users", "bob"), "food"),
        [(item.namespace, item.key, item.value, item.score) for item in found],
        len(store.search(("users",), limit=1)),
        store.list_namespaces(prefix=("users",)),
        store.list_namespaces(max_depth=1),
    )


@pytest.fixture(params=["memory", "sqlite"])
def ours(request, opener, tmp_path) -> Any:
    if request.param == "memory":
        return MILEPOST.InMemoryStore()
    return opener.enter(SqliteStore.from_conn_string(str(tmp_path / "ours.db")))


@pytest.fixture(params=["memory", "sqlite"])
def theirs(request, opener, tmp_path) -> Any:
    if request.param == "memory":
        return LANGGRAPH.InMemoryStore()
    store = opener.enter(TheirSqliteStore.from_conn_string(str(tmp_path / "theirs.db")))
    store.setup()
    return store


def test_ours_does_what_theirs_does(run, ours):
    expected = used(Caller(run, LANGGRAPH.InMemoryStore()))
    store = as_langgraph_store(ours)
    assert isinstance(store, TheirStore)
    assert used(Caller(run, store)) == expected


def test_theirs_does_what_ours_does(run, theirs):
    expected = used(Caller(run, MILEPOST.InMemoryStore()))
    store = from_langgraph_store(theirs)
    assert isinstance(store, BaseStore)
    assert used(Caller(run, store)) == expected


def remembering(lib: Any) -> Any:
    def remember(state: Any, runtime: Any) -> Any:
        before = runtime.store.get(("notes",), "count")
        count = before.value["n"] + 1 if before else 1
        runtime.store.put(("notes",), "count", {"n": count})
        return {"log": [count]}

    import importlib

    remember.__annotations__["runtime"] = importlib.import_module(f"{lib.name}.runtime").Runtime
    return line(lib, remember, schema=Log)


def test_our_store_in_their_graph(ours):
    graph = remembering(LANGGRAPH).compile(store=as_langgraph_store(ours))
    assert [graph.invoke({"log": []}, thread())["log"] for _ in range(2)] == [[1], [2]]
    assert ours.get(("notes",), "count").value == {"n": 2}


def test_their_store_in_our_graph(theirs):
    graph = remembering(MILEPOST).compile(store=from_langgraph_store(theirs))
    assert [graph.invoke({"log": []}, thread())["log"] for _ in range(2)] == [[1], [2]]
    assert theirs.get(("notes",), "count").value == {"n": 2}


def test_what_their_stores_cannot_do_is_refused():
    store = from_langgraph_store(LANGGRAPH.InMemoryStore())
    with pytest.raises(NotImplementedError, match="if_version"):
        store.put(("a",), "k", {"n": 1}, if_version=0)


def test_a_store_of_the_wrong_library_is_refused():
    with pytest.raises(TypeError, match="needs a milepost store"):
        as_langgraph_store(LANGGRAPH.InMemoryStore())
    with pytest.raises(TypeError, match="needs a store of LangGraph's"):
        from_langgraph_store(MILEPOST.InMemoryStore())


# -- moving items


def put_items(store: Any) -> None:
    for n in range(450):
        store.put(("numbers", str(n % 3)), f"k{n}", {"n": n})


def items_of(store: Any) -> dict[Any, Any]:
    return {(i.namespace, i.key): i.value for i in store.search((), limit=1000)}


def test_items_are_imported_and_exported(tmp_path, capsys):
    with TheirSqliteStore.from_conn_string(str(tmp_path / "theirs.db")) as store:
        store.setup()
        put_items(store)
        expected = items_of(store)
    theirs, ours, back = (f"sqlite:///{tmp_path}/{name}.db" for name in ("theirs", "ours", "back"))
    assert main(["import", "--from-langgraph", theirs, "--to", ours]) == 0
    assert "450 store items copied and verified." in capsys.readouterr().out
    with SqliteStore.from_conn_string(str(tmp_path / "ours.db")) as store:
        assert items_of(store) == expected
    assert main(["import", "--from-langgraph", theirs, "--to", ours]) == 0
    assert "store items" not in capsys.readouterr().out
    assert main(["export", "--from", ours, "--to-langgraph", back]) == 0
    with TheirSqliteStore.from_conn_string(str(tmp_path / "back.db")) as store:
        assert items_of(store) == expected


@pytest.mark.xdist_group("postgres")
def test_items_are_imported_and_exported_on_postgres(postgres, capsys):
    from langgraph.store.postgres import PostgresStore as TheirPostgresStore

    theirs, ours, back = postgres(), postgres(), postgres()
    with TheirPostgresStore.from_conn_string(theirs) as store:
        store.setup()
        put_items(store)
        expected = items_of(store)
    from langgraph.checkpoint.postgres import PostgresSaver as TheirPostgresSaver

    with TheirPostgresSaver.from_conn_string(theirs) as saver:
        saver.setup()
    assert main(["import", "--from-langgraph", theirs, "--to", ours]) == 0
    assert "450 store items copied and verified." in capsys.readouterr().out
    from milepost.store.postgres import PostgresStore

    with PostgresStore.from_conn_string(ours) as store:
        assert items_of(store) == expected
    assert main(["export", "--from", ours, "--to-langgraph", back]) == 0
    with TheirPostgresStore.from_conn_string(back) as store:
        assert items_of(store) == expected
