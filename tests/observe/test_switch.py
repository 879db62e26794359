"""Tracing is off until it is switched on, and says nothing of the state unless asked to."""

import json
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from recorded import text_of
from traced_graphs import State

from milepost._engine.observers import WATCHERS
from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph
from milepost.observe import instrument, uninstrument
from milepost.types import Command, interrupt

UNTRACED = """
import sys
import milepost.observe
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph

with SqliteSaver.from_conn_string(":memory:") as saver:
    builder = StateGraph(dict).add_node("node", lambda state: {"a": 1}).add_edge(START, "node")
    builder.compile(checkpointer=saver).invoke({"a": 0}, {"configurable": {"thread_id": "t"}})
milepost.observe.uninstrument()
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""

MISSING = """
import sys
sys.modules["opentelemetry"] = None
from milepost.observe import instrument
try:
    instrument()
except ImportError as error:
    print(error)
"""


def output_of(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.strip()


def test_nothing_of_opentelemetry_is_imported_before_it_is_switched_on():
    assert output_of(UNTRACED) == "[]"


def test_without_opentelemetry_the_error_says_what_to_install():
    assert "pip install 'milepost[otel]'" in output_of(MISSING)


def small():
    return StateGraph(State).add_node("node", lambda s: {"log": [1]}).add_edge(START, "node")


def test_after_uninstrument_no_run_is_traced(run, recorded):
    uninstrument()
    run.invoke(small().compile(), {"log": []})
    assert recorded.spans() == ()


def test_a_second_instrument_takes_the_place_of_the_first(run, recorded):
    before = len(WATCHERS)
    recorded.instrument()
    assert len(WATCHERS) == before
    run.invoke(small().compile(name="graph"), {"log": []})
    assert len(recorded.named("invoke_workflow graph")) == 1


def test_without_providers_those_of_the_process_are_used(run):
    before = list(WATCHERS)
    instrument()
    try:
        assert run.invoke(small().compile(), {"log": []}) == {"log": [1]}
    finally:
        uninstrument()
    assert before == WATCHERS


def test_auto_instrumentation_finds_the_entry_point(run, recorded):
    uninstrument()
    (found,) = entry_points(group="opentelemetry_instrumentor", name="milepost")
    instrumentor = found.load()()
    instrumentor.instrument(tracer_provider=recorded.tracers, meter_provider=recorded.meters)
    run.invoke(small().compile(name="graph"), {"log": []})
    instrumentor.uninstrument()
    run.invoke(small().compile(name="later"), {"log": []})

    assert len(recorded.named("invoke_workflow graph")) == 1
    assert recorded.named("invoke_workflow later") == []


CANARY = "canary-4711"


def sing(run, config):
    """A run in which every place has the canary that a value of a user can come to."""

    def fails(state):
        raise LookupError(f"what {CANARY} said")

    def handles(state):
        return {"log": [CANARY, interrupt({"ask": CANARY})]}

    builder = StateGraph(State).add_node("handles", handles).add_node("fails", fails)
    builder.add_edge(START, "handles").add_edge("handles", "fails")
    graph = builder.compile(checkpointer=InMemorySaver(), name="graph")
    run.invoke(graph, {"log": [CANARY]}, config)
    with pytest.raises(LookupError):
        run.invoke(graph, Command(resume=CANARY), config)
    run.update_state(graph, config, {"log": [CANARY]}, as_node="fails")


def test_no_value_is_in_any_span_or_measurement(run, config, recorded):
    sing(run, config)
    assert len(recorded.spans()) > 10
    assert CANARY not in text_of(recorded.spans())
    assert CANARY not in recorded.reader.get_metrics_data().to_json()


def test_values_are_recorded_if_that_is_switched_on(run, config, recorded):
    recorded.instrument(record_values=True)
    sing(run, config)

    paused, failed = recorded.named("invoke_workflow graph")
    assert paused.attributes["milepost.input"] == repr({"log": [CANARY]})
    assert CANARY in json.dumps([dict(event.attributes) for event in paused.events])
    assert failed.status.description == f"LookupError: what {CANARY} said"
    outputs = [
        span.attributes.get("milepost.output", "") for span in recorded.named("task handles")
    ]
    assert repr({"log": [CANARY, CANARY]}) in outputs


def test_a_value_without_a_repr_does_not_fail_the_run(run, recorded):
    class Shy:
        def __repr__(self):
            raise ValueError

    recorded.instrument(record_values=True)
    run.invoke(small().compile(name="graph", checkpointer=False), {"log": [Shy()]})
    shown = recorded.one("invoke_workflow graph").attributes["milepost.input"]
    assert "its repr fails with ValueError" in shown
