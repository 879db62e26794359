"""The functions that make payloads of tasks and checkpoints give what LangGraph's give."""

from __future__ import annotations

import importlib
from collections import deque
from typing import Any

import pytest

T = "11111111-1111-1111-1111-111111111111"
U = "22222222-2222-2222-2222-222222222222"


def lib(root: str) -> dict[str, Any]:
    return {
        name: getattr(importlib.import_module(f"{root}.{home}"), name)
        for name, home in {
            "map_debug_tasks": "pregel.debug",
            "map_debug_task_results": "pregel.debug",
            "map_debug_checkpoint": "pregel.debug",
            "map_task_result_writes": "pregel.debug",
            "is_multiple_channel_write": "pregel.debug",
            "rm_pregel_keys": "pregel.debug",
            "tasks_w_writes": "pregel.debug",
            "PregelExecutableTask": "types",
            "Interrupt": "types",
            "LastValue": "channels",
        }.items()
    }


def task(n: dict[str, Any], id: str, name: str, **config: Any) -> Any:
    return n["PregelExecutableTask"](
        name=name,
        input={"x": 1},
        proc=None,
        writes=deque(),
        config=config,
        triggers=("t",),
        retry_policy=(),
        cache_key=None,
        id=id,
        path=("__pregel_pull", name),
        subgraphs=(object(),) if name == "inner" else (),
    )


def seen(root: str) -> Any:
    n = lib(root)
    a = task(n, T, "a", metadata={"mine": 1, "langgraph_step": 2}, tags=["seq:step:1", "own"])
    inner = task(n, U, "inner")
    hidden = task(n, "h", "hidden", tags=["langsmith:hidden"])
    ask = n["Interrupt"]("q", "i" * 32)
    pending = [(T, "x", 1), (T, "x", 2), (T, "y", 3), (U, "__interrupt__", (ask,))]
    filled = n["LastValue"](int).from_checkpoint(4)
    filled.key = "x"
    config = {
        "configurable": {
            "thread_id": "t",
            "checkpoint_ns": "outer:1",
            "checkpoint_id": "c",
            "__pregel_read": 1,
        }
    }
    [checkpoint] = n["map_debug_checkpoint"](
        config,
        {"x": filled, "y": n["LastValue"](int)},
        ["x", "y"],
        {"source": "loop", "step": 1, "parents": {"": "p"}},
        [a, inner],
        pending,
        None,
        ["x", "y"],
    )
    return (
        list(n["map_debug_tasks"]([a, inner, hidden])),
        list(n["map_debug_task_results"]((a, [("x", 1), ("x", 2), ("z", 1)]), ["x", "y"])),
        [
            {**one, "interrupts": len(one["interrupts"])}
            for one in n["map_debug_task_results"]((a, [("__interrupt__", (ask,))]), "x")
        ],
        n["map_task_result_writes"]([("x", 1), ("x", 2), ("y", 1)]),
        n["is_multiple_channel_write"]({"$writes": [1]}),
        n["is_multiple_channel_write"]({"$writes": 1}),
        n["rm_pregel_keys"](config),
        n["rm_pregel_keys"](None),
        checkpoint,
        [tuple(one)[:4] for one in n["tasks_w_writes"]([a, inner], pending, None, ["x", "y"])],
        [one.result for one in n["tasks_w_writes"]([a, inner], pending, None, "y")],
    )


@pytest.mark.parametrize("at", range(11))
def test_both_libraries_make_the_same(at):
    assert seen("milepost")[at] == seen("langgraph")[at]
