"""milepost's savers in LangGraph's graphs."""

from __future__ import annotations

import asyncio
import importlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import stories
from libraries import LANGGRAPH, MILEPOST, opened
from stories import STORIES, line, says, thread

from milepost._db.sqlite.engine import open_sqlite
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import MilepostError, SerializationError, UnregisteredTypeError
from milepost.integrations.langgraph import as_langgraph
from milepost.integrations.langgraph._formats.records import shared
from milepost.types import Interrupt
from milepost.warnings import MilepostWarning

pytest.importorskip("langgraph.checkpoint.conformance")

from langgraph.checkpoint.base import BaseCheckpointSaver as TheirSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.memory import InMemorySaver as TheirInMemorySaver
from langgraph.types import Interrupt as TheirInterrupt

KINDS = [
    "memory",
    "encrypted",
    "sqlite",
    "sqlite-async",
    "postgres",
]


@pytest.fixture(params=KINDS)
def saver(request: Any, opener: Any, tmp_path: Any) -> Any:
    """One of milepost's savers."""
    match request.param:
        case "encrypted":
            serde = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32)
            return InMemorySaver(serde=serde)
        case "sqlite-async":  # not on the loop of the test
            saver = AsyncSqliteSaver(open_sqlite(str(tmp_path / "threads.db")))
            opener.later(saver.engine.close)
            return saver
        case kind:
            return opened("milepost", "Saver", kind, request)


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_langgraph_program_sees_what_it_sees_with_its_own_saver(story, saver, run):
    expected = story(LANGGRAPH, TheirInMemorySaver(), run)
    assert story(LANGGRAPH, as_langgraph(saver, types=[stories]), run) == expected


def test_our_saver_becomes_one_of_langgraphs_savers():
    assert isinstance(as_langgraph(InMemorySaver()), TheirSaver)


def test_only_a_milepost_saver_is_adapted():
    with pytest.raises(TypeError, match="as_langgraph needs a milepost saver"):
        as_langgraph(TheirInMemorySaver())


# -- LangGraph's own conformance suite


@checkpointer_test(name="memory")
async def on_memory():
    yield as_langgraph(InMemorySaver())


@checkpointer_test(name="sqlite")
async def on_sqlite():
    with SqliteSaver.from_conn_string(":memory:") as saver:
        yield as_langgraph(saver)


@checkpointer_test(name="sqlite-async")
async def on_async_sqlite():
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        yield as_langgraph(saver)


@pytest.mark.parametrize("kind", [on_memory, on_sqlite, on_async_sqlite], ids=lambda k: k.name)
def test_every_capability_of_the_conformance_suite_passes(kind):
    check(asyncio.run(validate(kind)))


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_every_capability_of_the_conformance_suite_passes_on_postgres(colour, new_database):
    from milepost.checkpoint.postgres import PostgresSaver
    from milepost.checkpoint.postgres.aio import AsyncPostgresSaver

    @checkpointer_test(name="postgres")
    async def on_postgres():
        if colour == "sync":
            with PostgresSaver.from_conn_string(new_database()) as saver:
                saver.setup()
                yield as_langgraph(saver)
        else:
            async with AsyncPostgresSaver.from_conn_string(new_database()) as saver:
                await saver.setup()
                yield as_langgraph(saver)

    check(asyncio.run(validate(on_postgres)))


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_every_capability_of_the_conformance_suite_passes_on_redis(colour, redis_server):
    from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver

    made = iter(range(1000))

    @checkpointer_test(name="redis")
    async def on_redis():
        prefix = f"conformance-{colour}-{next(made)}"
        if colour == "sync":
            with RedisSaver(redis_server.url, checkpoint_prefix=prefix) as saver:
                yield as_langgraph(saver)
        else:
            async with AsyncRedisSaver(redis_server.url, checkpoint_prefix=prefix) as saver:
                yield as_langgraph(saver)

    check(asyncio.run(validate(on_redis)))


def check(report: Any) -> None:
    assert report.results.keys() == {capability.value for capability in Capability}
    for name, result in report.results.items():
        assert result.detected, name
        assert result.passed, (name, result.failures)
        assert result.tests_passed > 0, name


# -- what may be read back


@dataclass
class Visible:
    n: int


def keeping(value: Any, saver: Any) -> Any:
    return line(LANGGRAPH, ("keep", lambda state: {"log": [value]})).compile(checkpointer=saver)


def test_types_of_the_calling_module_are_allowed():
    graph = keeping(Visible(1), as_langgraph(InMemorySaver()))
    graph.invoke({"log": []}, thread())
    assert graph.get_state(thread()).values == {"log": [Visible(1)]}


def hidden() -> type[Any]:
    """A type of a module that this one does not show."""
    found: type[Any] = importlib.import_module("unseen").Hidden
    return found


def test_a_type_that_is_not_allowed_is_kept_with_a_warning():
    graph = keeping(hidden()(1), as_langgraph(InMemorySaver()))
    with pytest.warns(MilepostWarning, match=r"unseen\.Hidden"):
        graph.invoke({"log": []}, thread())
    assert graph.get_state(thread()).values == {"log": [hidden()(1)]}


