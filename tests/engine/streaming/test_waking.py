"""A consumer is woken once for all events that wait, and never missed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from milepost._engine.streaming.events import Event, EventStream
from milepost.graph import START, StateGraph
from milepost.types import StreamWriter


@pytest.mark.parametrize("face", ["sync", "async"])
def test_every_event_reaches_a_consumer_that_the_node_waits_for(face: str) -> None:
    received = threading.Semaphore(0)

    def node(state: dict[str, Any], writer: StreamWriter) -> None:
        for number in range(3):
            writer(number)
            writer(f"{number} again")
            for _ in range(2):
                assert received.acquire(timeout=10)

    builder = StateGraph(dict)
    builder.add_node("first", node).add_node("second", node)
    graph = builder.add_edge(START, "first").add_edge("first", "second").compile()

    async def heard() -> list[Any]:
        found = []
        async for event in graph.astream({}, stream_mode="custom"):
            found.append(event)
            received.release()
        return found

    if face == "async":
        found = asyncio.run(heard())
    else:
        found = []
        for event in graph.stream({}, stream_mode="custom"):
            found.append(event)
            received.release()
    assert found == [0, "0 again", 1, "1 again", 2, "2 again"] * 2


def test_a_consumer_that_has_not_looked_yet_is_not_woken_again() -> None:
    woken: list[str] = []
    stream = EventStream(frozenset({"custom"}))
    stream.wake = lambda: woken.append("woken")
    for number in range(3):
        stream.push(Event((), "custom", number))
    assert [event.payload for event in stream.undelivered] == [0, 1, 2]
    assert woken == ["woken"]
    stream.woken = False
    stream.push(Event((), "custom", 3))
    assert woken == ["woken", "woken"]
