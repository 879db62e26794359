"""The saver that a `langgraph.json` can name: configured by the environment alone."""

from __future__ import annotations

import asyncio
import operator
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.errors import ThreadConflict
from milepost.integrations.langgraph.server import ServerSettingsError, checkpointer

pytest.importorskip("langgraph.graph")

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph

THREAD: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def hello(state: State) -> dict[str, Any]:
    return {"log": ["a word in clear"]}


async def chat(text: str) -> list[str]:
    async with checkpointer() as saver:
        assert isinstance(saver, BaseCheckpointSaver)
        builder = StateGraph(State).add_node(hello).add_edge(START, "hello")
        result = await builder.compile(checkpointer=saver).ainvoke({"log": [text]}, THREAD)
        return list(result["log"])


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def address(request: Any, tmp_path: Path, monkeypatch: Any) -> str:
    if request.param == "sqlite":
        found = f"sqlite:///{tmp_path}/threads.db"
    else:
        found = request.getfixturevalue("new_database")()
    monkeypatch.setenv("MILEPOST_DB", found)
    return found


def test_a_thread_is_kept_where_the_environment_says(address):
    assert asyncio.run(chat("one")) == ["one", "a word in clear"]
    assert asyncio.run(chat("two"))[2:] == ["two", "a word in clear"]


def test_of_two_workers_on_one_thread_the_second_is_refused(address, monkeypatch):
    async def stale() -> None:
        async with checkpointer() as saver:
            head = await saver.aget_tuple(THREAD)
            assert head is not None
            await chat("another worker")
            late: Any = {**head.checkpoint, "id": "f" + head.checkpoint["id"][1:]}
            await saver.aput(head.config, late, {"source": "loop", "step": 5, "parents": {}}, {})

    asyncio.run(chat("one"))
    with pytest.raises(ThreadConflict):
        asyncio.run(stale())
    monkeypatch.setenv("MILEPOST_FENCE", "0")
    asyncio.run(stale())


def test_values_are_sealed_with_the_key_in_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "sealed.db"
    monkeypatch.setenv("MILEPOST_DB", f"sqlite:///{file}")
    monkeypatch.setenv("MILEPOST_AES_KEY", "k" * 32)
    asyncio.run(chat("one"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert b"a word in clear" not in file.read_bytes()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "MILEPOST_DB is not set"),
        ({"MILEPOST_DB": "mysql://host/x"}, "MILEPOST_DB names no database"),
        ({"MILEPOST_DB": "sqlite:///x.db", "MILEPOST_TYPES": "no.such"}, "'no.such'"),
        ({"MILEPOST_DB": "postgresql://h/d", "MILEPOST_POOL_SIZE": "many"}, "MILEPOST_POOL_SIZE"),
    ],
)
def test_wrong_settings_are_refused_when_the_server_starts(settings, said, monkeypatch):
    monkeypatch.delenv("MILEPOST_DB", raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ServerSettingsError, match=said):
        asyncio.run(chat("one"))
