"""Items that expire. The clock is the test's own."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from milepost._db.sweeper import Sweeper
from milepost.errors import VersionConflict
from milepost.store.base import GetOp, PutOp, SearchOp
from milepost.warnings import MilepostWarning

NS = ("session",)


def keys(items):
    return [item.key for item in items]


@pytest.fixture
def store(stores, clock):
    return stores.open(clock=clock)


class TestExpiry:
    def test_an_expired_item_is_never_returned_swept_or_not(self, store, clock):
        store.put(NS, "short", {"n": 1}, ttl=1)
        store.put(("other",), "long", {}, ttl=60)
        store.put(("third",), "ever", {})
        clock.pass_minutes(1)
        assert store.get(NS, "short") is None
        assert store.batch([GetOp(NS, "short"), GetOp(("third",), "ever")])[0] is None
        assert sorted(keys(store.search(()))) == ["ever", "long"]
        assert store.search((), filter={"n": 1}) == []
        assert store.list_namespaces() == [("other",), ("third",)]
        assert store.sweep_ttl() == 1
        assert store.sweep_ttl() == 0
        assert sorted(keys(store.search(()))) == ["ever", "long"]

    def test_until_then_it_is_there(self, store, clock):
        store.put(NS, "k", {}, ttl=1.5)
        clock.pass_minutes(1.49)
        assert store.get(NS, "k") is not None

    def test_a_put_sets_the_time_anew(self, store, clock):
        store.put(NS, "k", {}, ttl=1)
        store.put(NS, "k", {})
        clock.pass_minutes(5)
        assert store.get(NS, "k") is not None

    def test_its_successor_is_a_new_item(self, store, clock):
        store.put(NS, "k", {"n": 1}, ttl=1)
        old = store.get(NS, "k", refresh_ttl=False)
        clock.pass_minutes(2)
        with pytest.raises(VersionConflict):
            store.put(NS, "k", {"n": 2}, if_version=old.version)
        store.put(NS, "k", {"n": 2}, if_version=0)
        assert store.get(NS, "k").created_at > old.created_at

    @pytest.mark.parametrize("ttl", ["soon", True])
    def test_must_be_a_number(self, store, ttl):
        with pytest.raises(ValueError, match="minutes"):
            store.put(NS, "k", {}, ttl=ttl)

    @pytest.mark.parametrize("ttl", [0, -1])
    def test_an_item_whose_time_is_over_is_put_with_a_warning(self, store, clock, ttl, monkeypatch):
        with pytest.warns(MilepostWarning, match="positive number of minutes"):
            store.put(NS, "k", {}, ttl=ttl)
        clock.pass_minutes(1)
        assert store.get(NS, "k") is None
        monkeypatch.setenv("MILEPOST_STRICT", "1")
        with pytest.raises(ValueError, match="positive number of minutes"):
            store.put(NS, "k", {}, ttl=ttl)


class TestRefresh:
    def test_reading_starts_the_time_anew(self, store, clock):
        store.put(NS, "got", {}, ttl=10)
        store.put(NS, "found", {}, ttl=10)
        store.put(NS, "idle", {}, ttl=10)
        clock.pass_minutes(6)
        store.get(NS, "got")
        store.search(NS, limit=1, order="key")
        clock.pass_minutes(6)
        assert sorted(keys(store.search(NS))) == ["found", "got"]

    def test_unless_told_otherwise(self, store, clock):
        store.put(NS, "k", {}, ttl=10)
        clock.pass_minutes(6)
        store.get(NS, "k", refresh_ttl=False)
        store.search(NS, refresh_ttl=False)
        store.batch([GetOp(NS, "k", False), SearchOp(NS, refresh_ttl=False)])
        clock.pass_minutes(6)
        assert store.get(NS, "k") is None

    def test_the_store_can_say_so_for_all(self, stores, clock):
        store = stores.open(clock=clock, ttl={"refresh_on_read": False})
        store.put(NS, "k", {}, ttl=10)
        clock.pass_minutes(6)
        store.get(NS, "k")
        assert store.get(NS, "k", refresh_ttl=True) is not None
        clock.pass_minutes(6)
        assert store.get(NS, "k") is not None
        clock.pass_minutes(6)
        assert store.get(NS, "k") is None

    def test_does_not_count_as_a_change(self, store, clock):
        store.put(NS, "k", {}, ttl=10)
        version = store.get(NS, "k").version
        assert store.get(NS, "k").version == version


class TestConfig:
    def test_a_default_for_items_without_a_ttl(self, stores, clock):
        store = stores.open(clock=clock, ttl={"default_ttl": 5})
        store.put(NS, "default", {})
        store.put(NS, "ever", {}, ttl=None)
        store.put(NS, "own", {}, ttl=20)
        store.batch([PutOp(NS, "op", {})])
        clock.pass_minutes(6)
        assert sorted(keys(store.search(NS))) == ["ever", "op", "own"]

    def test_a_setting_that_does_not_exist_is_refused(self, stores):
        with pytest.raises(ValueError, match="default_ttl"):
            stores.open(ttl={"defualt_ttl": 5})


class TestSweeper:
    def test_sweeps_at_intervals_until_it_is_stopped(self):
        swept = threading.Semaphore(0)

        def sweep():
            swept.release()
            return 0

        sweeper = Sweeper("SqliteStore")
        done = sweeper.start(0.0005, sweep)
        assert sweeper.start(0.0005, sweep) is done
        assert swept.acquire(timeout=30)
        assert swept.acquire(timeout=30)
        assert sweeper.stop(timeout=30)
        assert done.result(timeout=30) is None
        assert sweeper.stop()

    def test_a_failure_ends_it_and_shows_in_the_future(self):
        def sweep():
            raise OSError("disk")

        sweeper = Sweeper("SqliteStore")
        with pytest.raises(OSError, match="disk"):
            sweeper.start(0.0005, sweep).result(timeout=30)
        assert sweeper.stop(timeout=30)

    def test_of_a_store_that_failed_is_started_with_its_new_interval(self, stores, monkeypatch):
        store = stores.open()
        real, failing = store.store, threading.Event()
        sweep, swept = real._core.sweep, threading.Event()

        def sweeping():
            if not failing.is_set():
                failing.set()
                raise OSError("disk")
            swept.set()
            return sweep()

        monkeypatch.setattr(real._core, "sweep", sweeping)
        if stores.is_async and stores.is_durable:

            async def play(real):
                with pytest.raises(OSError, match="disk"):
                    await (await real.start_ttl_sweeper(0.00001))
                again = await real.start_ttl_sweeper(0.00001)
                assert await asyncio.to_thread(swept.wait, 30)
                assert not again.done()
                assert await real.stop_ttl_sweeper(timeout=30)

            store.run(play)
        else:
            with pytest.raises(OSError, match="disk"):
                real.start_ttl_sweeper(0.00001).result(timeout=30)
            real.start_ttl_sweeper(0.00001)
            assert swept.wait(30)
            assert real.stop_ttl_sweeper(timeout=30)

    def test_of_a_store_starts_and_stops(self, stores, clock):
        store = stores.open(clock=clock, ttl={"sweep_interval_minutes": 60})
        if stores.is_async and stores.is_durable:

            async def play(real):
                task = await real.start_ttl_sweeper()
                assert await real.start_ttl_sweeper() is task
                assert not task.done()
                assert await real.stop_ttl_sweeper(timeout=30)
                return task.cancelled()

            assert store.run(play)
        else:
            done = store.store.start_ttl_sweeper()
            assert not done.done()
            assert store.store.stop_ttl_sweeper(timeout=30)
            assert done.result(timeout=30) is None


@pytest.mark.parametrize("goes_on", [False, True], ids=["ends", "waits again"])
def test_an_async_sweeper_ends_though_a_sweep_swallows_its_cancellation(monkeypatch, goes_on):
    """As a connection pool may do while it connects, or go on and wait for a connection."""
    from milepost.store.sqlite.aio import AsyncSqliteStore

    async def stopped() -> bool:
        is_sweeping, wakes = asyncio.Event(), asyncio.Event()

        async def swallowing(self: AsyncSqliteStore) -> int:
            is_sweeping.set()
            with contextlib.suppress(asyncio.CancelledError):
                await wakes.wait()
            if goes_on:
                await wakes.wait()
            return 0

        monkeypatch.setattr(AsyncSqliteStore, "asweep_ttl", swallowing)
        async with AsyncSqliteStore.from_conn_string(":memory:") as store:
            await store.start_ttl_sweeper(0.00001)
            await is_sweeping.wait()
            return await store.stop_ttl_sweeper(timeout=30)

    assert asyncio.run(stopped())
