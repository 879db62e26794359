"""The recipes of docs/observability.md, as they are written there."""

import importlib.util
import re
import sys
import time
from pathlib import Path

import pytest
from recorded import Recorded
from traced_graphs import State

from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph
from milepost.observe import uninstrument

PAGE = Path(__file__).parents[2] / "docs" / "observability.md"


def recipe(name):
    """The code on the page that has this name in it."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if name in block]
    return found


@pytest.fixture
def traced():
    recorded = Recorded()
    recorded.instrument()
    yield recorded
    uninstrument()
    recorded.close()


def test_the_slow_node_of_a_thread_is_found(traced, capsys):
    def slow(state):
        time.sleep(0.05)

    builder = StateGraph(State).add_node("quick", lambda state: None).add_node("slow", slow)
    builder.add_edge(START, "quick").add_edge("quick", "slow")
    graph = builder.compile(checkpointer=InMemorySaver())
    names = {
        "provider": traced.tracers,
        "graph": graph,
        "input": {"log": []},
        "config": {"configurable": {"thread_id": "t-1"}},
    }
    graph.invoke({"log": []}, {"configurable": {"thread_id": "other"}})
    exec(recipe("def time_of_nodes"), names)

    found = names["time_of_nodes"]("t-1")
    assert {node for node, _ in found} == {"quick", "slow"}
    assert found == sorted(found, key=lambda item: -item[1])
    assert dict(found)["slow"] >= 0.05
    (task,) = [
        span
        for span in traced.named("task slow")
        if span.attributes["gen_ai.conversation.id"] == "t-1"
    ]
    assert dict(found)["slow"] == (task.end_time - task.start_time) / 1e9
    assert "slow" in capsys.readouterr().out


def test_a_thread_is_a_session_in_tools_that_look_for_one(traced, config):
    names = {"provider": traced.tracers}
    exec(recipe("class ThreadAsSession"), names)
    builder = StateGraph(State).add_node("node", lambda state: None).add_edge(START, "node")
    builder.compile(checkpointer=InMemorySaver(), name="graph").invoke({"log": []}, config)

    for name in ("invoke_workflow graph", "task node"):
        attributes = traced.one(name).attributes
        assert attributes["session.id"] == "t"
        assert attributes["langsmith.metadata.thread_id"] == "t"


def test_the_picture_has_the_spans_that_its_program_draws(monkeypatch):
    """Not how many: tasks that end at the same time share a commit."""
    program = PAGE.parents[1] / "tools" / "draw_trace.py"
    spec = importlib.util.spec_from_file_location("draw_trace", program)
    drawing = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "draw_trace", drawing)
    spec.loader.exec_module(drawing)
    drawn = drawing.draw(drawing.recorded())
    kept = (PAGE.parent / "img" / "trace.svg").read_text("utf-8")
    names = r"<text[^>]*>([^<]*)</text>"
    assert set(re.findall(names, drawn)) == set(re.findall(names, kept))
