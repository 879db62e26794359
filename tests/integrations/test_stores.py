"""Stores of one library in the graphs of the other."""

from __future__ import annotations

import importlib
import sqlite3
import time
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from libraries import LANGGRAPH, MILEPOST, cases, opened
from stories import Log, line, thread

from milepost.cli import main
from milepost.integrations.langgraph import as_langgraph_store, from_langgraph_store
from milepost.integrations.langgraph._moving.items import StoredItem
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
        return partial(self.run.saver, self.store, name)


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


INDEX = {"dims": 2, "fields": ["likes"]}


def embed(texts: Any) -> list[list[float]]:
    """Food lies in one direction, music in the other."""
    return [
        [1.0, 0.1 * (len(text) % 3)]
        if "soup" in text or "bread" in text or text == "food"
        else [0.1, 1.0]
        for text in texts
    ]


LOADS_EXTENSIONS = hasattr(sqlite3.Connection, "enable_load_extension")
EVERY = cases(["memory", "sqlite", "sqlite-async", "postgres", "postgres-async"])


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ours(request, opener) -> Any:
    return opened("milepost", "Store", request.param, request)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def theirs(request, opener) -> Any:
    return opened("langgraph", "Store", request.param, request)


@pytest.mark.parametrize(("run", "kind"), EVERY, indirect=["run"])
def test_ours_does_what_theirs_does(run, kind, request):
    expected = used(Caller(run, LANGGRAPH.InMemoryStore()))
    store = as_langgraph_store(opened("milepost", "Store", kind, request))
    assert isinstance(store, TheirStore)
    assert used(Caller(run, store)) == expected


@pytest.mark.parametrize(("run", "kind"), EVERY, indirect=["run"])
def test_theirs_does_what_ours_does(run, kind, request):
    expected = used(Caller(run, MILEPOST.InMemoryStore()))
    store = from_langgraph_store(opened("langgraph", "Store", kind, request))
    assert isinstance(store, BaseStore)
    assert used(Caller(run, store)) == expected


def searched(store: Any) -> Any:
    """Use a store's index, and tell what it found."""
    for number, word in enumerate(("soup", "bread roll", "piano", "violin")):
        store.put(("likes",), f"k{number}", {"likes": word, "rank": number})
    store.put(("likes",), "silent", {"likes": "soup"}, index=False)
    store.put(("likes",), "other", {"text": "soup"}, index=["text"])
    near = store.search(("likes",), query="food", limit=3)
    far = store.search(("likes",), query="food", filter={"rank": 2})
    return (
        sorted(item.key for item in near),
        all(item.score > 0.9 for item in near),
        [(item.key, item.score < 0.5) for item in far],
    )


@pytest.mark.parametrize(("run", "kind"), EVERY, indirect=["run"])
def test_our_index_is_searched_through_their_store(run, kind, request):
    index = {**INDEX, "embed": embed}
    expected = searched(Caller(run, LANGGRAPH.InMemoryStore(index=index)))
    assert expected[0] == ["k0", "k1", "other"]
    store = as_langgraph_store(opened("milepost", "Store", kind, request, index=index))
    assert searched(Caller(run, store)) == expected


@pytest.mark.parametrize(("run", "kind"), EVERY, indirect=["run"])
def test_their_index_is_searched_through_our_store(run, kind, request):
    if "sqlite" in kind and not LOADS_EXTENSIONS:
        pytest.skip("LangGraph's SQLite store needs a Python that can load SQLite's extensions")
    index = {**INDEX, "embed": embed}
    expected = searched(Caller(run, MILEPOST.InMemoryStore(index=index)))
    assert expected[0] == ["k0", "k1", "other"]
    store = from_langgraph_store(opened("langgraph", "Store", kind, request, index=index))
    assert searched(Caller(run, store)) == expected


def remembering(lib: Any) -> Any:
    def remember(state: Any, runtime: Any) -> Any:
        before = runtime.store.get(("notes",), "count")
        count = before.value["n"] + 1 if before else 1
        runtime.store.put(("notes",), "count", {"n": count})
        return {"log": [count]}

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


