"""Several stores at once on one database, for a few seconds: what was acknowledged is found."""

from __future__ import annotations

import random
import threading
from contextlib import suppress

import pytest
from embedders import Model
from stepping import LIMIT

from milepost.errors import IndexMismatchError, ReindexConflict

NS = ("notes",)
LETTERS = "abcdefgh"
ROUNDS = 40


class Reversed(Model):
    def vector(self, text):
        return super().vector(text)[::-1]


def index(embed, model):
    return {"embed": embed, "dims": embed.dims, "fields": ["text"], "model": model}


@pytest.mark.parametrize("stores", ["sqlite-sync", "postgres-sync", "redis-sync"], indirect=True)
def test_items_are_found_by_meaning_whoever_put_them_beside_reindexes_and_sweeps(stores):
    old, new = index(Model(9), "one"), index(Reversed(9), "two")
    opened = {name: stores.open(index=new if "new" in name else old) for name in NAMES}
    for store in opened.values():
        store.store.setup()
    there: dict[str, str] = {}
    failures: list[BaseException] = []
    writers = threading.Event()

    def write(name):
        store, dice = opened[name], random.Random(name)
        mine = {}
        for number in range(ROUNDS):
            key = f"{name}-{dice.randrange(8)}"
            if dice.random() < 0.2:
                store.delete(NS, key)
                mine.pop(key, None)
                continue
            text = "".join(dice.choices(LETTERS, k=5))
            try:
                store.put(NS, key, {"text": text, "n": number}, ttl=1000)
            except IndexMismatchError:
                continue  # its model has not made vectors yet
            mine[key] = text
            store.get(NS, key)
        there.update(mine)

    def reindex(name):
        while not writers.is_set():
            with suppress(ReindexConflict):
                opened[name].reindex(batch_size=5)

    def sweep(name):
        while not writers.is_set():
            opened[name].sweep_ttl()

    def guarded(act, name):
        try:
            act(name)
        except BaseException as error:
            failures.append(error)

    acts = {"writer": write, "reindexer": reindex, "sweeper": sweep}
    threads = {
        name: threading.Thread(target=guarded, args=(acts[name.split()[0]], name), daemon=True)
        for name in NAMES
    }
    for thread in threads.values():
        thread.start()
    for name, thread in threads.items():
        if name.startswith("writer"):
            thread.join(2 * LIMIT)
            assert not thread.is_alive()
    writers.set()
    for thread in threads.values():
        thread.join(2 * LIMIT)
        assert not thread.is_alive()
    assert failures == []
    opened["reindexer new"].reindex()
    last = opened["reindexer new"]
    assert {item.key for item in last.search(NS, limit=100)} == there.keys()
    assert {item.key for item in last.search(NS, query="a", limit=100)} == there.keys()
    for key, text in there.items():
        best = last.search(NS, query=text, limit=len(there))
        assert next(item.score for item in best if item.key == key) == pytest.approx(1, abs=1e-4)
    if not stores.has_sql:
        return
    (table,) = stores.vector_tables()
    assert stores.rows(f"SELECT count(*) FROM {table}") == [(len(there),)]


NAMES = [
    "writer old 1",
    "writer old 2",
    "writer new 1",
    "writer new 2",
    "reindexer new",
    "reindexer old",
    "sweeper old",
]