def test_under_strict_rules_it_is_refused_with_its_name_and_the_way_to_allow_it(monkeypatch):
    monkeypatch.setenv("MILEPOST_STRICT", "1")
    graph = keeping(hidden()(1), as_langgraph(InMemorySaver()))
    with pytest.raises(SerializationError) as refused:
        graph.invoke({"log": []}, thread())
    assert "unseen.Hidden" in str(refused.value)
    assert "as_langgraph(saver, types=[Hidden])" in str(refused.value)


def test_types_says_what_else_may_be_kept():
    graph = keeping(hidden()(1), as_langgraph(InMemorySaver(), types=[hidden()]))
    graph.invoke({"log": []}, thread())
    assert graph.get_state(thread()).values == {"log": [hidden()(1)]}


def test_what_was_stored_is_not_read_without_being_allowed():
    saver = InMemorySaver()
    keeping(hidden()(1), as_langgraph(saver, types=[hidden()])).invoke({"log": []}, thread())
    with pytest.raises(UnregisteredTypeError) as refused:
        as_langgraph(saver).get_tuple(thread())
    assert "'unseen:Hidden'" in str(refused.value)
    assert "as_langgraph(saver, types=[Hidden])" in str(refused.value)


def test_the_allowlist_that_langgraph_passes_is_heard():
    saver = InMemorySaver()
    allowed = as_langgraph(saver).with_allowlist({(stories.__name__, "Order")})
    graph = keeping(stories.Order("pen"), allowed)
    graph.invoke({"log": []}, thread())
    assert graph.get_state(thread()).values == {"log": [stories.Order("pen")]}


# -- one storage for both libraries


def test_a_thread_of_langgraph_goes_on_in_milepost_on_the_same_saver(saver, run):
    theirs = line(LANGGRAPH, says("a")).compile(checkpointer=as_langgraph(saver))
    run.invoke(theirs, {"log": ["theirs"]}, thread())
    ours = line(MILEPOST, says("a")).compile(checkpointer=saver)
    assert run.invoke(ours, {"log": ["ours"]}, thread()) == {"log": ["theirs", "a", "ours", "a"]}
    assert run.invoke(theirs, {"log": []}, thread())["log"][-2:] == ["a", "a"]


def test_records_are_stored_under_milepost_names():
    saver = InMemorySaver()
    keeping(TheirInterrupt("v", id="i"), as_langgraph(saver)).invoke({"log": []}, thread())
    found = saver.get_tuple(thread())
    assert found.checkpoint["channel_values"]["log"] == [MILEPOST.Interrupt("v", "i")]


def test_the_saver_itself_is_left_as_it_was():
    saver = InMemorySaver()
    before = saver.serde
    as_langgraph(saver)
    assert saver.serde is before


def test_under_langgraphs_strict_mode_the_types_of_the_schema_are_allowed():
    program = """
import stories, sys
from typing_extensions import TypedDict
from langgraph.graph import StateGraph, START
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.memory import InMemorySaver
from milepost.integrations.langgraph import as_langgraph

builder = StateGraph(stories.Shop)
builder.add_node("buy", lambda state: {"order": stories.Order("pen")})
builder.add_edge(START, "buy")
graph = builder.compile(checkpointer=as_langgraph(InMemorySaver()))
config = {"configurable": {"thread_id": "t"}}
graph.invoke({"log": []}, config)
print(graph.get_state(config).values["order"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
    )
    assert done.stdout == "Order(item='pen', count=1)\n", done.stderr


class FiveMethods(BaseCheckpointSaver[str]):
    """A saver of somebody else's, in one colour, with no more than it must have."""

    def __init__(self) -> None:
        super().__init__()
        self._inner = InMemorySaver()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "serde":
            self._inner.serde = value

    def get_tuple(self, config):
        return self._inner.get_tuple(config)

    def list(self, config, *, filter=None, before=None, limit=None):
        return self._inner.list(config, filter=filter, before=before, limit=limit)

    def put(self, config, checkpoint, metadata, new_versions):
        return self._inner.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config, writes, task_id, task_path=""):
        self._inner.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id):
        self._inner.delete_thread(thread_id)

    def get_next_version(self, current, channel):
        return self._inner.get_next_version(current, channel)


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_saver_with_five_methods_in_one_colour_is_enough(story, run):
    expected = story(LANGGRAPH, TheirInMemorySaver(), run)
    assert story(LANGGRAPH, as_langgraph(FiveMethods(), types=[stories]), run) == expected


def test_a_damaged_checkpoint_does_not_hide_newer_ones(tmp_path):
    file = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(file)) as saver:
        graph = line(LANGGRAPH, says("a"), says("b")).compile(checkpointer=as_langgraph(saver))
        graph.invoke({"log": []}, thread())
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE checkpoints SET frame = x'00' WHERE checkpoint_id ="
            " (SELECT MIN(checkpoint_id) FROM checkpoints)"
        )
    with SqliteSaver.from_conn_string(str(file)) as saver:
        listed = as_langgraph(saver).list(thread())
        assert [next(listed).metadata["step"] for _ in range(3)] == [2, 1, 0]
        with pytest.raises(MilepostError):
            next(listed)


def test_a_field_that_an_older_langgraph_does_not_have_is_left_out():
    class Older:
        def __init__(self, value: Any, id: str = "") -> None: ...

    *_, names = shared(Interrupt, Older, "value", "id", "response_schema")
    assert names == ("value", "id")