def test_items_are_imported_and_exported_on_postgres(new_database, capsys):
    from langgraph.store.postgres import PostgresStore as TheirPostgresStore

    theirs, ours, back = (new_database() for _ in range(3))
    with TheirPostgresStore.from_conn_string(theirs) as store:
        store.setup()
        put_items(store)
        expected = items_of(store)
    # The tables of a saver need not be there.
    assert main(["import", "--from-langgraph", theirs, "--to", ours]) == 0
    assert "450 store items copied and verified." in capsys.readouterr().out
    from milepost.store.postgres import PostgresStore

    with PostgresStore.from_conn_string(ours) as store:
        assert items_of(store) == expected
    assert main(["export", "--from", ours, "--to-langgraph", back]) == 0
    with TheirPostgresStore.from_conn_string(back) as store:
        assert items_of(store) == expected


def times_of(item: Any) -> Any:
    return item.created_at.timestamp(), item.updated_at.timestamp()


def test_items_keep_their_times_and_what_is_left_of_their_ttl(addresses, tmp_path, capsys):
    from milepost.integrations.langgraph._moving.addresses import our_items, their_items

    theirs, ours = addresses
    with their_items(theirs, writing=True) as shelf:
        born = 1_700_000_000_000_000
        for key, ttl, left in (("stays", None, None), ("goes", 60, 30), ("gone", 60, -1)):
            expires = None if left is None else int((time.time() + left * 60) * 1e6)
            micros = None if ttl is None else ttl * 60_000_000
            shelf.put(
                StoredItem(("a", "b"), key, {"n": 1}, born, born + 7_000_000, micros, expires)
            )
        expected = [shelf.find((("a", "b"), key)) for key in ("stays", "goes")]
    make_threads(theirs)
    assert main(["import", "--from-langgraph", theirs, "--to", ours]) == 0
    assert "2 store items copied and verified." in capsys.readouterr().out
    with our_items(ours) as shelf:
        assert [shelf.find(kept.place) for kept in expected] == expected
        assert shelf.find((("a", "b"), "gone")) is None
        item = shelf._store.get(("a", "b"), "stays")
        assert times_of(item) == (born / 1e6, born / 1e6 + 7)
    back = f"sqlite:///{tmp_path}/back.db"
    assert main(["export", "--from", ours, "--to-langgraph", back]) == 0
    with their_items(back) as shelf:
        assert [shelf.find(kept.place) for kept in expected] == expected


def make_threads(address: str) -> None:
    from milepost.integrations.langgraph._moving.addresses import their_saver

    with their_saver(address):
        """It has made its tables."""


def test_an_item_that_is_newer_in_the_target_is_left(files, capsys):
    from milepost.integrations.langgraph._moving.addresses import our_items, their_items

    theirs, ours = files
    with their_items(theirs, writing=True) as shelf:
        shelf._store.put(("a",), "k", {"n": 1})
    assert main(["import", "--from-langgraph", theirs, "--to", ours]) == 0
    with our_items(ours) as shelf:
        shelf._store.put(("a",), "k", {"n": 2})
    assert main(["import", "--from-langgraph", theirs, "--to", ours]) == 0
    with our_items(ours) as shelf:
        assert shelf._store.get(("a",), "k").value == {"n": 2}


def test_an_item_that_langgraph_cannot_keep_is_named(files, capsys):
    import datetime

    from milepost.integrations.langgraph._moving.addresses import our_items, our_saver, their_items

    theirs, ours = files
    with our_saver(ours), our_items(ours, writing=True) as shelf:
        shelf._store.put(("a",), "plain", {"n": 1})
        shelf._store.put(("a",), "dated", {"n": datetime.timedelta(1)})
    assert main(["export", "--from", ours, "--to-langgraph", theirs]) == 1
    said = capsys.readouterr()
    assert "1 store items copied" in said.out
    assert "not copied: item 'dated' in a:" in said.err
    with their_items(theirs) as shelf:
        assert [kept.key for page in shelf.pages(pytest.fail) for kept in page] == ["plain"]


