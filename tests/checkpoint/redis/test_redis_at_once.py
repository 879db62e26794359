"""A run that stores several steps at once: its inner graphs run side by side, and nothing locks the
thread on Redis."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytest.importorskip("redis")

from hitl_graphs import State, step
from milepost.checkpoint._contract.step_saver import Fence
from milepost.checkpoint.redis import RedisSaver
from milepost.graph import START, StateGraph


@pytest.mark.parametrize("scripts", [True, False])
def test_a_run_is_not_refused_because_of_its_own_other_step(
    redis_url, config, trace, monkeypatch, scripts
):
    inner = (
        StateGraph(State).add_node("work", step(trace, "work")).add_edge(START, "work").compile()
    )
    builder = StateGraph(State)
    builder.add_node("first", step(trace, "first"))
    for name in ("left", "right"):
        builder.add_node(name, inner).add_edge("first", name)
    builder.add_edge(START, "first")
    with RedisSaver.from_conn_string(redis_url) as saver:
        saver.settings.scripts = scripts
        graph = builder.compile(checkpointer=saver, interrupt_before=["left", "right"])
        graph.invoke({"log": []}, config)

        has_read, is_stored = threading.Event(), threading.Event()
        check, settle = Fence.check, saver._storer.settle

        def wait_for_the_other(fence: Fence, *args: Any) -> None:
            if not has_read.is_set():
                has_read.set()
                assert is_stored.wait(10)
            check(fence, *args)

        def tell_the_other(*args: Any) -> None:
            settle(*args)
            is_stored.set()

        monkeypatch.setattr(Fence, "check", wait_for_the_other)
        monkeypatch.setattr(saver._storer, "settle", tell_the_other)
        # What the run stores first is of its inner graphs, which begin together.
        result = graph.invoke(None, config, durability="sync")
        assert result == {"log": ["first", *["first", "work"] * 2]}
        assert has_read.is_set()
