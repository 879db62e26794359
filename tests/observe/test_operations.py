"""Reads, updates and pruning have spans too, where they happen."""

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from traced_graphs import State, story

from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import CheckpointNotFoundError
from milepost.graph import START, StateGraph
from milepost.observe import uninstrument


@pytest.fixture
def graph(run, saver, config, recorded):
    graph = story().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config)
    recorded.clear()
    return graph


def test_reading_a_state_has_a_span(run, graph, config, recorded):
    state = run.get_state(graph, config)

    span = recorded.one("get_state")
    assert span.attributes["gen_ai.conversation.id"] == "t"
    assert span.attributes["gen_ai.workflow.name"] == "outer"
    assert (
        span.attributes["milepost.checkpoint_id"] == state.config["configurable"]["checkpoint_id"]
    )


def test_reading_a_history_has_one_span_that_is_not_current_for_the_reader(run, graph, config):
    assert not trace.get_current_span().get_span_context().is_valid
    for _ in graph.get_state_history(config):
        assert not trace.get_current_span().get_span_context().is_valid


def test_reading_a_history_has_one_span(run, graph, config, recorded):
    assert len(run.history(graph, config)) > 1
    assert [span.name for span in recorded.spans()] == ["get_state_history"]


def test_an_update_has_a_span_with_its_checkpoint(run, graph, config, recorded):
    updated = run.update_state(graph, config, {"log": ["more"]}, as_node="ask")

    span = recorded.one("update_state")
    assert span.attributes["gen_ai.conversation.id"] == "t"
    assert span.attributes["milepost.checkpoint_id"] == updated["configurable"]["checkpoint_id"]


def test_a_read_that_fails_is_an_error(run, graph, recorded):
    missing = {"configurable": {"thread_id": "t", "checkpoint_id": "0" * 32}}
    with pytest.raises(CheckpointNotFoundError):
        run.get_state(graph, missing)

    span = recorded.one("get_state")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "milepost.errors.CheckpointNotFoundError"


def test_pruning_has_a_span_that_counts_what_was_removed(run, graph, saver, recorded):
    removed = run.saver(saver, "prune", ["t"], keep=1)

    attributes = recorded.one("prune").attributes
    assert attributes["milepost.removed.checkpoints"] == removed.checkpoints > 0
    assert attributes["milepost.removed.writes"] == removed.writes
    assert attributes["milepost.removed.threads"] == 0


def test_pruning_inside_a_node_is_inside_its_task(run, recorded, config):
    saver = InMemorySaver()

    def node(state):
        saver.prune(["other"])

    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    run.invoke(builder.compile(checkpointer=saver, name="graph"), {"log": []}, config)

    assert recorded.path(recorded.one("prune")) == [
        "invoke_workflow graph",
        "super_step 1",
        "task node",
        "prune",
    ]


def test_spans_of_a_database_client_are_inside_the_operation(run, saver, config, recorded):
    """A client's instrumentation opens its spans below the current one; the saver stands in."""
    graph = story().compile(checkpointer=saver, name="outer")
    seen = []
    usual = saver.get_tuple, saver.aget_tuple

    def get_tuple(where):
        seen.append(trace.get_current_span())
        return usual[0](where)

    async def aget_tuple(where):
        seen.append(trace.get_current_span())
        return await usual[1](where)

    saver.get_tuple, saver.aget_tuple = get_tuple, aget_tuple
    run.get_state(graph, config)

    around = recorded.one("get_state").context.span_id
    assert {span.get_span_context().span_id for span in seen} == {around}


def test_after_uninstrument_operations_have_no_spans(run, graph, saver, config, recorded):
    uninstrument()
    run.get_state(graph, config)
    run.saver(saver, "prune", ["t"])
    assert recorded.spans() == ()
