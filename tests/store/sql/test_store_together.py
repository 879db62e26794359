"""Two operations on one item at once, on PostgreSQL: each is done as a whole, or not at all."""

from __future__ import annotations

import pytest
from embedders import Model
from stepping import Side, pause, until_blocked

pytest.importorskip("psycopg")
import psycopg

from milepost.store.base import PutOp, SearchOp

NS = ("notes",)
INDEX = {"embed": Model(), "dims": 3, "fields": ["text"], "model": "one"}


pytestmark = pytest.mark.parametrize("stores", ["postgres-sync"], indirect=True)


@pytest.fixture
def raw(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


def keys(items):
    return [item.key for item in items]


def vectors(stores):
    return stores.rows("SELECT item FROM milepost_vectors_1")


class TestASweep:
    @pytest.fixture
    def late(self, clock):
        """A clock that is a little ahead: by it the items have expired."""
        return lambda: clock() + 2

    def begun(self, stores, late, clock):
        """A store whose item is being swept, the sweeper, and what it waits for."""
        store = stores.open(index=INDEX, clock=clock)
        store.put(NS, "k", {"text": "a"}, ttl=1)
        clock.pass_minutes(59 / 60)
        sweeping = stores.open(index=INDEX, clock=late)
        gate = pause(sweeping.store, "DELETE FROM milepost_items")
        side = Side(sweeping.sweep_ttl)
        assert gate.reached.wait(60)
        return store, side, gate

    def test_beside_a_refresh_leaves_no_item_without_its_vector(self, stores, raw, late, clock):
        store, sweep, gate = self.begun(stores, late, clock)
        reader = Side(lambda: store.get(NS, "k"))
        until_blocked(reader, raw)
        gate.opened.set()
        reader.join()
        sweep.join()
        is_there = store.get(NS, "k", refresh_ttl=False) is not None
        assert keys(store.search(NS, query="a")) == (["k"] if is_there else [])
        assert len(vectors(stores)) == is_there

    def test_beside_a_put_leaves_the_item_with_its_vector(self, stores, raw, late, clock):
        store, sweep, gate = self.begun(stores, late, clock)
        writer = Side(lambda: store.put(NS, "k", {"text": "a", "n": 2}))
        until_blocked(writer, raw)
        gate.opened.set()
        writer.join()
        sweep.join()
        assert [item.value["n"] for item in store.search(NS, query="a")] == [2]
        assert len(vectors(stores)) == 1

    def test_leaves_what_another_transaction_has_locked_and_does_not_wait(
        self, stores, raw, late, clock
    ):
        store = stores.open(index=INDEX, clock=clock)
        for key in "ab":
            store.put(NS, key, {"text": key}, ttl=1)
        clock.pass_minutes(1)
        sweeping = stores.open(index=INDEX, clock=late)
        with raw.transaction():
            raw.execute("SELECT 1 FROM milepost_items WHERE key = 'a' FOR UPDATE")
            assert sweeping.sweep_ttl() == 1
        assert sweeping.sweep_ttl() == 1
        assert vectors(stores) == []

    def test_of_many_items_is_several_transactions(self, stores, late, clock, monkeypatch):
        from milepost.store._sql import core
        from milepost.store._sql import write as writing

        monkeypatch.setattr(core, "SWEPT_AT_ONCE", 3)
        monkeypatch.setattr(writing, "SWEPT_AT_ONCE", 3)
        store = stores.open(index=INDEX, clock=clock)
        store.batch([PutOp(NS, str(n), {"text": "a"}, ttl=1) for n in range(8)])
        clock.pass_minutes(1)
        assert stores.open(index=INDEX, clock=late).sweep_ttl() == 8
        assert vectors(stores) == []


class TestADelete:
    def test_beside_a_put_leaves_no_vector_without_an_item(self, stores, raw):
        store = stores.open(index=INDEX)
        store.put(NS, "k", {"text": "a"})
        with raw.transaction():
            # What a put does, up to its end.
            raw.execute("UPDATE milepost_items SET updated = updated + 1")
            raw.execute("DELETE FROM milepost_vectors_1")
            raw.execute(
                "INSERT INTO milepost_vectors_1 (item, vector)"
                " SELECT id, '[1, 2, 3]' FROM milepost_items"
            )
            delete = Side(lambda: store.delete(NS, "k"))
            until_blocked(delete, raw)
        delete.join()
        assert store.get(NS, "k") is None
        assert vectors(stores) == []

    def test_by_a_store_that_knows_of_no_vectors_takes_them_along(self, stores):
        plain = stores.open()
        plain.put(NS, "other", {})
        store = stores.open(index=INDEX)
        store.put(NS, "k", {"text": "a"})
        plain.delete(NS, "k")
        assert vectors(stores) == []

    def test_that_expects_no_item_leaves_one_that_is_put_meanwhile(self, stores):
        store, other = stores.open(), stores.open()
        gate = pause(store.store, "DELETE FROM milepost_items")
        delete = Side(lambda: store.batch([PutOp(NS, "k", None, if_version=0)]))
        while not (delete.ended or gate.reached.wait(0.01)):
            pass
        other.put(NS, "k", {"n": 1})
        gate.opened.set()
        delete.join()
        assert store.get(NS, "k").value == {"n": 1}


class TestABatch:
    def test_that_reads_and_writes_reads_one_state(self, stores):
        store, other = stores.open(), stores.open()
        other.put(("left",), "x", {})
        gate = pause(store.store, "right.")
        wanted = [SearchOp(("left",)), SearchOp(("right",)), PutOp(NS, "k", {"n": 1})]
        batch = Side(lambda: store.batch(wanted))
        assert gate.reached.wait(60)
        other.batch([PutOp(("left",), "x", None), PutOp(("right",), "x", {})])
        gate.opened.set()
        left, right, _ = batch.join()
        assert (keys(left), keys(right)) == (["x"], [])
        assert store.get(NS, "k").value == {"n": 1}


class TestARefresh:
    def test_does_not_bring_back_what_has_expired_meanwhile(self, stores, clock):
        store = stores.open(clock=clock)
        store.put(NS, "k", {}, ttl=1)
        times = iter([clock.seconds + 59, clock.seconds + 61])
        store.store._core.stamps._clock = lambda: next(times)
        assert store.get(NS, "k") is not None
        clock.pass_minutes(1.5)
        assert stores.open(clock=clock).get(NS, "k") is None


@pytest.mark.parametrize("if_version", [None, 0])
@pytest.mark.parametrize("alone", [True, False])
def test_a_version_is_larger_than_that_of_an_item_whose_delete_the_put_waits_for(
    stores, raw, postgres, clock, if_version, alone
):
    store, deleting, putting = (stores.open(clock=clock) for _ in range(3))
    for number in range(3):  # its version is ahead of the clock, which stands still
        store.put(NS, "k", {"n": number})
    old = store.get(NS, "k").version
    rest = [] if alone else [PutOp(NS, "other", {})]
    with psycopg.connect(postgres) as holder:
        holder.execute("SELECT 1 FROM milepost_items WHERE key = 'k' FOR UPDATE")
        delete = Side(lambda: deleting.batch([PutOp(NS, "k", None), *rest]))
        until_blocked(delete, raw)
        put = Side(lambda: putting.batch([PutOp(NS, "k", {"n": 4}, if_version=if_version), *rest]))
        until_blocked(put, raw, 2)
    delete.join()
    put.join()
    assert store.get(NS, "k").value == {"n": 4}
    assert store.get(NS, "k").version > old


def test_a_refresh_by_a_clock_that_is_behind_shortens_no_life(stores, clock):
    store = stores.open(clock=clock)
    store.put(NS, "k", {}, ttl=1)
    behind = stores.open(clock=lambda: clock() - 10)
    assert behind.get(NS, "k") is not None
    clock.seconds += 55
    assert store.get(NS, "k", refresh_ttl=False) is not None


def test_a_search_finds_all_though_two_reindexes_end_before_it_does(stores, monkeypatch):
    from milepost.store._core import engine_core as core

    store = stores.open(index=INDEX)
    for key in "abc":
        store.put(NS, key, {"text": key})
    other = stores.open(index=INDEX)
    embed_lacking = core.embed_lacking
    left = [2, 1]

    def all_lack() -> None:
        """As a reindex leaves the few items that were put since its last look."""
        store.store.conn.execute("UPDATE milepost_items SET indexed = -1")
        store.store.conn.commit()

    def late(searching, where):
        """Another reindex ends while this store makes what the one before it has left."""
        yield from embed_lacking(searching, where)
        if left:
            left.pop()
            other.reindex()
            all_lack()

    all_lack()
    monkeypatch.setattr(core, "embed_lacking", late)
    assert sorted(keys(store.search(NS, query="a"))) == ["a", "b", "c"]
    assert left == []
