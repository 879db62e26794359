"""A run is linked with the run that stopped where it goes on."""

import pytest
from traced_graphs import State, story

from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph
from milepost.integrations._otel.spans import from_text
from milepost.observe import uninstrument
from milepost.types import Command, interrupt


def links_of(span):
    return [(link.context.span_id, link.attributes["milepost.link"]) for link in span.links]


def test_a_replay_links_to_the_run_that_made_the_checkpoint(run, saver, config, recorded):
    graph = story().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config)
    first = recorded.one("invoke_workflow outer").context
    past = run.history(graph, config)[-1]
    recorded.clear()
    run.invoke(graph, None, past.config)

    assert links_of(recorded.one("invoke_workflow outer")) == [(first.span_id, "fork")]


def test_a_run_after_an_update_links_to_the_run_that_was_updated(run, saver, config, recorded):
    graph = story().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config)
    first = recorded.one("invoke_workflow outer").context
    updated = run.update_state(graph, config, {"log": ["more"]}, as_node="ask")
    recorded.clear()
    run.invoke(graph, None, updated)

    assert links_of(recorded.one("invoke_workflow outer")) == [(first.span_id, "resume")]


def test_a_new_input_on_the_thread_links_to_the_run_before(run, saver, config, recorded):
    graph = story().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config)
    first = recorded.one("invoke_workflow outer").context
    recorded.clear()
    run.invoke(graph, {"log": []}, config)

    assert links_of(recorded.one("invoke_workflow outer")) == [(first.span_id, "continue")]


def test_a_run_after_a_failure_links_to_the_run_that_failed(run, saver, config, recorded):
    builder = story()
    failures = [LookupError()]

    def last(state):
        if failures:
            raise failures.pop()

    builder.add_node("last", last).add_edge("ask", "last")
    graph = builder.compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config)
    recorded.clear()
    with pytest.raises(LookupError):
        run.invoke(graph, Command(resume="yes"), config)
    failed = recorded.one("invoke_workflow outer").context
    recorded.clear()
    run.invoke(graph, None, config)

    assert links_of(recorded.one("invoke_workflow outer")) == [(failed.span_id, "resume")]


def asks_twice():
    def ask(state):
        return {"log": [interrupt("sure?"), interrupt("really?")]}

    builder = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
    return builder.add_node("last", lambda state: None).add_edge("ask", "last")


def test_a_run_after_a_second_pause_in_a_step_links_to_the_one_that_paused_last(
    run, saver, durability, config, recorded
):
    graph = asks_twice().compile(checkpointer=saver, name="outer")
    paused = []
    for answer in ({"log": []}, Command(resume="yes"), Command(resume="oh yes")):
        recorded.clear()
        result = run.invoke(graph, answer, config, durability=durability)
        paused.append(recorded.one("invoke_workflow outer"))

    assert result == {"log": ["yes", "oh yes"]}
    first, second, third = paused
    assert links_of(second) == [(first.context.span_id, "resume")]
    assert links_of(third) == [(second.context.span_id, "resume")]


def test_an_update_after_a_second_pause_keeps_the_run_that_paused_last(
    run, saver, config, recorded
):
    graph = asks_twice().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config)
    recorded.clear()
    run.invoke(graph, Command(resume="yes"), config)
    second = recorded.one("invoke_workflow outer")
    run.update_state(graph, config, {"log": ["mine"]}, as_node="ask")
    recorded.clear()
    run.invoke(graph, None, config)
    assert links_of(recorded.one("invoke_workflow outer")) == [(second.context.span_id, "resume")]


def test_answers_of_runs_that_are_not_traced_are_stored_alone(run, saver, config, recorded):
    uninstrument()
    graph = asks_twice().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config)
    run.invoke(graph, Command(resume="yes"), config)
    (found, *_) = run.saver(saver, "list", config)
    assert "__traced__" not in [channel for _, channel, _ in found.pending_writes]


def test_the_metadata_of_checkpoints_has_a_trace_only_if_runs_are_traced(run, config, recorded):
    graph = story().compile(checkpointer=InMemorySaver(), name="outer")
    run.invoke(graph, {"log": []}, config)
    root = recorded.one("invoke_workflow outer").context
    traced = run.history(graph, config)
    assert len(traced) > 1
    for state in traced:
        kept = from_text(state.metadata["milepost_trace"])
        assert (kept.trace_id, kept.span_id) == (root.trace_id, root.span_id)

    uninstrument()
    other = {"configurable": {"thread_id": "untraced"}}
    run.invoke(graph, {"log": []}, other)
    run.update_state(graph, other, {"log": []}, as_node="ask")
    untraced = run.history(graph, other)
    assert len(untraced) == len(traced) + 1  # the update
    for state in untraced:
        assert set(state.metadata) == {"source", "step", "parents"}


@pytest.mark.parametrize(
    "text", [None, 7, "", "00-0-0-00", f"01-{1:032x}-{1:016x}-01", "a-b-c-d", "00-1-1-01-x"]
)
def test_what_is_no_trace_context_gives_no_link(text):
    assert from_text(text) is None
