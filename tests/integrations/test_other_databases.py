"""MongoDB and Cosmos DB, through LangGraph's savers for them and `from_langgraph`.

The packages are not in the `test` extra: install them beside it to run these tests. Behind them is
no server: mongomock, and a container that knows the few queries that the saver makes.
"""

from __future__ import annotations

import asyncio
import inspect
import operator
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt

pytest.importorskip("langgraph.checkpoint.base")
from milepost.integrations.langgraph import from_langgraph

CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    seen: Annotated[list[str], operator.add]


def approval(saver: Any) -> Any:
    """A graph that stops for an answer."""
    builder = StateGraph(State)
    builder.add_node("work", lambda state: {"seen": ["work"]})
    builder.add_node("ask", lambda state: {"seen": [interrupt("go on?")]})
    builder.add_edge(START, "work")
    builder.add_edge("work", "ask")
    return builder.compile(checkpointer=from_langgraph(saver))


class TestMongoDB:
    @pytest.fixture
    def saver(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        mongodb = pytest.importorskip("langgraph.checkpoint.mongodb")
        mongomock = pytest.importorskip("mongomock")
        from mongomock.collection import BulkOperationBuilder

        add_update = BulkOperationBuilder.add_update

        def without_sort(self: Any, *args: Any, sort: Any = None, **options: Any) -> Any:
            """pymongo passes on a parameter that this mongomock does not know."""
            return add_update(self, *args, **options)

        if "sort" not in inspect.signature(add_update).parameters:
            monkeypatch.setattr(BulkOperationBuilder, "add_update", without_sort)
        return mongodb.MongoDBSaver(mongomock.MongoClient(), db_name="graphs")

    def test_a_thread_is_resumed_from_it(self, saver):
        graph = approval(saver)
        assert "__interrupt__" in graph.invoke({"seen": ["in"]}, CONFIG)
        again = approval(saver)  # as another process would
        result = again.invoke(Command(resume="yes"), CONFIG)
        assert result["seen"] == ["in", "work", "yes"]
        history = list(again.get_state_history(CONFIG))
        assert history[0].values["seen"] == ["in", "work", "yes"]
        assert len(history) == 4

    def test_async_runs_use_it_too(self, saver):
        async def play() -> Any:
            graph = approval(saver)
            await graph.ainvoke({"seen": ["in"]}, CONFIG)
            return await graph.ainvoke(Command(resume="yes"), CONFIG)

        assert asyncio.run(play())["seen"] == ["in", "work", "yes"]

    def test_a_thread_can_be_deleted(self, saver):
        graph = approval(saver)
        graph.invoke({"seen": ["in"]}, CONFIG)
        graph.checkpointer.delete_thread("t")
        assert graph.get_state(CONFIG).values == {}


class Container:
    """What the saver uses of a container of Cosmos DB."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], dict[str, Any]] = {}

    async def upsert_item(self, item: dict[str, Any]) -> None:
        self.items[item["partition_key"], item["id"]] = item

    async def create_item(self, item: dict[str, Any]) -> None:
        self.items.setdefault((item["partition_key"], item["id"]), item)

    async def query_items(
        self, query: str, parameters: list[dict[str, Any]], **_: Any
    ) -> AsyncIterator[dict[str, Any]]:
        given = {one["name"]: one["value"] for one in parameters}
        found = [
            item
            for (partition, id), item in sorted(self.items.items(), reverse="DESC" in query)
            if partition == given["@partition_key"]
            and id == given.get("@checkpoint_key", id)
            and ("@before_key" not in given or id < given["@before_key"])
        ]
        for item in found[:1] if "TOP 1" in query else found:
            yield item


class TestCosmosDB:
    def test_a_thread_is_resumed_from_it(self):
        cosmos = pytest.importorskip("langchain_azure_cosmosdb")

        async def play() -> Any:
            saver = cosmos.CosmosDBSaver(Container())
            await approval(saver).ainvoke({"seen": ["in"]}, CONFIG)
            graph = approval(saver)
            result = await graph.ainvoke(Command(resume="yes"), CONFIG)
            return result, [state async for state in graph.aget_state_history(CONFIG)]

        result, history = asyncio.run(play())
        assert result["seen"] == ["in", "work", "yes"]
        assert len(history) == 4

    def test_its_interface_is_the_one_that_the_page_names(self):
        cosmos = pytest.importorskip("langchain_azure_cosmosdb")
        for name in ("CosmosDBSaver", "CosmosDBSaverSync"):
            assert "endpoint" in inspect.signature(getattr(cosmos, name).from_conn_info).parameters
        assert not hasattr(cosmos.CosmosDBStore, "supports_versions")