class TestDamagedItems:
    """One item that cannot be read is named, and the others come over."""

    def filled(self, address: str) -> None:
        from milepost.integrations.langgraph._moving.addresses import their_items

        make_threads(address)
        with their_items(address, writing=True) as shelf:
            for number in range(450):
                shelf._store.put(("a", "b"), f"{number:03}", {"n": number})

    def check(self, theirs: str, ours: str, capsys: Any, why: str) -> None:
        from milepost.integrations.langgraph._moving.addresses import our_items

        assert main(["import", "--quiet", "--from-langgraph", theirs, "--to", ours]) == 1
        said = capsys.readouterr()
        assert "449 store items copied and verified." in said.out
        (line,) = said.err.splitlines()
        assert line.startswith("not copied: item '217' in a.b: ")
        assert why in line
        with our_items(ours) as shelf:
            found = [kept.value["n"] for page in shelf.pages(pytest.fail) for kept in page]
        assert found == [number for number in range(450) if number != 217]

    @pytest.mark.parametrize(
        ("damage", "why"),
        [
            ("value = '{\"n\": 2'", "JSONDecodeError"),
            ("value = '[1, 2]'", "dict"),
            ("value = CAST(x'ff22fe' AS TEXT)", "UTF-8"),
            ("value = x'ff22fe'", "UnicodeDecodeError"),
            ("created_at = 'yesterday'", "yesterday"),
            ("updated_at = x'00'", "bytes"),
            ("ttl_minutes = 'soon'", "soon"),
        ],
    )
    def test_on_sqlite_are_named_and_the_others_move(self, files, capsys, damage, why):
        theirs, ours = files
        self.filled(theirs)
        file = theirs.removeprefix("sqlite:///")
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"UPDATE store SET {damage} WHERE key = '217'")
        connection.close()
        self.check(theirs, ours, capsys, why)

    @pytest.mark.parametrize(
        ("damage", "why"),
        [
            ("value = '[1, 2]'", "dict"),
            ("created_at = 'infinity'", ""),
            ("updated_at = '20000-01-01'", ""),
        ],
    )
    def test_on_postgres_are_named_and_the_others_move(
        self, new_database, tmp_path, capsys, damage, why
    ):
        psycopg = pytest.importorskip("psycopg")
        pytest.importorskip("langgraph.store.postgres")
        theirs, ours = new_database(), f"sqlite:///{tmp_path}/ours.db"
        self.filled(theirs)
        with psycopg.connect(theirs, autocommit=True) as connection:
            connection.execute(f"UPDATE store SET {damage} WHERE key = '217'")
        self.check(theirs, ours, capsys, why)

    def test_of_our_own_store_are_named_on_the_way_back(self, files, capsys):
        from milepost.integrations.langgraph._moving.addresses import (
            our_items,
            our_saver,
            their_items,
        )

        theirs, ours = files
        with our_saver(ours), our_items(ours, writing=True) as shelf:
            for key in "abc":
                shelf._store.put(("n",), key, {"k": key})
        with closing(sqlite3.connect(ours.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute("UPDATE milepost_items SET data = x'c1' WHERE key = 'b'")
        connection.close()
        assert main(["export", "--from", ours, "--to-langgraph", theirs]) == 1
        said = capsys.readouterr()
        assert "2 store items copied" in said.out
        assert "not copied: item 'b' in n: it cannot be read" in said.err
        with their_items(theirs) as shelf:
            assert [kept.key for page in shelf.pages(pytest.fail) for kept in page] == ["a", "c"]

    def test_a_store_that_cannot_be_read_at_all_does_not_hide_what_was_copied(self, files, capsys):
        theirs, ours = files
        make_threads(theirs)
        file = theirs.removeprefix("sqlite:///")
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE store (something)")
        connection.close()
        assert main(["import", "--from-langgraph", theirs, "--to", ours]) == 1
        said = capsys.readouterr()
        assert "0 threads: 0 checkpoints" in said.out
        assert "not copied: the other items of the store: " in said.err
