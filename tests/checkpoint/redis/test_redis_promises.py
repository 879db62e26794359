"""What the savers on SQL databases offer, the savers on Redis offer too; docs/savers.md says what
differs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("redis")

from graphs import thread, two_nodes
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver
from milepost.checkpoint.sqlite import SqliteSaver

PAGE = Path(__file__).parents[3] / "docs" / "savers.md"


def methods(kind: type) -> set[str]:
    return {
        name for name, one in inspect.getmembers(kind, callable)
        if not name.startswith("_") and not isinstance(one, type)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("on_redis", "on_sql"),
    [(RedisSaver, (SqliteSaver, PostgresSaver)), (AsyncRedisSaver, (AsyncPostgresSaver,))],
)
def test_every_method_that_the_sql_savers_share_is_there_with_the_same_parameters(on_redis, on_sql):
    shared = set.intersection(*(methods(one) for one in on_sql))
    assert shared <= methods(on_redis)
    for name in shared - {"from_conn_string", "setup"}:
        told = [inspect.signature(getattr(one, name)).parameters.keys() for one in on_sql]
        assert inspect.signature(getattr(on_redis, name)).parameters.keys() in told, name


@pytest.mark.parametrize("facet", ["threads", "admin"])
def test_every_method_of_a_facet_of_the_sql_savers_is_there_with_the_same_parameters(
    facet, redis_url, tmp_path
):
    with (
        RedisSaver.from_conn_string(redis_url) as on_redis,
        SqliteSaver.from_conn_string(str(tmp_path / "t.db")) as on_sqlite,
    ):
        assert methods(type(getattr(on_sqlite, facet))) <= methods(type(getattr(on_redis, facet)))


def named_on_the_page() -> set[str]:
    """`saver.x(…)` and `saver.threads.x(…)` in docs/savers.md."""
    found = re.findall(r"\bsaver\.((?:threads\.|admin\.)?[a-z_]+)\(", PAGE.read_text())
    return set(found)


def test_every_call_of_a_saver_that_the_page_shows_can_be_made_on_redis(redis_url):
    assert "threads.set_ttl" in named_on_the_page()
    with RedisSaver.from_conn_string(redis_url) as saver:
        for name in named_on_the_page():
            target: Any = saver
            for part in name.split("."):
                target = getattr(target, part)
            assert callable(target), name


def test_the_calls_that_concern_a_whole_database_do_their_work_on_redis(redis_url):
    """Those that no graph makes."""
    with RedisSaver.from_conn_string(redis_url) as saver:
        graph = two_nodes().compile(checkpointer=saver)
        for name in ("a", "b", "gone"):
            graph.invoke({"foo": ""}, thread(name))
        before = graph.get_state(thread("a")).values
        lines = list(saver.dump(["a"]))
        saver.delete_thread("a")
        saver.erase(["gone"])
        saver.prune(["b"])
        saver.vacuum()
        assert [one.thread_id for one in saver.list_threads()] == ["b"]
        assert len(list(saver.list(thread("b")))) == 1
        assert saver.load(lines) == ["a"]
        assert graph.get_state(thread("a")).values == before
        assert saver.verify() == []


def test_no_row_of_the_page_says_that_something_is_not_written_yet():
    assert "not written yet" not in PAGE.read_text()
