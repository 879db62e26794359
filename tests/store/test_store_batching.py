"""Async batching, cancellation and concurrency."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from embedders import AsyncModel, Model

from milepost.errors import SerializationError, VersionConflict

NS = ("n",)


def keys(items):
    return [item.key for item in items]


@pytest.fixture
def astores(stores):
    if not stores.is_async:
        pytest.skip("about event loops")
    return stores


def count_transactions(store):
    """Every round trip to the database from now on."""
    seen = []
    if store._engine is not None:  # in memory there are no transactions
        real = store._engine.arun

        async def counted(work, *, write):
            seen.append(work)
            return await real(work, write=write)

        store._engine.arun = counted
    return seen


class TestOneTick:
    def test_is_one_transaction_or_one_for_reads_and_one_for_writes(self, astores):
        face = astores.open()
        face.put(NS, "warm", {})

        async def play(store):
            seen = count_transactions(store)
            results = await asyncio.gather(
                *(store.aput(NS, str(n), {"n": n}) for n in range(20)),
                *(store.aget(NS, "warm") for _ in range(20)),
                store.asearch(NS),
                store.alist_namespaces(),
            )
            return seen, results

        seen, results = face.run(play)
        # On PostgreSQL a transaction that writes has no snapshot for all of its reads.
        counts = {"memory": 0, "sqlite": 1, "postgres": 2, "redis": 1}
        assert len(seen) == counts[astores.backend]
        assert {item.key for item in results[20:40]} == {"warm"}
        assert len(face.search(NS, limit=100)) == 21

    def test_is_one_call_of_the_model(self, astores):
        model = AsyncModel()
        face = astores.open(index={"embed": model, "dims": 3})

        async def play(store):
            await asyncio.gather(
                *(store.aput(NS, str(n), {"text": "a" * n}) for n in range(5)),
                store.asearch(NS, query="a"),
                store.asearch(NS, query="b"),
            )

        face.run(play)
        assert [len(call) for call in model.calls] == [5, 2]

    def test_what_was_put_is_what_it_was_at_the_call(self, astores):
        face = astores.open()

        async def play(store):
            value = {"n": 1}
            put = asyncio.ensure_future(store.aput(NS, "k", value))
            await asyncio.sleep(0)
            value["n"] = 2
            await put

        face.run(play)
        assert face.get(NS, "k").value == {"n": 1}

    def test_writes_to_one_key_keep_their_order(self, astores):
        face = astores.open()

        async def play(store):
            await asyncio.gather(*(store.aput(NS, "k", {"n": n}) for n in range(30)))

        face.run(play)
        assert face.get(NS, "k").value == {"n": 29}


class TestOneFailureIsNobodyElses:
    def test_a_conflict_is_told_to_its_caller_alone(self, astores):
        face = astores.open()
        face.put(NS, "k", {"n": 0})
        version = face.get(NS, "k").version

        async def play(store):
            return await asyncio.gather(
                store.aput(NS, "a", {}),
                store.aput(NS, "k", {"n": 1}, if_version=version),
                store.aput(NS, "k", {"n": 2}, if_version=version),
                store.aput(NS, "new", {"n": 1}, if_version=0),
                store.aput(NS, "new", {"n": 2}, if_version=0),
                store.aput(NS, "b", {}),
                return_exceptions=True,
            )

        results = face.run(play)
        assert [type(result).__name__ for result in results] == [
            "NoneType",
            "NoneType",
            "VersionConflict",
            "NoneType",
            "VersionConflict",
            "NoneType",
        ]
        assert sorted(keys(face.search(NS))) == ["a", "b", "k", "new"]
        assert face.get(NS, "k").value == {"n": 1}

    def test_a_value_that_is_refused_fails_its_put_alone(self, astores):
        face = astores.open()

        async def play(store):
            return await asyncio.gather(
                store.aput(NS, "a", {}),
                store.aput(NS, "bad", {"x": object()}),
                store.aput(NS, "b", {}),
                return_exceptions=True,
            )

        assert isinstance(face.run(play)[1], SerializationError)
        assert sorted(keys(face.search(NS))) == ["a", "b"]

    def test_a_text_that_the_model_refuses_fails_its_put_alone(self, astores):
        class Picky(AsyncModel):
            async def __call__(self, texts):
                if any("poison" in text for text in texts):
                    raise RuntimeError("too long")
                return await super().__call__(texts)

        face = astores.open(index={"embed": Picky(), "dims": 3})

        async def play(store):
            return await asyncio.gather(
                store.aput(NS, "a", {"text": "a"}),
                store.aput(NS, "bad", {"text": "poison"}),
                store.aput(NS, "b", {"text": "b"}),
                return_exceptions=True,
            )

        results = face.run(play)
        assert isinstance(results[1], RuntimeError)
        assert keys(face.search(NS, query="b")) == ["b", "a"]


class TestCancellation:
    def test_of_some_harms_none_of_the_others(self, astores):
        face = astores.open()
        face.put(NS, "warm", {})

        async def play(store):
            tasks = [asyncio.ensure_future(store.aput(NS, str(n), {"n": n})) for n in range(30)]
            tasks += [asyncio.ensure_future(store.aget(NS, "warm")) for _ in range(30)]
            await asyncio.sleep(0)
            for task in tasks[::3]:
                task.cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

        results = face.run(play)
        for number, result in enumerate(results):
            if number % 3 == 0 and astores.is_durable:
                assert isinstance(result, asyncio.CancelledError)
            elif number < 30:
                assert result is None
            else:
                assert result.key == "warm"
        found = keys(face.search(NS, limit=100))
        assert {str(n) for n in range(30) if n % 3} <= set(found)

    def test_reads_work_after_a_storm_of_them(self, astores):
        model = AsyncModel()
        face = astores.open(index={"embed": model, "dims": 3})
        face.put(NS, "warm", {"text": "a"})

        async def play(store):
            for round in range(20):
                tasks = [
                    asyncio.ensure_future(operation)
                    for operation in (
                        store.aget(NS, "warm"),
                        store.asearch(NS, query="a"),
                        store.aput(NS, "x", {"text": "b", "round": round}),
                        store.asearch(NS, filter={"round": round}),
                    )
                ]
                for _ in range(round % 4):
                    await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            found = await asyncio.wait_for(store.asearch(NS, query="a"), 30)
            item = await asyncio.wait_for(store.aget(NS, "warm"), 30)
            return found, item

        found, item = face.run(play)
        assert found[0].key == item.key == "warm"


class TestConcurrency:
    def test_of_many_threads_each_update_counts(self, stores):
        if stores.is_async:
            pytest.skip("about threads")
        stores.open().put(NS, "counter", {"n": 0})

        def work(store):
            for _ in range(10):
                while True:
                    item = store.get(NS, "counter")
                    try:
                        store.put(
                            NS, "counter", {"n": item.value["n"] + 1}, if_version=item.version
                        )
                    except VersionConflict:
                        continue
                    break

        shared = stores.open()
        own = [shared if not stores.is_durable else stores.open() for _ in range(4)]
        if not stores.is_durable:
            shared.put(NS, "counter", {"n": 0})
        threads = [threading.Thread(target=work, args=(face.store,)) for face in own]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert own[0].get(NS, "counter").value == {"n": 40}

    def test_of_many_creators_one_succeeds(self, stores):
        if stores.is_async or not stores.is_durable:
            pytest.skip("about threads with connections of their own")
        faces = [stores.open() for _ in range(4)]
        for round in range(5):
            outcomes = []

            def create(face, round=round, outcomes=outcomes):
                try:
                    face.store.put(NS, f"k{round}", {}, if_version=0)
                    outcomes.append(True)
                except VersionConflict:
                    outcomes.append(False)

            threads = [threading.Thread(target=create, args=(face,)) for face in faces]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert sorted(outcomes) == [False, False, False, True]

    def test_of_two_writers_to_one_item_the_last_ones_vector_remains(self, stores):
        if stores.is_async or not stores.is_durable:
            pytest.skip("one writer at a time")
        index = {"embed": Model(), "dims": 3, "fields": ["text"]}
        writers = {"aab": stores.open(index=index), "abb": stores.open(index=index)}
        for store in writers.values():
            store.setup()
        together = threading.Barrier(2)

        def write(text):
            together.wait()
            for number in range(15):
                writers[text].put(NS, "x", {"text": text, "n": number})

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(write, writers))
        store = writers["aab"]
        if stores.has_sql:
            assert len(stores.rows("SELECT id FROM milepost_vectors_1")) == 1
        text = store.get(NS, "x").value["text"]
        assert store.search(NS, query=text)[0].score == pytest.approx(1.0, abs=1e-5)

    def test_a_store_can_be_used_on_several_loops(self, stores):
        if stores.is_async or stores.backend == "postgres":
            pytest.skip("an async connection belongs to one loop")
        store = stores.open().store

        async def play(key):
            await store.aput(NS, key, {})
            return await store.aget(NS, key)

        assert asyncio.run(play("a")).key == "a"
        assert asyncio.run(play("b")).key == "b"
        assert sorted(keys(store.search(NS))) == ["a", "b"]

    def test_a_sync_model_does_not_block_the_loop(self, astores):
        loop_thread = []

        class Watching(Model):
            def __call__(self, texts):
                loop_thread.append(threading.current_thread() is threading.main_thread())
                return super().__call__(texts)

        face = astores.open(index={"embed": Watching(), "dims": 3})
        face.put(NS, "k", {"text": "a"})
        assert loop_thread == [False]
