"""What a store's index and constructor can be told, beside LangGraph's stores told the same."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from milepost.errors import InvalidNamespaceError
from milepost.store.base import GetOp, Item, PutOp
from milepost.store.base.batch import AsyncBatchedBaseStore
from milepost.store.memory import InMemoryStore
from milepost.store.sqlite import SqliteStore

VECTORS = {
    "query": [1.0, 1.0, 0.0],
    "near": [2.0, 1.5, 0.5],
    "long": [9.0, 9.0, 1.0],
    "other": [0.0, 0.5, 2.0],
    "opposite": [-1.0, -1.0, -0.5],
}


def embed(texts: Any) -> list[list[float]]:
    return [VECTORS[text] for text in texts]


def index(**more: Any) -> Any:
    return {"dims": 3, "embed": embed, "fields": ["text"], **more}


def fill(store: Any) -> None:
    for name in VECTORS:
        if name != "query":
            store.put(("n",), name, {"text": name})


def found(store: Any) -> list[tuple[str, float]]:
    return [(item.key, round(item.score, 2)) for item in store.search(("n",), query="query")]


@pytest.mark.parametrize("distance", ["l2", "inner_product", "cosine"])
@pytest.mark.parametrize(
    "ann",
    [
        {"kind": "hnsw", "m": 8, "ef_construction": 32},
        {"kind": "ivfflat", "nlist": 2},
        {"kind": "flat"},
        {"kind": "hnsw", "vector_type": "halfvec"},
    ],
    ids=["hnsw", "ivfflat", "flat", "halfvec"],
)
def test_a_distance_ranks_and_scores_as_in_langgraph(new_database, distance, ann):
    pytest.importorskip("psycopg")
    from langgraph.store.postgres import PostgresStore as Theirs

    from milepost.store.postgres import PostgresStore

    settings = index(distance_type=distance, ann_index_config=ann)
    address = new_database()
    with Theirs.from_conn_string(address, index=settings) as store:
        store.setup()
        fill(store)
        expected = found(store)
    with PostgresStore.from_conn_string(address, index=settings) as store:
        fill(store)
        assert [(k, pytest.approx(s, abs=0.02)) for k, s in expected] == found(store)
        names = store.conn.execute(
            "SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'milepost%'"
        ).fetchall()
        kinds = [name for (name,) in names if "USING hnsw" in name or "USING ivfflat" in name]
        assert len(kinds) == (ann["kind"] != "flat")
        if ann.get("m"):
            assert "m='8'" in kinds[0]
            assert "ef_construction='32'" in kinds[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"distance_type": "hamming"}, "distance_type must be one of"),
        ({"ann_index_config": {"kind": "tree"}}, "kind must be one of"),
        ({"ann_index_config": {"kind": "flat", "m": 8}}, "does not have: \\['m'\\]"),
    ],
)
def test_what_pgvector_does_not_know_is_refused(new_database, settings, message):
    pytest.importorskip("psycopg")
    from milepost.store.postgres import PostgresStore

    with (
        pytest.raises(ValueError, match=message),
        PostgresStore.from_conn_string(new_database(), index=index(**settings)),
    ):
        pass


def test_text_fields_is_another_name_for_fields():
    settings = index(text_fields="text")
    del settings["fields"]
    store = InMemoryStore(index=settings)
    fill(store)
    assert found(store)[0][0] == "long"


def test_a_store_shows_what_makes_its_vectors():
    assert InMemoryStore(index=index()).embeddings.embed_query("near") == VECTORS["near"]
    assert InMemoryStore().embeddings is None


@pytest.mark.parametrize(
    "opened", [InMemoryStore, partial(SqliteStore.from_conn_string, ":memory:")]
)
def test_a_deserializer_makes_the_values_of_items(opened):
    with opened(deserializer=lambda text: {"read": json.loads(text)}) as store:
        store.put(("n",), "k", {"a": 1})
        assert store.get(("n",), "k").value == {"read": {"a": 1}}


def test_calls_of_one_tick_go_into_one_batch_and_each_gets_its_own_result():
    batches: list[list[Any]] = []

    class Store(AsyncBatchedBaseStore):
        def __init__(self) -> None:
            super().__init__()
            self.items: dict[Any, Any] = {}

        def batch(self, ops: Any) -> Any:
            raise NotImplementedError

        async def abatch(self, ops: Any) -> Any:
            batches.append(list(ops))
            results = [self.items.get((op.namespace, op.key)) for op in batches[-1]]
            for op in batches[-1]:
                if isinstance(op, PutOp):
                    self.items[op.namespace, op.key] = op.value
            return results

    async def use() -> Any:
        store = Store()
        await asyncio.gather(store.aput(("n",), "k", {"v": 1}), store.aput(("n",), "k", {"v": 2}))
        return await asyncio.gather(
            store.aget(("n",), "k"), store.aget(("n",), "k"), store.aget(("n",), "none")
        )

    assert asyncio.run(use()) == [{"v": 2}, {"v": 2}, None]
    assert [len(batch) for batch in batches] == [1, 2]
    assert isinstance(batches[1][0], GetOp)


def test_a_put_on_a_condition_is_not_replaced_by_another_one_of_its_tick():
    class Store(AsyncBatchedBaseStore):
        supports_versions = True

        def __init__(self) -> None:
            super().__init__()
            self.inner = InMemoryStore()

        def batch(self, ops: Any) -> Any:
            return self.inner.batch(ops)

        async def abatch(self, ops: Any) -> Any:
            return await self.inner.abatch(ops)

    async def use() -> tuple[Any, Any]:
        store = Store()
        puts = (store.aput(("n",), "k", {"v": n}, if_version=0) for n in (1, 2))
        return await asyncio.gather(*puts, return_exceptions=True), await store.aget(("n",), "k")

    results, item = asyncio.run(use())
    stored = [{"v": n} for n, result in zip((1, 2), results, strict=True) if result is None]
    assert stored == ([] if item is None else [item.value])


def test_a_batch_that_fails_fails_for_each_of_its_callers():
    class Store(AsyncBatchedBaseStore):
        def batch(self, ops: Any) -> Any:
            raise NotImplementedError

        async def abatch(self, ops: Any) -> list[Item]:
            raise OSError("gone")

    async def use() -> Any:
        store = Store()
        calls = (store.aget(("n",), key) for key in "ab")
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [str(error) for error in asyncio.run(use())] == ["gone", "gone"]


@pytest.mark.parametrize("namespace", [("a.b",), ("a", ""), ("a\0",), (1,)])
def test_a_call_with_a_wrong_namespace_fails_alone_and_before_the_batch(namespace):
    batches: list[Any] = []

    class Store(AsyncBatchedBaseStore):
        def batch(self, ops: Any) -> Any:
            batches.append(ops)
            return [None for _ in ops]

        async def abatch(self, ops: Any) -> Any:
            return self.batch(ops)

    async def use() -> list[Any]:
        store = Store()
        for call in (
            lambda: store.get(namespace, "k"),
            lambda: store.delete(namespace, "k"),
            lambda: store.search(namespace),
            lambda: store.list_namespaces(suffix=namespace),
        ):
            with pytest.raises(InvalidNamespaceError):
                call()
        return await asyncio.gather(
            store.aget(("n",), "k"),
            store.aget(namespace, "k"),
            store.adelete(namespace, "k"),
            store.asearch(namespace),
            store.alist_namespaces(prefix=namespace),
            return_exceptions=True,
        )

    good, *wrong = asyncio.run(use())
    assert good is None
    assert [type(error) for error in wrong] == [InvalidNamespaceError] * 4
    assert batches == [[GetOp(("n",), "k")]]
