"""How much of a run has spans, and what a run costs that is not sampled."""

from collections import Counter

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from traced_graphs import State, story

from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph
from milepost.observe import instrument, uninstrument

STEPS = 10


def chain():
    builder = StateGraph(State)
    for at in range(STEPS):
        builder.add_node(f"n{at}", lambda state: {"log": [1]})
        builder.add_edge(f"n{at - 1}" if at else START, f"n{at}")
    return builder.compile(checkpointer=InMemorySaver(), name="chain")


def kinds(spans):
    return Counter(span.name.partition(" ")[0] for span in spans)


@pytest.mark.parametrize(
    ("detail", "in_steps"),
    [
        ("run", {}),
        ("task", {"task": STEPS}),
        ("all", {"task": STEPS, "super_step": STEPS, "commit": STEPS + 1}),
    ],
)
def test_each_detail_has_a_known_number_of_spans(run, config, recorded, detail, in_steps):
    recorded.instrument(detail=detail)
    run.invoke(chain(), {"log": []}, config, durability="sync")

    assert kinds(recorded.spans()) == {"invoke_workflow": 1, "load": 1, **in_steps}


def test_tasks_are_right_below_their_runs_without_super_steps(run, config, recorded):
    recorded.instrument(detail="task")
    graph = story().compile(checkpointer=InMemorySaver(), name="outer")
    run.invoke(graph, {"log": []}, config)

    assert recorded.tree() == [
        "invoke_workflow outer",
        "  load",
        "  task ask",
        "  task flaky",
        "    attempt 1",
        "    attempt 2",
        "  task inside",
        "    invoke_workflow inner",
        "      task deep",
    ]


def test_without_tasks_the_span_of_the_run_is_current_in_nodes(run, recorded):
    def node(state):
        with recorded.tracer.start_as_current_span("mine"):
            return {"log": [1]}

    recorded.instrument(detail="run")
    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    run.invoke(builder.compile(name="graph"), {"log": []})

    assert recorded.path(recorded.one("mine")) == ["invoke_workflow graph", "mine"]


def test_a_run_that_is_not_sampled_is_measured_and_its_nodes_are_not_sampled(run, config, recorded):
    seen = []

    def node(state):
        seen.append(trace.get_current_span().get_span_context())

    unsampled = TracerProvider(ALWAYS_OFF, shutdown_on_exit=False)
    instrument(unsampled, recorded.meters)
    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    run.invoke(builder.compile(checkpointer=InMemorySaver(), name="graph"), {"log": []}, config)

    (current,) = seen
    assert current.is_valid
    assert not current.trace_flags.sampled
    (step,) = recorded.points("milepost.step.duration")
    assert step.count == 1


def test_a_run_that_is_not_sampled_makes_no_spans_inside(run, config, recorded):
    begun = []

    class Counting(TracerProvider):
        def get_tracer(self, *named, **more):
            tracer = super().get_tracer(*named, **more)
            start = tracer.start_span
            tracer.start_span = lambda name, *a, **k: (begun.append(name), start(name, *a, **k))[1]
            return tracer

    instrument(Counting(ALWAYS_OFF, shutdown_on_exit=False), recorded.meters)
    run.invoke(chain(), {"log": []}, config)

    assert begun == ["invoke_workflow chain", "load"]


def test_an_unknown_detail_is_refused():
    with pytest.raises(ValueError, match="run, task, all"):
        instrument(detail="steps")
    uninstrument()
