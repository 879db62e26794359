"""A program that overrides the writing methods of a saver sees them called, as in LangGraph."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import pytest
from typing_extensions import TypedDict

from both import names_of
from milepost.errors import CheckpointError
from milepost.warnings import MilepostWarning

T: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    a: int


def _graph(lib: Any, saver: Any, **options: Any) -> Any:
    builder = lib.StateGraph(State).add_node("n", lambda state: {"a": state["a"] + 1})
    return builder.add_edge(lib.START, "n").compile(checkpointer=saver, **options)


def _recording(root: str) -> Any:
    base: Any = import_module(f"{root}.checkpoint.memory").InMemorySaver

    class Recording(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.steps: list[int] = []
            self.written: list[str] = []

        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            self.steps.append(metadata["step"])
            return super().put(config, checkpoint, metadata, new_versions)

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            self.written += [channel for channel, _ in writes]
            super().put_writes(config, writes, task_id, task_path)

    return Recording()


@pytest.mark.filterwarnings("ignore:.*Recording overrides:milepost.warnings.MilepostWarning")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("root", ["langgraph", "milepost"])
def test_a_put_of_the_program_is_called(root: str, durability: str) -> None:
    saver = _recording(root)
    graph = _graph(names_of(root), saver)
    assert graph.invoke({"a": 1}, T, durability=durability) == {"a": 2}
    assert saver.steps == ([1] if durability == "exit" else [-1, 0, 1])
    assert ("a" in saver.written) is (durability != "exit")
    assert graph.get_state(T).values == {"a": 2}
    assert asyncio.run(graph.ainvoke({"a": 5}, T, durability=durability)) == {"a": 6}
    assert saver.steps[-1] == 4


@pytest.mark.parametrize("root", ["langgraph", "milepost"])
def test_a_method_that_was_replaced_on_the_saver_itself_is_called(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = names_of(root).InMemorySaver()

    def refuse(*_args: Any) -> Any:
        raise ValueError("not today")

    monkeypatch.setattr(saver, "put", refuse)
    with pytest.raises(Exception, match="not today"):
        _graph(names_of(root), saver).invoke({"a": 1}, T)


def test_overriding_is_told_once_since_it_costs_the_fence() -> None:
    lib = names_of("milepost")
    saver = _recording("milepost")
    with pytest.warns(MilepostWarning, match="Recording overrides put, put_writes") as told:
        _graph(lib, saver).invoke({"a": 1}, T)
    assert len(told) == 1
    _graph(lib, saver).invoke({"a": 1}, T)  # warnings are errors in tests
    with pytest.raises(CheckpointError, match="on_conflict='reject' needs a saver"):
        _graph(lib, saver, on_conflict="reject").invoke({"a": 1}, T)
