"""A version of an item is never used twice, whatever the clock does."""

from __future__ import annotations

import pytest

from milepost.errors import VersionConflict
from milepost.store.base import PutOp

NS = ("notes",)


def versions(stores, clock, between):
    """The versions of an item before and after something that removes it, in two processes."""
    first = stores.open(clock=clock)
    first.put(NS, "k", {"n": 1}, ttl=1)
    first.put(NS, "k", {"n": 2}, ttl=1)
    old = first.get(NS, "k", refresh_ttl=False).version
    # Another process knows nothing of the stamps of this one.
    second = stores.open(clock=clock) if stores.is_durable else first
    between(second)
    second.put(NS, "k", {"n": 3})
    return second, old, second.get(NS, "k").version


@pytest.mark.parametrize("step", [0, -3600])
class TestAfterItWasRemoved:
    def check(self, found):
        store, old, new = found
        assert new > old
        with pytest.raises(VersionConflict):
            store.put(NS, "k", {"n": 4}, if_version=old)

    def test_by_a_delete_its_next_version_is_larger(self, stores, clock, step):
        def between(store):
            store.delete(NS, "k")
            clock.seconds += step

        self.check(versions(stores, clock, between))

    def test_by_a_batch_its_next_version_is_larger(self, stores, clock, step):
        def between(store):
            store.batch([PutOp(NS, "k", None), PutOp(NS, "other", {})])
            clock.seconds += step

        self.check(versions(stores, clock, between))

    def test_by_a_sweep_its_next_version_is_larger(self, stores, clock, step):
        def between(store):
            clock.pass_minutes(2)
            assert store.sweep_ttl() == 1
            clock.pass_minutes(-2)
            clock.seconds += step

        self.check(versions(stores, clock, between))

    def test_and_put_again_in_a_batch_its_version_is_larger(self, stores, clock, step):
        def between(store):
            store.delete(NS, "k")
            clock.seconds += step
            store.batch([PutOp(NS, "k", {}), PutOp(NS, "other", {}), PutOp(NS, "k", {}, ttl=1)])

        self.check(versions(stores, clock, between))

    def test_and_put_again_if_it_is_not_there_its_version_is_larger(self, stores, clock, step):
        def between(store):
            store.delete(NS, "k")
            clock.seconds += step
            store.put(NS, "k", {}, if_version=0)

        self.check(versions(stores, clock, between))


def test_versions_of_other_items_are_as_the_clock_says(stores, clock):
    store = stores.open(clock=clock)
    for number in range(200):
        store.put(NS, str(number), {})
    store.batch([PutOp(NS, str(number), None) for number in range(200)])
    clock.pass_minutes(1)
    store.put(NS, "k", {})
    assert store.get(NS, "k").version == int(clock() * 1_000_000)


def test_a_database_of_an_older_milepost_is_brought_up_to_date(stores):
    if not stores.has_sql or stores.is_async:
        pytest.skip("a SQL database, behind its store's back")
    from milepost.store._sql.schema import schema

    store = stores.open()
    store.put(NS, "k", {"n": 1})
    for statement in (
        "DROP TABLE milepost_deleted",
        "DROP INDEX milepost_items_lacking",
        "DELETE FROM milepost_store_migrations WHERE v > 0",
    ):
        store.store.conn.execute(statement)
        store.store.conn.commit()
    assert len(schema("sqlite").migrations) == 3
    again = stores.open()
    assert again.get(NS, "k").value == {"n": 1}
    old = again.get(NS, "k").version
    again.delete(NS, "k")
    again.put(NS, "k", {"n": 2})
    assert again.get(NS, "k").version > old
