"""What waits in databases of released formats goes on, and their vectors are searched.

The samples are those of `open_sample.py`, on SQLite and on Redis.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from checkpoint import open_sample
from checkpoint.open_sample import ANSWERS, INDEX, LEFT, RAN, answered, at, found, loaded, told
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.store.sqlite import SqliteStore

FORMATS = [path.parent for path in sorted(Path(__file__).parents[1].glob("data/formats/*/open.db"))]
KINDS = ["db", "redis.json"]
Opener = Callable[[str], AbstractContextManager[Any]]


@pytest.fixture(params=FORMATS, ids=lambda folder: folder.name)
def sample(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture(params=KINDS, ids=["sqlite", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(request: pytest.FixtureRequest, sample: Path, kind: str, tmp_path: Path) -> Opener:
    """Opens the saver (`open`) or the store (`vectors`) of the sample."""

    def open_it(name: str) -> AbstractContextManager[Any]:
        path = sample / f"{name}.{kind}"
        if kind == "db":
            copy = str(shutil.copy(path, tmp_path))
            if name == "open":
                return SqliteSaver.from_conn_string(copy)
            return SqliteStore.from_conn_string(copy, index=INDEX)
        from milepost.checkpoint.redis import RedisSaver
        from milepost.store.redis import RedisStore

        url = request.getfixturevalue("redis_url")
        with request.getfixturevalue("redis_server").client() as client:
            loaded(client, json.loads(path.read_text("utf-8")))
        if name == "open":
            return RedisSaver.from_conn_string(url)
        return RedisStore.from_conn_string(url, index=INDEX)

    return open_it


@pytest.fixture
def expected(sample: Path, kind: str) -> Callable[[str], Any]:
    rows = json.loads((sample / "open.json").read_text("utf-8"))
    return lambda name: rows[f"{name}.{kind}"]


def test_what_waits_is_read_as_it_was_written(opened, expected):
    with opened("open") as saver:
        assert json.loads(json.dumps(told(saver))) == expected("open")
        assert saver.verify() == []


@pytest.mark.parametrize("thread_id", ANSWERS)
@pytest.mark.parametrize("copied", [False, True], ids=["itself", "its copy, pruned"])
def test_answers_run_only_what_had_not_ended(opened, thread_id, copied, monkeypatch):
    with opened("open") as saver:
        name = thread_id
        if copied:
            name = f"copy of {thread_id}"
            saver.copy_thread(thread_id, name)
            saver.prune([name], keep=1)
            monkeypatch.setitem(open_sample.GRAPHS, name, open_sample.GRAPHS[thread_id])
        RAN.clear()
        assert answered(saver, name) == ANSWERS[thread_id]
        assert sorted(RAN) == LEFT[thread_id]
        assert saver.verify() == []
        saver.erase([name], vacuum=False)
        assert saver.get_tuple(at(name)) is None


def test_items_are_found_by_meaning_and_can_be_indexed_again(opened, expected):
    with opened("vectors") as store:
        assert json.loads(json.dumps(found(store))) == expected("vectors")
        version = store.get(("docs", "0"), "2").version
        store.put(("docs", "0"), "2", {"text": "aaaaaaaaa"})
        assert store.get(("docs", "0"), "2").version > version
        assert store.search(("docs",), query="aaaaaaaaa")[0].key == "2"
        store.reindex()
        assert store.search(("docs",), query="aaaaaaaaa")[0].key == "2"
